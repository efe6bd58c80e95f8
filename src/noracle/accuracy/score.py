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

import dataclasses
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np

from noracle.bounds import binomial as linear
from noracle.bounds import parts as sums
from noracle.bounds.betting import Score, betting_interval, fixed_interval
from noracle.bounds.binomial import BinomialCell, Limits, betainc, chdtrc, ndtri
from noracle.counts.tally import AccuracyCounts, Pattern, Tally, Verdict
from noracle.errors import ArgumentError, refuse, require, require_evidence

Floats = np.ndarray[Any, Any]


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
_K = TypeVar("_K")


def added(rows: Iterable[tuple[_K, int]]) -> Counter[_K]:
    """Numbers added up by their keys.

    Examples
    --------
    >>> added([("a", 2), ("b", 1), ("a", 3)])
    Counter({'a': 5, 'b': 1})
    """
    total: Counter[_K] = Counter()
    for key, n in rows:
        total[key] += n
    return total


def require_type(evidence: object, *types: type) -> None:
    """Raise an :class:`ArgumentError` unless the evidence has one of these types."""
    if not isinstance(evidence, types):
        names = " or ".join(t.__name__ for t in types)
        raise ArgumentError(
            f"evidence must be {names}; got {type(evidence).__name__}. Use Evidence.from_tables(…)."
        )


def law_of(verdict: Verdict, n_classes: int, n_ruled_out: int = 1) -> Law:
    """The law of a uniform label: the answer is right, or it is not among the classes ruled out."""
    if verdict == "yes":
        return ORDINARY
    share = n_ruled_out / (n_classes - 1)
    return Law(1 - share, share) if share < 1 else ORDINARY


def share_answered(t: Tally) -> float:
    """1 if there is an answer; of repeats that differ the share that has one, or how many different
    ones there are.
    """
    return float(t.answered) if t.answered_share is None else t.answered_share


def share_hit(t: Tally) -> float:
    """The same for answers that are the class that the label speaks of."""
    return float(t.hit) if t.hit_share is None else t.hit_share


def succeeds(t: Tally) -> float:
    """1 if the label speaks for the answer (it is confirmed, or not ruled out); of repeats that
    differ the share that does.
    """
    return share_hit(t) if t.verdict == "yes" else share_answered(t) - share_hit(t)


def score(t: Tally) -> float:
    """The score of a uniform label; for a question with a recorded propensity the plain form
    1{answer asked, yes}/propensity.

    Examples
    --------
    >>> from noracle.counts.tally import Label
    >>> [score(Label.of([(2, "no", None)], n_classes=5).meet(answer)) for answer in (2, 0, None)]
    [-3.0, 1.0, 0.0]
    """
    return sided_scores(t)[0]


def sided_scores(t: Tally) -> tuple[float, float]:
    """Two scores with the accuracy as their mean, for limits from below and from above.

    They differ only for questions with recorded propensities, where 1{asked, yes}/π is never
    negative and 1 - 1{asked, no}/π never above 1, so that no bound on the propensities is needed.
    """
    answered = share_answered(t)
    if t.design == "recorded":
        return t.yes_score or 0.0, answered - (t.no_score or 0.0)
    law = law_of(t.verdict, t.n_classes, t.n_ruled_out)
    value = law.score(succeeds(t), answered) if answered else 0.0
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
    >>> from noracle.counts.tally import Cell, tally
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


def assisted_scores(
    graded: Mapping[tuple[bool, float], int], *, mean: float, weight: float
) -> list[Score]:
    """Scores of graded answers (right or not, a judge's guess) with the accuracy as their mean:
    1{right} - λ·(guess - mean guess of all answers).

    Examples
    --------
    >>> [s.value for s in assisted_scores({(True, 0.75): 2, (False, 0.25): 1}, mean=0.5, weight=1.0)]
    [0.25, 0.75]
    """
    low, high = -weight * (1 - mean), 1 + weight * mean
    rows = sorted(graded.items())
    return [Score(y - weight * (f - mean), low, high, n) for (y, f), n in rows]


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


def pattern_scores(p: Pattern) -> Floats:
    """The score of every system of a pattern, as :func:`score` gives it."""
    if p.design == "recorded":
        return np.zeros(len(p.hits)) if p.yes_scores is None else np.array(p.yes_scores)
    answered = _answered(p)
    hit = np.array([bool(h) for h in p.hits] if p.hit_shares is None else p.hit_shares, dtype=float)
    law = law_of(p.verdict, p.n_classes, p.n_ruled_out)
    success = hit if p.verdict == "yes" else answered - hit
    return np.asarray(answered * law.high - (answered - success) / law.b)


def _answered(p: Pattern) -> Floats:
    """:func:`share_answered` of each system."""
    given = [hit is not None for hit in p.hits]
    return np.array(given if p.answered_shares is None else p.answered_shares, dtype=float)


class PatternScores:
    """Scores of many patterns as arrays, one row per pattern and one column per system.

    Examples
    --------
    >>> from noracle.counts.tally import Label
    >>> scores = PatternScores([Label.of([(2, "no", None)], n_classes=5).meet_all([2, 0])])
    >>> scores.value.tolist(), scores.lower(1, 0).tolist()
    ([[-3.0, 1.0]], [4.0])
    """

    def __init__(self, patterns: Sequence[Pattern]) -> None:
        size = len(patterns[0].hits) if patterns else 0

        def table(rows: Iterable[Any]) -> Floats:
            return np.array([*rows]).reshape(len(patterns), size)

        none = (0.0,) * size
        aimed = [p.design == "recorded" and p.groups is not None for p in patterns]
        self.aimed = np.array(aimed, dtype=bool)
        self.value = table(pattern_scores(p) for p in patterns)
        self._yes = table(p.yes_scores or none for p in patterns)
        self._no = table(p.no_scores or none for p in patterns)
        self._group = table(p.groups or (-1,) * size for p in patterns)
        self._answered = table(_answered(p) for p in patterns)

    def difference(self, i: int, j: int) -> Floats:
        """The score of system i minus that of system j."""
        return np.asarray(self.value[:, i] - self.value[:, j])

    def lower(self, i: int, j: int) -> Floats:
        """A score with mean A_i - A_j that is bounded below before the label is known.

        For questions it is 1{i's answer asked, yes}/π - (1 - 1{j's answer asked, no}/π) >= -1 where
        the answers differ, 0 where they agree.
        """
        if not self.aimed.any():
            return self.difference(i, j)
        apart = self._group[:, i] != self._group[:, j]
        asked = np.where(apart, self._yes[:, i] + self._no[:, j] - self._answered[:, j], 0.0)
        return np.asarray(np.where(self.aimed, asked, self.difference(i, j)))


