"""A system that was made from the verdicts is shown as uploaded after answers and promises nothing:
live, in JSON, on the page, exported and after verify. A commitment keeps an honest one in time.
"""

from __future__ import annotations

import asyncio
import copy
import io
import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("argon2", reason="the extra collect is not installed")

from noracle.cli import run
from noracle.collect.archive import ProjectArchive, read_archive
from noracle.collect.chain import event_hash, salted_hash
from noracle.collect.errors import Conflict, Refused
from noracle.collect.live import live_view
from noracle.collect.service import exports, projects
from noracle.collect.store.base import Store
from noracle.collect.verify import verify_archive
from tests.unit.collect.service_world import Ready, Service, spec_of, texts

N, K = 240, 3
LATE, UNTOLD = "uploaded after answers", "answers made without the verdicts"


def truth(item: str) -> int:
    return int(item[-4:]) * 7 % 11 % K


def answers(right: int) -> dict[str, int | None]:
    """Answers of an honest system: of every ten items ``right`` are right."""
    names = [item.name for item in texts(N)]
    return {n: truth(n) if i % 10 < right else (truth(n) + 1) % K for i, n in enumerate(names)}


def add(service: Service, ready: Ready, name: str, given: dict[str, Any], **more: Any) -> None:
    about = {"actor": "system", "now": service.now, **more}
    service.write(lambda w: projects.add_system(w, ready.project, name, given, **about))


def commit(service: Service, ready: Ready, name: str, commitment: str) -> None:
    about = {"actor": "system", "now": service.now}
    service.write(lambda w: projects.commit_system(w, ready.project, name, commitment, **about))


def say(text: str, shown: tuple[int, ...]) -> str:
    return "yes" if truth(f"i{int(text.rsplit(maxsplit=1)[-1]):04}") == shown[0] else "no"


def cheat(service: Service, project: int) -> dict[str, int | None]:
    """Follows every yes, avoids every no, and is right where the verdict says so only: .333."""
    rows = service.store.read_chained_now(project, lambda w: exports.judgements(w, project))
    made: dict[str, int | None] = {}
    for row in rows:
        item, asked = row["item"], row["class"]
        wrong = next(c for c in range(K) if c not in (asked, truth(item)))
        made[item] = asked if row["verdict"] == "yes" else wrong
    return made


@pytest.fixture
def world(store: Store) -> tuple[Service, Ready]:
    service = Service(store)
    ready = service.ready(spec_of(k=K, planned_n=N), texts(N))
    add(service, ready, "honest", answers(8))
    assert service.work(ready, say) == N
    made = cheat(service, ready.project)
    assert 0.2 < sum(truth(i) == a for i, a in made.items()) / N < 0.45
    add(service, ready, "cheat", made)
    return service, ready


def archive_of(service: Service, ready: Ready) -> ProjectArchive:
    kept = service.store.read_chained_now(
        ready.project, lambda w: exports.export_one(w, ready.project, "archive")
    )
    return read_archive(io.BytesIO(kept[2]))


