"""Counting by an engine gives what counting by hand gives, on any small tables."""

from __future__ import annotations

import dataclasses
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from noracle.counts import count_accuracy, count_patterns
from noracle.evidence import Evidence
from tests.unit.counts import reference
from tests.unit.counts.test_counting import World, differences
from tests.unit.evidence.backends import Columns


@st.composite
def small_worlds(draw: st.DrawFn) -> World:
    n = draw(st.integers(1, 5))
    ks = [draw(st.integers(2, 4)) for _ in range(n)]
    items: Columns = {"item": list(range(n)), "n_classes": ks}
    pairs = draw(
        st.lists(
            st.tuples(st.integers(0, n - 1), st.sampled_from("ab")),
            min_size=1,
            unique=True,
            max_size=2 * n,
        )
    )
    answers: Columns = {
        "item": [i for i, _ in pairs],
        "system": [s for _, s in pairs],
        "answer": [draw(st.one_of(st.none(), st.integers(0, ks[i] - 1))) for i, _ in pairs],
    }
    judged = [
        pairs[0][0],
        *draw(st.lists(st.integers(0, n - 1), max_size=7)),
    ]  # tables without an item in common are refused
    judgements: Columns = {
        "item": judged,
        "class": [draw(st.integers(0, ks[i] - 1)) for i in judged],
        "verdict": [draw(st.sampled_from(["yes", "no", "no", "unsure"])) for _ in judged],
        "rater": [draw(st.sampled_from(["ann", "bob", None])) for _ in judged],
        "propensity": [draw(st.sampled_from([None, 0.25, 0.5, 1.0])) for _ in judged],
    }
    return {"answers": answers, "judgements": judgements, "items": items}


@pytest.mark.filterwarnings(
    "ignore:only [0-9]+ of [0-9]+ judged items:noracle.errors.EvidenceWarning"
)
# Planning a query costs DuckDB five times as much as Polars, so that most small tables go to
# Polars; all engines agree elsewhere.
@pytest.mark.full
@hypothesis.given(tables=small_worlds(), engine=st.sampled_from(["duckdb", *["polars"] * 19]))
def test_random_small_tables_match_counting_by_hand(tables: World, engine: str) -> None:
    given: dict[str, Any] = dict(tables)
    if engine == "polars":
        pl = pytest.importorskip("polars")
        types = {"answer": pl.Int64, "rater": pl.String, "propensity": pl.Float64}
        given = {
            name: pl.DataFrame(
                table, schema_overrides={k: v for k, v in types.items() if k in table}
            )
            for name, table in tables.items()
        }
    evidence = Evidence.from_tables(**given, conflicts="drop")
    assert differences(count_accuracy(evidence), reference.accuracy(**tables)) == {}
    assert (
        differences(
            dataclasses.replace(count_patterns(evidence), unused={}), reference.patterns(**tables)
        )
        == {}
    )
