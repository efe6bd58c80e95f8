"""Items and labels as people bring them, checked once and turned into arrays."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from noracle.errors import ArgumentError, EvidenceError, fault
from noracle.learn.losses import label_mask

Array = NDArray[Any]
READ_ROWS = 8192


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Labels:
    """What is known of each item, in class numbers.

    Attributes
    ----------
    classes
        The sorted names.
    mask
        (n, K): which classes are ruled out.
    known
        The class where there is an ordinary label, else -1.
    """

    classes: Array
    mask: NDArray[np.bool_]
    known: NDArray[np.int64]

    @property
    def some(self) -> NDArray[np.bool_]:
        """Items of which anything is known."""
        return np.asarray(self.mask.any(axis=1) | (self.known >= 0))

    @property
    def codes(self) -> NDArray[np.int64]:
        """Ruled-out classes (n, s), padded with -1."""
        wide = np.where(self.mask, np.arange(len(self.classes)), len(self.classes))
        wide.sort(axis=1)
        size = max(1, int(self.mask.sum(axis=1).max(initial=1)))
        return np.where(wide < len(self.classes), wide, -1)[:, :size]


def check_items(estimator: Any, X: Any, *, reset: bool) -> Any:
    """Features (n, d) as 32-bit floats, dense or CSR, or images (n, h, w, c) as uint8 or 32-bit
    floats; a memory map stays on the disk.

    With ``reset`` the estimator learns the shape of an item, else X must have it.
    """
    from sklearn.utils.validation import check_array, validate_data

    if isinstance(X, np.memmap) and X.ndim in (2, 4):
        found: Any = _checked_map(X)
    elif _is_images(X):
        pixels = (X[0] if isinstance(X, (list, tuple)) else X).dtype == np.uint8
        found = check_array(
            X,
            allow_nd=True,
            dtype=np.uint8 if pixels else np.float32,
            input_name="X",
            estimator=estimator,
        )
    else:
        found = validate_data(estimator, X, accept_sparse="csr", dtype=np.float32, reset=reset)
    shape = tuple(int(size) for size in found.shape[1:])
    if reset:
        estimator.item_shape_ = shape
        if len(shape) == 3 or isinstance(X, np.memmap):
            estimator.n_features_in_ = int(np.prod(shape))
            if hasattr(estimator, "feature_names_in_"):
                del estimator.feature_names_in_
    elif shape != estimator.item_shape_:
        raise ArgumentError(
            f"X must have items of shape {estimator.item_shape_}, as in fit; got {shape}."
        )
    return found


def _is_images(X: Any) -> bool:
    if isinstance(X, (list, tuple)):
        return len(X) > 0 and getattr(X[0], "ndim", 0) == 3
    return getattr(X, "ndim", 2) == 4


def _checked_map(X: np.memmap[Any, Any]) -> np.memmap[Any, Any]:
    if len(X) == 0 or X.dtype.kind not in "fiub":
        raise ArgumentError(
            f"X must hold numbers and at least one item; got {X.dtype} with shape {X.shape}."
        )
    for start in range(0, len(X) if X.dtype.kind == "f" else 0, READ_ROWS):
        block = np.asarray(X[start : start + READ_ROWS])
        finite = (np.abs(block) <= np.finfo(np.float32).max).reshape(len(block), -1).all(axis=1)
        wrong = (start + np.flatnonzero(~finite)).tolist()
        if wrong:
            raise EvidenceError(
                fault(
                    "X",
                    "must be finite in 32 bits",
                    "NaN, infinity or a larger number",
                    where=wrong[:5],
                )
            )
    return X


def check_weight(weight: ArrayLike | None, X: Any) -> NDArray[np.float64] | None:
    """One finite number an item, none negative, not all zero."""
    if weight is None:
        return None
    found = np.asarray(weight, dtype=np.float64)
    if found.ndim == 0:
        found = np.full(X.shape[0], float(found))
    if found.shape != (X.shape[0],):
        raise EvidenceError(
            fault(
                "sample_weight",
                f"must be one number for each of the {X.shape[0]} items",
                f"shape {found.shape}",
            )
        )
    wrong = np.flatnonzero(~(np.isfinite(found) & (found >= 0)))
    if wrong.size:
        rule = "must be finite and not negative"
        raise EvidenceError(
            fault(
                "sample_weight", rule, found[wrong[0]], where=wrong[:5].tolist(), total=len(wrong)
            )
        )
    if not found.sum() > 0:
        raise EvidenceError(fault("sample_weight", "must be positive somewhere", "zeros only"))
    return found


def read_labels(ruled_out: Any, label: Any, *, classes: Any, n: int) -> Labels:
    """Names to class numbers; see :class:`noracle.learn.classifier.ComplementaryClassifier` for
    what may come.
    """
    given = None if classes is None else _class_names(classes)
    said, marks = _ruled_out_table(ruled_out, n, None if given is None else len(given))
    if marks:
        require_sorted(classes, given, "a mask of ruled-out classes")
    told = _Names.read("label", label, n, width=1)
    if given is None:
        given = _found_names(
            [*([said.present] if said is not None and not marks else []), told.present]
        )
    k = len(given)
    if said is None:
        mask = torch.zeros(n, k, dtype=torch.bool)
    else:
        mask = label_mask(torch.from_numpy(said.codes if marks else said.encode(given)), k)
    known = told.encode(given)[:, 0]
    labels = Labels(classes=given, mask=mask.numpy(), known=known)
    if not labels.some.any():
        raise EvidenceError(
            fault(
                "ruled_out",
                "must name a class for at least one item",
                "none",
                remedy="-1, None and '' mean no label.",
            )
        )
    return labels


def require_sorted(classes: Any, names: Array | None, what: str) -> None:
    """Columns and rows follow ``classes_``, so a mask or matrix with classes in another order would
    be read wrongly.
    """
    if names is None:
        raise ArgumentError(
            f"classes must be given with {what}, whose columns have no names; got None."
        )
    if np.asarray(classes).tolist() != names.tolist():
        came = np.asarray(classes).tolist()[:8]
        raise ArgumentError(
            f"classes must be sorted with {what}, whose order is that of classes_ ({names.tolist()[:8]}); got {came}."
        )


@dataclasses.dataclass(frozen=True, slots=True)
class _Names:
    """A table of names with gaps."""

    name: str
    values: Array
    missing: NDArray[np.bool_]
    codes: NDArray[np.int64] = dataclasses.field(default_factory=lambda: np.empty((0, 1), np.int64))

    @classmethod
    def read(cls, name: str, values: Any, n: int, *, width: int | None = None) -> _Names:
        table = _table(name, np.full((n, 1), -1) if values is None else values)
        if len(table) != n:
            raise EvidenceError(
                fault(name, f"must have one row for each of the {n} items", f"{len(table)} rows")
            )
        table = table.reshape(n, -1)
        if width is not None and table.shape[1] != width:
            raise EvidenceError(
                fault(name, "must be one class an item", f"a table with {table.shape[1]} columns")
            )
        return cls(name, *_with_gaps(name, table))

    @property
    def present(self) -> Array:
        return np.asarray(self.values[~self.missing])

    def encode(self, classes: Array) -> NDArray[np.int64]:
        """(n, s) class numbers, -1 in the gaps."""
        codes = np.full(self.values.shape, -1, dtype=np.int64)
        if self.missing.all():
            return codes
        if _is_text(classes) != _is_text(self.present):
            came = self.present[:3].tolist()
            raise EvidenceError(
                fault(
                    self.name,
                    f"must have names like those of classes, {classes.tolist()[:5]}",
                    came,
                )
            )
        places = np.searchsorted(classes, self.present).clip(max=len(classes) - 1)
        codes[~self.missing] = np.where(classes[places] == self.present, places, -2)
        wrong = np.flatnonzero((codes == -2).any(axis=1))
        if wrong.size:
            came = self.values[wrong[0]][codes[wrong[0]] == -2][0]
            rule = f"must be among the classes {classes.tolist()[:8]}"
            raise EvidenceError(
                fault(self.name, rule, repr(came), where=wrong[:5].tolist(), total=len(wrong))
            )
        return codes


def _ruled_out_table(ruled_out: Any, n: int, k: int | None) -> tuple[_Names | None, bool]:
    """The names, and whether they came as a mask."""
    if ruled_out is None:
        return None, False
    table = _table("ruled_out", ruled_out)
    if table.ndim == 2 and table.dtype == bool:
        if k is not None and table.shape != (n, k):
            raise EvidenceError(
                fault(
                    "ruled_out",
                    f"must be a mask with {n} rows and {k} columns",
                    f"shape {table.shape}",
                )
            )
        codes = np.where(table, np.arange(table.shape[1]), -1)
        return _Names("ruled_out", table, ~table, codes), True
    if (
        table.ndim == 2
        and table.shape[1] > 2
        and table.dtype.kind in "iuf"
        and np.isin(table, (0, 1)).all()
    ):
        raise EvidenceError(
            fault(
                "ruled_out",
                "must be a table of classes, or a mask of bools",
                "a table of 0 and 1",
                remedy="Pass bools.",
            )
        )
    return _Names.read("ruled_out", table, n), False


def _table(name: str, values: Any) -> Array:
    try:
        table = np.asarray(values.cpu() if isinstance(values, Tensor) else values)
    except ValueError as error:
        remedy = "Pad short rows with -1 or ''."
        raise EvidenceError(
            fault(
                name,
                "must be one class an item or rows of equal length",
                "rows that differ",
                remedy=remedy,
            )
        ) from error
    if (
        table.dtype.kind in "US"
        and not isinstance(values, np.ndarray)
        and not all(isinstance(v, str) for v in _flat(values))
    ):
        raise EvidenceError(fault(name, "must be all text or all numbers", "both"))
    if table.ndim not in (1, 2):
        raise EvidenceError(fault(name, "must have one or two dimensions", f"shape {table.shape}"))
    return table


def _flat(values: Any) -> list[Any]:
    found: list[Any] = np.asarray(values, dtype=object).ravel().tolist()
    return found


def _with_gaps(name: str, table: Array) -> tuple[Array, NDArray[np.bool_]]:
    """The names, and where there are none: -1, "", None, NaN."""
    if table.dtype.kind == "O":
        missing = np.array([_nothing(v) for v in table.ravel()], dtype=bool).reshape(table.shape)
        present = table[~missing]
        text = {isinstance(v, str) for v in present}
        if len(text) > 1:
            raise EvidenceError(fault(name, "must be all text or all numbers", "both"))
        if text == {True}:
            return table, missing
        numbers = np.asarray(present.tolist()) if len(present) else np.empty(0, np.int64)
        if numbers.ndim != 1 or numbers.dtype.kind not in "biuf":
            raise EvidenceError(
                fault(
                    name, "must be names of classes: text, whole numbers or bools", repr(present[0])
                )
            )
        table = np.full(
            table.shape, -1, dtype=numbers.dtype if numbers.dtype.kind != "u" else np.int64
        )
        table[~missing] = numbers
        return _numbers(name, table, missing)
    if table.dtype.kind in "US":
        return table, np.asarray(table == np.array("", dtype=table.dtype))
    if table.dtype.kind not in "biuf":
        raise EvidenceError(
            fault(
                name,
                "must be names of classes: text, whole numbers or bools",
                f"an array of {table.dtype}",
            )
        )
    return _numbers(
        name,
        table,
        np.isnan(table) if table.dtype.kind == "f" else np.zeros(table.shape, dtype=bool),
    )


def _numbers(
    name: str, table: Array, missing: NDArray[np.bool_]
) -> tuple[Array, NDArray[np.bool_]]:
    if table.dtype.kind == "b":
        return table, missing
    missing = missing | (table == -1)
    if table.dtype.kind == "f":
        seen = table[~missing]
        if not np.isfinite(seen).all():
            raise EvidenceError(fault(name, "must be finite", "infinity"))
        if (seen != np.round(seen)).any():
            came = f"the continuous value {seen[seen != np.round(seen)][0]}"
            raise EvidenceError(
                fault(
                    name, "must be classes", came, remedy="Unknown label type: a regression target?"
                )
            )
    return table, missing


def _nothing(value: Any) -> bool:
    return (
        value is None
        or type(value).__name__ == "NAType"
        or (isinstance(value, str) and not value)
        or bool(value != value)
    )


def _class_names(classes: Any) -> Array:
    table = _table("classes", list(classes) if isinstance(classes, (set, frozenset)) else classes)
    values, missing = _with_gaps("classes", table)
    if values.ndim != 1 or missing.any():
        raise ArgumentError(
            f"classes must be a list of names, none of them -1, '' or None (no label); got {table.tolist()[:8]}."
        )
    names = np.unique(values)
    if len(names) < len(values):
        raise ArgumentError(f"classes must differ; got {values.tolist()[:8]}.")
    return _enough(names)


def _found_names(parts: Sequence[Array]) -> Array:
    some = [part for part in parts if len(part)]
    if not some:
        raise EvidenceError(
            fault(
                "ruled_out",
                "must name a class for at least one item",
                "none",
                remedy="-1, None and '' mean no label.",
            )
        )
    if len({_is_text(part) for part in some}) > 1:
        raise EvidenceError(
            fault("label", "must have names like those of ruled_out", "text against numbers")
        )
    return _enough(np.unique(np.concatenate(some)))


def _enough(names: Array) -> Array:
    if len(names) < 2:
        remedy = "Pass classes= with all of them; -1 means no label."
        raise EvidenceError(
            fault(
                "classes", "must be two or more", f"one class, {names.tolist()[0]!r}", remedy=remedy
            )
        )
    return names


def _is_text(values: Array) -> bool:
    return bool(values.dtype.kind in "USO")
