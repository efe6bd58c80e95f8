"""Who is preferred: ranks, win rates, and the effect of the order in which answers are shown."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from noracle.accuracy.compare import ranks_of
from noracle.bounds.binomial import clopper_pearson
from noracle.bounds.paired import sign_test
from noracle.errors import known_names, require, require_evidence
from noracle.evidence.preferences import FIRST, NEITHER, OUTCOMES, SECOND, Preferences
from noracle.ranking.strength import (
    FEWEST_HELPED,
    Floats,
    Strengths,
    chances,
    fit_strengths,
    judged_pairs,
    unbounded,
)
from noracle.results import (
    Assumption,
    Check,
    Comparison,
    Difference,
    Estimate,
    Guarantee,
    Kind,
    check_confidence,
    choose,
)

Position = Literal["adjust", "ignore"]
Names = str | Sequence[str] | None
RATERS_ARE_MANY = 20
"""From so many raters on, raters are a sample of more; fewer are these raters."""
_DRAWS = 20_000
_AT_ONCE = 4_000_000
_RULE_OF_THUMB = 30
_ALMOST_ALL, _FEW = 0.9, 0.5
RANDOM_PAIRS = Assumption(
    name="people compared at random",
    detail="of each pair people saw a random sample of the judge's comparisons",
)
BLIND = Assumption(
    name="judge blind to the people",
    detail="the judge's verdicts were made without those of the people",
)
METHOD = "Bradley-Terry with ties"
_SMOOTHED = (
    "the verdicts do not bound all strengths: a few even ones were added to have strengths at all"
)
_VACUOUS = "the interval is [0, 1]: these verdicts say nothing at this confidence"


def rank_systems(
    preferences: Preferences,
    *,
    position: Position = "adjust",
    judge: Names = None,
    confidence: float = 0.95,
    seed: int = 0,
) -> Comparison:
    """Rank systems by preferences; all differences hold together at ``confidence``.

    A system has a strength β; with d = β_first - β_second + γ the verdicts first : second : tie have
    odds exp(d/2) : exp(-d/2) : exp(τ), γ being what being shown first is worth (Bradley and Terry
    1952; Davidson and Beaver 1977). A difference is that of the shares of decided comparisons which
    either system wins, with both orders equally often: tanh((β_a - β_b)/2). ``neither`` counts as a
    tie.

    Parameters
    ----------
    preferences
        From :meth:`Preferences.from_table`.
    position
        ``adjust`` estimates the effect of the order, where the orders that were shown allow it;
        ``ignore`` takes it as zero.
    judge
        Raters that are not believed, such as a model that compared nearly everything. What they
        said is a control variate: the ranking is that of all other raters, and the judge makes it
        narrower where they agree. By default nobody; all raters count.
    seed
        For the simulated quantile of the largest deviation.

    Notes
    -----
    Asymptotic. The covariance is the jackknife over items, and over raters too where there are 20 or
    more (crossed clusters, Cameron, Gelbach and Miller 2011); limits take the quantile of the largest
    studentised deviation among all pairs (multivariate t). Where the model does not hold, strengths
    are those that fit best, on the pairs as often as they were compared.

    With a judge, a win x of people is told as x - w·(m - mean of m), m being what the judge says of
    that item and pair, and the mean over all items on which it compared this pair in the same order;
    w is the weight of least squares. What is taken away has mean 0 whatever the judge says, if people saw a random
    sample of each pair's items: the judge need not be right, nor follow the model (Chen and Chen
    2000). How often each pair was compared is free. From 30 such verdicts on.

    References
    ----------
    Bradley and Terry (1952), Biometrika 39, 324-345; Davidson and Beaver (1977), Biometrics 33,
    693-702; Cameron, Gelbach and Miller (2011), JBES 29, 238-249; Chen and Chen (2000), J. Roy.
    Statist. Soc. B 62, 449-460.

    Examples
    --------
    >>> wins = [("a", "b", 60), ("b", "a", 25), ("a", "c", 70), ("c", "a", 20), ("b", "c", 45), ("c", "b", 40)]
    >>> rows = [(x, y) for x, y, n in wins for _ in range(n)]
    >>> table = {"item": list(range(len(rows))), "first": [min(r) if i % 2 else max(r) for i, r in enumerate(rows)],
    ...          "second": [max(r) if i % 2 else min(r) for i, r in enumerate(rows)], "winner": [x for x, _ in rows]}
    >>> ranking = rank_systems(Preferences.from_table(table))
    >>> ranking.leaders, ranking.difference("b", "c").verdict
    (('a',), 'not separable')
    """
    preferences, fit = fitted(preferences, position, judge)
    error = 1 - check_confidence(confidence)
    names = preferences.systems
    pairs = list(itertools.combinations(range(len(names)), 2))
    contrasts = np.zeros((len(pairs), len(fit.spread)))
    for row, (i, j) in enumerate(pairs):
        contrasts[row, i], contrasts[row, j] = 1.0, -1.0
    value = contrasts[:, : len(names)] @ fit.values
    low, high = _together(value, contrasts, fit, error, seed)
    n = np.zeros((len(names), len(names)), dtype=int)
    np.add.at(n, (preferences.first, preferences.second), 1)
    said = zip(pairs, *(np.tanh(x / 2).tolist() for x in (value, low, high)), strict=True)
    differences = [
        Difference(
            first=names[i], second=names[j], value=v, low=a, high=b, n=int(n[i, j] + n[j, i])
        )
        for (i, j), v, a, b in said
    ]
    ranks = ranks_of(names, _win_rates(fit)[0].tolist(), differences)
    return Comparison(
        systems=names,
        differences=tuple(differences),
        ranks=ranks,
        leaders=tuple(r.system for r in ranks if r.best == 1),
        confidence=confidence,
        method=METHOD,
        interval="jackknife by item, largest deviation",
        guarantee=_guarantee(preferences, fit, position, judge, error),
        counts=_counts(preferences, fit, judge),
        diagnostics=_diagnostics(preferences, fit, judge)
        | {"groups": _groups([r.system for r in ranks], differences)},
        notes=_notes(preferences, fit, position, judge, differences),
    )


def _groups(ranked: Sequence[str], differences: Sequence[Difference]) -> list[list[str]]:
    """Runs of neighbours in the ranking of which no two can be separated, none within another."""
    apart = {frozenset((d.first, d.second)) for d in differences if d.verdict != "not separable"}
    found: list[list[str]] = []
    start = 0
    for end in range(1, len(ranked) + 1):
        while any(frozenset((ranked[end - 1], s)) in apart for s in ranked[start : end - 1]):
            start += 1
        run = list(ranked[start:end])
        if found and found[-1] == run[:-1]:
            found[-1] = run
        else:
            found.append(run)
    return [run for run in found if len(run) > 1]


def estimate_win_rates(
    preferences: Preferences,
    *,
    position: Position = "adjust",
    judge: Names = None,
    confidence: float = 0.95,
    seed: int = 0,
) -> tuple[Estimate, ...]:
    """How often each system is preferred to the others; all intervals hold together.

    The win rate of a system is the mean over the other systems of P(preferred) + P(tie)/2, with both
    orders shown equally often, in the model of :func:`rank_systems`, whose parameters these are.

    Notes
    -----
    w_a = Σ_b (P(a) + P(tie)/2)/(m - 1) over the m - 1 other systems. Limits are those of log-odds, by
    the delta method, with the quantile of the largest studentised deviation.

    Assumes what :func:`rank_systems` assumes.

    References
    ----------
    Bradley and Terry (1952), Biometrika 39, 324-345; Davidson and Beaver (1977), Biometrics 33,
    693-702.

    Examples
    --------
    >>> rows = [("a", "b")] * 30 + [("b", "a")] * 10
    >>> table = {"item": list(range(40)), "first": ["a", "b"] * 20, "second": ["b", "a"] * 20,
    ...          "winner": [x for x, _ in rows]}
    >>> [round(e.value, 3) for e in estimate_win_rates(Preferences.from_table(table), position="ignore")]
    [0.75, 0.25]
    """
    preferences, fit = fitted(preferences, position, judge)
    error = 1 - check_confidence(confidence)
    rates, slopes = _win_rates(fit)
    # On the scale of log-odds, where rates near 0 and 1 have limits inside.
    scale = 1 / np.maximum(rates * (1 - rates), 1e-300)
    logit = np.log(rates / (1 - rates))
    low, high = _together(logit, slopes * scale[:, None], fit, error, seed)
    se = np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", slopes, fit.spread, slopes), 0.0))
    limits = zip(rates, *(1 / (1 + np.exp(-x)) for x in (low, high)), se, strict=True)
    notes = _notes(preferences, fit, position, judge, ())
    return tuple(
        Estimate(
            quantity="win rate",
            subject=name,
            value=float(value),
            low=float(below),
            high=float(above),
            confidence=confidence,
            method=METHOD,
            interval="jackknife by item, largest deviation",
            guarantee=_guarantee(preferences, fit, position, judge, error),
            se=float(error_),
            counts=_counts(preferences, fit, judge),
            diagnostics=_diagnostics(preferences, fit, judge),
            notes=notes + ((_VACUOUS,) if below <= 0 and above >= 1 else ()),
        )
        for name, (value, below, above, error_) in zip(preferences.systems, limits, strict=True)
    )


def check_position(preferences: Preferences) -> Check:
    """Does it matter which answer is shown first?

    Of verdicts that one rater gave on the same two answers in both orders, those that named the same
    place twice were swayed by it: under no effect of the order, first twice is as likely as second
    twice. Exact sign test. Rows without their mirror are not used.

    Notes
    -----
    With F pairs that named the first place twice and S the second, ``p = P(|B - n/2| ≥ |F - n/2|)``,
    B binomial with n = F + S and 1/2.

    Assumes that pairs shown in both orders are independent of each other.

    References
    ----------
    Dixon and Mood (1946), J. Amer. Statist. Assoc. 41, 557-566 (the sign test).

    Examples
    --------
    >>> table = {"item": [1, 1, 2, 2], "first": ["a", "b", "a", "b"], "second": ["b", "a", "b", "a"],
    ...          "winner": ["first", "first", "a", "a"]}
    >>> check_position(Preferences.from_table(table)).finding
    '1 of 2 pairs shown in both orders named the same place twice: first 1, second 0'
    """
    first, second, same = _mirrored(preferences)
    n = first + second
    p_value = sign_test(first, second)
    share = clopper_pearson(first, n, 0.025, 0.025) if n else None
    total = n + same
    finding = f"{n} of {total} pairs shown in both orders named the same place twice: first {first}, second {second}"
    return Check(
        name="position",
        assumption="no effect of the order shown",
        p_value=p_value if total else math.nan,
        statistic=first / n if n else math.nan,
        finding=finding if total else "nothing was shown in both orders",
        method="exact sign test on pairs shown in both orders",
        counts={"first twice": first, "second twice": second, "same answer": same},
        diagnostics={} if share is None else {"share of first": list(share)},
        reason="" if total else "no rater saw the same two answers in both orders",
    )


def _mirrored(p: Preferences) -> tuple[int, int, int]:
    """Pairs of verdicts in both orders that named the first place twice, the second twice, or went
    with an answer.
    """
    size = len(p.systems)
    low, high = np.minimum(p.first, p.second), np.maximum(p.first, p.second)
    key = ((p.item * (int(p.rater.max()) + 1) + p.rater) * size + low) * size + high
    turned = p.first > p.second
    rows: dict[int, list[int | None]] = {}
    for k, t, o in zip(key.tolist(), turned.tolist(), p.outcome.tolist(), strict=True):
        seen = rows.setdefault(k, [None, None])
        if seen[t] is None:  # the first verdict in each order counts
            seen[t] = o
    both = [(a, b) for a, b in rows.values() if a is not None and b is not None]
    first, second = both.count((FIRST, FIRST)), both.count((SECOND, SECOND))
    decided = sum(a in (FIRST, SECOND) and b in (FIRST, SECOND) for a, b in both)
    return first, second, decided - first - second


# the fit and what follows


def fitted(
    preferences: Preferences, position: Position, judge: Names = None
) -> tuple[Preferences, Strengths]:
    """The verdicts that count, and the strengths by them, with the judge's help."""
    require(
        isinstance(preferences, Preferences),
        f"preferences must come from Preferences.from_table; got {type(preferences).__name__}.",
    )
    choose("position", position, ("adjust", "ignore"))
    people, seen = divided(preferences, judge)
    adjust = position == "adjust" and _orders_tell(people)
    judged = None if seen is None else judged_pairs(people, seen)
    fit = fit_strengths(people, position=adjust, by_rater=_raters_vary(people), judged=judged)
    return people, fit


