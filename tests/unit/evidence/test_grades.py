"""The table of grades: its words, its rules, what contradicts it, and the same counts on every
engine.
"""

from __future__ import annotations

import datetime as dt
import warnings
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from noracle import Evidence, EvidenceError, EvidenceWarning, estimate_accuracy
from noracle.counts import count_accuracy
from tests.unit.evidence.backends import SINGLE, Columns, as_relations

RIGHT = [
    "yes",
    "Yes",
    " YES ",
    "true",
    "TRUE",
    "1",
    "right",
    "Right",
    "correct",
    "CORRECT",
    "pass",
    "passed",
    "Passed",
]
WRONG = ["no", "No", "false", "0", "wrong", "Wrong ", "incorrect", "fail", "FAILED", "failed"]


def grades(verdicts: list[Any], **more: list[Any]) -> Columns:
    n = len(verdicts)
    return {"item": list(range(n)), "system": ["a"] * n, "verdict": verdicts, **more}


def opened(**tables: Any) -> Evidence:
    """Evidence on Polars, which is the fastest engine for few rows."""
    return Evidence.from_tables(
        **{name: pl.DataFrame(t) if isinstance(t, dict) else t for name, t in tables.items()}
    )


def said(table: Any, **more: Any) -> tuple[int, int, int]:
    """Right, wrong and unsure."""
    counts = count_accuracy(opened(grades=table, **more))
    return (
        counts.total(verdict="yes", hit=True),
        counts.total(verdict="yes", hit=False),
        counts.total(verdict="unsure"),
    )


@pytest.mark.parametrize("word", RIGHT)
def test_words_for_right(word: str) -> None:
    assert said(grades([word])) == (1, 0, 0)


@pytest.mark.parametrize("word", WRONG)
def test_words_for_wrong(word: str) -> None:
    assert said(grades([word])) == (0, 1, 0)


@pytest.mark.parametrize(
    "values",
    [[True, False, True], [1, 0, 1], [1.0, 0.0, 1.0], ["1", "0", "1"], ["1.0", "0", "true"]],
)
def test_verdicts_of_any_type(values: list[Any]) -> None:
    if "1.0" in values:
        with pytest.raises(EvidenceError, match="must say right, wrong or unsure"):
            said(grades(values))
    else:
        assert said(grades(values)) == (2, 1, 0)


def test_unsure_is_missing_and_counted() -> None:
    table = grades(["right"] * 40 + ["wrong"] * 9 + ["Unsure"])
    assert said(table) == (40, 9, 1)
    estimate = estimate_accuracy(opened(grades=table))
    assert estimate.value == pytest.approx(40 / 49)
    assert "verdicts missing at random" in {a.name for a in estimate.guarantee.assumptions}


@pytest.mark.parametrize("value", ["maybe", "2", "y", "nope", ""])
def test_other_words_are_faults_that_name_the_words(value: str) -> None:
    with pytest.raises(
        EvidenceError,
        match=r"grades.verdict must say right, wrong or unsure; got .* at item 1.*Write one of yes, true",
    ):
        said(grades(["right", value]))


@pytest.mark.parametrize(("values", "found"), [([1, 2], "2"), ([0.5, 1.0], "0.5"), ([1, -1], "-1")])
def test_other_numbers_are_faults(values: list[float], found: str) -> None:
    with pytest.raises(EvidenceError, match="must say right, wrong or unsure"):
        said(grades(values))


def test_a_missing_verdict_is_a_fault_as_in_judgements() -> None:
    with pytest.raises(
        EvidenceError, match=r"grades.verdict must not be null; got 1 such row at item 1"
    ):
        said(grades(["right", None]))


@pytest.mark.parametrize("name", ["correct", "is_correct", "grade", "right", "passed"])
def test_other_names_of_the_verdict_are_taken_and_said(name: str) -> None:
    table = {"item": [1, 2], "system": ["a", "a"], name: [1, 0]}
    evidence = opened(grades=table)
    assert evidence.inferred == (f"grades: column {name!r} is read as verdict",)
    assert said(table) == (1, 1, 0)


