from __future__ import annotations

import dataclasses
import itertools
import json
import math
import pickle
import random
from typing import Any

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
from noracle.results.base import holm
from tests.unit.report.samples import (
    CHECK,
    COMPARISON,
    ESTIMATE,
    FINITE,
    RANGES,
    ROUTING,
    SAMPLES,
    UNDEFINED,
)

kinds = st.sampled_from(list(Kind))
statuses = st.sampled_from(["by-design", "checked", "assumed", "failed"])
assumptions = st.lists(
    st.builds(Assumption, name=st.sampled_from("abc"), status=statuses),
    max_size=3,
    unique_by=lambda a: a.name,
).map(tuple)
guarantees = st.builds(
    Guarantee,
    kind=kinds,
    error_rate=st.floats(0, 1),
    anytime=st.booleans(),
    assumptions=assumptions.map(tuple),
)


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
    result = dataclasses.replace(
        ESTIMATE,
        value=np.float64(0.5),
        diagnostics={"a": np.arange(2), "b": np.float64("nan"), "c": np.int64(3)},
    )
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
    assert {x.name for x in joined.assumptions} == {
        x.name for x in (*a.assumptions, *b.assumptions)
    }


@given(guarantees, guarantees)
def test_joining_does_not_depend_on_the_order(a: Guarantee, b: Guarantee) -> None:
    one, two = a & b, b & a
    assert (one.kind, one.error_rate, one.anytime) == (two.kind, two.error_rate, two.anytime)
    assert {(x.name, x.status) for x in one.assumptions} == {
        (x.name, x.status) for x in two.assumptions
    }


def test_passed_check_marks_the_assumption_and_keeps_the_kind() -> None:
    given_ = FINITE.given(dataclasses.replace(CHECK, p_value=0.3))
    assert given_.kind == Kind.FINITE_SAMPLE
    assert {a.name: a.status for a in given_.assumptions}["uniform routing"] == "checked"


def test_failed_check_makes_the_promise_heuristic_or_raises() -> None:
    failed = dataclasses.replace(CHECK, p_value=1e-9, finding="class 3 was asked too often")
    assert FINITE.given(failed).kind == Kind.HEURISTIC
    assert {a.name: a.status for a in FINITE.given(failed).assumptions}[
        "uniform routing"
    ] == "failed"
    with pytest.raises(AssumptionError, match="class 3 was asked too often"):
        FINITE.given(failed, strict=True)


def checks_of(*p_values: float, refutes_only: bool = False) -> list[Check]:
    return [
        dataclasses.replace(
            CHECK, name=f"check {i}", finding=f"finding {i}", p_value=p, refutes_only=refutes_only
        )
        for i, p in enumerate(p_values)
    ]


def routing_in(guarantee: Guarantee) -> Assumption:
    return next(a for a in guarantee.assumptions if a.name == CHECK.assumption)


def test_later_check_that_passes_does_not_hide_one_that_failed() -> None:
    for order in itertools.permutations(checks_of(0.9, 1e-9, 0.4)):
        found = FINITE.given(*order)
        assert found.kind is Kind.HEURISTIC
        assert routing_in(found) == Assumption(
            name=CHECK.assumption, status="failed", detail="finding 1", p_value=3 * 1e-9
        )


@given(
    st.lists(
        st.tuples(
            st.sampled_from("ab"),
            st.sampled_from([math.nan, 0.0, 1e-9, 4e-4, 6e-4, 0.02, 0.3, 1.0]),
            st.booleans(),
        ),
        max_size=5,
    ),
    guarantees,
    st.randoms(use_true_random=False),
)
def test_given_is_holm_and_the_worst_status_whatever_the_order(
    rows: list[tuple[str, float, bool]], before: Guarantee, shuffler: random.Random
) -> None:
    checks = [
        dataclasses.replace(
            CHECK, name=f"check {i}", assumption=name, p_value=p_value, refutes_only=only
        )
        for i, (name, p_value, only) in enumerate(rows)
    ]
    after = before.given(*checks)
    known, statuses = (
        {a.name: a.status for a in before.assumptions},
        {a.name: a.status for a in after.assumptions},
    )
    for name in {*known, *"ab"}:
        mine = [c for c in checks if c.assumption == name and not math.isnan(c.p_value)]
        rejected = bool(mine) and len(mine) * min(c.p_value for c in mine) < 1e-3
        told = any(not c.refutes_only for c in mine)
        if rejected or known.get(name) == "failed":
            assert statuses[name] == "failed"
        elif told and known.get(name) != "by-design":
            assert statuses[name] == "checked"
        else:
            assert statuses.get(name) == known.get(name)
        if told and not rejected and known.get(name) in (None, "assumed"):
            shown = next(a for a in after.assumptions if a.name == name)
            assert shown.p_value == pytest.approx(
                min(1.0, len(mine) * min(c.p_value for c in mine))
            )
    assert after.kind == (Kind.HEURISTIC if "failed" in statuses.values() else before.kind)
    shuffled = checks[:]
    shuffler.shuffle(shuffled)
    assert before.given(*shuffled) == after


