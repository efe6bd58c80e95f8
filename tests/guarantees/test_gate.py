"""Histories of 200 commits: what the gate promises, against honest teams and adversaries.

Every outcome comes from the limits and the ledger's rules that ``noracle gate`` uses. Many histories
go side by side: for each number of labels the verdicts that pass or fail are found once.
"""

from __future__ import annotations

import functools
import math
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom

from noracle.bounds.binomial import hypergeometric_limits
from noracle.bounds.histories import history_share, step_error
from noracle.bounds.paired import finite_difference
from noracle.gate import GateClaim, GateLedger, GateRun
from tests.unit.gate.worlds import GateWorld

ERROR = 0.05
SIZES = [
    pytest.param(30, 12, id="small"),
    pytest.param(1000, 200, id="whole", marks=pytest.mark.slow),
]


def at_most(misses: int, worlds: int, rate: float = ERROR) -> bool:
    """Whether so many misses are compatible with the promise, at 1 in 1,000."""
    return bool(binom.sf(misses - 1, worlds, rate) > 1e-3)


@functools.cache
def bars(n: int, size: int, bar: float, level: float) -> tuple[int, int]:
    """The fewest right answers that pass, and the most that fail."""

    def first(wanted: int) -> int:
        low, high = -1, n + 1
        while high - low > 1:
            middle = (low + high) // 2
            limits = hypergeometric_limits(middle, n, size, level / 2, level / 2)
            low, high = (low, middle) if limits[wanted] >= bar else (middle, high)
        return high

    return first(0), first(1) - 1


def reused(
    right: np.ndarray, vault: int, t: int, unusual: np.ndarray, bar: float, *, counts: bool
) -> np.ndarray:
    """1 passed, -1 failed, 0 undecided, for histories whose labels decided before; the labels are
    the first ``vault`` items, which is as random as any where items are in random order.
    """
    n_histories, size = right.shape
    found = np.zeros(n_histories, dtype=int)
    hits = right[:, :vault].sum(axis=1)
    for i in np.unique(unusual):
        level = step_error(t, ERROR) * history_share(t - 1, int(i)) if counts else ERROR
        if level < 1e-300:
            continue
        passes, fails = bars(vault, size, bar, level)
        mine = unusual == i
        found[mine & (hits >= passes)] = 1
        found[mine & (hits <= fails)] = -1
    return found


@pytest.mark.parametrize(("worlds", "commits"), SIZES)
@pytest.mark.parametrize("adversary", ["honest", "keeps what passes", "tunes on outcomes"])
def test_no_system_that_is_too_bad_ever_passes(worlds: int, commits: int, adversary: str) -> None:
    ever = false_passes(worlds, commits, adversary)
    assert at_most(int(ever.sum()), worlds), ever.mean()


@pytest.mark.slow
@pytest.mark.parametrize(("adversary", "more"), [("honest", 0.5), ("tunes on outcomes", 0.15)])
def test_a_gate_that_counts_nothing_is_broken_by_them(adversary: str, more: float) -> None:
    assert false_passes(100, 100, adversary, counts=False).mean() > more


def false_passes(worlds: int, commits: int, adversary: str, *, counts: bool = True) -> np.ndarray:
    """Whether a system was ever passed, where every one is below the bar. The adversary changes
    answers and keeps a change when the outcome got better; the tuning one first asks for less, where
    outcomes tell most, and now and then for what it wants.
    """
    rng = np.random.default_rng([7, worlds, len(adversary)])
    n_items, vault, bar = 1000, 200, 0.8
    n_right = math.ceil(bar * n_items) - 1  # as good as can be, and too bad
    order = rng.random((worlds, n_items)).argsort(axis=1)
    right = order < n_right
    unusual = np.zeros(worlds, dtype=int)
    best = np.full(worlds, -2)
    ever = np.zeros(worlds, dtype=bool)
    probe = np.full(worlds, bar)
    for t in range(1, commits + 1):
        trial = right.copy()
        k = 10  # so many answers become right, and as many others wrong
        for world in range(worlds) if adversary != "honest" else ():
            wrong = rng.choice(np.flatnonzero(~right[world]), k, replace=False)
            lost = rng.choice(np.flatnonzero(right[world]), k, replace=False)
            trial[world, wrong], trial[world, lost] = True, False
        if adversary == "honest":
            trial = rng.random((worlds, n_items)).argsort(axis=1) < n_right
        asked = bar
        if adversary == "tunes on outcomes" and t % 2:
            asked = float(np.round(np.median(probe), 2))  # where pass and undecided meet
        outcome = reused(trial, vault, t, unusual, asked, counts=counts)
        ever |= (outcome == 1) & (asked >= bar)
        unusual += outcome != 1
        better = outcome >= best
        if adversary == "tunes on outcomes":
            probe = np.clip(probe + np.where(outcome == 1, 0.01, -0.01), 0.4, bar)
            better = outcome == 1
        right[better] = trial[better]
        best = np.where(better, outcome, best)
    return ever


