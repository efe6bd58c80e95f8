from __future__ import annotations

import json
import os
import random
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noracle.counts import (
    Counted,
    Partition,
    count_accuracy,
    count_decisions,
    count_evidence,
    count_judgements,
    count_partitions,
    count_patterns,
    count_ratings,
    pair_partitions,
    partitions,
)
from noracle.counts import partitions as partition_store
from noracle.counts.partitions import item_keys, key_of
from noracle.errors import ArgumentError, EvidenceError
from noracle.evidence import Evidence, Ratings
from tests.unit.counts.test_counting import timed, world
from tests.unit.evidence.backends import Columns, as_csv, as_parquet
from tests.unit.evidence.fixtures import Bring

pytestmark = pytest.mark.filterwarnings(
    "ignore:only [0-9]+ of [0-9]+ judged items:noracle.errors.EvidenceWarning"
)


def rows_where(table: Columns, keep: Iterable[Any]) -> Columns:
    wanted = set(keep)
    kept = [i for i, item in enumerate(table["item"]) if item in wanted]
    return {name: [values[i] for i in kept] for name, values in table.items()}


def split(tables: dict[str, Columns], n_parts: int, seed: int = 0) -> list[dict[str, Columns]]:
    """The tables by item; tables without rows are left out. Every part has a judged item with an
    answer: tables that share no item are refused.
    """
    draw = random.Random(seed)
    part_of = {item: draw.randrange(n_parts) for item in tables["items"]["item"]}
    answered = set(tables["answers"]["item"])
    shared = sorted(answered & set(tables["judgements"]["item"]))
    part_of |= {item: p for p, item in enumerate(draw.sample(shared, n_parts))}
    # A part in which no system answered has no sketch: its items go where somebody did.
    part_of |= {item: part_of[min(answered)] for item in part_of if item not in answered}
    parts = []
    for p in range(n_parts):
        mine = [item for item, where in part_of.items() if where == p]
        part = {name: rows_where(table, mine) for name, table in tables.items()}
        parts.append({name: table for name, table in part.items() if table["item"]})
    return [part for part in parts if "answers" in part or "judgements" in part]


def text_items(tables: dict[str, Columns]) -> dict[str, Columns]:
    return {
        name: {**table, "item": [f"item {i}" for i in table["item"]]}
        for name, table in tables.items()
    }


def write(folder: Path, name: str, item: int = 0, *, answer: int = 0, n: int = 3) -> Partition:
    """A small partition in two files: items ``item`` to ``item + n - 1``, all answered by one
    system and the first judged.
    """
    items = list(range(item, item + n))
    answers = as_csv(
        {"item": items, "system": ["a"] * n, "answer": [answer] * n}, f"answers-{name}", folder
    )
    judgements = as_csv(
        {"item": items[:1], "class": [0], "verdict": ["yes"]}, f"judgements-{name}", folder
    )
    return Partition(name=name, answers=(str(answers),), judgements=(str(judgements),))


def polars_evidence(tables: dict[str, Columns]) -> Evidence:
    """Polars plans small queries faster than DuckDB."""
    return Evidence.from_tables(**{name: pl.DataFrame(columns) for name, columns in tables.items()})


# ---------------------------------------------------------------- sums


@pytest.mark.thin(2)
@pytest.mark.parametrize("text", [False, True], ids=["whole items", "text items"])
@pytest.mark.parametrize(
    "seed", [0, pytest.param(1, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.slow)]
)
def test_partitions_count_what_one_count_of_everything_counts(seed: int, text: bool) -> None:
    tables = text_items(world(seed)) if text else world(seed)
    whole = count_evidence(Evidence.from_tables(**tables))
    parts = [polars_evidence(part) for part in split(tables, 4, seed)]
    assert count_partitions(parts) == whole
    assert Counted.total(count_evidence(part) for part in parts) == whole


