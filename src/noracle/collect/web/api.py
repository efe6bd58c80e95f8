"""The JSON interface under ``/api/v1``: the session cookie with ``X-CSRF-Token``, or
``Authorization: Bearer`` with the session token.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, TypeVar

from fastapi import APIRouter, Depends, HTTPException, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, FiniteFloat, ValidationError

from noracle.collect import formats
from noracle.collect.content import Picture
from noracle.collect.errors import Forbidden, Refused, SignedOut
from noracle.collect.model import Answered, HeldQuestion, Item, ProjectSpec
from noracle.collect.service import access, people, projects, webhooks
from noracle.collect.service.access import MANAGERS, READERS, Member
from noracle.collect.service.answers import LONGEST_COMMENT, comments_of
from noracle.collect.store.base import Store, Work
from noracle.collect.web import security
from noracle.collect.web.core import Change, Web
from noracle.collect.web.page import export_response, language_of, web_of
from noracle.collect.web.pages import may_create
from noracle.collect.web.work import visible
from noracle.errors import NoracleError

_DEEPEST = 20


def _clean(text: str) -> str:
    if "\x00" in text:
        raise ValueError("must not contain NUL")
    return text


def _clean_json(value: Any, depth: int = 0) -> Any:
    """Any JSON, but not too deep and with clean texts."""
    if depth > _DEEPEST:
        raise ValueError("is nested too deeply")
    if isinstance(value, str):
        value.encode()  # halves of surrogate pairs are a ValueError
        return _clean(value)
    if isinstance(value, dict):
        return {_clean_json(k, depth + 1): _clean_json(v, depth + 1) for k, v in value.items()}
    return [_clean_json(v, depth + 1) for v in value] if isinstance(value, list) else value


Whole = Annotated[int, Field(ge=0, le=2**53)]
Line = Annotated[str, Field(max_length=200), AfterValidator(_clean)]
Email = Annotated[str, Field(max_length=254), AfterValidator(_clean)]
Text = Annotated[str, Field(max_length=1000), AfterValidator(_clean)]
Reply = Annotated[str, Field(max_length=projects.LONGEST_OPTION), AfterValidator(_clean)]
AnyJson = Annotated[dict[str, Any], AfterValidator(_clean_json)]


class Strict(BaseModel):
    """No other names, no guessing of types."""

    model_config = ConfigDict(extra="forbid", strict=True, hide_input_in_errors=True)


class SignIn(Strict):
    """``bearer`` asks for the token in the reply instead of a cookie, for programs."""

    email: Email
    password: Text
    bearer: bool = False


class Join(Strict):
    """All empty for somebody who is signed in."""

    email: Email = ""
    name: Line = ""
    password: Text = ""


class NewPassword(Strict):
    """The old password, and the new one."""

    old: Text
    password: Text


class Reset(Strict):
    """The new password."""

    password: Text


class NewProject(Strict):
    """``spec`` as in ProjectSpec."""

    slug: Line
    name: Line
    spec: AnyJson


class NewItem(Strict):
    """One item."""

    name: Line
    content: AnyJson
    truth: Whole | None = None


class NewItems(Strict):
    """Items as JSON; other formats are sent as the body, with their own Content-Type."""

    items: Annotated[list[NewItem], Field(max_length=200_000)]


class Invite(Strict):
    """``pool`` is the class (partitioned) or the place (ordinary) of an annotator."""

    role: Literal["owner", "manager", "annotator", "auditor"]
    pool: Whole | None = None
    days: Annotated[FiniteFloat, Field(gt=0, le=365)] = 7.0


class NewWebhook(Strict):
    """Where to call."""

    url: Annotated[str, Field(max_length=500), AfterValidator(_clean)]


class AnswerBody(Strict):
    """An answer to the question that the person holds."""

    question: Whole
    key: Line
    value: Text
    shown_at: FiniteFloat
    client_ms: Annotated[int, Field(ge=0, le=2**31 - 1)] | None = None
    want_next: bool = False


class Amend(Strict):
    """Another value for the person's last answer."""

    key: Line
    value: Text


