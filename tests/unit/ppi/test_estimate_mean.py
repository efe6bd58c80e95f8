"""Means across raters: every form of data, the baselines as special cases, and bad input."""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.stats import skew
from scipy.stats import t as student

from noracle.errors import ArgumentError, EvidenceError, EvidenceWarning, GuaranteeWarning
from noracle.ppi.estimate import estimate_mean
from noracle.ppi.measurements import complementary
from noracle.ppi.plan import plan_budget
from noracle.results import Assumption, Estimate, Kind, read_result


def world(
    seed: int = 0, labelled: int = 120, pro: int = 400, flash: int = 900
) -> dict[str, np.ndarray]:
    """Binary scores: label and both raters on the first rows, one rater alone on the others."""
    rng = np.random.default_rng(seed)
    n = labelled + pro + flash
    truth = rng.random(n) < 0.35
    good = np.where(rng.random(n) < 0.85, truth, ~truth).astype(float)
    fair = np.where(rng.random(n) < 0.80, truth, ~truth).astype(float)
    human = truth.astype(float)
    human[labelled:] = np.nan
    good[labelled + pro :] = np.nan
    fair[labelled : labelled + pro] = np.nan
    return {"human": human, "pro": good, "flash": fair}


def close(a: Estimate, b: Estimate) -> bool:
    return bool(
        np.allclose([a.value, a.low, a.high, a.se], [b.value, b.low, b.high, b.se], rtol=1e-9)
    )


def test_all_forms_of_data_agree(tmp_path: Path) -> None:
    data = world()
    names = list(data)
    reference = estimate_mean(data, target="human")
    frame = pd.DataFrame(data)
    frame.insert(0, "item", range(len(frame)))
    frame.to_csv(tmp_path / "scores.csv", index=False)
    long = frame.melt(id_vars="item", var_name="rater", value_name="value").dropna()
    array = np.column_stack(list(data.values()))
    for form in (frame, pl.DataFrame(data, nan_to_null=True), long, tmp_path / "scores.csv"):
        assert close(estimate_mean(form, target="human", raters=names), reference)
    assert close(estimate_mean(array, target="human", raters=names), reference)
    assert close(estimate_mean(frame, target="human"), reference)


@pytest.mark.parametrize("interval", ["crossfit-t", "jackknife-t", "paper", "classical"])
def test_order_and_units_change_nothing(interval: Any) -> None:
    data = world()
    one = estimate_mean(data, target="human", interval=interval)
    order = np.random.default_rng(1).permutation(len(data["human"]))
    shuffled = {k: v[order] for k, v in reversed(data.items())}
    assert close(estimate_mean(shuffled, target="human", interval=interval, raters=list(data)), one)
    scaled = {"human": data["human"], "pro": 100 * data["pro"] - 7, "flash": 1 - data["flash"]}
    found = estimate_mean(scaled, target="human", interval=interval)
    # Folds are dealt after sorting, so that turning a rater round deals others; without folds
    # nothing changes.
    assert found.value == pytest.approx(one.value, rel=1e-9 if interval != "crossfit-t" else 0.02)
    assert found.se == pytest.approx(one.se, rel=1e-9 if interval != "crossfit-t" else 0.02)


def test_result_says_what_it_rests_on() -> None:
    found = estimate_mean(world(), target="human")
    assert (found.quantity, found.subject, found.method, found.interval) == (
        "mean",
        "human",
        "multippi",
        "crossfit-t",
    )
    assert found.guarantee.kind is Kind.ASYMPTOTIC
    rule = found.guarantee.assumptions[-1]
    assert rule.status == "checked"
    assert rule.detail == "N = 120, rule of thumb N ≥ 50"
    said = found.diagnostics
    assert said["measurements"] == {"human+pro+flash": 120, "flash": 900, "pro": 400}
    assert (said["n_labelled"], said["n_raters"], said["degrees_of_freedom"], said["dropped"]) == (
        120,
        2,
        117,
        [],
    )
    weights = said["weights"]
    assert weights["human+pro+flash"]["human"] == pytest.approx(1)
    assert weights["human+pro+flash"]["pro"] == pytest.approx(-weights["pro"]["pro"])
    assert weights["human+pro+flash"]["flash"] == pytest.approx(-weights["flash"]["flash"])
    assert found.low < said["classical"]["value"] < found.high
    assert found.width < said["classical"]["high"] - said["classical"]["low"]
    assert said["variance_ratio"] < 0.9
    assert read_result(found.to_dict()) == found
    assert "at least 50 labelled rows" in " ".join(str(found).split())


