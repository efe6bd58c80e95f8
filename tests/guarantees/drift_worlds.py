"""Streams of labels whose accuracy is known, for the promises about drift."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from noracle.accuracy.drift import Called, DriftRule, Moment, drift_of
from noracle.counts.tally import Label, Tally
from noracle.results import Drift

Stream = tuple[list[Moment], list[Called]]


def _moments(tallies: list[Tally], places: np.ndarray | None = None) -> list[Moment]:
    at = range(len(tallies)) if places is None else places.tolist()
    return [Moment(i, t) for i, t in zip(at, tallies, strict=True)]


def graded(rng: np.random.Generator, accuracy: np.ndarray) -> Stream:
    """Grades: right or wrong."""
    said = {True: Label.grade("yes").meet(""), False: Label.grade("no").meet("")}
    return _moments([said[r] for r in (rng.random(len(accuracy)) < accuracy).tolist()]), []


def uniform(rng: np.random.Generator, accuracy: np.ndarray, n_classes: int = 5) -> Stream:
    """One uniform question for each item: is it this class?"""
    return _moments(_asked(rng, accuracy, n_classes, None)), []


def targeted(rng: np.random.Generator, accuracy: np.ndarray, n_classes: int = 4) -> Stream:
    """Questions aimed at the answer, more often where that is right, with recorded propensities."""
    return _moments(_asked(rng, accuracy, n_classes, (0.7, 0.4))), []


def _asked(
    rng: np.random.Generator,
    accuracy: np.ndarray,
    k: int,
    aim: tuple[float, float] | None,
) -> list[Tally]:
    """The answer is class 0; the truth is another one where it is wrong."""
    n, known, tallies = len(accuracy), dict[tuple[int, int, float | None], Tally](), []
    right = rng.random(n) < accuracy
    truth = np.where(right, 0, rng.integers(1, k, n))
    # An aim that goes with the answer's chance to be right, seen before the verdict.
    hint = rng.random(n) < np.where(right, 0.8, 0.4)
    share = np.full(n, 1 / k) if aim is None else np.where(hint, *aim)
    hit = rng.random(n) < share
    asked = np.where(hit, 0, rng.integers(1, k, n))
    for t, c, p in zip(truth.tolist(), asked.tolist(), share.tolist(), strict=True):
        pi = None if aim is None else p if c == 0 else (1 - p) / (k - 1)
        key = int(t == c), c, pi
        if key not in known:
            rows = [(c, "yes" if t == c else "no", pi)]
            label = Label.of(rows, n_classes=k, recorded=aim is not None)  # type: ignore[arg-type]
            assert label is not None
            known[key] = label.meet(0)
        tallies.append(known[key])
    return tallies


def judged(
    rng: np.random.Generator,
    accuracy: np.ndarray,
    *,
    companions: int = 9,
    sensitivity: np.ndarray | float = 0.9,
    specificity: np.ndarray | float = 0.85,
) -> Stream:
    """Grades of one answer of so many in a random place, and a judge's verdicts on all."""
    n, each = len(accuracy), companions + 1
    right = rng.random((n, each)) < accuracy[:, None]
    yes = np.broadcast_to(np.asarray(sensitivity, dtype=float), n)[:, None]
    no = np.broadcast_to(np.asarray(specificity, dtype=float), n)[:, None]
    verdicts = rng.random((n, each)) < np.where(right, yes, 1 - no)
    mine = rng.integers(0, each, n)
    said = {True: Label.grade("yes").meet(""), False: Label.grade("no").meet("")}
    tallies = [said[r] for r in right[np.arange(n), mine].tolist()]
    called = verdicts.reshape(-1).astype(float).tolist()
    return (
        _moments(tallies, np.arange(n) * each + mine),
        [Called(i, f) for i, f in enumerate(called)],
    )


def drifting_judge(rng: np.random.Generator, accuracy: np.ndarray) -> Stream:
    """A judge that becomes lenient and then severe, suddenly and slowly, while nothing falls."""
    n = len(accuracy)
    t = np.arange(n) / n
    sensitivity = np.where(t < 0.3, 0.95, np.where(t < 0.6, 0.95 - (t - 0.3), 0.5))
    specificity = np.where(t < 0.45, 0.9, 0.4 + 0.3 * t)
    return judged(rng, accuracy, companions=4, sensitivity=sensitivity, specificity=specificity)


KINDS = {
    "graded": graded,
    "uniform": uniform,
    "targeted": targeted,
    "drifting judge": drifting_judge,
}


def found(kind: str, seeds: range, accuracy: np.ndarray, rule: DriftRule) -> Iterator[Drift]:
    """What is found in streams of one kind."""
    for seed in seeds:
        labels, verdicts = KINDS[kind](np.random.default_rng([seed, len(kind)]), accuracy)
        yield drift_of("a", labels, verdicts, rule)
