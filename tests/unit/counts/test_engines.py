"""Engines that people already run: Ibis, SQLFrame, PySpark and Spark Connect count what DuckDB
counts, and SQL for other warehouses.
"""

from __future__ import annotations

import dataclasses
import importlib
import os
import random
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import noracle.counts
from noracle.accuracy.check import check_questions
from noracle.counts import (
    answer_table,
    count_accuracy,
    count_decisions,
    count_evidence,
    count_judgements,
    count_partitions,
    count_patterns,
    count_ratings,
    label_rows,
)
from noracle.counts.partitions import item_keys
from noracle.errors import EvidenceError, EvidenceWarning
from noracle.evidence import Evidence, Ratings
from tests.unit.counts.test_counting import timed, without, world
from tests.unit.evidence.backends import Columns, as_ibis, as_relations, as_spark, as_sqlframe

Tables = dict[str, Columns]
Open = Callable[[Mapping[str, Any]], Any]

ENGINES = {"ibis": as_ibis, "sqlframe": as_sqlframe}

pytestmark = [
    pytest.mark.full,
    # Ibis and SQLFrame call what newer releases of DuckDB and pandas have other names for.
    pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:ibis"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:sqlframe"),
]


# ---------------------------------------------------------------- evidence of several shapes


def uniform(seed: int) -> Tables:
    """One question for each item, clusters, guesses."""
    draw = random.Random(seed)
    tables = world(seed, one_each=True, n=40)
    tables["judgements"] = without(tables["judgements"], "propensity")
    tables["items"] = {
        **tables["items"],
        "cluster": [draw.choice(["p", "q", "r s", None]) for _ in tables["items"]["item"]],
    }
    tables["answers"] = {
        **tables["answers"],
        "state": [None if a is not None else "refused" for a in tables["answers"]["answer"]],
    }
    return timed(tables)


def guessed(seed: int) -> Tables:
    """One question with a recorded propensity for each item, and guesses of correctness."""
    draw = random.Random(seed)
    tables = world(seed, one_each=True, n=40)
    tables["answers"] = {
        **tables["answers"],
        "guess": [round(draw.random(), 2) for _ in tables["answers"]["item"]],
    }
    return timed(tables)


def several(seed: int) -> Tables:
    """Several questions for an item, with propensities, strata and weights."""
    return timed(world(seed, n=40))


def aimed(seed: int) -> Tables:
    """Questions that were aimed at the answers, so that the chance of every answer is known."""
    draw = random.Random(seed)
    answers: Columns = {"item": [], "system": [], "answer": []}
    judgements: Columns = {"item": [], "class": [], "verdict": [], "propensity": [], "at": []}
    for i in range(40):
        given = [draw.randrange(4) for _ in range(3)]
        for system, answer in zip("abc", given, strict=True):
            for column, value in zip(answers.values(), (i, system, answer), strict=True):
                column.append(value)
        asked = draw.choice(given) if draw.random() < 0.75 else draw.randrange(4)
        share = 0.75 * given.count(asked) / 3 + 0.25 / 4
        for column, value in zip(
            judgements.values(), (i, asked, draw.choice(["yes", "no"]), share, i), strict=True
        ):
            column.append(value)
    return {"answers": answers, "judgements": judgements}


def contradictory(seed: int) -> Tables:
    """Classes and items of text in several scripts, raters who contradict each other, and items
    that nobody knows.
    """
    draw = random.Random(seed)
    names = ["Straße", "a'b", 'q"t', "日本"]
    tables = {
        "answers": {"item": [], "system": [], "answer": []},
        "judgements": {"item": [], "class": [], "verdict": [], "rater": []},
    }
    for i in range(30):
        for system in ("x y", "ÿ"):
            row = (f"item-{i}'", system, draw.choice([*names, None]))
            for column, value in zip(tables["answers"].values(), row, strict=True):
                column.append(value)
        for _ in range(draw.randrange(4)):
            said = (
                f"item-{i}'",
                draw.choice(names),
                draw.choice(["yes", "No", "TRUE", "unsure"]),
                draw.choice(["ann", "bob"]),
            )
            for column, value in zip(tables["judgements"].values(), said, strict=True):
                column.append(value)
    return timed(tables)


def repeated(seed: int) -> Tables:
    """Systems that answered an item more than once."""
    draw = random.Random(seed)
    tables = uniform(seed)
    answers: Columns = {"item": [], "system": [], "answer": [], "repeat": []}
    for item, system, answer in zip(
        *(tables["answers"][c] for c in ("item", "system", "answer")), strict=True
    ):
        for repeat in range(draw.choice([1, 2, 3])):
            for column, value in zip(
                answers.values(), (item, system, answer if repeat == 0 else 0, repeat), strict=True
            ):
                column.append(value)
    return {**tables, "answers": answers}


