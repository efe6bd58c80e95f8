"""Strengths, ranks and win rates, against other fits and by their defining equations."""

from __future__ import annotations

import itertools
import json
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

from noracle import (
    EvidenceError,
    Kind,
    Preferences,
    check_position,
    estimate_win_rates,
    rank_systems,
    read_result,
)
from noracle.cli import run
from noracle.evidence.preferences import FIRST, SECOND
from noracle.ranking.strength import chances, fit_strengths


def drawn(
    seed: int, *, size: int = 5, n: int = 300, tie: float = 0.5, gamma: float = 0.4
) -> Preferences:
    rng = np.random.default_rng(seed)
    first = rng.integers(size, size=n)
    second = (first + 1 + rng.integers(size - 1, size=n)) % size
    beta = np.linspace(-1, 1, size)
    p = chances(beta[first] - beta[second] + gamma, np.log(tie) if tie else -np.inf)
    outcome = (rng.random(n)[:, None] > np.cumsum(p, axis=0).T[:, :2]).sum(axis=1)
    return Preferences(
        systems=tuple(f"m{i}" for i in range(size)),
        first=first,
        second=second,
        outcome=outcome,
        item=np.arange(n) // 2,
        rater=rng.integers(3, size=n),
        raters=("a", "b", "c"),
    )


def turned(p: Preferences) -> Preferences:
    """The same verdicts, as if every pair had been shown the other way round."""
    outcome = np.select([p.outcome == FIRST, p.outcome == SECOND], [SECOND, FIRST], p.outcome)
    import dataclasses

    return dataclasses.replace(p, first=p.second, second=p.first, outcome=outcome)


def test_without_ties_it_is_the_logistic_fit_of_statsmodels():
    sm = pytest.importorskip("statsmodels.api")
    p = drawn(1, tie=0.0)
    design = np.zeros((len(p.item), 6))
    rows = np.arange(len(p.item))
    design[rows, p.first], design[rows, p.second], design[:, 5] = 1, -1, 1
    found = sm.Logit((p.outcome == FIRST).astype(float), design[:, 1:]).fit(
        disp=0, tol=1e-12, method="newton"
    )
    theirs = np.append(0.0, found.params[:4])
    ours = fit_strengths(p)
    np.testing.assert_allclose(ours.values, theirs - theirs.mean(), atol=1e-6)
    assert ours.position == pytest.approx(found.params[4], abs=1e-6)


def test_with_ties_it_is_the_maximum_that_a_general_optimiser_finds():
    p = drawn(2, tie=1.2)

    def loss(at: Any) -> float:
        beta = np.append(0.0, at[:4])
        shares = chances(beta[p.first] - beta[p.second] + at[4], at[5])
        return -float(np.log(np.array(shares)[p.outcome, np.arange(len(p.item))]).sum())

    found = minimize(loss, np.zeros(6), method="BFGS", options={"gtol": 1e-9})
    theirs = np.append(0.0, found.x[:4])
    ours = fit_strengths(p)
    np.testing.assert_allclose(ours.values, theirs - theirs.mean(), atol=1e-5)
    assert (ours.position, ours.tie) == pytest.approx(tuple(found.x[4:]), abs=1e-5)


def test_the_other_order_changes_the_sign_of_its_effect_alone():
    p = drawn(3)
    one, other = fit_strengths(p), fit_strengths(turned(p))
    np.testing.assert_allclose(one.values, other.values, atol=1e-8)
    assert one.position == pytest.approx(-other.position, abs=1e-8)
    a, b = rank_systems(p), rank_systems(turned(p))
    for d, e in zip(a.differences, b.differences, strict=True):
        assert (d.value, d.low, d.high) == pytest.approx((e.value, e.low, e.high), abs=2e-3)


def test_an_effect_of_the_order_does_not_reach_the_ranks():
    """Two equal systems, one of them shown first nine times of ten."""
    rng = np.random.default_rng(4)
    n = 4000
    first = (rng.random(n) < 0.1).astype(int)
    p = Preferences(
        systems=("x", "y"), first=first, second=1 - first, outcome=(rng.random(n) > 0.7).astype(int),
        item=np.arange(n), rater=np.zeros(n, dtype=int), raters=("r",),
    )  # fmt: skip
    assert rank_systems(p).difference("x", "y").verdict == "not separable"
    assert rank_systems(p, position="ignore").difference("x", "y").verdict == "first"
    gain = rank_systems(p).diagnostics["position"]["gain"]
    assert gain == pytest.approx(0.2, abs=0.02)


def test_one_order_alone_cannot_tell_its_effect():
    rows = {
        "item": [1, 2, 3, 4],
        "first": list("xxyy"),
        "second": list("yyzz"),
        "winner": list("xyyz"),
    }
    ranking = rank_systems(Preferences.from_table(rows))
    assert "position" not in ranking.diagnostics
    assert any("one order only" in note for note in ranking.notes)
    assert any(a.name == "effect of the order shown: none" for a in ranking.guarantee.assumptions)


def test_more_verdicts_of_one_rater_on_one_item_are_no_more_evidence():
    """Every verdict ten times over: the interval must not shrink."""
    p = drawn(5, n=200)
    ten = p.of(np.repeat(np.arange(200), 10))
    once = [d.high - d.low for d in rank_systems(p).differences]
    again = [d.high - d.low for d in rank_systems(ten).differences]
    np.testing.assert_allclose(again, once, rtol=0.12)


