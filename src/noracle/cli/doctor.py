"""``noracle doctor``: what works on this machine."""

from __future__ import annotations

import dataclasses
import importlib
import itertools
import os
import platform
import re
import shlex
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

import typer

from noracle._version import __version__
from noracle.cli import _options as opt
from noracle.cli._options import option, with_options
from noracle.cli._output import say, say_json, working
from noracle.errors import require

EXAMPLE = opt.paragraphs("""Example:
noracle doctor
noracle doctor --fix
noracle doctor --fix --extra learn
noracle doctor --full --json
Exit code 1 says that something is broken that every verb needs.""")

Health = Literal["fine", "absent", "broken"]

# What each extra is for; the names are those of the package.
EXTRAS = {
    "arrow": "tables of Arrow",
    "learn": "noracle learn: training on what items are not",
    "collect": "noracle collect: the service that collects labels",
    "oidc": "sign-in to the service by OpenID Connect",
    "search": "noracle ask and search: models behind a server",
    "dspy": "metric and gate for DSPy",
    "inspect": "scorers, metrics and solvers for Inspect",
    "crowd": "aggregates of crowd-kit beside ours",
    "spark": "counts on a Spark cluster",
    "ibis": "tables of Ibis, in the warehouse where they are",
    "sqlframe": "frames of SQLFrame",
    "store": "noracle report --store at a URL",
}
_REQUIREMENT = re.compile(r"\s*([A-Za-z0-9._-]+)(?:\[[^]]*\])?\s*(?:>=\s*([0-9][0-9.]*))?")
_LEAST_FREE = 1_000_000_000
# Accuracy of the self-test: 100 items, 30 ordinary labels (24 right), 70 ruled-out classes (66 not
# the answer), K = 10.
_KNOWN = (0.747739, 0.584906, 0.866185)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class HealthLine:
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
    fix: bool = option("Install with pip what is broken, then look again.", default=False)
    extra: opt.Names = option("With --fix: also install what these extras need.", "A,B")


@with_options()
def command(own: _DoctorOptions, output: opt.JsonOutput) -> None:
    """Say what works on this machine, what is missing, and the line that installs it.

    Nothing is sent anywhere. An extra that is absent is no fault; a browser is never needed. With
    --fix missing or outdated libraries are installed into this Python, and nothing else is changed.
    """
    extras = opt.names(own.extra) or []
    unknown = sorted(set(extras) - set(EXTRAS))
    require(not unknown, f"--extra must be one of {', '.join(EXTRAS)}; got {', '.join(unknown)}.")
    require(own.fix or not extras, f"--extra must go with --fix; got {', '.join(extras)} alone.")
    with working("looking"):
        lines = examine(full=own.full)
    done: list[Repair] = []
    if own.fix:
        wanted = missing(lines, extras)
        if wanted:
            with working(f"installing {', '.join(wanted)}"):
                done.append(install(wanted))
            lines = examine(full=own.full) if done[-1].worked else lines
    broken = [line for line in lines if line.health == "broken" and line.needed]
    if output.as_json:
        said = [dataclasses.asdict(line) for line in lines]
        repairs = [dataclasses.asdict(repair) for repair in done]
        found = {"healthy": not broken, "version": __version__, "lines": said}
        say_json({**found, "repairs": repairs} if own.fix else found)
    else:
        _show(lines)
        for repair in done:
            say(f"\n{'installed' if repair.worked else 'NOT installed'}: {repair.command}")
            if not repair.worked:
                say(f"  {repair.said}")
        if own.fix and not done:
            rest = "what is left needs you" if broken else "there is nothing to fix"
            say(f"\nno library is missing; {rest}")
        what = "something that every verb needs is broken"
        say(f"\n{what if broken else 'everything that every verb needs works'}")
    if broken:
        raise typer.Exit(1)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Repair:
    """What was installed, and how that ended."""

    command: str
    worked: bool
    said: str


