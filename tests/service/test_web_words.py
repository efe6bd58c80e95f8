"""Every message of the pages goes through gettext, and German is complete."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import jinja2
import pytest
from jinja2.ext import extract_from_ast

pytest.importorskip("fastapi", reason="the extra 'collect' is not installed")

from noracle.collect import web
from noracle.collect.web.page import FOLDER, LANGUAGES, Words

HERE = Path(web.__file__).parent
TEMPLATES = sorted((HERE / "templates").glob("*.html"))
_TOLD = {"aria-label", "title", "alt", "placeholder"}
_NAMES = {"noracle", "noracle verify"}


def messages() -> Iterator[tuple[str, ...]]:
    """All messages of the templates and the modules: (one,) or (one, many)."""
    env = jinja2.Environment(autoescape=True)
    for path in TEMPLATES:
        for _, _, found in extract_from_ast(env.parse(path.read_text()), ("_", "ngettext")):
            yield (
                (found,)
                if isinstance(found, str)
                else tuple(text for text in found if text is not None)
            )
    for path in HERE.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if (
                isinstance(node, ast.Call)
                and node.args
                and isinstance(node.args[0], ast.Constant)
                and isinstance(node.args[0].value, str)
            ):
                name = (
                    node.func.id
                    if isinstance(node.func, ast.Name)
                    else node.func.attr
                    if isinstance(node.func, ast.Attribute)
                    else ""
                )
                if name in ("_", "say"):
                    yield (node.args[0].value,)


def places(text: str) -> list[str]:
    return sorted(re.findall(r"%\(\w+\)s", text))


def test_there_are_messages() -> None:
    assert len(set(messages())) > 100


@pytest.mark.parametrize("language", [code for code in LANGUAGES if code != "en"])
def test_every_message_is_translated_with_the_same_places(language: str) -> None:
    pofile = pytest.importorskip("babel.messages.pofile", reason="babel is for development")
    with (FOLDER / language / "LC_MESSAGES" / "noracle.po").open("rb") as file:
        catalogue = pofile.read_po(file, locale=language)
    missing, broken = [], []
    for found in sorted(set(messages())):
        entry = catalogue.get(found[0])
        texts = (
            ()
            if entry is None
            else (entry.string,)
            if isinstance(entry.string, str)
            else entry.string
        )
        if entry is None or entry.fuzzy or not texts or not all(texts):
            missing.append(found[0])
        elif any(places(text) != places(found[-1]) for text in texts):
            broken.append(found[0])
    assert not missing, missing
    assert not broken, broken
    known = {found[0] for found in messages()}
    extra = [
        entry.id
        for entry in catalogue
        if entry.id and (entry.id if isinstance(entry.id, str) else entry.id[0]) not in known
    ]
    assert not extra, extra


@pytest.mark.parametrize("language", [code for code in LANGUAGES if code != "en"])
def test_compiled_catalogue_is_the_written_one(language: str) -> None:
    pofile = pytest.importorskip("babel.messages.pofile", reason="babel is for development")
    with (FOLDER / language / "LC_MESSAGES" / "noracle.po").open("rb") as file:
        catalogue = pofile.read_po(file, locale=language)
    words = Words(language)
    for entry in catalogue:
        if isinstance(entry.id, str) and entry.id:
            assert words.say(entry.id) == entry.string
        elif entry.id:
            filled = [
                text.replace("%(n)s", str(n)) for n, text in zip((1, 2), entry.string, strict=True)
            ]
            assert [words.count(*entry.id, n) for n in (1, 2)] == filled


class Told(HTMLParser):
    """Words that stand in a template itself."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_data(self, data: str) -> None:
        self._look(data)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in _TOLD:
                self._look(value or "")

    def _look(self, text: str) -> None:
        if re.search(r"[^\W\d_]{2,}", text) and " ".join(text.split()).strip(" ·.") not in _NAMES:
            self.found.append(" ".join(text.split()))


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_templates_have_no_words_of_their_own(path: Path) -> None:
    told = Told()
    told.feed(re.sub(r"\{\{.*?\}\}|\{%.*?%\}|\{#.*?#\}", " ", path.read_text(), flags=re.DOTALL))
    assert [text for text in told.found if text != "noracle verify .zip"] == []


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_templates_have_no_inline_script_style_or_unescaped_text(path: Path) -> None:
    text = path.read_text()
    assert not re.search(
        r"<style|\sstyle=|<script(?![^>]*\ssrc=)|\son\w+=|javascript:|\|\s*safe|autoescape", text
    )


def test_language_names_are_those_of_the_folder() -> None:
    assert {path.name for path in FOLDER.iterdir()} == set(LANGUAGES) - {"en"}
