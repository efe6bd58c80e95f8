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

THINGS = (
    r"batch|cell|class|cluster|classifier|column|core|device|entry|epoch|family|image|item|label|line|"
    r"look|node|page|part|person|picture|rater|round|row|sample|setting|stratum|system|task|verb|"
    r"worker|world"
)
UNITS = rf"(?:{THINGS}|day|hour|minute|month|week|year)"
COUNTED = (
    r"(?:\d[\d,]*|one|two|three|four|five|several|bits|bytes|calls|cells|choices|classes|columns|digits|"
    r"epochs|intervals|judgements|labels|lines|links|minutes|options|points|questions|raters|ratings|"
    r"replies|rows?|scores|seconds|steps|tables|tokens|values|verdicts|votes|weights|words|worlds)"
)
SMALL = r"(?!(?:as|asks|at|but|by|can|for|has|if|in|is|makes|needs|not|of|on|or|over|than|that|to|uses|was|when|where|who|whose|with)\b)"
SO_MANY = rf"(?:one {SMALL}\w+|(?:two|three|four|five|several|\d[\d,]*\b) {SMALL}\w+s)"
VERBS = r"(?<!who )(?<!which )(?<!that )(?<!system )(?<!nobody )(?<!never )(?<!to )(?<!must )(?<!model )"
AFTER = r"(?! (?:of|that|whose|which|from|is|was|has|gets|takes|must|can|could|may|learned)\b)"

BANNED: dict[str, tuple[str, str]] = {
    "distributive a": (
        rf"\b(?:(?={COUNTED} an? ){VERBS}{COUNTED} an? {UNITS}|{SO_MANY} an? (?:{THINGS}))\b{AFTER}",
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
    "left aside": (r"\bleft aside\b", "ignored"),
    "held against": (r"\bheld against\b", "compared with"),
    "anew": (r"\banew\b", "again"),
    "others read": (r"\bthat others read\b", "for other tools"),
    "makes again": (r"\bmakes (?:it|this|them|this page) again\b", "reproduces"),
    "re-made": (r"\bre-made\b", "reproduced"),
    "turned round": (r"\bturned round\b", "reversed"),
    "as can be": (r"\bas \w+ as can be\b", "as … as possible"),
    "no news": (r"\bis no news\b", "does not matter; says nothing new"),
}
"""Name of a phrase to its pattern, and what to write instead."""

QUOTED: dict[str, set[str]] = {
    "docs/explanation/collecting-labels.md": {"distributive a"},  # a column that is called "a"
    "src/noracle/evidence/preferences.py": {"distributive a"},  # two answers a rater preferred
}


def said(path: Path) -> Iterator[tuple[int, str]]:
    """What a reader can read, with its lines: strings of code as they are put together, comments of
    several lines as one, all of a page.
    """
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        yield 1, text
        return
    inside: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.JoinedStr):
            inside |= {id(part) for part in node.values}
            parts = (p.value if isinstance(p, ast.Constant) else "…" for p in node.values)
            yield node.lineno, "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from [] if id(node) in inside else [(node.lineno, node.value)]
    comments: dict[int, str] = {}
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            line = token.start[0]
            before = comments.pop(line - 1, "")
            comments[line] = f"{before} {token.string.lstrip('# ')}"
    yield from comments.items()


@functools.cache
def faults(path: Path) -> tuple[str, ...]:
    """The banned phrases of a file, as lines to read."""
    name = path.relative_to(ROOT).as_posix()
    banned = {k: v for k, v in BANNED.items() if k not in QUOTED.get(name, ())}
    return tuple(
        f"{name}:{start}: {match[0]!r}; write: {instead}"
        for start, text in ((start, re.sub(r"\s+", " ", text)) for start, text in said(path))
        for pattern, instead in banned.values()
        for match in re.finditer(pattern, text, re.IGNORECASE)
    )


ENDS = {".py", ".md", ".toml", ".html", ".svg", ".js", ".sql", ".po", ".ipynb", ".yml"}
TREES = ("src", "docs", "examples", "benchmarks")
PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "Makefile", "action.yml")


def files() -> list[Path]:
    """Pages, code with its docstrings and messages, templates of pages, labels of charts."""
    found = [p for tree in TREES for p in (ROOT / tree).rglob("*") if p.suffix in ENDS]
    found += [*(ROOT / name for name in PAGES), *(SOURCE / "schemas").glob("*.json")]
    made = {"_build", "generated", "__pycache__", ".ipynb_checkpoints"}
    parts = ((p, p.relative_to(ROOT).parts) for p in found)
    return sorted(p for p, at in parts if not made & set(at) and not p.name.endswith(".min.js"))


@pytest.mark.parametrize("tree", [*TREES, ""])
def test_no_page_docstring_or_message_has_a_banned_phrase(tree: str) -> None:
    chosen = [p for p in files() if p.relative_to(ROOT).parts[0] == tree]
    chosen = chosen if tree else [p for p in files() if p.parent == ROOT]
    assert len(chosen) >= len(PAGES)
    assert [line for path in chosen for line in faults(path)] == []


def test_templates_of_the_service_and_of_reports_are_read() -> None:
    read = {p.relative_to(SOURCE).as_posix() for p in files() if p.is_relative_to(SOURCE)}
    wanted = {p.relative_to(SOURCE).as_posix() for p in SOURCE.rglob("*.html")}
    assert wanted <= read
    assert {"collect/web/static/app.js", "schemas/plan-1.json"} <= read


def test_phrases_are_found_across_strings_and_lines(tmp_path: Path) -> None:
    code = 'x = 1\nsaid = ("one row " f"an item, {x}")\n# is held\n# against it\n'
    (tmp_path / "code.py").write_text(code, encoding="utf-8")
    texts = [re.sub(r"\s+", " ", text) for _, text in said(tmp_path / "code.py")]
    found = [n for text in texts for n, (pattern, _) in BANNED.items() if re.search(pattern, text)]
    assert found == ["distributive a", "held against"]


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
        ("one column a rater", "distributive a"),
        ("192 numbers an image", "distributive a"),
        ("left\n    aside key.csv", "left aside"),
    ],
)
def test_phrases_are_found(text: str, phrase: str) -> None:
    assert re.search(BANNED[phrase][0], re.sub(r"\s+", " ", text), re.IGNORECASE)


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
        "one of a class",
        "three systems answer an item",
        "the two label an item once",
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
