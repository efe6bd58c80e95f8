"""Searches with a designer model: what it is told, the talk that ends with a valid workflow, meta
agent search (Hu et al. 2025) and tree search (Zhang et al. 2025).
"""

from __future__ import annotations

import dataclasses
import functools
import json
import re
from collections.abc import Mapping, Sequence
from importlib import resources
from string import Template
from typing import Any

import numpy as np

from noracle.errors import ArgumentError, require
from noracle.schemas import load_schema
from noracle.search.candidates import Proposal, Scored, Standing, Told, pick, rank, stand
from noracle.search.model import Calls, Message, ModelError, Request, at_least
from noracle.search.task import LETTERS, Task, TaskItem
from noracle.search.workflow import (
    MOST_NODES,
    MOST_SAMPLES,
    SCHEMA,
    WorkflowError,
    fields_once,
    load_workflow,
    parse_workflow_text,
)

MOST_SHOWN = 600
"""Characters of an item's text that a designer sees."""

TEMPERATURE, MAX_TOKENS = 0.8, 4096
MOST_REPAIRS = 3
_LONGEST = 200_000


def _said(name: str, **values: object) -> str:
    file = resources.files(__package__) / "prompts" / f"{name}.txt"
    return Template(file.read_text(encoding="utf-8").rstrip("\n")).substitute(values)


@functools.cache
def _schema() -> Mapping[str, Any]:
    """What a reply should look like, for servers that can hold a model to it."""
    rules = {k: v for k, v in load_schema("workflow/1").items() if not k.startswith("$")}
    texts = {name: {"type": "string"} for name in ("thought", "change")}
    fields = {"properties": {**texts, "workflow": rules}, "required": [*texts, "workflow"]}
    defined = load_schema("workflow/1")["$defs"]
    return {"type": "object", **fields, "additionalProperties": False, "$defs": defined}


def open_talk(task: Task | None, most_calls: int, *parts: str) -> list[Message]:
    """The first messages to a designer: the task, the rules of a workflow, and these parts."""
    rules = _said("format", most_samples=MOST_SAMPLES, most_nodes=MOST_NODES, most_calls=most_calls)
    whole = (describe_task(task), rules, _said("standing"), *parts)
    return [Message("system", _said("system")), Message("user", "\n\n".join(whole))]


def describe_task(task: Task | None) -> str:
    """One line on what is asked; no item."""
    if task is None or not task.items:
        return "The task: multiple-choice questions."
    sizes = sorted({len(item.options) for item in task.items})
    options = f"{sizes[0]} options" if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]} options"
    return f'The task is called "{task.name}": {task.instruction} Each item has {options}.'


def describe_archive(told: Sequence[Scored]) -> str:
    """Every entry on one line: number, standing, calls, change, and the workflow itself."""
    standing = {s.number: s.z for s in stand(told)}
    lines = (_entry_line(s, standing.get(s.entry.number)) for s in told)
    return "\n".join(json.dumps(line, ensure_ascii=False) for line in lines)


def _entry_line(scored: Scored, z: float | None) -> dict[str, object]:
    entry, workflow = scored.entry, scored.entry.workflow
    line: dict[str, object] = {"number": entry.number}
    if z is None:
        why = entry.problem or "it has no score"
        return {**line, "name": workflow.name, "failed": why, "change": entry.change}
    line |= {"standing": shown_z(z), "calls_per_item": workflow.most_calls}
    line |= {"change": entry.change} if entry.change else {}
    plain = dataclasses.replace(workflow, description="").to_dict()
    return {**line, "workflow": plain}


def shown_z(z: float) -> float:
    """A standing at two decimals."""
    return round(z, 2) + 0.0


def describe_failures(
    scored: Scored, task: Task | None, rng: np.random.Generator, *, most: int = 3
) -> str:
    """A few validation items on which an expert excluded the answer, or on which there was none."""
    failures: list[tuple[int | str, int | None]] = list(scored.excluded)
    failures += [(item, None) for item in scored.unanswered]
    if not failures:
        return "No failure of it is known."
    some = [failures[int(i)] for i in sorted(rng.permutation(len(failures))[:most])]
    items = {item.id: item for item in task.items} if task is not None else {}
    head = f"An expert excluded its answer on {len(scored.excluded)} items; it gave none on {len(scored.unanswered)}. Some of them:"
    return "\n".join([head, *(_failure(item, answer, items.get(item)) for item, answer in some)])


