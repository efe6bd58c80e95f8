"""Scorers of scikit-learn's searches on ruled-out labels: names, Pipelines, pickles, GridSearchCV."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

sklearn = pytest.importorskip("sklearn", reason="the learn extra is not installed")
pytest.importorskip("torch", reason="the learn extra is not installed")

from sklearn.base import BaseEstimator, ClassifierMixin  # noqa: E402
from sklearn.datasets import load_digits  # noqa: E402
from sklearn.linear_model import LogisticRegression  # noqa: E402
from sklearn.model_selection import GridSearchCV, KFold  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import StandardScaler  # noqa: E402

from noracle.errors import ArgumentError, EvidenceError  # noqa: E402
from noracle.learn.labels import draw_ruled_out  # noqa: E402
from noracle.learn.scores import class_numbers, scel_scorer, zero_one_scorer  # noqa: E402
from noracle.learn.transition import Transition  # noqa: E402
from noracle.learn.validation import estimate_model_accuracy, estimate_scel  # noqa: E402

NAMES = np.array(["cat", "dog", "emu"])
T = np.array([[0.05, 0.75, 0.2], [0.3, 0.0, 0.7], [0.6, 0.3, 0.1]])


@pytest.fixture(scope="module")
def animals():
    rng = np.random.default_rng(1)
    y = rng.integers(3, size=600)
    X = np.eye(3)[y] + rng.normal(scale=0.8, size=(600, 3))
    return X, NAMES[y], draw_ruled_out(y, transition=Transition(T), rng=rng)


def test_scorers_are_the_estimates(animals) -> None:
    X, y, said = animals
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y)
    predicted = np.searchsorted(NAMES, model.predict(X))
    for transition in (T, "uniform"):
        estimate = estimate_model_accuracy(predicted, said, transition=transition, n_classes=3)
        assert zero_one_scorer(transition)(model, X, NAMES[said]) == pytest.approx(
            estimate.value, abs=1e-12
        )
        z = model.predict_log_proba(X)
        for temperature in (1.0, 2.0, "fit"):
            loss = estimate_scel(z, said, transition=transition, temperature=temperature)
            assert scel_scorer(transition, temperature=temperature)(
                model, X, NAMES[said]
            ) == pytest.approx(-loss.value, abs=1e-12)


def test_matrix_follows_its_classes(animals) -> None:
    X, y, said = animals
    model = LogisticRegression().fit(X, y)
    order = [2, 0, 1]
    turned = T[np.ix_(order, order)]
    want = zero_one_scorer(T)(model, X, NAMES[said])
    assert zero_one_scorer(turned, classes=NAMES[order])(model, X, NAMES[said]) == pytest.approx(
        want, abs=1e-12
    )
    assert abs(zero_one_scorer(turned)(model, X, NAMES[said]) - want) > 1e-3
    with pytest.raises(ArgumentError, match="classes must name"):
        zero_one_scorer(turned, classes=["cat", "dog", "fox"])(model, X, NAMES[said])
    with pytest.raises(ArgumentError, match="one row for each of the 3 classes"):
        zero_one_scorer(Transition.uniform(4))(model, X, NAMES[said])


def test_labels_come_in_every_form(animals) -> None:
    X, y, said = animals
    model = LogisticRegression().fit(X, y)
    names = NAMES[said].astype(object)
    want = zero_one_scorer(T)(model, X, names)
    mask = np.eye(3, dtype=bool)[said]
    padded = np.stack([names, np.full(len(names), None, dtype=object)], axis=1)
    blank = np.stack([NAMES[said], np.full(len(names), "")], axis=1)
    for form in (mask, padded, blank, list(names)):
        assert zero_one_scorer(T)(model, X, form) == pytest.approx(want, abs=1e-12)
    assert np.isnan(zero_one_scorer(T)(model, X, np.full(len(names), "")))
    with pytest.raises(EvidenceError, match="must be classes of the estimator"):
        zero_one_scorer(T)(model, X, np.full(len(names), "fox"))
    assert class_numbers([3.0, np.nan, 5], np.array([3, 5])).tolist() == [0, -1, 1]
    assert class_numbers([[-1, 7], [7, -1]], np.array([-1, 7])).tolist() == [
        [0, 1],
        [1, 0],
    ]  # a class may be called -1


@pytest.mark.parametrize(
    "scorer", [zero_one_scorer(T), scel_scorer(T, temperature="fit"), zero_one_scorer("uniform")]
)
def test_scorers_are_pickled(animals, scorer) -> None:
    X, y, said = animals
    model = LogisticRegression().fit(X, y)
    assert pickle.loads(pickle.dumps(scorer))(model, X, NAMES[said]) == scorer(
        model, X, NAMES[said]
    )


class NotThis(ClassifierMixin, BaseEstimator):
    """A toy learner from ruled-out labels: the class whose centre of ruled-out items is farthest,
    with a share of noise.
    """

    def __init__(self, spoil: float = 0.0) -> None:
        self.spoil = spoil

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.centres_ = np.stack([X[y == c].mean(axis=0) for c in self.classes_])
        return self

    def decision(self, X):
        noise = np.random.default_rng(0).normal(size=(len(X), len(self.classes_)))
        return ((X[:, None] - self.centres_) ** 2).sum(axis=2) / 50 + self.spoil * noise

    def predict(self, X):
        return self.classes_[self.decision(X).argmax(axis=1)]

    def predict_proba(self, X):
        z = np.exp(self.decision(X) - self.decision(X).max(axis=1, keepdims=True))
        return z / z.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("scorer", [zero_one_scorer(), scel_scorer(temperature="fit")])
def test_grid_search_finds_the_better_model_without_a_true_label(scorer) -> None:
    X, truth = load_digits(return_X_y=True)
    names = np.array([f"digit {c}" for c in range(10)])
    said = names[draw_ruled_out(truth, n_classes=10, rng=np.random.default_rng(2))]
    search = GridSearchCV(NotThis(), {"spoil": [0.0, 3.0, 100.0]}, scoring=scorer, cv=KFold(3))
    search.fit(X, said)
    assert search.best_params_ == {"spoil": 0.0}
    if scorer.measure == "zero-one":
        right = (search.best_estimator_.predict(X) == names[truth]).mean()
        assert search.best_score_ == pytest.approx(right, abs=0.25)
