"""Which prevalences of a label the claims allow, and the largest claim that raises no alarm."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Literal

import numpy as np

from noracle.counts.sketch import Sketch
from noracle.errors import ArgumentError
from noracle.logic.cascade import (
    Asked,
    Bounds,
    ask,
    check_limit,
    check_prevalence,
    described,
    largest_prevalences,
    promise,
    share,
)
from noracle.logic.spec import Spec, as_spec
from noracle.results import NaN, Range, Ranges

_MOST_POINTS = 5000
_Windows = list[tuple[int, int]]


def trace(
    sketch: Sketch,
    spec: Spec | str,
    *,
    label: str,
    prevalence: Mapping[str, tuple[int, int]] | None = None,
    time_limit: float = 30.0,
) -> Ranges:
    """How many items can have a label if all claims hold.

    Parameters
    ----------
    sketch
        How often each pattern of answers was given, with what is known of the items.
    spec
        What is claimed, for example ``"accuracy > 1/2"``.
    label
        The label whose prevalence is traced.
    prevalence
        For some labels the least and the most items that can have it.
    time_limit
        Seconds after which the rest is undecided. The ends are sought first, then holes.

    Returns
    -------
    Ranges
        What is not proved impossible, one window of whole numbers a range; there can be several,
        because whole numbers leave holes. None at all is an alarm, and ``reason`` says so.
        ``diagnostics`` has ``possible`` (shown by a witness) and ``undecided`` as lists of [first,
        last]; in windows of more than 5,000 numbers holes are not sought.

    Notes
    -----
    A question to the cascade is about a whole interval of prevalences: a proved no strikes it out,
    a witness makes one of its numbers possible and leaves two intervals. What remains is {Q : some
    answer key with Q = Σ_g n_{g,label} keeps all claims}.

    Assumptions as in :func:`prove_malfunction`.

    References
    ----------
    Corrada-Emmanuel, Parker and Bharadwaj, "A logical alarm for misaligned binary classifiers",
    Figures 4 and 5: the trace of their alarm, which sees one classifier at a time.

    Examples
    --------
    >>> counts = {("a", "a"): 1, ("a", "b"): 1, ("b", "a"): 1, ("b", "b"): 1}
    >>> sketch = Sketch.from_counts(counts, classifiers=["x", "y"], labels=["a", "b"])
    >>> trace(sketch, "accuracy > 1/2", label="a").diagnostics["possible"]
    [[1, 1], [3, 3]]
    """
    deadline = check_limit(time_limit)
    spec, label = as_spec(spec), str(label)
    if label not in sketch.labels:
        raise ArgumentError(f"label must be one of {list(sketch.labels)}; got {label!r}.")
    bounds = check_prevalence(sketch, prevalence)
    r = sketch.labels.index(label)
    solver_said: list[bool] = []

    def question(low: int, high: int) -> Asked:
        asked = ask(sketch, spec, {**bounds, label: (low, high)}, deadline=share(deadline, 0.5))
        solver_said.append(asked.on_solver)
        return asked

    low, high = bounds.get(label, (0, sketch.n_items))
    possible, open_ = _walk(question, r, low, high)
    return _traced(sketch, spec, bounds, label, possible, open_, on_solver=any(solver_said))


def _walk(
    question: Callable[[int, int], Asked], r: int, low: int, high: int
) -> tuple[set[int], _Windows]:
    """Every number of low..high: possible, undecided, or else proved impossible. The ends come
    first.
    """
    possible: set[int] = set()
    undecided: _Windows = []
    first, last = _outermost(question, r, low, high, possible, undecided, last=False), low - 1
    if first is not None:
        end = _outermost(question, r, first + 1, high, possible, undecided, last=True)
        last = first if end is None else end
    waiting = [] if first is None else _gaps(possible, first, last)
    if last - (first or 0) > _MOST_POINTS:
        return possible, sorted([*undecided, *waiting])
    while waiting:
        a, b = waiting.pop(0)
        asked = question(a, b)
        if asked.given is not None:
            q = int(asked.given[:, r].sum())
            possible.add(q)
            waiting += [(c, d) for c, d in ((a, q - 1), (q + 1, b)) if c <= d]
        elif asked.status == "undecided":
            if a == b or b - a > 64:
                undecided.append((a, b))
            else:
                waiting += [(a, (a + b) // 2), ((a + b) // 2 + 1, b)]
    return possible, sorted(undecided)


def _outermost(
    question: Callable[[int, int], Asked],
    r: int,
    low: int,
    high: int,
    possible: set[int],
    undecided: _Windows,
    *,
    last: bool,
) -> int | None:
    """The first (or last) possible number; what is undecided beyond it is written down."""
    found = None
    while low <= high:
        asked = question(low, high)
        if asked.status == "undecided":
            undecided.append((low, high))
            break
        if asked.given is None:
            break
        found = int(asked.given[:, r].sum())
        possible.add(found)
        # Halving from the far end: a witness somewhere in the middle says nothing of the half
        # beyond it.
        middle = (found + high + 1) // 2 if last else (low + found - 1) // 2
        while (found < high) if last else (low < found):
            half = question(middle, high) if last else question(low, middle)
            if half.status == "undecided":
                break
            if half.given is not None:
                found = int(half.given[:, r].sum())
                possible.add(found)
            elif last:
                high = middle - 1
            else:
                low = middle + 1
            middle = (found + high + 1) // 2 if last else (low + found - 1) // 2
        low, high = (found + 1, high) if last else (low, found - 1)
        if low <= high:
            undecided.append((low, high))
        break
    return found


def _gaps(possible: set[int], first: int, last: int) -> _Windows:
    """The stretches of first..last without a possible number."""
    marks = sorted(q for q in possible if first <= q <= last)
    return [(a + 1, b - 1) for a, b in itertools.pairwise(marks) if b - a > 1]


def _windows(numbers: set[int]) -> _Windows:
    """Runs of whole numbers."""
    if not numbers:
        return []
    ordered = np.array(sorted(numbers))
    cuts = np.flatnonzero(np.diff(ordered) > 1)
    starts, stops = ordered[np.r_[0, cuts + 1]], ordered[np.r_[cuts, len(ordered) - 1]]
    return [(int(a), int(b)) for a, b in zip(starts, stops, strict=True)]


def _joined(windows: _Windows) -> _Windows:
    """Windows in order, those that touch made one."""
    found: _Windows = []
    for a, b in sorted(windows):
        if found and a <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(b, found[-1][1]))
        else:
            found.append((a, b))
    return found


def _traced(
    sketch: Sketch,
    spec: Spec,
    bounds: Bounds,
    label: str,
    possible: set[int],
    open_: _Windows,
    *,
    on_solver: bool,
) -> Ranges:
    seen, open_ = _windows(possible), _joined(open_)
    windows = _joined([*seen, *open_])
    names = [
        f"items of {label}" + (f" ({k + 1} of {len(windows)})" if len(windows) > 1 else "")
        for k in range(len(windows))
    ]
    reason = "" if windows else f"alarm: at no prevalence of {label} can all claims hold"
    notes = [f"undecided: {a} to {b}" if a < b else f"undecided: {a}" for a, b in open_[:5]]
    return Ranges(
        ranges=tuple(
            Range(name=name, low=float(a), high=float(b))
            for name, (a, b) in zip(names, windows, strict=True)
        ),
        method="trace over the prevalence, whole numbers",
        subject=f"possible prevalences of {label} if {spec}",
        guarantee=promise(sketch, bounds, on_solver=on_solver),
        counts=described(sketch),
        diagnostics={
            "trace": label,
            "claim": str(spec),
            "possible": [list(w) for w in seen],
            "undecided": [list(w) for w in open_],
            "items": sketch.n_items,
        },
        notes=tuple(notes),
        reason=reason,
    )


# ------------------------------------------------------------------------------------------------------
# the largest claim


def threshold(
    sketch: Sketch,
    *,
    kind: Literal["accuracy", "grade"] = "accuracy",
    denominator: int = 1000,
    axioms: bool = False,
    prevalence: Mapping[str, tuple[int, int]] | None = None,
    time_limit: float = 30.0,
) -> Ranges:
    """The largest claim about all classifiers that raises no alarm.

    Parameters
    ----------
    sketch
        How often each pattern of answers was given, with what is known of the items.
    kind
        ``"accuracy"``: on each label. ``"grade"``: over all labels.
    denominator
        Claims are "more than k / denominator".
    axioms
        Look only at how often each classifier used each label, as :func:`axiom_alarm` does.
    prevalence
        For some labels the least and the most items that can have it.
    time_limit
        Seconds after which the two numbers may lie further apart.

    Returns
    -------
    Ranges
        One range: ``low`` is the largest k / denominator with a witness (0 if there is none),
        ``high`` the smallest with an alarm (1 if none alarms). They are neighbours unless the time
        was up.

    Notes
    -----
    A larger claim implies a smaller one, so that halving finds the border. The border is a property
    of the answers, not a quality of the classifiers: at least one of them is not better than
    ``high``.

    low = max {k/d : some answer key lets every accuracy be more than k/d}, high = min {k/d : none
    does}.

    Assumptions as in :func:`prove_malfunction`: one true label an item, and what is known of the
    items is true. Nothing about how errors depend on each other.

    References
    ----------
    Corrada-Emmanuel, Parker and Bharadwaj, "A logical alarm for misaligned binary classifiers".

    Examples
    --------
    >>> counts = {("A", "A"): 26, ("A", "B"): 1, ("B", "A"): 208, ("B", "B"): 46}
    >>> sketch = Sketch.from_counts(counts, classifiers=["Mistral", "GPT4"], labels=["A", "B"])
    >>> threshold(sketch)
    Ranges(largest accuracy without an alarm [0.259, 0.26])
    """
    deadline = check_limit(time_limit)
    if kind not in {"accuracy", "grade"}:
        raise ArgumentError(f"kind must be 'accuracy' or 'grade'; got {kind!r}.")
    if (
        isinstance(denominator, bool)
        or not isinstance(denominator, (int, np.integer))
        or denominator < 2
    ):
        raise ArgumentError(
            f"denominator must be a whole number of at least 2; got {denominator!r}."
        )
    if axioms and (
        kind == "grade" or prevalence or not sketch.is_complete or sketch.has_side_information
    ):
        raise ArgumentError(
            "axioms must go with kind='accuracy', complete answers and nothing known of the items; got something else."
        )
    bounds = check_prevalence(sketch, prevalence)
    make = Spec.accuracy if kind == "accuracy" else Spec.grade
    uses = sketch.uses.tolist()
    solver_said: list[bool] = []

    def status(k: int) -> str:
        spec = make(Fraction(k, int(denominator)))
        if axioms:
            most = largest_prevalences(uses, spec, sketch.classifiers, sketch.labels)
            return "alarm" if most is not None and sum(most) < sketch.n_items else "consistent"
        asked = ask(sketch, spec, bounds, deadline=share(deadline, 0.3))
        solver_said.append(asked.on_solver)
        return asked.status

    fine, fires = _border(status, int(denominator))
    low, high = max(fine, 0) / denominator, fires / denominator
    name = f"largest {kind} without an alarm"
    reason = (
        ""
        if fine >= 0
        else f"alarm at every claim, also at {kind} > 0"
        if fires == 0
        else "the time limit was reached"
    )
    return Ranges(
        ranges=(
            Range(name=name, low=NaN if fires == 0 else low, high=NaN if fires == 0 else high),
        ),
        method="single-classifier axioms, halving" if axioms else "halving, exact verdicts",
        subject=f"largest {kind} that all {len(sketch.classifiers)} classifiers can have",
        guarantee=promise(sketch, bounds, on_solver=any(solver_said)),
        counts=described(sketch),
        diagnostics={
            "kind": kind,
            "denominator": int(denominator),
            "axioms": axioms,
            "decided": fires - max(fine, 0) <= 1,
        },
        notes=()
        if fires - max(fine, 0) <= 1
        else ("the border lies between the two numbers; more time would bring them together",),
        reason=reason,
    )


def _border(status: Callable[[int], str], denominator: int) -> tuple[int, int]:
    """The largest k that is consistent (-1: none seen) and the smallest that alarms
    (``denominator``: none does).
    """
    fine, fires = -1, denominator
    low, high = -1, denominator  # where to look for either; an undecided k parts the two searches
    hard: list[int] = []
    while high - low > 1:
        k = (low + high) // 2
        said = status(k)
        if said == "consistent":
            fine = low = k
        elif said == "alarm":
            fires = high = k
        else:
            hard.append(k)
            break
    if hard:
        low, high = fine, hard[0]
        while high - low > 1:
            k = (low + high) // 2
            fine, low, high = (k, k, high) if status(k) == "consistent" else (fine, low, k)
        low, high = hard[0], fires
        while high - low > 1:
            k = (low + high) // 2
            fires, low, high = (k, low, k) if status(k) == "alarm" else (fires, k, high)
    return fine, fires
