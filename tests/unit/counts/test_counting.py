from __future__ import annotations

import dataclasses
import random
from collections import Counter
from typing import Any

import duckdb
import pytest

from noracle.counts import count as counting
from noracle.counts import count_accuracy, count_judgements, count_patterns, label_rows
from noracle.errors import EvidenceError
from noracle.evidence import Evidence
from tests.unit.counts import reference
from tests.unit.evidence.backends import Columns
from tests.unit.evidence.fixtures import Bring

World = dict[str, Columns]


def world(seed: int, *, one_each: bool = False, n: int = 60) -> World:
    """Answers, judgements and items with everything that may occur in them, except contradictions."""
    draw = random.Random(seed)
    items: Columns = {
        "item": list(range(n)),
        "n_classes": [draw.choice([3, 4, 10]) for _ in range(n)],
        "stratum": [draw.choice(["law", "physics", None]) for _ in range(n)],
        "weight": [draw.choice([1.0, 2.5]) for _ in range(n)],
    }
    ks = items["n_classes"]
    answers: Columns = {"item": [], "system": [], "answer": []}
    for i in range(n - 5):
        for system in ("a", "b"):
            if draw.random() < 0.9:
                answers["item"].append(i)
                answers["system"].append(system)
                answers["answer"].append(draw.randrange(ks[i]) if draw.random() < 0.8 else None)
    judgements: Columns = {"item": [], "class": [], "verdict": [], "rater": [], "propensity": []}
    for i in draw.sample(range(n), n * 3 // 4):
        truth = draw.randrange(ks[i])
        for c in draw.sample(range(ks[i]), 1 if one_each else draw.choice([1, 1, 2])):
            verdict = "unsure" if draw.random() < 0.15 else "yes" if c == truth else "no"
            values = (
                i,
                c,
                verdict,
                draw.choice(["ann", "bob", None]),
                draw.choice([None, None, 1 / ks[i], 0.25, 0.7]),
            )
            for column, value in zip(judgements.values(), values, strict=True):
                column.append(value)
    return {"answers": answers, "judgements": judgements, "items": items}


def timed(tables: World) -> World:
    """With a time for each judgement: rows of a cluster or a warehouse have no order."""
    judgements = tables["judgements"]
    return {**tables, "judgements": {**judgements, "at": list(range(len(judgements["item"])))}}


def without(table: Columns, *columns: str) -> Columns:
    return {name: values for name, values in table.items() if name not in columns}


def differences(found: Any, wanted: Any) -> dict[str, tuple[Any, Any]]:
    """The fields in which two counts differ, with both values."""
    pairs = {
        field.name: (getattr(found, field.name), getattr(wanted, field.name))
        for field in dataclasses.fields(found)
    }
    plain = {
        name: tuple(dict(x) if isinstance(x, dict) else x for x in pair)
        for name, pair in pairs.items()
    }
    return {name: (left, right) for name, (left, right) in plain.items() if left != right}


@pytest.mark.thin(3)
@pytest.mark.parametrize("one_each", [True, False], ids=["flat", "grouped"])
def test_counts_match_counting_by_hand_on_every_engine(bring_slowly: Bring, one_each: bool) -> None:
    tables = timed(world(1, one_each=one_each))
    evidence = Evidence.from_tables(**bring_slowly(tables))
    assert differences(count_accuracy(evidence), reference.accuracy(**tables)) == {}
    assert (
        differences(
            dataclasses.replace(count_patterns(evidence), unused={}), reference.patterns(**tables)
        )
        == {}
    )


@pytest.mark.full
@pytest.mark.parametrize("one_each", [True, False], ids=["flat", "grouped"])
def test_counts_come_in_one_order_so_that_sums_are_the_same_to_the_last_bit(one_each: bool) -> None:
    tables = world(1, one_each=one_each)
    orders = set()
    for _ in range(6):
        evidence = Evidence.from_tables(**tables)
        orders.add(
            (tuple(count_accuracy(evidence).tallies), tuple(count_patterns(evidence).patterns))
        )
    assert len(orders) == 1


@pytest.mark.full
def test_counts_of_our_own_copy_are_worked_out_once_and_those_of_others_anew() -> None:
    tables = world(1)
    ours = Evidence.from_tables(**tables)
    assert count_accuracy(ours) is count_accuracy(ours)
    assert count_accuracy(ours, by_class=True) != count_accuracy(ours)
    assert count_accuracy(dataclasses.replace(ours, judgements=None)) != count_accuracy(ours)
    connection = duckdb.connect()
    connection.sql("CREATE TABLE answers AS SELECT 1 AS item, 'a' AS system, 0 AS answer")
    theirs = Evidence.from_tables(answers=connection.table("answers"), n_classes=3)
    before = count_accuracy(theirs)
    connection.sql("INSERT INTO answers VALUES (2, 'a', 1)")
    assert sum(count_accuracy(theirs).items.values()) == sum(before.items.values()) + 1


@pytest.mark.thin(2)
def test_counts_by_class_match_counting_by_hand(bring: Bring) -> None:
    tables = world(2)
    assert (
        differences(
            count_accuracy(Evidence.from_tables(**bring(tables)), by_class=True),
            reference.accuracy(**tables, by_class=True),
        )
        == {}
    )


@pytest.mark.thin(6)
@pytest.mark.parametrize("by_class", [True, False])
@pytest.mark.parametrize("seed", range(6))
def test_flat_and_grouped_ways_agree(seed: int, by_class: bool) -> None:
    tables = world(seed, one_each=True)
    if seed % 3 == 1:
        tables["judgements"] = without(tables["judgements"], "propensity", "rater")
    if seed % 3 == 2:
        tables["items"] = without(tables["items"], "stratum")
    evidence = Evidence.from_tables(**tables)
    assert evidence.answers is not None
    assert evidence.judgements is not None
    by = counting._By(by_class=by_class)
    flat = counting._flat(evidence, evidence.answers, evidence.judgements, by)
    assert flat is not None
    assert (
        differences(
            flat, counting._grouped(evidence, evidence.answers, counting._By(by_class=by_class))
        )
        == {}
    )


def test_flat_way_is_left_when_an_item_has_two_judgements() -> None:
    answers: Columns = {"item": [1, 2], "system": ["a", "a"], "answer": [0, 1]}
    judgements: Columns = {"item": [1, 1], "class": [1, 2], "verdict": ["no", "no"]}
    evidence = Evidence.from_tables(answers, judgements, n_classes=4)
    assert evidence.answers is not None
    assert evidence.judgements is not None
    by = counting._By()
    assert counting._flat(evidence, evidence.answers, evidence.judgements, by) is None
    (tally,) = count_accuracy(evidence).tallies
    assert (tally.verdict, tally.n_ruled_out, tally.hit) == ("no", 2, False)


@pytest.mark.parametrize("where", ["judged", "not judged"])
@pytest.mark.parametrize("systems", [["a"], ["a", "b"]])
def test_repeated_answers_are_refused_wherever_they_hide(where: str, systems: list[str]) -> None:
    item = 1 if where == "judged" else 3
    answers: Columns = {
        "item": [1, 2, 3, item],
        "system": [systems[0], systems[-1], systems[0], systems[0]],
        "answer": [0, 1, 2, 0],
    }
    judgements: Columns = {"item": [1, 2], "class": [1, 2], "verdict": ["no", "no"]}
    with pytest.raises(
        EvidenceError,
        match=rf"answers must have one row for each item and system; got repeated rows at item {item}\.",
    ):
        count_accuracy(Evidence.from_tables(answers, judgements, n_classes=4))


def test_an_item_with_yes_and_no_is_ordinary_and_remembers_what_was_ruled_out() -> None:
    answers: Columns = {
        "item": [1, 1, 1],
        "system": ["right", "ruled", "other"],
        "answer": [0, 2, 1],
    }
    judgements: Columns = {"item": [1, 1, 1], "class": [0, 2, 3], "verdict": ["yes", "no", "no"]}
    counts = count_accuracy(Evidence.from_tables(answers, judgements, n_classes=4))
    found = {t.system: (t.verdict, t.hit, t.n_ruled_out, t.ruled_hit) for t in counts.tallies}
    assert found == {
        "right": ("yes", True, 2, False),
        "ruled": ("yes", False, 2, True),
        "other": ("yes", False, 2, False),
    }


def test_unsure_is_a_state_and_says_whether_the_answer_was_asked_about() -> None:
    answers: Columns = {"item": [1, 2], "system": ["a", "a"], "answer": [0, 1]}
    judgements: Columns = {
        "item": [1, 2],
        "class": [0, 0],
        "verdict": ["unsure", "unsure"],
        "propensity": [0.9, 0.9],
    }
    counts = count_accuracy(Evidence.from_tables(answers, judgements, n_classes=4))
    assert {(t.verdict, t.hit, t.design, t.yes_score, t.no_score) for t in counts.tallies} == {
        ("unsure", True, "recorded", None, None),
        ("unsure", False, "recorded", None, None),
    }


@pytest.mark.parametrize(
    ("propensity", "design", "scores"),
    [
        (None, "uniform", (None, None)),
        (0.25, "uniform", (None, None)),
        (0.5, "recorded", (2.0, 0.0)),
        (1.0, "recorded", (1.0, 0.0)),
    ],
)
def test_scores_are_kept_where_the_propensity_is_not_one_in_k(
    propensity: float | None, design: str, scores: tuple[Any, Any]
) -> None:
    answers: Columns = {"item": [1], "system": ["a"], "answer": [2]}
    judgements: Columns = {
        "item": [1],
        "class": [2],
        "verdict": ["yes"],
        "propensity": [propensity],
    }
    (tally,) = count_accuracy(Evidence.from_tables(answers, judgements, n_classes=4)).tallies
    assert (tally.design, (tally.yes_score, tally.no_score)) == (design, scores)


def test_no_answer_has_score_zero() -> None:
    answers: Columns = {"item": [1], "system": ["a"], "answer": [None]}
    judgements: Columns = {
        "item": [1, 1],
        "class": [2, 1],
        "verdict": ["yes", "no"],
        "propensity": [0.5, 0.1],
    }
    (tally,) = count_accuracy(Evidence.from_tables(answers, judgements, n_classes=4)).tallies
    assert (tally.answered, tally.hit, tally.ruled_hit, tally.yes_score, tally.no_score) == (
        False,
        False,
        False,
        0.0,
        0.0,
    )


@pytest.mark.parametrize(("n", "unused"), [(3, {"repeated judgements": 2}), (1, {})])
def test_exact_repeats_count_once_and_are_reported(n: int, unused: dict[str, int]) -> None:
    answers: Columns = {"item": [1], "system": ["a"], "answer": [2]}
    judgements: Columns = {
        "item": [1] * n,
        "class": [3] * n,
        "verdict": ["no"] * n,
        "rater": ["ann"] * n,
        "propensity": [0.5] * n,
    }
    counts = count_accuracy(Evidence.from_tables(answers, judgements, n_classes=4))
    assert counts.unused == unused
    assert (
        sum(
            count_judgements(
                Evidence.from_tables(answers, judgements, n_classes=4)
            ).questions.values()
        )
        == 1
    )


CONTRADICTIONS = {
    "two yes": ([0, 1], ["yes", "yes"], ["ann", "bob"]),
    "yes and no": ([0, 0], ["yes", "no"], ["ann", "bob"]),
    "one rater twice": ([0, 0], ["no", "unsure"], ["ann", "ann"]),
    "nothing left": ([0, 1, 2], ["no", "no", "no"], ["ann", "ann", "ann"]),
}


@pytest.mark.thin(5)
@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_contradictory_items_are_an_error_or_are_dropped_and_counted(
    bring: Bring, name: str
) -> None:
    classes, verdicts, raters = CONTRADICTIONS[name]
    answers: Columns = {"item": [7, 8], "system": ["a", "a"], "answer": [0, 1]}
    judgements: Columns = {
        "item": [7] * len(classes) + [8],
        "class": [*classes, 1],
        "verdict": [*verdicts, "yes"],
        "rater": [*raters, "cleo"],
    }
    tables = bring({"answers": answers, "judgements": judgements})
    with pytest.raises(
        EvidenceError,
        match=r"judgements must not contradict each other; got .* at item 7\. .*conflicts='drop'",
    ):
        count_accuracy(Evidence.from_tables(**tables, n_classes=3))
    kept = Evidence.from_tables(**tables, n_classes=3, conflicts="drop")
    counts = count_accuracy(kept)
    assert counts.unused == {"contradictory items": 1}
    assert (sum(counts.tallies.values()), sum(counts.items.values())) == (1, 2)
    assert sum(count_judgements(kept).questions.values()) == 1
    assert sum(count_patterns(kept).patterns.values()) == 1


def test_two_raters_may_differ_in_being_sure() -> None:
    answers: Columns = {"item": [1], "system": ["a"], "answer": [0]}
    judgements: Columns = {
        "item": [1, 1],
        "class": [0, 0],
        "verdict": ["no", "unsure"],
        "rater": ["ann", "bob"],
    }
    (tally,) = count_accuracy(Evidence.from_tables(answers, judgements, n_classes=3)).tallies
    assert (tally.verdict, tally.n_ruled_out) == ("no", 1)


@pytest.mark.filterwarnings("ignore:only 1 of 3 judged items:noracle.errors.EvidenceWarning")
def test_judgements_without_answers_are_counted_as_unused(bring: Bring) -> None:
    tables = bring(
        {
            "answers": {"item": [1], "system": ["a"], "answer": [0]},
            "judgements": {
                "item": [1, 2, 3],
                "class": [0, 1, 1],
                "verdict": ["yes", "no", "unsure"],
            },
        }
    )
    evidence = Evidence.from_tables(**tables, n_classes=3)
    assert count_accuracy(evidence).unused == {"judgements of items without answers": 2}
    assert count_patterns(evidence).unused == {"judgements of items without answers": 2}
    assert sum(count_judgements(evidence).questions.values()) == 3


@pytest.mark.full
def test_partitions_add_up_to_the_whole() -> None:
    tables = world(5)
    whole = Evidence.from_tables(**tables)
    halves = []
    for parity in (0, 1):
        part = {
            name: {
                c: [v for v, i in zip(values, table["item"], strict=True) if i % 2 == parity]
                for c, values in table.items()
            }
            for name, table in tables.items()
        }
        halves.append(Evidence.from_tables(**part))
    assert (
        differences(count_accuracy(halves[0]) + count_accuracy(halves[1]), count_accuracy(whole))
        == {}
    )
    assert (
        differences(count_patterns(halves[0]) + count_patterns(halves[1]), count_patterns(whole))
        == {}
    )
    assert (
        differences(
            count_judgements(halves[0]) + count_judgements(halves[1]), count_judgements(whole)
        )
        == {}
    )


@pytest.mark.full
def test_only_the_chosen_systems_are_counted() -> None:
    tables = world(3)
    evidence = Evidence.from_tables(**tables)
    found = differences(
        dataclasses.replace(count_accuracy(evidence, systems=["b"]), unused={}),
        dataclasses.replace(count_accuracy(evidence).of("b"), unused={}),
    )
    assert found == {}
    assert count_patterns(evidence, systems=["b", "a"]).systems == ("b", "a")
    with pytest.raises(EvidenceError, match="systems must be in answers; got \\['c'\\]"):
        count_accuracy(evidence, systems=["c"])
    with pytest.raises(EvidenceError, match="systems must be in answers; got \\['c'\\]"):
        count_patterns(evidence, systems=["a", "c"])
    with pytest.raises(EvidenceError, match="systems must be a list of names; got 'a'"):
        count_accuracy(evidence, systems="a")


def test_items_that_a_system_was_not_asked_about_make_no_pattern() -> None:
    answers: Columns = {"item": [1, 1, 2], "system": ["a", "b", "a"], "answer": [0, None, 1]}
    judgements: Columns = {"item": [1, 2], "class": [0, 1], "verdict": ["yes", "no"]}
    counts = count_patterns(Evidence.from_tables(answers, judgements, n_classes=3))
    assert [p.hits for p in counts.patterns] == [(True, None)]
    assert counts.unused == {"labelled items that some system was not asked about": 1}


@pytest.mark.thin(2)
def test_questions_keep_class_rater_and_propensity(bring: Bring) -> None:
    """Of items with a recorded propensity only the first question, as in their label."""
    tables = world(4)
    evidence = Evidence.from_tables(**bring(tables))
    ks = dict(zip(tables["items"]["item"], tables["items"]["n_classes"], strict=True))
    rows = list(zip(*tables["judgements"].values(), strict=True))
    recorded = {i for i, *_, p in rows if p is not None}
    labels = [
        row
        for at, row in enumerate(rows)
        if row[0] not in recorded or row[0] not in {i for i, *_ in rows[:at]}
    ]
    assert len(labels) < len(rows)
    wanted = Counter(
        (ks[i], c, v, r or "", None if p is None else float(f"{p:.12g}"))
        for i, c, v, r, p in labels
    )
    found = count_judgements(evidence).questions
    assert {
        (q.n_classes, q.asked, q.verdict, q.rater, q.propensity): n for q, n in found.items()
    } == wanted
    assert {q.rater for q in count_judgements(evidence, by_rater=False).questions} == {""}


ORDERED: World = {
    "answers": {"item": [1, 2, 3], "system": ["a", "a", "a"], "answer": [0, 1, 2]},
    "judgements": {
        "item": [3, 1, 2, 3],
        "class": [2, 0, 0, 0],
        "verdict": ["yes", "yes", "no", "no"],
    },
}


def test_label_rows_follow_the_rows(bring: Bring) -> None:
    systems, rows = label_rows(Evidence.from_tables(**bring(ORDERED), n_classes=3))
    assert systems == ("a",)
    assert [(p.verdict, p.hits, p.n_ruled_out) for p in rows] == [
        ("yes", (True,), 0),
        ("no", (False,), 1),
        ("yes", (True,), 1),
    ]


def test_label_rows_follow_the_time_where_there_is_one(bring_slowly: Bring) -> None:
    tables = {**ORDERED, "judgements": {**ORDERED["judgements"], "at": ["d", "c", "b", "a"]}}
    _, rows = label_rows(Evidence.from_tables(**bring_slowly(tables), n_classes=3))
    assert [p.verdict for p in rows] == ["no", "yes", "yes"]


def test_classes_may_be_text(bring: Bring) -> None:
    tables = bring(
        {
            "answers": {"item": ["q1", "q2"], "system": ["a", "a"], "answer": ["cat", None]},
            "judgements": {"item": ["q1", "q2"], "class": ["cat", "dog"], "verdict": ["Yes", "NO"]},
        }
    )
    counts = count_accuracy(
        Evidence.from_tables(**tables, classes=["cat", "dog", "cow"]), by_class=True
    )
    assert {(t.n_classes, t.verdict, t.hit, t.asked, t.answer) for t in counts.tallies} == {
        (3, "yes", True, "cat", "cat"),
        (3, "no", False, "dog", None),
    }


def test_counting_without_judgements_gives_the_population() -> None:
    counts = count_accuracy(
        Evidence.from_tables(
            {"item": [1, 2], "system": ["a", "a"], "answer": [0, None]}, n_classes=3
        )
    )
    assert not counts.tallies
    assert (sum(counts.items.values()), sum(counts.answered.values())) == (2, 1)


def test_missing_tables_are_named() -> None:
    answers_only = Evidence.from_tables({"item": [1], "system": ["a"], "answer": [0]}, n_classes=3)
    with pytest.raises(EvidenceError, match="evidence must have judgements; got none"):
        count_judgements(answers_only)
    with pytest.raises(EvidenceError, match="evidence must have judgements or grades; got neither"):
        count_patterns(answers_only)
    judgements_only = Evidence.from_tables(
        judgements={"item": [1], "class": [0], "verdict": ["yes"]}, n_classes=3
    )
    with pytest.raises(EvidenceError, match="evidence must have answers; got none"):
        count_accuracy(judgements_only)
