"""Means of rows that come in clusters: whole clusters in folds, the CR2 variance, and nothing new
without clusters.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest

from noracle.bounds.clusters import cr2
from noracle.errors import ArgumentError, EvidenceError
from noracle.ppi import estimate_mean


def table(
    rng: np.random.Generator, *, clusters: int = 200, m: int = 5, labelled: int = 60
) -> dict[str, list[Any]]:
    """A human on the first clusters, a judge on all; both share what is special about a cluster."""
    special = np.repeat(rng.normal(0, 0.6, clusters), m)
    truth = 1.0 + special + rng.normal(0, 0.8, clusters * m)
    judge = truth + 0.3 + rng.normal(0, 0.6, clusters * m)
    cluster = np.repeat(np.arange(clusters), m)
    human = [float(t) if c < labelled else None for t, c in zip(truth, cluster, strict=True)]
    return {"human": human, "judge": judge.tolist(), "cluster": cluster.tolist()}


def without(made: dict[str, list[Any]], name: str) -> dict[str, list[Any]]:
    return {k: v for k, v in made.items() if k != name}


@pytest.mark.parametrize("worlds", [30, pytest.param(500, marks=pytest.mark.slow)])
@pytest.mark.parametrize("interval", ["crossfit-t", "classical"])
def test_intervals_by_cluster_cover_where_rows_do_not(interval: Any, worlds: int) -> None:
    rng = np.random.default_rng(1)
    missed = {"clusters": 0, "rows": 0}
    for seed in range(worlds):
        made = table(rng)
        for name, data in (("clusters", made), ("rows", without(made, "cluster"))):
            found = estimate_mean(
                data, target="human", interval=interval, confidence=0.8, seed=seed
            )
            missed[name] += not found.low <= 1.0 <= found.high
    assert binomtest(missed["clusters"], worlds, 0.22, alternative="greater").pvalue > 1e-3
    assert binomtest(missed["clusters"], worlds, 0.15, alternative="less").pvalue > 1e-3
    assert missed["rows"] > missed["clusters"] + worlds // 15


def test_judge_helps_by_cluster() -> None:
    made = table(np.random.default_rng(2))
    found = estimate_mean(made, target="human")
    classical = estimate_mean(made, target="human", interval="classical")
    assert found.width < classical.width
    assert found.counts["clusters"] == 60
    assert "clusters are a random sample" in [a.name for a in found.guarantee.assumptions]
    assert any("60 of them with labels" in note for note in found.notes)


def test_classical_variance_is_cr2() -> None:
    rng = np.random.default_rng(3)
    sizes = rng.integers(1, 9, 60)
    cluster = np.repeat(np.arange(60), sizes)
    values = rng.normal(size=60)[cluster] + rng.normal(size=len(cluster))
    found = estimate_mean(
        {"human": values.tolist(), "cluster": cluster.tolist()},
        target="human",
        interval="classical",
    )
    value, variance, freedom = cr2(sizes, sizes, np.bincount(cluster, values))
    assert (found.value, found.se**2) == pytest.approx((value, variance))
    assert found.diagnostics["degrees_of_freedom"] == pytest.approx(freedom, rel=0.05)


def test_long_tables_have_clusters_too_and_text_names_are_the_same() -> None:
    made = table(np.random.default_rng(4), clusters=80)
    n = len(made["human"])
    long: dict[str, list[Any]] = {"item": [], "rater": [], "value": [], "cluster": []}
    for rater in ("human", "judge"):
        for i in range(n):
            if made[rater][i] is not None:
                for name, value in zip(
                    long, (i, rater, made[rater][i], f"passage {made['cluster'][i]}"), strict=True
                ):
                    long[name].append(value)
    wide, other = (
        estimate_mean(made, target="human"),
        estimate_mean(long, target="human"),
    )
    assert (wide.value, wide.se) == pytest.approx((other.value, other.se), rel=0.05)
    long["cluster"][0] = "another"
    with pytest.raises(EvidenceError, match="same in all rows"):
        estimate_mean(long, target="human")


def test_rows_that_are_alone_and_clusters_none_change_nothing() -> None:
    made = table(np.random.default_rng(5))
    plain = estimate_mean(without(made, "cluster"), target="human")
    for cluster in ([None] * 1000, list(range(1000))):
        assert (
            estimate_mean({**without(made, "cluster"), "cluster": cluster}, target="human") == plain
        )
    assert estimate_mean(made, target="human", clusters=None) == plain


@pytest.mark.parametrize("interval", ["jackknife-t", "paper", "anytime"])
def test_other_intervals_are_refused_by_cluster(interval: Any) -> None:
    with pytest.raises(ArgumentError, match="clusters=None"):
        estimate_mean(table(np.random.default_rng(6)), target="human", interval=interval)


def test_few_clusters_are_few() -> None:
    made = table(np.random.default_rng(7), labelled=3)
    with pytest.raises(EvidenceError, match="at least 4 clusters"):
        estimate_mean(made, target="human")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = estimate_mean(table(np.random.default_rng(8), labelled=10), target="human")
    assert any(
        "labelled clusters" in a.name and a.status == "failed" for a in found.guarantee.assumptions
    )
