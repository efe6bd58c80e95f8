"""``noracle init``: a small project to begin with."""

from __future__ import annotations

import dataclasses
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from noracle.cli import _options as opt
from noracle.cli._options import argument, with_options
from noracle.cli._output import template, working, write_table
from noracle.errors import require

if TYPE_CHECKING:
    from noracle.simulate import World

EXAMPLE = opt.paragraphs("""Example:
noracle init my-project
noracle report my-project""")

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
    seed: int = opt.seed(7)


@with_options()
def command(own: _InitOptions, output: opt.JsonOutput) -> None:
    """Write a small example project that the report, the watch and every verb run on.

    Nothing is ever overwritten: if one of the files is there already, none is written.
    """
    target = Path(own.folder)
    free = target.is_dir() or not target.exists()
    require(free, f"FOLDER must be a folder; got the file {own.folder!r}.")
    there = [name for name in FILES if (target / name).exists()]
    got = f"got {', '.join(there)} in {own.folder!r}. Name another folder."
    require(not there, f"FOLDER must not hold files of a project yet; {got}")
    with working("writing a project"):
        tables, texts = _project(own.folder, own.seed)
        target.mkdir(parents=True, exist_ok=True)
        for name, columns in tables.items():
            write_table(target / name, columns)
        for name, text in texts.items():
            (target / name).write_text(text, encoding="utf-8")
    quoted = shlex.quote(own.folder)
    lines = (
        f"wrote {', '.join(FILES)} in {own.folder}\n",
        f"noracle report {quoted}    says everything that this evidence allows",
        f"noracle watch {quoted}     follows it while rows are added",
    )
    output.tell({"folder": own.folder, "files": list(FILES), "seed": own.seed}, lines)


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
