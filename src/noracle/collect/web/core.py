"""What pages and the JSON interface share: who asks, signing in, joining, answering, looking."""

from __future__ import annotations

import asyncio
import bisect
import dataclasses
import functools
import itertools
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack

from noracle._version import __version__
from noracle.collect.errors import Forbidden, NotFound, Refused, SignedOut, Throttled
from noracle.collect.model import Answered, Given, HeldQuestion, ProjectSpec, SentAnswer, read_spec
from noracle.collect.service import access, answers, people, projects
from noracle.collect.service.access import ANNOTATORS, MANAGERS, Member, Person, Roles
from noracle.collect.store.base import SQL, Row, Store, Value, Work
from noracle.collect.store.sqlite import MESSAGES
from noracle.collect.web.security import Newcomer, Started, WebSettings

if TYPE_CHECKING:
    from fastapi import Request

    from noracle.collect.live import LiveView

_MOST = 10_000
Change = Callable[..., Value]


class Buckets:
    """A bucket per key that fills at ``per_minute / 60`` a second and holds ``per_minute``.

    >>> buckets = Buckets(per_minute=2)
    >>> buckets.take("a", now=0.0), buckets.take("a", now=0.0)
    (None, None)
    >>> buckets.take("a", now=1.0)
    Traceback (most recent call last):
    ...
    noracle.collect.errors.Throttled: Too many requests; wait a little.
    >>> buckets.take("a", now=31.0)
    """

    def __init__(self, *, per_minute: int) -> None:
        self._most, self._rate = float(per_minute), per_minute / 60.0
        self._levels: dict[str, tuple[float, float]] = {}

    def take(self, key: str, *, now: float) -> None:
        """Take one, or refuse."""
        level, then = self._levels.get(key, (self._most, now))
        level = min(self._most, level + max(0.0, now - then) * self._rate)
        if level < 1.0:
            raise Throttled("Too many requests; wait a little.", wait=(1.0 - level) / self._rate)
        if len(self._levels) >= _MOST:
            self._forget(now)
        self._levels[key] = (level - 1.0, now)

    def _forget(self, now: float) -> None:
        """Drop full buckets; if there are none, all: a flood of keys must not fill the memory."""
        full = (k for k, (v, t) in self._levels.items() if v + (now - t) * self._rate >= self._most)
        for key in list(full):
            del self._levels[key]
        if len(self._levels) >= _MOST:
            self._levels.clear()


_EDGES = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


