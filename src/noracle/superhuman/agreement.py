"""How much do the raters agree?"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, get_args

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from noracle.counts.ratings import RatingCounts, Whole, code_matrix, count_ratings, kinds_of
from noracle.errors import require, require_evidence
from noracle.evidence.ratings import Ratings
from noracle.results import Assumption, Estimate, Guarantee, Kind, check_confidence, choose

Floats = NDArray[np.float64]
_MOST_DRAWS = 30_000_000  # kinds times resamples; beyond it sums are drawn from their normal limit
_AT_ONCE = 4_000_000


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Coefficient:
    """A coefficient of agreement on some counts.

    ``features`` has a row for each kind of item and ``n_items`` says how many items are of that
    kind; ``unseen`` has rows of kinds that may not have been seen, the most united and the most
    divided ones. ``value`` maps rows of sums to values, NaN where undefined.
    """

    features: Floats
    n_items: Whole
    unseen: Floats
    value: Callable[[Floats], Floats]

    @property
    def estimate(self) -> float:
        """The value on these items."""
        return float(self.value((self.n_items @ self.features)[None, :])[0])

    def too_many(self, n_boot: int) -> bool:
        """Whether there are so many kinds that sums are drawn from their normal limit."""
        return len(self.n_items) * n_boot > _MOST_DRAWS

    def resampled(self, n_boot: int, rng: np.random.Generator) -> Floats:
        """Values on ``n_boot`` resamples of the items; normal limit of the sums if many kinds."""
        total = int(self.n_items.sum())
        share = self.n_items / total
        if self.too_many(n_boot):
            mean = share @ self.features
            centred = self.features - mean
            spread, axes = np.linalg.eigh((centred * share[:, None]).T @ centred)
            steps = rng.standard_normal((n_boot, len(spread))) * np.sqrt(np.maximum(spread, 0.0))
            return self.value(total * mean + np.sqrt(total) * (steps @ axes.T))
        step = max(1, _AT_ONCE // len(share))
        sizes = [min(step, n_boot - start) for start in range(0, n_boot, step)]
        draws = (rng.multinomial(total, share, size=size).astype(np.float64) for size in sizes)
        return np.concatenate([self.value(drawn @ self.features) for drawn in draws])

    def reach(self, error: float) -> tuple[float, float]:
        """How far the value may go if a share 1 - error^(1/n) of items are of an unseen kind."""
        total, sums = int(self.n_items.sum()), self.n_items @ self.features
        share = 1 - error ** (1 / total)
        mixed = (1 - share) * sums + share * total * self.unseen
        values = self.value(np.vstack([sums, mixed]))
        return float(np.nanmin(values)), float(np.nanmax(values))


def agreements(votes: Whole) -> tuple[Floats, Floats]:
    """The share of pairs of votes that agree (0 with one vote), and whether there is a pair."""
    n = votes.sum(axis=1)
    paired = n > 1
    pairs = np.where(paired, n * (n - 1), 1)
    agreed = np.where(paired, (votes * (votes - 1)).sum(axis=1) / pairs, 0.0)
    return agreed, paired.astype(np.float64)


def _of_kinds(
    votes: Whole, n_items: Whole, features: Callable[[Whole], Floats], value: Callable[..., Floats]
) -> Coefficient:
    kinds, unseen = features(_kinds(votes)), features(_unseen(votes))
    return Coefficient(features=kinds, n_items=n_items, unseen=unseen, value=value)


def _kinds(votes: Whole) -> Whole:
    """The kinds, with columns for labels that nobody used where there is one label only."""
    if votes.shape[1] > 1:
        return votes
    most = int(votes.sum(axis=1).max(initial=1))
    return np.pad(votes, ((0, 0), (0, min(max(most, 2), 50) - 1)))


def _unseen(votes: Whole) -> Whole:
    """Kinds that may not have been seen: all votes for one label, or spread over many."""
    votes = _kinds(votes)
    size, most = votes.shape[1], int(votes.sum(axis=1).max(initial=1))
    united = most * np.eye(size, dtype=np.int64)
    order = np.argsort(-votes.sum(axis=0), kind="stable")
    divided = np.bincount(order[np.arange(most) % size], minlength=size)
    return np.vstack([united[order[: min(size, 50)]], divided])


def pairwise(votes: Whole, n_items: Whole) -> Coefficient:
    """Mean over items with two votes or more of the share of pairs that agree."""

    def value(sums: Floats) -> Floats:
        return _ratio(sums[:, 0], sums[:, 1])

    return _of_kinds(votes, n_items, lambda kinds: np.stack(agreements(kinds), axis=1), value)


def fleiss(votes: Whole, n_items: Whole) -> Coefficient:
    """(P - P_e)/(1 - P_e): P the mean pairwise agreement, P_e = Σ_l (mean share of l)²."""

    def features(kinds: Whole) -> Floats:
        return np.column_stack([*agreements(kinds), kinds / kinds.sum(axis=1, keepdims=True)])

    def value(sums: Floats) -> Floats:
        shares = sums[:, 2:] / sums[:, 2:].sum(axis=1, keepdims=True)
        return _kappa(_ratio(sums[:, 0], sums[:, 1]), (shares**2).sum(axis=1))

    return _of_kinds(votes, n_items, features, value)


def krippendorff(
    votes: Whole, n_items: Whole, *, values: Sequence[float] | None, ordinal: bool = False
) -> Coefficient:
    """1 - (n - 1)·Σ_cd o_cd·δ²_cd / Σ_cd n_c·n_d·δ²_cd over the votes of items with two votes or
    more.

    o_cd = Σ over items of v_c·(v_d - 1{c = d})/(votes - 1). δ² is 1 for different labels, (x_c -
    x_d)² with ``values``, and with ``ordinal`` the squared difference of mid-ranks, which depend on
    the sample.
    """
    size = _kinds(votes).shape[1]
    distances = 1.0 - np.eye(size)
    if values is not None:
        given = np.array([*values, *[0.0] * (size - len(values))], dtype=np.float64)
        distances = (given[:, None] - given[None, :]) ** 2

    def apart(margins: Floats) -> Floats:
        return np.asarray(np.einsum("bc,cd,bd->b", margins, distances, margins, optimize=True))

    def features(of: Whole) -> Floats:
        n = of.sum(axis=1)
        paired = np.where((n > 1)[:, None], of, 0).astype(np.float64)
        rest = np.maximum(n - 1, 1)
        if not ordinal:
            return np.column_stack([paired, apart(paired) / rest])
        crossed = paired[:, :, None] * paired[:, None, :] / rest[:, None, None]
        return np.column_stack([paired, crossed.reshape(len(of), -1)])

    def value(sums: Floats) -> Floats:
        margins = sums[:, :size]
        if not ordinal:
            observed, expected = sums[:, size], apart(margins)
        else:
            ranks = np.cumsum(margins, axis=1) - margins / 2
            squares = (ranks[:, :, None] - ranks[:, None, :]) ** 2
            observed = (sums[:, size:].reshape(squares.shape) * squares).sum(axis=(1, 2))
            expected = (margins[:, :, None] * margins[:, None, :] * squares).sum(axis=(1, 2))
        return np.asarray(1 - (margins.sum(axis=1) - 1) * _ratio(observed, expected))

    return _of_kinds(votes, n_items, features, value)


def cohen(table: Whole) -> Coefficient:
    """(p - p_e)/(1 - p_e) of two raters: p how often they agree, p_e how often by chance."""
    size = len(table)
    cells = np.flatnonzero(table)
    every = np.eye(size * size)
    return Coefficient(
        features=every[cells],
        n_items=table.reshape(-1)[cells],
        unseen=every,
        value=lambda sums: kappas(sums.reshape(-1, size, size)),
    )


def mean_cohen(codes: NDArray[np.int16], n_items: Whole, size: int) -> Coefficient:
    """The mean of Cohen's kappa over pairs of raters; ``codes`` has a row per kind of item."""
    n_raters = codes.shape[1]
    pairs = list(itertools.combinations(range(n_raters), 2))
    one = np.arange(size)

    def features(of: NDArray[np.int16]) -> Floats:
        shown = (of[:, :, None] == one).astype(np.float64)
        tables = (shown[:, i, :, None] * shown[:, j, None, :] for i, j in pairs)
        return np.hstack([table.reshape(len(of), -1) for table in tables])

    def value(sums: Floats) -> Floats:
        every = kappas(sums.reshape(-1, size, size)).reshape(-1, len(pairs))
        known = ~np.isnan(every)
        return _ratio(np.where(known, every, 0.0).sum(axis=1), known.sum(axis=1).astype(np.float64))

    united = np.repeat(one[:, None], n_raters, axis=1)
    divided = (np.arange(n_raters) % size)[None, :]
    unseen = features(np.vstack([united, divided]).astype(np.int16))
    return Coefficient(features=features(codes), n_items=n_items, unseen=unseen, value=value)


