"""States of missing answers, and items that were answered more than once."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from noracle import AccuracyCounts, Evidence, compare_systems, estimate_accuracy, race_systems
from noracle.accuracy import check_sensitivity, range_unsure
from noracle.counts import count_accuracy, count_decisions
from noracle.errors import ArgumentError, EvidenceError, EvidenceWarning

K = 4


def world(
    n: int, repeats: int, *, seed: int = 0, same: bool = False, silent: float = 0.1
) -> tuple[dict[str, list[Any]], dict[str, list[Any]]]:
    """Answers with repeats, and one complementary or ordinary label an item."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(K, size=n)
    given = rng.integers(K, size=(n, repeats))
    given = np.where(rng.random((n, repeats)) < 0.6, truth[:, None], given)
    none = rng.random((n, repeats)) < silent
    if same:
        given[:], none[:] = given[:, :1], none[:, :1]
    answers: dict[str, list[Any]] = {"item": [], "system": [], "answer": [], "state": [], "repeat": []}
    for i in range(n):
        for r in range(repeats):
            values = (i, "a", None if none[i, r] else int(given[i, r]), "invalid" if none[i, r] else "answered", r)
            for column, value in zip(answers.values(), values, strict=True):
                column.append(value)
    wrong = (truth + rng.integers(1, K, size=n)) % K
    ordinary = rng.random(n) < 0.2
    judgements = {
        "item": list(range(n)),
        "class": [int(t if o else w) for t, w, o in zip(truth, wrong, ordinary, strict=True)],
        "verdict": ["yes" if o else "no" for o in ordinary],
    }
    return answers, judgements


def first(answers: dict[str, list[Any]]) -> dict[str, list[Any]]:
    keep = [i for i, r in enumerate(answers["repeat"]) if r == 0]
    return {name: [column[i] for i in keep] for name, column in answers.items() if name != "repeat"}


def mean_of_scores(answers: dict[str, list[Any]], judgements: dict[str, list[Any]]) -> dict[int, float]:
    label = {i: (c, v) for i, c, v in zip(*judgements.values(), strict=True)}
    scores: dict[int, list[float]] = {}
    for item, answer in zip(answers["item"], answers["answer"], strict=True):
        kind, verdict = label[item]
        hit = answer == kind
        scores.setdefault(item, []).append(0.0 if answer is None else float(hit) if verdict == "yes" else 1 - (K - 1) * hit)
    return {item: float(np.mean(s)) for item, s in scores.items()}


@pytest.mark.parametrize("method", [None, "ml", "scores"])
def test_identical_repeats_change_nothing(method: Any) -> None:
    answers, judgements = world(200, 4, same=True)
    four = estimate_accuracy(Evidence.from_tables(answers, judgements, n_classes=K), method=method)
    one = estimate_accuracy(Evidence.from_tables(first(answers), judgements, n_classes=K), method=method)
    assert abs(four.se - one.se) <= 1e-9
    assert (four.value, four.low, four.high, four.method) == (one.value, one.low, one.high, one.method)


def test_different_repeats_are_averaged_within_their_item() -> None:
    answers, judgements = world(300, 3, seed=1)
    complementary = {
        name: [v for v, said in zip(column, judgements["verdict"], strict=True) if said == "no"] for name, column in judgements.items()
    }
    keep = set(complementary["item"])
    rows = [i for i, item in enumerate(answers["item"]) if item in keep]
    answers = {name: [column[i] for i in rows] for name, column in answers.items()}
    estimate = estimate_accuracy(Evidence.from_tables(answers, complementary, n_classes=K))
    scores = np.array(list(mean_of_scores(answers, complementary).values()))
    assert estimate.method == "scores"
    # items without any answer score 0 and are counted by their share
    assert estimate.value == pytest.approx(float(scores.mean()), abs=1e-12)
    plain = np.std(scores, ddof=1) / math.sqrt(len(scores))
    assert estimate.se == pytest.approx(plain, rel=0.02)
    assert estimate.counts["answers"] == len(answers["item"])
    assert estimate.counts["items"] == len(keep)
    assert any("mean of its repeats" in note for note in estimate.notes)


def test_repeats_are_not_taken_for_more_labels() -> None:
    answers, judgements = world(100, 5, seed=2, same=True)
    evidence = Evidence.from_tables(answers, judgements, n_classes=K)
    assert sum(count_accuracy(evidence).tallies.values()) == 100


@pytest.mark.slow
def test_estimate_of_repeats_covers_and_is_unbiased() -> None:
    misses, values = 0, []
    for seed in range(60):
        answers, judgements = world(80, 3, seed=100 + seed)
        estimate = estimate_accuracy(Evidence.from_tables(answers, judgements, n_classes=K))
        truth = 0.9 * (0.6 + 0.4 / K)
        misses += not estimate.low <= truth <= estimate.high
        values.append(estimate.value)
        assert estimate.width < 0.75
    assert misses <= 3
    assert abs(np.mean(values) - truth) < 4 * np.std(values) / math.sqrt(len(values))


def test_recorded_questions_with_repeats_keep_their_mean() -> None:
    answers, judgements = world(400, 2, seed=5, silent=0.3)
    rng = np.random.default_rng(0)
    asked = [0.4 if rng.random() < 0.5 else 0.2 for _ in judgements["item"]]
    evidence = Evidence.from_tables(answers, {**judgements, "propensity": asked}, n_classes=K)
    estimate = estimate_accuracy(evidence, guess=0.0)
    expected = []
    label = {i: (c, v, p) for i, c, v, p in zip(*judgements.values(), asked, strict=True)}
    by_item: dict[int, list[float]] = {}
    for item, answer in zip(answers["item"], answers["answer"], strict=True):
        kind, verdict, p = label[item]
        by_item.setdefault(item, []).append((answer is not None and answer == kind and verdict == "yes") / p)
    expected = [float(np.mean(v)) for v in by_item.values()]
    assert estimate.value == pytest.approx(np.mean(expected), abs=1e-9)


