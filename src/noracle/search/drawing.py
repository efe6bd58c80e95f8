"""Drawings of workflows as Mermaid text for terminals and pages in Markdown, and as SVG."""

from __future__ import annotations

from xml.sax.saxutils import escape

from noracle.search.interpreter import waves
from noracle.search.workflow import (
    TASK,
    AnswerNode,
    Ask,
    CritiqueLoop,
    Node,
    RouteNode,
    Vote,
    Workflow,
    calls_of,
    inputs_of,
)

_BOX_W, _BOX_H, _GAP_X, _GAP_Y, _EDGE = 190, 62, 26, 64, 24
# Light tints of the Okabe-Ito colours: told apart by people with any kind of colour vision, dark
# text readable on each.
_TINT = {"task": "#f2f2f2", "ask": "#d6ebf9", "vote": "#fdebc8", "decide": "#cdeee2"}
_TINT |= {"critique_loop": "#f6d9c6", "route": "#f3dcea", "answer": "#fbf8cf"}


def describe_node(node: Node) -> str:
    """What a node does, in a few words.

    Examples
    --------
    >>> from noracle.search.workflow import load_workflow
    >>> [describe_node(node) for node in load_workflow("cot-sc").nodes]
    ['ask × 5', 'vote', 'answer']
    """
    if isinstance(node, Ask):
        times = f" × {node.n}" if node.n > 1 else ""
        return f"ask{times}" + (f", cut at {node.force_after}" if node.force_after else "")
    if isinstance(node, CritiqueLoop):
        return f"critique ≤ {node.max_rounds}" + (f" × {node.n}" if node.n > 1 else "")
    if isinstance(node, RouteNode):
        return f"route, {len(node.branches)} ways"
    if isinstance(node, AnswerNode):
        return "answer" + ", fallback" * node.fallback + ", coin" * node.coin
    return node.kind


def describe_calls(workflow: Workflow) -> str:
    """The bound in words.

    Examples
    --------
    >>> from noracle.search.workflow import load_workflow
    >>> describe_calls(load_workflow("self-refine")), describe_calls(load_workflow("cot"))
    ('2 to 11 calls per item', '1 call per item')
    """
    return f"{_calls(workflow.least_calls, workflow.most_calls)} per item"


def draw_workflow(workflow: Workflow) -> str:
    """A workflow in words and as Mermaid text, which pages in Markdown draw.

    Examples
    --------
    >>> from noracle.search.workflow import load_workflow
    >>> print(draw_workflow(load_workflow("step-back")))
    step-back: 2 calls per item
    First the principles that decide such a question, then the answer (Zheng et al. 2024).
    <BLANKLINE>
    flowchart TD
        task(["the item"])
        n0["principles: ask · 1 call"]
        task --> n0
        n1["thought: ask · 1 call"]
        n0 --> n1
        n2["answer"]
        n1 --> n2
    """
    about = [workflow.description] if workflow.description else []
    lines = [f"{workflow.name}: {describe_calls(workflow)}", *about, "", "flowchart TD"]
    lines.append('    task(["the item"])')
    at = {node.id: f"n{i}" for i, node in enumerate(workflow.nodes)}  # "end" is a word of Mermaid
    for node in workflow.nodes:
        does = describe_node(node) + (f" · {_calls(*calls_of(node))}" if calls_of(node)[1] else "")
        lines.append(f'    {at[node.id]}["{node.id if does == node.id else f"{node.id}: {does}"}"]')
        lines += [f"    {at.get(a, TASK)} --> {at[node.id]}" for a in inputs_of(node) or (TASK,)]
    return "\n".join(lines)