def _failure(name: int | str, answer: int | None, item: TaskItem | None) -> str:
    said = "it gave no answer that could be read"
    if answer is not None:
        known = item is not None and 0 <= answer < len(item.options)
        option = f' "{item.options[answer][:200]}"' if item is not None and known else ""
        said = f"an expert excluded option {LETTERS[answer]}{option}, which it chose"
    text = "" if item is None else f" Text: {' '.join(item.text.split())[:MOST_SHOWN]}"
    return f"- item {name}: {said}.{text}"


def describe_experience(
    parent: Standing, standings: Sequence[Standing], failed: Sequence[Scored]
) -> str:
    """What became of earlier changes to one workflow."""
    heads = {
        1: "These changes to it raised the standing; build on what they share:",
        -1: "These changes to it lowered the standing; do not repeat them:",
        0: "These changes to it made no difference:",
    }
    lines: dict[int, list[str]] = {sign: [] for sign in heads}
    for child in standings:
        entry, gain = child.scored.entry, shown_z(child.z - parent.z)
        if parent.number in entry.parents:
            said = f"- {entry.change or entry.workflow.name} ({gain:+.2f})"
            lines[int(np.sign(gain))].append(said)
    parts = [part for sign, head in heads.items() if lines[sign] for part in (head, *lines[sign])]
    broken = [f"- {s.entry.problem}" for s in failed if parent.number in s.entry.parents]
    parts += ["These tries came to nothing:", *dict.fromkeys(broken)] if broken else []
    return "\n".join(parts) or "No change to it was tried yet."


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What a draft is held to beyond the format: new nodes, a new change, a bound on calls."""

    known: Mapping[str, int]
    most_calls: int
    changes: frozenset[str] = frozenset()

    def check(self, draft: Proposal) -> None:
        """Raise :class:`WorkflowError` with the line that the designer is shown."""
        workflow, change = draft.workflow, draft.change
        if workflow.most_calls > self.most_calls:
            rule = f"nodes must take at most {self.most_calls} calls per item"
            raise WorkflowError(f"{rule}; got {workflow.most_calls}. Lower n or max_rounds.")
        if workflow.digest in self.known:
            old = f"the nodes of entry {self.known[workflow.digest]}"
            raise WorkflowError(f"workflow must be new; got {old}. Change something that matters.")
        if normal(change) in self.changes:
            rule = "change must be one that was not tried on this workflow"
            raise WorkflowError(f"{rule}; got {change[:80]!r}. Try another one.")


def normal(change: str) -> str:
    """A change without case, spaces and full stops, to see repeats."""
    return " ".join(change.casefold().replace(".", " ").split())


async def design(
    designer: Calls | None,
    opening: Sequence[Message],
    rules: Rules,
    parent: Proposal,
    *,
    reflections: Sequence[str] = (),
) -> Proposal:
    """Ask, reflect, and repair at most three times; every follow-up sees the talk so far.

    Where no valid workflow comes of it, the parent stands in, with the problem in one line. An
    empty reply is a fault like any other and is told apart in the reason. A designer that does not
    reply raises :class:`ModelError`; the talk starts over when the search goes on.
    """
    if designer is None:
        rule = "designer must be a model for the strategies adas and aflow"
        raise ArgumentError(f"{rule}; got none. Name one, or use mutate or halving.")
    talk, follow = list(opening), list(reflections)
    faults: list[str] = []
    while True:
        asked = Request(
            messages=tuple(talk),
            temperature=TEMPERATURE,
            max_tokens=MAX_TOKENS,
            replicate=len(faults),
            schema=_schema(),
        )
        try:
            reply = await designer.call(asked)
        except ModelError as error:
            if not error.refused:
                raise
            why = _line(f"the server turned the request to the designer down: {error}")
            return dataclasses.replace(parent, problem=why)
        # Half a surrogate pair cannot be sent on.
        text = reply.text.encode("utf-8", "replace").decode()
        said = Message("assistant", text or "(nothing)")
        if follow:
            talk += [said, Message("user", follow.pop(0))]
            continue
        try:
            if not text.strip():
                came = f"nothing (the model ended with {reply.finish!r}). Write one JSON object"
                raise WorkflowError(f"reply must hold a workflow; got {came}.")
            draft = read_draft(text)
            rules.check(draft)
            return dataclasses.replace(draft, parents=parent.parents)
        except WorkflowError as error:
            faults.append(last := _line(str(error)))
        if len(faults) > MOST_REPAIRS:
            why = f"no valid workflow after {MOST_REPAIRS} repairs; the last fault: {last}"
            return dataclasses.replace(parent, problem=_line(why))
        again = f"That cannot be used: {last} Reply with the whole JSON object again, repaired."
        talk += [said, Message("user", again)]


def read_draft(text: str) -> Proposal:
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
        rule, came = 'must have the field "workflow" with an object', sorted(whole)[:5]
        raise WorkflowError(f"reply {rule}; got {came}. Reply as in the example.")
    filled = {"schema": SCHEMA, "name": "design", **inner}
    workflow = parse_workflow_text(json.dumps(filled, ensure_ascii=False))
    words = {k: _line(v) for k in ("change", "thought") if isinstance(v := whole.get(k), str)}
    change = words.get("change", "")[:200] or workflow.description[:200]
    return Proposal(workflow=workflow, change=change, thought=words.get("thought", "")[:1000])


def _first_object(text: str) -> dict[str, Any]:
    if len(text) > _LONGEST:
        rule = f"must be at most {_LONGEST} characters"
        raise WorkflowError(f"reply {rule}; got {len(text)}. Write one JSON object.")
    fault = ""
    for start in [match.start() for match in re.finditer("{", text)][:5]:
        try:
            found, _end = json.JSONDecoder(object_pairs_hook=fields_once).raw_decode(text, start)
            return found if isinstance(found, dict) else {}
        except json.JSONDecodeError as error:
            fault = fault or f"{error.msg} at line {error.lineno}, column {error.colno}"
        except (RecursionError, ValueError):
            fault = "it is too deep or holds a number that is too long"
            break
    what, remedy = fault or "there is none", "Write the object and nothing else."
    raise WorkflowError(f"reply must hold one JSON object; {what}. {remedy}")


def _line(text: str) -> str:
    """One line of printable characters."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


