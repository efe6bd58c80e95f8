"""The answers that the examples judge: real ones from the folder that NORACLE_DATA names, else
simulated stand-ins.
"""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

# Shares of 3, 4, … 10 options and the accuracy and answered share of the stand-in systems, close to
# the real file.
_OPTION_SHARES = (0.002, 0.050, 0.004, 0.008, 0.013, 0.027, 0.067, 0.829)
_STAND_INS = {
    "strong": (0.64, 0.99),
    "middle": (0.51, 0.93),
    "weak": (0.40, 0.87),
    "often silent": (0.34, 0.75),
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """The answers of some systems to the same items, with the key that only the judge of the judges
    has.

    ``given[s, i]`` is the class that system s gave to item i, -1 without an answer;
    ``n_classes[i]`` and ``key[i]`` belong to item i.
    """

    systems: tuple[str, ...]
    n_classes: Array
    key: Array
    given: Array
    source: str

    @property
    def accuracy(self) -> Array:
        """Share of right answers of each system; no answer counts as wrong."""
        return np.asarray((self.given == self.key).mean(axis=1))

    @property
    def without_answer(self) -> Array:
        """Number of items that each system left without an answer."""
        return np.asarray((self.given < 0).sum(axis=1))

    @property
    def among_answered(self) -> Array:
        """Accuracy of each system on the items that it answered."""
        return np.asarray((self.given == self.key).sum(axis=1) / (self.given >= 0).sum(axis=1))

    def keep(self, which: Array) -> Answers:
        """Only these items."""
        return dataclasses.replace(
            self, n_classes=self.n_classes[which], key=self.key[which], given=self.given[:, which]
        )

    def of(self, system: str) -> Array:
        """The answers of one system."""
        return np.asarray(self.given[self.systems.index(system)])


def shared_file(name: str) -> Path | None:
    """The file in the folder that NORACLE_DATA names, or None."""
    folder = os.environ.get("NORACLE_DATA", "")
    path = Path(folder) / name
    return path if folder and path.is_file() else None


def mmlu_pro() -> Answers:
    """Answers of 20 language models to MMLU-Pro, questions with at least 3 options; a simulated
    stand-in where the file is absent.

    An answer that is not one of the question's options (at most 39 of a model's 12,025) can neither
    be right nor be ruled out: it is no answer.
    """
    path = shared_file("mmlu_pro_predictions.parquet")
    if path is None:
        return _stand_in()
    import duckdb

    columns = duckdb.execute(
        "SELECT * FROM read_parquet(?) WHERE n_options >= 3 ORDER BY item", [str(path)]
    ).fetchnumpy()
    systems = tuple(
        name for name in columns if name not in ("item", "category", "n_options", "answer")
    )
    n_classes, key = (
        np.asarray(columns["n_options"], dtype=np.int64),
        np.asarray(columns["answer"], dtype=np.int64),
    )
    given = np.array([np.asarray(columns[name], dtype=np.int64) for name in systems])
    given[given >= n_classes] = -1
    return Answers(
        systems=systems,
        n_classes=n_classes,
        key=key,
        given=given,
        source="MMLU-Pro, answers of 20 public language models",
    )


def ten_options(answers: Answers) -> Answers:
    """Only the questions with 10 options, as in the paper."""
    return answers.keep(answers.n_classes == 10)


def _stand_in(n_items: int = 12_000) -> Answers:
    rng = np.random.default_rng(2024)
    n_classes = rng.choice(np.arange(3, 11), p=np.array(_OPTION_SHARES), size=n_items)
    key = rng.integers(n_classes)
    given = []
    for accuracy, share in _STAND_INS.values():
        right = rng.random(n_items) < accuracy
        answer = np.where(right, key, (key + 1 + rng.integers(n_classes - 1)) % n_classes)
        given.append(np.where(rng.random(n_items) < share, answer, -1))
    return Answers(
        systems=tuple(_STAND_INS),
        n_classes=n_classes,
        key=key,
        given=np.array(given),
        source="simulated stand-in (NORACLE_DATA has no MMLU-Pro file)",
    )


def medical_abstracts() -> Answers:
    """A TF-IDF classifier on the Medical Abstracts test part (5 imbalanced classes), each abstract
    judged by a model that never saw it.
    """
    path = shared_file("medical_abstracts.parquet")
    if path is None:
        return imbalanced(
            np.random.default_rng(5),
            n_items=2888,
            accuracy=0.6,
            shares=(0.22, 0.10, 0.13, 0.21, 0.34),
            source="simulated stand-in (NORACLE_DATA has no Medical Abstracts file)",
        )
    import duckdb
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.model_selection import StratifiedKFold, cross_val_predict
    from sklearn.naive_bayes import ComplementNB
    from sklearn.pipeline import make_pipeline

    rows = duckdb.execute(
        "SELECT condition_label, medical_abstract FROM read_parquet(?)", [str(path)]
    ).fetchall()
    key = np.array([label - 1 for label, _ in rows])
    system = make_pipeline(
        TfidfVectorizer(sublinear_tf=True, min_df=2, stop_words="english"), ComplementNB()
    )
    folds = StratifiedKFold(n_splits=5, shuffle=True, random_state=0)
    given = cross_val_predict(system, [text for _, text in rows], key, cv=folds)
    return Answers(
        systems=("TF-IDF + naive Bayes",),
        n_classes=np.full(len(key), 5),
        key=key,
        given=given[None, :],
        source="Medical Abstracts, 5-fold cross-validation",
    )


def imbalanced(
    rng: np.random.Generator,
    *,
    n_items: int,
    accuracy: float,
    shares: tuple[float, ...],
    source: str = "simulated",
) -> Answers:
    """Items of unequally frequent classes and a system whose wrong answers favour the frequent
    ones.
    """
    n_classes, p = len(shares), np.array(shares) / sum(shares)
    key = rng.choice(n_classes, size=n_items, p=p)
    guess = rng.choice(n_classes, size=n_items, p=p)
    wrong = np.where(
        guess == key, (key + 1 + rng.integers(n_classes - 1, size=n_items)) % n_classes, guess
    )
    given = np.where(rng.random(n_items) < accuracy, key, wrong)
    return Answers(
        systems=("simulated",),
        n_classes=np.full(n_items, n_classes),
        key=key,
        given=given[None, :],
        source=source,
    )
