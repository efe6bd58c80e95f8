"""An export proves itself: whatever is changed in it is found."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import io
import json
import math
import random
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from noracle.cli import run
from noracle.collect.archive import (
    AGAIN,
    TABLES,
    ProjectArchive,
    read_archive,
    write_archive,
)
from noracle.collect.chain import canonical, event_hash
from noracle.collect.model import SealedRoute
from noracle.collect.service import projects
from noracle.collect.service.exports import archive_of
from noracle.collect.verify import verify_archive
from tests.unit.collect.archives import Project, filled, items_of, judged, spec_of, value_of
from tests.unit.collect.service_world import Ready, Service, open_service

SPECS: dict[str, Any] = {
    "partitioned": spec_of(draws=2, gold_rate=0.2, panel_items=2, reasks=1, shuffle_options=True),
    "judge-all": spec_of(
        "judge-all", shown=3, draws=2, gold_rate=0.2, reasks=2, shuffle_options=True
    ),
    "pick-wrong": spec_of("pick-wrong", shown=3, draws=3, trap=True),
    "ordinary": spec_of("ordinary", annotators=4, draws=2, gold_rate=0.1),
    "targeted": spec_of(gold_rate=0.2),
}


def project_of(name: str, *, close: bool = True, n: int = 10, **more: Any) -> Project:
    spec = SPECS[name]
    items = items_of(
        n, n_gold=3 if spec.gold_rate else 0, n_attention=1 if spec.gold_rate else 0, options=True
    )
    chances = (
        {item.name: [0.4, 0.3, 0.2, 0.1] for item in items if item.truth is None}
        if name == "targeted"
        else None
    )
    return filled(spec, items, chances=chances, close=close, **more)


# -----------------------------------------------------------------------------------------------------
# what is right passes


@pytest.mark.parametrize("texts", [True, False])
@pytest.mark.parametrize("close", [True, False])
@pytest.mark.parametrize("name", SPECS)
def test_what_was_done_right_passes(name: str, close: bool, texts: bool) -> None:
    archive = project_of(name, close=close, n=40).archive(texts=texts)
    result = verify_archive(read_archive(io.BytesIO(archive.to_bytes())))
    assert result.findings == ()
    assert result.passed
    assert result.revealed is close
    statuses = {check.name: check.status for check in result.checks}
    assert statuses.pop("draws") == ("holds" if close else "not yet")
    assert {*statuses.values()} == {"holds"}
    json.dumps(result.to_dict(), allow_nan=False)


def test_a_project_that_is_sealed_but_not_open_passes() -> None:
    project = Project(SPECS["partitioned"], items_of(9, n_gold=3))
    assert verify_archive(project.archive()).passed


def test_what_was_published_must_be_in_the_archive() -> None:
    archive = project_of("partitioned").archive()
    then = archive.events[len(archive.events) // 2]["hash"]
    assert verify_archive(
        archive, published=[archive.project["commitment"].upper(), archive.project["root"], then]
    ).passed
    result = verify_archive(archive, published=["0" * 64])
    assert not result.passed
    assert "another project was published" in result.findings[0]


@pytest.mark.thin(3)
@pytest.mark.parametrize("protocol", ["partitioned", "judge-all", "pick-wrong", "ordinary"])
def test_what_the_store_kept_passes(protocol: Any, tmp_path: Path) -> None:
    """Real transactions: leases that run out, questions that are asked again, people of several
    pools, amendments.
    """
    more = {
        "partitioned": {"draws": 2, "panel_items": 4, "reasks": 2},
        "ordinary": {"annotators": 4, "draws": 2, "reasks": 1},
    }
    spec = spec_of(
        protocol,
        lease_seconds=50.0,
        gold_rate=0.1,
        **more.get(protocol, {"draws": 2, "shown": 3, "reasks": 1}),
    )
    service = open_service(tmp_path, fast=True)
    ready = service.ready(
        spec,
        items_of(40, n_gold=8, n_attention=2),
        people_a_pool=2 if protocol == "ordinary" else 4,
    )
    if protocol == "partitioned":
        for i, person in enumerate([*ready.raters][::3]):
            pools = service.member(person, ready.project).pools
            service.join(
                ready.owner,
                ready.project,
                person,
                pool=next(p for p in (i % 4, (i + 1) % 4) if p not in pools),
            )
    asyncio.run(_work(service, ready, spec, random.Random(protocol)))
    service.write(
        lambda w: projects.add_system(
            w, ready.project, "new", {"item-1": 2, "item-2": None}, actor="system", now=service.now
        )
    )
    service.write(
        lambda w: projects.close_project(w, ready.project, actor="system", now=service.now + 1)
    )
    archive = service.read(lambda w: archive_of(w, ready.project, texts=True))
    service.store.close()
    kinds = Counter(event["kind"] for event in archive.events)
    assert kinds["answer"] > 50
    assert (
        min(
            kinds["lease-expired"],
            kinds["amended"],
            sum(row["draw"] >= AGAIN for row in archive.answers),
        )
        > 0
    )
    result = verify_archive(read_archive(io.BytesIO(archive.to_bytes())))
    assert result.findings == ()
    rng = random.Random(8)
    for i in range(64):
        changed, what = _change(archive, rng, ("project", *TABLES)[i % 8])
        assert not verify_archive(changed).passed, what


async def _work(service: Service, ready: Ready, spec: Any, rng: random.Random) -> None:
    tokens, idle = [*ready.raters.values()], 0
    while idle < 200:
        token = rng.choice(tokens)
        service.now += rng.choice([1, 1, 5, 40])
        asked = await service.store.next_question(token, ready.project, now=service.now)
        idle = idle + 1 if asked is None else 0
        if asked is None or rng.random() < 0.3:
            continue
        values = [
            value_of(
                spec,
                SealedRoute(
                    place=0, item="", draw=0, kind="main", pool=0, shown=asked.shown, propensity=1.0
                ),
                rng,
            )
            for _ in range(2)
        ]
        kept = await service.store.answer(
            token,
            ready.project,
            question=asked.question,
            key=asked.key,
            value=values[0],
            shown_at=service.now,
            client_ms=5,
            now=service.now,
            want_next=False,
        )
        if rng.random() < 0.1:
            await service.store.amend(
                token,
                ready.project,
                answer=kept.answer,
                key=f"again-{kept.answer}",
                value=values[1],
                now=service.now,
            )


# -----------------------------------------------------------------------------------------------------
# what is changed is found


def _other(value: Any, rng: random.Random) -> Any:
    """Another value, often as near as possible."""
    if isinstance(value, bool):
        return rng.choice([not value, int(value), None])
    if isinstance(value, int):
        return rng.choice(
            [value + 1, value - 1, -value - 1, value + 1000, float(value), None, str(value)]
        )
    if isinstance(value, float):
        return rng.choice(
            [
                math.nextafter(value, math.inf),
                math.nextafter(value, -math.inf),
                value + 1,
                -value - 1,
                None,
                round(value) + 7,
            ]
        )
    if isinstance(value, str):
        at = rng.randrange(len(value) + 1)
        near = value[:at] + rng.choice("0a|\u00e9 ") + value[at:]
        return rng.choice(
            [
                near,
                value + " ",
                value[1:] if value else "x",
                value.swapcase() if value.swapcase() != value else near,
                None,
            ]
        )
    if isinstance(value, list):
        changed = copy.copy(value)
        if changed and rng.random() < 0.7:
            at = rng.randrange(len(changed))
            changed[at] = _other(changed[at], rng)
            return changed
        return rng.choice([[*value, 0], value[1:] if value else [1], None])
    if isinstance(value, dict):
        changed = copy.copy(value)
        key = rng.choice(sorted(changed) or [""])
        kind = rng.random()
        if kind < 0.7 and changed:
            changed[key] = _other(changed[key], rng)
        elif kind < 0.85 and changed:
            del changed[key]
        else:
            changed["more"] = 1
        return changed
    return rng.choice([0, 1, 2, 1.5, "x", "", [], [0, 1, 2, 3], {}, True])


def _change(archive: ProjectArchive, rng: random.Random, name: str) -> tuple[ProjectArchive, str]:
    changed = copy.deepcopy(archive)
    record = changed.project if name == "project" else rng.choice(changed.table(name))  # type: ignore[arg-type]
    field = rng.choice(sorted(record))
    before = record[field]
    record[field] = _other(before, rng)
    return changed, f"{name}.{field}: {before!r} -> {record[field]!r}"


@pytest.mark.thin(2)
@pytest.mark.parametrize("close", [True, False])
@pytest.mark.parametrize("name", SPECS)
def test_every_single_change_is_found(name: str, close: bool) -> None:
    """1,000 changes over all protocols, states and files: 100 each here; every field of every file
    is met.
    """
    archive = project_of(name, close=close).archive(texts=True)
    assert verify_archive(archive).passed
    rng = random.Random(f"{name} {close}")
    missed = []
    for i in range(104):
        changed, what = _change(archive, rng, ("project", *TABLES)[i % 8])
        if verify_archive(changed).passed:
            missed.append(what)
    assert missed == []


@pytest.mark.parametrize("close", [True, False])
def test_a_change_of_any_field_is_found(close: bool) -> None:
    """Each field of each file in turn, five times."""
    archive = project_of("partitioned", close=close).archive(texts=True)
    rng = random.Random(3)
    missed = []
    for name in ("project", *TABLES):
        fields = sorted(archive.project if name == "project" else archive.table(name)[0])  # type: ignore[arg-type]
        for field in fields * 5:
            changed = copy.deepcopy(archive)
            record = changed.project if name == "project" else rng.choice(changed.table(name))  # type: ignore[arg-type]
            before = record[field]
            record[field] = _other(before, rng)
            if verify_archive(changed).passed:
                missed.append(f"{name}.{field}: {before!r} -> {record[field]!r}")
    assert missed == []


@pytest.mark.parametrize("table", TABLES)
def test_a_record_that_is_dropped_doubled_or_moved_is_found(table: Any) -> None:
    archive = project_of("partitioned").archive(texts=True)
    n = len(archive.table(table))
    changes: list[Callable[[list[Any]], object]] = [
        lambda r: r.pop(),
        lambda r: r.pop(n // 2),
        lambda r: r.append(dict(r[-1])),
        lambda r: r.reverse(),
    ]
    for change in changes:
        changed = copy.deepcopy(archive)
        change(changed.table(table))
        assert not verify_archive(changed).passed


# ------------------------------------------------------------- forgeries whose chain was made
# again: found by what they say


def _again(archive: ProjectArchive) -> ProjectArchive:
    """The same archive with a fresh chain and fresh judgements, as somebody who owns the server
    could make it.
    """
    prev = ""
    for i, event in enumerate(archive.events, start=1):
        event["seq"], event["prev"] = i, prev
        prev = event["hash"] = event_hash(
            prev, **{k: event[k] for k in ("seq", "at", "actor", "kind", "payload")}
        )
    archive.project["head"], archive.project["last_seq"] = prev, len(archive.events)
    closed = (event["hash"] for event in archive.events if event["kind"] == "closed")
    archive.project["closed_head"] = next(closed, None)
    with contextlib.suppress(ValueError, TypeError, AttributeError):  # nonsense in an event
        archive.judgements[:] = judged(archive)
    return archive


def _event_of(archive: ProjectArchive, answer: dict[str, Any]) -> dict[str, Any]:
    return next(
        e
        for e in archive.events
        if e["kind"] in ("answer", "amended")
        and json.loads(e["payload"])["answer"] == answer["answer"]
    )


def _say(archive: ProjectArchive, answer: dict[str, Any], **values: Any) -> None:
    """Change an answer and its event."""
    event = _event_of(archive, answer)
    answer.update(values)
    payload = json.loads(event["payload"])
    payload.update({k: v for k, v in values.items() if k in payload})
    event["payload"] = json.dumps(payload, sort_keys=True, separators=(",", ":"))
    event["actor"], event["at"] = answer["rater"], answer["received_at"]


def _words(archive: ProjectArchive) -> str:
    result = verify_archive(_again(archive))
    assert not result.passed
    return " ".join(result.findings)


@pytest.fixture
def forged() -> ProjectArchive:
    return copy.deepcopy(project_of("partitioned", n=40, amend=0.3).archive())


def test_a_fresh_chain_alone_passes(forged: ProjectArchive) -> None:
    """The forger's tool works, so that the tests below show what they claim."""
    assert verify_archive(_again(forged)).passed


