"""``noracle learn``: train on what items are not, answer with the model, and look at the labels."""

from __future__ import annotations

import dataclasses
import importlib
import sys
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import typer
from numpy.typing import NDArray

from noracle._version import __version__
from noracle.cli import _learn_bench
from noracle.cli import _options as opt
from noracle.cli import _output as console
from noracle.cli._options import Output, argument, option, panel, read_matrix, with_options
from noracle.errors import (
    ArgumentError,
    EvidenceError,
    SingularTransition,
    require,
    require_evidence,
)
from noracle.files import replacing
from noracle.learn.readers import LabelledItems
from noracle.learn.transition import Transition
from noracle.report import plots, words
from noracle.report.content import Content, ContentTable, content, labelled, table
from noracle.results import Estimate
from noracle.results.base import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SCHEMA = "input/1"
CHECKPOINT = "checkpoint.pt"
Kind = Literal["text", "features", "sparse", "images"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """How items become features: TF-IDF of texts, scaled numbers, or as they are."""

    kind: Kind
    columns: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    arrays: dict[str, NDArray[np.float64]] = dataclasses.field(default_factory=dict)

    def prepare(self, items: Any) -> Any:
        """What the classifier takes."""
        found, rule = kind_of(items), f"must be {self.kind}, as the model was trained on"
        require_evidence(found == self.kind, "items", rule, found)
        if self.kind == "text":
            vectoriser = _vectoriser(vocabulary=list(self.words))
            vectoriser.idf_ = self.arrays["idf"].astype(np.float32)
            return vectoriser.transform(items)
        if "mean" in self.arrays:
            mean, sd = self.arrays["mean"], self.arrays["sd"]
            n, rule = items.shape[1], f"must have {len(mean)} features, as in training"
            require_evidence(n == len(mean), "items", rule, n)
            return (np.asarray(items, dtype=np.float64) - mean) / sd
        return items


def _vectoriser(**options: Any) -> Any:
    from sklearn.feature_extraction.text import TfidfVectorizer

    return TfidfVectorizer(sublinear_tf=True, dtype=np.float32, **options)


def kind_of(items: Any) -> Kind:
    """What kind of items these are."""
    if isinstance(items, list):
        return "text"
    if hasattr(items, "tocsr"):
        return "sparse"
    return "images" if items.ndim == 4 else "features"


def fit_input(read: LabelledItems, rows: NDArray[np.intp], *, scale: bool, max_words: int) -> Input:
    """Learn words and scales from the items to train on, and from no other."""
    kind = kind_of(read.items)
    words: tuple[str, ...] = ()
    arrays: dict[str, NDArray[np.float64]] = {}
    if kind == "text":
        vectoriser = _vectoriser(max_features=max_words)
        try:
            vectoriser.fit([read.items[i] for i in rows])
        except ValueError:
            rule = "must have texts with words of two letters or more"
            raise EvidenceError.of("items", rule, "none") from None
        words = tuple(str(word) for word in vectoriser.get_feature_names_out())
        arrays["idf"] = np.asarray(vectoriser.idf_, dtype=np.float64)
    elif kind == "features" and scale and not isinstance(read.items, np.memmap):
        chosen = np.asarray(read.items[rows], dtype=np.float64)
        sd = chosen.std(axis=0)
        arrays |= {"mean": chosen.mean(axis=0), "sd": np.where(sd > 0, sd, 1.0)}
    return Input(kind=kind, columns=read.columns, words=words, arrays=arrays)


def save_model(folder: Path, made: Input, classifier: Any, classes: Sequence[str]) -> None:
    """Write the folder; ``model.json`` comes last, so that a folder with it is complete."""
    with replacing(folder / "input.npz") as temporary, temporary.open("wb") as file:
        np.savez(file, **made.arrays)  # type: ignore[arg-type]
    head = {"schema": SCHEMA, "version": __version__, "kind": made.kind, "columns": made.columns}
    console.write_json(
        folder / "input.json", {**head, "classes": list(classes), "words": made.words}
    )
    classifier.save(folder)


def load_model(folder: Path, *, device: str) -> tuple[Input, Any, list[str]]:
    """How to prepare items, the classifier, and the names of its classes."""
    from noracle.learn.classifier import ComplementaryClassifier

    rule = "MODEL_DIR must be a folder that 'noracle learn fit' finished"
    finished = (folder / "model.json").is_file()
    require(finished, f"{rule}; got {str(folder)!r}. Run fit again to go on.")
    head = console.read_json(str(folder / "input.json"), "MODEL_DIR: input.json")
    classifier = ComplementaryClassifier.load(folder)
    classifier.set_params(device=device, verbose=False)
    try:
        with np.load(folder / "input.npz", allow_pickle=False) as stored:
            arrays = {name: np.asarray(stored[name], dtype=np.float64) for name in stored.files}
        columns, words = tuple(head["columns"]), tuple(head["words"])
        made = Input(kind=head["kind"], columns=columns, words=words, arrays=arrays)
        names = [str(name) for name in head["classes"]]
        fits = len(names) == len(classifier.classes_) and head["schema"] == SCHEMA
        if not fits or (words and len(words) != classifier.n_features_in_):
            raise ValueError
    except (OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile):
        rule = "MODEL_DIR must hold input.json and input.npz of the same model"
        got = f"got others in {str(folder)!r}. Run fit again."
        raise ArgumentError(f"{rule}; {got}") from None
    return made, classifier, names


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TrainingRun(Result):
    """One training run. ``transition`` says where T came from, and ``oracle`` in it whether true
    labels were seen.
    """

    schema: ClassVar[str] = "training/1"

    system: str
    folder: str
    classes: tuple[str, ...]
    counts: Mapping[str, int]
    settings: Mapping[str, Any]
    transition: Mapping[str, Any]
    history: Sequence[Mapping[str, float]]
    validation: Estimate | None = None
    reason: str = ""
    version: str = __version__

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values; the validation estimate carries its own schema."""
        inside = None if self.validation is None else self.validation.to_dict()
        return {**Result.to_dict(self), "validation": inside}

    def plot(self, ax: Axes | None = None) -> Axes:
        """The loss over the epochs."""
        ax = plots.new_axes(ax, 6)
        epochs = [row["epoch"] for row in self.history]
        losses, marker = [row["loss"] for row in self.history], "o" if len(epochs) < 30 else None
        ax.plot(epochs, losses, color=plots.BLUE, marker=marker, markersize=3)
        ax.grid(axis="y", color=plots.LINE, linewidth=0.8)
        ax.set_xlabel("epoch")
        ax.set_ylabel("mean loss", color=plots.INK, fontsize=8.5)
        ax.locator_params(axis="x", integer=True)
        return ax


@content.register
def _(result: TrainingRun) -> Content:
    last = result.history[-1] if result.history else {}
    transition, classes = result.transition, result.classes
    epochs = len(result.history)
    figures = [f"loss {words.scalar(last['loss'])}"] if last else []
    settings = (f"{n.replace('_', ' ')} {v}" for n, v in result.settings.items() if v is not None)
    more = ", …" if len(classes) > 12 else ""
    trained = f"{epochs} epoch{'' if epochs == 1 else 's'}"
    return Content(
        headline=(f"training of {result.system!r}", trained, *figures),
        alerts=("ORACLE: true labels were seen in T",) if transition["oracle"] else (),
        lines=labelled(
            ("evidence", _evidence(result.counts)),
            ("classes", f"{len(classes)}: {', '.join(classes[:12])}{more}"),
            ("settings", ", ".join(settings)),
            ("transition", _transition(transition)),
            ("validation", result.reason),
            ("model", result.folder),
        ),
        tables=(_curve(result.history),),
    )


def _evidence(counts: Mapping[str, int]) -> str:
    used = f"{counts['labels']} true labels used in training"
    parts = {
        f"{counts['items']} items": True,
        f"{counts['trained']} trained on": True,
        f"{counts['ruled_out']} ruled-out classes": True,
        used if counts["labels"] else "no true label used": True,
        f"{counts['stopping']} held out to stop": counts["stopping"],
        f"{counts['held_out']} held out for the estimate": True,
        f"{counts['unlabelled']} without any label": counts["unlabelled"],
    }
    return ", ".join(text for text, said in parts.items() if said)


def _transition(transition: Mapping[str, Any]) -> str:
    seen = "oracle: true labels were seen" if transition["oracle"] else "no true label was seen"
    detail = f" ({transition['detail']})" if transition["detail"] else ""
    condition, strength = (words.scalar(transition[name]) for name in ("condition", "strength"))
    figures = f"condition number {condition}, 1 − ηK {strength}"
    return f"{transition['source']}{detail}; {seen}; {figures}"


def _curve(history: Sequence[Mapping[str, float]]) -> ContentTable:
    columns = {
        "epoch": ("epoch", ".0f"),
        "loss": ("loss", ".5g"),
        "learning rate": ("lr", ".3g"),
        "seconds": ("seconds", ".2f"),
        "score of held-out items": ("score", ".5g"),
    }
    if not any("score" in row for row in history):
        del columns["score of held-out items"]
    rows = [
        [format(row[key], form) if key in row else "—" for key, form in columns.values()]
        for row in history
    ]
    few = sorted({0, *range(max(0, len(rows) - 3), len(rows))}) if rows else ()
    return table("Loss of every epoch", list(columns), rows, text=(), shown=few)


Rows = NDArray[np.intp]
_TRAINED_WITH = (
    *("loss", "model", "recipe", "epochs", "batch_size", "lr", "weight_decay", "optimiser"),
    *("schedule", "precision", "average", "patience", "device"),
)
_NAME = "Name their columns with --items."
_SIZES = "--hidden must be whole numbers of at least 1, as 500,100"


def _no_ruled_out() -> EvidenceError:
    remedy = "Name their column with --ruled-out."
    return EvidenceError.of("FILE", "must hold ruled-out classes", "none", remedy=remedy)


def read_transition(value: str, n_classes: int) -> str | Transition:
    """``uniform``, ``anchors``, ``estimated``, or a matrix in a file; a file that says ``oracle``
    keeps the word.
    """
    if value in ("uniform", "anchors", "estimated"):
        return value
    path = Path(value)
    rule = "--transition must be uniform, anchors, estimated or a JSON, CSV or npy file"
    require(path.is_file(), f"{rule}; got {value!r}. Check the path.")
    kind, oracle = path.suffix.lower(), False
    stored = console.read_json(value, "--transition") if kind == ".json" else None
    matrix: Any
    if kind == ".npy":
        from noracle.learn.files import read_npy

        matrix = np.asarray(read_npy(path))
    elif isinstance(stored, dict):
        if stored.get("schema") == "analysis/1":
            stored = next((t for t in stored.get("transitions", ()) if t.get("matrix")), {})
        matrix, oracle = stored.get("matrix"), bool(stored.get("oracle", False))
        full = isinstance(matrix, list) and all(isinstance(r, list) for r in matrix)
        full = full and not any(None in row for row in matrix)
        require_evidence(full, "--transition", "must hold a full matrix", f"none in {value!r}")
    else:
        matrix = read_matrix(value)
    matrix = matrix if kind == ".npy" else np.array(matrix, dtype=np.float64)
    found = Transition(matrix, "given", path.name, oracle)
    rule = f"--transition must have a row for each of the {n_classes} classes"
    require(found.n_classes == n_classes, f"{rule}; got {found.n_classes} in {value!r}.")
    return found


def train(
    read: LabelledItems, folder: Path, own: _FitOptions, hidden: Sequence[int]
) -> TrainingRun:
    """Train, save the folder and say what happened."""
    from noracle.learn.classifier import ComplementaryClassifier

    use_labels = own.label is not None
    if read.items is None:
        raise EvidenceError.of("FILE", "must hold items to train on", "labels only", remedy=_NAME)
    if read.ruled_out is None and not (use_labels and read.label is not None):
        raise _no_ruled_out()
    rule, remedy = "must be at least two", "Name all of them with --classes."
    require_evidence(read.n_classes >= 2, "classes", rule, read.n_classes, remedy=remedy)
    transition = read_transition(own.transition, read.n_classes)
    ruled_out = np.full((len(read), 1), -1) if read.ruled_out is None else read.ruled_out
    label = read.label if use_labels and read.label is not None else np.full(len(read), -1)
    some = (ruled_out >= 0).any(axis=1) | (label >= 0)
    rows, held = _split(some, (ruled_out >= 0).any(axis=1) & (label < 0), own)
    with console.working("reading words and numbers"):
        made = fit_input(read, rows, scale=own.scale, max_words=own.max_words)
        X = made.prepare(read.items)
    settings = {name: getattr(own, name) for name in _TRAINED_WITH}
    stops = own.patience is not None or own.transition == "estimated"
    classifier = ComplementaryClassifier(
        transition=transition,
        hidden=tuple(hidden),
        classes=list(range(read.n_classes)),
        checkpoint=folder / CHECKPOINT,
        validation_share=own.validation_share if stops else 0.0,
        said_by=opt.names(own.said_by),
        verbose=sys.stderr.isatty() and not console.settings.quiet,
        random_state=own.seed,
        **settings,
    )
    # Held-out items are there without a label, so that a memory-mapped file need not be copied.
    known_out, known = ruled_out.copy(), label.copy()
    known_out[held], known[held] = -1, -1
    classifier.fit(X, known_out, label=known if use_labels else None)
    folder.mkdir(parents=True, exist_ok=True)
    save_model(folder, made, classifier, read.classes)
    validation, reason = _validated(classifier, X, ruled_out, held, folder.resolve().name, own)
    trained = np.setdiff1d(rows, classifier.held_out_)
    counts = {
        "items": len(read),
        "trained": len(trained),
        "stopping": len(classifier.held_out_),
        "held_out": len(held),
        "ruled_out": int((ruled_out[trained] >= 0).sum()),
        "labels": int((known >= 0).sum()),
        "unlabelled": int((~some).sum()),
        "words": len(made.words),
    }
    said = {**settings, "validation_share": own.validation_share, "seed": own.seed}
    said |= {"said_by": ", ".join(classifier.said_by)} if classifier.said_by else {}
    return TrainingRun(
        system=folder.resolve().name,
        folder=str(folder),
        classes=read.classes,
        counts=counts,
        settings=said,
        transition={**classifier.transition_.summary(), "source": classifier.transition_source_},
        history=classifier.history_.rows,
        validation=validation,
        reason=reason,
    )


def _split(
    some: NDArray[np.bool_], may_be_held: NDArray[np.bool_], own: _FitOptions
) -> tuple[Rows, Rows]:
    """Items to train on, and items held out for the estimate; these have ruled-out classes and no
    true label.
    """
    share = own.validation_share
    require(0 <= share < 1, f"--validation-share must be in [0, 1); got {share}.")
    rule, remedy = "must name a class for some item", "Check --ruled-out."
    require_evidence(some.any(), "ruled_out", rule, "none", remedy=remedy)
    candidates = np.flatnonzero(may_be_held)
    n = min(round(share * len(candidates)), int(some.sum()) - 1)
    held = np.sort(np.random.default_rng([own.seed, 1]).permutation(candidates)[:n])
    chosen = some.copy()
    chosen[held] = False
    return np.flatnonzero(chosen), held


def _validated(
    classifier: Any, X: Any, ruled_out: NDArray[np.int64], held: Rows, system: str, own: _FitOptions
) -> tuple[Estimate | None, str]:
    """Accuracy on held-out items from their ruled-out classes alone, or why there is none."""
    from noracle.learn.validation import estimate_model_accuracy

    if not len(held):
        return None, "none: no items were held out (--validation-share)"
    with console.working("estimating"):
        predicted = classifier.predict(X[held])
        about: Any = {"transition": classifier.transition_, "confidence": own.confidence}
        try:
            found = estimate_model_accuracy(predicted, ruled_out[held], system=system, **about)
        except SingularTransition as error:
            return None, f"none: {error}"
    return found, ""


FIT = opt.paragraphs("""Example:
noracle learn fit notes.csv --items text --ruled-out not_class --out notes-model --html training.html
noracle learn fit images.npz --model resnet18 --recipe consistency --epochs 100 --transition counted.json --out image-model
Run the same command again after an interruption: it goes on where it was.""")

PREDICT = opt.paragraphs("""Example:
noracle learn predict notes-model new.csv --out answers.csv
noracle estimate --answers answers.csv --judgements judgements.csv --classes news,sport,law""")

ANALYSE = opt.paragraphs("""Example:
noracle learn analyse labels.csv --ruled-out not_class --label truth --trusted checked --annotator who --html labels.html""")

app = typer.Typer(
    help="Train a classifier on what items are not, without an answer key (extra learn)."
)

_reading, _training = panel("Reading the file"), panel("Training")


def _file() -> Any:
    formats = "CSV, JSONL, Parquet, npz, npy, idx or CLImage pickle"
    return argument(f"{formats}; or a folder of these or of images.", "FILE", ...)


def _items() -> Any:
    return _reading("Text column, number columns (A,B,…), or array of the items.", "COL")


def _ruled_out() -> Any:
    return _reading("Ruled-out classes: one column (also a|b), or several.", "COL")


def _classes() -> Any:
    return _reading("All classes; default those in the file.", "A,B,C")


def _device() -> Any:
    return option("auto, cpu, cuda or cuda:1.", default="auto")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _FitOptions:
    file: str = _file()
    out: str = option("Folder of the model; holds the checkpoint too.", "MODEL_DIR", ...)
    items: list[str] | None = _items()
    ruled_out: list[str] | None = _ruled_out()
    label: opt.Column = _reading(
        "Also train on true labels in this column; without it none is used."
    )
    classes: str | None = _classes()
    said_by: opt.Names = _reading(
        "Who made the labels, for the record: certify --model refuses them as annotators."
    )
    loss: str = _training("scl_nl, fwd, ure_ga, l_w, … (a wrong name lists all).", default="scl_nl")
    transition: str = _training(
        "uniform, anchors or, with recipe consistency, estimated (both without true labels); or a JSON, CSV or npy matrix; rows true.",
        default="uniform",
    )
    model: Literal["linear", "mlp", "resnet18", "resnet34"] = _training(
        "What is trained.", default="linear"
    )
    hidden: str = _training(
        "Sizes of the hidden layers of an mlp, separated by commas.", default="500"
    )
    recipe: Literal["plain", "consistency"] = _training(
        "consistency: views of an image must agree; where T is not uniform, images alone teach first, as many epochs again.",
        default="plain",
    )
    epochs: int = _training("Passes over all items.", default=50)
    batch_size: int = _training("Items per step.", default=256)
    lr: float = _training("Learning rate; texts often want 0.01.", default=1e-3)
    weight_decay: float = _training("Pull of all weights to 0.", default=0.0)
    optimiser: Literal["adam", "sgd"] = _training("Optimiser.", default="adam")
    schedule: Literal["constant", "cosine", "one-cycle"] = _training(
        "Learning rate over time.", default="constant"
    )
    precision: Literal["fp32", "bf16", "fp64"] = _training(
        "Number format inside the model.", default="fp32"
    )
    average: float = _training("Decay of the average of weights; 0 is none.", default=0.0)
    validation_share: float = _training(
        "Items held out for the estimate of accuracy; with --patience as many again to stop.",
        default=0.1,
    )
    patience: int | None = _training("Stop after this many epochs without a better score.")
    scale: bool = _training(
        "Bring number columns to mean 0 and standard deviation 1.", None, True, "--scale/--no-scale"
    )
    max_words: int = _training("Most frequent words of texts.", default=50_000, min=1)
    device: str = _device()
    confidence: float = opt.confidence()
    seed: int = opt.seed()


@app.command("fit", epilog=FIT)
@with_options()
def fit(own: _FitOptions, output: Output) -> None:
    """Train a classifier on ruled-out classes and estimate its accuracy on held-out ones.

    Texts become TF-IDF. A label column is not looked at unless --label names it. The folder holds
    words of the texts, and no text.
    """
    _need_learn()
    from noracle.learn.readers import read_items

    folder = Path(own.out)
    fits = not folder.is_file() and folder.parent.is_dir()
    require(fits, f"--out must name a folder inside one that exists; got {own.out!r}.")
    hidden = opt.whole_numbers(own.hidden, _SIZES, 1)
    with console.working("reading"):
        read = read_items(
            own.file,
            items=opt.names(own.items),
            ruled_out=opt.names(own.ruled_out),
            label=own.label or (),
            annotator=(),
            classes=opt.names(own.classes),
        )
    done = train(read, folder, own, hidden)
    results: list[Any] = [done] if done.validation is None else [done, done.validation]
    output.page("Training without an answer key", results, own.seed)
    if output.as_json:
        console.say_json(done.to_dict())
        return
    for result in results:
        console.say_card(str(result))
    if output.html is not None:
        console.say(f"report {output.html}")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _PredictOptions:
    model: str = argument("Folder that fit made.", "MODEL_DIR", ...)
    file: str = _file()
    out: str = option("Answers as CSV, JSONL or Parquet: item, system, answer.", "FILE", ...)
    items: list[str] | None = _items()
    system: str | None = option("Name of the system; default that of the folder.", "S")
    chances: bool = option("Also a column chance_CLASS for each class.", default=False)
    device: str = _device()


@app.command("predict", epilog=PREDICT)
@with_options()
def predict(own: _PredictOptions, output: opt.JsonOutput) -> None:
    """Answer with a model: a table that 'noracle estimate' and the other verbs take as --answers.

    An item is named by its column item, by its file, or by its row number from 0.
    """
    _need_learn()
    console.check_format("out", own.out)
    console.check_target("out", own.out)
    from noracle.learn.files import is_whole
    from noracle.learn.readers import read_items

    made, classifier, names = load_model(Path(own.model), device=own.device)
    columns = opt.names(own.items) or list(made.columns) or None
    with console.working("reading"):
        read = read_items(own.file, items=columns, ruled_out=(), label=(), annotator=())
    if read.items is None:
        raise EvidenceError.of("FILE", "must hold items", "none", remedy=_NAME)
    repeated = len(read) - len(set(read.ids))
    rule, remedy = "must name each item once", "Number the items, or drop the column."
    require_evidence(not repeated, "item", rule, f"{repeated} repeats", remedy=remedy)
    with console.working("answering"):
        found = classifier.predict_proba(made.prepare(read.items))
    answer = found.argmax(axis=1).tolist()
    keys: list[Any] = [int(name) for name in names] if all(map(is_whole, names)) else names
    whole = all(isinstance(i, int) for i in read.ids)
    name = own.system or Path(own.model).resolve().name
    answers: dict[str, list[Any]] = {
        "item": list(read.ids) if whole else [str(i) for i in read.ids],
        "system": [name] * len(read),
        "answer": [keys[k] for k in answer],
    }
    if own.chances:
        for k, label in enumerate(names):
            answers[f"chance_{label}"] = [round(float(p), 6) for p in found[:, k]]
    console.write_table(own.out, answers)
    shares = {label: answer.count(k) for k, label in enumerate(names)}
    head = {"schema": "predictions/1", "system": name, "n_items": len(read)}
    told = "  " + ", ".join(f"{label} {n}" for label, n in shares.items())
    lines = (f"{len(read)} answers of {name!r} in {own.out}", told)
    output.tell({**head, "answers": own.out, "classes": shares}, lines)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _AnalyseOptions:
    file: str = _file()
    ruled_out: list[str] | None = _ruled_out()
    label: opt.Column = _reading("True classes; they are marked oracle.")
    trusted: opt.Column = _reading("Where true, the label counts; default everywhere.")
    annotator: opt.Columns = _reading("Who ruled the class out.")
    features: opt.Columns = _reading(
        "Number columns: do labels depend on the item beyond its class?"
    )
    classes: str | None = _classes()
    confidence: float = opt.confidence()
    seed: int = opt.seed()


@app.command("analyse", epilog=ANALYSE)
@with_options()
def analyse(own: _AnalyseOptions, output: Output) -> None:
    """Say how noisy and how biased ruled-out labels are: noise, class bias, T, annotators, and what
    a method may assume.

    True labels are looked at only where --label names them.
    """
    from noracle.learn.analysis import analyse_labels
    from noracle.learn.readers import read_items

    rule = "--trusted must come with --label, the true classes; got no --label."
    require(own.trusted is None or own.label is not None, rule)
    with console.working("reading"):
        read = read_items(
            own.file,
            items=opt.names(own.features) or (),
            ruled_out=opt.names(own.ruled_out),
            label=own.label or (),
            annotator=opt.names(own.annotator),
            classes=opt.names(own.classes),
        )
        mask = None if own.trusted is None else _flags(own.file, own.trusted)
    if read.ruled_out is None:
        raise _no_ruled_out()
    words_or_sparse = read.texts or hasattr(read.items, "tocsr")
    require(not words_or_sparse, "--features must be columns of numbers; got others.")
    features = None
    if read.items is not None:
        features = np.asarray(read.items, dtype=np.float64).reshape(len(read), -1)
    with console.working("analysing"):
        found = analyse_labels(
            read.ruled_out,
            classes=read.classes,
            truth=read.label,
            trusted=mask,
            annotator=read.annotator,
            features=features,
            confidence=own.confidence,
            rng=np.random.default_rng(own.seed),
        )
    output.emit("Ruled-out labels", [found], single=True, seed=own.seed)


def _need_learn() -> None:
    """Refuse in one line where torch or scikit-learn is missing, before anything is read."""
    importlib.import_module("noracle.learn.classifier")


def _flags(file: str, column: str) -> Any:
    """A column of yes and no as bools; empty is no."""
    from noracle.learn.readers import read_items

    read = read_items(file, items=(), ruled_out=(), label=column, annotator=())
    meaning = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
    strange = [name for name in read.classes if name.lower() not in meaning]
    if strange or read.label is None:
        rule = "must be a column of true and false, yes and no, or 1 and 0"
        raise EvidenceError.of("--trusted", rule, ", ".join(strange[:5]))
    values = np.array([*(meaning[name.lower()] for name in read.classes), False])
    return values[read.label]


app.command("bench", epilog=_learn_bench.EXAMPLE)(_learn_bench.bench)
