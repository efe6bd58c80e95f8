"""All evaluations of a small test, one by one: what an answer key could still say.

An evaluation splits the count of each pattern of answers over the true labels. Without answers
every table is possible; with the answers of one classifier only those that keep its uses (the
single-classifier axioms); with the joint answers only those that keep every pattern count. The
number of evaluations grows so fast that this is for study and for tests; the alarm does not
enumerate.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from fractions import Fraction

from noracle.errors import ArgumentError, EvidenceError, fault
from noracle.logic.crowd import Pattern, read_patterns, whole_number

LIMIT = 1_000_000
"""The most evaluations that are enumerated unless ``limit`` says otherwise."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """How many items of each pattern have each true label; ``truth[p][t]`` goes with
    ``patterns[p]`` and ``labels[t]``.

    Examples
    --------
    >>> e = Evaluation(labels=("a", "b"), patterns=(("a",), ("b",)), truth=((3, 1), (0, 2)))
    >>> e.counts, e.rates == (Fraction(1), Fraction(2, 3), Fraction(1, 2))
    ((3, 2, 3), True)
    """

    labels: tuple[Hashable, ...]
    patterns: tuple[Pattern, ...]
    truth: tuple[tuple[int, ...], ...]

    @property
    def n_items(self) -> int:
        """Q, the number of items."""
        return sum(map(sum, self.truth))

    @property
    def prevalence(self) -> tuple[int, ...]:
        """Q_l, the items of each true label."""
        return tuple(sum(row[t] for row in self.truth) for t in range(len(self.labels)))

    @property
    def correct(self) -> tuple[tuple[int, ...], ...]:
        """R_{l_i,l} of each classifier (rows) on each label (columns)."""
        split = tuple(zip(self.patterns, self.truth, strict=True))
        return tuple(
            tuple(
                sum(row[t] for p, row in split if p[i] == label)
                for t, label in enumerate(self.labels)
            )
            for i in range(len(self.patterns[0]))
        )

    @property
    def counts(self) -> tuple[int, ...]:
        """The point in R-space: right answers of each classifier on each label, then the prevalence
        of each label but the last.
        """
        return (*itertools.chain(*self.correct), *self.prevalence[:-1])

    @property
    def rates(self) -> tuple[Fraction | None, ...]:
        """The point in P-space: the same as rates; None for an accuracy on a label that no item
        has.
        """
        n = self.n_items
        accuracies = (
            Fraction(c, q) if q else None
            for row in self.correct
            for c, q in zip(row, self.prevalence, strict=True)
        )
        return (*accuracies, *(Fraction(q, n) if n else None for q in self.prevalence[:-1]))


# without answers


def n_possible(n_items: int, *, n_classes: int = 2, n_classifiers: int = 1) -> int:
    """The number of evaluations before any answer is seen: C(Q + M − 1, M − 1) with M = R^(N+1)
    cells.

    For one binary classifier this is (Q + 1)(Q + 2)(Q + 3)/6.

    Examples
    --------
    >>> n_possible(281) == 282 * 283 * 284 // 6
    True
    """
    q = whole_number("n_items", n_items)
    if n_classes < 2 or n_classifiers < 1:
        raise ArgumentError(
            f"n_classes must be at least 2 and n_classifiers at least 1; got {n_classes} and {n_classifiers}."
        )
    cells = n_classes ** (n_classifiers + 1)
    return math.comb(q + cells - 1, cells - 1)


def enumerate_possible(
    n_items: int, *, n_classes: int = 2, n_classifiers: int = 1, limit: int = LIMIT
) -> Iterator[Evaluation]:
    """Every evaluation before any answer is seen; labels are 0 … R − 1.

    Examples
    --------
    >>> sorted(e.counts for e in enumerate_possible(1))
    [(0, 0, 0), (0, 0, 1), (0, 1, 0), (1, 0, 1)]
    """
    _guard(n_possible(n_items, n_classes=n_classes, n_classifiers=n_classifiers), limit)
    labels = tuple(range(n_classes))
    patterns: tuple[Pattern, ...] = tuple(itertools.product(labels, repeat=n_classifiers))
    chosen = itertools.combinations_with_replacement(
        range(n_classes * len(patterns)), whole_number("n_items", n_items)
    )
    return (
        Evaluation(
            labels=labels,
            patterns=patterns,
            truth=_filled(Counter(cells), len(patterns), n_classes),
        )
        for cells in chosen
    )


def _filled(cells: Counter[int], n_patterns: int, n_classes: int) -> tuple[tuple[int, ...], ...]:
    return tuple(
        tuple(cells[p * n_classes + t] for t in range(n_classes)) for p in range(n_patterns)
    )


# with answers


def n_consistent(
    counts: Mapping[Pattern, int],
    *,
    labels: Sequence[Hashable] | None = None,
    prevalence: Mapping[Hashable, int] | None = None,
    limit: int = LIMIT,
) -> int:
    """The number of evaluations that keep every pattern count, at a prevalence or at all: Π_s C(n_s
    + R − 1, R − 1) without one.

    Parameters
    ----------
    counts
        Items of each pattern of answers; patterns of one classifier are its uses.
    labels
        All labels; those that occur, if left out.
    prevalence
        Items of each true label.
    limit
        The most steps that the count at a prevalence may need.

    Examples
    --------
    >>> n_consistent({("a",): 2, ("b",): 1}), n_consistent({("a",): 2, ("b",): 1}, prevalence={"a": 1, "b": 2})
    (6, 2)
    """
    known, _, rows = _rows(counts, labels)
    if prevalence is None:
        return math.prod(math.comb(n + len(known) - 1, len(known) - 1) for n in rows)
    return _count_tables(rows, _columns(known, prevalence, sum(rows)), limit)


def enumerate_consistent(
    counts: Mapping[Pattern, int],
    *,
    labels: Sequence[Hashable] | None = None,
    prevalence: Mapping[Hashable, int] | None = None,
    limit: int = LIMIT,
) -> Iterator[Evaluation]:
    """Every evaluation that keeps every pattern count: of one classifier, of a pair, of any
    ensemble.

    With patterns of one classifier these are the evaluations that its single axioms allow.
    Different evaluations may agree in all accuracies; ``{e.counts for e in …}`` are the different
    points of R-space, ``{e.rates for e in …}`` those of P-space.

    Parameters
    ----------
    counts, labels, prevalence
        As in :func:`n_consistent`.
    limit
        More evaluations than this are an error, raised before the first one.

    Examples
    --------
    >>> [e.counts for e in enumerate_consistent({("a",): 2, ("b",): 1}, prevalence={"a": 1, "b": 2})]
    [(0, 0, 1), (1, 1, 1)]
    """
    known, patterns, rows = _rows(counts, labels)
    columns = None if prevalence is None else _columns(known, prevalence, sum(rows))
    _guard(n_consistent(counts, labels=labels, prevalence=prevalence, limit=limit), limit)
    start = tuple(sum(rows) for _ in known) if columns is None else columns
    return (
        Evaluation(labels=known, patterns=patterns, truth=truth)
        for truth in _tables(rows, start, tight=columns is not None)
    )


def enumerate_axioms(
    uses: Sequence[Mapping[Hashable, int]],
    *,
    prevalence: Mapping[Hashable, int],
    limit: int = LIMIT,
) -> Iterator[tuple[Evaluation, ...]]:
    """Every set of evaluations that the single axioms of all classifiers allow at a prevalence: one
    evaluation per classifier.

    For two labels this is the cuboid of the paper (Eq. 7–9): R_{a_i,a} from max(0, R_{a_i} − Q_b)
    to min(Q_a, R_{a_i}). It holds every set that the joint answers allow, and more.

    Parameters
    ----------
    uses
        For each classifier the items on which it said each label.
    prevalence
        Items of each true label; its keys are the labels.
    limit
        More sets than this are an error, raised before the first one.

    Examples
    --------
    >>> [tuple(e.correct[0] for e in s) for s in enumerate_axioms([{"a": 2, "b": 1}, {"a": 0, "b": 3}], prevalence={"a": 1, "b": 2})]
    [((0, 0), (0, 2)), ((1, 1), (0, 2))]
    """
    if not uses:
        raise ArgumentError("uses must have at least one classifier; got none.")
    labels = tuple(prevalence)
    singles: list[Mapping[Pattern, int]] = [
        {(label,): n for label, n in used.items()} for used in uses
    ]
    _guard(
        math.prod(
            n_consistent(c, labels=labels, prevalence=prevalence, limit=limit) for c in singles
        ),
        limit,
    )
    return itertools.product(
        *(
            tuple(enumerate_consistent(c, labels=labels, prevalence=prevalence, limit=limit))
            for c in singles
        )
    )


# tables with given sums


def _rows(
    counts: Mapping[Pattern, int], labels: Sequence[Hashable] | None
) -> tuple[tuple[Hashable, ...], tuple[Pattern, ...], tuple[int, ...]]:
    known, coded = read_patterns(counts, labels=labels)
    kept = sorted(coded)
    return known, tuple(tuple(known[x] for x in p) for p in kept), tuple(coded[p] for p in kept)


def _columns(
    labels: tuple[Hashable, ...], prevalence: Mapping[Hashable, int], n_items: int
) -> tuple[int, ...]:
    if set(prevalence) != set(labels):
        raise ArgumentError(
            fault(
                "prevalence", f"must have one number for each of {list(labels)}", list(prevalence)
            )
        )
    columns = tuple(whole_number(f"prevalence of {label!r}", prevalence[label]) for label in labels)
    if sum(columns) != n_items:
        raise EvidenceError(
            fault("prevalence", f"must add up to the {n_items} items", sum(columns))
        )
    return columns


def _guard(n: int, limit: int) -> None:
    if n > limit:
        many = f"{n:,}" if n < 10**15 else f"about 10^{len(str(n)) - 1}"
        raise ArgumentError(
            f"limit must cover the evaluations; got {limit:,} for {many} of them. Take fewer items, or use the alarm."
        )


def _splits(n: int, most: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """All ways to split n into len(most) whole numbers, the k-th at most most[k]; from the smallest
    first number up.
    """
    if len(most) == 1:
        if n <= most[0]:
            yield (n,)
        return
    rest = sum(most[1:])
    for first in range(max(0, n - rest), min(n, most[0]) + 1):
        for others in _splits(n - first, most[1:]):
            yield (first, *others)


def _tables(
    rows: tuple[int, ...], columns: tuple[int, ...], *, tight: bool
) -> Iterator[tuple[tuple[int, ...], ...]]:
    """All tables with these row sums, and these column sums if ``tight``; no branch ends without a
    table.
    """
    if not rows:
        yield ()
        return
    chosen: list[tuple[int, ...]] = []
    left = [columns]
    waiting = [_splits(rows[0], columns)]
    while waiting:
        split = next(waiting[-1], None)
        if split is None:
            waiting.pop()
            left.pop()
            del chosen[-1:]
        elif len(waiting) == len(rows):
            yield (*chosen, split)
        else:
            chosen.append(split)
            left.append(
                tuple(c - x for c, x in zip(left[-1], split, strict=True)) if tight else columns
            )
            waiting.append(_splits(rows[len(chosen)], left[-1]))


def _count_tables(rows: tuple[int, ...], columns: tuple[int, ...], limit: int) -> int:
    """The number of tables with these sums, row by row over what is left of the columns."""
    if len(columns) == 2:
        return _count_two_columns(rows, columns[0])
    if math.prod(c + 1 for c in columns[:-1]) > limit:
        raise ArgumentError(
            f"limit must cover the states of the count; got {limit:,}. Take fewer items, or leave prevalence out."
        )
    states: Counter[tuple[int, ...]] = Counter({columns: 1})
    for n in rows:
        following: Counter[tuple[int, ...]] = Counter()
        for left, ways in states.items():
            for split in _splits(n, left):
                following[tuple(c - x for c, x in zip(left, split, strict=True))] += ways
        states = following
    return sum(states.values())


def _count_two_columns(rows: tuple[int, ...], first: int) -> int:
    """The coefficient of z^first in Π (1 + z + … + z^n) over the rows n."""
    ways = [1]
    for n in rows:
        sums = [0, *itertools.accumulate([*ways, *[0] * n])]
        ways = [sums[k + 1] - sums[max(0, k - n)] for k in range(len(ways) + n)]
    return ways[first] if first < len(ways) else 0
