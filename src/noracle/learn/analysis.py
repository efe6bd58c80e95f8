"""What ruled-out labels are worth: noise, bias, annotators, and what methods may assume."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noracle.bounds.binomial import chdtrc
from noracle.errors import EvidenceError, SingularTransition, require
from noracle.learn.label_table import (
    ASSUMPTION,
    NAME,
    LabelTable,
    Sums,
    Use,
    check_dependence,
    measure_use,
    p_at_least,
    p_of,
    rate_of,
    read_labels,
    simulate_use,
    sums_by_item,
    untested,
)
from noracle.learn.transition import (
    Transition,
    count_transition,
    estimate_transition,
    ruled_out_counts,
)
from noracle.report import words
from noracle.results import Assumption, Check, Estimate, Guarantee, Kind, NaN
from noracle.results.analysis import AnnotatorRow, LabelAnalysis, Rate, TransitionTable
from noracle.results.base import FAILED_BELOW, check_confidence, holm


def findings(found: LabelAnalysis) -> Iterator[str]:
    """What was found, the most important first."""
    if not found.counts["labels"]:
        yield "There are no labels."
        return
    for say in (_say_noise, _bias, _uniform, _inverse, _people, _items):
        yield from say(found)


def percent(share: float) -> str:
    """A share as in ``3.9 %``."""
    return words.percent(share, ".1f" if share >= 0.001 or share == 0 else ".3f")


def named(names: Sequence[str], most: int = 4) -> str:
    """The first few of many names."""
    shown = ", ".join(names[:most])
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")


def _say_noise(found: LabelAnalysis) -> Iterator[str]:
    noise = found.noise
    if math.isnan(noise.value):
        yield f"How many labels are wrong is not known: {noise.reason}."
        return
    random, said, counts = 1 / len(found.classes), percent(noise.value), noise.counts
    limits = (
        f"{words.percent(noise.confidence)} interval {percent(noise.low)} to {percent(noise.high)}"
    )
    of = f"{counts['wrong']:,} of {counts['labels']:,} labels"
    yield f"Labels rule out the truth in {said} of cases ({limits}, {of})."
    by_chance = f"a random annotator's {percent(random)}"
    if noise.high < random:
        yield f"That is {percent(1 - noise.value / random)} less than {by_chance}."
    elif noise.low > random:
        yield f"That is more than {by_chance}: labels may have been read the wrong way round."
    else:
        same = "The labels cannot be told from a random annotator's"
        yield f"{same}, who is wrong in {percent(random)}: get more trusted items."


def _bias(found: LabelAnalysis) -> Iterator[str]:
    rates = found.preferences or found.shares
    more, less = ([r.name for r in rates if r.verdict == v] for v in ("more", "less"))
    if found.preferences:
        if more:
            yield f"The annotators prefer to rule out {named(more)}."
        if less:
            yield f"The annotators avoid ruling out {named(less)}."
    elif more or less:
        what = " and ".join(f"{named(n)} {w}" for n, w in ((more, "more"), (less, "less")) if n)
        odd = " Frequent true classes are ruled out less often even by fair annotators."
        odd = "" if len(found.classes) == 2 else odd
        yield f"Compared with equal shares, labels rule out {what} often.{odd}"


def _uniform(found: LabelAnalysis) -> Iterator[str]:
    about = [c for c in found.checks if c.assumption == "uniform T"]
    failed = [c for c in about if not c.passed]
    seen = [c for c in about if not math.isnan(c.p_value)]
    counted, wrong = found.transitions[0].oracle, found.noise.counts["wrong"]
    remedy = "estimate T, or count it on trusted items"
    remedy = "use a counted or estimated T" if counted else remedy
    if failed:
        finding = failed[-1].finding
        yield f"Uniform T is refuted: {remedy}. {finding[0].upper()}{finding[1:]}."
    elif wrong:
        why = f"since {wrong:,} labels rule out the truth"
        yield f"Uniform T without noise is refuted, {why}: {remedy}."
    elif not seen:
        yield "Whether T is uniform could not be tested."
    else:
        how = "with" if any("truth" not in c.name for c in seen) else "without"
        yield f"Nothing speaks against uniform T, as far as it can be seen {how} true labels."


def _inverse(found: LabelAnalysis) -> Iterator[str]:
    noise, random = found.noise, 1 / len(found.classes)
    for t in found.transitions:
        oracle = "The counted T (oracle: true labels were seen)"
        who = oracle if t.oracle else "The T estimated by anchor points"
        if not t.matrix and t.source == "oracle":
            continue
        if not t.usable:
            yield f"{who} cannot be used for unbiased risks: {t.reason.rstrip('.')}."
            continue
        numbers = f"condition number {t.condition:.3g}, 1 − ηK = {t.strength:.3g}"
        weak = t.oracle and noise.low <= random <= noise.high
        but = " But its noise may be that of a random annotator; do not trust the inverse."
        yield f"{who} can be used for unbiased risks: {numbers}.{but if weak else ''}"


def _people(found: LabelAnalysis) -> Iterator[str]:
    agreement, high = found.agreement, found.noise.high
    worse = [a.name for a in found.annotators if a.noise.n and a.noise.low > high]
    if worse:
        who = "annotator" if len(worse) == 1 else "annotators"
        yield f"Wrong more often than all together: {who} {named(worse)}."
    if not math.isnan(agreement.value):
        chance = agreement.diagnostics["independent_even_labels"]
        said = f"Two annotators give the same label in {percent(agreement.value)} of pairs"
        yield f"{said}; independent even labels would in {percent(chance)}."


def _items(found: LabelAnalysis) -> Iterator[str]:
    check = found.check(NAME)
    if check is None or math.isnan(check.p_value):
        return
    hint = " This is a hint only, since classes were guessed."
    hint = hint if check.diagnostics["heuristic"] else ""
    p = f"(p = {check.p_value:.2g})"
    if check.passed:
        yield f"Nothing shows that labels depend on the item beyond its class {p}.{hint}"
    else:
        yield f"Labels depend on the item beyond its class {p}: T is an average over items.{hint}"


# Who gave the labels: how often, how wrong, and in agreement with whom.

Whole = NDArray[np.int64]
ItemHits = tuple[Whole, NDArray[np.bool_]]
ITEMS = Assumption(name="independent items")
_MOST_FAVOURITES = 3


def _same(*keys: Whole) -> NDArray[np.int64]:
    """For each label, how many labels have the same keys."""
    if not keys[0].size:
        return np.empty(0, dtype=np.int64)
    _, place, times = np.unique(np.stack(keys), axis=1, return_inverse=True, return_counts=True)
    return np.asarray(times[place.reshape(-1)], dtype=np.int64)


def _pairs(table: LabelTable) -> tuple[Whole, NDArray[np.int64], NDArray[np.int64]]:
    """Labels with an annotator; for each, labels of others on its item, and the same ones of them."""
    if table.annotator is None:
        nothing = np.empty(0, dtype=np.int64)
        return nothing, nothing, nothing
    named = np.flatnonzero(table.annotator >= 0)
    item, who, label = table.item[named], table.annotator[named], table.label[named]
    return named, _same(item) - _same(item, who), _same(item, label) - _same(item, label, who)


def estimate_pairs(table: LabelTable, confidence: float) -> Estimate:
    """Mean over items with labels of two annotators of the share of pairs that are the same."""
    named, others, same = _pairs(table)
    met = others > 0
    place = np.unique(table.item[named[met]], return_inverse=True)[1].reshape(-1)
    pairs = np.bincount(place, weights=others[met])
    share = np.bincount(place, weights=same[met]) / pairs
    rate = rate_of("agreement", Sums(2 * share, np.full(len(share), 2.0)), (1 - confidence) / 2)
    nobody, alone = table.annotator is None, "no item has labels of two annotators"
    return Estimate(
        quantity="agreement",
        subject="annotators",
        **_limits(rate, confidence, (ITEMS,)),
        method="share of pairs of annotators with the same label, item by item",
        interval="betting",
        counts={"items": len(share), "pairs": int(others[met].sum()) // 2},
        diagnostics={"independent_even_labels": 1 / (table.n_classes - 1)},
        reason="" if len(share) else "no annotators are named" if nobody else alone,
    )


def _limits(rate: Rate, confidence: float, rests: tuple[Assumption, ...]) -> dict[str, Any]:
    """The rate and its promise, as fields of an estimate."""
    promise = Guarantee(kind=Kind.FINITE_SAMPLE, error_rate=1 - confidence, assumptions=rests)
    limits = {"value": rate.value, "low": rate.low, "high": rate.high}
    return {**limits, "confidence": confidence, "guarantee": promise}


def annotator_rows(
    table: LabelTable, known: LabelTable | None, error: float
) -> tuple[AnnotatorRow, ...]:
    """One row per annotator; the limits of the noise rates hold together with this error rate."""
    if table.annotator is None:
        return ()
    named, others, same = _pairs(table)
    size, k = len(table.annotators), table.n_classes
    who = table.annotator[named]
    pairs = np.bincount(who, weights=others, minlength=size)
    equal = np.bincount(who, weights=same, minlength=size)
    used = np.bincount(who * k + table.label[named], minlength=size * k).reshape(size, k)
    places, nothing = _places(table.annotator, size), np.empty(0, dtype=np.int64)
    trusted, wrong, items = [nothing] * size, nothing.astype(bool), nothing
    if known is not None and known.annotator is not None:
        trusted, items = _places(known.annotator, size), known.item
        wrong = known.label == known.label_truth
    rows = []
    for a, name in enumerate(table.annotators):
        own, mine, most = places[a], trusted[a], used[a].max()
        top = np.flatnonzero(used[a] == most)
        time = np.empty(0) if table.seconds is None else table.seconds[own]
        time = time[np.isfinite(time)]
        few = top if len(top) <= _MOST_FAVOURITES else ()
        rows.append(
            AnnotatorRow(
                name=name,
                n_labels=len(own),
                n_items=len(np.unique(table.item[own])),
                noise=rate_of(name, sums_by_item(items[mine], wrong[mine]), error / (2 * size)),
                favourite=tuple(table.classes[int(j)] for j in few),
                favourite_share=float(most / len(own)),
                agreement=float(equal[a] / pairs[a]) if pairs[a] else NaN,
                pairs=int(pairs[a]),
                seconds=float(np.median(time)) if time.size else NaN,
            )
        )
    return tuple(rows)


def _places(annotator: Whole, size: int) -> list[Whole]:
    """The labels of each annotator."""
    order = np.argsort(annotator, kind="stable")
    return np.split(order, np.searchsorted(annotator[order], np.arange(size + 1)))[1:-1]


# Do ruled-out labels look even?

SIMULATIONS = 4_999


def check_balance(table: LabelTable, seed: int) -> Check:
    """All classes ruled out equally often? Even labels do that where true classes are balanced."""
    found = measure_use(table.item, table.label, table.n_classes)
    shared: dict[str, Any] = {
        "name": "class balance",
        "assumption": "all classes are ruled out equally often",
        "refutes_only": True,
        "counts": {"labels": len(table.label)},
    }
    if found is None:
        return untested("no labels", method="chi-square", **shared)
    p_value, method = found.p_limit, "chi-square"
    if found.few:
        simulated = simulate_use(found, SIMULATIONS, np.random.default_rng([seed, 0]))
        p_value, method = p_of(found.statistic, simulated), "chi-square, simulated"
    counts, expected = found.counts, found.expected
    finding = "no class is certainly ruled out more or less often than the others"
    if p_value < FAILED_BELOW:
        most, least = (table.classes[int(i)] for i in (counts.argmax(), counts.argmin()))
        finding = f"most often ruled out {most} ({counts.max():,}), "
        finding += f"least often {least} ({counts.min():,}), {expected:,.1f} expected"
    each = zip(table.classes, counts.tolist(), strict=True)
    unbalanced = "Even labels on unbalanced classes fail this too: it is about labels, not about T."
    return Check(
        p_value=p_value,
        statistic=found.statistic,
        finding=finding,
        method=method,
        parts=tuple({"class": c, "observed": n, "expected": expected} for c, n in each),
        notes=(unbalanced,),
        **shared,
    )


def check_ceiling(table: LabelTable) -> Check:
    """Even labels rule out no class more often than 1/(K - 1), whatever the true classes."""
    k = table.n_classes
    shared: dict[str, Any] = {
        "name": "even labels, without truth",
        "assumption": "uniform T",
        "method": f"share at most 1/{k - 1}, one-sided, Bonferroni",
        "refutes_only": True,
        "counts": {"labels": len(table.label)},
    }
    if not len(table.label) or k < 3:
        two = "with two classes every share is possible"
        return untested("no labels" if k > 2 else two, **shared)
    sums = [sums_by_item(table.item, table.label == j) for j in range(k)]
    p = np.array([p_at_least(s, 1 / (k - 1)) for s in sums])
    share = [float(np.mean(np.sort(s.hits / s.n))) for s in sums]
    top, limit = int(p.argmin()), percent(1 / (k - 1))
    p_value = min(1.0, float(p[top]) * k)
    finding = f"no class is certainly ruled out more often than {limit}"
    if p_value < FAILED_BELOW:
        finding = f"{table.classes[top]} is ruled out in {percent(share[top])} of labels"
        finding += f"; even labels cannot exceed {limit}"
    return Check(p_value=p_value, statistic=max(share), finding=finding, **shared)


def check_rows(table: LabelTable, known: LabelTable, seed: int) -> Check:
    """Are right labels of the items of each true class even over the wrong classes?

    The worst row (Bonferroni) and the sum of all rows' statistics are both looked at, and the
    smaller p is doubled.
    """
    k, truth = table.n_classes, known.label_truth
    rows: list[tuple[int, Use]] = []
    for j in range(k):
        mine = (truth == j) & (known.label != j)
        label = known.label[mine]
        if found := measure_use(known.item[mine], label - (label > j), k - 1):
            rows.append((j, found))
    how = "simulated where counts are small; worst row and sum of rows"
    shared: dict[str, Any] = {
        "name": "even rows of T",
        "assumption": "uniform T",
        "counts": {"labels": len(known.label)},
        "diagnostics": {"oracle": True},
        "refutes_only": True,
        "method": f"chi-square by true class, {how}",
    }
    if not rows:
        two = "with two classes there is one wrong class"
        return untested(two if k == 2 else "no trusted item has a right label", **shared)
    p_values, p_sum = _p_of_rows([found for _, found in rows], seed)
    parts: list[dict[str, Any]] = []
    for (j, found), p, adjusted in zip(rows, p_values, holm(p_values), strict=True):
        counts = np.insert(found.counts, j, -1)
        often = f"{counts.max():,} times, {found.expected:,.1f} expected"
        what = f"{table.classes[int(counts.argmax())]} ruled out {often}"
        part = {"class": table.classes[j], "n": int(found.counts.sum())}
        part |= {"statistic": found.statistic, "p_value": p, "what": what}
        parts.append({**part, "holm_p_value": adjusted})
    worst = min(parts, key=lambda part: float(part["p_value"]))
    p_value = min(1.0, 2 * min(p_sum, float(worst["p_value"]) * len(parts)))
    finding = "no row is certainly uneven"
    if p_value < FAILED_BELOW:
        odd = sum(part["holm_p_value"] < FAILED_BELOW for part in parts)
        finding = f"{odd} of {len(parts)} rows are uneven on their own"
        finding += f"; most of all {worst['class']}: {worst['what']}"
    total = _total(found for _, found in rows)
    return Check(p_value=p_value, statistic=total, finding=finding, parts=tuple(parts), **shared)


def _total(rows: Iterable[Use]) -> float:
    return float(np.sum(sorted(found.statistic for found in rows)))


def _p_of_rows(rows: list[Use], seed: int) -> tuple[list[float], float]:
    """P-values of the rows and of the sum of their statistics."""
    many = [found for found in rows if not found.few and found.scale > 0]
    degrees = (len(rows[0].counts) - 1) * len(many)
    p_values = [found.p_limit for found in rows]
    if not any(found.few for found in rows):
        return p_values, float(chdtrc(degrees, _total(rows))) if many else 1.0
    total = np.zeros(SIMULATIONS)
    # Streams go by what is simulated, so that the names of the classes do not matter; rows with
    # equal patterns may swap.
    few = sorted(
        (i for i, found in enumerate(rows) if found.few),
        key=lambda i: (rows[i].patterns.shape, rows[i].patterns.tobytes()),
    )
    for rank, i in enumerate(few):
        simulated = simulate_use(rows[i], SIMULATIONS, np.random.default_rng([seed, 1 + rank]))
        p_values[i] = p_of(rows[i].statistic, simulated)
        total += simulated
    if many:
        total += np.random.default_rng([seed, 0]).chisquare(degrees, SIMULATIONS)
    return p_values, p_of(_total(rows), total)


NO_TRUTH = "no trusted true labels: noise cannot be seen in the labels alone"


def analyse_labels(
    ruled_out: ArrayLike,
    *,
    n_classes: int | None = None,
    classes: Sequence[object] | None = None,
    truth: ArrayLike | None = None,
    trusted: ArrayLike | None = None,
    annotator: ArrayLike | None = None,
    seconds: ArrayLike | None = None,
    features: ArrayLike | None = None,
    predicted: ArrayLike | None = None,
    chances: ArrayLike | None = None,
    confidence: float = 0.95,
    n_permutations: int = 4_999,
    rng: np.random.Generator | None = None,
) -> LabelAnalysis:
    """Say how noisy and how biased ruled-out labels are, and what a method may assume about them.

    With true labels of a trusted part: the noise rate η (the share of labels that rule out the true
    class), overall, by class and by annotator; the counted T with its condition number and 1 - ηK;
    whether every row of T is even over the wrong classes. Without: the shares of the ruled-out
    classes, the annotators, and the one thing that even labels cannot do, to rule out a class more
    often than 1/(K - 1) of the time. All that true labels gave is marked ``oracle``.

    Parameters
    ----------
    ruled_out
        One class per item, or several: an (n, s) table padded with -1, or an (n, K) mask of bools.
        Numbers are places in ``classes``; texts are looked up there.
    n_classes, classes
        K, and the names of the classes. By default what is seen.
    truth, trusted
        The true class of each item, -1 where it is not known; only items with ``trusted`` true
        count, by default all that have one.
    annotator, seconds
        Who gave each label and how long it took: the shape of ``ruled_out``, or one entry per item.
    features
        Numbers that describe each item, one row per item, to test whether labels depend on the item
        beyond its class.
    predicted
        Guessed classes, which take the place of ``truth`` in that test only. It then promises
        nothing.
    chances
        P(ruled out | item) of a model, one row of K an item, for an estimate of T by anchor points.
    confidence
        Of the noise rate, of the agreement, and of each table as a whole: its rows share the error
        rate (Bonferroni).
    n_permutations, rng
        Shuffles of the test of dependence, and where all random numbers come from; by default a
        fixed seed.

    Returns
    -------
    LabelAnalysis
        Numbers that cannot be known are NaN and say why.

    Notes
    -----
    Assumes independent items, and that the trusted ones are drawn like all others. Labels of one
    item may depend on each other: limits and tests take items, not labels, as the sample. With one
    label per item the limits are Clopper-Pearson's, else betting limits on the shares of items; both
    hold at every n.

    η = P(ruled out = truth), T[y, k] = P(class k is ruled out | truth y); even labels have T[y, k]
    = (1 - η)/(K - 1) for k ≠ y.

    References
    ----------
    Wang et al. (2023), CLImage, section 4 (noise, class bias, empirical T, annotators). Clopper and
    Pearson (1934), Biometrika 26.

    Examples
    --------
    >>> found = analyse_labels([1, 2, 0, 2, 0, 0, 1, 1], n_classes=3, truth=[0, 0, 1, 1, 2, 2, 2, 1])
    >>> found.noise.value, found.transitions[0].counts
    (0.125, ((0, 1, 1), (1, 1, 1), (2, 1, 0)))
    """
    error = 1 - check_confidence(confidence)
    whole = isinstance(n_permutations, int) and not isinstance(n_permutations, bool)
    rule = "n_permutations must be a whole number of at least 1"
    require(whole and n_permutations >= 1, f"{rule}; got {n_permutations!r}.")
    rng = np.random.default_rng(0) if rng is None else rng
    given: dict[str, Any] = {"n_classes": n_classes, "truth": truth, "trusted": trusted}
    given |= {"classes": classes, "annotator": annotator, "seconds": seconds}
    table = read_labels(ruled_out, **given)
    seed = int(rng.integers(2**63))
    known = table.trusted()
    noise = _noise(table, known, confidence)
    anchors = [] if chances is None else [_anchors(table, chances)]
    checks = [check_balance(table, seed), check_ceiling(table)]
    if known is not None:
        checks.append(check_rows(table, known, seed))
    if features is not None:
        how: dict[str, Any] = {"n_permutations": n_permutations, "rng": rng}
        checks.append(_dependence(table, features, predicted, **how))
    rests = noise.guarantee.assumptions
    together = "The limits in one table hold together (Bonferroni)"
    found = LabelAnalysis(
        classes=table.classes,
        noise=noise,
        noise_by_class=_noise_by_class(table, known, error),
        shares=_shares(table, error),
        preferences=_preferences(table, known, error),
        transitions=(_counted(table, known), *anchors),
        agreement=estimate_pairs(table, confidence),
        annotators=annotator_rows(table, known, error),
        checks=tuple(checks),
        findings=(),
        confidence=confidence,
        method="counts with exact or betting limits",
        oracle=known is not None and bool(len(known.label)),
        guarantee=Guarantee(kind=Kind.FINITE_SAMPLE, error_rate=error, assumptions=rests),
        counts=_counts(table, known),
        notes=(*table.notes, f"{together}; noise rate, agreement and each table stand alone."),
    )
    return dataclasses.replace(found, findings=tuple(findings(found)))


def _counts(table: LabelTable, known: LabelTable | None) -> dict[str, Any]:
    counts: dict[str, Any] = {
        "items": table.n_items,
        "labelled_items": len(np.unique(table.item)),
        "labels": len(table.label),
        "n_classes": table.n_classes,
        "trusted_items": 0 if table.truth is None else int((table.truth >= 0).sum()),
        "trusted_labels": 0 if known is None else len(known.label),
    }
    if table.annotator is not None:
        counts["annotators"] = len(table.annotators)
        counts["labels_without_annotator"] = int((table.annotator < 0).sum())
    return counts


def _unknown(known: LabelTable | None) -> str:
    """Why nothing can be said of labels against the truth."""
    if known is None:
        return NO_TRUTH
    return "" if len(known.label) else "no trusted item has a label"


def _noise(table: LabelTable, known: LabelTable | None, confidence: float) -> Estimate:
    sums, reason = Sums(np.empty(0), np.empty(0)), _unknown(known)
    if known is not None and not reason:
        sums = sums_by_item(known.item, known.label == known.label_truth)
    rate = rate_of("noise", sums, (1 - confidence) / 2)
    n = len(sums.n)
    se = float(np.std(sums.hits / sums.n, ddof=1) / math.sqrt(n)) if n > 1 else NaN
    every = table.truth is not None and bool((table.truth[table.item] >= 0).all())
    status: Literal["by-design", "assumed"] = "by-design" if every else "assumed"
    sampled = Assumption(name="trusted items are drawn like the others", status=status)
    rests = (ITEMS, sampled, Assumption(name="trusted labels are right"))
    return Estimate(
        quantity="noise rate",
        subject="labels",
        **_limits(rate, confidence, rests),
        se=se,
        method="labels that rule out the trusted true class (oracle)",
        interval="exact" if rate.n == n else "betting",
        counts={"items": n, "labels": rate.n, "wrong": rate.hits},
        diagnostics={"oracle": n > 0, "random_annotator": 1 / table.n_classes},
        reason=reason,
    )


def _rates(
    table: LabelTable, error: float, part: Callable[[int], ItemHits], expected: float = NaN
) -> tuple[Rate, ...]:
    """One rate per class, of the items and hits that ``part`` gives; the limits hold together."""
    sums = [sums_by_item(*part(j)) for j in range(table.n_classes)]
    rows, tail = zip(table.classes, sums, strict=True), error / (2 * table.n_classes)
    return tuple(rate_of(name, each, tail, expected=expected) for name, each in rows)


def _noise_by_class(table: LabelTable, known: LabelTable | None, error: float) -> tuple[Rate, ...]:
    if known is None:
        return ()
    truth = known.label_truth
    wrong = known.label == truth
    return _rates(table, error, lambda j: (known.item[truth == j], wrong[truth == j]))


def _shares(table: LabelTable, error: float) -> tuple[Rate, ...]:
    """How often each class is ruled out; against 1/K, which even labels on balanced classes give."""
    expected = 1 / table.n_classes
    return _rates(table, error, lambda j: (table.item, table.label == j), expected)


def _preferences(table: LabelTable, known: LabelTable | None, error: float) -> tuple[Rate, ...]:
    """How often each class is ruled out among right labels of items of other classes."""
    if known is None or table.n_classes < 3:
        return ()
    truth, item, label = known.label_truth, known.item, known.label

    def part(j: int) -> ItemHits:
        use = (label != truth) & (truth != j)
        return item[use], label[use] == j

    return _rates(table, error, part, 1 / (table.n_classes - 1))


def _counted(table: LabelTable, known: LabelTable | None) -> TransitionTable:
    if known is None or _unknown(known):
        return _no_matrix("oracle", _unknown(known))
    truth, k = known.label_truth, table.n_classes
    counts = ruled_out_counts(truth, known.label, n_classes=k)
    n = counts.sum(axis=1, keepdims=True)
    whole, detail = tuple(map(tuple, counts.tolist())), f"counted on {len(known.label)} labels"
    if (n > 0).all():
        found = count_transition(truth, known.label, n_classes=k)
        items = len(np.unique(known.item))
        return _described(found, f"{detail} of {items} trusted items", counts=whole)
    missing = [table.classes[int(j)] for j in np.flatnonzero(n[:, 0] == 0)]
    matrix = np.where(n > 0, counts / np.maximum(n, 1), np.nan)
    part = {"oracle": True, "detail": detail, "matrix": tuple(map(tuple, matrix.tolist()))}
    reason = f"no trusted label of an item of class {named(missing, 5)}"
    return _no_matrix("oracle", reason, **part, counts=whole)


def _no_matrix(source: str, reason: str, **known: Any) -> TransitionTable:
    nothing: dict[str, Any] = {"oracle": False, "detail": "", "matrix": ()}
    return TransitionTable(source=source, reason=reason, **{**nothing, **known})


def _described(found: Transition, detail: str, **more: Any) -> TransitionTable:
    reason = ""
    try:
        found.inverse()
    except SingularTransition as error:
        reason = str(error)
    return TransitionTable(
        source=found.source,
        oracle=found.oracle,
        detail=detail,
        matrix=tuple(map(tuple, found.matrix.tolist())),
        noise=found.diagonal_noise,
        strength=found.strength,
        condition=found.condition,
        usable=not reason,
        reason=reason,
        **more,
    )


def _anchors(table: LabelTable, chances: ArrayLike) -> TransitionTable:
    q, shape = np.asarray(chances, dtype=np.float64), (table.n_items, table.n_classes)
    require(q.shape == shape, f"chances must have shape {shape}, a row per item; got {q.shape}.")
    if table.n_items < 2:
        return _no_matrix("anchors", "anchor points need two items or more")
    try:
        found = estimate_transition(q)
    except EvidenceError as error:
        return _no_matrix("anchors", str(error))
    return _described(found, found.detail)


def _dependence(
    table: LabelTable, features: ArrayLike, predicted: ArrayLike | None, **how: Any
) -> Check:
    if table.truth is not None and (table.truth >= 0).any():
        return check_dependence(table, features, table.truth, **how)
    if predicted is None:
        reason = "needs true classes of a trusted part, or predicted classes"
        return untested(reason, name=NAME, assumption=ASSUMPTION, method="none", refutes_only=True)
    guess = read_labels(predicted, classes=table.classes)
    rule = f"predicted must be one class for each of the {table.n_items} items"
    ok = guess.n_items == table.n_items and len(np.unique(guess.item)) == len(guess.item)
    require(ok, f"{rule}; got {guess.n_items} rows.")
    group = np.full(table.n_items, -1, dtype=np.int64)
    group[guess.item] = guess.label
    return check_dependence(table, features, group, heuristic=True, **how)
