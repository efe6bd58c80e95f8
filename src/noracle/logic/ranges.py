"""What each accuracy can still be, for every answer key that the evidence allows."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Literal, NamedTuple

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
    each_named,
    names_in,
    promise,
    round_counts,
    share,
)
from noracle.logic.program import ANY, Array, Case, Piece, Program, Row, Whole, rows_of
from noracle.logic.solver import MOST_ENTRIES, entries, matrix, run
from noracle.logic.spec import Spec
from noracle.results import NaN, Range, Ranges

How = Literal["exact", "outer", "undefined"]
_DENOMINATORS = (1_000_000, 10_000, 1_000, 100)
_CLOSE = Fraction(1, 2000)


class Share(NamedTuple):
    """Right (or wrong) answers of a classifier among the items of a label that it answered; over
    all labels if ``label`` is None.

    ``answered`` is the most items that it can be a share of; over all labels exactly so many.
    """

    classifier: int
    label: int | None
    right: bool
    answered: int
    n_labels: int

    def above(self, t: Fraction) -> Row:
        """The share is above t, as a row in whole numbers."""
        p, q, i = t.numerator, t.denominator, self.classifier
        if self.label is not None:
            good, all_ = ((i, self.label),), ((i, ANY),)
            if self.right:
                return Row((Piece(q, good, self.label), Piece(-p, all_, self.label)), 1)
            return Row((Piece(q - p, all_, self.label), Piece(-q, good, self.label)), 1)
        least = p * self.answered // q + 1
        sign, least = (1, least) if self.right else (-1, least - self.answered)
        return Row(tuple(Piece(sign, ((i, r),), r) for r in range(self.n_labels)), least)

    def some(self) -> Row | None:
        """There is an item that it is a share of."""
        return (
            None
            if self.label is None
            else Row((Piece(1, ((self.classifier, ANY),), self.label),), 1)
        )

    def of(self, sketch: Sketch, given: Whole) -> Fraction | None:
        """The share for counts n_{g,l}; None where it is a share of nothing."""
        column = sketch.patterns[:, self.classifier]
        labels = range(self.n_labels) if self.label is None else [self.label]
        good = sum(int(given[column == r, r].sum()) for r in labels)
        all_ = sum(int(given[column >= 0, r].sum()) for r in labels)
        return None if not all_ else Fraction(good if self.right else all_ - good, all_)

    def costs(self, sketch: Sketch) -> tuple[Array, Array]:
        """Over the cells: what an item adds to the share's numerator, and to its denominator."""
        column = sketch.patterns[:, self.classifier]
        labels = np.arange(self.n_labels)
        inside = (column >= 0)[:, None] & (
            np.ones(self.n_labels, dtype=bool) if self.label is None else labels == self.label
        )
        good = inside & (column[:, None] == labels)
        return (good if self.right else inside & ~good).astype(np.float64), inside.astype(
            np.float64
        )


class End(NamedTuple):
    """The largest value of a share: attained (``exact``), surely not exceeded (``outer``), or
    ``undefined``: never of anything.

    ``attained`` is the largest value that some answer key was seen to have.
    """

    value: Fraction
    how: How
    on_solver: bool = False
    attained: Fraction | None = None


