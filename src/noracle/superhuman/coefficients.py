"""Coefficients of agreement as functions of sums over items, and how these sums vary from sample to
sample.

Every coefficient here is f(Σ over items of a vector of features), so that counts are enough for the
value and for resampling items: a resample draws new numbers of items of each kind.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from noracle.counts.votes import Whole

Floats = NDArray[np.float64]
_MOST_DRAWS = 30_000_000  # kinds times resamples; beyond it sums are drawn from their normal limit
_AT_ONCE = 4_000_000


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Coefficient:
    """A coefficient of agreement on some counts.

    ``features`` has a row for each kind of item and ``n_items`` says how many items are of that
    kind; ``unseen`` has rows of kinds that may not have been seen, the most united and the most
    divided ones. ``value`` maps rows of sums to values, NaN where undefined.
    """

    features: Floats
    n_items: Whole
    unseen: Floats
    value: Callable[[Floats], Floats]

    @property
    def estimate(self) -> float:
        """The value on these items."""
        return float(self.value((self.n_items @ self.features)[None, :])[0])

    def too_many(self, n_boot: int) -> bool:
        """Whether there are so many kinds that sums are drawn from their normal limit."""
        return len(self.n_items) * n_boot > _MOST_DRAWS

    def resampled(self, n_boot: int, rng: np.random.Generator) -> Floats:
        """Values on ``n_boot`` samples of as many items, drawn with replacement."""
        total = int(self.n_items.sum())
        share = self.n_items / total
        kinds = len(share)
        if self.too_many(n_boot):
            return self.value(self._normal_sums(n_boot, rng))
        step = max(1, _AT_ONCE // kinds)
        parts = []
        for start in range(0, n_boot, step):
            drawn = rng.multinomial(total, share, size=min(step, n_boot - start))
            parts.append(self.value(drawn.astype(np.float64) @ self.features))
        return np.concatenate(parts)

    def _normal_sums(self, n_boot: int, rng: np.random.Generator) -> Floats:
        """Sums from the normal law that resampling tends to; with very many kinds there are very
        many items.
        """
        total = int(self.n_items.sum())
        share = self.n_items / total
        mean = share @ self.features
        centred = self.features - mean
        spread, axes = np.linalg.eigh((centred * share[:, None]).T @ centred)
        steps = rng.standard_normal((n_boot, len(spread))) * np.sqrt(np.maximum(spread, 0.0))
        return np.asarray(total * mean + np.sqrt(total) * (steps @ axes.T))

    def reach(self, error: float) -> tuple[float, float]:
        """How far the value may go if a share 1 - error^(1/n) of the items are of a kind that was
        not seen.
        """
        total = int(self.n_items.sum())
        share = 1 - error ** (1 / total)
        mixed = (1 - share) * (self.n_items @ self.features) + share * total * self.unseen
        values = self.value(np.vstack([self.n_items @ self.features, mixed]))
        return float(np.nanmin(values)), float(np.nanmax(values))


def agreements(votes: Whole) -> tuple[Floats, Floats]:
    """The share of pairs of votes that agree (0 with one vote), and whether there is a pair."""
    n = votes.sum(axis=1)
    paired = n > 1
    pairs = np.where(paired, n * (n - 1), 1)
    return np.where(paired, (votes * (votes - 1)).sum(axis=1) / pairs, 0.0), paired.astype(
        np.float64
    )


def _kinds(votes: Whole) -> tuple[Whole, Whole]:
    """The kinds, with columns for labels that nobody used where there is one label only, and kinds
    that may not have been seen.
    """
    most = int(votes.sum(axis=1).max(initial=1))
    if votes.shape[1] == 1:
        votes = np.pad(votes, ((0, 0), (0, min(max(most, 2), 50) - 1)))
    size = votes.shape[1]
    united = most * np.eye(size, dtype=np.int64)
    order = np.argsort(-votes.sum(axis=0), kind="stable")
    divided = np.zeros(size, dtype=np.int64)
    np.add.at(divided, order[np.arange(most) % size], 1)
    return votes, np.vstack([united[order[: min(size, 50)]], divided])


def pairwise(votes: Whole, n_items: Whole) -> Coefficient:
    """Mean over items with two votes or more of the share of pairs that agree."""

    def features(kinds: Whole) -> Floats:
        return np.stack(agreements(kinds), axis=1)

    kinds, unseen = _kinds(votes)
    return Coefficient(
        features=features(kinds),
        n_items=n_items,
        unseen=features(unseen),
        value=lambda s: _ratio(s[:, 0], s[:, 1]),
    )


def fleiss(votes: Whole, n_items: Whole) -> Coefficient:
    """(P - P_e)/(1 - P_e): P the mean pairwise agreement, P_e = Σ_l p_l², p_l the mean over items
    of the share of votes for l.
    """

    def features(kinds: Whole) -> Floats:
        shares = kinds / kinds.sum(axis=1, keepdims=True)
        return np.column_stack([*agreements(kinds), shares])

    def value(sums: Floats) -> Floats:
        shares = sums[:, 2:] / sums[:, 2:].sum(axis=1, keepdims=True)
        return _kappa(_ratio(sums[:, 0], sums[:, 1]), (shares**2).sum(axis=1))

    kinds, unseen = _kinds(votes)
    return Coefficient(
        features=features(kinds), n_items=n_items, unseen=features(unseen), value=value
    )


def krippendorff(
    votes: Whole, n_items: Whole, *, values: Sequence[float] | None, ordinal: bool = False
) -> Coefficient:
    """1 - (n - 1)·Σ_cd o_cd·δ²_cd / Σ_cd n_c·n_d·δ²_cd over the votes of items with two votes or
    more.

    o_cd = Σ over items of v_c·(v_d - 1{c = d})/(votes - 1). δ² is 1 for different labels, (x_c -
    x_d)² with ``values``, and with ``ordinal`` the squared difference of mid-ranks, which depend on
    the sample.
    """
    kinds, unseen = _kinds(votes)
    size = kinds.shape[1]
    given = (
        None
        if values is None
        else np.asarray([*values, *[0.0] * (size - len(values))], dtype=np.float64)
    )
    distances = 1.0 - np.eye(size) if given is None else (given[:, None] - given[None, :]) ** 2

    def features(of: Whole) -> Floats:
        n = of.sum(axis=1)
        paired = np.where((n > 1)[:, None], of, 0).astype(np.float64)
        rest = np.maximum(n - 1, 1)[:, None, None]
        if not ordinal:
            return np.column_stack(
                [
                    paired,
                    np.einsum("pc,cd,pd->p", paired, distances, paired, optimize=True)
                    / rest[:, 0, 0],
                ]
            )
        crossed = paired[:, :, None] * paired[:, None, :] / rest
        return np.column_stack([paired, crossed.reshape(len(of), -1)])

    def value(sums: Floats) -> Floats:
        margins = sums[:, :size]
        if not ordinal:
            observed, expected = (
                sums[:, size],
                np.einsum("bc,cd,bd->b", margins, distances, margins, optimize=True),
            )
        else:
            ranks = np.cumsum(margins, axis=1) - margins / 2
            apart = (ranks[:, :, None] - ranks[:, None, :]) ** 2
            observed = (sums[:, size:].reshape(apart.shape) * apart).sum(axis=(1, 2))
            expected = (margins[:, :, None] * margins[:, None, :] * apart).sum(axis=(1, 2))
        return np.asarray(1 - (margins.sum(axis=1) - 1) * _ratio(observed, expected))

    return Coefficient(
        features=features(kinds), n_items=n_items, unseen=features(unseen), value=value
    )


def cohen(table: Whole) -> Coefficient:
    """(p - p_e)/(1 - p_e) of two raters: p the share of items on which they agree, p_e the sum of
    products of their shares.
    """
    size = len(table)
    cells = np.flatnonzero(table)
    every = np.eye(size * size)
    return Coefficient(
        features=every[cells],
        n_items=table.reshape(-1)[cells],
        unseen=every,
        value=lambda sums: kappas(sums.reshape(-1, size, size)),
    )


def mean_cohen(codes: NDArray[np.int16], n_items: Whole, size: int) -> Coefficient:
    """The mean of Cohen's kappa over all pairs of raters for which it is defined; ``codes`` has a
    row for each kind of item.
    """
    n_raters = codes.shape[1]
    pairs = list(itertools.combinations(range(n_raters), 2))
    one = np.arange(size)

    def features(of: NDArray[np.int16]) -> Floats:
        shown = (of[:, :, None] == one).astype(np.float64)
        return np.hstack(
            [(shown[:, i, :, None] * shown[:, j, None, :]).reshape(len(of), -1) for i, j in pairs]
        )

    def value(sums: Floats) -> Floats:
        every = kappas(sums.reshape(-1, size, size)).reshape(-1, len(pairs))
        known = ~np.isnan(every)
        return _ratio(np.where(known, every, 0.0).sum(axis=1), known.sum(axis=1).astype(np.float64))

    united = np.repeat(one[:, None], n_raters, axis=1)
    divided = (np.arange(n_raters) % size)[None, :]
    unseen = np.vstack([united, divided]).astype(np.int16)
    return Coefficient(
        features=features(codes), n_items=n_items, unseen=features(unseen), value=value
    )


def kappas(tables: Floats) -> Floats:
    """Cohen's kappa of every table; NaN where both raters used one label only, the same one."""
    total = tables.sum(axis=(1, 2))
    agreed = _ratio(np.trace(tables, axis1=1, axis2=2), total)
    chance = _ratio((tables.sum(axis=2) * tables.sum(axis=1)).sum(axis=1), total**2)
    return _kappa(agreed, chance)


