"""Coverage of the limits for a sum over parts: enumerated for small samples, simulated for mixtures
of K and kinds of label.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.stats import binom, binomtest

from noracle.bounds.binomial import BinomialCell
from noracle.bounds.parts import Part, sum_limits

pytestmark = pytest.mark.full

Kind = tuple[int, float, float]
SMALL: dict[str, tuple[tuple[float, tuple[Kind, ...]], ...]] = {
    "two": ((0.5, ((6, 0.0, 1.0),)), (0.5, ((8, 0.0, 1.0),))),
    "unequal": ((0.8, ((12, 0.0, 1.0),)), (0.2, ((2, 0.0, 1.0),))),
    "one large": ((0.95, ((20, 0.0, 1.0),)), (0.05, ((2, 0.0, 1.0),))),
    "two kinds": ((0.4, ((3, 0.0, 1.0), (5, 2 / 3, 1 / 3))), (0.6, ((6, 0.0, 1.0),))),
    "complementary": ((0.5, ((8, 0.0, 1.0),)), (0.5, ((10, 0.75, 0.25),))),
    "three": ((0.5, ((4, 0.0, 1.0),)), (0.3, ((5, 0.0, 1.0),)), (0.2, ((3, 0.5, 0.5),))),
    "no answer": ((0.3, ((6, 0.0, 1.0),)), (0.4, ((7, 0.0, 1.0),))),
}


def coverage(
    design: tuple[tuple[float, tuple[Kind, ...]], ...], tail: float, steps: int
) -> tuple[float, float]:
    """The least probability over a grid of rates that the lower, and the upper, limit holds."""
    cells = [(part, *kind) for part, (_, kinds) in enumerate(design) for kind in kinds]
    samples = np.array(list(itertools.product(*(range(n + 1) for _, n, _, _ in cells))))
    limits = []
    for sample in samples:
        rows = [
            Part(
                share,
                tuple(
                    BinomialCell(n, int(s), a, b)
                    for (of, n, a, b), s in zip(cells, sample, strict=True)
                    if of == part
                ),
            )
            for part, (share, _) in enumerate(design)
        ]
        found = sum_limits(rows, tail, tail)
        limits.append((found.low, found.high))
    low, high = np.array(limits).T
    least = [1.0, 1.0]
    for rates in itertools.product(np.linspace(0, 1, steps), repeat=len(design)):
        chance = np.ones(len(samples))
        for column, (part, n, a, b) in enumerate(cells):
            chance *= binom.pmf(samples[:, column], n, min(a + b * rates[part], 1.0))
        truth = sum(share * rate for (share, _), rate in zip(design, rates, strict=True))
        least[0] = min(least[0], float(chance[low <= truth + 1e-12].sum()))
        least[1] = min(least[1], float(chance[high >= truth - 1e-12].sum()))
    return least[0], least[1]


@pytest.mark.parametrize("tail", [0.025, 0.1])
@pytest.mark.parametrize("name", SMALL)
def test_each_limit_holds_at_all_rates(name: str, tail: float) -> None:
    design = SMALL[name]
    assert min(coverage(design, tail, 21 if len(design) == 2 else 9)) >= 1 - tail - 1e-9


def test_limits_for_the_sum_are_not_vacuous() -> None:
    assert min(coverage(SMALL["one large"], 0.1, 41)) < 0.95
    assert min(coverage(SMALL["two"], 0.1, 41)) < 0.96


def world(
    rng: np.random.Generator, rates: np.ndarray, shares: np.ndarray, labels: np.ndarray
) -> list[Part]:
    """K from 2 to 10; one uniform question per item: on the answer with probability 1/K, else a
    complementary label.
    """
    rows = []
    for i, (share, rate, n) in enumerate(zip(shares, rates, labels, strict=True)):
        k = 2 + i % 9
        hits = int(rng.binomial(n, 1 / k))
        cells = [BinomialCell(hits, int(rng.binomial(hits, rate)))]
        cells.append(
            BinomialCell(
                int(n) - hits,
                int(rng.binomial(int(n) - hits, 1 - (1 - rate) / (k - 1))),
                (k - 2) / (k - 1),
                1 / (k - 1),
            )
        )
        rows.append(Part(float(share), tuple(cells)))
    return rows


def misses(setting: str, worlds: int, tail: float = 0.1, blind: float = 0.1) -> tuple[int, int]:
    """How often the lower and the upper limit are wrong; fresh labels in every world, of a
    population that is fixed.
    """
    rng = np.random.default_rng(sum(map(ord, setting)))
    parts = 9 if setting != "few" else 3
    shares = rng.dirichlet(np.full(parts, 3.0)) * 0.85  # 5 % have no answer
    rates = {
        "apart": rng.uniform(0.2, 1.0, parts),
        "even": np.full(parts, 0.7),
        "few": np.array([0.95, 0.3, 0.8]),
    }[setting]
    labels = rng.integers(1, 120, parts)
    truth = float(shares @ rates)
    below = above = 0
    for _ in range(worlds):
        found = sum_limits(world(rng, rates, shares, labels), tail, tail, blind=blind)
        below += found.low > truth + blind * 0.0  # the worst unlabelled items for each side
        above += found.high < truth + blind * 1.0
    return below, above


@pytest.mark.parametrize("setting", ["apart", "even", "few"])
def test_limits_hold_in_mixtures_of_kinds(setting: str) -> None:
    for wrong in misses(setting, 100):
        assert binomtest(wrong, 100, 0.1, alternative="greater").pvalue > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("setting", ["apart", "even", "few"])
def test_limits_hold_in_thousands_of_mixtures(setting: str) -> None:
    for wrong in misses(setting, 2500):
        assert binomtest(wrong, 2500, 0.1, alternative="greater").pvalue > 1e-3


def test_limits_hold_for_draws_without_replacement() -> None:
    """Two finite parts and one of which nearly all items are labelled."""
    rng = np.random.default_rng(8)
    population = [rng.random(size) < rate for size, rate in ((60, 0.8), (140, 0.5), (40, 0.3))]
    shares = [len(p) / 240 for p in population]
    truth = sum(share * p.mean() for share, p in zip(shares, population, strict=True))
    wrong = 0
    for _ in range(200):
        rows = []
        for share, right, n in zip(shares, population, (20, 50, 38), strict=True):
            drawn = rng.choice(right, n, replace=False)
            rows.append(Part(share, (BinomialCell(n, int(drawn.sum())),), size=len(right)))
        found = sum_limits(rows, 0.05, 0.05)
        wrong += not found.low <= truth <= found.high
    assert binomtest(wrong, 200, 0.1, alternative="greater").pvalue > 1e-3
