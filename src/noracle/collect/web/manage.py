"""Pages of owners, managers and auditors: the live dashboard, people, audit, exports."""

from __future__ import annotations

import dataclasses
import datetime as dt
import math
from collections.abc import Mapping
from typing import Any, get_args

from fastapi import APIRouter, Response
from markupsafe import Markup

from noracle.collect import formats
from noracle.collect.charts import charts_of, final_of, outcome_of
from noracle.collect.errors import CollectError, Forbidden, Refused
from noracle.collect.model import ClassSpec, ProjectSpec, Role, visible
from noracle.collect.service import people, projects, webhooks
from noracle.collect.service.access import READERS, Member
from noracle.collect.service.answers import comments_of
from noracle.collect.service.exports import FORMATS
from noracle.collect.store.base import SQL, Row, Work
from noracle.collect.web import api
from noracle.collect.web.api import ONLY_MANAGERS, STEPS
from noracle.collect.web.core import Web, number
from noracle.collect.web.page import Fields, SentFile, Visit, export_response, group_name, text
from noracle.collect.web.pages import may_create
from noracle.report import words

router = APIRouter(include_in_schema=False)

_NUMBERS = ("draws", "shown", "annotators", "panel_items", "reasks", "planned_n")
_FLOATS = ("gold_rate", "lease_seconds", "confidence")
_TEXTS = ("question", "stop_rule", "language")
_FLAGS = ("trap", "shuffle_options")
_EXAMPLE = ProjectSpec(protocol="partitioned", classes=(ClassSpec(name="A"), ClassSpec(name="B")))


def form_of(spec: ProjectSpec | None) -> dict[str, str]:
    """A specification as the fields of the form; a line end in a guideline becomes backslash and n."""
    values = dataclasses.asdict(spec or _EXAMPLE)
    names = (*_NUMBERS, *_FLOATS, *_TEXTS, "protocol")
    fields = {name: "" if values[name] is None else str(values[name]) for name in names}
    fields |= {name: "yes" if values[name] else "" for name in _FLAGS}
    texts = ((c.name, c.guideline.replace("\r\n", "\n")) for c in (spec.classes if spec else ()))
    lines = (" | ".join(filter(None, (n, g.replace("\n", "\\n")))) for n, g in texts)
    return {**fields, "classes": "\n".join(lines)}


def spec_from(form: Fields) -> ProjectSpec:
    """The specification out of the form."""
    values: dict[str, Any] = {name: text(form, name) for name in ("protocol", *_TEXTS)}
    values |= {name: text(form, name) == "yes" for name in _FLAGS}
    for name in (*_NUMBERS, *_FLOATS):
        written = text(form, name, most=30)
        if written:
            try:
                values[name] = (int if name in _NUMBERS else float)(written)
            except ValueError:
                raise Refused(f"{name} must be a number; got {written!r}.") from None
    lines = text(form, "classes", most=200_000).splitlines()
    values["classes"] = [
        {"name": name.strip(), "guideline": guide.strip().replace("\\n", "\n")}
        for name, _, guide in (line.partition("|") for line in lines if line.strip())
    ]
    return api.spec_of(values)


@router.get("/new")
async def new_page(page: Visit) -> Response:
    """The form for a new project."""
    may = await page.web.store.read(may_create, page.person.id if page.person else 0)
    Forbidden.unless(may, ONLY_MANAGERS)
    return page.render("new.html", fields={**form_of(None), "slug": "", "name": ""})


@router.post("/new")
async def new(page: Visit) -> Response:
    """Begin a project."""
    form = await page.form()
    slug, name = text(form, "slug"), text(form, "name")
    try:
        spec = spec_from(form)
        made = await api.create_project(page, slug=slug, name=name, spec=spec)
    except Forbidden:
        raise
    except CollectError as error:
        return page.refused(error).render("new.html", fields=_sent(form))
    return page.go(f"/p/{made['slug']}/setup")


def _sent(form: Fields) -> dict[str, str]:
    """What was written, to be corrected."""
    names = (*_NUMBERS, *_FLOATS, *_TEXTS, *_FLAGS, "protocol", "classes", "slug", "name")
    return {name: value if isinstance(value := form.get(name, ""), str) else "" for name in names}


@router.get("/p/{slug}/setup")
async def setup_page(page: Visit, slug: str, preview: str = "") -> Response:
    """The state of the set-up; with ``?preview=seal`` (``close``) what sealing (closing) would do."""
    member = await page.member(slug)
    project = member.project

    def op(work: Work) -> dict[str, Any]:
        drawn = preview == "seal" and member.state == "draft"
        found = api.state_of(work, project) | {"webhooks": webhooks.webhooks_of(work, project)}
        found |= {"preview": projects.preview_seal(work, project) if drawn else None}
        return found | {"project": projects.project_row(work, slug)}

    closing, found = preview == "close" and member.state == "open", await page.web.store.read(op)
    about: Any = {"groups": _group_names(page, member), "fields": form_of(member.spec)}
    about |= {"closing": closing, "moment": moment, **found}
    return page.render("setup.html", member=member, **about)


