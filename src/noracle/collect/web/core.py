"""What pages and the JSON interface have in common: the open store, who asks, signing in, joining,
asking, answering, looking.
"""

from __future__ import annotations

import asyncio
import bisect
import itertools
import re
import time
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Unpack

from noracle._version import __version__
from noracle.collect.errors import CollectError, NotFound, Refused, SignedOut, Throttled
from noracle.collect.model import Answered, Given, HeldQuestion, ProjectSpec, SentAnswer, read_spec
from noracle.collect.service import access, people, projects
from noracle.collect.service.access import Member, Person, Roles
from noracle.collect.store.base import SQL, Row, Store, Value, Work
from noracle.collect.web.security import WebSettings, token_of

if TYPE_CHECKING:
    from fastapi import Request

    from noracle.collect.live import LiveView

_MOST = 10_000


class Buckets:
    """A bucket per key that fills at ``per_minute / 60`` a second and holds ``per_minute``.

    Examples
    --------
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


# Counters in the text format of Prometheus: requests by route and status, their times, answers.


_EDGES = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


class Metrics:
    """What one server process counted since it started. Routes are templates, so no name of a
    project stands here.

    Examples
    --------
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
_LIVE_SECONDS = 2.0
Change = Callable[[Work, Member, float], Value]
"""What a member may change, and when."""


class Known(NamedTuple):
    """What never changes of a sealed project."""

    id: int
    name: str
    spec: ProjectSpec