class _Finder:
    def __init__(
        self, sketch: Sketch, spec: Spec, bounds: Bounds, wanted: Share, deadline: float
    ) -> None:
        self.sketch, self.spec, self.bounds, self.wanted, self.deadline = (
            sketch,
            spec,
            bounds,
            wanted,
            deadline,
        )
        self.low: Fraction | None = None
        self.high = Fraction(1)
        self.on_solver = False

    def try_above(self, t: Fraction, part: float = 0.4) -> str:
        """Whether more than t is possible; moves the bracket."""
        asked = self._ask(self.wanted.above(t), part)
        if asked.status == "alarm":
            self.high, self.on_solver = t, asked.on_solver
        return asked.status

    def _ask(self, row: Row | None, part: float) -> Asked:
        more = () if row is None else (row,)
        asked = ask(
            self.sketch, self.spec, self.bounds, deadline=share(self.deadline, part), more=more
        )
        if asked.given is not None:
            self.attained(asked.given)
        return asked

    def attained(self, given: Whole) -> None:
        """Counts that are possible show that the end is at least their share."""
        value = self.wanted.of(self.sketch, given)
        if value is not None and (self.low is None or value > self.low):
            self.low = value

    def start(self) -> str:
        """Any possible counts for which the share is of something."""
        return self._ask(self.wanted.some(), 0.5).status

    def guess(self) -> Array | None:
        """The linear program: multipliers of the rows for a proved bound, and counts near its
        optimum.
        """
        program = Program(self.sketch, rows_of(self.sketch, self.spec, self.bounds))
        if entries(program) > MOST_ENTRIES or time.monotonic() >= self.deadline:
            return None
        found = _fractional(Case(program), self.wanted, share(self.deadline, 0.5))
        if found is None:
            return None
        value, given, weights = found
        whole = round_counts(program, self.sketch.allowed, given)
        if program.is_satisfied(whole):
            self.attained(whole)
        for m in _DENOMINATORS:
            t = Fraction(math.ceil((value + 1e-9) * m), m)
            if t >= self.high:
                break
            case = Case(program.with_rows([self.wanted.above(t)]))
            if (
                case.leaf(
                    np.append(
                        weights, 1.0 / t.denominator if self.wanted.label is not None else 1.0
                    )
                )
                is not None
            ):
                self.high = t
                break
        return given

    @property
    def is_exact(self) -> bool:
        """No fraction with so small a denominator lies above the attained value and within the
        proved bound.
        """
        return self.low is not None and (
            self.low >= self.high or successor(self.low, self.wanted.answered) > self.high
        )

    def close(self) -> None:
        """Halve the bracket until the end is exact, or the time is up."""
        floor = Fraction(0)
        while not self.is_exact and time.monotonic() < self.deadline:
            base = max(floor, self.low or Fraction(0))
            if self.high - base < _CLOSE and base > (self.low or Fraction(0)):
                return
            middle = _simple(base, self.high, self.wanted.answered)
            status = self.try_above(middle)
            if status == "consistent" and self.low is not None and not self.is_exact:
                self.try_above(self.low)
            elif status == "undecided":
                floor = middle


def largest(
    sketch: Sketch,
    spec: Spec,
    bounds: Bounds,
    wanted: Share,
    *,
    deadline: float,
    exact: bool = True,
) -> End:
    """The largest possible value of a share, under claims, prevalences and what is known of the
    items.
    """
    if not wanted.answered:
        return End(Fraction(0), "undefined")
    finder = _Finder(sketch, spec, bounds, wanted, deadline)
    finder.guess()
    if finder.low is None and finder.start() == "alarm":
        return End(Fraction(0), "undefined")
    if exact and not finder.is_exact and finder.low is not None:
        finder.try_above(finder.low)
    if exact and not finder.is_exact:
        finder.close()
    if finder.is_exact and finder.low is not None:
        return End(finder.low, "exact", finder.on_solver, finder.low)
    return End(finder.high, "outer", finder.on_solver, finder.low)


def successor(value: Fraction, most: int) -> Fraction:
    """The next larger fraction with a denominator of at most ``most``.

    Examples
    --------
    >>> successor(Fraction(1, 2), 5), successor(Fraction(0), 7)
    (Fraction(3, 5), Fraction(1, 7))
    """
    a, b = value.numerator, value.denominator
    start = 0 if b == 1 else -pow(a, -1, b) % b
    d = start + (most - start) // b * b
    return Fraction(1 + a * d, b * d) if d > 0 else value + 1


def _simple(low: Fraction, high: Fraction, most: int) -> Fraction:
    """A fraction near the middle, with a small denominator."""
    middle = (low + high) / 2
    found = middle.limit_denominator(max(2, min(2 * most, math.ceil(4 / (high - low)))))
    return found if low < found < high else middle


