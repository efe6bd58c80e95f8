"""``noracle init``: a small project to begin with."""

from __future__ import annotations

import dataclasses
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from noracle.cli import _options as opt
from noracle.cli._options import argument, with_options
from noracle.cli._output import say, say_json, working, write_table
from noracle.errors import ArgumentError

if TYPE_CHECKING:
    from noracle.simulate import World

EXAMPLE = """Example:

noracle init my-project

noracle report my-project"""

FILES = (
    "answers.csv",
    "judgements.csv",
    "items.csv",
    "ratings.csv",
    "prices.toml",
    "noracle.toml",
    "README.md",
)
_CLASSES, _ITEMS, _RATED = 5, 600, 400
_SYSTEMS = {"agent-1": 0.92, "agent-2": 0.80, "agent-3": 0.74}
_RATERS = (0.78, 0.75, 0.72, 0.69, 0.66)

_SETTINGS = """# What noracle cannot guess from the tables. Every line may be left out.

title = "An example project"
confidence = 0.95                 # of everything that the report says, together
seed = {seed}
n_classes = {classes}                     # an item is of one of the classes 0 to {last}
protocol = "question"             # each judgement is one question: is this item of class k?
claim = "accuracy > 1/2"          # what the systems are held to, from their answers alone; without it no alarm
trained_on_annotators = "no"      # were the systems trained on labels of the raters? Say so honestly.
half_width = 0.02                 # the precision that the next labels are planned for
"""

_PRICES = """# What one label costs, in any currency.

[labels]
ordinary = 4.0         # somebody names the class of an item
complementary = 0.5    # somebody names a class that it is not
question = 0.6         # somebody says whether it is of one class
targeted = 0.8         # the same, about the class that a system answered
"""

_README = """# An example project

Three systems sorted {items} items into {classes} classes. Nobody has the answer key. This is what there is:

| file | what it says |
|---|---|
| answers.csv | what each system answered; an empty cell is no answer |
| judgements.csv | one question an item, about a class drawn at random: is it of this class? |
| items.csv | the items and how many classes each has |
| ratings.csv | what {raters} people think of {rated} of the items; they err too |
| prices.toml | what a label costs |
| noracle.toml | what noracle cannot guess |

All of it is simulated (seed {seed}), so you may play with it. Replace the tables by your own, with the same columns.

Everything that this evidence allows to say, on one page:

    noracle report {folder}

Add rows to the tables and look as often as you like:

    noracle watch {folder}

One question at a time:

    noracle estimate --answers {folder}/answers.csv --judgements {folder}/judgements.csv --items {folder}/items.csv
    noracle compare --answers {folder}/answers.csv --judgements {folder}/judgements.csv --items {folder}/items.csv
    noracle certify --answers {folder}/answers.csv --ratings {folder}/ratings.csv --trained-on-annotators no
    noracle alarm --answers {folder}/answers.csv --spec "accuracy > 1/2" --n-classes {classes}
    noracle plan --n-classes {classes} --accuracy 0.9 --half-width 0.02 --cost ordinary=4 --cost question=0.6

`noracle --help` lists the verbs by question. An exit code of 1 is a considered no, as "not certified".
"""


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
    if target.exists() and not target.is_dir():
        raise ArgumentError(f"FOLDER must be a folder; got the file {own.folder!r}.")
    there = [name for name in FILES if (target / name).exists()]
    if there:
        raise ArgumentError(
            f"FOLDER must not hold files of a project yet; got {', '.join(there)} in {own.folder!r}. Name another folder."
        )
    with working("writing a project"):
        tables, texts = _project(own.folder, own.seed)
        target.mkdir(parents=True, exist_ok=True)
        for name, columns in tables.items():
            write_table(target / name, columns)
        for name, text in texts.items():
            (target / name).write_text(text, encoding="utf-8")
    if output.as_json:
        say_json({"folder": own.folder, "files": list(FILES), "seed": own.seed})
        return
    say(f"wrote {', '.join(FILES)} in {own.folder}\n")
    quoted = shlex.quote(own.folder)
    say(f"noracle report {quoted}    says everything that this evidence allows")
    say(f"noracle watch {quoted}     follows it while rows are added")


def _project(folder: str, seed: int) -> tuple[dict[str, dict[str, list[Any]]], dict[str, str]]:
    """The tables and the texts."""
    from noracle.simulate import simulate_world

    world = simulate_world(
        n_items=_ITEMS, n_classes=_CLASSES, systems=_SYSTEMS, no_answer=0.02, unsure=0.02, seed=seed
    )
    tables = {
        "answers.csv": world.answers,
        "judgements.csv": world.judgements,
        "items.csv": world.items,
        "ratings.csv": _ratings(world, seed),
    }
    values = {
        "folder": shlex.quote(folder),
        "seed": seed,
        "classes": _CLASSES,
        "last": _CLASSES - 1,
        "items": _ITEMS,
    }
    values |= {"rated": _RATED, "raters": len(_RATERS)}

    def filled(text: str) -> str:
        for name, value in values.items():
            text = text.replace(f"{{{name}}}", str(value))
        return text

    texts = {
        "prices.toml": _PRICES,
        "noracle.toml": filled(_SETTINGS),
        "README.md": filled(_README),
    }
    return tables, texts


def _ratings(world: World, seed: int) -> dict[str, list[Any]]:
    """Ratings of the first items, all of one item together."""
    from noracle.simulate import simulate_raters

    key = {item: world.key[item] for item in sorted(world.key)[:_RATED]}
    raters = {f"rater-{j}": accuracy for j, accuracy in enumerate(_RATERS, start=1)}
    return dict(simulate_raters(key, raters=raters, n_classes=_CLASSES, correlation=0.2, seed=seed))
