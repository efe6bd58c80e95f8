"""Accounts, sessions, and forgetting.

Names, e-mail addresses and passwords stand in the table ``person`` and nowhere else. Events and
exports name people by the alias of their membership, so that :func:`forget` can erase a person and
the chain of events still fits.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import re
import secrets
import statistics
import threading
import unicodedata
from collections import Counter
from typing import TYPE_CHECKING, Any

from noracle.bounds.binomial import clopper_pearson
from noracle.collect.archive import verdicts
from noracle.collect.errors import Conflict, Forbidden, NotFound, Refused
from noracle.collect.model import EVERYBODY, ProjectSpec, Role, read_spec
from noracle.collect.service import access
from noracle.collect.service.access import MANAGERS, READERS, Member, member_of
from noracle.collect.store.base import SQL, Row, Work
from noracle.errors import MissingExtra

if TYPE_CHECKING:
    from argon2 import PasswordHasher

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
    """The hash of nobody's password: an unknown address takes as long as a wrong password."""
    return _hasher().hash(secrets.token_urlsafe(32))


def hash_password(password: str) -> str:
    """Argon2id of a password, or Refused; 0.3 s, so never inside a write or on the event loop."""
    text = unicodedata.normalize("NFC", password)
    rule = f"password must have {SHORTEST_PASSWORD} to {LONGEST_PASSWORD} characters"
    Refused.unless(SHORTEST_PASSWORD <= len(text) <= LONGEST_PASSWORD, f"{rule}; got {len(text)}.")
    Refused.unless(len(set(text)) >= 3, "password must not repeat one or two characters.")
    with _two_at_a_time:
        return _hasher().hash(text.encode("utf-8", "surrogatepass"))


def password_fits(hashed: str | None, password: str) -> bool:
    """Whether this is the password; takes as long where there is none (``hashed`` None)."""
    from argon2.exceptions import Argon2Error, InvalidHashError

    text = unicodedata.normalize("NFC", password)[: LONGEST_PASSWORD + 1]
    with _two_at_a_time:
        try:
            _hasher().verify(hashed or _nobody(), text.encode("utf-8", "surrogatepass"))
        except (Argon2Error, InvalidHashError):
            return False
    return bool(hashed)


# Invitations: links that work once, for one role and one pool, for some days.

_GONE = "This invitation was used, has expired or was withdrawn. Ask for a new one."
_ALIAS_LETTERS = "23456789abcdefghjkmnpqrstuvwxyz"
_BELOW = {"owner": ("manager", "annotator", "auditor"), "manager": ("annotator", "auditor")}
RESET_SECONDS = 86400.0
_DEVICES = 20


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
    word = "rater" if role == "annotator" else role
    for _ in range(20):
        alias = f"{word}-{''.join(secrets.choice(_ALIAS_LETTERS) for _ in range(6))}"
        made = {"project": project, "person": person, "role": role, "alias": alias, "now": now}
        if work.one(SQL.join, **made) is not None:
            _end_resets(work, person)
            return alias
        if project in {int(row["project_id"]) for row in work.all(SQL.memberships, person=person)}:
            break
    raise Conflict("This person is or was a member of the project already, with another role.")


def _end_resets(work: Work, person: int) -> None:
    """End the links that managers made: the person may be more now than what they manage."""
    work.run("DELETE FROM reset WHERE person_id = :p AND project_id IS NOT NULL", p=person)


def _pool_for(member: Member, role: Role, pool: int | None) -> int | None:
    if role != "annotator":
        rule = f"pool must be left out for the role {role}"
        Refused.unless(pool is None, f"{rule}; only annotators are asked questions.")
        return None
    pools = member.spec.pools
    if pool is None and pools == (EVERYBODY,):
        return EVERYBODY
    rule = f"pool must be one of 0 to {len(pools) - 1} for an annotator"
    Refused.unless(pool in pools and not isinstance(pool, bool), f"{rule}; got {pool!r}.")
    return pool