def test_another_seed_is_found(forged: ProjectArchive) -> None:
    other = (b"\x01" * 32).hex()
    forged.project["seed"] = other
    closed = next(e for e in forged.events if e["kind"] == "closed")
    closed["payload"] = json.dumps({"seed": other})
    assert "not the one that was committed to" in _words(forged)


def test_a_route_that_the_seed_does_not_give_is_found(forged: ProjectArchive) -> None:
    """Also if root, chain and seal are made again: the draws themselves do not lie."""
    from noracle.collect.chain import leaf_text, merkle_root

    route = forged.routes[5]
    route["shown"] = [(route["pool"] + 1) % 4]
    route["pool"] = route["shown"][0]
    hashes = {i["name"]: i["sha256"] for i in forged.items}
    fields = ("place", "item", "draw", "kind", "pool", "shown", "propensity")
    root = merkle_root(
        [leaf_text(tuple(r[f] for f in fields), hashes[r["item"]]) for r in forged.routes]
    )  # type: ignore[arg-type]
    forged.project["root"] = root
    sealed = next(e for e in forged.events if e["kind"] == "sealed")
    sealed["payload"] = json.dumps({**json.loads(sealed["payload"]), "root": root})
    answers = [a for a in forged.answers if a["place"] == 5]
    gone = {a["answer"] for a in answers}
    forged.answers[:] = [a for a in forged.answers if a["answer"] not in gone]
    forged.events[:] = [
        e for e in forged.events if json.loads(e["payload"]).get("answer") not in gone
    ]
    assert "place 5: the seed gives class" in _words(forged)


