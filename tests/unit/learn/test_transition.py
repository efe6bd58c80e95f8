"""Transition matrices: made, counted, estimated without true labels, trained; their source is never
lost.
"""

from __future__ import annotations

import numpy as np
import pytest

from noracle.errors import ArgumentError, EvidenceError, SingularTransition
from noracle.learn.labels import ask_annotators, draw_ruled_out
from noracle.learn.transition import (
    Transition,
    count_transition,
    count_transitions,
    estimate_transition,
    ruled_out_counts,
)


def test_a_matrix_is_checked_and_frozen() -> None:
    for bad in (
        [[1.0, 0.0]],
        [[1.0]],
        [[0.5, 0.6], [0.5, 0.5]],
        [[1.5, -0.5], [0.5, 0.5]],
        [[np.nan, 1], [0.5, 0.5]],
    ):
        with pytest.raises(ArgumentError, match="transition must"):
            Transition(np.array(bad))
    T = Transition(np.array([[0.0, 1.0], [1.0, 0.0]]))
    with pytest.raises(ValueError, match="read-only"):
        T.matrix[0, 0] = 1


def test_noise_leaves_one_minus_eta_k() -> None:
    noisy = Transition.noisy(10, 0.05)
    assert noisy.diagonal_noise == pytest.approx(0.05)
    assert noisy.strength == pytest.approx(0.5)
    assert noisy.matrix[0, 1] == pytest.approx(0.95 / 9)
    assert noisy.summary()["condition"] == pytest.approx(noisy.condition)
    assert Transition.noisy(10, 0).matrix.tolist() == Transition.uniform(10).matrix.tolist()
    with pytest.raises(ArgumentError, match="noise"):
        Transition.noisy(10, 1.5)


@pytest.mark.parametrize("k", [2, 10, 100])
def test_a_random_annotator_has_no_inverse(k: int) -> None:
    for eta in (1 / k, 1 / k + 1e-10):
        with pytest.raises(SingularTransition, match=r"must be invertible .* 1 - ηK"):
            Transition.noisy(k, eta).inverse()
    inverse = Transition.noisy(k, 0.5 / k).inverse()
    assert np.allclose(inverse @ Transition.noisy(k, 0.5 / k).matrix, np.eye(k), atol=1e-9)


def test_mixtures() -> None:
    T = Transition([[0.0, 0.8, 0.2], [0.6, 0.0, 0.4], [0.5, 0.5, 0.0]])
    assert T.with_floor(0.3).matrix[0].tolist() == pytest.approx([0.1, 0.66, 0.24])
    assert T.towards_uniform(0.5).matrix[0].tolist() == pytest.approx([0, 0.65, 0.35])
    assert T.with_noise(0.1).matrix[0].tolist() == pytest.approx([0.1, 0.72, 0.18])
    assert T.with_noise(0.1).evened().matrix[0].tolist() == pytest.approx([0.1, 0.45, 0.45])
    assert [
        t.source for t in (T.with_floor(0.3), T.towards_uniform(0.5), T.with_noise(0.1), T.evened())
    ] == [
        "floor",
        "interpolated",
        "noisy",
        "evened",
    ]
    for method in (T.with_floor, T.towards_uniform, T.with_noise):
        with pytest.raises(ArgumentError, match=r"must be in \[0, 1\]"):
            method(-0.1)


def test_who_saw_true_labels_says_so_for_ever() -> None:
    counted = count_transition([0, 1, 0, 1], [1, 0, 1, 0], n_classes=2)
    made = (
        counted,
        counted.with_floor(0.1),
        counted.towards_uniform(0.5),
        counted.with_noise(0.1),
        counted.evened().with_floor(0.1),
    )
    for transition in made:
        assert transition.oracle
        assert transition.summary()["oracle"] is True
    assert not Transition.uniform(3).with_floor(0.1).oracle
    assert not Transition([[0, 1], [1, 0]], "given", "the oracle of Delphi").oracle


