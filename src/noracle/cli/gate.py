"""``noracle gate``: pass, fail or undecided, in continuous integration, for years."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import subprocess
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from noracle.cli import _options as opt
from noracle.cli._options import Sources, argument, only, option, panel, with_options
from noracle.cli._output import (
    check_format,
    check_target,
    complain,
    say,
    say_json,
    working,
    write_table,
)
from noracle.errors import EvidenceError, EvidenceWarning, require, require_evidence
from noracle.files import replacing

if TYPE_CHECKING:
    from noracle.evidence import Evidence
    from noracle.gate import GateClaim, GateRun

EXAMPLE = opt.paragraphs("""Example:
noracle gate evals --at-least 0.8
noracle gate evals --system new --no-worse-than base --margin 0.01 --junit gate.xml --markdown gate.md
noracle gate plan evals --system new --no-worse-than base --ask ask.csv
noracle gate history evals --out gate.html
noracle gate verify evals
Exit code 0 passed, 1 failed, 3 undecided; verify: 0 whole, 1 not.""")

ACTIONS = ("plan", "history", "verify")
CODES = {"pass": 0, "fail": 1, "undecided": 3}
_ledger, _output = panel("Ledger"), panel("Output")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _GateOptions:
    words: list[str] = argument(
        "A folder with answers and labels; plan, history or verify before it say something else to do.",
        "[plan|history|verify] FOLDER",
        ...,
        show_default=False,
    )
    at_least: float | None = option("The accuracy that a system must have.", "X")
    no_worse_than: str | None = option(
        "The system that it is compared with: only items whose answers differ need labels.",
        "SYSTEM",
    )
    margin: float = option("How much less than the base is still no worse.", "D", 0.01)
    system: opt.Names = option("Which systems; by default all but the base.")
    detect: float = option("Plan labels for this distance from what is asked for.", "D", 0.05)
    ledger: opt.File = _ledger("Default gate.jsonl in the folder; meant to be committed.")
    confidence: float | None = _ledger(
        "Of all decisions together; fixed by the first. Default 0.95.", "P"
    )
    usual: Literal["pass", "fail", "undecided"] | None = _ledger(
        "The outcome that most decisions have; fixed by the first. Default pass."
    )
    most_unusual: int | None = _ledger(
        "At most so many other outcomes, if you know; fixed by the first.", "B", min=0
    )
    branches: int | None = _ledger(
        "So many branches may decide without seeing each other's lines; fixed by the first. Default 1.",
        "W",
        min=1,
    )
    commit: str | None = _ledger("What is judged. Default: the commit of the folder.", "HASH")
    ask: opt.File = _output("plan: write the items to label next, drawn at random, as a table.")
    junit: opt.File = _output("Write the outcomes as JUnit XML.")
    markdown: opt.File = _output("Add the outcomes to a Markdown summary.")
    out: opt.File = _output("history: the page. Default noracle-gate.html.", show_default=False)
    reveal: bool = _output(
        "history: show intervals of the present systems. The labels behind them decide no more, and the ledger says so.",
        default=False,
    )
    as_json: bool = _output("Print JSON and nothing else.", None, False, "--json")


@with_options()
def command(
    own: _GateOptions,
    given: Annotated[Sources, only("raters", "n_classes", "classes", "columns", "no_answer")],
) -> None:
    """Pass, fail or undecided, with one error rate for all decisions of a repository, for good.

    The ledger says what was decided and what it spent. The same answers, labels and claim are
    decided once. Undecided comes with the number of labels that would decide; plan draws them.
    Nothing else of the labels is told, since people react to what they are told.
    """
    words = list(own.words)
    action = words.pop(0) if words[0] in ACTIONS else "decide"
    require(
        len(words) == 1,
        f"FOLDER must be one folder; got {words or 'none'}. See noracle gate --help.",
    )
    folder = words[0]
    for name in ("junit", "markdown", "out"):
        check_target(name, getattr(own, name))
    check_format("ask", own.ask)
    inside = Path(folder) if Path(folder).is_dir() else Path(folder).parent
    path = inside / "gate.jsonl" if own.ledger is None else Path(own.ledger)
    if action == "verify":
        raise typer.Exit(_verify(path, as_json=own.as_json))
    if action == "history":
        raise typer.Exit(_history(own, given, folder, path))
    raise typer.Exit(_decide(own, given, folder, path, plan=action == "plan"))


def _evidence(folder: str, given: Sources) -> Evidence:
    """Answers, labels and items of the folder."""
    from noracle.cli.report import reading
    from noracle.oversight.find import find_evidence
    from noracle.oversight.load import Loaded

    chosen = {k: v for k, v in reading(given).items() if v is not None}
    if "classes" in chosen:
        chosen["n_classes"] = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EvidenceWarning)
        loaded = Loaded(find_evidence(folder, chosen=chosen))
    if loaded.evidence is None:
        rule, remedy = "must hold answers and labels of them", "See noracle gate --help."
        raise EvidenceError.of("FOLDER", rule, f"neither in {folder!r}", remedy=remedy)
    if given.raters is None:
        return loaded.evidence
    return (loaded.judged or loaded.evidence).of_raters(opt.names(given.raters) or ())


def _settings(own: _GateOptions) -> Any:
    """What the options say of the ledger; None where they say nothing."""
    from noracle.gate import GateSettings

    names = ("confidence", "usual", "most_unusual", "branches")
    said = {n: getattr(own, n) for n in names if getattr(own, n) is not None}
    return GateSettings(**said) if said else None


def _claims(own: _GateOptions, systems: Sequence[str]) -> list[GateClaim]:
    from noracle.gate import GateClaim

    chosen = opt.names(own.system) or [name for name in systems if name != own.no_worse_than]
    require(chosen, f"--system must name a system beside the base; got only {own.no_worse_than!r}.")
    about: Any = {"at_least": own.at_least, "base": own.no_worse_than, "margin": own.margin}
    return [GateClaim(system=name, **about) for name in chosen]


def _decide(own: _GateOptions, given: Sources, folder: str, path: Path, *, plan: bool) -> int:
    from noracle.gate import GateLedger, GateRun

    _claims(own, ["a system"])  # a claim that cannot be is found before the work
    mine = opt.names(own.system)
    with working("deciding"):
        evidence = _evidence(folder, given)
        with GateLedger(path, _settings(own)) as ledger:
            commit = _commit(folder) if own.commit is None else own.commit
            run = GateRun(evidence, ledger=ledger, detect=own.detect, commit=commit)
            gone = ledger.missing(ever=False)
            remedy = f"git checkout HEAD -- {path.name} puts it back."
            require_evidence(not gone, "ledger", "must be whole", "".join(gone[:1]), remedy=remedy)
            if not ledger.lines and not plan:
                for line in ledger.missing()[:1]:
                    complain(
                        f"warning: {path.name} starts over, and {line}. See noracle gate verify."
                    )
            known = {own.no_worse_than, *(mine or ())} - {None}
            odd = sorted(known - set(run.facts.systems))
            require(not odd, f"--system and --no-worse-than must be systems in answers; got {odd}.")
            claims = _claims(own, run.facts.systems)
            return _plan(own, run, claims) if plan else _told(own, run, claims)


def _told(own: _GateOptions, run: GateRun, claims: Sequence[GateClaim]) -> int:
    """Decide all claims and say what came out."""
    from noracle.gate import summary

    decisions = run.decide(*claims)
    if own.junit is not None:
        _write(own.junit, summary.junit(decisions))
    if own.markdown is not None:
        with Path(own.markdown).open("a", encoding="utf-8") as file:
            file.write(summary.markdown(decisions))
    if own.as_json:
        say_json({"schema": "gates/1", "decisions": [d.to_dict() for d in decisions]})
    for decision in () if own.as_json else decisions:
        headline, _, rest = str(decision).partition("\n")
        say(headline, style="bold red" if decision.outcome == "fail" else "bold")
        say(rest + "\n")
    outcomes = {decision.outcome for decision in decisions}
    return CODES[
        "fail" if "fail" in outcomes else "undecided" if len(outcomes) > 1 else outcomes.pop()
    ]


def _plan(own: _GateOptions, run: GateRun, claims: Sequence[GateClaim]) -> int:
    """Say what the next decisions rest on, and draw items; nothing is decided or spent."""
    from noracle.gate.summary import design_lines

    designs = [(claim, run.design(claim)) for claim in claims]
    found = [{"claim": c.text, **dataclasses.asdict(d)} for c, d in designs]
    for each in found:
        del each["ask"]
    if own.as_json:
        say_json({"schema": "gate-plan/1", "plans": found})
    for claim, design in () if own.as_json else designs:
        for line in design_lines(claim.text, design):
            say(line)
    if own.ask is not None:
        most = max((n for _, d in designs for n in d.needed.values()), default=0)
        least = max((min(d.needed.values(), default=0) for _, d in designs), default=0)
        drawn = dict.fromkeys(item for _, d in designs for item in d.ask)
        order = run.in_order(drawn)[: least or most]
        write_table(own.ask, {"item": order})
        if not own.as_json:
            say(f"{len(order):,} items to label, in random order: {own.ask}")
    return 0


def _verify(path: Path, *, as_json: bool) -> int:
    from noracle.gate import GateLedger

    ledger = GateLedger.read(path)
    faults = [*ledger.faults, *ledger.missing()]
    over = ledger.spent > ledger.settings.error * (1 + 1e-9)
    n, spent = len(ledger.decisions), f"{ledger.spent:.3g} of {ledger.settings.error:.3g}"
    if over:
        w = f"up to {ledger.parallel} decisions have one number and branches is {ledger.settings.branches}"
        faults.append(f"the error rate is overspent, {spent}: {w}")
    found = {"decisions": n, "spent": ledger.spent, "branches": ledger.parallel, "faults": faults}
    doubts = ledger.doubts()
    found |= {"sealed": ledger.sealed, "doubts": doubts}
    if as_json:
        say_json({"schema": "gate-check/1", "ledger": str(path), **found})
    else:
        say(f"{path}: {n:,} decisions, error rate spent {spent}", style="bold")
        for line in [*(faults or ["every line follows from those before it"]), *doubts]:
            say(f"  {line}")
    return 1 if faults else 0


def _history(own: _GateOptions, given: Sources, folder: str, path: Path) -> int:
    from noracle.gate import GateLedger, GateRun, summary

    bounds = None
    if own.reveal:
        GateLedger.read(path)  # a reveal begins no ledger
        evidence = _evidence(folder, given)
        with GateLedger(path) as ledger:
            bounds = GateRun(evidence, ledger=ledger).reveal()
    else:
        ledger = GateLedger.read(path)
        for line in ledger.faults:
            complain(f"warning: {line}")
    page = own.out or "noracle-gate.html"
    _write(page, summary.history(ledger, bounds))
    outcomes = [line["outcome"] for line in ledger.decisions]
    found = {"decisions": len(outcomes), "spent": ledger.spent, "error": ledger.settings.error}
    counts = {o: outcomes.count(o) for o in CODES}
    if own.as_json:
        say_json({"schema": "gate-history/1", **found, **counts, "page": page})
        return 0
    say(f"{len(outcomes):,} decisions: " + ", ".join(f"{n:,} {o}" for o, n in counts.items()))
    say(f"error rate spent {ledger.spent:.3g} of {ledger.settings.error:.3g}")
    say(f"page {page}")
    return 0


def _write(path: str, text: str) -> None:
    with replacing(path) as part:
        part.write_text(text, encoding="utf-8", newline="\n")


def _commit(folder: str) -> str:
    """The commit that is checked out; empty where there is none."""
    told = os.environ.get("GITHUB_SHA", "")
    where = folder if Path(folder).is_dir() else str(Path(folder).parent)
    with contextlib.suppress(OSError):
        done = subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=where, capture_output=True, text=True, check=False
        )
        told = told or (done.stdout.strip() if done.returncode == 0 else "")
    return told
