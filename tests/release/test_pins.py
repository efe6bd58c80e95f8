"""What a release says about itself: one version everywhere, every library pinned, the same checks
in continuous integration as at home.
"""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from noracle._version import __version__

ROOT = Path(__file__).parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))[
    "project"
]
INSTALLED = {canonicalize_name(d.name): d for d in importlib.metadata.distributions()}
# What may be installed and not pinned: the package itself, and pip, which comes with every
# environment.
UNPINNED = {"noracle", "pip"}
PLACES = [(python, system) for python in ("3.11", "3.12", "3.13") for system in ("linux", "darwin")]


def pins(text: str) -> dict[str, str]:
    lines = [line.split("#")[0].strip() for line in text.splitlines()]
    found = [re.fullmatch(r"([A-Za-z0-9._-]+)==(\S+)", line) for line in lines if line]
    assert all(found), "every line of constraints.txt must be name==version"
    return {canonicalize_name(m[1]): m[2] for m in found if m}


PINS = pins((ROOT / "constraints.txt").read_text(encoding="utf-8"))


def named(extras: set[str]) -> list[Requirement]:
    """What the project asks for itself, with these extras."""
    asked = [Requirement(line) for line in PROJECT["dependencies"]]
    todo, done = list(extras), set()
    while todo:
        extra = todo.pop()
        if extra not in done:
            done.add(extra)
            for requirement in map(Requirement, PROJECT["optional-dependencies"][extra]):
                todo += requirement.extras if requirement.name == "noracle" else []
                asked += [requirement] if requirement.name != "noracle" else []
    return asked


def closure(extras: set[str], *, python: str, system: str) -> set[str]:
    """Every distribution that an install would bring on that Python and system, as far as what is
    installed here can tell.
    """
    place = {
        **default_environment(),
        "python_version": python,
        "python_full_version": f"{python}.1",
        "sys_platform": system,
    }
    place |= {"platform_system": {"linux": "Linux", "darwin": "Darwin"}[system]}
    todo, seen = [(r, ("",)) for r in named(extras)], set()
    while todo:
        requirement, wanted = todo.pop()
        name, key = (
            canonicalize_name(requirement.name),
            (requirement.name, tuple(sorted(requirement.extras))),
        )
        if requirement.marker and not any(
            requirement.marker.evaluate({**place, "extra": e}) for e in wanted
        ):
            continue
        if key not in seen and name in INSTALLED:
            inner = ("", *requirement.extras)
            todo += [(r, inner) for r in map(Requirement, INSTALLED[name].requires or [])]
        seen.add(key)
    return {canonicalize_name(name) for name, _ in seen}


def test_the_version_is_that_of_the_newest_entry_in_the_changelog() -> None:
    heading = re.search(
        r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), flags=re.MULTILINE
    )
    assert heading is not None
    assert heading[1] == __version__
    assert str(Version(__version__)) == __version__


def test_the_version_is_written_once_and_static() -> None:
    text = (ROOT / "src" / "noracle" / "_version.py").read_text(encoding="utf-8")
    assert re.findall(r'^__version__ = "(.+)"$', text, flags=re.MULTILINE) == [__version__]
    assert PROJECT["dynamic"] == ["version"]
    citation = ROOT / "CITATION.cff"
    said = (
        re.findall(
            r"^version: \"?([^\"\n]+)", citation.read_text(encoding="utf-8"), flags=re.MULTILINE
        )
        if citation.exists()
        else []
    )
    assert set(said) <= {__version__}


@pytest.mark.parametrize(("python", "system"), PLACES)
def test_everything_that_an_install_brings_is_pinned(python: str, system: str) -> None:
    assert (
        closure(set(PROJECT["optional-dependencies"]), python=python, system=system) - set(PINS)
        == set()
    )


def test_everything_that_is_installed_here_is_pinned_and_has_that_version() -> None:
    if not (Path(sys.prefix) / "installed-test").exists():
        pytest.skip("this environment was not made by make test, so that it may hold anything")
    assert set(INSTALLED) - set(PINS) - UNPINNED == set()
    other = {
        n: d.version
        for n, d in INSTALLED.items()
        if n in PINS and Version(d.version).public != PINS[n]
    }
    assert other == {}, (
        "other versions than in constraints.txt: remove .venv/installed-* and run make"
    )


