"""The questions of a project: who is asked what about which item, and in which order. All drawn at
sealing, from the seed alone.

    partitioned   each item: ``draws`` different classes, uniformly; the experts of class k are asked "is it k?"
    targeted      (partitioned with chances) one class per item, with the chances that are recorded
    judge-all     ``draws`` annotators an item, each with ``shown`` random classes of their own: a verdict on each
    pick-wrong    the same; the annotator rules one of the classes out
    ordinary      ``draws`` of the ``annotators`` places an item: every two places share nearly equally many items
    grade         ``draws`` of the different answers of systems to an item, or all where there are fewer: is it right?

Beside these *main* questions: *gold* and *attention* items, whose truth is known, are asked about
as if they were others, and *panel* items are put to all K classes. None of them has a main
question. All questions stand in one random order.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import hmac
import itertools
import json
import math
import secrets
import struct
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from noracle.collect.chain import content_hash, routes_root
from noracle.collect.model import EVERYBODY, OTHER, Item, Kind, ProjectSpec, SealedRoute
from noracle.errors import ArgumentError, require
from noracle.files import canonical, digest

SEED_BYTES = 32
_WORDS = struct.Struct(">4Q")
_RANGE = 2**64
_quoted = json.encoder.encode_basestring

Part = str | int
"""A purpose is names and numbers; written as a JSON list, so that no two look alike."""


def new_seed() -> bytes:
    """32 bytes from the operating system."""
    return secrets.token_bytes(SEED_BYTES)


def commitment(seed: bytes) -> str:
    """What is published at sealing: the SHA-256 of the seed, in hexadecimal.

    >>> commitment(bytes(32))[:16]
    '66687aadf862bd77'
    """
    return hashlib.sha256(_check_seed(seed)).hexdigest()


class Stream:
    """The random numbers of one purpose."""

    __slots__ = ("_block", "_purpose", "_seed", "_words")

    def __init__(self, seed: bytes, *purpose: Part) -> None:
        self._seed = seed if type(seed) is bytes and len(seed) == SEED_BYTES else _check_seed(seed)
        self._purpose = f"[{','.join([_quoted(p) if isinstance(p, str) else f'{p:d}' for p in purpose])}]".encode()
        self._block = 0
        self._words: list[int] = []

    def below(self, n: int) -> int:
        """A number from 0 to n - 1, each with chance 1/n.

        >>> stream = Stream(bytes(32), "example")
        >>> [stream.below(6) for _ in range(8)] == [Stream(bytes(32), "example").below(6)] * 8
        False
        """
        if not 0 < n <= _RANGE:
            raise ArgumentError(f"n must be from 1 to 2^64; got {n}.")
        limit = _RANGE - _RANGE % n
        while True:
            if not self._words:
                place = self._block.to_bytes(8, "big")
                block = hmac.digest(self._seed, self._purpose + place, "sha256")
                self._block += 1
                self._words = [*reversed(_WORDS.unpack(block))]
            word = self._words.pop()
            if word < limit:
                return word % n

    def distinct(self, n: int, size: int) -> list[int]:
        """``size`` different numbers below n, in random order (Fisher-Yates)."""
        require(0 <= size <= n, f"size must be from 0 to {n}; got {size}.")
        if size == 1:
            return [self.below(n)]
        values = list(range(n))
        for i in range(size):
            j = i + self.below(n - i)
            values[i], values[j] = values[j], values[i]
        return values[:size]

    def permutation(self, n: int) -> list[int]:
        """The numbers 0 … n - 1 in random order (Fisher-Yates)."""
        return self.distinct(n, n)

    def weighted(self, weights: Sequence[int]) -> int:
        """A place in the list, with a chance in proportion to its whole-numbered weight."""
        left = self.below(sum(weights))
        for i, weight in enumerate(weights):
            left -= weight
            if left < 0:
                return i
        raise ArgumentError("weights must not be negative.")  # pragma: no cover


def permutation(seed: bytes, purpose: str | Sequence[Part], n: int) -> list[int]:
    """The numbers 0 … n - 1 in the random order of this purpose.

    >>> sorted(permutation(bytes(32), "place", 5))
    [0, 1, 2, 3, 4]
    """
    return Stream(seed, *((purpose,) if isinstance(purpose, str) else purpose)).permutation(n)


def shuffle_options(seed: bytes, item: str, n_classes: int) -> tuple[int, ...]:
    """The class that stands at each place of an item's page."""
    return tuple(Stream(seed, "options", item).permutation(n_classes))


def keyed_digest(seed: bytes, purpose: str, value: object) -> str:
    """A commitment to values that must not be guessed from their hash before closing."""
    text = canonical(["commit", purpose]).encode() + canonical(value).encode()
    return hmac.digest(_check_seed(seed), text, "sha256").hex()


