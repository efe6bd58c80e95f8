"""Accounts, sessions, and forgetting.

Names, e-mail addresses and passwords stand in the table ``person`` and nowhere else. Events and
exports name people by the alias of their membership, so that :func:`forget` can erase a person and
the chain of events still fits.
"""

from __future__ import annotations

import dataclasses
import functools
import re
import secrets
import threading
import unicodedata
from typing import TYPE_CHECKING, Any

from noracle.collect.errors import Conflict, Forbidden, NotFound, Refused
from noracle.collect.model import EVERYBODY, LEASED, OPEN, ProjectSpec, Role
from noracle.collect.service.access import (
    IDLE_SECONDS,
    MANAGERS,
    READERS,
    SESSION_SECONDS,
    Member,
    member_of,
    new_token,
    read_spec,
)
from noracle.collect.service.access import token_hash as hash_of
from noracle.collect.store.base import Row, Work
from noracle.errors import MissingExtra

if TYPE_CHECKING:
    from argon2 import PasswordHasher

__all__ = [
    "Invitation",
    "LONGEST_PASSWORD",
    "SHORTEST_PASSWORD",
    "accept_invitation",
    "add_person",
    "end_session",
    "find_person",
    "forget",
    "hash_password",
    "invitations_of",
    "invite",
    "join",
    "normal_email",
    "normal_name",
    "password_fits",
    "peek_invitation",
    "people_of",
    "revoke_invitation",
    "set_locale",
    "set_password",
    "start_session",
]

SHORTEST_PASSWORD, LONGEST_PASSWORD = 10, 1000
_two_at_a_time = threading.BoundedSemaphore(2)  # each takes 64 MiB and most of a core


@functools.cache
def _hasher() -> PasswordHasher:
    try:
        from argon2 import PasswordHasher
    except ImportError:
        raise MissingExtra("noracle.collect", "argon2-cffi", "collect") from None
    return PasswordHasher()


@functools.cache
def _nobody() -> str:
    """The hash of a password that nobody has, so that an unknown address takes as long as a wrong
    password.
    """
    return _hasher().hash(secrets.token_urlsafe(32))


def hash_password(password: str) -> str:
    """Argon2id of a password of at least 10 characters; about 0.3 s, so never inside a write and
    never on the event loop.

    Raises
    ------
    Refused
        If the password is too short or too long.
    """
    text = unicodedata.normalize("NFC", password)
    if not SHORTEST_PASSWORD <= len(text) <= LONGEST_PASSWORD:
        raise Refused(
            f"password must have {SHORTEST_PASSWORD} to {LONGEST_PASSWORD} characters; got {len(text)}."
        )
    if len(set(text)) < 3:
        raise Refused("password must not repeat one or two characters.")
    with _two_at_a_time:
        return _hasher().hash(text.encode("utf-8", "surrogatepass"))


def password_fits(hashed: str | None, password: str) -> bool:
    """Whether this is the password; takes as long where there is none (``hashed`` None) as where it
    is wrong.
    """
    from argon2.exceptions import Argon2Error, InvalidHashError

    text = unicodedata.normalize("NFC", password)[: LONGEST_PASSWORD + 1]
    with _two_at_a_time:
        try:
            _hasher().verify(hashed or _nobody(), text.encode("utf-8", "surrogatepass"))
        except (Argon2Error, InvalidHashError):
            return False
    return bool(hashed)


# Invitations: links that work once, for one role and one pool, for some days.


_ALIAS_LETTERS = "23456789abcdefghjkmnpqrstuvwxyz"
_MAY_INVITE: dict[str, tuple[Role, ...]] = {
    "owner": ("owner", "manager", "annotator", "auditor"),
    "manager": ("manager", "annotator", "auditor"),
}


@dataclasses.dataclass(frozen=True, slots=True)
class Invitation:
    """What a link leads to, before it is accepted."""

    id: int
    project: int
    slug: str
    name: str
    role: Role
    pool: int | None
    expires_at: float
    spec: ProjectSpec


def join(work: Work, project: int, person: int, *, role: Role, now: float) -> str:
    """Make a person a member; returns the alias by which events name them."""
    for _ in range(20):
        word = "rater" if role == "annotator" else role
        alias = f"{word}-{''.join(secrets.choice(_ALIAS_LETTERS) for _ in range(6))}"
        row = work.one(
            "INSERT INTO membership (project_id, person_id, role, alias, joined_at) VALUES (:project, :person, :role, :alias, :now) "
            "ON CONFLICT DO NOTHING RETURNING alias",
            project=project,
            person=person,
            role=role,
            alias=alias,
            now=now,
        )
        if row is not None:
            return alias
        if member_of(work, person, project) is not None:
            break
    raise Conflict("This person is a member of the project already.")


