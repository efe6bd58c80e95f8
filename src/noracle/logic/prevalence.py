"""Which prevalences of a label the claims allow, and the largest claim that raises no alarm."""

from __future__ import annotations

import dataclasses
import itertools
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from typing import Literal

from noracle.counts.sketch import Sketch
from noracle.errors import require
from noracle.evidence.evidence import Evidence
from noracle.logic.cascade import NOTHING, Claims, check_whole, largest_prevalences, sketch_of
from noracle.logic.spec import Spec, as_spec
from noracle.results import NaN, Range, Ranges

_MOST_POINTS = 5000
_Windows = list[tuple[int, int]]


def range_prevalence(
    evidence: Evidence | Sketch,
    spec: Spec | str,
    *,
    label: str,
    prevalence: Mapping[str, tuple[int, int]] | None = None,
    time_limit: float = 30.0,
) -> Ranges:
    """How many items can have a label if all claims hold.

    Parameters
    ----------
    evidence
        As in :func:`prove_malfunction`.
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
    >>> range_prevalence(sketch, "accuracy > 1/2", label="a").diagnostics["possible"]
    [[1, 1], [3, 3]]
    """
    sketch, spec, label = sketch_of(evidence), as_spec(spec), str(label)
    known = list(sketch.labels)
    require(label in known, f"label must be one of {known}; got {label!r}.")
    claims = Claims.read(sketch, spec, prevalence, time_limit)
    walk = _PrevalenceWalk(claims, label)
    walk.everywhere(*claims.bounds.get(label, (0, sketch.n_items)))
    seen, open_ = _joined((q, q) for q in walk.possible), _joined(walk.undecided)
    windows = _joined([*seen, *open_])
    ranges = []
    for k, (a, b) in enumerate(windows, start=1):
        which = f" ({k} of {len(windows)})" if len(windows) > 1 else ""
        ranges.append(Range(name=f"items of {label}{which}", low=float(a), high=float(b)))
    notes = [f"undecided: {a} to {b}" if a < b else f"undecided: {a}" for a, b in open_[:5]]
    return claims.result(
        ranges,
        on_solver=walk.on_solver,
        method="trace over the prevalence, whole numbers",
        subject=f"possible prevalences of {label} if {spec}",
        diagnostics={
            "trace": label,
            "claim": str(spec),
            "possible": [list(w) for w in seen],
            "undecided": [list(w) for w in open_],
            "items": sketch.n_items,
        },
        notes=tuple(notes),
        reason="" if windows else f"alarm: at no prevalence of {label} can all claims hold",
    )