def invite(
    work: Work, member: Member, *, role: Role, pool: int | None, days: float = 7, now: float
) -> str:
    """Make an invitation (``pool`` for annotators only); returns its token, which is shown once."""
    allowed = role == member.role or role in _BELOW.get(member.role, ())
    allowed = allowed and member.role in MANAGERS
    Forbidden.unless(allowed, f"role must be one that a {member.role} may invite; got {role!r}.")
    Refused.unless(1 / 1440 <= days <= 90, f"days must be from a minute to 90 days; got {days!r}.")
    late = role == "annotator" and member.state == "closed"
    Conflict.unless(not late, "The project is closed; nobody is asked any more.")
    pool = _pool_for(member, role, pool)
    token, ends = access.new_token(), now + days * 86400
    who = {"project": member.project, "person": member.person, "role": role, "pool": pool}
    row = work.one(SQL.invite, token=access.token_hash(token), now=now, ends=ends, **who)
    payload = {"invitation": 0 if row is None else int(row["id"]), "role": role, "pool": pool}
    work.log(member.project, "invited", payload, actor=member.alias, at=now)
    return token


def peek_invitation(work: Work, token_hash: str, *, now: float) -> Invitation:
    """What a link leads to; raises NotFound if it was used, revoked, has expired or never was."""
    row = NotFound.given(work.one(SQL.invitation, token=token_hash, now=now), _GONE)
    return Invitation(**{**row, "spec": read_spec(row["spec"])})


def accept_invitation(work: Work, token_hash: str, *, person: int, now: float) -> Member:
    """Use an invitation up: the person joins with its role, in its pool.

    Who sees estimates must not answer questions, and no item is put to a person twice (ordinary).
    """
    invitation = peek_invitation(work, token_hash, now=now)
    project, role, pool = invitation.project, invitation.role, invitation.pool
    used = work.run(SQL.use_invitation, now=now, person=person, token=token_hash)
    NotFound.unless(used == 1, _GONE)
    _end_resets(work, person)
    known = member_of(work, person, project)
    if known is None:
        back = work.one(SQL.rejoin, project=project, person=person, role=role)
        alias = back["alias"] if back else join(work, project, person, role=role, now=now)
    else:
        alias, words = known.alias, f"You are a member of this project already, as {known.role}."
        both = known.role == role == "annotator"
        Conflict.unless(both, f"{words} Use another account for another role.")
        Conflict.unless(pool not in known.pools, "You are in this group already.")
        words = "You have a place in this project already"
        several = invitation.spec.protocol != "ordinary"
        Conflict.unless(several, f"{words}; a second one would put the same item to you twice.")
    if pool is not None:
        work.run(SQL.join_pool, project=project, pool=pool, person=person)
    payload = {"alias": alias, "role": role, "pool": pool, "invitation": invitation.id}
    work.log(project, "joined", payload, actor=alias, at=now)
    return Conflict.given(member_of(work, person, project), "Joining failed; try the link again.")


def revoke_invitation(work: Work, member: Member, invitation: int, *, now: float) -> None:
    """Withdraw an invitation of the member's project that was not used."""
    Forbidden.unless(member.role in MANAGERS, "Only owners and managers withdraw invitations.")
    n = work.run(SQL.revoke_invitation, now=now, id=invitation, project=member.project)
    NotFound.unless(n == 1, "There is no such invitation to withdraw.")


def invitations_of(work: Work, member: Member, *, now: float) -> list[Row]:
    """The open invitations of a project: ``id, role, pool, created_at, expires_at``."""
    seen = member.role in READERS
    Forbidden.unless(seen, "Only owners, managers and auditors see invitations.")
    return work.all(SQL.invitations, project=member.project, now=now)


def normal_email(email: str) -> str:
    """An e-mail address as it is stored and looked up: NFKC, lower case, without space around it.

    >>> normal_email("  Ann@Example.ORG ")
    'ann@example.org'
    """
    text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", email).strip().lower())
    local, _, domain = text.rpartition("@")
    odd = "@" in local or re.search(r"[\s\x00-\x1f\x7f<>\"',;:\\]", text)
    whole = local and domain and len(text) <= 254
    Refused.unless(whole and not odd, "email must look like name@example.org.")
    Refused.unless(text.isprintable(), "email must hold printable characters only.")
    return text