def test_classical_is_the_mean_with_students_t() -> None:
    data = world()
    labels = data["human"][:120]
    se = labels.std(ddof=1) / math.sqrt(120)
    half = student.ppf(0.975, 119) * se
    for found in (
        estimate_mean(data, target="human", interval="classical"),
        estimate_mean({"human": data["human"]}, target="human"),
        estimate_mean(data, target="human", measurements=[("human",)]),
    ):
        assert found.value == pytest.approx(labels.mean())
        assert (found.low, found.high) == pytest.approx(
            (labels.mean() - half, labels.mean() + half)
        )


def test_scalar_ppi_is_the_published_formula() -> None:
    """λ = N/(n+N)·Cov/Var of equation (2), with the covariance of the labelled rows."""
    data = world()
    sets = [("human", "pro"), ("pro",)]
    found = estimate_mean(data, target="human", measurements=sets, interval="paper", shrink=False)
    y, x, more = data["human"][:120], data["pro"][:120], data["pro"][120:520]
    weight = 400 / 520 * np.cov(x, y)[0, 1] / np.var(x, ddof=1)
    value = (y - weight * x).mean() + weight * more.mean()
    variance = np.var(y - weight * x, ddof=1) / 120 + weight**2 * np.var(more, ddof=1) / 400
    assert found.value == pytest.approx(value, rel=1e-9)
    assert found.se == pytest.approx(math.sqrt(variance), rel=1e-9)
    assert found.diagnostics["weights"]["pro"]["pro"] == pytest.approx(weight)
    assert found.high - found.value == pytest.approx(1.959964 * found.se, rel=1e-6)
    assert found.counts["unused"] == {"rows": 900}


def test_more_measurements_are_not_wider() -> None:
    data = world(seed=3, labelled=400, pro=2000, flash=4000)
    baselines = [
        [("human",)],
        [("human", "pro"), ("pro",)],
        [("human", "flash"), ("flash",)],
        [("human", "pro", "flash"), ("pro",), ("flash",)],
    ]
    widths = [estimate_mean(data, target="human", measurements=b).width for b in baselines]
    assert widths[-1] < min(widths[1:3]) < widths[0]


def test_difference_of_means_is_paired() -> None:
    rng = np.random.default_rng(5)
    base = rng.standard_normal(300)
    a, b = base + 0.3 * rng.standard_normal(300) + 0.2, base + 0.3 * rng.standard_normal(300)
    found = estimate_mean({"a": a, "b": b}, target={"a": 1, "b": -1})
    assert found.subject == "a − b"
    assert found.value == pytest.approx((a - b).mean())
    assert found.se == pytest.approx((a - b).std(ddof=1) / math.sqrt(300))
    apart = {
        "a": np.where(np.arange(300) < 150, a, np.nan),
        "b": np.where(np.arange(300) < 150, np.nan, b),
    }
    separate = estimate_mean(apart, target={"a": 1, "b": -1})
    assert separate.se > 2 * found.se
    assert separate.diagnostics["classical"]["value"] == pytest.approx(
        a[:150].mean() - b[150:].mean()
    )


def test_a_win_rate_from_two_judges() -> None:
    data = {"first": [1.0, 0.0, 1.0, 1.0] * 20, "second": [0.0, 1.0, 1.0, 0.0] * 20}
    found = estimate_mean(data, target={"first": 0.5, "second": 0.5})
    assert found.value == pytest.approx((0.75 + 0.5) / 2)
    assert found.subject == "0.5·first + 0.5·second"


