from __future__ import annotations

import re
from pathlib import Path

import noracle
from noracle.cli import VERBS

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_readme_begins_with_what_it_is_and_how_to_see_it() -> None:
    start = README.split("\n## ")[0]
    assert start.startswith("# noracle\n")
    assert "without an answer key" in start
    assert re.search(r"^make demo\b", start, flags=re.MULTILINE)
    assert re.search(r"^make test\b", start, flags=re.MULTILINE)


def test_readme_fits_two_screens_and_opens_four_doors() -> None:
    shown = re.sub(r"<!--.*?-->\n", "", README, flags=re.DOTALL)
    assert len(shown.splitlines()) <= 90
    assert len(shown.split()) <= 800
    assert shown.index("make demo") < shown.index("make test") < shown.index("pip install")
    assert shown[: shown.index("pip install")].count("\n") <= 14  # near the top
    doors = shown.split("## Four doors")[1].split("\n## ")[0]
    assert re.findall(r"^\| \*\*(\w+)\*\*", doors, flags=re.MULTILINE) == [
        "evaluate",
        "gate",
        "collect",
        "train",
    ]
    assert len(re.findall(r"\]\(docs/tutorial/[\w-]+\.md\)", doors)) == 4
    assert len(re.findall(r"^!\[", shown, flags=re.MULTILINE)) == 1


def test_every_make_target_that_pages_name_exists() -> None:
    targets = set(
        re.findall(
            r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE
        )
    )
    named = {"demo", "test", "test-full", "test-slow", "lint", "types", "docs", "bench"}
    assert named <= targets
    for page in (README, (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")):
        assert set(re.findall(r"(?:^|`)make ([a-z-]+)", page, flags=re.MULTILINE)) <= targets


def test_every_verb_of_the_table_is_public_and_every_public_verb_is_in_the_table() -> None:
    table = (ROOT / "docs" / "reference" / "verbs.md").read_text(encoding="utf-8")
    named = set(
        re.findall(r"`((?:estimate|compare|race|certify|plan|prove|check|route|range)_\w+)`", table)
    )
    public = {
        n
        for n in noracle.__all__
        if re.match(r"(estimate|compare|race|certify|plan|prove|check|route|range)_", n)
    }
    assert named == public


def test_every_verb_of_the_command_line_is_in_the_table() -> None:
    table = (ROOT / "docs" / "reference" / "verbs.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`noracle (\w+)", table))
    assert named >= {verb.name for verb in VERBS} - {"demo"}
