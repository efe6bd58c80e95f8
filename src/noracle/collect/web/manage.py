"""Pages of owners, managers and auditors: the live dashboard, people, audit, exports."""

from __future__ import annotations

import dataclasses
import datetime as dt
import math
from typing import Any, get_args

from fastapi import APIRouter, Request, Response
from markupsafe import Markup

from noracle.collect.charts import charts_of
from noracle.collect.errors import CollectError, Forbidden, Refused
from noracle.collect.live.records import LiveView
from noracle.collect.model import ClassSpec, ProjectSpec, Role
from noracle.collect.service import people, projects
from noracle.collect.service.access import MANAGERS, READERS, Member
from noracle.collect.store.base import Work
from noracle.collect.web.api import STEPS, create_project, spec_of
from noracle.collect.web.core import number, status_of
from noracle.collect.web.page import (
    FORMATS,
    Fields,
    Page,
    Say,
    Sent,
    answers_from,
    export_response,
    group_name,
    items_from,
    text,
    web_of,
)
from noracle.collect.web.pages import may_create

router = APIRouter(include_in_schema=False)

_NUMBERS = ("draws", "shown", "annotators", "panel_items", "reasks", "planned_n")
_FLOATS = ("gold_rate", "lease_seconds", "confidence")
_TEXTS = ("question", "stop_rule", "language")
_FLAGS = ("trap", "shuffle_options")
_EXAMPLE = ProjectSpec(protocol="partitioned", classes=(ClassSpec(name="A"), ClassSpec(name="B")))


def form_of(spec: ProjectSpec | None) -> dict[str, str]:
    """A specification as the fields of the form; a line end in a guideline is written as a
    backslash and an n.
    """
    values = dataclasses.asdict(spec or _EXAMPLE)
    fields = {
        name: "" if values[name] is None else str(values[name])
        for name in (*_NUMBERS, *_FLOATS, *_TEXTS, "protocol")
    }
    fields |= {name: "yes" if values[name] else "" for name in _FLAGS}
    lines = [
        f"{c.name} | {_one_line(c.guideline)}" if c.guideline else c.name
        for c in (() if spec is None else spec.classes)
    ]
    return {**fields, "classes": "\n".join(lines)}


def _one_line(guideline: str) -> str:
    return guideline.replace("\r\n", "\n").replace("\n", "\\n")


def spec_from(form: Fields) -> ProjectSpec:
    """The specification out of the form."""
    values: dict[str, Any] = {
        "protocol": text(form, "protocol"),
        **{name: text(form, name) for name in _TEXTS},
    }
    values |= {name: text(form, name) == "yes" for name in _FLAGS}
    for names, kind in ((_NUMBERS, int), (_FLOATS, float)):
        for name in names:
            written = text(form, name, most=30)
            if written:
                try:
                    values[name] = kind(written)
                except ValueError:
                    raise Refused(f"{name} must be a number; got {written!r}.") from None
    lines = [
        line.partition("|")
        for line in text(form, "classes", most=200_000).splitlines()
        if line.strip()
    ]
    values["classes"] = [
        {"name": name.strip(), "guideline": guide.strip().replace("\\n", "\n")}
        for name, _, guide in lines
    ]
    return spec_of(values)


@router.get("/new")
async def new_page(request: Request) -> Response:
    """The form for a new project."""
    page = await Page.visit(web_of(request), request)
    me = page.person.id if page.person else 0
    if not may_create(await page.web.store.read(lambda work: projects.projects_of(work, me))):
        raise Forbidden("Only people who own or manage a project, or are in none yet, begin one.")
    return page.render("new.html", fields={**form_of(None), "slug": "", "name": ""})


@router.post("/new")
async def new(request: Request) -> Response:
    """Begin a project."""
    page = await Page.visit(web_of(request), request)
    form = await page.form()
    try:
        made = await create_project(
            page.web,
            page.session,
            slug=text(form, "slug"),
            name=text(form, "name"),
            spec=spec_from(form),
        )
    except Forbidden:
        raise
    except CollectError as error:
        return page.render(
            "new.html", status=status_of(error), fields=_sent(form), error=str(error)
        )
    return page.go(f"/p/{made['slug']}/setup")


def _sent(form: Fields) -> dict[str, str]:
    """What was written, to be corrected."""
    names = (*_NUMBERS, *_FLOATS, *_TEXTS, *_FLAGS, "protocol", "classes", "slug", "name")
    return {name: value if isinstance(value := form.get(name, ""), str) else "" for name in names}


@router.get("/p/{slug}/setup")
async def setup_page(request: Request, slug: str, preview: str = "") -> Response:
    """The state of the set-up; with ``?preview=seal`` what sealing would draw."""
    page = await Page.visit(web_of(request), request)
    return await _setup(page, slug, preview=preview == "seal")


