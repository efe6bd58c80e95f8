"""States of missing answers, and items that were answered more than once."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from noracle import AccuracyCounts, Evidence, compare_systems, estimate_accuracy, race_systems
from noracle.accuracy import check_sensitivity, range_unsure
from noracle.counts import Counted, count_accuracy, count_decisions, count_evidence, count_patterns
from noracle.errors import ArgumentError, EvidenceError, EvidenceWarning

K = 4


def world(
    n: int, repeats: int, *, seed: int = 0, same: bool = False, silent: float = 0.1
) -> tuple[dict[str, list[Any]], dict[str, list[Any]]]:
    """Answers with repeats, and one complementary or ordinary label an item."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(K, size=n)
    given = rng.integers(K, size=(n, repeats))
    given = np.where(rng.random((n, repeats)) < 0.6, truth[:, None], given)
    none = rng.random((n, repeats)) < silent
    if same:
        given[:], none[:] = given[:, :1], none[:, :1]
    answers: dict[str, list[Any]] = {
        "item": [],
        "system": [],
        "answer": [],
        "state": [],
        "repeat": [],
    }
    for i in range(n):
        for r in range(repeats):
            values = (
                i,
                "a",
                None if none[i, r] else int(given[i, r]),
                "invalid" if none[i, r] else "answered",
                r,
            )
            for column, value in zip(answers.values(), values, strict=True):
                column.append(value)
    wrong = (truth + rng.integers(1, K, size=n)) % K
    ordinary = rng.random(n) < 0.2
    judgements = {
        "item": list(range(n)),
        "class": [int(t if o else w) for t, w, o in zip(truth, wrong, ordinary, strict=True)],
        "verdict": ["yes" if o else "no" for o in ordinary],
    }
    return answers, judgements


def first(answers: dict[str, list[Any]]) -> dict[str, list[Any]]:
    keep = [i for i, r in enumerate(answers["repeat"]) if r == 0]
    return {name: [column[i] for i in keep] for name, column in answers.items() if name != "repeat"}


def mean_of_scores(
    answers: dict[str, list[Any]], judgements: dict[str, list[Any]]
) -> dict[int, float]:
    label = {i: (c, v) for i, c, v in zip(*judgements.values(), strict=True)}
    scores: dict[int, list[float]] = {}
    for item, answer in zip(answers["item"], answers["answer"], strict=True):
        kind, verdict = label[item]
        hit = answer == kind
        scores.setdefault(item, []).append(
            0.0 if answer is None else float(hit) if verdict == "yes" else 1 - (K - 1) * hit
        )
    return {item: float(np.mean(s)) for item, s in scores.items()}


@pytest.mark.parametrize("method", [None, "ml", "scores"])
def test_identical_repeats_change_nothing(method: Any) -> None:
    answers, judgements = world(200, 4, same=True)
    four = estimate_accuracy(Evidence.from_tables(answers, judgements, n_classes=K), method=method)
    one = estimate_accuracy(
        Evidence.from_tables(first(answers), judgements, n_classes=K), method=method
    )
    assert abs(four.se - one.se) <= 1e-9
    assert (four.value, four.low, four.high, four.method) == (
        one.value,
        one.low,
        one.high,
        one.method,
    )


def test_different_repeats_are_averaged_within_their_item() -> None:
    answers, judgements = world(300, 3, seed=1)
    complementary = {
        name: [v for v, said in zip(column, judgements["verdict"], strict=True) if said == "no"]
        for name, column in judgements.items()
    }
    keep = set(complementary["item"])
    rows = [i for i, item in enumerate(answers["item"]) if item in keep]
    answers = {name: [column[i] for i in rows] for name, column in answers.items()}
    estimate = estimate_accuracy(Evidence.from_tables(answers, complementary, n_classes=K))
    scores = np.array(list(mean_of_scores(answers, complementary).values()))
    assert estimate.method == "scores"
    # items without any answer score 0 and are counted by their share
    assert estimate.value == pytest.approx(float(scores.mean()), abs=1e-12)
    plain = np.std(scores, ddof=1) / math.sqrt(len(scores))
    assert estimate.se == pytest.approx(plain, rel=0.02)
    assert estimate.counts["answers"] == len(answers["item"])
    assert estimate.counts["items"] == len(keep)
    assert any("mean of its repeats" in note for note in estimate.notes)


