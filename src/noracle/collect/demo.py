"""A whole project in a minute: pictures of shapes, one simulated specialist a shape, two systems,
over real HTTP.

Which shape occurs most often in the picture? The pictures are drawn by a rule
(:func:`noracle.simulate.simulate_task`), so that the truth is known here, as it never is in a real
project.
"""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import itertools
import secrets
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from noracle.collect.model import ClassSpec, Item, ProjectSpec
from noracle.collect.server import RunningServer, ServerSettings, make_key
from noracle.collect.simulate import Habits, Invited, crowd, fingerprint
from noracle.errors import require
from noracle.simulate import simulate_task

if TYPE_CHECKING:
    from noracle.collect.live import LiveView
    from noracle.collect.store.base import Work

SLUG = "shapes"
EMAIL = "owner@example.org"
HABITS = Habits(false_yes=0.003, false_no=0.02, unsure=0.01)
SYSTEMS = {"large-eye": 0.85, "small-eye": 0.65}
_SHAPES = ("triangle", "square", "pentagon", "hexagon", "circle")
_CORNERS = dict(zip(_SHAPES, ("three", "four", "five", "six", "no"), strict=True))
_PICTURE = 96  # pixels; small pictures keep the demo quick


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Demo:
    """A project that is open and served: the owner's ``password``, the true class by what an item
    looks like (``key``; only simulated specialists have it), the true ``accuracy`` of each system,
    and how many answers will fill it.
    """

    server: RunningServer
    project: int
    password: str
    people: tuple[Invited, ...]
    key: Mapping[str, int]
    accuracy: Mapping[str, float]
    questions: int

    def fill(self, each: Callable[[], None] | None = None) -> list[int]:
        """Let the specialists join and answer everything; returns the number of answers by person."""
        options: Any = {"protocol": "partitioned", "each": each}
        return asyncio.run(crowd(self.server.url, SLUG, self.people, self.key, **options))


def specification(*, n_items: int, panel_items: int, gold_rate: float) -> ProjectSpec:
    """The project of the demo: one question per item, a panel and gold to find specialists who err."""
    guide = "Say **yes** if *{}s* ({} corners) are the most frequent shape."
    shapes = simulate_task("shape", n_items=1).options
    guides = {name: guide.format(name, _CORNERS[name]) for name in shapes}
    classes = tuple(ClassSpec(name=name, guideline=text) for name, text in guides.items())
    question = "Does the shape “{class}” occur most often? Size and colour do not matter."
    plan: Any = {"planned_n": n_items - panel_items, "stop_rule": "all questions answered"}
    plan |= {"gold_rate": gold_rate, "panel_items": panel_items, "question": question}
    return ProjectSpec(protocol="partitioned", classes=classes, **plan)


def start(folder: Path, *, n_items: int = 500, port: int = 0, seed: int = 0) -> Demo:
    """Make database and project in ``folder``, open it and serve it until :func:`stop`."""
    require(20 <= n_items <= 20_000, f"n_items must be from 20 to 20,000; got {n_items}.")
    url, key_file = f"sqlite:///{folder / 'demo.db'}", folder / "demo.db.key"
    make_key(key_file)
    quick: Any = {"answers_per_minute": 1_000_000}  # as simulated people are
    server = RunningServer(ServerSettings(url=url, key_file=key_file, port=port, **quick))
    try:
        server.__enter__()
        return _project(server, n_items, seed)
    except BaseException:
        server.__exit__()
        raise


def stop(demo: Demo) -> None:
    """End the server."""
    demo.server.__exit__()


def _project(server: RunningServer, n_items: int, seed: int) -> Demo:
    from noracle.collect.content import clean_image
    from noracle.collect.errors import NotFound
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
    made = zip(SYSTEMS.items(), itertools.count(seed + 1), strict=False)
    systems = {name: _answers(judged, truth, rate, drawn) for (name, rate), drawn in made}

    def make(work: Work) -> tuple[int, list[str]]:
        now = time.time()
        account = {"email": EMAIL, "name": "Demo owner", "password_hash": hashed}
        owner = people.add_person(work, now=now, **account)
        named: Any = {"slug": SLUG, "name": "Which shape occurs most often?"}
        project = projects.create_project(work, spec=spec, owner=owner, now=now, **named)
        member = NotFound.given(member_of(work, owner, project), "The owner must be a member.")
        for picture in pictures.values():
            projects.add_image(work, project, picture)
        gold = {name: truth[name] for name in task.items[n_items:]}
        shown = {name: {"image": picture.sha256} for name, picture in pictures.items()}
        items = [Item(name=n, content=c, truth=gold.get(n)) for n, c in shown.items()]
        by: Any = {"actor": member.alias, "now": now}
        projects.import_items(work, project, items, **by)
        drawn = hashlib.sha256(f"noracle collect demo|{seed}".encode()).digest()
        projects.seal_project(work, project, seed=drawn, **by)
        for name, answers in systems.items():
            projects.add_system(work, project, name, answers, **by)
        projects.open_project(work, project, **by)
        asked: Any = {"role": "annotator", "now": now}
        return project, [people.invite(work, member, pool=pool, **asked) for pool in spec.pools]

    project, tokens = server.store.write_now(make)
    progress = server.store.read_now(lambda work: projects.progress(work, project))
    invited = []
    for c, token in zip(spec.classes, tokens, strict=True):
        account = {"name": f"Specialist for {c.name}s", "email": f"{c.name}@example.org"}
        secret = secrets.token_urlsafe(12)
        invited.append(Invited(invitation=token, password=secret, habits=HABITS, **account))
    key = {fingerprint({"image": pictures[name].sha256}): truth[name] for name in task.items}
    right = {name: [said[i] == truth[i] for i in judged] for name, said in systems.items()}
    rates = {name: float(np.mean(each)) for name, each in right.items()}
    about: Any = {"accuracy": rates, "questions": progress["questions"], "project": project}
    return Demo(server=server, password=password, people=tuple(invited), key=key, **about)


def _answers(
    items: tuple[str, ...], truth: Mapping[str, int], accuracy: float, seed: int
) -> dict[str, int | None]:
    """Answers of a system that is right at this rate, and else says any other class."""
    rng = np.random.default_rng(seed)
    right = rng.random(len(items)) < accuracy
    other = rng.integers(1, len(_CORNERS), size=len(items))
    return {
        item: truth[item] if fine else int((truth[item] + shift) % len(_CORNERS))
        for item, fine, shift in zip(items, right, other, strict=True)
    }


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DemoOutcome:
    """What the demo shows at its end: the last view, and the export with its check."""

    view: LiveView
    archive: Path
    check: Any


def finish(demo: Demo, folder: Path) -> DemoOutcome:
    """Look at the estimates, close the project, and write and verify the archive, as an auditor."""
    from noracle.collect.archive import read_archive, write_archive
    from noracle.collect.live import live_view
    from noracle.collect.service import exports, projects
    from noracle.collect.verify import verify_archive

    store, project = demo.server.store, demo.project
    now, path = time.time(), folder / f"{SLUG}.zip"
    view = store.read_now(lambda work: live_view(work, project, now=now))
    store.write_now(lambda work: projects.close_project(work, project, actor="system", now=now))
    archive = store.read_chained_now(project, lambda work: exports.archive_of(work, project))
    write_archive(archive, path)
    told = store.read_now(lambda work: projects.published(work, SLUG))
    published = [told[key] for key in ("commitment", "root", "head")]
    check = verify_archive(read_archive(path), published=published)
    return DemoOutcome(view=view, archive=path, check=check)
