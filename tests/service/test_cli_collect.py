"""The command line of the collection service, against real databases and a real server."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from noracle.cli import run
from noracle.collect.errors import Conflict, NotFound, SignedOut
from noracle.collect.model import ProjectSpec
from noracle.collect.server import ServerSettings, database_url, key_path, make_key, read_key
from noracle.collect.simulate import CrowdClient, Habits, Invited, Unreachable, crowd, fingerprint
from noracle.errors import ArgumentError

PASSWORD = "correct horse battery"
RIGHT = Habits()
N_ITEMS, CLASSES = 80, ("heart", "lung", "brain", "skin")


class Ended(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        value = json.loads(self.out)
        assert isinstance(value, dict)
        return value


Run = Callable[..., Ended]


@pytest.fixture
def collect(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Run:
    """``noracle collect …`` in this process; ``stdin`` is what is piped in."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NORACLE_DB", raising=False)
    monkeypatch.delenv("NORACLE_KEY_FILE", raising=False)

    def command(*arguments: object, stdin: str = "", verb: str = "collect") -> Ended:
        capfd.readouterr()
        with (tmp_path / "stdin.txt").open("w+", encoding="utf-8") as file:
            file.write(stdin)
            file.seek(0)
            monkeypatch.setattr(sys, "stdin", file)
            code = run([verb, *map(str, arguments)])
        return Ended(code, *capfd.readouterr())

    return command


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a database, its key, one account and one draft; hashing a password takes a
    while, so it is done once.
    """
    from noracle.collect.service import people, projects
    from noracle.collect.store import open_store

    folder = tmp_path_factory.mktemp("made")
    make_key(folder / "noracle.db.key")
    store = open_store(f"sqlite:///{folder}/noracle.db")
    hashed = people.hash_password(PASSWORD)
    spec = ProjectSpec.from_dict({"protocol": "partitioned", "classes": list(CLASSES)})

    def make(work: Any) -> None:
        ann = people.add_person(
            work, email="ann@example.org", name="Ann", password_hash=hashed, now=time.time()
        )
        projects.create_project(work, slug="old", name="Old", spec=spec, owner=ann, now=time.time())

    store.write_now(make)
    store.close()
    return folder


@pytest.fixture
def ready(collect: Run, made: Path, tmp_path: Path) -> Run:
    """The command line in a folder that has a database."""
    for name in ("noracle.db", "noracle.db.key"):
        shutil.copy2(made / name, tmp_path / name)
    return collect


def cpu_seconds(pid: int) -> float | None:
    """Processor time of a process so far; None where the system does not say."""
    try:
        fields = (
            Path(f"/proc/{pid}/stat")
            .read_text(encoding="ascii", errors="replace")
            .rpartition(")")[2]
            .split()
        )
    except OSError:
        return None
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Served:
    """``noracle collect serve`` in a process of its own."""

    def __init__(self, *arguments: object, cwd: Path) -> None:
        command = [sys.executable, "-m", "noracle", "collect", "serve", *map(str, arguments)]
        source = str(Path(sys.modules["noracle"].__file__ or "").parents[1])
        env = {**os.environ, "PYTHONPATH": source}
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env, cwd=cwd
        )
        line = self.process.stdout.readline() if self.process.stdout else ""
        found = re.search(r"http://\S+", line)
        assert found, (line, self.process.communicate())
        self.url, self.cpu = found[0], cpu_seconds(self.process.pid)

    def stop(self, number: int = signal.SIGTERM) -> Ended:
        self.process.send_signal(number)
        out, err = self.process.communicate(timeout=60)
        return Ended(self.process.returncode, out, err)


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Served]]:
    started: list[Served] = []

    def start(*arguments: object) -> Served:
        started.append(Served(*arguments, cwd=tmp_path))
        return started[-1]

    yield start
    for one in started:
        if one.process.poll() is None:
            one.stop(signal.SIGKILL)


def write_files(folder: Path, n_items: int = N_ITEMS) -> dict[str, int]:
    """A specification, items, gold and the answers of two systems; returns the truth by what an
    item looks like.
    """
    truth = {f"i{i:03d}": (7 * i) % len(CLASSES) for i in range(n_items)}
    classes = "\n".join(
        f'[[classes]]\nname = "{name}"\nguideline = "Is it about the **{name}**?"'
        for name in CLASSES
    )
    (folder / "project.toml").write_text(
        f'name = "Abstracts"\nprotocol = "partitioned"\ngold_rate = 0.1\npanel_items = 4\nstop_rule = "all answered"\n{classes}\n',
        encoding="utf-8",
    )
    (folder / "items.csv").write_text(
        "item,text\n" + "".join(f"{name},Abstract {name}\n" for name in truth), encoding="utf-8"
    )
    (folder / "gold.csv").write_text(
        "item,label\n" + "".join(f"{name},{CLASSES[k]}\n" for name, k in list(truth.items())[:8]),
        encoding="utf-8",
    )
    right = [f"{name},{CLASSES[k]}\n" for name, k in truth.items()]
    wrong = [f"{name},{CLASSES[(k + (i % 2)) % 4]}\n" for i, (name, k) in enumerate(truth.items())]
    (folder / "right.csv").write_text("item,answer\n" + "".join(right), encoding="utf-8")
    (folder / "half.csv").write_text("item,answer\n" + "".join(wrong), encoding="utf-8")
    return {fingerprint({"text": f"Abstract {name}"}): k for name, k in truth.items()}


def begin(collect: Run, url: str, folder: Path) -> dict[str, int]:
    """From nothing to a sealed and open project with two systems."""
    truth = write_files(folder)
    for arguments, stdin in (
        (
            (
                "init",
                "--db",
                url,
                "--email",
                "Ann@Example.org",
                "--name",
                "Ann",
                "--key-file",
                "labels.key",
            ),
            PASSWORD + "\n",
        ),
        (("project", "abstracts", "--db", url, "--spec", "project.toml"), ""),
        (("import", "abstracts", "--db", url, "--items", "items.csv", "--gold", "gold.csv"), ""),
        (("seal", "abstracts", "--db", url, "--yes"), ""),
        (
            (
                "import",
                "abstracts",
                "--db",
                url,
                "--system",
                "right=right.csv",
                "--system",
                "half=half.csv",
            ),
            "",
        ),
        (("open", "abstracts", "--db", url), ""),
    ):
        ended = collect(*arguments, stdin=stdin)
        assert ended.code == 0, (arguments, ended)
    return truth


def invited(collect: Run, url: str, server: str, habits: Habits = RIGHT) -> list[Invited]:
    found = collect("invite", "abstracts", "--db", url, "--url", server, "--json").json[
        "invitations"
    ]
    assert [one["for"] for one in found] == list(CLASSES)
    return [
        Invited(
            invitation=one["link"],
            name=one["for"],
            email=f"{one['for']}@example.org",
            password=PASSWORD,
            habits=habits,
        )
        for one in found
    ]


def questions(collect: Run, url: str) -> int:
    return int(collect("project", "abstracts", "--db", url, "--json").json["questions"])


# -------------------------------------------------------------------------------------------------------------
# the whole loop


@pytest.mark.full
def test_a_project_from_init_to_verified_export(
    collect: Run, serve: Callable[..., Served], store_url: str, tmp_path: Path
) -> None:
    truth = begin(collect, store_url, tmp_path)
    server = serve("--db", store_url, "--key-file", "labels.key", "--port", 0)
    total = questions(collect, store_url)
    done = asyncio.run(
        crowd(
            server.url,
            "abstracts",
            invited(collect, store_url, server.url),
            truth,
            protocol="partitioned",
        )
    )
    assert sum(done) == total
    assert collect("project", "abstracts", "--db", store_url, "--json").json["answers"] == total

    live = collect("project", "abstracts", "--db", store_url, "--live", "--json").json
    assert {s["name"]: round(s["estimate"]["value"], 6) for s in live["systems"]}["right"] == 1.0
    assert "accuracy of 'half'" in collect("project", "abstracts", "--db", store_url, "--live").out

    # The verbs of the library look at the running project as the dashboard does; each look is
    # logged.
    address = f"{store_url}#abstracts"
    looked = collect(f"--project={address}", "--json", verb="estimate")
    assert looked.code == 0, looked
    found = {e["subject"]: e for e in looked.json["results"] if e["schema"] == "estimate/1"}
    assert {name: e["interval"] for name, e in found.items()} == {
        s["name"]: s["estimate"]["interval"] for s in live["systems"]
    }
    assert found["right"]["guarantee"]["anytime"]
    assert collect(f"--project={address}", verb="check").code == 0
    assert collect(address, verb="verify").code == 0
    assert collect(f"--project={address}", "--interval=exact", verb="estimate").code == 2
    assert collect("--project=nowhere", verb="estimate").code == 2

    # While it is open, an export verifies as far as it can without the seed; the server goes on.
    assert collect("export", "abstracts", "--db", store_url, "--out", "open.zip").code == 0
    assert collect("open.zip", verb="verify").code == 0

    assert collect("close", "abstracts", "--db", store_url, "--yes").code == 0
    ended = server.stop()
    assert (ended.code, ended.err) == (0, "")
    assert collect("export", "abstracts", "--db", store_url, "--out", "closed.zip").code == 0
    verified = collect("closed.zip", verb="verify")
    assert verified.code == 0, verified

    for kind in ("csv", "jsonl", "parquet"):
        assert (
            collect("export", "abstracts", "--db", store_url, "--format", kind, "--out", kind).code
            == 0
        )
        tables = [f"--{name}={kind}/{name}.{kind}" for name in ("answers", "judgements", "items")]
        ended = collect(*tables, "--json", verb="estimate")
        assert ended.code == 0, ended
        found = {e["subject"]: e for e in ended.json["results"]}
        assert found["right"]["value"] == pytest.approx(1.0, abs=1e-6)
        assert found["half"]["low"] - 0.1 < 0.5 < found["half"]["high"] + 0.1
        assert collect(*tables, verb="check").code in (0, 1)
    assert (
        collect(
            "export", "abstracts", "--db", store_url, "--format", "label-studio", "--out", "ls.json"
        ).code
        == 0
    )
    assert len(json.loads((tmp_path / "ls.json").read_text(encoding="utf-8"))) == N_ITEMS
    exported = [
        p.read_bytes() for p in tmp_path.rglob("*") if p.suffix in (".csv", ".jsonl", ".json")
    ]
    for name in ("open.zip", "closed.zip"):
        with zipfile.ZipFile(tmp_path / name) as whole:
            exported += [whole.read(member) for member in whole.namelist()]
    assert len(exported) > 20
    assert not any(b"@example.org" in data.lower() or b"Ann" in data for data in exported)


@pytest.mark.full
def test_a_changed_export_is_not_verified(
    collect: Run, serve: Callable[..., Served], sqlite_url: str, tmp_path: Path
) -> None:
    truth = begin(collect, sqlite_url, tmp_path)
    server = serve("--db", sqlite_url, "--key-file", "labels.key", "--port", 0)
    asyncio.run(
        crowd(
            server.url,
            "abstracts",
            invited(collect, sqlite_url, server.url),
            truth,
            protocol="partitioned",
            most=5,
        )
    )
    server.stop()
    collect("close", "abstracts", "--db", sqlite_url, "--yes")
    collect("export", "abstracts", "--db", sqlite_url, "--out", "closed.zip")
    with zipfile.ZipFile(tmp_path / "closed.zip") as whole:
        files = {name: whole.read(name) for name in whole.namelist()}
    flipped = files["answers.jsonl"].replace(b'"value":"no"', b'"value":"yes"', 1)
    assert flipped != files["answers.jsonl"]
    with zipfile.ZipFile(tmp_path / "changed.zip", "w") as out:
        for name, data in (files | {"answers.jsonl": flipped}).items():
            out.writestr(name, data)
    assert collect("changed.zip", verb="verify").code == 1


@pytest.mark.full
def test_a_forgotten_person_is_gone_and_the_export_still_verifies(
    collect: Run, serve: Callable[..., Served], store_url: str, tmp_path: Path
) -> None:
    truth = begin(collect, store_url, tmp_path)
    server = serve("--db", store_url, "--key-file", "labels.key", "--port", 0)
    asyncio.run(
        crowd(
            server.url,
            "abstracts",
            invited(collect, store_url, server.url),
            truth,
            protocol="partitioned",
            most=6,
        )
    )
    assert (
        collect("forget", "lung@example.org", "--db", store_url).code == 2
    )  # nobody can be asked, and --yes was not given
    ended = collect("forget", "Lung@Example.org", "--db", store_url, "--yes")
    assert ended.code == 0, ended

    async def knock() -> None:
        async with CrowdClient(server.url) as client:
            await client.sign_in("lung@example.org", PASSWORD)

    with pytest.raises(SignedOut):
        asyncio.run(knock())
    server.stop()
    assert collect("forget", "lung@example.org", "--db", store_url, "--yes").code == 2
    collect("close", "abstracts", "--db", store_url, "--yes")
    collect("export", "abstracts", "--db", store_url, "--out", "closed.zip")
    assert collect("closed.zip", verb="verify").code == 0
    assert collect("project", "abstracts", "--db", store_url, "--json").json["answers"] == 24
    if store_url.startswith("sqlite"):
        left = b"".join(path.read_bytes() for path in tmp_path.glob("labels.db*"))
        assert b"heart@example.org" in left
        assert b"lung@example.org" not in left.lower()


@pytest.mark.full
def test_a_backup_under_load_can_be_restored_and_verifies(
    collect: Run, serve: Callable[..., Served], sqlite_url: str, tmp_path: Path
) -> None:
    truth = begin(collect, sqlite_url, tmp_path)
    server = serve("--db", sqlite_url, "--key-file", "labels.key", "--port", 0)
    people = invited(collect, sqlite_url, server.url)
    counted: list[int] = []

    def each() -> None:
        counted.append(1)
        if len(counted) == 20:
            assert run(["collect", "backup", "copy.backup", "--db", sqlite_url]) == 0

    asyncio.run(crowd(server.url, "abstracts", people, truth, protocol="partitioned", each=each))
    server.stop()
    assert collect("backup", "copy.backup", "--db", sqlite_url).code == 2  # never overwritten
    assert collect("restore", "copy.backup", "--db", sqlite_url).code == 2
    assert collect("restore", "copy.backup", "--db", "again.db").code == 0
    answers = collect("project", "abstracts", "--db", "again.db", "--json").json["answers"]
    assert 20 <= answers <= len(counted)
    assert collect("close", "abstracts", "--db", "again.db", "--yes").code == 0
    assert collect("export", "abstracts", "--db", "again.db", "--out", "again.zip").code == 0
    assert collect("again.zip", verb="verify").code == 0
    assert (tmp_path / "again.db.key").stat().st_mode & 0o777 == 0o600


def test_a_backup_of_postgresql_can_be_restored_and_verifies(
    collect: Run, postgres_server: Any, postgres_url: str, tmp_path: Path
) -> None:
    begin(collect, postgres_url, tmp_path)
    assert collect("backup", "copy.backup", "--db", postgres_url).code == 0
    assert collect("restore", "copy.backup", "--db", postgres_url).code == 2
    name = postgres_server.new_database()
    try:
        url = postgres_server.url(name)
        assert collect("restore", "copy.backup", "--db", url, "--key-file", "labels.key").code == 0
        before, after = (
            collect("project", "abstracts", "--db", u, "--json").json for u in (postgres_url, url)
        )
        assert before == after
        assert collect("close", "abstracts", "--db", url, "--yes").code == 0
        assert collect("export", "abstracts", "--db", url, "--out", "again.zip").code == 0
        assert collect("again.zip", verb="verify").code == 0
    finally:
        postgres_server.drop_database(name)


def test_postgresql_is_served_by_several_processes(
    collect: Run, serve: Callable[..., Served], postgres_url: str, tmp_path: Path
) -> None:
    import socket

    truth = begin(collect, postgres_url, tmp_path)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = serve("--db", postgres_url, "--key-file", "labels.key", "--port", port, "--workers", 2)
    people = invited(collect, postgres_url, server.url)

    async def fill() -> list[int]:
        for _ in range(200):
            async with CrowdClient(server.url) as client:
                try:
                    await client.next("abstracts")
                except SignedOut:
                    break
                except Unreachable:
                    await asyncio.sleep(0.05)
        return await crowd(server.url, "abstracts", people, truth, protocol="partitioned")

    assert sum(asyncio.run(fill())) == questions(collect, postgres_url)
    assert server.stop().code == 0


# ------------------------------------------------------------------------------------------------------------------
# the server


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_server_says_where_it_is_and_stops_when_told(
    ready: Run, serve: Callable[..., Served], tmp_path: Path, number: signal.Signals
) -> None:
    server = serve("--port", 0)
    assert server.url.startswith("http://127.0.0.1:")
    if server.cpu is not None:
        assert server.cpu < 3  # of the processor: test machines are shared
    ended = server.stop(number)
    assert (ended.code, ended.out, ended.err) == (0, "stopped\n", "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--host", "0.0.0.0"), "--host must be this machine"),
        (("--host", "192.168.1.1"), "--behind-proxy"),
        (("--host", "example.org"), "--host must be this machine"),
        (("--behind-proxy", "http://labels.example.org"), "must be an https address"),
        (("--behind-proxy", "https://labels.example.org/path"), "without a path"),
        (("--behind-proxy", "https://user@labels.example.org"), "must be an https address"),
        (
            ("--tls-cert", "nowhere.pem", "--tls-key", "nowhere.pem"),
            "--tls-cert must be a readable file",
        ),
        (("--tls-cert", "here.pem"), "must come together"),
        (("--public-url", "https://labels.example.org"), "must come with --tls-cert"),
        (("--tls-cert", "here.pem", "--tls-key", "here.pem", "--host", "0.0.0.0"), "--public-url"),
        (
            (
                "--tls-cert",
                "here.pem",
                "--tls-key",
                "here.pem",
                "--behind-proxy",
                "https://labels.example.org",
            ),
            "without --tls-cert",
        ),
        (("--workers", "2"), "must be 1 with SQLite"),
        (("--workers", "0"), "must be 1 with SQLite"),
        (("--port", "70000"), "--port must be from 0 to 65535"),
        (("--answers-per-minute", "0"), "--answers-per-minute must be 1 or more"),
        (
            ("--db", "postgresql://nobody@127.0.0.1:1/none", "--key-file", "noracle.db.key"),
            "the database must answer",
        ),
        (("--db", "mysql://host/labels"), "--db must be"),
        (("--db", "nowhere.db"), "noracle collect init"),
        (("--key-file", "nowhere.key"), "the key file must be readable"),
        (("--db", "sqlite:///noracle.db?synchronous=off"), "synchronous"),
    ],
)
def test_the_server_refuses_in_one_line(
    ready: Run, tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    (tmp_path / "here.pem").write_text("no certificate")
    ended = ready("serve", *arguments)
    assert ended.code == 2, ended
    assert ended.out == ""
    assert message in ended.err
    assert len(ended.err.splitlines()) == 1


def test_a_port_that_is_taken_is_named(ready: Run, serve: Callable[..., Served]) -> None:
    port = serve("--port", 0).url.rpartition(":")[2]
    ended = ready("serve", "--port", port)
    assert ended.code == 2
    assert f"127.0.0.1:{port}" in ended.err


def metrics_status(url: str, token: str | None) -> int:
    request = urllib.request.Request(
        f"{url}/metrics", headers={} if token is None else {"Authorization": f"Bearer {token}"}
    )
    try:
        with urllib.request.urlopen(request, timeout=20) as reply:
            return int(reply.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_the_token_of_metrics_comes_from_the_environment(
    ready: Run, serve: Callable[..., Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    token = "t0ken-of-twenty-nine-letters!"
    monkeypatch.setenv("NORACLE_METRICS_TOKEN", token)
    server = serve("--port", 0)
    assert [metrics_status(server.url, given) for given in (token, token[:-1], "", None)] == [
        200,
        404,
        404,
        404,
    ]
    server.stop()
    monkeypatch.setenv("NORACLE_METRICS_TOKEN", "")
    url = serve("--port", 0).url
    assert [metrics_status(url, given) for given in (None, "")] == [200, 200]


@pytest.mark.parametrize(
    "token",
    [
        "short",
        "with a space in the middle of it",
        "ünïcode-is-not-for-headers",
        "line-one-of-two\nline-two",
    ],
)
def test_a_bad_token_of_metrics_is_refused_and_not_repeated(
    ready: Run, monkeypatch: pytest.MonkeyPatch, token: str
) -> None:
    monkeypatch.setenv("NORACLE_METRICS_TOKEN", token)
    ended = ready("serve", "--port", "0")
    assert ended.code == 2
    assert "NORACLE_METRICS_TOKEN" in ended.err
    assert token not in ended.err


def test_behind_a_proxy_the_public_address_counts() -> None:
    settings = ServerSettings(
        url="sqlite:///x.db",
        key_file=Path("x.key"),
        host="0.0.0.0",
        proxy="https://labels.example.org/",
    )
    assert settings.secure
    assert settings.base_url(8000) == "https://labels.example.org"
    plain = ServerSettings(url="sqlite:///x.db", key_file=Path("x.key"), host="::1")
    assert (plain.secure, plain.base_url(80)) == (False, "http://[::1]:80")


def test_the_key_is_private_random_and_never_replaced(tmp_path: Path) -> None:
    path = tmp_path / "key"
    make_key(path)
    assert path.stat().st_mode & 0o777 == 0o600
    first = read_key(path)
    with pytest.raises(ArgumentError, match="must not exist yet"):
        make_key(path)
    make_key(tmp_path / "other")
    assert read_key(tmp_path / "other") != first
    path.chmod(0o640)
    with pytest.raises(ArgumentError, match="owner alone"):
        read_key(path)
    for text in ("", "00" * 32, "ab" * 32, "secret", "12" * 16):
        path.write_text(text)
        path.chmod(0o600)
        with pytest.raises(ArgumentError, match="32 random bytes"):
            read_key(path)


def test_key_and_database_have_places_of_their_own() -> None:
    assert database_url("a/labels.db") == "sqlite:///a/labels.db"
    assert key_path("sqlite:///a/labels.db") == Path("a/labels.db.key")
    assert key_path("postgresql://host/labels") == Path("noracle.key")
    assert key_path("postgresql://host/labels", "elsewhere") == Path("elsewhere")


# -----------------------------------------------------------------------------------------------------------------
# what is refused


@pytest.mark.parametrize(
    "line",
    [
        "project abstracts --spec nowhere.toml",
        "project abstracts --spec broken.toml",
        "project abstracts --spec list.json",
        "project abstracts --protocol partitioned",
        "project abstracts --protocol partitioned --classes a",
        "project abstracts --protocol nonsense --classes a,b",
        "project Abstracts --protocol partitioned --classes a,b",
        "project --protocol partitioned --classes a,b",
        "project --live",
        "project old --live --classes a,b",
        "project nope",
        "project old --name New",
        "project old --protocol partitioned --classes a,b",
        "project other --protocol partitioned --classes a,b --owner nobody@example.org",
        "import old",
        "import old --items nowhere.csv",
        "import old --items items.csv --system right.csv",
        "import old --gold gold.csv --system right.csv",
        "import old --system right=right.csv",
        "seal old --yes",
        "seal nope --yes",
        "open old",
        "close old --yes",
        "close old",
        "invite old --class nope",
        "invite old --role auditor --class heart",
        "invite old --place 1",
        "invite old --days 1000",
        "export old",
        "export nope",
        "export old --format csv --out items.csv",
        "backup nowhere/copy",
        "restore nowhere --db new.db",
        "forget nobody@example.org --yes",
        "demo --n-items 3",
        "init --email ann",
        "init --email ben@example.org",
        "nonsense",
    ],
)
def test_what_is_refused_is_one_line_and_exit_code_2(ready: Run, tmp_path: Path, line: str) -> None:
    write_files(tmp_path, 10)
    (tmp_path / "broken.toml").write_text("name = ")
    (tmp_path / "list.json").write_text("[1]")
    ended = ready(*line.split(), stdin=PASSWORD)
    assert ended.code == 2, ended
    assert ended.out == ""
    assert len(ended.err.splitlines()) == 1, ended.err
    assert "Traceback" not in ended.err


def test_passwords_are_never_arguments_and_short_ones_are_refused(
    collect: Run, tmp_path: Path
) -> None:
    assert "--password" not in collect("init", "--help").out
    assert collect("init", "--email", "ann@example.org", stdin="short\n").code == 2
    assert collect("init", "--email", "ann@example.org", stdin="").code == 2
    assert not (tmp_path / "noracle.db.key").exists()
    assert collect("init", "--email", "ann@example.org", stdin=PASSWORD).code == 0
    assert (tmp_path / "noracle.db").stat().st_mode & 0o777 == 0o600


def test_the_database_may_be_named_by_the_environment(
    collect: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("NORACLE_DB", "sqlite:///named.db")
    assert collect("init", "--email", "ann@example.org", stdin=PASSWORD).code == 0
    assert (tmp_path / "named.db").is_file()
    assert "no project yet" in collect("project").out


def test_every_command_shows_an_example(collect: Run) -> None:
    names = [
        "serve",
        "init",
        "project",
        "import",
        "seal",
        "open",
        "close",
        "invite",
        "export",
        "backup",
        "restore",
        "simulate",
        "demo",
        "forget",
    ]
    listed = collect("--help").out
    for name in names:
        assert re.search(rf"\b{name}\b", listed)
        text = collect(name, "--help").out
        assert "Example:" in text
        assert f"noracle collect {name}" in " ".join(text.split())


def test_a_sealed_project_keeps_its_specification(
    collect: Run, sqlite_url: str, tmp_path: Path
) -> None:
    begin(collect, sqlite_url, tmp_path)
    for arguments in (
        ("project", "abstracts", "--change", "--spec", "project.toml"),
        ("import", "abstracts", "--items", "items.csv"),
        ("seal", "abstracts", "--yes"),
        ("open", "abstracts"),
        ("import", "abstracts", "--system", "right=right.csv"),
    ):
        ended = collect(*arguments, "--db", sqlite_url)
        assert ended.code == 2, (arguments, ended)
        assert len(ended.err.splitlines()) == 1


def test_targeted_chances_are_recorded_and_verified(ready: Run, tmp_path: Path) -> None:
    n, k = 40, len(CLASSES)
    (tmp_path / "items.csv").write_text(
        "item,text\n" + "".join(f"i{i},text {i}\n" for i in range(n)), encoding="utf-8"
    )
    chances = [
        f"i{i},{CLASSES[c]},{0.85 if c == i % k else 0.05}\n" for i in range(n) for c in range(k)
    ]
    (tmp_path / "chances.csv").write_text(
        "item,class,propensity\n" + "".join(chances), encoding="utf-8"
    )
    assert ready("import", "old", "--items", "items.csv").code == 0
    (tmp_path / "few.csv").write_text(
        "item,class,propensity\n" + "".join(chances[:-4]), encoding="utf-8"
    )
    assert ready("seal", "old", "--chances", "few.csv", "--yes").code == 2
    assert ready("seal", "old", "--chances", "chances.csv", "--yes").code == 0
    assert ready("open", "old").code == 0
    assert ready("close", "old", "--yes").code == 0
    assert ready("export", "old", "--out", "old.zip").code == 0
    assert ready("old.zip", verb="verify").code == 0
    with zipfile.ZipFile(tmp_path / "old.zip") as whole:
        routes = [json.loads(line) for line in whole.read("routes.jsonl").splitlines()]
    assert len(routes) == n
    assert {round(route["propensity"], 9) for route in routes} <= {0.85, 0.05}
    assert sum(route["propensity"] > 0.5 for route in routes) > n / 2


def test_an_invitation_works_once(
    collect: Run, serve: Callable[..., Served], sqlite_url: str, tmp_path: Path
) -> None:
    begin(collect, sqlite_url, tmp_path)
    server = serve("--db", sqlite_url, "--key-file", "labels.key", "--port", 0)
    link = collect(
        "invite", "abstracts", "--db", sqlite_url, "--class", "lung", "--url", server.url, "--json"
    ).json["invitations"][0]["link"]

    async def twice() -> None:
        async with CrowdClient(server.url) as first, CrowdClient(server.url) as second:
            await first.join(link, name="A", email="a@example.org", password=PASSWORD)
            asked = await first.next("abstracts")
            assert asked is not None
            assert asked["shown"] == [CLASSES.index("lung")]
            again = await first.next("abstracts")
            assert again is not None
            assert (again["question"], again["key"]) == (asked["question"], asked["key"])
            answer, _ = await first.answer("abstracts", asked, "no")
            assert await first.answer("abstracts", asked, "no", want_next=False) == (answer, None)
            with pytest.raises(Conflict):
                await first.answer("abstracts", asked, "yes")
            with pytest.raises(NotFound):
                await second.join(link, name="B", email="b@example.org", password=PASSWORD)
            await first.sign_out()
            with pytest.raises(SignedOut):
                await first.next("abstracts")

    asyncio.run(twice())


def test_from_nothing_to_the_first_question_in_six_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, collect: Run, serve: Callable[..., Served]
) -> None:
    """init, project, seal, open, invite, serve."""
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"a{k},Text {k}\n" for k in range(12))
    (tmp_path / "items.csv").write_text(f"item,text\n{rows}")
    made = ("--protocol", "partitioned", "--classes", "cat,dog", "--items", "items.csv")
    six: list[tuple[str, ...]] = [
        ("init", "--email", "ann@example.org", "--db", "x.db"),
        ("project", "pets", "--db", "x.db", *made),
        ("seal", "pets", "--yes", "--db", "x.db"),
        ("open", "pets", "--db", "x.db"),
    ]
    for arguments in six:
        stdin = "a long password\n" if arguments[0] == "init" else ""
        ended = collect(*arguments, stdin=stdin) if stdin else collect(*arguments)
        assert ended.code == 0, ended
    server = serve("--db", "x.db", "--port", 0)
    ended = collect("invite", "pets", "--db", "x.db", "--url", server.url, "--json")
    link = json.loads(ended.out)["invitations"][0]["link"]
    from noracle.collect import Client

    with Client(server.url) as client:
        client.join(link, name="Bob", email="bob@example.org", password="a long password")
        asked = client.next("pets")
        assert asked is not None
        assert asked["content"]["text"].startswith("Text ")


def test_serve_makes_the_usual_database_and_says_where_its_first_account_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import urllib.request

    source = str(Path(sys.modules["noracle"].__file__ or "").parents[1])
    env = {**os.environ, "PYTHONPATH": source}
    env.pop("NORACLE_DB", None)
    command = [sys.executable, "-m", "noracle", "collect", "serve", "--port", "0"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=env, cwd=tmp_path
    ) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(3)]
        found = re.search(r"http://\S+/first/[0-9a-f]{64}", lines[2])
        assert found, lines
        assert (tmp_path / "noracle.db").stat().st_mode & 0o777 == 0o600
        with urllib.request.urlopen(found[0], timeout=20) as reply:
            assert b"The first account" in reply.read()
        process.terminate()
        process.communicate(timeout=60)
    assert process.returncode == 0
