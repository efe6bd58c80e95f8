"""Validation from ruled-out labels keeps its promises: bias, coverage, width, and the models that
it would choose.
"""

from __future__ import annotations

import dataclasses
import gzip
import warnings
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from noracle.counts.tally import AccuracyCounts, Cell, Tally
from noracle.errors import GuaranteeWarning
from noracle.learn.compare import compare_models
from noracle.learn.labels import biased_transition, draw_ruled_out
from noracle.learn.scores import RuledOut, item_scores
from noracle.learn.transition import Transition
from noracle.learn.validation import estimate_model_accuracy, from_counts
from noracle.results import Kind
from tests.guarantees.measure import excess_p_value

pytestmark = pytest.mark.full

WORLDS, N = 2000, 6000


@dataclasses.dataclass(frozen=True)
class World:
    """Joint chances of truth and answer, and the matrix that labels follow."""

    name: str
    transition: Transition
    joint: np.ndarray

    @property
    def accuracy(self) -> float:
        return float(np.trace(self.joint))

    def draw(self, n: int, worlds: int, seed: int) -> np.ndarray:
        """Counts [world, ruled out, answer]: labels depend on the truth alone."""
        cells = self.transition.matrix.T @ self.joint
        return (
            np.random.default_rng(seed)
            .multinomial(n, cells.ravel() / cells.sum(), size=worlds)
            .reshape(worlds, *cells.shape)
        )


def uneven_answers(k: int, accuracy: float, seed: int) -> np.ndarray:
    """Classes of different size, and confusions of every size."""
    rng = np.random.default_rng(seed)
    sizes = rng.dirichlet(np.full(k, 5.0))
    wrong = rng.dirichlet(np.full(k, 0.7), size=k) * (1 - np.eye(k))
    wrong /= wrong.sum(axis=1, keepdims=True)
    return sizes[:, None] * (accuracy * np.eye(k) + (1 - accuracy) * wrong)


def worlds(k: int = 10, accuracy: float = 0.8) -> list[World]:
    joint = uneven_answers(k, accuracy, 5)
    biased = biased_transition(k, bias="weak", rng=np.random.default_rng(3)).with_floor(0.05)
    return [
        World("uniform", Transition.uniform(k), joint),
        World("asymmetric", biased, joint),
        World("noisy", Transition.noisy(k, 0.05), joint),
    ]


def counted(table: np.ndarray, transition: Transition) -> AccuracyCounts:
    """Counts by class, as ``estimate_model_accuracy`` makes them (a test below says so)."""
    k = len(table)
    by_class = (
        transition.diagonal_noise > 0 or np.ptp(transition.matrix[~np.eye(k, dtype=bool)]) > 1e-9
    )
    tallies: dict[Tally, int] = {}
    for asked, answer in zip(*np.nonzero(table), strict=True):
        hit = bool(asked == answer)
        named = {"asked": int(asked), "answer": int(answer)} if by_class else {}
        tally = Tally("model", k, "no", hit, n_ruled_out=1, ruled_hit=hit, **named)
        tallies[tally] = tallies.get(tally, 0) + int(table[asked, answer])
    n = int(table.sum())
    return AccuracyCounts(
        tallies=tallies, items={Cell("model", k): n}, answered={Cell("model", k): n}
    )


@cache
def intervals(name: str, interval: str, n: int = N, n_worlds: int = WORLDS) -> np.ndarray:
    """Value, low and high of every resample."""
    world = next(w for w in worlds() if w.name == name)
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GuaranteeWarning)
        for table in world.draw(n, n_worlds, 17):
            e = from_counts(
                counted(table, world.transition),
                world.transition,
                interval=interval,
                confidence=0.95,
            )
            found.append((e.value, e.low, e.high))
    return np.array(found)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["uniform", "asymmetric", "noisy"])
def test_unbiased_covered_and_narrow_at_6000_labels(name: str) -> None:
    world = next(w for w in worlds() if w.name == name)
    finite = "fixed-n" if name == "asymmetric" else "exact"
    wald, sure = intervals(name, "wald"), intervals(name, finite)
    error = np.std(wald[:, 0], ddof=1) / np.sqrt(WORLDS)
    assert abs(np.mean(wald[:, 0]) - world.accuracy) <= 4 * error
    assert (
        0.935 <= np.mean((wald[:, 1] <= world.accuracy) & (world.accuracy <= wald[:, 2])) <= 0.965
    )
    missed = ~((sure[:, 1] <= world.accuracy) & (world.accuracy <= sure[:, 2]))
    assert 1 - missed.mean() >= 0.935
    assert excess_p_value(int(missed.sum()), WORLDS, 0.05) > 1e-3
    assert np.mean(sure[:, 2] - sure[:, 1]) <= 1.6 * np.mean(wald[:, 2] - wald[:, 1])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["asymmetric", "noisy"])
