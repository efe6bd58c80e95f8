"""Who asks, and what their role allows.

    owner       everything
    manager     people, items, opening and closing; not the seed before the project is closed, no owners
    annotator   their own questions
    auditor     reads everything but names and e-mail addresses; changes nothing

A project of which a person is no member does not exist for them: it is not found, whatever their
role elsewhere. A session is kept under the SHA-256 of its token, so that a stolen database opens no
session. It ends 12 hours after it was last seen and 7 days after it began; both limits stand in
``session.expires_at``, so that one comparison is enough on the fast path.
"""

from __future__ import annotations

import dataclasses
import hashlib
import secrets

from noracle.collect.errors import Forbidden, NotFound, SignedOut, Throttled
from noracle.collect.model import ProjectSpec, Role, State, read_spec
from noracle.collect.store.base import SQL, Row, Work

IDLE_SECONDS = 12 * 3600.0
SESSION_SECONDS = 7 * 86400.0
_TOUCH_SECONDS = 600.0

Roles = tuple[Role, ...]
ANYBODY: Roles = ("owner", "manager", "annotator", "auditor")
"""Roles for what every member may do."""
MANAGERS: Roles = ("owner", "manager")
"""Roles that change a project."""
READERS: Roles = ("owner", "manager", "auditor")
"""Roles that see estimates, checks and exports."""
ANNOTATORS: Roles = ("annotator",)
"""Roles that are asked questions."""


@dataclasses.dataclass(frozen=True, slots=True)
class Person:
    """Somebody who is signed in; if ``stale``, the caller should call :func:`touch_session`."""

    id: int
    name: str
    email: str
    locale: str
    stale: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Member:
    """A person in a project."""

    person: int
    project: int
    slug: str
    role: Role
    alias: str
    pools: tuple[int, ...]
    state: State
    spec: ProjectSpec


def new_token() -> str:
    """256 random bits for a cookie or a link.

    >>> len(new_token()), new_token() == new_token()
    (43, False)
    """
    return secrets.token_urlsafe(32)


def token_hash(token: str) -> str:
    """What is stored of a token: its SHA-256.

    A fast hash is enough, because a token has 256 random bits and cannot be guessed.

    >>> token_hash("abc")[:16]
    'ba7816bf8f01cfea'
    """
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def project_of(work: Work, project: int) -> Row:
    """The whole row of a project; raises NotFound if there is none."""
    return NotFound.given(work.one(SQL.project, project=project), "There is no such project.")


def who(work: Work, token_hash: str, *, now: float) -> Person | None:
    """The person of a session; None if there is none or it has ended."""
    row = work.one(SQL.who, token=token_hash, now=now)
    if row is None:
        return None
    stale = abs(now - float(row["seen_at"])) > _TOUCH_SECONDS  # also after a clock stepped back
    return Person(int(row["id"]), row["name"] or "", row["email"] or "", row["locale"], stale=stale)


def touch_session(work: Work, token_hash: str, *, now: float) -> None:
    """Keep the session for another 12 hours, but never longer than 7 days after it began."""
    row = work.one(SQL.session_start, token=token_hash, now=now)
    if row is not None:
        ends = min(float(row["created_at"]) + SESSION_SECONDS, now + IDLE_SECONDS)
        work.run(SQL.touch_session, now=now, ends=ends, token=token_hash)


def member(work: Work, token_hash: str, slug: str, *, roles: Roles, now: float) -> Member:
    """The membership of a session's person, or SignedOut, NotFound (nobody can tell why), Forbidden."""
    row = SignedOut.given(work.one(SQL.member_by_session, token=token_hash, slug=slug, now=now))
    role = row["role"]
    NotFound.unless(role is not None, "There is no such project among yours.")
    Forbidden.unless(role in roles, f"This needs the role {' or '.join(roles)}; yours is {role}.")
    return _member(work, row)


def member_of(work: Work, person: int, project: int) -> Member | None:
    """The membership of a person in a project, whatever the role; for callers that know both."""
    row = work.one(SQL.member, person=person, project=project)
    return None if row is None else _member(work, row)


def _member(work: Work, row: Row) -> Member:
    found = work.all(SQL.pools_of, project=row["project"], person=row["person"])
    pools = tuple(int(pool["pool"]) for pool in found)
    return Member(**{**row, "pools": pools, "spec": read_spec(row["spec"])})


def slow(work: Work, key: str, *, free: int, most: float, now: float) -> None:
    """Count an attempt; after ``free`` in a day each waits twice as long as the last, up to ``most`` s."""
    n, _, last = _tries(work, key, now - 86400)
    if n >= free:
        wait = min(last, now) + min(most, 2.0 ** min(n - free + 2, 20)) - now
        if wait > 0:
            raise Throttled(wait=wait)
    work.run(SQL.tried, key=token_hash(key), now=now)


def allow(work: Work, key: str, *, limit: int, seconds: float, now: float) -> None:
    """Count an attempt, before what it protects; Throttled after ``limit`` attempts in ``seconds``."""
    n, first, _ = _tries(work, key, now - seconds)
    if n >= limit:
        raise Throttled(wait=max(1.0, first + seconds - now))
    work.run(SQL.tried, key=token_hash(key), now=now)


def _tries(work: Work, key: str, since: float) -> tuple[int, float, float]:
    """How many attempts there were, and when the first and the last; nobody else counts meanwhile."""
    hashed = token_hash(key)
    if work.dialect == "postgresql":
        work.one("SELECT pg_advisory_xact_lock(hashtextextended(:key, 0))", key=hashed)
    row = work.one(SQL.tries, key=hashed, old=since) or {"n": 0, "first": None, "last": None}
    return int(row["n"]), float(row["first"] or 0), float(row["last"] or 0)
