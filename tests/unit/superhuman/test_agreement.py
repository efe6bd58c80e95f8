"""Agreement statistics against reference implementations, and at the edges."""

from __future__ import annotations

import itertools
import math
import warnings
from typing import Any

import numpy as np
import pytest

from noracle.counts import RatingCounts, count_ratings
from noracle.errors import ArgumentError, EvidenceError
from noracle.evidence import Ratings
from noracle.results import Estimate, Kind
from noracle.superhuman import agreement, estimate_agreement
from noracle.superhuman.agreement import fleiss, kappa_errors, kappas

QUICK = {"n_boot": 200}


def matrices() -> list[Any]:
    """Random tables of codes, complete and with holes, of different shapes."""
    found = []
    for seed, (n, raters, size, missing) in enumerate(
        [
            (40, 3, 2, 0.0),
            (60, 5, 4, 0.0),
            (25, 2, 3, 0.0),
            (50, 4, 3, 0.3),
            (80, 6, 5, 0.6),
            (30, 3, 2, 0.2),
            (12, 8, 7, 0.5),
        ]
    ):
        rng = np.random.default_rng(seed)
        truth = rng.integers(0, size, n)
        codes = np.where(
            rng.random((n, raters)) < 0.6, truth[:, None], rng.integers(0, size, (n, raters))
        )
        codes[rng.random(codes.shape) < missing] = -1
        codes[:2, :2] = 0  # every pair has something in common
        found.append(
            pytest.param(codes, size, id=f"{n}x{raters}, {size} labels, {missing:.0%} missing")
        )
    return found


def as_ratings(codes: Any) -> Ratings:
    columns = {
        f"r{j}": [None if c < 0 else int(c) for c in codes[:, j]] for j in range(codes.shape[1])
    }
    return Ratings.from_wide(
        columns, raters=list(columns), labels=list(range(max(2, int(codes.max()) + 1)))
    )


@pytest.mark.parametrize(("codes", "size"), matrices())
@pytest.mark.parametrize("metric", ["nominal", "ordinal", "interval"])
def test_krippendorff_equals_the_reference_package(codes: Any, size: int, metric: Any) -> None:
    krippendorff = pytest.importorskip("krippendorff")
    given = np.where(codes < 0, np.nan, codes).T
    expected = krippendorff.alpha(
        reliability_data=given, value_domain=list(range(size)), level_of_measurement=metric
    )
    counts = RatingCounts.from_arrays(codes, labels=size)
    assert estimate_agreement(
        counts, statistic="krippendorff", metric=metric, **QUICK
    ).value == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize(("codes", "size"), matrices())
def test_krippendorff_equals_crowd_kit(codes: Any, size: int) -> None:
    metrics = pytest.importorskip("crowdkit.metrics.data")
    import pandas as pd

    rows = [(f"i{i}", f"w{j}", f"l{c}") for (i, j), c in np.ndenumerate(codes) if c >= 0]
    kept = pd.DataFrame(rows, columns=["task", "worker", "label"])
    kept = kept[kept.groupby("task")["label"].transform("size") > 1]
    expected = metrics.alpha_krippendorff(kept)
    counts = RatingCounts.from_arrays(codes, labels=size)
    assert estimate_agreement(counts, statistic="krippendorff", **QUICK).value == pytest.approx(
        expected, abs=1e-10
    )


