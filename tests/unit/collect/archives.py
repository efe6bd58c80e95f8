"""Projects that never saw a server: the records that one would have kept, from sealing to closing,
in memory.
"""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from noracle.collect.archive import AGAIN, ProjectArchive, judgements_of, make_archive
from noracle.collect.chain import answers_hash, canonical, event_hash
from noracle.collect.model import ClassSpec, Item, ProjectSpec, Protocol, SealedRoute
from noracle.collect.protocols import seal
from noracle.collect.verify import final_answers

SEED = bytes(range(32))


def spec_of(protocol: Protocol = "partitioned", n_classes: int = 4, **more: Any) -> ProjectSpec:
    return ProjectSpec(
        protocol=protocol,
        classes=tuple(ClassSpec(name=f"class {k}") for k in range(n_classes)),
        **more,
    )


def items_of(
    n: int, *, n_gold: int = 0, n_attention: int = 0, n_classes: int = 4, options: bool = False
) -> list[Item]:
    choices = {"options": [f"option {k}" for k in range(n_classes)]} if options else {}
    items = [Item(name=f"item-{i}", content={"text": f"text {i}", **choices}) for i in range(n)]
    items += [
        Item(name=f"gold-{i}", content={"text": f"gold {i}", **choices}, truth=i % n_classes)
        for i in range(n_gold)
    ]
    return items + [
        Item(
            name=f"attention-{i}",
            content={"text": "say so", "attention": True, **choices},
            truth=i % n_classes,
        )
        for i in range(n_attention)
    ]


class Project:
    """Records as a server would keep them."""

    def __init__(
        self,
        spec: ProjectSpec,
        items: list[Item],
        *,
        chances: Mapping[str, list[float]] | None = None,
    ) -> None:
        self.spec, self.chances = spec, chances
        self.now = 1000.0
        self.events: list[dict[str, Any]] = []
        self.answers: list[dict[str, Any]] = []
        self.systems: dict[str, dict[str, int | None]] = {}
        self.uploaded: dict[str, dict[str, Any]] = {}
        self.row: dict[str, Any] = {
            "slug": "demo",
            "name": "A démo",
            "state": "draft",
            "spec": spec,
            "created_at": self.tick(),
        }
        self.log("created", {"name": "A démo", "slug": "demo"}, actor="p1")
        sealed = seal(spec, items, seed=SEED, propensities=chances)
        self.items = [
            Item(name=i.name, content=i.content, truth=i.truth, options=sealed.options.get(i.name))
            for i in items
        ]
        self.routes = sealed.routes
        self.row |= {
            "state": "sealed",
            "seed": SEED,
            "commitment": sealed.commitment,
            "root": sealed.root,
            "n_routes": len(sealed.routes),
        }
        self.row["sealed_at"] = self.tick()
        self.log("sealed", sealed.payload, actor="p1")

    def tick(self) -> float:
        self.now += 0.25
        return self.now

    def log(self, kind: str, payload: Mapping[str, Any], *, actor: str = "system") -> None:
        prev = self.events[-1]["hash"] if self.events else ""
        event = {
            "seq": len(self.events) + 1,
            "at": self.now,
            "actor": actor,
            "kind": kind,
            "payload": canonical(dict(payload)),
        }
        self.events.append({**event, "prev": prev, "hash": event_hash(prev, **event)})

    def join(self, per_pool: int) -> dict[int, list[str]]:
        people: dict[int, list[str]] = defaultdict(list)
        for pool in self.spec.pools:
            for _ in range(per_pool):
                alias = f"p{2 + sum(map(len, people.values()))}"
                people[pool].append(alias)
                self.tick()
                self.log("joined", {"alias": alias, "role": "annotator", "pool": pool}, actor=alias)
        return people

    def open(self) -> None:
        self.row |= {"state": "open", "opened_at": self.tick()}
        self.log("opened", {}, actor="p1")

    def close(self) -> None:
        self.row |= {"state": "closed", "closed_at": self.tick()}
        self.log("closed", {"seed": SEED.hex()}, actor="p1")

    def answer(
        self,
        route: SealedRoute,
        *,
        question: int,
        draw: int,
        rater: str,
        value: str,
        revision: int = 0,
        amends: bool = False,
    ) -> None:
        received = self.tick()
        row = {
            "answer": len(self.answers) + 1,
            "question": question,
            "place": route.place,
            "revision": revision,
            "value": value,
            "shown_at": received - 0.125,
            "received_at": received,
        }
        self.answers.append({**row, "draw": draw, "rater": rater, "counts": not revision})
        self.log("amended" if amends else "answer", row, actor=rater)

    def undo(self, returned: int | None = None) -> None:
        """The last answer is taken back."""
        last = self.answers[-1]
        last["counts"] = False
        self.tick()
        about = {name: last[name] for name in ("answer", "question", "place")}
        self.log("undone", {**about, "returned": returned}, actor=last["rater"])

    def add_system(self, name: str, answers: dict[str, int | None]) -> None:
        self.systems[name] = answers
        late = any(event["kind"] == "answer" for event in self.events)
        self.uploaded[name] = {"uploaded_at": self.tick(), "late": late}
        self.log(
            "system-added",
            {"name": name, "sha256": answers_hash(answers), "n": len(answers)},
            actor="p1",
        )

    def archive(self, *, texts: bool = False) -> ProjectArchive:
        row = {**self.row, "last_seq": len(self.events), "head": self.events[-1]["hash"]}
        row["closed_head"] = next((e["hash"] for e in self.events if e["kind"] == "closed"), None)
        archive = make_archive(
            row,
            items=self.items,
            routes=self.routes,
            answers=self.answers,
            events=self.events,
            systems=self.systems,
            uploaded=self.uploaded,
            chances=self.chances,
            texts=texts,
        )
        archive.judgements[:] = judged(archive)
        return archive