def test_checks_of_one_assumption_share_the_error_rate() -> None:
    assert routing_in(FINITE.given(*checks_of(6e-4, 0.5))).status == "checked"
    assert routing_in(FINITE.given(*checks_of(6e-4, 0.5))).p_value == pytest.approx(1.2e-3)
    assert routing_in(FINITE.given(*checks_of(6e-4))).status == "failed"
    assert routing_in(FINITE.given(*checks_of(6e-4, math.nan))).status == "failed"
    one, other = checks_of(6e-4, 0.5)
    assert routing_in(
        FINITE.given(one, dataclasses.replace(other, refutes_only=True))
    ).p_value == pytest.approx(1.2e-3)


def test_holm_is_the_step_down_of_its_definition() -> None:
    rng = np.random.default_rng(3)
    for _ in range(300):
        p = rng.random(int(rng.integers(1, 7))) ** 3
        level = float(rng.random())
        rejected = set()
        for rank, i in enumerate(
            np.argsort(p)
        ):  # reject the smallest while it is below level/(m - rank), then stop
            if p[i] >= level / (len(p) - rank):
                break
            rejected.add(int(i))
        assert {i for i, q in enumerate(holm(p.tolist())) if q < level} == rejected


@pytest.mark.parametrize("status", ["by-design", "checked", "assumed", "failed"])
def test_what_only_refutes_takes_a_status_away_and_never_gives_one(status: Any) -> None:
    before = Guarantee(
        kind=Kind.FINITE_SAMPLE,
        error_rate=0.05,
        assumptions=(Assumption(name=CHECK.assumption, status=status),),
    )
    passed = before.given(*checks_of(0.5, refutes_only=True))
    assert routing_in(passed).status == status
    assert passed.kind is (Kind.HEURISTIC if status == "failed" else Kind.FINITE_SAMPLE)
    failed = before.given(*checks_of(1e-9, refutes_only=True))
    assert (routing_in(failed).status, failed.kind) == ("failed", Kind.HEURISTIC)


def test_what_failed_before_stays_failed_and_is_no_promise() -> None:
    before = Guarantee(
        kind=Kind.FINITE_SAMPLE,
        error_rate=0.05,
        assumptions=(Assumption(name=CHECK.assumption, status="failed", detail="known"),),
    )
    assert before.given().kind is Kind.HEURISTIC
    after = before.given(*checks_of(0.7))
    assert (routing_in(after).status, routing_in(after).detail, after.kind) == (
        "failed",
        "known",
        Kind.HEURISTIC,
    )


def test_what_holds_by_design_is_not_weakened_by_a_check_that_passes() -> None:
    design = Assumption(name=CHECK.assumption, status="by-design")
    before = Guarantee(kind=Kind.FINITE_SAMPLE, error_rate=0.05, assumptions=(design,))
    assert before.given(*checks_of(0.7)) == before


def test_strict_names_every_check_that_failed() -> None:
    checks = [
        *checks_of(1e-9, 0.5, 1e-7),
        dataclasses.replace(CHECK, name="yes rate", assumption="right verdicts", p_value=1e-5),
    ]
    with pytest.raises(AssumptionError) as caught:
        FINITE.given(*checks, strict=True)
    assert all(f"{name} failed" in str(caught.value) for name in ("check 0", "check 2", "yes rate"))
    assert "check 1" not in str(caught.value)


def test_check_without_evidence_changes_nothing() -> None:
    silent = dataclasses.replace(CHECK, p_value=math.nan)
    assert silent.passed
    assert FINITE.given(silent, strict=True) == FINITE


def test_check_passes_at_its_threshold_and_fails_below() -> None:
    assert dataclasses.replace(CHECK, p_value=1e-3).passed
    assert not dataclasses.replace(CHECK, p_value=9.9e-4).passed


def test_difference_is_found_both_ways() -> None:
    there, back = (
        COMPARISON.difference("agent-7", "baseline"),
        COMPARISON.difference("baseline", "agent-7"),
    )
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
    assert dataclasses.replace(ROUTING, rows=()).columns() == {
        "item": [],
        "class": [],
        "propensity": [],
    }


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


def test_a_check_without_a_p_value_does_not_change_the_order_of_the_others() -> None:
    nothing, small, none = (
        dataclasses.replace(CHECK, name=n, p_value=p)
        for n, p in (("x", math.nan), ("y", 1e-9), ("z", 0.0))
    )
    promise = Guarantee(kind=Kind.FINITE_SAMPLE, error_rate=0.05)
    for order in itertools.permutations((nothing, small, none)):
        (shown,) = promise.given(*order).assumptions
        assert (shown.status, shown.p_value) == ("failed", 0.0)
