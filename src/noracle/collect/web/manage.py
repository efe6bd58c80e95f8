"""Pages of owners, managers and auditors: the live dashboard, people, audit, exports."""

from __future__ import annotations

import datetime as dt
import math
from typing import Any, get_args

from fastapi import APIRouter, Request, Response
from markupsafe import Markup

from noracle.collect.charts import charts_of
from noracle.collect.errors import CollectError, Refused
from noracle.collect.live_view import LiveView
from noracle.collect.model import Role
from noracle.collect.service import people, projects
from noracle.collect.service.access import MANAGERS, READERS, Member
from noracle.collect.store.base import Work
from noracle.collect.web.core import number, status_of
from noracle.collect.web.files import FORMATS, export_response
from noracle.collect.web.page import Page, Say, group_name, text, web_of

router = APIRouter(include_in_schema=False)
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
