"""Links of the pages as they stand in the repository; ``docs/_ext/link_check.py`` looks at the
built site, and is tested here too.
"""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from urllib.parse import urlsplit

import pytest

ROOT = Path(__file__).parents[2]
EXTENSIONS = ROOT / "docs" / "_ext"
LINK = re.compile(
    r"(?<!\!)\[[^\]]*\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)|^\[[^\]]+\]: (\S+)|<(?:a|img)\b[^>]*\b(?:href|src)=\"([^\"]+)\"",
    re.MULTILINE,
)
PICTURE = re.compile(r"!\[([^\]]*)\]\(([^)\s]+)\)")


def pages() -> list[Path]:
    docs = [
        p
        for p in (ROOT / "docs").rglob("*.md")
        if not {"_build", "generated"} & set(p.relative_to(ROOT).parts)
    ]
    return sorted([*ROOT.glob("*.md"), *docs])


def prose(text: str) -> str:
    """The page without its code, in which brackets mean something else."""
    return re.sub(
        r"`[^`\n]+`", "", re.sub(r"^ *```.*?^ *```", "", text, flags=re.DOTALL | re.MULTILINE)
    )


def anchors(page: Path) -> set[str]:
    """The places that headings and explicit targets make; a heading that comes again gets a number."""
    text = re.sub(
        r"^ *```.*?^ *```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE
    )
    found: set[str] = set(re.findall(r"^\(([\w-]+)\)=$", text, flags=re.MULTILINE)) | set(
        re.findall(r"<a (?:id|name)=\"([^\"]+)\"", text)
    )
    for heading in re.findall(r"^#{1,6} (.+)$", text, flags=re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", plain.lower()).strip().replace(" ", "-")
        again = 1
        while slug in found:
            slug, again = (
                f"{re.sub(r'-[0-9]+$', '', slug) if again > 1 else slug}-{again}",
                again + 1,
            )
        found.add(slug)
    return found


def links(text: str) -> list[str]:
    return ["".join(groups) for groups in LINK.findall(prose(text))]


def broken(page: Path, text: str) -> list[str]:
    """The links of the page that lead nowhere; links to generated pages are checked by the strict
    build.
    """
    found = []
    for target in links(text):
        if "/generated/" in target or target.startswith("mailto:"):
            continue
        if re.match(r"[a-z]+:", target):
            parts = urlsplit(target)
            if parts.scheme != "https" or not re.fullmatch(
                r"[\w-]+(\.[\w-]+)+(:\d+)?", parts.netloc
            ):
                found.append(target)
            continue
        file, _, anchor = target.partition("#")
        place = (page.parent / file).resolve() if file else page
        if not place.exists() or (
            anchor and place.suffix == ".md" and anchor not in anchors(place)
        ):
            found.append(target)
    return found


@pytest.mark.parametrize("page", pages(), ids=lambda p: str(p.relative_to(ROOT)))
def test_links_resolve_and_pictures_are_described(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert broken(page, text) == []
    assert [target for words, target in PICTURE.findall(prose(text)) if len(words) < 20] == [], (
        "a picture needs a text that says what it shows"
    )


def test_every_picture_of_the_documentation_is_shown_somewhere() -> None:
    shown = {
        (page.parent / t).resolve()
        for page in pages()
        for t in links(page.read_text(encoding="utf-8"))
        if not re.match(r"[a-z]+:", t)
    }
    drawn = {p for p in (ROOT / "docs" / "images").rglob("*") if p.is_file()}
    assert {p.relative_to(ROOT).as_posix() for p in drawn - shown} <= {"docs/images/data-flow.svg"}


def test_every_page_is_in_a_table_of_contents() -> None:
    named: set[Path] = set()
    for page in pages():
        for body in re.findall(
            r"^```\{toctree\}\n(.*?)^```",
            page.read_text(encoding="utf-8"),
            flags=re.DOTALL | re.MULTILINE,
        ):
            entries = [
                line.strip()
                for line in body.splitlines()
                if line.strip() and not line.startswith(":")
            ]
            named |= {(page.parent / f"{entry}.md").resolve() for entry in entries}
    docs = {p for p in pages() if p.is_relative_to(ROOT / "docs")}
    assert {p.relative_to(ROOT).as_posix() for p in docs - named} == {"docs/index.md"}


@pytest.mark.parametrize(
    ("link", "found"),
    [
        ("[a](nowhere.md)", ["nowhere.md"]),
        ("[b](LICENSE)", []),
        ("[c](README.md#no-such-heading)", ["README.md#no-such-heading"]),
        ("[c](README.md#on-your-own-file)", []),
        ("[d](https://example.org/a)", []),
        ("[d](http://example.org/a)", ["http://example.org/a"]),
        ("[d](https://localhost)", ["https://localhost"]),
        ('<img src="docs/images/none.svg">', ["docs/images/none.svg"]),
        ("[e]: nowhere.md", ["nowhere.md"]),
        ("```text\n[a](nowhere.md)\n```\n", []),
        ("`[a](nowhere.md)`", []),
    ],
)
def test_broken_links_are_found(link: str, found: list[str]) -> None:
    assert broken(ROOT / "README.md", link) == found


def test_headings_that_come_twice_get_numbers(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# One: [two](x.md)\n\n(place)=\n## Again\n\n## Again\n\n```text\n# no heading\n```\n",
        encoding="utf-8",
    )
    assert anchors(page) == {"one-two", "place", "again", "again-1"}


@pytest.fixture
def link_check(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    pytest.importorskip("sphinx", reason="the docs extra is not installed")
    monkeypatch.syspath_prepend(str(EXTENSIONS))
    module = importlib.import_module("link_check")
    monkeypatch.delitem(sys.modules, "link_check")
    return module


def test_the_check_of_the_built_site_finds_what_is_broken(
    link_check: ModuleType, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "a.html").write_text(
        '<h1 id="top">A</h1><a href="in/b.html#end">b</a><a href="#top">up</a><img src="none.png">',
        encoding="utf-8",
    )
    (tmp_path / "in" / "b.html").write_text(
        '<a href="../a.html#gone">a</a><a name="end"></a><a href="https://example.org">out</a><a href="https://exa mple">odd</a>',
        encoding="utf-8",
    )
    assert link_check.broken_links(tmp_path) == [
        "a.html: none.png (no such file)",
        "in/b.html: ../a.html#gone (no such place on the page)",
        "in/b.html: https://exa mple (not the form of an address)",
    ]


@pytest.mark.thin(3)
@pytest.mark.parametrize(
    ("target", "status"), [("index.html#a-place", 0), ("index.html#gone", 2), ("gone.html", 2)]
)
def test_the_strict_build_fails_on_a_link_that_only_the_check_sees(
    target: str, status: int, tmp_path: Path
) -> None:
    pytest.importorskip("sphinx", reason="the docs extra is not installed")
    (tmp_path / "conf.py").write_text(
        f"import sys\nsys.path.insert(0, {str(EXTENSIONS)!r})\nextensions = ['link_check']\nhtml_theme = 'basic'\n",
        encoding="utf-8",
    )
    text = f'A place\n=======\n\n.. raw:: html\n\n   <a href="{target}">there</a>\n'
    (tmp_path / "index.rst").write_text(text, encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "sphinx",
        "-W",
        "-q",
        "-b",
        "html",
        str(tmp_path),
        str(tmp_path / "out"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stderr
    assert (target in done.stderr) is (status != 0)


def test_the_strict_build_runs_the_check() -> None:
    assert '"link_check"' in (ROOT / "docs" / "conf.py").read_text(encoding="utf-8")
    assert "sphinx-build -W" in (ROOT / "Makefile").read_text(encoding="utf-8")
