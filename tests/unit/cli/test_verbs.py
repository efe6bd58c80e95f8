"""Every verb: what it prints, its JSON, its files and its exit code."""

from __future__ import annotations

import csv
import dataclasses
import json
import math
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import referencing

import noracle as library
from noracle.cli import app
from noracle.cli._output import estimate_lines
from noracle.schemas import load_schema, schema_names
from tests.unit.cli.conftest import CANARY, Run

VERBS = (
    "estimate",
    "compare",
    "race",
    "plan",
    "mean",
    "route",
    "check",
    "certify",
    "ceiling",
    "agreement",
    "alarm",
    "ranges",
    "conflict",
    "verify",
    "ask",
    "search",
    "workflow show",
    "simulate",
    "demo",
    "report",
    "watch",
    "init",
    "doctor",
    "learn fit",
    "learn predict",
    "learn analyse",
    "learn bench",
)


def assert_valid(value: dict[str, Any]) -> None:
    """The value keeps the schema that it names, and nobody said NaN."""
    resources = [
        (load_schema(n)["$id"], referencing.Resource.from_contents(load_schema(n)))
        for n in schema_names()
    ]
    registry: referencing.Registry[Any] = referencing.Registry().with_resources(resources)
    jsonschema.Draft202012Validator(load_schema(value["schema"]), registry=registry).validate(value)


