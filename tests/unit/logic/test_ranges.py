"""Ranges of accuracies: equal to brute force, never without the truth, and the published numbers."""

from __future__ import annotations

import itertools
import math
import time
from fractions import Fraction

import numpy as np
import pytest

from noracle.counts.sketch import Sketch
from noracle.errors import ArgumentError
from noracle.evidence import Evidence
from noracle.logic.ranges import exact_ends, range_accuracies, successor
from noracle.logic.spec import Spec
from noracle.results import Kind, Ranges, read_result
from tests.unit.logic.brute import Instance, _holds, random_instance, side_is_possible, tables
from tests.unit.logic.seed_table import BY_TRUTH, table_2


def brute_ranges(instance: Instance) -> dict[str, tuple[Fraction, Fraction] | None] | None:
    """Smallest and largest value of every quantity over all answer keys; None if no answer key
    satisfies the claims.
    """
    sketch, spec, prevalence = instance
    N, R = len(sketch.classifiers), len(sketch.labels)
    limits = {sketch.labels.index(label): b for label, b in (prevalence or {}).items()}
    found: dict[str, set[Fraction]] = {}
    any_key = False
    for vector in tables(sketch):
        right, answered, counts = vector[: N * R], vector[N * R : 2 * N * R], vector[2 * N * R :]
        if any(not low <= counts[r] <= high for r, (low, high) in limits.items()):
            continue
        if not all(_holds(s, sketch, right, answered) for s in spec.statements):
            continue
        any_key = True
        for i, c in enumerate(sketch.classifiers):
            parts = [(f"accuracy of {c} on {label}", [r]) for r, label in enumerate(sketch.labels)]
            for name, labels in [*parts, (f"grade of {c}", list(range(R)))]:
                all_ = sum(answered[i * R + r] for r in labels)
                values = found.setdefault(name, set())
                if all_:
                    values.add(Fraction(sum(right[i * R + r] for r in labels), all_))
    return {name: (min(v), max(v)) if v else None for name, v in found.items()} if any_key else None


def agrees_with_brute_force(seed: int) -> str:
    instance = random_instance(np.random.default_rng([7, seed]))
    if not side_is_possible(instance):
        with pytest.raises(ArgumentError, match="prevalence"):
            range_accuracies(instance.sketch, given=instance.spec, prevalence=instance.prevalence)
        return "contradiction"
    found = range_accuracies(instance.sketch, given=instance.spec, prevalence=instance.prevalence)
    expected = brute_ranges(instance)
    if expected is None:
        assert found.diagnostics["contradiction"], seed
        assert all(math.isnan(r.low) for r in found.ranges)
        return "alarm"
    for r in found.ranges:
        ends = expected[r.name]
        if ends is None:
            assert math.isnan(r.low), (seed, r.name)
            assert math.isnan(r.high), (seed, r.name)
        else:
            assert exact_ends(found, r.name) == ends, (seed, r.name)
    return "ranges"


@pytest.mark.full
def test_40_small_instances_equal_brute_force() -> None:
    found = [agrees_with_brute_force(seed) for seed in range(60)]
    assert found.count("ranges") >= 30
    assert found.count("alarm") >= 5


@pytest.mark.slow
def test_400_small_instances_equal_brute_force() -> None:
    found = [agrees_with_brute_force(seed) for seed in range(1000, 1600)]
    assert found.count("ranges") >= 300


# ------------------------------------------------------------------------------------------------------
# the truth is inside