def _check_seed(seed: bytes) -> bytes:
    if not isinstance(seed, bytes | bytearray | memoryview) or len(seed) != SEED_BYTES:
        came = f"{type(seed).__name__} of length {len(seed)}"
        raise ArgumentError(f"seed must be {SEED_BYTES} bytes; got {came}.")
    return bytes(seed)


Chances = Mapping[str, Sequence[float]] | None
Hidden = tuple[int | None, Sequence[float] | None]
Items = Sequence[Item]
Options = dict[str, tuple[int, ...]]
Routes = Iterator[SealedRoute]
_route = functools.partial(SealedRoute, -1)  # places are drawn after all questions

_UNIT = 2**53  # chances become whole numbers of this unit, so that they are drawn exactly
_MOST_PLACES = 1000
_NO_TRUTH = "Bring items with a truth, or set gold_rate to 0."
_MOST_SETS = 1500  # up to so many sets of places are listed


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Sealed:
    """A sealed draw: the seed is secret until closing, ``payload`` belongs into the event ``sealed``."""

    seed: bytes
    commitment: str
    root: str
    routes: list[SealedRoute]
    options: Options
    payload: Mapping[str, object]


def seal(
    spec: ProjectSpec, items: Items, *, seed: bytes | None = None, propensities: Chances = None
) -> Sealed:
    """Draw all questions from a fresh seed, and everything that must be published with them.

    >>> from noracle.collect.model import ClassSpec
    >>> spec = ProjectSpec(protocol="partitioned", classes=(ClassSpec(name="cat"), ClassSpec(name="dog")))
    >>> sealed = seal(spec, [Item(name=str(i), content={"text": "…"}) for i in range(5)])
    >>> len(sealed.routes), sorted(sealed.payload)
    (5, ['commitment', 'hidden', 'items', 'n_routes', 'root', 'spec'])
    """
    seed = new_seed() if seed is None else seed
    routes, options = draw_routes(spec, items, seed, propensities=propensities)
    hashes = {item.name: content_hash(item.content) for item in items}
    chances = propensities or {}
    shown = {i.name: (hashes[i.name], options.get(i.name)) for i in items}
    hidden = {i.name: (i.truth, chances.get(i.name)) for i in items}
    public = {"commitment": commitment(seed), "root": routes_root(routes, hashes)}
    digests = {"items": items_digest(shown), "hidden": hidden_digest(seed, hidden)}
    payload = {**public, "n_routes": len(routes), "spec": spec.to_dict(), **digests}
    return Sealed(seed=seed, routes=routes, options=options, payload=payload, **public)


def items_digest(items: Mapping[str, tuple[str, Sequence[int] | None]]) -> str:
    """What is published about items: fingerprint of the content and order of options, by name."""
    shown = sorted(items.items())
    return digest([[name, sha256, order and list(order)] for name, (sha256, order) in shown])


def hidden_digest(seed: bytes, items: Mapping[str, Hidden]) -> str:
    """What is committed to but not shown before closing: truths of gold and recorded chances."""
    hidden = sorted(items.items())
    rows = [[name, t, None if c is None else [*map(float, c)]] for name, (t, c) in hidden]
    return keyed_digest(seed, "hidden", rows)


def draw_routes(
    spec: ProjectSpec, items: Items, seed: bytes, *, propensities: Chances = None
) -> tuple[list[SealedRoute], Options]:
    """Draw every question of a project by its place, and the class at each place of the page for
    items with shuffled options. The draws depend on the names of the items, not on their order.

    ``propensities`` are for a targeted design: the chance of each of the K classes, by item, all
    above 0 (for instance of :func:`noracle.route_items`). One class is drawn.

    The recorded propensity is the chance that a class is asked about for its item: d/K for d of K
    classes without replacement, m/K for m shown classes, the given chance of a targeted class, d/m
    for d of the m different answers to an item, 1 for panel items, and 1 where all classes are
    shown.

    Gold in a partitioned project: n questions of different (item, class) pairs. The number of pairs
    whose right answer is yes is n/K (rounded at random, so that its mean is exact); they are of
    different items. The others ask about uniformly drawn wrong classes. So a pair has the chance
    n/(G·K), whether it is right or wrong, as among main questions, and nothing tells gold from
    others.

    >>> from noracle.collect.model import ClassSpec
    >>> spec = ProjectSpec(protocol="judge-all", classes=tuple(ClassSpec(name=c) for c in "abcdef"), shown=4, draws=2)
    >>> routes, _ = draw_routes(spec, [Item(name="x", content={}), Item(name="y", content={})], bytes(32))
    >>> [(r.place, len(r.shown), round(r.propensity, 3)) for r in routes]
    [(0, 4, 0.667), (1, 4, 0.667), (2, 4, 0.667), (3, 4, 0.667)]
    """
    items = sorted(items, key=lambda item: item.name)
    _check(spec, items, propensities)
    known = [item for item in items if item.truth is not None]
    others = [item for item in items if item.truth is None]
    panel = {*Stream(seed, "panel").distinct(len(others), spec.panel_items)}
    main = [item for i, item in enumerate(others) if i not in panel]
    questions: list[SealedRoute] = []
    if spec.protocol == "partitioned":
        for i, k in itertools.product(sorted(panel), range(spec.n_classes)):
            questions.append(_route(others[i].name, k, "panel", k, (k,), 1.0))
        questions += _asked(spec, main, seed, propensities)
        questions += _gold_pairs(spec, known, _wanted(spec, len(main) * spec.draws), seed)
    else:
        n_gold = min(len(known), max(1, _wanted(spec, len(main)))) if spec.gold_rate else 0
        gold = [known[i] for i in sorted(Stream(seed, "gold").distinct(len(known), n_gold))]
        ask = {"ordinary": _placed, "grade": _replied}.get(spec.protocol, _shown)
        questions += [*ask(spec, main, seed, "main"), *ask(spec, gold, seed, "gold")]
    questions.sort(key=lambda question: (question.item, question.draw))
    places = permutation(seed, "place", len(questions))
    ordered = sorted(q._replace(place=p) for q, p in zip(questions, places, strict=True))
    mixed = [i.name for i in items if spec.shuffle_options and "options" in i.content]
    return ordered, {name: shuffle_options(seed, name, spec.n_classes) for name in mixed}


