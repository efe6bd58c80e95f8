"""What if verdicts are wrong, or missing? How far a statement stands, and the worst case of what
was not said.
"""

from __future__ import annotations

import dataclasses
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from noracle.accuracy.estimate import counts_of, estimate_accuracy
from noracle.accuracy.score import Stratum, binomial_cells, strata_of
from noracle.bounds import binomial as linear
from noracle.bounds.binomial import last_kept, ndtri
from noracle.counts.tally import AccuracyCounts, Tally
from noracle.errors import require
from noracle.evidence import Evidence
from noracle.results import (
    Assumption,
    Check,
    Guarantee,
    Kind,
    Range,
    Ranges,
    check_confidence,
    tails,
)


def check_sensitivity(
    evidence: Evidence | AccuracyCounts,
    *,
    system: str | None = None,
    at_least: float | None = None,
    at_most: float | None = None,
    confidence: float = 0.95,
) -> Check:
    """How often may verdicts be wrong before "accuracy is at least (or at most) x" falls?

    Finds the smallest rate of each kind of wrong verdict, alone, at which the one-sided
    likelihood-ratio limit no longer supports the statement:

    - ``false_no``: no is said to the true class (μ);
    - ``false_yes_answer``: yes is said to the system's answer although it is wrong, as for near
      misses (φ);
    - ``false_yes_other``: yes is said to some other wrong class (φ').

    With one uniform question per item the four outcomes have probabilities linear in A, times 1/K:
    yes to the answer A(1-μ) + (1-A)φ; yes to another class A(K-1)φ' + (1-A)(1-μ+(K-2)φ'); no to the
    answer Aμ + (1-A)(1-φ); no to another class the rest. The limits use the outcome given the
    verdict, so they also hold for two separate sets of labels.

    Notes
    -----
    ASYMPTOTIC, a diagnostic and not a test. ``false_no`` and ``false_yes_other`` make a good system
    look worse, so they threaten only "at most"; ``false_yes_answer`` makes it look better and
    threatens "at least". A statement that one system is better than another keeps its sign under
    rates that are the same for both.

    The limits hold every A with 2·(log L(Â) - log L(A)) ≤ z², z being the normal quantile at
    ``confidence``.

    Assumes independent items, uniform questions, and one kind of wrong verdict at a time, at the
    same rate on all items.

    References
    ----------
    Wilks (1938), Ann. Math. Statist. 9, 60-62.

    Examples
    --------
    >>> from noracle import AccuracyCounts, check_sensitivity
    >>> counts = AccuracyCounts.from_counts(n_classes=10, ordinary=(300, 240), complementary=(2700, 2640))
    >>> check = check_sensitivity(counts, at_least=0.7)
    >>> check.passed, round(check.diagnostics["false_yes_answer"], 2)
    (True, 0.4)
    """
    require(
        (at_least is None) != (at_most is None),
        "at_least or at_most must be given, one of them; got "
        + ("neither." if at_least is None else "both."),
    )
    check_confidence(confidence)
    counts = counts_of(evidence, system)
    strata = [s for s in strata_of(counts) if s.items]
    total = sum(s.weight * s.items for s in strata)
    shares = [s.weight * s.items / total * s.answered_share for s in strata]
    rows = [(share, _outcomes(s), s.n_classes) for share, s in zip(shares, strata, strict=True)]
    rows.sort(reverse=True)  # the largest first: they often decide
    error = (1 - confidence) / max(1, len(strata))
    threshold = float(at_most or 0.0) if at_least is None else at_least

    def holds(false_no: float = 0.0, answer: float = 0.0, other: float = 0.0) -> bool:
        limit = 0.0
        for share, n, k in rows:
            low, high = _noisy_limits(n, k, false_no, answer, other, error)
            limit += share * (high if at_least is None else low)
            if limit > threshold:  # it never falls again
                break
        return limit <= threshold if at_least is None else limit >= threshold

    statement = f"accuracy is at least {at_least:g}" if at_least is not None else ""
    statement = statement or f"accuracy is at most {at_most:g}"
    about: dict[str, Any] = {"statement": statement, "confidence": confidence}
    subject = counts.systems[0]
    held = holds()
    found = f"'{statement}' is not supported for {subject} even if every verdict is right"
    p_value, least, reason = 0.0, math.nan, ""
    if held:
        rates = {
            "false_no": _smallest(lambda rate: holds(false_no=rate)),
            "false_yes_answer": _smallest(lambda rate: holds(answer=rate)),
            "false_yes_other": _smallest(lambda rate: holds(other=rate)),
        }
        told = {name: "never" if math.isnan(r) else f"{r:.3f}" for name, r in rates.items()}
        words = ", ".join(f"{name.replace('_', ' ')} {rate}" for name, rate in told.items())
        found = f"'{statement}' for {subject} falls when wrong verdicts reach: {words}"
        least = min((r for r in rates.values() if not math.isnan(r)), default=math.nan)
        p_value, about = math.nan, {**rates, **about}
        reason = "sensitivity is not a test: there is no p-value; a rate that is null never overturns the statement"
    return Check(
        name="sensitivity",
        assumption="right verdicts",
        p_value=p_value,
        statistic=least,
        finding=found,
        method="likelihood-ratio limits with wrong verdicts",
        counts=counts.summary(),
        diagnostics=about,
        reason=reason,
    )