def _pool_for(member: Member, role: Role, pool: int | None) -> int | None:
    if role != "annotator":
        if pool is not None:
            raise Refused(
                f"pool must be left out for the role {role}; only annotators are asked questions."
            )
        return None
    if pool is None and member.spec.pools == (EVERYBODY,):
        return EVERYBODY
    if pool not in member.spec.pools or isinstance(pool, bool):
        raise Refused(
            f"pool must be one of 0 to {len(member.spec.pools) - 1} for an annotator; got {pool!r}."
        )
    return pool


def invite(
    work: Work, member: Member, *, role: Role, pool: int | None, days: float = 7, now: float
) -> str:
    """Make an invitation and return its token, which is shown once and stored hashed.

    Parameters
    ----------
    role
        Managers may invite everybody but owners.
    pool
        For annotators: the class (partitioned) or the place (ordinary); elsewhere None.
    days
        From a minute to 90 days.
    """
    if role not in _MAY_INVITE.get(member.role, ()):
        raise Forbidden(f"role must be one that a {member.role} may invite; got {role!r}.")
    if not 1 / 1440 <= days <= 90:
        raise Refused(f"days must be from a minute to 90 days; got {days!r}.")
    if role == "annotator" and member.state == "closed":
        raise Conflict("The project is closed; nobody is asked any more.")
    pool = _pool_for(member, role, pool)
    token = new_token()
    row = work.one(
        "INSERT INTO invitation (project_id, role, pool, token_hash, created_by, created_at, expires_at) "
        "VALUES (:project, :role, :pool, :token, :person, :now, :ends) RETURNING id",
        project=member.project,
        role=role,
        pool=pool,
        token=hash_of(token),
        person=member.person,
        now=now,
        ends=now + days * 86400,
    )
    invitation = 0 if row is None else int(row["id"])
    work.log(
        member.project,
        "invited",
        {"invitation": invitation, "role": role, "pool": pool},
        actor=member.alias,
        at=now,
    )
    return token


_INVITATION = (
    "SELECT i.id, i.project_id, i.role, i.pool, i.expires_at, j.slug, j.name, j.spec, j.state FROM invitation i "
    "JOIN project j ON j.id = i.project_id "
    "WHERE i.token_hash = :token AND i.used_at IS NULL AND i.revoked_at IS NULL AND i.expires_at > :now"
)


def peek_invitation(work: Work, token_hash: str, *, now: float) -> Invitation:
    """What a link leads to; raises NotFound if it was used, revoked, has expired or never was."""
    row = work.one(_INVITATION, token=token_hash, now=now)
    if row is None:
        raise NotFound("This invitation was used, has expired or was withdrawn. Ask for a new one.")
    return Invitation(
        id=int(row["id"]),
        project=int(row["project_id"]),
        slug=row["slug"],
        name=row["name"],
        role=row["role"],
        pool=None if row["pool"] is None else int(row["pool"]),
        expires_at=float(row["expires_at"]),
        spec=read_spec(row["spec"]),
    )


def accept_invitation(work: Work, token_hash: str, *, person: int, now: float) -> Member:
    """Use an invitation up: the person joins with its role, in its pool.

    An annotator may collect further classes with further invitations. Nobody else takes a second
    role: who sees estimates must not answer questions. In the ordinary protocol a person has one
    place, because no item is put to a person twice.
    """
    invitation = peek_invitation(work, token_hash, now=now)
    taken = work.run(
        "UPDATE invitation SET used_at = :now, used_by = :person WHERE token_hash = :token AND used_at IS NULL AND revoked_at IS NULL "
        "AND expires_at > :now",
        now=now,
        person=person,
        token=token_hash,
    )
    if taken != 1:
        raise NotFound("This invitation was used, has expired or was withdrawn. Ask for a new one.")
    known = member_of(work, person, invitation.project)
    if known is None:
        alias = join(work, invitation.project, person, role=invitation.role, now=now)
    elif known.role != "annotator" or invitation.role != "annotator":
        raise Conflict(
            f"You are a member of this project already, as {known.role}. Use another account for another role."
        )
    elif invitation.pool in known.pools:
        raise Conflict("You are in this group already.")
    elif invitation.spec.protocol == "ordinary":
        raise Conflict(
            "You have a place in this project already; a second one would put the same item to you twice."
        )
    else:
        alias = known.alias
    if invitation.pool is not None:
        work.run(
            "INSERT INTO pool_member (project_id, pool, person_id) VALUES (:project, :pool, :person)",
            project=invitation.project,
            pool=invitation.pool,
            person=person,
        )
    payload = {
        "alias": alias,
        "role": invitation.role,
        "pool": invitation.pool,
        "invitation": invitation.id,
    }
    work.log(invitation.project, "joined", payload, actor=alias, at=now)
    joined = member_of(work, person, invitation.project)
    if joined is None:
        raise Conflict("Joining failed; try the link again.")
    return joined