def difference_scores(p: Pattern) -> Floats:
    """:meth:`PatternScores.lower` of every ordered pair of one pattern; 0 on the diagonal, and
    where it says nothing of one of the two.
    """
    if p.design != "recorded" or p.groups is None:
        scores = pattern_scores(p)
        found = np.asarray(np.subtract.outer(scores, scores))
        if p.known is None:
            return found
        return np.where(np.logical_and.outer(p.known, p.known), found, 0.0)
    group, none = np.array(p.groups), np.zeros(len(p.groups))
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
    hit: Floats, answered: Floats, *, yes: bool, propensity: float, guess: float = 0.0
) -> Floats:
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
    value = (float(yes) - false_yes) / ((1 - false_no - false_yes) * propensity)
    return value if asked_answer else 0.0


def transition_scores(transition: Sequence[Sequence[float]] | Floats) -> Floats:
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
    sums = matrix.sum(axis=1)
    if not np.all(np.isfinite(matrix)) or matrix.min() < 0 or np.abs(sums - 1).max() > 1e-8:
        raise ArgumentError(
            f"transition must have non-negative rows that sum to 1; got row sums {np.round(sums, 6).tolist()}. "
            "Rows are true classes, columns ruled-out classes."
        )
    condition = float(np.linalg.cond(matrix))
    if not condition < 1e10:
        raise ArgumentError(
            f"transition must be invertible; got condition number {condition:.3g}. Labels drawn this way cannot tell the classes apart."
        )
    return np.asarray(np.linalg.inv(matrix))


def check_error_rates(false_no: float, false_yes: float) -> None:
    """Raise unless both rates are in [0, 1) and together below 1."""
    if not (0 <= false_no < 1 and 0 <= false_yes < 1 and false_no + false_yes < 1):
        raise ArgumentError(
            f"false_no + false_yes must be below 1 with both in [0, 1); got {false_no} and {false_yes}. At 1 a verdict says nothing."
        )


# From counts to what the limits work on: binomial cells and score rows, one set per stratum.


