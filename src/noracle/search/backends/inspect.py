"""Inspect's models (extra ``inspect``): every provider that Inspect knows, with its own keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from noracle.errors import ArgumentError, MissingExtra
from noracle.evidence.logs import FINISH
from noracle.search.backends.openai import api_keys, redact
from noracle.search.model import Completion, ModelError, Request, Usage

if TYPE_CHECKING:
    from inspect_ai.model import GenerateConfig, ModelOutput
    from inspect_ai.model import Model as Theirs

_PASSING = (
    "rate limit",
    "ratelimit",
    "too many requests",
    "overloaded",
    "timeout",
    "timed out",
    "connection",
    "unavailable",
    "server error",
)
_PASSING_STATUS = {408, 409, 425, 429}


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
        if isinstance(model, str):
            if "/" not in model:
                raise ArgumentError(f"model must be provider/name for Inspect; got {model!r}.")
            problem = ""
            try:
                mocked: dict[str, Any] = (
                    {"custom_outputs": _mock} if model.startswith("mockllm/") else {}
                )
                self._model = get_model(model, memoize=False, **mocked)
            except Exception as error:  # noqa: BLE001 - providers raise what they like; the user learns what and why
                problem = redact(f"{type(error).__name__}: {error}")
            if problem:
                raise ArgumentError(
                    f"model must be one that Inspect can open; {model!r} is not ({' '.join(problem.split())[:300]})."
                )
            self.name = model
        else:
            self._model = model
            self.name = str(model)

    async def complete(self, request: Request) -> Completion:
        """Let Inspect generate."""
        from inspect_ai.model import (
            ChatMessage,
            ChatMessageAssistant,
            ChatMessageSystem,
            ChatMessageUser,
        )

        kinds = {
            "system": ChatMessageSystem,
            "user": ChatMessageUser,
            "assistant": ChatMessageAssistant,
        }
        messages: list[ChatMessage] = [
            kinds[message.role](content=message.text) for message in request.messages
        ]
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


def _config(request: Request) -> GenerateConfig:
    from inspect_ai.model import GenerateConfig, ResponseSchema
    from inspect_ai.util import JSONSchema

    schema = None
    if request.schema is not None:
        schema = ResponseSchema(
            name="reply", json_schema=JSONSchema.model_validate(_plain(request.schema))
        )
    return GenerateConfig(
        temperature=request.temperature,
        max_tokens=request.max_tokens,
        stop_seqs=list(request.stop) or None,
        seed=request.seed,
        response_schema=schema,
        max_retries=0,
        max_connections=1000,  # the caller holds the queue
    )


def _completion(name: str, output: ModelOutput) -> Completion:
    if output.error:
        raise ModelError(redact(f"{name}: {output.error}"), transient=_may_pass(output.error, None))
    text = redact(output.completion if output.choices else "", *api_keys(), others=False)
    finish = FINISH.get(str(output.stop_reason) if output.choices else "", "stop")
    if not text.strip() and finish != "refused":
        finish = "empty"
    usage = Usage()
    if output.usage is not None:
        cached = (output.usage.input_tokens_cache_read or 0) + (
            output.usage.input_tokens_cache_write or 0
        )
        usage = Usage(output.usage.input_tokens + cached, output.usage.output_tokens)
    return Completion(text=text, finish=finish, usage=usage)


def _failure(name: str, error: Exception) -> ModelError:
    while type(error).__name__ == "RetryError" and isinstance(
        error.__cause__, Exception
    ):  # tenacity's wrapper
        error = error.__cause__
    status = getattr(error, "status_code", None)
    said = redact(f"{type(error).__name__}: {error}")
    return ModelError(
        f"{name}: {' '.join(said.split())[:300]}",
        transient=_may_pass(said, status if isinstance(status, int) else None),
    )


def _may_pass(said: str, status: int | None) -> bool:
    if status is not None:
        return status in _PASSING_STATUS or status >= 500
    return any(word in said.lower() for word in _PASSING)


def _plain(value: Any) -> Any:
    """Mappings as dicts, all the way down."""
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, list | tuple) else value


def _mock(*_: object) -> ModelOutput:
    """Inspect's mock model with its tokens said: without them it would reach for the network to
    count them.
    """
    from inspect_ai.model import ModelOutput, ModelUsage

    output = ModelOutput.from_content("mockllm/model", "Default output from mockllm/model")
    output.usage = ModelUsage(input_tokens=1, output_tokens=6, total_tokens=7)
    return output
