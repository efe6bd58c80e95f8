"""Runs the code blocks of the README and of every page, in order, in one namespace and one empty
folder for each page.

``python`` blocks are executed (with ``>>>`` as a doctest). In ``console`` blocks the lines that
begin with ``$ `` are run by bash, and the lines that follow must appear in the output: white space
does not count, ``...`` stands for anything. ``text`` blocks are not run.
"""

from __future__ import annotations

import doctest
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^```(python|console)[ \t]*\n(.*?)^```[ \t]*$", flags=re.DOTALL | re.MULTILINE)


class Block(NamedTuple):
    language: str
    text: str
    line: int


class Command(NamedTuple):
    text: str
    expected: str


def blocks(page: str) -> list[Block]:
    return [Block(m[1], m[2], page.count("\n", 0, m.start()) + 2) for m in FENCE.finditer(page)]


def commands(text: str) -> list[Command]:
    """Split a console block into its commands, each with the output that must appear."""
    found: list[tuple[list[str], list[str]]] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            found.append(([line[2:]], []))
        elif found and not found[-1][1] and found[-1][0][-1].endswith("\\"):
            found[-1][0].append(line)
        elif found:
            found[-1][1].append(line)
        elif line.strip():
            raise AssertionError(f"a console block must begin with '$ '; got {line!r}")
    return [Command("\n".join(c), "\n".join(e).strip()) for c, e in found]


def shows(output: str, expected: str) -> bool:
    """Whether the expected text appears, up to white space and ``...``."""
    pieces = [re.escape(" ".join(piece.split())) for piece in expected.split("...")]
    return re.search(r"\s*.*?\s*".join(pieces), " ".join(output.split())) is not None


def run_command(command: Command, folder: Path, where: str) -> None:
    binaries = Path(sys.executable).parent
    env = {
        **os.environ,
        "PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}",
        "COLUMNS": "140",
        "NO_COLOR": "1",
        "TERM": "dumb",
    }
    env["NORACLE_CACHE"] = os.environ.get("NORACLE_CACHE") or str(
        folder / ".cache"
    )  # never the cache of the user
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", command.text],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    output = done.stdout + done.stderr
    assert done.returncode == 0, (
        f"{where}: `{command.text}` ended with {done.returncode}:\n{output}"
    )
    assert shows(output, command.expected), (
        f"{where}: `{command.text}` printed:\n{output}\nwhich does not show:\n{command.expected}"
    )


def run_python(block: Block, namespace: dict[str, Any], where: str) -> None:
    if block.text.lstrip().startswith(">>>"):
        test = doctest.DocTestParser().get_doctest(block.text, {}, where, where, block.line)
        test.globs = namespace  # one namespace for the page, not a copy
        runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
        report: list[str] = []
        failed = runner.run(test, out=report.append, clear_globs=False).failed
        assert not failed, "".join(report)
    else:
        exec(compile("\n" * (block.line - 1) + block.text, where, "exec"), namespace)


def pages() -> list[Path]:
    docs = [
        p
        for p in (ROOT / "docs").rglob("*.md")
        if not {"_build", "generated"} & set(p.relative_to(ROOT).parts)
    ]
    return [p for p in [ROOT / "README.md", *sorted(docs)] if blocks(p.read_text(encoding="utf-8"))]


LONG = {  # seconds each
    "docs/explanation/no-answer.md",
    "docs/explanation/parts.md",
    "docs/how-to/compare-systems.md",
    "docs/how-to/large-data.md",
    "docs/how-to/targeted-routing.md",
    "docs/tutorial/from-rule-outs-to-a-certificate.md",
}


def full(page: Path) -> bool:
    """Whether a page takes its time, or starts programs, each in a process of its own."""
    named = page.relative_to(ROOT).as_posix() in LONG
    found = blocks(page.read_text(encoding="utf-8"))
    return named or any(block.language == "console" for block in found)


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(
            page,
            marks=[pytest.mark.full] if full(page) else [],
            id=page.relative_to(ROOT).as_posix(),
        )
        for page in pages()
    ],
)
def test_every_block_of_the_page_runs(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {"__name__": "__page__"}
    for block in blocks(path.read_text(encoding="utf-8")):
        where = f"{path.relative_to(ROOT)}:{block.line}"
        if block.language == "python":
            run_python(block, namespace, where)
        else:
            for command in commands(block.text):
                run_command(command, tmp_path, where)


NOTEBOOKS = sorted(p for p in (ROOT / "docs").rglob("*.ipynb") if "_build" not in p.parts)


@pytest.mark.full
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_every_cell_of_the_notebook_runs(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {"__name__": "__notebook__"}
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    assert [cell for cell in cells if cell.get("outputs")] == []  # kept clean
    for number, cell in enumerate(cells):
        if cell["cell_type"] == "code":
            where = f"{path.relative_to(ROOT)}:cell {number}"
            exec(compile("".join(cell["source"]), where, "exec"), namespace)


def test_runner_shares_names_and_files_between_blocks(tmp_path: Path) -> None:
    page = "```python\nx = 2\n```\n\n```text\nnot run(\n```\n```python\n>>> x + 1\n3\n```\n"
    page += "```console\n$ echo a \\\n  b\na b\n$ echo c > f\n```\n"
    found = blocks(page)
    assert [b.language for b in found] == ["python", "python", "console"]
    namespace: dict[str, Any] = {}
    for block in found[:2]:
        run_python(block, namespace, "page")
    assert commands(found[2].text) == [Command("echo a \\\n  b", "a b"), Command("echo c > f", "")]
    for command in commands(found[2].text):
        run_command(command, tmp_path, "page")
    assert (tmp_path / "f").read_text() == "c\n"


@pytest.mark.parametrize(
    ("output", "expected", "found"),
    [
        ("one  two\nthree", "two three", True),
        ("accuracy 0.812 [0.7, 0.9]", "accuracy ... [0.7", True),
        ("accuracy 0.812", "accuracy 0.9", False),
        ("anything", "", True),
    ],
)
def test_runner_compares_output(output: str, expected: str, found: bool) -> None:
    assert shows(output, expected) is found


def test_runner_notices_faults(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="ended with 3"):
        run_command(Command("exit 3", ""), tmp_path, "page")
    with pytest.raises(AssertionError, match="does not show"):
        run_command(Command("echo a", "b"), tmp_path, "page")
    with pytest.raises(AssertionError, match="Expected"):
        run_python(Block("python", ">>> 1\n2\n", 1), {}, "page")
    with pytest.raises(ZeroDivisionError):
        run_python(Block("python", "1 / 0", 1), {}, "page")
