"""Grades counted by the engine and by hand: tallies, patterns, propensities, partitions, and what
comes back from JSON.
"""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import numpy as np
import polars as pl
import pytest

from noracle import AccuracyCounts, Evidence, compare_systems, estimate_accuracy, route_items
from noracle.accuracy.check import check_grading, label_checks
from noracle.accuracy.score import score
from noracle.counts import (
    Counted,
    PatternCounts,
    count_accuracy,
    count_evidence,
    count_partitions,
    count_patterns,
    label_rows,
)
from noracle.counts.tally import Cell, Label, Tally

Rng = np.random.Generator
SYSTEMS = ("a", "b", "c")


class World:
    """Answers of free text to items, some of them missing, and the truth of each."""

    def __init__(
        self,
        rng: Rng,
        n: int = 60,
        *,
        silent: float = 0.1,
        accuracies: tuple[float, ...] = (0.8, 0.6, 0.5),
    ) -> None:
        self.n = n
        self.stratum = ["x" if u < 0.4 else "y" for u in rng.random(n)]
        self.right = {s: rng.random(n) < a for s, a in zip(SYSTEMS, accuracies, strict=True)}
        self.answer: dict[tuple[int, str], str | None] = {}
        for i, s in itertools.product(range(n), SYSTEMS):
            said = f"truth {i}" if self.right[s][i] else f"error {rng.integers(2)}"
            self.answer[i, s] = None if rng.random() < silent else said

    def is_right(self, i: int, s: str) -> bool:
        return self.answer[i, s] == f"truth {i}"

    @property
    def answers(self) -> pl.DataFrame:
        rows = [(i, s, given) for (i, s), given in self.answer.items()]
        return pl.DataFrame(
            rows, schema={"item": pl.Int64, "system": pl.String, "answer": pl.String}, orient="row"
        )

    @property
    def items(self) -> pl.DataFrame:
        return pl.DataFrame({"item": list(range(self.n)), "stratum": self.stratum})

    def grades(
        self,
        chosen: list[tuple[int, str]],
        propensities: list[float | None] | None = None,
        unsure: int = 0,
    ) -> pl.DataFrame:
        words = [
            "unsure" if unsure and i % unsure == 0 else "right" if self.is_right(i, s) else "wrong"
            for i, s in chosen
        ]
        table: dict[str, Any] = {
            "item": [i for i, _ in chosen],
            "system": [s for _, s in chosen],
            "verdict": words,
        }
        return pl.DataFrame(
            {**table, **({} if propensities is None else {"propensity": propensities})}
        )


def by_hand(
    world: World, chosen: list[tuple[int, str]], *, unsure: int = 0, strata: bool = True
) -> AccuracyCounts:
    """The counts item by item, through one label each."""
    tallies: Counter[Tally] = Counter()
    items: Counter[Cell] = Counter()
    answered: Counter[Cell] = Counter()
    for i, s in itertools.product(range(world.n), SYSTEMS):
        stratum = world.stratum[i] if strata else ""
        items[Cell(s, 0, stratum)] += 1
        answered[Cell(s, 0, stratum)] += world.answer[i, s] is not None
        if (i, s) in chosen:
            verdict: Any = (
                "unsure" if unsure and i % unsure == 0 else "yes" if world.is_right(i, s) else "no"
            )
            tallies[
                Label.grade(verdict)._replace(stratum=stratum).meet(world.answer[i, s], system=s)
            ] += 1
    return AccuracyCounts(tallies=dict(tallies), items=dict(items), answered=dict(answered))


def some(world: World, rng: Rng, rate: float = 0.5) -> list[tuple[int, str]]:
    return [
        (i, s)
        for (i, s), given in world.answer.items()
        if given is not None and rng.random() < rate
    ]


