"""Traps around certificates in the paper's own code and in practice, each with the number that it
gave.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from noracle.counts.ratings import RatingCounts
from noracle.results import Certificate
from noracle.superhuman.assumptions import check_assumptions
from noracle.superhuman.certify import TESTS, certify_superhuman
from noracle.superhuman.published import certify_published, hms_score, oms_score


def squared_slack(match_rate: float, ceiling: float, n: int, margin: float = 0.0) -> float:
    """What the published script computes: slacks are squared whatever their sign, and the first one
    adds the margin.
    """
    upper = (match_rate - ceiling + margin) / 2
    lower = match_rate - margin - math.sqrt(max(upper + ceiling**2, 0.0))
    return 1 - math.exp(-2 * n * upper**2) - math.exp(-2 * n * lower**2)


def test_the_published_script_certifies_a_worse_system_and_we_do_not() -> None:
    assert squared_slack(0.80, 0.879, 10_000) == pytest.approx(1.0, abs=1e-4)
    assert hms_score(0.80, 0.879, 10_000) == oms_score(0.80, 0.879, 10_000) == -1.0
    for test in ("exact", "paper-hms", "paper-oms"):
        result = certify_published(
            0.80,
            0.879**2,
            10_000,
            5,
            test=test,
            ceiling="paper-empirical",
            trained_on_annotators="no",
        )  # type: ignore[arg-type]
        assert not result.certified
        assert result.attained == 0.0


def test_a_margin_above_the_difference_is_not_certified() -> None:
    """Difference 0.04, margin 0.06: the published script prints 1.0."""
    assert squared_slack(0.919, 0.879, 100_000, margin=0.06) == pytest.approx(1.0, abs=1e-3)
    assert (
        hms_score(0.919, 0.879, 100_000, margin=0.06)
        == oms_score(0.919, 0.879, 100_000, margin=0.06)
        == -1.0
    )
    for test in ("exact", "paper-hms", "paper-oms"):
        result = certify_published(
            0.919,
            0.879**2,
            100_000,
            5,
            margin=0.06,
            test=test,
            ceiling="paper-empirical",
            trained_on_annotators="no",  # type: ignore[arg-type]
        )
        assert not result.certified
        assert result.attained == 0.0


@pytest.mark.parametrize("test", TESTS)
def test_one_rating_an_item_says_nothing(test: str) -> None:
    counts = RatingCounts.from_arrays([[0]] * 10_000, labels=2, answers={"agent": [0] * 10_000})
    result = certify_superhuman(counts, test=test, trained_on_annotators="no")
    assert not result.certified
    assert result.diagnostics["ceiling"] == 1.0


@pytest.fixture(scope="module")
def cifar(data_folder: Path) -> tuple[np.ndarray, np.ndarray]:
    data = np.load(data_folder / "cifar10_train.npz")
    return data["label"].astype(int), data["annotators"].astype(int)


def simulated(truth: np.ndarray, annotators: np.ndarray, accuracy: float) -> np.ndarray:
    """A system with this accuracy whose errors are drawn from human confusions."""
    rng = np.random.default_rng(0)
    drawn = np.empty_like(truth)
    for k in range(10):
        labels = annotators[truth == k].ravel()
        drawn[truth == k] = rng.choice(labels[labels != k], size=int((truth == k).sum()))
    return np.where(rng.random(len(truth)) < accuracy, truth, drawn)


def test_ties_broken_toward_the_system_lift_its_match_rate(
    cifar: tuple[np.ndarray, np.ndarray],
) -> None:
    """A .949 system on CIFAR-10N: 0.8656 with ties that do not see it, 0.9021 with ties broken
    toward it.
    """
    truth, annotators = cifar
    answers = simulated(truth, annotators, 0.949)
    counts = RatingCounts.from_arrays(annotators, labels=10, answers={"agent": answers})
    toward = counts.hits("agent").sum() / len(truth)
    assert toward == pytest.approx(0.9021, abs=0.004)
    for ties in ("share", "random"):
        fair = certify_superhuman(counts, ties=ties, trained_on_annotators="no")  # type: ignore[arg-type]
        assert fair.diagnostics["match_rate"] == pytest.approx(0.8656, abs=0.004)
        assert fair.diagnostics["tied_share"] == pytest.approx(0.061, abs=0.001)
        assert fair.diagnostics["ceiling"] == pytest.approx(0.8476, abs=1e-4)
        assert fair.diagnostics["match_rate"] <= 0.949


def copying_world(copies: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Annotators right 0.75 of the time whose errors go together; a system that copies their vote
    on a share of the items.
    """
    rng = np.random.default_rng(seed)
    n = 6000
    truth = rng.integers(4, size=n)
    lure, hard = (truth + 1) % 4, rng.random((n, 1)) < 0.35
    right = rng.random((n, 5)) < np.where(hard, 0.35, 0.97)
    ratings = np.where(right, truth[:, None], lure[:, None])
    vote = np.array([np.bincount(row, minlength=4).argmax() for row in ratings])
    own = np.where(rng.random(n) < 0.8, truth, rng.integers(4, size=n))
    return truth, ratings, np.where(rng.random(n) < copies, vote, own)