def email_key(email: str) -> str:
    """The address as it is looked up; one that cannot be one as it was written."""
    try:
        return normal_email(email)
    except Refused:
        return email[:254]


def normal_name(name: str) -> str:
    """A name in one line of 1 to 200 printable characters."""
    text = " ".join(unicodedata.normalize("NFC", name).split())
    fits = 1 <= len(text) <= 200 and text.isprintable()
    Refused.unless(fits, "name must have 1 to 200 printable characters.")
    return text


def add_person(
    work: Work, *, email: str, name: str, password_hash: str, locale: str = "en", now: float
) -> int:
    """A new account; raises Conflict if the address has one."""
    known = re.fullmatch(r"[A-Za-z]{2,3}([_-][A-Za-z0-9]{2,8})*", locale)
    Refused.unless(known, "locale must be a language code such as en or de.")
    about = {"email": normal_email(email), "name": normal_name(name), "password": password_hash}
    row = work.one(SQL.add_person, locale=locale, now=now, **about)
    return int(Conflict.given(row, "email has an account already; sign in with it.")["id"])


def nobody_yet(work: Work) -> bool:
    """Whether no account was ever made."""
    return work.one("SELECT id FROM person LIMIT 1") is None


def find_person(work: Work, email: str) -> Row | None:
    """``id, email, name, password, locale, active`` of an address; None if it has no account."""
    try:
        return work.one(SQL.find_person, email=normal_email(email))
    except Refused:
        return None


def set_password(work: Work, person: int, password_hash: str, *, keep: str = "") -> None:
    """Change a password; ends all sessions but the one whose hash is ``keep``."""
    work.run(SQL.set_password, password=password_hash, person=person)
    work.run(SQL.drop_other_sessions, person=person, keep=keep)
    work.run("DELETE FROM reset WHERE person_id = :person", person=person)


def make_reset(work: Work, person: int, *, project: int | None, now: float) -> str:
    """The token of a link that sets a new password once, for a day; earlier ones end."""
    token, ends = access.new_token(), now + RESET_SECONDS
    work.run("DELETE FROM reset WHERE person_id = :p OR expires_at <= :now", p=person, now=now)
    about = {"person": person, "project": project, "ends": ends}
    work.run(SQL.add_reset, token=access.token_hash(token), **about)
    return token


def reset_link(work: Work, member: Member, who: str, *, now: float) -> str:
    """As :func:`make_reset`, for a member below the manager in all their projects; it is logged."""
    target = _member_named(work, member, who)
    rows = work.all(SQL.roles_of, person=target["person"], actor=member.person)
    above = all(row["role"] in _BELOW.get(row["mine"] or "", ()) for row in rows)
    rule = "This person has a role as high as yours, or is in a project that you do not manage"
    Forbidden.unless(above, f"{rule}. Use: noracle collect password")
    token = make_reset(work, int(target["person"]), project=member.project, now=now)
    work.log(member.project, "reset-link", {"alias": target["alias"]}, actor=member.alias, at=now)
    return token


def peek_reset(work: Work, token_hash: str, *, now: float) -> Row:
    """``person, project, email, alias`` of a link that still works."""
    row = work.one(SQL.reset, token=token_hash, now=now)
    return NotFound.given(row, "This link was used or has expired. Ask for a new one.")


def use_reset(work: Work, token_hash: str, password_hash: str, *, now: float) -> int:
    """Set the password of a link; ends all sessions and forgets all devices. Returns the person."""
    row = peek_reset(work, token_hash, now=now)
    person = int(row["person"])
    set_password(work, person, password_hash)
    work.run(SQL.drop_devices, person=person, keep=0)
    if row["project"] is not None:
        said = {"alias": row["alias"]}
        work.log(int(row["project"]), "password-reset", said, actor=row["alias"], at=now)
    return person


