"""The paper's labelling protocol and its seven estimators, through the public interface of noracle.

    Ord           n_o ordinary labels
    Comp-n_o      n_o items with one complementary label each
    Comp-(K−1)    n_o items with all their K−1 "no" labels, one cluster per item
    Comp-Indep    (K−1)·n_o items with one complementary label each
    Comp-Var      as many such items as give the variance of n_o ordinary labels (equation 5)
    IVW-0.5, IVW, ML   the labels of Ord and of Comp-Indep, on different items
    Comp-Printed  Comp-Indep as printed: an item without an answer counts as one whose answer was not ruled out

Labels are drawn, counted, and handed to ``noracle.estimate_accuracy``.
"""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from noracle import AccuracyCounts, Estimate, GuaranteeWarning, estimate_accuracy

Array = np.ndarray[Any, Any]

ROWS = ("Ord", "Comp-n_o", "Comp-(K−1)", "Comp-Indep", "Comp-Var", "IVW-0.5", "IVW", "ML")
PRINTED = "Comp-Printed"
_METHODS = {"Ord": "ordinary", "IVW-0.5": "weighted", "IVW": "ivw", "ML": "ml"}


class Labels(NamedTuple):
    """What an estimator of the paper sees: counts among items with an answer, and the population."""

    n_classes: int
    ordinary: tuple[int, int] = (0, 0)
    complementary: tuple[int, int] = (0, 0)
    n_ruled_out: int = 1
    n_items: int | None = None
    n_without_answer: int = 0


class Population(NamedTuple):
    """The answers of one system (-1: none) and the key, for items with the same number of classes."""

    n_classes: int
    key: Array
    given: Array

    @property
    def accuracy(self) -> float:
        """Share of right answers, no answer counted as wrong."""
        return float((self.given == self.key).mean())

    @property
    def among_answered(self) -> float:
        """Accuracy on the answered items."""
        return float((self.given == self.key).sum() / (self.given >= 0).sum())


class Run(NamedTuple):
    """One estimate with the two intervals that the tables compare."""

    value: float
    se: float
    wald: tuple[float, float]
    exact: tuple[float, float]