class _PrevalenceWalk:
    """Every number of items of a label: possible, undecided, or else proved impossible."""

    def __init__(self, claims: Claims, label: str) -> None:
        self.claims, self.label = claims, label
        self.place = claims.sketch.labels.index(label)
        self.possible: set[int] = set()
        self.undecided: _Windows = []
        self.on_solver = False

    def ask(self, low: int, high: int) -> tuple[str, int | None]:
        """The verdict on an interval, and a number of it that is possible."""
        bounds = {**self.claims.bounds, self.label: (low, high)}
        asked = dataclasses.replace(self.claims, bounds=bounds).ask(0.5)
        self.on_solver |= asked.on_solver
        if asked.given is None:
            return asked.status, None
        q = int(asked.given[:, self.place].sum())
        self.possible.add(q)
        return asked.status, q

    def everywhere(self, low: int, high: int) -> None:
        """All of low..high, the ends first."""
        first = self.outermost(low, high, last=False)
        if first is None:
            return
        last = self.outermost(first + 1, high, last=True) or first
        marks = sorted(q for q in self.possible if q <= last)
        waiting = [(a + 1, b - 1) for a, b in itertools.pairwise(marks) if b - a > 1]
        if last - first > _MOST_POINTS:
            self.undecided += waiting
            return
        while waiting:
            a, b = waiting.pop(0)
            status, q = self.ask(a, b)
            if q is not None:
                waiting += [(c, d) for c, d in ((a, q - 1), (q + 1, b)) if c <= d]
            elif status == "undecided":
                if a == b or b - a > 64:
                    self.undecided.append((a, b))
                else:
                    waiting += [(a, (a + b) // 2), ((a + b) // 2 + 1, b)]

    def outermost(self, low: int, high: int, *, last: bool) -> int | None:
        """The first (or last) possible number; what is undecided beyond it is written down."""
        if low > high:
            return None
        status, found = self.ask(low, high)
        if status == "undecided":
            self.undecided.append((low, high))
        if found is None:
            return None
        # Halving from the far end: a witness somewhere in the middle says nothing of the half
        # beyond it.
        while (found < high) if last else (low < found):
            middle = (found + high + 1) // 2 if last else (low + found - 1) // 2
            status, better = self.ask(middle, high) if last else self.ask(low, middle)
            if status == "undecided":
                break
            if better is not None:
                found = better
            elif last:
                high = middle - 1
            else:
                low = middle + 1
        rest = (found + 1, high) if last else (low, found - 1)
        if rest[0] <= rest[1]:
            self.undecided.append(rest)
        return found


def _joined(windows: Iterable[tuple[int, int]]) -> _Windows:
    """Windows in order, those that touch made one."""
    found: _Windows = []
    for a, b in sorted(windows):
        if found and a <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(b, found[-1][1]))
        else:
            found.append((a, b))
    return found


def range_threshold(
    evidence: Evidence | Sketch,
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
    evidence
        As in :func:`prove_malfunction`.
    kind
        ``"accuracy"``: on each label. ``"grade"``: over all labels.
    denominator
        Claims are "more than k / denominator".
    axioms
        Look only at how often each classifier used each label, as :func:`prove_by_axioms` does.
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

    Assumptions as in :func:`prove_malfunction`: one true label per item, and what is known of the
    items is true. Nothing about how errors depend on each other.

    References
    ----------
    Corrada-Emmanuel, Parker and Bharadwaj, "A logical alarm for misaligned binary classifiers".

    Examples
    --------
    >>> counts = {("A", "A"): 26, ("A", "B"): 1, ("B", "A"): 208, ("B", "B"): 46}
    >>> sketch = Sketch.from_counts(counts, classifiers=["Mistral", "GPT4"], labels=["A", "B"])
    >>> range_threshold(sketch)
    Ranges(largest accuracy without an alarm [0.259, 0.26])
    """
    require(kind in {"accuracy", "grade"}, f"kind must be 'accuracy' or 'grade'; got {kind!r}.")
    sketch, denominator = sketch_of(evidence), check_whole("denominator", denominator, 2)
    known = bool(prevalence) or sketch.has_side_information
    rule = "kind='accuracy', complete answers and nothing known of the items; got something else"
    fits = kind == "accuracy" and sketch.is_complete and not known
    require(fits or not axioms, f"axioms must go with {rule}.")
    claims = Claims.read(sketch, NOTHING, prevalence, time_limit)
    make = Spec.accuracy if kind == "accuracy" else Spec.grade
    uses = sketch.uses.tolist()
    solver_said: list[bool] = []

    def status(k: int) -> str:
        spec = make(Fraction(k, denominator))
        if axioms:
            most = largest_prevalences(uses, spec, sketch.classifiers, sketch.labels)
            return "alarm" if most is not None and sum(most) < sketch.n_items else "consistent"
        asked = dataclasses.replace(claims, spec=spec).ask(0.3)
        solver_said.append(asked.on_solver)
        return asked.status

    fine, fires = _border(status, denominator)
    low, high = max(fine, 0) / denominator, fires / denominator
    decided = fires - max(fine, 0) <= 1
    reason = "" if fine >= 0 else "the time limit was reached"
    if fires == 0:
        low, high, reason = NaN, NaN, f"alarm at every claim, also at {kind} > 0"
    said = {"kind": kind, "denominator": denominator, "axioms": axioms}
    apart = "the border lies between the two numbers; more time would bring them together"
    return claims.result(
        [Range(name=f"largest {kind} without an alarm", low=low, high=high)],
        on_solver=any(solver_said),
        method="single-classifier axioms, halving" if axioms else "halving, exact verdicts",
        subject=f"largest {kind} that all {len(sketch.classifiers)} classifiers can have",
        diagnostics={**said, "decided": decided},
        notes=() if decided else (apart,),
        reason=reason,
    )


def _border(status: Callable[[int], str], denominator: int) -> tuple[int, int]:
    """The largest consistent k (-1: none) and the smallest that alarms (``denominator``: none)."""
    fine, fires = -1, denominator
    while fires - fine > 1:
        k = (fine + fires) // 2
        said = status(k)
        if said == "consistent":
            fine = k
        elif said == "alarm":
            fires = k
        else:  # an undecided k parts the two searches
            below, above = range(fine + 1, k), range(k + 1, fires)
            fine += bisect_left(below, True, key=lambda x: status(x) != "consistent")
            return fine, k + 1 + bisect_left(above, True, key=lambda x: status(x) == "alarm")
    return fine, fires
