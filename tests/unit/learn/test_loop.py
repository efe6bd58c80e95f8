from __future__ import annotations

import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the learn extra is not installed")

from torch import nn  # noqa: E402

from noracle.errors import ArgumentError, NoracleError  # noqa: E402
from noracle.learn.batches import Views  # noqa: E402
from noracle.learn.consistency import Consistency  # noqa: E402
from noracle.learn.loop import (  # noqa: E402
    Batches,
    PlainObjective,
    Run,
    Settings,
    all_logits,
    plain_objective,
    train,
)
from noracle.learn.losses import get_loss, label_mask  # noqa: E402
from noracle.learn.models import make_model  # noqa: E402
from noracle.learn.transition import Transition  # noqa: E402

SRC = Path(__file__).parents[3] / "src"
K, N = 4, 90


@pytest.fixture(autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def problem():
    """Items in four clouds, each with one ruled-out class."""
    g = torch.Generator().manual_seed(0)
    y = torch.arange(N) % K
    x = torch.randn(N, 6, generator=g) + 3 * torch.eye(K, 6)[y]
    mask = label_mask((y + torch.randint(1, K, (N,), generator=g)) % K, K)
    return x, y, mask


def objective_of(mask, name: str = "scl_nl", prepare=None):
    loss = get_loss(name)
    return plain_objective(loss, loss.make_context(Transition.uniform(K), ruled_out=mask), prepare)


def net(seed: int = 0) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(
            nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, K)
        )


def equal(a: nn.Module, b: nn.Module) -> bool:
    return all(
        torch.equal(x, y)
        for x, y in zip(a.state_dict().values(), b.state_dict().values(), strict=True)
    )


def test_training_learns_the_classes(problem) -> None:
    x, y, mask = problem
    model = make_model("mlp", shape=(6,), n_outputs=K, hidden=(32,), seed=0)
    history = train(
        model,
        Batches(items=x, labels=mask),
        objective_of(mask),
        Settings(epochs=40, batch_size=16, lr=1e-2),
    )
    assert (all_logits(model, x).argmax(dim=1) == y).double().mean() > 0.9
    losses = history.column("loss")
    assert len(losses) == 40
    assert losses[-1] < losses[0] / 2
    assert not model.training


@pytest.mark.parametrize("optimiser", ["adam", "sgd"])
def test_steps_are_those_of_a_bare_loop(problem, optimiser: str) -> None:
    x, _, mask = problem
    seen = []

    def objective(model, items, places, weight):
        seen.append(places.clone())
        return objective_of(mask)(model, items, mask[places], weight)

    ours, bare = (make_model("mlp", shape=(6,), n_outputs=K, seed=0) for _ in range(2))
    settings = Settings(epochs=3, batch_size=32, lr=1e-2, optimiser=optimiser, weight_decay=1e-3)
    train(ours, Batches(items=x, labels=torch.arange(N)), objective, settings)
    make = {
        "adam": torch.optim.Adam,
        "sgd": lambda *a, **k: torch.optim.SGD(*a, momentum=0.9, nesterov=True, **k),
    }[optimiser]
    stepper = make(bare.parameters(), lr=1e-2, weight_decay=1e-3, fused=True)
    for chosen in seen:
        stepper.zero_grad()
        objective_of(mask)(bare, x[chosen], mask[chosen], None).backward()
        stepper.step()
    assert equal(ours, bare)
    assert [len(chosen) for chosen in seen] == [32, 32, 26] * 3
    epochs = [torch.cat(seen[i : i + 3]) for i in (0, 3, 6)]
    assert all(torch.equal(e.sort().values, torch.arange(N)) for e in epochs)
    assert not torch.equal(epochs[0], epochs[1])


def test_the_same_seed_gives_the_same_bits_and_another_does_not(problem) -> None:
    x, _, mask = problem
    models = [net() for _ in range(3)]
    for model, seed, noise in zip(models, (5, 5, 6), (1, 2, 1), strict=True):
        torch.manual_seed(noise)
        train(
            model,
            Batches(items=x, labels=mask),
            objective_of(mask),
            Settings(epochs=3, batch_size=16, average=0.9, seed=seed),
        )
    assert equal(models[0], models[1])
    assert not equal(models[0], models[2])


