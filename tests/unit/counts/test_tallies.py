"""Counts as JSON: what 0.1 wrote is still read, and what is new survives the way there and back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from noracle.counts import AccuracyCounts, Cell, count_accuracy
from noracle.counts.tally import Label
from noracle.errors import EvidenceError
from noracle.evidence import Evidence
from noracle.schemas import load_schema

STORED = Path(__file__).parents[2] / "reference" / "schemas" / "counts-1.json"


def through_json(counts: AccuracyCounts) -> AccuracyCounts:
    data = json.loads(json.dumps(counts.to_dict(), allow_nan=False))
    jsonschema.Draft202012Validator(load_schema("counts/1")).validate(data)
    return AccuracyCounts.from_dict(data)


def evidence(**more: list[Any]) -> Evidence:
    answers = {"item": [1, 2, 3, 4], "system": ["a"] * 4, "answer": [0, 1, 2, None]}
    judgements = {"item": [1, 2, 3], "class": [0, 0, 2], "verdict": ["yes", "no", "unsure"], **more}
    items = {
        "item": [1, 2, 3, 4],
        "n_classes": [3, 3, 4, 4],
        "cluster": ["page 1", "page 1", "page 2", None],
    }
    return Evidence.from_tables(answers, judgements, items)


def test_counts_of_the_first_release_are_read_with_the_defaults_of_what_is_new() -> None:
    data = json.loads(STORED.read_text(encoding="utf-8"))
    assert not {"whole", "propensities"} & set(data)
    assert not any("cluster" in row for row in (*data["tallies"], *data["population"]))
    counts = AccuracyCounts.from_dict(data)
    assert counts.whole
    assert counts.propensities == "recorded"  # a tally of a recorded question says so
    assert {t.cluster for t in counts.tallies} == {c.cluster for c in counts.items} == {""}
    assert counts.to_dict() == data


def test_old_counts_without_recorded_questions_have_no_propensities() -> None:
    data = json.loads(STORED.read_text(encoding="utf-8"))
    data["tallies"] = [row for row in data["tallies"] if row["design"] == "uniform"]
    assert AccuracyCounts.from_dict(data).propensities == "none"


@pytest.mark.parametrize("whole", [True, False])
def test_whole_survives(whole: bool) -> None:
    counts = AccuracyCounts.from_counts(
        n_classes=4, ordinary=(10, 5), n_items=20 if whole else None
    )
    assert counts.whole is whole
    assert through_json(counts) == counts
    assert ("whole" in counts.to_dict()) is not whole


@pytest.mark.parametrize(
    ("propensity", "kind"),
    [
        (None, "none"),
        ([None, None, None], "none"),
        ([1 / 3, 1 / 3, 1 / 4], "uniform"),
        ([1 / 3, 0.5, None], "recorded"),
    ],
)
def test_propensities_survive(propensity: list[Any] | None, kind: str) -> None:
    counts = count_accuracy(evidence() if propensity is None else evidence(propensity=propensity))
    assert counts.propensities == kind
    assert through_json(counts) == counts
    assert through_json(counts).propensities == kind


def test_propensities_survive_where_no_tally_shows_them() -> None:
    counts = AccuracyCounts(
        tallies={}, items={Cell("a", 3): 4}, answered={Cell("a", 3): 4}, propensities="recorded"
    )
    assert through_json(counts) == counts


def test_recorded_tally_says_that_propensities_were_recorded() -> None:
    met = Label(3, "yes", frozenset({0}), 0.5).meet(0, system="a")
    counts = AccuracyCounts(tallies={met: 1}, items={Cell("a", 3): 1}, answered={Cell("a", 3): 1})
    assert counts.propensities == "recorded"
    assert through_json(counts) == counts


def test_clusters_survive_and_an_item_without_one_is_its_own() -> None:
    counts = count_accuracy(evidence(), by_cluster=True)
    assert {c.cluster for c in counts.items} == {"page 1", "page 2", "item 4"}
    assert {t.cluster for t in counts.tallies} == {"page 1", "page 2"}
    assert through_json(counts) == counts
    assert not any("cluster" in row for row in count_accuracy(evidence()).to_dict()["tallies"])


def test_uniform_and_recorded_counts_do_not_add() -> None:
    uniform, recorded = (
        count_accuracy(evidence(propensity=p)) for p in ([1 / 3, 1 / 3, 1 / 4], [1 / 3, 0.5, None])
    )
    with pytest.raises(EvidenceError, match="one design"):
        uniform + recorded
