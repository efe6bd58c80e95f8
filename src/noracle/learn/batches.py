"""Items and labels in random order, wherever they lie.

Data that fit lie on the device. Files that are larger than memory (``numpy.memmap``), and arrays
larger than the GPU, are read by blocks; sparse matrices (as text gives) are made dense batch by
batch.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from noracle.errors import ArgumentError, EvidenceError, fault

Items = Any
"""A tensor, a numpy array, a memory-mapped file, or a scipy sparse matrix; one row an item."""

RUN_BYTES = 1 << 20
BLOCK_BYTES = 1 << 28


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Batches:
    """What to train on.

    Parameters
    ----------
    items
        Tensor, array, memory-mapped file or sparse matrix with one row an item.
    labels
        What the objective wants to know of each item: a mask of ruled-out classes, or the items'
        places for ``Consistency``.
    weight
        One number an item, not negative.
    limit
        Bytes up to which items are copied to the device; by default half of what is free on a GPU,
        and 2 GiB of a memory-mapped file. Beyond it they are read by blocks. A tensor that is
        already on the device stays there.
    block
        Items in a block; by default 256 MiB of them. A block is put together from random runs of
        neighbouring items (1 MiB each), so that reading is fast, and items of a block are shuffled.
        A file that is sorted by class mixes well if it has many runs.

    Examples
    --------
    >>> from noracle.learn.losses import label_mask
    >>> data = Batches(items=torch.eye(3).repeat(2, 1), labels=label_mask(torch.tensor([1, 2, 0, 2, 0, 1]), 3))
    >>> len(data)
    6
    """

    items: Items
    labels: Tensor
    weight: Tensor | None = None
    limit: int | None = None
    block: int | None = None

    def __post_init__(self) -> None:
        n = len(self)
        if n == 0:
            raise EvidenceError(fault("items", "must have at least one row", "none"))
        for name, values in (("labels", self.labels), ("weight", self.weight)):
            if values is not None and len(values) != n:
                raise EvidenceError(
                    fault(name, f"must have one row an item ({n})", f"{len(values)} rows")
                )
        if self.weight is not None:
            wrong = (
                (~(torch.isfinite(self.weight) & (self.weight >= 0))).nonzero().flatten().tolist()
            )
            if wrong:
                came = float(self.weight[wrong[0]])
                raise EvidenceError(
                    fault(
                        "weight",
                        "must be finite and not negative",
                        came,
                        where=wrong[:5],
                        total=len(wrong),
                    )
                )
            if not float(self.weight.sum()) > 0:
                raise EvidenceError(fault("weight", "must be positive somewhere", "zeros only"))
        for name, value in (("limit", self.limit), ("block", self.block)):
            if value is not None and value < (name == "block"):
                raise ArgumentError(f"{name} must be positive; got {value}.")

    def __len__(self) -> int:
        return int(self.items.shape[0])

    @property
    def sparse(self) -> bool:
        """Whether the items are a sparse matrix of scipy."""
        return hasattr(self.items, "tocsr")

    def resident(self, device: torch.device) -> bool:
        """Whether the items lie on the device for the whole training."""
        if self.sparse:
            return False
        if isinstance(self.items, Tensor) and self.items.device == device:
            return True
        if device.type == "cpu" and not isinstance(self.items, np.memmap):
            return True
        limit = self.limit
        if limit is None:
            limit = torch.cuda.mem_get_info(device)[0] // 2 if device.type == "cuda" else 1 << 31
        return int(self.items.nbytes) <= limit


@dataclasses.dataclass(frozen=True, slots=True)
class Part:
    """Some items, from which batches are taken."""

    items: Items
    labels: Tensor
    weight: Tensor | None

    def take(self, chosen: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """The items, labels and weights at these places."""
        labels = self.labels[chosen]
        items = (
            self.items[chosen]
            if isinstance(self.items, Tensor)
            else as_tensor(self.items[chosen.cpu().numpy()]).to(labels.device)
        )
        return items, labels, None if self.weight is None else self.weight[chosen]


class Loader:
    """Gives the parts of every epoch; blocks are copied to one and the same place, as CUDA graphs
    need it.
    """

    def __init__(self, data: Batches, device: torch.device, batch_size: int) -> None:
        self.data, self.device = data, device
        whole = data.sparse or data.resident(device)
        self.part: Part | None = None
        if whole:
            items = data.items.tocsr() if data.sparse else as_tensor(data.items).to(device)
            self.part = Part(
                items,
                data.labels.to(device),
                None if data.weight is None else data.weight.to(device),
            )
        each = max(1, int(data.items.nbytes) // len(data)) if not whole else 1
        block = data.block or max(1, BLOCK_BYTES // each)
        self.block = (
            len(data) if whole else min(len(data), math.ceil(block / batch_size) * batch_size)
        )
        self.cuts = cut_evenly(len(data), self.block, batch_size / 2)
        self.run = max(1, min(RUN_BYTES // each, self.block // 16))
        self.room: Part | None = None

    def lengths(self) -> list[int]:
        """Items in each part of an epoch."""
        return [stop - start for start, stop in self.cuts]

    def parts(self, generator: torch.Generator) -> Iterator[tuple[Part, Tensor]]:
        """(part, random order of its items)."""
        if self.part is not None:
            yield self.part, torch.randperm(len(self.data), generator=generator).to(self.device)
            return
        order = random_runs(len(self.data), self.run, generator)
        for start, stop in self.cuts:
            rows = order[start:stop].sort().values
            part = self._fetch(rows)
            yield part, torch.randperm(len(rows), generator=generator).to(self.device)

    def _fetch(self, rows: Tensor) -> Part:
        data = self.data
        items = (
            data.items[rows]
            if isinstance(data.items, Tensor)
            else as_tensor(data.items[rows.numpy()])
        )
        found = [items, data.labels[rows.to(data.labels.device)]]
        if data.weight is not None:
            found.append(data.weight[rows.to(data.weight.device)])
        if self.room is None:
            room = [
                torch.empty((self.block, *t.shape[1:]), dtype=t.dtype, device=self.device)
                for t in found
            ]
            self.room = Part(room[0], room[1], room[2] if len(room) == 3 else None)
        for place, tensor in zip(
            (self.room.items, self.room.labels, self.room.weight), found, strict=False
        ):
            place[: len(rows)].copy_(tensor)
        return self.room


def cut_evenly(n: int, size: int, least: float) -> list[tuple[int, int]]:
    """Where pieces of ``size`` begin and end. If the last had less than ``least``, the last two
    share what they have evenly.

    A batch of a few items would move the weights as far as a whole one, with the noise of those few
    in its gradient and its normalisation.

    Examples
    --------
    >>> cut_evenly(9, 4, 2)
    [(0, 4), (4, 7), (7, 9)]
    >>> cut_evenly(10, 4, 2)
    [(0, 4), (4, 8), (8, 10)]
    """
    ends = [*range(0, n, size), n]
    if len(ends) > 2 and n - ends[-2] < least:
        ends[-2] = (ends[-3] + n + 1) // 2
    return list(itertools.pairwise(ends))


def random_runs(n: int, run: int, generator: torch.Generator) -> Tensor:
    """0 … n - 1 with runs of neighbours in random order.

    Examples
    --------
    >>> random_runs(5, 2, torch.Generator().manual_seed(1)).tolist() in ([0, 1, 4, 2, 3], [4, 0, 1, 2, 3], [2, 3, 4, 0, 1],
    ...     [0, 1, 2, 3, 4], [2, 3, 0, 1, 4], [4, 2, 3, 0, 1])
    True
    """
    starts = torch.randperm(math.ceil(n / run), generator=generator) * run
    rows = (starts.unsqueeze(1) + torch.arange(run)).flatten()
    return rows[rows < n]


def as_model(model: nn.Module, items: Tensor) -> Tensor:
    """Floats in 64 bits where the model is."""
    wide = items.is_floating_point() and any(p.dtype == torch.float64 for p in model.parameters())
    return items.double() if wide else items


def as_tensor(items: Items) -> Tensor:
    """A tensor of these rows; sparse ones become dense, 64-bit floats become 32-bit, read-only
    memory is copied.
    """
    if isinstance(items, Tensor):
        return items.float() if items.dtype == torch.float64 else items
    array = items.toarray() if hasattr(items, "toarray") else np.asarray(items)
    if array.dtype == np.float64:
        array = array.astype(np.float32)
    return torch.from_numpy(
        np.ascontiguousarray(array) if array.flags.writeable else np.array(array)
    )