def _fractional(case: Case, wanted: Share, deadline: float) -> tuple[float, Array, Array] | None:
    """The largest c·x / d·x over the relaxed program, by the substitution y = t·x: one linear
    program.

    Rows that may be void are kept where they hold in either case: q·right - p·answered ≥ 0.
    """
    from scipy import sparse

    program, sketch = case.program, case.base.sketch
    A, cells = matrix(case)
    top, bottom = (c.ravel()[cells] for c in wanted.costs(sketch))
    low = program.at_least.astype(np.float64)
    k, _, _ = program.unless
    low[k[~case.in_force[k]]] = np.minimum(0.0, low[k[~case.in_force[k]]])
    n = sketch.n.astype(np.float64)
    sums = sparse.csr_array(
        (np.ones(len(cells)), (cells // program.R, np.arange(len(cells)))),
        shape=(len(n), len(cells)),
    )
    whole = sparse.vstack(
        [
            sparse.hstack([A, sparse.csr_array(-low[:, None])]),
            sparse.hstack([sums, sparse.csr_array(-n[:, None])]),
            sparse.hstack([sparse.csr_array(bottom[None, :]), sparse.csr_array((1, 1))]),
        ],
        format="csr",
    )
    data: dict[str, Any] = {
        "cost": np.append(-top, 0.0),
        "low": np.r_[np.zeros(len(low) + len(n)), float(wanted.answered)],
        "x_low": np.append(np.zeros(len(cells)), 1.0),
        "x_high": np.append(np.full(len(cells), np.inf), float(wanted.answered)),
        "integer": np.zeros(len(cells) + 1, dtype=np.uint8),
    }
    found = run(whole, len(low), data, deadline)
    if found is None or int(found["status"]) != 0:
        return None
    x = found["x"]
    given = np.zeros(sketch.n_groups * program.R)
    given[cells] = x[:-1] / x[-1]
    value = float(top @ x[:-1]) / wanted.answered
    return value, given.reshape(sketch.n_groups, program.R), np.maximum(found["marginals"], 0)


# ----------------------------------------------------------------------------


_ABSENT = "an accuracy on a label is a share of the items of it that were answered; answer keys without such an item are left out"


def range_accuracies(
    sketch: Sketch,
    *,
    given: Spec | str | Mapping[str, Spec | str] | None = None,
    prevalence: Mapping[str, tuple[int, int]] | None = None,
    only: str | None = None,
    time_limit: float = 30.0,
    exact: bool = True,
) -> Ranges:
    """What remains possible for the accuracy of each classifier, on each label and over all labels.

    Parameters
    ----------
    sketch
        How often each pattern of answers was given, with what is known of the items.
    given
        Claims that are trusted: ``{"gpt": "accuracy > 1/2"}`` trusts one classifier, ``"accuracy >
        1/2"`` all of them. Nothing is trusted by default.
    prevalence
        For some labels the least and the most items that can have it.
    only
        One quantity by its name, such as ``"accuracy of gpt on A"`` or ``"grade of gpt"``; by
        default all.
    time_limit
        Seconds for all ends together. An end that was not found in time is an outer bound: still
        true, perhaps too wide.
    exact
        False asks for outer bounds from linear programs only, which is faster.

    Returns
    -------
    Ranges
        ``accuracy of NAME on LABEL`` for each pair, and ``grade of NAME`` (over all labels).
        ``diagnostics["ends"]`` has the ends as exact fractions and says which are ``exact``
        (attained by some answer key) and which ``outer``, with the furthest value that an answer
        key was seen to have (``attained``). An accuracy that no possible answer key defines is NaN.

    Raises
    ------
    ArgumentError
        If a name, a claim or a prevalence breaks a rule.

    Notes
    -----
    The accuracy of i on l is a = R_{i,l} / A_{i,l} (right among answered items of label l). Its
    largest value over all counts n_{g,l} that the claims allow is a fractional integer program. A
    linear program (Charnes and Cooper's substitution) gives a first guess; then the cascade of
    :func:`prove_malfunction` is asked whether more than the best value so far is possible, until
    the answer is a proved no. Only the trusted classifiers and the one in question matter, so that
    the others are left out first.

    Assumptions: every item has one true label among the labels; trusted claims, known answers and
    prevalences are true.

    References
    ----------
    Charnes and Cooper (1962), Naval Res. Logist. Q. 9, 181-186; Corrada-Emmanuel, Parker and
    Bharadwaj, "A logical alarm for misaligned binary classifiers".

    Examples
    --------
    >>> counts = {("A", "A"): 26, ("A", "B"): 1, ("B", "A"): 208, ("B", "B"): 46}
    >>> sketch = Sketch.from_counts(counts, classifiers=["Mistral", "GPT4"], labels=["A", "B"])
    >>> ranges = range_accuracies(sketch, given={"GPT4": "accuracy > 1/2"})
    >>> ranges.diagnostics["ends"]["accuracy of Mistral on A"]["high"]
    '27/190'
    """
    deadline = check_limit(time_limit)
    trusted = each_named(given, sketch.classifiers)
    rows_of(sketch, trusted)  # refuses names that are not in the sketch
    bounds = check_prevalence(sketch, prevalence)
    names = quantities(sketch)
    wanted = _wanted(names, only)
    first = ask(
        sketch.of(names_in(trusted, sketch.classifiers) or sketch.classifiers[:1]),
        trusted,
        bounds,
        deadline=share(deadline, 0.3),
    )
    if first.status == "alarm":
        reason = "no answer key satisfies the trusted claims: at least one of the trusted classifiers breaks its claim"
        ranges = tuple(Range(name=names[pair], low=NaN, high=NaN) for pair in wanted)
        return _result(
            sketch,
            bounds,
            trusted,
            ranges,
            {"contradiction": True},
            on_solver=first.on_solver,
            reason=reason,
        )
    found: list[Range] = []
    ends: dict[str, dict[str, str]] = {}
    on_solver = False
    collapsed: dict[str, Sketch] = {}
    for place, (i, r) in enumerate(wanted):
        name = sketch.classifiers[i]
        if name not in collapsed:
            collapsed = {
                name: sketch.of(
                    [
                        c
                        for c in sketch.classifiers
                        if c == name or c in names_in(trusted, sketch.classifiers)
                    ]
                )
            }
        until = share(deadline, 1 / (len(wanted) - place))
        low, high = _both(collapsed[name], trusted, bounds, name, r, until, exact=exact)
        on_solver |= low.on_solver or high.on_solver
        what = names[i, r]
        if "undefined" in {low.how, high.how}:
            found.append(Range(name=what, low=NaN, high=NaN))
            ends[what] = {
                "how": "undefined: no possible answer key has an item of this kind that was answered"
            }
        else:
            found.append(Range(name=what, low=float(1 - low.value), high=float(high.value)))
            ends[what] = {
                "low": str(1 - low.value),
                "low is": low.how,
                "high": str(high.value),
                "high is": high.how,
            }
            if low.how == "outer" and low.attained is not None:
                ends[what]["low attained"] = str(1 - low.attained)
            if high.how == "outer" and high.attained is not None:
                ends[what]["high attained"] = str(high.attained)
    return _result(
        sketch,
        bounds,
        trusted,
        tuple(found),
        {"ends": ends, "time_limit": float(time_limit)},
        on_solver=on_solver,
    )


def _both(
    sketch: Sketch,
    trusted: Spec,
    bounds: Bounds,
    name: str,
    r: int | None,
    until: float,
    *,
    exact: bool,
) -> tuple[End, End]:
    """The largest share of wrong and of right answers."""
    i = sketch.classifiers.index(name)
    can = (sketch.patterns[:, i] >= 0) & (
        sketch.allowed.any(axis=1) if r is None else sketch.allowed[:, r]
    )
    answered = int(sketch.n[can].sum())
    now = time.monotonic()
    low = largest(
        sketch,
        trusted,
        bounds,
        Share(i, r, False, answered, len(sketch.labels)),
        deadline=now + (until - now) / 2,
        exact=exact,
    )
    if low.how == "undefined":
        return low, low
    high = largest(
        sketch,
        trusted,
        bounds,
        Share(i, r, True, answered, len(sketch.labels)),
        deadline=until,
        exact=exact,
    )
    return low, high


def quantities(sketch: Sketch) -> dict[tuple[int, int | None], str]:
    """What each quantity is called: by places of classifier and label (None: all labels), in the
    order of results.

    Where names such as "a on b" would make two quantities look the same, classifiers and labels are
    quoted.

    Examples
    --------
    >>> sketch = Sketch.from_counts({("A",): 1}, classifiers=["gpt"], labels=["A", "B"])
    >>> list(quantities(sketch).values())
    ['accuracy of gpt on A', 'accuracy of gpt on B', 'grade of gpt']
    """
    for say in (str, repr):
        found: dict[tuple[int, int | None], str] = {}
        for i, c in enumerate(sketch.classifiers):
            found |= {
                (i, r): f"accuracy of {say(c)} on {say(label)}"
                for r, label in enumerate(sketch.labels)
            }
            found[i, None] = f"grade of {say(c)}"
        if len(set(found.values())) == len(found):
            break
    return found


def _wanted(
    names: Mapping[tuple[int, int | None], str], only: str | None
) -> list[tuple[int, int | None]]:
    """Classifiers and labels (None: all labels) in the order of the result."""
    chosen = [pair for pair, name in names.items() if only in {None, name}]
    if not chosen:
        raise ArgumentError(
            f"only must be a quantity such as {', '.join(map(repr, list(names.values())[:3]))}; got {only!r}."
        )
    return chosen


def _result(
    sketch: Sketch,
    bounds: Bounds,
    trusted: Spec,
    ranges: tuple[Range, ...],
    said: dict[str, Any],
    *,
    on_solver: bool,
    reason: str = "",
) -> Ranges:
    outer = [
        name
        for name, e in said.get("ends", {}).items()
        if "outer" in {e.get("low is"), e.get("high is")}
    ]
    undefined = [name for name, e in said.get("ends", {}).items() if "how" in e]
    notes = [_ABSENT]
    if outer:
        notes.append(
            f"outer bounds, perhaps too wide: {', '.join(outer[:6])}{' and others' if len(outer) > 6 else ''}"
        )
    if undefined:
        reason = f"undefined, as no answer key that is possible has such an item: {', '.join(undefined[:6])}"
    return Ranges(
        ranges=ranges,
        method="every answer key that is possible, whole numbers"
        if not outer
        else "every answer key that is possible, outer bounds",
        subject=f"possible accuracies of {len(sketch.classifiers)} classifiers",
        guarantee=promise(sketch, bounds, trusted=str(trusted), on_solver=on_solver),
        counts=described(sketch),
        diagnostics={
            **said,
            "given": trusted.to_list(),
            "prevalence": {k: list(v) for k, v in bounds.items()},
        },
        notes=tuple(notes),
        reason=reason,
    )


def exact_ends(ranges: Ranges, name: str) -> tuple[Fraction, Fraction]:
    """Both ends of a range as exact fractions.

    Examples
    --------
    >>> sketch = Sketch.from_counts({("a",): 2, ("b",): 1}, classifiers=["x"], labels=["a", "b"])
    >>> exact_ends(range_accuracies(sketch, prevalence={"a": (3, 3)}), "accuracy of x on a")
    (Fraction(2, 3), Fraction(2, 3))
    """
    ends = ranges.diagnostics["ends"][name]
    return Fraction(ends["low"]), Fraction(ends["high"])