@dataclasses.dataclass(frozen=True, slots=True)
class Summary:
    """Many runs of one estimator, against the truth."""

    truth: float
    values: Array
    ses: Array
    wald: Array
    exact: Array

    @property
    def mean(self) -> float:
        """Mean of the estimates."""
        return float(self.values.mean())

    @property
    def sd(self) -> float:
        """Standard deviation of the estimates across runs."""
        return float(self.values.std(ddof=1))

    @property
    def se(self) -> float:
        """Mean of the standard errors that the runs report; runs without one (all right, all wrong)
        are left out.
        """
        known = self.ses[~np.isnan(self.ses)]
        return float(known.mean()) if known.size else math.nan

    def coverage(self, interval: str) -> float:
        """Share of runs whose interval holds the truth."""
        limits = self.exact if interval == "exact" else self.wald
        return float(np.mean((limits[:, 0] <= self.truth) & (self.truth <= limits[:, 1])))

    def width(self, interval: str) -> float:
        """Mean width of the intervals."""
        limits = self.exact if interval == "exact" else self.wald
        return float(np.mean(limits[:, 1] - limits[:, 0]))

    def deviations_of_three(self) -> Array:
        """Distance from the truth of each mean of three runs, as the paper averages three seeds."""
        threes = self.values[: len(self.values) // 3 * 3].reshape(-1, 3).mean(axis=1)
        return np.asarray(np.abs(threes - self.truth))


def variance_match(n_classes: int, accuracy: float, n_ordinary: int) -> int:
    """Complementary labels with the variance of ``n_ordinary`` ordinary ones: (1 + (K−2)/A)·n_o,
    equation (5).
    """
    return round((1 + (n_classes - 2) / accuracy) * n_ordinary)


@lru_cache(maxsize=100_000)
def _estimate(labels: Labels, method: str, interval: str) -> Estimate:
    counts = AccuracyCounts.from_counts(**labels._asdict())
    return estimate_accuracy(counts, method=method, interval=interval, weight=0.5)  # type: ignore[arg-type]


def run(labels: Labels, method: str, *, exact_too: bool = True) -> Run:
    """Estimate once; the exact interval depends on the labels only, so that IVW-0.5, IVW and ML
    share it.
    """
    wald = _estimate(labels, method, "wald")
    if not exact_too:
        return Run(wald.value, wald.se, (wald.low, wald.high), (math.nan, math.nan))
    exact = _estimate(labels, method if method in ("ordinary", "complementary") else "ml", "exact")
    return Run(wald.value, wald.se, (wald.low, wald.high), (exact.low, exact.high))


def draw_labels(
    rng: np.random.Generator, population: Population, n_ordinary: int
) -> dict[str, Labels]:
    """Label a random part of the items, without replacement, and count what each estimator may see."""
    k, key, given = population
    n_items = len(key)
    blank = Labels(k, n_items=n_items, n_without_answer=int((given < 0).sum()))
    order = rng.permutation(n_items)
    ruled_out = (key + 1 + rng.integers(k - 1, size=n_items)) % k
    n_var = min(n_items, variance_match(k, population.among_answered, n_ordinary))

    def ordinary(items: Array) -> tuple[int, int]:
        answered = items[given[items] >= 0]
        return len(answered), int((given[answered] == key[answered]).sum())

    def complementary(items: Array) -> tuple[int, int]:
        answered = items[given[items] >= 0]
        return len(answered), int((given[answered] != ruled_out[answered]).sum())

    first, rest = order[:n_ordinary], order[n_ordinary : k * n_ordinary]
    mixed = blank._replace(ordinary=ordinary(first), complementary=complementary(rest))
    n_rest = len(rest)
    return {
        "Ord": blank._replace(ordinary=ordinary(first)),
        "Comp-n_o": blank._replace(complementary=complementary(rest[:n_ordinary])),
        # All K−1 wrong classes are ruled out, so the answer escapes exactly when it is right.
        "Comp-(K−1)": blank._replace(complementary=ordinary(first), n_ruled_out=k - 1),
        "Comp-Indep": blank._replace(complementary=complementary(rest)),
        "Comp-Var": blank._replace(complementary=complementary(order[:n_var])),
        "IVW-0.5": mixed,
        "IVW": mixed,
        "ML": mixed,
        PRINTED: Labels(
            n_classes=k,
            complementary=(n_rest, n_rest - int((given[rest] == ruled_out[rest]).sum())),
            n_items=n_items,
        ),
    }


def draw_binomial(
    rng: np.random.Generator, n_classes: int, accuracy: float, n_ordinary: int
) -> dict[str, Labels]:
    """The same labels where only the accuracy is known: independent binomial counts."""
    k = n_classes
    q = (accuracy + k - 2) / (k - 1)

    def complementary(n: int) -> tuple[int, int]:
        return n, int(rng.binomial(n, q))

    right = (n_ordinary, int(rng.binomial(n_ordinary, accuracy)))
    rest = complementary((k - 1) * n_ordinary)
    mixed = Labels(k, ordinary=right, complementary=rest)
    return {
        "Ord": Labels(k, ordinary=right),
        "Comp-n_o": Labels(k, complementary=complementary(n_ordinary)),
        "Comp-(K−1)": Labels(k, complementary=right, n_ruled_out=k - 1),
        "Comp-Indep": Labels(k, complementary=rest),
        "Comp-Var": Labels(k, complementary=complementary(variance_match(k, accuracy, n_ordinary))),
        "IVW-0.5": mixed,
        "IVW": mixed,
        "ML": mixed,
    }


def repeat(
    draw: Callable[[], Mapping[str, Labels]],
    truth: float,
    repetitions: int,
    *,
    exact_too: bool = True,
) -> dict[str, Summary]:
    """Draw labels again and again and gather what every estimator said."""
    runs: dict[str, list[Run]] = {}
    with warnings.catch_warnings():
        # Showing where the normal interval fails is the purpose here.
        warnings.simplefilter("ignore", GuaranteeWarning)
        for row, labels in _rows(draw, repetitions):
            runs.setdefault(row, []).append(
                run(labels, _METHODS.get(row, "complementary"), exact_too=exact_too)
            )
    return {
        row: Summary(
            truth,
            *(
                np.array([getattr(r, field) for r in found])
                for field in ("value", "se", "wald", "exact")
            ),
        )
        for row, found in runs.items()
    }


def _rows(
    draw: Callable[[], Mapping[str, Labels]], repetitions: int
) -> Iterator[tuple[str, Labels]]:
    for _ in range(repetitions):
        yield from draw().items()
