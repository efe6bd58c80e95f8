"""What may come in, and what is refused with a reason."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the learn extra is not installed")
pytest.importorskip("sklearn", reason="the learn extra is not installed")

from torch import nn  # noqa: E402

from noracle.errors import ArgumentError, EvidenceError  # noqa: E402
from noracle.learn.classifier import ComplementaryClassifier  # noqa: E402
from noracle.learn.fit import read_labels  # noqa: E402
from noracle.learn.transition import Transition  # noqa: E402

X = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)
Y = [0, 1, 2, 0, 1, 2]


def fit(said=Y, *, items=X, label=None, sample_weight=None, **options):
    return ComplementaryClassifier(epochs=1, **options).fit(
        items, said, label=label, sample_weight=sample_weight
    )


@pytest.mark.parametrize(
    ("said", "classes", "codes"),
    [
        ([2, -1, 5], None, [[0], [-1], [1]]),
        ([2.0, np.nan, 5.0], None, [[0], [-1], [1]]),
        (["b", "", "a"], None, [[1], [-1], [0]]),
        (["b", None, "a"], None, [[1], [-1], [0]]),
        ([True, False, True], None, [[1], [0], [1]]),
        ([[1, 2], [3, -1], [-1, -1]], None, [[0, 1], [2, -1], [-1, -1]]),
        ([["a", "c"], ["b", ""], ["c", "c"]], None, [[0, 2], [1, -1], [2, 2]]),
        ([["a", None], [None, "b"], [None, None]], ["c", "b", "a"], [[0], [1], [-1]]),
        (
            np.array([[True, False, False], [False, True, True], [False, False, False]]),
            [3, 4, 5],
            [[0, -1], [1, 2], [-1, -1]],
        ),
        (np.array([7, 9, 7], dtype=np.uint8), None, [[0], [1], [0]]),
        ([7, None, 9], None, [[0], [-1], [1]]),
    ],
)
def test_labels_come_in_many_forms(said, classes, codes) -> None:
    assert read_labels(said, None, classes=classes, n=3).codes.tolist() == codes


def test_classes_are_sorted_and_found_in_both_kinds_of_label() -> None:
    found = read_labels(["b", "d"], ["", "a"], classes=None, n=2)
    assert found.classes.tolist() == ["a", "b", "d"]
    assert found.known.tolist() == [-1, 0]
    assert read_labels(["b", "d"], None, classes=("d", "z", "b"), n=2).classes.tolist() == [
        "b",
        "d",
        "z",
    ]


@pytest.mark.parametrize(
    ("said", "options", "message"),
    [
        ([1] * 6, {}, "classes must be two or more; got one class, 1"),
        ([-1] * 6, {}, "ruled_out must name a class for at least one item; got none"),
        (
            [-1] * 6,
            {"classes": [0, 1]},
            "ruled_out must name a class for at least one item; got none",
        ),
        ([None] * 6, {}, "ruled_out must name a class for at least one item"),
        (Y[:5], {}, "ruled_out must have one row for each of the 6 items; got 5 rows"),
        (Y, {"label": [0, 1]}, "label must have one row for each of the 6 items; got 2 rows"),
        (Y, {"sample_weight": [1, 2]}, "sample_weight must be one number for each of the 6 items"),
        (
            Y,
            {"sample_weight": [1, 1, 1, 1, 1, -2]},
            "sample_weight must be finite and not negative; got -2.0 at item 5",
        ),
        (Y, {"sample_weight": [0] * 6}, "sample_weight must be positive somewhere"),
        (
            Y,
            {"classes": [0, 1]},
            "ruled_out must be among the classes \\[0, 1\\]; got .*2.* at items 2, 5",
        ),
        (Y, {"classes": ["a", "b"]}, "ruled_out must have names like those of classes"),
        (Y, {"classes": [0, 1, 1, 2]}, "classes must differ"),
        (Y, {"classes": [-1, 0, 1, 2]}, "none of them -1"),
        (
            Y,
            {"label": list("abcabc")},
            "label must have names like those of ruled_out; got text against numbers",
        ),
        ([0, "a", 1, 0, 1, 2], {}, "must be all text or all numbers"),
        ([0.5, 1, 2, 0, 1, 2], {}, "the continuous value 0.5"),
        (np.array([[True, False]] * 6), {}, "classes must be given with a mask"),
        (
            np.array([[True, False]] * 6),
            {"classes": [0, 1, 2]},
            "must be a mask with 6 rows and 3 columns",
        ),
        (
            np.array([[True, False]] * 6),
            {"classes": ["b", "a"]},
            "classes must be sorted with a mask",
        ),
        (np.array([[1, 0, 0]] * 6), {}, "a table of 0 and 1"),
        (
            [[0, 1, 2]] * 6,
            {},
            "must leave a class; got all classes at items 0, 1, 2, 3, 4 and 1 more",
        ),
        ([[0], [1, 2], [0], [1], [2], [0]], {}, "rows of equal length"),
        (
            Y,
            {"transition": np.eye(3), "classes": [2, 1, 0]},
            "classes must be sorted with a transition matrix",
        ),
        (
            Y,
            {"transition": Transition.uniform(4)},
            "transition must have a row for each of the 3 classes",
        ),
        (
            Y,
            {"transition": "unifrom"},
            "transition must be uniform, anchors, estimated, a matrix or a Transition",
        ),
        (Y, {"loss": "scl"}, "loss must be one of"),
        (Y, {"loss_options": {"beta": 1}}, "options of loss scl_nl"),
        (Y, {"recipe": "modern"}, "recipe must be plain or consistency"),
        (Y, {"recipe": "consistency"}, "recipe consistency must have images of uint8"),
        (
            Y,
            {"recipe": "consistency", "loss": "fwd"},
            "loss must be scl_nl with recipe consistency",
        ),
        (Y, {"model": "transformer"}, "model must be linear"),
        (Y, {"model": "resnet18"}, "must have images"),
        (Y, {"model": 3}, "model must be a name, a module or a function"),
        (Y, {"model": nn.Linear(4, 2)}, "model must give 3 logits an item"),
        (Y, {"device": "gpu"}, "device must be auto or a name that torch knows"),
        (Y, {"validation_share": 1.0}, "validation_share must be in \\[0, 1\\)"),
        (Y, {"lr": -1.0}, "lr must be positive"),
        (
            Y,
            {"checkpoint": "c.pt", "random_state": None},
            "random_state must be a number with a checkpoint",
        ),
    ],
)
def test_faults_are_named(said, options, message) -> None:
    with pytest.raises((ArgumentError, EvidenceError), match=message):
        fit(said, **options)


@pytest.mark.parametrize("shape", [(6, 4), (6, 5, 5, 1)])
def test_numbers_that_are_none_are_refused(shape, tmp_path) -> None:
    bad = np.zeros(shape, dtype=np.float64)
    bad[3] = np.nan
    with pytest.raises(ValueError, match="X contains NaN"):
        fit(items=bad)
    np.save(tmp_path / "x.npy", bad)
    with pytest.raises(EvidenceError, match=r"X must be finite in 32 bits; got .* at item 3"):
        fit(items=np.load(tmp_path / "x.npy", mmap_mode="r"))


def test_both_names_of_the_labels_at_once_are_refused() -> None:
    with pytest.raises(ArgumentError, match="must not be given twice"):
        ComplementaryClassifier(epochs=1).fit(X, Y, y=Y)
    with pytest.raises(ArgumentError, match="ruled_out must be given"):
        ComplementaryClassifier(epochs=1).fit(X)


def test_a_memory_map_is_read_by_blocks_and_gives_what_an_array_gives(
    tmp_path, monkeypatch
) -> None:
    rng = np.random.default_rng(1)
    wide, said = rng.normal(size=(300, 4)).astype(np.float32), rng.integers(0, 3, 300)
    said[::7] = -1
    np.save(tmp_path / "x.npy", wide)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    options = {"epochs": 40, "lr": 0.05, "batch_size": 512, "validation_share": 0.2}
    a = ComplementaryClassifier(**options).fit(mapped, said)
    b = ComplementaryClassifier(**options).fit(wide, said)
    assert np.array_equal(a.held_out_, b.held_out_)
    np.testing.assert_allclose(a.predict_proba(wide), b.predict_proba(wide), atol=1e-4)
    np.testing.assert_array_equal(a.predict_proba(mapped), a.predict_proba(wide))
    np.save(tmp_path / "whole.npy", (wide * 10).astype(np.int16))
    whole = np.load(tmp_path / "whole.npy", mmap_mode="r")
    assert ComplementaryClassifier(epochs=1).fit(whole, said).predict(whole).shape == (300,)


def images(n=60, side=8, channels=3, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    shown = rng.integers(0, 60, (n, side, side, channels))
    shown[np.arange(n), :, :, y % channels] += 120
    return shown.astype(np.uint8), y


@pytest.mark.parametrize(
    "model",
    [
        "linear",
        "mlp",
        lambda shape, n: nn.Sequential(nn.Conv2d(shape[0], 4, 3), nn.Flatten(), nn.Linear(144, n)),
    ],
)
@pytest.mark.parametrize("floats", [False, True])
def test_images_of_bytes_and_of_floats_are_learned(model, floats: bool) -> None:
    shown, y = images(200)
    shown = shown / 255 if floats else shown
    said = (y + 1 + np.arange(200) % 2) % 3
    fitted = ComplementaryClassifier(
        model=model, hidden=(20,), epochs=40, batch_size=32, lr=0.01
    ).fit(shown, said)
    assert (fitted.predict(shown) == y).mean() > 0.95
    assert fitted.n_features_in_ == 192
    with pytest.raises(ArgumentError, match="images of the kind that fit saw"):
        fitted.predict(images()[0] if floats else images()[0] / 255)
    with pytest.raises(ArgumentError, match="X must have items of shape"):
        fitted.predict(shown[:, :4])


def test_a_resnet_takes_images_and_the_recipe_of_consistency_takes_its_options() -> None:
    shown, y = images(24)
    said = (y + 1) % 3
    fitted = ComplementaryClassifier(model="resnet18", epochs=1, batch_size=12).fit(shown, said)
    assert fitted.predict_proba(shown).shape == (24, 3)
    options = {"flip": False, "strong": 1, "pad": 1}
    shown, y = images(200)
    said = (y + 1 + np.arange(200) % 2) % 3
    modern = ComplementaryClassifier(
        recipe="consistency", loss_options=options, epochs=20, batch_size=32, lr=0.01, average=0.9
    ).fit(shown, said)
    assert (modern.predict(shown) == y).mean() > 0.9
    with pytest.raises(ArgumentError, match="loss_options of recipe consistency"):
        ComplementaryClassifier(recipe="consistency", loss_options={"beta": 1}).fit(shown, said)


def test_a_module_is_copied_and_not_trained_itself() -> None:
    module = nn.Linear(4, 3)
    before = module.weight.detach().clone()
    fitted = fit(model=module, lr=0.1)
    assert torch.equal(module.weight, before)
    assert not torch.equal(fitted.model_.weight, before)