@pytest.mark.parametrize(("worlds", "commits"), SIZES)
@pytest.mark.parametrize("difference", [-11, 0])
def test_new_labels_never_pass_a_drop_and_never_fail_what_is_as_good(
    worlds: int, commits: int, difference: int
) -> None:
    """10 % of 1,000 answers change at every commit, 30 of the changed items get a new label; the
    rest is open. With -11 of 1,000 a pass is false (margin 1 %), with 0 a fail is (an A/A flip).
    """
    rng = np.random.default_rng([11, worlds, -difference])
    n_items, changed, labels, margin = 1000, 100, 30, 0.01
    won = 40
    lost = won - difference
    cells = [won, lost, changed - won - lost]
    ever = np.zeros(worlds, dtype=bool)
    undecided = 0
    for t in range(1, commits + 1):
        level = step_error(t, ERROR)
        drawn = rng.multivariate_hypergeometric(cells, labels, size=worlds)
        for (wins, losses), count in _counted(drawn):
            limits = finite_difference(wins, losses, labels, changed, level / 2, level / 2)
            passed = round(limits.low * changed) >= -margin * n_items
            failed = round(limits.high * changed) < -margin * n_items
            false = passed if difference < 0 else failed
            undecided += len(count) * (not passed and not failed)
            if false:
                ever[count] = True
    assert at_most(int(ever.sum()), worlds), ever.mean()
    assert undecided > 0


def _counted(drawn: np.ndarray) -> list[tuple[tuple[int, int], np.ndarray]]:
    pairs, inverse = np.unique(drawn[:, :2], axis=0, return_inverse=True)
    inverse = inverse.reshape(-1)
    return [((int(w), int(c)), np.flatnonzero(inverse == k)) for k, (w, c) in enumerate(pairs)]


@pytest.mark.parametrize(("worlds", "commits"), SIZES)
def test_an_adversary_who_knows_all_old_labels_gains_nothing_from_new_ones(
    worlds: int, commits: int
) -> None:
    """At each commit 20 new labels come, and what was labelled is answered right from then on; the
    others make up for it, so that every system is one answer below the bar.
    """
    rng = np.random.default_rng([13, worlds])
    n_items, new, bar = 5000, 20, 0.8
    ever = np.zeros(worlds, dtype=bool)
    for t in range(1, commits + 1):
        known = (t - 1) * new
        still = n_items - known
        right = math.ceil(bar * n_items) - 1 - known  # among those not labelled yet
        if right < 0:
            break
        level = step_error(t, ERROR)
        hits = rng.hypergeometric(right, still - right, new, size=worlds)
        for s in np.unique(hits):
            low, _ = hypergeometric_limits(int(s), new, still, level / 2, level / 2)
            if known + round(low * still) >= bar * n_items:
                ever |= hits == s
    assert at_most(int(ever.sum()), worlds), ever.mean()


@pytest.mark.parametrize("worlds", [20, pytest.param(200, marks=pytest.mark.slow)])
@pytest.mark.parametrize("discordance", ["lost only", "half of the changes", "every change"])
def test_a_drop_of_five_points_fails_at_commit_50(worlds: int, discordance: str) -> None:
    """10 % of 10,000 answers changed, the accuracy dropped by 5 points, 49 decisions went before:
    the labels that the plan asks for find it in four of five worlds, and are at most 400.
    """
    rng = np.random.default_rng([17, worlds])
    n_items, changed, margin, t = 10_000, 1000, 0.01, 50
    won = {"lost only": 0, "half of the changes": 10, "every change": 250}[discordance]
    cells = [won, won + 500, changed - 500 - 2 * won]
    needed = planned(t)
    assert needed <= 400
    level = step_error(t, ERROR)
    drawn = rng.multivariate_hypergeometric(cells, needed, size=worlds)
    failed = 0
    for (wins, losses), count in _counted(drawn):
        limits = finite_difference(wins, losses, needed, changed, level / 2, level / 2)
        failed += len(count) * (round(limits.high * changed) < -margin * n_items)
    assert binom.cdf(failed, worlds, 0.8) > 1e-3
    if worlds >= 200:
        assert failed / worlds >= 0.8


