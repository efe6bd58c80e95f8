"""Drawn labels have the distribution they claim; chi-square tests at fixed seeds reject below 1e-4."""

from __future__ import annotations

import itertools
import time

import numpy as np
import pytest
from scipy.stats import chi2

from noracle.errors import ArgumentError, EvidenceError
from noracle.learn.labels import (
    ask_annotators,
    biased_transition,
    draw_ruled_out,
    drop_wrong,
    feature_chances,
    resample_ruled_out,
)
from noracle.learn.transition import Transition, count_transition, ruled_out_counts

N, K = 60_000, 10


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20)


@pytest.fixture
def truth(rng: np.random.Generator) -> np.ndarray:
    return rng.choice(K, p=np.arange(1, K + 1) / 55, size=N)


def p_value(counts: np.ndarray, expected: np.ndarray) -> float:
    """Pearson's chi-square of rows of counts against rows of probabilities; a count where none may
    be gives 0.
    """
    probabilities = np.asarray(expected, dtype=float)
    if counts[probabilities == 0].any():
        return 0.0
    mean = counts.sum(axis=1, keepdims=True) * probabilities
    use = mean > 0
    freedom = int((use.sum(axis=1) - 1).clip(min=0).sum())
    return float(chi2.sf((((counts - mean) ** 2)[use] / mean[use]).sum(), freedom))


def test_the_test_itself_rejects_a_wrong_matrix(
    truth: np.ndarray, rng: np.random.Generator
) -> None:
    said = draw_ruled_out(truth, transition=Transition.noisy(K, 0.01), rng=rng)
    counts = ruled_out_counts(truth, said, n_classes=K)
    assert p_value(counts, Transition.uniform(K).matrix) == 0
    assert p_value(counts, Transition.noisy(K, 0.015).matrix) < 1e-4
    assert p_value(counts, Transition.noisy(K, 0.01).matrix) > 1e-4


MATRICES = {
    "uniform": lambda rng: Transition.uniform(K),
    "weak": lambda rng: biased_transition(K, bias="weak", rng=rng),
    "strong": lambda rng: biased_transition(K, bias="strong", rng=rng),
    "diagonal noise": lambda rng: Transition.noisy(K, 0.1),
    "mixture with all classes": lambda rng: biased_transition(K, bias="strong", rng=rng).with_floor(
        0.1
    ),
    "any": lambda rng: Transition(rng.dirichlet(np.full(K, 0.3), size=K)),
}


@pytest.mark.parametrize("name", MATRICES)
def test_single_labels_have_the_matrix(
    name: str, truth: np.ndarray, rng: np.random.Generator
) -> None:
    transition = MATRICES[name](rng)
    said = draw_ruled_out(truth, transition=transition, rng=rng)
    assert said.shape == (N,)
    assert p_value(ruled_out_counts(truth, said, n_classes=K), transition.matrix) > 1e-4


def test_labels_of_classes_alone_are_uniform(truth: np.ndarray, rng: np.random.Generator) -> None:
    said = draw_ruled_out(truth, n_classes=K, rng=rng)
    assert (said != truth).all()
    assert p_value(ruled_out_counts(truth, said, n_classes=K), Transition.uniform(K).matrix) > 1e-4


def test_labels_with_replacement_are_independent_draws(
    truth: np.ndarray, rng: np.random.Generator
) -> None:
    transition = biased_transition(K, bias="weak", rng=rng)
    said = draw_ruled_out(truth, transition=transition, n_labels=2, replace=True, rng=rng)
    pairs = np.zeros((K, K * K))
    np.add.at(pairs, (truth, said[:, 0] * K + said[:, 1]), 1)
    expected = (transition.matrix[:, :, None] * transition.matrix[:, None, :]).reshape(K, -1)
    assert p_value(pairs, expected) > 1e-4


def test_labels_without_replacement_are_draws_from_what_is_left(rng: np.random.Generator) -> None:
    """Ordered pairs: P(a, b) = T[a]·T[b]/(1 - T[a]); also where the larger half of all classes is
    drawn.
    """
    T = np.array(
        [[0.1, 0.5, 0.3, 0.1], [0.7, 0.0, 0.2, 0.1], [0.25, 0.25, 0.25, 0.25], [0.4, 0.3, 0.3, 0.0]]
    )
    y = rng.integers(4, size=N)
    for size in (2, 3):
        said = draw_ruled_out(y, transition=Transition(T), n_labels=size, rng=rng)
        assert said.shape == (N, size)
        orders = list(itertools.permutations(range(4), size))
        expected, counts = np.zeros((4, len(orders))), np.zeros((4, len(orders)))
        for i, order in enumerate(orders):
            counts[:, i] = np.bincount(y[(said == order).all(axis=1)], minlength=4)
            left = np.ones(4)
            expected[:, i] = 1.0
            for c in order:
                expected[:, i] *= np.divide(T[:, c], left, out=np.zeros(4), where=left > 1e-12)
                left -= T[:, c]
        assert counts.sum() == N
        assert p_value(counts, expected) > 1e-4


