"""Models that say what a script or a recording says: for tests, examples and dry runs."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import get_args

from noracle.errors import ArgumentError, EvidenceError
from noracle.evidence.replies import Finish
from noracle.search.caller import estimate_usage
from noracle.search.model import Completion, ModelError, Request, Usage

Reply = str | Completion | ModelError
Script = Callable[[Request], Reply] | Sequence[Reply]

_SHAPE = '{"rules": [{"match": "regex", "reply": "text or a list of texts"}], "otherwise": "text"} or a list of texts'


class ScriptedModel:
    """Replies from a function, or from a list in the order of the calls.

    Parameters
    ----------
    script
        A function of the request, or a list. A reply is a text, a completion, or an error to raise.
        A list that is used up raises an error; with several calls at a time their order is not
        fixed, so a function is the better script then.
    name
        The name of the model.
    delay
        Seconds before each reply.

    Examples
    --------
    >>> from noracle.search.model import Message
    >>> model = ScriptedModel(["first", "second"])
    >>> asyncio.run(model.complete(Request(messages=(Message("user", "?"),)))).text
    'first'
    """

    local = True

    def __init__(self, script: Script, *, name: str = "scripted", delay: float = 0.0) -> None:
        self.name, self._delay = name, delay
        self._script = script if callable(script) else _in_turn(script)

    @classmethod
    def read(cls, path: str | Path) -> ScriptedModel:
        """Read a JSON file: a list of texts, given in turn, or rules.

        ``{"name": "demo", "rules": [{"match": "regex", "reply": "ANSWER: A"}], "otherwise":
        "ANSWER: B"}``: the first rule whose pattern is found in the conversation (the texts of all
        turns, one after the other) gives the reply. Where a reply is a list, the replicate of the
        request picks one, the same one every time.
        """
        file = repr(str(path))
        try:
            data = json.loads(Path(path).read_text(encoding="utf-8"))
            if isinstance(data, list):
                return cls([_text(reply) for reply in data])
            return cls(_rules(data), name=str(data.get("name", "scripted")))
        except OSError as error:
            came = f"got {file} ({error.strerror})"
            raise ArgumentError(f"script must be a file that can be read; {came}.") from error
        except ValueError as error:
            raise ArgumentError(f"script must be JSON; {file} is not ({error}).") from error
        except (AttributeError, KeyError, TypeError, re.error) as error:
            raise ArgumentError(f"script must be {_SHAPE}; {file} is not ({error}).") from error

    async def complete(self, request: Request) -> Completion:
        """The reply of the script; tokens are counted from characters where it does not say."""
        if self._delay:
            await asyncio.sleep(self._delay)
        reply = self._script(request)
        if isinstance(reply, ModelError):
            raise reply
        if isinstance(reply, Completion):
            return reply
        usage = estimate_usage(request, reply)
        return Completion(text=reply, finish="stop" if reply.strip() else "empty", usage=usage)

    async def close(self) -> None:
        """Nothing to let go of."""


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"a reply must be text, not {type(value).__name__}")
    return value


def _in_turn(replies: Sequence[Reply]) -> Callable[[Request], Reply]:
    turns = itertools.count()

    def script(_: Request) -> Reply:
        if (turn := next(turns)) < len(replies):
            return replies[turn]
        said = f"The script has {len(replies)} replies and was asked for more."
        return ModelError(f"{said} Add replies or use rules.")

    return script


def _rules(data: Mapping[str, object]) -> Callable[[Request], Reply]:
    rules = data["rules"]
    if not isinstance(rules, list):
        raise TypeError("rules must be a list")
    pairs = [(re.compile(rule["match"]), _choices(rule["reply"])) for rule in rules]
    otherwise = _choices(data["otherwise"]) if "otherwise" in data else None

    def script(request: Request) -> Reply:
        said = "\n".join(message.text for message in request.messages)
        replies = next((replies for pattern, replies in pairs if pattern.search(said)), otherwise)
        if replies is None:
            return ModelError("No rule of the script matches this request; it has no 'otherwise'.")
        return replies[request.replicate % len(replies)]

    return script


def _choices(reply: object) -> list[str]:
    replies = reply if isinstance(reply, list) else [reply]
    if not replies:
        raise TypeError("a list of replies must not be empty")
    return [_text(r) for r in replies]


class ReplayModel:
    """Replies out of a recording that :func:`~noracle.search.caller.record` wrote.

    ``name`` is the name of the recorded model, so that calls have the addresses that they had.
    ``model`` picks one where the recording holds several.
    """

    local = True

    def __init__(self, recording: str | Path, *, model: str | None = None) -> None:
        self.path = Path(recording)
        replies = _read(self.path)
        names = sorted({name for name, _ in replies.values()})
        held = f"{str(self.path)!r} holds {', '.join(names) or 'none'}"
        if model is None and len(names) != 1:
            raise EvidenceError(f"recording must hold one model, or model must name one; {held}.")
        if model is not None and model not in names:
            raise EvidenceError(f"model must be in the recording; got {model!r}, {held}.")
        self.name = model or names[0]
        self._replies = {d: reply for d, (name, reply) in replies.items() if name == self.name}

    async def complete(self, request: Request) -> Completion:
        """The recorded reply; :class:`ModelError` where this call was not recorded."""
        reply = self._replies.get(request.digest(self.name))
        if reply is None:
            what = f"This call to {self.name} is not in the recording {self.path.name!r}"
            why = "an item, a prompt, a setting or the seed differs from the recorded run"
            raise ModelError(f"{what}: {why}. Record it again.")
        return reply

    async def close(self) -> None:
        """Nothing to let go of."""


def _read(path: Path) -> dict[str, tuple[str, Completion]]:
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except OSError as error:
        came = f"{str(path)!r} ({error.strerror})"
        raise EvidenceError(f"recording must be a file that can be read; got {came}.") from error
    except UnicodeDecodeError as error:
        raise EvidenceError(f"recording must be UTF-8; {str(path)!r} is not.") from error
    replies = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            if row["finish"] not in get_args(Finish) or not isinstance(row["text"], str):
                raise ValueError("text or finish is wrong")
            usage = Usage(int(row["input_tokens"]), int(row["output_tokens"]))
            reply = Completion(text=row["text"], finish=row["finish"], usage=usage)
            replies[str(row["digest"])] = (str(row["model"]), reply)
        except (ValueError, TypeError, KeyError) as error:
            came = f"{str(path)!r} does not at line {number} ({error})"
            raise EvidenceError(f"recording must hold one call per line; {came}.") from error
    return replies
