"""Certificates from ratings: what is certified, what never is, and why."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

from noracle.counts.ratings import RatingCounts
from noracle.errors import ArgumentError, EvidenceError
from noracle.evidence import Ratings
from noracle.results import Certificate, Check, Kind, read_result
from noracle.schemas import load_schema
from noracle.superhuman.certify import TESTS, certify_superhuman
from noracle.superhuman.difference import sample_of
from noracle.superhuman.statement import SIX

FINITE = ("betting", "bernstein", "binomial")


def counts_of(kinds: dict[tuple[tuple[int, ...], int], int], labels: int = 3) -> RatingCounts:
    """Counts from {(ratings of the item, answer): items}."""
    size = max(len(ratings) for ratings, _ in kinds)
    rows = [
        list(ratings) + [-1] * (size - len(ratings))
        for (ratings, _), n in kinds.items()
        for _ in range(n)
    ]
    answers = [answer for (_, answer), n in kinds.items() for _ in range(n)]
    return RatingCounts.from_arrays(rows, labels=labels, answers={"agent": answers})


GOOD = counts_of({((0, 0, 0), 0): 1500, ((0, 0, 1), 0): 1500})
BAD = counts_of({((0, 0, 0), 0): 700, ((0, 0, 0), 1): 100, ((0, 0, 1), 0): 200})


def certify(counts: RatingCounts, **options: Any) -> Certificate:
    return certify_superhuman(counts, **{"trained_on_annotators": "no", **options})


def supported(**changes: Any) -> Check:
    said = {
        "supported": True,
        "system": "agent",
        "confidence": 0.95,
        **changes.pop("diagnostics", {}),
    }
    values = {
        "p_value": 1.0,
        "statistic": 0.4,
        "finding": "right 40 times, repeats 2 times",
        "method": "exact binomial",
        **changes,
    }
    return Check(name="errors of the vote", assumption=SIX, diagnostics=said, **values)


# -------------------------------------------------------------------------------------------------------------
# verdicts


@pytest.mark.parametrize("test", TESTS)
def test_a_clearly_better_system_is_certified(test: str) -> None:
    result = certify(GOOD, test=test)
    assert result.certified
    assert result.reasons == ()
    assert result.value == pytest.approx(
        1 - 5 / 6 if not test.startswith("paper") else 1 - math.sqrt(1 / 3 + 2 / 3 * 2 / 3)
    )
    assert 0 < result.low < result.value
    assert result.attained > 0.95
    assert result.verify()


@pytest.mark.parametrize("test", TESTS)
@pytest.mark.parametrize("margin", [0.0, 0.1])
def test_a_worse_system_is_never_certified(test: str, margin: float) -> None:
    result = certify(BAD, test=test, margin=margin)
    assert not result.certified
    assert result.attained == 0.0
    assert "is not above the margin" in result.reasons[0]
    assert result.verify()


@pytest.mark.parametrize("test", TESTS)
def test_margin_above_the_difference_is_never_certified(test: str) -> None:
    value = certify(GOOD, test=test).value
    result = certify(GOOD, test=test, margin=value + 0.01)
    assert not result.certified
    assert result.attained == 0.0


@pytest.mark.thin(5)
@pytest.mark.parametrize("test", TESTS)
@pytest.mark.parametrize("ratings", [(0,), (0, 0), (0, 1)])
def test_one_or_two_ratings_an_item_certify_nothing(test: str, ratings: tuple[int, ...]) -> None:
    result = certify(counts_of({(ratings, 0): 100_000}), test=test)
    assert not result.certified
    assert "rating" in result.reasons[0]
    assert result.verify()


@pytest.mark.parametrize("test", TESTS)
def test_no_items_are_undefined_and_say_so(test: str) -> None:
    result = certify(
        RatingCounts.from_arrays(np.full((3, 3), -1), labels=2, answers={"agent": [0, 0, 0]}),
        test=test,
    )
    assert not result.certified
    assert math.isnan(result.value)
    assert result.reason == "no items"
    assert result.to_dict()["value"] is None
    assert result.verify()


@pytest.mark.parametrize("test", TESTS)
@pytest.mark.parametrize("n", [1, 2])
def test_one_or_two_items_certify_nothing_with_a_promise(test: str, n: int) -> None:
    result = certify(counts_of({((0, 0, 1), 0): n}), test=test)
    assert not result.certified


def test_too_few_items_says_how_many_would_do() -> None:
    few = {((0, 0, 0), 0): 24, ((0, 0, 1), 0): 8, ((0, 0, 0), 1): 1}
    result = certify(counts_of(few))
    assert not result.certified
    needed = result.diagnostics["needed_items"]
    assert f"about {needed:,} items would be needed (there are 33)" in result.reasons[0]
    times = math.ceil(needed / 33)
    assert certify(counts_of({kind: n * times for kind, n in few.items()})).certified
    assert not certify(
        counts_of({kind: n * max(1, times // 2) for kind, n in few.items()})
    ).certified


def test_an_item_without_an_answer_counts_as_not_matching() -> None:
    silent = certify(counts_of({((0, 0, 1), 0): 90, ((0, 0, 1), -1): 10}))
    wrong = certify(counts_of({((0, 0, 1), 0): 90, ((0, 0, 1), 1): 10}))
    assert silent.value == wrong.value
    assert silent.attained == wrong.attained
    assert silent.counts["without_answer"] == 10


def test_more_confidence_is_never_easier() -> None:
    lows = [certify(GOOD, confidence=c, margin=0.1).low for c in (0.5, 0.9, 0.99, 0.9999)]
    assert lows == sorted(lows, reverse=True)


@pytest.mark.parametrize("test", TESTS)
def test_low_and_attained_agree_with_the_verdict(test: str) -> None:
    """At margin low the claim is just certified, above it not; at confidence attained likewise."""
    counts = counts_of(
        {((0, 0, 0), 0): 700, ((0, 0, 1), 0): 280, ((0, 0, 0), 1): 10, ((0, 1, 2), 1): 10}
    )
    first = certify(counts, test=test, confidence=0.6)
    if first.low > 1e-6:
        assert certify(counts, test=test, confidence=0.6, margin=first.low - 1e-6).certified
        assert not certify(counts, test=test, confidence=0.6, margin=first.low + 1e-6).certified
    if 0.001 < first.attained < 0.9999:
        assert certify(counts, test=test, confidence=first.attained - 1e-6).certified
        assert not certify(counts, test=test, confidence=first.attained + 1e-6).certified


# -------------------------------------------------------------------------------------------------------------
# training


def test_training_must_be_stated_and_everything_else_is_shown() -> None:
    silent = certify_superhuman(GOOD)
    stated = certify_superhuman(GOOD, trained_on_annotators="no")
    assert not silent.certified
    assert stated.certified
    assert "trained_on_annotators is not stated" in silent.reasons[0]
    assert (silent.value, silent.low, silent.attained) == (
        stated.value,
        stated.low,
        stated.attained,
    )
    assert silent.verify()


def test_trained_on_annotators_removes_the_certificate_unless_six_is_supported() -> None:
    assert not certify(GOOD, trained_on_annotators="yes").certified
    assert not certify(
        GOOD, trained_on_annotators=True, check=supported(diagnostics={"supported": False})
    ).certified
    good = certify(GOOD, trained_on_annotators="yes", check=supported())
    assert good.certified
    assert good.verify()
    (six,) = [a for a in good.guarantee.assumptions if a.name == SIX]
    assert six.status == "checked"


def test_a_check_at_less_confidence_does_not_carry_the_certificate() -> None:
    result = certify(GOOD, trained_on_annotators="yes", check=supported(), confidence=0.99)
    assert not result.certified
    assert "supported at confidence 0.95 only" in result.reasons[0]


@pytest.mark.parametrize("trained", ["yes", "no", "unknown"])
def test_a_failed_check_forbids_the_certificate_whatever_is_stated(trained: str) -> None:
    failed = supported(
        p_value=1e-9, diagnostics={"supported": False}, finding="fails: repeats 90 of 100"
    )
    result = certify(GOOD, trained_on_annotators=trained, check=failed)
    assert not result.certified
    assert result.guarantee.kind is Kind.HEURISTIC
    assert "FAILED" in str(result).splitlines()[0]
    assert result.verify()


def test_a_check_about_another_system_or_assumption_is_refused() -> None:
    with pytest.raises(ArgumentError, match="must be about 'agent'"):
        certify(GOOD, check=supported(diagnostics={"system": "other"}))
    with pytest.raises(ArgumentError, match="check of \\(6\\)"):
        certify(GOOD, check=dataclasses.replace(supported(), diagnostics={}))


# -----------------------------------------------------------------------------------------------------------------
# ties


def tied_world(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    ratings = rng.integers(3, size=(400, 3))
    return ratings, np.where(rng.random(400) < 0.5, ratings[:, 0], rng.integers(3, size=400))


def test_match_rate_does_not_change_when_answers_among_tied_labels_are_permuted() -> None:
    ratings, answers = tied_world(0)
    tied = np.array([len(set(r)) == 3 for r in ratings.tolist()])
    rng = np.random.default_rng(1)
    first = certify(RatingCounts.from_arrays(ratings, labels=3, answers={"agent": answers}))
    for _ in range(20):
        moved = answers.copy()
        moved[tied] = rng.permutation(moved[tied])
        again = certify(RatingCounts.from_arrays(ratings, labels=3, answers={"agent": moved}))
        assert (again.value, again.low, again.attained) == (first.value, first.low, first.attained)
        anything = np.where(tied, rng.integers(3, size=400), answers)
        again = certify(RatingCounts.from_arrays(ratings, labels=3, answers={"agent": anything}))
        assert (again.value, again.low) == (first.value, first.low)


def test_random_ties_have_the_mean_of_shared_ones() -> None:
    ratings, answers = tied_world(2)
    counts = RatingCounts.from_arrays(ratings, labels=3, answers={"agent": answers})
    shared = sample_of(counts, "agent", ties="share", seed=0)[0].match_rate
    drawn = [sample_of(counts, "agent", ties="random", seed=s)[0].match_rate for s in range(2000)]
    assert np.mean(drawn) == pytest.approx(shared, abs=4 * np.std(drawn) / math.sqrt(2000))
    assert np.std(drawn) > 0


def test_same_seed_same_certificate() -> None:
    ratings, answers = tied_world(3)
    counts = RatingCounts.from_arrays(ratings, labels=3, answers={"agent": answers})
    first, again, other = (certify(counts, ties="random", seed=s) for s in (5, 5, 6))
    assert first == again
    assert first.inputs["drawn"] != other.inputs["drawn"]


def test_order_of_items_and_names_of_labels_change_nothing() -> None:
    ratings, answers = tied_world(4)
    order, names = np.random.default_rng(0).permutation(400), np.array([2, 0, 1])
    first = certify(RatingCounts.from_arrays(ratings, labels=3, answers={"agent": answers}))
    again = certify(
        RatingCounts.from_arrays(
            names[ratings[order]], labels=3, answers={"agent": names[answers[order]]}
        )
    )
    assert first == again


# -------------------------------------------------------------------------------------------------
# different numbers of votes


def test_adaptive_numbers_of_ratings_are_fine_for_the_plurality_and_refused_for_pooled_pairs() -> (
    None
):
    counts = counts_of({((0, 0), 0): 500, ((0, 1, 0, 0, 0), 0): 300, ((0, 1, 1, 0, 0), 0): 200})
    assert certify(counts).certified
    assert certify(counts, test="binomial").verify()
    for test, ceiling in (
        ("binomial", "free"),
        ("binomial", "paper"),
        ("paper-oms", None),
        ("paper-hms", "paper-empirical"),
    ):
        with pytest.raises(
            EvidenceError,
            match="needs the same number of ratings on every item; got between 2 and 5",
        ):
            certify(counts, test=test, ceiling=ceiling)


# ----------------------------------------------------------------------------------------------------------------
# guarantees


def test_kinds_of_promise() -> None:
    kinds = {test: certify(GOOD, test=test).guarantee for test in TESTS}
    assert all(kinds[test].kind is Kind.FINITE_SAMPLE for test in FINITE)
    assert kinds["t"].kind is Kind.ASYMPTOTIC
    assert kinds["betting"].anytime
    assert not kinds["bernstein"].anytime
    assert not certify(
        GOOD, ties="random"
    ).guarantee.anytime  # ties would be drawn again at every look
    assert kinds["paper-oms"].error_rate == pytest.approx(0.1)
    assert (
        certify(GOOD, test="paper-oms", ceiling="paper-empirical").guarantee.kind is Kind.HEURISTIC
    )
    assert (
        certify(GOOD, test="binomial", ceiling="paper-empirical").guarantee.kind is Kind.HEURISTIC
    )


def test_assumptions_are_named() -> None:
    named = {a.name: a.status for a in certify(GOOD).guarantee.assumptions}
    assert named == {
        "one true label per item": "assumed",
        "iid items": "assumed",
        "the vote does not see the system": "by-design",
        SIX: "assumed",
    }
    assert any("average annotation" in note for note in certify(GOOD).notes)


def test_every_valid_ceiling_is_above_the_plurality() -> None:
    found = certify(GOOD).diagnostics["ceilings"]
    assert list(found) == ["plurality", "free", "quadratic", "paper"]
    assert sorted(found.values()) == list(found.values())


def test_json_round_trip_verifies() -> None:
    for test in TESTS:
        result = certify(GOOD, test=test, margin=0.01)
        again = read_result(result.to_dict())
        assert isinstance(again, Certificate)
        assert again.to_dict() == result.to_dict()
        assert again.verify()


def test_the_schema_holds_for_results_of_today_and_refuses_contradictions() -> None:
    schema = jsonschema.Draft202012Validator(load_schema("certificate/1"))
    good, bad = certify(GOOD).to_dict(), certify(BAD).to_dict()
    for data in (good, bad, *(certify(GOOD, test=test, ties="random").to_dict() for test in TESTS)):
        schema.validate(data)
    for data, change in (
        (good, {"certified": False}),
        (bad, {"certified": True}),
        (good, {"attained": 1.5}),
        (good, {"margin": -0.1}),
        (good, {"value": None}),
        (good, {"value": math.nan}),
        (good, {"guarantee": None}),
        (good, {"reasons": ["because"]}),
    ):
        with pytest.raises(jsonschema.ValidationError):
            schema.validate({**data, **change})


# -------------------------------------------------------------------------------------------------------------------
# errors


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"margin": -0.1}, r"margin must be in \[0, 1\); got -0.1"),
        ({"margin": 1.0}, r"margin must be in \[0, 1\)"),
        ({"margin": math.nan}, r"margin must be in \[0, 1\)"),
        ({"confidence": 95}, r"confidence must be in \(0, 1\)"),
        ({"test": "wald"}, "test must be one of"),
        ({"aggregate": "mean"}, "aggregate must be one of"),
        ({"ties": "model"}, "ties must be one of"),
        ({"test": "binomial", "ties": "share"}, "ties must be 'random'"),
        ({"ceiling": "free"}, "ceiling must be 'plurality' for test 'betting'"),
        ({"test": "paper-oms", "ceiling": "free"}, "ceiling must be 'paper' or 'paper-empirical'"),
        ({"test": "binomial", "ceiling": "kappa"}, "ceiling must be one of"),
        ({"system": "other"}, "system must be one of 'agent'; got 'other'"),
        (
            {"trained_on_annotators": "maybe"},
            "trained_on_annotators must be 'yes', 'no' or 'unknown'",
        ),
        ({"aggregate": "dawid-skene"}, "aggregate must be 'plurality' for counts"),
    ],
)
def test_bad_arguments_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        certify(GOOD, **options)


def test_ratings_without_answers_are_refused() -> None:
    with pytest.raises(EvidenceError, match="must come with the answers of a system"):
        certify(RatingCounts.from_arrays([[0, 0, 1]], labels=2))


def test_several_systems_need_a_name() -> None:
    counts = RatingCounts.from_arrays(
        [[0, 0, 1]] * 9, labels=2, answers={"a": [0] * 9, "b": [1] * 9}
    )
    with pytest.raises(ArgumentError, match="system must be one of 'a', 'b'; got None"):
        certify(counts)
    assert certify(counts, system="a").value > certify(counts, system="b").value


# --------------------------------------------------------------------------------------------------------------
# other aggregates


@pytest.mark.full
def test_a_fitted_aggregate_is_a_heuristic_reference() -> None:
    pytest.importorskip("crowdkit")
    from noracle.errors import GuaranteeWarning
    from noracle.evidence.ratings import Ratings
    from noracle.superhuman.aggregate import aggregate_labels

    rng = np.random.default_rng(0)
    truth = rng.integers(3, size=300)
    wide: dict[str, Any] = {
        f"r{j}": np.where(rng.random(300) < 0.8, truth, rng.integers(3, size=300)).tolist()
        for j in range(5)
    }
    wide["agent"] = np.where(rng.random(300) < 0.98, truth, 0).tolist()
    ratings = Ratings.from_wide(
        wide, raters=[f"r{j}" for j in range(5)], systems=["agent"], labels=[0, 1, 2]
    )
    with pytest.warns(GuaranteeWarning):
        result = certify_superhuman(ratings, aggregate="dawid-skene", trained_on_annotators="no")
    assert result.guarantee.kind is Kind.HEURISTIC
    assert result.verify()
    vote = certify_superhuman(ratings, trained_on_annotators="no")
    assert vote.diagnostics["ceiling"] == result.diagnostics["ceiling"]
    majority = certify_superhuman(
        ratings, aggregate=aggregate_labels(ratings), trained_on_annotators="no"
    )
    assert majority.guarantee.kind is Kind.FINITE_SAMPLE
    assert majority.verify()


# ---------------------------------------------------------------------------------------------------------------
# real annotators


def system_answers(
    rng: np.random.Generator, truth: np.ndarray, accuracy: float, wrong: list[np.ndarray]
) -> np.ndarray:
    """A system whose errors are drawn from the annotators' wrong labels of that class."""
    drawn = np.empty_like(truth)
    for k, labels in enumerate(wrong):
        drawn[truth == k] = rng.choice(labels, size=int((truth == k).sum()))
    return np.where(rng.random(len(truth)) < accuracy, truth, drawn)


