"""Items and labels in random order, wherever they lie, and views of images on the device."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from noracle.errors import require, require_evidence, require_rows

View = Literal["none", "weak", "strong", "crop"]


class Views(nn.Module):
    """Makes normalised views of uint8 images.

    Parameters
    ----------
    mean, sd
        Of each channel, on the scale 0 to 1; they follow the device.
    flip
        Whether an image and its mirror image mean the same: not so for digits and letters.
    pad
        Pixels by which a weak view is shifted at most.

    Examples
    --------
    >>> images = torch.arange(2 * 4 * 4 * 3, dtype=torch.uint8).reshape(2, 4, 4, 3)
    >>> views = Views.of(images, flip=False)
    >>> tuple(views.mean.shape), views.flip
    ((3, 1, 1), False)
    """

    mean: Tensor
    sd: Tensor

    def __init__(
        self, mean: Sequence[float], sd: Sequence[float], *, flip: bool = True, pad: int = 4
    ) -> None:
        super().__init__()
        ok, came = len(mean) == len(sd) > 0 and min(sd) > 0, f"{list(mean)} and {list(sd)}"
        require(ok, f"mean and sd must have one number a channel, sd positive; got {came}.")
        require(pad >= 0, f"pad must be at least 0; got {pad}.")
        self.flip, self.pad = flip, pad
        self.register_buffer("mean", torch.tensor(mean, dtype=torch.float32).reshape(-1, 1, 1))
        self.register_buffer("sd", torch.tensor(sd, dtype=torch.float32).reshape(-1, 1, 1))

    @classmethod
    def of(cls, images: Tensor, *, flip: bool = True, pad: int = 4) -> Views:
        """Measured on uint8 images (n, H, W, C)."""
        channels = images.shape[-1]
        (sums, squares), n = torch.zeros(2, channels, dtype=torch.float64), 0
        for start in range(0, len(images), 8192):
            flat = images[start : start + 8192].reshape(-1, channels).double().cpu() / 255
            sums += flat.sum(dim=0)
            squares += (flat * flat).sum(dim=0)
            n += len(flat)
        mean = sums / n
        sd = (squares / n - mean * mean).clamp(min=1e-8).sqrt()
        return cls(mean.tolist(), sd.tolist(), flip=flip, pad=pad)

    @torch.no_grad()
    def forward(self, images: Tensor, kind: View = "none") -> Tensor:
        """One view of every image as floats (B, C, H, W)."""
        if kind in ("strong", "crop"):
            how: dict[str, Any] = {"flip": self.flip, "crop": kind == "crop"}
            return strong_view(images, 1 / self.sd, -self.mean / self.sd, **how)
        if kind == "weak":
            images = weak_view(images, pad=self.pad, flip=self.flip)
        else:
            require(kind == "none", f"kind must be none, weak, strong or crop; got {kind!r}.")
        x = torch.sub(images.permute(0, 3, 1, 2), 255 * self.mean).mul_(1 / (255 * self.sd))
        return x.contiguous(memory_format=torch.channels_last)


def weak_view(images: Tensor, *, pad: int = 4, flip: bool = True) -> Tensor:
    """Flip left to right with chance 1/2 and shift by up to ``pad`` pixels; borders are black."""
    b, h, w, _ = images.shape
    device = images.device
    padded = functional.pad(images, (0, 0, pad, pad, pad, pad))
    rows, columns = (
        torch.randint(0, 2 * pad + 1, (b, 1), device=device) + torch.arange(side, device=device)
        for side in (h, w)
    )
    if flip:
        columns = torch.where(torch.rand(b, 1, device=device) < 0.5, columns.flip(1), columns)
    each = torch.arange(b, device=device)[:, None, None]
    return padded[each, rows[:, :, None], columns[:, None, :]]


def strong_view(
    images: Tensor,
    scale: Tensor | None = None,
    shift: Tensor | None = None,
    *,
    flip: bool = True,
    cut: float = 0.5,
    crop: bool = False,
) -> Tensor:
    """Flip, turn, scale, shear and shift; change brightness, contrast and saturation; cut out a
    square. Floats 0 to 1, times ``scale`` plus ``shift`` of each channel.

    With ``crop`` the view is a part of the image, a fifth of its area or more, and nothing is cut
    out of it; one in five is grey, and where there are three channels hues are turned.

    The changes of place are one affine map of coordinates (borders are mirrored). Those of colour
    are one affine map of an image's colours: with brightness b, contrast c about the mean m of the
    image, and saturation s about the grey g of a pixel,

        x ↦ s·b·c·x + (1 - s)·b·c·g + b·(1 - c)·m.
    """
    b, h, w, channels = images.shape
    device = images.device
    scale = torch.ones(channels, 1, 1, device=device) if scale is None else scale
    shift = torch.zeros_like(scale) if shift is None else shift
    with torch.autocast(device.type, enabled=False):
        x = _recolour(images, scale, shift, crop=crop).reshape(b, channels, h, w)
        maps = _crops(b, flip, device) if crop else _maps(b, flip, device)
        grid = functional.affine_grid(maps, [b, channels, h, w], align_corners=False)
        x = functional.grid_sample(x, grid, padding_mode="reflection", align_corners=False)
        x = torch.clamp(x, shift, scale + shift)
    if crop:
        return x.contiguous(memory_format=torch.channels_last)
    out = torch.empty_like(x, memory_format=torch.channels_last)
    return torch.where(_holes(b, h, w, cut, device), 0.5 * scale + shift, x, out=out)


def _uniform(b: int, low: float, high: float, device: torch.device) -> Tensor:
    return torch.empty(b, device=device).uniform_(low, high)


def _recolour(images: Tensor, scale: Tensor, shift: Tensor, *, crop: bool = False) -> Tensor:
    """(B, C, H·W) colours; the map of each image is a matrix over the channels and an offset."""
    b, channels, device = len(images), images.shape[3], images.device
    flat = images.flatten(1, 2).transpose(1, 2).float()
    mean = flat.mean(dim=(1, 2)) / 255
    bright, contrast, saturation = _uniform(3 * b, 0.5, 1.5, device).reshape(3, b)
    gain = (bright * contrast / 255)[:, None, None]
    own = torch.eye(channels, device=device) * saturation[:, None, None]
    if crop:
        saturation = saturation * (torch.rand(b, device=device) < 0.8)
        own = _hues(b, channels, device) * saturation[:, None, None]
    matrix = gain * (own + (1 - saturation[:, None, None]) / channels) * scale.squeeze(2)
    offset = (bright * (1 - contrast) * mean)[:, None, None] * scale.squeeze(2) + shift.squeeze(2)
    return torch.baddbmm(offset, matrix, flat)


def _maps(b: int, flip: bool, device: torch.device) -> Tensor:
    """(B, 2, 3) maps of coordinates."""
    angle, zoom = _uniform(b, -math.pi / 6, math.pi / 6, device), _uniform(b, 0.8, 1.2, device)
    shear, dx, dy = _uniform(3 * b, -0.3, 0.3, device).reshape(3, b)
    cos, sin = angle.cos() * zoom, angle.sin() * zoom
    side = 1 - 2 * (torch.rand(b, device=device) < 0.5 * flip).float()
    return torch.stack([cos * side, (shear - sin) * side, dx, sin, cos, dy], dim=1).reshape(b, 2, 3)


def _crops(b: int, flip: bool, device: torch.device) -> Tensor:
    """(B, 2, 3) maps of coordinates to a part of the image."""
    side, shape = _uniform(b, 0.2, 1, device).sqrt(), _uniform(b, 0.75, 4 / 3, device).sqrt()
    wide, high = (side * shape).clamp(max=1), (side / shape).clamp(max=1)
    dx, dy = _uniform(2 * b, -1, 1, device).reshape(2, b)
    facing = 1 - 2 * (torch.rand(b, device=device) < 0.5 * flip).float()
    none = torch.zeros(b, device=device)
    rows = [wide * facing, none, dx * (1 - wide), none, high, dy * (1 - high)]
    return torch.stack(rows, dim=1).reshape(b, 2, 3)


def _hues(b: int, channels: int, device: torch.device) -> Tensor:
    """(B, C, C) turns of up to 36° about the greys; of three channels only."""
    own = torch.eye(channels, device=device).repeat(b, 1, 1)
    if channels != 3:
        return own
    angle = _uniform(b, -math.pi / 5, math.pi / 5, device)[:, None, None]
    ahead = torch.eye(3, device=device).roll(1, 0)
    across = (ahead - ahead.T) / math.sqrt(3)
    return angle.cos() * own + (1 - angle.cos()) / 3 + angle.sin() * across


def _holes(b: int, h: int, w: int, cut: float, device: torch.device) -> Tensor:
    """(B, 1, H, W)."""

    def span(length: int) -> Tensor:
        side = int(length * cut)
        first = torch.randint(-(side // 2), length - side // 2, (b, 1), device=device)
        behind = torch.arange(length, device=device) - first
        return (behind >= 0) & (behind < side)

    return (span(h)[:, :, None] & span(w)[:, None, :]).unsqueeze(1)


# Items and labels in random order, wherever they lie.

Items = Any
"""A tensor, a numpy array, a memory-mapped file, or a scipy sparse matrix; one row per item."""

RUN_BYTES = 1 << 20
BLOCK_BYTES = 1 << 28


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Batches:
    """What to train on.

    Parameters
    ----------
    items
        Tensor, array, memory-mapped file or sparse matrix with one row per item.
    labels
        What the objective wants to know of each item: a mask of ruled-out classes, or the items'
        places for ``Consistency``.
    weight
        One number per item, not negative.
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
        require_evidence(n, "items", "must have at least one row", "none")
        for name, values in (("labels", self.labels), ("weight", self.weight)):
            rows = n if values is None else len(values)
            rule = f"must have one row per item ({n})"
            require_evidence(rows == n, name, rule, f"{rows} rows")
        if self.weight is not None:
            good = torch.isfinite(self.weight) & (self.weight >= 0)
            first = float(self.weight[good.int().argmin()])
            require_rows(good, "weight", "must be finite and not negative", first)
            ok = float(self.weight.sum()) > 0
            require_evidence(ok, "weight", "must be positive somewhere", "zeros only")
        for name, value, least in (("limit", self.limit, 0), ("block", self.block, 1)):
            require(value is None or value >= least, f"{name} must be positive; got {value}.")

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
class ItemBlock:
    """Some items, from which batches are taken."""

    items: Items
    labels: Tensor
    weight: Tensor | None

    def take(self, chosen: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """The items, labels and weights at these places."""
        labels, tensor = self.labels[chosen], isinstance(self.items, Tensor)
        items = self.items[chosen if tensor else chosen.cpu().numpy()]
        items = items if tensor else as_tensor(items).to(labels.device)
        return items, labels, None if self.weight is None else self.weight[chosen]


class Loader:
    """Gives the parts of every epoch; blocks are copied to one place, as CUDA graphs need it."""

    def __init__(self, data: Batches, device: torch.device, batch_size: int) -> None:
        self.data, self.device = data, device
        whole = data.sparse or data.resident(device)
        self.part: ItemBlock | None = None
        if whole:
            items = data.items.tocsr() if data.sparse else as_tensor(data.items).to(device)
            weight = None if data.weight is None else data.weight.to(device)
            self.part = ItemBlock(items, data.labels.to(device), weight)
        each = max(1, int(data.items.nbytes) // len(data)) if not whole else 1
        block = math.ceil((data.block or max(1, BLOCK_BYTES // each)) / batch_size) * batch_size
        self.block = len(data) if whole else min(len(data), block)
        self.cuts = cut_evenly(len(data), self.block, batch_size / 2)
        self.run = max(1, min(RUN_BYTES // each, self.block // 16))
        self.room: ItemBlock | None = None

    def lengths(self) -> list[int]:
        """Items in each part of an epoch."""
        return [stop - start for start, stop in self.cuts]

    def parts(self, generator: torch.Generator) -> Iterator[tuple[ItemBlock, Tensor]]:
        """(part, random order of its items)."""
        if self.part is not None:
            yield self.part, torch.randperm(len(self.data), generator=generator).to(self.device)
            return
        order = random_runs(len(self.data), self.run, generator)
        for start, stop in self.cuts:
            rows = order[start:stop].sort().values
            part = self._fetch(rows)
            yield part, torch.randperm(len(rows), generator=generator).to(self.device)

    def _fetch(self, rows: Tensor) -> ItemBlock:
        data = self.data
        whole = isinstance(data.items, Tensor)
        found = [data.items[rows] if whole else as_tensor(data.items[rows.numpy()])]
        known = (data.labels,) if data.weight is None else (data.labels, data.weight)
        found += [values[rows.to(values.device)] for values in known]
        if self.room is None:
            room = [t.new_empty((self.block, *t.shape[1:]), device=self.device) for t in found]
            self.room = ItemBlock(room[0], room[1], room[2] if len(room) == 3 else None)
        places = (self.room.items, self.room.labels, self.room.weight)
        for place, tensor in zip(places, found, strict=False):
            place[: len(rows)].copy_(tensor)
        return self.room


def cut_evenly(n: int, size: int, least: float) -> list[tuple[int, int]]:
    """Where pieces of ``size`` begin and end; one of less than ``least`` shares with the one before.

    A batch of a few items would move the weights as far as a whole one, with the noise of those.

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
    """0 … n - 1 with runs of neighbours in random order."""
    starts = torch.randperm(math.ceil(n / run), generator=generator) * run
    rows = (starts.unsqueeze(1) + torch.arange(run)).flatten()
    return rows[rows < n]


def as_model(model: nn.Module, items: Tensor) -> Tensor:
    """Floats in 64 bits where the model is."""
    wide = items.is_floating_point() and any(p.dtype == torch.float64 for p in model.parameters())
    return items.double() if wide else items


def as_tensor(items: Items) -> Tensor:
    """A tensor of these rows: dense, 64-bit floats as 32-bit, read-only memory copied."""
    if isinstance(items, Tensor):
        return items.float() if items.dtype == torch.float64 else items
    array = items.toarray() if hasattr(items, "toarray") else np.asarray(items)
    if array.dtype == np.float64:
        array = array.astype(np.float32)
    own = np.ascontiguousarray(array) if array.flags.writeable else np.array(array)
    return torch.from_numpy(own)
