"""A talk with a designer model that ends with a valid, new workflow or with the reason why there is
none.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any

from noracle.errors import ArgumentError
from noracle.search.model import Calls, Message, ModelError, Request
from noracle.search.workflow import SCHEMA, Workflow, WorkflowError, parse_workflow_text

TEMPERATURE, MAX_TOKENS = 0.8, 4096
MOST_REPAIRS = 3
_LONGEST = 200_000


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """What came out of a talk: a workflow, or ``problem`` in one line."""

    workflow: Workflow | None = None
    change: str = ""
    thought: str = ""
    problem: str = ""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What a draft is held to beyond the format: ``known`` digests with their entries, ``changes``
    that were tried, calls it may take.
    """

    known: Mapping[str, int]
    most_calls: int
    changes: frozenset[str] = frozenset()

    def check(self, draft: Draft) -> None:
        """Raise :class:`WorkflowError` with the line that the designer is shown."""
        workflow = draft.workflow
        if workflow is None:
            return
        if workflow.most_calls > self.most_calls:
            raise WorkflowError(
                f"nodes must take at most {self.most_calls} calls an item; got {workflow.most_calls}. Lower n or max_rounds."
            )
        if workflow.digest in self.known:
            raise WorkflowError(
                f"workflow must be new; got the nodes of entry {self.known[workflow.digest]}. Change something that matters."
            )
        if normal(draft.change) in self.changes:
            raise WorkflowError(
                f"change must be one that was not tried on this workflow; got {draft.change[:80]!r}. Try another one."
            )


def normal(change: str) -> str:
    """A change without case, spaces and full stops, to see repeats."""
    return " ".join(change.casefold().replace(".", " ").split())


async def design(
    designer: Calls | None,
    opening: Sequence[Message],
    rules: Rules,
    *,
    reflections: Sequence[str] = (),
    repairs: int = MOST_REPAIRS,
) -> Draft:
    """Ask, reflect, and repair at most ``repairs`` times; every follow-up sees the talk so far.

    An empty reply is a fault like any other and is told apart in the reason. A call that failed for
    good ends the talk.
    """
    if designer is None:
        raise ArgumentError(
            "designer must be a model for the strategies adas and aflow; got none. Name one, or use mutate or halving."
        )
    talk, follow = list(opening), list(reflections)
    faults: list[str] = []
    while True:
        try:
            reply = await designer.call(
                Request(
                    messages=tuple(talk),
                    temperature=TEMPERATURE,
                    max_tokens=MAX_TOKENS,
                    replicate=len(faults),
                )
            )
        except ModelError as error:
            return Draft(problem=_line(f"the designer could not be reached: {error}"))
        text = reply.text.encode(
            "utf-8", "replace"
        ).decode()  # half a surrogate pair cannot be sent on
        if follow:
            talk += [Message("assistant", text or "(nothing)"), Message("user", follow.pop(0))]
            continue
        try:
            if not text.strip():
                raise WorkflowError(
                    f"reply must hold a workflow; got nothing (the model ended with {reply.finish!r}). Write one JSON object."
                )
            draft = read_draft(text)
            rules.check(draft)
        except WorkflowError as error:
            faults.append(_line(str(error)))
        else:
            return draft
        if len(faults) > repairs:
            return Draft(
                problem=_line(
                    f"no valid workflow after {repairs} repairs; the last fault: {faults[-1]}"
                )
            )
        talk += [
            Message("assistant", text or "(nothing)"),
            Message(
                "user",
                f"That cannot be used: {faults[-1]} Reply with the whole JSON object again, repaired.",
            ),
        ]


def read_draft(text: str) -> Draft:
    """The workflow in a reply, with the words around it.

    The object may stand in other text or in a fence; a bare workflow is fine too. ``schema`` and
    ``name`` are filled in where they are missing. Everything else is held to the rules of
    :func:`~noracle.search.workflow.parse_workflow_text`.

    Examples
    --------
    >>> read_draft('{"workflow": {"nodes": []}}')
    Traceback (most recent call last):
    noracle.search.workflow.WorkflowError: nodes must be a list of 2 to 30 nodes, an answer last; got 0.
    """
    whole = _first_object(text)
    inner = whole.get("workflow", whole if "nodes" in whole else None)
    if isinstance(inner, str):
        inner = _first_object(inner)
    if not isinstance(inner, dict):
        raise WorkflowError(
            f'reply must have the field "workflow" with an object; got {sorted(whole)[:5]}. Reply as in the example.'
        )
    filled = {"schema": SCHEMA, "name": "design", **inner}
    words = {
        k: _line(v) if isinstance(v := whole.get(k), str) else "" for k in ("change", "thought")
    }
    workflow = parse_workflow_text(json.dumps(filled, ensure_ascii=False))
    return Draft(
        workflow=workflow,
        change=words["change"][:200] or workflow.description[:200],
        thought=words["thought"][:1000],
    )


def _first_object(text: str) -> dict[str, Any]:
    """The first JSON object in a text."""
    if len(text) > _LONGEST:
        raise WorkflowError(
            f"reply must be at most {_LONGEST} characters; got {len(text)}. Write one JSON object."
        )
    start = text.find("{")
    fault = "there is none"
    for _ in range(5):
        if start < 0:
            break
        try:
            found, _end = json.JSONDecoder().raw_decode(text, start)
        except json.JSONDecodeError as error:
            if fault == "there is none":
                fault = f"{error.msg} at line {error.lineno}, column {error.colno}"
            start = text.find("{", start + 1)
        except (RecursionError, ValueError):
            fault = "it is too deep or holds a number that is too long"
            break
        else:
            return found if isinstance(found, dict) else {}
    raise WorkflowError(
        f"reply must hold one JSON object; {fault}. Write the object and nothing else."
    )


def _line(text: str) -> str:
    """One line of printable characters: no line ends, no escape sequences of terminals, no halves
    of surrogate pairs.
    """
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())
