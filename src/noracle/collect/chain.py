"""Canonical JSON, hashes, the Merkle tree of the routes and the chain of the events.

Everything that is committed to goes through :func:`canonical`, so that the same values have the
same bytes on every machine. Leaves and inner nodes of the tree begin with different bytes: no leaf
can pass as a node. The tree is that of RFC 6962 (an odd node moves up whole).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from noracle.collect.model import Route
from noracle.errors import ArgumentError

_quoted = json.encoder.encode_basestring  # as JSON writes a text when it keeps letters beyond ASCII
_encode = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":")
).encode
_sha256 = hashlib.sha256
_LEAF, _NODE = b"\x00", b"\x01"


def canonical(value: object) -> str:
    """JSON with sorted names and without spaces; floats as ``repr`` writes them.

    Examples
    --------
    >>> canonical({"b": 0.1, "a": [1, None, "é"]})
    '{"a":[1,null,"é"],"b":0.1}'
    """
    try:
        text = _encode(value)
        text.encode()
    except (TypeError, ValueError) as error:  # UnicodeEncodeError is a ValueError
        raise ArgumentError(
            f"value must be JSON: text in UTF-8, finite numbers, lists and names; got something else ({error})."
        ) from None
    return text


def digest(value: object) -> str:
    """SHA-256 of the canonical JSON, in hexadecimal."""
    return _sha256(canonical(value).encode()).hexdigest()


def content_hash(content: Mapping[str, Any]) -> str:
    """The fingerprint of an item's content, which every route of the item carries."""
    return digest(dict(content))


def answers_hash(answers: Mapping[str, int | None]) -> str:
    """The fingerprint of a system's answers, by item; None where it gave none.

    Examples
    --------
    >>> answers_hash({"b": None, "a": 2}) == answers_hash({"a": 2, "b": None})
    True
    """
    return digest(dict(answers))


def event_hash(prev: str, *, seq: int, at: float, actor: str, kind: str, payload: str) -> str:
    """The hash of one event of a chain.

    SHA-256 of canonical({actor, at, kind, payload, prev, seq}). Each event holds the hash of the
    one before it, so that no event can be changed, left out or moved without a change of the last
    hash.

    Parameters
    ----------
    prev
        The hash of the event before; "" for the first.
    seq
        1, 2, 3, … without gaps.
    payload
        The canonical JSON text as it is stored, not the object.

    Examples
    --------
    >>> first = event_hash("", seq=1, at=0.0, actor="system", kind="created", payload="{}")
    >>> first != event_hash("", seq=1, at=0.0, actor="system", kind="created", payload='{"a":1}')
    True
    """
    # The same text as canonical() would write, at a third of the time.
    who = f'"actor":{_quoted(actor)},"at":{float(at)!r},"kind":{_quoted(kind)}'
    record = f'{{{who},"payload":{_quoted(payload)},"prev":{_quoted(prev)},"seq":{seq}}}'
    return _sha256(record.encode()).hexdigest()


def route_leaf(route: Route, sha256: str) -> str:
    """What the tree commits to for one question: the whole route and the fingerprint of its item's
    content, as canonical JSON.
    """
    return leaf_text(
        (
            route.place,
            route.item,
            route.draw,
            route.kind,
            route.pool,
            route.shown,
            route.propensity,
        ),
        sha256,
    )


def leaf_text(fields: tuple[int, str, int, str, int, Sequence[int], float], sha256: str) -> str:
    """As :func:`route_leaf`, from the fields of a route in their order."""
    place, item, draw, kind, pool, shown, propensity = fields
    classes = (
        f"{shown[0]!r}" if len(shown) == 1 and type(shown[0]) is int else _encode(list(shown))[1:-1]
    )
    return (
        f'{{"draw":{draw},"item":{_quoted(item)},"kind":{_quoted(kind)},"place":{place},"pool":{pool},"propensity":{propensity!r},'
        f'"sha256":{_quoted(sha256)},"shown":[{classes}]}}'
    )


def routes_root(routes: Sequence[Route], hashes: Mapping[str, str]) -> str:
    """The Merkle root of the routes in the order of their places; ``hashes`` has the content's
    fingerprint of each item.
    """
    ordered = sorted(routes, key=lambda route: route.place)
    return merkle_root([route_leaf(route, hashes[route.item]) for route in ordered])


def merkle_root(leaves: Sequence[str]) -> str:
    """The root of the binary tree over the leaves.

    Examples
    --------
    >>> merkle_root(["a", "b"]) != merkle_root(["b", "a"]), merkle_root([]) == sha256_hex(b"")
    (True, True)
    """
    level = [_sha256(_LEAF + leaf.encode()).digest() for leaf in leaves]
    while len(level) > 1:
        level = _up(level)
    return level[0].hex() if level else sha256_hex(b"")


def merkle_proof(leaves: Sequence[str], index: int) -> list[str]:
    """The neighbours on the way from one leaf to the root: each with "L" or "R", the side on which
    it stands.

    Examples
    --------
    >>> proof = merkle_proof(["a", "b", "c"], 2)
    >>> [step[0] for step in proof], proof_holds("c", proof, merkle_root(["a", "b", "c"]))
    (['L'], True)
    """
    if not 0 <= index < len(leaves):
        raise ArgumentError(
            f"index must be in [0, {len(leaves)}), the number of leaves; got {index}."
        )
    level = [_sha256(_LEAF + leaf.encode()).digest() for leaf in leaves]
    steps = []
    while len(level) > 1:
        beside = index ^ 1
        if beside < len(level):
            steps.append(("L" if beside < index else "R") + level[beside].hex())
        level, index = _up(level), index // 2
    return steps


def proof_holds(leaf: str, proof: Sequence[str], root: str) -> bool:
    """Whether the leaf is part of the tree with this root."""
    node = _sha256(_LEAF + leaf.encode()).digest()
    try:
        for step in proof:
            beside = bytes.fromhex(step[1:])
            if step[:1] not in ("L", "R") or len(beside) != 32:
                return False
            node = _sha256(_NODE + (beside + node if step[0] == "L" else node + beside)).digest()
    except ValueError:
        return False
    return node.hex() == root


def _up(level: list[bytes]) -> list[bytes]:
    above = [_sha256(_NODE + level[i] + level[i + 1]).digest() for i in range(0, len(level) - 1, 2)]
    if len(level) % 2:
        above.append(level[-1])
    return above


def sha256_hex(data: bytes) -> str:
    """SHA-256 of bytes, in hexadecimal."""
    return _sha256(data).hexdigest()
