"""The check of the answers: each with its event, its question, and the state of the project at that
moment.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from operator import itemgetter
from typing import Any

from noracle.collect.archive import AGAIN, Archive, Record
from noracle.collect.model import EVERYBODY, ProjectSpec

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