def test_fixed_n_is_narrower_than_betting_and_covers(name: str) -> None:
    world = next(w for w in worlds() if w.name == name)
    fixed, betting = intervals(name, "fixed-n"), intervals(name, "betting", N, 200)
    missed = ~((fixed[:, 1] <= world.accuracy) & (world.accuracy <= fixed[:, 2]))
    assert excess_p_value(int(missed.sum()), WORLDS, 0.05) > 1e-3
    assert np.mean(fixed[:, 2] - fixed[:, 1]) < 0.9 * np.mean(betting[:, 2] - betting[:, 1])


def test_a_transposed_matrix_would_be_found_out() -> None:
    """With an asymmetric T the transposed scores are off by many standard errors, so that the test
    above can fail.
    """
    world = next(w for w in worlds() if w.name == "asymmetric")
    turned = Transition(
        world.transition.matrix.T / world.transition.matrix.T.sum(axis=1, keepdims=True)
    )
    table = world.draw(N, 200, 1)
    values = [np.sum(turned.inverse() * t) / N for t in table]
    right = [np.sum(world.transition.inverse() * t) / N for t in table]
    error = np.std(right, ddof=1) / np.sqrt(len(table))
    assert abs(np.mean(right) - world.accuracy) < 4 * error
    assert abs(np.mean(values) - world.accuracy) > 8 * error


def test_counts_of_this_file_are_those_of_the_estimator() -> None:
    for world in worlds():
        table = world.draw(300, 1, 3)[0]
        asked, answer = (
            np.repeat(x, table.ravel()) for x in np.indices(table.shape).reshape(2, -1)
        )
        direct = estimate_model_accuracy(answer, asked, transition=world.transition)
        assert direct == from_counts(
            counted(table, world.transition), world.transition, interval=None, confidence=0.95
        )


EDGES = [
    pytest.param(k, accuracy, n, kind, marks=pytest.mark.slow if k * n > 15 else ())
    for k, n in ((2, 1), (3, 5), (10, 1), (10, 5), (10, 40), (50, 40))
    for accuracy in (0.0, 0.02, 0.98, 1.0)
    for kind in ("uniform", "asymmetric", "noisy", "nearly singular")
]


def edge_transition(k: int, kind: str) -> Transition:
    if kind == "uniform":
        return Transition.uniform(k)
    if kind == "noisy":
        return Transition.noisy(k, 0.3 / k)
    if kind == "nearly singular":
        return Transition.noisy(k, (1 - 1e-4) / k)
    rows = np.random.default_rng(k).dirichlet(np.full(k, 1.0), size=k) * (1 - 0.9 * np.eye(k))
    return Transition(rows / rows.sum(axis=1, keepdims=True))


@pytest.mark.parametrize(("k", "accuracy", "n", "kind"), EDGES)
def test_finite_sample_intervals_hold_at_the_edges(
    k: int, accuracy: float, n: int, kind: str
) -> None:
    """Accuracy 0 and 1, one label, many classes, labels that say next to nothing."""
    transition = edge_transition(k, kind)
    world = World(kind, transition, uneven_answers(k, accuracy, 2))
    seen: dict[bytes, tuple[float, float]] = {}
    missed = 0
    for table in world.draw(n, WORLDS if n < 40 else 400, 9):
        key = table.tobytes()
        if key not in seen:
            e = from_counts(counted(table, transition), transition, interval=None, confidence=0.95)
            assert e.guarantee.kind is Kind.FINITE_SAMPLE
            assert 0 <= e.low <= e.high <= 1
            seen[key] = (e.low, e.high)
        low, high = seen[key]
        missed += not low <= world.accuracy <= high
    assert excess_p_value(missed, WORLDS if n < 40 else 400, 0.05) > 1e-4


# -------------------------------------------------------------------------------------------------------
# choice of a model

FOLDER = Path("/usr/share/datasets/fashion-mnist")
RATES = (1e-3, 5e-4, 1e-4, 5e-5, 1e-5)
LOSSES = ("fwd", "scl_nl", "ure_ga")
NOISE, REPEATS = 0.05, 300


