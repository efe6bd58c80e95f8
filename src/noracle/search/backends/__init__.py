"""Who answers: a server that speaks OpenAI's protocol, Inspect's models, a script, a recording."""

from __future__ import annotations

from noracle.errors import require
from noracle.search.backends.inspect import InspectModel
from noracle.search.backends.openai import DEFAULT_BASE_URL, OpenAIModel
from noracle.search.backends.scripted import ReplayModel, ScriptedModel
from noracle.search.model import Model


def open_model(spec: str, *, base_url: str | None = None, key_env: str | None = None) -> Model:
    """The model that a line of text names.

    ========================== ====================================================================================
    ``NAME``                   on a server that speaks OpenAI's protocol, at ``base_url`` (default: OpenAI's own)
    ``inspect:PROVIDER/NAME``  one of Inspect's models (extra ``inspect``); its keys are Inspect's matter
    ``script:FILE``            replies out of a JSON file, see :class:`ScriptedModel`
    ``replay:FILE``            replies out of a recording; ``replay:FILE#NAME`` where it holds several models
    ========================== ====================================================================================

    Examples
    --------
    >>> open_model("llama", base_url="http://127.0.0.1:8080/v1").name
    'llama'
    """
    kind, _, rest = spec.partition(":")
    if kind not in {"inspect", "script", "replay"}:
        return OpenAIModel(spec, base_url=base_url or DEFAULT_BASE_URL, key_env=key_env)
    require(rest, f"model must name something after '{kind}:'; got {spec!r}.")
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
