"""Signing in at an OpenID Connect provider: authorization code with PKCE, state and nonce.

An account there (issuer, subject) is linked once: to the person with the same verified e-mail, who
joined by an invitation before, or to whoever opens an invitation with it. Nobody becomes a member
by it alone. What belongs to one attempt stands in a signed cookie, which ends after ten minutes.
"""

from __future__ import annotations

import hmac
import json
import secrets
import time
import urllib.parse
from typing import Any, NamedTuple

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse

from noracle.collect.errors import Forbidden, NotFound, SignedOut, Unavailable
from noracle.collect.service import people
from noracle.collect.service.access import token_hash
from noracle.collect.store.base import SQL, Work
from noracle.collect.web.page import Guest
from noracle.collect.web.security import WebSettings, set_session
from noracle.errors import MissingExtra, NoracleError

router = APIRouter(include_in_schema=False)
_SECONDS, _PATH = 600, "/sign-in/oidc"
_ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "ES256", "ES384", "EdDSA"]


class Identity(NamedTuple):
    """Who the provider says that this is; the e-mail only where it was verified."""

    issuer: str
    subject: str
    email: str
    name: str


class Attempt(NamedTuple):
    """What the browser brings back."""

    state: str
    nonce: str
    verifier: str
    join: str
    until: float


def _client(settings: WebSettings) -> Any:
    try:
        from authlib.integrations import httpx_client  # type: ignore[import-untyped]
    except ImportError:
        raise MissingExtra("OpenID Connect", "authlib", "oidc") from None
    oidc = NotFound.given(settings.oidc, "There is no such page.")
    back = f"{settings.base_url.rstrip('/')}{_PATH}/back"
    about = {"scope": "openid email profile", "redirect_uri": back, "timeout": 10.0}
    about |= {"code_challenge_method": "S256"}
    return httpx_client.AsyncOAuth2Client(oidc.client, oidc.secret or None, **about)


async def _json(client: Any, url: str, **how: bool) -> Any:
    return (await client.request("GET", url, **how)).raise_for_status().json()


async def _known(client: Any, issuer: str) -> dict[str, Any]:
    """What the provider says about itself; it must be the issuer that we trust."""
    where = f"{issuer.rstrip('/')}/.well-known/openid-configuration"
    found = await _json(client, where, withhold_token=True)
    Unavailable.unless(found.get("issuer") == issuer, "The provider names another issuer.")
    return dict(found)


def _signed(settings: WebSettings, text: str) -> str:
    return hmac.new(settings.key, b"oidc|" + text.encode(), "sha256").hexdigest()


@router.get(_PATH)
async def begin(page: Guest, join: str = "") -> Response:
    """To the provider."""
    settings = page.web.settings
    state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
    attempt = Attempt(state, nonce, verifier, join[:200], time.time() + _SECONDS)
    async with _client(settings) as client:
        known = await _asking(_known(client, settings.oidc.issuer))  # type: ignore[union-attr]
        where, about = known["authorization_endpoint"], {"state": state, "nonce": nonce}
        url, _ = client.create_authorization_url(where, code_verifier=verifier, **about)
    text = urllib.parse.quote(json.dumps(attempt))
    response = RedirectResponse(url, status_code=303)
    # Lax, because the way back is a link from another site.
    how: Any = {"path": _PATH, "httponly": True, "samesite": "lax", "secure": settings.secure}
    cookie = f"{text}.{_signed(settings, text)}"
    response.set_cookie("noracle-oidc", cookie, max_age=_SECONDS, **how)
    return response


async def _asking(call: Any) -> Any:
    """Whatever the provider does wrong is told as one thing."""
    try:
        return await call
    except NoracleError:
        raise
    except Exception as error:  # networks, tokens and JSON fail each in its own way
        rule = "The provider of sign-ins does not answer as it must"
        raise Unavailable(f"{rule} ({type(error).__name__}).") from error


