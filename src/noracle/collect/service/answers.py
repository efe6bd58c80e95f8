"""What becomes of answers: which ones count, taking the last one back, leaving, and comments.

An answer is kept at once, and is *provisional*: its person may take it back. It becomes *final*
with their next answer in the project, when they leave, when the project is closed, or after 60
seconds. Estimates use what is final. An answer that was taken back stays where it is, and so does
the event that says so; the question goes back to the same person, and their next answer to it
counts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from noracle.collect.errors import Conflict, NotFound, Refused
from noracle.collect.model import LEASED, UNDO_SECONDS
from noracle.collect.service import access
from noracle.collect.service.access import Member
from noracle.collect.service.projects import hold, note, projects_of
from noracle.collect.store.base import SQL, Row, Work
from noracle.collect.store.sqlite import MESSAGES, new_key

LONGEST_COMMENT = 2000
_LATE = (
    "This answer is final: 60 seconds have passed, or something came after it. The first final "
    "answer counts, so that nobody can adapt answers later."
)


def recent(work: Work, project: Row) -> float:
    """Answers up to this time are final in an export: 60 seconds before the last event."""
    last = work.one(SQL.last_event, project=project["id"])
    if last is None or project["state"] == "closed":
        return math.inf
    return float(last["at"]) - UNDO_SECONDS


def final_answers(work: Work, project: Row, kinds: Sequence[str] | None = None) -> list[Row]:
    """The answers that count, with their question, item and the alias of the rater, as they came."""
    rows = work.all(SQL.final_answers, project=project["id"], recent=recent(work, project))
    return [row for row in rows if kinds is None or row["kind"] in kinds]


def provisional(work: Work, member: Member, *, now: float) -> Row | None:
    """The person's last answer, if it can still be taken back."""
    row = work.one(SQL.latest, project=member.project, person=member.person)
    if row is None or not row["given"] or row["undone"] is not None or row["reask_lease"]:
        return None
    # A clock that stepped back by more than that makes it final too.
    return row if abs(now - float(row["received_at"])) < UNDO_SECONDS else None


def _hold(work: Work, member: Member) -> None:
    """No answer comes, and the project stays open, until this transaction ends."""
    if work.dialect == "postgresql":
        lock = "SELECT pg_advisory_xact_lock(28271, CAST(:project AS integer))"  # as noracle_enter
        work.one(lock, project=member.project)
    hold(work, member.project, "open")


def undo(work: Work, member: Member, answer: int, *, now: float) -> None:
    """Take the last answer back; its question is held again. Conflict if final; a repeat does nothing."""
    _hold(work, member)
    last = work.one(SQL.latest, project=member.project, person=member.person)
    if last is None or last["id"] != answer:
        raise Conflict(_LATE)
    holds = (last["status"], last["person_id"]) == (LEASED, member.person)
    if last["undone"] == 1 and holds:
        return
    Conflict.unless(provisional(work, member, now=now), _LATE)
    who = {"project": member.project, "person": member.person}
    held = work.one(SQL.held_by, **who)
    if held is not None:
        work.run(SQL.hold_item, id=held["id"], person=member.person)
        work.run(SQL.reopen, id=held["id"])
    if last["reask"] is not None:
        work.run(SQL.drop_question, id=last["reask"])
    work.run(SQL.settle, answer=answer, now=now, undone=1, **who)
    lease = {"until": now + member.spec.lease_seconds, "key": new_key(), "now": now}
    work.run(SQL.lease_again, id=last["question_id"], person=member.person, **lease)
    returned = None if held is None else int(held["place"])
    note(work, member, "undone", now=now, **_about(last), returned=returned)


def leave(work: Work, member: Member, *, now: float) -> None:
    """Make the person's last answer final, if it is not yet."""
    if member.state != "open":
        return
    _hold(work, member)
    if (last := provisional(work, member, now=now)) is not None:
        who = {"project": member.project, "person": member.person}
        work.run(SQL.settle, answer=last["id"], now=now, undone=0, **who)
        note(work, member, "left", now=now, **_about(last))


def leave_all(work: Work, session: str, *, now: float) -> None:
    """Leave every project, at signing out."""
    person = access.who(work, session, now=now)
    for project in () if person is None else projects_of(work, person.id):
        if (project["role"], project["state"]) == ("annotator", "open"):
            slug, roles = project["slug"], access.ANNOTATORS
            leave(work, access.member(work, session, slug, roles=roles, now=now), now=now)


def _about(row: Row) -> dict[str, int]:
    return {"answer": row["id"], "question": row["question_id"], "place": row["place"]}


def add_comment(
    work: Work, member: Member, question: int, *, text: str, broken: bool, now: float
) -> int:
    """Keep what is said about an item in hand or answered; it may name people, so no event has it."""
    short = len(text := text.strip()) <= LONGEST_COMMENT
    Refused.unless(short, f"text must have at most {LONGEST_COMMENT} characters.")
    Refused.unless(text or broken, "text must not be empty, unless the item is broken.")
    hold(work, member.project, "open")
    asked = {"question": question, "project": member.project, "person": member.person}
    row = NotFound.given(work.one(SQL.asked_of, **asked), MESSAGES["question"])
    kept = work.one(SQL.add_comment, **asked, now=now, broken=int(broken), text=text)
    number = int((kept or {})["id"])
    about = {"broken": broken, "comment": number, "place": row["place"], "question": question}
    note(work, member, "commented", now=now, **about)
    return number


def comments_of(work: Work, project: int) -> list[dict[str, Any]]:
    """``comment, item, place, rater`` (alias)``, at, broken, text``, as they came; for managers."""
    rows = work.all(SQL.comments, project=project)
    return [{**row, "broken": bool(row["broken"])} for row in rows]
