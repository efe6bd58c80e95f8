"""Directives: the kinds of guarantee in the words of the code, and what was measured: by part,
where approximations fail, and every row.

The measurements are the rows of ``benchmarks/guarantees.json``;
``tests/guarantees/matrix/record.py`` says what they mean.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from docutils import nodes
from guarantee_rows import PARTS, WEAK, Row, details, part_rows, read_rows, weak_rows
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

        return [
            table(
                ("guarantee", "meaning"),
                [(kind.label, words) for kind, words in sorted(KINDS.items(), reverse=True)],
            )
        ]


class Measured(SphinxDirective):
    """Something made of the measurements, or how to make them."""

    def run(self) -> list[nodes.Node]:
        path = Path(self.env.srcdir).parent / "benchmarks" / "guarantees.json"
        self.env.note_dependency(str(path))
        rows = read_rows(path)
        if not rows:
            text = "No measurements are stored yet. Make them with: python benchmarks/guarantees.py"
            return [nodes.note("", nodes.paragraph("", text))]
        return self.made(rows)

    def made(self, rows: list[Row]) -> list[nodes.Node]:
        raise NotImplementedError


class GuaranteesSummary(Measured):
    """One line per part."""

    def made(self, rows: list[Row]) -> list[nodes.Node]:
        return [table(PARTS, part_rows(rows))]


class GuaranteesFailures(Measured):
    """Where approximations fail."""

    def made(self, rows: list[Row]) -> list[nodes.Node]:
        weak = weak_rows(rows)
        return [table(WEAK, weak)] if weak else [nodes.paragraph("", "None fails.")]


class GuaranteesTable(Measured):
    """Every row, folded by part."""

    def made(self, rows: list[Row]) -> list[nodes.Node]:
        return [nodes.raw("", details(rows), format="html")]


def setup(app: Any) -> dict[str, bool]:
    app.add_directive("kinds-table", KindsTable)
    app.add_directive("guarantees-summary", GuaranteesSummary)
    app.add_directive("guarantees-failures", GuaranteesFailures)
    app.add_directive("guarantees-table", GuaranteesTable)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
