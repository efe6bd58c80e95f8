"""Verification: certificates hold, tampered ones do not, and the second code agrees with references
of its own.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from noracle.counts.ratings import RatingCounts
from noracle.errors import EvidenceError
from noracle.results import Certificate
from noracle.superhuman import verify as retest
from noracle.superhuman.certify import TESTS, certify_superhuman
from noracle.superhuman.difference import CEILINGS, bound_at, statistic_at
from noracle.superhuman.published import certify_published


def world(rng: np.random.Generator) -> RatingCounts:
    """Random ratings: any number of labels and raters, missing ones, ties, silent systems."""
    labels, raters, n = (
        int(rng.integers(2, 5)),
        int(rng.integers(1, 6)),
        int(rng.choice([1, 2, 7, 40, 300])),
    )
    truth = rng.integers(labels, size=n)
    ratings = np.where(
        rng.random((n, raters)) < rng.uniform(0.4, 1),
        truth[:, None],
        rng.integers(labels, size=(n, raters)),
    )
    if rng.random() < 0.3:
        ratings[rng.random((n, raters)) < 0.3] = -1
    answers = np.where(rng.random(n) < rng.uniform(0.6, 1), truth, rng.integers(-1, labels, size=n))
    return RatingCounts.from_arrays(ratings, labels=labels, answers={"agent": answers})


def ceilings_of(test: str) -> tuple[str | None, ...]:
    return (
        CEILINGS
        if test == "binomial"
        else ("paper", "paper-empirical")
        if test.startswith("paper")
        else (None,)
    )


@pytest.mark.parametrize("test", TESTS)
def test_every_certificate_verifies(test: str) -> None:
    rng = np.random.default_rng(11)
    verified = 0
    for seed in range(12):
        counts = world(rng)
        for ceiling in ceilings_of(test):
            for ties in (None,) if test == "binomial" else ("share", "random"):
                options: dict[str, Any] = {
                    "test": test,
                    "ceiling": ceiling,
                    "ties": ties,
                    "seed": seed,
                }
                options |= {
                    "margin": float(rng.choice([0, 0.01, 0.1])),
                    "confidence": float(rng.choice([0.6, 0.9, 0.99])),
                }
                try:
                    result = certify_superhuman(counts, trained_on_annotators="no", **options)
                except EvidenceError:
                    continue
                assert result.verify(), (seed, options)
                verified += 1
    assert verified >= 8


def numbers(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where there are numbers and truth values."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from numbers(inner, (*path, key))
    elif isinstance(value, list):
        for i, inner in enumerate(value):
            yield from numbers(inner, (*path, i))
    elif isinstance(value, (bool, int, float)):
        yield path


def tampered(data: dict[str, Any], path: tuple[Any, ...]) -> dict[str, Any]:
    changed = copy.deepcopy(data)
    place: Any = changed
    for step in path[:-1]:
        place = place[step]
    old = place[path[-1]]
    place[path[-1]] = (
        (not old)
        if isinstance(old, bool)
        else old + 1
        if isinstance(old, int)
        else old * 1.01 + 1e-4
    )
    return changed


COUNTS = RatingCounts.from_arrays(
    [[0, 0, 0]] * 60 + [[0, 0, 1]] * 30 + [[0, 1, 2]] * 10,
    labels=3,
    answers={"agent": [0] * 94 + [1] * 5 + [-1]},
)


@pytest.mark.parametrize("test", TESTS)
@pytest.mark.parametrize("confidence", [0.6, 0.95])
def test_tampering_with_any_number_is_found(test: str, confidence: float) -> None:
    made = certify_superhuman(
        COUNTS, test=test, ties="random", seed=3, trained_on_annotators="no", confidence=confidence
    )
    data = made.to_dict()
    assert Certificate.from_dict(data).verify()
    places = list(numbers(data))
    assert len(places) > 20
    for path in places:
        assert not Certificate.from_dict(tampered(data, path)).verify(), path


@pytest.mark.parametrize("test", ["exact", "paper-hms", "paper-oms"])
def test_tampering_with_published_figures_is_found(test: str) -> None:
    made = certify_published(
        0.93, 0.8, 900, 5, n_classes=3, digits=3, test=test, trained_on_annotators="no"
    )  # type: ignore[arg-type]
    data = made.to_dict()
    assert Certificate.from_dict(data).verify()
    for path in numbers(data):
        assert not Certificate.from_dict(tampered(data, path)).verify(), path


@pytest.mark.parametrize(
    "change",
    [
        {"trained_on_annotators": "no"},
        {"ties": "random"},
        {"test": "t"},
        {"rows": []},
        {"rows": [[1, 1, 4, 3, 100]]},
        {"rows": [[1, 1, 3, 3, 0.5]]},
        {"kind": "published"},
    ],
)
def test_changed_statements_are_found(change: dict[str, Any]) -> None:
    data = certify_superhuman(COUNTS, trained_on_annotators="unknown").to_dict()
    data["inputs"] |= change
    assert not Certificate.from_dict(data).verify()


def test_a_verdict_cannot_be_turned() -> None:
    refused = certify_superhuman(COUNTS, trained_on_annotators="unknown").to_dict()
    for change in ({"certified": True}, {"certified": True, "reasons": []}, {"reasons": []}):
        assert not Certificate.from_dict({**refused, **change}).verify()


def test_missing_inputs_are_refused_without_an_error() -> None:
    data = certify_superhuman(COUNTS, trained_on_annotators="no").to_dict()
    for key in data["inputs"]:
        less = {**data, "inputs": {k: v for k, v in data["inputs"].items() if k != key}}
        assert not Certificate.from_dict(less).verify(), key


def test_the_stored_certificate_of_an_earlier_version_verifies() -> None:
    path = Path(__file__).parents[2] / "reference" / "schemas" / "certificate-1.json"
    assert Certificate.from_dict(json.loads(path.read_text(encoding="utf-8"))).verify()


# ----------------------------------------------------------------------------------------------------------
# the second code itself


def test_second_tails_equal_scipy() -> None:
    from scipy.stats import binom, t

    for n, s, p in (
        (10, 3, 0.2),
        (10, 9, 0.95),
        (500, 480, 0.9),
        (100_000, 90_500, 0.9),
        (7, 0, 0.3),
        (7, 7, 0.999),
        (1000, 1, 1e-5),
    ):
        assert retest.upper_tail(s, n, p) == pytest.approx(float(binom.sf(s - 1, n, p)), rel=1e-9)
    for x, df in ((-3.0, 4), (0.0, 4), (2.5, 99), (-12.0, 3000)):
        assert retest.student_tail(x, df) == pytest.approx(float(t.cdf(x, df)), rel=1e-9)


def test_second_wealth_is_a_product() -> None:
    items = [(1, Fraction(1, 3), 3), (1, Fraction(-1, 3), 2), (1, Fraction(0), 4)]
    weights = np.array([1 / (j + 3) for j in range(30)])
    fractions = 2.0 ** (-np.arange(30) / 2)
    wealth = sum(
        w / weights.sum() * np.prod([(1 + f * (float(z) - 0.05) / 1.05) ** n for _, z, n in items])
        for w, f in zip(weights, fractions, strict=True)
    )
    assert retest.log_wealth(items, 0.05) == pytest.approx(np.log(wealth), abs=1e-12)


@pytest.mark.parametrize("name", CEILINGS)
@pytest.mark.parametrize("k", [2, 3, 5, 20])
def test_ceilings_and_their_inverses_agree(name: str, k: int) -> None:
    least = 0.0 if name != "plurality" else 1 / k
    for mean in np.linspace(least, 1, 41):
        bound = bound_at(name, float(mean), k)  # type: ignore[arg-type]
        assert retest.ceiling_at(name, float(mean), k) == pytest.approx(bound, abs=1e-12)
        assert statistic_at(name, bound, k) == pytest.approx(mean, abs=1e-9)  # type: ignore[arg-type]