def workflow_svg(workflow: Workflow) -> str:
    """A workflow as SVG, with a title and a description in words for those who cannot see it.

    Arrows between neighbouring rows go straight; those that pass a row go round it on the right, so
    that no arrow lies under a box.

    Examples
    --------
    >>> from noracle.search.workflow import load_workflow
    >>> workflow_svg(load_workflow("cot")).startswith("<svg ")
    True
    """
    rows: list[list[str]] = [[TASK], *([node.id for node in row] for row in waves(workflow))]
    inner = max(len(row) for row in rows) * (_BOX_W + _GAP_X) - _GAP_X
    at: dict[str, tuple[float, float]] = {}
    level: dict[str, int] = {}
    for i, row in enumerate(rows):
        left = _EDGE + (inner - (len(row) * (_BOX_W + _GAP_X) - _GAP_X)) / 2
        for j, name in enumerate(row):
            at[name], level[name] = (left + j * (_BOX_W + _GAP_X), _EDGE + i * (_BOX_H + _GAP_Y)), i
    edges = [(a, node.id) for node in workflow.nodes for a in (inputs_of(node) or (TASK,))]
    far = [edge for edge in edges if level[edge[1]] - level[edge[0]] > 1]
    # One lane for each box that is read further down.
    lanes = list(dict.fromkeys(source for source, _ in far))
    width = _EDGE * 2 + inner + (12 * len(lanes) + 8 if lanes else 0)
    height = _EDGE * 2 + len(rows) * (_BOX_H + _GAP_Y) - _GAP_Y
    paths = [_near(at[a], at[b]) for a, b in edges if level[b] - level[a] == 1]
    paths += [_far(at[a], at[b], lanes.index(a), _EDGE + inner) for a, b in far]
    head = f"head-{workflow.digest[:12]}"  # a page may hold several drawings
    boxes = [_box(*at[TASK], TASK, "the item and its options", "task", "What every call sees.")]
    boxes += [_box(*at[n.id], n.id, _under(n), n.kind, _told(n)) for n in workflow.nodes]
    title = escape(f"Workflow {workflow.name}: {describe_calls(workflow)}")
    told = escape(" ".join(_told(node) for node in workflow.nodes))
    size = f'viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}"'
    marker = f'<marker id="{head}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
    style = f'fill="none" stroke="#333" stroke-width="1.5" marker-end="url(#{head})"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" font-family="system-ui, sans-serif">',
        f"<title>{title}</title>",
        f"<desc>{told}</desc>",
        f'<defs>{marker}<path d="M0 0L8 4L0 8z" fill="#333"/></marker></defs>',
        f'<rect width="{width:g}" height="{height:g}" fill="#ffffff"/>',
    ]
    arrows = [f'<path d="{path}" {style}/>' for path in paths]
    return "\n".join([*lines, *arrows, *boxes, "</svg>", ""])


def _calls(least: int, most: int) -> str:
    number = f"{least}" if least == most else f"{least} to {most}"
    return f"{number} call" + ("" if most == 1 else "s")


def _under(node: Node) -> str:
    """The second line of a box: what it does and how many calls that takes."""
    if isinstance(node, AnswerNode):
        return "which answer counts" + describe_node(node).removeprefix("answer")
    most = calls_of(node)[1]
    return f"{describe_node(node)} · {_calls(*calls_of(node))}" if most else describe_node(node)


def _told(node: Node) -> str:
    """A box in a sentence."""
    reads = ", ".join(inputs_of(node)) or "the task alone"
    kind = describe_node(node) + (" (most frequent answer)" if isinstance(node, Vote) else "")
    return f"{node.id}: {kind}; reads {reads}."


def _box(x: float, y: float, name: str, under: str, kind: str, told: str) -> str:
    middle = x + _BOX_W / 2
    short = name if len(name) <= 24 else name[:23] + "…"
    frame = f'<rect x="{x:g}" y="{y:g}" width="{_BOX_W}" height="{_BOX_H}" rx="6" fill="{_TINT[kind]}" stroke="#333"/>'
    lines = ((26, 'font-size="14" font-weight="600"', short), (46, 'font-size="12"', under))
    texts = "".join(
        f'<text x="{middle:g}" y="{y + down:g}" text-anchor="middle" {style} fill="#111">{escape(text)}</text>'
        for down, style, text in lines
    )
    return f"<g><title>{escape(told)}</title>{frame}{texts}</g>"


def _near(a: tuple[float, float], b: tuple[float, float]) -> str:
    """An arrow to the next row."""
    x0, y0, x1, y1 = a[0] + _BOX_W / 2, a[1] + _BOX_H, b[0] + _BOX_W / 2, b[1]
    return f"M{x0:g} {y0:g}C{x0:g} {y0 + 26:g} {x1:g} {y1 - 26:g} {x1:g} {y1:g}"


def _far(a: tuple[float, float], b: tuple[float, float], k: int, right: float) -> str:
    """An arrow past a row: down into the gap, over the k-th lane on the right, back above its end."""
    shift, lane = 10 + 5 * (k % 6), right + 12 * (k + 1)
    x0, y0 = a[0] + _BOX_W * 0.75, a[1] + _BOX_H
    x1, y1 = b[0] + _BOX_W * (0.6 + 0.06 * (k % 6)), b[1]
    return f"M{x0:g} {y0:g}V{y0 + shift:g}H{lane:g}V{y1 - shift:g}H{x1:g}V{y1:g}"
