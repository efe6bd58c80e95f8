from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"(?<!\!)\[[^\]]*\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)")


def pages() -> list[Path]:
    docs = [p for p in (ROOT / "docs").rglob("*.md") if not {"_build", "generated"} & set(p.relative_to(ROOT).parts)]
    return sorted([*ROOT.glob("*.md"), *docs])


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", h.lower()).strip().replace(" ", "-") for h in headings}


def broken(page: Path, text: str) -> list[str]:
    """The relative links of the page that lead nowhere; links to generated pages are checked by the strict build."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    found = []
    for target in (a or b for a, b in LINK.findall(text)):
        if re.match(r"[a-z]+:", target) or "/generated/" in target:
            continue
        file, _, anchor = target.partition("#")
        place = (page.parent / file).resolve() if file else page
        if not place.exists() or (anchor and place.suffix == ".md" and anchor not in anchors(place)):
            found.append(target)
    return found


@pytest.mark.parametrize("page", pages(), ids=lambda p: str(p.relative_to(ROOT)))
def test_relative_links_resolve(page: Path) -> None:
    assert broken(page, page.read_text(encoding="utf-8")) == []


def test_broken_links_are_found() -> None:
    readme = ROOT / "README.md"
    assert broken(readme, "[a](nowhere.md) [b](LICENSE) [c](README.md#no-such-heading) [d](https://example.org)") == [
        "nowhere.md",
        "README.md#no-such-heading",
    ]
