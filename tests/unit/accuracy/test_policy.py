"""One list of checks: honest worlds keep their promise, planted faults take it from those that rest
on them, and from nobody else.
"""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from noracle import (
    AccuracyCounts,
    Check,
    Evidence,
    check_hits,
    check_missing,
    check_overlap,
    checks_for,
    compare_systems,
    estimate_accuracies,
    estimate_accuracy,
    label_checks,
)
from noracle.accuracy.check import POLICY, for_comparison, remedy
from noracle.cli import run
from noracle.results import Guarantee, Kind
from tests.contracts import evidence as contracts
from tests.contracts.evidence import CASES, tables

Rng = np.random.Generator
Row = tuple[int, int, str, float | None]
SYSTEMS = {"a": 0.8, "b": 0.6, "c": 0.7}


class World:
    """Items with a truth and the answers of three systems; rows of judgements are made by the
    designs below.
    """

    def __init__(self, rng: Rng, n: int = 200, k: int = 5) -> None:
        self.rng, self.n, self.k = rng, n, k
        self.truth = rng.integers(k, size=n)
        wrong = [(self.truth + 1 + rng.integers(k - 1, size=n)) % k for _ in SYSTEMS]
        self.answers = [
            np.where(rng.random(n) < rate, self.truth, w)
            for rate, w in zip(SYSTEMS.values(), wrong, strict=True)
        ]

    def said(self, i: int, k: int) -> str:
        return "yes" if k == self.truth[i] else "no"

    def evidence(
        self, rows: Sequence[Row], *, at: bool = False, strata: Sequence[str] | None = None
    ) -> Evidence:
        answers = pl.DataFrame(
            {
                "item": list(range(self.n)) * len(SYSTEMS),
                "system": [s for s in SYSTEMS for _ in range(self.n)],
                "answer": np.concatenate(self.answers).tolist(),
            }
        )
        judgements: dict[str, list[Any]] = {
            "item": [r[0] for r in rows],
            "class": [int(r[1]) for r in rows],
            "verdict": [r[2] for r in rows],
        }
        if any(r[3] is not None for r in rows):
            judgements["propensity"] = [r[3] for r in rows]
        if at:
            judgements["at"] = list(range(len(rows)))
        items = (
            None
            if strata is None
            else pl.DataFrame({"item": list(range(self.n)), "stratum": list(strata)})
        )
        return Evidence.from_tables(
            answers=answers, judgements=pl.DataFrame(judgements), items=items, n_classes=self.k
        )


def uniform(world: World, *, m: int = 1, unsure: float = 0.0) -> Evidence:
    asked = [(i, k) for i in range(world.n) for k in world.rng.permutation(world.k)[:m].tolist()]
    return world.evidence(
        [
            (i, k, "unsure" if world.rng.random() < unsure else world.said(i, k), None)
            for i, k in asked
        ]
    )


def until_settled(world: World) -> Evidence:
    """Uniform questions without repeats, three at most, none after a yes."""
    rows: list[Row] = []
    for i in range(world.n):
        for k in world.rng.permutation(world.k)[:3].tolist():
            rows.append((i, k, world.said(i, k), None))
            if rows[-1][2] == "yes":
                break
    return world.evidence(rows)


