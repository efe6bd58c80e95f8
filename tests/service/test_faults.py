"""A full disk, and a database that is damaged: told in words, with the remedy."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("uvicorn", reason="the extra 'collect' is not installed")

from noracle.cli import run
from noracle.collect.errors import Damaged
from noracle.collect.model import ProjectSpec
from noracle.collect.store import open_store
from tests.service.web_site import Site, running, texts


def full(site: Site, pages: int) -> None:
    """Let the database file grow no further, or again."""
    site.store._connection.execute(f"PRAGMA max_page_count = {pages}").fetchone()  # type: ignore[attr-defined]


def test_a_full_disk_is_told_and_recovers_by_itself(tmp_path: Path) -> None:
    with running(tmp_path) as site:
        boss = site.person("boss")
        site.project("alpha", boss)
        visitor = site.as_(boss)
        assert visitor.get("/healthz").text == "ok\n"
        full(site, 1)
        large = {"items": [{"name": f"i{k}", "content": {"text": "x" * 5_000}} for k in range(40)]}
        reply = visitor.api("POST", "/projects/alpha/items", large)
        assert reply.status == 503
        assert int(reply.headers["retry-after"]) >= 1
        assert "disk is full" in reply.json()["detail"]
        assert visitor.get("/p/alpha/people").status == 200, "reading goes on"
        full(site, 2**31 - 1)
        assert visitor.get("/healthz").status == 200
        reply = visitor.api("POST", "/projects/alpha/items", large)
        if reply.status == 409:  # what the full disk stopped is cleared after a minute
            site.store.write_now(lambda w: w.run("UPDATE project SET busy = busy - 61"))
            reply = visitor.api("POST", "/projects/alpha/items", large)
        assert reply.status == 201
        assert site.count("item") == 40


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    where = tmp_path / "disk"
    where.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(where)],
        capture_output=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip("no small disk can be mounted here")
    yield where
    subprocess.run(["umount", "-l", str(where)], check=False)


@pytest.mark.full
def test_a_small_disk_that_is_full_is_told_and_recovers(small_disk: Path) -> None:
    with running(small_disk) as site:
        boss = site.person("boss")
        project = site.project("alpha", boss)
        visitor = site.as_(boss)
        ballast = small_disk / "ballast"
        with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
            while file.write(b"0" * 4096):
                pass
        statuses = {
            visitor.api("POST", "/projects/alpha/invitations", {"role": "auditor"}).status
            for _ in range(60)
        }
        assert 503 in statuses
        assert statuses <= {201, 503}
        reply = visitor.get("/healthz")
        assert (reply.status, reply.text) == (
            503,
            "The disk is full: nothing can be kept until there is room.\n",
        )
        ballast.unlink()
        assert visitor.get("/healthz").status == 200
        assert visitor.api("POST", "/projects/alpha/invitations", {"role": "auditor"}).status == 201
        site.items(project, texts(5))


# damage


def damaged(tmp_path: Path) -> Path:
    path = tmp_path / "labels.db"
    with running(tmp_path) as site:
        project = site.project("alpha", site.person("boss"))
        site.items(project, texts(2_000))
        site.step(project, "seal")
    data = bytearray(path.read_bytes())
    for at in range(8 * 4096, len(data), 4096):
        data[at : at + 200] = bytes([0x5A]) * 200
    path.write_bytes(data)
    return path


def test_a_damaged_database_is_refused_at_start_with_the_remedy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = damaged(tmp_path)
    for command in (
        ["collect", "serve", "--db", str(path), "--port", "0"],
        ["verify", f"{path}#alpha"],
        ["collect", "export", "alpha", "--db", str(path), "--out", str(tmp_path / "out.zip")],
    ):
        code = run(command)
        said = capsys.readouterr().err
        assert code == 2, said
        assert "must be whole" in said
        assert "noracle collect restore" in said
        assert "internal error" not in said


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "labels.db").write_bytes(b"this is no database" * 500)
    with pytest.raises(Damaged, match=r"must be whole.*collect restore"):
        open_store(f"sqlite:///{tmp_path}/labels.db")


# the small ones


def test_three_classes_are_judged_by_default() -> None:
    for protocol, shown in (("judge-all", 3), ("pick-wrong", 3), ("partitioned", 4)):
        spec = ProjectSpec.from_dict({"protocol": protocol, "classes": ["a", "b", "c"]})
        assert spec.shown == shown
    many = ProjectSpec.from_dict({"protocol": "judge-all", "classes": list("abcdef")})
    assert many.shown == 4
    assert ProjectSpec.from_dict(many.to_dict()) == many


def test_invitations_know_where_the_server_was_served_last(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from noracle.collect.server import RunningServer, ServerSettings, make_key

    with running(tmp_path) as site:
        site.project("alpha", site.person("boss"))
    url, key = f"sqlite:///{tmp_path}/labels.db", tmp_path / "labels.db.key"
    make_key(key)
    with RunningServer(ServerSettings(url=url, key_file=key, port=0)) as server:
        address = server.url
    for extra, known in (
        ([], address),
        (["--url", "https://labels.example.org"], "https://labels.example.org"),
    ):
        assert run(["collect", "invite", "alpha", "--db", url, "--role", "auditor", *extra]) == 0
        assert f"{known}/join/" in capsys.readouterr().out
    assert run(["collect", "password", "boss@example.org", "--db", url, "--link"]) == 0
    assert f"{address}/reset/" in capsys.readouterr().out
    import io

    monkeypatch.setattr("sys.stdin", io.StringIO("a new password here\n"))
    assert run(["collect", "password", "boss@example.org", "--db", url]) == 0
    with running(tmp_path) as site:
        assert site.visitor().sign_in("boss@example.org", "a new password here").status == 303
        helper = site.person("helper")
        site.join("alpha", 1, helper, "auditor")
    assert run(["collect", "remove", "alpha", "helper@example.org", "--db", url, "--yes"]) == 0
    assert "removed auditor-" in capsys.readouterr().out


@pytest.mark.full
def test_the_demo_gives_the_same_figures_for_the_same_seed() -> None:
    """In processes of their own: here every project is sealed with one seed."""
    command = [sys.executable, "-m", "noracle", "collect", "demo", "--n-items", "40", "--json"]

    def figures(seed: int) -> object:
        done = subprocess.run(
            [*command, "--seed", str(seed)],
            capture_output=True,
            check=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        return json.loads(done.stdout)["systems"]

    assert figures(3) == figures(3)
    assert figures(3) != figures(4)
