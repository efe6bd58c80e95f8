"""Labels one by one: an interval that is valid at every look."""

from __future__ import annotations

import dataclasses
from collections import Counter
from typing import Any, Literal

from noracle.accuracy.estimate import VACUOUS, estimate_accuracy
from noracle.accuracy.score import cell_of, sided_rows
from noracle.bounds import binomial as linear
from noracle.bounds.betting import betting_interval
from noracle.counts.tally import AccuracyCounts, Label, Tally, check_n_classes
from noracle.counts.tally import Cell as Place
from noracle.errors import refuse, require, require_evidence
from noracle.results import Estimate, check_confidence

_VERDICTS = ("yes", "no", "unsure")


class AccuracyStream:
    """Takes labels one by one and always holds a valid interval for the accuracy of one system.

    The interval is a confidence sequence: it holds at every look together, with probability at
    least ``confidence``, if items come in random order and labels are taken in the order that was
    sealed beforehand. Only counts are kept, never items.

    Parameters
    ----------
    n_classes
        Number of classes of every item.
    interval
        ``anytime`` (likelihood mixture) for uniform questions or for questions aimed at this
        system; ``betting`` (scores) for recorded propensities and for streams in which some items
        have no answer and the answered share is not known.
    answered_share
        Share of the items that the system answered, known from the answers alone. With ``anytime``
        the items without an answer are left out and the interval is multiplied by this share.

    Notes
    -----
    ``anytime`` keeps every A with ∫ L(A') dA' / L(A) < 1/(1 - confidence), L being the likelihood
    of all labels so far; ``betting`` every A that no mixture of bets Π(1 + θ·(score - A)/(A - low))
    has driven to that wealth. At the true accuracy both processes have mean 1 at every look, so
    that they ever reach 1/ε with probability at most ε (Ville).

    Assumes that items come in random order, that the class asked about was drawn as the design
    says, that labels are taken in the order sealed beforehand, and that verdicts are right.

    References
    ----------
    Robbins (1970), Ann. Math. Statist. 41, 1397-1409 (likelihood mixtures); Waudby-Smith and Ramdas
    (2024), JRSS-B 86, 1-27 (betting).

    Examples
    --------
    >>> stream = AccuracyStream(n_classes=4)
    >>> for _ in range(50):
    ...     stream.update(answer=2, asked=2, verdict="yes")
    ...     stream.update(answer=2, asked=0, verdict="no")
    >>> stream.low > 0.85, stream.high
    (True, 1.0)
    """

    def __init__(
        self,
        *,
        n_classes: int,
        system: str = "system",
        confidence: float = 0.95,
        interval: Literal["anytime", "betting"] = "anytime",
        answered_share: float = 1.0,
    ) -> None:
        self.n_classes = check_n_classes(n_classes)
        self.system = system
        self.confidence = check_confidence(confidence)
        known = interval in ("anytime", "betting")
        require(known, f"interval must be 'anytime' or 'betting'; got {interval!r}.")
        some = 0 < answered_share <= 1
        require(some, f"answered_share must be in (0, 1]; got {answered_share}.")
        self.interval = interval
        self.answered_share = answered_share
        self.n = 0
        self._recorded = False
        self._tallies: Counter[Tally] = Counter()
        self._limits: tuple[float, float] | None = None

    def update(
        self, *, answer: Any, asked: Any, verdict: str, propensity: float | None = None
    ) -> None:
        """Take one label: class ``asked`` was judged ``verdict`` on an item that the system
        answered with ``answer`` (None: not at all).
        """
        require_evidence(
            verdict in _VERDICTS, "verdict", "must be yes, no or unsure", repr(verdict)
        )
        known = propensity is None or 0 < propensity <= 1
        require_evidence(known, "propensity", "must be in (0, 1]", propensity)
        every_look = self.interval == "anytime"
        # A bet may not depend on the item: an item that nobody answered is asked uniformly even in
        # a targeted design.
        recorded = propensity is not None and (
            not every_look or abs(propensity * self.n_classes - 1) > 1e-9
        )
        refuse(
            {
                "interval must be 'betting' for recorded propensities; got 'anytime'.": (
                    every_look and recorded
                ),
                "answered_share must be given (or interval='betting' chosen) once an item has no answer; got 1.0.": (
                    every_look and answer is None and self.answered_share == 1.0
                ),
                "propensity must be given for every label of a stream or for none; got some of each.": (
                    not every_look and self.n and recorded != self._recorded
                ),
            }
        )
        self._recorded = recorded
        label = Label(self.n_classes, verdict, frozenset({asked}), propensity if recorded else None)  # type: ignore[arg-type]
        self._tallies[label.meet(answer, system=self.system)] += 1
        self.n += 1
        self._limits = None

    @property
    def counts(self) -> AccuracyCounts:
        """The labels so far, as counts."""
        place = Place(self.system, self.n_classes)
        answered = sum(n for t, n in self._tallies.items() if t.answered)
        return AccuracyCounts(
            tallies=dict(self._tallies), items={place: self.n}, answered={place: answered}
        )

    @property
    def low(self) -> float:
        """Lower end of the interval now."""
        return self._now()[0]

    @property
    def high(self) -> float:
        """Upper end of the interval now."""
        return self._now()[1]

    def _now(self) -> tuple[float, float]:
        if self._limits is None:
            error = 1 - self.confidence
            if self.interval == "anytime":
                told = [(t, n) for t, n in self._tallies.items() if t.verdict != "unsure"]
                # Ordinary labels first, so that the order of labels changes nothing.
                told.sort(key=lambda row: row[0].verdict, reverse=True)
                cells = [cell_of(t, n) for t, n in told if t.answered]
                limits, share = linear.anytime(cells, error), self.answered_share
            else:
                lower, upper = sided_rows(self._tallies)
                low, _ = betting_interval(lower, error / 2, 0.0)
                _, high = betting_interval(upper, 0.0, error / 2)
                limits, share = linear.ordered(low, high), 1.0
            self._limits = limits.low * share, limits.high * share
        return self._limits

    def estimate(self) -> Estimate:
        """The estimate now, with its interval and guarantee."""
        counts, every_look = self.counts, self.interval == "anytime"
        estimate = estimate_accuracy(
            counts,
            method="ml" if every_look else "scores",
            interval=self.interval,
            confidence=self.confidence,
        )
        if every_look and counts.total(answered=False) == 0 and self.answered_share == 1.0:
            return estimate
        value, among = estimate.value, estimate.diagnostics["answered_share"]
        if every_look and among:
            value = value * self.answered_share / among
        notes = [note for note in estimate.notes if note != VACUOUS]
        notes += [VACUOUS] * (self.low <= 0 and self.high >= 1)
        return dataclasses.replace(
            estimate, value=value, low=self.low, high=self.high, notes=tuple(notes)
        )
