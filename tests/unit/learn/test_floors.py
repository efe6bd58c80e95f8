"""Accuracy that every loss must reach on standardised Fashion-MNIST with uniform labels, in a bare
loop over resident tensors.

The floors lie below what an independent prototype reached with one seed (scl_nl 81.4, scl_exp 80.5,
l_uw 80.3, l_w 80.5, op_w 78.1, op 77.0, cpe_i 77.0, ure_nn 77.6, scarce 75.5, ure_mae 71.4, pc
69.6; three labels: mcl_log 83.4, mcl_exp 82.1).
"""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the learn extra is not installed")

from noracle.learn.labels import draw_ruled_out  # noqa: E402
from noracle.learn.losses import LOSSES, decode_logits, label_mask  # noqa: E402
from noracle.learn.models import make_model  # noqa: E402
from noracle.learn.transition import Transition  # noqa: E402

FOLDER = Path("/usr/share/datasets/fashion-mnist")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not FOLDER.is_dir(),
        reason="Fashion-MNIST (Debian package dataset-fashion-mnist) is not installed",
    ),
]


def images(name: str):
    with gzip.open(FOLDER / f"{name}-images-idx3-ubyte.gz") as file:
        return torch.tensor(
            np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, 784).astype(np.float32)
            / 255
        )


def standardised(train, test):
    """As the training loop's own views: less the mean, over the standard deviation of all training
    pixels.
    """
    mean, sd = train.mean(), train.std()
    return (train - mean) / sd, (test - mean) / sd


def classes(name: str) -> np.ndarray:
    with gzip.open(FOLDER / f"{name}-labels-idx1-ubyte.gz") as file:
        return np.frombuffer(file.read(), np.uint8, offset=8).astype(np.int64)


@pytest.fixture(scope="module")
def data():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    x, x_test = standardised(images("train"), images("t10k"))
    yield x, classes("train"), x_test, torch.tensor(classes("t10k"))
    torch.set_num_threads(threads)


def accuracy(data, name: str, seed: int, *, lr: float, epochs: int, n_labels: int) -> float:
    """Percent of the test images after training on labels that are drawn with the same seed."""
    x, y, x_test, y_test = data
    mask = label_mask(
        torch.tensor(
            draw_ruled_out(y, n_classes=10, n_labels=n_labels, rng=np.random.default_rng(seed))
        ),
        10,
    )
    loss = LOSSES[name]
    context = loss.make_context(Transition.uniform(10), ruled_out=mask)
    torch.manual_seed(seed)
    model = make_model("mlp", shape=(784,), n_outputs=10)
    optimiser = torch.optim.Adam(model.parameters(), lr=lr, fused=True)
    for _ in range(epochs):
        for chosen in torch.randperm(len(x)).split(256):
            optimiser.zero_grad(set_to_none=True)
            loss(model(x[chosen]), mask[chosen], context).backward()
            optimiser.step()
    with torch.no_grad():
        return 100 * float((decode_logits(model(x_test), loss, context) == y_test).double().mean())


@pytest.mark.parametrize(
    ("name", "n_labels", "floor"),
    [
        *((name, 1, 78.0) for name in ("scl_nl", "scl_exp", "l_w", "l_uw", "fwd")),
        *((name, 1, 74.5) for name in ("op", "op_w", "cpe_i", "ure_nn")),
        ("scarce", 1, 73.0),
        ("pc_sigmoid", 1, 67.0),
        ("ure_mae_free", 1, 67.0),
        ("mcl_log", 3, 82.0),
        ("mcl_exp", 3, 80.5),
    ],
)
def test_three_epochs_reach_the_floor(data, name: str, n_labels: int, floor: float) -> None:
    """Learning rate 5e-4, mean of three seeds."""
    assert (
        np.mean(
            [accuracy(data, name, seed, lr=5e-4, epochs=3, n_labels=n_labels) for seed in (1, 2, 3)]
        )
        >= floor
    )


@pytest.mark.parametrize(("name", "floor"), [("ure_ga", 74.5), ("ure_nn", 76.5)])
def test_risks_of_ordinary_classes_reach_the_floor_at_a_small_rate(
    data, name: str, floor: float
) -> None:
    """Learning rate 1e-4, eight epochs, two seeds; with sums over ruled-out classes the prototype
    reached 69.9 and 74.2 only.
    """
    assert (
        np.mean([accuracy(data, name, seed, lr=1e-4, epochs=8, n_labels=1) for seed in (1, 2)])
        >= floor
    )
