"""Risks of a batch: partial risks of the ordinary classes, the shares they use, corrections, cost."""

from __future__ import annotations

import itertools
import math
import time

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the learn extra is not installed")

from noracle.errors import ArgumentError  # noqa: E402
from noracle.learn.losses import (  # noqa: E402  # noqa: E402
    LOSSES,
    Context,
    correct,
    get_loss,
    label_mask,
    ordinary_losses,
    partial_risks,
    scarce,
)
from noracle.learn.transition import Transition  # noqa: E402

BASES = ("ce", "mae", "mse", "gce", "sl")


def random_transition(rng: np.random.Generator, k: int, worst: float = 50) -> Transition:
    """A random asymmetric T with little on the diagonal and a condition number that is not absurd."""
    while True:
        rows = rng.dirichlet(np.full(k, 0.5), size=k)
        rows[np.arange(k), np.arange(k)] *= 0.1
        found = Transition(rows / rows.sum(axis=1, keepdims=True))
        if found.condition <= worst:
            return found


def population(rng: np.random.Generator, transition: Transition, n: int = 30):
    """All (item, label) pairs with their exact probabilities: logits, mask, weights; and E[P(y = j
    | x) ℓ_j], the ordinary risks.
    """
    k = transition.n_classes
    z = rng.normal(scale=3, size=(n, k))
    posterior = rng.dirichlet(np.full(k, 0.3), size=n)
    share = rng.dirichlet(np.ones(n))
    said = share[:, None] * (posterior @ transition.matrix)
    logits = torch.tensor(np.repeat(z, k, axis=0))
    mask = label_mask(torch.arange(k).repeat(n), k)
    return logits, mask, torch.tensor(said.reshape(-1)), share[:, None] * posterior, torch.tensor(z)


@pytest.mark.parametrize("base", BASES)
def test_partial_risks_are_those_of_the_ordinary_classes_over_50_matrices(base: str) -> None:
    rng = np.random.default_rng(7)
    for i in range(50):
        transition = random_transition(rng, (3, 10, 20)[i % 3])
        logits, mask, weight, joint, z = population(rng, transition)
        for pi_bar in (None, (joint.sum(axis=0) @ transition.matrix).tolist()):
            context = Context(
                transition,
                needs_inverse=True,
                pi_bar=pi_bar,
                n_items=len(mask),
                dtype=torch.float64,
            )
            risks = partial_risks(logits, mask, context, base=base, weight=weight)
            expected = (torch.tensor(joint) * ordinary_losses(z, base=base)).sum(dim=0)
            torch.testing.assert_close(risks, expected, rtol=1e-9, atol=1e-9)
            assert risks.min() >= -1e-9


def test_uncorrected_mae_with_uniform_labels_is_the_chance_of_the_ruled_out_class() -> None:
    """So the sum of the risks is never negative, though a part of it may be: there is nothing to
    correct.
    """
    rng = np.random.default_rng(3)
    for k in (2, 3, 10):
        logits = torch.tensor(rng.normal(scale=3, size=(40, k)))
        said = torch.tensor(rng.integers(k, size=40))
        context = Context(Transition.uniform(k), needs_inverse=True, dtype=torch.float64)
        parts = partial_risks(logits, label_mask(said, k), context, base="mae")
        chance = logits.softmax(dim=1)[torch.arange(40), said]
        torch.testing.assert_close(
            correct(parts, "free"), 2 * (k - 1) * chance.mean(), rtol=1e-12, atol=1e-12
        )
        assert k < 10 or parts.min() < 0


def test_sums_over_the_ruled_out_classes_instead_are_negative_with_exact_weights() -> None:
    """The partition of published code: totals agree, signs do not."""
    rng = np.random.default_rng(7)
    negative = 0
    for _ in range(50):
        transition = random_transition(rng, 10)
        logits, mask, weight, _, _ = population(rng, transition)
        context = Context(transition, needs_inverse=True, dtype=torch.float64)
        sums = (mask.double() * weight.unsqueeze(1)).T @ ordinary_losses(logits, base="ce")
        wrong = (context.T_inv * sums).sum(dim=1)
        assert float(wrong.sum()) == pytest.approx(
            float(partial_risks(logits, mask, context, weight=weight).sum()), abs=1e-9
        )
        negative += bool(wrong.min() < -1e-6)
    assert negative > 25


