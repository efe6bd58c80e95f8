"""Accuracy of one system from ordinary, complementary, mixed, biased or noisy labels."""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeVar

from noracle.accuracy.check import checks_for, label_checks, late_of
from noracle.accuracy.clusters import (
    BY_CLUSTER,
    cluster_assumption,
    clusters_matter,
    from_clusters,
    has_clusters,
)
from noracle.accuracy.score import (
    ErrorRates,
    Floats,
    Guess,
    LimitSettings,
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
    require_type,
    sample_of,
    sided_anytime,
    strata_of,
    targeting_p_value,
    transition_scores,
    with_unanswered,
)
from noracle.bounds.binomial import BinomialCell, Limits, clopper_pearson
from noracle.counts import AccuracyCounts, PatternCounts, count_accuracy
from noracle.counts.count import CONTRADICTORY
from noracle.counts.tally import Repeats
from noracle.errors import GuaranteeWarning, refuse, require
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
Strata = Literal["auto", "apart"]
Checks = Sequence[Check] | Literal["auto", "none"]
VACUOUS = "the interval is [0, 1]: these labels say nothing at this confidence"
METHODS = ("ml", "ivw", "weighted", "complementary", "ordinary", "scores")
REPEATED = {
    "mean": "items were answered more than once: an item counts once, with the mean of its repeats",
    "all": "items were answered more than once: an item is right if all its runs are; where they differ it is wrong, whatever its label",
    "any": "items were answered more than once: an item is right if at least one of its runs is",
}
"""What an item that was answered more than once counts for."""
UNTOLD = Assumption(
    name="answers made without the verdicts", detail="the system never saw what was said"
)
GRADED = Assumption(
    name="graded whatever the answer",
    detail="which answers were graded does not depend on whether they are right",
)
INDEPENDENT = Assumption(
    name="iid items", detail="labelled items are a random sample of the items asked about"
)
RECORDED = Assumption(
    name="recorded propensities",
    detail="each class was asked about with the probability that was recorded",
)
UNIFORM = Assumption(
    name="uniform routing",
    detail="the class asked about does not depend on item, truth or answers",
)
UNCHECKED = "the labels were not checked: checks='none'"
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
    transition: Sequence[Sequence[float]] | Floats | None = None,
    classes: Sequence[int | str] | None = None,
    false_no: Rate | Estimate = 0.0,
    false_yes: Rate | Estimate = 0.0,
    guess: Guess = "leave-one-out",
    population: Literal["answers", "beyond"] = "answers",
    checks: Checks = "auto",
    protocol: Literal["question", "sets"] | None = None,
    clusters: Literal["auto", "ignore"] = "auto",
    strata: Strata = "auto",
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
    strata
        ``auto`` pools strata where the labels fall on them as on a random sample of all items.
        ``apart`` makes each a part with a known share (post-stratification), which is narrower
        where strata differ in accuracy. It must be chosen before the labels are seen.
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
    given = {**locals()}
    if isinstance(false_no, Estimate) or isinstance(false_yes, Estimate):
        return _with_estimated_rates(**given)
    choose("clusters", clusters, ("auto", "ignore"))
    choose("strata", strata, ("auto", "apart"))
    evidence = taking_repeats(evidence, repeats)
    rates = ErrorRates(false_no, false_yes) if false_no or false_yes else None
    found = counts_of(
        evidence,
        system,
        by_class=transition is not None or (rates is not None and rates.by_class),
        by_guess=guess == "column",
        by_cluster=clusters == "auto",
    )
    sampled = _is_sample(found)
    if sampled:
        population = "beyond"
    beyond = population == "beyond"
    if beyond and found.most_answers:  # items beyond these may have more different answers
        most = max(c.n_classes for c in found.items)
        found = dataclasses.replace(found, most_answers=dict.fromkeys(found.most_answers, most))
    counts = found.without_clusters()
    stratified, groups = strata == "apart", strata_of(counts)
    settings = LimitSettings(
        **_chosen(groups, method, interval, weight, transition, rates, guess, beyond=beyond),
        weight=weight,
        inverse=None if transition is None else transition_scores(transition),
        classes=None if classes is None else tuple(classes),
        guess=guess,
        rates=rates,
        seed=seed,
    )
    together = clusters == "auto" and found.clustered and clusters_matter(found, beyond=beyond)
    grouped = found if together else None

    def limits(below: float, above: float) -> Whole:
        return _whole(
            counts,
            groups,
            settings,
            below,
            above,
            beyond=beyond,
            grouped=grouped,
            stratified=stratified,
        )

    whole = limits(*tails(confidence, side))
    if beyond and any(counts.items.values()) and not any(s.answered for s in groups):
        n = sum(counts.items.values())  # items beyond these may have an answer
        high = clopper_pearson(0, n, *tails(confidence, side))[1]
        whole = dataclasses.replace(whole, n=0, value=0.0, limits=Limits(0.0, high))
    estimate = _told(counts, groups, whole, settings, confidence, side)
    kind, every_look, _ = _CLUSTERED.get(whole.interval) or INTERVALS.get(
        whole.interval, INTERVALS[settings.interval]
    )
    # An empty interval at 95 % happens by chance; one that stays empty at the threshold of checks
    # refutes the design.
    refuted = whole.limits.empty and limits(FAILED_BELOW / 2, FAILED_BELOW / 2).limits.empty
    guarantee = Guarantee(
        kind=kind,
        error_rate=1 - confidence,
        anytime=every_look and not whole.fixed,
        assumptions=_assumptions(counts, groups, settings, population, grouped, refuted, estimate),
    )
    if settings.interval == "wald" and not _wald_is_sound(estimate):
        other = "fixed-n" if settings.method == "scores" else "exact"  # the one that fits
        warnings.warn(
            f"interval='wald' is unreliable here (value {estimate.value:.3g}, n = {whole.n}); use interval={other!r}.",
            GuaranteeWarning,
            stacklevel=2,
        )
    about = {"clusters": clusters, "population": population}
    used = _checks(evidence, counts, checks, settings, protocol, **about)
    notes = [SAMPLED_ITEMS] * sampled + [UNCHECKED] * (checks == "none")
    return dataclasses.replace(
        estimate,
        guarantee=guarantee.given(*used, strict=strict),
        notes=(*estimate.notes, *notes),
    )


