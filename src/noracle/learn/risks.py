"""Risks of a whole batch: means over the items of each ruled-out class, not sums over items.

URE rewrites the ordinary risk with ruled-out labels. With M[k, j] = mean of ℓ_j over the items
whose ruled-out class is k,

    r_j = Σ_k π̄_k (T⁻¹)[k, j] M[k, j]

is the risk of the *ordinary* class j, π_j E[ℓ_j | y = j], and so never negative in the population.
Corrections act on r_j: free Σ r_j; nn Σ max(r_j, -β); ga ascends on Σ min(r_j, 0) while some r_j <
0; abs Σ |r_j|.

Which π̄? The shares n_k/n of the batch make r_j a plain mean of items, unbiased at every batch
size: right for ``free``, which is linear. A correction is not linear: it acts on the sign of r_j,
so noise in r_j becomes bias, and n_k/n is noise. Before any training ℓ_j = log K for all items;
with T uniform then r_j = log K·(1 - (K - 1)·n_j/n). In a batch of 256 with K = 10 each r_j is
negative by n_j alone with a chance of one in four, so ga would ascend in almost every step and
learn the opposite. With π̄ of *all* labels the same r_j is log K/K. A class that is not in the
batch has no mean; the others are divided by their chance to be there, 1 - (1 - π̄_k)^n for
independent draws, which keeps r_j unbiased over random batches.

References
----------
Ishida, Niu, Menon and Sugiyama (2019), ICML; Wang et al. (2024), ICML (scarce); Zhang and Sabuncu
(2018), NeurIPS (gce); Wang et al. (2019), ICCV (sl); Ishiguro et al. (2022) (robust risks).
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import softplus

from noracle.errors import ArgumentError
from noracle.learn.context import Context

Base = Literal["ce", "mae", "mse", "gce", "sl", "wmae"]
Correction = Literal["free", "nn", "ga", "abs"]


def ure(
    logits: Tensor,
    ruled_out: Tensor,
    context: Context,
    /,
    *,
    base: Base = "ce",
    correction: Correction = "nn",
    beta: float = 0.0,
    q: float = 0.7,
    weight: Tensor | None = None,
) -> Tensor:
    """The unbiased risk with a correction; see the module.

    Parameters
    ----------
    logits, ruled_out
        (B, K) numbers, and the mask of the ruled-out classes. An item with s of them counts 1/s in
        each.
    context
        With T⁻¹; its ``pi_bar`` decides whose shares are used.
    base
        ℓ_j: ce -log p_j; mae 2 - 2p_j; mse ‖p - e_j‖²; gce (1 - p_j^q)/q; sl 0.1·ce + 4(1 - p_j);
        wmae mae/w_j, w_j = Σ_k (T⁻¹)[k, j] > 0.
    weight
        One number an item.

    Examples
    --------
    Two classes: what is not the one is the other.

    >>> from noracle.learn.transition import Transition
    >>> context = Context(Transition.uniform(2), needs_inverse=True)
    >>> logits, other = torch.tensor([[1.0, 0.0]]), torch.tensor([[False, True]])
    >>> torch.isclose(ure(logits, other, context), -logits.log_softmax(1)[0, 0]).item()
    True
    """
    risks = partial_risks(logits, ruled_out, context, base=base, q=q, weight=weight)
    return correct(risks, correction, beta)


def correct(risks: Tensor, correction: Correction, beta: float = 0.0) -> Tensor:
    """One number from the risks of the ordinary classes."""
    if not beta >= 0:
        raise ArgumentError(f"beta must be at least 0; got {beta}.")
    if correction == "free":
        return risks.sum()
    if correction == "nn":
        return risks.clamp(min=-beta).sum()
    if correction == "abs":
        return risks.abs().sum()
    if correction == "ga":
        return torch.where((risks < 0).any(), -risks.clamp(max=0).sum(), risks.sum())
    raise ArgumentError(f"correction must be free, nn, ga or abs; got {correction!r}.")


def partial_risks(
    logits: Tensor,
    ruled_out: Tensor,
    context: Context,
    /,
    *,
    base: Base = "ce",
    q: float = 0.7,
    weight: Tensor | None = None,
) -> Tensor:
    """r_j for every ordinary class j."""
    inverse = context.inverse().to(logits.dtype)
    losses = ordinary_losses(logits, base=base, q=q)
    if base == "wmae":
        losses = losses / context.positive_column_sums().to(logits.dtype)
    parts = _parts(ruled_out, weight, logits.dtype)
    if context.pi_bar is None:
        scale = 1 / _or_one(parts.sum())
    else:
        size = parts.sum(dim=0)
        pi_bar = context.pi_bar.to(logits.dtype)
        scale = (
            pi_bar
            / _or_one(_chance_present(pi_bar, context.n_items, ruled_out, parts))
            / _or_one(size)
        )
    return (inverse * (parts * scale).T.mm(losses)).sum(dim=0)


def ordinary_losses(logits: Tensor, *, base: Base, q: float = 0.7) -> Tensor:
    """ℓ_j of every item and class: the loss if the class were j (mae for wmae)."""
    if base == "ce":
        return -logits.log_softmax(dim=1)
    if base == "gce":
        if not 0 < q <= 1:
            raise ArgumentError(f"q must be in (0, 1]; got {q}.")
        return -torch.expm1(q * logits.log_softmax(dim=1)) / q
    p = logits.softmax(dim=1)
    if base in ("mae", "wmae"):
        return 2 - 2 * p
    if base == "mse":
        return 1 - 2 * p + (p * p).sum(dim=1, keepdim=True)
    if base == "sl":
        return -0.1 * logits.log_softmax(dim=1) + 4 * (1 - p)
    raise ArgumentError(f"base must be ce, mae, mse, gce, sl or wmae; got {base!r}.")


def scarce(
    logits: Tensor, ruled_out: Tensor, context: Context, /, *, weight: Tensor | None = None
) -> Tensor:
    """Each class against the rest, with the absolute value of each positive part.

    Σ_k (1 - π_k)·mean_{ȳ=k} softplus(z_k) + |mean softplus(-z_k) - (1 - π_k)·mean_{ȳ=k}
    softplus(-z_k)|, over the classes k that are in the batch. Assumes that the items with k ruled
    out are like all items that are not k.
    """
    rare = 1 - context.prior.to(logits.dtype)
    parts = _parts(ruled_out, weight, logits.dtype)
    size = parts.sum(dim=0)
    away, towards = softplus(logits), softplus(-logits)
    scale = rare / _or_one(size)
    negative, positive = scale * (parts * away).sum(dim=0), scale * (parts * towards).sum(dim=0)
    each = torch.ones_like(logits[:, 0]) if weight is None else weight.to(logits.dtype)
    everywhere = (towards * each.unsqueeze(1)).sum(dim=0) / _or_one(each.sum())
    return torch.where(size > 0, negative + (everywhere - positive).abs(), 0).sum()


def _parts(ruled_out: Tensor, weight: Tensor | None, dtype: torch.dtype) -> Tensor:
    """How much each item counts in each ruled-out class: 1/s in s classes, times its weight."""
    parts = ruled_out.to(dtype)
    parts = parts / parts.sum(dim=1, keepdim=True).clamp(min=1)
    return parts if weight is None else parts * weight.to(dtype).unsqueeze(1)


def _chance_present(pi_bar: Tensor, n_items: float, ruled_out: Tensor, parts: Tensor) -> Tensor:
    """The chance that class k is in the batch: 1 - Π_{i<n} (1 - s·π̄_k·N/(N - i)) for n of N items
    with s labels each (on average).
    """
    counted = parts.sum(dim=1) > 0
    n = counted.sum()
    labels = (ruled_out.sum(dim=1) * counted).sum().to(parts.dtype) / n.clamp(min=1)
    i = torch.arange(len(parts), device=parts.device, dtype=parts.dtype)
    left = (1 - i / n_items).clamp(min=torch.finfo(parts.dtype).tiny).unsqueeze(1)
    none_yet = torch.log1p(-(labels * pi_bar / left).clamp(max=1))
    return -torch.expm1(torch.where(i.unsqueeze(1) < n, none_yet, 0).sum(dim=0))


def _or_one(size: Tensor) -> Tensor:
    """Sizes to divide by; where nothing is, 1."""
    return torch.where(size > 0, size, torch.ones_like(size))