class Metrics:
    """What one server process counted since it started, by template of the route, never by name.

    >>> metrics = Metrics()
    >>> metrics.request("GET", "/healthz", 200, 0.002)
    >>> 'noracle_requests_total{method="GET",route="/healthz",status="200"} 1' in metrics.text()
    True
    """

    def __init__(self) -> None:
        self._requests: Counter[tuple[str, str, int]] = Counter()
        self._events: Counter[str] = Counter()
        self._buckets = [0] * (len(_EDGES) + 1)
        self._seconds = 0.0

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request."""
        self._requests[method, route, status] += 1
        self._seconds += seconds
        self._buckets[bisect.bisect_left(_EDGES, seconds)] += 1

    def event(self, kind: str) -> None:
        """Count something that happened: ``answer``, ``sign-in``, ``look``, …"""
        self._events[kind] += 1

    def text(self) -> str:
        """For a scraper."""
        edges = (*(f"{e:g}" for e in _EDGES), "+Inf")
        totals = list(itertools.accumulate(self._buckets))
        lines = [f'# TYPE noracle_info gauge\nnoracle_info{{version="{__version__}"}} 1']
        lines.append("# TYPE noracle_requests_total counter")
        for (method, route, status), n in sorted(self._requests.items()):
            labels = f'method="{method}",route="{route}",status="{status}"'
            lines.append(f"noracle_requests_total{{{labels}}} {n}")
        lines.append("# TYPE noracle_events_total counter")
        events = sorted(self._events.items())
        lines += [f'noracle_events_total{{kind="{kind}"}} {n}' for kind, n in events]
        lines.append("# TYPE noracle_request_seconds histogram")
        buckets = zip(edges, totals, strict=True)
        lines += [f'noracle_request_seconds_bucket{{le="{edge}"}} {n}' for edge, n in buckets]
        lines.append(f"noracle_request_seconds_sum {self._seconds:.6f}")
        lines.append(f"noracle_request_seconds_count {totals[-1]}\n")
        return "\n".join(lines)


SLUG = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?\Z")
_LIVE_SECONDS, _PARSE_SECONDS = 2.0, 90.0


class Known(NamedTuple):
    """What never changes of a sealed project."""

    id: int
    name: str
    spec: ProjectSpec


class Web:
    """The state of one server process."""

    def __init__(self, store: Store, settings: WebSettings) -> None:
        self.store, self.settings, self.metrics = store, settings, Metrics()
        self.answers = Buckets(per_minute=settings.answers_per_minute)
        self.changes = Buckets(per_minute=settings.changes_per_minute)
        self._parsers = ThreadPoolExecutor(2, thread_name_prefix="noracle-parse")
        self._known: dict[str, Known] = {}
        self._live: dict[int, tuple[float, LiveView]] = {}
        self._live_locks: dict[int, asyncio.Lock] = {}

    def link(self, kind: str, token: str) -> str:
        """The address of an invitation (``join``) or of a ``reset``."""
        return f"{self.settings.base_url.rstrip('/')}/{kind}/{token}"

    async def person(self, session: str) -> Person | None:
        """Who this is; keeps the session alive."""
        now = time.time()
        found = await self.store.read(access.who, session, now=now)
        if found is not None and found.stale:
            await self.store.write(access.touch_session, session, now=now)
        return found

    async def parsed(self, read: Callable[..., Value], *sent: object, **about: object) -> Value:
        """Read what was sent in one of two threads, so that nothing else waits for it."""
        reading = functools.partial(read, *sent, **about)
        future = asyncio.get_running_loop().run_in_executor(self._parsers, reading)
        try:
            return await asyncio.wait_for(future, _PARSE_SECONDS)
        except TimeoutError:
            rule = f"file must be readable in {_PARSE_SECONDS:.0f} seconds"
            raise Refused(f"{rule}; this one is not. Send it in parts.") from None

    async def _attempt(self, account: str, caller: Newcomer) -> list[str]:
        """Count an attempt, a known device's alone; returns what a success makes good again."""
        limit, now = self.settings.sign_ins, time.time()
        name = people.email_key(account)
        about = {"most": self.settings.sign_in_seconds, "now": now}
        device = access.token_hash(caller.device)
        own = [f"device|{device}|{name}", f"pair|{caller.address}|{name}"]

        def op(work: Work) -> None:
            if work.one(SQL.device, token=device, email=name) is not None:
                return access.slow(work, own[0], free=limit, **about)
            seconds = self.settings.sign_in_seconds
            key = f"address|{caller.address}"
            access.allow(work, key, limit=10 * limit, seconds=seconds, now=now)
            access.slow(work, own[1], free=limit, **about)
            return access.slow(work, f"account|{name}", free=3 * limit, **about)

        await self.store.write(op)
        return own

    async def sign_in(self, email: str, password: str, caller: Newcomer) -> tuple[Started, Row]:
        """A new session and the person, or SignedOut; the caller's old session ends."""
        good = await self._attempt(email, caller)
        found = await self.store.read(people.find_person, email)
        hashed = None if found is None else found["password"]
        fits = await asyncio.to_thread(people.password_fits, hashed, password)
        if found is None or not fits:
            raise SignedOut("E-mail or password is wrong.")
        return await self.start(int(found["id"]), caller, good, str(found["email"])), found

    async def start(
        self, person: int, caller: Newcomer, good: Iterable[str] = (), email: str = ""
    ) -> Started:
        """Begin a session of a person who showed who they are."""
        now, device = time.time(), access.token_hash(caller.device)

        def op(work: Work) -> Started:
            if caller.old is not None:
                people.end_session(work, caller.old)
            for key in good:
                work.run("DELETE FROM throttle WHERE key = :key", key=access.token_hash(key))
            token = access.new_token()
            people.start_session(work, person, access.token_hash(token), now=now)
            known = work.one(SQL.device, token=device, email=email) is not None
            started = Started(token, caller.device if known else access.new_token())
            people.keep_device(work, person, access.token_hash(started.device), now=now)
            return started

        started = await self.store.write(op)
        self.metrics.event("sign-in")
        return started

    async def reset_of(self, token: str) -> Row:
        """Whose password a link sets."""
        return await self.store.read(people.peek_reset, access.token_hash(token), now=time.time())

    async def reset(self, token: str, password: str, caller: Newcomer) -> Started:
        """Set the password of a link, and begin a session."""
        row = await self.reset_of(token)
        new = await asyncio.to_thread(people.hash_password, password)
        hashed, now = access.token_hash(token), time.time()
        who = await self.store.write(people.use_reset, hashed, new, now=now)
        return await self.start(who, caller, email=str(row["email"]))

    async def invitation(self, token: str) -> people.Invitation:
        """What a link leads to."""
        hashed = access.token_hash(token)
        return await self.store.read(people.peek_invitation, hashed, now=time.time())

    async def accept(self, token: str, person: int) -> Member:
        """Join as somebody who is signed in."""
        return await self._accept(token, lambda _: person)

    async def _accept(self, token: str, person: Callable[[Work], int]) -> Member:
        about: Any = {"token_hash": access.token_hash(token), "now": time.time()}
        accept = people.accept_invitation
        joined = await self.store.write(lambda work: accept(work, person=person(work), **about))
        self.metrics.event("join")
        return joined

    async def join(
        self, token: str, caller: Newcomer, *, password: str, **account: str
    ) -> tuple[Started, Member]:
        """Join as a new person (``email``, ``name``, ``locale``), or with this account; and a session."""
        await self.invitation(token)
        good = await self._attempt(account["email"], caller)
        found = await self.store.read(people.find_person, account["email"])
        if found is not None:
            if not await asyncio.to_thread(people.password_fits, found["password"], password):
                raise SignedOut("E-mail or password is wrong.")
            joined = await self.accept(token, int(found["id"]))
        else:
            hashed = await asyncio.to_thread(people.hash_password, password)
            new: Any = {"password_hash": hashed, "now": time.time(), **account}
            joined = await self._accept(token, lambda work: people.add_person(work, **new))
        email = people.email_key(account["email"])
        return await self.start(joined.person, caller, good, email), joined

    async def first(self, password: str, caller: Newcomer, account: dict[str, str]) -> Started:
        """The first account of a database that has none, and a session."""
        hashed = await asyncio.to_thread(people.hash_password, password)

        def op(work: Work) -> int:
            NotFound.unless(people.nobody_yet(work), "There is an account already; sign in.")
            return people.add_person(work, password_hash=hashed, now=time.time(), **account)

        return await self.start(await self.store.write(op), caller, email=account["email"])

    async def known(self, slug: str) -> Known:
        """Number, name and specification of a project, whoever asks; remembered once it is sealed."""
        found = self._known.get(slug)
        if found is not None:
            return found
        _check_slug(slug)
        row = await self.store.read(lambda work: work.one(SQL.project_by_slug, slug=slug))
        row = NotFound.given(row, MESSAGES["project"])
        found = Known(int(row["id"]), row["name"], read_spec(row["spec"]))
        if row["state"] != "draft" and len(self._known) < 10_000:
            self._known[slug] = found
        return found

    async def live(self, member: Member) -> LiveView:
        """The estimates and checks, at most two seconds old; the look is logged first."""
        from noracle.collect.live import live_view

        await self.store.write(projects.note, member, "look", now=time.time())
        self.metrics.event("look")
        async with self._live_locks.setdefault(member.project, asyncio.Lock()):
            then, view = self._live.get(member.project) or (0.0, None)
            now = time.time()
            if view is None or now - then > _LIVE_SECONDS or then > now:
                view = await self.store.read(live_view, member.project, now=now)
                self._live[member.project] = (now, view)
        return view


