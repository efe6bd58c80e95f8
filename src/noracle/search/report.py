"""The card, the tables and the page of a search."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from noracle.report import words
from noracle.report.content import Content, ContentTable, labelled
from noracle.report.page import render_page
from noracle.results import Comparison, Estimate
from noracle.results.base import Result
from noracle.search.archive import Found
from noracle.search.candidates import Entry
from noracle.search.vault import PARTS

_BEST_SHOWN = 5


def describe(found: Found) -> Content:
    """What is said about a search, for text and pages."""
    held_out, validation = found.held_out, found.validation
    lead: tuple[str, ...] = ("no held-out value yet",)
    kept = shrunk = ""
    if held_out is not None:
        lead = (f"held-out accuracy {_value(held_out)}", _interval(held_out))
        promise = words.kind(held_out.guarantee)
        kept = f"{_value(held_out)} {_interval(held_out)}, {promise}"
    if not math.isnan(found.shrinkage):
        shrunk = f"{found.shrinkage:+.3f} (validation minus held out)"
    who = f", designer {found.designer}" if found.designer else ""
    chosen = f"{_value(validation)} {_interval(validation)}, on the labels it was chosen with"
    return Content(
        headline=(f"workflow {found.winner.name!r}", *lead),
        alerts=_alerts(found),
        lines=labelled(
            ("task", f"{found.task}; model {found.model or 'not named'}{who}"),
            ("search", _search(found)),
            ("validation", chosen),
            ("held out", kept),
            ("shrinkage", shrunk),
            ("against", _against(found.comparison, found.winner.name)),
            ("acceptance", _acceptance(found)),
            ("cost", _cost(found)),
            ("ended", found.stopped),
            ("heuristic", _heuristic(found)),
        ),
        tables=(_archive_table(found), *_challenge_tables(found), _node_table(found)),
    )


def search_page(
    found: Found,
    *,
    more: Sequence[Result] = (),
    title: str = "A workflow found with weak labels",
    command: str | None = None,
    seed: int | None = None,
) -> str:
    """One self-contained HTML page of a search, with the winner drawn."""
    from noracle.search.drawing import describe_calls, workflow_svg

    inner = [r for r in (found.held_out, found.comparison) if r is not None]
    page = render_page([found, *inner, *more], title=title, command=command, seed=seed)
    drawing = (
        '<figure><div class="scroll" role="region" tabindex="0" aria-label="Drawing of the winner">'
        f"{_own_size(workflow_svg(found.winner))}</div><figcaption>The winner as a graph; "
        f"{describe_calls(found.winner)}.</figcaption></figure>\n"
    )
    # The search itself is the first section; the drawing stands before its first figure.
    place = page.index("<figure>", page.index('<section id="result-1"'))
    return page[:place] + drawing + page[place:]


def _own_size(svg: str) -> str:
    """The drawing at its own size, where the page would stretch it; smaller on a small screen."""
    width = re.search(r'\bwidth="([\d.]+)"', svg)
    if width is None:
        return svg
    style = f"width: {width[1]}px; max-width: 100%; height: auto"
    return svg.replace("<svg ", f'<svg style="{style}" ', 1)


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
    weak = {name: text for name, text in found.guarantees.items() if text.startswith("heuristic")}
    return "; ".join(f"{name}: {text.removeprefix('heuristic: ')}" for name, text in weak.items())


def _search(found: Found) -> str:
    tried = sum(e.fitness is not None for e in found.entries)
    failed = f", {n} not run" if (n := len(found.entries) - tried) else ""
    labels = ", ".join(f"{found.counts[p]} {p}" for p in PARTS)
    return f"{found.strategy}, {tried} candidates tried{failed}; labelled items: {labels}"


def _against(comparison: Comparison | None, winner: str) -> str:
    if comparison is None:
        return ""
    other = next((s for s in comparison.systems if s != winner), comparison.systems[-1])
    d = comparison.difference(winner, other)
    said = {"first": "better", "second": "worse"}.get(d.verdict, "not separable")
    return f"{other!r}: {d.value:+.3f} [{d.low:+.3f}, {d.high:+.3f}] on held-out labels, {said}"


def _acceptance(found: Found) -> str:
    if not found.challenges:
        return "no candidate led on validation, so none was challenged"
    n, won = len(found.challenges), sum(bool(c["accepted"]) for c in found.challenges)
    return f"{won} of {n} challenges on confirm labels; {found.guarantees['acceptance']}"


def _cost(found: Found) -> str:
    cost = found.cost
    spent = {part: cost.get(f"{part}_calls") for part in (*PARTS, "design")}
    parts = ", ".join(f"{n:,} {part}" for part, n in spent.items() if n)
    whole = f"{cost['calls']:,} calls ({parts}), {cost['input_tokens']:,} tokens read, {cost['output_tokens']:,} written"
    paid = found.ledger
    if not paid:
        return whole
    money = f"cost unknown ({paid.get('reason', 'no prices')})"
    if paid.get("cost") is not None:
        money = f"{paid['cost']:,.4f} {paid.get('currency', '')}".rstrip()
    return f"{whole}; paid {paid['calls']:,} calls, {money}; {paid['failed']:,} failed"


def _archive_table(found: Found) -> ContentTable:
    entries = found.entries
    values = {e.number: e.fitness.value for e in entries if e.fitness is not None}
    ranked = sorted(values, key=lambda n: math.inf if math.isnan(values[n]) else -values[n])
    shown = {0, found.number, *ranked[:_BEST_SHOWN]}
    text = ("name", "origin", "parents", "change")
    numbers = ("validation", "low", "high", "items", "calls")
    return ContentTable(
        caption="All candidates on validation labels (chosen with these labels: no promise)",
        header=("no.", *text, *numbers, "accepted", "problem"),
        rows=tuple(_row(e) for e in entries),
        numeric=(True, *[False] * len(text), *[True] * len(numbers), False, False),
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


def _challenge_tables(found: Found) -> tuple[ContentTable, ...]:
    if not found.challenges:
        return ()
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
    header = ("candidate", "incumbent", "labels", "difference", "evidence", "needed", "outcome")
    numeric = (False, False, True, True, True, True, False)
    caption = "Challenges on confirm labels"
    return (ContentTable(caption=caption, header=header, rows=rows, numeric=numeric),)


def _node_table(found: Found) -> ContentTable:
    """What the winner says to the model, in full; pages only."""
    rows = []
    for node in found.winner.to_dict()["nodes"]:
        prompts = {name: node[name] for name in ("prompt", "critic", "reviser") if name in node}
        prompts |= {f"branch {name}": p for name, p in node.get("branches", {}).items()}
        for where, prompt in prompts.items():
            role, said = prompt.get("role") or "—", prompt["instruction"]
            heat = f"{prompt['temperature']:g}"
            rows.append((str(node["id"]), str(node["kind"]), where, role, said, heat))
    return ContentTable(
        caption="What the winner tells the model",
        header=("node", "kind", "prompt", "role", "instruction", "temperature"),
        rows=tuple(rows),
        numeric=(False, False, False, False, False, True),
        shown=(),
    )


def _value(estimate: Estimate) -> str:
    return words.number(estimate.value, words.digits_for(estimate.width))


def _interval(estimate: Estimate) -> str:
    e, digits = estimate, words.digits_for(estimate.width)
    return words.bound(e.low, e.high, e.confidence, e.side, digits, unit=True)
