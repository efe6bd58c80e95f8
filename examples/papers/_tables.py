"""Markdown tables and where they go."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path


def markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table, padded so that it reads well as plain text; the first column is text, the
    others numbers.
    """
    body = [list(map(str, row)) for row in rows]
    widths = [max(len(str(line[i])) for line in [list(header), *body]) for i in range(len(header))]

    def line(cells: Sequence[str]) -> str:
        padded = [
            cells[0].ljust(widths[0]),
            *(c.rjust(w) for c, w in zip(cells[1:], widths[1:], strict=True)),
        ]
        return "| " + " | ".join(padded) + " |"

    rule = (
        "|" + "-" * (widths[0] + 2) + "|" + "|".join("-" * (w + 1) + ":" for w in widths[1:]) + "|"
    )
    return "\n".join([line(list(header)), rule, *(line(row) for row in body)])


def percent(value: float, digits: int = 2) -> str:
    """A share in per cent, without the sign; a dash where it is undefined."""
    return "–" if value != value else f"{100 * value:.{digits}f}"


class Page:
    """Collects sections, prints each as it comes and writes all of them to a file at the end."""

    def __init__(self, title: str) -> None:
        self.parts = [f"# {title}"]
        print(self.parts[0], flush=True)

    def add(self, title: str, *parts: str) -> None:
        """Add a section with paragraphs and tables."""
        text = "\n\n".join([f"## {title}", *parts])
        self.parts.append(text)
        print(f"\n{text}", flush=True)

    def write(self, path: Path) -> None:
        """Write the page; the folder is made if need be."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n\n".join(self.parts) + "\n", encoding="utf-8")
