"""Labels that a design would have given for real answers with a key, and what they say beside the
key.
"""

from __future__ import annotations

import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from scipy.stats import binom

from noracle import AccuracyCounts, Evidence, estimate_accuracy
from noracle.cli import run
from noracle.cli._output import write_table
from noracle.errors import ArgumentError, EvidenceError
from noracle.simulate import Rehearsal, rehearse, simulate_world

N = 300


@pytest.fixture(scope="module")
def world() -> Any:
    return simulate_world(
        n_items=N, n_classes=[3, 5], systems={"a": 0.85, "b": 0.5}, no_answer=0.1, seed=4
    )


def key_of(world: Any, **more: Any) -> dict[str, list[Any]]:
    return {"item": list(world.key), "label": list(world.key.values()), **more}


def rehearsed(world: Any, **options: Any) -> Rehearsal:
    return rehearse(world.answers, key_of(world), items=world.items, **options)


DESIGNS: list[dict[str, Any]] = [
    {"protocol": "question"},
    {"protocol": "question", "unsure": 0.2},
    {"protocol": "question", "design": "targeted"},
    {"protocol": "complementary"},
    {"protocol": "complementary", "n_ordinary": 60, "n_ruled_out": 2, "unsure": 0.1},
    {"protocol": "question", "false_no": 0.2, "false_yes": 0.1},
]


@pytest.mark.parametrize("options", DESIGNS)
def test_estimates_are_those_of_the_labels_that_are_written(
    world: Any, options: dict[str, Any]
) -> None:
    rehearsal = rehearsed(world, n=200, seed=3, **options)
    evidence = Evidence.from_tables(world.answers, rehearsal.labels, world.items)
    protocol: Any = "question" if options["protocol"] == "question" else "sets"
    for estimate in rehearsal.estimates:
        found = estimate_accuracy(evidence, system=estimate.subject, protocol=protocol, seed=3)
        assert (found.value, found.low, found.high) == pytest.approx(
            (estimate.value, estimate.low, estimate.high), abs=1e-12
        )
        assert (found.method, found.interval, found.counts) == (
            estimate.method,
            estimate.interval,
            estimate.counts,
        )
        assert estimate.diagnostics["key"]["accuracy"] == pytest.approx(
            world.accuracy[estimate.subject]
        )


def test_grades_are_ordinary_labels_of_the_answers(world: Any) -> None:
    rehearsal = rehearsed(world, protocol="grades", n=120, seed=1)
    rows = list(zip(*rehearsal.labels.values(), strict=True))
    given = {(i, s): a for i, s, a in zip(*world.answers.values(), strict=True)}
    assert list(rehearsal.labels) == ["item", "system", "verdict"]
    assert len(rows) == 240
    assert all(
        verdict == ("right" if given[item, system] == world.key[item] else "wrong")
        for item, system, verdict in rows
    )
    for estimate in rehearsal.estimates:
        right = sum(verdict == "right" for _, system, verdict in rows if system == estimate.subject)
        graded = sum(
            given[item, system] is not None
            for item, system, _ in rows
            if system == estimate.subject
        )
        silent = sum(a is None for (_, s), a in given.items() if s == estimate.subject)
        plain = AccuracyCounts.from_counts(
            n_classes=5, ordinary=(graded, right), n_items=N, n_without_answer=silent
        )
        found = estimate_accuracy(plain)
        assert (found.value, found.low, found.high) == pytest.approx(
            (estimate.value, estimate.low, estimate.high)
        )


def test_complementary_labels_are_wrong_classes_and_as_many_as_asked(world: Any) -> None:
    labels = rehearsed(world, protocol="complementary", n=200, n_ordinary=50, n_ruled_out=2).labels
    rows = list(zip(*labels.values(), strict=True))
    assert all((world.key[item] == c) == (verdict == "yes") for item, c, verdict in rows)
    per_item = Counter(item for item, _, verdict in rows if verdict == "no")
    assert len(per_item) == 200
    assert set(per_item.values()) == {2}
    assert len({item for item, _, verdict in rows if verdict == "yes"}) == 50


def test_questions_and_wrong_verdicts_come_as_often_as_asked() -> None:
    big = simulate_world(n_items=6000, n_classes=4, systems={"a": 0.7}, seed=2)
    labels = rehearsed(big, false_no=0.3, false_yes=0.1, unsure=0.2).labels
    asked = Counter(labels["class"])
    assert all(abs(n - 1500) < 5 * (6000 * 3 / 16) ** 0.5 for n in asked.values())
    assert set(labels["propensity"]) == {0.25}
    said = Counter(
        (big.key[i] == c, v)
        for i, c, v in zip(labels["item"], labels["class"], labels["verdict"], strict=True)
    )
    true, false = (sum(n for (t, _), n in said.items() if t is truth) for truth in (True, False))
    for count, total, rate in (
        (said[True, "no"], true, 0.3 * 0.8),
        (said[False, "yes"], false, 0.1 * 0.8),
        (said[False, "unsure"], false, 0.2),
    ):
        assert abs(count - rate * total) < 5 * (rate * total) ** 0.5
    slips = rehearsed(big, protocol="complementary", false_no=0.25).labels
    wrong = sum(big.key[i] == c for i, c in zip(slips["item"], slips["class"], strict=True))
    assert abs(wrong - 1500) < 5 * 1500**0.5


