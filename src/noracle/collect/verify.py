"""Does an export hold? Everything is recomputed from the file alone, without a database or a
network.

    files      every record has its fields, each of its kind, in its order, once
    events     the chain is whole: numbers without gaps, each hash right, and the last one is the head
    life       created, sealed, opened, closed: once, in this order, at the times of the project
    seal       commitment, specification, items and (when closed) truths and chances are those that were sealed
    routes     the Merkle root is that of the routes
    draws      (when closed) the seed gives just these routes and orders of options
    answers    each answer is that of one event, to a drawn question, by a member of its pool, while the project was open; first answers
               are unique, amendments follow in order, and places were answered in the drawn order; what was taken back was the last answer
               of the same person, within 60 seconds
    systems    added after sealing; their answers are those whose hash was logged, or committed to; late ones are marked
    judgements are what the answers say that were final and not taken back
    clock      no fault: where it stepped. Events are ordered by their numbers, and no time breaks that order

What a whole new file would hide must be compared with what was published: the commitment, the root,
and the head of the chain, without which nothing is verified.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import json
from bisect import bisect_left, insort
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice, pairwise
from operator import ge, itemgetter
from typing import Any, Literal

from noracle.collect import archive as files
from noracle.collect import chain, model
from noracle.collect.archive import FIELDS, FORMATS, KEYS, TABLES, ProjectArchive, Record
from noracle.collect.chain import SKEW, STEPPED
from noracle.collect.model import EVERYBODY, OTHER, UNDO_SECONDS, Item, ProjectSpec, fits
from noracle.collect.protocols import draw_routes, hidden_digest, items_digest
from noracle.errors import NoracleError
from noracle.files import canonical

_MAY = {"text": str, "number": int, "decimal": float, "list": list, "object": dict, "flag": bool}
_BROKEN_KEYS = (KeyError, IndexError, AttributeError)
_BROKEN = (*_BROKEN_KEYS, TypeError, ValueError, ArithmeticError, RecursionError)


def faults_of_files(archive: ProjectArchive) -> Iterator[str]:
    """One line for each record that has not the shape of its file."""
    first = archive.project.get("format") == FORMATS[0]
    tables = [("project", [archive.project]), *((name, archive.table(name)) for name in TABLES)]
    for name, records in tables:
        fields = {f: k for f, k in FIELDS[name].items() if not (first and "+" in k)}
        yield from _shape(name, records, fields)
    for name, keys in KEYS.items():
        order = [*map(itemgetter(*keys), archive.table(name))]
        if any(map(ge, order, order[1:])):
            place = next(i for i, (a, b) in enumerate(pairwise(order)) if a >= b)
            yield f"{name}.jsonl must be in the order of {', '.join(keys)}, each once; line {place + 2} is not"
    if archive.project["format"] not in FORMATS:
        yield f"project.json must be of format {' or '.join(FORMATS)}"
    spec = ProjectSpec.from_dict(archive.project["spec"])
    if canonical(spec.to_dict()) != canonical(archive.project["spec"]):
        yield "project.json: spec must be whole"


def _shape(name: str, records: Sequence[Record], fields: Mapping[str, str]) -> Iterator[str]:
    may = {
        f: {_MAY[k.rstrip("?+")], *([type(None)] if "?" in k else ())} for f, k in fields.items()
    }
    try:
        wrong = [f for f in may if not may[f].issuperset(map(type, map(itemgetter(f), records)))]
        whole = {*map(len, records)} <= {len(fields)}
    except KeyError:
        wrong, whole = [], False
    for i, record in enumerate(() if whole else records, start=1):
        if record.keys() != fields.keys():
            came = ", ".join(map(str, record))[:200]
            yield f"{name}, record {i}: the fields must be {', '.join(fields)}; got {came}"
    for field in wrong if whole else ():
        for i, record in enumerate(records, start=1):
            if type(record[field]) not in may[field]:
                rule, came = fields[field].rstrip("?+"), str(record[field])[:60]
                yield f"{name}, record {i}: {field} must be a {rule}; got {came!r}"


# The check of the answers: each with its event, its question, and the state of the project at that
# moment.

Parsed = Sequence[tuple[Record, Any]]
_PAYLOAD = {"answer", "question", "place", "revision", "value", "shown_at", "received_at"}
_said = itemgetter(*sorted(_PAYLOAD))


def faults_of_answers(archive: ProjectArchive, parsed: Parsed) -> Iterator[str]:
    """Go through the events in order, as they happened; one line for each fault."""
    walk = _ChainWalk(archive)
    for event, payload in parsed:
        kind = event["kind"]
        if kind in ("answer", "amended"):
            yield from walk.answered(event, payload)
        elif kind == "joined":
            walk.joined(event, payload)
        elif kind == "lease-expired":
            walk.seen_at(event["actor"], payload.get("place"))
        elif kind in ("undone", "left"):
            yield from walk.settled(event, payload)
        elif kind in ("opened", "closed"):
            walk.is_open = kind == "opened"
        walk.then = event["at"]
    for answer in walk.answers.keys() - walk.seen:
        yield f"answer {answer} has no event: it was added"


class _ChainWalk:
    """What is known at a moment of the chain."""

    def __init__(self, archive: ProjectArchive) -> None:
        self.spec = archive.spec
        self.routes = archive.routes
        self.answers = {row["answer"]: row for row in archive.answers}
        self.is_open, self.then = False, 0.0
        self.seen: set[int] = set()
        self.pools: dict[str, set[int]] = defaultdict(set)
        self.members: Counter[int] = Counter()
        self.first: dict[int, list[Record]] = {}  # first answers by place, in order
        self.last: dict[int, Record] = {}  # latest revision by question
        self.items: set[tuple[str, str]] = set()  # rater and item
        self.held: set[tuple[str, str]] = set()  # the same, where a question went back unanswered
        self.order = _Order(archive.routes)
        self.latest: dict[str, tuple[Record, float]] = {}  # latest answer or amendment by rater
        self.undone: Counter[int] = Counter()  # answers that were taken back by question

    def joined(self, event: Record, payload: Mapping[str, Any]) -> None:
        alias, pool = payload.get("alias", event["actor"]), payload.get("pool")
        if pool is None and payload.get("role") == "annotator" and self.spec.pools == (EVERYBODY,):
            pool = EVERYBODY
        if pool is not None and pool not in self.pools[alias]:
            self.pools[alias].add(pool)
            self.members[pool] += 1

    def seen_at(self, rater: str, place: object) -> None:
        if type(place) is int and 0 <= place < len(self.routes):
            self.held.add((rater, self.routes[place]["item"]))

    def settled(self, event: Record, payload: Mapping[str, Any]) -> Iterator[str]:
        """The last answer of a rater was taken back, or made final by leaving."""
        seq, rater, undone = event["seq"], event["actor"], event["kind"] == "undone"
        row, then = self.latest.pop(rater, ({}, 0.0))
        same = row and row["answer"] == payload.get("answer")
        if not same or row is not self.last.get(row["question"]):
            yield f"event {seq} must be about the last answer of {rater}, before another; it is not"
            return
        number, place, late = row["answer"], row["place"], event["at"] - then
        if any(payload.get(name) != row[name] for name in ("question", "place")):
            yield f"answer {number}: question and place must be as event {seq} says"
        if row["revision"] != self.undone[row["question"]]:
            yield f"answer {number} is an amendment; event {seq} says that it is {event['kind']}"
        if not self.is_open or late > UNDO_SECONDS + SKEW:
            rule = f"must be within {UNDO_SECONDS:g} seconds, while the project is open"
            yield f"answer {number}: event {seq} ({event['kind']}) {rule}"
        if undone and 0 <= place < len(self.routes):
            self.seen_at(rater, payload.get("returned"))
            self.undone[row["question"]] += 1
            self.first[place].remove(row)
            del self.last[row["question"]]
            self.items.discard((rater, self.routes[place]["item"]))
            self.order.reopen(self.routes[place]["pool"], place)

    def answered(self, event: Record, payload: Mapping[str, Any]) -> Iterator[str]:
        seq, number = event["seq"], payload.get("answer")
        row = self.answers.get(number) if type(number) is int else None
        if row is None:
            yield f"event {seq} tells of answer {number}, which is missing"
            return
        if number in self.seen:
            yield f"answer {number} must have one event; event {seq} is another"
            return
        self.seen.add(row["answer"])
        if _PAYLOAD - payload.keys() or _said(payload) != _said(row):
            for name in sorted(n for n in _PAYLOAD if n not in payload or payload[n] != row[n]):
                rule = f"{name} must be as event {seq} says, {payload.get(name)!r}"
                yield f"answer {number}: {rule}; got {row[name]!r}"
        # A clock that stepped back is clamped to the time of the event before.
        timed = event["at"] in (row["received_at"], max(row["received_at"], self.then))
        if event["actor"] != row["rater"] or not timed:
            yield f"answer {number}: rater and time must be as event {seq} says"
        yield from self._allowed(row, seq)
        yield from self._amended(row) if event["kind"] == "amended" else self._first(row)
        self.latest[row["rater"]] = (row, event["at"])

    def _allowed(self, row: Record, seq: int) -> Iterator[str]:
        number, place, rater = row["answer"], row["place"], row["rater"]
        if not 0 <= place < len(self.routes):
            yield f"answer {number} must be to a drawn question; there is no place {place}"
            return
        route = self.routes[place]
        if not self.is_open:
            rule = f"answer {number} must have come while the project was open"
            yield f"{rule}; event {seq} is outside"
        if route["pool"] not in self.pools.get(rater, ()):
            yield f"answer {number}: {rater} was no member of pool {route['pool']} at that time"
        if not fits(self.spec, route["shown"], row["value"]):
            yield f"answer {number}: {row['value'][:40]!r} is no answer to its question"

    def _first(self, row: Record) -> Iterator[str]:
        number, place, rater, question = (row[k] for k in ("answer", "place", "rater", "question"))
        if row["revision"] != self.undone[question]:
            rule = f"answer {number} must be a first answer, as its event says"
            yield f"{rule}; got revision {row['revision']} after {self.undone[question]} undone"
        if not 0 <= place < len(self.routes):
            return
        route, before = self.routes[place], self.first.setdefault(place, [])
        pool, item, draw = route["pool"], route["item"], route["draw"] + files.AGAIN * len(before)
        if row["draw"] != draw:
            yield f"answer {number} must be to draw {draw} of place {place}; got {row['draw']}"
        again = len(before) <= self.spec.reasks and route["kind"] == "main"
        if before and not (again and {*before[-1]["value"].split("|")} == {"unsure"}):
            yield f"place {place} must have one first answer; answer {number} is another"
        if question in self.last:
            yield f"question {question} must have one first answer; answer {number} is another"
        if (rater, item) in self.items:
            yield f"answer {number}: {rater} was asked twice about item {item!r}"
        if not before:
            # Each other member holds one question at most; twice as many may be on their way back.
            # What the rater may not be asked, because they know the item, is not skipped.
            most = 2 * self.members[pool]
            earlier = ((rater, self.routes[p]["item"]) for p in self.order.passed_over(pool, place))
            passed = (1 for known in earlier if known not in self.items and known not in self.held)
            if sum(islice(passed, most + 1)) > most:
                what = f"was answered before more than {most} earlier places of its pool"
                yield f"answer {number}: place {place} {what}"
        before.append(row)
        self.last[question] = row
        self.items.add((rater, item))

    def _amended(self, row: Record) -> Iterator[str]:
        number, question = row["answer"], row["question"]
        last = self.last.get(question)
        if last is None:
            yield f"answer {number} amends question {question}, which was not answered"
            return
        revision, same = last["revision"] + 1, itemgetter("place", "draw", "rater")
        if row["revision"] != revision or same(row) != same(last):
            rule = f"answer {number} must be revision {revision} of question {question}"
            yield f"{rule}, by the same rater"
        self.last[question] = row


class _Order:
    """Which earlier places of a pool are without an answer: each of its people may hold one."""

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

    def reopen(self, pool: int, place: int) -> None:
        """The answer at this place was taken back."""
        insort(self.open[pool], place)


Status = Literal["holds", "fails", "not yet", "not looked at", "stepped"]
Timing = Literal["in time", "committed in time", "uploaded after answers", "not revealed"]
PROVES = {
    "commitment": "the seed was fixed before it was published",
    "root": "the routes were fixed before it was published",
    "head": "nothing was changed, added or removed after it was published",
}
"""What it proves that a published value is in an archive."""
_SHOWN = 5
_STATES = {"draft": 1, "sealed": 2, "open": 3, "closed": 4}
_OF_QUESTIONS = ("routes", "answers", "judgements")
_LIFE = ("created", "sealed", "opened", "closed")
_ANSWERED = ("answer", "amended", "undone", "left")
_fields = itemgetter(*FIELDS["routes"])


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
    draws could be made again. ``systems`` says when each came, by the order of the events.
    ``published`` names what was compared with the archive, and ``unprotected`` counts the events of
    answers after the last head among it: whoever holds the file could have rebuilt these.
    """

    checks: tuple[Checked, ...]
    project: str
    state: str
    revealed: bool
    commitment: str
    root: str
    head: str
    counts: Mapping[str, int]
    systems: Mapping[str, Timing]
    published: tuple[str, ...]
    unprotected: int

    @property
    def verified(self) -> bool:
        """No fault was found, and the published head protects every answer."""
        return self.passed and "head" in self.published and not self.unprotected

    @property
    def passed(self) -> bool:
        """No fault was found."""
        return not any(c.findings or c.status in ("fails", "not looked at") for c in self.checks)

    @property
    def findings(self) -> tuple[str, ...]:
        """The faults in words."""
        return tuple(f"{check.name}: {line}" for check in self.checks for line in check.findings)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        told = {"schema": "collection-check/2", "verified": self.verified, "passed": self.passed}
        return {**told, **dataclasses.asdict(self), "findings": list(self.findings)}


