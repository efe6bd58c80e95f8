"""Options of the verbs that prove something from answers alone, and how their sketch is gathered."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from typing import Annotated

import typer

from noracle.cli._options import Sources, log
from noracle.cli._output import check_target, read_json, write_json
from noracle.counts.sketch import Sketch, count_decisions
from noracle.errors import ArgumentError, EvidenceError, NoracleError, fault
from noracle.evidence.labels import read_known

_PANEL = "What is known of the items"
_RANGE = re.compile(r"^(?P<low>\d+)(?:\s*(?:\.\.|-|to)\s*(?P<high>\d+))?$")

KnownFile = Annotated[
    str | None,
    typer.Option(
        "--known",
        metavar="FILE",
        help="item, label: true labels (CSV, JSONL, Parquet).",
        rich_help_panel=_PANEL,
    ),
]
Prevalence = Annotated[
    list[str] | None,
    typer.Option(
        "--prevalence",
        metavar="A=LOW..HIGH",
        help="Least and most items of a label; again for others.",
        rich_help_panel=_PANEL,
    ),
]
UseJudgements = Annotated[
    bool,
    typer.Option(
        "--use-judgements/--ignore-judgements",
        help="Take yes as the true label and no as a label ruled out.",
        rich_help_panel=_PANEL,
    ),
]
StoredSketches = Annotated[
    list[str] | None,
    typer.Option(
        "--sketch",
        metavar="FILE",
        help="A sketch that was saved; several are added.",
        rich_help_panel="Evidence",
    ),
]
SaveSketch = Annotated[
    str | None,
    typer.Option(
        "--save-sketch",
        metavar="FILE",
        help="Write the sketch, to be added later.",
        rich_help_panel="Output",
    ),
]
TimeLimit = Annotated[
    float,
    typer.Option("--time-limit", metavar="SECONDS", help="When to give up and say undecided."),
]
SpecText = Annotated[
    str,
    typer.Option(
        "--spec",
        metavar="TEXT",
        help="The claim, such as 'accuracy > 1/2', 'grade > 0.8' or 'accuracy of x on A > 0.7'.",
    ),
]


def gather(
    sources: Sources,
    *,
    sketches: Sequence[str] | None,
    known: str | None,
    use_judgements: bool,
    save: str | None,
) -> Sketch:
    """The sketch of the evidence and of stored sketches together."""
    check_target("save-sketch", save)
    parts = [read_sketch(path) for path in sketches or ()]
    if sources.given or not parts:
        started = time.perf_counter()
        # A wide table needs its columns named; else --systems chooses among the systems.
        wanted = None if sources.systems is None else list(sources.systems)
        told = None if known is None else read_known(known)
        parts.append(
            count_decisions(
                sources.load(),
                systems=wanted,
                known=told,
                judgements="use" if use_judgements else "ignore",
            )
        )
        log.info("patterns counted in %.2f s", time.perf_counter() - started)
    elif known is not None:
        raise ArgumentError(
            "--known must go with --answers; a stored sketch has no items any more."
        )
    total = parts[0]
    for other in parts[1:]:
        total = total + other
    if save is not None:
        write_json(save, total.to_dict())
    return total


def read_sketch(path: str) -> Sketch:
    """A sketch that ``--save-sketch`` wrote."""
    data = read_json(path, "--sketch")
    try:
        return Sketch.from_dict(data)
    except NoracleError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        why = f"something else in {path!r} ({type(error).__name__})"
        raise EvidenceError(
            fault(
                "--sketch",
                "must have the shape of schema sketch/1",
                why,
                remedy="Write it with --save-sketch.",
            )
        ) from None


def prevalences(values: Sequence[str] | None) -> Mapping[str, tuple[int, int]] | None:
    """``label=low..high`` or ``label=number``, given several times."""
    found: dict[str, tuple[int, int]] = {}
    for value in values or ():
        name, _, text = value.rpartition("=")
        match = _RANGE.match(text.strip())
        if match is None or not name.strip():
            raise ArgumentError(
                f"--prevalence must be LABEL=LOW..HIGH in whole numbers; got {value!r}."
            )
        found[name.strip()] = (int(match["low"]), int(match["high"] or match["low"]))
    return found or None
