"""Every route refuses who may not open it: every role, other people's objects, and what annotators
must not see.
"""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("uvicorn", reason="the extra 'collect' is not installed")

from noracle.collect.model import Item
from noracle.collect.service import access, projects
from noracle.collect.web import api, manage, oidc, pages, work
from noracle.collect.web import manage as setup
from tests.service.web_site import Site, running, texts

ANYONE = {"nobody", "annotator", "auditor", "manager", "owner"}
SIGNED_IN = ANYONE - {"nobody"}
READ = {"auditor", "manager", "owner"}
MANAGE = {"manager", "owner"}
WORK = {"annotator"}

ALLOWED: dict[tuple[str, str], set[str]] = {
    ("GET", "/healthz"): ANYONE,
    ("GET", "/metrics"): ANYONE,
    ("GET", "/sign-in"): ANYONE,
    ("POST", "/sign-in"): ANYONE,
    ("POST", "/sign-out"): SIGNED_IN,
    ("POST", "/language"): ANYONE,
    ("GET", "/sign-in/oidc"): set(),
    ("GET", "/sign-in/oidc/back"): set(),
    ("GET", "/account"): SIGNED_IN,
    ("POST", "/account"): SIGNED_IN,
    ("GET", "/reset/{token}"): ANYONE,
    ("POST", "/reset/{token}"): ANYONE,
    ("DELETE", "/api/v1/sessions"): SIGNED_IN,
    ("POST", "/api/v1/password"): SIGNED_IN,
    ("POST", "/api/v1/resets/{token}"): ANYONE,
    ("POST", "/api/v1/projects/{slug}/people/{alias}/reset"): MANAGE,
    ("DELETE", "/api/v1/projects/{slug}/people/{alias}"): MANAGE,
    ("GET", "/join/{token}"): ANYONE,
    ("POST", "/join/{token}"): ANYONE,
    ("GET", "/first/{token}"): ANYONE,
    ("POST", "/first/{token}"): ANYONE,
    ("GET", "/"): SIGNED_IN,
    ("GET", "/new"): MANAGE,
    ("POST", "/new"): MANAGE,
    ("GET", "/p/{slug}/work"): WORK,
    ("POST", "/p/{slug}/work"): WORK,
    ("GET", "/p/{slug}/last"): WORK,
    ("POST", "/p/{slug}/last"): WORK,
    ("POST", "/p/{slug}/undo"): WORK,
    ("POST", "/p/{slug}/leave"): WORK,
    ("POST", "/p/{slug}/comment"): WORK,
    ("GET", "/p/{slug}/image/{sha256}"): SIGNED_IN,
    ("GET", "/p/{slug}/setup"): MANAGE,
    ("POST", "/p/{slug}/setup"): MANAGE,
    ("GET", "/p/{slug}/items"): MANAGE,
    ("POST", "/p/{slug}/items"): MANAGE,
    ("POST", "/p/{slug}/systems"): MANAGE,
    ("GET", "/p/{slug}"): READ,
    ("GET", "/p/{slug}/people"): MANAGE,
    ("POST", "/p/{slug}/people"): MANAGE,
    ("GET", "/p/{slug}/audit"): READ,
    ("GET", "/p/{slug}/export"): READ,
    ("GET", "/p/{slug}/export/{format}"): READ,
    ("POST", "/api/v1/session"): ANYONE,
    ("DELETE", "/api/v1/session"): SIGNED_IN,
    ("POST", "/api/v1/invitations/{token}"): ANYONE,
    ("GET", "/api/v1/projects"): SIGNED_IN,
    ("POST", "/api/v1/projects"): MANAGE,
    ("POST", "/api/v1/projects/{slug}/items"): MANAGE,
    ("GET", "/api/v1/projects/{slug}"): READ,
    ("PUT", "/api/v1/projects/{slug}/spec"): MANAGE,
    ("DELETE", "/api/v1/projects/{slug}/imports/{batch}"): MANAGE,
    ("GET", "/api/v1/projects/{slug}/people"): READ,
    ("DELETE", "/api/v1/projects/{slug}/invitations/{invitation}"): MANAGE,
    ("GET", "/api/v1/projects/{slug}/webhooks"): MANAGE,
    ("POST", "/api/v1/projects/{slug}/webhooks"): MANAGE,
    ("DELETE", "/api/v1/projects/{slug}/webhooks/{webhook}"): MANAGE,
    ("POST", "/api/v1/projects/{slug}/seal"): MANAGE,
    ("POST", "/api/v1/projects/{slug}/open"): MANAGE,
    ("POST", "/api/v1/projects/{slug}/close"): MANAGE,
    ("POST", "/api/v1/projects/{slug}/invitations"): MANAGE,
    ("POST", "/api/v1/projects/{slug}/systems"): MANAGE,
    ("POST", "/api/v1/projects/{slug}/next"): WORK,
    ("POST", "/api/v1/projects/{slug}/answers"): WORK,
    ("POST", "/api/v1/projects/{slug}/answers/{answer}/amend"): WORK,
    ("POST", "/api/v1/projects/{slug}/answers/{answer}/undo"): WORK,
    ("POST", "/api/v1/projects/{slug}/leave"): WORK,
    ("POST", "/api/v1/projects/{slug}/comments"): WORK,
    ("GET", "/api/v1/projects/{slug}/comments"): MANAGE,
    ("GET", "/api/v1/projects/{slug}/live"): READ,
    ("GET", "/api/v1/projects/{slug}/export"): READ,
}
BODIES: dict[str, object] = {
    "/api/v1/session": {"email": "owner@example.org", "password": "wrong password"},
    "/api/v1/invitations/{token}": {},
    "/api/v1/password": {"old": "wrong password", "password": "another password"},
    "/api/v1/resets/{token}": {"password": "another password"},
    "/api/v1/projects": {
        "slug": "matrix-new",
        "name": "x",
        "spec": {"protocol": "partitioned", "classes": ["a", "b"]},
    },
    "/api/v1/projects/{slug}/items": {"items": [{"name": "new", "content": {"text": "t"}}]},
    "/api/v1/projects/{slug}/spec": {"protocol": "partitioned", "classes": ["a", "b"]},
    "/api/v1/projects/{slug}/webhooks": {"url": "https://example.org/hook"},
    "/api/v1/projects/{slug}/invitations": {"role": "auditor"},
    "/api/v1/projects/{slug}/systems": {"name": "s2", "answers": {"i0": 0}},
    "/api/v1/projects/{slug}/answers": {"question": 1, "key": "k", "value": "no", "shown_at": 1.0},
    "/api/v1/projects/{slug}/answers/{answer}/amend": {"key": "k2", "value": "no"},
    "/api/v1/projects/{slug}/comments": {"question": 1, "broken": True},
}
FORMS: dict[str, dict[str, str]] = {
    "/p/{slug}/setup": {"do": "open"},
    "/p/{slug}/people": {"do": "invite", "role": "auditor", "days": "7", "pool": "0"},
    "/p/{slug}/work": {"question": "1", "key": "k", "value": "no", "shown_at": "1.0"},
    "/p/{slug}/last": {"answer": "1", "key": "k", "value": "no"},
    "/p/{slug}/undo": {"answer": "1"},
    "/p/{slug}/comment": {"question": "1", "broken": "1"},
    "/new": {"name": "x", "slug": "matrix-form", "protocol": "partitioned", "classes": "a\nb"},
}


