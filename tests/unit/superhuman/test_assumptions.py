"""Checks of assumptions (2) and (6) on items with known answers."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from noracle import ArgumentError, EvidenceError
from noracle.counts.ratings import RatingCounts
from noracle.evidence.ratings import Ratings
from noracle.results import Kind, read_result
from noracle.superhuman import aggregate_labels, check_assumptions, estimate_ceiling
from noracle.superhuman.assumptions import KnownItems
from noracle.superhuman.ceiling import AGREEMENT
from tests.guarantees.measure import excess_p_value


def rated(
    n: int,
    *,
    accuracies: tuple[float, ...] = (0.8, 0.7, 0.75),
    labels: int = 5,
    hard: float = 0.0,
    seed: int = 0,
) -> tuple[np.ndarray, np.ndarray]:
    """Raters who are independent given the item; on a share of hard items everybody guesses."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, labels, n)
    wrong = (truth[:, None] + rng.integers(1, labels, (n, len(accuracies)))) % labels
    right = rng.random(wrong.shape) < np.where(rng.random((n, 1)) < hard, 1 / labels, accuracies)
    return np.where(right, truth[:, None], wrong), truth


def turns(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Of three raters exactly two are right on every item, in turn."""
    truth = np.arange(n) % 2
    right = (np.arange(n)[:, None] + np.arange(3)) % 3 > 0
    return np.where(right, truth[:, None], 1 - truth[:, None]), truth


# -------------------------------------------------------------------------------------------------------------------
# (2)


def test_raters_who_share_hard_items_support_2() -> None:
    check = check_assumptions(*rated(3000, hard=0.3))
    assert check.passed
    assert not check.refutes_only
    assert check.finding.startswith("supported")
    assert check.diagnostics["every_pair_supported"]
    assert check.diagnostics["right_given_other_right"] > check.diagnostics["right"]
    assert len(check.parts) == 3
    assert all(p["low"] <= p["difference"] <= p["high"] for p in check.parts)


def test_raters_who_take_turns_fail_2_and_the_ceiling_loses_its_promise() -> None:
    ratings, truth = turns(900)
    check = check_assumptions(ratings, truth)
    assert not check.passed
    assert "agree less often than independent" in check.finding
    counts = RatingCounts.from_arrays(ratings, pairs=True)
    assert (
        estimate_ceiling(counts, method="pairwise", checks=[check]).guarantee.kind == Kind.HEURISTIC
    )


def test_few_items_leave_2_undecided() -> None:
    check = check_assumptions(*rated(12, hard=0.3))
    assert check.passed
    assert check.refutes_only
    assert check.finding.startswith("undecided")
    statuses = {
        a.name: a.status
        for a in estimate_ceiling(
            _counts(12), method="pairwise", checks=[check]
        ).guarantee.assumptions
    }
    assert statuses[AGREEMENT] == "assumed"


def _counts(n: int) -> RatingCounts:
    return RatingCounts.from_arrays(rated(n)[0], pairs=True)


def test_supported_2_is_written_to_the_guarantee() -> None:
    ratings, truth = rated(3000, hard=0.3)
    counts, check = RatingCounts.from_arrays(ratings, pairs=True), check_assumptions(ratings, truth)
    estimate = estimate_ceiling(counts, method="pairwise", checks=[check])
    assert {a.name: a.status for a in estimate.guarantee.assumptions}[AGREEMENT] == "checked"
    assert estimate.guarantee.kind == Kind.FINITE_SAMPLE


def test_no_known_item_is_undecided() -> None:
    check = check_assumptions([[0, 0], [1, 1]], [-1, -1])
    assert math.isnan(check.p_value)
    assert check.finding.startswith("undecided")
    assert not check.diagnostics["every_pair_supported"]


def test_a_pair_without_common_items_is_not_supported() -> None:
    ratings, truth = rated(3000, hard=0.4)
    ratings[::2, 0] = -1
    ratings[1::2, 1] = -1
    check = check_assumptions(ratings, truth)
    assert check.diagnostics["pairs_without_items"] == 1
    assert not check.diagnostics["every_pair_supported"]


def test_independent_raters_are_rarely_supported_and_rarely_refuted() -> None:
    """At the boundary P_ij = p_i·p_j (errors never meet) both mistakes stay below 5 %."""
    supported = refuted = 0
    runs = 400
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        right = rng.random((80, 2)) < (0.6, 0.7)
        ratings = np.where(
            right, 0, [1, 2]
        )  # wrong labels differ, so that agreement is being right together
        check = check_assumptions(ratings, np.zeros(80, dtype=int), seed=seed)
        supported += check.diagnostics["every_pair_supported"]
        refuted += check.p_value < 0.05
    assert excess_p_value(supported, runs, 0.05) > 1e-4
    assert excess_p_value(refuted, runs, 0.05) > 1e-4


def test_difference_of_a_pair_is_unbiased() -> None:
    """The two-item score has mean P_ij - p_i·p_j exactly, by enumeration of two items."""
    cells = {
        (1, 1, 1): 0.5,
        (1, 0, 0): 0.2,
        (0, 1, 0): 0.15,
        (0, 0, 1): 0.05,
        (0, 0, 0): 0.1,
    }  # right i, right j, agree
    mean = sum(
        p * q * ((a + b) / 2 - (x * w + z * y) / 2)
        for (x, y, a), p in cells.items()
        for (z, w, b), q in cells.items()
    )
    agree = sum(p for (_, _, a), p in cells.items() if a)
    first, second = (
        sum(p for (x, _, _), p in cells.items() if x),
        sum(p for (_, y, _), p in cells.items() if y),
    )
    assert mean == pytest.approx(agree - first * second)


def test_cifar_10n_supports_2(data_folder: Path) -> None:
    data = np.load(data_folder / "cifar10_train.npz")
    check = check_assumptions(data["annotators"], data["label"])
    assert check.diagnostics["every_pair_supported"]
    assert check.diagnostics["right"] == pytest.approx(0.8233, abs=1e-4)
    assert all(0.84 < p["right_given_other_right"] < 0.852 for p in check.parts)


# -------------------------------------------------------------------------------------------------------------------
# (6)


def system_of(truth: np.ndarray, accuracy: float, labels: int, seed: int = 9) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.where(
        rng.random(len(truth)) < accuracy,
        truth,
        (truth + rng.integers(1, labels, len(truth))) % labels,
    )


def test_a_good_system_supports_6() -> None:
    ratings, truth = rated(1000)
    check = check_assumptions(
        ratings, truth, system="agent", answers={"agent": system_of(truth, 0.9, 5)}
    )
    assert check.passed
    assert check.diagnostics["supported"]
    assert check.diagnostics["system"] == "agent"
    assert check.diagnostics["confidence"] == 0.95
    assert check.diagnostics["accuracy_minus_match_rate"] > 0
    assert check.parts[0]["right"] + check.parts[0]["same_as_vote"] + check.parts[0][
        "other_wrong"
    ] == pytest.approx(1)
    assert read_result(json.loads(check.to_json())).to_dict() == check.to_dict()


def test_a_system_that_repeats_the_vote_fails_6() -> None:
    ratings, truth = rated(1000)
    vote = KnownItems.from_arrays(ratings, truth).plurality(0)
    check = check_assumptions(ratings, truth, system="copy", answers={"copy": vote})
    assert not check.passed
    assert not check.diagnostics["supported"]
    assert check.finding.startswith("fails")


def test_few_wrong_votes_leave_6_undecided() -> None:
    ratings, truth = rated(1000)
    ok = np.flatnonzero(KnownItems.from_arrays(ratings, truth).plurality(0) != truth)[:3]
    check = check_assumptions(ratings[ok], truth[ok], system="a", answers={"a": truth[ok]})
    assert check.counts["right"] == 3
    assert check.passed
    assert not check.diagnostics["supported"]  # 3 of 3 right: one in eight by chance
    assert check.refutes_only
    assert check.finding.startswith("undecided")


@pytest.mark.parametrize(
    ("right", "same", "supported"),
    [(4, 0, False), (5, 0, True), (7, 1, True), (6, 1, False), (9, 3, False)],
)
def test_support_of_6_is_an_exact_binomial_test(right: int, same: int, supported: bool) -> None:
    n = right + same
    answers = [0] * right + [1] * same
    check = check_assumptions([[1, 1, 1]] * n, [0] * n, system="a", answers={"a": answers})
    tail = (
        sum(math.comb(n, k) for k in range(right, n + 1)) / 2**n
    )  # as many right, or more, of fair coins
    assert check.diagnostics["supported"] == supported == (tail <= 0.05)
    below = sum(math.comb(n, k) for k in range(right + 1)) / 2**n
    assert check.p_value == pytest.approx(below)


def test_no_wrong_vote_is_undecided() -> None:
    check = check_assumptions([[0, 0]] * 5, [0] * 5, system="a", answers={"a": [0] * 5})
    assert math.isnan(check.p_value)
    assert not check.diagnostics["supported"]
    assert "no item where the vote is wrong" in check.reason


def test_an_item_without_answer_counts_for_neither() -> None:
    check = check_assumptions(
        [[1, 1]] * 6, [0] * 6, system="a", answers={"a": [-1, -1, 0, 0, 1, 2]}
    )
    assert (check.counts["right"], check.counts["same_as_vote"], check.counts["vote_wrong"]) == (
        2,
        1,
        6,
    )
    assert check.parts[0]["no_answer"] == pytest.approx(2 / 6)


def test_ties_do_not_see_the_system() -> None:
    ratings, truth = rated(500, accuracies=(0.5, 0.5))
    votes = [
        KnownItems.from_arrays(ratings, truth, answers={"a": a}).plurality(3)
        for a in (truth, np.zeros(500), ratings[:, 0])
    ]
    assert (votes[0] == votes[1]).all()
    assert (votes[0] == votes[2]).all()
    tied = ratings[:, 0] != ratings[:, 1]
    assert 0.4 < (votes[0] == ratings[:, 0])[tied].mean() < 0.6


def test_another_aggregate_can_be_given() -> None:
    ratings, truth = rated(300)
    answers = {"a": system_of(truth, 0.9, 5)}
    by_first = check_assumptions(
        ratings, truth, system="a", answers=answers, aggregate=ratings[:, 0]
    )
    assert by_first.counts["vote_wrong"] == int((ratings[:, 0] != truth).sum())


def test_labels_of_an_aggregation_can_be_given_and_tied_items_count_for_neither() -> None:
    evidence, known, *_ = tables()
    majority = aggregate_labels(evidence, method="majority", ties="random")
    assert (
        check_assumptions(evidence, known, system="agent", aggregate=majority.labels).counts[
            "items"
        ]
        == 100
    )
    undecided = dict.fromkeys(majority.labels)
    check = check_assumptions(evidence, known, system="agent", aggregate=undecided)
    assert (check.counts["items"], check.counts["vote_wrong"]) == (0, 0)
    assert not check.diagnostics["supported"]


# --------------------------------------------------------------------------------------------------------------------
# tables


def tables(
    n: int = 200,
) -> tuple[Ratings, dict[str, list[object]], np.ndarray, np.ndarray, np.ndarray]:
    ratings, truth = rated(n, hard=0.3)
    answers = system_of(truth, 0.9, 5)
    long = {
        "item": [f"q{i}" for i in range(n) for _ in range(3)],
        "rater": ["ann", "bob", "cy"] * n,
        "label": [f"c{v}" for v in ratings.reshape(-1)],
    }
    said = {
        "item": [f"q{i}" for i in range(n)],
        "system": ["agent"] * n,
        "answer": [f"c{v}" for v in answers],
    }
    known: dict[str, list[object]] = {
        "item": [f"q{i}" for i in range(0, n, 2)],
        "label": [f"c{v}" for v in truth[::2]],
    }
    return Ratings.from_tables(long, said), known, ratings[::2], truth[::2], answers[::2]


def test_tables_and_arrays_count_the_same() -> None:
    evidence, known, ratings, truth, answers = tables()
    ours, theirs = check_assumptions(evidence, known), check_assumptions(ratings, truth)
    assert ours.counts["items"] == theirs.counts["items"] == 100
    for a, b in zip(ours.parts, theirs.parts, strict=True):
        assert (a["n"], a["agree"], a["difference"]) == pytest.approx(
            (b["n"], b["agree"], b["difference"])
        )
    assert ours.parts[0]["raters"] == "ann and bob"
    by_vote = {
        f"q{2 * i}": f"c{v}"
        for i, v in enumerate(KnownItems.from_arrays(ratings, truth).plurality(0))
    }
    mapped = check_assumptions(
        evidence,
        dict(zip(known["item"], known["label"], strict=True)),
        system="agent",
        aggregate=by_vote,
    )
    assert (
        mapped.counts
        == check_assumptions(ratings, truth, system="agent", answers={"agent": answers}).counts
    )


def test_votes_without_raters_can_check_6_only() -> None:
    votes = Ratings.from_votes(
        {"item": [1, 1, 2], "label": ["a", "b", "b"], "n": [2, 1, 3]},
        {"item": [1, 2], "system": ["s", "s"], "answer": ["b", "b"]},
    )
    check = check_assumptions(votes, {1: "b", 2: "b"}, system="s")
    assert (check.counts["items"], check.counts["vote_wrong"], check.counts["right"]) == (2, 1, 1)
    with pytest.raises(ArgumentError, match=r"at least two raters to check \(2\)"):
        check_assumptions(votes, {1: "b", 2: "b"})


def test_bad_input_is_refused() -> None:
    evidence, known, ratings, truth, _ = tables(20)
    with pytest.raises(ArgumentError, match="system must be one of"):
        check_assumptions(evidence, known, system="nobody")
    with pytest.raises(EvidenceError, match="known must name each item once"):
        check_assumptions(evidence, {"item": ["q1", "q1"], "label": ["c0", "c1"]})
    with pytest.raises(EvidenceError, match="known must have columns item, label"):
        check_assumptions(evidence, {"item": ["q1"], "truth": ["c0"]})
    with pytest.raises(EvidenceError, match="known must name items that were rated; got 1 others"):
        check_assumptions(evidence, {"elsewhere": "c0"})
    with pytest.raises(EvidenceError, match="known must have one entry for each"):
        check_assumptions(ratings, truth[:3])
    with pytest.raises(ArgumentError, match="aggregate must be a mapping"):
        check_assumptions(evidence, known, system="agent", aggregate=[0])
    with pytest.raises(ArgumentError, match="confidence must be in"):
        check_assumptions(ratings, truth, confidence=1.0)
