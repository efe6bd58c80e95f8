"""The card, the tables and the page of a search."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from noracle.report import words
from noracle.report.content import Content, Table, labelled
from noracle.report.page import render_page
from noracle.results import Comparison, Estimate
from noracle.results.base import Result
from noracle.search.archive import Found
from noracle.search.candidates import Entry

_BEST_SHOWN = 5


def describe(found: Found) -> Content:
    """What is said about a search, for text and pages."""
    held_out = found.held_out
    lead = "no held-out value yet" if held_out is None else f"held-out accuracy {_value(held_out)}"
    return Content(
        headline=(
            f"workflow {found.winner.name!r}",
            lead,
            *(() if held_out is None else (_interval(held_out),)),
        ),
        alerts=_alerts(found),
        lines=labelled(
            (
                "task",
                f"{found.task}; model {found.model or 'not named'}"
                + (f", designer {found.designer}" if found.designer else ""),
            ),
            ("search", _search(found)),
            (
                "validation",
                f"{_value(found.validation)} {_interval(found.validation)}, on the labels it was chosen with",
            ),
            (
                "held out",
                ""
                if held_out is None
                else f"{_value(held_out)} {_interval(held_out)}, {words.kind(held_out.guarantee)}",
            ),
            (
                "shrinkage",
                ""
                if math.isnan(found.shrinkage)
                else f"{found.shrinkage:+.3f} (validation minus held out)",
            ),
            ("against", _against(found.comparison, found.winner.name)),
            ("acceptance", _acceptance(found)),
            ("cost", _cost(found)),
            ("ended", found.stopped),
            ("heuristic", _heuristic(found)),
        ),
        tables=(
            _archive_table(found),
            *((_challenge_table(found),) if found.challenges else ()),
            _node_table(found),
        ),
    )


def search_page(
    found: Found,
    *,
    more: Sequence[Result] = (),
    title: str = "A workflow found with weak labels",
    command: str | None = None,
    seed: int | None = None,
) -> str:
    """One self-contained HTML page: the winner drawn, its values, the archive with its lineage,
    cost, and what is heuristic.
    """
    from noracle.search.drawing import workflow_svg

    inner = [r for r in (found.held_out, found.comparison) if r is not None]
    page = render_page([found, *inner, *more], title=title, command=command, seed=seed)
    drawing = (
        '<figure><div class="scroll" role="region" tabindex="0" aria-label="Drawing of the winner">'
        f"{_own_size(workflow_svg(found.winner))}</div><figcaption>The winner as a graph; "
        f"{_calls(found)}.</figcaption></figure>\n"
    )
    # The search itself is the first section; the drawing stands before its first figure.
    place = page.index("<figure>", page.index('<section id="result-1"'))
    return page[:place] + drawing + page[place:]


def _own_size(svg: str) -> str:
    """The drawing at its own size, where the page would stretch it; smaller on a small screen."""
    width = re.search(r'\bwidth="([\d.]+)"', svg)
    return (
        svg
        if width is None
        else svg.replace(
            "<svg ", f'<svg style="width: {width[1]}px; max-width: 100%; height: auto" ', 1
        )
    )


def _alerts(found: Found) -> tuple[str, ...]:
    alerts = []
    if found.held_out is None:
        alerts.append(f"NOT FINISHED: {found.stopped}")
    elif found.held_out.guarantee.kind.label == "heuristic":
        alerts.append("HEURISTIC: the held-out value carries no promise")
    if found.number == 0:
        alerts.append("NOTHING BETTER was found than the first baseline")
    elif not found.better:
        alerts.append("NOT PROVEN better than the first baseline: the labels cannot tell")
    return tuple(alerts)


def _heuristic(found: Found) -> str:
    """What carries no promise."""
    weak = {
        name: text.removeprefix("heuristic: ")
        for name, text in found.guarantees.items()
        if text.startswith("heuristic")
    }
    return "; ".join(f"{name}: {text}" for name, text in weak.items())


def _search(found: Found) -> str:
    tried = sum(e.fitness is not None for e in found.entries)
    failed = len(found.entries) - tried
    counts = found.counts
    return (
        f"{found.strategy}, {tried} candidates tried"
        + (f", {failed} not run" if failed else "")
        + f"; labelled items: {counts['validation']} validation, {counts['confirm']} confirm, {counts['final']} final"
    )


def _against(comparison: Comparison | None, winner: str) -> str:
    if comparison is None:
        return ""
    other = next((s for s in comparison.systems if s != winner), comparison.systems[-1])
    d = comparison.difference(winner, other)
    separable = (
        "better" if d.verdict == "first" else "worse" if d.verdict == "second" else "not separable"
    )
    return (
        f"{other!r}: {d.value:+.3f} [{d.low:+.3f}, {d.high:+.3f}] on held-out labels, {separable}"
    )


def _acceptance(found: Found) -> str:
    if not found.challenges:
        return "no candidate led on validation, so none was challenged"
    n, won = len(found.challenges), sum(bool(c["accepted"]) for c in found.challenges)
    return f"{won} of {n} challenges on confirm labels; {found.guarantees['acceptance']}"


def _cost(found: Found) -> str:
    cost = found.cost
    parts = ", ".join(
        f"{cost[f'{part}_calls']:,} {part}"
        for part in ("validation", "confirm", "final", "design")
        if cost.get(f"{part}_calls")
    )
    whole = f"{cost['calls']:,} calls ({parts}), {cost['input_tokens']:,} tokens read, {cost['output_tokens']:,} written"
    paid = found.ledger
    if not paid:
        return whole
    money = (
        f", {paid['cost']:,.4f} {paid.get('currency', '')}".rstrip()
        if paid.get("cost") is not None
        else f", cost unknown ({paid.get('reason', 'no prices')})"
    )
    return f"{whole}; paid {paid['calls']:,} calls{money}; {paid['failed']:,} failed"


def _calls(found: Found) -> str:
    least, most = found.winner.least_calls, found.winner.most_calls
    return (
        f"{most} call{'' if most == 1 else 's'} an item"
        if least == most
        else f"{least} to {most} calls an item"
    )


def _archive_table(found: Found) -> Table:
    header = (
        "no.",
        "name",
        "origin",
        "parents",
        "change",
        "validation",
        "low",
        "high",
        "items",
        "calls",
        "accepted",
        "problem",
    )
    entries = found.entries
    ranked = sorted((e for e in entries if e.fitness is not None), key=lambda e: -_number(e))
    shown = {0, found.number, *(e.number for e in ranked[:_BEST_SHOWN])}
    return Table(
        caption="All candidates on validation labels (chosen with these labels: no promise)",
        header=header,
        rows=tuple(_row(e) for e in entries),
        numeric=(True, False, False, False, False, True, True, True, True, True, False, False),
        shown=tuple(i for i, e in enumerate(entries) if e.number in shown),
    )


def _row(entry: Entry) -> tuple[str, ...]:
    f = entry.fitness
    numbers = ("—", "—", "—") if f is None else (f"{f.value:.3f}", f"{f.low:.3f}", f"{f.high:.3f}")
    items = len({o.item for o in entry.outcomes})
    return (
        str(entry.number),
        entry.workflow.name,
        entry.origin,
        ", ".join(map(str, entry.parents)) or "—",
        entry.change or "—",
        *numbers,
        str(items) if items else "—",
        f"{int(entry.cost.get('calls', 0)):,}",
        "yes" if entry.accepted else "no",
        entry.problem or "—",
    )


def _challenge_table(found: Found) -> Table:
    names = {e.number: e.workflow.name for e in found.entries}
    rows = tuple(
        (
            f"{c['number']}: {names[c['number']]}",
            f"{c['against']}: {names[c['against']]}",
            str(c["n"]),
            "—" if c["difference"] is None else f"{c['difference']:+.3f}",
            f"{c['wealth']:.3g}",
            f"{c['threshold']:.3g}",
            "accepted" if c["accepted"] else "not separable",
        )
        for c in found.challenges
    )
    return Table(
        caption="Challenges on confirm labels",
        header=("candidate", "incumbent", "labels", "difference", "evidence", "needed", "outcome"),
        rows=rows,
        numeric=(False, False, True, True, True, True, False),
    )


def _node_table(found: Found) -> Table:
    """What the winner says to the model, in full; pages only."""
    rows = [
        (
            str(node["id"]),
            str(node["kind"]),
            where,
            prompt.get("role") or "—",
            prompt["instruction"],
            f"{prompt['temperature']:g}",
        )
        for node in found.winner.to_dict()["nodes"]
        for where, prompt in _prompts(node)
    ]
    return Table(
        caption="What the winner tells the model",
        header=("node", "kind", "prompt", "role", "instruction", "temperature"),
        rows=tuple(rows),
        numeric=(False, False, False, False, False, True),
        shown=(),
    )


def _prompts(node: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    named = [(name, node[name]) for name in ("prompt", "critic", "reviser") if name in node]
    return [
        *named,
        *((f"branch {name}", prompt) for name, prompt in node.get("branches", {}).items()),
    ]


def _number(entry: Entry) -> float:
    return (
        -math.inf
        if entry.fitness is None or math.isnan(entry.fitness.value)
        else entry.fitness.value
    )


def _value(estimate: Estimate) -> str:
    return words.number(estimate.value, words.digits_for(estimate.width))


def _interval(estimate: Estimate) -> str:
    return words.bound(
        estimate.low,
        estimate.high,
        estimate.confidence,
        estimate.side,
        words.digits_for(estimate.width),
        unit=True,
    )
