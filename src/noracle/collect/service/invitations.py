"""Invitations: links that work once, for one role and one pool, for some days."""

from __future__ import annotations

import dataclasses
import secrets

from noracle.collect.errors import Conflict, Forbidden, NotFound, Refused
from noracle.collect.model import EVERYBODY, ProjectSpec, Role
from noracle.collect.service.access import (
    MANAGERS,
    READERS,
    Member,
    member_of,
    new_token,
    read_spec,
)
from noracle.collect.service.access import token_hash as hash_of
from noracle.collect.store.base import Row, Work

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
