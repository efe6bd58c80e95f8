from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="the learn extra is not installed")

from noracle.errors import ArgumentError  # noqa: E402
from noracle.learn.models import channels_last, count_parameters, make_model, mlp  # noqa: E402


@pytest.mark.parametrize(("name", "expected"), [("resnet18", 11_689_512), ("resnet34", 21_797_672)])
def test_resnets_have_as_many_parameters_as_those_of_torchvision(name: str, expected: int) -> None:
    """Published with the weights of torchvision: 1,000 outputs, images of 3 channels."""
    assert count_parameters(make_model(name, shape=(3, 224, 224), n_outputs=1000)) == expected


@pytest.mark.parametrize(("stem", "side"), [("imagenet", 1), ("small", 4)])
def test_both_stems_run_and_differ_in_resolution(stem: str, side: int) -> None:
    model = make_model("resnet18", shape=(3, 32, 32), n_outputs=7, stem=stem).eval()
    x = torch.rand(2, 3, 32, 32)
    assert model.blocks(model.stem(x)).shape == (2, 512, side, side)
    assert model(x).shape == (2, 7)


@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 64, 64), (4, 33, 17)])
def test_resnets_take_any_channels_and_size(shape: tuple[int, ...]) -> None:
    for stem in ("imagenet", "small"):
        model = channels_last(make_model("resnet18", shape=shape, n_outputs=3, stem=stem))
        assert model(torch.rand(2, *shape)).isfinite().all()


def test_linear_and_mlp_flatten_their_items() -> None:
    assert count_parameters(make_model("linear", shape=(3, 4, 4), n_outputs=5)) == 48 * 5 + 5
    assert make_model("mlp", shape=(3, 4, 4), n_outputs=5, hidden=(8, 6))(
        torch.rand(2, 3, 4, 4)
    ).shape == (2, 5)
    assert [type(m).__name__ for m in mlp(4, (3, 2), 5)] == [
        "Flatten",
        "Linear",
        "ReLU",
        "Linear",
        "ReLU",
        "Linear",
    ]


def test_a_seed_decides_the_first_weights_and_nothing_else() -> None:
    before = torch.get_rng_state()
    one, two, other = (
        make_model("mlp", shape=(4,), n_outputs=2, seed=seed).state_dict() for seed in (1, 1, 2)
    )
    assert torch.equal(before, torch.get_rng_state())
    assert all(torch.equal(one[k], two[k]) for k in one)
    assert not torch.equal(one["1.weight"], other["1.weight"])


def test_faults_are_named() -> None:
    with pytest.raises(
        ArgumentError, match="model must be linear, mlp, resnet18 or resnet34; got 'vit'"
    ):
        make_model("vit", shape=(4,), n_outputs=2)
    with pytest.raises(ArgumentError, match="must have images"):
        make_model("resnet18", shape=(4,), n_outputs=2)
    with pytest.raises(ArgumentError, match="stem must be imagenet or small; got 'big'"):
        make_model("resnet18", shape=(3, 8, 8), n_outputs=2, stem="big")
    with pytest.raises(ArgumentError, match="must be positive"):
        make_model("mlp", shape=(4,), n_outputs=0)
