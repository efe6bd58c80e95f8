from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the learn extra is not installed")

from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

from noracle.errors import ArgumentError  # noqa: E402
from noracle.learn import batches as augment  # noqa: E402
from noracle.learn.batches import Views, strong_view, weak_view  # noqa: E402


def images(b: int = 12, h: int = 9, w: int = 7, c: int = 3, seed: int = 0):
    return torch.randint(
        0, 256, (b, h, w, c), dtype=torch.uint8, generator=torch.Generator().manual_seed(seed)
    )


@pytest.fixture
def neutral(monkeypatch):
    """Every draw is the middle of its range: no turn, no zoom, no shift, no change of colour."""
    monkeypatch.setattr(
        augment,
        "_uniform",
        lambda b, low, high, device: torch.full((b,), (low + high) / 2, device=device),
    )


@pytest.mark.parametrize("flip", [True, False])
@pytest.mark.parametrize("pad", [0, 1, 4])
def test_weak_view_is_the_flip_and_crop_of_each_single_image(pad: int, flip: bool) -> None:
    x = images()
    torch.manual_seed(3)
    got = weak_view(x, pad=pad, flip=flip)
    torch.manual_seed(3)
    tops, lefts = torch.randint(0, 2 * pad + 1, (12, 1)), torch.randint(0, 2 * pad + 1, (12, 1))
    mirrored = (torch.rand(12, 1) < 0.5) & flip
    for i in range(12):
        framed = np.zeros((9 + 2 * pad, 7 + 2 * pad, 3), np.uint8)
        framed[pad : pad + 9, pad : pad + 7] = x[i].numpy()
        expected = framed[tops[i] : tops[i] + 9, lefts[i] : lefts[i] + 7]
        np.testing.assert_array_equal(
            got[i].numpy(), expected[:, ::-1] if mirrored[i] else expected
        )
    assert got.dtype == torch.uint8


def test_about_half_of_the_weak_views_are_mirrored() -> None:
    torch.manual_seed(0)
    x = images(1, 5, 5, 1).expand(2000, 5, 5, 1)
    same = (weak_view(x, pad=0) == x).flatten(1).all(dim=1).double().mean().item()
    assert 0.45 < same < 0.55


def test_plain_views_are_normalised_pixels_in_channels_last_format() -> None:
    x = images(200)
    views = Views.of(x)
    out = views(x)
    assert out.is_contiguous(memory_format=torch.channels_last)
    assert out.mean(dim=(0, 2, 3)).abs().max() < 1e-5
    assert (out.var(dim=(0, 2, 3), unbiased=False) - 1).abs().max() < 1e-4
    pixels = x.permute(0, 3, 1, 2).float() / 255
    torch.testing.assert_close(out, (pixels - views.mean) / views.sd)


def test_neutral_strong_view_is_the_image(neutral) -> None:
    x = images(8, 8, 8)
    torch.testing.assert_close(
        strong_view(x, flip=False, cut=0), x.permute(0, 3, 1, 2).float() / 255, atol=1e-5, rtol=0
    )


def test_neutral_strong_view_with_flips_is_the_image_or_its_mirror(neutral) -> None:
    torch.manual_seed(0)
    x = images(40, 8, 8)
    out, plain = strong_view(x, cut=0), x.permute(0, 3, 1, 2).float() / 255
    as_is = (out - plain).abs().flatten(1).amax(dim=1) < 1e-5
    mirrored = (out - plain.flip(3)).abs().flatten(1).amax(dim=1) < 1e-5
    assert (as_is ^ mirrored).all()
    assert 0 < as_is.sum() < 40


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_colours_change_as_brightness_then_contrast_then_saturation(channels: int) -> None:
    x = images(c=channels)
    one = torch.ones(channels, 1, 1)
    torch.manual_seed(5)
    got = augment._recolour(x, one, 0 * one).reshape(12, channels, 9, 7)
    torch.manual_seed(5)
    drawn = torch.empty(36).uniform_(0.5, 1.5).reshape(3, 12)
    for i in range(12):
        image = x[i].permute(2, 0, 1).double() / 255 * drawn[0, i]
        image = (image - image.mean()) * drawn[1, i] + image.mean()
        grey = image.mean(dim=0)
        torch.testing.assert_close(
            got[i].double(), (image - grey) * drawn[2, i] + grey, atol=1e-5, rtol=0
        )


