"""Means of what is expensive, with the help of raters who are cheap, biased and correlated."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from noracle.bounds.binomial import ndtri, stdtrit
from noracle.errors import (
    ArgumentError,
    EvidenceError,
    EvidenceWarning,
    GuaranteeWarning,
    fault,
    refuse,
    require,
    require_evidence,
)
from noracle.ppi import intervals, table
from noracle.ppi.covariance import Array
from noracle.ppi.intervals import MeanFit, MeanProblem, Samples, ScoreSample, Tails
from noracle.results import (
    Assumption,
    Estimate,
    Guarantee,
    Kind,
    Plan,
    Side,
    check_confidence,
    choose,
    tails,
)

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

Wanted = str | Mapping[str, float] | None
Shared = Mapping[str, str] | None
Interval = Literal["crossfit-t", "jackknife-t", "paper", "anytime", "classical"]
INTERVALS = ("crossfit-t", "jackknife-t", "paper", "anytime", "classical")

ENOUGH = 50
"""Labelled rows from which the coverage of the default interval was measured to be as promised."""
FEWEST = 4
"""Labelled rows below which nothing is estimated."""
LIGHT = "tails light enough for t"
"""The assumption that is checked on the residuals; see :func:`noracle.ppi.intervals.tails_of`."""
BATCHES = 20


class MeanTask(NamedTuple):
    """The columns, which mean each of them has, and the wanted combination of means."""

    columns: tuple[str, ...]
    means: tuple[str, ...]
    design: Array
    target: Array
    coefficients: Mapping[str, float]
    by_stratum: bool = False

    @property
    def labels(self) -> tuple[int, ...]:
        """Columns whose mean is part of the target."""
        return tuple(np.flatnonzero(self.design @ self.target).tolist())

    @property
    def raters(self) -> tuple[int, ...]:
        """Columns that only help."""
        return tuple(j for j in range(len(self.columns)) if j not in self.labels)

    @property
    def subject(self) -> str:
        """The target in words."""
        wanted: dict[str, float] = {}
        for name, c in self.coefficients.items():
            rater = name.split("/", 1)[1] if self.by_stratum else name
            wanted[rater] = round(wanted.get(rater, 0.0) + c, 12) if self.by_stratum else c
        sizes = {n: "" if abs(c) == 1 else f"{abs(c):g}·" for n, c in wanted.items()}
        parts = [f"{'−' if c < 0 else '+'} {sizes[n]}{n}" for n, c in wanted.items()]
        return " ".join(parts).removeprefix("+ ")

    def problem(
        self, *, guard: bool, shrink: bool, cov: Array | None, used: Sequence[int] | None = None
    ) -> MeanProblem:
        """The same in numbers; ``guard`` drops useless raters among those that are ``used``."""
        raters = tuple(self.raters if used is None else used) if guard else ()
        return MeanProblem(
            target=self.target, design=self.design, shrink=shrink, raters=raters, cov=cov
        )

    def name(self, sample: ScoreSample) -> str:
        """What a sample observes, in words."""
        return "+".join(self.columns[c] for c in sample.columns)


def estimate_mean(
    data: object,
    plan: Plan | None = None,
    *,
    target: str | Mapping[str, float] | None = None,
    interval: Interval = "crossfit-t",
    confidence: float = 0.95,
    side: Side = "two-sided",
    raters: Sequence[str] | None = None,
    same_mean: Mapping[str, str] | None = None,
    measurements: Sequence[Sequence[str]] | None = None,
    strata: str | None = None,
    shares: Mapping[str, float] | None = None,
    clusters: str | None = "cluster",
    cov: ArrayLike | None = None,
    shrink: bool = True,
    drop_useless: bool = True,
    folds: int = 5,
    batches: int = BATCHES,
    columns: Mapping[str, str] | None = None,
    seed: int = 0,
) -> Estimate:
    """Estimate the mean of a gold rater, or any combination of means, from rows that observe
    different raters.

    Rows with the same observed columns I form a sample of size n_I. The estimate is Σ_I λ_I·X̄_I
    with λ_I = n_I·Σ_I⁻¹·H_I·M⁻¹·a and M = Σ n_I·H_Iᵀ·Σ_I⁻¹·H_I: of all weightings whose mean is the
    target whatever the raters' biases are, the one with the least variance. Classical estimates,
    PPI, PPI++ (scalar or vector) and cascades are the same call with fewer ``measurements``.

    Parameters
    ----------
    data
        A table with a column per rater (null: not observed), a long table ``item, rater, value``, a
        list of files of both forms, or a 2-D array. A row is an item.
    plan
        The plan that the data were collected by (it names target and raters), if there is one.
    target
        The gold rater, or a mapping of names to coefficients: ``{"a": 1, "b": -1}`` is a difference
        of means.
    interval
        ``crossfit-t`` (default): each fifth of the labelled rows is weighted by what the others
        say; Student's t with N-p-1 degrees of freedom. ``jackknife-t``: rows left out one by one; a
        little wider. ``paper``: weights and residuals from the same rows, normal quantile, as
        published; too narrow for few labels. ``anytime``: weights from past batches only; valid at
        every look. ``classical``: the gold rater's own mean.
    raters
        The columns to use; default all that hold numbers. For arrays, the names of the columns.
    same_mean
        Columns that have the mean of another one, such as scores of complementary labels:
        ``{"ruled_out_score": "human"}``.
    measurements
        Sets of names that may be used together; a row is used for the set that fits it best.
        Default: as observed.
    strata, shares
        The column that names a row's stratum, and each stratum's part of the population (a plan
        with strata knows them): means and weights are then taken within strata, the columns being
        called ``stratum/rater``.
    clusters
        The column that names a row's cluster, where there is one: rows of one cluster may depend on
        each other. Whole clusters are dealt into folds, and the variance is CR2's, with
        Satterthwaite's degrees of freedom; for ``crossfit-t`` and ``classical``. None takes rows as
        independent.
    cov
        The covariance of the columns in the order of ``raters``, if it is known from elsewhere.
    shrink, drop_useless
        Shrink correlations (Ledoit and Wolf); leave out raters that save less than 1/(N-p-1) of the
        variance.
    columns
        Your names of the columns ``item``, ``rater``, ``value`` and ``cluster``, where they have
        others: ``{"item": "question_id"}``.
    folds, batches, seed
        Number of folds of ``crossfit-t``, of batches of ``anytime``, and the seed that deals rows
        into folds; their order in the file does not matter.

    Returns
    -------
    Estimate
        ``diagnostics`` holds the weights, the classical estimate and interval, the raters that were
        dropped, N, p and the degrees of freedom.

    Notes
    -----
    Assumes that rows are independent draws from one population and that what a row observes does
    not depend on its values (missing completely at random). The promise is asymptotic: with
    ``crossfit-t`` coverage was .945 to .952 at N ≥ 50 labelled rows in the settings of the tests;
    below that a warning says so. With heavy tails it can be .7 (lognormal, σ = 2, N = 100): where
    the residuals show them, the promise is taken away with a warning, that is where the estimate's
    skewness (that of the rows over √N) is above 0.16, or above 0.42 if the variance rests on many
    like rows. Large values too rare to be among the rows cannot be seen. If the plan itself was
    made from the same few labelled rows, and many raters were to choose from, coverage can fall
    further: .938 at N = 50 with ten like raters, of which the plan took those that looked best.

    References
    ----------
    Cowen-Breen et al., "Multiple-prediction-powered inference", sections 4 and C, with the
    corrections listed in the documentation; Angelopoulos et al. (2023), "PPI++"; Schaden and
    Ullmann (2020), SIAM/ASA J. UQ 8, 601-635.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(1)
    >>> truth = rng.random(2000) < 0.7
    >>> judge = np.where(rng.random(2000) < 0.9, truth, ~truth)
    >>> human = [float(t) if i < 200 else None for i, t in enumerate(truth)]
    >>> found = estimate_mean({"human": human, "judge": judge.astype(float)}, target="human")
    >>> found
    Estimate(mean of 'human': 0.69... [0.64..., 0.73...] at 0.95, crossfit-t, asymptotic)
    >>> found.width < found.diagnostics["classical"]["high"] - found.diagnostics["classical"]["low"]
    True
    """
    choose("interval", interval, INTERVALS)
    check_confidence(confidence)
    hints = _hints(data, plan)
    data = table.one_table(data, columns=columns)
    if strata is None:
        wanted = target if target is not None else hints.get("target")
        read = table.read_rows(data, raters, "data")
        task, rows = _known_to_plan(*read, wanted, same_mean, hints)
    else:
        task, rows = _read_strata(data, target, raters, same_mean, strata, shares, hints)
    of_cluster = None if clusters is None else table.read_clusters(data, clusters)
    simple = interval in ("crossfit-t", "classical") and cov is None and strata is None
    rule = "interval must be 'crossfit-t' or 'classical', without cov and strata, where rows come in clusters"
    remedy = "Pass clusters=None to take rows as independent."
    require(simple or of_cluster is None, f"{rule}; got {interval!r}. {remedy}")
    if interval == "anytime":
        from noracle.ppi.sequential import MeanStream, estimate_in_batches

        alone = cov is None and measurements is None and side == "two-sided"
        rule = "interval 'anytime' takes no cov, measurements or side; got one of them"
        require(alone, f"{rule}. Use interval='crossfit-t'.")
        _check_columns(table.group_samples(rows, task.labels, least=1).samples, task)
        stream = MeanStream(task, confidence, shrink, drop_useless)
        return estimate_in_batches(stream, rows, batches)
    known = None if cov is None else _known_covariance(cov, task)
    sets = _allowed(measurements, task)
    grouped = table.group_samples(rows, task.labels, sets, clusters=of_cluster)
    samples = grouped.samples
    _check_coverage(samples, task)
    _check_columns(samples, task)
    plain = task.problem(guard=False, shrink=shrink, cov=known)
    usual, spread, n = (float(v) for v in intervals.classical(samples, plain))
    held, freedom, added = 0, n, None
    if of_cluster is not None:
        held, freedom, added = _by_cluster(samples, task, plain)
        spread = float((added**2).sum())
    rule = f"must have at least {FEWEST} rows with {task.subject}"
    require_evidence(n >= FEWEST, "data", rule, f"{n:g}", remedy="Label more items.")
    used = [j for j in task.raters if any(j in s.columns for s in samples)]
    guard = drop_useless and interval not in ("paper", "classical")
    problem = task.problem(guard=guard, shrink=shrink, cov=known, used=used)
    if interval == "classical":
        nothing = np.zeros(0, dtype=bool)
        fit = MeanFit(np.asarray(usual), np.asarray(spread), (), nothing, np.zeros(()))
    elif known is not None or interval == "paper":
        fit = intervals.plug_in(samples, problem)
    elif interval == "jackknife-t":
        fit = intervals.jackknife(samples, problem)
    elif of_cluster is not None:
        dealt = table.split_clusters(samples, max(2, min(folds, held // 2)), seed)
        fit, added = intervals.cross_fit_clusters(dealt, problem)
    else:
        fit = intervals.cross_fit(table.split_rows(samples, folds, seed), problem)
    parts = 1
    if strata is not None:  # they are independent, each with a mean of its own
        parts = int(np.count_nonzero(task.target))
        n = float(sum(float(s.n) for s in samples if set(s.columns) & set(task.labels)))
    dropped = [task.columns[j] for j in np.flatnonzero(fit.dropped)]
    p = 0 if interval == "classical" else len(used) - len(dropped)
    free = (freedom if held else n) - parts
    df = math.inf if interval == "paper" else max(1.0, free - (p if known is None else 0))
    half = math.sqrt(float(fit.variance))
    low, high = _limits(float(fit.value), half, df, confidence, side)
    notes = [*grouped.notes, *_notes(samples, task, dropped, interval, known is not None)]
    notes += _without_pilot(plan, task, rows)
    for note, kind in _warnings(samples, task, n, interval):
        notes.append(note)
        warnings.warn(note, kind, stacklevel=2)
    by_cluster = added is not None and intervals.tails_of([np.ones(len(added))], [added], held)
    found = by_cluster or _tails(samples, fit, plain, n)
    apart = f"rows come in clusters, {held} of them with labels: the cluster is the unit"
    notes += [apart] if held else []
    if not found.light:
        notes.append(_heavy(found))
        warnings.warn(_heavy(found), GuaranteeWarning, stacklevel=2)
    beside = _limits(usual, math.sqrt(spread), max(1.0, free), confidence, side)
    n_rows, unused = int(sum(float(s.n) for s in samples)), grouped.unused
    counts = {"items": n_rows + unused, "labelled": int(n), "unused": {"rows": unused}}
    weights = {
        task.name(s): {task.columns[c]: float(x) for c, x in zip(s.columns, w, strict=True)}
        for s, w in zip(samples, fit.weights, strict=False)
    }
    figures = usual, math.sqrt(spread), *beside
    return Estimate(
        quantity="mean",
        subject=task.subject,
        value=float(fit.value),
        low=low,
        high=high,
        confidence=confidence,
        method="classical" if interval == "classical" else "multippi",
        interval=interval,
        side=side,
        se=half,
        guarantee=guarantee_of(held or n, confidence, found=found, clusters=bool(held)),
        notes=tuple(notes),
        counts=counts | ({"clusters": held} if held else {}),
        diagnostics={
            "measurements": {task.name(s): int(s.n) for s in samples},
            "weights": weights,
            "classical": dict(zip(("value", "se", "low", "high"), figures, strict=True)),
            "variance_ratio": float(fit.variance) / spread if spread > 0 else math.nan,
            "dropped": dropped,
            "n_labelled": int(n),
            "n_raters": p,
            "degrees_of_freedom": df if math.isfinite(df) else None,
            "shrinkage": float(fit.intensity),
            "skewness": found.skewness,
            "largest_share": found.largest,
            "seed": seed,
        },
    )


def _by_cluster(samples: Samples, task: MeanTask, problem: MeanProblem) -> tuple[int, float, Array]:
    """Clusters with labels, degrees of freedom, and what each cluster adds classically."""
    mine = [s for s in samples if set(s.columns) & set(task.labels)]
    held, freedom = intervals.cluster_freedom(mine)
    rule, remedy = f"must have at least {FEWEST} clusters with", "Label items of more clusters."
    require_evidence(held >= FEWEST, "data", f"{rule} {task.subject}", held, remedy=remedy)
    rows = intervals.classical_influences(samples, problem)[2]
    return held, freedom, intervals.clusters_added(samples, rows)


def _tails(samples: Samples, fit: MeanFit, plain: MeanProblem, n: float) -> Tails:
    rows = intervals.influences(samples, fit.weights) if fit.weights else ()
    rows = rows or intervals.classical_influences(samples, plain)[2]
    return intervals.tails_of([s.counts for s in samples], rows, n)


def guarantee_of(
    n: float,
    confidence: float,
    *,
    anytime: bool = False,
    found: Tails | None = None,
    clusters: bool = False,
) -> Guarantee:
    """The promise, with the rules of thumb that it met or failed; heavy tails take it away."""
    rule = Assumption(
        name=f"at least {ENOUGH} labelled {'clusters' if clusters else 'rows'}",
        status="checked" if n >= ENOUGH else "failed",
        detail=f"N = {n:g}, rule of thumb N ≥ {ENOUGH}",
    )
    unit = Assumption(name="clusters are a random sample" if clusters else "iid items")
    light, kind = Assumption(name=LIGHT), Kind.ASYMPTOTIC
    if found is not None:
        detail = f"skewness of the estimate {found.skewness:.2g}, largest share of its variance from one row {found.largest:.2g}"
        light = Assumption(name=LIGHT, status="checked" if found.light else "failed", detail=detail)
        kind = Kind.ASYMPTOTIC if found.light else Kind.HEURISTIC
    assumptions = unit, Assumption(name="missing completely at random"), light, rule
    return Guarantee(kind=kind, error_rate=1 - confidence, anytime=anytime, assumptions=assumptions)


def few_labels(n: float) -> str:
    """That the labelled rows are too few to trust the promise."""
    return f"only {n:g} labelled rows: below {ENOUGH} the interval holds less often than it says"


def _heavy(found: Tails) -> str:
    """Why the promise is gone, and what to do."""
    return (
        f"heavy tails: the estimate has skewness {found.skewness:.2f} and one row makes {found.largest:.0%} of its variance, so that the "
        "interval holds less often than it says; label more rows, or, for scores with known bounds, use an interval by betting"
    )


def _hints(data: object, plan: Plan | None) -> dict[str, Any]:
    """What a plan says about the data: target and names of raters and of further label kinds."""
    now = "The data come first: estimate_mean(data, target=…) or estimate_mean(data, plan)."
    came, beside = type(data).__name__, type(plan).__name__
    is_data = not (data is None or isinstance(data, Plan))
    require(is_data, f"data must be scores; got {came}. {now}")
    is_plan = plan is None or isinstance(plan, Plan)
    require(is_plan, f"plan must be a Plan or None; got {beside}. {now}")
    if plan is None:
        return {}
    problem = plan.diagnostics.get("problem") or plan.inputs.get("problem") or {}
    names = [str(n) for n in problem.get("names", ())]
    if not names or "target" not in problem:
        return {}
    kinds = [f for f in problem.get("families", ()) if f.get("label") is not None]
    called = {f"{f['prefix']}{f['called']}": f for f in kinds}
    return {
        "names": names,
        "target": {n: float(a) for n, a in zip(names, problem["target"], strict=True) if a},
        "kinds": {name: names[f["label"]] for name, f in called.items()},
        "plain": {name for name, f in called.items() if not f.get("noise")},
    }


def make_task(columns: Sequence[str], target: Wanted, same_mean: Shared = None) -> MeanTask:
    """Check names and write the target in numbers."""
    shared = dict(same_mean or {})
    known = list(columns)
    if target is None:
        raise ArgumentError(f"target must name the gold rater among {known}; got None.")
    given = {target: 1.0} if isinstance(target, str) else target
    wanted = {str(n): float(c) for n, c in given.items()}
    strange = [n for n in (*wanted, *shared, *shared.values()) if n not in columns]
    strange_names = ", ".join(dict.fromkeys(strange))
    doubled = ", ".join(n for n in shared if n in wanted or n in shared.values())
    odd = not any(wanted.values()) or not all(math.isfinite(c) for c in wanted.values())
    refuse(
        {
            f"target and same_mean must name columns among {known}; got {strange_names}.": strange,
            f"same_mean must map further columns to a column with a mean of its own; got {doubled} on both sides.": doubled,
            f"target must have finite coefficients, some of them not 0; got {wanted}.": odd,
        }
    )
    means = tuple(c for c in columns if c not in shared)
    design = np.array([[float(shared.get(c, c) == m) for m in means] for c in columns])
    a = np.array([wanted.get(m, 0.0) for m in means])
    return MeanTask(tuple(columns), means, design, a, wanted)


def _known_to_plan(
    rows: Array, names: tuple[str, ...], target: Any, same_mean: Shared, hints: Mapping[str, Any]
) -> tuple[MeanTask, Array]:
    """Keep the columns that the plan speaks of; kinds of label share the mean of the target."""
    if hints:
        of_kind, known = hints["kinds"], hints["names"]
        # An ordinary label under the name of its kind is the target itself.
        named = {c: of for c, of in of_kind.items() if c in hints["plain"] and of not in names}
        names = tuple(named.get(n, n) for n in names)
        kinds = {c: of for c, of in of_kind.items() if c in names and c not in known}
        kept = [n for n in names if n in known or n in kinds]
        rows, names = rows[:, [names.index(n) for n in kept]], tuple(kept)
        same_mean = {**kinds, **(same_mean or {})}
    return make_task(names, target, same_mean), rows


def _read_strata(
    data: object,
    target: Wanted,
    raters: Sequence[str] | None,
    same_mean: Shared,
    strata: str,
    shares: Mapping[str, float] | None,
    hints: Mapping[str, Any],
) -> tuple[MeanTask, Array]:
    """A block of columns for each stratum; a row observes those of its own."""
    scores = table.read_scores(data, names=raters, strata=strata, what="data")
    rows = table.check_rows(scores.rows, scores.names)
    groups = sorted(set(scores.strata))
    wide = np.full((len(rows), len(groups) * len(scores.names)), np.nan)
    for place, group in enumerate(groups):
        mine = np.array([s == group for s in scores.strata])
        wide[mine, place * len(scores.names) : (place + 1) * len(scores.names)] = rows[mine]
    names = tuple(f"{g}/{n}" for g in groups for n in scores.names)
    wanted: Any = hints.get("target")
    if target is not None or wanted is None:
        parts = table.stratum_shares(groups, shares)
        plain = {target: 1.0} if isinstance(target, str) else dict(target or {})
        wanted = {f"{g}/{n}": part * c for g, part in parts.items() for n, c in plain.items()}
    shared = {f"{g}/{c}": f"{g}/{m}" for g in groups for c, m in (same_mean or {}).items()}
    task, kept = _known_to_plan(wide, names, wanted, shared, hints)
    return task._replace(by_stratum=True), kept


def _allowed(
    measurements: Sequence[Sequence[str]] | None, task: MeanTask
) -> list[tuple[int, ...]] | None:
    if measurements is None:
        return None
    allowed = []
    for one in measurements:
        names = [one] if isinstance(one, str) else list(one)
        rule = f"measurements must be sets of names among {list(task.columns)}"
        require(names and set(names) <= set(task.columns), f"{rule}; got {names}.")
        allowed.append(tuple(sorted(task.columns.index(n) for n in names)))
    return allowed


def _check_coverage(samples: Samples, task: MeanTask) -> None:
    """Refuse samples that leave a part of the target without rows."""
    seen = [task.design[c] for s in samples for c in s.columns]
    for j in np.flatnonzero(task.target):
        rule = f"must have rows that observe {task.means[j]!r}"
        remedy = "Label some items, or check the name of the target."
        require_evidence(any(row[j] for row in seen), "data", rule, "none", remedy=remedy)


def _check_columns(samples: Samples, task: MeanTask) -> None:
    """Refuse columns that never vary: they say nothing, or give an empty interval."""
    faults = []
    for place, name in enumerate(task.columns):
        held = [s.values[:, s.columns.index(place)] for s in samples if place in s.columns]
        if held and min(float(h.min()) for h in held) == max(float(h.max()) for h in held):
            n = int(sum(float(s.n) for s in samples if place in s.columns))
            remedy = "A rater that always says the same tells nothing: leave it out of raters."
            if place in task.labels:
                remedy = "An interval from its spread would be empty: label more items, or use estimate_accuracy for right and wrong."
            came = f"{float(held[0][0]):g} in all {n} rows"
            faults.append(fault(f"data.{name}", "must vary", came, remedy=remedy))
    if faults:
        raise EvidenceError(*faults)


def _known_covariance(cov: ArrayLike, task: MeanTask) -> Array:
    try:
        known = np.asarray(cov, dtype=np.float64)
    except (TypeError, ValueError):
        raise ArgumentError(f"cov must be a matrix of numbers; got {type(cov).__name__}.") from None
    d, names = len(task.columns), ", ".join(task.columns)
    sound = known.shape == (d, d) and np.isfinite(known).all() and np.allclose(known, known.T)
    rule = f"cov must be a symmetric matrix of {d} columns ({names})"
    require(sound, f"{rule}; got shape {known.shape}.")
    definite = np.linalg.eigvalsh(known)[0] > 0
    require(definite, "cov must be positive definite. Leave a rater out.")
    return known


def _limits(
    value: float, se: float, df: float, confidence: float, side: Side
) -> tuple[float, float]:
    def reach(tail: float) -> float:
        if tail <= 0:
            return math.inf
        return -float(ndtri(tail) if math.isinf(df) else stdtrit(df, tail)) * se

    below, above = tails(confidence, side)
    return value - reach(below), value + reach(above)


def _notes(
    samples: Samples, task: MeanTask, dropped: Sequence[str], interval: str, known: bool
) -> list[str]:
    unseen = [c for j, c in enumerate(task.columns) if not any(j in s.columns for s in samples)]
    paper, useless = interval == "paper", ", ".join(dropped)
    notes = {
        f"dropped, since they save less than 1/(N − p − 1) of the variance: {useless}": dropped,
        "the published interval: residuals are in-sample, so that it is too narrow for few labelled rows or many raters": paper,
        "the covariance was given: nothing about it was estimated from these rows": known,
        f"without a usable row: {', '.join(unseen)}": unseen,
    }
    return [note for note, holds in notes.items() if holds]


def _without_pilot(plan: Plan | None, task: MeanTask, rows: Array) -> list[str]:
    """A note where the data have fewer labelled rows than plan and hand together."""
    held = {} if plan is None else plan.inputs.get("in_hand") or {}
    if plan is None or not held:
        return []
    names = [task.columns[c] for c in task.labels]
    labels = {*names, *(name.rpartition("/")[2] for name in names)}

    def labelled(counts: Mapping[str, int]) -> int:
        parts = {name: {name, *name.rpartition("/")[2].split("+")} for name in counts}
        return sum(n for name, n in counts.items() if labels & parts[name])

    hand, bought = labelled(held), labelled(plan.buy)
    there = int((~np.isnan(rows[:, list(task.labels)])).any(axis=1).sum())
    if not hand or there >= hand + bought:
        return []
    said = f"the plan counted {hand} labelled rows in hand and {bought} to come, and the data have {there}"
    return [f"{said}: if the pilot is not among them, add its file to the data"]


def _warnings(
    samples: Samples, task: MeanTask, n: float, interval: str
) -> list[tuple[str, type[Warning]]]:
    found: list[tuple[str, type[Warning]]] = []
    if n < ENOUGH:
        found.append((few_labels(n), GuaranteeWarning))
    if interval == "classical":
        return found
    same = {
        f"{task.columns[s.columns[b]]} and {task.columns[s.columns[a]]}": None
        for s in samples
        if s.pilot
        for a in range(len(s.columns))
        for b in range(a)
        if _alike(s.values[:, a], s.values[:, b], s.counts)
    }
    if same:
        note = f"singular pilot: {', '.join(same)} determine each other on the labelled rows; correlations were shrunk"
        found.append((note, EvidenceWarning))
    return found


def _alike(a: Array, b: Array, counts: Array) -> bool:
    x, y = a - np.average(a, weights=counts), b - np.average(b, weights=counts)
    size = float((counts * x * x).sum() * (counts * y * y).sum())
    return size > 0 and float((counts * x * y).sum()) ** 2 >= (1 - 1e-12) * size
