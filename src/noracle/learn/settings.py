"""How to train, and what happened."""

from __future__ import annotations

import dataclasses
import math
from typing import Literal, get_args

from noracle.errors import require

Optimiser = Literal["adam", "sgd"]
Schedule = Literal["constant", "cosine", "one-cycle"]
Precision = Literal["fp32", "bf16", "fp64"]


def require_fields(record: object, *rules: tuple[str, object, str], of: str = "") -> None:
    """Raise for the first field that breaks its rule; each is (name, whether it is kept, rule)."""
    for name, ok, rule in rules:
        require(ok, f"{name}{of} must be {rule}; got {getattr(record, name)!r}.")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How to train; every number is written into checkpoints and reports.

    Parameters
    ----------
    batch_size
        Items a step, of all processes together. Where the last batch would be less than half of it,
        the last two share their items evenly.
    precision
        ``fp32``; ``bf16``: convolutions and products in 16 bits; ``fp64``: the whole model in 64
        bits, slow and exact.
    average
        Decay of the weight average; 0 is none. The average starts with the first step, not with the
        random first weights.
    patience
        Stop after this many epochs without a better validation score, and keep the best weights.
    graph
        Whole steps as CUDA graphs; by default on a GPU.

    Examples
    --------
    >>> settings = Settings(epochs=10, lr=0.1, schedule="cosine")
    >>> [round(settings.rate(done), 3) for done in (0, 0.5, 1)]
    [0.1, 0.05, 0.0]
    """

    epochs: int = 50
    batch_size: int = 256
    lr: float = 1e-3
    weight_decay: float = 0.0
    optimiser: Optimiser = "adam"
    momentum: float = 0.9
    schedule: Schedule = "constant"
    precision: Precision = "fp32"
    average: float = 0.0
    patience: int | None = None
    graph: bool | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        require_fields(
            self,
            ("epochs", self.epochs >= 1, "at least 1"),
            ("batch_size", self.batch_size >= 1, "at least 1"),
            ("lr", 0 < self.lr < math.inf, "positive"),
            ("weight_decay", 0 <= self.weight_decay < math.inf, "at least 0"),
            ("momentum", 0 <= self.momentum < 1, "in [0, 1)"),
            ("average", 0 <= self.average < 1, "in [0, 1)"),
            ("patience", self.patience is None or self.patience >= 1, "at least 1"),
            ("seed", self.seed >= 0, "at least 0"),
            ("optimiser", self.optimiser in get_args(Optimiser), "adam or sgd"),
            ("schedule", self.schedule in get_args(Schedule), "constant, cosine or one-cycle"),
            ("precision", self.precision in get_args(Precision), "fp32, bf16 or fp64"),
        )

    def rate(self, done: float) -> float:
        """Learning rate when this share of the steps is done."""
        if self.schedule == "constant":
            return self.lr
        if self.schedule == "cosine":
            return self.lr * 0.5 * (1 + math.cos(math.pi * done))
        rising = done < 0.3
        share = done / 0.3 if rising else 0.5 * (1 + math.cos(math.pi * (done - 0.3) / 0.7))
        return self.lr * share + 1e-8


@dataclasses.dataclass(slots=True)
class History:
    """One row per epoch: loss, validation score where there is one, learning rate, seconds.

    Examples
    --------
    >>> History([{"loss": 1.2, "seconds": 0.1}, {"loss": 0.7, "seconds": 0.1}]).column("loss")
    [1.2, 0.7]
    """

    rows: list[dict[str, float]] = dataclasses.field(default_factory=list)

    def column(self, name: str) -> list[float]:
        """One number per epoch."""
        return [row[name] for row in self.rows if name in row]
