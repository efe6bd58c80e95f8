"""One visit of a page: who, in which language, with which token; templates; forms that were sent."""

from __future__ import annotations

import dataclasses
import functools
import gettext
import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import jinja2
from fastapi import Depends, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from markupsafe import Markup

from noracle.collect.errors import CollectError, NotFound, Refused, SignedOut
from noracle.collect.model import ProjectSpec
from noracle.collect.service import access, exports
from noracle.collect.service.access import READERS, Person
from noracle.collect.service.exports import FORMATS
from noracle.collect.service.projects import note
from noracle.collect.web import security
from noracle.collect.web.core import Requester, web_of

LANGUAGES: Mapping[str, str] = {"en": "English", "de": "Deutsch"}
FOLDER = Path(__file__).parent / "locale"


class Words:
    """One language.

    >>> Words("de").say("Sign in")
    'Anmelden'
    >>> Words("en").count("%(n)s answer", "%(n)s answers", 2)
    '2 answers'
    """

    def __init__(self, language: str) -> None:
        self.language = language if language in LANGUAGES else "en"
        wish = [self.language]
        self._catalogue = gettext.translation("noracle", FOLDER, languages=wish, fallback=True)

    def say(self, message: str, **values: object) -> str:
        """The message with ``%(name)s`` filled in."""
        text = self._catalogue.gettext(message)
        return text % values if values else text

    def count(self, one: str, many: str, n: int, **values: object) -> str:
        """The message for one or for n, with ``%(n)s`` filled in."""
        return self._catalogue.ngettext(one, many, n) % {"n": n, **values}


words = functools.cache(Words)


def choose(*wishes: str | None, accept: str = "") -> str:
    """The first wish that we have; else the best of an Accept-Language header; else English.

    >>> choose(None, "fr", accept="fr-CH, de;q=0.8, en;q=0.9")
    'en'
    >>> choose("de", accept="en")
    'de'
    """
    for wish in wishes:
        if wish is not None and wish in LANGUAGES:
            return wish
    best, most = "en", 0.0
    for part in accept[:200].split(","):
        tag, _, weight = part.strip().partition(";q=")
        try:
            quality = float(weight) if weight else 1.0
        except ValueError:
            continue
        language = tag.split("-")[0].lower()
        if language in LANGUAGES and quality > most:
            best, most = language, quality
    return best


HERE = Path(__file__).parent
LANGUAGE_COOKIE = "noracle-language"
Say = Callable[..., str]


@functools.cache
def environment() -> jinja2.Environment:
    """The templates; everything is escaped, undefined names are errors."""
    trim: Any = {"trim_blocks": True, "lstrip_blocks": True}
    loader, strict = jinja2.FileSystemLoader(HERE / "templates"), jinja2.StrictUndefined
    env = jinja2.Environment(loader=loader, autoescape=True, undefined=strict, **trim)
    env.globals.update(static=static_url, languages=LANGUAGES)
    env.filters["xy"] = lambda value: f"{value:.1f}".rstrip("0").rstrip(".")
    return env


@functools.cache
def static_url(name: str) -> str:
    """The address of a static file, with a mark of its content so that browsers may keep it."""
    mark = hashlib.sha256((HERE / "static" / name).read_bytes()).hexdigest()
    return f"/static/{name}?{mark[:12]}"


def group_name(spec: ProjectSpec, pool: int | None, _: Say) -> str:
    """A pool in words: the class whose experts it holds, or the place in the design."""
    if pool is None or spec.drawn:
        return ""
    if spec.protocol == "partitioned" and 0 <= pool < spec.n_classes:
        return _("Class: %(name)s", name=spec.classes[pool].name)
    return _("Place %(n)s", n=pool + 1)


@dataclasses.dataclass(frozen=True, slots=True)
class SentFile:
    """A file that was sent; of its name only the ending counts."""

    name: str
    data: bytes = dataclasses.field(repr=False)


Fields = dict[str, str | SentFile]


