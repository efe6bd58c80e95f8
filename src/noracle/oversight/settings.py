"""What a folder says of itself: ``noracle.toml``.

title = "Spring review"            # of the report
confidence = 0.95                  # of everything that the report says together
seed = 0
n_classes = 4                      # or: classes = ["red", "green", "blue"]
conflicts = "error"                # or "drop": labels that contradict each other are left out and counted
repeats = "mean"                   # of items answered more than once; or "all", right every time; or "any", right at least once
protocol = "question"              # or "sets": how classes were put to the raters
claim = "accuracy > 1/2"           # what graders are held to; without it there is no alarm
trained_on_annotators = "no"       # "yes", "no" or "unknown"
margin = 0.0
target = "expert"                  # the gold rater of the scores
half_width = 0.02
budget = 500.0
time_limit = 30.0                  # seconds for each proof
ignore = ["drafts/*"]              # files that are no evidence; * also stands for folders
no_answer = ["-1", "N/A"]          # what stands for no answer; an empty field always does
invalid = "wrong"                  # or "refuse": an answer that is no class of its item

[files]                            # what is not to be guessed: paths or globs, relative to the folder
answers = "run-7/*.parquet"
judgements = ["monday.csv", "tuesday.csv"]

[wide.ratings]                     # columns of a table with one row per item
item = "question"
raters = ["ann", "bob"]

[columns]                          # your names of columns, in every table or in one
item = "question_id"
answers.system = "model"

[prices]                           # of one label of a kind, or of one score of a rater
ordinary = 4.0
complementary = 0.5

[drift]                            # has accuracy fallen? Without this table it is not asked
floor = 0.8                        # or: reference = "2026-09"
margin = 0.02
run_length = 5000                  # labels until a false alarm, on average at least
window = "day"                     # or "week", "month", or a number of answers
judge = "gpt"                      # the rater that is a model and graded (almost) everything
"""

from __future__ import annotations

import dataclasses
import difflib
import math
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from noracle.errors import ArgumentError, EvidenceError, fault
from noracle.evidence.tables import MAX_CLASSES, shape_of
from noracle.oversight.model import SOURCE_KINDS, FolderSettings

SETTINGS_FILE = "noracle.toml"
"""The name of the file with settings in a folder of evidence."""
NO_CLAIM = (
    "Nobody stated a claim that answers could refute. Say what the graders are held to, with a line such as "
    f'claim = "accuracy > 1/2" at the top of {SETTINGS_FILE}.'
)
"""Why there is no alarm where the settings have no claim, and the way out."""

_CHOICES = {
    "conflicts": ("error", "drop"),
    "invalid": ("wrong", "refuse"),
    "protocol": ("question", "sets"),
    "repeats": ("mean", "all", "any"),
    "trained_on_annotators": ("yes", "no", "unknown"),
}

_WHOLES = {"seed": (0, 2**63 - 1), "n_classes": (2, MAX_CLASSES)}
WIDE = {
    "answers": ("item", "systems", "label", "ruled_out"),
    "ratings": ("item", "raters", "systems"),
    "scores": ("item", "raters"),
}
"""The columns that can be named for a wide table of each kind; systems and raters are lists."""
_LISTS = ("systems", "raters")
_NUMBERS: dict[str, tuple[str, Callable[[float], bool]]] = {
    "confidence": ("must be a number between 0 and 1, without the ends", lambda x: 0 < x < 1),
    "margin": ("must be in [0, 1)", lambda x: 0 <= x < 1),
    "half_width": ("must be a number above 0 and below 1", lambda x: 0 < x < 1),
    "budget": ("must be a number above 0", lambda x: x > 0),
    "time_limit": ("must be a number of seconds above 0", lambda x: x > 0),
}


def read_settings(path: str | PathLike[str]) -> FolderSettings:
    r"""Read ``noracle.toml``; all faults at once.

    Every setting may be left out. A key that does not exist is a fault that names the nearest one
    that does.

    Parameters
    ----------
    path
        The file.

    Returns
    -------
    Settings
        Paths and globs in ``files`` and ``ignore`` as they were written, relative to the folder of
        the evidence.

    Raises
    ------
    EvidenceError
        If the file cannot be read, is not TOML, or says something that no setting can be.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "noracle.toml")
    ...     _ = file.write_text('confidence = 0.9\n[files]\nanswers = "run/*.csv"\n', encoding="utf-8")
    ...     settings = read_settings(file)
    >>> settings.confidence, settings.files["answers"]
    (0.9, ('run/*.csv',))
    """
    data = _parsed(path)
    known = {field.name for field in dataclasses.fields(FolderSettings)}
    faults = [_unknown(SETTINGS_FILE, key, known) for key in data if key not in known]
    values: dict[str, Any] = {}
    for key in [key for key in data if key in known]:
        values[key], problems = _read(key, data[key])
        faults += problems
    n_classes, classes = values.get("n_classes"), values.get("classes")
    if not faults and n_classes is not None and classes is not None and n_classes != len(classes):
        rule = f"must be the number of classes, {len(classes)}"
        faults.append(_fault("n_classes", rule, n_classes, "Leave it out."))
    if faults:
        raise EvidenceError(*faults)
    return FolderSettings(**values)