@pytest.mark.full
@settings(max_examples=6, deadline=None)
@given(seed=st.integers(0, 10_000), n_parts=st.integers(1, 6), gone=st.booleans())
def test_sum_of_any_split_is_the_count_of_all(seed: int, n_parts: int, gone: bool) -> None:
    tables = world(seed, n=24)
    if gone:  # a system that answers early items only, so that some parts do not know it
        keep = [
            i
            for i, (item, s) in enumerate(
                zip(tables["answers"]["item"], tables["answers"]["system"], strict=True)
            )
            if s == "a" or item < 6
        ]
        tables["answers"] = {
            name: [values[i] for i in keep] for name, values in tables["answers"].items()
        }
    whole = count_evidence(polars_evidence(tables))
    recorded = whole.propensities == "recorded"
    parts = [
        count_evidence(polars_evidence(part), recorded=recorded)
        for part in split(tables, n_parts, seed)
    ]
    assert Counted.total(parts) == whole


@pytest.mark.full
def test_a_partition_whose_propensities_happen_to_be_uniform_is_counted_as_part_of_the_design() -> (
    None
):
    def day(first: int, propensity: float) -> Evidence:
        answers = {"item": [first, first + 1], "system": ["a", "a"], "answer": [0, 2]}
        judgements = {
            "item": [first, first],
            "class": [0, 1],
            "verdict": ["yes", "no"],
            "propensity": [propensity, 1 / 3],
        }
        return Evidence.from_tables(answers, judgements, n_classes=3)

    counted = count_partitions([day(1, 1 / 3), day(3, 0.5)])
    assert counted.accuracy is not None
    assert {t.design for t in counted.accuracy.tallies} == {"recorded"}
    assert sorted(t.yes_score or 0.0 for t in counted.accuracy.tallies) == [2.0, 3.0]
    with pytest.raises(EvidenceError, match="must have one design"):
        count_evidence(day(1, 1 / 3)) + count_evidence(day(3, 0.5))


@pytest.mark.full
def test_counted_together_is_counted_one_by_one() -> None:
    tables = world(5)
    counted = count_evidence(Evidence.from_tables(**tables))
    assert counted.accuracy == count_accuracy(Evidence.from_tables(**tables))
    assert counted.judgements == count_judgements(Evidence.from_tables(**tables))
    assert counted.patterns == count_patterns(Evidence.from_tables(**tables))
    assert counted.decisions == count_decisions(Evidence.from_tables(**tables))
    assert counted.answers_only == count_decisions(
        Evidence.from_tables(**tables), judgements="ignore"
    )


@pytest.mark.full
def test_parts_with_answers_or_judgements_alone_add() -> None:
    answers = {
        "item": [1, 2],
        "system": ["a", "a"],
        "answer": [0, None],
        "state": ["answered", "refused"],
    }
    judgements = {"item": [8, 8, 9], "class": [0, 0, 1], "verdict": ["no", "no", "yes"]}
    both = {
        "answers": {"item": [3], "system": ["a"], "answer": [1]},
        "judgements": {"item": [3], "class": [1], "verdict": ["yes"]},
    }
    parts = [
        Evidence.from_tables(answers, n_classes=3),
        Evidence.from_tables(judgements=judgements, n_classes=3),
        Evidence.from_tables(**both, n_classes=3),
    ]
    everything = Evidence.from_tables(
        {
            "item": [1, 2, 3],
            "system": ["a"] * 3,
            "answer": [0, None, 1],
            "state": ["answered", "refused", None],
        },
        {"item": [8, 8, 9, 3], "class": [0, 0, 1, 1], "verdict": ["no", "no", "yes", "yes"]},
        n_classes=3,
    )
    assert count_partitions(parts) == count_evidence(everything)


