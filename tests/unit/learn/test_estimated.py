"""Labels that are wrong and biased: the consistency recipe with a T that is given or estimated."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the learn extra is not installed")

from torch import nn  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

from noracle.errors import ArgumentError, EvidenceError  # noqa: E402
from noracle.learn.batches import Batches, ItemBlock, Views  # noqa: E402
from noracle.learn.consistency import SOFT, Consistency, evidence, plain_of, start_of  # noqa: E402
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
        steps = {"delay": 2, "ramp": 3, "believe": 4, "fade": 2}
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


def test_the_loss_and_the_targets_are_the_formulas(images) -> None:
    """-log Σ p_j L_ij, L the product of T over an item's labels, and posteriors ∝ p_j L_ij."""
    said = torch.tensor([[0, 1], [2, -1], [-1, -1]] + [[3, -1]] * (N - 3))
    recipe = recipe_of(images, label_mask(said, K), transition=BIASED, strong=0, delay=9)
    p = torch.tensor([0.1, 0.2, 0.3, 0.4])
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, K))
    with torch.no_grad():
        model[1].weight.zero_()
        model[1].bias.copy_(p.log())
    got = recipe(model, images[:3], torch.arange(3), None).item()
    L = torch.stack([BIASED[:, 0] * BIASED[:, 1], BIASED[:, 2], torch.ones(K)])
    top = L.amax(dim=1)
    losses = -((p * L).sum(dim=1) / top).log() * torch.tensor([3 / 2, 3.0, 3.0])
    assert got == pytest.approx(SOFT * losses.mean().item(), rel=1e-5)
    posterior = p * L / recipe.seen
    expected = posterior / posterior.sum(dim=1, keepdim=True)
    torch.testing.assert_close(recipe.target[:3], expected)
    assert recipe.target[1, 2] > 0.02  # a label may be wrong: its class stays


@pytest.mark.parametrize("spares", [False, True])
def test_gradient_is_that_of_differences(images, spares) -> None:
    spared = torch.arange(N) % 4 == 0 if spares else None
    model = network()
    first = model[1].weight

    def loss(change: float) -> torch.Tensor:
        recipe = recipe_of(images, transition=BIASED, spared=spared)
        recipe.target.copy_(torch.rand(N, K, generator=torch.Generator().manual_seed(1)).softmax(1))
        recipe.step.fill_(5)
        with torch.no_grad():
            first[3, 7] += change
        torch.manual_seed(2)
        found = recipe(model, images, torch.arange(N), None)
        with torch.no_grad():
            first[3, 7] -= change
        return found

    loss(0.0).backward()
    slope = (loss(1e-2) - loss(-1e-2)).item() / 2e-2
    assert first.grad[3, 7].item() == pytest.approx(slope, rel=0.02, abs=2e-4)


def test_labels_of_spared_items_teach_nothing(images) -> None:
    """With other labels on spared items the same gradients, and the same likeliest T."""
    spared, grads, matrices = torch.arange(N) < 8, [], []
    for shift in (0, 1):
        said = torch.where(spared, (torch.arange(N) + shift) % K, torch.arange(N) % K)
        recipe = recipe_of(images, label_mask(said, K), transition=BIASED, spared=spared)
        recipe.transition.copy_(BIASED)
        recipe.start.copy_(BIASED)  # columns begin as frequent as all labels have them
        recipe.target.fill_(1 / K)
        model = network()
        torch.manual_seed(3)
        recipe(model, images, torch.arange(N), None).backward()
        grads.append(model[1].weight.grad)
        matrices.append(recipe._likeliest(recipe.predicted[8:], recipe.ruled_out[8:].float()))
        torch.testing.assert_close(matrices[-1].sum(dim=1), torch.ones(K))
    assert torch.equal(*grads)
    assert torch.equal(*matrices)


LOUD = torch.tensor(  # a label "not 0" can be relied on, "not 1" says less
    [[0.01, 0.49, 0.3, 0.2], [0.4, 0.15, 0.3, 0.15], [0.4, 0.3, 0.01, 0.29], [0.4, 0.3, 0.29, 0.01]]
)


@pytest.mark.parametrize(("steps", "a"), [(0, 1.0), (10, 1.0), (15, 0.5), (20, 0.0), (99, 0.0)])
def test_evidence_fades_and_what_can_be_relied_on_stays(images, steps: int, a: float) -> None:
    said = torch.tensor([0, 1] + [2] * (N - 2))
    options = {"transition": LOUD, "strong": 0, "believe": 10, "fade": 10}
    recipe = recipe_of(images, label_mask(said, K), **options)
    recipe.step.fill_(steps)
    p = torch.tensor([[0.3, 0.2, 0.3, 0.2]] * 2)
    found = recipe._taught(torch.arange(2), recipe.ruled_out[:2], p.log()).exp()
    soft = (LOUD[:, :2].T / LOUD[:, :2].amax(dim=0).unsqueeze(1)) ** a
    torch.testing.assert_close(found[1], soft[1])
    assert found[0, 0] == (0 if a < 1 else pytest.approx(soft[0, 0].item(), rel=1e-3))
    torch.testing.assert_close(found[0, 1:], soft[0, 1:])


