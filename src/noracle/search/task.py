"""Tasks: items with options out of files, and how an item is put to a model.

A class is the place of an option in the file, from 0; what a model sees may be shuffled.
"""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import hashlib
import json
import re
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np

from noracle.errors import (
    ArgumentError,
    EvidenceError,
    EvidenceWarning,
    require,
    require_evidence,
)
from noracle.evidence.frames import fetch, open_frames
from noracle.evidence.replies import Finish, State, read_choice

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TaskItem:
    """One item. No truth: a task never holds an answer key.

    Examples
    --------
    >>> TaskItem(id=1, text="Which is even?", options=("one", "two")).options[1]
    'two'
    """

    id: int | str
    text: str
    options: tuple[str, ...]
    stratum: str | None = None

    def __post_init__(self) -> None:
        n, most, at = len(self.options), len(LETTERS), f"at item {self.id!r}"
        require(2 <= n <= most, f"options must be 2 to {most}; got {n} {at}.")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """Items of one kind. ``name`` goes into reports; ``instruction`` is one line that says what is
    asked.

    Examples
    --------
    >>> task = Task(name="parity", items=(TaskItem(id=1, text="Which is even?", options=("one", "two")),))
    >>> task.instruction
    'Choose the one right option.'
    """

    name: str
    items: tuple[TaskItem, ...]
    instruction: str = "Choose the one right option."


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PosedQuestion:
    """An item as it is shown: ``options`` in shown order, ``order[place]`` is the class shown at
    that place.

    Examples
    --------
    >>> print(PosedQuestion(item=1, text="Which is even?", options=("two", "one"), order=(1, 0)).prompt())
    Choose the one right option.
    <BLANKLINE>
    Which is even?
    <BLANKLINE>
    A) two
    B) one
    """

    item: int | str
    text: str
    options: tuple[str, ...]
    order: tuple[int, ...]
    instruction: str = "Choose the one right option."

    @property
    def letters(self) -> str:
        """The letters in use."""
        return LETTERS[: len(self.options)]

    def prompt(self) -> str:
        """The item as text."""
        pairs = zip(self.letters, self.options, strict=True)
        lines = "\n".join(f"{letter}) {option}" for letter, option in pairs)
        return f"{self.instruction}\n\n{self.text}\n\n{lines}"


def draws(*parts: object) -> np.random.Generator:
    """A generator that depends on these parts and nothing else."""
    words = "\x1f".join(f"{type(p).__name__}:{p}" for p in parts).encode()
    return np.random.default_rng(np.frombuffer(hashlib.sha256(words).digest(), dtype=np.uint32))


def pose(
    item: TaskItem, *, instruction: str = "Choose the one right option.", shuffle: int | None = None
) -> PosedQuestion:
    """Put an item; with a seed ``shuffle`` the options stand in a random order, else as in the
    file.

    Examples
    --------
    >>> question = pose(TaskItem(id=1, text="Which is even?", options=("one", "two", "three")), shuffle=7)
    >>> sorted(question.order), [question.options[i] == ("one", "two", "three")[c] for i, c in enumerate(question.order)]
    ([0, 1, 2], [True, True, True])
    """
    order = tuple(range(len(item.options)))
    if shuffle is not None:
        order = tuple(draws("options", shuffle, item.id).permutation(len(order)).tolist())
    options = tuple(item.options[c] for c in order)
    return PosedQuestion(
        item=item.id, text=item.text, options=options, order=order, instruction=instruction
    )


def parse_answer(
    text: str, question: PosedQuestion, *, finish: Finish = "stop"
) -> tuple[int | None, State]:
    """The class that a reply chose (not its place on the page), or None with the state that says
    why there is none.

    Parameters
    ----------
    text
        What the model said; read by :func:`noracle.evidence.replies.read_choice`.
    question
        The question as it was shown; it knows which class stood where.
    finish
        Why the model stopped.

    Examples
    --------
    >>> question = pose(TaskItem(id=1, text="Capital of France?", options=("Rome", "Paris", "Bern")), shuffle=7)
    >>> question.options, parse_answer("ANSWER: Paris", question)
    (('Rome', 'Bern', 'Paris'), (1, 'answered'))
    """
    place, state = read_choice(text, question.options, finish=finish)
    return (None if place is None else question.order[place]), state


