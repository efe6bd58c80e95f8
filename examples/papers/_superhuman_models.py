"""Systems that are really trained on generated pictures: they find coloured regions, count the
objects in each, answer the largest count.

This is not the network of the paper (YOLOv3 on 608 × 608 pixels). It is a small one that learns the
same way: from pictures in which every object is marked. A region is a connected patch of one
colour; its silhouette, 12 × 12, goes into a multilayer perceptron of scikit-learn that says how
many objects of each class it shows. A strong system sees 512 pictures, a weak one 128.
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np

from noracle.simulate import PictureTask, simulate_task
from noracle.simulate.tasks import COLOURS

Array = np.ndarray[Any, Any]
PICTURES = {"strong": 512, "weak": 128}
SIDE = 12
_PALETTE = np.array(
    [(255, 255, 255), (60, 60, 60), (160, 160, 160), *COLOURS.values()], dtype=np.int32
)
_FIRST = 3  # place of the first colour in the palette


class Regions(NamedTuple):
    """The coloured regions of one picture: features, colour, and which region each pixel belongs to
    (-1: none).
    """

    features: Array
    colour: Array
    where: Array


def regions(image: Array) -> Regions:
    """Split a picture into connected patches of one colour; specks of under four pixels are left
    out.
    """
    from scipy import ndimage

    size = image.shape[0]
    nearest = ((image[:, :, None, :].astype(np.int32) - _PALETTE) ** 2).sum(axis=3).argmin(axis=2)
    rows, colours = [], []
    where = np.full((size, size), -1)
    for colour in range(len(COLOURS)):
        marked, _ = ndimage.label(nearest == _FIRST + colour)
        for number, box in enumerate(ndimage.find_objects(marked), start=1):
            mask = marked[box] == number
            if mask.sum() < 4:
                continue
            where[box][mask] = len(rows)
            height, width = mask.shape
            down, across = (np.arange(SIDE) * height) // SIDE, (np.arange(SIDE) * width) // SIDE
            numbers = [
                mask.sum() / size,
                mask.mean(),
                height / size * 10,
                width / size * 10,
                height / width,
            ]
            rows.append(np.concatenate([mask[np.ix_(down, across)].reshape(-1), numbers]))
            colours.append(colour)
    features = np.array(rows) if rows else np.empty((0, SIDE * SIDE + 5))
    return Regions(features, np.array(colours, dtype=np.int64), where)


def marked_counts(task: PictureTask, place: int, found: Regions) -> Array:
    """How many objects of each class belong to each region: an object belongs to the region of its
    colour nearest to its centre.
    """
    seen = task.objects(place)
    classes = 1 if task.kind == "colour" else len(task.options)
    counts = np.zeros((len(found.colour), classes))
    pixels = np.argwhere(found.where >= 0)
    owner = found.where[tuple(pixels.T)]
    for x, y, colour, shape in zip(
        seen["x"], seen["y"], seen["colour"], seen["shape"], strict=True
    ):
        distance = np.hypot(pixels[:, 0] - y * task.size, pixels[:, 1] - x * task.size)
        distance[found.colour[owner] != colour] = np.inf
        if np.isfinite(distance).any():
            counts[owner[distance.argmin()], 0 if task.kind == "colour" else shape] += 1
    return counts


class Counter:
    """Counts objects by class, trained on marked pictures."""

    def __init__(self, task: PictureTask, *, seed: int = 0) -> None:
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.neural_network import MLPRegressor
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        found = [regions(task.image(i)) for i in range(len(task))]
        x = np.concatenate([f.features for f in found])
        y = np.concatenate([marked_counts(task, i, f) for i, f in enumerate(found)])
        self.kind, self.n_classes, self.n_pictures = task.kind, len(task.options), len(task)
        network = MLPRegressor(
            hidden_layer_sizes=(64,),
            alpha=1e-3,
            early_stopping=False,
            max_iter=60,
            batch_size=128,
            random_state=seed,
        )
        self.network = make_pipeline(StandardScaler(), network)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            self.network.fit(x, y.ravel() if y.shape[1] == 1 else y)

    def counts(self, image: Array) -> Array:
        """Estimated number of objects of each class."""
        found = regions(image)
        total = np.zeros(self.n_classes)
        if len(found.colour):
            said = self.network.predict(found.features)
            if self.kind == "colour":
                np.add.at(total, found.colour, said)
            else:
                total = said.sum(axis=0)
        return total

    def answers(self, task: PictureTask) -> Array:
        """The class with the largest estimated count in each picture, as places in the options."""
        return np.array([int(self.counts(task.image(i)).argmax()) for i in range(len(task))])


def trained_systems(
    kind: str, *, seed: int, pictures: dict[str, int] | None = None
) -> dict[str, Counter]:
    """A strong and a weak counter, trained on pictures that nobody rates."""
    return {
        name: Counter(simulate_task(kind, n_items=n, seed=10_000 + seed), seed=seed)  # type: ignore[arg-type]
        for name, n in (pictures or PICTURES).items()
    }
