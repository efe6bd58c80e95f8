"""Records for other tools: with their own readers where these are here, else by our schemas."""

from __future__ import annotations

import dataclasses
import json
import math
import xml.etree.ElementTree as ET
from typing import Any

import jsonschema
import pytest
import yaml

from noracle import ArgumentError, Guarantee, Kind
from noracle.cli import run
from noracle.report.records import BadgeRow, as_yaml, badge, eval_results, evaluation_events
from noracle.schemas import load_schema
from tests.unit.report.samples import ESTIMATE, SAMPLES, UNDEFINED

PLACE = {"dataset": "TIGER-Lab/MMLU-Pro", "task": "mmlu_pro"}
ESTIMATES = [e for e in SAMPLES.values() if type(e) is type(ESTIMATE)]
HEURISTIC = dataclasses.replace(ESTIMATE, guarantee=Guarantee(kind=Kind.HEURISTIC, error_rate=0.05))


def attributes(estimate: Any) -> dict[str, Any]:
    events = json.loads(json.dumps(evaluation_events([estimate], at=1.5)))
    jsonschema.validate(events, load_schema("evaluation-events/1"))
    (record,) = events["resourceLogs"][0]["scopeLogs"][0]["logRecords"]
    assert record["timeUnixNano"] == "1500000000"
    assert record["eventName"] == "gen_ai.evaluation.result"
    return {a["key"]: next(iter(a["value"].values())) for a in record["attributes"]}


def test_the_hubs_own_reader_takes_the_yaml():
    hub = pytest.importorskip("huggingface_hub")
    about = {
        "revision": "ab" * 20,
        "date": "2026-09-30",
        "source": {"url": "https://x.org", "org": "me"},
    }
    text = as_yaml(eval_results([ESTIMATE, ESTIMATE], **PLACE, **about))
    (entry, _) = hub.parse_eval_result_entries(yaml.safe_load(text))
    assert (entry.dataset_id, entry.task_id, entry.value) == (*PLACE.values(), 0.8)
    assert (entry.dataset_revision, entry.date, entry.source_org) == ("ab" * 20, "2026-09-30", "me")
    assert entry.notes.startswith(
        "accuracy 0.800, 95 % interval [0.708, 0.869]; finite-sample; rests"
    )
    assert "uniform routing (checked, p = 0.41)" in entry.notes
    assert yaml.safe_load(text) == hub.eval_result_entries_to_yaml(
        hub.parse_eval_result_entries(yaml.safe_load(text))
    )


@pytest.mark.parametrize(
    "value", [0.0, 1.0, 1e-5, 0.1 + 0.2, 1 / 3, 12345.678, -0.25], ids=lambda v: f"{v:g}"
)
def test_yaml_keeps_numbers_numbers(value):
    entries = eval_results(dataclasses.replace(ESTIMATE, value=value), **PLACE)
    found = yaml.safe_load(as_yaml(entries))[0]["value"]
    assert isinstance(found, float)
    assert found == pytest.approx(value, abs=1e-10)
    jsonschema.validate(entries, load_schema("eval-results/1"))


@pytest.mark.parametrize("name", ['a"b: c', "no", "x\ny", "\u2028\x85#", "模型", "\x07"])
def test_yaml_keeps_hostile_texts(name):
    entries = eval_results(dataclasses.replace(ESTIMATE, quantity=name), **PLACE)
    assert yaml.safe_load(as_yaml(entries)) == entries


def test_percent_is_for_benchmarks_that_count_to_100():
    assert eval_results(ESTIMATE, **PLACE, percent=True)[0]["value"] == 80.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dataset": "MMLU-Pro"}, "dataset must be owner/name"),
        ({"task": " "}, "task must be an identifier"),
        ({"revision": "main"}, "revision must be the hash of a commit"),
        ({"date": "30.9.2026"}, "date must be a date of ISO 8601"),
        ({"source": {"name": "x"}}, "source must have url"),
    ],
)
def test_what_the_hub_would_refuse_is_refused(change, message):
    with pytest.raises(ArgumentError, match=message):
        eval_results(ESTIMATE, **PLACE | change)


def test_a_file_is_of_one_system_and_has_numbers():
    other = dataclasses.replace(ESTIMATE, subject="b")
    with pytest.raises(ArgumentError, match="must be of one system"):
        eval_results([ESTIMATE, other], **PLACE)
    with pytest.raises(ArgumentError, match="must be of one system"):
        eval_results([], **PLACE)
    with pytest.raises(ArgumentError, match="undefined accuracy"):
        eval_results(UNDEFINED, **PLACE)


@pytest.mark.parametrize("estimate", ESTIMATES, ids=lambda e: f"{e.quantity} of {e.subject!r}")
def test_any_estimate_is_an_event(estimate):
    said = attributes(estimate)
    assert said["gen_ai.evaluation.name"] == estimate.quantity
    assert said["noracle.system"] == estimate.subject
    assert said["noracle.guarantee"] == estimate.guarantee.kind.label
    assert len(said["noracle.assumptions"]["values"]) == len(estimate.guarantee.assumptions)
    if math.isnan(estimate.value):
        assert said["gen_ai.evaluation.score.label"] == "undefined"
        assert "gen_ai.evaluation.score.value" not in said
    else:
        assert said["gen_ai.evaluation.score.value"] == estimate.value
        assert said["noracle.interval.low"] == estimate.low


