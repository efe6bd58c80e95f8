"""Files in: items, known labels and systems' answers from JSONL, JSON, CSV, TSV, Parquet, Label
Studio tasks, folders and zips.

    items     item; text, markdown and/or image (a path inside the folder or zip); options (a list); truth (gold)
    gold      item, truth (or label)
    answers   item, answer; system where one file holds several

A class is written as its number or its name; where names look like numbers, a text is taken for a
name. Nothing is fetched from the network. Messages name files, lines and items; they never quote a
text.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from noracle.collect.content import Picture
from noracle.collect.errors import Refused
from noracle.collect.model import Item, ProjectSpec
from noracle.collect.sources import Shelf, opened, rows_of
from noracle.errors import fault

Record = dict[str, Any]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """Items and the pictures that they show; add the pictures first."""

    items: list[Item]
    pictures: dict[str, Picture] = dataclasses.field(repr=False)


# -------------------------------------------------------------------------------------------------------------------
# items


def read_items(
    source: str | Path | bytes,
    *,
    spec: ProjectSpec,
    name: str = "",
    images: str | Path | None = None,
    gold: Mapping[str, int] | None = None,
) -> Upload:
    """Items out of a file, a folder or a zip; pictures are decoded here, so never call it inside a
    write.

    Parameters
    ----------
    source
        A path, or the bytes of an upload whose file name is ``name``. A folder or a zip holds one
        table (``items.…``, or the only one) and the images that it names.
    images
        A folder with the images, for a table that stands alone.
    gold
        The true class of some items (:func:`read_gold`).

    Raises
    ------
    Refused
        If the file cannot be read or a row breaks a rule.
    """
    with opened(source, name, images) as (table, title, pictures):
        rows = rows_of(table, title)
        first = next(rows, None)
        if first is None:
            raise Refused(f"{title} must hold items; it is empty.")
        shelf = Shelf(pictures)
        known = dict(gold or {})
        if isinstance(first.get("data"), dict):
            from noracle.collect.label_studio import item_row

            rows, first = (item_row(row, spec) for row in rows), item_row(first, spec)
        items = [
            _item(row, i + 1, title, spec, shelf, known)
            for i, row in enumerate(itertools.chain([first], rows))
        ]
    if known:
        raise Refused(
            fault(
                "gold",
                "must name items of the table",
                "others",
                where=list(known)[:5],
                total=len(known),
            )
        )
    return Upload(items=items, pictures=shelf.pictures)


def _item(
    row: Mapping[str, Any],
    number: int,
    title: str,
    spec: ProjectSpec,
    shelf: Shelf,
    known: dict[str, int],
) -> Item:
    name = _name(row, number, title)
    content: Record = {key: str(row[key]) for key in ("text", "markdown") if _filled(row.get(key))}
    if _filled(row.get("image")):
        content["image"] = shelf.take(str(row["image"]), name)
    if _filled(row.get("options")):
        content["options"] = _options(row["options"], name)
    if row.get("attention") in (True, 1, "true", "True", "1", "yes"):
        content["attention"] = True
    truth = known.pop(name, None)
    if truth is None and _filled(row.get("truth")):
        truth = class_number(row["truth"], spec, name)
    return Item(name=name, content=content, truth=truth)


def _name(row: Mapping[str, Any], number: int, title: str) -> str:
    value = row.get("item")
    if not _filled(value) or isinstance(value, bool | dict | list):
        raise Refused(
            f"{title} must have a column item with a name in every row; row {number} has none."
        )
    return str(int(value) if isinstance(value, float) and value.is_integer() else value).strip()


def _filled(value: object) -> bool:
    return value is not None and value != "" and value == value  # NaN is a hole in tables of floats


def _options(value: object, name: str) -> list[str]:
    if isinstance(value, str):
        try:
            value = json.loads(value) if value.lstrip().startswith("[") else value.split("|")
        except ValueError:
            value = None
    if not isinstance(value, list | tuple):
        raise Refused(
            fault(
                "options",
                "must be a list, JSON or texts with | between them",
                "something else",
                where=[name],
            )
        )
    return [str(option).strip() if isinstance(option, str) else str(option) for option in value]


def class_number(value: object, spec: ProjectSpec, name: str) -> int:
    """A class out of its name or its number.

    Examples
    --------
    >>> spec = ProjectSpec.from_dict({"protocol": "partitioned", "classes": ["cat", "dog"]})
    >>> class_number("dog", spec, "x"), class_number(0, spec, "x"), class_number("1", spec, "x")
    (1, 0, 1)
    """
    names = [c.name for c in spec.classes]
    if isinstance(value, str) and value.strip() in names:
        return names.index(value.strip())
    text = (
        str(int(value)) if isinstance(value, float) and value.is_integer() else str(value).strip()
    )
    if (
        not isinstance(value, bool)
        and text.isdecimal()
        and text.isascii()
        and len(text) < 10
        and int(text) < len(names)
    ):
        return int(text)
    raise Refused(
        fault(
            "class",
            f"must be the name of a class or a number in [0, {len(names)})",
            repr(value)[:60],
            where=[name],
        )
    )


def read_gold(source: str | Path | bytes, *, spec: ProjectSpec, name: str = "") -> dict[str, int]:
    """The true class of some items: columns ``item`` and ``truth`` (or ``label``)."""
    with opened(source, name, None) as (table, title, _):
        found: dict[str, int] = {}
        for number, row in enumerate(rows_of(table, title), 1):
            item = _name(row, number, title)
            value = row.get("truth") if _filled(row.get("truth")) else row.get("label")
            if item in found:
                raise Refused(fault("gold", "must name an item once", repr(item)))
            found[item] = class_number(value, spec, item)
    return found


def read_answers(
    source: str | Path | bytes, *, spec: ProjectSpec, name: str = "", system: str = ""
) -> dict[str, dict[str, int | None]]:
    """What systems answered: columns ``item``, ``answer`` and, unless ``system`` says, ``system``;
    an empty answer is none.
    """
    with opened(source, name, None) as (table, title, _):
        found: dict[str, dict[str, int | None]] = {}
        for number, row in enumerate(rows_of(table, title), 1):
            item = _name(row, number, title)
            who = system or str(row.get("system") or "").strip()
            if not who or "answer" not in row:
                raise Refused(
                    f"{title} must have the columns item, answer and system; row {number} lacks one."
                )
            answers = found.setdefault(who, {})
            if item in answers:
                raise Refused(
                    fault("answers", "must name an item once for each system", repr(item))
                )
            answers[item] = (
                class_number(row["answer"], spec, item) if _filled(row["answer"]) else None
            )
    return found


def read_propensities(
    source: str | Path | bytes, *, spec: ProjectSpec, name: str = ""
) -> dict[str, list[float]]:
    """The chance of each class, for targeted routing: columns ``item``, ``class``, ``propensity``,
    one row for each class of each item.
    """
    chances: dict[str, list[float]] = {}
    with opened(source, name, None) as (table, title, _):
        for number, row in enumerate(rows_of(table, title), 1):
            item = _name(row, number, title)
            try:
                chances.setdefault(item, [0.0] * spec.n_classes)[
                    class_number(row.get("class"), spec, item)
                ] = float(row["propensity"])
            except (KeyError, TypeError, ValueError) as error:
                if isinstance(error, Refused):
                    raise
                raise Refused(
                    fault("propensity", "must be a number", "something else", where=[item])
                ) from None
    return chances
