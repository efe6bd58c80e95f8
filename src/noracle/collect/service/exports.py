"""The archive that proves itself, and tables of evidence; neither holds personal data.

Read both through ``store.read_chained``: on PostgreSQL events are chained a moment after they are
written.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import re
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from noracle.collect.archive import Archive, make_archive, verdicts
from noracle.collect.errors import Conflict, NotFound, Refused
from noracle.collect.formats import tasks_of
from noracle.collect.model import Item, ProjectSpec, Route
from noracle.collect.service.access import Member, read_spec
from noracle.collect.store.base import Row, Work
from noracle.collect.store.sqlite import fits

TableFormat = Literal["csv", "jsonl", "parquet"]
_SQL = {"text": "VARCHAR", "whole": "BIGINT", "number": "DOUBLE", "list": "VARCHAR[]"}
_EPOCH = (1980, 1, 1, 0, 0, 0)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows under named columns; a column is ``text``, ``whole``, ``number`` or ``list`` (of texts)."""

    columns: Mapping[str, str]
    rows: Sequence[Sequence[Any]]


def table_bytes(table: Table, kind: TableFormat) -> bytes:
    """One table as the bytes of a file.

    Examples
    --------
    >>> table_bytes(Table(columns={"item": "text", "class": "whole"}, rows=[("a", 1), ("b", None)]), "csv").decode().split()
    ['item,class', 'a,1', 'b,']
    """
    if kind == "parquet":
        return _parquet(table)
    text = io.StringIO(newline="")
    if kind == "csv":
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(table.columns)
        writer.writerows([_cell(value) for value in row] for row in table.rows)
    else:
        names = list(table.columns)
        for row in table.rows:
            text.write(
                json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=False, allow_nan=False)
                + "\n"
            )
    return text.getvalue().encode()


def _cell(value: object) -> object:
    if isinstance(value, list | tuple):
        return json.dumps(list(value), ensure_ascii=False)
    return repr(value) if isinstance(value, float) else value


def _parquet(table: Table) -> bytes:
    """DuckDB writes it; rows reach it as JSON lines, so that no data frame library is needed."""
    from noracle.evidence import frames as files

    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "rows.jsonl", Path(folder) / "rows.parquet"
        source.write_bytes(table_bytes(table, "jsonl"))
        columns = ", ".join(
            f"{_quoted(name)}: {_quoted(_SQL[kind])}" for name, kind in table.columns.items()
        )
        reader = f"read_json('{source}', format = 'newline_delimited', columns = {{{columns}}}, maximum_object_size = 67108864)"
        with files.connect() as connection:
            connection.execute(
                f"COPY (SELECT * FROM {reader}) TO '{target}' (FORMAT parquet, COMPRESSION zstd)"  # noqa: S608 (our own names)
            )
        return target.read_bytes()


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def table_files(tables: Mapping[str, Table], kind: TableFormat) -> dict[str, bytes]:
    """File names and bytes of several tables; tables without rows are left out, because an empty
    table says nothing.

    Readers of CSV guess the type of a column from what they see. Where some names of items look
    like numbers, dates or truth values and others do not, the guess may differ between files; then
    all names get the prefix ``item:`` in the CSV files, and the table of items has the name itself
    in the column ``name``.
    """
    filled = {name: table for name, table in tables.items() if table.rows}
    if kind == "csv" and not _safe_names(filled):
        filled = {name: _prefixed(table, keep=name == "items") for name, table in filled.items()}
    return {f"{name}.{kind}": table_bytes(table, kind) for name, table in filled.items()}


def _safe_names(tables: Mapping[str, Table]) -> bool:
    names = {
        str(row[0])
        for table in tables.values()
        if next(iter(table.columns)) == "item"
        for row in table.rows
    }
    whole = sum(re.fullmatch(r"0|[1-9][0-9]{0,15}", name) is not None for name in names)
    words = re.compile(r"(?i)true|false|nan|inf|infinity|null|t|f|yes|no")
    plain = sum(
        re.match(r"[A-Za-z_]", name) is not None and not words.fullmatch(name) for name in names
    )
    return whole == len(names) or plain == len(names)


def _prefixed(table: Table, *, keep: bool) -> Table:
    if next(iter(table.columns)) != "item":
        return table
    columns = {**table.columns, **({"name": "text"} if keep else {})}
    rows = [(f"item:{row[0]}", *row[1:], *((row[0],) if keep else ())) for row in table.rows]
    return Table(columns=columns, rows=rows)


def zip_bytes(files: Mapping[str, bytes]) -> bytes:
    """The files in one zip; the same files give the same bytes."""
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as out:
        for name, data in files.items():
            info = zipfile.ZipInfo(name, date_time=_EPOCH)
            info.compress_type, info.create_system, info.external_attr = (
                zipfile.ZIP_DEFLATED,
                3,
                0o600 << 16,
            )
            out.writestr(info, data)
    return whole.getvalue()


# Which values are answers, and answers as rows of evidence.