def _kind_of(item: Item) -> Kind:
    if item.truth is None:
        return "main"
    return "attention" if item.content.get("attention") else "gold"


def _wanted(spec: ProjectSpec, n_main: int) -> int:
    """Number of known questions that makes them the share ``gold_rate`` of main and known ones."""
    return int(n_main * spec.gold_rate / (1 - spec.gold_rate) + 0.5)


def _asked(spec: ProjectSpec, items: Items, seed: bytes, chances: Chances) -> Routes:
    k, uniform = spec.n_classes, spec.draws / spec.n_classes
    for item in items:
        stream = Stream(seed, "route", item.name)
        if chances is None:
            for draw, asked in enumerate(stream.distinct(k, spec.draws)):
                yield _route(item.name, draw, "main", asked, (asked,), uniform)
        else:
            weights = [int(c * _UNIT + 0.5) for c in chances[item.name]]
            asked = stream.weighted(weights)
            yield _route(item.name, 0, "main", asked, (asked,), weights[asked] / sum(weights))


def _gold_pairs(spec: ProjectSpec, known: Sequence[Item], wanted: int, seed: bytes) -> Routes:
    if not spec.gold_rate:
        return
    k, n_items = spec.n_classes, len(known)
    n = min(max(1, wanted), n_items * k)
    stream = Stream(seed, "gold")
    n_yes = n // k + (stream.below(k) < n % k)
    says_yes = {*stream.distinct(n_items, n_yes)}
    each, more = divmod(n - n_yes, n_items)
    one_more = {*stream.distinct(n_items, more)}
    for i, item in enumerate(known):
        truth = int(item.truth or 0)
        wrong = Stream(seed, "gold", item.name).distinct(k - 1, each + (i in one_more))
        pairs = [*([truth] if i in says_yes else []), *(c + (c >= truth) for c in wrong)]
        for draw, asked in enumerate(sorted(pairs)):
            yield _route(item.name, draw, _kind_of(item), asked, (asked,), n / (n_items * k))


def _shown(spec: ProjectSpec, items: Sequence[Item], seed: bytes, purpose: str) -> Routes:
    k, m = spec.n_classes, spec.shown
    for item in items:
        for draw in range(spec.draws):
            shown = tuple(Stream(seed, "shown", purpose, item.name, draw).distinct(k, m))
            yield _route(item.name, draw, _kind_of(item), EVERYBODY, shown, m / k)


def _replied(spec: ProjectSpec, items: Sequence[Item], seed: bytes, purpose: str) -> Routes:
    for item in items:
        replies = item.replies
        most, n = len(replies), min(spec.draws, len(replies))
        for draw, place in enumerate(Stream(seed, "reply", purpose, item.name).distinct(most, n)):
            shown = replies[place] if isinstance(replies[place], int) else place
            yield _route(item.name, draw, _kind_of(item), EVERYBODY, (shown,), n / most)


def _placed(spec: ProjectSpec, items: Sequence[Item], seed: bytes, purpose: str) -> Routes:
    sets = balanced_sets(spec.annotators, spec.draws, len(items))
    names = permutation(seed, ("places", purpose), spec.annotators)
    order = permutation(seed, ("sets", purpose), len(items))
    classes = tuple(range(spec.n_classes))
    for item, chosen in zip(items, order, strict=True):
        for draw, place in enumerate(sorted(names[a] for a in sets[chosen])):
            yield _route(item.name, draw, _kind_of(item), place, classes, 1.0)


