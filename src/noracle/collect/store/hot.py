"""The transactions of every click, for SQLite; PostgreSQL has the same rules in
``migrations/0002_guards.postgresql.sql``.

Each first asks who comes (session, person, membership, role, state of the project), then keeps the
rules of the protocol:

- one open lease a person; asking again returns the same question under the same key;
- leases that ran out go back to their place before anything is picked;
- the lowest place first, among the pools of the person, and never two questions about one item to
  one person;
- the first answer counts, revisions are appended, and a repeated key changes nothing;
- "unsure" puts a main question to another person of the same pool, as often as the specification
  says.
"""

from __future__ import annotations

import functools
import json
import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from noracle.collect.errors import Conflict, Forbidden, NotFound, Refused, SignedOut
from noracle.collect.model import Answered, Asked, ProjectSpec

if TYPE_CHECKING:
    from noracle.collect.store.sqlite_work import SqliteWork

REASK_STEP = 1000
"""A question that is put again has the draw of the first one plus this number, once for each time.
"""

VERDICTS = frozenset(("yes", "no", "unsure"))

MESSAGES = {
    "project": "There is no such project among yours.",
    "role": "Only annotators are asked questions.",
    "state": "The project is not open.",
    "question": "There is no such question in this project.",
    "lease": "This question is not yours now: its time ran out, or it was answered.",
    "key": "This form was sent before with another answer; the first one counts.",
    "last": "Only your last answer can be amended.",
    "value": "That is no answer to this question.",
    "form": "A form has a key of 1 to 100 characters and times that are true.",
}

_LONGEST = 10_000  # of an answer: "unsure|" for a thousand classes is shorter

_GATE = """
SELECT p.id, m.role, m.alias, j.state, j.spec FROM session s JOIN person p ON p.id = s.person_id
LEFT JOIN project j ON j.id = ?3 LEFT JOIN membership m ON m.project_id = j.id AND m.person_id = p.id
WHERE s.token_hash = ?1 AND s.expires_at > ?2 AND p.active = 1"""

_HELD = """
SELECT q.id, q.item_id, q.shown, q.lease, i.content, i.options, q.lease_until, q.key FROM question q JOIN item i ON i.id = q.item_id
WHERE q.project_id = ?1 AND q.person_id = ?2 AND q.status = 1"""

_PICK = """
SELECT q.id, q.item_id, q.shown, q.lease, i.content, i.options, q.place FROM pool_member m
JOIN question q ON q.id = (
    SELECT o.id FROM question o WHERE o.project_id = m.project_id AND o.pool = m.pool AND o.status = 0 AND o.place >= ?3
    AND NOT EXISTS (SELECT 1 FROM question d WHERE d.item_id = o.item_id AND d.person_id = m.person_id)
    AND NOT EXISTS (SELECT 1 FROM held h WHERE h.item_id = o.item_id AND h.person_id = m.person_id AND h.question_id <> o.id)
    ORDER BY o.place LIMIT 1)
JOIN item i ON i.id = q.item_id
WHERE m.project_id = ?1 AND m.person_id = ?2 ORDER BY q.place LIMIT 1"""

_LATE = """
SELECT q.id, q.item_id, q.person_id, q.place, q.lease, q.lease_until, m.alias FROM question q
JOIN membership m ON m.project_id = q.project_id AND m.person_id = q.person_id
WHERE q.project_id = ?1 AND q.status = 1 AND q.lease_until <= ?2 ORDER BY q.lease_until, q.id"""

_LEASE = "UPDATE question SET status = 1, person_id = ?2, lease = ?3, leased_at = ?4, lease_until = ?5, key = ?6 WHERE id = ?1"
_DONE = "SELECT COUNT(*) FROM answer WHERE project_id = ?1 AND person_id = ?2 AND revision = 0"
_BY_KEY = "SELECT id, question_id, revision, person_id, value FROM answer WHERE project_id = ?1 AND key = ?2"
_QUESTION = """
SELECT item_id, place, draw, kind, pool, shown, propensity, status, person_id, key, leased_at FROM question
WHERE id = ?1 AND project_id = ?2"""
_ANSWER = """
INSERT INTO answer (project_id, question_id, revision, person_id, value, shown_at, received_at, client_ms, key)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) RETURNING id"""
_REASK = """
INSERT INTO question (project_id, item_id, place, draw, kind, pool, shown, propensity) VALUES (?1, ?2, ?3, ?4, 'reask', ?5, ?6, ?7)"""
_LAST = """
SELECT a.question_id, a.shown_at, q.place, q.shown, (SELECT MAX(r.revision) FROM answer r WHERE r.question_id = a.question_id)
FROM answer a JOIN question q ON q.id = a.question_id
WHERE a.project_id = ?1 AND a.person_id = ?2 AND a.revision = 0 ORDER BY a.id DESC LIMIT 1"""


class Gate(NamedTuple):
    """Who asks, and where."""

    person: int
    alias: str
    state: str
    spec: ProjectSpec


@functools.lru_cache(maxsize=256)
def read_spec(text: str) -> ProjectSpec:
    """The specification out of its column; remembered, because it is needed at every click."""
    return ProjectSpec.from_dict(json.loads(text))


