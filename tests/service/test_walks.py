"""Random walks of experts through the real application: loading again, back, tabs, devices, logging
out, leases and sessions that run out.

Whatever somebody does, they never have two questions before them: of all the forms that were ever
shown to a person, at most one is neither answered nor out of time. The walks go through the whole
application (guard, session, CSRF, transactions) in this process. All experts of a group take one
step at the same moment, so that they also race against each other, and some steps are several
requests of one person at once.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import random
import re
import types
import urllib.parse
from collections import Counter
from typing import Any, NamedTuple

import pytest

pytest.importorskip("fastapi", reason="the extra 'collect' is not installed")

from noracle.collect.service import access, people
from noracle.collect.store import open_store
from noracle.collect.store.base import Store, Work
from noracle.collect.web import api, core, work
from noracle.collect.web.app import make_app
from noracle.collect.web.security import WebSettings, csrf_token
from tests.service.worlds import START, World, build

HOST = "127.0.0.1:8000"
SETTINGS = WebSettings(
    base_url=f"http://{HOST}",
    secure=False,
    key=bytes(range(50, 82)),
    answers_per_minute=10**7,
    changes_per_minute=10**7,
)
LEASE = 600.0
GROUP = 25
"""Experts who walk at the same time."""

FORM = re.compile(
    r'name="question" value="(\d+)">\s*<input type="hidden" name="key" value="([^"]+)"'
)
STEPS = (
    "load",
    "load",
    "answer",
    "answer",
    "answer",
    "back",
    "tab",
    "device",
    "log out",
    "session",
    "twice",
    "race",
    "amend",
)
WAITS = (0.0, 0.0, 0.0, 1.0, LEASE / 3, LEASE / 3, LEASE / 2, LEASE - 1, LEASE)


class Form(NamedTuple):
    """A question as it was shown."""

    question: int
    key: str


class Reply(NamedTuple):
    status: int
    body: bytes


class Clock(types.SimpleNamespace):
    """The time of the whole application."""

    now: float

    def time(self) -> float:
        return self.now


@dataclasses.dataclass
class Ledger:
    """What one person was shown and what was acknowledged. It knows leases only from when a form
    was first shown.
    """

    shown: dict[Form, float] = dataclasses.field(default_factory=dict)
    answered: dict[int, str] = dataclasses.field(default_factory=dict)

    def show(self, form: Form, now: float) -> None:
        self.shown.setdefault(form, now)

    def before(self, now: float) -> list[Form]:
        """The forms that are neither answered nor out of time."""
        return [
            form
            for form, since in self.shown.items()
            if form.question not in self.answered and since + LEASE > now
        ]

    def check(self, now: float) -> None:
        held = self.before(now)
        assert len(held) <= 1, f"{len(held)} questions at once: {held}"


async def call(
    app: Any, method: str, path: str, token: str, fields: dict[str, Any] | None = None
) -> Reply:
    """One request straight into the application: a page, or JSON under /api."""
    csrf = csrf_token(SETTINGS, access.token_hash(token))
    headers = [("host", HOST), ("cookie", f"{SETTINGS.cookie}={token}")]
    body = b""
    if path.startswith("/api/"):
        body = json.dumps(fields or {}).encode() if fields else b""
        headers += [
            ("x-csrf-token", csrf),
            ("content-type", "application/json"),
            ("content-length", str(len(body))),
        ]
    elif method == "POST":
        body = urllib.parse.urlencode({"csrf": csrf, **(fields or {})}).encode()
        headers += [
            ("origin", f"http://{HOST}"),
            ("content-type", "application/x-www-form-urlencoded"),
            ("content-length", str(len(body))),
        ]
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 8000),
        "headers": [(name.encode(), value.encode()) for name, value in headers],
    }
    messages, status, parts = [{"type": "http.request", "body": body, "more_body": False}], 0, []

    async def receive() -> dict[str, Any]:
        return messages.pop(0) if messages else {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        nonlocal status
        if message["type"] == "http.response.start":
            status = int(message["status"])
        else:
            parts.append(message.get("body", b""))

    await app(scope, receive, send)
    return Reply(status, b"".join(parts))


@dataclasses.dataclass
class Expert:
    """One person with several devices, each with a session and tabs; every tab remembers the forms
    that it has shown.
    """

    app: Any
    store: Store
    clock: Clock
    slug: str
    person: int
    rng: random.Random
    ledger: Ledger = dataclasses.field(default_factory=Ledger)
    devices: list[str] = dataclasses.field(default_factory=list)
    tabs: list[tuple[int, list[Form]]] = dataclasses.field(default_factory=list)
    done: Counter[str] = dataclasses.field(default_factory=Counter)
    _key: int = 0

    async def begin(self) -> str:
        """A session, as signing in makes it, without the slow password."""
        token = access.new_token()
        now = self.clock.now
        await self.store.write(
            lambda w: people.start_session(w, self.person, access.token_hash(token), now=now)
        )
        return token

    async def device(self) -> None:
        self.devices.append(await self.begin())
        self.tabs.append((len(self.devices) - 1, []))

    async def step(self) -> None:
        """Do one random thing."""
        if not self.tabs:
            await self.device()
        what = self.rng.choice(STEPS)
        tab = self.rng.randrange(len(self.tabs))
        device, seen = self.tabs[tab]
        if what == "tab":
            self.tabs.append((device, []))
            await self.load(len(self.tabs) - 1)
        elif what == "device":
            await self.device()
            await self.load(len(self.tabs) - 1)
        elif what in ("log out", "session"):
            await self.leave(device, what)
        elif what == "twice" and seen:
            value = self.value()
            await asyncio.gather(
                self.answer(tab, seen[-1], value), self.answer(tab, seen[-1], value)
            )
        elif what == "race":
            some = [self.rng.randrange(len(self.tabs)) for _ in range(self.rng.randint(2, 4))]
            await asyncio.gather(*(self.move(t) for t in some))
        elif what == "back" and seen:
            await self.answer(tab, self.rng.choice(seen), self.value())
        elif what == "answer" and seen:
            await self.answer(tab, seen[-1], self.value())
        elif what == "amend":
            await self.amend(tab)
        else:
            await self.load(tab)
        self.done[what] += 1

    def value(self) -> str:
        return self.rng.choice(("yes", "no", "no", "unsure"))

    async def move(self, tab: int) -> None:
        seen = self.tabs[tab][1]
        if seen and self.rng.random() < 0.5:
            await self.answer(tab, seen[-1], self.value())
        else:
            await self.load(tab)

    async def load(self, tab: int) -> None:
        """Load the page, or ask for the next question as a script would."""
        token = self.devices[self.tabs[tab][0]]
        if self.rng.random() < 0.5:
            reply = await call(self.app, "GET", f"/p/{self.slug}/work", token)
            assert reply.status in (200, 303), reply
        else:
            reply = await call(self.app, "POST", f"/api/v1/projects/{self.slug}/next", token)
            assert reply.status in (200, 204, 401), reply
        await self.see(tab, reply)

    async def see(self, tab: int, reply: Reply) -> None:
        """Note the form in a page or in JSON; whoever was logged out comes back with a new session."""
        device, seen = self.tabs[tab]
        if reply.status in (303, 401) and await self.out(device):
            self.devices[device] = await self.begin()
            self.done["came back"] += 1
            return
        form = read(reply.body)
        if form is not None:
            self.ledger.show(form, self.clock.now)
            seen.append(form)

    async def out(self, device: int) -> bool:
        hashed, now = access.token_hash(self.devices[device]), self.clock.now
        return await self.store.read(lambda w: access.who(w, hashed, now=now)) is None

    async def answer(self, tab: int, form: Form, value: str) -> None:
        """Send a form, which may be old, answered or out of time: then it is refused, and nothing
        changes.
        """
        token = self.devices[self.tabs[tab][0]]
        fields = {
            "question": form.question,
            "key": form.key,
            "value": value,
            "shown_at": self.ledger.shown[form],
        }
        if self.rng.random() < 0.5:
            reply = await call(
                self.app,
                "POST",
                f"/p/{self.slug}/work",
                token,
                {k: str(v) for k, v in fields.items()},
            )
            assert reply.status in (303, 401, 409), reply
            kept = reply.status == 303
        else:
            fields["want_next"] = self.rng.random() < 0.5
            reply = await call(
                self.app, "POST", f"/api/v1/projects/{self.slug}/answers", token, fields
            )
            assert reply.status in (200, 401, 409), reply
            kept = reply.status == 200
        if kept:
            assert self.ledger.answered.setdefault(form.question, value) == value, (
                "an answer was replaced"
            )
            self.done["kept"] += 1
        self.done["refused"] += reply.status == 409
        await self.see(tab, reply)

    async def amend(self, tab: int) -> None:
        """Change the last answer; it must not bring another question."""
        token = self.devices[self.tabs[tab][0]]
        page = await call(self.app, "GET", f"/p/{self.slug}/last", token)
        number = re.search(rb'name="answer" value="(\d+)"', page.body)
        if page.status == 200 and number:
            self._key += 1
            fields = {
                "answer": number[1].decode(),
                "key": f"{self.person}-{self._key}",
                "value": self.value(),
            }
            reply = await call(self.app, "POST", f"/p/{self.slug}/last", token, fields)
            assert reply.status in (303, 401), reply

    async def leave(self, device: int, how: str) -> None:
        """Log out on a device, or let its session run out; other devices are not touched."""
        token = self.devices[device]
        if how == "log out":
            reply = await call(self.app, "POST", "/sign-out", token)
            assert reply.status in (303, 401), reply
        else:
            hashed, now = access.token_hash(token), self.clock.now
            await self.store.write(
                lambda w: w.run(
                    "UPDATE session SET expires_at = :now WHERE token_hash = :t", now=now, t=hashed
                )
            )


def read(body: bytes) -> Form | None:
    """The form in a page, in an answer of the JSON interface, or none."""
    if body[:1] != b"{":
        found = FORM.search(body.decode())
        return None if found is None else Form(int(found[1]), found[2])
    value = json.loads(body)
    value = value.get("next", value) or {}
    return (
        Form(int(value["question"]), str(value["key"]))
        if "question" in value and "key" in value
        else None
    )


async def walk(store: Store, clock: Clock, sequences: int, *, seed: int) -> Counter[str]:
    """Random sequences of 6 to 14 steps, a group at a time in a project of their own; returns what
    happened how often.
    """
    app, rng, happened = make_app(store, settings=SETTINGS), random.Random(seed), Counter[str]()
    for start in range(0, sequences, GROUP):
        size = min(GROUP, sequences - start)
        world = await asyncio.to_thread(
            build,
            store,
            n_classes=3,
            n_items=60,
            n_people=size,
            draws=2,
            reasks=1,
            lease_seconds=LEASE,
            seed=rng.randrange(2**31),
        )
        slug = await store.read(
            lambda w, p=world.project: str(
                (w.one("SELECT slug FROM project WHERE id = :p", p=p) or {})["slug"]
            )
        )  # type: ignore[misc]
        experts = [
            Expert(app, store, clock, slug, person, random.Random(rng.randrange(2**31)))
            for person in world.people
        ]
        for _ in range(rng.randint(6, 14)):
            clock.now += rng.choice(WAITS)
            await asyncio.gather(*(expert.step() for expert in experts))
            for expert in experts:
                expert.ledger.check(clock.now)
        await store.read(lambda w, world=world, experts=experts: check_tables(w, world, experts))  # type: ignore[misc]
        for expert in experts:
            happened.update(expert.done)
    return happened


def check_tables(w: Work, world: World, experts: list[Expert]) -> None:
    """What was acknowledged is what is stored: one first answer a question, one lease per person,
    nobody twice about one item.
    """
    held = w.all(
        "SELECT person_id, COUNT(*) AS n FROM question WHERE project_id = :p AND status = 1 "
        "AND person_id IS NOT NULL GROUP BY person_id",
        p=world.project,
    )
    assert all(row["n"] == 1 for row in held)
    firsts = w.all(
        "SELECT a.person_id, a.question_id, a.value, q.item_id FROM answer a JOIN question q ON q.id = a.question_id "
        "WHERE a.project_id = :p AND a.revision = 0",
        p=world.project,
    )
    assert len({row["question_id"] for row in firsts}) == len(firsts)
    assert len({(row["person_id"], row["item_id"]) for row in firsts}) == len(firsts)
    for expert in experts:
        stored = {
            row["question_id"]: row["value"] for row in firsts if row["person_id"] == expert.person
        }
        assert stored == expert.ledger.answered


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """A clock that stands still unless it is moved."""
    found = Clock(now=START + 10)
    for module in (core, work, api):
        monkeypatch.setattr(module, "time", found)
    return found


def run(store: Store, clock: Clock, sequences: int, *, seed: int) -> None:
    happened = asyncio.run(walk(store, clock, sequences, seed=seed))
    for what in (*STEPS, "kept", "refused", "came back"):
        assert happened[what] > sequences / 100, (
            f"{what} happened {happened[what]} times: the walks did not try it"
        )


@pytest.mark.full
def test_random_walks_never_show_an_expert_two_questions(store: Store, clock: Clock) -> None:
    run(store, clock, 150, seed=1)


@pytest.mark.slow
def test_ten_thousand_random_walks_never_show_an_expert_two_questions(
    sqlite_url: str, clock: Clock
) -> None:
    store = open_store(sqlite_url)
    try:
        run(store, clock, 10_000, seed=2)
    finally:
        store.close()


def test_the_ledger_notices_a_second_question_and_forgets_what_ran_out() -> None:
    first, second = Form(1, "a"), Form(2, "b")
    ledger = Ledger()
    ledger.show(first, 0.0)
    ledger.show(first, LEASE / 2)  # loading again does not make a lease longer
    ledger.check(0.0)
    ledger.show(second, LEASE)
    ledger.check(LEASE)
    ledger.show(first._replace(key="c"), LEASE)
    with pytest.raises(AssertionError, match="2 questions at once"):
        ledger.check(LEASE + 1)
    ledger.answered[2] = "no"
    ledger.check(LEASE + 1)
    assert read(b"<p>nothing</p>") is None
    assert read(b'{"question": 3, "key": "k"}') == (3, "k")
    assert read(b'{"answer": 1, "question": 2, "next": null}') is None
