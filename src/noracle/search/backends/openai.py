"""Any server that speaks OpenAI's chat protocol, over httpx.

The key is read from the environment when a request is sent and put on the wire; no object keeps it,
and it is struck out of every text that comes back. It goes over plain http only to this machine,
never through a redirect, and OpenAI's own key goes to no other server unless its variable is named.
"""

from __future__ import annotations

import asyncio
import contextlib
import email.utils
import ipaddress
import json
import logging
import math
import os
import re
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from noracle.errors import MissingExtra, require
from noracle.evidence.replies import Finish
from noracle.search.model import Completion, ModelError, Request, Usage

if TYPE_CHECKING:
    import httpx

OURS, OPENAI = "NORACLE_API_KEY", "OPENAI_API_KEY"
SHORTEST_SECRET = 8  # shorter keys (x, EMPTY) are placeholders; striking them out spoils replies

_ENDINGS = ("_API_KEY", "_KEY", "_TOKEN", "_SECRET", "_PASSWORD")


def may_pass(status: int) -> bool:
    """Whether a call that failed with this status may work later."""
    return status in {408, 409, 425, 429} or (status >= 500 and status not in {501, 505})


def turned_down(status: object) -> bool:
    """Whether this status is about the request itself, so that it would come again."""
    return status in {400, 413, 414, 422, 451}


def empty_or(finish: Finish, text: str) -> Finish:
    """How a reply ended: one that says nothing is empty, unless it was refused."""
    return finish if text.strip() or finish == "refused" else "empty"


def key_name(named: str | None, *, openai: bool) -> str | None:
    """The environment variable that holds the key: the one that was named, else ours, else
    OpenAI's; None where none is set.

    ``openai`` says that the server is OpenAI's own or on this machine: OpenAI's key goes nowhere
    else unless its variable is named.
    """
    if named is not None:
        return named if os.environ.get(named) else None
    choices = (OURS, OPENAI) if openai else (OURS,)
    return next((name for name in choices if os.environ.get(name)), None)


def key_value(name: str) -> str:
    """The key in this variable; refused here where a library would quote it in an error."""
    value = os.environ[name].strip()
    fine = value.isascii() and value.isprintable() and " " not in value
    rule = "must hold a key of printable ASCII characters without spaces"
    require(fine, f"{name} {rule}; it does not. Set it again.")
    return value


def api_keys() -> tuple[str, ...]:
    """The names of all environment variables that hold keys of models, by their ending."""
    return tuple(name for name in os.environ if name.upper().endswith("_API_KEY"))


def redact(text: str, *names: str | None, others: bool = True) -> str:
    """Strike out the values of these environment variables.

    With ``others`` (right for errors, too rough for replies) also those of every variable whose
    name says that it holds a secret.

    Examples
    --------
    >>> os.environ["EXAMPLE_API_KEY"] = "very-secret-key"
    >>> redact("Wrong key: very-secret-key")
    'Wrong key: [key]'
    >>> del os.environ["EXAMPLE_API_KEY"]
    """
    secret = [n for n in os.environ if n in names or (others and n.upper().endswith(_ENDINGS))]
    for value in sorted({os.environ[name].strip() for name in secret}, key=len, reverse=True):
        if len(value) >= SHORTEST_SECRET:
            text = text.replace(value, "[key]").replace(quote(value, safe=""), "[key]")
    return text


DEFAULT_BASE_URL = "https://api.openai.com/v1"
LARGEST_REPLY = 16 * 2**20
_SPENT = re.compile("insufficient_quota|billing_hard_limit|credit balance", re.IGNORECASE)
_OPTIONAL = ("response_format", "seed", "stop", "temperature")
_NEWER = {"max_tokens": "max_completion_tokens"}
_FINISH: dict[str, Finish] = {
    "length": "length",
    "max_tokens": "length",
    "content_filter": "refused",
    "refusal": "refused",
}
_logger = logging.getLogger("noracle")


