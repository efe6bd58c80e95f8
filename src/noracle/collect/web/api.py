"""The JSON interface, ``/api/v1``: a cookie with ``X-CSRF-Token``, or ``Authorization: Bearer``."""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine
from typing import Annotated, Any, Literal, TypeVar

from fastapi import APIRouter, Depends, HTTPException, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, FiniteFloat, ValidationError

from noracle.collect import formats
from noracle.collect.errors import Forbidden, Refused, SignedOut
from noracle.collect.model import Answered, HeldQuestion, Item, ProjectSpec, visible
from noracle.collect.service import access, answers, people, projects, webhooks
from noracle.collect.service.access import ANNOTATORS, READERS, Member
from noracle.collect.service.answers import LONGEST_COMMENT, comments_of
from noracle.collect.store.base import SQL, Work
from noracle.collect.web import security
from noracle.collect.web.core import Requester, Web, web_of
from noracle.collect.web.page import export_response, language_of
from noracle.collect.web.pages import may_create
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


FileName = Annotated[str, Query(max_length=200)]
Format = Annotated[str, Query(max_length=20)]
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


class Reset(Strict):
    """The new password."""

    password: Text


class NewPassword(Reset):
    """The old password, and the new one."""

    old: Text


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


_CONTENT = {"application/problem+json": {"schema": {"type": "object"}}}
_PROBLEM = {"description": "Refused (RFC 9457)", "content": _CONTENT}
_REFUSED: Any = dict.fromkeys((400, 401, 403, 404, 409, 413, 415, 422, 429), _PROBLEM)
router = APIRouter(prefix="/api/v1", responses=_REFUSED, default_response_class=JSONResponse)

Body = TypeVar("Body", bound=BaseModel)
ONLY_MANAGERS = "Only people who own or manage a project, or are in none yet, begin one."


async def caller(request: Request) -> Requester:
    """Who calls; a cookie must bring its CSRF token when something changes."""
    web = web_of(request)
    token, way = security.token_of(request, web.settings)
    hashed = access.token_hash(SignedOut.given(token))
    if way == "cookie" and request.method in security.UNSAFE:
        security.check_csrf(web.settings, hashed, request.headers.get("x-csrf-token"))
    return Requester(web, hashed)


Ask = Annotated[Requester, Depends(caller)]


def asked_json(asked: HeldQuestion | None) -> dict[str, Any] | None:
    """A question as its person may see it."""
    if asked is None:
        return None
    names = ("question", "key", "content", "options", "shown", "lease_until", "done")
    return {name: getattr(asked, name) for name in names} | {"content": visible(asked.content)}


def _answered(kept: Answered) -> dict[str, Any]:
    plain = {"answer": kept.answer, "revision": kept.revision, "again": kept.again}
    return {**plain, "next": asked_json(kept.next)}


def _begin(web: Web, started: security.Started, bearer: bool = False, **values: object) -> Response:
    """The reply that begins a session."""
    if bearer:
        return JSONResponse({**values, "token": started.token})
    csrf = security.csrf_token(web.settings, access.token_hash(started.token))
    response = JSONResponse({**values, "csrf": csrf})
    security.set_session(response, web.settings, started)
    return response


def _ended(web: Web) -> Response:
    response = Response(status_code=204)
    security.clear_session(response, web.settings)
    return response


def _visitor(request: Request) -> tuple[Web, security.Newcomer]:
    """Where a caller without a session comes from, and the session that a new one ends."""
    web = web_of(request)
    token, _ = security.token_of(request, web.settings)
    old = None if token is None else access.token_hash(token)
    return web, security.caller_of(request, web.settings, old)


