"""What the paper prints, and the ratings that the example judges: generated, and real where
NORACLE_DATA has them.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, NamedTuple

import numpy as np
from _data import shared_file
from _superhuman_models import PICTURES, trained_systems

from noracle.counts.ratings import RatingCounts
from noracle.simulate import RaterModel, fit_raters, simulate_task
from noracle.simulate.annotators import draw_ratings

Array = np.ndarray[Any, Any]
N_RATERS = 10


class Published(NamedTuple):
    """The rows of Tables 1 and 6 for one generated task."""

    given_right: float
    right: float
    right_where_wrong: dict[
        str, float
    ]  # P(M = y | G != y); the table's other column is one minus it
    cohen: float
    fleiss: float
    krippendorff: float


TASKS = {
    "colour": Published(0.850, 0.836, {"weak": 1.0, "strong": 1.0}, 0.6040, 0.6036, 0.5819),
    "shape": Published(0.586, 0.542, {"weak": 0.579, "strong": 0.895}, 0.2386, 0.2372, 0.2330),
}


class Benchmark(NamedTuple):
    """A column of Table 2 with the sizes of Table 5."""

    n_items: int
    n_classes: int
    n_raters: int
    paper: float
    empirical: float
    systems: dict[str, float]


TABLE2 = {
    "SST-5": Benchmark(
        2210,
        5,
        3,
        0.790,
        0.660,
        {
            "CNN-LSTM": 0.492,
            "Constituency Tree-LSTM": 0.510,
            "BERT-large": 0.555,
            "RoBERTa+Self-Explaining": 0.591,
        },
    ),
    "SST-2": Benchmark(
        1821,
        2,
        3,
        0.960,
        0.939,
        {
            "CNN-LSTM": 0.878,
            "Constituency Tree-LSTM": 0.880,
            "BERT-large": 0.949,
            "StructBERT": 0.971,
        },
    ),
    "SNLI": Benchmark(
        10_000,
        3,
        5,
        0.904,
        0.879,
        {"BiLSTM": 0.855, "Tree-CNN": 0.821, "LM-Pretrained Transformer": 0.899, "SemBERT": 0.919},
    ),
}
TABLE3 = {
    # who: benchmark, match rate, S by HMS and by OMS as printed; None is "< 0"
    "Devlin et al. (2019)": ("SST-2", 0.949, None, None),
    "Wang et al. (2020)": ("SST-2", 0.971, 0.4730, 0.6208),
    "Radford et al. (2018)": ("SNLI", 0.899, 0.8482, 0.9267),
    "Zhang et al. (2020)": ("SNLI", 0.919, 0.9997, 0.9999),
}
TABLE4 = {"b right, a right": 0.8, "b right, a wrong": 0.6, "a right": 0.7}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Rated:
    """Ratings of some items by raters in columns (-1: none), with the key where there is one and
    the answers of systems.
    """

    name: str
    labels: tuple[str, ...]
    ratings: Array
    key: Array | None
    answers: dict[str, Array]

    def counts(self, *, pairs: bool = False) -> RatingCounts:
        """As the package takes them."""
        return RatingCounts.from_arrays(
            self.ratings,
            labels=self.labels,
            raters=[f"rater-{j + 1}" for j in range(self.ratings.shape[1])],
            answers=self.answers,
            pairs=pairs,
        )

    @property
    def votes(self) -> Array:
        """Votes by item and label."""
        return np.asarray((self.ratings[:, :, None] == np.arange(len(self.labels))).sum(axis=1))

    @property
    def mean_accuracy(self) -> float:
        """Share of right ratings, each item counting equally; NaN without a key."""
        return (
            float("nan") if self.key is None else float((self.ratings == self.key[:, None]).mean())
        )

    def accuracy(self, system: str) -> float:
        """Share of right answers; NaN without a key."""
        return (
            float("nan") if self.key is None else float((self.answers[system] == self.key).mean())
        )


def rater_model(kind: str) -> RaterModel:
    """Raters with the accuracy, the conditional accuracy and the kappa that the paper reports for
    this task.
    """
    row = TASKS[kind]
    return fit_raters(
        n_classes=3 if kind == "colour" else 5,
        accuracy=row.right,
        given_right=row.given_right,
        kappa=row.fleiss,
    )


def generated(
    kind: str, *, n_items: int, seed: int, pictures: dict[str, int] | None = None
) -> Rated:
    """Pictures, ten simulated raters, and the answers of a strong and a weak system that were
    really trained on other pictures.
    """
    task = simulate_task(kind, n_items=n_items, seed=seed)  # type: ignore[arg-type]
    model = rater_model(kind)
    ratings = draw_ratings(
        task,
        raters=model.raters(N_RATERS),
        correlation=model.correlation,
        shared=model.shared,
        seed=seed,
    )
    systems = trained_systems(kind, seed=seed, pictures=pictures or PICTURES)
    answers = {name: system.answers(task) for name, system in systems.items()}
    return Rated(
        name=f"{kind}s, generated",
        labels=task.options,
        ratings=ratings,
        key=task.codes,
        answers=answers,
    )


def snli() -> Rated | None:
    """1,286 pairs of SNLI's development part with five ratings each; no key."""
    path = shared_file("snli_dev_annotators.parquet")
    if path is None:
        return None
    import duckdb

    labels = ("contradiction", "entailment", "neutral")
    rows = duckdb.execute(
        "SELECT annotator1, annotator2, annotator3, annotator4, annotator5 FROM read_parquet(?) ORDER BY item",
        [str(path)],
    )
    place = {label: code for code, label in enumerate(labels)}
    ratings = np.array([[place.get(said, -1) for said in row] for row in rows.fetchall()])
    return Rated(name="SNLI dev", labels=labels, ratings=ratings, key=None, answers={})


def cifar10n() -> Rated | None:
    """50,000 images of CIFAR-10 with three human ratings each (CIFAR-10N) and the key."""
    path = shared_file("cifar10_train.npz")
    if path is None:
        return None
    with np.load(path) as file:
        ratings, key = file["annotators"].astype(np.int64), file["label"].astype(np.int64)
    return Rated(
        name="CIFAR-10N", labels=tuple(map(str, range(10))), ratings=ratings, key=key, answers={}
    )


def third_person(rated: Rated) -> Rated:
    """The last rater as a system beside the others: a real person in the place of the system."""
    return dataclasses.replace(
        rated,
        name=f"{rated.name}, third rating as the system",
        ratings=rated.ratings[:, :-1],
        answers={"third rating": rated.ratings[:, -1]},
    )


def task_of(rated: Rated) -> str:
    """The kind of task, where the pictures were generated."""
    return rated.name.split("s,")[0]


def number(value: float | None, digits: int = 3) -> str:
    """A number, or a dash where there is none."""
    return "–" if value is None or math.isnan(value) else f"{value:.{digits}f}"
