"""estimate_accuracy: what it refuses, what it says, and the ways in which it must not be fooled."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from noracle import (
    AccuracyCounts,
    ArgumentError,
    EvidenceError,
    GuaranteeWarning,
    estimate_accuracy,
)
from noracle.bounds.binomial import clopper_pearson
from noracle.counts import Cell, Tally
from noracle.results import Kind

COUNTS = AccuracyCounts.from_counts(n_classes=10, ordinary=(300, 235), complementary=(2700, 2634))


def questions(
    rng: np.random.Generator, n: int, groups: tuple[tuple[int, float, float], ...]
) -> AccuracyCounts:
    """One uniform question an item; groups are (number of classes, accuracy, share)."""
    tallies: dict[Tally, int] = {}
    items: dict[Cell, int] = {}
    sizes = rng.multinomial(n, [share for _, _, share in groups])
    for (k, rate, _), size in zip(groups, sizes.tolist(), strict=True):
        yes = rng.binomial(size, 1 / k)
        right, ruled = rng.binomial(yes, rate), rng.binomial(size - yes, (1 - rate) / (k - 1))
        tallies[Tally("s", k, "yes", True)] = int(right)
        tallies[Tally("s", k, "yes", False)] = int(yes - right)
        tallies[Tally("s", k, "no", True, n_ruled_out=1, ruled_hit=True)] = int(ruled)
        tallies[Tally("s", k, "no", False, n_ruled_out=1)] = int(size - yes - ruled)
        items[Cell("s", k)] = size
    return AccuracyCounts(
        tallies={t: c for t, c in tallies.items() if c}, items=items, answered=dict(items)
    )


@pytest.mark.thin(2)
@pytest.mark.parametrize(
    ("method", "interval"),
    [("scores", "betting"), ("ordinary", "betting"), ("complementary", "betting"), ("ml", "exact")],
)
def test_verdicts_that_go_with_the_number_of_classes_do_not_bias(
    method: str, interval: str
) -> None:
    """Yes is said 17 times as often on the easy items; a bet on yes alone would be lost every time."""
    rng = np.random.default_rng(1)
    misses = 0
    for _ in range(60):
        estimate = estimate_accuracy(
            questions(rng, 2000, ((3, 0.95, 0.5), (50, 0.2, 0.5))), method=method, interval=interval
        )  # type: ignore[arg-type]
        misses += not estimate.low <= 0.575 <= estimate.high
    assert misses <= 9


@pytest.mark.full
def test_mean_of_scores_is_unbiased_over_numbers_of_classes() -> None:
    rng = np.random.default_rng(2)
    values = [
        estimate_accuracy(
            questions(rng, 2000, ((3, 0.95, 0.5), (20, 0.2, 0.5))), method="scores"
        ).value
        for _ in range(200)
    ]
    assert np.mean(values) == pytest.approx(0.575, abs=4 * float(np.std(values)) / math.sqrt(200))


def test_shares_of_strata_are_uncertain_beyond_these_items() -> None:
    """Right on all items of one kind and wrong on all of the other: only their shares are unknown."""
    rng = np.random.default_rng(3)
    misses = 0
    for _ in range(300):
        n = int(rng.binomial(400, 0.5))
        counts = AccuracyCounts.from_counts(n_classes=4, ordinary=(n, n), n_items=n)
        counts += AccuracyCounts.from_counts(n_classes=5, ordinary=(400 - n, 0), n_items=400 - n)
        known, beyond = (estimate_accuracy(counts, population=p) for p in ("answers", "beyond"))
        misses += not beyond.low <= 0.5 <= beyond.high
        assert known.low == known.high == pytest.approx(n / 400)
    assert misses <= 22


def test_answered_share_of_a_sequence_is_a_sequence_too() -> None:
    counts = AccuracyCounts.from_counts(n_classes=4, ordinary=(70, 60), n_without_answer=30)
    for interval in ("anytime", "betting"):
        estimate = estimate_accuracy(counts, interval=interval, population="beyond")  # type: ignore[arg-type]
        assert estimate.guarantee.anytime
        assert estimate.high > 0.7 * 1.12
    sequence = estimate_accuracy(counts, interval="anytime", population="beyond")
    assert sequence.width > estimate_accuracy(counts, interval="exact", population="beyond").width


def test_weights_are_refused_for_items_beyond_these() -> None:
    heavy = AccuracyCounts.from_counts(n_classes=4, ordinary=(30, 20), weight=5.0)
    with pytest.raises(ArgumentError, match="weights differ"):
        estimate_accuracy(COUNTS + heavy, population="beyond")


def test_strata_labelled_at_different_rates_are_weighted_by_their_share_of_the_items() -> None:
    """Every item of one kind labelled and hardly any of the other: a mean over all labels is not
    that of the population.
    """
    rare = AccuracyCounts.from_counts(n_classes=4, ordinary=(100, 90), n_items=100)
    common = AccuracyCounts.from_counts(n_classes=10, ordinary=(100, 20), n_items=10_000)
    truth = (100 * 0.9 + 10_000 * 0.2) / 10_100
    for interval in ("auto", "betting", "fixed-n"):
        estimate = estimate_accuracy(rare + common, interval=interval)  # type: ignore[arg-type]
        assert estimate.guarantee.kind == Kind.FINITE_SAMPLE
        assert estimate.value == pytest.approx(truth)
        assert estimate.low <= truth <= estimate.high
        assert not estimate.guarantee.anytime


def test_stratum_without_labels_contributes_everything() -> None:
    counts = AccuracyCounts.from_counts(
        n_classes=4, ordinary=(500, 500), stratum="a"
    ) + AccuracyCounts.from_counts(n_classes=4, n_items=500, stratum="b")
    for interval in ("exact", "anytime", "betting"):
        estimate = estimate_accuracy(counts, interval=interval)  # type: ignore[arg-type]
        assert estimate.low == pytest.approx(0.5, abs=0.02)
        assert estimate.high == 1.0
        assert any("no label" in note for note in estimate.notes)


@pytest.mark.parametrize("interval", ["exact", "anytime", "betting", "wald", "profile"])
@pytest.mark.filterwarnings("ignore::noracle.GuaranteeWarning")
def test_no_items_say_nothing(interval: str) -> None:
    estimate = estimate_accuracy(AccuracyCounts.from_counts(n_classes=4), interval=interval)  # type: ignore[arg-type]
    assert (estimate.low, estimate.high) == (0.0, 1.0)
    assert math.isnan(estimate.value)
    assert estimate.reason == "no items"


@pytest.mark.parametrize("population", ["answers", "beyond"])
def test_system_that_answers_nothing_is_wrong_everywhere(population: str) -> None:
    estimate = estimate_accuracy(
        AccuracyCounts.from_counts(n_classes=4, n_without_answer=50), population=population
    )  # type: ignore[arg-type]
    assert estimate.value == 0.0
    assert estimate.low == 0.0
    assert estimate.high == (
        0.0 if population == "answers" else pytest.approx(1 - 0.025 ** (1 / 50))
    )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"method": "mle"}, "method must be one of"),
        ({"interval": "clopper"}, "interval must be one of"),
        (
            {"method": "scores", "interval": "exact"},
            "interval must be one of fixed-n, betting, wald",
        ),
        ({"method": "ml", "interval": "theorem2"}, "interval must be one of"),
        (
            {"method": "ml", "transition": [[0.0, 1.0], [1.0, 0.0]]},
            "method must be 'scores' with a transition matrix",
        ),
        ({"method": "weighted", "weight": 1.5}, r"weight must be in \[0, 1\]"),
        ({"false_no": 0.6, "false_yes": 0.5}, "below 1"),
        ({"false_no": 0.1, "interval": "betting", "method": "ml"}, "verdicts can be wrong"),
        ({"side": "both"}, "side must be"),
        ({"confidence": 95}, "confidence must be in"),
    ],
)
def test_meaningless_requests_are_refused(options: dict[str, object], words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        estimate_accuracy(COUNTS, **options)  # type: ignore[arg-type]


def test_system_must_be_named_where_there_are_several() -> None:
    other = AccuracyCounts.from_counts(n_classes=10, system="other", ordinary=(10, 5))
    with pytest.raises(EvidenceError, match="system must be named"):
        estimate_accuracy(COUNTS + other)
    with pytest.raises(EvidenceError, match="system must be one of"):
        estimate_accuracy(COUNTS + other, system="nobody")
    assert estimate_accuracy(COUNTS + other, system="other").value == 0.5


def test_more_labelled_than_answered_items_are_refused() -> None:
    broken = dataclasses.replace(COUNTS, answered={Cell("system", 10): 10})
    with pytest.raises(EvidenceError, match="more labelled than answered"):
        estimate_accuracy(broken)


def test_wald_warns_near_the_ends_and_is_silent_inside() -> None:
    assert estimate_accuracy(COUNTS, interval="wald").guarantee.kind == Kind.ASYMPTOTIC
    with pytest.warns(GuaranteeWarning, match="unreliable"):
        estimate_accuracy(
            AccuracyCounts.from_counts(n_classes=4, ordinary=(50, 49)), interval="wald"
        )


def test_one_sided_limits_spend_everything_on_one_side() -> None:
    for interval in ("exact", "betting", "profile", "wald", "anytime"):
        both = estimate_accuracy(COUNTS, interval=interval)  # type: ignore[arg-type]
        lower = estimate_accuracy(COUNTS, interval=interval, side="lower")  # type: ignore[arg-type]
        upper = estimate_accuracy(COUNTS, interval=interval, side="upper")  # type: ignore[arg-type]
        assert (lower.high, upper.low) == (1.0, 0.0)
        assert lower.low >= both.low - 1e-9
        assert upper.high <= both.high + 1e-9


def test_estimated_error_rates_widen_the_interval_and_add_their_error() -> None:
    said = {
        Tally("s", 4, "yes", True): 150,
        Tally("s", 4, "yes", False): 60,
        Tally("s", 4, "no", True, n_ruled_out=1, ruled_hit=True): 50,
        Tally("s", 4, "no", False, n_ruled_out=1): 540,
    }
    counts = AccuracyCounts(tallies=said, items={Cell("s", 4): 800}, answered={Cell("s", 4): 800})
    rate = estimate_accuracy(AccuracyCounts.from_counts(n_classes=2, ordinary=(200, 10)))
    known = estimate_accuracy(counts, false_no=rate.value)
    joined = estimate_accuracy(counts, false_no=rate)
    assert joined.low <= known.low
    assert joined.high >= known.high
    assert joined.width > known.width
    assert joined.guarantee.error_rate == pytest.approx(0.10)
    assert joined.confidence == pytest.approx(0.90)


def test_error_rates_are_refused_without_the_question_protocol() -> None:
    with pytest.raises(ArgumentError, match=r"question protocol.* no yes at all"):
        estimate_accuracy(
            AccuracyCounts.from_counts(n_classes=4, complementary=(50, 40)), false_no=0.1
        )
    sets = {Tally("s", 4, "no", False, n_ruled_out=2): 50}
    counts = AccuracyCounts(tallies=sets, items={Cell("s", 4): 50}, answered={Cell("s", 4): 50})
    with pytest.raises(ArgumentError, match=r"question protocol.* other labels"):
        estimate_accuracy(counts, false_no=0.1)


@pytest.mark.full
@pytest.mark.timing
def test_exact_keeps_its_time() -> None:
    import time

    counts = AccuracyCounts.from_counts(
        n_classes=10, ordinary=(1000, 780), complementary=(9000, 8780)
    )
    start = time.process_time()
    estimate_accuracy(counts)
    assert time.process_time() - start < 2.0


def test_guess_of_the_answers_is_used_and_stays_unbiased() -> None:
    """A guess that came with the answer reduces the spread of the value and leaves its mean."""
    rng = np.random.default_rng(8)
    chance, k, values = 0.5, 4, {"column": [], "leave-one-out": []}
    for _ in range(300):
        tallies: dict[Tally, int] = {}
        for _ in range(100):
            sure = rng.random() < 0.5
            right, guess = rng.random() < (0.95 if sure else 0.1), 0.95 if sure else 0.1
            asked = rng.random() < chance
            yes, no = (
                (1 / chance if asked and right else 0.0),
                (1 / chance if asked and not right else 0.0),
            )
            tally = Tally(
                "s",
                k,
                "yes" if yes else "no",
                asked,
                design="recorded",
                yes_score=yes,
                no_score=no,
                guess=guess,
            )
            tallies[tally] = tallies.get(tally, 0) + 1
        counts = AccuracyCounts(
            tallies=tallies, items={Cell("s", k): 100}, answered={Cell("s", k): 100}
        )
        for guess_by, found in values.items():
            found.append(
                estimate_accuracy(counts, method="scores", interval="wald", guess=guess_by).value
            )  # type: ignore[arg-type]
    for found in values.values():
        assert np.mean(found) == pytest.approx(0.525, abs=4 * float(np.std(found)) / math.sqrt(300))
    assert np.std(values["column"]) < 0.9 * np.std(values["leave-one-out"])


def test_weight_of_a_stratum_without_labels_counts_in_the_mean_and_in_the_range() -> None:
    """Ten labels miss the few heavy items in most worlds: the light ones must not pass for the
    whole.
    """
    light = AccuracyCounts.from_counts(n_classes=4, ordinary=(10, 10), n_items=900, weight=1.0)
    heavy = AccuracyCounts.from_counts(n_classes=4, n_items=100, weight=100.0)
    estimate = estimate_accuracy(light + heavy, method="scores", interval="betting")
    assert estimate.low < 900 / (900 + 100 * 100)
    assert estimate.high == 1.0


def test_ordinary_labels_of_mixed_numbers_of_classes_have_the_limits_of_one_sample() -> None:
    """A verdict on the true class is right with the accuracy, whatever the number of classes:
    nothing forces parts.
    """
    several = sum(
        (
            AccuracyCounts.from_counts(n_classes=k, ordinary=(125, right))
            for k, right in zip(range(3, 11), range(70, 110, 5), strict=True)
        ),
        start=AccuracyCounts.from_counts(n_classes=2),
    )
    right = sum(range(70, 110, 5))
    found = estimate_accuracy(several)
    assert (found.low, found.high) == pytest.approx(
        clopper_pearson(right, 1000, 0.025, 0.025), abs=1e-9
    )
    assert found.interval == "exact"
