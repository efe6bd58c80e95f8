"""The file of paid calls: private, whole after a kill, shared by processes."""

from __future__ import annotations

import datetime as dt
import os
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from noracle.errors import ArgumentError
from noracle.search.caller import Cache, CacheError, default_path, record
from noracle.search.model import Completion, Usage

REPLY = Completion(text="Hi", finish="length", usage=Usage(3, 1))


def test_what_is_put_comes_back_as_cached(tmp_path: Path) -> None:
    with Cache.open(tmp_path / "calls.sqlite") as cache:
        assert cache.get("d") is None
        cache.put("d", "m", REPLY)
        assert cache.get("d") == Completion(
            text="Hi", finish="length", usage=Usage(3, 1), cached=True
        )
    with Cache.open(tmp_path / "calls.sqlite") as cache:
        assert len(cache) == 1


def test_the_first_reply_stays(tmp_path: Path) -> None:
    with Cache.open(tmp_path / "calls.sqlite") as cache:
        cache.put("d", "m", REPLY)
        cache.put("d", "m", Completion(text="other"))
        found = cache.get("d")
    assert found is not None
    assert found.text == "Hi"


@pytest.mark.parametrize(
    "text",
    ["", "nul \0 inside", "'; drop table calls; --", "\N{GRINNING FACE} é\r\n\t", "x" * 1_000_000],
)
def test_any_text_is_kept_exactly(tmp_path: Path, text: str) -> None:
    with Cache.open(tmp_path / "calls.sqlite") as cache:
        cache.put("d", "m", Completion(text=text))
        found = cache.get("d")
    assert found is not None
    assert found.text == text


@pytest.mark.skipif(os.name != "posix", reason="modes of files are a matter of POSIX")
def test_file_and_folder_are_the_owners_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        path = tmp_path / "new" / "calls.sqlite"
        with Cache.open(path) as cache:
            cache.put("d", "m", REPLY)
            files = list(path.parent.iterdir())
            assert len(files) == 3  # with the log and the index of SQLite
            assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
            assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    finally:
        os.umask(before)


@pytest.mark.skipif(os.name != "posix", reason="modes of files are a matter of POSIX")
def test_a_file_that_was_open_to_others_is_closed_to_them(tmp_path: Path) -> None:
    path = tmp_path / "calls.sqlite"
    Cache.open(path).close()
    path.chmod(0o644)
    Cache.open(path).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_the_columns_hold_no_prompt_and_no_key(tmp_path: Path) -> None:
    with Cache.open(tmp_path / "calls.sqlite"):
        pass
    with sqlite3.connect(tmp_path / "calls.sqlite") as db:
        columns = [row[1] for row in db.execute("pragma table_info(calls)")]
    db.close()
    assert columns == [
        "digest",
        "model",
        "text",
        "finish",
        "input_tokens",
        "output_tokens",
        "at",
        "paid",
    ]


def test_where_the_cache_lies(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NORACLE_CACHE", str(tmp_path / "mine"))
    assert default_path() == tmp_path / "mine" / "calls.sqlite"
    with Cache.open() as cache:
        assert cache.path == tmp_path / "mine" / "calls.sqlite"
    monkeypatch.setenv("NORACLE_CACHE", str(tmp_path / "my.sqlite"))
    assert default_path() == tmp_path / "my.sqlite"
    monkeypatch.delenv("NORACLE_CACHE")
    for platform, variable, expected in [
        ("linux", "XDG_CACHE_HOME", tmp_path / "noracle" / "calls.sqlite"),
        ("win32", "LOCALAPPDATA", tmp_path / "noracle" / "calls.sqlite"),
        ("darwin", "HOME", tmp_path / "Library" / "Caches" / "noracle" / "calls.sqlite"),
    ]:
        monkeypatch.setattr(sys, "platform", platform)
        monkeypatch.setenv(variable, str(tmp_path))
        assert default_path() == expected


def test_purge_by_model_and_by_time(tmp_path: Path) -> None:
    with Cache.open(tmp_path / "calls.sqlite") as cache:
        for digest, model in [("a", "m"), ("b", "m"), ("c", "n")]:
            cache.put(digest, model, REPLY)
        now = dt.datetime.now(dt.UTC)
        assert cache.purge(before=now - dt.timedelta(hours=1)) == 0
        assert cache.purge(model="m", before=now + dt.timedelta(hours=1)) == 2
        assert cache.purge(model="m") == 0
        assert [row[0] for row in cache.rows()] == ["c"]
        assert cache.purge() == 1
        with pytest.raises(ArgumentError, match="time zone"):
            cache.purge(before=now.replace(tzinfo=None))


def test_what_is_purged_is_gone_from_the_disk(tmp_path: Path) -> None:
    secret = "a reply that nobody shall read again"
    with Cache.open(tmp_path / "calls.sqlite") as cache:
        cache.put("d", "m", Completion(text=secret))
        held = b"".join(file.read_bytes() for file in tmp_path.iterdir())
        assert secret.encode() in held
        cache.purge()
        held = b"".join(file.read_bytes() for file in tmp_path.iterdir())
        assert secret.encode() not in held


def test_copies_from_another_cache_do_not_count_as_paid(tmp_path: Path) -> None:
    with Cache.open(tmp_path / "calls.sqlite") as cache:
        cache.put("a", "m", REPLY)
        cache.put("b", "m", Completion(text="copy", usage=Usage(9, 9), cached=True))
        cache.put("c", "n", REPLY)
        assert cache.paid("m") == (1, Usage(3, 1))
        assert cache.paid() == (2, Usage(6, 2))
        assert cache.paid("none") == (0, Usage())


@pytest.mark.parametrize(
    "content", [b"this is no database " * 100, b"SQLite format 3\0" + b"x" * 500]
)
def test_a_file_that_is_no_cache_is_refused_and_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "calls.sqlite"
    path.write_bytes(content)
    with pytest.raises(CacheError, match=r"calls\.sqlite"):
        Cache.open(path)
    assert path.read_bytes() == content


def test_the_database_of_another_program_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "calls.sqlite"
    db = sqlite3.connect(path)
    db.execute("create table photos (name text)")
    db.commit()
    db.close()
    content = path.read_bytes()
    with pytest.raises(CacheError, match="another program"):
        Cache.open(path)
    assert path.read_bytes() == content


def test_a_newer_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "calls.sqlite"
    Cache.open(path).close()
    db = sqlite3.connect(path)
    db.execute("pragma user_version = 99")
    db.close()
    with pytest.raises(CacheError, match="version"):
        Cache.open(path)


def test_a_path_that_cannot_be_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CacheError, match="cannot be opened"):
        Cache.open(tmp_path / "file" / "calls.sqlite")


