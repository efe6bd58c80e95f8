"""Hashes, the Merkle tree of the routes and the chain of the events.

Everything that is committed to goes through :func:`canonical`, so that the same values have the
same bytes on every machine. Leaves and inner nodes of the tree begin with different bytes: no leaf
can pass as a node. The tree is that of RFC 6962 (an odd node moves up whole).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from noracle.collect.model import SealedRoute
from noracle.files import canonical, digest, encode_plain

_quoted = json.encoder.encode_basestring  # as JSON writes a text when it keeps letters beyond ASCII
_sha256 = hashlib.sha256
_LEAF, _NODE = b"\x00", b"\x01"


def content_hash(content: Mapping[str, Any]) -> str:
    """The fingerprint of an item's content, which every route of the item carries."""
    return digest(dict(content))


def answers_hash(answers: Mapping[str, int | str | None]) -> str:
    """The fingerprint of a system's answers, by item; None where it gave none.

    >>> answers_hash({"b": None, "a": 2}) == answers_hash({"a": 2, "b": None})
    True
    """
    return digest(dict(answers))


def salted_hash(salt: str, answers: Mapping[str, int | str | None]) -> str:
    """The commitment to a system's answers: SHA-256 of the salt and their canonical JSON.

    Without the salt few items and classes could be guessed from the hash.

    >>> salted_hash("00", {"a": 2}) == hashlib.sha256(b'00{"a":2}').hexdigest()
    True
    """
    return _sha256((salt + canonical(dict(answers))).encode()).hexdigest()


SKEW = 5.0
"""Seconds by which the clocks of several server processes may differ."""
STEPPED = "clock-stepped"


class ClockStep(NamedTuple):
    """A step of the clock that was logged under the time ``at``; it went back to ``to``."""

    at: float
    to: float


Clamped = tuple[float, dict[str, float] | None]


def clamped(at: float, last: float, step: ClockStep | None = None) -> Clamped:
    """The time under which an event is logged, never before that of the ``last`` one; and what to
    log before it where the clock stepped back. ``step`` is the latest that was logged: while times
    stand still, it is not told again.

    >>> clamped(11.0, 10.0), clamped(8.0, 10.0)
    ((11.0, None), (10.0, None))
    >>> clamped(-3590.0, 10.0)
    (10.0, {'by': -3600.0, 'from': 10.0, 'to': -3590.0})
    >>> clamped(-3580.0, 10.0, ClockStep(10.0, -3590.0))
    (10.0, None)
    """
    known = step is not None and step.at == last and at >= step.to - SKEW
    if known or at >= last - SKEW:
        return max(at, last), None
    return last, {"by": at - last, "from": last, "to": at}


def event_hash(prev: str, *, seq: int, at: float, actor: str, kind: str, payload: str) -> str:
    """SHA-256 of canonical({actor, at, kind, payload, prev, seq}); ``payload`` is the text as it is
    stored, ``prev`` the hash of the event before, so that none can be changed, left out or moved.

    >>> first = event_hash("", seq=1, at=0.0, actor="system", kind="created", payload="{}")
    >>> first != event_hash("", seq=1, at=0.0, actor="system", kind="created", payload='{"a":1}')
    True
    """
    # The same text as canonical() would write, at a third of the time.
    who = f'"actor":{_quoted(actor)},"at":{float(at)!r},"kind":{_quoted(kind)}'
    record = f'{{{who},"payload":{_quoted(payload)},"prev":{_quoted(prev)},"seq":{seq}}}'
    return _sha256(record.encode()).hexdigest()


def leaf_text(route: Sequence[Any], sha256: str) -> str:
    """What the tree commits to: a route (its fields in order) and its item, as canonical JSON."""
    place, item, draw, kind, pool, shown, propensity = route
    single = len(shown) == 1 and type(shown[0]) is int
    classes = f"{shown[0]!r}" if single else encode_plain(list(shown))[1:-1]
    return (
        f'{{"draw":{draw},"item":{_quoted(item)},"kind":{_quoted(kind)},"place":{place},'
        f'"pool":{pool},"propensity":{propensity!r},"sha256":{_quoted(sha256)},"shown":[{classes}]}}'
    )


def routes_root(routes: Iterable[SealedRoute], hashes: Mapping[str, str]) -> str:
    """The Merkle root of the routes by their places; ``hashes`` has the fingerprint of each item."""
    return merkle_root([leaf_text(route, hashes[route.item]) for route in sorted(routes)])


def merkle_root(leaves: Sequence[str]) -> str:
    """The root of the binary tree over the leaves.

    >>> merkle_root(["a", "b"]) != merkle_root(["b", "a"]), merkle_root([])[:8]
    (True, 'e3b0c442')
    """
    level = [_sha256(_LEAF + leaf.encode()).digest() for leaf in leaves]
    while len(level) > 1:
        pairs = zip(level[::2], level[1::2], strict=False)
        odd = level[-1:] if len(level) % 2 else []
        level = [_sha256(_NODE + left + right).digest() for left, right in pairs] + odd
    return level[0].hex() if level else _sha256(b"").hexdigest()