def read_csv(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.thin(5)
@pytest.mark.parametrize("verb", ["", *VERBS])
def test_help_shows_an_example(verb: str) -> None:
    from typer.testing import CliRunner

    result = CliRunner().invoke(app, [*verb.split(), "--help"], prog_name="noracle")
    assert result.exit_code == 0
    assert "Example:" in result.output
    assert f"noracle {verb or 'estimate'}" in result.output.split("Example:")[1]


def test_examples_of_plan_and_simulate_run_as_they_are_printed(
    noracle: Run, world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from noracle.cli import plan, simulate

    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "evidence"
    folder.mkdir()
    for name in ("answers", "judgements", "items"):
        rows = (
            (world / f"{name}.csv")
            .read_text(encoding="utf-8")
            .splitlines()[: 200 if name == "judgements" else None]
        )
        (folder / f"{name}.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    for verb in (plan, simulate):
        line = next(line for line in verb.EXAMPLE.splitlines() if line.startswith("noracle"))
        ended = noracle(*line.split()[1:])
        assert ended.code in (0, 3), line  # 3: this small folder has too few items for the wish
        assert ended.err == "", line


def test_version(noracle: Run) -> None:
    assert noracle("--version").out == f"noracle {library.__version__}\n"


def test_estimate_of_all_systems(noracle: Run, tables: list[str]) -> None:
    ended = noracle("estimate", *tables, "--json")
    assert (ended.code, ended.err) == (0, "")
    assert_valid(ended.json)
    assert ended.json["schema"] == "results/1"
    good, poor = ended.json["results"]
    assert (good["subject"], poor["subject"]) == ("good", "poor")
    assert good["low"] > poor["high"]
    assert {a["name"]: a["status"] for a in good["guarantee"]["assumptions"]}[
        "uniform routing"
    ] == "checked"
    card = noracle("estimate", *tables)
    assert "accuracy of 'good'" in card.out
    assert "accuracy of 'poor'" in card.out
    assert "seed 0" in card.out


def test_estimate_of_one_system_is_what_the_library_says(
    noracle: Run, tables: list[str], world: Path
) -> None:
    ended = noracle(
        "estimate",
        *tables,
        "--system",
        "poor",
        "--json",
        "--no-check",
        "--interval",
        "anytime",
        "--confidence",
        "0.9",
    )
    assert_valid(ended.json)
    evidence = library.Evidence.from_tables(
        *(str(world / f"{n}.csv") for n in ("answers", "judgements", "items"))
    )
    expected = library.estimate_accuracy(
        evidence, system="poor", interval="anytime", confidence=0.9, checks="none"
    )
    assert ended.json == expected.to_dict()


@pytest.mark.full
def test_the_promise_of_an_estimate_is_the_same_from_the_library(
    noracle: Run, tables: list[str], world: Path
) -> None:
    evidence = library.Evidence.from_tables(
        *(str(world / f"{n}.csv") for n in ("answers", "judgements", "items"))
    )
    for system in ("good", "poor"):
        ended = noracle("estimate", *tables, "--system", system, "--json")
        assert (
            ended.json["guarantee"]
            == library.estimate_accuracy(evidence, system=system).to_dict()["guarantee"]
        )


@pytest.mark.thin(4)
@pytest.mark.parametrize(
    ("options", "field", "value"),
    [
        (["--side", "lower"], "side", "lower"),
        (["--method", "ordinary"], "method", "ordinary"),
        (["--population", "beyond"], "confidence", 0.95),
        (["--false-no", "0.02", "--false-yes", "0.01"], "method", "ml"),
        (
            ["--method", "weighted", "--weight", "0.3", "--interval", "hoeffding"],
            "interval",
            "hoeffding",
        ),
    ],
)
def test_estimate_passes_its_options_on(
    noracle: Run, tables: list[str], options: list[str], field: str, value: object
) -> None:
    ended = noracle("estimate", *tables, "--system", "good", "--json", *options)
    assert ended.code == 0, ended.err
    plain = noracle("estimate", *tables, "--system", "good", "--json").json
    assert ended.json[field] == value
    assert (ended.json["low"], ended.json["high"]) != (plain["low"], plain["high"])


@pytest.mark.full
def test_counts_of_two_halves_add_to_the_whole(noracle: Run, world: Path, tmp_path: Path) -> None:
    answers, judgements = (read_csv(world / f"{n}.csv") for n in ("answers", "judgements"))
    for half in (0, 1):
        for name, rows in (("answers", answers), ("judgements", judgements)):
            mine = [r for r in rows if int(r["item"]) % 2 == half]
            with (tmp_path / f"{name}{half}.csv").open("w", encoding="utf-8", newline="") as file:
                writer = csv.DictWriter(file, list(rows[0]))
                writer.writeheader()
                writer.writerows(mine)
    common = ["--n-classes", "5", "--no-check", "--json"]
    first = [
        f"--answers={tmp_path}/answers0.csv",
        f"--judgements={tmp_path}/judgements0.csv",
        *common,
    ]
    second = [
        f"--answers={tmp_path}/answers1.csv",
        f"--judgements={tmp_path}/judgements1.csv",
        *common,
    ]
    assert (
        noracle("estimate", *first, "--save-counts", tmp_path / "0.json", "--system", "good").code
        == 0
    )
    assert_valid(json.loads((tmp_path / "0.json").read_text(encoding="utf-8")))
    both = noracle(
        "estimate", *second, "--counts", tmp_path / "0.json", "--save-counts", tmp_path / "all.json"
    )
    whole = noracle(
        "estimate",
        f"--answers={world}/answers.csv",
        f"--judgements={world}/judgements.csv",
        *common,
    )
    stored = noracle("estimate", "--counts", tmp_path / "all.json", "--no-check", "--json")
    assert both.json == whole.json == stored.json
    assert len(whole.json["results"]) == 2


def test_wide_table(noracle: Run, tmp_path: Path) -> None:
    rows = [
        f"{i},{i % 3},{(i + (i % 5 == 0)) % 3},{i % 3 if i % 2 else ''},{'' if i % 2 else (i + 1) % 3}"
        for i in range(200)
    ]
    (tmp_path / "wide.csv").write_text("q,a,b,key,not\n" + "\n".join(rows) + "\n", encoding="utf-8")
    wide = [
        f"--answers={tmp_path}/wide.csv",
        "--wide",
        "--systems",
        "a,b",
        "--item",
        "q",
        "--label",
        "key",
        "--ruled-out",
        "not",
        "--n-classes",
        "3",
    ]
    ended = noracle("estimate", *wide, "--json")
    assert_valid(ended.json)
    a, b = ended.json["results"]
    assert (a["value"], a["counts"]["ordinary"], a["counts"]["complementary"]) == (1.0, 100, 100)
    assert b["value"] < 0.95
    assert noracle("compare", *wide, "--json").json["systems"] == ["a", "b"]


def test_transition_matrix(noracle: Run, tmp_path: Path) -> None:
    matrix = [[0.0, 0.7, 0.3], [0.2, 0.0, 0.8], [0.5, 0.5, 0.0]]
    (tmp_path / "t.csv").write_text(
        "\n".join(",".join(map(str, row)) for row in matrix), encoding="utf-8"
    )
    (tmp_path / "t.json").write_text(json.dumps(matrix), encoding="utf-8")
    world = ["--n-items", 3000, "--n-classes", 3, "--system", "a=0.7", "--n-complementary", 3000]
    assert (
        noracle(
            "simulate",
            *world,
            "--transition",
            tmp_path / "t.csv",
            "--seed",
            1,
            "--out",
            tmp_path / "w",
        ).code
        == 0
    )
    tables = [f"--{n}={tmp_path}/w/{n}.csv" for n in ("answers", "judgements", "items")]
    ended = noracle(
        "estimate", *tables, "--transition", tmp_path / "t.json", "--system", "a", "--json"
    )
    assert ended.json["method"] == "scores"
    assert ended.json["low"] < 0.7 < ended.json["high"]
    assert ended.json["low"] > 0.6
    named = noracle(
        "estimate", *tables, "--transition", tmp_path / "t.csv", "--system", "a", "--json"
    )
    assert named.json == ended.json


def test_failed_routing_makes_it_heuristic_and_strict_refuses(noracle: Run, tmp_path: Path) -> None:
    answers = "item,system,answer\n" + "".join(f"{i},a,{i % 4}\n" for i in range(400))
    judgements = "item,class,verdict\n" + "".join(
        f"{i},0,{'yes' if i % 4 == 0 else 'no'}\n" for i in range(400)
    )
    (tmp_path / "a.csv").write_text(answers, encoding="utf-8")
    (tmp_path / "j.csv").write_text(judgements, encoding="utf-8")
    tables = [
        f"--answers={tmp_path}/a.csv",
        f"--judgements={tmp_path}/j.csv",
        "--n-classes",
        4,
        "--system",
        "a",
    ]
    ended = noracle("estimate", *tables, "--json")
    assert (ended.code, ended.json["guarantee"]["kind"]) == (0, "heuristic")
    assert ended.err.count("\n") == 1
    assert "--protocol sets" in ended.err
    assert noracle("-q", "estimate", *tables, "--json").err == ""
    refused = noracle("estimate", *tables, "--strict")
    assert (refused.code, refused.out, refused.err.count("\n")) == (1, "", 1)
    trusted = noracle("estimate", *tables, "--protocol", "sets", "--json")
    assert (trusted.err, trusted.json["guarantee"]["kind"]) == ("", "finite-sample")
    check = noracle("check", *tables, "--json")
    assert check.code == 1
    assert_valid(check.json)


def grade_many(folder: Path, n: int) -> str:
    """Grades of so many systems, each a little better than the one before."""
    rows = [
        f"q{q},system-{k},{'right' if (7 * q + 3 * k) % n < k else 'wrong'}"
        for q in range(60)
        for k in range(n)
    ]
    text = "\n".join(["item,system,verdict", *rows]) + "\n"
    (folder / "grades.csv").write_text(text, encoding="utf-8")
    return f"{folder}/grades.csv"


def test_many_systems_are_one_table_with_the_best_first(noracle: Run, tmp_path: Path) -> None:
    grades = grade_many(tmp_path, 6)
    lines = noracle("estimate", "--grades", grades).out.splitlines()
    assert lines[0].startswith("accuracy of 6 systems    95 % intervals, each by itself")
    found = [re.match(r"system-(\d) .*[●─].* ([\d.]+) % +[\d.]+–[\d.]+ %$", x) for x in lines[1:7]]
    assert [int(m[1]) for m in found if m] == [5, 4, 3, 2, 1, 0]
    shown = [float(m[2]) for m in found if m]
    assert shown == sorted(shown, reverse=True)
    assert sum(line.startswith("  rests on") for line in lines) == 1
    cards = noracle("-v", "estimate", "--grades", grades).out
    assert cards.count("\n  rests on") == 6
    assert "accuracy of 6 systems" not in cards
    assert len(noracle("estimate", "--grades", grades, "--json").json["results"]) == 6


def test_three_systems_are_cards(noracle: Run, tmp_path: Path) -> None:
    assert noracle("estimate", "--grades", grade_many(tmp_path, 3)).out.count("\n  rests on") == 3


def test_quiet_is_one_line(noracle: Run, tmp_path: Path) -> None:
    ended = noracle("-q", "estimate", "--grades", grade_many(tmp_path, 6))
    assert re.fullmatch(
        r"highest accuracy of 6 systems: 'system-5' [\d.]+ % \([\d.]+–[\d.]+ %\)\n", ended.out
    )
    one = noracle("-q", "estimate", "--grades", f"{tmp_path}/grades.csv", "--system", "system-2")
    assert one.out.startswith("accuracy of 'system-2'")
    assert one.out.count("\n") == 1


def test_a_table_says_whose_promise_is_weaker() -> None:
    counts = library.AccuracyCounts.from_counts(n_classes=4, ordinary=(50, 40))
    fine = library.estimate_accuracy(counts)
    broken = dataclasses.replace(
        fine,
        subject="broken",
        value=math.nan,
        guarantee=library.Guarantee(kind=library.Kind.HEURISTIC, error_rate=0.05),
    )
    made = [broken, *(dataclasses.replace(fine, subject=f"s{i}") for i in range(4))]
    for width in (40, 80, 120):
        lines = estimate_lines(made, width)
        assert "HEURISTIC: no promise" in lines[0]
        assert "  promise     weaker for 'broken'" in lines
        assert lines[5].startswith("broken")
        assert max(map(len, lines[1:])) <= max(width, 50)
        assert "  guarantee   finite-sample" in lines


def test_compare(noracle: Run, tables: list[str]) -> None:
    ended = noracle("compare", *tables, "--json")
    assert (ended.code, ended.err) == (0, "")
    assert_valid(ended.json)
    assert ended.json["leaders"] == ["good"]


@pytest.mark.full
def test_compare_of_systems_that_cannot_be_separated_is_fine(noracle: Run, tmp_path: Path) -> None:
    noracle(
        "simulate", "--n-items", 300, "--system", "a=0.7", "--system", "b=0.7", "--out", tmp_path
    )
    tables = [f"--{n}={tmp_path}/{n}.csv" for n in ("answers", "judgements", "items")]
    assert noracle("compare", *tables).code == 0
    race = noracle("race", *tables)
    assert race.code == 3
    assert "labels used up: not separable among" in race.out
    assert_valid(noracle("race", *tables, "--json").json)


def test_race_with_a_winner(noracle: Run, tables: list[str]) -> None:
    ended = noracle("race", *tables, "--systems", "good,poor", "--json")
    assert (ended.code, ended.err) == (0, "")
    assert_valid(ended.json)
    assert ended.json["leaders"] == ["good"]
    assert 0 < ended.json["dropped"]["poor"] < 1500


def test_plan(noracle: Run) -> None:
    goal = ["--n-classes", 10, "--accuracy", 0.8, "--half-width", 0.03]
    ended = noracle(
        "plan",
        *goal,
        "--cost",
        "ordinary=1",
        "--cost",
        "complementary=0.2",
        "--cap",
        "ordinary=300",
        "--json",
        "--seed",
        5,
    )
    assert (ended.code, ended.err) == (0, "")
    assert_valid(ended.json)
    assert ended.json["inputs"]["seed"] == 5
    assert ended.json["buy"].get("ordinary", 0) <= 300
    verified = noracle("plan", *goal, "--kind", "ordinary", "--verify")
    assert verified.code == 0
    assert "verified: yes" in verified.out
    assert noracle("plan", "--n-classes", 10, "--accuracy", 0.78, "--match", 300, "--json").json[
        "buy"
    ] == {"complementary": 3377}


@pytest.mark.thin(3)
@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_route_writes_questions_that_estimate_takes(
    noracle: Run, world: Path, tmp_path: Path, ending: str
) -> None:
    out = tmp_path / f"questions.{ending}"
    options = [
        "--answers",
        world / "answers.csv",
        "--items",
        world / "items.csv",
        "--design",
        "targeted",
        "--epsilon",
        0.1,
        "--n",
        400,
    ]
    ended = noracle("route", *options, "--seed", 7, "--out", out, "--json")
    assert (ended.code, ended.err) == (0, "")
    assert_valid(ended.json)
    assert ended.json == noracle("route", *options, "--seed", 7, "--json").json
    key = {int(r["item"]): int(r["class"]) for r in read_csv(world / "key.csv")}
    rows = ended.json["rows"]
    lines = [
        "item,class,propensity,verdict",
        *(f"{i},{k},{p},{'yes' if key[i] == k else 'no'}" for i, k, p in rows),
    ]
    (tmp_path / "j.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    import duckdb

    written = duckdb.sql(f"SELECT item, class, propensity FROM '{out}'").fetchall()
    assert written == [(i, k, pytest.approx(p)) for i, k, p in rows]
    tables = [
        "--answers",
        world / "answers.csv",
        "--judgements",
        tmp_path / "j.csv",
        "--items",
        world / "items.csv",
    ]
    estimate = noracle("estimate", *tables, "--system", "good", "--json").json
    assert estimate["method"] == "scores"
    assert estimate["low"] < 0.87 < estimate["high"]


@pytest.mark.thin(3)
@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_plan_route_and_estimate_compose(
    noracle: Run, world: Path, tmp_path: Path, ending: str
) -> None:
    """The JSON of a plan becomes questions, open ones without a class; filled in they become an
    estimate with a finite-sample promise.
    """
    goal = [
        "--n-classes",
        5,
        "--accuracy",
        0.8,
        "--budget",
        400,
        "--cost",
        "ordinary=1",
        "--cost",
        "question=0.6",
        "--cap",
        "ordinary=60",
    ]
    planned = noracle("plan", *goal, "--json")
    (tmp_path / "plan.json").write_text(planned.out, encoding="utf-8")
    out = tmp_path / f"questions.{ending}"
    tables = ["--answers", world / "answers.csv", "--items", world / "items.csv"]
    ended = noracle(
        "route", *tables, "--plan", tmp_path / "plan.json", "--seed", 7, "--out", out, "--json"
    )
    assert (ended.code, ended.err) == (0, "")
    assert_valid(ended.json)
    rows = ended.json["rows"]
    assert planned.json["buy"] == {
        "ordinary": sum(k is None for _, k, _ in rows),
        "question": sum(k is not None for _, k, _ in rows),
    }
    import duckdb

    assert duckdb.sql(f"SELECT item, class, propensity FROM '{out}'").fetchall() == [
        tuple(row) for row in rows
    ]
    key = {int(r["item"]): int(r["class"]) for r in read_csv(world / "key.csv")}
    filled = [(i, key[i] if k is None else k, "" if p is None else p) for i, k, p in rows]
    lines = [
        "item,class,propensity,verdict",
        *(f"{i},{k},{p},{'yes' if key[i] == k else 'no'}" for i, k, p in filled),
    ]
    (tmp_path / "j.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    estimate = noracle(
        "estimate", *tables, "--judgements", tmp_path / "j.csv", "--system", "good", "--json"
    ).json
    assert estimate["interval"] == "exact"
    assert estimate["guarantee"]["kind"] == "finite-sample"
    assert estimate["low"] < 0.847 < estimate["high"]  # the share of right answers in this world
    card = noracle("route", *tables, "--plan", tmp_path / "plan.json", "--seed", 7).out
    assert "open" in card


def test_route_refuses_what_is_not_a_plan_of_labels(
    noracle: Run, world: Path, tmp_path: Path
) -> None:
    tables = ["--answers", world / "answers.csv", "--items", world / "items.csv"]
    for text in ("[1]", "{}", '{"schema": "plan/9"}', "not json"):
        (tmp_path / "bad.json").write_text(text, encoding="utf-8")
        ended = noracle("route", *tables, "--plan", tmp_path / "bad.json")
        assert (ended.code, ended.out) == (2, "")
        assert ended.err.startswith("error: --plan must")
    ended = noracle("route", *tables, "--plan", tmp_path / "nowhere.json")
    assert (ended.code, ended.err.count("\n")) == (2, 1)


def test_route_draws_and_prints_a_seed(noracle: Run, world: Path) -> None:
    options = ["--answers", world / "answers.csv", "--n-classes", 5, "--n", 3]
    printed = re.search(r"^seed (\d+)$", noracle("route", *options).out, flags=re.MULTILINE)
    assert printed is not None
    assert noracle("route", *options, "--seed", printed[1], "--json").json["seed"] == int(
        printed[1]
    )


def test_guess_that_comes_with_the_answers(noracle: Run, world: Path, tmp_path: Path) -> None:
    lines = (world / "answers.csv").read_text(encoding="utf-8").splitlines()
    answers = tmp_path / "answers.csv"
    answers.write_text(
        "\n".join([lines[0] + ",guess", *(line + ",0.5" for line in lines[1:])]), encoding="utf-8"
    )
    options = [
        "--judgements",
        world / "judgements.csv",
        "--items",
        world / "items.csv",
        "--guess",
        "column",
    ]
    assert noracle("estimate", "--answers", answers, *options, "--json").code == 0
    without = noracle("estimate", "--answers", world / "answers.csv", *options)
    assert without.code == 2
    assert "must have a column guess" in without.err


def test_check_passes_on_a_fair_world(noracle: Run, tables: list[str]) -> None:
    ended = noracle("check", *tables, "--json", "--seed", 4)
    assert (ended.code, ended.err) == (0, "")
    assert_valid(ended.json)
    kinds = [r.get("name", r["schema"]) for r in ended.json["results"]]
    assert kinds == [
        "routing",
        "yes rate",
        "overlap",
        "hits",
        "missing verdicts",
        "ranges/1",
        "ranges/1",
    ]
    assert ended.json["results"][0]["diagnostics"]["seed"] == 4
    assert {r["name"] for r in ended.json["results"][5]["ranges"]} == {"value", "interval"}
    assert "'good'" in ended.json["results"][5]["subject"]


@pytest.mark.full
def test_check_sensitivity(noracle: Run, tables: list[str]) -> None:
    ended = noracle("check", *tables, "--system", "good", "--at-least", 0.7, "--json")
    assert ended.code == 0
    assert "sensitivity" in [r.get("name") for r in ended.json["results"]]
    assert noracle("check", *tables, "--system", "poor", "--at-least", 0.9).code == 1


def test_check_of_separate_sets_leaves_the_yes_rate_out(noracle: Run, tmp_path: Path) -> None:
    noracle(
        "simulate",
        "--n-items",
        900,
        "--n-ordinary",
        300,
        "--n-complementary",
        600,
        "--out",
        tmp_path,
    )
    tables = [f"--{n}={tmp_path}/{n}.csv" for n in ("answers", "judgements", "items")]
    assert noracle("check", *tables, "--protocol", "question").code == 1
    sets = noracle("check", *tables, "--protocol", "sets", "--json")
    assert sets.code == 0
    assert [r["name"] for r in sets.json["results"]] == ["overlap"]
    nothing = noracle(
        "check", f"--judgements={tmp_path}/judgements.csv", "--n-classes", 10, "--protocol", "sets"
    )
    assert (nothing.code, nothing.err.count("\n")) == (2, 1)


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_simulate_writes_all_tables_and_repeats_itself(
    noracle: Run, tmp_path: Path, ending: str
) -> None:
    options = [
        "--n-items",
        200,
        "--n-classes",
        "3,5",
        "--system",
        "a=0.8",
        "--no-answer",
        0.1,
        "--unsure",
        0.1,
        "--seed",
        9,
        "--format",
        ending,
    ]
    ended = noracle("simulate", *options, "--out", tmp_path / "w", "--json")
    assert (ended.code, ended.err) == (0, "")
    assert_valid(ended.json)
    assert ended.json["diagnostics"]["seed"] == 9
    again = noracle("simulate", *options, "--out", tmp_path / "v", "--json")
    for name in ("answers", "judgements", "items", "key"):
        first, second = (tmp_path / d / f"{name}.{ending}" for d in "wv")
        assert first.read_bytes() == second.read_bytes()
    assert again.json["ranges"] == ended.json["ranges"]
    assert sorted(p.name for p in (tmp_path / "w").iterdir()) == sorted(
        f"{n}.{ending}" for n in ("answers", "judgements", "items", "key")
    )
    tables = [f"--{n}={tmp_path}/w/{n}.{ending}" for n in ("answers", "judgements", "items")]
    assert noracle("estimate", *tables, "--json").code == 0


@pytest.mark.thin(3)
@pytest.mark.parametrize("verb", ["estimate", "compare", "race", "check", "route"])
def test_html_and_no_text_of_items_anywhere(
    noracle: Run, tables: list[str], tmp_path: Path, verb: str
) -> None:
    options = [t for t in tables if not (verb == "route" and t.startswith("--judgements"))]
    page = tmp_path / "page.html"
    for more in ([], ["--json"], ["-vv"]):
        ended = noracle(verb, *options, "--html", page, *more)
        assert ended.code == 0, ended.err
        assert CANARY not in ended.out + ended.err
    text = page.read_text(encoding="utf-8")
    assert CANARY not in text
    assert f"noracle {verb}" in text
    assert [p.name for p in tmp_path.iterdir()] == ["page.html"]


def test_html_of_verbs_without_evidence(noracle: Run, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert (
        noracle("plan", "--n-classes", 4, "--accuracy", 0.8, "--budget", 200, "--html", page).code
        == 0
    )
    assert "<svg" in page.read_text(encoding="utf-8")
    assert noracle("simulate", "--n-items", 50, "--out", tmp_path / "w", "--html", page).code == 0
    assert "<svg" in page.read_text(encoding="utf-8")


LOGS = Path(__file__).parents[2] / "reference" / "logs"


def test_results_of_tools_are_grades_on_the_command_line(noracle: Run) -> None:
    done = noracle(
        "estimate",
        "--grades",
        f"{LOGS / 'promptfoo.json'}#Correctness",
        "--system",
        "openai:gpt-4o-mini",
    )
    assert done.code == 0, done
    assert "accuracy of 'openai:gpt-4o-mini'    0.750" in done.out
    assert (
        "verdicts are those of a model (Correctness by openai:gpt-4.1), and as right as it is"
        in " ".join(done.out.split())
    )
    refused = noracle("estimate", "--grades", LOGS / "inspect-new-judged.eval")
    assert (refused.code, refused.out, refused.err.count("\n")) == (2, "", 1)
    assert "Choose one, as in 'inspect-new-judged.eval#model_graded_qa'" in refused.err
