"""Classifiers that err independently of each other: three can be solved for, four can be tested.

Given the true label, the answers of the classifiers are assumed independent *on this very test*.
Then the joint frequencies of three binary classifiers fix everything up to one choice between two
mirror images. Real classifiers share errors; the solution seldom shows it.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Hashable, Mapping, Sequence
from fractions import Fraction
from typing import Any, Literal

import numpy as np

from noracle.bounds.binomial import ndtr
from noracle.errors import ArgumentError, EvidenceError, fault
from noracle.logic.crowd import Pattern, read_patterns
from noracle.results import Check

Number = Fraction | float
Status = Literal["solved", "degenerate", "complex", "outside"]
_FEWEST = 30
_SHOWN = 10


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class BinaryEvaluation:
    """Prevalence of label A and the accuracies of each classifier on A and on B; None where a label
    does not occur.
    """

    prevalence_rate: Number | None
    accuracy_a: tuple[Number | None, ...]
    accuracy_b: tuple[Number | None, ...]

    def mirror(self) -> BinaryEvaluation:
        """The other evaluation with the same answers: P_a → 1 − P_a, P_{i,a} → 1 − P_{i,b}, P_{i,b}
        → 1 − P_{i,a} (Eq. 54–56, put right).

        Examples
        --------
        >>> e = BinaryEvaluation(prevalence_rate=Fraction(1, 4), accuracy_a=(Fraction(4, 5),), accuracy_b=(Fraction(2, 3),))
        >>> e.mirror().accuracy_a == (Fraction(1, 3),), e.mirror().mirror() == e
        (True, True)
        """
        return BinaryEvaluation(
            prevalence_rate=_less(self.prevalence_rate),
            accuracy_a=tuple(map(_less, self.accuracy_b)),
            accuracy_b=tuple(map(_less, self.accuracy_a)),
        )


def _less(x: Number | None) -> Number | None:
    return None if x is None else 1 - x


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TrioSolution:
    """What three binary classifiers must be if they err independently.

    ``solved``: ``branches`` holds both evaluations, first the one in which the product of the three
    P_{i,a} + P_{i,b} − 1 is positive. ``outside``: the same, but a value leaves [0, 1], so they do
    not err independently. ``complex``: no real solution, likewise. ``degenerate``: some pair shows
    no covariance; nothing can be solved for. ``reason`` says which. ``exact`` tells whether the
    values are Fractions; an irrational ``D`` is no sign of anything.
    """

    status: Status
    labels: tuple[Hashable, ...]
    branches: tuple[BinaryEvaluation, ...]
    covariances: tuple[Fraction, Fraction, Fraction]
    third_moment: Fraction
    discriminant: Fraction
    exact: bool
    reason: str = ""


def solve_trio(
    counts: Mapping[Pattern, int], *, labels: Sequence[Hashable] | None = None
) -> TrioSolution:
    """Solve for prevalence and accuracies of three binary classifiers that err independently; both
    branches.

    With f the frequencies of label B, Δ_ij = f_{b_i,b_j} − f_{b_i} f_{b_j}, κ = f_bbb − (f_1f_2f_3
    + f_1Δ_23 + f_2Δ_13 + f_3Δ_12), D² = κ² + 4Δ_12Δ_13Δ_23 and s = ±1:

    P_a = (1 + sκ/D)/2,   P_{i,a} = f_{a_i} + (sD − κ)/(2Δ_jk),   P_{i,b} = f_{b_i} + (sD + κ)/(2Δ_jk).

    Nothing is divided by κ, so P_a = 1/2 is no exception. The paper's Table 3 prints the branch s =
    −1 only.

    Seven frequencies and seven unknowns: any three classifiers near independence have a solution,
    right or wrong. A solution is not evidence of independence; with four or more classifiers use
    :func:`check_independence`.

    Parameters
    ----------
    counts
        Items of each pattern, such as ``{("a", "b", "a"): 113}``; three answers each.
    labels
        Label A and label B; in alphabetical order if left out.

    Examples
    --------
    >>> graders = {"aaa": 12, "aba": 121, "baa": 14, "bba": 87, "bab": 1, "abb": 13, "bbb": 33}
    >>> trio = solve_trio({tuple(k): n for k, n in graders.items()})
    >>> trio.status, f"{float(trio.discriminant):.3g}"
    ('complex', '-4.03e-06')
    """
    known, coded, n = _binary(counts, labels, 3)
    if len(next(iter(coded))) != 3:
        raise EvidenceError(fault("patterns", "must have three answers", len(next(iter(coded)))))

    def frequency(*who: int) -> Fraction:
        return Fraction(sum(k for p, k in coded.items() if all(p[i] == 1 for i in who)), n)

    f1, f2, f3 = (frequency(i) for i in range(3))
    d12, d13, d23 = frequency(0, 1) - f1 * f2, frequency(0, 2) - f1 * f3, frequency(1, 2) - f2 * f3
    kappa = frequency(0, 1, 2) - (f1 * f2 * f3 + f1 * d23 + f2 * d13 + f3 * d12)
    product = d12 * d13 * d23
    square = kappa**2 + 4 * product
    status, reason = _status((d12, d13, d23), square)
    branches: tuple[BinaryEvaluation, ...] = ()
    exact = True
    if not status or reason == _PREVALENCE:
        d = root(square)
        exact = isinstance(d, Fraction)
        across = (d23, d13, d12)
        plus = BinaryEvaluation(
            prevalence_rate=(1 + kappa / d) / 2,
            accuracy_a=tuple(
                1 - f + (d - kappa) / (2 * x) for f, x in zip((f1, f2, f3), across, strict=True)
            ),
            accuracy_b=tuple(
                f + (d + kappa) / (2 * x) for f, x in zip((f1, f2, f3), across, strict=True)
            ),
        )
        branches = (plus, plus.mirror())
        if not status and not all(
            _within(1 - f - kappa / (2 * x), x, square) and _within(f + kappa / (2 * x), x, square)
            for f, x in zip((f1, f2, f3), across, strict=True)
        ):
            status, reason = (
                "outside",
                "an accuracy leaves [0, 1], so the errors are not independent on this test",
            )
    return TrioSolution(
        status=status or "solved",
        labels=known,
        branches=branches,
        covariances=(d12, d13, d23),
        third_moment=kappa,
        discriminant=square,
        exact=exact,
        reason=reason,
    )


_PREVALENCE = "the prevalence leaves [0, 1], so the errors are not independent on this test"


def _status(
    covariances: tuple[Fraction, Fraction, Fraction], square: Fraction
) -> tuple[Status | None, str]:
    """The failures that show before anything is solved; under independence Δ_ij = P_a P_b d_i d_j."""
    zeros = sum(x == 0 for x in covariances)
    if zeros == 1:
        return (
            "degenerate",
            "exactly one pair has no covariance, which independent errors cannot do",
        )
    if zeros:
        return (
            "degenerate",
            "pairs without covariance: a classifier that only guesses, or only one true label",
        )
    if square < 0:
        return "complex", "D² is negative, so the errors are not independent on this test"
    if square == 0:
        return (
            "outside",
            "D is 0 and the prevalence infinite, so the errors are not independent on this test",
        )
    if math.prod(covariances) < 0:
        return "outside", _PREVALENCE
    return None, ""


def _within(rational: Fraction, covariance: Fraction, square: Fraction) -> bool:
    """Whether 0 ≤ rational + √square/(2·covariance) ≤ 1, decided in whole numbers."""
    low, high = sorted((-rational * 2 * covariance, (1 - rational) * 2 * covariance))
    return (low <= 0 or low**2 <= square) and high >= 0 and square <= high**2


def evaluate_majority(
    counts: Mapping[Pattern, int], *, labels: Sequence[Hashable] | None = None
) -> BinaryEvaluation:
    """Prevalence and accuracies if the majority were the answer key (Table 3 of the paper, beside
    :func:`solve_trio`).

    An odd number of binary classifiers. Accuracies against the majority are agreement with it: too
    high when errors are shared, and each classifier is a part of its own judge.

    Examples
    --------
    >>> evaluate_majority({("a", "a", "b"): 3, ("b", "b", "b"): 1}).prevalence_rate
    Fraction(3, 4)
    """
    _, coded, n = _binary(counts, labels, 1)
    size = len(next(iter(coded)))
    if size % 2 == 0:
        raise EvidenceError(
            fault(
                "patterns", "must have an odd number of answers, so that there is a majority", size
            )
        )
    vote = {p: int(2 * sum(p) > size) for p in coded}
    total = [sum(k for p, k in coded.items() if vote[p] == t) for t in (0, 1)]

    def share(i: int, t: int) -> Fraction | None:
        return (
            Fraction(sum(k for p, k in coded.items() if vote[p] == t == p[i]), total[t])
            if total[t]
            else None
        )

    return BinaryEvaluation(
        prevalence_rate=Fraction(total[0], n),
        accuracy_a=tuple(share(i, 0) for i in range(size)),
        accuracy_b=tuple(share(i, 1) for i in range(size)),
    )


# tetrads


def check_independence(
    counts: Mapping[Pattern, int],
    *,
    systems: Sequence[str] | None = None,
    labels: Sequence[Hashable] | None = None,
) -> Check:
    """Do four or more binary classifiers err independently given the true label? A test of the
    tetrads.

    Under independence Δ_ij = P_a P_b d_i d_j, so Δ_ijΔ_kl = Δ_ikΔ_jl for any four. Each of the
    3·C(N, 4) differences is divided by its standard error (delta method, with one more item than
    was seen) and the smallest normal p-value is multiplied by their number (Bonferroni).

    ASYMPTOTIC, for items drawn independently; NaN below 30 items. Where classifiers hardly inform
    (Δ near 0) the test is conservative. A pass proves nothing: errors that all classifiers share
    alike, up to identical copies, keep every tetrad at 0.

    Parameters
    ----------
    counts
        Items of each pattern; patterns of at least four answers, two labels.
    systems
        Names of the classifiers, for the finding.
    labels
        Label A and label B; in alphabetical order if left out.

    References
    ----------
    Drton and Xiao, "Wald tests of singular hypotheses", Bernoulli 22 (2016), on tetrads where the
    gradient vanishes.

    Examples
    --------
    >>> copies = {("a", "a", "a", "a"): 40, ("a", "a", "b", "b"): 30, ("b", "b", "a", "a"): 30, ("b", "b", "b", "b"): 40}
    >>> check_independence(copies).passed
    False
    """
    _, coded, n = _binary(counts, labels, 4)
    size = len(next(iter(coded)))
    names = tuple(systems) if systems is not None else tuple(str(i + 1) for i in range(size))
    if len(names) != size:
        raise ArgumentError(
            f"systems must have one name for each of the {size} answers of a pattern; got {len(names)}."
        )
    tetrads = _tetrads(coded, n) if n >= _FEWEST else []
    parts = tuple(
        {
            "systems": [names[i] for i in who],
            "difference": t,
            "statistic": z,
            "p_value": _bonferroni(z, len(tetrads)),
        }
        for who, t, z in sorted(tetrads, key=lambda x: -abs(x[2]))[:_SHOWN]
    )
    p_value, statistic = math.nan, math.nan
    if tetrads:
        who, _, statistic = max(tetrads, key=lambda x: abs(x[2]))
        p_value = _bonferroni(statistic, len(tetrads))
        i, j, k, m = (names[x] for x in who)
        sides = f"Δ({i}, {j})·Δ({k}, {m}) and Δ({i}, {k})·Δ({j}, {m})"
        finding = f"largest of {len(tetrads)} tetrads: {sides} differ by {abs(statistic):.1f} standard errors"
    else:
        finding = (
            "too few items to tell" if n < _FEWEST else "no answers vary together; nothing to test"
        )
    return Check(
        name="independent errors",
        assumption="errors independent given the true label",
        refutes_only=True,
        p_value=p_value,
        statistic=statistic,
        finding=finding,
        method="tetrads, delta method, Bonferroni (asymptotic)",
        parts=parts,
        counts={"items": n, "systems": size, "tetrads": len(tetrads)},
        reason="" if tetrads else finding,
    )


def _bonferroni(z: float, tests: int) -> float:
    return min(1.0, tests * 2 * float(ndtr(-abs(z))))


def _tetrads(
    coded: Mapping[tuple[int, ...], int], n: int
) -> list[tuple[tuple[int, ...], float, float]]:
    """(i, j, k, l), the difference Δ_ijΔ_kl − Δ_ikΔ_jl and its z, for every tetrad.

    The variance is that of the n items and of one more, the worst that could have come: a rare kind
    of item that was not seen must not make a difference look certain.
    """
    x = np.array(list(coded), dtype=float)
    share = np.array([k / n for k in coded.values()])
    mean = share @ x
    size = x.shape[1]
    pairs = list(itertools.combinations(range(size), 2))
    place = np.zeros((size, size), dtype=int)
    for k, (i, j) in enumerate(pairs):
        place[i, j] = place[j, i] = k
    centred = x - mean
    products = centred[:, [i for i, _ in pairs]] * centred[:, [j for _, j in pairs]]
    delta = share @ products
    influence = products - delta
    covariance = (influence * share[:, None]).T @ influence
    who = np.array(
        [
            t
            for a, b, c, d in itertools.combinations(range(size), 4)
            for t in ((a, b, c, d), (a, b, d, c), (a, c, d, b))
        ]
    )
    first, second = who[:, [0, 2, 0, 1]], who[:, [1, 3, 2, 3]]  # the pairs ij, kl, ik, jl
    at = place[first, second]
    gradient = delta[at[:, [1, 0, 3, 2]]] * np.array([1.0, 1.0, -1.0, -1.0])
    variance = np.einsum(
        "ta,tab,tb->t", gradient, covariance[at[:, :, None], at[:, None, :]], gradient
    )
    worst = np.zeros(len(who))
    for bits in itertools.product((0.0, 1.0), repeat=4):
        item = np.array(bits) - mean[who]
        moved = item[:, [0, 2, 0, 1]] * item[:, [1, 3, 2, 3]] - delta[at]
        worst = np.maximum(worst, np.abs((gradient * moved).sum(axis=1)))
    difference = delta[at[:, 0]] * delta[at[:, 1]] - delta[at[:, 2]] * delta[at[:, 3]]
    spread = np.sqrt(np.maximum(variance, 0.0) * n + worst**2)
    return [
        (tuple(int(i) for i in w), float(d), float(n * d / s))
        for w, d, s in zip(who, difference, spread, strict=True)
        if s > 0
    ]


def _binary(
    counts: Mapping[Pattern, int], labels: Sequence[Hashable] | None, fewest: int
) -> tuple[tuple[Hashable, ...], dict[tuple[int, ...], int], int]:
    known, coded = read_patterns(counts, labels=labels)
    if len(known) != 2:
        remedy = (
            "Join labels into two kinds first."
            if fewest < 4
            else "With more labels tetrads need not vanish."
        )
        raise EvidenceError(fault("labels", "must be two", list(known), remedy=remedy))
    size = len(next(iter(coded)))
    if size < fewest:
        raise EvidenceError(fault("patterns", f"must have at least {fewest} answers", size))
    coded = {p: k for p, k in coded.items() if k}
    n = sum(coded.values())
    if not n:
        raise EvidenceError(fault("counts", "must hold at least one item", "none"))
    return known, coded, n


# error rates out of agreement rates alone: the equations of Platanios and others


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AgreementSolution:
    """Error rates of three classifiers out of their agreements: both branches, which swap e and 1 −
    e; empty unless they are real.
    """

    status: Status
    error_rates: tuple[tuple[Number, Number, Number], ...]
    product: Number


def solve_agreement(
    agreement: Sequence[Number], *, form: Literal["corrected", "printed"] = "corrected"
) -> AgreementSolution:
    """Error rates e_i out of the agreement rates a_12, a_13, a_23, as Platanios and others do for
    independent errors.

    If e_{i,j} = e_i e_j, then 2a_{i,j} − 1 = (1 − 2e_i)(1 − 2e_j), so e_i = (1 ∓ c/(2a_{j,k} −
    1))/2 with c² = Π(2a − 1). The printed form (Eq. 57, 58) has 1 − 2a in place of 2a − 1: then c²
    < 0 for any three classifiers better than a coin.

    Assumes that a pair is wrong together as often as e_i e_j *over all items*. Errors that are
    independent for each label do not obey this (Eq. 59, 60), unless each classifier errs equally
    often on both labels. :func:`solve_trio` needs no such rule.

    Examples
    --------
    >>> from fractions import Fraction
    >>> rates = [Fraction(1, 10), Fraction(1, 5), Fraction(3, 10)]
    >>> a = [1 - x - y + 2 * x * y for x, y in ((rates[0], rates[1]), (rates[0], rates[2]), (rates[1], rates[2]))]
    >>> solve_agreement(a).error_rates[0] == tuple(rates)
    True
    >>> solve_agreement(a, form="printed").status
    'complex'
    """
    if form not in ("corrected", "printed"):
        raise ArgumentError(f"form must be 'corrected' or 'printed'; got {form!r}.")
    if len(agreement) != 3 or not all(0 <= a <= 1 for a in agreement):
        raise ArgumentError(
            f"agreement must be the three rates a_12, a_13, a_23 in [0, 1]; got {list(agreement)}."
        )
    exact: list[Any] = [a if isinstance(a, (int, Fraction)) else float(a) for a in agreement]
    sign = 1 if form == "corrected" else -1
    m12, m13, m23 = (sign * (2 * a - 1) for a in exact)
    product = m12 * m13 * m23
    if product <= 0:
        return AgreementSolution(
            status="complex" if product < 0 else "degenerate", error_rates=(), product=product
        )
    c = root(product)
    branches = tuple(tuple((1 - s * c / m) / 2 for m in (m23, m13, m12)) for s in (1, -1))
    inside = all(0 <= e <= 1 for branch in branches for e in branch)
    return AgreementSolution(
        status="solved" if inside else "outside", error_rates=branches, product=product
    )


def root(square: Number) -> Number:
    """√square as a Fraction where that is exact, else as a float.

    Examples
    --------
    >>> root(Fraction(9, 4)), root(Fraction(1, 2))
    (Fraction(3, 2), 0.7071067811865476)
    """
    if isinstance(square, float):
        return math.sqrt(square)
    up, down = math.isqrt(square.numerator), math.isqrt(square.denominator)
    if up * up == square.numerator and down * down == square.denominator:
        return Fraction(up, down)
    shift = max(0, 128 - square.numerator.bit_length() + square.denominator.bit_length())
    shift += shift % 2
    scaled = math.isqrt((square.numerator << shift) // square.denominator)
    return float(Fraction(scaled, 1 << (shift // 2)))
