"""What a manager does, over the client and over pages: imports that can be looked at and undone,
raters, closing; and files of Hugging Face.
"""

from __future__ import annotations

import collections
import inspect
import io
import json
import re
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("uvicorn", reason="the extra 'collect' is not installed")

from noracle.collect import Client
from noracle.collect.archive import read_archive
from noracle.collect.chain import salted_hash
from noracle.collect.errors import Conflict, Forbidden, NotFound, Refused, SignedOut
from noracle.collect.formats import read_items
from noracle.collect.model import Item, ProjectSpec
from noracle.collect.service import projects
from noracle.collect.verify import verify_archive
from tests.service.test_security_routes import ALLOWED
from tests.service.web_site import PASSWORD, Site, running

SPEC = {"protocol": "partitioned", "classes": ["cat", "dog", "owl"], "gold_rate": 0.2}
SPEC |= {"panel_items": 4}


@pytest.fixture
def site(store_url: str) -> Iterator[Site]:
    with running(store_url, changes_per_minute=100_000, sign_ins=1000) as made:
        yield made


def test_a_whole_project_through_the_client(site: Site, tmp_path: Path) -> None:
    site.person("owner")
    table = "id;question;label;note\n"
    table += "".join(
        f"q{k};=Text {k};{['cat', 'dog', 'owl'][k % 3] if k < 9 else ''};x\n" for k in range(60)
    )
    (tmp_path / "items.csv").write_text(table)
    with Client(site.url, patience=10) as boss:
        with pytest.raises(SignedOut):
            boss.projects()
        assert boss.sign_in("owner@example.org", PASSWORD) == "owner"
        boss.create("abc", "A B C", SPEC)
        with pytest.raises(Conflict):
            boss.create("abc", "again", ProjectSpec.from_dict(SPEC))
        with pytest.raises(Refused, match="column item"):
            boss.import_items("abc", tmp_path / "items.csv")
        assert boss.import_items("abc", [Item(name="wrong", content={"text": "t"}, truth=1)]) == 1
        (first,) = boss.project("abc")["imports"]
        assert (first["items"], first["gold"]) == (1, 1)
        boss.undo_import("abc", first["id"])
        with pytest.raises(NotFound):
            boss.undo_import("abc", first["id"])
        assert boss.project("abc")["progress"]["items"] == 0
        columns = {"item": "id", "text": "question", "truth": "label"}
        assert boss.import_items("abc", tmp_path / "items.csv", columns=columns) == 60
        boss.change_spec("abc", {**SPEC, "question": "Is it a {class}?"})
        sealed = boss.seal("abc")
        assert len(sealed["root"]) == len(sealed["commitment"]) == 64
        with pytest.raises(Conflict):
            boss.undo_import("abc", boss.project("abc")["imports"][0]["id"])
        boss.add_system("abc", "agent", {f"q{k}": k % 3 for k in range(60)})
        links = [boss.invite("abc", pool=pool) for pool in range(3)]
        spare = boss.invite("abc", "auditor", days=1)
        (gone,) = [i for i in boss.people("abc")["invitations"] if i["role"] == "auditor"]
        boss.revoke("abc", gone["id"])
        boss.open("abc")
        with Client(site.url) as late, pytest.raises(NotFound):
            late.join(spare, name="x", email="x@example.org", password=PASSWORD)
        for pool, link in enumerate(links):
            with Client(site.url, patience=10) as rater:
                joined = rater.join(link, name="R", email=f"r{pool}@example.org", password=PASSWORD)
                assert (joined["project"], joined["pools"]) == ("abc", [pool])
                with pytest.raises(Forbidden):
                    rater.people("abc")
                asked = rater.next("abc")
                done = 0
                while asked is not None:
                    assert asked["content"]["text"].startswith("=Text ")
                    right = int(asked["content"]["text"].split()[1]) % 3 == pool
                    number, asked = rater.answer("abc", asked, "yes" if right else "no")
                    done += 1
                rater.amend("abc", number, "unsure", key=f"another-key-{pool}")
                rater.sign_out()
                with pytest.raises(SignedOut):
                    rater.next("abc")
        told = boss.people("abc")
        assert (
            sum(one["answers"] for one in told["raters"]) == boss.project("abc")["progress"]["done"]
        )
        assert all(one["gold"] is None or one["gold"]["of"] % 5 == 0 for one in told["raters"])
        live = boss.live("abc")
        assert live["answered"] == live["asked"]
        for kind in ("csv", "jsonl", "parquet", "label-studio"):
            assert b"panel" not in unpacked(boss.export("abc", kind))
        before = boss.project("abc")["head"]
        boss.close_project("abc")
        archive = read_archive(io.BytesIO(boss.export("abc")))
        checked = verify_archive(archive, published=[sealed["root"], before])
        assert checked.passed, checked.findings
        assert boss.projects()[0]["state"] == "closed"
        raters = boss.people("abc")["raters"]
        gold = [one["gold"] for one in raters if one["gold"]]
        assert sum(g["of"] for g in gold) == sum(
            row["kind"] == "gold" for row in archive.judgements
        )
        assert all(g["right"] == g["of"] and g["low"] > 0.2 and g["high"] == 1 for g in gold)
        assert all(one["panel"]["right"] == one["panel"]["of"] == 4 for one in raters)
        assert all(one["seconds"] >= 0 and one["expired"] == 0 for one in raters)