def truth_is_inside(seed: int, *, exact: bool) -> None:
    rng = np.random.default_rng([8, seed])
    N, R, Q = int(rng.integers(2, 5)), int(rng.integers(2, 4)), int(rng.integers(5, 80))
    truth = rng.integers(0, R, Q)
    codes = np.where(
        rng.random((Q, N)) < rng.uniform(0.3, 1, N), truth[:, None], rng.integers(0, R, (Q, N))
    )
    if rng.random() < 0.5:
        codes[rng.random((Q, N)) < rng.uniform(0, 0.5)] = -1
    known = np.where(rng.random(Q) < rng.choice([0, 0.2]), truth, -1)
    sketch = Sketch.from_arrays(codes, labels=list(range(R)), known=known)
    counts = np.bincount(truth, minlength=R)
    prevalence = (
        {"0": (max(0, int(counts[0]) - 3), min(Q, int(counts[0]) + 3))}
        if rng.random() < 0.5
        else None
    )
    given = Spec(statements=())
    shares: dict[str, Fraction] = {}
    for i in range(N):
        for r in range(R):
            mine = (truth == r) & (codes[:, i] >= 0)
            if mine.any():
                shares[f"accuracy of {i} on {r}"] = Fraction(
                    int((codes[mine, i] == r).sum()), int(mine.sum())
                )
                value = shares[f"accuracy of {i} on {r}"]
                if i == 0 and value < 1 and rng.random() < 0.7:  # a true claim, right at its border
                    given = given & Spec.accuracy(value, of="0", on=str(r), strict=False)
        if (codes[:, i] >= 0).any():
            mine = codes[:, i] >= 0
            shares[f"grade of {i}"] = Fraction(
                int((codes[mine, i] == truth[mine]).sum()), int(mine.sum())
            )
    found = range_accuracies(
        sketch,
        given=given if given.statements else None,
        prevalence=prevalence,
        time_limit=0.5,
        exact=exact,
    )
    assert "contradiction" not in found.diagnostics, seed
    for name, value in shares.items():
        low, high = exact_ends(found, name)
        assert low <= value <= high, (seed, name)
        assert found[name].low <= float(value) <= found[name].high, (seed, name)


@pytest.mark.full
def test_truth_is_inside_the_ranges() -> None:
    for seed in range(40):
        truth_is_inside(seed, exact=seed % 2 == 0)


@pytest.mark.slow
def test_truth_is_inside_the_ranges_of_1000_worlds() -> None:
    for seed in range(1000, 2000):
        truth_is_inside(seed, exact=seed % 2 == 0)


# ------------------------------------------------------------------------------------------------------
# the published table


def test_table_2_with_two_trusted_graders() -> None:
    found = range_accuracies(
        table_2(), given={"Claude": "accuracy > 1/2", "GPT4": "accuracy > 1/2"}
    )
    assert found["accuracy of Mistral on A"].high == pytest.approx(0.142, abs=5e-4)
    assert found["grade of Mistral"].high == pytest.approx(0.420, abs=5e-4)
    assert found["accuracy of GPT4 on A"].low == pytest.approx(0.833, abs=5e-4)
    assert found["accuracy of Claude on A"].low == pytest.approx(0.520, abs=5e-4)
    assert found["accuracy of Claude on A"].high == pytest.approx(0.707, abs=5e-4)
    assert {
        e[f"{side} is"] for e in found.diagnostics["ends"].values() for side in ("low", "high")
    } == {"exact"}
    assert found.guarantee.kind is Kind.LOGICAL
    assert "the trusted claims are true" in {a.name for a in found.guarantee.assumptions}


def test_table_2_at_the_true_prevalence() -> None:
    found = range_accuracies(table_2(), prevalence={"A": (237, 237)})
    expected = {
        "accuracy of Claude on A": (0.430, 0.616),
        "accuracy of Mistral on A": (0, 0.114),
        "accuracy of GPT4 on A": (0.802, 0.987),
        "accuracy of Claude on B": (0, 1),
        "accuracy of Mistral on B": (0.386, 1),
        "accuracy of GPT4 on B": (0, 1),
    }
    for name, (low, high) in expected.items():
        assert (found[name].low, found[name].high) == pytest.approx((low, high), abs=5e-4), name
    for i, name in enumerate(("Claude", "Mistral", "GPT4")):
        share = Fraction(sum(n[0] for p, n in BY_TRUTH.items() if p[i] == "A"), 237)
        low, high = exact_ends(found, f"accuracy of {name} on A")
        assert low <= share <= high


