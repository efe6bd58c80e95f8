"""The integer program behind an alarm: unknown counts, and the rows that a specification makes of
them.

Unknown are n_{g,l} ≥ 0, the items of group g with true label l: Σ_l n_{g,l} = n_g, and n_{g,l} = 0
where l is not allowed. A row is Σ c_{g,l} n_{g,l} ≥ b in whole numbers. Almost all terms of a row
look at one classifier only, so that rows need not be written out over the groups: they live in
tables indexed by (classifier, answer, label).
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from noracle.counts.sketch import Sketch
from noracle.errors import ArgumentError
from noracle.logic.spec import ANY_ANSWER, Linear, Spec, Statement

if TYPE_CHECKING:
    from scipy import sparse

ANY = -2
"""As an answer: the classifier answered."""
_BLOCK = 1 << 15

Array = NDArray[np.float64]
Whole = NDArray[np.int64]


class Piece(NamedTuple):
    """Coefficient times the number of items with these answers (place of classifier, code) and this
    label (None: any).
    """

    coefficient: int
    answers: tuple[tuple[int, int], ...]
    label: int | None
    group: int | None = None


class Row(NamedTuple):
    """Σ pieces ≥ ``at_least``; if ``unless`` = (classifier, label), only where that classifier
    answered an item of that label.
    """

    pieces: tuple[Piece, ...]
    at_least: int
    unless: tuple[int, int] | None = None


def rows_of(
    sketch: Sketch, spec: Spec, prevalence: Mapping[str, tuple[int, int]] | None = None
) -> tuple[Row, ...]:
    """The rows of the statements in order (classifiers outside, labels inside), then low and high
    of each prevalence.
    """
    rows: list[Row] = []
    answered = sketch.uses.sum(axis=1).tolist()
    for s in spec.statements:
        if isinstance(s, Linear):
            rows.append(_linear(sketch, s))
        else:
            for i in _places(sketch, "classifiers", s.of):
                rows += (
                    _accuracy(sketch, s, i)
                    if s.kind == "accuracy"
                    else [_grade(sketch, s, i, answered[i])]
                )
    for label, (low, high) in (prevalence or {}).items():
        place = sketch.labels.index(label)
        rows.append(Row((Piece(1, (), place),), low))
        rows.append(Row((Piece(-1, (), place),), -high))
    return tuple(rows)


def _accuracy(sketch: Sketch, s: Statement, i: int) -> list[Row]:
    p, q = s.above.numerator, s.above.denominator
    return [
        Row((Piece(q, ((i, r),), r), Piece(-p, ((i, ANY),), r)), int(s.strict), (i, r))
        for r in _places(sketch, "labels", s.on)
    ]


def _grade(sketch: Sketch, s: Statement, i: int, answered: int) -> Row:
    """Right answers are whole and the answered items are known, so that the least number of right
    answers is known too.
    """
    p, q = s.above.numerator, s.above.denominator
    least = 0 if not answered else p * answered // q + 1 if s.strict else -(-p * answered // q)
    return Row(tuple(Piece(1, ((i, r),), r) for r in range(len(sketch.labels))), least)


def _linear(sketch: Sketch, s: Linear) -> Row:
    pieces = []
    for c, answers, label in s.terms:
        said = []
        for name, answer in answers:
            (i,) = _places(sketch, "classifiers", name)
            code = (
                -1
                if answer is None
                else ANY
                if answer == ANY_ANSWER
                else _places(sketch, "labels", answer)[0]
            )
            said.append((i, code))
        pieces.append(
            Piece(c, tuple(said), None if label is None else _places(sketch, "labels", label)[0])
        )
    return Row(tuple(pieces), s.at_least)


def _places(sketch: Sketch, what: str, name: str | None) -> list[int]:
    names: tuple[str, ...] = getattr(sketch, what)
    if name is None:
        return list(range(len(names)))
    if name not in names:
        raise ArgumentError(f"spec must name {what} among {list(names)}; got {name!r}.")
    return [names.index(name)]


class _Terms(NamedTuple):
    """Pieces about one classifier, one line for each (answer, label) that they count; ``answer`` is
    the code plus one.
    """

    row: NDArray[np.intp]
    coefficient: Whole
    classifier: NDArray[np.intp]
    answer: NDArray[np.intp]
    label: NDArray[np.intp]


@dataclasses.dataclass(frozen=True)
class Program:
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
    def conditional(self) -> NDArray[np.bool_]:
        """Rows that are void where a classifier answered no item of a label."""
        return np.array([r.unless is not None for r in self.rows], dtype=bool)

    @cached_property
    def codes(self) -> NDArray[np.intp]:
        """Answers plus one (0 is no answer), one row a classifier."""
        return np.ascontiguousarray(self.sketch.patterns.T.astype(np.intp) + 1)

    @cached_property
    def unless(self) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
        """The conditional rows with their classifiers and labels."""
        found = [(k, *r.unless) for k, r in enumerate(self.rows) if r.unless is not None]
        k, i, r = (np.array([f[c] for f in found], dtype=np.intp) for c in range(3))
        return k, i, r

    @cached_property
    def _single(self) -> _Terms:
        lines: list[tuple[int, int, int, int, int]] = []
        for k, row in enumerate(self.rows):
            for piece in row.pieces:
                if len(piece.answers) == 1 and piece.group is None:
                    ((i, code),) = piece.answers
                    codes = range(1, self.R + 1) if code == ANY else [code + 1]
                    labels = range(self.R) if piece.label is None else [piece.label]
                    lines += [(k, piece.coefficient, i, a, r) for a in codes for r in labels]
        columns = np.array(lines, dtype=np.int64).reshape(-1, 5).T
        return _Terms(
            columns[0].astype(np.intp), columns[1], *(c.astype(np.intp) for c in columns[2:])
        )

    @cached_property
    def _others(self) -> list[tuple[int, Piece, NDArray[np.intp]]]:
        """Pieces about no classifier, several, or one group; with the groups that they count."""
        pieces = ((k, piece) for k, row in enumerate(self.rows) for piece in row.pieces)
        return [
            (k, piece, self.groups_of(piece))
            for k, piece in pieces
            if len(piece.answers) != 1 or piece.group is not None
        ]

    def groups_of(self, piece: Piece) -> NDArray[np.intp]:
        """The groups whose items a piece counts."""
        if piece.group is not None:
            return np.array([piece.group], dtype=np.intp)
        match = np.ones(self.sketch.n_groups, dtype=bool)
        for i, code in piece.answers:
            column = self.sketch.patterns[:, i]
            match &= column >= 0 if code == ANY else column == code
        return np.flatnonzero(match)

    # ------------------------------------------------------------------------------------------------
    # weights on rows

    def scores(
        self, weights: NDArray[Any], groups: slice | NDArray[np.intp] = slice(None)
    ) -> NDArray[Any]:
        """Σ_k weight_k c_k(g, l): what one item of group g adds if its label is l (groups ×
        labels).
        """
        t, kind = self._single, weights.dtype
        table = np.zeros((len(self.sketch.classifiers), self.R + 1, self.R), dtype=kind)
        np.add.at(
            table, (t.classifier, t.answer, t.label), weights[t.row] * t.coefficient.astype(kind)
        )
        codes = self.codes[:, groups]
        found = np.zeros((codes.shape[1], self.R), dtype=kind)
        for start in range(0, len(found), _BLOCK):
            block = found[start : start + _BLOCK]
            for i, column in enumerate(codes[:, start : start + _BLOCK]):
                block += table[i].take(column, axis=0)
        for k, piece, members in self._others:
            if weights[k]:
                columns = slice(None) if piece.label is None else [piece.label]
                if len(members) == self.sketch.n_groups:
                    found[:, columns] += weights[k] * piece.coefficient
                else:
                    match = np.zeros(self.sketch.n_groups, dtype=bool)
                    match[members] = True
                    found[np.ix_(np.flatnonzero(match[groups]), np.arange(self.R)[columns])] += (
                        weights[k] * piece.coefficient
                    )
        return found

    def values(self, given: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Σ c n of every row for counts n_{g,l} (groups × labels), and how many items of each label
        each classifier answered.
        """
        kind = given.dtype
        seen = np.zeros((len(self.sketch.classifiers), self.R + 1, self.R), dtype=kind)
        for i, column in enumerate(self.codes):
            for r in range(self.R):
                if kind.kind == "f":
                    seen[i, :, r] = np.bincount(column, weights=given[:, r], minlength=self.R + 1)
                else:  # sums of whole numbers below 2^53 are exact in floats
                    seen[i, :, r] = np.rint(
                        np.bincount(column, weights=given[:, r], minlength=self.R + 1)
                    ).astype(kind)
        return self._from_tables(seen, given), seen[:, 1:].sum(axis=1)

    def values_of_labels(
        self, labels: NDArray[np.intp], n: Whole | None = None
    ) -> tuple[Whole, Whole]:
        """The same where all items of a group have one label."""
        n = self.sketch.n if n is None else n
        seen = np.zeros((len(self.sketch.classifiers), (self.R + 1) * self.R), dtype=np.int64)
        for i, column in enumerate(self.codes):
            seen[i] = np.rint(
                np.bincount(column * self.R + labels, weights=n, minlength=seen.shape[1])
            ).astype(np.int64)
        table = seen.reshape(-1, self.R + 1, self.R)
        values = np.zeros(len(self.rows), dtype=np.int64)
        self._add_single(values, table)
        for k, piece, members in self._others:
            inside = members if piece.label is None else members[labels[members] == piece.label]
            values[k] += piece.coefficient * int(n[inside].sum())
        return values, table[:, 1:].sum(axis=1)

    def _from_tables(self, seen: NDArray[Any], given: NDArray[Any]) -> NDArray[Any]:
        values = np.zeros(len(self.rows), dtype=given.dtype)
        self._add_single(values, seen)
        for k, piece, members in self._others:
            columns = slice(None) if piece.label is None else [piece.label]
            values[k] += piece.coefficient * given[members][:, columns].sum()
        return values

    def _add_single(self, values: NDArray[Any], seen: NDArray[Any]) -> None:
        t = self._single
        np.add.at(
            values,
            t.row,
            t.coefficient.astype(values.dtype) * seen[t.classifier, t.answer, t.label],
        )

    def columns(self, groups: NDArray[np.intp]) -> tuple[Whole, Whole]:
        """Coefficients c_k(g, l) for some groups (groups × labels × rows), and whether such an item
        counts for each condition.
        """
        t = self._single
        found = np.zeros((len(groups), self.R, len(self.rows)), dtype=np.int64)
        line, place = np.nonzero(self.codes[t.classifier][:, groups] == t.answer[:, None])
        np.add.at(found, (place, t.label[line], t.row[line]), t.coefficient[line])
        for k, piece, members in self._others:
            inside = np.flatnonzero(np.isin(groups, members))
            found[inside, slice(None) if piece.label is None else piece.label, k] += (
                piece.coefficient
            )
        _, i, r = self.unless
        answered = self.codes[i][:, groups].T > 0
        return found, (answered[:, None, :] & (np.arange(self.R)[:, None] == r)[None]).astype(
            np.int64
        )

    @cached_property
    def matrix(self) -> sparse.csc_array:
        """All rows over all cells, sparse; cell (g, l) is column g·R + l."""
        from scipy import sparse

        members: dict[tuple[int, int], NDArray[np.intp]] = {}
        rows, columns, data = (
            [np.zeros(0, dtype=np.intp)],
            [np.zeros(0, dtype=np.intp)],
            [np.zeros(0)],
        )
        for k, row in enumerate(self.rows):
            for piece in row.pieces:
                key = piece.answers[0] if len(piece.answers) == 1 and piece.group is None else None
                if key is not None and key not in members:
                    members[key] = self.groups_of(piece)
                groups = self.groups_of(piece) if key is None else members[key]
                for label in range(self.R) if piece.label is None else [piece.label]:
                    rows.append(np.full(len(groups), k))
                    columns.append(groups * self.R + label)
                    data.append(np.full(len(groups), float(piece.coefficient)))
        shape = (len(self.rows), self.sketch.n_groups * self.R)
        return sparse.coo_array(
            (np.concatenate(data), (np.concatenate(rows), np.concatenate(columns))), shape=shape
        ).tocsc()

    def short(self, values: NDArray[Any], answered: NDArray[Any]) -> NDArray[Any]:
        """By how much each row misses its right side; 0 where it holds or is void."""
        k, i, r = self.unless
        short: NDArray[Any] = np.maximum(self.at_least - values, 0)
        short[k[answered[i, r] <= 0]] = 0
        return short

    def is_satisfied(self, given: Whole) -> bool:
        """Whether counts n_{g,l} keep every rule."""
        fits = (
            (given >= 0).all()
            and (given.sum(axis=1) == self.sketch.n).all()
            and not given[~self.sketch.allowed].any()
        )
        return bool(fits) and not self.short(*self.values(given)).any()

    def with_rows(self, more: Sequence[Row]) -> Program:
        """The same program with further rows at the end."""
        return Program(self.sketch, (*self.rows, *more))