@pytest.mark.parametrize("unsure", [0, 7])
def test_the_engine_counts_what_labels_say(unsure: int) -> None:
    rng = np.random.default_rng(1)
    world = World(rng)
    chosen = some(world, rng)
    found = count_accuracy(
        Evidence.from_tables(
            world.answers, items=world.items, grades=world.grades(chosen, unsure=unsure)
        )
    )
    expected = by_hand(world, chosen, unsure=unsure)
    assert (found.tallies, found.items, found.answered) == (
        expected.tallies,
        expected.items,
        expected.answered,
    )
    assert AccuracyCounts.from_dict(found.to_dict()) == found


def test_patterns_say_of_which_systems_they_speak() -> None:
    rng = np.random.default_rng(2)
    world = World(rng, silent=0.2)
    chosen = set(some(world, rng))
    counts = count_patterns(
        Evidence.from_tables(world.answers, grades=world.grades(sorted(chosen)))
    )
    expected: Counter[tuple[Any, ...]] = Counter()
    for i in range(world.n):
        silent = [world.answer[i, s] is None for s in SYSTEMS]
        known = [(i, s) in chosen or none for s, none in zip(SYSTEMS, silent, strict=True)]
        if sum(known) >= 2 and any((i, s) in chosen for s in SYSTEMS):
            hits = tuple(
                None if none else told and world.is_right(i, s)
                for s, none, told in zip(SYSTEMS, silent, known, strict=True)
            )
            expected[hits, None if all(known) else tuple(known)] += 1
    assert {(p.hits, p.known): n for p, n in counts.patterns.items()} == dict(expected)
    assert sum(counts.silent.values()) == world.n
    pair = counts.of((0, 1))
    assert pair.systems == ("a", "b")
    assert not pair.partial
    assert pair.still == pytest.approx(
        np.mean(
            [world.answer[i, "a"] is None and world.answer[i, "b"] is None for i in range(world.n)]
        )
    )


def test_rows_come_in_the_order_of_time() -> None:
    table = pl.DataFrame(
        {
            "item": [1, 1, 2, 2],
            "system": ["a", "b"] * 2,
            "verdict": [1, 0, 0, 1],
            "at": [9, 8, 2, 1],
        }
    )
    _, rows = label_rows(Evidence.from_tables(grades=table))
    assert [p.hits for p in rows] == [(False, True), (True, False)]
    _, rows = label_rows(Evidence.from_tables(grades=table.drop("at")))
    assert [p.hits for p in rows] == [(True, False), (False, True)]


# ---------------------------------------------------------------------------------------------------------------
# propensities


def _sum(evidence: Evidence) -> Counter[str]:
    total: Counter[str] = Counter()
    for t, n in count_accuracy(evidence).tallies.items():
        total[t.system] += score(t) * n  # type: ignore[assignment]
    return total


@pytest.mark.parametrize("with_answers", [True, False])
def test_scores_of_drawn_answers_have_the_accuracy_as_their_mean(*, with_answers: bool) -> None:
    """Every way to draw one answer of each of two items, with its probability: the mean over all
    ways is the accuracy.

    Further items, whose grade is certain, put every system into every table.
    """
    said = {0: {"a": "x", "b": "x", "c": "y"}, 1: {"a": "p", "b": "q", "c": "r"}}
    truth = {0: "x", 1: "r"}
    certain = (
        [(9, s, "right", 1.0) for s in SYSTEMS]
        if with_answers
        else [(10 + k, s, "right", 1.0) for k, s in enumerate(SYSTEMS)]
    )
    rows = [
        *((i, s, given) for i, by in said.items() for s, given in by.items()),
        *((9, s, "all") for s in SYSTEMS),
    ]
    answers = pl.DataFrame(rows, schema=["item", "system", "answer"], orient="row")
    total: Counter[str] = Counter()
    for drawn in itertools.product(SYSTEMS, repeat=2):
        table = list(certain)
        for i, s in enumerate(drawn):
            alike = [o for o in SYSTEMS if said[i][o] == said[i][s]] if with_answers else [s]
            verdict = "right" if said[i][s] == truth[i] else "wrong"
            table += [(i, o, verdict, len(alike) / 3) for o in alike]
        graded = pl.DataFrame(
            table, schema=["item", "system", "verdict", "propensity"], orient="row"
        )
        total.update(_sum(Evidence.from_tables(answers if with_answers else None, grades=graded)))
    for s in SYSTEMS:
        assert total[s] / 9 == pytest.approx(1 + sum(said[i][s] == truth[i] for i in said))


