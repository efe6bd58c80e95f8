"""From rule-outs to a certificate, on generated images: the claim is proved, and it is true."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the learn extra is not installed")
pytest.importorskip("sklearn", reason="the learn extra is not installed")

import certificate_from_rule_outs as example
import numpy as np

from noracle.errors import ArgumentError
from noracle.evidence import Ratings
from noracle.superhuman import certify_superhuman, recorded_training


@pytest.mark.full
def test_the_claim_is_proved_and_true(capsys: pytest.CaptureFixture[str]) -> None:
    assert example.main([]) == 0
    out = capsys.readouterr().out
    assert "CERTIFIED    difference +0.0" in out
    assert "verified by other code: True" in out
    assert "chosen: T estimated" in out
    noise = float(re.search(r"T estimated .* wrong labels ([\d.]+)%", out).group(1))  # type: ignore[union-attr]
    assert abs(noise - 2) < 1.5
    right, theirs = map(
        float, re.search(r"right for ([\d.]+), the average annotation for ([\d.]+)", out).groups()
    )  # type: ignore[union-attr]
    assert right > theirs + 0.1


def test_no_true_label_is_seen_before_the_end() -> None:
    """The key of the images to certify on is not in what models and certificate get."""
    world = example.generated(0, n=50, n_others=40)
    assert len(world.sealed) == len(world.others) == len(world.people) == 40
    assert len(world.images) == len(world.ruled_out) == 50
    assert (world.people == world.sealed[:, None]).mean() < 0.95


def test_a_run_whose_labels_came_from_the_annotators_is_refused() -> None:
    rng = np.random.default_rng(0)
    table = {
        "item": np.repeat(np.arange(400), 3),
        "rater": np.tile(["ann", "bob", "cid"], 400),
        "label": np.where(rng.random(1200) < 0.3, rng.integers(0, 4, 1200), 0),
    }
    answers = {"item": np.arange(400), "system": ["m"] * 400, "answer": np.zeros(400, dtype=int)}
    ratings = Ratings.from_tables(table, answers, labels=range(4))

    def certificate(said_by, stated="unknown"):
        word = recorded_training(ratings, said_by, stated=stated)
        return certify_superhuman(ratings, trained_on_annotators=word)

    machine = certificate(["a machine"])
    assert machine.certified
    assumed = {a.name: (a.status, a.detail) for a in machine.guarantee.assumptions}
    six = next(value for name, value in assumed.items() if "(6)" in name)
    assert six == ("assumed", "stated: not trained on these annotators")
    refused = certificate(["bob", "a machine"])
    assert not refused.certified
    assert "the system was trained on these annotators" in refused.reasons[0]
    with pytest.raises(ArgumentError, match="got 'no', and labels of bob in the record"):
        certificate(["bob"], stated="no")
    assert not certificate(None).certified  # without a record it must be stated
    assert certificate(None, stated="no").certified
    assert not certificate(["a machine"], stated="yes").certified
    votes = Ratings.from_votes({"item": [0, 0], "label": [0, 1], "n": [2, 1]}, labels=[0, 1])
    with pytest.raises(ArgumentError, match="raters have names"):
        recorded_training(votes, ["a machine"])


@pytest.mark.full
def test_how_good_a_system_must_be_to_be_certified_against_three_people() -> None:
    """The figures of the page: 10,000 images of CIFAR-10N, systems that are made from the key."""
    folder = Path(os.environ.get("NORACLE_DATA", "nowhere"))
    if not (folder / "cifar10_train.npz").is_file():
        pytest.skip("cifar10_train.npz is not in NORACLE_DATA")
    file = np.load(folder / "cifar10_train.npz")
    people, key = file["annotators"][40_000:].astype(int), file["label"][40_000:].astype(int)
    n, items = len(key), np.arange(len(key))
    counts = (people[:, :, None] == np.arange(10)).sum(axis=1)
    vote = counts == counts.max(axis=1, keepdims=True)
    vote = vote / vote.sum(axis=1, keepdims=True)
    assert vote[items, key].mean() == pytest.approx(0.91, abs=1e-3)
    assert counts.max(axis=1).mean() / 3 == pytest.approx(0.848, abs=5e-4)
    assert (people == key[:, None]).mean() == pytest.approx(0.823, abs=5e-4)
    rng = np.random.default_rng(0)
    place, other = rng.permutation(n) / n, (key + rng.integers(1, 10, n)) % 10

    def certificate(chance):
        answers = np.where(place < chance, key, other)
        table = {"item": np.repeat(items, 3), "rater": np.tile(["a", "b", "c"], n)}
        made = {"item": items, "system": ["m"] * n, "answer": answers}
        ratings = Ratings.from_tables({**table, "label": people.ravel()}, made, labels=range(10))
        match = vote[items, answers].mean()
        found = certify_superhuman(ratings, trained_on_annotators="no", confidence=0.95)
        return found, float(match), float((answers == key).mean())

    found, match, _ = certificate(0.90)
    assert not found.certified
    assert match == pytest.approx(0.82, abs=2e-3)
    assert found.value == pytest.approx(-0.028, abs=2e-3)
    assert certificate(0.93)[1] == pytest.approx(0.848, abs=3e-3)
    assert not certificate(0.935)[0].certified
    assert certificate(0.945)[0].certified
    hard, _, right = certificate(np.where(vote[items, key] == 1, 0.95, 0.5))
    assert hard.certified
    assert right == pytest.approx(0.90, abs=5e-3)
    assert hard.verify()
