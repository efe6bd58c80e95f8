"""A ledger as a page, and outcomes as a card, as JUnit XML and as Markdown for a pull request."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from xml.sax.saxutils import quoteattr

from noracle.gate.decision import GateDecision, GateDesign
from noracle.gate.ledger import GateLedger

_TESTS = {
    "fresh": "new labels, at the whole error rate, beside what was known",
    "reused": "labels that decided before, at the part that the history of outcomes leaves",
    "known": "labels of all items at stake: no chance in it",
    "unchanged": "too few answers changed to matter: no label needed",
    "none": "no labels",
}
_MARKS = {"pass": "✅", "fail": "❌", "undecided": "❔"}


def evidence_line(decision: GateDecision) -> str:
    """What an outcome rests on, in one line."""
    about = f"{decision.n_at_stake:,} of {decision.n_items:,} items at stake"
    if decision.base is not None:
        about = f"answers to {decision.n_at_stake:,} of {decision.n_items:,} items changed"
    return f"{decision.n_labels:,} labels; {about}"


def needed_line(needed: Mapping[str, int]) -> str:
    """How many more labels would decide; the design says it, not the verdicts."""
    words = {"fail": "to see a drop", "pass": "to see that there is none"}
    told = [f"{n:,} {words[name]}" for name, n in needed.items()]
    return f"{' or '.join(told)}, with probability 0.8" if told else ""


def spent_line(decision: GateDecision) -> str:
    """What was spent."""
    all_ = f"{decision.spent:.3g} of {decision.guarantee.error_rate:.3g} spent"
    return f"decision {decision.t}, error rate {decision.error:.2g} (tested at {decision.level:.2g}); {all_}"


def card(decision: GateDecision) -> str:
    """An outcome as lines of text."""
    needed = needed_line(decision.needed)
    lines = {
        "test": _TESTS[decision.test],
        "evidence": evidence_line(decision),
        "guarantee": f"{decision.guarantee.kind.label}, {spent_line(decision)}",
        "rests on": " · ".join(map(str, decision.guarantee.assumptions)),
        "new labels": needed,
        "reason": decision.reason,
    }
    told = [f"  {name:<12}{text}" for name, text in lines.items() if text]
    told += [f"  {'note':<12}{note}" for note in decision.notes]
    return "\n".join([f"{decision.outcome.upper()}    {decision.claim}", *told])


def design_lines(claim: str, design: GateDesign) -> list[str]:
    """A plan as lines of text."""
    labels = f"{design.n_known:,} of earlier decisions, {design.n_fresh:,} new"
    labels += f", {design.n_vault:,} that may test again"
    lines = [
        claim,
        f"  at stake    {design.n_at_stake:,} of {design.n_items:,} items",
        f"  labels      {labels}",
        f"  test        {_TESTS[design.test]}",
        f"  decision    {design.t}, error rate {design.error:.2g} (tested at {design.level:.2g})",
    ]
    needed = needed_line(design.needed)
    return [*lines, f"  new labels  {needed}"] if needed else lines


def junit(decisions: Sequence[GateDecision]) -> str:
    """Outcomes as JUnit XML: a fail is a failure, undecided is skipped."""
    count = {o: sum(d.outcome == o for d in decisions) for o in _MARKS}
    head = f'tests="{len(decisions)}" failures="{count["fail"]}" skipped="{count["undecided"]}"'
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', f'<testsuite name="noracle gate" {head}>']
    for d in decisions:
        inside = {
            "pass": "",
            "fail": f"<failure message={_attribute(d.claim)}>{_text(str(d))}</failure>",
            "undecided": f"<skipped message={_attribute('undecided: ' + needed_line(d.needed))}/>",
        }[d.outcome]
        if d.notes and d.outcome != "fail":
            inside += f"<system-out>{_text(str(d))}</system-out>"
        name = f"classname={_attribute(d.system)} name={_attribute(d.claim)}"
        lines.append(f"  <testcase {name}>{inside}</testcase>")
    return "\n".join([*lines, "</testsuite>", ""])


def markdown(decisions: Sequence[GateDecision]) -> str:
    """Outcomes as a table for a pull request."""
    lines = ["### noracle gate", "", "| | Claim | Rests on | New labels that would decide |"]
    lines.append("|---|---|---|---|")
    for d in decisions:
        cells = (d.claim, evidence_line(d), needed_line(d.needed) or "–")
        told = " | ".join(_plain(c).replace("|", "\\|") for c in cells)
        lines.append(f"| {_MARKS[d.outcome]} {d.outcome} | {told} |")
    notes = dict.fromkeys(f"- {d.system}: {note}" for d in decisions for note in d.notes)
    lines += [""] * bool(notes) + [_plain(note) for note in notes]
    last = decisions[-1] if decisions else None
    if last is not None:
        all_ = f"All outcomes of this ledger together are wrong with probability of at most {last.guarantee.error_rate:.3g}"
        lines += ["", f"{all_}; {last.spent:.3g} of it is spent."]
    return "\n".join([*lines, ""])


def history(ledger: GateLedger, bounds: Mapping[str, tuple[float, float]] | None = None) -> str:
    """The decisions of a ledger as one page without script; ``bounds`` by hash of the line."""
    heads = ["", "Claim", "Decision", "Date", "Commit", "Labels", "At stake", "Error rate", "Test"]
    heads += [] if bounds is None else ["Bounds"]
    rows = []
    for line in reversed(ledger.decisions):
        outcome, at = line["outcome"], str(line.get("at", ""))[:10]
        cells = [f"{_MARKS[outcome]} {outcome}", line.get("claim", ""), line["t"], at]
        cells += [str(line.get("commit", ""))[:10], line.get("n", 0), line.get("at_stake", 0)]
        cells += [f"{line['error']:.2g}", _TESTS.get(line["test"], line["test"])]
        if bounds is not None:
            low, high = bounds.get(line["hash"], (None, None))
            cells.append("" if low is None else f"[{low:.3f}, {high:.3f}]")
        rows.append("".join(f"<td>{_text(str(c))}</td>" for c in cells))
    body = "\n".join(f"<tr>{row}</tr>" for row in rows)
    head = "".join(f"<th scope=col>{h}</th>" for h in heads)
    s, count = ledger.settings, len(ledger.decisions)
    labels = len(ledger.seen())
    said = f"{count:,} decisions, {labels:,} labels, error rate {ledger.spent:.3g} of {s.error:.3g} spent."
    shown = sum(line["kind"] == "reveal" for line in ledger.lines)
    if shown:
        said += f" Labels were shown {shown} times; since then they count as facts only."
    if ledger.spent > s.error * (1 + 1e-9):
        said += " Branches that were merged spent more than the ledger has: see branches."
    return _PAGE.format(said=_text(said), head=head, body=body, chart=_chart(ledger))


def _chart(ledger: GateLedger) -> str:
    """Outcomes in order, one bar each; the table below has the same."""
    colours = {"pass": "#1b7f79", "fail": "#b3261e", "undecided": "#8a8a8a"}
    heights = {"pass": 30, "undecided": 20, "fail": 10}
    bars = "".join(
        f'<rect x="{6 * i}" y="{40 - heights[x["outcome"]]}" width="5" height="{heights[x["outcome"]]}" '
        f'fill="{colours[x["outcome"]]}"/>'
        for i, x in enumerate(ledger.decisions)
    )
    wide = max(60, 6 * len(ledger.decisions))
    told = "Outcomes in order: high bars passed, low ones failed, those between are undecided."
    return f'<svg role="img" viewBox="0 0 {wide} 40" width="100%" height="60"><title>{told}</title>{bars}</svg>'


def _plain(text: str) -> str:
    return "".join(c if c.isprintable() else "�" for c in text)


def _text(text: str) -> str:
    return html.escape("\n".join(map(_plain, text.split("\n"))))


def _attribute(text: str) -> str:
    return quoteattr(_plain(text))


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>noracle gate: history</title>
<meta name="viewport" content="width=device-width">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<style>body{{font:16px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:70rem;padding:0 1rem}}
table{{border-collapse:collapse;width:100%}}td,th{{text-align:left;padding:.3rem .6rem;border-bottom:1px solid #ccc}}
.wide{{overflow-x:auto}}</style></head><body><main><h1>History of the gate</h1>
<p>{said}</p>
{chart}
<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>
{body}
</tbody></table></div></main></body></html>
"""