def test_complementary_scores_share_the_mean() -> None:
    rng = np.random.default_rng(6)
    n = 3000
    right = rng.random(n) < 0.7
    judge = np.where(rng.random(n) < 0.9, right, ~right).astype(float)
    spared = right | (rng.random(n) < 2 / 3)
    score = 3 * spared - 2.0
    rows = np.arange(n)
    data = {
        "human": np.where(rows < 100, right, np.nan),
        "ruled_out": np.where((rows >= 100) & (rows < 2500), score, np.nan),
        "judge": np.where((rows < 100) | (rows >= 2500), judge, np.nan),
    }
    found = estimate_mean(data, target="human", same_mean={"ruled_out": "human"})
    alone = estimate_mean({k: data[k] for k in ("human", "judge")}, target="human")
    assert found.low < 0.7 < found.high
    assert found.width < 0.75 * alone.width
    weights = found.diagnostics["weights"]
    assert weights["human+judge"]["human"] + weights["ruled_out"]["ruled_out"] == pytest.approx(1)


def test_plan_names_target_raters_and_label_kinds() -> None:
    rng = np.random.default_rng(7)
    cov = np.array([[0.21, 0.15], [0.15, 0.21]])
    plan = plan_budget(
        cov=cov,
        names=("human", "judge"),
        target="human",
        costs={"human": 1.0, "judge": 0.02},
        budgets=1000.0,
        caps={"human": 100},
        labels=[complementary(n_classes=4, price=0.25, name="ruled_out")],
        accuracy=0.7,
    )
    columns: dict[str, list[float]] = {"human": [], "ruled_out": [], "judge": []}
    for name, count in plan.buy.items():
        right = rng.random(count) < 0.7
        # P(judge says right | right) and P(… | wrong) with the covariance above.
        judge = rng.random(count) < np.where(right, 0.7 + 0.15 / 0.7, 0.7 - 0.15 / 0.3)
        seen = set(name.split("+"))
        drawn = {
            "human": right,
            "judge": judge,
            "ruled_out": 3.0 * (right | (rng.random(count) < 2 / 3)) - 2,
        }
        for column, values in columns.items():
            values += [float(v) for v in drawn[column]] if column in seen else [math.nan] * count
    assert any("ruled_out" in name for name in plan.buy)
    found = estimate_mean(columns, plan)
    assert found.subject == "human"
    assert found.se == pytest.approx(plan.diagnostics["standard_error"], rel=0.15)
    assert abs(found.value - 0.7) < 4 * found.se


def test_known_covariance_spends_no_degrees_of_freedom() -> None:
    data = world()
    cov = np.array([[0.2275, 0.16, 0.14], [0.16, 0.24, 0.11], [0.14, 0.11, 0.24]])
    found = estimate_mean(data, target="human", cov=cov)
    assert found.diagnostics["degrees_of_freedom"] == 119
    assert found.low < 0.35 < found.high
    for bad, said in (
        (np.eye(2), "symmetric matrix of 3"),
        (np.ones((3, 3)), "positive definite"),
        ("x", "matrix of numbers"),
    ):
        with pytest.raises(ArgumentError, match=said):
            estimate_mean(data, target="human", cov=bad)  # type: ignore[arg-type]


def test_useless_rater_is_dropped_and_named() -> None:
    data = world()
    rng = np.random.default_rng(8)
    data["coin"] = (rng.random(len(data["human"])) < 0.5).astype(float)
    found = estimate_mean(data, target="human", interval="jackknife-t")
    assert found.diagnostics["dropped"] == ["coin"]
    assert found.diagnostics["n_raters"] == 2
    assert any("coin" in note for note in found.notes)
    assert estimate_mean(data, target="human", drop_useless=False).diagnostics["dropped"] == []