@files.undisturbed()
def verify_archive(archive: ProjectArchive, *, published: Sequence[str] = ()) -> Verification:
    """Check an export of a project. Each of the ``published`` values must be in it: the commitment,
    the root, or the head of the chain at any time, best after closing. Before it the draws cannot
    be made again, and of the events that tell of a question only the hashes are checked.
    """
    project = archive.project
    checks = [_run("files", lambda: faults_of_files(archive))]
    parsed: list[tuple[Record, Any]] = []
    rest: dict[str, Callable[[ProjectArchive, Any], Iterator[str]]] = {
        "events": _events,
        "life": _life,
        "seal": _seal,
        "routes": _routes,
        "draws": _draws,
        "answers": faults_of_answers,
        "systems": _systems,
        "judgements": _judgements,
        "published": lambda archive, _: _published(archive, published),
    }
    for name, faults in rest.items() if not checks[0].findings else ():
        status: Status = "not yet"
        if name == "draws" and not project["seed"]:
            note = "the seed is revealed when the project is closed"
        elif name == "draws" and any(c.findings for c in checks):
            status, note = "not looked at", "because of the faults above"
        elif name in _OF_QUESTIONS and project["state"] != "closed" and not archive.routes:
            note = "questions and answers are shown when the project is closed"
        else:
            if name != "published" or published:
                checks.append(_run(name, functools.partial(faults, archive, parsed)))
            continue
        checks.append(Checked(name=name, status=status, note=note))
    systems, clock = dict[str, Timing](), list[str]()
    with contextlib.suppress(*_BROKEN):  # a fault of the checks above
        systems = systems_in_time(parsed)
        clock = list(_stepped(parsed))
    more = f"and {len(clock) - _SHOWN} more"
    note = "; ".join([*clock[:_SHOWN], *([more] if len(clock) > _SHOWN else [])])
    checks.append(Checked(name="clock", status="stepped" if clock else "holds", note=note))
    met, unprotected = _met(archive, parsed, published) if not checks[0].findings else ((), 0)
    return Verification(
        systems=systems,
        published=met,
        unprotected=unprotected,
        checks=tuple(checks),
        project=str(project.get("slug")),
        state=str(project.get("state")),
        revealed=bool(project.get("seed")),
        **{key: str(project.get(key) or "") for key in ("commitment", "root", "head")},
        counts={name: len(archive.table(name)) for name in TABLES},
    )


