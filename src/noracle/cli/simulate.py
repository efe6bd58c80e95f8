"""``noracle simulate``: tables with a known answer key, or the labels that a design would have
given for answers with a key.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Literal

from noracle.cli import _options as opt
from noracle.cli._options import Output, Sources, flags, option, panel, read_matrix, with_options
from noracle.cli._output import FORMATS, working, write_table
from noracle.errors import ArgumentError, require
from noracle.results import Assumption, Guarantee, Kind, Range, Ranges
from noracle.simulate import World, rehearse, simulate_world
from noracle.simulate.rehearsal import Protocol

EXAMPLE = opt.paragraphs("""Example:
noracle simulate --n-items 2000 --n-classes 10 --system agent-7=0.8 --system agent-8=0.7 --no-answer 0.05 --seed 1 --out world
noracle simulate --answers world/answers.csv --items world/items.csv --key world/key.csv --protocol question --n 500 --worlds 50""")

Format = Literal["csv", "jsonl", "parquet"]
_SYSTEMS = {"agent-1": 0.8, "agent-2": 0.7}
_ITEMS = 1000
_SIZES = "--n-classes must be whole numbers separated by commas"
_REHEARSED = (
    *("key_column", "protocol", "design", "n", "n_ordinary", "n_ruled_out"),
    *("false_no", "false_yes", "unsure", "worlds", "confidence", "seed"),
)
_DRAWN = (
    *("n_items", "n_questions", "n_ordinary", "n_complementary", "n_ruled_out", "no_answer"),
    *("false_no", "false_yes", "unsure", "bias", "seed"),
)


_labels, _faults = panel("Labels"), panel("What can go wrong")
_with_key = panel("Rehearse a design with a key")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _SimulateOptions:
    out: str = option(
        "Folder for answers, judgements, items and key; or a file for the labels.", "DIR", "world"
    )
    file_format: Format = option("Format of the files.", None, "csv", "--format")
    n_items: int = option("Number of items.", "N", _ITEMS, min=1)
    n_classes: str | None = option(
        "Number of classes, default 10; if several, one is drawn for each item.", "K[,K]"
    )
    system: list[str] | None = option(
        "A system and its accuracy; repeat. Default agent-1=0.8, agent-2=0.7.", "NAME=A"
    )
    n_questions: opt.Count = _labels("Items with one random question each; default all.", min=0)
    n_ordinary: int = _labels("Instead: items with the true class.", "N", 0, min=0)
    n_complementary: int = _labels("Instead: items with ruled-out classes.", "N", 0, min=0)
    n_ruled_out: int = _labels("Ruled-out classes of such an item.", "M", 1, min=1)
    no_answer: float = _faults(
        "Share of items that a system leaves unanswered.", "P", 0.0, min=0, max=1
    )
    false_no: float = _faults("Rate of no to the true class.", "P", 0.0, min=0, max=1)
    false_yes: float = _faults("Rate of yes to a wrong class.", "P", 0.0, min=0, max=1)
    unsure: float = _faults("Share of questions answered with unsure.", "P", 0.0, min=0, max=1)
    bias: float = _faults(
        "Share of questions about the class after the true one.", "P", 0.0, min=0, max=1
    )
    transition: opt.File = _faults("Matrix P(ruled out | true class), CSV or JSON.")
    answers: opt.File = _with_key("Real answers: item, system, answer.")
    key: opt.File = _with_key("Their key: item, label (or answer, gold, …).")
    key_column: opt.Column = _with_key("The column with the true class.")
    items: opt.File = _with_key("item; n_classes, stratum, weight.")
    classes: str | None = _with_key("All classes, if not 0 to K - 1.", "A,B,C")
    systems: opt.Names = _with_key("These systems only.")
    protocol: Protocol = _with_key(
        "One random class asked about, one ruled out, or answers graded right or wrong.",
        default="question",
    )
    design: Literal["uniform", "targeted"] = _with_key(
        "Questions about any class, or aimed at the systems' answers.", default="uniform"
    )
    n: opt.Count = _with_key("Items that get a label; default all with a key.", min=1)
    worlds: int = _with_key("Rehearse so often; how often is the key covered?", "W", 1, min=1)
    confidence: float = opt.confidence()
    seed: int = opt.seed()


@with_options()
def command(own: _SimulateOptions, output: Output) -> None:
    """Draw a world and write its tables: what you would have, and the key that you would not have.

    With --answers and --key nothing is invented but the labels: those that a design would have
    given for these answers, and what they say beside what the key says.
    """
    if own.answers is not None or own.key is not None:
        _rehearse(own, output)
        return
    told = {"worlds": own.worlds > 1, "design": own.design != "uniform"}
    with_key = ("key_column", "items", "classes", "systems", "n")
    stray = flags({**{name: getattr(own, name) for name in with_key}, **told})
    require(not stray, f"{', '.join(stray)} must come with --answers and --key; got neither.")
    n_classes, matrix = own.n_classes or "10", read_matrix(own.transition)
    sizes = opt.whole_numbers(n_classes, _SIZES)
    if matrix is not None:
        rule = f"--transition must have one row for each of the {n_classes} classes"
        require(sizes == [len(matrix)], f"{rule}; got {len(matrix)} rows.")
        rule = "--n-ruled-out must be 1 with --transition"
        require(own.n_ruled_out == 1, f"{rule}; got {own.n_ruled_out}.")
    with working("drawing a world"):
        world = simulate_world(
            n_classes=sizes,
            systems=opt.pairs("system", own.system) or _SYSTEMS,
            transition=matrix,
            **{name: getattr(own, name) for name in _DRAWN},
        )
        files = write_world(world, own.out, own.file_format)
    after = [f"wrote {', '.join(files.values())}"]
    found = known_accuracy(world, files)
    output.emit("A simulated world", [found], single=True, seed=own.seed, after=after)


def _rehearse(own: _SimulateOptions, output: Output) -> None:
    """The labels of a design for real answers with a key, and what they say beside the key."""
    if own.answers is None or own.key is None:
        missing = "--key" if own.key is None else "--answers"
        raise ArgumentError(f"--answers and --key must come together; got no {missing}.")
    told = {"n-items": own.n_items != _ITEMS, "system": own.system}
    told["n-questions"] = own.n_questions is not None
    invented = ("n_complementary", "no_answer", "bias", "transition")
    made_up = flags({**told, **{name: getattr(own, name) for name in invented}})
    rule = "must be left out with --answers and --key, which say it; got both."
    require(not made_up, f"{', '.join(made_up)} {rule}")
    sizes = [None] if own.n_classes is None else opt.whole_numbers(own.n_classes, _SIZES)
    rule = f"--n-classes must be one number with --answers; got {own.n_classes!r}."
    require(len(sizes) == 1, f"{rule} Give --items with a column n_classes.")
    given = Sources(answers=own.answers, items=own.items, n_classes=sizes[0], classes=own.classes)
    name = "grades" if own.protocol == "grades" else "judgements"
    path = Path(own.out)
    path = path if path.suffix.lower() in FORMATS else path / f"{name}.{own.file_format}"
    if path.is_dir() or (path.parent.exists() and not path.parent.is_dir()):
        raise ArgumentError(f"--out must be a folder or a file to write; got {own.out!r}.")
    about = {name: getattr(own, name) for name in _REHEARSED}
    with working("rehearsing"):
        rehearsal = rehearse(given.load(), own.key, systems=opt.names(own.systems), **about)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_table(path, rehearsal.labels)
    rows = len(rehearsal.labels["item"])
    after = [*(f"note: {line}" for line in rehearsal.notes), f"wrote {rows} {name} to {path}"]
    output.emit("A rehearsal with a key", rehearsal.estimates, seed=rehearsal.seed, after=after)


def write_world(world: World, folder: str, file_format: Format = "csv") -> dict[str, str]:
    """Write the four tables of a world into a folder, which is made; returns where each is."""
    target = Path(folder)
    if target.exists() and not target.is_dir():
        raise ArgumentError(f"--out must be a folder; got the file {folder!r}.")
    target.mkdir(parents=True, exist_ok=True)
    key = {"item": list(world.key), "class": list(world.key.values())}
    tables = {"answers": world.answers, "judgements": world.judgements, "items": world.items}
    files = {}
    for name, columns in {**tables, "key": key}.items():
        files[name] = str(target / f"{name}.{file_format}")
        write_table(files[name], columns)
    return files


def known_accuracy(world: World, files: dict[str, str]) -> Ranges:
    """What the key says: a range of one point for each system."""
    ranges = [Range(name=f"accuracy of {n!r}", low=a, high=a) for n, a in world.accuracy.items()]
    key = Assumption(name="the key of a simulated world", status="by-design")
    return Ranges(
        ranges=tuple(ranges),
        method="counted with the answer key; no answer counts as wrong",
        subject="what the key says",
        guarantee=Guarantee(kind=Kind.LOGICAL, error_rate=0.0, assumptions=(key,)),
        counts={"items": len(world.key), "judgements": len(world.judgements["item"])},
        diagnostics={"seed": world.seed, "files": files},
    )
