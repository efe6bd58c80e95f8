"""Ratings on the command line, through ``noracle agreement``."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from noracle.cli import app
from noracle.counts import count_ratings
from noracle.evidence import Ratings
from tests.unit.cli.conftest import CANARY, Run
from tests.unit.cli.test_verbs import assert_valid

LONG = [
    (i, r, label)
    for i in range(60)
    for r, label in zip("abc", ["x", "x", "x" if i % 3 else "y"], strict=True)
]
LONG += [(i, r, "y") for i in range(60, 100) for r in "abc"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    def write(name: str, header: list[str], rows: list[Any]) -> None:
        with (tmp_path / name).open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(header)
            writer.writerows(rows)

    write("long.csv", ["item", "rater", "label", "text"], [(*row, CANARY) for row in LONG])
    wide: dict[int, list[str]] = {}
    for item, _, label in LONG:
        wide.setdefault(item, []).append(label)
    write("wide.csv", ["q", "a", "b", "c"], [(item, *labels) for item, labels in wide.items()])
    votes = [
        (item, label, labels.count(label))
        for item, labels in wide.items()
        for label in sorted(set(labels))
    ]
    write("votes.csv", ["item", "label", "n"], votes)
    write(
        "scores.csv",
        ["item", "rater", "value"],
        [(i, r, 0.1 if label == "x" else 0.9) for i, r, label in LONG],
    )
    counts = count_ratings(
        Ratings.from_wide(tmp_path / "wide.csv", raters=["a", "b", "c"], item="q"), pairs=True
    )
    (tmp_path / "counts.json").write_text(json.dumps(counts.to_dict()), encoding="utf-8")
    return tmp_path


@pytest.mark.thin(2)
@pytest.mark.parametrize(
    "options",
    [
        ["--ratings", "long.csv"],
        ["--ratings", "wide.csv", "--wide", "--raters", "a,b,c", "--item", "q"],
        ["--ratings", "votes.csv", "--votes"],
        ["--ratings", "scores.csv", "--cuts", "0.5", "--labels", "x,y"],
        ["--counts", "counts.json"],
        ["--ratings", "long.csv", "--first", "3"],
    ],
)
def test_every_form_of_ratings_gives_the_same_agreement(
    noracle: Run, folder: Path, options: list[str], monkeypatch: Any
) -> None:
    monkeypatch.chdir(folder)
    ended = noracle("agreement", *options, "--json", "--statistic", "fleiss")
    assert (ended.code, ended.err) == (0, "")
    assert_valid(ended.json)
    # 40 items xxx, 20 items xxy, 40 items yyy: P = 13/15, shares 8/15 and 7/15, so (13/15 -
    # 113/225)/(112/225).
    assert ended.json["value"] == pytest.approx(41 / 56)
    assert CANARY not in ended.out


def test_several_statistics_are_one_object(noracle: Run, folder: Path) -> None:
    names = ("pairwise", "cohen", "fleiss", "krippendorff")
    ended = noracle(
        "agreement", "--ratings", folder / "long.csv", "--json", "--statistic", ",".join(names)
    )
    assert ended.code == 0
    assert [r["diagnostics"]["statistic"] for r in ended.json["results"]] == list(names)
    assert_valid(ended.json)


def test_cohen_of_one_pair_and_the_page(noracle: Run, folder: Path) -> None:
    options = ["--statistic", "cohen", "--pair", "a,c", "--html", folder / "page.html"]
    ended = noracle("agreement", "--ratings", folder / "long.csv", *options)
    assert ended.code == 0
    assert "Cohen's kappa of 'a and c'" in ended.out
    assert "kappa" in (folder / "page.html").read_text(encoding="utf-8")


def test_stored_counts_and_ratings_add(noracle: Run, folder: Path) -> None:
    ended = noracle(
        "agreement",
        "--counts",
        folder / "counts.json",
        "--counts",
        folder / "counts.json",
        "--json",
    )
    assert ended.json["counts"]["items"] == 200


def test_a_band_may_be_left_out(noracle: Run, folder: Path) -> None:
    ended = noracle(
        "agreement",
        "--ratings",
        folder / "scores.csv",
        "--cuts",
        "0.4,0.6",
        "--labels",
        "x,,y",
        "--json",
    )
    assert ended.code == 0
    assert ended.json["counts"]["labels"] == 2


@pytest.mark.thin(3)
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "ratings must be given: --ratings FILE"),
        (
            ["--ratings", "long.csv", "--wide"],
            "--wide must go with ratings that have one row per item",
        ),
        (
            ["--ratings", "long.csv", "--wide", "--votes", "--raters", "a,b"],
            "--wide and --votes must not come together",
        ),
        (
            ["--ratings", "long.csv", "--raters", "a,b"],
            "--raters must be columns of ratings; got no a, b",
        ),
        (
            ["--ratings", "votes.csv", "--votes", "--first", "2"],
            "--first must not come with --votes",
        ),
        (["--ratings", "scores.csv", "--cuts", "a"], "--cuts must be numbers separated by commas"),
        (
            ["--ratings", "scores.csv", "--cuts", "0.5", "--labels", "x"],
            "labels must be 2 for 1 cuts",
        ),
        (
            ["--ratings", "long.csv", "--pair", "a,b"],
            "--pair must be two raters with --statistic cohen",
        ),
        (
            ["--ratings", "long.csv", "--metric", "ordinal"],
            "--metric must go with --statistic krippendorff",
        ),
        (
            ["--ratings", "long.csv", "--labels", "x,z"],
            "ratings.label must be one of ['x', 'z']; got 'y'",
        ),
        (
            ["--ratings", "long.csv", "--statistic", "kendall"],
            "--statistic must be one of pairwise, cohen, fleiss, krippendorff",
        ),
        (["--ratings", "nowhere.csv"], "must name a file"),
        (["--counts", "long.csv"], "--counts must be a JSON file"),
        (["--ratings", "wide.csv"], "ratings must have columns item, rater, label"),
    ],
)
def test_bad_options_are_one_line(
    noracle: Run, folder: Path, options: list[str], message: str, monkeypatch: Any
) -> None:
    monkeypatch.chdir(folder)
    ended = noracle("agreement", *options)
    assert ended.code == 2
    assert message in ended.err
    assert ended.err.count("\n") == 1
    assert ended.out == ""


def test_other_json_is_not_counts(noracle: Run, folder: Path) -> None:
    (folder / "other.json").write_text('{"schema": "counts/1"}', encoding="utf-8")
    ended = noracle("agreement", "--counts", folder / "other.json")
    assert (ended.code, "must hold counts of ratings (schema rating-counts/1)" in ended.err) == (
        2,
        True,
    )


def test_help_shows_an_example() -> None:
    from typer.testing import CliRunner

    result = CliRunner().invoke(app, ["agreement", "--help"], prog_name="noracle")
    assert result.exit_code == 0
    assert "noracle agreement" in result.output.split("Example:")[1]
