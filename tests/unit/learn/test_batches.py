from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the learn extra is not installed")

from scipy import sparse  # noqa: E402

from noracle.errors import ArgumentError, EvidenceError  # noqa: E402
from noracle.learn.batches import Batches, Loader, as_tensor, random_runs  # noqa: E402
from noracle.learn.loop import Settings, all_logits, train  # noqa: E402
from noracle.learn.models import make_model  # noqa: E402

CPU = torch.device("cpu")


@pytest.fixture
def file(tmp_path):
    """1,003 items of which the first number is the place, on the disk."""
    values = np.random.default_rng(0).normal(size=(1003, 5)).astype(np.float32)
    values[:, 0] = np.arange(1003)
    np.save(tmp_path / "x.npy", values)
    return np.load(tmp_path / "x.npy", mmap_mode="r")


def places(items, labels, weight):
    """The places in a batch, after checking that items, labels and weights belong together."""
    assert torch.equal(items[:, 0].long(), labels)
    assert weight is None or torch.equal(weight, labels.float() + 1)
    return labels


def one_epoch(loader: Loader, seed: int = 0) -> list[torch.Tensor]:
    parts = loader.parts(torch.Generator().manual_seed(seed))
    return [places(*part.take(order)) for part, order in parts]


def test_blocks_hold_every_item_once_with_its_own_label_and_weight(file) -> None:
    data = Batches(
        items=file, labels=torch.arange(1003), weight=torch.arange(1003) + 1.0, limit=0, block=100
    )
    loader = Loader(data, CPU, 32)
    parts = one_epoch(loader)
    assert [len(p) for p in parts] == loader.lengths() == [128] * 7 + [107]
    assert torch.equal(torch.cat(parts).sort().values, torch.arange(1003))
    assert not torch.equal(torch.cat(parts), torch.cat(one_epoch(loader, 1)))
    assert all(len(p.unique()) == len(p) and (p.sort().values != p).any() for p in parts)
    assert parts[0].max() - parts[0].min() > 500


def test_no_block_is_a_small_rest(file) -> None:
    loader = Loader(
        Batches(items=file[:902], labels=torch.arange(902), limit=0, block=100), CPU, 32
    )
    parts = one_epoch(loader)
    assert [len(p) for p in parts] == loader.lengths() == [128] * 6 + [67, 67]
    assert torch.equal(torch.cat(parts).sort().values, torch.arange(902))


def test_blocks_stay_in_one_place(file) -> None:
    loader = Loader(Batches(items=file, labels=torch.arange(1003), limit=0, block=100), CPU, 32)
    generator = torch.Generator().manual_seed(0)
    where = {
        (part.items.data_ptr(), part.labels.data_ptr())
        for _ in range(2)
        for part, _ in loader.parts(generator)
    }
    assert len(where) == 1


def test_where_items_lie_decides_whether_they_are_read_by_blocks(file) -> None:
    labels = torch.arange(1003)
    assert Batches(items=file, labels=labels).resident(CPU)
    assert not Batches(items=file, labels=labels, limit=file.nbytes - 1).resident(CPU)
    assert Batches(items=np.array(file), labels=labels, limit=0).resident(CPU)
    assert Batches(items=torch.tensor(np.array(file)), labels=labels, limit=0).resident(CPU)
    assert not Batches(items=sparse.csr_matrix(file), labels=labels).resident(CPU)


def test_memory_for_blocks_is_bounded(tmp_path) -> None:
    values = np.lib.format.open_memmap(
        tmp_path / "wide.npy", mode="w+", dtype=np.uint8, shape=(600, 1 << 20)
    )
    loader = Loader(Batches(items=values, labels=torch.arange(600), limit=0), CPU, 16)
    assert loader.block == 256
    assert loader.run == 1