def revoke_invitation(work: Work, member: Member, invitation: int, *, now: float) -> None:
    """Withdraw an invitation of the member's project that was not used."""
    if member.role not in MANAGERS:
        raise Forbidden("Only owners and managers withdraw invitations.")
    done = work.run(
        "UPDATE invitation SET revoked_at = :now WHERE id = :id AND project_id = :project AND used_at IS NULL AND revoked_at IS NULL",
        now=now,
        id=invitation,
        project=member.project,
    )
    if done != 1:
        raise NotFound("There is no such invitation to withdraw.")


def invitations_of(work: Work, member: Member, *, now: float) -> list[Row]:
    """The open invitations of a project: ``id, role, pool, created_at, expires_at``."""
    if member.role not in READERS:
        raise Forbidden("Only owners, managers and auditors see invitations.")
    return work.all(
        "SELECT id, role, pool, created_at, expires_at FROM invitation WHERE project_id = :project AND used_at IS NULL "
        "AND revoked_at IS NULL AND expires_at > :now ORDER BY id",
        project=member.project,
        now=now,
    )


def normal_email(email: str) -> str:
    """An e-mail address as it is stored and looked up: NFKC, lower case, without space around it.

    Examples
    --------
    >>> normal_email("  Ann@Example.ORG ")
    'ann@example.org'
    """
    text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", email).strip().lower())
    local, at, domain = text.rpartition("@")
    if (
        not at
        or not local
        or not domain
        or len(text) > 254
        or "@" in local
        or re.search(r"[\s\x00-\x1f\x7f<>\"',;:\\]", text)
    ):
        raise Refused("email must look like name@example.org.")
    if not text.isprintable():
        raise Refused("email must hold printable characters only.")
    return text


def normal_name(name: str) -> str:
    """A person's name in one line of 1 to 200 printable characters."""
    text = " ".join(unicodedata.normalize("NFC", name).split())
    if not 1 <= len(text) <= 200 or not text.isprintable():
        raise Refused("name must have 1 to 200 printable characters.")
    return text


def add_person(
    work: Work, *, email: str, name: str, password_hash: str, locale: str = "en", now: float
) -> int:
    """A new account; raises Conflict if the address has one."""
    if not re.fullmatch(r"[A-Za-z]{2,3}([_-][A-Za-z0-9]{2,8})*", locale):
        raise Refused("locale must be a language code such as en or de.")
    row = work.one(
        "INSERT INTO person (email, name, password, locale, active, created_at) VALUES (:email, :name, :password, :locale, 1, :now) "
        "ON CONFLICT (email) DO NOTHING RETURNING id",
        email=normal_email(email),
        name=normal_name(name),
        password=password_hash,
        locale=locale,
        now=now,
    )
    if row is None:
        raise Conflict("email has an account already; sign in with it.")
    return int(row["id"])


def find_person(work: Work, email: str) -> Row | None:
    """``id, email, name, password, locale, active`` of an address, or None; also None where it
    cannot be an address.
    """
    try:
        wanted = normal_email(email)
    except Refused:
        return None
    return work.one(
        "SELECT id, email, name, password, locale, active FROM person WHERE email = :email AND active = 1",
        email=wanted,
    )


def set_password(work: Work, person: int, password_hash: str, *, keep: str = "") -> None:
    """Change a password; ends all sessions but the one whose hash is ``keep``."""
    work.run(
        "UPDATE person SET password = :password WHERE id = :person",
        password=password_hash,
        person=person,
    )
    work.run(
        "DELETE FROM session WHERE person_id = :person AND token_hash <> :keep",
        person=person,
        keep=keep,
    )


