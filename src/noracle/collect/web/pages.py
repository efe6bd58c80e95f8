"""Pages of everybody: signing in and out, invitations, my projects, language, health, numbers."""

from __future__ import annotations

import hmac
import urllib.parse

from fastapi import APIRouter, Request, Response
from fastapi.responses import PlainTextResponse

from noracle.collect.errors import CollectError, NotFound, Refused, SignedOut
from noracle.collect.service import people
from noracle.collect.service.projects import projects_of
from noracle.collect.store.base import SQL, Work
from noracle.collect.web import security
from noracle.collect.web.core import web_of
from noracle.collect.web.page import (
    LANGUAGE_COOKIE,
    LANGUAGES,
    Guest,
    Page,
    Visit,
    group_name,
    text,
)

router = APIRouter(include_in_schema=False)


@router.get("/healthz")
async def healthz(request: Request) -> Response:
    """Whether the server and its database answer."""
    words = await web_of(request).store.health()
    if words:
        return PlainTextResponse(f"{words}\n", status_code=503, headers={"retry-after": "30"})
    return PlainTextResponse("ok\n")


@router.get("/metrics")
async def metrics(request: Request) -> Response:
    """Counters for Prometheus: with the token, or from this machine and not through a proxy."""
    web, headers = web_of(request), request.headers
    wanted = web.settings.metrics_token
    if wanted is not None:
        sent = headers.get("authorization", "").encode()
        fits = hmac.compare_digest(sent, f"Bearer {wanted}".encode())
    else:
        host = request.client.host if request.client else ""
        passed_on = any(name in headers for name in ("forwarded", "x-forwarded-for", "via"))
        fits = not passed_on and host in ("127.0.0.1", "::1")
    NotFound.unless(fits, "There is no such page.")
    return PlainTextResponse(web.metrics.text(), media_type="text/plain; version=0.0.4")


@router.get("/sign-in")
async def sign_in_page(page: Guest, again: str = "") -> Response:
    """The form; after a link from another site, which brings no cookies, we ask the browser once more."""
    if page.person:
        return page.go("/")
    response = page.render("sign_in.html", email="")
    if page.request.headers.get("sec-fetch-site") == "cross-site" and not again:
        response.headers["refresh"] = "0; url=/sign-in?again=1"
    return response


@router.post("/sign-in")
async def sign_in(page: Guest) -> Response:
    """Begin a session, with a new token."""
    form = await page.form()
    email, password = text(form, "email", most=254), text(form, "password", most=1000)
    try:
        started, _ = await page.web.sign_in(email, password, page.caller)
    except SignedOut as error:
        return page.refused(error).render("sign_in.html", email=email)
    return page.go("/", started=started)


@router.post("/sign-out")
async def sign_out(page: Visit) -> Response:
    """End the session."""
    await page.form()
    return await _signed_out(page)


async def _signed_out(page: Page, *, everywhere: bool = False) -> Response:
    await page.sign_out(everywhere=everywhere)
    response = page.go("/sign-in")
    security.clear_session(response, page.web.settings)
    return response


@router.get("/join/{token}")
async def join_page(page: Guest, token: str) -> Response:
    """What the invitation leads to."""
    found = await page.web.invitation(token)
    group = group_name(found.spec, found.pool, page.say)
    return page.render("join.html", invitation=found, group=group, email="", name="")


@router.post("/join/{token}")
async def join(page: Guest, token: str) -> Response:
    """Accept it, as a new person or as an old one."""
    form = await page.form()
    sent = {"email": text(form, "email", most=254), "name": text(form, "name", most=200)}
    fresh: security.Started | None = None
    try:
        if page.person is not None:
            joined = await page.web.accept(token, page.person.id)
        else:
            password, locale = text(form, "password", most=1000), page.words.language
            account = {**sent, "locale": locale}
            fresh, joined = await page.web.join(token, page.caller, password=password, **account)
    except NotFound:
        raise
    except CollectError as error:
        return await join_page(page.refused(error, **sent), token)
    work = "/work" if joined.role == "annotator" else ""
    return page.go(f"/p/{joined.slug}{work}", started=fresh)