def _run(name: str, faults: Callable[[], Iterator[str]]) -> Checked:
    found: list[str] = []
    broken: tuple[str, ...] = ()
    try:
        found.extend(faults())
    except NoracleError as error:
        broken = (str(error),)
    except _BROKEN as error:
        broken = (f"the records cannot be read ({type(error).__name__}: {str(error)[:100]})",)
    total, shown = len(found) + len(broken), (*found[:_SHOWN], *broken)
    status: Status = "fails" if total else "holds"
    return Checked(name=name, status=status, findings=shown, n_findings=total)


def _events(archive: ProjectArchive, parsed: list[tuple[Record, Any]]) -> Iterator[str]:
    """Fills ``parsed`` with each event and its payload."""
    prev = ""
    for i, event in enumerate(archive.events, start=1):
        if event["seq"] != i:
            yield f"order broken: event {i} must have the number {i}; got {event['seq']}"
        if event["prev"] != prev:
            yield f"order broken: event {i} must name the hash of the event before it"
        content = {key: event[key] for key in ("seq", "at", "actor", "kind", "payload")}
        prev = event["hash"]
        if not event["payload"] and archive.project["state"] != "closed":
            continue  # it tells of a question: its content is shown when the project is closed
        if chain.event_hash(event["prev"], **content) != prev:
            yield f"event {i} ({event['kind']}) was changed: its hash is not that of its content"
    n = len(archive.events)
    if (archive.project["last_seq"], archive.project["head"]) != (n, prev):
        yield f"the head of the chain must be that of event {n}, the last one"
    payloads = json.loads(f"[{','.join([event['payload'] or '{}' for event in archive.events])}]")
    if len(payloads) != n or not all(type(payload) is dict for payload in payloads):
        yield "the payload of each event must be one JSON object"
        return
    parsed.extend(zip(archive.events, payloads, strict=True))