def test_people_and_answers_of_a_project_through_the_client(site: Site) -> None:
    site.person("owner")
    mine: dict[str, int | str | None] = {f"i{k}": k % 3 for k in range(6)}
    salt, new = projects.new_salt(), "quite another password"
    with Client(site.url) as boss, Client(site.url) as rater:
        boss.sign_in("owner@example.org", PASSWORD)
        boss.create("abc", "A B C", {"protocol": "judge-all", "classes": ["cat", "dog", "owl"]})
        boss.import_items("abc", [Item(name=f"i{k}", content={"text": "t"}) for k in range(6)])
        boss.seal("abc")
        boss.commit_system("abc", "kept", salted_hash(salt, mine))
        assert not boss.add_system("abc", "early", mine)
        boss.open("abc")
        rater.join(boss.invite("abc"), name="R", email="r@example.org", password=PASSWORD)
        asked = rater.next("abc")
        assert asked is not None
        number, _ = rater.answer("abc", asked, "no|no|yes")
        again = rater.undo("abc", number)
        assert again is not None
        assert again["question"] == asked["question"]
        number, _ = rater.answer("abc", again, "yes|no|no")
        rater.comment("abc", asked["question"], "Blurred.", broken=True)
        rater.leave("abc")
        with pytest.raises(Conflict, match="final"):
            rater.undo("abc", number)
        (said,) = boss.comments("abc")
        assert (said["text"], said["broken"]) == ("Blurred.", True)
        with pytest.raises(Forbidden):
            rater.comments("abc")
        assert boss.add_system("abc", "late", mine)
        assert not boss.add_system("abc", "kept", mine, salt=salt)
        rater.change_password(PASSWORD, new)
        rater.sign_out(everywhere=True)
        with pytest.raises(SignedOut):
            rater.sign_in("r@example.org", PASSWORD)
        rater.reset(boss.reset_link("abc", said["rater"]), PASSWORD)
        assert [one["slug"] for one in rater.projects()] == ["abc"]
        boss.remove("abc", said["rater"])
        assert rater.projects() == []


