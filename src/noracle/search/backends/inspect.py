"""Inspect's models (extra ``inspect``): every provider that Inspect knows, with its own keys."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from noracle.errors import MissingExtra, require
from noracle.evidence.logs import FINISH
from noracle.search.backends.server import api_keys, empty_or, may_pass, redact, turned_down
from noracle.search.model import Completion, ModelError, Request, Usage

if TYPE_CHECKING:
    from inspect_ai.model import ChatMessage, GenerateConfig, ModelOutput
    from inspect_ai.model import Model as Theirs

_PASSING = re.compile(
    "rate ?limit|too many requests|overloaded|timeout|timed out|connection|unavailable|server error",
    re.IGNORECASE,
)


_LOCAL = ("mockllm", "hf", "ollama", "llama-cpp-python", "vllm", "sglang", "transformer_lens")


class InspectModel:
    """A model of Inspect, by its name (``provider/model``) or as an object of
    ``inspect_ai.model.get_model``.

    Inspect's own cache and retries are off: ours do that. Errors that look as if they may pass are
    tried again.
    """

    def __init__(self, model: str | Theirs) -> None:
        try:
            from inspect_ai.model import get_model
        except ImportError as error:
            raise MissingExtra("A model of Inspect", "inspect_ai", "inspect") from error
        problem, self.name = "", str(model)
        self.local = self.name.partition("/")[0] in _LOCAL
        if not isinstance(model, str):
            self._model = model
            return
        require("/" in model, f"model must be provider/name for Inspect; got {model!r}.")
        mocked: dict[str, Any] = {"custom_outputs": _mock} if model.startswith("mockllm/") else {}
        try:
            self._model = get_model(model, memoize=False, **mocked)
        except Exception as error:  # noqa: BLE001 - providers raise what they like; the user learns what and why
            problem = " ".join(redact(f"{type(error).__name__}: {error}").split())[:300]
        rule = "must be one that Inspect can open"
        require(not problem, f"model {rule}; {model!r} is not ({problem}).")

    async def complete(self, request: Request) -> Completion:
        """Let Inspect generate."""
        messages = chat_messages(request)
        try:
            output = await self._model.generate(messages, config=_config(request), cache=False)
        except Exception as error:  # noqa: BLE001 - each provider has errors of its own
            failure = _failure(self.name, error)
        else:
            return _completion(self.name, output)
        raise failure  # out here, so that the error holds none of the provider's objects

    async def close(self) -> None:
        """Close the provider's connections."""
        await self._model.api.aclose()


def chat_messages(request: Request) -> list[ChatMessage]:
    """The turns of a request as Inspect has them."""
    from inspect_ai.model import ChatMessageAssistant, ChatMessageSystem, ChatMessageUser

    users = {"system": ChatMessageSystem, "user": ChatMessageUser}
    turns = {**users, "assistant": ChatMessageAssistant}
    return [turns[message.role](content=message.text) for message in request.messages]


def settings(request: Request) -> dict[str, Any]:
    """The settings of a request by the names of Inspect's ``GenerateConfig``."""
    same = {name: getattr(request, name) for name in ("temperature", "max_tokens", "seed")}
    return {**same, "stop_seqs": list(request.stop) or None}


def _config(request: Request) -> GenerateConfig:
    from inspect_ai.model import GenerateConfig, ResponseSchema
    from inspect_ai.util import JSONSchema

    schema = None
    if request.schema is not None and "$defs" not in request.schema:  # Inspect knows no references
        plain = JSONSchema.model_validate(_plain(request.schema))
        schema = ResponseSchema(name="reply", json_schema=plain)
    # Retries and the queue are the caller's.
    ours = {"response_schema": schema, "max_retries": 0, "max_connections": 1000}
    return GenerateConfig(**settings(request) | ours)


def _completion(name: str, output: ModelOutput) -> Completion:
    if output.error:
        passing = _PASSING.search(output.error) is not None
        raise ModelError(redact(f"{name}: {output.error}"), transient=passing)
    if not output.choices:
        raise ModelError(f"{name}: the reply holds no message.", transient=True)
    text = redact(output.completion, *api_keys(), others=False)
    finish = FINISH.get(str(output.stop_reason), "stop")
    usage, said = Usage(), output.usage
    if said is not None:
        cached = (said.input_tokens_cache_read or 0) + (said.input_tokens_cache_write or 0)
        usage = Usage(said.input_tokens + cached, said.output_tokens)
    return Completion(text=text, finish=empty_or(finish, text), usage=usage)


def _failure(name: str, error: Exception) -> ModelError:
    # tenacity's wrapper
    while type(error).__name__ == "RetryError" and isinstance(error.__cause__, Exception):
        error = error.__cause__
    status = getattr(error, "status_code", None)
    said = redact(f"{type(error).__name__}: {error}")
    passing = may_pass(status) if isinstance(status, int) else bool(_PASSING.search(said))
    how: Any = {"transient": passing, "refused": turned_down(status)}
    return ModelError(f"{name}: {' '.join(said.split())[:300]}", **how)


def _plain(value: Any) -> Any:
    """Mappings as dicts, all the way down."""
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, list | tuple) else value


def _mock(*_: object) -> ModelOutput:
    """Inspect's mock model with its tokens said, so that it does not reach for the network."""
    from inspect_ai.model import ModelOutput, ModelUsage

    output = ModelOutput.from_content("mockllm/model", "Default output from mockllm/model")
    output.usage = ModelUsage(input_tokens=1, output_tokens=6, total_tokens=7)
    return output