@pytest.mark.full
def test_conflicting_items_that_are_dropped_add() -> None:
    tables = world(3)
    for name, value in (
        ("item", 0),
        ("class", 0),
        ("verdict", "yes"),
        ("rater", "eve"),
        ("propensity", None),
    ):
        tables["judgements"][name] += [value, value if name != "verdict" else "no"]
    whole = count_evidence(Evidence.from_tables(**tables, conflicts="drop"))
    assert whole.accuracy is not None
    assert whole.accuracy.unused["contradictory items"] == 1
    assert (
        count_partitions([Evidence.from_tables(**p, conflicts="drop") for p in split(tables, 3)])
        == whole
    )


@pytest.mark.full
def test_counted_survives_json() -> None:
    counted = count_evidence(Evidence.from_tables(**world(4)))
    assert Counted.from_dict(json.loads(json.dumps(counted.to_dict(), allow_nan=False))) == counted
    with pytest.raises(EvidenceError, match=r"schema must be 'counted/1'; got 'counts/1'"):
        Counted.from_dict({"schema": "counts/1"})


@pytest.mark.thin(2)
def test_every_engine_counts_the_same(bring_anywhere: Bring) -> None:
    tables = timed(world(7))
    found = count_evidence(Evidence.from_tables(**bring_anywhere(tables)))
    assert found == count_evidence(Evidence.from_tables(**tables))


def test_ratings_count_the_same_on_every_engine(bring_anywhere: Bring) -> None:
    draw = random.Random(3)
    rows = [
        (i, rater, draw.choice(["cat", "dog", "owl"]))
        for i in range(30)
        for rater in ("ann", "bob", "eve")
        if draw.random() < 0.8
    ]
    ratings = {name: [row[k] for row in rows] for k, name in enumerate(("item", "rater", "label"))}
    answers = {
        "item": list(range(30)),
        "system": ["a"] * 30,
        "answer": [draw.choice(["cat", "dog", "owl", None]) for _ in range(30)],
    }
    wanted = count_ratings(Ratings.from_tables(ratings, answers)).to_dict()
    assert (
        count_ratings(
            Ratings.from_tables(**bring_anywhere({"ratings": ratings, "answers": answers}))
        ).to_dict()
        == wanted
    )


def test_rows_of_labels_are_worked_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from noracle.evidence import labels

    calls = []
    once = labels.once
    monkeypatch.setattr(labels, "once", lambda frame: calls.append(1) or once(frame))
    evidence = Evidence.from_tables(**world(2))
    count_evidence(evidence)
    count_judgements(evidence, by_rater=False)
    assert len(calls) == 1


# ---------------------------------------------------------------- no item in two partitions


@pytest.mark.parametrize("text", [False, True], ids=["whole items", "text items"])
@pytest.mark.parametrize("stored", [False, True], ids=["no store", "store"])
def test_item_in_two_partitions_is_refused_and_named(
    tmp_path: Path, text: bool, stored: bool
) -> None:
    named = (lambda i: f"q{i}") if text else (lambda i: i)
    parts = []
    for name, items in (("mon", [1, 2, 9]), ("tue", [3, 4]), ("wed", [4, 5])):
        path = as_parquet(
            {
                "item": [named(i) for i in items],
                "system": ["a"] * len(items),
                "answer": [0] * len(items),
            },
            name,
            tmp_path,
        )
        parts.append(Partition(name=name, answers=(str(path),)))
    store = tmp_path / "store" if stored else None
    count_partitions(parts[:2], n_classes=2, store=store)
    message = rf"partitions must have no item in common; got 'tue' and 'wed', which share 1 at item {named(4)}\. Split by item"
    with pytest.raises(EvidenceError, match=message):
        count_partitions(parts, n_classes=2, store=store)
    if stored:  # the overlap stays refused: what is known now was never found to be disjoint
        with pytest.raises(EvidenceError, match=message):
            count_partitions(parts, n_classes=2, store=store)


def test_item_judged_in_another_partition_than_answered_is_refused() -> None:
    first = Evidence.from_tables({"item": [1], "system": ["a"], "answer": [0]}, n_classes=2)
    second = Evidence.from_tables(
        judgements={"item": [1], "class": [0], "verdict": ["yes"]}, n_classes=2
    )
    with pytest.raises(EvidenceError, match="no item in common"):
        count_partitions([first, second])


