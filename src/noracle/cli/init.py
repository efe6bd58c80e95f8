"""``noracle init``: a small project to begin with."""

from __future__ import annotations

import dataclasses
import glob
import json
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer

from noracle.cli import _options as opt
from noracle.cli._options import argument, option, with_options
from noracle.cli._output import template, working, write_table
from noracle.errors import EvidenceError, require

if TYPE_CHECKING:
    from noracle.oversight.model import Inventory
    from noracle.simulate import World

EXAMPLE = opt.paragraphs("""Example:
noracle init my-project
noracle init mine --from answers.csv --from grades.csv
noracle init new --have nothing
On a terminal it asks what you have.""")

Have = Literal["example", "files", "logs", "nothing"]
_HAVE: Mapping[Have, str] = {
    "example": "an example to play with",
    "files": "files of answers, labels, grades or ratings (CSV, JSONL, Parquet)",
    "logs": "logs of Inspect, lm-eval, promptfoo, DeepEval or OpenTelemetry",
    "nothing": "nothing yet: items that people should label",
}

_TABLES = ("answers.csv", "judgements.csv", "items.csv", "ratings.csv")
FILES = (*_TABLES, "prices.toml", "noracle.toml", "README.md")
_CLASSES, _ITEMS, _RATED = 5, 600, 400
_SYSTEMS = {"agent-1": 0.92, "agent-2": 0.80, "agent-3": 0.74}
_RATERS = (0.78, 0.75, 0.72, 0.69, 0.66)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _InitOptions:
    folder: str = argument(
        "Where to write it; made if it is not there.", "[FOLDER]", "noracle-project"
    )
    have: Have | None = option(
        "What you have; default files with --from, else it is asked on a terminal, else example."
    )
    sources: opt.Files = option(
        "A file, folder or glob of yours; it is named in noracle.toml and not copied. Repeat.",
        None,
        None,
        "--from",
    )
    seed: int = opt.seed(7)


@with_options()
def command(own: _InitOptions, output: opt.JsonOutput) -> None:
    """Write a project to start from: an example, or one on the files or logs that you have.

    Nothing is ever overwritten: if one of the files is there already, none is written.
    """
    have, sources = own.have or ("files" if own.sources else None), list(own.sources or ())
    if have is None:
        have = _ask() if _on_terminal() and not output.as_json else "example"
    if have in ("files", "logs") and not sources and _on_terminal() and not output.as_json:
        sources = shlex.split(typer.prompt("Which (paths or globs, with blanks between them)"))
    goes = bool(sources) == (have in ("files", "logs"))
    got = f"got {'no' if not sources else 'a'} --from and --have {have}"
    require(goes, f"--from must go with --have files or logs, and they with it; {got}.")
    with working("writing a project"):
        if have == "example":
            tables, texts = _project(own.folder, own.seed)
        else:
            tables, texts = {}, _texts(have, own.folder, sources)
        _write(own.folder, tables, texts)
    files, quoted = [*tables, *texts], shlex.quote(own.folder)
    lines = [f"wrote {', '.join(files)} in {own.folder}\n"]
    if have == "nothing":
        lines += [f"{quoted}/README.md says the three steps, from a plan to a report"]
    else:
        lines += [
            f"noracle report {quoted}    reports everything this evidence can tell",
            f"noracle watch {quoted}     follows it as rows are added",
        ]
    found = {"folder": own.folder, "have": have, "files": files, "seed": own.seed}
    output.tell(found, lines)


def _on_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def _ask() -> Have:
    """What the reader says that there is."""
    choices: Sequence[Have] = list(_HAVE)
    for number, have in enumerate(choices, start=1):
        print(f"  {number}  {_HAVE[have]}")
    answer = int(typer.prompt("What do you have", default=1, type=int))
    require(1 <= answer <= len(choices), f"the answer must be 1 to {len(choices)}; got {answer}.")
    return choices[answer - 1]


def _write(folder: str, tables: Mapping[str, Any], texts: Mapping[str, str]) -> None:
    """Write all files, or none where one is there already."""
    target = Path(folder)
    free = target.is_dir() or not target.exists()
    require(free, f"FOLDER must be a folder; got the file {folder!r}.")
    there = [name for name in (*tables, *texts) if (target / name).exists()]
    got = f"got {', '.join(there)} in {folder!r}. Name another folder."
    require(not there, f"FOLDER must not hold files of a project yet; {got}")
    target.mkdir(parents=True, exist_ok=True)
    for name, columns in tables.items():
        write_table(target / name, columns)
    for name, text in texts.items():
        (target / name).write_text(text, encoding="utf-8", newline="\n")


