"""Several processes as one team: torch's own data parallelism, started by ``torchrun``.

    torchrun --nproc-per-node 4 train.py

Every process runs the same program. Each takes its share of every batch, gradients are averaged,
and only the first process writes files. Without ``torchrun``, and where no process group was made,
there is a team of one and nothing here does anything.
"""

from __future__ import annotations

import atexit
import dataclasses
import inspect
import os
from collections.abc import Callable, Iterable
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch import distributed as dist

Value = TypeVar("Value")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Team:
    """The processes that train together, and which of them this is."""

    rank: int = 0
    size: int = 1
    device: torch.device = dataclasses.field(default_factory=lambda: torch.device("cpu"))

    def share_of(self, order: Tensor) -> Tensor:
        """Every ``size``-th place of an order. The rest of the division is left out, so that all
        processes take the same steps.

        Examples
        --------
        >>> Team(rank=1, size=2).share_of(torch.tensor([4, 0, 3, 1, 2])).tolist()
        [0, 1]
        """
        return (
            order
            if self.size == 1
            else order[: len(order) - len(order) % self.size][self.rank :: self.size]
        )

    def sum_(self, tensors: Iterable[Tensor]) -> None:
        """Add up the tensors of all processes, in place."""
        for tensor in tensors if self.size > 1 else ():
            dist.all_reduce(tensor)

    def mean_(self, tensors: Iterable[Tensor]) -> None:
        """Average the tensors of all processes, in place."""
        for tensor in tensors if self.size > 1 else ():
            dist.all_reduce(tensor)
            tensor /= self.size

    def from_first(self, value: Value) -> Value:
        """What the first process has, in all of them."""
        if self.size == 1:
            return value
        box = [value]
        dist.broadcast_object_list(box, src=0, device=self.device)
        return box[0]

    def wait(self) -> None:
        """Go on when all are here."""
        if self.size > 1:
            dist.barrier()


def own_device() -> torch.device:
    """Where this process should compute: its own GPU where there are any, else the processor."""
    return (
        torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        if torch.cuda.is_available()
        else torch.device("cpu")
    )


def join_team(device: torch.device) -> Team:
    """The team of this process. A process group that someone made is used; else ``torchrun`` says
    who belongs to it.

    A group that is made here lasts until the process ends: to make a second one over the same store
    is a race.
    """
    if not dist.is_available():
        return Team()
    if not dist.is_initialized():
        if not (dist.is_torchelastic_launched() and int(os.environ.get("WORLD_SIZE", "1")) > 1):
            return Team()
        if device.type == "cuda":
            torch.cuda.set_device(device)
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
        atexit.register(_leave)
    return Team(rank=dist.get_rank(), size=dist.get_world_size(), device=device)


def _leave() -> None:
    if dist.is_initialized():
        dist.destroy_process_group()


def in_parallel(module: nn.Module, team: Team) -> nn.Module:
    """The module with averaged gradients; weights and state of the first process go to all. State
    is not copied again after that.
    """
    if team.size == 1:
        return module
    for tensor in module.state_dict().values():
        dist.broadcast(tensor, src=0)
    options = inspect.signature(nn.parallel.DistributedDataParallel).parameters
    name = (
        "forward_sync_buffers" if "forward_sync_buffers" in options else "broadcast_buffers"
    )  # torch 2.13 renamed it
    wrap: Callable[..., nn.Module] = nn.parallel.DistributedDataParallel
    return wrap(module, **{name: False})
