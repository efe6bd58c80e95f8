"""The chapter: one page a paper, an index, small figures, and records.json, from which a later run
goes on.
"""

from __future__ import annotations

import ast
import dataclasses
import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from _reproduce_model import STATUS_WORDS, Figure, Item, Made, Paper, Record, Size

ROOT = Path(__file__).parents[2]
RECORDS = "records.json"
WIDTH, COLOURS = 900, 128
Key = tuple[str, str]


# ------------------------------------------------------------------------------------------------------------------------------
# digests


def sources_digest(paper: Paper, size: Size) -> str:
    """Digest of all that the figures of a paper rest on: the code without comments and docstrings,
    the data at hand, and the size.
    """
    digest = hashlib.sha256(repr((tuple(size), data_at_hand())).encode())
    for path in _files(
        (*paper.sources, "examples/papers/_data.py", "examples/papers/_reproduce_model.py")
    ):
        digest.update(path.relative_to(ROOT).as_posix().encode() + _content(path))
    return digest.hexdigest()[:16]


def data_at_hand() -> tuple[tuple[str, int], ...]:
    """Names and sizes of the data files in the folder that NORACLE_DATA names."""
    folder = os.environ.get("NORACLE_DATA", "")
    if not folder or not Path(folder).is_dir():
        return ()
    return tuple(
        sorted(
            (p.name, p.stat().st_size)
            for p in Path(folder).iterdir()
            if p.suffix in (".npz", ".parquet")
        )
    )


def _files(patterns: Iterable[str]) -> list[Path]:
    found: set[Path] = set()
    for pattern in patterns:
        for path in ROOT.glob(pattern):
            found.update(path.rglob("*.py") if path.is_dir() else [path])
    return sorted(found)


def _content(path: Path) -> bytes:
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        return ast.dump(_without_docstrings(ast.parse(text))).encode()
    if path.suffix == ".jsonl":  # recorded trials, not the other lines of the journal
        text = "\n".join(
            sorted(line for line in text.splitlines() if '"bench": "learn-trial"' in line)
        )
    return text.encode()


def _without_docstrings(tree: ast.Module) -> ast.Module:
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
            and ast.get_docstring(node) is not None
        ):
            node.body = node.body[1:]
    return tree


# ------------------------------------------------------------------------------------------------------------------------------
# reading


def read_records(out: Path) -> dict[Key, Record]:
    """The records of an earlier run; none where there was none."""
    path = out / RECORDS
    if not path.is_file():
        return {}
    found = json.loads(path.read_text(encoding="utf-8"))["records"]
    return {(row["paper"], row["item"]): Record.read(row) for row in found}