def estimate_accuracies(
    evidence: Evidence | AccuracyCounts,
    *,
    systems: Sequence[str] | None = None,
    method: Method | None = None,
    interval: Interval = "auto",
    confidence: float = 0.95,
    side: Side = "two-sided",
    weight: float = 0.5,
    transition: Sequence[Sequence[float]] | Floats | None = None,
    classes: Sequence[int | str] | None = None,
    false_no: Rate | Estimate = 0.0,
    false_yes: Rate | Estimate = 0.0,
    guess: Guess = "leave-one-out",
    population: Literal["answers", "beyond"] = "answers",
    checks: Checks = "auto",
    protocol: Literal["question", "sets"] | None = None,
    clusters: Literal["auto", "ignore"] = "auto",
    strata: Strata = "auto",
    repeats: Repeats | None = None,
    strict: bool = False,
    seed: int = 0,
) -> dict[str, Estimate]:
    """Estimate the accuracy of every system; tables are counted, and labels checked, only once.

    Each estimate is that of :func:`estimate_accuracy` for its system, at ``confidence`` each: that
    all intervals hold together is not promised. To say which system is better use
    :func:`compare_systems`, which looks at differences on the same labels.

    Parameters
    ----------
    evidence
        Tables, or counts of them.
    systems
        Which systems, in this order; all by default, sorted by name.
    method, interval, confidence, side, weight, transition, classes, false_no, false_yes, guess
        As in :func:`estimate_accuracy`, the same for every system.
    population, checks, protocol, clusters, strata, repeats, strict, seed
        As in :func:`estimate_accuracy`. A check with one part per system bears on that system only.

    Returns
    -------
    dict
        The name of each system with its :class:`Estimate`.

    Notes
    -----
    With S systems, intervals at confidence 1 - α/S each hold together with probability P >= 1 - α,
    α = 1 - ``confidence`` (Bonferroni).

    Assumes what :func:`estimate_accuracy` assumes, for every system.

    References
    ----------
    Yin, Ishida and Sugiyama, "Towards scalable oversight via partitioned human supervision"; Dunn
    (1961), JASA 56, 52-64 (intervals that hold together).

    Examples
    --------
    >>> from noracle import estimate_accuracies
    >>> from noracle.simulate import simulate_world
    >>> world = simulate_world(n_items=400, n_classes=5, systems={"a": 0.8, "b": 0.6}, seed=1)
    >>> for name, estimate in estimate_accuracies(world.evidence()).items():
    ...     print(name, round(estimate.low, 2), round(estimate.high, 2))
    a 0.72 0.86
    b 0.52 0.69
    """
    options = {k: v for k, v in locals().items() if k not in ("evidence", "systems")}
    evidence = taking_repeats(evidence, repeats)
    rates = any(isinstance(rate, Mapping) for rate in (false_no, false_yes))
    counts = _counted(
        evidence,
        systems,
        by_class=transition is not None or rates,
        by_guess=guess == "column",
        by_cluster=clusters == "auto",
    )
    names = counts.systems if systems is None else tuple(systems)
    if checks == "auto":
        options["checks"] = label_checks(
            evidence,
            counts=counts.without_clusters(),
            systems=names,
            protocol=protocol,
            clusters=clusters,
            population="beyond" if _is_sample(counts) else population,
            seed=seed,
        )
    unchecked = checks == "none" and isinstance(evidence, Evidence)
    late = late_of(evidence, names) if unchecked else []  # type: ignore[arg-type]
    own = {
        name: options | {"checks": checks_for(late, name) or options["checks"]} for name in names
    }
    return {name: estimate_accuracy(counts.of(name), **own[name]) for name in names}


