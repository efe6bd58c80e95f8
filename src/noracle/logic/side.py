"""What is known of the items must be possible in itself, before anything is proved from it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noracle.counts.sketch import Sketch
from noracle.errors import ArgumentError

Whole = NDArray[np.int64]


def check_prevalence(
    sketch: Sketch, prevalence: Mapping[str, tuple[int, int]] | None
) -> dict[str, tuple[int, int]]:
    """Prevalence ranges that are whole numbers in [0, Q] and agree with each other and with the
    known labels.

    Raises
    ------
    ArgumentError
        That says which range contradicts what. Otherwise the contradiction would look like an
        alarm.
    """
    Q = sketch.n_items
    found: dict[str, tuple[int, int]] = {}
    for label, given in (prevalence or {}).items():
        name = str(label)
        if name not in sketch.labels:
            raise ArgumentError(
                f"prevalence must be about labels among {list(sketch.labels)}; got {label!r}."
            )
        pair = (given, given) if isinstance(given, (int, np.integer)) else tuple(given)
        whole = len(pair) == 2 and all(
            isinstance(v, (int, np.integer)) and not isinstance(v, bool) for v in pair
        )
        if not whole or not 0 <= pair[0] <= pair[1] <= Q:
            raise ArgumentError(
                f"prevalence of {name!r} must be (low, high), whole numbers with 0 <= low <= high <= {Q}; got {given!r}."
            )
        found[name] = (int(pair[0]), int(pair[1]))
    if found:
        _agree(sketch, found)
    return found


def _agree(sketch: Sketch, bounds: Mapping[str, tuple[int, int]]) -> None:
    sets, inverse = np.unique(sketch.allowed, axis=0, return_inverse=True)
    n = np.zeros(len(sets), dtype=np.int64)
    np.add.at(n, inverse.ravel(), sketch.n)
    Q = sketch.n_items
    for name, (low, high) in bounds.items():
        r = sketch.labels.index(name)
        forced = int(n[sets[:, r] & (sets.sum(axis=1) == 1)].sum())
        possible = int(n[sets[:, r]].sum())
        if forced > high:
            raise ArgumentError(
                f"prevalence of {name!r} must be at least the {forced} items known to have it; got {low}..{high}."
            )
        if possible < low:
            raise ArgumentError(
                f"prevalence of {name!r} must be at most the {possible} items that can have it; got {low}..{high}."
            )
    lows = np.array([bounds.get(label, (0, Q))[0] for label in sketch.labels])
    highs = np.array([bounds.get(label, (0, Q))[1] for label in sketch.labels])
    if not lows.sum() <= Q <= highs.sum():
        said = ", ".join(f"{name} {low}..{high}" for name, (low, high) in bounds.items())
        raise ArgumentError(
            f"prevalence must leave room for all {Q} items, sum of low <= {Q} <= sum of high; got {said}."
        )
    if not sets.all() and not _fits(sets, n, lows, highs):
        said = ", ".join(f"{name} {low}..{high}" for name, (low, high) in bounds.items())
        raise ArgumentError(
            f"prevalence must agree with the known and ruled-out labels of the items; got {said}, which no true labels can have. "
            "Widen a range or correct the known labels."
        )


def _fits(sets: NDArray[np.bool_], n: Whole, lows: Whole, highs: Whole) -> bool:
    """Whether items can be given labels with all ranges kept: a flow, so that fractions help
    nobody.
    """
    from scipy import optimize, sparse

    group, label = np.nonzero(sets)
    cells = np.arange(len(group))
    ones = np.ones(len(cells))
    per_set = sparse.csr_array((ones, (group, cells)), shape=(len(sets), len(cells)))
    per_label = sparse.csr_array((ones, (label, cells)), shape=(sets.shape[1], len(cells)))
    linprog: Any = optimize.linprog  # takes sparse matrices too
    found = linprog(
        np.zeros(len(cells)),
        A_ub=sparse.vstack([per_label, -per_label]),
        b_ub=np.concatenate([highs, -lows]),
        A_eq=per_set,
        b_eq=n,
        method="highs",
    )
    return int(found.status) != 2
