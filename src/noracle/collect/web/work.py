"""My work: a question, its answer, the next one. Without JavaScript every answer is a plain POST."""

from __future__ import annotations

import contextlib
import datetime as dt
import math
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from fastapi import APIRouter, Response
from markupsafe import Markup, escape

from noracle.collect import content
from noracle.collect.errors import Conflict, Refused
from noracle.collect.model import UNDO_SECONDS, HeldQuestion, ProjectSpec
from noracle.collect.service import answers
from noracle.collect.service.access import ANNOTATORS, ANYBODY, Member
from noracle.collect.service.projects import image_of, my_progress
from noracle.collect.store import sqlite as hot
from noracle.collect.store.base import SQL, Row, Work
from noracle.collect.web.core import Known, number
from noracle.collect.web.page import Page, Visit, text


class ShownQuestion(NamedTuple):
    """What the page shows; ``shown`` are the classes that are asked about, with their names."""

    id: int
    key: str
    shown_at: float
    spec: ProjectSpec
    shown: list[tuple[str, str]]
    chosen: str
    body: Markup
    rich: bool
    image: str
    options: tuple[str, ...]
    reply: Markup
    guidelines: tuple[tuple[str, Markup], ...]


def show(
    asked: HeldQuestion, spec: ProjectSpec, *, slug: str, now: float, chosen: str = ""
) -> ShownQuestion:
    """Lay a question out; ``chosen`` is the answer that is to be changed."""
    names, places, item = _names(asked, spec), _places(asked), asked.content
    rich, image, reply = "markdown" in item, item.get("image"), item.get("reply", "")
    drawn, text = content.render_markdown, reply if isinstance(reply, str) else names[reply]
    classes = spec.classes if spec.texts else [spec.classes[k] for k in asked.shown[:50]]
    guided = [(c.name, content.render_markdown(c.guideline)) for c in classes if c.guideline]
    return ShownQuestion(
        id=asked.question,
        key=asked.key,
        shown_at=now,
        spec=spec,
        shown=[(str(k), names.get(k, "…")) for k in asked.shown],
        chosen=chosen,
        body=drawn(str(item["markdown"])) if rich else escape(str(item.get("text", ""))),
        reply=drawn(text) if rich else escape(text),
        rich=rich,
        image=f"/p/{slug}/image/{image}" if isinstance(image, str) and image.isalnum() else "",
        options=tuple(str(item["options"][k]) for k in places),
        guidelines=tuple(guided),
    )


def _places(asked: HeldQuestion) -> tuple[int, ...]:
    """The class at each place of the page, for items that bring their own options."""
    options = asked.content.get("options")
    if not isinstance(options, list):
        return ()
    order = asked.options if asked.options is not None else tuple(range(len(options)))
    return tuple(k for k in order if 0 <= k < len(options))


def _names(asked: HeldQuestion, spec: ProjectSpec) -> dict[int, str]:
    """What each class is called on this page: its name, or the letter of its option."""
    places = _places(asked)
    if not places:
        return {k: c.name for k, c in enumerate(spec.classes)}
    letters = {k: f"{_letter(p)}: {asked.content['options'][k]}" for p, k in enumerate(places)}
    return {k: letters.get(k, c.name) for k, c in enumerate(spec.classes)}


