"""A whole project in a minute: pictures of shapes, one simulated specialist a shape, two systems,
over real HTTP.

Which shape occurs most often in the picture? The pictures are drawn by a rule
(:func:`noracle.simulate.simulate_task`), so that the truth is known here, as it never is in a real
project.
"""

from __future__ import annotations

import asyncio
import dataclasses
import secrets
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from noracle.collect.model import ClassSpec, Item, ProjectSpec
from noracle.collect.server import Running, ServerSettings, make_key
from noracle.collect.simulate import Habits, Invited, crowd, fingerprint
from noracle.errors import ArgumentError
from noracle.simulate import simulate_task

if TYPE_CHECKING:
    from noracle.collect.live import LiveView
    from noracle.collect.store.base import Store, Work

SLUG = "shapes"
EMAIL = "owner@example.org"
HABITS = Habits(false_yes=0.003, false_no=0.02, unsure=0.01)
SYSTEMS = {"large-eye": 0.85, "small-eye": 0.65}
_CORNERS = {
    "triangle": "three",
    "square": "four",
    "pentagon": "five",
    "hexagon": "six",
    "circle": "no",
}
_PICTURE = 96  # pixels; small pictures keep the demo quick


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Demo:
    """A project that is open and served.

    Attributes
    ----------
    password
        Of the owner (``EMAIL``), made for this demo.
    key
        The true class by what an item looks like; only simulated specialists have it.
    accuracy
        The true accuracy of each system on the items that are judged.
    questions
        How many answers will fill the project.
    """

    server: Running
    project: int
    password: str
    people: tuple[Invited, ...]
    key: Mapping[str, int]
    accuracy: Mapping[str, float]
    questions: int

    def fill(self, each: Callable[[], None] | None = None) -> list[int]:
        """Let the specialists join and answer everything; returns the number of answers by person."""
        return asyncio.run(
            crowd(self.server.url, SLUG, self.people, self.key, protocol="partitioned", each=each)
        )


def specification(*, n_items: int, panel_items: int, gold_rate: float) -> ProjectSpec:
    """The project of the demo: one question an item, a panel and gold to find specialists who err."""
    task = simulate_task("shape", n_items=1)
    classes = tuple(
        ClassSpec(
            name=name,
            guideline=f"Say **yes** if *{name}s* ({_CORNERS[name]} corners) are the most frequent shape.",
        )
        for name in task.options
    )
    return ProjectSpec(
        protocol="partitioned",
        classes=classes,
        question="Does the shape “{class}” occur most often? Size and colour do not matter.",
        gold_rate=gold_rate,
        panel_items=panel_items,
        planned_n=n_items - panel_items,
        stop_rule="all questions answered",
    )


def start(folder: Path, *, n_items: int = 500, port: int = 0, seed: int = 0) -> Demo:
    """Make the database and the project in ``folder``, seal and open it, and serve it.

    The caller leaves ``demo.server`` (a context manager that is entered already) with ``__exit__``
    or :func:`stop`.
    """
    if not 20 <= n_items <= 20_000:
        raise ArgumentError(f"n_items must be from 20 to 20,000; got {n_items}.")
    url, key_file = f"sqlite:///{folder / 'demo.db'}", folder / "demo.db.key"
    make_key(key_file)
    server = Running(
        ServerSettings(url=url, key_file=key_file, port=port, answers_per_minute=1_000_000)
    )
    try:
        server.__enter__()
        return _project(server, server.store, n_items, seed)
    except BaseException:
        server.__exit__()
        raise


def stop(demo: Demo) -> None:
    """End the server."""
    demo.server.__exit__()


