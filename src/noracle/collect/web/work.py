"""My work: one question, its answer, the next one. It works with JavaScript off by a plain POST;
with htmx only the question is swapped.
"""

from __future__ import annotations

import math
import secrets
import time

from fastapi import APIRouter, Request, Response

from noracle.collect.errors import Refused
from noracle.collect.model import Asked
from noracle.collect.service.access import ANNOTATORS, ANYBODY, Member
from noracle.collect.service.projects import image_of, my_progress
from noracle.collect.store.base import Row, Work
from noracle.collect.web.core import number
from noracle.collect.web.page import Page, text, web_of
from noracle.collect.web.view import last_as_asked, show, value_of

router = APIRouter(include_in_schema=False)


@router.get("/p/{slug}/work")
async def work_page(request: Request, slug: str) -> Response:
    """The question that I hold, or the next one. Loading the page again shows the same one."""
    page = await Page.visit(web_of(request), request)
    member = await page.web.member(page.session, slug, ANNOTATORS)
    asked = await page.web.next(page.session, slug) if member.state == "open" else None
    return await _question(page, member, asked, whole=True)


@router.post("/p/{slug}/work")
async def answer(request: Request, slug: str) -> Response:
    """Keep my answer; on to the next question."""
    page = await Page.visit(web_of(request), request)
    member = await page.web.member(page.session, slug, ANNOTATORS)
    form = await page.form()
    shown_at = _shown_at(form.get("shown_at"))
    kept = await page.web.answer(
        page.session,
        slug,
        question=number(form.get("question"), "question"),
        key=text(form, "key", most=200),
        value=value_of(form),
        shown_at=shown_at,
        client_ms=None,
        want_next=page.partial,
    )
    return (
        await _question(page, member, kept.next, whole=False)
        if page.partial
        else page.go(f"/p/{slug}/work")
    )


async def _question(page: Page, member: Member, asked: Asked | None, *, whole: bool) -> Response:
    progress, last = await page.web.store.read(
        lambda work: (my_progress(work, member.project, member.person), my_last(work, member))
    )
    known = await page.web.known(member.slug)
    shown = (
        None
        if asked is None
        else show(asked, known.spec, slug=member.slug, words=page.words, now=time.time())
    )
    return page.render(
        "work.html" if whole else "question.html",
        member=member,
        project_name=known.name,
        slug=member.slug,
        action=f"/p/{member.slug}/work",
        question=shown,
        item_lang=known.spec.language,
        nothing=_nothing(page, member),
        progress=progress,
        amendable=last is not None and member.state == "open",
    )


def _nothing(page: Page, member: Member) -> str:
    if member.state in ("draft", "sealed"):
        return page.say("The project is not open yet.")
    if member.state == "closed":
        return page.say("The project is closed. Thank you.")
    return page.say("There is no question for you now. Thank you.")


def my_last(work: Work, member: Member) -> Row | None:
    """My last answered question and what I said, as last amended."""
    return work.one(
        "SELECT f.id AS answer, l.value, q.id AS question, q.shown, i.content, i.options FROM answer f "
        "JOIN question q ON q.id = f.question_id JOIN item i ON i.id = q.item_id "
        "JOIN answer l ON l.question_id = f.question_id AND l.revision = (SELECT MAX(r.revision) FROM answer r WHERE r.question_id = q.id) "
        "WHERE f.project_id = :project AND f.person_id = :me AND f.revision = 0 ORDER BY f.id DESC LIMIT 1",
        project=member.project,
        me=member.person,
    )


@router.get("/p/{slug}/last")
async def last_page(request: Request, slug: str) -> Response:
    """My last answer, to be changed."""
    page = await Page.visit(web_of(request), request)
    member = await page.web.member(page.session, slug, ANNOTATORS)
    row = await page.web.store.read(lambda work: my_last(work, member))
    if row is None or member.state != "open":
        return page.go(f"/p/{slug}/work")
    asked = last_as_asked(row, project=member.project)
    question = show(
        asked, member.spec, slug=slug, words=page.words, now=time.time(), chosen=row["value"]
    )
    said = [c.words for c in question.choices if c.value == row["value"]]
    known = await page.web.known(slug)
    return page.render(
        "last.html",
        member=member,
        project_name=known.name,
        slug=slug,
        action=f"/p/{slug}/last",
        question=question,
        item_lang=member.spec.language,
        answer=int(row["answer"]),
        said=said[0] if said else "",
        key=secrets.token_urlsafe(16),
    )


@router.post("/p/{slug}/last")
async def amend(request: Request, slug: str) -> Response:
    """Append the change; the first answer stays."""
    page = await Page.visit(web_of(request), request)
    await page.web.member(page.session, slug, ANNOTATORS)
    form = await page.form()
    await page.web.amend(
        page.session,
        slug,
        answer=number(form.get("answer"), "answer"),
        key=text(form, "key", most=200),
        value=value_of(form),
    )
    return page.go(f"/p/{slug}/work")


@router.get("/p/{slug}/image/{sha256}")
async def image(request: Request, slug: str, sha256: str) -> Response:
    """An image of the project; annotators see those of the question that they hold or answered
    last.
    """
    page = await Page.visit(web_of(request), request)
    member = await page.web.member(page.session, slug, ANYBODY)
    media, data = await page.web.store.read(lambda work: image_of(work, member, sha256))
    headers = {
        "content-security-policy": "default-src 'none'; sandbox; frame-ancestors 'none'",
        "content-disposition": "inline",
        "cache-control": "private, max-age=3600",
    }
    return Response(data, media_type=media, headers=headers)


def _shown_at(sent: object) -> float:
    """When the question was shown; the past if it cannot be read."""
    try:
        value = float(sent) if isinstance(sent, str) else math.nan
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise Refused("shown_at must be a time in seconds.")
    return value
