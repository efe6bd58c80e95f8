"""Everything that the pages do, for programs: :class:`Client`.

What the service refuses comes as its own exceptions (:mod:`noracle.collect.errors`). Questions and
answers that were lost on the way are sent again with the same key, so that they count once.
"""

from __future__ import annotations

import io
import ssl
import time
import urllib.parse
import zipfile
from collections.abc import Generator, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, Self

from noracle.collect import errors
from noracle.collect.model import Item, ProjectSpec, Role
from noracle.errors import ArgumentError, MissingExtra, require

try:
    import httpx
except ImportError as error:  # pragma: no cover - depends on what is installed
    raise MissingExtra("noracle collect", "httpx", "collect") from error

Answers = Mapping[str, int | str | None]
Columns = Mapping[str, str] | None
_REFUSALS = (errors.SignedOut, errors.Forbidden, errors.NotFound, errors.Conflict, errors.Refused)


class Unreachable(errors.Unavailable):
    """The server does not answer, or not as a server of this kind does."""


def options_of(base_url: str, timeout: float) -> dict[str, Any]:
    """How to connect; proxies of the environment are ignored."""
    parts = urllib.parse.urlsplit(base_url)
    rule = f"base_url must be http://host:port or https://host:port; got {base_url!r}."
    require(parts.scheme in ("http", "https") and parts.hostname, rule)
    verify = ssl.create_default_context() if parts.scheme == "https" else False
    return {"base_url": base_url, "timeout": timeout, "verify": verify, "trust_env": False}


class Talk:
    """What to send, when to send it again, and what a reply means; others wait for it."""

    def __init__(self, base_url: str, *, patience: float = 0.0, token: str | None = None) -> None:
        self.base_url, self._origin = base_url, str(httpx.URL(base_url)).rstrip("/")
        self._patience, self._kept = patience, False
        self.session = {} if token is None else {"authorization": f"Bearer {token}"}

    def talk(
        self, method: str, path: str, *, again: bool, **sent: Any
    ) -> Generator[dict[str, Any] | float, Any, httpx.Response | None]:
        """Yields a request for a reply, or seconds to wait; returns the reply that counts, or None."""
        usual = {"accept": "application/json", "origin": self._origin, **self.session}
        headers = {**usual, **sent.pop("headers", {})}
        until = time.monotonic() + self._patience
        while True:
            kept, self._kept = self._kept, False
            try:
                url = f"/api/v1{path}"
                reply = yield {"method": method, "url": url, "headers": headers, **sent}
                sized = {"content-length", "transfer-encoding"} & reply.headers.keys()
                if not sized and reply.status_code not in (204, 304):
                    raise httpx.RemoteProtocolError("a reply without a length")
            except (httpx.InvalidURL, httpx.LocalProtocolError) as error:
                rule = "path and headers must hold no control characters"
                raise ArgumentError(f"{rule}; got some ({error}).") from None
            except httpx.TransportError as error:
                # A kept connection may have been closed just now.
                if not again or (time.monotonic() >= until and not kept):
                    what = f"the server at {self._origin} must answer"
                    why = str(error) or type(error).__name__
                    raise Unreachable(f"{what}; got {why}. Is it running?") from None
                yield 0.05
                continue
            self._kept, left = True, until - time.monotonic()
            if not again or reply.status_code != errors.Unavailable.status or left <= 0:
                break
            yield min(_wait(reply, 1.0), max(0.05, left))
        if reply.status_code >= 400:
            raise refusal(reply)
        return reply if reply.content else None

    def keep(self, value: Any) -> Any:
        """Keep the CSRF token that goes with the session."""
        if isinstance(value, dict) and isinstance(value.get("csrf"), str):
            self.session["x-csrf-token"] = value["csrf"]
        return value


def path_of(kind: Literal["invitations", "resets"], link: str) -> str:
    """The path of an invitation or of a reset: of its token, or of the whole link."""
    token = urllib.parse.quote(link.rstrip("/").rsplit("/", 1)[-1], safe="")
    return f"/{kind}/{token}"


