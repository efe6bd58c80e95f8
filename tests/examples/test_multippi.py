"""The experiments of MultiPPI, re-created: what must hold on the populations, and that the fast
estimator is the package's own.
"""

from __future__ import annotations

import functools
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import _multippi_runs as runs_of
import _multippi_worlds as worlds_of
import multippi
import numpy as np
import pytest
from _multippi_runs import CLASSICAL, KNOWN, MULTIPPI, RESTRICTED, VECTOR

from noracle import ppi
from noracle.ppi import intervals
from noracle.ppi.estimate import estimate_mean

ROOT = Path(__file__).parents[2]
FIGURES = (
    "figure1",
    "figure2",
    "figure6",
    "figure7",
    "figure8",
    "figure9",
    "figure10",
    "figure15",
    "figure-agreement",
)
SMALL = multippi.Size(4000, 0, (50.0, 500.0, 2000.0), (10, 1000), 2)
MAKERS = {"arena": worlds_of.arena, "thinking": worlds_of.thinking, "debate": worlds_of.debate}


def size_of(name: str) -> multippi.Size:
    return SMALL._replace(repetitions=1600) if name == "debate" else SMALL


@functools.cache
def found(name: str) -> tuple[worlds_of.World, runs_of.Runs]:
    world = MAKERS[name]()
    return world, multippi.experiment(world, size_of(name))


# ---------------------------------------------------------------------------------------------------------------
# populations and prices


def test_populations_have_the_shape_of_the_experiments() -> None:
    arena, thinking, debate = worlds_of.arena(), worlds_of.thinking(), worlds_of.debate()
    for world in (arena, thinking, debate):
        assert world.shares.sum() == pytest.approx(1, abs=1e-9)
        assert world.shares.min() > 0
        assert max(world.price((r,)) for r in world.raters) == pytest.approx(1)
    assert arena.cov[0] == pytest.approx([0.2275, 0.1140, 0.1161], abs=5e-5)
    bias = np.abs(thinking.means[1:] - thinking.truth)
    assert (np.diff(bias) > 0).all()  # who thinks longer is more biased …
    assert (np.diff(thinking.correlation()) > 0).all()  # … and nevertheless more useful
    assert debate.truth == pytest.approx(0.5)
    assert debate.price(debate.raters) == pytest.approx(
        sum(a * r for a in range(1, 6) for r in (1, 2)) / 10
    )


def test_price_of_nested_stops_is_equation_8() -> None:
    world = worlds_of.thinking()
    for chosen in worlds_of.all_sets(5):
        words = [125 * c for c in chosen]
        assert world.price(chosen) == pytest.approx(
            (10 * max(words) + 1.25 * sum(words)) / (11.25 * 500)
        )


# ------------------------------------------------------------------------------------------------
# the fast estimator is the package's own


def one_world(world: worlds_of.World) -> tuple[np.ndarray, dict[tuple[int, ...], np.ndarray]]:
    rng = np.random.default_rng(4)
    shares = world.shares / world.shares.sum()
    labelled = world.cells[rng.choice(len(world.cells), size=100, p=shares)]
    sizes = {(1,): 300, (2, 4): 80, (1, 2, 3): 60}
    bought = {
        s: world.cells[rng.choice(len(world.cells), size=n, p=world.shares / world.shares.sum())][
            :, list(s)
        ]
        for s, n in sizes.items()
    }
    return labelled, bought


def as_samples(bought: dict[tuple[int, ...], np.ndarray]) -> list[runs_of.Sample]:
    return [
        runs_of.Sample(
            columns=s,
            who=np.array([0]),
            n=np.array([len(rows)]),
            mean=rows.mean(axis=0)[None],
            cov=np.atleast_2d(np.cov(rows.T))[None],
        )
        for s, rows in bought.items()
    ]


def fold_moments(world: worlds_of.World, labelled: np.ndarray) -> runs_of.Moments:
    rows = labelled.reshape(1, runs_of.FOLDS, -1, world.k)
    return runs_of.Moments.of(rows, np.ones(rows.shape[:-1]), range(world.k), world.means)


def test_fast_value_and_variance_are_those_of_estimate_mean() -> None:
    world = worlds_of.thinking()
    labelled, bought = one_world(world)
    total = runs_of._summed(fold_moments(world, labelled))
    value, variance, _ = runs_of.plug_in(
        total, total.covariance().cov, tuple(range(5)), as_samples(bought), world
    )
    blocks = [labelled]
    for columns, rows in bought.items():
        block = np.full((len(rows), 5), np.nan)
        block[:, list(columns)] = rows
        blocks.append(block)
    slow = estimate_mean(
        np.vstack(blocks), raters=list(world.names), target="correct", interval="paper"
    )
    assert value[0] == pytest.approx(slow.value, abs=1e-10)
    assert np.sqrt(variance[0]) == pytest.approx(slow.se, rel=1e-8)


