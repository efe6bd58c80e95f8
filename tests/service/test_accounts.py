"""Accounts: passwords that change, links that reset them, members who leave, and guesses that slow
the one who guesses.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("uvicorn", reason="the extra 'collect' is not installed")

from noracle.collect.service import access, people
from noracle.collect.store.base import SQL
from noracle.collect.web import core
from noracle.errors import NoracleError
from tests.service.web_site import PASSWORD, Site, Visitor, running, texts

NEW = "another horse battery"


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with running(tmp_path, sign_ins=1000) as found:
        yield found


def team(site: Site) -> dict[str, int]:
    """Project alpha, open, with one person in each role."""
    found = {"owner": site.person("owner")}
    project = site.project("alpha", found["owner"])
    site.items(project, texts(30))
    site.step(project, "seal", "open")
    for role in ("manager", "annotator", "auditor"):
        found[role] = site.person(role)
        site.join(
            "alpha", found["owner"], found[role], role, *((0, 1) if role == "annotator" else ())
        )
    return {**found, "project": project}


def alias(site: Site, project: int, person: int) -> str:
    member = site.store.read_now(lambda w: access.member_of(w, person, project))
    assert member is not None
    return member.alias


def kinds(site: Site) -> list[str]:
    return [
        r["kind"]
        for r in site.store.read_now(lambda w: w.all("SELECT kind FROM event ORDER BY id"))
    ]


# passwords


def test_a_password_changes_for_who_knows_the_old_one_and_other_sessions_end(site: Site) -> None:
    ann = site.person("ann")
    here, there = site.as_(ann), site.as_(ann)
    assert here.get("/account").status == 200
    assert here.post("/account", {"old": "wrong", "password": NEW}).status == 403
    assert here.post("/account", {"old": PASSWORD, "password": "short"}).status == 422
    assert here.post("/account", {"old": PASSWORD, "password": NEW}, csrf="0" * 64).status == 403
    assert there.get("/").status == 200
    assert here.post("/account", {"old": PASSWORD, "password": NEW}).status == 200
    assert here.get("/").status == 200
    assert there.get("/").headers["location"] == "/sign-in"
    assert site.visitor().sign_in("ann@example.org").status == 401
    assert site.visitor().sign_in("ann@example.org", NEW).status == 303
    assert here.api("POST", "/password", {"old": NEW, "password": PASSWORD}).status == 204


def test_guessing_the_old_password_in_a_stolen_session_is_slowed(tmp_path: Path) -> None:
    with running(tmp_path, sign_ins=2) as site:
        thief = site.as_(site.person("ann"))
        sent = {"old": "wrong password", "password": NEW}
        assert [thief.api("POST", "/password", sent).status for _ in range(3)] == [403, 403, 429]


def test_signing_out_everywhere_ends_all_sessions(site: Site) -> None:
    ann = site.person("ann")
    here, there, other = site.as_(ann), site.as_(ann), site.as_(site.person("bob"))
    assert here.post("/account", {"do": "everywhere"}).headers["location"] == "/sign-in"
    assert here.get("/").headers["location"] == there.get("/").headers["location"] == "/sign-in"
    assert other.get("/").status == 200
    assert site.as_(ann).api("DELETE", "/sessions").status == 204
    assert site.count("session") == 1


# a link from elsewhere


def test_a_link_from_another_site_signs_nobody_out(site: Site) -> None:
    ann = site.as_(site.person("ann"))
    kept = dict(ann.cookies)
    bare = site.visitor()  # a strict cookie is not sent with a link from elsewhere
    for path in ("/", "/sign-in", "/join/nothing-here-000000000000", "/sign-out"):
        reply = bare.get(path, Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="navigate")
        names = [c.partition("=")[0] for c in reply.headers.get_all("set-cookie") or []]
        assert "noracle" not in names, f"{path} replaced the session"
    ann.cookies = {**kept, **bare.cookies}
    assert ann.get("/").status == 200
    assert bare.get("/sign-in", Sec_Fetch_Site="cross-site").headers["refresh"].endswith("again=1")
    assert bare.get("/sign-in?again=1", Sec_Fetch_Site="cross-site").headers.get("refresh") is None
    for method in ("GET", "HEAD"):
        assert ann.send(method, "/sign-out").status in (404, 405)
    assert ann.send("POST", "/sign-out", b"", {"Sec-Fetch-Site": "cross-site"}).status == 403
    assert ann.post("/sign-out", csrf="").status == 403
    assert ann.get("/").status == 200


# resetting


def link_of(visitor: Visitor, who: str) -> Any:
    return visitor.api("POST", f"/projects/alpha/people/{who}/reset")


def test_a_manager_makes_a_link_that_sets_the_password_once(site: Site) -> None:
    who = team(site)
    rater = alias(site, who["project"], who["annotator"])
    old = site.as_(who["annotator"])
    path = "/reset/" + link_of(site.as_(who["manager"]), rater).json()["token"]
    newer = "/reset/" + link_of(site.as_(who["manager"]), rater).json()["token"]
    visitor = site.visitor()
    assert visitor.get(path).status == 404, "a new link ends the earlier one"
    assert "annotator@example.org" in visitor.get(newer).text
    assert visitor.post(newer, {"password": "short"}).status == 422
    assert visitor.post(newer, {"password": NEW}).status == 303
    assert visitor.get("/").status == 200
    assert visitor.post(newer, {"password": NEW + "2"}).status == 404, "it works once"
    assert old.get("/").headers["location"] == "/sign-in"
    assert site.visitor().sign_in("annotator@example.org", NEW).status == 303
    assert kinds(site)[-3:] == ["reset-link", "reset-link", "password-reset"]
    stored = site.store.read_now(lambda w: w.all("SELECT token_hash FROM reset"))
    assert stored == []


def test_a_link_expires_and_its_hash_alone_is_stored(site: Site) -> None:
    who = team(site)
    token = link_of(site.as_(who["owner"]), alias(site, who["project"], who["annotator"])).json()[
        "token"
    ]
    row = site.store.read_now(lambda w: w.one("SELECT * FROM reset"))
    assert row is not None
    assert row["token_hash"] == access.token_hash(token)
    site.store.write_now(lambda w: w.run("UPDATE reset SET expires_at = :now", now=time.time() - 1))
    assert site.visitor().get(f"/reset/{token}").status == 404
    assert site.visitor().api("POST", f"/resets/{token}", {"password": NEW}).status == 404


def test_no_manager_takes_over_somebody_as_high_or_of_another_project(site: Site) -> None:
    who = team(site)
    manager, owner, project = site.as_(who["manager"]), site.as_(who["owner"]), who["project"]
    names = {
        role: alias(site, project, who[role])
        for role in ("owner", "manager", "annotator", "auditor")
    }
    assert link_of(manager, names["owner"]).status == 403
    assert link_of(manager, names["manager"]).status == 403, "not oneself, who has a password"
    assert link_of(owner, names["owner"]).status == 403
    assert link_of(owner, names["manager"]).status == 201
    assert link_of(manager, names["auditor"]).status == 201
    assert link_of(site.as_(who["annotator"]), names["annotator"]).status == 403
    stranger = site.person("stranger")
    site.project("beta", stranger)
    for role in ("annotator", "auditor"):
        helper = site.person(f"helper-{role}")
        site.join("alpha", who["owner"], helper, role, *((2,) if role == "annotator" else ()))
        assert link_of(manager, alias(site, project, helper)).status == 201
        site.join("beta", stranger, helper, "auditor")
        assert link_of(manager, alias(site, project, helper)).status == 403, "beta is not theirs"
    assert link_of(site.as_(stranger), names["annotator"]).status == 404
    late = site.person("late")
    site.join("alpha", who["owner"], late, "auditor")
    token = link_of(manager, alias(site, project, late)).json()["token"]
    site.join("beta", stranger, late, "auditor")
    assert site.visitor().get(f"/reset/{token}").status == 404, (
        "a link does not outlast what is managed"
    )
    assert manager.post("/p/alpha/people", {"do": "reset", "alias": names["owner"]}).status == 403
    assert (
        "/reset/"
        in manager.post("/p/alpha/people", {"do": "reset", "alias": names["annotator"]}).text
    )


# leaving


def test_a_removed_member_is_out_and_the_answers_stay(site: Site) -> None:
    who = team(site)
    project, rater = who["project"], site.as_(who["annotator"])
    name = alias(site, project, who["annotator"])
    asked = rater.api("POST", "/projects/alpha/next").json()["next"]
    sent = {
        "question": asked["question"],
        "key": asked["key"],
        "value": "no",
        "shown_at": time.time(),
    }
    answer = rater.api("POST", "/projects/alpha/answers", {**sent, "want_next": True}).json()
    assert answer["next"] is not None
    manager = site.as_(who["manager"])
    assert manager.api("DELETE", f"/projects/alpha/people/{name}").status == 204
    assert manager.api("DELETE", f"/projects/alpha/people/{name}").status == 404
    assert kinds(site)[-2:] == ["lease-expired", "removed"]
    for reply in (
        rater.get("/p/alpha/work"),
        rater.api("POST", "/projects/alpha/next"),
        rater.api(
            "POST",
            "/projects/alpha/answers",
            {**sent, "key": answer["next"]["key"], "question": answer["next"]["question"]},
        ),
        rater.api(
            "POST",
            f"/projects/alpha/answers/{answer['answer']}/amend",
            {"key": "k", "value": "yes"},
        ),
    ):
        assert reply.status == 404
    assert rater.get("/").status == 200
    assert "alpha" not in rater.get("/").text
    assert rater.api("GET", "/projects").json() == {"projects": []}
    assert rater.get("/new").status == 403, "who was removed does not begin projects"
    table = site.store.read_now(
        lambda w: w.all("SELECT status, person_id FROM question WHERE status = 1")
    )
    assert table == []
    assert site.count("answer") == 1
    assert name in manager.get("/p/alpha/people").text
    site.join("alpha", who["owner"], who["annotator"], "annotator", 0)
    assert alias(site, project, who["annotator"]) == name, "who comes back has the old alias"
    assert rater.api("POST", "/projects/alpha/next").json()["next"] is not None


def test_an_export_after_a_removal_is_verified(site: Site) -> None:
    from noracle.collect.service import exports
    from noracle.collect.verify import verify_archive

    who = team(site)
    name = alias(site, who["project"], who["annotator"])
    rater = site.as_(who["annotator"])
    for _ in range(3):
        asked = rater.api("POST", "/projects/alpha/next").json()["next"]
        sent = {
            "question": asked["question"],
            "key": asked["key"],
            "value": "no",
            "shown_at": time.time(),
        }
        assert rater.api("POST", "/projects/alpha/answers", sent).status == 200
    site.as_(who["owner"]).api("DELETE", f"/projects/alpha/people/{name}")
    site.step(who["project"], "close")
    archive = site.store.read_chained_now(
        who["project"], lambda w: exports.archive_of(w, who["project"])
    )
    assert verify_archive(archive).passed


def test_who_removes_whom(site: Site) -> None:
    who = team(site)
    project = who["project"]
    names = {role: alias(site, project, who[role]) for role in ("owner", "manager", "auditor")}
    manager, owner = site.as_(who["manager"]), site.as_(who["owner"])
    assert manager.api("DELETE", f"/projects/alpha/people/{names['owner']}").status == 403
    assert manager.api("DELETE", f"/projects/alpha/people/{names['manager']}").status == 403
    assert owner.api("DELETE", f"/projects/alpha/people/{names['owner']}").status == 409, "the last"
    token = site.token("alpha", who["manager"], "auditor")
    reset = link_of(manager, names["auditor"]).json()["token"]
    assert owner.post("/p/alpha/people", {"do": "remove", "alias": names["manager"]}).status == 303
    assert site.visitor().get(f"/join/{token}").status == 404, "their links end"
    assert site.visitor().get(f"/reset/{reset}").status == 404
    assert manager.get("/p/alpha/people").status == 404
    back = site.token("alpha", who["owner"], "annotator", 0)
    joining = site.as_(who["manager"])
    assert joining.post(f"/join/{back}").status == 409, "who saw estimates does not answer"


# guessing


def test_ten_thousand_guesses_a_day_neither_get_in_nor_lock_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A day of simulated time: guesses from 200 addresses, and a person who signs in every hour."""
    import asyncio

    from noracle.collect.store import open_store
    from noracle.collect.web.security import Newcomer, WebSettings
    from tests.service.web_site import KEY, password_hash

    clock = [1_800_000_000.0]
    checked = [0]

    def fits(hashed: str | None, password: str) -> bool:
        checked[0] += password != PASSWORD
        return password == PASSWORD

    monkeypatch.setattr(core.time, "time", lambda: clock[0])
    monkeypatch.setattr(people, "password_fits", fits)
    store = open_store(f"sqlite:///{tmp_path}/labels.db?synchronous=off", unsafe=True)
    settings = WebSettings(base_url="http://127.0.0.1:1", secure=False, key=KEY)
    web = core.Web(store, settings)
    account: Any = {"email": "ann@example.org", "name": "Ann", "password_hash": password_hash()}
    store.write_now(lambda w: people.add_person(w, now=clock[0], **account))
    rng, mail = random.Random(1), "ann@example.org"

    async def day() -> tuple[int, int, int]:
        started, _ = await web.sign_in(mail, PASSWORD, Newcomer("10.0.0.1", None, ""))
        home, refused, got_in, locked = started.device, 0, 0, 0
        for k in range(10_000):
            clock[0] += 8.64
            address = f"192.0.2.{rng.randrange(200)}"
            try:
                await web.sign_in(
                    mail, f"guess {k}", Newcomer(address, None, rng.choice(("", "x" * 43)))
                )
                got_in += 1
            except NoracleError as error:
                refused += type(error).__name__ == "Throttled"
            if k % 400 == 0:
                try:
                    started, _ = await web.sign_in(mail, PASSWORD, Newcomer("10.0.0.1", None, home))
                    assert started.device == home
                except NoracleError:
                    locked += 1
        return refused, got_in, locked

    refused, got_in, locked = asyncio.run(day())
    store.close()
    assert (got_in, locked) == (0, 0)
    assert refused + checked[0] == 10_000
    assert checked[0] < 200, "few guesses are even looked at"