@pytest.mark.parametrize(("codes", "size"), matrices())
def test_cohen_of_a_pair_equals_scikit_learn_on_the_common_items(codes: Any, size: int) -> None:
    sklearn_metrics = pytest.importorskip("sklearn.metrics")
    ratings = as_ratings(codes)
    counts = count_ratings(ratings, pairs=True)
    for i, j in itertools.combinations(range(codes.shape[1]), 2):
        both = (codes[:, i] >= 0) & (codes[:, j] >= 0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it divides by zero where kappa is undefined
            expected = sklearn_metrics.cohen_kappa_score(codes[both, i], codes[both, j])
        for given in (ratings, counts):
            found = estimate_agreement(given, statistic="cohen", raters=(f"r{i}", f"r{j}"), **QUICK)
            if math.isnan(found.value):
                assert len(set(codes[both, i]) | set(codes[both, j])) == 1
            else:
                assert found.value == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize(("codes", "size"), matrices())
def test_mean_of_cohen_over_pairs_is_that_of_scikit_learn(codes: Any, size: int) -> None:
    sklearn_metrics = pytest.importorskip("sklearn.metrics")
    each = []
    for i, j in itertools.combinations(range(codes.shape[1]), 2):
        both = (codes[:, i] >= 0) & (codes[:, j] >= 0)
        if len(set(codes[both, i]) | set(codes[both, j])) > 1:
            each.append(sklearn_metrics.cohen_kappa_score(codes[both, i], codes[both, j]))
    ratings = as_ratings(codes)
    for given in (ratings, count_ratings(ratings, pairs=True)):
        assert estimate_agreement(given, statistic="cohen", **QUICK).value == pytest.approx(
            np.mean(each), abs=1e-10
        )


@pytest.mark.parametrize(
    ("codes", "size"), [p for p in matrices() if "0% missing" in str(p.id) and ", 0%" in str(p.id)]
)
def test_fleiss_equals_statsmodels_on_complete_tables(codes: Any, size: int) -> None:
    inter_rater = pytest.importorskip("statsmodels.stats.inter_rater")
    table, _ = inter_rater.aggregate_raters(codes, n_cat=size)
    expected = inter_rater.fleiss_kappa(table)
    counts = RatingCounts.from_arrays(codes, labels=size)
    assert estimate_agreement(counts, statistic="fleiss", **QUICK).value == pytest.approx(
        expected, abs=1e-10
    )


@pytest.mark.parametrize(("codes", "size"), matrices())
def test_fleiss_with_missing_ratings_is_the_definition_item_by_item(codes: Any, size: int) -> None:
    agreed, shares = [], []
    for row in codes:
        said = [c for c in row if c >= 0]
        if not said:
            continue
        shares.append([said.count(label) / len(said) for label in range(size)])
        if len(said) > 1:
            pairs = list(itertools.permutations(said, 2))
            agreed.append(sum(a == b for a, b in pairs) / len(pairs))
    chance = sum(p * p for p in np.mean(shares, axis=0))
    expected = (np.mean(agreed) - chance) / (1 - chance)
    counts = RatingCounts.from_arrays(codes, labels=size)
    found = estimate_agreement(counts, statistic="fleiss", **QUICK)
    assert found.value == pytest.approx(expected, abs=1e-10)
    assert any("different numbers" in note for note in found.notes) == (codes < 0).any()
    assert estimate_agreement(counts, **QUICK).value == pytest.approx(np.mean(agreed), abs=1e-12)


def test_fleiss_matches_the_table_that_introductions_print() -> None:
    # Ten items, fourteen raters, five labels: the table that introductions to this coefficient
    # print, kappa = 0.210.
    votes = [
        [0, 0, 0, 0, 14],
        [0, 2, 6, 4, 2],
        [0, 0, 3, 5, 6],
        [0, 3, 9, 2, 0],
        [2, 2, 8, 1, 1],
        [7, 7, 0, 0, 0],
        [3, 2, 6, 3, 0],
        [2, 5, 3, 2, 2],
        [6, 5, 2, 1, 0],
        [0, 2, 2, 3, 7],
    ]
    assert estimate_agreement(
        RatingCounts.from_votes(votes), statistic="fleiss", **QUICK
    ).value == pytest.approx(0.20993, abs=1e-5)


def test_krippendorff_matches_the_published_example_with_missing_ratings() -> None:
    # Krippendorff (2011), "Computing Krippendorff's alpha-reliability", the four-observer table:
    # .743, .815 and .849.
    star = -1
    rows = [
        [0, 1, 2, 2, 1, 0, 3, 0, 1, star, star, star],
        [0, 1, 2, 2, 1, 1, 3, 0, 1, 4, star, 2],
        [star, 2, 2, 2, 1, 2, 3, 1, 1, 4, 0, star],
        [0, 1, 2, 2, 1, 3, 3, 0, 1, 4, 0, star],
    ]
    counts = RatingCounts.from_arrays(np.array(rows).T, labels=5)
    for metric, value in (("nominal", 0.743), ("ordinal", 0.815), ("interval", 0.849)):
        found = estimate_agreement(counts, statistic="krippendorff", metric=metric, **QUICK)  # type: ignore[arg-type]
        assert found.value == pytest.approx(value, abs=5e-4)


@pytest.mark.parametrize("statistic", ["cohen", "fleiss", "krippendorff"])
def test_one_label_everywhere_is_undefined_with_a_reason(statistic: Any) -> None:
    counts = RatingCounts.from_arrays(
        np.zeros((30, 3), dtype=int), labels=2, raters=("a", "b", "c"), pairs=True
    )
    found = estimate_agreement(counts, statistic=statistic, **QUICK)
    assert math.isnan(found.value)
    assert math.isnan(found.low)
    assert math.isnan(found.high)
    assert "same label" in found.reason
    assert found.to_dict()["value"] is None
    assert Estimate.from_dict(found.to_dict()).reason == found.reason
    assert "undefined" in str(found)


@pytest.mark.parametrize("statistic", ["pairwise", "fleiss", "krippendorff"])
def test_single_ratings_are_undefined_with_a_reason(statistic: Any) -> None:
    found = estimate_agreement(
        RatingCounts.from_votes([[1, 0]] * 5 + [[0, 1]] * 5), statistic=statistic, **QUICK
    )
    assert math.isnan(found.value)
    assert found.reason == "no item has two ratings"


@pytest.mark.parametrize("statistic", ["pairwise", "cohen", "fleiss", "krippendorff"])
@pytest.mark.parametrize("n", [1, 5, 100])
def test_full_agreement_does_not_promise_certainty(statistic: Any, n: int) -> None:
    codes = np.repeat((np.arange(2 * n) % 2)[:, None], 3, axis=1)
    counts = RatingCounts.from_arrays(codes, labels=2, raters=("a", "b", "c"), pairs=True)
    found = estimate_agreement(counts, statistic=statistic, **QUICK)
    assert found.value == pytest.approx(1)
    assert found.high == pytest.approx(1)
    unseen = 1 - 0.025 ** (
        1 / (2 * n)
    )  # 97.5 % sure: no larger share of the items is of a kind that was not seen
    assert (
        found.low <= 1 - unseen * 2 / 3 + 1e-9
    )  # three ratings and two labels: one pair of three still agrees
    assert any("few items" in note for note in found.notes)


def test_one_label_of_one_is_full_agreement_with_room_below() -> None:
    found = estimate_agreement(RatingCounts.from_votes([[3]] * 20), **QUICK)
    assert found.value == 1
    assert found.low == pytest.approx(0.025 ** (1 / 20), abs=1e-9)


def test_more_confidence_is_never_narrower_and_the_seed_decides() -> None:
    counts = RatingCounts.from_votes([[3, 0]] * 60 + [[2, 1]] * 30 + [[0, 3]] * 40)
    wide, narrow = (
        estimate_agreement(counts, statistic="fleiss", confidence=c, **QUICK) for c in (0.99, 0.8)
    )
    assert wide.low <= narrow.low <= narrow.high <= wide.high
    again = estimate_agreement(counts, statistic="fleiss", confidence=0.99, **QUICK)
    assert (again.low, again.high) == (wide.low, wide.high)
    assert wide.guarantee.kind is Kind.ASYMPTOTIC
    assert wide.diagnostics["rule_of_thumb_met"]


def test_order_of_items_and_names_of_labels_change_nothing() -> None:
    rng = np.random.default_rng(3)
    codes = rng.integers(0, 3, (40, 4))
    first = RatingCounts.from_arrays(codes, labels=3)
    second = RatingCounts.from_arrays(2 - codes[rng.permutation(40)], labels=["x", "y", "z"])
    for statistic in ("pairwise", "fleiss", "krippendorff"):
        a, b = (estimate_agreement(c, statistic=statistic, **QUICK).value for c in (first, second))  # type: ignore[arg-type]
        assert a == pytest.approx(b, abs=1e-12)


@pytest.mark.parametrize(
    ("votes", "met"),
    [
        ([[3, 0]] * 30 + [[2, 1]] * 20, True),
        ([[3, 0]] * 30 + [[2, 1]] * 10, False),  # few items
        ([[3, 0]] * 90 + [[2, 1]] * 9, False),  # few that differ in agreement
        ([[3, 0]] * 91 + [[0, 3]] * 9, False),  # few with another label
        ([[20, 30]] * 300 + [[25, 25]] * 300, True),
    ],
)
def test_the_rule_of_thumb_is_told(votes: Any, met: bool) -> None:
    found = estimate_agreement(RatingCounts.from_votes(votes), **QUICK)
    assert found.diagnostics["rule_of_thumb_met"] is met
    assert any("few items" in note for note in found.notes) is not met
    assert "rule of thumb" in found.guarantee.assumptions[0].detail


def test_many_kinds_are_resampled_by_their_normal_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    votes = rng.multinomial(9, [0.5, 0.2, 0.2, 0.1], size=3000)
    counts = RatingCounts.from_votes(votes)
    found = fleiss(counts.votes, counts.n_items)
    exact = found.resampled(400, np.random.default_rng(1))
    monkeypatch.setattr(agreement, "_MOST_DRAWS", 0)
    normal = found.resampled(4000, np.random.default_rng(2))
    assert np.std(normal) == pytest.approx(np.std(exact), rel=0.12)
    assert np.mean(normal) == pytest.approx(np.mean(exact), abs=4 * np.std(exact) / 20)


def test_standard_error_of_kappa_is_that_of_resampling() -> None:
    table = np.array([[40.0, 9, 3], [6, 30, 4], [2, 5, 21]])
    rng = np.random.default_rng(0)
    drawn = (
        rng.multinomial(120, table.reshape(-1) / 120, size=20_000).reshape(-1, 3, 3).astype(float)
    )
    assert kappa_errors(table[None])[0] == pytest.approx(np.std(kappas(drawn)), rel=0.03)


def test_interval_from_tables_of_pairs_holds_that_of_the_ratings() -> None:
    rng = np.random.default_rng(5)
    truth = rng.integers(0, 3, 200)
    codes = np.where(rng.random((200, 4)) < 0.7, truth[:, None], rng.integers(0, 3, (200, 4)))
    ratings = as_ratings(codes)
    by_item = estimate_agreement(ratings, statistic="cohen", n_boot=1000)
    by_pair = estimate_agreement(count_ratings(ratings, pairs=True), statistic="cohen")
    assert by_item.value == pytest.approx(by_pair.value, abs=1e-12)
    assert by_pair.se > by_item.se
    assert by_pair.low < by_item.low + 0.005
    assert by_item.high < by_pair.high + 0.005


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"statistic": "kendall"}, "statistic must be one of"),
        ({"metric": "ordinal"}, "metric must be 'nominal' with statistic 'pairwise'"),
        ({"statistic": "fleiss", "raters": ("a", "b")}, "raters must be two different raters"),
        ({"statistic": "cohen", "raters": ("a", "a")}, "raters must be two different raters"),
        (
            {"statistic": "cohen", "raters": ("a", "z")},
            "raters must be among 'a', 'b', 'c'; got 'z'",
        ),
        ({"n_boot": 5}, "n_boot must be a whole number of at least 100"),
        ({"confidence": 1.0}, "confidence must be in"),
        (
            {"statistic": "krippendorff", "metric": "interval"},
            "labels must be numbers for metric 'interval'; got 'no', 'yes'",
        ),
    ],
)
def test_bad_arguments_are_one_clear_error(arguments: dict[str, Any], message: str) -> None:
    counts = RatingCounts.from_arrays(
        [[0, 1, 1], [0, 0, 1]], labels=["no", "yes"], raters=("a", "b", "c"), pairs=True
    )
    with pytest.raises(ArgumentError, match=message):
        estimate_agreement(counts, **arguments)