def _attempt(request: Request, settings: WebSettings) -> Attempt:
    text, _, mark = request.cookies.get("noracle-oidc", "").rpartition(".")
    if hmac.compare_digest(_signed(settings, text).encode(), mark.encode()):
        attempt = Attempt(*json.loads(urllib.parse.unquote(text)))
        sent = request.query_params.get("state", "").encode()
        if attempt.until > time.time() and hmac.compare_digest(attempt.state.encode(), sent):
            return attempt
    raise Forbidden("This sign-in was not begun here, or too long ago. Begin again.")


@router.get(f"{_PATH}/back")
async def back(page: Guest) -> Response:
    """From the provider, with a code."""
    attempt, code = _attempt(page.request, page.web.settings), page.request.query_params.get("code")
    if not code:
        raise SignedOut("The provider did not let you in.")
    who = await _asking(_identify(page.web.settings, attempt, code))
    person, email = await page.web.store.write(lambda work: _person(work, who, attempt))
    started = await page.web.start(person, page.caller, email=email)
    # A page of our own goes on: a redirect would still count as a link from another site.
    words: Any = {"title": page.say("You are signed in"), "status": 200, "detail": ""}
    words |= {"request_id": "", "back": "/", "back_words": page.say("To the projects")}
    response = page.render("message.html", **words)
    set_session(response, page.web.settings, started)
    response.headers["refresh"] = "0; url=/"
    response.delete_cookie("noracle-oidc", path=_PATH)
    return response


async def _identify(settings: WebSettings, attempt: Attempt, code: str) -> Identity:
    from joserfc import jwt
    from joserfc.jwk import KeySet

    async with _client(settings) as client:
        issuer = settings.oidc.issuer  # type: ignore[union-attr]
        known = await _known(client, issuer)
        about = {"code_verifier": attempt.verifier, "grant_type": "authorization_code"}
        token = await client.fetch_token(known["token_endpoint"], code=code, **about)
        keys = await _json(client, known["jwks_uri"], withhold_token=True)
        read = jwt.decode(token["id_token"], KeySet.import_key_set(keys), algorithms=_ALGORITHMS)
        must: Any = {"iss": issuer, "aud": client.client_id, "nonce": attempt.nonce}
        rules = {name: {"essential": True, "value": value} for name, value in must.items()}
        essential: Any = {"exp": {"essential": True}, "sub": {"essential": True}, **rules}
        jwt.JWTClaimsRegistry(leeway=60, **essential).validate(read.claims)
        claims = dict(read.claims)
        if "email" not in claims and "userinfo_endpoint" in known:
            more = await _json(client, known["userinfo_endpoint"])
            claims = {**more, **claims} if more.get("sub") == claims["sub"] else claims
    email = str(claims.get("email", "")) if claims.get("email_verified") is True else ""
    return Identity(issuer, str(claims["sub"]), email, str(claims.get("name") or email))


def _person(work: Work, who: Identity, attempt: Attempt) -> tuple[int, str]:
    """The person of an identity, linked now if need be; number and e-mail."""
    found = work.one(SQL.identity, issuer=who.issuer, subject=who.subject)
    if found is None:
        rule = "This account is not linked to anybody here"
        remedy = "Open your invitation and sign in from there, with a verified e-mail."
        Forbidden.unless(who.email, f"{rule}. {remedy}")
        found, now = people.find_person(work, who.email), time.time()
        if found is None:
            Forbidden.unless(attempt.join, f"{rule}. {remedy}")
            account = {"email": who.email, "name": who.name, "password_hash": ""}
            people.add_person(work, now=now, **account)
            found = people.find_person(work, who.email) or {}
        about = {"issuer": who.issuer, "subject": who.subject}
        work.run(SQL.add_identity, person=int(found["id"]), **about)
    person = int(found["id"])
    if attempt.join:
        people.accept_invitation(work, token_hash(attempt.join), person=person, now=time.time())
    return person, str(found["email"])