@router.get("/account")
async def account_page(page: Visit) -> Response:
    """My password and my sessions."""
    return page.render("account.html")


@router.post("/account")
async def account(page: Visit) -> Response:
    """Change my password, or sign out everywhere."""
    form = await page.form()
    if text(form, "do") == "everywhere":
        return await _signed_out(page, everywhere=True)
    old, new = (text(form, name, most=1000) for name in ("old", "password"))
    try:
        await page.change_password(old, new)
    except SignedOut:
        raise
    except CollectError as error:
        return page.refused(error).render("account.html")
    notice = page.say("The password was changed. All other sessions have ended.")
    return page.render("account.html", notice=notice)


@router.get("/reset/{token}")
async def reset_page(page: Guest, token: str) -> Response:
    """The form for a new password."""
    found = await page.web.reset_of(token)
    return page.render("reset.html", email=found["email"])


@router.post("/reset/{token}")
async def reset(page: Guest, token: str) -> Response:
    """Set it, and begin a session."""
    password = text(await page.form(), "password", most=1000)
    try:
        started = await page.web.reset(token, password, page.caller)
    except Refused as error:
        return await reset_page(page.refused(error), token)
    return page.go("/", started=started)


@router.get("/first/{token}")
async def first_page(page: Guest, token: str) -> Response:
    """The form for the first account of a new database."""
    await _check_first(page, token)
    return page.render("join.html", invitation=None, email="", name="")


async def _check_first(page: Page, token: str) -> None:
    wanted = security.first_token(page.web.settings.key).encode()
    empty = await page.web.store.read(people.nobody_yet)
    fits = empty and hmac.compare_digest(token.encode("utf-8", "replace"), wanted)
    NotFound.unless(fits, "There is no such page.")


@router.post("/first/{token}")
async def first(page: Guest, token: str) -> Response:
    """Make the first account; the link works once."""
    await _check_first(page, token)
    form = await page.form()
    sent = {"email": text(form, "email", most=254), "name": text(form, "name", most=200)}
    try:
        account = {**sent, "locale": page.words.language}
        fresh = await page.web.first(text(form, "password", most=1000), page.caller, account)
    except CollectError as error:
        return page.refused(error).render("join.html", invitation=None, **sent)
    return page.go("/new", started=fresh)


@router.get("/")
async def projects(page: Guest) -> Response:
    """My projects."""
    if page.person is None:
        return page.go("/sign-in")
    me = page.person.id
    read = page.web.store.read
    rows, may = await read(lambda work: (projects_of(work, me), may_create(work, me)))
    return page.render("projects.html", projects=rows, may_create=may)


def may_create(work: Work, person: int) -> bool:
    """Who owns or manages a project, or never was in one, may begin one; annotators may not."""
    roles = {row["role"] for row in projects_of(work, person)}
    return bool(roles & {"owner", "manager"}) or not work.all(SQL.memberships, person=person)


@router.post("/language")
async def language(page: Guest) -> Response:
    """Choose a language; it is kept in a cookie, and in the account."""
    form = await page.form()
    wish = text(form, "language", most=20)
    Refused.unless(wish in LANGUAGES, f"language must be one of {', '.join(LANGUAGES)}.")
    if page.person is not None:
        me = page.person.id
        await page.web.store.write(lambda work: work.run(SQL.set_locale, locale=wish, person=me))
    back = urllib.parse.urlsplit(text(form, "back"))
    ours = not back.netloc and not back.scheme and not back.path.startswith(("//", "/\\"))
    safe = back.path.startswith("/") and ours
    response = page.go(urllib.parse.quote(back.path) if safe else "/")
    security.set_cookie(response, page.web.settings, LANGUAGE_COOKIE, wish, 31536000)
    return response