def read_sections(out: Path, paper: Paper) -> dict[str, str]:
    """The sections of a page that is there, by the item's name."""
    path = out / f"{paper.key}.md"
    if not path.is_file():
        return {}
    parts = re.split(r"^## ", path.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    return {part.partition(":")[0]: f"## {part.rstrip()}" for part in parts}


def is_done(out: Path, record: Record | None, section: str | None, sources: str) -> bool:
    """Whether an item need not be made again: same sources, and its section and figures are as they
    were left.
    """
    if record is None or section is None or record.status == "failed" or record.sources != sources:
        return False
    figures = [out / name for name in record.figures]
    return all(p.is_file() for p in figures) and record.content == content_digest(section, figures)


def content_digest(section: str, figures: Sequence[Path]) -> str:
    """Digest of what an item left in the chapter."""
    digest = hashlib.sha256(section.encode())
    for path in figures:
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


# ------------------------------------------------------------------------------------------------------------------------------
# writing


def keep_figure(figure: Figure, path: Path) -> None:
    """A small picture with few colours: the same bytes for the same picture."""
    from PIL import Image

    path.parent.mkdir(parents=True, exist_ok=True)
    with Image.open(figure.path) as picture:
        flat = picture.convert("RGB")
    if flat.width > WIDTH:
        flat = flat.resize(
            (WIDTH, round(flat.height * WIDTH / flat.width)), Image.Resampling.LANCZOS
        )
    flat.quantize(COLOURS, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(
        path, optimize=True
    )


def section_of(item: Item, made: Made, figures: Sequence[str]) -> str:
    """One item as Markdown: what is published, what differs, why, then the tables and pictures."""
    facts = [
        ("published", made.published),
        ("difference", made.difference),
        ("reason", made.reason),
        ("status", made.status),
    ]
    if made.missing:
        facts.append(("missing", "; ".join(made.missing)))
    parts = [
        f"## {item.name}: {item.title}",
        "\n".join(f"- **{name}**: {words}" for name, words in facts),
    ]
    parts += [
        f"![{figure.alt}]({name})" for figure, name in zip(made.figures, figures, strict=True)
    ]
    return "\n\n".join([*parts, *(part for part in made.body if part)]).rstrip()


def write_item(
    out: Path, item: Item, made: Made, *, seconds: float, cpu_seconds: float, sources: str
) -> tuple[Record, str]:
    """Keep the figures of an item; its record and its section."""
    names = [
        f"figures/{item.paper}-{item.key}{'' if i == 0 else f'-{i + 1}'}.png"
        for i in range(len(made.figures))
    ]
    for figure, name in zip(made.figures, names, strict=True):
        keep_figure(figure, out / name)
    section = section_of(item, made, names)
    record = Record(
        paper=item.paper,
        item=item.name,
        ours=f"{item.paper}.md#{anchor(item)}",
        published=made.published,
        difference=made.difference,
        reason=made.reason,
        status=made.status,
        missing=made.missing,
        figures=tuple(names),
        seconds=round(seconds, 1),
        cpu_seconds=round(cpu_seconds, 1),
        sources=sources,
        content=content_digest(section, [out / name for name in names]),
    )
    return record, section


def failed_item(item: Item, error: str, *, seconds: float) -> tuple[Record, str]:
    """The record and the section of an item whose run ended with an error."""
    made = Made(published="–", difference="–", reason=error, status="failed")
    record = Record(
        paper=item.paper,
        item=item.name,
        ours=f"{item.paper}.md#{anchor(item)}",
        published="–",
        difference="–",
        reason=error,
        status="failed",
        seconds=round(seconds, 1),
    )
    return record, section_of(item, made, ())


def anchor(item: Item) -> str:
    """Where its heading is."""
    return re.sub(r"[^\w\- ]", "", f"{item.name}: {item.title}".lower()).strip().replace(" ", "-")


def write_page(out: Path, paper: Paper, sections: Mapping[str, str], *, quick: bool) -> None:
    """The page of a paper, from its sections in order."""
    note = ["**A quick run: the numbers are noisy and not those of the chapter.**"] if quick else []
    head = [
        f"# {paper.title}",
        f"{paper.authors}. {paper.intro}",
        f"Written by `make reproduce PAPER={paper.key}`; do not edit by hand.",
    ]
    present = [sections[item.name] for item in paper.items if item.name in sections]
    _write(out / f"{paper.key}.md", "\n\n".join([*head, *note, *present]) + "\n")


def write_index(
    out: Path, papers: Sequence[Paper], records: Mapping[Key, Record], *, quick: bool
) -> None:
    """The first page: every item with its status and difference, and the records as JSON."""
    parts = ["# The papers, reproduced", _about(quick), _statuses(records.values())]
    for paper in papers:
        rows = [_index_row(item, records.get((paper.key, item.name))) for item in paper.items]
        table = "\n".join(
            ["| item | status | difference to the published |", "|---|---|---|", *rows]
        )
        parts.append(f"## {paper.authors}: {paper.title}\n\n{table}")
    names = "\n".join(p.key for p in papers)
    parts.append(f"```{{toctree}}\n:hidden:\n\n{names}\n```")
    _write(out / "index.md", "\n\n".join(parts) + "\n")
    kept = [
        dataclasses.asdict(records[p.key, i.name])
        for p in papers
        for i in p.items
        if (p.key, i.name) in records
    ]
    _write(
        out / RECORDS,
        json.dumps({"schema": "reproduce/1", "records": kept}, indent=1, ensure_ascii=False) + "\n",
    )


def _about(quick: bool) -> str:
    words = (
        "Tables and figures of the five papers that noracle implements, ours beside theirs, with the difference and its reason. "
        "`make reproduce` writes this chapter; `make reproduce PAPER=alarm` only one page of it. What is unchanged since the last run is "
        "not "
        "run again. A run of everything takes at most 30 minutes on two cores; the seconds of each are in `records.json`."
    )
    return f"**A quick run: the numbers are noisy.** {words}" if quick else words


def _statuses(records: Iterable[Record]) -> str:
    found = [r.status for r in records]
    lines = [
        f"- **{status}** ({found.count(status)}): {words}."
        for status, words in STATUS_WORDS.items()
        if status in found
    ]
    return "\n".join(lines) or "Nothing has been run yet."


def _index_row(item: Item, record: Record | None) -> str:
    if record is None:
        return f"| {item.name}: {item.title} | not run | – |"
    difference = record.reason if record.status == "failed" else record.difference
    return f"| [{item.name}]({record.ours}): {item.title} | {record.status} | {_cell(difference)} |"


def _cell(text: str) -> str:
    return text.replace("|", "/").replace("\n", " ")


def _write(path: Path, text: str) -> None:
    """To a temporary name first, then renamed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.part")
    beside.write_text(text, encoding="utf-8")
    beside.replace(path)