def answer_to(
    asked: Mapping[str, Any], value: str, *, want_next: bool = True, shown_at: float | None = None
) -> dict[str, Any]:
    """An answer as it is sent; sent again, it has the same key."""
    sent = {"question": asked["question"], "key": asked["key"], "value": value}
    sent |= {"want_next": want_next, "client_ms": None}
    return {**sent, "shown_at": time.time() if shown_at is None else shown_at}


def question_in(value: Any) -> dict[str, Any] | None:
    """The question in a reply, whether it is the reply or stands under ``next``."""
    found = value.get("next") if isinstance(value, dict) and "next" in value else value
    return found if isinstance(found, dict) and "key" in found else None


def refusal(reply: httpx.Response) -> errors.CollectError:
    """The exception that a refused request stands for."""
    status = reply.status_code
    try:
        problem = reply.json()
    except ValueError:
        problem = {}
    told = problem if isinstance(problem, dict) else {}
    text = str(told.get("detail") or told.get("title") or f"the server answered {status}")
    for kind in (errors.Throttled, errors.Unavailable):
        if status == kind.status:
            return kind(text, wait=_wait(reply, kind.usual[1]))
    return next((e for e in _REFUSALS if e.status == status), errors.CollectError)(text)


def _wait(reply: httpx.Response, usual: float) -> float:
    """Seconds that the server asks for."""
    said = reply.headers.get("retry-after", "")
    return float(said) if said.isdecimal() else usual


