from __future__ import annotations

import math
import sys
from typing import get_args

import numpy as np
import pytest

from noracle.errors import ArgumentError, EvidenceError, GuaranteeWarning, MissingExtra
from noracle.logic.crowd import CrowdMethod, estimate_with_crowd
from noracle.results import Estimate, Guarantee, Kind, Range, Ranges

TABLE_2 = {"aaa": 12, "aab": 0, "aba": 121, "baa": 14, "bba": 87, "bab": 1, "abb": 13, "bbb": 33}
GRADERS = {tuple(p): n for p, n in TABLE_2.items()}
NAMES = ["Claude", "Mistral", "GPT4"]


@pytest.fixture(scope="module")
def crowd() -> None:
    pytest.importorskip("crowdkit", reason="the extra crowd is not installed")


@pytest.fixture(scope="module")
def fitted(crowd: None) -> tuple[Estimate, ...]:
    return estimate_with_crowd(GRADERS, systems=NAMES)


def ranges(**limits: tuple[float, float]) -> Ranges:
    found = tuple(
        Range(name=name.replace("_", " "), low=low, high=high)
        for name, (low, high) in limits.items()
    )
    return Ranges(
        ranges=found, method="test", guarantee=Guarantee(kind=Kind.LOGICAL, error_rate=0.0)
    )


def by_name(estimates: tuple[Estimate, ...]) -> dict[tuple[str, str], Estimate]:
    return {(e.subject, e.quantity): e for e in estimates}


def expectation_maximisation(counts: dict[tuple[str, ...], int]) -> np.ndarray:
    """Dawid and Skene's steps written out: accuracies of each classifier (rows) on each label
    (columns).
    """
    x = np.array([["ab".index(v) for v in p] for p in counts])
    n = np.array(list(counts.values()), dtype=float)
    p = np.stack([(x == 0).mean(axis=1), (x == 1).mean(axis=1)], axis=1)
    for _ in range(2000):
        prior = (n[:, None] * p).sum(axis=0) / n.sum()
        errors = np.array(
            [
                [
                    [(n * p[:, t])[x[:, i] == v].sum() / (n * p[:, t]).sum() for t in (0, 1)]
                    for v in (0, 1)
                ]
                for i in range(3)
            ]
        )
        like = prior * np.prod([errors[i][x[:, i]] for i in range(3)], axis=0)
        p = like / like.sum(axis=1, keepdims=True)
    return np.array([[errors[i][t][t] for t in (0, 1)] for i in range(3)])


@pytest.mark.full
def test_dawid_skene_fails_silently_on_table_2(fitted: tuple[Estimate, ...]) -> None:
    """GPT4 on label b: nearly always right by the model, right on 21 of 44 by the key, and no sign
    of it without the ranges.
    """
    found = by_name(fitted)
    assert found["GPT4", "accuracy on b"].value > 0.99
    assert pytest.approx(0.477, abs=5e-4) == (1 + 2 + 18) / 44
    assert found["GPT4", "accuracy on b"].guarantee.kind is Kind.HEURISTIC
    assert "shared errors" in found["GPT4", "accuracy on b"].notes[0]


@pytest.mark.full
def test_dawid_skene_is_the_maximum_likelihood_fit(fitted: tuple[Estimate, ...]) -> None:
    found = by_name(fitted)
    wanted = expectation_maximisation({p: n for p, n in GRADERS.items() if n})
    for i, name in enumerate(NAMES):
        for t, label in enumerate("ab"):
            assert found[name, f"accuracy on {label}"].value == pytest.approx(
                wanted[i, t], abs=0.005
            )


@pytest.mark.full
@pytest.mark.usefixtures("crowd")
def test_a_fit_that_has_not_settled_says_so(fitted: tuple[Estimate, ...]) -> None:
    early = by_name(estimate_with_crowd(GRADERS, systems=NAMES, n_iter=100))[
        "GPT4", "accuracy on b"
    ]
    assert early.value == pytest.approx(0.725, abs=5e-4)
    assert any("had not settled after 100 steps" in note for note in early.notes)
    assert not any("settled" in note for e in fitted for note in e.notes)


