"""Augmentation as batched tensor operations, on the device, inside the training step.

Images are uint8 (B, H, W, C) as they lie in memory; what comes out is float (B, C, H, W) in the
channels-last format, normalised.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from noracle.errors import ArgumentError

View = Literal["none", "weak", "strong"]


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
        if len(mean) != len(sd) or not len(mean) or not min(sd) > 0:
            raise ArgumentError(
                f"mean and sd must have one number a channel, sd positive; got {list(mean)} and {list(sd)}."
            )
        if pad < 0:
            raise ArgumentError(f"pad must be at least 0; got {pad}.")
        self.flip, self.pad = flip, pad
        self.register_buffer("mean", torch.tensor(mean, dtype=torch.float32).reshape(-1, 1, 1))
        self.register_buffer("sd", torch.tensor(sd, dtype=torch.float32).reshape(-1, 1, 1))

    @classmethod
    def of(cls, images: Tensor, *, flip: bool = True, pad: int = 4) -> Views:
        """Measured on uint8 images (n, H, W, C)."""
        channels = images.shape[-1]
        sums, squares, n = (
            torch.zeros(channels, dtype=torch.float64),
            torch.zeros(channels, dtype=torch.float64),
            0,
        )
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
        if kind == "strong":
            return _strong(images, 1 / self.sd, -self.mean / self.sd, flip=self.flip, cut=0.5)
        if kind == "weak":
            images = weak_view(images, pad=self.pad, flip=self.flip)
        elif kind != "none":
            raise ArgumentError(f"kind must be none, weak or strong; got {kind!r}.")
        x = torch.sub(images.permute(0, 3, 1, 2), 255 * self.mean).mul_(1 / (255 * self.sd))
        return x.contiguous(memory_format=torch.channels_last)


def weak_view(images: Tensor, *, pad: int = 4, flip: bool = True) -> Tensor:
    """Flip left to right with probability 1/2 and shift by up to ``pad`` pixels; uint8 in, uint8
    out; borders are black.
    """
    b, h, w, _ = images.shape
    device = images.device
    padded = functional.pad(images, (0, 0, pad, pad, pad, pad))
    top = torch.randint(0, 2 * pad + 1, (b, 1), device=device)
    left = torch.randint(0, 2 * pad + 1, (b, 1), device=device)
    rows = top + torch.arange(h, device=device)
    columns = left + torch.arange(w, device=device)
    if flip:
        columns = torch.where(torch.rand(b, 1, device=device) < 0.5, columns.flip(1), columns)
    return padded[
        torch.arange(b, device=device)[:, None, None], rows[:, :, None], columns[:, None, :]
    ]


def strong_view(images: Tensor, *, flip: bool = True, cut: float = 0.5) -> Tensor:
    """Flip, turn, scale, shear and shift; change brightness, contrast and saturation; cut out a
    square. Floats 0 to 1.

    The changes of place are one affine map of coordinates (borders are mirrored). Those of colour
    are one affine map of an image's colours: with brightness b, contrast c about the mean m of the
    image, and saturation s about the grey g of a pixel,

        x ↦ s·b·c·x + (1 - s)·b·c·g + b·(1 - c)·m.
    """
    one = torch.ones(images.shape[3], 1, 1, device=images.device)
    return _strong(images, one, torch.zeros_like(one), flip=flip, cut=cut)


def _strong(images: Tensor, scale: Tensor, shift: Tensor, *, flip: bool, cut: float) -> Tensor:
    """A strong view, times ``scale`` plus ``shift`` of each channel; limits and the colour of the
    hole move along.
    """
    b, h, w, channels = images.shape
    with torch.autocast(images.device.type, enabled=False):
        x = _recolour(images, scale, shift).reshape(b, channels, h, w)
        grid = functional.affine_grid(
            _maps(b, flip, images.device), [b, channels, h, w], align_corners=False
        )
        x = functional.grid_sample(
            x, grid, mode="bilinear", padding_mode="reflection", align_corners=False
        )
        x = torch.clamp(x, shift, scale + shift)
    out = torch.empty_like(x, memory_format=torch.channels_last)
    return torch.where(_holes(b, h, w, cut, images.device), 0.5 * scale + shift, x, out=out)


def _uniform(b: int, low: float, high: float, device: torch.device) -> Tensor:
    return torch.empty(b, device=device).uniform_(low, high)


def _recolour(images: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    """(B, C, H·W) colours; the map of each image is a matrix over the channels and an offset."""
    b, channels, device = len(images), images.shape[3], images.device
    flat = images.flatten(1, 2).transpose(1, 2).float()
    mean = flat.mean(dim=(1, 2)) / 255
    bright, contrast, saturation = _uniform(3 * b, 0.5, 1.5, device).reshape(3, b)
    gain = (bright * contrast / 255)[:, None, None]
    own = torch.eye(channels, device=device) * saturation[:, None, None]
    matrix = gain * (own + (1 - saturation[:, None, None]) / channels) * scale.squeeze(2)
    offset = (bright * (1 - contrast) * mean)[:, None, None] * scale.squeeze(2) + shift.squeeze(2)
    return torch.baddbmm(offset, matrix, flat)


def _maps(b: int, flip: bool, device: torch.device) -> Tensor:
    """(B, 2, 3) maps of coordinates: turned by up to 30°, scaled by 0.8 to 1.2, sheared, shifted,
    perhaps mirrored.
    """
    angle, zoom = _uniform(b, -math.pi / 6, math.pi / 6, device), _uniform(b, 0.8, 1.2, device)
    shear, dx, dy = _uniform(3 * b, -0.3, 0.3, device).reshape(3, b)
    cos, sin = angle.cos() * zoom, angle.sin() * zoom
    side = 1 - 2 * (torch.rand(b, device=device) < 0.5 * flip).float()
    return torch.stack([cos * side, (shear - sin) * side, dx, sin, cos, dy], dim=1).reshape(b, 2, 3)


def _holes(b: int, h: int, w: int, cut: float, device: torch.device) -> Tensor:
    """(B, 1, H, W): where a rectangle of this share of each side is cut out; its centre lies in the
    image.
    """

    def span(length: int) -> Tensor:
        side = int(length * cut)
        first = torch.randint(-(side // 2), length - side // 2, (b, 1), device=device)
        behind = torch.arange(length, device=device) - first
        return (behind >= 0) & (behind < side)

    return (span(h)[:, :, None] & span(w)[:, None, :]).unsqueeze(1)