def test_an_answer_by_a_stranger_is_found(forged: ProjectArchive) -> None:
    _say(forged, forged.answers[3], rater="p99")
    assert "p99 was no member of pool" in _words(forged)


def test_an_answer_before_joining_is_found(forged: ProjectArchive) -> None:
    answer = forged.answers[0]
    joined = next(
        e for e in forged.events if e["kind"] == "joined" and e["actor"] == answer["rater"]
    )
    forged.events.remove(joined)
    forged.events.insert(len(forged.events) - 1, joined)
    assert f"{answer['rater']} was no member" in _words(forged)


def test_an_answer_after_closing_is_found(forged: ProjectArchive) -> None:
    last = _event_of(forged, forged.answers[-1])
    forged.events.remove(last)
    forged.events.append(last)
    assert "while the project was open" in _words(forged)


def test_a_time_outside_the_open_project_is_told_and_no_fault(forged: ProjectArchive) -> None:
    """The numbers of the events say what came while the project was open; a clock may step."""
    _say(forged, forged.answers[-1], received_at=forged.project["closed_at"] + 60)
    result = verify_archive(_again(forged))
    assert result.passed
    clock = next(check for check in result.checks if check.name == "clock")
    assert clock.status == "stepped"
    assert "by -60" in clock.note


def test_a_value_that_is_no_answer_is_found(forged: ProjectArchive) -> None:
    _say(forged, forged.answers[2], value="maybe")
    assert "'maybe' is no answer" in _words(forged)


