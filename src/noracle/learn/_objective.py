"""What a fit minimises and how it is judged: ruled-out classes, and ordinary labels where there are
some.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from noracle.learn.batches import as_model
from noracle.learn.context import Context
from noracle.learn.losses import Loss, cpe_i_loss, scel

EXACT = ("scl_nl", "supervised", "partial_log", "multi_ure")
"""Losses that are the cross-entropy where all classes but one are ruled out."""


class MixedObjective(nn.Module):
    """The loss of the ruled-out classes, and the cross-entropy of items with an ordinary label.

    The labels are a mask (B, K + 1): the ruled-out classes, all but one where the class is known,
    and whether it is known. With weights w (1 by default), A the items of a batch without and B
    those with an ordinary label, and W = Σ_{A∪B} w,

        loss per item:   (Σ_A w·loss_i + Σ_B w·ce_i) / W
        risk:            (Σ_A w)/W·risk(A) + Σ_B w·ce_i / W,     ce_i = -log p_y.

    Where the model gives the chances of the *ruled-out* class (cpe_i), ce_i is what its loss is on
    average if the class is y: -Σ_k T[y, k]·log q_k.
    """

    def __init__(
        self, loss: Loss, context: Context, prepare: Callable[[Tensor], Tensor] | None = None
    ) -> None:
        super().__init__()
        self.loss, self.context, self.prepare = loss, context, prepare

    def forward(
        self, model: nn.Module, items: Tensor, labels: Tensor, weight: Tensor | None
    ) -> Tensor:
        """The loss of a batch."""
        logits = model(as_model(model, items if self.prepare is None else self.prepare(items)))
        mask, known = labels[:, :-1], labels[:, -1]
        alone = mask & ~known.unsqueeze(1)
        with torch.autocast(logits.device.type, enabled=False):
            z = logits.float() if torch.finfo(logits.dtype).bits < 32 else logits
            each = torch.ones_like(z[:, 0]) if weight is None else weight.to(z.dtype)
            total = each.sum()
            total = torch.where(total > 0, total, torch.ones_like(total))
            ordinary = (
                ordinary_loss(z, mask, self.loss, self.context) * known * each
            ).sum() / total
            rest = each * ~known
            if self.loss.per_item:
                losses = self.loss.function(z, alone, self.context, **self.loss.options)
                return (losses * rest).sum() / total + ordinary
            return rest.sum() / total * self.loss(z, alone, self.context, rest) + ordinary


def ordinary_loss(logits: Tensor, mask: Tensor, loss: Loss, context: Context) -> Tensor:
    """Cross-entropy of the one class that is not ruled out; for cpe_i the mean of its loss if that
    is the class.
    """
    target = (~mask).to(logits.dtype)
    if loss.decode == "nearest":
        target = target @ context.current_log_transition().exp().to(logits.dtype)
    return -(target * logits.log_softmax(dim=1)).sum(dim=1)


def held_out_scel(
    logits: Tensor, labels: Tensor, weight: Tensor | None, loss: Loss, context: Context
) -> float:
    """Mean of -log (Tᵀp)_ȳ over items with ruled-out classes and of -log p_y over those with an
    ordinary label (labels as above).
    """
    mask, known = labels[:, :-1], labels[:, -1]
    alone = mask & ~known.unsqueeze(1)
    found = (
        cpe_i_loss(logits, alone, context)
        if loss.decode == "nearest"
        else scel(logits, alone, context)
    )
    found = torch.where(known, ordinary_loss(logits, mask, loss, context), found).double()
    each = torch.ones_like(found) if weight is None else weight.double()
    return float((found * each).sum() / each.sum())


@torch.no_grad()
def row_distances(logits: Tensor, loss: Loss, context: Context) -> Tensor:
    """‖q - T[k]‖₁ for every class k, with q the chances of the ruled-out class: what
    :func:`decode_logits` minimises.
    """
    rows = context.current_log_transition().exp().to(logits)
    q = logits.softmax(dim=1)
    return torch.cdist(q if loss.decode == "nearest" else q @ rows, rows, p=1)


class Marked(nn.Module):
    """An objective with a mark in its state, which checkpoints keep: what it was trained on."""

    mark: Tensor

    def __init__(self, objective: nn.Module, mark: bytes) -> None:
        super().__init__()
        self.objective = objective
        self.register_buffer("mark", torch.frombuffer(bytearray(mark), dtype=torch.uint8).clone())

    def forward(
        self, model: nn.Module, items: Tensor, labels: Tensor, weight: Tensor | None
    ) -> Tensor:
        """The loss of a batch."""
        found: Tensor = self.objective(model, items, labels, weight)
        return found


class ChannelsFirst(nn.Module):
    """Images (B, H, W, C) as models want them, (B, C, H, W); the numbers stay."""

    def forward(self, images: Tensor) -> Tensor:
        """The same images."""
        return images.float().permute(0, 3, 1, 2).contiguous(memory_format=torch.channels_last)


class Floats(nn.Module):
    """Whole numbers as floats."""

    def forward(self, items: Tensor) -> Tensor:
        """The same numbers."""
        return items.float()
