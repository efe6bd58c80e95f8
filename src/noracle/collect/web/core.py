"""What pages and the JSON interface have in common: the open store, who asks, signing in, joining,
asking, answering, looking.
"""

from __future__ import annotations

import asyncio
import dataclasses
import re
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from noracle._version import __version__
from noracle.collect.errors import CollectError, NotFound, Refused, SignedOut, Throttled
from noracle.collect.model import Answered, Asked, ProjectSpec, Role
from noracle.collect.service import access, people, projects
from noracle.collect.service.access import Member, Person
from noracle.collect.store.base import Row, Store, Work
from noracle.collect.web.security import WebSettings, token_of

if TYPE_CHECKING:
    from fastapi import Request

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
        self._levels = {
            k: (v, t)
            for k, (v, t) in self._levels.items()
            if v + (now - t) * self._rate < self._most
        }
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
        self._requests: dict[tuple[str, str, int], int] = {}
        self._buckets = [0] * (len(_EDGES) + 1)
        self._seconds = 0.0
        self._events: dict[str, int] = {}

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request."""
        key = (method, route, status)
        self._requests[key] = self._requests.get(key, 0) + 1
        self._seconds += seconds
        self._buckets[
            next((i for i, edge in enumerate(_EDGES) if seconds <= edge), len(_EDGES))
        ] += 1

    def event(self, kind: str) -> None:
        """Count something that happened: ``answer``, ``sign-in``, ``look``, …"""
        self._events[kind] = self._events.get(kind, 0) + 1

    def text(self) -> str:
        """For a scraper."""
        lines = [
            "# TYPE noracle_info gauge",
            f'noracle_info{{version="{__version__}"}} 1',
            "# TYPE noracle_requests_total counter",
        ]
        lines += [
            f'noracle_requests_total{{method="{method}",route="{route}",status="{status}"}} {n}'
            for (method, route, status), n in sorted(self._requests.items())
        ]
        lines.append("# TYPE noracle_events_total counter")
        lines += [
            f'noracle_events_total{{kind="{kind}"}} {n}' for kind, n in sorted(self._events.items())
        ]
        lines.append("# TYPE noracle_request_seconds histogram")
        total = 0
        for edge, n in zip((*(f"{e:g}" for e in _EDGES), "+Inf"), self._buckets, strict=True):
            total += n
            lines.append(f'noracle_request_seconds_bucket{{le="{edge}"}} {total}')
        lines += [
            f"noracle_request_seconds_sum {self._seconds:.6f}",
            f"noracle_request_seconds_count {total}",
        ]
        return "\n".join([*lines, ""])


Value = TypeVar("Value")

SLUG = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?\Z")
_LIVE_SECONDS = 2.0


@dataclasses.dataclass(frozen=True, slots=True)
class Known:
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
        self._live: dict[int, tuple[float, Any]] = {}
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

    async def member(self, session: str, slug: str, roles: tuple[Role, ...]) -> Member:
        """Their membership, if the role fits."""
        if not SLUG.match(slug):
            raise NotFound("There is no such project among yours.")
        return await self.store.read(
            lambda work: access.member(work, session, slug, roles=roles, now=time.time())
        )

    async def change(
        self,
        session: str,
        slug: str,
        roles: tuple[Role, ...],
        op: Callable[[Work, Member, float], Value],
    ) -> Value:
        """Check the role and change something in the same transaction."""
        now = time.time()
        self._changes.take(session, now=now)
        if not SLUG.match(slug):
            raise NotFound("There is no such project among yours.")
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

        def op(work: Work) -> None:
            access.allow(work, f"address|{address}", limit=10 * limit, seconds=seconds, now=now)
            access.allow(
                work,
                f"account|{account.strip().lower()[:254]}",
                limit=limit,
                seconds=seconds,
                now=now,
            )

        await self.store.write(op)

    async def sign_in(
        self, email: str, password: str, *, address: str, old: str | None
    ) -> tuple[str, Row]:
        """A new session token and the person, or SignedOut; the session ``old`` ends."""
        await self._attempt(email, address)
        found = await self.store.read(lambda work: people.find_person(work, email))
        fits = await asyncio.to_thread(
            people.password_fits, None if found is None else found["password"], password
        )
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

    async def invitation(self, token: str) -> Any:
        """What a link leads to."""
        return await self.store.read(
            lambda work: people.peek_invitation(work, access.token_hash(token), now=time.time())
        )

    async def accept(self, token: str, person: int) -> Member:
        """Join as somebody who is signed in."""
        now = time.time()
        joined = await self.store.write(
            lambda work: people.accept_invitation(
                work, access.token_hash(token), person=person, now=now
            )
        )
        self.metrics.event("join")
        return joined

    async def join(
        self,
        token: str,
        *,
        email: str,
        name: str,
        password: str,
        locale: str,
        address: str,
        old: str | None,
    ) -> tuple[str, Member]:
        """Join as a new person, or as the one with this e-mail and password; returns a session
        token too.
        """
        await self.invitation(token)
        await self._attempt(email, address)
        found = await self.store.read(lambda work: people.find_person(work, email))
        now = time.time()
        if found is not None:
            if not await asyncio.to_thread(people.password_fits, found["password"], password):
                raise SignedOut("E-mail or password is wrong.")
            joined = await self.accept(token, int(found["id"]))
            return await self._start(joined.person, old), joined
        hashed = await asyncio.to_thread(people.hash_password, password)

        def op(work: Work) -> Member:
            person = people.add_person(
                work, email=email, name=name, password_hash=hashed, locale=locale, now=now
            )
            return people.accept_invitation(work, access.token_hash(token), person=person, now=now)

        joined = await self.store.write(op)
        self.metrics.event("join")
        return await self._start(joined.person, old), joined

    # asking and answering

    async def known(self, slug: str) -> Known:
        """Number, name and specification of a project; remembered once it is sealed. It says
        nothing about who may see it.
        """
        found = self._known.get(slug)
        if found is not None:
            return found
        row = None
        if SLUG.match(slug):
            row = await self.store.read(
                lambda work: work.one(
                    "SELECT id, name, spec, state FROM project WHERE slug = :slug", slug=slug
                )
            )
        if row is None:
            raise NotFound("There is no such project among yours.")
        found = Known(int(row["id"]), row["name"], access.read_spec(row["spec"]))
        if row["state"] != "draft" and len(self._known) < 10_000:
            self._known[slug] = found
        return found

    async def next(self, session: str, slug: str) -> Asked | None:
        """The question that the person holds, else the next one."""
        now = time.time()
        self._answers.take(session, now=now)
        return await self.store.next_question(session, (await self.known(slug)).id, now=now)

    async def answer(
        self,
        session: str,
        slug: str,
        *,
        question: int,
        key: str,
        value: str,
        shown_at: float,
        client_ms: int | None,
        want_next: bool,
    ) -> Answered:
        """Keep an answer."""
        now = time.time()
        self._answers.take(session, now=now)
        kept = await self.store.answer(
            session,
            (await self.known(slug)).id,
            question=question,
            key=key,
            value=value,
            shown_at=min(max(shown_at, 0.0), now),
            client_ms=client_ms,
            now=now,
            want_next=want_next,
        )
        self.metrics.event("answer")
        return kept

    async def amend(
        self, session: str, slug: str, *, answer: int, key: str, value: str
    ) -> Answered:
        """Append a revision of the person's last answer."""
        now = time.time()
        self._answers.take(session, now=now)
        kept = await self.store.amend(
            session, (await self.known(slug)).id, answer=answer, key=key, value=value, now=now
        )
        self.metrics.event("amend")
        return kept

    # looking

    async def live(self, member: Member) -> Any:
        """The estimates and checks, at most two seconds old; the look is logged before anybody sees
        them.
        """
        from noracle.collect.live import live_view

        await self.store.write(lambda work: projects.log_look(work, member, now=time.time()))
        self.metrics.event("look")
        async with self._live_locks.setdefault(member.project, asyncio.Lock()):
            then, view = self._live.get(member.project, (0.0, None))
            now = time.time()
            if view is None or now - then > _LIVE_SECONDS or then > now:
                view = await self.store.read(lambda work: live_view(work, member.project, now=now))
                self._live[member.project] = (now, view)
        return view


def number(text: object, name: str) -> int:
    """A whole number out of a form."""
    if isinstance(text, str) and re.fullmatch(r"[0-9]{1,15}", text):
        return int(text)
    raise Refused(f"{name} must be a whole number.")


def status_of(error: Exception) -> int:
    """The HTTP status of something that was refused on purpose."""
    return error.status if isinstance(error, CollectError) else 422