def _is_sample(counts: AccuracyCounts) -> bool:
    """Whether there are grades alone, of items that are taken as a sample of more."""
    return not counts.whole and any(t.design != "uniform" for t in counts.tallies)


def _checks(
    evidence: Evidence | AccuracyCounts,
    counts: AccuracyCounts,
    checks: Checks,
    settings: LimitSettings,
    protocol: Literal["question", "sets"] | None,
    **about_items: Any,
) -> tuple[Check, ...]:
    """The checks that go into the guarantee of the one system of these counts."""
    if not counts.systems:
        return ()
    system = counts.systems[0]
    if checks == "none":
        checks = late_of(evidence, [system]) if isinstance(evidence, Evidence) else ()
    elif checks == "auto":
        about = evidence if isinstance(evidence, Evidence) else counts
        own: dict[str, Any] = {"counts": counts, "systems": [system], "seed": settings.seed}
        checks = label_checks(about, protocol=protocol, **own, **about_items)
    noisy, biased = settings.rates is not None, settings.inverse is not None
    return checks_for(checks, system, error_rates=noisy, transition=biased)


_Known = TypeVar("_Known", AccuracyCounts, PatternCounts)


def taking_repeats(evidence: Evidence | _Known, repeats: Repeats | None) -> Evidence | _Known:
    """The evidence that counts repeats in this way; counts must have been made so."""
    if repeats is None:
        return evidence
    choose("repeats", repeats, ("mean", "all", "any"))
    if isinstance(evidence, Evidence):
        return evidence.with_repeats(repeats)
    if isinstance(evidence, (AccuracyCounts, PatternCounts)) and evidence.runs:
        require(
            evidence.repeats == repeats,
            f"repeats must be {evidence.repeats!r}, as these counts were made; got {repeats!r}. Count the tables again.",
        )
    return evidence


def counts_of(
    evidence: Evidence | AccuracyCounts, system: str | None, **by: bool
) -> AccuracyCounts:
    """The counts of one system, from tables or from counts; ``by`` as in :func:`count_accuracy`, by
    cluster where the items have one.
    """
    return _counted(evidence, None if system is None else [system], **by).of(system)