@pytest.mark.parametrize(
    "options", [{"protocol": "question"}, {"protocol": "complementary"}, {"protocol": "grades"}]
)
def test_intervals_cover_the_key_as_often_as_promised(world: Any, options: dict[str, Any]) -> None:
    rehearsal = rehearsed(world, n=60, worlds=25, **options)
    for estimate in rehearsal.estimates:
        about = estimate.diagnostics["key"]
        assert rehearsal.coverage(estimate.subject) * 25 >= binom.ppf(0.001, 25, 0.95)
        assert 0 < about["mean_width"] < 0.99
        assert any(
            "in 25 rehearsals the interval covered what the key says" in note
            for note in estimate.notes
        )


def test_wrong_verdicts_that_nobody_knows_of_show_in_the_coverage() -> None:
    big = simulate_world(n_items=1500, n_classes=4, systems={"a": 0.9}, seed=2)
    rehearsal = rehearsed(big, protocol="grades", n=600, false_no=0.2, worlds=20)
    assert rehearsal.coverage("a") == 0.0
    assert "some verdicts are wrong" in rehearsal.notes[-1]


def test_the_seed_makes_the_same_labels_and_another_seed_does_not(world: Any) -> None:
    one, two, three = (rehearsed(world, n=100, seed=s).labels for s in (1, 1, 2))
    assert one == two
    assert one != three
    order = list(range(len(world.answers["item"])))[::-1]
    turned = {name: [column[i] for i in order] for name, column in world.answers.items()}
    assert rehearse(turned, key_of(world), items=world.items, n=100, seed=1).labels == one


# -------------------------------------------------------------------------------------------------------
# keys as people have them


@pytest.mark.parametrize(
    "name", ["label", "answer", "key", "truth", "target", "gold", "correct", "class"]
)
def test_the_column_of_the_key_has_many_names(name: str) -> None:
    rehearsal = rehearse(
        {"item": [1, 2], "system": ["a", "a"], "answer": [0, 1]},
        {"item": [1, 2], name: [0, 2]},
        n_classes=3,
    )
    assert rehearsal.accuracy == {"a": 0.5}


def plain_answers(answers: list[Any], items: list[Any] | None = None) -> dict[str, list[Any]]:
    return {
        "item": items or list(range(len(answers))),
        "system": ["a"] * len(answers),
        "answer": answers,
    }


