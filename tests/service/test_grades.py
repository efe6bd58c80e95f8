"""The protocol ``grade``: an item with one system's answer, whose nobody knows; right, wrong or not
sure. Answers are there before the seal, one that several systems gave is asked about once.
"""

from __future__ import annotations

import asyncio
import copy
import csv
import io
import json
import random
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("argon2", reason="the extra 'collect' is not installed")

import noracle
from noracle.cli import run
from noracle.collect import Client
from noracle.collect.archive import ProjectArchive, read_archive
from noracle.collect.chain import answers_hash, event_hash
from noracle.collect.errors import Conflict, Refused
from noracle.collect.live import live_view
from noracle.collect.model import OTHER, Item, ProjectSpec, read_spec
from noracle.collect.service import exports, projects
from noracle.collect.service.people import raters_of
from noracle.collect.store.base import Store
from noracle.collect.verify import verify_archive
from noracle.errors import ArgumentError
from tests.service.web_site import PASSWORD, Site, running
from tests.unit.collect.service_world import SEAL, Ready, Service, texts

N = 40
RATES = {"able": 0.9, "fair": 0.6, "poor": 0.4}
CLASSES = ("cat", "dog", "cow")


def spec_of(*, classes: tuple[str, ...] = (), **more: Any) -> ProjectSpec:
    return ProjectSpec.from_dict({"protocol": "grade", "classes": classes, **more})


def truth(item: str) -> int:
    return int(item[-4:]) * 7 % 11 % 3


def word(number: int, spec: ProjectSpec) -> Any:
    return f"It is number **{number}**" if spec.texts else number


def gold() -> list[Item]:
    return [Item(name=f"g{i:04}", content={"text": f"gold of {i}"}, truth=i % 2) for i in range(6)]


def answers(spec: ProjectSpec, seed: int = 0) -> dict[str, dict[str, Any]]:
    """What three systems answered; the last one leaves per item out. Gold items have answers that
    are of none of them.
    """
    rng, found = random.Random(seed), dict[str, dict[str, Any]]()
    for name, rate in RATES.items():
        wrong = {i.name: (truth(i.name) + rng.choice((1, 2))) % 3 for i in texts(N)}
        right = {i.name: rng.random() < rate for i in texts(N)}
        found[name] = {i: word(truth(i) if right[i] else wrong[i], spec) for i in wrong}
    found["poor"]["i0003"] = None
    found["test"] = {item.name: "gold" if spec.texts else 1 for item in gold()}
    return found


def add(service: Service, project: int, name: str, said: dict[str, Any]) -> int:
    about: Any = {"actor": "system", "now": service.now}
    return service.write(lambda w: projects.add_system(w, project, name, said, **about))


def ready(service: Service, spec: ProjectSpec, *, people: int = 3) -> Ready:
    owner = service.person("owner")
    project = service.project(owner, spec=spec)
    items = texts(N) + (gold() if spec.gold_rate else [])
    service.write(lambda w: projects.import_items(w, project, items, now=service.now))
    for name, said in answers(spec).items():
        if name != "test" or spec.gold_rate:
            add(service, project, name, said)
    raters = {}
    for i in range(people):
        person = service.person(f"rater-{i}")
        service.join(owner, project, person)
        raters[person] = service.session(person)
    about: Any = {"actor": "system", "now": service.now + 1}
    service.write(lambda w: projects.seal_project(w, project, seed=SEAL, **about))
    service.write(lambda w: projects.open_project(w, project, **about))
    return Ready(project, owner, raters)


def grade(spec: ProjectSpec, text: str, reply: Any) -> str:
    number = int(text.rsplit(maxsplit=1)[-1])
    known = reply == word(truth(f"i{number:04}"), spec)
    right = number % 2 == 1 if text.startswith("gold") else known
    return "yes" if right else "no"


