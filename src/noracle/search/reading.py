"""Tasks out of files: the items table of the foundation, and public benchmarks through presets.

A preset is data: which columns name the item, its text, its options and its stratum, each with
alternatives, and which hold the key. Only the columns that are wanted leave the file; a column of
the key is refused even where somebody asks for it.
"""

from __future__ import annotations

import csv
import dataclasses
import json
import re
import warnings
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import narwhals as nw

from noracle.errors import ArgumentError, EvidenceError, EvidenceWarning, fault
from noracle.evidence.frames import fetch, open_frames
from noracle.search.task import LETTERS, Task, TaskItem, draws

SCHEMA = "preset/1"
_ROLES = ("item", "text", "options", "stratum")
Row = Mapping[str, Any]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Where options are: one column with a list (``list``), several columns, or the same
    ``classes`` for every item.

    ``scramble`` puts them in a fixed random order, drawn from the text alone, because their order
    in the file gives the key away.
    """

    list: str = ""
    columns: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    scramble: bool = False


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """The columns of a kind of file; alternatives in the order in which they are tried. A dot leads
    into a nested column.
    """

    name: str
    about: str = ""
    instruction: str = "Choose the one right option."
    item: tuple[str, ...] = ("item",)
    text: tuple[tuple[str, ...], ...] = (("text",),)
    options: tuple[Options, ...] = (Options(list="options"),)
    stratum: tuple[str, ...] = ("stratum",)
    key: tuple[str, ...] = ()
    padding: tuple[str, ...] = ()
    headerless: tuple[str, ...] = ()


_TABLE = Preset(name="items", key=("truth", "label", "answer", "key"))


def preset_names() -> list[str]:
    """The presets that are shipped.

    Examples
    --------
    >>> preset_names()
    ['arc', 'edinet-bench', 'gpqa', 'math-mc', 'medical-abstracts', 'medqa-usmle', 'mmlu', 'mmlu-pro']
    """
    folder = resources.files("noracle.search") / "presets"
    return sorted(
        f.name.removesuffix(".json") for f in folder.iterdir() if f.name.endswith(".json")
    )


def load_preset(name: str | Path) -> Preset:
    """A shipped preset by its name, or one out of a JSON file.

    Examples
    --------
    >>> load_preset("gpqa").options[0].scramble
    True
    """
    known = preset_names()
    if str(name) in known:
        text = (resources.files("noracle.search") / "presets" / f"{name}.json").read_text(
            encoding="utf-8"
        )
    elif str(name).endswith(".json"):
        try:
            text = Path(name).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            raise ArgumentError(
                f"preset must be a readable file; got {str(name)!r}. Check the path."
            ) from None
    else:
        raise ArgumentError(
            f"preset must be one of {', '.join(known)} or a JSON file; got {str(name)!r}."
        )
    try:
        data = json.loads(text)
        if data.pop("schema") != SCHEMA:
            raise ValueError
        options = tuple(Options(**_tuples(o)) for o in data.pop("options"))
        return Preset(
            **{
                **_tuples(data),
                "text": tuple(tuple(columns) for columns in data["text"]),
                "options": options,
            }
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ArgumentError(
            f"preset must have the shape of schema {SCHEMA}; got something else in {str(name)!r}."
        ) from None


def _tuples(data: Mapping[str, Any]) -> dict[str, Any]:
    return {k: tuple(v) if isinstance(v, list) else v for k, v in data.items()}


def read_items(
    path: str | Path,
    *,
    preset: str | Path | None,
    columns: Mapping[str, str | Sequence[str]] | None,
    limit: int | None,
    name: str | None,
) -> Task:
    """What :func:`noracle.search.task.read_task` does."""
    if limit is not None and limit < 1:
        raise ArgumentError(f"limit must be at least 1; got {limit}.")
    shape = _with_columns(_TABLE if preset is None else load_preset(preset), columns)
    rows, found = _read(path, shape)
    items = _items(rows, found, shape, limit)
    title = name or (shape.name if preset is not None else Path(path).name.split(".")[0])
    return Task(name=title, items=tuple(items), instruction=shape.instruction)


def items_table(task: Task) -> dict[str, list[Any]]:
    """The items table of the foundation, so that other verbs know how many classes each item has;
    options are JSON.

    Examples
    --------
    >>> items_table(Task(name="t", items=(TaskItem(id=1, text="Which is even?", options=("one", "two")),)))["n_classes"]
    [2]
    """
    columns: dict[str, list[Any]] = {
        "item": [item.id for item in task.items],
        "n_classes": [len(item.options) for item in task.items],
        "text": [item.text for item in task.items],
        "options": [json.dumps(item.options, ensure_ascii=False) for item in task.items],
    }
    if any(item.stratum is not None for item in task.items):
        columns["stratum"] = [item.stratum for item in task.items]
    return columns


def _with_columns(preset: Preset, columns: Mapping[str, str | Sequence[str]] | None) -> Preset:
    changed: dict[str, Any] = {}
    for role, value in (columns or {}).items():
        if role not in _ROLES:
            raise ArgumentError(f"columns must name {', '.join(_ROLES)}; got {role!r}.")
        given = (value,) if isinstance(value, str) else tuple(value)
        if role == "text":
            changed[role] = (given,)
        elif role == "options":
            changed[role] = (Options(list=given[0]) if len(given) == 1 else Options(columns=given),)
        else:
            changed[role] = given
    return dataclasses.replace(preset, **changed)


# ------------------------------------------------------------------------------------------------------------------
# columns


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """The columns of this file that are read, as the file spells them; the rest of a path leads
    into a nested column.
    """

    item: str | None
    text: tuple[str, ...]
    options: Options
    stratum: str | None

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(
            p
            for p in (self.item, *self.text, self.options.list, *self.options.columns, self.stratum)
            if p
        )


def _folded(column: str) -> str:
    return re.sub(r"[\s_-]+", "", column).casefold()


def _find(header: Sequence[str], preset: Preset, nested: Sequence[str] = ()) -> _Found | list[str]:
    """Which columns are used; or what is missing."""
    spelt = {_folded(c): c for c in reversed(header)}

    def known(path: str) -> str | None:
        root, dot, rest = path.partition(".")
        if path in header:
            return path
        column = spelt.get(_folded(root))
        return None if column is None or (dot and column not in nested) else f"{column}{dot}{rest}"

    text = next((t for t in preset.text if all(known(c) for c in t)), None)
    options = next((o for o in (_present(o, known) for o in preset.options) if o is not None), None)
    missing = [] if text else [" or ".join(" + ".join(t) for t in preset.text)]
    missing += (
        []
        if options
        else [
            "options (" + " or ".join(o.list or ", ".join(o.columns) for o in preset.options) + ")"
        ]
    )
    if text is None or options is None:
        return missing
    found = _Found(
        item=next((k for k in map(known, preset.item) if k), None),
        text=tuple(known(c) or c for c in text),
        options=options,
        stratum=next((k for k in map(known, preset.stratum) if k), None),
    )
    hidden = {_folded(k) for k in preset.key} & {_folded(p.split(".")[0]) for p in found.paths}
    if hidden:
        raise ArgumentError(
            f"columns must not name the key; got {', '.join(sorted(hidden))}. A task never holds an answer key."
        )
    return found


def _present(options: Options, known: Any) -> Options | None:
    if options.classes:
        return options
    if options.list:
        column = known(options.list)
        return None if column is None else dataclasses.replace(options, list=column)
    columns = tuple(k for k in map(known, options.columns) if k)
    return dataclasses.replace(options, columns=columns) if len(columns) >= 2 else None


def _read(path: str | Path, preset: Preset) -> tuple[list[Row], _Found]:
    frames, _connection = open_frames({"items": str(path)})
    frame = frames["items"]
    found = _find(
        frame.columns,
        preset,
        [name for name, kind in frame.collect_schema().items() if kind == nw.Struct],
    )
    if isinstance(found, list) and preset.headerless and Path(path).suffix.lower() == ".csv":
        found = _find(preset.headerless, preset)
        if not isinstance(found, list):
            return _headerless(path, preset.headerless, found), found
    if isinstance(found, list):
        shown = ", ".join(frame.columns[:12])
        remedy = "Pass preset or columns." if preset is _TABLE else "Pass columns."
        raise EvidenceError(
            fault(
                "items",
                f"must have {' and '.join(found)}",
                f"only {shown} in {str(path)!r}",
                remedy=remedy,
            )
        )
    wanted = list(dict.fromkeys(p if p in frame.columns else p.split(".")[0] for p in found.paths))
    return [dict(zip(wanted, row, strict=True)) for row in fetch(frame.select(*wanted))], found


def _headerless(path: str | Path, names: Sequence[str], found: _Found) -> list[Row]:
    wanted = [i for i, name in enumerate(names) if name in found.paths]
    with Path(path).open(encoding="utf-8-sig", newline="") as file:
        rows = [row for row in csv.reader(file) if row]
    short = [n for n, row in enumerate(rows) if len(row) != len(names)]
    if short:
        raise EvidenceError(
            fault(
                "items",
                f"must have {len(names)} columns in every row",
                "another number",
                where=short,
                total=len(short),
            )
        )
    return [{names[i]: row[i] for i in wanted} for row in rows]


# ---------------------------------------------------------------------------------------------------------------------
# rows


def _items(rows: Sequence[Row], found: _Found, preset: Preset, limit: int | None) -> list[TaskItem]:
    ids = _ids(rows, found)
    items: list[TaskItem] = []
    left_out: list[int | str] = []
    empty: list[int | str] = []
    for name, row in zip(ids, rows, strict=True):
        if len(items) == limit:
            break
        text = _text(row, found.text)
        if not text:
            empty.append(name)
            continue
        options = _options(row, found.options, preset.padding)
        if options is None or not 2 <= len(options) <= len(LETTERS):
            left_out.append(name)
            continue
        if found.options.scramble:
            ordered = sorted(options)
            options = tuple(ordered[i] for i in draws("scramble", text).permutation(len(ordered)))
        stratum = _at(row, found.stratum) if found.stratum else None
        items.append(
            TaskItem(
                id=name,
                text=text,
                options=options,
                stratum=None if stratum is None else str(stratum),
            )
        )
    if empty:
        raise EvidenceError(
            fault(
                "text",
                "must not be empty",
                "nothing",
                where=empty,
                total=len(empty),
                remedy="Drop those items.",
            )
        )
    if not items:
        raise EvidenceError(
            fault("items", f"must hold items with 2 to {len(LETTERS)} options", "none")
        )
    if left_out:
        shown = ", ".join(map(str, left_out[:5]))
        warnings.warn(
            f"{len(left_out)} items without 2 to {len(LETTERS)} readable options left out: {shown}{', …' if len(left_out) > 5 else ''}.",
            EvidenceWarning,
            stacklevel=5,
        )
    return items


def _ids(rows: Sequence[Row], found: _Found) -> list[int | str]:
    if found.item is None:
        return list(range(len(rows)))
    raw = [_at(row, found.item) for row in rows]
    none = [n for n, value in enumerate(raw) if value is None or value == ""]
    if none:
        raise EvidenceError(
            fault(
                "item",
                "must not be empty",
                "nothing in rows of the file",
                where=none,
                total=len(none),
            )
        )
    whole = all(isinstance(v, int) and not isinstance(v, bool) for v in raw)
    ids = [v if whole else str(v) for v in raw]
    if len(set(ids)) < len(ids):
        seen: set[int | str] = set()
        twice = [i for i in ids if i in seen or seen.add(i)]  # type: ignore[func-returns-value]
        raise EvidenceError(
            fault("item", "must name every row once", "a name twice", where=twice, total=len(twice))
        )
    return ids


def _at(row: Row, path: str) -> Any:
    if path in row:
        return row[path]
    root, _, rest = path.partition(".")
    value = _loaded(row.get(root))
    for part in rest.split("."):
        value = _loaded(value.get(part)) if isinstance(value, Mapping) else None
    return value


def _loaded(value: Any) -> Any:
    """Nested values that the file holds as JSON text."""
    if isinstance(value, str) and value.lstrip()[:1] in ("[", "{"):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


def _text(row: Row, paths: Sequence[str]) -> str:
    parts = [(path, _at(row, path)) for path in paths]
    filled = [
        (path, str(value).strip())
        for path, value in parts
        if value is not None and str(value).strip()
    ]
    return (
        filled[0][1]
        if len(paths) == 1 and filled
        else "\n\n".join(f"{path}:\n{value}" for path, value in filled)
    )


def _options(row: Row, where: Options, padding: Sequence[str]) -> tuple[str, ...] | None:
    """The options of an item in the order of classes; None where they cannot be read."""
    if where.classes:
        return where.classes
    if where.columns:
        texts: list[Any] = [_at(row, c) for c in where.columns]
        return tuple(str(t).strip() for t in texts if t is not None and str(t).strip())
    value = _loaded(_at(row, where.list))
    if isinstance(value, str):
        value = value.split("|")
    if isinstance(value, Mapping):
        listed = next(
            (value[k] for k in ("text", "texts") if isinstance(value.get(k), (list, tuple))), None
        )
        value = (
            listed
            if listed is not None
            else [value[k] for k in sorted(value, key=str) if value[k] is not None]
        )
    if not isinstance(value, (list, tuple)):
        return None
    inner = [
        next((o[k] for k in ("text", "value") if k in o), None) if isinstance(o, Mapping) else o
        for o in value
    ]
    texts = ["" if o is None else str(o).strip() for o in inner]
    while texts and (not texts[-1] or texts[-1] in padding):
        texts.pop()  # only at the end, so that classes keep their places
    return tuple(texts) if all(texts) else None
