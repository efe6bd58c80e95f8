"""``noracle learn fit``, ``predict`` and ``analyse`` on files."""

from __future__ import annotations

import csv
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch", reason="the learn extra is not installed")
pytest.importorskip("sklearn", reason="the learn extra is not installed")

from noracle.learn.labels import draw_ruled_out
from noracle.learn.transition import Transition
from tests.unit.cli.conftest import CANARY, Ended, Run

CLASSES = ("law", "news", "sport")
WORDS = {"law": "court judge verdict", "news": "minister election vote", "sport": "goal match team"}


def write_notes(path: Path, *, n: int = 300, seed: int = 0) -> Path:
    """Texts of three classes, one ruled-out class each; the true class in a column of its own."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(3, size=n)
    said = draw_ruled_out(truth, n_classes=3, rng=rng)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["item", "text", "ruled_out", "label"])
        for i in range(n):
            chosen = rng.choice([*WORDS[CLASSES[truth[i]]].split(), "today", "and", "some"], size=8)
            writer.writerow(
                [f"n{i}", f"{CANARY} {' '.join(chosen)}", CLASSES[said[i]], CLASSES[truth[i]]]
            )
    return path


@pytest.fixture(scope="module")
def notes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_notes(tmp_path_factory.mktemp("notes") / "notes.csv")


FIT = ["--epochs", 30, "--lr", 0.05]


def fitted(noracle: Run, notes: Path, out: Path, *options: object) -> Ended:
    ended = noracle("learn", "fit", notes, "--items", "text", "--out", out, *FIT, *options)
    assert ended.code == 0, ended
    return ended


def refused(ended: Ended) -> str:
    assert ended.code == 2, ended
    assert ended.out == ""
    assert ended.err.splitlines(keepends=True) == [ended.err], ended.err
    assert CANARY not in ended.err
    return ended.err


def digest(folder: Path) -> str:
    """Of the weights as numbers: the file has the times of its making in it."""
    import torch

    state = torch.load(folder / "weights.pt", weights_only=True)
    return hashlib.sha256(
        b"".join(t.numpy().tobytes() for _, t in sorted(state["model"].items()))
    ).hexdigest()


def test_fit_predict_estimate_without_a_true_label(
    noracle: Run, notes: Path, tmp_path: Path
) -> None:
    ended = fitted(noracle, notes, tmp_path / "m", "--validation-share", 0.3)
    assert "no true label used" in ended.out
    assert "accuracy of 'm'" in ended.out
    assert ended.err == ""
    answers = tmp_path / "answers.csv"
    assert noracle("learn", "predict", tmp_path / "m", notes, "--out", answers).code == 0
    with notes.open(encoding="utf-8") as file:
        rows = {row["item"]: row for row in csv.DictReader(file)}
    with answers.open(encoding="utf-8") as file:
        said = list(csv.DictReader(file))
    assert list(said[0]) == ["item", "system", "answer"]
    assert len(said) == 300
    right = np.mean([row["answer"] == rows[row["item"]]["label"] for row in said])
    assert right > 0.95
    judgements = tmp_path / "judgements.csv"
    judgements.write_text(
        "item,class,verdict\n"
        + "".join(f"{item},{row['ruled_out']},no\n" for item, row in rows.items()),
        encoding="utf-8",
    )
    ended = noracle(
        "estimate",
        "--answers",
        answers,
        "--judgements",
        judgements,
        "--classes",
        ",".join(CLASSES),
        "--json",
        "--system",
        "m",
    )
    assert ended.code == 0, ended
    assert ended.json["low"] <= right <= ended.json["high"]
    assert ended.json["value"] > 0.9


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
def test_answers_in_every_format_carry_chances_that_sum_to_one(
    noracle: Run, notes: Path, tmp_path: Path, suffix: str
) -> None:
    from noracle.evidence.frames import fetch, open_frames

    fitted(noracle, notes, tmp_path / "m")
    out = tmp_path / f"answers{suffix}"
    ended = noracle(
        "learn",
        "predict",
        tmp_path / "m",
        notes,
        "--out",
        out,
        "--chances",
        "--system",
        "ours",
        "--json",
    )
    assert ended.code == 0, ended
    assert ended.json["n_items"] == 300
    assert sum(ended.json["classes"].values()) == 300
    frames, connection = open_frames({"answers": out})
    assert frames["answers"].collect_schema().names() == [
        "item",
        "system",
        "answer",
        *(f"chance_{c}" for c in CLASSES),
    ]
    for _, system, answer, *chances in fetch(frames["answers"]):
        assert system == "ours"
        assert sum(chances) == pytest.approx(1, abs=1e-5)
        assert CLASSES[int(np.argmax(chances))] == answer
    del connection


def test_json_and_page_show_where_T_came_from_and_no_text(
    noracle: Run, notes: Path, tmp_path: Path
) -> None:
    page = tmp_path / "page.html"
    ended = fitted(noracle, notes, tmp_path / "m", "--json", "--html", page)
    said = ended.json
    assert said["schema"] == "training/1"
    counts = {
        "items": 300,
        "trained": 270,
        "stopping": 0,
        "held_out": 30,
        "ruled_out": 270,
        "labels": 0,
        "unlabelled": 0,
        "words": 17,
    }
    assert said["counts"] == counts
    assert said["transition"]["source"] == "uniform"
    assert said["transition"]["oracle"] is False
    assert (said["transition"]["condition"], said["transition"]["strength"]) == (
        pytest.approx(2),
        pytest.approx(1),
    )
    assert len(said["history"]) == 30
    assert said["history"][-1]["loss"] < said["history"][0]["loss"]
    assert said["validation"]["schema"] == "estimate/1"
    assert said["validation"]["counts"]["items"] == 30
    text = page.read_text(encoding="utf-8")
    assert "<svg" in text
    assert "Loss of every epoch" in text
    assert "no true label was seen" in text
    assert "://" not in re.sub(r"http://www\.w3\.org/[\w/]+", "", text)
    for output in (ended.out, text):
        assert CANARY not in output


def test_oracle_in_a_matrix_is_shown_everywhere(noracle: Run, notes: Path, tmp_path: Path) -> None:
    analysis = noracle("learn", "analyse", notes, "--label", "label", "--json")
    assert analysis.code == 0, analysis
    counted = tmp_path / "counted.json"
    counted.write_text(analysis.out, encoding="utf-8")
    ended = fitted(noracle, notes, tmp_path / "a", "--transition", counted)
    assert "ORACLE" in ended.out.splitlines()[0]
    own = tmp_path / "own.json"
    own.write_text(
        json.dumps({"matrix": Transition.uniform(3).matrix.tolist(), "oracle": True}),
        encoding="utf-8",
    )
    assert (
        fitted(noracle, notes, tmp_path / "b", "--transition", own, "--json").json["transition"][
            "oracle"
        ]
        is True
    )
    np.save(tmp_path / "given.npy", Transition.noisy(3, 0.1).matrix)
    said = fitted(
        noracle, notes, tmp_path / "c", "--transition", tmp_path / "given.npy", "--json"
    ).json
    assert said["transition"]["oracle"] is False
    assert said["transition"]["source"] == "given"
    assert said["transition"]["strength"] == pytest.approx(0.7)


def test_label_column_changes_nothing_unless_it_is_named(
    noracle: Run, notes: Path, tmp_path: Path
) -> None:
    lines = [line.rsplit(",", 1) for line in notes.read_text(encoding="utf-8").splitlines()]
    other = tmp_path / "other.csv"
    other.write_text(
        "\n".join([",".join(lines[0]), *(f"{line},law" for line, _ in lines[1:])]) + "\n",
        encoding="utf-8",
    )
    fitted(noracle, notes, tmp_path / "a")
    fitted(noracle, other, tmp_path / "b")
    assert digest(tmp_path / "a") == digest(tmp_path / "b")
    said = fitted(noracle, notes, tmp_path / "c", "--label", "label", "--json").json
    assert said["counts"]["labels"] == 300
    assert said["validation"] is None
    assert "held out" in said["reason"]
    assert digest(tmp_path / "c") != digest(tmp_path / "a")


def test_held_out_items_touch_neither_words_nor_weights(noracle: Run, tmp_path: Path) -> None:
    """Another text and another label at a held-out item leave the model as it was."""
    first = write_notes(tmp_path / "first.csv", n=60)
    said = fitted(noracle, first, tmp_path / "a", "--validation-share", 0.5, "--json").json
    assert said["counts"]["held_out"] == 30
    candidates = np.random.default_rng([0, 1]).permutation(60)
    lines = first.read_text(encoding="utf-8").splitlines()
    lines[1 + int(candidates[0])] = f"n{candidates[0]},quite other words,law,law"
    second = tmp_path / "second.csv"
    second.write_text("\n".join(lines) + "\n", encoding="utf-8")
    fitted(noracle, second, tmp_path / "b", "--validation-share", 0.5)
    assert digest(tmp_path / "a") == digest(tmp_path / "b")
    assert (tmp_path / "a" / "input.json").read_text() == (
        tmp_path / "b" / "input.json"
    ).read_text()


def test_prepared_texts_are_those_of_the_fitted_vectoriser(
    noracle: Run, notes: Path, tmp_path: Path
) -> None:
    from sklearn.feature_extraction.text import TfidfVectorizer

    from noracle.cli.learn import load_model

    fitted(noracle, notes, tmp_path / "m", "--validation-share", 0)
    made, classifier, names = load_model(tmp_path / "m", device="cpu")
    with notes.open(encoding="utf-8") as file:
        texts = [row["text"] for row in csv.DictReader(file)]
    expected = TfidfVectorizer(sublinear_tf=True, dtype=np.float32).fit_transform(texts)
    assert np.allclose(made.prepare(texts).toarray(), expected.toarray(), atol=1e-6)
    assert names == list(CLASSES)
    assert classifier.n_features_in_ == expected.shape[1]


def test_number_columns_are_scaled_as_in_training(noracle: Run, tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    truth = rng.integers(4, size=400)
    said = draw_ruled_out(truth, n_classes=4, rng=rng)
    x = np.stack(
        [
            1e6 + 1e4 * (truth // 2) + 1e2 * rng.normal(size=400),
            1e-3 * (truth % 2) + 1e-5 * rng.normal(size=400),
        ],
        axis=1,
    )
    rows = "".join(f"{a!r},{b!r},7,{s}\n" for (a, b), s in zip(x.tolist(), said, strict=True))
    path = tmp_path / "t.csv"
    path.write_text("u,v,constant,ruled_out\n" + rows, encoding="utf-8")
    ended = noracle(
        "learn",
        "fit",
        path,
        "--out",
        tmp_path / "m",
        "--model",
        "mlp",
        "--hidden",
        "20",
        "--epochs",
        60,
        "--lr",
        0.01,
        "--json",
    )
    assert ended.code == 0, ended
    out = tmp_path / "answers.csv"
    assert noracle("learn", "predict", tmp_path / "m", path, "--out", out).code == 0
    with out.open(encoding="utf-8") as file:
        answers = [int(row["answer"]) for row in csv.DictReader(file)]
    assert np.mean(np.array(answers) == truth) > 0.95
    short = tmp_path / "short.csv"
    short.write_text("u,v\n1,2\n", encoding="utf-8")
    assert "'constant'" in refused(noracle("learn", "predict", tmp_path / "m", short, "--out", out))


def test_images_in_npz(noracle: Run, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    truth = rng.integers(3, size=150)
    images = rng.integers(0, 40, (150, 6, 6, 1), dtype=np.uint8)
    images[np.arange(150), truth * 2] += 200
    np.savez(
        tmp_path / "i.npz",
        pixels=images,
        ruled_out=draw_ruled_out(truth, n_classes=3, rng=rng),
        classes=list(CLASSES),
    )
    line = [
        "learn",
        "fit",
        tmp_path / "i.npz",
        "--items",
        "pixels",
        "--out",
        tmp_path / "m",
        "--epochs",
        20,
        "--lr",
        0.02,
        "--patience",
        20,
        "--json",
    ]
    said = noracle(*line).json
    assert said["classes"] == list(CLASSES)
    assert "score" in said["history"][0]
    assert [said["counts"][name] for name in ("trained", "stopping", "held_out")] == [121, 14, 15]
    ended = noracle(
        "learn", "predict", tmp_path / "m", tmp_path / "i.npz", "--out", tmp_path / "a.csv"
    )
    assert ended.code == 0, ended
    answers = (tmp_path / "a.csv").read_text(encoding="utf-8").splitlines()[1:]
    assert answers[0].split(",")[:2] == ["0", "m"]
    assert (
        np.mean(
            [row.rsplit(",", 1)[1] == CLASSES[k] for row, k in zip(answers, truth, strict=True)]
        )
        > 0.9
    )


@pytest.mark.slow
def test_ctrl_c_then_kill_then_run_again_gives_the_same_weights(
    noracle: Run, notes: Path, tmp_path: Path
) -> None:
    """Interrupted, run again, killed, run again: it ends where an undisturbed run ends."""

    def line(out: str) -> list[str]:
        options = ["--epochs", "500", "--lr", "0.01", "--batch-size", "16", "--json"]
        return [
            "learn",
            "fit",
            str(notes),
            "--items",
            "text",
            "--out",
            str(tmp_path / out),
            *options,
        ]

    checkpoint = tmp_path / "stopped" / "checkpoint.pt"
    before = 0.0
    for stop, code in ((signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)):
        process = subprocess.Popen(
            [sys.executable, "-m", "noracle", *line("stopped")],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            end = time.monotonic() + 60
            while (
                not (checkpoint.exists() and checkpoint.stat().st_mtime > before)
                and time.monotonic() < end
            ):
                assert process.poll() is None
                time.sleep(0.02)
            process.send_signal(stop)
            out, err = process.communicate(timeout=60)
        finally:
            if process.poll() is None:
                process.kill()
        assert (process.returncode, out) == (code, "")
        assert err == ("interrupted\n" if stop == signal.SIGINT else "")
        assert not (tmp_path / "stopped" / "model.json").exists()
        before = checkpoint.stat().st_mtime
    for out in ("stopped", "whole"):
        ended = noracle(*line(out))
        assert ended.code == 0, ended
        assert [row["epoch"] for row in ended.json["history"]] == list(range(1, 501))
    assert digest(tmp_path / "stopped") == digest(tmp_path / "whole")


def test_folder_of_another_run_is_refused_and_left_as_it_was(
    noracle: Run, notes: Path, tmp_path: Path
) -> None:
    fitted(noracle, notes, tmp_path / "m")
    before = digest(tmp_path / "m")
    for other in (["--loss", "fwd"], ["--lr", "0.1"], ["--seed", "1"]):
        assert "checkpoint" in refused(
            noracle("learn", "fit", notes, "--items", "text", "--out", tmp_path / "m", *FIT, *other)
        )
    assert digest(tmp_path / "m") == before


def test_unfinished_or_broken_model_folder(noracle: Run, notes: Path, tmp_path: Path) -> None:
    line = ["learn", "predict", tmp_path / "m", notes, "--out", tmp_path / "a.csv"]
    assert "finished" in refused(noracle(*line))
    fitted(noracle, notes, tmp_path / "m")
    whole = (tmp_path / "m" / "input.json").read_text(encoding="utf-8")
    (tmp_path / "m" / "input.json").write_text(
        whole.replace('"law"', '"law", "more"'), encoding="utf-8"
    )
    assert "same model" in refused(noracle(*line))
    (tmp_path / "m" / "input.json").write_text(whole, encoding="utf-8")
    np.savez(tmp_path / "m" / "input.npz", idf=np.array([os.system], dtype=object))
    assert "same model" in refused(noracle(*line))
    assert not (tmp_path / "a.csv").exists()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("fit {notes} --out {folder}/m --items nothing", "must be columns"),
        ("fit {notes} --out {folder}/nowhere/m --items text", "--out must name a folder"),
        ("fit {notes} --out {notes} --items text", "--out must name a folder"),
        ("fit {folder}/nowhere.csv --out {folder}/m", "must name a file"),
        ("fit {notes} --out {folder}/m --items text --loss nonsense", "loss"),
        (
            "fit {notes} --out {folder}/m --items text --transition nonsense",
            "--transition must be uniform",
        ),
        (
            "fit {notes} --out {folder}/m --items text --transition {matrix}",
            "a row for each of the 3 classes; got 2",
        ),
        ("fit {notes} --out {folder}/m --items text --model resnet18", "image"),
        ("fit {notes} --out {folder}/m --items text --recipe consistency", "image"),
        ("fit {notes} --out {folder}/m --items text --epochs 0", "epochs"),
        ("fit {notes} --out {folder}/m --items text --validation-share 1", "--validation-share"),
        (
            "fit {notes} --out {folder}/m --items text --classes law,news",
            "must be one of the 2 classes",
        ),
        ("fit {notes} --out {folder}/m --items text --hidden a", "--hidden"),
        ("fit {notes} --out {folder}/m --items text --device nonsense", "device"),
        ("fit {labels} --out {folder}/m", "must hold items"),
        ("fit {items} --out {folder}/m", "must hold ruled-out classes"),
        ("fit {notes}", "--out"),
        ("predict {folder} {notes} --out {folder}/a.csv", "MODEL_DIR"),
        ("predict {folder} {notes} --out {folder}/a.txt", "must end in .csv"),
        ("analyse {items}", "must hold ruled-out classes"),
        ("analyse {notes} --trusted label", "--trusted must come with --label"),
        ("analyse {notes} --label label --trusted label", "true and false"),
        ("analyse {notes} --features text", "--features must be columns of numbers"),
        ("analyse {notes} --confidence 2", "confidence"),
        ("nonsense", "nonsense"),
    ],
)
def test_wrong_use_is_one_line_and_exit_code_2(
    noracle: Run, notes: Path, tmp_path: Path, line: str, message: str
) -> None:
    texts = {
        "matrix": "[[0.0, 1.0], [1.0, 0.0]]",
        "labels": "item,ruled_out\n1,a\n2,b\n",
        "items": "item,text\n1,hello\n2,there\n",
    }
    places = {name: tmp_path / f"{name}.{'json' if name == 'matrix' else 'csv'}" for name in texts}
    for name, text in texts.items():
        places[name].write_text(text, encoding="utf-8")
    ended = noracle(
        "learn", *(part.format(folder=tmp_path, notes=notes, **places) for part in line.split())
    )
    assert message in refused(ended)
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize("missing", ["torch", "sklearn"])
def test_missing_library_is_one_line(notes: Path, tmp_path: Path, missing: str) -> None:
    code = f"import sys; sys.modules[{missing!r}] = None; from noracle.cli import run; sys.exit(run(sys.argv[1:]))"
    for line in (
        ["fit", str(notes), "--out", str(tmp_path / "m")],
        ["predict", str(tmp_path), str(notes), "--out", str(tmp_path / "a.csv")],
    ):
        ended = subprocess.run(
            [sys.executable, "-c", code, "learn", *line],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        error = refused(Ended(ended.returncode, ended.stdout, ended.stderr))
        assert error.endswith("Install it with: pip install 'noracle[learn]'\n")
        assert {"torch": "torch", "sklearn": "scikit-learn"}[missing] in error


@pytest.mark.parametrize(
    "line",
    [["--help"], ["learn", "--help"], ["learn", "fit", "--help"], ["learn", "predict", "--help"]],
)
def test_help_does_not_import_torch(line: list[str]) -> None:
    code = f"import sys; from noracle.cli import run; run({line!r}); sys.exit(str({{'torch', 'sklearn', 'duckdb'}} & set(sys.modules)))"
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )
    assert ended.stderr == "set()\n"
    assert "learn" in ended.stdout


def test_analyse_counts_noise_where_labels_are_trusted(noracle: Run, tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    truth = rng.integers(4, size=800)
    said = draw_ruled_out(truth, transition=Transition.noisy(4, 0.1), rng=rng)
    trusted = rng.random(800) < 0.5
    who = rng.choice(["ann", "bob"], size=800)
    x = rng.normal(size=(800, 2))
    table = tmp_path / "t.csv"
    lines = [
        f"{x[i, 0]},{x[i, 1]},{said[i]},{truth[i] if trusted[i] else (truth[i] + 1) % 4},{'yes' if trusted[i] else 'no'},{who[i]}"
        for i in range(800)
    ]
    table.write_text("u,v,not_class,key,checked,who\n" + "\n".join(lines) + "\n", encoding="utf-8")
    page = tmp_path / "page.html"
    line = [
        "learn",
        "analyse",
        table,
        "--ruled-out",
        "not_class",
        "--label",
        "key",
        "--trusted",
        "checked",
        "--annotator",
        "who",
    ]
    ended = noracle(*line, "--features", "u,v", "--json", "--html", page)
    assert ended.code == 0, ended
    found = ended.json
    assert found["schema"] == "analysis/1"
    assert found["noise"]["value"] == pytest.approx(np.mean(said[trusted] == truth[trusted]))
    assert {row["name"] for row in found["annotators"]} == {"ann", "bob"}
    assert found["oracle"] is True
    assert len(found["checks"]) == 4
    assert "<svg" in page.read_text(encoding="utf-8")
    again = noracle(*line, "--features", "u,v", "--json", "--html", page)
    assert again.out == ended.out
    plain = noracle("learn", "analyse", table, "--ruled-out", "not_class", "--json").json
    assert plain["oracle"] is False
    assert plain["noise"]["value"] is None