def test_repeats_are_not_taken_for_more_labels() -> None:
    answers, judgements = world(100, 5, seed=2, same=True)
    evidence = Evidence.from_tables(answers, judgements, n_classes=K)
    assert sum(count_accuracy(evidence).tallies.values()) == 100


@pytest.mark.slow
def test_estimate_of_repeats_covers_and_is_unbiased() -> None:
    misses, values = 0, []
    for seed in range(60):
        answers, judgements = world(80, 3, seed=100 + seed)
        estimate = estimate_accuracy(Evidence.from_tables(answers, judgements, n_classes=K))
        truth = 0.9 * (0.6 + 0.4 / K)
        misses += not estimate.low <= truth <= estimate.high
        values.append(estimate.value)
        assert estimate.width < 0.75
    assert misses <= 3
    assert abs(np.mean(values) - truth) < 4 * np.std(values) / math.sqrt(len(values))


def test_recorded_questions_with_repeats_keep_their_mean() -> None:
    answers, judgements = world(400, 2, seed=5, silent=0.3)
    rng = np.random.default_rng(0)
    asked = [0.4 if rng.random() < 0.5 else 0.2 for _ in judgements["item"]]
    evidence = Evidence.from_tables(answers, {**judgements, "propensity": asked}, n_classes=K)
    estimate = estimate_accuracy(evidence, guess=0.0)
    expected = []
    label = {i: (c, v, p) for i, c, v, p in zip(*judgements.values(), asked, strict=True)}
    by_item: dict[int, list[float]] = {}
    for item, answer in zip(answers["item"], answers["answer"], strict=True):
        kind, verdict, p = label[item]
        by_item.setdefault(item, []).append(
            (answer is not None and answer == kind and verdict == "yes") / p
        )
    expected = [float(np.mean(v)) for v in by_item.values()]
    assert estimate.value == pytest.approx(np.mean(expected), abs=1e-9)


@pytest.mark.parametrize(
    "options",
    [
        {"method": "ml"},
        {"method": "ordinary"},
        {"interval": "exact"},
        {"false_no": 0.1, "method": "ml"},
    ],
)
def test_methods_that_count_answers_refuse_repeats_that_differ(options: dict[str, Any]) -> None:
    answers, judgements = world(50, 3, seed=3)
    with pytest.raises(
        ArgumentError, match=r"method must be|interval must be|repeats of an item differ"
    ):
        estimate_accuracy(Evidence.from_tables(answers, judgements, n_classes=K), **options)


def test_other_verbs_refuse_or_say_that_they_use_the_first() -> None:
    answers, judgements = world(50, 3, seed=3)
    evidence = Evidence.from_tables(answers, judgements, n_classes=K)
    with pytest.raises(ArgumentError, match="one answer per item and system"):
        check_sensitivity(evidence, at_least=0.1)
    with pytest.raises(ArgumentError, match="one answer per item and system"):
        range_unsure(evidence)
    with pytest.raises(EvidenceError, match="must have one row for each item and system"):
        count_accuracy(evidence, by_class=True)
    with pytest.warns(EvidenceWarning, match="only the first"):
        count_decisions(evidence)


def test_one_repeat_of_each_is_no_repeat() -> None:
    answers, judgements = world(20, 1)
    evidence = Evidence.from_tables(answers, judgements, n_classes=K)
    assert evidence.repeats is None
    assert "repeat" not in evidence.answers.columns  # type: ignore[union-attr]


def test_a_repeat_given_twice_is_a_fault() -> None:
    answers = {"item": [1, 1, 2], "system": ["a"] * 3, "answer": [0, 1, 0], "repeat": [1, 1, 1]}
    with pytest.raises(
        EvidenceError,
        match="one row for each item and system and repeat; got repeated rows at item 1",
    ):
        Evidence.from_tables(answers, n_classes=2).check()