def claim_of(settings: FolderSettings) -> str:
    """The claim that somebody stated, on one line; empty where nobody did."""
    return re.sub(r"\s+", " ", settings.claim).strip()


def _parsed(path: str | PathLike[str]) -> dict[str, Any]:
    name = fspath(path)
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8-sig"))
    except OSError as error:
        came = f"{name!r} ({error.strerror})"
        rule, remedy = "must be a readable file", "Check the path."
        raise EvidenceError.of("settings", rule, came, remedy=remedy) from None
    except UnicodeDecodeError:
        rule, remedy = "must be UTF-8 text", "Save it as UTF-8."
        raise EvidenceError.of(f"file {name!r}", rule, "other bytes", remedy=remedy) from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        came = str(error).rstrip(".")[:200]
        raise EvidenceError.of(f"file {name!r}", "must be TOML", came) from None


def _fault(key: str, rule: str, value: object, remedy: str = "") -> str:
    return fault(f"{SETTINGS_FILE}: {key}", rule, repr(value)[:80], remedy=remedy)


def _unknown(where: str, key: str, known: Iterable[str]) -> str:
    """One line about a key that does not exist, with the nearest one that does."""
    choices = sorted(known)
    near = difflib.get_close_matches(key.lower(), choices, n=1, cutoff=0.5)
    remedy = f"Did you mean {near[0]!r}?" if near else "Leave it out."
    return fault(where, f"must have keys among {', '.join(choices)}", repr(key)[:60], remedy=remedy)


def _read(key: str, value: Any) -> tuple[Any, list[str]]:
    """The value of a known key as a setting, and what is wrong with it."""
    if key in _STRUCTURES:
        return _STRUCTURES[key](value)
    if key == "claim" and isinstance(value, str):
        return value, _claim_faults(value)
    if key in _NUMBERS:
        rule, allowed = _NUMBERS[key]
        sound = _is_number(value) and allowed(value)
        value = float(value) if sound else value
    elif key in _WHOLES:
        low, high = _WHOLES[key]
        rule = f"must be a whole number from {low} to {high}"
        sound = isinstance(value, int) and not isinstance(value, bool) and low <= value <= high
    elif key in _CHOICES:
        rule = f"must be one of {', '.join(map(repr, _CHOICES[key]))}"
        sound = isinstance(value, str) and value in _CHOICES[key]
    else:
        rule, sound = "must be text", isinstance(value, str)
    return value, [] if sound else [_fault(key, rule, value)]


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _claim_faults(claim: str) -> list[str]:
    from noracle.logic.spec import Spec

    try:
        if claim.strip():
            Spec.parse(claim)
    except ArgumentError as error:
        return [f"{SETTINGS_FILE}: claim: {error}"]
    return []


def _texts(key: str, value: Any, what: str) -> tuple[tuple[str, ...], list[str]]:
    """One text or a list of different texts."""
    given = [value] if isinstance(value, str) else value
    sound = isinstance(given, list) and all(isinstance(v, str) and v.strip() for v in given)
    if not sound or not given or len(set(given)) != len(given):
        return (), [_fault(key, f"must be {what}, or a list of different ones", value)]
    return tuple(given), []


def _classes(value: Any) -> tuple[Any, list[str]]:
    kinds = {type(c) for c in value} if isinstance(value, list) else set()
    if kinds not in ({int}, {str}) or len(value) < 2 or len(set(value)) != len(value):
        rule = "must be a list of at least two different texts or whole numbers"
        return None, [_fault("classes", rule, value)]
    return tuple(value), []


def _table(
    key: str, value: Any, known: Sequence[str] | None = None
) -> tuple[Mapping[str, Any], list[str]]:
    """The entries of a table that are ``known``, and what is wrong with the others."""
    if not isinstance(value, dict):
        return {}, [_fault(key, f"must be a table: [{key}]", value)]
    there = list(value) if known is None else [name for name in value if name in known]
    others = [name for name in value if name not in there]
    faults = [_unknown(f"{SETTINGS_FILE}: [{key}]", name, known or ()) for name in others]
    return {name: value[name] for name in there}, faults