def _outcomes(stratum: Stratum) -> tuple[int, int, int, int]:
    """Items by outcome: yes to the answer, to another class; no to the answer, to another."""
    _refuse_repeats(stratum.tallies)
    for t in stratum.tallies:
        odd = t.design != "uniform" or (t.verdict == "no" and t.n_ruled_out != 1)
        got = "grades" if t.design == "graded" else "other labels"
        require(
            not (odd and t.answered and t.verdict != "unsure"),
            f"evidence must come from uniform questions, one per item, for a sensitivity check; got {got}.",
        )
    return tuple(stratum.n(verdict=v, hit=h) for v in ("yes", "no") for h in (True, False))  # type: ignore[return-value]


def _refuse_repeats(tallies: Iterable[Tally]) -> None:
    require(
        all(t.hit_share is None for t in tallies),
        "evidence must have one answer per item and system here; repeats of an item differ. Keep one of them, or pass "
        "Evidence.with_repeats('all').",
    )


_RATES = np.linspace(0.0, 1.0, 4001)


def _noisy_limits(
    n: tuple[int, int, int, int], k: int, mu: float, phi: float, other: float, error: float
) -> tuple[float, float]:
    """Likelihood-ratio limits for A, on a grid, from the outcomes given the verdicts."""
    if not sum(n):
        return 0.0, 1.0
    a = _RATES
    yes_hit = a * (1 - mu) + (1 - a) * phi
    yes_miss = a * (k - 1) * other + (1 - a) * (1 - mu + (k - 2) * other)
    no_hit = a * mu + (1 - a) * (1 - phi)
    no_miss = a * (k - 1) * (1 - other) + (1 - a) * (mu + (k - 2) * (1 - other))
    yes, no = yes_hit + yes_miss, no_hit + no_miss
    logs = np.zeros_like(a)
    parts = ((yes_hit, yes), (yes_miss, yes), (no_hit, no), (no_miss, no))
    with np.errstate(divide="ignore", invalid="ignore"):
        for count, (part, whole) in zip(n, parts, strict=True):
            if count:
                logs += count * np.log(part / whole)
    logs = np.where(np.isnan(logs), -np.inf, logs)
    kept = np.nonzero(logs >= logs.max() - float(ndtri(error)) ** 2 / 2)[0]
    return float(a[kept[0]]), float(a[kept[-1]])


def _smallest(holds: Callable[[float], bool]) -> float:
    """The smallest rate below one half at which a statement falls; NaN if none does."""
    good = 0.0
    for rate in np.concatenate([np.linspace(0, 0.05, 26)[1:], np.linspace(0.05, 0.49, 45)[1:]]):
        if not holds(float(rate)):
            return last_kept(holds, good, float(rate), steps=12)
        good = float(rate)
    return math.nan


