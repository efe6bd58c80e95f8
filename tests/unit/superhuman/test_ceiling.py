"""Ceilings with their limits: what they say, on which assumptions, and what they refuse."""

from __future__ import annotations

import json
import math
from itertools import combinations, pairwise
from pathlib import Path

import numpy as np
import pytest

from noracle import ArgumentError
from noracle.counts.ratings import RatingCounts
from noracle.evidence.ratings import Ratings
from noracle.results import Check, Estimate, Kind, read_result
from noracle.superhuman import ceiling_path, estimate_ceiling
from noracle.superhuman.ceiling import AGREEMENT, METHODS, SINGLE, VACUOUS, expected_top_share

PROMISED = [m for m in METHODS if m != "paper-empirical"]


def simulated(
    n: int, k: int, *, accuracy: float = 0.8, labels: int = 4, seed: int = 0, pairs: bool = True
) -> RatingCounts:
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, labels, (n, 1))
    wrong = (truth + rng.integers(1, labels, (n, k))) % labels
    return RatingCounts.from_arrays(
        np.where(rng.random((n, k)) < accuracy, truth, wrong), labels=labels, pairs=pairs
    )


def snli(folder: Path) -> RatingCounts:
    import duckdb

    columns = ", ".join(f"annotator{i}" for i in range(1, 6))
    rows = duckdb.sql(
        f"SELECT {columns} FROM '{folder / 'snli_dev_annotators.parquet'}'"
    ).fetchall()
    labels = sorted({v for row in rows for v in row})
    return RatingCounts.from_arrays(
        [[labels.index(v) for v in row] for row in rows], labels=labels, pairs=True
    )


def test_figures_on_snli_dev(data_folder: Path) -> None:
    counts = snli(data_folder)
    value = {m: estimate_ceiling(counts, method=m).value for m in METHODS}  # type: ignore[arg-type]
    assert int(counts.n_items.sum()) == 1286
    assert value["paper-empirical"] == pytest.approx(0.8797, abs=1e-4)
    assert value["paper"] == pytest.approx(0.9050, abs=1e-4)
    assert value["quadratic"] == pytest.approx(0.8932, abs=1e-4)
    assert value["plurality"] <= value["free"] <= value["quadratic"] <= value["paper"]


def test_figures_on_cifar_10n(data_folder: Path) -> None:
    data = np.load(data_folder / "cifar10_train.npz")
    counts = RatingCounts.from_arrays(data["annotators"], labels=10, pairs=True)
    mean = float((data["annotators"] == data["label"][:, None]).mean())
    found = {m: estimate_ceiling(counts, method=m) for m in METHODS}  # type: ignore[arg-type]
    assert mean == pytest.approx(0.8233, abs=1e-4)
    for method, value in {
        "plurality": 0.8476,
        "pairwise": 0.8458,
        "quadratic": 0.8771,
        "paper": 0.9002,
    }.items():
        assert found[method].value == pytest.approx(value, abs=1e-4)
        assert mean < found[method].high < value + 0.004
    assert found["pairwise"].diagnostics["with_plurality"]["value"] == found["pairwise"].value


@pytest.mark.parametrize("method", METHODS)
def test_result_is_an_upper_bound_that_names_what_it_rests_on(method: str) -> None:
    estimate = estimate_ceiling(simulated(200, 3), method=method)  # type: ignore[arg-type]
    names = [a.name for a in estimate.guarantee.assumptions]
    assert isinstance(estimate, Estimate)
    assert (estimate.side, estimate.low) == ("upper", 0.0)
    assert 0 < estimate.value <= estimate.high <= 1
    assert {"one true label per item", "iid items", "the same pool of annotators"} <= set(names)
    assert (AGREEMENT in names) == (method == "pairwise")
    assert ("same number of annotations per item" in names) == (
        method in ("free", "quadratic", "paper")
    )
    assert read_result(json.loads(estimate.to_json())).to_dict() == estimate.to_dict()
    assert estimate.high < estimate_ceiling(simulated(200, 3), method=method, confidence=0.99).high  # type: ignore[arg-type]


def test_paper_empirical_promises_nothing() -> None:
    estimate = estimate_ceiling(simulated(200, 2), method="paper-empirical")
    assert estimate.guarantee.kind == Kind.HEURISTIC
    assert "not a bound" in estimate.notes[0]
    assert "HEURISTIC" in str(estimate).splitlines()[0]


@pytest.mark.parametrize("method", PROMISED)
def test_promise_is_finite_sample(method: str) -> None:
    guarantee = estimate_ceiling(simulated(50, 3), method=method).guarantee  # type: ignore[arg-type]
    assert guarantee.kind == Kind.FINITE_SAMPLE
    assert guarantee.anytime == (method != "pairwise")
    assert guarantee.error_rate == pytest.approx(0.05)