def work(service: Service, world: Ready, spec: ProjectSpec, unsure: float = 0.0) -> list[Any]:
    """Everybody grades to the end; returns what they saw."""
    seen, rng = [], random.Random(1)

    async def everybody() -> None:
        idle = 0
        while idle < 2:
            busy = False
            for token in world.raters.values():
                service.now += 1
                asked = await service.store.next_question(token, world.project, now=service.now)
                if asked is None:
                    continue
                busy = True
                seen.append((token, asked))
                value = grade(spec, asked.content["text"], asked.content["reply"])
                value = "unsure" if rng.random() < unsure else value
                sent = {"question": asked.question, "key": asked.key, "value": value}
                times = {"shown_at": service.now, "now": service.now, "client_ms": None}
                store: Any = service.store
                await store.answer(token, world.project, want_next=False, **sent, **times)
            idle = 0 if busy else idle + 1
            service.now += 0 if busy else 61

    asyncio.run(everybody())
    service.leave(world)
    return seen


def archived(service: Service, project: int, *, with_texts: bool = False) -> ProjectArchive:
    files = service.store.read_chained_now(
        project, lambda w: exports.export_files(w, project, "archive", texts=with_texts)
    )
    return read_archive(io.BytesIO(*files.values()))


def share_right(spec: ProjectSpec, system: str) -> float:
    said = answers(spec)[system]
    return float(np.mean([said[i.name] == word(truth(i.name), spec) for i in texts(N)]))


@pytest.mark.thin(4)
@pytest.mark.parametrize("classes", [(), CLASSES], ids=["texts", "classes"])
@pytest.mark.parametrize("draws", [1, 3])
def test_whole_life_of_grades(store: Store, classes: tuple[str, ...], draws: int) -> None:
    spec, service = spec_of(classes=classes, draws=draws, gold_rate=0.1, reasks=1), Service(store)
    world = ready(service, spec)
    project = world.project
    seen = work(service, world, spec, unsure=0.1)
    for _, asked in seen:
        assert set(asked.content) == {"text", "reply"}  # neither names nor other answers
    assert len({(token, asked.item) for token, asked in seen}) == len(seen)
    rows = service.read(lambda w: w.all("SELECT * FROM question WHERE kind = 'main'"))
    asked = {(row["item_id"], row["shown"]) for row in rows}
    assert len(asked) == len(rows)  # an answer that several systems gave is asked about once
    view = service.read(lambda w: live_view(w, project, now=service.now))
    assert [s.name for s in view.systems] == list(RATES)
    assert all(check.passed for check in view.checks)
    assert [check.name for check in view.checks] == ["gold"]
    for system in view.systems:
        estimate, right = system.estimate, share_right(spec, system.name)
        assert estimate.low <= right <= estimate.high
        assert estimate.guarantee.kind is noracle.Kind.FINITE_SAMPLE
        assert not system.late
        if draws == 3:
            assert system.worst <= right <= system.best
            assert abs(estimate.value - right) < 0.05
    before = archived(service, project)
    assert verify_archive(before).passed, verify_archive(before).findings
    assert before.routes == before.answers == before.judgements == []
    files = service.read(lambda w: exports.export_files(w, project, "csv"))
    assert sorted(files) == ["answers.csv", "classes.csv", "items.csv"]
    service.close(project)
    for with_texts in (False, True):
        after = archived(service, project, with_texts=with_texts)
        found = verify_archive(after)
        assert found.passed, found.findings
        assert set(found.systems.values()) == {"in time"}
    [one, *_] = service.read(lambda w: raters_of(w, service.member(world.owner, project)))
    assert one["answers"] > 0
    told = one["gold"] or {"right": 0, "of": 0}
    assert told["right"] == told["of"]


def tables(service: Service, project: int, folder: Path) -> list[str]:
    files = service.read(lambda w: exports.export_files(w, project, "csv"))
    for name, data in files.items():
        (folder / name).write_bytes(data)
    names = ("answers", "grades", "items")
    return [part for n in names for part in (f"--{n}", str(folder / f"{n}.csv"))]


