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
    ure, scarce  risks: see risks.py

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
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor

from noracle.errors import ArgumentError, EvidenceError, fault
from noracle.learn.context import Context
from noracle.learn.risks import scarce, ure
from noracle.learn.transition import Transition

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

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
    return (
        _mcl_scale(logits, ruled_out) * ((logits.softmax(dim=1) * ruled_out).sum(dim=1) - 1).exp()
    )


def mcl_log_loss(logits: Tensor, ruled_out: Tensor, context: Context, /) -> Tensor:
    """-(2K - 2)/s·log P."""
    return _mcl_scale(logits, ruled_out) * scl_nl_loss(logits, ruled_out, context)


def multi_ure_loss(logits: Tensor, ruled_out: Tensor, _context: Context, /) -> Tensor:
    """Σ_{j∉Ȳ} ℓ_j - ((K - 1 - s)/s)·Σ_{j∈Ȳ} ℓ_j with ℓ the cross-entropy; unbiased for uniform
    sets, unbounded below.
    """
    ordinary = -logits.log_softmax(dim=1)
    s = ruled_out.sum(dim=1).clamp(min=1).to(logits.dtype)
    inside = (ordinary * ruled_out).sum(dim=1)
    risk = ordinary.sum(dim=1) - inside - (logits.shape[1] - 1 - s) / s * inside
    return torch.where(ruled_out.any(dim=1), risk, 0)


def partial_log_loss(logits: Tensor, ruled_out: Tensor, context: Context, /) -> Tensor:
    """-log Σ_{j∉Ȳ} p_j / (K - s): of the mean probability of the classes that remain."""
    left = (~ruled_out).sum(dim=1).to(logits.dtype)
    return torch.where(
        ruled_out.any(dim=1), scl_nl_loss(logits, ruled_out, context) + left.log(), 0
    )


def _log_complementary(logits: Tensor, context: Context) -> Tensor:
    """Logarithm of (Tᵀp)_k for every class k."""
    joint = logits.log_softmax(dim=1).unsqueeze(2) + context.current_log_transition().to(
        logits.dtype
    )  # [b, j, k]
    return joint.logsumexp(dim=1)


def _mcl_scale(logits: Tensor, ruled_out: Tensor) -> Tensor:
    s = ruled_out.sum(dim=1)
    return torch.where(s > 0, (2 * logits.shape[1] - 2) / s.clamp(min=1).to(logits.dtype), 0)


