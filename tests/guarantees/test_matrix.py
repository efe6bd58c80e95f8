"""The stored matrix of guarantees: all parts, enough settings, no promise broken, and figures that
come out the same again.
"""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
import json
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from noracle import Evidence, GuaranteeWarning, count_patterns, estimate_accuracy
from tests.guarantees.matrix import clustered, comparisons, logic, samples
from tests.guarantees.matrix.record import (
    FAMILY,
    PROMISED,
    Case,
    Seen,
    certain,
    judged,
    row_of,
    seeded,
)
from tests.guarantees.matrix.registry import PARTS, all_cases, code_of, digest
from tests.guarantees.measure import Row, excess_p_value
from tests.guarantees.worlds import World

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
STORED = BENCHMARKS / "guarantees.json"
AGAIN = 10


@pytest.fixture(scope="module")
def stored() -> dict[str, Any]:
    return json.loads(STORED.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def command() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "guarantees_command", BENCHMARKS / "guarantees.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# ----------------------------------------------------------------------------------------------------------
# what is stored


def test_matrix_has_2000_settings_over_all_parts(stored: dict[str, Any]) -> None:
    rows = stored["rows"]
    assert len({(r["part"], r["setting"]) for r in rows}) >= 2000
    assert list(stored["parts"]) == list(PARTS) == list(dict.fromkeys(r["part"] for r in rows))
    assert len({(r["part"], r["setting"], r["interval"], r["method"]) for r in rows}) == len(rows)
    assert {r["guarantee"] for r in rows} >= {"finite-sample", "logical", "asymptotic"}


def test_no_promise_is_broken_and_approximations_are_seen_to_fail(stored: dict[str, Any]) -> None:
    rows = stored["rows"]
    assert [r["significant"] for r in judged(rows)] == [r["significant"] for r in rows]
    assert [r for r in rows if r["significant"] and r["guarantee"] in PROMISED] == []
    assert all(r["coverage"] == 1 for r in rows if r["guarantee"] == "logical")
    assert sum(r["significant"] for r in rows if r["guarantee"] == "asymptotic") >= 20
    assert any(r["significant"] and r["coverage"] < 0.5 for r in rows)


def test_promised_rows_are_not_all_too_wide(stored: dict[str, Any]) -> None:
    """[0, 1] holds everywhere: in many settings with labels the intervals must be far narrower."""
    rows = [
        r
        for r in stored["rows"]
        if r["part"] == "accuracy" and r["guarantee"] == "finite-sample" and r["n"] >= 100
    ]
    assert np.median([r["width"] for r in rows]) < 0.35
    assert (
        max(
            r["width"]
            for r in rows
            if r["method"] == "ml" and r["interval"] == "exact" and "ordinary" in r["setting"]
        )
        < 0.25
    )


def test_matrix_has_the_ends(stored: dict[str, Any]) -> None:
    names = [r["setting"] for r in stored["rows"] if r["part"] == "accuracy"]
    for rate in ("0", "0.02", "0.5", "0.98", "1"):
        for k in (2, 4, 10, 100):
            for n in (1, 2, 10, 100, 2000):
                assert f"K={k} A={rate} n_c={n}, complementary" in names
    assert any("propensity 0.001" in r["setting"] for r in stored["rows"])
    assert any("of 0% answered" in r["setting"] for r in stored["rows"])


@pytest.mark.full
def test_rows_come_out_the_same_again(stored: dict[str, Any]) -> None:
    """Some cases, chosen at random among those that cost little, are measured again. If one fails,
    the table is out of date.
    """
    known = {(r["part"], r["setting"], r["interval"], r["method"]): r for r in stored["rows"]}
    cost: dict[tuple[str, str], float] = {}
    for r in stored["rows"]:
        cost[r["part"], r["setting"]] = cost.get((r["part"], r["setting"]), 0.0) + r["seconds"]
    cheap = [case for key, case in all_cases().items() if cost.get(key, np.inf) < 0.4]
    assert len(cheap) > 30
    assert len({case.part for case in cheap}) >= 6
    for place in np.random.default_rng(9).choice(len(cheap), size=AGAIN, replace=False):
        case = cheap[place]
        for row in case.measured(stored["parts"][case.part]["worlds"]):
            before, now = known[row.part, row.setting, row.interval, row.method], row.to_dict()
            for name in ("n", "worlds", "coverage", "nominal", "width", "guarantee"):
                assert (
                    now[name] == pytest.approx(before[name], abs=2e-4)
                    if isinstance(now[name], float)
                    else now[name] == before[name]
                ), (
                    f"{row.part}: {row.setting} has another {name}; run python benchmarks/guarantees.py"
                )


# -------------------------------------------------------------------------------------------------------
# the measurement


def row(
    misses: int, worlds: int = 1000, *, promise: str = "finite-sample", nominal: float = 0.95
) -> dict[str, Any]:
    seen = Seen(worlds=worlds, held=worlds - misses, promise=promise)
    return row_of(
        seen,
        part="accuracy",
        setting="s",
        method="m",
        interval="i",
        n=1,
        started=0.0,
        nominal=nominal,
    ).to_dict()


def test_a_row_fails_at_one_percent_over_all_drawn_rows() -> None:
    fine = [row(40) for _ in range(99)]
    worst = next(m for m in range(50, 200) if excess_p_value(m, 1000, 0.05) < FAMILY / 100)
    assert [r["significant"] for r in judged([*fine, row(worst)])] == [False] * 99 + [True]
    assert not any(r["significant"] for r in judged([*fine, row(worst - 1)]))
    # Approximations are a family of their own.
    assert judged([row(worst), *(row(500, promise="asymptotic") for _ in range(10_000))])[0][
        "significant"
    ]


def test_one_violation_of_a_logical_promise_fails() -> None:
    assert not judged([row(0, promise="logical", nominal=1.0)])[0]["significant"]
    assert judged([row(1, 10**6, promise="logical", nominal=1.0)])[0]["significant"]


def test_enumerated_coverage_fails_below_its_promise() -> None:
    made = Row(
        interval="i",
        method="m",
        setting="s",
        worlds=3,
        enumerated=True,
        coverage=0.9499,
        nominal=0.95,
        width=0.1,
        guarantee="finite-sample",
        p_value=0.0,
    )
    assert certain(made.to_dict())
    assert judged([made.to_dict()])[0]["significant"]
    assert made.to_dict()["z"] is None


def test_a_false_logical_statement_is_found_out() -> None:
    """The measurement can fail: ranges of another key's world do not contain the truth of this one."""
    setting = logic.Setting(classifiers=2, labels=2, items=10, known="some labels")
    rng = seeded("planted")
    worlds = [logic.draw(setting, rng) for _ in range(20)]
    turned = [dataclasses.replace(w, key=1 - w.key) for w in worlds]
    assert all(logic.ranges(w)[0] for w in worlds[:5])
    assert not all(logic.ranges(w)[0] for w in turned)


@pytest.mark.parametrize("labels", ["ordinary", "ruled out", "questions", "targeted"])
def test_worlds_of_several_systems_are_those_that_tables_give(labels: Any) -> None:
    """What a label can say is what is counted from tables of answers and judgements."""
    table = {(0, 1, -1): 0.4, (0, 0, 0): 0.2, (1, 2, 1): 0.4}
    contest = comparisons.Contest(name="x", k=5, table=table, labels=labels)
    answers: dict[str, list[Any]] = {"item": [], "system": [], "answer": []}
    judgements: dict[str, list[Any]] = {"item": [], "class": [], "verdict": [], "propensity": []}
    expected: Counter[Any] = Counter()
    for given in table:
        for asked, _, propensity in contest._asked(given):
            item = len(judgements["item"])
            for i, answer in enumerate(given):
                for name, value in (
                    ("item", item),
                    ("system", f"s{i}"),
                    ("answer", None if answer < 0 else answer),
                ):
                    answers[name].append(value)
            row = (item, 4 if asked == -2 else asked, "yes" if asked == 0 else "no", propensity)
            for name, value in zip(judgements, row, strict=True):
                judgements[name].append(value)
            expected[contest._pattern(given, asked, propensity)] += 1
    if labels != "targeted":
        del judgements["propensity"]
    found = count_patterns(Evidence.from_tables(answers, judgements, n_classes=5)).patterns

    def rounded(patterns: Any) -> Counter[Any]:
        def short(scores: Any) -> Any:
            return scores and tuple(round(v, 6) for v in scores)

        return Counter(
            {
                p._replace(yes_scores=short(p.yes_scores), no_scores=short(p.no_scores)): n
                for p, n in patterns.items()
            }
        )

    assert rounded(found) == rounded(expected)
    assert contest.truth.tolist() == pytest.approx([0.6, 0.2, 0.2])


UNEQUAL = (
    samples.part(4, 40, 0.9, stratum="a", labels=samples.QUESTIONS),
    samples.part(4, 60, 0.2, stratum="b", labels=samples.QUESTIONS),
)
DESIGNS: dict[str, World] = {
    "strata": samples.sampled(UNEQUAL, {"a": 20, "b": 4}),
    "beyond by stratum": samples.sampled(UNEQUAL, {"a": 20, "b": 4}, population="beyond", rest=200),
    "gaps beyond": samples.sampled(
        [samples.part(3, 50, 0.6, silent=0.4, labels=samples.RULED_OUT)],
        20,
        population="beyond",
        rest=30,
    ),
    "weights": samples.sampled(
        [samples.part(4, 50, 0.9), samples.part(4, 50, 0.1, weight=5.0)], 30
    ),
    "votes": samples.sampled(
        [
            samples.part(3, 60, a, labels=samples.Labels(aimed=1.0, propensity=p))
            for a, p in ((0.8, 0.9), (0.1, 1 / 3))
        ],
        40,
    ),
    "asked again": samples.sampled(
        [
            samples.Items(
                4, 50, 30, made=samples.asked(4, samples.POLICIES["again after no"], aim=0.5)
            )
        ],
        30,
    ),
    "until settled": samples.sampled(
        [
            samples.Items(
                5,
                50,
                30,
                made=samples.asked(5, samples.POLICIES["until settled, 3 at most"], aim=None),
            )
        ],
        30,
    ),
}


@pytest.mark.parametrize("name", DESIGNS)
def test_scores_of_a_designs_worlds_have_the_truth_as_their_mean(name: str) -> None:
    """The mean of unbiased estimates is the truth that intervals are compared with."""
    world, values = DESIGNS[name], []
    for key in world.draw(np.random.default_rng(7), 150).tolist():
        counts = world.build(tuple(key))
        assert sum(counts.tallies.values()) <= sum(counts.items.values())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", GuaranteeWarning)
            found = estimate_accuracy(
                counts, method="scores", interval="wald", checks="none", **world.options
            )
        values.append(found.value)
    assert abs(np.mean(values) - world.truth) < 4 * np.std(values) / np.sqrt(len(values))
    assert np.std(values) > 0


def test_enumerated_finite_populations_are_the_drawn_ones() -> None:
    world = samples.drawn(4, 7, 10, 4)
    assert world.every is not None
    chances = world.every()
    assert sum(chances.values()) == pytest.approx(1)
    seen = Counter(map(tuple, world.draw(np.random.default_rng(1), 4000).tolist()))
    for key in set(chances) | set(seen):
        assert abs(seen[key] / 4000 - chances.get(key, 0.0)) < 0.04
    assert sum(world.build((4, 0, 0)).tallies.values()) == 4


def test_worlds_of_clusters_have_their_truth() -> None:
    """Beyond, large clusters count for more; of a finite population the truth is that of its items."""
    beyond = clustered.Clusters(n=200, sizes=(1, 3, 8), accuracy=0.0, by_size=True)
    counts, truth = beyond.world(seeded("clusters"))
    assert truth == pytest.approx((8 / 9 + 3 * 6 / 9 + 8 * 1 / 9) / 12)
    assert abs(counts.total(hit=True) / sum(counts.tallies.values()) - truth) < 0.1
    counts, truth = dataclasses.replace(beyond, n=20, of=20).world(seeded("all"))
    assert truth == counts.total(hit=True) / sum(counts.tallies.values())


def test_digest_ignores_comments_and_docstrings(tmp_path: Path) -> None:
    one, two, three = tmp_path / "one.py", tmp_path / "two.py", tmp_path / "three.py"
    one.write_text('def f(x):\n    """Says."""\n    return x + 1\n')
    two.write_text("def f(x):\n    # else\n    return (x + 1)\n")
    three.write_text("def f(x):\n    return x + 2\n")
    assert code_of(one) == code_of(two) != code_of(three)
    assert len({digest("ceilings"), digest("logic")}) == 2


# ------------------------------------------------------------------------------------------------------------
# the command


@pytest.fixture
def toys(command: ModuleType, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Five cases of one part in place of all; the list says which were measured."""
    done: list[str] = []

    def make(name: str) -> Callable[[int], list[Row]]:
        def measured(worlds: int) -> list[Row]:
            done.append(name)
            seen = Seen(worlds=worlds, held=worlds, promise="finite-sample")
            return [
                row_of(
                    seen, part="ceilings", setting=name, method="m", interval="i", n=1, started=0.0
                )
            ]

        return measured

    cases = {
        ("ceilings", name): Case(part="ceilings", name=name, measured=make(name), quick=name == "a")
        for name in "abcde"
    }
    monkeypatch.setattr(command, "all_cases", lambda: cases)
    return done


def test_a_stopped_run_goes_on_and_a_finished_one_measures_nothing(
    command: ModuleType, toys: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "table.json"
    options: dict[str, Any] = {"jobs": 1, "out": out, "again": False}
    usual = command.measured

    def stopped(keys: Any, worlds: int, jobs: int) -> Iterator[Any]:
        yield from list(usual(keys[:2], worlds, jobs))
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "measured", stopped)
    with pytest.raises(KeyboardInterrupt):
        command.run(["ceilings"], worlds=20, **options)
    assert not out.exists()
    with command.journal_of(out).open("a") as file:
        file.write('{"part": "ceilings", "case": "c", "cut o')
    monkeypatch.setattr(command, "measured", usual)
    toys.clear()
    rows = command.run(["ceilings"], worlds=20, **options)
    assert toys == ["c", "d", "e"]
    assert [r["setting"] for r in rows] == ["a", "b", "c", "d", "e"]
    assert not command.journal_of(out).exists()
    toys.clear()
    assert command.run(["ceilings"], worlds=20, **options) == rows
    assert toys == []
    command.run(["ceilings"], worlds=30, **options)
    assert toys == ["a", "b", "c", "d", "e"]


def test_other_sources_are_measured_again_and_other_parts_are_kept(
    command: ModuleType, toys: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "table.json"
    options: dict[str, Any] = {"worlds": 20, "jobs": 1, "out": out, "again": False}
    command.run(["ceilings"], **options)
    data = json.loads(out.read_text())
    data["parts"]["logic"] = {"digest": "old", "worlds": 5}
    data["rows"].append({**data["rows"][0], "part": "logic"})
    out.write_text(json.dumps(data))
    command.journal_of(out).write_text('{"part": "logic", "case": "c"}\n')
    toys.clear()
    monkeypatch.setattr(command, "digest", lambda part: "new")
    rows = command.run(["ceilings"], **options)
    assert len(toys) == 5
    assert [line["part"] for line in command.read_journal(command.journal_of(out))] == ["logic"]
    assert [r["part"] for r in rows] == ["ceilings"] * 5 + ["logic"]
    assert command.summary(rows)["settings"] == 6


@pytest.mark.slow
def test_quick_matrix_breaks_no_promise(command: ModuleType) -> None:
    rows = command.run_quick(list(PARTS), worlds=200, jobs=1)
    assert {r["part"] for r in rows} == set(PARTS)
    found = command.summary(rows)
    assert found["promised_failures"] == 0
    assert found["settings"] >= 60


# -----------------------------------------------------------------------------------------------------------
# the docs page


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS.parent / "docs" / "_ext"))
    return importlib.import_module("guarantee_rows")


def test_page_sums_up_by_part_and_names_where_approximations_fail(page: ModuleType) -> None:
    good, bad = row(40), row(300, promise="asymptotic")
    rows = judged(
        [
            {**good, "setting": "<a>"},
            {**good, "part": "logic"},
            bad,
            {**bad, "setting": "worse", "coverage": 0.1},
        ]
    )
    lines = {line[0]: line[1:] for line in page.part_rows(rows)}
    assert lines["accuracy"] == ("3", "3", "+0.010", "0 of 1", "2 of 2", "0.100")
    assert lines["logic"] == ("1", "1", "+0.010", "0 of 1", "none", "none")
    assert lines["all"][:2] == ("4", "4")
    assert page.weak_rows(rows) == [("accuracy", "i", "m", "2", "2", "0.100", "worse")]
    text = page.details(rows)
    assert text.count("<details") == text.count("</details>") == 2
    assert text.count("<tr>") == 2 + 4
    assert "&lt;a&gt;" in text
    assert "accuracy: 3 settings, 3 rows, 2 fail" in text


def test_page_of_the_stored_table_is_small_enough(page: ModuleType) -> None:
    text = page.details(page.read_rows(STORED))
    assert len(text) < 1_500_000
    assert text.count("FAILS") == sum(r["significant"] for r in page.read_rows(STORED))
