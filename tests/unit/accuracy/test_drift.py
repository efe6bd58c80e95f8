"""Drift of evidence: kinds of label, order, reference, a judge, and what is refused."""

from __future__ import annotations

import dataclasses
import datetime as dt
from typing import Any

import numpy as np
import pytest

from noracle import Evidence, detect_drift, read_result
from noracle.accuracy.drift import DriftRule, time_text
from noracle.errors import ArgumentError, EvidenceError
from noracle.simulate import simulate_world


def grades(n: int = 600, change: int = 400, seed: int = 1, **more: Any) -> dict[str, list[Any]]:
    rng = np.random.default_rng(seed)
    right = rng.random(n) < np.where(np.arange(n) < change, 0.9, 0.6)
    rows = {"item": list(range(n)), "system": ["a"] * n}
    return {**rows, "verdict": ["yes" if r else "no" for r in right], **more}


def days(n: int, per_day: int, start: str = "2026-09-01") -> list[str]:
    first = dt.date.fromisoformat(start)
    return [(first + dt.timedelta(days=i // per_day)).isoformat() for i in range(n)]


RULE: dict[str, Any] = {"floor": 0.8, "run_length": 1000}


def test_a_fall_is_found_after_it_happened() -> None:
    found = detect_drift(Evidence.from_tables(grades=grades()), **RULE)["a"]
    assert found.alarm
    assert 400 < found.label < 520
    assert found.since[0] <= 401 <= found.since[1] <= found.label
    assert found.statistic >= 1000
    assert read_result(found.to_dict()) == found


def test_labels_after_the_alarm_and_how_they_are_cut_change_nothing() -> None:
    table = grades()
    whole = detect_drift(Evidence.from_tables(grades=table), **RULE)["a"]
    part = {name: column[: whole.label] for name, column in table.items()}
    early = detect_drift(Evidence.from_tables(grades=part), **RULE)["a"]
    told = ("label", "since", "likely", "statistic", "moved", "level")
    assert [getattr(early, name) for name in told] == [getattr(whole, name) for name in told]
    before = {name: column[: whole.label - 1] for name, column in table.items()}
    assert not detect_drift(Evidence.from_tables(grades=before), **RULE)["a"].alarm


def test_times_tell_the_order_of_rows() -> None:
    table = grades(
        at=[f"2026-09-01T{i // 3600:02d}:{i // 60 % 60:02d}:{i % 60:02d}" for i in range(600)]
    )
    shuffled = np.random.default_rng(0).permutation(600)
    mixed = {name: [column[i] for i in shuffled] for name, column in table.items()}
    one, other = (detect_drift(Evidence.from_tables(grades=t), **RULE)["a"] for t in (table, mixed))
    assert one == other
    assert one.at.startswith("2026-09-01T")


@pytest.mark.thin(3)
@pytest.mark.parametrize("kind", ["uniform", "complementary", "sets"])
def test_class_labels_of_every_kind_find_a_fall(kind: str) -> None:
    good, bad = (
        simulate_world(n_items=1500, n_classes=4, systems={"a": a}, seed=s)
        for a, s in ((0.9, 1), (0.5, 2))
    )
    answers = {c: [*good.answers[c], *bad.answers[c]] for c in ("system", "answer")}
    answers["item"] = list(range(3000))
    key = [*dict(good.key).values(), *dict(bad.key).values()]
    rng = np.random.default_rng(5)
    rows = []
    for item, y in enumerate(key):
        wrong = [k for k in range(4) if k != y]
        if kind == "uniform":
            k = int(rng.integers(4))
            rows.append((item, k, "yes" if k == y else "no"))
        else:
            m = 1 if kind == "complementary" else 2
            rows += [(item, int(k), "no") for k in rng.choice(wrong, m, replace=False)]
    judgements = dict(
        zip(("item", "class", "verdict"), map(list, zip(*rows, strict=True)), strict=True)
    )
    evidence = Evidence.from_tables(answers, judgements, n_classes=4)
    if kind == "sets":
        evidence = dataclasses.replace(evidence, protocol="sets")
    found = detect_drift(evidence, floor=0.8, run_length=5000)["a"]
    assert found.alarm
    assert found.label > 1500
    names = [a.name for a in found.guarantee.assumptions]
    assert "uniform routing" in names


def test_recorded_propensities_find_a_fall() -> None:
    rng, rows, answers = np.random.default_rng(3), [], []
    for item in range(1500):
        right = rng.random() < (0.9 if item < 900 else 0.5)
        y = int(rng.integers(4))
        answer = y if right else (y + 1) % 4
        asked = (
            answer if rng.random() < 0.7 else int(rng.choice([k for k in range(4) if k != answer]))
        )
        p = 0.7 if asked == answer else 0.1
        rows.append((item, asked, "yes" if asked == y else "no", p))
        answers.append((item, "a", answer))
    judgements = dict(
        zip(
            ("item", "class", "verdict", "propensity"),
            map(list, zip(*rows, strict=True)),
            strict=True,
        )
    )
    table = dict(
        zip(("item", "system", "answer"), map(list, zip(*answers, strict=True)), strict=True)
    )
    found = detect_drift(Evidence.from_tables(table, judgements, n_classes=4), floor=0.8)["a"]
    assert found.label > 900
    assert "recorded propensities" in [a.name for a in found.guarantee.assumptions]


def test_an_answer_that_is_missing_counts_as_wrong() -> None:
    answers = {"item": list(range(200)), "system": ["a"] * 200, "answer": [0] * 100 + [None] * 100}
    judgements = {"item": list(range(200)), "class": [0] * 200, "verdict": ["yes"] * 200}
    evidence = Evidence.from_tables(answers, judgements, n_classes=3)
    found = detect_drift(evidence, floor=0.8, run_length=1000)["a"]
    assert 100 < found.label < 120


# reference


def test_a_reference_enters_by_its_lower_bound() -> None:
    table = grades(n=600, change=450, at=days(600, 10))
    found = detect_drift(Evidence.from_tables(grades=table), reference="2026-09", run_length=1000)[
        "a"
    ]
    told = found.diagnostics
    assert told["reference_labels"] == 300
    assert told["reference_low"] == found.level < told["reference_value"]
    assert found.label > 450
    assert found.guarantee.error_rate == pytest.approx(0.05)
    margin = detect_drift(
        Evidence.from_tables(grades=table), reference="2026-09-01..2026-09-30", margin=0.05
    )["a"]
    assert margin.level == pytest.approx(found.level - 0.05)


def test_a_reference_that_is_not_over_raises_no_alarm() -> None:
    evidence = Evidence.from_tables(grades=grades(n=100, change=0, at=days(100, 10)))
    for reference in ("2026-09", "2025-01"):
        found = detect_drift(evidence, reference=reference, run_length=10)["a"]
        assert not found.alarm
        assert found.reason
        assert np.isnan(found.level)
        assert read_result(found.to_dict()).reason == found.reason


# a judge


def judged_grades(n: int = 800, change: int = 400, every: int = 5) -> dict[str, list[Any]]:
    rng = np.random.default_rng(2)
    total = n * every
    right = rng.random(total) < np.where(np.arange(total) < change * every, 0.9, 0.6)
    called = rng.random(total) < np.where(right, 0.95, 0.1)
    people = [i for i in range(total) if i % every == rng.integers(every) or i % (7 * every) == 0]
    rows = [(i, bool(called[i]), "gpt") for i in range(total)]
    rows += [(i, bool(right[i]), "ann") for i in people]
    item, verdict, rater = zip(*rows, strict=True)
    return {
        "item": list(item),
        "system": ["a"] * len(rows),
        "verdict": list(verdict),
        "rater": list(rater),
    }


def test_a_judge_helps_and_its_grades_are_no_labels() -> None:
    table = judged_grades()
    evidence = Evidence.from_tables(grades=table)
    found = detect_drift(evidence, floor=0.8, judge="gpt", window=100)["a"]
    people = {
        name: [v for v, r in zip(column, table["rater"], strict=True) if r == "ann"]
        for name, column in table.items()
    }
    alone = detect_drift(Evidence.from_tables(grades=people), floor=0.8)["a"]
    assert found.alarm
    assert found.label < alone.label
    assert found.counts["labelled"] == len(people["item"])
    assert max(found.diagnostics["judge_weights"]) > 0.3


def test_a_judge_must_be_named_and_known() -> None:
    evidence = Evidence.from_tables(grades=judged_grades(50, 25))
    with pytest.raises(EvidenceError, match=r"judge must be named .* judge='gpt'"):
        detect_drift(evidence, floor=0.8)
    with pytest.raises(EvidenceError, match="judge must be among the raters"):
        detect_drift(evidence, floor=0.8, judge="claude")


def test_a_second_judge_is_no_person() -> None:
    table = judged_grades(50, 25)
    for i in range(250):
        for name, value in (("item", i), ("system", "a"), ("verdict", True), ("rater", "llama")):
            table[name].append(value)
    with pytest.raises(EvidenceError, match=r"judge must be the only rater .* grades of 'llama'"):
        detect_drift(Evidence.from_tables(grades=table), floor=0.8, judge="gpt")


def test_labels_that_come_after_their_window_are_left_out_and_said() -> None:
    rows = [(i, True, "gpt") for i in range(40)]
    rows += [(i, True, "ann") for i in (1, 3, 12, 15, 5, 25)]  # 5 comes when its window is over
    item, verdict, rater = map(list, zip(*rows, strict=True))
    table = {"item": item, "system": ["a"] * len(rows), "verdict": verdict, "rater": rater}
    found = detect_drift(Evidence.from_tables(grades=table), floor=0.5, judge="gpt", window=10)["a"]
    assert found.notes == (
        "1 labels came after their window had ended and are left out",
        "1 labels wait for their window to end",
    )
    assert found.counts["labelled"] == 6


# where


def test_the_stratum_that_moved_is_named_first() -> None:
    rng, n = np.random.default_rng(8), 1200
    stratum = ["law" if i % 4 == 0 else "news" for i in range(n)]
    bad = (np.arange(n) >= 600) & (np.array(stratum) == "law")
    right = rng.random(n) < np.where(bad, 0.2, 0.9)
    table = {"item": list(range(n)), "system": ["a"] * n, "verdict": [bool(r) for r in right]}
    items = {"item": list(range(n)), "stratum": stratum}
    found = detect_drift(
        Evidence.from_tables(grades=table, items=items), floor=0.85, run_length=1000
    )["a"]
    assert found.alarm
    assert (found.moved[0]["what"], found.moved[0]["name"]) == ("stratum", "law")
    assert found.moved[0]["since"] < 0.5 < found.moved[0]["before"]


def test_clusters_make_it_a_heuristic() -> None:
    table = grades(cluster=[f"c{i % 50}" for i in range(600)])
    found = detect_drift(Evidence.from_tables(grades=table), **RULE)["a"]
    assert found.guarantee.kind.label == "heuristic"
    assert found.moved[0]["what"] == "cluster"
    assert "HEURISTIC" in str(found)


# what is refused, and edges


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ({}, "floor or reference must be given"),
        ({"floor": 0.8, "reference": "2026"}, "floor or reference must be given, and not both"),
        ({"floor": 1.0}, r"floor - margin must be in \(0, 1\)"),
        ({"floor": float("nan")}, r"floor - margin must be in \(0, 1\)"),
        ({"floor": 0.1, "margin": 0.1}, r"floor - margin must be in \(0, 1\)"),
        ({"floor": 0.8, "margin": -0.1}, r"margin must be in \[0, 1\)"),
        ({"floor": 0.8, "run_length": 1}, "run_length must be a number of labels above 1"),
        ({"reference": "September"}, "reference must be a period"),
        ({"reference": "2026-13"}, "reference must be a period"),
        ({"reference": "2026-10..2026-09"}, "reference must be a period"),
        ({"floor": 0.8, "window": "year"}, "window must be day, week, month"),
        ({"floor": 0.8, "window": 0}, "window must be day, week, month"),
        ({"floor": 0.8, "confidence": 95}, "confidence must be in"),
    ],
)
def test_a_rule_that_is_none_is_refused(rule: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        DriftRule(**rule)


def test_no_times_for_a_reference_or_windows_of_time() -> None:
    for more in ({"reference": "2026-09"}, {"floor": 0.8, "window": "day"}):
        with pytest.raises(EvidenceError, match="must have a time in column at"):
            detect_drift(Evidence.from_tables(grades=grades(20, 10)), **more)
    with pytest.raises(EvidenceError, match="at must be a time as ISO 8601"):
        detect_drift(Evidence.from_tables(grades=grades(20, 10, at=["monday"] * 20)), floor=0.8)


def test_rows_without_a_time_are_told() -> None:
    table = grades(50, 40, at=[*days(49, 10), None])
    (note,) = detect_drift(Evidence.from_tables(grades=table), floor=0.8)["a"].notes
    assert note.startswith("1 of 50 rows have no time that can be read")
    assert note.endswith("in windows of 200 answers")
    assert not detect_drift(Evidence.from_tables(grades=grades(50, 40)), floor=0.8)["a"].notes


def test_no_label_and_one_label() -> None:
    answers = {"item": [1, 2], "system": ["a", "a"], "answer": [0, 1]}
    judgements = {"item": [1], "class": [0], "verdict": ["unsure"]}
    evidence = Evidence.from_tables(answers, judgements, n_classes=3)
    found = detect_drift(evidence, floor=0.8)["a"]
    assert (found.alarm, found.reason, found.windows) == (False, "no labels yet", ())
    assert "no labels yet" in str(found)
    assert read_result(found.to_dict()).reason == "no labels yet"
    one = detect_drift(Evidence.from_tables(grades=grades(1, 1)), floor=0.8)["a"]
    assert not one.alarm
    with pytest.raises(ArgumentError, match="systems must be among"):
        detect_drift(evidence, floor=0.8, systems=["b"])


def test_times_are_one_text() -> None:
    assert time_text(0) == "1970-01-01T00:00:00"
    assert time_text(" 2026-09-14 ") == time_text(dt.date(2026, 9, 14)) == "2026-09-14T00:00:00"
    assert time_text(float("nan")) == time_text("") == ""