def divided(preferences: Preferences, judge: Names) -> tuple[Preferences, Preferences | None]:
    """The verdicts of people and those of the judge, which is nobody by default."""
    names = (judge,) if isinstance(judge, str) else tuple(judge or ())
    if not names:
        return preferences, None
    for name in names:
        remedy = known_names(name, preferences.raters)
        there = name in preferences.raters
        require_evidence(there, "judge", "must be a rater", repr(name), remedy=remedy)
    mine = np.isin(preferences.rater, [preferences.raters.index(name) for name in names])
    rule, came = "must have verdicts of others than the judge", "none"
    require_evidence(not mine.all(), "preferences", rule, came, remedy="Let people compare some.")
    people = preferences.of(~mine)
    who, rater = np.unique(people.rater, return_inverse=True)
    raters = tuple(preferences.raters[i] for i in who)
    return dataclasses.replace(people, rater=rater, raters=raters), preferences.of(mine)


def _orders_tell(p: Preferences) -> bool:
    """Whether the effect of the order can be told from the strengths, by which orders were shown."""
    orders = np.unique(np.stack([p.first, p.second], axis=1), axis=0)
    design = np.zeros((len(orders), len(p.systems) + 1))
    rows = np.arange(len(orders))
    design[rows, orders[:, 0]], design[rows, orders[:, 1]], design[:, -1] = 1.0, -1.0, 1.0
    return int(np.linalg.matrix_rank(design)) == len(p.systems)


