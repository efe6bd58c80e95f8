"""From rule-outs to a certificate, on generated images: the claim is proved, and it is true."""

from __future__ import annotations

import re

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
