"""Files of the project name no folder of the machine they were written on."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
# In pieces, so that this file does not hold what it looks for.
FOLDERS = ("wo" + "rk", "ro" + "ot", "fa" + "rm", "tm" + "p", "ho" + "me", "Us" + "ers")
PATTERN = re.compile(rf"(?<![\w.$}}>])/(?:{'|'.join(FOLDERS)})/\w|\.libr" + "ary/")


def files() -> list[Path]:
    """What is tracked, or would be; in a source archive, everything that is not generated."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode == 0:
        return [
            ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()
        ]
    skipped = {".venv", ".git", "_build", "generated", "__pycache__"}
    return [
        p for p in ROOT.rglob("*") if p.is_file() and not skipped & set(p.relative_to(ROOT).parts)
    ]


def test_no_file_names_a_folder_of_a_machine() -> None:
    found = []
    for path in files():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        found += [f"{path.relative_to(ROOT)}: {m[0]}" for m in PATTERN.finditer(text)]
    assert found == []


def test_the_pattern_finds_paths_and_only_paths() -> None:
    folder = FOLDERS[0]
    assert PATTERN.search(f"see /{folder}/data")
    assert PATTERN.search(f"'/{folder}/x'")
    assert not PATTERN.search(f"docs/{folder}/page")
    assert not PATTERN.search(f"https://example.org/{folder}/x")
