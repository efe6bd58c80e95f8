"""Migrations run once, in order, keep the data, and refuse a database from the future."""

from __future__ import annotations

import asyncio
import multiprocessing
import shutil
from pathlib import Path

import pytest

from noracle.collect.errors import Damaged
from noracle.collect.store import base as module
from noracle.collect.store import open_store
from noracle.collect.store.base import FOLDER, migrations, schema_version
from noracle.errors import ArgumentError
from tests.service.worlds import START, audit, build


@pytest.fixture
def later(tmp_path: Path) -> Path:
    """The migrations of a later release: a column with a default, a table, a line for one database
    alone.
    """
    folder = tmp_path / "later"
    shutil.copytree(FOLDER, folder)
    number = len(migrations("sqlite")) + 1
    later = "ALTER TABLE item ADD COLUMN note TEXT NOT NULL DEFAULT 'none'; CREATE TABLE extra (id {id}, at {real}, data {blob});"
    (folder / f"{number:04}_later.sql").write_text(later)
    for dialect in ("sqlite", "postgresql"):
        (folder / f"{number:04}_later.{dialect}.sql").write_text(
            f"INSERT INTO extra (at) VALUES ({1 if dialect == 'sqlite' else 2});"
        )
    return folder


def use(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setattr(
        module.migrate,
        "__kwdefaults__",
        {**(module.migrate.__kwdefaults__ or {}), "folder": folder},
    )


def test_a_later_migration_keeps_what_is_in_the_database(
    store_url: str, later: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(store_url)
    world = build(store, n_items=10)
    asked = asyncio.run(store.next_question(world.token(0), world.project, now=START))
    assert asked is not None
    given = {
        "question": asked.question,
        "key": asked.key,
        "value": "yes",
        "shown_at": START,
        "client_ms": None,
        "now": START,
    }
    asyncio.run(store.answer(world.token(0), world.project, want_next=True, **given))
    before = audit(store, world)
    store.close()
    use(monkeypatch, later)
    store = open_store(store_url)
    try:
        assert audit(store, world) == before
        assert store.read_now(schema_version) == len(migrations("sqlite")) + 1
        assert store.read_now(lambda w: w.all("SELECT DISTINCT note FROM item")) == [
            {"note": "none"}
        ]
        assert store.read_now(lambda w: w.one("SELECT at FROM extra")) == {
            "at": 1.0 if store_url.startswith("sqlite") else 2.0
        }
        again = asyncio.run(store.answer(world.token(0), world.project, want_next=False, **given))
        assert again.again
    finally:
        store.close()


def test_a_newer_database_is_refused_and_stays_as_it_is(
    store_url: str, later: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        use(patch, later)
        open_store(store_url).close()
    with pytest.raises(
        ArgumentError, match=r"schema version at most \d+; got \d+. Upgrade noracle"
    ):
        open_store(store_url)
    use(monkeypatch, later)
    open_store(store_url).close()


def test_a_migration_that_fails_leaves_the_database_as_it_was(
    store_url: str, later: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_store(store_url).close()
    number = len(migrations("sqlite")) + 1
    (later / f"{number + 1:04}_bad.sql").write_text(
        "CREATE TABLE fine (id {id}); CREATE TABLE fine (id {id});"
    )
    with monkeypatch.context() as patch:
        use(patch, later)
        with pytest.raises(Exception, match="already exists"):
            open_store(store_url)
    store = open_store(store_url)
    assert store.read_now(schema_version) == number - 1
    store.close()


def _open_and_close(url: str) -> None:
    open_store(url).close()


def test_servers_that_start_together_migrate_once(store_url: str) -> None:
    context = multiprocessing.get_context("spawn")
    with context.Pool(3) as pool:
        pool.map(_open_and_close, [store_url] * 6)
    store = open_store(store_url)
    assert store.read_now(lambda w: w.one("SELECT COUNT(*) AS n FROM schema_version")) == {
        "n": len(migrations("sqlite"))
    }
    store.close()


def test_both_databases_have_the_same_tables_and_a_backup_has_them_all(
    sqlite_url: str, postgres_url: str
) -> None:
    from noracle.collect.store.postgres import TABLES

    one, two = open_store(sqlite_url), open_store(postgres_url)
    there = one.read_now(
        lambda w: w.all(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
        )
    )
    here = two.read_now(
        lambda w: w.all(
            "SELECT table_name AS name FROM information_schema.tables WHERE table_schema = 'public'"
        )
    )
    assert {r["name"] for r in there} == {r["name"] for r in here} == {*TABLES, "schema_version"}
    one.close()
    two.close()


def test_numbers_without_gaps(tmp_path: Path) -> None:
    (tmp_path / "0002_second.sql").write_text("")
    with pytest.raises(ArgumentError, match="without gaps"):
        migrations("sqlite", tmp_path)
    (tmp_path / "third.sql").write_text("")
    with pytest.raises(ArgumentError, match=r"third\.sql"):
        migrations("sqlite", tmp_path)


def test_a_file_that_is_no_database_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text(
        "These are my notes, and they are longer than a header of a database would be. " * 20
    )
    before = path.read_bytes()
    with pytest.raises(Damaged, match="must be whole"):
        open_store(f"sqlite:///{path}")
    assert path.read_bytes() == before