def _counted(
    evidence: Evidence | AccuracyCounts,
    systems: Sequence[str] | None,
    *,
    by_cluster: bool = False,
    **by: bool,
) -> AccuracyCounts:
    require_type(evidence, Evidence, AccuracyCounts)
    if isinstance(evidence, AccuracyCounts):
        return evidence
    by_cluster = by_cluster and has_clusters(evidence)
    return count_accuracy(evidence, systems=systems, by_cluster=by_cluster, **by)


def _chosen(
    strata: tuple[Stratum, ...],
    method: str | None,
    interval: str,
    weight: float,
    transition: object,
    rates: ErrorRates | None,
    guess: Guess,
    *,
    beyond: bool,
) -> dict[str, str]:
    """Method and interval, what was left open filled in; what has no meaning is refused."""
    by_class = rates is not None and rates.by_class
    tallies = [t for s in strata for t in s.tallies]
    recorded = any(t.design == "recorded" for t in tallies)
    needs_scores = (
        transition is not None
        or by_class
        or (recorded and (guess != "leave-one-out" or beyond or not is_aimed(strata)))
        or not are_binary(tallies)
    )
    method = choose("method", method or ("scores" if needs_scores else "ml"), METHODS)
    choose("interval", interval, ("auto", *INTERVALS))
    if interval == "auto":
        # Beyond these items the shares of the parts, and of the items without an answer, are
        # unknown.
        silent = any(not t.answered for t in tallies)
        mixed = silent or len({s.n_classes for s in strata if s.n()}) > 1
        by_scores = (
            method == "scores"
            or many_weights(strata)
            or (beyond and mixed and rates is None and not _only_ordinary(strata))
        )
        interval = "fixed-n" if by_scores else "exact"
    fits = ", ".join(i for i, (_, _, methods) in INTERVALS.items() if method in methods)
    by_scores = method == "scores"
    noisy = method in ("scores", "ml", "ordinary") and by_scores == (
        interval in ("fixed-n", "betting", "wald")
    )
    refuse(
        {
            f"interval must be one of {fits} for method {method!r}; got {interval!r}.": (
                method not in INTERVALS[interval][2]
            ),
            f"method must be 'scores' with a transition matrix; got {method!r}.": (
                transition is not None and not by_scores
            ),
            f"weight must be in [0, 1]; got {weight}.": not 0 <= weight <= 1,
            "method must be 'ml' with interval exact, anytime or profile, or 'scores' with fixed-n, betting or wald, when verdicts can be "
            f"wrong; got {method!r} with {interval!r}.": rates is not None and not noisy,
            f"method must be 'scores' where error rates differ by class; got {method!r}.": (
                by_class and not by_scores
            ),
        }
    )
    return {"method": method, "interval": interval}


def _only_ordinary(strata: Sequence[Stratum]) -> bool:
    tallies = [t for s in strata for t in s.tallies]
    plain = all(t.design != "recorded" and t.verdict != "no" for t in tallies)
    return plain and are_binary(tallies)


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
    stratified: bool,
) -> Whole:
    """Value and limits over all items."""
    used = of_kind(strata, settings.method)
    plain = beyond and _only_ordinary(strata) and settings.rates is None
    sample = sample_of(
        with_unanswered(used) if plain else used,
        apart=_has_uniform_no(strata) or settings.rates is not None,
        method=settings.method,
        scored=settings.scored,
        whole=counts.whole,
        beyond=beyond and (plain or settings.scored),
        stratified=stratified,
    )
    require(
        not beyond or len({s.weight for s in strata if s.items}) <= 1,
        "population must be 'answers' where weights differ, since those of other items are not known; got 'beyond'.",
    )
    if grouped is not None:
        return from_clusters(grouped, settings, below, above)
    find = from_scores if settings.scored else from_cells
    if not beyond or (sample.beyond and not sample.unequal):
        return find(sample, settings, below, above)
    return _joined(sample, settings, below, above, find)


