"""What is said about a study: one table for each data set and rule, and one that puts the rules
side by side.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from noracle._version import __version__
from noracle.learn.bench.study import StudyRow
from noracle.learn.bench.trial import ALGORITHMS
from noracle.report import plots
from noracle.report.content import Content, Table, content, labelled
from noracle.results.base import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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
        return _dots(
            ax,
            self.algorithms,
            {name: [self.cell(a, name) for a in self.algorithms] for name in self.labels},
        )


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
        return _dots(
            ax,
            first.algorithms,
            {t.rule: [t.cell(a, name) for a in first.algorithms] for t in self.tables},
        )


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
def _(table: StudyTable) -> Content:
    paper = {
        name: any(table.cell(a, name).paper is not None for a in table.algorithms)
        for name in table.labels
    }
    header = ["algorithm"]
    for name in table.labels:
        header += [
            name,
            *(["paper"] if paper[name] else []),
            f"lr {name}" if len(table.labels) > 1 else "lr",
        ]
    rows = []
    for algorithm in table.algorithms:
        line = [_named(algorithm)]
        for name in table.labels:
            cell = table.cell(algorithm, name)
            published = ["—" if cell.paper is None else f"{cell.paper:.2f}"] if paper[name] else []
            line += [figure(cell), *published, "—" if cell.lr is None else f"{cell.lr:g}"]
        rows.append(tuple(line))
    caption = f"Test accuracy on {table.data} in percent, mean ± standard deviation over {table.n_seeds} seeds; {RULES[table.rule]}"
    main = Table(
        caption=caption,
        header=tuple(header),
        rows=tuple(rows),
        numeric=(False, *[True] * (len(header) - 1)),
        shown=tuple(range(len(rows))),
    )
    done = sum(row.n_seeds for row in table.rows)
    wrong = "; ".join(
        f"{name} {100 * noise:.2f} %"
        for name in table.labels
        if (noise := _noise(table, name)) is not None
    )
    return Content(
        headline=(
            f"study of {table.data!r} by {table.rule}",
            f"{done} of {len(table.rows) * table.n_seeds} runs",
        ),
        alerts=("ORACLE: the rule looks at true labels",)
        if table.rule in ("accuracy", "last") and _selected(table)
        else (),
        lines=labelled(
            ("rule", RULES[table.rule]),
            (
                "evidence",
                f"{table.counts['items']} items, {table.counts['test']} test items, {table.counts['classes']} classes",
            ),
            (
                "trials",
                f"{table.epochs} epochs; learning rates {', '.join(f'{r:g}' for r in table.rates)}; {table.n_seeds} seeds",
            ),
            ("noise", f"wrong labels among those trained on: {wrong}" if wrong else ""),
        ),
        tables=(main, *_differences(table)),
        notes=("oracle: true labels were seen in training or in T",)
        if any(_is_oracle(a) for a in table.algorithms)
        else (),
    )


@content.register
def _(result: RuleTable) -> Content:
    first = result.tables[0]
    columns = [(table, name) for name in first.labels for table in result.tables]
    header = ("algorithm", *(f"{name} · {table.rule}" for table, name in columns))
    rows = tuple(
        (_named(a), *(figure(table.cell(a, name)) for table, name in columns))
        for a in first.algorithms
    )
    caption = f"Test accuracy on {first.data} in percent by selection rule; all rules select from the same trials"
    return Content(
        headline=(
            f"selection rules on {first.data!r}",
            ", ".join(table.rule for table in result.tables),
        ),
        lines=labelled(*((table.rule, RULES[table.rule]) for table in result.tables)),
        tables=(
            Table(
                caption=caption,
                header=header,
                rows=rows,
                numeric=(False, *[True] * len(columns)),
                shown=tuple(range(len(rows))),
            ),
        ),
    )


def figure(row: StudyRow) -> str:
    """A cell: mean ± standard deviation; a dash where no run ended."""
    failed = f" ({row.n_failed} failed)" if row.n_failed else ""
    if row.mean is None:
        return f"—{failed}"
    return (f"{row.mean:.2f}" if row.sd is None else f"{row.mean:.2f} ± {row.sd:.2f}") + failed


def _differences(table: StudyTable) -> tuple[Table, ...]:
    """What labels that depend on the class alone change: a column for every pair NAME:iid and NAME."""
    pairs = [
        (name, base)
        for name in table.labels
        if (base := name.replace(":iid", "")) != name and base in table.labels
    ]
    if not pairs:
        return ()
    rows = []
    for a in table.algorithms:
        cells = [(table.cell(a, name).mean, table.cell(a, base).mean) for name, base in pairs]
        rows.append(
            (
                _named(a),
                *("—" if new is None or old is None else f"{new - old:+.2f}" for new, old in cells),
            )
        )
    caption = "Difference in points when labels are drawn anew from the counted T: what dependence on the item costs"
    header = ("algorithm", *(f"{name} − {base}" for name, base in pairs))
    return (
        Table(
            caption=caption,
            header=header,
            rows=tuple(rows),
            numeric=(False, *[True] * len(pairs)),
            shown=tuple(range(len(rows))),
        ),
    )


def _selected(table: StudyTable) -> bool:
    return table.rule == "accuracy" or len(table.rates) > 1


def _is_oracle(algorithm: str) -> bool:
    return (
        ALGORITHMS[algorithm].transition == "counted" or ALGORITHMS[algorithm].loss == "supervised"
    )


def _named(algorithm: str) -> str:
    return f"{algorithm} (oracle)" if _is_oracle(algorithm) else algorithm


def _noise(table: StudyTable, labels: str) -> float | None:
    return next(
        (row.noise for row in table.rows if row.labels == labels and row.noise is not None), None
    )


def study_dict(
    tables: Sequence[StudyTable], *, journal: str, settings: Mapping[str, Any]
) -> dict[str, Any]:
    """The whole study as JSON."""
    return {
        "schema": "study/1",
        "version": __version__,
        "journal": journal,
        "settings": dict(settings),
        "tables": [table.to_dict() for table in tables],
    }
