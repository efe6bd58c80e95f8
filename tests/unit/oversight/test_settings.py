"""noracle.toml: every setting, every fault at once, and the nearest key for one that does not
exist.
"""

from __future__ import annotations

import dataclasses
import inspect
import tomllib
from pathlib import Path

import pytest

from noracle.errors import EvidenceError
from noracle.oversight import settings as module
from noracle.oversight.model import FolderSettings
from noracle.oversight.settings import SETTINGS_FILE, read_settings

EVERYTHING = """
title = "Spring review"
confidence = 0.9
seed = 7
n_classes = 3
classes = ["red", "green", "blue"]
conflicts = "drop"
repeats = "all"
protocol = "sets"
claim = "accuracy > 3/5"
trained_on_annotators = "no"
margin = 0.02
target = "expert"
half_width = 0.05
budget = 500
time_limit = 10
ignore = "drafts/*"

no_answer = [-1, "N/A"]
invalid = "refuse"

[files]
answers = "run/*.parquet"
judgements = ["monday.csv", "tuesday.csv"]

[wide.ratings]
item = "q"
raters = ["ann", "bob"]

[columns]
item = "question_id"
answers.system = "model"

[prices]
ordinary = 4
expert = 2.5

[drift]
reference = "2026-09"
window = 300
"""


def read(folder: Path, text: str) -> FolderSettings:
    path = folder / SETTINGS_FILE
    path.write_text(text, encoding="utf-8")
    return read_settings(path)


def faults(folder: Path, text: str) -> tuple[str, ...]:
    with pytest.raises(EvidenceError) as caught:
        read(folder, text)
    return caught.value.faults


def test_every_setting_can_be_read(tmp_path: Path) -> None:
    settings = read(tmp_path, EVERYTHING)
    expected = FolderSettings(
        title="Spring review",
        confidence=0.9,
        seed=7,
        n_classes=3,
        classes=("red", "green", "blue"),
        conflicts="drop",
        protocol="sets",
        repeats="all",
        claim="accuracy > 3/5",
        trained_on_annotators="no",
        margin=0.02,
        target="expert",
        half_width=0.05,
        budget=500.0,
        time_limit=10.0,
        ignore=("drafts/*",),
        files={"answers": ("run/*.parquet",), "judgements": ("monday.csv", "tuesday.csv")},
        wide={"ratings": {"item": "q", "raters": ("ann", "bob")}},
        prices={"ordinary": 4.0, "expert": 2.5},
        columns={"item": "question_id", "answers.system": "model"},
        no_answer=("-1", "N/A"),
        invalid="refuse",
        drift={"reference": "2026-09", "window": 300},
    )
    assert settings == expected
    default = FolderSettings()
    unset = [
        f.name
        for f in dataclasses.fields(FolderSettings)
        if getattr(settings, f.name) == getattr(default, f.name)
    ]
    assert unset == []  # the text above names every field, also one that is added later


def test_empty_file_is_all_defaults(tmp_path: Path) -> None:
    assert read(tmp_path, "") == FolderSettings()
    assert read(tmp_path, "# nothing\nignore = []\n") == FolderSettings()


def test_the_example_in_the_module_is_valid(tmp_path: Path) -> None:
    text = (inspect.getdoc(module) or "").split("\n\n", 1)[1]
    assert read(tmp_path, text).files["answers"] == ("run-7/*.parquet",)
    assert set(tomllib.loads(text)) < {f.name for f in dataclasses.fields(FolderSettings)}


@pytest.mark.parametrize(
    ("key", "near"),
    [
        ("confidense", "confidence"),
        ("Confidence", "confidence"),
        ("n_class", "n_classes"),
        ("file", "files"),
        ("price", "prices"),
    ],
)
def test_unknown_key_names_the_nearest_one(key: str, near: str, tmp_path: Path) -> None:
    (line,) = faults(tmp_path, f"{key} = 1\n")
    assert repr(key) in line
    assert f"Did you mean {near!r}?" in line


def test_unknown_key_far_from_all_is_refused_too(tmp_path: Path) -> None:
    (line,) = faults(tmp_path, "zzzzzz = 1\n")
    assert "Did you mean" not in line


