"""Units of preferences, what is claimed of them, and the linear programs behind a proof.

A unit is what has one unknown order of its systems: the table (one ranking of all), or a part of an
item. x_{g,ab} is the number of units of group g with a above b. Orders satisfy, for every a < b < c,

    0 <= x_ab + x_bc - x_ac <= n_g,

the 3-cycle inequalities (Grötschel, Jünger and Reinelt 1985), and whole numbers that satisfy them
in a group of one unit are orders.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import time
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

import numpy as np

from noracle.errors import require
from noracle.evidence.preferences import FIRST, SECOND, Preferences
from noracle.logic.program import Array, Whole
from noracle.logic.spec import Spec

if TYPE_CHECKING:
    from numpy.typing import NDArray

Order = Literal["item", "one"]
Ranking = tuple[int, ...]
_MOST_CUTS = 4_000
_CHUNK = 20_000_000
_NEAR = 1e-6
_SCALES = (1, 2, 6, 12, 60, 840, 10_000, 10**6, 10**9)


class Need(NamedTuple):
    """``sign`` times the number of verdicts of a rater that agree is at least ``at_least``."""

    rater: int
    sign: int
    at_least: int


class Cut(NamedTuple):
    """Places of x_ab, x_bc and x_ac; ``upper`` of the two inequalities (or the lower one)."""

    ab: Whole
    bc: Whole
    ac: Whole
    upper: NDArray[np.bool_]

    @classmethod
    def none(cls) -> Self:
        """No cuts."""
        return cls(*(np.zeros(0, dtype=np.int64),) * 3, np.zeros(0, dtype=bool))

    def join(self, other: Cut) -> Cut:
        """Both."""
        return Cut(*(np.concatenate(pair) for pair in zip(self, other, strict=True)))

    def of(self, rows: Any) -> Cut:
        """Some of them."""
        return Cut(*(part[rows] for part in self))


class Branch(NamedTuple):
    """x at this place is at most ``at`` (``below``), or more."""

    place: int
    at: int
    below: bool


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class OrderSketch:
    """Units of preferences, counted: all that a proof sees of them.

    ``n`` and ``size`` are the units of each group and their systems; ``verdicts`` has the columns
    group, rater, better, worse (places in the unit) and number. Ties, ``neither`` and absent
    verdicts are no verdicts on an order.
    """

    raters: tuple[str, ...]
    systems: tuple[str, ...]
    order: Order
    n: Whole
    size: Whole
    verdicts: Whole

    @classmethod
    def of(cls, preferences: Preferences, order: Order) -> Self:
        """The units of a table.

        With ``one``, one unit holds all systems. With ``item`` the comparisons of an item that lie
        on no cycle are units of two systems, since any answers to them fit together, and what is
        left is one unit for each connected part. Units of two with equal verdicts are one group.
        """
        p = preferences
        said = (p.outcome == FIRST) | (p.outcome == SECOND)
        better = np.where(p.outcome == FIRST, p.first, p.second)[said]
        worse = np.where(p.outcome == FIRST, p.second, p.first)[said]
        item, rater = p.item[said], p.rater[said]
        about: Any = {"raters": p.raters, "systems": p.systems, "order": order}
        if order == "one":
            rows = np.column_stack([np.zeros_like(rater), rater, better, worse])
            size = np.array([len(p.systems)])
            return cls(**about, n=np.array([1]), size=size, verdicts=_tally(rows))
        names = len(p.systems)
        low, high = np.minimum(better, worse), np.maximum(better, worse)
        edges, edge = np.unique((item * names + low) * names + high, return_inverse=True)
        where, low, high = edges // names**2, edges // names % names, edges % names
        cyclic = _on_cycles(where * names + low, where * names + high)
        flat = _pairs(
            cls(**about, n=edges, size=edges, verdicts=edges), edge, rater, better < worse
        )
        if not cyclic.any():
            keep = np.ones(len(edges), dtype=bool)
            return cls(**about, **flat(keep))
        parts = flat(~cyclic)
        node, unit = _components(where * names + low, where * names + high, cyclic)
        inside = cyclic[edge]
        at_better = np.searchsorted(node, (item * names + better)[inside])
        at_worse = np.searchsorted(node, (item * names + worse)[inside])
        start = np.searchsorted(np.sort(unit), np.arange(unit.max() + 1))
        by_unit = np.argsort(unit, kind="stable")
        place = np.empty(len(unit), dtype=np.int64)
        place[by_unit] = np.arange(len(unit)) - start[unit[by_unit]]
        base = len(parts["n"])
        rows = np.column_stack(
            [base + unit[at_better], rater[inside], place[at_better], place[at_worse]]
        )
        return cls(
            **about,
            n=np.concatenate([parts["n"], np.ones(unit.max() + 1, dtype=np.int64)]),
            size=np.concatenate([parts["size"], np.bincount(unit)]),
            verdicts=np.concatenate([parts["verdicts"], _tally(rows)]),
        )

    @cached_property
    def totals(self) -> Whole:
        """How many verdicts each rater gave, over all units."""
        found = np.zeros(len(self.raters), dtype=np.int64)
        np.add.at(found, self.verdicts[:, 1], self.verdicts[:, 4] * self.n[self.verdicts[:, 0]])
        return found

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values: units are counted, items never named."""
        groups: list[list[list[int]]] = [[] for _ in self.n]
        for g, *rest in self.verdicts.tolist():
            groups[g].append(rest)
        return {
            "schema": "order-sketch/1",
            "raters": list(self.raters),
            "systems": list(self.systems),
            "order": self.order,
            "n": self.n.tolist(),
            "size": self.size.tolist(),
            "verdicts": groups,
        }


