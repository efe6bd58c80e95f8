from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the learn extra is not installed")

from torch import nn  # noqa: E402

from noracle.errors import ArgumentError, EvidenceError  # noqa: E402
from noracle.learn.batches import Views  # noqa: E402
from noracle.learn.consistency import Consistency  # noqa: E402
from noracle.learn.labels import draw_ruled_out  # noqa: E402
from noracle.learn.loop import Batches, Settings, all_logits, plain_objective, train  # noqa: E402
from noracle.learn.losses import get_loss, label_mask  # noqa: E402
from noracle.learn.transition import Transition  # noqa: E402

K, N = 4, 20


class Fixed(nn.Module):
    """The same logits whatever is shown."""

    def __init__(self, *logits: float) -> None:
        super().__init__()
        self.logits = nn.Parameter(torch.tensor(logits))

    def forward(self, x):
        return self.logits.expand(len(x), -1)


@pytest.fixture
def images():
    return torch.randint(
        0, 256, (N, 8, 8, 1), dtype=torch.uint8, generator=torch.Generator().manual_seed(0)
    )


def recipe_of(images, mask=None, **options) -> Consistency:
    mask = label_mask(torch.arange(N) % K, K) if mask is None else mask
    return Consistency(mask, Views.of(images), **options)


def test_targets_live_on_the_classes_that_remain_and_only_those_of_the_batch_move(images) -> None:
    recipe = recipe_of(images)
    start = recipe.target.clone()
    assert torch.equal(start, (~recipe.ruled_out).float() / 3)
    places = torch.tensor([1, 5, 7])
    recipe(Fixed(0.0, 1.0, 2.0, 3.0), images[places], places, None)
    changed = (recipe.target != start).any(dim=1).nonzero().flatten()
    assert torch.equal(changed, places)
    assert recipe.target[recipe.ruled_out].max() == 0
    torch.testing.assert_close(recipe.target.sum(dim=1), torch.ones(N))


@pytest.mark.parametrize("views", ["weak", "all"])
def test_the_loss_is_the_formula(images, views: str) -> None:
    """λ = 0.5·weight at half of the rise; targets are those before the step."""
    mask = label_mask(torch.tensor([[0, 1], [2, -1], [-1, -1]] + [[3, -1]] * (N - 3)), K)
    recipe = recipe_of(images, mask, weight=2.0, delay=2, ramp=4, label_views=views)
    recipe.step.fill_(3)
    p = torch.tensor([0.1, 0.2, 0.3, 0.4], dtype=torch.float64)
    got = recipe(Fixed(*p.log().tolist()), images[:3], torch.arange(3), None).item()
    excluded = [-np.log(0.7) * 3 / 2, -np.log(0.7) * 3, 0.0]
    logs = p.log().numpy()
    agreed = [-logs[[2, 3]].mean(), -logs[[0, 1, 3]].mean(), -logs.mean()]
    assert got == pytest.approx(np.mean(excluded) + 1.0 * np.mean(agreed), rel=1e-5)
    assert recipe.step == 4


def test_weights_count(images) -> None:
    mask = label_mask(torch.tensor([0, 1] + [2] * (N - 2)), K)
    model, places = Fixed(0.0, 1.0, 2.0, 3.0), torch.arange(2)
    loss = [
        recipe_of(images, mask)(model, images[i : i + 1], places[i : i + 1], None).item()
        for i in range(2)
    ]
    both = recipe_of(images, mask)(model, images[:2], places, torch.tensor([3.0, 1.0])).item()
    assert both == pytest.approx((3 * loss[0] + loss[1]) / 4, rel=1e-5)
    assert recipe_of(images, mask)(model, images[:2], places, torch.zeros(2)).item() == 0


def test_target_term_waits_and_then_rises(images) -> None:
    recipe = recipe_of(images, weight=1.5, delay=3, ramp=2)
    shares = [
        recipe._move(torch.arange(1), torch.zeros(1, K), torch.zeros(1, K)).item() for _ in range(7)
    ]
    assert shares == [0, 0, 0, 0.75, 1.5, 1.5, 1.5]


def test_a_class_that_takes_all_predictions_loses_the_targets(images) -> None:
    """Predictions of 97 % for one class everywhere say nothing about an item: targets become even
    again.
    """
    recipe, model = recipe_of(images), Fixed(5.0, 0.0, 0.0, 0.0)
    places = torch.arange(N)
    recipe(model, images, places, None)
    first = recipe.target[1, 0].item()
    log_p = model(images).log_softmax(dim=1).detach()
    for _ in range(1200):
        taught = torch.zeros(N, K).masked_fill(recipe.ruled_out, -torch.inf)
        recipe._move(places, log_p, taught)
    assert first > 0.9
    torch.testing.assert_close(recipe.target, (~recipe.ruled_out).float() / 3, atol=0.01, rtol=0)


def test_a_given_prior_is_what_even_predictions_become(images) -> None:
    prior = torch.tensor([4.0, 3.0, 2.0, 1.0])
    recipe = recipe_of(images, torch.zeros(N, K, dtype=torch.bool), prior=prior)
    recipe(Fixed(0.0, 0.0, 0.0, 0.0), images, torch.arange(N), None)
    torch.testing.assert_close(recipe.target[0], prior / 10)


