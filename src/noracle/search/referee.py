"""What the labels say of candidates: fitness, challenges and the final estimate. The only module
that takes labels out of the vault.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from noracle.bounds.betting import betting_interval
from noracle.results import Comparison, Difference, Estimate, Rank
from noracle.search.candidates import Outcome
from noracle.search.fitness import (
    ItemLabels,
    ItemScores,
    PairedScores,
    estimate_fitness,
    paired,
    score_outcomes,
)
from noracle.search.gate import Gate
from noracle.search.vault import Vault


class Referee:
    """Judges candidates with the labels of a vault, each part for its own purpose."""

    def __init__(self, vault: Vault, *, confidence: float) -> None:
        self._vault, self._confidence = vault, confidence
        self._validation = ItemLabels.from_evidence(vault.evidence("validation"))
        self._confirm = ItemLabels.from_evidence(vault.evidence("confirm"))
        # Half of the error rate; the other half is one side of the final comparison, so that
        # "better by one or the other" keeps it. How many challenges there will be is not known:
        # only a candidate that leads on validation makes one.
        self._gate = Gate(1 - (1 - confidence) / 2)

    def fitness(self, name: str, outcomes: Sequence[Outcome]) -> Estimate:
        """The value of a candidate on validation labels."""
        return estimate_fitness(outcomes, self._validation, confidence=self._confidence, name=name)

    def score(self, fitness: Estimate, outcomes: Sequence[Outcome]) -> float:
        """What candidates are ranked by: the fitness, or beyond 0 and 1, where it is clipped, the
        mean of the scores.

        With few labels many candidates are clipped to the same value, and their order is not the
        order in which they came.
        """
        if 0 < fitness.value < 1:
            return fitness.value
        mean = score_outcomes(outcomes, self._validation).mean
        return min(mean, fitness.value) if fitness.value <= 0 else max(mean, fitness.value)

    def challenge(self, new: Sequence[Outcome], old: Sequence[Outcome]) -> dict[str, Any]:
        """Whether confirm labels say that the first is better than the second, as plain values for
        the journal.

        The labels are fresh: validation scores alone choose who challenges, and nothing but the
        gate's yes or no has left them.
        """
        pairs = paired(score_outcomes(new, self._confirm), score_outcomes(old, self._confirm))
        decision = self._gate.challenge(pairs, fresh=True)
        kind = decision.guarantee.kind.label
        return {
            "accepted": decision.accepted,
            "n": decision.n,
            "difference": None if math.isnan(decision.value) else decision.value,
            "wealth": decision.wealth,
            "threshold": decision.threshold,
            "guarantee": f"{kind} at {self._gate.confidence:g}: no acceptance is false, over all challenges of the search",
        }

    def final(
        self, names: Sequence[str], outcomes: Sequence[Sequence[Outcome]]
    ) -> tuple[Estimate, Comparison | None]:
        """The value of the first candidate on final labels and, where there is a second, their
        difference; opens the final labels.
        """
        labels = ItemLabels.from_evidence(self._vault.take_final())
        value = estimate_fitness(outcomes[0], labels, confidence=self._confidence, name=names[0])
        if len(names) == 1:
            return value, None
        pair, level = (names[0], names[1]), self._confidence
        first, second = (score_outcomes(part, labels) for part in outcomes)
        return value, compare_scores(pair, first, second, confidence=level)


def compare_scores(
    names: tuple[str, str], first: ItemScores, second: ItemScores, *, confidence: float
) -> Comparison:
    """Two candidates on the same labels: paired differences with betting limits, repeats averaged
    inside an item.

    Without repeats the same as :func:`noracle.compare_systems`.
    """
    forward, backward = paired(first, second), paired(second, first)
    tail = (1 - confidence) / 2
    low, high = _least(forward, tail), -_least(backward, tail)
    low, high = min(low, high), max(low, high)
    # The plain difference of the two means; for aimed questions a bound's score has another form.
    value = first.mean - second.mean if forward.n else math.nan
    pair: dict[str, Any] = {"first": names[0], "second": names[1], "n": forward.n}
    difference = Difference(**pair, value=value, low=low, high=high)
    better = {"first": names[:1], "second": names[1:]}.get(difference.verdict, names)
    order = sorted(zip(names, (first.mean, second.mean), strict=True), key=lambda pair: -pair[1])
    ranks = tuple(
        Rank(system=s, best=1 if s in better else 2, worst=1 if better == (s,) else 2, value=v)
        for s, v in order
    )
    guarantee = Gate(confidence, 1).challenge(forward, fresh=True).guarantee
    return Comparison(
        systems=names,
        differences=(difference,),
        ranks=ranks,
        leaders=better,
        confidence=confidence,
        method="paired scores",
        interval="betting",
        guarantee=guarantee,
        counts={"labelled": forward.n},
        notes=() if len(better) == 1 else ("1 of 1 pairs cannot be separated with these labels",),
        reason="" if forward.n else "no labelled item that both answered",
    )


def _least(pairs: PairedScores, tail: float) -> float:
    return betting_interval(pairs.rows, tail, 0.0, floor=-1.0, ceiling=1.0)[0]