class Web:
    """The state of one server process."""

    def __init__(self, store: Store, settings: WebSettings) -> None:
        self.store, self.settings, self.metrics = store, settings, Metrics()
        self._answers = Buckets(per_minute=settings.answers_per_minute)
        self._changes = Buckets(per_minute=settings.changes_per_minute)
        self._known: dict[str, Known] = {}
        self._live: dict[int, tuple[float, LiveView]] = {}
        self._live_locks: dict[int, asyncio.Lock] = {}

    # who asks

    def session(self, request: Request) -> str:
        """The hash of the request's session token."""
        token, _ = token_of(request, self.settings)
        if token is None:
            raise SignedOut
        return access.token_hash(token)

    async def person(self, session: str) -> Person | None:
        """Who this is; keeps the session alive."""
        now = time.time()
        found = await self.store.read(lambda work: access.who(work, session, now=now))
        if found is not None and found.stale:
            await self.store.write(lambda work: access.touch_session(work, session, now=now))
        return found

    async def member(self, session: str, slug: str, roles: Roles) -> Member:
        """Their membership, if the role fits."""
        _check_slug(slug)
        return await self.store.read(
            lambda work: access.member(work, session, slug, roles=roles, now=time.time())
        )

    async def change(self, session: str, slug: str, roles: Roles, op: Change[Value]) -> Value:
        """Check the role and change something in the same transaction."""
        now = time.time()
        self._changes.take(session, now=now)
        _check_slug(slug)
        return await self.store.write(
            lambda work: op(work, access.member(work, session, slug, roles=roles, now=now), now)
        )

    def slow_down(self, session: str) -> None:
        """Count something expensive that is not a change in a project."""
        self._changes.take(session, now=time.time())

    # signing in and joining

    async def _attempt(self, account: str, address: str) -> None:
        """Count an attempt, per account and per address, before anything is looked up."""
        limit, seconds, now = self.settings.sign_ins, self.settings.sign_in_seconds, time.time()
        name = account.strip().lower()[:254]

        def op(work: Work) -> None:
            for key, most in ((f"address|{address}", 10 * limit), (f"account|{name}", limit)):
                access.allow(work, key, limit=most, seconds=seconds, now=now)

        await self.store.write(op)

    async def sign_in(
        self, email: str, password: str, *, address: str, old: str | None
    ) -> tuple[str, Row]:
        """A new session token and the person, or SignedOut; the session ``old`` ends."""
        await self._attempt(email, address)
        found = await self.store.read(lambda work: people.find_person(work, email))
        hashed = None if found is None else found["password"]
        fits = await asyncio.to_thread(people.password_fits, hashed, password)
        if found is None or not fits:
            raise SignedOut("E-mail or password is wrong.")
        return await self._start(int(found["id"]), old), found

    async def _start(self, person: int, old: str | None) -> str:
        token, now = access.new_token(), time.time()

        def op(work: Work) -> None:
            if old is not None:
                people.end_session(work, old)
            people.start_session(work, person, access.token_hash(token), now=now)

        await self.store.write(op)
        self.metrics.event("sign-in")
        return token

    async def sign_out(self, session: str) -> None:
        """End the session."""
        await self.store.write(lambda work: people.end_session(work, session))

    async def invitation(self, token: str) -> people.Invitation:
        """What a link leads to."""
        hashed, now = access.token_hash(token), time.time()
        return await self.store.read(lambda work: people.peek_invitation(work, hashed, now=now))

    async def accept(self, token: str, person: int) -> Member:
        """Join as somebody who is signed in."""
        return await self._accept(token, lambda _work, _now: person)

    async def _accept(self, token: str, person: Callable[[Work, float], int]) -> Member:
        hashed, now = access.token_hash(token), time.time()

        def op(work: Work) -> Member:
            return people.accept_invitation(work, hashed, person=person(work, now), now=now)

        joined = await self.store.write(op)
        self.metrics.event("join")
        return joined

    async def join(
        self, token: str, *, password: str, address: str, old: str | None, **account: str
    ) -> tuple[str, Member]:
        """Join as a new person (``email``, ``name``, ``locale``), or with the account of this e-mail.

        Returns a session token too.
        """
        await self.invitation(token)
        await self._attempt(account["email"], address)
        found = await self.store.read(lambda work: people.find_person(work, account["email"]))
        if found is not None:
            if not await asyncio.to_thread(people.password_fits, found["password"], password):
                raise SignedOut("E-mail or password is wrong.")
            joined = await self.accept(token, int(found["id"]))
        else:
            hashed = await asyncio.to_thread(people.hash_password, password)
            joined = await self._accept(
                token, lambda w, now: people.add_person(w, password_hash=hashed, now=now, **account)
            )
        return await self._start(joined.person, old), joined

    async def first(self, password: str, old: str | None, account: dict[str, str]) -> str:
        """The first account of a database that has none; returns a session token."""
        hashed = await asyncio.to_thread(people.hash_password, password)

        def op(work: Work) -> int:
            NotFound.unless(people.nobody_yet(work), "There is an account already; sign in.")
            return people.add_person(work, password_hash=hashed, now=time.time(), **account)

        return await self._start(await self.store.write(op), old)

    # asking and answering

    async def known(self, slug: str) -> Known:
        """Number, name and specification of a project, whoever asks; remembered once it is sealed."""
        found = self._known.get(slug)
        if found is not None:
            return found
        _check_slug(slug)
        row = await self.store.read(lambda work: work.one(SQL.project_by_slug, slug=slug))
        if row is None:
            raise NotFound("There is no such project among yours.")
        found = Known(int(row["id"]), row["name"], read_spec(row["spec"]))
        if row["state"] != "draft" and len(self._known) < 10_000:
            self._known[slug] = found
        return found

    async def next(self, session: str, slug: str) -> HeldQuestion | None:
        """The question that the person holds, else the next one."""
        now = time.time()
        self._answers.take(session, now=now)
        return await self.store.next_question(session, (await self.known(slug)).id, now=now)

    async def answer(self, session: str, slug: str, **sent: Unpack[SentAnswer]) -> Answered:
        """Keep an answer."""
        now = time.time()
        self._answers.take(session, now=now)
        project = (await self.known(slug)).id
        given: Given = {**sent, "shown_at": min(max(sent["shown_at"], 0.0), now), "now": now}
        kept = await self.store.answer(session, project, **given)
        self.metrics.event("answer")
        return kept

    async def amend(
        self, session: str, slug: str, *, answer: int, key: str, value: str
    ) -> Answered:
        """Append a revision of the person's last answer."""
        now = time.time()
        self._answers.take(session, now=now)
        project = (await self.known(slug)).id
        kept = await self.store.amend(
            session, project, answer=answer, key=key, value=value, now=now
        )
        self.metrics.event("amend")
        return kept

    # looking

    async def live(self, member: Member) -> LiveView:
        """The estimates and checks, at most two seconds old; the look is logged first."""
        from noracle.collect.live import live_view

        await self.store.write(lambda work: projects.log_look(work, member, now=time.time()))
        self.metrics.event("look")
        async with self._live_locks.setdefault(member.project, asyncio.Lock()):
            then, view = self._live.get(member.project) or (0.0, None)
            now = time.time()
            if view is None or now - then > _LIVE_SECONDS or then > now:
                view = await self.store.read(lambda work: live_view(work, member.project, now=now))
                self._live[member.project] = (now, view)
        return view


def _check_slug(slug: str) -> None:
    NotFound.unless(SLUG.match(slug), "There is no such project among yours.")


def number(text: object, name: str) -> int:
    """A whole number out of a form."""
    if isinstance(text, str) and re.fullmatch(r"[0-9]{1,15}", text):
        return int(text)
    raise Refused(f"{name} must be a whole number.")


def status_of(error: Exception) -> int:
    """The HTTP status of something that was refused on purpose."""
    return error.status if isinstance(error, CollectError) else 422
