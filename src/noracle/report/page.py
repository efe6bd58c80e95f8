"""One self-contained HTML file of several results.

The page needs no script and asks nothing of the network: styles and plots are inside it, and its content policy forbids the rest.
Every plot has a title, a text alternative and the same numbers as a table.
"""

from __future__ import annotations

import dataclasses
import io
import os
import re
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from noracle._version import __version__
from noracle.errors import ArgumentError
from noracle.report import budgets, labels, plots, words
from noracle.report.card import templates
from noracle.report.content import Content, Table, content
from noracle.results import Comparison, Estimate, Guarantee, Kind, LabelAnalysis, Plan
from noracle.results.base import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# What the plots draw with, and the property of the page's style that takes its place, so that dark mode recolours them.
_COLOURS = {
    plots.BLUE: "var(--blue)",
    plots.ORANGE: "var(--orange)",
    plots.INK: "var(--ink)",
    plots.GREY: "var(--grey)",
    plots.LINE: "var(--line)",
    "#ffffff": "var(--paper)",
}
_STATUS_ORDER = ("failed", "assumed", "checked", "by-design")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Drawing:
    svg: str
    title: str
    said: str = "The table below has the same numbers."


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Section:
    anchor: str
    said: Content
    drawings: tuple[_Drawing, ...]
    guarantee: Guarantee | None


