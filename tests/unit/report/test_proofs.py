"""Proofs, traces, violators and items to check: what cards, pages and plots say of them."""

from __future__ import annotations

import dataclasses

import pytest

from noracle.counts.sketch import Sketch
from noracle.errors import ArgumentError
from noracle.logic.cascade import prove_by_axioms, prove_malfunction
from noracle.logic.conflict import prove_conflict, range_violators
from noracle.logic.next_item import range_checks
from noracle.logic.prevalence import range_prevalence
from noracle.logic.ranges import range_accuracies
from noracle.report import proofs
from noracle.report.card import card, html_card
from noracle.report.content import content
from noracle.report.page import render_page
from noracle.report.plots import plot
from noracle.results import Proof, Ranges
from tests.unit.logic.seed_table import GRADERS, table_2

CLAIM = "accuracy > 1/2"


@pytest.fixture(scope="module")
def alarm() -> Proof:
    return prove_conflict(table_2(), CLAIM)


def test_status_is_in_the_first_line(alarm: Proof) -> None:
    assert card(alarm).startswith(
        "ALARM: accuracy > 1/2    at least one of 2 classifiers breaks it, whatever the answer key is"
    )
    consistent = prove_malfunction(table_2().of(GRADERS[:2]), CLAIM)
    assert (
        card(consistent).splitlines()[0]
        == "consistent: accuracy > 1/2    some answer key allows it; this says nothing about how good they are"
    )
    undecided = dataclasses.replace(
        consistent, status="undecided", witness={}, reason="the time limit was reached"
    )
    assert card(undecided).startswith("undecided: accuracy > 1/2    neither proved nor refuted")


def test_card_has_claim_proof_conflict_and_blind_spot(alarm: Proof) -> None:
    lines = dict(content(alarm).lines)
    assert lines["claim"] == CLAIM
    assert lines["conflict"] == "Mistral, GPT4"
    assert "-135" in lines["proved by"]
    assert "which of them" in lines["cannot see"]
    (table,) = content(alarm).tables
    assert table.header == ("classifier", "A", "B")
    assert table.rows == (("Mistral", "27", "254"), ("GPT4", "234", "47"))


def test_every_kind_of_certificate_has_words(alarm: Proof) -> None:
    uses = {"Mistral": {"A": 27, "B": 254}, "GPT4": {"A": 234, "B": 47}}
    assert "room for 146 items only" in card(prove_by_axioms(uses, CLAIM))
    counts = {("a", "a"): 1, ("b", "a"): 1, ("b", "b"): 1}
    cases = prove_malfunction(
        Sketch.from_counts(counts, classifiers=["x", "y"], labels=["a", "b"]), CLAIM
    )
    assert "cases, each refuted by whole weights" in card(cases)
    solver = dataclasses.replace(alarm, certificate={"kind": "solver"})
    assert "verify() has nothing to check" in card(solver)


def test_missing_answers_are_a_column_of_their_own() -> None:
    sketch = Sketch.from_arrays(
        [[0, -1], [0, 1], [1, 1]], labels=["a", "b"], classifiers=["x", "y"]
    )
    (table,) = content(prove_malfunction(sketch, "accuracy > 1/5")).tables
    assert table.header == ("classifier", "a", "b", "no answer")
    assert table.rows[1] == ("y", "0", "2", "1")


@pytest.fixture(scope="module")
def others() -> dict[str, Ranges]:
    pair = table_2().of(GRADERS[:2])
    return {
        "window": range_prevalence(pair, CLAIM, label="A"),
        "none": range_prevalence(table_2(), CLAIM, label="A"),
        "violators": range_violators(table_2(), "accuracy > 0.7"),
        "checks": range_checks(pair, CLAIM),
        "ranges": range_accuracies(table_2(), given={"Claude": CLAIM}),
    }


def test_traces_violators_and_checks_have_their_own_words(others: dict[str, Ranges]) -> None:
    assert card(others["window"]).startswith(
        "prevalence of A if accuracy > 1/2    12 to 53 of 281 items"
    )
    assert card(others["none"]).startswith("prevalence of A if accuracy > 1/2    none of 281 items")
    assert card(others["violators"]).startswith("at least 2 of 3 classifiers break it")
    assert card(others["checks"]).startswith("check next for alarm")
    assert "HEURISTIC" in card(others["checks"]).splitlines()[0]
    assert proofs.ranges_content(others["ranges"]) is None


def test_everything_is_drawn_and_fits_a_page(alarm: Proof, others: dict[str, Ranges]) -> None:
    page = render_page([alarm, *others.values()], title="graders")
    assert page.count("<svg") == 6
    assert "ALARM: accuracy &gt; 1/2" in page
    assert [t.get_text() for t in plot(alarm).get_yticklabels()] == ["Mistral", "GPT4"]
    assert plot(others["window"]).get_xlabel().startswith("items of A")


def test_names_are_escaped() -> None:
    sketch = Sketch.from_arrays(
        [[0, 1], [1, 1]], labels=["<b>", "$x_1$"], classifiers=["<i>", "$y^$"]
    )
    proof = prove_malfunction(sketch, "accuracy > 1/5")
    assert "<i>" not in html_card(proof)
    render_page([proof], title="x")


def test_traces_side_by_side(others: dict[str, Ranges]) -> None:
    ax = proofs.trace_plot([others["window"], others["none"]], ["a pair", "all"])
    bars = [(round(p.get_x() + 0.4), round(p.get_x() + p.get_width() - 0.4)) for p in ax.patches]
    assert bars == [(12, 53)]
    assert sum(line.get_marker() == "x" for line in ax.lines) == 1
    with pytest.raises(ArgumentError, match="traces must be"):
        proofs.trace_plot([others["ranges"]])
    with pytest.raises(ArgumentError, match="names must be"):
        proofs.trace_plot([others["window"]], ["a", "b"])
