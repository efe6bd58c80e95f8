"""Real ruled-out labels: matrices of the paper's human labels, labels of a vision-language model, and
the runs that the authors exported.
"""

from __future__ import annotations

import csv
import dataclasses
from typing import Any

import numpy as np
from _climage_published import ALGORITHMS, NOISE
from _data import shared_file

Array = np.ndarray[Any, Any]


def human_matrix() -> Array | None:
    """T of CLCIFAR10, as the authors counted it; None without the file."""
    path = shared_file("aclcifar10.npz")
    if path is None:
        return None
    with np.load(path) as file:
        rows = np.asarray(file["T_clcifar10"], dtype=np.float64)
    return rows / rows.sum(axis=1, keepdims=True)


def model_labels() -> Array | None:
    """Nine labels of each image of CIFAR-10 by a vision-language model; None without the file."""
    path = shared_file("aclcifar10.npz")
    if path is None:
        return None
    with np.load(path) as file:
        return np.asarray(file["ruled_out"], dtype=np.int64)


def with_real_labels(data: Any) -> Any:
    """The same data with both, for those images that it has."""
    matrix, said = human_matrix(), model_labels()
    if matrix is None or said is None:
        return data
    n = len(data.truth)
    return dataclasses.replace(data, ruled_out=said[:n], matrices={"clcifar10": matrix})


def their_runs(data: str = "clcifar10-noiseless") -> dict[str, dict[float, float]]:
    """Test accuracy by algorithm and share of the wrong labels removed, in per cent: of five learning
    rates and of all epochs those with the best accuracy on held-out items, as the paper chooses.
    """
    path = shared_file("clcifar_runs.csv")
    best: dict[tuple[str, float], tuple[float, float]] = {}
    names = {name.lower(): name for name in ALGORITHMS}
    if path is not None:
        with path.open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                if row["dataset_name"] != data:
                    continue
                key = names[row["algo"]], float(row["data_cleaning_rate"])
                held, test = (
                    float(row[f"best_epoch-valid_acc.{part}_acc"]) for part in ("valid", "test")
                )
                best[key] = max(best.get(key, (-1.0, 0.0)), (held, 100 * test))
    found: dict[str, dict[float, float]] = {}
    for name, share in sorted(best):
        found.setdefault(name, {})[share] = best[name, share][1]
    return found


def wrong_left(removed: float, data: str = "CLCIFAR10") -> float:
    """Per cent of the labels that are wrong when this share of the wrong ones is removed."""
    wrong = NOISE[data] / 100
    return 100 * (1 - removed) * wrong / (1 - removed * wrong)