def test_a_second_first_answer_is_found(forged: ProjectArchive) -> None:
    """A "no" that is asked again until it is a "yes"."""
    once = next(
        a for a in forged.answers if a["value"] == "no" and a["revision"] == 0 and a["draw"] < AGAIN
    )
    again = {
        **once,
        "answer": 10_000,
        "question": 10_000,
        "draw": once["draw"] + AGAIN,
        "value": "yes",
    }
    members = [e["actor"] for e in forged.events if e["kind"] == "joined"]
    pool = forged.routes[once["place"]]["pool"]
    again["rater"] = next(m for m in members[3 * pool : 3 * pool + 3] if m != once["rater"])
    event = copy.deepcopy(_event_of(forged, once))
    forged.answers.append(again)
    forged.events.insert(len(forged.events) - 2, event)
    event["payload"] = json.dumps({k: v for k, v in again.items() if k not in ("rater", "draw")})
    event["actor"] = again["rater"]
    assert f"place {once['place']} must have one first answer" in _words(forged)


def test_a_first_answer_that_is_replaced_is_found(forged: ProjectArchive) -> None:
    """The revision takes the place of the first answer."""
    amends = (a for a in forged.answers if _event_of(forged, a)["kind"] == "amended")
    amended = next(a for a in amends if a["revision"] == 1)
    first = next(
        a for a in forged.answers if a["question"] == amended["question"] and a["revision"] == 0
    )
    _say(forged, amended, revision=0)
    _say(forged, first, revision=1)
    assert "must be a first answer" in _words(forged)


