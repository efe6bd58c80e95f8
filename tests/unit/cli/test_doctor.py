"""``noracle doctor``: what works on this machine."""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from noracle.cli import doctor
from tests.unit.cli.conftest import Run


def test_a_healthy_machine_is_healthy(noracle: Run) -> None:
    ended = noracle("doctor")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.rstrip().endswith("everything that every verb needs works")
    for name in ("python", "numpy", "duckdb", "temporary folder", "estimate"):
        assert f"  {name} " in ended.out


def test_json_has_every_dependency_and_every_extra(noracle: Run) -> None:
    lines = noracle("doctor", "--json").json["lines"]
    names = {(line["part"], line["name"]) for line in lines}
    wanted = {
        text.split(">=")[0].strip()
        for text in metadata.requires("noracle") or []
        if "extra" not in text
    }
    assert {("core", name) for name in wanted} <= names
    extras = set(metadata.metadata("noracle").get_all("Provides-Extra") or []) - {
        "all",
        "test",
        "docs",
    }
    assert {name for part, name in names if part == "extra"} == extras == set(doctor.EXTRAS)


def test_a_missing_core_library_is_broken_and_the_remedy_installs_it(
    noracle: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = doctor._version
    monkeypatch.setattr(doctor, "_version", lambda name: None if name == "narwhals" else real(name))
    ended = noracle("doctor")
    assert ended.code == 1
    assert "pip install 'narwhals>=2.0'" in ended.out
    assert "something that every verb needs is broken" in ended.out


def test_a_library_below_its_floor_is_broken(noracle: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    real = doctor._version
    monkeypatch.setattr(doctor, "_version", lambda name: "1.9.1" if name == "scipy" else real(name))
    ended = noracle("doctor")
    assert ended.code == 1
    assert "1.9.1, needs 1.12" in ended.out


def test_a_missing_extra_is_no_fault_and_has_its_line(
    noracle: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = doctor._version
    monkeypatch.setattr(
        doctor, "_version", lambda name: None if name in ("torch", "httpx") else real(name)
    )
    ended = noracle("doctor")
    assert ended.code == 0
    assert "pip install 'noracle[learn]'" in ended.out
    assert "pip install 'noracle[search]'" in ended.out
    assert "pip install 'noracle[collect]'" in ended.out  # its client is httpx too
    assert "pip install 'noracle[inspect]'" not in ended.out


def test_a_wrong_result_is_found(noracle: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "self_test", lambda: (0.747739, 0.584906, 0.87))
    assert noracle("doctor").code == 1


def test_an_engine_that_does_not_start_is_found(
    noracle: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NORACLE_MEMORY_LIMIT", "nonsense")
    ended = noracle("doctor")
    assert ended.code == 1
    assert "BROKEN" in ended.out


def test_a_temporary_folder_that_cannot_be_written_is_found(
    noracle: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(**_: object) -> None:
        raise OSError(13, "Permission denied")

    monkeypatch.setattr(doctor.tempfile, "NamedTemporaryFile", refuse)
    ended = noracle("doctor", "--json")
    assert ended.code == 1
    broken = [line["name"] for line in ended.json["lines"] if line["health"] == "broken"]
    assert "temporary folder" in broken


def test_torch_is_not_imported_unless_asked_for() -> None:
    code = "import sys; from noracle.cli import run; run(['doctor']); sys.stderr.write(str('torch' in sys.modules))"
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert ended.stderr == "False"


# ----------------------------------------------------------------------------------------------------------------
# --fix


def test_fix_says_that_there_is_nothing_to_fix(noracle: Run) -> None:
    ended = noracle("doctor", "--fix")
    assert ended.code == 0
    assert "no library is missing; there is nothing to fix" in ended.out
    assert noracle("doctor", "--fix", "--json").json["repairs"] == []


def test_what_is_missing_is_named_with_its_floor_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = doctor._version
    old = {"narwhals": None, "scipy": "1.9.1", "httpx": None}
    monkeypatch.setattr(doctor, "_version", lambda name: old.get(name, real(name)))
    wanted = doctor.missing(doctor.examine(), ["search", "collect"])
    assert sorted(wanted) == ["httpx>=0.27", "narwhals>=2.0", "scipy>=1.12"]


def test_an_installation_that_fails_is_told_with_the_line_of_pip(
    noracle: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pip really runs, on a library that no index has."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setattr(doctor, "missing", lambda *_: ["noracle-has-no-such-library>=3"])
    ended = noracle("doctor", "--fix", "--json")
    (repair,) = ended.json["repairs"]
    assert not repair["worked"]
    assert "-m pip install" in repair["command"]
    assert "No matching distribution" in repair["said"]
    assert ended.code == 0  # nothing that every verb needs is broken


@pytest.mark.full
def test_an_installation_is_done_in_this_python(tmp_path: Path) -> None:
    """A library that lies on this disk is installed into a folder of the test."""
    source = tmp_path / "tiny"
    source.mkdir()
    (source / "pyproject.toml").write_text(
        '[build-system]\nrequires = []\nbuild-backend = "made"\nbackend-path = ["."]\n', "utf-8"
    )
    (source / "made.py").write_text(
        "import zipfile\n"
        "def build_wheel(folder, *_):\n"
        "    name = 'tiny-1.0-py3-none-any.whl'\n"
        "    with zipfile.ZipFile(f'{folder}/{name}', 'w') as wheel:\n"
        "        info = 'tiny-1.0.dist-info'\n"
        "        wheel.writestr(f'{info}/METADATA', 'Metadata-Version: 2.1\\nName: tiny\\nVersion: 1.0\\n')\n"
        "        wheel.writestr(f'{info}/WHEEL', 'Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')\n"
        "        wheel.writestr(f'{info}/RECORD', '')\n"
        "        wheel.writestr('tiny.py', 'x = 1\\n')\n"
        "    return name\n",
        "utf-8",
    )
    target = tmp_path / "target"
    repair = doctor.install(["--no-index", f"--target={target}", str(source)])
    assert repair.worked, repair.said
    assert (target / "tiny.py").is_file()


@pytest.mark.parametrize("line", [["--fix", "--extra", "nonsense"], ["--extra", "learn"]])
def test_extras_must_be_known_and_go_with_fix(noracle: Run, line: list[str]) -> None:
    ended = noracle("doctor", *line)
    assert ended.code == 2
    assert "--extra must" in ended.err