def test_the_callers_generators_are_left_alone(problem) -> None:
    x, _, mask = problem
    before = torch.get_rng_state()
    train(net(), Batches(items=x, labels=mask), objective_of(mask), Settings(epochs=1))
    assert torch.equal(before, torch.get_rng_state())


def test_a_validation_that_draws_numbers_changes_nothing(problem) -> None:
    x, _, mask = problem
    plain, watched = net(), net()
    train(plain, Batches(items=x, labels=mask), objective_of(mask), Settings(epochs=3))
    validate = lambda model: float(torch.rand(()))  # noqa: E731
    train(
        watched,
        Batches(items=x, labels=mask),
        objective_of(mask),
        Settings(epochs=3),
        validate=validate,
    )
    assert equal(plain, watched)


def test_schedules_start_and_end_where_they_should() -> None:
    cosine, cycle = Settings(lr=2.0, schedule="cosine"), Settings(lr=2.0, schedule="one-cycle")
    assert cosine.rate(0) == 2
    assert cosine.rate(0.5) == pytest.approx(1)
    assert cosine.rate(1) == pytest.approx(0, abs=1e-12)
    assert cycle.rate(0) < 1e-6 < cycle.rate(0.1) < cycle.rate(0.3) == pytest.approx(2)
    assert cycle.rate(1) < 1e-6
    assert {Settings(lr=2.0).rate(t) for t in (0, 0.5, 1)} == {2.0}


def test_the_schedule_reaches_its_end_with_the_last_step(problem) -> None:
    x, _, mask = problem
    history = train(
        net(),
        Batches(items=x, labels=mask),
        objective_of(mask),
        Settings(epochs=4, batch_size=16, lr=1.0, schedule="cosine"),
    )
    assert history.column("lr")[-1] == pytest.approx(0.5 * (1 + math.cos(math.pi * 23 / 24)))


def test_averaged_weights_are_the_decaying_mean_of_all_steps_with_batch_statistics(problem) -> None:
    x, _, mask = problem
    inner, states = objective_of(mask), []

    def state(model):
        return {k: v.double().clone() for k, v in model.state_dict().items()}

    def objective(model, items, labels, weight):
        states.append(state(model))
        return inner(model, items, labels, weight)

    model = net()
    last = lambda epoch, row: states.append(state(model)) if epoch == 2 else None  # noqa: E731
    train(
        model,
        Batches(items=x, labels=mask),
        objective,
        Settings(epochs=2, batch_size=16, lr=0.05, average=0.8),
        progress=last,
    )
    after = states[1:]
    assert len(after) == 12
    weights = torch.tensor(
        [0.8 ** (len(after) - 1 - i) for i in range(len(after))], dtype=torch.float64
    )
    weights /= weights.sum()
    averaged = model.state_dict()
    for name in ("0.weight", "1.weight", "1.running_mean", "1.running_var", "4.bias"):
        expected = torch.einsum("t,t...->...", weights, torch.stack([s[name] for s in after]))
        torch.testing.assert_close(averaged[name].double(), expected, atol=1e-5, rtol=1e-5)
    assert averaged["1.num_batches_tracked"] == 12


def test_early_stopping_keeps_the_best_weights_and_not_the_last(problem) -> None:
    x, _, mask = problem
    scores, kept = iter([math.nan, 1.0, 3.0, 2.0, math.nan, 9.0]), []
    model = net()

    def validate(m):
        assert not m.training
        kept.append({k: v.clone() for k, v in m.state_dict().items()})
        return next(scores)

    settings = Settings(epochs=20, batch_size=16, patience=2, average=0.5)
    history = train(
        model, Batches(items=x, labels=mask), objective_of(mask), settings, validate=validate
    )
    assert len(history.rows) == 5
    assert all(torch.equal(v, kept[2][k]) for k, v in model.state_dict().items())
    assert not torch.equal(kept[2]["0.weight"], kept[4]["0.weight"])


def test_only_unusable_scores_stop_with_the_last_weights(problem) -> None:
    x, _, mask = problem
    history = train(
        net(),
        Batches(items=x, labels=mask),
        objective_of(mask),
        Settings(epochs=9, patience=3),
        validate=lambda m: math.nan,
    )
    assert len(history.rows) == 3


