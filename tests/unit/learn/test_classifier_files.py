"""Saved classifiers and killed fits."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the learn extra is not installed")
pytest.importorskip("sklearn", reason="the learn extra is not installed")

from torch import nn  # noqa: E402

from noracle.errors import ArgumentError  # noqa: E402
from noracle.learn.classifier import ComplementaryClassifier  # noqa: E402
from noracle.learn.transition import Transition, count_transition  # noqa: E402

SRC = Path(__file__).parents[3] / "src"
RNG = np.random.default_rng(0)
X = RNG.normal(size=(90, 5)).astype(np.float32)
TRUTH = RNG.integers(0, 3, 90)
SAID = (TRUTH + 1 + RNG.integers(0, 2, 90)) % 3
T = Transition([[0.0, 0.3, 0.7], [0.6, 0.1, 0.3], [0.5, 0.5, 0.0]])


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({}, np.arange(3)),
        (
            {"model": "mlp", "hidden": (7, 5), "loss": "fwd", "transition": T},
            np.array(["ä", "b", "c"]),
        ),
        (
            {"loss": "ure_nn", "loss_options": {"beta": 0.1}, "transition": T.matrix},
            np.array([1.0, 2.0, 5.0]),
        ),
        (
            {"loss": "cpe_t", "transition": T, "validation_share": 0.2, "patience": 2},
            np.array(["x", "y", "z"], dtype=object),
        ),
        ({"loss": "cpe_i", "classes": ["a", "b", "c"]}, np.array(["a", "b", "c"])),
        ({"loss": "scarce", "loss_options": {"prior": [0.2, 0.3, 0.5]}}, np.arange(3)),
        ({"loss": "fwd", "transition": count_transition(TRUTH, SAID, n_classes=3)}, np.arange(3)),
    ],
)
def test_what_was_saved_predicts_the_same_bits(tmp_path: Path, options, names) -> None:
    fitted = ComplementaryClassifier(epochs=3, **options).fit(X, names[SAID])
    fitted.save(tmp_path / "folder" / "m")
    read = ComplementaryClassifier.load(tmp_path / "folder" / "m")
    assert np.array_equal(read.predict_proba(X), fitted.predict_proba(X))
    assert np.array_equal(read.predict(X), fitted.predict(X))
    assert read.predict(X).dtype == fitted.predict(X).dtype
    assert read.score(X, names[SAID]) == fitted.score(X, names[SAID])
    assert np.array_equal(read.transition_.matrix, fitted.transition_.matrix)
    assert (read.transition_source_, read.transition_.oracle) == (
        fitted.transition_source_,
        fitted.transition_.oracle,
    )
    assert read.history_.rows == fitted.history_.rows
    assert np.array_equal(read.held_out_, fitted.held_out_)
    again = read.fit(X, names[SAID])
    assert np.array_equal(again.predict_proba(X), fitted.predict_proba(X))
    assert sorted(p.name for p in (tmp_path / "folder" / "m").iterdir()) == [
        "model.json",
        "weights.pt",
    ]


def test_saved_images_are_standardised_as_before(tmp_path: Path) -> None:
    shown = RNG.integers(0, 256, (40, 6, 6, 3)).astype(np.uint8)
    fitted = ComplementaryClassifier(epochs=2, model="mlp", hidden=(5,)).fit(
        shown, np.arange(40) % 3
    )
    fitted.save(tmp_path / "m")
    read = ComplementaryClassifier.load(tmp_path / "m")
    np.testing.assert_array_equal(read.predict_proba(shown), fitted.predict_proba(shown))
    assert np.array_equal(
        pickle.loads(pickle.dumps(fitted)).predict_proba(shown), fitted.predict_proba(shown)
    )


def test_a_module_must_be_passed_again(tmp_path: Path) -> None:
    fitted = ComplementaryClassifier(model=nn.Linear(5, 3), epochs=1).fit(X, SAID)
    fitted.save(tmp_path)
    with pytest.raises(ArgumentError, match="model must be passed to load"):
        ComplementaryClassifier.load(tmp_path)
    read = ComplementaryClassifier.load(tmp_path, model=nn.Linear(5, 3))
    assert np.array_equal(read.predict_proba(X), fitted.predict_proba(X))
    with pytest.raises(ArgumentError, match=r"weights\.pt must fit the model"):
        ComplementaryClassifier.load(tmp_path, model=nn.Linear(5, 4))


class Harm:
    def __reduce__(self):
        return (os.mkdir, (os.environ["HARM"],))


def test_files_that_do_not_belong_together_or_hold_code_are_refused(
    tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setenv("HARM", str(tmp_path / "harmed"))
    ComplementaryClassifier(epochs=1).fit(X, SAID).save(tmp_path / "a")
    ComplementaryClassifier(epochs=2).fit(X, SAID).save(tmp_path / "b")
    (tmp_path / "a" / "weights.pt").write_bytes((tmp_path / "b" / "weights.pt").read_bytes())
    with pytest.raises(ArgumentError, match=r"must be the file that model\.json names"):
        ComplementaryClassifier.load(tmp_path / "a")
    file = tmp_path / "b" / "weights.pt"
    torch.save({"model": Harm(), "context": {}}, file)
    state = json.loads((tmp_path / "b" / "model.json").read_text(encoding="utf-8"))
    state["weights"] = hashlib.sha256(file.read_bytes()).hexdigest()
    (tmp_path / "b" / "model.json").write_text(json.dumps(state), encoding="utf-8")
    with pytest.raises(ArgumentError, match=r"weights\.pt must fit"):
        ComplementaryClassifier.load(tmp_path / "b")
    assert not (tmp_path / "harmed").exists()
    with pytest.raises(ArgumentError, match="cannot be read"):
        ComplementaryClassifier.load(tmp_path / "nowhere")


CHILD = """
import os, signal, sys
import numpy as np, torch
from noracle.learn import loop as run
from noracle.learn.classifier import ComplementaryClassifier

