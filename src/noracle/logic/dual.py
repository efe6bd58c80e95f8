"""Weights on rows that prove an alarm, checked in whole numbers, and quick steps towards them.

For whole weights w_k ≥ 0 put D(w) = Σ_g n_g max_{l allowed} Σ_k w_k c_k(g, l). No assignment of
true labels makes Σ_k w_k (row k) larger than D(w). One that keeps all rows makes it at least B(w):
the sum of w_k b_k over the rows that surely count, and, because every group has an item with *some*
label, at least min_{l allowed in g} of the w_k b_k of the remaining rows that an item of group g
with label l brings into force. So D(w) < B(w) proves that no assignment keeps them all.
"""

from __future__ import annotations

import dataclasses
import time
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from noracle.logic.program import Piece, Program, Row, Whole

if TYPE_CHECKING:
    from numpy.typing import NDArray

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
        from noracle.logic.program import ANY

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