def test_random_sets_are_uniform_over_all_sets_of_wrong_classes(rng: np.random.Generator) -> None:
    k = 5
    y = rng.integers(k, size=N)
    said = draw_ruled_out(y, n_classes=k, n_labels="random", rng=rng)
    assert said.shape == (N, k - 1)
    codes = np.where(said >= 0, 1 << said.clip(min=0), 0).sum(axis=1)
    counts, expected = np.zeros((k, 2**k)), np.zeros((k, 2**k))
    np.add.at(counts, (y, codes), 1)
    for j in range(k):
        for code in range(1, 2**k):
            expected[j, code] = 0 if code >> j & 1 else 1 / (2 ** (k - 1) - 1)
    assert p_value(counts, expected) > 1e-4


def test_chances_of_an_item_are_followed(rng: np.random.Generator) -> None:
    scores = np.repeat(rng.normal(size=(4, 3)), N // 4, axis=0)
    y = np.zeros(N, dtype=int)
    group = np.arange(N) // (N // 4)
    for truth, sharpness in ((None, 1.0), (y, 2.0), (y, -1.0)):
        chances = feature_chances(scores, truth=truth, sharpness=sharpness)
        assert np.allclose(chances.sum(axis=1), 1)
        said = draw_ruled_out(y, chances=chances, rng=rng)
        counts = np.zeros((4, 3))
        np.add.at(counts, (group, said), 1)
        assert p_value(counts, chances[:: N // 4]) > 1e-4
    likely, unlikely = scores[0].argmax(), scores[0].argmin()
    easy, hard = feature_chances(scores, sharpness=1), feature_chances(scores, sharpness=-1)
    assert easy[0, unlikely] > easy[0, likely]
    assert hard[0, unlikely] < hard[0, likely]


def test_weights_that_do_not_sum_to_one_are_scaled_and_zero_is_never_drawn(
    rng: np.random.Generator,
) -> None:
    weights = np.tile([0.0, 3.0, 0.0, 6.0, 0.0], (N, 1))
    said = draw_ruled_out(np.zeros(N, dtype=int), chances=weights, rng=rng)
    assert (
        p_value(np.bincount(said, minlength=5)[None, :], np.array([[0, 1 / 3, 0, 2 / 3, 0]])) > 1e-4
    )


class TestAnnotators:
    def test_labels_have_the_matrix_of_the_protocol(
        self, truth: np.ndarray, rng: np.random.Generator
    ) -> None:
        for shown, error in ((4, 0.2), (2, 1.0), (10, 0.05)):
            said = ask_annotators(truth, n_classes=K, error=error, n_shown=shown, rng=rng)
            expected = Transition.noisy(K, error * shown / K).matrix
            for column in said.ruled_out.T:
                assert p_value(ruled_out_counts(truth, column, n_classes=K), expected) > 1e-4

    def test_each_annotator_has_its_own_error(
        self, truth: np.ndarray, rng: np.random.Generator
    ) -> None:
        errors = np.array([0.0, 0.05, 0.1, 0.5, 0.9])
        said = ask_annotators(truth, n_classes=K, error=errors, rng=rng)
        assert (
            np.diff(np.sort(said.annotator, axis=1), axis=1) > 0
        ).all()  # three different people
        counts = np.zeros((5, 2))
        np.add.at(
            counts,
            (said.annotator.ravel(), (said.ruled_out == truth[:, None]).ravel().astype(int)),
            1,
        )
        assert p_value(counts, np.stack([1 - errors * 0.4, errors * 0.4], axis=1)) > 1e-4
        assert p_value(counts.sum(axis=1)[None, :], np.full((1, 5), 0.2)) > 1e-4

    def test_appeal_tilts_the_choice_among_the_shown(self, rng: np.random.Generator) -> None:
        """With all classes shown and no error the labels follow the wrong part of the row of
        appeal.
        """
        appeal = Transition([[0.5, 0.4, 0.1], [0.0, 0.5, 0.5], [1.0, 0.0, 0.0]])
        y = rng.integers(3, size=N)
        said = ask_annotators(
            y, n_classes=3, n_shown=3, n_answers=1, appeal=appeal, rng=rng
        ).ruled_out
        expected = np.array([[0.0, 0.8, 0.2], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]])
        assert p_value(ruled_out_counts(y, said, n_classes=3), expected) > 1e-4

    def test_who_sees_only_classes_without_appeal_still_never_picks_the_true_one(
        self, rng: np.random.Generator
    ) -> None:
        appeal = Transition([[1.0, 0.0, 0.0]] * 3)
        said = ask_annotators(
            np.zeros(1000, dtype=int), n_classes=3, n_shown=2, appeal=appeal, rng=rng
        ).ruled_out
        assert set(np.unique(said)) == {1, 2}

    def test_arguments_are_checked(self, rng: np.random.Generator) -> None:
        with pytest.raises(ArgumentError, match="n_shown must be from 2 to 3"):
            ask_annotators([0], n_classes=3, n_shown=4, rng=rng)
        with pytest.raises(ArgumentError, match="at least n_answers annotators; got 2 for 3"):
            ask_annotators([0], n_classes=5, error=[0.1, 0.1], rng=rng)
        with pytest.raises(ArgumentError, match=r"error must be in \[0, 1\]"):
            ask_annotators([0], n_classes=5, error=1.1, rng=rng)
        with pytest.raises(ArgumentError, match="appeal must have 5 classes; got 3"):
            ask_annotators([0], n_classes=5, appeal=Transition.uniform(3), rng=rng)
        with pytest.raises(ArgumentError, match="truth must be in"):
            ask_annotators([5], n_classes=5, rng=rng)


class TestMatrices:
    @pytest.mark.parametrize("k", [2, 3, 4, 5, 10, 20, 100])
    @pytest.mark.parametrize("bias", ["weak", "strong"])
    def test_bias_is_there_for_any_number_of_classes(self, k: int, bias: str) -> None:
        T = biased_transition(k, bias=bias, rng=np.random.default_rng(k)).matrix
        assert np.diag(T).max() == 0
        assert np.allclose(np.sort(T, axis=1), np.sort(T, axis=1)[0])
        assert (T[~np.eye(k, dtype=bool)] > 0).all()
        if k > 2:
            assert T.max() > 1 / (k - 1)

    def test_thirds_have_their_masses(self) -> None:
        row = np.sort(biased_transition(10, bias="strong", rng=np.random.default_rng(1)).matrix[3])
        assert row.tolist() == pytest.approx([0] + [0.01 / 3] * 3 + [0.08] * 3 + [0.25] * 3)
        with pytest.raises(ArgumentError, match="bias must be weak or strong"):
            biased_transition(10, bias="mild", rng=np.random.default_rng(1))  # type: ignore[arg-type]


def test_resampled_labels_have_the_empirical_matrix_and_forget_the_item(
    rng: np.random.Generator,
) -> None:
    """Labels that depend on a feature of the item; resampled ones have the same T, and the feature
    says nothing.
    """
    y, feature = rng.integers(3, size=N), rng.integers(2, size=N)
    said = np.where(feature == 0, (y + 1) % 3, (y + 2) % 3)
    said[:1000] = -1
    again = resample_ruled_out(y, said, n_classes=3, rng=rng)
    assert ((again == -1) == (said == -1)).all()
    given = said >= 0
    assert (
        p_value(
            ruled_out_counts(y, again, n_classes=3), count_transition(y, said, n_classes=3).matrix
        )
        > 1e-4
    )
    shift = (again[given] - y[given]) % 3
    counts = np.stack([np.bincount(shift[feature[given] == f], minlength=3) for f in (0, 1)])
    assert p_value(counts, np.tile(counts.sum(axis=0) / counts.sum(), (2, 1))) > 1e-4


def test_wrong_labels_go_by_the_share_and_right_ones_stay(
    truth: np.ndarray, rng: np.random.Generator
) -> None:
    said = draw_ruled_out(
        truth, transition=Transition.noisy(K, 0.2), n_labels=3, replace=True, rng=rng
    )
    before = said.copy()
    wrong = said == truth[:, None]
    for share in (0.0, 0.5, 1.0):
        left = drop_wrong(truth, said, share=share, rng=rng)
        assert (left == -1).sum() == round(share * wrong.sum())
        assert (left[~wrong] == said[~wrong]).all()
    assert (said == before).all()
    assert drop_wrong([0, 1], [0, 0], share=1, rng=rng).tolist() == [-1, 0]
    with pytest.raises(ArgumentError, match="share"):
        drop_wrong(truth, said, share=1.5, rng=rng)
    with pytest.raises(ArgumentError, match="one row for each of the 2 items"):
        drop_wrong([0, 1], [0], share=1, rng=rng)


class TestArguments:
    def test_one_way_to_draw_is_asked_for(self, rng: np.random.Generator) -> None:
        for given in ({}, {"n_classes": 3, "transition": Transition.uniform(3)}):
            with pytest.raises(ArgumentError, match="one of transition, chances and n_classes"):
                draw_ruled_out([0], **given, rng=rng)

    def test_faults_name_the_items(self, rng: np.random.Generator) -> None:
        with pytest.raises(EvidenceError, match=r"truth must be in \[0, 3\); got 3 at item 1"):
            draw_ruled_out([0, 3], n_classes=3, rng=rng)
        with pytest.raises(
            EvidenceError,
            match=r"chances must be non-negative with a positive sum; got .* at item 1",
        ):
            draw_ruled_out([0, 1], chances=[[0, 1], [0, 0]], rng=rng)
        with pytest.raises(
            EvidenceError,
            match="must leave 3 possible classes; got 2 possible classes at items 0, 1",
        ):
            draw_ruled_out([0, 1], n_classes=3, n_labels=3, rng=rng)
        with pytest.raises(ArgumentError, match="one whole number per item"):
            draw_ruled_out([0.5], n_classes=3, rng=rng)
        with pytest.raises(ArgumentError, match="n_labels must be at least 1"):
            draw_ruled_out([0], n_classes=3, n_labels=0, rng=rng)
        with pytest.raises(ArgumentError, match="chances must have one row"):
            draw_ruled_out([0], chances=[[0, 1], [1, 0]], rng=rng)
        with pytest.raises(ArgumentError, match="n_classes must be at least 2"):
            draw_ruled_out([0], n_classes=1, rng=rng)
        with pytest.raises(ArgumentError, match="scores must be finite"):
            feature_chances([[np.nan, 1]])
        with pytest.raises(ArgumentError, match="truth must be 1 classes"):
            feature_chances([[0.0, 1]], truth=[2])

    def test_no_items_and_two_classes_are_fine(self, rng: np.random.Generator) -> None:
        none = np.empty(0, dtype=int)
        assert draw_ruled_out(none, n_classes=3, rng=rng).shape == (0,)
        assert draw_ruled_out(none, n_classes=3, n_labels=2, rng=rng).shape == (0, 2)
        assert ask_annotators(none, n_classes=5, rng=rng).ruled_out.shape == (0, 3)
        assert draw_ruled_out([0, 1], n_classes=2, n_labels="random", rng=rng).tolist() == [
            [1],
            [0],
        ]
        assert resample_ruled_out(none, none, n_classes=3, rng=rng).shape == (0,)
        assert drop_wrong(none, none, share=1, rng=rng).shape == (0,)

    def test_same_generator_same_labels(self, truth: np.ndarray) -> None:
        draws = [
            draw_ruled_out(truth, n_classes=K, n_labels=3, rng=np.random.default_rng(5))
            for _ in range(2)
        ]
        assert (draws[0] == draws[1]).all()


@pytest.mark.full
@pytest.mark.parametrize("how", ["uniform", "matrix", "three", "random", "chances"])
@pytest.mark.timing
def test_sixty_thousand_labels_cost_less_than_50_milliseconds(
    how: str, truth: np.ndarray, rng: np.random.Generator
) -> None:
    chances = feature_chances(rng.normal(size=(N, K)), truth=truth)
    transition = biased_transition(K, bias="strong", rng=rng)
    draw = {
        "uniform": lambda: draw_ruled_out(truth, n_classes=K, rng=rng),
        "matrix": lambda: draw_ruled_out(truth, transition=transition, rng=rng),
        "three": lambda: draw_ruled_out(truth, transition=transition, n_labels=3, rng=rng),
        "random": lambda: draw_ruled_out(truth, n_classes=K, n_labels="random", rng=rng),
        "chances": lambda: draw_ruled_out(truth, chances=chances, rng=rng),
    }[how]
    best = np.inf
    for _ in range(5):
        began = time.process_time()
        draw()
        best = min(best, time.process_time() - began)
    assert best <= 0.05
