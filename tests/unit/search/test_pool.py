"""Races over a pool: valid scores, no label where none can tell, honest sets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from noracle import ArgumentError, Evidence, EvidenceError, Kind
from noracle.accuracy.score import difference_scores, score
from noracle.counts.tally import Label
from noracle.search.pool import AimedLabels, Picked, Pool, race_pool

DESIGNS: tuple[Any, ...] = ("targeted", "equal", "uniform")


def world(
    accuracies: dict[str, float], *, n: int = 400, seed: int = 0, silent: float = 0.0
) -> tuple[Evidence, np.ndarray[Any, Any]]:
    rng = np.random.default_rng(seed)
    sizes = rng.choice([3, 5], size=n)
    key = rng.integers(sizes)
    answers: dict[str, list[Any]] = {"item": [], "system": [], "answer": []}
    for name, accuracy in accuracies.items():
        right = rng.random(n) < accuracy
        answer = np.where(right, key, (key + 1 + rng.integers(sizes - 1)) % sizes)
        none = rng.random(n) < silent
        answers["item"] += range(n)
        answers["system"] += [name] * n
        answers["answer"] += [None if x else int(a) for a, x in zip(answer, none, strict=True)]
    return Evidence.from_tables(
        answers, None, {"item": list(range(n)), "n_classes": sizes.tolist()}
    ), key


def race(evidence: Evidence, key: np.ndarray[Any, Any], **options: Any) -> Picked:
    return race_pool(evidence, lambda item, k: bool(key[item] == k), **options)


@pytest.mark.parametrize("design", DESIGNS)
def test_the_best_of_clearly_different_systems_is_found(design: Any) -> None:
    evidence, key = world({"a": 0.9, "b": 0.5, "c": 0.3})
    picked = race(evidence, key, design=design)
    assert picked.best == "a"
    assert picked.separable
    assert picked.comparison.leaders == ("a",)
    assert set(picked.comparison.dropped) == {"b", "c"}
    assert picked.comparison.guarantee.kind is Kind.FINITE_SAMPLE


def test_twins_are_not_separable_and_cost_nothing() -> None:
    evidence, key = world({"a": 0.7})
    rows = evidence.rows("answers", "item", "system", "answer")
    table = {
        "item": [r[0] for r in rows] * 2,
        "system": ["a"] * len(rows) + ["b"] * len(rows),
        "answer": [r[2] for r in rows] * 2,
    }
    items = dict(
        zip(
            ("item", "n_classes"),
            map(list, zip(*evidence.rows("items", "item", "n_classes"), strict=True)),
            strict=True,
        )
    )
    picked = race(Evidence.from_tables(table, None, items), key)
    assert not picked.asked
    assert picked.passed_over == 400
    assert picked.comparison.leaders == ("a", "b")
    assert not picked.separable
    assert any("not separable" in note for note in picked.comparison.notes)
    difference = picked.comparison.difference("a", "b")
    assert difference.value == 0.0
    assert difference.verdict == "not separable"


def test_labels_are_asked_only_where_systems_in_the_race_differ() -> None:
    evidence, key = world({"a": 0.8, "b": 0.75, "c": 0.2})
    pool = Pool.read(evidence, None)
    picked = race(evidence, key)
    asked_after = dict.fromkeys(pool.systems, len(picked.asked) + 1) | dict(
        picked.comparison.dropped
    )
    for n, question in enumerate(picked.asked, start=1):
        alive = [i for i, s in enumerate(pool.systems) if asked_after[s] >= n]
        given = pool.answers[alive, pool.items.index(question.item)]
        assert len(set(given.tolist())) > 1
        assert question.asked in given
        assert 0 < question.propensity <= 1


@pytest.mark.parametrize("design", DESIGNS)
def test_score_of_a_question_has_the_difference_as_its_mean_and_is_bounded(design: Any) -> None:
    """By enumeration over the class that is asked about, for every item and pair."""
    evidence, key = world({"a": 0.8, "b": 0.5, "c": 0.4}, n=60, silent=0.2)
    pool = Pool.read(evidence, None)
    alive = np.array([0, 2]) if design == "targeted" else None
    for t in range(len(pool.items)):
        chances = pool.chances(t, alive, uniform=design == "uniform")
        left = [0, 2] if alive is not None else [0, 1, 2]
        right = pool.answers[:, t] == key[t]
        if chances is None:
            assert len(set(pool.answers[left, t].tolist())) == 1
            continue
        assert chances.sum() == pytest.approx(1)
        mean, values = np.zeros((3, 3)), np.zeros(3)
        for k in np.nonzero(chances)[0]:
            row = (t, int(k), float(chances[k]), "yes" if k == key[t] else "no")
            scores = difference_scores(pool.pattern(row))  # type: ignore[arg-type]
            assert scores[np.ix_(left, left)].min() >= -1 - 1e-12
            mean += chances[k] * scores
            values += chances[k] * pool.scores(row)  # type: ignore[arg-type]
        for i in left:
            for j in left:
                assert mean[i, j] == pytest.approx(
                    float(right[i]) - float(right[j]), abs=1e-9
                )  # tallies keep twelve digits
                assert values[i] - values[j] == pytest.approx(float(right[i]) - float(right[j]))


def test_scores_of_all_pairs_at_once_are_those_one_by_one() -> None:
    answers = ("A", "B", None, "A")
    uniform = [
        Label(4, "yes", frozenset("A")),
        Label(4, "no", frozenset("A")),
        Label(4, "no", frozenset("BC")),
    ]
    for label in uniform:
        each = [score(label.meet(a)) for a in answers]
        assert difference_scores(label.meet_all(answers)).tolist() == [
            [x - y for y in each] for x in each
        ]
    for label in (
        Label(4, "yes", frozenset("A"), 0.5),
        Label(4, "no", frozenset("A"), 0.25),
        Label(4, "no", frozenset("D"), 0.25),
    ):
        met = [label.meet(a) for a in answers]
        wanted = [
            [
                0.0
                if answers[i] == answers[j]
                else (met[i].yes_score or 0.0) - (met[j].answered - (met[j].no_score or 0.0))
                for j in range(4)
            ]
            for i in range(4)
        ]
        assert difference_scores(label.meet_all(answers)).tolist() == wanted


def test_budget_and_until_end_the_race() -> None:
    evidence, key = world({"a": 0.8, "b": 0.7, "c": 0.1})
    assert len(race(evidence, key, budget=7).asked) == 7
    nothing = race(evidence, key, budget=0)
    assert nothing.comparison.leaders == ("a", "b", "c")
    assert not nothing.comparison.differences
    two = race(evidence, key, until=2)
    assert set(two.comparison.leaders) == {"a", "b"}
    assert [s.labels for s in two.path] == sorted(s.labels for s in two.path)
    assert two.path[-1].labels == len(two.asked)
    assert two.path[-1].best == two.best


def test_unsure_spends_a_label_and_says_nothing() -> None:
    evidence, _ = world({"a": 0.9, "b": 0.2})
    picked = race_pool(evidence, lambda item, k: None, budget=50)
    assert picked.comparison.counts["unsure"] == 50
    assert set(picked.comparison.leaders) == {"a", "b"}
    assert set(picked.judgements()["verdict"]) == {"unsure"}


def test_order_of_rows_changes_nothing_and_the_seed_does() -> None:
    evidence, key = world({"a": 0.8, "b": 0.7})
    rows = evidence.rows("answers", "item", "system", "answer")[::-1]
    items = {
        "item": list(range(400)),
        "n_classes": [k for _, k in sorted(evidence.rows("items", "item", "n_classes"))],
    }
    turned = Evidence.from_tables(
        {n: [r[i] for r in rows] for i, n in enumerate(("item", "system", "answer"))}, None, items
    )
    assert race(evidence, key, seed=3) == race(turned, key, seed=3)
    assert race(Pool.read(evidence), key, seed=3) == race(evidence, key, seed=3)  # type: ignore[arg-type]
    assert race(evidence, key, seed=3).asked != race(evidence, key, seed=4).asked


def test_named_classes_are_asked_by_name() -> None:
    answers = {"item": [1, 2] * 2, "system": ["a", "a", "b", "b"], "answer": ["x", "y", "y", "y"]}
    asked: list[Any] = []

    def judge(item: Any, k: Any) -> str:
        asked.append((item, k))
        return "no"

    race_pool(Evidence.from_tables(answers, classes=["x", "y", "z"]), judge)
    assert asked
    assert {item for item, _ in asked} == {1}
    assert {k for _, k in asked} <= {"x", "y"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"design": "clever"}, "design"),
        ({"budget": -1}, "budget"),
        ({"until": 0}, "until"),
        ({"confidence": 1}, "conf"),
    ],
)
def test_wrong_arguments_are_refused(options: dict[str, Any], message: str) -> None:
    evidence, key = world({"a": 0.8, "b": 0.7}, n=20)
    with pytest.raises(ArgumentError, match=message):
        race(evidence, key, **options)


def test_wrong_pools_are_refused() -> None:
    evidence, key = world({"a": 0.8, "b": 0.7}, n=20)
    with pytest.raises(EvidenceError, match="systems"):
        race(evidence, key, systems=["a", "nobody"])
    with pytest.raises(ArgumentError, match="at least two"):
        race(evidence, key, systems=["a"])
    with pytest.raises(ArgumentError, match="left out"):
        race(Pool.read(evidence), key, systems=["a", "b"])  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="judge"):
        race_pool(evidence, lambda item, k: "perhaps")
    judged = Evidence.from_tables(
        judgements={"item": [1], "class": [0], "verdict": ["yes"]}, n_classes=3
    )
    with pytest.raises(EvidenceError, match="answers"):
        race(judged, key)
    apart = Evidence.from_tables(
        {"item": [1, 2], "system": ["a", "b"], "answer": [0, 0]}, n_classes=3
    )
    with pytest.raises(EvidenceError, match="all systems"):
        race(apart, key)


# ----------------------------------------------------------------------------------------------------------------------
# questions that many candidates share


def crowd(n: int, k: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A key, and five candidates of which the last is in no race; some items all answer alike."""
    rng = np.random.default_rng(seed)
    key = rng.integers(k, size=n)
    answers = np.where(rng.random((5, n)) < 0.5, key, rng.integers(-1, k, size=(5, n)))
    answers[:4, : n // 5] = answers[0, : n // 5]
    return key, answers


@pytest.mark.parametrize("k", [2, 3, 5, 10])
def test_shared_questions_are_unbiased_also_for_a_candidate_that_comes_later(k: int) -> None:
    key, answers = crowd(6000, k, seed=k)
    labels = AimedLabels(np.full(6000, k), lambda t, c: bool(key[t] == c), budget=12_000, seed=k)
    labels.ask(answers[:4])
    assert len(labels.read) == 6000
    off = labels.scores(answers) - (answers == key)[:, list(labels.read)]
    z = off.mean(axis=1) / (off.std(axis=1) / np.sqrt(off.shape[1]) + 1e-12)
    assert np.abs(z).max() < 4, z
    silent = answers[:, list(labels.read)] < 0
    assert not labels.scores(answers)[silent].any()


def test_a_yes_is_a_label_for_everybody_and_no_item_is_left_after_a_no() -> None:
    key, answers = crowd(300, 4, seed=3)
    labels = AimedLabels(np.full(300, 4), lambda t, c: bool(key[t] == c), budget=61, seed=2)
    while labels.ask(answers, at_most=7):
        pass
    assert labels.spent in (60, 61)
    by_item: dict[int, list[str]] = {}
    for asked in labels.asked:
        by_item.setdefault(asked.item, []).append(asked.verdict)
        assert 0 < asked.propensity <= 1
    assert all(said[0] == "yes" or len(said) == 2 for said in by_item.values())
    scores = labels.scores(answers)
    for column, t in enumerate(labels.read):
        if by_item.get(t) == ["yes"] and len(set(answers[:, t])) > 1 and t >= 60:
            assert scores[:, column].tolist() == (answers[:, t] == key[t]).tolist()


def test_shared_questions_with_a_small_budget_are_nearly_unbiased() -> None:
    key, answers = crowd(150, 4, seed=5)
    means = []
    for seed in range(400):
        labels = AimedLabels(np.full(150, 4), lambda t, c: bool(key[t] == c), budget=40, seed=seed)
        labels.ask(answers[:4])
        means.append(labels.scores(answers).mean(axis=1))
    off = np.mean(means, axis=0) - (answers == key).mean(axis=1)
    assert np.abs(off).max() < 0.02, off


def test_an_unsure_expert_leaves_an_item_out_and_the_same_seed_asks_the_same() -> None:
    key, answers = crowd(80, 3, seed=6)

    def judge(t: int, c: int) -> bool | None:
        return None if t % 2 else bool(key[t] == c)

    one, two = (AimedLabels(np.full(80, 3), judge, budget=90, seed=4) for _ in range(2))
    one.ask(answers), two.ask(answers)
    assert one.asked == two.asked
    unsure = {asked.item for asked in one.asked if asked.verdict == "unsure"}
    assert unsure
    assert not unsure & set(one.read)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [({"budget": 1}, "budget"), ({"uniform": 0.0}, "uniform"), ({"unanimous": 1.5}, "unanimous")],
)
def test_shared_questions_refuse_what_cannot_be(wrong: dict[str, float], said: str) -> None:
    with pytest.raises(ArgumentError, match=said):
        AimedLabels(np.full(3, 3), lambda t, c: True, **{"budget": 10, **wrong})  # type: ignore[arg-type]
