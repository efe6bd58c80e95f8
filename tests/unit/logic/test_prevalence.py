"""Traces over a prevalence and the largest claim without an alarm: the published windows, brute
force, and time limits.
"""

from __future__ import annotations

import time

import numpy as np
import pytest

from noracle.counts.sketch import Sketch
from noracle.errors import ArgumentError
from noracle.logic.cascade import Claims, Decided, prove_malfunction
from noracle.logic.prevalence import range_prevalence, range_threshold
from noracle.logic.program import Row
from noracle.results import Kind, read_result
from tests.unit.logic.brute import Instance, possible, random_instance, side_is_possible
from tests.unit.logic.seed_table import BY_TRUTH, GRADERS, table_2


def flipped() -> Sketch:
    """Table 2 with the answers of Mistral on true A and of GPT4 on true B reversed."""
    other = {"A": "B", "B": "A"}
    counts: dict[tuple[object, ...], int] = {}
    for (claude, mistral, gpt4), by_truth in BY_TRUTH.items():
        for truth, n in zip("AB", by_truth, strict=True):
            pattern = (
                claude,
                other[mistral] if truth == "A" else mistral,
                other[gpt4] if truth == "B" else gpt4,
            )
            counts[pattern] = counts.get(pattern, 0) + n
    return Sketch.from_counts(counts, classifiers=GRADERS, labels=["A", "B"])


def windows(sketch: Sketch, spec: str = "accuracy > 1/2", label: str = "A") -> list[list[int]]:
    found = range_prevalence(sketch, spec, label=label)
    assert found.diagnostics["undecided"] == []
    assert [[r.low, r.high] for r in found.ranges] == found.diagnostics["possible"]
    possible: list[list[int]] = found.diagnostics["possible"]
    return possible


@pytest.mark.parametrize(
    ("graders", "expected"),
    [(GRADERS[:2], [[12, 53]]), (GRADERS[::2], [[188, 281]]), (GRADERS[1:], []), (GRADERS, [])],
)
def test_windows_of_table_2(graders: tuple[str, ...], expected: list[list[int]]) -> None:
    assert windows(table_2().of(graders)) == expected


def test_window_of_the_flipped_table() -> None:
    assert windows(flipped()) == [[184, 281]]


def test_trace_without_a_window_says_alarm() -> None:
    found = range_prevalence(table_2(), "accuracy > 1/2", label="A")
    assert found.ranges == ()
    assert found.reason.startswith("alarm")
    assert found.guarantee.kind is Kind.LOGICAL


def test_trace_of_1111_is_1_and_3() -> None:
    counts = {("a", "a"): 1, ("a", "b"): 1, ("b", "a"): 1, ("b", "b"): 1}
    assert windows(
        Sketch.from_counts(counts, classifiers=["x", "y"], labels=["a", "b"]), label="a"
    ) == [[1, 1], [3, 3]]


@pytest.mark.parametrize("seed", range(40))
def test_traces_equal_brute_force(seed: int) -> None:
    instance = random_instance(np.random.default_rng([9, seed]))
    sketch, spec, prevalence = instance
    if not side_is_possible(instance):
        with pytest.raises(ArgumentError, match="prevalence"):
            range_prevalence(sketch, spec, label="a", prevalence=prevalence)
        return
    low, high = (prevalence or {}).get("a", (0, sketch.n_items))
    found = range_prevalence(sketch, spec, label="a", prevalence=prevalence)
    expected = {
        q
        for q in range(low, high + 1)
        if possible(Instance(sketch, spec, {**(prevalence or {}), "a": (q, q)}))
    }
    assert {q for a, b in found.diagnostics["possible"] for q in range(a, b + 1)} == expected
    assert read_result(found.to_dict()).to_dict() == found.to_dict()