def test_an_event_without_a_promise_says_so_in_its_text():
    said = attributes(HEURISTIC)
    assert said["noracle.guarantee"] == "heuristic"
    assert "HEURISTIC: no promise" in said["gen_ai.evaluation.explanation"]


def texts(svg: str) -> list[str]:
    root = ET.fromstring(svg)
    assert root.get("role") == "img"
    title = root.find("{*}title")
    assert title is not None
    assert title.text == root.get("aria-label")
    return [
        title.text or "",
        *(t.text or "" for t in root.iter("{http://www.w3.org/2000/svg}text")),
    ]


def test_a_badge_has_the_interval_and_says_it_in_words():
    said = texts(badge([ESTIMATE]))
    assert said[1:] == ["accuracy of agent-7", "0.80 [0.70, 0.87]"]
    assert said[0] == "accuracy of agent-7: 0.80 [0.70, 0.87] (95 % interval, finite-sample)"


def test_a_badge_rounds_limits_outwards():
    for low, high, shown in (
        (0.79994, 0.80006, "[0.7999, 0.8001]"),
        (0.7912, 0.8088, "[0.79, 0.81]"),
        (0.708, 0.8612, "[0.70, 0.87]"),
    ):
        row = dataclasses.replace(ESTIMATE, low=low, high=high)
        assert shown in texts(badge([row]))[2]
        assert (
            texts(badge([dataclasses.replace(ESTIMATE, low=0.0, high=1.0)]))[2]
            == "0.80 [0.00, 1.00]"
        )


def test_a_badge_without_a_promise_shows_no_interval():
    said = texts(badge([HEURISTIC]))
    assert said[2] == "0.80, no promise"
    assert "nothing is promised" in said[0]
    unknown = BadgeRow("accuracy", math.nan, math.nan, math.nan, None, "95 % interval")
    assert texts(badge([unknown]))[2] == "unknown"
    assert 'fill="#0b5c8a"' not in badge([HEURISTIC])


def test_a_badge_keeps_hostile_names_as_text():
    name = '<script>&"\x07\ud800模型'
    said = texts(badge([dataclasses.replace(ESTIMATE, subject=name)]))
    assert '<script>&"' in said[1]
    assert len(texts(badge([ESTIMATE, HEURISTIC]))) == 5
    with pytest.raises(ArgumentError, match="at least one estimate"):
        badge([])


def test_colours_of_badges_can_be_read():
    """Contrast of at least 4.5 to white (WCAG 2.2)."""
    for colour in ("#0b5c8a", "#8a4b00", "#3b424a"):
        assert colour in badge([ESTIMATE, HEURISTIC])
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        light = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
        assert 1.05 / (light + 0.05) >= 4.5


def test_the_command_line_writes_all_three(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = "\n".join(f"{i},a,{i % 2}" for i in range(40))
    (tmp_path / "answers.csv").write_text(f"item,system,answer\n{rows}\n", encoding="utf-8")
    rows = "\n".join(f"{i},0,{'yes' if i % 4 == 0 else 'no'}" for i in range(0, 40, 2))
    (tmp_path / "judgements.csv").write_text(f"item,class,verdict\n{rows}\n", encoding="utf-8")
    asked = [
        "estimate",
        "--answers",
        "answers.csv",
        "--judgements",
        "judgements.csv",
        "--n-classes",
        "2",
    ]
    files = [
        "--eval-results",
        "r.yaml",
        "--benchmark",
        "a/b:c",
        "--events",
        "e.jsonl",
        "--badge",
        "b.svg",
    ]
    assert run([*asked, *files]) == 0
    out = capsys.readouterr().out
    assert "evaluation results r.yaml\nevents e.jsonl\nbadge b.svg" in out
    entries = yaml.safe_load((tmp_path / "r.yaml").read_text(encoding="utf-8"))
    jsonschema.validate(entries, load_schema("eval-results/1"))
    events = json.loads((tmp_path / "e.jsonl").read_text(encoding="utf-8"))
    jsonschema.validate(events, load_schema("evaluation-events/1"))
    assert texts((tmp_path / "b.svg").read_text(encoding="utf-8"))[1] == "accuracy of a"
    assert run([*asked, "--benchmark", "a/b:c"]) == 2
    assert run([*asked, "--eval-results", "r.yaml", "--benchmark", "ab"]) == 2
    # Our own events are no grades; that the evidence contradicts itself (1) stops no file.
    assert run(["report", ".", "--badge", "p.svg", "--events", "p.jsonl", "--json"]) == 1
    capsys.readouterr()
    assert "nothing is promised" in (tmp_path / "p.svg").read_text(encoding="utf-8")
    jsonschema.validate(
        json.loads((tmp_path / "p.jsonl").read_text()), load_schema("evaluation-events/1")
    )