def wide(seed: int) -> Tables:
    """One column for each system, beside a label and a class that is ruled out."""
    draw = random.Random(seed)
    rows = [
        (
            i,
            draw.choice([0, 1, 2, None]),
            draw.choice([0, 1, 2, None]),
            *draw.sample([0, 1, 2, None], 2),
        )
        for i in range(40)
    ]
    return {
        "table": dict(
            zip(("q", "a", "b", "key", "never"), map(list, zip(*rows, strict=True)), strict=True)
        )
    }


def rated(seed: int) -> Tables:
    """Ratings by several raters, some missing, with times, and answers beside them."""
    draw = random.Random(seed)
    ratings: Columns = {"item": [], "rater": [], "label": [], "at": []}
    for i in range(30):
        for rater in ("ann", "bob", "cy d"):
            if draw.random() < 0.8:
                for column, value in zip(
                    ratings.values(),
                    (i, rater, draw.choice([*"xyz", None]), len(ratings["at"])),
                    strict=True,
                ):
                    column.append(value)
    answers = {
        "item": list(range(35)) * 2,
        "system": ["a"] * 35 + ["b"] * 35,
        "answer": [draw.choice([*"xyz", None]) for _ in range(70)],
    }
    return {"ratings": ratings, "answers": answers}


def rated_wide(seed: int) -> Tables:
    """One column for each rater and system."""
    draw = random.Random(seed)
    return {
        "table": {
            "q": list(range(25)),
            **{
                c: [draw.choice([*"xyz", None]) for _ in range(25)] for c in ("ann", "bob", "agent")
            },
        }
    }


def voted(seed: int) -> Tables:
    """Votes of unknown raters."""
    draw = random.Random(seed)
    pairs = [(i, label, draw.randrange(4)) for i in range(25) for label in "xyz"]
    return {
        "table": dict(zip(("item", "label", "n"), map(list, zip(*pairs, strict=True)), strict=True))
    }


def scored(seed: int) -> Tables:
    """Scores of raters, to be cut into labels."""
    draw = random.Random(seed)
    pairs = [(i, rater, draw.random(), i) for i in range(25) for rater in ("ann", "bob", "cy")]
    return {
        "table": dict(
            zip(("item", "rater", "value", "at"), map(list, zip(*pairs, strict=True)), strict=True)
        )
    }


def many_labels(seed: int) -> Tables:
    """More labels than are counted by one column each."""
    draw = random.Random(seed)
    pairs = [
        (i, rater, f"label {draw.randrange(90)}") for i in range(120) for rater in ("ann", "bob")
    ]
    return {
        "ratings": dict(
            zip(("item", "rater", "label"), map(list, zip(*pairs, strict=True)), strict=True)
        )
    }


# ---------------------------------------------------------------- every way to count


def of_evidence(**options: Any) -> Open:
    return lambda tables: Evidence.from_tables(**tables, **options)


def of_wide(tables: Mapping[str, Any]) -> Evidence:
    return Evidence.from_wide(
        tables["table"], systems=["a", "b"], item="q", label="key", ruled_out="never", n_classes=3
    )


def of_rated_wide(tables: Mapping[str, Any]) -> Ratings:
    return Ratings.from_wide(tables["table"], raters=["ann", "bob"], item="q", systems=["agent"])


@dataclasses.dataclass(frozen=True)
class Case:
    """A shape of evidence, how it is opened, and the ways in which it is counted."""

    make: Callable[[int], Tables]
    opened: Open
    counts: Mapping[str, Callable[[Any], Any]]
    seeds: tuple[int, ...] = (1,)


USUAL: dict[str, Callable[[Any], Any]] = {
    "accuracy": count_accuracy,
    "accuracy of a system": lambda e: count_accuracy(e, systems=["a"]),
    "accuracy by class": lambda e: count_accuracy(e, by_class=True),
    "patterns": count_patterns,
    "decisions with known items": lambda e: count_decisions(
        e, known={e.rows("answers", "item")[0][0]: 0}, judgements="ignore"
    ).to_dict(),
    "judgements": count_judgements,
    "judgements by time": lambda e: count_judgements(e, by_rater=False, by_time=True),
    "judgements after accuracy": lambda e: count_judgements(e, counts=count_accuracy(e)),
    "decisions": lambda e: count_decisions(e).to_dict(),
    "decisions without judgements": lambda e: count_decisions(e, judgements="ignore").to_dict(),
    "labels in order": label_rows,
    "answers": lambda e: dataclasses.asdict(answer_table(e)),
    "everything": lambda e: count_evidence(e).to_dict(),
    "partitions": lambda e: count_partitions([e]).to_dict(),
    "items": lambda e: tuple(map(str, item_keys(e))),
    "check": check_questions,
}


