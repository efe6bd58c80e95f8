"""Files that an earlier version wrote are read for ever.

A stored file is never edited: a change that breaks one needs a new version of the schema, beside
the old one.
"""

from __future__ import annotations

import copy
import json
import math
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from referencing import Registry, Resource

from noracle.counts.tally import AccuracyCounts
from noracle.errors import ArgumentError
from noracle.gate import GateLedger
from noracle.oversight.oversight import Oversight
from noracle.report.records import as_yaml, evaluation_events
from noracle.results import RESULT_TYPES, read_result
from noracle.schemas import load_schema, schema_names
from noracle.search.archive import Found
from noracle.search.workflow import parse_workflow
from tests.unit.report.samples import SAMPLES, UNDEFINED

FOREIGN = {
    "eval-results/1": "eval-results-1.yaml",
    "evaluation-events/1": "evaluation-events-1.jsonl",
}
"""Files in the form of others, which has no field ``schema``."""
STORED = sorted(Path(__file__).parent.glob("*.json"))
REGISTRY: Registry[Any] = Registry().with_resources(
    (load_schema(n)["$id"], Resource.from_contents(load_schema(n))) for n in schema_names()
)


def validator(name: str) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(load_schema(name), registry=REGISTRY)


def read(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text(encoding="utf-8")))


def stored(name: str) -> dict[str, Any]:
    return read(Path(__file__).parent / f"{name}.json")


def test_every_version_has_a_schema_and_a_stored_file() -> None:
    assert set(schema_names()) == {
        *RESULT_TYPES,
        "results/1",
        "counts/1",
        "search/1",
        "workflow/1",
        "oversight/1",
        "collection-check/2",
        "gate/1",
        "gate-ledger/1",
        *FOREIGN,
    }
    assert {*FOREIGN, *(read(path)["schema"] for path in STORED)} == set(schema_names())


@pytest.mark.parametrize(("name", "file"), FOREIGN.items())
def test_stored_file_in_the_form_of_others_is_valid_and_written_again_unchanged(
    name: str, file: str
) -> None:
    text = (Path(__file__).parent / file).read_text(encoding="utf-8")
    value = yaml.safe_load(text) if file.endswith(".yaml") else json.loads(text)
    validator(name).validate(value)
    if name == "eval-results/1":
        assert as_yaml(value) == text
        return
    written = evaluation_events([read_result(stored("estimate-1")), UNDEFINED], at=0)  # type: ignore[list-item]
    scope = value["resourceLogs"][0]["scopeLogs"][0]["scope"]
    written["resourceLogs"][0]["scopeLogs"][0]["scope"]["version"] = scope["version"]
    assert written == value


@pytest.mark.parametrize(
    ("name", "path", "wrong"),
    [
        ("eval-results/1", (0, "value"), math.nan),
        ("eval-results/1", (0, "value"), "0.8"),
        ("eval-results/1", (0, "notes"), ""),
        ("eval-results/1", (0, "dataset", "id"), "MMLU-Pro"),
        ("eval-results/1", (0, "source", "url"), ""),
        ("evaluation-events/1", ("eventName",), "gen_ai.evaluation"),
        ("evaluation-events/1", ("attributes",), []),
        ("evaluation-events/1", ("attributes", 1, "value"), {"doubleValue": math.nan}),
        ("evaluation-events/1", ("attributes", 1, "value"), {"stringValue": "0.8"}),
        ("evaluation-events/1", ("timeUnixNano",), 0),
    ],
)
def test_schema_of_a_foreign_form_refuses(name: str, path: tuple[Any, ...], wrong: object) -> None:
    text = (Path(__file__).parent / FOREIGN[name]).read_text(encoding="utf-8")
    value = yaml.safe_load(text)
    place: Any = value
    if name == "evaluation-events/1":
        place = value["resourceLogs"][0]["scopeLogs"][0]["logRecords"][0]
    for step in path[:-1]:
        place = place[step]
    assert place[path[-1]] != wrong
    place[path[-1]] = wrong
    with pytest.raises(jsonschema.ValidationError):
        validator(name).validate(value)


@pytest.mark.parametrize("name", schema_names())
def test_schema_is_itself_valid(name: str) -> None:
    jsonschema.Draft202012Validator.check_schema(load_schema(name))


@pytest.mark.parametrize("path", STORED, ids=lambda p: p.stem)
def test_stored_file_is_valid(path: Path) -> None:
    validator(read(path)["schema"]).validate(read(path))