def judged(archive: ProjectArchive) -> list[dict[str, Any]]:
    """What the final answers say, by the events of the archive."""
    parsed = [(event, json.loads(event["payload"])) for event in archive.events]
    return judgements_of(archive.spec, archive.routes, final_answers(archive, parsed))


def value_of(spec: ProjectSpec, route: SealedRoute, rng: random.Random) -> str:
    def one() -> str:
        return rng.choice(["yes", "no", "no", "unsure"])

    if spec.protocol == "partitioned":
        return one()
    if spec.protocol == "judge-all" and rng.random() < 0.8:
        return "|".join(one() for _ in route.shown)
    if spec.protocol == "judge-all":
        return "|".join(["unsure"] * len(route.shown))
    return rng.choice([*map(str, route.shown), "unsure", *(["none"] if spec.trap else [])])


def filled(
    spec: ProjectSpec,
    items: list[Item],
    *,
    chances: Mapping[str, list[float]] | None = None,
    share: float = 1.0,
    amend: float = 0.1,
    close: bool = True,
    people: int = 3,
    systems: int = 2,
    undo: float = 0.1,
) -> Project:
    """A project whose questions were answered in order, with repeats after "unsure", undos,
    amendments and systems.
    """
    rng, slips = random.Random(7), random.Random(8)
    project = Project(spec, items, chances=chances)
    members = project.join(
        max(people, spec.draws + spec.reasks)
        if spec.protocol in ("judge-all", "pick-wrong")
        else people
    )
    for s in range(systems):
        given = {
            i.name: rng.choice([None, *range(spec.n_classes)]) for i in items if rng.random() < 0.9
        }
        project.add_system(f"system {s}", given)
    project.open()
    seen: dict[str, set[str]] = defaultdict(set)
    question = 0
    for route in project.routes[: round(share * len(project.routes))]:
        for again in range(spec.reasks + 1):
            rater = next((a for a in members[route.pool] if a not in seen[route.item]), None)
            if rater is None:
                break
            members[route.pool].remove(rater)
            members[route.pool].append(rater)
            seen[route.item].add(rater)
            question += 1
            value = value_of(spec, route, rng)
            draw = route.draw + AGAIN * again
            told: Any = {"question": question, "draw": draw, "rater": rater}
            undone = 0
            while slips.random() < undo:
                slip = value_of(spec, route, slips)
                project.answer(route, **told, value=slip, revision=undone)
                project.undo()
                undone += 1
            project.answer(route, **told, value=value, revision=undone)
            if rng.random() < amend:
                later = value_of(spec, route, rng)
                project.answer(route, **told, value=later, revision=undone + 1, amends=True)
            if route.kind != "main" or {*value.split("|")} != {"unsure"}:
                break
    project.log("look", {}, actor="p1")
    if close:
        project.close()
    return project