def _group_names(page: Visit, member: Member) -> dict[int, str]:
    say, spec = page.say, member.spec
    return {pool: group_name(spec, pool, say) or say("Everybody") for pool in spec.pools}


@router.post("/p/{slug}/setup")
async def change(page: Visit, slug: str) -> Response:
    """Change the specification of a draft, or go one step on."""
    await page.member(slug)
    form = await page.form()
    do = text(form, "do")
    try:
        if do == "spec":
            await page.change(slug, STEPS[do], spec_from(form))
        elif do == "seal":
            await page.long(slug, projects.seal_in_steps)
        elif do == "close" and text(form, "sure") != "yes":
            return page.go(f"/p/{slug}/setup?preview=close")
        elif do in ("open", "close"):
            await page.change(slug, STEPS[do])
        elif do == "undo":
            await page.change(slug, STEPS[do], number(form.get("import"), "import"))
        elif do == "webhook":
            url = webhooks.check_url(form.get("url"), page.web.settings.webhook_hosts)
            await page.change(slug, webhooks.add_webhook, url)
        elif do == "no-webhook":
            await page.change(slug, webhooks.remove_webhook, number(form.get("id"), "id"))
        else:
            raise Refused("do must be spec, seal, open, close, undo, webhook or no-webhook.")
    except CollectError as error:
        written = {"fields": _sent(form)} if do == "spec" else {}
        return await setup_page(page.refused(error, **written), slug)
    return page.go(f"/p/{slug}/setup")


_SHOWN = 5


@router.get("/p/{slug}/items")
async def items_page(page: Visit, slug: str) -> Response:
    """The columns of the file that waits, and its first items as they will be shown."""
    member, wishes = await page.member(slug), page.request.query_params
    file = await _uploaded(page, member)
    if file is None:
        return page.go(f"/p/{slug}/setup")
    page.slow_down()
    problem, upload, name, data = "", None, file["name"], bytes(file["bytes"])
    try:
        names = await page.web.parsed(formats.columns_of, data, name=name)
    except CollectError as error:
        names, problem = [], str(error)
    chosen = _columns(wishes) if "item" in wishes else formats.guess_columns(names)
    if not problem:
        try:
            upload = await _read(page.web, data, name, member, names and chosen)
        except CollectError as error:
            problem = str(error)
    items = [] if upload is None else upload.items
    read: Any = {"columns": names, "chosen": chosen, "file": name}
    read |= {"problem": problem, "shown": items[:_SHOWN], "n": len(items), "visible": visible}
    read |= {"gold": sum(item.truth is not None for item in items)}
    classes = [c.name for c in member.spec.classes]
    return page.render("items.html", member=member, classes=classes, **read)


async def _uploaded(page: Visit, member: Member) -> Row | None:
    """``name, bytes`` of the member's file that waits until its columns are clear."""
    who = {"project": member.project, "person": member.person}
    return await page.web.store.read(lambda work: work.one(SQL.upload, **who))


def _columns(wishes: Mapping[str, object]) -> dict[str, str]:
    return {part: wish for part in formats.COLUMNS if (wish := str(wishes.get(part) or ""))}


async def _read(web: Web, data: bytes, name: str, member: Member, columns: Any) -> formats.Upload:
    about: Any = {"spec": member.spec, "name": name, "columns": columns or None}
    upload: formats.Upload = await web.parsed(formats.read_items, data, **about)
    for item in upload.items[:_SHOWN]:
        projects.check_item(item, member.spec)
    once = len({item.name for item in upload.items}) == len(upload.items)
    Refused.unless(once, "items must be named only once; choose another column for the name.")
    return upload


@router.post("/p/{slug}/items")
async def items(page: Visit, slug: str) -> Response:
    """Keep a file until its columns are clear, add its items to a draft, or drop it."""
    member = await page.member(slug)
    form = await page.form(files=1)
    if text(form, "do") not in ("add", "drop"):
        file = _file(form)
        await page.web.parsed(formats.columns_of, file.data, name=file.name)
        await page.change(slug, projects.keep_upload, (file.name, file.data))
        return page.go(f"/p/{slug}/items")
    if text(form, "do") == "add":
        found = Refused.given(await _uploaded(page, member), "file must be chosen.")
        columns = _columns(form)
        upload = await _read(page.web, bytes(found["bytes"]), found["name"], member, columns)
        await api.add_upload(page, slug, upload)
    await page.change(slug, projects.keep_upload, None)
    return page.go(f"/p/{slug}/setup")


