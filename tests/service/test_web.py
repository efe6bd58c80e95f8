"""Pages and JSON on a real server: signing in, invitations, work, set-up, people, audit, numbers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("uvicorn", reason="the extra 'collect' is not installed")

from noracle.collect.service import access
from tests.service.web_site import PASSWORD, Site, running, texts


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with running(tmp_path_factory.mktemp("web")) as found:
        yield found


@pytest.fixture(scope="module")
def owner(site: Site) -> int:
    return site.person("owner")


def open_project(site: Site, owner: int, slug: str, n: int = 12, **spec: object) -> int:
    project = site.project(slug, owner, **spec)
    site.items(project, texts(n))
    site.step(project, "seal", "open")
    return project


def test_healthz_answers(site: Site) -> None:
    reply = site.visitor().get("/healthz")
    assert (reply.status, reply.body) == (200, b"ok\n")


def test_metrics_count_routes_by_template_and_only_answer_this_machine(
    site: Site, owner: int
) -> None:
    visitor = site.as_(owner)
    visitor.get("/p/no-such-project/audit")
    text = visitor.get("/metrics").text
    assert 'route="/p/{slug}/audit",status="404"' in text
    assert "no-such-project" not in text
    assert visitor.get("/metrics", X_Forwarded_For="203.0.113.9").status == 404


def test_signed_out_people_are_sent_to_the_form(site: Site) -> None:
    reply = site.visitor().get("/")
    assert (reply.status, reply.headers["location"]) == (303, "/sign-in")


def test_sign_in_and_out(site: Site, owner: int) -> None:
    visitor = site.visitor()
    reply = visitor.sign_in("owner@example.org")
    assert (reply.status, reply.headers["location"]) == (303, "/")
    page = visitor.get("/")
    assert page.status == 200
    assert "My projects" in page.text
    kept = dict(visitor.cookies)
    assert visitor.post("/sign-out").status == 303
    visitor.cookies = kept
    assert visitor.get("/").headers["location"] == "/sign-in", (
        "the session must end on the server, not only in the browser"
    )


@pytest.mark.parametrize(
    ("email", "password"),
    [("owner@example.org", "wrong password"), ("nobody@example.org", PASSWORD)],
)
def test_wrong_password_and_unknown_address_get_the_same_words(
    site: Site, owner: int, email: str, password: str
) -> None:
    reply = site.visitor().sign_in(email, password)
    assert reply.status == 401
    assert "E-mail or password is wrong." in reply.text


def test_invitation_makes_an_account_once(site: Site, owner: int) -> None:
    open_project(site, owner, "join")
    token = site.token("join", owner, "annotator", 1)
    visitor = site.visitor()
    page = visitor.get(f"/join/{token}")
    assert "Project join" in page.text
    assert "Class: dog" in page.text
    fields = {"email": "new@example.org", "name": "New Person", "password": "a long password"}
    reply = visitor.post(f"/join/{token}", fields)
    assert (reply.status, reply.headers["location"]) == (303, "/p/join/work")
    assert "Is this “dog”?" in visitor.get("/p/join/work").text
    again = site.visitor()
    assert again.get(f"/join/{token}").status == 404
    again.get("/sign-in")
    assert again.post(f"/join/{token}", {**fields, "email": "other@example.org"}).status == 404


def test_expired_and_withdrawn_invitations_are_not_found(site: Site, owner: int) -> None:
    site.project("late", owner)
    token = site.token("late", owner, "auditor", days=1 / 1440)
    site.store.write_now(
        lambda w: w.run(
            "UPDATE invitation SET expires_at = :now WHERE token_hash = :t",
            now=time.time() - 1,
            t=access.token_hash(token),
        )
    )
    assert site.visitor().get(f"/join/{token}").status == 404
    token = site.token("late", owner, "auditor")
    manager = site.as_(owner)
    page = manager.get("/p/late/people")
    assert manager.post("/p/late/people", {"do": "revoke", "id": page.field("id")}).status == 303
    assert site.visitor().get(f"/join/{token}").status == 404


def test_an_account_joins_with_its_own_password_only(site: Site, owner: int) -> None:
    site.project("second", owner)
    site.person("known")
    token = site.token("second", owner, "auditor")
    visitor = site.visitor()
    visitor.get(f"/join/{token}")
    assert (
        visitor.post(
            f"/join/{token}", {"email": "known@example.org", "password": "not their password"}
        ).status
        == 401
    )
    reply = visitor.post(f"/join/{token}", {"email": "known@example.org", "password": PASSWORD})
    assert (reply.status, reply.headers["location"]) == (303, "/p/second")


def test_work_by_plain_forms_keeps_answers_and_asks_on(site: Site, owner: int) -> None:
    project = open_project(site, owner, "plain", 9, protocol="judge-all", draws=1, shown=2)
    person = site.person("plain-worker")
    site.join("plain", owner, person, "annotator")
    visitor = site.as_(person)
    for n in range(9):
        page = visitor.get("/p/plain/work")
        assert visitor.get("/p/plain/work").field("question") == page.field("question"), (
            "loading again must show the same question"
        )
        fields = {name: page.field(name) for name in ("question", "key", "shown_at")}
        reply = visitor.post("/p/plain/work", {**fields, "value-0": "no", "value-1": "yes"})
        assert (reply.status, reply.headers["location"]) == (303, "/p/plain/work"), reply.text
        assert (
            visitor.post("/p/plain/work", {**fields, "value-0": "no", "value-1": "yes"}).status
            == 303
        ), "sending twice is harmless"
        assert f"{n + 1} answer" in visitor.get("/p/plain/work").text
    assert "There is no question for you now." in visitor.get("/p/plain/work").text
    rows = site.store.read_now(
        lambda w: w.all("SELECT value FROM answer WHERE project_id = :p", p=project)
    )
    assert [row["value"] for row in rows] == ["no|yes"] * 9


def test_htmx_gets_the_next_question_alone(site: Site, owner: int) -> None:
    open_project(site, owner, "swap", 6)
    person = site.person("swap-worker")
    site.join("swap", owner, person, "annotator", 0, 1, 2)
    visitor = site.as_(person)
    page = visitor.get("/p/swap/work")
    fields = {name: page.field(name) for name in ("question", "key", "shown_at")}
    reply = visitor.post("/p/swap/work", {**fields, "value": "no"}, HX_Request="true")
    assert reply.status == 200
    assert reply.text.lstrip().startswith('<section id="question"')
    assert reply.field("question") != page.field("question")


def test_last_answer_is_amended_and_the_first_stays(site: Site, owner: int) -> None:
    project = open_project(site, owner, "amend", 6)
    person = site.person("amender")
    site.join("amend", owner, person, "annotator", 0, 1, 2)
    visitor = site.as_(person)
    assert visitor.get("/p/amend/last").status == 303, "nothing to change yet"
    page = visitor.get("/p/amend/work")
    visitor.post(
        "/p/amend/work",
        {**{n: page.field(n) for n in ("question", "key", "shown_at")}, "value": "no"},
    )
    page = visitor.get("/p/amend/last")
    assert "Your answer so far: No" in page.text
    reply = visitor.post(
        "/p/amend/last", {"answer": page.field("answer"), "key": page.field("key"), "value": "yes"}
    )
    assert reply.status == 303, reply.text
    rows = site.store.read_now(
        lambda w: w.all(
            "SELECT revision, value FROM answer WHERE project_id = :p ORDER BY revision", p=project
        )
    )
    assert [(row["revision"], row["value"]) for row in rows] == [(0, "no"), (1, "yes")]
    assert "Your answer so far: Yes" in visitor.get("/p/amend/last").text


def test_bad_values_and_other_peoples_questions_are_refused(site: Site, owner: int) -> None:
    open_project(site, owner, "strict", 6)
    people = [site.person(f"strict-{k}") for k in range(2)]
    for person in people:
        site.join("strict", owner, person, "annotator", 0, 1, 2)
    one, two = (site.as_(person) for person in people)
    page = one.get("/p/strict/work")
    fields = {name: page.field(name) for name in ("question", "key", "shown_at")}
    assert one.post("/p/strict/work", {**fields, "value": "maybe"}).status == 422
    assert one.post("/p/strict/work", {**fields, "question": "x", "value": "no"}).status == 422
    assert one.post("/p/strict/work", {**fields, "shown_at": "nan", "value": "no"}).status == 422
    two.get("/p/strict/work")
    assert two.post("/p/strict/work", {**fields, "value": "no"}).status in (404, 409)
    assert (
        site.store.read_now(
            lambda w: w.one(
                "SELECT COUNT(*) AS n FROM answer a JOIN project p ON p.id = a.project_id WHERE slug = 'strict'"
            )
        )["n"]
        == 0
    )


def test_a_project_from_the_form_to_closed(site: Site, owner: int) -> None:
    visitor = site.as_(owner)
    assert visitor.get("/new").status == 200
    fields = {
        "name": "Made by hand",
        "slug": "made",
        "protocol": "partitioned",
        "classes": "cat | A *cat*.\\nWith fur.\ndog\n",
        "draws": "1",
        "language": "en",
    }
    assert visitor.post("/new", {**fields, "draws": "7"}).status == 422
    assert visitor.post("/new", fields).headers["location"] == "/p/made/setup"
    assert visitor.get("/p/made/setup").status == 200
    assert visitor.post("/new", fields).status == 409, "the short name is taken"
    data = b"item,text,truth\n" + b"".join(f"a{k},Text {k},\n".encode() for k in range(20))
    reply = visitor.upload("/p/made/items", "items.csv", data)
    assert (reply.status, reply.headers["location"]) == (303, "/p/made/items"), reply.text
    looked = visitor.get("/p/made/items").text
    assert "Add 20 items" in looked
    assert looked.count("Text ") >= 5
    assert '<option value="item" selected>' in looked
    assert (
        visitor.post("/p/made/items", {"do": "add", "item": "item", "text": "text"}).status == 303
    )
    assert "20 items" in visitor.get("/p/made/setup").text
    assert visitor.get("/p/made/items").status == 303, "no file waits any more"
    saved = visitor.post("/p/made/setup", {**fields, "do": "spec", "stop_rule": "At 20 answers."})
    assert saved.status == 303, saved.text
    preview = visitor.get("/p/made/setup?preview=seal").text
    assert "20 questions would be drawn." in preview
    assert "nobody yet" in preview
    assert visitor.post("/p/made/setup", {"do": "open"}).status == 409
    assert visitor.post("/p/made/setup", {"do": "seal"}).status == 303
    answers = b"item,answer\n" + b"".join(f"a{k},{k % 2}\n".encode() for k in range(20))
    assert (
        visitor.upload("/p/made/systems", "answers.csv", answers, {"name": "agent"}).status == 303
    )
    assert visitor.post("/p/made/setup", {"do": "open"}).status == 303
    audit = visitor.get("/p/made/audit").text
    seed = site.store.read_now(
        lambda w: w.one("SELECT seed, commitment, root FROM project WHERE slug = 'made'")
    )
    assert seed is not None
    assert seed["commitment"] in audit
    assert seed["root"] in audit
    assert bytes(seed["seed"]).hex() not in audit
    asked = visitor.post("/p/made/setup", {"do": "close"})
    assert asked.headers["location"] == "/p/made/setup?preview=close"
    assert "20 of 20 questions stay without" in visitor.get(asked.headers["location"]).text
    assert bytes(seed["seed"]).hex() not in visitor.get("/p/made/audit").text
    assert visitor.post("/p/made/setup", {"do": "close", "sure": "yes"}).status == 303
    assert bytes(seed["seed"]).hex() in visitor.get("/p/made/audit").text


def test_people_page_shows_a_link_once(site: Site, owner: int) -> None:
    site.project("people", owner)
    visitor = site.as_(owner)
    visitor.get("/p/people/people")
    reply = visitor.post(
        "/p/people/people", {"do": "invite", "role": "annotator", "pool": "2", "days": "7"}
    )
    assert reply.status == 200
    link = reply.text.split('class="mono">', 1)[1].split("<")[0]
    assert link.startswith(f"{site.url}/join/")
    assert "Class: owl" in site.visitor().get(link.removeprefix(site.url)).text
    assert link not in visitor.get("/p/people/people").text
    assert (
        visitor.post(
            "/p/people/people", {"do": "invite", "role": "annotator", "pool": "9", "days": "7"}
        ).status
        == 422
    )


def test_annotators_may_not_begin_projects(site: Site, owner: int) -> None:
    site.project("closed-shop", owner)
    person = site.person("only-annotator")
    site.join("closed-shop", owner, person, "annotator", 0)
    visitor = site.as_(person)
    assert visitor.get("/new").status == 403
    assert "New project" not in visitor.get("/").text
    spec = {"protocol": "partitioned", "classes": ["a", "b"]}
    assert (
        visitor.api("POST", "/projects", {"slug": "mine", "name": "Mine", "spec": spec}).status
        == 403
    )


def test_language_is_chosen_and_kept(site: Site, owner: int) -> None:
    visitor = site.visitor()
    assert '<html lang="de">' in visitor.get("/sign-in", Accept_Language="de-AT,de;q=0.9").text
    page = visitor.get("/sign-in")
    assert '<html lang="en">' in page.text
    reply = visitor.post("/language", {"language": "de", "back": "/sign-in"})
    assert reply.headers["location"] == "/sign-in"
    assert "Anmelden" in visitor.get("/sign-in").text
    assert visitor.post("/language", {"language": "xx"}).status == 422


@pytest.mark.parametrize(
    "back",
    ["//evil.example/", "https://evil.example/", "/\\evil.example", "javascript:alert(1)", ""],
)
def test_language_form_never_leads_to_another_site(site: Site, back: str) -> None:
    visitor = site.visitor()
    visitor.get("/sign-in")
    assert visitor.post("/language", {"language": "en", "back": back}).headers["location"] == "/"


def test_json_from_sign_in_to_answers(site: Site, owner: int) -> None:
    visitor = site.visitor()
    reply = visitor.api("POST", "/session", {"email": "owner@example.org", "password": PASSWORD})
    assert reply.status == 200
    assert "token" not in reply.json(), "the token stays in the cookie, where no script reads it"
    visitor.csrf = reply.json()["csrf"]
    spec = {"protocol": "partitioned", "classes": ["cat", "dog"], "gold_rate": 0.2}
    assert (
        visitor.api("POST", "/projects", {"slug": "json", "name": "By JSON", "spec": spec}).status
        == 201
    )
    items = [
        {
            "name": f"j{k}",
            "content": {"text": f"t{k}", **({"attention": True} if k == 0 else {})},
            **({"truth": 1} if k == 0 else {}),
        }
        for k in range(8)
    ]
    assert visitor.api("POST", "/projects/json/items", {"items": items}).json() == {"items": 8}
    sealed = visitor.api("POST", "/projects/json/seal")
    assert sealed.json().get("state") == "sealed", sealed.text
    assert (
        visitor.api(
            "POST",
            "/projects/json/systems",
            {"name": "s", "answers": {f"j{k}": k % 2 for k in range(8)}},
        ).status
        == 201
    )
    assert visitor.api("POST", "/projects/json/open").json()["state"] == "open"
    links = [
        visitor.api("POST", "/projects/json/invitations", {"role": "annotator", "pool": k}).json()[
            "token"
        ]
        for k in range(2)
    ]
    rater = site.visitor()
    joined = rater.api(
        "POST",
        f"/invitations/{links[0]}",
        {"email": "json-rater@example.org", "name": "R", "password": "a long password"},
    )
    assert joined.json()["pools"] == [0]
    rater.csrf = joined.json()["csrf"]
    assert rater.api("POST", f"/invitations/{links[1]}", {}).json()["pools"] == [0, 1]
    asked = rater.api("POST", "/projects/json/next").json()["next"]
    done = 0
    while asked is not None:
        assert set(asked) == {
            "question",
            "key",
            "content",
            "options",
            "shown",
            "lease_until",
            "done",
        }
        assert "attention" not in asked["content"]
        sent = {
            "question": asked["question"],
            "key": asked["key"],
            "value": "no",
            "shown_at": time.time(),
            "want_next": True,
        }
        kept = rater.api("POST", "/projects/json/answers", sent)
        assert kept.status == 200, kept.text
        again = rater.api("POST", "/projects/json/answers", sent).json()
        assert (again["answer"], again["again"]) == (kept.json()["answer"], True)
        assert rater.api("POST", "/projects/json/answers", {**sent, "value": "yes"}).status == 409
        asked, done = kept.json()["next"], done + 1
    assert done >= 8
    last = kept.json()["answer"]
    assert (
        rater.api(
            "POST", f"/projects/json/answers/{last}/amend", {"key": "amend-1", "value": "unsure"}
        ).json()["revision"]
        == 1
    )
    listed = rater.api("GET", "/projects").json()["projects"]
    assert listed == [{"slug": "json", "name": "By JSON", "state": "open", "role": "annotator"}]
    assert rater.api("DELETE", "/session").status == 204
    assert rater.api("GET", "/projects").status == 401


def test_errors_of_the_interface_are_problem_json(site: Site, owner: int) -> None:
    reply = site.visitor().api("GET", "/projects")
    assert (reply.status, reply.headers["content-type"]) == (401, "application/problem+json")
    problem = reply.json()
    assert problem["status"] == 401
    assert problem["instance"] == f"urn:request:{reply.headers['x-request-id']}"
    assert (
        site.as_(owner)
        .api("POST", "/projects", {"slug": 3})
        .json()["title"]
        .startswith("Unprocessable")
    )


def test_description_names_the_interface_alone(site: Site) -> None:
    paths = site.visitor().get("/api/v1/openapi.json").json()["paths"]
    assert paths
    assert all(path.startswith("/api/v1/") for path in paths)
    assert site.visitor().get("/docs").status == 404


def test_a_fault_of_ours_tells_nothing_but_its_number(tmp_path: Path) -> None:
    with running(tmp_path) as site:
        owner = site.as_(site.person("owner"))

        async def broken(*_: object) -> object:
            raise RuntimeError("secret inside")

        site.app.state.web.store.read, kept = broken, site.app.state.web.store.read
        try:
            page, api = owner.get("/"), owner.api("GET", "/projects")
        finally:
            site.app.state.web.store.read = kept
        assert page.status == api.status == 500
        assert "secret inside" not in page.text + api.text
        assert page.headers["x-request-id"] in page.text
        assert "default-src 'none'" in page.headers["content-security-policy"]


def test_pages_and_json_work_on_postgresql_too(postgres_url: str) -> None:
    with running(postgres_url) as site:
        owner = site.person("owner")
        test_a_project_from_the_form_to_closed(site, owner)
        test_json_from_sign_in_to_answers(site, owner)
        test_work_by_plain_forms_keeps_answers_and_asks_on(site, owner)
        test_last_answer_is_amended_and_the_first_stays(site, owner)
        test_invitation_makes_an_account_once(site, owner)
        boss = site.as_(owner)
        for path in (
            "",
            "/audit",
            "/people",
            "/setup",
            "/export",
            "/export/csv",
            "/export/archive",
        ):
            assert boss.get(f"/p/json{path}").status == 200, path


def test_exports_are_files_that_the_library_reads(site: Site, owner: int, tmp_path: Path) -> None:
    from noracle.collect.archive import read_archive

    project = open_project(site, owner, "exported", 20)
    person = site.person("export-rater")
    site.join("exported", owner, person, "annotator", 0, 1, 2)
    rater = site.as_(person)
    for _ in range(10):
        asked = rater.api("POST", "/projects/exported/next").json()["next"]
        sent = {
            "question": asked["question"],
            "key": asked["key"],
            "value": "no",
            "shown_at": time.time(),
        }
        rater.api("POST", "/projects/exported/answers", sent)
    boss = site.as_(owner)
    site.step(project, "close")
    for kind in ("archive", "jsonl", "csv", "parquet", "label-studio"):
        page, api = (
            boss.get(f"/p/exported/export/{kind}"),
            boss.api("GET", f"/projects/exported/export?format={kind}"),
        )
        assert page.status == api.status == 200
        assert page.headers["content-disposition"].startswith('attachment; filename="exported')
        for secret in (b"export-rater", b"owner@example.org", b"@example.org"):
            assert secret not in page.body
    (tmp_path / "exported.zip").write_bytes(boss.get("/p/exported/export/archive").body)
    assert len(read_archive(tmp_path / "exported.zip").answers) == 10
    logged = site.store.read_now(
        lambda w: w.one(
            "SELECT COUNT(*) AS n FROM event WHERE kind = 'exported' AND project_id = :p", p=project
        )
    )
    assert logged is not None
    assert logged["n"] == 11


def test_images_are_shown_to_those_who_are_asked(site: Site, owner: int) -> None:
    import io
    import zipfile

    image = pytest.importorskip("PIL.Image", reason="Pillow draws the image")
    drawn = io.BytesIO()
    image.new("RGB", (8, 8), (200, 10, 10)).save(drawn, "PNG")
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as whole:
        whole.writestr(
            "items.jsonl",
            '{"item": "a", "image": "a.png"}\n{"item": "b", "image": "a.png", "text": "the same"}\n',
        )
        whole.writestr("a.png", drawn.getvalue())
    site.project("images", owner)
    boss = site.as_(owner)
    assert boss.upload("/p/images/items", "items.zip", packed.getvalue()).status == 303
    assert "With a picture." in boss.get("/p/images/items").text
    named = {"item": "item", "image": "image", "text": "text"}
    assert boss.post("/p/images/items", {"do": "add", **named}).status == 303
    for step in ("seal", "open"):
        assert boss.post("/p/images/setup", {"do": step}).status == 303
    person = site.person("image-rater")
    site.join("images", owner, person, "annotator", 0, 1, 2)
    rater = site.as_(person)
    path = rater.get("/p/images/work").text.split('<img src="', 1)[1].split('"')[0]
    reply = rater.get(path)
    assert (reply.status, reply.headers["content-type"]) == (200, "image/png")
    assert "sandbox" in reply.headers["content-security-policy"]
    other = site.person("image-other")
    site.join("images", owner, other, "annotator", 0, 1, 2)
    assert site.as_(other).get(path).status == 404, "nobody asked them yet"
    assert boss.get(path).status == 200


def test_signing_out_makes_the_last_answer_final(tmp_path: Path) -> None:
    with running(tmp_path) as site:
        owner, rater = site.person("owner"), site.person("rater")
        for slug in ("one", "two", "idle"):
            project = site.project(slug, owner)
            site.items(project, texts(6))
            site.step(project, "seal", "open")
            site.join(slug, owner, rater, "annotator", 0, 1, 2)
        visitor, boss = site.as_(rater), site.as_(owner)
        for slug in ("one", "two"):
            visitor.get(f"/p/{slug}/work")
            asked = visitor.api("POST", f"/projects/{slug}/next").json()["next"]
            sent = {"question": asked["question"], "key": asked["key"], "value": "no"}
            visitor.api("POST", f"/projects/{slug}/answers", {**sent, "shown_at": time.time()})
            assert boss.api("GET", f"/projects/{slug}/live").json()["answered"] == 0
        assert visitor.api("DELETE", "/session").status == 204
        assert site.count("settled") == 2