def _project(server: Running, store: Store, n_items: int, seed: int) -> Demo:
    from noracle.collect.content import clean_image
    from noracle.collect.service import people, projects
    from noracle.collect.service.access import member_of

    gold, panel = max(10, n_items // 20), max(5, n_items // 25)
    task = simulate_task("shape", n_items=n_items + gold, difficulty=0.5, size=_PICTURE, seed=seed)
    truth = {name: int(code) for name, code in zip(task.items, task.codes, strict=True)}
    pictures = {item.item: clean_image(item.png) for item in task}
    password = secrets.token_urlsafe(12)
    hashed = people.hash_password(password)
    spec = specification(n_items=n_items, panel_items=panel, gold_rate=gold / (n_items + gold))
    judged = task.items[:n_items]  # the rest is gold
    systems = {
        name: _answers(judged, truth, accuracy, seed + place)
        for place, (name, accuracy) in enumerate(SYSTEMS.items(), 1)
    }

    def make(work: Work) -> tuple[int, list[str]]:
        now = time.time()
        owner = people.add_person(
            work, email=EMAIL, name="Demo owner", password_hash=hashed, now=now
        )
        project = projects.create_project(
            work, slug=SLUG, name="Which shape occurs most often?", spec=spec, owner=owner, now=now
        )
        member = member_of(work, owner, project)
        if member is None:
            raise ArgumentError("the owner must be a member of the project; it is not.")
        for picture in pictures.values():
            projects.add_image(work, project, picture)
        items = [
            Item(
                name=name,
                content={"image": pictures[name].sha256},
                truth=None if place < n_items else truth[name],
            )
            for place, name in enumerate(task.items)
        ]
        projects.import_items(work, project, items, actor=member.alias, now=now)
        projects.seal_project(work, project, actor=member.alias, now=now)
        for name, answers in systems.items():
            projects.add_system(work, project, name, answers, actor=member.alias, now=now)
        projects.open_project(work, project, actor=member.alias, now=now)
        return project, [
            people.invite(work, member, role="annotator", pool=pool, now=now) for pool in spec.pools
        ]

    project, tokens = store.write_now(make)
    asked = store.read_now(
        lambda work: work.one(
            "SELECT COUNT(*) AS n FROM question WHERE project_id = :project", project=project
        )
    )
    invited = tuple(
        Invited(
            invitation=token,
            name=f"Specialist for {c.name}s",
            email=f"{c.name}@example.org",
            password=secrets.token_urlsafe(12),
            habits=HABITS,
        )
        for c, token in zip(spec.classes, tokens, strict=True)
    )
    return Demo(
        server=server,
        project=project,
        password=password,
        people=invited,
        key={fingerprint({"image": pictures[name].sha256}): truth[name] for name in task.items},
        accuracy={
            name: float(np.mean([answers[item] == truth[item] for item in judged]))
            for name, answers in systems.items()
        },
        questions=0 if asked is None else int(asked["n"]),
    )


def _answers(
    items: tuple[str, ...], truth: Mapping[str, int], accuracy: float, seed: int
) -> dict[str, int | None]:
    """Answers of a system that is right at this rate, and else says any other class."""
    rng = np.random.default_rng(seed)
    right, other = (
        rng.random(len(items)) < accuracy,
        rng.integers(1, len(_CORNERS), size=len(items)),
    )
    return {
        item: truth[item] if fine else int((truth[item] + shift) % len(_CORNERS))
        for item, fine, shift in zip(items, right, other, strict=True)
    }


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What the demo has to show at its end: the last view of the dashboard, and the export with its
    check.
    """

    view: LiveView
    archive: Path
    check: Any


def finish(demo: Demo, folder: Path) -> Outcome:
    """Look at the estimates, close the project, write the archive into ``folder`` and verify it, as
    an auditor would.
    """
    from noracle.collect.archive import read_archive, write_archive
    from noracle.collect.live import live_view
    from noracle.collect.service import exports, projects
    from noracle.collect.verify import verify_archive

    store, project = demo.server.store, demo.project
    view = store.read_now(lambda work: live_view(work, project, now=time.time()))
    store.write_now(
        lambda work: projects.close_project(work, project, actor="system", now=time.time())
    )
    path = folder / f"{SLUG}.zip"
    write_archive(
        store.read_chained_now(project, lambda work: exports.archive_of(work, project)), path
    )
    return Outcome(view=view, archive=path, check=verify_archive(read_archive(path)))