def test_an_amendment_by_somebody_else_is_found(forged: ProjectArchive) -> None:
    amended = next(a for a in forged.answers if a["revision"] == 1)
    route = forged.routes[amended["place"]]
    members = [e["actor"] for e in forged.events if e["kind"] == "joined"]
    _say(
        forged,
        amended,
        rater=next(
            m for m in members[3 * route["pool"] : 3 * route["pool"] + 3] if m != amended["rater"]
        ),
    )
    assert "by the same rater" in _words(forged)


def test_answers_left_out_from_chain_and_table_are_found_by_their_amendments(
    forged: ProjectArchive,
) -> None:
    amends = (a for a in forged.answers if _event_of(forged, a)["kind"] == "amended")
    amended = next(a for a in amends if a["revision"] == 1)
    first = next(
        a for a in forged.answers if a["question"] == amended["question"] and a["revision"] == 0
    )
    forged.events.remove(_event_of(forged, first))
    forged.answers.remove(first)
    assert "which was not answered" in _words(forged)


def test_easy_places_first_is_found() -> None:
    """Ten places of a pool that are passed over by two people: nobody can hold so many questions."""
    project = Project(spec_of(n_classes=2), items_of(60, n_classes=2))
    people = project.join(2)
    project.open()
    mine = [route for route in project.routes if route.pool == 0]
    for i, route in enumerate([*mine[10:14], *mine[:10], *mine[14:]], start=1):
        project.answer(route, question=i, draw=route.draw, rater=people[0][i % 2], value="no")
    project.close()
    assert (
        "was answered before more than 4 earlier places"
        in verify_archive(project.archive()).findings[0]
    )


def test_leases_that_come_back_late_pass() -> None:
    """One person keeps a question for long: the others go on."""
    project = Project(spec_of(n_classes=2), items_of(60, n_classes=2))
    people = project.join(3)
    project.open()
    mine = [route for route in project.routes if route.pool == 0]
    for i, route in enumerate([*mine[2:], mine[1], mine[0]], start=1):
        project.answer(route, question=i, draw=route.draw, rater=people[0][i % 3], value="no")
    project.close()
    assert verify_archive(project.archive()).passed


def test_one_person_asked_twice_about_an_item_is_found() -> None:
    project = Project(spec_of("judge-all", shown=2, draws=2), items_of(3))
    people = project.join(2)
    project.open()
    for i, route in enumerate(project.routes, start=1):
        project.answer(route, question=i, draw=route.draw, rater=people[0][0], value="no|no")
    project.close()
    assert "was asked twice about item" in " ".join(verify_archive(project.archive()).findings)