ESTIMATED = ("main", "reask")
"""Kinds of questions whose answers are evidence about systems."""

_FIRST = (
    "SELECT a.id AS answer, a.value, a.shown_at, a.received_at, q.id AS question, q.draw, q.kind, q.place, q.shown, q.propensity, "
    "i.name AS item, m.alias AS rater FROM answer a JOIN question q ON q.id = a.question_id JOIN item i ON i.id = q.item_id "
    "JOIN membership m ON m.project_id = a.project_id AND m.person_id = a.person_id WHERE a.project_id = :project AND a.revision = 0 "
    "ORDER BY a.id"
)


def check_value(spec: ProjectSpec, shown: Sequence[int], value: str) -> str:
    """The value as it is stored, if it answers a question that shows these classes.

    Raises
    ------
    Refused
        If it does not.

    Examples
    --------
    >>> spec = ProjectSpec.from_dict({"protocol": "judge-all", "classes": ["a", "b", "c"], "shown": 2})
    >>> check_value(spec, (2, 0), "no|yes"), check_value(spec, (2, 0), "unsure")
    ('no|yes', 'unsure|unsure')
    """
    text = value.strip() if isinstance(value, str) else ""
    if spec.protocol == "judge-all" and text == "unsure":
        text = "|".join(["unsure"] * len(shown))
    if not fits(spec, shown, text):
        rule = {
            "partitioned": "yes, no or unsure",
            "judge-all": f"{len(shown)} of yes, no or unsure with | between them",
            "pick-wrong": "one of the classes that are shown, unsure"
            + (", or none" if spec.trap else ""),
            "ordinary": "one of the classes, or unsure",
        }[spec.protocol]
        raise Refused(f"value must be {rule}; got {str(value)[:40]!r}.")
    return text


def first_answers(work: Work, project: int) -> list[Row]:
    """First answers with their question, item name and the alias of who gave them, in the order in
    which they came.
    """
    return work.all(_FIRST, project=project)


def judgements(
    work: Work, project: int, *, kinds: Sequence[str] | None = None
) -> list[dict[str, Any]]:
    """First answers as rows of the foundation's judgements table.

    Each row has ``item, class, verdict, rater, propensity, at`` and besides ``draw, kind, revision,
    question``. One answer gives one row (partitioned) or one for each class shown (judge-all); a
    class that was picked as wrong is a ``no``, without a propensity, because a person chose it
    (pick-wrong); an answer that names no class gives none. Ordinary labels are :func:`ratings`.

    Parameters
    ----------
    kinds
        Only answers to questions of these kinds, for instance :data:`ESTIMATED`. Default all.

    Notes
    -----
    The propensity is that of *one* judgement. Where d of K classes are asked, or m are shown, a
    class is among them with chance d/K or m/K, and the foundation takes the mean of 1{class =
    answer, yes}/propensity over the judgements of an item; so each has the chance 1/K.
    """
    spec = _spec(work, project)
    if spec.protocol == "ordinary":
        return []
    rows: list[dict[str, Any]] = []
    for row in first_answers(work, project):
        if kinds is not None and row["kind"] not in kinds:
            continue
        shown = json.loads(row["shown"])
        for asked, verdict in verdicts(spec, shown, row["value"]):
            if asked is not None:
                rows.append(
                    {
                        "item": row["item"],
                        "class": asked,
                        "verdict": verdict,
                        "rater": row["rater"],
                        "propensity": one_propensity(spec, row),
                        "at": row["received_at"],
                        "draw": row["draw"],
                        "kind": row["kind"],
                        "revision": 0,
                        "question": row["question"],
                    }
                )
    return rows


def one_propensity(spec: ProjectSpec, question: Mapping[str, Any]) -> float | None:
    """The chance of one judgement; None where a person chose the class."""
    if spec.protocol == "pick-wrong":
        return None
    if question["kind"] not in ESTIMATED:
        return float(question["propensity"])
    if spec.protocol == "judge-all":
        return 1.0 / spec.n_classes
    return float(question["propensity"]) / spec.draws


def ratings(
    work: Work, project: int, *, kinds: Sequence[str] | None = ESTIMATED
) -> list[dict[str, Any]]:
    """First answers of the ordinary protocol as rows of a ratings table: ``item, rater, label, at,
    kind``; "unsure" is an empty label.
    """
    spec = _spec(work, project)
    if spec.protocol != "ordinary":
        return []
    return [
        {
            "item": row["item"],
            "rater": row["rater"],
            "label": None if row["value"] == "unsure" else int(row["value"]),
            "at": row["received_at"],
            "kind": row["kind"],
        }
        for row in first_answers(work, project)
        if kinds is None or row["kind"] in kinds
    ]


def _spec(work: Work, project: int) -> ProjectSpec:
    row = work.one("SELECT spec FROM project WHERE id = :project", project=project)
    if row is None:
        raise NotFound("There is no such project.")
    return read_spec(row["spec"])


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
