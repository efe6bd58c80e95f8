"""Clusters on the command line: honoured by default, ignored when asked to, and in every JSON."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.unit.cli.conftest import Run
from tests.unit.cli.test_verbs import assert_valid


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """60 passages of 5 questions of which 20 were labelled as a whole, and three ratings of each
    question.
    """
    rng = np.random.default_rng(1)
    passage = np.repeat(np.arange(60), 5)
    rows: dict[str, list[tuple[Any, ...]]] = {
        "answers": [],
        "judgements": [],
        "items": [],
        "ratings": [],
    }
    for system, accuracy in (("a", 0.9), ("b", 0.4)):
        right = rng.random(300) < rng.beta(accuracy * 3, (1 - accuracy) * 3, 60)[passage]
        rows["answers"] += [(i, system, int(right[i])) for i in range(300)]
    rows["judgements"] = [(i, 1, "yes") for i in range(100)]
    rows["items"] = [(i, f"passage {passage[i]}") for i in range(300)]
    rows["ratings"] = [
        (i, rater, int(rng.random() < 0.8)) for i in range(300) for rater in ("ann", "bob", "eve")
    ]
    heads = {
        "answers": ("item", "system", "answer"),
        "judgements": ("item", "class", "verdict"),
        "items": ("item", "cluster"),
        "ratings": ("item", "rater", "label"),
    }
    for name, table in rows.items():
        with (tmp_path / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([heads[name], *table])
    return tmp_path


def tables(folder: Path) -> list[str]:
    named = [f"--{name}={folder / name}.csv" for name in ("answers", "judgements", "items")]
    return [*named, "--n-classes=2", "--protocol=sets"]


def test_estimate_takes_clusters_unless_told_otherwise(noracle: Run, folder: Path) -> None:
    found = noracle("estimate", *tables(folder), "--system=a", "--json").json
    assert_valid(found)
    assert (found["interval"], found["diagnostics"]["clusters"]) == ("clusters", 20)
    ignored = noracle("estimate", *tables(folder), "--system=a", "--clusters=ignore", "--json").json
    assert ignored["interval"] == "hypergeometric"
    assert "20 clusters" in noracle("estimate", *tables(folder), "--system=a").out


def test_saved_counts_keep_the_clusters(noracle: Run, folder: Path) -> None:
    saved = folder / "counts.json"
    found = noracle(
        "estimate", *tables(folder), f"--save-counts={saved}", "--system=a", "--json"
    ).json
    again = noracle("estimate", f"--counts={saved}", "--system=a", "--json").json
    assert (again["low"], again["high"], again["interval"]) == (
        found["low"],
        found["high"],
        "clusters",
    )


@pytest.mark.full
def test_compare_and_race_take_clusters(noracle: Run, folder: Path) -> None:
    compared = noracle("compare", *tables(folder), "--json").json
    assert_valid(compared)
    assert (compared["interval"], compared["counts"]["clusters"]) == ("clusters", 20)
    assert (
        noracle("compare", *tables(folder), "--interval=betting", "--json").json["interval"]
        == "clusters, every look"
    )
    beyond = noracle(
        "compare", *tables(folder), "--population=beyond", "--interval=wald", "--json"
    ).json
    assert beyond["interval"] == "cr2"
    raced = noracle("race", *tables(folder), "--json").json
    assert_valid(raced)
    assert raced["interval"] == "clusters, every look"
    assert (
        noracle("race", *tables(folder), "--clusters=ignore", "--json").json["interval"]
        == "betting"
    )


def test_certify_takes_clusters_from_items(noracle: Run, folder: Path) -> None:
    given = [
        f"--answers={folder / 'answers.csv'}",
        f"--ratings={folder / 'ratings.csv'}",
        "--trained-on-annotators=no",
        "--system=a",
    ]
    found = noracle("certify", *given, f"--items={folder / 'items.csv'}", "--json").json
    assert_valid(found)
    assert any("60 clusters" in note for note in found["notes"])
    stored = folder / "certificate.json"
    stored.write_text(
        noracle("certify", *given, f"--items={folder / 'items.csv'}", "--json").out,
        encoding="utf-8",
    )
    assert noracle("verify", stored).code == 0


@pytest.mark.full
def test_report_takes_clusters(folder: Path) -> None:
    from noracle.oversight import oversee

    (folder / "noracle.toml").write_text("n_classes = 2\nprotocol = 'sets'\n", encoding="utf-8")
    (folder / "ratings.csv").unlink()
    found = oversee(folder)
    accuracies = [
        r for step in found.steps for r in step.results if getattr(r, "quantity", "") == "accuracy"
    ]
    assert {e.interval for e in accuracies} == {"clusters"}