@pytest.mark.parametrize(
    ("answers", "key", "options", "accuracy", "note"),
    [
        (
            [0, 1, 2],
            ["A", "b", "D"],
            {"n_classes": 4},
            2 / 3,
            "letters of the key are taken as places",
        ),
        ([0, 1, 2], ["0", "1", "3"], {"n_classes": 4}, 2 / 3, ""),
        (
            [0, 1, 2],
            [0.0, 1.0, float("nan")],
            {"n_classes": 4},
            1.0,
            "1 items of the answers have no key",
        ),
        (
            ["A", "B", "C"],
            [0, 1, 1],
            {"classes": ["A", "B", "C", "D"]},
            2 / 3,
            "places of the key are taken as letters",
        ),
        (["chat", "chien", "été"], ["chat", "chat", "été"], {}, 2 / 3, ""),
        ([0, None, 2], [0, 1, 2], {"n_classes": 3}, 2 / 3, ""),
        ([None, None, None], [0, 1, 2], {"n_classes": 3}, 0.0, ""),
        ([None, None, None], ["x", "y", "z"], {"classes": ["x", "y", "z"]}, 0.0, ""),
        ([True, False, True], [True, True, True], {}, 2 / 3, ""),
        ([1, 0, 1], [1, 3, 1], {}, 2 / 3, ""),  # the key shows a class that nobody answered
    ],
)
def test_keys_are_read_as_the_answers_are(
    answers: Any, key: Any, options: Any, accuracy: float, note: str
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rehearsal = rehearse(plain_answers(answers), {"item": [0, 1, 2], "label": key}, **options)
    assert rehearsal.accuracy["a"] == pytest.approx(accuracy)
    assert any(note in line for line in rehearsal.notes) or not note


def test_ids_that_differ_in_type_only_are_the_same() -> None:
    assert (
        rehearse(
            plain_answers([0, 1], [1, 2]), {"item": ["1", "2"], "label": [0, 1]}, n_classes=2
        ).accuracy["a"]
        == 1.0
    )
    assert (
        rehearse(
            plain_answers([0, 1], ["1", "2"]), {"item": [1, 2], "label": [0, 1]}, n_classes=2
        ).accuracy["a"]
        == 1.0
    )
    assert rehearse(plain_answers([0, 1]), {0: 0, 1: 0}, n_classes=2).accuracy["a"] == 0.5


def test_missing_keys_and_answers_are_counted() -> None:
    rehearsal = rehearse(
        plain_answers([0, 1, 1]), {"item": [1, 2, 7, 8], "label": [1, 0, 0, None]}, n_classes=2
    )
    assert rehearsal.counts == {"items": 2, "without_key": 1, "key_without_answers": 1}
    assert set(rehearsal.labels["item"]) == {1, 2}


def test_weights_and_strata_count_as_in_estimates() -> None:
    items = {"item": [0, 1, 2], "weight": [1.0, 1.0, 2.0], "stratum": ["x", "y", "y"]}
    rehearsal = rehearse(
        plain_answers([0, 1, 1]),
        {"item": [0, 1, 2], "label": [0, 1, 0]},
        items=items,
        n_classes=2,
        protocol="grades",
    )
    assert rehearsal.accuracy["a"] == rehearsal.estimates[0].value == 0.5
    assert rehearsal.estimates[0].diagnostics["key"]["covers"]


def test_one_item_and_repeats() -> None:
    answers = {"item": [1, 1], "system": ["a", "a"], "answer": [0, 1], "repeat": [1, 2]}
    rehearsal = rehearse(answers, {"item": [1], "label": [0]}, n_classes=2)
    assert rehearsal.accuracy == {"a": 1.0}
    assert rehearsal.notes == ("answers have repeats: the first run of each item is used",)


@pytest.mark.parametrize(
    ("key", "options", "message"),
    [
        ({"item": [0, 1], "label": [0, 9]}, {}, r"key must be one of the 3 classes; got \[9\]"),
        ({"item": [0, 1], "label": ["x y", "z"]}, {}, "key must be written as the answers are"),
        (
            {"item": [5, 6], "label": [0, 1]},
            {},
            "must have items of the answers; got none: answers have 0, 1, 2, the key has 5, 6",
        ),
        ({"item": [0, 1], "label": [None, None]}, {}, "the key has nothing"),
        ({"item": [0, 0], "label": [0, 1]}, {}, "key must name each item once"),
        ({"item": [0, 1], "label": [0, 1], "gold": [0, 1]}, {}, r"got label, gold in .*key-column"),
        ({"item": [0, 1], "right": [0, 1]}, {}, "must have a column item and one of label, answer"),
        ({"item": [0, 1], "right": [0, 1]}, {"key_column": "wrong"}, "the column wrong"),
        ({"question": [0, 1], "label": [0, 1]}, {}, "must have a column item"),
        ({"item": [0, 1], "label": [0, 1]}, {"n": 3}, "must be at most 2 together"),
        ({"item": [0, 1], "label": [0, 1]}, {"n": 0}, "must be at most 2 together"),
        (
            {"item": [0, 1], "label": [0, 1]},
            {"n_ordinary": 1},
            "must go with protocol='complementary'",
        ),
        (
            {"item": [0, 1], "label": [0, 1]},
            {"protocol": "complementary", "n_ruled_out": 3},
            r"n_ruled_out must be in \[1, 3\)",
        ),
        ({"item": [0, 1], "label": [0, 1]}, {"protocol": "vote"}, "protocol must be"),
        ({"item": [0, 1], "label": [0, 1]}, {"design": "targeted", "epsilon": 0.0}, "epsilon in"),
        (
            {"item": [0, 1], "label": [0, 1]},
            {"design": "targeted", "protocol": "grades"},
            "must go with protocol='question'",
        ),
        ({"item": [0, 1], "label": [0, 1]}, {"worlds": 0}, "worlds must be at least 1"),
        ({"item": [0, 1], "label": [0, 1]}, {"unsure": 1.5}, r"unsure must be in \[0, 1\]"),
        ({"item": [0, 1], "label": [0, 1]}, {"systems": ["b"]}, r"systems must be among \['a'\]"),
    ],
)
def test_mistakes_are_one_line(key: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises((ArgumentError, EvidenceError), match=message) as raised:
        rehearse(plain_answers([0, 1, 2]), key, n_classes=3, **options)
    assert "\n" not in str(raised.value)


# ------------------------------------------------------------------------------------------------------------------
# command line


@pytest.mark.parametrize(
    ("ending", "protocol"),
    [
        ("csv", "question"),
        ("jsonl", "complementary"),
        ("parquet", "complementary"),
        ("parquet", "grades"),
    ],
)
def test_the_command_writes_labels_that_estimate_reads(
    world: Any, tmp_path: Path, ending: str, protocol: str, capfd: pytest.CaptureFixture[str]
) -> None:
    write_table(tmp_path / "answers.csv", world.answers)
    write_table(tmp_path / "items.csv", world.items)
    write_table(tmp_path / "key.csv", {"item": list(world.key), "gold": list(world.key.values())})
    tables = ["--answers", str(tmp_path / "answers.csv"), "--items", str(tmp_path / "items.csv")]
    words = [
        "simulate",
        *tables,
        "--key",
        str(tmp_path / "key.csv"),
        "--protocol",
        protocol,
        "--n",
        "90",
        "--seed",
        "5",
    ]
    target = tmp_path / f"labels.{ending}"
    assert run([*words, "--out", str(target), "--worlds", "3"]) == 0
    told = capfd.readouterr().out
    assert f"the key says {world.accuracy['a']:.3f}: the interval" in told
    assert "in 3 rehearsals the interval covered" in told
    assert f"to {target}" in told
    labels = rehearsed(world, protocol=protocol, n=90, seed=5).labels
    if protocol != "grades":
        read = Evidence.from_tables(world.answers, str(target), world.items).rows(
            "judgements", *labels
        )
        assert read == list(zip(*labels.values(), strict=True))
    assert run([*words, "--out", str(tmp_path / "folder"), "--format", ending]) == 0
    name = "grades" if protocol == "grades" else "judgements"
    assert (tmp_path / "folder" / f"{name}.{ending}").read_bytes() == target.read_bytes()


@pytest.mark.parametrize(
    "line",
    [
        "simulate --answers {folder}/answers.csv",
        "simulate --key {folder}/key.csv",
        "simulate --answers {folder}/answers.csv --key {folder}/none.csv",
        "simulate --answers {folder}/answers.csv --key {folder}/key.csv --n-items 50",
        "simulate --answers {folder}/answers.csv --key {folder}/key.csv --system a=0.5",
        "simulate --answers {folder}/answers.csv --key {folder}/key.csv --n-classes 3,4",
        "simulate --answers {folder}/answers.csv --key {folder}/key.csv --n-classes 3 --n 99",
        "simulate --answers {folder}/answers.csv --key {folder}/key.csv --n-classes 3 --protocol vote",
        "simulate --answers {folder}/answers.csv --key {folder}/key.csv --n-classes 3 --key-column truth",
        "simulate --answers {folder}/answers.csv --key {folder}/key.csv --n-classes 3 --out {folder}/key.csv/x",
        "simulate --n 5 --out {folder}/w",
        "simulate --worlds 5 --out {folder}/w",
    ],
)
def test_wrong_use_is_one_line_and_exit_code_2(
    line: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    write_table(tmp_path / "answers.csv", plain_answers([0, 1, 2]))
    write_table(tmp_path / "key.csv", {"item": [0, 1, 2], "label": [0, 1, 1]})
    assert run(line.format(folder=tmp_path).split()) == 2
    heard = capfd.readouterr()
    assert heard.out == ""
    assert heard.err.strip()


# ---------------------------------------------------------------------------------------------------------------------
# real data


def test_mmlu_pro_answers_are_rehearsed_with_their_key(data_folder: Path) -> None:
    import duckdb

    file = str(data_folder / "mmlu_pro_predictions.parquet")
    rows = duckdb.sql(f"SELECT * FROM read_parquet('{file}') WHERE n_options >= 3 LIMIT 1500")
    names = rows.columns
    models = [name for name in names if name not in ("item", "category", "n_options", "answer")][:4]
    table = [dict(zip(names, row, strict=True)) for row in rows.fetchall()]
    answers: dict[str, list[Any]] = {"item": [], "system": [], "answer": []}
    for row in table:
        for model in models:
            for column, value in zip(
                answers.values(),
                (row["item"], model, None if row[model] < 0 else row[model]),
                strict=True,
            ):
                column.append(value)
    items = {
        name: [row[old] for row in table]
        for name, old in (("item", "item"), ("n_classes", "n_options"), ("stratum", "category"))
    }
    key = {"item": items["item"], "answer": [row["answer"] for row in table]}
    for protocol in ("question", "grades"):
        rehearsal = rehearse(answers, key, items=items, protocol=protocol, n=500, seed=1)  # type: ignore[arg-type]
        for estimate in rehearsal.estimates:
            wanted = sum(row[estimate.subject] == row["answer"] for row in table) / len(table)
            assert rehearsal.accuracy[estimate.subject] == pytest.approx(wanted)
            assert estimate.low <= wanted <= estimate.high
            assert estimate.width < 0.4
