"""Certificates where items come in clusters: sums over clusters are bet on, and iid items would
certify too often.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest

from noracle.bounds.clusters import cr2
from noracle.errors import ArgumentError, EvidenceError
from noracle.evidence import Ratings
from noracle.results import Certificate, Kind
from noracle.superhuman import CertificateStream, certify_superhuman
from noracle.superhuman.difference import _t_moments, p_by_betting, p_by_t, sample_by_cluster

Tables = tuple[dict[str, list[Any]], dict[str, list[Any]], dict[str, list[Any]]]


def tables(
    rng: np.random.Generator,
    *,
    clusters: int = 40,
    m: int = 5,
    right: float = 1.0,
    split: float = 0.5,
    noise: float = 1.0,
) -> Tables:
    """Three votes on label 0, one of them another label in a share of the clusters; the system is
    right as a whole cluster is.
    """
    n = clusters * m
    votes: dict[str, list[Any]] = {"item": [], "rater": [], "label": []}
    divided = np.repeat(rng.random(clusters) < split, m)
    for i in range(n):
        votes["item"] += [i] * 3
        votes["rater"] += ["ann", "bob", "eve"]
        votes["label"] += [0, 0, 1 if divided[i] else 0]
    good = np.repeat(rng.random(clusters) < right, m) if noise else rng.random(n) < right
    answers = {"item": list(range(n)), "system": ["a"] * n, "answer": np.where(good, 0, 2).tolist()}
    items = {"item": list(range(n)), "cluster": np.repeat(np.arange(clusters), m).tolist()}
    return answers, votes, items


def certify(made: Tables, **more: Any) -> Certificate:
    answers, votes, items = made
    return certify_superhuman(
        Ratings.from_tables(votes, answers, items=items, labels=[0, 1, 2]),
        trained_on_annotators="no",
        **more,
    )


@pytest.mark.parametrize("test", ["betting", "t"])
def test_certificate_by_cluster_verifies_and_is_weaker(test: str) -> None:
    made = tables(np.random.default_rng(1))
    by_cluster, items = certify(made, test=test), certify(made, test=test, clusters="ignore")
    assert by_cluster.value == pytest.approx(items.value)
    assert by_cluster.low < items.low
    assert by_cluster.verify()
    assert items.verify()
    assert any("40 clusters" in note for note in by_cluster.notes)
    assert by_cluster.guarantee.kind is (Kind.ASYMPTOTIC if test == "t" else Kind.FINITE_SAMPLE)
    assert "clusters are a random sample" in [a.name for a in by_cluster.guarantee.assumptions]
    changed = dataclasses.replace(by_cluster, low=by_cluster.low + 0.01)
    assert not changed.verify()
    assert Certificate.from_dict(by_cluster.to_dict()).verify()


def test_undecided_certificate_says_how_many_items_are_needed_and_verifies() -> None:
    found = certify(tables(np.random.default_rng(2), clusters=12), margin=0.05)
    assert not found.certified
    assert found.diagnostics["needed_items"] > 60
    assert found.verify()


def test_bets_on_clusters_certify_wrongly_no_more_often_than_promised() -> None:
    """The mean of Z is 0: match .9, top share 2/3 in three tenths of the clusters; whole clusters
    are right or wrong.
    """
    rng = np.random.default_rng(3)
    wrong = dict.fromkeys(("betting", "t", "items"), 0)
    for _ in range(300):
        rows = []
        for c in range(60):
            row = (
                int(rng.random() < 0.9),
                1,
                2 if rng.random() < 0.3 else 3,
                3,
                int(rng.choice([2, 8])),
            )
            rows.append((f"c{c}", row))
        sample = sample_by_cluster(rows)
        wrong["betting"] += p_by_betting(sample, 0.0) <= 0.2
        wrong["t"] += p_by_t(sample, 0.0) <= 0.2
        wrong["items"] += p_by_t(dataclasses.replace(sample, clusters=()), 0.0) <= 0.2
    assert binomtest(wrong["betting"], 300, 0.2, alternative="greater").pvalue > 1e-3
    assert binomtest(wrong["t"], 300, 0.24, alternative="greater").pvalue > 1e-3
    assert wrong["items"] > 90


def test_clusters_of_one_item_change_nothing() -> None:
    answers, votes, items = tables(np.random.default_rng(4))
    alone = (answers, votes, {"item": items["item"], "cluster": [None] * 200})
    assert certify(alone) == certify((answers, votes, items), clusters="ignore")


def test_t_by_cluster_is_cr2() -> None:
    rng = np.random.default_rng(5)
    sizes = rng.integers(1, 6, 20)
    rows = [
        (f"c{c}", (int(rng.random() < 0.9), 1, 2, 3, 1)) for c in range(20) for _ in range(sizes[c])
    ]
    z = np.array([row[0] - 2 / 3 for _, row in rows])
    own = np.bincount(np.repeat(np.arange(20), sizes), z)
    assert _t_moments(sample_by_cluster(rows)) == pytest.approx(cr2(sizes, sizes, own))


def test_what_has_no_meaning_by_cluster_is_refused() -> None:
    made = tables(np.random.default_rng(6), clusters=6)
    for more in ({"test": "binomial"}, {"test": "bernstein"}, {"ties": "random"}):
        with pytest.raises(ArgumentError, match="clusters='ignore'"):
            certify(made, **more)
    with pytest.raises(EvidenceError, match="column cluster"):
        Ratings.from_tables(made[1], made[0], items={"item": [0, 1], "stratum": ["a", "b"]})
    with pytest.raises(ArgumentError, match="items must come with tables"):
        certify_superhuman(Ratings.from_tables(made[1], made[0]), items=made[2])


def test_tables_and_ratings_give_the_same_certificate() -> None:
    answers, votes, items = tables(np.random.default_rng(7))
    found = certify_superhuman(votes, answers, items=items, trained_on_annotators="no")
    assert found.low == certify((answers, votes, items)).low


def test_stream_of_clustered_items_promises_nothing() -> None:
    stream = CertificateStream(trained_on_annotators="no", clustered=True)
    for _ in range(60):
        stream.update(ratings=["cat", "cat", "dog"], answer="cat")
    found = stream.certificate()
    assert not found.certified
    assert found.guarantee.kind is Kind.HEURISTIC
    assert found.verify()