def _raters_vary(p: Preferences) -> bool:
    return len(p.raters) >= RATERS_ARE_MANY


def _together(
    value: Floats, contrasts: Floats, fit: Strengths, error: float, seed: int
) -> tuple[Floats, Floats]:
    """Limits of linear functions of the parameters that hold together."""
    spread = contrasts @ fit.spread
    se = np.sqrt(np.maximum((spread * contrasts).sum(axis=1), 0.0))
    if fit.df < 1 or not (se > 0).any():  # one item varies against nothing
        return np.full_like(value, -np.inf), np.full_like(value, np.inf)
    rng = np.random.default_rng(seed)
    unit = (contrasts @ np.linalg.cholesky(fit.spread)) / np.where(se > 0, se, np.inf)[:, None]
    largest = []
    step = max(1, _AT_ONCE // len(contrasts))
    for start in range(0, _DRAWS, step):
        n = min(step, _DRAWS - start)
        normal = rng.standard_normal((n, len(fit.spread)))
        chi = np.sqrt(rng.chisquare(fit.df, n) / fit.df)
        largest.append(np.abs(normal @ unit.T).max(axis=1) / chi)
    reach = float(np.quantile(np.concatenate(largest), 1 - error)) * se
    reach = np.where(se > 0, reach, np.inf)
    low, high = value - reach, value + reach
    if fit.pull is not None:  # even verdicts draw everything towards a tie: undo it outwards
        pull = contrasts[:, : len(fit.values)] @ fit.pull
        low, high = low + np.minimum(pull, 0.0), high + np.maximum(pull, 0.0)
    if fit.gains is not None:  # what the verdicts do not bound has no limit on that side
        falls, rises = unbounded(contrasts, fit.gains)
        low, high = np.where(falls, -np.inf, low), np.where(rises, np.inf, high)
    return low, high


def _win_rates(fit: Strengths) -> tuple[Floats, Floats]:
    """Win rates, and their slopes in the parameters."""
    size = len(fit.values)
    d = fit.values[:, None] - fit.values[None, :]
    first, second, tie = chances(d, fit.tie)
    off = ~np.eye(size, dtype=bool)
    rates = np.where(off, first + tie / 2, 0.0).sum(axis=1) / (size - 1)
    mean = first - second
    # With r = (1 + P(first) - P(second))/2: dr/dd = Var(sign)/4, dr/dτ = -P(tie)·E(sign)/2.
    by_d = np.where(off, (first + second - mean**2) / 4, 0.0) / (size - 1)
    slopes = np.zeros((size, len(fit.spread)))
    slopes[:, :size] = -by_d
    slopes[np.arange(size), np.arange(size)] = by_d.sum(axis=1)
    slopes[:, -1] = np.where(off, -tie * mean / 2, 0.0).sum(axis=1) / (size - 1)
    return rates, slopes


def _guarantee(
    p: Preferences, fit: Strengths, position: Position, judge: Names, error: float
) -> Guarantee:
    many = _raters_vary(p)
    rests = [
        Assumption(
            name="independent items", detail="verdicts on one item may depend on each other"
        ),
        Assumption(name="the model of strengths holds"),
    ]
    if many:
        rests.append(
            Assumption(name="raters are a random sample", detail=f"{len(p.raters)} raters")
        )
    told = "the same for all pairs" if not math.isnan(fit.position) else "none"
    why = "" if position == "ignore" or told != "none" else "each pair was shown in one order only"
    rests.append(Assumption(name=f"effect of the order shown: {told}", detail=why))
    if judge and fit.weight:
        rests += [RANDOM_PAIRS, BLIND]
    if p.missing:
        detail = f"{p.missing} comparisons without a verdict are left out"
        rests.append(Assumption(name="verdicts missing at random", detail=detail))
    rests += [Assumption(name=line) for line in p.inferred]
    kind = Kind.HEURISTIC if fit.smoothed and fit.df < _RULE_OF_THUMB else Kind.ASYMPTOTIC
    return Guarantee(kind=kind, error_rate=error, assumptions=tuple(rests))


def _counts(p: Preferences, fit: Strengths, judge: Names) -> dict[str, Any]:
    outcomes = np.bincount(p.outcome, minlength=len(OUTCOMES)).tolist()
    helped = {"seen by the judge": fit.helped} if judge else {}
    return helped | {
        "verdicts": len(p.outcome),
        **dict(zip(OUTCOMES, outcomes, strict=True)),
        "items": len(np.unique(p.item)),
        "raters": len(p.raters),
        "shown in both orders": sum(_mirrored(p)),
        "missing": p.missing,
    }


def _diagnostics(p: Preferences, fit: Strengths, judge: Names) -> dict[str, Any]:
    strengths = dict(zip(p.systems, fit.values.tolist(), strict=True))
    found: dict[str, Any] = {"strengths": strengths}
    if not math.isnan(fit.position):
        se = math.sqrt(max(float(fit.spread[-2, -2]), 0.0))
        # What an answer gains by being shown first against an equal one, among decided verdicts.
        found["position"] = {
            "gamma": fit.position,
            "se": se,
            "gain": math.tanh(fit.position / 2) / 2,
        }
    if judge:
        names = [judge] if isinstance(judge, str) else list(judge)
        found["judge"] = {"names": names, "weight": fit.weight, "labels_ratio": fit.worth}
    return found | {"tie": fit.tie if math.isfinite(fit.tie) else None, "df": fit.df}


def _judge_like(p: Preferences) -> str | None:
    """A rater that compared nearly everything, beside others who compared less than half of it."""
    size = len(p.systems)
    pairs = np.minimum(p.first, p.second) * size + np.maximum(p.first, p.second)
    unit = p.item * size**2 + pairs
    most = int(np.bincount(p.rater, minlength=len(p.raters)).argmax())
    all_, own, others = (
        len(np.unique(unit[k])) for k in (p.rater >= 0, p.rater == most, p.rater != most)
    )
    return p.raters[most] if own >= _ALMOST_ALL * all_ and 0 < others <= _FEW * all_ else None


def _notes(
    p: Preferences,
    fit: Strengths,
    position: Position,
    judge: Names,
    differences: Sequence[Difference],
) -> tuple[str, ...]:
    n_open = sum(d.verdict == "not separable" for d in differences)
    few = f"{fit.df + 1} clusters: asymptotic limits want at least {_RULE_OF_THUMB}"
    bad = int((p.outcome == NEITHER).sum())
    much = None if judge else _judge_like(p)
    help_ = f"the judge saw {fit.helped} of the comparisons that people made"
    shown = np.unique(np.stack([p.item, p.first, p.second, p.rater]), axis=1)
    again = len(p.item) - shown.shape[1] if p.raters != ("",) else 0
    silent = ", ".join(map(repr, p.silent))
    sentences = {
        f"{n_open} of {len(differences)} pairs cannot be separated": n_open,
        _SMOOTHED: fit.smoothed,
        few: fit.df + 1 < _RULE_OF_THUMB,
        f"{silent} got no verdict, and no place": silent,
        f"{again} verdicts are a rater's second or later on the same answers in the same order; all count": again,
        f"{bad} verdicts say that neither answer is good; they count as ties": bad,
        "every pair was shown in one order only: strengths hold without an effect of the order": (
            position == "adjust" and math.isnan(fit.position)
        ),
        f"{help_}; from {FEWEST_HELPED} on it is of use": judge and fit.helped < FEWEST_HELPED,
        f"{much!r} gave most verdicts and is believed like the others; as judge it would only help": (
            much is not None
        ),
    }
    return tuple(note for note, holds in sentences.items() if holds)
