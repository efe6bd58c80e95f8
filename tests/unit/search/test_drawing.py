"""Drawings of workflows: every node and every edge is there, for eyes and for readers of text."""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings

from noracle.search.drawing import draw_workflow, workflow_svg
from noracle.search.workflow import (
    Workflow,
    inputs_of,
    load_workflow,
    parse_workflow,
    workflow_names,
)
from tests.unit.search.made import workflows

SVG = "{http://www.w3.org/2000/svg}"
BOX_WIDTH, BOX_HEIGHT = 190, 62


@pytest.mark.parametrize("name", workflow_names())
def test_text_names_every_node_and_every_edge(name: str) -> None:
    workflow = load_workflow(name)
    whole_text(workflow)
    assert "calls per item" in draw_workflow(workflow) or "1 call per item" in draw_workflow(
        workflow
    )


def whole_text(workflow: Workflow) -> None:
    """Each box and each arrow of the Mermaid text, and nothing that Mermaid reads otherwise."""
    drawing = draw_workflow(workflow).rpartition("flowchart TD\n")[2].splitlines()
    boxes = dict(
        re.findall(r'^    (\w+)\["([a-z0-9_-]+)[:"]', line)[0]
        for line in drawing[1:]
        if "[" in line
    )
    assert list(boxes.values()) == [node.id for node in workflow.nodes]
    assert all(re.fullmatch(r"n\d+", name) for name in boxes)
    arrows = [line.strip().split(" --> ") for line in drawing if "-->" in line]
    found = [(boxes.get(a, a), boxes[b]) for a, b in arrows]
    assert found == [(a, n.id) for n in workflow.nodes for a in inputs_of(n) or ("task",)]


@given(data=workflows())
@settings(max_examples=60, deadline=None)
def test_drawings_of_any_workflow_are_whole(data: dict[str, Any]) -> None:
    workflow = parse_workflow(data)
    whole_text(workflow)
    root = ET.fromstring(workflow_svg(workflow))
    names = [text.text for text in root.iter(f"{SVG}text")]
    assert all(node.id in names for node in workflow.nodes)
    edges = sum(len(inputs_of(node)) or 1 for node in workflow.nodes)
    assert len([p for p in root.iter(f"{SVG}path") if p.get("marker-end")]) == edges


@pytest.mark.parametrize("name", workflow_names())
def test_svg_has_a_title_a_description_and_no_box_off_the_page(name: str) -> None:
    workflow = load_workflow(name)
    root = ET.fromstring(workflow_svg(workflow))
    title, desc = root.find(f"{SVG}title"), root.find(f"{SVG}desc")
    assert root.get("role") == "img"
    assert title is not None
    assert desc is not None
    assert name in str(title.text)
    assert all(node.id in str(desc.text) for node in workflow.nodes)
    width, height = float(str(root.get("width"))), float(str(root.get("height")))
    for box in boxes(root):
        assert box[0] >= 0
        assert box[1] >= 0
        assert box[0] + BOX_WIDTH <= width
        assert box[1] + BOX_HEIGHT <= height


@pytest.mark.parametrize("name", ["quality-diversity", "debate"])
def test_no_arrow_lies_under_a_box(name: str) -> None:
    root = ET.fromstring(workflow_svg(load_workflow(name)))
    for path in root.iter(f"{SVG}path"):
        if path.get("marker-end") is None:
            continue
        for x, y in points(str(path.get("d"))):
            assert not any(
                bx + 1 < x < bx + BOX_WIDTH - 1 and by + 1 < y < by + BOX_HEIGHT - 1
                for bx, by in boxes(root)
            )


def test_two_drawings_on_one_page_share_no_id() -> None:
    drawn = [workflow_svg(load_workflow(name)) for name in ("cot", "debate")]
    ids = [re.findall(r' id="([^"]+)"', svg) for svg in drawn]
    assert ids[0]
    assert not set(ids[0]) & set(ids[1])
    for svg, own in zip(drawn, ids, strict=True):
        assert set(re.findall(r"url\(#([^)]+)\)", svg)) == set(own)


def test_text_of_a_workflow_cannot_break_out_of_the_svg() -> None:
    data = load_workflow("cot").to_dict()
    data["description"] = data["nodes"][0]["prompt"]["instruction"] = (
        "</desc><script>alert(1)</script>"
    )
    assert "<script" not in workflow_svg(parse_workflow(data))


def boxes(root: ET.Element) -> list[tuple[float, float]]:
    return [
        (float(str(r.get("x"))), float(str(r.get("y"))))
        for r in root.iter(f"{SVG}rect")
        if r.get("x")
    ]


def points(path: str) -> list[tuple[float, float]]:
    """Points along a path of M, V, H and C."""
    found: list[tuple[float, float]] = []
    x = y = 0.0
    for sign, numbers in re.findall(r"([MVHC])([^MVHC]+)", path):
        values = [float(v) for v in numbers.split()]
        if sign == "C":
            corners = [(x, y), *zip(values[::2], values[1::2], strict=True)]
            for t in (i / 20 for i in range(21)):
                weights = ((1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t**3)
                found.append(
                    (
                        sum(w * c[0] for w, c in zip(weights, corners, strict=True)),
                        sum(w * c[1] for w, c in zip(weights, corners, strict=True)),
                    )
                )
            x, y = corners[-1]
            continue
        end = (
            (values[0], values[1])
            if sign == "M"
            else (x, values[0])
            if sign == "V"
            else (values[0], y)
        )
        found += (
            [end]
            if sign == "M"
            else [(x + (end[0] - x) * i / 50, y + (end[1] - y) * i / 50) for i in range(51)]
        )
        x, y = end
    return found