@pytest.mark.parametrize("method", ["plurality", "free", "quadratic", "paper"])
def test_one_rating_an_item_says_nothing(method: str) -> None:
    estimate = estimate_ceiling(
        RatingCounts.from_votes([[1, 0]] * 900 + [[0, 1]] * 100), method=method
    )  # type: ignore[arg-type]
    assert (estimate.value, estimate.high) == (1.0, 1.0)
    assert SINGLE in estimate.notes
    assert VACUOUS in estimate.notes


@pytest.mark.parametrize("method", METHODS)
def test_unanimous_ratings_are_vacuous(method: str) -> None:
    counts = RatingCounts.from_arrays([[0, 0, 0]] * 50 + [[1, 1, 1]] * 50, pairs=True)
    estimate = estimate_ceiling(counts, method=method)  # type: ignore[arg-type]
    assert estimate.value == pytest.approx(1.0)
    assert estimate.high == pytest.approx(1.0)


def test_no_ratings_are_undefined_and_say_so() -> None:
    estimate = estimate_ceiling(RatingCounts.from_votes(np.zeros((3, 2))))
    assert math.isnan(estimate.value)
    assert estimate.high == 1.0
    assert estimate.reason == "no ratings"
    assert "not used: 3 items without a rating" in estimate.notes


def test_kinds_without_items_change_nothing() -> None:
    plain = RatingCounts.from_votes([[3, 0]] * 7 + [[2, 1]] * 3)
    padded = RatingCounts(
        labels=(0, 1), votes=np.array([[3, 0], [2, 1], [5, 0]]), n_items=np.array([7, 3, 0])
    )
    for method in ("plurality", "free", "paper"):
        assert (
            estimate_ceiling(plain, method=method).high
            == estimate_ceiling(padded, method=method).high
        )  # type: ignore[arg-type]


# -----------------------------------------------------------------------------------------------
# numbers of ratings that differ


def test_pooled_pairs_are_refused_where_numbers_differ() -> None:
    mixed = RatingCounts.from_votes([[2, 0]] * 80 + [[3, 2]] * 20)
    with pytest.raises(
        ArgumentError,
        match=r"pairs must be 'item'.*got 'pooled' with 2 to 5.*disagreed.*0\.876 for 0\.961",
    ):
        estimate_ceiling(mixed, method="paper", pairs="pooled")
    same = simulated(100, 3)
    assert estimate_ceiling(same, method="paper", pairs="pooled") == estimate_ceiling(
        same, method="paper"
    )


def test_differing_numbers_are_bounded_number_by_number() -> None:
    counts = RatingCounts.from_votes(
        [[2, 0]] * 300 + [[1, 1]] * 100 + [[3, 0]] * 350 + [[2, 1]] * 150 + [[1, 0]] * 100
    )
    for method in ("free", "quadratic", "paper"):
        estimate = estimate_ceiling(counts, method=method)  # type: ignore[arg-type]
        rows = {row["ratings"]: row for row in estimate.diagnostics["by_number_of_ratings"]}
        assert [rows[k]["items"] for k in (1, 2, 3)] == [100, 400, 500]
        assert (rows[1]["value"], rows[1]["high"]) == (1.0, 1.0)
        assert estimate.value == pytest.approx(
            sum(row["items"] / 1000 * row["value"] for row in rows.values())
        )
        assert estimate.value >= estimate_ceiling(counts).value
        assert sum(row["items"] / 1000 * row["high"] for row in rows.values()) < estimate.high < 1
        assert "same number of annotations per item" not in [
            a.name for a in estimate.guarantee.assumptions
        ]


def test_free_bound_at_the_item_is_never_below_plurality() -> None:
    rng = np.random.default_rng(2)
    for _ in range(100):
        counts = RatingCounts.from_votes(rng.integers(0, 4, (20, 3)))
        assert (
            estimate_ceiling(counts).value <= estimate_ceiling(counts, method="free").value + 1e-12
        )


# ---------------------------------------------------------------------------------------------------------------
# who rated what


def test_pairwise_needs_to_know_who_rated() -> None:
    with pytest.raises(
        ArgumentError, match="ratings must say who rated what for method 'pairwise'"
    ):
        estimate_ceiling(simulated(20, 3, pairs=False), method="pairwise")


def test_raters_without_common_items_make_pairwise_vacuous() -> None:
    ratings = Ratings.from_tables(
        {"item": [1, 2, 3], "rater": ["ann", "bob", "ann"], "label": [0, 1, 1]}
    )
    estimate = estimate_ceiling(ratings, method="pairwise")
    assert (estimate.value, estimate.high) == (1.0, 1.0)
    assert VACUOUS in estimate.notes


