"""What is reproduced: an item is a table or a figure of a paper, ``Made`` is what came out, ``Record``
is what is kept of it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple

from _tables import Page

Status = Literal["reproduced", "reproduced in shape", "input missing", "failed"]
STATUS_WORDS: dict[str, str] = {
    "reproduced": "from the paper's own numbers or definitions",
    "reproduced in shape": "the same experiment on other data, because the paper's are not public or not here",
    "input missing": "not made: what it needs is named",
    "failed": "the run ended with an error",
}


class Size(NamedTuple):
    """How much is computed."""

    quick: bool = False
    seed: int = 0


class Figure(NamedTuple):
    """A picture that an item has drawn, and its text alternative."""

    path: Path
    alt: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """What came out of one item, beside what is published."""

    published: str
    difference: str
    reason: str
    body: tuple[str, ...] = ()
    figures: tuple[Figure, ...] = ()
    status: Status = "reproduced"
    missing: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One table or figure: how it is made, and how many seconds that may take on two cores in a
    whole run, where items share work.
    """

    paper: str
    name: str
    title: str
    make: Callable[[Size, Path], Made]
    at_most: float

    @property
    def key(self) -> str:
        """A name for files: ``table-1``."""
        return self.name.lower().replace(" ", "-")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Paper:
    """A paper of the chapter, its items, and the parts of the project that they rest on."""

    key: str
    title: str
    authors: str
    intro: str
    items: tuple[Item, ...]
    sources: tuple[
        str, ...
    ]  # files and folders, from the root of the project; patterns are allowed


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What is known of one item after a run."""

    paper: str
    item: str
    ours: str  # where it is in the chapter
    published: str
    difference: str
    reason: str
    status: Status
    missing: tuple[str, ...] = ()
    figures: tuple[str, ...] = ()
    seconds: float = 0.0  # on a clock, alone or not
    cpu_seconds: float = 0.0
    sources: str = ""  # digest of the sources, the data and the size
    content: str = ""  # digest of the section and its figures

    @classmethod
    def read(cls, found: dict[str, Any]) -> Record:
        """From JSON."""
        return cls(
            **{**found, "missing": tuple(found["missing"]), "figures": tuple(found["figures"])}
        )


class Sections(Page):
    """A page that prints nothing and keeps its sections, for scripts that write on a page."""

    def __init__(self) -> None:
        self.parts: list[str] = []

    def add(self, title: str, *parts: str) -> None:
        """Keep a section, one level lower than a script's own."""
        self.parts.append("\n\n".join([f"### {title}", *parts]))

    @property
    def body(self) -> tuple[str, ...]:
        """All of them."""
        return tuple(self.parts)


def table_rows(text: str) -> Iterator[dict[str, str]]:
    """The rows of all Markdown tables in a text, by column."""
    header: list[str] | None = None
    for line in text.splitlines():
        if not line.startswith("|"):
            header = None
        elif not set(line) <= set("|-: "):
            cells = [c.strip() for c in line.strip("|").split("|")]
            if header is None:
                header = cells
            else:
                yield dict(zip(header, cells, strict=True))
