"""Databases for the tests of the service: a SQLite file, and a real PostgreSQL server that runs as
an unprivileged user.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.service.worlds import PostgresServer
from tests.unit.collect.service_world import SEAL


@pytest.fixture(scope="module", autouse=True)
def _one_seal() -> Iterator[None]:
    """Projects that are sealed over HTTP or by the command line draw the same questions in every
    run of the tests; what comes after this folder seals as ever.
    """
    protocols = pytest.importorskip("noracle.collect.protocols")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(protocols, "new_seed", lambda: SEAL)
        yield


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """A running PostgreSQL server; tests that need it skip where its programs are absent."""
    yield from _server(in_memory=True)


@pytest.fixture
def own_server() -> Iterator[PostgresServer]:
    """A server on the disk for one test, which may kill it."""
    yield from _server(in_memory=False)


def _server(*, in_memory: bool) -> Iterator[PostgresServer]:
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    if not all(shutil.which(program) for program in ("initdb", "postgres")):
        pytest.skip("PostgreSQL's initdb and postgres are not on the path")
    server = PostgresServer.create(in_memory=in_memory)
    try:
        yield server
    finally:
        server.remove()


@pytest.fixture
def postgres_url(postgres_server: PostgresServer) -> Iterator[str]:
    """An empty database of its own."""
    name = postgres_server.new_database()
    yield postgres_server.url(name)
    postgres_server.drop_database(name)


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """A SQLite file that does not exist yet."""
    return f"sqlite:///{tmp_path}/labels.db"


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.full)])
def store_url(request: pytest.FixtureRequest) -> str:
    """Every test with this fixture runs on both databases."""
    return str(
        request.getfixturevalue("sqlite_url" if request.param == "sqlite" else "postgres_url")
    )


@pytest.fixture
def store(store_url: str) -> Iterator[object]:
    """An open store on each database."""
    from noracle.collect.store import open_store

    opened = open_store(store_url)
    yield opened
    opened.close()
