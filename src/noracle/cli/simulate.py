"""``noracle simulate``: tables with a known answer key."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from noracle.cli import _options as opt
from noracle.cli._files import read_matrix, write_table
from noracle.cli._output import Output, working
from noracle.errors import ArgumentError
from noracle.results import Assumption, Guarantee, Kind, Range, Ranges
from noracle.simulate import World, simulate_world

EXAMPLE = """Example:

noracle simulate --n-items 2000 --n-classes 10 --system agent-7=0.8 --system agent-8=0.7 --no-answer 0.05 --seed 1 --out world"""

Format = Literal["csv", "jsonl", "parquet"]
_SYSTEMS = {"agent-1": 0.8, "agent-2": 0.7}
_LABELS, _FAULTS = "Labels", "What can go wrong"


def _rate(name: str, text: str) -> typer.models.OptionInfo:
    option: typer.models.OptionInfo = typer.Option(name, metavar="P", min=0, max=1, help=text, rich_help_panel=_FAULTS)
    return option


def command(
    out: Annotated[str, typer.Option("--out", metavar="DIR", help="Folder for answers, judgements, items and key.")] = "world",
    file_format: Annotated[Format, typer.Option("--format", help="Format of the files.")] = "csv",
    n_items: Annotated[int, typer.Option("--n-items", metavar="N", min=1, help="Number of items.")] = 1000,
    n_classes: Annotated[
        str, typer.Option("--n-classes", metavar="K[,K]", help="Number of classes; of several one is drawn an item.")
    ] = "10",
    system: Annotated[
        list[str] | None,
        typer.Option("--system", metavar="NAME=A", help="A system and its accuracy; repeat. Default agent-1=0.8, agent-2=0.7."),
    ] = None,
    n_questions: Annotated[
        int | None,
        typer.Option(
            "--n-questions", metavar="N", min=0, help="Items with one random question each; default all.", rich_help_panel=_LABELS
        ),
    ] = None,
    n_ordinary: Annotated[
        int, typer.Option("--n-ordinary", metavar="N", min=0, help="Instead: items with the true class.", rich_help_panel=_LABELS)
    ] = 0,
    n_complementary: Annotated[
        int, typer.Option("--n-complementary", metavar="N", min=0, help="Instead: items with ruled-out classes.", rich_help_panel=_LABELS)
    ] = 0,
    n_ruled_out: Annotated[
        int, typer.Option("--n-ruled-out", metavar="M", min=1, help="Ruled-out classes of such an item.", rich_help_panel=_LABELS)
    ] = 1,
    no_answer: Annotated[float, _rate("--no-answer", "Share of items that a system leaves unanswered.")] = 0.0,
    false_no: Annotated[float, _rate("--false-no", "Rate of no to the true class.")] = 0.0,
    false_yes: Annotated[float, _rate("--false-yes", "Rate of yes to a wrong class.")] = 0.0,
    unsure: Annotated[float, _rate("--unsure", "Share of questions answered with unsure.")] = 0.0,
    bias: Annotated[float, _rate("--bias", "Share of questions about the class after the true one.")] = 0.0,
    transition: Annotated[
        str | None,
        typer.Option("--transition", metavar="FILE", help="Matrix P(ruled out | true class), CSV or JSON.", rich_help_panel=_FAULTS),
    ] = None,
    seed: opt.Seed = 0,
    as_json: opt.AsJson = False,
    html: opt.Html = None,
) -> None:
    """Draw a world and write its tables: what you would have, and the key that you would not have."""
    output = Output(title="A simulated world", as_json=as_json, html=html)
    matrix = read_matrix(transition)
    sizes = _sizes(n_classes)
    if matrix is not None and sizes != [len(matrix)]:
        raise ArgumentError(f"--transition must have one row for each of the {n_classes} classes; got {len(matrix)} rows.")
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
    output.emit([known_accuracy(world, files)], single=True, seed=seed, after=[f"wrote {', '.join(files.values())}"])


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
    for name, columns in (("answers", world.answers), ("judgements", world.judgements), ("items", world.items), ("key", key)):
        path = target / f"{name}.{file_format}"
        write_table(path, columns)
        files[name] = str(path)
    return files


def known_accuracy(world: World, files: dict[str, str]) -> Ranges:
    """What the key says: a range of one point for each system."""
    return Ranges(
        ranges=tuple(Range(name=f"accuracy of {name!r}", low=a, high=a) for name, a in world.accuracy.items()),
        method="counted with the answer key; no answer counts as wrong",
        subject="what the key says",
        guarantee=Guarantee(
            kind=Kind.LOGICAL, error_rate=0.0, assumptions=(Assumption(name="the key of a simulated world", status="by-design"),)
        ),
        counts={"items": len(world.key), "judgements": len(world.judgements["item"])},
        diagnostics={"seed": world.seed, "files": files},
    )