def test_the_client_has_a_method_for_every_route() -> None:
    """The routes of the pages' own forms are the same calls of the services."""
    called: set[tuple[str, str]] = set()

    class Noted(Client):
        def send(self, method: str, path: str, **_: Any) -> Any:
            called.add((method, path))

        def call(self, method: str, path: str, *_: object, **__: Any) -> Any:
            called.add((method, path))
            return collections.defaultdict(int, projects=[], comments=[], webhooks=[])

    sample: dict[str, Any] = {"items": [], "answers": {}, "spec": {}, "columns": {}}
    sample |= {"asked": {"question": 1, "key": "k"}}
    with Noted("http://127.0.0.1:1") as client:
        for name, method in inspect.getmembers(client, inspect.ismethod):
            wanted = inspect.signature(method).parameters.values()
            if name[0] != "_" and name not in ("send", "call", "talk", "keep", "close"):
                bare = [w for w in wanted if w.default is w.empty and w.kind != w.VAR_KEYWORD]
                method(**{w.name: sample.get(w.name, "x") for w in bare})
        client.sign_out(everywhere=True)
    plain = {(method, path.removeprefix("/api/v1")) for method, path in ALLOWED if "/api/" in path}
    missing = {
        (method, path)
        for method, path in plain
        if not any(m == method and re.fullmatch(re.sub(r"{\w+}", "x", path), p) for m, p in called)
    }
    assert missing == set()


def unpacked(data: bytes) -> bytes:
    if data[:2] != b"PK":
        return data
    with zipfile.ZipFile(io.BytesIO(data)) as whole:
        return b"".join(whole.read(name) for name in whole.namelist())


def test_an_undone_import_leaves_nothing_behind(site: Site) -> None:
    image = pytest.importorskip("PIL.Image", reason="Pillow draws the image")
    owner = site.person("undo")
    project = site.project("undo", owner)
    site.items(project, [Item(name="stays", content={"text": "t"})])
    whole = io.BytesIO()
    drawn = io.BytesIO()
    image.new("RGB", (4, 4)).save(drawn, "PNG")
    with zipfile.ZipFile(whole, "w") as packed:
        packed.writestr("items.csv", "item,image,truth\na,a.png,cat\nb,a.png,\n")
        packed.writestr("a.png", drawn.getvalue())
    boss = site.as_(owner)
    assert boss.upload("/p/undo/items", "x.zip", whole.getvalue()).status == 303
    other = site.person("second")
    site.join("undo", owner, other, "manager")
    assert site.as_(other).get("/p/undo/items").status == 303, "a file is its sender's"
    sent = {"do": "add", "item": "item", "image": "image", "truth": "truth"}
    assert boss.post("/p/undo/items", sent).status == 303
    assert (site.count("item"), site.count("image"), site.count("gold")) == (3, 1, 1)
    assert site.count("upload") == 0
    batches = site.as_(owner).api("GET", "/projects/undo").json()["imports"]
    assert [one["items"] for one in batches] == [1, 2]
    undone = boss.post("/p/undo/setup", {"do": "undo", "import": str(batches[1]["id"])})
    assert undone.status == 303
    assert (site.count("item"), site.count("image"), site.count("gold")) == (1, 0, 0)
    events = site.store.read_now(
        lambda w: w.all("SELECT payload FROM event WHERE kind = 'import-undone'")
    )
    assert [json.loads(e["payload"])["items"] for e in events] == [2]
    stranger = site.person("stranger")
    site.project("other", stranger)
    theirs = site.as_(stranger)
    number = str(batches[0]["id"])
    assert theirs.post("/p/other/setup", {"do": "undo", "import": number}).status == 404
    assert site.count("item") == 1


def huggingface(folder: Path, *, readme: bool) -> None:
    """A folder as ``push_to_hub`` writes it: two parts, pictures as bytes, classes by their names."""
    image = pytest.importorskip("PIL.Image", reason="Pillow draws the image")
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    (folder / "data").mkdir(parents=True)
    features = {"label": {"names": ["dog", "cat"], "_type": "ClassLabel"}}
    for part in range(2):
        rows = []
        for k in range(3):
            drawn = io.BytesIO()
            image.new("RGB", (4, 4), (part * 50, k * 50, 0)).save(drawn, "PNG")
            rows.append({"bytes": drawn.getvalue(), "path": f"{k}.png"})
        table = pa.table({"image": rows, "label": pa.array([0, 1, 0], pa.int64())})
        if not readme:
            about = {"huggingface": json.dumps({"info": {"features": features}})}
            table = table.replace_schema_metadata(about)
        pq.write_table(table, folder / "data" / f"train-0000{part}-of-00002.parquet")
    if readme:
        (folder / "README.md").write_text(
            "---\ndataset_info:\n  features:\n  - name: image\n    dtype: image\n  - name: label\n"
            "    dtype:\n      class_label:\n        names:\n          '0': dog\n          '1': cat\n"
            "  splits:\n  - name: train\n---\n# Pets\n"
        )


