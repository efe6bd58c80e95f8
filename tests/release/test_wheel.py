"""The built wheel and source archive, in an environment that holds nothing else. Needs a package
registry to fetch from; skips without one.

The quick part reads what would be packed; the slow part packs, installs and runs it.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest

from noracle._version import __version__

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "noracle"
BUILD: dict[str, dict[str, dict[str, list[str]]]] = tomllib.loads(
    (ROOT / "pyproject.toml").read_text(encoding="utf-8")
)["tool"]["hatch"]
MOST_MB = 480  # of files in site-packages, in 10^6 bytes, pip included
DATA = {
    "py.typed": 1,
    "schemas/*.json": 10,
    "report/templates/*": 3,
    "search/workflows/*.json": 10,
    "search/presets/*.json": 5,
    "collect/web/templates/*.html": 10,
    "collect/web/static/*": 3,
    "collect/store/queries.sql": 1,
    "collect/store/migrations/*.sql": 3,
    "collect/web/locale/*/LC_MESSAGES/*.mo": 1,
}
GENERATED = {".venv", ".git", ".slow", "_build", "generated", "__pycache__", "build", "dist"}


class Built(NamedTuple):
    folder: Path
    wheel: Path
    archive: Path
    python: Path  # of an environment that can build


def tracked() -> list[str]:
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode == 0:
        return [name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]
    files = [p.relative_to(ROOT) for p in ROOT.rglob("*") if p.is_file()]
    return [p.as_posix() for p in files if not GENERATED & set(p.parts)]


def bin_of(environment: Path) -> Path:
    return environment / ("Scripts" if sys.platform == "win32" else "bin")


def run(*command: str | Path, cwd: Path, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run without anything of this environment: no PYTHONPATH, no user site, no colours."""
    env = {
        k: v
        for k, v in os.environ.items()
        if not k.startswith(("PYTHON", "NORACLE", "VIRTUAL_ENV"))
    }
    env |= {"NO_COLOR": "1", "TERM": "dumb", "PYTHONNOUSERSITE": "1", "COLUMNS": "140"}
    done = subprocess.run(
        [str(c) for c in command],
        cwd=cwd,
        env=env,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    if check:
        assert done.returncode == 0, (
            f"`{' '.join(map(str, command))}` ended with {done.returncode}:\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
        )
    return done


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    folder = tmp_path_factory.mktemp("built")
    environment = folder / "builder"
    venv.create(environment, with_pip=True)
    python = bin_of(environment) / "python"
    fetched = run(
        python,
        "-m",
        "pip",
        "install",
        "-q",
        "--disable-pip-version-check",
        "build",
        "hatchling>=1.26",
        cwd=folder,
        check=False,
    )
    if fetched.returncode:
        pytest.skip(
            f"no package registry to fetch build and hatchling from: {fetched.stderr.strip().splitlines()[-1]}"
        )
    source = folder / "source"
    for name in tracked():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, source / name)
    run(python, "-m", "build", "--no-isolation", "--outdir", folder / "dist", source, cwd=folder)
    return Built(
        folder,
        next((folder / "dist").glob("*.whl")),
        next((folder / "dist").glob("*.tar.gz")),
        python,
    )


@pytest.fixture(scope="module")
def installed(built: Built) -> Path:
    """The folder of the commands of an environment with the core and nothing else."""
    environment = built.folder / "core"
    venv.create(environment, with_pip=True)
    pip = [
        bin_of(environment) / "python",
        "-m",
        "pip",
        "install",
        "-q",
        "--disable-pip-version-check",
    ]
    run(*pip, "-c", ROOT / "constraints.txt", built.wheel, cwd=built.folder)
    return bin_of(environment)


def digests(wheel: Path) -> dict[str, str]:
    with zipfile.ZipFile(wheel) as file:
        return {
            n: hashlib.sha256(file.read(n)).hexdigest()
            for n in file.namelist()
            if not n.endswith(("/RECORD", "/WHEEL"))
        }


@pytest.mark.parametrize(("pattern", "least"), DATA.items())
def test_files_that_are_no_code_lie_in_the_package(pattern: str, least: int) -> None:
    assert len(list(PACKAGE.glob(pattern))) >= least


def test_the_source_archive_names_all_that_the_tests_and_the_site_read() -> None:
    include = {name.lstrip("/") for name in BUILD["build"]["targets"]["sdist"]["include"]}
    tests = {
        "tests",
        "docs",
        "examples",
        "benchmarks",
        "src",
        "Makefile",
        "constraints.txt",
        ".ci",
        ".github",
        "Containerfile",
        "action.yml",
    }
    pages = {
        "README.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
        "LICENSE",
        "NOTICE",
        "CITATION.cff",
    }
    assert tests | pages == include
    assert all((ROOT / name).exists() for name in include)