@pytest.mark.full
@pytest.mark.parametrize("draws", [1, 3])
def test_exported_grades_are_read_by_estimate(
    store: Store, tmp_path: Path, draws: int, capsys: pytest.CaptureFixture[str]
) -> None:
    spec, service = spec_of(draws=draws), Service(store)
    world = ready(service, spec)
    work(service, world, spec)
    service.close(world.project)
    given = tables(service, world.project, tmp_path)
    rows = list(csv.DictReader((tmp_path / "grades.csv").read_text().splitlines()))
    assert {row["propensity"] != "" for row in rows} == {draws == 1}
    for system in RATES:
        assert run(["estimate", *given, "--system", system, "--json"]) in (0, 1)
        found = json.loads(capsys.readouterr().out)
        assert found["low"] - 1e-9 <= share_right(spec, system) <= found["high"] + 1e-9
        if draws == 3:  # everything is graded, and nothing is left to guess
            assert found["value"] == pytest.approx(share_right(spec, system))


def test_late_system_is_bounded_and_promises_nothing(store: Store) -> None:
    spec, service = spec_of(classes=CLASSES, draws=3), Service(store)
    world = ready(service, spec)
    work(service, world, spec)
    cheat = {i.name: truth(i.name) for i in texts(N)}
    add(service, world.project, "cheat", cheat)
    view = service.read(lambda w: live_view(w, world.project, now=service.now))
    late = view.systems[-1]
    assert late.late
    assert late.estimate.guarantee.kind is noracle.Kind.HEURISTIC
    kept = service.read(lambda w: projects.items_of(w, world.project))
    unasked = sum(cheat[item.name] not in item.replies for item in kept)
    assert late.absent_share == pytest.approx(unasked / N)
    assert late.best == pytest.approx(1.0)
    if unasked:
        assert np.isnan(late.estimate.value)
        assert "only bounds are known" in late.estimate.reason
        assert late.estimate.high > 0.95
    service.close(world.project)
    archive = archived(service, world.project)
    found = verify_archive(archive)
    assert found.passed, found.findings
    assert found.systems["cheat"] == "uploaded after answers"
    numbers = [p["answer"] for p in archive.predictions if p["system"] == "cheat"]
    assert numbers.count(OTHER) == unasked
    told = service.read(lambda w: exports.evidence_tables(w, world.project))["answers"]
    assert ("cheat" in {row[1] for row in told.rows}) == (not unasked)


def rebuilt(archive: ProjectArchive) -> ProjectArchive:
    """The chain of the events as somebody would make it who holds the file."""
    prev = ""
    for event in archive.events:
        event["prev"] = prev
        content = {key: event[key] for key in ("seq", "at", "actor", "kind", "payload")}
        prev = event["hash"] = event_hash(prev, **content)
    archive.project["head"] = prev
    return archive


def test_verify_finds_tampering_with_grades(store: Store) -> None:
    spec, service = spec_of(draws=2), Service(store)
    world = ready(service, spec)
    work(service, world, spec)
    service.close(world.project)
    archive = archived(service, world.project, with_texts=True)
    assert verify_archive(archive).passed

    def faults(change: Any) -> tuple[str, ...]:
        forged = copy.deepcopy(archive)
        change(forged)
        return verify_archive(forged).findings

    def swap(forged: ProjectArchive) -> None:  # the poor system gets the answers of the able one
        said = {p["item"]: p["answer"] for p in forged.predictions if p["system"] == "able"}
        for row in forged.predictions:
            if row["system"] == "poor":
                row["answer"] = said[row["item"]]

    def flip(forged: ProjectArchive) -> None:
        value = forged.answers[5]["value"]
        forged.answers[5]["value"] = "no" if value == "yes" else "yes"

    def other(forged: ProjectArchive) -> None:  # another answer was asked about
        route = next(r for r in forged.routes if r["propensity"] < 1)
        route["shown"] = [(route["shown"][0] + 1) % 3]

    def rewritten(forged: ProjectArchive) -> None:
        item = forged.items[0]["content"]
        item["answers"]["able"] = "better"

    def relabelled(forged: ProjectArchive) -> None:  # with a chain of its own
        swap(forged)
        said = {p["item"]: p["answer"] for p in forged.predictions if p["system"] == "poor"}
        for event in forged.events:
            payload = json.loads(event["payload"])
            if event["kind"] == "system-added" and payload["name"] == "poor":
                payload["sha256"] = answers_hash(said)
                event["payload"] = json.dumps(payload, sort_keys=True, separators=(",", ":"))
        next(s for s in forged.systems if s["system"] == "poor")["sha256"] = answers_hash(said)
        rebuilt(forged)

    assert any("the seed gives" in line for line in faults(swap))
    assert any("as event" in line for line in faults(flip))
    assert any("the routes were changed" in line for line in faults(other))
    assert any("fingerprint" in line for line in faults(rewritten))
    assert any("not that of its content" in line for line in faults(relabelled))