def _payload(parsed: Parsed, kind: str) -> Any:
    return next((payload for event, payload in parsed if event["kind"] == kind), None)


def _life(archive: ProjectArchive, parsed: Parsed) -> Iterator[str]:
    project = archive.project
    at = [(event["kind"], event["at"]) for event, _ in parsed if event["kind"] in _LIFE]
    kinds = [kind for kind, _ in at]
    expected = list(_LIFE[: _STATES.get(project["state"], 0)])
    if kinds != expected:
        rule = f"a project that is {project['state']} must have been {', '.join(expected)}"
        yield f"order broken: {rule}, in this order; its events say {', '.join(kinds)}"
    head = next((event["hash"] for event, _ in parsed if event["kind"] == "closed"), None)
    if project.get("closed_head", head) != head:
        yield f"closed_head must be the hash of the event closed, {head}"
    for kind in _LIFE:
        time, came = dict(at).get(kind), project[f"{kind}_at"]
        if came != time:
            yield f"{kind}_at must be the time of its event, {time}; got {came}"
    created = _payload(parsed, "created") or {}
    for name in ("slug", "name"):
        wanted, came = created.get(name), project[name]
        if came != wanted:
            yield f"{name} must be that of the event created, {wanted!r}; got {came!r}"


def _seal(archive: ProjectArchive, parsed: Parsed) -> Iterator[str]:
    project, items = archive.project, archive.items
    sealed = _payload(parsed, "sealed")
    if sealed is None:
        yield "the project is a draft: nothing was sealed, so everything can still be changed"
        return
    for name in ("commitment", "root", "n_routes"):
        if project[name] != sealed.get(name):
            yield f"{name} must be that which was sealed, {sealed.get(name)}; got {project[name]}"
    if canonical(project["spec"]) != canonical(sealed.get("spec")):
        yield "the specification must be that which was sealed"
    orders = {i["name"]: (i["sha256"], i["options"]) for i in items}
    if sealed.get("items") != items_digest(orders):
        yield "the items (names, fingerprints, orders of options) must be those that were sealed"
    for item in items:
        name, content = item["name"], item["content"]
        if (content is not None) != project["texts"]:
            yield f"item {name!r} must have its content just where texts are included"
        elif content is not None and chain.content_hash(content) != item["sha256"]:
            yield f"the content of item {name!r} is not that of its fingerprint"
    yield from _seed(archive, sealed, _payload(parsed, "closed"))


