"""Signing in at an OpenID Connect provider: a real one, small, on its own port."""

from __future__ import annotations

import base64
import hashlib
import socket
import threading
import time
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

pytest.importorskip("authlib", reason="the extra 'oidc' is not installed")
pytest.importorskip("uvicorn", reason="the extra 'collect' is not installed")

import uvicorn
from fastapi import FastAPI, Form, Request
from fastapi.responses import JSONResponse, RedirectResponse
from joserfc import jwt
from joserfc.jwk import RSAKey

from noracle.collect.web.security import Oidc
from tests.service.web_site import Site, Visitor, running, texts

CLIENT, SECRET = "noracle", "a secret between the two"


class Provider:
    """Authorization code with PKCE; whoever comes is ``claims``."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.issuer = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self.key, self.codes, self.asked = RSAKey.generate_key(2048), {}, []  # type: ignore[var-annotated]
        self.claims: dict[str, Any] = {}
        self.wrong: dict[str, Any] = {}
        self.tokens = 0
        app = FastAPI()
        app.get("/.well-known/openid-configuration")(self.about)
        app.get("/authorize")(self.authorize)
        app.post("/token")(self.token)
        app.get("/jwks")(lambda: {"keys": [{**self.key.as_dict(private=False), "kid": "1"}]})
        self._server = uvicorn.Server(uvicorn.Config(app, log_level="critical"))
        about = {"sockets": [self._socket]}
        self._thread = threading.Thread(target=self._server.run, kwargs=about, daemon=True)
        self._thread.start()
        while not self._server.started:
            time.sleep(0.01)

    def close(self) -> None:
        self._server.should_exit = True
        self._thread.join(10)
        self._socket.close()

    def about(self) -> dict[str, Any]:
        found = {
            "authorization_endpoint": "/authorize",
            "token_endpoint": "/token",
            "jwks_uri": "/jwks",
        }
        return {"issuer": self.issuer, **{name: self.issuer + path for name, path in found.items()}}

    def authorize(self, request: Request) -> RedirectResponse:
        sent = dict(request.query_params)
        self.asked.append(sent)
        assert sent["response_type"] == "code"
        assert sent["code_challenge_method"] == "S256"
        assert sent["client_id"] == CLIENT
        code = f"code-{len(self.asked)}"
        self.codes[code] = sent
        back = urllib.parse.urlencode({"code": code, "state": sent["state"]})
        return RedirectResponse(f"{sent['redirect_uri']}?{back}")

    def token(
        self,
        request: Request,
        code: str = Form(),
        code_verifier: str = Form(),
        redirect_uri: str = Form(),
    ) -> JSONResponse:
        sent = self.codes.pop(code, None)
        mark = base64.urlsafe_b64encode(hashlib.sha256(code_verifier.encode()).digest()).rstrip(
            b"="
        )
        basic = base64.b64encode(f"{CLIENT}:{urllib.parse.quote(SECRET)}".encode()).decode()
        plain = base64.b64encode(f"{CLIENT}:{SECRET}".encode()).decode()
        ours = request.headers.get("authorization", "").removeprefix("Basic ") in (basic, plain)
        if (
            sent is None
            or not ours
            or mark.decode() != sent["code_challenge"]
            or redirect_uri != sent["redirect_uri"]
        ):
            return JSONResponse({"error": "invalid_grant"}, status_code=400)
        self.tokens += 1
        now = int(time.time())
        claims = {
            "iss": self.issuer,
            "aud": CLIENT,
            "nonce": sent["nonce"],
            "iat": now,
            "exp": now + 300,
        }
        claims |= {**self.claims, **self.wrong}
        key = self.wrong.get("key", self.key)
        claims.pop("key", None)
        made = jwt.encode({"alg": "RS256", "kid": "1"}, claims, key)
        return JSONResponse({"access_token": "x", "token_type": "Bearer", "id_token": made})


@pytest.fixture
def provider() -> Iterator[Provider]:
    found = Provider()
    yield found
    found.close()


@pytest.fixture
def site(tmp_path: Path, provider: Provider) -> Iterator[Site]:
    with running(tmp_path, oidc=Oidc(provider.issuer, CLIENT, SECRET)) as found:
        project = found.project("alpha", found.person("owner"))
        found.items(project, texts(10))
        yield found


def go(visitor: Visitor, provider: Provider, path: str = "/sign-in/oidc") -> Any:
    """To the provider and back, as a browser goes."""
    reply = visitor.get(path)
    assert reply.status == 303, reply.text
    assert reply.headers["location"].startswith(f"{provider.issuer}/authorize?")
    there = httpx.get(reply.headers["location"])
    back = there.headers["location"].removeprefix(visitor.origin)
    assert back.startswith("/sign-in/oidc/back?")
    return visitor.get(back, Sec_Fetch_Site="cross-site"), back


def claims(name: str, *, verified: object = True) -> dict[str, Any]:
    return {
        "sub": f"sub-{name}",
        "email": f"{name}@example.org",
        "email_verified": verified,
        "name": name,
    }


def test_a_person_with_the_same_verified_address_signs_in_and_is_linked(
    site: Site, provider: Provider
) -> None:
    ann = site.person("ann")
    site.join("alpha", 1, ann, "auditor")
    provider.claims = claims("ann")
    visitor = site.visitor()
    assert "/sign-in/oidc" in visitor.get("/sign-in").text
    reply, back = go(visitor, provider)
    assert reply.status == 200
    assert reply.headers["refresh"] == "0; url=/"
    assert "Project alpha" in visitor.get("/").text
    assert visitor.get(back).status == 403, "an attempt counts once"
    provider.claims = {**claims("ann"), "email": "changed@example.org"}
    again = site.visitor()
    assert go(again, provider)[0].status == 200, "the subject counts, not the address"
    assert "Project alpha" in again.get("/").text
    row = site.store.read_now(lambda w: w.all("SELECT issuer, subject, person_id FROM identity"))
    assert row == [{"issuer": provider.issuer, "subject": "sub-ann", "person_id": ann}]


@pytest.mark.parametrize("verified", [False, None, "true", 1])
def test_an_address_that_was_not_verified_links_nobody(
    site: Site, provider: Provider, verified: object
) -> None:
    site.person("ann")
    provider.claims = claims("ann", verified=verified)
    visitor = site.visitor()
    assert go(visitor, provider)[0].status == 403
    assert visitor.get("/").headers["location"] == "/sign-in"
    assert site.count("identity") == 0


def test_strangers_get_no_account_but_invitations_do(site: Site, provider: Provider) -> None:
    provider.claims = claims("eve")
    before = site.count("person")
    assert go(site.visitor(), provider)[0].status == 403
    assert go(site.visitor(), provider, "/sign-in/oidc?join=no-such-invitation")[0].status == 404
    assert site.count("person") == before
    token = site.token("alpha", 1, "annotator", 0)
    visitor = site.visitor()
    path = f"/sign-in/oidc?join={token}"
    assert path in visitor.get(f"/join/{token}").text
    assert go(visitor, provider, path)[0].status == 200
    assert visitor.get("/p/alpha/work").status == 200
    assert site.visitor().sign_in("eve@example.org", "").status == 401, "there is no password"
    provider.claims = claims("mallory")
    assert go(site.visitor(), provider, path)[0].status == 404, "the invitation was used"
    assert site.count("person") == before + 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"iss": "https://evil.example"},
        {"aud": "another"},
        {"nonce": "another"},
        {"exp": 1},
        {"sub": None},
        {"key": RSAKey.generate_key(2048)},
    ],
    ids=["issuer", "audience", "nonce", "expired", "nobody", "signature"],
)
def test_a_token_that_is_not_for_us_lets_nobody_in(
    site: Site, provider: Provider, wrong: dict[str, Any]
) -> None:
    site.person("ann")
    provider.claims, provider.wrong = claims("ann"), wrong
    visitor = site.visitor()
    assert go(visitor, provider)[0].status == 503
    assert provider.tokens == 1
    assert visitor.get("/").headers["location"] == "/sign-in"


def test_an_attempt_of_another_browser_is_refused(site: Site, provider: Provider) -> None:
    site.person("ann")
    provider.claims = claims("ann")
    mine, victim = site.visitor(), site.visitor()
    begun = mine.get("/sign-in/oidc").headers["location"]
    back = httpx.get(begun).headers["location"].removeprefix(mine.origin)
    assert victim.get(back).status == 403, "no cookie"
    victim.get("/sign-in/oidc")
    assert victim.get(back).status == 403, "another state"
    text, _, mark = mine.cookies["noracle-oidc"].rpartition(".")
    mine.cookies["noracle-oidc"] = f"{text[:-5]}AAAAA.{mark}"
    assert mine.get(back).status == 403, "a cookie that was changed"
    assert mine.get("/sign-in/oidc/back").status == 403
    assert provider.tokens == 0


def test_without_a_provider_there_is_no_such_page(tmp_path: Path) -> None:
    with running(tmp_path) as site:
        assert site.visitor().get("/sign-in/oidc").status == 404
        assert site.visitor().get("/sign-in/oidc/back?code=x&state=y").status == 403
        assert "oidc" not in site.visitor().get("/sign-in").text


def test_a_provider_that_does_not_answer_is_told(tmp_path: Path) -> None:
    with running(tmp_path, oidc=Oidc("http://127.0.0.1:9", CLIENT, SECRET)) as site:
        assert site.visitor().get("/sign-in/oidc").status == 503