def balanced_sets(n_places: int, size: int, n: int) -> list[tuple[int, ...]]:
    """``n`` sets of ``size`` places, such that every two places are together nearly equally often.

    Every possible set is used equally often, which is exactly balanced; the sets that are left over
    are chosen one by one, each with the pairs that were used least. Where there are too many
    possible sets, all are built one by one in this way.

    >>> sorted(balanced_sets(4, 2, 6))
    [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]
    """
    possible = math.comb(n_places, size)
    if possible > _MOST_SETS:
        return _built_sets(n_places, size, n)
    sets = list(itertools.combinations(range(n_places), size))
    rounds, rest = divmod(n, possible)
    return [*sets * rounds, *(sets[i] for i in _least_used(sets, n_places, rest))]


def _least_used(sets: Sequence[tuple[int, ...]], n_places: int, n: int) -> Iterator[int]:
    """``n`` different sets, each adding least to the squared counts of pairs, then of places."""
    member = np.zeros((len(sets), n_places))
    for i, chosen in enumerate(sets):
        member[i, list(chosen)] = 1
    common = member @ member.T  # places that two sets share
    pairs, places, used = np.zeros((3, len(sets)))
    for _ in range(n):
        best = int(np.argmin(used * 1e12 + pairs * 1e6 + places))
        yield best
        used[best] = 1
        pairs += common[best] * (common[best] - 1) / 2
        places += common[best]


def _built_sets(n_places: int, size: int, n: int) -> list[tuple[int, ...]]:
    together, alone = np.zeros((n_places, n_places)), np.zeros(n_places)
    sets = []
    for _ in range(n):
        cost = alone.copy()
        chosen: list[int] = []
        for _ in range(size):
            best = int(np.argmin(cost))
            chosen.append(best)
            cost += together[best] * 1e6
            cost[best] = np.inf
        alone[chosen] += 1
        together[np.ix_(chosen, chosen)] += 1
        sets.append(tuple(sorted(chosen)))
    return sets


def _check(spec: ProjectSpec, items: Sequence[Item], chances: Chances) -> None:
    k, n_known = spec.n_classes, sum(item.truth is not None for item in items)
    for before, item in zip([None, *items], items, strict=False):
        name, truth, content = item.name, item.truth, item.content
        once = before is None or before.name != name
        require(once, f"items must have different names; got {name!r} twice.")
        is_class = truth is None or 0 <= truth < k
        require(is_class, f"truth must be in [0, {k}), a class; got another at item {name!r}.")
        rule = f"items must have 1 to {OTHER} different answers to grade; got others at {name!r}."
        require(spec.protocol != "grade" or 1 <= len(item.replies) <= OTHER, rule)
        rule = f"items with a truth must have one answer; got {len(item.replies)} at {name!r}."
        require(not spec.texts or truth is None or len(item.replies) == 1, rule)
        rule = f"options must be as many as classes, {k}; got another number at item {name!r}."
        require("options" not in content or spec.texts or len(content["options"]) == k, rule)
        rule = f"an attention item must have a truth; got none at item {name!r}."
        require(truth is not None or not content.get("attention"), rule)
    rule = f"annotators must be at most {_MOST_PLACES}; got {spec.annotators}."
    require(spec.protocol != "ordinary" or spec.annotators <= _MOST_PLACES, rule)
    n, extra = len(items), n_known + spec.panel_items
    require(n > extra, f"items must be more than gold and panel items, {extra}; got {n}.")
    rule = "gold_rate must be above 0 just where items have a truth"
    remedy = "Set gold_rate, or leave the truth out." if n_known else _NO_TRUTH
    came = f"{spec.gold_rate} and {n_known} such items"
    require(bool(n_known) == bool(spec.gold_rate), f"{rule}; got {came}. {remedy}")
    if chances is not None:
        _check_chances(spec, items, chances)


def _check_chances(spec: ProjectSpec, items: Sequence[Item], chances: Chances) -> None:
    k, rule = spec.n_classes, "propensities must be left out unless partitioned with one draw"
    one = spec.protocol == "partitioned" and spec.draws == 1
    require(one, f"{rule}; got {spec.protocol}, {spec.draws} draws.")
    for item in items:
        name, given = item.name, (chances or {}).get(item.name)
        known = given is not None or item.truth is not None
        require(known, f"propensities must name every item; got none for {name!r}.")
        fine = given is None or (len(given) == k and all(1e-9 <= c <= 1 for c in given))
        if given is not None and not (fine and abs(math.fsum(given) - 1) <= 1e-9):
            rule = f"propensities must be {k} chances above 0 with sum 1"
            raise ArgumentError(f"{rule}; got {list(given)} at item {name!r}.")