class NewComment(Strict):
    """What I say about the item of a question that I hold or answered."""

    question: Whole
    text: Annotated[str, Field(max_length=LONGEST_COMMENT), AfterValidator(_clean)] = ""
    broken: bool = False


class NewSystem(Strict):
    """Answers of a system by item name: the class, null, or the text to grade. Or a ``commitment`` to them before the
    first answer: the SHA-256 of a salt (32 hexadecimal digits or more) and the answers in canonical
    JSON, which are sent later with the ``salt``.
    """

    name: Line
    answers: Annotated[dict[Line, Whole | Reply | None], Field(max_length=1_000_000)] | None = None
    commitment: Line | None = None
    salt: Line | None = None


_PROBLEM = {
    "description": "Refused (RFC 9457)",
    "content": {"application/problem+json": {"schema": {"type": "object"}}},
}
router = APIRouter(
    prefix="/api/v1",
    responses=dict.fromkeys((400, 401, 403, 404, 409, 413, 415, 422, 429), _PROBLEM),
    default_response_class=JSONResponse,
)

Body = TypeVar("Body", bound=BaseModel)
ONLY_MANAGERS = "Only people who own or manage a project, or are in none yet, begin one."


def caller(request: Request) -> str:
    """The hash of the session's token; a cookie must bring its CSRF token when something changes."""
    web = web_of(request)
    token, way = security.token_of(request, web.settings)
    if token is None:
        raise SignedOut
    hashed = access.token_hash(token)
    if way == "cookie" and request.method in security.UNSAFE:
        security.check_csrf(web.settings, hashed, request.headers.get("x-csrf-token"))
    return hashed


Session = Annotated[str, Depends(caller)]
OurWeb = Annotated[Web, Depends(web_of)]


def asked_json(asked: HeldQuestion | None) -> dict[str, Any] | None:
    """A question as its person may see it."""
    if asked is None:
        return None
    names = ("question", "key", "content", "options", "shown", "lease_until", "done")
    return {name: getattr(asked, name) for name in names} | {"content": visible(asked.content)}


def _answered(kept: Answered) -> dict[str, Any]:
    plain = {"answer": kept.answer, "revision": kept.revision, "again": kept.again}
    return {**plain, "next": asked_json(kept.next)}


def _begin(
    web: Web, started: security.Started, *, bearer: bool = False, **values: object
) -> Response:
    """The reply that begins a session."""
    if bearer:
        return JSONResponse({**values, "token": started.token})
    csrf = security.csrf_token(web.settings, access.token_hash(started.token))
    response = JSONResponse({**values, "csrf": csrf})
    security.set_session(response, web.settings, started)
    return response


def _visitor(web: Web, request: Request) -> security.Newcomer:
    """Where a caller without a session comes from, and the session that a new one ends."""
    token, _ = security.token_of(request, web.settings)
    old = None if token is None else access.token_hash(token)
    return security.caller_of(request, web.settings, old)


# the two calls of every click; first, because routes are tried in order, and without FastAPI's
# encoder, because they are plain already


@router.post("/projects/{slug}/next")
async def next_question(slug: str, session: Session, web: OurWeb) -> JSONResponse:
    """The question that I hold, else the next one; ``null`` if there is none now."""
    return JSONResponse({"next": asked_json(await web.next(session, slug))})


@router.post("/projects/{slug}/answers")
async def answer(slug: str, body: AnswerBody, session: Session, web: OurWeb) -> JSONResponse:
    """Answer the question that I hold; the same key again gives the same reply again."""
    return JSONResponse(_answered(await web.answer(session, slug, **dict(body))))


@router.post("/session")
async def sign_in(body: SignIn, request: Request, web: OurWeb) -> Response:
    """Begin a session."""
    token, person = await web.sign_in(body.email, body.password, _visitor(web, request))
    return _begin(web, token, bearer=body.bearer, name=person["name"])


