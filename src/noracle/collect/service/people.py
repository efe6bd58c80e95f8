"""Accounts, sessions, and forgetting.

Names, e-mail addresses and passwords stand in the table ``person`` and nowhere else. Events and
exports name people by the alias of their membership, so that :func:`forget` can erase a person and
the chain of events still fits.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Any

from noracle.collect.errors import Conflict, Forbidden, NotFound, Refused
from noracle.collect.model import LEASED, OPEN
from noracle.collect.service.access import IDLE_SECONDS, READERS, SESSION_SECONDS, Member
from noracle.collect.service.invitations import (
    Invitation,
    accept_invitation,
    invitations_of,
    invite,
    join,
    peek_invitation,
    revoke_invitation,
)
from noracle.collect.service.passwords import (
    LONGEST_PASSWORD,
    SHORTEST_PASSWORD,
    hash_password,
    password_fits,
)
from noracle.collect.store.base import Row, Work

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
