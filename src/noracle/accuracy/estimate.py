"""Accuracy of one system from ordinary, complementary, mixed, biased or noisy labels."""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Sequence
from typing import Any, Literal

from scipy.special import ndtri

from noracle.accuracy.scores import check_error_rates, transition_scores
from noracle.accuracy.strata import LabelKinds, Matrix, Stratum, binomial_cells, score_rows, strata_of, targeting_p_value
from noracle.bounds import concentration, linear
from noracle.bounds.betting import betting_interval
from noracle.bounds.binomial import clopper_pearson
from noracle.bounds.linear import Cell, Limits
from noracle.counts import AccuracyCounts, count_accuracy
from noracle.errors import ArgumentError, GuaranteeWarning
from noracle.evidence import Evidence
from noracle.results import Assumption, Check, Estimate, Guarantee, Kind, Side, choose, tails

Method = Literal["ml", "ivw", "weighted", "complementary", "ordinary", "scores"]
Interval = Literal["exact", "anytime", "betting", "profile", "wald", "hoeffding", "bernstein", "theorem2", "proposition3", "theorem4"]
METHODS = ("ml", "ivw", "weighted", "complementary", "ordinary", "scores")

# Which promise an interval makes, and the methods whose value it can stand beside.
_LIKELIHOOD = ("ml", "ivw", "weighted", "complementary", "ordinary")
INTERVALS: dict[str, tuple[Kind, bool, tuple[str, ...]]] = {
    "exact": (Kind.FINITE_SAMPLE, False, _LIKELIHOOD),
    "anytime": (Kind.FINITE_SAMPLE, True, _LIKELIHOOD),
    "betting": (Kind.FINITE_SAMPLE, True, METHODS),
    "profile": (Kind.ASYMPTOTIC, False, _LIKELIHOOD),
    "wald": (Kind.ASYMPTOTIC, False, METHODS),
    "hoeffding": (Kind.FINITE_SAMPLE, False, ("weighted", "complementary", "ordinary")),
    "bernstein": (Kind.FINITE_SAMPLE, False, ("weighted", "complementary", "ordinary")),
    "theorem2": (Kind.FINITE_SAMPLE, False, ("complementary",)),
    "proposition3": (Kind.FINITE_SAMPLE, False, ("weighted", "ivw")),
    "theorem4": (Kind.FINITE_SAMPLE, False, ("weighted",)),
}
_KINDS: dict[str, LabelKinds] = {"complementary": "complementary", "ordinary": "ordinary"}
_WORDS = {"yes": "ordinary labels", "no": "complementary labels"}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Settings:
    """How one stratum is to be estimated."""

    method: str
    interval: str
    weight: float
    inverse: Matrix | None
    classes: tuple[int | str, ...] | None
    guess: float | Literal["leave-one-out"]
    false_no: float
    false_yes: float


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """Accuracy among the answered items of one stratum (or of a pool of strata)."""

    value: float
    limits: Limits
    variance: float
    n: int


