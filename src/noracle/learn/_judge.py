"""Looks at a model of a study every few epochs: on held-out items and on test items."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from noracle.learn.augment import Views
from noracle.learn.batches import as_tensor
from noracle.learn.loop import all_logits
from noracle.learn.losses import Loss, decode_logits, get_loss, label_mask, scel
from noracle.learn.transition import Transition

if TYPE_CHECKING:
    from noracle.learn.trial import Training, TrialData


class Judge:
    """Points of one trial; see :func:`noracle.learn.trial.run_trial`."""

    def __init__(
        self,
        data: TrialData,
        said: np.ndarray[Any, Any],
        held: np.ndarray[Any, Any],
        loss: Loss,
        transition: Transition,
        training: Training,
        device: torch.device,
    ) -> None:
        self.items, self.test = on_device(data.items, device), on_device(data.test_items, device)
        self.views = Views.of(self.items, flip=training.flip).to(device) if data.images else None
        self.loss, self.every = loss, training.every
        self.context = loss.make_context(transition)
        self.scel_context = get_loss("fwd").make_context(transition)
        self.inverse = torch.from_numpy(transition.inverse()) if transition.strength > 0 else None
        self.held_items = rows_of(self.items, held)
        self.held_truth = torch.from_numpy(data.truth[held].astype(np.int64))
        self.test_truth = torch.from_numpy(data.test_truth.astype(np.int64))
        self.said = torch.from_numpy(said[held].astype(np.int64))
        self.held_mask = label_mask(self.said, data.n_classes)
        self.points: list[dict[str, float]] = []
        self.epoch = 0

    def called(self, epochs: int) -> Callable[[nn.Module], float]:
        """For the training loop: a score every few epochs, NaN between."""

        def validate(model: nn.Module) -> float:
            self.epoch += 1
            if self.epoch % self.every and self.epoch != epochs:
                return math.nan
            self.points.append({"epoch": self.epoch, **self.look(model)})
            return self.points[-1].get("accuracy", math.nan)

        return validate

    def look(self, model: nn.Module) -> dict[str, float]:
        """The model as it is now; what cannot be said (nothing held out, no label, a singular T) is
        left out.
        """
        test = decode_logits(
            all_logits(model, self.test, prepare=self.views), self.loss, self.context
        )
        point = {"test": _percent(test == self.test_truth)}
        if len(self.held_truth):
            held = all_logits(model, self.held_items, prepare=self.views)
            guess = decode_logits(held, self.loss, self.context)
            point["accuracy"] = _percent(guess == self.held_truth)
            known = self.said >= 0
            point["scel"] = -float(
                scel(held, self.held_mask, self.scel_context)[self.held_mask.any(dim=1)]
                .double()
                .mean()
            )
            if self.inverse is not None:
                scores = self.inverse[self.said.clamp(min=0), guess[:, None]]
                point["zero_one"] = 100 * float(scores[known].mean())
        return {name: round(value, 4) for name, value in point.items() if math.isfinite(value)}


def on_device(items: Any, device: torch.device) -> Any:
    """Items as a tensor on the device; sparse ones stay what they are, and become dense batch by
    batch.
    """
    return items.tocsr() if hasattr(items, "tocsr") else as_tensor(items).to(device)


def rows_of(items: Any, rows: np.ndarray[Any, Any]) -> Any:
    """The items at these places."""
    return (
        items[torch.from_numpy(rows).to(items.device)] if isinstance(items, Tensor) else items[rows]
    )


def _percent(hits: Tensor) -> float:
    return 100 * float(hits.double().mean())
