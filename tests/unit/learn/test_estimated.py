"""Labels that are wrong and biased: the consistency recipe with a T that is given or estimated."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the learn extra is not installed")

from torch import nn  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

from noracle.errors import ArgumentError, EvidenceError  # noqa: E402
from noracle.learn.batches import Batches, ItemBlock, Views  # noqa: E402
from noracle.learn.consistency import (  # noqa: E402
    ALIKE,
    EVEN,
    Consistency,
    Contrast,
    Neighbours,
    Recipe,
    evidence,
    neighbours,
    start_of,
)
from noracle.learn.labels import draw_ruled_out  # noqa: E402
from noracle.learn.loop import ModelWithObjective, Run, Settings, Team, train  # noqa: E402
from noracle.learn.losses import label_mask  # noqa: E402
from noracle.learn.transition import Transition, likeliest_transition  # noqa: E402

K, N = 4, 24
BIASED = torch.tensor(
    [
        [0.10, 0.60, 0.20, 0.10],
        [0.30, 0.05, 0.15, 0.50],
        [0.40, 0.35, 0.10, 0.15],
        [0.2, 0.2, 0.55, 0.05],
    ]
)


@pytest.fixture
def quick(monkeypatch):
    """The last layer is not trained to the end."""
    monkeypatch.setattr("noracle.learn.consistency.STEPS", 40)


@pytest.fixture
def images():
    chance = torch.Generator().manual_seed(0)
    return torch.randint(0, 256, (N, 8, 8, 1), dtype=torch.uint8, generator=chance)


def network(seed: int = 0) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, K))


def recipe_of(images, mask=None, **options) -> Consistency:
    mask = label_mask(torch.arange(N) % K, K) if mask is None else mask
    return Consistency(mask, Views.of(images), **{"delay": 0, "ramp": 1, **options})


class AsItWas(Consistency):
    """The recipe before it knew T: targets and loss on the classes that remain."""

    def forward(self, model, items, places, weight):
        shown = self.views(items, "weak")
        shown = torch.cat([shown, self.views(items.repeat(self.strong, 1, 1, 1), "strong")])
        log_p = model(shown).log_softmax(dim=1).reshape(1 + self.strong, len(items), -1)
        mask = self.ruled_out[places]
        left = log_p[: self.labelled].masked_fill(mask, -torch.inf)
        factor = (mask.shape[1] - 1) / mask.sum(dim=1).clamp(min=1)
        excluded = -left.logsumexp(dim=2) * factor
        agreed = -(self.target[places] * log_p).sum(dim=2)
        self.step += 1
        self.seen.lerp_(log_p[0].detach().exp().mean(dim=0), 0.01)
        self.target[places] = self._fair(left[0].detach()).softmax(dim=1)
        share = self.weight * ((self.step - self.delay) / self.ramp).clamp(0, 1)
        return (excluded.mean(dim=0) + share * agreed.mean(dim=0)).mean()


@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize("n_labels", [1, 3])
def test_without_noise_uniform_labels_are_the_hard_mask_bit_for_bit(
    images, given, n_labels
) -> None:
    said = torch.stack([(torch.arange(N) + i) % K for i in range(n_labels)], dim=1)
    T = torch.tensor(Transition.uniform(K).matrix) if given else None
    found = {}
    for made in (Consistency, AsItWas):
        steps = {"delay": 2, "ramp": 3}
        recipe = made(label_mask(said, K), Views.of(images), **steps, transition=T)
        model = network()
        data = Batches(items=images, labels=torch.arange(N))
        train(model, data, recipe, Settings(epochs=4, batch_size=8, lr=0.01))
        found[made] = [p.detach() for p in model.parameters()], recipe.target
    assert all(map(torch.equal, found[Consistency][0], found[AsItWas][0]))
    assert torch.equal(found[Consistency][1], found[AsItWas][1])


def test_noise_that_vanishes_ends_in_the_hard_mask() -> None:
    mask = label_mask(torch.arange(K), K)
    hard = evidence(mask, torch.tensor(Transition.uniform(K).matrix)).softmax(dim=1)
    for noise in (1e-2, 1e-4, 1e-6):
        T = torch.tensor(Transition.noisy(K, noise).matrix)
        soft = evidence(mask, T).softmax(dim=1)
        assert (soft - hard).abs().max() <= 2 * noise


HELD = torch.tensor([0.1, 0.2, 0.3, 0.4])


def constant(p: torch.Tensor = HELD) -> nn.Module:
    """Says these chances of everything."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, K))
    with torch.no_grad():
        model[1].weight.zero_()
        model[1].bias.copy_(p.log())
    return model