def _texts(have: Have, folder: str, sources: Sequence[str]) -> dict[str, str]:
    """The texts of a project on files that exist, or on nothing."""
    title = (Path(folder).resolve().name or "Project").replace("-", " ")
    values = {"folder": shlex.quote(folder), "title": title}
    if have == "nothing":
        texts = {n: template(f"init-nothing-{n}") for n in ("items.csv", "project.toml")}
        texts["prices.toml"] = template("init-prices.toml")
    else:
        found = _recognised(sources)
        rows = [
            f"| {s.kind} | {', '.join(map(_from_here, s.paths))} | {s.why} |" for s in found.sources
        ]
        rows += [f"| ignored | {u.path} | {u.reason} |" for u in found.unused]
        values["table"] = "\n".join(["| what | file | how it is known |", "|---|---|---|", *rows])
        texts = {"noracle.toml": _settings(title, folder, found)}
    text = template(f"init-{'nothing' if have == 'nothing' else 'files'}-README.md")
    for key, value in values.items():
        text = text.replace(f"{{{key}}}", value)
    return {**texts, "README.md": text}


def _recognised(sources: Sequence[str]) -> Inventory:
    """What the files hold; a file that is of no known kind is tried as answers, a column for each
    system.
    """
    from noracle.oversight.find import find_evidence
    from noracle.oversight.model import FolderSettings

    try:
        found = find_evidence(list(sources))
        others, failed = [u.path for u in found.unused], None
        if found.of("answers"):
            return found
    except EvidenceError as error:
        found, failed = None, error
        others = [f for s in sources for f in (sorted(glob.glob(s, recursive=True)) or [s])]  # noqa: PTH207 (may be absolute)
    for path in others:
        try:
            files = {"answers": (os.path.abspath(path),)}  # noqa: PTH100 (links stay links)
            return find_evidence(list(sources), settings=FolderSettings(files=files))
        except EvidenceError:
            continue
    if found is None and failed is not None:
        raise failed
    return found  # type: ignore[return-value]


def _settings(title: str, folder: str, found: Inventory) -> str:
    """``noracle.toml`` that names the files where they lie."""

    def quoted(value: object) -> str:
        return json.dumps(value, ensure_ascii=False)

    lines = [
        "# What noracle cannot guess from the tables. Every line may be left out.\n",
        f"title = {quoted(title)}",
        "confidence = 0.95                 # of everything that the report says, together",
        "# n_classes = 4                   # an item is of one of so many classes",
        '# claim = "accuracy > 1/2"        # what the systems are held to, from their answers alone',
        '# trained_on_annotators = "no"    # were the systems trained on labels of the raters?',
        "half_width = 0.02                 # the precision that the next labels are planned for\n",
        "[files]",
    ]
    for source in found.sources:
        paths = [Path(_from(folder, path)).as_posix() for path in source.paths]
        lines.append(f"{source.kind} = {quoted(paths)}")
    return "\n".join(lines) + "\n"


def _from_here(path: str) -> str:
    near = _from(".", path)
    return path if near.startswith("..") else near


def _from(folder: str, path: str) -> str:
    """The path as seen from the folder; as it is on another drive."""
    try:
        return os.path.relpath(path, folder)
    except ValueError:
        return os.path.abspath(path)  # noqa: PTH100 (links stay links)


def _project(folder: str, seed: int) -> tuple[dict[str, dict[str, list[Any]]], dict[str, str]]:
    """The tables and the texts."""
    from noracle.simulate import simulate_world

    world = simulate_world(
        n_items=_ITEMS, n_classes=_CLASSES, systems=_SYSTEMS, no_answer=0.02, unsure=0.02, seed=seed
    )
    ratings = _ratings(world, seed)
    columns = (world.answers, world.judgements, world.items, ratings)
    tables = dict(zip(_TABLES, columns, strict=True))
    values = {
        "folder": shlex.quote(folder),
        "seed": seed,
        "classes": _CLASSES,
        "last": _CLASSES - 1,
        "items": _ITEMS,
        "rated": _RATED,
        "raters": len(_RATERS),
    }
    texts = {}
    for name in FILES[-3:]:
        text = template(f"init-{name}")
        for key, value in values.items():
            text = text.replace(f"{{{key}}}", str(value))
        texts[name] = text
    return tables, texts


def _ratings(world: World, seed: int) -> dict[str, list[Any]]:
    """Ratings of the first items, all of one item together."""
    from noracle.simulate import simulate_raters

    key = {item: world.key[item] for item in sorted(world.key)[:_RATED]}
    raters = {f"rater-{j}": accuracy for j, accuracy in enumerate(_RATERS, start=1)}
    return dict(simulate_raters(key, raters=raters, n_classes=_CLASSES, correlation=0.2, seed=seed))