def missing(lines: Sequence[HealthLine], extras: Sequence[str] = ()) -> list[str]:
    """What to install: libraries of the core that are absent or too old, and what these extras lack."""
    core, needs = _requirements()
    broken = {line.name for line in lines if line.part == "core" and line.health == "broken"}
    wanted = [need for need in core if need[0] in broken]
    wanted += [need for extra in extras for need in needs[extra] if _lacks(*need)]
    return list(dict.fromkeys(f"{name}>={floor}" if floor else name for name, floor in wanted))


def install(wanted: Sequence[str]) -> Repair:
    """Install libraries into the Python that runs now."""
    import subprocess

    line = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", *wanted]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    told = [text for text in (done.stderr or done.stdout).splitlines() if text.strip()]
    errors = [text for text in told if text.startswith("ERROR")] or told or [str(done.returncode)]
    importlib.invalidate_caches()
    return Repair(command=shlex.join(line), worked=done.returncode == 0, said=errors[-1])


def examine(*, full: bool = False) -> list[HealthLine]:
    """Everything that the doctor looks at."""
    core, extras = _requirements()
    return [
        _machine("python", f"{platform.python_version()} ({sys.executable})"),
        _machine("noracle", f"{__version__} ({Path(__file__).parents[1]})"),
        _machine("cores", str(os.cpu_count() or "unknown")),
        _memory(),
        _temporary(),
        _java(full=full),
        *_torch(full=full),
        *(_dependency(name, floor) for name, floor in core),
        *(_extra(extra, needs) for extra, needs in extras.items()),
        _test("duckdb", _query, "duckdb"),
        _test("estimate", _known_estimate, "noracle"),
    ]


def _machine(name: str, found: str, health: Health = "fine", **more: Any) -> HealthLine:
    return HealthLine(part="machine", name=name, health=health, found=found, **more)


def _memory() -> HealthLine:
    from noracle.evidence import frames as files

    total = files._memory()
    most = f"{min(files._MEMORY_LIMIT, total // 2) / 1e9:.1f} GB"
    limit = os.environ.get("NORACLE_MEMORY_LIMIT") or most
    counting = f"counting takes at most {limit}, then spills to disk (NORACLE_MEMORY_LIMIT)"
    return _machine("memory", f"{total / 1e9:.1f} GB; {counting}")


def _temporary() -> HealthLine:
    name, folder = "temporary folder", tempfile.gettempdir()
    try:
        with tempfile.NamedTemporaryFile(prefix="noracle-") as file:
            file.write(b"noracle")
            file.flush()
        free = shutil.disk_usage(folder).free
    except OSError as error:
        remedy = "Set TMPDIR to a folder that can be written."
        return _machine(name, f"{folder}: {error.strerror}", "broken", remedy=remedy)
    remedy = "Set TMPDIR to a larger disk before counting large tables."
    found = f"{folder}, {free / 1e9:.1f} GB free"
    return _machine(name, found, remedy="" if free >= _LEAST_FREE else remedy)


def _java(*, full: bool) -> HealthLine:
    home = os.environ.get("JAVA_HOME")
    places = [str(Path(home) / "bin") if home else "", os.environ.get("PATH", "")]
    found = shutil.which("java", path=os.pathsep.join(filter(None, places)))
    if found is None:
        return _machine("java", "none", "absent", remedy="Spark needs Java 17.", needed=False)
    said = found
    if full:
        import subprocess

        done = subprocess.run(
            [found, "-version"], capture_output=True, text=True, check=False, timeout=30
        )
        told = done.stderr or done.stdout
        said = f"{found}: {told.splitlines()[0] if told else done.returncode}"
    return _machine("java", said, needed=False)


