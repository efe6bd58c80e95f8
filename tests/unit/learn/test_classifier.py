"""The classifier learns what it should, and says what it used."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the learn extra is not installed")
pytest.importorskip("sklearn", reason="the learn extra is not installed")

from sklearn.datasets import load_digits  # noqa: E402
from torch import nn  # noqa: E402

from noracle.accuracy.score import transition_scores  # noqa: E402
from noracle.errors import ArgumentError, SingularTransition  # noqa: E402
from noracle.learn.classifier import ComplementaryClassifier  # noqa: E402
from noracle.learn.labels import biased_transition, draw_ruled_out  # noqa: E402
from noracle.learn.losses import LOSSES, decode_logits  # noqa: E402
from noracle.learn.transition import Transition, count_transition  # noqa: E402


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return (X / 16).astype(np.float32), y


def labels(y, transition=None, *, n_labels=1, seed=0):
    given = {"n_classes": 10} if transition is None else {"transition": transition}
    return draw_ruled_out(y, **given, n_labels=n_labels, rng=np.random.default_rng(seed))


@pytest.mark.parametrize(
    ("loss", "floor"),
    [
        ("scl_nl", 0.6),
        ("fwd", 0.6),
        ("scl_exp", 0.6),
        ("op", 0.45),
        ("cpe_i", 0.45),
        ("ure_nn", 0.3),
        ("scarce", 0.3),
    ],
)
def test_digits_are_learned_from_one_ruled_out_class_each(digits, loss: str, floor: float) -> None:
    """1,300 items and chance 0.1: this is about the wiring, test_floors is about the losses."""
    X, y = digits
    fitted = ComplementaryClassifier(loss=loss, epochs=60, batch_size=64, lr=5e-3).fit(
        X[:1300], labels(y, seed=11)[:1300]
    )
    assert (fitted.predict(X[1300:]) == y[1300:]).mean() > floor
    assert len(fitted.history_.column("loss")) == 60


def test_two_labels_as_a_table_and_as_a_mask_are_the_same(digits) -> None:
    X, y = digits
    said = labels(y, n_labels=2)[:300]
    mask = np.zeros((300, 10), dtype=bool)
    np.put_along_axis(mask, said, True, axis=1)
    names = np.array([f"digit {i}" for i in range(10)])
    options = {"epochs": 3, "loss": "mcl_log"}
    table = ComplementaryClassifier(**options).fit(X[:300], said)
    masked = ComplementaryClassifier(classes=list(range(10)), **options).fit(X[:300], mask)
    text = ComplementaryClassifier(**options).fit(X[:300], names[said])
    padded = ComplementaryClassifier(**options).fit(
        X[:300], np.column_stack([said, np.full(300, -1)])
    )
    gaps = ComplementaryClassifier(**options).fit(
        X[:300], np.column_stack([names[said], np.full(300, None)])
    )
    expected = table.predict_proba(X)
    for other in (masked, text, padded, gaps):
        assert np.array_equal(other.predict_proba(X), expected)
    assert text.predict(X)[0].startswith("digit ")


def test_an_asymmetric_matrix_beats_its_transpose_and_uniform(digits) -> None:
    X, y = digits
    transition = biased_transition(10, bias="strong", rng=np.random.default_rng(3))
    said = labels(y, transition)[:1300]
    flipped = transition.matrix.T / transition.matrix.T.sum(axis=1, keepdims=True)

    def accuracy(given):
        fitted = ComplementaryClassifier(loss="fwd", transition=given, epochs=60, lr=5e-3).fit(
            X[:1300], said
        )
        return (fitted.predict(X[1300:]) == y[1300:]).mean()

    right = accuracy(transition)
    assert right > 0.8
    assert right > accuracy(flipped) + 0.02


@pytest.mark.parametrize("loss", [name for name in LOSSES if name != "cpe_i"])
def test_ordinary_labels_for_all_items_mean_supervised_training(digits, loss: str) -> None:
    X, y = digits
    X, y, said = X[:200], y[:200], labels(y)[:200]
    known = ComplementaryClassifier(loss=loss, epochs=3, lr=0.01, batch_size=64).fit(
        X, said, label=y
    )
    supervised = ComplementaryClassifier(loss="supervised", epochs=3, lr=0.01, batch_size=64).fit(
        X, None, label=y
    )
    logits = supervised._logits(X)
    np.testing.assert_allclose(known._logits(X).numpy(), logits.numpy(), atol=2e-5)
    assert supervised.history_.column("loss") == pytest.approx(
        known.history_.column("loss"), abs=1e-5
    )


def test_supervised_training_is_that_of_torch(digits) -> None:
    X, y = digits
    X, y = X[:128], y[:128]
    module = nn.Linear(64, 10)
    fitted = ComplementaryClassifier(model=module, loss="fwd", epochs=5, lr=0.01).fit(
        X, labels(y), label=y
    )  # one batch per epoch
    optimiser = torch.optim.Adam(module.parameters(), lr=0.01)
    for _ in range(5):
        optimiser.zero_grad()
        nn.functional.cross_entropy(module(torch.tensor(X)), torch.tensor(y)).backward()
        optimiser.step()
    torch.testing.assert_close(fitted.model_.weight, module.weight, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(
    "loss", ["scl_nl", "fwd", "scl_exp", "mcl_mae", "ure_free", "ure_mae_free", "cpe_i", "cpe_f"]
)
def test_the_loss_of_mixed_labels_is_the_weighted_sum_of_both_parts(digits, loss: str) -> None:
    X, y = digits
    X, y, said = X[:100], y[:100], labels(y)[:100].ravel()
    known = np.where(np.arange(100) < 30, y, -1)
    weight = np.random.default_rng(0).uniform(0.5, 2, 100)
    transition = biased_transition(10, bias="weak", rng=np.random.default_rng(1)).with_floor(0.1)
    module = nn.Linear(64, 10)
    fitted = ComplementaryClassifier(
        loss=loss, model=module, transition=transition, epochs=1, classes=range(10)
    )
    fitted.fit(X, said, label=known, sample_weight=weight)
    with torch.no_grad():
        z = module(torch.tensor(X)).double()
    log_p, T = z.log_softmax(1).numpy(), transition.matrix
    p, w = np.exp(log_p), weight.astype(np.float32).astype(float)
    inverse = transition.inverse()

    def one(i):
        if i < 30:
            return -(T[y[i]] * log_p[i]).sum() if loss == "cpe_i" else -log_p[i, y[i]]
        no = said[i]
        return {
            "scl_nl": -np.log(1 - p[i, no]),
            "fwd": -np.log(p[i] @ T[:, no]),
            "cpe_f": -np.log(p[i] @ T[:, no]),
            "cpe_i": -log_p[i, no],
            "scl_exp": np.exp(p[i, no]),
            "mcl_mae": 18 * p[i, no],
            "ure_free": -(inverse[no] * log_p[i]).sum(),
            "ure_mae_free": (inverse[no] * (2 - 2 * p[i])).sum(),
        }[loss]

    expected = sum(w[i] * one(i) for i in range(100)) / w.sum()
    assert fitted.history_.rows[0]["loss"] == pytest.approx(expected, rel=1e-4)


def test_items_without_any_label_change_nothing(digits) -> None:
    X, y = digits
    said = labels(y)[:120].ravel()
    gaps = np.where(np.arange(120) % 3 == 0, -1, said)
    use = gaps >= 0
    options = {"epochs": 3, "classes": range(10), "batch_size": 16}
    a = ComplementaryClassifier(**options).fit(X[:120], gaps)
    b = ComplementaryClassifier(**options).fit(X[:120][use], said[use])
    assert np.array_equal(a.predict_proba(X), b.predict_proba(X))


@pytest.mark.parametrize(
    "loss", ["scl_nl", "fwd", "cpe_i", "cpe_f", "cpe_t", "op", "scarce", "ure_nn"]
)
def test_chances_sum_to_one_and_the_largest_is_the_prediction(digits, loss: str) -> None:
    X, y = digits
    transition = biased_transition(10, bias="weak", rng=np.random.default_rng(1)).with_floor(0.1)
    fitted = ComplementaryClassifier(loss=loss, transition=transition, epochs=5, lr=0.01).fit(
        X, labels(y, transition)
    )
    chances, predicted = fitted.predict_proba(X), fitted.predict(X)
    np.testing.assert_allclose(chances.sum(axis=1), 1, atol=1e-6)
    assert chances.min() >= 0
    assert np.array_equal(fitted.classes_[chances.argmax(axis=1)], predicted)
    assert np.array_equal(fitted.classes_[fitted.decision_function(X).argmax(axis=1)], predicted)
    decoded = decode_logits(fitted._logits(X), fitted.loss_, fitted.context_).numpy()
    assert (decoded == predicted).mean() > 0.999
    np.testing.assert_allclose(np.exp(fitted.predict_log_proba(X)), chances, atol=1e-6)
    z = fitted.decision_function(X).astype(float)
    np.testing.assert_allclose(np.exp(z) / np.exp(z).sum(axis=1, keepdims=True), chances, atol=1e-6)


def test_the_score_is_the_mean_of_transition_scores(digits) -> None:
    X, y = digits
    transition = biased_transition(10, bias="weak", rng=np.random.default_rng(1)).with_floor(0.05)
    said = labels(y, transition)
    fitted = ComplementaryClassifier(loss="fwd", transition=transition, epochs=20, lr=0.01).fit(
        X[:900], said[:900]
    )
    answers = fitted.predict(X)
    one = transition_scores(transition.matrix)[said.ravel(), answers]
    assert fitted.score(X, said) == pytest.approx(one.mean())
    weight = np.arange(len(X))
    assert fitted.score(X, said, sample_weight=weight) == pytest.approx(
        np.average(one, weights=weight)
    )
    two = np.column_stack(
        [said.ravel(), np.where(np.arange(len(X)) % 2, (said.ravel() + 1) % 10, -1)]
    )
    other = transition_scores(transition.matrix)[(said.ravel() + 1) % 10, answers]
    assert fitted.score(X, two) == pytest.approx(
        np.where(np.arange(len(X)) % 2, (one + other) / 2, one).mean()
    )
    spread = 4 * one[900:].std() / np.sqrt(len(one[900:]))
    assert abs(fitted.score(X[900:], said[900:]) - (answers[900:] == y[900:]).mean()) < spread


def test_a_matrix_counted_from_true_labels_is_called_an_oracle_everywhere(digits) -> None:
    X, y = digits
    said = labels(y)
    oracle = count_transition(y, said, n_classes=10)
    fitted = ComplementaryClassifier(loss="fwd", transition=oracle, epochs=1).fit(X, said)
    assert fitted.transition_.oracle
    assert fitted.transition_source_ == "oracle"
    assert fitted.transition_.summary()["oracle"]
    mixed = ComplementaryClassifier(loss="fwd", transition=oracle.with_noise(0.01), epochs=1).fit(
        X, said
    )
    assert mixed.transition_.oracle
    assert mixed.transition_source_ == "noisy (oracle)"
    trained = ComplementaryClassifier(loss="cpe_t", transition=oracle, epochs=1).fit(X, said)
    assert trained.transition_source_ == "trained (oracle)"
    plain = ComplementaryClassifier(loss="fwd", transition=oracle.matrix, epochs=1).fit(X, said)
    assert plain.transition_source_ == "given"
    assert ComplementaryClassifier(epochs=1).fit(X, said).transition_source_ == "uniform"


def blobs(n, k, seed):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, k, n)
    return (rng.normal(size=(n, k)) + 4 * np.eye(k)[y]).astype(np.float32), y


ASYMMETRIC = Transition(
    [[0.0, 0.7, 0.2, 0.1], [0.1, 0.0, 0.3, 0.6], [0.5, 0.4, 0.0, 0.1], [0.3, 0.1, 0.6, 0.0]]
)


def test_anchors_find_an_asymmetric_matrix_without_true_labels() -> None:
    X, y = blobs(6000, 4, seed=5)
    said = draw_ruled_out(y, transition=ASYMMETRIC, rng=np.random.default_rng(6))
    fitted = ComplementaryClassifier(loss="fwd", transition="anchors", epochs=30, lr=5e-3).fit(
        X, said
    )
    assert fitted.transition_source_ == "anchors"
    assert not fitted.transition_.oracle
    error = np.abs(fitted.transition_.matrix - ASYMMETRIC.matrix).sum(axis=1)
    assert error.max() < 0.25  # the transpose is 0.8 away, uniform 0.5
    assert (fitted.predict(X) == y).mean() > 0.95
    assert (
        np.abs(
            ASYMMETRIC.matrix.T / ASYMMETRIC.matrix.T.sum(axis=1, keepdims=True) - ASYMMETRIC.matrix
        )
        .sum(axis=1)
        .mean()
        > 0.4
    )


def test_anchors_see_no_ordinary_label() -> None:
    X, y = blobs(3000, 4, seed=5)
    said = draw_ruled_out(y, transition=ASYMMETRIC, rng=np.random.default_rng(6)).ravel()
    known = np.where(np.arange(3000) < 500, y, -1)
    options = {
        "loss": "fwd",
        "transition": "anchors",
        "epochs": 10,
        "lr": 5e-3,
        "classes": range(4),
    }
    mixed = ComplementaryClassifier(**options).fit(X, said, label=known)
    shuffled = ComplementaryClassifier(**options).fit(
        X, said, label=np.where(known >= 0, (known + 1) % 4, -1)
    )
    assert np.array_equal(mixed.transition_.matrix, shuffled.transition_.matrix)


def test_early_stopping_keeps_the_best_weights_by_held_out_labels_alone(digits) -> None:
    X, y = digits
    said = labels(y)[:400]
    options = {
        "model": "mlp",
        "hidden": (200,),
        "lr": 0.01,
        "validation_share": 0.25,
        "batch_size": 64,
    }
    stopped = ComplementaryClassifier(epochs=200, patience=5, **options).fit(X[:400], said)
    scores = stopped.history_.column("score")
    assert len(scores) < 200
    assert int(np.argmax(scores)) == len(scores) - 6
    assert len(stopped.held_out_) == 100
    p = stopped.predict_proba(X[stopped.held_out_]).astype(float)
    own = -np.log((1 - p[np.arange(100), said[stopped.held_out_].ravel()]) / 9).mean()
    assert -max(scores) == pytest.approx(own, abs=1e-4)
    through = ComplementaryClassifier(epochs=3, **options).fit(X[:400], said)
    assert len(through.history_.column("score")) == 3
    with pytest.raises(ArgumentError, match="patience must come with validation_share"):
        ComplementaryClassifier(patience=3).fit(X[:400], said)


def test_held_out_items_are_not_trained_on(digits) -> None:
    X, y = digits
    said = labels(y)[:200]
    first = ComplementaryClassifier(epochs=3, validation_share=0.5).fit(X[:200], said)
    changed = X[:200].copy()
    changed[first.held_out_] = 100
    again = ComplementaryClassifier(epochs=3, validation_share=0.5).fit(changed, said)
    assert np.array_equal(first.predict_proba(X), again.predict_proba(X))


def test_a_singular_matrix_is_named_by_the_losses_and_scores_that_invert_it(digits) -> None:
    X, y = digits
    said, nothing = labels(y), Transition.noisy(10, 0.1)
    with pytest.raises(SingularTransition):
        ComplementaryClassifier(loss="ure_nn", transition=nothing, epochs=1).fit(X, said)
    fitted = ComplementaryClassifier(loss="scl_nl", transition=nothing, epochs=1).fit(X, said)
    with pytest.raises(SingularTransition):
        fitted.score(X, said)


def test_two_classes_have_one_decision(digits) -> None:
    X, y = digits
    X, y = X[y < 2], y[y < 2]
    fitted = ComplementaryClassifier(epochs=30, lr=0.01).fit(X, 1 - y)
    assert fitted.decision_function(X).shape == (len(X),)
    assert np.array_equal(
        fitted.classes_[(fitted.decision_function(X) > 0).astype(int)], fitted.predict(X)
    )
    assert (fitted.predict(X) == y).mean() > 0.98


def test_progress_goes_to_stderr_and_only_when_asked(digits, capsys) -> None:
    X, y = digits
    ComplementaryClassifier(epochs=2).fit(X, labels(y))
    assert capsys.readouterr() == ("", "")
    ComplementaryClassifier(epochs=2, verbose=True).fit(X, labels(y))
    out, err = capsys.readouterr()
    assert out == ""
    assert "2/2" in err
