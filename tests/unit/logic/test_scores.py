"""Scores by thresholds: verdicts at one threshold and at all are those of every true score."""

from __future__ import annotations

import importlib.util
import json
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from noracle import ArgumentError, Sketch, Spec, prove_malfunction
from noracle.results import read_result

SCRIPT = Path(__file__).parents[3] / "examples" / "check_proof.py"
LABELS = ["1", "2", "3", "4", "5"]


def script() -> Any:
    spec = importlib.util.spec_from_file_location("check_proof", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def scores(rng: np.random.Generator, n_items: int, n_judges: int, n_scores: int) -> np.ndarray:
    """Judges that err by some points, of whom some did not score."""
    truth = rng.integers(0, n_scores, n_items)
    noise = rng.normal(0, rng.uniform(0.2, 2.5, n_judges), (n_items, n_judges))
    codes = np.clip(np.rint(truth[:, None] + noise), 0, n_scores - 1).astype(np.int16)
    codes[rng.random(codes.shape) < 0.05] = -1
    return codes


def least_right(codes: np.ndarray, above: Fraction) -> list[int]:
    answered = (codes >= 0).sum(axis=0)
    return [min(int(n), math.floor(above * int(n)) + 1) for n in answered]


def can_hold(codes: np.ndarray, n_scores: int, above: Fraction, cuts: list[int]) -> bool:
    """Whether some true scores leave every judge on the right side often enough: all sums of what
    an item can bring, one item after the other.
    """
    least = np.tile(least_right(codes, above), len(cuts))
    sums = np.zeros((1, len(least)), dtype=np.int64)
    for row in codes:
        own = {
            tuple(int(a >= 0 and (a >= t) == (truth >= t)) for t in cuts for a in row)
            for truth in range(n_scores)
        }
        sums = np.unique(
            np.minimum(
                (sums[:, None] + np.array(sorted(own))[None]).reshape(-1, len(least)), least
            ),
            axis=0,
        )
    return bool((sums == least).all(axis=1).any())


def agree_with_brute_force(seeds: range) -> int:
    alarms, checker = 0, script()
    for seed in seeds:
        rng = np.random.default_rng([5, seed])
        n_scores, n_judges = int(rng.integers(3, 6)), int(rng.integers(2, 4))
        codes = scores(rng, int(rng.integers(3, 9)), n_judges, n_scores)
        if not (codes >= 0).sum(axis=1).max() > 1:
            continue
        labels = LABELS[:n_scores]
        sketch = Sketch.from_arrays(codes, labels=labels)
        above = Fraction(int(rng.integers(4, 10)), 10)
        single = {}
        for at, cuts in {
            **{labels[t]: [t] for t in range(1, n_scores)},
            "each": list(range(1, n_scores)),
        }.items():
            proof = prove_malfunction(sketch, f"grade at {at} > {above}", time_limit=60)
            expected = "consistent" if can_hold(codes, n_scores, above, cuts) else "alarm"
            assert proof.status == expected, (seed, at)
            if proof.certificate.get("kind") != "solver":
                values = json.loads(proof.to_json())
                assert proof.verify(), (seed, at)
                assert read_result(values).verify()  # type: ignore[union-attr]
                assert checker.check(values), (seed, at)
            single[at] = expected
            alarms += expected == "alarm"
        some = [said for at, said in single.items() if at != "each"]
        assert "alarm" not in some or single["each"] == "alarm"
    return alarms


def test_thresholds_are_those_of_every_true_score() -> None:
    assert agree_with_brute_force(range(8)) > 3


@pytest.mark.full
@pytest.mark.parametrize("part", range(5))
def test_more_thresholds_are_those_of_every_true_score(part: int) -> None:
    assert agree_with_brute_force(range(100 + 25 * part, 125 + 25 * part)) > 10


def test_one_threshold_is_the_grade_of_scores_cut_there() -> None:
    rng = np.random.default_rng(1)
    codes = scores(rng, 60, 3, 5)
    for t in range(1, 5):
        cut = np.where(codes < 0, -1, (codes >= t).astype(np.int16))
        for above in ("0.7", "0.8", "0.9"):
            one = prove_malfunction(
                Sketch.from_arrays(codes, labels=LABELS), f"grade at {LABELS[t]} > {above}"
            )
            two = prove_malfunction(
                Sketch.from_arrays(cut, labels=["below", "above"]), f"grade > {above}"
            )
            assert one.status == two.status


def test_thresholds_share_one_true_score() -> None:
    """x says 1 and y says 3: with x right about 2 and y right about 3, no score is left."""
    sketch = Sketch.from_counts({("1", "3"): 10}, classifiers=["x", "y"], labels=LABELS[:3])
    claims = ("grade at 2 of x > 0.9", "grade at 3 of y > 0.9")
    assert {prove_malfunction(sketch, c).status for c in claims} == {"consistent"}
    together = prove_malfunction(sketch, "; ".join(claims))
    assert together.status == "alarm"
    assert together.verify()


@pytest.mark.thin(5)
@pytest.mark.parametrize("world", range(10))
def test_no_alarm_where_the_claims_are_true(world: int) -> None:
    """All statements for all thresholds hold together: logic needs no correction."""
    for seed in range(50):
        rng = np.random.default_rng([6, world, seed])
        n_scores, n = int(rng.integers(3, 6)), int(rng.integers(1, 40))
        truth = rng.integers(0, n_scores, n)
        noise = rng.normal(0, rng.uniform(0.1, 2, 3), (n, 3))
        codes = np.clip(np.rint(truth[:, None] + noise), 0, n_scores - 1).astype(np.int16)
        sketch = Sketch.from_arrays(codes, labels=LABELS[:n_scores])
        cuts = np.arange(1, n_scores)
        right = (codes[:, :, None] >= cuts) == (truth[:, None] >= cuts)[:, None]
        least = [Fraction(int(k), n) for k in right.sum(axis=0).min(axis=0)]
        claims = [f"grade at {LABELS[t]} >= {x}" for t, x in zip(cuts, least, strict=True) if x < 1]
        if min(least) < 1:
            claims.append(f"grade at each >= {min(least)}")
        if claims:
            for spec in (*claims, "; ".join(claims)):
                proof = prove_malfunction(sketch, spec)
                assert proof.status == "consistent"
                assert proof.verify()


@pytest.mark.parametrize(
    ("labels", "claim", "said"),
    [
        (["1", "3", "2"], "grade at 2 > 1/2", "ascending order"),
        (["1", "2", "3"], "grade at 1 > 1/2", "must be a threshold among"),
        (["1", "2", "3"], "grade at 9 > 1/2", "must be a threshold among"),
        (["1", "2", "3"], "accuracy at 2 > 1/2", "must not come with a threshold"),
    ],
)
def test_what_is_no_threshold_is_refused(labels: list[str], claim: str, said: str) -> None:
    codes = np.array([[0, 1], [2, 2]], dtype=np.int16)
    with pytest.raises(ArgumentError, match=said):
        prove_malfunction(Sketch.from_arrays(codes, labels=labels), claim)


def test_claims_at_thresholds_are_read_and_written() -> None:
    spec = Spec.parse("grade at 4 of 'a b' >= 0.8; grade at each > 1/2")
    assert Spec.from_list(json.loads(json.dumps(spec.to_list()))) == spec
    assert Spec.parse(str(spec)) == spec
    assert [("at" in s) for s in Spec.parse("grade > 1/2").to_list()] == [False]