def _member_named(work: Work, member: Member, who: str) -> Row:
    Forbidden.unless(member.role in MANAGERS, "Only owners and managers change who is a member.")
    row = work.one(SQL.member_by_alias, project=member.project, who=who.strip().lower())
    if row is None or row["left_at"] is not None:
        raise NotFound("There is no such member in this project.")
    return row


def remove_member(work: Work, member: Member, who: str, *, now: float) -> str:
    """End a membership, give back what is held, end links they made; returns the alias."""
    target = _member_named(work, member, who)
    role, person, alias = target["role"], int(target["person"]), str(target["alias"])
    allowed = member.role == "owner" or role in _BELOW[member.role]
    Forbidden.unless(allowed, f"A {member.role} does not remove a member with the role {role}.")
    owners = work.one(SQL.owners, project=member.project)
    last = role == "owner" and owners is not None and int(owners["n"]) < 2
    Conflict.unless(not last, "The last owner cannot be removed; invite another one first.")
    at = {"project": member.project, "person": person}
    _give_back(work, member.project, person, alias, now)
    work.run(SQL.leave_pools, **at)
    work.run(SQL.revoke_by, now=now, **at)
    if role in MANAGERS:
        work.run("DELETE FROM reset WHERE project_id = :project", project=member.project)
    work.run(SQL.leave, now=now, **at)
    work.log(member.project, "removed", {"alias": alias}, actor=member.alias, at=now)
    return alias


def keep_device(work: Work, person: int, token_hash: str, *, now: float) -> None:
    """Remember a browser in which the person signed in; the last twenty are known."""
    work.run(SQL.add_device, token=token_hash, person=person, now=now)
    work.run(SQL.drop_devices, person=person, keep=_DEVICES)


def start_session(work: Work, person: int, token_hash: str, *, now: float) -> None:
    """A new session; also sweeps away sessions that have ended and attempts that are a day old."""
    # Also those that began while the clock was far ahead: they would never end.
    gone = "DELETE FROM session WHERE expires_at <= :now OR created_at > :ahead"
    work.run(gone, now=now, ahead=now + 86400.0)
    work.run("DELETE FROM throttle WHERE at <= :old", old=now - 86400)
    ends = now + min(access.IDLE_SECONDS, access.SESSION_SECONDS)
    work.run(SQL.add_session, token=token_hash, person=person, now=now, ends=ends)


def end_session(work: Work, token_hash: str) -> None:
    """Sign out."""
    work.run("DELETE FROM session WHERE token_hash = :token", token=token_hash)


def people_of(work: Work, member: Member) -> list[dict[str, Any]]:
    """The members: ``alias, role, pools, joined_at, done, name, email``; for auditors no names."""
    if member.role not in READERS:
        raise Forbidden("Only owners, managers and auditors see the people of a project.")
    pools: dict[int, list[int]] = {}
    for row in work.all(SQL.pool_members, project=member.project):
        pools.setdefault(int(row["person_id"]), []).append(int(row["pool"]))
    personal = member.role != "auditor"
    found = []
    for row in work.all(SQL.people, project=member.project):
        one = {key: row[key] for key in ("alias", "role", "joined_at")}
        one |= {"pools": tuple(pools.get(int(row["person_id"]), ())), "done": int(row["done"])}
        one |= {"forgotten": row["forgotten_at"] is not None, "left": row["left_at"] is not None}
        found.append(one | {key: row[key] if personal else None for key in ("name", "email")})
    return found


