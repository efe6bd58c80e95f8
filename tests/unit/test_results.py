from __future__ import annotations

import dataclasses
import json
import math
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from noracle.errors import ArgumentError, AssumptionError, EvidenceError
from noracle.results import (
    Assumption,
    Check,
    Estimate,
    Guarantee,
    Kind,
    check_confidence,
    choose,
    read_result,
    results_dict,
    tails,
)
from tests.unit.report.samples import CHECK, COMPARISON, ESTIMATE, FINITE, RANGES, ROUTING, SAMPLES, UNDEFINED

kinds = st.sampled_from(list(Kind))
statuses = st.sampled_from(["by-design", "checked", "assumed", "failed"])
assumptions = st.lists(st.builds(Assumption, name=st.sampled_from("abc"), status=statuses), max_size=3, unique_by=lambda a: a.name).map(
    tuple
)
guarantees = st.builds(Guarantee, kind=kinds, error_rate=st.floats(0, 1), anytime=st.booleans(), assumptions=assumptions.map(tuple))


@pytest.mark.parametrize("name", SAMPLES)
def test_json_round_trip_keeps_everything(name: str) -> None:
    result = SAMPLES[name]
    back = read_result(json.loads(result.to_json()))
    assert type(back) is type(result)
    assert back.to_dict() == result.to_dict()
    assert str(back) == str(result)
    assert repr(back) == repr(result)


@pytest.mark.parametrize("name", SAMPLES)
def test_schema_comes_first_and_repr_is_one_line(name: str) -> None:
    assert next(iter(SAMPLES[name].to_dict())) == "schema"
    assert "\n" not in repr(SAMPLES[name])


@pytest.mark.parametrize("name", SAMPLES)
def test_results_are_frozen_slotted_and_pickled(name: str) -> None:
    result = SAMPLES[name]
    with pytest.raises(dataclasses.FrozenInstanceError):
        result.version = "9"  # type: ignore[attr-defined]
    assert not hasattr(result, "__dict__")
    assert pickle.loads(pickle.dumps(result)).to_dict() == result.to_dict()


def test_undefined_numbers_are_null_with_a_reason() -> None:
    data = UNDEFINED.to_dict()
    assert data["value"] is None
    assert data["reason"] == "no labels"
    assert "NaN" not in UNDEFINED.to_json()
    assert math.isnan(Estimate.from_dict(data).value)


def test_numpy_values_become_plain_json() -> None:
    result = dataclasses.replace(ESTIMATE, value=np.float64(0.5), diagnostics={"a": np.arange(2), "b": np.float64("nan"), "c": np.int64(3)})
    assert json.loads(result.to_json())["diagnostics"] == {"a": [0, 1], "b": None, "c": 3}


def test_unknown_fields_are_ignored_and_unknown_schemas_are_named() -> None:
    assert Estimate.from_dict({**ESTIMATE.to_dict(), "later": 1}) == ESTIMATE
    with pytest.raises(EvidenceError, match="schema must be 'check/1'"):
        Check.from_dict(ESTIMATE.to_dict())
    with pytest.raises(EvidenceError, match="newer noracle"):
        read_result({"schema": "estimate/9"})


def test_results_dict_holds_all() -> None:
    data = results_dict(SAMPLES.values())
    assert data["schema"] == "results/1"
    assert len(data["results"]) == len(SAMPLES)


@given(guarantees, guarantees)
def test_joined_guarantee_is_the_weaker_of_both(a: Guarantee, b: Guarantee) -> None:
    joined = a & b
    assert joined.kind == min(a.kind, b.kind)
    assert joined.error_rate == min(1.0, a.error_rate + b.error_rate)
    assert joined.anytime == (a.anytime and b.anytime)
    order = ["failed", "assumed", "checked", "by-design"]
    for assumption in joined.assumptions:
        known = [x.status for x in (*a.assumptions, *b.assumptions) if x.name == assumption.name]
        assert assumption.status == min(known, key=order.index)
    assert {x.name for x in joined.assumptions} == {x.name for x in (*a.assumptions, *b.assumptions)}


