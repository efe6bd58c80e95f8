"""``noracle watch``: follow a folder while evidence comes in."""

from __future__ import annotations

import json
import math
import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from noracle.cli import _options as opt
from noracle.cli._output import complain, say, settings, working, write_json
from noracle.errors import ArgumentError, EvidenceError

if TYPE_CHECKING:
    from noracle.oversight.watch import Look, Watch

EXAMPLE = """Example:

noracle watch evidence --every 10

noracle watch evidence --once --json

Exit code 1 of --once says that an alarm was proved. Ctrl-C ends a watch with 130; the same command goes on where it was."""

PAGE = "watch.html"


def command(
    folder: Annotated[
        str,
        typer.Argument(metavar="FOLDER", help="A folder with evidence, to which more is added."),
    ],
    every: Annotated[
        float,
        typer.Option("--every", metavar="SECONDS", min=0.1, help="How often to look for changes."),
    ] = 5.0,
    once: Annotated[
        bool, typer.Option("--once", help="Look once and leave; the next run goes on from there.")
    ] = False,
    out: Annotated[
        str | None,
        typer.Option(
            "--out",
            metavar="DIR",
            help="Folder for the page and the proof. Default FOLDER/.noracle.",
        ),
    ] = None,
    confidence: Annotated[
        float | None,
        typer.Option(
            "--confidence",
            metavar="P",
            help="Of everything that is ever said, together. Default noracle.toml's, else 0.95.",
        ),
    ] = None,
    ratings_per_item: Annotated[
        int | None,
        typer.Option(
            "--ratings-per-item",
            metavar="M",
            min=1,
            help="Ratings that an item must have. Default: the usual number at first.",
        ),
    ] = None,
    grades: Annotated[
        str | None,
        typer.Option(
            "--grades",
            metavar="FILE",
            help="A file of grades (item, system, verdict) to follow, if it lies elsewhere.",
        ),
    ] = None,
    alarm_from: Annotated[
        int,
        typer.Option(
            "--alarm-from",
            metavar="N",
            min=1,
            help="Test the claim from so many items on: of very few, one disagreement breaks it.",
        ),
    ] = 30,
    page: Annotated[
        bool, typer.Option("--page/--no-page", help=f"Write the page {PAGE} at every look.")
    ] = True,
    as_json: opt.AsJson = False,
) -> None:
    """Follow a folder while evidence comes in; every look holds, and an alarm is raised once it is
    provable.

    Only what is new is read. Look as often as you like: the intervals hold at all looks together. A
    file that was changed where it was counted already makes the watch start over, and says so from
    then on. With --json each look is one line.

    An alarm needs a claim to refute: a line such as claim = "accuracy > 1/2" in noracle.toml.
    Without it none is raised.
    """
    from noracle.oversight.watch import PLACE, Watch

    target = Path(folder) / PLACE if out is None else Path(out)
    if out is not None and not target.is_dir():
        raise ArgumentError(f"--out must be a folder that exists; got {out!r}. Make it first.")
    outputs = {(target / name).resolve() for name in (PAGE, "proof.json")}
    options = {
        "confidence": confidence,
        "ratings_per_item": ratings_per_item,
        "alarm_from": alarm_from,
        "grades": grades,
    }
    with Watch(folder, **options) as watch:  # type: ignore[arg-type]
        while True:
            watch.outputs = outputs
            watch.changed()
            look = _look(watch, wait=not once)
            if look is not None:
                proof = _write(look, target, page=page)
                outputs |= set() if proof is None else {proof.resolve()}
                _show(look, proof, as_json=as_json, first=look.number == 1)
                if once:
                    raise typer.Exit(1 if look.proof is not None else 0)
            while not watch.changed():
                time.sleep(every)


def _look(watch: Watch, *, wait: bool) -> Look | None:
    """A look; while a watch goes on, evidence that breaks a rule is named and waits to be
    corrected.
    """
    try:
        with working("looking"):
            return watch.look()
    except EvidenceError as error:
        if not wait:
            raise
        complain(f"waiting: {error}")
        return None


def _write(look: Look, target: Path, *, page: bool) -> Path | None:
    """Write the page, and the proof where there is one; a proof of an earlier run is not replaced."""
    proof = None
    if look.proof is not None:
        proof = target / ("proof.json" if look.run == 1 else f"proof-{look.run}.json")
        if look.new_alarm or not proof.exists():
            write_json(proof, look.proof.to_dict())
    if page:
        from noracle.oversight.page import write_oversight
        from noracle.oversight.watch import as_oversight

        write_oversight(target / PAGE, as_oversight(look), command=settings.command)
    return proof


def _show(look: Look, proof: Path | None, *, as_json: bool, first: bool) -> None:
    if as_json:
        say(json.dumps(look.to_dict(), allow_nan=False, ensure_ascii=False))
        return
    if first and not settings.quiet:
        say(f"all of it together: {_promise(look)}")
    say(f"look {look.number}: {look.n_rows:,} new rows", style="bold")
    width = max((len(e.subject) for e in look.accuracy), default=0)
    for e in look.accuracy:
        value = "  —  " if math.isnan(e.value) else f"{e.value:.3f}"
        n = e.counts["labelled"]
        weak = (
            ""
            if e.guarantee.kind.label == "finite-sample"
            else f"    {e.guarantee.kind.label.upper()}"
        )
        say(f"  {e.subject:<{width}}  {value}  [{e.low:.3f}, {e.high:.3f}]  {n:,} labels{weak}")
    for c in look.certificates:
        verdict = (
            "CERTIFIED better than its annotators"
            if c.certified
            else f"not certified ({c.reasons[0] if c.reasons else 'not shown'})"
        )
        say(f"  {c.subject:<{width}}  {verdict}  {c.counts.get('items', 0):,} items")
    if look.proof is not None:
        names = ", ".join(look.proof.sketch["classifiers"])
        since = "" if look.new_alarm else " (raised before)"
        n = look.proof.counts["items"]
        say(
            f"  ALARM{since}: on {n:,} items not all of {names} can keep '{look.proof.claim}', whatever the key is.",
            style="bold red",
        )
        if look.n_items > n and look.verdict_now == "consistent":
            say(f"        over all {look.n_items:,} items so far they could keep it")
        say(f"        check it: noracle verify {shlex.quote(str(proof))}")
    for reason, n in look.waiting.items():
        say(f"  waiting: {n:,} {reason}")
    for note in look.notes:
        say(f"  note: {note}")


def _promise(look: Look) -> str:
    rate = look.guarantee.error_rate
    return f"{look.guarantee.kind.label}, at every look, wrong with probability at most {rate:.3g}"
