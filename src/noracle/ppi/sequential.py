"""Batch after batch: an interval for a mean that is valid at every look.

Each batch is weighted by what the batches before it say, so that its estimate is unbiased given the
past whatever the covariance is, and sums of batches are martingales. The interval is an asymptotic
confidence sequence (a normal mixture).
"""

from __future__ import annotations

import math
from collections import Counter
from functools import reduce
from operator import add
from typing import NamedTuple

import numpy as np

from noracle.errors import EvidenceError, require, require_evidence
from noracle.ppi.covariance import Array, Moments, block
from noracle.ppi.estimate import ENOUGH, MeanTask, few_labels, guarantee_of
from noracle.ppi.intervals import (
    MeanProblem,
    Samples,
    blue_weights,
    classical,
    combined,
    covariance_of,
    mean_and_variance,
)
from noracle.ppi.table import group_samples
from noracle.results import Estimate, check_confidence

TUNED_FOR = 10.0
_ZERO = np.zeros(())


class RunningMean(NamedTuple):
    """Moments of past batches, and Σw, Σw·θ̂, Σw²·variance; maybe with an axis of worlds."""

    moments: Moments | None = None
    weight: Array = _ZERO
    total: Array = _ZERO
    spread: Array = _ZERO
    tuned: Array = _ZERO

    @property
    def value(self) -> Array:
        """The estimate so far."""
        return self.total / self.weight

    def half_width(self, confidence: float) -> Array:
        """Half of the interval that holds at all looks together.

        With Q = Σw²v and ρ² set at the first look, |Σw(θ̂_b - θ)| ≤ √((Q + 1/ρ²)·log((Qρ² + 1)/α²))
        at every look, with probability 1-α as the first look moves out.
        """
        error = 1 - confidence
        rate = (-2 * math.log(error) + math.log(-2 * math.log(error) + 1)) / self.tuned
        grown = self.spread * rate + 1
        return np.asarray(np.sqrt(grown / rate * np.log(grown / error**2)) / self.weight)


def advance(
    running: RunningMean, samples: Samples, problem: MeanProblem, *, tuned_for: float = TUNED_FOR
) -> RunningMean:
    """Add one batch, weighted by the past alone (the first batch classically); its effective number
    of labelled rows is N times the classical variance over the weighted one, both foretold. The
    interval is narrowest when ``tuned_for`` times the labels of the first batch are in hand.
    """
    columns, sizes = [s.columns for s in samples], [s.n for s in samples]
    d, target, design = problem.design.shape[0], problem.target, problem.design
    labels = np.flatnonzero(design @ target)
    lead, past = samples[0].counts.shape[:-1], running.moments
    if past is None:
        cov = np.broadcast_to(np.eye(d), (*lead, d, d))
        origin = np.zeros(d)
        for sample in samples:
            rows = sample.values.reshape(-1, len(sample.columns))
            origin[list(sample.columns)] = rows.mean(axis=0)
    else:
        origin = past.origin
        cov, _, _ = covariance_of(past, problem, samples, lead)
    found = blue_weights(cov, columns, sizes, target, design=design)
    plain = blue_weights(cov * np.eye(d), columns, sizes, target, design=design).variance
    value, variance = np.zeros(()), np.zeros(())
    for sample, weight in zip(samples, found.samples, strict=True):
        mean, within = mean_and_variance(combined(sample.values, weight), sample.counts)
        foretold = np.einsum("...i,...ij,...j->...", weight, block(cov, sample.columns), weight)
        spread = np.where(sample.n >= 2, within, foretold) / np.maximum(sample.n, 1)
        value, variance = value + mean, variance + spread
    labelled = np.asarray(sum(s.n for s in samples if set(s.columns) & set(labels.tolist())))
    worth = labelled * plain / found.variance
    parts = [Moments.of(s.values, s.counts, s.columns, origin) for s in samples if s.pilot]
    parts = parts if past is None else [past, *parts]
    require_evidence(parts, "batch", "must have labelled rows", "none")
    spread = running.spread + worth**2 * variance
    return RunningMean(
        moments=reduce(add, parts),
        weight=running.weight + worth,
        total=running.total + worth * value,
        spread=spread,
        tuned=tuned_for * np.maximum(spread, 1e-300) if past is None else running.tuned,
    )