def read_task(
    path: str | Path,
    *,
    preset: str | Path | None = None,
    columns: Mapping[str, str | Sequence[str]] | None = None,
    limit: int | None = None,
    name: str | None = None,
) -> Task:
    r"""Items with options out of a file.

    Parameters
    ----------
    path
        CSV, JSONL, JSON or Parquet. Without a preset it has the columns ``item``, ``text`` and
        ``options`` (a list, JSON, or texts with ``|`` between them) and perhaps ``stratum``;
        without ``item`` the row number, from 0, names an item.
    preset
        The name of a shipped preset (:func:`noracle.search.task.preset_names`) or a JSON file of
        that shape: which columns of a public benchmark are what. A column that holds the key is
        never read.
    columns
        Other columns for ``item``, ``text``, ``options`` (one column with a list, or one column an
        option) and ``stratum``.
    limit
        Take only the first items.
    name
        How the task is called; by default as the preset or the file.

    Raises
    ------
    EvidenceError
        If a column is missing, a text is empty or an item comes twice. Items with fewer than two
        options are left out with a warning.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "items.csv"
    >>> _ = file.write_text("item,text,options\n7,Which is even?,one|two|three\n")
    >>> read_task(file).items
    (TaskItem(id=7, text='Which is even?', options=('one', 'two', 'three'), stratum=None),)
    """
    require(limit is None or limit >= 1, f"limit must be at least 1; got {limit}.")
    shape = _with_columns(_TABLE if preset is None else load_preset(preset), columns)
    rows, found = _read(path, shape)
    items = _items(rows, found, shape, limit)
    title = name or (shape.name if preset is not None else Path(path).name.split(".")[0])
    return Task(name=title, items=tuple(items), instruction=shape.instruction)


SCHEMA = "preset/1"
_PRESETS = resources.files("noracle.search") / "presets"
_ROLES = ("item", "text", "options", "stratum")
_UNSEEN = re.compile(
    r"(?:image|picture|photo|figure|audio|video)s?\d*|messages|turns|conversation"
    r"|system(?:prompt|message)"
)
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
    """The columns of a kind of file, with alternatives; a dot leads into a nested column."""

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
    return sorted(Path(f.name).stem for f in _PRESETS.iterdir() if f.name.endswith(".json"))


def load_preset(name: str | Path) -> Preset:
    """A shipped preset by its name, or one out of a JSON file.

    Examples
    --------
    >>> load_preset("gpqa").options[0].scramble
    True
    """
    known, came = preset_names(), repr(str(name))
    ours = str(name) in known
    rule = f"must be one of {', '.join(known)} or a JSON file"
    require(ours or str(name).endswith(".json"), f"preset {rule}; got {came}.")
    file = _PRESETS / f"{name}.json" if ours else Path(name)
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
        if data.pop("schema") != SCHEMA:
            raise ValueError
        data["options"] = [Options(**_tuples(o)) for o in data["options"]]
        data["text"] = [tuple(columns) for columns in data["text"]]
        return Preset(**_tuples(data))
    except (OSError, UnicodeDecodeError):
        said = f"must be a readable file; got {came}. Check the path"
    except (ValueError, KeyError, TypeError, AttributeError):
        said = f"must have the shape of schema {SCHEMA}; got something else in {came}"
    raise ArgumentError(f"preset {said}.")


def _tuples(data: Mapping[str, Any]) -> dict[str, Any]:
    return {k: tuple(v) if isinstance(v, list) else v for k, v in data.items()}


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
    strata = [item.stratum for item in task.items]
    return columns if set(strata) <= {None} else {**columns, "stratum": strata}


