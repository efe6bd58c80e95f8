"""``noracle certify`` on files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from noracle.cli import certify
from noracle.errors import ArgumentError, EvidenceError
from noracle.results import Certificate
from tests.unit.cli.conftest import Run

app = typer.Typer(pretty_exceptions_enable=False)
app.command("certify", epilog=certify.EXAMPLE)(certify.command)


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """Half of 400 items have a dissenting rater; 'good' is right but for two items, 'poor' is right
    on half of them.
    """
    ratings, answers, known = ["item,rater,label"], ["item,system,answer"], ["item,label"]
    for item in range(400):
        votes = ("a", "a", "b") if item % 2 else ("a", "a", "a")
        if item % 20 == 0:
            votes = ("b", "b", "a")  # the vote is wrong: the truth is a
        ratings += [
            f"{item},{rater},{label}"
            for rater, label in zip(("ann", "bob", "cy"), votes, strict=True)
        ]
        answers += [
            f"{item},good,{'b' if item in (3, 5) else 'a'}",
            f"{item},poor,{'a' if item % 4 else 'b'}",
        ]
        known.append(f"{item},a")
    for name, lines in (("ratings", ratings), ("answers", answers), ("known", known)):
        (tmp_path / f"{name}.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return [
        "--ratings",
        str(tmp_path / "ratings.csv"),
        "--answers",
        str(tmp_path / "answers.csv"),
        "--labels",
        "a,b",
    ]


def ran(*arguments: str) -> Any:
    return CliRunner().invoke(app, list(arguments), catch_exceptions=False)


def test_certified_is_exit_code_0(files: list[str]) -> None:
    result = ran(*files, "--system", "good", "--trained-on-annotators", "no")
    assert result.exit_code == 0
    assert "CERTIFIED" in result.output
    assert "rests on" in result.output


def test_not_stated_is_exit_code_1_with_everything_else_shown(files: list[str]) -> None:
    result = ran(*files, "--system", "good", "--json")
    assert result.exit_code == 1
    value = json.loads(result.output)
    assert value["schema"] == "certificate/1"
    assert not value["certified"]
    assert value["attained"] > 0.95
    assert "trained_on_annotators is not stated" in value["reasons"][0]
    assert Certificate.from_dict(value).verify()


def test_all_systems_are_judged_and_one_failure_is_exit_code_1(files: list[str]) -> None:
    result = ran(*files, "--trained-on-annotators", "no", "--json")
    assert result.exit_code == 1
    found = json.loads(result.output)["results"]
    assert [(r["subject"], r["certified"]) for r in found] == [("good", True), ("poor", False)]


def test_known_answers_check_assumption_six(files: list[str]) -> None:
    folder = Path(files[1]).parent
    options = [*files, "--system", "good", "--trained-on-annotators", "yes"]
    assert ran(*options).exit_code == 1
    result = ran(*options, "--known", str(folder / "known.csv"), "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.output)["inputs"]["check"]["supported"]


@pytest.mark.full
def test_margin_confidence_and_tests(files: list[str]) -> None:
    options = [*files, "--system", "good", "--trained-on-annotators", "no"]
    assert ran(*options, "--margin", "0.5").exit_code == 1
    for test in ("bernstein", "binomial", "t", "paper-hms", "paper-oms"):
        value = json.loads(ran(*options, "--test", test, "--json").output)
        assert value["test"] == test
        assert Certificate.from_dict(value).verify()
    assert (
        ran(*options, "--test", "binomial", "--ceiling", "free", "--confidence", "0.9").exit_code
        == 0
    )


def test_report_page_shows_bounds_margin_and_assumptions(files: list[str], tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    ran(
        *files,
        "--system",
        "good",
        "--trained-on-annotators",
        "no",
        "--margin",
        "0.01",
        "--html",
        str(page),
    )
    text = page.read_text(encoding="utf-8")
    for words in (
        "CERTIFIED",
        "ceiling plurality",
        "ceiling paper",
        "margin",
        "one true label per item",
        "<svg",
    ):
        assert words in text


def test_wide_files_and_votes(tmp_path: Path) -> None:
    wide = tmp_path / "wide.csv"
    wide.write_text(
        "q,ann,bob,cy,agent\n"
        + "".join(f"{i},a,a,{'b' if i % 2 else 'a'},a\n" for i in range(400)),
        encoding="utf-8",
    )
    options = [
        "--wide",
        "--raters",
        "ann,bob,cy",
        "--item",
        "q",
        "--systems",
        "agent",
        "--trained-on-annotators",
        "no",
    ]
    assert ran("--ratings", str(wide), *options).exit_code == 0


def test_bad_input_is_named(files: list[str]) -> None:
    with pytest.raises(ArgumentError, match="--answers must be given"):
        ran(*files[:2])
    with pytest.raises(ArgumentError, match="ratings must be given"):
        ran("--trained-on-annotators", "no")
    with pytest.raises(ArgumentError, match="system must be one of 'good', 'poor'; got 'other'"):
        ran(*files, "--system", "other")
    with pytest.raises(EvidenceError, match="ratings must name a file"):
        ran("--ratings", "missing.csv", "--answers", "missing.csv")


def test_the_record_of_a_model_settles_who_taught_it(noracle: Run, tmp_path: Path) -> None:
    """A model whose labels came from an annotator is refused; of a machine, it is certified."""
    ratings, answers = tmp_path / "ratings.csv", tmp_path / "answers.csv"
    rows = [
        f"{i},{r},{'a' if (i + j) % 4 else 'b'}" for i in range(300) for j, r in enumerate("xyz")
    ]
    ratings.write_text("\n".join(["item,rater,label", *rows]) + "\n")
    answers.write_text("\n".join(["item,system,answer", *(f"{i},m,a" for i in range(300))]) + "\n")
    command = ["certify", "--ratings", ratings, "--answers", answers, "--model", tmp_path]

    def record(value: object) -> None:
        (tmp_path / "model.json").write_text(json.dumps(value))

    record({"params": {"said_by": ["a machine"]}})
    assert noracle(*command).code == 0
    record({"params": {"said_by": ["y", "a machine"]}})
    refused = noracle(*command)
    assert refused.code == 1
    assert "the system was trained on these annotators" in " ".join(refused.out.split())
    stated = noracle(*command, "--trained-on-annotators", "no")
    assert (stated.code, stated.err.count("\n")) == (2, 1)
    assert "labels of y in the record" in stated.err
    record({"params": {}})
    assert noracle(*command).code == 1  # without a record it must be stated
    assert noracle(*command, "--trained-on-annotators", "no").code == 0
    record([1])
    assert "--model must be a folder that 'noracle learn fit' finished" in noracle(*command).err
