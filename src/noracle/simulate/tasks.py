"""Two tasks for the eye with a known key: which colour, or which shape, occurs most often in the
picture?

The tasks are those of Xu, Walder and Xu, *Humanly certifying superhuman classifiers* (ICLR 2023,
section 3.1). People find them hard enough to err, and a rule gives the key, so that annotators,
systems and the assumptions of a certificate can be judged.
"""

from __future__ import annotations

import dataclasses
import io
import math
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from noracle.errors import refuse

Kind = Literal["colour", "shape"]
Columns = dict[str, list[Any]]
Whole = NDArray[np.int64]
Floats = NDArray[np.float64]

COLOURS = {"red": (213, 70, 40), "blue": (0, 114, 178), "yellow": (240, 220, 60)}
SHAPES = {"triangle": 3, "square": 4, "pentagon": 5, "hexagon": 6, "circle": 0}  # number of corners
_OUTLINE = (60, 60, 60)
_RADII = (0.04, 0.07)  # of the picture's width
# Discs around the other objects cover at most this share of an object's own disc. The smallest
# object, a triangle, fills 0.413 of its disc: so no object is covered by more than 0.28 / 0.413 <
# 70 %.
_COVERED = 0.28
_TRIES = 60
_OPTIONS: dict[Kind, tuple[str, ...]] = {"colour": tuple(COLOURS), "shape": tuple(SHAPES)}