def _files(value: Any) -> tuple[Any, list[str]]:
    table, faults = _table("files", value, SOURCE_KINDS)
    found: dict[str, tuple[str, ...]] = {}
    for kind, paths in table.items():
        found[kind], problems = _texts(f"files.{kind}", paths, "a path or glob")
        faults += problems
    return found, faults


def _wide(value: Any) -> tuple[Any, list[str]]:
    table, faults = _table("wide", value, list(WIDE))
    found: dict[str, dict[str, Any]] = {}
    for kind, columns in table.items():
        named, unknown = _table(f"wide.{kind}", columns, WIDE[kind])
        faults += unknown
        problems = [] if isinstance(columns, dict) else unknown
        found[kind] = {}
        for key, column in named.items():
            place = f"wide.{kind}.{key}"
            if key in _LISTS:
                found[kind][key], problems = _texts(place, column, "a column")
                faults += problems
            elif isinstance(column, str) and column:
                found[kind][key] = column
            else:
                faults.append(_fault(place, "must be the name of a column", column))
        faults += [] if problems else _wide_faults(kind, found[kind])
    return found, faults


def _wide_faults(kind: str, columns: Mapping[str, Any]) -> list[str]:
    """What a wide table of this kind must name, and columns that are named twice."""
    where = f"{SETTINGS_FILE}: [wide.{kind}]"
    needed = {"answers": "systems", "ratings": "raters"}.get(kind)
    faults = []
    if needed and needed not in columns:
        faults.append(fault(where, f"must name {needed}", ", ".join(columns) or "nothing"))
    named = named_columns(columns)
    twice = sorted({name for name in named if named.count(name) > 1})
    if twice:
        faults.append(fault(where, "must name a column once", ", ".join(map(repr, twice))))
    return faults


def named_columns(columns: Mapping[str, str | Sequence[str]]) -> list[str]:
    """All columns that the options of a wide table name."""
    lists = [(value,) if isinstance(value, str) else value for value in columns.values()]
    return [name for names in lists for name in names]


def _columns(value: Any) -> tuple[Any, list[str]]:
    table, faults = _table("columns", value)
    try:
        return ({}, faults) if faults else (shape_of(table).columns, [])
    except EvidenceError as error:
        return {}, [f"{SETTINGS_FILE}: {line}" for line in error.faults]


def _no_answer(value: Any) -> tuple[Any, list[str]]:
    words = value if isinstance(value, list) else [value]
    sound = all(isinstance(w, (str, int, float)) and not isinstance(w, bool) for w in words)
    faults = [] if sound else [_fault("no_answer", "must be texts or numbers", value)]
    return tuple(map(str, words)) if sound else (), faults


def _prices(value: Any) -> tuple[Any, list[str]]:
    table, faults = _table("prices", value)
    wrong = {k: v for k, v in table.items() if not (_is_number(v) and v > 0)}
    faults += [_fault(f"prices.{k}", "must be a number above 0", v) for k, v in wrong.items()]
    return {} if faults else {k: float(v) for k, v in table.items()}, faults


_DRIFT: dict[str, tuple[str, tuple[type, ...]]] = {
    **dict.fromkeys(("floor", "margin", "run_length"), ("a number", (int, float))),
    **dict.fromkeys(("reference", "judge"), ("text", (str,))),
    "window": ("day, week, month or a number of answers", (str, int)),
}


def _drift(value: Any) -> tuple[Any, list[str]]:
    table, faults = _table("drift", value, [*_DRIFT])
    for key, given in table.items():
        what, kinds = _DRIFT[key]
        if not isinstance(given, kinds) or isinstance(given, bool):
            faults.append(_fault(f"drift.{key}", f"must be {what}", given))
    if not faults:
        from noracle.accuracy.drift import DriftRule

        try:
            DriftRule(**table)
        except ArgumentError as error:
            faults.append(f"{SETTINGS_FILE}: [drift]: {error}")
    return {} if faults else table, faults


_STRUCTURES: dict[str, Callable[[Any], tuple[Any, list[str]]]] = {
    "classes": _classes,
    "columns": _columns,
    "drift": _drift,
    "no_answer": _no_answer,
    "files": _files,
    "ignore": lambda value: ((), []) if value == [] else _texts("ignore", value, "a path or glob"),
    "prices": _prices,
    "wide": _wide,
}
