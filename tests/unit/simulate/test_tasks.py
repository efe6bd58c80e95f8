"""The two tasks for the eye: unique keys, fair pictures, the same for the same seed."""

from __future__ import annotations

import io
import math

import numpy as np
import pytest
from PIL import Image, ImageDraw

from noracle.errors import ArgumentError
from noracle.simulate import PictureTask, simulate_task
from noracle.simulate.tasks import COLOURS, SHAPES, _lens, outline

KINDS = ("colour", "shape")


@pytest.mark.parametrize("kind", KINDS)
def test_one_class_leads_in_every_picture_and_the_key_names_it(kind: str) -> None:
    task = simulate_task(kind, n_items=400, seed=3)  # type: ignore[arg-type]
    ranked = np.sort(task.counts, axis=1)
    assert (ranked[:, -1] > ranked[:, -2]).all()
    total = task.counts.sum(axis=1)
    assert total.min() >= 20
    assert total.max() <= 40
    assert list(task.key.values()) == [task.options[c] for c in task.codes]
    assert task.options == tuple(COLOURS if kind == "colour" else SHAPES)


@pytest.mark.parametrize("kind", KINDS)
def test_objects_of_the_picture_are_those_that_were_counted(kind: str) -> None:
    task = simulate_task(kind, n_items=30, seed=5)  # type: ignore[arg-type]
    for place in range(len(task)):
        objects = task.objects(place)
        assert (
            np.bincount(objects[kind], minlength=len(task.options)).tolist()
            == task.counts[place].tolist()
        )


def test_items_depend_on_the_seed_and_their_place_only() -> None:
    few, many = simulate_task("shape", n_items=3, seed=7), simulate_task("shape", n_items=9, seed=7)
    assert few.counts.tolist() == many.counts[:3].tolist()
    assert few.png(2) == many.png(2)
    assert simulate_task("shape", n_items=3, seed=8).png(2) != few.png(2)


@pytest.mark.parametrize("kind", KINDS)
def test_every_class_is_equally_often_the_key(kind: str) -> None:
    task = simulate_task(kind, n_items=4000, seed=0, difficulty=0.5)  # type: ignore[arg-type]
    shares = np.bincount(task.codes) / len(task)
    expected = 1 / len(task.options)
    assert np.abs(shares - expected).max() < 4 * math.sqrt(expected * (1 - expected) / len(task))


def test_lead_shrinks_as_difficulty_grows() -> None:
    leads = [
        simulate_task("colour", n_items=500, difficulty=d, seed=1).lead.mean()
        for d in (0.0, 0.5, 1.0)
    ]
    assert leads[0] > leads[1] > leads[2]
    assert leads[0] > 0.4


def covered(task: PictureTask, place: int, scale: int = 600) -> list[float]:
    """Share of each object that the ones before it hide, by masks drawn large."""
    seen = task.objects(place)
    masks = []
    for x, y, r, angle, _, shape in zip(*(seen[name].tolist() for name in seen), strict=True):
        mask = Image.new("1", (scale, scale))
        points = [
            tuple(p)
            for p in (outline(x, y, r, list(SHAPES.values())[shape], angle) * scale).tolist()
        ]
        (ImageDraw.Draw(mask).ellipse if len(points) == 2 else ImageDraw.Draw(mask).polygon)(
            points, fill=1
        )
        masks.append(np.asarray(mask))
    hidden = np.zeros((scale, scale), dtype=bool)
    shares = []
    for mask in masks[::-1]:
        shares.append(float((mask & hidden).sum() / mask.sum()))
        hidden |= mask
    return shares


@pytest.mark.parametrize("kind", KINDS)
def test_no_object_is_covered_by_more_than_70_percent_or_leaves_the_picture(kind: str) -> None:
    task = simulate_task(kind, n_items=12, n_objects=(40, 40), seed=2)  # type: ignore[arg-type]
    shares = []
    for place in range(len(task)):
        seen = task.objects(place)
        for axis in ("x", "y"):
            assert (seen[axis] - seen["radius"]).min() >= 0
            assert (seen[axis] + seen["radius"]).max() <= 1
        shares += covered(task, place)
    assert max(shares) <= 0.7
    assert max(shares) > 0.05  # some do overlap: the pictures are not trivial


@pytest.mark.parametrize(
    ("d", "r", "s", "area"),
    [
        (0.0, 1.0, 0.5, math.pi / 4),
        (2.0, 1.0, 1.0, 0.0),
        (3.0, 1.0, 1.0, 0.0),
        (1.0, 1.0, 1.0, 2 * math.pi / 3 - math.sqrt(3) / 2),
    ],
)
def test_lens_of_two_discs(d: float, r: float, s: float, area: float) -> None:
    assert _lens(d, r, s) == pytest.approx(area, abs=1e-12)
    assert _lens(d, s, r) == pytest.approx(area, abs=1e-12)


def test_pixels_have_the_colours_of_the_objects() -> None:
    task = simulate_task("colour", n_items=1, size=256, seed=0)
    image = task.image(0)
    assert image.dtype == np.uint8
    assert image.shape == (256, 256, 3)
    seen = task.objects(0)
    last = {name: values[-1] for name, values in seen.items()}  # the one in front
    middle = image[int(last["y"] * 256), int(last["x"] * 256)]
    assert tuple(middle.tolist()) == list(COLOURS.values())[int(last["colour"])]


def test_items_come_as_a_service_needs_them() -> None:
    task = simulate_task("shape", n_items=2, size=64, seed=1)
    items = list(task)
    assert [i.item for i in items] == ["shape-00000", "shape-00001"]
    for place, item in enumerate(items):
        assert item.key in item.options
        assert item.key not in item.question
        with Image.open(io.BytesIO(item.png)) as picture:
            assert picture.size == (64, 64)
            assert (np.asarray(picture) == task.image(place)).all()
            assert not picture.info  # nothing beside the picture could give the key away
    assert task.known() == {"item": [i.item for i in items], "label": [i.key for i in items]}
    assert task.images().shape == (2, 64, 64, 3)


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"task": "size"}, "task"),
        ({"n_items": 0}, "n_items"),
        ({"difficulty": 1.5}, "difficulty"),
        ({"difficulty": math.nan}, "difficulty"),
        ({"n_objects": (10, 5)}, "n_objects"),
        ({"size": 8}, "size"),
        ({"seed": -1}, "seed"),
    ],
)
def test_faults_are_named(options: dict[str, object], word: str) -> None:
    with pytest.raises(ArgumentError, match=f"^{word} must"):
        simulate_task(**options)  # type: ignore[arg-type]