torch.set_num_threads(1)
kill_at, out, file = int(sys.argv[1]), sys.argv[2], sys.argv[3]
rng = np.random.default_rng(0)
X, said = rng.normal(size=(200, 6)), rng.integers(0, 3, 200)
steps, step = [], run.Run._step
def counted(self, *args):
    steps.append(1)
    if len(steps) == kill_at:
        os.kill(os.getpid(), signal.SIGKILL)
    return step(self, *args)
run.Run._step = counted
fitted = ComplementaryClassifier(
    model="mlp", hidden=(8,), loss="fwd", transition="anchors", epochs=6, batch_size=32, lr=0.01, average=0.9, validation_share=0.2,
    patience=4, checkpoint=file)
fitted.fit(X, said)
state = {**fitted.model_.state_dict(), "T": torch.tensor(fitted.transition_.matrix), "steps": torch.tensor(len(steps))}
torch.save(state, out)
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL on this system")
def test_a_fit_that_was_killed_twice_ends_with_the_same_bits(tmp_path: Path) -> None:
    script = tmp_path / "child.py"
    script.write_text(CHILD, encoding="utf-8")

    def child(kill_at: int, name: str):
        command = [
            sys.executable,
            str(script),
            str(kill_at),
            str(tmp_path / f"{name}.end"),
            str(tmp_path / f"{name}.pt"),
        ]
        environment = {**os.environ, "PYTHONPATH": str(SRC), "OMP_NUM_THREADS": "1"}
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    whole = child(-1, "whole")
    assert whole.returncode == 0, whole.stderr[-2000:]
    assert (
        child(10, "killed").returncode == -signal.SIGKILL
    )  # while the first model of the anchors is trained
    assert (
        child(45, "killed").returncode == -signal.SIGKILL
    )  # while the classifier itself is trained
    assert (tmp_path / "killed.pt").exists()
    resumed = child(-1, "killed")
    assert resumed.returncode == 0, resumed.stderr[-2000:]
    a, b = (torch.load(tmp_path / f"{name}.end", weights_only=True) for name in ("whole", "killed"))
    assert a.pop("steps") > b.pop("steps")
    assert all(torch.equal(a[name], b[name]) for name in a)


def test_a_checkpoint_of_other_items_labels_losses_or_matrices_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "c.pt"
    options = {"epochs": 2, "checkpoint": file}
    first = ComplementaryClassifier(**options).fit(X, SAID)
    again = ComplementaryClassifier(**options).fit(X, SAID)
    assert np.array_equal(first.predict_proba(X), again.predict_proba(X))
    assert first.history_.rows == again.history_.rows  # read, not repeated
    other = X.copy()
    other[3, 2] += 1
    message = "checkpoint must come from the same items, labels, loss and transition"
    for items, said, weight, more in (
        (other, SAID, None, {}),
        (X, SAID[::-1], None, {}),
        (X, SAID, np.ones(90), {}),
        (X, SAID, None, {"loss": "scl_exp"}),
        (X, SAID, None, {"transition": T}),
    ):
        with pytest.raises(ArgumentError, match=message):
            ComplementaryClassifier(**options, **more).fit(items, said, sample_weight=weight)
    with pytest.raises(ArgumentError, match="with other settings"):
        ComplementaryClassifier(**{**options, "lr": 0.5}).fit(X, SAID)


def test_a_model_in_64_bits_is_saved_and_loaded_in_64_bits(tmp_path) -> None:
    X = np.repeat(np.eye(3), 20, axis=0)
    said = (np.repeat([0, 1, 2], 20) + 1 + np.arange(60) % 2) % 3
    fitted = ComplementaryClassifier(precision="fp64", loss="fwd", epochs=5).fit(X, said)
    assert {p.dtype for p in fitted.model_.parameters()} == {torch.float64}
    fitted.save(tmp_path / "model")
    again = ComplementaryClassifier.load(tmp_path / "model")
    assert {p.dtype for p in again.model_.parameters()} == {torch.float64}
    assert np.array_equal(again.decision_function(X), fitted.decision_function(X))
