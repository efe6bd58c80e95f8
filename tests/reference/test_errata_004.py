"""Errata of the complementary-label benchmark (Wang et al., CLImage) and of its published code, and
of libcll.

Each erratum has a test in which the printed or published formula stands beside ours and fails.

(a) TestPartition         corrections clip the risks of ruled-out classes instead of ordinary ones
(b) TestZeroOneRisk       the "zero-one" risk for validation is cross-entropy
(c) TestBaseLosses        reverse cross-entropy 4 - p_y; weighted MAE multiplies
(d) TestMeans             means of batch means are taken for accuracies and losses
(e) TestAbsentClasses     a class that is absent from a batch gives NaN
(f) TestTransition        a singular T is inverted in silence
(g) TestTransition, TestOracle   a T counted from true labels is called known
(h) TestStandardError     a gap between validation and truth that is within the standard error
"""

from __future__ import annotations

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the learn extra is not installed")

from noracle.errors import SingularTransition  # noqa: E402
from noracle.learn.batches import Batches  # noqa: E402
from noracle.learn.compare import zero_one_standard_error  # noqa: E402
from noracle.learn.labels import draw_ruled_out  # noqa: E402
from noracle.learn.loop import all_logits, plain_objective, train  # noqa: E402
from noracle.learn.losses import (  # noqa: E402  # noqa: E402
    LOSSES,
    Context,
    correct,
    label_mask,
    ordinary_losses,
    partial_risks,
)
from noracle.learn.models import make_model  # noqa: E402
from noracle.learn.settings import Settings  # noqa: E402
from noracle.learn.transition import Transition, count_transition  # noqa: E402
from noracle.learn.validation import estimate_model_accuracy  # noqa: E402

K = 10


def good_model(n: int = 2000, seed: int = 1):
    """Logits of a model that is right for about 85 % of the items and finds some classes likelier
    than others, and the true classes.
    """
    rng = np.random.default_rng(seed)
    y = rng.integers(K, size=n)
    z = rng.normal(scale=1.6, size=(n, K)) + np.linspace(-1, 1, K)
    z[np.arange(n), y] += 4.5
    z = torch.tensor(z)
    assert 0.80 < float((z.argmax(dim=1) == torch.tensor(y)).double().mean()) < 0.90
    return z, y


def all_labels(z, y, transition: Transition):
    """Every item with every label, weighted by its chance: the exact expectation over labels."""
    weight = torch.tensor(transition.matrix[y].reshape(-1))
    return z.repeat_interleave(K, dim=0), label_mask(torch.arange(K).repeat(len(y)), K), weight


def published_partition(z, mask, weight, inverse):
    """Sums over the *ruled-out* class k: v_k = Σ_j π̄_k (T⁻¹)[k, j] mean_{ȳ=k} ℓ_j."""
    sums = (mask.to(z.dtype) * weight.unsqueeze(1)).T @ ordinary_losses(z, base="ce")
    return (inverse * sums).sum(dim=1) / weight.sum()


class TestPartition:
    """(a) GA and NN must act on the risks of ordinary classes; the published sums are negative for
    a good model with endless data.
    """

    def test_signs(self) -> None:
        z, y = good_model()
        uniform = Transition.uniform(K)
        logits, mask, weight = all_labels(z, y, uniform)
        context = Context(uniform, needs_inverse=True, dtype=torch.float64)
        ours = partial_risks(logits, mask, context, weight=weight)
        theirs = published_partition(logits, mask, weight, context.T_inv)
        assert float(theirs.sum()) == pytest.approx(float(ours.sum()), abs=1e-9)
        assert ours.min() > 0
        assert (theirs < 0).sum() >= 2
        truth = torch.nn.functional.cross_entropy(z, torch.tensor(y))
        for correction in ("free", "nn", "ga", "abs"):
            assert float(correct(ours, correction)) == pytest.approx(float(truth), abs=1e-9)
            if correction != "free":
                assert abs(float(correct(theirs, correction)) - float(truth)) > 0.05

    def test_gradient_ascent_leaves_a_good_model_with_the_published_sums_only(self) -> None:
        """The step of ours is that of ordinary cross-entropy; the published one points elsewhere."""
        z, y = good_model()
        uniform = Transition.uniform(K)
        context = Context(uniform, needs_inverse=True, dtype=torch.float64)
        z.requires_grad_()
        logits, mask, weight = all_labels(z, y, uniform)
        truth = torch.autograd.grad(
            torch.nn.functional.cross_entropy(z, torch.tensor(y)), z, retain_graph=True
        )[0]
        ours = torch.autograd.grad(
            correct(partial_risks(logits, mask, context, weight=weight), "ga"), z, retain_graph=True
        )[0]
        theirs = torch.autograd.grad(
            correct(published_partition(logits, mask, weight, context.T_inv), "ga"), z
        )[0]
        torch.testing.assert_close(ours, truth, rtol=1e-8, atol=1e-12)
        assert (theirs * truth).sum() < 0.5 * (truth * truth).sum()