def test_the_mask_leaves_out_what_the_model_holds_wrong(images) -> None:
    """-log of what is left, and targets ∝ p there. Of "not 3" 0.4·T[3, 3] is most: it is wrong."""
    said = torch.tensor([[0, 1], [2, -1], [-1, -1], [3, -1]] + [[0, -1]] * (N - 4))
    T = torch.tensor(
        [[0.1, 0.8, 0.1, 0.0], [0.8, 0.0, 0.15, 0.05], [0.5, 0.4, 0.0, 0.1], [0.3] * 4]
    )
    T = T / T.sum(dim=1, keepdim=True)
    recipe = recipe_of(images, label_mask(said, K), transition=T, strong=0, delay=9)
    got = recipe(constant(), images[:4], torch.arange(4), None).item()
    left = torch.tensor([[0, 0, 1, 1], [1, 1, 0, 1], [1, 1, 1, 1], [0, 1, 1, 1.0]])  # T[0, 3] is 0
    losses = -(HELD * left).sum(dim=1).log() * torch.tensor([3 / 2, 3.0, 3.0, 3.0])
    assert got == pytest.approx(losses.mean().item(), rel=1e-5)
    expected = HELD * left / recipe.seen
    torch.testing.assert_close(recipe.target[:4], expected / expected.sum(dim=1, keepdim=True))


def test_labels_never_rule_out_all_classes(images) -> None:
    """What three labels leave cannot be by T, which does not say which of them is wrong."""
    said, T = torch.arange(K - 1).repeat(N, 1), torch.full((K, K), 1 / K)
    T[3] = torch.tensor([0, 0.4, 0.3, 0.3])
    recipe = recipe_of(images, label_mask(said, K), transition=T)
    assert recipe(network(), images, torch.arange(N), None).isfinite()
    assert recipe.target.isfinite().all()


def objective_of(how: str, images, model: nn.Module) -> nn.Module:
    views, mask = Views.of(images), label_mask(torch.arange(N) % K, K)
    with torch.random.fork_rng():
        torch.manual_seed(4)
        if how == "contrast":
            return Contrast(model, views)
        if how == "posteriors":
            start = evidence(mask, BIASED).log_softmax(dim=1)
            return recipe_of(images, 0 * mask.int(), start=start, fixed=True, strong=1)
        return recipe_of(images, mask, transition=BIASED)


@pytest.mark.parametrize("how", ["mask", "posteriors", "contrast"])
def test_gradient_is_that_of_differences(images, how: str) -> None:
    model = network()
    first = model[1].weight

    def loss(change: float) -> torch.Tensor:
        objective = objective_of(how, images, model)
        if how == "mask":
            objective.step.fill_(5)
        with torch.no_grad():
            first[3, 7] += change
        torch.manual_seed(2)
        found = objective(model, images, torch.arange(N), None)
        with torch.no_grad():
            first[3, 7] -= change
        return found

    loss(0.0).backward()
    slope = (loss(1e-2) - loss(-1e-2)).item() / 2e-2
    assert first.grad[3, 7].item() == pytest.approx(slope, rel=0.02, abs=2e-4)


def test_fixed_targets_are_cross_entropy_and_stay(images) -> None:
    start = evidence(label_mask(torch.arange(N) % K, K), BIASED).log_softmax(dim=1)
    options = {"start": start, "fixed": True, "weight": 1.0, "strong": 2}
    recipe = recipe_of(images, torch.zeros(N, K), **options)
    got = recipe(constant(), images[:5], torch.arange(5), None).item()
    assert got == pytest.approx(-(start[:5].exp() @ HELD.log()).mean().item(), rel=1e-5)
    torch.testing.assert_close(recipe.target, start.exp())