def test_counts_follow_labels_sets_and_gaps() -> None:
    y, said = [0, 0, 1, 2], [[1, 2], [1, -1], [0, 2], [-1, -1]]
    assert ruled_out_counts(y, said, n_classes=3).tolist() == [[0, 2, 1], [1, 0, 1], [0, 0, 0]]
    with pytest.raises(
        EvidenceError, match="must hold every class at least once; got none of class 2"
    ):
        count_transition(y, said, n_classes=3)
    assert count_transition(y, said, n_classes=3, prior=1).matrix[2].tolist() == pytest.approx(
        [1 / 3] * 3
    )
    with pytest.raises(EvidenceError, match=r"ruled_out must be in \[-1, 3\); got 3 at item 1"):
        count_transition([0, 1], [1, 3], n_classes=3)
    with pytest.raises(EvidenceError, match=r"truth must be in \[0, 3\); got -1 at item 0"):
        count_transition([-1, 1], [1, 0], n_classes=3)
    with pytest.raises(ArgumentError, match="one row for each of the 2 items"):
        count_transition([0, 1], [1], n_classes=3)
    with pytest.raises(ArgumentError, match="prior"):
        count_transition([0, 1], [1, 0], n_classes=2, prior=-1)
    with pytest.raises(ArgumentError, match="ruled_out must be whole numbers"):
        count_transition([0, 1], [0.5, 1], n_classes=2)


def test_shares_of_the_true_classes_come_back() -> None:
    T = Transition([[0.0, 0.8, 0.2], [0.6, 0.0, 0.4], [0.5, 0.5, 0.0]])
    prior = np.array([0.5, 0.3, 0.2])
    assert T.class_shares(prior @ T.matrix).tolist() == pytest.approx(prior.tolist())
    assert T.class_shares([1, 0, 0]).min() >= 0
    with pytest.raises(ArgumentError, match="ruled_out_shares"):
        T.class_shares([1, 0])


class TestAnnotators:
    def test_each_has_its_own_matrix(self) -> None:
        rng = np.random.default_rng(1)
        y = rng.integers(4, size=40_000)
        errors = [0.0, 0.1, 0.6]
        said = ask_annotators(y, n_classes=4, error=errors, n_answers=2, rng=rng)
        found = count_transitions(y, said.ruled_out, annotator=said.annotator, n_classes=4)
        assert sorted(found) == [0, 1, 2]
        for name, error in enumerate(errors):
            assert found[name].oracle
            assert np.abs(found[name].matrix - Transition.noisy(4, error).matrix).max() < 0.03

    def test_few_labels_lean_on_all_annotators(self) -> None:
        y, said = [0] * 10 + [1] * 10, [1] * 10 + [0] * 10
        who = ["a"] * 9 + ["b"] + ["a"] * 10
        found = count_transitions([*y, 2], [*said, 0], annotator=[*who, "a"], n_classes=3, prior=4)
        assert found["b"].matrix.tolist() == [[0, 1, 0], [1, 0, 0], [1, 0, 0]]
        wild = count_transitions(
            [0, 0, 1, 1], [1, 0, 0, 0], annotator=list("abab"), n_classes=2, prior=1
        )
        assert wild["b"].matrix[0].tolist() == pytest.approx([0.75, 0.25])

    def test_shapes_are_checked(self) -> None:
        with pytest.raises(
            ArgumentError, match=r"annotator must have the shape of ruled_out, \(2,\); got \(1,\)"
        ):
            count_transitions([0, 1], [1, 0], annotator=["a"], n_classes=2)
        with pytest.raises(ArgumentError, match="prior"):
            count_transitions([0, 1], [1, 0], annotator=["a", "a"], n_classes=2, prior=-1)


# Asymmetric, with noise; the diagonal is the smallest entry of its row and of its column.
BIASED = np.array(
    [
        [0.02, 0.38, 0.20, 0.40],
        [0.30, 0.04, 0.46, 0.20],
        [0.50, 0.10, 0.01, 0.39],
        [0.10, 0.55, 0.32, 0.03],
    ]
)