def test_unknown_kinds_and_columns_name_the_nearest_ones(tmp_path: Path) -> None:
    lines = faults(
        tmp_path,
        '[files]\nanswer = "a.csv"\n[wide.rating]\nraters = ["a"]\n[wide.answers]\nsystem = ["a"]\nsystems = ["a"]\n',
    )
    assert len(lines) == 3
    assert [
        near
        for near in ("'answers'", "'ratings'", "'systems'")
        if any(f"Did you mean {near}?" in line for line in lines)
    ] == [
        "'answers'",
        "'ratings'",
        "'systems'",
    ]


def test_all_faults_come_at_once(tmp_path: Path) -> None:
    lines = faults(
        tmp_path,
        'confidense = 0.9\nseed = "one"\nmargin = 1\nclaim = "better"\n[prices]\nordinary = -1\n',
    )
    assert len(lines) == 5
    for word in ("confidense", "seed", "margin", "claim", "prices.ordinary"):
        assert any(word in line for line in lines)


@pytest.mark.parametrize(
    "text",
    [
        "title = 3",
        "confidence = 0",
        "confidence = 1",
        "confidence = 95",
        "confidence = true",
        "confidence = nan",
        'confidence = "0.95"',
        "seed = -1",
        "seed = 1.0",
        "seed = true",
        "n_classes = 1",
        "n_classes = 2.0",
        "n_classes = 10000000000",
        'classes = ["a"]',
        'classes = ["a", "a"]',
        'classes = ["a", 1]',
        "classes = [true, false]",
        'classes = "ab"',
        'conflicts = "ignore"',
        'repeats = "most"',
        'protocol = ["question"]',
        "trained_on_annotators = true",
        "margin = -0.1",
        "half_width = 0",
        "half_width = inf",
        "budget = 0",
        "time_limit = -1",
        'claim = "it works"',
        "ignore = 3",
        'ignore = ["a", "a"]',
        'files = "answers.csv"',
        "files.answers = 3",
        "files.answers = []",
        'files.answers = [""]',
        "prices = 3",
        "prices.ordinary = 0",
        'prices.ordinary = "4"',
        "prices.ordinary = inf",
        "wide = 3",
        "wide.ratings = 3",
        'wide.ratings.item = "q"',
        'wide.ratings.raters = ["a", "a"]',
        'wide.answers = {systems = ["a"], label = "a"}',
        'wide.judgements.item = "q"',
        'wide.prices.item = "q"',
        'n_classes = 3\nclasses = ["a", "b"]',
    ],
)
def test_value_that_breaks_a_rule_is_refused_in_one_line(text: str, tmp_path: Path) -> None:
    (line,) = faults(tmp_path, text + "\n")
    assert "must" in line
    assert "\n" not in line


def test_text_that_is_not_toml_or_not_utf8_is_named(tmp_path: Path) -> None:
    (line,) = faults(tmp_path, "title = \n")
    assert "TOML" in line
    assert "line 1" in line
    path = tmp_path / "other.toml"
    path.write_bytes('title = "Müller"'.encode("latin-1"))
    with pytest.raises(EvidenceError, match="UTF-8"):
        read_settings(path)


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(EvidenceError, match="readable file"):
        read_settings(tmp_path / "absent.toml")


def test_byte_order_mark_is_no_fault(tmp_path: Path) -> None:
    path = tmp_path / SETTINGS_FILE
    path.write_bytes(b"\xef\xbb\xbfseed = 3\n")
    assert read_settings(path).seed == 3


@pytest.mark.parametrize(
    ("lines", "part"),
    [
        ("", "floor or reference must be given"),
        ("floor = 1.2", "floor - margin must be in"),
        ('floor = "high"', "drift.floor must be a number"),
        ("floor = 0.8\nflor = 1", "Did you mean 'floor'?"),
        ('floor = 0.8\nreference = "2026-09"', "and not both"),
        ('reference = "autumn"', "reference must be a period"),
        ("reference = 2026-09-14", "drift.reference must be text"),
        ("floor = 0.8\nwindow = true", "drift.window must be day, week, month"),
    ],
)
def test_a_level_that_is_none_is_refused(lines: str, part: str, tmp_path: Path) -> None:
    (line,) = faults(tmp_path, f"[drift]\n{lines}\n")
    assert "noracle.toml: " in line
    assert part in line
