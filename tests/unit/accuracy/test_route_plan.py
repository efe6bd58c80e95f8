"""From a plan to questions, and from their answers to an estimate that is as good as the plan said."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import jsonschema
import numpy as np
import pytest
from scipy.stats import chi2, chisquare

from noracle import (
    ArgumentError,
    Evidence,
    Plan,
    Routing,
    check_routing,
    check_yes_rate,
    estimate_accuracy,
    plan_budget,
    plan_labels,
    read_result,
    route_items,
)
from noracle.ppi import complementary, ordinary, question, targeted
from noracle.schemas import load_schema

K, A, N = 5, 0.8, 1200
ITEMS = list(range(N))
ANSWERS = {"item": ITEMS, "system": ["agent"] * N, "answer": [(7 * i) % K for i in ITEMS]}
EVIDENCE = Evidence.from_tables(answers=ANSWERS, n_classes=K)


def budget_plan(*labels: Any, budget: float = 200.0, **more: Any) -> Plan:
    return plan_budget(
        cov=[[A * (1 - A)]],
        names=["right"],
        target="right",
        costs={},
        budgets=budget,
        labels=labels,
        accuracy=A,
        **more,
    )


MIXED = budget_plan(
    ordinary(price=0.7),
    question(n_classes=K, price=0.3),
    question(n_classes=K, n_asked=2, price=0.4),
    caps={"ordinary": 60, "question-2": 150},
)
AIMED = plan_labels(n_classes=K, accuracy=A, budget=300, kind="targeted", epsilon=0.2, n_items=N)
ASKED = plan_labels(
    n_classes=K,
    accuracy=A,
    n_items=N,
    budget=600,
    costs={"ordinary": 3.0, "question": 1.0},
    caps={"ordinary": 50},
)


def by_item(routing: Routing) -> dict[Any, list[tuple[Any, float | None]]]:
    rows: dict[Any, list[tuple[Any, float | None]]] = {}
    for item, asked, chance in routing.rows:
        rows.setdefault(item, []).append((asked, chance))
    return rows


def judged(routing: Routing, key: dict[int, int]) -> dict[str, list[Any]]:
    """The routing as filled in by somebody who knows the key; an open question gets the class."""
    columns = routing.columns()
    columns["verdict"] = [
        "yes" if asked is None or key[i] == asked else "no"
        for i, asked in zip(columns["item"], columns["class"], strict=True)
    ]
    columns["class"] = [
        key[i] if asked is None else asked
        for i, asked in zip(columns["item"], columns["class"], strict=True)
    ]
    return columns


def test_every_kind_gets_as_many_items_as_planned_and_no_item_two_kinds() -> None:
    assert set(MIXED.buy) == {"ordinary", "question", "question-2"}
    kinds: Counter[str] = Counter()
    for asked in by_item(route_items(EVIDENCE, plan=MIXED, seed=1)).values():
        if asked == [(None, None)]:
            kinds["ordinary"] += 1
            continue
        assert len({c for c, _ in asked}) == len(asked)
        assert all(chance == 1 / K for _, chance in asked)
        kinds["question" if len(asked) == 1 else f"question-{len(asked)}"] += 1
    assert kinds == dict(MIXED.buy)


def test_classes_and_items_are_drawn_uniformly() -> None:
    plan = budget_plan(complementary(n_classes=K, n_ruled_out=2, price=1.0), budget=600)
    pairs: Counter[tuple[int, ...]] = Counter()
    items: Counter[int] = Counter()
    for seed in range(5):
        for item, asked in by_item(route_items(EVIDENCE, plan=plan, seed=seed)).items():
            pairs[tuple(sorted(c for c, _ in asked))] += 1
            items[item * 10 // N] += 1
    assert len(pairs) == 10
    assert chisquare(list(pairs.values())).pvalue > 1e-4
    assert chisquare(list(items.values())).pvalue > 1e-4


def test_kinds_come_in_random_order() -> None:
    rows = route_items(EVIDENCE, plan=MIXED, seed=3).rows
    open_ones = [place for place, (_, asked, _) in enumerate(rows) if asked is None]
    assert abs(np.mean(open_ones) / len(rows) - 0.5) < 0.2
    assert [r[0] for r in rows] != sorted(r[0] for r in rows)


def test_planned_routing_is_reproducible_whatever_the_order_of_the_rows() -> None:
    backwards = Evidence.from_tables(answers={c: v[::-1] for c, v in ANSWERS.items()}, n_classes=K)
    for plan in (MIXED, AIMED):
        assert (
            route_items(EVIDENCE, plan=plan, seed=9).rows
            == route_items(backwards, plan=plan, seed=9).rows
        )
        assert (
            route_items(EVIDENCE, plan=plan, seed=9).rows
            != route_items(EVIDENCE, plan=plan, seed=10).rows
        )
        assert (
            route_items(EVIDENCE, plan=read_result(plan.to_dict()), seed=9).rows
            == route_items(EVIDENCE, plan=plan, seed=9).rows
        )  # type: ignore[arg-type]


def test_targeted_items_are_asked_with_the_share_of_the_plan_unless_told_otherwise() -> None:
    assert {round(p or 0, 9) for _, _, p in route_items(EVIDENCE, plan=AIMED, seed=1).rows} == {
        0.84,
        0.04,
    }
    assert {
        round(p or 0, 9) for _, _, p in route_items(EVIDENCE, plan=AIMED, seed=1, epsilon=0.5).rows
    } == {0.6, 0.1}
    own = budget_plan(targeted(n_classes=K, price=1.0))
    assert {round(p or 0, 9) for _, _, p in route_items(EVIDENCE, plan=own, seed=1).rows} == {
        0.96,
        0.01,
    }


def test_planned_routing_survives_json_and_keeps_the_schema() -> None:
    routing = route_items(EVIDENCE, plan=MIXED, seed=2)
    assert any(asked is None for _, asked, _ in routing.rows)
    data = json.loads(routing.to_json())
    jsonschema.Draft202012Validator(load_schema("routing/1")).validate(data)
    assert read_result(data) == routing
    assert "open" in str(routing)
    routing.plot()


def test_strata_of_a_plan_are_those_of_the_items() -> None:
    strata = ["hard" if i % 4 == 0 else "easy" for i in ITEMS]
    evidence = Evidence.from_tables(
        answers=ANSWERS, items={"item": ITEMS, "stratum": strata, "n_classes": [K] * N}
    )
    plan = plan_budget(
        cov={"hard": [[0.24]], "easy": [[0.09]]},
        shares={"hard": 0.25, "easy": 0.75},
        names=["right"],
        target="right",
        costs={},
        budgets=150,
        labels=[ordinary(price=1.0)],
    )
    placed = Counter(strata[item] for item, _, _ in route_items(evidence, plan=plan, seed=1).rows)
    assert placed == {name.removesuffix("/ordinary"): n for name, n in plan.buy.items()}
    with pytest.raises(ArgumentError, match="column stratum"):
        route_items(EVIDENCE, plan=plan, seed=1)


def test_labels_of_a_plan_with_raters_are_routed_and_its_raters_are_not() -> None:
    plan = plan_budget(
        cov=[[0.16, 0.08], [0.08, 0.1]],
        names=["right", "judge"],
        target="right",
        costs={"judge": 0.02},
        budgets=100,
        accuracy=A,
        labels=[ordinary(price=1.0), question(n_classes=K, price=0.3)],
        caps={"ordinary": 30},
    )
    labelled = sum(n for name, n in plan.buy.items() if name != "judge")
    assert any("+judge" in name for name in plan.buy)
    routing = route_items(EVIDENCE, plan=plan, seed=1)
    assert len(by_item(routing)) == labelled
    assert any("raters" in note for note in routing.notes)


@pytest.mark.parametrize(
    ("plan", "options", "words"),
    [
        (MIXED, {"n": 5}, "design and n must be left out"),
        (MIXED, {"design": "uniform"}, "design and n must be left out"),
        (MIXED, {"epsilon": 0.0}, "epsilon must be in"),
        (budget_plan(ordinary(price=0.1)), {}, "more items than there are, 1200; got 2000"),
        (
            budget_plan(ordinary(price=1.0, name="crowd")),
            {},
            "name its kinds of label .* got 'crowd'",
        ),
        (
            budget_plan(complementary(n_classes=9, n_ruled_out=6, price=1.0)),
            {},
            "fewer classes than an item has, 5",
        ),
        (
            plan_budget(
                cov=[[0.2, 0.1], [0.1, 0.2]],
                names=["human", "judge"],
                target="human",
                costs={"human": 1, "judge": 0.1},
                budgets=50,
            ),
            {},
            r"plan must buy a kind of label .* got .*human",
        ),
        (
            plan_budget(
                cov=[[0.2, 0.1], [0.1, 0.2]],
                names=["a", "b"],
                target={"a": 1.0, "b": -1.0},
                costs={"a": 1.0, "b": 0.1},
                budgets=50,
            ),
            {},
            "plan must buy a kind of label",
        ),
    ],
)
def test_impossible_planned_routings_are_refused(
    plan: Plan, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(ArgumentError, match=words):
        route_items(EVIDENCE, plan=plan, seed=1, **options)


def test_open_questions_do_not_fail_the_routing_check_where_classes_are_rare() -> None:
    key = {i: 0 if i % 10 else 1 for i in ITEMS}
    evidence = Evidence.from_tables(
        ANSWERS, judged(route_items(EVIDENCE, plan=MIXED, seed=5), key), n_classes=K
    )
    assert check_routing(evidence).passed
    assert (
        check_routing(evidence).counts["questions"]
        == MIXED.buy["question"] + 2 * MIXED.buy["question-2"]
    )
    assert check_yes_rate(evidence).passed


# -------------------------------------------------------------------------------------------------------
# as good as planned


def simulated(
    plan: Plan, seeds: range, **options: Any
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Values, squared standard errors and half-widths over worlds in which every answer is right
    with probability A.
    """
    found = []
    for seed in seeds:
        rng = np.random.default_rng([seed, 77])
        right, other = rng.random(N) < A, rng.integers(1, K, N)
        key = {
            i: int(a if right[i] else (a + other[i]) % K)
            for i, a in zip(ITEMS, ANSWERS["answer"], strict=True)
        }
        evidence = Evidence.from_tables(
            ANSWERS, judged(route_items(EVIDENCE, plan=plan, seed=seed), key), n_classes=K
        )
        estimate = estimate_accuracy(evidence, **options)
        found.append((estimate.value, estimate.se**2, estimate.width / 2))
    values, variances, widths = np.array(found).T
    return values, variances, widths