@pytest.mark.parametrize("options", [{"method": "ml"}, {"method": "ordinary"}, {"interval": "exact"}, {"false_no": 0.1, "method": "ml"}])
def test_methods_that_count_answers_refuse_repeats_that_differ(options: dict[str, Any]) -> None:
    answers, judgements = world(50, 3, seed=3)
    with pytest.raises(ArgumentError, match=r"method must be|interval must be|repeats of an item differ"):
        estimate_accuracy(Evidence.from_tables(answers, judgements, n_classes=K), **options)


def test_other_verbs_refuse_or_say_that_they_use_the_first() -> None:
    answers, judgements = world(50, 3, seed=3)
    evidence = Evidence.from_tables(answers, judgements, n_classes=K)
    with pytest.raises(ArgumentError, match="one answer per item and system"):
        check_sensitivity(evidence, at_least=0.1)
    with pytest.raises(ArgumentError, match="one answer per item and system"):
        range_unsure(evidence)
    with pytest.raises(EvidenceError, match="must have one row for each item and system"):
        count_accuracy(evidence, by_class=True)
    with pytest.warns(EvidenceWarning, match="only the first"):
        count_decisions(evidence)


def test_one_repeat_of_each_is_no_repeat() -> None:
    answers, judgements = world(20, 1)
    evidence = Evidence.from_tables(answers, judgements, n_classes=K)
    assert evidence.repeats is None
    assert "repeat" not in evidence.answers.columns  # type: ignore[union-attr]


def test_a_repeat_given_twice_is_a_fault() -> None:
    answers = {"item": [1, 1, 2], "system": ["a"] * 3, "answer": [0, 1, 0], "repeat": [1, 1, 1]}
    with pytest.raises(EvidenceError, match="one row for each item and system and repeat; got repeated rows at item 1"):
        Evidence.from_tables(answers, n_classes=2).check()


def test_counts_with_states_and_repeats_survive_json_and_add() -> None:
    answers, judgements = world(60, 2, seed=4)
    counts = count_accuracy(Evidence.from_tables(answers, judgements, n_classes=K))
    assert AccuracyCounts.from_dict(counts.to_dict()) == counts
    twice = counts + counts
    assert twice.states["a", "invalid"] == 2 * counts.states["a", "invalid"]
    assert twice.runs == {"a": 240}
    assert twice.of("a").summary()["answers"] == 240


@pytest.mark.parametrize("shares", [(0.5, None), (0.8, 0.5), (-0.1, 1.0), (0.5, 1.5)])
def test_impossible_shares_of_repeats_are_refused(shares: tuple[float | None, float | None]) -> None:
    answers, judgements = world(20, 2, seed=4)
    data = count_accuracy(Evidence.from_tables(answers, judgements, n_classes=K)).to_dict()
    data["tallies"][0] |= {"hit_share": shares[0], "answered_share": shares[1]}
    with pytest.raises(EvidenceError, match="must be 0 <= hit_share <= answered_share <= 1"):
        AccuracyCounts.from_dict(data)


def test_states_are_counted_by_system() -> None:
    answers = {
        "item": [1, 2, 3, 1, 2, 3],
        "system": ["a"] * 3 + ["b"] * 3,
        "answer": [0, None, None, 1, None, 1],
        "state": ["answered", "errored", "refused", "answered", "invalid", "answered"],
    }
    judgements = {"item": [1, 2, 3], "class": [0, 1, 1], "verdict": ["yes", "no", "yes"]}
    evidence = Evidence.from_tables(answers, judgements, n_classes=3)
    estimates = {s: estimate_accuracy(evidence, system=s) for s in "ab"}
    assert estimates["a"].counts["states"] == {"errored": 1, "refused": 1}
    assert estimates["b"].counts["states"] == {"invalid": 1}
    for comparison in (compare_systems(evidence), race_systems(evidence)):
        assert "a: 2 without an answer (1 errored, 1 refused), counted as wrong" in comparison.notes
        assert "b: 1 without an answer (1 invalid), counted as wrong" in comparison.notes


@pytest.mark.parametrize(("answer", "state"), [(None, "answered"), (1, "invalid"), (1, "lost"), (None, "lost")])
def test_states_that_contradict_the_answer_are_faults(answer: int | None, state: str) -> None:
    answers = {"item": [7, 8], "system": ["a", "a"], "answer": [answer, 0], "state": [state, "answered"]}
    with pytest.raises(EvidenceError, match=r"answers.state must be .* at item 7"):
        Evidence.from_tables(answers, {"item": [8], "class": [0], "verdict": ["yes"]}, n_classes=2).check()
    with pytest.raises(EvidenceError, match=r"answers.state must be"):
        estimate_accuracy(Evidence.from_tables(answers, {"item": [8], "class": [0], "verdict": ["yes"]}, n_classes=2))


def test_answers_without_states_count_as_before() -> None:
    answers = {"item": [1, 2], "system": ["a", "a"], "answer": [0, None]}
    judgements = {"item": [1], "class": [0], "verdict": ["yes"]}
    plain = estimate_accuracy(Evidence.from_tables(answers, judgements, n_classes=2))
    assert "states" not in plain.counts
    stated = estimate_accuracy(Evidence.from_tables({**answers, "state": [None, None]}, judgements, n_classes=2))
    assert stated.counts == plain.counts
