"""Ruled-out labels as people would give them: made from the human labels of CIFAR-10N, else from
simulated annotators.
"""

from __future__ import annotations

import dataclasses
import io
from typing import Any

import numpy as np
from _data import shared_file

Array = np.ndarray[Any, Any]
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """The true class of each image, and the class that each of three annotators named; -1 is none."""

    truth: Array
    annotators: Array
    source: str


def named() -> Named:
    """All images of CIFAR-10N; a simulated stand-in where the file is absent."""
    path = shared_file("cifar10_train.npz")
    if path is None:
        return _stand_in()
    with np.load(path) as file:
        truth, annotators = file["label"].astype(np.int64), file["annotators"].astype(np.int64)
    return Named(
        truth=truth,
        annotators=annotators,
        source="CIFAR-10N, 50,000 images with three human labels each",
    )


def _stand_in(n_items: int = 5_000) -> Named:
    rng = np.random.default_rng(10)
    truth = rng.integers(10, size=n_items)
    right = rng.random((n_items, 3)) < 0.82
    other = (truth[:, None] + 1 + rng.integers(9, size=(n_items, 3))) % 10
    return Named(
        truth=truth,
        annotators=np.where(right, truth[:, None], other),
        source="simulated stand-in (NORACLE_DATA has no CIFAR-10 file)",
    )


def ruled_out(people: Named, seed: int) -> Array:
    """One label of each annotator: four classes are shown, one is ruled out that is not the class
    the annotator named.
    """
    from noracle.learn.labels import ask_annotators

    rng = np.random.default_rng([seed, 4])
    columns = []
    for said in people.annotators.T:
        asked = ask_annotators(
            np.maximum(said, 0), n_classes=10, n_shown=4, n_answers=1, rng=rng
        ).ruled_out[:, 0]
        columns.append(np.where(said >= 0, asked, -1))
    return np.stack(columns, axis=1)


# -----------------------------------------------------------------------------------------------------------------------
# small pictures


def small_data(n_items: int, n_test: int) -> Any:
    """Pictures of 8 × 8 as rows of numbers, for a small network on a processor; without the files,
    points around ten corners.
    """
    from noracle.learn.bench.trial import TrialData

    paths = [shared_file(f"cifar10_{part}.npz") for part in ("train", "test")]
    if None in paths:
        people = _stand_in()
        rng = np.random.default_rng(11)
        points = np.eye(10)[people.truth] + rng.normal(0, 0.7, (len(people.truth), 10))
        items, n = points.astype(np.float32), min(n_items, 4_000)
        return TrialData(
            name="stand-in",
            items=items[:n],
            truth=people.truth[:n],
            test_items=items[4_000:],
            test_truth=people.truth[4_000:],
            n_classes=10,
            annotators=people.annotators[:n],
        )
    with np.load(str(paths[0])) as train, np.load(str(paths[1])) as test:
        return TrialData(
            name="cifar10-small",
            items=_small(train, n_items),
            truth=train["label"][:n_items].astype(np.int64),
            test_items=_small(test, n_test),
            test_truth=test["label"][:n_test].astype(np.int64),
            n_classes=10,
            annotators=train["annotators"][:n_items].astype(np.int64),
        )


def _small(file: Any, n: int) -> Array:
    from PIL import Image

    jpeg, offset = file["jpeg"].tobytes(), file["offset"][: n + 1].tolist()
    rows = np.empty((len(offset) - 1, 192), dtype=np.float32)
    for i in range(len(rows)):
        picture = np.asarray(
            Image.open(io.BytesIO(jpeg[offset[i] : offset[i + 1]])).convert("RGB"), dtype=np.float32
        )
        rows[i] = picture.reshape(8, 4, 8, 4, 3).mean(axis=(1, 3)).reshape(-1) / 128 - 1
    return rows