def test_fast_cross_fit_is_that_of_the_package() -> None:
    world = worlds_of.thinking()
    labelled, bought = one_world(world)
    value, variance, _ = runs_of.cross_fit(
        fold_moments(world, labelled), tuple(range(5)), as_samples(bought), world
    )
    folds = np.eye(runs_of.FOLDS).repeat(20, axis=1)
    samples = [
        intervals.ScoreSample(
            columns=tuple(range(5)), values=labelled, counts=np.ones(100), folds=folds
        )
    ]
    samples += [
        intervals.ScoreSample(columns=s, values=rows, counts=np.ones(len(rows)), pilot=False)
        for s, rows in bought.items()
    ]
    slow = intervals.cross_fit(
        samples, intervals.MeanProblem(target=np.eye(5)[0], design=np.eye(5))
    )
    assert value[0] == pytest.approx(float(slow.value), abs=1e-10)
    assert variance[0] == pytest.approx(float(slow.variance), rel=1e-8)


def test_allocation_keeps_the_budget_and_is_the_plan() -> None:
    world = worlds_of.thinking()
    method = runs_of.methods_of(world)[MULTIPPI]
    costs = np.array([world.price(s) for s in method.sets])
    for budget in (20.0, 500.0):
        (n,) = runs_of.allocate(world, method, world.cov[None], 250, [budget])
        spent = float(n[0] @ costs)
        assert budget - costs.max() < spent <= budget * (1 + 1e-9)
        assert set(n[n < 2].tolist()) == {0}
        lengths = dict(zip(world.names[1:], (125.0, 250.0, 375.0, 500.0), strict=True))
        plan = ppi.plan_budget(
            cov=world.cov,
            names=list(world.names),
            target="correct",
            budgets=budget,
            have={"+".join(world.names): 250},
            costs=ppi.Cascade(lengths=lengths, output=10 / 5625, input=1.25 / 5625),
        )
        M = 250 * np.linalg.inv(world.cov)
        for s, count in zip(method.sets, n[0], strict=True):
            M[np.ix_(s, s)] += count * np.linalg.inv(world.cov[np.ix_(s, s)])
        assert np.linalg.inv(M)[0, 0] == pytest.approx(plan.diagnostics["variance"], rel=2e-3)


def test_risk_given_the_labels_has_the_mean_of_the_squared_errors() -> None:
    _, runs = found("arena")
    for name in ("PPI++ Flash", MULTIPPI, multippi.CROSSFIT):
        own = runs[name, 500.0]
        squares = (own.value - own.truth) ** 2
        off = squares - own.risk
        assert abs(off.mean()) < 4 * off.std() / np.sqrt(len(off)), name


# ---------------------------------------------------------------------------------------------------------------------------
# experiments


@pytest.mark.full
@pytest.mark.parametrize("name", MAKERS)
def test_multippi_is_no_worse_than_the_best_baseline_and_covers(name: str) -> None:
    world, runs = found(name)
    tolerance = {"arena": 0.004, "thinking": 0.006, "debate": 0.015}[name]
    for budget, (best, excess, se) in multippi.margins(runs).items():
        assert excess <= tolerance + 2 * se, (budget, best)
    worlds = size_of(name).worlds(world)
    for (method, budget), own in runs.items():
        noise = 4 * np.sqrt(0.95 * 0.05 / worlds)
        assert 0.93 - noise <= own.coverage <= 0.955 + noise, (method, budget)
        assert abs(own.bias) < 0.1 * own.value.std() + 4 * own.value.std() / np.sqrt(worlds), (
            method,
            budget,
        )
    assert runs[MULTIPPI, 2000.0].mse < 0.85 * runs[CLASSICAL, 2000.0].mse
    assert runs[multippi.CROSSFIT, 2000.0].width > runs[MULTIPPI, 2000.0].width


def test_arena_follows_the_fixture() -> None:
    world, runs = found("arena")
    usual = world.cov[0, 0] / 250
    for budget, mse, width in (
        (50.0, 0.8930, 0.943),
        (500.0, 0.7735, 0.874),
        (2000.0, 0.7266, 0.847),
    ):
        own = runs[MULTIPPI, budget]
        assert own.width / runs[CLASSICAL, budget].width == pytest.approx(width, abs=0.003)
        assert own.mse / usual == pytest.approx(mse, abs=4 * own.risk.std() / usual / np.sqrt(4000))
    best = {b: name for b, (name, _, _) in multippi.margins(runs).items()}
    assert (best[50.0], best[2000.0]) == ("PPI++ Flash", VECTOR)


