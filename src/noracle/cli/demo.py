"""``noracle demo``: every verb on a simulated world, in one report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from noracle.accuracy import compare_systems, estimate_accuracy
from noracle.cli import _options as opt
from noracle.cli._options import Sources, routing_checks
from noracle.cli._output import Output, say, working
from noracle.cli.check import label_checks, question_checks
from noracle.cli.simulate import write_world
from noracle.counts import count_accuracy
from noracle.ppi import plan_labels
from noracle.simulate import simulate_world

if TYPE_CHECKING:
    from noracle.results import Result

EXAMPLE = """Example:

noracle demo --seed 7 --out noracle-demo"""

_CLASSES = 10
_SYSTEMS = {"agent-1": 0.88, "agent-2": 0.80, "agent-3": 0.78}


def command(
    out: Annotated[str, typer.Option("--out", metavar="DIR", help="Folder for the tables and the report.")] = "noracle-demo",
    n_items: Annotated[int, typer.Option("--n-items", metavar="N", min=100, help="Number of items.")] = 4000,
    seed: opt.Seed = 7,
    as_json: opt.AsJson = False,
    html: opt.Html = None,
) -> None:
    """Simulate three systems and 10 classes, then estimate, compare, check and plan, and write a report.

    One question an item was asked: is it of this class? The tables lie in --out, as you would have them; key.csv is what you would not
    have, and is only used to show how close the estimates are.
    """
    report = html or str(Path(out) / "report.html")
    world = simulate_world(n_items=n_items, n_classes=_CLASSES, systems=_SYSTEMS, no_answer=0.03, unsure=0.02, seed=seed)
    files = write_world(world, out)
    output = Output(title="noracle demo: three systems without an answer key", as_json=as_json, html=report)
    if not as_json:
        say(f"simulated {n_items:,} items with {_CLASSES} classes, three systems and one question an item (seed {seed})\n")
    with working("estimating, comparing, checking and planning"):
        evidence = Sources(answers=files["answers"], judgements=files["judgements"], items=files["items"]).load()
        counts = count_accuracy(evidence)
        checks = routing_checks(evidence, counts, protocol="question", seed=seed)
        results: list[Result] = [estimate_accuracy(counts.of(name), checks=checks) for name in counts.systems]
        comparison = compare_systems(evidence, checks=checks)
        best = next(r.value for r in comparison.ranks)
        results.append(comparison)
        results += question_checks(evidence, protocol="question", by="all", seed=seed)
        results += label_checks(counts, list(counts.systems), at_least=None, at_most=None, confidence=0.95)
        costs = {"ordinary": 1.0, "complementary": 0.05, "question": 0.06, "targeted": 0.3}
        results.append(plan_labels(n_classes=_CLASSES, accuracy=min(max(best, 0.0), 1.0), half_width=0.02, costs=costs, seed=seed))
    key = ", ".join(f"{name} {accuracy:.3f}" for name, accuracy in world.accuracy.items())
    output.emit(results, seed=seed, after=[f"the key, which you would not have, says: {key}"])