Guess = float | Literal["leave-one-out", "column"]
LabelKinds = Literal["both", "ordinary", "complementary"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Stratum:
    """The labels of one stratum and its place in the population."""

    name: str
    n_classes: int
    weight: float
    items: int
    answered: int
    tallies: Mapping[Tally, int]
    most_answers: int = 1
    """The most different answers to an item, where any right one will do."""

    @property
    def place(self) -> tuple[str, int, float]:
        """Name, number of classes and weight."""
        return self.name, self.n_classes, self.weight

    @property
    def answered_share(self) -> float:
        """Share of its items with an answer."""
        return self.answered / self.items if self.items else 0.0

    def n(self, **match: object) -> int:
        """Labelled and answered items with these values."""
        match["answered"] = True
        return sum(
            k for t, k in self.tallies.items() if all(getattr(t, f) == v for f, v in match.items())
        )

    def usable(self, *, unanswered: bool = False) -> int:
        """Labelled items whose verdict is not unsure; with an answer, or all."""
        rows = ((t, k) for t, k in self.tallies.items() if t.verdict != "unsure")
        return sum(k for t, k in rows if t.answered or unanswered)


def strata_of(counts: AccuracyCounts) -> tuple[Stratum, ...]:
    """The strata of one system's counts, largest first, then by name."""
    rows = []
    for cell, tallies in counts.cells().items():
        stratum = Stratum(
            name=cell.stratum,
            n_classes=cell.n_classes,
            weight=cell.weight,
            items=counts.items.get(cell, 0),
            answered=counts.answered.get(cell, 0),
            tallies=tallies,
            most_answers=counts.most_answers.get(cell.system, 1),
        )
        rule = "must not hold more labelled than answered items in a stratum"
        require_evidence(stratum.n() <= stratum.answered, "counts", rule, f"{cell}")
        rows.append(stratum)
    return tuple(sorted(rows, key=lambda s: (-s.items, s.name, s.n_classes, s.weight)))


def are_binary(tallies: Iterable[Tally]) -> bool:
    """Whether every item is right or wrong and its label says which with a known chance: not so
    where repeats of an item differ.

    Ordinary labels are an exception where any right answer will do: one of several answers is
    right, or none.
    """
    rows = [t for t in tallies if t.verdict != "unsure"]
    if all(t.hit_share is None for t in rows):
        return True
    return all(
        t.verdict == "yes"
        and t.design == "uniform"
        and (t.answered_share is None or t.answered_share > 1)
        for t in rows
    )


@dataclasses.dataclass(frozen=True, slots=True)
class ErrorRates:
    """Known rates of wrong verdicts, P(no | right) and P(yes | wrong): one number, or one for each
    class that was answered.
    """

    false_no: float | Mapping[Any, float] = 0.0
    false_yes: float | Mapping[Any, float] = 0.0

    def __post_init__(self) -> None:
        for pair in self.all():
            check_error_rates(*pair)

    @property
    def by_class(self) -> bool:
        """Whether some rate differs by class."""
        return isinstance(self.false_no, Mapping) or isinstance(self.false_yes, Mapping)

    def of(self, answer: Any) -> tuple[float, float]:
        """The rates for questions about one answer."""
        rates = (self.false_no, self.false_yes)
        try:
            no, yes = (r[answer] if isinstance(r, Mapping) else r for r in rates)
        except KeyError:
            raise ArgumentError(
                f"false_no and false_yes must have a rate for every class that was answered; {answer!r} is not there."
            ) from None
        return no, yes

    def all(self) -> list[tuple[float, float]]:
        """The rates of every class that is named; one pair where none is."""
        named = [r for r in (self.false_no, self.false_yes) if isinstance(r, Mapping)]
        return [self.of(answer) for answer in (named[0] if named else (None,))]


Group = tuple[Stratum, ...]
DIFFERENT_BELOW = 0.03
"""Labels that fall on the strata as on a random sample with a smaller probability than this keep
the strata apart.
"""
_FEW_WEIGHTS, _FEWEST_LABELS = 8, 20


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """The parts of the items that must be kept apart, and how the labelled items were drawn from
    them.

    ``groups`` are the parts: strata whose labels follow one law and were drawn at one rate are in
    one. ``total`` is the weight of all items, ``unequal`` says that strata were labelled at
    different rates, ``finite`` that the items are all there are, and ``beyond`` that items without
    an answer are labelled items like the others.
    """

    groups: tuple[Group, ...]
    total: float
    unequal: bool = False
    finite: bool = False
    beyond: bool = False

    def size(self, stratum: Stratum) -> int:
        """Items that can have a label: answered ones; all where the population goes beyond these."""
        return stratum.items if self.beyond else stratum.answered

    def share(self, group: Group) -> float:
        """The part's answered items as a share of the population; all its items where the
        population goes beyond these.
        """
        weight = sum(s.weight * self.size(s) for s in group)
        return weight / self.total if self.total else 1.0

    def labels(self, stratum: Stratum) -> int:
        """Labelled items that count."""
        return stratum.usable(unanswered=self.beyond)

    def factor(self, stratum: Stratum) -> float:
        """What a label of this stratum counts for: the stratum's share of the population over its
        share of the labels.
        """
        strata = [s for g in self.groups for s in g]
        if not self.unequal:  # over all strata that could have been drawn, labelled or not
            weight = sum(s.weight * self.size(s) for s in strata)
            return stratum.weight * sum(map(self.size, strata)) / weight
        mine = next(g for g in self.groups if any(s.place == stratum.place for s in g))
        known = sum(self.share(g) for g in self.groups if any(map(self.labels, g)))
        own, n = sum(map(self.labels, mine)), sum(map(self.labels, strata))
        return self.share(mine) / known * n / own


def sample_of(
    strata: tuple[Stratum, ...],
    *,
    apart: bool,
    method: str,
    scored: bool,
    whole: bool,
    beyond: bool,
    stratified: bool = False,
) -> Sample:
    """The parts that the design forces, and no others; all strata where it is ``stratified``.

    Numbers of classes are ``apart`` where a label's law depends on them: a uniform question is
    answered yes with probability 1/K. Strata are apart where they were labelled at different rates;
    where the labelled items look like a random sample of all (tests of the numbers of labels, which
    do not depend on what was said), the stratum says nothing about how an item was drawn. Weights
    are apart.
    """
    several = len({s.n_classes for s in strata if s.n()}) > 1
    sizes = [(s.items if beyond else s.answered, s.usable(unanswered=beyond)) for s in strata]
    unequal = stratified or rates_p_value(sizes) < DIFFERENT_BELOW
    unequal = unequal or (apart and several and method in VERDICT_OF)
    groups: dict[tuple[str, int, float], list[Stratum]] = defaultdict(list)
    for s in strata:
        weight = 0.0 if scored and not unequal else s.weight
        n_classes = s.n_classes if (apart and not scored) or unequal else 0
        groups[s.name if unequal else "", n_classes, weight].append(s)
    return Sample(
        groups=tuple(map(tuple, groups.values())),
        total=sum(s.weight * s.items for s in strata),
        unequal=unequal,
        finite=whole and not beyond,
        beyond=beyond,
    )


VERDICT_OF: Mapping[str, Verdict] = {"ordinary": "yes", "complementary": "no"}
"""The verdict of the only labels that a method uses."""


def rates_p_value(sizes: Iterable[tuple[int, int]]) -> float:
    """How likely the numbers of labels in the parts are for a random sample of all items, from
    (items, labels) of each part; 1 for one part.

    Exact binomial for each part, Bonferroni. Where there are more than two, many small differences
    show together only: chi-square over all parts with the variance of draws without replacement,
    and twice the smaller p-value of the two.

    Examples
    --------
    >>> rates_p_value([(2000, 800), (2000, 200)]) < 1e-9, rates_p_value([(2000, 510), (2000, 490)])
    (True, 1.0)
    >>> rates_p_value([(100, 2), (100, 10)] * 10) < 0.001, rates_p_value([(100, 5), (100, 7)] * 10)
    (True, 1.0)
    """
    rows = [(size, n) for size, n in sizes if size]
    total, labelled = sum(size for size, _ in rows), sum(n for _, n in rows)
    if len(rows) < 2 or not labelled:
        return 1.0
    each = len(rows) * min(binomial_p_value(n, labelled, size / total) for size, n in rows)
    if len(rows) == 2 or labelled >= total:
        return min(1.0, each)
    rate = labelled / total
    off = sum((n - rate * size) ** 2 / size for size, n in rows)
    statistic = off * (total - 1) / (total * rate * (1 - rate))
    return min(1.0, 2 * min(each, float(chdtrc(len(rows) - 1, statistic))))


def many_weights(strata: Sequence[Stratum]) -> bool:
    """Whether weights are too many, or too thinly labelled, to be parts of their own; decided by
    numbers of labels alone.
    """
    labels = added((s.weight, s.n()) for s in strata)
    return len(labels) > 1 and (len(labels) > _FEW_WEIGHTS or min(labels.values()) < _FEWEST_LABELS)


def of_kind(strata: Sequence[Stratum], method: str) -> tuple[Stratum, ...]:
    """The strata with the labels that a method uses."""
    wanted = VERDICT_OF.get(method)
    if wanted is None:
        return tuple(strata)
    return tuple(
        dataclasses.replace(s, tallies={t: n for t, n in s.tallies.items() if t.verdict == wanted})
        for s in strata
    )


def with_unanswered(strata: Sequence[Stratum]) -> tuple[Stratum, ...]:
    """Strata with ordinary labels in which no answer is a wrong answer, for items beyond those that
    were asked about.
    """
    rows = []
    for s in strata:
        tallies = added(
            (t if t.answered else t._replace(answered=True, hit=False), n)
            for t, n in s.tallies.items()
        )
        rows.append(dataclasses.replace(s, answered=s.items, tallies=dict(tallies)))
    return tuple(rows)


def binomial_cells(
    strata: Stratum | Group,
    kinds: LabelKinds = "both",
    *,
    rates: ErrorRates | None = None,
    seed: int = 0,
) -> tuple[BinomialCell, ...]:
    """The labels of a part as binomial counts, each linear in the accuracy among answered items.

    With wrong verdicts, or where the answer itself was asked about on purpose, only questions about
    the answer count: their verdict is ``yes`` with probability φ + (1 - μ - φ)·A. Where strata of
    one part aimed with slightly different probabilities (1 - ε + ε/K), their questions are thinned
    at random to the smallest one, so that all of the part's items are there with the same
    probability.
    """
    group = (strata,) if isinstance(strata, Stratum) else strata
    require(
        are_binary(t for s in group for t in s.tallies),
        "method must be 'scores' with interval fixed-n, betting or wald where repeats of an item differ; got another.",
    )
    aimed = [s for s in group if _n_aimed(s)]
    for s in aimed:
        _require_one_propensity(s)
    if rates is not None:
        false_no, false_yes = rates.of(None)
        cells = []
        for s in group:
            if s not in aimed:
                require_questions(s)
            yes, no = (s.n(verdict=verdict, hit=True) for verdict in ("yes", "no"))
            no += s.n(verdict="yes", hit=False, design="graded")
            cells.append(BinomialCell(yes + no, yes, false_yes, 1 - false_no - false_yes))
        return tuple(cells)
    require(
        not aimed or kinds != "complementary",
        "method must not be 'complementary' where propensities were recorded: those labels are not uniform. Use 'scores'.",
    )
    wanted = {"yes", "no"} if kinds == "both" else {VERDICT_OF[kinds]}
    return (
        *_aimed_cells(aimed, seed),
        *(
            cell_of(t, n)
            for s in group
            for t, n in s.tallies.items()
            if t.answered and t.design != "recorded" and t.verdict in wanted
        ),
    )


def cell_of(t: Tally, n: int) -> BinomialCell:
    """``n`` uniform labels of one kind as binomial counts."""
    return BinomialCell(n, n * bool(succeeds(t)), *law_of(t.verdict, t.n_classes, t.n_ruled_out))


def _n_aimed(stratum: Stratum) -> int:
    """Questions with a recorded propensity that have a verdict."""
    return stratum.n(design="recorded") - stratum.n(design="recorded", verdict="unsure")


def _aimed_cells(strata: Sequence[Stratum], seed: int) -> list[BinomialCell]:
    """Verdicts on the answer itself, thinned to the smallest probability of a question about it."""
    rng = np.random.default_rng(seed)
    chances = [max(_answer_propensities(s), default=1.0) for s in strata]
    cells = []
    for s, chance in zip(strata, chances, strict=True):
        keep = min(chances) / chance
        yes, no = (s.n(verdict=verdict, hit=True, design="recorded") for verdict in ("yes", "no"))
        if keep < 1 - 1e-12:
            yes, no = int(rng.binomial(yes, keep)), int(rng.binomial(no, keep))
        cells.append(BinomialCell(yes + no, yes))
    return cells


MOST_THINNED = 0.8
"""Questions are thinned to the smallest probability only if that is at least this share of the
largest.
"""


def is_aimed(strata: Sequence[Stratum]) -> bool:
    """Whether every stratum was asked about this system's answers with one probability, nearly the
    same in all of them.
    """
    asked = [s for s in strata if _n_aimed(s)]
    chances = [_answer_propensities(s) for s in asked]
    if any(len(c) != 1 for c in chances) or any(targeting_p_value(s) < 1e-3 for s in asked):
        return False
    seen = [min(c) for c in chances]
    return bool(seen) and min(seen) >= MOST_THINNED * max(seen)


def _require_one_propensity(stratum: Stratum) -> None:
    """Questions aimed at this system have one probability; anything else biases the share of yes."""
    n, p_value = len(_answer_propensities(stratum)), targeting_p_value(stratum)
    if n > 1 or p_value < 1e-3:
        few = f"too few questions about the answer (p = {p_value:.2g})"
        raise ArgumentError(
            "method must be 'scores' where answers were asked about with different probabilities; "
            f"got {f'{n} different ones' if n > 1 else few}. Pass method='scores'."
        )


def _answer_propensities(stratum: Stratum) -> set[float]:
    chances: set[float] = set()
    for t in stratum.tallies:
        if t.answered and t.design == "recorded" and t.verdict != "unsure" and t.hit:
            inverse = (t.yes_score or 0.0) + (t.no_score or 0.0)
            chances.add(round(1 / inverse, 9) if inverse > 0 else 0.0)
    return chances


def targeting_p_value(stratum: Stratum) -> float:
    """Two-sided p-value of the number of questions about the answer, if each was asked with the one
    propensity seen; NaN if none.
    """
    chances = _answer_propensities(stratum)
    if len(chances) != 1 or min(chances) <= 0:
        return math.nan
    asked = stratum.n(design="recorded", hit=True)
    return binomial_p_value(asked, stratum.n(design="recorded"), min(chances))


def binomial_p_value(hits: int, n: int, p: float) -> float:
    """Two-sided p-value of ``hits`` of ``n`` with probability ``p`` each: twice the smaller tail.

    Examples
    --------
    >>> round(binomial_p_value(9, 10, 0.5), 4)
    0.0215
    """
    at_most = 1.0 if hits >= n else float(1 - betainc(hits + 1, n - hits, p))
    at_least = 1.0 if hits <= 0 else float(betainc(hits, n - hits + 1, p))
    return min(1.0, 2 * min(at_most, at_least))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ScoreRows:
    """Scores of the answered items of a sample; ``lower`` is for limits from below, ``upper`` for
    limits from above.

    Both have the accuracy as their mean. They differ only for questions with recorded propensities,
    where 1{asked, yes}/π is never negative and 1 - 1{asked, no}/π never above 1, so that no bound
    on the propensities is needed. ``mean`` has, for every kind of label, the scores for the value
    (augmented for questions) and the variance of one such score to expect at an accuracy of one
    half, which fixes the weights of the kinds beforehand and so keeps the value unbiased.
    """

    mean: tuple[tuple[float, tuple[Score, ...]], ...]
    lower: tuple[Score, ...]
    upper: tuple[Score, ...]

    @property
    def n(self) -> int:
        """Number of scores."""
        return sum(s.n for _, scores in self.mean for s in scores)

    def moments(self) -> tuple[float, float]:
        """The weighted mean of the scores and its estimated variance; NaN where undefined."""
        kinds = [(variance, *_moments(scores)) for variance, scores in self.mean if scores]
        total = sum(n / v for v, n, _, _ in kinds)
        if not total:
            return math.nan, math.nan
        shares = [n / v / total for v, n, _, _ in kinds]
        mean = sum(w * m for w, (_, _, m, _) in zip(shares, kinds, strict=True))
        spreads = (w * w * s / n for w, (_, n, _, s) in zip(shares, kinds, strict=True))
        return mean, sum(spreads)


def _moments(scores: tuple[Score, ...]) -> tuple[float, float, float]:
    """Number, mean and unbiased variance of scores; the variance of a single one is NaN."""
    n = np.array([s.n for s in scores], dtype=float)
    value = np.array([s.value for s in scores])
    total = float(n.sum())
    mean = float(np.dot(n, value) / total)
    spread = float(np.dot(n, (value - mean) ** 2))
    return total, mean, spread / (total - 1) if total > 1 else math.nan


def score_rows(
    strata: tuple[Stratum, ...],
    *,
    factor: Callable[[Stratum], float],
    inverse: Floats | None = None,
    classes: tuple[int | str, ...] | None = None,
    guess: Guess = "leave-one-out",
    rates: ErrorRates | None = None,
    unanswered: bool = False,
) -> ScoreRows:
    """One score for every labelled and answered item of these strata, times the ``factor`` of its
    stratum.

    ``unanswered`` items have the score 0 where they count as items like the others.

    A bet must not depend on anything that may go with the accuracy of an item: its number of
    classes, its weight, its answer. So ranges are taken over all strata. They differ by the *kind*
    of label only where the kind says nothing of the item. A uniform question is answered yes with
    probability 1/K, and aimed questions reach some items only; hence, where numbers of classes
    differ or only some labels have propensities, all kinds share one range and one mean.
    """
    factors = {s.place: factor(s) for s in strata}
    used = [
        (factors[s.place], t, n)
        for s in strata
        for t, n in s.tallies.items()
        if t.verdict != "unsure" and (t.answered or unanswered)
    ]
    if rates is not None:
        return _corrected_rows(strata, rates, factors, used)
    rows: Counter[tuple[int, float, float]] = Counter()
    asked = [(f, t, n) for f, t, n in used if t.design == "recorded"]
    # Every question must have its chance, or a bet would depend on the item.
    known = all(t.chance is not None for _, t, _ in asked if t.answered)
    sides: Counter[tuple[float, float]] = Counter()
    for f, t, n in asked:
        below, above = guessed_scores(t, _fixed_guess(t, guess)) if known else sided_scores(t)
        sides[f * below, f * above] += n
    for f, t, n in used:
        if t.design == "recorded":
            continue
        if t.verdict == "no" and inverse is not None and t.answered:
            rows[1, f, _transition_value(t, inverse, classes)] += n
        else:
            rows[0 if t.verdict == "yes" else t.n_ruled_out, f, sided_scores(t)[0]] += n
    heaviest = max(factors.values(), default=1.0)
    most_answers = max((s.most_answers for s in strata), default=1)
    ranges = {kind: _range(kind, strata, factors, inverse, most_answers) for kind, _, _ in rows}
    low, high = 0.0, heaviest
    if asked:
        reach = REACH if known else 0.0
        low, high = -reach * heaviest, (most_answers + reach) * heaviest
    n_sizes, n_factors = len({s.n_classes for s in strata}), len(set(factors.values()))
    shared = n_sizes > 1 or bool(asked) or n_factors > 1
    if shared and len(ranges) + bool(asked) > 1:
        lows, highs = zip(*ranges.values(), strict=True)
        low, high = min(low, *lows), max(high, *highs)
        ranges = dict.fromkeys(ranges, (low, high))
    by_kind: dict[int, list[Score]] = {kind: [] for kind in ranges}
    for (kind, f, value), n in rows.items():
        by_kind[kind].append(Score(f * value, *ranges[kind], n))
    plain = tuple(score for scores in by_kind.values() for score in scores)
    augmented = _augmented(asked, guess)
    by_variance = [(spread_at_half(*ranges[kind]), tuple(own)) for kind, own in by_kind.items()]
    inf = math.inf
    return ScoreRows(
        mean=((1.0, plain + augmented),) if shared else (*by_variance, (0.25, augmented)),
        lower=plain + tuple(Score(below, low, inf, n) for (below, _), n in sides.items()),
        upper=plain + tuple(Score(above, -inf, high, n) for (_, above), n in sides.items()),
    )


def _fixed_guess(t: Tally, guess: Guess) -> float | None:
    """A guess that was there before the labels; a share of yes on other items was not."""
    return t.guess if guess == "column" else None if isinstance(guess, str) else float(guess)


def _range(
    kind: int,
    strata: tuple[Stratum, ...],
    factors: Mapping[tuple[str, int, float], float],
    inverse: Floats | None,
    most_answers: int,
) -> tuple[float, float]:
    """Least and largest score of a kind of label: 0 is ordinary, m > 0 has m ruled-out classes."""
    lows, highs = [0.0 if kind == 0 else 1.0], [0.0]
    for s in strata:
        least, most = 0.0, 1.0
        if kind and inverse is not None:
            least, most = float(inverse.min()), float(inverse.max())
        elif kind:
            least, most = score_ends("no", s.n_classes, kind, most_answers)
        lows.append(factors[s.place] * least)
        highs.append(factors[s.place] * most)
    return min(lows), max(highs)


def _corrected_rows(
    strata: tuple[Stratum, ...],
    rates: ErrorRates,
    factors: Mapping[tuple[str, int, float], float],
    used: Sequence[tuple[float, Tally, int]],
) -> ScoreRows:
    """Scores of uniform questions whose verdicts are wrong at known rates, maybe by class."""

    def corrected(asked: bool, yes: bool, propensity: float, pair: tuple[float, float]) -> float:
        about: dict[str, Any] = {"asked_answer": asked, "yes": yes, "propensity": propensity}
        return corrected_score(**about, false_no=pair[0], false_yes=pair[1])

    ends = [0.0, 1.0]
    for s in strata:
        require_questions(s)
        chance = 1 / s.n_classes if any(t.design != "graded" for t in s.tallies) else 1.0
        pairs = [(pair, yes) for pair in rates.all() for yes in (True, False)]
        ends += [factors[s.place] * corrected(True, yes, chance, pair) for pair, yes in pairs]
    rows: Counter[float] = Counter()
    for f, t, n in used:
        value = 0.0
        if t.answered and t.design == "graded":
            value = corrected(True, t.hit, 1.0, rates.of(t.answer))
        elif t.answered:
            value = corrected(t.hit, t.verdict == "yes", 1 / t.n_classes, rates.of(t.answer))
        rows[f * value] += n
    scores = tuple(Score(value, min(ends), max(ends), n) for value, n in rows.items())
    return ScoreRows(mean=((1.0, scores),), lower=scores, upper=scores)


def require_questions(stratum: Stratum) -> None:
    """Raise unless the labels are grades, or come from uniform questions, one per item, answered
    yes or no.
    """
    labels = [t for t in stratum.tallies if t.verdict != "unsure" and t.design != "graded"]
    if any(t.hit_share is not None for t in labels):
        raise ArgumentError(
            "false_no and false_yes need one answer per item and system; repeats of an item differ. Keep one of them, or pass "
            "repeats='all'."
        )
    if any(t.n_ruled_out != (t.verdict == "no") or t.design != "uniform" for t in labels):
        got = "other labels"
    elif labels and all(t.verdict == "no" for t in labels) and not stratum.n(design="graded"):
        got = "no yes at all, as if only the classes that are not it had been kept"
    else:
        return
    raise ArgumentError(
        f"false_no and false_yes need the question protocol: one uniformly chosen class per item, answered yes or no; got {got}."
    )


def spread_at_half(low: float, high: float) -> float:
    """Variance of a score with mean 1/2 that sits at the ends of its range: exact for ordinary and
    complementary labels of one K.
    """
    return (high - 0.5) * (0.5 - low)


def _transition_value(t: Tally, inverse: Floats, classes: tuple[int | str, ...] | None) -> float:
    refuse(
        {
            "transition needs one answer per item and system; repeats of an item differ. Keep one of them, or pass repeats='all'.": (
                t.hit_share is not None
            ),
            "transition needs one ruled-out class per item; several draws do not follow T. Drop all but one at random.": (
                t.n_ruled_out != 1
            ),
        }
    )
    place: list[Any] = [t.asked, t.answer]
    if classes is not None:
        try:
            place = [classes.index(c) for c in place]
        except ValueError:
            missing = next(c for c in place if c not in classes)
            raise ArgumentError(
                f"classes must name every class in the order of the transition matrix; {missing!r} is not there."
            ) from None
    k = inverse.shape[0]
    if t.n_classes != k or not all(isinstance(c, int) and 0 <= c < k for c in place):
        raise ArgumentError(
            f"transition must have one row for each of the {t.n_classes} classes and counts by class; got {k} rows, ruled-out class "
            f"{place[0]!r} and answer {place[1]!r}. Pass classes=[…] for named classes."
        )
    return float(inverse[place[0], place[1]])


def _augmented(asked: Sequence[tuple[float, Tally, int]], guess: Guess) -> tuple[Score, ...]:
    """Scores f + (1 - f)·yes - f·no, where the guess f must not have seen the item's own verdict,
    so that they stay unbiased.

    By default f is the weighted share of yes among all *other* items; ``column`` takes the guess
    that came with the answer, where there is one.
    """
    questions = added(
        ((t.yes_score or 0.0, t.no_score or 0.0, factor, t.guess, share_answered(t)), n)
        for factor, t, n in asked
    )
    total_yes = sum(yes * n for (yes, *_), n in questions.items())
    total = sum((yes + no) * n for (yes, no, *_), n in questions.items())
    scores = []
    for (yes, no, factor, own, share), n in questions.items():
        rest = total - yes - no
        f = (total_yes - yes) / rest if rest > 1e-12 else 0.5
        if guess == "column" and own is not None:
            f = own
        elif isinstance(guess, (int, float)):
            f = guess
        value = factor * (f * share + (1 - f) * yes - f * no)
        scores.append(Score(value, -math.inf, math.inf, n))
    return tuple(scores)


# Value and limits of the accuracy from the labels of a sample: by binomial counts of its parts, or by scores.


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LimitSettings:
    """How the accuracy is to be estimated."""

    method: str
    interval: str
    weight: float
    inverse: Floats | None
    classes: tuple[int | str, ...] | None
    guess: Guess
    rates: ErrorRates | None
    seed: int = 0

    @property
    def scored(self) -> bool:
        """Whether scores are used, so that all items make one part."""
        return self.method == "scores" or self.interval in ("betting", "fixed-n")

    @property
    def kinds(self) -> LabelKinds:
        """The labels that the method uses."""
        return self.method if self.method in VERDICT_OF else "both"  # type: ignore[return-value]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """Value and limits of the accuracy over all items, and how they were made."""

    value: float
    limits: Limits
    variance: float
    n: int
    interval: str
    sharp: Limits | None = None
    parts: tuple[Mapping[str, Any], ...] = ()
    blind: float = 0.0
    fixed: bool = False
    """Whether the number of labels must have been fixed beforehand, whatever the interval promises
    otherwise.
    """
    clusters: int = 0
    """Clusters with labels, where the cluster is the unit."""
    design_effect: float = math.nan
    """How many times as many labels clusters cost: the variance over that of as many independent
    items.
    """


# from binomial counts


def from_cells(sample: Sample, settings: LimitSettings, below: float, above: float) -> Whole:
    """The accuracy from binomial counts, one set for each part of the sample; every part has one
    unknown rate of its own.
    """
    rows = []
    for group in sample.groups:
        cells = binomial_cells(group, settings.kinds, rates=settings.rates, seed=settings.seed)
        rows.append((group, linear.merge(cells)))
    known = [(sample.share(group), group, cells) for group, cells in rows if cells]
    blind = sum(sample.share(group) for group, cells in rows if not cells)
    told: list[dict[str, Any]] = [
        {
            "share": share,
            "n": sum(c.n for c in cells),
            "value": _value(cells, settings),
            "stratum": group[0].name if sample.unequal else "",
            "n_classes": sorted({s.n_classes for s in group}),
        }
        for share, group, cells in known
    ]
    value = variance = math.nan
    if known:
        value = sum(part["share"] * part["value"] for part in told) / (1 - blind)
        variance = sum(share**2 * _variance(cells, settings) for share, _, cells in known)
    parts = [sums.Part(share, cells, _size(sample, g, cells)) for share, g, cells in known]
    interval, sharp = settings.interval, None
    match interval:
        case "exact":
            chosen = _narrower(sample, known, parts, below, above)
            found = sums.sum_limits(chosen, below, above, blind=blind)
            limits = Limits(found.low, found.high, found.empty)
            plain = found.method in ("exact", "hypergeometric")
            interval = found.method if plain else "parts"
            if len(parts) > 1:
                sharp = sums.sum_profile(chosen, below, above, blind=blind)
        case "profile" if len(parts) == 1:
            share, alone = parts[0].share, linear.profile(parts[0].cells, below, above)
            limits = Limits(share * alone.low, share * alone.high + blind, alone.empty)
        case "profile":
            limits = sums.sum_profile(parts, below, above, blind=blind)
        case "wald":
            limits = normal_limits(value * (1 - blind), variance, below, above)
            limits = Limits(limits.low, limits.high + blind)
        case _:
            limits = _split(sample, known, settings, below, above, blind)
    return Whole(
        value=value,
        limits=_inside(limits),
        variance=variance,
        n=sum(part["n"] for part in told),
        interval=interval,
        sharp=sharp,
        parts=tuple(told) if len(rows) > 1 else (),
        blind=blind,
    )


_Known = Sequence[tuple[float, Group, tuple[BinomialCell, ...]]]


def _plain(cells: Iterable[BinomialCell]) -> tuple[BinomialCell, ...]:
    """The cells of ordinary labels."""
    return tuple(c for c in cells if c.a == 0 and c.b == 1)


def _size(sample: Sample, group: Group, cells: tuple[BinomialCell, ...]) -> int | None:
    """How many items there are to draw from, where all are known and labels are ordinary."""
    plain = len(_plain(cells)) == len(cells)
    return sum(s.answered for s in group) if sample.finite and plain else None


def _narrower(
    sample: Sample, known: _Known, parts: list[sums.Part], below: float, above: float
) -> list[sums.Part]:
    """The parts with all labels, or with ordinary ones alone where most items of a finite
    population have one: by the design.

    Ordinary labels of a random part of the items say what is left to know; a few labels of another
    kind would hide that.
    """
    plain = [_plain(cells) for _, _, cells in known]
    fewer = any(len(own) < len(part.cells) for own, part in zip(plain, parts, strict=True))
    if not sample.finite or not fewer or not all(plain):
        return parts
    others = [
        sums.Part(share, own, _size(sample, group, own))
        for (share, group, _), own in zip(known, plain, strict=True)
    ]
    return min((parts, others), key=lambda found: sums.predicted_width(found, below, above))


def _inside(limits: Limits) -> Limits:
    low, high = (min(max(end, 0.0), 1.0) for end in (limits.low, limits.high))
    return Limits(low, high, limits.empty)


def _split(
    sample: Sample,
    known: _Known,
    settings: LimitSettings,
    below: float,
    above: float,
    blind: float,
) -> Limits:
    """Limits of every part at an equal share of the error, added: for streams and for the papers'
    own bounds.

    Where every look counts, the error is shared by all parts that can have labels, whose number is
    fixed beforehand.
    """
    every_look, divide = settings.interval == "anytime", len(known)
    if every_look:
        divide = max(1, sum(any(s.answered for s in g) for g in sample.groups))

    def limits(cells: tuple[BinomialCell, ...]) -> Limits:
        if every_look:
            return sided_anytime(cells, below, above, divide)
        return _deviation(cells, settings, below / divide, above / divide)

    each = [(share, limits(cells)) for share, _, cells in known]
    low, high = sum(q * found.low for q, found in each), sum(q * found.high for q, found in each)
    return Limits(low, high + blind, any(found.empty for _, found in each))


def sided_anytime(
    cells: Iterable[BinomialCell], below: float, above: float, divide: int = 1
) -> Limits:
    """Limits at every look, on the sides that are asked for; the error is divided by ``divide``."""
    found = linear.anytime(cells, (below + above) / divide)
    low, high = found.low if below > 0 else 0.0, found.high if above > 0 else 1.0
    return Limits(low, high, found.empty)


# from scores


def from_scores(sample: Sample, settings: LimitSettings, below: float, above: float) -> Whole:
    """The accuracy from scores of all labelled items, each with its part's share of the population
    over its share of the labels.
    """
    groups = sample.groups
    labelled = [g for g in groups if any(map(sample.labels, g))]
    blind = sum(sample.share(g) for g in groups if not any(map(sample.labels, g)))
    scale = sum(sample.share(g) for g in groups) - blind
    rows = score_rows(
        tuple(s for g in labelled for s in g),
        factor=sample.factor,
        inverse=settings.inverse,
        classes=settings.classes,
        guess=settings.guess,
        rates=settings.rates,
        unanswered=sample.beyond,
    )
    mean, spread = rows.moments()
    interval = settings.interval
    if interval == "wald":
        limits = normal_limits(mean, spread, below, above)
    else:
        # Bets that adapt are not valid over parts with numbers of labels of their own; fixed ones
        # are, at a fixed number of labels.
        find = betting_interval
        if interval == "fixed-n" and not sample.unequal:
            find = partial(fixed_interval, seed=settings.seed)
        low, _ = find(rows.lower, below, 0.0)
        _, high = find(rows.upper, 0.0, above)
        limits = linear.ordered(low, high)
    single = len(groups) == 1 and not sample.beyond and len({s.weight for s in groups[0]}) == 1
    if single and settings.method != "scores":
        cells = binomial_cells(groups[0], settings.kinds)
        mean = _value(cells, settings) if cells else mean
    limits = Limits(scale * limits.low, scale * limits.high + blind, limits.empty)
    value = mean * scale / (1 - blind) if rows.n else math.nan
    if rows.n and interval == "fixed-n" and settings.rates is None and _all_known(sample):
        limits, interval = Limits(value, value), "hypergeometric"
    return Whole(
        value=value,
        limits=_inside(limits),
        variance=spread * scale**2,
        n=rows.n,
        interval=interval,
        blind=blind,
        fixed=sample.unequal,
    )


def _all_known(sample: Sample) -> bool:
    """Whether these items are all there are, and every one with an answer has an ordinary label."""
    strata = [s for g in sample.groups for s in g]
    told = [t for s in strata for t in s.tallies if t.answered]
    plain = all(t.verdict == "yes" and t.design == "uniform" for t in told)
    return sample.finite and plain and all(s.usable() == s.answered for s in strata)


def _weighted(
    cells: tuple[BinomialCell, ...], settings: LimitSettings
) -> list[tuple[float, BinomialCell]]:
    """The ordinary and the one complementary cell with the weights of the paper's estimators."""
    ordinary = next(iter(_plain(cells)), BinomialCell(0, 0))
    others = [c for c in cells if c is not ordinary]
    require(
        len(others) <= 1,
        "method must be 'ml' or 'scores' where items have different numbers of ruled-out classes.",
    )
    if not others or not ordinary.n:
        return [(1.0, others[0] if others else ordinary)]
    weight = ivw_weight(ordinary, others[0]) if settings.method == "ivw" else settings.weight
    return [(weight, ordinary), (1 - weight, others[0])]


def unclipped(cell: BinomialCell) -> float:
    """The rate at which a cell's observed share is expected, (share - a)/b; may leave [0, 1]."""
    return (cell.successes / cell.n - cell.a) / cell.b


def _value(cells: tuple[BinomialCell, ...], settings: LimitSettings) -> float:
    cells = linear.merge(cells)
    if settings.method in VERDICT_OF:
        n = sum(c.n for c in cells)
        return sum(c.n * unclipped(c) for c in cells) / n if n else math.nan
    if settings.method in ("ivw", "weighted"):
        return sum(w * unclipped(c) for w, c in _weighted(cells, settings))
    return linear.maximum_likelihood(cells)


def cell_variance(cell: BinomialCell, rate: float) -> float:
    """Variance of :func:`unclipped` at this rate."""
    p = cell.p(rate)
    return p * (1 - p) / (cell.b**2 * cell.n)


def ivw_weight(ordinary: BinomialCell, other: BinomialCell) -> float:
    """Weight of the ordinary estimate, from plug-in variances (equation 7).

    Where a plug-in variance is 0 (all right or all wrong) both variances are taken at the maximum
    of the joint likelihood instead, and at 0 or 1 from equation (8), in which 1 - A cancels;
    otherwise one lucky sample would get all the weight.
    """
    v_o, v_c = (cell_variance(cell, unclipped(cell)) for cell in (ordinary, other))
    if v_o <= 0 or v_c <= 0:
        rate = linear.maximum_likelihood((ordinary, other))
        v_o, v_c = cell_variance(ordinary, rate), cell_variance(other, rate)
        if v_o <= 0 or v_c <= 0:
            offset = other.a / other.b
            return (rate + offset) * ordinary.n / (rate * other.n + (rate + offset) * ordinary.n)
    return v_c / (v_o + v_c)


def _variance(cells: tuple[BinomialCell, ...], settings: LimitSettings) -> float:
    """Plug-in variance of the value at the maximum of the likelihood; NaN where that is 0 or 1."""
    rate = linear.maximum_likelihood(cells)
    info = linear.information(cells, rate)
    if not math.isfinite(info) or info <= 0:
        return math.nan
    weights: list[tuple[float, BinomialCell]] = []
    if settings.method == "weighted":
        weights = _weighted(cells, settings)
    elif settings.method in VERDICT_OF:
        n = sum(c.n for c in cells)
        weights = [(c.n / n, c) for c in cells]
    return sum(w**2 * cell_variance(c, rate) for w, c in weights) if len(weights) > 1 else 1 / info


def normal_limits(value: float, variance: float, below: float, above: float) -> Limits:
    """Normal limits inside [0, 1]; all of it without a positive variance."""
    if not variance > 0:
        return Limits(0.0, 1.0)
    se = math.sqrt(variance)
    low = value + float(ndtri(below)) * se if below > 0 else 0.0
    high = value - float(ndtri(above)) * se if above > 0 else 1.0
    return _inside(Limits(low, high))


# the papers' own deviation bounds


def _deviation(
    cells: tuple[BinomialCell, ...], settings: LimitSettings, below: float, above: float
) -> Limits:
    value, weights = _value(cells, settings), _weighted(cells, settings)
    if settings.interval == "theorem4":
        scale = max(w / (c.b * c.n) for w, c in weights)
        low, high = linear.bernstein_inverted(
            value,
            lambda a: sum(w**2 * cell_variance(c, a) for w, c in weights),
            scale,
            below,
            above,
        )
        return Limits(low, high)
    terms = [(w / c.b, c) for w, c in weights if w > 0]

    def hoeffding(tail: float) -> float:
        return sum(f * linear.hoeffding_radius(c.n, tail) for f, c in terms)

    def bernstein(tail: float) -> float:
        return sum(f * linear.bernstein_radius(c.successes / c.n, c.n, tail) for f, c in terms)

    def radius(tail: float) -> float:
        if tail <= 0:
            return math.inf
        share = tail / len(terms)
        if settings.interval in ("theorem2", "proposition3"):
            return min(hoeffding(share / 2), bernstein(share / 2))
        return hoeffding(share) if settings.interval == "hoeffding" else bernstein(share)

    return linear.clip(value - radius(below), value + radius(above))
