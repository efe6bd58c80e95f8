"""``noracle learn bench``: algorithms × ways to make labels × learning rates × seeds, as tables."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from noracle._version import __version__
from noracle.cli import _options as opt
from noracle.cli._options import Output, argument, option, panel, with_options
from noracle.cli._output import bar, check_target, working
from noracle.errors import ArgumentError, EvidenceError, fault, require, require_evidence
from noracle.report import plots, words
from noracle.report.content import Content, ContentTable, content, labelled, table
from noracle.results.base import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from noracle.learn.bench.study import StudyRow
    from noracle.learn.bench.trial import LabelSetting, TrialData
    from noracle.learn.readers import LabelledItems

RULES: Mapping[str, str] = {
    "accuracy": "learning rate and epoch by accuracy on held-out true labels (an oracle)",
    "zero_one": "learning rate and epoch by the zero-one risk of held-out ruled-out labels",
    "scel": "learning rate and epoch by the surrogate loss (SCEL) of held-out ruled-out labels",
    "last": "learning rate by accuracy on held-out true labels (an oracle), last epoch",
}
_COLOURS = (plots.BLUE, plots.ORANGE, plots.GREY, plots.INK)
_MARKERS = "osD^vPX*"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StudyTable(Result):
    """Algorithms × ways to make labels, by one rule; percent of the test items, mean ± standard
    deviation over seeds.
    """

    schema: ClassVar[str] = "study-table/1"
    sees_truth: ClassVar[bool] = True

    data: str
    counts: Mapping[str, int]
    rule: str
    rates: tuple[float, ...]
    epochs: int
    n_seeds: int
    rows: tuple[StudyRow, ...]
    version: str = __version__

    @property
    def labels(self) -> tuple[str, ...]:
        """Ways to make labels, in the order of the columns."""
        return tuple(dict.fromkeys(row.labels for row in self.rows))

    @property
    def algorithms(self) -> tuple[str, ...]:
        """Algorithms, in the order of the rows."""
        return tuple(dict.fromkeys(row.algorithm for row in self.rows))

    def cell(self, algorithm: str, labels: str) -> StudyRow:
        """One cell."""
        return next(row for row in self.rows if (row.algorithm, row.labels) == (algorithm, labels))

    def plot(self, ax: Axes | None = None) -> Axes:
        """The means, one line an algorithm, one mark a way to make labels; a bar is one standard
        deviation.
        """
        cells = {name: [self.cell(a, name) for a in self.algorithms] for name in self.labels}
        return _dots(ax, self.algorithms, cells)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RuleTable(Result):
    """What each rule selects from the same trials."""

    schema: ClassVar[str] = "study-rules/1"
    sees_truth: ClassVar[bool] = True

    tables: tuple[StudyTable, ...]
    version: str = __version__

    def plot(self, ax: Axes | None = None) -> Axes:
        """The means by rule, for the first way to make labels."""
        first = self.tables[0]
        name = first.labels[0]
        cells = {t.rule: [t.cell(a, name) for a in first.algorithms] for t in self.tables}
        return _dots(ax, first.algorithms, cells)


def _dots(ax: Axes | None, names: Sequence[str], series: Mapping[str, Sequence[StudyRow]]) -> Axes:
    ax = plots.new_axes(ax, len(names) + 2)
    step = 0.6 / max(1, len(series) - 1) if len(series) > 1 else 0.0
    for i, (label, rows) in enumerate(series.items()):
        shown = [
            (y - 0.3 + i * step if step else y, row)
            for y, row in enumerate(rows)
            if row.mean is not None
        ]
        ax.errorbar(
            [row.mean or 0.0 for _, row in shown],
            [y for y, _ in shown],
            xerr=[row.sd or 0.0 for _, row in shown],
            linestyle="none",
            marker=_MARKERS[i % len(_MARKERS)],
            color=_COLOURS[i % len(_COLOURS)],
            markersize=4.5,
            label=label,
        )
    ax.set_yticks(range(len(names)), names)
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.grid(axis="x", color=plots.LINE, linewidth=0.8)
    ax.set_xlabel("test accuracy, percent")
    if len(series) > 1:
        ax.legend(frameon=False, fontsize=8, loc="lower left", bbox_to_anchor=(0, 1.0), ncols=4)
    return ax


@content.register
def _(study: StudyTable) -> Content:
    paper = {row.labels for row in study.rows if row.paper is not None}
    header = ["algorithm"]
    for name in study.labels:
        rate = f"lr {name}" if len(study.labels) > 1 else "lr"
        header += [name, *(["paper"] if name in paper else []), rate]
    rows = []
    for algorithm in study.algorithms:
        line = [_named(algorithm)]
        for name in study.labels:
            cell = study.cell(algorithm, name)
            published = (
                ["—" if cell.paper is None else f"{cell.paper:.2f}"] if name in paper else []
            )
            line += [figure(cell), *published, "—" if cell.lr is None else f"{cell.lr:g}"]
        rows.append(line)
    caption = f"Test accuracy on {study.data} in percent, mean ± standard deviation over {study.n_seeds} seeds; {RULES[study.rule]}"
    main = table(caption, header, rows, shown=range(len(rows)))
    done = sum(row.n_seeds for row in study.rows)
    noise = {row.labels: row.noise for row in reversed(study.rows) if row.noise is not None}
    told = (f"{name} {words.percent(noise[name], '.2f')}" for name in study.labels if name in noise)
    wrong = "; ".join(told)
    counts, rates = study.counts, ", ".join(f"{r:g}" for r in study.rates)
    oracle = study.rule == "accuracy" or (study.rule == "last" and len(study.rates) > 1)
    runs = f"{done} of {len(study.rows) * study.n_seeds} runs"
    evidence = f"{counts['items']} items, {counts['test']} test items, {counts['classes']} classes"
    trials = f"{study.epochs} epochs; learning rates {rates}; {study.n_seeds} seeds"
    seen = any(_is_oracle(a) for a in study.algorithms)
    return Content(
        headline=(f"study of {study.data!r} by {study.rule}", runs),
        alerts=("ORACLE: the rule looks at true labels",) if oracle else (),
        lines=labelled(
            ("rule", RULES[study.rule]),
            ("evidence", evidence),
            ("trials", trials),
            ("noise", f"wrong labels among those trained on: {wrong}" if wrong else ""),
        ),
        tables=(main, *_differences(study)),
        notes=("oracle: true labels were seen in training or in T",) if seen else (),
    )


@content.register
def _(result: RuleTable) -> Content:
    first = result.tables[0]
    columns = [(each, name) for name in first.labels for each in result.tables]
    header = ("algorithm", *(f"{name} · {each.rule}" for each, name in columns))
    rows = [
        (_named(a), *(figure(each.cell(a, name)) for each, name in columns))
        for a in first.algorithms
    ]
    caption = f"Test accuracy on {first.data} in percent by selection rule; all rules select from the same trials"
    rules = [each.rule for each in result.tables]
    return Content(
        headline=(f"selection rules on {first.data!r}", ", ".join(rules)),
        lines=labelled(*((rule, RULES[rule]) for rule in rules)),
        tables=(table(caption, header, rows, shown=range(len(rows))),),
    )


def figure(row: StudyRow) -> str:
    """A cell: mean ± standard deviation; a dash where no run ended."""
    failed = f" ({row.n_failed} failed)" if row.n_failed else ""
    if row.mean is None:
        return f"—{failed}"
    return (f"{row.mean:.2f}" if row.sd is None else f"{row.mean:.2f} ± {row.sd:.2f}") + failed


def _differences(study: StudyTable) -> tuple[ContentTable, ...]:
    """What labels that depend on the class alone change: a column for every pair NAME:iid and NAME."""
    pairs = [
        (name, base)
        for name in study.labels
        if (base := name.replace(":iid", "")) != name and base in study.labels
    ]
    if not pairs:
        return ()
    rows = []
    for a in study.algorithms:
        cells = [(study.cell(a, name).mean, study.cell(a, base).mean) for name, base in pairs]
        said = ("—" if None in pair else f"{pair[0] - pair[1]:+.2f}" for pair in cells)  # type: ignore[operator]
        rows.append((_named(a), *said))
    caption = "Difference in points when labels are drawn again from the counted T: what dependence on the item costs"
    header = ("algorithm", *(f"{name} − {base}" for name, base in pairs))
    return (table(caption, header, rows, shown=range(len(rows))),)


def _is_oracle(algorithm: str) -> bool:
    from noracle.learn.bench.trial import ALGORITHMS

    known = ALGORITHMS[algorithm]
    return known.transition == "counted" or known.loss == "supervised"


def _named(algorithm: str) -> str:
    return f"{algorithm} (oracle)" if _is_oracle(algorithm) else algorithm


EXAMPLE = opt.paragraphs("""Labels: WAY[:OPTION]…
WAY is uniform, noisy:SHARE (so many rule out the truth), weak or strong (biased), people (four classes are shown and one is ruled out that
 the annotator did not name) or given (those of the file). With --real: acl (its array ruled_out), or NAME of a matrix T_NAME in it.
