"""After the site is written: every link inside it must lead to a page, and every anchor to a place
on that page; else the build fails.

Sphinx checks references that it knows. This reads what came out, as a browser would: links in raw
HTML, in docstrings, in included pages and in pictures, too. Links to other sites are not followed;
only their form is looked at.
"""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from sphinx.errors import SphinxError


class Page(HTMLParser):
    """The places on a page that can be linked to, and the links on it."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.places: set[str] = set()
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002 (the parser's signature)
        """Take note of ids, names, links and sources."""
        values = dict(attrs)
        self.places |= {v for k in ("id", "name") if (v := values.get(k))}
        self.links += [v for k in ("href", "src") if (v := values.get(k))]


def read_page(path: Path) -> Page:
    page = Page()
    page.feed(path.read_text(encoding="utf-8"))
    return page


def misshapen(link: str) -> bool:
    """Whether a link to another site cannot be right."""
    parts = urlsplit(link)
    return (
        parts.scheme not in ("https", "http")
        or "." not in parts.netloc
        or any(c.isspace() for c in link)
    )


def broken_links(site: Path) -> list[str]:
    """One line for every link that leads nowhere."""
    paths = [p for p in sorted(site.rglob("*.html")) if "_static" not in p.relative_to(site).parts]
    pages = {path.resolve(): read_page(path) for path in paths}  # templates of a theme are no pages
    found = []
    for path, page in pages.items():
        for link in dict.fromkeys(page.links):
            parts = urlsplit(link)
            where = f"{path.relative_to(site.resolve()).as_posix()}: {link}"
            if parts.scheme in ("mailto", "data", "javascript"):
                continue
            if parts.scheme or parts.netloc:
                found += [f"{where} (not the form of an address)"] if misshapen(link) else []
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.exists():
                found.append(f"{where} (no such file)")
            elif (
                parts.fragment
                and target in pages
                and unquote(parts.fragment) not in pages[target].places
            ):
                found.append(f"{where} (no such place on the page)")
    return found


def on_finish(app: Any, error: Exception | None) -> None:
    if error is None and app.builder.format == "html":
        found = broken_links(Path(app.outdir))
        if found:
            raise SphinxError("links that lead nowhere:\n" + "\n".join(found))


def setup(app: Any) -> dict[str, bool]:
    app.connect("build-finished", on_finish)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