def assert_as_planned(values: np.ndarray, variances: np.ndarray, variance: float) -> None:
    """Unbiased, with the planned variance: in what the estimate says of itself to 2 %, and in its
    spread; each as far as chance allows.
    """
    n = len(values)
    assert abs(values.mean() - A) < 4.5 * (variance / n) ** 0.5
    assert variances.mean() == pytest.approx(
        variance, abs=0.02 * variance + 4.5 * variances.std() / n**0.5
    )
    low, high = chi2.ppf([1e-5, 1 - 1e-5], n - 1) / (n - 1)
    assert low < values.var(ddof=1) / variance < high


@pytest.mark.full
@pytest.mark.parametrize("n", [16, pytest.param(150, marks=pytest.mark.slow)])
def test_a_plan_with_a_budget_gives_the_variance_it_predicts(n: int) -> None:
    values, variances, _ = simulated(MIXED, range(n), interval="wald")
    assert_as_planned(values, variances, MIXED.diagnostics["variance"])


@pytest.mark.full
@pytest.mark.parametrize("n", [30, pytest.param(150, marks=pytest.mark.slow)])
def test_targeted_labels_of_a_budget_give_the_variance_that_was_predicted(n: int) -> None:
    plan = budget_plan(targeted(n_classes=K, price=1.0), budget=300)
    values, variances, _ = simulated(plan, range(n), method="ml", interval="exact")
    assert_as_planned(values, variances, plan.diagnostics["variance"])


