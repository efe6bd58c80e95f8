"""Simulated raters and systems are as good, as alike and as wrong as was asked."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from noracle.errors import ArgumentError
from noracle.simulate import (
    fit_raters,
    simulate_detector,
    simulate_raters,
    simulate_systems,
    simulate_task,
)
from noracle.simulate.annotators import _both_right, draw_ratings


def pairwise(matrix: np.ndarray[Any, Any]) -> float:
    """Mean agreement of all pairs of columns."""
    n = matrix.shape[1]
    return float(
        np.mean([(matrix[:, i] == matrix[:, j]).mean() for i in range(n) for j in range(i + 1, n)])
    )


def fleiss(matrix: np.ndarray[Any, Any], size: int) -> float:
    shares = np.bincount(matrix.reshape(-1), minlength=size) / matrix.size
    chance = float(shares @ shares)
    return (pairwise(matrix) - chance) / (1 - chance)


@pytest.mark.parametrize("p", [0.02, 0.5, 0.836, 0.999])
def test_probability_that_both_are_right_has_the_known_ends(p: float) -> None:
    assert _both_right(p, 0.0) == pytest.approx(p * p, abs=1e-12)
    assert _both_right(p, 1.0) == pytest.approx(p, abs=1e-12)
    middle = _both_right(0.5, 0.5)
    assert middle == pytest.approx(0.25 + math.asin(0.5) / (2 * math.pi), abs=1e-12)  # Sheppard


@pytest.mark.parametrize("as_task", [False, True])
def test_raters_have_their_accuracies_whatever_the_correlation(as_task: bool) -> None:
    task = simulate_task("colour", n_items=20_000, seed=1)
    items: Any = task if as_task else task.codes
    wanted = {"a": 0.95, "b": 0.8, "c": 0.4}
    matrix = draw_ratings(items, raters=wanted, n_classes=3, correlation=0.5, shared=0.3, seed=2)
    found = (matrix == task.codes[:, None]).mean(axis=0)
    for value, p in zip(found, wanted.values(), strict=True):
        assert abs(value - p) < 4 * math.sqrt(p * (1 - p) / 20_000)


COLOUR, SHAPE = (3, 0.836, 0.850, 0.6036), (5, 0.542, 0.586, 0.2372)


@pytest.mark.parametrize(
    ("size", "accuracy", "given_right", "kappa", "kind"),
    [
        (*COLOUR, "colour"),
        (*COLOUR, None),
        (*SHAPE, "shape"),
        (*SHAPE, None),
        (4, 0.7, None, 0.5, None),
        (2, 0.8, None, 0.5, None),
    ],
)
def test_fitted_raters_meet_accuracy_and_kappa(
    size: int, accuracy: float, given_right: float | None, kappa: float, kind: Any
) -> None:
    model = fit_raters(n_classes=size, accuracy=accuracy, kappa=kappa, given_right=given_right)
    n = 20_000
    key = np.arange(n) % size
    items: Any = simulate_task(kind, n_items=n, seed=3) if kind else key
    key = items.codes if kind else key
    matrix = draw_ratings(
        items,
        raters=model.raters(6),
        n_classes=size,
        correlation=model.correlation,
        shared=model.shared,
        seed=4,
    )
    assert model.kappa == pytest.approx(kappa, abs=1e-9)
    assert (matrix == key[:, None]).mean() == pytest.approx(accuracy, abs=0.01)
    assert pairwise(matrix) == pytest.approx(model.agreement, abs=0.01)
    assert fleiss(matrix, size) == pytest.approx(kappa, abs=0.015)
    if given_right is not None:
        right = matrix == key[:, None]
        joint = float(
            np.mean([(right[:, i] & right[:, j]).mean() for i in range(6) for j in range(i)])
        )
        assert joint / right.mean() == pytest.approx(given_right, abs=0.01)


def test_hard_items_are_those_with_a_small_lead() -> None:
    task = simulate_task("shape", n_items=4000, seed=1)
    matrix = draw_ratings(task, raters={"a": 0.6, "b": 0.6}, correlation=0.5, seed=1)
    right = (matrix == task.codes[:, None]).mean(axis=1)
    small = task.lead <= np.median(task.lead)
    assert right[~small].mean() > right[small].mean() + 0.2
    alone = draw_ratings(task, raters={"a": 0.6, "b": 0.6}, correlation=0.0, seed=1)
    right = (alone == task.codes[:, None]).mean(axis=1)
    assert abs(right[~small].mean() - right[small].mean()) < 0.06


def test_shared_errors_are_the_runner_up_of_a_picture() -> None:
    task = simulate_task("shape", n_items=500, seed=1)
    matrix = draw_ratings(task, raters={"a": 0.0, "b": 0.0}, shared=1.0, seed=1)
    assert (matrix[:, 0] == matrix[:, 1]).all()
    ranked = np.sort(task.counts, axis=1)
    assert (task.counts[np.arange(500), matrix[:, 0]] == ranked[:, -2]).all()
    assert (matrix[:, 0] != task.codes).all()


def test_raters_and_systems_of_one_seed_share_hard_items_and_decoys() -> None:
    key = np.random.default_rng(0).integers(6, size=2000)
    raters = draw_ratings(key, raters={"a": 0.0}, n_classes=6, shared=1.0, seed=9)[:, 0]
    same = simulate_systems(key, systems={"s": 0.0}, n_classes=6, shared=1.0, seed=9)["answer"]
    other = simulate_systems(key, systems={"s": 0.0}, n_classes=6, shared=1.0, seed=10)["answer"]
    assert raters.tolist() == same
    assert np.mean(raters == np.array(other)) < 0.3
    hard = draw_ratings(key, raters={"a": 0.5}, n_classes=6, correlation=1.0, seed=9)[:, 0] == key
    too = (
        np.array(
            simulate_systems(key, systems={"s": 0.5}, n_classes=6, correlation=1.0, seed=9)[
                "answer"
            ]
        )
        == key
    )
    assert (hard == too).all()


def test_wrong_ratings_follow_the_confusion() -> None:
    table = [[9, 1, 0], [1, 9, 1], [0, 0.5, 9]]
    key = np.arange(9000) % 3
    matrix = draw_ratings(key, raters={"a": 0.3}, n_classes=3, confusion=table, seed=1)[:, 0]
    assert not (matrix[key == 0] == 2).any()
    assert not (matrix[key == 2] == 0).any()
    wrong = matrix[(key == 1) & (matrix != 1)]
    assert np.mean(wrong == 0) == pytest.approx(0.5, abs=0.05)


def test_ratings_may_be_few_or_missing() -> None:
    raters = {f"r{j}": 0.8 for j in range(7)}
    key = np.zeros(3000, dtype=np.int64)
    few = draw_ratings(key, raters=raters, n_classes=2, n_per_item=3, seed=1)
    assert ((few >= 0).sum(axis=1) == 3).all()
    assert np.abs((few >= 0).mean(axis=0) - 3 / 7).max() < 0.05
    gaps = draw_ratings(key, raters=raters, n_classes=2, missing=0.25, seed=1)
    assert (gaps < 0).mean() == pytest.approx(0.25, abs=0.02)
    table = simulate_raters(key, raters=raters, n_classes=2, n_per_item=3, seed=1)
    assert len(table["item"]) == len(table["rater"]) == len(table["label"]) == 9000


def test_tables_name_items_raters_and_labels() -> None:
    task = simulate_task("colour", n_items=4, seed=1)
    table = simulate_raters(task, raters={"ann": 1.0}, seed=1)
    assert table == {
        "item": list(task.items),
        "rater": ["ann"] * 4,
        "label": list(task.key.values()),
    }
    given = simulate_raters({"x": 1, "y": 0}, raters={"ann": 1.0}, n_classes=2)
    assert given == {"item": ["x", "y"], "rater": ["ann", "ann"], "label": [1, 0]}
    answers = simulate_systems(task, systems={"a": 1.0, "b": 1.0}, seed=1)
    assert answers["answer"] == list(task.key.values()) * 2
    assert simulate_systems(task, systems={"a": 1.0}, no_answer=1.0, seed=1)["answer"] == [None] * 4


def test_the_same_seed_gives_the_same_ratings() -> None:
    options: dict[str, Any] = {
        "raters": {"a": 0.7, "b": 0.7},
        "n_classes": 4,
        "correlation": 0.2,
        "shared": 0.2,
        "missing": 0.1,
    }
    first, second = (simulate_raters(range(4), seed=5, **options) for _ in range(2))
    assert first == second


def test_a_perfect_detector_is_right_and_a_blind_one_guesses() -> None:
    task = simulate_task("shape", n_items=2000, seed=1)
    key = list(task.key.values())
    assert simulate_detector(task, found=1.0, named=1.0)["answer"] == key
    blind = simulate_detector(task, found=0.0, seed=2)["answer"]
    assert np.mean([a == k for a, k in zip(blind, key, strict=True)]) == pytest.approx(
        0.2, abs=0.04
    )
    shares = [
        np.mean(
            [a == k for a, k in zip(simulate_detector(task, found=f)["answer"], key, strict=True)]
        )
        for f in (0.98, 0.8)
    ]
    assert 1 > shares[0] > shares[1] > 0.4


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"raters": {}}, "raters"),
        ({"raters": {"a": 1.2}}, "a must"),
        ({"n_classes": None}, "n_classes"),
        ({"n_classes": 2}, "items"),
        ({"correlation": -0.1}, "correlation"),
        ({"shared": math.nan}, "shared"),
        ({"missing": 2}, "missing"),
        ({"n_per_item": 5}, "n_per_item"),
        ({"confusion": [[1, 2], [2, 1]]}, "confusion"),
        ({"confusion": [[1, 0, 0], [1, 0, 1], [1, 1, 0]]}, "confusion"),
        ({"seed": -3}, "seed"),
    ],
)
def test_faults_are_named(options: dict[str, Any], word: str) -> None:
    with pytest.raises(ArgumentError, match=f"^{word}"):
        simulate_raters([0, 1, 2], **{"raters": {"a": 0.5}, "n_classes": 3, **options})


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"accuracy": 1.0}, "accuracy"),
        ({"kappa": math.inf}, "kappa"),
        ({"kappa": 0.99}, "kappa"),
        ({"kappa": 0.0}, "kappa"),
        ({"given_right": 0.5}, "given_right"),
        ({"given_right": 0.95, "kappa": 0.1}, "kappa"),
    ],
)
def test_what_cannot_be_fitted_is_refused(options: dict[str, Any], word: str) -> None:
    with pytest.raises(ArgumentError, match=f"^{word}"):
        fit_raters(**{"n_classes": 3, "accuracy": 0.8, "kappa": 0.6, **options})


def test_two_classes_leave_no_choice_of_the_wrong_one() -> None:
    model = fit_raters(n_classes=2, accuracy=0.8, kappa=0.5)
    again = fit_raters(
        n_classes=2, accuracy=0.8, given_right=_both_right(0.8, model.correlation) / 0.8, kappa=0.5
    )
    assert again.correlation == pytest.approx(model.correlation, abs=1e-6)
    with pytest.raises(ArgumentError, match=r"^kappa must"):
        fit_raters(n_classes=2, accuracy=0.8, given_right=0.85, kappa=0.6)