def test_equal_keys_of_different_texts_are_no_overlap(monkeypatch: pytest.MonkeyPatch) -> None:
    from noracle.counts import partitions

    monkeypatch.setattr(partitions, "item_keys", lambda _: (np.array([7], dtype=np.uint64), "text"))
    monkeypatch.setattr("noracle.counts.partitions.key_of", lambda _: 7)
    day = {
        name: Evidence.from_tables({"item": [name], "system": ["a"], "answer": [0]}, n_classes=2)
        for name in ("x", "y")
    }
    counted = count_partitions(list(day.values()))
    assert counted.accuracy is not None
    assert sum(counted.accuracy.items.values()) == 2


def test_keys_are_the_same_on_every_engine(bring: Bring) -> None:
    tables = text_items(world(1, n=12))
    keys, kind = item_keys(Evidence.from_tables(**bring(tables)))
    assert kind == "text"
    assert keys.tolist() == sorted(key_of(item) for item in tables["items"]["item"])


def test_whole_and_text_items_do_not_mix() -> None:
    parts = [
        Evidence.from_tables({"item": [i], "system": ["a"], "answer": [0]}, n_classes=2)
        for i in (1, "1")
    ]
    with pytest.raises(
        EvidenceError,
        match=r"items must be whole numbers or text in all partitions; got text in 'partition 2' and whole in",
    ):
        count_partitions(parts)


def test_number_of_classes_is_never_inferred_from_a_partition(tmp_path: Path) -> None:
    with pytest.raises(
        EvidenceError, match=r"partition 'mon': n_classes must be given to count partitions"
    ):
        count_partitions([write(tmp_path, "mon")])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        inferred = Evidence.from_tables({"item": [1, 2], "system": ["a", "a"], "answer": [0, 1]})
    with pytest.raises(EvidenceError, match="n_classes must be given to count partitions"):
        count_partitions([inferred])


def test_arguments_are_checked(tmp_path: Path) -> None:
    part = write(tmp_path, "mon")
    with pytest.raises(ArgumentError, match="vanished must be 'drop' or 'keep'; got 'ignore'"):
        count_partitions([part], n_classes=2, vanished="ignore")  # type: ignore[arg-type]
    with pytest.raises(
        EvidenceError, match="partitions must have different names; got 'mon' twice"
    ):
        count_partitions([part, part], n_classes=2)
    with pytest.raises(EvidenceError, match="partitions must be at least one; got none"):
        count_partitions([], n_classes=2)
    with pytest.raises(
        EvidenceError, match="partitions must be local files to be kept in a store; got a URL"
    ):
        count_partitions(
            [Partition(name="x", answers=("s3://b/x.parquet",))],
            n_classes=2,
            store=tmp_path / "store",
        )


def test_faults_name_their_partition(tmp_path: Path) -> None:
    parts = [write(tmp_path, "mon"), write(tmp_path, "tue", 10, answer=7)]
    with pytest.raises(
        EvidenceError,
        match=r"partition 'tue': answers\.answer must be a class of its item; got none that is",
    ):
        count_partitions(parts, n_classes=2)


# ---------------------------------------------------------------- pairs


def test_files_are_paired_by_hive_keys_or_names() -> None:
    hive = pair_partitions(
        ["a/answers/day=2/x.parquet", "a/answers/day=1/x.parquet", "a/answers/day=1/y.parquet"],
        ["b/day=1/j.parquet", "b/day=2/j.parquet"],
    )
    assert [(p.name, len(p.answers), len(p.judgements)) for p in hive] == [
        ("day=1", 2, 1),
        ("day=2", 1, 1),
    ]
    named = pair_partitions(
        ["answers-mon.csv", "answers-tue.csv"], ["judgements-mon.csv", "judgements-tue.csv"]
    )
    assert [(p.name, p.judgements) for p in named] == [
        ("mon", ("judgements-mon.csv",)),
        ("tue", ("judgements-tue.csv",)),
    ]
    folders = pair_partitions(
        ["mon/answers.csv", "tue/answers.csv"],
        ["mon/judgements.csv"],
        ["mon/items.csv", "tue/items.csv"],
    )
    assert [p.name for p in folders] == ["mon", "tue"]