def test_counts_with_states_and_repeats_survive_json_and_add() -> None:
    answers, judgements = world(60, 2, seed=4)
    counts = count_accuracy(Evidence.from_tables(answers, judgements, n_classes=K))
    assert AccuracyCounts.from_dict(counts.to_dict()) == counts
    twice = counts + counts
    assert twice.states["a", "invalid"] == 2 * counts.states["a", "invalid"]
    assert twice.runs == {"a": 240}
    assert twice.of("a").summary()["answers"] == 240


@pytest.mark.parametrize("shares", [(0.5, None), (0.8, 0.5), (-0.1, 1.0), (0.5, 1.5)])
def test_impossible_shares_of_repeats_are_refused(
    shares: tuple[float | None, float | None],
) -> None:
    answers, judgements = world(20, 2, seed=4)
    data = count_accuracy(Evidence.from_tables(answers, judgements, n_classes=K)).to_dict()
    data["tallies"][0] |= {"hit_share": shares[0], "answered_share": shares[1]}
    with pytest.raises(EvidenceError, match="must be 0 <= hit_share <= answered_share <= 1"):
        AccuracyCounts.from_dict(data)


def test_states_are_counted_by_system() -> None:
    answers = {
        "item": [1, 2, 3, 1, 2, 3],
        "system": ["a"] * 3 + ["b"] * 3,
        "answer": [0, None, None, 1, None, 1],
        "state": ["answered", "errored", "refused", "answered", "invalid", "answered"],
    }
    judgements = {"item": [1, 2, 3], "class": [0, 1, 1], "verdict": ["yes", "no", "yes"]}
    evidence = Evidence.from_tables(answers, judgements, n_classes=3)
    estimates = {s: estimate_accuracy(evidence, system=s) for s in "ab"}
    assert estimates["a"].counts["states"] == {"errored": 1, "refused": 1}
    assert estimates["b"].counts["states"] == {"invalid": 1}
    for comparison in (compare_systems(evidence), race_systems(evidence)):
        assert "a: 2 without an answer (1 errored, 1 refused), counted as wrong" in comparison.notes
        assert "b: 1 without an answer (1 invalid), counted as wrong" in comparison.notes


@pytest.mark.parametrize(
    ("answer", "state"), [(None, "answered"), (1, "invalid"), (1, "lost"), (None, "lost")]
)
def test_states_that_contradict_the_answer_are_faults(answer: int | None, state: str) -> None:
    answers = {
        "item": [7, 8],
        "system": ["a", "a"],
        "answer": [answer, 0],
        "state": [state, "answered"],
    }
    with pytest.raises(EvidenceError, match=r"answers.state must be .* at item 7"):
        Evidence.from_tables(
            answers, {"item": [8], "class": [0], "verdict": ["yes"]}, n_classes=2
        ).check()
    with pytest.raises(EvidenceError, match=r"answers.state must be"):
        estimate_accuracy(
            Evidence.from_tables(
                answers, {"item": [8], "class": [0], "verdict": ["yes"]}, n_classes=2
            )
        )


def test_answers_without_states_count_as_before() -> None:
    answers = {"item": [1, 2], "system": ["a", "a"], "answer": [0, None]}
    judgements = {"item": [1], "class": [0], "verdict": ["yes"]}
    plain = estimate_accuracy(Evidence.from_tables(answers, judgements, n_classes=2))
    assert "states" not in plain.counts
    stated = estimate_accuracy(
        Evidence.from_tables({**answers, "state": [None, None]}, judgements, n_classes=2)
    )
    assert stated.counts == plain.counts


# ------------------------------------------------------------------------------------- mean, all
# and any, from all sources

ROWS = [
    # item, run, a, b: truth is class 1 for all items
    (1, 0, 1, 1),
    (1, 1, 1, 2),
    (2, 0, 1, 0),
    (2, 1, 0, 0),
    (3, 0, None, 1),
    (3, 1, 1, None),
    (4, 0, 2, 1),
    (4, 1, 2, 1),
]
RIGHT = {"mean": (0.5, 0.5), "all": (0.25, 0.25), "any": (0.75, 0.75)}


