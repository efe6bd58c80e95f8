"""The archive that proves itself, and tables of evidence; neither holds personal data.

Read both through ``store.read_chained``: on PostgreSQL events are chained a moment after they are
written.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import itertools
import json
import re
import string
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from noracle.collect import archive as archives
from noracle.collect.archive import ProjectArchive, verdicts
from noracle.collect.errors import Conflict, Refused
from noracle.collect.formats import FORMULA, tasks_of
from noracle.collect.model import OTHER, ProjectSpec, SealedRoute, read_spec
from noracle.collect.service.access import project_of
from noracle.collect.service.answers import final_answers, recent
from noracle.collect.service.projects import Reply, item_of
from noracle.collect.store.base import SQL, Work

_LETTERS = frozenset(string.ascii_letters + "_")
_SQL = {"text": "VARCHAR", "whole": "BIGINT", "number": "DOUBLE", "list": "VARCHAR[]"}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ExportTable:
    """Rows under named columns; a column is ``text``, ``whole``, ``number`` or ``list`` (of texts)."""

    columns: Mapping[str, str]
    rows: Sequence[Sequence[Any]]


def table_bytes(table: ExportTable, kind: str) -> bytes:
    """One table as the bytes of a CSV, JSONL or Parquet file.

    >>> table_bytes(ExportTable(columns={"item": "text", "class": "whole"}, rows=[("a", 1), ("b", None)]), "csv").decode().split()
    ['item,class', 'a,1', 'b,']
    """
    if kind == "parquet":
        return _parquet(table)
    text = io.StringIO(newline="")
    if kind == "csv":
        writer = csv.writer(text)  # lines end in CR LF, so that a lone CR in a text is quoted
        writer.writerow(table.columns)
        writer.writerows(map(_cell, row) for row in table.rows)
    else:
        records = (dict(zip(table.columns, row, strict=True)) for row in table.rows)
        text.writelines(json.dumps(r, ensure_ascii=False, allow_nan=False) + "\n" for r in records)
    return text.getvalue().encode()


def _cell(value: object) -> object:
    if isinstance(value, list | tuple):
        return json.dumps(list(value), ensure_ascii=False)
    if isinstance(value, str) and FORMULA.match(value):
        return f"'{value}"  # else a spreadsheet would run it; formats.py reads it back
    return repr(value) if isinstance(value, float) else value


def _parquet(table: ExportTable) -> bytes:
    """DuckDB writes it; rows reach it as JSON lines, so that no data frame library is needed."""
    from noracle.evidence import frames as files

    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "rows.jsonl", Path(folder) / "rows.parquet"
        source.write_bytes(table_bytes(table, "jsonl"))
        types = {_quoted(name): _quoted(_SQL[kind]) for name, kind in table.columns.items()}
        columns = ", ".join(f"{name}: {kind}" for name, kind in types.items())
        form = f"format = 'newline_delimited', columns = {{{columns}}}"
        rows = f"read_json('{source}', {form}, maximum_object_size = 67108864)"
        copy = f"COPY (SELECT * FROM {rows}) TO '{target}' (FORMAT parquet, COMPRESSION zstd)"  # noqa: S608 (our own names)
        with files.connect() as connection:
            connection.execute(copy)
        return target.read_bytes()


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def table_files(tables: Mapping[str, ExportTable], kind: str) -> dict[str, bytes]:
    """File names and bytes of the tables that have rows.

    Readers of CSV guess the type of a column. Where some names of items look like numbers, dates or
    truth values and others do not, all get the prefix ``item:``, and a column ``name`` has the names.
    """
    filled = {name: table for name, table in tables.items() if table.rows}
    if kind == "csv" and not _safe_names(filled):
        filled = {name: _prefixed(table, keep=name == "items") for name, table in filled.items()}
    return {f"{name}.{kind}": table_bytes(table, kind) for name, table in filled.items()}


def _safe_names(tables: Mapping[str, ExportTable]) -> bool:
    with_items = (t for t in tables.values() if next(iter(t.columns)) == "item")
    names = {str(row[0]) for table in with_items for row in table.rows}
    words = re.compile(r"(?i)true|false|nan|inf|infinity|null|t|f|yes|no")
    whole = sum(re.fullmatch(r"0|[1-9][0-9]{0,15}", name) is not None for name in names)
    plain = sum(name[:1] in _LETTERS and not words.fullmatch(name) for name in names)
    return len(names) in (whole, plain)


def _prefixed(table: ExportTable, *, keep: bool) -> ExportTable:
    if next(iter(table.columns)) != "item":
        return table
    columns = {**table.columns, **({"name": "text"} if keep else {})}
    rows = [(f"item:{row[0]}", *row[1:], *((row[0],) if keep else ())) for row in table.rows]
    return ExportTable(columns=columns, rows=rows)


def zip_bytes(files: Mapping[str, bytes]) -> bytes:
    """The files in one zip; the same files give the same bytes."""
    whole = io.BytesIO()
    archives.write_zip(whole, files.items())
    return whole.getvalue()


Cells = Sequence[tuple[Any, ...]]
Given = Mapping[str, Mapping[str, Reply]]
ESTIMATED = ("main", "reask")
"""Kinds of questions whose answers are evidence about systems."""


def judgements(
    work: Work, project: int, *, kinds: Sequence[str] | None = None
) -> list[dict[str, Any]]:
    """Answers to questions of these ``kinds`` as rows of the judgements table (one row for each class
    that was judged), and besides ``draw, kind, revision, question``; ordinary labels are :func:`ratings`.

    The propensity is that of *one* judgement: where d of K classes are asked, or m are shown, the
    foundation takes the mean of 1{class = answer, yes}/propensity over the judgements of an item; so
    each has the chance 1/K. A class that a person picked as wrong has none.
    """
    found = project_of(work, project)
    spec = read_spec(found["spec"])
    if spec.protocol == "ordinary":
        return []
    rows = final_answers(work, found, kinds)
    times = itertools.accumulate((row["received_at"] for row in rows), max)  # a clock may step
    kept = ("item", "rater", "draw", "kind", "revision", "question")
    return [
        {key: row[key] for key in kept}
        | {"class": asked, "verdict": verdict, "propensity": one_propensity(spec, row), "at": at}
        for row, at in zip(rows, times, strict=True)
        for asked, verdict in verdicts(spec, json.loads(row["shown"]), row["value"])
        if asked is not None
    ]


def one_propensity(spec: ProjectSpec, question: Mapping[str, Any]) -> float | None:
    """The chance of one judgement (grade: of the question); None where a person chose the class."""
    if spec.protocol == "pick-wrong":
        return None
    if question["kind"] not in ESTIMATED or spec.protocol == "grade":
        return float(question["propensity"])
    if spec.protocol == "judge-all":
        return 1.0 / spec.n_classes
    return float(question["propensity"]) / spec.draws


def ratings(
    work: Work, project: int, *, kinds: Sequence[str] | None = ESTIMATED
) -> list[dict[str, Any]]:
    """What counts in the ordinary protocol, as ratings; "unsure" is an empty label."""
    found = project_of(work, project)
    if read_spec(found["spec"]).protocol != "ordinary":
        return []
    said = [(row, row["value"]) for row in final_answers(work, found, kinds)]
    labels = [(row, None if value == "unsure" else int(value)) for row, value in said]
    kept = ("item", "rater", "kind")
    return [{k: r[k] for k in kept} | {"label": n, "at": r["received_at"]} for r, n in labels]


FORMATS = ("archive", "jsonl", "csv", "parquet", "label-studio")

_ORDER = "item class verdict rater propensity at draw kind revision question"
_JUDGEMENTS = dict.fromkeys(_ORDER.split(), "text") | {"propensity": "number", "at": "number"}
_JUDGEMENTS |= dict.fromkeys(("class", "draw", "revision", "question"), "whole")
_GRADES = {("system" if name == "class" else name): kind for name, kind in _JUDGEMENTS.items()}
_GRADES["system"] = "text"


def _predictions(work: Work, project: int, *, main: bool) -> dict[str, dict[str, int | None]]:
    """Answers by system and item; ``main`` leaves out gold and panel items."""
    found: dict[str, dict[str, int | None]] = {}
    for row in work.all(SQL.predictions, project=project, every=int(not main)):
        found.setdefault(row["system"], {})[row["item"]] = row["answer"]
    return found


def archive_of(work: Work, project: int, *, texts: bool = False) -> ProjectArchive:
    """All that was drawn, asked and answered; of an open project :func:`export_files` tells less."""
    row = project_of(work, project)
    rule = "The project must be sealed before it can be exported; it is a draft."
    Conflict.unless(row["state"] != "draft", rule)
    items = work.all(SQL.items, project=project)
    chances = {i["name"]: json.loads(i["chances"]) for i in items if i["chances"] is not None}
    asked = work.all(SQL.routes, project=project)
    routes = [SealedRoute(**{**q, "shown": tuple(json.loads(q["shown"]))}) for q in asked]
    closed = work.one(SQL.closed_head, project=project) or {"hash": None}
    return archives.make_archive(
        {**row, "spec": read_spec(row["spec"]), "closed_head": closed["hash"]},
        items=map(item_of, items),
        routes=routes,
        answers=work.all(SQL.all_answers, project=project, recent=recent(work, row)),
        events=work.all(SQL.events, project=project),
        systems=_predictions(work, project, main=False),
        uploaded={s["name"]: s for s in work.all(SQL.systems, project=project)},
        chances=chances,
        texts=texts,
    )


def evidence_tables(work: Work, project: int, *, texts: bool = False) -> dict[str, ExportTable]:
    """Tables that ``noracle estimate`` and the other verbs read: answers, judgements, grades, items,
    ratings, quality (known questions with the expected verdict) and classes (number and name).

    ``after_answers`` is 1 for a system that came after the first answer. Before closing there are no
    judgements, grades and ratings, and answers are those about all items. A grade stands once, with
    the first of the systems that share the answer and with the chance of the question; where all
    different answers were asked about, once for each of them, but for those that came after sealing.
    """
    row = project_of(work, project)
    spec, closed = read_spec(row["spec"]), row["state"] == "closed"
    truths = {g["name"]: int(g["truth"]) for g in work.all(SQL.gold, project=project)}
    said = [(tuple(j[c] for c in _JUDGEMENTS), j) for j in judgements(work, project) if closed]
    estimated = [cells for cells, j in said if j["kind"] in ESTIMATED]
    quality = [
        (*cells, None if (t := truths.get(j["item"])) is None else spec.expected(j["class"], t))
        for cells, j in said
        if j["kind"] not in ESTIMATED
    ]
    told = ratings(work, project) if closed else []
    rated = [(r["item"], r["rater"], r["label"], r["at"]) for r in told]
    late = {s["name"]: s["late"] for s in work.all(SQL.systems, project=project)}
    marked = any(late.values())
    given_by = _predictions(work, project, main=closed)
    grade, graded = spec.protocol == "grade", list[tuple[Any, ...]]()
    if grade:
        given_by = {name: by for name, by in given_by.items() if OTHER not in by.values()}
        graded = _grades(work, project, estimated, given_by)
        estimated = []
    answers = [
        (item, system, answer, *((late[system],) if marked else ()))
        for system, said_by in given_by.items()
        for item, answer in said_by.items()
    ]
    text, whole = "text", "whole"
    columns = {"item": text, "rater": text, "label": whole, "at": "number"}
    given = {"item": text, "system": text, "answer": whole}
    given |= {"after_answers": whole} if marked else {}
    classes = [(k, c.name) for k, c in enumerate(spec.classes)]
    return {
        "answers": ExportTable(columns=given, rows=answers),
        "judgements": ExportTable(columns=_JUDGEMENTS, rows=estimated),
        "grades": ExportTable(columns=_GRADES, rows=graded),
        "items": _items(work, project, None if grade else spec.n_classes, texts=texts),
        "ratings": ExportTable(columns=columns, rows=rated),
        "quality": ExportTable(columns={**_JUDGEMENTS, "expected": text}, rows=quality),
        "classes": ExportTable(columns={"class": whole, "class_name": text}, rows=classes),
    }


def _grades(work: Work, project: int, judged: Cells, given: Given) -> list[tuple[Any, ...]]:
    """Judgements of answers as grades of the systems that gave them."""
    routes = [q for q in work.all(SQL.routes, project=project) if q["kind"] == "main"]
    drawn, partly = Counter(q["item"] for q in routes), any(q["propensity"] < 1 for q in routes)
    rows: list[tuple[Any, ...]] = []
    for item, answer, verdict, rater, propensity, *rest in judged:
        shared = [name for name, said in given.items() if said.get(item) == answer]
        chance = propensity / drawn[item] if partly else None
        rows += [(item, s, verdict, rater, chance, *rest) for s in shared[: 1 if partly else None]]
    return rows


def _items(work: Work, project: int, n_classes: int | None, *, texts: bool) -> ExportTable:
    columns = {"item": "text", **({"n_classes": "whole"} if n_classes else {}), "sha256": "text"}
    rows: list[tuple[Any, ...]] = []
    for row in work.all(SQL.items, project=project):
        content = json.loads(row["content"]) if texts else {}
        body = content.get("markdown") or content.get("text")
        more = (body, content.get("options"), content.get("image")) if texts else ()
        rows.append((row["name"], *([n_classes] if n_classes else []), row["sha256"], *more))
    if texts:
        columns |= {"text": "text", "options": "list", "image": "text"}
    return ExportTable(columns=columns, rows=rows)


def label_studio(work: Work, project: int, *, texts: bool = False) -> bytes:
    """Items and, once the project is closed, the answers that count as tasks of Label Studio."""
    found, items = project_of(work, project), []
    for row in work.all(SQL.items, project=project):
        content = json.loads(row["content"]) if texts else {}
        for hidden in ("attention", "answers"):
            content.pop(hidden, None)
        items.append({"name": row["name"], "content": content})
    answers = []
    for row in final_answers(work, found) if found["state"] == "closed" else ():
        answer = {key: row[key] for key in ("answer", "item", "value", "rater", "kind")}
        seconds = round(float(row["received_at"]) - float(row["shown_at"]), 3)
        answers.append({**answer, "shown": json.loads(row["shown"]), "seconds": seconds})
    tasks = tasks_of(read_spec(found["spec"]), items, answers)
    return json.dumps(tasks, ensure_ascii=False, allow_nan=False).encode()


def export_files(work: Work, project: int, kind: str, *, texts: bool = False) -> dict[str, bytes]:
    """File names and bytes of an export in one of :data:`FORMATS`; before closing no file tells of any
    question, so that nobody learns which of them are gold or panel, or which come next.
    """
    rule = f"format must be one of {', '.join(FORMATS)}; got {kind[:40]!r}."
    Refused.unless(kind in FORMATS, rule)
    row = project_of(work, project)
    slug, closed = str(row["slug"]), row["state"] == "closed"
    if kind == "archive":
        # Texts say which items test attention.
        whole = archive_of(work, project, texts=texts and closed)
        return {f"{slug}.zip": (whole if closed else archives.without_questions(whole)).to_bytes()}
    if kind == "label-studio":
        return {f"{slug}.json": label_studio(work, project, texts=texts)}
    return table_files(evidence_tables(work, project, texts=texts), kind)


def export_one(
    work: Work, project: int, kind: str, *, texts: bool = False
) -> tuple[str, str, bytes]:
    """File name, media type and bytes of an export as one file: several tables come in a zip."""
    files = export_files(work, project, kind, texts=texts)
    if kind in ("archive", "label-studio"):
        ((name, data),) = files.items()
        return name, "application/zip" if kind == "archive" else "application/json", data
    slug = str(project_of(work, project)["slug"])
    return f"{slug}-{kind}.zip", "application/zip", zip_bytes(files)
