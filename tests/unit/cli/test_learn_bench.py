"""``noracle learn bench``: tables out of files, a journal that goes on, and its small language of
labels.
"""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="the learn extra is not installed")
pytest.importorskip("sklearn", reason="the learn extra is not installed")

from sklearn.datasets import load_digits

from noracle.cli._learn_bench import parse_labels
from noracle.errors import ArgumentError
from tests.unit.cli.conftest import CANARY, Ended, Run

QUICK = [
    "--epochs",
    2,
    "--select-epochs",
    1,
    "--every",
    1,
    "--batch-size",
    64,
    "--device",
    "cpu",
    "--hidden",
    16,
]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Digits in one file and in two, and a table of texts."""
    folder = tmp_path_factory.mktemp("bench")
    x, y = load_digits(return_X_y=True)
    rng = np.random.default_rng(0)
    named = np.where(rng.random((len(y), 3)) < 0.2, rng.integers(10, size=(len(y), 3)), y[:, None])
    said = (y + 1 + rng.integers(9, size=len(y))) % 10
    rows = {"digits": slice(0, 900), "d_train": slice(0, 700), "d_test": slice(700, 900)}
    for name, part in rows.items():
        np.savez(
            folder / f"{name}.npz",
            features=x[part] / 16,
            label=y[part],
            annotators=named[part],
            ruled_out=said[part],
        )
    words = ("goal match team", "court judge law", "vote party poll")
    with (folder / "notes.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "label", "ann1", "ann2"])
        for i in range(240):
            k = int(rng.integers(3))
            text = " ".join(rng.choice([*words[k].split(), "the", "and"], size=6))
            writer.writerow(
                [
                    f"{CANARY} {text}",
                    "abc"[k],
                    "abc"[k],
                    "abc"[int(rng.integers(3))] if i % 5 else "",
                ]
            )
    return {path.stem: path for path in folder.iterdir()}


def ran(ended: Ended) -> Ended:
    assert ended.code == 0, ended
    return ended


def refused(ended: Ended) -> str:
    assert (ended.code, ended.out) == (2, ""), ended
    assert ended.err.count("\n") == 1
    return ended.err


def test_a_table_as_text_json_and_page(
    noracle: Run, files: dict[str, Path], tmp_path: Path
) -> None:
    page = tmp_path / "study.html"
    command = [
        "learn",
        "bench",
        files["digits"],
        "--algorithm",
        "SCL-NL,FWD-R,supervised",
        "--labels",
        "uniform,people",
        "--labels",
        "people:iid",
        "--lr",
        0.01,
        "--lr",
        0.001,
        "--seeds",
        2,
        "--rule",
        "accuracy",
        "--rule",
        "scel",
        *QUICK,
    ]
    ended = ran(noracle(*command, "--html", page))
    assert ended.err == ""
    assert (
        "study of 'digits' by accuracy    18 of 18 runs    ORACLE: the rule looks at true labels"
        in ended.out
    )
    assert "study of 'digits' by scel    18 of 18 runs\n" in ended.out
    assert "people:iid − people" in ended.out
    assert "uniform · accuracy  uniform · scel" in ended.out
    assert "FWD-R (oracle)" in ended.out
    assert "SCL-NL (oracle)" not in ended.out
    journal = tmp_path / "study.jsonl"
    lines = journal.read_text(encoding="utf-8")
    text = page.read_text(encoding="utf-8")
    assert (
        "mean ± standard deviation over 2 seeds; learning rate and epoch by accuracy on held-out true labels (an oracle)"
        in text
    )
    assert "±" in text
    assert "computed with the true labels of the files" in text
    assert "without an answer key" not in text
    again = ran(noracle(*command, "--journal", journal, "--json"))
    assert journal.read_text(encoding="utf-8") == lines
    found = again.json
    assert found["schema"] == "study/1"
    assert [(t["data"], t["rule"]) for t in found["tables"]] == [
        ("digits", "accuracy"),
        ("digits", "scel"),
    ]
    rows = found["tables"][1]["rows"]
    assert len(rows) == 9
    assert {(r["algorithm"], r["oracle"]) for r in rows} == {
        ("SCL-NL", False),
        ("FWD-R", True),
        ("supervised", True),
    }
    assert all(r["n_seeds"] == 2 and r["mean"] is not None for r in rows)
    shown = f"{rows[0]['mean']:.2f} ± {rows[0]['sd']:.2f}"
    assert shown in ended.out
    assert shown in text


def test_several_files_with_their_tests(
    noracle: Run, files: dict[str, Path], tmp_path: Path
) -> None:
    both = [files["d_train"], files["digits"], "--test", files["d_test"], "--test", files["d_test"]]
    options = [
        "--algorithm",
        "SCL-NL",
        "--lr",
        0.01,
        "--labels",
        "given",
        "--journal",
        tmp_path / "j",
        "--json",
        *QUICK,
    ]
    tables = ran(noracle("learn", "bench", *both, *options)).json["tables"]
    assert [(t["data"], t["counts"]["items"], t["counts"]["test"]) for t in tables] == [
        ("d", 700, 200),
        ("digits", 900, 200),
    ]
    assert "once for each FILE" in refused(noracle("learn", "bench", *both[:4], *options))


def test_texts_and_people_in_columns(noracle: Run, files: dict[str, Path], tmp_path: Path) -> None:
    options = [
        "--algorithm",
        "SCL-NL,supervised",
        "--lr",
        0.05,
        "--labels",
        "people:labels=2",
        "--people",
        "ann1,ann2",
        "--rule",
        "zero_one",
    ]
    ended = ran(
        noracle(
            "learn",
            "bench",
            files["notes"],
            "--items",
            "text",
            *options,
            *QUICK,
            "--journal",
            tmp_path / "j",
            "--json",
        )
    )
    rows = {r["algorithm"]: r for r in ended.json["tables"][0]["rows"]}
    assert rows["supervised"]["mean"] > 60
    assert rows["SCL-NL"]["noise"] > 0
    assert CANARY not in (tmp_path / "j").read_text(encoding="utf-8")
    assert CANARY not in ended.out


def test_ctrl_c_keeps_the_trials_that_ended(files: dict[str, Path], tmp_path: Path) -> None:
    journal = tmp_path / "j.jsonl"
    command = [
        sys.executable,
        "-m",
        "noracle",
        "learn",
        "bench",
        files["digits"],
        "--algorithm",
        "SCL-NL",
        "--lr",
        0.01,
        "--seeds",
        500,
        "--journal",
        journal,
        *QUICK,
    ]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    running = subprocess.Popen(
        [str(c) for c in command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=env,
    )
    began = time.monotonic()
    while not journal.exists() or journal.read_text(encoding="utf-8").count("\n") < 2:
        assert running.poll() is None, running.communicate()
        assert time.monotonic() - began < 90
        time.sleep(0.05)
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=60)
    assert (running.returncode, out, err) == (130, "", "interrupted\n")
    lines = [json.loads(line) for line in journal.read_text(encoding="utf-8").splitlines()]
    assert 2 <= len(lines) < 500
    assert [line["trial"]["seed"] for line in lines] == list(range(len(lines)))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("uniform", {}),
        ("noisy:0.1", {"way": "noisy", "noise": 0.1}),
        ("noisy:noise=0.1:evened", {"way": "noisy", "noise": 0.1, "ablation": "evened"}),
        ("noisy:iid:0.2", {"way": "noisy", "noise": 0.2, "ablation": "iid"}),
        ("strong:noise=0.05:removed=0.5", {"way": "strong", "noise": 0.05, "removed": 0.5}),
        ("people:labels=3:removed=1", {"way": "people", "n_labels": 3, "removed": 1.0}),
        ("given:iid", {"way": "given", "ablation": "iid"}),
    ],
)
def test_labels(text: str, found: dict[str, Any]) -> None:
    setting = parse_labels(text)
    default = {"way": "uniform", "noise": 0.0, "ablation": "none", "removed": 0.0, "n_labels": 1}
    assert {name: getattr(setting, name) for name in default} == {**default, **found}
    assert setting.name == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "other",
        "noisy",
        "noisy:x",
        "uniform:0.1",
        "uniform:noise=0.1",
        "weak:iid:evened",
        "weak:iid=1",
        "uniform:removed",
        "uniform:removed=2",
        "uniform:labels=1.5",
        "given:noise=0.1",
        "noisy:1.0",
        "uniform:labels=0",
    ],
)
def test_labels_that_mean_nothing_are_refused(text: str) -> None:
    with pytest.raises(ArgumentError):
        parse_labels(text)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--algorithm", "unknown"], "SCL-NL"),
        (["--labels", "unknown"], "--labels"),
        (["--rule", "best"], "--rule"),
        (["--holdout", 0], "held out"),
        (["--test-share", 0], "--test-share"),
        (["--label", "other"], "label"),
        (["--labels", "uniform", "--labels", "uniform"], "labels"),
        (["--html", "missing/folder.html"], "--html"),
        (["--journal", "missing/j"], "--journal"),
        (["--hidden", "x"], "--hidden"),
    ],
)
def test_faults_are_one_line_before_any_trial(
    noracle: Run,
    files: dict[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: list[Any],
    words: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert words in refused(
        noracle("learn", "bench", files["digits"], "--algorithm", "SCL-NL", *QUICK, *options)
    )
    assert list(tmp_path.iterdir()) == []


def test_people_need_people_and_a_study_needs_the_truth(
    noracle: Run, files: dict[str, Path], tmp_path: Path
) -> None:
    options = [*QUICK, "--journal", tmp_path / "j", "--algorithm", "SCL-NL"]
    assert "--people" in refused(
        noracle("learn", "bench", files["notes"], "--items", "text", "--labels", "people", *options)
    )
    bare = tmp_path / "bare.npz"
    np.savez(bare, features=np.zeros((5, 2)), ruled_out=np.arange(5) % 3)
    assert "true classes" in refused(noracle("learn", "bench", bare, *options))


def test_columns_of_real_labels(noracle: Run, files: dict[str, Path], tmp_path: Path) -> None:
    """Labels that a machine gave to the items of FILE, and draws from a printed matrix."""
    rng = np.random.default_rng(1)
    y = np.load(files["digits"])["label"]
    said = (y[:, None] + 1 + rng.integers(9, size=(900, 3))) % 10
    T = np.full((10, 10), 0.97 / 9)
    np.fill_diagonal(T, 0.03)
    np.savez(tmp_path / "real.npz", ruled_out=said.astype(np.int8), T_clcifar10=T.round(4))
    study = [
        *("learn", "bench", files["digits"], "--real", tmp_path / "real.npz"),
        *("--labels", "acl,acl:labels=3,clcifar10,uniform", "--labels", "clcifar10:labels=2"),
        *("--algorithm", "SCL-NL", "--lr", 0.01, "--json", *QUICK),
        *("--journal", tmp_path / "study.jsonl"),
    ]
    found = json.loads(ran(noracle(*study)).out)
    rows = {row["labels"]: row for row in found["tables"][0]["rows"]}
    assert rows["acl"]["noise"] == rows["acl:labels=3"]["noise"] == 0
    assert set(rows) == {"acl", "acl:labels=3", "clcifar10", "uniform", "clcifar10:labels=2"}
    few = tmp_path / "few.npz"
    np.savez(few, ruled_out=said[:5])
    for real, labels, rule in (
        (
            few,
            "acl",
            "--labels acl must come with --real, an npz whose ruled_out has 900 rows; got 5",
        ),
        (None, "acl", "--labels acl must come with --real"),
        (None, "clcifar10", "--labels must begin with"),
        (files["notes"], "acl", "--real must be an npz file of arrays"),
    ):
        more = [] if real is None else ["--real", real]
        wrong = noracle("learn", "bench", files["digits"], *more, "--labels", labels, *QUICK)
        assert rule in refused(wrong)