def estimate_accuracy(
    evidence: Evidence | AccuracyCounts, *, system: str | None = None, method: Method | None = None, interval: Interval | None = None,
    confidence: float = 0.95, side: Side = "two-sided", weight: float = 0.5, transition: Sequence[Sequence[float]] | Matrix | None = None,
    classes: Sequence[int | str] | None = None, false_no: float | Estimate = 0.0, false_yes: float | Estimate = 0.0,
    guess: float | Literal["leave-one-out"] = "leave-one-out", population: Literal["answers", "beyond"] = "answers",
    checks: Sequence[Check] = (), strict: bool = False,
) -> Estimate:  # fmt: skip
    """Estimate the accuracy of a system from labels that say what an item is, or is not.

    A = P(answer is right); an item without an answer counts as wrong. With S_o of n_o ordinary labels right and S_c of n_c answers not
    ruled out, ``ml`` maximises S_o·log A + (n_o-S_o)·log(1-A) + S_c·log q + (n_c-S_c)·log(1-q), q = (A+K-2)/(K-1).

    Parameters
    ----------
    evidence
        Tables, or counts of them.
    system
        Which system; may be left out where there is one.
    method
        ``ml``; ``ivw`` weighs the two kinds by plug-in variances; ``weighted`` by ``weight`` (the ordinary share); ``complementary`` and
        ``ordinary`` use one kind; ``scores`` is the mean of unbiased scores, for everything else. Default ``ml`` where the evidence
        allows it, else ``scores``.
    interval
        See :data:`noracle.accuracy.estimate.INTERVALS`. Default ``exact``, with ``scores`` ``betting``.
    transition, classes
        T[y][k] = P(class k is ruled out | true class y), for labels that are not uniform; ``classes`` gives the order of named classes.
    false_no, false_yes
        Known rates of wrong verdicts about the answer itself, P(no | right) and P(yes | wrong); or estimates of them, whose error rates
        are added.
    guess
        For recorded propensities: the guess of correctness that reduces the variance.
    population
        ``answers``: accuracy on the items in the answers table, so that the answered share is known. ``beyond``: these items are a sample
        of more; the answered share then has an interval of its own.
    checks
        Results of ``check_*``: each is written to the guarantee, a failed one makes it HEURISTIC, or raises if ``strict``.

    Notes
    -----
    Assumes that labelled items are a random sample of the items asked about and, for uniform designs, that the class asked about does not
    depend on item, truth or answers. Strata, numbers of classes and weights are post-stratified: G parts share the error rate and a part
    without labels contributes [0, 1].

    References
    ----------
    Yin, Ishida and Sugiyama, "Towards scalable oversight via partitioned human supervision", equations (2), (7) and (9), with the
    corrections listed in the documentation.

    Examples
    --------
    >>> from noracle import AccuracyCounts, estimate_accuracy
    >>> counts = AccuracyCounts.from_counts(n_classes=10, ordinary=(300, 235), complementary=(2700, 2634))
    >>> estimate_accuracy(counts)
    Estimate(accuracy of 'system': 0.7819 [0.7452, 0.815] at 0.95, exact, finite-sample)
    """
    if isinstance(false_no, Estimate) or isinstance(false_yes, Estimate):
        options: dict[str, Any] = {
            "system": system, "method": method, "interval": interval, "confidence": confidence, "side": side, "guess": guess,
            "population": population, "checks": checks, "strict": strict, "classes": classes, "weight": weight,
        }  # fmt: skip
        return _with_estimated_rates(evidence, false_no, false_yes, options)
    counts = _counts(evidence, system, by_class=transition is not None)
    strata = strata_of(counts)
    settings = _settings(strata, method, interval, weight, transition, classes, false_no, false_yes, guess)
    below, above = tails(confidence, side)
    if settings.method == "scores" or settings.interval == "betting":
        groups = _by_name(strata)
    else:
        groups = [(s,) for s in strata]
    kind, anytime, _ = INTERVALS[settings.interval]
    shares = _shares(groups, below, above, beyond=population == "beyond", method=settings.interval)
    parts = [_part(g, settings, shares.below, shares.above) for g in groups]
    estimate = _combine(counts, groups, parts, shares, settings, confidence, side)
    guarantee = Guarantee(kind=kind, error_rate=1 - confidence, anytime=anytime, assumptions=_assumptions(counts, strata, settings, population))
    if settings.interval == "wald" and (math.isnan(estimate.se) or not _wald_is_sound(estimate)):
        warnings.warn(
            f"interval='wald' is unreliable here (value {estimate.value:.3g}, n = {sum(p.n for p in parts)}); use interval='exact'.",
            GuaranteeWarning, stacklevel=2,
        )  # fmt: skip
    return dataclasses.replace(estimate, guarantee=guarantee.given(*checks, strict=strict))


def _counts(evidence: Evidence | AccuracyCounts, system: str | None, *, by_class: bool) -> AccuracyCounts:
    if isinstance(evidence, AccuracyCounts):
        return evidence.of(system)
    if not isinstance(evidence, Evidence):
        raise ArgumentError(f"evidence must be Evidence or AccuracyCounts; got {type(evidence).__name__}. Use Evidence.from_tables(…).")
    return count_accuracy(evidence, systems=None if system is None else [system], by_class=by_class).of(system)


