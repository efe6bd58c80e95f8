"""One tally becomes one score: the only place where a score is written.

Every piece of evidence becomes a number whose mean is the accuracy.

    ordinary label y, or a grade            1{answer = y}, 1{answer graded right}
    m classes ruled out, uniformly          1 - (K - 1)/m · 1{answer ruled out}
    ruled-out class drawn from T[y, ·]      T⁻¹[ruled out, answer]
    class k asked with probability π_k      f + 1{answer = k}·(verdict - f)/π_k, any guess f fixed beforehand
    the same with wrong verdicts            1{answer = k}·(verdict - φ)/((1 - μ - φ)·π_k)
    no answer                               0
    several answers to one item             the weighted sum of their scores: weight 1/runs (mean), or 1 for each different answer (any)

Each is unbiased for 1{answer is right} if, given the truth, the label does not depend on the answer
or the item (rows 2 and 3), if the recorded probabilities are right (rows 4 and 5), and if μ = P(no
| true) and φ = P(yes | false) hold for answers that were asked about (row 5).

The first two rows have one *law*: a label succeeds with probability a + b·1{answer is right}
(:class:`Law`), its score is (success - a)/b, and for any statistic of it E[e^{λS}] = A·right(λ) +
(1 - A)·wrong(λ).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from noracle.bounds.betting import Score
from noracle.counts.label import Pattern, Tally, Verdict
from noracle.errors import ArgumentError


class Law(NamedTuple):
    """A label that succeeds with probability ``a + b`` if the answer is right and ``a`` if it is
    wrong.

    Examples
    --------
    >>> law = law_of("no", n_classes=5, n_ruled_out=1)
    >>> law.score(True), law.score(False)
    (1.0, -3.0)
    """

    a: float = 0.0
    b: float = 1.0

    @property
    def low(self) -> float:
        """The least score."""
        return self.high - 1 / self.b

    @property
    def high(self) -> float:
        """The largest score: exactly 1 for ruled-out classes, where a + b = 1."""
        return 1.0 if self.a + self.b == 1 else (1 - self.a) / self.b

    def score(self, success: float, answered: float = 1.0) -> float:
        """The unbiased score, (success - a)/b; of repeats with these shares of successes and of
        answers their mean.
        """
        return answered * self.high - (answered - success) / self.b

    def generating(self, rate: float) -> tuple[float, float]:
        """E[e^{rate·score}] given a right and a wrong answer."""
        up, down = math.exp(rate * self.high), math.exp(rate * self.low)
        return tuple(p * up + (1 - p) * down for p in (self.a + self.b, self.a))  # type: ignore[return-value]

    @property
    def variance(self) -> float:
        """Variance of the score of an answer that is right with probability one half: fixes weights
        before any label is seen.
        """
        p = self.a + self.b / 2
        return p * (1 - p) / self.b**2


ORDINARY = Law()


def law_of(verdict: Verdict, n_classes: int, n_ruled_out: int = 1) -> Law:
    """The law of a uniform label: the answer is right, or it is not among the classes ruled out."""
    if verdict == "yes":
        return ORDINARY
    share = n_ruled_out / (n_classes - 1)
    return Law(1 - share, share) if share < 1 else ORDINARY


def succeeds(t: Tally) -> float:
    """1 if the label speaks for the answer (it is confirmed, or not ruled out); of repeats that
    differ the share that does.
    """
    answered = float(t.answered) if t.answered_share is None else t.answered_share
    hit = float(t.hit) if t.hit_share is None else t.hit_share
    return hit if t.verdict == "yes" else answered - hit


def score(t: Tally) -> float:
    """The score of a uniform label; for a question with a recorded propensity the plain form
    1{answer asked, yes}/propensity.

    Examples
    --------
    >>> from noracle.counts.label import Label
    >>> [score(Label.of([(2, "no", None)], n_classes=5).meet(answer)) for answer in (2, 0, None)]
    [-3.0, 1.0, 0.0]
    """
    return sided_scores(t)[0]


def sided_scores(t: Tally) -> tuple[float, float]:
    """Two scores with the accuracy as their mean, for limits from below and from above.

    They differ only for questions with recorded propensities, where 1{asked, yes}/π is never
    negative and 1 - 1{asked, no}/π never above 1, so that no bound on the propensities is needed.
    """
    answered = float(t.answered) if t.answered_share is None else t.answered_share
    if t.design == "recorded":
        return t.yes_score or 0.0, answered - (t.no_score or 0.0)
    value = (
        law_of(t.verdict, t.n_classes, t.n_ruled_out).score(succeeds(t), answered)
        if answered
        else 0.0
    )
    return value, value


REACH = 1.0
"""How far below 0, or above 1, the score of a question with a guess may be."""


def guessed_scores(t: Tally, guess: float | None = None) -> tuple[float, float]:
    """The two scores of a question with a guess f of correctness, f + 1{answer asked}·(verdict -
    f)/π, where π is known for every item.

    The guess is the chance π itself where none is given (a share of votes is a fair guess), kept
    below REACH·π/(1 - π), so that the score for limits from below is at least -REACH, and that for
    limits from above, with the guess 1 - f of a wrong answer, at most 1 + REACH.

    Examples
    --------
    >>> from noracle.counts.label import Cell, tally
    >>> guessed_scores(tally(Cell("a", 4), "no", hit=True, inverse=2.0, chance=0.5))
    (-0.5, -0.5)
    """
    if not t.answered or t.chance is None:
        return sided_scores(t)
    most = REACH * t.chance / (1 - t.chance) if t.chance < 1 else 1.0
    f = t.chance if guess is None else guess
    yes, no = t.yes_score or 0.0, t.no_score or 0.0
    right, wrong = min(f, most), min(1 - f, most)
    return right + (1 - right) * yes - right * no, 1 - (wrong + (1 - wrong) * no - wrong * yes)


def score_ends(
    verdict: Verdict, n_classes: int, n_ruled_out: int = 1, most_answers: int = 1
) -> tuple[float, float]:
    """The least and the largest score of a uniform label, where the scores of up to
    ``most_answers`` different answers are added.

    Of s answers at most min(s, m) are among the m classes ruled out, and each of these has the
    least score.

    Examples
    --------
    >>> score_ends("no", 5), score_ends("no", 5, most_answers=3), score_ends("yes", 5, most_answers=3)
    ((-3.0, 1.0), (-3.0, 3.0), (0.0, 1.0))
    """
    law = law_of(verdict, n_classes, n_ruled_out)
    if law == ORDINARY:
        return law.low, law.high
    return min(n_ruled_out, most_answers) * law.low, most_answers * law.high


def sided_rows(
    tallies: Mapping[Tally, int], *, n_classes: int | None = None
) -> tuple[list[Score], list[Score]]:
    """Scores of labelled items with the range of their kind, for limits from below and from above;
    ``unsure`` has none.

    ``n_classes`` gives all kinds the range of that number of classes: where numbers of classes
    differ, the kind of a label goes with the item, and a bet must not.
    """
    shared = None if n_classes is None else law_of("no", n_classes)
    lower, upper = [], []
    for t, n in tallies.items():
        if t.verdict == "unsure":
            continue
        from_below, from_above = sided_scores(t)
        if t.design == "recorded":
            lower.append(Score(from_below, 0.0, math.inf, n))
            upper.append(Score(from_above, -math.inf, 1.0, n))
        else:
            law = shared or law_of(t.verdict, t.n_classes, t.n_ruled_out)
            lower.append(Score(from_below, law.low, law.high, n))
            upper.append(lower[-1])
    return lower, upper


def pattern_scores(p: Pattern) -> np.ndarray[Any, Any]:
    """The score of every system of a pattern, as :func:`score` gives it."""
    if p.design == "recorded":
        return np.zeros(len(p.hits)) if p.yes_scores is None else np.array(p.yes_scores)
    answered = _answered(p)
    hit = np.array([bool(h) for h in p.hits] if p.hit_shares is None else p.hit_shares, dtype=float)
    law = law_of(p.verdict, p.n_classes, p.n_ruled_out)
    success = hit if p.verdict == "yes" else answered - hit
    return np.asarray(answered * law.high - (answered - success) / law.b)


def _answered(p: Pattern) -> np.ndarray[Any, Any]:
    """Whether each system has an answer; of repeats that differ the share that has one, or how many
    different ones there are.
    """
    return np.array(
        [hit is not None for hit in p.hits] if p.answered_shares is None else p.answered_shares,
        dtype=float,
    )


class PatternScores:
    """Scores of many patterns as arrays, one row per pattern and one column per system.

    Examples
    --------
    >>> from noracle.counts.label import Label
    >>> scores = PatternScores([Label.of([(2, "no", None)], n_classes=5).meet_all([2, 0])])
    >>> scores.value.tolist(), scores.lower(1, 0).tolist()
    ([[-3.0, 1.0]], [4.0])
    """

    def __init__(self, patterns: Sequence[Pattern]) -> None:
        size = len(patterns[0].hits) if patterns else 0
        self.value = np.array([pattern_scores(p) for p in patterns]).reshape(len(patterns), size)
        self.aimed = np.array(
            [p.design == "recorded" and p.groups is not None for p in patterns], dtype=bool
        )
        none = (0.0,) * size
        self._yes = np.array([p.yes_scores or none for p in patterns]).reshape(len(patterns), size)
        self._no = np.array([p.no_scores or none for p in patterns]).reshape(len(patterns), size)
        self._group = np.array([p.groups or (-1,) * size for p in patterns]).reshape(
            len(patterns), size
        )
        self._answered = np.array([_answered(p) for p in patterns]).reshape(len(patterns), size)

    def difference(self, i: int, j: int) -> np.ndarray[Any, Any]:
        """The score of system i minus that of system j."""
        return np.asarray(self.value[:, i] - self.value[:, j])

    def lower(self, i: int, j: int) -> np.ndarray[Any, Any]:
        """A score with mean A_i - A_j that is bounded below before the label is known.

        For questions it is 1{i's answer asked, yes}/π - (1 - 1{j's answer asked, no}/π) >= -1 where
        the answers differ, 0 where they agree.
        """
        if not self.aimed.any():
            return self.difference(i, j)
        apart = self._group[:, i] != self._group[:, j]
        asked = np.where(apart, self._yes[:, i] + self._no[:, j] - self._answered[:, j], 0.0)
        return np.asarray(np.where(self.aimed, asked, self.difference(i, j)))


def difference_scores(p: Pattern) -> np.ndarray[Any, Any]:
    """:meth:`PatternScores.lower` of every ordered pair of one pattern; 0 on the diagonal, and
    where it says nothing of one of the two.
    """
    scores = pattern_scores(p)
    if p.design != "recorded" or p.groups is None:
        found = np.asarray(np.subtract.outer(scores, scores))
        return (
            found
            if p.known is None
            else np.where(np.logical_and.outer(p.known, p.known), found, 0.0)
        )
    group = np.array(p.groups)
    none = np.zeros(len(group))
    yes, no = (none if side is None else np.array(side) for side in (p.yes_scores, p.no_scores))
    return np.asarray(np.where(group[:, None] == group, 0.0, yes[:, None] + no - _answered(p)))


def least_difference(
    verdict: Verdict,
    n_classes: int,
    n_ruled_out: int = 1,
    *,
    recorded: bool = False,
    most_answers: int = 1,
) -> float:
    """The least value that a difference of scores can take for a kind of label; answers that both
    systems gave cancel.
    """
    if recorded:
        return -float(most_answers)
    low, high = score_ends(verdict, n_classes, n_ruled_out, most_answers)
    return -max(high - low, 1.0)


def verification_scores(
    hit: np.ndarray[Any, Any],
    answered: np.ndarray[Any, Any],
    *,
    yes: bool,
    propensity: float,
    guess: float = 0.0,
) -> np.ndarray[Any, Any]:
    """Scores of the question "is it class k?" for several answers: f + 1{answer = k}·(verdict -
    f)/π_k, and 0 without an answer.

    Examples
    --------
    >>> verification_scores(np.array([True, False]), np.array([True, True]), yes=True, propensity=0.25, guess=0.5).tolist()
    [2.5, 0.5]
    """
    return np.asarray(np.where(answered, guess + hit * ((float(yes) - guess) / propensity), 0.0))


def corrected_score(
    *, asked_answer: bool, yes: bool, propensity: float, false_no: float, false_yes: float
) -> float:
    """Score of a question whose verdicts are wrong at known rates: 1{answer = k}·(verdict - φ)/((1
    - μ - φ)·π_k).
    """
    check_error_rates(false_no, false_yes)
    return (
        (float(yes) - false_yes) / ((1 - false_no - false_yes) * propensity)
        if asked_answer
        else 0.0
    )


def transition_scores(
    transition: Sequence[Sequence[float]] | np.ndarray[Any, Any],
) -> np.ndarray[Any, Any]:
    """Scores for ruled-out classes drawn from a known matrix: entry [ruled out, answer] of T⁻¹.

    ``transition[y][k]`` is P(class k is ruled out | the true class is y); rows sum to 1. Rows of
    T⁻¹ sum to 1, columns do not, so that a transposed matrix gives other scores unless it is
    symmetric.

    Examples
    --------
    >>> K = 4
    >>> uniform = (np.ones((K, K)) - np.eye(K)) / (K - 1)
    >>> np.allclose(transition_scores(uniform), np.ones((K, K)) - (K - 1) * np.eye(K))
    True
    """
    matrix = np.asarray(transition, dtype=float)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.shape[0] < 2:
        raise ArgumentError(
            f"transition must be a square matrix with one row per true class; got shape {matrix.shape}."
        )
    if (
        not np.all(np.isfinite(matrix))
        or matrix.min() < 0
        or np.abs(matrix.sum(axis=1) - 1).max() > 1e-8
    ):
        raise ArgumentError(
            f"transition must have non-negative rows that sum to 1; got row sums {np.round(matrix.sum(axis=1), 6).tolist()}. "
            "Rows are true classes, columns ruled-out classes."
        )
    condition = float(np.linalg.cond(matrix))
    if not condition < 1e10:
        raise ArgumentError(
            f"transition must be invertible; got condition number {condition:.3g}. Labels drawn this way cannot tell the classes apart."
        )
    inverse: np.ndarray[Any, Any] = np.linalg.inv(matrix)
    return inverse


def check_error_rates(false_no: float, false_yes: float) -> None:
    """Raise unless both rates are in [0, 1) and together below 1."""
    if not (0 <= false_no < 1 and 0 <= false_yes < 1 and false_no + false_yes < 1):
        raise ArgumentError(
            f"false_no + false_yes must be below 1 with both in [0, 1); got {false_no} and {false_yes}. At 1 a verdict says nothing."
        )