def test_a_system_that_was_there_before_sealing_is_found(forged: ProjectArchive) -> None:
    added = next(e for e in forged.events if e["kind"] == "system-added")
    forged.events.remove(added)
    forged.events.insert(1, added)
    assert "must have been added after sealing" in _words(forged)


def test_a_forger_who_makes_everything_again_meets_what_was_published(
    forged: ProjectArchive,
) -> None:
    head = forged.project["head"]
    answer = next(a for a in forged.answers if a["value"] == "no" and a["revision"] == 0)
    _say(forged, answer, value="yes")
    forged = _again(forged)
    assert verify_archive(forged).passed
    assert not verify_archive(forged, published=[head]).passed


@pytest.mark.parametrize("published", [True, False])
def test_forty_flipped_answers_with_a_new_chain(forged: ProjectArchive, published: bool) -> None:
    """Found where the head was published; said to be unprotected where it was not."""
    values = [forged.project[key] for key in ("commitment", "root", "closed_head")]
    first = [a for a in forged.answers if a["revision"] == 0 and a["value"] in ("yes", "no")]
    for answer in first[:40]:
        _say(forged, answer, value="no" if answer["value"] == "yes" else "yes")
    result = verify_archive(_again(forged), published=values[: 3 if published else 2])
    assert not result.verified
    assert result.passed is not published
    assert result.published == ("commitment", "root")
    undone = sum(event["kind"] in ("undone", "left") for event in forged.events)
    assert result.unprotected == len(forged.answers) + undone
    if published:
        assert "another project was published" in result.findings[0]


def test_a_head_protects_what_stands_before_it(forged: ProjectArchive) -> None:
    """Published half-way it does not cover the answers that came later; after closing it does."""
    middle = forged.events[len(forged.events) // 2]
    result = verify_archive(forged, published=[middle["hash"]])
    assert result.passed
    assert not result.verified
    assert 0 < result.unprotected < len(forged.answers)
    for head in (forged.project["closed_head"], forged.project["head"]):
        result = verify_archive(forged, published=[head.upper()])
        assert result.verified
        assert (result.published, result.unprotected) == (("head",), 0)


def test_what_verify_says_has_the_shape_of_its_schema(forged: ProjectArchive) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    from noracle.schemas import load_schema

    schema = load_schema("collection-check/2")
    for archive in (forged, _again(forged)):
        values = json.loads(json.dumps(verify_archive(archive).to_dict()))
        jsonschema.validate(values, schema)
    forged.answers[0]["value"] = 7
    jsonschema.validate(json.loads(json.dumps(verify_archive(forged).to_dict())), schema)


def test_an_archive_of_the_first_release_holds() -> None:
    """It has no field for late systems and its times were not clamped: the order tells."""
    path = Path(__file__).parents[2] / "golden" / "fixtures" / "shapes.zip"
    archive = read_archive(path)
    assert archive.project["format"] == "noracle-collection/1"
    result = verify_archive(archive)
    assert result.passed, result.findings
    assert {*result.systems.values()} == {"in time"}
    answer = next(e for e in archive.events if e["kind"] == "answer")
    row = next(a for a in archive.answers if _event_of(archive, a) is answer)
    _say(archive, row, received_at=row["received_at"] - 3600, shown_at=row["shown_at"] - 3600)
    archive.project["format"] = "noracle-collection/1"
    archive = _again(archive)
    del archive.project["closed_head"]
    result = verify_archive(archive)
    assert result.passed, result.findings
    clock = next(check for check in result.checks if check.name == "clock")
    assert clock.status == "stepped"
    assert re.match(r"by -3,[56]\d\d\.\d s at event ", clock.note)


def _undone(archive: ProjectArchive) -> int:
    """The place of an undo among the events."""
    return next(i for i, e in enumerate(archive.events) if e["kind"] == "undone")


def test_an_undo_that_is_dropped_is_found(forged: ProjectArchive) -> None:
    del forged.events[_undone(forged)]
    assert "must have one first answer" in _words(forged)


def test_an_undo_of_what_was_final_is_found(forged: ProjectArchive) -> None:
    """Somebody takes an answer back later, when its person has answered others."""
    first = next(e for e in forged.events if e["kind"] == "answer")
    undo = {**forged.events[-2], "kind": "undone", "actor": first["actor"]}
    undo["payload"] = first["payload"]
    forged.events.insert(len(forged.events) - 1, undo)
    assert f"must be about the last answer of {first['actor']}" in _words(forged)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"actor": "p3"}, "must be about the last answer of p3"),
        ({"late": 66.0}, "within 60 seconds"),
        ({"answer": 1}, "must be about the last answer"),
        ({"place": 0}, "question and place must be as event"),
        ({"question": 10**6}, "question and place must be as event"),
    ],
)
def test_an_undo_that_nobody_made_is_found(
    forged: ProjectArchive, change: dict[str, Any], words: str
) -> None:
    event = forged.events[_undone(forged)]
    payload = json.loads(event["payload"])
    if event["actor"] == change.get("actor"):
        change = {"actor": "p4"}
        words = words.replace("p3", "p4")
    event["actor"] = change.get("actor", event["actor"])
    event["at"] += change.get("late", 0.0)
    known = {k: v for k, v in change.items() if k in payload}
    event["payload"] = canonical({**payload, **known})
    assert words in _words(forged)


