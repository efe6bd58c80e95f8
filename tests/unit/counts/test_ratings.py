"""Counts of ratings: JSON, sums, pairs and matches."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from noracle.counts import RatingCounts, count_ratings
from noracle.counts.ratings import kinds_of, pair_tables
from noracle.errors import EvidenceError
from noracle.evidence import Ratings


def world(
    seed: int, n: int = 60, raters: int = 4, size: int = 3, missing: float = 0.2
) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, size, (n, raters))
    codes[rng.random(codes.shape) < missing] = -1
    return codes, rng.integers(-1, size, n)


def same(a: RatingCounts, b: RatingCounts) -> None:
    assert a.labels == b.labels
    assert a.raters == b.raters
    assert np.array_equal(a.votes, b.votes)
    assert np.array_equal(a.n_items, b.n_items)
    for name in ("answers", "pairs", "matches"):
        left, right = getattr(a, name), getattr(b, name)
        assert left.keys() == right.keys()
        assert all(np.array_equal(left[k], right[k]) for k in left)


def as_long(
    codes: Any, answers: Any, start: int = 0
) -> tuple[dict[str, list[Any]], dict[str, list[Any]]]:
    rows = [(start + i, f"r{j}", int(c)) for (i, j), c in np.ndenumerate(codes) if c >= 0]
    ratings = {name: [r[k] for r in rows] for k, name in enumerate(("item", "rater", "label"))}
    given = {
        "item": [start + i for i in range(len(codes))],
        "system": ["s"] * len(codes),
        "answer": [None if a < 0 else int(a) for a in answers],
    }
    return ratings, given


@pytest.mark.parametrize("seed", range(4))
def test_counts_of_tables_are_those_of_arrays(seed: int) -> None:
    codes, answers = world(seed, missing=[0.0, 0.2, 0.6, 0.9][seed])
    ratings, given = as_long(codes, answers)
    counts = count_ratings(Ratings.from_tables(ratings, given, labels=[0, 1, 2]), pairs=True)
    raters = tuple(sorted(set(ratings["rater"])))
    same(
        counts,
        RatingCounts.from_arrays(
            codes, labels=3, raters=raters, answers={"s": answers}, pairs=True
        ),
    )


def test_pair_tables_count_each_pair() -> None:
    codes, _ = world(7, n=200, raters=6, size=4)
    tables = pair_tables(codes.astype(np.int16), 4)
    for (i, j), table in tables.items():
        expected = np.zeros((4, 4), dtype=int)
        for a, b in codes[:, [i, j]]:
            if a >= 0 and b >= 0:
                expected[a, b] += 1
        assert np.array_equal(table, expected)
    assert len(tables) == 15


def test_pairs_of_many_raters_need_several_packed_numbers() -> None:
    codes, answers = world(3, n=30, raters=70, size=5, missing=0.5)
    ratings, given = as_long(codes, answers)
    columns = [int(name[1:]) for name in sorted(f"r{j}" for j in range(70))]
    counts = count_ratings(Ratings.from_tables(ratings, given, labels=list(range(5))), pairs=True)
    expected = pair_tables(codes[:, columns].astype(np.int16), 5)
    assert counts.pairs.keys() == expected.keys()
    assert all(np.array_equal(counts.pairs[k], expected[k]) for k in expected)


def test_pairs_without_common_items_are_absent() -> None:
    counts = RatingCounts.from_arrays([[0, -1, 1], [-1, 1, 1]], labels=2, pairs=True)
    assert set(counts.pairs) == {(0, 2), (1, 2)}


def test_json_round_trip() -> None:
    codes, answers = world(1)
    ratings, given = as_long(codes, answers)
    found = Ratings.from_tables(ratings, given)
    counts = count_ratings(found, pairs=True, reference=dict.fromkeys(range(60), 1))
    back = RatingCounts.from_dict(json.loads(json.dumps(counts.to_dict(), allow_nan=False)))
    same(counts, back)
    assert back.inferred == counts.inferred
    assert counts.to_dict()["schema"] == "rating-counts/1"


@pytest.mark.parametrize(
    "change",
    [
        {"schema": "counts/1"},
        {"n_items": [2, 2]},
        {"votes": [[-1, 2], [1, 0]]},
        {"answers": {"s": [[1, 0, 0], [1, 0, 0]]}},
        {"votes": [[0, 0], [1, 0]]},
    ],
)
def test_counts_that_cannot_be_are_refused(change: dict[str, Any]) -> None:
    good = RatingCounts.from_votes([[1, 0], [1, 0], [0, 2]], answers={"s": [0, 1, 1]}).to_dict()
    RatingCounts.from_dict(good)
    with pytest.raises(EvidenceError, match=r"must be"):
        RatingCounts.from_dict({**good, **change})


def test_counts_of_two_halves_add_to_the_whole() -> None:
    codes, answers = world(5, n=80)
    reference = {i: int(answers[i]) if i % 2 else 0 for i in range(80)}
    whole, first, second = (
        count_ratings(
            Ratings.from_tables(*as_long(codes[part], answers[part], start), labels=[0, 1, 2]),
            pairs=True,
            reference=reference,
        )
        for part, start in ((slice(0, 80), 0), (slice(0, 30), 0), (slice(30, 80), 30))
    )
    same(first + second, whole)


def test_labels_are_brought_into_one_order_and_raters_are_matched_by_name() -> None:
    first = count_ratings(
        Ratings.from_wide(
            {"ann": ["x"], "bob": ["y"], "s": ["x"]},
            raters=["ann", "bob"],
            systems=["s"],
            labels=["x", "y"],
        ),
        pairs=True,
    )
    second = count_ratings(
        Ratings.from_wide(
            {"bob": ["y"], "ann": ["x"], "s": ["y"]},
            raters=["bob", "ann"],
            systems=["s"],
            labels=["y", "x"],
        ),
        pairs=True,
    )
    total = first + second
    assert total.votes.tolist() == [[1, 1]]
    assert total.n_items.tolist() == [2]
    assert total.answers["s"].tolist() == [[1, 1, 0]]
    assert {k: t.tolist() for k, t in total.pairs.items()} == {(0, 1): [[0, 2], [0, 0]]}


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (
            RatingCounts.from_votes([[1, 1]], labels=["x", "z"], answers={"s": [0]}),
            "labels must be",
        ),
        (
            RatingCounts.from_votes([[1, 1]], labels=["x", "y"], answers={"t": [0]}),
            "answers must be of",
        ),
        (
            RatingCounts.from_arrays([[0, 1]], labels=["x", "y"], answers={"s": [0]}, pairs=True),
            "pairs must be counted on both sides",
        ),
    ],
)
def test_counts_that_do_not_fit_do_not_add(other: RatingCounts, message: str) -> None:
    with pytest.raises(EvidenceError, match=message):
        RatingCounts.from_votes([[1, 1]], labels=["x", "y"], answers={"s": [0]}) + other


def test_matches_follow_the_reference_and_silence_never_matches() -> None:
    wide = {"a": ["x", "x", "y"], "b": ["x", "y", "y"], "s": ["x", None, "x"]}
    ratings = Ratings.from_wide(wide, raters=["a", "b"], systems=["s"])
    counts = count_ratings(ratings, reference={0: "x", 1: "x", 2: "x"})
    assert counts.votes.tolist() == [[0, 2], [1, 1], [2, 0]]
    assert counts.matches["s"].tolist() == [[1, 0], [0, 1], [1, 0]]
    silent = count_ratings(ratings, reference={0: None, 1: None, 2: None})
    assert silent.matches["s"].tolist() == [[0, 1], [0, 1], [0, 1]]
    with pytest.raises(
        EvidenceError,
        match="reference must have a label for each rated item; got none at items 1, 2",
    ):
        count_ratings(ratings, reference={0: "x"})


@pytest.mark.parametrize("base", [3, 10_000_000])
def test_kinds_are_sorted_rows_however_they_are_found(base: int) -> None:
    rows = np.random.default_rng(0).integers(0, base, (50, 4)) // (base // 3)
    rows = rows * (base // 3)
    kinds, place, n = kinds_of(rows)
    expected, expected_n = np.unique(rows, axis=0, return_counts=True)
    assert np.array_equal(kinds, expected)
    assert np.array_equal(n, expected_n)
    assert np.array_equal(kinds[place], rows)


def test_summary_counts_items_and_ratings() -> None:
    summary = RatingCounts.from_votes([[2, 0], [0, 0], [1, 2]]).summary()
    assert (summary["items"], summary["ratings"], summary["unused"]) == (
        2,
        5,
        {"items without a rating": 1},
    )


def test_snli_counts(data_folder: Path) -> None:
    raters = [f"annotator{i}" for i in range(1, 6)]
    counts = count_ratings(
        Ratings.from_wide(
            data_folder / "snli_dev_annotators.parquet",
            raters=raters,
            item="item",
            systems=["gold"],
        )
    )
    assert int(counts.n_items.sum()) == 1286
    assert set(counts.n_ratings) == {5}
    assert float((counts.agreement * counts.n_items).sum() / 1286) == pytest.approx(
        0.8797**2, abs=2e-4
    )
