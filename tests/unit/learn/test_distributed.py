"""Two processes on one machine, started by torchrun, with the gloo backend."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="the learn extra is not installed")
if not (torch.distributed.is_available() and torch.distributed.is_gloo_available()):
    pytest.skip("this torch has no gloo", allow_module_level=True)

from noracle.learn.batches import Views  # noqa: E402
from noracle.learn.consistency import Consistency  # noqa: E402
from noracle.learn.loop import Team, join_team, own_device  # noqa: E402
from noracle.learn.losses import label_mask  # noqa: E402

SRC = Path(__file__).parents[3] / "src"

CHILD = """
import os, sys
from pathlib import Path
import torch
from torch import nn
from noracle.learn import loop as run
from noracle.learn.batches import Views
from noracle.learn.consistency import Consistency, Recipe
from noracle.learn.loop import Batches, Settings, all_logits, plain_objective, train
from noracle.learn.losses import get_loss, label_mask
from noracle.learn.models import make_model
from noracle.learn.transition import Transition

folder, rank = Path(sys.argv[1]), int(os.environ.get("RANK", 0))
torch.set_num_threads(1)
end = {"writes": 0, "heard": 0}
write = run.write_checkpoint
def counted(*a):
    end["writes"] += 1
    write(*a)
run.write_checkpoint = counted

# A linear model: two processes must take the steps of one.
g = torch.Generator().manual_seed(0)
y = torch.arange(120) % 3
x = torch.randn(120, 5, generator=g) + 3 * torch.eye(3, 5)[y]
mask = label_mask((y + torch.randint(1, 3, (120,), generator=g)) % 3, 3)
model = make_model("linear", shape=(5,), n_outputs=3, seed=rank)  # the first process decides the first weights
loss = get_loss("scl_nl")
objective = plain_objective(loss, loss.make_context(Transition.uniform(3), ruled_out=mask))
history = train(
    model, Batches(items=x, labels=mask), objective, Settings(epochs=4, batch_size=20, lr=0.05, optimiser="sgd"),
    checkpoint=folder / f"linear{os.environ['WORLD_SIZE']}.pt", progress=lambda e, row: end.__setitem__("heard", e))
end |= {"linear": model.state_dict(), "loss": history.column("loss")}
end["right"] = float((all_logits(model, x).argmax(dim=1) == y).double().mean())

# Batch statistics, averages, targets, early stopping with a score that differs between processes; an odd number of items.
images = torch.randint(0, 256, (71, 8, 8, 1), dtype=torch.uint8, generator=g)
model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Dropout(0.3), nn.Linear(144, 3))
recipe = Consistency(label_mask(torch.arange(71) % 3, 3), Views.of(images), delay=0, ramp=4)
scores = iter([1.0, 2.0, 1.5, 1.0, 9.0] if rank == 0 else [5.0, 4.0, 3.0, 2.0, 1.0])
settings = Settings(epochs=5, batch_size=16, average=0.9, patience=2)
history = train(model, Batches(items=images, labels=torch.arange(71)), recipe, settings, validate=lambda m: next(scores))
end |= {"net": model.state_dict(), "recipe": recipe.state_dict(), "epochs": len(history.rows)}

# All steps, with a T that is estimated on the way.
model = nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, 3))
own = Recipe(model=model, items=images, views=Views.of(images), ruled_out=label_mask(torch.arange(71) % 3, 3),
             settings=Settings(epochs=3, batch_size=16), contrast=2)
