"""The services say and do the same on both databases."""

from __future__ import annotations

import asyncio
import io

import pytest

pytest.importorskip("argon2", reason="the extra collect is not installed")

from noracle.collect.archive import read_archive
from noracle.collect.content import Picture
from noracle.collect.errors import Conflict, NotFound, Refused, SignedOut, Throttled
from noracle.collect.model import Item
from noracle.collect.service import access, exports, people, projects
from noracle.collect.service.answers import add_comment
from noracle.collect.store.base import Store
from noracle.collect.verify import verify_archive
from tests.unit.collect.service_world import NOW, Service, spec_of, texts


@pytest.fixture
def service(store: Store) -> Service:
    return Service(store)


def test_whole_life_of_a_project_on_each_database(service: Service) -> None:
    spec = spec_of(k=3, gold_rate=0.2, panel_items=2, reasks=1, shuffle_options=True)
    choices = {"text": "which?", "options": ["x", "y", "z"]}
    items = [*texts(20), *texts(4, start=50, truth=1), Item(name="with options", content=choices)]
    ready = service.ready(spec, items, people_a_pool=2)
    assert (
        service.work(
            ready,
            lambda text, shown: (
                "unsure" if text.endswith("3") else "yes" if shown == (1,) else "no"
            ),
        )
        > 20
    )
    answers = {item.name: i % 3 for i, item in enumerate(items)}
    service.write(
        lambda w: projects.add_system(
            w, ready.project, "s", {**answers, "i0001": None}, actor="system", now=service.now
        )
    )
    with pytest.raises(Conflict):
        service.write(
            lambda w: projects.add_system(
                w, ready.project, "s", answers, actor="system", now=service.now
            )
        )
    assert (
        service.write(lambda w: people.forget(w, "demo-rater-0-0@example.org", now=service.now))
        == 1
    )
    for close in (False, True):
        if close:
            service.write(
                lambda w: projects.close_project(
                    w, ready.project, actor="system", now=service.now + 1
                )
            )
        _, _, data = service.store.read_chained_now(
            ready.project, lambda w: exports.export_one(w, ready.project, "archive", texts=True)
        )
        checked = verify_archive(read_archive(io.BytesIO(data)))
        assert checked.passed, checked.findings
    for kind in ("csv", "parquet", "label-studio"):
        assert service.read(lambda w, k=kind: exports.export_one(w, ready.project, k))[2]  # type: ignore[misc]
    seen = service.read(lambda w: projects.progress(w, ready.project))
    assert seen["items"] == 25
    assert seen["done"] == seen["questions"]


def test_a_forgotten_address_is_in_no_live_file(store: Store) -> None:
    """Bytes of the database, its log and its free pages; on PostgreSQL every row of every table,
    and the files of the accounts and of the comments.
    """
    from pathlib import Path

    service = Service(store)
    ready = service.ready(spec_of(k=3), texts(3))
    (rater, token), *_ = ready.raters.items()
    held = asyncio.run(store.next_question(token, ready.project, now=service.now))
    assert held is not None
    member, about = service.member(rater, ready.project), {"broken": False, "now": service.now}
    names = [f"somebody-{k:04}" for k in range(800)]  # many, so that pages split and merge
    for name in names:
        service.person(name)
    gone = names[13::7]
    for name in gone:
        email = f"{name}@example.org"
        service.write(
            lambda w, e=email: access.allow(
                w, f"account|{e}", limit=9, seconds=900.0, now=service.now
            )
        )
        text = f"Ask {email}: this is blurred."
        service.write(lambda w, t=text: add_comment(w, member, held.question, text=t, **about))
        service.write(lambda w, e=email: people.forget(w, e, now=service.now))
    store.scrub()
    if store.url.startswith("sqlite"):
        path = Path(store.url.removeprefix("sqlite:///"))
        files = sorted(path.parent.glob(path.name + "*"))
        assert len(files) >= 2
        whole = b"".join(file.read_bytes() for file in files)
    else:
        tables = (
            "SELECT table_name AS name FROM information_schema.tables WHERE table_schema = 'public'"
        )
        rows = store.read_now(
            lambda w: [w.all(f"SELECT * FROM {t['name']}") for t in w.all(tables)]
        )
        whole = repr(rows).encode()
        found = store.read_now(
            lambda w: w.one(
                "SELECT current_setting('data_directory') AS d, pg_relation_filepath('person') AS p, "
                "pg_relation_filepath('comment') AS c"
            )
        )
        assert found is not None
        store.write_now(lambda w: w.run("SELECT 1"))
        whole += b"".join((Path(found["d"]) / found[name]).read_bytes() for name in "pc")
    assert b"somebody-0000@example.org" in whole
    assert [name for name in gone if name.encode() in whole] == []
    keys = {access.token_hash(f"account|{name}@example.org").encode() for name in gone}
    assert not any(key in whole for key in keys)


