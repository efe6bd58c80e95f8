"""Accuracy of one system from ordinary, complementary, mixed, biased or noisy labels."""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeVar

from noracle.accuracy.check import checks_for, label_checks
from noracle.accuracy.clusters import cluster_assumption, clusters_matter, from_clusters
from noracle.accuracy.score import (
    ErrorRates,
    Guess,
    LimitSettings,
    Matrix,
    Sample,
    Stratum,
    Whole,
    are_binary,
    from_cells,
    from_scores,
    is_aimed,
    many_weights,
    normal_limits,
    of_kind,
    sample_of,
    strata_of,
    targeting_p_value,
    transition_scores,
    with_unanswered,
)
from noracle.bounds.binomial import BinomialCell, Limits, anytime, clopper_pearson
from noracle.counts import AccuracyCounts, PatternCounts, count_accuracy
from noracle.counts.count import CONTRADICTORY
from noracle.counts.tally import Repeats
from noracle.errors import ArgumentError, GuaranteeWarning
from noracle.evidence import Evidence
from noracle.results import (
    FAILED_BELOW,
    Assumption,
    Check,
    Estimate,
    Guarantee,
    Kind,
    Side,
    choose,
    tails,
)

Method = Literal["ml", "ivw", "weighted", "complementary", "ordinary", "scores"]
Interval = Literal[
    "auto",
    "exact",
    "fixed-n",
    "anytime",
    "betting",
    "profile",
    "wald",
    "hoeffding",
    "bernstein",
    "theorem2",
    "proposition3",
    "theorem4",
]
Rate = float | Mapping[Any, float]
Checks = Sequence[Check] | Literal["auto", "none"]
VACUOUS = "the interval is [0, 1]: these labels say nothing at this confidence"
METHODS = ("ml", "ivw", "weighted", "complementary", "ordinary", "scores")
REPEATED = {
    "mean": "items were answered more than once: an item counts once, with the mean of its repeats",
    "all": "items were answered more than once: an item is right if all its runs are; where they differ it is wrong, whatever its label",
    "any": "items were answered more than once: an item is right if at least one of its runs is",
}
"""What an item that was answered more than once counts for."""
GRADED = Assumption(
    name="graded whatever the answer",
    detail="which answers were graded does not depend on whether they are right",
)
SAMPLED_ITEMS = "no table lists the items: those that were graded are taken as a sample of more"
_MUCH_WIDER = 1.2
_MOST_UNSURE = 1.0  # of the half-width: more unsure verdicts than this could move the value out of the interval

