"""``noracle doctor``: what works on this machine."""

from __future__ import annotations

import dataclasses
import os
import platform
import re
import shutil
import sys
import tempfile
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

import typer

from noracle._version import __version__
from noracle.cli import _options as opt
from noracle.cli._options import option, with_options
from noracle.cli._output import say, say_json, working

EXAMPLE = """Example:

noracle doctor

noracle doctor --full --json

Exit code 1 says that something is broken that every verb needs."""

Health = Literal["fine", "absent", "broken"]

# What each extra is for; the names are those of the package.
EXTRAS = {
    "arrow": "tables of Arrow",
    "learn": "noracle learn: training on what items are not",
    "collect": "noracle collect: the service that collects labels",
    "search": "noracle ask and search: models behind a server",
    "inspect": "scorers, metrics and solvers for Inspect",
    "crowd": "aggregates of crowd-kit beside ours",
    "spark": "counts on a Spark cluster",
    "ibis": "tables of Ibis, in the warehouse where they are",
    "sqlframe": "frames of SQLFrame",
    "store": "noracle report --store at a URL",
}
_LEAST_FREE = 1_000_000_000
# Accuracy of the self-test: 100 items, 30 ordinary labels (24 right), 70 ruled-out classes (66 not
# the answer), K = 10.
_KNOWN = (0.747739, 0.584906, 0.866185)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One thing that was looked at. ``needed`` by every verb: if it is broken, so is the
    installation.
    """

    part: str
    name: str
    health: Health
    found: str
    remedy: str = ""
    needed: bool = True


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _DoctorOptions:
    full: bool = option("Also import torch, to name its device, and start Java.", default=False)


@with_options()
def command(own: _DoctorOptions, output: opt.JsonOutput) -> None:
    """Say what works on this machine, what is missing, and the line that installs it.

    Nothing is sent anywhere. An extra that is absent is no fault; a browser is never needed.
    """
    with working("looking"):
        lines = examine(full=own.full)
    broken = [line for line in lines if line.health == "broken" and line.needed]
    if output.as_json:
        say_json(
            {
                "healthy": not broken,
                "version": __version__,
                "lines": [dataclasses.asdict(line) for line in lines],
            }
        )
    else:
        _show(lines)
        say(
            "\nsomething that every verb needs is broken"
            if broken
            else "\neverything that every verb needs works"
        )
    if broken:
        raise typer.Exit(1)


def examine(*, full: bool = False) -> list[Line]:
    """Everything that the doctor looks at."""
    core, extras = _requirements()
    return [
        Line(
            part="machine",
            name="python",
            health="fine",
            found=f"{platform.python_version()} ({sys.executable})",
        ),
        Line(
            part="machine",
            name="noracle",
            health="fine",
            found=f"{__version__} ({Path(__file__).parents[1]})",
        ),
        Line(part="machine", name="cores", health="fine", found=str(os.cpu_count() or "unknown")),
        _memory(),
        _temporary(),
        _java(full=full),
        *_torch(full=full),
        *(_dependency(name, floor) for name, floor in core),
        *(_extra(extra, needs) for extra, needs in extras.items()),
        _duckdb(),
        _self_test(),
    ]


# ----------------------------------------------------------------------------------------------------------------
# the machine


def _memory() -> Line:
    from noracle.evidence import frames as files

    total = files._memory()
    limit = (
        os.environ.get("NORACLE_MEMORY_LIMIT")
        or f"{min(files._MEMORY_LIMIT, total // 2) / 1e9:.1f} GB"
    )
    found = f"{total / 1e9:.1f} GB; counting takes at most {limit}, then spills to disk (NORACLE_MEMORY_LIMIT)"
    return Line(part="machine", name="memory", health="fine", found=found)


def _temporary() -> Line:
    folder = tempfile.gettempdir()
    try:
        with tempfile.NamedTemporaryFile(prefix="noracle-") as file:
            file.write(b"noracle")
            file.flush()
        free = shutil.disk_usage(folder).free
    except OSError as error:
        remedy = "Set TMPDIR to a folder that can be written."
        return Line(
            part="machine",
            name="temporary folder",
            health="broken",
            found=f"{folder}: {error.strerror}",
            remedy=remedy,
        )
    remedy = (
        "" if free >= _LEAST_FREE else "Set TMPDIR to a larger disk before counting large tables."
    )
    return Line(
        part="machine",
        name="temporary folder",
        health="fine",
        found=f"{folder}, {free / 1e9:.1f} GB free",
        remedy=remedy,
    )


def _java(*, full: bool) -> Line:
    found = shutil.which(
        "java", path=os.pathsep.join(filter(None, [_java_home(), os.environ.get("PATH", "")]))
    )
    if found is None:
        return Line(
            part="machine",
            name="java",
            health="absent",
            found="none",
            remedy="Spark needs Java 17.",
            needed=False,
        )
    said = found
    if full:
        import subprocess

        done = subprocess.run(
            [found, "-version"], capture_output=True, text=True, check=False, timeout=30
        )
        said = f"{found}: {(done.stderr or done.stdout).splitlines()[0] if done.stderr or done.stdout else done.returncode}"
    return Line(part="machine", name="java", health="fine", found=said, needed=False)


def _java_home() -> str:
    home = os.environ.get("JAVA_HOME")
    return str(Path(home) / "bin") if home else ""


def _torch(*, full: bool) -> list[Line]:
    """Its device; torch is slow to import, so only if it was asked for."""
    if _version("torch") is None:
        return []
    if not full:
        return [
            Line(
                part="machine",
                name="torch device",
                health="fine",
                found="not looked at; see --full",
                needed=False,
            )
        ]
    import torch

    device = f"cuda ({torch.cuda.get_device_name(0)})" if torch.cuda.is_available() else "cpu"
    return [Line(part="machine", name="torch device", health="fine", found=device, needed=False)]


# ----------------------------------------------------------------------------------------------------------------
# libraries


def _requirements() -> tuple[list[tuple[str, str]], dict[str, list[tuple[str, str]]]]:
    """Names and floors of the core and of each extra, from the metadata of the installed package."""
    try:
        wanted = metadata.requires("noracle") or []
    except metadata.PackageNotFoundError:
        wanted = []
    core: list[tuple[str, str]] = []
    extras: dict[str, list[tuple[str, str]]] = {name: [] for name in EXTRAS}
    for text in wanted:
        requirement, _, marker = text.partition(";")
        match = re.match(
            r"\s*([A-Za-z0-9._-]+)(?:\[[^]]*\])?\s*(?:>=\s*([0-9][0-9.]*))?", requirement
        )
        if match is None or ("win32" in marker and (sys.platform == "win32") == ("!=" in marker)):
            continue
        name, floor = match[1], match[2] or ""
        extra = re.search(r"extra\s*==\s*['\"]([^'\"]+)['\"]", marker)
        if extra is None:
            core.append((name, floor))
        elif extra[1] in extras and name != "noracle":
            extras[extra[1]].append((name, floor))
    return core, extras


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _is_old(version: str, floor: str) -> bool:
    """Whether a version lies below its floor, by the numbers that it begins with.

    Examples
    --------
    >>> _is_old("1.9", "1.12"), _is_old("2.0.0rc1", "2.0"), _is_old("3", "2.9")
    (True, False, False)
    """

    def numbers(text: str) -> list[int]:
        return (
            [int(part) for part in re.findall(r"^\d+(?:\.\d+)*", text)[0].split(".")]
            if text[:1].isdigit()
            else []
        )

    mine, least = numbers(version), numbers(floor)
    size = max(len(mine), len(least))
    return mine + [0] * (size - len(mine)) < least + [0] * (size - len(least))


def _dependency(name: str, floor: str) -> Line:
    version = _version(name)
    remedy = f"pip install '{name}>={floor}'" if floor else f"pip install {name}"
    if version is None:
        return Line(part="core", name=name, health="broken", found="not installed", remedy=remedy)
    if floor and _is_old(version, floor):
        return Line(
            part="core",
            name=name,
            health="broken",
            found=f"{version}, needs {floor}",
            remedy=remedy,
        )
    return Line(
        part="core",
        name=name,
        health="fine",
        found=f"{version} (at least {floor})" if floor else version,
    )


def _extra(extra: str, needs: list[tuple[str, str]]) -> Line:
    lacking = [
        name
        for name, floor in needs
        if (version := _version(name)) is None or (floor and _is_old(version, floor))
    ]
    found = f"{EXTRAS[extra]}" if not lacking else f"{EXTRAS[extra]}; lacks {', '.join(lacking)}"
    return Line(
        part="extra",
        name=extra,
        health="absent" if lacking else "fine",
        found=found,
        needed=False,
        remedy=f"pip install 'noracle[{extra}]'" if lacking else "",
    )


# ----------------------------------------------------------------------------------------------------------------
# does it work?


def _duckdb() -> Line:
    try:
        from noracle.evidence.frames import connect

        with connect() as connection:
            row = connection.execute("SELECT SUM(i) FROM range(101) t(i)").fetchone()
        works = row is not None and int(row[0]) == 5050
        found = "a query works" if works else f"a query gave {row}"
    except Exception as error:  # noqa: BLE001 (whatever is wrong with the engine is what we want to know)
        works, found = False, f"{type(error).__name__}: {error}".splitlines()[0]
    remedy = "" if works else "pip install --force-reinstall duckdb"
    return Line(
        part="test", name="duckdb", health="fine" if works else "broken", found=found, remedy=remedy
    )


def _self_test() -> Line:
    """An estimate whose value is known: if it differs, something below us computes wrongly."""
    try:
        values = self_test()
        works = all(abs(a - b) < 1e-5 for a, b in zip(values, _KNOWN, strict=True))
        found = (
            "an estimate on 100 items is as stored"
            if works
            else f"an estimate on 100 items is {values}, stored {_KNOWN}"
        )
    except Exception as error:  # noqa: BLE001 (whatever is wrong is what we want to know)
        works, found = False, f"{type(error).__name__}: {error}".splitlines()[0]
    remedy = "" if works else "pip install --force-reinstall noracle"
    return Line(
        part="test",
        name="estimate",
        health="fine" if works else "broken",
        found=found,
        remedy=remedy,
    )


def self_test() -> tuple[float, float, float]:
    """Value, low and high of the estimate on 100 items."""
    from noracle.accuracy import estimate_accuracy
    from noracle.counts import AccuracyCounts

    e = estimate_accuracy(
        AccuracyCounts.from_counts(n_classes=10, ordinary=(30, 24), complementary=(70, 66))
    )
    return e.value, e.low, e.high


def _show(lines: list[Line]) -> None:
    marks: dict[Any, str] = {"fine": "ok", "absent": "-", "broken": "BROKEN"}
    width = max(len(line.name) for line in lines)
    part = ""
    for line in lines:
        if line.part != part:
            say(f"{'' if not part else chr(10)}{line.part}", style="bold")
            part = line.part
        say(
            f"  {line.name:<{width}}  {marks[line.health]:<6}  {line.found}",
            style="bold red" if line.health == "broken" else "",
        )
        if line.remedy:
            say(f"  {'':<{width}}  {'':<6}  {line.remedy}")
