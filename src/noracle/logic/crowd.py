"""Dawid–Skene and friends, through crowd-kit, beside what the answers prove."""

from __future__ import annotations

import math
import operator
import warnings
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from noracle.errors import (
    ArgumentError,
    EvidenceError,
    GuaranteeWarning,
    MissingExtra,
    fault,
    require,
    require_evidence,
)
from noracle.results import Assumption, Estimate, Guarantee, Kind, Range, Ranges, choose

if TYPE_CHECKING:
    from numpy.typing import NDArray

Pattern = tuple[Hashable, ...]
CrowdMethod = Literal["dawid-skene", "one-coin", "mace", "glad", "majority"]
_NOTE = (
    "errors are taken to be independent given the true label; shared errors make these values wrong, usually too high, "
    "and nothing in the fit shows it"
)
_NO_INTERVAL = "[0, 1] says nothing: the model gives no interval"
_SLACK = 1e-9


def estimate_with_crowd(
    counts: Mapping[Pattern, int],
    *,
    systems: Sequence[str] | None = None,
    labels: Sequence[Hashable] | None = None,
    method: CrowdMethod = "dawid-skene",
    ranges: Ranges | None = None,
    n_iter: int = 1000,
) -> tuple[Estimate, ...]:
    """Accuracies as a crowd-sourcing model sees them, beside the logical ranges.

    The model gives each item a distribution p over true labels. The accuracy of a system on label l
    is its share of right answers under these: Σ p(l)·1{answer = l} / Σ p(l) over the items it
    answered; the overall accuracy is the mean of p(answer).

    HEURISTIC: a point without an interval. ``low`` and ``high`` are the logical range of the same
    name if ``ranges`` has it, else [0, 1]. A value outside its range is proved wrong; a
    :class:`~noracle.errors.GuaranteeWarning` says which.

    Parameters
    ----------
    counts
        Items of each pattern of answers, such as ``{("a", "b", "a"): 113}``; None in a pattern is
        no answer.
    systems
        Names of the systems, one for each answer of a pattern.
    labels
        All labels; those that occur, if left out.
    method
        ``dawid-skene`` (one confusion matrix per system), ``one-coin`` (one accuracy per system),
        ``mace``, ``glad``, or ``majority``.
    ranges
        Ranges with names such as ``accuracy of X on a`` and, for all labels together, ``accuracy of
        X`` or ``grade of X``.
    n_iter
        The most steps of the fit. A note says if it had not settled by then; values on the way can
        be far from those at the end.

    Returns
    -------
    tuple of Estimate
        For each system one a label, then the overall accuracy.

    References
    ----------
    Dawid and Skene, "Maximum likelihood estimation of observer error-rates using the EM algorithm",
    Applied Statistics 28 (1979).

    Examples
    --------
    >>> counts = {("a", "a", "a"): 40, ("b", "b", "b"): 40, ("a", "a", "b"): 10, ("a", "b", "b"): 10}
    >>> [round(e.value, 2) for e in estimate_with_crowd(counts, method="majority")[:3]]  # doctest: +SKIP
    [1.0, 0.8, 0.9]
    """
    choose("method", method, get_args(CrowdMethod))
    require(n_iter >= 1, f"n_iter must be at least 1; got {n_iter}.")
    known, coded = read_patterns(counts, labels=labels, missing=True)
    coded = {p: n for p, n in coded.items() if n and max(p) >= 0}
    size = len(next(iter(counts)))
    names = tuple(str(i + 1) for i in range(size)) if systems is None else tuple(map(str, systems))
    rule = f"must be {size} different names, one for each answer of a pattern"
    require(len(names) == len(set(names)) == size, fault("systems", rule, list(names)))
    require_evidence(coded, "counts", "must hold at least one item with an answer", "none")
    every = [name for s in names for label in (*known, None) for name in _names(s, label)]
    if ranges is not None and not any(r.name in every for r in ranges.ranges):
        rule = "must have names such as 'accuracy of X on a' for these systems and labels"
        raise ArgumentError(fault("ranges", rule, [r.name for r in ranges.ranges[:3]]))
    patterns, n = np.array(list(coded)), np.array(list(coded.values()), dtype=float)
    shares, settled = _posterior(coded, len(known), method, n_iter)
    unsettled = f"the fit had not settled after {n_iter} steps; pass a larger n_iter"
    notes = (_NOTE,) if settled else (_NOTE, unsettled)
    estimates = tuple(
        _estimate(system, label, value, method, int(n.sum()), ranges, notes)
        for i, system in enumerate(names)
        for label, value in _accuracies(patterns[:, i], n, shares, known)
    )
    outside = [e for e in estimates if e.diagnostics.get("inside_range") is False]
    if outside:
        shown = [f"{e.value:.3f} is not in [{e.low:.3f}, {e.high:.3f}]" for e in outside[:5]]
        pairs = zip(outside, shown, strict=False)
        named = "; ".join(f"{e.quantity} of {e.subject}: {text}" for e, text in pairs)
        more = f" and {len(outside) - 5} more" if len(outside) > 5 else ""
        message = f"the answers prove these estimates wrong: {named}{more}. Do not use them."
        warnings.warn(message, GuaranteeWarning, stacklevel=2)
    return estimates