@pytest.mark.parametrize("kind", ["memmap", "sparse", "float64", "tensor"])
def test_training_gives_the_same_whatever_the_items_are(file, kind: str) -> None:
    """A file that fits is resident, and sparse rows become the same dense ones."""
    items = {
        "memmap": file,
        "sparse": sparse.csc_matrix(file),
        "float64": np.array(file, np.float64),
        "tensor": torch.tensor(np.array(file)),
    }[kind]

    def objective(model, items, labels, weight):
        return nn_loss(model(items / 1003), labels % 3)

    nn_loss = torch.nn.functional.cross_entropy
    models = [make_model("mlp", shape=(5,), n_outputs=3, hidden=(8,), seed=0) for _ in range(2)]
    for model, given in zip(models, (torch.tensor(np.array(file)), items), strict=True):
        train(
            model,
            Batches(items=given, labels=torch.arange(1003)),
            objective,
            Settings(epochs=2, batch_size=64),
        )
    assert all(
        torch.equal(a, b)
        for a, b in zip(models[0].parameters(), models[1].parameters(), strict=True)
    )
    assert torch.equal(
        all_logits(models[0], items, batch_size=100),
        all_logits(models[0], torch.tensor(np.array(file)), batch_size=100),
    )


def test_training_on_blocks_takes_as_many_steps_and_learns(tmp_path) -> None:
    rng = np.random.default_rng(1)
    y = np.arange(2000) // 500  # sorted by class: the worst case for blocks
    np.save(
        tmp_path / "sorted.npy", (rng.normal(size=(2000, 4)) + 3 * np.eye(4)[y]).astype(np.float32)
    )
    items = np.load(tmp_path / "sorted.npy", mmap_mode="r")
    model = make_model("linear", shape=(4,), n_outputs=4, seed=0)
    calls = []

    def objective(model, items, labels, weight):
        calls.append(len(items))
        return torch.nn.functional.cross_entropy(model(items), labels)

    data = Batches(items=items, labels=torch.tensor(y), limit=0, block=256)
    history = train(
        model, data, objective, Settings(epochs=8, batch_size=64, lr=0.05, schedule="cosine")
    )
    assert len(calls) == 8 * 32
    assert sum(calls) == 8 * 2000
    assert history.column("lr")[-1] < 1e-5
    assert (all_logits(model, items).argmax(dim=1) == torch.tensor(y)).double().mean() > 0.9


@pytest.mark.parametrize(("n", "run"), [(1, 1), (10, 3), (10, 10), (10, 99), (64, 8)])
def test_random_runs_are_a_permutation_of_runs(n: int, run: int) -> None:
    rows = random_runs(n, run, torch.Generator().manual_seed(0))
    assert torch.equal(rows.sort().values, torch.arange(n))
    starts = rows[(rows % run == 0)]
    assert sorted(starts.tolist()) == list(range(0, n, run))
    assert int((rows.diff() != 1).sum()) <= -(-n // run) - 1


def test_read_only_and_wide_numbers_become_plain_tensors(file) -> None:
    assert as_tensor(file).dtype == torch.float32
    assert as_tensor(np.ones((2, 2))).dtype == torch.float32
    assert as_tensor(np.ones((2, 2), np.uint8)).dtype == torch.uint8
    assert as_tensor(torch.ones(2, dtype=torch.float64)).dtype == torch.float32


def test_faults_are_named() -> None:
    x = torch.zeros(3, 2)
    with pytest.raises(EvidenceError, match="items must have at least one row; got none"):
        Batches(items=x[:0], labels=x[:0])
    with pytest.raises(EvidenceError, match=r"labels must have one row per item \(3\); got 2 rows"):
        Batches(items=x, labels=x[:2])
    with pytest.raises(
        EvidenceError, match=r"weight must be finite and not negative; got -1.0 at items 1, 2"
    ):
        Batches(items=x, labels=x, weight=torch.tensor([1.0, -1.0, torch.nan]))
    with pytest.raises(EvidenceError, match="weight must be positive somewhere"):
        Batches(items=x, labels=x, weight=torch.zeros(3))
    with pytest.raises(ArgumentError, match="block must be positive; got 0"):
        Batches(items=x, labels=x, block=0)
