"""The archive that proves itself, and tables of evidence; neither holds personal data.

Read both through ``store.read_chained``: on PostgreSQL events are chained a moment after they are
written.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

from noracle.collect.archive import Archive, make_archive
from noracle.collect.errors import Conflict, NotFound, Refused
from noracle.collect.label_studio import tasks_of
from noracle.collect.model import Item, Route
from noracle.collect.service.access import Member, read_spec
from noracle.collect.service.answers import ESTIMATED, first_answers, judgements, ratings
from noracle.collect.store.base import Row, Work
from noracle.collect.tables import Table, table_files, zip_bytes

ExportFormat = Literal["archive", "jsonl", "csv", "parquet", "label-studio"]
FORMATS: tuple[ExportFormat, ...] = ("archive", "jsonl", "csv", "parquet", "label-studio")

_JUDGEMENTS = {
    "item": "text",
    "class": "whole",
    "verdict": "text",
    "rater": "text",
    "propensity": "number",
    "at": "number",
    "draw": "whole",
    "kind": "text",
    "revision": "whole",
    "question": "whole",
}


def _project(work: Work, project: int) -> Row:
    row = work.one("SELECT * FROM project WHERE id = :project", project=project)
    if row is None:
        raise NotFound("There is no such project.")
    return row


def _predictions(work: Work, project: int, *, main: bool) -> dict[str, dict[str, int | None]]:
    """Answers by system and item; ``main`` leaves out items that were not put to people for an
    estimate (gold and panel).
    """
    only = (
        "AND EXISTS (SELECT 1 FROM question q WHERE q.item_id = i.id AND q.kind = 'main') "
        if main
        else ""
    )
    rows = work.all(
        "SELECT s.name AS system, i.name AS item, p.answer FROM prediction p JOIN system s ON s.id = p.system_id "  # noqa: S608 (fixed text)
        f"JOIN item i ON i.id = p.item_id WHERE s.project_id = :project {only}ORDER BY s.id, i.id",
        project=project,
    )
    found: dict[str, dict[str, int | None]] = {}
    for row in rows:
        found.setdefault(row["system"], {})[row["item"]] = row["answer"]
    return found


def archive_of(work: Work, project: int, *, texts: bool = False) -> Archive:
    """Everything that was drawn, asked and answered, for
    :func:`noracle.collect.verify.verify_archive`.

    The seed, the truth of gold items and recorded chances are in it once the project is closed. A
    draft has nothing to prove yet.
    """
    row = _project(work, project)
    if row["state"] == "draft":
        raise Conflict("The project must be sealed before it can be exported; it is a draft.")
    record = {key: row[key] for key in row.keys()} | {"spec": read_spec(row["spec"])}  # noqa: SIM118 (rows may iterate over values)
    items, chances = [], {}
    for i in work.all(
        "SELECT i.name, i.content, i.options, i.chances, g.truth FROM item i LEFT JOIN gold g ON g.item_id = i.id "
        "WHERE i.project_id = :project ORDER BY i.id",
        project=project,
    ):
        order = None if i["options"] is None else tuple(json.loads(i["options"]))
        items.append(
            Item(name=i["name"], content=json.loads(i["content"]), truth=i["truth"], options=order)
        )
        if i["chances"] is not None:
            chances[i["name"]] = json.loads(i["chances"])
    routes = [
        Route(
            place=q["place"],
            item=q["item"],
            draw=q["draw"],
            kind=q["kind"],
            pool=q["pool"],
            shown=tuple(json.loads(q["shown"])),
            propensity=float(q["propensity"]),
        )
        for q in work.all(
            "SELECT q.place, i.name AS item, q.draw, q.kind, q.pool, q.shown, q.propensity FROM question q JOIN item i ON i.id = q.item_id "
            "WHERE q.project_id = :project AND q.kind <> 'reask' ORDER BY q.place",
            project=project,
        )
    ]
    answers = work.all(
        "SELECT a.id AS answer, a.question_id AS question, q.place, q.draw, a.revision, m.alias AS rater, a.value, a.shown_at, "
        "a.received_at FROM answer a JOIN question q ON q.id = a.question_id "
        "JOIN membership m ON m.project_id = a.project_id AND m.person_id = a.person_id WHERE a.project_id = :project ORDER BY a.id",
        project=project,
    )
    events = work.all(
        "SELECT seq, at, actor, kind, payload, prev, hash FROM event WHERE project_id = :project AND seq IS NOT NULL ORDER BY seq",
        project=project,
    )
    uploaded = {
        s["name"]: s["uploaded_at"]
        for s in work.all(
            "SELECT name, uploaded_at FROM system WHERE project_id = :project", project=project
        )
    }
    return make_archive(
        record,
        items=items,
        routes=routes,
        answers=answers,
        events=events,
        systems=_predictions(work, project, main=False),
        uploaded_at=uploaded,
        chances=chances,
        texts=texts,
    )


def evidence_tables(work: Work, project: int, *, texts: bool = False) -> dict[str, Table]:
    """Tables that ``noracle estimate`` and the other verbs read.

    ``answers`` (of items with main questions), ``judgements`` (answers to main questions, and to
    those that were asked again), ``items`` (with ``n_classes``), ``ratings`` (ordinary protocol),
    ``quality`` (judgements of gold, panel and attention questions; with the expected verdict once
    the project is closed) and ``classes`` (number and name).
    """
    row = _project(work, project)
    spec = read_spec(row["spec"])
    said = judgements(work, project)
    rated = ratings(work, project)
    truths = _truths(work, project) if row["state"] == "closed" else {}
    predictions = _predictions(work, project, main=True)
    return {
        "answers": Table(
            columns={"item": "text", "system": "text", "answer": "whole"},
            rows=[
                (item, system, answer)
                for system, answers in predictions.items()
                for item, answer in answers.items()
            ],
        ),
        "judgements": Table(
            columns=_JUDGEMENTS,
            rows=[tuple(j[c] for c in _JUDGEMENTS) for j in said if j["kind"] in ESTIMATED],
        ),
        "items": _items(work, project, spec.n_classes, texts=texts),
        "ratings": Table(
            columns={"item": "text", "rater": "text", "label": "whole", "at": "number"},
            rows=[(r["item"], r["rater"], r["label"], r["at"]) for r in rated],
        ),
        "quality": Table(
            columns={**_JUDGEMENTS, "expected": "text"},
            rows=[
                (*(j[c] for c in _JUDGEMENTS), _expected(j, truths))
                for j in said
                if j["kind"] not in ESTIMATED
            ],
        ),
        "classes": Table(
            columns={"class": "whole", "class_name": "text"},
            rows=[(k, c.name) for k, c in enumerate(spec.classes)],
        ),
    }


def _truths(work: Work, project: int) -> dict[str, int]:
    rows = work.all(
        "SELECT i.name, g.truth FROM gold g JOIN item i ON i.id = g.item_id WHERE i.project_id = :project",
        project=project,
    )
    return {row["name"]: int(row["truth"]) for row in rows}


def _expected(judgement: Mapping[str, Any], truths: Mapping[str, int]) -> str | None:
    truth = truths.get(judgement["item"])
    return None if truth is None else "yes" if truth == judgement["class"] else "no"


def _items(work: Work, project: int, n_classes: int, *, texts: bool) -> Table:
    rows = work.all(
        "SELECT name, sha256, content FROM item WHERE project_id = :project ORDER BY id",
        project=project,
    )
    columns = {"item": "text", "n_classes": "whole", "sha256": "text"}
    if not texts:
        return Table(
            columns=columns, rows=[(row["name"], n_classes, row["sha256"]) for row in rows]
        )
    found = []
    for row in rows:
        content = json.loads(row["content"])
        found.append(
            (
                row["name"],
                n_classes,
                row["sha256"],
                content.get("markdown") or content.get("text"),
                content.get("options"),
                content.get("image"),
            )
        )
    return Table(
        columns={**columns, "text": "text", "options": "list", "image": "text"}, rows=found
    )


def label_studio(work: Work, project: int, *, texts: bool = False) -> bytes:
    """Items and first answers as tasks of Label Studio, in JSON."""
    spec = read_spec(_project(work, project)["spec"])
    items = [
        {
            "name": row["name"],
            "content": {k: v for k, v in json.loads(row["content"]).items() if k != "attention"}
            if texts
            else {},
        }
        for row in work.all(
            "SELECT name, content FROM item WHERE project_id = :project ORDER BY id",
            project=project,
        )
    ]
    answers = [
        {
            "answer": row["answer"],
            "item": row["item"],
            "shown": json.loads(row["shown"]),
            "value": row["value"],
            "rater": row["rater"],
            "kind": row["kind"],
            "seconds": round(float(row["received_at"]) - float(row["shown_at"]), 3),
        }
        for row in first_answers(work, project)
    ]
    return json.dumps(tasks_of(spec, items, answers), ensure_ascii=False, allow_nan=False).encode()


def export_files(work: Work, project: int, kind: str, *, texts: bool = False) -> dict[str, bytes]:
    """File names and bytes of an export in one of :data:`FORMATS`."""
    if kind not in FORMATS:
        raise Refused(f"format must be one of {', '.join(FORMATS)}; got {kind[:40]!r}.")
    slug = str(_project(work, project)["slug"])
    if kind == "archive":
        return {f"{slug}.zip": archive_of(work, project, texts=texts).to_bytes()}
    if kind == "label-studio":
        return {f"{slug}.json": label_studio(work, project, texts=texts)}
    return table_files(evidence_tables(work, project, texts=texts), kind)


def export_one(
    work: Work, project: int, kind: str, *, texts: bool = False
) -> tuple[str, str, bytes]:
    """File name, media type and bytes of an export as one file: several tables come in a zip."""
    files = export_files(work, project, kind, texts=texts)
    if len(files) == 1 and kind in ("archive", "label-studio"):
        name, data = next(iter(files.items()))
        return name, "application/zip" if kind == "archive" else "application/json", data
    slug = str(_project(work, project)["slug"])
    return f"{slug}-{kind}.zip", "application/zip", zip_bytes(files)


def log_export(work: Work, member: Member, kind: str, *, now: float) -> None:
    """Log that somebody took an export."""
    work.log(member.project, "exported", {"format": kind}, actor=member.alias, at=now)
