"""What the analysis of labels promises, in simulated worlds: limits cover, tests keep their level,
and both can see what is there.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
from scipy.stats import binom, chi2, chi2_contingency

from noracle.bounds.binomial import clopper_pearson
from noracle.learn import analysis as _label_checks
from noracle.learn.analysis import _noise_by_class, _shares, analyse_labels, check_rows
from noracle.learn.label_table import (
    LabelTable,
    check_dependence,
    measure_use,
    p_at_least,
    p_of,
    rate_of,
    simulate_use,
    sums_by_item,
)
from noracle.learn.labels import biased_transition, draw_ruled_out, feature_chances
from noracle.learn.transition import Transition

if TYPE_CHECKING:
    from numpy.typing import NDArray

pytest.importorskip("sklearn", reason="the learn extra is not installed")

WORLDS = 2000


def most(rate: float, worlds: int = WORLDS) -> int:
    """Events that a rate may give before we call it broken: one false alarm in 10,000 runs."""
    return int(binom.ppf(1 - 1e-4, worlds, rate))


def table_of(
    said: NDArray[np.int64], n_classes: int, truth: NDArray[np.int64] | None = None
) -> LabelTable:
    said = said.reshape(len(said), -1)
    item, slot = np.nonzero(said >= 0)
    return LabelTable(
        n_items=len(said),
        classes=tuple(map(str, range(n_classes))),
        item=item,
        label=said[item, slot],
        truth=truth,
    )


# -------------------------------------------------------------------------------------------------------------------
# limits


@pytest.mark.parametrize(
    ("n", "noise"), [(1, 0.04), (12, 0.0), (12, 0.04), (60, 0.3), (200, 1.0), (200, 0.04)]
)
def test_noise_limits_cover_with_one_label_an_item(n: int, noise: float) -> None:
    rng = np.random.default_rng(1)
    missed = 0
    for hits in rng.binomial(n, noise, WORLDS):
        rate = rate_of("x", sums_by_item(np.arange(n), np.arange(n) < hits), 0.025)
        missed += not rate.low <= noise <= rate.high
    assert missed <= most(0.05)


@pytest.mark.full
@pytest.mark.parametrize("n", [5, 40, pytest.param(150, marks=pytest.mark.slow)])
def test_noise_limits_cover_when_hard_items_fool_all_annotators(n: int) -> None:
    rng = np.random.default_rng(2)
    noise, missed, pooled_missed, width = 0.06, 0, 0, 0.0
    for _ in range(WORLDS):
        hard = (
            rng.random(n) < 0.1
        )  # on a hard item three annotators are wrong with chance 0.6, else never
        wrong = (hard & (rng.random(n) < 0.6))[:, None] & np.ones(3, dtype=bool)
        rate = rate_of("x", sums_by_item(np.repeat(np.arange(n), 3), wrong.reshape(-1)), 0.025)
        missed += not rate.low <= noise <= rate.high
        width += rate.high - rate.low
        low, high = clopper_pearson(int(wrong.sum()), wrong.size, 0.025, 0.025)
        pooled_missed += not low <= noise <= high
    assert missed <= most(0.05)
    if n == 150:
        assert pooled_missed > 2 * most(
            0.05
        )  # labels are not independent: pooling them breaks the promise
        assert width / WORLDS < 1.9 * 2 * 1.96 * math.sqrt(noise * (1 - noise) / n)


@pytest.mark.slow
def test_limits_cover_when_items_have_different_numbers_of_labels() -> None:
    rng = np.random.default_rng(3)
    missed = 0
    for _ in range(WORLDS):
        n = rng.integers(1, 5, 60)
        item = np.repeat(np.arange(60), n)
        wrong = (
            rng.random(len(item)) < np.where(n == 1, 0.4, 0.1)[item]
        )  # noise and number of labels go together
        rate = rate_of("x", sums_by_item(item, wrong), 0.025)
        missed += not rate.low <= (0.4 + 3 * 0.1) / 4 <= rate.high
    assert missed <= most(0.05)


def test_all_rows_of_a_table_hold_together() -> None:
    rng = np.random.default_rng(4)
    T = biased_transition(6, bias="strong", rng=rng).with_noise(0.05)
    noise_missed = share_missed = 0
    expected = T.matrix.mean(axis=0)
    for _ in range(WORLDS):
        truth = rng.integers(0, 6, 90)
        table = table_of(draw_ruled_out(truth, transition=T, rng=rng), 6, truth)
        noise_missed += any(
            not r.low <= 0.05 <= r.high for r in _noise_by_class(table, table, 0.05)
        )
        share_missed += any(
            not r.low <= v <= r.high for r, v in zip(_shares(table, 0.05), expected, strict=True)
        )
    assert noise_missed <= most(0.05)
    assert 0 < share_missed <= most(0.05)


# -----------------------------------------------------------------------------------------------------------------------
# even use


def use_p(said: NDArray[np.int64], n_classes: int, rng: np.random.Generator) -> float:
    table = table_of(said, n_classes)
    found = measure_use(table.item, table.label, n_classes)
    assert found is not None
    return p_of(found.statistic, simulate_use(found, 199, rng)) if found.few else found.p_limit


def copies(rng: np.random.Generator, n: int, k: int) -> NDArray[np.int64]:
    return np.repeat(rng.integers(0, k, n)[:, None], 3, axis=1)


def sets(rng: np.random.Generator, n: int, k: int) -> NDArray[np.int64]:
    return rng.permuted(np.tile(np.arange(k), (n, 1)), axis=1)[:, : k // 2]


def ragged(rng: np.random.Generator, n: int, k: int) -> NDArray[np.int64]:
    return np.where(rng.random((n, 3)) < 0.3, -1, rng.integers(0, k, (n, 3)))


def singles(rng: np.random.Generator, n: int, k: int) -> NDArray[np.int64]:
    return rng.integers(0, k, n)


@pytest.mark.thin(7)
@pytest.mark.parametrize("n", [3, 400])
@pytest.mark.parametrize("kind", [singles, copies, sets, ragged])
def test_even_labels_are_rarely_called_uneven_whatever_the_dependence(kind: object, n: int) -> None:
    rng = np.random.default_rng(5)
    p = np.array([use_p(kind(rng, n, 6), 6, rng) for _ in range(WORLDS)])  # type: ignore[operator]
    assert np.sum(p <= 0.05) <= most(0.05)
    assert np.sum(p <= 0.01) <= most(0.01) + (5 if n > 3 else 0)  # the chi-square limit is a limit
    if n > 3:
        assert np.sum(p <= 0.05) >= binom.ppf(1e-4, WORLDS, 0.05)  # and the test is not idle


def test_plain_chi_square_would_be_fooled_by_copied_labels() -> None:
    rng = np.random.default_rng(6)
    fooled = 0
    for _ in range(300):
        counts = np.bincount(copies(rng, 400, 6).reshape(-1), minlength=6)
        fooled += chi2.sf(((counts - 200) ** 2 / 200).sum(), 5) <= 0.05
    assert fooled > 100


@pytest.mark.full
@pytest.mark.parametrize(
    ("n", "k"),
    [
        (20, 4),
        pytest.param(20, 12, marks=pytest.mark.slow),
        pytest.param(600, 6, marks=pytest.mark.slow),
    ],
)
def test_even_rows_are_rarely_called_uneven(
    n: int, k: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_label_checks, "SIMULATIONS", 199)
    rng = np.random.default_rng(7)
    alarms = 0
    for _ in range(WORLDS):
        truth = rng.choice(k, n, p=(1 + np.arange(k)) / np.sum(1 + np.arange(k)))
        table = table_of(
            draw_ruled_out(truth, transition=Transition.noisy(k, 0.1), rng=rng), k, truth
        )
        alarms += check_rows(table, table, seed=int(rng.integers(1000))).p_value <= 0.05
    assert 0 < alarms <= most(0.05)


def test_biased_rows_are_seen_even_with_few_labels_and_many_classes() -> None:
    rng = np.random.default_rng(8)
    for k, n in ((10, 2000), (50, 3000)):
        truth = rng.integers(0, k, n)
        table = table_of(
            draw_ruled_out(truth, transition=biased_transition(k, bias="strong", rng=rng), rng=rng),
            k,
            truth,
        )
        assert not check_rows(table, table, seed=1).passed


def test_even_labels_on_unbalanced_classes_do_not_refute_uniform_t() -> None:
    rng = np.random.default_rng(9)
    truth = rng.choice(5, 4000, p=[0.8, 0.05, 0.05, 0.05, 0.05])
    found = analyse_labels(draw_ruled_out(truth, n_classes=5, rng=rng), n_classes=5)
    balance, ceiling = found.check("class balance"), found.check("even labels, without truth")
    assert balance is not None
    assert ceiling is not None
    assert not balance.passed
    assert ceiling.passed
    assert not any("refuted" in f for f in found.findings)


@pytest.mark.parametrize("several", [1, 3])
def test_what_uniform_t_cannot_do_is_seen_without_truth_and_rarely_by_chance(several: int) -> None:
    rng = np.random.default_rng(10)
    alarms = 0
    for _ in range(
        WORLDS
    ):  # the hardest case: class 0 is never true, so that it is ruled out as often as is possible
        said = np.stack(
            [draw_ruled_out(np.full(40, 1), n_classes=4, rng=rng) for _ in range(several)], axis=1
        )
        table = table_of(said, 4)
        alarms += p_at_least(sums_by_item(table.item, table.label == 0), 1 / 3) <= 0.05
    assert alarms <= most(0.05)
    truth = rng.integers(0, 4, 500)
    chances = np.where(np.arange(4) == truth[:, None], 0.0, np.where(np.arange(4) == 2, 6.0, 1.0))
    found = analyse_labels(draw_ruled_out(truth, chances=chances, rng=rng), n_classes=4)
    ceiling = found.check("even labels, without truth")
    assert ceiling is not None
    assert not ceiling.passed
    assert any(f.startswith("Uniform T is refuted: estimate T") for f in found.findings)


# -------------------------------------------------------------------------------------------------------------
# feature dependence


def world(
    rng: np.random.Generator, n: int, *, sharpness: float, several: int = 1
) -> tuple[LabelTable, NDArray[np.float64]]:
    """Items in four classes, two kinds each; labels depend on scores that differ between the kinds
    if ``sharpness`` is not 0.
    """
    truth = rng.integers(0, 4, n)
    kind = rng.integers(0, 2, n)
    features = np.stack([truth + 4.0 * kind, rng.normal(size=n)], axis=1) + 0.3 * rng.normal(
        size=(n, 2)
    )
    scores = np.where((np.arange(4) % 2)[None, :] == kind[:, None], 1.0, 0.0)
    chances = feature_chances(scores, truth=truth, sharpness=sharpness)
    first = draw_ruled_out(truth, chances=chances, rng=rng)
    said = np.stack(
        [first, *(np.where(rng.random(n) < 0.8, first, -1) for _ in range(several - 1))], axis=1
    )
    return table_of(said, 4, truth), features


@pytest.mark.slow
@pytest.mark.parametrize(("n", "several"), [(160, 1), (160, 3)])
def test_dependence_is_rarely_found_where_there_is_none(n: int, several: int) -> None:
    rng = np.random.default_rng(11)
    alarms = 0
    for _ in range(WORLDS):
        table, features = world(rng, n, sharpness=0.0, several=several)
        assert table.truth is not None
        check = check_dependence(
            table, features, table.truth, n_clusters=3, n_permutations=99, rng=rng
        )
        assert len(check.parts) >= 3
        alarms += check.p_value <= 0.05
    assert binom.ppf(1e-4, WORLDS, 0.05) <= alarms <= most(0.05)


@pytest.mark.full
def test_dependence_keeps_its_level_in_a_few_worlds() -> None:
    rng = np.random.default_rng(12)
    alarms = 0
    for _ in range(150):
        table, features = world(rng, 160, sharpness=0.0)
        assert table.truth is not None
        check = check_dependence(table, features, table.truth, n_permutations=99, rng=rng)
        assert check.parts
        alarms += check.p_value <= 0.05
    assert alarms <= most(0.05, 150)


def test_biased_noisy_labels_that_know_only_the_class_are_no_dependence() -> None:
    rng = np.random.default_rng(13)
    truth = rng.integers(0, 4, 2000)
    features = truth[:, None] + rng.normal(size=(2000, 3))
    said = draw_ruled_out(
        truth, transition=biased_transition(4, bias="strong", rng=rng).with_noise(0.2), rng=rng
    )
    check = analyse_labels(said, n_classes=4, truth=truth, features=features).check(
        "feature dependence"
    )
    assert check is not None
    assert check.p_value > 0.01


def test_dependence_is_found_where_it_is() -> None:
    rng = np.random.default_rng(14)
    found = 0
    for _ in range(20):
        table, features = world(rng, 400, sharpness=2.0)
        assert table.truth is not None
        check = check_dependence(table, features, table.truth, n_permutations=1999, rng=rng)
        found += not check.passed
        assert len(check.parts) == 4
    assert found >= 19


@pytest.mark.parametrize("several", [1, 3])
def test_statistic_is_the_sum_of_plain_chi_squares(several: int) -> None:
    rng = np.random.default_rng(18)
    truth, blob = rng.integers(0, 4, 400), rng.integers(0, 2, 400)
    said = np.where(
        rng.random((400, several)) < 0.2 * (several > 1),
        -1,
        (truth[:, None] + rng.integers(1, 4, (400, several))) % 4,
    )
    table = table_of(said, 4, truth)
    check = check_dependence(
        table,
        100.0 * blob[:, None] + rng.random((400, 1)),
        truth,
        n_clusters=2,
        n_permutations=99,
        rng=rng,
    )
    expected = 0.0
    for j in range(4):
        counts = np.stack(
            [
                np.bincount(said[(truth == j) & (blob == b)].reshape(-1) + 1, minlength=5)[1:]
                for b in (0, 1)
            ]
        )
        expected += chi2_contingency(np.delete(counts, j, axis=1), correction=False).statistic
    assert check.statistic == pytest.approx(expected)


def test_shuffled_tables_have_the_law_of_shuffled_labels() -> None:
    """The p-value is that of shuffling items one by one, which is slow and plainly right."""
    rng = np.random.default_rng(15)
    table, features = world(rng, 90, sharpness=0.7, several=2)
    assert table.truth is not None
    fast = check_dependence(
        table, features, table.truth, n_permutations=19_999, rng=np.random.default_rng(1)
    )
    from noracle.learn.label_table import _chi_square, _parts  # the same clusters

    seen, total = 0.0, np.zeros(2000)
    for part in _parts(table, features, table.truth, 5, np.random.default_rng(1)):
        drawn = np.zeros((2000, part.n_clusters, 4))
        real = np.zeros((part.n_clusters, 4))
        for met, rules_out in part.tables:
            cluster = np.repeat(np.arange(len(met)), met.sum(axis=1))
            pattern = np.repeat(np.tile(np.arange(met.shape[1]), len(met)), met.reshape(-1))
            real += met @ rules_out
            for b in range(2000):
                np.add.at(drawn[b], cluster, rules_out[rng.permutation(pattern)])
        seen += float(_chi_square(real[None])[0])
        total += _chi_square(drawn)
    slow = p_of(seen, total)
    assert fast.statistic == pytest.approx(seen)
    assert abs(fast.p_value - slow) < 4 * math.sqrt(max(slow * (1 - slow), 0.002) / 2000)


def test_guessed_classes_make_it_a_hint() -> None:
    rng = np.random.default_rng(16)
    truth = rng.integers(0, 4, 600)
    features = truth[:, None] + 0.5 * rng.normal(size=(600, 2))
    said = draw_ruled_out(truth, n_classes=4, rng=rng)
    guess = np.where(rng.random(600) < 0.5, truth, rng.integers(0, 4, 600))
    found = analyse_labels(said, n_classes=4, features=features, predicted=guess)
    check = found.check("feature dependence")
    assert check is not None
    assert check.finding.startswith("heuristic: ")
    assert check.diagnostics["heuristic"]
    assert not check.diagnostics["oracle"]
    assert (
        check.p_value < 0.05
    )  # labels do not depend on the item, but the guesses mix classes: why it promises nothing
    assert any("hint only" in f for f in found.findings)


def test_features_without_differences_are_not_tested() -> None:
    found = analyse_labels([1, 0] * 40, n_classes=3, truth=[0, 1] * 40, features=np.ones((80, 2)))
    check = found.check("feature dependence")
    assert check is not None
    assert math.isnan(check.p_value)
    assert "no class has 20 labelled items with different features" in check.reason


def test_images_are_features_too() -> None:
    rng = np.random.default_rng(17)
    images = rng.integers(0, 255, (100, 4, 4, 3), dtype=np.uint8)
    truth = rng.integers(0, 3, 100)
    found = analyse_labels(
        draw_ruled_out(truth, n_classes=3, rng=rng), n_classes=3, truth=truth, features=images
    )
    check = found.check("feature dependence")
    assert check is not None
    assert 0 < check.p_value <= 1
