"""``noracle simulate``: tables with a known answer key, or the labels that a design would have
given for answers with a key.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from noracle.cli import _options as opt
from noracle.cli._options import Sources
from noracle.cli._output import FORMATS, Output, read_matrix, working, write_table
from noracle.errors import ArgumentError
from noracle.results import Assumption, Guarantee, Kind, Range, Ranges
from noracle.simulate import World, rehearse, simulate_world
from noracle.simulate.rehearsal import Protocol

EXAMPLE = """Example:

noracle simulate --n-items 2000 --n-classes 10 --system agent-7=0.8 --system agent-8=0.7 --no-answer 0.05 --seed 1 --out world

noracle simulate --answers world/answers.csv --items world/items.csv --key world/key.csv --protocol question --n 500 --worlds 50"""

Format = Literal["csv", "jsonl", "parquet"]
_SYSTEMS = {"agent-1": 0.8, "agent-2": 0.7}
_ITEMS = 1000
_LABELS, _FAULTS, _REHEARSE = "Labels", "What can go wrong", "Rehearse a design with a key"


def _rate(name: str, text: str) -> typer.models.OptionInfo:
    option: typer.models.OptionInfo = typer.Option(
        name, metavar="P", min=0, max=1, help=text, rich_help_panel=_FAULTS
    )
    return option


def command(
    out: Annotated[
        str,
        typer.Option(
            "--out",
            metavar="DIR",
            help="Folder for answers, judgements, items and key; or a file for the labels.",
        ),
    ] = "world",
    file_format: Annotated[Format, typer.Option("--format", help="Format of the files.")] = "csv",
    n_items: Annotated[
        int, typer.Option("--n-items", metavar="N", min=1, help="Number of items.")
    ] = _ITEMS,
    n_classes: Annotated[
        str | None,
        typer.Option(
            "--n-classes",
            metavar="K[,K]",
            help="Number of classes, default 10; of several one is drawn for each item.",
        ),
    ] = None,
    system: Annotated[
        list[str] | None,
        typer.Option(
            "--system",
            metavar="NAME=A",
            help="A system and its accuracy; repeat. Default agent-1=0.8, agent-2=0.7.",
        ),
    ] = None,
    n_questions: Annotated[
        int | None,
        typer.Option(
            "--n-questions",
            metavar="N",
            min=0,
            help="Items with one random question each; default all.",
            rich_help_panel=_LABELS,
        ),
    ] = None,
    n_ordinary: Annotated[
        int,
        typer.Option(
            "--n-ordinary",
            metavar="N",
            min=0,
            help="Instead: items with the true class.",
            rich_help_panel=_LABELS,
        ),
    ] = 0,
    n_complementary: Annotated[
        int,
        typer.Option(
            "--n-complementary",
            metavar="N",
            min=0,
            help="Instead: items with ruled-out classes.",
            rich_help_panel=_LABELS,
        ),
    ] = 0,
    n_ruled_out: Annotated[
        int,
        typer.Option(
            "--n-ruled-out",
            metavar="M",
            min=1,
            help="Ruled-out classes of such an item.",
            rich_help_panel=_LABELS,
        ),
    ] = 1,
    no_answer: Annotated[
        float, _rate("--no-answer", "Share of items that a system leaves unanswered.")
    ] = 0.0,
    false_no: Annotated[float, _rate("--false-no", "Rate of no to the true class.")] = 0.0,
    false_yes: Annotated[float, _rate("--false-yes", "Rate of yes to a wrong class.")] = 0.0,
    unsure: Annotated[float, _rate("--unsure", "Share of questions answered with unsure.")] = 0.0,
    bias: Annotated[
        float, _rate("--bias", "Share of questions about the class after the true one.")
    ] = 0.0,
    transition: Annotated[
        str | None,
        typer.Option(
            "--transition",
            metavar="FILE",
            help="Matrix P(ruled out | true class), CSV or JSON.",
            rich_help_panel=_FAULTS,
        ),
    ] = None,
    answers: Annotated[
        str | None,
        typer.Option(
            "--answers",
            metavar="FILE",
            help="Real answers: item, system, answer.",
            rich_help_panel=_REHEARSE,
        ),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(
            "--key",
            metavar="FILE",
            help="Their key: item, label (or answer, gold, …).",
            rich_help_panel=_REHEARSE,
        ),
    ] = None,
    key_column: Annotated[
        str | None,
        typer.Option(
            "--key-column",
            metavar="COL",
            help="The column with the true class.",
            rich_help_panel=_REHEARSE,
        ),
    ] = None,
    items: Annotated[
        str | None,
        typer.Option(
            "--items",
            metavar="FILE",
            help="item; n_classes, stratum, weight.",
            rich_help_panel=_REHEARSE,
        ),
    ] = None,
    classes: Annotated[
        str | None,
        typer.Option(
            "--classes",
            metavar="A,B,C",
            help="All classes, if not 0 to K - 1.",
            rich_help_panel=_REHEARSE,
        ),
    ] = None,
    systems: Annotated[
        list[str] | None,
        typer.Option(
            "--systems", metavar="A,B", help="These systems only.", rich_help_panel=_REHEARSE
        ),
    ] = None,
    protocol: Annotated[
        Protocol,
        typer.Option(
            "--protocol",
            help="One random class asked about, one ruled out, or answers graded right or wrong.",
            rich_help_panel=_REHEARSE,
        ),
    ] = "question",
    design: Annotated[
        Literal["uniform", "targeted"],
        typer.Option(
            "--design",
            help="Questions about any class, or aimed at the systems' answers.",
            rich_help_panel=_REHEARSE,
        ),
    ] = "uniform",
    n: Annotated[
        int | None,
        typer.Option(
            "--n",
            metavar="N",
            min=1,
            help="Items that get a label; default all with a key.",
            rich_help_panel=_REHEARSE,
        ),
    ] = None,
    worlds: Annotated[
        int,
        typer.Option(
            "--worlds",
            metavar="W",
            min=1,
            help="Rehearse so often; how often is the key covered?",
            rich_help_panel=_REHEARSE,
        ),
    ] = 1,
    confidence: opt.Confidence = 0.95,
    seed: opt.Seed = 0,
    as_json: opt.AsJson = False,
    html: opt.Html = None,
) -> None:
    """Draw a world and write its tables: what you would have, and the key that you would not have.

    With --answers and --key nothing is invented but the labels: those that a design would have
    given for these answers, and what they say beside what the key says.
    """
    if answers is not None or key is not None:
        made_up = {
            "n-items": n_items != _ITEMS,
            "system": system,
            "n-questions": n_questions is not None,
            "n-complementary": n_complementary,
            "no-answer": no_answer,
            "bias": bias,
            "transition": transition,
        }
        _rehearse(
            Output(title="A rehearsal with a key", as_json=as_json, html=html),
            Sources(answers=answers, items=items, n_classes=_number(n_classes), classes=classes),
            key,
            key_column,
            [name for name, value in made_up.items() if value],
            out,
            file_format,
            protocol=protocol,
            design=design,
            n=n,
            n_ordinary=n_ordinary,
            n_ruled_out=n_ruled_out,
            systems=opt.names(systems),
            false_no=false_no,
            false_yes=false_yes,
            unsure=unsure,
            worlds=worlds,
            confidence=confidence,
            seed=seed,
        )
        return
    stray = {
        "key-column": key_column,
        "items": items,
        "classes": classes,
        "systems": systems,
        "n": n,
        "worlds": worlds > 1,
        "design": design != "uniform",
    }
    if any(stray.values()):
        raise ArgumentError(
            f"{_flags(name for name, value in stray.items() if value)} must come with --answers and --key; got neither."
        )
    output = Output(title="A simulated world", as_json=as_json, html=html)
    n_classes = n_classes or "10"
    matrix = read_matrix(transition)
    sizes = _sizes(n_classes)
    if matrix is not None and sizes != [len(matrix)]:
        raise ArgumentError(
            f"--transition must have one row for each of the {n_classes} classes; got {len(matrix)} rows."
        )
    if matrix is not None and n_ruled_out != 1:
        raise ArgumentError(f"--n-ruled-out must be 1 with --transition; got {n_ruled_out}.")
    with working("drawing a world"):
        world = simulate_world(
            n_items=n_items,
            n_classes=sizes,
            systems=opt.pairs("system", system) or _SYSTEMS,
            n_questions=n_questions,
            n_ordinary=n_ordinary,
            n_complementary=n_complementary,
            n_ruled_out=n_ruled_out,
            no_answer=no_answer,
            false_no=false_no,
            false_yes=false_yes,
            unsure=unsure,
            bias=bias,
            transition=matrix,
            seed=seed,
        )
        files = write_world(world, out, file_format)
    output.emit(
        [known_accuracy(world, files)],
        single=True,
        seed=seed,
        after=[f"wrote {', '.join(files.values())}"],
    )


def _flags(names: Iterable[str]) -> str:
    return ", ".join(f"--{name}" for name in names)


def _number(text: str | None) -> int | None:
    """One number of classes for a rehearsal; items say it where it differs."""
    sizes = None if text is None else _sizes(text)
    if sizes is not None and len(sizes) > 1:
        raise ArgumentError(
            f"--n-classes must be one number with --answers; got {text!r}. Give --items with a column n_classes."
        )
    return None if sizes is None else sizes[0]


def _rehearse(
    output: Output,
    sources: Sources,
    key: str | None,
    key_column: str | None,
    made_up: list[str],
    out: str,
    file_format: Format,
    **options: Any,
) -> None:
    """The labels of a design for real answers with a key, and what they say beside the key."""
    if sources.answers is None or key is None:
        missing = "--key" if key is None else "--answers"
        raise ArgumentError(f"--answers and --key must come together; got no {missing}.")
    if made_up:
        raise ArgumentError(
            f"{_flags(made_up)} must be left out with --answers and --key, which say it; got both."
        )
    name = "grades" if options["protocol"] == "grades" else "judgements"
    path = Path(out) if Path(out).suffix.lower() in FORMATS else Path(out) / f"{name}.{file_format}"
    if path.is_dir() or (path.parent.exists() and not path.parent.is_dir()):
        raise ArgumentError(f"--out must be a folder or a file to write; got {out!r}.")
    with working("rehearsing"):
        rehearsal = rehearse(sources.load(), key, key_column=key_column, **options)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_table(path, rehearsal.labels)
    rows = len(rehearsal.labels["item"])
    after = [*(f"note: {line}" for line in rehearsal.notes), f"wrote {rows} {name} to {path}"]
    output.emit(rehearsal.estimates, seed=rehearsal.seed, after=after)


def _sizes(text: str) -> list[int]:
    try:
        sizes = [int(k) for k in opt.names(text) or ()]
    except ValueError:
        sizes = []
    if not sizes:
        raise ArgumentError(f"--n-classes must be whole numbers separated by commas; got {text!r}.")
    return sizes


def write_world(world: World, folder: str, file_format: Format = "csv") -> dict[str, str]:
    """Write the four tables of a world into a folder, which is made; returns where each is."""
    target = Path(folder)
    if target.exists() and not target.is_dir():
        raise ArgumentError(f"--out must be a folder; got the file {folder!r}.")
    target.mkdir(parents=True, exist_ok=True)
    key = {"item": list(world.key), "class": list(world.key.values())}
    files = {}
    for name, columns in (
        ("answers", world.answers),
        ("judgements", world.judgements),
        ("items", world.items),
        ("key", key),
    ):
        path = target / f"{name}.{file_format}"
        write_table(path, columns)
        files[name] = str(path)
    return files


def known_accuracy(world: World, files: dict[str, str]) -> Ranges:
    """What the key says: a range of one point for each system."""
    return Ranges(
        ranges=tuple(
            Range(name=f"accuracy of {name!r}", low=a, high=a) for name, a in world.accuracy.items()
        ),
        method="counted with the answer key; no answer counts as wrong",
        subject="what the key says",
        guarantee=Guarantee(
            kind=Kind.LOGICAL,
            error_rate=0.0,
            assumptions=(Assumption(name="the key of a simulated world", status="by-design"),),
        ),
        counts={"items": len(world.key), "judgements": len(world.judgements["item"])},
        diagnostics={"seed": world.seed, "files": files},
    )
