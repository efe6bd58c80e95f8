"""The records of a call to a model: a name, and requests that become completions or raise
:class:`ModelError`.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from typing import Any, Literal, Protocol

from noracle.errors import NoracleError, require
from noracle.evidence.replies import Finish, State

Role = Literal["system", "user", "assistant"]
LONGEST_WAIT = 300.0
"""Seconds; a server that asks for a longer pause fails the call."""
STATES: tuple[State, ...] = ("answered", "invalid", "refused", "errored")


def at_least(least: int, **values: float | None) -> None:
    """Refuse arguments below a bound; None is no value."""
    for name, value in values.items():
        fine = value is None or not value < least
        require(fine, f"{name} must be at least {least}; got {value}.")


class ModelError(NoracleError):
    """A call failed. ``transient`` says that it may work later; ``after`` says in how many seconds,
    where the server said so.

    ``refused`` says that the server turned this very request down (it is too long, say) and would
    do so again: that is an outcome. Every other failure says nothing about the request.
    """

    def __init__(
        self,
        message: str,
        *,
        transient: bool = False,
        after: float | None = None,
        refused: bool = False,
    ) -> None:
        super().__init__(message)
        self.transient, self.after, self.refused = transient, after, refused

    @property
    def stays(self) -> bool:
        """Whether other calls would fail too, for a long time: a wrong key, an empty quota."""
        return not (self.transient or self.refused) or (self.after or 0.0) > LONGEST_WAIT


class BudgetReached(NoracleError):
    """A cap was reached: no further call is made."""


@dataclasses.dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation.

    Examples
    --------
    >>> Message("user", "Which is even?").role
    'user'
    """

    role: Role
    text: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is asked of a model.

    ``replicate`` tells apart repeated draws of one question, so that five samples are five calls
    and a second run repeats none of them. ``schema`` is a JSON schema for the text, where the
    server can hold to one. ``seed`` is passed on where a server takes one.
    """

    messages: tuple[Message, ...]
    temperature: float = 0.0
    max_tokens: int = 1024
    stop: tuple[str, ...] = ()
    seed: int | None = None
    replicate: int = 0
    schema: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        require(self.messages, "messages must hold at least one message; got none.")
        heat = self.temperature
        require(0 <= heat <= 2, f"temperature must be in [0, 2]; got {heat}.")
        at_least(1, max_tokens=self.max_tokens)

    def digest(self, model: str) -> str:
        """The address of this call: SHA-256 over the model and everything that may change its
        answer; never a key.

        Examples
        --------
        >>> request = Request(messages=(Message("user", "Hello"),))
        >>> request.digest("m") == Request(messages=(Message("user", "Hello"),), replicate=1).digest("m")
        False
        """
        whole = {"model": model, **dataclasses.asdict(self), "temperature": float(self.temperature)}
        text = json.dumps(whole, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


@dataclasses.dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one call or of many; they add.

    Examples
    --------
    >>> Usage(10, 2) + Usage(5, 1)
    Usage(input_tokens=15, output_tokens=3)
    """

    input_tokens: int = 0
    output_tokens: int = 0

    @property
    def total(self) -> int:
        """Tokens read and written."""
        return self.input_tokens + self.output_tokens

    def __add__(self, o: Usage) -> Usage:
        return Usage(self.input_tokens + o.input_tokens, self.output_tokens + o.output_tokens)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """What a model said. ``cached`` says that nothing was paid for it now.

    Examples
    --------
    >>> Completion(text="ANSWER: B", usage=Usage(20, 4)).finish
    'stop'
    """

    text: str
    finish: Finish = "stop"
    usage: Usage = Usage()
    cached: bool = False


class Model(Protocol):
    """Anything that completes requests. ``name`` goes into the address of a call, so it names the
    weights, not the server.
    """

    name: str

    async def complete(self, request: Request) -> Completion:
        """Answer a request, or raise :class:`ModelError`."""

    async def close(self) -> None:
        """Let go of connections."""


class Calls(Protocol):
    """What an interpreter, a judge or a designer needs: a way to call one model through cache, caps
    and retries.
    """

    async def call(self, request: Request) -> Completion:
        """Answer a request; raises :class:`ModelError` after the last try and
        :class:`BudgetReached` at a cap.
        """