def _takes(schema: dict[str, Any]) -> dict[str, Any]:
    """A body that is read by the handler, once it knows who sends it: it may be large."""
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def _media(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def read_body(model: type[Body], media: str, data: bytes) -> Body:
    """A body out of its JSON."""
    if media != "application/json":
        raise HTTPException(415, "The body must be application/json.")
    try:
        return model.model_validate_json(data)
    except ValidationError as error:
        plain = error.errors(include_input=False, include_url=False, include_context=False)
        raise RequestValidationError([{**e, "loc": ("body", *e["loc"])} for e in plain]) from None


class Quick(APIRoute):
    """A route whose handler gets the request: FastAPI's dependencies take longer than an answer."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """What answers a request."""

        async def handle(request: Request) -> Response:
            found: Response = await self.endpoint(request=request, **request.path_params)
            return found

        return handle


# the two calls of every click; first, because routes are tried in order
async def next_question(slug: str, request: Request) -> JSONResponse:
    """The question that I hold, else the next one; ``null`` if there is none now."""
    ask = await caller(request)
    return JSONResponse({"next": asked_json(await ask.next(slug))})


async def answer(slug: str, request: Request) -> JSONResponse:
    """Answer the question that I hold; the same key again gives the same reply again."""
    ask = await caller(request)
    body = read_body(AnswerBody, _media(request), await request.body())
    return JSONResponse(_answered(await ask.answer(slug, **dict(body))))


_quick: Any = {"methods": ["POST"], "route_class_override": Quick}
_described: Any = {**_quick, "openapi_extra": _takes(AnswerBody.model_json_schema())}
router.add_api_route("/projects/{slug}/next", next_question, **_quick)
router.add_api_route("/projects/{slug}/answers", answer, **_described)


@router.post("/session")
async def sign_in(body: SignIn, request: Request) -> Response:
    """Begin a session."""
    web, newcomer = _visitor(request)
    token, person = await web.sign_in(body.email, body.password, newcomer)
    return _begin(web, token, bearer=body.bearer, name=person["name"])


@router.delete("/session", status_code=204)
async def sign_out(ask: Ask) -> Response:
    """End the session."""
    await ask.sign_out()
    return _ended(ask.web)


@router.delete("/sessions", status_code=204)
async def sign_out_everywhere(ask: Ask) -> Response:
    """End all my sessions."""
    await ask.sign_out(everywhere=True)
    return _ended(ask.web)


@router.post("/password", status_code=204)
async def change_password(body: NewPassword, ask: Ask) -> None:
    """Change my password; all other sessions end."""
    await ask.change_password(body.old, body.password)


@router.post("/resets/{token}")
async def reset(token: str, body: Reset, request: Request) -> Response:
    """Set a new password with a link of a manager, and begin a session."""
    web, newcomer = _visitor(request)
    return _begin(web, await web.reset(token, body.password, newcomer))


@router.post("/projects/{slug}/people/{alias}/reset", status_code=201)
async def reset_link(slug: str, alias: str, ask: Ask) -> Any:
    """A link that sets a new password of a member, once, for a day."""
    token = await ask.change(slug, people.reset_link, alias)
    return {"token": token, "link": ask.web.link("reset", token)}


@router.delete("/projects/{slug}/people/{alias}", status_code=204)
async def remove_member(slug: str, alias: str, ask: Ask) -> None:
    """End a membership; the answers stay under the alias."""
    await ask.change(slug, people.remove_member, alias)


@router.post("/invitations/{token}")
async def join(token: str, body: Join, request: Request) -> Response:
    """Accept an invitation: as who is signed in (all fields empty), or with an account."""
    web, newcomer = _visitor(request)
    if not body.email:
        person = await (await caller(request)).signed_in()
        member = await web.accept(token, person.id)
        return JSONResponse({"project": member.slug, "role": member.role, "pools": member.pools})
    account = {**dict(body), "locale": language_of(request)}
    fresh, member = await web.join(token, newcomer, **account)
    return _begin(web, fresh, project=member.slug, role=member.role, pools=member.pools)


@router.get("/projects")
async def my_projects(ask: Ask) -> Any:
    """My projects."""
    me = (await ask.signed_in()).id
    rows = await ask.web.store.read(projects.projects_of, me)
    return {"projects": [dict(row) for row in rows]}


@router.post("/projects", status_code=201)
async def create(body: NewProject, ask: Ask) -> Any:
    """Begin a project."""
    return await create_project(ask, slug=body.slug, name=body.name, spec=spec_of(body.spec))


async def create_project(ask: Requester, **draft: Any) -> dict[str, Any]:
    """A draft (``slug, name, spec``) of which the caller is the owner."""
    now = ask.slow_down()

    def op(work: Work) -> dict[str, Any]:
        person = SignedOut.given(access.who(work, ask.session, now=now))
        Forbidden.unless(may_create(work, person.id), ONLY_MANAGERS)
        projects.create_project(work, owner=person.id, now=now, **draft)
        return {"slug": draft["slug"], "state": "draft"}

    return await ask.web.store.write(op)


def spec_of(values: dict[str, Any]) -> ProjectSpec:
    """A specification out of JSON; whatever is wrong with it is the sender's fault."""
    try:
        return ProjectSpec.from_dict(values)
    except NoracleError as error:
        raise Refused(str(error)) from error
    except (TypeError, ValueError, AttributeError, KeyError) as error:
        rule = "spec must hold values of the right types"
        raise Refused(f"{rule}; {type(error).__name__}.") from error


_ITEMS = {**NewItems.model_json_schema(), "$defs": {}}
_ITEMS["properties"] = {"items": {"type": "array", "items": NewItem.model_json_schema()}}


@router.post("/projects/{slug}/items", status_code=201, openapi_extra=_takes(_ITEMS))
async def add_items(slug: str, request: Request, ask: Ask, file: FileName = "") -> Any:
    """Add items to a draft, as JSON or a file named ``file``; ``item=…``, ``text=…`` are columns."""
    spec = (await ask.member(slug)).spec
    if file and _media(request) == "application/octet-stream":
        wishes = request.query_params
        columns = {part: wishes[part] for part in formats.COLUMNS if wishes.get(part)} or None
        about: Any = {"spec": spec, "name": file, "columns": columns}
        upload = await ask.web.parsed(formats.read_items, await request.body(), **about)
    else:
        body = await ask.web.parsed(read_body, NewItems, _media(request), await request.body())
        upload = formats.Upload(items=[Item(**dict(item)) for item in body.items], pictures={})
    return {"items": await add_upload(ask, slug, upload)}


async def add_upload(ask: Requester, slug: str, upload: formats.Upload) -> int:
    """Bring items and their pictures into a draft; takes long."""
    shown = upload.pictures.values()
    return await ask.long(slug, projects.import_in_steps, upload.items, shown)


@router.delete("/projects/{slug}/imports/{batch}", status_code=204)
async def undo_import(slug: str, batch: Whole, ask: Ask) -> None:
    """Take the items of an import out of a draft again."""
    await ask.change(slug, STEPS["undo"], batch)


@router.get("/projects/{slug}")
async def project(slug: str, ask: Ask) -> Any:
    """State, specification, progress, systems and imports; what was committed to."""
    member = await ask.member(slug, READERS)

    def op(work: Work) -> dict[str, Any]:
        row, number = projects.project_row(work, slug), member.project
        plain = ("slug", "name", "state", "commitment", "root", "last_seq", "head")
        told = {**{key: row[key] for key in plain}, "spec": member.spec.to_dict()}
        return told | state_of(work, number)

    return await ask.web.store.read_chained(member.project, op)


def state_of(work: Work, project: int) -> dict[str, Any]:
    """How far a project is, its systems and its imports."""
    progress, systems = projects.progress(work, project), projects.systems_of(work, project)
    imports = work.all(SQL.imports, project=project)
    return {"progress": progress, "systems": systems, "imports": imports}


@router.put("/projects/{slug}/spec", status_code=204)
async def change_spec(slug: str, body: AnyJson, ask: Ask) -> None:
    """Another specification of a draft."""
    await ask.change(slug, STEPS["spec"], spec_of(body))


@router.get("/projects/{slug}/people")
async def people_of(slug: str, ask: Ask) -> Any:
    """Members, how annotators work, and open invitations; for auditors without names."""
    return await ask.web.store.read(everybody, await ask.member(slug, READERS))


def everybody(work: Work, member: Member) -> dict[str, Any]:
    """Members, how annotators work, and open invitations."""
    found = people.invitations_of(work, member, now=time.time())
    known, raters = people.people_of(work, member), people.raters_of(work, member)
    return {"people": known, "raters": raters, "invitations": found}


@router.delete("/projects/{slug}/invitations/{invitation}", status_code=204)
async def revoke(slug: str, invitation: Whole, ask: Ask) -> None:
    """Withdraw an invitation that was not used."""
    await ask.change(slug, people.revoke_invitation, invitation)


@router.get("/projects/{slug}/webhooks")
async def webhooks_of(slug: str, ask: Ask) -> Any:
    """The webhooks of a project, with their secrets."""
    rows = await ask.web.store.read(webhooks.webhooks_of, (await ask.member(slug)).project)
    key = ask.web.settings.key
    return {"webhooks": [{**row, "secret": webhooks.secret_of(key, row)} for row in rows]}


@router.post("/projects/{slug}/webhooks", status_code=201)
async def add_webhook(slug: str, body: NewWebhook, ask: Ask) -> Any:
    """Call this address on answers, at closing, and when a check fails."""
    address = webhooks.check_url(body.url, ask.web.settings.webhook_hosts)
    row = await ask.change(slug, webhooks.add_webhook, address)
    return {**row, "secret": webhooks.secret_of(ask.web.settings.key, row)}


@router.delete("/projects/{slug}/webhooks/{webhook}", status_code=204)
async def drop_webhook(slug: str, webhook: Whole, ask: Ask) -> None:
    """Call it no more; what waits for it is dropped."""
    await ask.change(slug, webhooks.remove_webhook, webhook)


def _step(change: Callable[..., Any]) -> Callable[..., Any]:
    """A change of a project, as one by a member of it."""
    return lambda work, member, *sent, **about: change(
        work, member.project, *sent, actor=member.alias, **about
    )


STEPS = {
    "spec": lambda work, member, spec, **_: projects.change_spec(work, member.project, spec),
    "undo": _step(projects.undo_import),
    "open": _step(projects.open_project),
    "close": _step(projects.close_project),
}
"""What changes a project, by its name in the form of the set-up; sealing takes long."""
_add_system, _commit_system = _step(projects.add_system), _step(projects.commit_system)


async def published_of(slug: str, ask: Requester) -> Any:
    """What is to be published of a project, once every event is chained."""
    project = (await ask.member(slug, READERS)).project
    return await ask.web.store.read_chained(project, lambda work: projects.published(work, slug))


@router.post("/projects/{slug}/seal")
async def seal(slug: str, ask: Ask) -> Any:
    """Draw everything random, and commit to it."""
    await ask.long(slug, projects.seal_in_steps)
    return await published_of(slug, ask)


@router.post("/projects/{slug}/open")
async def open_(slug: str, ask: Ask) -> Any:
    """Begin to put questions."""
    await ask.change(slug, STEPS["open"])
    return await published_of(slug, ask)


@router.post("/projects/{slug}/close")
async def close(slug: str, ask: Ask) -> Any:
    """Stop asking, reveal the seed, and tell the head of the chain."""
    await ask.change(slug, STEPS["close"])
    return await published_of(slug, ask)


@router.post("/projects/{slug}/invitations", status_code=201)
async def invite(slug: str, body: Invite, ask: Ask) -> Any:
    """Make an invitation; its link is shown once."""
    token = await ask.change(slug, people.invite, **dict(body))
    return {"token": token, "link": ask.web.link("join", token)}


_SYSTEM = _takes(NewSystem.model_json_schema())


@router.post("/projects/{slug}/systems", status_code=201, openapi_extra=_SYSTEM)
async def add_system(slug: str, request: Request, ask: Ask) -> Any:
    """Add the answers of a system to a sealed project: the class by item name, or null; or commit
    to them. After the first answer a system is late, unless it was committed to.
    """
    await ask.member(slug)
    body = await ask.web.parsed(read_body, NewSystem, _media(request), await request.body())
    if body.answers is not None and body.commitment is None:
        late = await ask.change(slug, adding, body.name, body.answers, salt=body.salt)
        return {"name": body.name, "answers": len(body.answers), "late": late}
    one = body.answers is None and body.salt is None and body.commitment is not None
    Refused.unless(one, "answers (with a salt) or a commitment must be given, one of them.")
    await ask.change(slug, _commit_system, body.name, body.commitment)
    return {"name": body.name, "commitment": body.commitment}


def adding(work: Work, member: Member, *sent: object, **about: object) -> bool:
    """Add a system (name, answers) to a project; says whether it is late."""
    system = _add_system(work, member, *sent, **about)
    rows = projects.systems_of(work, member.project)
    return any(row["late"] for row in rows if row["id"] == system)


@router.post("/projects/{slug}/answers/{answer}/amend")
async def amend(slug: str, answer: Whole, body: Amend, ask: Ask) -> Any:
    """Write a change beside my last answer, which is final: the first final one counts."""
    return _answered(await ask.amend(slug, answer=answer, **dict(body)))


@router.post("/projects/{slug}/answers/{answer}/undo")
async def undo(slug: str, answer: Whole, ask: Ask) -> Any:
    """Take my last answer back, within 60 seconds and before another; I hold its question again."""
    return JSONResponse({"next": asked_json(await ask.undo(slug, answer))})


@router.post("/projects/{slug}/leave", status_code=204)
async def leave(slug: str, ask: Ask) -> None:
    """Make my last answer final now."""
    await ask.change(slug, answers.leave, roles=ANNOTATORS)


@router.post("/projects/{slug}/comments", status_code=201)
async def comment(slug: str, body: NewComment, ask: Ask) -> Any:
    """Comment on an item, or say that it is broken; for the managers, never in an estimate."""
    said = dict(body)
    return {"comment": await ask.change(slug, answers.add_comment, roles=ANNOTATORS, **said)}


@router.get("/projects/{slug}/comments")
async def comments(slug: str, ask: Ask) -> Any:
    """The comments on items, as they came."""
    return {"comments": await ask.web.store.read(comments_of, (await ask.member(slug)).project)}


@router.get("/projects/{slug}/live")
async def live(slug: str, ask: Ask) -> Any:
    """The estimates and checks now; the look is logged."""
    return (await ask.web.live(await ask.member(slug, READERS))).to_dict()


@router.get("/projects/{slug}/export", response_class=Response)
async def export(slug: str, ask: Ask, format: Format = "archive") -> Response:  # noqa: A002
    """The project as a file: archive, jsonl, csv, parquet or label-studio."""
    return await export_response(ask, slug, format)
