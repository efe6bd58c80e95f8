"""Claims: training costs little more than a bare loop over tensors in memory; labels and risks cost
next to nothing.

    OMP_NUM_THREADS=1 python benchmarks/bench_learn.py [--record]
    python benchmarks/bench_learn.py --recipe uniform|estimated [--matrix clcifar10] [--epochs 40] [--record]

Fashion-MNIST (Debian package dataset-fashion-mnist), one uniform ruled-out label an image, an MLP
with 500 hidden units, batches of 256, one thread. The bare loop is the shortest that trains the
same model with the same loss and optimiser. Both run in this process, in turn, and each figure is
the processor time of one epoch, the median over the rounds. ``ComplementaryClassifier.fit`` brings
its own checks and copies and is measured over three epochs, as is the bare loop beside it. Labels
are drawn for the 60,000 images; the robust risk is a forward and backward pass of ure_gce_nn in 32
bits.

``--recipe`` trains the recipe for images on a processor: two small convolutions, one label per image,
each taken at face value (uniform) or with T estimated from a tenth of the labels. Labels are uniform,
or drawn from a human matrix, T_NAME of aclcifar10.npz in NORACLE_DATA.
"""

from __future__ import annotations

import argparse
import gzip
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from _common import cpu_seconds, emit

FOLDER = Path("/usr/share/datasets/fashion-mnist")
COMMAND = "OMP_NUM_THREADS=1 python benchmarks/bench_learn.py"


def fashion() -> tuple[np.ndarray, np.ndarray]:
    """Training images (n, 784) as floats 0 to 1, and their classes."""
    with gzip.open(FOLDER / "train-images-idx3-ubyte.gz") as file:
        images = (
            np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, 784).astype(np.float32)
            / 255
        )
    with gzip.open(FOLDER / "train-labels-idx1-ubyte.gz") as file:
        return images, np.frombuffer(file.read(), np.uint8, offset=8).astype(np.int64)


def medians(rounds: int, **runs: Callable[[], object]) -> dict[str, float]:
    """Processor seconds of each, run in turn; the first round warms up."""
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for i in range(rounds + 1):
        for name, run in runs.items():
            began = cpu_seconds()
            run()
            if i:
                seconds[name].append(cpu_seconds() - began)
    return {name: statistics.median(values) for name, values in seconds.items()}


def loop_overhead(rounds: int) -> dict[str, float]:
    """Processor seconds of one epoch, bare and ours, and their ratio."""
    import torch

    from noracle.learn.classifier import ComplementaryClassifier
    from noracle.learn.labels import draw_ruled_out
    from noracle.learn.loop import Batches, Settings, plain_objective, train
    from noracle.learn.losses import get_loss, label_mask
    from noracle.learn.models import make_model
    from noracle.learn.transition import Transition

    torch.set_num_threads(1)
    images, y = fashion()
    x = torch.from_numpy(images)
    said = draw_ruled_out(y, n_classes=10, rng=np.random.default_rng(0))
    mask = label_mask(torch.tensor(said), 10)
    loss = get_loss("scl_nl")
    context = loss.make_context(Transition.uniform(10), ruled_out=mask)

    def bare(epochs: int = 1) -> None:
        model = make_model("mlp", shape=(784,), n_outputs=10, seed=0)
        optimiser = torch.optim.Adam(model.parameters(), lr=5e-4, fused=True)
        for _ in range(epochs):
            for chosen in torch.randperm(len(x)).split(256):
                optimiser.zero_grad(set_to_none=True)
                loss(model(x[chosen]), mask[chosen], context).backward()
                optimiser.step()

    def estimator() -> None:
        ComplementaryClassifier(
            model="mlp", epochs=3, lr=5e-4, classes=range(10), device="cpu"
        ).fit(images, said)

    def ours() -> None:
        model = make_model("mlp", shape=(784,), n_outputs=10, seed=0)
        settings = Settings(epochs=1, batch_size=256, lr=5e-4)
        train(model, Batches(items=x, labels=mask), plain_objective(loss, context), settings)

    found = medians(rounds, bare=bare, ours=ours, three=lambda: bare(3), estimator=estimator)
    return {
        "bare_loop_cpu_s": round(found["bare"], 3),
        "training_loop_cpu_s": round(found["ours"], 3),
        "ratio": round(found["ours"] / found["bare"], 3),
        "bare_three_epochs_cpu_s": round(found["three"], 3),
        "classifier_fit_three_epochs_cpu_s": round(found["estimator"], 3),
        "fit_ratio": round(found["estimator"] / found["three"], 3),
    }


def label_time(rounds: int, n: int = 60_000) -> dict[str, float]:
    """Processor seconds to draw one uniform label an item."""
    from noracle.learn.labels import draw_ruled_out

    truth = np.random.default_rng(1).integers(10, size=n)
    found = medians(
        rounds, labels=lambda: draw_ruled_out(truth, n_classes=10, rng=np.random.default_rng(0))
    )
    return {"labels": n, "cpu_s": round(found["labels"], 4), "target_s": 0.05}