@functools.cache
def planned(t: int) -> int:
    """What the gate plans for commit t, with no label yet."""
    world = GateWorld(n=10_000)
    world.change("new", lost=1000)
    run = GateRun(world.evidence([world.order[0]]))
    run.error = lambda *, reused=False: (t, step_error(t, ERROR), step_error(t, ERROR))  # type: ignore[method-assign]
    return run.design(GateClaim(system="new", base="base", margin=0.01)).needed["fail"]


@pytest.mark.full
@pytest.mark.parametrize("commits", [6, pytest.param(60, marks=pytest.mark.slow)])
def test_what_is_simulated_here_is_what_the_gate_does(tmp_path: Path, commits: int) -> None:
    """The same histories through files of a ledger: old labels, and new ones against a base."""
    n_items, vault = 500, 100
    for seed, bar in enumerate((0.6, 0.8, 0.9)):
        world, rng = GateWorld(n=n_items, seed=seed), np.random.default_rng([19, seed])
        path, unusual = tmp_path / f"{seed}.jsonl", 0
        labels = world.order[:vault]
        for t in range(1, commits + 1):
            old = world.answers["base"]
            flip = {i: i % 5 + 6 * (a == i % 5) for i, a in old.items()}
            new = {i: a if rng.random() < 0.9 else flip[i] for i, a in old.items()}
            world.answers["new"] = new
            right = np.array([[new[i] == world.key(i) for i in world.order]])
            level = step_error(t, ERROR)
            if t == 1:
                passes, fails = bars(vault, n_items, bar, level)
                hits = int(right[0, :vault].sum())
                wanted = 1 if hits >= passes else -1 if hits <= fails else 0
            else:
                wanted = int(reused(right, vault, t, np.array([unusual]), bar, counts=True)[0])
            found = world.decide(path, labels, GateClaim(system="new", at_least=bar))[0]
            assert found.outcome == {1: "pass", -1: "fail", 0: "undecided"}[wanted]
            unusual += found.outcome != "pass"
        changed = [i for i in world.order if new[i] != old[i]]
        known = [i for i in changed if i in set(labels)]
        more = [i for i in changed if i not in set(labels)][:20]
        gains = {i: int(new[i] == i % 5) - int(old[i] == i % 5) for i in changed}
        signs = [gains[i] for i in more]
        level = step_error(commits + 1, ERROR)
        size = len(changed) - len(known)
        law = (signs.count(1), signs.count(-1), len(more), size, level / 2, level / 2)
        limits, sure = finite_difference(*law), sum(gains[i] for i in known)
        low, high = (round(x * size) + sure for x in (limits.low, limits.high))
        wanted = 1 if low >= -0.01 * n_items else -1 if high < -0.01 * n_items else 0
        claim = GateClaim(system="new", base="base", margin=0.01)
        found = world.decide(path, [*labels, *more], claim)[0]
        assert (found.test, found.t) == ("fresh", commits + 1)
        assert found.outcome == {1: "pass", -1: "fail", 0: "undecided"}[wanted]


@pytest.mark.slow
def test_a_drop_at_commit_50_through_files_of_a_ledger(tmp_path: Path) -> None:
    """The same through the ledger: 49 commits with a few labels each, then the drop."""
    failed, worlds = 0, 5
    for seed in range(worlds):
        path = tmp_path / f"{seed}.jsonl"
        world = GateWorld(n=2000, seed=seed)
        labels = world.order[:100]
        for t in range(1, 50):
            world.answers["new"] = {i: a + 20 * (i == t) for i, a in world.answers["base"].items()}
            claim = GateClaim(system="new", base="base", margin=0.01)
            world.decide(path, labels, claim)
        world.change("new", lost=110, won=10)
        world.answers["new"] |= {
            i: 19 for i in world.order if world.answers["base"][i] > 4 and i % 4 == 0
        }
        with GateLedger(path) as ledger:
            plan = GateRun(world.evidence(labels), ledger=ledger).design(claim)
        assert plan.t == 50
        assert plan.needed["fail"] <= 400
        more = [int(i) for i in plan.ask[: plan.needed["fail"]]]
        failed += world.decide(path, [*labels, *more], claim)[0].outcome == "fail"
    assert failed >= 0.8 * worlds
