"""The verbs that prove something from answers alone: what they print, their JSON, and their exit
codes.
"""

from __future__ import annotations

import csv
import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import referencing
import typer
from typer.testing import CliRunner

from noracle.cli import alarm, conflict, ranges, verify
from noracle.cli._sketch import prevalences
from noracle.errors import ArgumentError, EvidenceError, NoracleError
from noracle.evidence.labels import read_known
from noracle.results import read_result
from noracle.schemas import load_schema, schema_names
from tests.unit.logic.seed_table import BY_TRUTH, GRADERS

Ended = tuple[int, str]
Run = Callable[..., Ended]


@pytest.fixture(scope="module")
def run() -> Run:
    """The verbs in an application of their own."""
    app = typer.Typer()
    for name, verb in (
        ("alarm", alarm),
        ("ranges", ranges),
        ("conflict", conflict),
        ("verify", verify),
    ):
        app.command(name, epilog=verb.EXAMPLE)(verb.command)

    def command(*arguments: object) -> Ended:
        ended = CliRunner().invoke(app, [str(a) for a in arguments])
        if isinstance(ended.exception, NoracleError):
            raise ended.exception
        assert ended.exception is None or isinstance(ended.exception, SystemExit), ended.exception
        return ended.exit_code, ended.stdout

    return command


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Table 2 as a table of answers, with 40 known labels and a prevalence in words."""
    folder = tmp_path_factory.mktemp("graders")
    numbers = itertools.count()
    answers, known = [], []
    for pattern, by_truth in BY_TRUTH.items():
        for truth, n in zip("AB", by_truth, strict=True):
            for _ in range(n):
                item = next(numbers)
                answers += [
                    (item, grader, said) for grader, said in zip(GRADERS, pattern, strict=True)
                ]
                known.append((item, truth))
    write(folder / "answers.csv", ("item", "system", "answer"), answers)
    write(folder / "known.csv", ("item", "label"), known[::4])
    write(
        folder / "pair.csv",
        ("item", "system", "answer"),
        [row for row in answers if row[1] != "GPT4"],
    )
    return folder


def write(path: Path, header: tuple[str, ...], rows: list[tuple[object, ...]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(rows)


def assert_valid(value: dict[str, Any]) -> None:
    resources = [
        (load_schema(n)["$id"], referencing.Resource.from_contents(load_schema(n)))
        for n in schema_names()
    ]
    registry: referencing.Registry[Any] = referencing.Registry().with_resources(resources)
    jsonschema.Draft202012Validator(load_schema(value["schema"]), registry=registry).validate(value)


CLASSES = ["--classes", "A,B"]


def test_alarm_fires_with_exit_code_1_and_its_proof_verifies(run: Run, folder: Path) -> None:
    code, out = run(
        "alarm", "--answers", folder / "answers.csv", "--spec", "accuracy > 1/2", *CLASSES
    )
    assert code == 1
    assert out.startswith("ALARM: accuracy > 1/2")
    code, out = run(
        "alarm", "--answers", folder / "answers.csv", "--spec", "accuracy > 1/2", *CLASSES, "--json"
    )
    assert code == 1
    assert_valid(json.loads(out))
    saved = folder / "proof.json"
    saved.write_text(out, encoding="utf-8")
    assert run("verify", saved) == (0, "result 1: alarm: accuracy > 1/2    verified\n")


def test_consistent_is_exit_code_0_and_does_not_say_healthy(run: Run, folder: Path) -> None:
    code, out = run("alarm", "--answers", folder / "pair.csv", "--spec", "accuracy > 1/2", *CLASSES)
    assert code == 0
    assert "says nothing about how good they are" in out.splitlines()[0]


def test_undecided_is_exit_code_3(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import dataclasses

    proof = read_result(
        json.loads(
            run(
                "alarm",
                "--answers",
                folder / "pair.csv",
                "--spec",
                "accuracy > 1/2",
                *CLASSES,
                "--json",
            )[1]
        )
    )
    undecided = dataclasses.replace(proof, status="undecided", witness={}, reason="time")  # type: ignore[type-var]
    monkeypatch.setattr(alarm, "prove_malfunction", lambda *_, **__: undecided)
    code, out = run(
        "alarm", "--answers", folder / "pair.csv", "--spec", "accuracy > 1/2", *CLASSES, "--json"
    )
    assert code == 3
    assert_valid(json.loads(out))


def test_prevalence_and_known_labels_sharpen_the_alarm(run: Run, folder: Path) -> None:
    pair = ["alarm", "--answers", folder / "pair.csv", "--spec", "accuracy > 1/2", *CLASSES]
    assert run(*pair, "--prevalence", "A=12..53")[0] == 0
    assert run(*pair, "--prevalence", "A=54..281")[0] == 1
    assert run(*pair, "--known", folder / "known.csv")[0] == 1


def test_overall_reads_accuracy_as_the_grade(run: Run, folder: Path) -> None:
    pair = ["alarm", "--answers", folder / "pair.csv", *CLASSES, "--spec"]
    assert run(*pair, "accuracy > 0.6")[0] == 1
    assert run(*pair, "accuracy > 0.6", "--per-label")[0] == 1
    code, out = run(*pair, "accuracy > 0.6", "--overall")
    assert (code, "grade > 3/5" in out) == (0, True)
    with pytest.raises(ArgumentError, match="--overall must come without"):
        run(*pair, "accuracy on A > 0.6", "--overall")


@pytest.mark.full
def test_trace_and_threshold_come_with_the_alarm(run: Run, folder: Path) -> None:
    pair = [
        "alarm",
        "--answers",
        folder / "pair.csv",
        "--spec",
        "accuracy > 1/2",
        *CLASSES,
        "--trace",
        "A",
        "--threshold",
    ]
    code, out = run(*pair)
    assert code == 0
    assert "12 to 53 of 281 items" in out
    assert "0.523" in out
    values = json.loads(run(*pair, "--json")[1])
    for value in values["results"]:
        assert_valid(value)
    assert [r["schema"] for r in values["results"]] == ["proof/1", "ranges/1", "ranges/1"]


def test_saved_sketches_add_to_the_same_verdict(run: Run, folder: Path) -> None:
    rows = list(csv.DictReader((folder / "answers.csv").read_text(encoding="utf-8").splitlines()))
    for day in (0, 1):
        mine = [(r["item"], r["system"], r["answer"]) for r in rows if int(r["item"]) % 2 == day]
        write(folder / f"day{day}.csv", ("item", "system", "answer"), mine)
        run(
            "alarm",
            "--answers",
            folder / f"day{day}.csv",
            "--spec",
            "accuracy > 1/2",
            *CLASSES,
            "--save-sketch",
            folder / f"day{day}.json",
        )
    both = [
        "alarm",
        "--spec",
        "accuracy > 1/2",
        "--sketch",
        folder / "day0.json",
        "--sketch",
        folder / "day1.json",
        "--json",
    ]
    code, out = run(*both)
    whole = run(
        "alarm", "--answers", folder / "answers.csv", "--spec", "accuracy > 1/2", *CLASSES, "--json"
    )[1]
    assert (code, json.loads(out)["sketch"]) == (1, json.loads(whole)["sketch"])


def test_ranges_of_table_2(run: Run, folder: Path) -> None:
    given = ["--given", "accuracy of Claude > 1/2; accuracy of GPT4 > 1/2"]
    code, out = run(
        "ranges",
        "--answers",
        folder / "answers.csv",
        *CLASSES,
        *given,
        "--only",
        "accuracy of Mistral on A",
        "--json",
    )
    assert code == 0
    assert_valid(json.loads(out))
    assert json.loads(out)["ranges"][0]["high"] == pytest.approx(0.142, abs=5e-4)
    contradiction = ["--given", "accuracy of Mistral > 1/2; accuracy of GPT4 > 1/2"]
    code, out = run("ranges", "--answers", folder / "answers.csv", *CLASSES, *contradiction)
    assert (code, "no answer key satisfies" in out) == (1, True)


def test_outer_bounds_for_want_of_time_are_exit_code_3(run: Run, folder: Path) -> None:
    given = ["--given", "accuracy of Claude > 1/2; accuracy of GPT4 > 1/2"]
    assert (
        run(
            "ranges",
            "--answers",
            folder / "answers.csv",
            *CLASSES,
            *given,
            "--time-limit",
            "0.000001",
        )[0]
        == 3
    )


def test_conflict_names_the_pair(run: Run, folder: Path) -> None:
    code, out = run(
        "conflict",
        "--answers",
        folder / "answers.csv",
        "--spec",
        "accuracy > 1/2",
        *CLASSES,
        "--least",
        "--check-next",
    )
    assert code == 1
    assert "conflict    GPT4, Mistral" in out
    assert "at least 1 of 3 classifiers" in out
    assert "already" in out
    assert (
        run("conflict", "--answers", folder / "pair.csv", "--spec", "accuracy > 1/2", *CLASSES)[0]
        == 0
    )


def test_html_page_is_written(run: Run, folder: Path) -> None:
    page = folder / "page.html"
    run(
        "conflict",
        "--answers",
        folder / "answers.csv",
        "--spec",
        "accuracy > 1/2",
        *CLASSES,
        "--least",
        "--html",
        page,
    )
    text = page.read_text(encoding="utf-8")
    assert "ALARM: accuracy &gt; 1/2" in text
    assert "<svg" in text


@pytest.mark.parametrize("verb", [alarm, ranges, conflict, verify])
def test_help_shows_an_example_with_exit_codes(run: Run, verb: Any) -> None:
    name = verb.__name__.rpartition(".")[2]
    code, out = run(name, "--help")
    assert code == 0
    assert "Exit code" in out
    assert "Example:" in verb.EXAMPLE


# ------------------------------------------------------------------------------------------------------
# verify


def test_tampered_proof_is_exit_code_1(run: Run, folder: Path) -> None:
    values = json.loads(
        run(
            "alarm",
            "--answers",
            folder / "answers.csv",
            "--spec",
            "accuracy > 1/2",
            *CLASSES,
            "--json",
        )[1]
    )
    values["sketch"]["n"][0] += 500
    (folder / "tampered.json").write_text(json.dumps(values), encoding="utf-8")
    code, out = run("verify", folder / "tampered.json")
    assert (code, "NOT verified" in out) == (1, True)


def test_several_results_are_all_checked(run: Run, folder: Path) -> None:
    from noracle import plan_labels

    plan = plan_labels(half_width=0.05, n_classes=5, accuracy=0.8).to_dict()
    proof = json.loads(
        run(
            "alarm",
            "--answers",
            folder / "pair.csv",
            "--spec",
            "accuracy > 1/2",
            *CLASSES,
            "--json",
        )[1]
    )
    saved = folder / "both.json"
    saved.write_text(
        json.dumps({"schema": "results/1", "results": [plan, proof]}), encoding="utf-8"
    )
    code, out = run("verify", saved, "--json")
    assert code == 0
    assert [row["verified"] for row in json.loads(out)["results"]] == [True, True]
    proof["witness"] = {
        "label": [0] * len(proof["sketch"]["n"]),
        "others": [],
    }  # Mistral would be right on 27 of 281
    saved.write_text(
        json.dumps({"schema": "results/1", "results": [plan, proof]}), encoding="utf-8"
    )
    code, out = run("verify", saved, "--json")
    assert code == 1
    assert [row["verified"] for row in json.loads(out)["results"]] == [True, False]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "must hold a JSON object"),
        ("{", "must be a JSON file"),
        ('{"schema": "ranges/1"}', "must be of a kind that can be verified"),
        ('{"schema": "results/1", "results": []}', "must hold results"),
        ('{"schema": "proof/9"}', "schema must be one of"),
        ('{"schema": "proof/1"}', "must have the shape of schema proof/1"),
    ],
)
def test_files_that_are_no_such_results_are_refused(
    run: Run, tmp_path: Path, text: str, message: str
) -> None:
    path = tmp_path / "result.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(EvidenceError, match=message):
        run("verify", path)


# ------------------------------------------------------------------------------------------------------
# bad input


@pytest.mark.parametrize("value", ["A", "=3", "A=x", "A=3..x", "A=-1..4"])
def test_prevalence_that_is_no_range_is_refused(value: str) -> None:
    with pytest.raises(ArgumentError, match="--prevalence must be"):
        prevalences([value])


def test_prevalence_takes_one_number_and_names_with_equals_signs() -> None:
    assert prevalences(["a=b=3..5", "c=7"]) == {"a=b": (3, 5), "c": (7, 7)}


def test_known_labels_must_be_one_an_item(tmp_path: Path) -> None:
    write(tmp_path / "twice.csv", ("item", "label"), [(1, "a"), (1, "b")])
    with pytest.raises(EvidenceError, match="one label for each item"):
        read_known(str(tmp_path / "twice.csv"))
    write(tmp_path / "other.csv", ("item", "truth"), [(1, "a")])
    with pytest.raises(EvidenceError, match="columns item, label"):
        read_known(str(tmp_path / "other.csv"))


def test_known_labels_need_items(run: Run, folder: Path) -> None:
    stored = folder / "stored.json"
    run(
        "alarm",
        "--answers",
        folder / "pair.csv",
        "--spec",
        "accuracy > 1/2",
        *CLASSES,
        "--save-sketch",
        stored,
    )
    with pytest.raises(ArgumentError, match="--known must go with"):
        run(
            "alarm", "--sketch", stored, "--spec", "accuracy > 1/2", "--known", folder / "known.csv"
        )
    (folder / "broken.json").write_text('{"schema": "sketch/1"}', encoding="utf-8")
    with pytest.raises(EvidenceError, match="shape of schema sketch/1"):
        run("alarm", "--sketch", folder / "broken.json", "--spec", "accuracy > 1/2")