def test_few_labels_are_warned_about() -> None:
    with pytest.warns(GuaranteeWarning, match="only 30 labelled rows"):
        found = estimate_mean(world(labelled=30), target="human")
    assert found.guarantee.assumptions[-1].status == "failed"
    assert any("only 30" in note for note in found.notes)


def test_raters_that_agree_everywhere_are_warned_about() -> None:
    data = world()
    data["copy"] = data["pro"].copy()
    with pytest.warns(EvidenceWarning, match="singular pilot: pro and copy"):
        found = estimate_mean(data, target="human")
    one = estimate_mean(world(), target="human")
    assert found.se == pytest.approx(one.se, rel=0.05)


def test_a_lonely_row_does_not_break_the_interval() -> None:
    data = world()
    extra = {"human": [1.0, np.nan], "pro": [np.nan, 1.0], "flash": [np.nan, 1.0]}
    joined = {k: np.append(v, extra[k]) for k, v in data.items()}
    found = estimate_mean(joined, target="human")
    assert math.isfinite(found.se)
    assert all(n >= 2 for n in found.diagnostics["measurements"].values())


def test_sides() -> None:
    lower = estimate_mean(world(), target="human", side="lower")
    both = estimate_mean(world(), target="human", confidence=0.9)
    assert lower.high == math.inf
    assert lower.low == pytest.approx(both.low)


def test_anytime_is_wider_and_says_so() -> None:
    data = world(labelled=400)
    found = estimate_mean(data, target="human", interval="anytime")
    fixed = estimate_mean(data, target="human")
    assert found.guarantee.anytime
    assert fixed.width < found.width < 2.2 * fixed.width
    assert found.low < 0.35 < found.high
    assert found.counts["batches"] == 20


def strata_world(seed: int = 9) -> dict[str, list[Any]]:
    """Stratum a is easy for the judge, b is hard; b is labelled more often than its share."""
    rng = np.random.default_rng(seed)
    columns: dict[str, list[Any]] = {"part": [], "human": [], "judge": []}
    for part, labelled, more, accuracy, right in (
        ("a", 80, 600, 0.8, 0.9),
        ("b", 120, 300, 0.3, 0.7),
    ):
        truth = rng.random(labelled + more) < accuracy
        judge = np.where(rng.random(labelled + more) < right, truth, ~truth)
        columns["part"] += [part] * (labelled + more)
        columns["human"] += [float(t) if i < labelled else None for i, t in enumerate(truth)]
        columns["judge"] += [float(j) for j in judge]
    return columns


def test_strata_are_weighted_by_their_shares() -> None:
    data = strata_world()
    shares = {"a": 0.75, "b": 0.25}
    found = estimate_mean(
        data, target="human", raters=["human", "judge"], strata="part", shares=shares
    )
    means = [
        np.mean(
            [
                h
                for h, p in zip(data["human"], data["part"], strict=True)
                if p == part and h is not None
            ]
        )
        for part in "ab"
    ]
    assert found.subject == "human"
    assert found.diagnostics["classical"]["value"] == pytest.approx(
        0.75 * means[0] + 0.25 * means[1]
    )
    assert found.low < 0.75 * 0.8 + 0.25 * 0.3 < found.high
    assert found.se < 0.9 * found.diagnostics["classical"]["se"]
    assert (found.diagnostics["n_labelled"], found.diagnostics["degrees_of_freedom"]) == (200, 196)
    with pytest.raises(ArgumentError, match="shares must be positive and name the strata a, b"):
        estimate_mean(data, target="human", raters=["human", "judge"], strata="part")


def test_plan_with_strata_is_estimated_within_strata() -> None:
    data = strata_world()
    shares = {"a": 0.75, "b": 0.25}
    cov = {"a": [[0.16, 0.12], [0.12, 0.16]], "b": [[0.21, 0.08], [0.08, 0.24]]}
    plan = plan_budget(
        cov=cov,
        names=("human", "judge"),
        target="human",
        costs={"human": 1.0, "judge": 0.05},
        budgets=300.0,
        shares=shares,
    )
    found = estimate_mean(data, plan, raters=["human", "judge"], strata="part")
    same = estimate_mean(
        data, target="human", raters=["human", "judge"], strata="part", shares=shares
    )
    assert found.subject == "human"
    assert close(found, same)