def test_two_columns_that_could_be_the_verdict_are_not_guessed() -> None:
    with pytest.raises(
        EvidenceError,
        match=r"grades.verdict must be one column; got .correct. and .grade.\. Say which",
    ):
        Evidence.from_tables(grades={"item": [1], "system": ["a"], "correct": [1], "grade": [1]})


def test_columns_rows_and_types_that_are_wrong_are_named() -> None:
    with pytest.raises(
        EvidenceError, match="grades must have columns item, system, verdict; got no system"
    ):
        Evidence.from_tables(grades={"item": [1], "verdict": ["yes"]})
    with pytest.raises(EvidenceError, match="grades must have rows"):
        Evidence.from_tables(grades={"item": [], "system": [], "verdict": []})
    with pytest.raises(EvidenceError, match=r"grades.propensity must be in \(0, 1\]; got 0"):
        said(grades(["yes"], propensity=[0.0]))
    with pytest.raises(EvidenceError, match=r"grades.system must not be null"):
        said({"item": [1, 2], "system": ["a", None], "verdict": ["yes", "no"]})
    with pytest.raises(
        EvidenceError, match="evidence must have answers, judgements or grades; got none of them"
    ):
        Evidence.from_tables(items={"item": [1]})
    with pytest.raises(EvidenceError, match="item must have one type in all tables"):
        Evidence.from_tables(
            {"item": ["x"], "system": ["a"], "answer": ["y"]}, grades=grades(["yes"])
        )


# ------------------------------------------------------------------------------------------------------
# several of one answer


def test_equal_grades_count_once_and_unequal_ones_contradict() -> None:
    twice = {"item": [1, 1, 2], "system": ["a"] * 3, "verdict": ["yes", "right", "no"]}
    assert said(twice) == (1, 1, 0)
    bad = {
        "item": [1, 1, 2],
        "system": ["a"] * 3,
        "verdict": ["yes", "wrong", "no"],
        "rater": ["x", "y", "x"],
    }
    with pytest.raises(
        EvidenceError,
        match=r"grades must not contradict each other; got different verdicts on one answer at item 1",
    ):
        said(bad)
    estimate = estimate_accuracy(opened(grades=bad, conflicts="drop"))
    assert estimate.counts["unused"] == {"contradictory items": 1}
    assert [a.status for a in estimate.guarantee.assumptions if a.name == "right verdicts"] == [
        "failed"
    ]


def test_one_rater_who_says_unsure_and_right_contradicts_himself_and_two_raters_do_not() -> None:
    one = {"item": [1, 1], "system": ["a"] * 2, "verdict": ["unsure", "right"], "rater": ["x", "x"]}
    with pytest.raises(EvidenceError, match="must not contradict"):
        said(one)
    assert said({**one, "rater": ["x", "y"]}) == (1, 0, 0)


def test_systems_that_share_an_answer_share_its_truth() -> None:
    answers = {"item": [1, 1], "system": ["a", "b"], "answer": ["Paris", "Paris"]}
    table = {"item": [1, 1], "system": ["a", "b"], "verdict": ["right", "wrong"]}
    with pytest.raises(EvidenceError, match="different verdicts on one answer"):
        said(table, answers=answers)
    assert said({**table, "verdict": ["unsure", "right"]}, answers=answers) == (1, 0, 1)


def test_free_text_may_have_two_right_answers_and_classes_may_not() -> None:
    answers: Columns = {"item": [1, 1], "system": ["a", "b"], "answer": [0, 1]}
    table = {"item": [1, 1], "system": ["a", "b"], "verdict": ["right", "right"]}
    assert said(table, answers=answers) == (2, 0, 0)
    with pytest.raises(EvidenceError, match="two different right answers"):
        said(table, answers=answers, n_classes=3)