def kappas(tables: Floats) -> Floats:
    """Cohen's kappa of every table; NaN where both raters used one label only, the same one."""
    total = tables.sum(axis=(1, 2))
    agreed = _ratio(np.trace(tables, axis1=1, axis2=2), total)
    chance = _ratio((tables.sum(axis=2) * tables.sum(axis=1)).sum(axis=1), total**2)
    return _kappa(agreed, chance)


def kappa_errors(tables: Floats) -> Floats:
    """Standard errors of Cohen's kappa by the delta method.

    dκ(a, b) = (1{a = b} - p)/(1 - p_e) - (1 - p)·(c_a + r_b - 2·p_e)/(1 - p_e)², r and c the shares
    of the first and second rater.
    """
    total = tables.sum(axis=(1, 2))
    shares = tables / np.maximum(total, 1)[:, None, None]
    rows, columns = shares.sum(axis=2), shares.sum(axis=1)
    agreed = np.trace(shares, axis1=1, axis2=2)[:, None, None]
    chance = (rows * columns).sum(axis=1)[:, None, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        by_chance = columns[:, :, None] + rows[:, None, :] - 2 * chance
        pull = (np.eye(tables.shape[1]) - agreed) / (1 - chance)
        pull = pull - (1 - agreed) * by_chance / (1 - chance) ** 2
        return np.asarray(np.sqrt((shares * pull**2).sum(axis=(1, 2)) / total))


def _kappa(agreed: Floats, chance: Floats) -> Floats:
    # Shares that are all 1 may sum to a hair less; then there is nothing to agree about.
    return _ratio(agreed - chance, np.where(1 - chance < 1e-12, 0.0, 1 - chance))


def _ratio(above: Floats, below: Floats) -> Floats:
    found = np.full(np.shape(below), np.nan)
    np.divide(above, below, out=found, where=below != 0)
    return found


Statistic = Literal["pairwise", "cohen", "fleiss", "krippendorff"]
Metric = Literal["nominal", "ordinal", "interval"]
STATISTICS: tuple[Statistic, ...] = get_args(Statistic)
NAMES = {
    "pairwise": "pairwise agreement",
    "cohen": "Cohen's kappa",
    "fleiss": "Fleiss' kappa",
    "krippendorff": "Krippendorff's alpha",
}
ENOUGH_ITEMS, ENOUGH_OF_EACH = 50, 10
_MOST_CELLS = 20_000_000  # kinds times pairs times cells of a table, for the mean of Cohen's kappa by resampling
ONE_LABEL = "every rating is the same label: there is nothing to agree about by chance"
NO_PAIR = "no item has two ratings"
BOOTSTRAP, LIMIT = "percentile bootstrap over items", "normal limit of the bootstrap over items"
WORST = "normal, pairs fully correlated"


class _Measured(NamedTuple):
    """What is computed on, and what must be said about it."""

    coefficient: Coefficient
    subject: str
    method: str
    notes: tuple[str, ...] = ()
    reason: str = ONE_LABEL
    worst: tuple[float, float, float] | None = None
    """A mean of coefficients, half its width, and its largest standard error."""


def estimate_agreement(
    ratings: Ratings | RatingCounts,
    *,
    statistic: Statistic = "pairwise",
    metric: Metric = "nominal",
    raters: tuple[str, str] | None = None,
    confidence: float = 0.95,
    n_boot: int = 2000,
    seed: int = 0,
) -> Estimate:
    """Estimate how much raters agree, with an interval from resampled items.

    Parameters
    ----------
    ratings
        Ratings, or counts of them. For ``"cohen"`` counts must have been made with ``pairs=True``.
    statistic
        ``"pairwise"``: the mean over items with two ratings or more of the share of pairs that
        agree. ``"cohen"``: kappa of two raters on the items that both rated; without ``raters`` the
        mean over all pairs of raters (Light's kappa). ``"fleiss"``: kappa against raters who label
        by the overall shares; with different numbers of ratings the shares are means of the items'
        shares. ``"krippendorff"``: alpha, which takes missing ratings as they are.
    metric
        For ``"krippendorff"``: labels are names (``"nominal"``), are ordered (``"ordinal"``, in the
        order of ``labels``), or are numbers (``"interval"``).
    raters
        Two raters, for ``"cohen"``.
    n_boot, seed
        Number of resamples of the items, and the seed that makes them reproducible.

    Returns
    -------
    Estimate
        NaN with a reason where the coefficient is undefined: no item with two ratings, or one label
        only.

    Notes
    -----
    The interval is asymptotic: percentiles over samples of as many items drawn with replacement. If
    all resamples give one value (all items agree, say), the interval reaches to the values with a
    share 1 - ((1 - confidence)/2)^(1/n) of items of a kind that was not seen. Counts do not hold
    who rated what on the same item, so the mean of Cohen's kappa over pairs of raters gets a normal
    interval with the mean of the pairs' standard errors, which is right or too wide whatever the
    correlation. None of these numbers says how often the raters are right.

    Pairwise agreement is v = mean over items of Σ_l n_l(n_l - 1)/(n(n - 1)), n_l of n ratings being
    l. Kappa is (v - e)/(1 - e) with e the agreement of raters who label by chance; alpha = 1 -
    (observed disagreement)/(disagreement by chance).

    Assumes independent items from one population, and ratings that were given without seeing each
    other.

    References
    ----------
    Cohen (1960), Educ. Psychol. Meas. 20, 37-46; Light (1971), Psychol. Bull. 76, 365-377; Fleiss
    (1971), Psychol. Bull. 76, 378-382; Krippendorff (2004), Content Analysis, ch. 11; Gwet (2014),
    Handbook of Inter-Rater Reliability, ch. 2 (missing ratings).

    Examples
    --------
    >>> counts = RatingCounts.from_votes([[3, 0]] * 60 + [[2, 1]] * 20 + [[0, 3]] * 20)
    >>> estimate_agreement(counts, statistic="fleiss", n_boot=500)
    Estimate(Fleiss' kappa of '3 ratings per item': 0.6591 [0.5052, 0.7961] at 0.95, percentile bootstrap over items, asymptotic)
    """
    check_confidence(confidence)
    choose("statistic", statistic, STATISTICS)
    choose("metric", metric, get_args(Metric))
    rule = f"'nominal' with statistic {statistic!r}; got {metric!r}. Pass statistic='krippendorff'"
    require(metric == "nominal" or statistic == "krippendorff", f"metric must be {rule}.")
    two = isinstance(raters, tuple | list) and len(set(raters)) == 2
    rule = f"two different raters with statistic 'cohen'; got {raters!r} with {statistic!r}"
    require(raters is None or (statistic == "cohen" and two), f"raters must be {rule}.")
    whole = isinstance(n_boot, int) and not isinstance(n_boot, bool) and n_boot >= 100
    require(whole, f"n_boot must be a whole number of at least 100; got {n_boot!r}.")
    if statistic == "cohen":
        counts, found = _cohen(ratings, raters, confidence)
    else:
        if not isinstance(ratings, RatingCounts):
            ratings = count_ratings(ratings, systems=())
        counts = ratings
        found = _of_votes(counts, statistic, metric)
    return _estimate(counts, found, statistic, confidence, n_boot, seed)


def _of_votes(counts: RatingCounts, statistic: str, metric: Metric) -> _Measured:
    _refuse_empty(counts)
    votes, n_items, n = counts.votes, counts.n_items, counts.n_ratings
    reason = NO_PAIR if int(n.max()) < 2 else ONE_LABEL
    least, most = int(n.min()), int(n.max())
    several = f"{least} to {most}" if least < most else f"{most}"
    notes: list[str] = []
    single = int(n_items[n < 2].sum())
    if single:
        used = "only for the shares of the labels" if statistic == "fleiss" else "not at all"
        notes.append(f"{single} items with one rating are used {used}")
    if statistic == "pairwise":
        found = pairwise(votes, n_items)
        method = "mean over items of the share of pairs that agree"
    elif statistic == "fleiss":
        if least < most:
            means = "the shares of labels are means of the items' shares"
            notes.append(f"items have different numbers of ratings: {means}")
        found, method = fleiss(votes, n_items), "against the overall shares of the labels"
    else:
        values = _numbers(counts) if metric == "interval" else None
        if metric == "ordinal":
            notes.append(_order(counts))
        found = krippendorff(votes, n_items, values=values, ordinal=metric == "ordinal")
        method = f"{metric} differences"
    return _Measured(found, f"{several} ratings per item", method, tuple(notes), reason)


def _order(counts: RatingCounts) -> str:
    inferred = any("label" in line for line in counts.inferred)
    words = any(isinstance(label, str) for label in counts.labels)
    rule = "labels must be given in their order for metric 'ordinal'; got none."
    require(not (inferred and words), f"{rule} Pass labels=[…] to the ratings.")
    return f"order of the labels: {' < '.join(map(str, counts.labels[:12]))}"


def _numbers(counts: RatingCounts) -> list[float]:
    try:
        values = [float(label) for label in counts.labels]
    except ValueError:
        values = [math.nan]
    came = f"got {', '.join(map(repr, counts.labels[:5]))}. Pass metric='nominal' or 'ordinal'."
    numbers = all(map(math.isfinite, values))
    require(numbers, f"labels must be numbers for metric 'interval'; {came}")
    return values


def _cohen(
    ratings: Ratings | RatingCounts, raters: tuple[str, str] | None, confidence: float
) -> tuple[RatingCounts, _Measured]:
    if isinstance(ratings, Ratings):
        ratings.check()
        known = ratings.seen_raters()
        _refuse_strangers(known, raters)
        part = ratings if raters is None else _only(ratings, raters)
        labels = ratings.seen_labels()
        _, codes = code_matrix(part, labels)
        seen = part.seen_raters()
        counts = RatingCounts.from_arrays(codes, labels=labels, raters=seen, pairs=True)
        if raters is None and len(known) > 2 and codes.size <= _MOST_CELLS:
            kinds, _, n = kinds_of(codes.astype(np.int64) + 1)
            n_pairs = len(known) * (len(known) - 1) // 2
            if len(kinds) * n_pairs * len(labels) ** 2 <= _MOST_CELLS:
                found = mean_cohen((kinds - 1).astype(np.int16), n, len(labels))
                return counts, _Measured(found, f"{len(known)} raters", *_mean_words(counts))
    else:
        counts = ratings
    _refuse_empty(counts)
    if isinstance(ratings, Ratings):
        require_evidence(counts.pairs, "ratings", "must have items that two raters share", "none")
    remedy = "Count with pairs=True or pass ratings."
    rule = f"must have pairs of raters for statistic 'cohen'; got none. {remedy}"
    require(counts.pairs, f"counts {rule}")
    if raters is None and len(counts.raters or range(3)) > 2:
        return counts, _worst(counts, confidence)
    named = raters is not None or len(counts.raters) == 2
    require(named, "raters must be named in the counts for one pair; got no names.")
    first, second = raters or counts.raters
    _refuse_strangers(counts.raters, (first, second))
    i, j = counts.raters.index(first), counts.raters.index(second)
    pair, came = (min(i, j), max(i, j)), f"{first!r} and {second!r}, who have none"
    require_evidence(pair in counts.pairs, "raters", "must have rated common items", came)
    method = "two raters on the items that both rated"
    return counts, _Measured(cohen(counts.pairs[pair]), f"{first} and {second}", method)


def _mean_words(counts: RatingCounts) -> tuple[str, tuple[str, ...]]:
    tables = [t.astype(np.float64) for t in counts.pairs.values()]
    n_known = int((~np.isnan(kappas(np.stack(tables)))).sum()) if tables else 0
    n_all = len(counts.raters) * (len(counts.raters) - 1) // 2 or len(tables)
    equal = "the mean over all pairs of raters, each pair counting equally; name two raters for one pair"
    left = f"{n_all - n_known} of {n_all} pairs are left out: no common items, or one label only"
    return "mean over pairs of raters", (equal, left) if n_all > n_known else (equal,)


def _worst(counts: RatingCounts, confidence: float) -> _Measured:
    """From tables of pairs: the error of a mean is at most the mean of the errors."""
    from noracle.bounds.binomial import ndtri

    method, notes = _mean_words(counts)
    subject = f"{len(counts.raters)} raters" if counts.raters else "all raters"
    parts = [(cohen(table), table.astype(np.float64)) for table in counts.pairs.values()]
    known = [(part, table) for part, table in parts if not math.isnan(part.estimate)]
    if not known:
        return _Measured(parts[0][0], subject, method, notes)
    values = np.array([part.estimate for part, _ in known])
    errors = kappa_errors(np.stack([table for _, table in known]))
    error = (1 - confidence) / 2
    halves = float(-ndtri(error)) * errors
    for i in np.flatnonzero(errors < 1e-12):
        low, high = known[i][0].reach(error)
        halves[i] = max(high - values[i], values[i] - low)
    more = "who rated what on the same item was not used: the interval holds however the pairs are correlated, and may be too wide"
    worst = (float(values.mean()), float(halves.mean()), float(errors.mean()))
    return _Measured(parts[0][0], subject, method, (*notes, more), worst=worst)


def _only(ratings: Ratings, raters: tuple[str, str]) -> Ratings:
    """The ratings of two raters; the rows were checked before."""
    changed: dict[str, Any] = {"frame": ratings.used, "first": None, "_known": {"checked": True}}
    if ratings.form == "wide":
        changed["raters"] = tuple(raters)
    else:
        changed["frame"] = ratings.used.filter(nw.col("rater").is_in(list(raters)))
    return dataclasses.replace(ratings, **changed)


def _refuse_strangers(known: Sequence[str], raters: tuple[str, str] | None) -> None:
    shown = ", ".join(map(repr, known[:6])) + (", …" if len(known) > 6 else "")
    for rater in raters or ():
        require(rater in known, f"raters must be among {shown}; got {rater!r}.")


def _refuse_empty(counts: RatingCounts) -> None:
    rated = counts.n_items.sum() > 0
    require_evidence(rated, "ratings", "must have at least one rated item", "none")


def _estimate(
    counts: RatingCounts,
    found: _Measured,
    statistic: str,
    confidence: float,
    n_boot: int,
    seed: int,
) -> Estimate:
    coefficient, notes = found.coefficient, list(found.notes)
    diagnostics: dict[str, Any] = {"statistic": statistic}
    if found.worst is not None:
        value, half, se = found.worst
        low, high, interval = max(-1.0, value - half), min(1.0, value + half), WORST
    else:
        diagnostics |= {"n_boot": n_boot, "seed": seed}
        value, interval = coefficient.estimate, LIMIT if coefficient.too_many(n_boot) else BOOTSTRAP
        low, high, se, undefined = _interval(coefficient, confidence, n_boot, seed)
        if undefined:
            diagnostics["undefined_resamples"] = undefined
    n, enough, rule = _rule_of_thumb(counts)
    if not enough and not math.isnan(value):
        notes.append(f"few items for an interval that needs many: {rule}")
    detail = f"items are a random sample; n = {n}, rule of thumb: {rule}"
    rests = Assumption(name="iid items", detail=detail)
    return Estimate(
        quantity=NAMES[statistic],
        subject=found.subject,
        value=value,
        low=low,
        high=high,
        confidence=confidence,
        method=found.method,
        interval=interval,
        se=se,
        guarantee=Guarantee(kind=Kind.ASYMPTOTIC, error_rate=1 - confidence, assumptions=(rests,)),
        counts=counts.summary(),
        diagnostics={**diagnostics, "rule_of_thumb_met": enough},
        notes=tuple(notes),
        reason=found.reason if math.isnan(value) else "",
    )


def _interval(
    coefficient: Coefficient, confidence: float, n_boot: int, seed: int
) -> tuple[float, float, float, int]:
    """Limits, standard error and the number of resamples on which the coefficient is undefined."""
    value = coefficient.estimate
    if math.isnan(value):
        return math.nan, math.nan, math.nan, 0
    error = (1 - confidence) / 2
    drawn = coefficient.resampled(n_boot, np.random.default_rng(seed))
    known = drawn[~np.isnan(drawn)]
    if not len(known) or float(np.ptp(known)) < 1e-12:
        return *coefficient.reach(error), math.nan, n_boot - len(known)
    low, high = (float(q) for q in np.quantile(known, [error, 1 - error]))
    return min(low, value), max(high, value), float(np.std(known, ddof=1)), n_boot - len(known)


def _rule_of_thumb(counts: RatingCounts) -> tuple[int, bool, str]:
    """Items with two ratings, whether they are enough, and the rule."""
    paired = counts.n_ratings > 1
    n_items, votes = counts.n_items[paired], counts.votes[paired]
    n = int(n_items.sum())
    _, level = np.unique(counts.agreement[paired].round(9), return_inverse=True)
    apart = n - int(np.bincount(level.reshape(-1), weights=n_items).max(initial=0))
    commonest = (votes * n_items[:, None]).sum(axis=0).argmax() if n else 0
    other = int(n_items[votes[:, commonest] < votes.sum(axis=1)].sum())
    rule = (
        f"{ENOUGH_ITEMS} items with two ratings or more, {ENOUGH_OF_EACH} of them off the commonest degree of agreement and "
        f"{ENOUGH_OF_EACH} with a rating off the commonest label"
    )
    enough = n >= ENOUGH_ITEMS and min(apart, other) >= ENOUGH_OF_EACH
    return n, enough, f"{rule} (here {n}, {apart} and {other})"
