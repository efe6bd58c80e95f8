"""From counts to what the limits work on: binomial cells and score rows, one set per stratum.

A stratum here is a part of the items with one number of classes, one stratum name and one weight.
Estimates are made among the items with an answer and multiplied by the answered share, because an
item without an answer is wrong whatever its label.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from noracle.accuracy.score import (
    REACH,
    check_error_rates,
    corrected_score,
    guessed_scores,
    law_of,
    score_ends,
    sided_scores,
    succeeds,
)
from noracle.bounds.betting import Score
from noracle.bounds.linear import Cell
from noracle.bounds.special import betainc, chdtrc
from noracle.counts.label import Tally
from noracle.counts.tallies import AccuracyCounts
from noracle.errors import ArgumentError, EvidenceError, fault

Matrix = np.ndarray[Any, Any]
Guess = float | Literal["leave-one-out", "column"]
Question = tuple[
    float, float, float, float | None, float
]  # yes score, no score, relative weight, guess, share with an answer
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
        return sum(
            k
            for t, k in self.tallies.items()
            if t.answered and all(getattr(t, f) == v for f, v in match.items())
        )

    def usable(self, *, unanswered: bool = False) -> int:
        """Labelled items whose verdict is not unsure; with an answer, or all."""
        return sum(
            k
            for t, k in self.tallies.items()
            if t.verdict != "unsure" and (t.answered or unanswered)
        )


def strata_of(counts: AccuracyCounts) -> tuple[Stratum, ...]:
    """The strata of one system's counts, largest first, then by name."""
    rows = []
    for cell, tallies in counts.cells().items():
        items, answered = counts.items.get(cell, 0), counts.answered.get(cell, 0)
        if sum(n for t, n in tallies.items() if t.answered) > answered:
            raise EvidenceError(
                fault(
                    "counts",
                    "must not hold more labelled than answered items in a stratum",
                    f"{cell}",
                )
            )
        rows.append(
            Stratum(
                name=cell.stratum,
                n_classes=cell.n_classes,
                weight=cell.weight,
                items=items,
                answered=answered,
                tallies=tallies,
                most_answers=counts.most_answers.get(cell.system, 1),
            )
        )
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
        try:
            no = self.false_no[answer] if isinstance(self.false_no, Mapping) else self.false_no
            yes = self.false_yes[answer] if isinstance(self.false_yes, Mapping) else self.false_yes
        except KeyError:
            raise ArgumentError(
                f"false_no and false_yes must have a rate for every class that was answered; {answer!r} is not there."
            ) from None
        return no, yes

    def all(self) -> list[tuple[float, float]]:
        """The rates of every class that is named; one pair where none is."""
        named = [*(r for r in (self.false_no, self.false_yes) if isinstance(r, Mapping))]
        if not named:
            return [self.of(None)]
        return [self.of(answer) for answer in named[0]]


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

    def share(self, group: Group) -> float:
        """The part's answered items as a share of the population; all its items where the
        population goes beyond these.
        """
        return (
            sum(s.weight * (s.items if self.beyond else s.answered) for s in group) / self.total
            if self.total
            else 1.0
        )

    def labels(self, stratum: Stratum) -> int:
        """Labelled items that count."""
        return stratum.usable(unanswered=self.beyond)

    def factor(self, stratum: Stratum) -> float:
        """What a label of this stratum counts for: the stratum's share of the population over its
        share of the labels.
        """
        labelled = [s for g in self.groups for s in g if self.labels(s)]
        if not self.unequal:  # over all strata that could have been drawn, labelled or not
            sizes = [
                (s.weight, s.items if self.beyond else s.answered) for g in self.groups for s in g
            ]
            return (
                stratum.weight * sum(n for _, n in sizes) / sum(weight * n for weight, n in sizes)
            )
        mine = next(g for g in self.groups if any(s.place == stratum.place for s in g))
        known = sum(self.share(g) for g in self.groups if any(self.labels(s) for s in g))
        own, n = sum(map(self.labels, mine)), sum(map(self.labels, labelled))
        return self.share(mine) / known * n / own

    def describe(self, group: Group) -> dict[str, Any]:
        """What tells a part from the others."""
        return {
            "stratum": group[0].name if self.unequal else "",
            "n_classes": sorted({s.n_classes for s in group}),
        }