@pytest.mark.parametrize("shape", [(256, 32, 32, 3), (5, 8, 8, 1), (3, 1, 1, 2), (2, 5, 16, 3)])
def test_strong_view_stays_in_the_unit_interval(shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    for x in (
        images(*shape),
        torch.zeros(shape, dtype=torch.uint8),
        torch.full(shape, 255, dtype=torch.uint8),
    ):
        out = strong_view(x)
        assert out.shape == (shape[0], shape[3], shape[1], shape[2])
        assert out.isfinite().all()
        assert out.min() >= 0
        assert out.max() <= 1


def test_strong_views_differ_from_each_other() -> None:
    torch.manual_seed(0)
    x = images(1, 16, 16).expand(50, 16, 16, 3)
    out = strong_view(x).flatten(1)
    assert (torch.cdist(out, out) + 10 * torch.eye(50)).min() > 0.1


def test_the_hole_is_one_rectangle_with_its_centre_in_the_image(neutral) -> None:
    torch.manual_seed(0)
    out = strong_view(torch.zeros(500, 12, 8, 1, dtype=torch.uint8), cut=0.5)[:, 0]
    hole = out == 0.5
    rows, columns = hole.any(dim=2).sum(dim=1), hole.any(dim=1).sum(dim=1)
    assert (hole.sum(dim=(1, 2)) == rows * columns).all()
    assert rows.max() == 6
    assert columns.max() == 4
    assert rows.min() == 3
    assert columns.min() == 2


def test_normalised_strong_view_is_the_strong_view_normalised() -> None:
    x = images(30, 16, 16)
    views = Views.of(x)
    torch.manual_seed(1)
    plain = strong_view(x)
    torch.manual_seed(1)
    out = views(x, "strong")
    torch.testing.assert_close(out, (plain - views.mean) / views.sd, atol=1e-5, rtol=0)
    assert out.is_contiguous(memory_format=torch.channels_last)


def test_mixed_precision_does_not_coarsen_views() -> None:
    x = images(4, 8, 8)
    views = Views.of(x)
    for kind in ("none", "weak", "strong"):
        torch.manual_seed(1)
        exact = views(x, kind)
        torch.manual_seed(1)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert torch.equal(views(x, kind), exact)


def test_a_strong_view_takes_few_passes_over_the_pixels() -> None:
    """A pass is an operation that writes as many numbers as there are pixels."""
    x = images(16, 32, 32)
    passes = []

    class Count(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            if (
                isinstance(out, torch.Tensor)
                and out.numel() >= x.numel()
                and not func.is_view
                and "empty" not in str(func)
            ):
                passes.append(str(func))
            return out

    views = Views.of(x)
    with Count():
        views(x, "strong")
    assert 3 <= len(passes) <= 6, passes


def test_faults_are_named() -> None:
    with pytest.raises(ArgumentError, match="kind must be none, weak, strong or crop; got 'odd'"):
        Views([0.5], [0.5])(images(c=1), "odd")
    with pytest.raises(ArgumentError, match="sd positive"):
        Views([0.5], [0.0])
    with pytest.raises(ArgumentError, match="pad must be at least 0"):
        Views([0.5], [0.5], pad=-1)


def test_a_constant_channel_has_a_positive_deviation() -> None:
    assert Views.of(torch.zeros(3, 2, 2, 1, dtype=torch.uint8)).sd.min() > 0


def test_a_crop_is_a_part_of_the_image_with_other_colours() -> None:
    """A red left half and a blue right half: parts of every share, greys in a fifth, hues turned."""
    images = torch.zeros(2000, 16, 16, 3, dtype=torch.uint8)
    images[:, :, :8, 0], images[:, :, 8:, 2] = 200, 200
    torch.manual_seed(0)
    views = strong_view(images, crop=True)
    assert views.shape == (2000, 3, 16, 16)
    assert views.min() >= 0
    assert views.max() <= 1
    grey = (views - views.mean(dim=1, keepdim=True)).abs().amax(dim=(1, 2, 3)) < 1e-3
    assert 0.16 < grey.float().mean() < 0.25
    edge = (views[:, :, 0, 1:] - views[:, :, 0, :-1]).abs().sum(dim=1)
    seen = edge.amax(dim=1) > 0.05
    assert 0.6 < seen.float().mean() < 0.95  # where it is one half alone there is no edge
    place = edge[seen].argmax(dim=1).float()
    assert place.min() < 2
    assert place.max() > 12
    red = views[:, 0, :, 0].mean(dim=1) > views[:, 2, :, 0].mean(dim=1)
    assert 0.4 < red[seen & ~grey].float().mean() < 0.6  # mirrored or not
    green = views[~grey][:, 1].amax(dim=(1, 2))
    assert green.max() > 0.2  # a turned hue has what neither had


def test_a_crop_keeps_greys_and_takes_any_number_of_channels() -> None:
    images = torch.full((64, 8, 8, 3), 128, dtype=torch.uint8)
    views = strong_view(images, crop=True)
    torch.testing.assert_close(views, views[:, :1].expand(-1, 3, -1, -1), atol=1e-5, rtol=0)
    for channels in (1, 2, 4):
        shown = strong_view(torch.zeros(3, 8, 8, channels, dtype=torch.uint8), crop=True)
        assert shown.shape == (3, channels, 8, 8)