class OpenAIModel:
    """A model on a server that speaks OpenAI's chat protocol.

    Parameters
    ----------
    name
        The model, as the server calls it.
    base_url
        Up to and with ``/v1``.
    key_env
        The environment variable that holds the key; by default ``NORACLE_API_KEY``, then (for
        OpenAI's own server and for this machine) ``OPENAI_API_KEY``. None set: no key is sent.
    """

    def __init__(
        self, name: str, *, base_url: str = DEFAULT_BASE_URL, key_env: str | None = None
    ) -> None:
        require(name.strip(), "model must have a name; got an empty one.")
        parts = urlsplit(base_url)
        secret = parts.username or parts.password or parts.query or parts.fragment
        rule = "must hold no user, password, query or fragment"
        require(not secret, f"base_url {rule}. Put the key into the environment.")
        host, rule = parts.hostname or "", "must begin with https:// or http:// and name a host"
        fine = parts.scheme in {"http", "https"} and host
        require(fine, f"base_url {rule}; got {redact(base_url, key_env)!r}.")
        self.name, self.base_url, self._key_env = name, base_url.rstrip("/"), key_env
        self.local = _loopback(host)
        self._openai = self.local or f".{host}".endswith(".openai.com")
        self._encrypted = parts.scheme == "https" or self.local
        used = self._key()
        rule = "must be https where a key is sent to another machine"
        came = f"{self.base_url!r} is not, and {used} is set"
        remedy = "Use https, or unset it for a server that needs none."
        require(used is None or self._encrypted, f"base_url {rule}; {came}. {remedy}")
        came = f"{key_env!r} is not. Set it, or leave key_env out"
        rule = "must name an environment variable that is set"
        require(key_env is None or used, f"key_env {rule}; {came}.")
        if used is not None:
            key_value(used)
        self._client: tuple[asyncio.AbstractEventLoop, httpx.AsyncClient] | None = None
        self._refused: set[str] = set()

    def __repr__(self) -> str:
        return f"OpenAIModel({self.name!r}, base_url={self.base_url!r})"

    async def complete(self, request: Request) -> Completion:
        """Send a request; fields that the server does not know are left out, once it said so."""
        body = self._body(request)
        status, headers, data = await self._post(body)
        dropped: set[str] = set()
        while (
            status in {400, 422}
            and not _SPENT.search(said := self._clean(data))
            and (drop := _refused_fields(said, body) - dropped)
        ):
            dropped |= drop
            body = self._body(request, without=dropped)
            status, headers, data = await self._post(body)
        if status != 200:
            raise self._failure(status, headers, data)
        if dropped:
            fields = ", ".join(sorted(dropped))
            _logger.warning("%s takes no %s; it is left out from now on", self.name, fields)
            self._refused |= dropped
        return self._completion(data)

    async def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            loop, client = self._client
            self._client = None
            if loop is asyncio.get_running_loop():
                await client.aclose()

    def _body(self, request: Request, *, without: set[str] | None = None) -> dict[str, Any]:
        refused = self._refused | (without or set())
        body: dict[str, Any] = {
            "model": self.name,
            "messages": [{"role": m.role, "content": m.text} for m in request.messages],
            "temperature": request.temperature,
            "max_tokens": request.max_tokens,
        }
        body |= {"stop": list(request.stop)} if request.stop else {}
        body |= {"seed": request.seed} if request.seed is not None else {}
        if request.schema is not None:
            schema = {"name": "reply", "schema": dict(request.schema)}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        newer = {new: body[old] for old, new in _NEWER.items() if old in refused}
        return {field: value for field, value in body.items() if field not in refused} | newer

    async def _post(self, body: dict[str, Any]) -> tuple[int, httpx.Headers, bytes]:
        """Status, headers and body of the reply; failures on the way are transient errors."""
        import httpx

        url, content = f"{self.base_url}/chat/completions", json.dumps(body, default=dict).encode()
        post = self._connected().stream("POST", url, content=content, auth=self._sign)
        try:
            async with post as response:
                data = bytearray()
                async for chunk in response.aiter_bytes():
                    data += chunk
                    if len(data) > LARGEST_REPLY:
                        most = LARGEST_REPLY // 2**20
                        raise ModelError(f"{self.name}: the reply is larger than {most} MiB.")
                return response.status_code, response.headers, bytes(data)
        except (httpx.TransportError, httpx.DecodingError) as error:
            problem = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        # raised out here, so that the error holds no request and so no header
        failed = f"{self.name}: no whole reply from {self.base_url} ({problem})."
        raise ModelError(self._clean(failed), transient=True)

    def _key(self) -> str | None:
        return key_name(self._key_env, openai=self._openai)

    def _sign(self, request: httpx.Request) -> httpx.Request:
        name = self._key()
        if name is not None and self._encrypted:
            request.headers["Authorization"] = f"Bearer {key_value(name)}"
        return request

    def _connected(self) -> httpx.AsyncClient:
        """The client of the running event loop."""
        try:
            import httpx
        except ImportError as error:
            raise MissingExtra("A model on a server", "httpx", "search") from error

        loop = asyncio.get_running_loop()
        if self._client is None or self._client[0] is not loop:
            client = httpx.AsyncClient(
                timeout=httpx.Timeout(None, connect=10.0),  # the caller holds the clock
                limits=httpx.Limits(max_keepalive_connections=64),  # and the queue
                headers={"Content-Type": "application/json", "Accept": "application/json"},
                trust_env=not self.local,  # no proxy on the way to this machine
            )
            self._client = (loop, client)
        return self._client[1]

    def _completion(self, data: bytes) -> Completion:
        """Nothing said is ``empty``; a filter's or the model's own refusal is ``refused``."""
        try:
            whole = json.loads(data)
            what = "" if isinstance(whole, dict) else f"{type(whole).__name__}, not an object"
        except (ValueError, RecursionError):
            what = f"not JSON ({len(data)} bytes)"
        if what:
            raise ModelError(f"{self.name}: the reply is {what}.", transient=True)
        choices, failed = whole.get("choices"), whole.get("error")
        if failed and not choices:  # some gateways report failures with status 200
            code = _dict(failed).get("code")
            raise self._failure(code if isinstance(code, int) else 500, None, data)
        choice = _dict(choices[0] if isinstance(choices, list) and choices else None)
        message = choice.get("message")
        if not isinstance(message, dict):
            raise ModelError(f"{self.name}: the reply holds no message.", transient=True)
        text, refusal = _text(message.get("content")), _text(message.get("refusal"))
        finish = _FINISH.get(str(choice.get("finish_reason")), "stop")
        if refusal and not text.strip():
            text, finish = refusal, "refused"
        finish, usage = empty_or(finish, text), _usage(whole.get("usage"))
        return Completion(text=self._clean(text, reply=True), finish=finish, usage=usage)

    def _failure(self, status: int, headers: httpx.Headers | None, data: bytes) -> ModelError:
        """The error of a status, with the server's words (keys struck out) and what to do."""
        # Keys are struck out before the line is cut, so that no part of one is left.
        said = " ".join(self._clean(_said(data.decode("utf-8", "replace"))).split())
        said = said[:300].rstrip(".")
        if status == 401:
            needed = "a key is needed; set NORACLE_API_KEY or name its variable with key_env"
            held = f"the key in {used} is refused" if (used := self._key()) else needed
            return ModelError(f"{self.name}: {held} (status 401).")
        if 300 <= status < 400:
            what = f"the server redirects (status {status})"
            return ModelError(f"{self.name}: {what}. Give the final address as base_url.")
        spent = _SPENT.search(said) is not None
        transient = not spent and may_pass(status)
        after = _retry_after(headers) if transient and headers is not None else None
        more = "" if after is None else f" It asks to wait {after:g} s."
        if status == 404:
            more += " Check the name of the model and base_url, which mostly ends in /v1."
        what = f"{self.name}: status {status}{f': {said}' if said else ''}.{more}"
        refused = turned_down(status) and not spent
        return ModelError(what, transient=transient, after=after, refused=refused)

    def _clean(self, text: str | bytes, *, reply: bool = False) -> str:
        if isinstance(text, bytes):
            text = text.decode("utf-8", "replace")
        return redact(text, self._key(), others=not reply)


