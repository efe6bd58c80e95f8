"""One page of a run or of a search: its steps, scores and workflows, and every exchange to unfold."""

from __future__ import annotations

import dataclasses
import html
import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from noracle._version import __version__
from noracle.errors import NoracleError, require
from noracle.report.card import templates
from noracle.search.drawing import workflow_svg
from noracle.search.journal import JOURNAL
from noracle.search.transcript import TRANSCRIPT, Exchange, headline, read_exchanges
from noracle.search.workflow import load_workflow, parse_workflow

LARGEST = 1_500_000
"""Bytes of all exchanges together; longer texts are cut, so that a browser opens the page."""
_SHORTEST = 240
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_HIDDEN = "What a designer is told quotes labels, and it may repeat them; --with-labels shows it."


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ViewedStep:
    """One candidate: what it is, what came out, and its exchanges by item."""

    title: str
    lines: tuple[tuple[str, str], ...] = ()
    svg: str = ""
    groups: tuple[tuple[str, tuple[Mapping[str, Any], ...]], ...] = ()


def view_page(folder: str | Path, *, with_labels: bool = False) -> str:
    """The page of a folder that ``noracle ask`` or ``noracle search`` wrote.

    Parameters
    ----------
    folder
        With the journal of a search or of a run.
    with_labels
        Also show what a designer was told and said: the first quotes validation labels ("an
        expert excluded …"), and the second may. Without it no label is on the page.
    """
    where = Path(folder)
    exchanges = list(read_exchanges(where / TRANSCRIPT))
    room = max(_SHORTEST, LARGEST // max(1, len(exchanges)))
    shown: dict[str, dict[str, list[Mapping[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    for exchange in exchanges:
        about = exchange.about
        if "designer" in about:
            texts = _texts(exchange, room, hidden=not with_labels)
            shown[f"designer {about['designer']}"]["designer"].append(texts)
        else:
            repeat = f", repeat {about['repeat'] + 1}" if about.get("repeat") else ""
            item = f"item {about.get('item', '?')}{repeat}"
            shown[str(about.get("workflow", ""))][item].append(_texts(exchange, room))
    events = _events(where)
    searched = "strategy" in events[0]["settings"]
    title, end, steps = (_search if searched else _run)(events, shown)
    paid = sum(e.cost or 0.0 for e in exchanges)
    tokens = sum(e.input_tokens + e.output_tokens for e in exchanges)
    lost = sum(e.reply is None for e in exchanges)
    facts = (
        ("exchanges", f"{len(exchanges):,} ({lost:,} without a reply), {tokens:,} tokens"),
        ("cost", f"{paid:,.4f}" if any(e.cost is not None for e in exchanges) else "not known"),
        *end,
    )
    page = templates().get_template("view.html")
    return page.render(title=title, facts=facts, steps=steps, version=__version__)


def _events(folder: Path) -> list[dict[str, Any]]:
    """The events of a journal up to the last whole line; somebody may be writing."""
    try:
        lines = (folder / JOURNAL).read_bytes().split(b"\n")[:-1]
        events = [json.loads(line) for line in lines]
        fine = {"model", "seed"} <= events[0]["settings"].keys() and all(e["event"] for e in events)
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        fine = False
    came = f"{str(folder)!r} without its {JOURNAL}"
    require(fine, f"folder must hold a search or a run; got {came}.")
    return events


def digests(folder: Path) -> dict[str, str]:
    """The digest of each candidate's workflow by its number."""
    made = (e for e in _events(folder) if e["event"] == "proposal")
    return {str(e["number"]): e["digest"] for e in made}


def _search(
    events: Sequence[Mapping[str, Any]], shown: Mapping[str, Mapping[str, Any]]
) -> tuple[str, tuple[tuple[str, str], ...], list[ViewedStep]]:
    settings = events[0]["settings"]
    entries = {e["number"]: e for e in events if e["event"] == "entry"}
    accepted = {e["number"] for e in events if e["event"] == "challenge" and e["accepted"]}
    steps = []
    for made in (e for e in events if e["event"] == "proposal"):
        number, workflow = made["number"], parse_workflow(made["workflow"])
        entry = entries.get(number, {"fitness": None, "problem": "not run yet", "cost": {}})
        lines = {
            "from": made["origin"] + "".join(f", of {p}" for p in made["parents"]),
            "change": made["change"],
            "validation": _interval(entry["fitness"]),
            "problem": entry["problem"],
            "accepted": "as better, by confirm labels" if number in accepted else "",
        }
        groups = {**shown.get(f"designer {number}", {}), **shown.get(made["digest"], {})}
        steps.append(
            ViewedStep(
                title=f"{number}: {workflow.name}",
                lines=tuple((name, text) for name, text in lines.items() if text),
                svg="" if made["problem"] else workflow_svg(workflow),
                groups=_groups(groups),
            )
        )
    said = next((e for e in events if e["event"] == "end"), None)
    end: dict[str, str] = {"ended": "not yet"}
    if said is not None:
        end = {"ended": said["stopped"], "winner": f"{said['winner']}"}
        end["held out"] = _interval(said["held_out"])
    title = f"Search on {settings['task']} by {settings['strategy']}"
    return title, tuple(end.items()), steps


def _run(
    events: Sequence[Mapping[str, Any]], shown: Mapping[str, Mapping[str, Any]]
) -> tuple[str, tuple[tuple[str, str], ...], list[ViewedStep]]:
    run, svg = events[0]["settings"], ""
    name, digest = run["workflow"], run["workflow_digest"]
    try:
        known = load_workflow(name)
        svg = workflow_svg(known) if known.digest == digest else ""
    except NoracleError:  # a file of the user that is elsewhere now
        pass
    step = ViewedStep(title=f"{name}", svg=svg, groups=_groups(shown.get(digest, {})))
    return f"Run of {run['system']}", (("model", run["model"]),), [step]


def _groups(
    groups: Mapping[str, Sequence[Mapping[str, Any]]],
) -> tuple[tuple[str, tuple[Mapping[str, Any], ...]], ...]:
    return tuple((name, tuple(rows)) for name, rows in groups.items())


def _interval(estimate: Mapping[str, Any] | None) -> str:
    if estimate is None or estimate.get("value") is None:
        return ""
    value, low, high = (estimate[name] for name in ("value", "low", "high"))
    return f"{value:.3f} [{low:.3f}, {high:.3f}] at {estimate['confidence']:g}"


def _texts(exchange: Exchange, room: int, *, hidden: bool = False) -> Mapping[str, Any]:
    """What the page shows of one exchange, the longest texts cut to the room that there is."""
    failed = ("failed", exchange.error)
    parts = [failed] if exchange.reply is None else [("reply", exchange.reply)]
    if hidden:
        parts = [("note", _HIDDEN), *(part for part in parts if part == failed)]
    else:
        parts = [*((m["role"], m["text"]) for m in exchange.messages), *parts]
    each = max(_SHORTEST // 2, room // len(parts))
    return {"head": headline(exchange), "parts": tuple(_cut(parts, each))}


def _cut(parts: Sequence[tuple[str, str]], each: int) -> Iterator[tuple[str, str]]:
    for role, raw in parts:
        text = _UNSEEN.sub("\ufffd", raw)  # no text turns the page around
        size = len(html.escape(text).encode("utf-8", "replace"))
        keep = len(text) if size <= each else int(each / size * len(text) / 2)
        more = len(text) - keep
        yield role, f"{text[:keep]} … ({more:,} more characters)" if more else text