def test_a_known_device_is_counted_alone_and_slowed_alone(tmp_path: Path) -> None:
    with running(tmp_path, sign_ins=2) as site:
        site.person("ann")
        known, thief = site.visitor(), site.visitor()
        assert known.sign_in("ann@example.org").status == 303
        device = known.cookies["noracle-device"]
        stored = site.store.read_now(lambda w: w.one("SELECT token_hash FROM device"))
        assert stored == {"token_hash": access.token_hash(device)}
        assert [thief.sign_in("ann@example.org", "wrong").status for _ in range(3)] == [
            401,
            401,
            429,
        ]
        known.cookies.pop("noracle")
        assert known.sign_in("ann@example.org").status == 303, "the right person is let in"
        assert known.cookies["noracle-device"] == device
        known.cookies.pop("noracle")
        assert [known.sign_in("ann@example.org", "wrong").status for _ in range(3)] == [
            401,
            401,
            429,
        ]
        site.person("bob")
        known.cookies["noracle-device"] = device
        assert known.sign_in("bob@example.org").status == 303
        assert known.cookies["noracle-device"] != device, "a device is known for one person"


def test_forgetting_takes_devices_identities_and_links_too(site: Site) -> None:
    who = team(site)
    site.visitor().sign_in("annotator@example.org")
    link_of(site.as_(who["manager"]), alias(site, who["project"], who["annotator"]))
    site.store.write_now(
        lambda w: w.run(SQL.add_identity, issuer="https://i", subject="s", person=who["annotator"])
    )
    assert (site.count("device"), site.count("reset"), site.count("identity")) == (1, 1, 1)
    site.store.write_now(lambda w: people.forget(w, "annotator@example.org", now=time.time()))
    assert (site.count("device"), site.count("reset"), site.count("identity")) == (0, 0, 0)


def test_both_databases_keep_who_left_out(store: Any) -> None:
    """The hot path of each database has a gate of its own."""
    import asyncio

    from tests.service.worlds import START, build

    world = build(store, n_items=10)
    token = world.token(0)
    assert asyncio.run(store.next_question(token, world.project, now=START)) is not None
    store.write_now(lambda w: w.run("UPDATE membership SET left_at = 1.0"))
    with pytest.raises(NoracleError, match="no such project"):
        asyncio.run(store.next_question(token, world.project, now=START))