# ----------------------------------------------------------------------------
# Weights on rows that prove an alarm, checked in whole numbers, and quick steps towards them.


_LARGEST = 2**62
_PACE = 4.0
_LATE = -5.0
_LEAST = 60.0
_SCALES = (1, 12, 1_000, 100_000, 10_000_000, 1_000_000_000)


class Leaf(NamedTuple):
    """Whole weights by row, the group whose items bring further rows into force (None: not needed),
    D(w) and B(w).
    """

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
        piece = self.piece
        return (
            Row((piece._replace(coefficient=-1),), -self.at)
            if self.below
            else Row((piece,), self.at + 1)
        )


@dataclasses.dataclass(frozen=True)
class Case:
    """A program in a case: what the splits so far add to it."""

    base: Program
    splits: tuple[Split, ...] = ()

    @cached_property
    def program(self) -> Program:
        """The program with the splits as rows at the end."""
        return self.base.with_rows([s.row for s in self.splits]) if self.splits else self.base

    @cached_property
    def allowed(self) -> NDArray[np.bool_]:
        """The labels that each group can have; a count that is at most 0 forbids what it counts."""
        allowed = self.base.sketch.allowed
        for s in self.splits:
            if s.below and s.at == 0:
                allowed = allowed.copy()
                allowed[self.base.groups_of(s.piece), s.piece.label] = False
        return allowed

    @cached_property
    def in_force(self) -> NDArray[np.bool_]:
        """Rows that surely count: unconditional, or the classifier surely answered an item of the
        label.
        """
        sketch, program = self.base.sketch, self.program
        low = np.zeros(program.R, dtype=np.int64)
        for row in program.rows:
            if len(row.pieces) == 1 and row.unless is None:
                (piece,) = row.pieces
                if (
                    piece.coefficient == 1
                    and not piece.answers
                    and piece.group is None
                    and piece.label is not None
                ):
                    low[piece.label] = max(low[piece.label], row.at_least)
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

    def weighed(self, weights: Whole) -> Leaf | None:
        """D(w) and B(w) in whole numbers; None if they could leave 64 bits. Every group must have
        an allowed label.
        """
        program, n = self.program, self.base.sketch.n
        if _too_large(program, weights, n):
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
        k, i, r = program.unless
        open_ = ~self.in_force[k]
        gains = np.zeros((len(self.base.sketch.classifiers), program.R), dtype=np.int64)
        np.add.at(gains, (i[open_], r[open_]), (weights * program.at_least)[k[open_]])
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