@dataclasses.dataclass(slots=True)
class Page(Requester):
    """One request for a page."""

    request: Request
    token: str
    fresh: bool
    person: Person | None
    words: Words
    status: int = 200
    told: dict[str, object] = dataclasses.field(default_factory=dict)

    @classmethod
    async def visit(cls, request: Request, *, signed_in: bool = True) -> Page:
        """Find out who this is; raises SignedOut where somebody must be signed in."""
        web = web_of(request)
        token, fresh = security.visitor(request, web.settings)
        session = access.token_hash(token)
        person = None if fresh else await web.person(session)
        if signed_in and person is None:
            raise SignedOut
        said = words(language_of(request, person))
        return cls(web, session, request, token, fresh, person, said)

    @property
    def caller(self) -> security.Newcomer:
        """Who asks to be let in."""
        return security.caller_of(self.request, self.web.settings, self.session)

    @property
    def partial(self) -> bool:
        """Whether only a part of the page is wanted."""
        return self.request.headers.get("hx-request") == "true"

    def say(self, message: str, **values: object) -> str:
        """A message in the reader's language."""
        return self.words.say(message, **values)

    def refused(self, error: CollectError, **told: object) -> Page:
        """The same page, which will show what was wrong and what was written."""
        said = self.say("E-mail or password is wrong.")
        text = said if isinstance(error, SignedOut) else str(error)
        self.status, self.told = error.status, {**told, "error": text}
        return self

    async def form(self, *, files: int = 0) -> Fields:
        """The fields that were sent, once their CSRF token fits."""
        fields: Fields = {}
        most = self.web.settings.max_body
        reading = self.request.form(max_files=files, max_fields=2500, max_part_size=most)
        async with reading as data:
            sent = data.get("csrf")
            csrf = sent if isinstance(sent, str) else None
            security.check_csrf(self.web.settings, self.session, csrf)
            for name, value in data.multi_items():
                if isinstance(value, str):
                    check_text(value, name)
                    fields.setdefault(name, value)
                else:
                    last = (value.filename or "").replace("\\", "/").rsplit("/", 1)[-1]
                    plain = "".join(c for c in last if c.isprintable())[-100:]
                    fields.setdefault(name, SentFile(plain, await value.read()))
        return fields

    def render(self, template: str, **values: object) -> Response:
        """The page as HTML."""
        csrf = security.csrf_token(self.web.settings, self.session)
        field = Markup('<input type="hidden" name="csrf" value="{}">').format(csrf)
        _, settings, path = self.words.say, self.web.settings, self.request.url.path
        said = {"_": _, "ngettext": self.words.count, "lang": self.words.language}
        here = {"oidc": settings.oidc is not None, "person": self.person, "path": path}
        usual = {"csrf_field": lambda: field, "member": None, "notice": "", "error": ""}
        names = environment().get_template("names.html").make_module({**said, "path": path})
        context = {**said, "names": names, **here, **usual, **values, **self.told}
        page = environment().get_template(template).render(context)
        response = HTMLResponse(page, status_code=self.status)
        if self.fresh:
            name, seconds = settings.guest, settings.session_seconds
            security.set_cookie(response, settings, name, self.token, seconds)
        return response

    def go(self, path: str, *, started: security.Started | None = None) -> Response:
        """On to another page, with a GET; perhaps with a new session."""
        response = RedirectResponse(path, status_code=303)
        if started is not None:
            security.set_session(response, self.web.settings, started)
        return response


def language_of(request: Request, person: Person | None = None) -> str:
    """The reader's language: chosen on the page, else the account's, else the browser's."""
    account = None if person is None else person.locale
    accept = request.headers.get("accept-language", "")
    return choose(request.cookies.get(LANGUAGE_COOKIE), account, accept=accept)


def check_text(text: str, name: str) -> None:
    """Refuse what no database keeps: NUL and halves of surrogate pairs."""
    broken = "\x00" in text or any("\ud800" <= c <= "\udfff" for c in text)
    Refused.unless(not broken, f"{name} must not contain NUL or broken characters.")


def text(form: Fields, name: str, *, most: int = 2000) -> str:
    """A field of text."""
    value = form.get(name, "")
    if not isinstance(value, str) or len(value) > most:
        raise Refused(f"{name} must be text of at most {most} characters.")
    return value if name in ("password", "old") else value.strip()


async def _visitor(request: Request) -> Page:
    return await Page.visit(request, signed_in=False)


async def _signed_in(request: Request) -> Page:
    return await Page.visit(request)


# What a handler asks for: a page for anybody, or for somebody who is signed in.
Guest = Annotated[Page, Depends(_visitor)]
Visit = Annotated[Page, Depends(_signed_in)]


async def export_response(ask: Requester, slug: str, kind: str) -> Response:
    """A project as a file to download; that it was taken is logged first."""
    NotFound.unless(kind in FORMATS, "There is no such format.")
    await ask.change(slug, note, "exported", roles=READERS, format=kind)
    project = (await ask.member(slug, READERS)).project
    op = functools.partial(exports.export_one, project=project, kind=kind)
    name, media, data = await ask.web.store.read_chained(project, op)
    ask.web.metrics.event("export")
    headers = {"content-disposition": f'attachment; filename="{name}"'}
    return Response(data, media_type=media, headers=headers)
