"""``noracle collect demo``: the whole loop on simulated people."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from noracle.cli import _collect_common as common
from noracle.cli import _options as opt
from noracle.cli._output import say, say_json, working
from noracle.errors import ArgumentError

if TYPE_CHECKING:
    from noracle.collect.demo import Demo, Outcome

DEMO_EXAMPLE = """Example:

noracle collect demo

noracle collect demo --n-items 200 --exit --out demo"""


def demo(
    n_items: Annotated[
        int, typer.Option("--n-items", metavar="N", min=20, max=20_000, help="Number of pictures.")
    ] = 1000,
    port: Annotated[
        int, typer.Option("--port", metavar="N", help="Where to listen; 0 takes a free one.")
    ] = 0,
    out: Annotated[
        str | None,
        typer.Option(
            "--out",
            metavar="DIR",
            help="Keep database, key and export here; default a temporary folder.",
        ),
    ] = None,
    leave: Annotated[
        bool, typer.Option("--exit", help="Stop at the end instead of serving on.")
    ] = False,
    seed: opt.Seed = 7,
    as_json: opt.AsJson = False,
) -> None:
    """Start a server, let simulated specialists fill a project over HTTP, and show estimate, truth
    and proof.

    Which shape occurs most often in a picture? Each specialist knows one shape and says yes, no or
    not sure. The truth is known here because the pictures are drawn by a rule; the estimates do not
    use it.
    """
    if out is not None:
        folder = Path(out)
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise ArgumentError(f"--out must be a new or empty folder; got {out!r}.")
        folder.mkdir(parents=True, exist_ok=True)
        _demo(folder, n_items, port, leave or as_json, seed, as_json)
        return
    with tempfile.TemporaryDirectory(prefix="noracle-demo-") as name:
        _demo(Path(name), n_items, port, leave or as_json, seed, as_json)


def _demo(folder: Path, n_items: int, port: int, leave: bool, seed: int, as_json: bool) -> None:
    from noracle.collect import demo as demos

    began = time.monotonic()
    with working("drawing pictures, sealing, starting the server"):
        running = demos.start(folder, n_items=n_items, port=port, seed=seed)
    try:
        if not as_json:
            for line in _welcome(running):
                say(line)
        filling = time.monotonic()
        with common.progress("answers over HTTP", running.questions) as step:
            done = running.fill(step)
        rate = sum(done) / (time.monotonic() - filling)
        outcome = demos.finish(running, folder)
        if as_json:
            say_json(_as_dict(running, outcome, sum(done), time.monotonic() - began))
        else:
            for line in _results(running, outcome, done, rate, time.monotonic() - began):
                say(line)
        if not outcome.check.passed:
            raise typer.Exit(1)
        if not leave:
            say("\nstill serving; stop with Ctrl-C")
            running.server.wait()
    finally:
        demos.stop(running)


def _welcome(running: Demo) -> list[str]:
    from noracle.collect.demo import EMAIL, SLUG

    return [
        f"dashboard   {running.server.url}/p/{SLUG}",
        f"sign in as  {EMAIL} with the password {running.password}",
        f"project     {running.questions:,} questions, sealed; {len(running.people)} simulated specialists, one a class",
    ]


def _results(
    running: Demo, outcome: Outcome, done: list[int], rate: float, seconds: float
) -> list[str]:
    lines = [f"answers     {sum(done):,} over HTTP, {rate:,.0f} a second", ""]
    for system in outcome.view.systems:
        found = system.estimate
        lines.append(
            f"accuracy of {system.name!r}    {found.value:.3f}    95 % interval, valid at every look [{found.low:.3f}, {found.high:.3f}]"
        )
        if system.fixed is not None:
            lines.append(
                f"  at the declared n    {system.fixed.value:.3f} [{system.fixed.low:.3f}, {system.fixed.high:.3f}]"
            )
        if system.corrected is not None:
            lines.append(
                f"  corrected for errors on gold and panel    {system.corrected.value:.3f}"
            )
        lines.append(f"  truth, which you would not have    {running.accuracy[system.name]:.3f}")
    lines.append(
        f"checks      {len(outcome.view.checks)}, of which failed: {', '.join(outcome.view.alarms) or 'none'}"
    )
    verdict = (
        "verified: every route, answer and event fits the committed seed"
        if outcome.check.passed
        else "NOT verified"
    )
    return [
        *lines,
        "",
        f"export      {verdict}",
        f"            {outcome.archive}",
        f"time        {seconds:.0f} s in all",
    ]


def _as_dict(running: Demo, outcome: Outcome, answers: int, seconds: float) -> dict[str, Any]:
    return {
        "answers": answers,
        "questions": running.questions,
        "seconds": round(seconds, 2),
        "verified": bool(outcome.check.passed),
        "alarms": list(outcome.view.alarms),
        "systems": [
            {"name": s.name, "truth": running.accuracy[s.name], "estimate": s.estimate.to_dict()}
            for s in outcome.view.systems
        ],
    }
