"""Pools of systems that exist already, and races over them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from _data import Answers, shared_file

from noracle import Evidence
from noracle.search.pool import Design, Picked, Pool, race_pool

DESIGNS: tuple[Design, ...] = ("targeted", "equal", "uniform")
_COLOURS = {"targeted": "#0072B2", "equal": "#D55E00", "uniform": "#666666"}
_MARKS = {"targeted": "o", "equal": "s", "uniform": "^"}
_WORDS = {
    "targeted": "aimed at the systems in the race",
    "equal": "aimed at all systems",
    "uniform": "any class",
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Races:
    """Races of one design over one pool. ``regret[r, p]`` and ``left[r, p]`` belong to race r after
    ``points[p]`` labels.
    """

    design: Design
    points: tuple[int, ...]
    regret: np.ndarray
    left: np.ndarray
    kept: float
    to_two: np.ndarray
    passed_over: float

    @property
    def reached(self) -> float:
        """Share of the races in which at most two systems were left at the end."""
        return float(np.isfinite(self.to_two).mean())


def evidence_of(answers: Answers) -> Evidence:
    """The answers as tables."""
    n = len(answers.key)
    table = {
        "item": np.tile(np.arange(n), len(answers.systems)).tolist(),
        "system": np.repeat(answers.systems, n).tolist(),
        "answer": [None if a < 0 else a for a in answers.given.ravel().tolist()],
    }
    return Evidence.from_tables(
        table, None, {"item": list(range(n)), "n_classes": answers.n_classes.tolist()}
    )


def run_races(
    answers: Answers, design: Design, *, budget: int, repetitions: int, seed: int
) -> Races:
    """Race again and again, each time with the items in another order."""
    pool = Pool.read(evidence_of(answers))
    accuracy = dict(zip(answers.systems, answers.accuracy.tolist(), strict=True))
    best = max(accuracy.values())
    picked = [
        race_pool(
            pool,
            lambda item, k: bool(answers.key[item] == k),
            design=design,
            budget=budget,
            seed=seed + r,
        )
        for r in range(repetitions)
    ]
    points = tuple(2**p for p in range(3, budget.bit_length()) if 2**p <= budget)
    steps = [[_at(p, n) for n in points] for p in picked]
    return Races(
        design=design,
        points=points,
        regret=np.array([[best - accuracy[s] for s, _ in row] for row in steps]),
        left=np.array([[n for _, n in row] for row in steps]),
        kept=float(np.mean([best in [accuracy[s] for s in p.comparison.leaders] for p in picked])),
        to_two=np.array([_to_two(p, len(answers.systems)) for p in picked]),
        passed_over=float(np.mean([p.passed_over for p in picked])),
    )


def _at(picked: Picked, labels: int) -> tuple[str, int]:
    """The best guess and the number of systems left after so many labels (or at the end, where that
    came before).
    """
    step = [s for s in picked.path if s.labels <= labels][-1]
    return step.best, step.left


def _to_two(picked: Picked, systems: int) -> float:
    """Labels until at most two systems were left; infinite where it did not come to that."""
    dropped = sorted(picked.comparison.dropped.values())
    return float(dropped[systems - 3]) if len(dropped) >= systems - 2 else float("inf")


def medical_pipelines() -> Answers:
    """Text classifiers of scikit-learn on Medical Abstracts, each abstract judged by models that
    never saw it; else a stand-in.
    """
    path = shared_file("medical_abstracts.parquet")
    if path is None:
        return _stand_in()
    import duckdb
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression, RidgeClassifier
    from sklearn.model_selection import StratifiedKFold, cross_val_predict
    from sklearn.naive_bayes import ComplementNB, MultinomialNB
    from sklearn.neighbors import KNeighborsClassifier, NearestCentroid
    from sklearn.pipeline import make_pipeline
    from sklearn.svm import LinearSVC

    rows = duckdb.execute(
        "SELECT condition_label, medical_abstract FROM read_parquet(?)", [str(path)]
    ).fetchall()
    key = np.array([label - 1 for label, _ in rows])
    models = {
        "complement naive Bayes": ComplementNB(),
        "multinomial naive Bayes": MultinomialNB(),
        "logistic regression": LogisticRegression(C=4.0, max_iter=400),
        "linear SVM": LinearSVC(C=0.3, random_state=0),
        "ridge": RidgeClassifier(alpha=2.0),
        "nearest centroid": NearestCentroid(),
        "15 neighbours": KNeighborsClassifier(n_neighbors=15, metric="cosine"),
    }
    folds = StratifiedKFold(n_splits=5, shuffle=True, random_state=0)
    texts = TfidfVectorizer(sublinear_tf=True, min_df=2, stop_words="english")
    given = [
        cross_val_predict(make_pipeline(texts, model), [text for _, text in rows], key, cv=folds)
        for model in models.values()
    ]
    return Answers(
        systems=tuple(models),
        n_classes=np.full(len(key), 5),
        key=key,
        given=np.array(given),
        source="Medical Abstracts, seven scikit-learn pipelines, 5-fold cross-validation",
    )


def _stand_in(n_items: int = 2888) -> Answers:
    """Seven simulated systems that find the same items hard."""
    rng = np.random.default_rng(11)
    key, hard = rng.integers(5, size=n_items), rng.normal(size=n_items)
    skills = (0.45, 0.42, 0.35, 0.3, 0.1, 0.0, -0.3)
    right = [skill + 0.7 * rng.normal(size=n_items) > hard for skill in skills]
    given = np.array(
        [np.where(hit, key, (key + 1 + rng.integers(4, size=n_items)) % 5) for hit in right]
    )
    names = tuple(f"pipeline {i + 1}" for i in range(len(skills)))
    source = "simulated stand-in (NORACLE_DATA has no Medical Abstracts file)"
    return Answers(
        systems=names, n_classes=np.full(n_items, 5), key=key, given=given, source=source
    )


def draw_races(races: Sequence[Races], source: str, path: Path) -> None:
    """Two panels: regret of the best guess and systems left, against labels; the same numbers are
    in the table.
    """
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    with plt.rc_context({"svg.hashsalt": "noracle", "font.size": 9}):
        figure, (left, right) = plt.subplots(1, 2, figsize=(8.5, 3.4), layout="constrained")
        for r in races:
            style = {
                "color": _COLOURS[r.design],
                "marker": _MARKS[r.design],
                "markersize": 4,
                "label": _WORDS[r.design],
            }
            left.plot(r.points, 100 * r.regret.mean(axis=0), **style)
            right.plot(r.points, r.left.mean(axis=0), **style)
        left.set(
            xscale="log",
            xlabel="labels spent",
            ylabel="points below the true best",
            title="(a) regret of the best guess",
            ylim=(0, None),
        )
        right.set(
            xscale="log",
            xlabel="labels spent",
            ylabel="systems left",
            title="(b) systems that may be the best",
            ylim=(0, None),
        )
        left.legend(frameon=False, fontsize=8)
        figure.suptitle(source, fontsize=8.5)
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, metadata={"Date": None})
        plt.close(figure)