def _settings(
    strata: tuple[Stratum, ...], method: str | None, interval: str | None, weight: float,
    transition: Sequence[Sequence[float]] | Matrix | None, classes: Sequence[int | str] | None,
    false_no: float, false_yes: float, guess: float | Literal["leave-one-out"],
) -> _Settings:  # fmt: skip
    """Fill in what was left open, and refuse combinations that have no meaning."""
    needs_scores = transition is not None or any(t.design == "recorded" for s in strata for t in s.tallies)
    method = choose("method", method or ("scores" if needs_scores else "ml"), METHODS)
    interval = choose("interval", interval or ("betting" if method == "scores" else "exact"), tuple(INTERVALS))
    if method not in INTERVALS[interval][2]:
        fits = [i for i, (_, _, methods) in INTERVALS.items() if method in methods]
        raise ArgumentError(f"interval must be one of {', '.join(fits)} for method {method!r}; got {interval!r}.")
    if transition is not None and method != "scores":
        raise ArgumentError(f"method must be 'scores' with a transition matrix; got {method!r}.")
    if not 0 <= weight <= 1:
        raise ArgumentError(f"weight must be in [0, 1]; got {weight}.")
    check_error_rates(false_no, false_yes)
    if (false_no or false_yes) and (method not in ("ml", "ordinary") or interval in ("betting", "theorem2", "hoeffding", "bernstein")):
        raise ArgumentError(f"method must be 'ml' with interval exact, anytime, profile or wald when verdicts can be wrong; got {method!r}, {interval!r}.")
    inverse = None if transition is None else transition_scores(transition)
    return _Settings(
        method=method, interval=interval, weight=weight, inverse=inverse, classes=None if classes is None else tuple(classes),
        guess=guess, false_no=false_no, false_yes=false_yes,
    )  # fmt: skip


def _by_name(strata: tuple[Stratum, ...]) -> list[tuple[Stratum, ...]]:
    """Strata of the same name pool their scores; only the names given by the user are separate strata."""
    names = dict.fromkeys(s.name for s in strata)
    return [tuple(s for s in strata if s.name == name) for name in names]


# ---------------------------------------------------------------------------------------------------------------- one part


def _part(group: tuple[Stratum, ...], settings: _Settings, below: float, above: float) -> _Part:
    if settings.method == "scores" or settings.interval == "betting":
        return _scored_part(group, settings, below, above)
    return _binomial_part(group[0], settings, below, above)


def _scored_part(group: tuple[Stratum, ...], settings: _Settings, below: float, above: float) -> _Part:
    rows = score_rows(_only(group, settings.method), inverse=settings.inverse, classes=settings.classes, guess=settings.guess)
    mean, variance = rows.moments()
    spread = variance / rows.n if rows.n > 1 else math.nan
    if settings.interval == "wald":
        limits = _normal(mean, spread, below, above)
    else:
        low, _ = betting_interval(rows.lower, below, 0.0)
        _, high = betting_interval(rows.upper, 0.0, above)
        limits = Limits(low, high) if low <= high else Limits(high, high, empty=True) if mean < 0 else Limits(low, low, empty=True)
    if settings.method not in ("scores",):
        cells = binomial_cells(group[0], _KINDS.get(settings.method, "both")) if len(group) == 1 else ()
        if cells:
            mean = _value(cells, settings)
    return _Part(value=mean, limits=limits, variance=spread, n=rows.n)


def _only(group: tuple[Stratum, ...], method: str) -> tuple[Stratum, ...]:
    wanted = {"ordinary": "yes", "complementary": "no"}.get(method)
    if wanted is None:
        return group
    return tuple(dataclasses.replace(s, tallies={t: n for t, n in s.tallies.items() if t.verdict == wanted}) for s in group)


def _binomial_part(stratum: Stratum, settings: _Settings, below: float, above: float) -> _Part:
    kinds = _KINDS.get(settings.method, "both")
    cells = linear.merge(binomial_cells(stratum, kinds, false_no=settings.false_no, false_yes=settings.false_yes))
    n = sum(c.n for c in cells)
    if not n:
        return _Part(value=math.nan, limits=Limits(0.0, 1.0), variance=math.nan, n=0)
    value, variance = _value(cells, settings), _variance(cells, settings)
    match settings.interval:
        case "exact":
            limits = linear.exact(cells, below, above)
        case "anytime":
            limits = linear.anytime(cells, below + above)
            limits = dataclasses.replace(limits, low=limits.low if below > 0 else 0.0, high=limits.high if above > 0 else 1.0)
        case "profile":
            limits = linear.profile(cells, below, above)
        case "wald":
            limits = _normal(value, variance, below, above)
        case _:
            limits = _deviation(cells, value, settings, below, above)
    return _Part(value=value, limits=limits, variance=variance, n=n)


def _pair(cells: tuple[Cell, ...]) -> tuple[Cell, Cell | None]:
    """The ordinary cell (maybe empty) and the one complementary cell, as the paper's estimators need them."""
    ordinary = next((c for c in cells if c.a == 0 and c.b == 1), Cell(0, 0))
    others = [c for c in cells if c is not ordinary]
    if len(others) > 1:
        raise ArgumentError("method must be 'ml' or 'scores' where items have different numbers of ruled-out classes.")
    return ordinary, others[0] if others else None


