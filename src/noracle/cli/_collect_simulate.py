"""``noracle collect simulate``: what breaks a protocol, as a table."""

from __future__ import annotations

import html as markup
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from noracle._version import __version__
from noracle.cli import _collect_common as common
from noracle.cli import _options as opt
from noracle.cli._files import replacing
from noracle.cli._output import check_target, say, say_json, settings

if TYPE_CHECKING:
    from noracle.collect.live.simulation import ProtocolRow

SIMULATE_EXAMPLE = """Example:

noracle collect simulate --runs 50 --html protocol.html

Bias is in points: +4.1 says that an accuracy of 0.800 would be shown as 0.841."""

_HEADS = ("complementary", "ordinary", "ml", "shown", "± s.e.", "missed", "alarm", "yes rate")
_NOTE = (
    "Bias in points of the three textbook estimates and of the value that a dashboard shows; missed: share of projects whose interval, "
    "valid at every look, leaves the truth out; alarm: share of projects in which a check fails. Rows with * cannot happen in this "
    "service: sealed routes, one question at a time, blind annotators and no stealing prevent them."
)


def simulate(
    runs: Annotated[
        int, typer.Option("--runs", metavar="N", min=2, help="Simulated projects a row.")
    ] = 20,
    n_items: Annotated[
        int, typer.Option("--n-items", metavar="N", min=100, help="Items a project.")
    ] = 5000,
    seed: opt.Seed = 0,
    as_json: opt.AsJson = False,
    html: opt.Html = None,
) -> None:
    """Show what breaks the protocol: the bias of each estimate when a rule is broken, through the
    estimators of the dashboard.
    """
    from noracle.collect.live.simulation import PICKINGS, VIOLATIONS, simulate_protocol_table

    check_target("html", html)
    with common.progress(
        "simulated projects", runs * (len(VIOLATIONS) + 2 * len(PICKINGS))
    ) as step:
        table = simulate_protocol_table(repetitions=runs, n_items=n_items, seed=seed, tick=step)
    title = f"What breaks the protocol: {runs} simulated projects of {n_items:,} items a row, seed {seed}"
    if html is not None:
        with replacing(html) as temporary:
            temporary.write_text(page(title, table), encoding="utf-8")
    if as_json:
        say_json(
            {
                "schema": "protocol-table/1",
                "runs": runs,
                "n_items": n_items,
                "seed": seed,
                "rows": [row.to_dict() for row in table],
            }
        )
        return
    for line in lines(title, table):
        say(line)
    if html is not None:
        say(f"report {html}")


def cells(row: ProtocolRow) -> list[str]:
    """The numbers of a row as they are shown; what does not apply is a dash."""
    points = [f"{value:+.1f}" for value in (row.complementary, row.ordinary, row.ml, row.shown)]
    rates = [
        f"{row.se:.1f}",
        f"{100 * row.missed:.0f} %",
        f"{100 * row.found:.0f} %",
        f"{row.yes_rate:.3f}",
    ]
    values = (
        row.complementary,
        row.ordinary,
        row.ml,
        row.shown,
        row.se,
        row.missed,
        row.found,
        row.yes_rate,
    )
    return [
        "–" if math.isnan(value) else text
        for value, text in zip(values, points + rates, strict=True)
    ]


def _name(row: ProtocolRow) -> str:
    return f"{row.what}{' *' if row.prevented else ''}"


def lines(title: str, table: Sequence[ProtocolRow]) -> list[str]:
    """The table as text."""
    wide = max(len(_name(row)) for row in table) + 2
    widths = [max(len(head), 7) + 2 for head in _HEADS]
    found = [
        title,
        "",
        " " * wide + "".join(head.rjust(width) for head, width in zip(_HEADS, widths, strict=True)),
    ]
    found += [
        _name(row).ljust(wide)
        + "".join(cell.rjust(w) for cell, w in zip(cells(row), widths, strict=True))
        for row in table
    ]
    return [*found, "", _NOTE]


def page(title: str, table: Sequence[ProtocolRow]) -> str:
    """The table as a page that needs nothing but itself."""
    heads = "".join(f'<th scope="col">{markup.escape(head)}</th>' for head in _HEADS)
    rows = "\n".join(
        f'<tr><th scope="row">{markup.escape(_name(row))}</th>{"".join(f"<td>{markup.escape(cell)}</td>" for cell in cells(row))}</tr>'
        for row in table
    )
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{markup.escape(title)}</title>
<style>
:root {{ color-scheme: light dark }}
body {{ font: 1rem/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem }}
div {{ overflow-x: auto }}
table {{ border-collapse: collapse }}
th, td {{ padding: .3rem .7rem; border-bottom: 1px solid #8886 }}
td {{ text-align: right; font-variant-numeric: tabular-nums }}
th {{ text-align: left }}
</style>
</head>
<body>
<main>
<h1>{markup.escape(title)}</h1>
<div role="region" aria-label="Table" tabindex="0">
<table>
<thead><tr><th scope="col">what happens</th>{heads}</tr></thead>
<tbody>
{rows}
</tbody>
</table>
</div>
<p>{markup.escape(_NOTE)}</p>
<p><code>{markup.escape(settings.command)}</code>, noracle {markup.escape(__version__)}</p>
</main>
</body>
</html>
"""