def _too_large(program: Program, weights: Whole, n: Whole) -> bool:
    """Whether sums could leave 64 bits."""
    most = [sum(abs(p.coefficient) for p in r.pieces) for r in program.rows]
    bound = sum(
        int(w) * (m + abs(r.at_least))
        for w, m, r in zip(weights.tolist(), most, program.rows, strict=True)
    )
    return bound * (int(n.sum()) + 1) >= _LARGEST


class Stepped(NamedTuple):
    """What the steps found: an assignment of one label a group that keeps all rows, or a proof; and
    how many steps it took.
    """

    labels: NDArray[np.intp] | None
    leaf: Leaf | None
    steps: int


def dual_steps(case: Case, *, steps: int, deadline: float) -> Stepped:
    """Multiplicative steps on D(w) - B(w): weight moves to the rows that fall short of what they
    should be.

    The first step has equal weights on the claims, so that its assignment is the plurality vote.
    Each step looks at the assignment that attains D(w): it may keep all rows (then nothing is
    wrong), or D(w) may be too small (then it proves the alarm). In the long run the weights find
    the largest slack that all rows can have at once; multiplicative steps do so in far fewer rounds
    than subgradient steps with Polyak's length, because most rows have much slack and leave the
    field quickly.
    """
    program = case.program
    scale = np.array(
        [max(1, *(abs(p.coefficient) for p in r.pieces)) for r in program.rows], dtype=np.float64
    )
    claims = np.array([r.unless is not None or len(r.pieces) > 1 for r in program.rows])
    log = np.where(claims, 0.0, _LATE)
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
            return Stepped(labels, None, step)
        slack = values - program.at_least
        slack[k[answered[i, r] == 0]] = 0
        if float(weights @ slack) < 0:
            leaf = case.leaf(weights)
            if leaf is not None:
                return Stepped(None, leaf, step)
        if time.monotonic() > deadline:
            break
        parts = slack / scale
        log = np.maximum(log - _PACE / np.sqrt(step) * parts / np.abs(parts).max(), -_LEAST)
    return Stepped(None, None, step)