@router.delete("/session", status_code=204)
async def sign_out(session: Session, web: OurWeb) -> Response:
    """End the session."""
    await web.sign_out(session)
    response = Response(status_code=204)
    security.clear_session(response, web.settings)
    return response


@router.delete("/sessions", status_code=204)
async def sign_out_everywhere(session: Session, web: OurWeb) -> Response:
    """End all my sessions."""
    await web.sign_out_everywhere(session)
    response = Response(status_code=204)
    security.clear_session(response, web.settings)
    return response


@router.post("/password", status_code=204)
async def change_password(body: NewPassword, session: Session, web: OurWeb) -> Response:
    """Change my password; all other sessions end."""
    await web.change_password(session, body.old, body.password)
    return Response(status_code=204)


@router.post("/resets/{token}")
async def reset(token: str, body: Reset, request: Request, web: OurWeb) -> Response:
    """Set a new password with a link of a manager, and begin a session."""
    return _begin(web, await web.reset(token, body.password, _visitor(web, request)))


@router.post("/projects/{slug}/people/{alias}/reset", status_code=201)
async def reset_link(slug: str, alias: str, session: Session, web: OurWeb) -> Any:
    """A link that sets a new password of a member, once, for a day."""
    made = people.reset_link
    token = await web.change(session, slug, MANAGERS, lambda w, m, now: made(w, m, alias, now=now))
    return {"token": token, "link": f"{web.settings.base_url.rstrip('/')}/reset/{token}"}


@router.delete("/projects/{slug}/people/{alias}", status_code=204)
async def remove_member(slug: str, alias: str, session: Session, web: OurWeb) -> Response:
    """End a membership; the answers stay under the alias."""
    end = people.remove_member
    await web.change(session, slug, MANAGERS, lambda w, m, now: end(w, m, alias, now=now))
    return Response(status_code=204)


@router.post("/invitations/{token}")
async def join(token: str, body: Join, request: Request, web: OurWeb) -> Response:
    """Accept an invitation: as the person who is signed in (all fields empty), or with e-mail, name
    and password.
    """
    if not body.email:
        person = await _person(web, caller(request))
        member = await web.accept(token, person.id)
        return JSONResponse({"project": member.slug, "role": member.role, "pools": member.pools})
    account = {**dict(body), "locale": language_of(request)}
    fresh, member = await web.join(token, _visitor(web, request), **account)
    return _begin(web, fresh, project=member.slug, role=member.role, pools=member.pools)


async def _person(web: Web, session: str) -> access.Person:
    if (person := await web.person(session)) is None:
        raise SignedOut
    return person


@router.get("/projects")
async def my_projects(session: Session, web: OurWeb) -> Any:
    """My projects."""
    me = (await _person(web, session)).id
    rows = await web.store.read(lambda work: projects.projects_of(work, me))
    return {"projects": [dict(row) for row in rows]}


@router.post("/projects", status_code=201)
async def create(body: NewProject, session: Session, web: OurWeb) -> Any:
    """Begin a project."""
    spec = spec_of(body.spec)
    return await create_project(web, session, slug=body.slug, name=body.name, spec=spec)


async def create_project(
    web: Web, session: str, *, slug: str, name: str, spec: ProjectSpec
) -> dict[str, Any]:
    """A draft of which the caller is the owner."""
    web.slow_down(session)

    def op(work: Work) -> dict[str, Any]:
        now = time.time()
        if (person := access.who(work, session, now=now)) is None:
            raise SignedOut
        Forbidden.unless(may_create(work, person.id), ONLY_MANAGERS)
        projects.create_project(work, slug=slug, name=name, spec=spec, owner=person.id, now=now)
        return {"slug": slug, "state": "draft"}

    return await web.store.write(op)


def spec_of(values: dict[str, Any]) -> ProjectSpec:
    """A specification out of JSON; whatever is wrong with it is the sender's fault."""
    try:
        return ProjectSpec.from_dict(values)
    except NoracleError as error:
        raise Refused(str(error)) from error
    except (TypeError, ValueError, AttributeError, KeyError) as error:
        rule = "spec must hold values of the right types"
        raise Refused(f"{rule}; {type(error).__name__}.") from error


