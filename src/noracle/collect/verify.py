"""Does an export hold? Everything is recomputed from the file alone, without a database or a
network.

    files      every record has its fields, each of its kind, in its order, once
    events     the chain is whole: numbers without gaps, each hash right, and the last one is the head
    life       created, sealed, opened, closed: once, in this order, at the times of the project
    seal       commitment, specification, items and (when closed) truths and chances are those that were sealed
    routes     the Merkle root is that of the routes
    draws      (when closed) the seed gives just these routes and orders of options
    answers    each answer is that of one event, to a drawn question, by a member of its pool, while the project was open; first answers
               are unique, amendments follow in order, and places were answered in the drawn order
    systems    added after sealing; their answers are those whose hash was logged
    judgements are what the first answers say

What a whole new file would hide must be held against what was published: the commitment, the root,
or the head of the chain at some time.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice, pairwise
from operator import ge, itemgetter
from typing import Any, Literal

from noracle.collect.archive import (
    AGAIN,
    FORMAT,
    KEYS,
    TABLES,
    Archive,
    Record,
    judgements_of,
    undisturbed,
)
from noracle.collect.chain import (
    answers_hash,
    canonical,
    content_hash,
    event_hash,
    leaf_text,
    merkle_root,
)
from noracle.collect.model import EVERYBODY, Item, ProjectSpec
from noracle.collect.protocols import draw_questions, hidden_digest, items_digest
from noracle.errors import NoracleError

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


# The check of the
# answers: each with its event, its question, and the state of the project at that moment.


SKEW = 5.0
"""Seconds by which the clocks of several server processes may differ."""
_PAYLOAD = {"answer", "question", "place", "revision", "value", "shown_at", "received_at"}
_said = itemgetter(*sorted(_PAYLOAD))
_VERDICTS = frozenset(("yes", "no", "unsure"))


def faults_of_answers(archive: Archive, parsed: Sequence[tuple[Record, Any]]) -> Iterator[str]:
    """Go through the events in order, as they happened; one line for each fault."""
    walk = _Walk(archive)
    for event, payload in parsed:
        kind = event["kind"]
        if kind in ("answer", "amended"):
            yield from walk.answered(event, payload)
        elif kind == "joined":
            walk.joined(event, payload)
        elif kind == "lease-expired":
            walk.expired(event, payload)
        elif kind == "opened":
            walk.is_open = True
        elif kind == "closed":
            walk.is_open = False
    for answer in walk.answers.keys() - walk.seen:
        yield f"answer {answer} has no event: it was added"


class _Walk:
    """What is known at a moment of the chain."""

    def __init__(self, archive: Archive) -> None:
        self.spec: ProjectSpec = archive.spec
        self.period = (archive.project["opened_at"], archive.project["closed_at"])
        self.routes = archive.routes
        self.answers = {row["answer"]: row for row in archive.answers}
        self.is_open = False
        self.seen: set[int] = set()
        self.pools: dict[str, set[int]] = defaultdict(set)
        self.members: Counter[int] = Counter()
        self.first: dict[int, list[Record]] = {}  # first answers by place, in order
        self.last: dict[int, Record] = {}  # latest revision by question
        self.items: set[tuple[str, str]] = set()  # rater and item
        self.held: set[tuple[str, str]] = set()  # the same, where a question went back unanswered
        self.order = _Order(archive.routes)

    def joined(self, event: Record, payload: Mapping[str, Any]) -> None:
        alias, pool = payload.get("alias", event["actor"]), payload.get("pool")
        if pool is None and payload.get("role") == "annotator" and self.spec.pools == (EVERYBODY,):
            pool = EVERYBODY
        if pool is not None and pool not in self.pools[alias]:
            self.pools[alias].add(pool)
            self.members[pool] += 1

    def expired(self, event: Record, payload: Mapping[str, Any]) -> None:
        place = payload.get("place")
        if type(place) is int and 0 <= place < len(self.routes):
            self.held.add((event["actor"], self.routes[place]["item"]))

    def answered(self, event: Record, payload: Mapping[str, Any]) -> Iterator[str]:
        seq, number = event["seq"], payload.get("answer")
        row = self.answers.get(number) if type(number) is int else None
        if row is None:
            yield f"event {seq} tells of answer {number}, which is missing"
            return
        if row["answer"] in self.seen:
            yield f"answer {number} must have one event; event {seq} is another"
            return
        self.seen.add(row["answer"])
        for name in (
            sorted(_PAYLOAD) if _PAYLOAD - payload.keys() or _said(payload) != _said(row) else ()
        ):
            if name not in payload or payload[name] != row[name]:
                yield f"answer {number}: {name} must be as event {seq} says, {payload.get(name)!r}; got {row[name]!r}"
        if event["actor"] != row["rater"] or event["at"] != row["received_at"]:
            yield f"answer {number}: rater and time must be as event {seq} says"
        yield from self._allowed(row, seq)
        yield from self._amended(row) if event["kind"] == "amended" else self._first(row)

    def _allowed(self, row: Record, seq: int) -> Iterator[str]:
        number, place = row["answer"], row["place"]
        if not 0 <= place < len(self.routes):
            yield f"answer {number} must be to a drawn question; there is no place {place}"
            return
        route = self.routes[place]
        opened, closed = self.period
        if not self.is_open:
            yield f"answer {number} must have come while the project was open; event {seq} is outside"
        elif row["received_at"] < (opened or 0) - SKEW or (
            closed is not None and row["received_at"] > closed + SKEW
        ):
            yield f"answer {number} must have come while the project was open; its time is outside"
        if route["pool"] not in self.pools.get(row["rater"], ()):
            yield f"answer {number}: {row['rater']} was no member of pool {route['pool']} at that time"
        if not _fits(self.spec, route["shown"], row["value"]):
            yield f"answer {number}: {row['value'][:40]!r} is no answer to its question"

    def _first(self, row: Record) -> Iterator[str]:
        number, place, rater = row["answer"], row["place"], row["rater"]
        if row["revision"]:
            yield f"answer {number} must be a first answer, as its event says; got revision {row['revision']}"
        if not 0 <= place < len(self.routes):
            return
        route, before = self.routes[place], self.first.setdefault(place, [])
        if row["draw"] != route["draw"] + AGAIN * len(before):
            yield f"answer {number} must be to draw {route['draw'] + AGAIN * len(before)} of place {place}; got {row['draw']}"
        if before and (
            len(before) > self.spec.reasks
            or route["kind"] != "main"
            or {*before[-1]["value"].split("|")} != {"unsure"}
        ):
            yield f"place {place} must have one first answer; answer {number} is another"
        if row["question"] in self.last:
            yield f"question {row['question']} must have one first answer; answer {number} is another"
        if (rater, route["item"]) in self.items:
            yield f"answer {number}: {rater} was asked twice about item {route['item']!r}"
        if not before:
            # Each other member holds one question at most; twice as many may be on their way back.
            # What the rater may not be asked, because they know the item, is not skipped.
            most = 2 * self.members[route["pool"]]
            earlier = (
                (p, (rater, self.routes[p]["item"]))
                for p in self.order.passed_over(route["pool"], place)
            )
            passed = (
                p for p, known in earlier if known not in self.items and known not in self.held
            )
            if sum(1 for _ in islice(passed, most + 1)) > most:
                yield f"answer {number}: place {place} was answered before more than {most} earlier places of its pool"
        before.append(row)
        self.last[row["question"]] = row
        self.items.add((rater, route["item"]))

    def _amended(self, row: Record) -> Iterator[str]:
        number, last = row["answer"], self.last.get(row["question"])
        if last is None:
            yield f"answer {number} amends question {row['question']}, which was not answered"
            return
        wanted = (last["revision"] + 1, last["place"], last["draw"], last["rater"])
        if (row["revision"], row["place"], row["draw"], row["rater"]) != wanted:
            yield f"answer {number} must be revision {wanted[0]} of question {row['question']}, by the same rater"
        self.last[row["question"]] = row


class _Order:
    """Which earlier places of a pool are still without an answer. People of one pool hold a
    question each, so a few may be.
    """

    def __init__(self, routes: Sequence[Record]) -> None:
        self.places: dict[int, list[int]] = defaultdict(list)
        for route in routes:
            self.places[route["pool"]].append(route["place"])
        self.next: Counter[int] = Counter()
        self.open: dict[int, list[int]] = defaultdict(list)

    def passed_over(self, pool: int, place: int) -> list[int]:
        """The open places before this one, which is answered now."""
        places, left = self.places[pool], self.open[pool]
        at = bisect_left(places, place)
        if at >= self.next[pool]:
            left.extend(places[self.next[pool] : at])
            self.next[pool] = at + 1
            return left
        where = bisect_left(left, place)
        if where < len(left) and left[where] == place:
            del left[where]
        return left[:where]


def _fits(spec: ProjectSpec, shown: Sequence[int], value: str) -> bool:
    if spec.protocol == "partitioned":
        return value in _VERDICTS
    if spec.protocol == "judge-all":
        parts = value.split("|")
        return len(parts) == len(shown) and _VERDICTS.issuperset(parts)
    return (
        value == "unsure"
        or (spec.trap and spec.protocol == "pick-wrong" and value == "none")
        or value in map(str, shown)
    )


Status = Literal["holds", "fails", "not yet", "not looked at"]
_SHOWN = 5
_STATES = {"draft": 1, "sealed": 2, "open": 3, "closed": 4}
_LIFE = ("created", "sealed", "opened", "closed")
_fields = itemgetter("place", "item", "draw", "kind", "pool", "shown", "propensity")
_content = itemgetter("seq", "at", "actor", "kind", "payload")
_BROKEN = (
    KeyError,
    TypeError,
    ValueError,
    AttributeError,
    IndexError,
    ArithmeticError,
    RecursionError,
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """One check: how it ended, and the first of the faults that were found."""

    name: str
    status: Status
    findings: tuple[str, ...] = ()
    n_findings: int = 0
    note: str = ""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """What the checks of an archive found. ``revealed`` says whether the seed is there, so that the
    draws could be made again.
    """

    checks: tuple[Checked, ...]
    project: str
    state: str
    revealed: bool
    commitment: str
    root: str
    head: str
    counts: Mapping[str, int]

    @property
    def passed(self) -> bool:
        """No fault was found."""
        return not any(
            check.findings or check.status in ("fails", "not looked at") for check in self.checks
        )

    @property
    def findings(self) -> tuple[str, ...]:
        """The faults in words."""
        return tuple(f"{check.name}: {line}" for check in self.checks for line in check.findings)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "schema": "collection-check/1",
            "verified": self.passed,
            **dataclasses.asdict(self),
            "findings": list(self.findings),
        }


@undisturbed()
def verify_archive(archive: Archive, *, published: Sequence[str] = ()) -> Verification:
    """Check an export of a project.

    Parameters
    ----------
    archive
        From :func:`noracle.collect.archive.read_archive`.
    published
        Values that were written down while the project ran: the commitment, the root, or the head
        of the chain at any time. Each must be found in the archive.

    Notes
    -----
    Without the seed (before closing) the draws cannot be made again, and truths are not in the
    file; everything else is checked.
    """
    project = archive.project
    checks = [_run("files", lambda: faults_of_files(archive))]
    if not checks[0].findings:
        parsed: list[tuple[Record, Any]] = []
        for name, faults in (
            ("events", lambda: _events(archive, parsed)),
            ("life", lambda: _life(project, parsed)),
            ("seal", lambda: _seal(archive, parsed)),
            ("routes", lambda: _routes(archive)),
            ("draws", lambda: _draws(archive)),
            ("answers", lambda: faults_of_answers(archive, parsed)),
            ("systems", lambda: _systems(archive, parsed)),
            ("judgements", lambda: _judgements(archive)),
            ("published", lambda: _published(archive, published)),
        ):
            if name == "draws" and not project["seed"]:
                checks.append(
                    Checked(
                        name=name,
                        status="not yet",
                        note="the seed is revealed when the project is closed",
                    )
                )
            elif name == "draws" and any(c.findings for c in checks):
                checks.append(
                    Checked(name=name, status="not looked at", note="because of the faults above")
                )
            elif name != "published" or published:
                checks.append(_run(name, faults))
    return Verification(
        checks=tuple(checks),
        project=str(project.get("slug")),
        state=str(project.get("state")),
        revealed=bool(project.get("seed")),
        commitment=str(project.get("commitment") or ""),
        root=str(project.get("root") or ""),
        head=str(project.get("head") or ""),
        counts={name: len(archive.table(name)) for name in TABLES},
    )


def _run(name: str, faults: Callable[[], Iterator[str]]) -> Checked:
    found: list[str] = []
    total = 0
    try:
        for line in faults():
            total += 1
            if total <= _SHOWN:
                found.append(line)
    except NoracleError as error:
        found, total = [*found, str(error)], total + 1
    except _BROKEN as error:
        found, total = (
            [*found, f"the records cannot be read ({type(error).__name__}: {str(error)[:100]})"],
            total + 1,
        )
    return Checked(
        name=name, status="fails" if found else "holds", findings=tuple(found), n_findings=total
    )


def _events(archive: Archive, parsed: list[tuple[Record, Any]]) -> Iterator[str]:
    """Fills ``parsed`` with each event and its payload."""
    prev = ""
    for i, event in enumerate(archive.events, start=1):
        if event["seq"] != i:
            yield f"event {i} must have the number {i}; got {event['seq']}"
        if event["prev"] != prev:
            yield f"event {i} must name the hash of the event before it"
        prev = event["hash"]
        made = event_hash(
            event["prev"],
            seq=event["seq"],
            at=event["at"],
            actor=event["actor"],
            kind=event["kind"],
            payload=event["payload"],
        )
        if made != prev:
            yield f"event {i} ({event['kind']}) was changed: its hash is not that of its content"
    if (archive.project["last_seq"], archive.project["head"]) != (len(archive.events), prev):
        yield f"the head of the chain must be that of event {len(archive.events)}, the last one"
    payloads = json.loads(f"[{','.join([event['payload'] for event in archive.events])}]")
    if len(payloads) != len(archive.events) or not all(
        type(payload) is dict for payload in payloads
    ):
        yield "the payload of each event must be one JSON object"
        return
    parsed.extend(zip(archive.events, payloads, strict=True))


def _life(project: Record, parsed: Sequence[tuple[Record, Any]]) -> Iterator[str]:
    found = [(event, payload) for event, payload in parsed if event["kind"] in _LIFE]
    kinds = [event["kind"] for event, _ in found]
    expected = list(_LIFE[: _STATES.get(project["state"], 0)])
    if kinds != expected:
        yield f"a project that is {project['state']} must have been {', '.join(expected)}, in this order; its events say {', '.join(kinds)}"
    at = {event["kind"]: event["at"] for event, _ in found}
    for kind in _LIFE:
        if project[f"{kind}_at"] != at.get(kind):
            yield f"{kind}_at must be the time of its event, {at.get(kind)}; got {project[f'{kind}_at']}"
    created: Mapping[str, Any] = next(
        (payload for event, payload in found if event["kind"] == "created"), {}
    )
    for name in ("slug", "name"):
        if project[name] != created.get(name):
            yield f"{name} must be that of the event created, {created.get(name)!r}; got {project[name]!r}"


def _seal(archive: Archive, parsed: Sequence[tuple[Record, Any]]) -> Iterator[str]:
    project = archive.project
    sealed = next((payload for event, payload in parsed if event["kind"] == "sealed"), None)
    if sealed is None:
        yield "the project is a draft: nothing was sealed, so everything can still be changed"
        return
    for name in ("commitment", "root", "n_routes"):
        if project[name] != sealed.get(name):
            yield f"{name} must be that which was sealed, {sealed.get(name)}; got {project[name]}"
    if canonical(project["spec"]) != canonical(sealed.get("spec")):
        yield "the specification must be that which was sealed"
    if sealed.get("items") != items_digest(
        {i["name"]: (i["sha256"], i["options"]) for i in archive.items}
    ):
        yield "the items (names, fingerprints, orders of options) must be those that were sealed"
    for item in archive.items:
        if (item["content"] is not None) != project["texts"]:
            yield f"item {item['name']!r} must have its content just where texts are included"
        elif item["content"] is not None and content_hash(item["content"]) != item["sha256"]:
            yield f"the content of item {item['name']!r} is not that of its fingerprint"
    yield from _seed(
        archive,
        sealed,
        next((payload for event, payload in parsed if event["kind"] == "closed"), None),
    )


def _seed(
    archive: Archive, sealed: Mapping[str, Any], closed: Mapping[str, Any] | None
) -> Iterator[str]:
    project = archive.project
    if closed is None:
        if project["seed"] is not None:
            yield "the seed must not be revealed before closing"
        for item in archive.items:
            if item["truth"] is not None or item["chances"] is not None:
                yield f"item {item['name']!r}: truth and chances must not be shown before closing"
        return
    if project["seed"] is None or project["seed"] != closed.get("seed"):
        yield "the seed must be that which was revealed at closing"
        return
    seed = bytes.fromhex(project["seed"])
    if hashlib.sha256(seed).hexdigest() != project["commitment"]:
        yield "the seed is not the one that was committed to"
    if sealed.get("hidden") != hidden_digest(
        seed, {i["name"]: (i["truth"], i["chances"]) for i in archive.items}
    ):
        yield "the truths of gold items and the recorded chances must be those that were sealed"


def _routes(archive: Archive) -> Iterator[str]:
    project = archive.project
    if len(archive.routes) != project["n_routes"]:
        yield f"there must be {project['n_routes']} routes, as sealed; got {len(archive.routes)}"
    hashes = {item["name"]: item["sha256"] for item in archive.items}
    for i, route in enumerate(archive.routes):
        if route["place"] != i:
            yield f"places must be 0, 1, 2, … without gaps; got {route['place']} in line {i + 1}"
            return
        if route["item"] not in hashes:
            yield f"the item of the route at place {i} must be one of the items; got {route['item']!r}"
            return
    if project["root"] is not None or archive.routes:
        root = merkle_root(
            [leaf_text(_fields(route), hashes[route["item"]]) for route in archive.routes]
        )
        if root != project["root"]:
            yield f"the routes were changed: their root is {root}, and {project['root']} was sealed"


def _draws(archive: Archive) -> Iterator[str]:
    # A draw needs no texts: whether an item has options shows in their order, and whether it is an
    # attention item in its routes.
    attention = {route["item"] for route in archive.routes if route["kind"] == "attention"}
    order = {"options": list(range(archive.spec.n_classes))}
    contents: dict[tuple[bool, bool], dict[str, Any]] = {
        (True, True): {**order, "attention": True},
        (True, False): order,
        (False, True): {"attention": True},
        (False, False): {},
    }
    items = [
        Item(
            name=i["name"],
            truth=i["truth"],
            content=contents[i["options"] is not None, i["name"] in attention],
        )
        for i in archive.items
    ]
    chances = {i["name"]: i["chances"] for i in archive.items if i["chances"] is not None}
    questions, options = draw_questions(
        archive.spec, items, bytes.fromhex(archive.project["seed"]), propensities=chances or None
    )
    if len(questions) != len(archive.routes):
        yield f"the seed gives {len(questions)} routes; got {len(archive.routes)}"
    for place, (drawn, route) in enumerate(zip(questions, archive.routes, strict=False)):
        if (
            place,
            drawn.item,
            drawn.draw,
            drawn.kind,
            drawn.pool,
            [*drawn.shown],
            drawn.propensity,
        ) != _fields(route):
            yield f"place {place}: the seed gives class {list(drawn.shown)} of item {drawn.item!r} ({drawn.kind}), not this route"
    for item in archive.items:
        drawn_order = options.get(item["name"])
        if item["options"] != (None if drawn_order is None else list(drawn_order)):
            yield f"item {item['name']!r}: the seed gives another order of options"


def _systems(archive: Archive, parsed: Sequence[tuple[Record, Any]]) -> Iterator[str]:
    sealed = False
    logged: dict[str, tuple[Any, Any]] = {}
    for event, payload in parsed:
        sealed = sealed or event["kind"] == "sealed"
        if event["kind"] == "system-added":
            name = payload["name"]
            if not sealed:
                yield f"system {name!r} must have been added after sealing; event {event['seq']} is before it"
            if name in logged:
                yield f"system {name!r} must have been added once; event {event['seq']} adds it again"
            logged[name] = payload["sha256"], event["at"]
    shown = {s["system"]: (s["sha256"], s["uploaded_at"]) for s in archive.systems}
    for name in sorted({*shown, *logged}):
        if shown.get(name) != logged.get(name):
            yield f"system {name!r} (hash, time) must be as its event says"
    given: dict[str, dict[str, int | None]] = {name: {} for name in shown}
    known, k = {item["name"] for item in archive.items}, archive.spec.n_classes
    for row in archive.predictions:
        if row["system"] not in given or row["item"] not in known:
            yield f"a prediction must be of a system and an item of the project; got {row['system']!r}, {row['item']!r}"
            continue
        if row["answer"] is not None and not 0 <= row["answer"] < k:
            yield f"the answer of {row['system']!r} to {row['item']!r} must be in [0, {k}); got {row['answer']}"
        given[row["system"]][row["item"]] = row["answer"]
    for name, answers in given.items():
        if answers_hash(answers) != shown[name][0]:
            yield f"the answers of system {name!r} are not those whose hash was logged"


def _judgements(archive: Archive) -> Iterator[str]:
    expected = judgements_of(archive.spec, archive.routes, archive.answers)
    if len(expected) != len(archive.judgements):
        yield f"the first answers give {len(expected)} judgements; got {len(archive.judgements)}"
    for i, (made, row) in enumerate(zip(expected, archive.judgements, strict=False), start=1):
        if made != row:
            wrong = ", ".join(name for name in made if made[name] != row[name])
            yield f"line {i}: {wrong} must be as the answer to question {made['question']} says"


def _published(archive: Archive, published: Sequence[str]) -> Iterator[str]:
    known = {
        archive.project["commitment"],
        archive.project["root"],
        *(event["hash"] for event in archive.events),
    }
    for value in published:
        if value.strip().lower() not in known:
            yield f"{value[:70]} is neither the commitment, nor the root, nor a hash of the chain: another project was published"