@pytest.mark.full
@pytest.mark.thin(2)
@pytest.mark.parametrize("with_answers", [True, False])
def test_routed_answers_estimate_every_system(*, with_answers: bool) -> None:
    """The mean of many routings is the accuracy of each system; whoever was not asked scores 0."""
    rng = np.random.default_rng(5)
    world = World(rng, n=30, silent=0.0)
    bare = Evidence.from_tables(world.answers, n_classes=2**20)
    means: dict[str, list[float]] = {s: [] for s in SYSTEMS}
    for seed in range(25):
        if with_answers:
            drawn = route_items(bare, design="grades", seed=seed).columns()
        else:
            picks = rng.integers(3, size=world.n)
            drawn = {
                "item": list(range(world.n)),
                "system": [SYSTEMS[k] for k in picks],
                "propensity": [1 / 3] * world.n,
            }
        graded = world.grades(
            list(zip(drawn["item"], drawn["system"], strict=True)), drawn["propensity"]
        )
        evidence = Evidence.from_tables(
            world.answers if with_answers else None,
            items=world.items.drop("stratum"),
            grades=graded,
        )
        total = _sum(evidence)
        for s in SYSTEMS:
            means[s].append(total[s] / world.n)
    for s in SYSTEMS:
        truth = np.mean([world.is_right(i, s) for i in range(world.n)])
        assert abs(np.mean(means[s]) - truth) < 4 * np.std(means[s]) / np.sqrt(len(means[s])) + 1e-9


def test_shares_of_votes_are_known_for_every_answer() -> None:
    rng = np.random.default_rng(6)
    world = World(rng, n=80)
    drawn = route_items(
        Evidence.from_tables(world.answers, n_classes=2**20), design="grades", seed=1
    ).columns()
    graded = world.grades(
        list(zip(drawn["item"], drawn["system"], strict=True)), drawn["propensity"]
    )
    evidence = Evidence.from_tables(world.answers, grades=graded)
    counts = count_accuracy(evidence)
    assert counts.propensities == "recorded"
    assert all(t.chance for t in counts.tallies if t.answered and t.design == "recorded")
    estimate = estimate_accuracy(evidence, system="a")
    assert estimate.method == "scores"
    assert "recorded propensities" in {a.name for a in estimate.guarantee.assumptions}
    truth = np.mean([world.is_right(i, "a") for i in range(world.n)])
    assert estimate.low <= truth <= estimate.high


def test_a_system_that_was_not_in_the_draw_has_no_labels() -> None:
    rng = np.random.default_rng(7)
    world = World(rng, n=40, silent=0.0)
    drawn = route_items(
        Evidence.from_tables(world.answers, n_classes=2**20),
        design="grades",
        systems=["a", "b"],
        seed=1,
    ).columns()
    graded = world.grades(
        list(zip(drawn["item"], drawn["system"], strict=True)), drawn["propensity"]
    )
    counts = count_accuracy(Evidence.from_tables(world.answers, grades=graded))
    assert counts.total(system="c") == 0
    assert counts.total(system="a") == counts.total(system="b") == 40


# -------------------------------------------------------------------------------------------------------------
# together, JSON


def test_counts_of_parts_add_up_and_come_back_from_json() -> None:
    rng = np.random.default_rng(8)
    world = World(rng, n=40)
    chosen = some(world, rng)
    whole = count_evidence(
        Evidence.from_tables(world.answers, grades=world.grades(chosen)), sketch=False
    )
    parts = [
        Evidence.from_tables(
            world.answers.filter(pl.col("item").is_in(own)),
            grades=world.grades([c for c in chosen if c[0] in own]),
        )
        for own in (list(range(15)), list(range(15, 40)))
    ]
    added = count_partitions(parts, sketch=False)
    assert added == whole
    assert Counted.from_dict(whole.to_dict()) == whole
    assert isinstance(whole.patterns, PatternCounts)
    one, all_ = (compare_systems(counts.patterns) for counts in (added, whole))
    assert one.differences == all_.differences


