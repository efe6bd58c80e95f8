from __future__ import annotations

import numpy as np
import pytest

from noracle import ArgumentError, PatternCounts, Race, compare_systems, race_systems
from noracle.counts import Pattern
from noracle.results import Kind
from noracle.simulate import simulate_world
from tests.guarantees.worlds import Duel, duels


def test_clear_winner_is_found_and_the_rest_left_open() -> None:
    yes = {
        (True, True, True): 200,
        (True, False, False): 120,
        (False, False, False): 50,
        (True, True, False): 15,
        (True, False, True): 15,
    }
    result = compare_systems(
        PatternCounts.from_counts(n_classes=4, systems=("a", "b", "c"), yes=yes)
    )
    assert result.leaders == ("a",)
    assert result.difference("b", "c").verdict == "not separable"
    assert {r.system: (r.best, r.worst) for r in result.ranks} == {
        "a": (1, 1),
        "b": (2, 3),
        "c": (2, 3),
    }


def test_error_rate_is_split_over_the_pairs() -> None:
    yes2 = {(True, False): 40, (False, True): 20, (True, True): 60}
    yes3 = {(*hits, False): n for hits, n in yes2.items()}
    two = compare_systems(
        PatternCounts.from_counts(n_classes=4, systems=("a", "b"), yes=yes2),
        confidence=1 - 0.05 / 3,
    )
    three = compare_systems(
        PatternCounts.from_counts(n_classes=4, systems=("a", "b", "c"), yes=yes3), confidence=0.95
    )
    assert (two.difference("a", "b").low, two.difference("a", "b").high) == pytest.approx(
        (three.difference("a", "b").low, three.difference("a", "b").high)
    )


def test_differences_agree_with_the_difference_of_mean_scores() -> None:
    no = {
        (True, False): 12,
        (False, True): 7,
        (False, False): 300,
        (True, True): 9,
        (None, False): 20,
    }
    yes = {(True, False): 30, (False, True): 12, (True, True): 80, (False, None): 6}
    result = compare_systems(
        PatternCounts.from_counts(n_classes=4, systems=("a", "b"), yes=yes, no=no)
    )
    values = {r.system: r.value for r in result.ranks}
    assert result.difference("a", "b").value == pytest.approx(values["a"] - values["b"])


def test_wald_interval_is_never_reversed() -> None:
    """A mean of scores below -1, far outside what a difference can be."""
    counts = PatternCounts.from_counts(
        n_classes=10, systems=("a", "b"), no={(True, True): 1, (True, False): 3}
    )
    difference = compare_systems(counts, interval="wald").difference("a", "b")
    assert difference.value < -1
    assert -1 <= difference.low <= difference.high <= 1


@pytest.mark.full
def test_mean_difference_is_unbiased_where_yes_goes_with_the_number_of_classes() -> None:
    world = duels((Duel(3, 0.5, 0.3, 0.5, 0.1), Duel(20, 0.5, 0.2, 0.1, 0.6)), 1000)
    rng = np.random.default_rng(5)
    values = [
        compare_systems(world.build(tuple(row))).difference("a", "b").value
        for row in world.draw(rng, 60).tolist()
    ]
    assert np.mean(values) == pytest.approx(world.truth, abs=4 * float(np.std(values)) / 60**0.5)


def test_weights_make_the_promise_asymptotic() -> None:
    patterns = {
        Pattern(4, "yes", (True, False)): 50,
        Pattern(4, "yes", (False, True), weight=9.0): 5,
    }
    result = compare_systems(PatternCounts(systems=("a", "b"), patterns=patterns))
    assert result.guarantee.kind == Kind.ASYMPTOTIC
    assert not result.guarantee.anytime
    assert any("weights differ" in note for note in result.notes)


def test_race_refuses_kinds_that_go_with_items_unless_mixed() -> None:
    race = Race(("a", "b"), n_classes=10)
    race.update(Pattern(3, "yes", (True, False)))
    with pytest.raises(ArgumentError, match="mixed must be True"):
        race.update(Pattern(10, "no", (True, False), n_ruled_out=1))
    with pytest.raises(ArgumentError, match="must bound every item"):
        race.update(Pattern(11, "yes", (True, False)))
    mixed = Race(("a", "b"), n_classes=10, mixed=True)
    mixed.update(Pattern(3, "yes", (True, False)))
    mixed.update(Pattern(10, "no", (True, False), n_ruled_out=1))
    assert mixed.n == 2


def test_race_on_mixed_numbers_of_classes_runs_and_drops_the_worse() -> None:
    world = simulate_world(
        n_items=3000, n_classes=[3, 4], systems={"good": 0.9, "bad": 0.3}, seed=4
    )
    result = race_systems(world.evidence())
    assert result.leaders == ("good",)
    assert 0 < result.dropped["bad"] < 3000
    assert result.diagnostics["labels_read"] == 3000


def test_two_systems_are_needed_and_names_must_match() -> None:
    counts = PatternCounts.from_counts(n_classes=4, systems=("a", "b"), yes={(True, False): 3})
    with pytest.raises(ArgumentError, match="the ones that were counted"):
        compare_systems(counts, systems=["b", "a"])
    with pytest.raises(ArgumentError, match="at least two"):
        compare_systems(PatternCounts.from_counts(n_classes=4, systems=("a",), yes={(True,): 3}))
    with pytest.raises(ArgumentError, match="at least two"):
        Race(("a",), n_classes=3)


@pytest.mark.full
def test_aimed_questions_compare_systems_without_bias() -> None:
    """Asked about a's answer with 0.8, else about another class; b differs from a on some items."""
    rng = np.random.default_rng(9)
    k, near = 4, 0.8
    far = (1 - near) / (k - 1)
    values = []
    for _ in range(40):
        patterns: dict[Pattern, int] = {}
        for _ in range(400):
            truth, alike = int(rng.integers(k)), rng.random() < 0.6
            a = truth if rng.random() < 0.7 else (truth + 1) % k
            b = a if alike else (a + 1 + int(rng.integers(k - 1))) % k
            asked = a if rng.random() < near else (a + 1 + int(rng.integers(k - 1))) % k
            yes = asked == truth
            score = 1 / (near if asked == a else far)
            hits = (asked == a, asked == b)
            pattern = Pattern(
                k,
                "yes" if yes else "no",
                hits,
                n_ruled_out=int(not yes),
                design="recorded",
                yes_scores=tuple(score * h * yes for h in hits),
                no_scores=tuple(score * h * (not yes) for h in hits),
                groups=(0, 0) if a == b else (0, 1),
            )
            patterns[pattern] = patterns.get(pattern, 0) + 1
        values.append(
            compare_systems(PatternCounts(systems=("a", "b"), patterns=patterns)).difference(
                "a", "b"
            )
        )
    truth_difference = 0.7 - (0.6 * 0.7 + 0.4 * 0.3 / 3)
    means = [d.value for d in values]
    assert np.mean(means) == pytest.approx(truth_difference, abs=4 * float(np.std(means)) / 40**0.5)
    assert sum(d.low <= truth_difference <= d.high for d in values) >= 36


def test_labels_that_contradict_themselves_are_not_reversed() -> None:
    counts = PatternCounts.from_counts(
        n_classes=3, systems=("a", "b"), yes={(True, True): 1}, no={(True, False): 22}
    )
    difference = compare_systems(counts).difference("a", "b")
    assert -1 <= difference.low <= difference.high <= 1
