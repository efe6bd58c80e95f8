"""``noracle learn``: train on what items are not, answer with the model, and look at the labels."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from noracle.cli import _options as opt
from noracle.cli._files import check_format, write_table
from noracle.cli._learn_bench import register_bench
from noracle.cli._output import Output, check_target, say, say_card, say_json, settings, working
from noracle.errors import ArgumentError, EvidenceError, fault

_FILE = "CSV, JSONL, Parquet, npz, npy, idx or CLImage pickle; or a folder of these or of images."
_TRAINING, _DATA = "Training", "Reading the file"

FIT = """Example:

noracle learn fit notes.csv --items text --ruled-out not_class --out notes-model --html training.html

noracle learn fit images.npz --model resnet18 --recipe consistency --epochs 100 --transition counted.json --out image-model

Run the same command again after an interruption: it goes on where it was."""

PREDICT = """Example:

noracle learn predict notes-model new.csv --out answers.csv

noracle estimate --answers answers.csv --judgements judgements.csv --classes news,sport,law"""

ANALYSE = """Example:

noracle learn analyse labels.csv --ruled-out not_class --label truth --trusted checked --annotator who --html labels.html"""

app = typer.Typer(
    help="Train a classifier on what items are not, without an answer key (extra learn)."
)

ItemColumns = Annotated[
    list[str] | None,
    typer.Option(
        "--items",
        metavar="COL",
        help="Text column, number columns (A,B,…), or array of the items.",
        rich_help_panel=_DATA,
    ),
]
RuledOut = Annotated[
    list[str] | None,
    typer.Option(
        "--ruled-out",
        metavar="COL",
        help="Ruled-out classes: one column (also a|b), or several.",
        rich_help_panel=_DATA,
    ),
]
Names = Annotated[
    str | None,
    typer.Option(
        "--classes",
        metavar="A,B,C",
        help="All classes; default those in the file.",
        rich_help_panel=_DATA,
    ),
]
Device = Annotated[str, typer.Option("--device", help="auto, cpu, cuda or cuda:1.")]


def _training(*names: str, text: str) -> Any:
    return typer.Option(*names, help=text, rich_help_panel=_TRAINING)


@app.command("fit", epilog=FIT)
def fit(
    file: Annotated[str, typer.Argument(metavar="FILE", help=_FILE)],
    out: Annotated[
        str,
        typer.Option(
            "--out", metavar="MODEL_DIR", help="Folder of the model; holds the checkpoint too."
        ),
    ],
    items: ItemColumns = None,
    ruled_out: RuledOut = None,
    label: Annotated[
        str | None,
        typer.Option(
            "--label",
            metavar="COL",
            help="Also train on true labels in this column; without it none is used.",
            rich_help_panel=_DATA,
        ),
    ] = None,
    classes: Names = None,
    loss: Annotated[
        str, _training("--loss", text="scl_nl, fwd, ure_ga, l_w, … (a wrong name lists all).")
    ] = "scl_nl",
    transition: Annotated[
        str,
        _training(
            "--transition",
            text="uniform, anchors (estimated without true labels), or a JSON, CSV or npy matrix; rows true.",
        ),
    ] = "uniform",
    model: Annotated[
        Literal["linear", "mlp", "resnet18", "resnet34"],
        _training("--model", text="What is trained."),
    ] = "linear",
    hidden: Annotated[
        str,
        _training("--hidden", text="Sizes of the hidden layers of an mlp, separated by commas."),
    ] = "500",
    recipe: Annotated[
        Literal["plain", "consistency"],
        _training("--recipe", text="consistency: views of an image must agree."),
    ] = "plain",
    epochs: Annotated[int, _training("--epochs", text="Times that all items are seen.")] = 50,
    batch_size: Annotated[int, _training("--batch-size", text="Items a step.")] = 256,
    lr: Annotated[float, _training("--lr", text="Learning rate; texts often want 0.01.")] = 1e-3,
    weight_decay: Annotated[
        float, _training("--weight-decay", text="Pull of all weights to 0.")
    ] = 0.0,
    optimiser: Annotated[
        Literal["adam", "sgd"], _training("--optimiser", text="How steps are taken.")
    ] = "adam",
    schedule: Annotated[
        Literal["constant", "cosine", "one-cycle"],
        _training("--schedule", text="Learning rate over time."),
    ] = "constant",
    precision: Annotated[
        Literal["fp32", "bf16", "fp64"], _training("--precision", text="Numbers inside the model.")
    ] = "fp32",
    average: Annotated[
        float, _training("--average", text="Decay of the average of weights; 0 is none.")
    ] = 0.0,
    validation_share: Annotated[
        float,
        _training(
            "--validation-share",
            text="Items held out for the estimate of accuracy; with --patience as many again to stop.",
        ),
    ] = 0.1,
    patience: Annotated[
        int | None,
        _training("--patience", text="Stop after so many epochs without a better score."),
    ] = None,
    scale: Annotated[
        bool,
        _training(
            "--scale/--no-scale", text="Bring number columns to mean 0 and standard deviation 1."
        ),
    ] = True,
    max_words: Annotated[
        int,
        typer.Option(
            "--max-words", min=1, help="Most frequent words of texts.", rich_help_panel=_TRAINING
        ),
    ] = 50_000,
    device: Device = "auto",
    confidence: opt.Confidence = 0.95,
    seed: opt.Seed = 0,
    as_json: opt.AsJson = False,
    html: opt.Html = None,
) -> None:
    """Train a classifier on ruled-out classes and estimate its accuracy on held-out ones.

    Texts become TF-IDF. A label column is not looked at unless --label names it. The folder holds
    words of the texts, and no text.
    """
    _need_learn()
    from noracle.cli._learn_fit import Wishes, train
    from noracle.learn.readers import read_items

    Output(title="Training without an answer key", as_json=as_json, html=html)
    folder = Path(out)
    if folder.is_file() or not folder.parent.is_dir():
        raise ArgumentError(f"--out must name a folder inside one that exists; got {out!r}.")
    wishes = Wishes(
        transition=transition,
        scale=scale,
        max_words=max_words,
        hidden=sizes(hidden),
        validation_share=validation_share,
        confidence=confidence,
        seed=seed,
        others={
            "loss": loss,
            "model": model,
            "recipe": recipe,
            "epochs": epochs,
            "batch_size": batch_size,
            "lr": lr,
            "weight_decay": weight_decay,
            "optimiser": optimiser,
            "schedule": schedule,
            "precision": precision,
            "average": average,
            "patience": patience,
            "device": device,
        },
    )
    with working("reading"):
        read = read_items(
            file,
            items=opt.names(items),
            ruled_out=opt.names(ruled_out),
            label=label or (),
            annotator=(),
            classes=opt.names(classes),
        )
    done = train(read, folder, wishes, use_labels=label is not None)
    results: list[Any] = [done] if done.validation is None else [done, done.validation]
    if html is not None:
        from noracle.report.page import write_page

        with working("drawing the report"):
            write_page(
                html,
                results,
                title="Training without an answer key",
                command=settings.command,
                seed=seed,
            )
    if as_json:
        say_json(done.to_dict())
        return
    for result in results:
        say_card(str(result))
    if html is not None:
        say(f"report {html}")


@app.command("predict", epilog=PREDICT)
def predict(
    model: Annotated[str, typer.Argument(metavar="MODEL_DIR", help="Folder that fit made.")],
    file: Annotated[str, typer.Argument(metavar="FILE", help=_FILE)],
    out: Annotated[
        str,
        typer.Option(
            "--out", metavar="FILE", help="Answers as CSV, JSONL or Parquet: item, system, answer."
        ),
    ],
    items: ItemColumns = None,
    system: Annotated[
        str | None,
        typer.Option(
            "--system", metavar="S", help="Name of the system; default that of the folder."
        ),
    ] = None,
    chances: Annotated[
        bool, typer.Option("--chances", help="Also a column chance_CLASS for each class.")
    ] = False,
    device: Device = "auto",
    as_json: opt.AsJson = False,
) -> None:
    """Answer with a model: a table that 'noracle estimate' and the other verbs take as --answers.

    An item is named by its column item, by its file, or by its row number from 0.
    """
    _need_learn()
    check_format("out", out)
    check_target("out", out)
    from noracle.cli._learn_model import load_model
    from noracle.learn.files import is_whole
    from noracle.learn.readers import read_items

    made, classifier, names = load_model(Path(model), device=device)
    with working("reading"):
        read = read_items(
            file,
            items=opt.names(items) or list(made.columns) or None,
            ruled_out=(),
            label=(),
            annotator=(),
        )
    if read.items is None:
        raise EvidenceError(
            fault("FILE", "must hold items", "none", remedy="Name their columns with --items.")
        )
    repeated = len(read) - len(set(read.ids))
    if repeated:
        raise EvidenceError(
            fault(
                "item",
                "must name each item once",
                f"{repeated} repeats",
                remedy="Number the items, or drop the column.",
            )
        )
    with working("answering"):
        found = classifier.predict_proba(made.prepare(read.items))
    answer = found.argmax(axis=1).tolist()
    keys: list[Any] = [int(name) for name in names] if all(map(is_whole, names)) else names
    whole = all(isinstance(i, int) for i in read.ids)
    columns: dict[str, list[Any]] = {
        "item": list(read.ids) if whole else [str(i) for i in read.ids],
        "system": [system or Path(model).resolve().name] * len(read),
        "answer": [keys[k] for k in answer],
    }
    if chances:
        columns |= {
            f"chance_{name}": [round(float(p), 6) for p in found[:, k]]
            for k, name in enumerate(names)
        }
    write_table(out, columns)
    shares = {name: answer.count(k) for k, name in enumerate(names)}
    if as_json:
        say_json(
            {
                "schema": "predictions/1",
                "system": columns["system"][0],
                "n_items": len(read),
                "answers": out,
                "classes": shares,
            }
        )
        return
    say(f"{len(read)} answers of {columns['system'][0]!r} in {out}")
    say("  " + ", ".join(f"{name} {n}" for name, n in shares.items()))


@app.command("analyse", epilog=ANALYSE)
def analyse(
    file: Annotated[str, typer.Argument(metavar="FILE", help=_FILE)],
    ruled_out: RuledOut = None,
    label: Annotated[
        str | None,
        typer.Option(
            "--label",
            metavar="COL",
            help="True classes; they are marked oracle.",
            rich_help_panel=_DATA,
        ),
    ] = None,
    trusted: Annotated[
        str | None,
        typer.Option(
            "--trusted",
            metavar="COL",
            help="Where true, the label counts; default everywhere.",
            rich_help_panel=_DATA,
        ),
    ] = None,
    annotator: Annotated[
        list[str] | None,
        typer.Option(
            "--annotator", metavar="COL", help="Who ruled the class out.", rich_help_panel=_DATA
        ),
    ] = None,
    features: Annotated[
        list[str] | None,
        typer.Option(
            "--features",
            metavar="COL",
            help="Number columns: do labels depend on the item beyond its class?",
            rich_help_panel=_DATA,
        ),
    ] = None,
    classes: Names = None,
    confidence: opt.Confidence = 0.95,
    seed: opt.Seed = 0,
    as_json: opt.AsJson = False,
    html: opt.Html = None,
) -> None:
    """Say how noisy and how biased ruled-out labels are: noise, class bias, T, annotators, and what
    a method may assume.

    True labels are looked at only where --label names them.
    """
    output = Output(title="Ruled-out labels", as_json=as_json, html=html)
    import numpy as np

    from noracle.learn.analysis import analyse_labels
    from noracle.learn.readers import read_items

    if trusted is not None and label is None:
        raise ArgumentError("--trusted must come with --label, the true classes; got no --label.")
    with working("reading"):
        read = read_items(
            file,
            items=opt.names(features) or (),
            ruled_out=opt.names(ruled_out),
            label=label or (),
            annotator=opt.names(annotator),
            classes=opt.names(classes),
        )
        mask = None if trusted is None else _flags(file, trusted)
    if read.ruled_out is None:
        raise EvidenceError(
            fault(
                "FILE",
                "must hold ruled-out classes",
                "none",
                remedy="Name their column with --ruled-out.",
            )
        )
    if read.texts or hasattr(read.items, "tocsr"):
        raise ArgumentError("--features must be columns of numbers; got others.")
    with working("analysing"):
        found = analyse_labels(
            read.ruled_out,
            classes=read.classes,
            truth=read.label,
            trusted=mask,
            annotator=read.annotator,
            features=None
            if read.items is None
            else np.asarray(read.items, dtype=np.float64).reshape(len(read), -1),
            confidence=confidence,
            rng=np.random.default_rng(seed),
        )
    output.emit([found], single=True, seed=seed)


def _need_learn() -> None:
    """Refuse in one line where torch or scikit-learn is missing, before anything is read."""
    importlib.import_module("noracle.learn.classifier")


def sizes(text: str) -> tuple[int, ...]:
    """Sizes of hidden layers."""
    try:
        found = tuple(int(part) for part in opt.names(text) or ())
    except ValueError:
        found = ()
    if not found or min(found) < 1:
        raise ArgumentError(
            f"--hidden must be whole numbers of at least 1, as 500,100; got {text!r}."
        )
    return found


def _flags(file: str, column: str) -> Any:
    """A column of yes and no as bools; empty is no."""
    import numpy as np

    from noracle.learn.readers import read_items

    read = read_items(file, items=(), ruled_out=(), label=column, annotator=())
    meaning = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
    strange = [name for name in read.classes if name.lower() not in meaning]
    if strange or read.label is None:
        raise EvidenceError(
            fault(
                "--trusted",
                "must be a column of true and false, yes and no, or 1 and 0",
                ", ".join(strange[:5]),
            )
        )
    values = np.array([*(meaning[name.lower()] for name in read.classes), False])
    return values[read.label]


register_bench(app)