def test_contrast_is_the_formula(images) -> None:
    class Fixed(Views):
        def forward(self, given, kind="none"):
            assert kind == "crop"
            self.times = getattr(self, "times", 0) + 1
            return given.permute(0, 3, 1, 2).float() / 255 + 0.1 * self.times

    model, views = network(), Fixed([0.5], [0.5])
    objective = Contrast(model, views, temperature=0.5)
    got = objective(model, images[:6], torch.arange(6), None).item()
    x = torch.cat([images[:6].permute(0, 3, 1, 2).float() / 255 + 0.1 * t for t in (1, 2)])
    with torch.no_grad():
        z = objective.head(model[:3](x))
    z = z / z.norm(dim=1, keepdim=True)
    losses = []
    for i in range(12):
        others = sum(float((z[i] @ z[k] / 0.5).exp()) for k in range(12) if k != i)
        losses.append(np.log(others) - float(z[i] @ z[(i + 6) % 12]) / 0.5)
    assert got == pytest.approx(np.mean(losses), rel=1e-4)


def test_neighbours_are_the_formula() -> None:
    """Labels by the layer's chances around an item, not those of the item itself."""
    torch.manual_seed(0)
    features, head = torch.randn(N, 5), nn.Linear(5, K)
    counts = torch.randint(0, 3, (N, K)).float()
    objective = Neighbours(head, features, counts, transition=BIASED, ramp=4)
    assert objective.near.shape == (N, 20)
    objective.near = objective.near[:, :1]  # the nearest is the one that is drawn
    objective.step.fill_(1)
    places = torch.tensor([3, 8, 1])
    got = objective(head, features[places], places, None).item()
    unit = features / features.norm(dim=1, keepdim=True)
    order = (unit @ unit.T - 9 * torch.eye(N)).argsort(dim=1, descending=True)
    with torch.no_grad():
        p = head(features).softmax(dim=1)
        around = head(features[order[:, :20]].mean(dim=1)).softmax(dim=1)
    L = (counts.unsqueeze(1) * BIASED.log()).sum(dim=2).exp()
    L = L / L.amax(dim=1, keepdim=True)
    labels = -(around * L).sum(dim=1).log()[places]
    alike = -(p[places] * p[order[places, 0]]).sum(dim=1).log()
    m = p[places].mean(dim=0)
    uneven = (m * (m * K).log()).sum()
    expected = labels.mean() + 0.5 * ALIKE * alike.mean() + 0.5 * EVEN * uneven
    assert got == pytest.approx(expected.item(), rel=1e-4)


@pytest.mark.parametrize("n", [1, 2, 5, 2100])
def test_neighbours_of_few_and_many(n: int) -> None:
    features = torch.randn(n, 3, generator=torch.Generator().manual_seed(1))
    near = neighbours(features)
    assert near.shape == (n, max(1, min(20, n - 1)))
    if n > 1:
        assert (near != torch.arange(n).unsqueeze(1)).all()


def test_among_many_items_some_are_looked_at(monkeypatch) -> None:
    monkeypatch.setattr("noracle.learn.consistency.AMONG", 30)
    near = neighbours(torch.randn(100, 3, generator=torch.Generator().manual_seed(1)))
    assert near.shape == (100, 20)
    assert len(near.unique()) <= 30


def test_items_without_labels_teach_nothing() -> None:
    torch.manual_seed(0)
    features, counts = torch.randn(N, 5), torch.zeros(N, K)
    head = nn.Linear(5, K)
    objective = Neighbours(head, features, counts, ramp=10**9)
    loss = objective(head, features, torch.arange(N), None)
    assert loss.item() == pytest.approx(0, abs=1e-6)
    objective.after_epoch(Team())
    torch.testing.assert_close(objective.transition, objective.start)


def worlds(n: int, T: torch.Tensor):
    rng = np.random.default_rng(0)
    y = rng.integers(0, K, n)
    levels = torch.linspace(0, 1, K)[torch.from_numpy(y)]
    items = (255 * levels)[:, None, None, None].expand(n, 8, 8, 1).round().to(torch.uint8).clone()
    said = draw_ruled_out(y, transition=Transition(T.double().numpy()), rng=rng)
    return items, torch.from_numpy(said), y


class Plain(Views):
    def forward(self, images, kind="none"):
        return images.permute(0, 3, 1, 2).float() / 255


