"""A result as a few lines of plain text, and the same as an HTML fragment.

accuracy of 'agent-7'    0.800    95 % interval [0.708, 0.869]
  method      complementary labels, exact binomial
  evidence    500 items, 497 with a ruled-out class (9 answers ruled out), 3 without an answer (counted as wrong)
  guarantee   finite-sample
  rests on    iid items (assumed) · uniform routing (checked, p = 0.41)
"""

from __future__ import annotations

import functools
import re
import textwrap
from typing import TYPE_CHECKING

from noracle.report.content import SHOWN, ContentTable, content

if TYPE_CHECKING:
    import jinja2

_INDENT, _LABEL, WIDTH = "  ", 12, 120


def card(result: object, width: int = WIDTH) -> str:
    """Describe a result in plain text, with lines of so many columns.

    The first line holds the number and its interval, and says so if nothing is promised or an
    assumption failed.
    """
    said = content(result)
    lines = ["    ".join((*said.headline, *said.alerts))]
    lines += [line for table in said.tables for line in _table_lines(table)]
    for label, text in (*said.lines, *(("note", note) for note in said.notes)):
        lines += labelled_lines(label, text, width)
    return "\n".join(lines)


def html_card(result: object) -> str:
    """Describe a result as an escaped HTML fragment with the same words and numbers."""
    return templates().get_template("card.html").render(said=content(result)).strip()


@functools.cache
def templates() -> jinja2.Environment:
    """The templates of this package, with autoescape."""
    import jinja2

    return jinja2.Environment(
        loader=jinja2.PackageLoader("noracle.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _table_lines(table: ContentTable) -> list[str]:
    """The table in aligned columns; long ones end with the number of rows left out."""
    chosen = range(min(len(table.rows), SHOWN)) if table.shown is None else table.shown
    if not chosen:
        return []
    rows = [table.header, *(tuple(_one_line(cell) for cell in table.rows[i]) for i in chosen)]
    widths = [max(len(row[c]) for row in rows) for c in range(len(table.header))]
    lines = []
    for row in rows:
        cells = [
            cell.rjust(w) if right else cell.ljust(w)
            for cell, w, right in zip(row, widths, table.numeric, strict=True)
        ]
        lines.append((_INDENT + "  ".join(cells)).rstrip())
    left = len(table.rows) - len(chosen) + table.left_out
    if left:
        lines.append(f"{_INDENT}… and {left:,} more")
    return lines


def labelled_lines(label: str, text: str, width: int = WIDTH) -> list[str]:
    """A labelled line, folded under itself where it is long, never between a number and its word."""
    start = f"{_INDENT}{label:<{_LABEL}}"
    held = re.sub(r"(\d) (?=\w)", "\\1\N{NO-BREAK SPACE}", _one_line(text))
    folded = textwrap.wrap(
        held, width=width - len(start), break_long_words=False, break_on_hyphens=False
    ) or [""]
    return [
        f"{lead}{line}".replace("\N{NO-BREAK SPACE}", " ").rstrip()
        for lead, line in zip([start, *[" " * len(start)] * len(folded)], folded, strict=False)
    ]


def _one_line(text: str) -> str:
    return " ".join(text.split())