@pytest.mark.parametrize("n", [1, 2, 10])
def test_a_system_that_always_wins_has_an_open_end(n):
    rows = {
        "item": list(range(2 * n)),
        "first": ["x", "y"] * n,
        "second": ["y", "x"] * n,
        "winner": ["x"] * 2 * n,
    }
    d = rank_systems(Preferences.from_table(rows)).difference("x", "y")
    assert d.high == 1.0
    assert -1 <= d.low < d.value < 1
    assert (d.verdict == "first") == (n == 10)


def test_ties_alone_separate_nobody():
    rows = {"item": [1, 2, 3], "first": list("xyz"), "second": list("yzx"), "winner": ["tie"] * 3}
    ranking = rank_systems(Preferences.from_table(rows))
    assert ranking.leaders == ("x", "y", "z")
    assert all(d.value == pytest.approx(0) for d in ranking.differences)


def test_systems_that_were_never_compared_are_refused():
    rows = {"item": [1, 2], "first": ["x", "v"], "second": ["y", "w"], "winner": ["x", "v"]}
    with pytest.raises(EvidenceError, match="none between the groups of"):
        rank_systems(Preferences.from_table(rows))


def test_win_rates_are_the_means_over_opponents_and_add_up():
    p = drawn(6)
    fit = fit_strengths(p)
    rates = [e.value for e in estimate_win_rates(p)]
    for i, rate in enumerate(rates):
        others = [j for j in range(5) if j != i]
        first, _, tie = chances(fit.values[i] - fit.values[others], fit.tie)
        assert rate == pytest.approx(float((first + tie / 2).mean()))
    assert sum(rates) == pytest.approx(2.5)
    assert all(e.low < e.value < e.high for e in estimate_win_rates(p))


def test_slopes_of_win_rates_are_their_derivatives():
    from noracle.ranking.rank import _win_rates

    fit = fit_strengths(drawn(7))
    rates, slopes = _win_rates(fit)
    import dataclasses

    for k in range(5):
        moved = fit.values.copy()
        moved[k] += 1e-6
        found = (_win_rates(dataclasses.replace(fit, values=moved))[0] - rates) / 1e-6
        np.testing.assert_allclose(slopes[:, k], found, atol=1e-5)
    found = (_win_rates(dataclasses.replace(fit, tie=fit.tie + 1e-6))[0] - rates) / 1e-6
    np.testing.assert_allclose(slopes[:, -1], found, atol=1e-5)


def test_position_is_tested_on_pairs_shown_in_both_orders():
    both = {"item": [], "first": [], "second": [], "winner": []}  # type: ignore[var-annotated]
    for i, outcome in enumerate(["first"] * 12 + ["x"] * 3):
        for a, b in (("x", "y"), ("y", "x")):
            for name, value in zip(both, (i, a, b, outcome), strict=True):
                both[name].append(value)
    check = check_position(Preferences.from_table(both))
    assert check.counts == {"first twice": 12, "second twice": 0, "same answer": 3}
    assert check.p_value == pytest.approx(2 * 0.5**12)
    assert not check.passed
    alone = {name: values[::2] for name, values in both.items()}
    none = check_position(Preferences.from_table(alone))
    assert np.isnan(none.p_value)
    assert "both orders" in none.reason


def test_the_jackknife_step_is_that_of_fits_without_each_item():
    """One Newton step for each item left out comes close to fitting anew."""
    p = drawn(8, size=3, n=240, tie=0.8)
    fit = fit_strengths(p)
    items = np.unique(p.item)
    anew = np.array([fit_strengths(p.of(p.item != i)).values for i in items])
    moved = anew - fit.values
    spread = (len(items) - 1) / len(items) * moved.T @ moved
    for i, j in itertools.combinations(range(3), 2):
        c = np.zeros(3)
        c[i], c[j] = 1, -1
        whole = np.zeros(5)
        whole[:3] = c
        assert whole @ fit.spread @ whole >= 0.98 * (c @ spread @ c)
        assert whole @ fit.spread @ whole <= 1.2 * (c @ spread @ c)


def test_ranking_reads_back_and_is_asymptotic():
    ranking = rank_systems(drawn(9))
    assert ranking.guarantee.kind is Kind.ASYMPTOTIC
    assert read_result(json.loads(json.dumps(ranking.to_dict()))) == ranking


def test_the_command_line_ranks_a_file(tmp_path, capsys):
    p = drawn(10, n=80)
    rows = zip(p.item, p.first, p.second, p.outcome, strict=True)
    words = ("model_a", "model_b", "tie")
    lines = [
        json.dumps(
            {"question_id": int(i), "model_a": f"m{a}", "model_b": f"m{b}", "winner": words[o]}
        )
        for i, a, b, o in rows
    ]
    path = tmp_path / "arena.jsonl"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    page = tmp_path / "page.html"
    assert run(["rank", str(path), "--win-rates", "--html", str(page)]) == 0
    out = capsys.readouterr().out
    assert "best is" in out
    assert "win rate of 'm4'" in out
    assert page.read_text(encoding="utf-8").startswith("<!")
    assert run(["rank", str(path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["schema"] == "comparison/1"
    assert run(["rank", str(tmp_path / "absent.csv")]) == 2
