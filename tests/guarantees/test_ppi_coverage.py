"""Coverage of means across raters: the default interval, label kinds, bias, and every look.

The default tests use fewer worlds and allow for their noise (about 3.5 standard errors); the slow ones hold the promised limits.
"""

from __future__ import annotations

import numpy as np
import pytest

from noracle.ppi.estimate import estimate_mean
from tests.guarantees.ppi_worlds import CELLS, SHARES, TRUTH, gaussian_worlds, known_means, label_kinds, look_often, shaped_worlds

LOW, HIGH = 0.944, 0.958


def noise(worlds: int) -> float:
    return 3.5 * (0.05 * 0.95 / worlds) ** 0.5


@pytest.mark.parametrize("labelled", [50, 100, 250])
def test_default_interval_covers(labelled: int) -> None:
    worlds = 12_000
    found = shaped_worlds(
        "multippi", 2000, worlds, np.random.default_rng(labelled), labelled=labelled, intervals=("paper", "crossfit-t", "jackknife-t")
    )  # fmt: skip
    assert LOW - noise(worlds) <= found["crossfit-t"].coverage <= HIGH
    assert LOW - noise(worlds) <= found["jackknife-t"].coverage <= HIGH
    cost = found["crossfit-t"].mean_width / found["paper"].mean_width
    assert 1.0 < cost <= {50: 1.12, 100: 1.06, 250: 1.05}[labelled]


@pytest.mark.slow
@pytest.mark.parametrize("labelled", [50, 100, 250])
def test_default_interval_covers_in_120_000_worlds(labelled: int) -> None:
    found = shaped_worlds(
        "multippi", 2000, 120_000, np.random.default_rng(labelled), labelled=labelled, intervals=("paper", "crossfit-t", "jackknife-t")
    )  # fmt: skip
    assert LOW <= found["crossfit-t"].coverage <= HIGH
    assert LOW <= found["jackknife-t"].coverage <= HIGH
    if labelled == 250:
        assert found["crossfit-t"].mean_width <= 1.05 * found["paper"].mean_width


def test_ten_gaussian_raters_at_50_labels() -> None:
    worlds = 3000
    found = gaussian_worlds(2000, worlds, 50, np.random.default_rng(10), intervals=("paper", "crossfit-t"), drop=False)
    assert LOW - noise(worlds) <= found["crossfit-t"].coverage <= HIGH + noise(worlds)
    assert found["paper"].coverage <= 0.915
    assert found["crossfit-t"].mean_width < 0.85 * 2 * 1.96 / 50**0.5  # far narrower than labels alone


@pytest.mark.slow
@pytest.mark.parametrize("drop", [True, False])
def test_ten_gaussian_raters_at_50_labels_in_many_worlds(drop: bool) -> None:
    worlds = 15_000 if drop else 60_000
    found = gaussian_worlds(2000, worlds, 50, np.random.default_rng(11), intervals=("paper", "crossfit-t"), drop=drop)
    assert LOW <= found["crossfit-t"].coverage <= HIGH
    assert found["paper"].coverage <= 0.915


def test_folds_remove_the_bias_of_binary_raters() -> None:
    worlds = 6000
    found = known_means("binary", 250, 10, worlds, np.random.default_rng(12), ("paper", "crossfit-t"), shrink=True)
    assert abs(found["crossfit-t"].bias) <= 0.02 + 2.5 / worlds**0.5
    assert found["paper"].bias > 0.08
    assert found["crossfit-t"].mse <= 1.01 * found["paper"].mse


@pytest.mark.slow
def test_folds_remove_the_bias_of_binary_raters_in_40_000_worlds() -> None:
    found = known_means("binary", 250, 10, 40_000, np.random.default_rng(13), ("paper", "crossfit-t"), shrink=True)
    assert abs(found["crossfit-t"].bias) <= 0.02
    assert found["crossfit-t"].mse <= found["paper"].mse


def test_label_kinds_meet_the_plan() -> None:
    """Complementary labels, ordinary labels and a rater together: variance within 3 % of the planned one."""
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
        found = estimate_mean(None, data, target="human", raters=["human", *"abcdef"])
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
        found = estimate_mean(None, np.concatenate(rows), target="label", raters=["label", "pro", "flash"])
        covered += found.low <= TRUTH <= found.high
    assert covered >= 0.95 * worlds - 3.5 * (0.05 * 0.95 * worlds) ** 0.5
