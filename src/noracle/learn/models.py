"""Models: linear, a multi-layer perceptron, and residual networks with both stems."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from noracle.errors import ArgumentError, require

ModelName = Literal["linear", "mlp", "resnet18", "resnet34"]
Stem = Literal["imagenet", "small"]


def make_model(
    name: ModelName,
    *,
    shape: Sequence[int],
    n_outputs: int,
    hidden: Sequence[int] = (500,),
    stem: Stem = "imagenet",
    seed: int | None = None,
) -> nn.Module:
    """A new model for items of this shape: (features,) or (channels, height, width).

    The training loop takes any other ``torch.nn.Module`` that gives logits as well.

    Parameters
    ----------
    hidden
        Sizes of the hidden layers of an mlp.
    stem
        First layer of a resnet; see :class:`ResNet`.
    seed
        Decides the first weights, and leaves the global generator as it was; by default that
        generator decides.

    Examples
    --------
    >>> count_parameters(make_model("mlp", shape=(784,), n_outputs=10))
    397510
    """
    ok, came = shape and min(*shape, n_outputs, *hidden) >= 1, f"{tuple(shape)}, {n_outputs}"
    rule = "shape, n_outputs and hidden must be positive"
    require(ok, f"{rule}; got {came} and {tuple(hidden)}.")
    with torch.random.fork_rng(devices=[], enabled=seed is not None):
        if seed is not None:
            torch.default_generator.manual_seed(seed)
        if name in ("linear", "mlp"):
            return mlp(math.prod(shape), () if name == "linear" else hidden, n_outputs)
        if name in ("resnet18", "resnet34"):
            rule = f"model {name} must have images (channels, height, width)"
            require(len(shape) == 3, f"{rule}; got items of shape {tuple(shape)}.")
            depths = (2, 2, 2, 2) if name == "resnet18" else (3, 4, 6, 3)
            return ResNet(depths, channels=shape[0], n_outputs=n_outputs, stem=stem)
    raise ArgumentError(f"model must be linear, mlp, resnet18 or resnet34; got {name!r}.")


def mlp(n_features: int, hidden: Sequence[int], n_outputs: int) -> nn.Sequential:
    """Layers with ReLU between them; without ``hidden`` a linear model."""
    sizes = [n_features, *hidden]
    layers: list[nn.Module] = [nn.Flatten()]
    for before, after in itertools.pairwise(sizes):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(sizes[-1], n_outputs))


class Block(nn.Module):
    """Two 3×3 convolutions with a shortcut."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(after)
        self.conv2 = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(after)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or before != after:
            fitting = nn.Conv2d(before, after, 1, stride, bias=False)
            self.shortcut = nn.Sequential(fitting, nn.BatchNorm2d(after))

    def forward(self, x: Tensor) -> Tensor:
        """What the block adds to its input, after ReLU."""
        out = functional.relu(self.bn1(self.conv1(x)))
        return functional.relu(self.bn2(self.conv2(out)) + self.shortcut(x))


class ResNet(nn.Module):
    """Residual network of He et al. (2016).

    Stem ``imagenet`` is a 7×7 convolution with stride 2 and a max-pool (an image of 32 pixels
    reaches the blocks with 8); ``small`` is a 3×3 convolution with stride 1 and no pool.
    """

    def __init__(
        self,
        depths: Sequence[int],
        *,
        channels: int,
        n_outputs: int,
        stem: Stem = "imagenet",
        width: int = 64,
    ) -> None:
        super().__init__()
        require(stem in ("imagenet", "small"), f"stem must be imagenet or small; got {stem!r}.")
        large = stem == "imagenet"
        first = nn.Conv2d(channels, width, *((7, 2, 3) if large else (3, 1, 1)), bias=False)
        pool = [nn.MaxPool2d(3, 2, 1)] if large else []
        self.stem = nn.Sequential(first, nn.BatchNorm2d(width), nn.ReLU(), *pool)
        blocks: list[nn.Module] = []
        before = width
        for stage, depth in enumerate(depths):
            after = width * 2**stage
            for i in range(depth):
                blocks.append(Block(before, after, 2 if stage and i == 0 else 1))
                before = after
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(before, n_outputs)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: Tensor) -> Tensor:
        """Logits (B, K) of images (B, C, H, W)."""
        out: Tensor = self.head(self.blocks(self.stem(x)).mean(dim=(2, 3)))
        return out


def count_parameters(model: nn.Module) -> int:
    """Number of trainable numbers."""
    return sum(p.numel() for p in model.parameters() if p.requires_grad)


def channels_last(model: nn.Module) -> nn.Module:
    """Convolutions are fastest in this memory format."""
    return model.to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]