def _loopback(host: str) -> bool:
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return f".{host}".endswith(".localhost")


def _refused_fields(said: str, body: dict[str, Any]) -> set[str]:
    """The optional fields that an error names, or the two that servers most often lack."""
    fields = [field for field in (*_OPTIONAL, *_NEWER) if field in body]
    try:
        param = json.loads(said)["error"]["param"]
    except (ValueError, TypeError, KeyError):
        param = None
    if param in fields:
        return {param}
    named = {field for field in fields if re.search(rf"\b{field}\b", said)}
    if "json_schema" in said and "response_format" in fields:
        named.add("response_format")
    return named or {field for field in ("response_format", "seed") if field in body}


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(content: object) -> str:
    """The text of a message, which may come in parts."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return ""


def _usage(usage: object) -> Usage:
    """Tokens where the server says; zeros where not, which the caller replaces by an estimate."""
    counts = [_dict(usage).get(name) for name in ("prompt_tokens", "completion_tokens")]
    return Usage(*(n if isinstance(n, int) and 0 <= n < 2**31 else 0 for n in counts))


def _said(text: str) -> str:
    """The message of an error; never what was sent, which some servers quote."""
    try:
        whole = _dict(json.loads(text))
    except ValueError:
        return text
    error, detail = whole.get("error", whole), whole.get("detail")
    if isinstance(error, dict) and isinstance(error.get("message"), str):
        return str(error["message"]) + (f" ({error['code']})" if error.get("code") else "")
    if isinstance(error, str):
        return error
    if isinstance(detail, list):
        parts = [part for part in detail if isinstance(part, dict)]
        return "; ".join(f"{part.get('loc')}: {part.get('msg')}" for part in parts)
    return detail if isinstance(detail, str) else ""


def _retry_after(headers: httpx.Headers) -> float | None:
    """Seconds until the next try: milliseconds, seconds or a date."""
    seconds, text = headers.get("retry-after-ms"), headers.get("retry-after")
    after = math.nan
    with contextlib.suppress(ValueError):
        if seconds is not None:
            after = float(seconds) / 1000
        elif text is not None and text.replace(".", "", 1).isdigit():
            after = float(text)
        elif text is not None:
            after = email.utils.parsedate_to_datetime(text).timestamp() - time.time()
    return max(0.0, after) if math.isfinite(after) else None