def test_an_undo_that_comes_twice_is_found(forged: ProjectArchive) -> None:
    at = _undone(forged)
    forged.events.insert(at, dict(forged.events[at]))
    assert "must be about the last answer" in _words(forged)


def test_an_undo_of_an_amended_answer_is_found() -> None:
    archive = copy.deepcopy(project_of("partitioned", n=40, amend=0.3).archive())
    at = next(i for i, e in enumerate(archive.events) if e["kind"] == "amended")
    amended = json.loads(archive.events[at]["payload"])
    about = {name: amended[name] for name in ("answer", "question", "place")}
    event = {**archive.events[at], "kind": "undone", "payload": canonical(about)}
    archive.events.insert(at + 1, event)
    assert "is an amendment" in _words(archive)


def test_leaving_is_about_the_last_answer_too(forged: ProjectArchive) -> None:
    at = next(i for i, e in enumerate(forged.events) if e["kind"] == "answer")
    first = json.loads(forged.events[at]["payload"])
    about = {name: first[name] for name in ("answer", "question", "place")}
    left = {**forged.events[at], "kind": "left", "payload": canonical(about)}
    honest = copy.deepcopy(forged)
    honest.events.insert(at + 1, dict(left))
    if honest.events[at + 2]["kind"] not in ("undone", "amended"):
        assert verify_archive(_again(honest)).passed
    forged.events.insert(len(forged.events) - 1, left)
    assert "must be about the last answer" in _words(forged)


def test_an_answer_that_was_taken_back_cannot_count(forged: ProjectArchive) -> None:
    """The judgements name the answer that was undone instead of the one that followed."""
    payload = json.loads(forged.events[_undone(forged)]["payload"])
    row = next(j for j in forged.judgements if j["question"] == payload["question"])
    row["verdict"] = "no" if row["verdict"] == "yes" else "yes"
    result = verify_archive(forged)
    assert not result.passed
    assert any(line.startswith("judgements") for line in result.findings)


def test_nonsense_is_a_finding_and_never_a_crash() -> None:
    archive = project_of("judge-all").archive()
    rng = random.Random(5)
    for payload in (
        "[]",
        "1",
        "{",
        "null",
        "{}},{",
        '{"answer":[1]}',
        '{"answer":{},"name":[]}',
        '{"alias":[],"pool":{}}',
    ):
        for kind in ("created", "sealed", "closed", "answer", "joined", "system-added"):
            changed = copy.deepcopy(archive)
            event = rng.choice([e for e in changed.events if e["kind"] == kind])
            event["payload"] = payload
            assert not verify_archive(_again(changed)).passed
    broken = copy.deepcopy(archive)
    broken.project["spec"] = {"protocol": "partitioned", "classes": []}
    assert not verify_archive(broken).passed