def test_use_after_close_is_our_error(tmp_path: Path) -> None:
    cache = Cache.open(tmp_path / "calls.sqlite")
    cache.close()
    cache.close()
    with pytest.raises(CacheError):
        cache.get("d")


def test_a_recording_is_sorted_and_the_same_every_time(tmp_path: Path) -> None:
    for name, order in [("a", "xyz"), ("b", "zyx")]:
        with Cache.open(tmp_path / f"{name}.sqlite") as cache:
            for digest in order:
                cache.put(digest, "m", Completion(text=f"reply é to {digest}", usage=Usage(1, 2)))
            assert record(cache, tmp_path / f"{name}.jsonl") == 3
    text = (tmp_path / "a.jsonl").read_bytes()
    assert text == (tmp_path / "b.jsonl").read_bytes()
    assert text.decode().splitlines()[0] == (
        '{"digest": "x", "model": "m", "text": "reply é to x", "finish": "stop", "input_tokens": 1, "output_tokens": 2}'
    )


WRITER = """
import sys
import threading
from noracle.search.caller import Cache
from noracle.search.model import Completion, Usage
cache = Cache.open(sys.argv[1])
for i in range(int(sys.argv[3])):
    cache.put(f"{sys.argv[2]}-{i}", "m", Completion(text="reply " * 20, usage=Usage(1, 1)))
    print(i, flush=True)
"""


@pytest.mark.skipif(os.name != "posix", reason="kill -9 is a matter of POSIX")
def test_kill_9_loses_no_committed_reply(tmp_path: Path) -> None:
    path = tmp_path / "calls.sqlite"
    for round_ in range(5):
        child = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path), str(round_), "1000000"],
            stdout=subprocess.PIPE,
            text=True,
            env=_environment(),
        )
        assert child.stdout is not None
        child.stdout.readline()
        time.sleep(0.03 * round_)
        child.send_signal(signal.SIGKILL)
        said = child.stdout.read().split("\n")
        child.stdout.close()
        child.wait()
        told = [int(line) for line in said[:-1] if line]  # whole lines only
        with Cache.open(path) as cache:
            assert cache.get(f"{round_}-{max(told, default=0)}") is not None
            kept = sum(digest.startswith(f"{round_}-") for digest, _, _ in cache.rows())
            assert kept >= max(told, default=0) + 1


def test_processes_share_one_file(tmp_path: Path) -> None:
    path = tmp_path / "calls.sqlite"
    children = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path), name, "400"],
            stdout=subprocess.DEVNULL,
            env=_environment(),
        )
        for name in ("a", "b", "c")
    ]
    assert [child.wait(timeout=60) for child in children] == [0, 0, 0]
    with Cache.open(path) as cache:
        assert len(cache) == 1200


def _environment() -> dict[str, str]:
    import noracle

    return {**os.environ, "PYTHONPATH": str(Path(noracle.__file__).parents[1])}


def test_a_new_file_may_be_opened_by_many_at_once(tmp_path: Path) -> None:
    errors: list[BaseException] = []
    gate = threading.Barrier(8)

    def work(name: int) -> None:
        for file in range(15):
            gate.wait()
            try:
                with Cache.open(tmp_path / f"{file}.sqlite") as cache:
                    cache.put(f"{name}", "m", REPLY)
            except BaseException as error:  # noqa: BLE001 - told below
                errors.append(error)

    threads = [threading.Thread(target=work, args=(name,)) for name in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    for file in range(15):
        with Cache.open(tmp_path / f"{file}.sqlite") as cache:
            assert len(cache) == 8