@pytest.mark.full
@pytest.mark.parametrize("plan", [AIMED, ASKED], ids=["targeted", "mixed"])
def test_a_plan_of_labels_gives_the_half_width_it_predicts(plan: Plan) -> None:
    values, _, widths = simulated(plan, range(30), method="ml", interval="exact")
    assert widths.mean() == pytest.approx(plan.predicted, rel=0.03)
    assert abs(values.mean() - A) < 4.5 * plan.predicted / 1.96 / 30**0.5


@pytest.mark.full
def test_complementary_labels_that_are_asked_for_are_better_than_planned_by_just_the_yes_among_them() -> (
    None
):
    """The right class cannot be left out by somebody who does not know it; a yes then says more
    than what was planned.
    """
    plan = budget_plan(complementary(n_classes=K, price=1.0), budget=600)
    values, variances, _ = simulated(plan, range(30))
    exact = (A * (1 - A) + question(n_classes=K, price=1.0).noise(A)) / 600
    assert exact < 0.6 * plan.diagnostics["variance"]
    assert_as_planned(values, variances, exact)


def test_items_that_have_a_judgement_are_not_drawn_again() -> None:
    first = route_items(EVIDENCE, design="uniform", n=1000, seed=1).columns()
    first["verdict"] = ["no"] * 1000
    judged_already = Evidence.from_tables(ANSWERS, first, n_classes=K)
    seen = set(first["item"])
    for more in (
        route_items(judged_already, seed=2),
        route_items(
            judged_already,
            plan=plan_labels(n_classes=K, accuracy=A, budget=150, kind="ordinary"),
            seed=2,
        ),
    ):
        assert not seen & set(more.columns()["item"])
        assert more.counts["labelled_before"] == 1000
    with pytest.raises(ArgumentError, match="number of items without a judgement"):
        route_items(judged_already, n=201, seed=2)
    with pytest.raises(
        ArgumentError, match="more items than there are without a judgement, 200; got 300"
    ):
        route_items(judged_already, plan=AIMED, seed=2)


def test_a_targeted_plan_is_routed_for_as_many_systems_as_it_was_made_for() -> None:
    both = Evidence.from_tables(
        {
            name: [*ANSWERS[name], *(["other"] * N if name == "system" else ANSWERS[name])]
            for name in ANSWERS
        },
        n_classes=K,
    )
    with pytest.raises(
        ArgumentError,
        match="systems must be the 1 that the plan's targeted questions are for; got 2",
    ):
        route_items(both, plan=AIMED, seed=1)
    assert route_items(both, plan=AIMED, systems=["agent"], seed=1).systems == ("agent",)


def test_uniform_questions_beside_targeted_ones_keep_what_they_say() -> None:
    plan = plan_labels(
        n_classes=K,
        accuracy=A,
        n_items=N,
        half_width=0.05,
        costs={"targeted": 1.0, "question": 1.0},
        caps={"targeted": 100},
    )
    assert set(plan.buy) == {"targeted", "question"}
    rows = route_items(EVIDENCE, plan=plan, seed=3).rows
    assert sum(chance is None for _, _, chance in rows) == plan.buy["question"]
    assert {round(chance, 6) for _, _, chance in rows if chance is not None} <= {0.96, 0.01}