def _posterior(
    coded: Mapping[tuple[int, ...], int], n_classes: int, method: str, n_iter: int
) -> tuple[NDArray[np.float64], bool]:
    """For each pattern the mean distribution over true labels; also whether the fit settled."""
    try:
        import crowdkit.aggregation as crowd
        import pandas as pd
    except ImportError:
        raise MissingExtra("estimate_with_crowd", "crowd-kit", "crowd") from None
    items = np.repeat(np.arange(len(coded)), list(coded.values()))
    answers = np.array(list(coded))[items]
    task, worker = np.nonzero(answers >= 0)
    said = [f"l{x}" for x in answers[task, worker]]
    table = pd.DataFrame({"task": task, "worker": [f"w{w}" for w in worker], "label": said})
    models: dict[str, Any] = {
        "dawid-skene": lambda: crowd.DawidSkene(n_iter=n_iter),
        "one-coin": lambda: crowd.OneCoinDawidSkene(n_iter=n_iter),
        "mace": lambda: crowd.MACE(n_iter=n_iter, random_state=0),
        "glad": lambda: crowd.GLAD(n_iter=n_iter),
        "majority": crowd.MajorityVote,
    }
    with warnings.catch_warnings():
        # crowd-kit calls pandas in ways that newer releases of pandas announce to end.
        warnings.simplefilter("ignore", DeprecationWarning)
        warnings.simplefilter("ignore", FutureWarning)
        model = models[method]()
        decided = model.fit_predict(table)
    by_item = np.zeros((len(items), n_classes))
    if method == "majority":
        by_item[decided.index.to_numpy(), [int(x[1:]) for x in decided]] = 1.0
    else:
        fitted = model.probas_
        at = np.ix_(fitted.index.to_numpy(), [int(x[1:]) for x in fitted.columns])
        by_item[at] = np.nan_to_num(fitted.to_numpy(dtype=float))
    sums = np.zeros((len(coded), n_classes))
    np.add.at(sums, items, by_item)
    settled = len(getattr(model, "loss_history_", ())) < n_iter
    return np.asarray(sums / np.bincount(items)[:, None]), settled


def _accuracies(
    said: NDArray[np.int64],
    n: NDArray[np.float64],
    shares: NDArray[np.float64],
    labels: tuple[Hashable, ...],
) -> Iterator[tuple[Hashable | None, float]]:
    """The accuracy of a system on each label, then (None) over all labels."""
    weight = np.where(said >= 0, n, 0.0)[:, None] * shares
    right = [float(weight[said == t, t].sum()) for t in range(len(labels))]
    totals = [*map(float, weight.sum(axis=0)), float(n[said >= 0].sum())]
    for label, good, total in zip((*labels, None), (*right, sum(right)), totals, strict=True):
        yield label, good / total if total > 0 else math.nan