class _Designed(Told):
    """What strategies with a designer share."""

    most_calls: int

    def _most(self) -> int:
        return int(min(self.most_calls, self.room))


class Adas(_Designed):
    """The designer sees every entry with its standing, proposes, reflects twice (is it new? is it
    right?), and repairs at most three times.

    There is no choice of a parent and nothing is forgotten: the archive is the memory. A generation
    whose talk ends without a valid workflow is used up, and its entry says why.

    Parameters
    ----------
    task
        For its name and the texts of a few validation items on which the best workflow failed;
        None: the designer sees ids only.
    generations
        After so many the strategy is done.
    most_calls
        The most calls per item that a new workflow may take.
    """

    name = "adas"
    repeats = 1

    def __init__(
        self, *, task: Task | None = None, generations: int = 30, most_calls: int = 20
    ) -> None:
        at_least(1, generations=generations, most_calls=most_calls)
        super().__init__()
        self.task, self.generations, self.most_calls = task, generations, most_calls

    async def ask(
        self, generation: int, rng: np.random.Generator, designer: Calls | None
    ) -> Proposal | None:
        """What the designer came to."""
        if generation > self.generations:
            return None
        rules = Rules(known=self.digests(), most_calls=self._most())
        follow = (_said("novelty"), _said("mistakes"))
        parent = Proposal(workflow=self.best() or load_workflow("direct"))
        return await design(designer, self._opening(rng), rules, parent, reflections=follow)

    def _opening(self, rng: np.random.Generator) -> list[Message]:
        told, parts = self.told(), []
        if told:
            archive = describe_archive(told)
            parts.append(f"The archive of all that was tried, one entry per line:\n{archive}")
        for best in rank(self.standings())[:1]:
            failures = describe_failures(best.scored, self.task, rng)
            parts.append(f"The best so far is entry {best.number}. {failures}")
        goal = "Propose the next workflow: something new that could stand above all of these."
        return open_talk(self.task, self._most(), *parts, goal)


