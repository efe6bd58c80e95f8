"""The whole application: :func:`make_app`."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import itertools
import logging
import math
import re
import secrets
import time
from collections.abc import AsyncIterator, Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, RedirectResponse
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.staticfiles import StaticFiles

from noracle._version import __version__
from noracle.collect.errors import Later, SignedOut
from noracle.collect.service import access, webhooks
from noracle.collect.store.base import Store
from noracle.collect.web import api, manage, oidc, pages, security, work
from noracle.collect.web.core import Requester, Web, web_of
from noracle.collect.web.page import HERE, Page, environment, language_of, words
from noracle.collect.web.security import HEADERS, HSTS, WebSettings, refused_origin
from noracle.errors import NoracleError

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["WebSettings", "make_app"]

_LOG = logging.getLogger("noracle.collect")
_UPLOADS = re.compile(r"(?:/p|(/api/v1/projects))/([a-z0-9-]+)/(?:items|systems)")
_LINGER = 2.0
_OPEN_TO_ALL_HOSTS = ("/healthz", "/metrics")


class Guard:
    """The outermost layer; pure ASGI, because it stands in the way of every click."""

    def __init__(self, app: ASGIApp, *, web: Web) -> None:
        settings = web.settings
        self._app, self._web, self._settings, self._metrics = app, web, settings, web.metrics
        self._hosts = settings.hosts
        self._mark, self._count = secrets.token_hex(4), itertools.count()
        headers = (*HEADERS, HSTS) if settings.secure else HEADERS
        self._headers = [(name.encode(), value.encode()) for name, value in headers]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start, status = time.perf_counter(), 500
        scope["noracle.request"] = request_id = f"{self._mark}{next(self._count):08x}"

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = self._dressed(message.get("headers", []), request_id)
            await send(message)

        try:
            most = await self._most(scope)
            refusal = self._refusal(scope, most)
            if refusal is None:
                await self._app(scope, self._limited(most, receive), sending)
            else:
                close = {"connection": "close"}  # the body, if there is one, was not read
                await _turn_away(_problem(scope, *refusal, close), receive, sending)
        finally:
            method = scope["method"] if scope["method"] in _METHODS else "?"
            # The template of the route, not the address: bounded in number, and without names.
            route = getattr(scope.get("route"), "path", None)
            route = route if isinstance(route, str) else "other"
            self._metrics.request(method, route, status, time.perf_counter() - start)

    def _refusal(self, scope: Scope, most: int) -> tuple[int, str] | None:
        headers, path = Headers(scope=scope), scope["path"]
        if headers.get("host", "").lower() not in self._hosts and path not in _OPEN_TO_ALL_HOSTS:
            return 421, "This server is not the one that the request names."
        refused = refused_origin(self._settings, scope["method"], headers)
        if refused is not None:
            return 403, refused
        length = headers.get("content-length", "0")
        if not length.isascii() or not length.isdecimal():
            return 400, "Content-Length must be a number."
        if int(length) > most:
            return 413, f"The request is larger than {most} bytes."
        return None

    async def _most(self, scope: Scope) -> int:
        """Bytes that a request may have: many only of a file from a manager, who is looked up first."""
        settings, match = self._settings, _UPLOADS.fullmatch(scope["path"])
        length = Headers(scope=scope).get("content-length", "")
        small = length.isdecimal() and int(length) <= settings.max_body
        if small or match is None or scope["method"] != "POST":
            return settings.max_body
        try:
            token, _ = security.token_of(Request(scope), settings)
            session = access.token_hash(SignedOut.given(token))
            await Requester(self._web, session).member(match[2])
        except NoracleError:
            return settings.max_body
        return settings.max_json if match[1] else settings.max_upload

    def _limited(self, most: int, receive: Receive) -> Receive:
        seen = 0

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
        more = [(b"x-request-id", request_id.encode()), (b"cache-control", b"no-store")]
        return [*headers, *(pair for pair in (*self._headers, *more) if pair[0] not in names)]


_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_TITLES = {each.value: each.phrase for each in HTTPStatus}


def _problem(scope: Scope, status: int, detail: str, headers: dict[str, str]) -> Response:
    body = {"type": "about:blank", "title": _TITLES.get(status, "Error"), "status": status}
    # A message may quote halves of surrogate pairs, which UTF-8 cannot carry.
    body |= {"detail": detail.encode("utf-8", "replace").decode()}
    body |= {"instance": f"urn:request:{scope.get('noracle.request', '')}"}
    media = "application/problem+json"
    return JSONResponse(body, status_code=status, headers=headers, media_type=media)


async def _turn_away(response: Response, receive: Receive, send: Send) -> None:
    """Send a refusal at once, then drop what still comes: who is cut off while sending does not read."""
    status, headers = response.status_code, response.raw_headers
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": response.body, "more_body": True})
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_LINGER):
            while (await receive()).get("more_body", False):
                pass
    await send({"type": "http.response.body", "body": b""})


_REPORTS = ("tracing", "metrics", "logs", "operation_spans", "auto_configure")
_QUIET: dict[str, Any] = {"docs_url": None, "redoc_url": None, "redirect_slashes": False}
_QUIET["openapi_url"] = "/api/v1/openapi.json"
if "telemetry" in inspect.signature(FastAPI).parameters:
    _QUIET["telemetry"] = dict.fromkeys(_REPORTS, False)
"""Newer releases of FastAPI report to OpenTelemetry where it is set up; we report to nobody."""
_STATIC_SECONDS = 31536000


class _Static(StaticFiles):
    """Static files; their addresses carry a mark of their content, so browsers may keep them."""

    def file_response(self, *args: object, **values: object) -> Response:
        response = super().file_response(*args, **values)  # type: ignore[arg-type]
        response.headers["cache-control"] = f"public, max-age={_STATIC_SECONDS}, immutable"
        return response


class _App(FastAPI):
    """With the guard outermost, so that pages about our own faults are dressed too."""

    guard: Callable[[ASGIApp], ASGIApp]

    def build_middleware_stack(self) -> ASGIApp:
        return self.guard(super().build_middleware_stack())


def make_app(store: Store, *, settings: WebSettings) -> FastAPI:
    """The pages and the JSON interface on an open store.

    Parameters
    ----------
    store
        Where projects are kept; the caller closes it.
    settings
        Address, key, limits.
    """
    web = Web(store, settings)

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        for name in ("sign_in.html", "work.html"):  # what the first request would wait for
            await asyncio.to_thread(environment().get_template, name)
        teller = webhooks.Teller(store, settings.key, settings.webhook_hosts)
        telling = asyncio.create_task(teller.run())
        yield
        telling.cancel()

    app = _App(title="noracle collect", version=__version__, lifespan=lifespan, **_QUIET)
    app.state.web = web
    for part in (api, work, pages, manage, oidc):  # tried in this order: the clicks first
        app.include_router(part.router)
    app.mount("/static", _Static(directory=HERE / "static"), name="static")
    app.guard = lambda inner: Guard(inner, web=web)
    for kind in (NoracleError, HTTPException, RequestValidationError):
        app.add_exception_handler(kind, _refused)
    app.add_exception_handler(Exception, _failed)
    return app


async def _refused(request: Request, error: Exception) -> Response:
    """Something was refused on purpose: problem+json for the interface, a page for people."""
    headers: dict[str, str] = {}
    status, detail = getattr(error, "status", 422), str(error)
    if isinstance(error, HTTPException):
        status, detail = error.status_code, str(error.detail)
        headers = dict(error.headers or {})
    elif isinstance(error, RequestValidationError):
        faults = ((map(str, fault["loc"]), fault["msg"]) for fault in error.errors()[:5])
        detail = " | ".join(f"{'.'.join(where)}: {what}" for where, what in faults)
    if isinstance(error, Later):
        headers["retry-after"] = str(max(1, math.ceil(error.wait)))
    return await _reply(request, status, detail, headers, error)


async def _failed(request: Request, error: Exception) -> Response:
    """A fault of ours: logged with the id that the reader sees, and nothing about it is told."""
    _LOG.error("request %s failed", request.scope.get("noracle.request"), exc_info=error)
    detail = "An error of the server; it was written to its log."
    return await _reply(request, 500, detail, {}, error)


async def _reply(
    request: Request, status: int, detail: str, headers: dict[str, str], error: Exception
) -> Response:
    if request.url.path.startswith("/api/") or request.method not in ("GET", "HEAD", "POST"):
        return _problem(request.scope, status, detail, headers)
    partial = request.headers.get("hx-request") == "true"
    if isinstance(error, SignedOut) and (request.method == "GET" or partial):
        if partial:
            return Response(status_code=401, headers={"hx-redirect": "/sign-in"})
        return RedirectResponse("/sign-in", status_code=303)
    web = web_of(request)
    try:
        page = await Page.visit(request, signed_in=False)
    except Exception:  # noqa: BLE001  (the database itself may be what failed)
        token, fresh = security.visitor(request, web.settings)
        session = access.token_hash(token)
        page = Page(web, session, request, token, fresh, None, words(language_of(request)))
    address, said = _way_on(request, page, status)
    shown = request.scope.get("noracle.request", "") if status >= 500 else ""
    about = {"title": "", "status": status, "detail": detail, "request_id": shown}
    page.status = status
    response = page.render("message.html", back=address, back_words=said, **about)
    swap = {"hx-retarget": "body", "hx-reswap": "innerHTML"} if partial else {}
    response.headers.update({**headers, **swap})
    return response


def _way_on(request: Request, page: Page, status: int) -> tuple[str, str]:
    path = request.url.path
    if status == 401:
        return "/sign-in", page.say("Sign in")
    changed = request.method == "POST" and not path.startswith(("/sign-", "/language"))
    if changed and status in (403, 409, 422):
        form = path.removesuffix("/items").removesuffix("/systems")
        return path if form == path else f"{form}/setup", page.say("Back to the page")
    return "/", page.say("To the projects")