@pytest.mark.parametrize("pi_bar", ["batch", "all"])
@pytest.mark.parametrize("n", [1, 2, 4])
def test_risks_are_unbiased_over_random_batches_with_absent_classes(n: int, pi_bar: str) -> None:
    """All batches of n draws from a population of (item, label) pairs, each with its probability."""
    transition = Transition([[0.1, 0.6, 0.3], [0.5, 0.0, 0.5], [0.2, 0.7, 0.1]])
    rng = np.random.default_rng(3)
    z, said, chance = (
        torch.tensor(rng.normal(size=(4, 3))),
        torch.tensor([0, 1, 1, 2]),
        np.array([0.1, 0.4, 0.2, 0.3]),
    )
    mask = label_mask(said, 3)
    shares = [0.1, 0.6, 0.3] if pi_bar == "all" else None
    context = Context(transition, needs_inverse=True, pi_bar=shares, dtype=torch.float64)
    plain = Context(transition, needs_inverse=True, dtype=torch.float64)
    expected = partial_risks(z, mask, plain, weight=torch.tensor(chance))
    mean = torch.zeros(3, dtype=torch.float64)
    for chosen in itertools.product(range(4), repeat=n):
        rows = list(chosen)
        mean += float(np.prod(chance[rows])) * partial_risks(z[rows], mask[rows], context)
    torch.testing.assert_close(mean, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("n", [1, 2, 3, 5, 6])
def test_risks_are_unbiased_over_the_batches_of_a_shuffled_set(n: int) -> None:
    """All batches of n different items of six, with the shares of the six; the batch of all gives
    the plain risks.
    """
    transition = Transition([[0.1, 0.6, 0.3], [0.5, 0.0, 0.5], [0.2, 0.7, 0.1]])
    z = torch.tensor(np.random.default_rng(3).normal(size=(6, 3)))
    mask = label_mask(torch.tensor([0, 1, 1, 2, 1, 2]), 3)
    loss = LOSSES["ure_nn"]
    context = loss.make_context(transition, ruled_out=mask, dtype=torch.float64)
    expected = partial_risks(z, mask, Context(transition, needs_inverse=True, dtype=torch.float64))
    batches = [list(rows) for rows in itertools.combinations(range(6), n)]
    mean = torch.stack([partial_risks(z[rows], mask[rows], context) for rows in batches]).mean(
        dim=0
    )
    torch.testing.assert_close(mean, expected, rtol=1e-10, atol=1e-12)


def test_risks_before_training_are_positive_with_the_shares_of_all_labels_only() -> None:
    """All logits equal: every ordinary loss is log K, and what differs between classes is the
    number of labels in the batch.
    """
    rng = np.random.default_rng(1)
    mask = label_mask(torch.tensor(rng.integers(10, size=256)), 10)
    z, uniform = torch.zeros(256, 10), Transition.uniform(10)
    fixed = partial_risks(z, mask, Context(uniform, needs_inverse=True, pi_bar=[0.1] * 10))
    assert fixed.tolist() == pytest.approx([math.log(10) / 10] * 10, rel=1e-4)
    batch = partial_risks(z, mask, Context(uniform, needs_inverse=True))
    assert batch.min() < 0
    assert float(batch.sum()) == pytest.approx(math.log(10), rel=1e-4)


def test_mae_with_uniform_labels_is_the_chance_of_the_ruled_out_class() -> None:
    """ure(mae, uniform, free) = mean of 2(K - 1)·p_ȳ, with the shares of the batch; with others
    only by chance.
    """
    k = 6
    z = torch.randn(40, k, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    said = torch.arange(40) % 4
    mask = label_mask(said, k)
    uniform = Transition.uniform(k)
    expected = 2 * (k - 1) * z.softmax(dim=1)[torch.arange(40), said].mean()
    for name in ("ure_mae_free", "ure_wmae_free"):  # w_j = 1 for a uniform T
        found = LOSSES[name](
            z, mask, LOSSES[name].make_context(uniform, ruled_out=mask, dtype=torch.float64)
        )
        assert float(found) == pytest.approx(float(expected), abs=1e-10)
    fixed = LOSSES["ure_mae_free"](
        z, mask, Context(uniform, needs_inverse=True, pi_bar=[1 / k] * k, dtype=torch.float64)
    )
    assert abs(float(fixed) - float(expected)) > 0.01


def test_corrections_act_on_the_sign_of_each_risk() -> None:
    risks = torch.tensor([0.5, -0.25, 1.0])
    assert float(correct(risks, "free")) == 1.25
    assert float(correct(risks, "nn")) == 1.5
    assert float(correct(risks, "nn", beta=0.125)) == 1.375
    assert float(correct(risks, "abs")) == 1.75
    assert float(correct(risks, "ga")) == 0.25
    assert float(correct(risks.clamp(min=0), "ga")) == 1.5
    with pytest.raises(ArgumentError, match="correction must be free, nn, ga or abs; got 'x'"):
        correct(risks, "x")  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="beta"):
        correct(risks, "nn", beta=-1)


def test_gradient_ascent_raises_the_negative_risks_only() -> None:
    risks = torch.tensor([0.5, -0.25, 1.0], requires_grad=True)
    correct(risks, "ga").backward()
    assert risks.grad.tolist() == [0, -1, 0]


def test_options_change_the_base_loss_and_are_checked() -> None:
    z = torch.randn(5, 4, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(ordinary_losses(z, base="gce", q=1.0), 1 - z.softmax(dim=1))
    mask = label_mask(torch.tensor([0, 1, 2, 3, 0]), 4)
    loss = get_loss("ure_gce_free", {"q": 2.0})
    with pytest.raises(ArgumentError, match=r"q must be in \(0, 1\]"):
        loss(z, mask, loss.make_context(Transition.uniform(4)))
    with pytest.raises(ArgumentError, match="base must be ce"):
        ordinary_losses(z, base="x")  # type: ignore[arg-type]


def test_weighted_mae_is_blind_to_uniform_noise_and_the_published_weight_is_not() -> None:
    """Σ_k of the corrected loss over all labels is the same for every item exactly when each ℓ_j is
    divided by w_j.
    """
    transition = Transition([[0.05, 0.6, 0.35], [0.4, 0.1, 0.5], [0.45, 0.45, 0.1]])
    context = Context(transition, needs_inverse=True, dtype=torch.float64)
    w = context.positive_column_sums()
    mae = ordinary_losses(
        torch.randn(50, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1)),
        base="mae",
    )
    over_labels = {
        name: (loss @ context.T_inv.T).sum(dim=1).std()
        for name, loss in (("/w", mae / w), ("·w", mae * w), ("plain", mae))
    }
    assert over_labels["/w"] < 1e-12
    assert over_labels["·w"] > over_labels["plain"] > 0.01


def test_scarce_leaves_absent_classes_out_and_uses_the_prior() -> None:
    z = torch.randn(
        6, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1), requires_grad=True
    )
    mask = label_mask(torch.tensor([0, 1, 0, 1, 0, 1]), 4)
    context = Context(Transition.uniform(4), prior=[0.4, 0.2, 0.2, 0.2], dtype=torch.float64)
    scarce(z, mask, context).backward()
    assert z.grad[:, 2:].abs().max() == 0
    other = scarce(z, mask, Context(Transition.uniform(4), dtype=torch.float64))
    assert abs((other - scarce(z, mask, context)).item()) > 1e-3


@pytest.mark.parametrize("name", ["ure_gce_ga", "ure_nn", "ure_sl_ga", "ure_mae_abs"])
@pytest.mark.timing
def test_a_robust_risk_costs_less_than_two_milliseconds(name: str) -> None:
    """K = 20, B = 512, forward and backward; the best of many, because other processes share the
    machine.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        mask = label_mask(torch.arange(512) % 20, 20)
        loss = LOSSES[name]
        context = loss.make_context(Transition.noisy(20, 0.01), ruled_out=mask)
        z = torch.randn(512, 20, generator=torch.Generator().manual_seed(1), requires_grad=True)
        best = math.inf
        for _ in range(50):
            began = time.process_time()
            loss(z, mask, context).backward()
            best = min(best, time.process_time() - began)
        assert best <= 0.002
    finally:
        torch.set_num_threads(threads)
