from __future__ import annotations

from collections import Counter

import pytest
from scipy.stats import chisquare

from noracle import ArgumentError, Evidence, check_routing, estimate_accuracy, route_items

N, K = 4000, 5


def answers(n: int = N, systems: tuple[str, ...] = ("a",)) -> dict[str, list[object]]:
    rows = [
        (i, s, None if (i + j) % 10 == 0 else (i * (j + 1)) % K)
        for j, s in enumerate(systems)
        for i in range(n)
    ]
    return {
        "item": [r[0] for r in rows],
        "system": [r[1] for r in rows],
        "answer": [r[2] for r in rows],
    }


EVIDENCE = Evidence.from_tables(answers=answers(), n_classes=K)


def test_uniform_routing_is_uniform_and_each_item_is_asked_once() -> None:
    routing = route_items(EVIDENCE, seed=1)
    columns = routing.columns()
    assert sorted(columns["item"]) == list(range(N))
    assert set(columns["propensity"]) == {1 / K}
    assert chisquare(list(Counter(columns["class"]).values())).pvalue > 1e-4
    assert columns["item"] != sorted(columns["item"])


def test_order_of_items_is_random() -> None:
    first = [route_items(EVIDENCE, seed=s, n=1).columns()["item"][0] for s in range(60)]
    assert len(set(first)) > 50
    halves = Counter(int(i) * 2 // N for i in first)
    assert min(halves.values()) > 10


@pytest.mark.parametrize("epsilon", [0.05, 0.5, 1.0])
def test_targeted_routing_asks_the_answer_as_often_as_recorded(epsilon: float) -> None:
    table = answers()
    given = dict(zip(table["item"], table["answer"], strict=True))
    routing = route_items(EVIDENCE, design="targeted", epsilon=epsilon, seed=2)
    aimed = 1 - epsilon + epsilon / K
    hits = 0
    for item, asked, chance in routing.rows:
        if given[item] is None:
            assert chance == pytest.approx(1 / K)
        elif asked == given[item]:
            hits += 1
            assert chance == pytest.approx(aimed)
        else:
            assert chance == pytest.approx(epsilon / K)
    answered = sum(a is not None for a in given.values())
    assert hits / answered == pytest.approx(
        aimed, abs=4 * (aimed * (1 - aimed) / answered) ** 0.5 + 1e-9
    )


def test_propensities_of_votes_sum_to_one() -> None:
    evidence = Evidence.from_tables(answers=answers(600, ("a", "b", "c")), n_classes=K)
    chances: dict[object, dict[object, float]] = {}
    for seed in range(40):
        for item, asked, chance in route_items(
            evidence, design="targeted", epsilon=0.3, seed=seed
        ).rows:
            assert chances.setdefault(item, {}).setdefault(asked, chance) == chance
    complete = [c for c in chances.values() if len(c) == K]
    assert len(complete) > 100
    assert all(sum(c.values()) == pytest.approx(1.0) for c in complete)


def test_routing_is_reproducible_from_its_seed_whatever_the_order_of_the_rows() -> None:
    table = answers(200)
    order = list(range(200))[::-1]
    backwards = Evidence.from_tables(
        answers={c: [v[i] for i in order] for c, v in table.items()}, n_classes=K
    )
    forwards = Evidence.from_tables(answers=table, n_classes=K)
    assert (
        route_items(forwards, design="targeted", seed=9).rows
        == route_items(backwards, design="targeted", seed=9).rows
    )
    assert route_items(forwards, seed=9).rows != route_items(forwards, seed=10).rows
    drawn = route_items(forwards)
    assert route_items(forwards, seed=drawn.seed).rows == drawn.rows


def test_routed_questions_serve_every_system_and_pass_their_own_check() -> None:
    """Ask as routed for system a, judge by a key, estimate system b with the recorded propensities."""
    truth = {i: (3 * i) % K for i in range(N)}
    rows = []
    for i in range(N):
        rows.append((i, "a", truth[i] if i % 10 < 8 else (truth[i] + 1) % K))
        rows.append((i, "b", truth[i] if i % 10 in (0, 1, 2, 8, 9) else (truth[i] + 2) % K))
    table = {
        "item": [r[0] for r in rows],
        "system": [r[1] for r in rows],
        "answer": [r[2] for r in rows],
    }
    evidence = Evidence.from_tables(answers=table, n_classes=K)
    columns = route_items(evidence, design="targeted", systems=["a"], epsilon=0.2, seed=4).columns()
    verdicts = [
        "yes" if truth[i] == c else "no"
        for i, c in zip(columns["item"], columns["class"], strict=True)
    ]
    judged = Evidence.from_tables(
        answers=table, judgements={**columns, "verdict": verdicts}, n_classes=K
    )
    for system, accuracy, method in (
        ("a", 0.8, "ml"),
        ("b", 0.5, "scores"),
    ):  # every question was aimed at a with one probability
        estimate = estimate_accuracy(judged, system=system)
        assert estimate.method == method
        assert estimate.low <= accuracy <= estimate.high
        assert estimate.width < 0.35
    assert check_routing(judged).passed


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"epsilon": 0.0}, "epsilon must be in"),
        ({"epsilon": 1.2}, "epsilon must be in"),
        ({"n": 0}, "n must be in"),
        ({"n": N + 1}, "n must be in"),
        ({"design": "best"}, "design must be one of"),
        ({"systems": ["nobody"]}, "systems must be in answers"),
    ],
)
def test_impossible_routings_are_refused(options: dict[str, object], words: str) -> None:
    with pytest.raises((ArgumentError, ValueError), match=words):
        route_items(EVIDENCE, **options)  # type: ignore[arg-type]