@dataclasses.dataclass(frozen=True)
class Candidates:
    """Logits of 45 trained models on 10,000 images, and the true classes, which only the referee
    sees.
    """

    logits: np.ndarray
    truth: np.ndarray
    transition: Transition

    @property
    def answers(self) -> np.ndarray:
        return self.logits.argmax(axis=2)

    @property
    def accuracy(self) -> np.ndarray:
        return (self.answers == self.truth).mean(axis=1)


def fashion(name: str) -> tuple[np.ndarray, np.ndarray]:
    with gzip.open(FOLDER / f"{name}-images-idx3-ubyte.gz") as file:
        images = (
            np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, 784).astype(np.float32)
            / 255
        )
    with gzip.open(FOLDER / f"{name}-labels-idx1-ubyte.gz") as file:
        return images, np.frombuffer(file.read(), np.uint8, offset=8).astype(np.int64)


@pytest.fixture(scope="module")
def images():
    """Standardised as in the training loop: 54,000 to train on and 10,000 to validate on."""
    torch = pytest.importorskip("torch", reason="the learn extra is not installed")
    if not FOLDER.is_dir():
        pytest.skip("Fashion-MNIST (Debian package dataset-fashion-mnist) is not installed")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    (x, y), (x_test, y_test) = fashion("train"), fashion("t10k")
    mean, sd = x.mean(), x.std()
    yield (
        torch.tensor((x[:54_000] - mean) / sd),
        y[:54_000],
        torch.tensor((x_test - mean) / sd),
        y_test,
    )
    torch.set_num_threads(threads)


def trained(
    images, mask, name: str, transition: Transition, *, rate: float, epochs: int, seed: int
) -> list[np.ndarray]:
    """Logits on the images to validate on, after every epoch."""
    import torch

    from noracle.learn.losses import LOSSES as TABLE
    from noracle.learn.models import make_model

    x, _, x_test, _ = images
    loss = TABLE[name]
    context = loss.make_context(transition, ruled_out=mask)
    generator = torch.Generator().manual_seed(seed + 1)
    model = make_model("mlp", shape=(784,), n_outputs=10, seed=seed)
    optimiser = torch.optim.Adam(model.parameters(), lr=rate, fused=True)
    found = []
    for _ in range(epochs):
        for rows in torch.randperm(len(x), generator=generator).split(256):
            optimiser.zero_grad(set_to_none=True)
            loss(model(x[rows]), mask[rows], context).backward()
            optimiser.step()
        with torch.no_grad():
            found.append(model(x_test).numpy().astype(np.float64))
    return found


@pytest.fixture(scope="module")
def candidates(images) -> Candidates:
    """Three losses × five learning rates × three epochs, trained on labels with 5 % noise."""
    import torch

    from noracle.learn.losses import label_mask

    _, y, _, y_test = images
    transition = Transition.noisy(10, NOISE)
    mask = label_mask(
        torch.tensor(draw_ruled_out(y, transition=transition, rng=np.random.default_rng(1))), 10
    )
    runs = [
        trained(images, mask, name, transition, rate=rate, epochs=3, seed=1)
        for name in LOSSES
        for rate in RATES
    ]
    return Candidates(np.stack([z for run in runs for z in run]), y_test, transition)


def loss_tables(candidates: Candidates) -> np.ndarray:
    """The loss of every candidate on every image for every label it could have, through the code
    that is tested.
    """
    from noracle.learn.scores import item_losses

    n = len(candidates.truth)
    tables = []
    for z in candidates.logits:
        columns = [
            item_losses(z, RuledOut(said=np.full((n, 1), k), n_classes=10), candidates.transition)
            for k in range(10)
        ]
        tables.append(np.stack(columns, axis=1))
    return np.stack(tables)