def test_what_a_project_of_grades_refuses(store: Store) -> None:
    service = Service(store)
    spec = spec_of()
    assert spec.texts
    assert read_spec(json.dumps(spec.to_dict())) == spec
    with pytest.raises(ArgumentError, match="shuffle_options"):
        spec_of(shuffle_options=True)
    owner = service.person("owner")
    project = service.project(owner, spec=spec)
    own = Item(name="x", content={"text": "x", "answers": {"a": "y"}})
    with pytest.raises(Refused, match="they come by system"):
        service.write(lambda w: projects.import_items(w, project, [own], now=service.now))
    service.write(lambda w: projects.import_items(w, project, texts(3), now=service.now))
    seal = {"actor": "system", "now": service.now}
    with pytest.raises(Refused, match="different answers to grade"):
        service.write(lambda w: projects.seal_project(w, project, **seal))
    with pytest.raises(Refused, match="answer must be text"):
        add(service, project, "a", {"i0000": 1})
    with pytest.raises(Refused, match="about items"):
        add(service, project, "a", {"other": "x"})
    add(service, project, "a", {"i0000": "wrong file"})
    add(service, project, "a", {f"i000{i}": "x" for i in range(3)})  # in the place of the first
    [kept] = {
        i.content["answers"]["a"] for i in service.read(lambda w: projects.items_of(w, project))
    }
    assert kept == "x"
    other = ProjectSpec.from_dict({"protocol": "judge-all", "classes": ["a", "b"]})
    with pytest.raises(Refused, match="content must hold"):
        service.write(lambda w: projects.change_spec(w, project, other))
    service.write(lambda w: projects.seal_project(w, project, **seal))
    promise: Any = {"name": "b", "commitment": "0" * 64, **seal}
    with pytest.raises(Conflict, match="when the project is sealed"):
        service.write(lambda w: projects.commit_system(w, project, **promise))
    with pytest.raises(Conflict, match="must be new"):
        add(service, project, "a", {"i0000": "x"})


def test_gold_texts_have_one_answer(store: Store) -> None:
    service, spec = Service(store), spec_of(gold_rate=0.1)
    project = service.project(service.person("owner"), spec=spec)
    items = [*texts(4), *gold()]
    service.write(lambda w: projects.import_items(w, project, items, now=service.now))
    for name in ("a", "b"):
        add(service, project, name, {item.name: name for item in items})
    seal = {"actor": "system", "now": service.now}
    with pytest.raises(Refused, match="must have one answer"):
        service.write(lambda w: projects.seal_project(w, project, **seal))