@functools.lru_cache(maxsize=4096)
def _numbers(text: str) -> tuple[int, ...]:
    return tuple(json.loads(text))


def fits(spec: ProjectSpec, shown: Sequence[int], value: str) -> bool:
    """Whether ``value`` is an answer to a question that shows these classes.

    Examples
    --------
    >>> spec = ProjectSpec.from_dict({"protocol": "judge-all", "classes": ["a", "b", "c"], "shown": 2})
    >>> fits(spec, (2, 0), "no|unsure"), fits(spec, (2, 0), "no")
    (True, False)
    """
    if spec.protocol == "partitioned":
        return value in VERDICTS
    if spec.protocol == "judge-all":
        parts = value.split("|")
        return len(parts) == len(shown) and VERDICTS.issuperset(parts)
    return (
        value == "unsure"
        or value in map(str, shown)
        or (spec.protocol == "pick-wrong" and spec.trap and value == "none")
    )


def is_unsure(value: str) -> bool:
    """Whether nothing was decided: "unsure", or "unsure" about every class shown."""
    return set(value.split("|")) == {"unsure"}


def new_key() -> str:
    """The key of one rendered question: 144 random bits."""
    return secrets.token_urlsafe(18)


def asked(project: int, row: Sequence[Any], until: float, key: str, done: int) -> Asked:
    """The row (question, item, shown, lease, content, options) as its person may see it."""
    question, item, shown, lease, text, options = row[:6]
    content = json.loads(text)
    content.pop("attention", None)  # that an item tests their attention is not for their eyes
    return Asked(
        question=question,
        project=project,
        item=item,
        content=content,
        options=None if options is None else _numbers(options),
        shown=_numbers(shown),
        lease=lease,
        lease_until=until,
        done=done,
        key=key,
    )


def check_form(
    key: str, value: str, *times: float, question: int = 1, client_ms: int | None = None
) -> None:
    """Refuse what no form of ours sends, before a database sees it."""
    if not 1 <= len(key) <= 100 or not key.isascii() or not all(0 <= at < 1e12 for at in times):
        raise Refused(MESSAGES["form"])
    if len(value) > _LONGEST or not value.isascii() or "\0" in key + value:
        raise Refused(MESSAGES["value"])
    if not 0 < question < 2**63:
        raise NotFound(MESSAGES["question"])
    if client_ms is not None and not 0 <= client_ms < 2**53:
        raise Refused(MESSAGES["form"])


def enter(work: SqliteWork, token_hash: str, project: int, now: float) -> Gate:
    """Who asks; refuses everybody who is no annotator of the project."""
    row = work.connection.execute(_GATE, (token_hash, now, project)).fetchone()
    if row is None:
        raise SignedOut
    if row[1] is None:
        raise NotFound(MESSAGES["project"])
    if row[1] != "annotator":
        raise Forbidden(MESSAGES["role"])
    return Gate(row[0], row[2], row[3], read_spec(row[4]))


# --------------------------------------------------------------------------------------------------------------------
# asking


def next_question(work: SqliteWork, token_hash: str, project: int, *, now: float) -> Asked | None:
    """The question that the person holds, else the next one."""
    gate = enter(work, token_hash, project, now)
    if gate.state != "open":
        raise Conflict(MESSAGES["state"])
    return _serve(work, gate, project, now)


def _serve(work: SqliteWork, gate: Gate, project: int, now: float) -> Asked | None:
    run = work.connection.execute
    _return_late(work, project, now)
    done = run(_DONE, (project, gate.person)).fetchone()[0]
    row = run(_HELD, (project, gate.person)).fetchone()
    if row is not None:
        return asked(project, row, row[6], row[7], done)
    row = _pick(work, project, gate.person)
    if row is None:
        return None
    row = (*row[:3], row[3] + 1, *row[4:])
    until, key = now + gate.spec.lease_seconds, new_key()
    run(_LEASE, (row[0], gate.person, row[3], now, until, key))
    return asked(project, row, until, key, done)


def _pick(work: SqliteWork, project: int, person: int) -> tuple[Any, ...] | None:
    """The open question with the lowest place; from where the person's last search began to find,
    because before it there is nothing.
    """
    places = work.cursors.setdefault(project, {})
    start = places.get(person, 0)
    row: tuple[Any, ...] | None = work.connection.execute(
        _PICK, (project, person, start)
    ).fetchone()
    if row is None and start:
        row = work.connection.execute(_PICK, (project, person, 0)).fetchone()
    if row is not None:
        places[person] = row[6]
    return row


def _reopened(work: SqliteWork, project: int, place: int) -> None:
    """A question is open again at this place: nobody's search may begin behind it."""
    places = work.cursors.get(project, {})
    places.update((person, place) for person, start in places.items() if start > place)


