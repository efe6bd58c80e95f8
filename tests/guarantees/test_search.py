"""What a search reports is true: no bias from missing answers, none from choosing the luckiest, and
races that keep the best.

Worlds with a known truth are those of ``examples/papers/_selection_worlds.py``. The full sizes are
slow; the default suite runs the same tests with fewer repetitions, and says so by the number in
their names.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from noracle import Evidence, estimate_accuracy
from noracle.search.fitness import PairedScores, estimate_fitness
from noracle.search.gate import SHARES, Gate
from noracle.search.pool import Picked, Pool, race_pool
from tests.guarantees.measure import SIGNIFICANT, excess_p_value

sys.path.insert(0, str(Path(__file__).parents[2] / "examples/papers"))

from _data import mmlu_pro
from _selection_worlds import Search, World, outcomes_of, search_once, sizes_of

# -------------------------------------------------------------------------------------------------
# items without an answer


@pytest.mark.full
@pytest.mark.thin(3)
@pytest.mark.parametrize(("n_classes", "published"), [(4, -0.20), (5, -0.30), (10, -0.80)])
def test_no_answer_counts_as_wrong_without_bias_where_the_published_rule_is_far_off(
    n_classes: int, published: float
) -> None:
    rng = np.random.default_rng(n_classes)
    n, accuracy = 1_000_000, 0.54
    key = rng.integers(n_classes, size=n)
    ruled_out = (key + rng.integers(1, n_classes, size=n)) % n_classes
    right = rng.random(n) < accuracy / 0.9
    answer = np.where(right, key, (key + rng.integers(1, n_classes, size=n)) % n_classes)
    silent = rng.random(n) < 0.1
    true = float((right & ~silent).mean())

    columns: dict[str, Any] = {
        "item": np.arange(n),
        "class": ruled_out,
        "verdict": np.full(n, "no"),
    }
    answers = {
        "item": np.arange(n),
        "system": np.full(n, "s"),
        "answer": np.ma.masked_array(answer, silent).tolist(),
    }
    judgements = {name: values.tolist() for name, values in columns.items()}
    answers["item"], answers["system"] = answers["item"].tolist(), answers["system"].tolist()
    estimate = estimate_accuracy(Evidence.from_tables(answers, judgements, n_classes=n_classes))
    assert abs(estimate.value - true) <= 0.005
    assert estimate.low <= accuracy <= estimate.high
    assert estimate.counts["without_answer"] == int(silent.sum())

    weakly_right = np.where(
        silent, 0, answer != ruled_out
    )  # the published rule: an item without an answer counts as excluded
    biased = float(((n_classes - 1) * weakly_right - (n_classes - 2)).mean())
    assert biased - true == pytest.approx(published, abs=0.01)


@pytest.mark.full
@pytest.mark.parametrize("n_classes", [4, pytest.param(5, marks=pytest.mark.slow), 10])
def test_fitness_of_a_candidate_has_no_bias_from_missing_answers(n_classes: int) -> None:
    world = World(agents=1, n_classes=n_classes, accuracy=0.54, silent=0.1)
    answers, labels = world.draw(100_000, np.random.default_rng(n_classes))
    estimate = estimate_fitness(outcomes_of(answers[0]), labels)
    assert abs(estimate.value - 0.54) <= 4 * estimate.se
    assert estimate.counts["invalid"] == int((answers[0] < 0).sum())


# --------------------------------------------------------------------------------------------------------
# honest selection


def searches(
    world: World, sizes: tuple[int, int, int], repetitions: int, seed: int
) -> list[Search]:
    rng = np.random.default_rng(seed)
    return [search_once(world, sizes, rng) for _ in range(repetitions)]


@pytest.mark.full
@pytest.mark.parametrize("repetitions", [60, pytest.param(400, marks=pytest.mark.slow)])
@pytest.mark.parametrize("shared", [0.0, 0.55])
def test_winner_of_37_identical_agents_is_reported_as_good_as_it_is(
    repetitions: int, shared: float
) -> None:
    found = searches(World(shared=shared), sizes_of(88), repetitions, seed=7)
    naive = np.mean([s.validation - s.truth for s in found])
    errors = np.array([s.held_out.value - s.truth for s in found])
    noise = 3 * errors.std() / math.sqrt(repetitions)
    assert naive > 0.17  # the luckiest of 37 looks about 20 points better than it is
    assert abs(errors.mean()) <= (0.02 if repetitions >= 400 else noise)

    missed = sum(not s.held_out.low <= s.truth <= s.held_out.high for s in found)
    assert excess_p_value(missed, repetitions, 0.05) > SIGNIFICANT
    if repetitions >= 400:
        assert missed <= 0.07 * repetitions
    assert np.mean([s.held_out.width for s in found]) <= 1.3 * np.mean(
        [s.wald.width for s in found]
    )
    assert sum(s.false > 0 for s in found) <= 0.05 * repetitions


@pytest.mark.full
@pytest.mark.parametrize("repetitions", [20, pytest.param(400, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("world", "sizes"),
    [
        pytest.param(World(better=0.15), sizes_of(600), id="600 ruled-out classes for validation"),
        pytest.param(
            World(better=0.15, labels="question"),
            tuple(round(s * 600) for s in SHARES),
            id="600 questions in all",
        ),
        pytest.param(
            World(better=0.15, labels="ordinary"),
            tuple(round(s * 600) for s in SHARES),
            id="600 ordinary labels in all",
        ),
    ],
)
def test_agent_that_is_15_points_better_is_returned(
    world: World, sizes: tuple[int, int, int], repetitions: int
) -> None:
    found = searches(world, sizes, repetitions, seed=8)
    returned = np.mean([s.returned == world.agents - 1 for s in found])
    assert returned >= (0.8 if repetitions >= 400 else 0.65)
    assert sum(s.false > 0 for s in found) <= 0.05 * repetitions


# ------------------------------------------------------------------------------------------------------------
# the gate alone


@pytest.mark.full
@pytest.mark.parametrize("n_candidates", [pytest.param(None, marks=pytest.mark.slow), 12])
def test_gate_keeps_its_promise_where_every_candidate_challenges_on_the_same_labels_and_ties(
    n_candidates: int | None,
) -> None:
    """The hardest world for the gate: all candidates are equal, all challenge, and the confirm
    labels are used again each time.
    """
    rng = np.random.default_rng(3)
    worlds, n, k = 2000, 150, 4
    wrong = 0
    for _ in range(worlds):
        key = rng.integers(k, size=n)
        ruled_out = (key + rng.integers(1, k, size=n)) % k
        scores = 1 - (k - 1) * (rng.integers(k, size=(13, n)) == ruled_out)
        gate, incumbent = Gate(0.8, n_candidates), 0
        for agent in range(1, 13):
            pairs = PairedScores(
                item=tuple(range(n)),
                value=scores[agent] - scores[incumbent] + 0.0,
                low=np.full(n, 1.0 - k),
            )
            if gate.challenge(pairs, fresh=True).accepted:
                incumbent = agent
        wrong += bool(gate.accepted_at)
    assert excess_p_value(wrong, worlds, 0.2) > SIGNIFICANT


def test_gate_accepts_what_is_clearly_better() -> None:
    rng = np.random.default_rng(4)
    n, accepted = 400, 0
    for _ in range(100):
        value = rng.choice([1.0, 0.0, -1.0], p=[0.3, 0.6, 0.1], size=n)
        pairs = PairedScores(item=tuple(range(n)), value=value, low=np.full(n, -1.0))
        accepted += Gate().challenge(pairs, fresh=True).accepted
    assert accepted >= 95


# -------------------------------------------------------------------------------------------------------------------
# pools


def pool(n_items: int = 3000, seed: int = 0) -> tuple[Evidence, np.ndarray[Any, Any], str]:
    """Eight systems that share difficult items; the best two differ by a point."""
    rng = np.random.default_rng(seed)
    n_classes = rng.choice([4, 9, 10], size=n_items)
    key = rng.integers(n_classes)
    hard = rng.normal(size=n_items)
    answers: dict[str, list[Any]] = {"item": [], "system": [], "answer": []}
    right = {}
    for s, skill in enumerate([0.55, 0.52, 0.1, 0.0, -0.2, -0.4, -0.6, -0.8]):
        hit = skill + rng.normal(size=n_items) > hard
        answer = np.where(hit, key, (key + 1 + rng.integers(n_classes - 1)) % n_classes)
        silent = rng.random(n_items) < 0.03
        answers["item"] += range(n_items)
        answers["system"] += [f"s{s}"] * n_items
        answers["answer"] += [
            None if none else int(a) for a, none in zip(answer, silent, strict=True)
        ]
        right[f"s{s}"] = float((hit & ~silent).mean())
    items = {"item": list(range(n_items)), "n_classes": n_classes.tolist()}
    return Evidence.from_tables(answers, None, items), key, max(right, key=right.__getitem__)


@pytest.mark.full
def test_targeted_race_keeps_the_best_and_saves_labels() -> None:
    evidence, key, best = pool()
    systems = Pool.read(evidence)

    def race(design: Any, seed: int) -> Picked:
        return race_pool(
            systems, lambda item, k: bool(key[item] == k), design=design, seed=seed, until=2
        )

    picked = {
        design: [race(design, seed) for seed in range(12)] for design in ("targeted", "equal")
    }
    spent = {design: np.mean([len(p.asked) for p in races]) for design, races in picked.items()}
    assert all(best in p.comparison.leaders for p in picked["targeted"])
    assert spent["targeted"] <= 0.8 * spent["equal"]


def _real(mmlu_pro_folder: Path) -> tuple[Evidence, np.ndarray[Any, Any], str]:
    if not (mmlu_pro_folder / "mmlu_pro_predictions.parquet").is_file():
        pytest.skip("NORACLE_DATA has no mmlu_pro_predictions.parquet")
    answers = mmlu_pro()
    n = len(answers.key)
    table = {
        "item": np.tile(np.arange(n), len(answers.systems)).tolist(),
        "system": np.repeat(answers.systems, n).tolist(),
        "answer": [None if a < 0 else a for a in answers.given.ravel().tolist()],
    }
    items = {"item": list(range(n)), "n_classes": answers.n_classes.tolist()}
    return (
        Evidence.from_tables(table, None, items),
        answers.key,
        answers.systems[int(np.argmax(answers.accuracy))],
    )


@pytest.mark.slow
def test_race_on_mmlu_pro_keeps_the_true_best_in_200_repetitions_at_half_the_labels(
    data_folder: Path,
) -> None:
    """Success: the two best systems, a point apart, are left, and nobody else. Then the race goes
    on to the end of the items.
    """
    evidence, key, best = _real(data_folder)
    systems = Pool.read(evidence)
    repetitions = 200

    def race(design: Any, seed: int, until: int) -> Picked:
        return race_pool(
            systems, lambda item, k: bool(key[item] == k), design=design, seed=seed, until=until
        )

    targeted = [race("targeted", seed, 2) for seed in range(repetitions)]
    equal = [race("equal", seed, 2) for seed in range(repetitions)]
    for races in (targeted, equal):
        assert (
            sum(best in p.comparison.leaders and len(p.comparison.leaders) == 2 for p in races)
            >= 0.95 * repetitions
        )
    spent = [np.mean([len(p.asked) for p in races]) for races in (targeted, equal)]
    assert spent[0] <= 0.6 * spent[1]

    whole = [race("targeted", seed, 1) for seed in range(repetitions)]
    assert sum(best in p.comparison.leaders for p in whole) >= 0.95 * repetitions
    assert all(p.separable or "not separable" in " ".join(p.comparison.notes) for p in whole)
