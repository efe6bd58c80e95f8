"""The life of a project: what may change when, and what the log says about it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("argon2", reason="the extra collect is not installed")

from noracle.collect.content import Picture
from noracle.collect.errors import Conflict, NotFound, Refused
from noracle.collect.model import Item, fits
from noracle.collect.service import projects
from tests.unit.collect.service_world import NOW, SEAL, Service, open_service, spec_of, texts


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    made = open_service(tmp_path, fast=True)
    yield made
    made.store.close()


def events(service: Service, project: int) -> list[tuple[str, dict[str, Any]]]:
    rows = service.read(
        lambda w: w.all(
            "SELECT kind, payload FROM event WHERE project_id = :p ORDER BY seq", p=project
        )
    )
    return [(row["kind"], json.loads(row["payload"])) for row in rows]


STEPS: dict[str, Callable[[Service, int], object]] = {
    "change": lambda s, p: s.write(lambda w: projects.change_spec(w, p, spec_of(reasks=1))),
    "import": lambda s, p: s.write(
        lambda w: projects.import_items(w, p, texts(5, start=100 + int(s.now)), now=NOW)
    ),
    "picture": lambda s, p: s.write(
        lambda w: projects.add_image(
            w, p, Picture(sha256="0" * 64, media="image/png", data=b"x", width=1, height=1)
        )
    ),
    "seal": lambda s, p: s.write(
        lambda w: projects.seal_project(w, p, actor="system", now=NOW, seed=SEAL)
    ),
    "open": lambda s, p: s.write(lambda w: projects.open_project(w, p, actor="system", now=NOW)),
    "close": lambda s, p: s.write(lambda w: projects.close_project(w, p, actor="system", now=NOW)),
    "system": lambda s, p: s.write(
        lambda w: projects.add_system(w, p, f"s{s.now}", {"i0000": 1}, actor="system", now=NOW)
    ),
}
ALLOWED = {
    "draft": {"change", "import", "picture", "seal"},
    "sealed": {"open", "system"},
    "open": {"close", "system"},
    "closed": {"system"},
}


@pytest.mark.parametrize("state", ALLOWED)
@pytest.mark.parametrize("step", STEPS)
def test_every_step_is_allowed_in_its_states_alone(service: Service, state: str, step: str) -> None:
    project = service.project(service.person("ann"))
    service.write(lambda w: projects.import_items(w, project, texts(4), now=NOW))
    for before in ("seal", "open", "close")[: list(ALLOWED).index(state)]:
        STEPS[before](service, project)
    if step in ALLOWED[state]:
        STEPS[step](service, project)
    else:
        before = events(service, project)
        with pytest.raises(Conflict):
            STEPS[step](service, project)
        assert events(service, project) == before
        assert service.read(lambda w: projects.project_row(w, "demo"))["state"] == state


def test_seed_is_secret_until_the_project_is_closed(service: Service) -> None:
    ready = service.ready(spec_of(), texts(4))
    row = service.read(lambda w: projects.project_row(w, "demo"))
    assert row["seed"] is None
    assert "seed" not in json.dumps([payload for _, payload in events(service, ready.project)])
    seed = service.write(
        lambda w: projects.close_project(w, ready.project, actor="system", now=service.now + 9)
    )
    assert bytes(service.read(lambda w: projects.project_row(w, "demo"))["seed"]).hex() == seed
    assert events(service, ready.project)[-1] == ("closed", {"seed": seed})
    with pytest.raises(NotFound):
        service.read(lambda w: projects.project_row(w, "other"))


def test_life_is_logged_in_order(service: Service) -> None:
    ready = service.ready(spec_of(), texts(4))
    service.write(
        lambda w: projects.add_system(
            w,
            ready.project,
            "agent",
            {"i0000": 1, "i0001": None},
            actor="system",
            now=service.now + 8,
        )
    )
    service.write(
        lambda w: projects.close_project(w, ready.project, actor="system", now=service.now + 9)
    )
    kinds = [
        kind for kind, _ in events(service, ready.project) if kind not in ("invited", "joined")
    ]
    assert kinds == ["created", "imported", "sealed", "opened", "system-added", "closed"]


@pytest.mark.parametrize("slug", ["", "A", "a_b", "-a", "a-", "a/b", "..", "a" * 64, "ä", "a\n"])
def test_slug_that_could_surprise_an_address_is_refused(service: Service, slug: str) -> None:
    owner = service.person("ann")
    with pytest.raises(Refused):
        service.project(owner, slug)


def test_slug_is_taken_once(service: Service) -> None:
    owner = service.person("ann")
    service.project(owner)
    with pytest.raises(Conflict):
        service.project(owner)


BAD_ITEMS = [
    Item(name="", content={"text": "x"}),
    Item(name=" a", content={"text": "x"}),
    Item(name="a\nb", content={"text": "x"}),
    Item(name="a" * 201, content={"text": "x"}),
    Item(name="a", content={}),
    Item(name="a", content={"text": ""}),
    Item(name="a", content={"text": 7}),
    Item(name="a", content={"text": "x\x00y"}),
    Item(name="a", content={"text": "x\ud800y"}),
    Item(name="a", content={"text": "x" * 200_001}),
    Item(name="a", content={"text": "x", "html": "<b>"}),
    Item(name="a", content={"text": "x", "options": ["a", "b"]}),
    Item(name="a", content={"text": "x", "options": "abc"}),
    Item(name="a", content={"text": "x", "options": ["a", "b", ""]}),
    Item(name="a", content={"image": "nope"}),
    Item(name="a", content={"image": "0" * 64}),
    Item(name="a", content={"text": "x", "attention": "yes"}),
    Item(name="a", content={"text": "x"}, truth=3),
    Item(name="a", content={"text": "x"}, truth=-1),
    Item(name="a", content={"text": "x"}, truth=True),
]


@pytest.mark.parametrize("item", BAD_ITEMS, ids=range(len(BAD_ITEMS)))
def test_bad_item_is_refused_and_none_of_its_file_is_kept(service: Service, item: Item) -> None:
    project = service.project(service.person("ann"))
    with pytest.raises(Refused) as caught:
        service.write(lambda w: projects.import_items(w, project, [*texts(3), item], now=NOW))
    assert "x" * 50 not in str(caught.value)
    assert service.read(lambda w: projects.progress(w, project))["items"] == 0


def test_names_are_unique_over_all_imports(service: Service) -> None:
    project = service.project(service.person("ann"))
    service.write(lambda w: projects.import_items(w, project, texts(3), now=NOW))
    with pytest.raises(Refused, match="i0002"):
        service.write(lambda w: projects.import_items(w, project, texts(3, start=2), now=NOW))
    with pytest.raises(Refused, match="only once"):
        service.write(lambda w: projects.import_items(w, project, texts(1, start=9) * 2, now=NOW))


def test_spec_cannot_lose_a_group_or_contradict_an_item(service: Service) -> None:
    owner, bob = service.person("ann"), service.person("bob")
    project = service.project(owner)
    service.join(owner, project, bob, pool=2)
    with pytest.raises(Conflict):
        service.write(lambda w: projects.change_spec(w, project, spec_of(k=2)))
    service.write(lambda w: projects.change_spec(w, project, spec_of(k=5)))
    service.write(lambda w: projects.import_items(w, project, texts(1, truth=4), now=NOW))
    with pytest.raises(Refused):
        service.write(lambda w: projects.change_spec(w, project, spec_of(k=4)))


def test_preview_tells_what_sealing_draws_and_changes_nothing(service: Service) -> None:
    owner, bob = service.person("ann"), service.person("bob")
    project = service.project(owner, spec=spec_of(gold_rate=0.2, panel_items=2))
    service.join(owner, project, bob, pool=1)
    assert service.read(lambda w: projects.preview_seal(w, project)).problem
    service.write(
        lambda w: projects.import_items(
            w, project, [*texts(42), *texts(5, start=90, truth=1)], now=NOW
        )
    )
    seen = service.read(lambda w: projects.preview_seal(w, project))
    assert (seen.items, seen.gold, seen.problem) == (47, 5, "")
    assert seen.by_kind == {"gold": 10, "main": 40, "panel": 6}
    assert set(seen.pools_without_people) == {0, 2}
    assert service.read(lambda w: projects.project_row(w, "demo"))["state"] == "draft"
    service.write(lambda w: projects.seal_project(w, project, actor="system", now=NOW, seed=SEAL))
    rows = service.read(
        lambda w: w.all("SELECT kind FROM question WHERE project_id = :p", p=project)
    )
    assert Counter(row["kind"] for row in rows) == seen.by_kind


def test_project_that_cannot_be_drawn_stays_a_draft(service: Service) -> None:
    project = service.project(service.person("ann"), spec=spec_of(gold_rate=0.1))
    service.write(lambda w: projects.import_items(w, project, texts(4), now=NOW))
    with pytest.raises(Refused, match="gold_rate"):
        service.write(
            lambda w: projects.seal_project(w, project, actor="system", now=NOW, seed=SEAL)
        )
    assert service.read(lambda w: projects.project_row(w, "demo"))["state"] == "draft"


def test_targeted_chances_are_drawn_and_kept(service: Service) -> None:
    items = texts(40)
    chances = {item.name: [0.8, 0.1, 0.1] for item in items}
    ready = service.ready(spec_of(), items, propensities=chances)
    rows = service.read(
        lambda w: w.all(
            "SELECT pool, propensity FROM question WHERE project_id = :p", p=ready.project
        )
    )
    assert {(row["pool"], round(row["propensity"], 6)) for row in rows} <= {
        (0, 0.8),
        (1, 0.1),
        (2, 0.1),
    }
    kept = service.read(
        lambda w: w.all("SELECT chances FROM item WHERE project_id = :p", p=ready.project)
    )
    assert {row["chances"] for row in kept} == {"[0.8,0.1,0.1]"}


@pytest.mark.parametrize(
    "answers",
    [
        {},
        {"nobody": 1},
        {"i0000": 3},
        {"i0000": -1},
        {"i0000": True},
        {"i0000": "1"},
        {"i0000": 1.0},
    ],
)
def test_answers_of_a_system_must_be_classes_of_items(
    service: Service, answers: dict[str, Any]
) -> None:
    ready = service.ready(spec_of(), texts(4))
    with pytest.raises(Refused):
        service.write(
            lambda w: projects.add_system(
                w, ready.project, "agent", answers, actor="system", now=service.now
            )
        )
    assert service.read(lambda w: projects.systems_of(w, ready.project)) == []


def test_system_has_its_own_name(service: Service) -> None:
    ready = service.ready(spec_of(), texts(4))
    for name, error in (("agent", None), ("agent ", Conflict), ("", Refused), ("x" * 201, Refused)):
        op = lambda w, n=name: projects.add_system(  # noqa: E731
            w, ready.project, n, {"i0000": 1}, actor="system", now=service.now
        )
        if error is None:
            service.write(op)
        else:
            with pytest.raises(error):
                service.write(op)


def test_progress_counts_questions_and_people(service: Service) -> None:
    ready = service.ready(spec_of(), texts(30))
    done = service.work(ready, lambda _, shown: "no", most=7)
    seen = service.read(lambda w: projects.progress(w, ready.project))
    assert (seen["items"], seen["questions"], seen["done"], done) == (30, 30, 7, 7)
    assert [pool["people"] for pool in seen["pools"]] == [1, 1, 1]
    assert [pool["name"] for pool in seen["pools"]] == ["c0", "c1", "c2"]
    person = next(iter(ready.raters))
    mine = service.read(lambda w: projects.my_progress(w, ready.project, person, day=0.0))
    assert set(mine) == {"done", "today", "left"}
    assert mine["today"] == mine["done"]
    assert 0 < mine["done"] < 7


def test_annotator_sees_only_pictures_of_questions_that_were_put_to_them(service: Service) -> None:
    shots = [
        Picture(sha256=f"{i:064x}", media="image/png", data=bytes([i]), width=1, height=1)
        for i in range(2)
    ]
    owner = service.person("ann")
    project = service.project(owner, spec=spec_of(k=2))
    for shot in shots:
        service.write(lambda w, s=shot: projects.add_image(w, project, s))  # type: ignore[misc]
    items = [Item(name=f"i{i}", content={"image": shot.sha256}) for i, shot in enumerate(shots)]
    service.write(lambda w: projects.import_items(w, project, items, now=NOW))
    bob = service.person("bob")
    for pool in (0, 1):
        service.join(owner, project, bob, pool=pool)
    for step in ("seal", "open"):
        STEPS[step](service, project)
    import asyncio

    asked = asyncio.run(service.store.next_question(service.session(bob), project, now=NOW))
    assert asked is not None
    member, boss = service.member(bob, project), service.member(owner, project)
    for shot in shots:
        assert service.read(lambda w, s=shot: projects.image_of(w, boss, s.sha256)) == (
            "image/png",
            shot.data,
        )  # type: ignore[misc]
        look = lambda s=shot: service.read(lambda w: projects.image_of(w, member, s.sha256))  # noqa: E731
        if shot.sha256 == asked.content["image"]:
            assert look() == ("image/png", shot.data)
        else:
            with pytest.raises(NotFound):
                look()


@pytest.mark.parametrize(
    ("protocol", "good", "bad"),
    [
        ("partitioned", ["yes", "no", "unsure"], ["", " yes ", "maybe", "0", "YES", "yes|no"]),
        (
            "judge-all",
            ["yes|no|unsure", "no|no|no"],
            ["yes", "yes|no", "yes|no|maybe", "yes|no|no|no", ""],
        ),
        ("pick-wrong", ["0", "2", "none", "unsure"], ["3", "1", "-1", "00", "yes"]),
        ("ordinary", ["0", "2", "unsure"], ["1", "3", "none", "no"]),
    ],
)
def test_only_answers_are_answers(protocol: str, good: list[str], bad: list[str]) -> None:
    spec = spec_of(protocol, k=4, trap=protocol == "pick-wrong")
    shown = (0, 2, 3) if protocol == "judge-all" else (0, 2)
    assert all(fits(spec, shown, value) for value in good)
    assert not any(fits(spec, shown, value) for value in bad)
