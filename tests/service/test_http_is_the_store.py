"""One whole project over HTTP gives the same export and the same estimates as the same answers
through the store alone.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="the extra 'collect' is not installed")
pytest.importorskip("uvicorn", reason="the extra 'collect' is not installed")
pytest.importorskip("argon2", reason="the extra 'collect' is not installed")

from noracle.collect.live import live_view
from noracle.collect.model import ClassSpec, Item, ProjectSpec
from noracle.collect.server import make_key
from noracle.collect.service import access, exports, people, projects
from noracle.collect.simulate import CrowdClient
from noracle.collect.store import open_store
from noracle.collect.store.base import Store, Work
from tests.service.test_crash_http import SLUG, Project, Server

pytestmark = pytest.mark.full

CLASSES, ITEMS = 4, 300
SEED = bytes(range(32))


def truth(item: str) -> int:
    return hashlib.sha256(item.encode()).digest()[0] % CLASSES


def verdict(item: str, shown: tuple[int, ...]) -> str:
    """What the specialist says; it depends on the question alone, a few are unsure."""
    if hashlib.sha256(f"{item}|{shown}".encode()).digest()[0] < 8:
        return "unsure"
    return "yes" if truth(item) == shown[0] else "no"


def make_project(url: str, folder: Path) -> Project:
    key_file = folder / "server.key"
    make_key(key_file)
    spec = ProjectSpec(
        protocol="partitioned", classes=tuple(ClassSpec(name=f"class {k}") for k in range(CLASSES))
    )
    tokens = tuple(access.new_token() for _ in range(CLASSES))
    now = time.time()

    def fill(work: Work) -> int:
        owner = people.add_person(
            work, email="owner@example.org", name="Owner", password_hash="-", now=now
        )
        project = projects.create_project(
            work, slug=SLUG, name="A project", spec=spec, owner=owner, now=now
        )
        projects.import_items(
            work,
            project,
            [Item(name=f"i{i:03}", content={"text": f"i{i:03}"}) for i in range(ITEMS)],
            now=now,
        )
        member = access.member_of(work, owner, project)
        assert member is not None
        for k, token in enumerate(tokens):
            person = people.add_person(
                work, email=f"p{k}@example.org", name=f"P {k}", password_hash="-", now=now
            )
            invitation = people.invite(work, member, role="annotator", pool=k, now=now)
            people.accept_invitation(work, access.token_hash(invitation), person=person, now=now)
            people.start_session(work, person, access.token_hash(token), now=now)
        projects.seal_project(work, project, actor=member.alias, now=now, seed=SEED)
        projects.open_project(work, project, actor=member.alias, now=now)
        answers = {f"i{i:03}": (truth(f"i{i:03}") + (i % 5 == 0)) % CLASSES for i in range(ITEMS)}
        projects.add_system(work, project, "agent", answers, actor=member.alias, now=now)
        return project

    store = open_store(url)
    try:
        return Project(url, key_file, store.write_now(fill), tokens)
    finally:
        store.close()


async def by_store(store: Store, project: Project) -> int:
    done = 0
    for token in project.tokens:
        session = access.token_hash(token)
        asked = await store.next_question(session, project.id, now=time.time())
        while asked is not None:
            kept = await store.answer(
                session,
                project.id,
                question=asked.question,
                key=asked.key,
                value=verdict(asked.content["text"], asked.shown),
                shown_at=time.time(),
                client_ms=None,
                now=time.time(),
                want_next=True,
            )
            done, asked = done + 1, kept.next
    return done


async def by_http(url: str, project: Project) -> int:
    async def one(token: str) -> int:
        done = 0
        async with CrowdClient(url, token=token, patience=20.0) as client:
            asked = await client.next(SLUG)
            while asked is not None:
                said = verdict(asked["content"]["text"], tuple(asked["shown"]))
                _, asked = await client.answer(SLUG, asked, said)
                done += 1
        return done

    return sum(await asyncio.gather(*(one(token) for token in project.tokens)))


def tables(store: Store, project: int) -> dict[str, Any]:
    """Everything that an export says but times, and aliases, which are random."""
    found = store.read_now(lambda work: exports.evidence_tables(work, project))
    said = {}
    for name, table in found.items():
        kept = [i for i, column in enumerate(table.columns) if column not in ("at", "rater")]
        said[name] = sorted(str([row[i] for i in kept]) for row in table.rows)
    return said


def test_a_project_over_http_is_the_project_of_the_store(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("http", "store")]
    for folder in folders:
        folder.mkdir()
    web, plain = (make_project(f"sqlite:///{folder / 'labels.db'}", folder) for folder in folders)
    with Server(web, folders[0]) as server:
        assert asyncio.run(by_http(server.url, web)) == ITEMS
    stores = [open_store(p.url) for p in (web, plain)]
    try:
        assert asyncio.run(by_store(stores[1], plain)) == ITEMS
        for opened, made in zip(stores, (web, plain), strict=True):
            opened.write_now(
                lambda work, p=made: projects.close_project(work, p.id, actor="system", now=2e9)
            )
        over_http, direct = (tables(s, p.id) for s, p in zip(stores, (web, plain), strict=True))
        assert over_http == direct
        assert len(over_http["judgements"]) == ITEMS
        roots = [s.read_now(lambda work: projects.project_row(work, SLUG)["root"]) for s in stores]
        assert roots[0] == roots[1]
        views = [
            s.read_now(lambda work, p=p: live_view(work, p.id, now=0.0))
            for s, p in zip(stores, (web, plain), strict=True)
        ]
        assert views[0].systems == views[1].systems
        assert [c.to_dict() for c in views[0].checks] == [c.to_dict() for c in views[1].checks]
    finally:
        for store in stores:
            store.close()
