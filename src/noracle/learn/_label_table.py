"""Ruled-out labels as they are given, brought into one long form: one row a label."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noracle.errors import ArgumentError, EvidenceError, fault

Whole = NDArray[np.int64]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LabelTable:
    """``item``, ``label``, ``annotator`` and ``seconds`` have one entry a label; ``truth`` has one
    an item, -1 where it is not trusted.
    """

    n_items: int
    classes: tuple[str, ...]
    item: Whole
    label: Whole
    truth: Whole | None = None
    annotator: Whole | None = None
    annotators: tuple[str, ...] = ()
    seconds: NDArray[np.float64] | None = None
    notes: tuple[str, ...] = ()

    @property
    def n_classes(self) -> int:
        """Number of classes K."""
        return len(self.classes)


def read_labels(
    ruled_out: ArrayLike,
    *,
    n_classes: int | None,
    classes: Sequence[object] | None,
    truth: ArrayLike | None,
    trusted: ArrayLike | None,
    annotator: ArrayLike | None,
    seconds: ArrayLike | None,
) -> LabelTable:
    """Check everything and lay it out label by label."""
    said = np.asarray(ruled_out)
    if said.ndim not in (1, 2):
        raise ArgumentError(
            f"ruled_out must have one row an item, and one or two axes; got shape {said.shape}."
        )
    names, notes = _names(said, truth, n_classes, classes)
    mask = said.dtype == bool
    if mask and said.shape[1:] != (len(names),):
        raise ArgumentError(
            f"ruled_out must have one column for each of the {len(names)} classes as a mask; got shape {said.shape}."
        )
    if mask:
        item, slot = np.nonzero(said)
        codes = slot
    else:
        table = (
            _codes("ruled_out", said, names).reshape(len(said), -1)
            if len(said)
            else np.empty((0, 1), dtype=np.int64)
        )
        item, slot = np.nonzero(table >= 0)
        codes = table[item, slot]
    who, people = _annotators(annotator, said.shape, item, slot)
    return LabelTable(
        n_items=len(said),
        classes=names,
        item=item.astype(np.int64),
        label=codes.astype(np.int64),
        truth=_truth(truth, trusted, names, len(said)),
        annotator=who,
        annotators=people,
        seconds=None
        if seconds is None
        else _spread("seconds", np.asarray(seconds, dtype=np.float64), said.shape, item, slot),
        notes=notes,
    )


def trusted_part(table: LabelTable) -> LabelTable | None:
    """The labels of trusted items; None if nothing is trusted."""
    if table.truth is None:
        return None
    use = table.truth[table.item] >= 0
    return dataclasses.replace(
        table,
        item=table.item[use],
        label=table.label[use],
        annotator=None if table.annotator is None else table.annotator[use],
        seconds=None,
    )


def truth_of(known: LabelTable) -> Whole:
    """The true class of the item of each label, -1 where it is not trusted."""
    return (
        np.full(len(known.item), -1, dtype=np.int64)
        if known.truth is None
        else known.truth[known.item]
    )


def _names(
    said: NDArray[Any],
    truth: ArrayLike | None,
    n_classes: int | None,
    classes: Sequence[object] | None,
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names of the classes, and what was inferred."""
    notes: tuple[str, ...] = ()
    if classes is not None:
        names = tuple(str(c) for c in classes)
        if len(set(names)) != len(names) or (n_classes is not None and n_classes != len(names)):
            raise ArgumentError(
                f"classes must be different names, n_classes of them; got {len(names)} names and n_classes {n_classes}."
            )
    elif n_classes is not None:
        names = tuple(str(k) for k in range(n_classes))
    else:
        values = [said] if truth is None else [said, np.asarray(truth)]
        names = (
            tuple(str(k) for k in range(said.shape[-1]))
            if said.dtype == bool and said.ndim == 2
            else _seen(values)
        )
        notes = (
            (f"{len(names)} classes inferred: those that were seen",) if said.dtype != bool else ()
        )
    if len(names) < 2:
        raise ArgumentError(
            f"n_classes must be at least 2; got {len(names)}. Pass n_classes or classes: too few are seen in the labels."
        )
    return names, notes


def _seen(values: Sequence[NDArray[Any]]) -> tuple[str, ...]:
    if all(_is_number(v) or not v.size for v in values):
        most = max(
            (
                int(np.nanmax(v))
                for v in values
                if v.size and not np.isnan(v.astype(np.float64)).all()
            ),
            default=-1,
        )
        return tuple(str(k) for k in range(most + 1))
    return tuple(
        sorted({str(v) for each in values for v in each.reshape(-1).tolist() if not _missing(v)})
    )


