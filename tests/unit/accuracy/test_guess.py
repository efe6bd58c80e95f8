"""A guess that comes with the answer reduces the variance and biases nothing."""

from __future__ import annotations

import numpy as np
import pytest

from noracle import Evidence, EvidenceError, estimate_accuracy, route_items
from noracle.counts import count as counting
from noracle.counts import count_accuracy
from noracle.counts.count import aim_of
from noracle.simulate import World, simulate_world


def aimed(world: World, seed: int, guess: bool = True) -> Evidence:
    unjudged = Evidence.from_tables(world.answers, items=world.items)
    judgements = route_items(unjudged, design="targeted", epsilon=0.3, seed=seed).columns()
    judgements["verdict"] = [
        "yes" if world.key[i] == c else "no"
        for i, c in zip(judgements["item"], judgements["class"], strict=True)
    ]
    answers = dict(world.answers)
    if guess:
        rng = np.random.default_rng(seed)
        right = np.array(
            [
                a is not None and world.key[i] == a
                for i, a in zip(answers["item"], answers["answer"], strict=True)
            ]
        )
        answers["guess"] = np.clip(
            0.1 + 0.8 * right + 0.05 * rng.normal(size=right.size), 0, 1
        ).tolist()
    return Evidence.from_tables(answers, judgements, world.items)


@pytest.mark.slow
def test_guess_narrows_and_stays_unbiased() -> None:
    errors, ratio = [], []
    for seed in range(24):
        world = simulate_world(
            n_items=300, n_classes=4, systems={"a": 0.7, "b": 0.5}, no_answer=0.1, seed=seed
        )
        evidence = aimed(world, seed)
        plain, better = (
            estimate_accuracy(evidence, system="b", guess=g, interval="wald")
            for g in ("leave-one-out", "column")
        )
        errors.append((better.value - world.accuracy["b"]) / better.se)
        ratio.append(better.se / plain.se)
    assert float(np.median(ratio)) < 0.75
    assert abs(np.mean(errors)) < 4 / np.sqrt(24)


def test_flat_and_grouped_ways_keep_the_same_guesses() -> None:
    evidence = aimed(simulate_world(n_items=80, n_classes=3, no_answer=0.2, seed=3), 3)
    by = counting._By(by_guess=True)
    assert evidence.answers is not None
    assert evidence.judgements is not None
    flat = counting._flat(evidence, evidence.answers, evidence.judgements, by)
    grouped = counting._grouped(evidence, evidence.answers, by)
    assert flat is not None
    assert dict(flat.tallies) == {t._replace(chance=None): n for t, n in grouped.tallies.items()}
    assert any(t.guess is not None for t in flat.tallies)


def test_missing_guess_column_is_named() -> None:
    evidence = aimed(simulate_world(n_items=50, n_classes=3, seed=1), 1, guess=False)
    with pytest.raises(EvidenceError, match="must have a column guess"):
        estimate_accuracy(evidence, guess="column")


def _voted(spoil: float = 0.0) -> Evidence:
    """Three systems, questions aimed by their votes; ``spoil`` changes one propensity."""
    world = simulate_world(
        n_items=200, n_classes=4, systems={"a": 0.8, "b": 0.6, "c": 0.5}, no_answer=0.1, seed=5
    )
    columns = route_items(
        Evidence.from_tables(world.answers, items=world.items),
        design="targeted",
        epsilon=0.1,
        seed=2,
    ).columns()
    columns["propensity"][0] *= 1 - spoil
    columns["verdict"] = [
        "yes" if world.key[i] == c else "no"
        for i, c in zip(columns["item"], columns["class"], strict=True)
    ]
    return Evidence.from_tables(world.answers, columns, world.items)


def test_chance_of_every_answer_is_known_where_questions_were_aimed_by_votes() -> None:
    evidence = _voted()
    assert aim_of(evidence) == pytest.approx(0.1)
    for t in count_accuracy(evidence).tallies:
        assert (t.chance is not None) == t.answered
        if t.hit:
            assert 1 / t.chance == pytest.approx((t.yes_score or 0.0) + (t.no_score or 0.0))  # type: ignore[operator]


def test_chance_is_not_known_where_one_propensity_does_not_fit() -> None:
    evidence = _voted(spoil=0.01)
    assert aim_of(evidence) is None
    assert all(t.chance is None for t in count_accuracy(evidence).tallies)