@pytest.mark.parametrize(
    ("judgement", "grade", "fits"),
    [
        (("no", 0), "right", False),
        (("no", 0), "wrong", True),
        (("no", 1), "wrong", True),
        (("no", 1), "right", True),
        (("yes", 0), "wrong", False),
        (("yes", 0), "right", True),
        (("yes", 1), "right", False),
        (("yes", 1), "wrong", True),
        (("unsure", 0), "right", True),
    ],
)
def test_grades_and_judgements_of_one_item_must_agree(
    judgement: tuple[str, int], grade: str, *, fits: bool
) -> None:
    tables = {
        "answers": {"item": [7], "system": ["a"], "answer": [0]},
        "judgements": {"item": [7], "class": [judgement[1]], "verdict": [judgement[0]]},
        "n_classes": 4,
    }
    table = {"item": [7], "system": ["a"], "verdict": [grade]}
    if fits:
        assert sum(said(table, **tables)[:2]) == 1
        assert said(table, **tables)[0] == (grade == "right")
    else:
        with pytest.raises(
            EvidenceError, match="judgements and grades must not contradict each other"
        ):
            said(table, **tables)


def test_a_grade_goes_before_a_ruled_out_class_for_its_own_system_only() -> None:
    answers = {"item": [1, 1], "system": ["a", "b"], "answer": [0, 1]}
    evidence = opened(
        answers=answers,
        judgements={"item": [1], "class": [2], "verdict": ["no"]},
        grades={"item": [1], "system": ["a"], "verdict": ["wrong"]},
        n_classes=4,
    )
    counts = count_accuracy(evidence)
    assert counts.total(system="a", design="graded", verdict="yes", hit=False) == 1
    assert counts.total(system="b", design="uniform", verdict="no", hit=False) == 1
    assert evidence.inferred == ()


# ----------------------------------------------------------------------------------------------------------
# classes and items


def test_free_text_needs_no_classes_and_says_nothing_of_them() -> None:
    answers = {
        "item": list(range(4)),
        "system": ["a"] * 4,
        "answer": ["Paris", "42", "a long text, with commas", None],
    }
    with warnings.catch_warnings():
        warnings.simplefilter("error", EvidenceWarning)
        evidence = opened(answers=answers, grades=grades(["right", "wrong", "right"]))
    counts = count_accuracy(evidence)
    assert evidence.n_classes is None
    assert (sum(counts.items.values()), sum(counts.answered.values())) == (4, 3)
    assert estimate_accuracy(evidence).value == pytest.approx(0.75 * 2 / 3)


@pytest.mark.parametrize(
    "values", [[1.5, -2.25, 3.0], [-1, -2, 5], [True, False, True], ["a", "b", "c"]]
)
def test_answers_of_any_type_can_be_graded(values: list[Any]) -> None:
    answers = {"item": [0, 1, 2], "system": ["a"] * 3, "answer": values}
    assert said(grades(["yes", "no", "yes"]), answers=answers) == (2, 1, 0)


def test_a_missing_answer_cannot_be_right() -> None:
    answers = {"item": [0, 1], "system": ["a"] * 2, "answer": ["x", None]}
    with pytest.raises(
        EvidenceError,
        match=r"grades.verdict must not be right where the answer is missing; got 1 such row at item 1",
    ):
        said(grades(["yes", "yes"]), answers=answers)
    estimate = estimate_accuracy(opened(answers=answers, grades=grades(["yes", "no"])))
    assert (estimate.low, estimate.high) == (0.5, 0.5)


def test_grades_of_answers_that_are_not_there_are_counted_as_unused() -> None:
    answers = {"item": [0], "system": ["a"], "answer": ["x"]}
    counts = count_accuracy(opened(answers=answers, grades=grades(["yes", "yes"])))
    assert counts.unused == {"grades of answers that are not there": 1}


def test_items_are_the_population_and_without_them_graded_items_are_a_sample() -> None:
    table = grades(["yes"] * 8 + ["no"] * 2)
    alone = estimate_accuracy(opened(grades=table))
    assert any("sample of more" in note for note in alone.notes)
    assert "items beyond these" in {a.name for a in alone.guarantee.assumptions}
    assert alone.low < alone.high
    listed = estimate_accuracy(opened(grades=table, items={"item": list(range(10))}))
    assert (listed.low, listed.high) == (0.8, 0.8)
    twice = estimate_accuracy(opened(grades=table, items={"item": list(range(20))}))
    assert twice.interval == "hypergeometric"
    assert alone.high - alone.low > twice.high - twice.low > 0
    with pytest.raises(
        EvidenceError, match=r"grades.item must be in items; got unknown items at item 9"
    ):
        said(table, items={"item": list(range(9))})