def certificate(ratings: np.ndarray, answers: np.ndarray, **options: object) -> Certificate:
    return certify_superhuman(
        RatingCounts.from_arrays(ratings, labels=4, answers={"agent": answers}), **options
    )  # type: ignore[arg-type]


def test_a_copying_system_looks_superhuman_and_only_known_answers_show_it() -> None:
    truth, ratings, answers = copying_world(copies=1.0)
    accuracy, people = float((answers == truth).mean()), float((ratings == truth[:, None]).mean())
    looks = certificate(ratings, answers, trained_on_annotators="no")
    assert looks.diagnostics["match_rate"] == 1.0 > accuracy
    assert looks.certified  # the statement was false
    assert looks.value > accuracy - people  # more than is true
    stated = certificate(ratings, answers, trained_on_annotators="yes")
    assert not stated.certified
    known = np.where(np.arange(len(truth)) < 600, truth, -1)
    check = check_assumptions(ratings, known, system="agent", answers={"agent": answers})
    assert not check.passed
    assert not check.diagnostics["supported"]
    for trained in ("yes", "no"):
        caught = certificate(ratings, answers, trained_on_annotators=trained, check=check)
        assert not caught.certified
        assert "(6) was checked on known answers and fails" in " ".join(caught.reasons)


def test_half_copying_puts_the_match_rate_above_the_accuracy() -> None:
    truth, ratings, answers = copying_world(copies=0.5)
    assert certificate(ratings, answers).diagnostics["match_rate"] > (answers == truth).mean()


def test_an_honest_system_trained_on_annotators_is_certified_only_with_known_answers() -> None:
    rng = np.random.default_rng(9)
    truth = rng.integers(4, size=6000)
    easy = rng.beta(5, 2, size=(6000, 1))
    ratings = np.where(
        rng.random((6000, 5)) < easy,
        truth[:, None],
        (truth[:, None] + rng.integers(1, 4, size=(6000, 5))) % 4,
    )
    answers = np.where(rng.random(6000) < 0.97, truth, (truth + 2) % 4)
    known = np.where(np.arange(6000) < 900, truth, -1)
    check = check_assumptions(ratings, known, system="agent", answers={"agent": answers})
    assert check.diagnostics["supported"]
    result = certificate(ratings, answers, trained_on_annotators="yes", check=check)
    assert result.certified
    assert result.diagnostics["match_rate"] <= (answers == truth).mean()
    assert result.low <= (answers == truth).mean() - (ratings == truth[:, None]).mean()
    assert not certificate(ratings, answers, trained_on_annotators="yes").certified


# -------------------------------------------------------------------------------------------------
# Algorithm 2: a hundred gradient steps stop short of the top


def steps(match_rate: float, ceiling: float, n: int, times: int = 100) -> float:
    """S after gradient steps of 1e-4 on t_u from half of the margin, as printed below Algorithm 2."""
    upper = (match_rate - ceiling) / 2
    for _ in range(times):
        root = math.sqrt(upper + ceiling**2)
        lower = match_rate - root
        up, down = (4 * n * t * math.exp(-2 * n * t**2) for t in (upper, lower))
        upper += 1e-4 * (up - down / (2 * root))
    lower = match_rate - math.sqrt(upper + ceiling**2)
    return 1 - sum(math.exp(-2 * n * t**2) for t in (upper, lower))


@pytest.mark.parametrize(
    ("match_rate", "ceiling", "n", "printed"),
    [(0.971, 0.939, 1821, 0.6208), (0.899, 0.879, 10_000, 0.9267), (0.919, 0.879, 10_000, 0.9999)],
)
def test_a_hundred_gradient_steps_give_the_printed_scores(
    match_rate: float, ceiling: float, n: int, printed: float
) -> None:
    assert steps(match_rate, ceiling, n) == pytest.approx(printed, abs=1e-4)
    assert steps(match_rate, ceiling, n) <= oms_score(match_rate, ceiling, n) + 1e-12


def test_a_hundred_gradient_steps_leave_25_times_the_error_of_the_top() -> None:
    best, stopped = oms_score(0.919, 0.879, 10_000), steps(0.919, 0.879, 10_000)
    assert best == pytest.approx(0.999996, abs=1e-6)
    assert (1 - stopped) / (1 - best) == pytest.approx(25.0, abs=0.5)
    assert steps(0.919, 0.879, 10_000, times=100_000) == pytest.approx(best, abs=1e-9)
