"""``noracle report``: everything that a folder of evidence allows to say."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from noracle.cli import _options as opt
from noracle.cli._options import Sources, argument, only, option, panel, with_options
from noracle.cli._output import bars_lines, check_target, say, say_json, settings, write_json
from noracle.errors import require
from noracle.evidence.classes import Invalid

if TYPE_CHECKING:
    from noracle.oversight.model import Inventory
    from noracle.oversight.oversight import Oversight

EXAMPLE = opt.paragraphs("""Example:
noracle report evidence
noracle report answers.csv judgements.csv --n-classes 10 --out review.html""")

PAGE = "noracle-report.html"
_MOST_PATHS, _MOST_UNUSED = 3, 8
_CHOSEN = ("conflicts", "repeats", "claim", "target", "trained_on_annotators", "invalid")

_output, _reading = panel("Output"), panel("Reading the evidence")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _ReportOptions:
    places: list[str] = argument(
        "A folder with evidence, or its files.", "PLACE...", ..., show_default=False
    )
    out: opt.File = _output("The page. Default noracle-report.html.", show_default=False)
    save_json: opt.File = _output("The same as JSON. Default beside the page.", show_default=False)
    as_json: bool = _output(
        "Print JSON and nothing else; files are written only where named.", None, False, "--json"
    )
    settings_file: str | None = _reading(
        "Default: noracle.toml in the folder.", "FILE", None, "--settings"
    )
    confidence: float | None = option("Confidence of all statements together. Default 0.95.", "P")
    seed: int | None = option(
        "Seed of everything random: the same seed, the same result. Default 0.", min=0
    )
    grades: opt.File = _reading("A file of grades (item, system, verdict), there or elsewhere.")
    conflicts: opt.Conflicts | None = _reading(
        "Items whose labels contradict each other: stop, or leave them out."
    )
    repeats: opt.Repeats | None = _reading(
        "Items answered more than once: mean of the runs, right in all, in any."
    )
    invalid: Invalid | None = _reading(
        "An answer that is not a class of its item: count it as wrong, or refuse."
    )
    claim: str | None = _reading(
        "The claim about the graders, such as 'accuracy > 0.8'; without it there is no alarm.",
        "TEXT",
    )
    target: str | None = _reading("The gold rater of the scores.", "RATER")
    trained_on_annotators: Literal["yes", "no", "unknown"] | None = _reading(
        "Whether systems learned from these annotators' labels."
    )
    store: str | None = _reading(
        "Keep counts there; next time only new partitions are counted.", "DIR", show_default=False
    )


@with_options(
    n_classes="grades",
    classes="n_classes",
    protocol="conflicts",
    columns="repeats",
    no_answer="columns",
)
def command(
    own: _ReportOptions,
    given: Annotated[Sources, only("n_classes", "classes", "protocol", "columns", "no_answer")],
    records: Annotated[opt.Records, only("events", "badge")],
) -> None:
    """Report everything that the evidence in a folder supports, on one page.

    Tables are recognised by their columns; noracle.toml in the folder, and the options here, say
    what cannot be guessed. With a floor or a reference period under [drift] there it says whether
    accuracy fell, and since when, as noracle watch does. Exit code 1 says that parts of the
    evidence contradict each other or that an alarm fired.
    """
    chosen = {name: getattr(own, name) for name in _CHOSEN} | reading(given)
    chosen["protocol"] = given.protocol
    page = own.out if own.out is not None or own.as_json else PAGE
    saved = own.save_json
    if saved is None and page is not None:
        saved = str(Path(page).with_suffix(".json"))
    place = own.places[0] if len(own.places) == 1 else own.places
    same = ("settings_file", "grades", "confidence", "seed", "as_json", "store")
    about = {name: getattr(own, name) for name in same}
    report(place, chosen=chosen, page=page, saved=saved, records=records, **about)


def reading(given: Sources) -> dict[str, Any]:
    """How tables are read, as settings of a folder."""
    classes = opt.class_names(given.classes)
    return {
        "n_classes": given.n_classes,
        "classes": None if classes is None else tuple(classes),
        "columns": opt.column_names(given.columns) or None,
        "no_answer": tuple(opt.names(given.no_answer) or ()) or None,
    }


def report(
    place: str | Sequence[str],
    *,
    settings_file: str | None = None,
    grades: str | None = None,
    chosen: Mapping[str, Any] | None = None,
    confidence: float | None = None,
    seed: int | None = None,
    page: str | None,
    saved: str | None,
    as_json: bool,
    store: str | None = None,
    after: Callable[[Oversight], Sequence[str]] = lambda _: (),
    records: opt.Records | None = None,
) -> None:
    """Find the evidence, ask everything that it allows, and write and print what came out; exit
    code 1 for a contradiction or an alarm.

    ``chosen`` are settings that stand instead of those of ``settings_file``, which by default is
    the one in the folder. ``store`` keeps what was counted of partitions.
    """
    from noracle.oversight.find import find_evidence
    from noracle.oversight.oversight import oversee
    from noracle.oversight.settings import read_settings

    check_target("out", page)
    check_target("save-json", saved)
    same = page is not None and saved is not None and Path(page) == Path(saved)
    require(not same, f"--save-json must be another file than the page; got {saved!r} for both.")
    _check_store(store, place)
    with _progress() as progress:
        progress("looking for evidence")
        given = _given(chosen or {})
        read = None if settings_file is None else read_settings(settings_file)
        inventory = find_evidence(place, settings=read, chosen=given, grades=grades)
        if not as_json and not settings.quiet:
            for line in found_lines(inventory):
                say(line)
        about: Any = {"confidence": confidence, "seed": seed, "store": store}
        oversight = oversee(inventory, progress=progress, **about)
        progress("writing the report")
        if page is not None:
            from noracle.oversight.page import write_oversight

            write_oversight(page, oversight, command=settings.command)
        if saved is not None:
            write_json(saved, oversight.to_dict())
        written = [] if records is None else _recorded(records, oversight)
    if as_json:
        say_json(oversight.to_dict())
    else:
        _say_report(oversight, [*after(oversight), *written], page, saved)
    from noracle.oversight.page import fallen, fired_alarm

    contradicted = any(not f.agrees for f in oversight.findings)
    alarm = fired_alarm(oversight.steps) is not None or bool(fallen(oversight.steps))
    raise typer.Exit(1 if contradicted or alarm else 0)


def _recorded(records: opt.Records, oversight: Oversight) -> list[str]:
    """The records of a report: events of all its estimates, a badge of its systems."""
    from noracle.report.records import BadgeRow
    from noracle.report.words import percent

    sure = f"{percent(oversight.confidence)} interval, all together"
    rows = [
        BadgeRow(f"accuracy of {s.system}", s.value, s.low, s.high, s.guarantee, sure)
        for s in oversight.systems
    ]
    unknown = BadgeRow("accuracy", math.nan, math.nan, math.nan, None, sure)
    return records.write([r for step in oversight.steps for r in step.results], rows or [unknown])


def _check_store(store: str | None, place: str | Sequence[str]) -> None:
    """A store among the evidence would be taken for evidence, unless its name hides it."""
    if store is None or "://" in store or not isinstance(place, str) or not Path(place).is_dir():
        return
    folder, kept = Path(place).resolve(), Path(store).resolve()
    if kept.is_relative_to(folder):
        hidden = any(part.startswith((".", "_")) for part in kept.relative_to(folder).parts)
        rule = "--store must lie outside of the folder, or have a name that begins with a full stop"
        require(hidden, f"{rule}; got {store!r}.")


def _given(chosen: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that options name; classes and their number stand for each other."""
    given = {name: value for name, value in chosen.items() if value is not None}
    if given.get("claim"):
        from noracle.logic.spec import Spec

        Spec.parse(given["claim"])
    if "classes" in given:
        given.setdefault("n_classes", None)
    elif "n_classes" in given:
        given["classes"] = None
    return given