@pytest.mark.parametrize("truth", [BIASED, torch.tensor(Transition.uniform(K).matrix).float()])
def test_the_estimate_ends_at_the_counted_matrix(truth, monkeypatch) -> None:
    """A layer that knows the classes, 20 epochs of EM; and how often labels are wrong."""
    monkeypatch.setattr("noracle.learn.consistency.BELIEF", 1e-3)
    _, said, y = worlds(4000, truth)
    head = nn.Linear(K, K, bias=False)
    with torch.no_grad():
        head.weight.copy_(12 * torch.eye(K))
    features, counts = torch.eye(K)[torch.from_numpy(y)], label_mask(said, K).float()
    objective = Neighbours(head, features, counts)
    for _ in range(20):
        objective.after_epoch(Team())
    counted = torch.zeros(K, K)
    counted.index_put_((torch.from_numpy(y), said), torch.ones(4000), accumulate=True)
    counted /= counted.sum(dim=1, keepdim=True)
    torch.testing.assert_close(objective.transition, counted, atol=0.01, rtol=0)
    random = float(counts.mean(dim=0) @ features.mean(dim=0))
    assert objective.wrong() == pytest.approx((said.numpy() == y).mean() / random, abs=0.02)
    given = Neighbours(head, features, counts, transition=truth)
    given.after_epoch(Team())
    assert torch.equal(given.transition, truth)
    assert given.wrong() == pytest.approx(float(truth.trace()))


@pytest.mark.parametrize(
    ("noise", "rounds"), [(0.0, 1), pytest.param(0.02, 1, marks=pytest.mark.full), (0.12, 3)]
)
def test_labels_that_can_be_relied_on_are_the_mask_and_others_come_in_rounds(
    noise: float, rounds: int, monkeypatch
) -> None:
    seen = []

    def learnt(self, about, settings, file, **loop):
        seen.append((about[2], settings.epochs))
        return real(self, about, settings, file, **loop)

    real = Recipe._round
    monkeypatch.setattr(Recipe, "_round", learnt)
    monkeypatch.setattr("noracle.learn.consistency.STEPS", 300)
    items, said, y = worlds(600, torch.tensor(Transition.noisy(K, noise).matrix).float())
    recipe = Recipe(
        model=network(),
        items=items,
        views=Plain([0.5], [0.5]),
        ruled_out=label_mask(said, K),
        settings=Settings(epochs=7, batch_size=50, lr=1e-3),
        options={"strong": 0},
        contrast=0,
    )
    assert recipe.run().column("epoch") == [1, 2, 3, 4, 5, 6, 7]
    assert seen == ([(True, 7)] if rounds == 1 else [(False, 2), (False, 2), (False, 3)])
    shown = items.permute(0, 3, 1, 2).float() / 255
    assert (recipe.model.eval()(shown).argmax(dim=1).numpy() == y).mean() > 0.95