def test_nobody_is_told_that_an_item_tests_their_attention(service: Service) -> None:
    items = [
        *texts(6),
        *(
            Item(name=f"t{i}", content={"text": f"test {i}", "attention": True}, truth=1)
            for i in range(3)
        ),
    ]
    ready = service.ready(spec_of(k=3, gold_rate=0.5), items)

    async def contents() -> list[dict[str, object]]:
        found = []
        for token in ready.raters.values():
            asked = await service.store.next_question(token, ready.project, now=service.now)
            while asked is not None:
                found.append(dict(asked.content))
                kept = await service.store.answer(
                    token,
                    ready.project,
                    question=asked.question,
                    key=asked.key,
                    value="no",
                    shown_at=service.now,
                    client_ms=None,
                    now=service.now,
                    want_next=True,
                )
                asked = kept.next
        return found

    found = asyncio.run(contents())
    assert sum(str(content["text"]).startswith("test") for content in found) >= 3
    assert {key for content in found for key in content} == {"text"}


def test_people_and_invitations_on_each_database(service: Service) -> None:
    owner, bob = service.person("ann"), service.person("bob")
    with pytest.raises(Conflict):
        service.person("ANN")
    project = service.project(owner)
    with pytest.raises(Conflict):
        service.project(owner)
    token = service.session(bob)
    assert service.read(lambda w: access.who(w, token, now=NOW)) is not None
    with pytest.raises(NotFound):
        service.read(lambda w: access.member(w, token, "demo", roles=access.ANYBODY, now=NOW))
    with pytest.raises(SignedOut):
        service.read(lambda w: access.member(w, "x", "demo", roles=access.ANYBODY, now=NOW))
    assert service.join(owner, project, bob, pool=0).pools == (0,)
    assert service.join(owner, project, bob, pool=1).pools == (0, 1)
    with pytest.raises(Conflict):
        service.join(owner, project, bob, role="manager")
    boss = service.member(owner, project)
    assert len(service.read(lambda w: people.people_of(w, boss))) == 2
    (left,) = service.read(lambda w: people.invitations_of(w, boss, now=NOW))
    service.write(lambda w: people.revoke_invitation(w, boss, left["id"], now=NOW))
    service.write(lambda w: access.touch_session(w, token, now=NOW + 3600))
    for i in range(4):
        if i < 3:
            service.write(lambda w: access.allow(w, "k", limit=3, seconds=60, now=NOW))
        else:
            with pytest.raises(Throttled):
                service.write(lambda w: access.allow(w, "k", limit=3, seconds=60, now=NOW))


def test_items_and_pictures_on_each_database(service: Service) -> None:
    owner = service.person("ann")
    project = service.project(owner)
    picture = Picture(
        sha256="a" * 64, media="image/png", data=b"\x89PNG\x00\xff", width=1, height=1
    )
    for _ in range(2):
        service.write(lambda w: projects.add_image(w, project, picture))
    service.write(
        lambda w: projects.import_items(
            w, project, [Item(name="ü", content={"image": "a" * 64})], now=NOW
        )
    )
    assert service.read(
        lambda w: projects.image_of(w, service.member(owner, project), "a" * 64)
    ) == ("image/png", b"\x89PNG\x00\xff")
    with pytest.raises(Refused):
        service.write(
            lambda w: projects.import_items(
                w, project, [Item(name="x", content={"text": "a\x00b"})], now=NOW
            )
        )
    service.write(lambda w: projects.change_spec(w, project, spec_of(k=5)))
    assert service.read(lambda w: projects.preview_seal(w, project)).questions == 1
    assert service.read(lambda w: projects.projects_of(w, owner))[0]["role"] == "owner"
    mine = service.read(lambda w: projects.my_progress(w, project, owner, day=0.0))
    assert mine == {"done": 0, "today": 0, "left": 0}