def test_clusters_of_grades_are_taken_where_every_item_has_one() -> None:
    table = grades(["yes"] * 20 + ["no"] * 20, cluster=[f"c{i // 4}" for i in range(40)])
    estimate = estimate_accuracy(opened(grades=table))
    assert estimate.interval == "clusters"
    assert estimate.diagnostics["clusters"] == 10
    some = opened(grades=table, items={"item": list(range(50))})
    assert any("clusters of grades are not used" in line for line in some.inferred)
    table["item"][1] = 0
    with pytest.raises(
        EvidenceError, match=r"grades.cluster must be the same in all rows of an item"
    ):
        opened(grades={**table, "cluster": [f"c{i}" for i in range(40)]})


def test_repeats_of_answers_are_refused_with_the_way_out() -> None:
    answers = {"item": [1, 1], "system": ["a", "a"], "answer": ["x", "y"], "repeat": [0, 1]}
    with pytest.raises(
        EvidenceError, match="one row for each item and system beside grades; got repeats"
    ):
        said({"item": [1], "system": ["a"], "verdict": ["yes"]}, answers=answers)


def test_propensities_of_several_systems_need_the_answers() -> None:
    table = {
        "item": [1, 1],
        "system": ["a", "b"],
        "verdict": ["yes", "no"],
        "propensity": [0.5, 0.5],
    }
    with pytest.raises(
        EvidenceError,
        match=r"of one system for each item where there are no answers.*Add the table of answers",
    ):
        said(table)
    assert (
        sum(said(table, answers={"item": [1, 1], "system": ["a", "b"], "answer": ["x", "y"]})) > 0
    )


# -------------------------------------------------------------------------------------------------------------------
# engines

ANSWERS: Columns = {
    "item": [i for i in range(12) for _ in "ab"],
    "system": ["a", "b"] * 12,
    "answer": [f"text {i % 3}" if (i + j) % 5 else None for i in range(12) for j in (0, 1)],
}
PAIRS = [
    (i, s)
    for i, s, given in zip(*ANSWERS.values(), strict=True)
    if given is not None and (i % 4 or s == "a")
]
GRADES: Columns = {
    "item": [i for i, _ in PAIRS],
    "system": [s for _, s in PAIRS],
    "verdict": ["right" if i % 3 == 0 else "wrong" if i % 3 == 1 else "unsure" for i, _ in PAIRS],
    "rater": ["ä" if i % 2 else None for i, _ in PAIRS],
}
ITEMS: Columns = {"item": list(range(12)), "stratum": ["x" if i < 6 else "y" for i in range(12)]}
SOURCES = [*SINGLE, "relations"]


@pytest.mark.thin(9)
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("alone", [False, True])
def test_counts_are_the_same_on_every_engine(source: str, *, alone: bool, tmp_path: Path) -> None:
    tables = {"grades": GRADES, **({} if alone else {"answers": ANSWERS, "items": ITEMS})}
    if source == "relations":
        given = as_relations(tables, tmp_path)
    else:
        given = {name: SINGLE[source](columns, name, tmp_path) for name, columns in tables.items()}
    expected = count_accuracy(Evidence.from_tables(**tables))
    found = count_accuracy(Evidence.from_tables(**given))
    assert (found.tallies, found.items, found.answered, found.unused) == (
        expected.tallies,
        expected.items,
        expected.answered,
        expected.unused,
    )
    assert sum(found.tallies.values()) == len(PAIRS)


def test_times_of_any_type_are_taken() -> None:
    days = [dt.date(2026, 1, 1), dt.date(2026, 1, 2)]
    assert said(grades(["yes", "no"], at=days)) == (1, 1, 0)


def test_hostile_names_are_names() -> None:
    names = ['a"b', "a'; drop table x; --", "ключ", ""]
    table = {"item": names, "system": names, "verdict": ["yes", "no", "yes", "no"]}
    counts = count_accuracy(Evidence.from_tables(grades=table))
    assert set(counts.systems) == set(names)


def test_one_grade_says_little_and_honestly() -> None:
    estimate = estimate_accuracy(opened(grades=grades(["yes"])))
    assert (estimate.value, estimate.high) == (1.0, 1.0)
    assert estimate.low == pytest.approx(0.025)