class MeanStream:
    """Takes batches of scores and always holds an interval for a mean that is valid at every look.

    Stopping when the interval is narrow enough is allowed. Sums are kept, rows are not, but for
    those that wait for a label. The numbers of rows of a batch may depend on the past, not on the
    batch itself. The promise is asymptotic in the labels of the first look: Waudby-Smith, Arbour,
    Sinha, Kennedy and Ramdas (2024), Ann. Statist. 52, 2613-2640.
    """

    def __init__(
        self,
        task: MeanTask,
        confidence: float = 0.95,
        shrink: bool = True,
        drop_useless: bool = True,
    ) -> None:
        self.task, self.confidence = task, check_confidence(confidence)
        self.n_batches, self.rows = 0, Counter[str]()
        self._problem = task.problem(guard=drop_useless, shrink=shrink, cov=None)
        self._running = RunningMean()
        self._waiting = np.zeros((0, len(task.columns)))
        self._past = np.zeros(3)  # labels, their sum and its variance, for the classical mean

    def update(self, rows: Array) -> None:
        """Add a batch of rows, NaN where not observed; they wait where labels are missing."""
        rows = np.concatenate([self._waiting, rows])
        samples = group_samples(rows, self.task.labels, least=1).samples
        means = self.task.design[:, np.flatnonzero(self.task.target)].T.astype(bool)
        seen = [(float(s.n), list(s.columns)) for s in samples]
        labelled = min(sum(n for n, columns in seen if own[columns].any()) for own in means)
        # The first batch sets the scale: its labels must vary.
        first = self._running.moments is None
        if labelled < 2 or (first and not float(classical(samples, self._problem)[1]) > 0):
            self._waiting = rows
            return
        self._running = advance(self._running, samples, self._problem)
        self._waiting = rows[:0]
        self.n_batches += 1
        for sample in samples:
            self.rows[self.task.name(sample)] += int(sample.n)
        value, spread, n = (float(v) for v in classical(samples, self._problem))
        self._past = self._past + np.array([n, n * value, n**2 * spread])

    def estimate(self) -> Estimate:
        """The estimate now, with the interval that holds at all looks."""
        if self._running.moments is None:
            rule, remedy = "must have a batch with labels that vary", "Call update first."
            raise EvidenceError.of("stream", rule, "none", remedy=remedy)
        value, half = float(self._running.value), float(self._running.half_width(self.confidence))
        labels, total, spread = self._past.tolist()
        notes = [few_labels(labels)] if labels < ENOUGH else []
        if len(self._waiting):
            notes.append(f"{len(self._waiting)} rows wait for a batch with labels")
        n_rows, weight = sum(self.rows.values()), float(self._running.weight)
        return Estimate(
            quantity="mean",
            subject=self.task.subject,
            value=value,
            low=value - half,
            high=value + half,
            confidence=self.confidence,
            method="multippi",
            interval="anytime",
            se=math.sqrt(float(self._running.spread)) / weight,
            guarantee=guarantee_of(labels, self.confidence, anytime=True),
            notes=tuple(notes),
            counts={"items": n_rows, "labelled": int(labels), "batches": self.n_batches},
            diagnostics={
                "measurements": dict(self.rows),
                "classical": {"value": total / labels, "se": math.sqrt(spread) / labels},
                "n_labelled": int(labels),
                "n_batches": self.n_batches,
                "effective_labels": weight,
            },
        )


def estimate_in_batches(stream: MeanStream, rows: Array, batches: int) -> Estimate:
    """Deal rows of each kind, in their order, over batches, and look after the last."""
    require(batches >= 2, f"batches must be at least 2; got {batches}.")
    which = np.unique(~np.isnan(rows), axis=0, return_inverse=True)[1].ravel()
    place = np.empty(len(rows), dtype=np.int64)
    for number in range(int(which.max()) + 1):
        chosen = np.flatnonzero(which == number)
        place[chosen] = np.arange(len(chosen)) * batches // len(chosen)
    for batch in np.unique(place):
        stream.update(rows[place == batch])
    return stream.estimate()