def routes() -> list[tuple[str, str]]:
    """All routes of the application, from its routers."""
    found = []
    for part in (pages, work, setup, manage, api, oidc):
        for route in part.router.routes:
            found += [(method, route.path) for method in sorted(route.methods) if method != "HEAD"]  # type: ignore[attr-defined]
    return found


def test_every_route_has_its_roles_written_down() -> None:
    assert set(routes()) == set(ALLOWED)


@pytest.fixture(scope="module")
def matrix(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """Project alpha with one person in each role, and beta of somebody else with an answer, an
    image and a system.
    """
    with running(
        tmp_path_factory.mktemp("matrix"), sign_ins=10_000, changes_per_minute=100_000
    ) as site:
        boss, stranger = site.person("owner"), site.person("stranger")
        found: dict[str, Any] = {"site": site, "owner": boss}
        for slug, who in (("alpha", boss), ("beta", stranger)):
            project = site.project(slug, who)
            site.items(project, texts(30))
            site.step(project, "seal")
            found[slug] = project
        for role in ("annotator", "auditor", "manager"):
            found[role] = site.person(role)
            site.join("alpha", boss, found[role], role, *((0, 1, 2) if role == "annotator" else ()))
        helper = site.person("beta-rater")
        site.join("beta", stranger, helper, "annotator", 0, 1, 2)
        site.step(found["beta"], "open")
        visitor = site.as_(helper)
        asked = visitor.api("POST", "/projects/beta/next").json()["next"]
        sent = {
            "question": asked["question"],
            "key": asked["key"],
            "value": "no",
            "shown_at": time.time(),
        }
        found["answer"] = visitor.api("POST", "/projects/beta/answers", sent).json()["answer"]
        found["stranger"] = stranger
        found["sha256"] = "ab" * 32
        site.store.write_now(
            lambda w: w.run(
                "INSERT INTO image (project_id, sha256, media, bytes) VALUES (:p, :s, 'image/png', :b)",
                p=found["beta"],
                s=found["sha256"],
                b=b"x",
            )
        )
        yield found


def call(matrix: dict[str, Any], who: str, method: str, path: str, slug: str) -> Any:
    site: Site = matrix["site"]
    visitor = site.visitor() if who == "nobody" else site.as_(matrix[who])
    filled = (
        path.replace("{slug}", slug)
        .replace("{token}", "no-such-token-000000000000")
        .replace("{format}", "csv")
    )
    filled = filled.replace("{answer}", str(matrix["answer"])).replace("{sha256}", matrix["sha256"])
    for name in ("{batch}", "{invitation}", "{webhook}"):
        filled = filled.replace(name, "1")
    if path.startswith("/api/"):
        return visitor.api(method, filled.removeprefix("/api/v1"), BODIES.get(path))
    if who == "nobody" and method == "POST":
        visitor.get("/sign-in")
    if path.endswith(("/items", "/systems")) and method == "POST":
        return visitor.upload(filled, "items.csv", b"item,text,answer\nnew,t,0\n", {"name": "s3"})
    return visitor.get(filled) if method == "GET" else visitor.post(filled, FORMS.get(path))


def refused(reply: Any) -> bool:
    return reply.status in (401, 403, 404) or (
        reply.status == 303 and reply.headers["location"] == "/sign-in"
    )


@pytest.mark.thin(3)
@pytest.mark.parametrize(("method", "path"), sorted(ALLOWED), ids=str)
def test_routes_open_for_their_roles_alone(matrix: dict[str, Any], method: str, path: str) -> None:
    allowed = ALLOWED[method, path]
    for who in sorted(ANYONE):
        if who not in allowed:
            reply = call(matrix, who, method, path, "alpha")
            assert refused(reply), f"{who} got {reply.status} {reply.headers.get('location')}"
    if "{slug}" in path:
        for who in sorted(ANYONE):
            for slug in ("beta", "no-such-project", "Alpha", "..%2falpha"):
                reply = call(matrix, who, method, path, slug)
                assert refused(reply), f"{who} got {reply.status} at {slug}"
        reply = call(matrix, "stranger", method, path, "alpha")
        assert refused(reply), f"stranger got {reply.status}"


@pytest.mark.parametrize(
    "path",
    sorted(
        path
        for method, path in ALLOWED
        if method == "GET" and "{sha256}" not in path and "{token}" not in path
    ),
)
def test_routes_do_open_for_their_roles(matrix: dict[str, Any], path: str) -> None:
    for who in sorted(ALLOWED["GET", path]):
        reply = call(matrix, who, "GET", path, "alpha")
        assert reply.status == 200 or (
            reply.status == 303 and path in ("/sign-in", "/p/{slug}/last", "/p/{slug}/items")
        ), f"{who} got {reply.status}"


def test_objects_of_another_project_are_not_found_through_ones_own(matrix: dict[str, Any]) -> None:
    site: Site = matrix["site"]
    assert site.as_(matrix["owner"]).get(f"/p/alpha/image/{matrix['sha256']}").status == 404
    rater = site.as_(matrix["annotator"])
    assert rater.api(
        "POST", f"/projects/alpha/answers/{matrix['answer']}/amend", {"key": "k", "value": "yes"}
    ).status in (404, 409)
    foreign = site.token("beta", matrix["stranger"], "auditor")
    row = site.store.read_now(
        lambda w: w.one(
            "SELECT id FROM invitation WHERE token_hash = :t", t=access.token_hash(foreign)
        )
    )
    assert row is not None
    assert (
        site.as_(matrix["owner"])
        .post("/p/alpha/people", {"do": "revoke", "id": str(row["id"])})
        .status
        == 404
    )


def test_managers_do_not_invite_owners(matrix: dict[str, Any]) -> None:
    manager = matrix["site"].as_(matrix["manager"])
    assert manager.api("POST", "/projects/alpha/invitations", {"role": "owner"}).status == 403
    assert manager.api("POST", "/projects/alpha/invitations", {"role": "auditor"}).status == 201


# canaries


def test_annotators_see_nothing_but_their_question(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running(tmp_path) as site:
        boss = site.person("canary-boss")
        project = site.project(
            "blind", boss, gold_rate=0.3, panel_items=3, stop_rule="canary-stop-rule", reasks=1
        )
        items = [
            Item(
                name=f"canary-item-{k}",
                content={"text": f"text {k}"},
                truth=k % 3 if k < 9 else None,
            )
            for k in range(30)
        ]
        items.append(
            Item(name="canary-attention", content={"text": "text x", "attention": True}, truth=1)
        )
        site.items(project, items)
        site.step(project, "seal")
        answers = {item.name: k % 3 for k, item in enumerate(items)}
        site.store.write_now(
            lambda w: projects.add_system(
                w, project, "canary-system", answers, actor="system", now=time.time()
            )
        )
        site.step(project, "open")
        raters = [site.person(name) for name in ("canary-first", "second")]
        for rater in raters:
            site.join("blind", boss, rater, "annotator", 0, 1, 2)
        rows = site.store.read_now(
            lambda w: w.all(
                "SELECT alias FROM membership WHERE project_id = :p ORDER BY person_id", p=project
            )
        )
        row = site.store.read_now(
            lambda w: w.one("SELECT seed, root, commitment FROM project WHERE id = :p", p=project)
        )
        assert row is not None
        secrets = [
            "canary",
            bytes(row["seed"]).hex(),
            row["root"],
            row["commitment"],
            rows[0]["alias"],
            rows[1]["alias"],
            "attention",
            "propensity",
        ]
        secrets += ["truth", "gold", "panel", "reask", "estimate"]
        keys = itertools.count()  # of digits: among some hundred random keys one in a few hundred runs has the letters "gold"
        for place in ("store.sqlite", "service.answers"):
            monkeypatch.setattr(f"noracle.collect.{place}.new_key", lambda: f"{next(keys):024d}")
        first, second = (site.as_(rater) for rater in raters)
        asked = first.api("POST", "/projects/blind/next").json()["next"]
        for _ in range(10):
            value = "unsure"
            sent = {
                "question": asked["question"],
                "key": asked["key"],
                "value": value,
                "shown_at": time.time(),
                "want_next": True,
            }
            asked = first.api("POST", "/projects/blind/answers", sent).json()["next"]
        seen = [
            second.get("/"),
            second.get("/p/blind/last"),
            second.api("GET", "/projects"),
            second.get("/nothing"),
        ]
        for method, path in routes():
            if method == "GET" and "{token}" not in path and path not in ("/metrics", "/sign-in"):
                seen.append(
                    second.get(
                        path.replace("{slug}", "blind")
                        .replace("{format}", "csv")
                        .replace("{sha256}", "0" * 64)
                    )
                )
        n = 0
        while True:
            page, reply = second.get("/p/blind/work"), second.api("POST", "/projects/blind/next")
            seen += [page, reply]
            asked = reply.json()["next"]
            if asked is None:
                break
            n += 1
            sent = {
                "question": asked["question"],
                "key": asked["key"],
                "value": "no",
                "shown_at": time.time(),
                "want_next": True,
            }
            seen.append(second.api("POST", "/projects/blind/answers", sent))
            seen.append(second.get("/p/blind/last"))
        assert n > 20
        for reply in seen:
            told = (reply.text + json.dumps(list(reply.headers.items()))).lower()
            found = [secret for secret in secrets if secret.lower() in told]
            assert not found, f"{found} in {reply.text[:1500]}"