@given(guarantees, guarantees)
def test_joining_does_not_depend_on_the_order(a: Guarantee, b: Guarantee) -> None:
    one, two = a & b, b & a
    assert (one.kind, one.error_rate, one.anytime) == (two.kind, two.error_rate, two.anytime)
    assert {(x.name, x.status) for x in one.assumptions} == {(x.name, x.status) for x in two.assumptions}


def test_passed_check_marks_the_assumption_and_keeps_the_kind() -> None:
    given_ = FINITE.given(dataclasses.replace(CHECK, p_value=0.3))
    assert given_.kind == Kind.FINITE_SAMPLE
    assert {a.name: a.status for a in given_.assumptions}["uniform routing"] == "checked"


def test_failed_check_makes_the_promise_heuristic_or_raises() -> None:
    failed = dataclasses.replace(CHECK, p_value=1e-9, finding="class 3 was asked too often")
    assert FINITE.given(failed).kind == Kind.HEURISTIC
    assert {a.name: a.status for a in FINITE.given(failed).assumptions}["uniform routing"] == "failed"
    with pytest.raises(AssumptionError, match="class 3 was asked too often"):
        FINITE.given(failed, strict=True)


def test_check_without_evidence_changes_nothing() -> None:
    silent = dataclasses.replace(CHECK, p_value=math.nan)
    assert silent.passed
    assert FINITE.given(silent, strict=True) == FINITE


def test_check_passes_at_its_threshold_and_fails_below() -> None:
    assert dataclasses.replace(CHECK, p_value=1e-3).passed
    assert not dataclasses.replace(CHECK, p_value=9.9e-4).passed


def test_difference_is_found_both_ways() -> None:
    there, back = COMPARISON.difference("agent-7", "baseline"), COMPARISON.difference("baseline", "agent-7")
    assert (back.value, back.low, back.high) == (-there.value, -there.high, -there.low)
    assert (there.verdict, back.verdict) == ("first", "second")
    assert COMPARISON.difference("agent-7", "agent-8").verdict == "not separable"
    with pytest.raises(ArgumentError, match="got 'agent-7' and 'nobody'"):
        COMPARISON.difference("agent-7", "nobody")


def test_ranges_are_found_by_name() -> None:
    assert RANGES["accuracy of 'agent-7'"].low == 0.61
    with pytest.raises(ArgumentError, match="got 'x'"):
        RANGES["x"]


def test_routing_is_columns_for_any_frame() -> None:
    assert len(ROUTING) == 4
    assert ROUTING.columns()["class"] == ["C", "A", "B", "B"]
    assert dataclasses.replace(ROUTING, rows=()).columns() == {"item": [], "class": [], "propensity": []}


@pytest.mark.parametrize("confidence", [0, 1, 95, -0.1, math.nan, "0.95", None])
def test_confidence_outside_the_open_unit_interval_is_refused(confidence: object) -> None:
    with pytest.raises(ArgumentError, match="confidence must be in"):
        check_confidence(confidence)  # type: ignore[arg-type]


@given(st.floats(0.01, 0.99))
def test_tails_spend_the_whole_error_rate(confidence: float) -> None:
    for side in ("two-sided", "lower", "upper"):
        assert sum(tails(confidence, side)) == pytest.approx(1 - confidence)
    assert tails(confidence, "lower")[1] == 0
    assert tails(confidence, "upper")[0] == 0


def test_unknown_choices_are_refused() -> None:
    with pytest.raises(ArgumentError, match="side must be"):
        tails(0.95, "both")  # type: ignore[arg-type]
    assert choose("method", "ml", ("ml", "ivw")) == "ml"
    with pytest.raises(ArgumentError, match="method must be one of ml, ivw; got 'x'"):
        choose("method", "x", ("ml", "ivw"))