def test_what_is_undecided_is_not_excluded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cascade that cannot decide any interval of more than one number, nor the number 20."""

    def weak(claims: Claims, part: float = 1.0, *more: Row) -> Decided:
        low, high = claims.bounds["A"]
        if low <= 20 <= high and high - low < 5:
            return Decided("undecided")
        return real(claims, part, *more)

    real = Claims.ask
    monkeypatch.setattr(Claims, "ask", weak)
    found = range_prevalence(table_2().of(GRADERS[:2]), "accuracy > 1/2", label="A")
    covered = [[r.low, r.high] for r in found.ranges]
    assert covered == [[12, 53]]
    assert any(
        a <= 20 <= b for a, b in found.diagnostics["undecided"] + found.diagnostics["possible"]
    )


def test_large_windows_have_exact_ends_and_no_search_for_holes() -> None:
    counts = {
        p: 100 * n
        for p, n in zip(
            [("A", "A"), ("A", "B"), ("B", "A"), ("B", "B")], (133, 13, 101, 34), strict=True
        )
    }
    sketch = Sketch.from_counts(counts, classifiers=["Claude", "GPT4"], labels=["A", "B"])
    started = time.monotonic()
    found = range_prevalence(sketch, "accuracy > 1/2", label="A")
    assert time.monotonic() - started < 10
    (window,) = found.ranges
    for q in (int(window.low), int(window.high)):
        assert (
            prove_malfunction(sketch, "accuracy > 1/2", prevalence={"A": (q, q)}).status
            == "consistent"
        )
    assert (
        prove_malfunction(
            sketch, "accuracy > 1/2", prevalence={"A": (0, int(window.low) - 1)}
        ).status
        == "alarm"
    )
    assert window.high == sketch.n_items
    assert found.diagnostics["undecided"]


# ------------------------------------------------------------------------------------------------------
# the largest claim


@pytest.mark.parametrize(
    ("graders", "full", "axioms", "grade"),
    [
        (GRADERS[:2], 0.523, 0.574, 0.733),
        (GRADERS[::2], 0.640, 0.685, 0.797),
        (GRADERS[1:], 0.259, 0.262, 0.626),
        (GRADERS, 0.259, 0.262, 0.626),
    ],
)
def test_thresholds_of_table_2(
    graders: tuple[str, ...], full: float, axioms: float, grade: float
) -> None:
    sketch = table_2().of(graders)
    for expected, found in (
        (full, range_threshold(sketch)),
        (axioms, range_threshold(sketch, axioms=True)),
        (grade, range_threshold(sketch, kind="grade")),
    ):
        (border,) = found.ranges
        assert border.low == pytest.approx(expected, abs=1e-9)
        assert border.high == pytest.approx(expected + 0.001, abs=1e-9)
        assert found.diagnostics["decided"] is True


def test_threshold_of_classifiers_that_agree_is_one() -> None:
    sketch = Sketch.from_arrays([[0, 0], [1, 1]], labels=["a", "b"])
    (border,) = range_threshold(sketch, denominator=10).ranges
    assert (border.low, border.high) == (0.9, 1.0)


def test_threshold_of_a_classifier_that_is_known_to_be_wrong_is_undefined() -> None:
    sketch = Sketch.from_arrays([[0, 1]], labels=["a", "b"], known=[0])
    found = range_threshold(sketch)
    assert np.isnan(found.ranges[0].low)
    assert "alarm at every claim" in found.reason


def test_threshold_without_time_brackets_the_border() -> None:
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 5, (3000, 8))
    started = time.monotonic()
    found = range_threshold(Sketch.from_arrays(codes, labels=list(range(5))), time_limit=0.5)
    assert time.monotonic() - started < 3
    assert 0 <= found.ranges[0].low < found.ranges[0].high <= 1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda s: range_prevalence(s, "accuracy > 1/2", label="C"), "label must be one of"),
        (lambda s: range_threshold(s, kind="both"), "kind must be"),
        (lambda s: range_threshold(s, denominator=1), "denominator must be"),
        (lambda s: range_threshold(s, kind="grade", axioms=True), "axioms must go with"),
        (lambda s: range_threshold(s, time_limit=-1), "time_limit must be"),
    ],
)
def test_bad_arguments_are_refused(call: object, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        call(table_2())  # type: ignore[operator]