def test_cheap_raters_lead_at_small_budgets_and_joint_samples_have_opposite_signs() -> None:
    world, runs = found("thinking")
    assert runs_of.best_baseline(runs, 50.0, cascade=False) == "PPI++ tiny"
    assert runs_of.best_baseline(runs, 2000.0, cascade=False) in ("PPI++ large", VECTOR)
    small, _ = runs_of.spending(world, 250, 50.0)
    large, weights = runs_of.spending(world, 250, 2000.0)
    assert max(small, key=lambda s: small[s]) == "tiny"
    assert max(large, key=lambda s: large[s]) == "tiny+large"
    assert weights["tiny+large"]["tiny"] < 0 < weights["tiny+large"]["large"]
    assert sum(w.get("large", 0.0) for w in weights.values()) == pytest.approx(0, abs=1e-9)
    assert weights["labelled"]["correct"] == pytest.approx(1)


@pytest.mark.full
def test_shrinkage_helps_with_ten_raters_and_the_restricted_sets_are_close() -> None:
    world = worlds_of.debate()
    size = SMALL._replace(budgets=(2000.0,), repetitions=6000)
    shrunk, plain = (
        multippi.few_methods(world, size, 50, shrink=s)[MULTIPPI, 2000.0] for s in (True, False)
    )
    excess, se = shrunk.excess(plain)
    assert excess < -2 * se
    runs = multippi.few_methods(world, size, 250, restricted=True)
    assert runs[RESTRICTED, 2000.0].mse == pytest.approx(runs[MULTIPPI, 2000.0].mse, rel=0.05)


def test_raw_raters_are_biased_and_their_intervals_do_not_cover() -> None:
    world, runs = found("thinking")
    groups = multippi.bias_groups(world, runs, 500.0, 1000, 0)
    assert abs(groups["raw"]["raw large"].bias) > 0.07
    assert groups["raw"]["raw large"].coverage < 0.2
    assert max(abs(f.bias) for f in groups["debiased"].values()) < 0.005


def test_ten_labels_are_too_few_for_the_published_interval() -> None:
    runs = multippi.experiment(worlds_of.arena(), SMALL._replace(budgets=(500.0,)), labelled=10)
    assert runs[MULTIPPI, 500.0].coverage < 0.9
    assert runs[KNOWN, 500.0].mse < runs[MULTIPPI, 500.0].mse


# ---------------------------------------------------------------------------------------------------------------------------------
# script


def check_agreement(size: multippi.Size) -> worlds_of.World:
    world = worlds_of.agreement(250, size.budgets, 0, size.pilots)
    runs = multippi.experiment(world, size)
    for budget, (best, excess, se) in multippi.margins(runs).items():
        assert excess <= 0.02 + 2 * se, (budget, best)
    for (method, budget), own in runs.items():
        noise = 4 * np.sqrt(0.95 * 0.05 / size.worlds(world))
        assert 0.93 - noise <= own.coverage <= min(0.96 + noise, 1.0), (method, budget)
    assert runs[MULTIPPI, 2000.0].mse < 0.75 * runs[CLASSICAL, 2000.0].mse
    return world


def test_agreement_of_stand_ins_helps(no_data: None) -> None:
    world = check_agreement(SMALL)
    assert "simulated stand-in" in world.source
    assert world.k == 6


@pytest.mark.slow
def test_agreement_of_19_real_systems_helps(mmlu_pro_file: Path) -> None:
    size = SMALL._replace(repetitions=3000)
    world = check_agreement(size)
    assert world.k == 20
    assert len(world.sets) > 190
    assert multippi.loss_of_likely_sets(world, size, pilots=2) < 0.01


@pytest.mark.slow
def test_page_and_figures_are_written_on_the_stand_in(no_data: None, tmp_path: Path) -> None:
    script = str(ROOT / "examples/papers/multippi.py")
    command = [
        sys.executable,
        "-W",
        "error",
        script,
        "--quick",
        "--repetitions",
        "240",
        "--out",
        str(tmp_path),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr + done.stdout
    text = (tmp_path / "multippi.md").read_text(encoding="utf-8")
    assert text.strip() in done.stdout
    assert "simulated stand-in" in text
    assert re.search(r"\bnan\b", text) is None
    assert text.count("| the paper says |") == 8
    for name in FIGURES:
        assert ET.parse(tmp_path / f"{name}.svg").getroot().tag.endswith("svg")
        assert (tmp_path / f"{name}.png").stat().st_size > 10_000
