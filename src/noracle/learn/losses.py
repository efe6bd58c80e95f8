"""Losses for labels that say what an item is *not*; pure functions in log space, in one table.

Every function takes logits z (B, K), a mask (B, K) of ruled-out classes and a :class:`Context`. A
loss *per item* returns B numbers; where it is written for one label, several labels of an item
count as their mean, and an item without a label costs nothing. A *risk* returns one number for the
batch.

p = softmax(z), ȳ the ruled-out class, Ȳ a set of s of them, T[j, k] = P(k is ruled out | the class
is j).

    pc_sigmoid   Σ_{k≠ȳ} σ(z_ȳ - z_k)                                Ishida et al. 2017
    scl_nl       -log(1 - p_ȳ); a set: -log(1 - Σ_{k∈Ȳ} p_k)         Chou et al. 2020; Kim et al. 2019
    scl_exp      exp(p_ȳ)                                            Chou et al. 2020
    fwd          -log Σ_j p_j T[j, ȳ]                                Yu et al. 2018
    l_uw, l_w    -log softmax(1 - p)_ȳ, and times 1 + (1 - p_ȳ)/(K - 1)     Gao and Zhang 2021
    op, op_w     -log q_ȳ with q = softmax(-z), and times p_ȳ·softmax(1/q)_ȳ     Liu et al. 2023
    cpe_i/f/t    -log p_ȳ, or fwd with T given or trained; decoded by the nearest row of T     Lin and Lin 2023
    mcl_*        (2K - 2)/s·{1 - P, e^{-P}, -log P}, P = Σ_{j∉Ȳ} p_j        Feng et al. 2020
    multi_ure    Σ_{j∉Ȳ} ℓ_j - ((K - 1 - s)/s)·Σ_{j∈Ȳ} ℓ_j            Feng et al. 2020
    partial_log  -log Σ_{j∉Ȳ} p_j / (K - s), the control of partial labels
    supervised   scl_nl of all classes but one, which is the cross-entropy: the control with true labels
    ure, scarce  risks of a batch

Examples
--------
>>> mask = label_mask(torch.tensor([2, 0]), 3)
>>> loss = get_loss("scl_nl")
>>> context = loss.make_context(Transition.uniform(3), ruled_out=mask)
>>> round(loss(torch.zeros(2, 3), mask, context).item(), 4)
0.4055
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from noracle.errors import require
from noracle.learn.transition import Transition, require_class_left, require_classes, shares_of

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


Weights = Tensor | None
"""One number per item, or None: all count the same."""


class Context(nn.Module):
    """T, its inverse and class shares, checked once.

    A column of zeros in T is a class that is never ruled out. A label there, which T calls
    impossible, costs a constant and teaches nothing. A T with noise and a certain model explain
    labels no better than a T without and a model in doubt, so a trained T is found only where
    something else fixes the model.

    Parameters
    ----------
    pi_bar
        Shares of the ruled-out classes among all labels; None: each batch counts its own.
    n_items
        Number of all labelled items, of which a batch is a part.
    prior
        Shares of the true classes; uniform by default.
    needs_inverse
        Whether T⁻¹ is wanted; then a singular T raises.
    trainable, floor
        Whether T is a parameter, and the share of J/K that it starts with: zeros could not move.
    """

    T: Tensor
    log_transition: Tensor
    T_inv: Tensor
    column_sums: Tensor
    prior: Tensor
    pi_bar: Tensor | None

    def __init__(
        self,
        transition: Transition,
        *,
        pi_bar: ArrayLike | None = None,
        n_items: float = math.inf,
        prior: ArrayLike | None = None,
        needs_inverse: bool = False,
        trainable: bool = False,
        floor: float = 1e-3,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        require(n_items > 0, f"n_items must be positive; got {n_items}.")
        require(0 < floor < 1, f"floor must be in (0, 1); got {floor}.")
        k, matrix = transition.n_classes, transition.matrix
        self.transition, self.n_classes, self.n_items = transition, k, n_items
        inverse = transition.inverse() if needs_inverse else np.zeros((0, 0))
        sums = inverse.sum(axis=0)
        self.smallest_column_sum = float(sums.min()) if needs_inverse else np.nan
        shares = None if pi_bar is None else shares_of("pi_bar", pi_bar, k)
        # A column of zeros is a constant, whose gradient is 0 and not NaN.
        possible = np.where(matrix.max(axis=0) > 0, matrix, float(np.finfo(np.float32).tiny))
        with np.errstate(divide="ignore"):
            logs = np.log(possible)
        for name, values in (
            ("T", matrix),
            ("log_transition", logs),
            ("T_inv", inverse),
            ("column_sums", sums),
            ("prior", shares_of("prior", np.ones(k) if prior is None else prior, k)),
            ("pi_bar", shares),
        ):
            tensor = None if values is None else torch.tensor(values, dtype=dtype)
            self.register_buffer(name, tensor)
        start = np.log((1 - floor) * matrix + floor / k)
        self.free_T = nn.Parameter(torch.tensor(start, dtype=dtype)) if trainable else None

    @property
    def source(self) -> str:
        """Where T came from; ``trained`` if it is a parameter."""
        return self.transition.source if self.free_T is None else "trained"

    def current_log_transition(self) -> Tensor:
        """Logarithm of T: the trained one where there is one."""
        return self.log_transition if self.free_T is None else self.free_T.log_softmax(dim=1)

    def inverse(self) -> Tensor:
        """T⁻¹, or an error where the context was made without it."""
        rule = "context must be made with needs_inverse=True for this loss"
        require(self.T_inv.numel(), f"{rule}; got one without.")
        return self.T_inv

    def positive_column_sums(self) -> Tensor:
        """w_j = Σ_k (T⁻¹)[k, j], or an error where one is not positive."""
        self.inverse()
        least = self.smallest_column_sum
        rule = "transition must have an inverse with positive column sums for base wmae"
        came = f"{least:.3g} for class {int(self.column_sums.argmin())}" if least <= 1e-9 else ""
        why = "wmae divides the loss of a class by that sum: a negative one would reward mistakes"
        require(not came, f"{rule}; got {came}. {why}. Use base mae or gce.")
        return self.column_sums

    def trained(self) -> Transition:
        """The matrix as it is now."""
        if self.free_T is None:
            return self.transition
        matrix = self.free_T.detach().double().softmax(dim=1).cpu().numpy()
        start = f"started from {self.transition.source}"
        return Transition(matrix, "trained", start, self.transition.oracle)


# Risks of a whole batch: means over the items of each ruled-out class, not sums over items.

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
    weight: Weights = None,
) -> Tensor:
    """The unbiased risk with a correction; an item with s ruled-out classes counts 1/s in each.

    ℓ_j: ce -log p_j; mae 2 - 2p_j; mse ‖p - e_j‖²; gce (1 - p_j^q)/q; sl 0.1·ce + 4(1 - p_j); wmae
    mae/w_j, w_j = Σ_k (T⁻¹)[k, j] > 0. The ``pi_bar`` of the context decides whose shares are used.

    Examples
    --------
    Two classes: what is not the one is the other.

    >>> context = Context(Transition.uniform(2), needs_inverse=True)
    >>> logits, other = torch.tensor([[1.0, 0.0]]), torch.tensor([[False, True]])
    >>> torch.isclose(ure(logits, other, context), -logits.log_softmax(1)[0, 0]).item()
    True
    """
    risks = partial_risks(logits, ruled_out, context, base=base, q=q, weight=weight)
    return correct(risks, correction, beta)


def correct(risks: Tensor, correction: Correction, beta: float = 0.0) -> Tensor:
    """One number from the risks of the ordinary classes."""
    require(beta >= 0, f"beta must be at least 0; got {beta}.")
    if correction == "free":
        return risks.sum()
    if correction == "nn":
        return risks.clamp(min=-beta).sum()
    if correction == "abs":
        return risks.abs().sum()
    require(correction == "ga", f"correction must be free, nn, ga or abs; got {correction!r}.")
    return torch.where((risks < 0).any(), -risks.clamp(max=0).sum(), risks.sum())


def partial_risks(
    logits: Tensor,
    ruled_out: Tensor,
    context: Context,
    /,
    *,
    base: Base = "ce",
    q: float = 0.7,
    weight: Weights = None,
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
        pi_bar = context.pi_bar.to(logits.dtype)
        present = _chance_present(pi_bar, context.n_items, ruled_out, parts)
        scale = pi_bar / _or_one(present) / _or_one(parts.sum(dim=0))
    return (inverse * (parts * scale).T.mm(losses)).sum(dim=0)


def ordinary_losses(logits: Tensor, *, base: Base, q: float = 0.7) -> Tensor:
    """ℓ_j of every item and class: the loss if the class were j (mae for wmae)."""
    if base == "ce":
        return -logits.log_softmax(dim=1)
    if base == "gce":
        require(0 < q <= 1, f"q must be in (0, 1]; got {q}.")
        return -torch.expm1(q * logits.log_softmax(dim=1)) / q
    p = logits.softmax(dim=1)
    if base in ("mae", "wmae"):
        return 2 - 2 * p
    if base == "mse":
        return 1 - 2 * p + (p * p).sum(dim=1, keepdim=True)
    require(base == "sl", f"base must be ce, mae, mse, gce, sl or wmae; got {base!r}.")
    return -0.1 * logits.log_softmax(dim=1) + 4 * (1 - p)


def scarce(
    logits: Tensor, ruled_out: Tensor, context: Context, /, *, weight: Weights = None
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


def _parts(ruled_out: Tensor, weight: Weights, dtype: torch.dtype) -> Tensor:
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


Decode = Literal["argmax", "nearest", "nearest-through"]


def pc_sigmoid_loss(logits: Tensor, ruled_out: Tensor, _context: Context, /) -> Tensor:
    """Σ_{k≠ȳ} σ(z_ȳ - z_k)."""
    gaps = torch.sigmoid(logits.unsqueeze(2) - logits.unsqueeze(1))  # [b, ȳ, k]
    return _mean_over_labels(gaps.sum(dim=2) - 0.5, ruled_out)


def scl_nl_loss(logits: Tensor, ruled_out: Tensor, _context: Context, /) -> Tensor:
    """-log(1 - Σ_{k∈Ȳ} p_k) = lse(z) - lse(z without Ȳ)."""
    return logits.logsumexp(dim=1) - logits.masked_fill(ruled_out, -torch.inf).logsumexp(dim=1)


def scl_exp_loss(logits: Tensor, ruled_out: Tensor, _context: Context, /) -> Tensor:
    """exp(p_ȳ)."""
    return _mean_over_labels(logits.softmax(dim=1).exp(), ruled_out)


def fwd_loss(logits: Tensor, ruled_out: Tensor, context: Context, /) -> Tensor:
    """-log Σ_j p_j T[j, ȳ]."""
    return _mean_over_labels(-_log_complementary(logits, context), ruled_out)


def l_uw_loss(logits: Tensor, ruled_out: Tensor, _context: Context, /) -> Tensor:
    """-log softmax(1 - p)_ȳ."""
    return _mean_over_labels(-(1 - logits.softmax(dim=1)).log_softmax(dim=1), ruled_out)


def l_w_loss(logits: Tensor, ruled_out: Tensor, _context: Context, /) -> Tensor:
    """-(1 + (1 - p_ȳ)/(K - 1))·log softmax(1 - p)_ȳ."""
    p = logits.softmax(dim=1)
    weight = 1 + (1 - p) / (logits.shape[1] - 1)
    return _mean_over_labels(-weight * (1 - p).log_softmax(dim=1), ruled_out)


def op_loss(logits: Tensor, ruled_out: Tensor, _context: Context, /) -> Tensor:
    """-log softmax(-z)_ȳ."""
    return _mean_over_labels(-(-logits).log_softmax(dim=1), ruled_out)


def op_w_loss(logits: Tensor, ruled_out: Tensor, _context: Context, /) -> Tensor:
    """-p_ȳ·w_ȳ·log q_ȳ with q = softmax(-z), w = softmax(1/q).

    1/q overflows; softmax needs only the differences 1/q_k - max 1/q = e^m·(e^{-log q_k - m} - 1),
    m = max(-log q). Where e^m exceeds what floats resolve, any difference of log q that they can
    hold gives the same w, so m stops there: gradients stay small enough to square.
    """
    log_q = (-logits).log_softmax(dim=1)
    most = (-log_q).amax(dim=1, keepdim=True)
    limit = 10 - math.log(torch.finfo(logits.dtype).eps)
    w = (most.clamp(max=limit).exp() * torch.expm1(-log_q - most)).softmax(dim=1)
    return _mean_over_labels(-logits.softmax(dim=1) * w * log_q, ruled_out)


def cpe_i_loss(logits: Tensor, ruled_out: Tensor, _context: Context, /) -> Tensor:
    """-log p_ȳ: the model gives the chances of the *ruled-out* class."""
    return _mean_over_labels(-logits.log_softmax(dim=1), ruled_out)


def mcl_mae_loss(logits: Tensor, ruled_out: Tensor, _context: Context, /) -> Tensor:
    """(2K - 2)/s·(1 - P)."""
    return _mcl_scale(logits, ruled_out) * (logits.softmax(dim=1) * ruled_out).sum(dim=1)


def mcl_exp_loss(logits: Tensor, ruled_out: Tensor, _context: Context, /) -> Tensor:
    """(2K - 2)/s·e^{-P}."""
    missed = (logits.softmax(dim=1) * ruled_out).sum(dim=1)
    return _mcl_scale(logits, ruled_out) * (missed - 1).exp()


def mcl_log_loss(logits: Tensor, ruled_out: Tensor, context: Context, /) -> Tensor:
    """-(2K - 2)/s·log P."""
    return _mcl_scale(logits, ruled_out) * scl_nl_loss(logits, ruled_out, context)


def multi_ure_loss(logits: Tensor, ruled_out: Tensor, _context: Context, /) -> Tensor:
    """Σ_{j∉Ȳ} ℓ_j - ((K - 1 - s)/s)·Σ_{j∈Ȳ} ℓ_j, ℓ the cross-entropy; unbounded below."""
    ordinary = -logits.log_softmax(dim=1)
    s = ruled_out.sum(dim=1).clamp(min=1).to(logits.dtype)
    inside = (ordinary * ruled_out).sum(dim=1)
    risk = ordinary.sum(dim=1) - inside - (logits.shape[1] - 1 - s) / s * inside
    return torch.where(ruled_out.any(dim=1), risk, 0)


def partial_log_loss(logits: Tensor, ruled_out: Tensor, context: Context, /) -> Tensor:
    """-log Σ_{j∉Ȳ} p_j / (K - s): of the mean probability of the classes that remain."""
    left = (~ruled_out).sum(dim=1).to(logits.dtype)
    risk = scl_nl_loss(logits, ruled_out, context) + left.log()
    return torch.where(ruled_out.any(dim=1), risk, 0)


def _log_complementary(logits: Tensor, context: Context) -> Tensor:
    """Logarithm of (Tᵀp)_k for every class k."""
    log_T = context.current_log_transition().to(logits)
    return (logits.log_softmax(dim=1).unsqueeze(2) + log_T).logsumexp(dim=1)  # of [b, j, k]


def _mcl_scale(logits: Tensor, ruled_out: Tensor) -> Tensor:
    s = ruled_out.sum(dim=1)
    return torch.where(s > 0, (2 * logits.shape[1] - 2) / s.clamp(min=1).to(logits.dtype), 0)


def mean_loss(losses: Tensor, weight: Weights) -> Tensor:
    """The mean of the losses of a batch, weighted where ``weight`` is given."""
    return losses.mean() if weight is None else (losses * weight).sum() / _or_one(weight.sum())


def _mean_over_labels(values: Tensor, ruled_out: Tensor) -> Tensor:
    """Mean of (B, K) values over the ruled-out classes of each item, or over its labels where
    ``ruled_out`` counts them.
    """
    each = values.masked_fill(ruled_out == 0, 0) * ruled_out
    return each.sum(dim=1) / ruled_out.sum(dim=1).clamp(min=1)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """One row of the table.

    Attributes
    ----------
    per_item
        The function gives B numbers; else it is a risk.
    sets
        Written for sets of labels.
    transition, inverse, trains_transition
        Uses T, T⁻¹, a T that is a parameter.
    decode
        How a class follows from the logits.

    Examples
    --------
    >>> loss = get_loss("scl_nl")
    >>> loss.per_item, loss.transition, loss.decode
    (True, False, 'argmax')
    """

    name: str
    function: Callable[..., Tensor]
    per_item: bool = True
    sets: bool = False
    inverse: bool = False
    transition: bool = False
    trains_transition: bool = False
    decode: Decode = "argmax"
    options: Mapping[str, object] = dataclasses.field(default_factory=dict)

    def __call__(
        self, logits: Tensor, ruled_out: Tensor, context: Context, weight: Weights = None
    ) -> Tensor:
        """The mean loss of the batch (weighted where ``weight`` is given), in 32 bits at least:
        risks are differences of large numbers.
        """
        z = logits.float() if torch.finfo(logits.dtype).bits < 32 else logits
        with torch.autocast(z.device.type, enabled=False):
            if not self.per_item:
                return self.function(z, ruled_out, context, weight=weight, **self.options)
            return mean_loss(self.function(z, ruled_out, context, **self.options), weight)

    def make_context(
        self,
        transition: Transition,
        *,
        ruled_out: Tensor | None = None,
        weight: Weights = None,
        prior: ArrayLike | None = None,
        floor: float = 1e-3,
        dtype: torch.dtype = torch.float32,
    ) -> Context:
        """What this loss needs to know; all faults of T show here, before any training.

        Parameters
        ----------
        ruled_out, weight
            The mask of *all* labels, and weights of the items; the corrections of ure take the
            shares π̄ from them, because those of a batch are too noisy.
        prior
            Shares of the true classes (scarce); :meth:`Transition.class_shares` estimates them.
        """
        shares, n_items = None, math.inf
        if ruled_out is not None and self.options.get("correction") in ("nn", "ga", "abs"):
            each = (1 if weight is None else weight) / ruled_out.sum(dim=1).clamp(min=1)
            shares = (ruled_out * each.unsqueeze(1)).sum(dim=0, dtype=torch.float64).cpu().numpy()
            n_items = int(ruled_out.any(dim=1).sum())
        context = Context(
            transition,
            pi_bar=shares,
            n_items=n_items,
            prior=prior,
            needs_inverse=self.inverse,
            trainable=self.trains_transition,
            floor=floor,
            dtype=dtype,
        )
        if self.options.get("base") == "wmae":
            context.positive_column_sums()
        return context


def _table() -> dict[str, Loss]:
    T: dict[str, Any] = {"transition": True}
    through: dict[str, Any] = {**T, "decode": "nearest-through"}
    sets: dict[str, Any] = {"sets": True}
    risk: dict[str, Any] = {"per_item": False, "inverse": True, **T}
    rows: dict[str, tuple[Callable[..., Tensor], dict[str, Any]]] = {
        "pc_sigmoid": (pc_sigmoid_loss, {}),
        "scl_nl": (scl_nl_loss, sets),
        "scl_exp": (scl_exp_loss, {}),
        "fwd": (fwd_loss, T),
        "l_uw": (l_uw_loss, {}),
        "l_w": (l_w_loss, {}),
        "op": (op_loss, {}),
        "op_w": (op_w_loss, {}),
        "cpe_i": (cpe_i_loss, {**T, "decode": "nearest"}),
        "cpe_f": (fwd_loss, through),
        "cpe_t": (fwd_loss, {**through, "trains_transition": True}),
        "mcl_mae": (mcl_mae_loss, sets),
        "mcl_exp": (mcl_exp_loss, sets),
        "mcl_log": (mcl_log_loss, sets),
        "multi_ure": (multi_ure_loss, sets),
        "partial_log": (partial_log_loss, sets),
        "supervised": (scl_nl_loss, sets),
        "scarce": (scarce, {"per_item": False, **sets}),
    }
    for base in get_args(Base):
        for correction in get_args(Correction):
            name = f"ure_{correction}" if base == "ce" else f"ure_{base}_{correction}"
            rows[name] = (ure, {**risk, "options": {"base": base, "correction": correction}})
    return {name: Loss(name=name, function=f, **more) for name, (f, more) in rows.items()}


LOSSES: Mapping[str, Loss] = _table()
"""Every loss by name."""


def get_loss(name: str, options: Mapping[str, float] | None = None) -> Loss:
    """A row of the table, with other options where given: ``beta`` and ``q`` of the ure rows.

    Examples
    --------
    >>> get_loss("ure_nn", {"beta": 0.1}).options["beta"]
    0.1
    """
    require(name in LOSSES, f"loss must be one of {', '.join(LOSSES)}; got {name!r}.")
    loss = LOSSES[name]
    known = ("beta", "q") if loss.inverse else ()
    for option in options or ():
        rule = f"options of loss {name} must be among ({', '.join(known)})"
        require(option in known, f"{rule}; got {option!r}.")
    return dataclasses.replace(loss, options={**loss.options, **options}) if options else loss


def decode_logits(logits: Tensor, loss: Loss, context: Context) -> Tensor:
    """The class that each row of logits means, for CPE the nearest row of T."""
    if loss.decode == "argmax":
        return logits.argmax(dim=1)
    return row_distances(logits, loss, context).argmin(dim=1)


@torch.no_grad()
def row_distances(logits: Tensor, loss: Loss, context: Context) -> Tensor:
    """‖q - T[k]‖₁ of every item and class, for losses that are decoded by the nearest row of T."""
    z = logits.float() if torch.finfo(logits.dtype).bits < 32 else logits
    through = loss.decode == "nearest-through"
    log_q = _log_complementary(z, context) if through else z.log_softmax(dim=1)
    return torch.cdist(log_q.exp(), context.current_log_transition().exp().to(z), p=1)


def scel(
    logits: Tensor, ruled_out: Tensor, context: Context, *, temperature: float = 1.0
) -> Tensor:
    """-log (Tᵀp)_ȳ per item, after dividing the logits by ``temperature``."""
    require(0 < temperature < math.inf, f"temperature must be positive; got {temperature}.")
    return fwd_loss(logits / temperature, ruled_out, context)


def best_scel(logits: Tensor, ruled_out: Tensor, context: Context) -> tuple[float, float]:
    """The least mean of -log (Tᵀp)_ȳ over some temperatures from 1/4 to 8, and its temperature: a
    model that is too sure of itself is not judged by that.
    """
    scales = [2 ** (i / 4) for i in range(-8, 13)]
    means = [scel(logits, ruled_out, context, temperature=t).double().mean() for t in scales]
    return min(zip(map(float, means), scales, strict=True))


def label_mask(ruled_out: Tensor, n_classes: int) -> Tensor:
    """A mask (n, K) from classes (n,) or from several classes per item, padded with -1 (n, s).

    An item may have no label, but one for which all classes are ruled out contradicts itself.

    Examples
    --------
    >>> label_mask(torch.tensor([[0, 2], [1, -1]]), 3).tolist()
    [[True, False, True], [False, True, False]]
    """
    return label_counts(ruled_out, n_classes) > 0


def label_counts(ruled_out: Tensor, n_classes: int) -> Tensor:
    """How often each class was ruled out for each item (n, K), from the same as
    :func:`label_mask`.

    Examples
    --------
    >>> label_counts(torch.tensor([[0, 2, 0], [1, -1, -1]]), 3).tolist()
    [[2.0, 0.0, 1.0], [0.0, 1.0, 0.0]]
    """
    said = ruled_out.reshape(len(ruled_out), -1) if len(ruled_out) else ruled_out.reshape(0, 1)
    require_classes("ruled_out", said.cpu().numpy(), n_classes)
    wide = torch.zeros(len(said), n_classes + 1, device=said.device)
    places = torch.where(said < 0, n_classes, said).long()
    wide.scatter_add_(1, places, torch.ones_like(places, dtype=wide.dtype))
    counts = wide[:, :n_classes].contiguous()
    require_class_left(counts > 0)
    return counts
