"""One self-contained HTML file of several results.

The page needs no script and asks nothing of the network: styles and plots are inside it, and its
content policy forbids the rest. Every plot has a title, a text alternative and the same numbers as
a table.
"""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from noracle._version import __version__
from noracle.errors import ArgumentError
from noracle.files import replacing
from noracle.report import budgets, labels, plots, words
from noracle.report.card import templates
from noracle.report.chart import Chart
from noracle.report.content import Content, ContentTable, content
from noracle.results import (
    Comparison,
    Estimate,
    Guarantee,
    Kind,
    LabelAnalysis,
    Plan,
    Proof,
    Ranges,
)
from noracle.results.base import Result

_STATUS_ORDER = ("failed", "assumed", "checked", "by-design")


MOST_ROWS = 40
"""A plot has at most this many rows; the table beside it has all of them."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """A plot as SVG, and what is written below it."""

    svg: str
    title: str
    said: str = "The table below has the same numbers."


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One result on a page: what is said, and its plots, each beside the table of its place."""

    anchor: str
    said: Content
    drawings: tuple[Drawing, ...]
    guarantee: Guarantee | None


def write_page(
    path: str | os.PathLike[str],
    results: Iterable[object],
    *,
    title: str,
    command: str | None = None,
    seed: int | None = None,
) -> Path:
    """Write results as one HTML file.

    The file is written under a temporary name and renamed, so that a reader never sees half of it.
    It holds names of systems and ids of items, never their texts; the same results give the same
    bytes.

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
    _check_folder(Path(path))
    return write_text(path, render_page(results, title=title, command=command, seed=seed))


def write_text(path: str | os.PathLike[str], text: str) -> Path:
    """Write a page under a temporary name and rename it, so that a reader never sees half of it."""
    target = Path(path)
    _check_folder(target)
    with replacing(target) as part:
        part.write_text(text, encoding="utf-8", newline="\n")
    return target


def _check_folder(target: Path) -> None:
    if not target.parent.is_dir():
        rule = f"path must lie in a folder that exists; got {str(target)!r}"
        raise ArgumentError(f"{rule}. Make the folder {str(target.parent)!r} first.")


def render_page(
    results: Iterable[object], *, title: str, command: str | None = None, seed: int | None = None
) -> str:
    """Return the text that :func:`write_page` writes."""
    results = list(results)
    sections = [make_section(f"result-{i}", result) for i, result in enumerate(results, start=1)]
    estimates = [r for r in results if isinstance(r, Estimate)]
    overview, *tables = estimates_overview("overview", estimates) if len(estimates) > 1 else (None,)
    page = templates().get_template("page.html")
    return page.render(
        title=title,
        sections=sections,
        overview=overview,
        overview_tables=tables,
        kinds=kinds_of(sections),
        assumptions=assumptions_of(sections),
        keyed=bool(results) and all(getattr(r, "sees_truth", False) for r in results),
        excluded=[
            (s, words.excluded(getattr(r, "counts", {})))
            for s, r in zip(sections, results, strict=True)
        ],
        command=command,
        seed=seed,
        version=__version__,
    )


def _drawing(name: str, title: str, draw: Callable[..., object], *given: object) -> Drawing:
    """What ``draw`` draws of ``given``."""
    chart = Chart()
    draw(*given, ax=chart)
    return Drawing(svg=chart.svg(name=name, title=title), title=title)


def make_section(anchor: str, result: object, *, drawn: bool = True) -> Section:
    """What a page shows of one result; ``anchor`` begins every id in it."""
    described = content(result)
    drawings: tuple[Drawing, ...] = ()
    if drawn and isinstance(result, Plan) and budgets.is_budget_plan(result):
        drawings, described = _budget_drawings(anchor, result, described)
    elif drawn:
        drawings = _drawings(anchor, result, described)
    promise = getattr(result, "guarantee", None)
    return Section(anchor=anchor, said=described, drawings=drawings, guarantee=promise)


def _drawings(anchor: str, result: object, described: Content) -> tuple[Drawing, ...]:
    if isinstance(result, Comparison):
        return _comparison_drawings(anchor, result)
    if isinstance(result, LabelAnalysis):
        return _label_drawings(anchor, result)
    if isinstance(result, Proof) and len(result.sketch.get("classifiers", ())) > MOST_ROWS:
        return ()  # a stacked bar for each of so many is no picture any more; the table has them
    rows, few = 0, result
    # Ranges that are no shares are drawn in ways of their own.
    if isinstance(result, Ranges) and not {"trace", "violators", "checks"} & {*result.diagnostics}:
        rows = len(result.ranges)
        few = dataclasses.replace(result, ranges=result.ranges[:MOST_ROWS])
    draw = few.plot if isinstance(few, Result) else functools.partial(plots.plot, few)
    return (_first_of(_drawing(anchor + "-plot", ", ".join(described.headline), draw), rows),)


def _comparison_drawings(anchor: str, result: Comparison) -> tuple[Drawing, ...]:
    shown = plots.drawn_differences(result)
    few = dataclasses.replace(result, ranks=result.ranks[:MOST_ROWS])
    if len(shown) > MOST_ROWS:
        few = dataclasses.replace(few, differences=shown[:MOST_ROWS])
    title = "Places that each system can hold"
    ranks = _drawing(f"{anchor}-ranks", title, plots.rank_plot, few)
    title, tail = "Differences of accuracy with their intervals", ranks.said
    differences = _drawing(f"{anchor}-differences", title, plots.plot, few)
    if len(shown) < len(result.differences):
        part = f", the first {MOST_ROWS} of {len(shown):,}," if len(shown) > MOST_ROWS else ""
        only = f"Drawn against {result.ranks[0].system!r}{part} only"
        tail = f"{only}; the table below has all differences."
    said = f"A hollow mark is not separable from 0. {tail}"
    return _first_of(ranks, len(result.ranks)), dataclasses.replace(differences, said=said)


def estimates_overview(name: str, estimates: Sequence[Estimate]) -> tuple[Drawing, ContentTable]:
    """All estimates in one plot and one table; the plot shows the first rows of many."""
    title, first = "All estimates with their intervals", estimates[:MOST_ROWS]
    drawing = _drawing(name, title, plots.interval_plot, first)
    tables = [content(e).tables[0] for e in estimates]
    rows = tuple(row for t in tables for row in t.rows)
    table = dataclasses.replace(tables[0], caption="All estimates", rows=rows)
    return _first_of(drawing, len(estimates)), table


def _first_of(drawing: Drawing, rows: int) -> Drawing:
    """The drawing, with a note where it does not show all rows."""
    if rows <= MOST_ROWS:
        return drawing
    said = f"Drawn: the first {MOST_ROWS} of {rows:,}. The table below has all of them."
    return dataclasses.replace(drawing, said=said)


def _budget_drawings(
    anchor: str, plan: Plan, described: Content
) -> tuple[tuple[Drawing, ...], Content]:
    """The plan beside simpler ones, and counts and weights over the budget, before their tables."""
    from noracle.ppi.planner import BudgetPoint, budget_path

    kept = plan.diagnostics.get("path")
    points = budget_path(plan) if kept is None else [BudgetPoint(**point) for point in kept]
    counts, weights = budgets.path_tables(points)
    first, *others = described.tables
    title = "Items of each set over the budget"
    drawings = (
        _drawing(f"{anchor}-plot", ", ".join(described.headline), plots.plot, plan),
        _drawing(f"{anchor}-allocation", title, budgets.allocation_plot, points),
        _drawing(f"{anchor}-weights", "Weights over the budget", budgets.weights_plot, points),
    )
    return drawings, dataclasses.replace(described, tables=(first, counts, weights, *others))


def _label_drawings(anchor: str, result: LabelAnalysis) -> tuple[Drawing, ...]:
    """The known matrices and the shares of the classes, before their tables."""
    known = [t for t in result.transitions if t.matrix]
    maps = [
        _drawing(f"{anchor}-map-{i}", f"T as a heat map ({t.source})", labels.heat_map, result, t)
        for i, t in enumerate(known)
    ]
    title = "How often each class is ruled out"
    return *maps, _drawing(f"{anchor}-shares", title, labels.shares_plot, result)


def kinds_of(sections: Iterable[Section]) -> list[tuple[str, str]]:
    """The kinds of guarantee on this page, the weakest first, in plain words."""
    kinds: set[Kind] = {s.guarantee.kind for s in sections if s.guarantee is not None}
    return [(k.label, words.KINDS[k]) for k in sorted(kinds)]


def assumptions_of(sections: Iterable[Section]) -> list[dict[str, Any]]:
    """Every assumption and status on this page once, with what it carries; failed ones first."""
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for section in sections:
        for a in section.guarantee.assumptions if section.guarantee else ():
            new = {"assumption": a, "meaning": words.STATUSES[a.status], "sections": []}
            rows.setdefault((a.name, a.status), new)["sections"].append(section)
    return sorted(rows.values(), key=lambda row: _STATUS_ORDER.index(row["assumption"].status))
