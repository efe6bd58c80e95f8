"""A real server on a free port with people, projects and a small browser without JavaScript, for
the tests of pages and JSON.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import http.client
import json
import re
import socket
import threading
import time
import urllib.parse
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import uvicorn

from noracle.collect.model import ClassSpec, Item, ProjectSpec
from noracle.collect.service import access, people, projects
from noracle.collect.store import open_store
from noracle.collect.web.app import make_app
from noracle.collect.web.security import WebSettings
from tests.unit.collect.service_world import SEAL

KEY = bytes(range(100, 132))
PASSWORD = "correct horse battery"
CLASSES = ("cat", "dog", "owl")


@functools.cache
def password_hash() -> str:
    """One slow hash for everybody."""
    return people.hash_password(PASSWORD)


@dataclasses.dataclass
class Reply:
    """What came back."""

    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    def json(self) -> Any:
        return json.loads(self.body)

    def field(self, name: str) -> str:
        found = re.search(rf'name="{name}" value="([^"]*)"', self.text)
        assert found is not None, f"no field {name} in {self.text[:2000]}"
        return found[1]


class Visitor:
    """A browser without JavaScript: cookies, the CSRF token of the last page, no redirects unless
    asked.
    """

    def __init__(self, url: str) -> None:
        self.netloc = urllib.parse.urlsplit(url).netloc
        self.origin = url
        self.cookies: dict[str, str] = {}
        self.csrf = ""
        self._connection: http.client.HTTPConnection | None = None

    def send(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        sent = {
            "Host": self.netloc,
            **(
                {"Cookie": "; ".join(f"{k}={v}" for k, v in self.cookies.items())}
                if self.cookies
                else {}
            ),
        }
        sent |= {"Accept-Language": "en", **(headers or {})}
        for attempt in (0, 1):
            if self._connection is None:
                self._connection = http.client.HTTPConnection(self.netloc, timeout=30)
            try:
                self._connection.request(method, path, body=body, headers=sent)
                raw = self._connection.getresponse()
                reply = Reply(raw.status, raw.headers, raw.read())
                break
            except (http.client.HTTPException, ConnectionError):
                self.close()
                if attempt:
                    raise
        for cookie in reply.headers.get_all("set-cookie") or []:
            name, _, rest = cookie.partition("=")
            value = rest.split(";")[0].strip('"')
            if value and "max-age=0" not in rest.lower():
                self.cookies[name] = value
            else:
                self.cookies.pop(name, None)
        found = re.search(rb'name="csrf" value="([0-9a-f]+)"', reply.body)
        if found:
            self.csrf = found[1].decode()
        return reply

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def get(self, path: str, **headers: str) -> Reply:
        return self.send("GET", path, headers={k.replace("_", "-"): v for k, v in headers.items()})

    def post(
        self,
        path: str,
        fields: Mapping[str, str] | None = None,
        *,
        csrf: str | None = None,
        **headers: str,
    ) -> Reply:
        data = {"csrf": self.csrf if csrf is None else csrf, **(fields or {})}
        sent = {"Content-Type": "application/x-www-form-urlencoded", "Origin": self.origin}
        return self.send(
            "POST",
            path,
            urllib.parse.urlencode(data).encode(),
            {**sent, **{k.replace("_", "-"): v for k, v in headers.items()}},
        )

    def upload(
        self, path: str, name: str, data: bytes, fields: Mapping[str, str] | None = None
    ) -> Reply:
        edge = "edge-of-part"
        parts = b"".join(
            f'--{edge}\r\nContent-Disposition: form-data; name="{k}"\r\n\r\n{v}\r\n'.encode()
            for k, v in {"csrf": self.csrf, **(fields or {})}.items()
        )
        parts += (
            f'--{edge}\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n'.encode()
            + data
            + f"\r\n--{edge}--\r\n".encode()
        )
        return self.send(
            "POST",
            path,
            parts,
            {"Content-Type": f"multipart/form-data; boundary={edge}", "Origin": self.origin},
        )

    def api(self, method: str, path: str, value: object = None, **headers: str) -> Reply:
        sent = {
            "X-CSRF-Token": self.csrf,
            **({"Content-Type": "application/json"} if value is not None else {}),
        }
        body = None if value is None else json.dumps(value).encode()
        return self.send(
            method,
            f"/api/v1{path}",
            body,
            {**sent, **{k.replace("_", "-"): v for k, v in headers.items()}},
        )

    def sign_in(self, email: str, password: str = PASSWORD) -> Reply:
        self.get("/sign-in")
        return self.post("/sign-in", {"email": email, "password": password})


class Site:
    """A running server."""

    def __init__(self, where: Path | str, **settings: Any) -> None:
        self.store = open_store(where if isinstance(where, str) else f"sqlite:///{where}/labels.db")
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self.settings = WebSettings(base_url=self.url, secure=False, key=KEY, **settings)
        self.app = make_app(self.store, settings=self.settings)
        self._server = uvicorn.Server(uvicorn.Config(self.app, log_level="critical", lifespan="on"))
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [self._socket]}, daemon=True
        )
        self._thread.start()
        until = time.monotonic() + 20
        while not self._server.started:
            assert time.monotonic() < until, "the server did not start"
            time.sleep(0.01)
        self._visitors: list[Visitor] = []

    def close(self) -> None:
        for visitor in self._visitors:
            visitor.close()
        self._server.should_exit = True
        self._thread.join(20)
        self._socket.close()
        self.store.close()

    def visitor(self) -> Visitor:
        self._visitors.append(Visitor(self.url))
        return self._visitors[-1]

    def person(self, name: str) -> int:
        """An account <name>@example.org."""
        return self.store.write_now(
            lambda work: people.add_person(
                work,
                email=f"{name}@example.org",
                name=name,
                password_hash=password_hash(),
                now=time.time(),
            )
        )

    def session(self, person: int) -> str:
        """A session token, without the slow sign-in."""
        token = access.new_token()
        self.store.write_now(
            lambda work: people.start_session(
                work, person, access.token_hash(token), now=time.time()
            )
        )
        return token

    def as_(self, person: int) -> Visitor:
        """A browser in which the person is signed in."""
        from noracle.collect.web.security import csrf_token

        visitor = self.visitor()
        token = self.session(person)
        visitor.cookies["noracle"] = token
        visitor.csrf = csrf_token(self.settings, access.token_hash(token))
        return visitor

    def project(self, slug: str, owner: int, **spec: Any) -> int:
        """A draft without items."""
        whole = ProjectSpec(
            **{
                "protocol": "partitioned",
                "classes": tuple(ClassSpec(name=n, guideline=f"What a *{n}* is.") for n in CLASSES),
                **spec,
            }
        )
        return self.store.write_now(
            lambda work: projects.create_project(
                work, slug=slug, name=f"Project {slug}", spec=whole, owner=owner, now=time.time()
            )
        )

    def items(self, project: int, items: list[Item]) -> None:
        self.store.write_now(
            lambda work: projects.import_items(work, project, items, now=time.time())
        )

    def step(self, project: int, *steps: str) -> None:
        for step in steps:
            op = {
                "seal": functools.partial(projects.seal_project, seed=SEAL),
                "open": projects.open_project,
                "close": projects.close_project,
            }[step]
            self.store.write_now(
                lambda work, op=op: op(work, project, actor="system", now=time.time())
            )  # type: ignore[misc]

    def token(
        self, slug: str, inviter: int, role: str, pool: int | None = None, days: float = 7
    ) -> str:
        """An invitation."""

        def op(work: Any) -> str:
            row = projects.project_row(work, slug)
            member = access.member_of(work, inviter, int(row["id"]))
            assert member is not None
            return people.invite(work, member, role=role, pool=pool, days=days, now=time.time())  # type: ignore[arg-type]

        return self.store.write_now(op)

    def join(self, slug: str, inviter: int, person: int, role: str, *pools: int) -> None:
        """Make a person a member."""
        for pool in pools or (None,):
            token = self.token(slug, inviter, role, pool)
            self.store.write_now(
                lambda work, token=token: people.accept_invitation(
                    work, access.token_hash(token), person=person, now=time.time()
                )
            )

    def count(self, table: str) -> int:
        row = self.store.read_now(lambda work: work.one(f"SELECT COUNT(*) AS n FROM {table}"))
        assert row is not None
        return int(row["n"])


@contextlib.contextmanager
def running(where: Path | str, **settings: Any) -> Iterator[Site]:
    """A site for the time of a test, in a folder (SQLite) or on the database of a URL."""
    site = Site(where, **settings)
    try:
        yield site
    finally:
        site.close()


def texts(n: int) -> list[Item]:
    """Plain items."""
    return [Item(name=f"i{k}", content={"text": f"The text of item {k}."}) for k in range(n)]
