"""The check of the files: fields, types and order of the records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from operator import ge, itemgetter

from noracle.collect.archive import FORMAT, KEYS, TABLES, Archive, Record
from noracle.collect.chain import canonical
from noracle.collect.model import ProjectSpec

_MAY: dict[str, tuple[type, ...]] = {
    "text": (str,),
    "number": (int,),
    "decimal": (float,),
    "list": (list,),
    "object": (dict,),
    "flag": (bool,),
}
_FIELDS: dict[str, dict[str, str]] = {
    "project": {
        "format": "text",
        "texts": "flag",
        "spec": "object",
        "seed": "text?",
        "slug": "text",
        "name": "text",
        "state": "text",
        "commitment": "text?",
        "root": "text?",
        "created_at": "decimal",
        "sealed_at": "decimal?",
        "opened_at": "decimal?",
        "closed_at": "decimal?",
        "n_routes": "number",
        "last_seq": "number",
        "head": "text",
    },
    "items": {
        "name": "text",
        "sha256": "text",
        "options": "list?",
        "truth": "number?",
        "chances": "list?",
        "content": "object?",
    },
    "routes": {
        "place": "number",
        "item": "text",
        "draw": "number",
        "kind": "text",
        "pool": "number",
        "shown": "list",
        "propensity": "decimal",
    },
    "answers": {
        "answer": "number",
        "question": "number",
        "place": "number",
        "draw": "number",
        "revision": "number",
        "rater": "text",
        "value": "text",
        "shown_at": "decimal",
        "received_at": "decimal",
    },
    "events": {
        "seq": "number",
        "at": "decimal",
        "actor": "text",
        "kind": "text",
        "payload": "text",
        "prev": "text",
        "hash": "text",
    },
    "systems": {"system": "text", "sha256": "text", "uploaded_at": "decimal"},
    "predictions": {"system": "text", "item": "text", "answer": "number?"},
    "judgements": {
        "item": "text",
        "class": "number?",
        "verdict": "text",
        "rater": "text",
        "propensity": "decimal",
        "at": "decimal",
        "kind": "text",
        "draw": "number",
        "question": "number",
    },
}


def faults_of_files(archive: Archive) -> Iterator[str]:
    """One line for each record that has not the shape of its file."""
    yield from _shape("project", [archive.project])
    for name in TABLES:
        records = archive.table(name)
        yield from _shape(name, records)
    for name, keys in KEYS.items():
        order = [*map(itemgetter(*keys), archive.table(name))]
        if any(map(ge, order, order[1:])):
            place = next(i for i, (a, b) in enumerate(pairwise(order)) if a >= b)
            yield f"{name}.jsonl must be in the order of {', '.join(keys)}, each once; line {place + 2} is not"
    if archive.project["format"] != FORMAT:
        yield f"project.json must be of format {FORMAT!r}"
    spec = ProjectSpec.from_dict(archive.project["spec"])
    if canonical(spec.to_dict()) != canonical(archive.project["spec"]):
        yield "project.json: spec must be whole"


def _shape(name: str, records: Sequence[Record]) -> Iterator[str]:
    fields = _FIELDS[name]
    may = {
        field: {*_MAY[kind.rstrip("?")], *((type(None),) if kind.endswith("?") else ())}
        for field, kind in fields.items()
    }
    try:
        wrong = [
            field
            for field in fields
            if not may[field].issuperset(map(type, map(itemgetter(field), records)))
        ]
        whole = {*map(len, records)} <= {len(fields)}
    except KeyError:
        wrong, whole = [], False
    if not whole:
        for i, record in enumerate(records, start=1):
            if record.keys() != fields.keys():
                yield f"{name}, record {i}: the fields must be {', '.join(fields)}; got {', '.join(map(str, record))[:200]}"
        return
    for field in wrong:
        for i, record in enumerate(records, start=1):
            if type(record[field]) not in may[field]:
                yield f"{name}, record {i}: {field} must be a {fields[field].rstrip('?')}; got {str(record[field])[:60]!r}"