def forget(work: Work, email: str, *, now: float) -> int:
    """Erase a person's address, name, password, sessions, pools, comments; returns how many projects."""
    person = NotFound.given(find_person(work, email), "There is no account with this address.")
    who = int(person["id"])
    projects = work.all(SQL.memberships, person=who)
    for row in projects:
        project = int(row["project_id"])
        _give_back(work, project, who, str(row["alias"]), now)
        work.log(project, "forgotten", {"alias": row["alias"]}, actor="system", at=now)
    for table in ("session", "device", "identity", "reset", "pool_member"):
        work.run(f"DELETE FROM {table} WHERE person_id = :who", who=who)  # noqa: S608 (our own names)
    tried = access.token_hash(f"account|{person['email']}")
    work.run("DELETE FROM throttle WHERE key = :key", key=tried)
    work.run(SQL.revoke_all_of, now=now, person=who)
    work.run(SQL.forget_comments, person=who, email=person["email"])
    work.run(SQL.forget_person, now=now, person=who)
    return len(projects)


def _give_back(work: Work, project: int, person: int, alias: str, now: float) -> None:
    """Put the question that a person holds back to its place, as if its time had run out."""
    for row in work.all(SQL.held_by, project=project, person=person):
        work.run(SQL.reopen, id=row["id"])
        lease = {"lease": row["lease"], "until": row["lease_until"]}
        payload = {**lease, "place": row["place"], "question": row["id"]}
        work.log(project, "lease-expired", payload, actor=alias, at=now)


def raters_of(work: Work, member: Member) -> list[dict[str, Any]]:
    """How annotators work: ``alias, name, answers, seconds`` (median), ``expired, comments, gold,
    panel``.

    ``gold`` and ``panel`` are right ones, all, and an exact interval, or None: verdicts as the known
    class says, and items with exactly one yes among complete panels with a verdict of theirs. Never
    by item; while the project is open in steps of five, so that no single answer shows.
    """
    from noracle.collect.service.answers import comments_of, final_answers

    spec, project = member.spec, member.project
    people = {one["alias"]: one for one in people_of(work, member) if one["role"] == "annotator"}
    truth = {row["name"]: int(row["truth"]) for row in work.all(SQL.gold, project=project)}
    taken: dict[str, list[float]] = {}
    gold: dict[str, list[bool]] = {}
    panel: dict[str, list[tuple[str, str]]] = {}
    for row in final_answers(work, access.project_of(work, project)):
        alias, item = row["rater"], row["item"]
        taken.setdefault(alias, []).append(float(row["received_at"]) - float(row["shown_at"]))
        said = verdicts(spec, json.loads(row["shown"]), row["value"])
        if row["kind"] in ("gold", "attention") and item in truth:
            known = [(k or 0, v) for k, v in said if v in ("yes", "no")]
            right = [spec.expected(k, truth[item]) == v for k, v in known]
            gold.setdefault(alias, []).extend(right)
        elif row["kind"] == "panel":
            panel.setdefault(item, []).append((alias, row["value"]))
    whole: dict[str, list[bool]] = {}
    for said_of in panel.values():
        if len(said_of) == spec.n_classes:
            one_yes = sum(value == "yes" for _, value in said_of) == 1
            for alias in dict.fromkeys(alias for alias, _ in said_of):
                whole.setdefault(alias, []).append(one_yes)
    late = {row["actor"]: int(row["n"]) for row in work.all(SQL.expired_by, project=project)}
    told = Counter(str(row["rater"]) for row in comments_of(work, project))
    step = 1 if member.state == "closed" else 5
    raters = []
    for alias, one in people.items():
        seconds = taken.get(alias, [])
        rater: dict[str, Any] = {"alias": alias, "name": one["name"], "answers": len(seconds)}
        rater |= {"seconds": statistics.median(seconds) if seconds else None}
        rater |= {"expired": late.get(alias, 0), "comments": told[alias]}
        for name, of in (("gold", gold), ("panel", whole)):
            rater[name] = _share(of.get(alias, []), spec.confidence, step)
        raters.append(rater)
    return raters


def _share(right: list[bool], confidence: float, step: int) -> dict[str, Any] | None:
    n = len(right) - len(right) % step
    if not n:
        return None
    k, tail = sum(right[:n]), (1 - confidence) / 2
    low, high = clopper_pearson(k, n, tail, tail)
    return {"right": k, "of": n, "low": low, "high": high}