def write_page(
    path: str | os.PathLike[str], results: Iterable[object], *, title: str, command: str | None = None, seed: int | None = None
) -> Path:
    """Write results as one HTML file.

    The file is written under a temporary name and renamed, so that a reader never sees half of it. It holds names of systems and
    ids of items, never their texts; the same results give the same bytes.

    Parameters
    ----------
    path
        The file to write; its folder must exist.
    results
        Results of :mod:`noracle.results`, shown in this order.
    title
        The heading of the page.
    command
        The command that made the results, shown at the end.
    seed
        The seed of everything random, shown at the end.

    Returns
    -------
    Path
        Where the page is.

    Examples
    --------
    >>> import tempfile
    >>> from noracle.results import Check
    >>> check = Check(name="routing", assumption="uniform routing", p_value=0.41, statistic=8.2, finding="fine", method="chi-squared")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = write_page(folder + "/report.html", [check], title="Were the labels collected fairly?")
    ...     "check of routing" in page.read_text(encoding="utf-8")
    True
    """
    target = Path(path)
    if not target.parent.is_dir():
        raise ArgumentError(f"path must lie in a folder that exists; got {str(target)!r}. Make the folder {str(target.parent)!r} first.")
    text = render_page(results, title=title, command=command, seed=seed)
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".tmp")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        # mkstemp is private to the user; a report may be read like any other file that the user makes.
        Path(temporary).chmod(0o666 & ~_umask())
        Path(temporary).replace(target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return target


def render_page(results: Iterable[object], *, title: str, command: str | None = None, seed: int | None = None) -> str:
    """Return the text that :func:`write_page` writes."""
    results = list(results)
    sections = [_section(i, result) for i, result in enumerate(results, start=1)]
    estimates = [r for r in results if isinstance(r, Estimate)]
    overview: _Drawing | None = None
    overview_tables: tuple[Table, ...] = ()
    if len(estimates) > 1:
        overview = _drawing("overview", plots.interval_plot(estimates), "All estimates with their intervals")
        overview_tables = (_estimates_table(estimates),)
    page = templates().get_template("page.html")
    return page.render(
        title=title,
        sections=sections,
        overview=overview,
        overview_tables=overview_tables,
        kinds=_kinds(sections),
        assumptions=_assumptions(sections),
        keyed=bool(results) and all(getattr(r, "sees_truth", False) for r in results),
        excluded=[(s, words.excluded(getattr(r, "counts", {}))) for s, r in zip(sections, results, strict=True)],
        command=command,
        seed=seed,
        version=__version__,
    )


def svg(ax: Axes, *, name: str, title: str) -> str:
    """The figure of ``ax`` as an SVG element to put into HTML: same input, same text; ids begin with ``name``."""
    import matplotlib as mpl
    from markupsafe import escape

    figure: Any = ax.get_figure(root=True)
    figure.patch.set_alpha(0)
    buffer = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": "noracle", "svg.fonttype": "none"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r"<style[^>]*>.*?</style>", "", text, flags=re.DOTALL)
    text = re.sub(r'\bid="', f'id="{name}-', text)
    text = re.sub(r'(url\(|href=")#', rf"\1#{name}-", text)
    for colour, property_ in _COLOURS.items():
        text = text.replace(colour, property_)
    text = re.sub(r"font: ([\d.]+)px [^;\"]*", r"font-size: \1px", text)
    box = re.search(r'viewBox="([^"]*)"', text)
    head = f'<svg viewBox="{box.group(1) if box else "0 0 400 200"}" role="img" aria-labelledby="{name}-title" xmlns:xlink="http://www.w3.org/1999/xlink">'
    return re.sub(r"<svg[^>]*>", lambda _: f'{head}<title id="{name}-title">{escape(title)}</title>', text, count=1)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _drawing(name: str, ax: Axes, title: str) -> _Drawing:
    return _Drawing(svg=svg(ax, name=name, title=title), title=title)


def _section(i: int, result: object) -> _Section:
    described = content(result)
    anchor = f"result-{i}"
    if isinstance(result, Comparison):
        ranks = _drawing(f"{anchor}-ranks", plots.rank_plot(result), "Places that each system can hold")
        differences = _drawing(f"{anchor}-differences", plots.plot(result), "Differences of accuracy with their intervals")
        few = len(plots.drawn_differences(result)) < len(result.differences)
        tail = f"Drawn against {result.ranks[0].system!r} only; the table below has all differences." if few else ranks.said
        differences = dataclasses.replace(differences, said=f"A hollow mark is not separable from 0. {tail}")
        drawings: tuple[_Drawing, ...] = (ranks, differences)
    elif isinstance(result, Plan) and budgets.is_budget_plan(result):
        drawings, described = _budget_drawings(anchor, result, described)
    elif isinstance(result, LabelAnalysis):
        drawings = _label_drawings(anchor, result)
    else:
        ax = result.plot() if isinstance(result, Result) else plots.plot(result)
        drawings = (_drawing(anchor + "-plot", ax, ", ".join(described.headline)),)
    return _Section(anchor=anchor, said=described, drawings=drawings, guarantee=getattr(result, "guarantee", None))


def _budget_drawings(anchor: str, plan: Plan, described: Content) -> tuple[tuple[_Drawing, ...], Content]:
    """The plan beside simpler ones, and allocation and weights over the budget, each before the table with its numbers."""
    from noracle.ppi.path import budget_path

    points = budget_path(plan)
    counts, weights = budgets.path_tables(points)
    first, *others = described.tables
    drawings = (
        _drawing(f"{anchor}-plot", plots.plot(plan), ", ".join(described.headline)),
        _drawing(f"{anchor}-allocation", budgets.allocation_plot(points), "Items of each set over the budget"),
        _drawing(f"{anchor}-weights", budgets.weights_plot(points), "Weights over the budget"),
    )
    return drawings, dataclasses.replace(described, tables=(first, counts, weights, *others))


def _label_drawings(anchor: str, result: LabelAnalysis) -> tuple[_Drawing, ...]:
    """The matrices that are known and the shares of the classes, each before the table with its numbers."""
    known = [t for t in result.transitions if t.matrix]
    maps = [_drawing(f"{anchor}-map-{i}", labels.heat_map(result, t), f"T as a heat map ({t.source})") for i, t in enumerate(known)]
    return (*maps, _drawing(f"{anchor}-shares", labels.shares_plot(result), "How often each class is ruled out"))


def _estimates_table(estimates: list[Estimate]) -> Table:
    tables = [content(e).tables[0] for e in estimates]
    return dataclasses.replace(tables[0], caption="All estimates", rows=tuple(row for t in tables for row in t.rows))


def _kinds(sections: list[_Section]) -> list[tuple[str, str]]:
    """The kinds of guarantee on this page, the weakest first, in plain words."""
    kinds: set[Kind] = {s.guarantee.kind for s in sections if s.guarantee is not None}
    return [(k.label, words.KINDS[k]) for k in sorted(kinds)]


def _assumptions(sections: list[_Section]) -> list[dict[str, Any]]:
    """Every assumption and status on this page once, with what it carries; failed ones first."""
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for section in sections:
        for a in section.guarantee.assumptions if section.guarantee else ():
            row = rows.setdefault((a.name, a.status), {"assumption": a, "meaning": words.STATUSES[a.status], "sections": []})
            row["sections"].append(section)
    return sorted(rows.values(), key=lambda row: _STATUS_ORDER.index(row["assumption"].status))


__all__ = ["render_page", "svg", "write_page"]