def _mean_over_labels(values: Tensor, ruled_out: Tensor) -> Tensor:
    """Mean of (B, K) values over the ruled-out classes of each item; values elsewhere may be
    infinite.
    """
    return values.masked_fill(~ruled_out, 0).sum(dim=1) / ruled_out.sum(dim=1).clamp(min=1)


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
        self, logits: Tensor, ruled_out: Tensor, context: Context, weight: Tensor | None = None
    ) -> Tensor:
        """The mean loss of the batch (weighted where ``weight`` is given), in 32 bits at least:
        risks are differences of large numbers.
        """
        z = logits.float() if torch.finfo(logits.dtype).bits < 32 else logits
        with torch.autocast(z.device.type, enabled=False):
            if not self.per_item:
                return self.function(z, ruled_out, context, weight=weight, **self.options)
            losses = self.function(z, ruled_out, context, **self.options)
            if weight is None:
                return losses.mean()
            total = weight.sum()
            return (losses * weight).sum() / torch.where(total > 0, total, torch.ones_like(total))

    def make_context(
        self,
        transition: Transition,
        *,
        ruled_out: Tensor | None = None,
        weight: Tensor | None = None,
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
            each = (
                1 / ruled_out.sum(dim=1).clamp(min=1)
                if weight is None
                else weight / ruled_out.sum(dim=1).clamp(min=1)
            )
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
    rows = [
        Loss(name="pc_sigmoid", function=pc_sigmoid_loss),
        Loss(name="scl_nl", function=scl_nl_loss, sets=True),
        Loss(name="scl_exp", function=scl_exp_loss),
        Loss(name="fwd", function=fwd_loss, transition=True),
        Loss(name="l_uw", function=l_uw_loss),
        Loss(name="l_w", function=l_w_loss),
        Loss(name="op", function=op_loss),
        Loss(name="op_w", function=op_w_loss),
        Loss(name="cpe_i", function=cpe_i_loss, transition=True, decode="nearest"),
        Loss(name="cpe_f", function=fwd_loss, transition=True, decode="nearest-through"),
        Loss(
            name="cpe_t",
            function=fwd_loss,
            transition=True,
            trains_transition=True,
            decode="nearest-through",
        ),
        Loss(name="mcl_mae", function=mcl_mae_loss, sets=True),
        Loss(name="mcl_exp", function=mcl_exp_loss, sets=True),
        Loss(name="mcl_log", function=mcl_log_loss, sets=True),
        Loss(name="multi_ure", function=multi_ure_loss, sets=True),
        Loss(name="partial_log", function=partial_log_loss, sets=True),
        Loss(name="supervised", function=scl_nl_loss, sets=True),
        Loss(name="scarce", function=scarce, per_item=False, sets=True),
    ]
    for base in ("ce", "mae", "mse", "gce", "sl", "wmae"):
        for correction in ("free", "nn", "ga", "abs"):
            options = {"base": base, "correction": correction}
            name = f"ure_{correction}" if base == "ce" else f"ure_{base}_{correction}"
            rows.append(
                Loss(
                    name=name,
                    function=ure,
                    per_item=False,
                    inverse=True,
                    transition=True,
                    options=options,
                )
            )
    return {row.name: row for row in rows}


LOSSES: Mapping[str, Loss] = _table()
"""Every loss by name."""


def get_loss(name: str, options: Mapping[str, float] | None = None) -> Loss:
    """A row of the table, with other options where given: ``beta`` and ``q`` of the ure rows.

    Examples
    --------
    >>> get_loss("ure_nn", {"beta": 0.1}).options["beta"]
    0.1
    """
    if name not in LOSSES:
        raise ArgumentError(f"loss must be one of {', '.join(LOSSES)}; got {name!r}.")
    loss = LOSSES[name]
    known = ("beta", "q") if loss.inverse else ()
    for option in options or ():
        if option not in known:
            raise ArgumentError(
                f"options of loss {name} must be among ({', '.join(known)}); got {option!r}."
            )
    return dataclasses.replace(loss, options={**loss.options, **options}) if options else loss


def decode_logits(logits: Tensor, loss: Loss, context: Context) -> Tensor:
    """The class that each row of logits means.

    CPE: argmin_k ‖q - T[k]‖₁ with q the estimated chances of the ruled-out class.

    Examples
    --------
    >>> loss = get_loss("cpe_i")
    >>> decode_logits(torch.tensor([[0.0, -9.0, 0.0]]), loss, loss.make_context(Transition.uniform(3))).tolist()
    [1]
    """
    if loss.decode == "argmax":
        return logits.argmax(dim=1)
    logits = logits.float() if torch.finfo(logits.dtype).bits < 32 else logits
    log_q = (
        logits.log_softmax(dim=1)
        if loss.decode == "nearest"
        else _log_complementary(logits, context)
    )
    return torch.cdist(
        log_q.exp(), context.current_log_transition().exp().to(logits.dtype), p=1
    ).argmin(dim=1)


def scel(
    logits: Tensor, ruled_out: Tensor, context: Context, *, temperature: float = 1.0
) -> Tensor:
    """Surrogate complementary-estimation loss: -log (Tᵀp)_ȳ per item, after dividing the logits by
    ``temperature``.

    Examples
    --------
    >>> context = get_loss("fwd").make_context(Transition.uniform(3))
    >>> scel(torch.zeros(1, 3), label_mask(torch.tensor([0]), 3), context).exp().tolist()
    [3.0]
    """
    if not (math.isfinite(temperature) and temperature > 0):
        raise ArgumentError(f"temperature must be positive; got {temperature}.")
    return fwd_loss(logits / temperature, ruled_out, context)


def label_mask(ruled_out: Tensor, n_classes: int) -> Tensor:
    """A mask (n, K) from classes (n,) or from several classes an item, padded with -1 (n, s).

    An item may have no label, but one for which all classes are ruled out contradicts itself.

    Examples
    --------
    >>> label_mask(torch.tensor([[0, 2], [1, -1]]), 3).tolist()
    [[True, False, True], [False, True, False]]
    """
    said = ruled_out.reshape(len(ruled_out), -1) if len(ruled_out) else ruled_out.reshape(0, 1)
    wrong = ((said < -1) | (said >= n_classes)).any(dim=1).nonzero().flatten().tolist()
    if wrong:
        came = said[wrong[0]].tolist()
        raise EvidenceError(
            fault(
                "ruled_out",
                f"must be in [-1, {n_classes})",
                came,
                where=wrong[:5],
                total=len(wrong),
            )
        )
    wide = torch.zeros(len(said), n_classes + 1, dtype=torch.bool, device=said.device)
    mask = wide.scatter_(1, torch.where(said < 0, n_classes, said).long(), True)[
        :, :n_classes
    ].contiguous()
    full = mask.all(dim=1).nonzero().flatten().tolist()
    if full:
        remedy = "Drop labels of these items."
        raise EvidenceError(
            fault(
                "ruled_out",
                "must leave a class",
                "all classes",
                where=full[:5],
                total=len(full),
                remedy=remedy,
            )
        )
    return mask
