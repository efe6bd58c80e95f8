"""Tables of preferences, as people and arenas write them."""

from __future__ import annotations

import json

import pandas as pd
import polars as pl
import pytest

from noracle import ArgumentError, EvidenceError, Preferences
from noracle.evidence.preferences import OUTCOMES

ROWS = {
    "item": ["q1", "q1", "q2", "q3"],
    "first": ["x", "y", "x", "z"],
    "second": ["y", "x", "z", "x"],
    "winner": ["first", "x", "tie", "neither"],
    "rater": ["ann", "ann", "bob", "ann"],
}


def words(p: Preferences) -> list[str]:
    return [OUTCOMES[o] for o in p.outcome]


@pytest.mark.parametrize(
    "table", [ROWS, pd.DataFrame(ROWS), pl.DataFrame(ROWS)], ids=["dict", "pandas", "polars"]
)
def test_names_places_and_words_are_read(table):
    p = Preferences.from_table(table)
    assert p.systems == ("x", "y", "z")
    assert [p.systems[i] for i in p.first] == ROWS["first"]
    assert words(p) == ["first", "second", "tie", "neither"]
    assert p.raters == ("ann", "bob")
    assert p.item.tolist() == [0, 0, 1, 2]


def test_records_of_an_arena_are_read(tmp_path):
    records = [
        {"question_id": "a1", "model_a": "x", "model_b": "y", "winner": "model_a", "judge": "h1", "turn": 1},
        {"question_id": "a2", "model_a": "y", "model_b": "x", "winner": "tie (bothbad)", "judge": "h2", "turn": 1},
        {"question_id": "a3", "model_a": "y", "model_b": "x", "winner": "model_b", "judge": "h1", "turn": 1},
    ]  # fmt: skip
    path = tmp_path / "arena.jsonl"
    path.write_text("".join(json.dumps(r) + "\n" for r in records), encoding="utf-8")
    p = Preferences.from_table(path)
    assert words(p) == ["first", "neither", "second"]
    assert p.raters == ("h1", "h2")
    assert any("model_a" in line for line in p.inferred)


def test_case_spaces_and_unicode_are_no_fault():
    p = Preferences.from_table(
        {
            "item": [1, 2],
            "first": ["größe", "größe"],
            "second": ["モデル", "モデル"],
            "winner": [" FIRST ", "モデル"],
        }
    )
    assert words(p) == ["first", "second"]


def test_rows_without_a_verdict_are_counted_and_left_out():
    p = Preferences.from_table({**ROWS, "winner": ["first", None, "tie", ""]})
    assert (len(p.item), p.missing) == (2, 2)
    assert p.systems == ("x", "y", "z")


def test_own_names_of_columns():
    table = {"q": [1], "left_one": ["x"], "right_one": ["y"], "winner": ["x"]}
    names = {"item": "q", "first": "left_one", "second": "right_one"}
    assert words(Preferences.from_table(table, columns=names)) == ["first"]
    with pytest.raises(ArgumentError, match="columns must name some of"):
        Preferences.from_table(table, columns={"label": "q"})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"winner": ["first", "w", "tie", "tie"]}, "must be first, second, tie, neither or one of the two"),
        ({"second": ["x", "x", "z", "x"]}, "must be another system than first"),
        ({"item": ["q1", None, "q2", "q3"]}, "must not be null"),
        ({"winner": [None] * 4}, "must hold at least one verdict"),
        ({name: [] for name in ROWS}, "must hold at least one verdict"),
    ],
)  # fmt: skip
def test_faults_name_what_to_do(change, message):
    with pytest.raises(EvidenceError, match=message):
        Preferences.from_table({**ROWS, **change})


def test_a_missing_column_is_named():
    with pytest.raises(EvidenceError, match="got no winner"):
        Preferences.from_table({name: v for name, v in ROWS.items() if name != "winner"})