def _names(system: str, label: Hashable | None) -> tuple[str, ...]:
    if label is None:
        return f"accuracy of {system}", f"grade of {system}"
    return (f"accuracy of {system} on {label}",)


def _estimate(
    system: str,
    label: Hashable | None,
    value: float,
    method: str,
    n: int,
    ranges: Ranges | None,
    notes: tuple[str, ...],
) -> Estimate:
    named = [r for r in ranges.ranges if r.name in _names(system, label)] if ranges else []
    known: Range | None = next((r for r in named if not math.isnan(r.low + r.high)), None)
    independent = Assumption(name="errors independent given the true label")
    inside: dict[str, bool] = {}
    if known is None:
        notes = (*notes, _NO_INTERVAL)
    else:
        fits = known.low - _SLACK <= value <= known.high + _SLACK
        inside = {"inside_range": math.isnan(value) or fits}
    quantity, unknown = "accuracy", "the system answered no item"
    if label is not None:
        quantity = f"accuracy on {label}"
        unknown = "no item that the system answered looks like this label"
    assumptions = (independent, *(ranges.guarantee.assumptions if ranges and known else ()))
    return Estimate(
        quantity=quantity,
        subject=system,
        value=value,
        low=known.low if known else 0.0,
        high=known.high if known else 1.0,
        confidence=0.95,
        method=f"{method} (crowd-kit)",
        interval="logical range" if known else "none",
        guarantee=Guarantee(kind=Kind.HEURISTIC, error_rate=1.0, assumptions=assumptions),
        counts={"items": n},
        diagnostics=inside,
        notes=notes,
        reason=unknown if math.isnan(value) else "",
    )


def whole_number(argument: str, value: object) -> int:
    """``value`` as an int if it is a whole number of at least 0."""
    try:
        n = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        n = -1
    require_evidence(n >= 0, argument, "must be a whole number of at least 0", repr(value))
    return n


def read_patterns(
    counts: Mapping[Pattern, int],
    *,
    labels: Sequence[Hashable] | None = None,
    missing: bool = False,
) -> tuple[tuple[Hashable, ...], dict[tuple[int, ...], int]]:
    """The labels, and the counts by places among them; -1 is no answer, if ``missing``.

    Examples
    --------
    >>> read_patterns({("a", "b"): 3, ("b", "b"): 1})
    (('a', 'b'), {(0, 1): 3, (1, 1): 1})
    """
    if not isinstance(counts, Mapping) or not counts:
        rule = "must map patterns to counts, such as {('a', 'b'): 3}"
        raise EvidenceError.of("counts", rule, repr(counts)[:60])
    for p in counts:
        if not isinstance(p, tuple) or not p:
            remedy = "For one classifier write ('a',)."
            raise EvidenceError.of("a pattern", "must be a tuple of labels", repr(p), remedy=remedy)
    sizes = sorted({len(p) for p in counts})
    rule = "must all have one answer for each classifier"
    require_evidence(len(sizes) == 1, "patterns", rule, f"lengths {sizes}")
    seen = {x for p in counts for x in p if x is not None}
    known = tuple(labels) if labels is not None else tuple(sorted(seen, key=str))
    if len(set(known)) != len(known) or len(known) < 2:
        remedy = "Name them all with labels=." if labels is None else ""
        rule = "must be at least two different labels"
        raise ArgumentError(fault("labels", rule, list(known), remedy=remedy))
    unknown = sorted((x for x in seen if x not in known), key=str)
    require_evidence(not unknown, "answers", f"must be one of {list(known)}", unknown)
    place = {None: -1, **{x: i for i, x in enumerate(known)}}
    coded = {tuple(place[x] for x in p): whole_number("a count", n) for p, n in counts.items()}
    gaps = sum(n for p, n in coded.items() if -1 in p)
    rule, came = "must have an answer of every classifier", f"{gaps} items without"
    require_evidence(missing or not gaps, "patterns", rule, came, remedy="Leave them out.")
    return known, coded if missing else {p: n for p, n in coded.items() if -1 not in p}
