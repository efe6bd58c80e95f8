"""What every estimator keeps: see the registry for the list."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import math
from typing import Any

import jsonschema
import pytest
from referencing import Registry, Resource

from noracle import (
    ArgumentError,
    Certificate,
    Check,
    Comparison,
    Estimate,
    Evidence,
    NoracleError,
    Plan,
    Proof,
    Ranges,
    Routing,
    read_result,
)
from noracle.results import Guarantee, Kind
from noracle.schemas import load_schema, schema_names
from tests.contracts.evidence import CASES, changed, evidence, tables, with_texts
from tests.contracts.registry import ENTRIES, Entry, public_estimators, spread

SCHEMAS: Registry[Any] = Registry().with_resources(
    (load_schema(n)["$id"], Resource.from_contents(load_schema(n))) for n in schema_names()
)


def every(turn: int) -> pytest.MarkDecorator:
    """Every estimator; other turns have other ones among the default tests."""
    return pytest.mark.parametrize("entry", spread(turn))


def numbers(result: Any) -> dict[str, Any]:
    """What must not change when items or classes are renamed: all figures, but no texts and no
    class names.
    """
    match result:
        case Estimate():
            return {
                "value": result.value,
                "low": result.low,
                "high": result.high,
                "se": result.se,
                "counts": _plain(result.counts),
            }
        case Certificate():
            return {
                "value": result.value,
                "low": result.low,
                "attained": result.attained,
                "certified": result.certified,
            }
        case Comparison():
            found = {
                f"{d.first}-{d.second}": (d.value, d.low, d.high, d.n) for d in result.differences
            }
            ranks = {r.system: (r.best, r.worst, r.value) for r in result.ranks}
            return {
                **found,
                **ranks,
                "leaders": tuple(result.leaders),
                "dropped": dict(result.dropped),
            }
        case Check():
            return {
                "p": result.p_value,
                "statistic": result.statistic,
                "rates": [v for v in result.diagnostics.values() if isinstance(v, float)],
            }
        case Proof():
            return {"status": result.status}
        case Ranges():
            return {r.name: (r.low, r.high) for r in result.ranges}
        case Plan():
            return {"buy": dict(result.buy), "cost": result.cost, "predicted": result.predicted}
        case Routing():
            return {
                "n": len(result.rows),
                "items": sorted(len(str(item)) for item, _, _ in result.rows),
            }
    raise AssertionError(f"unknown result {type(result)}")


def _plain(counts: Any) -> dict[str, float]:
    return {k: v for k, v in counts.items() if isinstance(v, (int, float))}


def same(a: Any, b: Any) -> bool:
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, (tuple, list)):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, float) and isinstance(b, (float, int)):
        return (math.isnan(a) and math.isnan(b)) or math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-12)
    return bool(a == b)


def test_registry_holds_every_public_estimator() -> None:
    assert public_estimators() == {e.function for e in ENTRIES}
    assert len({str(e) for e in ENTRIES}) == len(ENTRIES)


def test_every_way_to_call_an_estimator_is_among_the_default_tests() -> None:
    for turns in (range(len(CASES)), range(3)):
        default = {way.id for turn in turns for way in spread(turn) if not way.marks}
        assert default == {str(e) for e in ENTRIES}
    for turn in range(len(CASES)):
        assert {w.values[0].function for w in spread(turn) if not w.marks} == public_estimators()


def test_a_missing_estimator_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    import noracle

    monkeypatch.setattr(noracle, "__all__", [*noracle.__all__, "estimate_nothing"])
    assert "estimate_nothing" in public_estimators() - {e.function for e in ENTRIES}


@functools.cache
def usual(entry: Entry) -> Any:
    """The result on the usual evidence."""
    return entry(evidence())


@every(0)
def test_order_of_rows_changes_nothing(entry: Entry) -> None:
    assert same(numbers(usual(entry)), numbers(entry(changed(shuffle=True))))


@every(1)
def test_names_of_items_change_nothing(entry: Entry) -> None:
    if entry.random and entry.function in ("route_items", "route_judged", "check_assumptions"):
        pytest.skip("a routing is drawn, and items are paired, in the order of the items' names")
    assert same(numbers(usual(entry)), numbers(entry(changed(items=True))))


@every(2)
@pytest.mark.parametrize(
    "classes", [(2, 0, 3, 1), ("dog", "cat", "yak", "ant")], ids=["numbers", "texts"]
)
def test_names_of_classes_change_nothing(entry: Entry, classes: tuple[Any, ...]) -> None:
    if entry.function in ("estimate_ceilings", "certify_thresholds"):
        pytest.skip("scores have an order")
    drawn = (
        {"low", "high", "se"} if entry.function == "estimate_agreement" else set()
    )  # resamples are drawn in the order of the labels
    before, after = numbers(usual(entry)), numbers(entry(changed(classes=classes)))
    if entry.function == "range_prevalence":  # its one range has the name of a class
        before, after = (dict(enumerate(x.values())) for x in (before, after))
    assert same(
        {k: v for k, v in before.items() if k not in drawn},
        {k: v for k, v in after.items() if k not in drawn},
    )


@every(3)
def test_more_confidence_is_never_narrower(entry: Entry) -> None:
    if not entry.confident:
        pytest.skip("has no interval")
    pairs = []
    for confidence in (0.8, 0.95, 0.999):
        result = usual(entry) if confidence == 0.95 else entry(evidence(), confidence)
        if isinstance(result, Estimate):
            pairs.append([(result.low, result.high)])
        elif isinstance(result, Certificate):
            pairs.append([(result.low, 1.0)])
        elif isinstance(result, Comparison):
            pairs.append([(d.low, d.high) for d in result.differences])
        else:
            pairs.append([(result["interval"].low, result["interval"].high)])
    for narrow, wide in itertools.pairwise(pairs):
        for (low, high), (lower, higher) in zip(narrow, wide, strict=True):
            assert lower <= low + 1e-9
            assert higher >= high - 1e-9


@pytest.mark.parametrize(
    ("entry", "case"),
    [
        pytest.param(*way.values, case, marks=way.marks, id=f"{case}-{way.id}")
        for turn, case in enumerate(CASES)
        for way in spread(turn)
    ],
)
def test_every_case_is_honest_and_survives_json(
    entry: Entry, case: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """A result that says what it does not know, or a one-line error; nothing is printed."""
    result, message = None, "."
    try:
        result = entry(evidence(case))
    except NoracleError as error:
        message = str(error)
    assert "\n" not in message
    assert message.endswith((".", ")", "'"))
    if result is not None:
        honest(result)
        data = json.loads(result.to_json())
        jsonschema.Draft202012Validator(load_schema(data["schema"]), registry=SCHEMAS).validate(
            data
        )
        back = read_result(data)
        assert type(back) is type(result)
        assert back.to_dict() == result.to_dict()
        assert "\n" not in repr(result)
        assert len(str(result)) > 20
    assert capfd.readouterr() == ("", "")


def chance_corrected(result: Estimate) -> bool:
    """Chance-corrected agreement can be negative."""
    return result.quantity in (
        "mean Cohen's kappa",
        "Cohen's kappa",
        "Fleiss' kappa",
        "Krippendorff's alpha",
    )


def honest(result: Any) -> None:
    match result:
        case Certificate():
            assert result.verify()
            assert -1 <= result.low <= 1
            assert result.certified != bool(result.reasons)
        case Estimate():
            least = -1 if chance_corrected(result) else 0
            assert least <= result.low <= result.high <= 1
            assert not math.isnan(result.value) or result.reason
            vacuous = result.low <= 0 and result.high >= 1
            assert vacuous == any(
                "[0, 1]" in note and "say nothing" in note for note in result.notes
            )
            if math.isnan(result.value):
                assert result.low == 0
        case Comparison():
            for d in result.differences:
                assert -1 <= d.low <= d.high <= 1
                assert not math.isnan(d.value) or result.reason
            assert set(result.leaders) <= set(result.systems)
            assert result.leaders
        case Check():
            assert math.isnan(result.p_value) or 0 <= result.p_value <= 1
            assert result.finding
            assert result.passed == (
                math.isnan(result.p_value) or result.p_value >= result.threshold
            )
        case Proof():
            assert result.status == "undecided" or result.verify()
        case Ranges():
            for r in result.ranges:
                assert r.low <= r.high or (math.isnan(r.low) and result.reason)
        case Plan():
            assert result.verify()
        case Routing():
            assert all(p is None or 0 < p <= 1 for _, _, p in result.rows)  # None: nothing to draw
    if hasattr(result, "guarantee"):
        guarantee: Guarantee = result.guarantee
        assert isinstance(guarantee.kind, Kind)
        assert 0 <= guarantee.error_rate < 1
        assert guarantee.error_rate > 0 or guarantee.kind in (Kind.LOGICAL, Kind.HEURISTIC)
        assert guarantee.assumptions


@every(4)
def test_texts_of_items_appear_nowhere(entry: Entry, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    result = entry(with_texts())
    shown = [result.to_json(), repr(result), str(result), result._repr_html_(), caplog.text]
    assert not any("SECRET" in text for text in shown)


@every(5)
def test_same_input_same_answer(entry: Entry) -> None:
    assert entry(evidence()).to_dict() == usual(entry).to_dict()


@pytest.mark.parametrize(
    ("entry", "confidence"),
    [
        pytest.param(*way.values, confidence, marks=way.marks, id=f"{way.id}-{confidence}")
        for turn, confidence in enumerate([0.0, 1.0, 95, -1, math.nan])
        for way in spread(turn, [e for e in ENTRIES if e.confident])
    ],
)
def test_impossible_confidence_is_refused(entry: Entry, confidence: float) -> None:
    with pytest.raises(ArgumentError, match="confidence must be in"):
        entry(evidence(), confidence)


@functools.cache
def with_a_stranger() -> Evidence:
    """The usual evidence and a judgement of an item that has no answer."""
    answers, judgements = tables("usual")
    assert judgements is not None
    for column, value in zip(judgements.values(), ("stranger", 1, "no", 10_000, "r0"), strict=True):
        column.append(value)
    return Evidence.from_tables(answers=answers, judgements=judgements, n_classes=4)


@pytest.mark.parametrize(
    "entry",
    spread(
        1,
        [
            e
            for e in ENTRIES
            if not e.function.startswith("plan_") and e.function != "estimate_mean"
        ],
    ),
)
def test_labels_of_unknown_items_are_counted_and_not_used(entry: Entry) -> None:
    """Judgements that no answer belongs to change no figure, and no result hides them."""
    if entry.rated:
        pytest.skip("reads ratings")
    if entry.function in ("estimate_with_judges", "rank_systems", "estimate_win_rates"):
        pytest.skip("reads grades or preferences")
    if entry.function in ("check_routing", "check_yes_rate", "AccuracyStream"):
        pytest.skip("looks at every judgement, or at one label at a time")
    result = entry(with_a_stranger())
    before = usual(entry)
    drop = {"dropped"} if isinstance(result, Comparison) else set()
    assert same(
        {k: v for k, v in numbers(result).items() if k not in drop},
        {k: v for k, v in numbers(before).items() if k not in drop},
    )
    if (
        isinstance(result, (Estimate, Comparison))
        and "Race" not in entry.function
        and entry.function != "race_systems"
    ):
        assert any("1 judgements of items without answers" in note for note in result.notes)


@functools.cache
def with_nan() -> Evidence:
    """The usual evidence in frames that write a missing answer as NaN."""
    pandas = pytest.importorskip("pandas")
    answers, judgements = tables("usual")
    frame = pandas.DataFrame(
        {**answers, "answer": [math.nan if a is None else float(a) for a in answers["answer"]]}
    )
    return Evidence.from_tables(answers=frame, judgements=pandas.DataFrame(judgements), n_classes=4)


@pytest.mark.parametrize(
    "entry",
    spread(2, [e for e in ENTRIES if e.function.startswith(("estimate_", "compare_"))]),
)
def test_nan_is_no_answer(entry: Entry) -> None:
    assert same(numbers(entry(with_nan())), numbers(usual(entry)))


@pytest.mark.parametrize(
    "function",
    [
        "estimate_accuracies",
        "estimate_accuracy",
        "estimate_with_judges",
        "certify_panel",
        "compare_systems",
        "range_unsure",
        "check_overlap",
        "check_hits",
        "label_checks",
    ],
)
def test_wrong_kind_of_evidence_is_named(function: str) -> None:
    import noracle

    with pytest.raises(NoracleError):
        getattr(noracle, function)({"item": [1]})


def test_failed_check_reaches_every_guarantee() -> None:
    import noracle

    failed = Check(
        name="planted",
        assumption="uniform routing",
        p_value=1e-9,
        statistic=1.0,
        finding="planted",
        method="none",
    )
    for call in (noracle.compare_systems, noracle.race_systems):
        assert call(evidence(), checks=[failed]).guarantee.kind == Kind.HEURISTIC
        with pytest.raises(noracle.AssumptionError, match="planted"):
            call(evidence(), checks=[failed], strict=True)
    estimate = noracle.estimate_accuracy(evidence(), system="a", checks=[failed])
    assert estimate.guarantee.kind == Kind.HEURISTIC
    assert dataclasses.replace(failed, p_value=0.5).passed
    with pytest.raises(noracle.AssumptionError, match="planted"):
        noracle.estimate_accuracy(evidence(), system="a", checks=[failed], strict=True)