OPTION is iid (drawn again from the counted T), evened (the same noise without bias), removed=SHARE (of wrong labels), labels=N (per item).
Example:
noracle learn bench digits.npz --labels uniform --labels noisy:0.05 --algorithm SCL-NL,FWD-U,supervised --epochs 20 --html study.html
noracle learn bench cifar10_train.npz --test cifar10_test.npz --labels people --labels people:iid --rule accuracy --rule scel --seeds 3
True labels make the labels and judge the models. Run the same command again after an interruption: it goes on where it was.""")

TEN = (
    *("FWD-U", "FWD-R", "URE-GA-U", "URE-GA-R", "SCL-NL", "SCL-EXP", "L-W", "L-UW", "PC-sigmoid"),
    *("ROB-MAE", "supervised"),
)
_LABEL_OPTIONS = {"iid": "ablation", "evened": "ablation", "labels": "n_labels"} | {
    name: name for name in ("noise", "removed")
}
_TRAINED_WITH = (
    *("batch_size", "weight_decay", "average", "precision", "holdout", "every", "flip"),
    *("stem", "optimiser", "schedule"),
)
WAYS = ("uniform", "noisy", "weak", "strong", "people", "given", "acl")


def parse_labels(text: str, matrices: Iterable[str] = ()) -> LabelSetting:
    """One ``--labels`` value; ``matrices`` are names of ways that a file adds.

    Examples
    --------
    >>> setting = parse_labels("noisy:0.1:iid")
    >>> setting.way, setting.noise, setting.ablation
    ('noisy', 0.1, 'iid')
    """
    from noracle.learn.bench.trial import LabelSetting

    way, *options = text.split(":")
    said: dict[str, Any] = {}
    for one in options:
        name, _, value = one.partition("=")
        if not value and way == "noisy" and "noise" not in said and name not in ("iid", "evened"):
            name, value = "noise", name
        known = _LABEL_OPTIONS.get(name)
        try:
            made: Any = name
            if known != "ablation" or value:
                made = int(value) if known == "n_labels" else float(value)
        except ValueError:
            known = None
        if known is None or known in said:
            rule = "--labels must be WAY[:iid|:evened][:removed=SHARE][:labels=N]"
            raise ArgumentError(f"{rule}, as noisy:0.1:removed=0.5; got {text!r}.")
        said[known] = made
    noisy = "noise" in said and way in ("noisy", "uniform")
    ways = (*WAYS, *matrices)
    rule = f"--labels must begin with {', '.join(ways)} (noisy with its share, as noisy:0.1)"
    require(way in ways and (way == "noisy") == noisy, f"{rule}; got {text!r}.")
    return LabelSetting(name=text, way=way, **said)


_reading, _tried = panel("Reading the files"), panel("What is tried")
_training = panel("Training")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _BenchOptions:
    files: list[str] = argument(
        "Items to train on with true labels; several are several data sets.", "FILE…", ...
    )
    test: opt.Files = _reading("Test items of each FILE, in the same order.")
    test_share: float = _reading(
        "Without --test: share of the items that is set aside.", default=0.2
    )
    items: opt.Columns = _reading("Columns or array of the items.")
    ruled_out: opt.Columns = _reading("Labels of 'given'.")
    label: opt.Column = _reading("True classes.")
    people: opt.Columns = _reading(
        "Ordinary labels of several people, for 'people'; default the array annotators."
    )
    classes: str | None = _reading("All classes; default those in the file.", "A,B,C")
    real: opt.File = _reading("npz file with labels of FILE's items, or matrices to draw from.")
    algorithm: opt.Names = _tried(
        "Rows; default the ten of the CLImage paper and supervised. A wrong name lists all."
    )
    labels: list[str] | None = _tried(
        "Columns, as described below; default uniform.", "WAY[:OPTION]…"
    )
    lr: list[float] | None = _tried("Learning rates; default the paper's five.")
    seeds: int = _tried("Runs of each cell.", default=1, min=1)
    epochs: int = _tried("Epochs of a run.", default=300, min=1)
    select_epochs: int | None = _tried(
        "Epochs after which a learning rate is selected; default 30 or fewer.", min=1
    )
    rule: list[str] | None = _tried(
        "accuracy, zero_one, scel or last: selects learning rate and epoch; several: side by side."
    )
    model: Literal["linear", "mlp", "resnet18", "resnet34"] | None = _training(
        "Default resnet18 for images, linear for texts, mlp for numbers."
    )
    hidden: str = _training("Sizes of the hidden layers of an mlp.", default="500")
    batch_size: int = _training("Items per step.", default=512, min=1)
    weight_decay: float = _training("Pull of all weights to 0.", default=1e-4)
    average: float = _training("Decay of the average of weights; 0 is none.", default=0.0)
    stem: Literal["imagenet", "small"] = _training(
        "First layer of a resnet: 7×7 and a pool, or 3×3.", default="imagenet"
    )
    optimiser: Literal["adam", "sgd"] = _training("Optimiser.", default="adam")
    schedule: Literal["constant", "cosine", "one-cycle"] = _training(
        "Learning rate over time.", default="constant"
    )
    precision: Literal["fp32", "bf16", "fp64"] = _training(
        "Number format inside the model.", default="fp32"
    )
    holdout: float = _training("Share of the items on which the rule looks.", default=0.1)
    every: int = _training("Look at a model every so many epochs.", default=5, min=1)
    flip: bool = _training(
        "Mirror images; not for digits and letters.", None, True, "--flip/--no-flip"
    )
    max_words: int = _training("Most frequent words of texts.", default=50_000, min=1)
    shared: int = _training("Trials that share a GPU at a time.", default=1, min=1, max=32)
    device: str = _training("auto, cpu, cuda or cuda:1.", default="auto")
    journal: opt.File = option("Trials that ended; default study.jsonl beside --html, or here.")


@with_options()
def bench(own: _BenchOptions, output: Output) -> None:
    """Compare algorithms on labels made in several ways: tables of test accuracy with mean,
    deviation and the rule that selected.
    """
    # Refuses in one line where torch or scikit-learn is missing.
    importlib.import_module("noracle.learn.classifier")
    from noracle.cli.learn import _SIZES
    from noracle.learn.bench.study import RATES, StudyPlan, run_study
    from noracle.learn.bench.trial import Training

    beside = Path() if output.html is None else Path(output.html).parent
    book = beside / "study.jsonl" if own.journal is None else Path(own.journal)
    check_target("journal", str(book))
    tests: list[str | None] = [*own.test] if own.test else [None] * len(own.files)
    got = f"got {len(tests)} for {len(own.files)}."
    rule = "--test must be given once for each FILE or not at all"
    require(len(tests) == len(own.files), f"{rule}; {got}")
    rules: list[Any] = list(dict.fromkeys(opt.names(own.rule) or ["accuracy"]))
    for name in rules:
        require(name in RULES, f"--rule must be {', '.join(RULES)}; got {name!r}.")
    real = _read_real(own.real)
    columns = opt.names(own.labels) or ["uniform"]
    plan = StudyPlan(
        algorithms=tuple(opt.names(own.algorithm) or TEN),
        labels=tuple(parse_labels(text, real.matrices) for text in columns),
        rates=tuple(own.lr or RATES),
        seeds=tuple(range(own.seeds)),
        epochs=own.epochs,
        select_epochs=own.select_epochs or min(30, own.epochs),
        rule=rules[0],
        training=Training(
            model=own.model or "mlp",
            hidden=tuple(opt.whole_numbers(own.hidden, _SIZES, 1)),
            **{name: getattr(own, name) for name in _TRAINED_WITH},
        ),
    )
    reader = _BenchReader(own=own, ways={s.way for s in plan.labels}, real=real)
    with working("reading"):
        pairs = zip(own.files, tests, strict=True)
        sets = _distinct([reader.read(file, other) for file, other in pairs])
    tables: list[StudyTable] = []
    results: list[Any] = []
    given: Any = {"journal": book, "device": own.device, "shared": own.shared}
    with _bar() as shows:
        for data in sets:
            usual: Any = "linear" if hasattr(data.items, "tocsr") else "mlp"
            model = own.model or ("resnet18" if data.images else usual)
            sizes = {"items": len(data.truth), "test": len(data.test_truth)}
            mine = []
            for rule in rules:
                training = dataclasses.replace(plan.training, model=model)
                each = dataclasses.replace(plan, rule=rule, training=training)
                shown = shows(f"{data.name}, {rule}", each)
                rows = tuple(run_study(data, each, progress=shown, **given))
                found = StudyTable(
                    data=data.name,
                    counts={**sizes, "classes": data.n_classes},
                    rule=rule,
                    rates=each.rates,
                    epochs=each.epochs,
                    n_seeds=len(each.seeds),
                    rows=rows,
                )
                mine.append(found)
            tables += mine
            results += [*mine, *([RuleTable(tables=tuple(mine))] if len(mine) > 1 else [])]
    trained = plan.training.journal() | {"model": own.model or "by data"}
    head = {"schema": "study/1", "version": __version__, "journal": str(book)}
    said = {**head, "settings": trained, "tables": [one.to_dict() for one in tables]}
    title = "Learning from ruled-out labels"
    output.emit(title, results, found=said, after=[f"journal {book}"])


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Real:
    """Labels that people or machines gave, and matrices of such labels by name."""

    ruled_out: Any = None
    matrices: Mapping[str, Any] = dataclasses.field(default_factory=dict)


def _read_real(path: str | None) -> _Real:
    """The arrays ruled_out and T_NAME of an npz file."""
    if path is None:
        return _Real()
    import numpy as np

    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except (OSError, ValueError, AttributeError, zipfile.BadZipFile) as error:
        came = f"{path!r}, which cannot be read"
        raise ArgumentError(f"--real must be an npz file of arrays; got {came}.") from error
    said = arrays.pop("ruled_out", None)
    said = None if said is None else said.reshape(len(said), -1).astype(np.int64)
    named = {name.removeprefix("T_"): T for name, T in arrays.items() if name.startswith("T_")}
    return _Real(ruled_out=said, matrices=named)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _BenchReader:
    """Files as the data of a study."""

    own: _BenchOptions
    ways: set[str]
    real: _Real

    def read(self, file: str, test: str | None) -> TrialData:
        """One data set. Words, means and scales come from the items to train on alone."""
        import numpy as np

        from noracle.cli.learn import fit_input
        from noracle.learn.bench.trial import TrialData
        from noracle.learn.readers import read_items

        share = self.own.test_share
        items = opt.names(self.own.items)
        about: Any = {"items": items, "label": self.own.label, "annotator": ()}
        given = () if "given" not in self.ways else opt.names(self.own.ruled_out)
        read = read_items(file, ruled_out=given, classes=opt.names(self.own.classes), **about)
        known = _known(read, file)
        votes = self._votes(file, read)
        ruled_out = read.ruled_out
        if "acl" in self.ways:
            ruled_out, n = self.real.ruled_out, len(read)
            came = "none" if ruled_out is None else f"{len(ruled_out)} rows"
            rule = f"--labels acl must come with --real, an npz whose ruled_out has {n} rows"
            require(ruled_out is not None and len(ruled_out) == n, f"{rule}; got {came}.")
        matrices = {name: T for name, T in self.real.matrices.items() if name in self.ways}
        if test is None:
            require(0 < share < 1, f"--test-share must be in (0, 1); got {share}.")
            order = np.random.default_rng(0).permutation(known)
            n_test = round(share * len(order))
            rule, came = (
                "must hold items to train on and to test",
                f"{len(order)} items with a true label",
            )
            require_evidence(0 < n_test < len(order), "FILE", rule, came)
            rows, test_rows, other = np.sort(order[n_test:]), np.sort(order[:n_test]), read
        else:
            other = read_items(test, ruled_out=(), classes=list(read.classes), **about)
            rows, test_rows = known, _known(other, test)
        made = fit_input(read, rows, scale=True, max_words=self.own.max_words)
        truth, test_truth = (np.asarray(one.label) for one in (read, other))
        stem = Path(file).resolve().name.split(".")[0]
        return TrialData(
            name=stem.removesuffix("_train").removesuffix("-train") or stem,
            items=_pick(made.prepare(read.items), rows),
            truth=truth[rows],
            test_items=_pick(made.prepare(other.items), test_rows),
            test_truth=test_truth[test_rows],
            n_classes=read.n_classes,
            ruled_out=None if ruled_out is None else ruled_out[rows],
            matrices=matrices,
            annotators=None if votes is None else votes[rows],
        )

    def _votes(self, file: str, read: LabelledItems) -> Any:
        if "people" not in self.ways:
            return None
        people = opt.names(self.own.people)
        if people:
            from noracle.learn.readers import read_items

            about: Any = {"items": (), "label": (), "annotator": (), "classes": list(read.classes)}
            return read_items(file, ruled_out=people, **about).ruled_out
        rule = "--labels people must come with --people, the ordinary labels of several people"
        require(read.votes is not None, f"{rule}; got none in the file.")
        return read.votes


def _known(read: LabelledItems, file: str) -> Any:
    """Places of the items with a true class."""
    if read.items is None or read.label is None or not (read.label >= 0).any():
        came = "no items" if read.items is None else "no true class"
        rule, remedy = "must hold items and their true classes", "Name them with --items, --label."
        raise EvidenceError(fault(f"FILE {file}", rule, came, remedy=remedy))
    return (read.label >= 0).nonzero()[0]


def _pick(items: Any, rows: Any) -> Any:
    return items if len(rows) == items.shape[0] else items[rows]


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
    from noracle.learn.bench.study import known_trials

    with bar(elapsed=True, stays=True) as progress:

        def shows(what: str, plan: Any) -> Callable[..., None] | None:
            if progress is None:
                return None
            task = progress.add_task(what, total=known_trials(plan, {})[1])

            def tell(done: int, known: int, trial: Any, _found: Any) -> None:
                text = f"{what}: {trial.algorithm} on {trial.labels}, lr {trial.lr:g}"
                progress.update(task, completed=done, total=known, description=text)

            return tell

        yield shows