def found_lines(inventory: Inventory) -> list[str]:
    """What was found, one line each, and what was ignored."""
    lines = []
    for source in inventory.sources:
        paths, left = ", ".join(source.paths[:_MOST_PATHS]), len(source.paths) - _MOST_PATHS
        more = f" and {left:,} more" if left > 0 else ""
        rows = "" if source.n_rows is None else f", {source.n_rows:,} rows"
        lines.append(f"found {source.kind}: {paths}{more} ({source.why}{rows})")
    lines += [f"ignored {u.path}: {u.reason}" for u in inventory.unused[:_MOST_UNUSED]]
    left = len(inventory.unused) - _MOST_UNUSED
    if left > 0:
        lines.append(f"ignored {left:,} more; the report names them")
    return [*lines, *inventory.notes]


def _say_report(
    oversight: Oversight, after: Sequence[str], page: str | None, saved: str | None
) -> None:
    from noracle.oversight import page as words
    from noracle.oversight.load import STORE

    warned = words.alerts(oversight.steps, oversight.findings)
    if settings.quiet:
        say(warned[0] if warned else words.lead(oversight), style="bold")
        return
    for note in oversight.notes:
        if note.startswith(STORE):
            say(note)
    say("")
    say(oversight.title)
    say(words.lead(oversight), style="bold")
    for alert in warned:
        say(alert, style="bold red")
    say("")
    for line in card_lines(oversight) if settings.verbose else system_lines(oversight):
        say(line)
    say(words.joint_sentence(oversight))
    for line in rests_lines(oversight) if oversight.systems else ():
        say(line)
    asked = [s for s in oversight.steps if s.status != "done"]
    if asked:
        say(f"not answered: {', '.join(s.name for s in asked)}; the report says why")
    if oversight.next_steps:
        best = oversight.next_steps[0]
        cost = words.price(best, oversight.inventory)
        say(f"next: {words.sentence(best.statement)} {best.reason} Price: {cost}.")
        if best.command:
            say(f"      {best.command}")
    files = {"json": saved, "report": page}
    written = (f"{kind} {path}" for kind, path in files.items() if path is not None)
    for line in (*after, *written):
        say(line)


