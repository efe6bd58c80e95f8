"""Signing in at a provider that others wrote: glewlwyd, Debian's package, with its own database."""

from __future__ import annotations

import shutil
import socket
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

pytest.importorskip("authlib", reason="the extra 'oidc' is not installed")
pytest.importorskip("uvicorn", reason="the extra 'collect' is not installed")

from joserfc.jwk import RSAKey

from noracle.collect.web.security import Oidc
from tests.service.web_site import Site, Visitor, running, texts

SCHEMA = Path("/usr/share/dbconfig-common/data/glewlwyd/install/sqlite3")
MODULES = Path("/usr/lib/glewlwyd")
CLIENT, SECRET, PASSWORD = "noracle", "a secret between the two", "a long password"
pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(
        not (shutil.which("glewlwyd") and SCHEMA.exists()), reason="glewlwyd is not installed"
    ),
]


class Glewlwyd:
    """A server of its own, managed through its interface for administrators."""

    def __init__(self, folder: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.base = f"http://127.0.0.1:{free.getsockname()[1]}"
        with sqlite3.connect(folder / "glewlwyd.db") as database:
            database.executescript(SCHEMA.read_text(encoding="utf-8"))
        database.close()
        about: dict[str, Any] = {
            "bind_address": "127.0.0.1",
            "external_url": self.base,
            "login_url": "login.html",
            "api_prefix": "api",
            "log_mode": "file",
            "log_level": "INFO",
            "log_file": str(folder / "glewlwyd.log"),
            "session_key": "GLEWLWYD2_SESSION_ID",
            "admin_session_authentication": "cookie",
            "profile_session_authentication": "cookie",
            "admin_scope": "g_admin",
            "profile_scope": "g_profile",
            "user_module_path": str(MODULES / "user"),
            "client_module_path": str(MODULES / "client"),
            "user_auth_scheme_module_path": str(MODULES / "scheme"),
            "plugin_module_path": str(MODULES / "plugin"),
            "hash_algorithm": "SHA512",
        }
        lines = [f'{name}="{value}"' for name, value in about.items()]
        lines += [f"port={self.base.rpartition(':')[2]}", "cookie_secure=0"]
        lines += ["session_expiration=3600", "login_api_enabled=true"]
        lines += [f'database = {{ type = "sqlite3"; path = "{folder}/glewlwyd.db" }};']
        settings = folder / "glewlwyd.conf"
        settings.write_text("\n".join(lines) + "\n", encoding="utf-8")
        self._process = subprocess.Popen(["glewlwyd", "-c", str(settings)])
        self._admin = self.signed_in("admin", "password")
        self._ask("POST", "/mod/plugin/", json=self._plugin())
        users = self._ask("GET", "/mod/user/database").json()
        own = {"multiple": False, "read": True, "write": True}
        own |= {"profile-read": True, "profile-write": False}
        users["parameters"]["data-format"]["verified"] = own
        self._ask("PUT", "/mod/user/database", json=users)
        self._ask("PUT", "/mod/user/database/reset/")
        for name in ("email", "profile"):
            scope = {"name": name, "display_name": name, "description": name, "scheme": {}}
            self._ask("POST", "/scope/", json={**scope, "password_required": False})

    @property
    def issuer(self) -> str:
        return f"{self.base}/api/oidc"

    def _plugin(self) -> dict[str, Any]:
        key = RSAKey.generate_key(2048)
        verified = {
            "name": "email_verified",
            "user-property": "verified",
            "type": "boolean",
            "boolean-value-true": "1",
            "boolean-value-false": "0",
            "mandatory": True,
            "scope": [],
        }
        parameters = {
            "iss": self.issuer,
            "jwt-type": "rsa",
            "jwt-key-size": "256",
            "key": key.as_pem(private=True).decode(),
            "cert": key.as_pem(private=False).decode(),
            "access-token-duration": 3600,
            "refresh-token-duration": 3600,
            "code-duration": 600,
            "auth-type-code-enabled": True,
            "auth-type-refresh-enabled": True,
            "allow-non-oidc": False,
            "pkce-allowed": True,
            "subject-type": "public",
            "name-claim": "mandatory",
            "email-claim": "mandatory",
            "claims": [verified],
            "scope": [],
            "jwks-show": True,
        }
        about = {"module": "oidc", "name": "oidc", "display_name": "oidc", "enabled": True}
        return {**about, "parameters": parameters}

    def _ask(self, verb: str, path: str, **how: Any) -> httpx.Response:
        reply = self._admin.request(verb, path, **how)
        assert reply.status_code == 200, f"{verb} {path}: {reply.status_code} {reply.text}"
        return reply

    def signed_in(self, name: str, password: str) -> httpx.Client:
        client = httpx.Client(base_url=f"{self.base}/api")
        until = time.monotonic() + 20
        while True:
            try:
                reply = client.post("/auth/", json={"username": name, "password": password})
            except httpx.TransportError:
                assert time.monotonic() < until, "glewlwyd did not start"
                time.sleep(0.05)
            else:
                assert reply.status_code == 200, reply.text
                return client

    def person(self, name: str, *, verified: bool) -> None:
        about = {"username": name, "name": name, "email": f"{name}@example.org", "enabled": True}
        about |= {"password": PASSWORD, "verified": str(int(verified))}
        scope = ["openid", "email", "profile", "g_profile"]
        self._ask("POST", "/user/", json={**about, "scope": scope})

    def client(self, origin: str) -> None:
        about = {"client_id": CLIENT, "name": CLIENT, "client_secret": SECRET, "enabled": True}
        about |= {"confidential": True, "token_endpoint_auth_method": ["client_secret_basic"]}
        back = [f"{origin}/sign-in/oidc/back"]
        rest = {"redirect_uri": back, "authorization_type": ["code"], "scope": ["openid"]}
        self._ask("POST", "/client/", json={**about, **rest})

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(20)


@pytest.fixture(scope="module")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Glewlwyd]:
    found = Glewlwyd(tmp_path_factory.mktemp("glewlwyd"))
    found.person("ann", verified=True)
    found.person("bob", verified=False)
    found.person("eve", verified=True)
    yield found
    found.close()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, provider: Glewlwyd) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("site")
    with running(folder, oidc=Oidc(provider.issuer, CLIENT, SECRET)) as found:
        project = found.project("alpha", found.person("owner"))
        found.items(project, texts(10))
        provider.client(found.visitor().origin)
        yield found