def rows_of(**more: Any) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {"item": [], "system": [], "answer": [], "repeat": []}
    for item, run, *answers in ROWS:
        for system, answer in zip("ab", answers, strict=True):
            for column, value in zip(found.values(), (item, system, answer, run), strict=True):
                column.append(value)
    return {**found, **more}


def written(kind: str, folder: Path) -> Any:
    table = rows_of()
    if kind == "dict":
        return table
    if kind == "text":
        return {
            **table,
            "item": [f"ü {i}" for i in table["item"]],
            "answer": [None if a is None else ["no", "yes", "maybe"][a] for a in table["answer"]],
        }
    if kind == "pandas":
        import pandas as pd

        return pd.DataFrame(table)
    if kind == "polars":
        import polars as pl

        return pl.DataFrame(table)
    from noracle.cli._output import write_table

    path = folder / f"answers.{kind}"
    write_table(path, table)
    return str(path)


@pytest.mark.thin(4)
@pytest.mark.parametrize("how", ["mean", "all", "any"])
@pytest.mark.parametrize("kind", ["dict", "text", "pandas", "polars", "csv", "jsonl", "parquet"])
def test_repeats_count_alike_on_every_engine(kind: str, how: Any, tmp_path: Path) -> None:
    answers = written(kind, tmp_path)
    judgements: Any = {"item": [1, 2, 3, 4], "class": [1] * 4, "verdict": ["yes"] * 4}
    if kind == "text":
        judgements = {
            "item": [f"ü {i}" for i in range(1, 5)],
            "class": ["yes"] * 4,
            "verdict": ["yes"] * 4,
        }
    if kind == "polars":
        import polars as pl

        judgements = pl.DataFrame(judgements)
    evidence = Evidence.from_tables(answers, judgements, n_classes=3)
    values = [estimate_accuracy(evidence, system=s, repeats=how).value for s in "ab"]
    assert values == pytest.approx(RIGHT[how])
    comparison = compare_systems(evidence, repeats=how, checks="none")
    assert comparison.difference("a", "b").value == pytest.approx(0.0, abs=1e-12)
    assert [r.value for r in comparison.ranks] == pytest.approx(RIGHT[how])
    assert race_systems(evidence, repeats=how, checks="none").leaders


def test_a_binary_item_has_an_exact_interval_and_a_mean_has_not() -> None:
    judgements = {"item": [1, 2, 3, 4], "class": [1] * 4, "verdict": ["yes"] * 4}
    evidence = Evidence.from_tables(rows_of(), judgements, n_classes=3)
    found = {
        how: estimate_accuracy(evidence, system="a", repeats=how, population="beyond")
        for how in ("mean", "all", "any")
    }  # type: ignore[arg-type]
    assert {how: e.interval for how, e in found.items()} == {
        "mean": "fixed-n",
        "all": "exact",
        "any": "exact",
    }
    assert {how: e.diagnostics.get("repeats") for how, e in found.items()} == {
        "mean": None,
        "all": "right every time (2 runs)",
        "any": "right at least once (2 runs)",
    }
    assert (found["any"].low, found["any"].high) == pytest.approx(
        (0.1941, 0.9937), abs=1e-4
    )  # 3 of 4
    assert {compare_systems(evidence, repeats=how).interval for how in ("all", "any")} == {"exact"}  # type: ignore[arg-type]
    assert compare_systems(evidence).interval == "fixed-n"
    assert "accuracy of 'a', right every time (2 runs)" in str(found["all"])


def test_which_method_is_used_depends_on_answers_and_never_on_labels() -> None:
    answers = {
        "item": [1, 1, 2, 2],
        "system": ["a"] * 4,
        "answer": [0, 1, 0, 0],
        "repeat": [1, 2, 1, 2],
    }
    methods = {
        estimate_accuracy(
            Evidence.from_tables(
                answers, {"item": [1], "class": [c], "verdict": ["yes"]}, n_classes=3
            )
        ).interval
        for c in range(3)
    }
    assert methods == {"fixed-n"}


