"""A run that is killed goes on as if nothing had happened."""

from __future__ import annotations

import dataclasses
import os
import pickle
import signal
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="the learn extra is not installed")

from torch import nn  # noqa: E402

from noracle.errors import ArgumentError  # noqa: E402
from noracle.learn.loop import Batches, Settings, read_checkpoint, train, write_checkpoint  # noqa: E402  # noqa: E402

SRC = Path(__file__).parents[3] / "src"

# Everything that has state: views drawn at random, dropout, batch statistics, targets, optimiser,
# schedule, average, best weights.
CHILD = """
import io, os, signal, sys
import torch
from torch import nn
from noracle.learn import loop as checkpoint
from noracle.learn.batches import Views
from noracle.learn.consistency import Consistency
from noracle.learn.loop import Batches, Settings, train
from noracle.learn.losses import label_mask

how, out, file = sys.argv[1:]
torch.set_num_threads(1)
torch.manual_seed(0)
images = torch.randint(0, 256, (70, 8, 8, 1), dtype=torch.uint8)
model = nn.Sequential(
    nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Dropout(0.3), nn.Linear(144, 3))
recipe = Consistency(label_mask(torch.arange(70) % 3, 3), Views.of(images), delay=3, ramp=10)

def die():
    os.kill(os.getpid(), signal.SIGKILL)

if how == "in-a-step":  # the second batch of the fourth epoch
    calls = []
    forward = recipe.forward
    recipe.forward = lambda *a: (calls.append(1), die() if len(calls) == 17 else None, forward(*a))[2]
if how == "in-a-write":  # half of the file is there
    save, written = torch.save, []
    def half(state, file):
        written.append(1)
        if len(written) < 2:
            return save(state, file)
        whole = io.BytesIO()
        save(state, whole)
        file.write(whole.getvalue()[: len(whole.getvalue()) // 2])
        file.flush()
        die()
    checkpoint.torch.save = half
if how == "before-the-rename":
    fsync, synced = os.fsync, []
    checkpoint.os.fsync = lambda f: (fsync(f), synced.append(1), die() if len(synced) == 2 else None)

settings = Settings(epochs=8, batch_size=16, lr=1e-2, schedule="one-cycle", average=0.9, patience=3)
scores = {1: 1.0, 2: 5.0, 3: 2.0, 4: 6.0, 5: 3.0, 6: 7.0, 7: 1.0, 8: 1.0}
def validate(m):
    return scores[len(history_rows) + 1]
history_rows = []
if os.path.exists(file):
    history_rows.extend(torch.load(file, weights_only=True)["history"])
progress = lambda epoch, row: history_rows.append(row)
history = train(
    model, Batches(items=images, labels=torch.arange(70)), recipe, settings, validate=validate, checkpoint=file, progress=progress)
rows = [{k: v for k, v in row.items() if k != "seconds"} for row in history.rows]
torch.save({"model": model.state_dict(), "recipe": recipe.state_dict(), "rows": rows}, out)
"""