@pytest.mark.parametrize(
    "logits", [(200.0, -200.0, 0.0, 0.0), (0.0, 0.0, 0.0, -1e4), (-80.0, 80.0, 80.0, 0.0)]
)
def test_extreme_predictions_stay_finite(images, logits: tuple[float, ...]) -> None:
    recipe, model = recipe_of(images, delay=0, ramp=1), Fixed(*logits)
    recipe.seen.copy_(torch.tensor([1.0, 0.0, 0.0, 0.0]))
    for _ in range(3):
        loss = recipe(model, images, torch.arange(N), None)
        loss.backward()
        assert loss.isfinite()
    assert model.logits.grad.isfinite().all()
    assert recipe.target.isfinite().all()


def test_without_strong_views_one_view_is_enough(images) -> None:
    seen = []

    class Count(Fixed):
        def forward(self, x):
            seen.append(len(x))
            return super().forward(x)

    for strong in (0, 1, 2, 3):
        recipe_of(images, strong=strong)(Count(0.0, 1.0, 2.0, 3.0), images, torch.arange(N), None)
    assert seen == [N, 2 * N, 3 * N, 4 * N]


class Brightness(nn.Module):
    """Logits that depend on the view alone: the weak view comes first."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.others = nn.Parameter(torch.zeros(K)), nn.Parameter(torch.zeros(K))

    def forward(self, x):
        return torch.cat([self.first.expand(N, -1), self.others.expand(len(x) - N, -1)])


@pytest.mark.parametrize(("views", "taught"), [("weak", False), ("all", True)])
def test_ruled_out_classes_teach_the_views_that_are_asked_for(
    images, views: str, taught: bool
) -> None:
    mask, model = label_mask(torch.zeros(N, dtype=torch.long), K), Brightness()
    recipe_of(images, mask, label_views=views, delay=5)(
        model, images, torch.arange(N), None
    ).backward()
    assert model.first.grad[0] > 0.1
    assert (model.others.grad[0] > 0.1) == taught


def test_targets_are_the_prediction_of_the_weak_view(images) -> None:
    model, recipe = Brightness(), recipe_of(images, torch.zeros(N, K, dtype=torch.bool))
    with torch.no_grad():
        model.first.copy_(torch.tensor([0.0, 0.0, 0.0, 1.0]))
        model.others.copy_(torch.tensor([9.0, 0.0, 0.0, 0.0]))
    recipe(model, images, torch.arange(N), None)
    expected = (model.first.log_softmax(dim=0) - recipe.seen.log()).softmax(dim=0).detach()
    torch.testing.assert_close(recipe.target[0], expected)
    assert recipe.target[0].argmax() == 3


def test_faults_are_named(images) -> None:
    with pytest.raises(ArgumentError, match="label_views must be weak or all; got 'strong'"):
        recipe_of(images, label_views="strong")
    with pytest.raises(ArgumentError, match="ramp must be at least 1; got 0"):
        recipe_of(images, ramp=0)
    with pytest.raises(ArgumentError, match="strong must be at least 0"):
        recipe_of(images, strong=-1)
    with pytest.raises(ArgumentError, match="prior must be 4 non-negative shares"):
        recipe_of(images, prior=torch.tensor([1.0, -1.0, 0.0, 0.0]))
    mask = label_mask(torch.arange(N) % K, K)
    mask[2] = True
    with pytest.raises(
        EvidenceError, match="ruled_out must leave a class; got all classes at item 2"
    ):
        recipe_of(images, mask)


def network() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3, padding=1, stride=2),
        nn.BatchNorm2d(64),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(1024, 10),
    )


@pytest.mark.slow
def test_the_recipe_does_not_collapse_and_beats_scl_nl_on_digits() -> None:
    """1,300 images of 8×8 pixels, one uniform label each, 45 epochs, mean of three seeds; both with
    the same network and schedule.
    """
    digits = pytest.importorskip(
        "sklearn.datasets", reason="scikit-learn is not installed"
    ).load_digits()
    x, y = (
        torch.tensor((digits.images * 255 / 16).round().astype(np.uint8))[..., None],
        digits.target,
    )
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    right: dict[str, list[float]] = {"scl_nl": [], "recipe": []}
    for seed in (10, 11, 12):
        rng = np.random.default_rng(seed)
        order = rng.permutation(len(y))
        chosen, held_out = order[:1300], order[1300:]
        mask = label_mask(torch.tensor(draw_ruled_out(y[chosen], n_classes=10, rng=rng)), 10)
        views = Views.of(x[chosen], flip=False, pad=1)
        settings = Settings(
            epochs=45, batch_size=64, lr=2e-3, schedule="one-cycle", average=0.99, seed=seed
        )
        loss = get_loss("scl_nl")
        plain = plain_objective(
            loss, loss.make_context(Transition.uniform(10), ruled_out=mask), views
        )
        recipe = Consistency(mask, views, delay=150, ramp=450)
        for name, objective, labels in (
            ("scl_nl", plain, mask),
            ("recipe", recipe, torch.arange(1300)),
        ):
            torch.manual_seed(seed)
            model = network()
            train(model, Batches(items=x[chosen], labels=labels), objective, settings)
            said = all_logits(model, x[held_out], prepare=views).argmax(dim=1).numpy()
            right[name].append(float((said == y[held_out]).mean()))
        assert recipe.seen.min() > 0.03
    torch.set_num_threads(threads)
    assert np.mean(right["recipe"]) > 0.93, right
    assert np.mean(right["recipe"]) > np.mean(right["scl_nl"]) + 0.05, right