def some(*names: str, **more: Callable[[Any], Any]) -> dict[str, Callable[[Any], Any]]:
    return {**{name: USUAL[name] for name in names}, **more}


def rating_counts(**options: Any) -> Callable[[Any], Any]:
    return lambda ratings: count_ratings(ratings, **options).to_dict()


CASES: dict[str, Case] = {
    "uniform": Case(
        uniform,
        of_evidence(),
        {
            **some(*(name for name in USUAL if name != "check")),
            "accuracy by cluster": lambda e: count_accuracy(e, by_cluster=True),
            "patterns by cluster": lambda e: count_patterns(e, by_cluster=True),
        },
    ),
    "guessed": Case(
        guessed,
        of_evidence(),
        some("accuracy", "patterns", guess=lambda e: count_accuracy(e, by_guess=True)),
    ),
    "several": Case(several, of_evidence(), USUAL),
    "aimed": Case(aimed, of_evidence(n_classes=4), some("accuracy", "patterns", "judgements")),
    "contradictory": Case(
        contradictory,
        of_evidence(classes=["Straße", "a'b", 'q"t', "日本"], conflicts="drop"),
        some(
            "accuracy",
            "accuracy by class",
            "patterns",
            "judgements",
            "decisions",
            "partitions",
            "items",
        ),
    ),
    "repeated": Case(
        repeated,
        of_evidence(),
        some("accuracy", cluster=lambda e: count_accuracy(e, by_cluster=True)),
    ),
    "wide": Case(wide, of_wide, some("accuracy", "patterns", "decisions", "judgements")),
    "unlabelled": Case(
        lambda seed: without_judgements(several(seed)),
        of_evidence(),
        some("accuracy", "decisions", "everything"),
    ),
    "unanswered": Case(
        lambda seed: {"judgements": uniform(seed)["judgements"]},
        of_evidence(n_classes=10),
        some("judgements", "everything"),
    ),
    "rated": Case(
        rated,
        lambda tables: Ratings.from_tables(**tables),
        {
            "ratings": rating_counts(),
            "of one system": rating_counts(systems=["b"]),
            "pairs": rating_counts(pairs=True),
            "reference": rating_counts(reference=dict.fromkeys(range(30), "x")),
        },
    ),
    "first ratings": Case(
        rated, lambda tables: Ratings.from_tables(**tables, first=2), {"ratings": rating_counts()}
    ),
    "rated wide": Case(
        rated_wide, of_rated_wide, {"ratings": rating_counts(), "pairs": rating_counts(pairs=True)}
    ),
    "voted": Case(
        voted, lambda tables: Ratings.from_votes(tables["table"]), {"ratings": rating_counts()}
    ),
    "scored": Case(
        scored,
        lambda t: Ratings.from_scores(t["table"], cuts=[0.4, 0.6], first=2),
        {"ratings": rating_counts()},
    ),
    "many labels": Case(
        many_labels, lambda tables: Ratings.from_tables(**tables), {"ratings": rating_counts()}
    ),
}


def without_judgements(tables: Tables) -> Tables:
    return {name: table for name, table in tables.items() if name != "judgements"}


def counted(case: Case, tables: Mapping[str, Any], only: set[str] | None = None) -> dict[str, Any]:
    """What every way of counting gives for these tables."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EvidenceWarning)
        opened = case.opened(tables)
        return {
            name: count(opened)
            for name, count in case.counts.items()
            if only is None or name in only
        }


def test_every_function_that_counts_is_among_the_cases() -> None:
    """A new one must be added to the cases above, so that it is compared with other engines and
    compiled for warehouses.
    """
    here = Path(__file__).read_text(encoding="utf-8")
    named = {name for name in noracle.counts.__all__ if name.startswith("count_")}
    assert named
    assert {name for name in named if here.count(name) < 2} == set()


QUICK = {
    "ibis": ("wide", "rated", "voted", "scored"),
    "sqlframe": ("voted",),
    "compiled": ("voted", "scored"),
}
"""What is in the default suite. Plans are built and compiled in Python, SQLFrame copies its plan at
every step: the others take minutes.
"""


def params(what: str) -> Iterator[Any]:
    for name in CASES:
        yield pytest.param(
            what, name, marks=() if name in QUICK[what] else pytest.mark.slow, id=f"{what}-{name}"
        )


@pytest.mark.parametrize(("engine", "name"), [*params("ibis"), *params("sqlframe")])
def test_other_engines_count_what_duckdb_counts(engine: str, name: str, tmp_path: Path) -> None:
    pytest.importorskip(engine, reason=f"{engine} is not installed")
    case = CASES[name]
    tables = case.make(1)
    assert counted(case, ENGINES[engine](tables, tmp_path)) == counted(
        case, as_relations(tables, tmp_path)
    )


SPARK = ("guessed", "contradictory", "wide", "rated")


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("name", SPARK)
def test_spark_counts_what_duckdb_counts(name: str, tmp_path: Path, spark_session: Any) -> None:
    case = CASES[name]
    tables = case.make(1)
    assert counted(case, as_spark(tables, spark_session)) == counted(
        case, as_relations(tables, tmp_path)
    )


_CONNECT = """
import pathlib, sys, warnings
from pyspark.sql import SparkSession
try:
    session = SparkSession.builder.remote("local[1]").getOrCreate()
