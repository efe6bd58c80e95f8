"""Every protocol on each database, from sealing to the last check: leases that run out, questions
asked again, amended answers.
"""

from __future__ import annotations

import asyncio
import io
import random
from collections import Counter

import pytest

pytest.importorskip("argon2", reason="the extra 'collect' is not installed")

from noracle.collect.archive import ProjectArchive, read_archive
from noracle.collect.model import HeldQuestion, ProjectSpec
from noracle.collect.service import exports, projects
from noracle.collect.store.base import Store
from noracle.collect.verify import verify_archive
from tests.service.worlds import some_value
from tests.unit.collect.archives import items_of
from tests.unit.collect.service_world import Ready, Service, spec_of

SPECS = {
    "partitioned": spec_of(
        "partitioned",
        k=4,
        gold_rate=0.2,
        panel_items=3,
        reasks=2,
        shuffle_options=True,
        lease_seconds=60,
    ),
    "judge-all": spec_of(
        "judge-all", k=4, shown=3, draws=2, gold_rate=0.2, reasks=1, lease_seconds=60
    ),
    "pick-wrong": spec_of(
        "pick-wrong", k=5, shown=4, trap=True, gold_rate=0.2, reasks=1, lease_seconds=60
    ),
    "ordinary": spec_of(
        "ordinary", k=4, draws=2, annotators=3, gold_rate=0.2, reasks=1, lease_seconds=60
    ),
}


async def work(
    service: Service, ready: Ready, spec: ProjectSpec, rng: random.Random
) -> Counter[str]:
    """Everybody answers to the end; some forget a question until its lease has run out, some change
    their last answer.
    """
    seen: Counter[str] = Counter()
    store, project = service.store, ready.project

    async def step(token: str, place: int) -> bool:
        service.now += 1
        asked = await store.next_question(token, project, now=service.now)
        if asked is None:
            return False
        assert "attention" not in asked.content
        if rng.random() < 0.15:
            service.now += spec.lease_seconds + 1
            seen["forgotten"] += 1
            return True
        value = _value(spec, asked, rng)
        done = await store.answer(
            token,
            project,
            question=asked.question,
            key=asked.key,
            value=value,
            shown_at=service.now - 1,
            client_ms=5,
            now=service.now,
            want_next=False,
        )
        seen["answers"] += 1
        for n in range(rng.choice((0, 0, 0, 1, 2))):
            changed = _value(spec, asked, rng)
            await store.amend(
                token,
                project,
                answer=done.answer,
                key=f"{place}-{seen['answers']}-{n}",
                value=changed,
                now=service.now + 0.5,
            )
            seen["amended"] += 1
        return True

    while True:
        busy = [await step(token, place) for place, token in enumerate(ready.raters.values())]
        if not any(busy):
            return seen


def _value(spec: ProjectSpec, asked: HeldQuestion, rng: random.Random) -> str:
    if rng.random() < 0.2:
        return "|".join(["unsure"] * len(asked.shown)) if spec.protocol == "judge-all" else "unsure"
    return "none" if spec.trap and rng.random() < 0.1 else some_value(spec, asked, rng)


def exported(service: Service, project: int) -> ProjectArchive:
    _, _, data = service.store.read_chained_now(
        project, lambda w: exports.export_one(w, project, "archive")
    )
    archive = read_archive(io.BytesIO(data))
    checked = verify_archive(archive)
    assert checked.passed, checked.findings
    return archive


@pytest.mark.parametrize("protocol", SPECS)
def test_whole_life_of_a_protocol_verifies_before_and_after_closing(
    store: Store, protocol: str
) -> None:
    spec, service, rng = SPECS[protocol], Service(store), random.Random(protocol)
    items = items_of(
        24, n_gold=4, n_attention=2, n_classes=spec.n_classes, options=spec.shuffle_options
    )
    ready = service.ready(spec, items, people_a_pool=4)
    seen = asyncio.run(work(service, ready, spec, rng))
    answers = {item.name: rng.randrange(spec.n_classes) for item in items}
    service.write(
        lambda w: projects.add_system(
            w, ready.project, "s", answers, actor="system", now=service.now
        )
    )
    before = exported(service, ready.project)
    kinds = Counter(event["kind"] for event in before.events)
    assert (kinds["answer"], kinds["amended"], kinds["lease-expired"]) == (
        seen["answers"],
        seen["amended"],
        seen["forgotten"],
    )
    assert min(seen.values()) > 0
    asked_again = service.read(
        lambda w: w.one(
            "SELECT COUNT(*) AS n FROM question WHERE project_id = :p AND kind = 'reask'",
            p=ready.project,
        )
    )
    assert asked_again is not None
    assert asked_again["n"] > 0
    assert before.project["seed"] is None
    service.write(
        lambda w: projects.close_project(w, ready.project, actor="system", now=service.now + 1)
    )
    after = exported(service, ready.project)
    assert after.project["seed"] is not None
    assert len(after.answers) == seen["answers"] + seen["amended"]
    assert before.answers == before.routes == before.judgements == []
    for old, new in zip(before.events, after.events, strict=False):
        assert old == new or old == {**new, "payload": ""}  # questions are told at the end
