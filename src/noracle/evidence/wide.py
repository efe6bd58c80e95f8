"""The wide forms that people have: one row an item, and the CSV schema of published complementary-label benchmarks."""

from __future__ import annotations

import csv
import string
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import narwhals as nw

from noracle.errors import EvidenceError, fault
from noracle.evidence.frames import Frame, engine_of, fetch, keeps_order, number_rows, open_frames
from noracle.evidence.normal import shown

_ROW = "_noracle_row"


def lengthen(
    table: object, *, systems: Sequence[str], item: str | None, label: str | None, ruled_out: str | None
) -> tuple[Any, Any, object]:
    """Long answers and judgements (or None) out of a wide table; also the connection that the frames live on."""
    frames, connection = open_frames({"table": table})
    wide = frames["table"]
    columns = wide.columns
    wanted = [*systems, *(c for c in (item, label, ruled_out) if c is not None)]
    missing = [c for c in wanted if c not in columns]
    if isinstance(systems, str) or not systems:
        raise EvidenceError(fault("systems", "must be a list of columns", repr(systems)))
    if missing:
        raise EvidenceError(fault("table", f"must have columns {', '.join(wanted)}", f"no {', '.join(missing)} in {shown(columns)}"))
    if item is None:
        if not keeps_order(wide):
            raise EvidenceError(fault("item", f"must name a column of {engine_of(wide)} frames", None, remedy="Rows have no order there."))
        wide, item = number_rows(wide, _ROW), _ROW
    answers = _stacked(wide, [(item, nw.lit(s).alias("system"), s) for s in systems], "answer")
    said = [(item, nw.lit(v).alias("verdict"), c) for c, v in ((label, "yes"), (ruled_out, "no")) if c is not None]
    judgements = _stacked(wide, said, "class").filter(~nw.col("class").is_null()) if said else None
    return answers.to_native(), None if judgements is None else judgements.to_native(), connection


def _stacked(wide: Frame, parts: Sequence[tuple[str, nw.Expr, str]], value: str) -> Frame:
    """One part under the other; whole numbers stay whole, and columns of different types meet as text."""
    schema = wide.collect_schema()
    types = [schema[column] for _, _, column in parts]
    if all(t.is_integer() or t == nw.Unknown for t in types):
        common: Any = nw.Int64
    elif all(t.is_numeric() or t == nw.Unknown for t in types):
        common = nw.Float64
    elif any(t.is_numeric() for t in types):
        found = ", ".join(f"{column} {t}" for (_, _, column), t in zip(parts, types, strict=True))
        raise EvidenceError(fault("columns", "must have one type", found, remedy="Write all as text or all as whole numbers."))
    else:
        common = nw.String
    frames = []
    for item, constant, column in parts:
        col = nw.col(column)
        if common == nw.Float64 and schema[column].is_float():
            col = nw.when(~col.is_nan()).then(col)
        frames.append(wide.select(nw.col(item).alias("item"), constant, col.cast(common).alias(value)))
    return nw.concat(frames, how="vertical")


def read_paper_csv(path: str | Path) -> tuple[dict[str, list[Any]], dict[str, list[Any]]]:
    """Judgements and items of a file ``Question, A, B, …, Answer, Comp_label``."""
    try:
        with Path(path).open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file)
            header, rows = list(reader.fieldnames or []), list(reader)
    except OSError as error:
        raise EvidenceError(fault("path", "must be a readable file", f"{str(path)!r} ({error.strerror})")) from None
    except UnicodeDecodeError:
        raise EvidenceError(fault(f"file {str(path)!r}", "must be UTF-8 text", "other bytes", remedy="Save it as UTF-8.")) from None
    letters = [c for c in string.ascii_uppercase if c in header]
    missing = [c for c in ("Question", "A", "B", "Answer", "Comp_label") if c not in header]
    if missing:
        raise EvidenceError(
            fault(f"file {str(path)!r}", "must have columns Question, A, B, …, Answer, Comp_label", f"no {', '.join(missing)}")
        )
    if not rows:
        raise EvidenceError(fault(f"file {str(path)!r}", "must have rows", "a header only"))
    judgements: dict[str, list[Any]] = {"item": [], "class": [], "verdict": []}
    items: dict[str, list[Any]] = {"item": [], "n_classes": [], "text": [], "options": []}
    wrong: dict[str, list[int]] = {"Answer": [], "Comp_label": []}
    for number, row in enumerate(rows):
        options = [(letter, row[letter]) for letter in letters if (row[letter] or "").strip()]
        places = {letter: place for place, (letter, _) in enumerate(options)}
        for column, verdict in (("Answer", "yes"), ("Comp_label", "no")):
            said = (row[column] or "").strip().upper()
            if said and said not in places:
                wrong[column].append(number)
            elif said:
                judgements["item"].append(number)
                judgements["class"].append(places[said])
                judgements["verdict"].append(verdict)
        about: dict[str, Any] = {"item": number, "n_classes": len(options), "text": row["Question"], "options": [o for _, o in options]}
        for key, values in items.items():
            values.append(about[key])
    faults = [
        fault(column, "must be the letter of a filled option", "other text", where=where, total=len(where), remedy="Correct it.")
        for column, where in wrong.items()
        if where
    ]
    if faults:
        raise EvidenceError(*faults)
    return judgements, items


def answers_as_classes(answers: object) -> Mapping[str, list[Any]]:
    """A long table of answers with option letters turned into classes 0, 1, …"""
    frames, _ = open_frames({"answers": answers})
    frame = frames["answers"]
    missing = [c for c in ("item", "system", "answer") if c not in frame.columns]
    if missing:
        raise EvidenceError(
            fault("answers", "must have columns item, system, answer", f"no {', '.join(missing)} in {shown(frame.columns)}")
        )
    rows = fetch(frame.select("item", "system", "answer"))
    faults = [item for item, _, answer in rows if isinstance(answer, str) and answer.strip().upper() not in (*string.ascii_uppercase, "")]
    if faults:
        remedy = "Use null for no answer."
        raise EvidenceError(
            fault("answers.answer", "must be option letters or classes", "other text", where=faults, total=len(faults), remedy=remedy)
        )
    return {
        "item": [item for item, _, _ in rows],
        "system": [str(system) for _, system, _ in rows],
        "answer": [_place(answer) for _, _, answer in rows],
    }


def _place(answer: Any) -> Any:
    if not isinstance(answer, str):
        return answer
    letter = answer.strip().upper()
    return string.ascii_uppercase.index(letter) if letter else None
