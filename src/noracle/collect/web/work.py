"""My work: one question, its answer, the next one. It works with JavaScript off by a plain POST;
with htmx only the question is swapped.
"""

from __future__ import annotations

import dataclasses
import json
import math
import secrets
import time
from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Request, Response
from markupsafe import Markup, escape

from noracle.collect import content
from noracle.collect.errors import Refused
from noracle.collect.model import Asked, ProjectSpec
from noracle.collect.service.access import ANNOTATORS, ANYBODY, Member
from noracle.collect.service.projects import image_of, my_progress
from noracle.collect.store.base import Row, Work
from noracle.collect.web.core import number
from noracle.collect.web.page import Page, Words, text, web_of

_MOST_KEYS = 9


@dataclasses.dataclass(frozen=True, slots=True)
class Choice:
    """One answer that can be given."""

    value: str
    words: str
    key: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Group:
    """One of several verdicts on the same page."""

    place: int
    words: str
    choices: tuple[Choice, ...]
    chosen: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Question:
    """What the page shows."""

    id: int
    key: str
    shown_at: float
    asked: str
    body: Markup
    rich: bool
    image: str
    options: tuple[str, ...]
    choices: tuple[Choice, ...]
    groups: tuple[Group, ...]
    guidelines: tuple[tuple[str, Markup], ...]


def show(
    asked: Asked, spec: ProjectSpec, *, slug: str, words: Words, now: float, chosen: str = ""
) -> Question:
    """Lay a question out; ``chosen`` is the answer that is to be changed."""
    names = _names(asked, spec)
    text = asked.content
    rich = "markdown" in text
    body = (
        content.render_markdown(str(text["markdown"]))
        if rich
        else escape(str(text.get("text", "")))
    )
    image = text.get("image")
    places = _places(asked)
    return Question(
        id=asked.question,
        key=asked.key,
        shown_at=now,
        asked=_asked(spec, asked.shown, names, words),
        body=body,
        rich=rich,
        image=f"/p/{slug}/image/{image}" if isinstance(image, str) and image.isalnum() else "",
        options=tuple(str(text["options"][k]) for k in places) if places else (),
        choices=() if spec.protocol == "judge-all" else _choices(spec, asked.shown, names, words),
        groups=_groups(asked.shown, names, words, chosen) if spec.protocol == "judge-all" else (),
        guidelines=tuple(
            (spec.classes[k].name, content.render_markdown(spec.classes[k].guideline))
            for k in asked.shown[:50]
            if spec.classes[k].guideline
        ),
    )


def visible(content: Mapping[str, Any]) -> dict[str, Any]:
    """What an annotator may know of an item: not whether it is there to test their attention."""
    return {key: content[key] for key in ("text", "markdown", "image", "options") if key in content}


def _places(asked: Asked) -> tuple[int, ...]:
    """The class at each place of the page, for items that bring their own options."""
    options = asked.content.get("options")
    if not isinstance(options, list):
        return ()
    order = asked.options if asked.options is not None else tuple(range(len(options)))
    return tuple(k for k in order if 0 <= k < len(options))


def _names(asked: Asked, spec: ProjectSpec) -> dict[int, str]:
    """What each class is called on this page: its name, or the letter of its option."""
    places = _places(asked)
    if not places:
        return {k: c.name for k, c in enumerate(spec.classes)}
    letters = {k: f"{_letter(p)}: {asked.content['options'][k]}" for p, k in enumerate(places)}
    return {k: letters.get(k, c.name) for k, c in enumerate(spec.classes)}


def _letter(place: int) -> str:
    """A … Z, AA …, as an ordered list of HTML counts."""
    text = ""
    place += 1
    while place:
        place, rest = divmod(place - 1, 26)
        text = chr(65 + rest) + text
    return text


def _asked(
    spec: ProjectSpec, shown: tuple[int, ...], names: Mapping[int, str], words: Words
) -> str:
    _ = words.say
    if spec.question:
        return spec.question.replace("{class}", names[shown[0]]) if shown else spec.question
    if spec.protocol == "partitioned":
        return _("Is this “%(name)s”?", name=names[shown[0]])
    if spec.protocol == "judge-all":
        return _("Which of these is it? Judge each one.")
    return _("Which of these is it not?") if spec.protocol == "pick-wrong" else _("What is it?")


def _verdicts(words: Words) -> tuple[Choice, ...]:
    _ = words.say
    return (
        Choice("yes", _("Yes"), "1"),
        Choice("no", _("No"), "2"),
        Choice("unsure", _("Not sure"), "3"),
    )


def _choices(
    spec: ProjectSpec, shown: tuple[int, ...], names: Mapping[int, str], words: Words
) -> tuple[Choice, ...]:
    _ = words.say
    if spec.protocol == "partitioned":
        verdicts = _verdicts(words)
        if spec.question and "{class}" not in spec.question:
            return (
                Choice("yes", _("Yes, it is “%(name)s”", name=names[shown[0]]), "1"),
                *verdicts[1:],
            )
        return verdicts
    answers = [(str(k), names[k]) for k in shown]
    if spec.protocol == "pick-wrong" and spec.trap:
        answers.append(("none", _("None of these is wrong")))
    answers.append(("unsure", _("Not sure")))
    return tuple(
        Choice(value, text, str(i) if i <= _MOST_KEYS else "")
        for i, (value, text) in enumerate(answers, 1)
    )


def _groups(
    shown: tuple[int, ...], names: Mapping[int, str], words: Words, chosen: str
) -> tuple[Group, ...]:
    before = chosen.split("|") if chosen else [""] * len(shown)
    return tuple(
        Group(i, names[k], _verdicts(words), before[i] if i < len(before) else "")
        for i, k in enumerate(shown)
    )


def value_of(form: Mapping[str, Any], shown: int | None = None) -> str:
    """The answer in a sent form: its value, or the verdicts of its groups joined by "|"."""
    if isinstance(form.get("value"), str):
        return str(form["value"])[:2000]
    verdicts = [form.get(f"value-{i}") for i in range(shown or 100)]
    return "|".join(str(v) for v in verdicts if isinstance(v, str))[:2000]


def last_as_asked(row: Mapping[str, Any], *, project: int) -> Asked:
    """The person's last answered question, to be asked again (an amendment)."""
    options = row["options"]
    return Asked(
        question=int(row["question"]),
        project=project,
        item=0,
        content=visible(json.loads(row["content"])),
        options=None if options is None else tuple(json.loads(options)),
        shown=tuple(json.loads(row["shown"])),
        lease=0,
        lease_until=0.0,
        done=0,
        key="",
    )


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
