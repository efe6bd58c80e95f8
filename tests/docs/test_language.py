"""The words of pages, docstrings and messages: English as an engineer speaks it, one word for one
thing.
"""

from __future__ import annotations

import ast
import functools
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "noracle"

LEFT = {
    "docs/reproduce",  # written by examples/papers
    "docs/changes.md",
}
"""Folders that are not done yet: one leaves the list when the test below says that it is clean."""

COUNTED = (
    r"(?:\d[\d,]*|one|two|three|four|five|several|bits|bytes|calls|cells|choices|classes|columns|digits|"
    r"epochs|intervals|judgements|labels|lines|links|minutes|options|points|questions|raters|ratings|"
    r"replies|rows?|scores|seconds|steps|tables|tokens|values|verdicts|votes|weights|words|worlds)"
)
UNITS = (
    r"(?:batch|cell|class|cluster|classifier|column|core|day|device|entry|epoch|family|hour|image|item|"
    r"label|line|look|minute|month|node|page|part|person|picture|rater|round|row|sample|setting|stratum|"
    r"system|task|verb|week|worker|world|year)"
)
VERBS = r"(?<!who )(?<!which )(?<!that )(?<!system )(?<!nobody )(?<!never )(?<!to )(?<!must )(?<!model )"
AFTER = r"(?! (?:of|that|whose|which|from|is|was|has|gets|takes|must|can|could|may|learned)\b)"

BANNED: dict[str, tuple[str, str]] = {
    "distributive a": (
        rf"\b(?={COUNTED} an? ){VERBS}{COUNTED} an? {UNITS}\b{AFTER}",
        "one row per item; one label for each item",
    ),
    "an item each": (r"\ban? (?:item|row|label|file|line|page) each\b", "one for each item"),
    "dear": (r"\bdear(?:er|est|ly)?\b", "expensive"),
    "alike": (
        r"\balike\b(?<!be alike)(?<!are alike)(?<!is alike)(?<!look alike)(?<!more alike)(?<!and alike)",
        "in the same way; equally; both … and …",
    ),
    "gladly": (r"\bgladly\b", "leave it out; more often"),
    "sign of health": (r"\bno signs? of health\b", "says nothing about how good they are"),
    "stands in": (r"\bstands? (?:written )?in \[", "is in; see"),
    "for ever": (r"\bfor ever\b", "forever; for good"),
    "thereof": (
        r"\b(?:thereof|therein|wherein|hitherto|forthwith|amongst|whilst)\b",
        "of it; in it; so far",
    ),
    "shall": (r"\bshall\b", "must; will; should"),
    "informations": (r"\b(?:evidences|softwares|advices|trainings)\b", "the singular"),
    "the like": (r"\band the like\b", "name the things"),
    "ground truth": (r"\bground[- ]truths?\b|\bgold standards?\b", "key"),
    "labeller": (r"\b(?:labell?ers?|crowd ?workers?|assessors?|evaluators?)\b", "rater"),
    "data point": (r"\bdata ?points?\b", "item"),
}
"""Name of a phrase to its pattern, and what to write instead."""

QUOTED: dict[str, set[str]] = {
    "docs/explanation/collecting-labels.md": {"distributive a"},  # output of a folder that is left
}


