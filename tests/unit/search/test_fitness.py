"""Fitness is the library's own estimate; no answer scores 0; repeats are no new items."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from noracle import ArgumentError, Evidence, EvidenceError, Kind, compare_systems, estimate_accuracy
from noracle.accuracy.compare import _Sample
from noracle.counts import count_accuracy, count_patterns
from noracle.search.candidates import Outcome
from noracle.search.fitness import (
    ItemLabel,
    ItemLabels,
    _answers,
    _counts,
    estimate_fitness,
    paired,
    score_outcomes,
)


def said(item: int, answer: int | None, *, repeat: int = 0, state: str = "") -> Outcome:
    word: Any = state or ("invalid" if answer is None else "answered")
    return Outcome(item=item, answer=answer, state=word, repeat=repeat)


def ruled_out(n_classes: int, *classes: int) -> ItemLabel:
    return ItemLabel(n_classes=n_classes, ruled_out=frozenset(classes))


def tables(
    seed: int, *, mixed_k: bool = False, aimed: bool = False, n: int = 120
) -> tuple[Evidence, dict[str, list[Outcome]]]:
    """Random answers of two systems and random judgements of most items, as tables and as outcomes."""
    rng = np.random.default_rng(seed)
    k = rng.choice([3, 5], size=n) if mixed_k else np.full(n, 4)
    key = rng.integers(k)
    judgements: dict[str, list[Any]] = {"item": [], "class": [], "verdict": []}
    if aimed:
        judgements["propensity"] = []
    for i in range(n - 15):
        asked = int(rng.integers(k[i]))
        judgements["item"].append(i)
        judgements["class"].append(asked)
        judgements["verdict"].append(
            "unsure" if rng.random() < 0.05 else "yes" if asked == key[i] else "no"
        )
        if aimed:
            judgements["propensity"].append(0.7 if rng.random() < 0.5 else 0.1)
    outcomes = {
        name: [
            said(
                i,
                None
                if rng.random() < 0.1
                else int(key[i])
                if rng.random() < a
                else int(rng.integers(k[i])),
            )
            for i in range(n)
        ]
        for name, a in (("x", 0.6), ("y", 0.4))
    }
    answers = {
        "item": [o.item for row in outcomes.values() for o in row],
        "system": [s for s, row in outcomes.items() for _ in row],
        "answer": [o.answer for row in outcomes.values() for o in row],
    }
    items = {"item": list(range(n)), "n_classes": k.tolist()}
    return Evidence.from_tables(answers, judgements, items), outcomes


# -------------------------------------------------------------------------------------------------------------------
# scores


def test_score_is_unbiased_over_all_labels_that_an_item_can_have() -> None:
    for k, truth, answer in itertools.product((3, 4, 5), range(3), (0, 1, 2, None)):
        for m in range(1, k):
            sets = list(itertools.combinations([c for c in range(k) if c != truth], m))
            scores = [
                score_outcomes([said(0, answer)], ItemLabels({0: ruled_out(k, *s)})).value[0]
                for s in sets
            ]
            assert np.mean(scores) == pytest.approx(float(answer == truth))


def test_aimed_question_is_unbiased_whatever_the_propensities() -> None:
    chances = (0.7, 0.2, 0.1)
    for truth, answer in itertools.product(range(3), (0, 1, 2, None)):
        labels = [
            ItemLabel(
                n_classes=3,
                ruled_out=frozenset() if c == truth else frozenset({c}),
                truth=c if c == truth else None,
                asked=((c, c == truth, chances[c]),),
            )
            for c in range(3)
        ]
        scores = [
            score_outcomes([said(0, answer)], ItemLabels({0: label})).value[0] for label in labels
        ]
        assert np.dot(chances, scores) == pytest.approx(float(answer == truth))


@pytest.mark.parametrize("state", ["invalid", "refused", "errored"])
def test_no_answer_scores_0_and_is_counted_by_state(state: str) -> None:
    labels = ItemLabels({0: ruled_out(4, 1), 1: ItemLabel(n_classes=4, truth=2)})
    scores = score_outcomes([said(0, None, state=state), said(1, 2)], labels)
    assert scores.value.tolist() == [0.0, 1.0]
    assert scores.states == {"answered": 1, "invalid": 0, "refused": 0, "errored": 0} | {state: 1}
    assert estimate_fitness([said(0, None, state=state), said(1, 2)], labels).counts[state] == 1


def test_an_answer_in_a_state_other_than_answered_is_no_answer() -> None:
    labels = ItemLabels({0: ItemLabel(n_classes=4, truth=2)})
    assert score_outcomes([said(0, 2, state="errored")], labels).value.tolist() == [0.0]


def test_answered_without_an_answer_is_counted_as_invalid() -> None:
    assert score_outcomes([said(0, None, state="answered")], ItemLabels({})).states["invalid"] == 1


def test_refusing_is_never_better_than_answering_at_random() -> None:
    labels = ItemLabels({i: ruled_out(4, i % 4) for i in range(400)})
    silent = score_outcomes([said(i, None) for i in range(400)], labels)
    answers = score_outcomes([said(i, (i // 4) % 4) for i in range(400)], labels)
    assert silent.mean == 0.0
    assert paired(silent, answers).mean == pytest.approx(-answers.mean)


def test_wrong_outcomes_are_refused() -> None:
    labels = ItemLabels({0: ruled_out(4, 1)})
    with pytest.raises(ArgumentError, match="class in \\[0, 4\\)"):
        score_outcomes([said(0, 4)], labels)
    with pytest.raises(ArgumentError, match="each item and repeat once"):
        score_outcomes([said(0, 1), said(0, 2)], labels)
    with pytest.raises(ArgumentError, match="kind must be"):
        estimate_fitness([said(0, 1)], labels, kind="best")  # type: ignore[arg-type]


def test_nothing_labelled_is_no_number() -> None:
    scores = score_outcomes([said(0, 1)], ItemLabels({}))
    assert np.isnan(scores.mean)
    assert np.isnan(scores.se)
    estimate = estimate_fitness([said(0, 1)], ItemLabels({}))
    assert np.isnan(estimate.value)
    assert (estimate.low, estimate.high) == (0.0, 1.0)
    assert estimate.reason


# -----------------------------------------------------------------------------------------------
# the library's own estimate


@pytest.mark.thin(10)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    "shape", [{}, {"mixed_k": True}, {"aimed": True}, {"mixed_k": True, "aimed": True}]
)
def test_counts_are_those_of_the_tables(seed: int, shape: dict[str, bool]) -> None:
    evidence, outcomes = tables(seed, **shape)
    labels = ItemLabels.from_evidence(evidence)
    for name, row in outcomes.items():
        labelled = [o for o in row if o.item in labels.of]
        ours = _counts(_answers(labelled, labels), labels, name)
        theirs = count_accuracy(evidence, systems=[name])
        rounded = {
            t._replace(yes_score=_round(t.yes_score), no_score=_round(t.no_score)): n
            for t, n in ours.tallies.items()
        }
        wanted = {
            t._replace(yes_score=_round(t.yes_score), no_score=_round(t.no_score)): n
            for t, n in theirs.tallies.items()
        }
        assert rounded == {t: n for t, n in wanted.items() if t.verdict != "unsure"}


def test_two_raters_who_were_both_aimed_are_counted_as_the_tables_count_them() -> None:
    answers = {"item": [1, 2], "system": ["x", "x"], "answer": [0, 1]}
    judgements = {
        "item": [1, 1, 1, 2],
        "class": [0, 0, 1, 1],
        "verdict": ["yes", "yes", "no", "no"],
        "propensity": [0.5, 0.5, 0.25, 0.5],
        "rater": ["ann", "bob", "ann", "bob"],
    }
    evidence = Evidence.from_tables(answers, judgements, n_classes=3)
    labels = ItemLabels.from_evidence(evidence)
    found = _counts(_answers([said(1, 0), said(2, 1)], labels), labels, "x")
    assert found.tallies == count_accuracy(evidence).tallies
    assert {(t.yes_score, t.no_score) for t in found.tallies} == {
        (2.0, 0.0),
        (0.0, 2.0),
    }  # the first question alone, no mean


@pytest.mark.thin(2)
@pytest.mark.parametrize("timed", [True, False])
def test_first_question_in_time_is_the_label_of_an_aimed_item(timed: bool) -> None:
    """Item 1 was asked about twice; in time the no about class 0 comes first, by row the yes about
    class 2.
    """
    judgements: dict[str, list[Any]] = {
        "item": [1, 2, 1],
        "class": [2, 1, 0],
        "verdict": ["yes", "yes", "no"],
        "propensity": [0.5, 0.8, 0.25],
        "at": [7, 1, 3],
    }
    if not timed:
        del judgements["at"]
    answers = {"item": [1, 2], "system": ["x", "x"], "answer": [2, 1]}
    evidence = Evidence.from_tables(answers, judgements, n_classes=3)
    labels = ItemLabels.from_evidence(evidence)
    assert labels.of[1].asked == (((0, False, 0.25),) if timed else ((2, True, 0.5),))
    scores = score_outcomes([said(1, 2), said(2, 1)], labels)
    # The guess 1/2 inside: 1/2 + 1{answer asked}·(verdict - 1/2)/propensity.
    assert scores.value.tolist() == pytest.approx(
        [0.5, 0.5 + 0.5 / 0.8] if timed else [0.5 + 0.5 / 0.5, 0.5 + 0.5 / 0.8]
    )
    found = _counts(_answers([said(1, 2), said(2, 1)], labels), labels, "x")
    assert found.tallies == count_accuracy(evidence).tallies
    assert found.propensities == count_accuracy(evidence).propensities == "recorded"
    estimate = estimate_fitness(
        [said(1, 2), said(2, 1)], labels, kind="targeted", population="answers", name="x"
    )
    wanted = estimate_accuracy(evidence, system="x", method="scores")
    assert (estimate.value, estimate.low, estimate.high) == pytest.approx(
        (wanted.value, wanted.low, wanted.high)
    )


def test_unsure_first_question_leaves_an_aimed_item_without_a_label() -> None:
    judgements = {
        "item": [1, 1, 2],
        "class": [0, 2, 1],
        "verdict": ["unsure", "yes", "yes"],
        "propensity": [0.5, 0.5, 0.8],
        "at": [1, 2, 3],
    }
    evidence = Evidence.from_tables(judgements=judgements, n_classes=3)
    assert set(ItemLabels.from_evidence(evidence).of) == {2}


def test_propensity_of_one_over_k_is_aimed_where_another_is_not() -> None:
    judgements = {
        "item": [1, 2],
        "class": [0, 1],
        "verdict": ["no", "no"],
        "propensity": [1 / 3, 0.5],
    }
    kinds = {
        i: label.kind
        for i, label in ItemLabels.from_evidence(
            Evidence.from_tables(judgements=judgements, n_classes=3)
        ).of.items()
    }
    assert kinds == {1: "targeted", 2: "targeted"}
    even = {**judgements, "propensity": [1 / 3, 1 / 3]}
    kinds = {
        i: label.kind
        for i, label in ItemLabels.from_evidence(
            Evidence.from_tables(judgements=even, n_classes=3)
        ).of.items()
    }
    assert kinds == {1: "complementary", 2: "complementary"}


def _round(value: float | None) -> float | None:
    return None if value is None else round(value, 9)


def test_estimate_is_that_of_the_library() -> None:
    evidence, outcomes = tables(1)
    labels = ItemLabels.from_evidence(evidence)
    found = estimate_fitness(outcomes["x"], labels, population="answers", name="x")
    wanted = estimate_accuracy(evidence, system="x")
    assert (found.value, found.low, found.high) == pytest.approx(
        (wanted.value, wanted.low, wanted.high)
    )
    assert found.guarantee.kind is Kind.FINITE_SAMPLE


@pytest.mark.thin(2)
@pytest.mark.parametrize("kind", ["mixed", "ordinary", "complementary", "ivw", "targeted"])
def test_every_kind_gives_an_estimate(kind: Any) -> None:
    evidence, outcomes = tables(2, aimed=kind == "targeted")
    estimate = estimate_fitness(outcomes["x"], ItemLabels.from_evidence(evidence), kind=kind)
    assert estimate.low <= estimate.value <= estimate.high


def test_labels_of_some_items_only_and_named_classes() -> None:
    evidence = Evidence.from_tables(
        judgements={"item": [1, 2, 3], "class": ["a", "b", "c"], "verdict": ["yes", "no", "no"]},
        classes=["a", "b", "c"],
    )
    labels = ItemLabels.from_evidence(evidence, items=[1, 3])
    assert dict(labels.of) == {1: ItemLabel(n_classes=3, truth=0), 3: ruled_out(3, 2)}
    assert "truth" not in repr(labels)


def test_evidence_without_judgements_is_refused() -> None:
    evidence = Evidence.from_tables(
        answers={"item": [1], "system": ["a"], "answer": [0]}, n_classes=3
    )
    with pytest.raises(EvidenceError, match="judgements"):
        ItemLabels.from_evidence(evidence)


def test_contradictions_are_dropped_where_the_evidence_drops_them() -> None:
    judgements = {
        "item": [1, 1, 2],
        "class": [0, 0, 1],
        "verdict": ["yes", "no", "yes"],
        "rater": ["a", "b", "a"],
    }
    evidence = Evidence.from_tables(judgements=judgements, n_classes=3, conflicts="drop")
    assert list(ItemLabels.from_evidence(evidence).of) == [2]


# ------------------------------------------------------------------------------------------------------------------
# repeats


def test_equal_repeats_change_nothing() -> None:
    evidence, outcomes = tables(3)
    labels = ItemLabels.from_evidence(evidence)
    once = estimate_fitness(outcomes["x"], labels)
    again = [said(int(o.item), o.answer, repeat=r) for o in outcomes["x"] for r in range(4)]
    four = estimate_fitness(again, labels)
    assert (once.value, once.low, once.high, once.se) == (four.value, four.low, four.high, four.se)
    assert score_outcomes(again, labels).se == pytest.approx(
        score_outcomes(outcomes["x"], labels).se, abs=1e-12
    )


@pytest.mark.parametrize("aimed", [False, True])
def test_different_repeats_are_averaged_inside_the_item(aimed: bool) -> None:
    evidence, outcomes = tables(4, aimed=aimed)
    labels = ItemLabels.from_evidence(evidence)
    both = [
        said(int(o.item), o.answer, repeat=r)
        for r, name in enumerate(("x", "y"))
        for o in outcomes[name]
    ]
    scores = {name: score_outcomes(row, labels) for name, row in outcomes.items()}
    found = estimate_fitness(both, labels)
    assert found.value == pytest.approx((scores["x"].mean + scores["y"].mean) / 2)
    assert found.interval == "betting"
    assert found.counts["repeats"] == 2
    assert 0 <= found.low < found.value < found.high <= 1
    with pytest.raises(ArgumentError, match="repeats of an item differ"):
        estimate_fitness(both, labels, kind="ordinary")


def test_mixed_kinds_share_one_range_where_repeats_differ() -> None:
    """Aimed questions on easy items only: a bet on these alone would take their accuracy for that
    of all.
    """
    aimed = ItemLabel(n_classes=4, truth=0, asked=((0, True, 1.0),))
    labels = ItemLabels({i: aimed if i < 300 else ruled_out(4, 0) for i in range(600)})
    outcomes = [said(i, 0) for i in range(600)] + [said(0, 1, repeat=1)]
    assert (
        estimate_fitness(outcomes, labels).low == 0.0
    )  # half of the items are surely wrong: the mean score is about -1/2


# ----------------------------------------------------------------------------------------------------------------
# differences


@pytest.mark.thin(3)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("shape", [{}, {"mixed_k": True}, {"aimed": True}])
def test_paired_scores_are_those_of_the_comparison(seed: int, shape: dict[str, bool]) -> None:
    evidence, outcomes = tables(seed, **shape)
    labels = ItemLabels.from_evidence(evidence)
    pairs = paired(score_outcomes(outcomes["x"], labels), score_outcomes(outcomes["y"], labels))
    rows = _Sample(count_patterns(evidence, systems=["x", "y"])).rows(0, 1)
    wanted = sorted((round(s.value, 9), s.low) for s in rows for _ in range(s.n))
    assert (
        sorted(
            (round(v, 9), low)
            for v, low in zip(pairs.value.tolist(), pairs.low.tolist(), strict=True)
        )
        == wanted
    )
    assert (pairs.value >= pairs.low).all()
    if not shape.get("aimed"):
        assert compare_systems(evidence, systems=["x", "y"]).difference("x", "y").n == pairs.n


def test_only_items_of_both_are_compared() -> None:
    labels = ItemLabels({i: ItemLabel(n_classes=3, truth=0) for i in range(4)})
    new = score_outcomes([said(i, 0) for i in (0, 1, 2)], labels)
    old = score_outcomes([said(i, 1) for i in (1, 2, 3)], labels)
    assert paired(new, old).item == (1, 2)
    assert paired(new, score_outcomes([], labels)).n == 0