class Client(Talk):
    """A person's session with a server, for programs.

    Parameters
    ----------
    base_url
        Where the server is, such as ``http://127.0.0.1:8000``.
    timeout
        Seconds until a request counts as lost.
    patience
        Seconds during which a lost request that may be repeated is sent again (after a restart of
        the server, say). 0: never.
    token
        The token of a session that has begun already, instead of signing in.

    Examples
    --------
    >>> with Client("http://127.0.0.1:8000") as client:  # doctest: +SKIP
    ...     client.sign_in("ann@example.org", "a long password")
    ...     client.create("abstracts", "Abstracts", {"protocol": "partitioned", "classes": ["a", "b"]})
    ...     client.import_items("abstracts", "items.csv")
    ...     client.seal("abstracts")
    ...     link = client.invite("abstracts", pool=0)
    ...     client.open("abstracts")
    """

    def __init__(self, base_url: str, *, timeout: float = 30.0, **session: Any) -> None:
        super().__init__(base_url, **session)
        self._http = httpx.Client(**options_of(base_url, timeout))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; the session lives on."""
        self._http.close()

    def send(
        self, method: str, path: str, *, again: bool = False, **sent: Any
    ) -> httpx.Response | None:
        """Send a request under ``/api/v1`` (``json``, ``content``, ``params`` as in httpx)."""
        talk = self.talk(method, path, again=again or method == "GET", **sent)
        step = next(talk)
        while True:
            try:
                if isinstance(step, float):
                    time.sleep(step)
                    step = next(talk)
                else:
                    step = talk.send(self._http.request(**step))
            except StopIteration as done:
                found: httpx.Response | None = done.value
                return found
            except (httpx.InvalidURL, httpx.TransportError) as error:
                step = talk.throw(error)

    def call(self, method: str, path: str, value: object = None, *, again: bool = False) -> Any:
        """The same with JSON on both sides; None without a body."""
        reply = self.send(method, path, json=value, again=again)
        return None if reply is None else reply.json()

    def sign_in(self, email: str, password: str) -> str:
        """Begin a session; returns the person's name."""
        account = {"email": email, "password": password}
        return str(self.keep(self.call("POST", "/session", account))["name"])

    def sign_out(self, *, everywhere: bool = False) -> None:
        """End the session, or all sessions of mine."""
        self.call("DELETE", "/sessions" if everywhere else "/session")
        self.session = {}
        self._http.cookies.clear()

    def join(
        self, invitation: str, *, name: str = "", email: str = "", password: str = ""
    ) -> dict[str, Any]:
        """Accept an invitation (token or link), as who is signed in or as somebody new."""
        account = {"name": name, "email": email, "password": password}
        return dict(self.keep(self.call("POST", path_of("invitations", invitation), account)))

    def change_password(self, old: str, new: str) -> None:
        """Another password of mine; all other sessions of mine end."""
        self.call("POST", "/password", {"old": old, "password": new})

    def reset(self, link: str, password: str) -> None:
        """Set a new password with a link of :meth:`reset_link`, and begin a session."""
        self.keep(self.call("POST", path_of("resets", link), {"password": password}))

    def projects(self) -> list[dict[str, Any]]:
        """``slug, name, state, role`` of my projects."""
        return list(self.call("GET", "/projects")["projects"])

    def project(self, slug: str) -> dict[str, Any]:
        """State, specification, progress, systems, imports and what was committed to."""
        return dict(self.call("GET", f"/projects/{slug}"))

    def create(self, slug: str, name: str, spec: ProjectSpec | Mapping[str, Any]) -> None:
        """Begin a project."""
        self.call("POST", "/projects", {"slug": slug, "name": name, "spec": _plain(spec)})

    def change_spec(self, slug: str, spec: ProjectSpec | Mapping[str, Any]) -> None:
        """Another specification of a draft."""
        self.call("PUT", f"/projects/{slug}/spec", _plain(spec))

    def import_items(
        self, slug: str, items: Iterable[Item] | str | Path, *, columns: Columns = None
    ) -> int:
        """Add items to a draft: as they are, or a file or folder (with its images) of the formats of
        :func:`noracle.collect.formats.read_items`. Returns how many.
        """
        path = f"/projects/{slug}/items"
        if not isinstance(items, str | Path):
            plain = [{"name": i.name, "content": dict(i.content), "truth": i.truth} for i in items]
            return int(self.call("POST", path, {"items": plain})["items"])
        name, data = _packed(Path(items))
        headers = {"content-type": "application/octet-stream"}
        about: Any = {"params": {**(columns or {}), "file": name}, "headers": headers}
        reply = self.send("POST", path, content=data, **about)
        return 0 if reply is None else int(reply.json()["items"])

    def undo_import(self, slug: str, number: int) -> None:
        """Take the items of an import (of :meth:`project`) out of a draft again."""
        self.call("DELETE", f"/projects/{slug}/imports/{number}")

    def seal(self, slug: str) -> dict[str, Any]:
        """Draw everything random; returns ``commitment`` and ``root``, to be published."""
        return dict(self.call("POST", f"/projects/{slug}/seal"))

    def open(self, slug: str) -> None:
        """Begin to put questions."""
        self.call("POST", f"/projects/{slug}/open")

    def close_project(self, slug: str) -> dict[str, Any]:
        """Stop asking, and reveal the seed; there is no way back."""
        return dict(self.call("POST", f"/projects/{slug}/close"))

    def commit_system(self, slug: str, name: str, commitment: str) -> None:
        """Commit to answers (:func:`noracle.collect.chain.salted_hash`), to reveal them later."""
        self.call("POST", f"/projects/{slug}/systems", {"name": name, "commitment": commitment})

    def add_system(self, slug: str, name: str, answers: Answers, *, salt: str = "") -> bool:
        """The answers of a system (``salt``: those of :meth:`commit_system`); whether it is late."""
        sent = {"name": name, "answers": dict(answers), "salt": salt or None}
        return bool(self.call("POST", f"/projects/{slug}/systems", sent)["late"])

    def live(self, slug: str) -> dict[str, Any]:
        """The estimates and checks now; the look is logged."""
        return dict(self.call("GET", f"/projects/{slug}/live"))

    def export(self, slug: str, kind: str = "archive") -> bytes:
        """The project as a file: archive, jsonl, csv, parquet (zips) or label-studio."""
        reply = self.send("GET", f"/projects/{slug}/export", params={"format": kind})
        return b"" if reply is None else reply.content

    def people(self, slug: str) -> dict[str, list[dict[str, Any]]]:
        """``people``, ``raters`` (how annotators work) and open ``invitations``."""
        return dict(self.call("GET", f"/projects/{slug}/people"))

    def reset_link(self, slug: str, alias: str) -> str:
        """A link with which a member sets a new password, once, within a day."""
        return str(self.call("POST", f"/projects/{slug}/people/{alias}/reset")["link"])

    def remove(self, slug: str, alias: str) -> None:
        """End a membership; the answers stay under the alias."""
        self.call("DELETE", f"/projects/{slug}/people/{alias}")

    def comments(self, slug: str) -> list[dict[str, Any]]:
        """``comment, item, place, rater, at, broken, text`` of all comments, as they came."""
        return list(self.call("GET", f"/projects/{slug}/comments")["comments"])

    def invite(
        self, slug: str, role: Role = "annotator", *, pool: int | None = None, days: float = 7.0
    ) -> str:
        """A link for one person, which works once."""
        sent = {"role": role, "pool": pool, "days": days}
        return str(self.call("POST", f"/projects/{slug}/invitations", sent)["link"])

    def revoke(self, slug: str, invitation: int) -> None:
        """Withdraw an invitation that was not used."""
        self.call("DELETE", f"/projects/{slug}/invitations/{invitation}")

    def webhooks(self, slug: str) -> list[dict[str, Any]]:
        """``id, url, secret, at, fault`` of the webhooks of a project."""
        return list(self.call("GET", f"/projects/{slug}/webhooks")["webhooks"])

    def add_webhook(self, slug: str, url: str) -> dict[str, Any]:
        """Call this address on answers, at closing and on alarms; ``secret`` signs the calls."""
        return dict(self.call("POST", f"/projects/{slug}/webhooks", {"url": url}))

    def remove_webhook(self, slug: str, webhook: int) -> None:
        """Call it no more."""
        self.call("DELETE", f"/projects/{slug}/webhooks/{webhook}")

    def next(self, slug: str) -> dict[str, Any] | None:
        """The question that waits for me, or None."""
        return question_in(self.call("POST", f"/projects/{slug}/next", {}, again=True))

    def answer(
        self, slug: str, asked: Mapping[str, Any], value: str, **more: Any
    ) -> tuple[int, dict[str, Any] | None]:
        """Answer a question; returns the number of the answer, and the next question."""
        sent = answer_to(asked, value, **more)
        kept = self.call("POST", f"/projects/{slug}/answers", sent, again=True)
        return int(kept["answer"]), question_in(kept)

    def comment(self, slug: str, question: int, text: str = "", *, broken: bool = False) -> None:
        """Say something about an item, or that it is broken, to the managers."""
        said = {"question": question, "text": text, "broken": broken}
        self.call("POST", f"/projects/{slug}/comments", said)

    def undo(self, slug: str, answer: int) -> dict[str, Any] | None:
        """Take my last answer back while it is not final; returns its question, to be answered."""
        return question_in(self.call("POST", f"/projects/{slug}/answers/{answer}/undo"))

    def leave(self, slug: str) -> None:
        """Make my last answer final now."""
        self.call("POST", f"/projects/{slug}/leave")

    def amend(self, slug: str, answer: int, value: str, *, key: str) -> None:
        """Another value for my last answer; ``key`` is new for each, and the same when sent again."""
        sent = {"key": key, "value": value}
        self.call("POST", f"/projects/{slug}/answers/{answer}/amend", sent, again=True)


def _plain(spec: ProjectSpec | Mapping[str, Any]) -> dict[str, Any]:
    return spec.to_dict() if isinstance(spec, ProjectSpec) else dict(spec)


def _packed(path: Path) -> tuple[str, bytes]:
    """The name and the bytes of a file; of a folder as a zip."""
    rule = f"items must be a file or folder that is there; got {str(path)!r}."
    require(path.exists(), rule)
    if not path.is_dir():
        return path.name, path.read_bytes()
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as packed:
        for file in sorted(p for p in path.rglob("*") if p.is_file()):
            packed.write(file, file.relative_to(path))
    return f"{path.name}.zip", whole.getvalue()