def _tally(rows: Whole) -> Whole:
    kinds, n = np.unique(rows, axis=0, return_counts=True)
    return np.column_stack([kinds, n]) if len(rows) else np.zeros((0, 5), dtype=np.int64)


def _on_cycles(first: Whole, second: Whole) -> NDArray[np.bool_]:
    """Edges that are left when those with an end of degree one are taken away again and again."""
    left = np.ones(len(first), dtype=bool)
    nodes, place = np.unique(np.concatenate([first, second]), return_inverse=True)
    a, b = place[: len(first)], place[len(first) :]
    while True:
        degree = np.bincount(np.concatenate([a[left], b[left]]), minlength=len(nodes))
        stays = left & (degree[a] > 1) & (degree[b] > 1)
        if (stays == left).all():
            return left
        left = stays


def _components(first: Whole, second: Whole, keep: NDArray[np.bool_]) -> tuple[Whole, Whole]:
    """The nodes of the edges that are kept, and the connected part of each."""
    from scipy import sparse
    from scipy.sparse.csgraph import connected_components

    ends = np.concatenate([first[keep], second[keep]])
    node, place = np.unique(ends, return_inverse=True)
    a, b = np.split(place, 2)
    graph = sparse.csr_array((np.ones(len(a)), (a, b)), shape=(len(node), len(node)))
    return node, connected_components(graph, directed=False)[1].astype(np.int64)


def _pairs(names: OrderSketch, edge: Whole, rater: Whole, forward: Any) -> Any:
    """Units of two systems, as a function of which edges are such; the first verdict is 'better'."""
    J = len(names.raters)
    seen = _tally(np.column_stack([edge, rater, np.where(forward, 0, 1)]))

    def grouped(keep: NDArray[np.bool_]) -> dict[str, Whole]:
        some = seen[keep[seen[:, 0]]] if len(seen) else seen
        units, unit = np.unique(some[:, 0], return_inverse=True)
        table = np.zeros((len(units), J, 2), dtype=np.int32)
        table[unit, some[:, 1], some[:, 2]] = some[:, 3]
        # Either system may be called the first: the side on which the first rater that tells them
        # apart says more.
        apart = table[:, :, 0] - table[:, :, 1]
        first = (apart != 0).argmax(axis=1) if J else np.zeros(0, dtype=np.int64)
        turned = apart[np.arange(len(units)), first] < 0
        table[turned] = table[turned][:, :, ::-1]
        flat = np.ascontiguousarray(table.reshape(len(units), 2 * J))
        keys = flat.view(f"V{flat.dtype.itemsize * max(1, 2 * J)}").ravel() if len(units) else flat
        _, at, n = np.unique(keys, return_index=True, return_counts=True)
        kinds = table[at] if len(units) else table
        g, r, side = np.nonzero(kinds)
        rows = np.column_stack([g, r, side, 1 - side, kinds[g, r, side]]).astype(np.int64)
        return {
            "n": n[: len(kinds)].astype(np.int64),
            "size": np.full(len(kinds), 2, dtype=np.int64),
            "verdicts": rows.reshape(-1, 5),
        }

    return grouped