def blobs(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Four clouds in the plane that touch."""
    y = rng.integers(4, size=n)
    centres = 2.2 * np.array([[1, 1], [1, -1], [-1, 1], [-1, -1]])
    return centres[y] + rng.normal(size=(n, 2)), y


class TestAnchors:
    def test_rows_are_found_where_classes_are_certain(self) -> None:
        rng = np.random.default_rng(1)
        posterior = rng.dirichlet(np.full(4, 0.05), size=20_000)
        found = estimate_transition(posterior @ BIASED)
        assert found.source == "anchors"
        assert not found.oracle
        assert np.abs(found.matrix - BIASED).max() < 0.01

    def test_a_wrong_class_that_is_ruled_out_less_often_than_the_true_one_misleads(self) -> None:
        """The assumption is needed: with T[2, 1] < T[1, 1] row 1 is mixed with row 2."""
        broken = BIASED.copy()
        broken[1, 1], broken[1, 2], broken[2, 1], broken[2, 0] = 0.06, 0.44, 0.02, 0.58
        posterior = np.random.default_rng(1).dirichlet(np.full(4, 0.05), size=20_000)
        error = np.abs(estimate_transition(posterior @ broken).matrix - broken).max(axis=1)
        assert error[1] > 0.1
        assert error[[0, 2, 3]].max() < 0.01

    def test_counted_labels_forgive_a_model_that_is_badly_scaled(self) -> None:
        rng = np.random.default_rng(2)
        posterior = rng.dirichlet(np.full(4, 0.05), size=40_000)
        q = posterior @ BIASED
        y = (posterior.cumsum(axis=1) < rng.random((len(q), 1))).sum(axis=1).clip(max=3)
        said = draw_ruled_out(y, transition=Transition(BIASED), rng=rng)
        flat = q**0.5 / (q**0.5).sum(axis=1, keepdims=True)
        assert np.abs(estimate_transition(flat).matrix - BIASED).max() > 0.1
        assert np.abs(estimate_transition(flat, ruled_out=said).matrix - BIASED).max() < 0.05

    def test_no_anchor_is_an_error_and_not_a_guess(self) -> None:
        with pytest.raises(EvidenceError, match="got none for class 0"):
            estimate_transition(np.tile([0.5, 0.3, 0.2], (50, 1)))
        with pytest.raises(ArgumentError, match="rows of probabilities"):
            estimate_transition(np.ones((5, 3)))
        with pytest.raises(ArgumentError, match="quantile"):
            estimate_transition(np.full((5, 2), 0.5), quantile=1)

    @pytest.mark.full
    def test_a_fitted_model_finds_the_matrix_without_true_labels(self) -> None:
        torch = pytest.importorskip("torch", reason="the learn extra is not installed")
        from noracle.learn.losses import LOSSES, label_mask
        from noracle.learn.models import make_model

        rng, n = np.random.default_rng(3), 32_768
        x, y = blobs(rng, 2 * n)
        said = draw_ruled_out(y, transition=Transition(BIASED), rng=rng)
        items, mask = torch.tensor(x, dtype=torch.float32), label_mask(torch.tensor(said), 4)
        torch.manual_seed(1)
        model = make_model("mlp", shape=(2,), n_outputs=4, hidden=(16,))
        loss = LOSSES["cpe_i"]
        context = loss.make_context(Transition.uniform(4))
        optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)
        for step in range(320):
            part = slice(step % 16 * 2048, step % 16 * 2048 + 2048)  # the first half of the items
            optimiser.zero_grad()
            loss(model(items[part]), mask[part], context).backward()
            optimiser.step()
        q = model(items[n:]).softmax(dim=1).detach().double().numpy()

        def distance(found: Transition) -> float:
            return float(np.abs(found.matrix - BIASED).sum(axis=1).mean() / 2)

        assert distance(estimate_transition(q)) < distance(Transition.uniform(4)) / 3
        assert (
            distance(estimate_transition(q, ruled_out=said[n:]))
            < distance(Transition.uniform(4)) / 3
        )


@pytest.mark.full
def test_a_trained_matrix_moves_its_zeros() -> None:
    """A model that is certain of the classes, labels with noise on the diagonal: T starts with
    zeros there and finds the noise.
    """
    torch = pytest.importorskip("torch", reason="the learn extra is not installed")
    from noracle.learn.losses import LOSSES, label_mask

    rng = np.random.default_rng(4)
    y = rng.integers(4, size=8192)
    noisy = Transition(
        [
            [0.12, 0.60, 0.20, 0.08],
            [0.30, 0.10, 0.30, 0.30],
            [0.40, 0.20, 0.15, 0.25],
            [0.30, 0.30, 0.30, 0.10],
        ]
    )
    said = draw_ruled_out(y, transition=noisy, rng=rng)
    loss, mask = LOSSES["cpe_t"], label_mask(torch.tensor(said), 4)
    context = loss.make_context(Transition.uniform(4))
    start = context.trained()
    assert (start.source, context.source) == ("trained", "trained")
    assert 0 < start.diagonal_noise < 1e-3
    logits = 30 * torch.nn.functional.one_hot(torch.tensor(y), 4).float()
    optimiser = torch.optim.Adam(context.parameters(), lr=0.05)
    for _ in range(400):
        optimiser.zero_grad()
        loss(logits, mask, context).backward()
        optimiser.step()
    counted = count_transition(y, said, n_classes=4)
    assert np.abs(context.trained().matrix - counted.matrix).max() < 1e-3
    assert loss.make_context(counted).trained().oracle
    assert LOSSES["fwd"].make_context(counted).trained() is counted
