"""Coverage of means across raters: the default interval, label kinds, bias, and every look.

The default tests use fewer worlds and allow for their noise (about 3.5 standard errors); the slow
ones hold the promised limits.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from noracle.errors import EvidenceError, GuaranteeWarning
from noracle.ppi.estimate import INTERVALS, estimate_mean
from noracle.results import Kind
from tests.guarantees.means import (
    BATCHES,
    PUBLISHED,
    RARE,
    USELESS,
    Cells,
    all_means,
    at_once,
    in_batches,
    measure_mean,
)
from tests.guarantees.ppi_worlds import (
    CELLS,
    SHARES,
    TRUTH,
    gaussian_worlds,
    known_means,
    label_kinds,
    look_often,
    shaped_worlds,
)

pytestmark = pytest.mark.full

LOW, HIGH = 0.944, 0.958


def noise(worlds: int) -> float:
    return 3.5 * (0.05 * 0.95 / worlds) ** 0.5


@pytest.mark.parametrize("labelled", [50, 100, 250])
def test_default_interval_covers(labelled: int) -> None:
    worlds = 12_000
    found = shaped_worlds(
        "multippi",
        2000,
        worlds,
        np.random.default_rng(labelled),
        labelled=labelled,
        intervals=("paper", "crossfit-t", "jackknife-t"),
    )
    assert LOW - noise(worlds) <= found["crossfit-t"].coverage <= HIGH
    assert LOW - noise(worlds) <= found["jackknife-t"].coverage <= HIGH
    cost = found["crossfit-t"].mean_width / found["paper"].mean_width
    assert 1.0 < cost <= {50: 1.12, 100: 1.06, 250: 1.05}[labelled]


@pytest.mark.slow
@pytest.mark.parametrize("labelled", [50, 100, 250])
def test_default_interval_covers_in_120_000_worlds(labelled: int) -> None:
    found = shaped_worlds(
        "multippi",
        2000,
        120_000,
        np.random.default_rng(labelled),
        labelled=labelled,
        intervals=("paper", "crossfit-t", "jackknife-t"),
    )
    assert LOW <= found["crossfit-t"].coverage <= HIGH
    assert LOW <= found["jackknife-t"].coverage <= HIGH
    if labelled == 250:
        assert found["crossfit-t"].mean_width <= 1.05 * found["paper"].mean_width


def test_ten_gaussian_raters_at_50_labels() -> None:
    worlds = 3000
    found = gaussian_worlds(
        2000, worlds, 50, np.random.default_rng(10), intervals=("paper", "crossfit-t"), drop=False
    )
    assert LOW - noise(worlds) <= found["crossfit-t"].coverage <= HIGH + noise(worlds)
    assert found["paper"].coverage <= 0.915
    assert (
        found["crossfit-t"].mean_width < 0.85 * 2 * 1.96 / 50**0.5
    )  # far narrower than labels alone


@pytest.mark.slow
@pytest.mark.parametrize("drop", [True, False])
def test_ten_gaussian_raters_at_50_labels_in_many_worlds(drop: bool) -> None:
    worlds = 15_000 if drop else 60_000
    found = gaussian_worlds(
        2000, worlds, 50, np.random.default_rng(11), intervals=("paper", "crossfit-t"), drop=drop
    )
    assert LOW <= found["crossfit-t"].coverage <= HIGH
    assert found["paper"].coverage <= 0.915


def test_folds_remove_the_bias_of_binary_raters() -> None:
    worlds = 6000
    found = known_means(
        "binary", 250, 10, worlds, np.random.default_rng(12), ("paper", "crossfit-t"), shrink=True
    )
    assert abs(found["crossfit-t"].bias) <= 0.02 + 2.5 / worlds**0.5
    assert found["paper"].bias > 0.08
    assert found["crossfit-t"].mse <= 1.01 * found["paper"].mse


@pytest.mark.slow
def test_folds_remove_the_bias_of_binary_raters_in_40_000_worlds() -> None:
    found = known_means(
        "binary", 250, 10, 40_000, np.random.default_rng(13), ("paper", "crossfit-t"), shrink=True
    )
    assert abs(found["crossfit-t"].bias) <= 0.02
    assert found["crossfit-t"].mse <= found["paper"].mse


def test_label_kinds_meet_the_plan() -> None:
    """Complementary labels, ordinary labels and a rater together: variance within 3 % of the
    planned one.
    """
    tally, planned = label_kinds(20_000, np.random.default_rng(14))
    assert tally.mse == pytest.approx(planned, rel=0.03)
    assert tally.coverage == pytest.approx(0.95, abs=0.005 + noise(20_000))
    assert abs(tally.bias) < 0.03


def test_every_look_together() -> None:
    looks = look_often(2500, 60, np.random.default_rng(15))
    assert looks.sequence >= 0.95
    assert looks.repeated < 0.80
    assert max(looks.ratios.values()) <= 1.65


def test_useless_raters_cost_no_coverage() -> None:
    """Six coins beside the label, through the public function."""
    rng = np.random.default_rng(16)
    misses, wider, worlds = 0, 0.0, 400
    for _ in range(worlds):
        data = np.where(rng.random((600, 7)) < 0.4, 1.0, 0.0)
        data[80:, 0] = np.nan
        found = estimate_mean(data, target="human", raters=["human", *"abcdef"])
        misses += not found.low <= 0.4 <= found.high
        usual = found.diagnostics["classical"]
        wider += found.width / (usual["high"] - usual["low"]) / worlds
    assert misses <= 0.05 * worlds + 3.5 * (0.05 * 0.95 * worlds) ** 0.5
    assert wider < 1.06


def test_public_function_is_the_measured_one() -> None:
    """The rows of one world give the same interval as its counts, up to how folds are dealt."""
    rng = np.random.default_rng(17)
    worlds, covered = 300, 0
    for _ in range(worlds):
        cells = [rng.choice(8, size=n, p=SHARES) for n in (100, 300, 500)]
        rows = [CELLS[c].copy() for c in cells]
        rows[1][:, [0, 2]] = np.nan
        rows[2][:, [0, 1]] = np.nan
        found = estimate_mean(
            np.concatenate(rows), target="label", raters=["label", "pro", "flash"]
        )
        covered += found.low <= TRUTH <= found.high
    assert covered >= 0.95 * worlds - 3.5 * (0.05 * 0.95 * worlds) ** 0.5


# ----------------------------------------------------------------------------------------------------------------
# the table of guarantees


def rows_of(population: Cells, labelled: np.ndarray, others: list[np.ndarray]) -> np.ndarray:
    """The counts of one world as rows; a part of the rows of each kind after another."""
    k = population.values.shape[1]
    rows = [np.repeat(population.values, c, axis=0) for c in labelled]
    for columns, counts in zip(population.rated, others, strict=True):
        for c in counts:
            part = np.full((int(c.sum()), k), np.nan)
            part[:, list(columns)] = np.repeat(population.values[:, list(columns)], c, axis=0)
            rows.append(part)
    return np.concatenate(rows)


@pytest.mark.filterwarnings("ignore::noracle.errors.EvidenceWarning", "ignore:heavy tails")
@pytest.mark.parametrize(
    "population", [PUBLISHED, RARE, USELESS], ids=["published", "rare", "useless"]
)
@pytest.mark.parametrize("n", [50, 250])
def test_worlds_of_the_table_are_those_of_the_public_function(population: Cells, n: int) -> None:
    names = ["label", "pro", "flash"][: population.values.shape[1]]
    for seed in range(4):
        rng = np.random.default_rng([n, seed])
        labelled = population.labelled([n // 5] * 5, 1, rng)
        if not len(labelled):
            continue
        others = [s.counts.astype(int) for s in population.others(1, 1, rng)]
        data = rows_of(population, labelled[0], others)
        tallies = at_once(population, n, 1, np.random.default_rng([n, seed]))
        for interval, tally in tallies.items():
            found = estimate_mean(data, target="label", raters=names, interval=interval)  # type: ignore[arg-type]
            if interval == "crossfit-t":  # folds are dealt again
                assert found.width == pytest.approx(tally.width, rel=0.2)
                continue
            assert found.value - population.truth == pytest.approx(tally.error, abs=1e-9), interval
            assert found.width == pytest.approx(tally.width, rel=1e-9), interval


@pytest.mark.parametrize(
    "population", [PUBLISHED, RARE, USELESS], ids=["published", "rare", "useless"]
)
def test_batches_of_the_table_are_those_of_the_public_function(population: Cells) -> None:
    names = ["label", "pro", "flash"][: population.values.shape[1]]
    n, compared = 50, 0
    for seed in range(12):
        rng = np.random.default_rng([1, seed])
        labelled = population.labelled([n // BATCHES] * BATCHES, 1, rng)
        if not len(labelled):
            continue
        # The batch that ends a wait is drawn before those that waited; together they are one.
        drawn = [
            [s.counts[0].astype(int) for s in population.others(BATCHES, 1, rng)]
            for _ in range(BATCHES)
        ]
        data = rows_of(population, labelled[0], [np.array(d) for d in zip(*drawn, strict=True)])
        found = estimate_mean(
            data, target="label", raters=names, interval="anytime", batches=BATCHES
        )
        tally = in_batches(population, n, 1, np.random.default_rng([1, seed]))
        assert found.width == pytest.approx(tally.width, rel=1e-9), seed
        assert abs(found.value - population.truth) == pytest.approx(abs(tally.error), abs=1e-9)
        compared += 1
    assert compared >= 4


def test_labels_that_never_vary_are_refused() -> None:
    data = rows_of(RARE, np.array([[0, 0, 3, 47]]), [np.array([[36, 4, 59, 1901]])])
    for interval in INTERVALS:
        with pytest.raises(EvidenceError):
            estimate_mean(data, target="label", raters=["label", "pro"], interval=interval)  # type: ignore[arg-type]


def test_rows_of_means_in_the_table() -> None:
    """All intervals, at the numbers of labels and at the ends where an approximation breaks; and it
    is seen to break.
    """
    settings = {s.name: s for s in all_means()}
    for n in (50, 100, 250):
        assert {f"mean, 2 raters, N={n}", f"mean, 2 raters, N={n} in {BATCHES} batches"} <= set(
            settings
        )
    assert (
        sum("10 Gaussian raters" in name for name in settings)
        == sum("useless" in name for name in settings)
        == 2
    )
    rows = {r.interval: r for r in measure_mean(settings["mean, 2 raters, N=100"], worlds=100)}
    assert set(rows) | {"anytime"} == set(INTERVALS)
    assert all(
        r.guarantee == "asymptotic" and not r.significant and r.worlds == 2000
        for r in rows.values()
    )
    assert rows["crossfit-t"].width < 0.9 * rows["classical"].width
    rare = next(s for name, s in settings.items() if "2 % of the items, N=250 (" in name)
    assert all(r.significant for r in measure_mean(rare, worlds=100))


# ------------------------------------------------------------------------------------------------------------------------
# tails

HEAVY = {
    "lognormal 1.5": (lambda rng, n: rng.lognormal(0, 1.5, n), float(np.exp(1.125))),
    "lognormal 2": (lambda rng, n: rng.lognormal(0, 2, n), float(np.exp(2))),
    "pareto 2.1": (lambda rng, n: 1 + rng.pareto(2.1, n), 2.1 / 1.1),
    "1 % at 100": (
        lambda rng, n: np.where(rng.random(n) < 0.01, 100.0, 0.0) + rng.normal(size=n),
        1.0,
    ),
}
LIGHT = {
    "normal": (lambda rng, n: rng.normal(size=n), 0.0),
    "uniform": (lambda rng, n: rng.random(n), 0.5),
    "t5": (lambda rng, n: rng.standard_t(5, n), 0.0),
    **{
        f"right or wrong, {p}": (lambda rng, n, p=p: (rng.random(n) < p).astype(float), p)
        for p in (0.1, 0.5, 0.9)
    },
}


def looked_at(
    draw: Any, truth: float, *, labelled: int, others: int, runs: int, seed: int
) -> tuple[int, int, int]:
    """Numbers of runs that covered, that kept the promise, and that kept it and missed; the judge
    is the score with noise.
    """
    rng = np.random.default_rng(seed)
    covered = kept = broken = 0
    for _ in range(runs):
        scores = draw(rng, labelled + others)
        while np.ptp(scores[:labelled]) == 0:  # labels that do not vary are refused
            scores = draw(rng, labelled + others)
        noise_size = float(np.quantile(np.abs(scores - np.median(scores)), 0.75)) or 0.5
        data = {"human": [float(s) if i < labelled else None for i, s in enumerate(scores)]}
        if others:
            data["judge"] = scores + noise_size * rng.normal(size=len(scores))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", GuaranteeWarning)
            found = estimate_mean(data, target="human")
        held = found.low <= truth <= found.high
        promised = found.guarantee.kind is Kind.ASYMPTOTIC
        if not promised:
            assert [a.name for a in found.guarantee.assumptions if a.status == "failed"] == [
                "tails light enough for t"
            ]
        covered, kept, broken = covered + held, kept + promised, broken + (promised and not held)
    return covered, kept, broken


def no_false_promise(name: str, *, labelled: int, others: int, runs: int) -> None:
    """A promise that stands is broken in at most 5 % of all runs (two standard errors); most lose
    it, and rightly: too few cover.
    """
    draw, truth = HEAVY[name]
    covered, kept, broken = looked_at(
        draw, truth, labelled=labelled, others=others, runs=runs, seed=labelled
    )
    assert broken <= 0.05 * runs + 2 * (0.05 * 0.95 * runs) ** 0.5
    assert kept < runs / 2
    assert (
        covered < 0.95 * runs - 2 * (0.05 * 0.95 * runs) ** 0.5
    )  # the promise would have been false


@pytest.mark.parametrize("name", HEAVY)
def test_with_heavy_tails_the_default_interval_covers_or_promises_nothing(name: str) -> None:
    labelled = 200 if name == "1 % at 100" else 100  # what is in no row cannot be seen
    no_false_promise(name, labelled=labelled, others=3 * labelled, runs=200)


@pytest.mark.slow
@pytest.mark.parametrize("others", [0, 600])
@pytest.mark.parametrize("name", [n for n in HEAVY if n != "1 % at 100"])
def test_with_heavy_tails_the_default_interval_covers_or_promises_nothing_in_1000_runs(
    name: str, others: int
) -> None:
    no_false_promise(name, labelled=200, others=others, runs=1000)


@pytest.mark.parametrize("others", [0, 300])
@pytest.mark.parametrize("name", LIGHT)
def test_with_light_tails_the_promise_is_kept(name: str, others: int) -> None:
    draw, truth = LIGHT[name]
    runs = 200
    _, kept, _ = looked_at(draw, truth, labelled=100, others=others, runs=runs, seed=1)
    assert kept >= 0.95 * runs


@pytest.mark.slow
@pytest.mark.parametrize("labelled", [100, 200, 500])
@pytest.mark.parametrize("name", LIGHT)
def test_with_light_tails_the_promise_is_kept_in_2000_runs(name: str, labelled: int) -> None:
    draw, truth = LIGHT[name]
    _, kept, _ = looked_at(draw, truth, labelled=labelled, others=0, runs=2000, seed=2)
    assert kept >= 0.95 * 2000