@pytest.mark.parametrize(
    ("accuracy", "n", "runs", "least"), [(0.99, 500, 300, 0.85), (0.95, 5000, 100, 0.80)]
)
def test_power_on_cifar_10n(
    data_folder: Path, accuracy: float, n: int, runs: int, least: float
) -> None:
    data = np.load(data_folder / "cifar10_train.npz")
    truth, annotators = data["label"].astype(int), data["annotators"].astype(int)
    wrong = [annotators[truth == k].ravel() for k in range(10)]
    wrong = [labels[labels != k] for k, labels in enumerate(wrong)]
    rng = np.random.default_rng(7)
    certified = 0
    for _ in range(runs):
        items = rng.choice(len(truth), size=n, replace=False)
        answers = system_answers(rng, truth[items], accuracy, wrong)
        certified += certify(
            RatingCounts.from_arrays(annotators[items], labels=10, answers={"agent": answers})
        ).certified
    assert certified / runs >= least


@pytest.mark.parametrize("test", ["binomial", "paper-hms", "paper-oms"])
def test_what_promises_nothing_never_certifies(test: Any) -> None:
    """sqrt(v) is not a bound, so that no confidence attained with it is a certificate."""
    counts = RatingCounts.from_arrays(
        [[0, 0, 0]] * 5000 + [[0, 0, 1]] * 5000, labels=2, answers={"agent": [0] * 10_000}
    )
    certificate = certify_superhuman(
        counts, test=test, ceiling="paper-empirical", trained_on_annotators="no"
    )
    assert certificate.attained > 0.95
    assert not certificate.certified
    assert "nothing is promised" in certificate.reasons[0]
    assert certificate.verify()
    assert certify_superhuman(
        counts, test=test, ceiling="paper", trained_on_annotators="no"
    ).certified


def test_answers_and_ratings_as_two_tables() -> None:
    ratings = {
        "item": [i for i in range(300) for _ in "abc"],
        "rater": list("abc") * 300,
        "label": ["x", "x", "x", "x", "x", "y"] * 150,
    }
    answers = {"item": list(range(300)), "system": ["agent"] * 300, "answer": ["x"] * 300}
    two = certify_superhuman(ratings, answers, trained_on_annotators="no")
    assert two.certified
    assert two == certify_superhuman(
        Ratings.from_tables(ratings, answers), trained_on_annotators="no"
    )
    with pytest.raises(ArgumentError, match="answers must be given"):
        certify_superhuman(ratings)
    with pytest.raises(EvidenceError, match="rater"):  # the order of 0.1
        certify_superhuman(answers, ratings)
    with pytest.raises(ArgumentError, match="two tables"):
        certify_superhuman(Ratings.from_tables(ratings), answers)