@pytest.mark.slow
def test_the_wheel_holds_the_package_and_its_data_and_nothing_else(built: Built) -> None:
    names = set(digests(built.wheel))
    assert {n.split("/")[0] for n in names} == {"noracle", f"noracle-{__version__}.dist-info"}
    assert not [n for n in names if re.search(r"(^|/)tests?/|conftest|\.pyc$|test_\w+\.py$", n)]
    here = {
        f"noracle/{p.relative_to(PACKAGE).as_posix()}"
        for p in PACKAGE.rglob("*")
        if p.is_file() and "__pycache__" not in p.parts
    }
    packed = {n for n in names if n.startswith("noracle/")}
    assert {n for n in here if "/src/" not in n} >= packed
    for pattern, least in DATA.items():
        assert sum(Path(n).match(f"noracle/{pattern}") for n in packed) >= least, pattern


@pytest.mark.slow
def test_the_source_archive_builds_the_same_wheel(built: Built) -> None:
    place = built.folder / "from-archive"
    with tarfile.open(built.archive) as file:
        file.extractall(place, filter="data")
    source = next(place.iterdir())
    assert source.name == f"noracle-{__version__}"
    run(
        built.python,
        "-m",
        "build",
        "--no-isolation",
        "--wheel",
        "--outdir",
        place / "dist",
        source,
        cwd=place,
    )
    again = next((place / "dist").glob("*.whl"))
    assert again.name == built.wheel.name == f"noracle-{__version__}-py3-none-any.whl"
    assert digests(again) == digests(built.wheel)
    assert (source / "tests" / "release" / "test_wheel.py").exists()


@pytest.mark.slow
def test_both_commands_know_their_version(installed: Path, tmp_path: Path) -> None:
    for command in ([installed / "noracle"], [installed / "python", "-m", "noracle"]):
        assert __version__ in run(*command, "--version", cwd=tmp_path).stdout
    where = run(
        installed / "python", "-c", "import noracle; print(noracle.__file__)", cwd=tmp_path
    ).stdout
    assert Path(where.strip()).is_relative_to(installed.parent)


@pytest.mark.slow
def test_the_demo_works_with_the_core_alone(installed: Path, tmp_path: Path) -> None:
    run(installed / "noracle", "demo", "--out", tmp_path / "demo", cwd=tmp_path)
    pages = list((tmp_path / "demo").glob("*.html"))
    assert pages
    assert all("<script" not in page.read_text(encoding="utf-8") for page in pages)
    assert any("agent" in page.read_text(encoding="utf-8") for page in pages)


@pytest.mark.slow
def test_what_needs_an_extra_says_so_instead_of_breaking(installed: Path, tmp_path: Path) -> None:
    code = "import noracle.learn\ntry:\n    noracle.learn.train\nexcept noracle.MissingExtra as error:\n    print(error)"
    assert "noracle[learn]" in run(installed / "python", "-c", code, cwd=tmp_path).stdout
    done = run(installed / "noracle", "collect", "demo", cwd=tmp_path, check=False)
    assert done.returncode == 2
    assert "noracle[collect]" in done.stderr


@pytest.mark.slow
def test_requirements_agree_and_only_those_of_the_core_came(
    installed: Path, tmp_path: Path
) -> None:
    assert (
        "No broken requirements"
        in run(installed / "python", "-m", "pip", "check", cwd=tmp_path).stdout
    )
    frozen = run(
        installed / "python", "-m", "pip", "list", "--format=freeze", cwd=tmp_path
    ).stdout.lower()
    assert not re.findall(
        r"^(torch|scikit-learn|fastapi|pyspark|inspect|pandas|polars|pyarrow|pytest)[-=]",
        frozen,
        flags=re.MULTILINE,
    )


@pytest.mark.slow
def test_the_core_install_is_small(installed: Path) -> None:
    site = next(
        installed.parent.glob("lib/python*/site-packages"),
        installed.parent / "Lib" / "site-packages",
    )
    sizes: Counter[str] = Counter()
    for path in site.rglob("*"):
        if path.is_file() and not path.is_symlink():
            sizes[path.relative_to(site).parts[0]] += path.stat().st_size
    heaviest = ", ".join(f"{name} {size / 1e6:.0f} MB" for name, size in sizes.most_common(8))
    print(f"site-packages {sum(sizes.values()) / 1e6:.0f} MB: {heaviest}")  # noqa: T201
    assert sum(sizes.values()) / 1e6 <= MOST_MB, heaviest


@pytest.mark.slow
def test_help_comes_quickly(installed: Path, tmp_path: Path) -> None:
    """Seconds of processor, which are those of the clock on a machine that has nothing else to do;
    a busy one cannot tell the clock's.
    """
    resource = pytest.importorskip(
        "resource", reason="this system does not count the seconds of a process"
    )

    def spent() -> float:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return float(used.ru_utime + used.ru_stime)

    run(installed / "noracle", "--help", cwd=tmp_path)  # compiles
    times = []
    for _ in range(7):
        start = spent()
        run(installed / "noracle", "--help", cwd=tmp_path)
        times.append(spent() - start)
    assert min(times) <= 0.6, times
