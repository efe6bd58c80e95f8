"""Batch after batch: an interval for a mean that is valid at every look, and the next plan from
what is in hand.

Each batch is weighted by what the batches before it say, so that its estimate is unbiased given the
past whatever the covariance is, and sums of batches are martingales. The interval is an asymptotic
confidence sequence (a normal mixture).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from noracle.errors import ArgumentError, EvidenceError, fault
from noracle.ppi.covariance import Array, Covariance, Moments, block
from noracle.ppi.estimate import ENOUGH, Task, guarantee_of, make_task
from noracle.ppi.intervals import Problem, Sample, blue_weights, classical, drop_useless
from noracle.ppi.table import group_samples, read_rows
from noracle.results import Estimate, check_confidence

if TYPE_CHECKING:
    from noracle.results import Plan


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """Sums over past batches: moments for the next weights, and Σw, Σw·θ̂, Σw²·variance; arrays may
    have an axis of worlds.
    """

    moments: Moments | None = None
    weight: Array = dataclasses.field(default_factory=lambda: np.zeros(()))
    total: Array = dataclasses.field(default_factory=lambda: np.zeros(()))
    spread: Array = dataclasses.field(default_factory=lambda: np.zeros(()))
    tuned: Array = dataclasses.field(default_factory=lambda: np.zeros(()))

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
    running: Running, samples: Sequence[Sample], problem: Problem, *, tuned_for: float = 10.0
) -> Running:
    """Add one batch; its weights come from the past alone.

    The first batch is weighted classically. Batches are weighed by their effective number of
    labelled rows, N times the classical variance over the weighted one, both foretold from the
    past.
    """
    columns, sizes = [s.columns for s in samples], [s.n for s in samples]
    d = problem.design.shape[0]
    labels = np.flatnonzero(problem.design @ problem.target)
    lead = samples[0].counts.shape[:-1]
    if running.moments is None:
        cov = np.broadcast_to(np.eye(d), (*lead, d, d))
        origin = np.zeros(d)
        for sample in samples:
            origin[list(sample.columns)] = sample.values.reshape(-1, len(sample.columns)).mean(
                axis=0
            )
    else:
        origin = running.moments.origin
        cov = running.moments.covariance(shrink=problem.shrink).cov
        if problem.raters:
            held = np.diagonal(running.moments.n, axis1=-2, axis2=-1)[..., labels].min(axis=-1)
            cov, _ = drop_useless(
                cov, columns, sizes, problem.target, problem.raters, held, design=problem.design
            )
    found = blue_weights(cov, columns, sizes, problem.target, design=problem.design)
    plain = blue_weights(
        cov * np.eye(d), columns, sizes, problem.target, design=problem.design
    ).variance
    value, variance = np.zeros(()), np.zeros(())
    for sample, weight in zip(samples, found.samples, strict=True):
        scores = (
            weight @ sample.values.T
            if sample.values.ndim == 2
            else (sample.values @ weight[..., None])[..., 0]
        )
        n = sample.n
        mean = (scores * sample.counts).sum(axis=-1) / np.maximum(n, 1)
        within = ((scores - mean[..., None]) ** 2 * sample.counts).sum(axis=-1) / np.maximum(
            n - 1, 1
        )
        foretold = np.einsum("...i,...ij,...j->...", weight, block(cov, sample.columns), weight)
        value, variance = (
            value + mean,
            variance + np.where(n >= 2, within, foretold) / np.maximum(n, 1),
        )
    labelled = np.asarray(sum(s.n for s in samples if set(s.columns) & set(labels.tolist())))
    worth = labelled * plain / found.variance
    moments = _pooled(
        running.moments,
        [Moments.of(s.values, s.counts, s.columns, origin) for s in samples if s.pilot],
    )
    spread = running.spread + worth**2 * variance
    tuned = running.tuned if running.moments is not None else tuned_for * np.maximum(spread, 1e-300)
    return Running(
        moments=moments,
        weight=running.weight + worth,
        total=running.total + worth * value,
        spread=spread,
        tuned=tuned,
    )


def _pooled(past: Moments | None, parts: Sequence[Moments]) -> Moments:
    total = past
    for part in parts:
        total = part if total is None else total + part
    if total is None:
        raise EvidenceError(fault("batch", "must have labelled rows", "none"))
    return total


class MeanStream:
    """Takes batches of scores and always holds an interval for a mean that is valid at every look.

    Plan, collect, update, look, re-plan with what is in hand: stopping when the interval is narrow
    enough is allowed. Sums are kept, rows are not, but for rows that wait for a label.

    Parameters
    ----------
    target
        The gold rater, or a mapping of names to coefficients.
    raters
        The columns of every batch.
    same_mean
        Columns that have the mean of another one, as in :func:`estimate_mean`.
    tuned_for
        The interval is narrowest when this many times the labels of the first batch are in hand.

    Notes
    -----
    The numbers of rows of a batch may depend on the past, not on the batch itself. The promise is
    asymptotic in the labels of the first look.

    References
    ----------
    Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas (2024), Ann. Statist. 52, 2613-2640.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(1)
    >>> stream = MeanStream(target="human", raters=["human", "judge"])
    >>> for _ in range(8):
    ...     truth = rng.random(100) < 0.7
    ...     judge = np.where(rng.random(100) < 0.9, truth, ~truth).astype(float)
    ...     stream.update({"human": [float(t) if i < 25 else None for i, t in enumerate(truth)], "judge": judge})
    >>> found = stream.estimate()
    >>> found.low < 0.7 < found.high, found.guarantee.anytime
    (True, True)
    """

    def __init__(
        self,
        *,
        target: str | Mapping[str, float],
        raters: Sequence[str],
        same_mean: Mapping[str, str] | None = None,
        confidence: float = 0.95,
        tuned_for: float = 10.0,
        shrink: bool = True,
        drop_useless: bool = True,
    ) -> None:
        if isinstance(raters, str):
            raise ArgumentError(f"raters must be a list of names; got {raters!r}.")
        if not tuned_for > 0:
            raise ArgumentError(f"tuned_for must be positive; got {tuned_for}.")
        self._begin(
            make_task(tuple(raters), target, same_mean), confidence, tuned_for, shrink, drop_useless
        )

    def _begin(
        self, task: Task, confidence: float, tuned_for: float, shrink: bool, drop_useless: bool
    ) -> None:
        self.task = task
        self.confidence = check_confidence(confidence)
        self.tuned_for = tuned_for
        self.shrink = shrink
        self.n_batches = 0
        self.rows: dict[str, int] = {}
        self._problem = task.problem(guard=drop_useless, shrink=shrink, cov=None)
        self._running = Running()
        self._waiting = np.zeros((0, len(task.columns)))
        self._past = [
            np.zeros(()),
            np.zeros(()),
            np.zeros(()),
        ]  # labels, their sum, their sum of squares, for the classical mean beside

    def update(self, data: object) -> None:
        """Add a batch: any table that :func:`estimate_mean` takes. Rows wait for the next batch
        where labels are missing.
        """
        self._add(read_rows(data, self.task.columns, "batch")[0])

    def _add(self, rows: Array) -> None:
        rows = np.concatenate([self._waiting, rows])
        grouped = group_samples(rows, self.task.labels, least=1)
        seen = {c for s in grouped.samples for c in s.columns}
        wanted = [j for j, a in enumerate(self.task.target) if a]
        labelled = min(
            sum(
                float(s.n)
                for s in grouped.samples
                if any(self.task.design[c, j] for c in s.columns)
            )
            for j in wanted
        )
        blind = labelled < 2 or not all(any(self.task.design[c, j] for c in seen) for j in wanted)
        # The first batch sets the scale: its labels must vary.
        if blind or (
            self._running.moments is None
            and not float(classical(grouped.samples, self._problem)[1]) > 0
        ):
            self._waiting = rows
            return
        self._running = advance(
            self._running, grouped.samples, self._problem, tuned_for=self.tuned_for
        )
        self._waiting = np.zeros((0, rows.shape[1]))
        self.n_batches += 1
        for sample in grouped.samples:
            name = self.task.name(sample)
            self.rows[name] = self.rows.get(name, 0) + int(sample.n)
        value, spread, n = classical(grouped.samples, self._problem)
        first, second, third = self._past
        self._past = [first + n, second + n * value, third + n**2 * spread]

    @property
    def low(self) -> float:
        """The lower limit now."""
        return self.estimate().low

    @property
    def high(self) -> float:
        """The upper limit now."""
        return self.estimate().high

    def covariance(self) -> Covariance:
        """Means and covariance of the columns, from all rows that taught the weights."""
        if self._running.moments is None:
            raise EvidenceError(
                fault(
                    "stream",
                    "must have a batch with labels that vary",
                    "none",
                    remedy="Call update first.",
                )
            )
        return self._running.moments.covariance(shrink=self.shrink)

    def replan(self, **options: Any) -> Plan:
        """The next plan, by :func:`plan_budget` with these options, the covariance so far, and the
        rows in hand already paid.
        """
        from noracle.ppi.plan import plan_budget

        if self.task.means != self.task.columns:
            raise ArgumentError(
                "replan must have one column per mean; got same_mean. Call plan_budget with labels of several kinds."
            )
        return plan_budget(
            cov=self.covariance().cov,
            names=self.task.columns,
            target=dict(self.task.coefficients),
            have=dict(self.rows),
            **options,
        )

    def estimate(self) -> Estimate:
        """The estimate now, with the interval that holds at all looks."""
        if self._running.moments is None:
            raise EvidenceError(
                fault(
                    "stream",
                    "must have a batch with labels that vary",
                    "none",
                    remedy="Call update first.",
                )
            )
        value, half = float(self._running.value), float(self._running.half_width(self.confidence))
        labels, total, spread = (float(v) for v in self._past)
        usual = total / labels
        notes = []
        if labels < ENOUGH:
            notes.append(
                f"only {labels:g} labelled rows: below {ENOUGH} the interval holds less often than it says"
            )
        if len(self._waiting):
            notes.append(f"{len(self._waiting)} rows wait for a batch with labels")
        return Estimate(
            quantity="mean",
            subject=self.task.subject,
            value=value,
            low=value - half,
            high=value + half,
            confidence=self.confidence,
            method="multippi",
            interval="anytime",
            se=math.sqrt(float(self._running.spread)) / float(self._running.weight),
            guarantee=guarantee_of(labels, self.confidence, anytime=True),
            notes=tuple(notes),
            counts={
                "items": sum(self.rows.values()),
                "labelled": int(labels),
                "batches": self.n_batches,
            },
            diagnostics={
                "measurements": dict(self.rows),
                "classical": {"value": usual, "se": math.sqrt(spread) / labels},
                "n_labelled": int(labels),
                "n_batches": self.n_batches,
                "effective_labels": float(self._running.weight),
            },
        )


def estimate_in_batches(
    task: Task, rows: Array, *, batches: int, confidence: float, shrink: bool, drop_useless: bool
) -> Estimate:
    """Deal rows of each kind, in their order, over batches, and look after the last."""
    if batches < 2:
        raise ArgumentError(f"batches must be at least 2; got {batches}.")
    stream = MeanStream.__new__(MeanStream)
    stream._begin(task, confidence, 10.0, shrink, drop_useless)
    seen = ~np.isnan(rows)
    _, which = np.unique(seen, axis=0, return_inverse=True)
    which = which.ravel()
    place = np.empty(len(rows), dtype=np.int64)
    for number in range(int(which.max()) + 1):
        chosen = np.flatnonzero(which == number)
        place[chosen] = np.arange(len(chosen)) * batches // len(chosen)
    for batch in range(batches):
        part = rows[place == batch]
        if len(part):
            stream._add(part)
    return stream.estimate()
