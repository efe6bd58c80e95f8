"""The JSON Schemas (draft 2020-12) of everything that noracle writes: one file for each version,
kept for good.

A file ``estimate-1.json`` describes values whose ``"schema"`` is ``"estimate/1"``. They need
nothing to be read, and refer to each other by ``urn:noracle:schema:estimate:1``.
"""

from __future__ import annotations

import importlib.resources
import json
from typing import Any

from noracle.errors import ArgumentError


def schema_names() -> tuple[str, ...]:
    """Return the names that a ``"schema"`` field can have, sorted.

    Examples
    --------
    >>> "estimate/1" in schema_names()
    True
    """
    files = importlib.resources.files(__name__).iterdir()
    return tuple(
        sorted(
            "/".join(f.name.removesuffix(".json").rsplit("-", 1))
            for f in files
            if f.name.endswith(".json")
        )
    )


def load_schema(name: str) -> dict[str, Any]:
    """Return the JSON Schema of ``name``.

    Parameters
    ----------
    name
        What the ``"schema"`` field says, for example ``"estimate/1"``.

    Examples
    --------
    >>> load_schema("estimate/1")["title"]
    'A number with an interval and the promise behind it'
    """
    if name not in schema_names():
        raise ArgumentError(f"name must be one of {', '.join(schema_names())}; got {name!r}.")
    text = (importlib.resources.files(__name__) / f"{name.replace('/', '-')}.json").read_text(
        encoding="utf-8"
    )
    return dict(json.loads(text))