# ------------------------------------------------------------------------------------------------------------
# command line


def test_the_command_says_what_it_found(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    archive = project_of("partitioned").archive()
    write_archive(archive, tmp_path / "good.zip")
    good, told = str(tmp_path / "good.zip"), {**archive.project}
    assert run(["verify", good]) == 0
    out = capfd.readouterr().out
    assert "verified" not in out
    assert "no fault found, not protected" in out
    assert "whoever holds the file could have rebuilt the chain" in out
    assert told["root"] in out
    assert run(["verify", good, "--json"]) == 0
    found = json.loads(capfd.readouterr().out)
    assert (found["verified"], found["passed"]) == (False, True)
    values = [told[key] for key in ("commitment", "root", "closed_head")]
    for published, proved in ((values[:2], 2), (values[2:], 1), (values, 3)):
        named = [word for value in published for word in ("--published", value)]
        assert run(["verify", good, *named]) == 0
        out = capfd.readouterr().out
        assert ("verified" in out) == (values[2] in published)
        assert out.count("(published: ") == proved
        assert ("Not protected" in out) == (values[2] not in published)
    assert "nothing was changed, added or removed after it was published" in out
    archive.answers[4]["value"] = "yes" if archive.answers[4]["value"] != "yes" else "no"
    write_archive(archive, tmp_path / "bad.anything")
    assert run(["verify", str(tmp_path / "bad.anything")]) == 1
    out = capfd.readouterr().out
    assert "NOT verified" in out
    assert "answer 5: value must be as event" in out
    assert run(["verify", "--json", str(tmp_path / "bad.anything")]) == 1
    found = json.loads(capfd.readouterr().out)
    assert found["verified"] is False
    assert any("answer 5" in line for line in found["findings"])
    assert run(["verify", str(tmp_path / "good.zip"), "--published", "0" * 64]) == 1


def test_the_command_refuses_what_is_no_archive(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "x.zip").write_bytes(b"PK\x03\x04nothing")
    assert run(["verify", str(tmp_path / "x.zip")]) == 2
    assert "archive must be a .zip file" in capfd.readouterr().err
    (tmp_path / "x.json").write_text("{}")
    assert run(["verify", str(tmp_path / "x.json"), "--published", "00"]) == 2
    assert "--published must go with" in capfd.readouterr().err


def test_it_works_with_the_core_alone() -> None:
    """An auditor needs no web server and no database driver."""
    extras = (
        "fastapi",
        "starlette",
        "uvicorn",
        "httptools",
        "uvloop",
        "argon2",
        "psycopg",
        "psycopg_pool",
        "multipart",
        "PIL",
    )
    modules = ", ".join(
        f"noracle.collect.{m}" for m in ("model", "chain", "protocols", "archive", "verify")
    )
    code = f"import sys; sys.modules.update(dict.fromkeys({extras!r})); import {modules}"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@pytest.mark.full
@pytest.mark.slow
def test_a_hundred_thousand_routes_and_answers_take_five_seconds(tmp_path: Path) -> None:
    spec = spec_of(n_classes=10, gold_rate=0.02, panel_items=50)
    archive = filled(
        spec, items_of(98_000, n_gold=500, n_classes=10), amend=0.01, systems=1
    ).archive()
    write_archive(archive, tmp_path / "big.zip")
    assert min(len(archive.routes), len(archive.answers)) >= 100_000
    seconds = []
    for _ in range(2):
        start = time.process_time()
        assert verify_archive(read_archive(tmp_path / "big.zip")).passed
        seconds.append(time.process_time() - start)
    assert min(seconds) <= 5, Counter(map(round, seconds))
