"""Pages of everybody: signing in and out, invitations, my projects, language, health, numbers."""

from __future__ import annotations

import hmac
import urllib.parse

from fastapi import APIRouter, Request, Response
from fastapi.responses import PlainTextResponse

from noracle.collect.errors import CollectError, NotFound, Refused, SignedOut
from noracle.collect.service import people
from noracle.collect.service.projects import projects_of
from noracle.collect.store.base import Row
from noracle.collect.web import security
from noracle.collect.web.core import status_of
from noracle.collect.web.page import (
    LANGUAGE_COOKIE,
    LANGUAGES,
    Page,
    group_name,
    role_name,
    text,
    web_of,
)

router = APIRouter(include_in_schema=False)


@router.get("/healthz")
async def healthz(request: Request) -> Response:
    """Whether the server and its database answer."""
    await web_of(request).store.read(lambda work: work.one("SELECT 1 AS one"))
    return PlainTextResponse("ok\n")


@router.get("/metrics")
async def metrics(request: Request) -> Response:
    """Counters for Prometheus: with the token, or from this machine and not through a proxy."""
    web = web_of(request)
    wanted = web.settings.metrics_token
    if wanted is not None:
        fits = hmac.compare_digest(
            request.headers.get("authorization", "").encode(), f"Bearer {wanted}".encode()
        )
    else:
        passed_on = any(name in request.headers for name in ("forwarded", "x-forwarded-for", "via"))
        fits = (
            not passed_on
            and request.client is not None
            and request.client.host in ("127.0.0.1", "::1")
        )
    if not fits:
        raise NotFound("There is no such page.")
    return PlainTextResponse(web.metrics.text(), media_type="text/plain; version=0.0.4")


@router.get("/sign-in")
async def sign_in_page(request: Request) -> Response:
    """The form."""
    page = await Page.visit(web_of(request), request, signed_in=False)
    return page.go("/") if page.person else page.render("sign_in.html", email="")


@router.post("/sign-in")
async def sign_in(request: Request) -> Response:
    """Begin a session, with a new token."""
    page = await Page.visit(web_of(request), request, signed_in=False)
    form = await page.form()
    email = text(form, "email", most=254)
    try:
        token, _ = await page.web.sign_in(
            email, text(form, "password", most=1000), address=page.address, old=page.session
        )
    except SignedOut:
        return page.render(
            "sign_in.html", status=401, email=email, error=page.say("E-mail or password is wrong.")
        )
    return page.go("/", token=token)


@router.post("/sign-out")
async def sign_out(request: Request) -> Response:
    """End the session."""
    page = await Page.visit(web_of(request), request)
    await page.form()
    await page.web.sign_out(page.session)
    response = page.go("/sign-in")
    security.clear_session(response, page.web.settings)
    return response


@router.get("/join/{token}")
async def join_page(request: Request, token: str) -> Response:
    """What the invitation leads to."""
    page = await Page.visit(web_of(request), request, signed_in=False)
    return await _join_page(page, token)


async def _join_page(page: Page, token: str, *, status: int = 200, **values: str) -> Response:
    invitation = await page.web.invitation(token)
    named = role_name(invitation.role, page.say)
    group = group_name(invitation.spec, invitation.pool, page.say)
    shown = {"email": "", "name": "", **values}
    return page.render(
        "join.html",
        status=status,
        invitation=invitation,
        group=group,
        **{**shown, "role_name": named},
    )


@router.post("/join/{token}")
async def join(request: Request, token: str) -> Response:
    """Accept it, as a new person or as an old one."""
    page = await Page.visit(web_of(request), request, signed_in=False)
    form = await page.form()
    email, name = text(form, "email", most=254), text(form, "name", most=200)
    fresh: str | None = None
    try:
        if page.person is not None:
            joined = await page.web.accept(token, page.person.id)
        else:
            fresh, joined = await page.web.join(
                token,
                email=email,
                name=name,
                password=text(form, "password", most=1000),
                locale=page.words.language,
                address=page.address,
                old=page.session,
            )
    except NotFound:
        raise
    except SignedOut:
        return await _join_page(
            page,
            token,
            status=401,
            email=email,
            name=name,
            error=page.say("E-mail or password is wrong."),
        )
    except CollectError as error:
        return await _join_page(
            page, token, status=status_of(error), email=email, name=name, error=str(error)
        )
    return page.go(
        f"/p/{joined.slug}/work" if joined.role == "annotator" else f"/p/{joined.slug}", token=fresh
    )


@router.get("/")
async def projects(request: Request) -> Response:
    """My projects."""
    page = await Page.visit(web_of(request), request, signed_in=False)
    if page.person is None:
        return page.go("/sign-in")
    me = page.person.id
    rows = await page.web.store.read(lambda work: projects_of(work, me))
    return page.render("projects.html", projects=rows, may_create=may_create(rows))


def may_create(rows: list[Row]) -> bool:
    """Who owns or manages a project, or is a member of none yet, may begin one; people who were
    invited to answer may not.
    """
    return not rows or any(row["role"] in ("owner", "manager") for row in rows)


@router.post("/language")
async def language(request: Request) -> Response:
    """Choose a language; it is kept in a cookie, and in the account."""
    page = await Page.visit(web_of(request), request, signed_in=False)
    form = await page.form()
    wish = text(form, "language", most=20)
    if wish not in LANGUAGES:
        raise Refused(f"language must be one of {', '.join(LANGUAGES)}.")
    if page.person is not None:
        me = page.person.id
        await page.web.store.write(lambda work: people.set_locale(work, me, wish))
    back = urllib.parse.urlsplit(text(form, "back"))
    safe = (
        back.path.startswith("/")
        and not back.path.startswith(("//", "/\\"))
        and not back.netloc
        and not back.scheme
    )
    response = page.go(urllib.parse.quote(back.path) if safe else "/")
    response.set_cookie(
        LANGUAGE_COOKIE,
        wish,
        max_age=31536000,
        path="/",
        secure=page.web.settings.secure,
        httponly=True,
        samesite="strict",
    )
    return response
