"""``noracle learn bench``: algorithms × ways to make labels × learning rates × seeds, as tables."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from noracle.cli import _options as opt
from noracle.cli._output import Output, check_target, say, say_card, say_json, settings, working
from noracle.errors import ArgumentError, EvidenceError, fault

if TYPE_CHECKING:
    from noracle.learn.bench.study import Rule
    from noracle.learn.bench.trial import LabelSetting, TrialData
    from noracle.learn.readers import LabelledItems

_DATA, _STUDY, _TRAINING = "Reading the files", "What is tried", "Training"

EXAMPLE = """Labels: WAY[:OPTION]…

WAY is uniform, noisy:SHARE (so many rule out the truth), weak or strong (biased), people (four classes are shown and one is ruled out that
the annotator did not name) or given (those of the file).

OPTION is iid (drawn anew from the counted T), evened (the same noise without bias), removed=SHARE (of wrong labels), labels=N (an item).

Example:

noracle learn bench digits.npz --labels uniform --labels noisy:0.1 --algorithm SCL-NL,FWD-U,supervised --epochs 20 --html study.html

noracle learn bench cifar10_train.npz --test cifar10_test.npz --labels people --labels people:iid --rule accuracy --rule scel --seeds 3

True labels make the labels and judge the models. Run the same command again after an interruption: it goes on where it was."""

TEN = (
    "FWD-U",
    "FWD-R",
    "URE-GA-U",
    "URE-GA-R",
    "SCL-NL",
    "SCL-EXP",
    "L-W",
    "L-UW",
    "PC-sigmoid",
    "ROB-MAE",
    "supervised",
)
WAYS = ("uniform", "noisy", "weak", "strong", "people", "given")


def _option(panel: str, *names: str, text: str, **more: Any) -> Any:
    return typer.Option(*names, help=text, rich_help_panel=panel, **more)


def register_bench(app: typer.Typer) -> None:
    """Add the verb to ``noracle learn``."""
    app.command("bench", epilog=EXAMPLE)(bench)


def parse_labels(text: str) -> LabelSetting:
    """One ``--labels`` value.

    Examples
    --------
    >>> setting = parse_labels("noisy:0.1:iid")
    >>> setting.way, setting.noise, setting.ablation
    ('noisy', 0.1, 'iid')
    """
    from noracle.learn.bench.trial import LabelSetting

    way, *options = text.split(":")
    said: dict[str, Any] = {}
    for option in options:
        name, _, value = option.partition("=")
        if not value and way == "noisy" and "noise" not in said and name not in ("iid", "evened"):
            name, value = "noise", name
        known = {
            "iid": "ablation",
            "evened": "ablation",
            "noise": "noise",
            "removed": "removed",
            "labels": "n_labels",
        }.get(name)
        try:
            made: Any = (
                name
                if known == "ablation" and not value
                else int(value)
                if known == "n_labels"
                else float(value)
            )
        except ValueError:
            known = None
        if known is None or known in said:
            raise ArgumentError(
                f"--labels must be WAY[:iid|:evened][:removed=SHARE][:labels=N], as noisy:0.1:removed=0.5; got {text!r}."
            )
        said[known] = made
    if way not in WAYS or (way == "noisy") != ("noise" in said and way in ("noisy", "uniform")):
        raise ArgumentError(
            f"--labels must begin with {', '.join(WAYS)} (noisy with its share, as noisy:0.1); got {text!r}."
        )
    return LabelSetting(name=text, way=way, **said)  # type: ignore[arg-type]


def bench(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE…",
            help="Items to train on with true labels; several are several data sets.",
        ),
    ],
    test: Annotated[
        list[str] | None,
        _option(
            _DATA, "--test", text="Test items of each FILE, in the same order.", metavar="FILE"
        ),
    ] = None,
    test_share: Annotated[
        float,
        _option(
            _DATA, "--test-share", text="Without --test: share of the items that is set aside."
        ),
    ] = 0.2,
    items: Annotated[
        list[str] | None,
        _option(_DATA, "--items", text="Columns or array of the items.", metavar="COL"),
    ] = None,
    ruled_out: Annotated[
        list[str] | None, _option(_DATA, "--ruled-out", text="Labels of 'given'.", metavar="COL")
    ] = None,
    label: Annotated[
        str | None, _option(_DATA, "--label", text="True classes.", metavar="COL")
    ] = None,
    people: Annotated[
        list[str] | None,
        _option(
            _DATA,
            "--people",
            text="Ordinary labels of several people, for 'people'; default the array annotators.",
            metavar="COL",
        ),
    ] = None,
    classes: Annotated[
        str | None,
        _option(
            _DATA, "--classes", text="All classes; default those in the file.", metavar="A,B,C"
        ),
    ] = None,
    algorithm: Annotated[
        list[str] | None,
        _option(
            _STUDY,
            "--algorithm",
            text="Rows; default the ten of the CLImage paper and supervised. A wrong name lists all.",
            metavar="A,B",
        ),
    ] = None,
    labels: Annotated[
        list[str] | None,
        _option(
            _STUDY,
            "--labels",
            text="Columns, as described below; default uniform.",
            metavar="WAY[:OPTION]…",
        ),
    ] = None,
    lr: Annotated[
        list[float] | None,
        _option(_STUDY, "--lr", text="Learning rates; default the paper's five."),
    ] = None,
    seeds: Annotated[int, _option(_STUDY, "--seeds", text="Runs of each cell.", min=1)] = 1,
    epochs: Annotated[int, _option(_STUDY, "--epochs", text="Epochs of a run.", min=1)] = 300,
    select_epochs: Annotated[
        int | None,
        _option(
            _STUDY,
            "--select-epochs",
            text="Epochs after which a learning rate is selected; default 30 or fewer.",
            min=1,
        ),
    ] = None,
    rule: Annotated[
        list[str] | None,
        _option(
            _STUDY,
            "--rule",
            text="accuracy, zero_one, scel or last: selects learning rate and epoch; several: side by side.",
        ),
    ] = None,
    model: Annotated[
        Literal["linear", "mlp", "resnet18", "resnet34"] | None,
        _option(
            _TRAINING,
            "--model",
            text="Default resnet18 for images, linear for texts, mlp for numbers.",
        ),
    ] = None,
    hidden: Annotated[
        str, _option(_TRAINING, "--hidden", text="Sizes of the hidden layers of an mlp.")
    ] = "500",
    batch_size: Annotated[
        int, _option(_TRAINING, "--batch-size", text="Items a step.", min=1)
    ] = 512,
    weight_decay: Annotated[
        float, _option(_TRAINING, "--weight-decay", text="Pull of all weights to 0.")
    ] = 1e-4,
    average: Annotated[
        float, _option(_TRAINING, "--average", text="Decay of the average of weights; 0 is none.")
    ] = 0.0,
    precision: Annotated[
        Literal["fp32", "bf16", "fp64"],
        _option(_TRAINING, "--precision", text="Numbers inside the model."),
    ] = "fp32",
    holdout: Annotated[
        float, _option(_TRAINING, "--holdout", text="Share of the items on which the rule looks.")
    ] = 0.1,
    every: Annotated[
        int, _option(_TRAINING, "--every", text="Look at a model every so many epochs.", min=1)
    ] = 5,
    flip: Annotated[
        bool,
        _option(_TRAINING, "--flip/--no-flip", text="Mirror images; not for digits and letters."),
    ] = True,
    max_words: Annotated[
        int, _option(_TRAINING, "--max-words", text="Most frequent words of texts.", min=1)
    ] = 50_000,
    shared: Annotated[
        int,
        _option(_TRAINING, "--shared", text="Trials that share a GPU at a time.", min=1, max=32),
    ] = 1,
    device: Annotated[
        str, _option(_TRAINING, "--device", text="auto, cpu, cuda or cuda:1.")
    ] = "auto",
    journal: Annotated[
        str | None,
        typer.Option(
            "--journal",
            metavar="FILE",
            help="Trials that ended; default study.jsonl beside --html, or here.",
        ),
    ] = None,
    as_json: opt.AsJson = False,
    html: opt.Html = None,
) -> None:
    """Compare algorithms on labels made in several ways: tables of test accuracy with mean,
    deviation and the rule that selected.
    """
    importlib.import_module(
        "noracle.learn.classifier"
    )  # refuses in one line where torch or scikit-learn is missing
    from noracle.cli._learn_study import RuleTable, StudyTable, study_dict
    from noracle.cli.learn import sizes
    from noracle.learn.bench.study import RATES, StudyPlan, run_study
    from noracle.learn.bench.trial import Training

    Output(title="Learning from ruled-out labels", as_json=as_json, html=html)
    book = (
        Path(journal)
        if journal is not None
        else Path(html).parent / "study.jsonl"
        if html is not None
        else Path("study.jsonl")
    )
    check_target("journal", str(book))
    tests: list[str | None] = [*test] if test else [None] * len(files)
    if len(tests) != len(files):
        raise ArgumentError(
            f"--test must be given once for each FILE or not at all; got {len(tests)} for {len(files)}."
        )
    plan = StudyPlan(
        algorithms=tuple(opt.names(algorithm) or TEN),
        labels=tuple(parse_labels(text) for text in opt.names(labels) or ["uniform"]),
        rates=tuple(lr or RATES),
        seeds=tuple(range(seeds)),
        epochs=epochs,
        select_epochs=select_epochs or min(30, epochs),
        rule=_rules(rule)[0],
        training=Training(
            model=model or "mlp",
            hidden=sizes(hidden),
            batch_size=batch_size,
            weight_decay=weight_decay,
            average=average,
            precision=precision,
            holdout=holdout,
            every=every,
            flip=flip,
        ),
    )
    plans = [dataclasses.replace(plan, rule=r) for r in _rules(rule)]
    reader = _Reader(
        items=opt.names(items),
        ruled_out=opt.names(ruled_out),
        label=label,
        people=opt.names(people),
        classes=opt.names(classes),
        ways={s.way for s in plan.labels},
        share=test_share,
        max_words=max_words,
    )
    with working("reading"):
        sets = _distinct(
            [reader.read(file, other) for file, other in zip(files, tests, strict=True)]
        )
    tables: list[StudyTable] = []
    with _bar() as shows:
        for data in sets:
            chosen = model or (
                "resnet18" if data.images else "linear" if hasattr(data.items, "tocsr") else "mlp"
            )
            for each in plans:
                mine = dataclasses.replace(
                    each, training=dataclasses.replace(each.training, model=chosen)
                )
                rows = run_study(
                    data,
                    mine,
                    journal=book,
                    device=device,
                    shared=shared,
                    progress=shows(f"{data.name}, {each.rule}", mine),
                )
                counts = {
                    "items": len(data.truth),
                    "test": len(data.test_truth),
                    "classes": data.n_classes,
                }
                tables.append(
                    StudyTable(
                        data=data.name,
                        counts=counts,
                        rule=each.rule,
                        rates=each.rates,
                        epochs=each.epochs,
                        n_seeds=len(each.seeds),
                        rows=tuple(rows),
                    )
                )
    results: list[Any] = []
    for data in sets:
        mine_too = [t for t in tables if t.data == data.name]
        results += [*mine_too, *([RuleTable(tables=tuple(mine_too))] if len(mine_too) > 1 else [])]
    if html is not None:
        from noracle.report.page import write_page

        with working("drawing the report"):
            write_page(
                html, results, title="Learning from ruled-out labels", command=settings.command
            )
    if as_json:
        say_json(
            study_dict(
                tables,
                journal=str(book),
                settings=dataclasses.asdict(plan.training) | {"model": model or "by data"},
            )
        )
        return
    for result in results:
        say_card(str(result))
    say(f"journal {book}")
    if html is not None:
        say(f"report {html}")


def _rules(values: list[str] | None) -> list[Rule]:
    known: dict[str, Rule] = {
        "accuracy": "accuracy",
        "zero_one": "zero_one",
        "scel": "scel",
        "last": "last",
    }
    said = opt.names(values) or ["accuracy"]
    strange = [name for name in said if name not in known]
    if strange:
        raise ArgumentError(f"--rule must be {', '.join(known)}; got {strange[0]!r}.")
    return [known[name] for name in dict.fromkeys(said)]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Reader:
    """Files as the data of a study."""

    items: list[str] | None
    ruled_out: list[str] | None
    label: str | None
    people: list[str] | None
    classes: list[str] | None
    ways: set[str]
    share: float
    max_words: int

    def read(self, file: str, test: str | None) -> TrialData:
        """One data set. Words, means and scales come from the items to train on alone."""
        import numpy as np

        from noracle.cli._learn_model import fit_input
        from noracle.learn.bench.trial import TrialData
        from noracle.learn.readers import read_items

        given = () if "given" not in self.ways else self.ruled_out
        read = read_items(
            file,
            items=self.items,
            ruled_out=given,
            label=self.label,
            annotator=(),
            classes=self.classes,
        )
        known = _known(read, file)
        votes = self._votes(file, read)
        if test is None:
            if not 0 < self.share < 1:
                raise ArgumentError(f"--test-share must be in (0, 1); got {self.share}.")
            order = np.random.default_rng(0).permutation(known)
            n_test = round(self.share * len(order))
            if not 0 < n_test < len(order):
                raise EvidenceError(
                    fault(
                        "FILE",
                        "must hold items to train on and to test",
                        f"{len(order)} items with a true label",
                    )
                )
            rows, test_rows, other = np.sort(order[n_test:]), np.sort(order[:n_test]), read
        else:
            other = read_items(
                test,
                items=self.items,
                ruled_out=(),
                label=self.label,
                annotator=(),
                classes=list(read.classes),
            )
            rows, test_rows = known, _known(other, test)
        made = fit_input(read, rows, scale=True, max_words=self.max_words)
        truth, test_truth = _labels(read), _labels(other)
        return TrialData(
            name=_name(file),
            items=_pick(made.prepare(read.items), rows),
            truth=truth[rows],
            test_items=_pick(made.prepare(other.items), test_rows),
            test_truth=test_truth[test_rows],
            n_classes=read.n_classes,
            ruled_out=None if read.ruled_out is None else read.ruled_out[rows],
            annotators=None if votes is None else votes[rows],
        )

    def _votes(self, file: str, read: LabelledItems) -> Any:
        if "people" not in self.ways:
            return None
        if not self.people:
            if read.votes is None:
                raise ArgumentError(
                    "--labels people must come with --people, the ordinary labels of several people; got none in the file."
                )
            return read.votes
        from noracle.learn.readers import read_items

        return read_items(
            file,
            items=(),
            ruled_out=self.people,
            label=(),
            annotator=(),
            classes=list(read.classes),
        ).ruled_out


def _known(read: LabelledItems, file: str) -> Any:
    """Places of the items with a true class."""
    if read.items is None or read.label is None or not (read.label >= 0).any():
        came = "no items" if read.items is None else "no true class"
        raise EvidenceError(
            fault(
                f"FILE {file}",
                "must hold items and their true classes",
                came,
                remedy="Name them with --items, --label.",
            )
        )
    return (read.label >= 0).nonzero()[0]


def _labels(read: LabelledItems) -> Any:
    return read.label


def _pick(items: Any, rows: Any) -> Any:
    return items if len(rows) == items.shape[0] else items[rows]


def _name(file: str) -> str:
    """The name of a file without what says that it is the part to train on."""
    stem = Path(file).resolve().name.split(".")[0]
    return stem.removesuffix("_train").removesuffix("-train") or stem


def _distinct(sets: list[TrialData]) -> list[TrialData]:
    names = [data.name for data in sets]
    return [
        data if names.count(data.name) == 1 else dataclasses.replace(data, name=f"{data.name} {i}")
        for i, data in enumerate(sets, start=1)
    ]


@contextlib.contextmanager
def _bar() -> Iterator[Callable[[str, Any], Callable[..., None] | None]]:
    """A progress bar on stderr where that is a terminal; gives what a study calls after every
    trial.
    """
    if settings.quiet or not sys.stderr.isatty():
        yield lambda _what, _plan: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as progress:

        def shows(what: str, plan: Any) -> Callable[..., None]:
            from noracle.learn.bench.study import known_trials

            task = progress.add_task(what, total=known_trials(plan, {})[1])

            def tell(done: int, known: int, trial: Any, _found: Any) -> None:
                progress.update(
                    task,
                    completed=done,
                    total=known,
                    description=f"{what}: {trial.algorithm} on {trial.labels}, lr {trial.lr:g}",
                )

            return tell

        yield shows