def _seed(archive: ProjectArchive, sealed: Record, closed: Record | None) -> Iterator[str]:
    project, items = archive.project, archive.items
    if closed is None:
        if project["seed"] is not None:
            yield "the seed must not be revealed before closing"
        for item in items:
            if item["truth"] is not None or item["chances"] is not None:
                yield f"item {item['name']!r}: truth and chances must not be shown before closing"
        return
    if project["seed"] is None or project["seed"] != closed.get("seed"):
        yield "the seed must be that which was revealed at closing"
        return
    seed = bytes.fromhex(project["seed"])
    if hashlib.sha256(seed).hexdigest() != project["commitment"]:
        yield "the seed is not the one that was committed to"
    hidden = {i["name"]: (i["truth"], i["chances"]) for i in items}
    if sealed.get("hidden") != hidden_digest(seed, hidden):
        yield "the truths of gold items and the recorded chances must be those that were sealed"


def _routes(archive: ProjectArchive, _: Parsed) -> Iterator[str]:
    project, routes = archive.project, archive.routes
    if len(routes) != project["n_routes"]:
        yield f"there must be {project['n_routes']} routes, as sealed; got {len(routes)}"
    hashes = {item["name"]: item["sha256"] for item in archive.items}
    for i, route in enumerate(routes):
        if route["place"] != i:
            yield f"places must be 0, 1, 2, … without gaps; got {route['place']} in line {i + 1}"
            return
        if (item := route["item"]) not in hashes:
            yield f"the item of the route at place {i} must be one of the items; got {item!r}"
            return
    if project["root"] is not None or routes:
        leaves = [chain.leaf_text(_fields(route), hashes[route["item"]]) for route in routes]
        root = chain.merkle_root(leaves)
        if root != project["root"]:
            yield f"the routes were changed: their root is {root}, and {project['root']} was sealed"