@pytest.mark.parametrize("path", STORED, ids=lambda p: p.stem)
def test_stored_file_is_read_and_written_back_unchanged(path: Path) -> None:
    data = read(path)
    if data["schema"] in ("collection-check/2", "gate/1"):
        pytest.skip("it is written, and nothing reads it")
    if data["schema"] == "gate-ledger/1":
        assert GateLedger.read(path.with_suffix(".jsonl")).faults == []
        return
    if data["schema"] == "counts/1":
        assert AccuracyCounts.from_dict(data).to_dict() == data
    elif data["schema"] == "workflow/1":
        assert parse_workflow(data).to_dict() == data
    elif data["schema"] == "search/1":
        assert Found.from_dict(data).to_dict() == data
    elif data["schema"] == "oversight/1":
        assert Oversight.from_dict(data).to_dict() == data
    elif data["schema"] == "results/1":
        assert [read_result(r).to_dict() for r in data["results"]] == data["results"]
    else:
        assert read_result(data).to_dict() == data


@pytest.mark.parametrize("name", SAMPLES)
def test_results_of_today_are_valid(name: str) -> None:
    data = json.loads(SAMPLES[name].to_json())
    validator(data["schema"]).validate(data)


@pytest.mark.parametrize(
    ("name", "path", "value"),
    [
        ("estimate-1", ("value",), math.nan),
        ("estimate-1", ("low",), math.inf),
        ("estimate-1", ("value",), "0.8"),
        ("estimate-1", ("confidence",), 95),
        ("estimate-1", ("side",), "both"),
        ("estimate-1", ("guarantee", "kind"), "certain"),
        ("estimate-1", ("guarantee", "assumptions", 0, "status"), "true"),
        ("estimate-1", ("counts", "items"), math.nan),
        ("estimate-1-undefined", ("reason",), ""),
        ("comparison-1", ("differences", 0, "low"), math.nan),
        ("comparison-1", ("ranks", 0, "best"), 0),
        ("plan-1", ("buy", "ordinary"), -1),
        ("plan-1", ("alternatives", 0, "cost"), math.nan),
        ("check-1", ("p_value",), 1.5),
        ("check-1", ("finding",), ""),
        ("analysis-1", ("noise", "value"), math.nan),
        ("analysis-1", ("noise", "schema"), "check/1"),
        ("analysis-1", ("shares", 0, "high"), 1.5),
        ("analysis-1", ("transitions", 0, "matrix", 0, 0), -0.1),
        ("analysis-1", ("transitions", 0, "reason"), ""),
        ("analysis-1", ("annotators", 0, "n_labels"), -1),
        ("ranges-1", ("ranges", 0, "high"), math.nan),
        ("routing-1", ("rows", 0, 2), 0),
        ("routing-1", ("rows", 0), ["q1", "A"]),
        ("results-1", ("results", 0, "value"), math.nan),
        ("results-1", ("results", 0, "schema"), "estimate/9"),
        ("oversight-1", ("confidence",), 1),
        ("oversight-1", ("systems", 0, "low"), math.nan),
        ("oversight-1", ("systems", 0, "statement"), ""),
        ("oversight-1", ("steps", 0, "status"), "perhaps"),
        ("oversight-1", ("steps", 0, "results"), []),
        ("oversight-1", ("steps", 0, "results", 0, "value"), math.nan),
        ("oversight-1", ("steps", 0, "error_rate"), -0.1),
        ("oversight-1", ("findings", 0, "agrees"), "yes"),
        ("oversight-1", ("inventory", "sources", 0, "kind"), "letters"),
        ("oversight-1", ("inventory", "settings", "half_width"), 2),
        ("oversight-1", ("guarantee", "kind"), "certain"),
        ("oversight-1", ("next_steps", 0, "reason"), ""),
        ("counts-1", ("tallies", 0, "n"), -1),
        ("counts-1", ("tallies", 0, "verdict"), "maybe"),
        ("counts-1", ("tallies", 0, "weight"), math.nan),
    ],
)
def test_schema_refuses(name: str, path: tuple[Any, ...], value: object) -> None:
    data = copy.deepcopy(stored(name))
    place: Any = data
    for step in path[:-1]:
        place = place[step]
    assert place[path[-1]] != value
    place[path[-1]] = value
    with pytest.raises(jsonschema.ValidationError):
        validator(data["schema"]).validate(data)


@pytest.mark.parametrize(
    "name", ["estimate-1", "comparison-1", "plan-1", "ranges-1", "analysis-1", "oversight-1"]
)
def test_schema_refuses_a_missing_guarantee(name: str) -> None:
    data = stored(name)
    del data["guarantee"]
    with pytest.raises(jsonschema.ValidationError, match="guarantee"):
        validator(data["schema"]).validate(data)


def test_unknown_schema_is_named() -> None:
    with pytest.raises(ArgumentError, match="got 'estimate/9'"):
        load_schema("estimate/9")