BAD: list[tuple[str, Any, dict[str, Any], type[Exception], str]] = [
    (
        "nan everywhere",
        {"human": [math.nan] * 9, "pro": [math.nan] * 9},
        {},
        EvidenceError,
        "NaN everywhere",
    ),
    (
        "no gold row",
        {"human": [math.nan] * 9, "pro": list(range(9))},
        {},
        EvidenceError,
        "rows that observe 'human'",
    ),
    (
        "constant rater",
        {"human": [0.0, 1.0] * 40, "pro": [1.0] * 80},
        {},
        EvidenceError,
        "data.pro must vary; got 1 in all 80 rows",
    ),
    (
        "constant target",
        {"human": [1.0] * 80, "pro": [0.0, 1.0] * 40},
        {},
        EvidenceError,
        "data.human must vary.*estimate_accuracy",
    ),
    (
        "one row",
        {"human": [1.0], "pro": [1.0]},
        {},
        EvidenceError,
        "rows that observe 'human'|at least 4 rows",
    ),
    (
        "three rows",
        {"human": [1.0, 0.0, 1.0], "pro": [1.0, 0.0, 0.0]},
        {},
        EvidenceError,
        "at least 4 rows with human; got 3",
    ),
    ("no rows", {"human": [], "pro": []}, {}, EvidenceError, "must have|numbers"),
    (
        "infinite",
        {"human": [0.0, math.inf] * 20, "pro": [1.0] * 40},
        {},
        EvidenceError,
        "data.human must be finite; .* at items 1, 3",
    ),
    ("wrong target", world(), {"target": "gold"}, ArgumentError, "among .*'human'.*; got gold"),
    ("no target", world(), {"target": None}, ArgumentError, "target must name the gold rater"),
    ("zero target", world(), {"target": {"human": 0.0}}, ArgumentError, "some of them not 0"),
    ("wrong rater", world(), {"raters": ["human", "ultra"]}, EvidenceError, "ultra"),
    (
        "wrong measurement",
        world(),
        {"measurements": [("human", "ultra")]},
        ArgumentError,
        "measurements must be sets of names",
    ),
    (
        "uncovered",
        world(),
        {"measurements": [("pro",)]},
        EvidenceError,
        "rows that observe 'human'",
    ),
    ("same mean of itself", world(), {"same_mean": {"human": "pro"}}, ArgumentError, "same_mean"),
    ("wrong interval", world(), {"interval": "exact"}, ArgumentError, "interval must be one of"),
    ("wrong confidence", world(), {"confidence": 95}, ArgumentError, "confidence must be in"),
    (
        "text",
        {"human": ["a", "b"], "pro": ["c", "d"]},
        {"raters": ["human", "pro"]},
        EvidenceError,
        "must hold numbers",
    ),
    ("one axis", np.zeros(5), {}, EvidenceError, "rows and columns"),
    (
        "anytime, constant",
        {"human": [1.0] * 80},
        {"interval": "anytime"},
        EvidenceError,
        "data.human must vary",
    ),
    (
        "anytime, lower",
        world(),
        {"interval": "anytime", "side": "lower"},
        ArgumentError,
        "takes no cov, measurements or side",
    ),
    (
        "anytime, one batch",
        world(),
        {"interval": "anytime", "batches": 1},
        ArgumentError,
        "batches must be at least 2",
    ),
    ("one fold", world(), {"folds": 1}, ArgumentError, "folds must be at least 2"),
]


