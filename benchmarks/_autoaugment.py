"""AutoAugment's policy for CIFAR-10 on a whole batch at once, so that it fits into a CUDA graph.

Each image draws one of 25 pairs of operations; each operation of the pair has a chance and a strength from 0 to 9, and the geometric and
the colour ones a random sign. The pairs are those of Cubuk et al. (2019), CVPR; operations and ranges are those
of torchvision, with black borders. Only ``bench_learn_gpu.py --part explain-views`` uses it.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

PAIRS = """
Invert .1 0 Contrast .2 6|Rotate .7 2 TranslateX .3 9|Sharpness .8 1 Sharpness .9 3|ShearY .5 8 TranslateY .7 9
AutoContrast .5 0 Equalize .9 0|ShearY .2 7 Posterize .3 7|Color .4 3 Brightness .6 7|Sharpness .3 9 Brightness .7 9
Equalize .6 0 Equalize .5 0|Contrast .6 7 Sharpness .6 5|Color .7 7 TranslateX .5 8|Equalize .3 0 AutoContrast .4 0
TranslateY .4 3 Sharpness .2 6|Brightness .9 6 Color .2 8|Solarize .5 2 Invert 0 0|Equalize .2 0 AutoContrast .6 0
Equalize .2 0 Equalize .6 0|Color .9 9 Equalize .6 0|AutoContrast .8 0 Solarize .2 8|Brightness .1 3 Color .7 0
Solarize .4 5 AutoContrast .9 0|TranslateY .9 9 TranslateY .7 9|AutoContrast .9 0 Solarize .8 3|Equalize .8 0 Invert .1 0
TranslateY .7 9 AutoContrast .9 0
"""
NAMES = (
    "Nothing", "ShearY", "TranslateX", "TranslateY", "Rotate", "Brightness", "Color", "Contrast", "Sharpness", "Posterize", "Solarize",
    "AutoContrast", "Equalize", "Invert",
)  # fmt: skip


class AutoAugment(nn.Module):
    """uint8 images (B, H, W, 3) in and out."""

    kind: Tensor
    chance: Tensor
    strength: Tensor

    def __init__(self) -> None:
        super().__init__()
        pairs = [pair.split() for line in PAIRS.split("\n") if line for pair in line.split("|")]
        self.register_buffer("kind", torch.tensor([[NAMES.index(pair[0]), NAMES.index(pair[3])] for pair in pairs]))
        self.register_buffer("chance", torch.tensor([[float(pair[1]), float(pair[4])] for pair in pairs]))
        self.register_buffer("strength", torch.tensor([[float(pair[2]), float(pair[5])] for pair in pairs]))

    @torch.no_grad()
    def forward(self, images: Tensor) -> Tensor:
        """One draw for every image."""
        b, device = len(images), images.device
        row = torch.randint(0, len(self.kind), (b,), device=device)
        x = images.permute(0, 3, 1, 2).float()
        for step in (0, 1):
            kind = torch.where(torch.rand(b, device=device) < self.chance[row, step], self.kind[row, step], 0)
            sign = 1 - 2 * torch.randint(0, 2, (b,), device=device).float()
            with torch.autocast(device.type, enabled=False):
                x = apply(x, kind, self.strength[row, step] / 9, sign)
        return x.round().clamp(0, 255).to(torch.uint8).permute(0, 2, 3, 1).contiguous()


def apply(x: Tensor, kind: Tensor, strength: Tensor, sign: Tensor) -> Tensor:
    """Each image's own operation, of its own strength in [0, 1]; x has values 0 to 255."""
    out = geometric(x, kind, strength * sign)
    factor = (1 + 0.9 * strength * sign)[:, None, None, None]
    grey = 0.299 * x[:, :1] + 0.587 * x[:, 1:2] + 0.114 * x[:, 2:]
    for name, other in (
        ("Brightness", torch.zeros_like(x)), ("Color", grey), ("Contrast", grey.mean(dim=(2, 3), keepdim=True)), ("Sharpness", blurred(x)),
    ):  # fmt: skip
        out = torch.where(chosen(kind, name), (other + factor * (x - other)).clamp(0, 255).round(), out)
    step = torch.exp2(torch.round(4 * strength))[:, None, None, None]
    out = torch.where(chosen(kind, "Posterize"), torch.floor(x / step) * step, out)
    out = torch.where(chosen(kind, "Solarize"), torch.where(x >= 255 * (1 - strength)[:, None, None, None], 255 - x, x), out)
    out = torch.where(chosen(kind, "Invert"), 255 - x, out)
    low, high = x.amin(dim=(2, 3), keepdim=True), x.amax(dim=(2, 3), keepdim=True)
    stretched = torch.where(high > low, (x - low) * 255 / (high - low).clamp(min=1), x)
    out = torch.where(chosen(kind, "AutoContrast"), stretched.round(), out)
    return torch.where(chosen(kind, "Equalize"), equalized(x), out)


def chosen(kind: Tensor, name: str) -> Tensor:
    """A mask over the images."""
    return (kind == NAMES.index(name))[:, None, None, None]


def geometric(x: Tensor, kind: Tensor, strength: Tensor) -> Tensor:
    """Shear up to 0.3, shift up to 150/331 of a side, turn up to 30°; nearest pixel, black borders."""

    def of(name: str, largest: float) -> Tensor:
        return torch.where(kind == NAMES.index(name), largest * strength, 0)

    angle, shear = of("Rotate", math.pi / 6), of("ShearY", 0.3)
    dx, dy = of("TranslateX", 2 * 150 / 331), of("TranslateY", 2 * 150 / 331)
    cos, sin = angle.cos(), angle.sin()
    maps = torch.stack([cos, -sin, dx, sin + shear, cos, dy], dim=1).reshape(-1, 2, 3)
    grid = functional.affine_grid(maps, list(x.shape), align_corners=False)
    return functional.grid_sample(x, grid, mode="nearest", padding_mode="zeros", align_corners=False)


def blurred(x: Tensor) -> Tensor:
    """What sharpness is measured from: a 3×3 mean with weight 5 in the middle; the border stays."""
    out = x.clone()
    out[:, :, 1:-1, 1:-1] = ((9 * functional.avg_pool2d(x, 3, stride=1) + 4 * x[:, :, 1:-1, 1:-1]) / 13).round()
    return out


def equalized(x: Tensor) -> Tensor:
    """Each channel with an even histogram, by the rule of PIL."""
    b, channels, h, w = x.shape
    flat = x.reshape(b * channels, h * w).long()
    counts = torch.zeros(b * channels, 256, device=x.device, dtype=torch.long).scatter_add_(1, flat, torch.ones_like(flat))
    last = torch.where(counts > 0, torch.arange(256, device=x.device), -1).amax(dim=1, keepdim=True)
    step = (h * w - counts.gather(1, last)).div(255, rounding_mode="floor")
    before = counts.cumsum(dim=1) - counts
    table = (before + step.div(2, rounding_mode="floor")).div(step.clamp(min=1), rounding_mode="floor").clamp(max=255)
    found: Any = torch.where(step > 0, table.gather(1, flat), flat)
    return found.reshape(b, channels, h, w).float()
