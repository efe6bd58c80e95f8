"""Claim: the training loop costs little more than a bare loop over tensors in memory.

    OMP_NUM_THREADS=1 python benchmarks/bench_learn.py [--record]

Fashion-MNIST (Debian package dataset-fashion-mnist), one uniform ruled-out label an image, an MLP with 500 hidden units, batches of 256,
one thread. The bare loop is the shortest that trains the same model with the same loss and optimiser. Both run in this process, in turn,
and each figure is the processor time of one epoch, the median over the rounds.
"""

from __future__ import annotations

import argparse
import gzip
import statistics
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from _common import cpu_seconds, emit

FOLDER = Path("/usr/share/datasets/fashion-mnist")
COMMAND = "OMP_NUM_THREADS=1 python benchmarks/bench_learn.py"


def fashion() -> tuple[np.ndarray, np.ndarray]:
    """Training images (n, 784) as floats 0 to 1, and their classes."""
    with gzip.open(FOLDER / "train-images-idx3-ubyte.gz") as file:
        images = np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, 784).astype(np.float32) / 255
    with gzip.open(FOLDER / "train-labels-idx1-ubyte.gz") as file:
        return images, np.frombuffer(file.read(), np.uint8, offset=8).astype(np.int64)


def loop_overhead(rounds: int) -> dict[str, float]:
    """Processor seconds of one epoch, bare and ours, and their ratio."""
    import torch

    from noracle.learn.labels import draw_ruled_out
    from noracle.learn.loop import Batches, Settings, plain_objective, train
    from noracle.learn.losses import get_loss, label_mask
    from noracle.learn.models import make_model
    from noracle.learn.transition import Transition

    torch.set_num_threads(1)
    images, y = fashion()
    x = torch.from_numpy(images)
    mask = label_mask(torch.tensor(draw_ruled_out(y, n_classes=10, rng=np.random.default_rng(0))), 10)
    loss = get_loss("scl_nl")
    context = loss.make_context(Transition.uniform(10), ruled_out=mask)

    def bare() -> None:
        model = make_model("mlp", shape=(784,), n_outputs=10, seed=0)
        optimiser = torch.optim.Adam(model.parameters(), lr=5e-4, fused=True)
        for chosen in torch.randperm(len(x)).split(256):
            optimiser.zero_grad(set_to_none=True)
            loss(model(x[chosen]), mask[chosen], context).backward()
            optimiser.step()

    def ours() -> None:
        model = make_model("mlp", shape=(784,), n_outputs=10, seed=0)
        settings = Settings(epochs=1, batch_size=256, lr=5e-4)
        train(model, Batches(items=x, labels=mask), plain_objective(loss, context), settings)

    seconds: dict[str, list[float]] = {"bare": [], "ours": []}
    for i in range(rounds + 1):
        for name, run in (("bare", bare), ("ours", ours)):
            began = cpu_seconds()
            run()
            if i:  # the first round warms up
                seconds[name].append(cpu_seconds() - began)
    bare_s, ours_s = statistics.median(seconds["bare"]), statistics.median(seconds["ours"])
    return {"bare_loop_cpu_s": round(bare_s, 3), "training_loop_cpu_s": round(ours_s, 3), "ratio": round(ours_s / bare_s, 3)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", action="store_true", help="append to results.jsonl")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    if not FOLDER.is_dir():
        raise SystemExit(f"{FOLDER} is missing: install the Debian package dataset-fashion-mnist")
    figures = loop_overhead(options.rounds)
    claim = "one epoch costs at most 1.25 times the processor time of a bare loop over resident tensors"
    emit("training loop", claim, {**figures, "holds": figures["ratio"] <= 1.25}, command=COMMAND, record=options.record)


if __name__ == "__main__":
    main()