def _draws(archive: ProjectArchive, _: Parsed) -> Iterator[str]:
    # A draw needs no texts: whether an item has options shows in their order, and whether it is an
    # attention item in its routes.
    spec, routes = archive.spec, archive.routes
    attention = {route["item"] for route in routes if route["kind"] == "attention"}
    order, flag = {"options": list(range(spec.n_classes))}, {"attention": True}
    items = []
    replies: dict[str, Record] = defaultdict(dict)
    for i in archive.items:
        shown = (order if i["options"] is not None else {}) | {"answers": replies[i["name"]]}
        content = shown | (flag if i["name"] in attention else {})
        items.append(Item(name=i["name"], truth=i["truth"], content=content))
    for row in archive.predictions if spec.protocol == "grade" else ():
        if row["answer"] not in (None, OTHER):  # which number says what is told by the texts alone
            replies[row["item"]][str(row["answer"])] = row["answer"]
    chances = {i["name"]: i["chances"] for i in archive.items if i["chances"] is not None}
    seed = bytes.fromhex(archive.project["seed"])
    drawn, options = draw_routes(spec, items, seed, propensities=chances or None)
    if len(drawn) != len(routes):
        yield f"the seed gives {len(drawn)} routes; got {len(routes)}"
    for place, (made, route) in enumerate(zip(drawn, routes, strict=False)):
        if (*made[:5], [*made.shown], made.propensity) != _fields(route):
            what = f"class {list(made.shown)} of item {made.item!r} ({made.kind})"
            yield f"place {place}: the seed gives {what}, not this route"
    for item in archive.items:
        drawn_order = options.get(item["name"])
        if item["options"] != (None if drawn_order is None else list(drawn_order)):
            yield f"item {item['name']!r}: the seed gives another order of options"