def _return_late(work: SqliteWork, project: int, now: float) -> None:
    """Put questions whose lease ran out back to their place."""
    run = work.connection.execute
    for question, item, person, place, lease, until, alias in run(_LATE, (project, now)).fetchall():
        run(
            "UPDATE question SET status = 0, person_id = NULL, leased_at = NULL, lease_until = NULL, key = NULL WHERE id = ?1",
            (question,),
        )
        run(
            "INSERT INTO held (item_id, person_id, question_id) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING",
            (item, person, question),
        )
        _reopened(work, project, place)
        payload = {"lease": lease, "place": place, "question": question, "until": until}
        work.append(project, "lease-expired", payload, actor=alias, at=now)


# -----------------------------------------------------------------------------------------------------------------
# answering


def answer(
    work: SqliteWork,
    token_hash: str,
    project: int,
    *,
    question: int,
    key: str,
    value: str,
    shown_at: float,
    client_ms: int | None,
    now: float,
    want_next: bool,
) -> Answered:
    """Keep the first answer to a question that the person holds. ``shown_at`` is kept between the
    lease and now.
    """
    check_form(key, value, shown_at, now, question=question, client_ms=client_ms)
    gate = enter(work, token_hash, project, now)
    before = _again(work, gate, project, key, value, question)
    if before is None:
        before = _keep(
            work,
            gate,
            project,
            question=question,
            key=key,
            value=value,
            shown_at=shown_at,
            client_ms=client_ms,
            now=now,
        )
    follow = _serve(work, gate, project, now) if want_next and gate.state == "open" else None
    return Answered(
        answer=before[0], question=question, revision=before[1], again=before[2], next=follow
    )


def _again(
    work: SqliteWork, gate: Gate, project: int, key: str, value: str, question: int | None
) -> tuple[int, int, bool] | None:
    """The answer that this key gave before: its number and revision."""
    row = work.connection.execute(_BY_KEY, (project, key)).fetchone()
    if row is None:
        return None
    if row[3] != gate.person or row[4] != value or row[1] != question:
        raise Conflict(MESSAGES["key"])
    return row[0], row[2], True


def _keep(
    work: SqliteWork,
    gate: Gate,
    project: int,
    *,
    question: int,
    key: str,
    value: str,
    shown_at: float,
    client_ms: int | None,
    now: float,
) -> tuple[int, int, bool]:
    run = work.connection.execute
    if gate.state != "open":
        raise Conflict(MESSAGES["state"])
    row = run(_QUESTION, (question, project)).fetchone()
    if row is None:
        raise NotFound(MESSAGES["question"])
    item, place, draw, kind, pool, shown, propensity, status, person, held_key, leased_at = row
    if status != 1 or person != gate.person or held_key != key:
        raise Conflict(MESSAGES["lease"])
    if not fits(gate.spec, _numbers(shown), value):
        raise Refused(MESSAGES["value"])
    shown_at = min(max(shown_at, leased_at), now)
    number = run(
        _ANSWER, (project, question, 0, gate.person, value, shown_at, now, client_ms, key)
    ).fetchone()[0]
    run("UPDATE question SET status = 2 WHERE id = ?1", (question,))
    if is_unsure(value) and kind in ("main", "reask") and draw // REASK_STEP < gate.spec.reasks:
        run(_REASK, (project, item, place, draw + REASK_STEP, pool, shown, propensity))
        _reopened(work, project, place)
    _log_answer(work, gate, project, "answer", number, question, place, 0, value, shown_at, now)
    return number, 0, False


def amend(
    work: SqliteWork,
    token_hash: str,
    project: int,
    *,
    answer: int,
    key: str,
    value: str,
    now: float,
) -> Answered:
    """Append a revision of the person's last answer."""
    check_form(key, value, now, question=answer)
    gate = enter(work, token_hash, project, now)
    run = work.connection.execute
    mine = run(
        "SELECT question_id FROM answer WHERE id = ?1 AND project_id = ?2 AND person_id = ?3",
        (answer, project, gate.person),
    ).fetchone()
    if mine is None:
        raise NotFound(MESSAGES["question"])
    before = _again(work, gate, project, key, value, mine[0])
    if before is not None:
        return Answered(answer=before[0], question=mine[0], revision=before[1], again=True)
    if gate.state != "open":
        raise Conflict(MESSAGES["state"])
    question, shown_at, place, shown, revision = run(_LAST, (project, gate.person)).fetchone()
    if question != mine[0]:
        raise Conflict(MESSAGES["last"])
    if not fits(gate.spec, _numbers(shown), value):
        raise Refused(MESSAGES["value"])
    number = run(
        _ANSWER, (project, question, revision + 1, gate.person, value, shown_at, now, None, key)
    ).fetchone()[0]
    _log_answer(
        work, gate, project, "amended", number, question, place, revision + 1, value, shown_at, now
    )
    return Answered(answer=number, question=question, revision=revision + 1, again=False)


def _log_answer(
    work: SqliteWork,
    gate: Gate,
    project: int,
    kind: str,
    number: int,
    question: int,
    place: int,
    revision: int,
    value: str,
    shown_at: float,
    now: float,
) -> None:
    payload = {
        "answer": number,
        "place": place,
        "question": question,
        "received_at": now,
        "revision": revision,
        "shown_at": shown_at,
        "value": value,
    }
    work.append(project, kind, payload, actor=gate.alias, at=now)