def risk_time(rounds: int, calls: int = 200) -> dict[str, float]:
    """Milliseconds of processor time for a forward and backward pass of the robust risk."""
    import torch

    from noracle.learn.losses import get_loss, label_mask
    from noracle.learn.transition import Transition

    torch.set_num_threads(1)
    loss = get_loss("ure_gce_nn")
    mask = label_mask(torch.arange(512) % 20, 20)
    context = loss.make_context(Transition.noisy(20, 0.02), ruled_out=mask)
    z = torch.randn(512, 20, requires_grad=True)

    def run() -> None:
        for _ in range(calls):
            loss(z, mask, context).backward()

    return {
        "classes": 20,
        "batch": 512,
        "cpu_ms": round(1000 * medians(rounds, risk=run)["risk"] / calls, 3),
        "target_ms": 2.0,
    }


def small_network(shape: tuple[int, ...], n_classes: int) -> Any:
    """Two convolutions with stride 2."""
    from torch import nn

    parts: list[nn.Module] = []
    for before, after in ((shape[0], 16), (16, 32)):
        convolution = nn.Conv2d(before, after, 3, stride=2, padding=1, bias=False)
        parts += [convolution, nn.BatchNorm2d(after), nn.ReLU()]
    size = 32 * -(-shape[1] // 4) * -(-shape[2] // 4)
    return nn.Sequential(*parts, nn.Flatten(), nn.Linear(size, n_classes))


def recipe_time(transition: str, matrix: str | None, epochs: int) -> dict[str, Any]:
    """Minutes of the recipe, and its accuracy on the test images, which chose nothing."""
    from noracle.learn import ComplementaryClassifier, Transition, draw_ruled_out, read_items

    read, test = read_items(FOLDER), read_items(FOLDER, items="t10k")
    T = Transition.uniform(10)
    if matrix is not None:
        rows = np.load(Path(os.environ["NORACLE_DATA"]) / "aclcifar10.npz")[f"T_{matrix}"]
        T = Transition(rows / rows.sum(axis=1, keepdims=True))
    images, key = np.asarray(read.items), np.asarray(read.label)
    said = draw_ruled_out(key, transition=T, rng=np.random.default_rng(0))
    model = ComplementaryClassifier(
        recipe="consistency",
        transition=transition,
        validation_share=0.1,
        model=small_network,
        loss_options={"pad": 2},
        classes=range(10),
        epochs=epochs,
        batch_size=256,
        lr=2e-3,
        schedule="one-cycle",
        average=0.99,
        device="cpu",
        verbose=True,
    )
    began, processor = time.monotonic(), cpu_seconds()
    model.fit(images, said)
    minutes = (time.monotonic() - began) / 60
    right = float((model.predict(np.asarray(test.items)) == np.asarray(test.label)).mean())
    return {
        "labels": matrix or "uniform",
        "transition": transition,
        "epochs": epochs,
        "accuracy": f"{right:.2%}",
        "minutes": round(minutes, 1),
        "processor_minutes": round((cpu_seconds() - processor) / 60, 1),
        "processors": os.cpu_count(),
        "wrong_labels_in_T": f"{model.transition_.diagonal_noise:.2%}",
        "target_minutes": 20,
        "met": minutes <= 20,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--record", action="store_true", help="append to results.jsonl")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--recipe", choices=("uniform", "estimated"))
    parser.add_argument("--matrix", help="T_NAME of aclcifar10.npz")
    parser.add_argument("--epochs", type=int, default=40)
    options = parser.parse_args()
    if options.recipe:
        found = recipe_time(options.recipe, options.matrix, options.epochs)
        claim = "the recipe for images learns Fashion-MNIST on two cores in at most 20 minutes"
        own = f" --matrix {options.matrix}" if options.matrix else ""
        command = f"python benchmarks/bench_learn.py --recipe {options.recipe}{own}"
        emit("learn-recipe-cpu", claim, found, command=command, record=options.record)
        return
    labels, risk = label_time(options.rounds), risk_time(options.rounds)
    claim = "60,000 ruled-out labels are drawn in at most 0.05 s of processor time"
    emit(
        "learn-label-time",
        claim,
        {**labels, "met": labels["cpu_s"] <= 0.05},
        command=COMMAND,
        record=options.record,
    )
    claim = "the robust unbiased risk takes at most 2 ms forward and backward"
    emit(
        "learn-risk-time",
        claim,
        {**risk, "met": risk["cpu_ms"] <= 2},
        command=COMMAND,
        record=options.record,
    )
    if not FOLDER.is_dir():
        raise SystemExit(f"{FOLDER} is missing: install the Debian package dataset-fashion-mnist")
    figures = loop_overhead(options.rounds)
    claim = "the training loop and the estimator cost at most 1.25 times the processor time of a bare loop over resident tensors"
    holds = figures["ratio"] <= 1.25 and figures["fit_ratio"] <= 1.25
    emit(
        "training loop", claim, {**figures, "holds": holds}, command=COMMAND, record=options.record
    )


if __name__ == "__main__":
    main()