def go(visitor: Visitor, provider: Glewlwyd, name: str, path: str = "/sign-in/oidc") -> Any:
    """To glewlwyd, through its sign-in and consent, and back."""
    there = visitor.get(path).headers["location"]
    browser = provider.signed_in(name, PASSWORD)
    asked = browser.get(there)
    assert "/login.html?" in asked.headers["location"], "consent is asked for"
    scope = {"scope": "openid email profile"}
    assert browser.put(f"/auth/grant/{CLIENT}", json=scope).status_code == 200
    back = browser.get(f"{there}&g_continue").headers["location"]
    assert back.startswith(f"{visitor.origin}/sign-in/oidc/back?"), back
    return visitor.get(back.removeprefix(visitor.origin), Sec_Fetch_Site="cross-site")


def test_a_verified_address_signs_in_and_its_subject_is_linked(
    site: Site, provider: Glewlwyd
) -> None:
    ann = site.person("ann")
    site.join("alpha", 1, ann, "auditor")
    visitor = site.visitor()
    assert go(visitor, provider, "ann").status == 200
    assert "Project alpha" in visitor.get("/").text
    rows = site.store.read_now(lambda w: w.all("SELECT issuer, person_id FROM identity"))
    assert rows == [{"issuer": provider.issuer, "person_id": ann}]
    again = site.visitor()
    assert go(again, provider, "ann").status == 200
    assert "Project alpha" in again.get("/").text
    assert site.count("identity") == 1


def test_an_address_that_was_not_verified_links_nobody(site: Site, provider: Glewlwyd) -> None:
    site.person("bob")
    before = site.count("identity")
    visitor = site.visitor()
    assert go(visitor, provider, "bob").status == 403
    assert visitor.get("/").headers["location"] == "/sign-in"
    assert site.count("identity") == before


def test_a_stranger_needs_an_invitation(site: Site, provider: Glewlwyd) -> None:
    before = site.count("person")
    assert go(site.visitor(), provider, "eve").status == 403
    assert site.count("person") == before
    token = site.token("alpha", 1, "annotator", 0)
    visitor = site.visitor()
    assert go(visitor, provider, "eve", f"/sign-in/oidc?join={token}").status == 200
    assert visitor.get("/p/alpha/work").status == 200


def test_a_code_that_was_changed_lets_nobody_in(site: Site, provider: Glewlwyd) -> None:
    visitor = site.visitor()
    there = visitor.get("/sign-in/oidc").headers["location"]
    browser = provider.signed_in("ann", PASSWORD)
    browser.put(f"/auth/grant/{CLIENT}", json={"scope": "openid email profile"})
    back = browser.get(f"{there}&g_continue").headers["location"]
    changed = back.replace("code=", "code=x")
    assert visitor.get(changed.removeprefix(visitor.origin)).status == 503, "no such code"
    assert visitor.get("/").headers["location"] == "/sign-in"
