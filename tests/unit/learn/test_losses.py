"""Losses per item: formulas, gradients, identities, transposition, extreme batches, decoding,
labels as masks.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the learn extra is not installed")

from noracle.errors import ArgumentError, EvidenceError, SingularTransition  # noqa: E402
from noracle.learn.losses import (  # noqa: E402
    LOSSES,
    Context,
    Loss,
    decode_logits,
    get_loss,
    label_mask,
    scel,
)
from noracle.learn.transition import Transition  # noqa: E402
from tests.unit.learn import naive  # noqa: E402

K, B = 5, 7
# Asymmetric, with noise on the diagonal, zeros, and w_j > 0.
T = np.array(
    [
        [0.02, 0.40, 0.10, 0.28, 0.20],
        [0.10, 0.05, 0.45, 0.20, 0.20],
        [0.35, 0.05, 0.00, 0.30, 0.30],
        [0.15, 0.45, 0.20, 0.05, 0.15],
        [0.30, 0.10, 0.25, 0.35, 0.00],
    ]
)
ASYMMETRIC = Transition(T)
PER_ITEM = [name for name, loss in LOSSES.items() if loss.per_item]
RISKS = [name for name, loss in LOSSES.items() if not loss.per_item]
FIXED = [0.3, 0.25, 0.2, 0.15, 0.1]


def batch(seed: int, *, n: int = B, k: int = K, several: bool = False, scale: float = 2.0):
    """Logits in float64, sets of ruled-out classes (all but the last class occur where n allows),
    their mask.
    """
    rng = np.random.default_rng(seed)
    z = rng.normal(scale=scale, size=(n, k))
    sets = [
        set(rng.choice(k, size=rng.integers(1, k) if several else 1, replace=False).tolist())
        for _ in range(n)
    ]
    mask = torch.tensor([[c in Y for c in range(k)] for Y in sets])
    return torch.tensor(z), sets, mask


def context_of(
    name: str, transition: Transition = ASYMMETRIC, *, pi_bar: list[float] | None = None
) -> Context:
    loss = LOSSES[name]
    prior = [0.1, 0.3, 0.2, 0.15, 0.25] if transition.n_classes == K else None
    context = Context(
        transition,
        needs_inverse=loss.inverse,
        trainable=loss.trains_transition,
        prior=prior,
        pi_bar=pi_bar,
        dtype=torch.float64,
    )
    if context.free_T is not None:  # exactly T, without the floor of the start
        with torch.no_grad():
            context.free_T.copy_(torch.tensor(np.log(np.maximum(transition.matrix, 1e-300))))
    return context


def oracle(
    loss: Loss, z, sets, transition: Transition = ASYMMETRIC, *, pi_bar=None, weight=None
) -> float:
    """The mean loss, or the risk, by plain loops."""
    zs, rows = z.tolist(), transition.matrix.tolist()
    if loss.per_item:
        values = [naive.per_item(loss.name, v, Y, rows) for v, Y in zip(zs, sets, strict=True)]
        w = weight or [1.0] * len(values)
        return sum(a * b for a, b in zip(values, w, strict=True)) / sum(w)
    if loss.name == "scarce":
        return naive.scarce(zs, sets, [0.1, 0.3, 0.2, 0.15, 0.25], weight)
    inverse = np.linalg.inv(transition.matrix).tolist()
    risks = naive.partial_risks(
        str(loss.options["base"]), zs, sets, inverse, pi_bar=pi_bar, weight=weight
    )
    return naive.corrected(risks, str(loss.options["correction"]))


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("name", PER_ITEM)
def test_every_item_costs_what_the_formula_says(name: str, several: bool) -> None:
    loss = LOSSES[name]
    for seed in range(5):
        z, sets, mask = batch(seed, several=several)
        got = loss.function(z, mask, context_of(name)).tolist()
        expected = [
            naive.per_item(name, v, Y, T.tolist()) for v, Y in zip(z.tolist(), sets, strict=True)
        ]
        assert got == pytest.approx(expected, rel=1e-10, abs=1e-10)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("pi_bar", [None, FIXED])
@pytest.mark.parametrize("name", LOSSES)
def test_the_loss_of_a_batch_is_what_the_formula_says(
    name: str, pi_bar: list[float] | None, weighted: bool
) -> None:
    loss = LOSSES[name]
    for seed, several in ((0, False), (1, False), (2, True), (3, True)):
        z, sets, mask = batch(seed, several=several)
        weight = np.random.default_rng(seed).uniform(0.5, 2, size=B).tolist() if weighted else None
        got = loss(
            z,
            mask,
            context_of(name, pi_bar=pi_bar),
            None if weight is None else torch.tensor(weight, dtype=torch.float64),
        )
        assert got.item() == pytest.approx(
            oracle(loss, z, sets, pi_bar=pi_bar, weight=weight), rel=1e-10, abs=1e-10
        )


@pytest.mark.parametrize("name", LOSSES)
def test_gradients_are_those_of_the_loss(name: str) -> None:
    loss = LOSSES[name]
    for seed, several in ((0, False), (3, True)):
        z, _, mask = batch(seed, several=several)
        context = context_of(name, pi_bar=FIXED)
        assert torch.autograd.gradcheck(lambda v: loss(v, mask, context), (z.requires_grad_(),))  # noqa: B023


def test_gradient_of_a_trained_matrix_is_that_of_the_loss() -> None:
    z, _, mask = batch(0)
    context = Context(ASYMMETRIC, trainable=True, dtype=torch.float64)

    def of(free):
        log_q = torch.logsumexp(z.log_softmax(1).unsqueeze(2) + free.log_softmax(1), dim=1)
        return -(log_q * mask).sum(dim=1).mean()

    start = context.free_T.detach().clone().requires_grad_()
    expected = torch.autograd.grad(of(start), start)[0]
    found = torch.autograd.grad(LOSSES["cpe_t"](z, mask, context), context.free_T)[0]
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)


class TestIdentities:
    def test_fwd_with_uniform_labels_is_scl_nl_and_a_constant(self) -> None:
        z, _, mask = batch(1)
        uniform = Context(Transition.uniform(K), dtype=torch.float64)
        gap = LOSSES["fwd"].function(z, mask, uniform) - LOSSES["scl_nl"].function(z, mask, uniform)
        assert gap.tolist() == pytest.approx([math.log(K - 1)] * B, abs=1e-10)

    def test_mcl_of_one_label_is_scl(self) -> None:
        z, _, mask = batch(2)
        c = context_of("scl_nl")
        nl, exp = LOSSES["scl_nl"].function(z, mask, c), LOSSES["scl_exp"].function(z, mask, c)
        assert LOSSES["mcl_log"].function(z, mask, c).tolist() == pytest.approx(
            ((2 * K - 2) * nl).tolist(), abs=1e-10
        )
        assert (math.e * LOSSES["mcl_exp"].function(z, mask, c)).tolist() == pytest.approx(
            ((2 * K - 2) * exp).tolist(), abs=1e-10
        )

    def test_all_classes_but_one_is_the_cross_entropy(self) -> None:
        z, _, _ = batch(3)
        y = torch.tensor([0, 1, 2, 3, 4, 0, 1])
        others = ~torch.nn.functional.one_hot(y, K).bool()
        found = LOSSES["supervised"](z, others, context_of("supervised"))
        assert float(found) == pytest.approx(
            float(torch.nn.functional.cross_entropy(z, y)), abs=1e-12
        )

    def test_set_ure_of_one_label_is_ure_of_cross_entropy(self) -> None:
        z, _, mask = batch(4)
        uniform = Context(Transition.uniform(K), needs_inverse=True, dtype=torch.float64)
        assert LOSSES["multi_ure"](z, mask, uniform).item() == pytest.approx(
            LOSSES["ure_free"](z, mask, uniform).item(), abs=1e-10
        )

    def test_set_ure_is_unbiased_for_uniform_sets(self) -> None:
        from itertools import combinations

        z, _, _ = batch(5, n=1)
        ordinary = -z.log_softmax(1)[0]
        for y in range(K):
            wrong = [c for c in range(K) if c != y]
            for s in range(1, K):
                values = []
                for Y in combinations(wrong, s):
                    mask = torch.tensor([[c in Y for c in range(K)]])
                    values.append(LOSSES["multi_ure"](z, mask, context_of("scl_nl")).item())
                assert np.mean(values) == pytest.approx(float(ordinary[y]), abs=1e-10)

    def test_scel_is_fwd_at_a_temperature(self) -> None:
        z, sets, mask = batch(6)
        found = scel(z, mask, context_of("fwd"), temperature=2.5).tolist()
        expected = [
            naive.per_item("fwd", [v / 2.5 for v in row], Y, T.tolist())
            for row, Y in zip(z.tolist(), sets, strict=True)
        ]
        assert found == pytest.approx(expected, abs=1e-10)
        with pytest.raises(ArgumentError, match="temperature"):
            scel(z, mask, context_of("fwd"), temperature=0)


class TestTransposition:
    """A T that is reversed anywhere is seen: with the asymmetric T every number moves by far
    more than the tolerance.
    """

    USES = tuple(
        name for name, loss in LOSSES.items() if loss.transition and name != "cpe_i"
    )  # cpe_i uses T only to decode

    @pytest.mark.parametrize("name", USES)
    def test_of_every_matrix_in_the_context(self, name: str) -> None:
        loss = LOSSES[name]
        z, sets, mask = batch(1, n=30)
        context = context_of(name, pi_bar=FIXED)
        expected = oracle(loss, z, sets, pi_bar=FIXED)
        assert loss(z, mask, context).item() == pytest.approx(expected, abs=1e-10)
        if context.free_T is not None:
            context.free_T = torch.nn.Parameter(context.free_T.detach().T.contiguous())
        for held in ("T", "log_transition", "T_inv"):
            setattr(context, held, getattr(context, held).T.contiguous())
        context.column_sums = context.T_inv.sum(dim=0)
        assert abs(loss(z, mask, context).item() - expected) > 1e-3

    def test_of_scel(self) -> None:
        z, _, mask = batch(1)
        context = context_of("fwd")
        before = scel(z, mask, context)
        context.log_transition = context.log_transition.T.contiguous()
        assert (scel(z, mask, context) - before).abs().max() > 1e-2

    @pytest.mark.parametrize("name", ["cpe_i", "cpe_f", "cpe_t"])
    def test_of_the_decoder(self, name: str) -> None:
        z, _, _ = batch(1, n=200)
        context = context_of(name)
        chances = [naive.softmax(v) for v in z.tolist()]
        if name != "cpe_i":
            chances = [(np.array(p) @ T).tolist() for p in chances]
        expected = [naive.nearest_row(q, T.tolist()) for q in chances]
        assert decode_logits(z, LOSSES[name], context).tolist() == expected
        if context.free_T is not None:
            context.free_T = torch.nn.Parameter(context.free_T.detach().T.contiguous())
        context.log_transition = context.log_transition.T.contiguous()
        assert decode_logits(z, LOSSES[name], context).tolist() != expected

    def test_of_the_start_of_a_trained_matrix(self) -> None:
        context = LOSSES["cpe_t"].make_context(ASYMMETRIC, floor=0.01, dtype=torch.float64)
        assert np.abs(context.trained().matrix - (0.99 * T + 0.01 / K)).max() < 1e-12

    def test_of_the_inverse(self) -> None:
        inverse = ASYMMETRIC.inverse()
        assert inverse.sum(axis=1).tolist() == pytest.approx([1] * K, abs=1e-12)
        assert np.abs(inverse.sum(axis=0) - 1).max() > 0.1
        context = Context(ASYMMETRIC, needs_inverse=True, dtype=torch.float64)
        torch.testing.assert_close(context.T_inv @ context.T, torch.eye(K, dtype=torch.float64))


def test_decoding_without_a_matrix_is_the_largest_logit() -> None:
    z, _, _ = batch(0, n=50)
    assert torch.equal(decode_logits(z, LOSSES["fwd"], context_of("fwd")), z.argmax(dim=1))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["fp32", "bf16"])
@pytest.mark.parametrize("n_batches", [60, pytest.param(1000, marks=pytest.mark.slow)])
def test_wild_batches_stay_finite(n_batches: int, dtype) -> None:
    """B from 1 to 64, K = 20, most classes absent, logits up to ±50; losses and gradients of every
    row of the table.
    """
    k, rng = 20, np.random.default_rng(4)
    rows = np.tril(rng.dirichlet(np.ones(k), size=k), -1) + np.eye(k) * 0.05
    odd = Transition((rows + 1e-3) / (rows + 1e-3).sum(axis=1, keepdims=True))
    worlds = [Transition.uniform(k), Transition.noisy(k, 0.02), odd]
    contexts = [
        {
            name: loss.make_context(t, ruled_out=torch.ones(1, k, dtype=torch.bool))
            for name, loss in LOSSES.items()
            if _fits(name, t)
        }
        for t in worlds
    ]
    for i in range(n_batches):
        n = int(rng.integers(1, 65))
        z = torch.tensor(
            rng.uniform(-50, 50, size=(n, k))
            if i % 3
            else rng.choice([-50.0, 0.0, 50.0], size=(n, k))
        )
        seen = rng.choice(k, size=rng.integers(1, k), replace=False)
        size = int(rng.integers(1, len(seen) + 1)) if i % 2 else 1
        said = torch.tensor(
            np.array([rng.choice(seen, size=size, replace=False) for _ in range(n)])
        )
        mask = label_mask(said, k)
        own = contexts[i % 3]
        for name, context in own.items():
            logits = z.to(dtype).requires_grad_()
            loss = LOSSES[name](logits, mask, context)
            loss.backward()
            assert loss.isfinite(), (name, i)
            assert logits.grad.isfinite().all(), (name, i)
            assert float(logits.grad.float().abs().max()) < 1e15, (
                name,
                i,
            )  # can be squared in 32 bits


def _fits(name: str, transition: Transition) -> bool:
    return not name.startswith("ure_wmae") or transition.inverse().sum(axis=0).min() > 1e-9


@pytest.mark.parametrize("name", LOSSES)
def test_equal_logits_and_absent_classes_at_the_start_are_harmless(name: str) -> None:
    z = torch.zeros(4, 10, requires_grad=True)
    mask = label_mask(torch.tensor([0, 0, 1, 1]), 10)
    loss = LOSSES[name]
    value = loss(z, mask, loss.make_context(Transition.uniform(10), ruled_out=mask))
    value.backward()
    assert value.isfinite()
    assert z.grad.isfinite().all()


@pytest.mark.parametrize("name", LOSSES)
def test_an_item_without_a_label_or_weight_changes_nothing(name: str) -> None:
    z, _, mask = batch(0)
    context = context_of(name)
    more_z, more_mask = (
        torch.cat([z, z[:2]]),
        torch.cat([mask, torch.zeros(2, K, dtype=torch.bool)]),
    )
    weight = torch.tensor([1.0] * B + [0.0] * 2, dtype=torch.float64)
    expected = LOSSES[name](z, mask, context).item()
    assert LOSSES[name](more_z, more_mask, context, weight).item() == pytest.approx(
        expected, abs=1e-12
    )
    assert LOSSES[name](z, mask, context, torch.zeros(B, dtype=torch.float64)).item() == 0


@pytest.mark.parametrize("name", ["fwd", "cpe_f"])
def test_a_class_that_is_never_ruled_out_gives_no_nan(name: str) -> None:
    never = Transition([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.5, 0.5, 0.0]])
    context = LOSSES[name].make_context(never)
    for said in ([0, 1], [0, 2]):  # the second says what T calls impossible
        z = torch.randn(2, 3, generator=torch.Generator().manual_seed(1)).requires_grad_()
        loss = LOSSES[name](z, label_mask(torch.tensor(said), 3), context)
        loss.backward()
        assert loss.isfinite()
        assert z.grad.isfinite().all()
    assert z.grad[1].abs().max() < 1e-6


def test_16_bits_and_autocast_are_computed_in_32() -> None:
    z, _, mask = batch(0, n=64, scale=8)
    low = z.bfloat16()
    for name, loss in LOSSES.items():
        context = Context(
            ASYMMETRIC, needs_inverse=loss.inverse, trainable=loss.trains_transition, pi_bar=FIXED
        )
        expected = loss(low.float(), mask, context)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            found = loss(low, mask, context)
        assert found.dtype == torch.float32, name
        torch.testing.assert_close(found, expected)


class TestTable:
    def test_singular_matrices_raise_before_training(self) -> None:
        for singular in (
            Transition.noisy(K, 1 / K),
            Transition(np.full((K, K), 1 / K)),
            Transition.noisy(K, 1 / K + 1e-9),
        ):
            for name in ("ure_nn", "ure_mae_free", "ure_gce_ga"):
                with pytest.raises(SingularTransition, match="invertible"):
                    LOSSES[name].make_context(singular)
            LOSSES["fwd"].make_context(singular)

    def test_wmae_needs_positive_weights(self) -> None:
        bad = Transition([[0.0, 0.9, 0.1], [0.9, 0.0, 0.1], [0.5, 0.5, 0.0]])
        assert bad.inverse().sum(axis=0).min() < 0
        worst = int(bad.inverse().sum(axis=0).argmin())
        why = (
            f"positive column sums for base wmae; got -.* for class {worst}. wmae divides .* reward"
        )
        with pytest.raises(ArgumentError, match=why):
            LOSSES["ure_wmae_free"].make_context(bad)
        LOSSES["ure_mae_free"].make_context(bad)
        z, _, mask = batch(0, k=3)
        with pytest.raises(ArgumentError, match="wmae"):
            LOSSES["ure_wmae_free"](z, mask, Context(bad, needs_inverse=True, dtype=torch.float64))

    def test_a_context_without_the_inverse_says_so(self) -> None:
        z, _, mask = batch(0)
        with pytest.raises(ArgumentError, match="needs_inverse"):
            LOSSES["ure_nn"](z, mask, context_of("fwd"))

    def test_names_and_options_are_checked(self) -> None:
        with pytest.raises(ArgumentError, match="loss must be one of pc_sigmoid"):
            get_loss("nonsense")
        with pytest.raises(
            ArgumentError, match=r"options of loss ure_nn must be among \(beta, q\)"
        ):
            get_loss("ure_nn", {"gamma": 1})
        with pytest.raises(ArgumentError, match="options of loss fwd"):
            get_loss("fwd", {"beta": 1})
        assert get_loss("fwd") is LOSSES["fwd"]
        assert set(LOSSES) >= {
            f"ure_{b}_{c}"
            for b in ("mae", "mse", "gce", "sl", "wmae")
            for c in ("free", "nn", "ga", "abs")
        }

    def test_corrections_take_the_shares_of_all_labels(self) -> None:
        mask = label_mask(torch.tensor([[0, 1], [0, -1], [2, -1], [-1, -1]]), 3)
        uniform = Transition.uniform(3)
        assert LOSSES["ure_nn"].make_context(
            uniform, ruled_out=mask
        ).pi_bar.tolist() == pytest.approx([1.5 / 3, 0.5 / 3, 1 / 3])
        weighted = LOSSES["ure_nn"].make_context(
            uniform, ruled_out=mask, weight=torch.tensor([2.0, 1.0, 0.0, 5.0])
        )
        assert weighted.pi_bar.tolist() == pytest.approx([2 / 3, 1 / 3, 0])
        assert weighted.n_items == 3
        assert LOSSES["ure_free"].make_context(uniform, ruled_out=mask).pi_bar is None
        assert LOSSES["fwd"].make_context(uniform, ruled_out=mask).pi_bar is None


class TestMask:
    def test_of_one_and_of_several_labels(self) -> None:
        assert label_mask(torch.tensor([2, 0]), 3).tolist() == [
            [False, False, True],
            [True, False, False],
        ]
        assert label_mask(torch.tensor([[1, 1], [-1, -1]]), 3).tolist() == [
            [False, True, False],
            [False, False, False],
        ]
        assert label_mask(torch.empty(0, dtype=torch.long), 3).shape == (0, 3)

    def test_refuses_classes_outside_and_items_without_a_class_left(self) -> None:
        with pytest.raises(EvidenceError, match=r"ruled_out must be in \[-1, 3\); got 3 at item 1"):
            label_mask(torch.tensor([0, 3]), 3)
        with pytest.raises(EvidenceError, match="must leave a class; got all classes at item 0"):
            label_mask(torch.tensor([[0, 1, 2], [0, 1, -1]]), 3)


def test_the_context_follows_and_is_saved_with_its_module() -> None:
    context = Context(ASYMMETRIC, needs_inverse=True, pi_bar=FIXED)
    assert context.double().T_inv.dtype == torch.float64
    assert {"T", "log_transition", "T_inv", "column_sums", "prior", "pi_bar"} == set(
        context.state_dict()
    )
    with pytest.raises(ArgumentError, match="pi_bar must be 5 non-negative shares"):
        Context(ASYMMETRIC, pi_bar=[1, 2])
    with pytest.raises(ArgumentError, match="prior must be 5"):
        Context(ASYMMETRIC, prior=[1, 1, 1, 1, -1])
    with pytest.raises(ArgumentError, match="floor"):
        Context(ASYMMETRIC, floor=0)