def test_runs_that_differ_are_wrong_every_time_without_a_label() -> None:
    answers, judgements = world(300, 3, seed=9, silent=0.0)
    evidence = Evidence.from_tables(answers, judgements, n_classes=K).with_repeats("all")
    estimate = estimate_accuracy(evidence)
    runs = np.array(answers["answer"]).reshape(-1, 3)
    same = (runs == runs[:, :1]).all(axis=1)
    assert estimate.counts["not_the_same_every_time"] == int((~same).sum())
    assert estimate.high <= same.mean() + 1e-12
    assert estimate.interval == "exact"
    differ = {"item": [1, 1], "system": ["a", "a"], "answer": [0, 1], "repeat": [1, 2]}
    none = estimate_accuracy(
        Evidence.from_tables(differ, {"item": [1], "class": [0], "verdict": ["yes"]}, n_classes=3),
        repeats="all",
    )
    assert (none.value, none.high) == (0.0, 0.0)
    assert (
        "the system gave no item the same answer every time: every item counts as wrong"
        in none.notes
    )


def test_all_takes_error_rates_and_any_names_what_would_do() -> None:
    answers, judgements = world(60, 2, seed=3, silent=0.0)
    rng = np.random.default_rng(1)
    asked = [int(c) for c in rng.integers(K, size=60)]
    truth = {i: int(c) for i, c, v in zip(*judgements.values(), strict=True) if v == "yes"}
    questions = {
        "item": list(range(60)),
        "class": asked,
        "verdict": ["yes" if truth.get(i, 0) == c else "no" for i, c in enumerate(asked)],
    }
    evidence = Evidence.from_tables(answers, questions, n_classes=K)
    assert (
        estimate_accuracy(evidence, repeats="all", false_no=0.1, checks="none").interval == "exact"
    )
    for how in ("mean", "any"):
        with pytest.raises(ArgumentError, match="pass repeats='all'"):
            estimate_accuracy(
                evidence, repeats=how, false_no=0.1, method="scores", interval="fixed-n"
            )  # type: ignore[arg-type]


def test_counts_are_of_one_rule() -> None:
    judgements = {"item": [1, 2, 3, 4], "class": [1] * 4, "verdict": ["yes"] * 4}
    evidence = Evidence.from_tables(rows_of(), judgements, n_classes=3)
    counts = {how: count_accuracy(evidence.with_repeats(how)) for how in ("mean", "all", "any")}  # type: ignore[arg-type]
    for how, own in counts.items():
        assert AccuracyCounts.from_dict(own.to_dict()) == own
        assert (own + own).repeats == how
        assert estimate_accuracy(own, system="a").value == pytest.approx(RIGHT[how][0])
    assert counts["any"].most_answers == {"a": 2, "b": 2}
    once = count_accuracy(
        Evidence.from_tables({"item": [9], "system": ["a"], "answer": [0]}, n_classes=3)
    )
    assert (counts["all"] + once).when_right() == "right every time (1.9 runs on average)"
    with pytest.raises(EvidenceError, match="must take repeats in one way; got all and mean"):
        counts["mean"] + counts["all"]
    with pytest.raises(
        ArgumentError, match="repeats must be 'any', as these counts were made; got 'mean'"
    ):
        estimate_accuracy(counts["any"], system="a", repeats="mean")
    with pytest.raises(ArgumentError, match="repeats must be"):
        estimate_accuracy(evidence, system="a", repeats="most")  # type: ignore[arg-type]
    whole = count_evidence(evidence.with_repeats("any"), sketch=False)
    assert Counted.from_dict(whole.to_dict()) == whole


@pytest.mark.parametrize("name", ["epoch", "run", "sample", "attempt", "trial"])
def test_columns_that_number_runs_by_another_name_are_taken_with_a_note(name: str) -> None:
    table = rows_of()
    table[name] = table.pop("repeat")
    evidence = Evidence.from_tables(
        table, {"item": [1], "class": [1], "verdict": ["yes"]}, n_classes=3
    )
    assert f"column {name!r} of the answers numbers the runs of an item" in evidence.inferred
    assert estimate_accuracy(evidence, system="a").counts["answers"] == 8