def _letter(place: int) -> str:
    """A … Z, AA …, as an ordered list of HTML counts."""
    return (_letter(place // 26 - 1) if place > 25 else "") + chr(65 + place % 26)


def value_of(form: Mapping[str, Any]) -> str:
    """The answer in a sent form: its value, or the verdicts of its groups joined by "|"."""
    if isinstance(form.get("value"), str):
        return str(form["value"])[:2000]
    verdicts = [form.get(f"value-{i}") for i in range(100)]
    return "|".join(str(v) for v in verdicts if isinstance(v, str))[:2000]


router = APIRouter(include_in_schema=False)


@router.get("/p/{slug}/work")
async def work_page(page: Visit, slug: str) -> Response:
    """The question that I hold, or the next one. Loading the page again shows the same one."""
    member = await page.member(slug, ANNOTATORS)
    asked = await page.next(slug) if member.state == "open" else None
    return await _question(page, member, asked, whole=True)


@router.post("/p/{slug}/work")
async def answer(page: Visit, slug: str) -> Response:
    """Keep my answer; on to the next question."""
    member = await page.member(slug, ANNOTATORS)
    form = await page.form()
    which, key = number(form.get("question"), "question"), text(form, "key", most=200)
    sent: Any = {"question": which, "key": key, "value": value_of(form), "client_ms": None}
    shown_at = _shown_at(form.get("shown_at"))
    kept = await page.answer(slug, **sent, shown_at=shown_at, want_next=page.partial)
    if page.partial:
        return await _question(page, member, kept.next, whole=False)
    return page.go(f"/p/{slug}/work")


async def _question(
    page: Page, member: Member, asked: HeldQuestion | None, *, whole: bool
) -> Response:
    known, slug, now = await page.web.known(member.slug), member.slug, time.time()
    here = dt.datetime.fromtimestamp(now, tz=dt.UTC).astimezone()
    day = here.replace(hour=0, minute=0, second=0, microsecond=0).timestamp()

    def op(work: Work) -> tuple[dict[str, int], Lasts, ShownQuestion | None]:
        shown = None if asked is None else show(asked, known.spec, slug=slug, now=now)
        progress = my_progress(work, member.project, member.person, day=day)
        return progress, lasts_of(work, member, now), shown

    progress, (last, undoable), shown = await page.web.store.read(op)  # laid out in a thread too
    _ = page.say
    early, late = _("The project is not open yet."), _("The project is closed. Thank you.")
    nothing = {"draft": early, "sealed": early, "closed": late}.get(member.state)
    is_open, left = member.state == "open", UNDO_SECONDS - now
    about: Any = {"progress": progress, "undoable": undoable if is_open else None}
    about |= {"amendable": last is not None and is_open}
    about |= {"seconds": 0 if undoable is None else round(left + undoable["received_at"], 1)}
    about |= {"nothing": nothing or _("There is no question for you now. Thank you.")}
    template = "work.html" if whole else "question.html"
    return page.render(template, **_place(member, known, "work"), question=shown, **about)


def _place(member: Member, known: Known, part: str) -> dict[str, Any]:
    """What both pages say about the project."""
    here = {"member": member, "slug": member.slug, "action": f"/p/{member.slug}/{part}"}
    return {**here, "project_name": known.name, "item_lang": known.spec.language}


Lasts = tuple[Row | None, Row | None]


def lasts_of(work: Work, /, member: Member, now: float) -> Lasts:
    """My last answered question, with what I said as last amended, and my answer to be undone."""
    last = work.one(SQL.last_answer, project=member.project, person=member.person)
    return last, answers.provisional(work, member, now=now)


@router.post("/p/{slug}/undo")
async def undo(page: Visit, slug: str) -> Response:
    """Take my last answer back; where it is final already, on to the page that says so."""
    member = await page.member(slug, ANNOTATORS)
    which = number((await page.form()).get("answer"), "answer")
    try:
        asked = await page.undo(slug, which)
    except Conflict:
        headers = {"hx-redirect": f"/p/{slug}/last"}
        return Response(headers=headers) if page.partial else page.go(f"/p/{slug}/last")
    if page.partial:
        return await _question(page, member, asked, whole=False)
    return page.go(f"/p/{slug}/work")


@router.post("/p/{slug}/leave")
async def leave(page: Visit, slug: str) -> Response:
    """I pause: my last answer is final. Also sent when the page is left."""
    await page.member(slug, ANNOTATORS)
    await page.form()
    await page.change(slug, answers.leave, roles=ANNOTATORS)
    return page.go("/")


@router.post("/p/{slug}/comment")
async def comment(page: Visit, slug: str) -> Response:
    """Keep what I say about the item."""
    await page.member(slug, ANNOTATORS)
    form = await page.form()
    question, broken = number(form.get("question"), "question"), "broken" in form
    said = text(form, "text", most=answers.LONGEST_COMMENT)
    about: Any = {"text": said, "broken": broken, "roles": ANNOTATORS}
    await page.change(slug, answers.add_comment, question, **about)
    return page.render("comment.html", sent=True) if page.partial else page.go(f"/p/{slug}/work")


@router.get("/p/{slug}/last")
async def last_page(page: Visit, slug: str) -> Response:
    """My last answer, to be changed."""
    member = await page.member(slug, ANNOTATORS)
    row, undoable = await page.web.store.read(lasts_of, member, time.time())
    if row is None or member.state != "open":
        return page.go(f"/p/{slug}/work")
    about = (row["question"], 0, row["shown"], 0, row["content"], row["options"])
    asked = hot.asked(member.project, about, 0.0, "", 0)
    question = show(asked, member.spec, slug=slug, now=time.time(), chosen=row["value"])
    place = _place(member, await page.web.known(slug), "last")
    shown: Any = {"answer": int(row["answer"]), "key": hot.new_key(), "undoable": undoable}
    return page.render("last.html", **place, question=question, **shown)


@router.post("/p/{slug}/last")
async def amend(page: Visit, slug: str) -> Response:
    """Append the change; the first final answer stays the one that counts."""
    await page.member(slug, ANNOTATORS)
    form = await page.form()
    which, key = number(form.get("answer"), "answer"), text(form, "key", most=200)
    await page.amend(slug, answer=which, key=key, value=value_of(form))
    return page.go(f"/p/{slug}/work")


@router.get("/p/{slug}/image/{sha256}")
async def image(page: Visit, slug: str, sha256: str) -> Response:
    """An image of the project; annotators see those of their last questions."""
    member = await page.member(slug, ANYBODY)
    media, data = await page.web.store.read(lambda work: image_of(work, member, sha256))
    headers = {
        "content-security-policy": "default-src 'none'; sandbox; frame-ancestors 'none'",
        "content-disposition": "inline",
        "cache-control": "private, max-age=3600",
    }
    return Response(data, media_type=media, headers=headers)


def _shown_at(sent: object) -> float:
    """When the question was shown, in seconds."""
    with contextlib.suppress(ValueError):
        if isinstance(sent, str) and math.isfinite(value := float(sent)):
            return value
    raise Refused("shown_at must be a time in seconds.")