def needs_of(sketch: OrderSketch, spec: Spec) -> list[Need]:
    """The claims as whole numbers, raters inside; a rater without a verdict keeps every claim."""
    found = []
    for s in spec.statements:
        kind = getattr(s, "kind", "linear")
        rule = "must be about agreement where preferences are given, such as 'agreement > 0.7'"
        require(kind == "agreement", f"spec {rule}; got '{s}'.")
        of = getattr(s, "of", None)
        known = of is None or of in sketch.raters
        require(known, f"spec must name raters among {list(sketch.raters)}; got {of!r}.")
        places = range(len(sketch.raters)) if of is None else [sketch.raters.index(of)]
        for r in places:
            n, above = int(sketch.totals[r]), getattr(s, "above", 0)
            least = math.floor(above * n) + 1 if getattr(s, "strict", 1) else math.ceil(above * n)
            found.append(Need(r, 1, least if n else 0))
    return found


class OrderLeaf(NamedTuple):
    """Weights of needs and of cycles (group, a, b, c) that prove a case impossible."""

    weights: list[tuple[int, int]]
    cycles: list[tuple[int, int, int, int, int]]


class Relaxed(NamedTuple):
    """The linear program: solved, or not in time; the numbers x; a proof, or orders, if found."""

    solved: bool
    x: Array
    value: float
    leaf: OrderLeaf | None = None
    orders: Whole | None = None