@pytest.mark.parametrize(
    ("data", "options", "error", "said"), [b[1:] for b in BAD], ids=[b[0] for b in BAD]
)
def test_bad_input_is_one_clear_error(
    data: Any, options: dict[str, Any], error: type[Exception], said: str
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(error, match=said):
            estimate_mean(data, **{"target": "human", **options})


def test_what_is_no_plan_is_refused() -> None:
    with pytest.raises(ArgumentError, match="plan must be a Plan or None; got dict"):
        estimate_mean(world(), world(), target="human")  # type: ignore[arg-type]


@pytest.mark.parametrize("first", [None, "plan"])
def test_a_plan_before_the_data_is_told_the_new_call(first: Any) -> None:
    cov = [[0.21, 0.1], [0.1, 0.24]]
    plan = plan_budget(cov=cov, target="human", costs={"human": 5.0, "judge": 0.1}, budgets=500)
    with pytest.raises(ArgumentError, match=r"estimate_mean\(data, target=…\)"):
        estimate_mean(plan if first else None, world(), target="human")  # type: ignore[arg-type]


def test_classical_estimate_counts_a_shared_mean_once() -> None:
    rng = np.random.default_rng(4)
    human = (rng.random(200) < 0.7).astype(float)
    ruled_out = np.where(rng.random(200) < 0.9, 1.0, -2.0)
    data = {"h": [*human, *[None] * 200], "c": [*[None] * 200, *ruled_out]}
    found = estimate_mean(data, target="h", same_mean={"c": "h"}, interval="classical")
    assert found.value == pytest.approx(human.mean())


# ------------------------------------------------------------------------------------------------------------------------
# tails


def tails_in(found: Estimate) -> Assumption:
    return next(a for a in found.guarantee.assumptions if a.name == "tails light enough for t")


@pytest.mark.parametrize("interval", ["crossfit-t", "jackknife-t", "paper", "classical"])
def test_heavy_tails_take_the_promise_away_and_say_what_to_do(interval: Any) -> None:
    rng = np.random.default_rng(4)
    scores = rng.lognormal(0, 2, 400)
    data = {
        "human": [float(s) if i < 100 else None for i, s in enumerate(scores)],
        "judge": scores + rng.normal(size=400),
    }
    with pytest.warns(GuaranteeWarning, match=r"heavy tails.*label more rows.*betting"):
        found = estimate_mean(data, target="human", interval=interval)
    assert (tails_in(found).status, found.guarantee.kind) == ("failed", Kind.HEURISTIC)
    assert any("heavy tails" in note for note in found.notes)


@pytest.mark.parametrize("interval", ["crossfit-t", "jackknife-t", "paper", "classical"])
def test_light_tails_keep_the_promise(interval: Any) -> None:
    found = estimate_mean(world(labelled=120), target="human", interval=interval)
    assert (tails_in(found).status, found.guarantee.kind) == ("checked", Kind.ASYMPTOTIC)


def test_skewness_is_that_of_the_mean_and_the_largest_share_is_of_its_variance() -> None:
    rng = np.random.default_rng(5)
    scores = rng.exponential(size=150)
    found = estimate_mean({"human": scores}, target="human", interval="classical")
    away = scores - scores.mean()
    assert found.diagnostics["skewness"] == pytest.approx(abs(float(skew(scores))) / 150**0.5)
    assert found.diagnostics["largest_share"] == pytest.approx(
        float((away**2).max() / (away**2).sum())
    )
    means = rng.choice(scores, (40_000, 150)).mean(
        axis=1
    )  # the bootstrap mean has just this skewness
    assert found.diagnostics["skewness"] == pytest.approx(float(skew(means)), abs=0.04)
    with_judge = estimate_mean(
        {"human": scores, "judge": scores + rng.normal(size=150)}, target="human"
    )
    assert with_judge.diagnostics["skewness"] == pytest.approx(
        found.diagnostics["skewness"], rel=0.1
    )  # no row without a label: λ = 0


def test_tails_do_not_depend_on_units() -> None:
    rng = np.random.default_rng(6)
    scores, judge = rng.exponential(size=300), rng.normal(size=300)
    one, other = (
        estimate_mean(
            {
                "human": [float(a * s + b) if i < 150 else None for i, s in enumerate(scores)],
                "judge": judge,
            },
            target="human",
        )
        for a, b in ((1, 0), (-1000, 7))
    )
    for name in ("skewness", "largest_share"):
        assert one.diagnostics[name] == pytest.approx(other.diagnostics[name], rel=1e-6)


def test_stream_assumes_light_tails_and_says_so() -> None:
    found = estimate_mean(world(labelled=200), target="human", interval="anytime")
    assert tails_in(found).status == "assumed"


# --------------------------------------------------------------------------------------------------------------
# several tables


def _parts() -> tuple[dict[str, list[Any]], dict[str, list[Any]], dict[str, list[Any]]]:
    """One table, and the same in two: wide with whole numbers as items, and long."""
    rng = np.random.default_rng(4)
    truth = (rng.random(300) < 0.6).astype(float)
    judge = np.where(rng.random(300) < 0.85, truth, 1 - truth)
    human = [float(t) if i < 120 else None for i, t in enumerate(truth)]
    whole = {"item": list(range(300)), "human": human, "judge": judge.tolist()}
    wide = {name: values[:120] for name, values in whole.items()}
    long = {"item": list(range(120, 300)), "rater": ["judge"] * 180, "value": judge[120:].tolist()}
    return whole, wide, long


@pytest.mark.parametrize("kind", ["dict", "pandas", "polars", "csv", "jsonl", "parquet"])
def test_several_tables_of_any_kind_are_one(kind: str, tmp_path: Path) -> None:
    whole, wide, long = _parts()

    def brought(table: dict[str, list[Any]], name: str) -> Any:
        frame, path = pl.DataFrame(table), tmp_path / f"{name}.{kind}"
        if kind in ("dict", "pandas", "polars"):
            return {"dict": table, "pandas": pd.DataFrame(table), "polars": frame}[kind]
        {"csv": frame.write_csv, "jsonl": frame.write_ndjson, "parquet": frame.write_parquet}[kind](
            path
        )
        return path

    expected = estimate_mean(whole, target="human")
    found = estimate_mean([brought(wide, "wide"), brought(long, "long")], target="human")
    assert (found.value, found.low, found.high, found.counts) == (
        expected.value,
        expected.low,
        expected.high,
        expected.counts,
    )


def test_items_are_the_same_whatever_their_type() -> None:
    whole, _, _ = _parts()
    human = {"item": [str(i) for i in range(120)], "human": whole["human"][:120]}
    judge = {"item": [float(i) for i in range(300)], "judge": whole["judge"]}
    expected = estimate_mean(whole, target="human")
    found = estimate_mean([human, judge], target="human")
    assert (found.value, found.low, found.high) == (expected.value, expected.low, expected.high)


def test_clusters_and_strata_of_several_tables_are_kept() -> None:
    whole, wide, long = _parts()
    pages = [f"page {i // 3}" for i in range(300)]
    expected = estimate_mean({**whole, "cluster": pages}, target="human")
    found = estimate_mean(
        [{**wide, "cluster": pages[:120]}, {**long, "cluster": pages[120:]}], target="human"
    )
    assert (found.low, found.high, found.counts["clusters"]) == (
        expected.low,
        expected.high,
        expected.counts["clusters"],
    )
    shares, topics = {"a": 0.5, "b": 0.5}, ["a", "b"] * 150
    by_topic = estimate_mean(
        {**whole, "topic": topics}, target="human", strata="topic", shares=shares
    )
    parts = [{**wide, "topic": topics[:120]}, {**long, "topic": topics[120:]}]
    assert (
        estimate_mean(parts, target="human", strata="topic", shares=shares).value == by_topic.value
    )


def test_one_table_in_a_list_is_that_table() -> None:
    whole, _, _ = _parts()
    assert (
        estimate_mean([whole], target="human").value == estimate_mean(whole, target="human").value
    )