def _with_columns(preset: Preset, columns: Mapping[str, str | Sequence[str]] | None) -> Preset:
    changed: dict[str, Any] = {}
    for role, value in (columns or {}).items():
        require(role in _ROLES, f"columns must name {', '.join(_ROLES)}; got {role!r}.")
        given = (value,) if isinstance(value, str) else tuple(value)
        listed = Options(list=given[0]) if len(given) == 1 else Options(columns=given)
        changed[role] = {"text": (given,), "options": (listed,)}.get(role, given)
    return dataclasses.replace(preset, **changed)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Columns:
    """The columns of this file that are read, as the file spells them."""

    item: str | None
    text: tuple[str, ...]
    options: Options
    stratum: str | None

    @property
    def paths(self) -> tuple[str, ...]:
        of = (self.item, *self.text, self.options.list, *self.options.columns, self.stratum)
        return tuple(path for path in of if path)


def _folded(column: str) -> str:
    return re.sub(r"[\s_-]+", "", column).casefold()


def _find(
    header: Sequence[str], preset: Preset, nested: Sequence[str] = ()
) -> _Columns | list[str]:
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
    if text is None or options is None:
        texts = " or ".join(" + ".join(t) for t in preset.text)
        lists = " or ".join(o.list or ", ".join(o.columns) for o in preset.options)
        return ([] if text else [texts]) + ([] if options else [f"options ({lists})"])
    found = _Columns(
        item=next((k for k in map(known, preset.item) if k), None),
        text=tuple(known(c) or c for c in text),
        options=options,
        stratum=next((k for k in map(known, preset.stratum) if k), None),
    )
    hidden = {_folded(k) for k in preset.key} & {_folded(p.split(".")[0]) for p in found.paths}
    came = f"{', '.join(sorted(hidden))}. A task never holds an answer key"
    require(not hidden, f"columns must not name the key; got {came}.")
    return found


def _present(options: Options, known: Any) -> Options | None:
    if options.classes:
        return options
    if options.list:
        column = known(options.list)
        return None if column is None else dataclasses.replace(options, list=column)
    columns = tuple(k for k in map(known, options.columns) if k)
    return dataclasses.replace(options, columns=columns) if len(columns) >= 2 else None


def _read(path: str | Path, preset: Preset) -> tuple[list[Row], _Columns]:
    frames, _connection = open_frames({"items": str(path)})
    frame = frames["items"]
    nested = [name for name, kind in frame.collect_schema().items() if kind == nw.Struct]
    found = _find(frame.columns, preset, nested)
    if isinstance(found, list) and preset.headerless and Path(path).suffix.lower() == ".csv":
        found = _find(preset.headerless, preset)
        if not isinstance(found, list):
            return _headerless(path, preset.headerless, found), found
    if isinstance(found, list):
        remedy = "Pass preset or columns." if preset is _TABLE else "Pass columns."
        came = f"only {', '.join(frame.columns[:12])} in {str(path)!r}"
        raise EvidenceError.of("items", f"must have {' and '.join(found)}", came, remedy=remedy)
    wanted = list(dict.fromkeys(p if p in frame.columns else p.split(".")[0] for p in found.paths))
    rows: list[Row] = [dict(zip(wanted, row, strict=True)) for row in fetch(frame.select(*wanted))]
    for column in frame.columns:
        if column not in wanted and _UNSEEN.fullmatch(_folded(column)):
            there = ~nw.col(column).is_null()
            if frame.collect_schema()[column] == nw.String:
                there &= ~nw.col(column).is_in(["", "[]"])
            n = len(fetch(frame.filter(there).select(there.alias("there"))))
            rule, came = "must be text alone", f"{n} items with something in {column!r}"
            remedy = "A model would not see it: take these items out, or put it into the text."
            require_evidence(not n, "items", rule, came, remedy=remedy)
    return rows, found