def test_pins_are_inside_the_ranges_that_pyproject_promises() -> None:
    for requirement in named(set(PROJECT["optional-dependencies"])):
        name = canonicalize_name(requirement.name)
        assert requirement.specifier.contains(PINS[name], prereleases=True), requirement


def test_the_walk_notices_what_is_missing() -> None:
    here = closure({"test"}, python="3.11", system="linux")
    assert {"numpy", "scipy", "pytest", "torch"} <= here
    assert "sphinx" not in here
    assert closure(set(), python="3.11", system="linux") < here
    with pytest.raises(AssertionError, match="name==version"):
        pins("numpy>=1\n")


def test_continuous_integration_runs_what_a_contributor_runs() -> None:
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    commands = re.findall(r"^\s+- run: (.+)$", workflow, flags=re.MULTILINE)
    assert commands[:3] == ["make lint", "make types", "bash .ci/run"]
    assert set(commands) == {
        "make lint",
        "make types",
        "bash .ci/run",
        "make demo",
        "make test",
        "make test-slow PART=release",
    }
    assert workflow.count('python: ["3.11", "3.12", "3.13"]') == 2
    assert {"ubuntu-latest", "macos-latest"} <= set(re.findall(r"runs-on: (\S+)", workflow))
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    ran = re.findall(r"^make ([a-z-]+)$", script, flags=re.MULTILINE)
    assert ran == ["lint", "types", "test", "docs", "test-full"]
    targets = set(
        re.findall(
            r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE
        )
    )
    assert {"demo", "test", "test-full", "test-slow", "lint", "types", "docs"} <= targets


def test_the_classifiers_name_the_versions_that_are_tested() -> None:
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    tested = set(re.findall(r'"(3\.\d+)"', workflow))
    named_there = {
        c.rsplit(" ", 1)[1] for c in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", c)
    }
    assert tested == named_there


def test_the_workflow_is_valid_yaml_with_pinned_actions() -> None:
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    workflow = yaml.safe_load(
        (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    )
    assert workflow["permissions"] == {"contents": "read"}
    for job in workflow["jobs"].values():
        assert job["timeout-minutes"] <= 90
        assert all(
            re.fullmatch(r"actions/[a-z-]+@v\d+", step["uses"])
            for step in job["steps"]
            if "uses" in step
        )


def test_the_container_runs_without_rights_and_with_pins() -> None:
    lines = (ROOT / "Containerfile").read_text(encoding="utf-8").replace("\\\n", " ").splitlines()
    steps = [line.split(None, 1) for line in lines if line.strip() and not line.startswith("#")]
    last = steps[max(i for i, step in enumerate(steps) if step[0] == "FROM") :]
    images = [step[1].split()[0] for step in steps if step[0] == "FROM"]
    assert all(re.fullmatch(r"docker\.io/library/python:3\.\d+-slim", image) for image in images)
    assert [step[1] for step in last if step[0] == "USER"] == ["10001"]
    assert any(step[0] == "HEALTHCHECK" and "/healthz" in step[1] for step in last)
    assert [step[1] for step in last if step[0] == "ENTRYPOINT"] == ['["noracle"]']
    install = next(step[1] for step in steps if step[0] == "RUN" and "pip install" in step[1])
    assert "-c constraints.txt" in install
    assert "'.[collect]'" in install
    copied = [
        name
        for step in steps
        if step[0] == "COPY" and "--from" not in step[1]
        for name in step[1].split()[:-1]
    ]
    assert all((ROOT / name).exists() for name in copied)
    assert not any(step[0] == "ADD" or "curl" in step[-1] for step in steps)


def test_the_healthcheck_is_python_that_compiles() -> None:
    text = (ROOT / "Containerfile").read_text(encoding="utf-8")
    code = re.search(r'CMD \["python", "-c", "(.+)"\]', text)
    assert code is not None
    compile(code[1], "healthcheck", "exec")


def test_the_script_of_continuous_integration_is_valid_bash() -> None:
    done = subprocess.run(
        ["bash", "-n", str(ROOT / ".ci" / "run")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