def test_cohen_needs_pairs() -> None:
    with pytest.raises(ArgumentError, match="Count with pairs=True or pass ratings"):
        estimate_agreement(RatingCounts.from_votes([[2, 1]]), statistic="cohen")
    apart = Ratings.from_tables({"item": [1, 2], "rater": ["a", "b"], "label": ["x", "y"]})
    with pytest.raises(EvidenceError, match="must have items that two raters share"):
        estimate_agreement(apart, statistic="cohen")


def test_ordinal_wants_the_order_of_labels() -> None:
    wide = {"a": ["low", "mid", "high"], "b": ["low", "high", "high"]}
    with pytest.raises(ArgumentError, match="labels must be given in their order"):
        estimate_agreement(
            Ratings.from_wide(wide, raters=["a", "b"]), statistic="krippendorff", metric="ordinal"
        )
    found = estimate_agreement(
        Ratings.from_wide(wide, raters=["a", "b"], labels=["low", "mid", "high"]),
        statistic="krippendorff",
        metric="ordinal",
        **QUICK,
    )
    assert "low < mid < high" in found.notes[0]


@pytest.mark.slow
@pytest.mark.parametrize("statistic", ["pairwise", "fleiss", "krippendorff", "cohen"])
def test_intervals_cover_about_as_often_as_they_say(statistic: Any) -> None:
    rng = np.random.default_rng(11)
    shares = rng.dirichlet(np.ones(8))  # a world of eight kinds of items
    patterns = rng.integers(0, 3, (8, 4))
    truth = estimate_agreement(
        RatingCounts.from_arrays(
            np.repeat(patterns, np.round(shares * 1e6).astype(int) // 100, axis=0),
            labels=3,
            pairs=True,
            raters=("a", "b", "c", "d"),
        ),
        statistic=statistic,
        n_boot=100,
    ).value
    inside = 0
    runs = 500
    for run in range(runs):
        codes = patterns[rng.choice(8, size=150, p=shares)]
        counts = RatingCounts.from_arrays(codes, labels=3, pairs=True, raters=("a", "b", "c", "d"))
        found = estimate_agreement(counts, statistic=statistic, n_boot=400, seed=run)
        inside += found.low - 1e-3 <= truth <= found.high + 1e-3
    assert inside / runs > 0.92
