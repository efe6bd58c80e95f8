"""Who may change things: the session's cookie, the CSRF token that goes with it, and where a
request comes from.

A visitor without a session gets a random token as cookie too, which no table knows; its CSRF token
protects the sign-in form. Signing in always makes a new token, so a planted cookie gains nothing.
The CSRF token is HMAC-SHA-256(key, "csrf|" + SHA-256 of the cookie's token).
"""

from __future__ import annotations

import dataclasses
import functools
import hmac
import re
import urllib.parse
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from noracle.collect.errors import Forbidden
from noracle.collect.service import access
from noracle.errors import require

if TYPE_CHECKING:
    from fastapi import Request, Response

_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


class Oidc(NamedTuple):
    """An OpenID Connect provider, and our name and secret there."""

    issuer: str
    client: str
    secret: str = ""

    def __repr__(self) -> str:
        return f"Oidc(issuer={self.issuer!r}, client={self.client!r})"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class WebSettings:
    """How pages and the JSON interface behave.

    Parameters
    ----------
    base_url
        The address that people type, without a path: ``http://127.0.0.1:8000``,
        ``https://labels.example.org``.
    secure
        Whether people reach the server through TLS (its own, or a declared proxy's): ``__Host-``
        cookies that are Secure, and HSTS.
    key
        At least 32 random bytes of this server, kept in a file: they sign CSRF tokens.
    max_body, max_json, max_upload
        Bytes of an ordinary request; of items or answers as JSON, and as a file, from managers.
    sign_ins, sign_in_seconds
        Attempts to sign in or to join that are free: of one address at one account, of one known
        device, three times as many at one account from everywhere; after them the wait doubles up
        to this time. Ten times as many of one address in this time.
    answers_per_minute
        Questions and answers of one session, at each server process. It stops a script that runs
        away, no person.
    changes_per_minute
        Other changes and exports of one session.
    oidc
        Where people may sign in instead of with a password; None for nowhere.
    metrics_token
        If given, ``/metrics`` wants it as a bearer token; else it answers direct calls from this
        machine alone.
    webhook_hosts
        Hosts (``name`` or ``name:port``) that webhooks may call although they are private or
        without TLS.

    >>> WebSettings(base_url="http://127.0.0.1:8000", secure=False, key=bytes(range(32))).cookie
    'noracle'
    >>> sorted(WebSettings(base_url="https://labels.example.org", secure=True, key=bytes(range(32))).origins)
    ['https://labels.example.org']
    """

    base_url: str
    secure: bool
    key: bytes = dataclasses.field(repr=False)
    max_body: int = 256 * 1024
    max_json: int = 32 * 1024 * 1024
    max_upload: int = 256 * 1024 * 1024
    sign_ins: int = 10
    sign_in_seconds: float = 900.0
    answers_per_minute: int = 300
    changes_per_minute: int = 240
    session_seconds: int = 7 * 86400
    oidc: Oidc | None = None
    metrics_token: str | None = dataclasses.field(default=None, repr=False)
    webhook_hosts: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        parts = urllib.parse.urlsplit(self.base_url)
        fits = parts.scheme in ("http", "https") and parts.hostname and parts.path in ("", "/")
        more = parts.query or parts.fragment or "@" in parts.netloc
        rule = f"base_url must be http(s)://host[:port] without a path; got {self.base_url!r}."
        require(fits and not more, rule)
        rule = f"secure must be True for https and False for http; got {self.secure}"
        require(self.secure == (parts.scheme == "https"), f"{rule} for {self.base_url!r}.")
        for name in ("sign_ins", "answers_per_minute", "changes_per_minute"):
            value = getattr(self, name)
            require(value >= 1, f"{name} must be 1 or more; got {value}.")
        rule = f"key must be 32 random bytes or more; got {len(self.key)} bytes"
        random = len(self.key) >= 32 and len(set(self.key)) >= 8
        require(random, f"{rule}. Make one with secrets.token_bytes(32).")

    @property
    def hosts(self) -> frozenset[str]:
        """Values of the Host header that are ours; on a loopback address, its other names too."""
        return frozenset(origin.partition("://")[2] for origin in self.origins)

    @property
    def origins(self) -> frozenset[str]:
        """Values of the Origin header that are ours."""
        return _origins(self.base_url)

    @property
    def cookie(self) -> str:
        """Name of the session's cookie."""
        return "__Host-noracle" if self.secure else "noracle"

    @property
    def guest(self) -> str:
        """Cookie of a visitor: another name, as links from elsewhere must not replace the session."""
        return f"{self.cookie}-guest"

    @property
    def device(self) -> str:
        """Name of the cookie by which a browser is known in which somebody signed in."""
        return f"{self.cookie}-device"


