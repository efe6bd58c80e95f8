"""Prices, caps, projections and ledgers."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from noracle.errors import ArgumentError
from noracle.search.budget import Budget, CallPrices, Ledger
from noracle.search.model import BudgetReached, Usage


def test_prices_are_per_million_tokens(tmp_path: Path) -> None:
    path = tmp_path / "prices.json"
    table = {"currency": "EUR", "small": {"input_per_million": 0.1, "output_per_million": 0.4}}
    path.write_text(json.dumps(table))
    prices = CallPrices.read(path)
    assert prices.cost("small", Usage(10_000_000, 1_000_000)) == pytest.approx(1.4)
    assert prices.currency == "EUR"
    assert math.isnan(prices.cost("large", Usage(1, 1)))
    assert prices.reason("large") == "no price is known for 'large'"
    path.write_text(json.dumps({**table, "*": {"input_per_million": 1, "output_per_million": 1}}))
    assert CallPrices.read(path).cost("large", Usage(500_000, 500_000)) == 1.0


def test_prices_may_be_toml_like_the_other_prices(tmp_path: Path) -> None:
    path = tmp_path / "prices.toml"
    path.write_text('currency = "EUR"\n["m-4.1"]\ninput_per_million = 1\noutput_per_million = 2\n')
    assert CallPrices.read(path).cost("m-4.1", Usage(1_000_000, 1_000_000)) == 3.0
    path.write_text("currency = ")
    with pytest.raises(ArgumentError, match=r"prices\.toml"):
        CallPrices.read(path)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"m": 3}',
        '{"m": {"input_per_million": 1}}',
        '{"m": {"input_per_million": "x"}}',
        "\x00",
    ],
)
def test_a_file_that_is_no_price_list_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "prices.json"
    path.write_text(text)
    with pytest.raises(ArgumentError, match=r"prices\.json"):
        CallPrices.read(path)


def test_a_missing_price_list_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="No such file"):
        CallPrices.read(tmp_path / "none.json")


@pytest.mark.parametrize("price", [-1.0, math.inf])
def test_senseless_prices_are_refused(price: float) -> None:
    with pytest.raises(ArgumentError, match="finite"):
        CallPrices(price, 1.0)
    with pytest.raises(ArgumentError, match="'m'"):
        CallPrices(models={"m": (1.0, price)})


@pytest.mark.parametrize("cap", ["calls", "tokens", "cost", "seconds"])
@pytest.mark.parametrize("value", [0, -1, math.nan, math.inf])
def test_senseless_caps_are_refused(cap: str, value: float) -> None:
    with pytest.raises(ArgumentError, match=cap):
        Budget(**{cap: value})


def test_the_cap_on_calls_counts_those_in_flight() -> None:
    budget = Budget(calls=2)
    budget.reserve()
    budget.reserve()
    with pytest.raises(BudgetReached, match=r"calls \(2\)"):
        budget.reserve()
    budget.release()
    budget.reserve()
    budget.settle(Usage(1, 1), 0.0)
    budget.release(lost=True)
    with pytest.raises(BudgetReached):
        budget.reserve()
    assert budget.used["calls"] == 2


@pytest.mark.parametrize(("caps", "word"), [({"tokens": 10}, "tokens"), ({"cost": 0.5}, "cost")])
def test_tokens_and_cost_stop_at_the_cap(caps: dict[str, float], word: str) -> None:
    budget = Budget(**caps)
    budget.reserve()
    budget.settle(Usage(6, 3), 0.4)
    budget.reserve()
    budget.settle(Usage(1, 0), 0.2)
    with pytest.raises(BudgetReached, match=word):
        budget.check()


def test_an_unknown_cost_never_slips_under_a_cap() -> None:
    budget = Budget(cost=1.0)
    budget.reserve()
    budget.settle(Usage(1, 1), math.nan)
    with pytest.raises(BudgetReached, match="cost"):
        budget.check()


def test_seconds_run_from_the_first_call(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr("noracle.search.budget.time.monotonic", lambda: clock[0])
    budget = Budget(seconds=5)
    clock[0] = 200.0
    budget.reserve()
    clock[0] = 204.9
    budget.check()
    clock[0] = 205.0
    with pytest.raises(BudgetReached, match="seconds"):
        budget.check()


def test_what_an_earlier_part_paid_counts() -> None:
    budget = Budget(calls=10, cost=1.0)
    budget.add_past(9, Usage(5, 5), 0.2)
    budget.reserve()
    with pytest.raises(BudgetReached, match="calls"):
        budget.reserve()


def test_projection_names_the_caps_it_would_reach() -> None:
    budget = Budget(calls=1000, tokens=10_000, cost=0.01)
    projection = budget.project(
        100,
        calls_per_item=2.5,
        tokens_per_call=Usage(30, 10),
        prices=CallPrices(models={"m": (1.0, 2.0)}),
        model="m",
    )
    assert (projection.calls, projection.usage) == (250, Usage(7500, 2500))
    assert projection.cost == pytest.approx(0.0125)
    assert projection.stops_at == ("cost",)
    assert (
        str(projection)
        == "at most 250 calls, about 10,000 tokens, about 0.0125 USD; stops at the cap on cost"
    )


def test_projection_without_a_price_says_so() -> None:
    projection = Budget().project(3, calls_per_item=1, tokens_per_call=Usage(1, 1), model="m")
    assert math.isnan(projection.cost)
    assert (
        str(projection)
        == "at most 3 calls, about 6 tokens, cost unknown (no price is known for 'm')"
    )


def test_ledgers_add_and_an_unknown_cost_is_null_with_a_reason() -> None:
    one = Ledger(calls=1, cached=2, usage=Usage(3, 4), cost=0.5)
    two = Ledger(
        calls=1,
        failed=1,
        retried=2,
        estimated=1,
        usage=Usage(1, 1),
        cost=math.nan,
        reason="no price is known for 'm'",
    )
    both = one + two
    assert (both.calls, both.cached, both.failed, both.retried, both.estimated, both.usage) == (
        2,
        2,
        1,
        2,
        1,
        Usage(4, 5),
    )
    data = json.loads(json.dumps(both.to_dict(), allow_nan=False))
    assert data["cost"] is None
    assert data["reason"] == "no price is known for 'm'"
    assert one.to_dict()["cost"] == 0.5
    assert "reason" not in one.to_dict()
    assert (Ledger() + one).cost == 0.5


def test_ledgers_in_two_currencies_do_not_add() -> None:
    with pytest.raises(ArgumentError, match="currency"):
        Ledger(cost=1.0, currency="EUR") + Ledger(cost=1.0)