@router.post("/p/{slug}/systems")
async def systems(page: Visit, slug: str) -> Response:
    """A file of a system's answers, into a sealed project."""
    spec = (await page.member(slug)).spec
    form = await page.form(files=1)
    name, file = text(form, "name", most=200), _file(form)
    about: Any = {"spec": spec, "name": file.name, "system": "system"}
    found = await page.web.parsed(formats.read_answers, file.data, **about)
    await page.change(slug, api.adding, name, found.get("system", {}))
    return page.go(f"/p/{slug}/setup")


def _file(form: Fields) -> SentFile:
    found = form.get("file")
    if not isinstance(found, SentFile) or not found.name:
        raise Refused("file must be chosen.")
    return found


@router.get("/p/{slug}")
async def dashboard(page: Visit, slug: str) -> Response:
    """Estimates, checks and completion; htmx asks for the inner part again. A look is logged."""
    member = await page.member(slug, READERS)
    view = await page.web.live(member)
    head = None
    if member.state == "closed" and not page.partial:
        head = str((await api.published_of(slug, page))["head"])
    finals = {s.name: final_of(view.state, s) for s in view.systems}
    about: Any = {"head": head, "qr": head and _qr(head), "finals": finals, "outcome": outcome_of}
    about |= {"number": _number, "percent": _percent, "moment": moment}
    charts = {name: Markup(drawn) for name, drawn in charts_of(view).items()}  # noqa: S704 (ours)
    template = "live.html" if page.partial else "dashboard.html"
    return page.render(template, member=member, view=view, charts=charts, **about)


def _qr(text: str) -> Markup:
    """A QR code as inline SVG; the text is hexadecimal."""
    import segno

    drawn = segno.make(text, error="m").svg_inline(scale=4, light="#fff", dark="#000")
    return Markup(drawn)  # noqa: S704


def _number(value: float | None, form: str = "{:.3f}") -> str:
    """Three digits; a dash where there is no number."""
    return "–" if value is None or not math.isfinite(value) else form.format(value)


def _percent(value: float | None) -> str:
    return "–" if value is None else words.percent(value, ".0f")


def moment(at: float | None) -> str:
    """A time, in UTC."""
    return "–" if at is None else f"{dt.datetime.fromtimestamp(at, dt.UTC):%Y-%m-%d %H:%M UTC}"


@router.get("/p/{slug}/people")
async def people_page(page: Visit, slug: str) -> Response:
    """Members and open invitations."""
    member = await page.member(slug)

    def op(work: Work) -> dict[str, Any]:
        return {**api.everybody(work, member), "comments": comments_of(work, member.project)}

    found = await page.web.store.read(op)
    roles = ["annotator", "auditor", "manager", *(["owner"] if member.role == "owner" else [])]
    about: Any = {"groups": _group_names(page, member), "roles": roles, "number": _number}
    about |= {"day": lambda at: moment(at)[:10]}
    return page.render("people.html", member=member, link="", **found, **about)


@router.post("/p/{slug}/people")
async def change_people(page: Visit, slug: str) -> Response:
    """Invite somebody (the link is shown once), or withdraw an invitation."""
    await page.member(slug)
    form = await page.form()
    do, alias = text(form, "do"), text(form, "alias")
    try:
        if do == "revoke":
            await page.change(slug, people.revoke_invitation, number(form.get("id"), "id"))
        elif do == "remove":
            await page.change(slug, people.remove_member, alias)
        elif do == "reset":
            token = await page.change(slug, people.reset_link, alias)
            page.told = {"link": page.web.link("reset", token)}
        else:
            token = await page.change(slug, people.invite, **_invitation(form))
            page.told = {"link": page.web.link("join", token)}
    except CollectError as error:
        page.refused(error)
    if page.told:
        return await people_page(page, slug)
    return page.go(f"/p/{slug}/people")


def _invitation(form: Fields) -> dict[str, Any]:
    role, days = text(form, "role"), number(form.get("days"), "days")
    known = role in get_args(Role)
    Refused.unless(known, "role must be owner, manager, annotator or auditor.")
    pool = number(form.get("pool"), "pool") if role == "annotator" else None
    return {"role": role, "pool": pool, "days": days}


@router.get("/p/{slug}/audit")
async def audit(page: Visit, slug: str) -> Response:
    """What is committed to, and how to check it."""
    member = await page.member(slug, READERS)

    def op(work: Work) -> tuple[Row, list[Row]]:
        kinds = work.all(SQL.event_kinds, project=member.project)
        return projects.project_row(work, slug), kinds

    row, kinds = await page.web.store.read_chained(member.project, op)
    return page.render("audit.html", member=member, project=row, kinds=kinds, moment=moment)


@router.get("/p/{slug}/export")
async def export_page(page: Visit, slug: str) -> Response:
    """The files that can be had."""
    member = await page.member(slug, READERS)
    return page.render("export.html", member=member, formats=FORMATS)


@router.get("/p/{slug}/export/{format}")
async def export(page: Visit, slug: str, format: str) -> Response:  # noqa: A002
    """One of them."""
    return await export_response(page, slug, format)