class OrderProgram:
    """A sketch with needs: everything that the search asks of it."""

    def __init__(self, sketch: OrderSketch, needs: Sequence[Need]) -> None:
        from scipy import sparse

        self.sketch, self.needs = sketch, list(needs)
        size = sketch.size
        pairs = size * (size - 1) // 2
        self.offset = np.concatenate([[0], np.cumsum(pairs)])
        self.group = np.repeat(np.arange(len(size)), pairs)
        self.n = sketch.n[self.group]
        g, r, a, b, number = sketch.verdicts.T
        place = self.place(g, np.minimum(a, b), np.maximum(a, b))
        shape = (len(sketch.raters), len(self.n))
        self.change = sparse.csr_array((np.where(a < b, number, -number), (r, place)), shape=shape)
        self.seen = np.zeros(len(self.n), dtype=bool)
        self.seen[place] = True
        self.base = np.zeros(shape[0], dtype=np.int64)
        np.add.at(self.base, r, np.where(a < b, 0, number) * sketch.n[g])
        self.places = np.array([need.rater for need in self.needs], dtype=np.int64)
        self.signs = np.array([need.sign for need in self.needs], dtype=np.int64)
        self.at_least = np.array([need.at_least for need in self.needs], dtype=np.int64)
        self.rows = self.change[self.places].multiply(self.signs[:, None]).tocsr()
        self.sizes = {int(s): np.flatnonzero(size == s) for s in np.unique(size) if s > 2}

    def place(self, g: Any, a: Any, b: Any) -> Any:
        """Where x_{g,ab} is, for a < b."""
        m = self.sketch.size[g]
        return self.offset[g] + a * m - a * (a + 1) // 2 + b - a - 1

    def pair(self, place: int) -> tuple[int, int, int]:
        """Group, a and b of a place."""
        g = int(self.group[place])
        left, m, a = int(place - self.offset[g]), int(self.sketch.size[g]), 0
        while left >= m - a - 1:
            left, a = left - (m - a - 1), a + 1
        return g, a, a + 1 + left

    def agreeing(self, x: Whole) -> Whole:
        """How many verdicts of each rater agree."""
        return np.asarray(self.base + self.change @ x)

    def keeps(self, x: Whole) -> bool:
        """Whether these orders keep every need."""
        return bool((self.signs * self.agreeing(x)[self.places] >= self.at_least).all())

    def relax(self, branches: Sequence[Branch], cuts: Cut, deadline: float) -> tuple[Relaxed, Cut]:
        """The linear program of a case, with cuts for the cycles that its solutions have."""
        low, high = np.zeros(len(self.n), dtype=np.int64), self.n.copy()
        for place, at, below in branches:
            if below:
                high[place] = min(high[place], at)
            else:
                low[place] = max(low[place], at + 1)
        if (low > high).any():
            return Relaxed(solved=True, x=np.zeros(0), value=-np.inf, leaf=OrderLeaf([], [])), cuts
        while True:
            found, w, y = self._solve(low, high, cuts, deadline)
            if found.solved and found.value < 0:
                return found._replace(leaf=self._leaf(w, y, cuts, low, high)), cuts
            if not found.solved:
                return found, cuts
            more = self._violated(found.x)
            last = not len(more.ab) or time.monotonic() > deadline
            x = self.rounded(found.x)
            if last and not self.keeps(x):
                x = self.repaired(x, deadline)
            if self.keeps(x):
                return found._replace(orders=x), cuts
            if last:
                return found, cuts
            cuts = cuts.join(more)

    def largest(self, wanted: Need, deadline: float) -> int | None:
        """A bound on sign·A of a rater, subject to the needs, from the linear program."""
        cuts, low = Cut.none(), np.zeros(len(self.n), dtype=np.int64)
        while True:
            found, _, _ = self._solve(low, self.n, cuts, deadline, wanted)
            if not found.solved:
                return None
            more = self._violated(found.x)
            if not len(more.ab) or time.monotonic() > deadline:
                return math.floor(found.value + _NEAR)
            cuts = cuts.join(more)

    def _solve(
        self, low: Whole, high: Whole, cuts: Cut, deadline: float, wanted: Need | None = None
    ) -> tuple[Relaxed, Array, Array]:
        """The largest t such that needs hold up to -t: a negative optimum proves the case impossible. Or the
        largest number of verdicts that are ``wanted``, with t = 0.
        """
        from scipy import optimize, sparse

        m, free = len(self.needs), len(self.n)
        scale = np.maximum(1.0, self.sketch.totals[self.places])
        hstack: Any = sparse.hstack
        top = hstack([-self.rows.multiply(1 / scale[:, None]), np.ones((m, 1))])
        limit = (self.signs * self.base[self.places] - self.at_least) / scale
        side = np.where(cuts.upper, 1.0, -1.0)
        k = np.arange(len(side))
        at = (np.tile(k, 3), np.concatenate(cuts[:3]))
        triangles = sparse.csr_array((np.concatenate([side, side, -side]), at), (len(side), free))
        below = sparse.hstack([triangles, sparse.csr_array((len(side), 1))])
        room = np.where(cuts.upper, self.n[cuts.ab], 0)
        seconds = deadline - time.monotonic()
        if seconds <= 0:
            return Relaxed(solved=False, x=np.zeros(0), value=np.nan), np.zeros(m), np.zeros(len(k))
        linprog: Any = optimize.linprog  # takes sparse matrices too
        cost, most = np.r_[np.zeros(free), -1.0], 4.0
        if wanted is not None:
            cost[:-1] -= wanted.sign * self.change[[wanted.rater]].toarray()[0]
            most = 0.0
        found = linprog(
            cost,
            A_ub=sparse.vstack([top, below]).tocsr(),
            b_ub=np.r_[limit, room],
            bounds=np.column_stack([np.r_[low, -most], np.r_[high, most]]),
            method="highs",
            options={"time_limit": max(0.01, seconds)},
        )
        if found.status != 0:
            return Relaxed(solved=False, x=np.zeros(0), value=np.nan), np.zeros(m), np.zeros(len(k))
        dual = np.maximum(-found.ineqlin.marginals, 0.0)
        value = float(found.x[-1])
        if wanted is not None:
            value = wanted.sign * float(self.base[wanted.rater]) - float(found.fun)
        solved = Relaxed(solved=True, x=found.x[:-1], value=value)
        return solved, dual[:m] / scale, dual[m:]

    def _leaf(self, w: Array, y: Array, cuts: Cut, low: Whole, high: Whole) -> OrderLeaf | None:
        """Whole weights near these that prove the case impossible, checked exactly."""
        largest = max(float(w.max(initial=0.0)), float(y.max(initial=0.0)))
        smallest = float(w[w > 1e-12].min(initial=largest))
        for scale in _SCALES:
            whole_w = np.rint(w * (scale / smallest)).astype(object)
            whole_y = np.rint(y * (scale / smallest)).astype(object)
            used = np.flatnonzero(whole_w)
            if not len(used):
                continue
            if self._bound(whole_w, whole_y, cuts, low, high) < 0:
                weights = [(int(k), int(whole_w[k])) for k in used]
                cycles = [
                    self._cycle(cuts, int(k), int(whole_y[k])) for k in np.flatnonzero(whole_y)
                ]
                return OrderLeaf(weights, cycles)
        return None

    def _bound(self, w: Any, y: Any, cuts: Cut, low: Whole, high: Whole) -> int:
        """The largest weighted sum of what the needs have to spare, in Python's whole numbers."""
        change = np.zeros(len(self.n), dtype=object)
        base = 0
        for k in np.flatnonzero(w):
            row = self.rows[[k]]
            change[row.indices] += w[k] * row.data.astype(object)
            rater, sign, at_least = self.needs[k]
            base += w[k] * (sign * int(self.base[rater]) - at_least)
        for k in np.flatnonzero(y):
            ab, bc, ac = (int(part[k]) for part in cuts[:3])
            side = int(y[k]) if cuts.upper[k] else -int(y[k])
            change[ab] -= side
            change[bc] -= side
            change[ac] += side
            base += int(y[k]) * int(self.n[ab]) if cuts.upper[k] else 0
        best = np.where(change > 0, change * high.astype(object), change * low.astype(object))
        return int(best.sum()) + base

    def _cycle(self, cuts: Cut, k: int, weight: int) -> tuple[int, int, int, int, int]:
        g, a, b = self.pair(int(cuts.ab[k]))
        c = self.pair(int(cuts.ac[k]))[2]
        return (g, a, b, c, weight) if cuts.upper[k] else (g, a, c, b, weight)

    def _violated(self, x: Array) -> Cut:
        """The 3-cycle inequalities that x breaks most."""
        found = Cut.none()
        worst = np.zeros(0)
        for size, groups in self.sizes.items():
            triples = np.array(list(itertools.combinations(range(size), 3)))
            for part in np.array_split(groups, max(1, len(groups) * len(triples) // _CHUNK)):
                g = part[:, None]
                a, b, c = triples.T
                ab, bc, ac = (self.place(g, *two).ravel() for two in ((a, b), (b, c), (a, c)))
                sums = x[ab] + x[bc] - x[ac]
                excess = np.maximum(sums - self.n[ab], -sums)
                bad = np.flatnonzero(excess > _NEAR)
                upper = sums[bad] > 0
                found = found.join(Cut(ab[bad], bc[bad], ac[bad], upper))
                worst = np.concatenate([worst, excess[bad]])
        most = max(_MOST_CUTS, 4 * len(self.sketch.n))
        if len(worst) > most:
            found = found.of(np.argpartition(-worst, most)[:most])
        return found

    def rounded(self, x: Array) -> Whole:
        """Orders near x: units of two by the nearest number; others by the pairs seen, each as x
        says, where these are no cycle, else by how much each system is above the others.
        """
        whole = np.rint(x).astype(np.int64)
        for size, groups in self.sizes.items():
            pairs = list(itertools.combinations(range(size), 2))
            a, b = np.array(pairs).T
            at = self.place(groups[:, None], a, b)
            gain = np.where(self.seen[at], x[at] - 0.5, 0.0)
            points, depth = np.zeros((2, len(groups), size))
            for k, (i, j) in enumerate(pairs):
                points[:, i] += gain[:, k]
                points[:, j] -= gain[:, k]
            for _ in range(size):  # how many systems there are below, one above the other
                before = depth.copy()
                for k, (i, j) in enumerate(pairs):
                    over, under = depth[:, j] + (gain[:, k] > 0), depth[:, i] + (gain[:, k] < 0)
                    np.maximum(depth[:, i], over, out=depth[:, i], where=gain[:, k] > 0)
                    np.maximum(depth[:, j], under, out=depth[:, j], where=gain[:, k] < 0)
                if (depth == before).all():
                    break
            cyclic = (depth != before).any(axis=1)
            depth[cyclic] = points[cyclic]
            rank = np.empty_like(depth)
            best = np.argsort(-depth, axis=1, kind="stable")
            np.put_along_axis(rank, best, np.arange(size)[None, :], axis=1)
            whole[at] = rank[:, a] < rank[:, b]
        return whole

    def repaired(self, x: Whole, deadline: float, most: int = 200) -> Whole:
        """Units turned one by one while what the needs lack in all shrinks; systems of larger
        units move past their neighbours.
        """
        change = self.rows.toarray() if self.rows.shape[0] * self.rows.shape[1] < 10**7 else None
        if change is None:
            return x
        two = self.sketch.size[self.group] == 2
        lack = self.at_least - self.signs * self.agreeing(x)[self.places]
        for _ in range(most):
            if (lack <= 0).all() or time.monotonic() > deadline:
                break
            best, move = float(np.maximum(lack, 0).sum()), None
            for step in (1, -1):
                can = two & (x + step >= 0) & (x + step <= self.n)
                at = np.flatnonzero(can | (~two & self._adjacent(x) & (x == (step < 0))))
                if len(at):
                    total = np.maximum(lack[:, None] - step * change[:, at], 0).sum(axis=0)
                    k = int(total.argmin())
                    if total[k] < best:
                        best, move = float(total[k]), (int(at[k]), step)
            if move is None:
                break
            x = x.copy()
            x[move[0]] += move[1]
            lack = lack - move[1] * change[:, move[0]]
        return x

    def _adjacent(self, x: Whole) -> NDArray[np.bool_]:
        """Places of larger units whose two systems are neighbours in the order x."""
        found = np.zeros(len(x), dtype=bool)
        for size, groups in self.sizes.items():
            a, b = np.array(list(itertools.combinations(range(size), 2))).T
            at = self.place(groups[:, None], a, b)
            wins = np.zeros((len(groups), size), dtype=np.int64)
            for k, (i, j) in enumerate(zip(a.tolist(), b.tolist(), strict=True)):
                wins[:, i] += x[at[:, k]]
                wins[:, j] += 1 - x[at[:, k]]
            found[at] = np.abs(wins[:, a] - wins[:, b]) == 1
        return found

    def integral(self, cuts: Cut, deadline: float) -> tuple[str, Whole | None, Cut]:
        """HiGHS on whole numbers: ``solved`` with orders, ``infeasible`` (no proof), or ``limit``."""
        from scipy import optimize, sparse

        while (seconds := deadline - time.monotonic()) > 0:
            side = np.ones(len(cuts.ab))
            at = (np.tile(np.arange(len(side)), 3), np.concatenate(cuts[:3]))
            sums = sparse.csr_array(
                (np.concatenate([side, side, -side]), at), (len(side), len(self.n))
            )
            limit = self.at_least - self.signs * self.base[self.places]
            constraints = [optimize.LinearConstraint(self.rows.astype(float), limit, np.inf)]
            if len(side):
                constraints.append(optimize.LinearConstraint(sums, 0, self.n[cuts.ab]))
            found = optimize.milp(
                np.zeros(len(self.n)),
                integrality=np.ones(len(self.n), dtype=np.int64),
                bounds=optimize.Bounds(np.zeros(len(self.n)), self.n),
                constraints=constraints,
                options={"time_limit": max(0.01, seconds)},
            )
            if found.x is None:
                return ("infeasible" if found.status == 2 else "limit"), None, cuts
            x = np.rint(found.x).astype(np.int64)
            more = self._violated(x.astype(float))
            if not len(more.ab):
                return ("solved" if self.keeps(x) else "limit"), x, cuts
            cuts = cuts.join(more)
        return "limit", None, cuts

    def rankings(self, x: Whole) -> list[list[tuple[Ranking, int]]]:
        """The orders of each group, best system first, and how many units have each."""
        found: list[list[tuple[Ranking, int]]] = []
        for g, (size, n) in enumerate(
            zip(self.sketch.size.tolist(), self.sketch.n.tolist(), strict=True)
        ):
            at = int(self.offset[g])
            if size == 2:
                parts = (((0, 1), int(x[at])), ((1, 0), n - int(x[at])))
                found.append([(ranking, k) for ranking, k in parts if k])
                continue
            wins = [0] * size
            for k, (a, b) in enumerate(itertools.combinations(range(size), 2)):
                wins[a if x[at + k] else b] += 1
            found.append([(tuple(sorted(range(size), key=lambda i: -wins[i])), n)])
        return found