def _systems(archive: ProjectArchive, parsed: Parsed) -> Iterator[str]:
    sealed, when = False, systems_in_time(parsed)
    logged: dict[str, Record] = {}
    promised: dict[str, str] = {}
    for event, payload in parsed:
        sealed = sealed or event["kind"] == "sealed"
        if event["kind"] == "system-committed":
            promised.setdefault(payload["name"], payload["commitment"])
        if event["kind"] != "system-added":
            continue
        name, seq = payload["name"], event["seq"]
        if not sealed:
            yield f"system {name!r} must have been added after sealing; event {seq} is before it"
        if name in logged:
            yield f"system {name!r} must have been added once; event {seq} adds it again"
        if promised.get(name) != payload.get("commitment"):
            rule = f"system {name!r} must be added with the commitment that was logged for it"
            yield f"{rule}; event {seq} is not"
        late = when[name] == "uploaded after answers"
        told = {key: payload.get(key) for key in ("sha256", "commitment", "salt")}
        logged[name] = {"system": name, "uploaded_at": event["at"], "late": late, **told}
    shown = {record["system"]: record for record in archive.systems}
    for name in sorted({*shown, *logged}):
        record, told = shown.get(name, {}), logged.get(name, {})
        if wrong := [key for key in record or told if record.get(key) != told.get(key)]:
            yield f"system {name!r} ({', '.join(wrong)}) must be as the events say"
    yield from _predictions(archive, logged)


def _predictions(archive: ProjectArchive, logged: Mapping[str, Record]) -> Iterator[str]:
    given: dict[str, dict[str, int | None]] = {s["system"]: {} for s in archive.systems}
    known, k = {item["name"] for item in archive.items}, archive.spec.n_classes
    k = OTHER + 1 if archive.spec.protocol == "grade" else k
    for row in archive.predictions:
        name, item, answer = row["system"], row["item"], row["answer"]
        if name not in given or item not in known:
            rule = "a prediction must be of a system and an item of the project"
            yield f"{rule}; got {name!r}, {item!r}"
            continue
        if answer is not None and not 0 <= answer < k:
            yield f"the answer of {name!r} to {item!r} must be in [0, {k}); got {answer}"
        given[name][item] = answer
    for item in archive.items if archive.project["texts"] else ():
        replies = model.replies_in(item["content"])
        for name, reply in item["content"].get("answers", {}).items():
            if given[name].get(item["name"]) != model.reply_number(replies, reply):
                yield f"the answer of {name!r} to item {item['name']!r} is not that of its content"
    for name, answers in given.items():
        told = logged.get(name, {})
        if chain.answers_hash(answers) != told.get("sha256"):
            yield f"the answers of system {name!r} are not those whose hash was logged"
        promise, salt = told.get("commitment"), str(told.get("salt"))
        if promise is not None and chain.salted_hash(salt, answers) != promise:
            yield f"the answers of system {name!r} are not those that were committed to"