def _object(required: str, **properties: object) -> dict[str, Any]:
    return {"type": "object", "required": required.split(), "properties": properties}


_STRING, _ONE_OR_NONE = {"type": "string"}, {"type": ["integer", "null"]}
_ITEM = _object("name content", name=_STRING, content={"type": "object"}, truth=_ONE_OR_NONE)
_LIST = {"type": "array", "items": _ITEM}
_FEW_ITEMS = {**_object("items", items=_LIST), "additionalProperties": False}
_LINE = {**_STRING, "maxLength": 200}
_ANSWER = {"type": ["integer", "string", "null"], "minimum": 0}
_BY_ITEM = {"type": "object", "additionalProperties": _ANSWER}
_ANSWERS_OF = {
    **_object("name", name=_LINE, answers=_BY_ITEM, commitment=_LINE, salt=_LINE),
    "additionalProperties": False,
}


def _takes(schema: dict[str, Any]) -> dict[str, Any]:
    """A body that is read by the handler, once it knows who sends it: it may be large."""
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


async def _body(request: Request, model: type[Body]) -> Body:
    if request.headers.get("content-type", "").split(";")[0].strip().lower() != "application/json":
        raise HTTPException(415, "The body must be application/json.")
    data = await request.body()
    try:
        return await web_of(request).parsed(model.model_validate_json, data)
    except ValidationError as error:
        plain = error.errors(include_input=False, include_url=False, include_context=False)
        raise RequestValidationError(plain) from None


@router.post("/projects/{slug}/items", status_code=201, openapi_extra=_takes(_FEW_ITEMS))
async def add_items(
    slug: str,
    request: Request,
    session: Session,
    web: OurWeb,
    file: Annotated[str, Query(max_length=200)] = "",
) -> Any:
    """Add items to a draft: as JSON, or a whole file (``application/octet-stream``) whose name is
    ``file``; ``item=…``, ``text=…`` and so on name its columns.
    """
    spec = (await web.member(session, slug, MANAGERS)).spec
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if file and media == "application/octet-stream":
        wishes = request.query_params
        columns = {part: wishes[part] for part in formats.COLUMNS if wishes.get(part)} or None
        about: Any = {"spec": spec, "name": file, "columns": columns}
        upload = await web.parsed(formats.read_items, await request.body(), **about)
        op = adding_items(upload.items, upload.pictures)
    else:
        body = await _body(request, NewItems)
        op = adding_items([Item(**dict(item)) for item in body.items], {})
    return {"items": await web.long(session, slug, op)}


@router.delete("/projects/{slug}/imports/{batch}", status_code=204)
async def undo_import(slug: str, batch: Whole, session: Session, web: OurWeb) -> Response:
    """Take the items of an import out of a draft again."""
    await web.change(session, slug, MANAGERS, undoing(batch))
    return Response(status_code=204)


@router.get("/projects/{slug}")
async def project(slug: str, session: Session, web: OurWeb) -> Any:
    """State, specification, progress, systems and imports; what was committed to."""
    member = await web.member(session, slug, READERS)

    def op(work: Work) -> dict[str, Any]:
        row = projects.project_row(work, slug)
        plain = ("slug", "name", "state", "commitment", "root", "last_seq", "head")
        return {
            **{key: row[key] for key in plain},
            "spec": member.spec.to_dict(),
            "progress": projects.progress(work, member.project),
            "systems": projects.systems_of(work, member.project),
            "imports": projects.imports_of(work, member.project),
        }

    return await web.store.read_chained(member.project, op)


@router.put("/projects/{slug}/spec", status_code=204)
async def change_spec(slug: str, body: AnyJson, session: Session, web: OurWeb) -> Response:
    """Another specification of a draft."""
    spec = spec_of(body)
    change = projects.change_spec
    await web.change(session, slug, MANAGERS, lambda w, m, _: change(w, m.project, spec))
    return Response(status_code=204)


