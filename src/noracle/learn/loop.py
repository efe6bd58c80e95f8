"""One training loop for every loss and model.

The data lie on the device when they fit, else they are read by blocks. On a GPU a whole step
(gather, augment, forward, loss, backward, optimiser, average) is one CUDA graph. A checkpoint after
every epoch holds everything that decides the rest, so a killed run goes on as if nothing had
happened. Chance comes from the seed, the epoch and the process alone: no state of a generator needs
to be kept, and the caller's generators are left as they were. Under ``torchrun`` the processes
train one model; see distributed.py.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

from noracle.errors import ArgumentError, NoracleError
from noracle.learn.batches import Batches, Items, as_model, as_tensor
from noracle.learn.context import Context
from noracle.learn.distributed import join_team
from noracle.learn.losses import Loss
from noracle.learn.run import Objective, Run, Whole, own_chance
from noracle.learn.settings import History, Settings

__all__ = [
    "Batches",
    "History",
    "Objective",
    "PlainObjective",
    "Settings",
    "all_logits",
    "plain_objective",
    "train",
]


class PlainObjective(nn.Module):
    """The loss of the model's logits, after ``prepare`` made floats (and views) of the raw items;
    trains a T that is a parameter.
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
        shown = items if self.prepare is None else self.prepare(items)
        return self.loss(model(as_model(model, shown)), labels, self.context, weight)


def plain_objective(
    loss: Loss, context: Context, prepare: Callable[[Tensor], Tensor] | None = None
) -> PlainObjective:
    """See :class:`PlainObjective`.

    It is the mean of the loss over a batch, weighted where items have weights; ``prepare`` turns
    items as they lie in memory into what the model takes.

    Examples
    --------
    >>> from noracle.learn.losses import get_loss, label_mask
    >>> from noracle.learn.transition import Transition
    >>> loss, mask = get_loss("scl_nl"), label_mask(torch.tensor([1, 2, 0]), 3)
    >>> isinstance(plain_objective(loss, loss.make_context(Transition.uniform(3), ruled_out=mask)), PlainObjective)
    True
    """
    return PlainObjective(loss, context, prepare)


def train(
    model: nn.Module,
    data: Batches,
    objective: Objective,
    settings: Settings,
    *,
    extra: nn.Module | None = None,
    validate: Callable[[nn.Module], float] | None = None,
    checkpoint: str | Path | None = None,
    progress: Callable[[int, dict[str, float]], None] | None = None,
) -> History:
    """Train in place, where the model lies; returns the history. With ``average`` the model ends
    with the averaged weights.

    On the processor the same seed and number of threads give the same bits.

    Parameters
    ----------
    extra
        A module with further parameters to train or state to keep; needed only if ``objective`` is
        a plain function.
    validate
        Called after every epoch with the model (averaged where asked) in evaluation mode; larger is
        better.
    checkpoint
        A file that is written after every epoch and read at the start where it exists.
    progress
        Called after every epoch with its number and its row of the history.

    Examples
    --------
    >>> from noracle.learn.losses import get_loss, label_mask
    >>> from noracle.learn.transition import Transition
    >>> x = torch.eye(3).repeat(20, 1)
    >>> mask = label_mask((torch.arange(60) + 1 + torch.arange(60) // 30) % 3, 3)
    >>> loss = get_loss("scl_nl")
    >>> model = nn.Linear(3, 3)
    >>> objective = plain_objective(loss, loss.make_context(Transition.uniform(3), ruled_out=mask))
    >>> history = train(model, Batches(items=x, labels=mask), objective, Settings(epochs=20, batch_size=10, lr=0.1))
    >>> model(torch.eye(3)).argmax(dim=1).tolist()
    [0, 1, 2]
    """
    if settings.patience is not None and validate is None:
        raise ArgumentError(
            "patience must come with validate, which says what is better; got no validate."
        )
    device = next((p.device for p in model.parameters() if p.requires_grad), None)
    if device is None:
        raise ArgumentError("model must have parameters to train; got none.")
    whole = Whole(model, objective, extra).to(device)
    if settings.precision == "fp64":
        whole.double()
    team = join_team(device)
    with own_chance(device), contextlib.closing(Run(whole, data, settings, device, team)) as run:
        start = run.load(checkpoint)
        for epoch in range(start, settings.epochs):
            if settings.patience is not None and run.since_best >= settings.patience:
                break
            began = time.perf_counter()
            row = {
                "epoch": epoch + 1.0,
                "loss": run.epoch(epoch),
                "lr": run.rate,
                "seconds": time.perf_counter() - began,
            }
            if not math.isfinite(row["loss"]):
                raise NoracleError(
                    f"loss must stay finite; got {row['loss']} in epoch {epoch + 1}. Lower lr (now {settings.lr})."
                )
            if validate is not None:
                row["score"] = run.score(validate)
            run.history.rows.append(row)
            run.save(checkpoint, epoch + 1)
            if progress is not None and team.rank == 0:
                progress(epoch + 1, row)
        run.finish()
        team.wait()
    return run.history


@torch.no_grad()
def all_logits(
    model: nn.Module,
    items: Items,
    *,
    prepare: Callable[[Tensor], Tensor] | None = None,
    batch_size: int = 2048,
) -> Tensor:
    """Logits of all items, in evaluation mode, on the host."""
    device = next(model.parameters()).device
    was_training = model.training
    model.eval()
    parts = []
    for start in range(0, max(1, items.shape[0]), batch_size):
        x = as_tensor(items[start : start + batch_size]).to(device)
        parts.append(model(as_model(model, x if prepare is None else prepare(x))).cpu())
    model.train(was_training)
    found = torch.cat(parts)
    return found if found.dtype == torch.float64 else found.float()
