"""Which strata are kept apart, and what their labels count for: rates, unsure verdicts, items
without an answer.
"""

from __future__ import annotations

import functools
import operator

import numpy as np
import pytest

from noracle import AccuracyCounts, estimate_accuracy
from noracle.accuracy.score import DIFFERENT_BELOW, rates_p_value
from noracle.counts import Cell, Tally
from noracle.results import Kind


def counted(
    rows: dict[Tally, int],
    items: dict[str, int],
    answered: dict[str, int] | None = None,
    k: int = 4,
) -> AccuracyCounts:
    def places(sizes: dict[str, int]) -> dict[Cell, int]:
        return {Cell("s", k, stratum): n for stratum, n in sizes.items()}

    return AccuracyCounts(
        tallies={t: n for t, n in rows.items() if n},
        items=places(items),
        answered=places(answered or items),
    )


def ruled_out(stratum: str, *, hit: bool = False, answered: bool = True) -> Tally:
    return Tally("s", 4, "no", hit, answered, 1, hit, stratum=stratum)


def test_many_strata_with_slightly_different_rates_are_not_pooled() -> None:
    """Half of 20 strata is labelled 2 and wrong, half 10 and right: no stratum stands out, all
    together do. The truth is 1/2.
    """
    strata = [
        AccuracyCounts.from_counts(
            n_classes=4, ordinary=(10, 10) if i % 2 else (2, 0), n_items=100, stratum=f"s{i}"
        )
        for i in range(20)
    ]
    found = estimate_accuracy(functools.reduce(operator.add, strata))
    assert found.interval == "parts"
    assert found.value == pytest.approx(0.5)
    assert found.low < 0.5 < found.high


def test_random_samples_are_pooled_in_nearly_all_worlds() -> None:
    rng = np.random.default_rng(0)
    sizes = [5, 20, 60, 100, 3, 300, 12]
    p = [
        rates_p_value(list(zip(sizes, n, strict=True)))
        for n in rng.multivariate_hypergeometric(sizes, 80, size=2000).tolist()
    ]
    assert np.mean(np.array(p) < DIFFERENT_BELOW) < 1.5 * DIFFERENT_BELOW


def test_strata_of_one_item_are_pooled() -> None:
    assert rates_p_value([(1, 1)] * 40 + [(1, 0)] * 160) > 0.9


@pytest.mark.parametrize("method", ["ml", "scores"])
def test_strata_in_which_many_verdicts_are_unsure_keep_their_share(method: str) -> None:
    """Half of the verdicts on the easy stratum are unsure: its accuracy .9 still counts for half of
    the items.
    """
    rows = {
        Tally("s", 4, "yes", True, stratum="a"): 90,
        Tally("s", 4, "yes", False, stratum="a"): 10,
        Tally("s", 4, "unsure", True, stratum="a"): 100,
        Tally("s", 4, "yes", True, stratum="b"): 40,
        Tally("s", 4, "yes", False, stratum="b"): 160,
    }
    found = estimate_accuracy(counted(rows, {"a": 1000, "b": 1000}), method=method)  # type: ignore[arg-type]
    assert found.value == pytest.approx(0.55)


def test_a_stratum_with_unsure_verdicts_only_contributes_everything() -> None:
    rows = {
        Tally("s", 4, "unsure", True, stratum="a"): 200,
        Tally("s", 4, "yes", True, stratum="b"): 100,
    }
    found = estimate_accuracy(counted(rows, {"a": 1000, "b": 1000}), method="scores")
    assert found.low < 0.5
    assert found.high == pytest.approx(1.0)


def test_beyond_these_items_gaps_count_in_strata_labelled_at_different_rates() -> None:
    """Right on all of a and on the answered half of b; a is labelled four times as often. The truth
    is 3/4.
    """
    rows = {ruled_out("a"): 800, ruled_out("b"): 100, ruled_out("b", answered=False): 100}
    found = estimate_accuracy(
        counted(rows, {"a": 1000, "b": 1000}, {"a": 1000, "b": 500}), population="beyond"
    )
    assert found.value == pytest.approx(0.75)
    assert found.low < 0.75 < found.high
    assert found.guarantee.kind is Kind.FINITE_SAMPLE


def test_beyond_these_items_a_system_that_answered_nothing_may_answer_others() -> None:
    found = estimate_accuracy(
        counted({ruled_out("", answered=False): 10}, {"": 20}, {"": 0}), population="beyond"
    )
    assert (found.value, found.low) == (0.0, 0.0)
    assert found.high == pytest.approx(1 - 0.025 ** (1 / 20), abs=1e-6)
    assert found.guarantee.kind is Kind.FINITE_SAMPLE


def test_beyond_these_items_the_shares_of_strata_are_unknown_where_rates_differ() -> None:
    """Right on all of a, wrong on all of b, which is labelled a tenth as often; the items were
    drawn from both alike.
    """
    rng, held = np.random.default_rng(1), 0
    for a in rng.binomial(2000, 0.5, size=40).tolist():
        rows = {
            Tally("s", 4, "yes", True, stratum="a"): min(a, 1000),
            Tally("s", 4, "yes", False, stratum="b"): 100,
        }
        found = estimate_accuracy(counted(rows, {"a": a, "b": 2000 - a}), population="beyond")
        held += found.low <= 0.5 <= found.high
        assert "asymptotic" not in found.diagnostics
    assert held >= 37
