"""Two directives: the kinds of guarantee in the words of the code, and the measured coverage of every interval.

The measurements are the rows of ``benchmarks/guarantees.json``: interval, method, setting, coverage, nominal, width, guarantee, and
optionally worlds (how many simulated worlds the row counts).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from docutils import nodes
from guarantee_rows import COLUMNS, cells, read_rows
from sphinx.util.docutils import SphinxDirective


def table(header: tuple[str, ...], rows: list[tuple[str, ...]]) -> nodes.table:
    group = nodes.tgroup(cols=len(header))
    group += [nodes.colspec(colwidth=1) for _ in header]
    head, body = nodes.thead(), nodes.tbody()
    for part, lines in ((head, [header]), (body, rows)):
        for line in lines:
            row = nodes.row()
            row += [nodes.entry("", nodes.paragraph("", cell)) for cell in line]
            part += row
    group += [head, body]
    return nodes.table("", group)


class KindsTable(SphinxDirective):
    """The kinds of guarantee, strongest first, in the words that reports use."""

    def run(self) -> list[nodes.Node]:
        from noracle.report.words import KINDS

        return [table(("guarantee", "meaning"), [(kind.label, words) for kind, words in sorted(KINDS.items(), reverse=True)])]


class GuaranteesTable(SphinxDirective):
    """The measured coverage of every interval, or how to measure it."""

    def run(self) -> list[nodes.Node]:
        path = Path(self.env.srcdir).parent / "benchmarks" / "guarantees.json"
        self.env.note_dependency(str(path))
        rows = read_rows(path)
        if not rows:
            text = "No measurements are stored yet. Make them with: make test-slow PART=guarantees"
            return [nodes.note("", nodes.paragraph("", text))]
        return [table(COLUMNS, [cells(row) for row in rows])]


def setup(app: Any) -> dict[str, bool]:
    app.add_directive("kinds-table", KindsTable)
    app.add_directive("guarantees-table", GuaranteesTable)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