def test_a_label_that_the_model_holds_wrong_is_not_hardened(images) -> None:
    said = torch.zeros(N, dtype=torch.long)
    options = {"transition": LOUD, "strong": 0, "believe": 0, "fade": 1}
    recipe = recipe_of(images, label_mask(said, K), **options)
    recipe.step.fill_(5)
    for p_out, stays in ((0.9, False), (0.99, True)):
        p = torch.tensor([[p_out, *[(1 - p_out) / 3] * 3]])
        found = recipe._taught(torch.arange(1), recipe.ruled_out[:1], p.log())
        assert found[0].isfinite().all() == stays


@pytest.mark.parametrize("n_spared", [1, 2])
def test_one_spared_item_is_enough_for_numbers(images, n_spared: int) -> None:
    recipe = recipe_of(images, spared=torch.arange(N) < n_spared, believe=99)
    model = network()
    for _ in range(3):
        recipe(model, images, torch.arange(N), None)
        recipe.after_epoch(Team())
    assert recipe.transition.isfinite().all()
    torch.testing.assert_close(recipe.transition.sum(dim=1), torch.ones(K))
    assert recipe.temperature >= 1


def test_what_was_learnt_by_heart_does_not_count_again(images) -> None:
    """Targets ∝ p·L that a model repeats would become p·L², p·L³, … to the end."""
    said = torch.ones(N, dtype=torch.long)
    recipe = recipe_of(images, label_mask(said, K), transition=LOUD, strong=0, believe=5, fade=5)
    recipe.seen.fill_(1 / K)
    p = torch.full((N, K), 1 / K)
    for step in range(40):
        recipe.step.fill_(step)
        taught = recipe._taught(torch.arange(N), recipe.ruled_out, p.log())
        p = (p.log() + taught).softmax(dim=1)
        if step == 10:
            then = p
    torch.testing.assert_close(p, then)


