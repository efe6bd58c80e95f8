"""What is said about an analysis of labels, and how it is drawn."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from noracle.report import words
from noracle.report.content import Content, ContentTable, labelled, promise
from noracle.results import LabelAnalysis
from noracle.results.analysis import AnnotatorRow, Rate, TransitionTable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_CLASSES, _MOST_WRITTEN = 60, 12
_DARKEST = 0.6  # a number on the darkest cell can still be read
_VERDICTS = {"": "", "more": "preferred", "less": "avoided"}


def analysis_content(result: LabelAnalysis) -> Content:
    """Describe an analysis: the noise rate, the findings, T, the classes, the annotators and the
    checks.
    """
    noise, digits = result.noise, words.digits_for(result.noise.width)
    value = (
        words.number(noise.value, digits)
        if not math.isnan(noise.value)
        else f"undefined ({noise.reason})"
    )
    known = (
        words.bound(noise.low, noise.high, noise.confidence, digits=digits)
        if not math.isnan(noise.value)
        else ""
    )
    failed = [f"the evidence speaks against: {c.assumption}" for c in result.checks if not c.passed]
    return Content(
        headline=tuple(text for text in ("noise rate of ruled-out labels", value, known) if text),
        alerts=tuple(dict.fromkeys(failed)),
        lines=labelled(
            *(("finding", text) for text in result.findings),
            *(
                ("check", f"{c.name}: {_verdict(c.passed, c.p_value)}. {c.finding}")
                for c in result.checks
            ),
            *(("transition", _transition_line(t)) for t in result.transitions),
            ("agreement", _agreement_line(result)),
            ("method", words.how(result.method)),
            ("evidence", words.evidence(result.counts)),
            ("oracle", "true labels of trusted items were seen" if result.oracle else ""),
            *promise(result.guarantee),
            ("reason", result.reason),
        ),
        tables=tuple(
            t
            for t in (*map_tables(result), _classes_table(result), _annotators_table(result))
            if t is not None
        ),
        notes=result.notes,
    )


def _verdict(passed: bool, p_value: float) -> str:
    return (
        "undecided"
        if math.isnan(p_value)
        else f"{'passed' if passed else 'FAILED'}, {words.p_value(p_value)}"
    )


def _transition_line(t: TransitionTable) -> str:
    if not t.matrix:
        return f"{'counted' if t.source == 'oracle' else t.source}: undefined ({t.reason})"
    seen = "oracle: true labels were seen" if t.oracle else t.source
    figures = f"condition number {words.scalar(t.condition)}, η {words.scalar(t.noise)}, 1 − ηK {words.scalar(t.strength)}"
    return f"{t.detail} ({seen}); {figures}; {'can be inverted' if t.usable else f'cannot be used for unbiased risks: {t.reason}'}"


def _agreement_line(result: LabelAnalysis) -> str:
    said = result.agreement
    if math.isnan(said.value):
        return "" if not result.annotators else f"undefined ({said.reason})"
    return f"{words.number(said.value)} of pairs of annotators, {words.bound(said.low, said.high, said.confidence)}"


def map_tables(result: LabelAnalysis) -> list[ContentTable]:
    """The matrices that are known, one table each, with the same numbers as the heat maps."""
    return [_matrix_table(result, t) for t in result.transitions if t.matrix]


def _matrix_table(result: LabelAnalysis, t: TransitionTable) -> ContentTable:
    source = (
        "counted on trusted items (oracle)"
        if t.oracle
        else f"estimated without true labels ({t.source})"
    )
    rows = []
    for j, name in enumerate(result.classes):
        n = (words.count(sum(t.counts[j])),) if t.counts else ()
        rows.append((name, *(words.number(v) for v in t.matrix[j]), *n))
    return ContentTable(
        caption=f"T, {source}: true class (rows) and how often each class is ruled out (columns)",
        header=("true class", *result.classes, *(("labels",) if t.counts else ())),
        rows=tuple(rows),
        numeric=(False, *(True for _ in result.classes), *((True,) if t.counts else ())),
        shown=None if len(result.classes) <= _MOST_WRITTEN else (),
    )


def _limits(r: Rate) -> tuple[str, str, str]:
    return (words.number(r.value), words.number(r.low), words.number(r.high))


def _classes_table(result: LabelAnalysis) -> ContentTable:
    """One row a class: how often it is ruled out, and how often its own items are ruled out."""
    wrong, fair = bool(result.noise_by_class), bool(result.preferences)
    header = ["class", "labels", "share", "low", "high"]
    header += (
        ["among right labels of other classes", "low", "high", "fair", ""]
        if fair
        else ["equal share", ""]
    )
    header += ["noise", "low", "high"] if wrong else []
    rows = []
    for j, name in enumerate(result.classes):
        share = result.shares[j]
        compared = result.preferences[j] if fair else share
        row = [name, words.count(share.hits), *_limits(share), *(_limits(compared) if fair else ())]
        row += [
            words.number(compared.expected),
            _VERDICTS[compared.verdict] if fair else compared.verdict,
        ]
        rows.append((*row, *(_limits(result.noise_by_class[j]) if wrong else ())))
    return ContentTable(
        caption=f"Classes: how often each is ruled out; the limits of one kind hold together at {words.percent(result.confidence)}",
        header=tuple(header),
        rows=tuple(rows),
        numeric=(False, *(h != "" for h in header[1:])),
    )


def _annotators_table(result: LabelAnalysis) -> ContentTable | None:
    if not result.annotators:
        return None
    timed = any(not math.isnan(a.seconds) for a in result.annotators)
    return ContentTable(
        caption=f"Annotators; the limits of the noise rates hold together at {words.percent(result.confidence)}",
        header=(
            "annotator",
            "labels",
            "items",
            "trusted",
            "wrong",
            "noise",
            "low",
            "high",
            "favourite",
            "share",
            "agrees with others",
            *(("median seconds",) if timed else ()),
        ),
        rows=tuple(_annotator_row(a, timed=timed) for a in result.annotators),
        numeric=(
            False,
            True,
            True,
            True,
            True,
            True,
            True,
            True,
            False,
            True,
            True,
            *((True,) if timed else ()),
        ),
    )


def _annotator_row(a: AnnotatorRow, *, timed: bool) -> tuple[str, ...]:
    return (
        a.name,
        words.count(a.n_labels),
        words.count(a.n_items),
        words.count(a.noise.n),
        words.count(a.noise.hits),
        *_limits(a.noise),
        ", ".join(a.favourite) or "none",
        words.number(a.favourite_share),
        words.number(a.agreement),
        *((words.scalar(a.seconds),) if timed else ()),
    )


# ------------------------------------------------------------------------------------------------------------------------
# plots


def analysis_plot(result: LabelAnalysis, ax: Axes | None = None) -> Axes:
    """Draw the first matrix that is known as a heat map, or the shares of the classes where none
    is.
    """
    known = [t for t in result.transitions if t.matrix]
    return heat_map(result, known[0], ax) if known else shares_plot(result, ax)


def heat_map(result: LabelAnalysis, t: TransitionTable, ax: Axes | None = None) -> Axes:
    """Draw a transition matrix: the darker a cell the more often, the diagonal in a frame; numbers
    inside where they fit.

    One colour on the ground of the page, so that it reads without colour and in dark mode.
    """
    from noracle.report.plots import BLUE, INK, ORANGE, name_rows, new_axes, short_name

    names = list(result.classes[:_MOST_CLASSES])
    size = min(9.0, max(3.2, 1.6 + 0.42 * len(names)))
    ax = new_axes(ax, len(names), size=(size, 0.3 + 0.9 * size))
    ax.grid(visible=False)
    cells = [(i, j, t.matrix[i][j]) for i in range(len(names)) for j in range(len(names))]
    top = max((v for _, _, v in cells if not math.isnan(v)), default=1.0) or 1.0
    written = len(names) <= _MOST_WRITTEN
    for i, j, v in cells:
        if math.isnan(v):
            ax.barh(
                i,
                1,
                left=j - 0.5,
                height=1,
                color="none",
                edgecolor=INK,
                linewidth=0.4,
                hatch="xx",
            )
            continue
        dark = _DARKEST * v / top
        ax.barh(i, 1, left=j - 0.5, height=1, color=BLUE, alpha=dark, linewidth=0)
        if written:
            ax.text(
                j,
                i,
                f"{v:.2f}".lstrip("0") if v < 1 else "1",
                ha="center",
                va="center",
                fontsize=7,
                color=INK,
            )
    for i in range(len(names)):
        ax.barh(
            i,
            0.92,
            left=i - 0.46,
            height=0.92,
            color="none",
            edgecolor=ORANGE,
            linewidth=1.0 if written else 0.5,
        )
    name_rows(ax, names)
    ax.set_xticks(
        range(len(names)), [short_name(n, 16) for n in names], rotation=90, parse_math=False
    )
    if not written:
        ax.tick_params(axis="both", labelsize=5.5)
    ax.set_xlim(-0.5, len(names) - 0.5)
    ax.set_ylim(len(names) - 0.5, -0.5)
    some = (
        f", first {len(names)} of {len(result.classes)} classes"
        if len(names) < len(result.classes)
        else ""
    )
    ax.set_xlabel(
        f"ruled-out class, by true class (rows){some}; darkest {top:.2f}; frame: wrong labels"
    )
    return ax


def shares_plot(result: LabelAnalysis, ax: Axes | None = None) -> Axes:
    """Draw how often each class is ruled out, with limits, and the share that fair labels would
    give.
    """
    from noracle.report.plots import BLUE, GREY, INK, ORANGE, name_rows, new_axes

    rates = (result.preferences or result.shares)[:_MOST_CLASSES]
    ax = new_axes(ax, len(rates))
    for y, r in enumerate(rates):
        colour, hollow = (ORANGE, False) if r.verdict else (BLUE if r.n else GREY, True)
        ax.plot([r.low, r.high], [y, y], color=colour, linewidth=2.4, linestyle="-" if r.n else ":")
        if r.n:
            ax.plot(
                [r.value],
                [y],
                "o",
                color=colour,
                markersize=6,
                markerfacecolor="white" if hollow else colour,
            )
    name_rows(ax, [r.name for r in rates])
    if rates and not math.isnan(rates[0].expected):
        ax.axvline(rates[0].expected, color=INK, linestyle="--", linewidth=1)
    some = (
        f", first {len(rates)} of {len(result.classes)} classes"
        if len(rates) < len(result.classes)
        else ""
    )
    what = "share of right labels on other classes" if result.preferences else "share of labels"
    ax.set_xlabel(
        f"{what}, {words.percent(result.confidence)} together; dashed: fair; filled: differs{some}"
    )
    return ax