def said(path: Path) -> Iterator[tuple[int, str]]:
    """What a reader can read, with its lines: strings and comments of code, all of a page."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        yield 1, text
        return
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in (tokenize.STRING, tokenize.COMMENT):
            yield token.start[0], token.string


@functools.cache
def faults(path: Path) -> tuple[str, ...]:
    """The banned phrases of a file, as lines to read."""
    name = path.relative_to(ROOT).as_posix()
    whole = re.sub(r"\n\s*", " ", path.read_text(encoding="utf-8").lower())
    here = [
        n for n, (p, _) in BANNED.items() if n not in QUOTED.get(name, ()) and re.search(p, whole)
    ]
    return tuple(
        f"{name}:{start}: {match[0]!r}; write: {BANNED[phrase][1]}"
        for start, text in (said(path) if here else ())
        for phrase in here
        for match in re.finditer(BANNED[phrase][0], re.sub(r"\n\s*", " ", text), re.IGNORECASE)
    )


def files() -> list[Path]:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    code = [p for end in ("py", "md", "toml", "html") for p in SOURCE.rglob(f"*.{end}")]
    generated = {"_build", "generated", "__pycache__"}
    return sorted(p for p in (*pages, *code) if not generated & set(p.relative_to(ROOT).parts))


def left(path: Path) -> bool:
    name = path.relative_to(ROOT).as_posix()
    return any(name == folder or name.startswith(f"{folder}/") for folder in LEFT)


def test_no_page_docstring_or_message_has_a_banned_phrase() -> None:
    assert [line for path in files() if not left(path) for line in faults(path)] == []


def test_what_is_left_is_named_and_still_needs_it() -> None:
    """A folder that is clean leaves the list; so does a quotation that is no longer there."""
    unclean = {
        folder
        for folder in LEFT
        if any(faults(p) for p in files() if p.is_relative_to(ROOT / folder))
    }
    assert LEFT - {"docs/changes.md"} - unclean == set(), "clean: take these from LEFT"


@pytest.mark.parametrize(
    ("text", "phrase"),
    [
        ("one row an item", "distributive a"),
        ("8 bytes an item", "distributive a"),
        ("two ratings\n    an item", "distributive a"),
        ("each a row each: grade them alike", "alike"),
        ("gold labels are dear", "dear"),
        ("that is no sign of health", "sign of health"),
        ("the ground truth", "ground truth"),
        ("how it is read stands in [this page](x.md)", "stands in"),
    ],
)
def test_phrases_are_found(text: str, phrase: str) -> None:
    assert re.search(BANNED[phrase][0], re.sub(r"\n\s*", " ", text), re.IGNORECASE)


@pytest.mark.parametrize(
    "text",
    [
        "one row per item",
        "who labels an item",
        "labels a model learned from",
        "no more alike than others",
        "how many calls an item takes",
        "columns that name a row only once",
        "a clear deal",
    ],
)
def test_plain_english_is_left_alone(text: str) -> None:
    assert not [
        name for name, (pattern, _) in BANNED.items() if re.search(pattern, text, re.IGNORECASE)
    ]


# ----------------------------------------------------------------------------------------------------------------
# the glossary


GLOSSARY = ROOT / "docs" / "reference" / "glossary.md"


def terms() -> dict[str, list[str]]:
    """The words of each section."""
    text = GLOSSARY.read_text(encoding="utf-8")
    sections = re.split(r"^## ", text, flags=re.MULTILINE)[1:]
    return {s.splitlines()[0]: re.findall(r"^([\w -]+)\n: \S", s, re.MULTILINE) for s in sections}


def test_the_glossary_is_in_order_and_defines_each_word_once() -> None:
    found = terms()
    words = [word for section in found.values() for word in section]
    assert len(words) == len(set(words)) >= 25
    assert all(section == sorted(section) for section in found.values())


def test_the_glossary_has_the_words_that_the_api_uses() -> None:
    words = {word for section in terms().values() for word in section}
    assert {"system", "rater", "item", "answer", "label", "grade", "ruled-out class"} <= words
    returned = {"estimate", "certificate", "plan"}
    assert returned <= words
    results = (SOURCE / "results" / "base.py").read_text(encoding="utf-8")
    kinds = re.findall(r"^    ([A-Z_]+) = ", results, re.MULTILINE) or ["LOGICAL"]
    entry = GLOSSARY.read_text(encoding="utf-8")
    assert all(k.lower().replace("_", "-") in entry.lower() for k in kinds if k.isupper())


@pytest.mark.parametrize(
    "page", ["README.md", "docs/index.md", "docs/tutorial/index.md", "docs/how-to/index.md"]
)
def test_the_pages_that_a_newcomer_opens_link_the_glossary(page: str) -> None:
    assert "glossary.md" in (ROOT / page).read_text(encoding="utf-8")


# ----------------------------------------------------------------------------------------------------------------
# how-to pages


HOW_TO = sorted(p for p in (ROOT / "docs" / "how-to").glob("*.md") if p.stem != "index")


@pytest.mark.parametrize("page", HOW_TO, ids=lambda p: p.stem)
def test_a_how_to_begins_with_the_command_and_ends_with_what_can_go_wrong(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    title, blank, first = text.split("\n", 3)[:3]
    assert title.startswith("# ")
    assert not blank
    assert re.fullmatch(r"```(?:text|console|python)", first), f"begins with {first!r}, not a block"
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    *_, last = re.split(r"^## ", prose, flags=re.MULTILINE)
    assert last.startswith("What can go wrong\n"), f"ends with {last.splitlines()[0]!r}"
    said = re.findall(r"^- \*\*.+?\*\*", last, flags=re.MULTILINE | re.DOTALL)
    assert 3 <= len(said) <= 6, f"{len(said)} things that can go wrong; name 3 to 6"


def test_every_module_parses_as_it_is_read_here() -> None:
    """The walk reads strings of code and no names: a variable called ``alike`` is no fault."""
    tree = ast.parse("alike = 1  # equal")
    assert isinstance(tree.body[0], ast.Assign)
    path = ROOT / "tests" / "docs" / "test_language.py"
    assert any("equal" in text for _, text in said(path))