def _torch(*, full: bool) -> list[HealthLine]:
    """Its device; torch is slow to import, so only if it was asked for."""
    if _version("torch") is None:
        return []
    device = "not looked at; see --full"
    if full:
        import torch

        device = f"cuda ({torch.cuda.get_device_name(0)})" if torch.cuda.is_available() else "cpu"
    return [_machine("torch device", device, needed=False)]


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
        match = _REQUIREMENT.match(requirement)
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
        found = re.match(r"\d+(?:\.\d+)*", text)
        return [int(part) for part in found[0].split(".")] if found else []

    pairs = itertools.zip_longest(numbers(version), numbers(floor), fillvalue=0)
    mine, least = zip(*pairs, strict=True) if floor else ((), ())
    return mine < least


def _lacks(name: str, floor: str) -> bool:
    version = _version(name)
    return version is None or _is_old(version, floor)


def _dependency(name: str, floor: str) -> HealthLine:
    version = _version(name)
    found, remedy, health = version or "not installed", "", "fine"
    if _lacks(name, floor):
        health, remedy = (
            "broken",
            f"pip install '{name}>={floor}'" if floor else f"pip install {name}",
        )
        found += f", needs {floor}" if version else ""
    elif floor:
        found += f" (at least {floor})"
    return HealthLine(part="core", name=name, health=health, found=found, remedy=remedy)  # type: ignore[arg-type]


def _extra(extra: str, needs: list[tuple[str, str]]) -> HealthLine:
    lacking = [name for name, floor in needs if _lacks(name, floor)]
    return HealthLine(
        part="extra",
        name=extra,
        health="absent" if lacking else "fine",
        found=EXTRAS[extra] + (f"; lacks {', '.join(lacking)}" if lacking else ""),
        needed=False,
        remedy=f"pip install 'noracle[{extra}]'" if lacking else "",
    )


def _test(name: str, works: Callable[[], tuple[bool, str]], package: str) -> HealthLine:
    """Whether something works, whatever may be wrong with it."""
    try:
        fine, found = works()
    except Exception as error:  # noqa: BLE001 (whatever is wrong is what we want to know)
        fine, found = False, f"{type(error).__name__}: {error}".splitlines()[0]
    remedy = "" if fine else f"pip install --force-reinstall {package}"
    health: Health = "fine" if fine else "broken"
    return HealthLine(part="test", name=name, health=health, found=found, remedy=remedy)


def _query() -> tuple[bool, str]:
    from noracle.evidence.frames import connect

    with connect() as connection:
        row = connection.execute("SELECT SUM(i) FROM range(101) t(i)").fetchone()
    works = row is not None and int(row[0]) == 5050
    return works, "a query works" if works else f"a query gave {row}"


def _known_estimate() -> tuple[bool, str]:
    """An estimate whose value is known: if it differs, something below us computes wrongly."""
    values = self_test()
    works = all(abs(a - b) < 1e-5 for a, b in zip(values, _KNOWN, strict=True))
    what = "an estimate on 100 items is"
    return works, f"{what} as stored" if works else f"{what} {values}, stored {_KNOWN}"


def self_test() -> tuple[float, float, float]:
    """Value, low and high of the estimate on 100 items."""
    from noracle.accuracy import estimate_accuracy
    from noracle.counts import AccuracyCounts

    counts = AccuracyCounts.from_counts(n_classes=10, ordinary=(30, 24), complementary=(70, 66))
    e = estimate_accuracy(counts)
    return e.value, e.low, e.high


def _show(lines: list[HealthLine]) -> None:
    marks: dict[Any, str] = {"fine": "ok", "absent": "-", "broken": "BROKEN"}
    width = max(len(line.name) for line in lines)
    part = ""
    for line in lines:
        if line.part != part:
            say(f"{'' if not part else chr(10)}{line.part}", style="bold")
            part = line.part
        style = "bold red" if line.health == "broken" else ""
        say(f"  {line.name:<{width}}  {marks[line.health]:<6}  {line.found}", style=style)
        if line.remedy:
            say(f"  {'':<{width}}  {'':<6}  {line.remedy}")
