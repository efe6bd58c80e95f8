"""Labels one by one: an interval that is valid at every look."""

from __future__ import annotations

import dataclasses
from collections import Counter
from typing import Any, Literal

from noracle.accuracy.estimate import VACUOUS, estimate_accuracy
from noracle.accuracy.score import law_of, sided_rows, succeeds
from noracle.bounds import binomial as linear
from noracle.bounds.betting import betting_interval
from noracle.counts.tally import AccuracyCounts, Label, Tally, check_n_classes
from noracle.counts.tally import Cell as Place
from noracle.errors import ArgumentError, EvidenceError, fault
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
        if interval not in ("anytime", "betting"):
            raise ArgumentError(f"interval must be 'anytime' or 'betting'; got {interval!r}.")
        if not 0 < answered_share <= 1:
            raise ArgumentError(f"answered_share must be in (0, 1]; got {answered_share}.")
        self.interval = interval
        self.answered_share = answered_share
        self.n = 0
        self._recorded = False
        self._tallies: Counter[Tally] = Counter()
        self._ordinary = [0, 0]
        self._complementary = [0, 0]
        self._limits: tuple[float, float] | None = None

    def update(
        self, *, answer: Any, asked: Any, verdict: str, propensity: float | None = None
    ) -> None:
        """Take one label: class ``asked`` was judged ``verdict`` on an item that the system
        answered with ``answer`` (None: not at all).
        """
        if verdict not in _VERDICTS:
            raise EvidenceError(fault("verdict", "must be yes, no or unsure", repr(verdict)))
        if propensity is not None and not 0 < propensity <= 1:
            raise EvidenceError(fault("propensity", "must be in (0, 1]", propensity))
        # A bet may not depend on the item: an item that nobody answered is asked uniformly even in
        # a targeted design.
        recorded = propensity is not None and (
            self.interval == "betting" or abs(propensity * self.n_classes - 1) > 1e-9
        )
        answered = answer is not None
        if self.interval == "anytime":
            if recorded:
                raise ArgumentError(
                    "interval must be 'betting' for recorded propensities; got 'anytime'."
                )
            if not answered and self.answered_share == 1.0:
                raise ArgumentError(
                    "answered_share must be given (or interval='betting' chosen) once an item has no answer; got 1.0."
                )
        elif self.n and recorded != self._recorded:
            raise ArgumentError(
                "propensity must be given for every label of a stream or for none; got some of each."
            )
        self._recorded = recorded
        label = Label(self.n_classes, verdict, frozenset({asked}), propensity if recorded else None)  # type: ignore[arg-type]
        met = label.meet(answer, system=self.system)
        self._tallies[met] += 1
        self.n += 1
        if answered and verdict != "unsure":
            counter = self._ordinary if verdict == "yes" else self._complementary
            counter[0] += 1
            counter[1] += int(succeeds(met))
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
                cells = (
                    linear.BinomialCell(self._ordinary[0], self._ordinary[1]),
                    linear.BinomialCell(
                        self._complementary[0],
                        self._complementary[1],
                        *law_of("no", self.n_classes),
                    ),
                )
                limits = linear.anytime(cells, error)
                self._limits = limits.low * self.answered_share, limits.high * self.answered_share
            else:
                lower, upper = sided_rows(self._tallies)
                low, _ = betting_interval(lower, error / 2, 0.0)
                _, high = betting_interval(upper, 0.0, error / 2)
                limits = linear.ordered(low, high)
                self._limits = limits.low, limits.high
        return self._limits

    def estimate(self) -> Estimate:
        """The estimate now, with its interval and guarantee."""
        counts = self.counts
        method: Literal["ml", "scores"] = "ml" if self.interval == "anytime" else "scores"
        estimate = estimate_accuracy(
            counts, method=method, interval=self.interval, confidence=self.confidence
        )
        if (
            self.interval == "anytime"
            and counts.total(answered=False) == 0
            and self.answered_share == 1.0
        ):
            return estimate
        share = self.answered_share if self.interval == "anytime" else 1.0
        among = estimate.diagnostics["answered_share"]
        value = (
            estimate.value * share / among
            if self.interval == "anytime" and among
            else estimate.value
        )
        notes = [note for note in estimate.notes if note != VACUOUS]
        if self.low <= 0 and self.high >= 1:
            notes.append(VACUOUS)
        return dataclasses.replace(
            estimate, value=value, low=self.low, high=self.high, notes=tuple(notes)
        )
