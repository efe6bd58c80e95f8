"""Servers that speak the protocol of OpenAI, Anthropic or Gemini, over httpx.

The key is read from the environment when a request is sent and put on the wire; no object keeps it,
and it is struck out of every text that comes back. It goes over plain http only to this machine,
never through a redirect, and a provider's key goes to no other server unless its variable is named.
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
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import quote, urlsplit

from noracle.errors import MissingExtra, require
from noracle.evidence.replies import Finish
from noracle.search.model import Completion, ModelError, Request, Usage

if TYPE_CHECKING:
    import httpx

OURS = "NORACLE_API_KEY"
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


def key_name(named: str | None, *others: str) -> str | None:
    """The environment variable that holds the key: the one that was named, else ours, else one of
    the ``others``, which are the provider's; None where none is set.
    """
    choices = (OURS, *others) if named is None else (named,)
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


LARGEST_REPLY = 16 * 2**20
_SPENT = re.compile("insufficient_quota|billing_hard_limit|credit balance", re.IGNORECASE)
_NO_KEY = re.compile("api.key.(?:not.valid|invalid|expired)", re.IGNORECASE)  # Gemini, status 400
_FINISH: dict[str, Finish] = {
    **dict.fromkeys(("length", "max_tokens", "model_context_window_exceeded"), "length"),
    **dict.fromkeys(("content_filter", "refusal", "safety", "recitation", "blocklist"), "refused"),
    **dict.fromkeys(("prohibited_content", "spii", "language", "image_safety"), "refused"),
}
_logger = logging.getLogger("noracle")


class OpenAIModel:
    """A model on a server that speaks OpenAI's chat protocol.

    Parameters
    ----------
    name
        The model, as the server calls it.
    base_url
        Up to and with the version (``/v1``); by default the provider's own.
    key_env
        The environment variable that holds the key; by default ``NORACLE_API_KEY``, then (for the
        provider's own server and for this machine) the provider's. None set: no key is sent.
    """

    own_url: ClassVar[str] = "https://api.openai.com/v1"
    _keys: ClassVar[tuple[str, ...]] = ("OPENAI_API_KEY",)
    _domain: ClassVar[str] = ".openai.com"
    _path: ClassVar[str] = "chat/completions"
    _optional: ClassVar[tuple[str, ...]] = ("response_format", "seed", "stop", "temperature")
    _newer: ClassVar[dict[str, str]] = {"max_tokens": "max_completion_tokens"}

    def __init__(
        self, name: str, *, base_url: str | None = None, key_env: str | None = None
    ) -> None:
        base_url = self.own_url if base_url is None else base_url
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
        self._theirs = self._keys if self.local or f".{host}".endswith(self._domain) else ()
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
        return f"{type(self).__name__}({self.name!r}, base_url={self.base_url!r})"

    async def complete(self, request: Request) -> Completion:
        """Send a request; fields that the server does not know are left out, once it said so."""
        dropped: set[str] = set()
        while True:
            fields = self._sent(request, self._refused | dropped)
            status, headers, data = await self._post(self._body(request, fields))
            said = self._clean(data) if status in {400, 422} else ""
            if not said or _SPENT.search(said) or _NO_KEY.search(said):
                break
            if not (drop := self._refused_fields(said, fields) - dropped):
                break
            dropped |= drop
        if status != 200:
            raise self._failure(status, headers, data)
        if dropped:
            named = ", ".join(sorted(dropped))
            _logger.warning("%s takes no %s; it is left out from now on", self.name, named)
            self._refused |= dropped
        return self._completion(data)

    async def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            loop, client = self._client
            self._client = None
            if loop is asyncio.get_running_loop():
                await client.aclose()

    def _sent(self, request: Request, refused: set[str]) -> dict[str, Any]:
        """The settings that this server takes."""
        given = self._settings(request)
        newer = {new: given[old] for old, new in self._newer.items() if old in refused}
        return {
            f: value for f, value in given.items() if f not in refused and value is not None
        } | newer

    def _settings(self, request: Request) -> dict[str, Any]:
        """The settings of a request by the names of the protocol; None is not sent."""
        schema = None
        if request.schema is not None:
            named = {"name": "reply", "schema": dict(request.schema)}
            schema = {"type": "json_schema", "json_schema": named}
        return {
            "temperature": request.temperature,
            "max_tokens": request.max_tokens,
            "stop": list(request.stop) or None,
            "seed": request.seed,
            "response_format": schema,
        }

    def _body(self, request: Request, fields: dict[str, Any]) -> dict[str, Any]:
        messages = [{"role": m.role, "content": m.text} for m in request.messages]
        return {"model": self.name, "messages": messages, **fields}

    def _refused_fields(self, said: str, fields: dict[str, Any]) -> set[str]:
        """The optional fields that an error names, or the two that servers most often lack."""
        known = {_folded(f): f for f in (*self._optional, *self._newer) if f in fields}
        try:
            param = json.loads(said)["error"]["param"]
        except (ValueError, TypeError, KeyError):
            param = None
        if isinstance(param, str) and _folded(param) in known:
            return {known[_folded(param)]}
        words = {_folded(word) for word in re.findall(r"\w+", said)}
        named = {known[word] for word in words & known.keys()}
        schema, seed = self._optional[:2]
        if "json_schema" in said and schema in fields:
            named.add(schema)
        return named or {field for field in (schema, seed) if field in fields}

    async def _post(self, body: dict[str, Any]) -> tuple[int, httpx.Headers, bytes]:
        """Status, headers and body of the reply; failures on the way are transient errors."""
        import httpx

        url = f"{self.base_url}/{self._path.replace('NAME', quote(self.name))}"
        content = json.dumps(body, default=dict).encode()
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
        return key_name(self._key_env, *self._theirs)

    def _sign(self, request: httpx.Request) -> httpx.Request:
        name = self._key()
        if name is not None and self._encrypted:
            request.headers.update(self._headers(key_value(name)))
        return request

    def _headers(self, key: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {key}"}

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
        failed = whole.get("error")
        read = self._read(whole)
        if failed and read is None:  # some gateways report failures with status 200
            code = _dict(failed).get("code")
            raise self._failure(code if isinstance(code, int) else 500, None, data)
        if read is None:
            raise ModelError(f"{self.name}: the reply holds no message.", transient=True)
        text, thought, ended, usage = read
        finish = _FINISH.get(ended.lower(), "stop")
        if not text.strip() and finish == "stop":
            text = thought or text  # some servers take the whole reply for a thought
        elif not text.strip() and finish == "length" and (thought or usage.output_tokens):
            said = (
                "%s used up all tokens of a reply before it answered; allow more (--reply-tokens)"
            )
            _logger.warning(said, self.name)
        finish = empty_or(finish, text)
        return Completion(text=self._clean(text, reply=True), finish=finish, usage=usage)

    def _read(self, whole: dict[str, Any]) -> tuple[str, str, str, Usage] | None:
        """Text, thoughts, why it ended and tokens; None where there is no message."""
        choice = _first(whole.get("choices"))
        message = choice.get("message")
        if not isinstance(message, dict):
            return None
        text, ended = _text(message.get("content")), str(choice.get("finish_reason"))
        refusal = _text(message.get("refusal"))
        if refusal and not text.strip():
            text, ended = refusal, "refusal"
        thought = _text(message.get("reasoning_content")) or _text(message.get("reasoning"))
        usage = _usage(whole.get("usage"), ("prompt_tokens",), ("completion_tokens",))
        return text, thought, ended, usage

    def _failure(self, status: int, headers: httpx.Headers | None, data: bytes) -> ModelError:
        """The error of a status, with the server's words (keys struck out) and what to do."""
        # Keys are struck out before the line is cut, so that no part of one is left.
        said = " ".join(self._clean(_said(data.decode("utf-8", "replace"))).split())
        said = said[:300].rstrip(".")
        if status == 401 or (status == 400 and _NO_KEY.search(said)):
            needed = f"a key is needed; set {OURS} or name its variable with key_env"
            held = f"the key in {used} is refused" if (used := self._key()) else needed
            return ModelError(f"{self.name}: {held} (status {status}).")
        if 300 <= status < 400:
            what = f"the server redirects (status {status})"
            return ModelError(f"{self.name}: {what}. Give the final address as base_url.")
        spent = _SPENT.search(said) is not None
        transient = not spent and may_pass(status)
        after = _retry_after(headers, data) if transient and headers is not None else None
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


def _folded(field: str) -> str:
    return field.replace("_", "").casefold()


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(content: object) -> str:
    """The text of a message, which may come in parts."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return ""


def _first(values: object) -> dict[str, Any]:
    return _dict(values[0] if isinstance(values, list) and values else None)


def _usage(usage: object, read: Sequence[str], written: Sequence[str]) -> Usage:
    """Tokens where the server says; zeros where not, which the caller replaces by an estimate."""
    said = _dict(usage)
    counts = [[said.get(name) for name in names] for names in (read, written)]
    fine = [[n for n in part if isinstance(n, int) and 0 <= n < 2**31] for part in counts]
    return Usage(*map(sum, fine))


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


def _retry_after(headers: httpx.Headers, data: bytes) -> float | None:
    """Seconds until the next try: milliseconds, seconds or a date; Gemini says it in the error."""
    seconds, text = headers.get("retry-after-ms"), headers.get("retry-after")
    after = math.nan
    with contextlib.suppress(ValueError):
        if seconds is not None:
            after = float(seconds) / 1000
        elif text is not None and text.replace(".", "", 1).isdigit():
            after = float(text)
        elif text is not None:
            after = email.utils.parsedate_to_datetime(text).timestamp() - time.time()
        elif told := re.search(rb'"retryDelay":\s*"(\d{1,9}(?:\.\d{1,9})?)s"', data[:100_000]):
            after = float(told[1])
    return max(0.0, after) if math.isfinite(after) else None


class AnthropicModel(OpenAIModel):
    """A model of Anthropic, over its messages protocol; parameters as in :class:`OpenAIModel`."""

    own_url = "https://api.anthropic.com/v1"
    _keys = ("ANTHROPIC_API_KEY",)
    _domain = ".anthropic.com"
    _path = "messages"
    _optional = ("output_config", "seed", "stop_sequences", "temperature")
    _newer: ClassVar[dict[str, str]] = {}

    def _headers(self, key: str) -> dict[str, str]:
        return {"x-api-key": key, "anthropic-version": "2023-06-01"}

    def _settings(self, request: Request) -> dict[str, Any]:
        schema = None if request.schema is None else dict(request.schema)
        return {
            "temperature": min(1.0, request.temperature),  # its scale ends at 1
            "max_tokens": request.max_tokens,
            "stop_sequences": list(request.stop) or None,
            "output_config": schema and {"format": {"type": "json_schema", "schema": schema}},
        }

    def _body(self, request: Request, fields: dict[str, Any]) -> dict[str, Any]:
        system = "\n\n".join(m.text for m in request.messages if m.role == "system")
        turns = [
            {"role": m.role, "content": m.text} for m in request.messages if m.role != "system"
        ]
        told = {"system": system} if system else {}
        return {"model": self.name, "messages": turns, **told, **fields}

    def _read(self, whole: dict[str, Any]) -> tuple[str, str, str, Usage] | None:
        parts = whole.get("content")
        if not isinstance(parts, list):
            return None
        thoughts = [_text(_dict(p).get("thinking")) for p in parts]
        read = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
        usage = _usage(whole.get("usage"), read, ("output_tokens",))
        return _text(parts), "".join(thoughts), str(whole.get("stop_reason")), usage


class GeminiModel(OpenAIModel):
    """A model of Google's Gemini API; parameters as in :class:`OpenAIModel`."""

    own_url = "https://generativelanguage.googleapis.com/v1beta"
    _keys = ("GEMINI_API_KEY", "GOOGLE_API_KEY")
    _domain = ".googleapis.com"
    _path = "models/NAME:generateContent"
    _optional = ("responseJsonSchema", "seed", "stopSequences", "temperature")
    _newer: ClassVar[dict[str, str]] = {}

    def _headers(self, key: str) -> dict[str, str]:
        return {"x-goog-api-key": key}

    def _settings(self, request: Request) -> dict[str, Any]:
        return {
            "temperature": request.temperature,
            "maxOutputTokens": request.max_tokens,
            "stopSequences": list(request.stop) or None,
            "seed": request.seed,
            "responseJsonSchema": None if request.schema is None else dict(request.schema),
        }

    def _body(self, request: Request, fields: dict[str, Any]) -> dict[str, Any]:
        kind = {"responseMimeType": "application/json"} if "responseJsonSchema" in fields else {}
        system = [{"text": m.text} for m in request.messages if m.role == "system"]
        names = {"user": "user", "assistant": "model"}
        turns = [(names[m.role], m.text) for m in request.messages if m.role in names]
        told = {"systemInstruction": {"parts": system}} if system else {}
        contents = [{"role": role, "parts": [{"text": text}]} for role, text in turns]
        return {"contents": contents, **told, "generationConfig": {**fields, **kind}}

    def _read(self, whole: dict[str, Any]) -> tuple[str, str, str, Usage] | None:
        read, written = ("promptTokenCount",), ("candidatesTokenCount", "thoughtsTokenCount")
        usage = _usage(whole.get("usageMetadata"), read, written)
        candidate = _first(whole.get("candidates"))
        if _dict(whole.get("promptFeedback")).get("blockReason"):
            return "", "", "refusal", usage
        if not candidate:
            return None
        parts = _dict(candidate.get("content")).get("parts")
        listed = [_dict(part) for part in parts] if isinstance(parts, list) else []
        said = _text([p for p in listed if not p.get("thought")])
        thought = _text([p for p in listed if p.get("thought")])
        return said, thought, str(candidate.get("finishReason")), usage
