"""A clock that steps is clamped and recorded; it never breaks the order, a lease or an export."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

pytest.importorskip("argon2", reason="the extra collect is not installed")

from noracle.collect.archive import ProjectArchive, read_archive
from noracle.collect.chain import SKEW, STEPPED
from noracle.collect.model import HeldQuestion
from noracle.collect.service import exports, projects
from noracle.collect.store import open_store
from noracle.collect.store.base import Store
from noracle.collect.verify import Verification, verify_archive
from tests.unit.collect.service_world import Ready, Service, spec_of, texts

HOUR, LEASE = 3600.0, 900.0
Clock = Callable[[int], float]
"""The difference to the right time at the n-th answer."""

CLOCKS: dict[str, tuple[Clock, int, str]] = {
    "an hour back": (lambda n: -HOUR if n >= 20 else 0.0, 1, "-3,599.6"),
    "half an hour on and back": (lambda n: 1800.0 if 15 <= n < 25 else 0.0, 1, "-1,7"),
    "a leap second": (lambda n: -1.0 if n >= 20 else 0.0, 0, ""),
    "back twice": (lambda n: -HOUR * (n // 15), 2, "-7,19"),
    "years on and back": (lambda n: 3e8 if n == 20 else 0.0, 1, "-299,999,999"),
}


async def answer(store: Store, token: str, project: int, asked: HeldQuestion, now: float) -> None:
    about: Any = {"client_ms": None, "now": now, "want_next": False, "shown_at": now}
    about |= {"question": asked.question, "key": asked.key, "value": "no"}
    await store.answer(token, project, **about)


async def fill(stores: list[Store], ready: Ready, start: float, clock: Clock, gap: float) -> float:
    """Everybody answers all, each through the next store; returns the last right time."""
    now, done, idle = start, 0, 0
    tokens = [*ready.raters.values()]
    while idle < len(tokens):
        for token in tokens:
            store, at = stores[done % len(stores)], now + clock(done)
            asked = await store.next_question(token, ready.project, now=at)
            idle = 0 if asked is not None else idle + 1
            if asked is not None:
                await answer(store, token, ready.project, asked, at)
                done, now = done + 1, now + gap
    return now


def exported(service: Service, ready: Ready) -> tuple[ProjectArchive, Verification]:
    kept = service.store.read_chained_now(
        ready.project, lambda w: exports.export_one(w, ready.project, "archive")
    )
    archive = read_archive(io.BytesIO(kept[2]))
    return archive, verify_archive(archive)


def keep_signed_in(service: Service) -> None:
    service.write(lambda w: w.run("UPDATE session SET expires_at = 1e11"))


def note_of(result: Verification) -> str:
    return next(check.note for check in result.checks if check.name == "clock")


@pytest.mark.parametrize("name", CLOCKS)
def test_an_honest_project_verifies_and_the_step_is_named(store: Store, name: str) -> None:
    clock, steps, words = CLOCKS[name]
    service = Service(store)
    ready = service.ready(spec_of(k=3, lease_seconds=LEASE), texts(45), people_a_pool=2)
    keep_signed_in(service)
    last = asyncio.run(fill([store], ready, service.now + 3, clock, 0.4)) + clock(44)
    about: Any = {"actor": "system", "now": last}
    service.write(lambda w: projects.add_system(w, ready.project, "s", {"i0001": 1}, **about))
    service.write(lambda w: projects.close_project(w, ready.project, **about))
    archive, result = exported(service, ready)
    assert result.passed, result.findings
    times = [event["at"] for event in archive.events]
    assert all(a <= b for a, b in pairwise(times))
    told = [json.loads(e["payload"]) for e in archive.events if e["kind"] == STEPPED]
    assert len(told) == steps  # once for each step, not for each event
    assert all(set(step) == {"by", "from", "to"} for step in told)
    note = note_of(result)
    if steps:
        assert note.count(" s at event ") == steps
        assert words in note
    else:
        assert "clocks differ by up to" in note
        assert archive.project["closed_at"] == next(
            e["at"] for e in archive.events if e["kind"] == "closed"
        )


def test_a_step_is_told_by_what_managers_do_alone(store: Store) -> None:
    """Between two events of a manager there may be no answer that shows the step."""
    service = Service(store)
    ready = service.ready(spec_of(k=3), texts(6))
    about: Any = {"actor": "system", "now": service.now - HOUR}
    service.write(lambda w: projects.add_system(w, ready.project, "s", {"i0001": 1}, **about))
    service.write(lambda w: projects.close_project(w, ready.project, **about))
    archive, result = exported(service, ready)
    assert result.passed, result.findings
    assert sum(event["kind"] == STEPPED for event in archive.events) == 1
    assert "-3,602.0 s" in note_of(result)


def test_two_servers_whose_clocks_differ_by_three_seconds(store_url: str) -> None:
    stores = [open_store(store_url), open_store(store_url)]
    try:
        service = Service(stores[0])
        ready = service.ready(spec_of(k=3), texts(60), people_a_pool=2)
        last = asyncio.run(fill(stores, ready, service.now + 9, lambda n: -3.0 * (n % 2), 0.1))
        about: Any = {"actor": "system", "now": last - 3}
        service.write(lambda w: projects.close_project(w, ready.project, **about))
        archive, result = exported(service, ready)
        assert result.passed, result.findings
        assert not [event for event in archive.events if event["kind"] == STEPPED]
        assert "clocks differ by up to 3.0 s" in note_of(result) or "2.9" in note_of(result)
    finally:
        for each in stores:
            each.close()


def test_a_lease_from_the_future_begins_again_and_ends(store: Store) -> None:
    service = Service(store)
    ready = service.ready(spec_of(k=3, lease_seconds=LEASE), texts(1), people_a_pool=2)
    keep_signed_in(service)
    now, tokens = service.now + 5, [*ready.raters.values()]

    async def ask(token: str, at: float) -> HeldQuestion | None:
        return await store.next_question(token, ready.project, now=at)

    async def walk() -> None:
        ahead = now + 3e7  # a clock that is a year ahead
        held = [(t, q) for t in tokens if (q := await ask(t, ahead)) is not None]
        ((token, asked),) = held
        again = await ask(token, now)  # the clock was set right
        assert again is not None
        assert again.key == asked.key  # nobody loses their question
        assert again.lease_until == pytest.approx(now + LEASE)
        others = [t for t in tokens if t != token]
        late = [await ask(t, now + LEASE + 1) for t in others]
        assert sum(q is not None for q in late) == 1  # and it is not theirs for a year

    asyncio.run(walk())
    archive, result = exported(service, ready)
    assert result.passed, result.findings
    assert [e["kind"] for e in archive.events].count("lease-expired") == 1


def test_a_session_from_the_future_ends(store: Store) -> None:
    from noracle.collect.service import access

    service = Service(store, now=2_100_000_000.0)
    token = service.session(service.person("ann"))
    now = 1_800_000_000.0
    found = service.read(lambda w: access.who(w, token, now=now))
    assert found is not None
    assert found.stale  # so that its next use shortens it
    service.write(lambda w: access.touch_session(w, token, now=now))
    ends = service.read(lambda w: w.one("SELECT expires_at FROM session"))
    assert ends == {"expires_at": now + access.IDLE_SECONDS}
    service.now = now
    service.session(service.person("bob"))  # and those that nobody uses go when somebody signs in
    assert service.read(lambda w: access.who(w, token, now=now)) is None


def test_small_differences_are_no_steps() -> None:
    from noracle.collect.chain import ClockStep, clamped

    assert clamped(100.0 - SKEW, 100.0) == (100.0, None)
    assert clamped(100.0 - SKEW - 0.1, 100.0)[1] is not None
    assert clamped(50.0, 100.0, ClockStep(100.0, 49.0)) == (100.0, None)
    assert clamped(40.0, 100.0, ClockStep(100.0, 49.0))[1] is not None  # another one
    assert clamped(50.0, 100.0, ClockStep(90.0, 49.0))[1] is not None  # it had caught up meanwhile