def test_a_trainable_transition_is_trained_without_being_named(problem) -> None:
    x, _, mask = problem
    objective = objective_of(mask, "cpe_t")
    before = objective.context.free_T.detach().clone()
    train(net(), Batches(items=x, labels=mask), objective, Settings(epochs=2))
    assert not torch.equal(before, objective.context.free_T)


def test_further_parameters_of_a_plain_function_are_trained(problem) -> None:
    x, _, mask = problem
    offset = nn.Linear(1, K, bias=False)

    def objective(model, items, labels, weight):
        return (model(items) + offset.weight.T).masked_fill(~labels, 0).exp().mean()

    before = offset.weight.detach().clone()
    train(net(), Batches(items=x, labels=mask), objective, Settings(epochs=1), extra=offset)
    assert not torch.equal(before, offset.weight)


def test_weights_count_in_the_loss_of_an_epoch(problem) -> None:
    x, _, mask = problem
    weight = torch.rand(N, generator=torch.Generator().manual_seed(1))
    weight[:20] = 0
    model = make_model("linear", shape=(6,), n_outputs=K, seed=0)
    loss = get_loss("scl_nl")
    context = loss.make_context(Transition.uniform(K), ruled_out=mask)
    logits = model(x).detach()
    expected = float(loss(logits, mask, context, weight))
    data = Batches(items=x, labels=mask, weight=weight)
    history = train(
        model, data, plain_objective(loss, context), Settings(epochs=1, batch_size=16, lr=1e-12)
    )
    assert history.rows[0]["loss"] == pytest.approx(expected, rel=1e-5)
    assert history.rows[0]["loss"] != pytest.approx(float(loss(logits, mask, context)), rel=1e-3)


def test_batches_of_weight_zero_do_no_harm(problem) -> None:
    x, _, mask = problem
    weight = torch.zeros(N)
    weight[0] = 1
    model = net()
    train(
        model,
        Batches(items=x, labels=mask, weight=weight),
        objective_of(mask),
        Settings(epochs=2, batch_size=8),
    )
    assert all(t.isfinite().all() for t in model.state_dict().values())


def sizes_of(model: nn.Module, problem, n: int, batch_size: int) -> list[int]:
    """Items in each batch of an epoch."""
    x, _, mask = problem
    sizes, seen = [], []
    inner = objective_of(mask)

    def objective(m, items, labels, weight):
        sizes.append(len(items))
        seen.append(items)
        return inner(m, items, labels, weight)

    train(
        model,
        Batches(items=x[:n], labels=mask[:n]),
        objective,
        Settings(epochs=1, batch_size=batch_size),
    )
    assert len(torch.cat(seen).unique(dim=0)) == sum(sizes)  # no item twice
    return sizes


@pytest.mark.parametrize(
    ("n", "expected"),
    [
        (80, [16] * 5),
        (72, [16] * 4 + [8]),
        (71, [16] * 3 + [12, 11]),
        (81, [16] * 4 + [9, 8]),
        (17, [9, 8]),
        (16, [16]),
        (3, [3]),
    ],
)
def test_no_batch_is_a_small_rest(problem, n: int, expected: list[int]) -> None:
    assert sizes_of(net(), problem, n, 16) == expected


def test_one_last_item_alone_is_left_out_only_where_a_variance_is_needed(problem) -> None:
    assert sizes_of(net(), problem, 5, 2) == [2, 2]
    assert sizes_of(make_model("linear", shape=(6,), n_outputs=K), problem, 5, 2) == [2, 2, 1]


def test_mixed_precision_learns_and_keeps_full_weights(problem) -> None:
    x, y, mask = problem
    model = net()
    dtypes = set()
    model[4].register_forward_hook(lambda m, i, out: dtypes.add(out.dtype) if m.training else None)
    train(
        model,
        Batches(items=x, labels=mask),
        objective_of(mask),
        Settings(epochs=40, batch_size=16, lr=1e-2, precision="bf16"),
    )
    assert dtypes == {torch.bfloat16}
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    assert (all_logits(model, x).argmax(dim=1) == y).double().mean() > 0.85


