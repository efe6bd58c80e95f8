"""Nine worlds in which the first release was wrong, each with a simulator of its own.

In every world the interval covers as often as it says, or the result is refused or heuristic and
names the assumption that failed. The truth is the accuracy on the items of the table where
``population`` is "answers", and that of the law that they were drawn from "beyond". World (i),
means with heavy tails, is in ``test_ppi_coverage.py`` (``test_with_heavy_tails_…``).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from noracle import (
    AccuracyCounts,
    Evidence,
    NoracleError,
    compare_systems,
    estimate_accuracy,
    plan_labels,
    race_systems,
    route_items,
)
from noracle.errors import GuaranteeWarning
from noracle.results import Check, Comparison, Estimate, Guarantee, Kind

Ints = np.ndarray[Any, np.dtype[np.int64]]
Rng = np.random.Generator
Row = tuple[Any, ...]  # item, class, verdict and, where they matter, propensity and time
SLOW = pytest.mark.slow


def runs(few: int, many: int = 200) -> pytest.MarkDecorator:
    """So many worlds in the default suite, and many more in the slow one."""
    return pytest.mark.parametrize("worlds", [few, pytest.param(many, marks=SLOW)])


class Tally:
    """How often statements held, among those that promise something; the others must say why they
    do not.
    """

    def __init__(self) -> None:
        self.held, self.promised, self.silent = 0, 0, 0

    def add(self, guarantee: Guarantee, held: bool) -> None:
        if guarantee.kind > Kind.HEURISTIC:
            self.promised += 1
            self.held += held
        else:
            assert failed(guarantee), "a heuristic result must name the assumption that failed"
            self.silent += 1

    def estimate(self, found: Estimate, truth: float) -> None:
        self.add(found.guarantee, found.low - 1e-12 <= truth <= found.high + 1e-12)

    def check(self, nominal: float = 0.95) -> None:
        """At least the promise, less two standard errors."""
        assert self.promised + self.silent
        if self.promised:
            least = nominal - 2 * math.sqrt(nominal * (1 - nominal) / self.promised)
            assert self.held >= math.floor(least * self.promised), (
                f"{self.held} of {self.promised} held"
            )

    def seldom_silent(self) -> Tally:
        """An honest world loses its promise only by the false alarms of up to six checks, at 1e-3
        each.
        """
        most = 0.006 * (self.promised + self.silent)
        assert self.silent <= most + 3 * math.sqrt(most), (
            f"{self.silent} of {self.promised + self.silent} without a promise"
        )
        return self


def failed(guarantee: Guarantee) -> list[str]:
    return [a.name for a in guarantee.assumptions if a.status == "failed"]


def covers(found: Comparison, first: str, second: str, truth: float) -> bool:
    d = found.difference(first, second)
    return d.low - 1e-12 <= truth <= d.high + 1e-12


def tables(
    answers: Mapping[str, Ints],
    rows: Sequence[Row],
    k: int | Ints,
    stratum: Sequence[str] | None = None,
    **more: Any,
) -> Evidence:
    """Evidence: answers by item and system (-1 is none), judgements as rows."""
    n = len(next(iter(answers.values())))
    given: dict[str, list[Any]] = {"item": [], "system": [], "answer": []}
    for system, classes in answers.items():
        given["item"] += range(n)
        given["system"] += [system] * n
        given["answer"] += [None if c < 0 else int(c) for c in classes]
    names = ("item", "class", "verdict", "propensity", "at")
    said = {
        name: list(column) for name, column in zip(names, zip(*rows, strict=True), strict=False)
    }
    about: dict[str, Any] = {"item": list(range(n))}
    if stratum is not None:
        about["stratum"] = list(stratum)
    if not isinstance(k, int):
        about["n_classes"] = [int(c) for c in k]
    else:
        more["n_classes"] = k
    return Evidence.from_tables(
        pl.DataFrame(given), pl.DataFrame(said), pl.DataFrame(about), **more
    )


def answers_of(rng: Rng, key: Ints, right: np.ndarray, k: int | Ints) -> Ints:
    """The true class where right, else one of the others."""
    return np.where(right, key, (key + 1 + rng.integers(np.asarray(k) - 1, size=len(key))) % k)


def exactly(rng: Rng, size: int, share: float) -> np.ndarray:
    """A random subset of this share."""
    return rng.permutation(size) < round(share * size)


# ---------------------------------------------------------------------- (a) strata that were
# labelled at different rates


def unequal_rates(rng: Rng, *, ordinary: bool, k: int = 4, half: int = 2000) -> Evidence:
    """Two strata, the first labelled four times as often; a is right on .9 and .4 of them, b on .6
    and .7: both on .65.
    """
    key = rng.integers(k, size=2 * half)
    answers = {}
    for system, shares in {"a": (0.9, 0.4), "b": (0.6, 0.7)}.items():
        right = np.concatenate([exactly(rng, half, share) for share in shares])
        answers[system] = answers_of(rng, key, right, k)
    labelled = np.concatenate(
        [rng.permutation(half)[: 2 * half // 5], half + rng.permutation(half)[: half // 10]]
    )
    asked = key[labelled] if ordinary else rng.integers(k, size=len(labelled))
    rows = [
        (int(i), int(c), "yes" if key[i] == c else "no")
        for i, c in zip(labelled, asked, strict=True)
    ]
    stratum = ["often"] * half + ["seldom"] * half
    return tables(answers, [rows[i] for i in rng.permutation(len(rows))], k, stratum)


@pytest.mark.thin(2)
@pytest.mark.parametrize("ordinary", [True, False], ids=["ordinary", "questions"])
@runs(12)
def test_a_estimates_weight_strata_labelled_at_different_rates(worlds: int, ordinary: bool) -> None:
    tally = Tally()
    for seed in range(worlds):
        evidence = unequal_rates(np.random.default_rng([1, seed]), ordinary=ordinary)
        for system in ("a", "b"):
            tally.estimate(estimate_accuracy(evidence, system=system, seed=seed), 0.65)
    tally.seldom_silent().check()


@pytest.mark.parametrize("ordinary", [True, False], ids=["ordinary", "questions"])
@runs(12)
def test_a_comparison_weights_strata_and_calls_equals_equal(worlds: int, ordinary: bool) -> None:
    tally, better = Tally(), 0
    for seed in range(worlds):
        found = compare_systems(
            unequal_rates(np.random.default_rng([2, seed]), ordinary=ordinary), seed=seed
        )
        tally.add(found.guarantee, covers(found, "a", "b", 0.0))
        better += found.difference("a", "b").verdict != "not separable"
    tally.seldom_silent().check()
    assert better <= 0.05 * worlds + 2 * math.sqrt(0.05 * 0.95 * worlds)


@runs(4, 40)
def test_a_race_over_strata_labelled_at_different_rates_promises_nothing(worlds: int) -> None:
    for seed in range(worlds):
        found = race_systems(
            unequal_rates(np.random.default_rng([3, seed]), ordinary=seed % 2 == 0)
        )
        assert found.guarantee.kind is Kind.HEURISTIC
        assert "same label rate in all strata" in failed(found.guarantee)


@pytest.mark.full
@runs(2, 40)
def test_a_joint_promise_of_a_report_holds(worlds: int, tmp_path: Path) -> None:
    """A folder is right if every statement with a promise is."""
    import csv

    from noracle.oversight import oversee

    held = 0
    for seed in range(worlds):
        folder = tmp_path / str(seed)
        folder.mkdir()
        evidence = unequal_rates(np.random.default_rng([4, seed]), ordinary=True, half=500)
        for name, columns in (
            ("answers", ("item", "system", "answer")),
            ("judgements", ("item", "class", "verdict")),
            ("items", ("item", "stratum")),
        ):
            with (folder / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
                csv.writer(file).writerows([columns, *evidence.rows(name, *columns)])
        (folder / "noracle.toml").write_text("n_classes = 4\n", encoding="utf-8")
        report = oversee(folder, seed=seed)
        promised = [
            r
            for step in report.steps
            for r in step.results
            if isinstance(r, (Estimate, Comparison))
        ]
        promised = [r for r in promised if r.guarantee.kind >= Kind.FINITE_SAMPLE]
        estimates = [r for r in promised if isinstance(r, Estimate) and r.quantity == "accuracy"]
        comparisons = [r for r in promised if isinstance(r, Comparison)]
        assert len(estimates) == 2
        assert comparisons
        assert report.guarantee.error_rate <= 0.05 + 1e-12
        held += all(e.low <= 0.65 <= e.high for e in estimates) and all(
            covers(c, "a", "b", 0.0) for c in comparisons
        )
    assert held >= math.floor((0.95 - 2 * math.sqrt(0.05 * 0.95 / worlds)) * worlds)


# ----------------------------------------------------------------- (b) a recorded propensity that
# happens to be 1/K


def vote_shares(
    rng: Rng, *, size: int = 6000, labelled: int = 1500, epsilon: float = 0.1
) -> tuple[Evidence, dict[str, float]]:
    """Three systems and three classes; questions follow the votes, and a single vote has the
    propensity (1 - ε)/3 + ε/3 = 1/K.

    On most items a and b agree, right on 75 % of them, and c differs, right on 10 %; on the others
    all agree.
    """
    k = 3
    key = rng.integers(k, size=size)
    split, luck = exactly(rng, size, 0.9), rng.random(size)
    pair = np.where(luck < 0.75, key, (key + 1) % k)
    odd = np.where(luck < 0.75, (key + 1) % k, np.where(luck < 0.85, key, (key + 2) % k))
    answers = {"a": pair, "b": pair, "c": np.where(split, odd, pair)}
    votes = np.sum([np.eye(k)[given] for given in answers.values()], axis=0)
    chances = (1 - epsilon) * votes / 3 + epsilon / k
    rows = []
    for i in rng.permutation(size)[:labelled].tolist():
        c = int(np.searchsorted(np.cumsum(chances[i]), rng.random(), side="right"))
        rows.append((i, c, "yes" if c == key[i] else "no", float(chances[i, c])))
    return tables(answers, rows, k), {
        s: float(np.mean(given == key)) for s, given in answers.items()
    }


@pytest.mark.full
@runs(6)
def test_b_propensities_of_one_third_belong_to_the_design(worlds: int) -> None:
    one, all_pairs = {s: Tally() for s in "abc"}, Tally()
    for seed in range(worlds):
        evidence, truth = vote_shares(np.random.default_rng([5, seed]))
        for system, tally in one.items():
            tally.estimate(estimate_accuracy(evidence, system=system, seed=seed), truth[system])
        found = compare_systems(evidence, seed=seed)
        all_pairs.add(
            found.guarantee,
            all(
                covers(found, *pair, truth[pair[0]] - truth[pair[1]]) for pair in ("ab", "ac", "bc")
            ),
        )
    for tally in (*one.values(), all_pairs):
        tally.seldom_silent().check()


# ------------------------------------------------------------------------- (c) questions whose
# number depends on verdicts


Policy = Callable[[list[str]], bool]
POLICIES: dict[str, Policy] = {
    "ask again after no": lambda said: len(said) == 1 and said[0] == "no",
    "stop when settled": lambda said: len(said) < 3 and "yes" not in said,
    "ask again after yes": lambda said: len(said) == 1 and said[0] == "yes",
}


def asked_again(
    rng: Rng, policy: Policy, *, size: int = 4000, labelled: int = 1000, k: int = 5
) -> tuple[list[Row], dict[str, Ints], float]:
    """Targeted questions with their propensities and times; whether there is another one follows
    from what was said.
    """
    key = rng.integers(k, size=size)
    answers = {"a": answers_of(rng, key, exactly(rng, size, 0.6), k)}
    rows, at = [], 0
    for i in rng.permutation(size)[:labelled].tolist():
        chances = np.full(k, 0.6 / k)
        chances[answers["a"][i]] += 0.4
        said: list[str] = []
        while not said or policy(said):
            c, at = int(np.searchsorted(np.cumsum(chances), rng.random(), side="right")), at + 1
            said.append("yes" if c == key[i] else "no")
            rows.append((i, c, said[-1], float(chances[c]), float(at)))
    return rows, answers, 0.6


@pytest.mark.full
@pytest.mark.thin(3)
@pytest.mark.parametrize("policy", POLICIES)
@runs(15)
def test_c_first_question_in_time_is_the_label(worlds: int, policy: str) -> None:
    """Rows in any order, times told; and rows in the order of time, times not told."""
    timed, ordered = Tally(), Tally()
    for seed in range(worlds):
        rng = np.random.default_rng([6, seed])
        rows, answers, truth = asked_again(rng, POLICIES[policy])
        shuffled = [rows[i] for i in rng.permutation(len(rows))]
        timed.estimate(estimate_accuracy(tables(answers, shuffled, 5), seed=seed), truth)
        ordered.estimate(
            estimate_accuracy(tables(answers, [r[:4] for r in rows], 5), seed=seed), truth
        )
    timed.seldom_silent().check()
    ordered.check()


# ------------------------------------------------------------------------------------ (d) items
# beyond those of the table


def beyond(rng: Rng, *, ordinary: bool, mixed: bool, size: int = 240) -> tuple[Evidence, float]:
    """Items drawn from strata of equal shares, accuracies .95 and .2; every item is labelled."""
    hard = rng.random(size) < 0.5
    k: int | Ints = np.where(hard, 8, 3) if mixed else 4
    key = rng.integers(k, size=size)
    answers = {"a": answers_of(rng, key, rng.random(size) < np.where(hard, 0.2, 0.95), k)}
    asked = key if ordinary else rng.integers(k, size=size)
    rows = [(i, int(c), "yes" if key[i] == c else "no") for i, c in enumerate(asked)]
    return tables(answers, rows, k, ["hard" if h else "easy" for h in hard]), 0.575


@pytest.mark.thin(6)
@pytest.mark.parametrize("interval", ["auto", "wald"])
@pytest.mark.parametrize("mixed", [False, True], ids=["strata", "strata and K"])
@pytest.mark.parametrize("ordinary", [True, False], ids=["ordinary", "questions"])
@runs(15, 400)
def test_d_items_beyond_these_have_other_strata_too(
    worlds: int, ordinary: bool, mixed: bool, interval: Any
) -> None:
    tally = Tally()
    for seed in range(worlds):
        evidence, truth = beyond(np.random.default_rng([7, seed]), ordinary=ordinary, mixed=mixed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", GuaranteeWarning)
            tally.estimate(
                estimate_accuracy(evidence, population="beyond", interval=interval, seed=seed),
                truth,
            )
    tally.seldom_silent().check()


# -------------------------------------------------------------------------------------------------
# (e) order of checks


def check(p_value: float, name: str = "routing") -> Check:
    return Check(
        name=name,
        assumption="uniform routing",
        p_value=p_value,
        statistic=0.0,
        finding="counted",
        method="exact",
    )


def test_e_passing_checks_do_not_hide_a_failed_one() -> None:
    counts = AccuracyCounts.from_counts(n_classes=4, complementary=(300, 280))
    passes, fails = [check(0.4), check(0.9, "overlap")], check(1e-9)
    found = [
        estimate_accuracy(counts, checks=order)
        for order in ([fails, *passes], [*passes, fails], [passes[0], fails, passes[1]])
    ]
    assert {e.guarantee for e in found} == {found[0].guarantee}
    assert found[0].guarantee.kind is Kind.HEURISTIC
    assert failed(found[0].guarantee) == ["uniform routing"]
    assert estimate_accuracy(counts, checks=passes).guarantee.kind is Kind.FINITE_SAMPLE


# --------------------------------------------------------------------------- (f) evidence that
# contradicts the assumptions


def test_f_empty_exact_set_is_a_failed_assumption() -> None:
    """More answers ruled out than any accuracy allows."""
    found = estimate_accuracy(AccuracyCounts.from_counts(n_classes=4, complementary=(300, 100)))
    assert found.guarantee.kind is Kind.HEURISTIC
    assert "labels fit the design" in failed(found.guarantee)


def test_f_contradictory_verdicts_that_were_dropped_are_a_failed_assumption() -> None:
    rng = np.random.default_rng(8)
    key = rng.integers(4, size=300)
    answers = {s: answers_of(rng, key, rng.random(300) < 0.7, 4) for s in "ab"}
    rows = [(i, int(c), "yes") for i, c in enumerate(key)] + [
        (i, int(key[i]), "no") for i in range(12)
    ]
    with pytest.raises(NoracleError, match="contradict"):
        estimate_accuracy(tables(answers, rows, 4), system="a")
    evidence = tables(answers, rows, 4, conflicts="drop")
    for found in (estimate_accuracy(evidence, system="a"), compare_systems(evidence)):
        assert found.guarantee.kind is Kind.HEURISTIC
        assert "right verdicts" in failed(found.guarantee)


def informative_unsure(
    rng: Rng, *, size: int, targeted: bool, wrong: float, right: float
) -> tuple[Evidence, float]:
    """One question per item; raters are unsure more often where the system is wrong."""
    k, n = 4, 4 * size
    key = rng.integers(k, size=n)
    is_right = exactly(rng, n, 0.6)
    answers = {"a": answers_of(rng, key, is_right, k)}
    rows: list[Row] = []
    for i in rng.permutation(n)[:size].tolist():
        chances = np.full(k, 0.3 / k if targeted else 1 / k)
        chances[answers["a"][i]] += 0.7 if targeted else 0.0
        c = int(rng.choice(k, p=chances))
        unsure = rng.random() < (right if is_right[i] else wrong)
        verdict = "unsure" if unsure else "yes" if key[i] == c else "no"
        rows.append((i, c, verdict, float(chances[c])) if targeted else (i, c, verdict))
    return tables(answers, rows, k), 0.6


@pytest.mark.thin(2)
@pytest.mark.parametrize("targeted", [False, True], ids=["uniform", "targeted"])
@runs(15)
def test_f_informative_unsure_verdicts_cost_the_promise(worlds: int, targeted: bool) -> None:
    tally = Tally()
    for seed in range(worlds):
        evidence, truth = informative_unsure(
            np.random.default_rng([9, seed]), size=600, targeted=targeted, wrong=0.5, right=0.05
        )
        found = estimate_accuracy(evidence, seed=seed)
        tally.estimate(found, truth)
        if found.guarantee.kind is Kind.HEURISTIC:
            assert "verdicts missing at random" in failed(found.guarantee)
    tally.check()


@runs(15)
def test_f_a_few_unsure_verdicts_are_covered_by_the_interval(worlds: int) -> None:
    """So few that the promise is kept, whatever they hide."""
    tally = Tally()
    for seed in range(worlds):
        evidence, truth = informative_unsure(
            np.random.default_rng([10, seed]), size=300, targeted=True, wrong=0.04, right=0.0
        )
        tally.estimate(estimate_accuracy(evidence, seed=seed), truth)
    tally.check()


# ------------------------------------------------------------------------------- (g) checks of
# honest and of made-up labels


def questions_about(
    rng: Rng, design: str, *, size: int = 1500, labelled: int = 400, k: int = 5
) -> Evidence:
    """Two systems, one question per item: uniform, by the votes, or, dishonestly, always about the
    first system's own answer.
    """
    key = rng.integers(k, size=size)
    answers = {
        s: answers_of(rng, key, rng.random(size) < a, k) for s, a in (("a", 0.7), ("b", 0.4))
    }
    votes = np.eye(k)[answers["a"]] + np.eye(k)[answers["b"]]
    chances = np.full((size, k), 1 / k) if design != "targeted" else 0.8 * votes / 2 + 0.2 / k
    rows: list[Row] = []
    for i in rng.permutation(size)[:labelled].tolist():
        c = int(np.searchsorted(np.cumsum(chances[i]), rng.random(), side="right"))
        if design == "made of the answers":
            c = int(answers["a"][i])
        row = (i, c, "yes" if key[i] == c else "no")
        rows.append((*row, float(chances[i, c])) if design == "targeted" else row)
    return tables(answers, rows, k)


@pytest.mark.thin(6)
@pytest.mark.parametrize("design", ["uniform", "targeted"])
@runs(8)
def test_g_honest_questions_pass_all_checks(worlds: int, design: str) -> None:
    """At 1e-3 for each assumption a false alarm is rare; each system and the comparison have four
    of them at most.
    """
    alarms = 0
    for seed in range(worlds):
        evidence = questions_about(np.random.default_rng([12, seed]), design)
        found = [
            estimate_accuracy(evidence, system="a").guarantee,
            compare_systems(evidence).guarantee,
        ]
        assert all(
            a.status != "failed" or (a.p_value or 0) > 1e-9 for g in found for a in g.assumptions
        )
        assert {"checked"} <= {a.status for a in found[0].assumptions}
        alarms += any(g.kind is Kind.HEURISTIC for g in found)
    assert alarms <= 8e-3 * worlds + 3 * math.sqrt(8e-3 * worlds)


@runs(4)
def test_g_judgements_made_of_the_answers_themselves_are_refuted(worlds: int) -> None:
    for seed in range(worlds):
        evidence = questions_about(np.random.default_rng([13, seed]), "made of the answers")
        for guarantee in (
            estimate_accuracy(evidence, system="a").guarantee,
            compare_systems(evidence).guarantee,
        ):
            assert guarantee.kind is Kind.HEURISTIC
            assert "answers made without the verdicts" in failed(guarantee)


@pytest.mark.parametrize("policy", ["ask again after no", "stop when settled"])
@runs(6)
def test_c_without_times_and_in_any_order_the_number_of_questions_is_a_failed_assumption(
    worlds: int, policy: str
) -> None:
    for seed in range(worlds):
        rng = np.random.default_rng([14, seed])
        rows, answers, truth = asked_again(rng, POLICIES[policy])
        found = estimate_accuracy(
            tables(answers, [rows[i][:4] for i in rng.permutation(len(rows))], 5), seed=seed
        )
        assert found.guarantee.kind is Kind.HEURISTIC or found.low <= truth <= found.high
        if found.guarantee.kind is Kind.HEURISTIC:
            assert set(failed(found.guarantee)) & {
                "number of questions fixed beforehand",
                "right verdicts",
                "recorded propensities",
            }


# --------------------------------------------------------------------------------------------------
# (h) targeted plans


def planned(
    rng: Rng, *, k: int, accuracy: float, half_width: float, seed: int
) -> tuple[Estimate, float]:
    """Plan, route, answer the questions, estimate: the estimate and what was planned."""
    plan = plan_labels(n_classes=k, accuracy=accuracy, half_width=half_width, kind="targeted")
    size = 20 * plan.buy["targeted"]
    key = rng.integers(k, size=size)
    answers = {"a": answers_of(rng, key, exactly(rng, size, accuracy), k)}
    given = {"item": list(range(size)), "system": ["a"] * size, "answer": answers["a"].tolist()}
    routing = route_items(
        Evidence.from_tables(pl.DataFrame(given), n_classes=k), plan=plan, seed=seed
    )
    rows = [(i, c, "yes" if key[i] == c else "no", p) for i, c, p in routing.rows]
    return estimate_accuracy(tables(answers, rows, k), seed=seed), plan.predicted


def _plans() -> Iterator[tuple[int, float, float]]:
    yield 10, 0.8, 0.06
    yield 4, 0.5, 0.08
    yield 100, 0.95, 0.05


@pytest.mark.parametrize(("k", "accuracy", "half_width"), list(_plans()))
@runs(4)
def test_h_targeted_plan_gives_the_planned_half_width(
    worlds: int, k: int, accuracy: float, half_width: float
) -> None:
    tally, widths = Tally(), []
    for seed in range(worlds):
        found, predicted = planned(
            np.random.default_rng([11, k, seed]),
            k=k,
            accuracy=accuracy,
            half_width=half_width,
            seed=seed,
        )
        assert predicted <= half_width
        tally.estimate(found, accuracy)
        widths.append((found.high - found.low) / 2)
    tally.seldom_silent().check()
    assert np.mean(widths) <= 1.10 * half_width