async def _setup(
    page: Page,
    slug: str,
    *,
    preview: bool = False,
    status: int = 200,
    error: str = "",
    fields: dict[str, str] | None = None,
) -> Response:
    member = await page.web.member(page.session, slug, MANAGERS)

    def op(work: Work) -> tuple[Any, Any, Any, Any]:
        seen = (
            projects.preview_seal(work, member.project)
            if preview and member.state == "draft"
            else None
        )
        return (
            projects.project_row(work, slug),
            projects.progress(work, member.project),
            projects.systems_of(work, member.project),
            seen,
        )

    row, progress, systems, seen = await page.web.store.read(op)
    groups = {
        pool: group_name(member.spec, pool, page.say) or page.say("Everybody")
        for pool in member.spec.pools
    }
    return page.render(
        "setup.html",
        status=status,
        member=member,
        project=row,
        progress=progress,
        systems=systems,
        preview=seen,
        groups=groups,
        fields=fields or form_of(member.spec),
        error=error,
    )


@router.post("/p/{slug}/setup")
async def change(request: Request, slug: str) -> Response:
    """Change the specification of a draft, or go one step on."""
    page = await Page.visit(web_of(request), request)
    await page.web.member(page.session, slug, MANAGERS)
    form = await page.form()
    do = text(form, "do")
    try:
        if do == "spec":
            spec = spec_from(form)
            await page.web.change(
                page.session,
                slug,
                MANAGERS,
                lambda w, m, now: projects.change_spec(w, m.project, spec, actor=m.alias, now=now),
            )
        elif do in STEPS:
            await page.web.change(page.session, slug, MANAGERS, STEPS[do])
        else:
            raise Refused("do must be spec, seal, open or close.")
    except CollectError as error:
        fields = _sent(form) if do == "spec" else None
        return await _setup(page, slug, status=status_of(error), error=str(error), fields=fields)
    return page.go(f"/p/{slug}/setup")


@router.post("/p/{slug}/items")
async def items(request: Request, slug: str) -> Response:
    """A file of items, into a draft."""
    page = await Page.visit(web_of(request), request)
    member = await page.web.member(page.session, slug, MANAGERS)
    form = await page.form(files=1)
    found, pictures = await items_from(_file(form), member.spec)

    def op(work: Work, member: Member, now: float) -> int:
        for picture in pictures:
            projects.add_image(work, member.project, picture)
        return projects.import_items(work, member.project, found, actor=member.alias, now=now)

    await page.web.change(page.session, slug, MANAGERS, op)
    return page.go(f"/p/{slug}/setup")


@router.post("/p/{slug}/systems")
async def systems(request: Request, slug: str) -> Response:
    """A file of a system's answers, into a sealed project."""
    page = await Page.visit(web_of(request), request)
    member = await page.web.member(page.session, slug, MANAGERS)
    form = await page.form(files=1)
    name = text(form, "name", most=200)
    answers = await answers_from(_file(form), member.spec)

    def op(work: Work, member: Member, now: float) -> int:
        return projects.add_system(work, member.project, name, answers, actor=member.alias, now=now)

    await page.web.change(page.session, slug, MANAGERS, op)
    return page.go(f"/p/{slug}/setup")


def _file(form: Fields) -> Sent:
    found = form.get("file")
    if not isinstance(found, Sent) or not found.name:
        raise Refused("file must be chosen.")
    return found


_MOST_CHARTS = 4


@router.get("/p/{slug}")
async def dashboard(request: Request, slug: str) -> Response:
    """Estimates, checks and completion; htmx asks for the inner part again while it is seen. Every
    look is logged.
    """
    page = await Page.visit(web_of(request), request)
    member = await page.web.member(page.session, slug, READERS)
    view = await page.web.live(member)
    values = {
        "member": member,
        "view": view,
        "number": _number,
        "percent": _percent,
        "moment": moment,
    }
    return page.render(
        "live.html" if page.partial else "dashboard.html",
        drawings=_drawings(view, page.say),
        **values,
    )


def _drawings(view: LiveView, _: Say) -> list[tuple[str, Markup]]:
    """The charts with their captions: SVG of our own making, in which every text is escaped."""
    charts = charts_of(view)
    named = [("intervals", _("Accuracy of each system"))] if view.systems else []
    named += [
        (f"estimate-{i}", system.name) for i, system in enumerate(view.systems[:_MOST_CHARTS])
    ]
    named += [("completion", _("Completion by group"))] if view.classes else []
    named += [("checks", _("Checks"))] if view.checks else []
    return [(caption, Markup(charts[name])) for name, caption in named if name in charts]  # noqa: S704


def _number(value: float | None) -> str:
    """Three digits; a dash where there is no number."""
    return "–" if value is None or not math.isfinite(value) else f"{value:.3f}"


def _percent(value: float | None) -> str:
    return "–" if value is None or not math.isfinite(value) else f"{100 * value:.0f} %"