def sample_of(
    strata: tuple[Stratum, ...],
    *,
    apart: bool,
    method: str,
    scored: bool,
    whole: bool,
    beyond: bool,
) -> Sample:
    """The parts that the design forces, and no others.

    Numbers of classes are ``apart`` where a label's law depends on them: a uniform question is
    answered yes with probability 1/K. Strata are apart where they were labelled at different rates;
    where the labelled items look like a random sample of all (tests of the numbers of labels, which
    do not depend on what was said), the stratum says nothing about how an item was drawn. Weights
    are apart.
    """
    several = len({s.n_classes for s in strata if s.n()}) > 1
    unequal = label_rates_p_value(strata, beyond=beyond) < DIFFERENT_BELOW or (
        apart and several and method in _ONE_KIND
    )

    def key(s: Stratum) -> tuple[str, int, float]:
        weight = 0.0 if scored and not unequal else s.weight
        k = s.n_classes if (apart and not scored) or unequal else 0
        return s.name if unequal else "", k, weight

    keys = dict.fromkeys(key(s) for s in strata)
    groups = tuple(tuple(s for s in strata if key(s) == k) for k in keys)
    total = sum(s.weight * s.items for s in strata)
    return Sample(
        groups=groups, total=total, unequal=unequal, finite=whole and not beyond, beyond=beyond
    )


_ONE_KIND = ("ordinary", "complementary")


def label_rates_p_value(strata: Sequence[Stratum], *, beyond: bool = False) -> float:
    """How likely the numbers of usable labels in the strata are for a random sample of the answered
    items, or of all ``beyond`` these.
    """
    sizes: dict[tuple[str, int, float], list[int]] = {}
    for s in strata:
        row = sizes.setdefault(s.place, [0, 0])
        row[0] += s.items if beyond else s.answered
        row[1] += s.usable(unanswered=beyond)
    return rates_p_value([(size, n) for size, n in sizes.values()])