except Exception as error:
    sys.exit(f"does not start: {type(error).__name__}: {error}")
from tests.unit.counts.test_engines import CASES, SPARK, as_relations, as_spark, counted
session.conf.set("spark.sql.shuffle.partitions", "1")
for name in SPARK:
    tables = CASES[name].make(1)
    found = as_spark(tables, session)
    assert type(found.popitem()[1]).__module__.startswith("pyspark.sql.connect")
    same = counted(CASES[name], as_spark(tables, session)) == counted(CASES[name], as_relations(tables, pathlib.Path(sys.argv[1])))
    print("same" if same else "differs", name, flush=True)
session.stop()
"""


@pytest.mark.spark
@pytest.mark.slow
def test_spark_connect_counts_what_duckdb_counts(tmp_path: Path) -> None:
    """A process of its own: a session of Spark Connect and one without it do not live together."""
    pytest.importorskip("grpc", reason="pyspark[connect] is not installed")
    paths = os.pathsep.join([str(Path(__file__).parents[3]), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", _CONNECT, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    if "does not start" in done.stderr:
        pytest.skip(done.stderr.strip().splitlines()[-1][:300])
    assert [line for line in done.stdout.splitlines() if line.startswith(("same", "differs"))] == [
        f"same {name}" for name in SPARK
    ], done.stderr


# ---------------------------------------------------------------- what is refused


def small() -> Tables:
    return {
        "answers": {"item": [1, 2], "system": ["a", "a"], "answer": [0, 1]},
        "judgements": {
            "item": [1, 1],
            "class": [0, 1],
            "verdict": ["no", "no"],
            "propensity": [0.5, 0.25],
        },
    }


@pytest.mark.parametrize(("engine", "word"), [("ibis", "Ibis"), ("sqlframe", "SQLFrame")])
def test_frames_of_two_engines_do_not_mix(engine: str, word: str, tmp_path: Path) -> None:
    pytest.importorskip(engine, reason=f"{engine} is not installed")
    tables = small()
    mixed = {**tables, **ENGINES[engine]({"answers": tables["answers"]}, tmp_path)}
    with pytest.raises(
        EvidenceError,
        match=rf"tables must all be {word} frames or none; got answers {engine}, judgements dict\. Read",
    ):
        Evidence.from_tables(**mixed, n_classes=4)


def test_tables_of_two_ibis_connections_do_not_mix(tmp_path: Path) -> None:
    ibis = pytest.importorskip("ibis", reason="ibis is not installed")
    tables = small()
    apart = {name: as_ibis({name: table}, tmp_path)[name] for name, table in tables.items()}
    with pytest.raises(EvidenceError, match=r"tables must belong to one connection; got two\."):
        Evidence.from_tables(**apart, n_classes=4)
    unbound = ibis.table({"item": "int64", "system": "string", "answer": "int64"}, name="nowhere")
    with pytest.raises(
        EvidenceError,
        match=r"tables must belong to one connection; got tables for which Ibis says \w+\.",
    ):
        Evidence.from_tables(unbound, n_classes=4)


@pytest.mark.parametrize("engine", ["ibis", "sqlframe"])
def test_the_order_of_rows_is_not_guessed_where_there_is_none(engine: str, tmp_path: Path) -> None:
    """Which question came first decides the label; taken at random it would depend on the verdicts."""
    pytest.importorskip(engine, reason=f"{engine} is not installed")
    evidence = Evidence.from_tables(**ENGINES[engine](small(), tmp_path), n_classes=4)
    with pytest.raises(
        EvidenceError,
        match=r"judgements must have a column at, filled, where propensities are recorded",
    ):
        count_judgements(evidence)
    frames = ENGINES[engine](wide(1), tmp_path)
    with pytest.raises(EvidenceError, match=r"item must name a column of (Ibis|SQLFrame) frames"):
        Evidence.from_wide(frames["table"], systems=["a"], n_classes=3)
    with pytest.raises(EvidenceError, match=r"item must name a column of (Ibis|SQLFrame) frames"):
        Ratings.from_wide(frames["table"], raters=["a", "b"])


@pytest.mark.parametrize("engine", ["ibis", "sqlframe"])
def test_faults_of_rows_and_empty_tables_read_the_same_as_on_duckdb(
    engine: str, tmp_path: Path
) -> None:
    pytest.importorskip(engine, reason=f"{engine} is not installed")
    bad: Tables = {
        "answers": {"item": [1, 1, 2], "system": ["a", "a", "a"], "answer": [0, 1, 9]},
        "judgements": {
            "item": [1, 2, None],
            "class": [0, 1, 2],
            "verdict": ["yes", "perhaps", "no"],
        },
    }
    said = []
    for make in (as_relations, ENGINES[engine]):
        with pytest.raises(EvidenceError) as raised:
            Evidence.from_tables(**make(bad, tmp_path), n_classes=4, invalid="refuse").check()
        said.append(raised.value.faults)
    assert said[0] == said[1]
    assert len(said[0]) == 4
    empty = ENGINES[engine]({"answers": {"item": [1], "system": ["a"], "answer": [0]}}, tmp_path)[
        "answers"
    ].limit(0)
    with pytest.raises(EvidenceError, match="answers must have rows"):
        Evidence.from_tables(empty, n_classes=4)


# ---------------------------------------------------------------- SQL for warehouses

DIALECTS = {
    "bigquery": "BigQueryCompiler",
    "snowflake": "SnowflakeCompiler",
    "databricks": "DatabricksCompiler",
    "trino": "TrinoCompiler",
    "clickhouse": "ClickHouseCompiler",
}


@pytest.mark.parametrize(("_what", "name"), [*params("compiled")])
def test_every_query_compiles_for_every_warehouse(
    _what: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every query that leaves through Ibis is compiled by Ibis's own compilers, and read back by
    sqlglot in that dialect.
    """
    pytest.importorskip("ibis", reason="ibis is not installed")
    sqlglot = importlib.import_module("sqlglot")
    compilers = importlib.import_module("ibis.backends.sql.compilers")
    table = importlib.import_module("ibis.expr.types.relations").Table
    execute, issued = table.to_pyarrow, {}

    def record(self: Any, *args: Any, **kwargs: Any) -> Any:
        issued[self.unbind()] = None
        return execute(self, *args, **kwargs)

    monkeypatch.setattr(table, "to_pyarrow", record)
    case = CASES[name]
    counted(case, as_ibis(case.make(1), tmp_path))
    assert issued
    for dialect, compiler in DIALECTS.items():
        compile_ = getattr(compilers, compiler)()
        for query in issued:
            sql = compile_.to_sqlglot(query).sql(
                dialect=dialect, unsupported_level=sqlglot.ErrorLevel.RAISE
            )
            assert sqlglot.parse_one(sql, read=dialect).find(sqlglot.exp.Select)


@pytest.mark.parametrize("engine", ENGINES)
def test_texts_and_letters_of_options_are_read_on_every_engine(engine: str, tmp_path: Path) -> None:
    """Spellings are brought to the engine as a small table; so are grades."""
    pytest.importorskip(engine, reason=f"{engine} is not installed")
    items = ["q1", "q2", "q3", "q4"]
    tables: Tables = {
        "answers": {
            "item": items,
            "system": ["m"] * 4,
            "answer": ["Paris", "rome", "Berlin", "Oslo"],
        },
        "judgements": {
            "item": items[:3],
            "class": ["A", "b)", "(c)"],
            "verdict": ["yes", "no", "yes"],
        },
        "items": {"item": items, "options": ["Paris|Rome|Berlin"] * 4},
    }
    graded: Tables = {
        "grades": {
            "item": items,
            "system": ["m", "m", "n", "n"],
            "verdict": ["right", "wrong", "right", "unsure"],
        }
    }
    for given in (tables, graded):
        here = Evidence.from_tables(**as_relations(given, tmp_path))
        there = Evidence.from_tables(**ENGINES[engine](given, tmp_path))
        assert there.inferred == here.inferred
        assert count_accuracy(there) == count_accuracy(here)