@router.get("/projects/{slug}/people")
async def people_of(slug: str, session: Session, web: OurWeb) -> Any:
    """Members, how annotators work, and open invitations; for auditors without names."""
    member = await web.member(session, slug, READERS)

    def op(work: Work) -> dict[str, Any]:
        found = people.invitations_of(work, member, now=time.time())
        known, raters = people.people_of(work, member), people.raters_of(work, member)
        return {"people": known, "raters": raters, "invitations": found}

    return await web.store.read(op)


@router.delete("/projects/{slug}/invitations/{invitation}", status_code=204)
async def revoke(slug: str, invitation: Whole, session: Session, web: OurWeb) -> Response:
    """Withdraw an invitation that was not used."""
    withdraw = people.revoke_invitation
    await web.change(session, slug, MANAGERS, lambda w, m, now: withdraw(w, m, invitation, now=now))
    return Response(status_code=204)


@router.get("/projects/{slug}/webhooks")
async def webhooks_of(slug: str, session: Session, web: OurWeb) -> Any:
    """The webhooks of a project, with their secrets."""
    member = await web.member(session, slug, MANAGERS)
    rows = await web.store.read(lambda work: webhooks.webhooks_of(work, member.project))
    key = web.settings.key
    return {"webhooks": [{**row, "secret": webhooks.secret_of(key, row)} for row in rows]}


@router.post("/projects/{slug}/webhooks", status_code=201)
async def add_webhook(slug: str, body: NewWebhook, session: Session, web: OurWeb) -> Any:
    """Call this address on answers, at closing, and when a check fails."""
    change = webhooks.changing(body.url, None, web.settings.webhook_hosts)
    row = await web.change(session, slug, MANAGERS, change)
    return {**row, "secret": webhooks.secret_of(web.settings.key, row)}


@router.delete("/projects/{slug}/webhooks/{webhook}", status_code=204)
async def drop_webhook(slug: str, webhook: Whole, session: Session, web: OurWeb) -> Response:
    """Call it no more; what waits for it is dropped."""
    await web.change(session, slug, MANAGERS, webhooks.changing(None, webhook, ()))
    return Response(status_code=204)


def adding_items(
    items: Sequence[Item], pictures: Mapping[str, Picture]
) -> Callable[[Store, Member], int]:
    """The long change that brings items and their pictures into a draft."""
    keep, shown = projects.import_in_steps, pictures.values()
    return lambda store, member: keep(store, member.project, items, shown, actor=member.alias)


def undoing(batch: int) -> Change[None]:
    """The change that takes an import out of a draft again."""
    undo = projects.undo_import
    return lambda w, member, now: undo(w, member.project, batch, actor=member.alias, now=now)


def _step(change: Callable[..., object]) -> Change[object]:
    return lambda work, member, now: change(work, member.project, actor=member.alias, now=now)


STEPS: dict[str, Change[object]] = {
    "open": _step(projects.open_project),
    "close": _step(projects.close_project),
}
"""From sealed to open, closed; sealing takes long (:meth:`Web.seal`)."""


def _serve_step(name: str, step: str, words: str) -> None:
    async def take(slug: str, session: Session, web: OurWeb) -> Any:
        if step == "seal":
            await web.seal(session, slug)

        def op(work: Work, member: Member, now: float) -> int:
            if step != "seal":
                STEPS[step](work, member, now)
            return member.project

        project = await web.change(session, slug, MANAGERS, op)
        return await web.store.read_chained(project, lambda work: projects.published(work, slug))

    router.post(f"/projects/{{slug}}/{step}", name=name, description=words)(take)


_serve_step("seal", "seal", "Draw everything random, and commit to it.")
_serve_step("open_", "open", "Begin to put questions.")
_serve_step("close", "close", "Stop asking, reveal the seed, and tell the head of the chain.")