def test_a_column_that_does_not_tell_rows_apart_numbers_no_runs() -> None:
    table = rows_of()
    table["run"] = [7] * len(table.pop("repeat"))
    judgements = {"item": [1], "class": [1], "verdict": ["yes"]}
    with pytest.raises(
        EvidenceError, match="Keep one row of each, or number the runs in a column repeat"
    ):
        estimate_accuracy(Evidence.from_tables(table, judgements, n_classes=3), system="a")
    once = {
        name: [v for v, r in zip(column, rows_of()["repeat"], strict=True) if r == 0]
        for name, column in table.items()
    }
    assert Evidence.from_tables(once, judgements, n_classes=3).inferred == ()


def test_epochs_of_a_log_are_used_by_estimate_and_compare() -> None:
    log = Path(__file__).parents[2] / "reference" / "logs" / "inspect-new-epochs.eval"
    judgements = {"item": [1, 2, 3, 4], "class": ["B", "A", "D", "A"], "verdict": ["yes"] * 4}
    evidence = Evidence.from_tables(log, judgements)
    found = {how: estimate_accuracy(evidence, repeats=how).value for how in ("mean", "all", "any")}  # type: ignore[arg-type]
    assert found["all"] <= found["mean"] <= found["any"]
    assert found["all"] < found["any"]


def test_logic_uses_the_first_run_and_says_so() -> None:
    evidence = Evidence.from_tables(rows_of(), n_classes=3)
    with pytest.warns(EvidenceWarning, match="only the first of each system and item is used here"):
        sketch = count_decisions(evidence.with_repeats("any"))
    firsts = {(i, s): a for i, s, a, r in zip(*rows_of().values(), strict=True) if r == 0}
    assert sketch.n_items == 4
    assert evidence.rows("answers", "item", "system", "answer") == [
        (i, s, a) for (i, s), a in firsts.items()
    ]


@pytest.mark.parametrize("verb", ["estimate", "compare", "race"])
def test_the_command_line_takes_repeats(verb: str, tmp_path: Path) -> None:
    from typer.testing import CliRunner

    from noracle.cli import app

    answers = written("csv", tmp_path)
    (tmp_path / "labels.csv").write_text(
        "item,class,verdict\n" + "".join(f"{i},1,yes\n" for i in range(1, 5))
    )
    words = [
        verb,
        "--answers",
        answers,
        "--judgements",
        str(tmp_path / "labels.csv"),
        "--n-classes",
        "3",
        "--repeats",
    ]
    for how, said in (
        ("all", "right every time (2 runs)"),
        ("any", "right at least once (2 runs)"),
    ):
        ended = CliRunner().invoke(app, [*words, how])
        assert ended.exit_code in (0, 3), ended.output
        assert said in ended.output
    assert CliRunner().invoke(app, [*words, "most"]).exit_code == 2


@pytest.mark.thin(4)
@pytest.mark.parametrize("how", ["mean", "all", "any"])
@pytest.mark.parametrize("recorded", [False, True])
def test_polars_counts_repeats_as_duckdb_does(how: Any, recorded: bool) -> None:
    import polars as pl

    answers, judgements = world(120, 3, seed=8, silent=0.2)
    both = {name: column * 2 for name, column in answers.items()}
    both["system"] = ["a"] * 360 + ["b"] * 360
    both["answer"] = answers["answer"] + answers["answer"][::-1]
    both["state"] = answers["state"] + answers["state"][::-1]
    if recorded:
        judgements["propensity"] = [0.4 if i % 3 else 0.2 for i in judgements["item"]]
    ours = Evidence.from_tables(both, judgements, n_classes=K).with_repeats(how)
    theirs = Evidence.from_tables(
        pl.DataFrame(both), pl.DataFrame(judgements), n_classes=K
    ).with_repeats(how)
    assert count_accuracy(ours) == count_accuracy(theirs)
    assert count_patterns(ours) == count_patterns(theirs)
    assert any(t.hit_share is not None for t in count_accuracy(ours).tallies) == (how != "all")