def test_table_2_with_one_trusted_grader_and_a_range_of_prevalence() -> None:
    found = range_accuracies(
        table_2(), given={"Claude": "accuracy > 1/2"}, prevalence={"A": (200, 260)}
    )
    assert found["accuracy of Mistral on A"].high == pytest.approx(0.135, abs=5e-4)
    assert found["grade of Mistral"].high == pytest.approx(0.384, abs=5e-4)


def test_nothing_trusted_excludes_nothing() -> None:
    found = range_accuracies(table_2())
    assert all((r.low, r.high) == (0, 1) for r in found.ranges if r.name.startswith("accuracy"))


# ------------------------------------------------------------------------------------------------------
# honesty at the edges


def test_accuracy_on_an_absent_label_is_undefined_and_says_so() -> None:
    sketch = Sketch.from_arrays(
        [[0, 0], [1, 0]], labels=["a", "b"], classifiers=["x", "y"], known=[0, 0]
    )
    found = range_accuracies(sketch)
    assert math.isnan(found["accuracy of x on b"].low)
    assert "undefined" in found.reason
    assert found["accuracy of x on a"].low == found["accuracy of x on a"].high == 0.5
    assert read_result(found.to_dict()).to_dict() == found.to_dict()


def test_classifier_without_answers_has_no_range() -> None:
    sketch = Sketch.from_arrays([[0, -1], [1, -1]], labels=["a", "b"], classifiers=["x", "y"])
    assert math.isnan(range_accuracies(sketch)["grade of y"].high)


def test_trusting_an_alarmed_pair_is_a_contradiction_not_a_range() -> None:
    found = range_accuracies(
        table_2(), given={"Mistral": "accuracy > 1/2", "GPT4": "accuracy > 1/2"}
    )
    assert found.diagnostics["contradiction"] is True
    assert "no answer key satisfies the trusted claims" in found.reason
    assert all(math.isnan(r.low) for r in found.ranges)


@pytest.mark.full
def test_outer_bounds_contain_the_exact_ranges() -> None:
    for seed in range(6):
        rng = np.random.default_rng(seed)
        sketch = Sketch.from_arrays(
            rng.integers(-1, 3, (15, 3)), labels=["a", "b", "c"], classifiers=["x", "y", "z"]
        )
        given = {"x": "accuracy > 1/2"}
        exact, outer = (
            range_accuracies(sketch, given=given),
            range_accuracies(sketch, given=given, exact=False),
        )
        for a, b in zip(exact.ranges, outer.ranges, strict=True):
            assert b.low <= a.low <= a.high <= b.high or (math.isnan(a.low) and math.isnan(b.low))


def test_time_limit_is_kept_with_valid_outer_bounds() -> None:
    rng = np.random.default_rng(3)
    truth = rng.integers(0, 6, 4000)
    codes = np.where(rng.random((4000, 6)) < 0.75, truth[:, None], rng.integers(0, 6, (4000, 6)))
    sketch = Sketch.from_arrays(codes, labels=list(range(6)))
    started = time.monotonic()
    found = range_accuracies(sketch, given="accuracy > 0.6", time_limit=1.0)
    assert time.monotonic() - started < 3
    for i in range(6):
        low, high = exact_ends(found, f"grade of {i}")
        assert low <= Fraction(int((codes[:, i] == truth).sum()), 4000) <= high
    for ends in found.diagnostics["ends"].values():
        if "low attained" in ends and "high attained" in ends:
            low, inner, outer, high = (
                Fraction(ends[k]) for k in ("low", "low attained", "high attained", "high")
            )
            assert low <= inner <= outer <= high


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"given": {"nobody": "accuracy > 1/2"}}, "given must name classifiers"),
        ({"given": {"Claude": "accuracy of GPT4 > 1/2"}}, "must be about 'Claude'"),
        ({"only": "accuracy of Claude"}, "only must be a quantity"),
        ({"time_limit": 0}, "time_limit must be"),
        ({"prevalence": {"A": (5, 300)}}, "prevalence of 'A'"),
    ],
)
def test_bad_arguments_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        range_accuracies(table_2(), **options)  # type: ignore[arg-type]


