"""Cases by cases: where no single set of weights proves an alarm, split on a whole number and prove
each half.

A split says that a count is at most k or at least k + 1, which is true of every whole number. The
leaves of the tree are cases that weights prove impossible; so the tree as a whole is a proof that
needs no solver to be checked.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from noracle.logic.dual import Case, Leaf, Split
from noracle.logic.program import Array, Program, Whole
from noracle.logic.solver import relax

if TYPE_CHECKING:
    from numpy.typing import NDArray

_NEAR = 1e-6
_DEEPEST = 200

Form = tuple[Any, ...]
"""What is counted, as in :class:`noracle.logic.dual.Split`."""

Node = Leaf | tuple[Form, int, Any, Any]
"""A leaf, or (form, k, the node where the count is at most k, the node where it is larger)."""


class Searched(NamedTuple):
    """Counts that keep all rows, or a tree that proves that there are none, or neither (``node``
    None): the limit was reached.
    """

    given: Whole | None
    node: Node | None
    nodes: int


class _Search:
    def __init__(self, base: Program, most: int, deadline: float) -> None:
        self.base, self.most, self.deadline = base, most, deadline
        self.nodes = 0
        self.given: Whole | None = None

    def prove(self, splits: tuple[Split, ...]) -> Node | None:
        """The proof that a case is impossible; None if counts were found (``given``) or a limit was
        reached.
        """
        self.nodes += 1
        if self.nodes > self.most or len(splits) > _DEEPEST or time.monotonic() > self.deadline:
            return None
        case = Case(self.base, splits)
        if not case.allowed.any(axis=1).all():
            return case.leaf(np.zeros(len(case.program.rows)))
        solved = relax(case, self.deadline)
        if solved.status != "solved":
            return None
        if solved.value > 0:
            leaf = case.leaf(solved.weights)
            if leaf is not None:
                return leaf
        given = round_counts(case.program, case.allowed, solved.given)
        if self.base.is_satisfied(given):
            self.given = given
            return None
        choice = choose_split(case, solved.given)
        if choice is None:
            return None
        form, at, above_first = choice
        halves: dict[bool, Node | None] = {}
        for below in (False, True) if above_first else (True, False):
            halves[below] = self.prove((*splits, Split(form, at, below)))
            if halves[below] is None:
                return None
        return (form, at, halves[True], halves[False])


def search(base: Program, *, most: int, deadline: float) -> Searched:
    """Branch on conditions, prevalences and cells until every case is proved impossible or counts
    are found.
    """
    found = _Search(base, most, deadline)
    node = found.prove(())
    return Searched(found.given, node, found.nodes)


def choose_split(case: Case, given: Array) -> tuple[Form, int, bool] | None:
    """What to split on: a condition that the relaxed counts evade, a broken prevalence, a broken
    sum, a broken cell.
    """
    program, sketch = case.program, case.base.sketch
    values, answered = program.values(given)
    k, i, r = program.unless
    evaded = (
        (answered[i, r] > _NEAR) & (values[k] < program.at_least[k] - _NEAR) & ~case.in_force[k]
    )
    if evaded.any():
        j = int(np.flatnonzero(evaded)[0])
        missing = (sketch.patterns[:, i[j]] < 0) & case.allowed[:, r[j]]
        form: Form = (
            ("answered", int(i[j]), int(r[j])) if missing.any() else ("prevalence", int(r[j]))
        )
        return form, 0, bool(answered[i[j], r[j]] > 0.5)
    sums = given.sum(axis=0)
    candidates: list[tuple[Form, float]] = [
        (("prevalence", label), v) for label, v in enumerate(sums.tolist())
    ]
    candidates += [
        (("answered", a, b), answered[a, b]) for a in range(len(answered)) for b in range(program.R)
    ]
    for a in range(len(answered)):
        for b in range(program.R):
            candidates.append(
                (("correct", a, b), float(given[sketch.patterns[:, a] == b, b].sum()))
            )
    broken = np.abs(given - np.rint(given)) > _NEAR
    candidates += [
        (("cell", int(g), int(label)), float(given[g, label]))
        for g, label in zip(*np.nonzero(broken), strict=True)
    ]
    for form, value in candidates:
        if abs(value - round(value)) > _NEAR:
            at = int(np.floor(value))
            return form, at, value - at > 0.5
    return None


def round_counts(program: Program, allowed: Any, given: Array) -> Whole:
    """Whole counts near ``given``: largest remainders, then single items moved while that helps the
    rows.
    """
    n = program.sketch.n
    whole = np.floor(given + _NEAR).astype(np.int64)
    rest = n - whole.sum(axis=1)
    part = np.where(allowed, given - whole, -1.0)
    for g in np.flatnonzero(rest):
        order = np.argsort(-part[g], kind="stable")
        for step in range(int(abs(rest[g]))):
            whole[g, order[step % len(order)]] += 1 if rest[g] > 0 else -1
    whole = np.maximum(whole, 0)
    movable = np.flatnonzero((np.abs(given - np.rint(given)) > _NEAR).any(axis=1))
    return _repair(program, allowed, whole, movable[:40])


def _repair(program: Program, allowed: Any, whole: Whole, groups: NDArray[np.intp]) -> Whole:
    """Move single items of ``groups`` between labels while the total shortfall shrinks."""
    if not len(groups):
        return whole
    columns, present = program.columns(groups)
    values, answered = program.values(whole)
    k, i, r = program.unless
    at, a, b = (
        m.ravel()
        for m in np.meshgrid(
            np.arange(len(groups)), np.arange(program.R), np.arange(program.R), indexing="ij"
        )
    )
    fits = (a != b) & allowed[groups[at], b]
    at, a, b = at[fits], a[fits], b[fits]
    if not len(at):
        return whole
    change, comes = columns[at, b] - columns[at, a], present[at, b] - present[at, a]
    total = int(program.short(values, answered).sum())
    for _ in range(2 * len(groups)):
        if total == 0:
            break
        short = np.maximum(program.at_least - values - change, 0)
        short[:, k] *= answered[i, r] + comes > 0
        sums = np.where(whole[groups[at], a] > 0, short.sum(axis=1), total)
        best = int(sums.argmin())
        if sums[best] >= total:
            break
        g = groups[at[best]]
        whole[g, a[best]] -= 1
        whole[g, b[best]] += 1
        values, answered = program.values(whole)
        total = int(program.short(values, answered).sum())
    return whole
