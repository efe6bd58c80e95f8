"""Fixtures that the tests of evidence and of counting share."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.unit.evidence.backends import SINGLE, Columns, as_relations, as_spark

Bring = Callable[[Mapping[str, Columns]], dict[str, Any]]


@pytest.fixture(scope="session")
def spark_session() -> Iterator[Any]:
    pyspark = pytest.importorskip("pyspark.sql", reason="pyspark is not installed")
    # Small tables end before the second compiler of Java has earned its time.
    options = "--conf spark.ui.showConsoleProgress=false --driver-java-options -XX:TieredStopAtLevel=1 pyspark-shell"
    os.environ.setdefault("PYSPARK_SUBMIT_ARGS", options)
    builder = pyspark.SparkSession.builder.master("local[1]").appName("noracle-tests")
    for key, value in (
        ("spark.ui.enabled", "false"),
        ("spark.sql.shuffle.partitions", "1"),
        ("spark.sql.codegen.wholeStage", "false"),
        ("spark.sql.codegen.factoryMode", "NO_CODEGEN"),
        ("spark.driver.memory", "1g"),
        ("spark.driver.host", "127.0.0.1"),
        ("spark.driver.bindAddress", "127.0.0.1"),
    ):
        builder = builder.config(key, value)
    try:
        session = builder.getOrCreate()
    except Exception as error:  # noqa: BLE001 (no Java, no network interface: there is nothing to test then)
        pytest.skip(f"PySpark does not start here: {type(error).__name__}")
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


def _bring(engine: str, request: pytest.FixtureRequest, folder: Path) -> Bring:
    def to_engine(tables: Mapping[str, Columns]) -> dict[str, Any]:
        if engine == "duckdb":
            return as_relations(tables, folder)
        if engine == "spark":
            return as_spark(tables, request.getfixturevalue("spark_session"))
        return {name: SINGLE[engine](columns, name, folder) for name, columns in tables.items()}

    return to_engine


# Python's own lists, a frame at once and a file read by DuckDB stand for the others by default.
_DEFAULT = ("dict", "polars", "parquet")
LOCAL = [
    pytest.param(engine, marks=[] if engine in _DEFAULT else [pytest.mark.full])
    for engine in [*SINGLE, "duckdb"]
]


@pytest.fixture(params=LOCAL)
def bring(request: pytest.FixtureRequest, tmp_path: Path) -> Bring:
    """Brings tables given as dicts of columns to one local engine after the other."""
    return _bring(request.param, request, tmp_path)


@pytest.fixture(params=[*LOCAL, pytest.param("spark", marks=pytest.mark.spark)])
def bring_anywhere(request: pytest.FixtureRequest, tmp_path: Path) -> Bring:
    """The same, and PySpark, which is slow to answer."""
    return _bring(request.param, request, tmp_path)


@pytest.fixture(params=[*LOCAL, pytest.param("spark", marks=(pytest.mark.spark, pytest.mark.slow))])
def bring_slowly(request: pytest.FixtureRequest, tmp_path: Path) -> Bring:
    """The same, with PySpark among the slow tests; what it counts altogether is compared with the
    others in ``test_partitions``.
    """
    return _bring(request.param, request, tmp_path)