def test_one_quantity_alone_is_the_same_as_among_all() -> None:
    given = {"Claude": "accuracy > 1/2", "GPT4": "accuracy > 1/2"}
    alone = range_accuracies(table_2(), given=given, only="grade of Mistral")
    assert isinstance(alone, Ranges)
    assert [r.name for r in alone.ranges] == ["grade of Mistral"]
    assert exact_ends(alone, "grade of Mistral") == (Fraction(26, 281), Fraction(118, 281))


def test_order_of_items_and_names_of_labels_change_nothing() -> None:
    rng = np.random.default_rng(4)
    truth = rng.integers(0, 3, 40)
    codes = np.where(rng.random((40, 3)) < 0.7, truth[:, None], rng.integers(-1, 3, (40, 3)))
    sketch = Sketch.from_arrays(codes, labels=["a", "b", "c"], classifiers=["x", "y", "z"])
    items, columns, turn = rng.permutation(40), [2, 0, 1], np.array([1, 2, 0, -1])
    other = Sketch.from_arrays(
        turn[codes[items][:, columns]], labels=["c", "a", "b"], classifiers=["z", "x", "y"]
    )
    given, prevalence = {"x": "accuracy > 1/2"}, {"b": (5, 20)}
    one, two = (
        range_accuracies(s, given=given, prevalence=prevalence, time_limit=300)
        for s in (sketch, other)
    )
    assert {r.name: (r.low, r.high) for r in one.ranges} == {
        r.name: (r.low, r.high) for r in two.ranges
    }


def test_names_that_would_collide_are_quoted() -> None:
    sketch = Sketch.from_counts(
        {("b on c", "c"): 2}, classifiers=["a", "a on b"], labels=["c", "b on c"]
    )
    found = range_accuracies(sketch, prevalence={"c": (1, 1)})
    assert len({r.name for r in found.ranges}) == 6
    assert found["accuracy of 'a' on 'b on c'"].high == 1
    assert found["accuracy of 'a on b' on 'c'"].high == 1


def test_ranges_are_found_by_system_and_label() -> None:
    evidence = Evidence.from_tables(
        answers={"item": [1, 1, 2, 2], "system": ["x", "gpt"] * 2, "answer": ["A", "A", "B", "A"]},
        judgements={"item": [1, 2], "class": ["A", "B"], "verdict": ["yes", "yes"]},
        classes=["A", "B"],
    )
    found = range_accuracies(evidence)
    assert found["gpt"] == found["grade of gpt"]
    assert (found["gpt"].low, found["gpt"].high) == (0.5, 0.5)
    assert found["gpt", "A"] == found["accuracy of gpt on A"]
    with pytest.raises(ArgumentError, match=r"or the name of a range; got 'gtp'. Known are .*gpt"):
        found["gtp"]
    counts = {("b on c", "c"): 2}
    quoted = range_accuracies(
        Sketch.from_counts(counts, classifiers=["a", "a on b"], labels=["c", "b on c"])
    )
    assert quoted["a", "b on c"].name == "accuracy of 'a' on 'b on c'"
    assert quoted["a on b"].name == "grade of 'a on b'"


def test_trusted_names_must_exist() -> None:
    with pytest.raises(ArgumentError, match=r"must name classifiers among .*Claude.*Mistral"):
        range_accuracies(table_2(), given="accuracy of nobody > 1/2")


def test_successor_is_the_next_fraction() -> None:
    for most in range(1, 13):
        fractions = sorted({Fraction(a, b) for b in range(1, most + 1) for a in range(b + 1)})
        for a, b in itertools.pairwise(fractions):
            assert successor(a, most) == b