def child(how: str, folder: Path, name: str) -> tuple[int, Path]:
    out = folder / f"{name}.end"
    script = folder / "child.py"
    script.write_text(CHILD)
    environment = {**os.environ, "PYTHONPATH": str(SRC), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(script), how, str(out), str(folder / f"{name}.pt")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode in (0, -signal.SIGKILL), done.stderr[-2000:]
    return done.returncode, out


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL on this system")
def test_runs_killed_in_a_step_in_a_write_and_before_the_rename_end_with_the_same_bits(
    tmp_path: Path,
) -> None:
    code, whole = child("never", tmp_path, "whole")
    assert code == 0
    reached = []
    for how in ("in-a-step", "in-a-write", "before-the-rename"):
        code, _ = child(how, tmp_path, "killed")
        assert code == -signal.SIGKILL
        reached.append(torch.load(tmp_path / "killed.pt", weights_only=True)["epoch"])
    assert reached == [3, 4, 5]
    assert (tmp_path / ".killed.pt.part").exists()
    code, resumed = child("never", tmp_path, "killed")
    assert code == 0
    a, b = (torch.load(path, weights_only=True) for path in (whole, resumed))
    assert a["rows"] == b["rows"]
    assert len(a["rows"]) == 8
    for part in ("model", "recipe"):
        assert all(torch.equal(a[part][name], b[part][name]) for name in a[part])


def ingredients():
    torch.manual_seed(0)
    x, y = torch.randn(40, 3), torch.arange(40) % 2
    objective = lambda model, items, labels, weight: nn.functional.cross_entropy(  # noqa: E731
        model(items), labels
    )
    return nn.Linear(3, 2), Batches(items=x, labels=y), objective


def test_a_finished_run_is_read_and_not_repeated(tmp_path: Path) -> None:
    model, data, objective = ingredients()
    settings, file = Settings(epochs=3, average=0.5), tmp_path / "new folder" / "c.pt"
    first = train(model, data, objective, settings, checkpoint=file)
    again, _, _ = ingredients()
    heard = []
    second = train(
        again,
        data,
        objective,
        settings,
        checkpoint=str(file),
        progress=lambda e, row: heard.append(e),
    )
    assert heard == []
    assert first.rows == second.rows
    assert torch.equal(model.weight, again.weight)


def test_other_settings_data_or_models_are_refused_and_named(tmp_path: Path) -> None:
    model, data, objective = ingredients()
    settings, file = Settings(epochs=2), tmp_path / "c.pt"
    train(model, data, objective, settings, checkpoint=file)
    before = file.read_bytes()
    with pytest.raises(ArgumentError, match=r"with other settings \(lr 0.001, now 0.5\)"):
        train(model, data, objective, dataclasses.replace(settings, lr=0.5), checkpoint=file)
    with pytest.raises(ArgumentError, match=r"with other n_items \(40, now 39\)"):
        train(
            model,
            Batches(items=data.items[1:], labels=data.labels[1:]),
            objective,
            settings,
            checkpoint=file,
        )
    with pytest.raises(
        ArgumentError, match=r"with other shapes \(model.weight \[2, 3\], now \[4, 3\]"
    ):
        train(nn.Linear(3, 4), data, objective, settings, checkpoint=file)
    assert file.read_bytes() == before


def test_a_file_that_is_no_checkpoint_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "c.pt"
    for content in (b"", b"not a checkpoint", b"PK\x03\x04 half a zip"):
        file.write_bytes(content)
        with pytest.raises(ArgumentError, match="cannot be read"):
            read_checkpoint(file, same={})
    torch.save([1, 2], file)
    with pytest.raises(ArgumentError, match="checkpoint must be a file that training wrote"):
        read_checkpoint(file, same={})


class Harm:
    def __reduce__(self):
        return (os.mkdir, (str(Path(os.environ["HARM_FOLDER"]) / "harmed"),))


def test_a_checkpoint_cannot_run_code(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("HARM_FOLDER", str(tmp_path))
    file = tmp_path / "c.pt"
    file.write_bytes(pickle.dumps(Harm(), protocol=2))
    with pytest.raises(ArgumentError, match="cannot be read"):
        read_checkpoint(file, same={})
    torch.save({"schema": "checkpoint/1", "x": Harm()}, file)
    with pytest.raises(ArgumentError, match="cannot be read"):
        read_checkpoint(file, same={})
    assert not (tmp_path / "harmed").exists()


def test_nothing_is_read_where_there_is_no_file(tmp_path: Path) -> None:
    assert read_checkpoint(tmp_path / "none.pt", same={}) is None
    write_checkpoint(tmp_path / "some.pt", {"epoch": 3})
    assert read_checkpoint(tmp_path / "some.pt", same={"epoch": 3}) == {
        "schema": "checkpoint/1",
        "epoch": 3,
    }
    assert [p.name for p in tmp_path.iterdir()] == ["some.pt"]
