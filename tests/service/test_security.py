"""The server refuses: forged requests, planted sessions, floods, other people's objects, scripts in
texts, bad files.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("uvicorn", reason="the extra 'collect' is not installed")

from noracle.collect.service import access
from noracle.collect.web.security import WebSettings, csrf_token
from noracle.errors import ArgumentError
from tests.service.web_site import KEY, Site, Visitor, running, texts


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with running(tmp_path_factory.mktemp("security")) as found:
        yield found


@pytest.fixture(scope="module")
def owner(site: Site) -> int:
    return site.person("owner")


# sessions


def test_signing_in_changes_the_token_and_ends_the_old_session(site: Site, owner: int) -> None:
    visitor = site.visitor()
    visitor.get("/sign-in")
    planted = visitor.cookies["noracle-guest"]
    visitor.sign_in("owner@example.org")
    first = visitor.cookies["noracle"]
    assert first != planted
    thief = site.visitor()
    thief.cookies["noracle"] = planted
    assert thief.get("/").headers["location"] == "/sign-in", (
        "a planted token must never become a session"
    )
    visitor.csrf = csrf_token(site.settings, access.token_hash(first))
    visitor.post("/sign-in", {"email": "owner@example.org", "password": "correct horse battery"})
    assert visitor.cookies["noracle"] != first
    thief.cookies["noracle"] = first
    assert thief.get("/").headers["location"] == "/sign-in"


def test_cookie_is_http_only_strict_and_the_database_holds_its_hash(site: Site, owner: int) -> None:
    visitor = site.visitor()
    reply = visitor.sign_in("owner@example.org")
    cookie = reply.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    token = visitor.cookies["noracle"]
    row = site.store.read_now(
        lambda w: w.one("SELECT COUNT(*) AS n FROM session WHERE token_hash = :t", t=token)
    )
    assert row is not None
    assert row["n"] == 0
    assert token not in visitor.get("/").text


def test_tls_cookies_and_hsts(tmp_path: Path) -> None:
    from noracle.collect.store import open_store
    from noracle.collect.web.app import Guard
    from noracle.collect.web.core import Web

    settings = WebSettings(base_url="https://labels.example.org", secure=True, key=KEY)
    assert settings.cookie == "__Host-noracle"
    guard = Guard(None, web=Web(None, settings))  # type: ignore[arg-type]
    assert b"strict-transport-security" in dict(guard._dressed([], "x"))
    open_store(f"sqlite:///{tmp_path}/x.db").close()


@pytest.mark.parametrize("key", [b"", b"short", b"\x00" * 32, b"a" * 64])
def test_weak_keys_are_refused(key: bytes) -> None:
    with pytest.raises(ArgumentError, match="key must be"):
        WebSettings(base_url="http://127.0.0.1:1", secure=False, key=key)


@pytest.mark.parametrize("url", ["ftp://x", "http://x/path", "http://u:p@x", "x", "http://x?y"])
def test_odd_addresses_are_refused(url: str) -> None:
    with pytest.raises(ArgumentError, match="base_url must be"):
        WebSettings(base_url=url, secure=False, key=KEY)


def test_headers_are_on_every_reply(site: Site, owner: int) -> None:
    signed = site.as_(owner)
    replies = [
        signed.get("/"),
        signed.get("/no/such/page"),
        signed.api("GET", "/projects"),
        signed.get("/healthz"),
        signed.get("/static/app.css"),
    ]
    replies += [
        signed.post("/sign-out", csrf="bad"),
        signed.get("/static/../app.py"),
        signed.send("PUT", "/"),
        signed.send("GET", "/", headers={"Host": "x"}),
    ]
    for reply in replies:
        policy = reply.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert reply.headers["referrer-policy"] == "no-referrer"
        assert reply.headers["x-request-id"]
    assert signed.get("/").headers["cache-control"] == "no-store"


# forged requests


def test_forms_need_the_token_of_their_own_session(site: Site, owner: int) -> None:
    site.project("forged", owner)
    visitor, other = site.as_(owner), site.as_(owner)
    before = site.count("invitation")
    fields = {"do": "invite", "role": "auditor", "days": "7", "pool": "0"}
    for csrf in ("", "0" * 64, other.csrf, visitor.csrf.upper(), "é"):
        assert visitor.post("/p/forged/people", fields, csrf=csrf).status == 403
    assert (
        visitor.send(
            "POST",
            "/p/forged/people",
            b"do=invite&role=auditor",
            {"Content-Type": "application/x-www-form-urlencoded"},
        ).status
        == 403
    )
    for csrf in ("", other.csrf):
        visitor_csrf, visitor.csrf = visitor.csrf, csrf
        assert (
            visitor.api("POST", "/projects/forged/invitations", {"role": "auditor"}).status == 403
        )
        visitor.csrf = visitor_csrf
    assert site.count("invitation") == before
    assert visitor.post("/p/forged/people", fields).status == 200
    assert visitor.api("POST", "/projects/forged/invitations", {"role": "auditor"}).status == 201
    assert site.count("invitation") == before + 2


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "cross-site", "Origin": "null"},
        {"Sec-Fetch-Site": "same-origin", "Origin": "https://evil.example"},
    ],
)
def test_changes_from_other_sites_are_refused_even_with_the_right_token(
    site: Site, owner: int, headers: dict[str, str]
) -> None:
    visitor = site.as_(owner)
    body = f"csrf={visitor.csrf}".encode()
    reply = visitor.send(
        "POST", "/sign-out", body, {"Content-Type": "application/x-www-form-urlencoded", **headers}
    )
    assert reply.status == 403
    assert visitor.get("/").status == 200, "still signed in"


def test_other_hosts_are_refused(site: Site, owner: int) -> None:
    visitor = site.as_(owner)
    assert visitor.send("GET", "/", headers={"Host": "rebound.example"}).status == 421
    assert visitor.send("GET", "/healthz", headers={"Host": "rebound.example"}).status == 200
    assert (
        visitor.send(
            "GET", "/", headers={"Host": visitor.netloc.replace("127.0.0.1", "localhost")}
        ).status
        == 200
    )


def test_bearer_token_needs_no_csrf_and_a_cookie_beside_it_counts_nothing(
    site: Site, owner: int
) -> None:
    visitor = site.visitor()
    reply = visitor.api(
        "POST",
        "/session",
        {"email": "owner@example.org", "password": "correct horse battery", "bearer": True},
    )
    assert "set-cookie" not in reply.headers
    token = reply.json()["token"]
    assert visitor.api("GET", "/projects", Authorization=f"Bearer {token}").status == 200
    signed = site.as_(owner)
    assert signed.api("GET", "/projects", Authorization="Bearer nonsense").status == 401
    assert (
        visitor.api("DELETE", "/session", Authorization=f"Bearer {token}", X_CSRF_Token="").status
        == 204
    )
    assert visitor.api("GET", "/projects", Authorization=f"Bearer {token}").status == 401


# floods


def test_sign_in_is_slowed_per_account_and_tells_how_long(tmp_path: Path) -> None:
    with running(tmp_path, sign_ins=3) as site:
        site.person("target")
        visitor = site.visitor()
        statuses = [
            visitor.sign_in("target@example.org", "wrong password").status for _ in range(3)
        ]
        assert statuses == [401, 401, 401]
        reply = visitor.sign_in("Target@example.org ")
        assert reply.status == 429, "even the right password waits"
        assert 1 <= int(reply.headers["retry-after"]) <= 900
        assert (
            visitor.api("POST", "/session", {"email": "target@example.org", "password": "x"}).status
            == 429
        )
        site.person("other")
        assert visitor.sign_in("other@example.org").status == 303, (
            "other accounts are not locked out"
        )


def test_answers_and_changes_are_slowed_per_session(tmp_path: Path) -> None:
    with running(tmp_path, answers_per_minute=5, changes_per_minute=3) as site:
        boss = site.person("boss")
        project = site.project("fast", boss)
        site.items(project, texts(6))
        site.step(project, "seal", "open")
        rater = site.person("rater")
        site.join("fast", boss, rater, "annotator", 0, 1, 2)
        visitor = site.as_(rater)
        assert [visitor.api("POST", "/projects/fast/next").status for _ in range(6)] == [
            200
        ] * 5 + [429]
        assert site.as_(rater).api("POST", "/projects/fast/next").status == 200, (
            "another session has a bucket of its own"
        )
        manager = site.as_(boss)
        assert [
            manager.api("POST", "/projects/fast/invitations", {"role": "auditor"}).status
            for _ in range(4)
        ] == [201] * 3 + [429]


def test_the_usual_limit_is_300_questions_and_answers_a_minute(tmp_path: Path) -> None:
    with running(tmp_path) as site:
        assert site.settings.answers_per_minute == 300
        boss, rater = site.person("boss"), site.person("rater")
        project = site.project("fast", boss)
        site.items(project, texts(2))
        site.step(project, "seal", "open")
        site.join("fast", boss, rater, "annotator", 0, 1, 2)
        visitor, began, served = site.as_(rater), time.monotonic(), 0
        while (reply := visitor.api("POST", "/projects/fast/next")).status == 200:
            served += 1
            assert served < 2000
        assert reply.status == 429
        assert int(reply.headers["retry-after"]) == 1
        assert 300 <= served <= 301 + 5 * (time.monotonic() - began)


@pytest.mark.parametrize("name", ["answers_per_minute", "changes_per_minute", "sign_ins"])
def test_limits_cannot_be_nought(name: str) -> None:
    with pytest.raises(ArgumentError, match=name):
        WebSettings(base_url="http://127.0.0.1:1", secure=False, key=KEY, **{name: 0})


# files


@pytest.mark.parametrize(
    "path",
    [
        "/static/../app.py",
        "/static/..%2fapp.py",
        "/static/%2e%2e/app.py",
        "/static/....//app.py",
        "/static//etc/passwd",
        "/static/%2fetc%2fpasswd",
        "/static/..\\app.py",
        "/static/..%5capp.py",
        "/static/",
        "/static/%00",
        "/static/app.css%00.js",
    ],
)
def test_static_files_are_those_of_the_folder(site: Site, path: str) -> None:
    reply = site.visitor().get(path)
    assert reply.status in (400, 404, 405)
    assert b"make_app" not in reply.body
    assert b"root:" not in reply.body


@pytest.mark.parametrize(
    "kind",
    [
        "../../etc/passwd",
        "..%2f..%2fetc%2fpasswd",
        "%2e%2e",
        "archive.zip",
        "ARCHIVE",
        "sqlite",
        "'; DROP TABLE item; --",
    ],
)
def test_exports_are_those_of_the_list(site: Site, owner: int, kind: str) -> None:
    if (
        site.store.read_now(lambda w: w.one("SELECT id FROM project WHERE slug = 'exports'"))
        is None
    ):
        site.project("exports", owner)
    visitor = site.as_(owner)
    quoted = kind.replace(" ", "%20").replace("'", "%27").replace(";", "%3B")
    assert visitor.get(f"/p/exports/export/{quoted}").status in (400, 404)
    assert visitor.api("GET", f"/projects/exports/export?format={quoted}").status in (404, 422)


def test_oversized_requests_are_refused_before_they_are_read(tmp_path: Path) -> None:
    with running(tmp_path, max_body=10_000, max_upload=50_000) as site:
        boss = site.person("boss")
        site.project("small", boss)
        visitor = site.as_(boss)
        assert visitor.post("/p/small/people", {"do": "x" * 20_000}).status == 413
        assert (
            visitor.upload("/p/small/items", "items.csv", b"item,text\n" + b"a,b\n" * 20_000).status
            == 413
        )
        assert (
            visitor.send("POST", "/sign-out", b"", {"Content-Length": "999999999999"}).status == 413
        )
        chunked = _chunked(visitor, "/api/v1/session", b"x" * 4_000, times=5)
        assert chunked == 413
        assert (
            visitor.upload(
                "/p/small/items",
                "items.csv",
                b"item,text\n" + b"".join(b"a%d,b\n" % k for k in range(1000)),
            ).status
            == 303
        )


def _chunked(visitor: Visitor, path: str, part: bytes, *, times: int) -> int:
    """Send a body without a length."""
    import http.client

    connection = http.client.HTTPConnection(visitor.netloc, timeout=20)
    try:
        connection.putrequest("POST", path)
        connection.putheader("Transfer-Encoding", "chunked")
        connection.putheader("Content-Type", "application/json")
        connection.endheaders()
        for _ in range(times):
            connection.send(b"%x\r\n%s\r\n" % (len(part), part))
        connection.send(b"0\r\n\r\n")
        reply = connection.getresponse()
        reply.read()
        return reply.status
    finally:
        connection.close()


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("items.csv", b"item,text\na,b,c\n"),
        ("items.csv", b"\xff\xfe\x00bad"),
        ("items.csv", b""),
        ("items.csv", b"item,text\na,one\na,two\n"),
        ("items.jsonl", b"{" * 5000),
        ("items.jsonl", b'{"item": "a", "text": "x\\u0000y"}\n'),
        ("items.jsonl", b'{"item": "a", "text": "\\ud800"}\n'),
        ("items.jsonl", b'{"item": {}, "text": "x"}\n'),
        ("items.jsonl", b'{"item": "a", "text": "x", "image": "https://evil.example/x.png"}\n'),
        ("items.json", b"[" * 100_000),
        ("items.json", b'{"a": 1}'),
        ("items.parquet", b"PAR1 this is none PAR1"),
        ("items.zip", b"PK\x03\x04 broken"),
        ("items.exe", b"MZ"),
        ("../../items", b"x"),
        ("", b"x"),
    ],
)
def test_malformed_uploads_are_told_not_kept(
    site: Site, owner: int, name: str, data: bytes
) -> None:
    if (
        site.store.read_now(lambda w: w.one("SELECT id FROM project WHERE slug = 'uploads'"))
        is None
    ):
        site.project("uploads", owner)
    before = site.count("item")
    boss = site.as_(owner)
    reply = boss.upload("/p/uploads/items", name, data)
    if (
        reply.status == 303
    ):  # it has columns: they are shown, with what is wrong, and nothing is kept
        looked = boss.get("/p/uploads/items")
        assert (looked.status, "must" in looked.text) == (200, True)
        reply = boss.post(
            "/p/uploads/items", {"do": "add", "item": "item", "text": "text", "image": "image"}
        )
    assert reply.status == 422, reply.text
    assert site.count("item") == before


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"email": "a"}',
        b'{"email": "a", "password": "\\ud800"}',
        b'{"email": "\\u0000", "password": "x"}',
        b"\xff",
        b"[" * 50_000,
        b'{"email": 1e999, "password": true}',
    ],
)
def test_malformed_json_is_told(site: Site, body: bytes) -> None:
    reply = site.visitor().send(
        "POST", "/api/v1/session", body, {"Content-Type": "application/json"}
    )
    assert reply.status in (400, 401, 422), reply.text
    assert reply.headers["content-type"] == "application/problem+json"