def test_any_module_and_raw_items_are_taken(problem) -> None:
    x, y, mask = problem
    raw = ((x - x.min()) * 20).round().to(torch.uint8)

    class Own(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Parameter(torch.zeros(6, K))

        def forward(self, items):
            return items @ self.table

    model = Own()
    prepare = lambda items: items.float() / 20 + x.min()  # noqa: E731
    train(
        model,
        Batches(items=raw, labels=mask),
        objective_of(mask, prepare=prepare),
        Settings(epochs=30, batch_size=16, lr=0.1),
    )
    assert (all_logits(model, raw, prepare=prepare).argmax(dim=1) == y).double().mean() > 0.8


def test_progress_hears_of_every_epoch(problem) -> None:
    x, _, mask = problem
    heard = []
    history = train(
        net(),
        Batches(items=x, labels=mask),
        objective_of(mask),
        Settings(epochs=3),
        progress=lambda e, row: heard.append((e, row)),
    )
    assert heard == list(enumerate(history.rows, start=1))
    assert set(heard[0][1]) == {"epoch", "loss", "lr", "seconds"}


def test_a_loss_that_is_not_finite_stops_before_the_checkpoint_is_spoilt(
    problem, tmp_path: Path
) -> None:
    x, _, mask = problem
    inner, calls = objective_of(mask), []

    def objective(model, items, labels, weight):
        calls.append(1)
        return inner(model, items, labels, weight) * (math.nan if len(calls) == 3 else 1)

    file = tmp_path / "c.pt"
    with pytest.raises(
        NoracleError, match=r"loss must stay finite; got nan in epoch 2. Lower lr \(now 0.001\)"
    ):
        train(
            net(),
            Batches(items=x, labels=mask),
            objective,
            Settings(epochs=3, batch_size=64),
            checkpoint=file,
        )
    assert torch.load(file, weights_only=True)["epoch"] == 1


def test_logits_of_all_items_leave_the_mode_alone(problem) -> None:
    x, _, _ = problem
    model = net().train()
    got = all_logits(model, x.numpy().astype(np.float64), batch_size=7)
    assert model.training
    torch.testing.assert_close(got, model.eval()(x))
    assert all_logits(model, x[:0]).shape == (0, K)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"epochs": 0}, "epochs must be at least 1; got 0"),
        ({"lr": 0.0}, "lr must be positive"),
        ({"lr": math.nan}, "lr must be positive; got nan"),
        ({"average": 1.0}, r"average must be in \[0, 1\)"),
        ({"momentum": -0.1}, "momentum must be in"),
        ({"seed": -1}, "seed must be at least 0"),
        ({"patience": 0}, "patience must be at least 1"),
        ({"optimiser": "lion"}, "optimiser must be adam or sgd; got 'lion'"),
        ({"schedule": "step"}, "schedule must be"),
        ({"precision": "fp16"}, "precision must be fp32, bf16 or fp64; got 'fp16'"),
    ],
)
def test_settings_out_of_range_are_named(change: dict[str, object], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        Settings(**change)


def test_faults_of_a_run_are_named(problem) -> None:
    x, _, mask = problem
    with pytest.raises(ArgumentError, match="patience must come with validate"):
        train(net(), Batches(items=x, labels=mask), objective_of(mask), Settings(patience=2))
    with pytest.raises(ArgumentError, match="model must have parameters to train"):
        train(nn.Flatten(), Batches(items=x, labels=mask), objective_of(mask), Settings())


def test_the_core_needs_numpy_and_torch_alone() -> None:
    code = (
        "import sys\n"
        "for name in 'narwhals duckdb typer rich jinja2 matplotlib pandas sklearn zstandard'.split(): sys.modules[name] = None\n"
        "import noracle\n"
        "assert 'torch' not in sys.modules\n"
        "import noracle.learn.loop, noracle.learn.consistency, noracle.learn.models, noracle.learn.batches, noracle.learn.labels\n"
    )
    subprocess.run(
        [sys.executable, "-c", code], check=True, env={**os.environ, "PYTHONPATH": str(SRC)}
    )


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_graphed_steps_are_the_plain_steps(problem) -> None:
    x, _, mask = problem
    weight = torch.rand(N) + 0.5
    ends = []
    for graph in (True, False):
        model = make_model("mlp", shape=(6,), n_outputs=K, seed=0).cuda()
        settings = Settings(
            epochs=3, batch_size=16, lr=1e-2, average=0.9, schedule="one-cycle", graph=graph
        )
        train(
            model,
            Batches(items=x.cuda(), labels=mask.cuda(), weight=weight.cuda()),
            objective_of(mask),
            settings,
        )
        ends.append(torch.cat([p.flatten() for p in model.parameters()]))
    torch.testing.assert_close(ends[0], ends[1], atol=1e-4, rtol=1e-3)


def conv_net(channels: int) -> nn.Module:
    """For images of 16 × 16; a step of 64 items and 8 channels is small, one of 512 is not."""
    return nn.Sequential(
        nn.Conv2d(3, channels, 3, padding=1),
        nn.BatchNorm2d(channels),
        nn.ReLU(),
        nn.Conv2d(channels, channels, 3, padding=1),
        nn.Flatten(),
        nn.Linear(256 * channels, 3),
    )


@pytest.mark.parametrize(
    ("name", "model", "threads"),
    [
        ("linear", lambda: nn.Sequential(nn.Flatten(), nn.Linear(768, 3)), [1, 1]),
        ("dense", lambda: nn.Sequential(nn.Flatten(), nn.Linear(768, 8000)), [2, 2]),
        ("few channels", lambda: conv_net(8), [1, 1]),
        ("many channels", lambda: conv_net(64), [1, 2]),
    ],
)
def test_a_small_model_trains_in_one_thread(name, model, threads) -> None:
    """Several threads wait for each other on a busy machine: 15 times as long, before; small
    convolutions, 12 to 20 times.
    """
    seen, before = [], torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        x = torch.rand(600, 3, 16, 16, generator=torch.Generator().manual_seed(0))
        mask = label_mask(torch.arange(600) % 3, 8000 if name == "dense" else 3)
        loss = get_loss("scl_nl")

        class Seen(PlainObjective):
            def forward(self, *args):
                seen.append(torch.get_num_threads())
                return super().forward(*args)

        T = Transition.uniform(mask.shape[1])
        objective = Seen(loss, loss.make_context(T, ruled_out=mask))
        data = Batches(items=x, labels=mask)
        train(model(), data, objective, Settings(epochs=1, batch_size=300))
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert seen == threads


def test_counting_the_first_step_changes_nothing(monkeypatch) -> None:
    """The same bits as without counting; the count is that of three views, forward and back."""
    g = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (12, 16, 16, 3), dtype=torch.uint8, generator=g)
    mask = label_mask(torch.arange(12) % 3, 3)

    def end() -> list[torch.Tensor]:
        torch.manual_seed(1)
        model, recipe = conv_net(4), Consistency(mask, Views.of(images), delay=1, ramp=1)
        data = Batches(items=images, labels=torch.arange(12))
        train(model, data, recipe, Settings(epochs=3, batch_size=4, lr=0.01))
        return [*model.state_dict().values(), recipe.target]

    counted, found = [], Run._first_step

    def told(self, *args):
        found(self, *args)
        counted.append(self.work)

    monkeypatch.setattr(Run, "_first_step", told)
    first = end()
    forward = 256 * 27 * 4 + 256 * 36 * 4 + 1024 * 3
    back = forward + 256 * 36 * 4 + 1024 * 3  # the first layer passes nothing on
    colours = 2 * 256 * 3 * 3
    assert counted == [4 * 2 * (3 * (forward + back) + colours)]
    monkeypatch.setattr(Run, "_known_work", lambda self: 0.0)
    assert all(map(torch.equal, first, end()))


def test_a_run_that_goes_on_has_the_threads_it_had(tmp_path) -> None:
    """Sums in other threads end in other bits: what was counted is in the checkpoint."""
    x = torch.rand(600, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    mask = label_mask(torch.arange(600) % 3, 3)
    seen, before = [], torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        for epochs in (1, 2):
            model = conv_net(64)
            model.register_forward_hook(lambda *_: seen.append(torch.get_num_threads()))

            def stop(epoch, _row, last=epochs):
                if epoch == last:
                    raise InterruptedError

            data = Batches(items=x, labels=mask)
            with pytest.raises(InterruptedError):
                train(
                    model,
                    data,
                    objective_of_three(mask),
                    Settings(epochs=3, batch_size=300),
                    checkpoint=tmp_path / "c.pt",
                    progress=stop,
                )
    finally:
        torch.set_num_threads(before)
    assert seen == [1, 2, 2, 2]


def objective_of_three(mask):
    loss = get_loss("scl_nl")
    return plain_objective(loss, loss.make_context(Transition.uniform(3), ruled_out=mask))
