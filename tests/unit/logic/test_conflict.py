"""Conflicts, least numbers of violators, and which item to check next."""

from __future__ import annotations

import itertools
import time
from fractions import Fraction

import numpy as np
import pytest

from noracle.counts.sketch import Sketch, count_decisions
from noracle.errors import ArgumentError
from noracle.evidence import Evidence
from noracle.logic.cascade import prove_malfunction, restricted
from noracle.logic.conflict import prove_conflict, range_violators
from noracle.logic.next_item import items_like, range_checks, with_known
from noracle.logic.spec import Spec
from noracle.results import Kind, read_result
from tests.unit.logic.brute import Instance, possible
from tests.unit.logic.seed_table import table_2


def test_conflict_of_table_2_is_mistral_and_gpt4() -> None:
    proof = prove_conflict(table_2(), "accuracy > 1/2")
    assert proof.status == "alarm"
    assert proof.diagnostics["conflict"] == ["Mistral", "GPT4"]
    assert proof.diagnostics["undecided"] == []
    assert proof.sketch["classifiers"] == ["Mistral", "GPT4"]
    assert proof.verify()
    assert read_result(proof.to_dict()).to_dict() == proof.to_dict()


def test_no_alarm_has_no_conflict() -> None:
    proof = prove_conflict(table_2(), "accuracy > 1/5")
    assert (proof.status, proof.diagnostics["conflict"], proof.verify()) == ("consistent", [], True)


def world(seed: int) -> tuple[Sketch, Spec]:
    rng = np.random.default_rng([11, seed])
    N, R, Q = 4, int(rng.integers(2, 4)), int(rng.integers(3, 7))
    codes = rng.integers(-1 if rng.random() < 0.3 else 0, R, (Q, N))
    known = np.where(rng.random(Q) < 0.2, rng.integers(0, R, Q), -1)
    sketch = Sketch.from_arrays(
        codes, labels=list("abc")[:R], classifiers=list("wxyz"), known=known
    )
    return sketch, Spec.accuracy(Fraction(int(rng.integers(3, 9)), 10)) & Spec.grade("1/2", of="w")


@pytest.mark.parametrize("seed", range(25))
def test_conflicts_and_violators_agree_with_brute_force(seed: int) -> None:
    sketch, spec = world(seed)
    subsets = [s for n in range(1, 5) for s in itertools.combinations(sketch.classifiers, n)]
    fine = {s for s in subsets if possible(Instance(sketch.of(s), restricted(spec, s), None))} | {
        ()
    }
    least = 4 - max(len(s) for s in fine)
    found = range_violators(sketch, spec)
    assert (found.ranges[0].low, found.ranges[0].high) == (least, least)
    violators = found.diagnostics["violators"]
    assert tuple(c for c in sketch.classifiers if c not in violators) in fine
    for conflict in found.diagnostics["conflicts"]:
        assert tuple(conflict) not in fine
    proof = prove_conflict(sketch, spec)
    core = proof.diagnostics["conflict"]
    assert bool(core) == (least > 0)
    if core:
        assert proof.verify()
        assert tuple(core) not in fine
        assert all(tuple(c for c in core if c != name) in fine for name in core)


def test_a_single_classifier_can_be_the_conflict() -> None:
    sketch = Sketch.from_arrays(
        [[0, 1], [0, 1], [1, 1]], labels=["a", "b"], classifiers=["x", "y"], known=[0, 0, 1]
    )
    proof = prove_conflict(sketch, "accuracy > 1/2")
    assert (proof.diagnostics["conflict"], proof.verify()) == (["y"], True)
    assert range_violators(sketch, "accuracy > 1/2").diagnostics["violators"] == ["y"]


def test_violators_need_claims_about_classifiers_that_exist() -> None:
    with pytest.raises(ArgumentError, match="must be about classifiers"):
        range_violators(table_2(), Spec.linear([(1, {}, "A")], at_least=3))
    with pytest.raises(ArgumentError, match="must name classifiers"):
        range_violators(table_2(), "accuracy > 1/2; accuracy of nobody > 1/2")