def open_and_asked(world: World) -> Evidence:
    """Half of the items have an open label (say the class), half a uniform question with its
    propensity.
    """
    asked = [(i, int(world.rng.integers(world.k))) for i in range(world.n // 2)]
    rows: list[Row] = [(i, k, world.said(i, k), 1 / world.k) for i, k in asked]
    rows += [(i, int(world.truth[i]), "yes", None) for i in range(world.n // 2, world.n)]
    return world.evidence(rows)


def targeted(
    world: World,
    *,
    floor: float = 0.2,
    again: bool = False,
    at: bool = False,
    always: bool = False,
    unsure: Callable[[bool], float] | None = None,
) -> Evidence:
    """The answer of ``a`` is asked with probability 1 - floor + floor/K; ``again``: once more after
    a no.
    """
    rows: list[Row] = []
    for i in range(world.n):
        chances = np.full(world.k, floor / world.k)
        chances[world.answers[0][i]] += 1 - floor
        k = int(world.answers[0][i]) if always else int(world.rng.choice(world.k, p=chances))
        said = world.said(i, k)
        if unsure is not None and world.rng.random() < unsure(said == "yes"):
            said = "unsure"
        rows.append((i, k, said, float(chances[k])))
        other = int(world.rng.choice(world.k, p=chances))
        if again and said == "no" and other != k:
            rows.append((i, other, world.said(i, other), float(chances[other])))
    return world.evidence(rows, at=at)


def of_answers(world: World, *, systems: int) -> Evidence:
    """Judgements of the answers themselves, written down as if they were questions."""
    rows: list[Row] = []
    for i in range(world.n):
        given = dict.fromkeys(int(world.answers[s][i]) for s in range(systems))
        rows += [(i, k, world.said(i, k), None) for k in given]
    return world.evidence(rows)


HONEST: dict[str, Callable[[Rng], Evidence]] = {
    "uniform": lambda rng: uniform(World(rng)),
    "uniform with unsure": lambda rng: uniform(World(rng), unsure=0.2),
    "two uniform questions": lambda rng: uniform(World(rng), m=2),
    "until settled": lambda rng: until_settled(World(rng)),
    "open and asked": lambda rng: open_and_asked(World(rng)),
    "targeted": lambda rng: targeted(World(rng)),
    "targeted, ten classes": lambda rng: targeted(World(rng, n=150, k=10), floor=0.1),
    "targeted, again with time": lambda rng: targeted(World(rng), again=True, at=True),
}


def failures(
    make: Callable[[Rng], Evidence], worlds: int, seed: int = 8
) -> tuple[Counter[str], Counter[str]]:
    rng = np.random.default_rng(seed)
    failed: Counter[str] = Counter()
    seen: Counter[str] = Counter()
    for _ in range(worlds):
        for check in label_checks(make(rng)):
            seen[check.name] += 1
            failed[check.name] += not check.passed
    return failed, seen


@pytest.mark.thin(7)
@pytest.mark.parametrize("name", HONEST)
def test_honest_labels_keep_their_promise(name: str) -> None:
    """At 1e-3 for each of at most five checks, more than one alarm in 25 worlds happens with
    probability below 1 %.
    """
    failed, seen = failures(HONEST[name], 25)
    assert seen
    assert failed.total() <= 1


@pytest.mark.slow
@pytest.mark.parametrize("name", HONEST)
def test_honest_labels_keep_their_promise_in_many_worlds(name: str) -> None:
    """At 1e-3 for each check, more than 6 alarms in 1,000 worlds happen with probability below
    1e-4.
    """
    failed, _ = failures(HONEST[name], 1000)
    assert max(failed.values(), default=0) <= 6


@pytest.mark.parametrize("systems", [1, 3])
def test_judgements_made_of_the_answers_fail_the_hits(systems: int) -> None:
    failed, seen = failures(lambda rng: of_answers(World(rng, n=60), systems=systems), 20)
    assert failed["hits"] == seen["hits"] == 20


def test_answers_that_were_always_asked_fail_the_recorded_design() -> None:
    failed, _ = failures(lambda rng: targeted(World(rng, n=100), always=True), 10)
    assert failed["hits"] == failed["routing"] == 10


@pytest.mark.full
def test_ask_again_after_no_fails_without_a_time_and_only_then() -> None:
    failed, seen = failures(lambda rng: targeted(World(rng), again=True), 10)
    assert failed["number of questions"] == seen["number of questions"] == 10
    _, seen = failures(lambda rng: targeted(World(rng), again=True, at=True), 2)
    assert "number of questions" not in seen


@pytest.mark.full
def test_a_fixed_number_of_recorded_questions_passes() -> None:
    def twice(rng: Rng) -> Evidence:
        world = World(rng, n=120)
        chances = np.array([0.4, 0.3, 0.1, 0.1, 0.1])
        asked = [
            (i, int(rng.choice(5, p=chances))) for i in range(world.n) for _ in range(1 + i % 2)
        ]
        return world.evidence(
            list(dict.fromkeys((i, k, world.said(i, k), float(chances[k])) for i, k in asked))
        )

    failed, seen = failures(twice, 20)
    assert seen["number of questions"] == 20
    assert not failed["number of questions"]


def test_unsure_that_depends_on_the_truth_fails_and_leaves_the_design_alone() -> None:
    """Raters who are unsure of wrong classes make accuracy look better (8.2 f); the questions
    themselves were drawn as recorded.
    """
    failed, seen = failures(
        lambda rng: targeted(World(rng, n=600), unsure=lambda right: 0.02 if right else 0.5), 10
    )
    assert failed["missing verdicts"] == seen["missing verdicts"] == 10
    assert not failed["hits"]
    assert not failed["yes rate"]


def test_unsure_that_depends_on_the_stratum_fails() -> None:
    easy = AccuracyCounts.from_counts(n_classes=4, ordinary=(200, 150), stratum="easy")
    hard = AccuracyCounts.from_counts(n_classes=4, ordinary=(120, 60), stratum="hard")
    like = next(iter(hard.tallies))._replace(verdict="unsure", hit=False)
    counts = dataclasses.replace(easy + hard, tallies={**(easy + hard).tallies, like: 80})
    check = check_missing(counts)
    assert not check.passed
    assert "0 of 200 unsure with stratum 'easy', 4 classes, 80 of 400 in all" in check.finding


def test_overlap_leaves_recorded_designs_out() -> None:
    """Before, m/(K - 1) was compared with questions that were aimed at the answer, and honest labels
    failed.
    """
    world = World(np.random.default_rng(3), n=400)
    assert np.isnan(check_overlap(targeted(world, again=True)).p_value)


@pytest.mark.parametrize("seek", [True, False])
def test_overlap_finds_ruled_out_classes_that_seek_or_avoid_wrong_answers(seek: bool) -> None:
    world = World(np.random.default_rng(3), n=300)
    rows: list[Row] = []
    for i in range(world.n):
        truth, answer = int(world.truth[i]), int(world.answers[1][i])
        others = [k for k in range(world.k) if k != truth]
        chosen = answer if seek and answer != truth else next(k for k in others if k != answer)
        rows += [(i, truth, "yes", None), (i, chosen, "no", None)]
    check = check_overlap(world.evidence(rows), system="b")
    assert not check.passed


# ----------------------------------------------------------------------------------------------------
# whose promise a failure takes


def planted(rng: Rng) -> tuple[Check, ...]:
    return label_checks(of_answers(World(rng), systems=1))


def test_a_fault_of_one_system_takes_no_promise_from_another() -> None:
    checks = planted(np.random.default_rng(1))
    by_system = {name: {c.name: c.passed for c in checks_for(checks, name)} for name in SYSTEMS}
    assert not by_system["a"]["hits"]
    hits = next(c for c in checks if c.name == "hits")
    for name in SYSTEMS:
        own = next(c for c in checks_for(checks, name) if c.name == "hits")
        part = next(p for p in hits.parts if p["system"] == name)
        assert (own.p_value, own.finding, own.parts) == (part["p_value"], part["what"], (part,))


def test_checks_of_other_systems_are_not_counted() -> None:
    evidence = uniform(World(np.random.default_rng(1)))
    checks = label_checks(evidence, systems=["b"])
    assert {p["system"] for c in checks for p in c.parts if "system" in p} == {"b"}
    all_of_b = checks_for(label_checks(evidence), "b")
    assert [(c.name, c.p_value) for c in all_of_b] == [(c.name, c.p_value) for c in checks]


def strata_labelled_unevenly() -> AccuracyCounts:
    easy = AccuracyCounts.from_counts(
        n_classes=4, ordinary=(800, 720), n_items=2000, stratum="easy"
    )
    return easy + AccuracyCounts.from_counts(
        n_classes=4, ordinary=(200, 80), n_items=2000, stratum="hard"
    )


def test_label_rates_bear_on_comparisons_and_not_on_estimates() -> None:
    counts = strata_labelled_unevenly()
    checks = label_checks(counts)
    assert [c.name for c in checks if not c.passed] == ["label rates"]
    assert [c.name for c in checks_for(checks, "system")] == [
        c.name for c in checks if c.name != "label rates"
    ]
    assert for_comparison(checks) == checks
    assert (
        estimate_accuracy(counts, checks=checks_for(checks, "system")).guarantee.kind
        == Kind.FINITE_SAMPLE
    )
    before = Guarantee(kind=Kind.FINITE_SAMPLE, error_rate=0.05)
    assert before.given(*for_comparison(checks)).kind == Kind.HEURISTIC


def test_even_label_rates_pass_and_small_strata_are_simulated() -> None:
    from noracle import check_label_rates

    rng = np.random.default_rng(4)
    p_values = []
    for _ in range(60):
        drawn = rng.multivariate_hypergeometric([400, 30, 8], 60)
        parts = [
            AccuracyCounts.from_counts(
                n_classes=4, ordinary=(int(n), 0), n_items=size, stratum=f"s{size}"
            )
            for n, size in zip(drawn, (400, 30, 8), strict=True)
        ]
        p_values.append(check_label_rates(parts[0] + parts[1] + parts[2]).p_value)
    assert np.mean(np.array(p_values) < 0.05) <= 0.15
    assert np.mean(p_values) == pytest.approx(0.5, abs=0.15)


def test_known_error_rates_and_matrices_make_some_checks_moot() -> None:
    checks = label_checks(uniform(World(np.random.default_rng(1)), unsure=0.1))
    assert [c.name for c in checks_for(checks, "a")] == [
        "routing",
        "yes rate",
        "overlap",
        "hits",
        "missing verdicts",
    ]
    assert [c.name for c in checks_for(checks, "a", error_rates=True)] == [
        "routing",
        "hits",
        "missing verdicts",
    ]
    assert [c.name for c in checks_for(checks, "a", transition=True)] == ["missing verdicts"]


def test_every_check_speaks_of_the_assumption_in_the_table_and_only_some_prove() -> None:
    rng = np.random.default_rng(1)
    counts = strata_labelled_unevenly()
    found = [c for make in HONEST.values() for c in label_checks(make(rng))]
    found += [*label_checks(counts), *label_checks(targeted(World(rng), again=True))]
    items = {"item": list(range(40)), "cluster": [i // 5 for i in range(40)]}
    answers = {"item": list(range(40)), "system": ["a"] * 40, "answer": [i % 2 for i in range(40)]}
    known = {"item": list(range(40)), "class": [0] * 40, "verdict": ["yes"] * 40}
    clustered = Evidence.from_tables(answers, known, items, n_classes=2)
    found += label_checks(clustered, clusters="ignore", population="beyond")
    assert "clusters" not in [
        c.name for c in label_checks(clustered)
    ]  # there the cluster is the unit
    both = {
        "item": [*range(40)] * 2,
        "system": ["a"] * 40 + ["b"] * 40,
        "answer": [i % 2 for i in range(40)] + [0] * 40,
    }
    graded = {"item": list(range(20)), "system": ["a"] * 20, "verdict": ["right", "wrong"] * 10}
    found += label_checks(Evidence.from_tables(both, grades=graded))
    marked = {**both, "after_answers": [0] * 40 + [1] * 40}
    asked = {**known, "verdict": ["yes", "no"] * 20}
    late = Evidence.from_tables(marked, asked, n_classes=2)
    (upload,) = (c for c in label_checks(late) if c.name == "time of upload")
    assert not upload.passed
    assert upload.finding == "b: uploaded after answers"
    assert [len(checks_for([upload], name)) for name in ("a", "b")] == [0, 1]
    assert [c.name for c in label_checks(late, systems=["a"])].count("time of upload") == 0
    untold = "answers made without the verdicts"
    with_late = compare_systems(late).guarantee
    assert with_late.kind is Kind.HEURISTIC
    assert [a.status for a in with_late.assumptions if a.name == untold] == ["failed"]
    told = Evidence.from_tables(both, asked, n_classes=2)
    unchecked = compare_systems(told, checks="none").guarantee
    assert [a.status for a in unchecked.assumptions if a.name == untold] == ["assumed"]
    found.append(upload)
    assert {c.name for c in found} == set(POLICY)
    for check in found:
        assert check.assumption in POLICY[check.name].assumptions
        assert check.refutes_only == (not POLICY[check.name].proves)
        assert remedy(check)


def test_sets_have_no_question_to_look_at() -> None:
    wide = {
        "agent": [0, 1, 2, 1] * 20,
        "key": [0, None, 1, None] * 20,
        "not": [None, 2, None, 0] * 20,
    }
    evidence = Evidence.from_wide(
        wide, systems=["agent"], label="key", ruled_out="not", n_classes=3
    )
    assert evidence.protocol == "sets"
    assert [c.name for c in label_checks(evidence)] == ["overlap"]
    assert "hits" in [c.name for c in label_checks(evidence, protocol="question")]


def test_counts_alone_may_be_of_sets() -> None:
    """Published counts of two kinds of labels: 270 of 900 answers are met, which 1 in 4 would
    contradict if they were questions.
    """
    counts = AccuracyCounts.from_counts(n_classes=4, ordinary=(300, 210), complementary=(600, 540))
    assert [c.name for c in label_checks(counts)] == ["overlap"]
    assert [c.name for c in label_checks(counts, protocol="question")] == ["overlap", "hits"]


def test_hits_of_repeats_that_differ_are_not_selected() -> None:
    """An item whose repeats differ hits in part. Leaving such items out would leave misses only."""
    from noracle.counts import Cell, Tally

    def counts(n: int, hits: int) -> AccuracyCounts:
        met = {
            Tally("s", 4, "no", False, n_ruled_out=1): n - hits,
            Tally(
                "s", 4, "no", True, n_ruled_out=1, ruled_hit=True, hit_share=0.5, answered_share=1.0
            ): hits,
            Tally("s", 4, "yes", False): 1,
        }
        place = {Cell("s", 4): n + 1}
        return AccuracyCounts(tallies=met, items=place, answered=place)

    assert check_hits(
        counts(400, 200)
    ).passed  # half of the items hit by half: a quarter, as expected
    assert not check_hits(counts(400, 20)).passed
    assert not check_hits(counts(400, 390)).passed


# ------------------------------------------------------------------------------------- the same
# list in Python, shell and report


@pytest.mark.thin(7)
@pytest.mark.parametrize("case", CASES)
def test_python_command_line_and_report_run_the_same_checks(case: str, tmp_path: Path) -> None:
    from typer.testing import CliRunner

    from noracle.cli import app
    from noracle.oversight import oversee

    answers, judgements = tables(case)
    words = ["--n-classes", "4"]
    for name, columns in (("answers", answers), ("judgements", judgements)):
        if columns is not None:
            pl.DataFrame(columns).write_csv(tmp_path / f"{name}.csv")
            words += [f"--{name}", str(tmp_path / f"{name}.csv")]
    (tmp_path / "noracle.toml").write_text("n_classes = 4\n", encoding="utf-8")
    evidence = Evidence.from_tables(answers=answers, judgements=judgements, n_classes=4)
    in_python = [(c.name, c.p_value) for c in label_checks(evidence)]
    ended = CliRunner().invoke(app, ["check", *words, "--json"])
    results = json.loads(ended.stdout)["results"] if ended.stdout else []
    on_the_command_line = [(r["name"], r["p_value"]) for r in results if r["schema"] == "check/1"]
    report = oversee(tmp_path)
    step = next(s for s in report.steps if s.name == "checks")
    in_the_report = [
        (r.name, r.p_value)
        for r in step.results
        if isinstance(r, Check) and r.name != "sensitivity"
    ]
    nan_free = [
        [(n, None if p is None or p != p else p) for n, p in rows]
        for rows in (in_python, on_the_command_line, in_the_report)
    ]
    assert nan_free[0] == nan_free[1] == nan_free[2]
    assert in_python or case == "no labels"


@pytest.mark.thin(6)
@pytest.mark.parametrize("case", CASES)
def test_python_command_line_and_report_promise_the_same(case: str, tmp_path: Path) -> None:
    """Kind and assumptions with their status; the report shares its error rate over all its
    statements.
    """
    from typer.testing import CliRunner

    from noracle import compare_systems, estimate_accuracy
    from noracle.cli import app
    from noracle.oversight import oversee

    answers, judgements = tables(case)
    if answers is None or judgements is None:
        pytest.skip("an estimate needs answers and judgements")
    words = ["--n-classes", "4"]
    for name, columns in (("answers", answers), ("judgements", judgements)):
        pl.DataFrame(columns).write_csv(tmp_path / f"{name}.csv")
        words += [f"--{name}", str(tmp_path / f"{name}.csv")]
    (tmp_path / "noracle.toml").write_text("n_classes = 4\n", encoding="utf-8")
    evidence = Evidence.from_tables(answers=answers, judgements=judgements, n_classes=4)
    report = oversee(tmp_path)
    steps = {s.name: s for s in report.steps}
    systems = sorted({str(s) for s in answers["system"]})

    def promise(guarantee: dict[str, Any], interval: tuple[float | None, float | None]) -> Any:
        rests = sorted((a["name"], a["status"]) for a in guarantee["assumptions"])
        return guarantee["kind"], [
            r for r in rests if interval != (None, None) or r[0] != "verdicts missing at random"
        ]

    for system in systems:
        mine = estimate_accuracy(evidence, system=system).to_dict()
        ended = CliRunner().invoke(app, ["estimate", *words, "--system", system, "--json"])
        theirs = json.loads(ended.stdout)
        assert promise(mine["guarantee"], (0, 1)) == promise(theirs["guarantee"], (0, 1))
        for result in steps["accuracy"].results:
            if getattr(result, "subject", "") == system:
                assert promise(result.to_dict()["guarantee"], (None, None)) == promise(
                    mine["guarantee"], (None, None)
                )
    if len(systems) > 1 and steps["comparison"].results:
        mine = compare_systems(evidence).to_dict()
        ended = CliRunner().invoke(app, ["compare", *words, "--json"])
        assert promise(mine["guarantee"], (0, 1)) == promise(
            json.loads(ended.stdout)["guarantee"], (0, 1)
        )
        (result,) = steps["comparison"].results
        assert promise(result.to_dict()["guarantee"], (0, 1)) == promise(mine["guarantee"], (0, 1))


@pytest.mark.parametrize("case", CASES)
def test_estimates_of_all_systems_are_those_of_each(case: str) -> None:
    evidence = contracts.evidence(case)
    found = estimate_accuracies(evidence, confidence=0.9)
    assert list(found) == sorted(found)
    for name, estimate in found.items():
        alone = estimate_accuracy(evidence, system=name, confidence=0.9)
        assert estimate.subject == name
        assert (estimate.low, estimate.high) == pytest.approx((alone.low, alone.high), nan_ok=True)
        assert estimate.guarantee == alone.guarantee
        assert estimate.notes == alone.notes


def test_tables_are_counted_and_checked_once_for_all_systems(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import noracle.accuracy.estimate as module

    calls: Counter[str] = Counter()
    for name in ("count_accuracy", "label_checks"):
        inner = getattr(module, name)

        def counting(*args: Any, name: str = name, inner: Any = inner, **more: Any) -> Any:
            calls[name] += 1
            return inner(*args, **more)

        monkeypatch.setattr(module, name, counting)
    evidence = contracts.evidence()
    both = estimate_accuracies(evidence)
    assert calls == {"count_accuracy": 1, "label_checks": 1}
    assert list(estimate_accuracies(evidence, systems=["b", "a"])) == ["b", "a"]
    assert {"a", "b"} <= set(both)


def test_a_system_that_came_after_the_answers_promises_nothing_without_checks_either(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answers = {
        "item": [*range(40)] * 2,
        "system": ["a"] * 40 + ["b"] * 40,
        "answer": [i % 2 for i in range(40)] + [0] * 40,
        "after_answers": [0] * 40 + [1] * 40,
    }
    asked = {"item": list(range(40)), "class": [0, 1] * 20, "verdict": ["yes", "no"] * 20}
    evidence = Evidence.from_tables(answers, asked, n_classes=2)
    for checks in ("auto", "none"):
        kinds = [
            e.guarantee.kind.label
            for e in estimate_accuracies(evidence, checks=checks).values()  # type: ignore[arg-type]
        ]
        assert kinds[1] == "heuristic"
        assert compare_systems(evidence, checks=checks).guarantee.kind.label == "heuristic"  # type: ignore[arg-type]
    assert kinds[0] == "finite-sample"
    files = []
    for name, table in (("answers", answers), ("judgements", asked)):
        path = tmp_path / f"{name}.csv"
        rows = [",".join(map(str, row)) for row in zip(*table.values(), strict=True)]
        path.write_text("\n".join([",".join(table), *rows]) + "\n", encoding="utf-8")
        files += [f"--{name}", str(path)]
    line = ["estimate", *files, "--n-classes", "2", "--no-check", "--json"]
    assert run(line) == 0
    results = json.loads(capsys.readouterr().out)["results"]
    told = [r["guarantee"]["kind"] for r in results if r["schema"] == "estimate/1"]
    assert told == ["finite-sample", "heuristic"]
    assert run([*line, "--save-counts", str(tmp_path / "counts.json")]) == 2
    assert "came later" in capsys.readouterr().err
    assert not (tmp_path / "counts.json").exists()
