"""``noracle demo``: a folder of simulated evidence, and the report on it."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from noracle.cli import _options as opt
from noracle.cli._options import Output, option, with_options
from noracle.cli._output import say, settings, template, working, write_table
from noracle.cli.report import report
from noracle.cli.simulate import write_world
from noracle.simulate import simulate_raters, simulate_world

if TYPE_CHECKING:
    from noracle.oversight.oversight import Oversight
    from noracle.simulate import World

EXAMPLE = opt.paragraphs("""Example:
noracle demo
noracle demo --seed 7 --out noracle-demo""")

_CLASSES = 10
_SYSTEMS = {"agent-1": 0.95, "agent-2": 0.80, "agent-3": 0.72}
_PEOPLE = {"ann": 0.76, "bob": 0.72, "cy": 0.74, "dee": 0.70, "eve": 0.73}
_RATED, _SCORED, _GOLD = 0.2, 0.2, 0.05
"""Shares of the items that people rate, that autoraters score, and that an expert scores too."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _DemoOptions:
    out: str = option("Folder for the tables and the report.", "DIR", "noracle-demo")
    n_items: int = option("Number of items.", "N", 4000, min=100)
    seed: int = opt.seed(7)


@with_options()
def command(own: _DemoOptions, output: Output) -> None:
    """Simulate three systems, five people and two autoraters, and report on them as on any folder.

    One question an item was asked: is it of this class? The tables lie in --out, as you would have
    them; key.csv is what you would not have. The report leaves it aside; it is only used here to
    show how close the report came.
    """
    world = simulate_world(
        n_items=own.n_items,
        n_classes=_CLASSES,
        systems=_SYSTEMS,
        no_answer=0.03,
        unsure=0.02,
        seed=own.seed,
    )
    with working("simulating"):
        write_world(world, own.out)
        write_more(world, Path(own.out))
    if not output.as_json and not settings.quiet:
        told = f"{own.n_items:,} items with {_CLASSES} classes, three systems"
        say(f"simulated {told} and one question per item (seed {own.seed})\n")
    page = output.html or str(Path(own.out) / "report.html")
    report(
        own.out,
        seed=own.seed,
        page=page,
        saved=str(Path(page).with_suffix(".json")),
        as_json=output.as_json,
        after=lambda oversight: [_against_key(oversight, world)],
    )


def write_more(world: World, folder: Path) -> None:
    """Write what goes beyond answers, judgements and items: ratings, scores, prices and settings."""
    n = len(world.key)
    rated = {item: world.key[item] for item in range(min(n, max(100, round(_RATED * n))))}
    ratings = simulate_raters(
        rated, raters=_PEOPLE, n_classes=_CLASSES, correlation=0.3, shared=0.2, seed=world.seed
    )
    write_table(folder / "ratings.csv", ratings)
    write_table(folder / "pilot.csv", _scores(world, "agent-1"))
    for name in ("prices.toml", "noracle.toml"):
        (folder / name).write_text(template(f"demo-{name}"), encoding="utf-8", newline="\n")


def _scores(world: World, system: str) -> dict[str, list[object]]:
    """Is the answer right? Scores of an expert on some items, and of two autoraters on more: the
    cheaper, the noisier.
    """
    rng = np.random.default_rng([world.seed, 9])
    answers = {i: a for i, s, a in zip(*world.answers.values(), strict=True) if s == system}
    columns: dict[str, list[object]] = {"item": [], "rater": [], "value": []}
    n = len(world.key)
    for item in range(min(n, max(200, round(_SCORED * n)))):
        right = float(answers[item] == world.key[item])
        noise = rng.standard_normal(2)
        scores = {
            "judge-large": 0.15 + 0.7 * right + 0.12 * noise[0],
            "judge-small": 0.3 + 0.4 * right + 0.22 * noise[1],
        }
        given = {"expert": right, **scores} if item < max(60, round(_GOLD * n)) else scores
        for rater, value in given.items():
            cut = round(float(min(max(value, 0.0), 1.0)), 4)
            for column, cell in zip(columns.values(), (item, rater, cut), strict=True):
                column.append(cell)
    return columns


def _against_key(oversight: Oversight, world: World) -> str:
    key = ", ".join(f"{name} {accuracy:.3f}" for name, accuracy in world.accuracy.items())
    judged = [s for s in oversight.systems if s.system in world.accuracy]
    held = sum(s.low <= world.accuracy[s.system] <= s.high for s in judged)
    told = f"{held} of {len(oversight.systems)} intervals hold it"
    return f"the key, which you would not have, says: {key}; {told}"
