"""What happens to every request before and after its handler: host, origin, size, request id,
security headers, counters.
"""

from __future__ import annotations

import json
import logging
import secrets
import time
from collections.abc import MutableMapping
from typing import TYPE_CHECKING, Any

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException

from noracle.collect.web.metrics import Metrics
from noracle.collect.web.security import HEADERS, HSTS, refused_origin
from noracle.collect.web.settings import WebSettings

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_LOG = logging.getLogger("noracle.collect")
_UPLOADS = ("/items", "/systems")
_OPEN_TO_ALL_HOSTS = ("/healthz", "/metrics")


class Guard:
    """The outermost layer; pure ASGI, because it stands in the way of every click."""

    def __init__(self, app: ASGIApp, *, settings: WebSettings, metrics: Metrics) -> None:
        self._app, self._settings, self._metrics = app, settings, metrics
        self._hosts = settings.hosts
        headers = (*HEADERS, HSTS) if settings.secure else HEADERS
        self._headers = [(name.encode(), value.encode()) for name, value in headers]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start, status = time.perf_counter(), 500
        scope["noracle.request"] = request_id = secrets.token_hex(8)

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = self._dressed(message.get("headers", []), request_id)
            await send(message)

        try:
            refusal = self._refusal(scope)
            if refusal is not None:
                await _problem(sending, *refusal)
            else:
                await self._app(scope, self._limited(scope, receive), sending)
        finally:
            self._metrics.request(
                scope["method"] if scope["method"] in _METHODS else "?",
                _route(scope),
                status,
                time.perf_counter() - start,
            )

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        headers = Headers(scope=scope)
        if (
            headers.get("host", "").lower() not in self._hosts
            and scope["path"] not in _OPEN_TO_ALL_HOSTS
        ):
            return 421, "This server is not the one that the request names."
        refused = refused_origin(self._settings, scope["method"], headers)
        if refused is not None:
            return 403, refused
        length = headers.get("content-length", "0")
        if not length.isascii() or not length.isdecimal():
            return 400, "Content-Length must be a number."
        if int(length) > self._most(scope):
            return 413, f"The request is larger than {self._most(scope)} bytes."
        return None

    def _most(self, scope: Scope) -> int:
        return (
            self._settings.max_upload
            if scope["path"].endswith(_UPLOADS)
            else self._settings.max_body
        )

    def _limited(self, scope: Scope, receive: Receive) -> Receive:
        most, seen = self._most(scope), 0

        async def receiving() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > most:
                raise HTTPException(413, f"The request is larger than {most} bytes.")
            return message

        return receiving

    def _dressed(
        self, headers: list[tuple[bytes, bytes]], request_id: str
    ) -> list[tuple[bytes, bytes]]:
        """Add ours, where the handler did not say something stricter."""
        names = {name.lower() for name, _ in headers}
        ours = [
            *self._headers,
            (b"x-request-id", request_id.encode()),
            (b"cache-control", b"no-store"),
        ]
        return [*headers, *((name, value) for name, value in ours if name not in names)]


_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


def _route(scope: MutableMapping[str, Any]) -> str:
    """The template of the route, not the address: bounded in number, and without names."""
    path = getattr(scope.get("route"), "path", None)
    return path if isinstance(path, str) else "other"


async def _problem(send: Send, status: int, detail: str) -> None:
    body = json.dumps(
        {"type": "about:blank", "status": status, "title": detail, "detail": detail}
    ).encode()
    headers = [
        (b"content-type", b"application/problem+json"),
        (b"content-length", str(len(body)).encode()),
    ]
    headers.append((b"connection", b"close"))  # the body, if there is one, was not read
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