def rates_p_value(sizes: Iterable[tuple[int, int]]) -> float:
    """The same from (items, labels) of each part; 1 for one part.

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
    statistic = (
        sum((n - rate * size) ** 2 / size for size, n in rows)
        * (total - 1)
        / (total * rate * (1 - rate))
    )
    return min(1.0, 2 * min(each, float(chdtrc(len(rows) - 1, statistic))))


def many_weights(strata: Sequence[Stratum]) -> bool:
    """Whether weights are too many, or too thinly labelled, to be parts of their own; decided by
    numbers of labels alone.
    """
    labels: Counter[float] = Counter()
    for s in strata:
        labels[s.weight] += s.n()
    return len(labels) > 1 and (len(labels) > _FEW_WEIGHTS or min(labels.values()) < _FEWEST_LABELS)


def of_kind(strata: Sequence[Stratum], method: str) -> tuple[Stratum, ...]:
    """The strata with the labels that a method uses."""
    wanted = {"ordinary": "yes", "complementary": "no"}.get(method)
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
        tallies: Counter[Tally] = Counter()
        for t, n in s.tallies.items():
            tallies[t if t.answered else t._replace(answered=True, hit=False)] += n
        rows.append(dataclasses.replace(s, answered=s.items, tallies=dict(tallies)))
    return tuple(rows)


def binomial_cells(
    strata: Stratum | Group,
    kinds: LabelKinds = "both",
    *,
    rates: ErrorRates | None = None,
    seed: int = 0,
) -> tuple[Cell, ...]:
    """The labels of a part as binomial counts, each linear in the accuracy among answered items.

    With wrong verdicts, or where the answer itself was asked about on purpose, only questions about
    the answer count: their verdict is ``yes`` with probability φ + (1 - μ - φ)·A. Where strata of
    one part aimed with slightly different probabilities (1 - ε + ε/K), their questions are thinned
    at random to the smallest one, so that all of the part's items are there with the same
    probability.
    """
    group = (strata,) if isinstance(strata, Stratum) else strata
    if not are_binary(t for s in group for t in s.tallies):
        raise ArgumentError(
            "method must be 'scores' with interval fixed-n, betting or wald where repeats of an item differ; got another."
        )
    cells: list[Cell] = []
    aimed = [s for s in group if s.n(design="recorded") - s.n(design="recorded", verdict="unsure")]
    for s in aimed:
        _require_one_propensity(s)
    if rates is not None:
        false_no, false_yes = rates.of(None)
        for s in group:
            if s not in aimed:
                require_questions(s)
            yes, no = (
                s.n(verdict="yes", hit=True),
                s.n(verdict="no", hit=True) + s.n(verdict="yes", hit=False, design="graded"),
            )
            cells.append(Cell(yes + no, yes, false_yes, 1 - false_no - false_yes))
        return tuple(cells)
    if aimed and kinds == "complementary":
        raise ArgumentError(
            "method must not be 'complementary' where propensities were recorded: those labels are not uniform. Use 'scores'."
        )
    cells += _aimed_cells(aimed, seed)
    for s in group:
        for t, n in s.tallies.items():
            if not t.answered or t.design == "recorded":
                continue
            if (t.verdict == "yes" and kinds != "complementary") or (
                t.verdict == "no" and kinds != "ordinary"
            ):
                cells.append(
                    Cell(n, n if succeeds(t) else 0, *law_of(t.verdict, t.n_classes, t.n_ruled_out))
                )
    return tuple(cells)


def _aimed_cells(strata: Sequence[Stratum], seed: int) -> list[Cell]:
    """Verdicts on the answer itself, thinned to the smallest probability of a question about it."""
    if not strata:
        return []
    rng = np.random.default_rng(seed)
    chances = [max(_answer_propensities(s), default=1.0) for s in strata]
    cells = []
    for s, chance in zip(strata, chances, strict=True):
        keep = min(chances) / chance
        yes, no = (s.n(verdict=verdict, hit=True, design="recorded") for verdict in ("yes", "no"))
        if keep < 1 - 1e-12:
            yes, no = int(rng.binomial(yes, keep)), int(rng.binomial(no, keep))
        cells.append(Cell(yes + no, yes))
    return cells


MOST_THINNED = 0.8
"""Questions are thinned to the smallest probability only if that is at least this share of the
largest.
"""


def is_aimed(strata: Sequence[Stratum]) -> bool:
    """Whether every stratum was asked about this system's answers with one probability, nearly the
    same in all of them.
    """
    asked = [s for s in strata if s.n(design="recorded") - s.n(design="recorded", verdict="unsure")]
    chances = [_answer_propensities(s) for s in asked]
    if (
        not asked
        or any(len(c) != 1 for c in chances)
        or any(targeting_p_value(s) < 1e-3 for s in asked)
    ):
        return False
    seen = [min(c) for c in chances]
    return min(seen) >= MOST_THINNED * max(seen)


def _require_one_propensity(stratum: Stratum) -> None:
    """Questions aimed at this system have one probability; anything else biases the share of yes."""
    chances = _answer_propensities(stratum)
    p_value = targeting_p_value(stratum)
    if len(chances) > 1 or p_value < 1e-3:
        seen = (
            f"{len(chances)} different ones"
            if len(chances) > 1
            else f"too few questions about the answer (p = {p_value:.2g})"
        )
        raise ArgumentError(
            f"method must be 'scores' where answers were asked about with different probabilities; got {seen}. Pass method='scores'."
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
        return float("nan")
    return binomial_p_value(
        stratum.n(design="recorded", hit=True), stratum.n(design="recorded"), min(chances)
    )


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
            return float("nan"), float("nan")
        shares = [n / v / total for v, n, _, _ in kinds]
        mean = sum(w * m for w, (_, _, m, _) in zip(shares, kinds, strict=True))
        return mean, sum(
            w * w * spread / n for w, (_, n, _, spread) in zip(shares, kinds, strict=True)
        )


def _moments(scores: tuple[Score, ...]) -> tuple[float, float, float]:
    """Number, mean and unbiased variance of scores; the variance of a single one is NaN."""
    n = np.array([s.n for s in scores], dtype=float)
    value = np.array([s.value for s in scores])
    total = float(n.sum())
    mean = float(np.dot(n, value) / total)
    return (
        total,
        mean,
        float(np.dot(n, (value - mean) ** 2) / (total - 1)) if total > 1 else float("nan"),
    )


def score_rows(
    strata: tuple[Stratum, ...],
    *,
    factor: Callable[[Stratum], float],
    inverse: Matrix | None = None,
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
    if rates is not None:
        return _corrected_rows(strata, rates, factors, unanswered=unanswered)
    rows: Counter[tuple[int, float, float]] = Counter()
    questions: Counter[Question] = Counter()
    sides: Counter[tuple[float, float]] = Counter()
    # Every question must have its chance, or a bet would depend on the item.
    known = all(
        t.chance is not None
        for s in strata
        for t in s.tallies
        if t.design == "recorded" and t.answered and t.verdict != "unsure"
    )
    reach = REACH if known else 0.0
    for stratum in strata:
        f = factors[stratum.place]
        for t, n in stratum.tallies.items():
            if not (t.answered or unanswered) or t.verdict == "unsure":
                continue
            if t.design == "recorded":
                share = float(t.answered) if t.answered_share is None else t.answered_share
                questions[t.yes_score or 0.0, t.no_score or 0.0, f, t.guess, share] += n
                from_below, from_above = (
                    guessed_scores(t, _fixed_guess(t, guess)) if known else sided_scores(t)
                )
                sides[f * from_below, f * from_above] += n
            elif t.verdict == "no" and inverse is not None and t.answered:
                rows[1, f, _transition_value(t, inverse, classes)] += n
            else:
                rows[0 if t.verdict == "yes" else t.n_ruled_out, f, sided_scores(t)[0]] += n
    heaviest = max(factors.values(), default=1.0)
    ranges = {kind: _range(kind, strata, factors, inverse) for kind, _, _ in rows}
    most_answers = max((s.most_answers for s in strata), default=1)
    low, high = (
        (-reach * heaviest, (most_answers + reach) * heaviest) if questions else (0.0, heaviest)
    )
    shared = (
        len({s.n_classes for s in strata}) > 1 or bool(questions) or len(set(factors.values())) > 1
    )
    if shared and len(ranges) + bool(questions) > 1:
        low, high = (
            min(low, *(r[0] for r in ranges.values())),
            max(high, *(r[1] for r in ranges.values())),
        )
        ranges = dict.fromkeys(ranges, (low, high))
    by_kind: dict[int, list[Score]] = {kind: [] for kind in ranges}
    for (kind, f, value), n in rows.items():
        by_kind[kind].append(Score(f * value, *ranges[kind], n))
    plain = tuple(score for scores in by_kind.values() for score in scores)
    inf = float("inf")
    augmented = _augmented(questions, guess)
    by_variance = (
        *((spread_at_half(*ranges[kind]), tuple(scores)) for kind, scores in by_kind.items()),
        (0.25, augmented),
    )
    return ScoreRows(
        mean=((1.0, plain + augmented),) if shared else by_variance,
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
    inverse: Matrix | None,
) -> tuple[float, float]:
    """Smallest and largest possible score of a kind of label: 0 is ordinary, m > 0 has m ruled-out
    classes.
    """
    lows, highs = [0.0 if kind == 0 else 1.0], [0.0]
    most_answers = max((s.most_answers for s in strata), default=1)
    for s in strata:
        f = factors[s.place]
        least, most = 0.0, 1.0
        if kind and inverse is not None:
            least, most = float(inverse.min()), float(inverse.max())
        elif kind:
            least, most = score_ends("no", s.n_classes, kind, most_answers)
        lows.append(f * least)
        highs.append(f * most)
    return min(lows), max(highs)


def _corrected_rows(
    strata: tuple[Stratum, ...],
    rates: ErrorRates,
    factors: Mapping[tuple[str, int, float], float],
    *,
    unanswered: bool,
) -> ScoreRows:
    """Scores of uniform questions whose verdicts are wrong at known rates, which may differ by the
    class that was answered.
    """
    rows: Counter[float] = Counter()
    ends = [0.0, 1.0]
    for stratum in strata:
        require_questions(stratum)
        f = factors[stratum.place]
        asked = any(t.design != "graded" for t in stratum.tallies)
        for false_no, false_yes in rates.all():
            ends += [
                f
                * corrected_score(
                    asked_answer=True,
                    yes=yes,
                    propensity=1 / stratum.n_classes if asked else 1.0,
                    false_no=false_no,
                    false_yes=false_yes,
                )
                for yes in (True, False)
            ]
        for t, n in stratum.tallies.items():
            if t.verdict == "unsure" or not (t.answered or unanswered):
                continue
            value = 0.0
            if t.answered:
                false_no, false_yes = rates.of(t.answer)
                graded = t.design == "graded"
                value = corrected_score(
                    asked_answer=t.hit or graded,
                    yes=t.hit if graded else t.verdict == "yes",
                    propensity=1.0 if graded else 1 / t.n_classes,
                    false_no=false_no,
                    false_yes=false_yes,
                )
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


def _transition_value(t: Tally, inverse: Matrix, classes: tuple[int | str, ...] | None) -> float:
    if t.hit_share is not None:
        raise ArgumentError(
            "transition needs one answer per item and system; repeats of an item differ. Keep one of them, or pass repeats='all'."
        )
    if t.n_ruled_out != 1:
        raise ArgumentError(
            "transition needs one ruled-out class per item; several draws do not follow T. Drop all but one at random."
        )
    index = {c: i for i, c in enumerate(classes)} if classes is not None else None
    try:
        asked, answer = (t.asked, t.answer) if index is None else (index[t.asked], index[t.answer])  # type: ignore[index]
    except KeyError as missing:
        raise ArgumentError(
            f"classes must name every class in the order of the transition matrix; {missing} is not there."
        ) from None
    k = inverse.shape[0]
    if (
        not isinstance(asked, int)
        or not isinstance(answer, int)
        or not (0 <= asked < k and 0 <= answer < k)
        or t.n_classes != k
    ):
        raise ArgumentError(
            f"transition must have one row for each of the {t.n_classes} classes and counts by class; got {k} rows, ruled-out class "
            f"{asked!r} and answer {answer!r}. Pass classes=[…] for named classes."
        )
    return float(inverse[asked, answer])


def _augmented(questions: Counter[Question], guess: Guess) -> tuple[Score, ...]:
    """Scores f + (1 - f)·yes - f·no, where the guess f must not have seen the item's own verdict,
    so that they stay unbiased.

    By default f is the weighted share of yes among all *other* items; ``column`` takes the guess
    that came with the answer, where there is one.
    """
    total_yes = sum(yes * n for (yes, _, _, _, _), n in questions.items())
    total = sum((yes + no) * n for (yes, no, _, _, _), n in questions.items())
    scores = []
    for (yes, no, factor, own, share), n in questions.items():
        rest = total - yes - no
        f = (total_yes - yes) / rest if rest > 1e-12 else 0.5
        if guess == "column" and own is not None:
            f = own
        elif isinstance(guess, (int, float)):
            f = guess
        scores.append(
            Score(factor * (f * share + (1 - f) * yes - f * no), -float("inf"), float("inf"), n)
        )
    return tuple(scores)