@pytest.mark.parametrize("readme", [False, True])
def test_a_folder_of_hugging_face_is_taken(tmp_path: Path, readme: bool) -> None:
    folder = tmp_path / "pets"
    huggingface(folder, readme=readme)
    spec = ProjectSpec.from_dict({"protocol": "partitioned", "classes": ["cat", "dog"]})
    plain = read_items(folder, spec=spec)
    assert [item.name for item in plain.items] == ["1", "2", "3", "4", "5", "6"]
    assert len(plain.pictures) == 6
    assert {item.truth for item in plain.items} == {None}, "a label is no gold unless one says so"
    labelled = read_items(folder, spec=spec, columns={"image": "image", "truth": "label"})
    assert [item.truth for item in labelled.items] == [1, 0, 1, 1, 0, 1]
    from noracle.collect.client import _packed

    name, data = _packed(folder)
    zipped = read_items(data, spec=spec, name=name, columns={"image": "image", "truth": "label"})
    assert zipped == labelled
    other = folder / "data" / "test-00000-of-00001.parquet"
    other.write_bytes((folder / "data" / "train-00000-of-00002.parquet").read_bytes())
    with pytest.raises(Refused, match="one split; got test, train"):
        read_items(folder, spec=spec)


def test_the_first_account_is_made_once_and_with_its_link_alone(tmp_path: Path) -> None:
    from noracle.collect.web.security import first_token

    with running(tmp_path) as site:
        link = f"/first/{first_token(site.settings.key)}"
        visitor = site.visitor()
        for wrong in ("/first/x", "/first/" + "0" * 64, "/first/%ff"):
            assert visitor.get(wrong).status == 404
        assert visitor.get(link).status == 200
        sent = {"email": "ann@example.org", "name": "Ann", "password": "short"}
        assert visitor.post(link, sent).status == 422
        assert visitor.post("/first/x", sent).status == 404
        made = visitor.post(link, {**sent, "password": PASSWORD})
        assert (made.status, made.headers["location"]) == (303, "/new")
        assert visitor.get("/new").status == 200
        again = site.visitor()
        assert again.get(link).status == 404
        again.get("/sign-in")
        assert again.post(link, {**sent, "email": "b@example.org"}).status == 404
        assert site.count("person") == 1


def test_counts_of_an_annotator_add_up(tmp_path: Path) -> None:
    with running(tmp_path) as site:
        owner, rater = site.person("owner"), site.person("rater")
        project = site.project("sum", owner)
        site.items(project, [Item(name="a", content={"text": "t"})])
        site.step(project, "seal", "open")
        site.join("sum", owner, rater, "annotator", 0, 1, 2)
        from noracle.collect.service.projects import my_progress

        visitor = site.as_(rater)

        def left() -> Any:
            return site.store.read_now(lambda w: my_progress(w, project, rater, day=0.0))

        assert left() == {"done": 0, "today": 0, "left": 1}
        asked = visitor.api("POST", "/projects/sum/next").json()["next"]
        assert left() == {"done": 0, "today": 0, "left": 1}, (
            "the question on the page is one that is left"
        )
        sent = {"question": asked["question"], "key": asked["key"], "value": "no"}
        visitor.api("POST", "/projects/sum/answers", {**sent, "shown_at": time.time()})
        assert left() == {"done": 1, "today": 1, "left": 0}
