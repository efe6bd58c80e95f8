"""Aggregated labels: who wins, how ties fall, and what is warned about."""

from __future__ import annotations

import builtins
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from noracle.counts import count_ratings
from noracle.errors import ArgumentError, GuaranteeWarning, MissingExtra
from noracle.evidence import Ratings
from noracle.superhuman import aggregate_labels, matches_of

SLOW_MACE = pytest.param("mace", "whole", marks=pytest.mark.slow)  # five hundred rounds of pandas


def crowd(
    seed: int = 0,
    n: int = 300,
    accuracies: tuple[float, ...] = (0.95, 0.8, 0.6, 0.4),
    kind: str = "whole",
) -> tuple[Ratings, Any]:
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 3, n)
    codes = {
        f"r{j}": np.where(rng.random(n) < a, truth, rng.integers(0, 3, n))
        for j, a in enumerate(accuracies)
    }
    codes["agent"] = np.where(rng.random(n) < 0.9, truth, rng.integers(0, 3, n))
    name: Any = int if kind == "whole" else "abc".__getitem__
    wide = {column: [name(v) for v in values] for column, values in codes.items()}
    return Ratings.from_wide(wide, raters=[c for c in wide if c != "agent"], systems=["agent"]), [
        name(v) for v in truth
    ]


def right(labels: Mapping[Any, Any], truth: Any) -> float:
    return float(np.mean([labels[i] == truth[i] for i in range(len(truth))]))


def test_majority_is_the_label_with_most_votes() -> None:
    votes = {"item": ["p", "p", "q", "q"], "label": ["x", "y", "x", "y"], "n": [3, 2, 1, 4]}
    found = aggregate_labels(Ratings.from_votes(votes))
    assert dict(found.labels) == {"p": "x", "q": "y"}
    assert (found.n_tied, found.notes) == (0, ())


def test_ties_are_drawn_evenly_by_the_seed_and_not_by_the_order_of_rows() -> None:
    n = 2000
    wide = {"item": list(range(n)), "a": ["x"] * n, "b": ["y"] * n, "c": ["z"] * n}
    found = aggregate_labels(Ratings.from_wide(wide, raters=["a", "b", "c"], item="item"), seed=4)
    assert found.n_tied == n
    assert all(
        abs(k - n / 3) < 5 * (n * 2 / 9) ** 0.5 for k in Counter(found.labels.values()).values()
    )
    turned = {name: values[::-1] for name, values in wide.items()}
    assert (
        aggregate_labels(
            Ratings.from_wide(turned, raters=["a", "b", "c"], item="item"), seed=4
        ).labels
        == found.labels
    )
    assert (
        aggregate_labels(
            Ratings.from_wide(wide, raters=["a", "b", "c"], item="item"), seed=5
        ).labels
        != found.labels
    )


def test_ties_do_not_see_the_system() -> None:
    ratings, _ = crowd(accuracies=(0.5, 0.5))
    labels = aggregate_labels(ratings).labels
    other = Ratings.from_wide(
        {
            c: [labels[i] if c == "agent" else r for i, r in enumerate(column)]
            for c, column in _columns(ratings).items()
        },
        raters=["r0", "r1"],
        systems=["agent"],
    )
    assert aggregate_labels(other).labels == labels


def _columns(ratings: Ratings) -> dict[str, list[Any]]:
    from noracle.evidence.frames import fetch

    rows = sorted(fetch(ratings.frame.select("item", "r0", "r1")))
    return {"r0": [r[1] for r in rows], "r1": [r[2] for r in rows], "agent": [None] * len(rows)}


def test_ties_may_stay_without_a_label() -> None:
    wide = {"a": ["x", "x"], "b": ["y", "x"], "s": ["x", "x"]}
    ratings = Ratings.from_wide(wide, raters=["a", "b"], systems=["s"])
    found = aggregate_labels(ratings, ties="none")
    assert dict(found.labels) == {0: None, 1: "x"}
    assert matches_of(ratings, found, "s").tolist() == [[0, 1], [1, 0]]


@pytest.mark.parametrize(
    ("method", "kind"),
    [
        ("weighted", "whole"),
        ("weighted", "text"),
        ("dawid-skene", "whole"),
        ("dawid-skene", "text"),
        SLOW_MACE,
    ],
)
def test_fitted_aggregates_beat_the_majority_where_raters_differ_and_err_alone(
    method: Any, kind: str
) -> None:
    pytest.importorskip("crowdkit")
    ratings, truth = crowd(kind=kind)
    with pytest.warns(GuaranteeWarning, match="as if raters erred independently"):
        found = aggregate_labels(ratings, method=method)
    assert right(found.labels, truth) > right(aggregate_labels(ratings).labels, truth)
    skills = [found.skills[f"r{j}"] for j in range(4)]
    assert skills == sorted(skills, reverse=True)
    assert any("independently" in note for note in found.notes)
    assert any("fitted on these very items" in note for note in found.notes)


@pytest.mark.filterwarnings("ignore::noracle.errors.GuaranteeWarning")
def test_dawid_skene_fails_silently_when_raters_err_together() -> None:
    pytest.importorskip("crowdkit")
    rng = np.random.default_rng(1)
    truth = rng.integers(0, 2, 400)
    shared = np.where(
        rng.random(400) < 0.6, truth, 1 - truth
    )  # three raters copy one who is right six times in ten
    alone = [np.where(rng.random(400) < 0.9, truth, 1 - truth) for _ in range(2)]
    wide = {
        f"r{j}": [int(v) for v in column]
        for j, column in enumerate([shared, shared, shared, *alone])
    }
    found = aggregate_labels(Ratings.from_wide(wide, raters=list(wide)), method="dawid-skene")
    assert right(found.labels, truth) < 0.7
    assert (
        found.skills["r0"] > 0.95
    )  # and it is sure of the wrong ones: that is what the warning is about


@pytest.mark.filterwarnings("ignore::noracle.errors.GuaranteeWarning")
@pytest.mark.parametrize("method", ["majority", "weighted", "dawid-skene"])
def test_matches_add_up_and_are_counted_by_kind(method: Any) -> None:
    if method != "majority":
        pytest.importorskip("crowdkit")
    ratings, _ = crowd(n=40)
    found = aggregate_labels(ratings, method=method)
    counts = count_ratings(ratings)
    matches = matches_of(ratings, found, "agent")
    assert matches.shape == (len(counts.votes), 2)
    assert np.array_equal(matches.sum(axis=1), counts.n_items)
    if method == "majority":
        untied = counts.tied == 1
        assert np.array_equal(matches[untied, 0], counts.hits("agent")[untied])


def test_votes_of_unknown_raters_have_a_majority_only() -> None:
    votes = Ratings.from_votes({"item": [1], "label": ["x"], "n": [2]})
    with pytest.raises(ArgumentError, match="must know who rated what"):
        aggregate_labels(votes, method="mace")


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name.startswith("crowdkit"):
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    ratings, _ = crowd(n=10)
    with (
        pytest.warns(GuaranteeWarning),
        pytest.raises(
            MissingExtra, match=r"needs crowd-kit\. Install it with: pip install 'noracle\[crowd\]'"
        ),
    ):
        aggregate_labels(ratings, method="dawid-skene")


def test_long_ratings_and_missing_ones_aggregate_as_wide_ones_do() -> None:
    long = {
        "item": [1, 1, 1, 2, 2],
        "rater": ["a", "b", "c", "a", "b"],
        "label": ["x", "x", "y", None, "y"],
    }
    assert dict(aggregate_labels(Ratings.from_tables(long)).labels) == {1: "x", 2: "y"}
