"""From rule-outs to a certificate: trained on what images are *not*, as machines said it, chosen without
a true label, and certified to be better than three people, without a true label.

    python examples/certificate_from_rule_outs.py
    NORACLE_DATA=FOLDER python examples/certificate_from_rule_outs.py --real

By default the images are generated, and it takes half a minute on one core. With --real (a GPU) the
images are CIFAR-10, 40,000 to train on with nine labels each by a vision-language model, and 10,000
to certify on with the three annotators of CIFAR-10N. Needs the extra learn.

True labels are sealed: in the generated world they make the labels, and in both worlds the last line opens
them, to say whether the claim was right.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from noracle.learn import ComplementaryClassifier, draw_ruled_out

if TYPE_CHECKING:
    from numpy.typing import NDArray

MACHINE = "a vision-language model"
BIASED = np.array(
    [
        [0.02, 0.10, 0.20, 0.28, 0.40],
        [0.30, 0.02, 0.08, 0.20, 0.40],
        [0.38, 0.20, 0.02, 0.10, 0.30],
        [0.30, 0.30, 0.20, 0.02, 0.18],
        [0.25, 0.35, 0.28, 0.10, 0.02],
    ]
)
"""T of the generated machine: it loves to say "not the last class", and errs in 2 of 100 cases."""


@dataclasses.dataclass(frozen=True, slots=True)
class World:
    """Images and labels to train on; images and people to certify on; the sealed key of the latter."""

    name: str
    images: NDArray[np.uint8]
    ruled_out: NDArray[np.int64]
    others: NDArray[np.uint8]
    people: NDArray[np.int64]
    sealed: NDArray[np.int64]
    n_classes: int
    training: dict[str, Any]


def generated(seed: int, n: int = 1500, n_others: int = 1000) -> World:
    """Bars at five heights under noise. The machine errs by T; people err where the bar is faint."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 5, n + n_others)
    images = rng.integers(0, 90, (len(y), 10, 10, 1))
    faint = rng.random(len(y)) < 0.3
    for i, k in enumerate(y):
        images[i, 2 * k : 2 * k + 2] += 90 if faint[i] else 150
    said = draw_ruled_out(y[:n], transition=_matrix(), n_labels=2, replace=True, rng=rng)
    seen = rng.random((n_others, 3)) < np.where(faint[n:], 0.55, 0.92)[:, None]
    people = np.where(seen, y[n:, None], (y[n:, None] + rng.integers(1, 5, (n_others, 3))) % 5)
    training = {"model": "linear", "epochs": 30, "lr": 5e-3, "batch_size": 64, "average": 0.99}
    training |= {"device": "cpu", "loss_options": {"flip": False, "pad": 0, "strong": 1}}
    images = images.clip(0, 255).astype(np.uint8)
    return World("generated", images[:n], said, images[n:], people, y[n:], 5, training)


def _matrix() -> Any:
    from noracle.learn import Transition

    return Transition(BIASED)


def real() -> World:
    """CIFAR-10: labels by machines for the first 40,000 images, people for the other 10,000."""
    from noracle.learn import read_items

    folder = Path(os.environ["NORACLE_DATA"])
    read = read_items(folder / "cifar10_train.npz", ruled_out=(), label=(), annotator=())
    said = np.load(folder / "aclcifar10.npz")["ruled_out"].astype(np.int64)
    file, images = np.load(folder / "cifar10_train.npz"), np.asarray(read.items)
    people, key = file["annotators"].astype(np.int64), file["label"].astype(np.int64)
    training = {"model": "resnet18", "epochs": 150, "lr": 0.1, "batch_size": 256}
    training |= {"optimiser": "sgd", "schedule": "one-cycle", "precision": "bf16"}
    training |= {"average": 0.999, "weight_decay": 5e-4, "verbose": True}
    parts = images[:40_000], said[:40_000], images[40_000:], people[40_000:], key[40_000:]
    return World("CIFAR-10", *parts, 10, training)


def train_and_choose(world: World, options: Any) -> NDArray[np.int64]:
    """Answers of the better candidate for the images that nobody trained on."""
    print("1. Two candidates, by the surprise of held-out labels (SCEL, at its best temperature)\n")
    found = {}
    for transition in ("uniform", "estimated"):
        model = ComplementaryClassifier(
            recipe="consistency",
            transition=transition,
            validation_share=0.1,
            classes=range(world.n_classes),
            said_by=[MACHINE],
            random_state=options.seed,
            **world.training | ({"epochs": options.epochs} if options.epochs else {}),
        ).fit(world.images, world.ruled_out)
        found[transition] = model
        diagonal = model.transition_.diagonal_noise
        print(f"   T {transition:9}  SCEL {scel(model, world):.4f}  wrong labels {diagonal:.2%}")
    chosen = min(found, key=lambda name: scel(found[name], world))
    print(f"   chosen: T {chosen}\n")

    return np.asarray(found[chosen].predict(world.others))


def main(arguments: Sequence[str] = ()) -> int:
    """Train two candidates, choose one, certify it; the exit code is that of the certificate."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--real", action="store_true", help="CIFAR-10; needs a GPU and NORACLE_DATA"
    )
    parser.add_argument("--epochs", type=int, help="of each candidate; default 30, or 150")
    parser.add_argument("--answers", type=Path, help="npy file of answers; read where it exists")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    world = real() if options.real else generated(options.seed)
    n, s = world.ruled_out.shape
    print(f"{world.name}: {n} images, each with {s} labels 'not k' by {MACHINE}; no true label.\n")

    kept = options.answers
    if kept is not None and kept.is_file():
        answers = np.load(kept)
    else:
        answers = train_and_choose(world, options)
        if kept is not None:
            np.save(kept, answers)

    print("2. Better than the people?\n")
    from noracle.evidence import Ratings
    from noracle.superhuman import certify_superhuman, recorded_training

    items = np.arange(len(world.others))
    ratings = Ratings.from_tables(
        {
            "item": np.repeat(items, world.people.shape[1]),
            "rater": np.tile(
                [f"annotator{j + 1}" for j in range(world.people.shape[1])], len(items)
            ),
            "label": world.people.ravel(),
        },
        {"item": items, "system": ["model"] * len(items), "answer": answers},
        labels=range(world.n_classes),
    )
    trained = recorded_training(ratings, [MACHINE])
    certificate = certify_superhuman(ratings, trained_on_annotators=trained, confidence=0.95)
    print(certificate)
    print(f"verified by other code: {certificate.verify()}\n")

    print("3. The key is opened\n")
    right, theirs = (answers == world.sealed).mean(), (world.people == world.sealed[:, None]).mean()
    print(f"   the model is right for {right:.4f}, the average annotation for {theirs:.4f}")
    return 0 if certificate.certified else 1


def scel(model: Any, world: World) -> float:
    """Mean of -log (Tᵀp)_ȳ over the labels that taught the model nothing."""
    from noracle.learn import estimate_scel

    held = model.held_out_
    logits, said = model.decision_function(world.images[held]), world.ruled_out[held]
    about = {"transition": model.transition_.with_floor(1e-3), "temperature": "fit"}
    return float(estimate_scel(logits, said, **about).value)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