def systems_in_time(parsed: Parsed) -> dict[str, Timing]:
    """When each system came: before the first answer, committed to before it, or after it."""
    answered, committed = False, dict[str, str]()
    found: dict[str, Timing] = {}
    for event, payload in parsed:
        if event["kind"] == "answer":
            answered = True
        elif event["kind"] == "system-committed" and not answered:
            committed.setdefault(payload["name"], payload["commitment"])
        elif event["kind"] == "system-added":
            promise = committed.pop(payload["name"], None)
            kept = promise is not None and promise == payload.get("commitment")
            late: Timing = "committed in time" if kept else "uploaded after answers"
            found[payload["name"]] = late if answered else "in time"
    return {**found, **dict.fromkeys(committed, "not revealed")}


def _stepped(parsed: Parsed) -> Iterator[str]:
    """Where the clock stepped, in words: it was logged, or times go backwards (in old archives)."""
    then, most, told = 0.0, 0.0, False
    for event, payload in parsed:
        seq, at = event["seq"], event["at"]
        own = payload.get("received_at", at) if event["kind"] in ("answer", "amended") else at
        behind = max(then - at, at - own)
        if event["kind"] == STEPPED or (then - at > SKEW):
            told, by = True, payload["by"] if event["kind"] == STEPPED else at - then
            yield f"by {by:+,.1f} s at event {seq}"
        elif behind > SKEW and not told:
            told = True
            yield f"by {-behind:+,.1f} s at event {seq}"
        elif behind <= SKEW and not told:
            most = max(most, behind)
        told = told and (behind > 0 or at <= then)  # until the clock has caught up
        then = at
    if most:
        yield f"clocks differ by up to {most:.1f} s"


def final_answers(archive: ProjectArchive, parsed: Parsed) -> list[Record]:
    """The answers that count, as the events say: given, not taken back, and final at the last one."""
    given: dict[int, str] = {}
    latest: dict[str, int] = {}  # by rater: the answer that is not final yet
    end = parsed[-1][0]["at"] - UNDO_SECONDS if parsed else 0.0
    for event, payload in parsed:
        kind, rater, number = event["kind"], event["actor"], payload.get("answer")
        if kind in _ANSWERED:
            latest.pop(rater, None)
        if kind == "answer":
            given[number] = rater
            if event["at"] > end:
                latest[rater] = number
        elif kind == "undone":
            given.pop(number, None)
    open_ = set() if archive.project["state"] == "closed" else {*latest.values()}
    return [a for a in archive.answers if a["answer"] in given and a["answer"] not in open_]


def _judgements(archive: ProjectArchive, parsed: Parsed) -> Iterator[str]:
    final = final_answers(archive, parsed)
    expected = files.judgements_of(archive.spec, archive.routes, final)
    if len(expected) != len(archive.judgements):
        yield f"the final answers give {len(expected)} judgements; got {len(archive.judgements)}"
    for i, (made, row) in enumerate(zip(expected, archive.judgements, strict=False), start=1):
        if made != row:
            wrong = ", ".join(name for name in made if made[name] != row[name])
            yield f"line {i}: {wrong} must be as the answer to question {made['question']} says"


def _met(
    archive: ProjectArchive, parsed: Parsed, published: Sequence[str]
) -> tuple[tuple[str, ...], int]:
    """What of the archive was published, and how many events of answers no published head covers."""
    said = {value.strip().lower() for value in published}
    met = [name for name in ("commitment", "root") if archive.project[name] in said]
    last = max((e["seq"] for e in archive.events if e["hash"] in said), default=0)
    bare = sum(e["kind"] in _ANSWERED for e, _ in parsed if e["seq"] > last)
    return (*met, *(["head"] if last else [])), bare


def _published(archive: ProjectArchive, published: Sequence[str]) -> Iterator[str]:
    project, hashes = archive.project, (event["hash"] for event in archive.events)
    known = {project["commitment"], project["root"], *hashes}
    for value in published:
        if value.strip().lower() not in known:
            what = "neither the commitment, nor the root, nor a hash of the chain"
            yield f"{value[:70]} is {what}: another project was published"