def web_of(request: Request) -> Web:
    """The server's state."""
    return request.app.state.web  # type: ignore[no-any-return]


@dataclasses.dataclass(slots=True)
class Requester:
    """Who asks, by the hash of the session's token, and whom."""

    web: Web
    session: str

    async def signed_in(self) -> Person:
        """Who this is, or SignedOut."""
        return SignedOut.given(await self.web.person(self.session))

    async def member(self, slug: str, roles: Roles = MANAGERS) -> Member:
        """Their membership in a project, if the role fits."""
        _check_slug(slug)
        about: Any = {"roles": roles, "now": time.time()}
        return await self.web.store.read(access.member, self.session, slug, **about)

    def slow_down(self) -> float:
        """Count a change, or something else that is expensive; returns the time."""
        self.web.changes.take(self.session, now=(now := time.time()))
        return now

    async def change(
        self, slug: str, change: Change[Value], *sent: object, roles: Roles = MANAGERS, **on: object
    ) -> Value:
        """Check the role, and ``change(work, member, *sent, now=…)`` in the same transaction."""
        now = self.slow_down()
        _check_slug(slug)

        def op(work: Work) -> Value:
            member = access.member(work, self.session, slug, roles=roles, now=now)
            return change(work, member, *sent, now=now, **on)

        return await self.web.store.write(op)

    async def long(self, slug: str, change: Callable[..., Value], *sent: object) -> Value:
        """``change(store, project, *sent, actor=…)``, which has transactions of its own."""
        self.slow_down()
        member = await self.member(slug)
        store = self.web.store
        return await asyncio.to_thread(change, store, member.project, *sent, actor=member.alias)

    async def sign_out(self, *, everywhere: bool = False) -> None:
        """End the session, or all sessions of the person, whose last answers are final."""
        person = (await self.signed_in()).id if everywhere else 0

        def op(work: Work) -> None:
            answers.leave_all(work, self.session, now=time.time())
            people.end_session(work, self.session)
            if everywhere:
                work.run(SQL.drop_other_sessions, person=person, keep="")

        await self.web.store.write(op)

    async def change_password(self, old: str, new: str) -> None:
        """Another password, for whoever knows the old one; ends all other sessions."""
        person, store = (await self.signed_in()).id, self.web.store
        settings = self.web.settings
        about: Any = {"free": settings.sign_ins, "most": settings.sign_in_seconds}
        await store.write(access.slow, f"password|{person}", now=time.time(), **about)
        row = await store.read(lambda work: work.one(SQL.password_of, person=person))
        known = None if row is None else row["password"]
        fits = await asyncio.to_thread(people.password_fits, known, old)
        Forbidden.unless(fits, "The old password is wrong.")
        hashed = await asyncio.to_thread(people.hash_password, new)
        await store.write(people.set_password, person, hashed, keep=self.session)

    async def _asking(self, slug: str) -> tuple[str, int, float]:
        """Count a question or an answer; returns who asks, the project and the time."""
        self.web.answers.take(self.session, now=(now := time.time()))
        return self.session, (await self.web.known(slug)).id, now

    async def next(self, slug: str) -> HeldQuestion | None:
        """The question that the person holds, else the next one."""
        session, project, now = await self._asking(slug)
        return await self.web.store.next_question(session, project, now=now)

    async def answer(self, slug: str, **sent: Unpack[SentAnswer]) -> Answered:
        """Keep an answer."""
        session, project, now = await self._asking(slug)
        given: Given = {**sent, "shown_at": min(max(sent["shown_at"], 0.0), now), "now": now}
        kept = await self.web.store.answer(session, project, **given)
        self.web.metrics.event("answer")
        return kept

    async def amend(self, slug: str, **sent: Any) -> Answered:
        """Append a revision (``answer, key, value``) of the person's last answer."""
        session, project, now = await self._asking(slug)
        kept = await self.web.store.amend(session, project, **sent, now=now)
        self.web.metrics.event("amend")
        return kept

    async def undo(self, slug: str, answer: int) -> HeldQuestion | None:
        """Take the person's last answer back; returns its question, which they hold again."""
        await self.change(slug, answers.undo, answer, roles=ANNOTATORS)
        self.web.metrics.event("undo")
        return await self.next(slug)


def _check_slug(slug: str) -> None:
    NotFound.unless(SLUG.match(slug), MESSAGES["project"])


def number(text: object, name: str) -> int:
    """A whole number out of a form."""
    if isinstance(text, str) and re.fullmatch(r"[0-9]{1,15}", text):
        return int(text)
    raise Refused(f"{name} must be a whole number.")