class Aflow(_Designed):
    """One of the best entries is drawn, and the designer makes one small edit to it, knowing what
    became of earlier edits.

    Parents are the ``top`` best entries, the first one always among them, drawn with probability
    ``uniform/n + (1 - uniform)·softmax( sharpness·z)`` over standings z in standard errors. An edit
    or a workflow that was tried before is sent back to the designer, at most three times together
    with other faults. The strategy is done after ``rounds`` rounds, or when the mean standing of
    the best three has risen by less than ``flat`` standard errors in each of ``patience`` rounds.

    Parameters
    ----------
    task
        For its name and the texts of a few validation items on which the parent failed; None: the
        designer sees ids only.
    rounds, patience, flat
        When to stop.
    top, uniform, sharpness
        Whom to work on.
    most_calls
        The most calls per item that a new workflow may take.

    Notes
    -----
    The reference evaluates each workflow three times on the validation items; :attr:`repeats` says
    so to whoever runs the search.
    """

    name = "aflow"
    repeats = 3

    def __init__(
        self,
        *,
        task: Task | None = None,
        rounds: int = 20,
        patience: int = 5,
        flat: float = 0.1,
        top: int = 4,
        uniform: float = 0.3,
        sharpness: float = 1.0,
        most_calls: int = 20,
    ) -> None:
        super().__init__()
        at_least(1, rounds=rounds, patience=patience, top=top, most_calls=most_calls)
        at_least(0, sharpness=sharpness, flat=flat)
        require(0 <= uniform <= 1, f"uniform must be in [0, 1]; got {uniform}.")
        self.task, self.rounds, self.patience, self.flat = task, rounds, patience, flat
        self.top, self.most_calls = top, most_calls
        self.uniform, self.sharpness = uniform, sharpness

    async def ask(
        self, generation: int, rng: np.random.Generator, designer: Calls | None
    ) -> Proposal | None:
        """One small edit of one of the best."""
        if generation > self.rounds or self.is_flat():
            return None
        parents = self.parents()
        if not parents:
            return Proposal(workflow=load_workflow("direct"), change="round 1: one plain call")
        parent = pick(parents, rng, uniform=self.uniform, sharpness=self.sharpness)
        children = [s.entry for s in self.told() if parent.number in s.entry.parents]
        tried = frozenset(normal(entry.change) for entry in children if entry.change)
        rules = Rules(known=self.digests(), most_calls=self._most(), changes=tried)
        old = Proposal(workflow=parent.scored.entry.workflow, parents=(parent.number,))
        return await design(designer, self._opening(parent, rng), rules, old)

    def parents(self) -> list[Standing]:
        """The best entries, the first one that has a score always among them."""
        standings = self.standings()
        first = standings[:1]
        others = [s for s in rank(standings) if s not in first]
        return rank([*first, *others[: self.top - 1]])

    def is_flat(self) -> bool:
        """Whether the mean of the best three has not risen in ``patience`` rounds, each by less
        than ``flat`` standard errors.
        """
        standings = self.standings()
        rounds = [s for s in standings if s.scored.entry.generation > 0]
        if len(rounds) < self.patience:
            return False
        n, back = len(standings), range(self.patience, -1, -1)
        heights = [np.mean([s.z for s in rank(standings[: n - k])[:3]] or [0.0]) for k in back]
        flat = bool(np.all(np.diff(heights) < max(self.flat, 1e-9)))
        return flat and n - self.patience >= 3

    def _opening(self, parent: Standing, rng: np.random.Generator) -> list[Message]:
        told, standings = self.told(), self.standings()
        ours = [s for s in told if s.entry.number == parent.number]
        failed = [s for s in told if s.entry.problem]
        where = f"(its standing among {len(standings)} is {parent.z + 0.0:.2f})"
        return open_talk(
            self.task,
            self._most(),
            f"Work on this workflow {where}:\n{describe_archive(ours)}",
            describe_failures(parent.scored, self.task, rng),
            describe_experience(parent, standings, failed),
            "Make one small change to it: one node or one prompt, nothing else. Say in the field change what it is.",
        )
