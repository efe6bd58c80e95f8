"""``noracle watch``: follow a folder while evidence comes in."""

from __future__ import annotations

import dataclasses
import json
import math
import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from noracle.cli import _options as opt
from noracle.cli._options import argument, option, with_options
from noracle.cli._output import complain, say, settings, working, write_json
from noracle.errors import ArgumentError, EvidenceError, require

if TYPE_CHECKING:
    from noracle.accuracy.drift import DriftRule
    from noracle.oversight.watch import Look, Watch

EXAMPLE = opt.paragraphs("""Example:
noracle watch evidence --once
noracle watch evidence --once --json
noracle watch evidence --once --floor 0.8 --run-length 20000
noracle watch evidence --reference 2026-09 --margin 0.02 --judge gpt
noracle watch evidence --every 10
Exit code 1 of --once: an alarm was proved, or accuracy fell. Ctrl-C ends a watch with 130; the same command goes on where it was.""")

PAGE = "watch.html"
_drift = opt.panel("When accuracy falls")
_DRIFT = ("floor", "reference", "margin", "run_length", "window", "judge")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _WatchOptions:
    folder: str = argument("A folder with evidence, to which more is added.", "FOLDER", ...)
    every: float = option("How often to look for changes.", "SECONDS", 5.0, min=0.1)
    once: bool = option("Look once and leave; the next run goes on from there.", default=False)
    out: str | None = option("Folder for the page and the proof. Default FOLDER/.noracle.", "DIR")
    confidence: float | None = option(
        "Of everything that is ever said, together. Default noracle.toml's, else 0.95.", "P"
    )
    ratings_per_item: int | None = option(
        "Ratings that an item must have. Default: the usual number at first.", "M", min=1
    )
    grades: opt.File = option(
        "A file of grades (item, system, verdict) to follow, if it lies elsewhere."
    )
    alarm_from: int = option(
        "Test the claim from so many items on: of very few, one disagreement breaks it.",
        "N",
        30,
        min=1,
    )
    floor: float | None = _drift(
        "Alarm when the accuracy of a system falls below this. State it before the labels come.",
        "A",
    )
    reference: str | None = _drift(
        "Or below that of a period (2026-09, 2026-09-01..2026-09-14), by its lower bound; needs times (at).",
        "PERIOD",
    )
    margin: float = _drift("How far below is still fine.", "M", 0.0)
    run_length: float = _drift(
        "How rare a false alarm is: if nothing fell, the average number of labels of a system until one is at "
        "least N. It is an average run length, no probability: some come earlier, half of them well before N.",
        "N",
        10_000.0,
    )
    window: str | None = _drift(
        "Windows of the curve and of the judge: day, week, month or a number of answers. Default day where all "
        "rows have times, else 200.",
        "W",
    )
    judge: str | None = _drift(
        "The rater of the grades that is a model and graded (almost) everything: no labels, but fewer are needed.",
        "RATER",
    )
    page: bool = option("Write the page watch.html at every look.", None, True, "--page/--no-page")


@with_options()
def command(own: _WatchOptions, output: opt.JsonOutput) -> None:
    """Follow a folder while evidence comes in; every look holds, and an alarm is raised once it is
    provable.

    Only what is new is read. Look as often as you like: the intervals hold at all looks together. A
    file that was changed where it was counted already makes the watch start over, and says so from
    then on. With --json each look is one line.

    An alarm needs a claim to refute: a line such as claim = "accuracy > 1/2" in noracle.toml.
    Without it none is raised.

    Accuracy that falls is looked for with --floor or --reference, or one of them under [drift] in
    noracle.toml, only. The alarm names the label that raised it and since when; the same labels
    give the same alarm, however often you look. What was stated first is kept: later runs need no
    option.
    """
    from noracle.oversight.watch import PLACE, Watch

    target = Path(own.folder) / PLACE if own.out is None else Path(own.out)
    if own.out is not None and not target.is_dir():
        raise ArgumentError(f"--out must be a folder that exists; got {own.out!r}. Make it first.")
    outputs = {(target / name).resolve() for name in (PAGE, "proof.json")}
    about = opt.values(own, "folder", "every", "once", "out", "page", *_DRIFT)
    with Watch(own.folder, drift=_rule(own), **about) as watch:
        while True:
            watch.outputs = outputs
            watch.changed()
            look = _look(watch, wait=not own.once)
            if look is not None:
                proof = _write(look, target, page=own.page)
                outputs |= set() if proof is None else {proof.resolve()}
                _show(look, proof, as_json=output.as_json, first=look.number == 1)
                if own.once:
                    raise typer.Exit(1 if look.alarm else 0)
            while not watch.changed():
                time.sleep(own.every)