def test_the_cheat_promises_nothing_live_exported_and_verified(
    world: tuple[Service, Ready], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    service, ready = world
    view = service.read(lambda w: live_view(w, ready.project, now=service.now))
    honest, late = view.systems
    assert (honest.name, honest.late, late.name, late.late) == ("honest", False, "cheat", True)
    assert late.estimate.value > 0.95  # what it was made for
    for part in (late.estimate, late.fixed):
        assert part is not None
        assert part.guarantee.kind.label == "heuristic"
        assert not part.guarantee.anytime
        assert any(LATE in note for note in part.notes)
    assert honest.estimate.guarantee.kind.label == "finite-sample"  # the cheat takes nothing away
    assert honest.estimate.guarantee.anytime
    told = json.loads(json.dumps(view.to_dict()))["systems"][1]
    assert told["late"] is True
    rests = {a["name"]: a["status"] for a in told["estimate"]["guarantee"]["assumptions"]}
    assert rests[UNTOLD] == "failed"
    assert any(LATE in note and "cheat" in note for note in view.notes)
    # every system is compared with how often it was asked about, and the late one told nothing else
    assert {"chance hits of honest", "chance hits of cheat"} <= {c.name for c in view.checks}
    # the archive
    archive = archive_of(service, ready)
    assert {s["system"]: s["late"] for s in archive.systems} == {"honest": False, "cheat": True}
    result = verify_archive(archive)
    assert result.passed, result.findings
    assert result.systems == {"honest": "in time", "cheat": LATE}
    # tables: the estimate that anybody makes of them
    service.close(ready.project)
    files = service.read(lambda w: exports.export_files(w, ready.project, "csv"))
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    tables = [f"--{name}={tmp_path / name}.csv" for name in ("answers", "judgements", "items")]
    assert run(["estimate", *tables, "--json"]) == 0
    results = json.loads(capfd.readouterr().out)["results"]
    kinds = {r["subject"]: r["guarantee"] for r in results if r["schema"] == "estimate/1"}
    assert kinds["cheat"]["kind"] == "heuristic"
    assert kinds["honest"]["kind"] == "finite-sample"
    assert {a["name"]: a["status"] for a in kinds["honest"]["assumptions"]}[UNTOLD] == "assumed"
    assert run(["check", *tables]) == 1
    assert f"cheat: {LATE}" in capfd.readouterr().out


def test_the_commands_show_the_cheat(
    world: tuple[Service, Ready], capfd: pytest.CaptureFixture[str]
) -> None:
    service, _ = world
    address = f"{service.store.url}#demo"
    assert run(["estimate", "--project", address, "--json"]) == 0
    found = json.loads(capfd.readouterr().out)["results"]
    kinds = {r["subject"]: r["guarantee"]["kind"] for r in found if r["schema"] == "estimate/1"}
    assert kinds == {"honest": "finite-sample", "cheat": "heuristic"}
    assert run(["estimate", "--project", address]) == 0
    assert LATE in capfd.readouterr().out
    assert run(["check", "--project", address]) == 1
    assert f"cheat: {LATE}" in capfd.readouterr().out
    assert run(["verify", address]) == 0
    out = capfd.readouterr().out
    assert f"cheat: {LATE}" in out
    assert "honest: in time" in out
    assert "verified" not in out
    assert "not protected" in out


def test_a_flag_that_lies_is_a_fault(world: tuple[Service, Ready]) -> None:
    service, ready = world
    service.write(lambda w: w.run("UPDATE system SET late = 0"))
    result = verify_archive(archive_of(service, ready))
    assert not result.passed
    assert "system 'cheat' (late)" in " ".join(result.findings)
    assert result.systems["cheat"] == LATE


def test_a_commitment_keeps_a_system_in_time(store: Store) -> None:
    service = Service(store)
    ready = service.ready(spec_of(k=K), texts(30))
    mine = {n: a for n, a in answers(8).items() if int(n[1:]) < 30}
    salt = projects.new_salt()
    commit(service, ready, "agent", salted_hash(salt, mine))
    with pytest.raises(Conflict, match="must be new"):
        commit(service, ready, "agent", "0" * 64)
    commit(service, ready, "hidden", "1" * 64)
    for wrong in ("A" * 64, "0" * 63, "", "0" * 64 + "\n"):
        with pytest.raises(Refused, match="SHA-256"):
            commit(service, ready, "other", wrong)
    service.work(ready, say, most=5)
    with pytest.raises(Conflict, match="before the first answer"):
        commit(service, ready, "too late", "2" * 64)
    other = {**mine, "i0003": (int(mine["i0003"] or 0) + 1) % K}
    for given, key in ((other, salt), (mine, None), (mine, "0" * 32), (mine, "")):
        with pytest.raises(Refused, match="those of the commitment"):
            add(service, ready, "agent", given, salt=key)
    with pytest.raises(Refused, match="must come with a commitment"):
        add(service, ready, "new", mine, salt=salt)
    add(service, ready, "agent", mine, salt=salt)
    view = service.read(lambda w: live_view(w, ready.project, now=service.now))
    assert [(s.name, s.late) for s in view.systems] == [("agent", False)]
    assert view.systems[0].estimate.guarantee.kind.label == "finite-sample"
    assert any("not revealed: hidden" in note for note in view.notes)
    archive = archive_of(service, ready)
    result = verify_archive(archive)
    assert result.passed, result.findings
    assert result.systems == {"agent": "committed in time", "hidden": "not revealed"}
    _forgeries(archive)


def _forgeries(archive: ProjectArchive) -> None:
    """Whoever rebuilds the chain cannot pass other answers, or a later commitment, as in time."""

    def again(changed: ProjectArchive) -> ProjectArchive:
        prev = ""
        for i, event in enumerate(changed.events, start=1):
            event["seq"], event["prev"] = i, prev
            about = {k: event[k] for k in ("seq", "at", "actor", "kind", "payload")}
            prev = event["hash"] = event_hash(prev, **about)
        changed.project["head"] = prev
        return changed

    later = copy.deepcopy(archive)
    event = next(e for e in later.events if e["kind"] == "system-committed")
    later.events.remove(event)
    added = next(i for i, e in enumerate(later.events) if e["kind"] == "system-added")
    later.events.insert(added, event)
    assert verify_archive(again(later)).systems["agent"] == LATE
    assert not verify_archive(again(later)).passed  # the flag says in time
    salted = copy.deepcopy(archive)
    event = next(e for e in salted.events if e["kind"] == "system-added")
    payload = {**json.loads(event["payload"]), "salt": "0" * 32}
    event["payload"], salted.systems[0]["salt"] = json.dumps(payload), "0" * 32
    assert "committed to" in " ".join(verify_archive(again(salted)).findings)


def test_the_first_answer_decides_while_systems_come(store: Store) -> None:
    """Answers and systems at the same time: late is what the chain says, for each of them."""
    service = Service(store)
    ready = service.ready(spec_of(k=K), texts(30), people_a_pool=2)

    async def both() -> None:
        async def one(token: str) -> None:
            asked = await store.next_question(token, ready.project, now=service.now)
            if asked is not None:
                about: Any = {"client_ms": None, "now": service.now, "want_next": False}
                about |= {"shown_at": service.now, "value": "no", "key": asked.key}
                await store.answer(token, ready.project, question=asked.question, **about)

        def system(i: int) -> Any:
            about: Any = {"actor": "system", "now": service.now}
            return lambda w: projects.add_system(w, ready.project, f"s{i}", {"i0001": 1}, **about)

        systems = [store.write(system(i)) for i in range(12)]
        await asyncio.gather(*systems[:6], *map(one, ready.raters.values()), *systems[6:])

    asyncio.run(both())
    archive = archive_of(service, ready)
    result = verify_archive(archive)
    assert result.passed, result.findings
    late = {s["system"] for s in archive.systems if s["late"]}
    assert late == {name for name, when in result.systems.items() if when == LATE}


@pytest.mark.parametrize("protocol", ["judge-all", "pick-wrong", "ordinary", "targeted"])
def test_late_systems_of_every_protocol_promise_nothing(protocol: str, sqlite_url: str) -> None:
    from noracle.collect.store import open_store

    service = Service(open_store(sqlite_url))
    more: dict[str, Any] = {"shown": 2, "annotators": 2} if protocol != "targeted" else {}
    spec = spec_of("partitioned" if protocol == "targeted" else protocol, k=K, **more)
    items = texts(60)
    chances = {item.name: [0.5, 0.3, 0.2] for item in items}
    seal = {"propensities": chances} if protocol == "targeted" else {}
    ready = service.ready(spec, items, people_a_pool=2, **seal)
    mine = {n: a for n, a in answers(8).items() if int(n[1:]) < 60}
    add(service, ready, "early", mine)

    def value(text: str, shown: tuple[int, ...]) -> str:
        each = [
            "yes" if truth(f"i{int(text.rsplit(maxsplit=1)[-1]):04}") == c else "no" for c in shown
        ]
        one = {"judge-all": "|".join(each), "targeted": each[0]}
        return one.get(protocol, str(shown[0]))

    assert service.work(ready, value) >= 60
    add(service, ready, "late", mine)
    view = service.read(lambda w: live_view(w, ready.project, now=service.now))
    service.store.close()
    early, late = (s.estimate.guarantee for s in view.systems)
    assert late.kind.label == "heuristic"
    assert not late.anytime
    if protocol != "pick-wrong":
        assert early.kind.label == "finite-sample"
    hits = [c.name for c in view.checks if c.name.startswith("chance hits")]
    wanted = ["chance hits of early", "chance hits of late"]
    assert hits == ([] if protocol == "ordinary" else wanted)
    assert not view.alarms


@pytest.mark.full
def test_the_pages_and_json_tell_of_late_systems_and_of_the_head(tmp_path: Path) -> None:
    pytest.importorskip("fastapi", reason="the extra 'collect' is not installed")
    from tests.service import web_site

    with web_site.running(tmp_path) as site:
        ann, bob = site.person("ann"), site.person("bob")
        project = site.project("demo", ann)
        site.items(project, web_site.texts(9))
        for pool in range(3):
            site.join("demo", ann, bob, "annotator", pool)
        owner, rater = site.as_(ann), site.as_(bob)
        site.step(project, "seal")
        mine: dict[str, int | None] = {f"i{k}": k % 3 for k in range(9)}
        salt = projects.new_salt()
        where = "/projects/demo"
        told = owner.api("POST", f"{where}/systems", {"name": "a", "answers": mine})
        assert told.status == 201, told.text
        assert (told.status, told.json()["late"]) == (201, False)
        promise = {"name": "b", "commitment": salted_hash(salt, mine)}
        assert owner.api("POST", f"{where}/systems", promise).status == 201
        for wrong in ({}, {"salt": salt}, {**promise, "answers": mine}, {"commitment": "x"}):
            sent = {"name": "w", **wrong}
            assert owner.api("POST", f"{where}/systems", sent).status in (409, 422)
        assert rater.api("POST", f"{where}/systems", promise).status == 403
        site.step(project, "open")
        asked = rater.api("POST", f"{where}/next").json()["next"]
        keys = {"question": asked["question"], "key": asked["key"], "shown_at": 1.0}
        assert rater.api("POST", f"{where}/answers", {**keys, "value": "no"}).status == 200
        sent = {"name": "b", "answers": {**mine, "i0": 1}, "salt": salt}
        assert owner.api("POST", f"{where}/systems", sent).status == 422
        told = owner.api("POST", f"{where}/systems", {"name": "b", "answers": mine, "salt": salt})
        assert (told.status, told.json()["late"]) == (201, False)
        told = owner.api("POST", f"{where}/systems", {"name": "c", "answers": mine})
        assert (told.status, told.json()["late"]) == (201, True)
        page = owner.get("/p/demo").text
        assert page.count("Uploaded after answers") == 1
        assert page.count("valid at every look") == 2, "of a and b, in their charts"
        assert "only if you look once" not in page
        assert owner.get("/p/demo/setup").text.count("Uploaded after answers") == 1
        late = {s["name"]: s["late"] for s in owner.api("GET", f"{where}/live").json()["systems"]}
        assert late == {"a": False, "b": False, "c": True}
        assert "data-copy" not in owner.get("/p/demo").text
        closed = owner.api("POST", f"{where}/close").json()
        assert closed["state"] == "closed"
        page = owner.get("/p/demo").text
        assert closed["head"] in page
        assert 'data-copy="head"' in page
        assert '<svg width="' in page
        assert "QR code" in page
        archive = read_archive(io.BytesIO(owner.api("GET", f"{where}/export").body))
        assert archive.project["closed_head"] == closed["head"] != archive.project["head"]
        values = [closed[key] for key in ("commitment", "root", "head")]
        result = verify_archive(archive, published=values)
        assert result.verified, result.findings
        assert result.systems == {"a": "in time", "b": "committed in time", "c": LATE}


def test_a_database_of_the_first_release_tells_which_systems_were_late(sqlite_url: str) -> None:
    """Its events say so; the flag follows when the database is migrated."""
    import sqlite3

    from noracle.collect.store import base, open_store

    path = sqlite_url.removeprefix("sqlite:///")
    service = Service(open_store(sqlite_url))
    ready = service.ready(spec_of(k=K), texts(30))
    mine = {n: a for n, a in answers(8).items() if int(n[1:]) < 30}
    add(service, ready, "early", mine)
    service.work(ready, say, most=3)
    add(service, ready, "late", mine)  # the same answers: the time tells them apart
    service.store.close()
    with sqlite3.connect(path) as old:  # as release 0.1 left it
        for name in ("late", "commitment", "salt"):
            old.execute(f"ALTER TABLE system DROP COLUMN {name}")
        old.execute("DROP TABLE committed")
        old.execute("DROP INDEX event_closed")
        old.execute("DROP INDEX event_stepped")
        third = next(m for m in base.migrations("sqlite") if m.name == "sealed_systems")
        old.executescript(third.sql)
    old.close()
    service = Service(open_store(sqlite_url))
    archive = archive_of(service, ready)
    assert {s["system"]: s["late"] for s in archive.systems} == {"early": False, "late": True}
    assert verify_archive(archive).passed
    service.store.close()


def test_the_command_line_commits_reveals_and_prints_the_head(
    sqlite_url: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    from noracle.collect.store import open_store

    service = Service(open_store(sqlite_url))
    ready = service.ready(spec_of(k=K), texts(12))
    lines = "".join(f"i{k:04},{k % K}\n" for k in range(12))
    (tmp_path / "a.csv").write_text(f"item,answer\n{lines}")
    named = ["collect", "import", "demo", "--db", sqlite_url, "--system", f"a={tmp_path / 'a.csv'}"]
    assert run([*named, "--commit", "--salt", "0" * 32]) == 2
    assert run([*named, "--commit"]) == 0
    out = capfd.readouterr().out
    salt = out.split("--salt ")[1].strip()
    assert "commitment" in out
    service.work(ready, say, most=3)
    assert run(named) != 0  # its name is taken by the commitment
    assert run([*named, "--salt", "0" * 32]) != 0
    assert run([*named, "--salt", salt]) == 0
    late = [*named[:-1], f"b={tmp_path / 'a.csv'}"]
    capfd.readouterr()
    assert run(late) == 0
    assert f"b: {LATE}" in capfd.readouterr().out
    assert run(["collect", "close", "demo", "--db", sqlite_url, "--yes"]) == 0
    head = next(line.split()[1] for line in capfd.readouterr().out.splitlines() if "head" in line)
    result = verify_archive(archive_of(service, ready), published=[head])
    assert result.verified, result.findings
    assert result.systems == {"a": "committed in time", "b": LATE}
    service.store.close()