def test_free_text_has_no_sketch() -> None:
    world = World(np.random.default_rng(9), n=5)
    counted = count_evidence(
        Evidence.from_tables(world.answers, grades=world.grades([(0, "a"), (1, "a")]))
    )
    assert counted.decisions is None


# ---------------------------------------------------------------------------------------------------------------------
# checks


def test_grading_at_random_passes_and_grading_where_systems_differ_fails() -> None:
    rng = np.random.default_rng(10)
    failed = 0
    for _ in range(20):
        world = World(rng, n=200)
        failed += not check_grading(
            Evidence.from_tables(world.answers, grades=world.grades(some(world, rng, 0.3)))
        ).passed
    assert failed == 0
    world = World(rng, n=400)
    alone = [
        (i, s)
        for (i, s), given in world.answer.items()
        if given and sum(world.answer[i, o] == given for o in SYSTEMS) == 1
    ]
    evidence = Evidence.from_tables(world.answers, grades=world.grades(alone[:200]))
    check = check_grading(evidence)
    assert not check.passed
    assert (
        "answers that 1 system gave were graded" in check.finding
        or "systems gave were graded" in check.finding
    )
    assert [c.name for c in label_checks(evidence)] == ["grading"]
    estimate = estimate_accuracy(evidence, system="a")
    assert estimate.guarantee.kind.label == "heuristic"
    assert compare_systems(evidence).guarantee.kind.label == "heuristic"


def test_grades_chosen_by_judgements_fail() -> None:
    rng = np.random.default_rng(11)
    n, k = 400, 4
    truth, answer, asked = (rng.integers(k, size=n) for _ in range(3))
    answer = np.where(rng.random(n) < 0.6, truth, answer)
    table = {
        "item": list(range(n)),
        "class": asked.tolist(),
        "verdict": np.where(asked == truth, "yes", "no").tolist(),
    }
    hit = np.flatnonzero(asked == answer)
    graded = {
        "item": hit.tolist(),
        "system": ["a"] * len(hit),
        "verdict": (answer == truth)[hit].tolist(),
    }
    answers = {"item": list(range(n)), "system": ["a"] * n, "answer": answer.tolist()}
    evidence = Evidence.from_tables(
        pl.DataFrame(answers), pl.DataFrame(table), grades=pl.DataFrame(graded), n_classes=k
    )
    assert not check_grading(evidence).passed
    assert estimate_accuracy(evidence).guarantee.kind.label == "heuristic"


def test_a_grade_beside_a_drawn_one_of_the_item_is_not_used() -> None:
    """Whether somebody grades an answer that was not drawn may depend on the draw."""
    rng = np.random.default_rng(12)
    world = World(rng, n=30, silent=0.0)
    drawn = route_items(
        Evidence.from_tables(world.answers, n_classes=2**20), design="grades", seed=1
    ).columns()
    pairs: list[tuple[int, str]] = list(zip(drawn["item"], drawn["system"], strict=True))
    rest = [(i, s) for i in range(30) for s in SYSTEMS if (i, s) not in pairs]
    both = world.grades([*pairs, *rest], [*drawn["propensity"], *[None] * len(rest)])
    found = count_accuracy(Evidence.from_tables(world.answers, grades=both))
    alone = count_accuracy(
        Evidence.from_tables(world.answers, grades=world.grades(pairs, drawn["propensity"]))
    )
    assert found.tallies == alone.tallies
    assert found.unused == {"grades without a propensity beside a drawn one of the item": len(rest)}
    assert found.of("a").summary()["graded"] == sum(s == "a" for _, s in pairs)