def _rule(own: _WatchOptions) -> DriftRule | None:
    from noracle.accuracy.drift import DriftRule

    if own.floor is None and own.reference is None:
        usual = {f.name: f.default for f in dataclasses.fields(own) if f.name in _DRIFT}
        alone = [name for name, default in usual.items() if getattr(own, name) != default]
        flag = f"--{alone[0].replace('_', '-')}" if alone else ""
        require(not alone, f"{flag} must come with --floor or --reference; got neither.")
        return None
    window = int(own.window) if own.window and own.window.isdecimal() else own.window
    told: dict[str, Any] = {name: getattr(own, name) for name in _DRIFT}
    return DriftRule(**{**told, "window": window})


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
        wrong = f"wrong with probability at most {look.guarantee.error_rate:.3g}"
        say(f"all of it together: {look.guarantee.kind.label}, at every look, {wrong}")
    say(f"look {look.number}: {look.n_rows:,} new rows", style="bold")
    width = max((len(e.subject) for e in look.accuracy), default=0)
    for e in look.accuracy:
        value = "  —  " if math.isnan(e.value) else f"{e.value:.3f}"
        n = e.counts["labelled"]
        kind = e.guarantee.kind.label
        weak = "" if kind == "finite-sample" else f"    {kind.upper()}"
        say(f"  {e.subject:<{width}}  {value}  [{e.low:.3f}, {e.high:.3f}]  {n:,} labels{weak}")
    for d in look.drift:
        level = (
            d.reason
            or f"no alarm below {d.level:.3f}, e-detector {d.statistic:,.3g} of {d.run_length:,.0f}"
        )
        if not d.alarm:
            say(f"  {d.subject:<{width}}  {level}")
            continue
        new = "" if d.subject in look.new_drift else " (raised before)"
        at = f" ({d.at.removesuffix('T00:00:00')})" if d.at else ""
        told = f"accuracy of {d.subject} fell below {d.level:.3f}, seen at label {d.label:,}{at}"
        say(f"  ALARM{new}: {told}", style="bold red")
        start, end = d.since or (0, 0)
        times = "" if d.since_at is None else f", {' to '.join(t[:10] for t in d.since_at)}"
        say(f"        since: label {start:,} to {end:,}{times} ({d.confidence:.0%})")
        for row in d.moved[:3]:
            part = (
                f"{row['what']} {row['name']}: {row['before']:.3f} before, {row['since']:.3f} since"
            )
            say(f"        moved: {part} ({row['n_since']:,} labels)")
    for c in look.certificates:
        verdict = f"not certified ({c.reasons[0] if c.reasons else 'not shown'})"
        if c.certified:
            verdict = "CERTIFIED better than its annotators"
        say(f"  {c.subject:<{width}}  {verdict}  {c.counts.get('items', 0):,} items")
    if look.proof is not None:
        names = ", ".join(look.proof.sketch["classifiers"])
        since = "" if look.new_alarm else " (raised before)"
        n = look.proof.counts["items"]
        told = f"not all of {names} can keep '{look.proof.claim}', whatever the key is."
        say(f"  ALARM{since}: on {n:,} items {told}", style="bold red")
        if look.n_items > n and look.verdict_now == "consistent":
            say(f"        over all {look.n_items:,} items so far they could keep it")
        say(f"        check it: noracle verify {shlex.quote(str(proof))}")
    for reason, n in look.waiting.items():
        say(f"  waiting: {n:,} {reason}")
    for note in look.notes:
        say(f"  note: {note}")
