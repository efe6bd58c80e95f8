"""Coverage at a fixed number of labels: finite-sample intervals never significantly below their
promise, and not by being [0, 1].

The settings marked quick run in the default tests, all of them in the slow ones.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from tests.guarantees.measure import WORLDS, excess_p_value, measure
from tests.guarantees.settings import RECORD, Setting, all_settings

SETTINGS = all_settings()
ASSERTED = {
    "exact",
    "anytime",
    "betting",
    "hoeffding",
    "bernstein",
    "theorem2",
    "proposition3",
    "theorem4",
}


def check(setting: Setting) -> None:
    for interval, method in setting.pairs:
        if interval not in ASSERTED:
            continue
        row = measure(setting, interval, method)
        assert row.guarantee == "finite-sample", row
        assert not row.significant, row
        limit = setting.limits.get(f"{interval} {method}")
        assert limit is None or row.width <= limit, row


@pytest.mark.full
@pytest.mark.parametrize("setting", [s for s in SETTINGS if s.quick], ids=lambda s: s.name)
def test_coverage_is_kept(setting: Setting) -> None:
    check(setting)


@pytest.mark.slow
@pytest.mark.parametrize("setting", [s for s in SETTINGS if not s.quick], ids=lambda s: s.name)
def test_coverage_is_kept_everywhere(setting: Setting) -> None:
    check(setting)


def test_table_spans_what_was_promised() -> None:
    names = [s.name for s in SETTINGS]
    assert len(names) == len(set(names)) >= 60
    for pair in (("exact", "ml"), ("anytime", "ml"), ("betting", "scores")):
        assert sum(pair in s.pairs for s in SETTINGS) >= 40
    assert {f"K={k} " for k in (3, 4, 5, 10, 16, 50)} <= {
        name[: name.index(" ") + 1] for name in names
    }
    for accuracy in (0, 0.02, 0.2, 0.5, 0.78, 0.95, 0.98, 1):
        assert any(f"A={accuracy:g} " in name for name in names), accuracy
    assert sum(bool(s.limits) for s in SETTINGS) >= 30
    assert WORLDS >= 2000


def test_wald_fails_where_it_must_and_is_only_recorded() -> None:
    assert not {interval for interval, _ in RECORD} & ASSERTED
    setting = next(s for s in SETTINGS if s.name == "K=5 A=0.98 n_o=100 n_c=200")
    row = measure(setting, "wald", "ml")
    assert row.guarantee == "asymptotic"
    assert row.coverage < 0.9
    assert row.significant
    assert not measure(setting, "exact", "ml").significant


def test_measurement_finds_an_interval_that_is_too_short() -> None:
    """A 90 % interval sold as a 95 % one is caught."""
    setting = next(s for s in SETTINGS if s.name == "K=4 A=0.78 n_o=300 n_c=0")
    drawn = dataclasses.replace(setting.world, every=None)
    for world in (setting.world, drawn):
        short = measure(Setting(name=setting.name, world=world, confidence=0.9), "profile", "ml")
        assert excess_p_value(round((1 - short.coverage) * WORLDS), WORLDS, 0.05) < 1e-4


def test_excess_p_value_is_the_binomial_tail() -> None:
    from scipy.stats import binom

    for misses in (0, 1, 90, 150):
        assert excess_p_value(misses, 2000, 0.05) == pytest.approx(
            float(binom.sf(misses - 1, 2000, 0.05)), rel=1e-9
        )


def test_worlds_are_seeded() -> None:
    setting = next(s for s in SETTINGS if s.quick)
    draws = [setting.world.draw(np.random.default_rng(7), 50) for _ in range(2)]
    assert np.array_equal(*draws)
