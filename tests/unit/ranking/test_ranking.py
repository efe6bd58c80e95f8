"""Strengths, ranks and win rates, against other fits and by their defining equations."""

from __future__ import annotations

import itertools
import json
from typing import Any

import numpy as np
import pytest

from noracle import (
    ArgumentError,
    EvidenceError,
    Kind,
    Preferences,
    check_position,
    estimate_win_rates,
    plan_pairs,
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


def test_with_ties_it_is_the_log_linear_fit_of_statsmodels():
    """Counts of the three outcomes of each pair in each order, with a mean of their own for each."""
    sm = pytest.importorskip("statsmodels.api")
    p = drawn(2, tie=1.2)
    shown = np.unique(np.stack([p.first, p.second]), axis=1).T
    counts, rows = [], []
    for k, (i, j) in enumerate(shown):
        here = p.outcome[(p.first == i) & (p.second == j)]
        for outcome, sign in ((0, 0.5), (1, -0.5), (2, 0.0)):
            row = np.zeros(5 + 2 + len(shown))
            row[i], row[j], row[5], row[6] = sign, -sign, sign, outcome == 2
            row[7 + k] = 1
            counts.append(int((here == outcome).sum()))
            rows.append(row[1:])
    found = sm.GLM(counts, np.array(rows), family=sm.families.Poisson()).fit(tol=1e-13)
    theirs = np.append(0.0, found.params[:4])
    ours = fit_strengths(p)
    np.testing.assert_allclose(ours.values, theirs - theirs.mean(), atol=1e-6)
    assert (ours.position, ours.tie) == pytest.approx(tuple(found.params[4:6]), abs=1e-6)


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


def test_how_far_even_verdicts_draw_strengths_is_known():
    """``c`` won all; ``a`` won 19 of 20 against ``b``, whose largest likelihood is known."""
    rows = [("a", "b", "a")] * 19 + [("a", "b", "b")] + [("c", "a", "c"), ("c", "b", "c")] * 10
    table = dict(
        zip(("first", "second", "winner"), map(list, zip(*rows, strict=True)), strict=True)
    )
    p = Preferences.from_table({"item": list(range(40)), **table})
    fit = fit_strengths(p, position=False)
    assert fit.pull is not None
    a, b, _ = fit.values
    assert a - b < np.log(19) - 0.2
    assert a - b + fit.pull[0] - fit.pull[1] == pytest.approx(np.log(19), abs=0.02)
    d = rank_systems(p, position="ignore").difference("a", "b")
    assert np.arctanh(d.high) - np.arctanh(d.value) > np.arctanh(d.value) - np.arctanh(d.low)
    assert fit_strengths(drawn(1)).pull is None


def test_what_can_grow_without_end_is_what_no_chain_of_wins_leads_back_from():
    """Without ties and an effect of the order a - b is bounded where b beat … beat a."""
    from scipy.sparse.csgraph import connected_components, shortest_path

    from noracle.ranking.strength import unbounded

    rng, tried, size = np.random.default_rng(5), 0, 6
    while tried < 15:
        n = int(rng.integers(5, 14))
        first = rng.integers(size, size=n)
        second = (first + 1 + rng.integers(size - 1, size=n)) % size
        won = np.zeros((size, size))
        won[first, second] = 1
        systems = tuple("abcdef")
        if connected_components(won, directed=False)[0] > 1:
            continue
        tried += 1
        zero = np.zeros(n, dtype=int)
        about: Any = {"systems": systems, "raters": ("r",), "rater": zero, "item": np.arange(n)}
        p = Preferences(first=first, second=second, outcome=zero, **about)
        fit = fit_strengths(p, position=False)
        chain = np.isfinite(shortest_path(won, unweighted=True))
        assert fit.smoothed == (not chain.all())
        if not fit.smoothed:
            continue
        pairs = list(itertools.permutations(range(size), 2))
        contrasts = np.zeros((len(pairs), size + 2))
        for row, (a, b) in enumerate(pairs):
            contrasts[row, a], contrasts[row, b] = 1, -1
        falls, rises = unbounded(contrasts, fit.gains)
        assert rises.tolist() == [not chain[b, a] for a, b in pairs]
        assert falls.tolist() == [not chain[a, b] for a, b in pairs]


@pytest.mark.parametrize("winner", ["first", "tie"])
def test_a_rater_who_always_says_the_same_bounds_nothing(winner):
    rows = [(i, *pair, winner) for i in range(40) for pair in (("x", "y"), ("y", "x"))]
    columns = ("item", "first", "second", "winner")
    p = Preferences.from_table(dict(zip(columns, map(list, zip(*rows, strict=True)), strict=True)))
    found = rank_systems(p)
    assert [(d.low, d.high) for d in found.differences] == [(-1, 1)]
    assert [(e.low, e.high) for e in estimate_win_rates(p)] == [(0, 1), (0, 1)]
    assert any(note.startswith("the verdicts do not bound all strengths") for note in found.notes)


def test_rows_that_came_twice_and_systems_without_a_verdict_are_told():
    rows = [(i, "x", "y", ("first", "second")[i % 2], "ann") for i in range(40)]
    rows += [*rows[:3], (7, "y", "x", "tie", "ann"), (9, "z", "x", "", "ann")]
    columns = ("item", "first", "second", "winner", "rater")
    p = Preferences.from_table(dict(zip(columns, map(list, zip(*rows, strict=True)), strict=True)))
    notes = rank_systems(p).notes
    assert "'z' got no verdict, and no place" in notes
    assert any(note.startswith("3 verdicts are a rater's second or later") for note in notes)
    assert p.silent == ("z",)
    plain = Preferences.from_table(
        {c: [row[k] for row in rows[:40]] for k, c in enumerate(columns)}
    )
    assert not any("second or later" in note for note in rank_systems(plain).notes)


@pytest.mark.parametrize("judge", [None, "model"])
def test_one_item_bounds_nothing_and_says_so(judge):
    rows = {"item": [1], "first": ["x"], "second": ["y"], "winner": ["x"], "rater": ["ann"]}
    more = (range(50), "x" * 50, "y" * 50, ["first", "tie"] * 25, ["model"] * 50)
    if judge:
        rows = {name: [*v, *add] for (name, v), add in zip(rows.items(), more, strict=True)}
    p = Preferences.from_table(rows)
    (d,) = rank_systems(p, judge=judge).differences
    assert (d.low, d.high) == (-1, 1)
    assert any(note.startswith("1 clusters") for note in rank_systems(p, judge=judge).notes)
    assert [(e.low, e.high) for e in estimate_win_rates(p, judge=judge)] == [(0, 1), (0, 1)]
    assert plan_pairs(p, budget=4, judge=judge).verify()


def test_names_with_the_marks_of_a_plan_are_kept_apart():
    rows = [(i, "a / b", "c, people", ("first", "second")[i % 2]) for i in range(20)]
    rows += [(i, "c, people", "d", ("first", "second")[i % 3 > 0]) for i in range(20)]
    columns = ("item", "first", "second", "winner")
    p = Preferences.from_table(dict(zip(columns, map(list, zip(*rows, strict=True)), strict=True)))
    assert plan_pairs(p, budget=7).verify()


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
    """One Newton step for each item left out comes close to fitting again."""
    p = drawn(8, size=3, n=240, tie=0.8)
    fit = fit_strengths(p)
    items = np.unique(p.item)
    again = np.array([fit_strengths(p.of(p.item != i)).values for i in items])
    moved = again - fit.values
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


# with a judge


def with_judge(seed: int, *, copies: float = 0.85, n: int = 120, of: int = 900) -> Preferences:
    """People compare some of what a model compared; it repeats their verdict that often."""
    p, rng = drawn(seed, n=of), np.random.default_rng([seed, 1])
    pick = np.sort(rng.choice(of, n, replace=False))
    model = np.where(rng.random(of) < copies, p.outcome, rng.integers(3, size=of))
    rows: Any = {
        name: np.concatenate([getattr(p, name)[pick], getattr(p, name)])
        for name in ("first", "second", "item")
    }
    outcome = np.concatenate([p.outcome[pick], model])
    rater = np.repeat([0, 1], [n, of])
    return Preferences(systems=p.systems, **rows, outcome=outcome, rater=rater, raters=("a", "z"))


def widths(ranking: Any) -> float:
    return float(np.mean([d.high - d.low for d in ranking.differences]))


def test_a_judge_that_follows_people_makes_ranks_narrower():
    p = with_judge(1)
    alone, helped = rank_systems(p.of(p.rater == 0)), rank_systems(p, judge="z")
    assert widths(helped) < 0.85 * widths(alone)
    assert helped.diagnostics["judge"]["labels_ratio"] < 0.7
    assert {a.name for a in helped.guarantee.assumptions} >= {"people compared at random"}
    assert helped.counts["seen by the judge"] == helped.counts["verdicts"] == 120


def test_a_judge_that_turns_every_verdict_round_helps_as_much():
    p = with_judge(2)
    turned_round = np.where(p.rater == 1, np.array([1, 0, 2])[p.outcome], p.outcome)
    import dataclasses

    other = rank_systems(dataclasses.replace(p, outcome=turned_round), judge="z")
    for d, e in zip(rank_systems(p, judge="z").differences, other.differences, strict=True):
        assert (d.value, d.low, d.high) == pytest.approx((e.value, e.low, e.high), abs=1e-9)


def test_a_judge_that_always_says_the_same_changes_nothing():
    p = with_judge(3)
    import dataclasses

    tied = dataclasses.replace(p, outcome=np.where(p.rater == 1, 2, p.outcome))
    alone, helped = rank_systems(p.of(p.rater == 0)), rank_systems(tied, judge="z")
    assert [d.value for d in alone.differences] == [d.value for d in helped.differences]
    assert helped.diagnostics["judge"] == {"names": ["z"], "weight": 0.0, "labels_ratio": 1.0}


def test_people_who_saw_all_that_the_judge_saw_need_no_help():
    """What is left to learn from the judge is by chance of items that were seen twice alone."""
    p = with_judge(4, n=900)
    alone, helped = rank_systems(p.of(p.rater == 0)), rank_systems(p, judge="z")
    for d, e in zip(alone.differences, helped.differences, strict=True):
        assert d.value == pytest.approx(e.value, abs=0.01)
        assert e.high - e.low == pytest.approx(d.high - d.low, rel=0.05)


@pytest.mark.parametrize("swayed", ["both", "the judge", "the judge, shown otherwise"])
def test_a_judges_taste_for_the_first_place_moves_nobody(swayed):
    """The order moves the judge as it moves people whom it repeats: both were shown the same."""
    n, of = 8000, 24_000
    rng = np.random.default_rng(6)
    p = drawn(6, n=of, gamma=1.2 if swayed == "both" else 0.0)
    pick = np.sort(rng.choice(of, n, replace=False))
    said = np.where(rng.random(of) < 0.9, p.outcome, rng.integers(3, size=of))
    first, second = p.first, p.second
    if swayed != "both":  # it names the first of two in a third of the cases
        other = rng.random(of) < (0.5 if "otherwise" in swayed else 0.0)
        first, second = np.where(other, second, first), np.where(other, first, second)
        said = np.where(other & (said < 2), 1 - said, said)
        said = np.where(rng.random(of) < 1 / 3, 0, said)
    rows: Any = {
        "first": np.concatenate([p.first[pick], first]),
        "second": np.concatenate([p.second[pick], second]),
        "outcome": np.concatenate([p.outcome[pick], said]),
        "item": np.concatenate([pick, np.arange(of)]),
        "rater": np.repeat([0, 1], [n, of]),
    }
    helped = rank_systems(Preferences(systems=p.systems, **rows, raters=("a", "z")), judge="z")
    assert helped.diagnostics["judge"]["labels_ratio"] < 0.85
    place = helped.diagnostics["position"]
    assert abs(place["gamma"] - (1.2 if swayed == "both" else 0.0)) < 3 * place["se"]
    beta = np.linspace(-1, 1, 5)
    true = [np.tanh((a - b) / 2) for a, b in itertools.combinations(beta, 2)]
    for d, at in zip(helped.differences, true, strict=True):
        assert d.low <= at <= d.high
        assert d.high - d.low < 0.2


def test_win_rates_take_the_judges_help_too():
    p = with_judge(5)
    alone, helped = estimate_win_rates(p.of(p.rater == 0)), estimate_win_rates(p, judge="z")
    assert sum(e.width for e in helped) < 0.9 * sum(e.width for e in alone)
    assert sum(e.value for e in helped) == pytest.approx(2.5)


def test_a_judge_must_be_a_rater_beside_others():
    p = with_judge(6)
    with pytest.raises(EvidenceError, match="judge must be a rater; got 'y'"):
        rank_systems(p, judge="y")
    with pytest.raises(EvidenceError, match="verdicts of others than the judge"):
        rank_systems(p, judge=["a", "z"])


def test_few_verdicts_take_no_help_and_say_so():
    found = rank_systems(with_judge(7, n=25), judge="z")
    assert found.diagnostics["judge"]["weight"] == 0
    assert any("saw 25 of the comparisons" in note for note in found.notes)


def test_a_rater_that_compared_everything_is_pointed_out():
    notes = rank_systems(with_judge(8)).notes
    assert any(note.startswith("'z' gave most verdicts") for note in notes)
    assert not any("gave most" in note for note in rank_systems(drawn(8)).notes)


def test_groups_are_runs_of_which_no_two_can_be_separated():
    from noracle.ranking.rank import _groups
    from noracle.results import Difference

    def told(first: str, second: str, apart: bool) -> Difference:
        return Difference(first=first, second=second, value=1.0, low=0.5 if apart else -0.5, high=2)

    apart = {"ac", "ad", "bd", "ae", "be", "ce", "de"}
    differences = [
        told(*pair, "".join(pair) in apart) for pair in itertools.combinations("abcde", 2)
    ]
    assert _groups("abcde", differences) == [["a", "b"], ["b", "c"], ["c", "d"]]
    assert _groups("a", []) == []


# which pair next


def test_a_plan_asks_where_the_best_is_open_and_verifies():
    p = drawn(11, n=400)
    plan = plan_pairs(p, budget=60)
    assert plan.verify()
    assert plan.cost == sum(plan.buy.values()) == 60 == len(plan.diagnostics["questions"]["item"])
    assert plan.predicted < plan.diagnostics["uniform"] < plan.diagnostics["now"]
    best = max(plan.buy, key=lambda pair: plan.buy[pair])
    assert best == "m3 / m4"
    assert read_result(json.loads(json.dumps(plan.to_dict()))) == plan


def test_a_plan_that_was_changed_does_not_verify():
    import dataclasses

    plan = plan_pairs(drawn(12, n=400), budget=30)
    pair, n = next(iter(plan.buy.items()))
    for changed in (
        {"predicted": plan.predicted * 0.99},
        {"cost": plan.cost - 1},
        {"buy": {**plan.buy, pair: n + 1}},
        {"buy": {"m0 / m9": 30}},
    ):
        assert not dataclasses.replace(plan, **changed).verify()


def test_a_plan_with_a_judge_asks_people_what_it_saw_and_it_what_is_new():
    p = with_judge(13)
    plan = plan_pairs(p, budget=30, judge="z", costs={"judge": 0.01}, seed=3)
    assert plan.verify()
    assert plan.cost <= 30 + 1e-9
    assert {kind.rpartition(", ")[2] for kind in plan.buy} == {"people", "judge"}
    place = {name: k for k, name in enumerate(p.systems)}
    rows = zip(
        p.item, np.minimum(p.first, p.second), np.maximum(p.first, p.second), p.rater, strict=True
    )
    seen: dict[int, set[Any]] = {0: set(), 1: set()}
    for item, low, high, rater in rows:
        seen[int(rater)].add((item, low, high))
    asked = set()
    for item, first, second, who in zip(*plan.diagnostics["questions"].values(), strict=True):
        if item is not None:
            unit = (item, *sorted((place[first], place[second])))
            assert (unit in seen[1]) == (who == "people")
            assert unit not in seen[0] or who == "judge"
            assert (unit, who) not in asked
            asked.add((unit, who))


def test_questions_show_each_pair_in_both_orders():
    said = plan_pairs(drawn(14, n=600), budget=200).diagnostics["questions"]
    turned: dict[Any, list[bool]] = {}
    for first, second in zip(said["first"], said["second"], strict=True):
        turned.setdefault(frozenset((first, second)), []).append(first < second)
    p = drawn(14, n=600)
    for pair, ahead in turned.items():
        low, high = sorted(pair)
        own = [
            p.systems[f] == low
            for f, s in zip(p.first, p.second, strict=True)
            if {p.systems[f], p.systems[s]} == {low, high}
        ]
        both = [*own, *ahead]
        assert abs(sum(both) - len(both) / 2) <= max(1, abs(sum(own) - len(own) / 2))


def test_nothing_is_planned_where_nothing_is_open():
    rows = {"item": [], "first": [], "second": [], "winner": []}  # type: ignore[var-annotated]
    for i in range(120):
        for name, value in zip(
            rows, (i, *("xy" if i % 2 else "yx"), "x" if i % 12 else "y"), strict=True
        ):
            rows[name].append(value)
    plan = plan_pairs(Preferences.from_table(rows), budget=10)
    assert not plan.buy
    assert plan.cost == 0
    assert plan.reason == "nothing that this goal asks for is open"
    assert plan.verify()


@pytest.mark.parametrize(
    ("about", "message"),
    [
        ({"budget": 0}, "budget must be above 0; got 0"),
        ({"budget": float("nan")}, "budget must be above 0"),
        ({"budget": 5, "costs": {"judge": 1}}, "costs must name people with prices above 0"),
        ({"budget": 5, "goal": "worst"}, "goal must be one of best, all"),
    ],
)
def test_plans_refuse(about, message):
    with pytest.raises(ArgumentError, match=message):
        plan_pairs(drawn(15), **about)


def test_the_command_line_writes_the_next_questions(tmp_path, capsys):
    p = with_judge(16)
    path, out = tmp_path / "preferences.csv", tmp_path / "next.csv"
    words = ("first", "second", "tie")
    lines = ["item,first,second,winner,rater"]
    for i, a, b, o, r in zip(p.item, p.first, p.second, p.outcome, p.rater, strict=True):
        lines.append(f"q{i},m{a},m{b},{words[o]},{p.raters[r]}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    asked = [
        "rank",
        str(path),
        "--judge",
        "z",
        "--next",
        "20",
        "--cost",
        "judge=5",
        "--out",
        str(out),
    ]
    assert run(asked) == 0
    assert "plan for separating the best" in capsys.readouterr().out
    head, *rows = out.read_text(encoding="utf-8").splitlines()
    assert head == "item,first,second,rater"
    assert len(rows) == 20
    assert all(row.startswith("q") and row.endswith(",people") for row in rows)
    assert run(["rank", str(path), "--out", str(out)]) == 2
    assert "--out must go with --next" in capsys.readouterr().err


# tables as people have them


def test_one_column_per_rater_is_one_row_per_verdict():
    rows = {"item": [1, 2], "first": ["x", "y"], "second": ["y", "x"]}
    wide = rows | {"ann": ["first", None], "ben": ["x", "A>B"]}
    p = Preferences.from_table(wide, raters=["ann", "ben"])
    said = {
        (p.items[i], p.raters[r], int(o))
        for i, r, o in zip(p.item, p.rater, p.outcome, strict=True)
    }
    assert said == {(1, "ann", 0), (1, "ben", 0), (2, "ben", 0)}
    assert p.missing == 1
    with pytest.raises(
        ArgumentError, match="raters must name different columns of the table; got 'cid'"
    ):
        Preferences.from_table(wide, raters=["ann", "cid"])


def test_arena_records_of_zeros_and_ones_are_read():
    rows = {"id": [1, 2, 3], "model_a": ["x"] * 3, "model_b": ["y"] * 3}
    rows |= {"winner_model_a": [1, 0, 0], "winner_model_b": [0, 1, 0], "winner_tie": [0, 0, 1]}
    p = Preferences.from_table(rows)
    assert p.outcome.tolist() == [0, 1, 2]
    assert "winner_model_a" in p.inferred[0]


def test_verdicts_of_both_orders_in_one_row_are_two_verdicts():
    rows = {"question_id": [81, 82, 83], "model_1": ["x"] * 3, "model_2": ["y"] * 3}
    rows |= {
        "g1_winner": ["model_1", "model_1", "error"],
        "g2_winner": ["model_1", "model_2", "tie"],
    }
    p = Preferences.from_table(rows)
    told = zip(p.item.tolist(), [p.systems[k] for k in p.first], p.outcome.tolist(), strict=True)
    assert sorted(told) == [(0, "x", 0), (0, "y", 1), (1, "x", 0), (1, "y", 0), (2, "y", 2)]
    assert p.missing == 1
    assert check_position(p).counts == {"first twice": 1, "second twice": 0, "same answer": 1}
    assert rank_systems(p).counts["shown in both orders"] == 2
