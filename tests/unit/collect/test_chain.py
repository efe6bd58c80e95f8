"""Hashes are over canonical JSON; the tree and the chain betray every change."""

from __future__ import annotations

import hashlib
import math

import pytest

from noracle.collect.chain import (
    answers_hash,
    canonical,
    content_hash,
    digest,
    event_hash,
    merkle_root,
    routes_root,
)
from noracle.collect.model import SealedRoute
from noracle.errors import ArgumentError


def _node(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def reference_root(leaves: list[str]) -> bytes:
    """RFC 6962, section 2.1, by recursion: split at the largest power of two below n."""
    if not leaves:
        return _node(b"")
    if len(leaves) == 1:
        return _node(b"\x00" + leaves[0].encode())
    k = 1 << (len(leaves) - 1).bit_length() - 1
    return _node(b"\x01" + reference_root(leaves[:k]) + reference_root(leaves[k:]))


@pytest.mark.parametrize("n", [*range(18), 31, 32, 33, 100])
def test_root_is_that_of_rfc_6962(n: int) -> None:
    leaves = [f"leaf {i} é" for i in range(n)]
    assert merkle_root(leaves) == reference_root(leaves).hex()


def test_an_inner_node_cannot_pass_as_a_leaf() -> None:
    left, right = (_node(b"\x00" + leaf.encode()) for leaf in ("a", "b"))
    assert merkle_root([(left + right).decode("latin-1")]) != merkle_root(["a", "b"])


def test_a_leaf_is_canonical_json_of_the_route_and_the_item() -> None:
    for shown in ((3,), (3, 1, 2)):
        route = SealedRoute(
            place=7, item='a "ß"\n\u2028', draw=1, kind="main", pool=3, shown=shown, propensity=0.1
        )
        expected = {
            "place": 7,
            "item": 'a "ß"\n\u2028',
            "draw": 1,
            "kind": "main",
            "pool": 3,
            "shown": list(shown),
            "propensity": 0.1,
            "sha256": "ab",
        }
        assert routes_root([route], {route.item: "ab"}) == merkle_root([canonical(expected)])


def test_an_event_is_hashed_as_canonical_json() -> None:
    event = {
        "seq": 3,
        "at": 1234567.125,
        "actor": 'a"\u00e9\x01',
        "kind": "answer",
        "payload": '{"value":"yes\\n"}',
    }
    expected = digest({**event, "prev": "ff"})
    assert event_hash("ff", **event) == expected
    assert event_hash("ff", **{**event, "at": 5}) == digest(
        {**event, "prev": "ff", "at": 5.0}
    )  # databases give floats


def test_every_part_of_an_event_changes_its_hash() -> None:
    event = {"seq": 3, "at": 1.5, "actor": "a", "kind": "answer", "payload": "{}"}
    changed = [
        ("seq", 4),
        ("at", math.nextafter(1.5, 2)),
        ("actor", "b"),
        ("kind", "look"),
        ("payload", "{ }"),
    ]
    hashes = {
        event_hash("", **event),
        event_hash("0", **event),
        *(event_hash("", **{**event, k: v}) for k, v in changed),
    }
    assert len(hashes) == 7


def test_canonical_json_has_one_form() -> None:
    assert canonical({"b": 1, "a": [0.1, 1e22, None, True]}) == '{"a":[0.1,1e+22,null,true],"b":1}'
    assert digest({"b": 1, "a": 2}) == digest({"a": 2, "b": 1}) == _node(b'{"a":2,"b":1}').hex()
    assert content_hash({"text": "ä"}) == hashlib.sha256('{"text":"ä"}'.encode()).hexdigest()
    assert answers_hash({"a": None}) == _node(b'{"a":null}').hex()


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), {1, 2}, b"x", "\ud800", {"a": object()}]
)
def test_what_json_cannot_say_is_refused(value: object) -> None:
    with pytest.raises(ArgumentError, match="value must be JSON"):
        canonical(value)
