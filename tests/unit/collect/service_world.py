"""People and projects made through the services themselves, on a real SQLite store."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from noracle.collect.model import Item, ProjectSpec, Role
from noracle.collect.service import access, answers, people, projects
from noracle.collect.service.access import Member
from noracle.collect.store import open_store
from noracle.collect.store.base import Store, Work

NOW = 1_800_000_000.0
SEAL = bytes(range(32))
"""The seed of every seal in tests; a project draws its own from the system."""
Value = TypeVar("Value")


def spec_of(protocol: str = "partitioned", k: int = 3, **more: Any) -> ProjectSpec:
    return ProjectSpec.from_dict(
        {"protocol": protocol, "classes": [f"c{i}" for i in range(k)], "shown": min(k, 4), **more}
    )


def texts(n: int, *, start: int = 0, **more: Any) -> list[Item]:
    return [
        Item(name=f"i{j:04}", content={"text": f"text of {j}"}, **more)
        for j in range(start, start + n)
    ]


@dataclasses.dataclass
class Service:
    """A store, and what tests do with it."""

    store: Store
    now: float = NOW

    def write(self, op: Callable[[Work], Value]) -> Value:
        return self.store.write_now(op)

    def read(self, op: Callable[[Work], Value]) -> Value:
        return self.store.read_now(op)

    def person(self, name: str) -> int:
        return self.write(
            lambda w: people.add_person(
                w,
                email=f"{name}@example.org",
                name=name.title(),
                password_hash=f"hash of {name}",
                now=self.now,
            )
        )

    def close(self, project: int) -> None:
        self.write(lambda w: projects.close_project(w, project, actor="system", now=self.now + 1))

    def session(self, person: int) -> str:
        token = access.new_token()
        self.write(
            lambda w: people.start_session(w, person, access.token_hash(token), now=self.now)
        )
        return access.token_hash(token)

    def project(self, owner: int, slug: str = "demo", spec: ProjectSpec | None = None) -> int:
        return self.write(
            lambda w: projects.create_project(
                w, slug=slug, name="A project", spec=spec or spec_of(), owner=owner, now=self.now
            )
        )

    def member(self, person: int, project: int) -> Member:
        found = self.read(lambda w: access.member_of(w, person, project))
        if found is None:
            raise LookupError(person)
        return found

    def join(
        self,
        owner: int,
        project: int,
        person: int,
        role: Role = "annotator",
        pool: int | None = None,
    ) -> Member:
        manager = self.member(owner, project)
        token = self.write(lambda w: people.invite(w, manager, role=role, pool=pool, now=self.now))
        return self.write(
            lambda w: people.accept_invitation(
                w, access.token_hash(token), person=person, now=self.now
            )
        )

    def ready(
        self,
        spec: ProjectSpec,
        items: list[Item],
        *,
        slug: str = "demo",
        people_a_pool: int = 1,
        **seal: Any,
    ) -> Ready:
        """An open project with people in every pool; sealed with ``SEAL``, unless ``seed`` is
        another, so that every run asks the same.
        """
        owner = self.person(f"owner-{slug}")
        project = self.project(owner, slug, spec)
        self.write(lambda w: projects.import_items(w, project, items, now=self.now))
        raters = {}
        for pool in spec.pools:
            for i in range(people_a_pool):
                person = self.person(f"{slug}-rater-{pool}-{i}")
                self.join(owner, project, person, pool=pool)
                raters[person] = self.session(person)
        self.write(
            lambda w: projects.seal_project(
                w, project, actor="system", now=self.now + 1, **{"seed": SEAL, **seal}
            )
        )
        self.write(lambda w: projects.open_project(w, project, actor="system", now=self.now + 2))
        return Ready(project, owner, raters)

    def work(
        self, ready: Ready, say: Callable[[str, tuple[int, ...]], str], *, most: int = 10**9
    ) -> int:
        """Everybody answers what they are asked, up to ``most`` answers; ``say`` gets the item's
        text and the classes shown.
        """
        return asyncio.run(self._work(ready, say, most))

    async def _work(
        self, ready: Ready, say: Callable[[str, tuple[int, ...]], str], most: int
    ) -> int:
        done, idle = 0, 0
        while idle < 2 and done < most:
            busy = False
            for token in ready.raters.values():
                self.now += 1
                asked = await self.store.next_question(token, ready.project, now=self.now)
                if asked is not None and done < most:
                    busy = True
                    value = say(str(asked.content.get("text")), asked.shown)
                    await self.store.answer(
                        token,
                        ready.project,
                        question=asked.question,
                        key=asked.key,
                        value=value,
                        shown_at=self.now,
                        client_ms=None,
                        now=self.now,
                        want_next=False,
                    )
                    done += 1
            idle = 0 if busy else idle + 1
            self.now += 0 if busy else 61  # what is to be asked again waits for its answer
        self.leave(ready)
        return done

    def leave(self, ready: Ready) -> None:
        """Everybody leaves: their last answers are final."""
        for person in ready.raters:
            member = self.read(lambda w, p=person: access.member_of(w, p, ready.project))
            if member is not None:
                self.write(lambda w, m=member: answers.leave(w, m, now=self.now))


@dataclasses.dataclass(frozen=True)
class Ready:
    project: int
    owner: int
    raters: dict[int, str]


def open_service(folder: Path, *, fast: bool = False) -> Service:
    """``fast`` does not wait for the disk, for tests of numbers."""
    return Service(
        open_store(
            f"sqlite:///{folder / 'labels.db'}{'?synchronous=off' if fast else ''}", unsafe=fast
        )
    )