def _has_uniform_no(strata: Sequence[Stratum]) -> bool:
    return any(t.verdict == "no" and t.design == "uniform" for s in strata for t in s.tallies)


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
    if settings.interval == "wald":
        found = find(sample, settings, below, above)
        share = sum(map(sample.share, sample.groups))
        alone = [(share, found.value / share if share else 0.0)]
        rates = [(part["share"], part["value"]) for part in found.parts] or alone
        spread = sum(q * a * a for q, a in rates) - sum(q * a for q, a in rates) ** 2
        if find is from_scores:
            spread = found.value * (1 - found.value)
        variance = found.variance + max(spread, 0.0) / max(n_items, 1)
        limits = normal_limits(found.value, variance, below, above)
        return dataclasses.replace(found, variance=variance, limits=limits)
    found = find(sample, settings, below / 2, above / 2)
    least, most, spent = [], [], 2 * len(sample.groups)
    for g in sample.groups:
        n, share = sum(map(sample.size, g)), sample.share(g)
        if INTERVALS[settings.interval][1]:
            limits = sided_anytime([BinomialCell(n_items, n)], below, above, spent)
        else:
            limits = Limits(*clopper_pearson(n, n_items, below / spent, above / spent))
        least.append(limits.low / share if share else 1.0)
        most.append(limits.high / share if share else 1.0)
    low, high = (
        found.limits.low * min(least, default=1.0),
        found.limits.high * max(most, default=1.0),
    )
    # A profile would take the shares as known.
    limits = Limits(low, min(1.0, high), found.limits.empty)
    return dataclasses.replace(found, limits=limits, sharp=None)


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
    share = answered / total if total else 0.0
    diagnostics: dict[str, Any] = {"n_labels_used": whole.n, "answered_share": share}
    if not whole.n and n_items and not answered:
        limits = whole.limits if whole.value == 0.0 else Limits(0.0, 0.0)
        value, variance, said = 0.0, math.nan, "answered nothing"
        if counts.runs and counts.repeats == "all":
            said = "gave no item the same answer every time"
        notes.append(f"the system {said}: every item counts as wrong")
    elif not whole.n:
        value, limits = math.nan, Limits(0.0, share if total else 1.0)
        reason = "no usable label of an answered item" if n_items else "no items"
    if whole.clusters:
        diagnostics["clusters"] = whole.clusters
        if math.isfinite(whole.design_effect):
            diagnostics["design_effect"] = whole.design_effect
    if whole.parts:
        diagnostics["parts"] = [dict(part) for part in whole.parts]
    if limits.empty:
        diagnostics["routing_alarm"] = True
    sharp, wider = whole.sharp, False
    if sharp is not None:
        wider = limits.high - limits.low > _MUCH_WIDER * (sharp.high - sharp.low)
    design = "chance, or labels that do not follow the assumed design"
    sentences = {
        f"{whole.blind:.1%} of the items are in parts that have no label and contribute [0, 1]": (
            whole.n and whole.blind > 0
        ),
        "strata were labelled at different rates: the interval holds at this number of labels, not at every look": (
            whole.fixed and INTERVALS[settings.interval][1]
        ),
        f"routing alarm: no accuracy in [0, 1] fits these labels: {design}": limits.empty,
        f"the unclipped value {value:.3f} lies outside [0, 1]: {design}": (
            whole.n and not 0 <= value <= 1
        ),
        VACUOUS: limits.low <= 0 and limits.high >= 1,
    }
    notes += [*_choice(whole), *(note for note, holds in sentences.items() if holds)]
    if sharp is not None and wider:
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
    match whole.interval:
        case "parts":
            n = len(whole.parts)
            return [
                f"{n} parts of the items have labels of different kinds or rates: one bound for their sum"
            ]
        case "hypergeometric" if whole.limits.low == whole.limits.high:
            return [
                "every item has a label: the accuracy on these items is known; population='beyond' speaks of more items of their kind"
            ]
        case "hypergeometric":
            return [
                "the items are all there are (population='answers'): the share without labels is what is uncertain"
            ]
        case "clusters" | "clusters, every look" | "cr2":
            note = BY_CLUSTER.format(whole.clusters)
            if whole.design_effect > 1:
                note += f"; they cost about {whole.design_effect:.1f} times the labels of independent items"
            return [note]
    return []


def _wald_is_sound(estimate: Estimate) -> bool:
    """Rule of thumb: the value lies at least three standard errors inside [0, 1]."""
    return min(estimate.value, 1 - estimate.value) >= 3 * estimate.se