# Which promise an interval makes, and the methods whose value it can stand beside.
_LIKELIHOOD = ("ml", "ivw", "weighted", "complementary", "ordinary")
INTERVALS: dict[str, tuple[Kind, bool, tuple[str, ...]]] = {
    "exact": (Kind.FINITE_SAMPLE, False, _LIKELIHOOD),
    "fixed-n": (Kind.FINITE_SAMPLE, False, METHODS),
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
_CLUSTERED: dict[str, tuple[Kind, bool, tuple[str, ...]]] = {
    "clusters": (Kind.FINITE_SAMPLE, False, METHODS),
    "clusters, every look": (Kind.FINITE_SAMPLE, True, METHODS),
    "cr2": (Kind.ASYMPTOTIC, False, METHODS),
}


def estimate_accuracy(
    evidence: Evidence | AccuracyCounts,
    *,
    system: str | None = None,
    method: Method | None = None,
    interval: Interval = "auto",
    confidence: float = 0.95,
    side: Side = "two-sided",
    weight: float = 0.5,
    transition: Sequence[Sequence[float]] | Matrix | None = None,
    classes: Sequence[int | str] | None = None,
    false_no: Rate | Estimate = 0.0,
    false_yes: Rate | Estimate = 0.0,
    guess: Guess = "leave-one-out",
    population: Literal["answers", "beyond"] = "answers",
    checks: Checks = "auto",
    protocol: Literal["question", "sets"] | None = None,
    clusters: Literal["auto", "ignore"] = "auto",
    repeats: Repeats | None = None,
    strict: bool = False,
    seed: int = 0,
) -> Estimate:
    """Estimate the accuracy of a system from labels that say what an item is, or is not.

    A = P(answer is right); an item without an answer counts as wrong. With S_o of n_o ordinary
    labels right and S_c of n_c answers not ruled out, ``ml`` maximises S_o·log A +
    (n_o-S_o)·log(1-A) + S_c·log q + (n_c-S_c)·log(1-q), q = (A+K-2)/(K-1).

    Parameters
    ----------
    evidence
        Tables, or counts of them. Grades are ordinary labels of their own system, whatever the
        number of classes.
    system
        Which system; may be left out where there is one.
    method
        ``ml``; ``ivw`` weighs the two kinds by plug-in variances; ``weighted`` by ``weight`` (the
        ordinary share); ``complementary`` and ``ordinary`` use one kind; ``scores`` is the mean of
        unbiased scores, for everything else. Default ``ml`` where the evidence allows it, else
        ``scores``.
    interval
        ``auto`` takes the narrowest interval with a finite-sample promise that the design allows:
        ``exact`` for counts that are linear in the accuracy (hypergeometric where the items are all
        there are and labels are ordinary; over parts that must be kept apart one bound for their
        sum), ``fixed-n`` for scores. The choice rests on numbers of labels and items, never on
        verdicts. ``anytime`` and ``betting`` hold at every look. The others are listed in
        :data:`noracle.accuracy.estimate.INTERVALS`.
    transition, classes
        T[y][k] = P(class k is ruled out | true class y), for labels that are not uniform;
        ``classes`` gives the order of named classes.
    false_no, false_yes
        Known rates of wrong verdicts about the answer itself, P(no | right) and P(yes | wrong), one
        number or one per class; or estimates of them, whose error rates are added.
    guess
        For recorded propensities: the guess of correctness that reduces the variance of the value.
        ``leave-one-out`` is the share of yes on other items, ``column`` the column ``guess`` of the
        answers (an autorater, a share of votes, fixed before the labels).
    population
        ``answers``: accuracy on the items in the answers table; where all of them have an ordinary
        label it is known exactly. ``beyond``: these items are a sample of more items of their kind;
        so it is, whatever is said here, where grades come without answers and items.
    checks
        ``auto`` runs the checks that these labels need
        (:func:`noracle.accuracy.check.label_checks`) and writes them to the guarantee; a failed
        one makes it HEURISTIC, or raises if ``strict``. ``none`` switches them off, and the result
        says so. Or results of ``check_*``.
    protocol
        ``question`` where one random class was asked about each item, ``sets`` where yes and no
        labels were collected separately.
    clusters
        Items of one cluster (column ``cluster`` of the items) may depend on each other. ``auto``
        takes the cluster as the unit where that matters: for items beyond these, and where whole
        clusters were labelled. The interval is then ``clusters`` (bets on one number per cluster),
        or ``cr2`` for ``wald``. ``ignore`` takes all items as independent.
    repeats
        Where items were answered more than once (column ``repeat``): ``mean``, the accuracy of one
        run; ``all``, the share of items that are right every time; ``any``, at least once. By
        default what the evidence says, ``mean`` unless
        :meth:`Evidence.with_repeats` said otherwise. Items, not runs, are the unit: runs of one item share its label.
    seed
        For the random order of bets and for thinning.

    Notes
    -----
    Assumes that labelled items are a random sample of the items asked about and, for uniform
    designs, that the class asked about does not depend on item, truth or answers. Strata that were
    labelled at different rates, weights, and numbers of classes where the law of a label depends on
    them are parts with known shares; a part without labels contributes [0, 1]. Where labels fall on
    the strata as on a random sample of all items, strata are pooled.

    References
    ----------
    Yin, Ishida and Sugiyama, "Towards scalable oversight via partitioned human supervision",
    equations (2), (7) and (9), with the corrections listed in the documentation.

    Examples
    --------
    >>> from noracle import AccuracyCounts, estimate_accuracy
    >>> counts = AccuracyCounts.from_counts(n_classes=10, ordinary=(300, 235), complementary=(2700, 2634))
    >>> estimate_accuracy(counts)
    Estimate(accuracy of 'system': 0.7819 [0.7452, 0.815] at 0.95, exact, finite-sample)
    """
    if isinstance(false_no, Estimate) or isinstance(false_yes, Estimate):
        options: dict[str, Any] = {
            "system": system,
            "method": method,
            "interval": interval,
            "confidence": confidence,
            "side": side,
            "guess": guess,
            "population": population,
            "checks": checks,
            "protocol": protocol,
            "clusters": clusters,
            "strict": strict,
            "classes": classes,
            "weight": weight,
            "seed": seed,
        }
        return _with_estimated_rates(evidence, false_no, false_yes, {**options, "repeats": repeats})
    choose("clusters", clusters, ("auto", "ignore"))
    evidence = taking_repeats(evidence, repeats)
    rates = ErrorRates(false_no, false_yes) if false_no or false_yes else None
    by_class = transition is not None or (rates is not None and rates.by_class)
    found = counts_of(
        evidence,
        system,
        by_class=by_class,
        by_guess=guess == "column",
        by_cluster=clusters == "auto",
    )
    sampled = not found.whole and any(t.design != "uniform" for t in found.tallies)
    if sampled:  # grades alone
        population = "beyond"
    beyond = population == "beyond"
    if beyond and found.most_answers:  # items beyond these may have more different answers
        most = max(c.n_classes for c in found.items)
        found = dataclasses.replace(found, most_answers=dict.fromkeys(found.most_answers, most))
    counts = found.without_clusters()
    strata = strata_of(counts)
    settings = _settings(
        strata,
        method,
        interval,
        weight,
        transition,
        classes,
        rates,
        guess,
        beyond=beyond,
        seed=seed,
    )
    grouped = (
        found
        if clusters == "auto" and found.clustered and clusters_matter(found, beyond=beyond)
        else None
    )
    whole = _whole(
        counts, strata, settings, *tails(confidence, side), beyond=beyond, grouped=grouped
    )
    if beyond and any(counts.items.values()) and not any(s.answered for s in strata):
        n = sum(counts.items.values())  # items beyond these may have an answer
        whole = dataclasses.replace(
            whole,
            n=0,
            value=0.0,
            limits=Limits(0.0, clopper_pearson(0, n, *tails(confidence, side))[1]),
        )
    estimate = _told(counts, strata, whole, settings, confidence, side)
    kind, every_look, _ = _CLUSTERED.get(whole.interval) or INTERVALS.get(
        whole.interval, INTERVALS[settings.interval]
    )
    every_look = every_look and not whole.fixed
    # An empty interval at 95 % happens by chance; one that stays empty at the threshold of checks
    # refutes the design.
    rare = (FAILED_BELOW / 2, FAILED_BELOW / 2)
    refuted = (
        whole.limits.empty
        and _whole(counts, strata, settings, *rare, beyond=beyond, grouped=grouped).limits.empty
    )
    rests = _assumptions(
        counts, strata, settings, population, grouped=grouped, refuted=refuted, estimate=estimate
    )
    guarantee = Guarantee(
        kind=kind, error_rate=1 - confidence, anytime=every_look, assumptions=rests
    )
    if settings.interval == "wald" and (math.isnan(estimate.se) or not _wald_is_sound(estimate)):
        warnings.warn(
            f"interval='wald' is unreliable here (value {estimate.value:.3g}, n = {whole.n}); use interval='exact'.",
            GuaranteeWarning,
            stacklevel=2,
        )
    if sampled:
        estimate = dataclasses.replace(estimate, notes=(*estimate.notes, SAMPLED_ITEMS))
    used = _checks(
        evidence, counts, checks, settings, protocol, clusters=clusters, population=population
    )
    if checks == "none":
        estimate = dataclasses.replace(
            estimate, notes=(*estimate.notes, "the labels were not checked: checks='none'")
        )
    return dataclasses.replace(estimate, guarantee=guarantee.given(*used, strict=strict))


def _checks(
    evidence: Evidence | AccuracyCounts,
    counts: AccuracyCounts,
    checks: Checks,
    settings: LimitSettings,
    protocol: Literal["question", "sets"] | None,
    **about_items: Any,
) -> tuple[Check, ...]:
    """The checks that go into the guarantee of the one system of these counts."""
    if checks == "none" or not counts.systems:
        return ()
    system = counts.systems[0]
    if checks == "auto":
        about = evidence if isinstance(evidence, Evidence) else counts
        checks = label_checks(
            about,
            counts=counts,
            systems=[system],
            protocol=protocol,
            seed=settings.seed,
            **about_items,
        )
    return checks_for(
        checks,
        system,
        error_rates=settings.rates is not None,
        transition=settings.inverse is not None,
    )


_Known = TypeVar("_Known", AccuracyCounts, PatternCounts)


def taking_repeats(evidence: Evidence | _Known, repeats: Repeats | None) -> Evidence | _Known:
    """The evidence that counts repeats in this way; counts must have been made so."""
    if repeats is None:
        return evidence
    choose("repeats", repeats, ("mean", "all", "any"))
    if isinstance(evidence, Evidence):
        return evidence.with_repeats(repeats)
    if (
        isinstance(evidence, (AccuracyCounts, PatternCounts))
        and evidence.runs
        and evidence.repeats != repeats
    ):
        raise ArgumentError(
            f"repeats must be {evidence.repeats!r}, as these counts were made; got {repeats!r}. Count the tables again."
        )
    return evidence


def counts_of(
    evidence: Evidence | AccuracyCounts,
    system: str | None,
    *,
    by_class: bool = False,
    by_guess: bool = False,
    by_cluster: bool = False,
) -> AccuracyCounts:
    """The counts of one system, from tables or from counts; by cluster where the items have one."""
    if isinstance(evidence, AccuracyCounts):
        return evidence.of(system)
    if not isinstance(evidence, Evidence):
        raise ArgumentError(
            f"evidence must be Evidence or AccuracyCounts; got {type(evidence).__name__}. Use Evidence.from_tables(…)."
        )
    by_cluster = by_cluster and evidence.items is not None and "cluster" in evidence.items.columns
    chosen = None if system is None else [system]
    return count_accuracy(
        evidence, systems=chosen, by_class=by_class, by_guess=by_guess, by_cluster=by_cluster
    ).of(system)


def _settings(
    strata: tuple[Stratum, ...],
    method: str | None,
    interval: str,
    weight: float,
    transition: Sequence[Sequence[float]] | Matrix | None,
    classes: Sequence[int | str] | None,
    rates: ErrorRates | None,
    guess: Guess,
    *,
    beyond: bool,
    seed: int,
) -> LimitSettings:
    """Fill in what was left open, and refuse combinations that have no meaning."""
    by_class = rates is not None and rates.by_class
    recorded = any(t.design == "recorded" for s in strata for t in s.tallies)
    needs_scores = (
        transition is not None
        or by_class
        or (recorded and (guess != "leave-one-out" or beyond or not is_aimed(strata)))
        or not are_binary(t for s in strata for t in s.tallies)
    )
    method = choose("method", method or ("scores" if needs_scores else "ml"), METHODS)
    choose("interval", interval, ("auto", *INTERVALS))
    if interval == "auto":
        # Beyond these items the shares of the parts, and of the items without an answer, are
        # unknown.
        silent = any(not t.answered for s in strata for t in s.tallies)
        mixed = silent or len({s.n_classes for s in strata if s.n()}) > 1
        by_scores = (
            method == "scores"
            or many_weights(strata)
            or (beyond and mixed and rates is None and not _only_ordinary(strata))
        )
        interval = "fixed-n" if by_scores else "exact"
    if method not in INTERVALS[interval][2]:
        fits = [i for i, (_, _, methods) in INTERVALS.items() if method in methods]
        raise ArgumentError(
            f"interval must be one of {', '.join(fits)} for method {method!r}; got {interval!r}."
        )
    if transition is not None and method != "scores":
        raise ArgumentError(f"method must be 'scores' with a transition matrix; got {method!r}.")
    if not 0 <= weight <= 1:
        raise ArgumentError(f"weight must be in [0, 1]; got {weight}.")
    if rates is not None and (
        method not in ("scores", "ml", "ordinary")
        or (method == "scores") != (interval in ("fixed-n", "betting", "wald"))
    ):
        raise ArgumentError(
            "method must be 'ml' with interval exact, anytime or profile, or 'scores' with fixed-n, betting or wald, when verdicts can be "
            f"wrong; got {method!r} with {interval!r}."
        )
    if by_class and method != "scores":
        raise ArgumentError(
            f"method must be 'scores' where error rates differ by class; got {method!r}."
        )
    inverse = None if transition is None else transition_scores(transition)
    return LimitSettings(
        method=method,
        interval=interval,
        weight=weight,
        inverse=inverse,
        classes=None if classes is None else tuple(classes),
        guess=guess,
        rates=rates,
        seed=seed,
    )


def _only_ordinary(strata: Sequence[Stratum]) -> bool:
    tallies = [t for s in strata for t in s.tallies]
    return all(t.design != "recorded" and t.verdict != "no" for t in tallies) and are_binary(
        tallies
    )


# ------------------------------------------------------------------------------------------------------
# value and limits


def _whole(
    counts: AccuracyCounts,
    strata: tuple[Stratum, ...],
    settings: LimitSettings,
    below: float,
    above: float,
    *,
    beyond: bool,
    grouped: AccuracyCounts | None,
) -> Whole:
    """Value and limits over all items."""
    questions = any(t.verdict == "no" and t.design == "uniform" for s in strata for t in s.tallies)
    used = of_kind(strata, settings.method)
    plain = beyond and _only_ordinary(strata) and settings.rates is None
    by_scores = settings.scored or settings.method == "scores"
    sample = sample_of(
        with_unanswered(used) if plain else used,
        apart=questions or settings.rates is not None,
        method=settings.method,
        scored=by_scores,
        whole=counts.whole,
        beyond=beyond and (plain or by_scores),
    )
    if beyond and len({s.weight for s in strata if s.items}) > 1:
        raise ArgumentError(
            "population must be 'answers' where weights differ, since those of other items are not known; got 'beyond'."
        )
    if grouped is not None:
        return from_clusters(grouped, settings, below, above)
    find = from_scores if by_scores else from_cells
    if not beyond or (sample.beyond and not sample.unequal):
        return find(sample, settings, below, above)
    return _joined(sample, settings, below, above, find)


def _joined(
    sample: Sample,
    settings: LimitSettings,
    below: float,
    above: float,
    find: Callable[[Sample, LimitSettings, float, float], Whole],
) -> Whole:
    """Items beyond these: the shares of the parts are unknown too.

    ``wald`` adds the variance of the shares, Var_s(A_s)/N, or its largest value A(1 - A)/N for
    scores. Other intervals are joined with limits for the share of each part's items (answered
    ones, where only these are looked at) among all items, at half of the error.
    """
    n_items = sum(s.items for g in sample.groups for s in g)
    if settings.interval == "wald" and find is from_scores:
        found = find(sample, settings, below, above)
        variance = found.variance + max(found.value * (1 - found.value), 0.0) / max(n_items, 1)
        return dataclasses.replace(
            found, variance=variance, limits=normal_limits(found.value, variance, below, above)
        )
    if settings.interval == "wald":
        found = find(sample, settings, below, above)
        rates = [(part["share"], part["value"]) for part in found.parts] or [
            (sum(map(sample.share, sample.groups)), 0.0)
        ]
        if not found.parts and sample.groups:
            share = sum(map(sample.share, sample.groups))
            rates = [(share, found.value / share if share else 0.0)]
        spread = sum(q * a * a for q, a in rates) - sum(q * a for q, a in rates) ** 2
        variance = found.variance + max(spread, 0.0) / max(n_items, 1)
        return dataclasses.replace(
            found, variance=variance, limits=normal_limits(found.value, variance, below, above)
        )
    found = find(sample, settings, below / 2, above / 2)
    shares = [
        (sum(s.items if sample.beyond else s.answered for s in g), sample.share(g))
        for g in sample.groups
    ]
    ends = []
    for answered, share in shares:
        spent = 2 * len(shares)
        if INTERVALS[settings.interval][1]:
            limits = anytime([BinomialCell(n_items, answered)], (below + above) / spent)
            low, high = limits.low if below > 0 else 0.0, limits.high if above > 0 else 1.0
        else:
            low, high = clopper_pearson(answered, n_items, below / spent, above / spent)
        ends.append((share, low, high))
    scale = [
        (low / share if share else 1.0, high / share if share else 1.0) for share, low, high in ends
    ] or [(1.0, 1.0)]
    limits = Limits(
        found.limits.low * min(s[0] for s in scale),
        min(1.0, found.limits.high * max(s[1] for s in scale)),
        found.limits.empty,
    )
    return dataclasses.replace(
        found, limits=limits, sharp=None
    )  # a profile would take the shares as known


# ------------------------------------------------------------------------------------------------------------
# the result


def _told(
    counts: AccuracyCounts,
    strata: tuple[Stratum, ...],
    whole: Whole,
    settings: LimitSettings,
    confidence: float,
    side: Side,
) -> Estimate:
    """The estimate without its guarantee."""
    n_items = sum(counts.items.values())
    answered = sum(s.weight * s.answered for s in strata)
    total = sum(s.weight * s.items for s in strata)
    value, variance, limits, reason = whole.value, whole.variance, whole.limits, ""
    notes: list[str] = []
    diagnostics: dict[str, Any] = {
        "n_labels_used": whole.n,
        "answered_share": answered / total if total else 0.0,
    }
    if not whole.n and n_items and not answered:
        value, variance, limits = (
            0.0,
            math.nan,
            whole.limits if whole.value == 0.0 else Limits(0.0, 0.0),
        )
        said = (
            "gave no item the same answer every time"
            if counts.runs and counts.repeats == "all"
            else "answered nothing"
        )
        notes.append(f"the system {said}: every item counts as wrong")
    elif not whole.n:
        value, limits = math.nan, Limits(0.0, answered / total if total else 1.0)
        reason = "no usable label of an answered item" if n_items else "no items"
    notes += _choice(whole)
    if whole.n and whole.blind > 0:
        notes.append(
            f"{whole.blind:.1%} of the items are in parts that have no label and contribute [0, 1]"
        )
    if whole.fixed and INTERVALS[settings.interval][1]:
        notes.append(
            "strata were labelled at different rates: the interval holds at this number of labels, not at every look"
        )
    if limits.empty:
        notes.append(
            "routing alarm: no accuracy in [0, 1] fits these labels: chance, or labels that do not follow the assumed design"
        )
        diagnostics["routing_alarm"] = True
    if whole.n and not 0 <= value <= 1:
        notes.append(
            f"the unclipped value {value:.3f} lies outside [0, 1]: chance, or labels that do not follow the assumed design"
        )
    if limits.low <= 0 and limits.high >= 1:
        notes.append(VACUOUS)
    if whole.clusters:
        diagnostics["clusters"] = whole.clusters
        if math.isfinite(whole.design_effect):
            diagnostics["design_effect"] = whole.design_effect
    if whole.parts:
        diagnostics["parts"] = [dict(part) for part in whole.parts]
    sharp = whole.sharp
    if sharp is not None and limits.high - limits.low > _MUCH_WIDER * (sharp.high - sharp.low):
        diagnostics["asymptotic"] = {"low": sharp.low, "high": sharp.high, "interval": "profile"}
        notes.append(
            f"asymptotic interval [{sharp.low:.3f}, {sharp.high:.3f}]: narrower, and promised for many labels only"
        )
    if counts.runs:
        notes.append(REPEATED[counts.repeats])
        if counts.repeats != "mean":
            diagnostics["repeats"] = counts.when_right()
    notes += [f"not used: {k} {name}" for name, k in counts.unused.items() if k]
    return Estimate(
        quantity="accuracy",
        subject=counts.systems[0] if counts.systems else "system",
        value=value,
        low=limits.low,
        high=limits.high,
        confidence=confidence,
        side=side,
        method="scores" if whole.clusters else settings.method,
        interval=whole.interval,
        guarantee=Guarantee(kind=Kind.HEURISTIC, error_rate=1 - confidence),
        se=math.sqrt(variance) if variance >= 0 else math.nan,
        counts=counts.summary(),
        diagnostics=diagnostics,
        notes=tuple(notes),
        reason=reason,
    )


def _choice(whole: Whole) -> list[str]:
    """Why this interval, where that is not plain from its name."""
    if whole.interval == "parts":
        return [
            f"{len(whole.parts)} parts of the items have labels of different kinds or rates: one bound for their sum"
        ]
    if whole.interval == "hypergeometric":
        if whole.limits.low == whole.limits.high:
            return [
                "every item has a label: the accuracy on these items is known; population='beyond' speaks of more items of their kind"
            ]
        return [
            "the items are all there are (population='answers'): the share without labels is what is uncertain"
        ]
    if whole.interval in _CLUSTERED:
        told = f"items come in {whole.clusters} clusters: the cluster is the unit, and its items may depend on each other"
        cost = (
            f"; they cost about {whole.design_effect:.1f} times the labels of independent items"
            if whole.design_effect > 1
            else ""
        )
        return [told + cost]
    return []


def _wald_is_sound(estimate: Estimate) -> bool:
    """Rule of thumb: the value lies at least three standard errors inside [0, 1]."""
    return min(estimate.value, 1 - estimate.value) >= 3 * estimate.se


def _assumptions(
    counts: AccuracyCounts,
    strata: tuple[Stratum, ...],
    settings: LimitSettings,
    population: str,
    *,
    grouped: AccuracyCounts | None,
    refuted: bool,
    estimate: Estimate,
) -> tuple[Assumption, ...]:
    rests = [
        Assumption(
            name="iid items", detail="labelled items are a random sample of the items asked about"
        )
    ]
    if grouped is not None:  # items of one cluster may depend on each other
        rests = [cluster_assumption(grouped)]
    recorded = any(t.design == "recorded" for s in strata for t in s.tallies)
    complementary = any(
        t.verdict == "no" and t.design == "uniform" for s in strata for t in s.tallies
    )
    if recorded:
        rests.append(
            Assumption(
                name="recorded propensities",
                detail="each class was asked about with the probability that was recorded",
            )
        )
        if settings.method != "scores":
            p_values = [p for p in (targeting_p_value(s) for s in strata) if not math.isnan(p)]
            p = min(1.0, min(p_values) * len(p_values)) if p_values else None
            rests.append(
                Assumption(
                    name="questions aimed at this system",
                    status="checked" if p is not None else "assumed",
                    p_value=p,
                )
            )
    elif settings.inverse is not None:
        rests.append(
            Assumption(
                name="known transition matrix",
                detail="given the truth, the ruled-out class depends on nothing else",
            )
        )
    if complementary and settings.inverse is None and settings.method != "ordinary":
        rests.append(
            Assumption(
                name="uniform routing",
                detail="the class asked about does not depend on item, truth or answers",
            )
        )
    if settings.rates is not None:
        rests.append(
            Assumption(
                name="known error rates",
                detail=f"false no {settings.rates.false_no}, false yes {settings.rates.false_yes} for classes that were answered",
            )
        )
    else:
        rests.append(_right_verdicts(counts))
    if any(t.design == "graded" for s in strata for t in s.tallies):
        rests.append(GRADED)
    rests += _missing(counts, estimate)
    if refuted:
        rests.append(
            Assumption(
                name="labels fit the design",
                status="failed",
                detail="no accuracy in [0, 1] fits these labels",
            )
        )
    if population == "beyond":
        rests.append(
            Assumption(
                name="items beyond these",
                detail="these items are a random sample of the items that matter",
            )
        )
    rests += [Assumption(name=line) for line in counts.inferred]
    return tuple(rests)


def _right_verdicts(counts: AccuracyCounts) -> Assumption:
    """Contradictory items that were left out prove that some verdicts are wrong."""
    dropped = counts.unused.get(CONTRADICTORY, 0)
    if dropped:
        detail = f"{dropped} items with verdicts that contradict each other were left out: some verdicts are wrong, and others may be"
        return Assumption(name="right verdicts", status="failed", detail=detail)
    return Assumption(
        name="right verdicts", detail="nobody says yes to a wrong class or no to the true one"
    )


def _missing(counts: AccuracyCounts, estimate: Estimate) -> list[Assumption]:
    """Unsure verdicts are missing; that they are missing at random can rarely be checked, so few of
    them may be taken on trust.
    """
    unsure = counts.total(verdict="unsure", answered=True)
    if not unsure:
        return []
    labelled = unsure + int(estimate.diagnostics["n_labels_used"])
    share, half = unsure / labelled, (estimate.high - estimate.low) / 2
    told = f"{unsure} of {labelled} verdicts are unsure and left out; range_unsure gives the worst case"
    if share > _MOST_UNSURE * half:
        told += ". They could move the value by more than the interval allows for"
        return [Assumption(name="verdicts missing at random", status="failed", detail=told)]
    return [Assumption(name="verdicts missing at random", detail=told)]


def _with_estimated_rates(
    evidence: Evidence | AccuracyCounts,
    false_no: Rate | Estimate,
    false_yes: Rate | Estimate,
    options: dict[str, Any],
) -> Estimate:
    """The accuracy is monotone in each rate, so its extremes lie at the corners of their intervals;
    error rates are added.
    """

    def corners(rate: Rate | Estimate) -> tuple[Rate, tuple[Rate, ...]]:
        return (
            (rate.value, (rate.low, rate.high)) if isinstance(rate, Estimate) else (rate, (rate,))
        )

    (no, nos), (yes, yess) = corners(false_no), corners(false_yes)
    centre = estimate_accuracy(evidence, false_no=no, false_yes=yes, **options)
    around = [
        estimate_accuracy(evidence, false_no=a, false_yes=b, **options) for a in nos for b in yess
    ]
    guarantee = centre.guarantee
    for rate in (false_no, false_yes):
        if isinstance(rate, Estimate):
            guarantee = guarantee & rate.guarantee
    return dataclasses.replace(
        centre,
        low=min(e.low for e in around),
        high=max(e.high for e in around),
        guarantee=guarantee,
        confidence=1 - guarantee.error_rate,
        notes=(
            *centre.notes,
            "error rates were estimated: their intervals are joined and their error rates added",
        ),
    )
