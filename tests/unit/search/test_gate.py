"""The gate spends its error rate once, whatever happens, and says when it promises nothing."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from noracle import ArgumentError, Kind
from noracle.search.fitness import PairedScores
from noracle.search.gate import SHARES, Gate


def pairs(*values: float, low: float = -1.0) -> PairedScores:
    return PairedScores(
        item=tuple(range(len(values))),
        value=np.array(values, dtype=float),
        low=np.full(len(values), low),
    )


CLEAR, NOTHING = pairs(*[1.0] * 60), pairs(*[0.0] * 60)


@pytest.mark.parametrize("n", [1, 2, 3, 6])
def test_error_rates_of_all_histories_add_to_the_whole(n: int) -> None:
    """Sum over every sequence of accept bits of the error that is spent at its end: the union bound
    over all histories.
    """
    total = 0.0
    for length in range(n):
        for bits in itertools.product((False, True), repeat=length):
            marks = [i + 1 for i, bit in enumerate(bits) if bit]
            total += Gate(0.95, n, challenged=length, accepted_at=marks).next_error
    assert total == pytest.approx(0.05)


def test_error_rates_add_to_less_than_the_whole_where_the_number_is_open() -> None:
    total = 0.0
    for length in range(12):
        for bits in itertools.product((False, True), repeat=length):
            marks = [i + 1 for i, bit in enumerate(bits) if bit]
            total += Gate(0.95, challenged=length, accepted_at=marks).next_error
    assert 0.03 < total < 0.05


def test_one_challenge_has_the_whole_error_rate() -> None:
    assert Gate(0.95, 1).challenge(NOTHING, fresh=True).threshold == pytest.approx(20)


def test_ties_win_nothing() -> None:
    decision = Gate().challenge(NOTHING, fresh=True)
    assert not decision.accepted
    assert decision.wealth == pytest.approx(1.0)


def test_clear_wins_are_accepted_and_counted() -> None:
    gate = Gate(n_candidates=30)
    assert gate.challenge(CLEAR, fresh=True).accepted
    assert not gate.challenge(NOTHING, fresh=True).accepted
    assert gate.challenge(CLEAR, fresh=True).accepted
    assert (gate.challenged, gate.accepted_at) == (3, (1, 3))


def test_a_gate_that_goes_on_is_the_gate_that_never_stopped() -> None:
    whole = Gate()
    for p in (NOTHING, CLEAR, NOTHING):
        whole.challenge(p, fresh=True)
    again = Gate(challenged=whole.challenged, accepted_at=whole.accepted_at)
    assert again.next_error == whole.next_error


def test_later_acceptances_cost_more() -> None:
    assert (
        Gate(n_candidates=10, challenged=5, accepted_at=[2]).next_error
        < Gate(n_candidates=10, challenged=5).next_error
    )


def test_used_labels_make_it_a_rule_of_thumb() -> None:
    assert Gate().challenge(CLEAR, fresh=True).guarantee.kind is Kind.FINITE_SAMPLE
    used = Gate().challenge(CLEAR, fresh=False).guarantee
    assert used.kind is Kind.HEURISTIC
    assert {a.name: a.status for a in used.assumptions}["fresh labels"] == "failed"


def test_no_common_item_is_no_acceptance() -> None:
    decision = Gate().challenge(pairs(), fresh=True)
    assert (decision.accepted, decision.n) == (False, 0)
    assert np.isnan(decision.value)
    assert decision.reason


def test_scale_of_the_scores_changes_nothing() -> None:
    rng = np.random.default_rng(1)
    value = rng.choice([-3.0, 0.0, 3.0], p=[0.1, 0.6, 0.3], size=200)
    one = Gate().challenge(pairs(*value, low=-3.0), fresh=True)
    other = Gate().challenge(pairs(*(100 * value), low=-300.0), fresh=True)
    assert one.wealth == pytest.approx(other.wealth)


def test_wealth_is_finite_in_the_extreme() -> None:
    assert Gate().challenge(pairs(*[1.0] * 5000), fresh=True).wealth < float("inf")
    assert Gate().challenge(pairs(*[-1.0] * 5000), fresh=True).wealth < 0.1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_candidates": 0}, "n_candidates"),
        ({"confidence": 1.0}, "confidence"),
        ({"accepted_at": [3], "challenged": 2}, "accepted_at"),
        ({"accepted_at": [2, 2], "challenged": 2}, "accepted_at"),
    ],
)
def test_wrong_arguments_are_refused(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        Gate(**arguments)  # type: ignore[arg-type]


def test_more_challenges_than_announced_are_refused() -> None:
    gate = Gate(n_candidates=1)
    gate.challenge(NOTHING, fresh=True)
    with pytest.raises(ArgumentError, match="n_candidates"):
        gate.challenge(NOTHING, fresh=True)


def test_shares_are_a_whole() -> None:
    assert sum(SHARES) == pytest.approx(1)
    assert min(SHARES) > 0
