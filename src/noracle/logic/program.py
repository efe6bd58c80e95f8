"""The integer program behind an alarm: unknown counts, and rows that claims make of them.

Unknown are n_{g,l} ≥ 0, the items of group g with true label l, with Σ_l n_{g,l} = n_g. A row is
Σ c_{g,l} n_{g,l} ≥ b. Almost all terms look at one classifier only, so that rows live in tables
indexed by (classifier, answer, label).
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from noracle.counts.ratings import check_scores
from noracle.counts.sketch import Sketch
from noracle.errors import ArgumentError, require
from noracle.logic.spec import ANY_ANSWER, EACH, Linear, Spec

if TYPE_CHECKING:
    from scipy import sparse

ANY = -2
"""As an answer: the classifier answered."""
_BLOCK = 1 << 15
_LARGEST = 2**62
_PACE = 4.0
_LATE = -5.0
_LEAST = 60.0
_SCALES = (1, 12, 1_000, 100_000, 10_000_000, 1_000_000_000)

Array = NDArray[np.float64]
Whole = NDArray[np.int64]
Places = NDArray[np.intp]
Flags = NDArray[np.bool_]


class Piece(NamedTuple):
    """Coefficient × the items with these answers (classifier, code) and this label (None: any)."""

    coefficient: int
    answers: tuple[tuple[int, int], ...]
    label: int | None
    group: int | None = None

    @property
    def is_single(self) -> bool:
        """Whether it looks at one classifier."""
        return len(self.answers) == 1 and self.group is None


class Row(NamedTuple):
    """Σ pieces ≥ at_least; void if classifier unless[0] answered no item of label unless[1]."""

    pieces: tuple[Piece, ...]
    at_least: int
    unless: tuple[int, int] | None = None


def rows_of(
    sketch: Sketch, spec: Spec, prevalence: Mapping[str, tuple[int, int]] | None = None
) -> tuple[Row, ...]:
    """Rows of the statements (classifiers outside, labels inside), then of the prevalences."""
    rows: list[Row] = []
    answered = sketch.uses.sum(axis=1).tolist()
    for s in spec.statements:
        if isinstance(s, Linear):
            rows.append(_linear(sketch, s))
            continue
        p, q = s.above.as_integer_ratio()
        for i in _places(sketch, "classifiers", s.of):
            if s.kind == "agreement":
                remedy = "Pass preferences, or claim an accuracy or a grade."
                raise ArgumentError(f"spec must be about answers; got '{s}'. {remedy}")
            if s.at is not None:
                n, R = answered[i], len(sketch.labels)
                least = math.floor(s.above * n) + 1 if s.strict else math.ceil(s.above * n)
                for t in thresholds_of(sketch.labels, s.at):
                    same = ((a, r) for a in range(R) for r in range(R) if (a >= t) == (r >= t))
                    pieces = tuple(Piece(1, ((i, a),), r) for a, r in same)
                    rows.append(Row(pieces, min(n, least)))
                continue
            places = _places(sketch, "labels", s.on)
            right = [Piece(q if s.kind == "accuracy" else 1, ((i, r),), r) for r in places]
            if s.kind == "accuracy":
                rows += [
                    Row((piece, Piece(-p, ((i, ANY),), r)), int(s.strict), (i, r))
                    for piece, r in zip(right, places, strict=True)
                ]
            else:  # the answered items are known, so the least number of right answers is
                n = answered[i]
                least = math.floor(s.above * n) + 1 if s.strict else math.ceil(s.above * n)
                rows.append(Row(tuple(right), min(n, least)))
    for label, (low, high) in (prevalence or {}).items():
        place = sketch.labels.index(label)
        rows += [Row((Piece(1, (), place),), low), Row((Piece(-1, (), place),), -high)]
    return tuple(rows)


def thresholds_of(labels: Sequence[str], at: str) -> range:
    """Places of the labels at which scores are cut; labels that are numbers must ascend."""
    check_scores(labels)
    if at == EACH:
        return range(1, len(labels))
    rule = f"must be a threshold among {list(labels[1:])} or 'each'"
    require(at in labels[1:], f"spec: at {rule}; got {at!r}.")
    return range(place := labels.index(at), place + 1)


def _linear(sketch: Sketch, s: Linear) -> Row:
    codes = {None: -1, ANY_ANSWER: ANY}

    def code(answer: str | None) -> int:
        return codes[answer] if answer in codes else _places(sketch, "labels", answer)[0]

    def piece(c: int, answers: Iterable[tuple[str, str | None]], label: str | None) -> Piece:
        said = tuple((_places(sketch, "classifiers", name)[0], code(a)) for name, a in answers)
        return Piece(c, said, None if label is None else _places(sketch, "labels", label)[0])

    return Row(tuple(piece(*term) for term in s.terms), s.at_least)


def _places(sketch: Sketch, what: str, name: str | None) -> list[int]:
    names: tuple[str, ...] = getattr(sketch, what)
    if name is None:
        return list(range(len(names)))
    if name not in names:
        raise ArgumentError(f"spec must name {what} among {list(names)}; got {name!r}.")
    return [names.index(name)]


@dataclasses.dataclass(frozen=True)
class IntegerProgram:
    """A sketch with rows; everything that solvers and heuristics need of them."""

    sketch: Sketch
    rows: tuple[Row, ...]

    @property
    def R(self) -> int:  # noqa: N802
        """Number of labels."""
        return len(self.sketch.labels)

    @cached_property
    def at_least(self) -> Whole:
        """The right sides b of the rows."""
        return np.array([r.at_least for r in self.rows], dtype=np.int64)

    @cached_property
    def conditional(self) -> Flags:
        """Rows that are void where a classifier answered no item of a label."""
        return np.array([r.unless is not None for r in self.rows], dtype=bool)

    @cached_property
    def claims(self) -> Flags:
        """Rows that are claims, not prevalences or cases."""
        found = [r.unless is not None or len(r.pieces) > 1 for r in self.rows]
        return np.array(found, dtype=bool)

    @cached_property
    def scale(self) -> Array:
        """The largest coefficient of each row, at least 1."""
        largest = [max(1, *(abs(p.coefficient) for p in r.pieces)) for r in self.rows]
        return np.array(largest, dtype=np.float64)

    @cached_property
    def sizes(self) -> list[int]:
        """The sum of the absolute coefficients of each row."""
        return [sum(abs(p.coefficient) for p in r.pieces) for r in self.rows]

    @cached_property
    def codes(self) -> Places:
        """Answers plus one (0 is no answer), one row per classifier."""
        return np.ascontiguousarray(self.sketch.patterns.T.astype(np.intp) + 1)

    @cached_property
    def unless(self) -> tuple[Places, Places, Places]:
        """The conditional rows with their classifiers and labels."""
        found = [(k, *r.unless) for k, r in enumerate(self.rows) if r.unless is not None]
        k, i, r = np.array(found, dtype=np.intp).reshape(-1, 3).T
        return k, i, r

    @cached_property
    def _single(self) -> tuple[Whole, Whole, Whole, Whole, Whole]:
        """Pieces about one classifier: row, coefficient, classifier, answer (code plus one), label."""
        lines: list[tuple[int, int, int, int, int]] = []
        for k, row in enumerate(self.rows):
            for piece in row.pieces:
                if piece.is_single:
                    ((i, code),) = piece.answers
                    codes = range(1, self.R + 1) if code == ANY else [code + 1]
                    labels = range(self.R) if piece.label is None else [piece.label]
                    lines += [(k, piece.coefficient, i, a, r) for a in codes for r in labels]
        table = np.array(lines, dtype=np.int64).reshape(-1, 5)
        return table[:, 0], table[:, 1], table[:, 2], table[:, 3], table[:, 4]

    @cached_property
    def _others(self) -> list[tuple[int, Piece, Places]]:
        """Pieces about no classifier, several, or one group; with the groups that they count."""
        pieces = ((k, piece) for k, row in enumerate(self.rows) for piece in row.pieces)
        return [(k, piece, self.groups_of(piece)) for k, piece in pieces if not piece.is_single]

    def groups_of(self, piece: Piece) -> Places:
        """The groups whose items a piece counts."""
        if piece.group is not None:
            return np.array([piece.group], dtype=np.intp)
        match = np.ones(self.sketch.n_groups, dtype=bool)
        for i, code in piece.answers:
            column = self.sketch.patterns[:, i]
            match &= column >= 0 if code == ANY else column == code
        return np.flatnonzero(match)

    def scores(self, weights: NDArray[Any]) -> NDArray[Any]:
        """Σ_k weight_k c_k(g, l): what one item of group g adds if its label is l."""
        row, coefficient, *at = self._single
        kind = weights.dtype
        table = np.zeros((len(self.codes), self.R + 1, self.R), dtype=kind)
        np.add.at(table, tuple(at), weights[row] * coefficient.astype(kind))
        found = np.zeros((self.sketch.n_groups, self.R), dtype=kind)
        for start in range(0, len(found), _BLOCK):
            block = found[start : start + _BLOCK]
            for i, column in enumerate(self.codes[:, start : start + _BLOCK]):
                block += table[i].take(column, axis=0)
        for k, piece, members in self._others:
            if weights[k]:
                groups = slice(None) if len(members) == len(found) else members
                labels = slice(None) if piece.label is None else piece.label
                found[groups, labels] += weights[k] * piece.coefficient
        return found

    def values(self, given: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Σ c n of every row for counts n_{g,l}, and the items of each label each one answered."""
        seen = np.empty((len(self.codes), self.R + 1, self.R))
        for i, column in enumerate(self.codes):
            for r in range(self.R):
                seen[i, :, r] = np.bincount(column, weights=given[:, r], minlength=self.R + 1)

        def counted(piece: Piece, members: Places) -> Any:
            inside = given[members]
            return inside.sum() if piece.label is None else inside[:, piece.label].sum()

        return self._values(seen, given.dtype, counted)

    def values_of_labels(self, labels: Places) -> tuple[Whole, Whole]:
        """The same where all items of a group have one label."""
        n, size = self.sketch.n, (self.R + 1) * self.R
        seen = [np.bincount(c * self.R + labels, weights=n, minlength=size) for c in self.codes]

        def counted(piece: Piece, members: Places) -> int:
            inside = members if piece.label is None else members[labels[members] == piece.label]
            return int(n[inside].sum())

        table = np.array(seen, dtype=np.float64).reshape(-1, self.R + 1, self.R)
        return self._values(table, np.dtype(np.int64), counted)

    def _values(
        self, seen: Array, kind: np.dtype[Any], counted: Callable[[Piece, Places], Any]
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        # Sums of whole numbers below 2^53 are exact in floats.
        table: NDArray[Any] = seen if kind.kind == "f" else np.rint(seen).astype(kind)
        row, coefficient, *at = self._single
        values = np.zeros(len(self.rows), dtype=kind)
        np.add.at(values, row, coefficient.astype(kind) * table[tuple(at)])
        for k, piece, members in self._others:
            values[k] += piece.coefficient * counted(piece, members)
        return values, table[:, 1:].sum(axis=1)

    def columns(self, groups: Places) -> tuple[Whole, Whole]:
        """Coefficients c_k(g, l) for some groups, and which conditions such an item meets."""
        row, coefficient, classifier, answer, label = self._single
        found = np.zeros((len(groups), self.R, len(self.rows)), dtype=np.int64)
        line, place = np.nonzero(self.codes[classifier][:, groups] == answer[:, None])
        np.add.at(found, (place, label[line], row[line]), coefficient[line])
        for k, piece, members in self._others:
            inside = np.flatnonzero(np.isin(groups, members))
            labels = slice(None) if piece.label is None else piece.label
            found[inside, labels, k] += piece.coefficient
        _, i, r = self.unless
        answered = self.codes[i][:, groups].T > 0
        present = answered[:, None, :] & (np.arange(self.R)[:, None] == r)[None]
        return found, present.astype(np.int64)

    @cached_property
    def matrix(self) -> sparse.csc_array:
        """All rows over all cells, sparse; cell (g, l) is column g·R + l."""
        from scipy import sparse

        members: dict[Any, Places] = {}
        parts: list[tuple[int, int, Places]] = []
        for k, row in enumerate(self.rows):
            for piece in row.pieces:
                key = (piece.answers, piece.group)
                if key not in members:
                    members[key] = self.groups_of(piece)
                labels = range(self.R) if piece.label is None else [piece.label]
                parts += [(k, piece.coefficient, members[key] * self.R + r) for r in labels]
        sizes = [len(cells) for _, _, cells in parts]
        pairs = np.array([p[:2] for p in parts], dtype=np.intp).reshape(-1, 2)
        rows, data = np.repeat(pairs, sizes, axis=0).T
        columns = np.concatenate([np.zeros(0, dtype=np.intp), *(cells for _, _, cells in parts)])
        shape = (len(self.rows), self.sketch.n_groups * self.R)
        return sparse.coo_array((data.astype(np.float64), (rows, columns)), shape=shape).tocsc()

    def short(self, values: NDArray[Any], answered: NDArray[Any]) -> NDArray[Any]:
        """By how much each row misses its right side; 0 where it holds or is void."""
        k, i, r = self.unless
        short: NDArray[Any] = np.maximum(self.at_least - values, 0)
        short[k[answered[i, r] <= 0]] = 0
        return short

    def is_satisfied(self, given: Whole) -> bool:
        """Whether counts n_{g,l} keep every rule."""
        fits = (given >= 0).all() and (given.sum(axis=1) == self.sketch.n).all()
        fits = bool(fits) and not given[~self.sketch.allowed].any()
        return fits and not self.short(*self.values(given)).any()

    def with_rows(self, *more: Row) -> IntegerProgram:
        """The same program with further rows at the end."""
        return IntegerProgram(self.sketch, (*self.rows, *more)) if more else self


class Leaf(NamedTuple):
    """Weights by row, the group that brings further rows into force (or None), D(w) and B(w)."""

    weights: Whole
    group: int | None
    largest: int = 0
    needed: int = 0


class Split(NamedTuple):
    """A case: the count ``form`` is at most ``at`` (``below``) or at least ``at`` + 1.

    ``form`` is ("prevalence", label), ("answered", classifier, label), ("correct", classifier,
    label) or ("cell", group, label).
    """

    form: tuple[Any, ...]
    at: int
    below: bool

    @property
    def piece(self) -> Piece:
        """What is counted."""
        kind, *places = self.form
        if kind == "prevalence":
            return Piece(1, (), places[0])
        if kind == "cell":
            return Piece(1, (), places[1], places[0])
        return Piece(1, ((places[0], ANY if kind == "answered" else places[1]),), places[1])

    @property
    def row(self) -> Row:
        """The case as a row."""
        if self.below:
            return Row((self.piece._replace(coefficient=-1),), -self.at)
        return Row((self.piece,), self.at + 1)


@dataclasses.dataclass(frozen=True)
class Case:
    """A program in a case: what the splits so far add to it."""

    base: IntegerProgram
    splits: tuple[Split, ...] = ()

    @cached_property
    def program(self) -> IntegerProgram:
        """The program with the splits as rows at the end."""
        return self.base.with_rows(*(s.row for s in self.splits))

    @cached_property
    def allowed(self) -> Flags:
        """The labels that each group can have; a count that is at most 0 forbids what it counts."""
        allowed = self.base.sketch.allowed
        for s in self.splits:
            if s.below and s.at == 0:
                allowed = allowed.copy()
                allowed[self.base.groups_of(s.piece), s.piece.label] = False
        return allowed

    @cached_property
    def in_force(self) -> Flags:
        """Rows that surely count: unconditional, or surely answered on that label."""
        sketch, program = self.base.sketch, self.program
        low = np.zeros(program.R, dtype=np.int64)
        for row in program.rows:
            label = row.pieces[0].label
            if label is not None and row.pieces == (Piece(1, (), label),) and not row.unless:
                low[label] = max(low[label], row.at_least)
        answered = sketch.patterns >= 0
        gaps = np.flatnonzero(~answered.all(axis=1))
        unanswered = (sketch.n[gaps, None] * ~answered[gaps]).T @ self.allowed[gaps]
        known = np.flatnonzero(self.allowed.sum(axis=1) == 1)
        sure = (answered[known].T.astype(np.int64) @ self.allowed[known]) > 0
        sure |= low[None, :] > unanswered
        for s in self.splits:
            if s.form[0] == "answered" and not s.below:
                sure[s.form[1], s.form[2]] = True
        found = ~program.conditional
        k, i, r = program.unless
        found[k] = sure[i, r]
        return found

    @cached_property
    def low(self) -> Array:
        """The right sides where a row that may be void need only hold if it is: 0 at most."""
        low = self.program.at_least.astype(np.float64)
        return np.where(self.in_force, low, np.minimum(0.0, low))

    def weighed(self, weights: Whole) -> Leaf | None:
        """D(w) and B(w) in whole numbers; None if they could leave 64 bits."""
        program, n = self.program, self.base.sketch.n
        terms = zip(weights.tolist(), program.sizes, program.rows, strict=True)
        bound = sum(int(w) * (size + abs(r.at_least)) for w, size, r in terms)
        if bound * (int(n.sum()) + 1) >= _LARGEST:
            return None
        scores = program.scores(weights)
        largest = int((n * np.where(self.allowed, scores, -_LARGEST).max(axis=1)).sum())
        needed = int((weights * program.at_least)[self.in_force].sum())
        if needed > largest:
            return Leaf(weights, None, largest, needed)
        extra, group = self._extra(weights)
        return Leaf(weights, group if extra else None, largest, needed + extra)

    def _extra(self, weights: Whole) -> tuple[int, int]:
        """The max over groups of the min over allowed labels of what one item brings into force."""
        program = self.program
        k, i, r = (a[~self.in_force[program.unless[0]]] for a in program.unless)
        gains = np.zeros((len(self.base.sketch.classifiers), program.R), dtype=np.int64)
        np.add.at(gains, (i, r), (weights * program.at_least)[k])
        if not gains.any():
            return 0, 0
        answered = self.base.sketch.patterns >= 0
        if answered.all() and self.allowed.all():
            return int(gains.sum(axis=0).min()), 0  # the same for every group
        least = np.where(self.allowed, answered.astype(np.int64) @ gains, _LARGEST).min(axis=1)
        group = int(least.argmax())
        return int(least[group]), group

    def leaf(self, weights: NDArray[Any]) -> Leaf | None:
        """Whole weights near ``weights`` that prove the case impossible, or None."""
        if not self.allowed.any(axis=1).all():
            return Leaf(np.zeros(len(self.program.rows), dtype=np.int64), None)
        weights = np.maximum(weights, 0)
        top = weights.max(initial=0.0)
        if not top > 0:
            return None
        small = weights[weights > top * 1e-6].min()
        for scale in (top / small, *_SCALES):
            leaf = self.weighed(np.rint(weights * (scale / top)).astype(np.int64))
            if leaf is not None and leaf.largest < leaf.needed:
                return leaf
        return None


def dual_steps(
    case: Case, *, steps: int, deadline: float
) -> tuple[Places | None, Leaf | None, int]:
    """Multiplicative steps on D(w) - B(w): weight moves to the rows that fall short of what they
    should be. Returns one label per group that keeps all rows, or a proof; and the steps taken.

    The first step has equal weights on the claims, so that its assignment is the plurality vote.
    Each step looks at the assignment that attains D(w): it may keep all rows (then nothing is
    wrong), or D(w) may be too small (then it proves the alarm). In the long run the weights find
    the largest slack that all rows can have at once; multiplicative steps do so in far fewer rounds
    than subgradient steps with Polyak's length, because most rows have much slack and leave the
    field quickly.
    """
    program = case.program
    scale = program.scale
    log = np.where(program.claims, 0.0, _LATE)
    whole = case.allowed.all()
    k, i, r = program.unless
    for step in range(1, steps + 1):
        log -= log.max()
        weights = np.exp(log) / scale
        scores = program.scores(weights)
        if not whole:
            scores[~case.allowed] = -np.inf
        labels = scores.argmax(axis=1)
        values, answered = program.values_of_labels(labels)
        if not program.short(values, answered).any():
            return labels, None, step
        slack = values - program.at_least
        slack[k[answered[i, r] == 0]] = 0
        if float(weights @ slack) < 0:
            leaf = case.leaf(weights)
            if leaf is not None:
                return None, leaf, step
        if time.monotonic() > deadline:
            break
        parts = slack / scale
        log = np.maximum(log - _PACE / np.sqrt(step) * parts / np.abs(parts).max(), -_LEAST)
    return None, None, step