@pytest.mark.slow
def test_the_model_chosen_by_ruled_out_labels_is_nearly_the_best(candidates: Candidates) -> None:
    """Mean regret of 300 choices among 45 candidates, 6,000 labels with 5 % noise: 2.5 points
    (zero-one), 1.2 points (scel).

    The figures belong to these candidates. Four sets of first weights and labels gave 2.2, 1.8,
    2.0, 1.2 (zero-one) and 0.8, 1.0, 0.7, 0.8 (scel). With pixels that were not standardised two
    sets gave 1.4, 1.6 and 1.4, 1.8: scel picks well-founded chances, and near the top those are not
    always the most accurate.
    """
    accuracy, tables = candidates.accuracy, loss_tables(candidates)
    regret: dict[str, list[float]] = {
        "zero-one": [],
        "scel": [],
        "cross-entropy": [],
        "chance": [float(accuracy.max() - accuracy.mean())],
    }
    inverse = candidates.transition.inverse()
    shifted = candidates.logits - candidates.logits.max(axis=2, keepdims=True)
    surprise = np.log(np.exp(shifted).sum(axis=2, keepdims=True)) - shifted
    rng = np.random.default_rng(4)
    for _ in range(REPEATS):
        rows = rng.choice(len(candidates.truth), size=N, replace=False)
        said = draw_ruled_out(candidates.truth[rows], transition=candidates.transition, rng=rng)
        labels = RuledOut(said=said[:, None], n_classes=10)
        scores = [
            item_scores(a, labels, candidates.transition).mean()
            for a in candidates.answers[:, rows]
        ]
        picks = {
            "zero-one": int(np.argmax(scores)),
            "scel": int(np.argmin(tables[:, rows, said].mean(axis=1))),
            "cross-entropy": int(
                np.argmin(np.einsum("nk,cnk->c", inverse[said], surprise[:, rows]))
            ),
        }
        for name, pick in picks.items():
            regret[name].append(float(accuracy.max() - accuracy[pick]))
    means = {name: 100 * float(np.mean(values)) for name, values in regret.items()}
    assert means["chance"] > 8, means  # the task is not trivial
    assert means["zero-one"] <= 2.5, means
    assert means["scel"] <= 1.2, means
    assert means["cross-entropy"] > means["zero-one"], means


@pytest.mark.slow
def test_near_equals_among_the_candidates_are_not_separated_by_600_labels(
    candidates: Candidates,
) -> None:
    rng = np.random.default_rng(6)
    best, second = np.argsort(-candidates.accuracy)[:2]
    rows = rng.choice(len(candidates.truth), size=600, replace=False)
    said = draw_ruled_out(candidates.truth[rows], transition=candidates.transition, rng=rng)
    a, b = candidates.answers[best, rows], candidates.answers[second, rows]
    found = compare_models(a, b, said, transition=candidates.transition)
    assert found.differences[0].verdict == "not separable"
    assert "1 of 1 pairs cannot be separated with these labels" in found.notes


def zero_one_and_cross_entropy(
    logits: np.ndarray, truth: np.ndarray, transition: Transition, worlds: int, seed: int
) -> np.ndarray:
    """Resampled accuracy (ours) and "zero-one risk" coded as cross-entropy, at 6,000 labels."""
    rng = np.random.default_rng(seed)
    answers, inverse = logits.argmax(axis=1), transition.inverse()
    surprise = np.log(
        np.exp(logits - logits.max(axis=1, keepdims=True)).sum(axis=1, keepdims=True)
    ) - (logits - logits.max(axis=1, keepdims=True))
    found = []
    for _ in range(worlds):
        rows = rng.integers(len(truth), size=N)
        said = draw_ruled_out(truth[rows], transition=transition, rng=rng)
        labels = RuledOut(said=said[:, None], n_classes=len(inverse))
        ours = item_scores(answers[rows], labels, transition).mean()
        found.append((ours, float(np.einsum("nk,nk->n", inverse[said], surprise[rows]).mean())))
    return np.array(found)


@pytest.mark.slow
def test_zero_one_risk_is_not_cross_entropy(images) -> None:
    """The fault of the published code, on a supervised model: its "risk" swings tens of times as
    much as the accuracy, and below 0.
    """
    import torch

    _, y, _, y_test = images
    others = torch.ones(len(y), 10, dtype=torch.bool).scatter_(1, torch.tensor(y)[:, None], False)
    (*_, logits) = trained(
        images, others, "supervised", Transition.uniform(10), rate=1e-3, epochs=3, seed=1
    )
    accuracy = float((logits.argmax(axis=1) == y_test).mean())
    found = zero_one_and_cross_entropy(logits, y_test, Transition.uniform(10), 1000, 8)
    ours, other = found.std(axis=0, ddof=1)
    assert 0.82 < accuracy < 0.92
    assert abs(found[:, 0].mean() - accuracy) < 4 * ours / np.sqrt(1000)
    assert ours == pytest.approx(np.sqrt((accuracy + 8) * (1 - accuracy) / N), rel=0.15)
    assert 0.010 < ours < 0.018
    assert other > 15 * ours
    assert (found[:, 1] < 0).mean() > 0.05