class PictureItem(NamedTuple):
    """What a service that collects labels needs of one item. Only ``question``, ``options`` and
    ``png`` are for the rater's eyes.

    Examples
    --------
    >>> item = next(iter(simulate_task("colour", n_items=1, seed=1)))
    >>> item.question, item.key in item.options, item.png[1:4]
    ('Which colour occurs most often? Size does not matter.', True, b'PNG')
    """

    item: str
    question: str
    options: tuple[str, ...]
    key: str
    png: bytes


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PictureTask:
    """Items of one task, with their key.

    Attributes
    ----------
    kind
        ``colour`` or ``shape``.
    options
        The names of the R classes.
    items
        Ids of the items.
    counts
        Row i, column l: how many objects of class l are in picture i.
    size
        Width and height of a picture in pixels.

    Examples
    --------
    >>> task = simulate_task("shape", n_items=3, seed=1)
    >>> len(task.items), task.counts.shape, bool((task.lead > 0).all())
    (3, (3, 5), True)
    """

    kind: Kind
    options: tuple[str, ...]
    items: tuple[str, ...]
    counts: Whole
    difficulty: float
    n_objects: tuple[int, int]
    size: int
    seed: int

    @property
    def codes(self) -> Whole:
        """The key as places in ``options``: the class with the most objects, which is never shared."""
        return np.asarray(self.counts.argmax(axis=1), dtype=np.int64)

    @property
    def key(self) -> dict[str, str]:
        """The right option of each item."""
        return {item: self.options[code] for item, code in zip(self.items, self.codes, strict=True)}

    @property
    def lead(self) -> Floats:
        """By how much of its objects the most frequent class leads the second; small is hard."""
        ranked = np.sort(self.counts, axis=1)
        return np.asarray((ranked[:, -1] - ranked[:, -2]) / self.counts.sum(axis=1))

    @property
    def question(self) -> str:
        """What a rater is asked."""
        return f"Which {self.kind} occurs most often? Size does not matter."

    def known(self) -> Columns:
        """The key as a table with the columns ``item`` and ``label``."""
        return {"item": list(self.items), "label": list(self.key.values())}

    def objects(self, place: int) -> dict[str, NDArray[Any]]:
        """The objects of one picture from back to front: centre, radius (in widths), angle, colour
        and shape as places.
        """
        rng, kinds = _scene(self, place)
        other = rng.integers(len(SHAPES if self.kind == "colour" else COLOURS), size=len(kinds))
        x, y, radius = _places(rng, len(kinds))
        colour, shape = (kinds, other) if self.kind == "colour" else (other, kinds)
        values = x, y, radius, rng.random(len(kinds)), colour, shape
        return dict(zip(("x", "y", "radius", "angle", "colour", "shape"), values, strict=True))

    def image(self, place: int) -> NDArray[np.uint8]:
        """The picture as an array of height × width × 3."""
        return np.asarray(self._picture(place), dtype=np.uint8)

    def images(self) -> NDArray[np.uint8]:
        """All pictures, in the order of ``items``."""
        return np.stack([self.image(place) for place in range(len(self.items))])

    def png(self, place: int) -> bytes:
        """The picture as the bytes of a PNG file."""
        file = io.BytesIO()
        self._picture(place).save(file, format="PNG")
        return file.getvalue()

    def __iter__(self) -> Iterator[PictureItem]:
        """The items one after the other, each drawn when it is asked for."""
        key = self.key
        for place, item in enumerate(self.items):
            yield PictureItem(item, self.question, self.options, key[item], self.png(place))

    def __len__(self) -> int:
        return len(self.items)

    def _picture(self, place: int) -> Any:
        from PIL import Image, ImageDraw

        scale = 2 * self.size  # drawn twice as large and averaged: smooth edges
        picture = Image.new("RGB", (scale, scale), "white")
        draw = ImageDraw.Draw(picture)
        colours, corners = list(COLOURS.values()), list(SHAPES.values())
        line = max(1, scale // 128)
        rows = zip(*(values.tolist() for values in self.objects(place).values()), strict=True)
        for x, y, r, angle, colour, shape in rows:
            n = corners[shape]
            inner = r - line / scale / (math.cos(math.pi / n) if n else 1.0)
            for radius, fill in ((r, _OUTLINE), (inner, colours[colour])):
                points = map(tuple, (outline(x, y, radius, n, angle) * scale).tolist())
                (draw.polygon if n else draw.ellipse)(list(points), fill=fill)
        return picture.reduce(2)


def simulate_task(
    task: Kind = "colour",
    *,
    n_items: int = 100,
    difficulty: float = 1.0,
    n_objects: tuple[int, int] = (20, 40),
    size: int = 128,
    seed: int = 0,
) -> PictureTask:
    """Draw the items of a task; pictures are drawn when they are asked for.

    Each picture has between ``n_objects[0]`` and ``n_objects[1]`` objects of random size, none
    covered by more than 70 %. An object is of the picture's favoured class with probability (1 −
    difficulty)/2 and otherwise of any class. A draw in which two classes share the highest count is
    thrown away, so the key is unique. Every class is equally likely to be the key. Item i depends
    on the seed and on i only: more items do not change the first ones.

    Parameters
    ----------
    task
        ``colour``: three colours, the shapes say nothing. ``shape``: five shapes, the colours say
        nothing.
    difficulty
        1 is the task of the paper, where the lead is often one object; at 0 about half of the
        objects are of one class.
    size
        Width and height of a picture in pixels.

    References
    ----------
    Xu, Walder and Xu (2023), *Humanly certifying superhuman classifiers*, ICLR, section 3.1 and
    Figure 2.

    Examples
    --------
    >>> task = simulate_task("colour", n_items=3, seed=2)
    >>> task.options, task.key
    (('red', 'blue', 'yellow'), {'colour-00000': 'blue', 'colour-00001': 'yellow', 'colour-00002': 'red'})
    >>> task.image(0).shape, next(iter(task)).png[1:4]
    ((128, 128, 3), b'PNG')
    """
    kinds, span = get_args(Kind), 1 <= n_objects[0] <= n_objects[1] <= 60
    refuse(
        {
            f"task must be one of {', '.join(kinds)}; got {task!r}.": task not in kinds,
            f"n_items must be at least 1; got {n_items}.": n_items < 1,
            f"difficulty must be in [0, 1]; got {difficulty}.": not 0 <= difficulty <= 1,
            f"n_objects must be two numbers in [1, 60], the smaller first; got {n_objects}.": not span,
            f"size must be in [32, 2048] pixels; got {size}.": not 32 <= size <= 2048,
            f"seed must be at least 0; got {seed}.": seed < 0,
        }
    )
    options = _OPTIONS[task]
    empty = PictureTask(
        kind=task,
        options=options,
        items=tuple(f"{task}-{i:05d}" for i in range(n_items)),
        counts=np.empty((0, len(options)), np.int64),
        difficulty=float(difficulty),
        n_objects=(int(n_objects[0]), int(n_objects[1])),
        size=int(size),
        seed=int(seed),
    )
    rows = [np.bincount(_scene(empty, i)[1], minlength=len(options)) for i in range(n_items)]
    counts = np.array(rows, dtype=np.int64)
    counts.flags.writeable = False
    return dataclasses.replace(empty, counts=counts)


def _scene(task: PictureTask, place: int) -> tuple[np.random.Generator, Whole]:
    """The item's own generator, and the class of each of its objects: drawn until one class leads."""
    classes = len(task.options)
    rng = np.random.default_rng([task.seed, place, classes])
    n = int(rng.integers(task.n_objects[0], task.n_objects[1] + 1))
    while True:
        favoured = rng.integers(classes)
        plain = rng.random(n) >= (1 - task.difficulty) / 2
        kinds = np.where(plain, rng.integers(classes, size=n), favoured)
        ranked = np.sort(np.bincount(kinds, minlength=classes))
        if ranked[-1] > ranked[-2]:
            return rng, kinds


def _places(rng: np.random.Generator, n: int) -> tuple[Floats, Floats, Floats]:
    """Centres and radii, drawn until nothing is covered too much; an object may shrink."""
    x, y, radius, covered = np.zeros(n), np.zeros(n), rng.uniform(*_RADII, size=n), np.zeros(n)
    for i in range(n):
        tries = 0
        while True:
            r = float(radius[i])
            a, b = rng.uniform(r, 1 - r, size=2)
            d = np.hypot(x[:i] - a, y[:i] - b)
            near = np.flatnonzero(d < radius[:i] + r)
            common = np.array([_lens(float(d[j]), r, float(radius[j])) for j in near])
            others = covered[near] + common / (math.pi * radius[near] ** 2) if len(near) else common
            own = float(common.sum()) / (math.pi * r * r)
            if own <= _COVERED and (others <= _COVERED).all():
                break
            tries += 1
            if tries % _TRIES == 0:
                radius[i] *= 0.9
        x[i], y[i], covered[i] = a, b, own
        covered[near] = others
    return x, y, radius


def outline(x: float, y: float, radius: float, corners: int, angle: float) -> Floats:
    """Corners of an object, or the two corners of the square around a circle (0 corners)."""
    if corners == 0:
        return np.array([[x - radius, y - radius], [x + radius, y + radius]])
    turn = 2 * math.pi * (angle + np.arange(corners) / corners)
    return np.stack([x + radius * np.cos(turn), y + radius * np.sin(turn)], axis=1)


def _lens(d: float, r: float, s: float) -> float:
    """Area that two discs of radii r and s at distance d have in common."""
    if d >= r + s:
        return 0.0
    if d <= abs(r - s):
        return math.pi * min(r, s) ** 2
    a = (d * d + r * r - s * s) / (2 * d)
    first, second = (math.acos(max(-1.0, min(1.0, x))) for x in (a / r, (d - a) / s))
    return r * r * first + s * s * second - d * math.sqrt(max(0.0, r * r - a * a))