class Known(nn.Module):
    """Says the class that the first pixel of an image is."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(6.0))

    def forward(self, x):
        levels = torch.linspace(0, 1, K)
        return -self.scale * 8 * (x[:, 0, :1, 0] - levels).abs()


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
    """A model that knows the classes, 20 epochs of EM: T is what was counted on spared items."""
    monkeypatch.setattr("noracle.learn.consistency.BELIEF", 1e-3)
    # Chances that are all alike say as much with another T.
    monkeypatch.setattr("noracle.learn.consistency.SCALES", [1.0])
    items, said, y = worlds(4000, truth)
    spared = torch.arange(4000) % 2 == 0
    views = Plain([0.5], [0.5])
    recipe = Consistency(label_mask(said, K), views, spared=spared, strong=0, delay=0)
    model = Known()
    for _ in range(20):
        with torch.no_grad():
            for start in range(0, 4000, 500):
                recipe(model, items[start : start + 500], torch.arange(start, start + 500), None)
        recipe.after_epoch(Team())
    counted = torch.zeros(K, K)
    counted.index_put_(
        (torch.from_numpy(y)[~spared], said[~spared]), torch.ones(2000), accumulate=True
    )
    counted /= counted.sum(dim=1, keepdim=True)
    # The plain one is taken where labels are uniform: it is nearer to the truth than the counted.
    near = counted if truth is BIASED else truth
    torch.testing.assert_close(recipe.transition, near, atol=0.015, rtol=0)
    learnt = recipe.learnt()
    assert learnt.source == "estimated"
    assert learnt.is_learnt
    assert not learnt.oracle
    before = recipe.transition.clone()
    recipe.step.fill_(recipe.believe + 1)
    recipe.predicted.zero_()
    recipe.after_epoch(Team())
    assert torch.equal(recipe.transition, before)  # where the evidence fades T stays


def test_few_free_numbers_are_found_again() -> None:
    T = plain_of(torch.tensor([[0.2, 0.5, 0.3], [0.6, 0.1, 0.3], [0.6, 0.3, 0.1]]))
    torch.testing.assert_close(plain_of(T), T, atol=0.02, rtol=0)
    torch.testing.assert_close(T.sum(dim=1), torch.ones(3))
    uniform = torch.tensor(Transition.uniform(5).matrix).float()
    torch.testing.assert_close(plain_of(uniform), uniform)


class Bold(nn.Module):
    """Logits three times the right ones; the first pixel says the class, but for some doubt."""

    def __init__(self) -> None:
        super().__init__()
        self.times = nn.Parameter(torch.tensor(3.0))

    def forward(self, x):
        doubt = x[:, 0, 0, 1] * 2 + 0.5
        own = (x[:, 0, 0, 0] * (K - 1)).round().long()
        return self.times * doubt[:, None] * torch.eye(K)[own]


def test_targets_of_a_model_that_is_too_sure_are_calmed() -> None:
    """T is known and the right temperature is 3: of those tried, 2.83 or 3.36."""
    chance = torch.Generator().manual_seed(0)
    n = 20_000
    said_by_model = torch.randint(K, (n,), generator=chance)
    doubt = torch.rand(n, generator=chance)
    items = torch.zeros(n, 8, 8, 1, dtype=torch.uint8)
    items[:, 0, 0, 0] = (255 * said_by_model / (K - 1)).round().to(torch.uint8)
    items[:, 0, 1, 0] = (255 * doubt).round().to(torch.uint8)
    p = ((doubt * 2 + 0.5)[:, None] * torch.eye(K)[said_by_model]).softmax(dim=1)
    y = torch.multinomial(p, 1, generator=chance)[:, 0]
    T = Transition.uniform(K)
    said = draw_ruled_out(y.numpy(), transition=T, rng=np.random.default_rng(0))
    mask, spared = label_mask(torch.from_numpy(said), K), torch.arange(n) % 2 == 0
    options = {"strong": 0, "delay": 0, "believe": 0}
    recipe = Consistency(mask, Plain([0.5], [0.5]), spared=spared, **options)
    recipe.transition.copy_(torch.tensor(T.matrix))
    with torch.no_grad():
        for start in range(0, n, 1000):
            recipe(Bold(), items[start : start + 1000], torch.arange(start, start + 1000), None)
    recipe.after_epoch(Team())
    assert recipe.temperature.item() == pytest.approx(3, rel=0.13)


class OnDevice(TorchDispatchMode):
    """Refuses what makes the host wait for a GPU, which no CUDA graph can hold."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.name().removeprefix("aten::").split(".")[0]
        if name in ("_local_scalar_dense", "nonzero", "masked_select", "lift_fresh"):
            raise AssertionError(f"{name}: a step asks the device for a number, or sends it one")
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("views", ["weak", "all"])
@pytest.mark.parametrize("how", ["mask", "given", "estimated"])
def test_a_step_stays_on_the_device(images, how: str, views: str) -> None:
    """Before, the temperature of an estimated T was looked up by a number: no GPU could train it."""
    options = {"given": {"transition": BIASED}, "estimated": {"spared": torch.arange(N) % 3 == 0}}
    recipe = recipe_of(images, label_views=views, **options.get(how, {}))
    whole = ModelWithObjective(network(), recipe, None)
    data = Batches(items=images, labels=torch.arange(N))
    run = Run(whole, data, Settings(batch_size=8, average=0.9), torch.device("cpu"), Team())
    part = ItemBlock(images, torch.arange(N), None)
    with OnDevice():
        run._step(part, torch.arange(8))
    with pytest.raises(AssertionError, match="asks the device"), OnDevice():
        recipe.transition[recipe.seen.argmin()]


def test_resumed_bit_for_bit(images, tmp_path) -> None:
    def run(epochs, file, recipe, model):
        data = Batches(items=images, labels=torch.arange(N))
        settings = Settings(epochs=4, batch_size=8, lr=0.01, average=0.9)
        stop = None if epochs == 4 else _stop_after(epochs)
        try:
            train(model, data, recipe, settings, checkpoint=file, progress=stop)
        except InterruptedError:
            return None
        return [*model.parameters(), recipe.target, recipe.predicted, recipe.transition]

    def fresh():
        return recipe_of(images, spared=torch.arange(N) % 3 == 0), network()

    whole = run(4, None, *fresh())
    assert run(2, tmp_path / "c.pt", *fresh()) is None
    again = run(4, tmp_path / "c.pt", *fresh())
    assert all(map(torch.equal, whole, again))


def _stop_after(epochs: int):
    def progress(epoch, _row):
        if epoch == epochs:
            raise InterruptedError

    return progress


def test_faults_are_named(images) -> None:
    with pytest.raises(ArgumentError, match="transition must be 4 × 4"):
        recipe_of(images, transition=torch.eye(3))
    with pytest.raises(ArgumentError, match="spared must have 24 rows"):
        recipe_of(images, spared=torch.zeros(3, dtype=torch.bool))
    impossible = torch.tensor([[0.0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1], [0, 1.0, 0, 0]])
    with pytest.raises(EvidenceError, match="ruled_out must leave a class"):
        recipe_of(images, label_mask(torch.zeros(N, dtype=torch.long), K), transition=impossible)


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
    T = start_of(mask, torch.tensor(Transition.uniform(k).matrix).float())
    torch.testing.assert_close(T.sum(dim=1), torch.ones(k))
    counted = mask.float().mean(dim=0)
    torch.testing.assert_close(T.mean(dim=0), counted, atol=0.03, rtol=0)
    assert (T.diagonal() < T.mean(dim=0)).all()
    none = start_of(torch.zeros(4, k, dtype=torch.bool), T)
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
    assert estimated > mask + 0.03


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