def test_conflict_keeps_its_time_limit() -> None:
    rng = np.random.default_rng(5)
    truth = rng.integers(0, 5, 2000)
    codes = np.where(
        rng.random((2000, 10)) < np.linspace(0.3, 0.9, 10),
        truth[:, None],
        rng.integers(0, 5, (2000, 10)),
    )
    sketch = Sketch.from_arrays(codes, labels=list(range(5)))
    for verb in (prove_conflict, range_violators):
        started = time.monotonic()
        verb(sketch, "accuracy > 0.7", time_limit=2.0)
        assert time.monotonic() - started < 5


# ------------------------------------------------------------------------------------------------------
# which item next


def pair(aa: int, ab: int, ba: int, bb: int) -> Sketch:
    counts = {("a", "a"): aa, ("a", "b"): ab, ("b", "a"): ba, ("b", "b"): bb}
    return Sketch.from_counts(counts, classifiers=["x", "y"], labels=["a", "b"])


def test_labels_that_settle_the_alarm_are_proved() -> None:
    sketch = pair(4, 3, 2, 4)
    found = range_checks(sketch, "accuracy > 0.7")
    fires = {}
    for row in found.diagnostics["rows"]:
        g = next(
            g
            for g, p in enumerate(sketch.patterns.tolist())
            if ["ab"[c] for c in p] == list(row["answers"].values())
        )
        for r, label in enumerate("ab"):
            after = prove_malfunction(with_known(sketch, g, r), "accuracy > 0.7")
            assert (label in row["fires"]) == (after.status == "alarm")
            fires[g, label] = after.status
    assert "alarm" in fires.values()
    assert len(found.ranges) == 4
    counts = [len(row["fires"]) for row in found.diagnostics["rows"]]
    assert counts == sorted(counts, reverse=True)
    assert found.guarantee.kind is Kind.HEURISTIC


def test_gain_for_a_range_is_how_much_it_shrinks() -> None:
    from noracle.logic.ranges import range_accuracies

    sketch, only = table_2().of(["Claude", "GPT4"]), "accuracy of Claude on A"
    found = range_checks(sketch, "accuracy > 0.6", only=only, most=2)
    assert len(found.ranges) == 2
    before = range_accuracies(sketch, given="accuracy > 0.6", only=only).ranges[0]
    for row in found.diagnostics["rows"]:
        said = tuple(row["answers"].values())
        g = next(
            g for g, p in enumerate(sketch.patterns.tolist()) if tuple("AB"[c] for c in p) == said
        )
        for r, label in enumerate("AB"):
            after = range_accuracies(
                with_known(sketch, g, r), given="accuracy > 0.6", only=only
            ).ranges[0]
            assert row["gain"][label] == pytest.approx(
                max(0, before.high - before.low - after.high + after.low), abs=1e-9
            )


def test_nothing_to_check_where_the_alarm_has_fired_or_all_is_known() -> None:
    assert "already" in range_checks(table_2(), "accuracy > 1/2").reason
    known = Sketch.from_arrays([[0, 0], [1, 1]], labels=["a", "b"], known=[0, 1])
    found = range_checks(known, "accuracy > 1/2")
    assert (found.ranges, found.reason) == ((), "every true label is known")


def test_items_with_the_pattern_are_found_without_those_already_judged() -> None:
    answers = {"item": [], "system": [], "answer": []}
    for item, (x, y) in enumerate([("a", "a"), ("a", "b"), ("a", "b"), ("b", "b"), ("a", None)]):
        answers["item"] += [item, item]
        answers["system"] += ["x", "y"]
        answers["answer"] += [x, y]
    evidence = Evidence.from_tables(
        answers=answers,
        judgements={"item": [1], "class": ["a"], "verdict": ["no"]},
        classes=["a", "b", "c"],
    )
    checks = range_checks(count_decisions(evidence, judgements="ignore"), "accuracy > 1/5")
    places = {tuple(row["answers"].values()): k for k, row in enumerate(checks.diagnostics["rows"])}
    assert items_like(evidence, checks, place=places["a", "b"]) == [2]
    assert items_like(evidence, checks, place=places["a", None]) == [4]
    assert items_like(evidence, checks, place=places["b", "b"]) == [3]
