"""The report as a whole: what is done with each folder, and that every figure can be made again."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from referencing import Registry, Resource

from noracle.cli import run
from noracle.errors import EvidenceError
from noracle.oversight import FolderSettings, Inventory, Oversight, Source, find_evidence, oversee
from noracle.oversight.load import find_pattern
from noracle.oversight.page import fired_alarm, lead
from noracle.oversight.questions import ANALYSES, page_figures
from noracle.results import Certificate, Comparison, Estimate, Kind, Plan, Proof
from noracle.schemas import load_schema, schema_names
from noracle.simulate import simulate_world
from tests.unit.oversight.folders import FOLDERS, SOUND, Expect, write

REGISTRY: Registry[Any] = Registry().with_resources(
    (load_schema(n)["$id"], Resource.from_contents(load_schema(n))) for n in schema_names()
)
Reported = Callable[[str], tuple[Oversight, Expect]]
VALIDATOR = jsonschema.Draft202012Validator(load_schema("oversight/1"), registry=REGISTRY)


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def reported(tmp_path_factory: pytest.TempPathFactory) -> Reported:
    """The report of a folder, made once; the current folder is the one that holds it."""
    base = tmp_path_factory.mktemp("folders")
    made: dict[str, tuple[Oversight, Expect]] = {}

    def report(name: str) -> tuple[Oversight, Expect]:
        os.chdir(base)
        if name not in made:
            expected = FOLDERS[name](Path(name))
            made[name] = oversee(name), expected
        return made[name]

    return report


def status(report: Oversight) -> dict[str, str]:
    return {step.name: step.status for step in report.steps}


@pytest.mark.thin(5)
@pytest.mark.parametrize("name", SOUND)
def test_every_folder_is_reported_on_honestly(name: str, reported: Reported) -> None:
    report, expected = reported(name)
    said = status(report)
    assert list(said) == [a.name for a in ANALYSES if a.name not in ("preference", "drift")]
    assert {n for n in expected.done if said[n] != "done"} == set()
    assert {n for n in expected.not_possible if said[n] != "not possible"} == set()
    assert "failed" not in said.values()
    assert {line.system for line in report.systems} == set(expected.systems)
    for step in report.steps:
        assert bool(step.results) == bool(step.command) == (step.status == "done")
        assert step.status == "done" or step.reason.endswith(".")
    for line in report.systems:
        assert line.statement
        assert line.next_step
        assert line.low <= line.high or math.isnan(line.low)
    wrong = {
        (f.between, f.subject) for f in report.contradictions if f.between == expected.contradiction
    }
    assert wrong == {
        (expected.contradiction, system) for system in expected.systems if expected.contradiction
    }
    data = json.loads(report.to_json())
    VALIDATOR.validate(data)
    assert Oversight.from_dict(data).to_dict() == data
    assert report.title in str(report)


@pytest.mark.parametrize("name", [n for n in FOLDERS if n not in SOUND])
def test_malformed_evidence_stops_with_a_clear_error(name: str) -> None:
    expected = FOLDERS[name](Path(name))
    with pytest.raises(EvidenceError) as raised:
        oversee(name)
    assert expected.error in str(raised.value)


def _numbers(value: Any, path: tuple[Any, ...] = ()) -> dict[tuple[Any, ...], float]:
    """Every number of JSON values by its place; settings of the run are numbers too."""
    if isinstance(value, Mapping):
        return {
            k: v for key, inner in value.items() for k, v in _numbers(inner, (*path, key)).items()
        }
    if isinstance(value, list):
        return {
            k: v for i, inner in enumerate(value) for k, v in _numbers(inner, (*path, i)).items()
        }
    return (
        {path: float(value)}
        if isinstance(value, (int, float)) and not isinstance(value, bool)
        else {}
    )


FIGURED: dict[str, Any] = {"alarm": Proof, "conflict": Proof, "budget": Plan}


def _without_promises(result: Mapping[str, Any]) -> dict[str, Any]:
    """A report also writes failed checks into a promise, which one command alone does not know."""
    return {k: v for k, v in result.items() if k != "guarantee"}


@pytest.mark.full
@pytest.mark.parametrize(
    "name",
    ["complete", "wide_named", "text_classes"]
    + [
        pytest.param(n, marks=pytest.mark.slow)
        for n in ("counts_only", "hive", "votes_only", "odd_names", "inspect_log")
    ],
)
def test_every_command_makes_its_figures_again(
    name: str, reported: Reported, capfd: pytest.CaptureFixture[str]
) -> None:
    report, _ = reported(name)
    for step in report.steps:
        if step.status != "done":
            continue
        made: list[Any] = []
        for line in step.command.splitlines():
            capfd.readouterr()
            code = run([*shlex.split(line)[1:], "--json"])
            out = capfd.readouterr().out
            assert code in (0, 1, 3), (line, code)
            value = json.loads(out)
            made += value["results"] if value["schema"] == "results/1" else [value]
        ours = [_without_promises(json.loads(r.to_json())) for r in step.results]
        assert len(made) == len(ours), step.name
        for mine, theirs in zip(ours, made, strict=True):
            if step.name in FIGURED:  # what the page shows beside it follows from the result
                figures = page_figures(FIGURED[step.name].from_dict(theirs))
                theirs["diagnostics"] |= json.loads(json.dumps(figures))
            first, second = _numbers(mine), _numbers(_without_promises(theirs))
            assert first.keys() == second.keys(), (step.name, first.keys() ^ second.keys())
            assert all(
                abs(first[k] - second[k]) <= 1e-12 * max(1.0, abs(first[k])) for k in first
            ), step.name


@pytest.mark.full
def test_next_steps_of_a_folder_run(reported: Reported, capfd: pytest.CaptureFixture[str]) -> None:
    for name in ("complete", "answers_only", "planted_contradiction"):
        report, _ = reported(name)
        assert report.next_steps
        for step in report.next_steps:
            if step.command:
                assert run(shlex.split(step.command)[1:]) in (0, 1, 3), step.command
    assert "internal" not in capfd.readouterr().err


_SAME = """
import json, sys
from noracle.oversight import oversee
print(json.dumps(oversee(sys.argv[1]).to_dict(), sort_keys=False))
"""


@pytest.mark.full
def test_the_same_folder_gives_the_same_report_whatever_the_hash_seed() -> None:
    FOLDERS["complete"](Path("complete"))
    outputs = []
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        ended = subprocess.run(
            [sys.executable, "-c", _SAME, "complete"],
            capture_output=True,
            text=True,
            encoding="utf-8",
            env=environment,
            check=True,
        )
        outputs.append(ended.stdout)
    assert outputs[0] == outputs[1]
    assert str(Path.cwd()) not in outputs[0]


def test_texts_of_items_never_appear() -> None:
    world = simulate_world(n_items=60, n_classes=3, systems={"a": 0.8, "b": 0.7}, seed=3)
    write(Path("folder/answers.csv"), world.answers)
    write(Path("folder/judgements.csv"), world.judgements)
    write(Path("folder/items.csv"), {**world.items, "text": ["CANARY"] * len(world.items["item"])})
    report = oversee("folder")
    assert "CANARY" not in report.to_json()
    assert "CANARY" not in str(report)


@pytest.mark.full
def test_confidence_is_that_of_the_whole_report() -> None:
    FOLDERS["complete"](Path("complete"))
    report = oversee("complete", confidence=0.9)
    assert report.confidence == 0.9
    assert sum(step.error_rate for step in report.steps) == pytest.approx(0.1, abs=1e-9)
    estimates = [r for step in report.steps if step.name == "accuracy" for r in step.results]
    assert all(isinstance(r, Estimate) and r.confidence > 0.98 for r in estimates)
    assert report.guarantee.kind is Kind.FINITE_SAMPLE
    assert (
        report.guarantee.error_rate < 0.1
    )  # agreement and the mean are asymptotic, and not part of this promise
    assert any(note.startswith("agreement: its promise is asymptotic") for note in report.notes)


@pytest.mark.full
def test_an_error_of_one_step_does_not_stop_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    from noracle.oversight import questions as by_logic

    def broken(*_: object, **__: object) -> None:
        raise ValueError("a planted error")

    monkeypatch.setattr(by_logic, "prove_malfunction", broken)
    FOLDERS["complete"](Path("complete"))
    report = oversee("complete")
    assert status(report)["alarm"] == "failed"
    assert "a planted error" in next(s.reason for s in report.steps if s.name == "alarm")
    assert status(report)["accuracy"] == "done"
    assert any("Can all graders" in step.statement for step in report.next_steps)


def test_unstated_training_never_certifies_and_the_next_step_says_so() -> None:
    FOLDERS["ratings_and_answers"](Path("folder"))
    found = find_evidence("folder")
    unstated = dataclasses.replace(found.settings, trained_on_annotators="unknown")
    report = oversee(found, settings=unstated)
    certificates = [
        r
        for s in report.steps
        if s.name == "certificate"
        for r in s.results
        if isinstance(r, Certificate)
    ]
    assert certificates
    assert not any(c.certified for c in certificates)
    assert any("trained on labels of these annotators" in s.statement for s in report.next_steps)


@pytest.mark.full
def test_a_certificate_takes_the_clusters_that_the_items_name() -> None:
    FOLDERS["ratings_and_answers"](Path("folder"))
    plain = [
        r
        for s in oversee("folder").steps
        if s.name == "certificate"
        for r in s.results
        if isinstance(r, Certificate)
    ]
    rated = sorted(
        {
            line.split(",")[0]
            for line in Path("folder/ratings.csv").read_text(encoding="utf-8").splitlines()[1:]
        },
        key=int,
    )
    write(
        Path("folder/items.csv"),
        {"item": [int(i) for i in rated], "cluster": [f"passage {int(i) // 10}" for i in rated]},
    )
    report = oversee("folder")
    steps = [s for s in report.steps if s.name == "certificate"]
    clustered = [r for s in steps for r in s.results if isinstance(r, Certificate)]
    assert "--items" in steps[0].command
    for one, other in zip(plain, clustered, strict=True):
        assert any("clusters: the cluster is the unit" in note for note in other.notes)
        assert not any("clusters" in note for note in one.notes)
        assert other.value == pytest.approx(one.value)


def test_answers_and_judgements_of_different_items_say_what_is_missing() -> None:
    world = simulate_world(n_items=40, n_classes=3, systems={"a": 0.8}, n_ordinary=40, seed=1)
    write(Path("folder/answers.csv"), world.answers)
    judgements = {**world.judgements, "item": [i + 1000 for i in world.judgements["item"]]}
    write(Path("folder/judgements.csv"), judgements)
    with pytest.raises(
        EvidenceError,
        match=r"none in common: 0, 1, 2, … in answers and 1\d+, 1\d+, 1\d+, … in judgements",
    ):
        oversee("folder", settings=FolderSettings(n_classes=3))


@pytest.mark.full
def test_many_systems_are_not_compared_pair_by_pair() -> None:
    world = simulate_world(
        n_items=30,
        n_classes=3,
        systems={f"s{i:02d}": 0.7 for i in range(51)},
        n_ordinary=30,
        seed=2,
    )
    write(Path("folder/answers.csv"), world.answers)
    write(Path("folder/judgements.csv"), world.judgements)
    report = oversee("folder", settings=FolderSettings(n_classes=3, time_limit=5.0))
    assert status(report)["accuracy"] == "done"
    assert status(report)["comparison"] == "not possible"
    assert len(report.systems) == 51


def test_raters_of_a_wide_table_are_graders_where_there_is_no_system() -> None:
    n = 40
    write(
        Path("people.csv"),
        {"q": list(range(n)), "ann": [0] * n, "bob": [1] * n, "cy": [i % 2 for i in range(n)]},
    )
    source = Source(
        kind="ratings",
        paths=("people.csv",),
        why="named",
        form="wide",
        options={"item": "q", "raters": ("ann", "bob", "cy")},
    )
    report = oversee(
        Inventory(
            place=".",
            sources=(source,),
            settings=FolderSettings(n_classes=2, claim="accuracy > 1/2"),
        )
    )
    assert status(report)["alarm"] == "done"
    assert status(report)["conflict"] == "done"
    assert any("ann, bob" in s.statement for s in report.next_steps)


@pytest.mark.parametrize("claim", ["", " \n "])
def test_without_a_stated_claim_the_ranges_are_shown_and_no_alarm(claim: str) -> None:
    """The answers would refute 'accuracy > 1/2', the weakest claim of all; but nobody made it."""
    n = 40
    rows = [
        (i, name, answer)
        for i in range(n)
        for name, answer in (("ann", 0), ("bob", 1), ("cy", i % 2))
    ]
    write(
        Path("folder/answers.csv"),
        dict(zip(("item", "system", "answer"), map(list, zip(*rows, strict=True)), strict=True)),
    )
    settings = FolderSettings(n_classes=2, claim=claim)
    report = oversee("folder", settings=settings)
    assert status(report)["ranges"] == "done"
    for name in ("alarm", "conflict"):
        step = report.step(name)
        assert step is not None
        assert (step.status, step.results, step.command) == ("not possible", (), "")
        assert step.reason.startswith("Nobody stated a claim")
        assert 'claim = "accuracy > 1/2"' in step.reason
        assert 'noracle report --claim "accuracy > 1/2"' in step.reason
    assert fired_alarm(report.steps) is None
    advice = " ".join(f"{s.statement} {s.reason}" for s in report.next_steps)
    assert not any(word in advice for word in ("broken", "grader", "claim"))
    assert not any("alarm" in f.between for f in report.findings)

    stated = oversee("folder", settings=dataclasses.replace(settings, claim="accuracy  >  1/2"))
    assert (status(stated)["alarm"], status(stated)["conflict"]) == ("done", "done")
    proof = fired_alarm(stated.steps)
    assert proof is not None
    assert proof.claim == "accuracy > 1/2"
    assert stated.next_steps[0].statement.startswith("Find the broken grader among ")
    assert report.step("ranges") == stated.step("ranges")


@pytest.mark.full
def test_only_the_stated_claim_is_tested_and_no_stronger_one() -> None:
    FOLDERS["complete"](Path("complete"))
    (step,) = [s for s in oversee("complete").steps if s.name == "alarm"]
    assert [getattr(r, "claim", "") for r in step.results] == ["accuracy > 1/2"]


def test_one_grader_with_a_claim_is_told_to_add_another_and_without_one_is_not() -> None:
    write(Path("folder/answers.csv"), {"item": [1, 2, 3], "system": ["a"] * 3, "answer": [0, 1, 0]})
    alone = oversee("folder", settings=FolderSettings(n_classes=2, claim="accuracy > 1/2"))
    assert "Add a second grader" in {s.statement for s in alone.next_steps}
    unclaimed = oversee("folder", settings=FolderSettings(n_classes=2))
    assert "Add a second grader" not in {s.statement for s in unclaimed.next_steps}
    step = unclaimed.step("alarm")
    assert step is not None
    assert step.reason.startswith("Nobody stated a claim")


def test_files_of_one_table_become_one_pattern_that_names_no_other_file() -> None:
    for name in (
        "part-0.csv",
        "part-1.csv",
        "other.csv",
        "answers-gpt.csv",
        "claude.answers.csv",
        "answers.md",
    ):
        Path(name).write_text("x\n", encoding="utf-8")
    assert find_pattern(["part-0.csv", "part-1.csv"]) == "part-*.csv"
    assert find_pattern(["answers-gpt.csv", "claude.answers.csv"]) == "*answers*.csv"
    assert find_pattern(["other.csv", "part-0.csv"]) is None


def test_files_that_no_pattern_names_are_read_and_the_command_is_the_whole_report() -> None:
    world = simulate_world(
        n_items=60, n_classes=3, systems={"a": 0.9, "b": 0.6}, n_ordinary=60, seed=4
    )
    rows = list(zip(*world.answers.values(), strict=True))
    for system, name in (("a", "one.csv"), ("b", "other.csv")):
        chosen = [row for row in rows if row[list(world.answers).index("system")] == system]
        write(
            Path("folder") / name,
            dict(zip(world.answers, map(list, zip(*chosen, strict=True)), strict=True)),
        )
    write(Path("folder/only-judgements.csv"), world.judgements)
    report = oversee("folder", settings=FolderSettings(n_classes=3))
    assert {line.system for line in report.systems} == {"a", "b"}
    assert next(s.command for s in report.steps if s.name == "accuracy") == "noracle report folder"


def test_an_inventory_without_evidence_is_refused() -> None:
    with pytest.raises(EvidenceError, match="must hold evidence"):
        oversee(Inventory(place="nowhere", sources=()))


def test_stored_counts_beside_tables_are_not_held_against_what_tables_alone_prove() -> None:
    """Counts of other items are added to the accuracy; the possible range is about the items of the
    tables only.
    """
    from noracle.counts import AccuracyCounts

    world = simulate_world(n_items=100, n_classes=3, systems={"a": 0.95}, n_ordinary=100, seed=6)
    write(Path("answers.csv"), world.answers)
    write(Path("judgements.csv"), world.judgements)
    other = AccuracyCounts.from_counts(n_classes=3, system="a", ordinary=(5000, 500))
    Path("other.json").write_text(json.dumps(other.to_dict()), encoding="utf-8")
    kinds: Any = {"answers": "answers.csv", "judgements": "judgements.csv", "counts": "other.json"}
    sources = tuple(
        Source(kind=kind, paths=(path,), why="named", form="json" if kind == "counts" else "long")
        for kind, path in kinds.items()
    )
    report = oversee(Inventory(place=".", sources=sources, settings=FolderSettings(n_classes=3)))
    assert report.systems[0].high < 0.2
    assert "ranges" not in {name for f in report.findings for name in f.between}


def test_preferences_are_ranked_and_more_are_asked_for(tmp_path: Path) -> None:
    def folder(name: str, wins: int) -> Path:
        rows = ["item,first,second,winner,rater"]
        for i in range(120):
            first, second = ("x", "y") if i % 2 else ("y", "x")
            rows.append(
                f"{i},{first},{second},{'x' if i < wins else 'y'},{'ann' if i % 3 else 'bo'}"
            )
        (tmp_path / name).mkdir()
        (tmp_path / name / "who.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
        return tmp_path / name

    clear, close = oversee(folder("clear", 95)), oversee(folder("close", 64))
    (source,) = clear.inventory.sources
    assert (source.kind, source.why) == ("preferences", "columns first, second, winner")
    of = {step.name: step for step in clear.steps}
    (ranking,) = of["preference"].results
    assert isinstance(ranking, Comparison)
    assert ranking.leaders == ("x",)
    assert of["preference"].command.startswith("noracle rank ")
    assert lead(clear) == "x is preferred to all others of 2 systems."
    assert not clear.next_steps
    assert "x is ahead" in lead(close)
    (following,) = close.next_steps
    assert following.statement == "Compare more answers of x, y"
    assert "--next 100" in following.command
    VALIDATOR.validate(clear.to_dict())


def test_reports_without_preferences_do_not_ask_for_them(tmp_path: Path) -> None:
    (tmp_path / "grades.csv").write_text("item,system,verdict\n1,a,1\n2,a,0\n", encoding="utf-8")
    assert "preference" not in {step.name for step in oversee(tmp_path).steps}