def _headerless(path: str | Path, names: Sequence[str], found: _Columns) -> list[Row]:
    wanted = [i for i, name in enumerate(names) if name in found.paths]
    with Path(path).open(encoding="utf-8-sig", newline="") as file:
        rows = [row for row in csv.reader(file) if row]
    short = [n for n, row in enumerate(rows) if len(row) != len(names)]
    if short:
        rule, n = f"must have {len(names)} columns in every row", len(short)
        raise EvidenceError.of("items", rule, "another number", where=short, total=n)
    return [{names[i]: row[i] for i in wanted} for row in rows]


def _items(
    rows: Sequence[Row], found: _Columns, preset: Preset, limit: int | None
) -> list[TaskItem]:
    items: list[TaskItem] = []
    left_out, empty = list[int | str](), list[int | str]()
    for name, row in zip(_ids(rows, found), rows, strict=True):
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
        told = _at(row, found.stratum) if found.stratum else None
        stratum = None if told is None else str(told)
        items.append(TaskItem(id=name, text=text, options=options, stratum=stratum))
    if empty:
        rule, remedy, n = "must not be empty", "Drop those items.", len(empty)
        raise EvidenceError.of("text", rule, "nothing", where=empty, total=n, remedy=remedy)
    if not items:
        raise EvidenceError.of("items", f"must hold items with 2 to {len(LETTERS)} options", "none")
    if left_out:
        shown = ", ".join(map(str, left_out[:5])) + (", …" if len(left_out) > 5 else "")
        which = f"{len(left_out)} items without 2 to {len(LETTERS)} readable options"
        warnings.warn(f"{which} left out: {shown}.", EvidenceWarning, stacklevel=3)
    return items


def _ids(rows: Sequence[Row], found: _Columns) -> list[int | str]:
    if found.item is None:
        return list(range(len(rows)))
    raw = [_at(row, found.item) for row in rows]
    none = [n for n, value in enumerate(raw) if value is None or value == ""]
    if none:
        came, n = "nothing in rows of the file", len(none)
        raise EvidenceError.of("item", "must not be empty", came, where=none, total=n)
    whole = all(isinstance(v, int) and not isinstance(v, bool) for v in raw)
    ids = [v if whole else str(v) for v in raw]
    twice = [name for name, n in Counter(ids).items() for _ in range(n - 1)]
    if twice:
        rule, n = "must name every row once", len(twice)
        raise EvidenceError.of("item", rule, "a name twice", where=twice, total=n)
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
        with contextlib.suppress(ValueError, RecursionError):
            return json.loads(value)
    return value


def _text(row: Row, paths: Sequence[str]) -> str:
    texts = {path: str(v).strip() for path in paths if (v := _at(row, path)) is not None}
    filled = {path: text for path, text in texts.items() if text}
    if len(paths) == 1:
        return next(iter(filled.values()), "")
    return "\n\n".join(f"{path}:\n{text}" for path, text in filled.items())


def _options(row: Row, where: Options, padding: Sequence[str]) -> tuple[str, ...] | None:
    """The options of an item in the order of classes; None where they cannot be read."""
    if where.classes:
        return where.classes
    if where.columns:
        given = [str(t).strip() for c in where.columns if (t := _at(row, c)) is not None]
        return tuple(text for text in given if text)
    value = _loaded(_at(row, where.list))
    if isinstance(value, str):
        value = value.split("|")
    if isinstance(value, Mapping):
        lists = [v for k in ("text", "texts") if isinstance(v := value.get(k), (list, tuple))]
        rest = [value[k] for k in sorted(value, key=str) if value[k] is not None]
        value = lists[0] if lists else rest
    if not isinstance(value, (list, tuple)):
        return None
    inner = [o.get("text", o.get("value")) if isinstance(o, Mapping) else o for o in value]
    texts = ["" if option is None else str(option).strip() for option in inner]
    while texts and (not texts[-1] or texts[-1] in padding):
        texts.pop()  # only at the end, so that classes keep their places
    return tuple(texts) if all(texts) else None
