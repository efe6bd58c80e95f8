"""Items in clusters: the cluster is the unit where that matters, nothing changes where it does not,
and dependence is found.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest

from noracle.accuracy import compare_systems, estimate_accuracy, race_systems
from noracle.accuracy.clusters import check_clusters, clusters_matter, drawn_by_cluster_p_value
from noracle.counts import AccuracyCounts, PatternCounts, count_accuracy, count_patterns, label_rows
from noracle.counts.tally import Cell, Pattern, tally
from noracle.errors import ArgumentError
from noracle.evidence import Evidence
from noracle.results import Kind
from tests.unit.evidence.fixtures import Bring, bring, spark_session

__all__ = ["bring", "spark_session"]

World = dict[str, dict[str, list[Any]]]


def rates(rng: np.random.Generator, clusters: int, icc: float, accuracy: float = 0.7) -> np.ndarray:
    """How often the answers of each cluster are right."""
    if not icc:
        return np.full(clusters, accuracy)
    scale = 1 / icc - 1
    return rng.beta(accuracy * scale, (1 - accuracy) * scale, clusters)


def counts_of(
    cluster: np.ndarray,
    right: np.ndarray,
    labelled: np.ndarray,
    *,
    kind: str = "ordinary",
    n_classes: int = 4,
    rng: np.random.Generator | None = None,
    stratum: np.ndarray | None = None,
) -> AccuracyCounts:
    """One system's counts by cluster; labels are ordinary, uniform questions, or questions aimed at
    the answer half of the time.
    """
    items: Counter[Cell] = Counter()
    tallies: Counter[Any] = Counter()
    rng = rng or np.random.default_rng(0)
    for i, (c, good) in enumerate(zip(cluster.tolist(), right.tolist(), strict=True)):
        cell = Cell("a", n_classes, "" if stratum is None else str(stratum[i]), cluster=f"c{c}")
        items[cell] += 1
        if not labelled[i]:
            continue
        if kind == "ordinary":
            tallies[tally(cell, "yes", hit=bool(good))] += 1
        elif kind == "uniform":  # one class at random: the truth, the answer, or another
            asked = rng.integers(n_classes)
            yes, hit = asked == 0, asked == (0 if good else 1)
            tallies[
                tally(cell, "yes" if yes else "no", hit=bool(hit), n_ruled_out=int(not yes))
            ] += 1
        else:
            about = rng.random() < 0.5
            verdict = "yes" if (good if about else rng.random() < 0.3) else "no"
            tallies[tally(cell, verdict, hit=bool(about), inverse=2.0 if about else 0.0)] += 1  # type: ignore[arg-type]
    return AccuracyCounts(
        tallies=dict(tallies), items=dict(items), answered=dict(items), whole=True
    )


def world(kind: str, rng: np.random.Generator) -> tuple[AccuracyCounts, float, str]:
    """Counts, the accuracy, and the population that it belongs to."""
    name, *numbers = kind.split()
    if name in ("beyond", "uniform", "recorded"):
        m, icc = int(numbers[0]), float(numbers[1])
        cluster = np.repeat(np.arange(60), m)
        right = rng.random(len(cluster)) < np.repeat(rates(rng, 60, icc), m)
        design = "ordinary" if name == "beyond" else name
        return (
            counts_of(cluster, right, np.ones(len(cluster), dtype=bool), kind=design, rng=rng),
            0.7,
            "beyond",
        )
    sizes = np.full(300, 5) if name == "sampled" else rng.choice([2, 8], 300)
    base = 0.7 if name == "sampled" else np.where(sizes == 2, 0.9, 0.6)
    rate = rates(rng, 300, 0.3) if name == "sampled" else rng.beta(base * 3, (1 - base) * 3)
    cluster = np.repeat(np.arange(300), sizes)
    right = rng.random(len(cluster)) < np.repeat(rate, sizes)
    drawn = np.isin(cluster, rng.choice(300, 60, replace=False))
    if name == "partly":  # at most three of each drawn cluster
        order = rng.permutation(len(cluster))
        seen: Counter[int] = Counter()
        for i in order:
            seen[int(cluster[i])] += 1
            drawn[i] &= seen[int(cluster[i])] <= 3
    return counts_of(cluster, right, drawn), float(right.mean()), "answers"


KINDS = [
    "beyond 5 0.1",
    "beyond 5 0.3",
    "beyond 10 0.3",
    "uniform 5 0.3",
    "recorded 5 0.3",
    "sampled",
    "unequal",
    "partly",
]


def misses(kind: str, worlds: int, confidence: float) -> dict[str, float]:
    rng = np.random.default_rng([len(kind), ord(kind[0])])
    found = {"auto": 0, "wald": 0, "ignore": 0, "width": 0.0}
    for _ in range(worlds):
        counts, truth, population = world(kind, rng)
        for name, more in (
            ("auto", {}),
            ("wald", {"interval": "wald"}),
            ("ignore", {"clusters": "ignore"}),
        ):
            e = estimate_accuracy(
                counts, population=population, confidence=confidence, checks="none", **more
            )  # type: ignore[arg-type]
            found[name] += not e.low <= truth <= e.high
            if name == "auto":
                assert (e.interval, e.method, e.guarantee.kind) == (
                    "clusters",
                    "scores",
                    Kind.FINITE_SAMPLE,
                )
                found["width"] += (e.high - e.low) / worlds
            elif name == "wald":
                assert (e.interval, e.guarantee.kind) == ("cr2", Kind.ASYMPTOTIC)
    return found


@pytest.mark.thin(9)
@pytest.mark.parametrize("kind", KINDS)
def test_intervals_by_cluster_cover(kind: str) -> None:
    found = misses(kind, 25, 0.8)
    assert binomtest(int(found["auto"]), 25, 0.2, alternative="greater").pvalue > 1e-3
    assert binomtest(int(found["wald"]), 25, 0.24, alternative="greater").pvalue > 1e-3
    assert found["width"] < 0.45


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_intervals_by_cluster_cover_in_500_worlds(kind: str) -> None:
    found = misses(kind, 500, 0.95)
    assert binomtest(int(found["auto"]), 500, 0.05, alternative="greater").pvalue > 1e-3
    assert binomtest(int(found["wald"]), 500, 0.07, alternative="greater").pvalue > 1e-3
    if kind in ("beyond 5 0.3", "beyond 10 0.3", "sampled", "unequal"):
        assert found["ignore"] > 50  # as independent items: less than 90 % where 95 % are promised


def test_drawing_items_one_by_one_makes_clusters_irrelevant() -> None:
    """From a finite population the interval is the usual one, whatever the clusters; only the
    counts know them.
    """
    rng = np.random.default_rng(1)
    cluster = np.repeat(np.arange(200), 5)
    matters = 0
    for _ in range(100):
        right = rng.random(1000) < np.repeat(rates(rng, 200, 0.3), 5)
        labelled = np.isin(np.arange(1000), rng.choice(1000, 150, replace=False))
        counts = counts_of(cluster, right, labelled)
        matters += clusters_matter(counts, beyond=False)
    assert matters <= 4
    by_cluster, plain = (
        estimate_accuracy(c, checks="none") for c in (counts, counts.without_clusters())
    )
    assert by_cluster == plain
    assert plain.interval == "hypergeometric"


@pytest.mark.parametrize("share", [0.02, 0.1, 0.6])
def test_sparse_labels_of_unequal_clusters_are_not_taken_for_drawn_clusters(share: float) -> None:
    rng = np.random.default_rng(2)
    sizes = rng.choice([1, 1, 2, 3, 20], 200)
    cluster = np.repeat(np.arange(200), sizes)
    stratum = np.where(cluster < 100, "law", "art")
    alarms = 0
    for _ in range(300):
        chance = share * np.where(
            stratum == "law", 1.5, 0.5
        )  # strata at different rates are no clusters
        labelled = rng.random(len(cluster)) < chance
        sizes_of = Counter(zip(stratum.tolist(), map(str, cluster.tolist()), strict=True))
        labels = Counter(
            zip(stratum[labelled].tolist(), map(str, cluster[labelled].tolist()), strict=True)
        )
        alarms += drawn_by_cluster_p_value(sizes_of, labels) < 0.01
    assert binomtest(alarms, 300, 0.01, alternative="greater").pvalue > 1e-3


def test_one_label_per_cluster_of_unequal_size_is_not_taken_for_a_random_sample() -> None:
    """The mean over such labels is the mean of cluster accuracies; the estimate weights them by
    size.
    """
    rng = np.random.default_rng(3)
    sizes = rng.choice([1, 9], 200)
    cluster = np.repeat(np.arange(200), sizes)
    right = np.repeat(rng.random(200) < np.where(sizes == 1, 0.95, 0.4), sizes)
    first = np.concatenate([[True], cluster[1:] != cluster[:-1]])
    counts = counts_of(cluster, right, first)
    found = estimate_accuracy(counts, checks="none")
    assert found.interval == "clusters"
    assert found.value == pytest.approx(right.mean(), abs=1e-9)
    assert right[first].mean() > right.mean() + 0.1


def test_clusters_of_strata_that_were_drawn_at_different_rates_take_the_promise_away() -> None:
    cluster = np.repeat(np.arange(200), 5)
    stratum = np.where(cluster < 100, "law", "art")
    labelled = (cluster < 60) | (cluster >= 190)
    right = np.random.default_rng(4).random(1000) < 0.7
    found = estimate_accuracy(counts_of(cluster, right, labelled, stratum=stratum), checks="none")
    assert found.guarantee.kind is Kind.HEURISTIC
    assert any(
        "random sample" in a.name and a.status == "failed" for a in found.guarantee.assumptions
    )


def test_one_cluster_says_nothing_of_items_beyond() -> None:
    one = counts_of(np.zeros(50, dtype=int), np.arange(50) < 40, np.ones(50, dtype=bool))
    found = estimate_accuracy(one, population="beyond", checks="none")
    assert found.width > 0.95
    assert found.diagnostics["clusters"] == 1
    assert estimate_accuracy(one, checks="none").width == 0.0  # on these items it is known


def test_items_without_an_answer_score_zero_also_where_nobody_labelled_them() -> None:
    """Only answered items are labelled: the accuracy still counts the others as wrong, and clusters
    without answers as well.
    """
    cell = {c: Cell("a", 4, cluster=f"c{c}") for c in range(60)}
    items = {cell[c]: 4 for c in cell}
    answered = {cell[c]: 4 if c < 40 else 0 for c in cell}
    tallies = {tally(cell[c], "yes", hit=True): 3 for c in range(40)} | {
        tally(cell[c], "yes", hit=False): 1 for c in range(40)
    }
    counts = AccuracyCounts(tallies=tallies, items=items, answered=answered)
    found = estimate_accuracy(counts, population="beyond", checks="none")
    assert found.value == pytest.approx(120 / 240)
    assert found.low < 0.5 < found.high
    assert found.diagnostics["n_labels_used"] == 160


def test_other_intervals_and_different_weights_are_refused_with_the_way_out() -> None:
    counts = counts_of(
        np.repeat(np.arange(60), 5), np.arange(300) % 3 > 0, np.ones(300, dtype=bool)
    )
    with pytest.raises(ArgumentError, match="clusters='ignore'"):
        estimate_accuracy(counts, population="beyond", interval="profile", checks="none")
    heavy = AccuracyCounts(
        tallies={
            t._replace(weight=2.0 if t.cluster < "c3" else 1.0): n
            for t, n in counts.tallies.items()
        },
        items={
            c._replace(weight=2.0 if c.cluster < "c3" else 1.0): n for c, n in counts.items.items()
        },
        answered={
            c._replace(weight=2.0 if c.cluster < "c3" else 1.0): n
            for c, n in counts.answered.items()
        },
        whole=False,
    )
    with pytest.raises(ArgumentError, match="weights must be equal"):
        estimate_accuracy(heavy, checks="none")


def test_bets_at_every_look_are_wider_and_say_so() -> None:
    counts = counts_of(
        np.repeat(np.arange(60), 5), np.arange(300) % 3 > 0, np.ones(300, dtype=bool)
    )
    fixed, always = (
        estimate_accuracy(counts, population="beyond", method="scores", interval=i, checks="none")  # type: ignore[arg-type]
        for i in ("fixed-n", "betting")
    )
    assert always.guarantee.anytime
    assert not fixed.guarantee.anytime
    assert always.interval == "clusters, every look"
    assert always.width > fixed.width


def test_design_effect_says_what_clusters_cost() -> None:
    """1 + (m - 1)·correlation: 2.2 for clusters of 5 and .3; 5 where clusters are right or wrong as
    a whole.
    """
    rng = np.random.default_rng(17)
    cluster, everything = np.repeat(np.arange(2000), 5), np.ones(10_000, dtype=bool)
    for icc, wanted in ((0.3, 2.2), (0.0, 1.0)):
        right = rng.random(10_000) < np.repeat(rates(rng, 2000, icc), 5)
        found = estimate_accuracy(
            counts_of(cluster, right, everything),
            population="beyond",
            interval="wald",
            checks="none",
        )
        assert found.diagnostics["design_effect"] == pytest.approx(wanted, abs=0.15)
    whole = np.repeat(rng.random(2000) < 0.7, 5)
    found = estimate_accuracy(
        counts_of(cluster, whole, everything), population="beyond", interval="wald", checks="none"
    )
    assert found.diagnostics["design_effect"] == pytest.approx(5.0, rel=0.01)
    assert "5.0 times the labels" in str(found)


def test_card_and_json_say_clusters() -> None:
    counts = counts_of(
        np.repeat(np.arange(60), 5), np.arange(300) % 3 > 0, np.ones(300, dtype=bool)
    )
    found = estimate_accuracy(counts, population="beyond", checks="none")
    assert "60 clusters" in str(found)
    data = found.to_dict()
    assert data["interval"] == "clusters"
    assert data["diagnostics"]["clusters"] == 60
    assert type(found).from_dict(data) == found


# -----------------------------------------------------------------------------------------------------------------
# tables


def tables(
    rng: np.random.Generator,
    *,
    clusters: int = 30,
    m: int = 4,
    systems: tuple[float, ...] = (0.8, 0.6),
    icc: float = 0.3,
) -> World:
    """Systems that answer the truth (class 1) or class 0, every item labelled."""
    n = clusters * m
    answers: dict[str, list[Any]] = {"item": [], "system": [], "answer": []}
    for s, accuracy in enumerate(systems):
        right = rng.random(n) < np.repeat(rates(rng, clusters, icc, accuracy), m)
        answers["item"] += list(range(n))
        answers["system"] += ["abc"[s]] * n
        answers["answer"] += right.astype(int).tolist()
    return {
        "answers": answers,
        "judgements": {"item": list(range(n)), "class": [1] * n, "verdict": ["yes"] * n},
        "items": {"item": list(range(n)), "cluster": np.repeat(np.arange(clusters), m).tolist()},
    }


def of(tables: World, **columns: list[Any]) -> Evidence:
    given = {**tables, "items": {**tables["items"], **columns}}
    return Evidence.from_tables(**given, n_classes=2)  # type: ignore[arg-type]


@pytest.mark.thin(3)
@pytest.mark.parametrize("text", [False, True], ids=["numbers", "text"])
def test_every_engine_counts_the_same_clusters(bring: Bring, text: bool) -> None:
    made = tables(np.random.default_rng(5), clusters=6)
    if text:
        made["items"]["cluster"] = [f"passage {c}" for c in made["items"]["cluster"]]
    evidence = Evidence.from_tables(**bring(made), n_classes=2)
    counts = count_accuracy(evidence, by_cluster=True)
    assert Counter(c.cluster for c in counts.items) == dict.fromkeys(
        [f"passage {c}" if text else str(c) for c in range(6)], 2
    )
    assert set(counts.items.values()) == {4}
    assert counts.without_clusters().tallies == count_accuracy(evidence).tallies
    patterns = count_patterns(evidence, by_cluster=True)
    assert patterns.without_clusters() == count_patterns(evidence)
    assert {p.cluster for p in label_rows(evidence, by_cluster=True)[1]} == {
        c.cluster for c in counts.items
    }


def test_items_without_a_cluster_are_alone() -> None:
    made = tables(np.random.default_rng(6), systems=(0.7,))
    del made["items"]["cluster"]
    plain = of(made)
    nulls = of(made, cluster=[None] * 120)
    for population in ("answers", "beyond"):
        found = [estimate_accuracy(e, population=population, checks="none") for e in (plain, nulls)]  # type: ignore[arg-type]
        assert found[0] == found[1]
    some = count_accuracy(of(made, cluster=["p"] * 4 + [None] * 116), by_cluster=True)
    assert sorted(some.items.values())[-2:] == [1, 4]


def test_tables_give_the_interval_of_their_counts() -> None:
    evidence = of(tables(np.random.default_rng(7), systems=(0.7,)))
    found = estimate_accuracy(evidence, population="beyond", checks="none")
    assert found.interval == "clusters"
    assert found == estimate_accuracy(
        count_accuracy(evidence, by_cluster=True), population="beyond", checks="none"
    )
    assert (
        estimate_accuracy(evidence, population="beyond", clusters="ignore", checks="none").width
        < found.width
    )


@pytest.mark.full
@pytest.mark.timing
def test_counting_20_000_clusters_takes_little_more_than_counting_items() -> None:
    import polars as pl

    rng = np.random.default_rng(8)
    n = 100_000
    items = pl.DataFrame({"item": np.arange(n), "cluster": np.arange(n) // 5})
    answers = pl.DataFrame(
        {"item": np.arange(n), "system": ["a"] * n, "answer": rng.integers(0, 2, n)}
    )
    judgements = pl.DataFrame(
        {"item": np.arange(n), "class": np.ones(n, dtype=int), "verdict": ["yes"] * n}
    )
    took = []
    for by_cluster in (False, True):
        evidence = Evidence.from_tables(answers, judgements, items, n_classes=2)
        started = time.process_time()
        counts = count_accuracy(evidence, by_cluster=by_cluster)
        took.append(time.process_time() - started)
    assert len({c.cluster for c in counts.items}) == n // 5
    assert took[1] <= 2 * took[0] + 1.0  # about 0.2 s beside 0.03 s for the items alone


# -------------------------------------------------------------------------------------------------
# comparisons and races


def pattern_counts(
    rng: np.random.Generator, kind: str, clusters: int = 60, m: int = 5, gap: float = 0.0
) -> PatternCounts:
    """Two systems; which of them is right depends on the cluster."""
    favours = rng.beta(1.2, 1.2, clusters) + gap
    patterns: Counter[Pattern] = Counter()
    items: Counter[Cell] = Counter()
    for c in range(clusters):
        size = m if kind != "unequal" else int(rng.choice([2, 8]))
        name = f"c{c}"
        items[Cell("", 4, cluster=name)] += size
        for _ in range(size):
            if rng.random() < 0.3:
                hits: tuple[bool, bool] = (True, True)
            else:
                first = rng.random() < favours[c]
                hits = (first, not first)
            if kind == "uniform":
                asked = rng.integers(4)
                given = [0 if hit else 1 + k for k, hit in enumerate(hits)]
                hits = tuple(g == asked for g in given)  # type: ignore[assignment]
                patterns[
                    Pattern(
                        4,
                        "yes" if asked == 0 else "no",
                        hits,
                        n_ruled_out=int(asked > 0),
                        cluster=name,
                    )
                ] += 1
            else:
                patterns[Pattern(4, "yes", hits, cluster=name)] += 1
    return PatternCounts(systems=("a", "b"), patterns=dict(patterns), items=dict(items))


@pytest.mark.full
@pytest.mark.parametrize("kind", ["equal", "unequal", "uniform"])
def test_differences_by_cluster_cover_where_items_do_not(kind: str) -> None:
    rng = np.random.default_rng(9)
    found = {"clusters": 0, "cr2": 0, "items": 0}
    widths = []
    for _ in range(40):
        counts = pattern_counts(rng, kind)
        by_cluster, cr2 = (
            compare_systems(
                counts, population="beyond", confidence=0.8, interval=i, checks="none"
            ).differences[0]  # type: ignore[arg-type]
            for i in ("auto", "wald")
        )
        items = compare_systems(
            counts, population="beyond", confidence=0.8, clusters="ignore", checks="none"
        ).differences[0]
        for name, d in (("clusters", by_cluster), ("cr2", cr2), ("items", items)):
            found[name] += not d.low <= 0 <= d.high
        widths.append(by_cluster.high - by_cluster.low)
    assert binomtest(found["clusters"], 40, 0.2, alternative="greater").pvalue > 1e-3
    assert binomtest(found["cr2"], 40, 0.22, alternative="greater").pvalue > 1e-3
    assert np.mean(widths) < (1.2 if kind == "uniform" else 0.6)
    if kind == "equal":
        assert found["items"] > 10


def test_comparison_says_what_it_rests_on() -> None:
    counts = pattern_counts(np.random.default_rng(10), "equal", gap=0.4)
    found = compare_systems(counts, population="beyond", checks="none")
    assert (found.interval, found.guarantee.kind, found.guarantee.anytime) == (
        "clusters",
        Kind.FINITE_SAMPLE,
        False,
    )
    assert found.counts["clusters"] == 60
    assert found.difference("a", "b").verdict == "first"
    assert any("60 clusters" in note for note in found.notes)
    assert found.guarantee.assumptions[0].name == "clusters are a random sample"
    every_look = compare_systems(counts, population="beyond", interval="betting", checks="none")
    assert every_look.guarantee.anytime
    assert every_look.difference("a", "b").low <= found.difference("a", "b").low
    usual = compare_systems(
        counts, checks="none"
    )  # all items are labelled: on these items clusters do not matter
    assert usual == compare_systems(counts.without_clusters(), checks="none")


def test_race_takes_clusters_as_a_whole() -> None:
    rng = np.random.default_rng(11)
    evidence = of(tables(rng, clusters=80, m=5, systems=(0.9, 0.5, 0.3), icc=0.2))
    race = race_systems(evidence, population="beyond", checks="none")
    assert race.leaders == ("a",)
    assert all(n % 5 == 0 for n in race.dropped.values())
    assert race.guarantee.anytime
    assert race.interval == "clusters, every look"
    ignored = race_systems(evidence, population="beyond", clusters="ignore", checks="none")
    assert max(ignored.dropped.values()) < max(race.dropped.values())
    assert (
        race_systems(evidence, checks="none").dropped == ignored.dropped
    )  # on these items clusters do not matter


@pytest.mark.full
def test_race_by_cluster_keeps_the_best_of_equals() -> None:
    """Which of two equal systems leads is a matter of the cluster: items as independent drop one
    far too often.
    """
    from noracle.accuracy.compare import Race

    rng = np.random.default_rng(12)
    dropped = {"clusters": 0, "items": 0}
    for _ in range(60):
        by_cluster, by_item = (
            Race(("a", "b"), n_classes=2, confidence=0.8, largest=20),
            Race(("a", "b"), n_classes=2, confidence=0.8),
        )
        for _ in range(100):
            first = bool(rng.random() < 0.5)
            rows = [Pattern(2, "yes", (first, not first))] * 20
            by_cluster.update_cluster(rows, 20)
            by_item.update(rows[0], 20)
        dropped["clusters"] += bool(by_cluster.dropped)
        dropped["items"] += bool(by_item.dropped)
    assert binomtest(dropped["clusters"], 60, 0.2, alternative="greater").pvalue > 1e-3
    assert dropped["items"] > 40


def test_race_refuses_a_cluster_that_is_larger_than_it_said() -> None:
    from noracle.accuracy.compare import Race

    with pytest.raises(ArgumentError, match="largest must bound"):
        Race(("a", "b"), n_classes=2, largest=3).update_cluster(
            [Pattern(2, "yes", (True, False))], 4
        )


# --------------------------------------------------------------------------------------------------------------
# the check


def test_check_finds_dependence_and_only_that() -> None:
    rng = np.random.default_rng(13)
    cluster, everything = np.repeat(np.arange(60), 5), np.ones(300, dtype=bool)
    failed = {}
    for icc, worlds in ((0.3, 30), (0.0, 100)):
        failed[icc] = 0
        for seed in range(worlds):
            right = rng.random(300) < np.repeat(rates(rng, 60, icc), 5)
            failed[icc] += not check_clusters(
                counts_of(cluster, right, everything), population="beyond", seed=seed
            ).passed
    assert failed[0.3] >= 27
    assert failed[0.0] <= 1


def test_check_is_not_fooled_by_kinds_of_items() -> None:
    """Numbers of classes go with the cluster, and with them the spread of the scores; items are
    independent.
    """
    rng = np.random.default_rng(14)
    failed = 0
    for seed in range(60):
        parts = []
        for k, start in ((3, 0), (10, 30)):
            cluster = np.repeat(np.arange(start, start + 30), 5)
            right = rng.random(150) < 0.7
            parts.append(
                counts_of(
                    cluster, right, np.ones(150, dtype=bool), kind="uniform", n_classes=k, rng=rng
                )
            )
        failed += check_clusters(parts[0] + parts[1], population="beyond", seed=seed).p_value < 0.05
    assert binomtest(failed, 60, 0.05, alternative="greater").pvalue > 1e-3


def test_check_says_what_to_do_and_demotes() -> None:
    evidence = of(tables(np.random.default_rng(15), clusters=60, m=5))
    found = check_clusters(evidence, population="beyond")
    assert not found.passed
    assert found.assumption == "iid items"
    assert "clusters='auto'" in found.finding
    assert len(found.parts) == 2
    estimate = estimate_accuracy(
        evidence, system="a", population="beyond", clusters="ignore", checks=[found]
    )
    assert estimate.guarantee.kind is Kind.HEURISTIC
    by_cluster = estimate_accuracy(evidence, system="a", population="beyond", checks="none")
    assert by_cluster.guarantee.kind is Kind.FINITE_SAMPLE


def test_check_is_not_applicable_without_clusters_or_where_they_do_no_harm() -> None:
    made = tables(np.random.default_rng(16))
    assert "do not matter" in check_clusters(of(made)).finding  # every item is labelled
    del made["items"]["cluster"]
    found = check_clusters(of(made), population="beyond")
    assert math.isnan(found.p_value)
    assert found.passed
    with pytest.raises(ArgumentError, match="must be Evidence"):
        check_clusters("nothing")  # type: ignore[arg-type]


def test_ignored_clusters_that_depend_take_the_promise_away() -> None:
    """60 passages with 5 questions each, all right or all wrong: as single items the interval would
    be far too narrow.
    """
    n = 300
    right = [passage % 3 > 0 for passage in range(60) for _ in range(5)]
    evidence = Evidence.from_tables(
        answers={
            "item": list(range(n)),
            "system": ["a"] * n,
            "answer": [0 if r else 1 for r in right],
        },
        judgements={"item": list(range(n)), "class": [0] * n, "verdict": ["yes"] * n},
        items={"item": list(range(n)), "cluster": [f"passage {i // 5}" for i in range(n)]},
        n_classes=2,
    )
    ignored = estimate_accuracy(evidence, population="beyond", clusters="ignore")
    assert ignored.guarantee.kind == Kind.HEURISTIC
    assert any(
        a.name == "iid items" and a.status == "failed" for a in ignored.guarantee.assumptions
    )
    honoured = estimate_accuracy(evidence, population="beyond")
    assert honoured.guarantee.kind == Kind.FINITE_SAMPLE
    assert honoured.width > 1.5 * ignored.width