def unclipped(cell: Cell) -> float:
    """The rate at which a cell's observed share is expected, (share - a)/b; may leave [0, 1]."""
    return (cell.successes / cell.n - cell.a) / cell.b


def _value(cells: tuple[Cell, ...], settings: _Settings) -> float:
    cells = linear.merge(cells)
    if settings.method in ("complementary", "ordinary"):
        n = sum(c.n for c in cells)
        return sum(c.n * unclipped(c) for c in cells) / n if n else math.nan
    if settings.method in ("ivw", "weighted"):
        ordinary, other = _pair(cells)
        if other is None or not ordinary.n:
            return unclipped(other or ordinary)
        w = ivw_weight(ordinary, other) if settings.method == "ivw" else settings.weight
        return w * unclipped(ordinary) + (1 - w) * unclipped(other)
    return linear.maximum_likelihood(cells)


def _cell_variance(cell: Cell, rate: float) -> float:
    p = cell.p(rate)
    return p * (1 - p) / (cell.b**2 * cell.n)


def ivw_weight(ordinary: Cell, other: Cell) -> float:
    """Weight of the ordinary estimate, from plug-in variances (equation 7).

    Where a plug-in variance is 0 (all right or all wrong) both variances are taken at the maximum of the joint likelihood instead, and at 0 or
    1 from equation (8), in which 1 - A cancels; otherwise one lucky sample would get all the weight.
    """
    rates = [unclipped(ordinary), unclipped(other)]
    v_o, v_c = _cell_variance(ordinary, rates[0]), _cell_variance(other, rates[1])
    if v_o <= 0 or v_c <= 0:
        rate = linear.maximum_likelihood((ordinary, other))
        v_o, v_c = _cell_variance(ordinary, rate), _cell_variance(other, rate)
        if v_o <= 0 or v_c <= 0:
            offset = other.a / other.b
            return (rate + offset) * ordinary.n / (rate * other.n + (rate + offset) * ordinary.n)
    return v_c / (v_o + v_c)


def _variance(cells: tuple[Cell, ...], settings: _Settings) -> float:
    """Plug-in variance of the value at the maximum of the likelihood; NaN where that is 0 or 1."""
    rate = linear.maximum_likelihood(cells)
    info = linear.information(cells, rate)
    if not math.isfinite(info) or info <= 0:
        return math.nan
    if settings.method == "weighted":
        ordinary, other = _pair(cells)
        if other is not None and ordinary.n:
            return settings.weight**2 * _cell_variance(ordinary, rate) + (1 - settings.weight) ** 2 * _cell_variance(other, rate)
    if settings.method in ("complementary", "ordinary") and len(cells) > 1:
        n = sum(c.n for c in cells)
        return sum((c.n / n) ** 2 * _cell_variance(c, rate) for c in cells)
    return 1 / info


def _normal(value: float, variance: float, below: float, above: float) -> Limits:
    if not variance > 0:
        return Limits(0.0, 1.0)
    se = math.sqrt(variance)
    low = value + float(ndtri(below)) * se if below > 0 else 0.0
    high = value - float(ndtri(above)) * se if above > 0 else 1.0
    return Limits(min(max(low, 0.0), 1.0), min(max(high, 0.0), 1.0))


# ------------------------------------------------------------------------------------- the papers' own deviation bounds


def _deviation(cells: tuple[Cell, ...], value: float, settings: _Settings, below: float, above: float) -> Limits:
    ordinary, other = _pair(cells)
    weights = [(1.0, ordinary if ordinary.n else other)]
    if ordinary.n and other is not None:
        w = ivw_weight(ordinary, other) if settings.method == "ivw" else settings.weight
        weights = [(w, ordinary), (1 - w, other)]
    terms = [(w / c.b, c) for w, c in weights if c is not None and w > 0]
    if settings.interval == "theorem4":
        fixed = [(w, c) for w, c in weights if c is not None]
        scale = max(w / (c.b * c.n) for w, c in fixed)
        low, high = concentration.bernstein_inverted(
            value, lambda a: sum(w**2 * _cell_variance(c, a) for w, c in fixed), scale, below, above
        )  # fmt: skip
        return Limits(low, high)

    def radius(tail: float) -> float:
        if tail <= 0:
            return math.inf
        share = tail / len(terms)
        if settings.interval in ("theorem2", "proposition3"):
            return min(_hoeffding(terms, share / 2), _bernstein(terms, share / 2))
        return _hoeffding(terms, share) if settings.interval == "hoeffding" else _bernstein(terms, share)

    return linear.clip(value - radius(below), value + radius(above))


