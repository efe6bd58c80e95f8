"""The largest possible share of right (or wrong) answers: one end of a range, in exact fractions.

A linear program guides; what is returned is proved by the cascade: the end is attained by counts in
whole numbers, and nothing beyond it is possible. Where time runs out the end is an outer bound,
which is proved all the same.
"""

from __future__ import annotations

import math
import time
from fractions import Fraction
from typing import Any, Literal, NamedTuple

import numpy as np

from noracle.counts.sketch import Sketch
from noracle.logic.asking import Asked, Bounds, ask, share
from noracle.logic.branch import round_counts
from noracle.logic.dual import Case
from noracle.logic.program import ANY, Array, Piece, Program, Row, Whole, rows_of
from noracle.logic.solver import MOST_ENTRIES, entries, matrix, run
from noracle.logic.spec import Spec

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