def _assumptions(
    counts: AccuracyCounts,
    strata: tuple[Stratum, ...],
    settings: LimitSettings,
    population: str,
    grouped: AccuracyCounts | None,
    refuted: bool,
    estimate: Estimate,
) -> tuple[Assumption, ...]:
    # Items of one cluster may depend on each other.
    rests = [INDEPENDENT if grouped is None else cluster_assumption(grouped)]
    designs = {t.design for s in strata for t in s.tallies}
    if "recorded" in designs:
        rests.append(RECORDED)
        if settings.method != "scores":
            p_values = [p for p in map(targeting_p_value, strata) if not math.isnan(p)]
            p = min(1.0, min(p_values) * len(p_values)) if p_values else None
            status: Literal["checked", "assumed"] = "assumed" if p is None else "checked"
            aimed = Assumption(name="questions aimed at this system", status=status, p_value=p)
            rests.append(aimed)
    elif settings.inverse is not None:
        detail = "given the truth, the ruled-out class depends on nothing else"
        rests.append(Assumption(name="known transition matrix", detail=detail))
    if _has_uniform_no(strata) and settings.inverse is None and settings.method != "ordinary":
        rests.append(UNIFORM)
    if settings.rates is not None:
        rates = f"false no {settings.rates.false_no}, false yes {settings.rates.false_yes}"
        detail = f"{rates} for classes that were answered"
        rests.append(Assumption(name="known error rates", detail=detail))
    else:
        rests.append(right_verdicts(counts, ": some verdicts are wrong, and others may be"))
    if "graded" in designs:
        rests.append(GRADED)
    if designs - {"graded"}:  # a grade is of an answer that was there before it
        rests.append(UNTOLD)
    rests += _missing(counts, estimate)
    if refuted:
        detail = "no accuracy in [0, 1] fits these labels"
        rests.append(Assumption(name="labels fit the design", status="failed", detail=detail))
    if population == "beyond":
        detail = "these items are a random sample of the items that matter"
        rests.append(Assumption(name="items beyond these", detail=detail))
    return (*rests, *(Assumption(name=line) for line in counts.inferred))


def right_verdicts(counts: AccuracyCounts | PatternCounts, so: str = "") -> Assumption:
    """Contradictory items that were left out prove that some verdicts are wrong."""
    dropped = counts.unused.get(CONTRADICTORY, 0)
    detail = "nobody says yes to a wrong class or no to the true one"
    if dropped:
        detail = f"{dropped} items with verdicts that contradict each other were left out{so}"
    status: Literal["failed", "assumed"] = "failed" if dropped else "assumed"
    return Assumption(name="right verdicts", status=status, detail=detail)


def _missing(counts: AccuracyCounts, estimate: Estimate) -> list[Assumption]:
    """That verdicts are missing at random can rarely be checked: few may be taken on trust."""
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
    *,
    false_no: Rate | Estimate,
    false_yes: Rate | Estimate,
    **options: Any,
) -> Estimate:
    """The accuracy is monotone in each rate, so its extremes lie at the corners of their intervals;
    error rates are added.
    """

    def at(no: Rate, yes: Rate) -> Estimate:
        return estimate_accuracy(evidence, false_no=no, false_yes=yes, **options)

    told = [rate for rate in (false_no, false_yes) if isinstance(rate, Estimate)]
    no, yes = (r.value if isinstance(r, Estimate) else r for r in (false_no, false_yes))
    nos, yess = (
        (r.low, r.high) if isinstance(r, Estimate) else (r,) for r in (false_no, false_yes)
    )
    centre, around = at(no, yes), [at(a, b) for a in nos for b in yess]
    guarantee = centre.guarantee
    for rate in told:
        guarantee = guarantee & rate.guarantee
    note = "error rates were estimated: their intervals are joined and their error rates added"
    return dataclasses.replace(
        centre,
        low=min(e.low for e in around),
        high=max(e.high for e in around),
        guarantee=guarantee,
        confidence=1 - guarantee.error_rate,
        notes=(*centre.notes, note),
    )