class OnDevice(TorchDispatchMode):
    """Refuses what makes the host wait for a GPU, which no CUDA graph can hold."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.name().removeprefix("aten::").split(".")[0]
        if name in ("_local_scalar_dense", "nonzero", "masked_select", "lift_fresh"):
            raise AssertionError(f"{name}: a step asks the device for a number, or sends it one")
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("how", ["mask", "posteriors", "contrast", "neighbours"])
def test_a_step_stays_on_the_device(images, how: str) -> None:
    model, items = network(), images
    if how == "neighbours":
        items = torch.randn(N, 5)
        model = nn.Linear(5, K)
        objective: nn.Module = Neighbours(model, items, label_mask(torch.arange(N) % K, K))
    else:
        objective = objective_of(how, images, model)
    whole = ModelWithObjective(model, objective, None)
    data = Batches(items=items, labels=torch.arange(N))
    run = Run(whole, data, Settings(batch_size=8, average=0.9), torch.device("cpu"), Team())
    part = ItemBlock(items, torch.arange(N), None)
    with OnDevice():
        run._step(part, torch.arange(8))
    with pytest.raises(AssertionError, match="asks the device"), OnDevice():
        items[items.flatten().argmin()]


@pytest.mark.parametrize("at", [1, *(pytest.param(i, marks=pytest.mark.full) for i in (3, 8)), 5])
@pytest.mark.parametrize("noise", [0.0, 0.12])
@pytest.mark.usefixtures("quick")
def test_resumed_bit_for_bit(tmp_path, noise: float, at: int) -> None:
    """Stopped without labels, in a round, after one: the same weights, with and without rounds."""
    items, said, _y = worlds(200, torch.tensor(Transition.noisy(K, noise).matrix).float())

    def run(epochs, file):
        recipe = Recipe(
            model=network(),
            items=items,
            views=Views.of(items),
            ruled_out=label_mask(said, K),
            settings=Settings(epochs=6, batch_size=20, lr=0.01, average=0.9),
            contrast=3,
            checkpoint=file,
        )
        try:
            recipe.run(progress=None if epochs == 9 else _stop_after(epochs))
        except InterruptedError:
            return None
        return list(recipe.model.parameters())

    whole = run(9, None)
    assert run(at, tmp_path / "c.pt") is None
    again = run(9, tmp_path / "c.pt")
    assert all(map(torch.equal, whole, again))


def _stop_after(epochs: int):
    def progress(epoch, _row):
        if epoch == epochs:
            raise InterruptedError

    return progress


def test_faults_are_named(images) -> None:
    with pytest.raises(ArgumentError, match="transition must be 4 × 4"):
        recipe_of(images, transition=torch.eye(3))
    impossible = torch.tensor([[0.0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1], [0, 1.0, 0, 0]])
    with pytest.raises(EvidenceError, match="ruled_out must leave a class"):
        recipe_of(images, label_mask(torch.zeros(N, dtype=torch.long), K), transition=impossible)


def test_a_model_must_end_in_a_linear_layer(images) -> None:
    with pytest.raises(ArgumentError, match="must end in a linear layer"):
        Contrast(nn.Conv2d(1, K, 8), Views.of(images))
    recipe = Recipe(
        model=nn.Sequential(network(), nn.Sigmoid()),
        items=images,
        views=Views.of(images),
        ruled_out=label_mask(torch.arange(N) % K, K),
        settings=Settings(epochs=1),
    )
    with pytest.raises(ArgumentError, match="must end in a linear layer"):
        recipe.run()


def test_items_on_the_disk_stay_there(tmp_path, monkeypatch) -> None:
    """In rounds too, which teach some of the items only: the others weigh nothing."""
    monkeypatch.setattr("noracle.learn.consistency.STEPS", 300)
    items, said, y = worlds(600, torch.tensor(Transition.noisy(K, 0.12).matrix).float())
    np.save(tmp_path / "x.npy", items.numpy())
    seen, real = [], Batches.__post_init__

    def kept(batches):
        real(batches)
        seen.append((type(batches.items), len(batches.labels)))

    monkeypatch.setattr(Batches, "__post_init__", kept)
    recipe = Recipe(
        model=network(),
        items=np.load(tmp_path / "x.npy", mmap_mode="r"),
        views=Plain([0.5], [0.5]),
        ruled_out=label_mask(said, K),
        settings=Settings(epochs=7, batch_size=50, lr=1e-3),
        options={"strong": 0},
        contrast=0,
    )
    recipe.run()
    assert [n for kind, n in seen if kind is np.memmap] == [600] * 3
    shown = items.permute(0, 3, 1, 2).float() / 255
    assert (recipe.model.eval()(shown).argmax(dim=1).numpy() == y).mean() > 0.9


def test_faults_of_the_recipe_are_named(images) -> None:
    about = {"model": network(), "items": images, "views": Views.of(images)}
    about |= {"ruled_out": label_mask(torch.zeros(N, dtype=torch.long), K)}
    for wrong in (-1, 2.5, "many", True):
        with pytest.raises(ArgumentError, match="contrast must be a whole number from 0"):
            Recipe(**about, settings=Settings(epochs=1), contrast=wrong)
    impossible = torch.tensor([[0.0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1], [0, 1.0, 0, 0]])
    with pytest.raises(EvidenceError, match="ruled_out must leave a class"):
        Recipe(**about, settings=Settings(epochs=1), transition=impossible)


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.usefixtures("quick")
def test_few_images_that_are_all_alike_give_numbers(n: int) -> None:
    items = torch.full((n, 8, 8, 1), 7, dtype=torch.uint8)
    recipe = Recipe(
        model=network(),
        items=items,
        views=Views.of(items),
        ruled_out=label_mask(torch.arange(n) % K, K),
        settings=Settings(epochs=2, batch_size=2),
    )
    assert recipe.run().column("epoch") == [1, 2]
    assert all(p.isfinite().all() for p in recipe.model.parameters())


def test_the_likeliest_matrix_is_the_counted_one_where_the_class_is_certain() -> None:
    _, said, y = worlds(3000, BIASED)
    found, errors = likeliest_transition(np.eye(K)[y], said.numpy())
    counted = np.zeros((K, K))
    np.add.at(counted, (y, said.numpy()), 1)
    n = counted.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(found.matrix, counted / n, atol=1e-6)
    np.testing.assert_allclose(errors, np.sqrt(counted / n * (1 - counted / n) / n), rtol=1e-3)
    assert found.source == "estimated"
    assert not found.oracle


def test_few_labels_stay_near_what_is_expected() -> None:
    """Of 40 labels without any belief a matrix is off by more than of 40 and 100 expected ones."""
    _, said, y = worlds(40, BIASED)
    T = BIASED.double().numpy()
    alone, errors = likeliest_transition(np.eye(K)[y], said.numpy())
    both, less = likeliest_transition(np.eye(K)[y], said.numpy(), expected=T, belief=100)
    assert np.abs(both.matrix - T).max() < 0.3 * np.abs(alone.matrix - T).max()
    assert less.max() < 0.5 * errors.max()
    counted = np.zeros((K, K))
    np.add.at(counted, (y, said.numpy()), 1)
    rows = counted + 100 * T
    np.testing.assert_allclose(both.matrix, rows / rows.sum(axis=1, keepdims=True), atol=1e-6)


@pytest.mark.parametrize("k", [3, 10])
def test_an_estimate_starts_from_what_is_ruled_out_how_often(k: int) -> None:
    rng = np.random.default_rng(0)
    shares = rng.dirichlet(np.full(k, 3.0))
    mask = label_mask(torch.from_numpy(rng.choice(k, 5000, p=shares)), k)
    T = start_of(mask)
    torch.testing.assert_close(T.sum(dim=1), torch.ones(k))
    counted = mask.float().mean(dim=0)
    torch.testing.assert_close(T.mean(dim=0), counted, atol=0.03, rtol=0)
    assert (T.diagonal() < T.mean(dim=0)).all()
    none = start_of(torch.zeros(4, k, dtype=torch.bool))
    assert none.isfinite().all()


def right_on_digits(T, seeds: range, noise: float = 0.03) -> float:
    """Mean accuracy on the other digits after 900 with three labels each, some wrong."""
    digits = pytest.importorskip("sklearn.datasets", reason="no scikit-learn").load_digits()
    from noracle.learn.classifier import ComplementaryClassifier

    images, y = (digits.images * 255 / 16).astype(np.uint8)[..., None], digits.target
    truth, right = Transition.noisy(10, noise), []
    for seed in seeds:
        order, chance = np.random.default_rng(seed).permutation(len(y)), np.random.default_rng(seed)
        used, other = order[:900], order[1350:]
        said = draw_ruled_out(y, transition=truth, n_labels=3, replace=True, rng=chance)
        made = ComplementaryClassifier(
            recipe="consistency",
            transition=truth if T == "given" else T,
            validation_share=0.2,
            loss_options={"flip": False, "pad": 0},
            model="mlp",
            hidden=(128,),
            epochs=40,
            batch_size=64,
            lr=3e-3,
            schedule="one-cycle",
            average=0.99,
            device="cpu",
            random_state=seed,
        ).fit(images[used], said[used])
        right.append((made.predict(images[other]) == y[other]).mean())
    return float(np.mean(right))


@pytest.mark.slow
def test_labels_that_are_wrong_are_learnt_better_with_their_matrix() -> None:
    mask, estimated, given = (
        right_on_digits(T, range(5)) for T in ("uniform", "estimated", "given")
    )
    assert given > mask + 0.1
    assert estimated > mask + 0.1


@pytest.mark.slow
def test_uniform_labels_are_learnt_no_worse_with_an_estimated_matrix() -> None:
    """Before, the estimate of 540 labels was too wild for them."""
    right = [right_on_digits(T, range(5), noise=0) for T in ("uniform", "estimated")]
    assert right[1] > right[0] - 0.01


@pytest.mark.full
def test_errors_of_the_likeliest_matrix_hold_what_they_say() -> None:
    """Doubtful chances, 60 samples of 2,000 labels: 95 % intervals hold at least 92 %."""
    rng, held = np.random.default_rng(1), []
    T = BIASED.double().numpy()
    for _ in range(60):
        p = rng.dirichlet(np.full(K, 0.3), 2000)
        y = (p.cumsum(axis=1) < rng.random((2000, 1))).sum(axis=1).clip(max=K - 1)
        said = draw_ruled_out(y, transition=Transition(T), rng=rng)
        found, errors = likeliest_transition(p, said)
        held.append(np.abs(found.matrix - T) <= 1.96 * errors)
    assert 0.92 <= np.mean(held) <= 0.98


def test_likeliest_matrix_wants_chances_and_labels() -> None:
    with pytest.raises(ArgumentError, match="rows of probabilities"):
        likeliest_transition([[0.5, 0.9]], [0])
    with pytest.raises(EvidenceError, match="name a class"):
        likeliest_transition([[0.5, 0.5]], [-1])


@pytest.mark.usefixtures("quick")
class TestClassifier:
    """The same through the estimator."""

    @staticmethod
    def fitted(tmp_path=None, **options):
        pytest.importorskip("sklearn", reason="scikit-learn is not installed")
        from noracle.learn.classifier import ComplementaryClassifier

        items, said, _y = worlds(600, BIASED)
        given = {"transition": "estimated", "recipe": "consistency", "validation_share": 0.3}
        given |= {"epochs": 3, "classes": range(K), "device": "cpu", "loss_options": {"pad": 0}}
        return ComplementaryClassifier(**{**given, **options}).fit(
            items.numpy(), said.numpy()
        ), items.numpy()

    def test_the_matrix_is_estimated_and_says_so(self, tmp_path) -> None:
        fitted, items = self.fitted(validation_share=0.3)
        assert fitted.transition_source_ == "estimated"
        assert fitted.transition_.is_learnt
        assert not fitted.transition_.is_uniform
        assert "standard error" in fitted.transition_.detail
        assert len(fitted.held_out_) == 180
        assert len(fitted.history_.column("score")) == 3
        fitted.save(tmp_path / "model")
        read = type(fitted).load(tmp_path / "model")
        assert read.transition_source_ == "estimated"
        np.testing.assert_allclose(read.transition_.matrix, fitted.transition_.matrix, rtol=1e-12)
        assert (read.predict(items) == fitted.predict(items)).all()

    def test_a_checkpoint_goes_on(self, tmp_path) -> None:
        whole, items = self.fitted()
        self.fitted(checkpoint=tmp_path / "c.pt")
        again, _ = self.fitted(checkpoint=tmp_path / "c.pt")
        (tmp_path / "c.pt").unlink()
        for file in tmp_path.glob("c.pt.round*"):
            file.unlink()
        with pytest.raises(ArgumentError, match="checkpoint must come from the same"):
            self.fitted(checkpoint=tmp_path / "c.pt", loss_options={"pad": 1})
        self.fitted(checkpoint=tmp_path / "c.pt")
        assert (again.predict_proba(items) == whole.predict_proba(items)).all()
        with pytest.raises(ArgumentError, match="checkpoint must come from the same"):
            self.fitted(checkpoint=tmp_path / "c.pt", transition="uniform")

    @pytest.mark.parametrize(
        "wrong",
        [
            {"recipe": "plain", "loss_options": None},
            {"validation_share": 0.0},
            {"transition": "guessed"},
        ],
    )
    def test_what_it_needs_is_named(self, wrong) -> None:
        with pytest.raises(ArgumentError, match=r"transition (estimated )?must"):
            self.fitted(**wrong)

    def test_a_given_matrix_reaches_the_recipe(self) -> None:
        """Before, the recipe took every T for uniform."""
        plain, items = self.fitted(transition="uniform")
        given, _ = self.fitted(transition=BIASED.double().numpy())
        assert (plain.predict_proba(items) != given.predict_proba(items)).any()

    def test_true_labels_in_place_of_ruled_out_ones_are_noticed(self) -> None:
        """Before, the score of a model was -1.9 without a word."""
        from noracle.errors import EvidenceWarning
        from noracle.learn.classifier import ComplementaryClassifier

        y = np.arange(400) % K
        X = np.eye(K)[y]
        said = (y + 1 + np.arange(400) // K % (K - 1)) % K
        fitted = ComplementaryClassifier(epochs=40, lr=0.05).fit(X, said)
        assert fitted.score(X, said) == 1
        with pytest.warns(
            EvidenceWarning, match="what the items are not; got .* Pass true classes"
        ):
            assert fitted.score(X, y) < -1.9
        assert fitted.score(X, label=y) == 1
        half = np.where(y < 2, y, (y + 1) % K)
        assert fitted.score(X, label=half) == 0.5
        assert fitted.score(X, label=np.where(y < 2, y, -1)) == 1
        weight = np.where(y < 2, 3.0, 1.0)
        assert fitted.score(X, label=half, sample_weight=weight) == 0.75
        with pytest.raises(ArgumentError, match="label must come alone"):
            fitted.score(X, said, label=y)
