"""What the readers return, and class names as class numbers."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noracle.errors import EvidenceError, EvidenceWarning, fault

Numbers = NDArray[np.int64]
Names = list[list[str]]
"""The classes that were named for each item, as text; "" holds the place of none."""

NONE = ("", "-1")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LabelledItems:
    """Items and what is known of their classes.

    Parameters
    ----------
    items
        Features (n, d), images (n, height, width, channels), a sparse matrix, a list of texts, or
        None where the file holds labels only.
    ruled_out
        Classes that are ruled out, (n, s), padded with -1; None where the file names none.
    label
        The true class, -1 where it is not known; None where the file names none.
    annotator
        Who ruled the class out, in the shape of ``ruled_out``; "" where nobody did.
    votes
        Ordinary labels of several annotators, (n, annotators), -1 for none.
    classes
        Names of the classes; the numbers above are places in it.
    ids
        Names or row numbers of the items.
    columns
        The columns of a table that hold the items, or the name of their array where it was asked
        for.

    Examples
    --------
    >>> items = LabelledItems(items=np.eye(2), ruled_out=np.array([[1], [0]]), classes=("cat", "dog"), ids=("a", "b"))
    >>> len(items), items.n_classes, items.texts
    (2, 2, False)
    """

    items: Any = None
    ruled_out: Numbers | None = None
    label: Numbers | None = None
    annotator: NDArray[np.str_] | None = None
    votes: Numbers | None = None
    classes: tuple[str, ...] = ()
    ids: Sequence[int | str] = ()
    columns: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def n_classes(self) -> int:
        """Number of classes K."""
        return len(self.classes)

    @property
    def texts(self) -> bool:
        """Whether the items are texts."""
        return isinstance(self.items, list)


@dataclasses.dataclass(slots=True, kw_only=True)
class Raw:
    """What a file says, before class names are made into numbers.

    Classes are whole numbers with -1 for none, (n,) or (n, s), or lists of names for each item.
    """

    items: Any = None
    ruled_out: Numbers | Names | None = None
    label: Numbers | Names | None = None
    votes: Numbers | None = None
    annotator: Names | None = None
    classes: Sequence[str] | None = None
    at_least: int = 0  # columns of a mask
    ids: Sequence[int | str] | None = None
    columns: tuple[str, ...] = ()


def finish(raw: Raw, classes: Sequence[str | int] | None) -> LabelledItems:
    """Check lengths, and number the classes."""
    n = _length(raw)
    ids: Sequence[int | str] = range(n) if raw.ids is None else raw.ids
    given = None if classes is None else _given(classes)
    names = given if given is not None else _found(raw)
    if 0 < len(names) < raw.at_least:
        raise EvidenceError(
            fault("classes", f"must be as many as a mask has columns ({raw.at_least})", len(names))
        )
    _tell_of_minus_one(raw, names)
    ruled_out = _numbered("ruled_out", raw.ruled_out, names, ids)
    label = _numbered("label", raw.label, names, ids)
    votes = _numbered("annotators", raw.votes, names, ids)
    return LabelledItems(
        items=raw.items,
        ruled_out=ruled_out,
        label=None if label is None else _one(label, ids),
        votes=votes,
        annotator=_annotators(raw, ruled_out, ids),
        classes=names,
        ids=ids,
        columns=raw.columns,
    )


def _length(raw: Raw) -> int:
    found = {
        "items": raw.items,
        "ruled_out": raw.ruled_out,
        "label": raw.label,
        "annotators": raw.votes,
        "annotator": raw.annotator,
        "ids": raw.ids,
    }
    lengths = {
        name: value.shape[0] if hasattr(value, "shape") else len(value)
        for name, value in found.items()
        if value is not None
    }
    if len(set(lengths.values())) > 1:
        came = ", ".join(f"{name} {n}" for name, n in lengths.items())
        raise EvidenceError(
            fault(
                "items and labels",
                "must be equally many",
                came,
                remedy="Use files of the same items.",
            )
        )
    n = next(iter(lengths.values()), 0)
    if n == 0:
        raise EvidenceError(fault("items", "must be at least one", "none"))
    return int(n)


def _given(classes: Sequence[str | int]) -> tuple[str, ...]:
    names = tuple(str(c) for c in ([] if isinstance(classes, str) else classes))
    if len(names) < 2 or len(set(names)) < len(names):
        raise EvidenceError(
            fault("classes", "must be at least two different names", repr(classes)[:100])
        )
    return names


def _found(raw: Raw) -> tuple[str, ...]:
    """The classes of a file: those it lists, the numbers up to the largest one, or the names in it,
    sorted.
    """
    if raw.classes is not None:
        return _given(raw.classes)
    values = [v for v in (raw.ruled_out, raw.label, raw.votes) if v is not None]
    if all(isinstance(v, np.ndarray) for v in values):
        highest = max((int(v.max()) for v in values if v.size), default=-1)  # type: ignore[union-attr]
        if highest >= 1 << 20:
            raise EvidenceError(
                fault(
                    "classes",
                    "must be numbered from 0",
                    highest,
                    remedy="Number them 0, 1, 2, … or pass their names.",
                )
            )
        return tuple(str(k) for k in range(max(highest + 1, raw.at_least)))
    return sort_names(
        {name for v in values for row in _as_names(v) for name in row if name not in NONE}
    )


def _tell_of_minus_one(raw: Raw, classes: tuple[str, ...]) -> None:
    """In a table -1 may be a class or the usual mark of no label: the choice must be seen."""
    for name, values in (("ruled_out", raw.ruled_out), ("label", raw.label)):
        n = (
            0
            if isinstance(values, np.ndarray) or "-1" in classes
            else sum("-1" in row for row in values or ())
        )
        if n:
            text = f"{name} -1 is taken as no label, at {n} items. If it is a class, name it in classes."
            warnings.warn(text, EvidenceWarning, stacklevel=4)


def sort_names(names: Iterable[str]) -> tuple[str, ...]:
    """Whole numbers by size, all else by the alphabet.

    Examples
    --------
    >>> sort_names({"10", "9"}), sort_names({"b", "10", "a"})
    (('9', '10'), ('10', 'a', 'b'))
    """
    found = sorted(names)
    return tuple(sorted(found, key=int)) if all(is_whole(name) for name in found) else tuple(found)


def is_whole(name: str) -> bool:
    """Whether a name is a whole number in its usual form."""
    digits = name.removeprefix("-")
    return digits.isascii() and digits.isdigit() and len(digits) < 19 and str(int(name)) == name


def _as_names(values: Numbers | Names) -> Names:
    if isinstance(values, np.ndarray):
        return [[str(v) for v in np.atleast_1d(row).tolist() if v != -1] for row in values]
    return values


def _numbered(
    name: str, values: Numbers | Names | None, classes: tuple[str, ...], ids: Sequence[int | str]
) -> Numbers | None:
    """Numbers of classes, (n, s), padded with -1."""
    if values is None:
        return None
    if isinstance(values, np.ndarray):
        return _numbers(name, values.reshape(len(ids), -1).astype(np.int64), classes, ids)
    places = {**dict.fromkeys(NONE, -1), **{c: k for k, c in enumerate(classes)}}
    wrong = [i for i, row in enumerate(values) if any(c not in places for c in row)]
    if wrong:
        came = next(c for c in values[wrong[0]] if c not in places)
        raise _outside(name, classes, repr(came)[:60], [ids[i] for i in wrong[:5]], len(wrong))
    width = max(map(len, values), default=0) or 1
    numbers = np.full((len(values), width), -1, dtype=np.int64)
    for i, row in enumerate(values):
        numbers[i, : len(row)] = [places[c] for c in row]
    return numbers


def _numbers(
    name: str, values: Numbers, classes: tuple[str, ...], ids: Sequence[int | str]
) -> Numbers:
    """Whole numbers are places in ``classes``, or, where all classes have whole numbers as names,
    those names.
    """
    if classes and all(map(is_whole, classes)):
        named = np.array([int(c) for c in classes], dtype=np.int64)
        order = np.argsort(named)
        place = np.minimum(np.searchsorted(named[order], values), len(named) - 1)
        numbers = order[place]
        bad = (values != -1) & (named[numbers] != values)
        numbers = np.where(values == -1, -1, numbers)
    else:
        numbers, bad = values, (values < -1) | (values >= len(classes))
    wrong = np.flatnonzero(bad.any(axis=1))
    if wrong.size:
        came = values[wrong[0]][bad[wrong[0]]][0]
        raise _outside(name, classes, came, [ids[int(i)] for i in wrong[:5]], len(wrong))
    return numbers


def _outside(
    name: str, classes: tuple[str, ...], came: object, where: list[int | str], total: int
) -> EvidenceError:
    shown = ", ".join(classes[:8]) + (", …" if len(classes) > 8 else "")
    rule = f"must be one of the {len(classes)} classes ({shown}), or -1 or empty for none"
    return EvidenceError(
        fault(
            name,
            rule,
            came,
            where=where,
            total=total,
            remedy="Name all classes, or drop those items.",
        )
    )


def _one(label: Numbers, ids: Sequence[int | str]) -> Numbers:
    many = np.flatnonzero((label >= 0).sum(axis=1) > 1)
    if many.size:
        where = [ids[int(i)] for i in many[:5]]
        raise EvidenceError(
            fault("label", "must be one class an item", "several", where=where, total=len(many))
        )
    found: Numbers = label.max(axis=1)
    return found


def _annotators(
    raw: Raw, ruled_out: Numbers | None, ids: Sequence[int | str]
) -> NDArray[np.str_] | None:
    """Who said what, in the shape of ``ruled_out``: one name for all labels of an item, or one for
    each.
    """
    names = raw.annotator
    if names is None or ruled_out is None or raw.ruled_out is None:
        return None
    width = ruled_out.shape[1]
    said = (
        [width if isinstance(row, np.ndarray) else len(row) for row in raw.ruled_out]
        if width > 1
        else [1] * len(names)
    )
    wrong = [i for i, row in enumerate(names) if len(row) not in (0, 1, said[i])]
    if wrong:
        came = f"{len(names[wrong[0]])} names for {said[wrong[0]]} labels"
        where = [ids[i] for i in wrong[:5]]
        raise EvidenceError(
            fault(
                "annotator",
                "must name one annotator an item, or one a label",
                came,
                where=where,
                total=len(wrong),
            )
        )
    found = np.array(
        [(row * width if len(row) == 1 else [*row, *[""] * (width - len(row))]) for row in names],
        dtype=np.str_,
    )
    found[ruled_out < 0] = ""
    return found
