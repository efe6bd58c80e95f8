"""Who answers: a server of OpenAI's, Anthropic's or Gemini's protocol, Inspect's models, a script, a
recording.
"""

from __future__ import annotations

from noracle.errors import require
from noracle.search.backends.inspect import InspectModel
from noracle.search.backends.scripted import ReplayModel, ScriptedModel
from noracle.search.backends.server import AnthropicModel, GeminiModel, OpenAIModel
from noracle.search.model import Model

_SERVERS = {"": OpenAIModel, "anthropic": AnthropicModel, "gemini": GeminiModel}


def kind_of(spec: str) -> str:
    """What stands before the colon of a line that names a model; empty for OpenAI's protocol."""
    kind = spec.partition(":")[0]
    known = kind != spec and kind in {*_SERVERS, "inspect", "script", "replay"}
    return kind if known else ""


def open_model(spec: str, *, base_url: str | None = None, key_env: str | None = None) -> Model:
    """The model that a line of text names.

    ========================== ====================================================================================
    ``NAME``                   on a server that speaks OpenAI's protocol, at ``base_url`` (default: OpenAI's own)
    ``anthropic:NAME``         of Anthropic, or on a server at ``base_url`` that speaks its messages protocol
    ``gemini:NAME``            of Google's Gemini API, or on a server at ``base_url`` that speaks it
    ``inspect:PROVIDER/NAME``  one of Inspect's models (extra ``inspect``); its keys are Inspect's matter
    ``script:FILE``            replies out of a JSON file, see :class:`ScriptedModel`
    ``replay:FILE``            replies out of a recording; ``replay:FILE#NAME`` where it holds several models
    ========================== ====================================================================================

    Examples
    --------
    >>> open_model("llama", base_url="http://127.0.0.1:8080/v1").name
    'llama'
    """
    kind = kind_of(spec)
    rest = spec.partition(":")[2] if kind else spec
    require(rest or not kind, f"model must name something after '{kind}:'; got {spec!r}.")
    if kind in _SERVERS:
        return _SERVERS[kind](rest, base_url=base_url, key_env=key_env)
    came = f"got them with {spec!r}. Leave them out"
    server = base_url is not None or key_env is not None
    require(not server, f"base_url and key_env are for servers; {came}.")
    if kind == "inspect":
        return InspectModel(rest)
    if kind == "script":
        return ScriptedModel.read(rest)
    path, _, name = rest.rpartition("#")
    return ReplayModel(path, model=name) if path else ReplayModel(rest)


__all__ = ["InspectModel", "OpenAIModel", "ReplayModel", "ScriptedModel", "open_model"]
