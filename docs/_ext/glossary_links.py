"""The first use of a word of the glossary on each page is a link to what it means there.

Only running text is looked at: no headings, code, tables or links. Words that programs use in another
sense (a class of Python, the key of a server) are left to the pages that mean them.
"""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes

GLOSSARY = "reference/glossary"
NOT_HERE = ("changes", "reference/generated/", GLOSSARY)
AMBIGUOUS = {"class", "key", "gate", "plan", "report"}
_NO_TEXT = (
    nodes.title,
    nodes.literal,
    nodes.literal_block,
    nodes.reference,
    nodes.table,
    nodes.term,
    nodes.math,
)


def place_of(term: str) -> str:
    """The anchor of a word.

    Examples
    --------
    >>> place_of("ruled-out class")
    'term-ruled-out-class'
    """
    return "term-" + re.sub(r"\W+", "-", term.lower())


def mark_terms(tree: nodes.document) -> list[str]:
    """Give every word of the glossary its anchor; returns the words."""
    found = []
    for term in tree.findall(nodes.term):
        found.append(term.astext())
        term["ids"].append(place_of(term.astext()))
    return found


def link_first_uses(tree: nodes.document, terms: list[str], address: str) -> list[str]:
    """Make the first use of each word in the text a link; returns the words that were met."""
    left = sorted(set(terms) - AMBIGUOUS, key=len, reverse=True)
    met = []
    for paragraph in list(tree.findall(nodes.paragraph)):
        if _inside(paragraph):
            continue
        for text in [t for t in paragraph.findall(nodes.Text) if not _inside(t)]:
            rest: Any = text
            while left:
                words = "|".join(map(re.escape, left))
                match = re.search(rf"(?<![\w-])({words})s?(?![\w-])", str(rest), re.IGNORECASE)
                if match is None:
                    break
                term = match[1].lower()
                left.remove(term)
                met.append(term)
                link = nodes.reference("", match[0], internal=True, classes=["word"])
                link["refuri"] = f"{address}#{place_of(term)}"
                after = nodes.Text(str(rest)[match.end() :])
                before = nodes.Text(str(rest)[: match.start()])
                rest.parent.replace(rest, [before, link, after])
                rest = after
    return met


def _inside(node: Any) -> bool:
    while node.parent is not None:
        node = node.parent
        if isinstance(node, _NO_TEXT):
            return True
    return False


def on_read(app: Any, tree: nodes.document) -> None:
    if app.env.docname == GLOSSARY:
        app.env.glossary_words = mark_terms(tree)


def on_resolved(app: Any, tree: nodes.document, docname: str) -> None:
    if app.builder.format != "html" or docname.startswith(NOT_HERE):
        return
    address = app.builder.get_relative_uri(docname, GLOSSARY)
    link_first_uses(tree, getattr(app.env, "glossary_words", []), address)


def setup(app: Any) -> dict[str, Any]:
    app.connect("doctree-read", on_read)
    app.connect("doctree-resolved", on_resolved)
    return {"version": "1", "parallel_read_safe": False, "parallel_write_safe": True}
