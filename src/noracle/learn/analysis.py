"""What ruled-out labels are worth: noise, bias, annotators, and what methods may assume.

_label_table.py  the labels in one long form
_label_rates.py  rates with limits, and tests of even use
_label_checks.py  do labels look even?
_label_annotators.py  who said what, and who agrees
dependence.py    do labels depend on the item beyond its class?
_label_words.py  the findings in plain words
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from noracle.errors import ArgumentError, EvidenceError, SingularTransition
from noracle.learn._label_annotators import ITEMS, annotator_rows, estimate_pairs
from noracle.learn._label_checks import check_balance, check_ceiling, check_rows
from noracle.learn._label_rates import Sums, interval_name, rate_of, sums_by_item
from noracle.learn._label_table import LabelTable, read_labels, trusted_part, truth_of
from noracle.learn._label_words import findings
from noracle.learn.dependence import ASSUMPTION, NAME, check_dependence
from noracle.learn.transition import (
    Transition,
    count_transition,
    estimate_transition,
    ruled_out_counts,
)
from noracle.results import Assumption, Check, Estimate, Guarantee, Kind, NaN, check_confidence
from noracle.results.analysis import LabelAnalysis, Rate, TransitionTable

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

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
        One class an item, or several: an (n, s) table padded with -1, or an (n, K) mask of bools.
        Numbers are places in ``classes``; texts are looked up there.
    n_classes, classes
        K, and the names of the classes. By default what is seen.
    truth, trusted
        The true class of each item, -1 where it is not known; only items with ``trusted`` true
        count, by default all that have one.
    annotator, seconds
        Who gave each label and how long it took: the shape of ``ruled_out``, or one entry an item.
    features
        Numbers that describe each item, one row an item, to test whether labels depend on the item
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
    label an item the limits are Clopper-Pearson's, else betting limits on the shares of items; both
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
    if (
        isinstance(n_permutations, bool)
        or not isinstance(n_permutations, int)
        or n_permutations < 1
    ):
        raise ArgumentError(
            f"n_permutations must be a whole number of at least 1; got {n_permutations!r}."
        )
    rng = np.random.default_rng(0) if rng is None else rng
    table = read_labels(
        ruled_out,
        n_classes=n_classes,
        classes=classes,
        truth=truth,
        trusted=trusted,
        annotator=annotator,
        seconds=seconds,
    )
    seed = int(rng.integers(2**63))
    known = trusted_part(table)
    noise = _noise(table, known, confidence)
    shares = _shares(table, error)
    preferences = _preferences(table, known, error)
    transitions = tuple(
        t for t in (_counted(table, known), _anchors(table, chances)) if t is not None
    )
    checks = [check_balance(table, seed), check_ceiling(table)]
    if known is not None:
        checks.append(check_rows(table, known, seed))
    if features is not None:
        checks.append(_dependence(table, features, predicted, n_permutations, rng))
    by_class = _noise_by_class(table, known, error)
    agreement, annotators = estimate_pairs(table, confidence), annotator_rows(table, known, error)
    return LabelAnalysis(
        classes=table.classes,
        noise=noise,
        noise_by_class=by_class,
        shares=shares,
        preferences=preferences,
        transitions=transitions,
        agreement=agreement,
        annotators=annotators,
        checks=tuple(checks),
        findings=findings(
            table, noise, shares, preferences, transitions, agreement, annotators, checks
        ),
        confidence=confidence,
        method="counts with exact or betting limits",
        oracle=known is not None and bool(len(known.label)),
        guarantee=Guarantee(
            kind=Kind.FINITE_SAMPLE, error_rate=error, assumptions=noise.guarantee.assumptions
        ),
        counts=_counts(table, known),
        notes=(
            *table.notes,
            "The limits in one table hold together (Bonferroni); noise rate, agreement and each table stand alone.",
        ),
    )


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


# ------------------------------------------------------------------------------------------------------------------------
# noise


def _noise(table: LabelTable, known: LabelTable | None, confidence: float) -> Estimate:
    reason = ""
    if known is None or not len(known.label):
        sums, reason = (
            Sums(np.empty(0), np.empty(0)),
            NO_TRUTH if known is None else "no trusted item has a label",
        )
    else:
        sums = sums_by_item(known.item, known.label == truth_of(known))
    rate = rate_of("noise", sums, (1 - confidence) / 2)
    n = len(sums.n)
    se = float(np.std(sums.hits / sums.n, ddof=1) / math.sqrt(n)) if n > 1 else NaN
    every = table.truth is not None and bool((table.truth[table.item] >= 0).all())
    sampled = Assumption(
        name="trusted items are drawn like the others", status="by-design" if every else "assumed"
    )
    return Estimate(
        quantity="noise rate",
        subject="labels",
        value=rate.value,
        low=rate.low,
        high=rate.high,
        confidence=confidence,
        se=se,
        method="labels that rule out the trusted true class (oracle)",
        interval=interval_name(sums),
        guarantee=Guarantee(
            kind=Kind.FINITE_SAMPLE,
            error_rate=1 - confidence,
            assumptions=(ITEMS, sampled, Assumption(name="trusted labels are right")),
        ),
        counts={"items": n, "labels": rate.n, "wrong": rate.hits},
        diagnostics={"oracle": n > 0, "random_annotator": 1 / table.n_classes},
        reason=reason,
    )


def _noise_by_class(table: LabelTable, known: LabelTable | None, error: float) -> tuple[Rate, ...]:
    if known is None:
        return ()
    truth, tail = truth_of(known), error / (2 * table.n_classes)
    wrong = known.label == truth
    return tuple(
        rate_of(name, sums_by_item(known.item[truth == j], wrong[truth == j]), tail)
        for j, name in enumerate(table.classes)
    )


# -------------------------------------------------------------------------------------------------------------------------
# bias


def _shares(table: LabelTable, error: float) -> tuple[Rate, ...]:
    """How often each class is ruled out; against 1/K, which even labels on balanced classes give."""
    k = table.n_classes
    return tuple(
        rate_of(name, sums_by_item(table.item, table.label == j), error / (2 * k), expected=1 / k)
        for j, name in enumerate(table.classes)
    )


def _preferences(table: LabelTable, known: LabelTable | None, error: float) -> tuple[Rate, ...]:
    """How often each class is ruled out among right labels of items of other classes; against 1/(K
    - 1), whatever the classes' shares.
    """
    if known is None or table.n_classes < 3:
        return ()
    truth, k = truth_of(known), table.n_classes
    right = known.label != truth
    rates = []
    for j, name in enumerate(table.classes):
        use = right & (truth != j)
        rates.append(
            rate_of(
                name,
                sums_by_item(known.item[use], known.label[use] == j),
                error / (2 * k),
                expected=1 / (k - 1),
            )
        )
    return tuple(rates)


# ----------------------------------------------------------------------------------------------------------------------------
# T


def _counted(table: LabelTable, known: LabelTable | None) -> TransitionTable:
    if known is None or known.truth is None or not len(known.label):
        reason = NO_TRUTH if known is None else "no trusted item has a label"
        return TransitionTable(source="oracle", oracle=False, detail="", matrix=(), reason=reason)
    truth, k = truth_of(known), table.n_classes
    counts = ruled_out_counts(truth, known.label, n_classes=k)
    n = counts.sum(axis=1, keepdims=True)
    whole = tuple(tuple(int(v) for v in row) for row in counts)
    if (n == 0).any():
        missing = [table.classes[int(j)] for j in np.flatnonzero(n[:, 0] == 0)]
        shown = ", ".join(missing[:5]) + (
            f" and {len(missing) - 5} more" if len(missing) > 5 else ""
        )
        matrix = np.where(n > 0, counts / np.maximum(n, 1), np.nan)
        rows = tuple(tuple(float(v) for v in row) for row in matrix)
        return TransitionTable(
            source="oracle",
            oracle=True,
            detail=f"counted on {len(known.label)} labels",
            matrix=rows,
            counts=whole,
            reason=f"no trusted label of an item of class {shown}",
        )
    found = count_transition(truth, known.label, n_classes=k)
    return _described(
        found,
        f"counted on {len(known.label)} labels of {len(np.unique(known.item))} trusted items",
        whole,
    )


def _described(
    found: Transition, detail: str, counts: tuple[tuple[int, ...], ...] = ()
) -> TransitionTable:
    reason = ""
    try:
        found.inverse()
    except SingularTransition as error:
        reason = str(error)
    return TransitionTable(
        source=found.source,
        oracle=found.oracle,
        detail=detail,
        matrix=tuple(tuple(float(v) for v in row) for row in found.matrix),
        counts=counts,
        noise=found.diagonal_noise,
        strength=found.strength,
        condition=found.condition,
        usable=not reason,
        reason=reason,
    )


def _anchors(table: LabelTable, chances: ArrayLike | None) -> TransitionTable | None:
    if chances is None:
        return None
    q = np.asarray(chances, dtype=np.float64)
    if q.shape != (table.n_items, table.n_classes):
        raise ArgumentError(
            f"chances must have shape {(table.n_items, table.n_classes)}, a row an item; got {q.shape}."
        )
    if table.n_items < 2:
        return TransitionTable(
            source="anchors",
            oracle=False,
            detail="",
            matrix=(),
            reason="anchor points need two items or more",
        )
    try:
        found = estimate_transition(q)
    except EvidenceError as error:
        return TransitionTable(
            source="anchors", oracle=False, detail="", matrix=(), reason=str(error)
        )
    return _described(found, found.detail)


def _dependence(
    table: LabelTable,
    features: ArrayLike,
    predicted: ArrayLike | None,
    n: int,
    rng: np.random.Generator,
) -> Check:
    if table.truth is not None and (table.truth >= 0).any():
        return check_dependence(table, features, table.truth, n_permutations=n, rng=rng)
    if predicted is None:
        reason = "needs true classes of a trusted part, or predicted classes"
        return Check(
            name=NAME,
            assumption=ASSUMPTION,
            p_value=NaN,
            statistic=NaN,
            finding=f"not tested: {reason}",
            method="none",
            refutes_only=True,
            reason=reason,
        )
    guess = read_labels(
        predicted,
        n_classes=None,
        classes=table.classes,
        truth=None,
        trusted=None,
        annotator=None,
        seconds=None,
    )
    if guess.n_items != table.n_items or len(np.unique(guess.item)) != len(guess.item):
        raise ArgumentError(
            f"predicted must be one class for each of the {table.n_items} items; got {guess.n_items} rows."
        )
    group = np.full(table.n_items, -1, dtype=np.int64)
    group[guess.item] = guess.label
    return check_dependence(table, features, group, heuristic=True, n_permutations=n, rng=rng)