def _is_number(values: NDArray[Any]) -> bool:
    return np.issubdtype(values.dtype, np.number)


def _missing(value: object) -> bool:
    return (
        value is None
        or value == ""
        or (isinstance(value, float) and value != value)
        or (isinstance(value, int) and value == -1)
    )


def _codes(name: str, values: NDArray[Any], names: tuple[str, ...]) -> Whole:
    """Class numbers, -1 for nothing said. Numbers are places in ``names``; texts are looked up in
    it.
    """
    flat = values.reshape(len(values), -1)
    if _is_number(values):
        numbers = np.where(np.isnan(flat.astype(np.float64)), -1, flat)
        bad = (numbers < -1) | (numbers >= len(names)) | (numbers != np.floor(numbers))
        found = np.where(bad, -1, numbers).astype(np.int64)
        rule = f"must be a whole number in [0, {len(names)}), or -1 for none"
    else:
        place = {n: k for k, n in enumerate(names)}
        known = [
            [-1 if _missing(v) else place.get(str(v), -2) for v in row] for row in flat.tolist()
        ]
        found = np.array(known, dtype=np.int64).reshape(flat.shape)
        bad = found == -2
        rule = f"must be one of the {len(names)} classes"
    wrong = np.flatnonzero(bad.any(axis=1))
    if wrong.size:
        came = flat[wrong[0]][bad[wrong[0]]][0]
        raise EvidenceError(
            fault(
                name,
                rule,
                came,
                where=wrong[:5].tolist(),
                total=len(wrong),
                remedy="Pass n_classes or classes, or drop those items.",
            )
        )
    return found.reshape(values.shape)


def _truth(
    truth: ArrayLike | None, trusted: ArrayLike | None, names: tuple[str, ...], n: int
) -> Whole | None:
    if truth is None:
        if trusted is not None:
            raise ArgumentError(
                "trusted must come with truth; got trusted alone. Pass the true classes of the trusted items."
            )
        return None
    values = np.asarray(truth)
    if values.shape != (n,):
        raise ArgumentError(
            f"truth must be one class for each of the {n} items; got shape {values.shape}."
        )
    if trusted is None:
        return _codes("truth", values, names) if n else np.empty(0, dtype=np.int64)
    mask = np.asarray(trusted)
    if mask.shape != (n,) or (n and mask.dtype != bool):
        raise ArgumentError(
            f"trusted must be one bool for each of the {n} items; got {mask.dtype} with shape {mask.shape}."
        )
    found = np.full(n, -1, dtype=np.int64)
    if n and mask.any():
        found[mask] = _codes(
            "truth", values[mask], names
        )  # what is not trusted is not even looked at
    return found


def _spread(
    name: str, values: NDArray[Any], shape: tuple[int, ...], item: Whole, slot: Whole
) -> NDArray[Any]:
    """One value a label, from one an item or one a label."""
    if values.shape == shape[:1]:
        spread: NDArray[Any] = values[item]
        return spread
    if values.shape != shape:
        raise ArgumentError(
            f"{name} must have the shape of ruled_out, {shape}, or one entry an item; got {values.shape}."
        )
    found: NDArray[Any] = values[item, slot]
    return found


def _annotators(
    annotator: ArrayLike | None, shape: tuple[int, ...], item: Whole, slot: Whole
) -> tuple[Whole | None, tuple[str, ...]]:
    """A number for each label's annotator, -1 where nobody is named, and the names in order."""
    if annotator is None:
        return None, ()
    values = _spread("annotator", np.asarray(annotator), shape, item, slot)
    if values.dtype.kind in "iuU":
        found, place = np.unique(values, return_inverse=True)
        gone = found == ("" if values.dtype.kind == "U" else -1)
        return np.where(gone, -1, np.cumsum(~gone) - 1)[place.reshape(-1)].astype(np.int64), tuple(
            str(v) for v in found[~gone].tolist()
        )
    given = [None if _missing(v) else v for v in values.tolist()]
    numeric = all(v is None or isinstance(v, (int, float)) for v in given)
    order = sorted(
        {v for v in given if v is not None},
        key=(lambda v: (v, "")) if numeric else (lambda v: (0, str(v))),
    )
    number = {v: k for k, v in enumerate(order)}
    return np.array([-1 if v is None else number[v] for v in given], dtype=np.int64), tuple(
        str(v) for v in order
    )