own.run()
end["estimated"] = {**model.state_dict(), "T": own.start_head()[0]}
torch.save(end, folder / f"end{rank}of{os.environ['WORLD_SIZE']}.pt")
"""


def launch(folder: Path, size: int) -> list[dict]:
    script = folder / "child.py"
    script.write_text(CHILD)
    environment = {**os.environ, "PYTHONPATH": str(SRC), "OMP_NUM_THREADS": "1"}
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        f"--nproc-per-node={size}",
        str(script),
        str(folder),
    ]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return [torch.load(folder / f"end{rank}of{size}.pt", weights_only=True) for rank in range(size)]


@pytest.fixture(scope="module")
def ends(tmp_path_factory):
    folder = tmp_path_factory.mktemp("team")
    return launch(folder, 2), launch(folder, 1)[0], launch(folder, 2)


def same(a: dict, b: dict) -> bool:
    return all(torch.equal(a[name], b[name]) for name in a)


@pytest.mark.slow
def test_both_processes_end_with_the_same_bits(ends) -> None:
    (first, second), _, _ = ends
    for part in ("linear", "net", "recipe", "estimated"):
        assert same(first[part], second[part]), part
    T = first["estimated"]["T"]
    torch.testing.assert_close(T.sum(dim=1), torch.ones(3))
    assert (T - T.mean(dim=0)).abs().max() > 1e-3
    assert first["loss"] == second["loss"]


@pytest.mark.slow
def test_two_processes_take_the_steps_of_one(ends) -> None:
    (first, _), alone, _ = ends
    for name, value in alone["linear"].items():
        torch.testing.assert_close(first["linear"][name], value, atol=1e-5, rtol=1e-4)
    assert first["loss"] == pytest.approx(alone["loss"], rel=1e-4)
    assert first["right"] > 0.9


@pytest.mark.slow
def test_only_the_first_process_writes_and_tells(ends) -> None:
    (first, second), _, _ = ends
    assert (first["writes"], first["heard"]) == (4, 4)
    assert (second["writes"], second["heard"]) == (0, 0)


@pytest.mark.slow
def test_the_score_of_the_first_process_decides_when_to_stop(ends) -> None:
    (first, second), _, _ = ends
    assert first["epochs"] == second["epochs"] == 4


@pytest.mark.slow
def test_targets_of_all_processes_are_put_together(ends) -> None:
    """One of 71 items is left out in each of four epochs, another each time, so all were moved."""
    (first, _), alone, _ = ends
    start = (~label_mask(torch.arange(71) % 3, 3)).float() / 2
    moved = (first["recipe"]["target"] != start).any(dim=1)
    assert moved.all()
    assert first["recipe"]["step"] == 4 * 5
    assert (alone["recipe"]["target"] != start).any()


@pytest.mark.slow
def test_a_second_start_reads_the_checkpoint_of_the_first_process(ends) -> None:
    (first, _), _, again = ends
    for end in again:
        assert same(first["linear"], end["linear"])
        assert (end["writes"], end["heard"]) == (0, 0)


class Pair(Team):
    """A team of two in one process: what the other would add is given."""

    def __init__(self, *others: torch.Tensor) -> None:
        object.__setattr__(self, "others", list(others))
        object.__setattr__(self, "size", 2)

    def sum_(self, tensors) -> None:
        for t in tensors:
            t += self.others.pop(0)

    def mean_(self, tensors) -> None:
        for t in tensors:
            t += self.others.pop(0)
            t /= 2


def test_a_target_comes_from_the_process_that_moved_it() -> None:
    images = torch.zeros(4, 8, 8, 1, dtype=torch.uint8)
    recipe = Consistency(label_mask(torch.tensor([0, 0, 0, 0]), 3), Views.of(images))
    recipe.target[0] = torch.tensor([0.0, 0.9, 0.1])
    recipe.moved[0] = True
    theirs = torch.zeros(4, 3)
    theirs[2] = torch.tensor([0.0, 0.2, 0.8])
    recipe.after_epoch(Pair(theirs, torch.tensor([0.0, 0, 1, 0]), torch.tensor([1.0, 0, 0])))
    expected = [[0, 0.9, 0.1], [0, 0.5, 0.5], [0, 0.2, 0.8], [0, 0.5, 0.5]]
    torch.testing.assert_close(recipe.target, torch.tensor(expected))
    torch.testing.assert_close(recipe.seen, torch.tensor([2 / 3, 1 / 6, 1 / 6]))
    assert not recipe.moved.any()


@pytest.mark.parametrize(("n", "size"), [(10, 2), (11, 2), (11, 3), (2, 2), (5, 1)])
def test_shares_are_equal_and_disjoint(n: int, size: int) -> None:
    order = torch.randperm(n)
    shares = [Team(rank=rank, size=size).share_of(order) for rank in range(size)]
    assert {len(s) for s in shares} == {n // size}
    assert len(torch.cat(shares).unique()) == n - n % size


def test_without_torchrun_there_is_a_team_of_one(monkeypatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "4")  # set by something else
    team = join_team(torch.device("cpu"))
    assert (team.rank, team.size) == (0, 1)
    assert team.from_first(3) == 3
    team.wait()
    assert own_device().type in ("cpu", "cuda")
