"""Tasks of Label Studio: in as items, out with what was said.

In: ``text``, ``markdown`` or ``image`` of ``data``, or its only text; the name is ``data.item``,
else the task's ``id``. An annotation that is marked as ground truth gives the truth. Out: one
annotation for each answer, in the shape of a choice.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from noracle.collect.errors import Refused
from noracle.collect.model import ProjectSpec

Record = dict[str, Any]


def item_row(task: Mapping[str, Any], spec: ProjectSpec) -> Record:
    """A task as a row of the items table.

    Examples
    --------
    >>> spec = ProjectSpec.from_dict({"protocol": "partitioned", "classes": ["cat", "dog"]})
    >>> task = {"id": 7, "data": {"text": "Miaow"}, "annotations": [
    ...     {"ground_truth": True, "result": [{"type": "choices", "value": {"choices": ["cat"]}}]}]}
    >>> item_row(task, spec)
    {'item': 7, 'text': 'Miaow', 'truth': 'cat'}
    """
    data = task.get("data")
    if not isinstance(data, dict):
        raise Refused("tasks must each have data; one has none.")
    row: Record = {"item": data.get("item", task.get("id"))}
    row |= {key: data[key] for key in ("text", "markdown", "options") if data.get(key)}
    if data.get("image"):
        row["image"] = _file(str(data["image"]))
    if len(row) == 1 + ("options" in row):
        texts = [
            key
            for key, value in data.items()
            if isinstance(value, str) and value.strip() and key != "item"
        ]
        if len(texts) != 1:
            raise Refused(
                f"data must hold text, markdown or image, or one text under another name; got {len(texts)} texts."
            )
        row["text"] = data[texts[0]]
    truth = _truth(task, spec)
    return row if truth is None else {**row, "truth": truth}


def _file(path: str) -> str:
    """Label Studio keeps uploads as ``/data/upload/3/0a1b2c3d-name.png``; people have ``name.png``."""
    if not path.startswith("/data/"):
        return path
    return re.sub(r"^[0-9a-f]{8}-", "", PurePosixPath(path).name)


def _truth(task: Mapping[str, Any], spec: ProjectSpec) -> str | None:
    names = {c.name for c in spec.classes}
    for annotation in task.get("annotations") or ():
        if not isinstance(annotation, dict) or not annotation.get("ground_truth"):
            continue
        for result in annotation.get("result") or ():
            value = result.get("value") if isinstance(result, dict) else None
            choices = value.get("choices") if isinstance(value, dict) else None
            if isinstance(choices, list) and len(choices) == 1 and choices[0] in names:
                return str(choices[0])
    return None


def tasks_of(
    spec: ProjectSpec, items: Sequence[Mapping[str, Any]], answers: Iterable[Mapping[str, Any]]
) -> list[Record]:
    """Items and first answers as tasks with annotations.

    Parameters
    ----------
    items
        ``name, content`` (texts only if they may leave).
    answers
        ``answer, item, shown, value, rater, kind, seconds``.
    """
    by_item: dict[str, list[Record]] = {}
    for answer in answers:
        by_item.setdefault(answer["item"], []).append(_annotation(spec, answer))
    return [
        {
            "id": number,
            "data": {"item": item["name"], **item["content"]},
            "annotations": by_item.get(item["name"], []),
        }
        for number, item in enumerate(items, 1)
    ]


def _annotation(spec: ProjectSpec, answer: Mapping[str, Any]) -> Record:
    names = [c.name for c in spec.classes]
    shown, value = answer["shown"], answer["value"]
    if spec.protocol in ("partitioned", "judge-all"):
        results = [
            _choice(f"class-{asked}", said, names[asked])
            for asked, said in zip(shown, value.split("|"), strict=False)
        ]
    elif value in ("unsure", "none"):
        results = [_choice("label", value, "")]
    else:
        results = [
            _choice(
                "ruled-out" if spec.protocol == "pick-wrong" else "label", names[int(value)], ""
            )
        ]
    return {
        "id": answer["answer"],
        "completed_by": answer["rater"],
        "lead_time": answer["seconds"],
        "ground_truth": False,
        "was_cancelled": False,
        "meta": {"kind": answer["kind"], "protocol": spec.protocol},
        "result": results,
    }


def _choice(field: str, said: str, about: str) -> Record:
    choice: Record = {
        "from_name": field,
        "to_name": "item",
        "type": "choices",
        "value": {"choices": [said]},
    }
    return {**choice, "meta": {"class": about}} if about else choice