def range_unsure(
    evidence: Evidence | AccuracyCounts, *, system: str | None = None, confidence: float = 0.95
) -> Ranges:
    """The accuracy if every ``unsure`` had been answered in the worst or in the best way for the
    system.

    Worst: unsure about the system's answer becomes no, unsure about another class becomes yes.
    Best: the other way round. ``value`` is the range of the maximum-likelihood estimate.
    ``interval`` contains the exact interval of every way to resolve the unsure verdicts, so that it
    holds the accuracy with probability at least ``confidence`` whatever they hide.

    Notes
    -----
    Limits do not always move with a verdict, since a no is less informative than a yes. So all
    numbers of yes among the unsure verdicts are searched, stratum by stratum; where there are more
    than 400 combinations only those in which one kind is resolved in one way, and the promise is
    asymptotic.

    With A(r) the estimate and [low(r), high(r)] its interval where the unsure verdicts are resolved
    as r: ``value`` is [min A(r), max A(r)] and ``interval`` = [min low(r), max high(r)]. Why a
    rater was unsure does not matter.

    Assumes uniform questions, one per item, on a random sample of the items, and right verdicts
    where there is one.

    References
    ----------
    Manski (2003), "Partial identification of probability distributions", Springer, chapter 1;
    Clopper and Pearson (1934), Biometrika 26, 404-413.

    Examples
    --------
    >>> from noracle import AccuracyCounts, range_unsure
    >>> from noracle.counts import Tally, Cell
    >>> tallies = {Tally("a", 4, "yes", True): 70, Tally("a", 4, "yes", False): 20, Tally("a", 4, "unsure", True): 10}
    >>> counts = AccuracyCounts(tallies=tallies, items={Cell("a", 4): 100}, answered={Cell("a", 4): 100})
    >>> range_unsure(counts)["value"].low < 0.75 < range_unsure(counts)["value"].high
    True
    """
    below, above = tails(confidence, "two-sided")
    counts = counts_of(evidence, system)
    _refuse_repeats(counts.tallies)
    require(
        all(t.design != "recorded" for t in counts.tallies),
        "evidence must come from uniform questions for the worst case of unsure verdicts; got recorded propensities.",
    )
    strata = [s for s in strata_of(counts) if s.items]
    worst, best = (
        estimate_accuracy(
            dataclasses.replace(counts, tallies=_resolved(counts.tallies, about_answer, other)),
            confidence=confidence,
        )
        for about_answer, other in ((0.0, 1.0), (1.0, 0.0))
    )
    total = sum(s.weight * s.items for s in strata)
    parts = max(1, sum(s.n() > 0 for s in strata))
    low, high, complete = 0.0, 0.0 if strata else 1.0, True
    for s in strata:
        share = s.weight * s.items / total * s.answered_share
        ways, every = _ways(s.n(verdict="unsure", hit=True), s.n(verdict="unsure", hit=False))
        found = [_limits(s, *way, below / parts, above / parts) for way in ways]
        low += share * min(f.low for f in found)
        high += share * max(f.high for f in found)
        complete = complete and every
    guarantee = worst.guarantee & best.guarantee
    anything = Assumption(name="nothing about unsure verdicts", status="by-design")
    values = sorted((worst.value, best.value))
    subject = f"range of the accuracy of {counts.systems[0]!r} over unsure verdicts"
    point = "there is no unsure verdict: the range is a point"
    return Ranges(
        ranges=(
            Range(name="value", low=values[0], high=values[1]),
            Range(name="interval", low=low, high=min(high, 1.0)),
        ),
        method="every unsure verdict resolved in the worst and in the best way",
        subject=subject,
        guarantee=Guarantee(
            kind=min(guarantee.kind, Kind.FINITE_SAMPLE if complete else Kind.ASYMPTOTIC),
            error_rate=1 - confidence,
            assumptions=(*guarantee.assumptions, anything),
        ),
        counts=counts.summary(),
        notes=() if counts.total(verdict="unsure") else (point,),
        reason=worst.reason,
    )


_MOST_SEARCHED = 400


def _ways(about_answer: int, other: int) -> tuple[list[tuple[float, float]], bool]:
    """Shares of yes among the unsure verdicts of both kinds, and whether these are all the ways."""
    every = (about_answer + 1) * (other + 1) <= _MOST_SEARCHED
    most = _MOST_SEARCHED if every else _MOST_SEARCHED // 8
    first, second = _numbers(about_answer, most), _numbers(other, most)
    if every:
        return [(i, j) for i in first for j in second], True
    ends = (0.0, 1.0)
    return [*((i, j) for i in ends for j in second), *((i, j) for j in ends for i in first)], False


def _numbers(n: int, most: int) -> list[float]:
    """Shares of n verdicts: all of 0/n to n/n, or at most ``most`` + 1 of them."""
    steps = min(n, most)
    return [i / steps for i in range(steps + 1)] if steps else [0.0]


def _resolved(tallies: Mapping[Tally, int], about_answer: float, other: float) -> dict[Tally, int]:
    """The tallies with these shares of the unsure verdicts as yes, and the rest as no."""
    found: dict[Tally, int] = defaultdict(int)
    for t, n in tallies.items():
        if t.verdict != "unsure":
            found[t] += n
            continue
        if t.design == "graded":  # the grade is about the answer itself
            right = round(n * about_answer)
            found[t._replace(verdict="yes", hit=True)] += right
            found[t._replace(verdict="yes", hit=False)] += n - right
            continue
        yes = round(n * (about_answer if t.hit else other))
        found[t._replace(verdict="yes", n_ruled_out=0, ruled_hit=False)] += yes
        found[t._replace(verdict="no", n_ruled_out=1, ruled_hit=t.hit)] += n - yes
    return {t: n for t, n in found.items() if n}


def _limits(
    stratum: Stratum, about_answer: float, other: float, below: float, above: float
) -> linear.Limits:
    tallies = _resolved(stratum.tallies, about_answer, other)
    return linear.exact(binomial_cells(dataclasses.replace(stratum, tallies=tallies)), below, above)