def moment(at: float | None) -> str:
    """A time, in UTC."""
    return (
        "–" if at is None else dt.datetime.fromtimestamp(at, dt.UTC).strftime("%Y-%m-%d %H:%M UTC")
    )


def day(at: float) -> str:
    """A day, in UTC."""
    return moment(at)[:10]


# people


@router.get("/p/{slug}/people")
async def people_page(request: Request, slug: str) -> Response:
    """Members and open invitations."""
    page = await Page.visit(web_of(request), request)
    return await _people(page, slug)


async def _people(
    page: Page, slug: str, *, status: int = 200, link: str = "", error: str = ""
) -> Response:
    member = await page.web.member(page.session, slug, MANAGERS)
    now = dt.datetime.now(dt.UTC).timestamp()
    known, invitations = await page.web.store.read(
        lambda work: (people.people_of(work, member), people.invitations_of(work, member, now=now))
    )
    roles = [
        role
        for role in ("annotator", "auditor", "manager", "owner")
        if role != "owner" or member.role == "owner"
    ]
    groups = {
        pool: group_name(member.spec, pool, page.say) or page.say("Everybody")
        for pool in member.spec.pools
    }
    return page.render(
        "people.html",
        status=status,
        member=member,
        people=known,
        invitations=invitations,
        roles=roles,
        groups=groups,
        link=link,
        error=error,
        day=day,
    )


@router.post("/p/{slug}/people")
async def change_people(request: Request, slug: str) -> Response:
    """Invite somebody (the link is shown once), or withdraw an invitation."""
    page = await Page.visit(web_of(request), request)
    await page.web.member(page.session, slug, MANAGERS)
    form = await page.form()
    try:
        if text(form, "do") == "revoke":
            which = number(form.get("id"), "id")
            await page.web.change(
                page.session,
                slug,
                MANAGERS,
                lambda w, m, now: people.revoke_invitation(w, m, which, now=now),
            )
            return page.go(f"/p/{slug}/people")
        token = await page.web.change(page.session, slug, MANAGERS, _inviting(form))
    except CollectError as error:
        return await _people(page, slug, status=status_of(error), error=str(error))
    return await _people(page, slug, link=f"{page.web.settings.base_url.rstrip('/')}/join/{token}")


def _inviting(form: Any) -> Any:
    role, days = text(form, "role"), number(form.get("days"), "days")
    if role not in get_args(Role):
        raise Refused("role must be owner, manager, annotator or auditor.")
    pool = number(form.get("pool"), "pool") if role == "annotator" else None

    def op(work: Work, member: Member, now: float) -> str:
        return people.invite(work, member, role=role, pool=pool, days=days, now=now)  # type: ignore[arg-type]

    return op


# audit and exports


@router.get("/p/{slug}/audit")
async def audit(request: Request, slug: str) -> Response:
    """What is committed to, and how to check it."""
    page = await Page.visit(web_of(request), request)
    member = await page.web.member(page.session, slug, READERS)

    def op(work: Work) -> tuple[Any, list[Any]]:
        kinds = work.all(
            "SELECT kind, COUNT(*) AS n FROM event WHERE project_id = :p GROUP BY kind ORDER BY kind",
            p=member.project,
        )
        return projects.project_row(work, slug), kinds

    row, kinds = await page.web.store.read_chained(member.project, op)
    _ = page.say
    return page.render(
        "audit.html",
        member=member,
        project=row,
        seed=bytes(row["seed"]).hex() if row["seed"] is not None else "",
        looks=sum(int(kind["n"]) for kind in kinds if kind["kind"] == "look"),
        kinds=kinds,
        moment=moment,
        times=(
            (_("Made"), row["created_at"]),
            (_("Sealed"), row["sealed_at"]),
            (_("Opened"), row["opened_at"]),
            (_("Closed"), row["closed_at"]),
        ),
    )


@router.get("/p/{slug}/export")
async def export_page(request: Request, slug: str) -> Response:
    """The files that can be had."""
    page = await Page.visit(web_of(request), request)
    member = await page.web.member(page.session, slug, READERS)
    _ = page.say
    names = {
        "archive": _("Archive for the audit (zip)"),
        "jsonl": _("Evidence tables, JSONL (zip)"),
        "csv": _("Evidence tables, CSV (zip)"),
        "parquet": _("Evidence tables, Parquet (zip)"),
        "label-studio": _("Label Studio JSON"),
    }
    return page.render(
        "export.html", member=member, formats=[(name, names[name]) for name in FORMATS]
    )


@router.get("/p/{slug}/export/{format}")
async def export(request: Request, slug: str, format: str) -> Response:  # noqa: A002
    """One of them."""
    page = await Page.visit(web_of(request), request)
    return await export_response(page.web, page.session, slug, format)