def kappa_errors(tables: Floats) -> Floats:
    """Standard errors of Cohen's kappa by the delta method.

    dκ(a, b) = (1{a = b} - p)/(1 - p_e) - (1 - p)·(c_a + r_b - 2·p_e)/(1 - p_e)², r and c the shares
    of the first and second rater.
    """
    total = tables.sum(axis=(1, 2))
    shares = tables / np.maximum(total, 1)[:, None, None]
    rows, columns = shares.sum(axis=2), shares.sum(axis=1)
    agreed = np.trace(shares, axis1=1, axis2=2)[:, None, None]
    chance = (rows * columns).sum(axis=1)[:, None, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        pull = (np.eye(tables.shape[1]) - agreed) / (1 - chance)
        pull = (
            pull
            - (1 - agreed)
            * (columns[:, :, None] + rows[:, None, :] - 2 * chance)
            / (1 - chance) ** 2
        )
        return np.asarray(np.sqrt((shares * pull**2).sum(axis=(1, 2)) / total))


def _kappa(agreed: Floats, chance: Floats) -> Floats:
    # Shares that are all 1 may sum to a hair less; then there is nothing to agree about.
    return _ratio(agreed - chance, np.where(1 - chance < 1e-12, 0.0, 1 - chance))


def _ratio(above: Floats, below: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(
            np.where(below == 0, np.nan, above / np.where(below == 0, 1.0, below)), dtype=np.float64
        )
