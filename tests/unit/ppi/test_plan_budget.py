"""Plans: what they promise, that they can be checked, and what they refuse."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any

import numpy as np
import pytest

from noracle.errors import ArgumentError, EvidenceError
from noracle.ppi import (
    Additive,
    Cascade,
    Maximum,
    Measurement,
    Table,
    complementary,
    ordinary,
    plan_budget,
)
from noracle.results import Plan, read_result

NAMES = ["human", "pro", "flash"]
COV = [[0.2275, 0.1140, 0.1161], [0.1140, 0.2436, 0.1443], [0.1161, 0.1443, 0.2475]]
PRICES = {"human": 10.0, "pro": 1.0, "flash": 0.24}
FIXTURE: dict[str, Any] = {"cov": COV, "names": NAMES, "target": "human"}


def rows(n: int = 300, seed: int = 0) -> np.ndarray:
    """Pilot rows: a target and two raters."""
    rng = np.random.default_rng(seed)
    return rng.multivariate_normal([0.5, 0.4, 0.6], COV, size=n)


# ------------------------------------------------------------------------------------------------------------------
# promises

CALLS: dict[str, dict[str, Any]] = {
    "labels in hand": {
        **FIXTURE,
        "costs": {"pro": 1.0, "flash": 0.24},
        "budgets": 500,
        "have": {"human+pro+flash": 250},
    },
    "labels for sale": {**FIXTURE, "costs": PRICES, "budgets": 800},
    "capped": {
        **FIXTURE,
        "costs": PRICES,
        "budgets": {"usd": 2000},
        "caps": {"human": 60, "pro+flash": 11},
    },
    "two budgets": {
        **FIXTURE,
        "costs": {
            "usd": PRICES,
            "hours": Maximum(prices={"human": 0.2, "pro": 0.01, "flash": 0.01}),
        },
        "budgets": {"usd": 600, "hours": 9},
    },
    "half-width": {**FIXTURE, "costs": PRICES, "half_width": 0.05},
    "half-width with rows": {
        **FIXTURE,
        "costs": PRICES,
        "half_width": 0.05,
        "budgets": {"usd": None},
        "have": {"human+pro+flash": 250},
    },
    "half-width and a second budget": {
        **FIXTURE,
        "costs": {"usd": PRICES, "hours": {"human": 0.1, "pro": 0.0, "flash": 0.0}},
        "budgets": {"usd": None, "hours": 31},
        "half_width": 0.05,
    },
    "difference": {
        **FIXTURE,
        "target": {"pro": 1.0, "flash": -1.0},
        "costs": PRICES,
        "budgets": 300,
    },
    "fee": {**FIXTURE, "costs": Additive(prices=PRICES, per_item=0.5), "budgets": 300},
    "cascade": {
        **FIXTURE,
        "costs": Cascade(
            lengths={"flash": 100, "pro": 400}, output=0.002, input=0.0002, prices={"human": 10.0}
        ),
        "budgets": 300,
    },
    "table": {
        **FIXTURE,
        "costs": Table(prices={"human+flash": 10.5, "flash": 0.3, "pro+flash": 1.0}),
        "budgets": 300,
    },
    "function": {
        **FIXTURE,
        "costs": lambda names: 0.1 + sum(PRICES[n] for n in names) ** 0.9,
        "budgets": 300,
    },
    "listed": {
        **FIXTURE,
        "costs": PRICES,
        "budgets": 300,
        "measurements": ["human+flash", ("flash",), "human"],
    },
    "free but capped": {
        **FIXTURE,
        "costs": {**PRICES, "flash": 0.0},
        "caps": {"flash": 400},
        "budgets": 300,
    },
    "kinds of label": {
        **FIXTURE,
        "costs": PRICES,
        "budgets": 300,
        "accuracy": 0.35,
        "labels": [
            complementary(n_classes=4, price=1.0),
            complementary(n_classes=4, n_ruled_out=2, price=2.5),
        ],
        "caps": {"human": 12},
    },
    "pilot": {
        "pilot": rows(),
        "names": NAMES,
        "target": "human",
        "costs": PRICES,
        "budgets": 300,
        "have": "pilot",
    },
    "strata": {
        "pilot": {**dict(zip(NAMES, rows().T, strict=True)), "group": ["x", "y", "y"] * 100},
        "strata": "group",
        "target": "human",
        "costs": PRICES,
        "budgets": 900,
    },
    "thirteen raters": {
        "cov": 0.5 * np.eye(14) + 0.5,
        "names": [f"r{i}" for i in range(14)],
        "target": "r0",
        "costs": {"r0": 10.0, **{f"r{i}": 0.1 * i for i in range(1, 14)}},
        "budgets": 300,
    },
}


@pytest.mark.thin(2)
@pytest.mark.parametrize("name", CALLS)
def test_every_plan_can_be_checked_and_keeps_its_budgets(name: str) -> None:
    plan = plan_budget(**CALLS[name])
    said = plan.diagnostics
    assert plan.verify()
    assert all(n >= 2 for n in plan.buy.values())
    for budget, limit in said["problem"]["budgets"].items():
        assert math.isnan(limit) or said["spent"][budget] <= limit * (1 + 1e-12)
    assert said["relaxed_gap"] <= 1e-6
    assert 0 <= said["gap"] < 0.02
    total = dict.fromkeys(said["problem"]["names"], 0.0)
    for weights in (*said["weights"].values(), said["weights_in_hand"]):
        for variable, weight in weights.items():
            total[variable] += weight
    assert np.abs(np.array(list(total.values())) - said["problem"]["target"]).max() <= 1e-10
    again = read_result(json.loads(plan.to_json()))
    assert isinstance(again, Plan)
    assert again.verify()
    if plan.goal == "half-width":
        assert plan.predicted <= plan.wanted
        assert plan.cost >= said["least_budget"] * (1 - 1e-9)
    for other in plan.alternatives:
        if other["feasible"] and plan.goal == "budget":
            assert plan.predicted <= other["predicted"] * (1 + 1e-3)
        elif other["feasible"]:
            assert plan.cost <= other["cost"] * (1 + 1e-3)


@pytest.mark.thin(2)
@pytest.mark.parametrize(
    "name", ["labels for sale", "labels in hand", "half-width", "kinds of label", "table"]
)
@pytest.mark.parametrize(
    "falsify",
    [
        lambda p: {"buy": {k: n + 1 for k, n in p.buy.items()}},
        lambda p: {"predicted": p.predicted * 0.99},
        lambda p: {"cost": p.cost - 1.0},
        lambda p: {"buy": {**p.buy, "nobody": 3}},
        lambda p: {"diagnostics": {**p.diagnostics, "variance": p.diagnostics["variance"] * 0.99}},
        lambda p: {
            "diagnostics": {**p.diagnostics, "y": [v * 1.02 + 0.001 for v in p.diagnostics["y"]]}
        },
        lambda p: {
            "diagnostics": {
                **p.diagnostics,
                "prices": {k: 1.1 * v for k, v in p.diagnostics["prices"].items()},
                "y": [0.0] * 3,
            }
        },
        lambda p: {
            "diagnostics": {
                **p.diagnostics,
                "weights": {k: dict.fromkeys(w, 0.1) for k, w in p.diagnostics["weights"].items()},
            }
        },
    ],
)
def test_a_false_plan_does_not_verify(name: str, falsify: Any) -> None:
    plan = plan_budget(**CALLS[name])
    assert not dataclasses.replace(plan, **falsify(plan)).verify()


def test_label_plans_are_still_checked_by_their_own_code() -> None:
    from noracle import plan_labels

    assert plan_labels(n_classes=10, accuracy=0.78, match=300).verify()


def test_fixture_variances_are_the_published_ones() -> None:
    """Planned variance over that of 250 labels, B = 50 to 2000."""
    for budget, ratio in (
        (50, 0.8912),
        (250, 0.8037),
        (500, 0.7698),
        (1000, 0.7425),
        (2000, 0.7243),
    ):
        plan = plan_budget(
            **FIXTURE,
            costs={"pro": 1.0, "flash": 0.24},
            budgets=budget,
            have={"human+pro+flash": 250},
        )
        assert plan.diagnostics["variance"] / (0.2275 / 250) == pytest.approx(ratio, abs=2e-4)
        assert (
            "pro+flash" not in plan.buy
        )  # with additive prices and positive weights separate draws win
        assert plan.diagnostics["variance_ratio"] == pytest.approx(ratio, abs=2e-4)


# --------------------------------------------------------------------------------------------------------------
# kinds of label


def _kinds(price: float, r2: float | None = None) -> Plan:
    variance = 0.21
    if r2 is None:
        cov, names, costs = [[variance]], ["gold"], {"gold": 1.0}
    else:
        shared = math.sqrt(r2) * variance
        cov, names, costs = (
            [[variance, shared], [shared, variance]],
            ["gold", "judge"],
            {"gold": 1.0, "judge": 0.02},
        )
    labels = [complementary(n_classes=4, price=price)]
    return plan_budget(
        cov=cov, names=names, target="gold", costs=costs, labels=labels, accuracy=0.7, budgets=1000
    )


def _buys_complementary(plan: Plan) -> bool:
    return any("complementary" in name for name in plan.buy)


def test_break_even_price_of_complementary_labels() -> None:
    low, high = 0.2, 0.3
    while high - low > 1e-3:
        middle = (low + high) / 2
        low, high = (middle, high) if _buys_complementary(_kinds(middle)) else (low, middle)
    assert low == pytest.approx(0.7 / (0.7 + 4 - 2), abs=3e-3)


def test_a_good_rater_moves_the_break_even_price_down() -> None:
    assert not _buys_complementary(_kinds(0.20, 0.5))
    assert _buys_complementary(_kinds(0.10, 0.5))


def test_scarce_experts() -> None:
    shared = math.sqrt(0.5) * 0.21
    given: dict[str, Any] = {
        "cov": [[0.21, shared], [shared, 0.21]],
        "names": ["gold", "judge"],
        "target": "gold",
        "costs": {"gold": 1.0, "judge": 0.02},
        "budgets": 1000,
        "caps": {"gold": 100},
        "accuracy": 0.7,
    }
    without = plan_budget(**given).diagnostics["variance"]
    one = plan_budget(**given, labels=[complementary(n_classes=4, price=0.25)])
    several = [complementary(n_classes=4, n_ruled_out=j, price=0.25 * j) for j in (1, 2)]
    free = plan_budget(**given, labels=several)
    assert one.diagnostics["variance"] / without == pytest.approx(0.182, abs=0.005)
    assert free.diagnostics["variance"] / without == pytest.approx(0.151, abs=0.005)
    assert one.buy["gold+judge"] == 100


def test_a_named_ordinary_label_is_the_target_itself() -> None:
    by_name = plan_budget(
        cov=[[0.21]],
        names=["gold"],
        target="gold",
        costs={},
        labels=[ordinary(price=1.0)],
        accuracy=0.7,
        budgets=100,
    )
    assert by_name.buy == {"ordinary": 100}


# -------------------------------------------------------------------------------------------------------------------
# strata


def test_strata_save_variance_where_raters_differ() -> None:
    shares, skill, level = [0.5, 0.3, 0.2], [0.9, 0.5, 0.1], [0.8, 0.5, 0.3]
    sd = [math.sqrt(p * (1 - p)) for p in level]
    within = [np.array([[s * s, r * s], [r * s, 1.0]]) for s, r in zip(sd, skill, strict=True)]
    mean = float(np.dot(shares, level))
    pooled = sum((w * S for w, S in zip(shares, within, strict=True)), np.zeros((2, 2)))
    pooled[0, 0] += sum(
        w * (p - mean) ** 2 for w, p in zip(shares, level, strict=True)
    )  # the rater's level is the same everywhere
    costs = {"gold": 1.0, "judge": 0.02}
    together = plan_budget(
        cov=pooled, names=["gold", "judge"], target="gold", costs=costs, budgets=500
    )
    apart = plan_budget(
        cov=dict(zip("abc", within, strict=True)),
        shares=dict(zip("abc", shares, strict=True)),
        names=["gold", "judge"],
        target="gold",
        costs=costs,
        budgets=500,
    )
    assert apart.verify()
    neyman = next(a for a in apart.alternatives if a["name"] == "classical")
    assert (neyman["predicted"] / 1.959964) ** 2 == pytest.approx(3.90e-4, rel=5e-3)
    assert apart.diagnostics["variance"] == pytest.approx(2.38e-4, rel=5e-3)
    assert apart.diagnostics["variance"] / together.diagnostics["variance"] == pytest.approx(
        0.594, abs=0.003
    )
    assert not any(
        name.startswith("c/") and "judge" in name for name in apart.buy
    )  # no rater where it knows nothing


# --------------------------------------------------------------------------------------------------------------------
# pilots


def test_a_pilot_may_come_in_any_form() -> None:
    values = rows(200)
    values[:60, 0] = np.nan
    given: dict[str, Any] = {"target": "human", "costs": PRICES, "budgets": 300, "have": "pilot"}
    wide = {
        name: [None if np.isnan(v) else float(v) for v in values[:, j]]
        for j, name in enumerate(NAMES)
    }
    long = {
        "item": [i for i in range(200) for _ in NAMES],
        "rater": NAMES * 200,
        "value": [None if np.isnan(v) else float(v) for v in values.ravel()],
    }
    plans = [plan_budget(pilot, **given) for pilot in (values, wide, long)]
    assert plans[0].buy == plans[1].buy == plans[2].buy
    assert plans[0].inputs["in_hand"] == {"pro+flash": 60, "human+pro+flash": 140}
    assert plans[0].inputs["pilot_rows"] == 140


def test_rows_in_hand_are_not_counted_twice() -> None:
    """The 250 labelled rows are the prior: with nothing bought the variance is that of 250 rows,
    not of 500.
    """
    plan = plan_budget(**FIXTURE, costs={"pro": 1.0}, budgets=1.5, have={"human+pro+flash": 250})
    assert plan.buy == {}
    assert plan.diagnostics["variance"] == pytest.approx(0.2275 / 250)


def test_counts_by_pattern_and_rows_are_the_same() -> None:
    values = rows(100)
    values[:30, 0] = np.nan
    given: dict[str, Any] = {**FIXTURE, "costs": PRICES, "budgets": 300}
    first = plan_budget(**given, have=values)
    second = plan_budget(**given, have={"pro+flash": 30, ("human", "pro", "flash"): 70})
    assert first.buy == second.buy


def test_smallest_budget_without_rows_is_the_closed_form() -> None:
    unit = plan_budget(**FIXTURE, costs=PRICES, budgets=1e7).diagnostics["relaxed_variance"] * 1e7
    plan = plan_budget(**FIXTURE, costs=PRICES, half_width=0.03)
    assert plan.diagnostics["least_budget"] == pytest.approx(
        unit * (1.959964 / 0.03) ** 2, rel=1e-6
    )
    assert plan.cost <= plan.diagnostics["least_budget"] * 1.001


def test_a_reached_half_width_buys_nothing() -> None:
    plan = plan_budget(**FIXTURE, costs=PRICES, half_width=0.06, have={"human": 250})
    assert (plan.buy, plan.cost) == ({}, 0.0)
    assert plan.verify()


def test_own_measurements_with_a_matrix_are_planned() -> None:
    duel = Measurement(
        name="duel", observes=(1, 2), cost=(0.5,), matrix=((0.0, 1.0, -1.0),), noise=((0.01,),)
    )
    plan = plan_budget(
        **{**FIXTURE, "target": {"pro": 1.0, "flash": -1.0}},
        costs=PRICES,
        budgets=100,
        measurements=[duel, "pro", "flash"],
    )
    assert plan.buy == {"duel": 200}
    assert plan.verify()


# --------------------------------------------------------------------------------------------------------------------
# errors


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            {"costs": {"pro": 1.0, "flash": 0.24}},
            "target must be covered .* nothing observes all of human",
        ),
        ({"budgets": 15}, "at least 20 for 'budget': the cheapest plan takes 2 of human; got 15"),
        ({"budgets": 0}, "budgets must be positive"),
        ({"budgets": None}, "budgets must be given, or a half_width"),
        ({"costs": {**PRICES, "flash": 0.0}}, "capped; got 0 for 'flash'"),
        ({"costs": {**PRICES, "flash": -1.0}}, "not negative"),
        ({"costs": {**PRICES, "other": 1.0}}, "must name variables; got 'other'"),
        ({"cov": np.ones((3, 3))}, "must not be singular"),
        ({"cov": [[1, 0.9, -0.9], [0.9, 1, 0.9], [-0.9, 0.9, 1]]}, "positive semi-definite"),
        ({"cov": [[1, 0.5, 0], [0.4, 1, 0], [0, 0, 1]]}, "symmetric"),
        ({"cov": [[1, np.nan, 0], [np.nan, 1, 0], [0, 0, 1]]}, "NaN"),
        ({"cov": [[1, 0, 0], [0, 0, 0], [0, 0, 1]]}, "positive variances; got 0 for pro"),
        ({"cov": np.eye(2)}, "3 rows and columns"),
        ({"target": "nobody"}, "target must name variables"),
        ({"target": {"human": 0.0}}, "not zero"),
        ({"target": [1.0]}, "3 numbers"),
        ({"caps": {"human": -1}}, "caps must be numbers"),
        ({"caps": {"human": 0}}, "target must be covered"),
        ({"measurements": "some"}, "'auto' or a list"),
        ({"measurements": ["nobody"]}, "must name variables"),
        ({"measurements": []}, "there must be some"),
        ({"half_width": -1.0, "budgets": None}, "half_width must be positive"),
        ({"half_width": 0.05}, "leave one budget open"),
        ({"half_width": 0.01, "budgets": None, "caps": {"human": 100}}, "cannot be reached"),
        ({"have": {"nobody": 3}}, "have must name variables"),
        ({"have": {"human": -3}}, "at least 0"),
        ({"have": "pilot"}, "needs a pilot"),
        ({"labels": [complementary(n_classes=4, price=1.0)]}, "accuracy must be given"),
        ({"labels": [ordinary(price=1.0, name="pro")], "accuracy": 0.5}, "names with variables"),
        ({"names": ["human", "pro+x", "flash"], "costs": {"human": 1.0}}, r"must not hold '\+'"),
        ({"confidence": 1.0}, "confidence"),
        ({"pilot": rows()}, "got both"),
        ({"costs": {"usd": PRICES, "hours": PRICES}}, "for each budget"),
        ({"budgets": {"usd": 10, "hours": 3}}, "for each budget"),
    ],
)
def test_bad_arguments_are_refused_with_a_reason(change: dict[str, Any], says: str) -> None:
    with pytest.raises(ArgumentError, match=says):
        plan_budget(**{**FIXTURE, "costs": PRICES, "budgets": 500, **change})


@pytest.mark.parametrize(
    ("pilot", "says"),
    [
        (np.full((10, 3), np.nan), "NaN everywhere"),
        (np.where(np.arange(30).reshape(10, 3) % 3 == 1, np.nan, rows(10)), "NaN everywhere"),
        (np.where(np.arange(30).reshape(10, 3) % 3 == 1, 1.0, rows(10)), "must vary"),
        (np.where(np.arange(30).reshape(10, 3) == 4, np.inf, rows(10)), "infinite"),
        (rows(1), "two rows"),
        (rows(10)[:, :2], "one for each column"),
        ({"human": ["yes"], "pro": ["no"], "flash": ["no"]}, "must hold numbers"),
        ({"human": [1.0, 2.0]}, "must have columns"),
        ({"item": [1, 1], "rater": ["human", "human"], "value": [1.0, 2.0]}, "none of"),
    ],
)
def test_bad_pilots_are_refused_with_a_reason(pilot: object, says: str) -> None:
    with pytest.raises(EvidenceError, match=says):
        plan_budget(pilot, names=NAMES, target="human", costs=PRICES, budgets=500)


def test_the_least_budget_that_is_named_works() -> None:
    with pytest.raises(ArgumentError, match="at least 20 "):
        plan_budget(**FIXTURE, costs=PRICES, budgets=19.99)
    plan = plan_budget(**FIXTURE, costs=PRICES, budgets=20)
    assert plan.buy == {"human": 2}


def test_a_card_can_be_printed_and_drawn() -> None:
    plan = plan_budget(**CALLS["labels in hand"])
    assert f"buy {plan.buy['pro']} pro + {plan.buy['flash']:,} flash" in str(plan)
    assert plan.plot() is not None


# --------------------------------------------------------------------------------------------------
# plain PPI beside PPI++

RATED = [[0.2275, 0.1140, 0.1161], [0.1140, 0.2436, 0.1443], [0.1161, 0.1443, 0.2475]]
RATERS = ("human", "pro", "flash")
Z = 1.959963984540054


def _named(plan: Plan) -> dict[str, Any]:
    return {str(other["name"]): other for other in plan.alternatives}


@pytest.mark.parametrize(("rater", "price"), [("pro", 1.0), ("flash", 0.24)])
def test_plain_ppi_has_the_variance_of_its_formula(rater: str, price: float) -> None:
    """V = Var(Y − f)/n + Var(f)/N; its least value within a budget B is (√(Var(Y − f)·c₁) +
    √(Var(f)·c₂))²/B.
    """
    at = RATERS.index(rater)
    apart, own = RATED[0][0] + RATED[at][at] - 2 * RATED[0][at], RATED[at][at]
    costs = {"human": 10.0, "pro": 1.0, "flash": 0.24}
    plain = _named(
        plan_budget(cov=RATED, names=RATERS, target="human", costs=costs, budgets=20_000)
    )[f"PPI {rater}"]
    n, rest = plain["buy"][f"human+{rater}"], plain["buy"][rater]
    assert plain["predicted"] == pytest.approx(Z * math.sqrt(apart / n + own / rest), rel=1e-9)
    best = (math.sqrt(apart * (10 + price)) + math.sqrt(own * price)) ** 2 / 20_000
    assert Z * math.sqrt(best) <= plain["predicted"] <= 1.001 * Z * math.sqrt(best)
    held = plan_budget(
        cov=RATED,
        names=RATERS,
        target="human",
        costs={"pro": 1.0, "flash": 0.24},
        budgets=500,
        have={"human+pro+flash": 250, f"{rater}": 40, "human": 9},
    )
    expected = Z * math.sqrt(apart / 250 + own / (math.floor(500 / price + 1e-9) + 40))
    assert _named(held)[f"PPI {rater}"]["predicted"] == pytest.approx(expected, rel=1e-9)


def test_plain_ppi_is_never_better_than_tuned_ppi() -> None:
    rng = np.random.default_rng(8)
    for _ in range(12):
        root = rng.normal(size=(3, 3))
        cov = root @ root.T + 0.1 * np.eye(3)
        found = _named(
            plan_budget(
                cov=cov,
                names=RATERS,
                target="human",
                costs={"human": 8.0, "pro": 1.0, "flash": 0.2},
                budgets=4000,
            )
        )
        for rater in RATERS[1:]:
            assert found[f"PPI++ {rater}"]["predicted"] <= found[f"PPI {rater}"]["predicted"] * (
                1 + 1e-6
            )


def test_plain_ppi_in_strata_with_labels_and_for_a_half_width() -> None:
    costs = {"human": 10.0, "pro": 1.0, "flash": 0.24}
    one = plan_budget(cov=RATED, names=RATERS, target="human", costs=costs, budgets=20_000)
    two = plan_budget(
        cov={"a": RATED, "b": RATED},
        shares={"a": 0.5, "b": 0.5},
        names=RATERS,
        target="human",
        costs=costs,
        budgets=20_000,
    )
    assert _named(two)["PPI pro"]["predicted"] == pytest.approx(
        _named(one)["PPI pro"]["predicted"], rel=1e-3
    )
    goal = _named(
        plan_budget(cov=RATED, names=RATERS, target="human", costs=costs, half_width=0.03)
    )["PPI flash"]
    assert goal["feasible"]
    assert goal["predicted"] <= 0.03
    labels = [complementary(n_classes=4, price=2.0)]
    kinds = plan_budget(
        cov=RATED,
        names=RATERS,
        target="human",
        costs={"pro": 1.0},
        budgets=3000,
        accuracy=0.7,
        labels=labels,
    )
    assert _named(kinds)["PPI pro"]["feasible"]
    several = plan_budget(
        cov=RATED, names=RATERS, target={"human": 1, "pro": -1}, costs=costs, budgets=2000
    )
    assert not [
        name for name in _named(several) if name.startswith("PPI ")
    ]  # plain PPI is about one mean