@functools.cache
def _origins(base_url: str) -> frozenset[str]:
    parts = urllib.parse.urlsplit(base_url)
    names = _LOOPBACK if parts.hostname in ("127.0.0.1", "localhost", "::1") else ()
    port = "" if parts.port is None else f":{parts.port}"
    hosts = {parts.netloc.lower(), *(f"{name}{port}" for name in names)}
    return frozenset(f"{parts.scheme}://{host}" for host in hosts)


class Started(NamedTuple):
    """A session that began: its token, and that of the browser."""

    token: str
    device: str


class Newcomer(NamedTuple):
    """Who asks to be let in: the address, the session that ends, and the token of the browser."""

    address: str
    old: str | None
    device: str


def caller_of(request: Request, settings: WebSettings, old: str | None) -> Newcomer:
    """The caller of a request without a session."""
    address = request.client.host if request.client else "?"
    return Newcomer(address, old, request.cookies.get(settings.device, "")[:200])


Way = Literal["bearer", "cookie", "none"]
_TOKEN = re.compile(r"[A-Za-z0-9_-]{20,200}\Z")
_STRICT: Any = {"path": "/", "httponly": True, "samesite": "strict"}
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = f"""content-security-policy: {_POLICY}
x-content-type-options: nosniff
referrer-policy: no-referrer
x-frame-options: DENY
cross-origin-opener-policy: same-origin
cross-origin-resource-policy: same-origin
permissions-policy: camera=(), geolocation=(), microphone=()"""
HEADERS = [(name, value) for name, _, value in (s.partition(": ") for s in _HEADERS.split("\n"))]
"""On every response."""

HSTS = ("strict-transport-security", "max-age=31536000; includeSubDomains")
UNSAFE = frozenset({"POST", "PUT", "PATCH", "DELETE"})


def csrf_token(settings: WebSettings, token_hash: str) -> str:
    """The token that a form of this session carries."""
    return hmac.new(settings.key, b"csrf|" + token_hash.encode(), "sha256").hexdigest()


def first_token(key: bytes) -> str:
    """What the link to the first account carries: only who started the server has it."""
    return hmac.new(key, b"first account", "sha256").hexdigest()


def check_csrf(settings: WebSettings, token_hash: str | None, sent: str | None) -> None:
    """Refuse a change whose CSRF token is missing or belongs to another session."""
    wanted = None if token_hash is None else csrf_token(settings, token_hash).encode()
    if wanted is None or sent is None or not hmac.compare_digest(wanted, sent.encode()):
        raise Forbidden("The form is out of date or came from elsewhere. Load the page again.")


def token_of(request: Request, settings: WebSettings) -> tuple[str | None, Way]:
    """The session token of a request and the way it came; a bearer token goes before the cookie."""
    scheme, _, value = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        value = value.strip()
        return (value, "bearer") if _TOKEN.match(value) else (None, "bearer")
    value = request.cookies.get(settings.cookie, "")
    return (value, "cookie") if _TOKEN.match(value) else (None, "none")


def set_session(response: Response, settings: WebSettings, started: Started) -> None:
    """Give the browser its session, and the mark by which it is known at the next time."""
    set_cookie(response, settings, settings.cookie, started.token, settings.session_seconds)
    set_cookie(response, settings, settings.device, started.device, 400 * 86400)


def set_cookie(to: Response, settings: WebSettings, name: str, value: str, seconds: int) -> None:
    """A cookie that no script and no other site can use."""
    to.set_cookie(name, value, max_age=seconds, secure=settings.secure, **_STRICT)


def clear_session(response: Response, settings: WebSettings) -> None:
    """Take the session from the browser."""
    response.delete_cookie(settings.cookie, secure=settings.secure, **_STRICT)


def visitor(request: Request, settings: WebSettings) -> tuple[str, bool]:
    """The token of this browser, and whether it is a new one that must be set."""
    token, way = token_of(request, settings)
    if token is None or way != "cookie":
        token = request.cookies.get(settings.guest, "")
    return (token, False) if _TOKEN.match(token) else (access.new_token(), True)


def refused_origin(settings: WebSettings, method: str, headers: Mapping[str, str]) -> str | None:
    """Why a request must not change anything, or None.

    Browsers name where a request comes from: ``Sec-Fetch-Site`` where they know it, else ``Origin``
    (which is "null" for forms under our own Referrer-Policy, so it decides alone only where the
    other is missing). A program that sends neither has no cookies to abuse.

    >>> settings = WebSettings(base_url="http://127.0.0.1:8000", secure=False, key=bytes(range(32)))
    >>> refused_origin(settings, "POST", {"origin": "https://evil.example"})
    'The request came from another site.'
    >>> refused_origin(settings, "POST", {"sec-fetch-site": "same-origin", "origin": "null"})
    """
    if method not in UNSAFE:
        return None
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    foreign_site = site is not None and site not in ("same-origin", "none")
    ours = origin is None or origin.lower() in settings.origins
    foreign_origin = not ours and (origin != "null" or site is None)
    return "The request came from another site." if foreign_site or foreign_origin else None