def _hoeffding(terms: Sequence[tuple[float, Cell]], tail: float) -> float:
    return sum(f * concentration.hoeffding_radius(c.n, tail) for f, c in terms)


def _bernstein(terms: Sequence[tuple[float, Cell]], tail: float) -> float:
    return sum(f * concentration.bernstein_radius(c.successes / c.n, c.n, tail) for f, c in terms)


# --------------------------------------------------------------------------------------------------- putting parts together


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Shares:
    """What each part is worth: its part of the population, its answered share with limits, and its part of the error rate."""

    weights: tuple[float, ...]
    answered: tuple[tuple[float, float, float], ...]
    below: float
    above: float


def _shares(groups: Sequence[tuple[Stratum, ...]], below: float, above: float, *, beyond: bool, method: str) -> _Shares:
    total = sum(s.weight * s.items for g in groups for s in g)
    labelled = max(1, sum(1 for g in groups if any(s.n() for s in g)))
    divide = 1 if method == "wald" else labelled
    weights, answered = [], []
    for group in groups:
        size = sum(s.weight * s.items for s in group)
        with_answer = sum(s.weight * s.answered for s in group)
        weights.append(size / total if total else 1.0)
        share = with_answer / size if size else 0.0
        low = high = share
        if beyond:
            items, n_answered = sum(s.items for s in group), sum(s.answered for s in group)
            low, high = clopper_pearson(n_answered, items, below / (2 * labelled), above / (2 * labelled))
            low, high = (low if below > 0 else 0.0), (high if above > 0 else 1.0)
        answered.append((share, low, high))
    halve = 2 if beyond else 1
    return _Shares(weights=tuple(weights), answered=tuple(answered), below=below / (divide * halve), above=above / (divide * halve))


def _combine(
    counts: AccuracyCounts, groups: Sequence[tuple[Stratum, ...]], parts: Sequence[_Part], shares: _Shares, settings: _Settings,
    confidence: float, side: Side,
) -> Estimate:  # fmt: skip
    known = [(w, a, p) for w, a, p in zip(shares.weights, shares.answered, parts, strict=True) if p.n]
    blind = [w for w, a, p in zip(shares.weights, shares.answered, parts, strict=True) if not p.n and a[2] > 0]
    n = sum(p.n for p in parts)
    notes: list[str] = []
    reason, value, variance = "", math.nan, math.nan
    if known:
        covered = sum(w for w, _, _ in known) + sum(w for w, a, p in zip(shares.weights, shares.answered, parts, strict=True) if not p.n and a[2] <= 0)
        value = sum(w * a[0] * p.value for w, a, p in known) / covered
        variance = sum((w * a[0]) ** 2 * p.variance for w, a, p in known)
    elif all(a[2] <= 0 for a in shares.answered) and counts.items and sum(counts.items.values()):
        value, variance = 0.0, math.nan
        notes.append("the system answered nothing: every item counts as wrong")
    else:
        reason = "no usable label of an answered item" if sum(counts.items.values()) else "no items"
    if blind:
        notes.append(f"{len(blind)} of {len(parts)} strata have no label: they hold {sum(blind):.1%} of the items and contribute [0, 1]")
    if settings.interval == "wald" and len(known) > 1:
        whole = _normal(sum(w * a[0] * p.value for w, a, p in known), variance, *tails(confidence, side))
        low, high = whole.low, whole.high + sum(w * a[2] for w, a, p in zip(shares.weights, shares.answered, parts, strict=True) if not p.n)
    else:
        low = sum(w * a[1] * p.limits.low for w, a, p in zip(shares.weights, shares.answered, parts, strict=True))
        high = sum(w * a[2] * p.limits.high for w, a, p in zip(shares.weights, shares.answered, parts, strict=True))
    diagnostics: dict[str, Any] = {"n_labels_used": n, "answered_share": sum(w * a[0] for w, a in zip(shares.weights, shares.answered, strict=True))}
    if any(p.limits.empty for p in parts):
        notes.append("routing alarm: no accuracy in [0, 1] fits these labels; the labels do not follow the assumed design")
        diagnostics["routing_alarm"] = True
    if known and not 0 <= value <= 1:
        notes.append(f"the unclipped value {value:.3f} lies outside [0, 1]: chance, or labels that do not follow the assumed design")
    if low <= 0 and high >= 1:
        notes.append("the interval is [0, 1]: these labels say nothing at this confidence")
    if len(parts) > 1:
        diagnostics["strata"] = [
            {"stratum": g[0].name, "n_classes": sorted({s.n_classes for s in g}), "share": w, "answered_share": a[0], "n": p.n, "value": p.value,
             "low": p.limits.low, "high": p.limits.high}
            for g, w, a, p in zip(groups, shares.weights, shares.answered, parts, strict=True)
        ]  # fmt: skip
    unsure = counts.total(verdict="unsure")
    if unsure:
        notes.append(f"{unsure} items were judged 'unsure' and are treated as missing at random; range_unsure gives the worst case")
    unused = {name: k for name, k in counts.unused.items() if k}
    notes += [f"not used: {k} {name}" for name, k in unused.items()]
    return Estimate(
        quantity="accuracy", subject=counts.systems[0] if counts.systems else "system", value=value, low=min(low, 1.0), high=min(high, 1.0),
        confidence=confidence, side=side, method=settings.method, interval=settings.interval,
        guarantee=Guarantee(kind=Kind.HEURISTIC, error_rate=1 - confidence), se=math.sqrt(variance) if variance >= 0 else math.nan,
        counts=counts.summary(), diagnostics=diagnostics, notes=tuple(notes), reason=reason,
    )  # fmt: skip