def system_lines(oversight: Oversight, width: int | None = None) -> list[str]:
    """All systems, the best first, with their intervals as bars, in the width of the terminal; a
    bracket holds those that cannot be told apart.
    """
    from noracle.oversight.page import systems_chart

    chart, tied = systems_chart(oversight)
    if chart is None:
        return []
    return bars_lines(chart, tied, width)


def rests_lines(oversight: Oversight) -> list[str]:
    """What the systems' numbers rest on, each once."""
    found = (part for s in oversight.systems for part in s.rests_on.split("; ") if part)
    lead = ("rests on  ", "          ")
    return [lead[i > 0] + part for i, part in enumerate(dict.fromkeys(found))]


def card_lines(oversight: Oversight) -> list[str]:
    """A card for each system, the best first."""
    from noracle.oversight import words as plain
    from noracle.oversight.page import limits, ranked

    lines: list[str] = []
    for s in ranked(oversight.systems):
        value, interval = limits(s)
        promise = "nothing is promised" if s.guarantee is None else plain.promised(s.guarantee)
        lines += [f"{s.system}    accuracy {value}    interval {interval}"]
        lines += [f"  promised    {promise}", f"  next step   {s.next_step}", ""]
    return lines


@contextlib.contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """Show which question is being asked: a spinner on stderr if that is a terminal, lines with -v."""
    if settings.quiet or settings.verbose or not sys.stderr.isatty():
        yield lambda what: opt.log.info("%s", what)
        return
    from rich.console import Console

    with Console(stderr=True).status("starting …") as status:
        yield lambda what: status.update(f"{what} …")
