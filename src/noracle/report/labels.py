"""What is said about an analysis of labels, and how it is drawn."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from noracle.report import words
from noracle.report.content import Content, ContentTable, guaranteed, method_and_evidence, table
from noracle.results import LabelAnalysis
from noracle.results.analysis import Rate, TransitionTable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_CLASSES, _MOST_WRITTEN = 60, 12
_DARKEST = 0.6  # a number on the darkest cell can still be read
_VERDICTS = {"": "", "more": "preferred", "less": "avoided"}


def describe(result: LabelAnalysis) -> Content:
    """Describe an analysis: noise, findings, matrices, classes, annotators and checks."""
    noise, digits = result.noise, words.digits_for(result.noise.width)
    value, known = f"undefined ({noise.reason})", ""
    if not math.isnan(noise.value):
        value = words.number(noise.value, digits)
        known = words.bound(noise.low, noise.high, noise.confidence, digits=digits)
    failed = [f"the evidence speaks against: {c.assumption}" for c in result.checks if not c.passed]
    verdicts = []
    for c in result.checks:
        verdict = f"{'passed' if c.passed else 'FAILED'}, {words.p_value(c.p_value)}"
        verdict = "undecided" if math.isnan(c.p_value) else verdict
        verdicts.append(f"{c.name}: {verdict}. {c.finding}")
    maps = [_matrix_table(result, t) for t in result.transitions if t.matrix]
    people = [_annotators_table(result)] if result.annotators else []
    return guaranteed(
        result,
        ("noise rate of ruled-out labels", value, known),
        *(("finding", text) for text in result.findings),
        *(("check", text) for text in verdicts),
        *(("transition", _transition_line(t)) for t in result.transitions),
        ("agreement", _agreement_line(result)),
        *method_and_evidence(result),
        ("oracle", "true labels of trusted items were seen" if result.oracle else ""),
        tables=(*maps, _classes_table(result), *people),
        alarms=tuple(dict.fromkeys(failed)),
    )


def _transition_line(t: TransitionTable) -> str:
    if not t.matrix:
        return f"{'counted' if t.source == 'oracle' else t.source}: undefined ({t.reason})"
    seen = "oracle: true labels were seen" if t.oracle else t.source
    condition, noise, strength = (words.scalar(v) for v in (t.condition, t.noise, t.strength))
    figures = f"condition number {condition}, η {noise}, 1 − ηK {strength}"
    use = "can be inverted" if t.usable else f"cannot be used for unbiased risks: {t.reason}"
    return f"{t.detail} ({seen}); {figures}; {use}"


def _agreement_line(result: LabelAnalysis) -> str:
    said = result.agreement
    if math.isnan(said.value):
        return "" if not result.annotators else f"undefined ({said.reason})"
    limits = words.bound(said.low, said.high, said.confidence)
    return f"{words.number(said.value)} of pairs of annotators, {limits}"


def _matrix_table(result: LabelAnalysis, t: TransitionTable) -> ContentTable:
    """A matrix that is known, with the same numbers as its heat map."""
    source = f"estimated without true labels ({t.source})"
    if t.oracle:
        source = "counted on trusted items (oracle)"
    rows = []
    for j, name in enumerate(result.classes):
        n = (words.count(sum(t.counts[j])),) if t.counts else ()
        rows.append((name, *map(words.number, t.matrix[j]), *n))
    return table(
        f"T, {source}: true class (rows) and how often each class is ruled out (columns)",
        ("true class", *result.classes, *(("labels",) if t.counts else ())),
        rows,
        shown=None if len(result.classes) <= _MOST_WRITTEN else (),
    )


def _limits(r: Rate) -> tuple[str, str, str]:
    return (words.number(r.value), words.number(r.low), words.number(r.high))


def _classes_table(result: LabelAnalysis) -> ContentTable:
    """One row per class: how often it is ruled out, and how often its own items are ruled out."""
    wrong, fair = bool(result.noise_by_class), bool(result.preferences)
    header = ["class", "labels", "share", "low", "high"]
    among = "among right labels of other classes"
    header += [among, "low", "high", "fair", ""] if fair else ["equal share", ""]
    texts = (0, len(header) - 1)
    header += ["noise", "low", "high"] if wrong else []
    rows = []
    for j, name in enumerate(result.classes):
        share = result.shares[j]
        compared = result.preferences[j] if fair else share
        row = [name, words.count(share.hits), *_limits(share), *(_limits(compared) if fair else ())]
        verdict = _VERDICTS[compared.verdict] if fair else compared.verdict
        row += [words.number(compared.expected), verdict]
        rows.append((*row, *(_limits(result.noise_by_class[j]) if wrong else ())))
    together = f"the limits of one kind hold together at {words.level(result.confidence)}"
    return table(f"Classes: how often each is ruled out; {together}", header, rows, text=texts)


def _annotators_table(result: LabelAnalysis) -> ContentTable:
    header = [
        *("annotator", "labels", "items", "trusted", "wrong", "noise", "low", "high"),
        *("favourite", "share", "agrees with others", "median seconds"),
    ]
    timed = any(not math.isnan(a.seconds) for a in result.annotators)
    n = len(header) if timed else len(header) - 1
    rows = (
        (
            a.name,
            *map(words.count, (a.n_labels, a.n_items, a.noise.n, a.noise.hits)),
            *_limits(a.noise),
            ", ".join(a.favourite) or "none",
            *map(words.number, (a.favourite_share, a.agreement)),
            words.scalar(a.seconds),
        )[:n]
        for a in result.annotators
    )
    together = f"the limits of the noise rates hold together at {words.level(result.confidence)}"
    return table(f"Annotators; {together}", header[:n], rows, text=(0, 8))


# ------------------------------------------------------------------------------------------------------------------------
# plots


def draw(result: LabelAnalysis, ax: Axes | None = None) -> Axes:
    """Draw the first known matrix as a heat map, or the shares of the classes."""
    known = [t for t in result.transitions if t.matrix]
    return heat_map(result, known[0], ax) if known else shares_plot(result, ax)


def heat_map(result: LabelAnalysis, t: TransitionTable, ax: Axes | None = None) -> Axes:
    """Draw a transition matrix: the darker the more often, the diagonal in a frame.

    One colour on the ground of the page, so that it reads without colour and in dark mode.
    """
    from noracle.report.plots import BLUE, INK, ORANGE, name_rows, new_axes, short_name

    names = list(result.classes[:_MOST_CLASSES])
    size = min(9.0, max(3.2, 1.6 + 0.42 * len(names)))
    ax = new_axes(ax, len(names), size=(size, 0.3 + 0.9 * size))
    ax.grid(visible=False)

    def box(i: int, j: int, side: float, **style: Any) -> None:
        ax.barh(i, side, left=j - side / 2, height=side, **style)

    cells = [(i, j, t.matrix[i][j]) for i in range(len(names)) for j in range(len(names))]
    top = max((v for _, _, v in cells if not math.isnan(v)), default=1.0) or 1.0
    written = len(names) <= _MOST_WRITTEN
    centred: Any = {"ha": "center", "va": "center", "fontsize": 7, "color": INK}
    for i, j, v in cells:
        if math.isnan(v):
            box(i, j, 1, color="none", edgecolor=INK, linewidth=0.4, hatch="xx")
            continue
        box(i, j, 1, color=BLUE, alpha=_DARKEST * v / top, linewidth=0)
        if written:
            ax.text(j, i, f"{v:.2f}".lstrip("0") if v < 1 else "1", **centred)
    for i in range(len(names)):
        frame = 1.0 if written else 0.5
        box(i, i, 0.92, color="none", edgecolor=ORANGE, linewidth=frame)
    name_rows(ax, names)
    short = [short_name(n, 16) for n in names]
    ax.set_xticks(range(len(names)), short, rotation=90, parse_math=False)
    if not written:
        ax.tick_params(axis="both", labelsize=5.5)
    ax.set_xlim(-0.5, len(names) - 0.5)
    ax.set_ylim(len(names) - 0.5, -0.5)
    some = _some(result, len(names))
    label = f"ruled-out class, by true class (rows){some}; darkest {top:.2f}; frame: wrong labels"
    ax.set_xlabel(label)
    return ax


def _some(result: LabelAnalysis, drawn: int) -> str:
    n = len(result.classes)
    return f", first {drawn} of {n} classes" if drawn < n else ""


def shares_plot(result: LabelAnalysis, ax: Axes | None = None) -> Axes:
    """Draw how often each class is ruled out, with limits, and the share that is fair."""
    from noracle.report.plots import BLUE, GREY, INK, ORANGE, mark, name_rows, new_axes, span

    rates = (result.preferences or result.shares)[:_MOST_CLASSES]
    ax = new_axes(ax, len(rates))
    for y, r in enumerate(rates):
        colour = ORANGE if r.verdict else BLUE if r.n else GREY
        span(ax, y, r.low, r.high, colour, linestyle="-" if r.n else ":")
        if r.n:
            mark(ax, (r.value, y), "o", colour, hollow=not r.verdict)
    name_rows(ax, [r.name for r in rates])
    if rates and not math.isnan(rates[0].expected):
        ax.axvline(rates[0].expected, color=INK, linestyle="--", linewidth=1)
    what = "share of right labels on other classes" if result.preferences else "share of labels"
    together = f"{words.level(result.confidence)} together"
    some = _some(result, len(rates))
    ax.set_xlabel(f"{what}, {together}; dashed: fair; filled: differs{some}")
    return ax