def set_locale(work: Work, person: int, locale: str) -> None:
    """Remember the language that a person reads."""
    work.run(
        "UPDATE person SET locale = :locale WHERE id = :person", locale=locale[:20], person=person
    )


def start_session(work: Work, person: int, token_hash: str, *, now: float) -> None:
    """A new session; also sweeps away sessions that have ended and attempts that are a day old."""
    work.run("DELETE FROM session WHERE expires_at <= :now", now=now)
    work.run("DELETE FROM throttle WHERE at <= :old", old=now - 86400)
    work.run(
        "INSERT INTO session (token_hash, person_id, created_at, seen_at, expires_at) VALUES (:token, :person, :now, :now, :ends)",
        token=token_hash,
        person=person,
        now=now,
        ends=now + min(IDLE_SECONDS, SESSION_SECONDS),
    )


def end_session(work: Work, token_hash: str) -> None:
    """Sign out."""
    work.run("DELETE FROM session WHERE token_hash = :token", token=token_hash)


def people_of(work: Work, member: Member) -> list[dict[str, Any]]:
    """The members of a project: ``alias, role, pools, joined_at, done, name, email``; auditors do
    not see the last two (None).
    """
    if member.role not in READERS:
        raise Forbidden("Only owners, managers and auditors see the people of a project.")
    pools: dict[int, list[int]] = {}
    for row in work.all(
        "SELECT person_id, pool FROM pool_member WHERE project_id = :project ORDER BY pool",
        project=member.project,
    ):
        pools.setdefault(int(row["person_id"]), []).append(int(row["pool"]))
    rows = work.all(
        "SELECT m.person_id, m.alias, m.role, m.joined_at, p.name, p.email, p.forgotten_at, (SELECT COUNT(*) FROM answer a "
        "WHERE a.project_id = m.project_id AND a.person_id = m.person_id AND a.revision = 0) AS done "
        "FROM membership m JOIN person p ON p.id = m.person_id WHERE m.project_id = :project ORDER BY m.joined_at, m.alias",
        project=member.project,
    )
    personal = member.role != "auditor"
    return [
        {
            "alias": row["alias"],
            "role": row["role"],
            "pools": tuple(pools.get(int(row["person_id"]), ())),
            "joined_at": row["joined_at"],
            "done": int(row["done"]),
            "forgotten": row["forgotten_at"] is not None,
            "name": row["name"] if personal else None,
            "email": row["email"] if personal else None,
        }
        for row in rows
    ]


def forget(work: Work, email: str, *, now: float) -> int:
    """Erase a person: e-mail address, name, password, sessions and places in pools, in every
    project; returns the number of projects.

    Their answers stay under the alias, which says nothing about the person any more; the question
    that they hold goes back to its place.
    """
    person = find_person(work, email)
    if person is None:
        raise NotFound("There is no account with this e-mail address.")
    who = int(person["id"])
    projects = work.all(
        "SELECT project_id, alias FROM membership WHERE person_id = :who ORDER BY project_id",
        who=who,
    )
    for row in projects:
        project = int(row["project_id"])
        _give_back(work, project, who, str(row["alias"]), now)
        work.log(project, "forgotten", {"alias": row["alias"]}, actor="system", at=now)
    work.run("DELETE FROM pool_member WHERE person_id = :who", who=who)
    work.run("DELETE FROM session WHERE person_id = :who", who=who)
    work.run(
        "UPDATE invitation SET revoked_at = :now WHERE created_by = :who AND used_at IS NULL AND revoked_at IS NULL",
        now=now,
        who=who,
    )
    work.run(
        "UPDATE person SET email = NULL, name = NULL, password = NULL, locale = 'en', active = 0, forgotten_at = :now WHERE id = :who",
        now=now,
        who=who,
    )
    return len(projects)


def _give_back(work: Work, project: int, person: int, alias: str, now: float) -> None:
    """Put the question that a person holds back to its place, as if its time had run out."""
    held = work.all(
        "SELECT id, place, lease, lease_until FROM question WHERE project_id = :project AND person_id = :person AND status = :leased",
        project=project,
        person=person,
        leased=LEASED,
    )
    for row in held:
        work.run(
            "UPDATE question SET status = :open, person_id = NULL, leased_at = NULL, lease_until = NULL, key = NULL WHERE id = :id",
            open=OPEN,
            id=row["id"],
        )
        payload = {
            "lease": row["lease"],
            "place": row["place"],
            "question": row["id"],
            "until": row["lease_until"],
        }
        work.log(project, "lease-expired", payload, actor=alias, at=now)