def _wald_is_sound(estimate: Estimate) -> bool:
    """Rule of thumb: the value lies at least three standard errors inside [0, 1]."""
    return min(estimate.value, 1 - estimate.value) >= 3 * estimate.se


def _assumptions(counts: AccuracyCounts, strata: tuple[Stratum, ...], settings: _Settings, population: str) -> tuple[Assumption, ...]:
    rests = [Assumption(name="iid items", detail="labelled items are a random sample of the items asked about")]
    recorded = any(t.design == "recorded" for s in strata for t in s.tallies)
    complementary = any(t.verdict == "no" for s in strata for t in s.tallies)
    if recorded:
        rests.append(Assumption(name="recorded propensities", detail="each class was asked about with the probability that was recorded"))
        if settings.method != "scores":
            p_values = [p for p in (targeting_p_value(s) for s in strata) if not math.isnan(p)]
            p = min(1.0, min(p_values) * len(p_values)) if p_values else None
            rests.append(Assumption(name="questions aimed at this system", status="checked" if p is not None else "assumed", p_value=p))
    elif settings.inverse is not None:
        rests.append(Assumption(name="known transition matrix", detail="given the truth, the ruled-out class depends on nothing else"))
    elif complementary and settings.method != "ordinary":
        rests.append(Assumption(name="uniform routing", detail="the class asked about does not depend on item, truth or answers"))
    if settings.false_no or settings.false_yes:
        rests.append(Assumption(name="known error rates", detail=f"false no {settings.false_no:g}, false yes {settings.false_yes:g} for classes that were answered"))
    else:
        rests.append(Assumption(name="right verdicts", detail="nobody says yes to a wrong class or no to the true one"))
    if population == "beyond":
        rests.append(Assumption(name="items beyond these", detail="the answered share has its own interval, error rates added", status="by-design"))
    rests += [Assumption(name=line) for line in counts.inferred]
    return tuple(rests)


def _with_estimated_rates(
    evidence: Evidence | AccuracyCounts, false_no: float | Estimate, false_yes: float | Estimate, options: dict[str, Any]
) -> Estimate:
    """The accuracy is monotone in each rate, so its extremes lie at the corners of their intervals; error rates are added."""

    def corners(rate: float | Estimate) -> tuple[float, tuple[float, ...]]:
        return (rate.value, (rate.low, rate.high)) if isinstance(rate, Estimate) else (rate, (rate,))

    (no, nos), (yes, yess) = corners(false_no), corners(false_yes)
    centre = estimate_accuracy(evidence, false_no=no, false_yes=yes, **options)
    around = [estimate_accuracy(evidence, false_no=a, false_yes=b, **options) for a in nos for b in yess]
    guarantee = centre.guarantee
    for rate in (false_no, false_yes):
        if isinstance(rate, Estimate):
            guarantee = guarantee & rate.guarantee
    return dataclasses.replace(
        centre, low=min(e.low for e in around), high=max(e.high for e in around), guarantee=guarantee, confidence=1 - guarantee.error_rate,
        notes=(*centre.notes, "error rates were estimated: their intervals are joined and their error rates added"),
    )  # fmt: skip