@pytest.mark.full
def test_grades_over_http(tmp_path: Path) -> None:
    """Client, JSON and pages: no system's name and no other answer ever reaches an annotator."""
    with running(tmp_path, changes_per_minute=100_000) as site:
        site.person("owner")
        with Client(site.url) as owner:
            owner.sign_in("owner@example.org", PASSWORD)
            owner.create("quiz", "Quiz", {"protocol": "grade"})
            owner.import_items(
                "quiz", [Item(name=f"i{k}", content={"text": f"{k} + {k}?"}) for k in range(6)]
            )
            owner.add_system("quiz", "SECRET-A", {f"i{k}": str(2 * k) for k in range(6)})
            owner.add_system("quiz", "SECRET-B", {f"i{k}": "7" for k in range(6)})
            owner.seal("quiz")
            owner.open("quiz")
            link = owner.invite("quiz", "annotator")
            with Client(site.url) as rater:
                rater.join(link, name="R", email="r@example.org", password=PASSWORD)
                asked = rater.next("quiz")
                n = 0
                while asked is not None:
                    assert "SECRET" not in json.dumps(asked)
                    assert set(asked["content"]) == {"text", "reply"}
                    right = asked["content"]["reply"] == str(2 * int(asked["content"]["text"][0]))
                    _, asked = rater.answer("quiz", asked, "yes" if right else "no")
                    n += 1
                assert n == 6
            live = owner.live("quiz")
            assert [s["name"] for s in live["systems"]] == ["SECRET-A", "SECRET-B"]
            owner.close_project("quiz")
            tasks = json.loads(owner.export("quiz", "label-studio"))
            said = [
                r["value"]["choices"] for t in tasks for a in t["annotations"] for r in a["result"]
            ]
            assert sorted({c for [c] in said}) == ["no", "yes"]


def quiz(site: Site, **spec: Any) -> tuple[int, int, int]:
    owner, rater = site.person("owner"), site.person("rater")
    named = {"protocol": "grade", "classes": (), **spec}
    project = site.project("quiz", owner, **named)
    site.items(
        project, [Item(name=f"i{k}", content={"markdown": f"What is *{k}*?"}) for k in range(4)]
    )
    return project, owner, rater


def test_manager_brings_answers_on_the_page(tmp_path: Path) -> None:
    with running(tmp_path, changes_per_minute=100_000) as site:
        project, owner, rater = quiz(site)
        visitor = site.as_(owner)
        assert "Answers that are graded come before sealing" in visitor.get("/p/quiz/setup").text
        rows = "item,answer\r\n" + "".join(f"i{k},**{k}** <b>\r\n" for k in range(4))
        sent = visitor.upload("/p/quiz/systems", "a.csv", rows.encode(), {"name": "SECRET"})
        assert sent.status == 303
        assert "SECRET" in visitor.get("/p/quiz/setup").text
        assert "4 questions would be drawn" in visitor.get("/p/quiz/setup?preview=seal").text
        site.step(project, "seal", "open")
        site.join("quiz", owner, rater, "annotator")
        page = site.as_(rater).get("/p/quiz/work").text
        assert "Is this answer right?" in page
        assert "SECRET" not in page
        assert "&lt;b&gt;" in page
        assert '<div id="reply"' in page
        assert ">Right<" in page.replace("</span>", "<")


@pytest.mark.browser
def test_grade_by_keyboard_on_a_phone(browser: Any, tmp_path: Path) -> None:
    with running(tmp_path, changes_per_minute=100_000) as site:
        project, owner, rater = quiz(site)
        for name in ("a", "b"):
            said = {f"i{k}": f"answer {name} " + "of some length " * 12 for k in range(4)}
            site.store.write_now(
                lambda w, n=name, s=said: projects.add_system(
                    w, project, n, s, actor="system", now=time.time()
                )
            )
        site.step(project, "seal", "open")
        site.join("quiz", owner, rater, "annotator")
        context = browser.new_context(viewport={"width": 390, "height": 800})
        cookie = {"name": "noracle", "value": site.session(rater), "url": site.url}
        context.add_cookies([{**cookie, "httpOnly": True, "sameSite": "Strict"}])
        page = context.new_page()
        page.goto(f"{site.url}/p/quiz/work")
        for value in "1230":  # right, wrong, not sure, undo
            assert page.evaluate("document.documentElement.scrollWidth") <= 390
            assert page.inner_text("#asked") == "Is this answer right?"
            assert page.locator("#reply").is_visible()
            question = page.get_attribute("form[data-keys] input[name=question]", "value")
            page.wait_for_timeout(450)
            page.keyboard.press(value)
            page.wait_for_function(
                "old => document.querySelector('form[data-keys] input[name=question]')?.value !== old",
                arg=question,
            )
        context.close()
        rows = site.store.read_now(lambda w: w.all("SELECT value FROM answer ORDER BY id"))
        assert [row["value"] for row in rows] == ["yes", "no", "unsure"]