@pytest.mark.parametrize("how", ["mean", "all", "any"])
def test_a_report_says_how_repeats_count_and_with_which_command(how: Any, tmp_path: Path) -> None:
    from noracle.oversight import find_evidence, oversee

    written("csv", tmp_path)
    (tmp_path / "judgements.csv").write_text(
        "item,class,verdict\n" + "".join(f"{i},1,yes\n" for i in range(1, 5))
    )
    (tmp_path / "noracle.toml").write_text(f'n_classes = 3\nrepeats = "{how}"\n')
    report = oversee(find_evidence(tmp_path))
    text = str(report.to_dict())
    assert ("--repeats" in text) == (how != "mean")
    assert ("right every time (2 runs)" in text) == (how == "all")
    assert ("right at least once (2 runs)" in text) == (how == "any")
    assert (
        "only the first of each system and item is used here" in text
    )  # by what is proved from answers alone


@pytest.mark.parametrize("name", ["repeat", "epoch"])
def test_certificates_use_the_first_run_and_say_so(name: str) -> None:
    from noracle.counts import count_ratings
    from noracle.evidence import Ratings

    ratings = {
        "item": [1, 1, 2, 2, 3, 3, 4, 4],
        "rater": ["x", "y"] * 4,
        "label": [1, 1, 0, 1, 1, 1, 2, 1],
    }
    table = rows_of()
    table[name] = table.pop("repeat")
    with pytest.warns(EvidenceWarning, match="only the first of each system and item is used here"):
        found = count_ratings(Ratings.from_tables(ratings, table))
    once = {
        column: [v for v, r in zip(table[column], table[name], strict=True) if r == 0]
        for column in ("item", "system", "answer")
    }
    wanted = count_ratings(Ratings.from_tables(ratings, once))
    assert {s: a.tolist() for s, a in found.answers.items()} == {
        s: a.tolist() for s, a in wanted.answers.items()
    }


@pytest.mark.parametrize("how", ["mean", "all", "any"])
def test_partitions_with_repeats_add_up_also_from_a_store(how: Any, tmp_path: Path) -> None:
    from noracle.cli._output import write_table
    from noracle.counts import count_partitions, pair_partitions

    answers, judgements = world(60, 3, seed=6)
    for day, wanted in (("one", range(25)), ("two", range(25, 60))):
        for name, table in (("answers", answers), ("judgements", judgements)):
            rows = [i for i, item in enumerate(table["item"]) if item in wanted]
            write_table(
                tmp_path / f"{name}-{day}.csv",
                {c: [column[i] for i in rows] for c, column in table.items()},
            )
    parts = pair_partitions(str(tmp_path / "answers-*.csv"), str(tmp_path / "judgements-*.csv"))
    whole = count_evidence(
        Evidence.from_tables(answers, judgements, n_classes=K).with_repeats(how), sketch=False
    )
    options: dict[str, Any] = {
        "n_classes": K,
        "repeats": how,
        "sketch": False,
        "store": tmp_path / "store",
    }
    first, again = count_partitions(parts, **options), count_partitions(parts, **options)
    assert first == again == whole
    assert (len(first.reading.read), len(again.reading.known)) == (2, 2)


def test_the_mean_over_items_that_all_have_their_true_class_is_known() -> None:
    judgements: Any = {"item": [1, 2, 3, 4], "class": [1] * 4, "verdict": ["yes"] * 4}
    evidence = Evidence.from_tables(rows_of(), judgements, n_classes=3)
    found = estimate_accuracy(evidence, system="a")
    assert (found.low, found.value, found.high) == pytest.approx((0.5, 0.5, 0.5))
    assert any("every item has a label" in note for note in found.notes)
    assert estimate_accuracy(evidence, system="a", population="beyond").width > 0.5
    fewer = {name: column[:3] for name, column in judgements.items()}
    assert (
        estimate_accuracy(Evidence.from_tables(rows_of(), fewer, n_classes=3), system="a").width
        > 0.5
    )
    unsure = {**judgements, "verdict": ["yes"] * 3 + ["unsure"]}
    assert (
        estimate_accuracy(Evidence.from_tables(rows_of(), unsure, n_classes=3), system="a").width
        > 0.5
    )