@router.post("/projects/{slug}/invitations", status_code=201)
async def invite(slug: str, body: Invite, session: Session, web: OurWeb) -> Any:
    """Make an invitation; its link is shown once."""

    def op(work: Work, member: Member, now: float) -> str:
        return people.invite(work, member, role=body.role, pool=body.pool, days=body.days, now=now)

    token = await web.change(session, slug, MANAGERS, op)
    return {"token": token, "link": f"{web.settings.base_url.rstrip('/')}/join/{token}"}


@router.post("/projects/{slug}/systems", status_code=201, openapi_extra=_takes(_ANSWERS_OF))
async def add_system(slug: str, request: Request, session: Session, web: OurWeb) -> Any:
    """Add the answers of a system to a sealed project: the class by item name, or null; or commit
    to them. After the first answer a system is late, unless it was committed to.
    """
    await web.member(session, slug, MANAGERS)
    body = await _body(request, NewSystem)
    if body.answers is not None and body.commitment is None:
        late = await web.change(session, slug, MANAGERS, adding(body.name, body.answers, body.salt))
        return {"name": body.name, "answers": len(body.answers), "late": late}
    one = body.answers is None and body.salt is None and body.commitment is not None
    Refused.unless(one, "answers (with a salt) or a commitment must be given, one of them.")
    name, told, commit = body.name, str(body.commitment), projects.commit_system

    def op(work: Work, member: Member, now: float) -> None:
        commit(work, member.project, name, told, actor=member.alias, now=now)

    await web.change(session, slug, MANAGERS, op)
    return {"name": name, "commitment": told}


def adding(name: str, answers: projects.Answers, salt: str | None = None) -> Change[bool]:
    """The change that adds a system to a project; says whether it is late."""

    def op(work: Work, member: Member, now: float) -> bool:
        about: Any = {"actor": member.alias, "now": now, "salt": salt}
        system = projects.add_system(work, member.project, name, answers, **about)
        rows = projects.systems_of(work, member.project)
        return any(row["late"] for row in rows if row["id"] == system)

    return op


@router.post("/projects/{slug}/answers/{answer}/amend")
async def amend(slug: str, answer: Whole, body: Amend, session: Session, web: OurWeb) -> Any:
    """Write a change beside my last answer, which is final: the first final one counts."""
    return _answered(await web.amend(session, slug, answer=answer, key=body.key, value=body.value))


@router.post("/projects/{slug}/answers/{answer}/undo")
async def undo(slug: str, answer: Whole, session: Session, web: OurWeb) -> Any:
    """Take my last answer back, within 60 seconds and before another; I hold its question again."""
    return JSONResponse({"next": asked_json(await web.undo(session, slug, answer))})


@router.post("/projects/{slug}/leave", status_code=204)
async def leave(slug: str, session: Session, web: OurWeb) -> Response:
    """Make my last answer final now."""
    await web.leave(session, slug)
    return Response(status_code=204)


@router.post("/projects/{slug}/comments", status_code=201)
async def comment(slug: str, body: NewComment, session: Session, web: OurWeb) -> Any:
    """Comment on an item, or say that it is broken; for the managers, never in an estimate."""
    return {"comment": await web.comment(session, slug, **dict(body))}


@router.get("/projects/{slug}/comments")
async def comments(slug: str, session: Session, web: OurWeb) -> Any:
    """The comments on items, as they came."""
    member = await web.member(session, slug, MANAGERS)
    return {"comments": await web.store.read(lambda work: comments_of(work, member.project))}


@router.get("/projects/{slug}/live")
async def live(slug: str, session: Session, web: OurWeb) -> Any:
    """The estimates and checks now; the look is logged."""
    return (await web.live(await web.member(session, slug, READERS))).to_dict()


@router.get("/projects/{slug}/export", response_class=Response)
async def export(
    slug: str,
    session: Session,
    web: OurWeb,
    format: Annotated[str, Query(max_length=20)] = "archive",  # noqa: A002
) -> Response:
    """The project as a file: archive, jsonl, csv, parquet or label-studio."""
    return await export_response(web, session, slug, format)