@pytest.mark.thin(4)
@pytest.mark.usefixtures("crowd")
@pytest.mark.parametrize("method", get_args(CrowdMethod))
def test_every_method_finds_independent_classifiers(method: CrowdMethod) -> None:
    rng = np.random.default_rng(0)
    truth = rng.random(300) < 0.5
    right = rng.random((300, 5)) < 0.85
    said = np.where(right, truth[:, None], ~truth[:, None])
    counts: dict[tuple[object, ...], int] = {}
    for row in said.tolist():
        counts[tuple(row)] = counts.get(tuple(row), 0) + 1
    found = estimate_with_crowd(counts, method=method, n_iter=5 if method == "mace" else 20)  # type: ignore[arg-type]
    assert len(found) == 5 * 3
    for i, e in enumerate(e for e in found if e.quantity == "accuracy"):
        assert e.value == pytest.approx(right[:, i].mean(), abs=0.08)
        assert (e.low, e.high, e.interval) == (0.0, 1.0, "none")


@pytest.mark.full
@pytest.mark.usefixtures("crowd")
def test_values_outside_their_range_are_warned_about() -> None:
    limits = ranges(
        accuracy_of_GPT4_on_b=(0.0, 0.6),
        accuracy_of_GPT4_on_a=(0.8, 1.0),
        grade_of_Claude=(0.7, 1.0),
    )
    with pytest.warns(
        GuaranteeWarning, match=r"accuracy on b of GPT4: 0\.725 is not in \[0\.000, 0\.600\]"
    ) as caught:
        found = by_name(estimate_with_crowd(GRADERS, systems=NAMES, ranges=limits, n_iter=100))
    assert len(caught) == 1
    assert "accuracy of Claude: 0.621" in str(caught[0].message)
    wrong, fine = found["GPT4", "accuracy on b"], found["GPT4", "accuracy on a"]
    assert (wrong.low, wrong.high, wrong.interval) == (0.0, 0.6, "logical range")
    assert wrong.diagnostics["inside_range"] is False
    assert fine.diagnostics["inside_range"] is True
    assert "Mistral" not in str(caught[0].message)


@pytest.mark.usefixtures("crowd")
def test_values_inside_their_ranges_are_not_warned_about() -> None:
    limits = ranges(accuracy_of_GPT4_on_b=(0.0, 1.0))
    assert len(estimate_with_crowd(GRADERS, systems=NAMES, ranges=limits, method="majority")) == 9


def test_ranges_about_something_else_are_an_error() -> None:
    with pytest.raises(ArgumentError, match="ranges must have names such as"):
        estimate_with_crowd(GRADERS, ranges=ranges(accuracy_of_GPT4_on_b=(0.0, 1.0)))


@pytest.mark.usefixtures("crowd")
def test_no_answers_are_left_out_and_the_unknown_is_nan() -> None:
    counts = {
        ("a", None, "a"): 30,
        ("b", None, "b"): 20,
        (None, None, None): 5,
        ("a", None, "b"): 1,
    }
    found = by_name(
        estimate_with_crowd(
            counts, systems=["x", "y", "z"], labels=["a", "b", "c"], method="majority"
        )
    )
    assert math.isnan(found["y", "accuracy"].value)
    assert found["y", "accuracy"].reason == "the system answered no item"
    assert math.isnan(found["x", "accuracy on c"].value)
    assert found["x", "accuracy"].counts["items"] == 51
    for e in found.values():
        assert Estimate.from_dict(e.to_dict()).to_dict() == e.to_dict()


@pytest.mark.usefixtures("crowd")
def test_order_of_patterns_and_names_of_labels_change_nothing() -> None:
    first = [e.value for e in estimate_with_crowd(GRADERS, n_iter=10)]
    other = {tuple({"a": 10, "b": 20}[x] for x in p): n for p, n in reversed(GRADERS.items())}
    assert [e.value for e in estimate_with_crowd(other, n_iter=10)] == pytest.approx(first)


def test_without_the_extra_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "crowdkit", None)
    monkeypatch.setitem(sys.modules, "crowdkit.aggregation", None)
    with pytest.raises(MissingExtra, match=r"pip install 'noracle\[crowd\]'"):
        estimate_with_crowd(GRADERS)


def test_bad_arguments_are_named() -> None:
    with pytest.raises(ArgumentError, match="method must be one of"):
        estimate_with_crowd(GRADERS, method="magic")  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="3 different names"):
        estimate_with_crowd(GRADERS, systems=["x", "y"])
    with pytest.raises(ArgumentError, match="n_iter"):
        estimate_with_crowd(GRADERS, n_iter=0)
    with pytest.raises(EvidenceError, match="at least one item"):
        estimate_with_crowd({("a", None): 0, ("b", "a"): 0})