def adaptive_ratings(n: int, accuracy: float, seed: int) -> np.ndarray:
    """Two raters; a third only where they disagree. Binary labels, true label 0."""
    rng = np.random.default_rng(seed)
    full = (rng.random((n, 3)) >= accuracy).astype(int)
    full[full[:, 0] == full[:, 1], 2] = -1
    return full


def test_pairwise_survives_a_third_rater_who_sees_only_disputed_items() -> None:
    ratings = adaptive_ratings(4000, 0.85, 1)
    estimate = estimate_ceiling(RatingCounts.from_arrays(ratings, pairs=True), method="pairwise")
    naive = np.ones((3, 3))
    for i, j in combinations(range(3), 2):
        both = (ratings[:, i] >= 0) & (ratings[:, j] >= 0)
        naive[i, j] = naive[j, i] = (ratings[both, i] == ratings[both, j]).mean()
    from noracle.superhuman.bounds import pairwise_bound

    assert (
        pairwise_bound(naive) < 0.85
    )  # shared items alone: the disputed ones make raters look bad
    assert estimate.value > 0.85
    assert any("counts as agreement" in note for note in estimate.notes)
    assert "with_plurality" not in estimate.diagnostics


def test_raters_drawn_for_each_item_add_an_assumption() -> None:
    rng = np.random.default_rng(3)
    full = (rng.random((600, 4)) > 0.8).astype(int)
    full[np.arange(600), rng.integers(0, 4, 600)] = -1
    estimate = estimate_ceiling(RatingCounts.from_arrays(full, pairs=True), method="pairwise")
    assert "who annotates an item does not depend on the item" in [
        a.name for a in estimate.guarantee.assumptions
    ]
    assert any("mean is over raters" in note for note in estimate.notes)
    assert 0.75 < estimate.value < 0.95


def test_failed_check_takes_the_promise_away() -> None:
    failed = Check(
        name="agreement",
        assumption=AGREEMENT,
        p_value=1e-6,
        statistic=-0.1,
        finding="less",
        method="betting",
    )
    counts = simulated(100, 3)
    assert (
        estimate_ceiling(counts, method="pairwise", checks=[failed]).guarantee.kind
        == Kind.HEURISTIC
    )


# -------------------------------------------------------------------------------------------------------------
# fewer annotators


def test_expected_top_share_is_the_mean_over_all_choices() -> None:
    rng = np.random.default_rng(5)
    for _ in range(60):
        votes = rng.integers(0, 4, (1, int(rng.integers(1, 5))))
        people = np.repeat(np.arange(votes.shape[1]), votes[0])
        for k in range(1, len(people) + 1):
            tops = [
                np.bincount(people[list(c)]).max() / k for c in combinations(range(len(people)), k)
            ]
            assert expected_top_share(votes, k)[0] == pytest.approx(np.mean(tops), abs=1e-12)


def test_path_ends_at_the_bounds_of_all_annotators() -> None:
    counts = simulated(300, 6)
    path = estimate_ceiling(counts, by_annotators=True).diagnostics["by_annotators"]
    assert [row["annotators"] for row in path] == [2, 3, 4, 5, 6]
    for method in ("plurality", "free", "quadratic", "paper", "paper-empirical"):
        assert path[-1][method] == pytest.approx(estimate_ceiling(counts, method=method).value)  # type: ignore[arg-type]
        assert all(a[method] >= b[method] - 1e-12 for a, b in pairwise(path))
    assert path == ceiling_path(counts)


def test_path_is_empty_where_an_item_has_one_rating() -> None:
    assert ceiling_path(RatingCounts.from_votes([[1, 0], [3, 0]])) == []
    assert ceiling_path(RatingCounts.from_votes(np.zeros((0, 2)))) == []


# ----------------------------------------------------------------------------------------------------------------------
# evidence


def test_tables_and_counts_give_the_same() -> None:
    rng = np.random.default_rng(9)
    matrix = rng.integers(0, 2, (40, 3))
    table = {
        "item": np.repeat(np.arange(40), 3).tolist(),
        "rater": ["ann", "bob", "cy"] * 40,
        "label": ["no" if v == 0 else "yes" for v in matrix.reshape(-1)],
    }
    ratings = Ratings.from_tables(table)
    counts = RatingCounts.from_arrays(matrix, pairs=True)
    for method in METHODS:
        ours, theirs = (
            estimate_ceiling(ratings, method=method),
            estimate_ceiling(counts, method=method),
        )  # type: ignore[arg-type]
        assert (ours.value, ours.high) == pytest.approx((theirs.value, theirs.high))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "best"}, "method must be one of plurality"),
        ({"pairs": "all"}, "pairs must be one of item"),
        ({"confidence": 95}, "confidence must be in"),
    ],
)
def test_bad_arguments_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        estimate_ceiling(simulated(10, 3), **options)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="ratings must be Ratings or RatingCounts; got list"):
        estimate_ceiling([[0, 1]])  # type: ignore[arg-type]