def test_files_that_do_not_pair_are_one_partition() -> None:
    (one,) = pair_partitions(["answers-mon.csv", "answers-tue.csv"], ["labels.csv"])
    assert one.answers == ("answers-mon.csv", "answers-tue.csv")
    assert one.judgements == ("labels.csv",)
    (shared,) = pair_partitions(["mon/answers.csv", "tue/answers.csv"], items=["mon/items.csv"])
    assert shared.items == ("mon/items.csv",)


# ---------------------------------------------------------------- the store


def counting(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of partitions in the order in which they are read."""
    from noracle.counts import partitions

    read: list[str] = []
    really = partitions._open
    monkeypatch.setattr(
        partitions, "_open", lambda part, **more: read.append(part.name) or really(part, **more)
    )
    return read


def test_known_partition_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = tmp_path / "store"
    parts = [write(tmp_path, "mon"), write(tmp_path, "tue", 10)]
    first = count_partitions(parts, n_classes=2, store=store)
    assert first.reading.read == ("mon", "tue")
    read = counting(monkeypatch)
    again = count_partitions(parts, n_classes=2, store=store)
    assert read == []
    assert again == first
    assert again.reading.known == ("mon", "tue")
    parts.append(write(tmp_path, "wed", 20))
    more = count_partitions(parts, n_classes=2, store=store)
    assert read == ["wed"]
    assert more == count_partitions(parts, n_classes=2)
    assert more.reading.line() == "3 partitions: 1 read, 2 known from before."


def test_changed_partition_is_noticed_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tmp_path / "store"
    parts = [write(tmp_path, "mon"), write(tmp_path, "tue", 10)]
    count_partitions(parts, n_classes=2, store=store)
    write(tmp_path, "tue", 10, answer=1)
    read = counting(monkeypatch)
    found = count_partitions(parts, n_classes=2, store=store)
    assert read == ["tue"]
    assert found.reading.changed == ("tue",)
    assert found == count_partitions(parts, n_classes=2)


def test_change_behind_an_old_time_is_noticed(tmp_path: Path) -> None:
    store = tmp_path / "store"
    part = write(tmp_path, "mon")
    path = Path(part.answers[0])
    before = path.stat()
    count_partitions([part], n_classes=2, store=store)
    write(tmp_path, "mon", answer=1)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_size == before.st_size
    assert count_partitions([part], n_classes=2, store=store).reading.changed == ("mon",)


@pytest.mark.parametrize("vanished", ["drop", "keep"])
def test_vanished_partition_is_named_and_dropped_or_kept(tmp_path: Path, vanished: Any) -> None:
    store = tmp_path / "store"
    parts = [write(tmp_path, "mon"), write(tmp_path, "tue", 10)]
    both = count_partitions(parts, n_classes=2, store=store)
    found = count_partitions(parts[1:], n_classes=2, store=store, vanished=vanished)
    assert found.reading.vanished == ("mon",)
    assert found == (both if vanished == "keep" else count_partitions(parts[1:], n_classes=2))
    if vanished == "drop":
        assert count_partitions(parts[1:], n_classes=2, store=store).reading.vanished == ()


def test_other_options_count_anew(tmp_path: Path) -> None:
    part, store = write(tmp_path, "mon"), tmp_path / "store"
    count_partitions([part], n_classes=2, store=store)
    found = count_partitions([part], n_classes=3, store=store)
    assert found.reading.read == ("mon",)
    assert found == count_partitions([part], n_classes=3)


@pytest.mark.thin(4)
@pytest.mark.parametrize(
    "step", [0, 2, 4, 6, *(pytest.param(s, marks=pytest.mark.slow) for s in (1, 3, 5))]
)
def test_run_that_is_stopped_while_writing_leaves_a_store_that_counts_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    store = tmp_path / "store"
    parts = [write(tmp_path, "mon"), write(tmp_path, "tue", 10)]
    count_partitions(parts[:1], n_classes=2, store=store)
    write(tmp_path, "mon", answer=1)
    expected = count_partitions(parts, n_classes=2)
    left = [step]

    def killed(_: int) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt

    monkeypatch.setattr(partition_store.os, "fsync", killed)
    with pytest.raises(KeyboardInterrupt):
        count_partitions(parts, n_classes=2, store=store)
    monkeypatch.undo()
    found = count_partitions(parts, n_classes=2, store=store)
    assert found == expected
    assert not list(store.glob(".*.tmp"))
    assert len(list(store.glob("*.npz"))) == 3


def test_folder_of_something_else_is_not_taken_for_a_store(tmp_path: Path) -> None:
    part = write(tmp_path, "mon")
    with pytest.raises(
        EvidenceError,
        match="store must be a new folder or one that this function made; got a folder with 'answers-mon",
    ):
        count_partitions([part], n_classes=2, store=tmp_path)


def test_broken_store_says_what_to_do(tmp_path: Path) -> None:
    part, store = write(tmp_path, "mon"), tmp_path / "store"
    count_partitions([part], n_classes=2, store=store)
    for file in store.glob("*.npz"):
        file.write_bytes(file.read_bytes()[:40])
    with pytest.raises(
        EvidenceError, match=r"store must hold whole files; got a broken .*Delete the folder"
    ):
        count_partitions([part], n_classes=2, store=store)
    (store / "index.json").write_text("{", encoding="utf-8")
    with pytest.raises(EvidenceError, match=r"store must hold a readable index.json"):
        count_partitions([part], n_classes=2, store=store)


# ---------------------------------------------------------------- lists and URLs


def test_lists_of_paths_are_one_table(tmp_path: Path) -> None:
    parts = [write(tmp_path, "mon"), write(tmp_path, "tue", 10)]
    answers, judgements = (
        [p for part in parts for p in part.answers],
        [p for part in parts for p in part.judgements],
    )
    whole = count_evidence(Evidence.from_tables(answers, judgements, n_classes=2))
    assert whole == count_partitions(parts, n_classes=2)
    assert (
        count_evidence(
            Evidence.from_tables([tmp_path / "answers-*.csv"], tuple(judgements), n_classes=2)
        )
        == whole
    )


def test_lists_of_different_kinds_of_files_are_refused(tmp_path: Path) -> None:
    write(tmp_path, "mon")
    other = as_parquet({"item": [9], "system": ["a"], "answer": [0]}, "answers", tmp_path)
    with pytest.raises(EvidenceError, match="answers must be files of one kind"):
        Evidence.from_tables([tmp_path / "answers-mon.csv", other], n_classes=2)


def test_file_url_is_read(tmp_path: Path) -> None:
    path = as_parquet({"item": [9], "system": ["a"], "answer": [0]}, "answers", tmp_path)
    assert count_evidence(Evidence.from_tables(f"file://{path}", n_classes=2)) == count_evidence(
        Evidence.from_tables(path, n_classes=2)
    )


@pytest.mark.parametrize(
    "url",
    [
        "s3://b/a.parquet",
        "gs://b/day=*/a.parquet",
        "https://example.org/a.parquet?v=1",
        "abfs://c/a.parquet",
    ],
)
def test_urls_reach_the_engine_untouched(url: str) -> None:
    from noracle.evidence import frames as files

    asked: list[str] = []

    def run(query: str) -> Any:
        asked.append(query)

    files.scan(url, "answers", run)
    assert f"'{url}'" in asked[0]


def test_missing_extension_says_what_to_install() -> None:
    from noracle.evidence.frames import unreadable

    text = "An error occurred while trying to automatically install the required extension 'httpfs': Failed to download extension"
    message = str(unreadable(RuntimeError(text), "answers file 's3://b/a.parquet'"))
    assert message.startswith(
        "answers file 's3://b/a.parquet' must be readable; got a place that needs DuckDB's extension 'httpfs'"
    )
    assert "INSTALL httpfs" in message


# ---------------------------------------------------------------- many new partitions at once


@pytest.fixture
def parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Partition]:
    """Four partitions, where three are many."""
    monkeypatch.setattr(partitions, "_MANY", 3)
    return [write(tmp_path, f"day{i}", 10 * i, answer=i % 2) for i in range(4)]


def as_one(parts: list[Partition]) -> Counted:
    named = {part.name: part for part in parts}
    return count_partitions([partitions._joined(named, list(named))], n_classes=2)


def test_many_new_partitions_are_counted_together(tmp_path: Path, parts: list[Partition]) -> None:
    store = tmp_path / "store"
    found = count_partitions(parts, n_classes=2, store=store)
    assert found == as_one(parts)
    assert len(found.reading.read) == 4
    assert len(list(store.glob("*.npz"))) == 2  # the counts of all of them, and their sum
    parts.append(write(tmp_path, "last", 500))
    more = count_partitions(parts, n_classes=2, store=store)
    assert more == as_one(parts)
    assert more.reading.read == ("last",)
    parts.append(write(tmp_path, "again", 30))
    with pytest.raises(EvidenceError, match="'again' and 'day3', which share 3"):
        count_partitions(parts, n_classes=2, store=store)


@pytest.mark.thin(2)
@pytest.mark.parametrize("gone", [False, True])
@pytest.mark.parametrize("step", [0, pytest.param(1, marks=pytest.mark.slow), 2])
def test_a_change_among_partitions_that_were_counted_together(
    tmp_path: Path,
    parts: list[Partition],
    monkeypatch: pytest.MonkeyPatch,
    step: int,
    gone: bool,
) -> None:
    """Those beside it are read again, also by a run after one that was stopped."""
    monkeypatch.setattr(partitions, "_TOGETHER", 2)
    store = tmp_path / "store"
    count_partitions(parts, n_classes=2, store=store)
    if gone:
        del parts[0]
    else:
        write(tmp_path, "day0", answer=1)
    left = [step]

    def killed(_: int) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(partition_store.os, "fsync", killed)
        with pytest.raises(KeyboardInterrupt):
            count_partitions(parts, n_classes=2, store=store)
    found = count_partitions(parts, n_classes=2, store=store)
    assert found == as_one(parts)
    assert {"day2", "day3"} <= set(found.reading.known)
    known = count_partitions(parts, n_classes=2, store=store)
    assert known.reading.read == ()
    assert known == found


def test_partitions_that_are_gone_cannot_be_told_from_those_beside_them(
    tmp_path: Path, parts: list[Partition]
) -> None:
    store = tmp_path / "store"
    whole = count_partitions(parts, n_classes=2, store=store)
    left = parts[1:]
    assert count_partitions(left, n_classes=2, store=store, vanished="keep") == whole
    write(tmp_path, "day2", 20, answer=1)
    with pytest.raises(EvidenceError, match="'day0' counted together with others"):
        count_partitions(left, n_classes=2, store=store, vanished="keep")
    found = count_partitions(left, n_classes=2, store=store)
    assert found == as_one(left)


def test_a_fault_among_many_new_partitions_names_its_own(
    tmp_path: Path, parts: list[Partition]
) -> None:
    parts = [*parts, write(tmp_path, "bad", 900, answer=1)]
    path = Path(parts[-1].judgements[0])
    path.write_text(path.read_text(encoding="utf-8").replace("yes", "perhaps"), encoding="utf-8")
    with pytest.raises(EvidenceError, match=r"partition 'bad': judgements\.verdict must be yes"):
        count_partitions(parts, n_classes=2, store=tmp_path / "store")
