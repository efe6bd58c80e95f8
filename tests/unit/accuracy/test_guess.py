"""A guess that comes with the answer reduces the variance and biases nothing."""

from __future__ import annotations

import numpy as np
import pytest

from noracle import Evidence, EvidenceError, estimate_accuracy, route_items
from noracle.counts import counting
from noracle.simulate import World, simulate_world


def aimed(world: World, seed: int, guess: bool = True) -> Evidence:
    unjudged = Evidence.from_tables(world.answers, items=world.items)
    judgements = route_items(unjudged, design="targeted", epsilon=0.3, seed=seed).columns()
    judgements["verdict"] = ["yes" if world.key[i] == c else "no" for i, c in zip(judgements["item"], judgements["class"], strict=True)]
    answers = dict(world.answers)
    if guess:
        rng = np.random.default_rng(seed)
        right = np.array([a is not None and world.key[i] == a for i, a in zip(answers["item"], answers["answer"], strict=True)])
        answers["guess"] = np.clip(0.1 + 0.8 * right + 0.05 * rng.normal(size=right.size), 0, 1).tolist()
    return Evidence.from_tables(answers, judgements, world.items)


@pytest.mark.slow
def test_guess_narrows_and_stays_unbiased() -> None:
    errors, ratio = [], []
    for seed in range(24):
        world = simulate_world(n_items=300, n_classes=4, systems={"a": 0.7, "b": 0.5}, no_answer=0.1, seed=seed)
        evidence = aimed(world, seed)
        plain, better = (estimate_accuracy(evidence, system="b", guess=g, interval="wald") for g in ("leave-one-out", "column"))
        errors.append((better.value - world.accuracy["b"]) / better.se)
        ratio.append(better.se / plain.se)
    assert float(np.median(ratio)) < 0.75
    assert abs(np.mean(errors)) < 4 / np.sqrt(24)


def test_flat_and_grouped_ways_keep_the_same_guesses() -> None:
    evidence = aimed(simulate_world(n_items=80, n_classes=3, no_answer=0.2, seed=3), 3)
    flat, grouped = (way(evidence, evidence.answers, counting._By(by_guess=True)) for way in (counting._flat, counting._grouped))
    assert flat is not None
    assert dict(flat.tallies) == {t._replace(chance=None): n for t, n in grouped.tallies.items()}
    assert any(t.guess is not None for t in flat.tallies)


def test_missing_guess_column_is_named() -> None:
    evidence = aimed(simulate_world(n_items=50, n_classes=3, seed=1), 1, guess=False)
    with pytest.raises(EvidenceError, match="must have a column guess"):
        estimate_accuracy(evidence, guess="column")