class TestBaseLosses:
    """(c) The reverse cross-entropy of SL is 4(1 - p_y), not 4 - p_y; weighted MAE divides by w."""

    def test_reverse_cross_entropy(self) -> None:
        z = torch.randn(
            6,
            K,
            dtype=torch.float64,
            generator=torch.Generator().manual_seed(1),
            requires_grad=True,
        )
        p = z.softmax(dim=1)
        reverse = ordinary_losses(z, base="sl") - 0.1 * ordinary_losses(z, base="ce")
        # -Σ_c p_c·log(one-hot_c) with log 0 set to -4.
        for j in range(K):
            onehot_log = torch.full((K,), -4.0, dtype=torch.float64)
            onehot_log[j] = 0
            torch.testing.assert_close(reverse[:, j], -(p * onehot_log).sum(dim=1))
        ours = torch.autograd.grad(reverse[:, 0].sum(), z, retain_graph=True)[0]
        published = torch.autograd.grad((4 - p[:, 0]).sum(), z)[0]
        torch.testing.assert_close(ours, 4 * published)

    def test_a_perfect_prediction_has_no_reverse_loss(self) -> None:
        sure = torch.tensor([[60.0] + [0.0] * (K - 1)], dtype=torch.float64)
        assert float(ordinary_losses(sure, base="sl")[0, 0]) == pytest.approx(0, abs=1e-12)
        assert 4 - float(sure.softmax(dim=1)[0, 0]) == pytest.approx(3)

    def test_weighted_mae_divides(self) -> None:
        transition = Transition([[0.05, 0.6, 0.35], [0.4, 0.1, 0.5], [0.45, 0.45, 0.1]])
        loss = LOSSES["ure_wmae_free"]
        context = loss.make_context(transition, dtype=torch.float64)
        w = torch.tensor(transition.inverse().sum(axis=0))
        z = torch.randn(9, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
        mask = label_mask(torch.arange(9) % 3, 3)
        mae = partial_risks(z, mask, context, base="mae")
        assert float(loss(z, mask, context)) == pytest.approx(float((mae / w).sum()), abs=1e-12)
        assert float(loss(z, mask, context)) != pytest.approx(float((mae * w).sum()), abs=1e-3)


class TestAbsentClasses:
    """(e) A class that is not in the batch: the published 1/n_k becomes the largest float, times
    counts infinite, times 0 NaN.
    """

    def test_published_gradient_is_nan_and_ours_is_not(self) -> None:
        z = torch.zeros(40, 20, requires_grad=True)
        mask = label_mask(torch.arange(40) % 19, 20)
        inverse = torch.tensor(Transition.uniform(20).inverse(), dtype=torch.float32)
        hits = mask.float()
        scale = torch.nan_to_num(1 / hits.sum(dim=0)) * 100
        v = ((inverse * (hits.T @ -z.log_softmax(dim=1))).sum(dim=1) * scale).sum()
        assert not torch.autograd.grad(v, z)[0].isfinite().all()
        for name in ("ure_free", "ure_nn", "ure_ga", "ure_abs"):
            loss = LOSSES[name]
            for everything in (None, torch.ones(1, 20, dtype=torch.bool)):
                value = loss(
                    z, mask, loss.make_context(Transition.uniform(20), ruled_out=everything)
                )
                assert value.isfinite()
                assert torch.autograd.grad(value, z)[0].isfinite().all()


class TestTransition:
    """(f) T = (1 - η)U + ηI is singular at η = 1/K; (g) a T that was counted from true labels is an
    oracle.
    """

    def test_a_random_annotator_is_refused_where_the_determinant_is_not_zero(self) -> None:
        singular = Transition.noisy(K, 1 / K)
        nearly = Transition.noisy(K, 1 / K + 1e-8)
        assert np.linalg.det(nearly.matrix) != 0  # the published test for an inverse
        for transition in (singular, nearly):
            with pytest.raises(SingularTransition):
                LOSSES["ure_nn"].make_context(transition)

    def test_the_oracle_is_named(self) -> None:
        rng = np.random.default_rng(1)
        y = rng.integers(3, size=300)
        counted = count_transition(y, (y + 1 + rng.integers(2, size=300)) % 3, n_classes=3)
        assert counted.oracle
        assert LOSSES["fwd"].make_context(counted).transition.summary()["source"] == "oracle"
        assert LOSSES["cpe_t"].make_context(counted).trained().summary()["oracle"] is True


class TestZeroOneRisk:
    """(b) The risk that selects models is called zero-one in the paper; the code computes
    cross-entropy.
    """

    def test_published_risk_is_another_quantity_with_a_far_larger_spread(self) -> None:
        z, y = good_model(n=1500)
        z = 3 * z  # as sure of itself as a trained network
        error = 1 - float((z.argmax(dim=1) == torch.tensor(y)).double().mean())
        uniform = Transition.uniform(K)
        losses, inverse = ordinary_losses(z, base="ce").numpy(), uniform.inverse()
        predicted = z.argmax(dim=1).numpy()
        rng = np.random.default_rng(1)
        theirs, ours = [], []
        for _ in range(400):
            said = draw_ruled_out(y, n_classes=K, rng=rng)
            theirs.append(float((inverse[said] * losses).sum(axis=1).mean()))
            ours.append(
                1
                - estimate_model_accuracy(
                    predicted, said, transition=uniform, interval="wald"
                ).value
            )
        assert np.mean(ours) == pytest.approx(error, abs=4 * np.std(ours) / 20)
        assert np.std(theirs) > 10 * np.std(ours)
        assert np.mean(np.array(theirs) < 0) > 0.01  # a share of errors cannot be negative
        assert np.mean(np.abs(np.array(theirs) - error)) > 5 * np.mean(
            np.abs(np.array(ours) - error)
        )

    def test_the_published_risk_prefers_the_worse_model(self) -> None:
        """A model with more errors but less certainty: the exact cross-entropy risk has the order
        of accuracies wrong.
        """
        z, y = good_model(n=1500)
        sure, shy = 20 * z, 0.2 * (z - 1.5 * torch.nn.functional.one_hot(torch.tensor(y), K))
        right = [float((m.argmax(dim=1) == torch.tensor(y)).double().mean()) for m in (sure, shy)]
        assert right[0] > right[1] + 0.05
        uniform = Transition.uniform(K)
        theirs, ours = [], []
        for m in (sure, shy):
            logits, mask, weight = all_labels(m, y, uniform)
            chances = torch.tensor(uniform.inverse())[mask.double().argmax(dim=1)]
            theirs.append(
                float(
                    (weight * (chances * ordinary_losses(logits, base="ce")).sum(dim=1)).sum()
                    / len(y)
                )
            )
            ours.append(
                float(
                    (weight * chances[torch.arange(len(logits)), logits.argmax(dim=1)]).sum()
                    / len(y)
                )
            )
        assert ours == pytest.approx(right, abs=1e-9)
        assert theirs[0] > theirs[1]


class TestMeans:
    """(d) The last batch is smaller: a mean of batch means gives its items a larger say."""

    def test_history_and_accuracy_are_means_over_items(self) -> None:
        rng = np.random.default_rng(1)
        x = torch.tensor(rng.normal(size=(10, 4)), dtype=torch.float32)
        said = torch.tensor(rng.integers(3, size=10))
        loss = LOSSES["scl_nl"]
        context = loss.make_context(Transition.uniform(3))
        model = make_model("linear", shape=(4,), n_outputs=3, seed=1)
        mask = label_mask(said, 3)
        each = loss.function(model(x), mask, context).detach().double()
        settings = Settings(epochs=1, batch_size=7, lr=1e-12, seed=3)
        history = train(
            model, Batches(items=x, labels=mask), plain_objective(loss, context), settings
        )
        assert history.rows[0]["loss"] == pytest.approx(float(each.mean()), rel=1e-6)
        batch_means = np.mean([float(part.mean()) for part in each.sort().values.split(7)])
        assert abs(batch_means - float(each.mean())) > 1e-2
        answers = all_logits(model, x, batch_size=7).argmax(dim=1).numpy()
        truth = np.array([*answers[:7], *(answers[7:] + 1) % 3])
        assert (
            np.mean([(answers[a:b] == truth[a:b]).mean() for a, b in ((0, 7), (7, 10))]) == 0.5
        )  # published
        assert (answers == truth).mean() == 0.7


class TestOracle:
    """(g) Whatever is fitted says where T came from."""

    def test_every_fitted_object_says_oracle(self) -> None:
        pytest.importorskip("sklearn", reason="the learn extra is not installed")
        from noracle.learn.classifier import ComplementaryClassifier

        rng = np.random.default_rng(1)
        y = rng.integers(3, size=300)
        said = draw_ruled_out(y, n_classes=3, rng=rng)
        counted = count_transition(y, said, n_classes=3)
        fitted = ComplementaryClassifier(transition=counted, loss="fwd", epochs=1).fit(
            np.eye(3)[y], said
        )
        assert "oracle" in fitted.transition_source_
        assert fitted.transition_.oracle
        # The published way passes the bare matrix, and nothing says so any more: only the object
        # carries the word.
        assert (
            "oracle"
            not in ComplementaryClassifier(transition=counted.matrix, loss="fwd", epochs=1)
            .fit(np.eye(3)[y], said)
            .transition_source_
        )
        estimate = estimate_model_accuracy(fitted.predict(np.eye(3)[y]), said, transition=counted)
        assert "oracle" in str(estimate)

    def test_a_pseudo_inverse_gives_a_number_that_says_nothing(self) -> None:
        """(f) with a random annotator every model gets the same figure; we refuse."""
        singular = Transition.noisy(K, 1 / K)
        scores = np.linalg.pinv(singular.matrix)
        assert np.ptp(scores) < 1e-9
        with pytest.raises(SingularTransition):
            estimate_model_accuracy([0, 1], [2, 3], transition=singular)


class TestStandardError:
    """(h) The gap between validation by ruled-out labels and the truth is what chance gives at this
    n.
    """

    @pytest.mark.parametrize(
        ("k", "noise", "accuracy", "n"),
        [(10, 0.0393, 0.35, 5000), (20, 0.028, 0.08, 5000), (10, 0.0, 0.8, 600)],
    )
    def test_formula_is_the_spread_of_estimates_and_the_usual_one_is_not(
        self, k: int, noise: float, accuracy: float, n: int
    ) -> None:
        rng = np.random.default_rng(1)
        transition = Transition.noisy(k, noise)
        # Both the items and the labels are drawn again.
        values = []
        for _ in range(400):
            y = rng.integers(k, size=n)
            predicted = np.where(rng.random(n) < accuracy, y, (y + rng.integers(1, k, size=n)) % k)
            said = draw_ruled_out(y, transition=transition, rng=rng)
            values.append(transition.inverse()[said, predicted].mean())
        claimed = zero_one_standard_error(n_classes=k, noise=noise, accuracy=accuracy, n=n)
        assert np.std(values) == pytest.approx(claimed, rel=0.13)
        assert np.mean(values) == pytest.approx(accuracy, abs=4 * claimed / 20)
        usual = math.sqrt(accuracy * (1 - accuracy) / n)
        assert claimed > 2 * usual


def test_two_rows_of_table_1_are_one_algorithm() -> None:
    """FWD with uniform T and SCL-NL: the losses differ by log(K - 1), the gradients not at all."""
    z = torch.randn(
        64, K, dtype=torch.float64, generator=torch.Generator().manual_seed(1), requires_grad=True
    )
    mask = label_mask(torch.arange(64) % K, K)
    uniform = Context(Transition.uniform(K), dtype=torch.float64)
    fwd, scl_nl = (LOSSES[name](z, mask, uniform) for name in ("fwd", "scl_nl"))
    assert (fwd - scl_nl).item() == pytest.approx(math.log(K - 1), abs=1e-12)
    gradients = [torch.autograd.grad(loss, z)[0] for loss in (fwd, scl_nl)]
    torch.testing.assert_close(*gradients, rtol=1e-10, atol=1e-14)


def test_l_w_is_the_weighted_one() -> None:
    """The paper names L-W and L-UW the wrong way round; the ratio is 1 + (1 - p_ȳ)/(K - 1)."""
    z = torch.randn(8, K, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    mask = label_mask(torch.arange(8), K)
    context = Context(Transition.uniform(K), dtype=torch.float64)
    weighted, plain = (LOSSES[name].function(z, mask, context) for name in ("l_w", "l_uw"))
    p = z.softmax(dim=1)[torch.arange(8), torch.arange(8)]
    torch.testing.assert_close(weighted / plain, 1 + (1 - p) / (K - 1))
