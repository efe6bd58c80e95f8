"""Workflows as typed data: nodes that refer only backwards, with a bound on calls that is known
before any call.

    ask            one question to the model, n times (``force_after``: its thought is cut after so many words and an answer demanded)
    vote           the most frequent answer of earlier nodes; ties go to the first
    decide         the model chooses among earlier results
    critique_loop  a critic looks at a draft, a reviser writes a new one, at most five times
    route          the model picks a branch, and that branch answers
    answer         the end: which node's answer counts

Model text is never executed.
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.resources
import json
import math
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

from noracle.errors import NoracleError

SCHEMA = "workflow/1"
TASK = "task"
"""The name under which the item itself may stand among the inputs; every call sees it anyway."""

MOST_NODES, MOST_CALLS, MOST_SAMPLES, MOST_ROUNDS, MOST_TOKENS = 30, 100, 10, 5, 8192
MOST_CHARACTERS, MOST_BYTES, MOST_DEPTH = 4000, 65536, 8


class WorkflowError(NoracleError):
    """A workflow breaks a rule; the message is one line that says which, where, and what to do."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """What is said to the model in one call."""

    instruction: str
    role: str = ""
    temperature: float = 0.5
    max_tokens: int = 1024


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """``inputs`` are earlier nodes whose texts are shown after the task; ``fields`` name the parts
    of the reply, ``answer`` among them.
    """

    kind: Literal["ask"] = "ask"
    id: str
    prompt: Prompt
    inputs: tuple[str, ...] = ()
    fields: tuple[str, ...] = ("reasoning", "answer")
    n: int = 1
    force_after: int | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Vote:
    """Every answer of the ``inputs`` is one vote; samples without an answer have none."""

    kind: Literal["vote"] = "vote"
    id: str
    inputs: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Decide:
    """One call that sees the ``inputs`` and answers."""

    kind: Literal["decide"] = "decide"
    id: str
    prompt: Prompt
    inputs: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CritiqueLoop:
    """Critic, then (unless its reply holds one of the ``stop`` words) ``n`` revisions, at most
    ``max_rounds`` (1 to 5) times.

    A stop word is a whole word, capitals as given: "INCORRECT" does not hold "CORRECT". Where the
    critic's word counts and stop words are options of the item, the option that it chose decides.

    ``result`` says whether the last draft or the last word of the critic counts. With ``close`` a
    critic also speaks after the last revision. Revisers and critics see the task, all drafts and
    all criticism so far.
    """

    kind: Literal["critique_loop"] = "critique_loop"
    id: str
    draft: str
    critic: Prompt
    reviser: Prompt
    stop: tuple[str, ...] = ("CORRECT",)
    max_rounds: int = 5
    n: int = 1
    result: Literal["draft", "critic"] = "draft"
    close: bool = False


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One call picks the name of a branch (the last one where none is named), a second call answers
    with its prompt.
    """

    kind: Literal["route"] = "route"
    id: str
    prompt: Prompt
    branches: Mapping[str, Prompt]
    inputs: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The end: the answer of ``input`` counts.

    ``fallback``: where no answer can be read, one more call asks for the letter alone. ``coin``:
    where there is still none, or it is the last of three or more options and that one is called
    "uncertain", one of the others is drawn from the seed.
    """

    kind: Literal["answer"] = "answer"
    id: str = "answer"
    input: str
    fallback: bool = False
    coin: bool = False


Node = Ask | Vote | Decide | CritiqueLoop | Route | Answer


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Workflow:
    """A workflow that passed :func:`parse_workflow`.

    Examples
    --------
    >>> workflow = load_workflow("cot-sc")
    >>> workflow.least_calls, workflow.most_calls, parse_workflow(workflow.to_dict()).digest == workflow.digest
    (5, 5, True)
    """

    name: str
    nodes: tuple[Node, ...]
    description: str = ""

    @property
    def most_calls(self) -> int:
        """The most calls that one item can take; every retry of a call that failed comes on top."""
        return sum(calls_of(node)[1] for node in self.nodes)

    @property
    def least_calls(self) -> int:
        """The fewest calls that one item takes; equal to :attr:`most_calls` without loops that may
        stop early and without a fallback.
        """
        return sum(calls_of(node)[0] for node in self.nodes)

    @property
    def digest(self) -> str:
        """SHA-256 of the nodes: two workflows with one digest do the same, whatever their names and
        descriptions.
        """
        nodes = json.dumps(
            self.to_dict()["nodes"], sort_keys=True, ensure_ascii=False, separators=(",", ":")
        )
        return hashlib.sha256(nodes.encode()).hexdigest()

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready, with ``"schema": "workflow/1"`` first.

        What is empty, off or not set is left out (and read back as such); every number stands, also
        where it is the default.
        """
        whole: dict[str, Any] = {"schema": SCHEMA, "name": self.name}
        if self.description:
            whole["description"] = self.description
        return {**whole, "nodes": [_plain(node) for node in self.nodes]}

    def to_text(self) -> str:
        """The workflow as a JSON file holds it: two spaces, one end of line. Reading it and writing
        it again gives the same bytes.
        """
        return json.dumps(self.to_dict(), ensure_ascii=False, indent=2, allow_nan=False) + "\n"


def calls_of(node: Node) -> tuple[int, int]:
    """The fewest and the most calls that a node takes for one item.

    Examples
    --------
    >>> calls_of(Ask(id="thought", prompt=Prompt(instruction="Think."), n=3))
    (3, 3)
    """
    if isinstance(node, Ask):
        calls = node.n * (2 if node.force_after else 1)
        return calls, calls
    if isinstance(node, CritiqueLoop):
        most = node.max_rounds * (1 + node.n) + node.close
        return (1 if node.stop else most), most
    if isinstance(node, Answer):
        return 0, int(node.fallback)
    return {"vote": (0, 0), "decide": (1, 1), "route": (2, 2)}[node.kind]


def inputs_of(node: Node) -> tuple[str, ...]:
    """The earlier nodes that a node reads; ``"task"``, which every call sees, is left out."""
    if isinstance(node, CritiqueLoop):
        return (node.draft,)
    if isinstance(node, Answer):
        return (node.input,)
    return tuple(name for name in node.inputs if name != TASK)


def parse_workflow(data: object) -> Workflow:
    """Check every rule and build the workflow; raises :class:`WorkflowError` at the first that is
    broken.

    Parameters
    ----------
    data
        What a JSON reader made of a workflow file. Text goes to :func:`parse_workflow_text`, which
        also sees fields that are given twice.

    Examples
    --------
    >>> ask = {"kind": "ask", "id": "thought", "prompt": {"instruction": "Think step by step, then answer."}}
    >>> workflow = parse_workflow({"schema": "workflow/1", "name": "cot", "nodes": [ask, {"kind": "answer", "input": "thought"}]})
    >>> workflow.most_calls, parse_workflow(workflow.to_dict()) == workflow
    (1, True)
    """
    return build_workflow(data)


def parse_workflow_text(text: str) -> Workflow:
    """The same out of JSON text, with the rules that only text can break: size, depth, fields given
    twice, NaN.

    Examples
    --------
    >>> parse_workflow_text('{"schema": "workflow/1", "schema": "workflow/1"}')
    Traceback (most recent call last):
    noracle.search.workflow.WorkflowError: workflow must hold each field once; got 'schema' twice. Keep one of the two.
    """
    return parse_workflow(read_json(text))


def workflow_names() -> tuple[str, ...]:
    """The names of the workflows that come with the package.

    Examples
    --------
    >>> "cot" in workflow_names()
    True
    """
    files = importlib.resources.files("noracle.search.workflows").iterdir()
    return tuple(sorted(f.name.removesuffix(".json") for f in files if f.name.endswith(".json")))


def load_workflow(name_or_path: str | os.PathLike[str]) -> Workflow:
    """A workflow that comes with the package, by its name, or one out of a JSON file.

    Examples
    --------
    >>> load_workflow("cot-sc").most_calls
    5
    """
    name = os.fspath(name_or_path)
    if name in workflow_names():
        folder = importlib.resources.files("noracle.search.workflows")
        return parse_workflow_text((folder / f"{name}.json").read_text(encoding="utf-8"))
    path = Path(name)
    if not path.is_file():
        known = ", ".join(workflow_names())
        raise WorkflowError(
            f"workflow must be a JSON file or one of {known}; got {shown(name)}. Check the name or the path."
        )
    if path.stat().st_size > MOST_BYTES:
        raise WorkflowError(
            f"workflow must be at most {MOST_BYTES} bytes; got {path.stat().st_size} in {shown(name)}. Shorten its texts."
        )
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise WorkflowError(
            f"workflow must be UTF-8 text; got other bytes in {shown(name)}. Save the file as UTF-8."
        ) from None
    return parse_workflow_text(text)


def shown(value: object) -> str:
    """What came, in one short line, whatever it is."""
    try:
        text = ascii(value[:80]) if isinstance(value, str) else ascii(value)
    except (ValueError, RecursionError):  # an integer of thousands of digits, or a list in itself
        text = f"a huge {type(value).__name__}"
    return text if len(text) <= 60 else text[:57] + "..."


def _plain(node: Node) -> dict[str, Any]:
    """A node as JSON holds it: kind and id first, then its fields; nothing that is empty or off,
    save lists whose default is not empty.
    """
    plain: dict[str, Any] = {"kind": node.kind, "id": node.id}
    for field in dataclasses.fields(node):
        value = getattr(node, field.name)
        if isinstance(value, Prompt):
            value = _plain_prompt(value)
        elif isinstance(value, Mapping):
            value = {name: _plain_prompt(prompt) for name, prompt in value.items()}
        elif isinstance(value, tuple):
            value = list(value)
        if field.name in ("stop", "fields") or not (value is None or value is False or value == []):
            plain.setdefault(field.name, value)
    return plain


def _plain_prompt(prompt: Prompt) -> dict[str, Any]:
    plain = {
        "instruction": prompt.instruction,
        "role": prompt.role,
        "temperature": prompt.temperature,
        "max_tokens": prompt.max_tokens,
    }
    return {name: value for name, value in plain.items() if value != ""}


# ----------------------------------------------------------------------------
# The rules of a workflow: JSON in, records out, one line for the first rule that is broken.


MOST_VALUES, MOST_WORDS, MOST_NAMES = 5000, 2000, 10
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,39}")
_NAME_RULE = "must be 1 to 40 of a-z, 0-9, - and _, a letter first"
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_UNWRITTEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
_PROMPT = ("instruction", "role", "temperature", "max_tokens")
_FIELDS: dict[str, tuple[str, ...]] = {
    "ask": ("prompt", "inputs", "fields", "n", "force_after"),
    "vote": ("inputs",),
    "decide": ("prompt", "inputs"),
    "critique_loop": ("draft", "critic", "reviser", "stop", "max_rounds", "n", "result", "close"),
    "route": ("prompt", "branches", "inputs"),
    "answer": ("input", "fallback", "coin"),
}


def read_json(text: str) -> object:
    """JSON text as values; refuses what is too large or too deep, a field given twice, NaN and
    Infinity.
    """
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > MOST_BYTES:
        raise _broken("workflow", f"must be at most {MOST_BYTES} bytes", size, "Shorten its texts.")
    depth = 0
    for bracket in re.finditer(r"[][{}]", _STRING.sub("", text)):
        depth += 1 if bracket[0] in "[{" else -1
        if depth > MOST_DEPTH:
            raise _too_deep()
    try:
        return json.loads(text, object_pairs_hook=_once, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        where = f"{error.msg} (line {error.lineno}, column {error.colno})"
        raise WorkflowError(
            f"workflow must be JSON; got {where}. Write one JSON object and nothing else."
        ) from None
    except (ValueError, RecursionError):
        raise _broken(
            "workflow",
            "must be JSON with numbers of ordinary size",
            "a longer one",
            "Use the limits of each field.",
        ) from None


def build_workflow(data: object) -> Workflow:
    """Check every rule and build the workflow."""
    _measure(data)
    whole = _object(
        data,
        "workflow",
        ("schema", "name", "description", "nodes"),
        need=("schema", "name", "nodes"),
    )
    if whole["schema"] != SCHEMA or not isinstance(whole["schema"], str):
        raise _broken(
            "schema",
            f'must be "{SCHEMA}"',
            shown(whole["schema"]),
            "Other versions cannot be read.",
        )
    name = _name(whole["name"], "name")
    description = _text(whole.get("description", ""), "description", empty=True)
    listed = whole["nodes"]
    if not isinstance(listed, list) or not 2 <= len(listed) <= MOST_NODES:
        came = len(listed) if isinstance(listed, list) else shown(listed)
        raise _broken("nodes", f"must be a list of 2 to {MOST_NODES} nodes, an answer last", came)
    nodes: list[Node] = []
    for i, entry in enumerate(listed):
        nodes.append(
            _node(entry, f"nodes[{i}]", last=i == len(listed) - 1, earlier={n.id: n for n in nodes})
        )
    workflow = Workflow(name=name, nodes=tuple(nodes), description=description)
    _all_reached(workflow)
    if workflow.most_calls > MOST_CALLS:
        raise _broken(
            "nodes",
            f"must take at most {MOST_CALLS} calls an item",
            workflow.most_calls,
            "Lower n or max_rounds.",
        )
    if len(json.dumps(workflow.to_dict(), ensure_ascii=False).encode()) > MOST_BYTES:
        raise _broken(
            "workflow", f"must be at most {MOST_BYTES} bytes", "more", "Shorten its texts."
        )
    return workflow


def answers(node: Node) -> bool:
    """Whether a node gives an answer, not text alone."""
    return not isinstance(node, Ask) or "answer" in node.fields


def several(node: Node, earlier: Mapping[str, Node]) -> bool:
    """Whether a node gives more than one answer for an item."""
    if isinstance(node, Ask):
        return node.n > 1
    if isinstance(node, CritiqueLoop) and node.result == "draft":
        return node.n > 1 or several(earlier[node.draft], earlier)
    return False


def _node(data: object, at: str, *, last: bool, earlier: Mapping[str, Node]) -> Node:
    if (
        not isinstance(data, Mapping)
        or not isinstance(data.get("kind"), str)
        or data["kind"] not in _FIELDS
    ):
        came = shown(data.get("kind", "none")) if isinstance(data, Mapping) else shown(data)
        raise _broken(f"{at}.kind", f"must be one of {', '.join(_FIELDS)}", came)
    kind: str = data["kind"]
    need = {
        "ask": ("id", "prompt"),
        "vote": ("id", "inputs"),
        "decide": ("id", "prompt", "inputs"),
        "answer": ("input",),
        "critique_loop": ("id", "draft", "critic", "reviser"),
        "route": ("id", "prompt", "branches"),
    }[kind]
    entry = _object(data, at, ("kind", "id", *_FIELDS[kind]), need=need)
    if (kind == "answer") != last:
        remedy = "Keep one answer node, as the last." if kind == "answer" else "Add an answer node."
        raise _broken(
            at, "must be an answer node if and only if it is the last", f"{shown(kind)}", remedy
        )
    identity = _name(entry.get("id", "answer"), f"{at}.id")
    if identity == TASK or identity in earlier:
        raise _broken(
            f"{at}.id", f'must be new and not "{TASK}"', shown(identity), "Rename the node."
        )
    return _BUILD[kind](entry, at, identity, earlier)


def _ask(entry: Mapping[str, Any], at: str, identity: str, earlier: Mapping[str, Node]) -> Ask:
    fields = _names(entry.get("fields", ["reasoning", "answer"]), f"{at}.fields")
    if "answer" in fields[:-1]:
        raise _broken(
            f"{at}.fields",
            'must have "answer" last',
            shown(list(fields)),
            "Reasoning after the answer cannot help it.",
        )
    force_after = entry.get("force_after")
    if force_after is not None:
        force_after = _whole(force_after, f"{at}.force_after", MOST_WORDS)
        if "answer" not in fields:
            raise _broken(
                f"{at}.force_after",
                'must stand with "answer" among the fields',
                shown(list(fields)),
                "Add it or drop force_after.",
            )
    return Ask(
        id=identity,
        prompt=_prompt(entry["prompt"], f"{at}.prompt"),
        inputs=_inputs(entry.get("inputs", []), at, earlier),
        fields=fields,
        n=_whole(entry.get("n", 1), f"{at}.n", MOST_SAMPLES),
        force_after=force_after,
    )


def _vote(entry: Mapping[str, Any], at: str, identity: str, earlier: Mapping[str, Node]) -> Vote:
    inputs = _inputs(entry["inputs"], at, earlier, some=True)
    for name in inputs:
        if name == TASK or not answers(earlier[name]):
            raise _broken(
                f"{at}.inputs",
                "must be nodes that answer",
                shown(name),
                'Add "answer" to its fields or leave it out.',
            )
    return Vote(id=identity, inputs=inputs)


def _decide(
    entry: Mapping[str, Any], at: str, identity: str, earlier: Mapping[str, Node]
) -> Decide:
    inputs = _inputs(entry["inputs"], at, earlier, some=True)
    if inputs == (TASK,):
        raise _broken(
            f"{at}.inputs",
            "must name an earlier node",
            shown(TASK),
            "Use an ask node where there is nothing to choose from.",
        )
    return Decide(id=identity, prompt=_prompt(entry["prompt"], f"{at}.prompt"), inputs=inputs)


def _critique_loop(
    entry: Mapping[str, Any], at: str, identity: str, earlier: Mapping[str, Node]
) -> CritiqueLoop:
    (draft,) = _inputs([entry["draft"]], at, earlier, field="draft")
    result = _choice(entry.get("result", "draft"), f"{at}.result", ("draft", "critic"))
    if draft == TASK or (result == "draft" and not answers(earlier[draft])):
        rule = (
            "must be an earlier node that answers"
            if result == "draft"
            else "must be an earlier node"
        )
        raise _broken(f"{at}.draft", rule, shown(draft), "Name an ask node before the loop.")
    stop = entry.get("stop", ["CORRECT"])
    if not isinstance(stop, list) or len(stop) > MOST_NAMES:
        raise _broken(f"{at}.stop", f"must be a list of at most {MOST_NAMES} words", shown(stop))
    return CritiqueLoop(
        id=identity,
        draft=draft,
        critic=_prompt(entry["critic"], f"{at}.critic"),
        reviser=_prompt(entry["reviser"], f"{at}.reviser"),
        stop=tuple(_text(word, f"{at}.stop", most=100) for word in stop),
        max_rounds=_whole(entry.get("max_rounds", MOST_ROUNDS), f"{at}.max_rounds", MOST_ROUNDS),
        n=_whole(entry.get("n", 1), f"{at}.n", MOST_SAMPLES),
        result="critic" if result == "critic" else "draft",
        close=_flag(entry.get("close", False), f"{at}.close"),
    )


def _route(entry: Mapping[str, Any], at: str, identity: str, earlier: Mapping[str, Node]) -> Route:
    branches = entry["branches"]
    if not isinstance(branches, Mapping) or not 2 <= len(branches) <= MOST_NAMES:
        came = f"{len(branches)}" if isinstance(branches, Mapping) else shown(branches)
        raise _broken(
            f"{at}.branches", f"must be an object of 2 to {MOST_NAMES} prompts by name", came
        )
    named = {
        _name(name, f"{at}.branches"): _prompt(p, f"{at}.branches.{name}")
        for name, p in branches.items()
    }
    if len({re.sub("[-_]+", " ", name).strip() for name in named}) < len(named):
        raise _broken(
            f"{at}.branches",
            "must have names that differ in more than - and _",
            shown(list(named)),
            "Rename one.",
        )
    return Route(
        id=identity,
        prompt=_prompt(entry["prompt"], f"{at}.prompt"),
        branches=named,
        inputs=_inputs(entry.get("inputs", []), at, earlier),
    )


def _answer(
    entry: Mapping[str, Any], at: str, identity: str, earlier: Mapping[str, Node]
) -> Answer:
    (name,) = _inputs([entry["input"]], at, earlier, field="input")
    if name == TASK or not answers(earlier[name]):
        raise _broken(
            f"{at}.input",
            "must be a node that answers",
            shown(name),
            'Add "answer" to its fields or name another node.',
        )
    if several(earlier[name], earlier):
        raise _broken(
            f"{at}.input",
            "must be a node with one answer",
            shown(name),
            "Put a vote or decide node between.",
        )
    return Answer(
        id=identity,
        input=name,
        fallback=_flag(entry.get("fallback", False), f"{at}.fallback"),
        coin=_flag(entry.get("coin", False), f"{at}.coin"),
    )


_BUILD: dict[str, Callable[[Mapping[str, Any], str, str, Mapping[str, Node]], Node]] = {
    "ask": _ask,
    "vote": _vote,
    "decide": _decide,
    "critique_loop": _critique_loop,
    "route": _route,
    "answer": _answer,
}


def _all_reached(workflow: Workflow) -> None:
    by_id = {node.id: node for node in workflow.nodes}
    reached, waiting = set[str](), [workflow.nodes[-1].id]
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting.extend(inputs_of(by_id[name]))
    for i, node in enumerate(workflow.nodes):
        if node.id not in reached:
            remedy = "Name it among the inputs of a later node, or remove it."
            raise _broken(f"nodes[{i}]", "must count towards the answer", shown(node.id), remedy)


def _measure(data: object) -> None:
    """Refuse what is too deep or too large before anything is built, also a list that holds itself."""
    level, depth, total = [data], 0, 0
    while level:
        depth, total = depth + 1, total + len(level)
        inner: list[object] = []
        for value in level:
            if isinstance(value, (list, Mapping)):
                if depth > MOST_DEPTH:
                    raise _too_deep()
                inner.extend(value.values() if isinstance(value, Mapping) else value)
            if len(inner) > MOST_VALUES:
                break
        if total + len(inner) > MOST_VALUES:
            raise _broken(
                "workflow", f"must hold at most {MOST_VALUES} values", "more", "Remove nodes."
            )
        level = inner


def _object(
    data: object, at: str, known: tuple[str, ...], *, need: tuple[str, ...]
) -> Mapping[str, Any]:
    if not isinstance(data, Mapping):
        raise _broken(at, "must be an object", shown(data))
    for field in data:
        if field not in known:
            raise _broken(
                at, f"must have no field but {', '.join(known)}", shown(field), "Remove it."
            )
    for field in need:
        if field not in data:
            raise _broken(
                at, f"must have the field {field}", "none", f"Its fields are {', '.join(known)}."
            )
    return data


def _prompt(data: object, at: str) -> Prompt:
    entry = _object(data, at, _PROMPT, need=("instruction",))
    temperature = entry.get("temperature", 0.5)
    if (
        type(temperature) not in (int, float)
        or not 0 <= temperature <= 2
        or not math.isfinite(temperature)
    ):
        raise _broken(f"{at}.temperature", "must be a number from 0 to 2", shown(temperature))
    return Prompt(
        instruction=_text(entry["instruction"], f"{at}.instruction"),
        role=_text(entry.get("role", ""), f"{at}.role", empty=True),
        temperature=abs(float(temperature)),
        max_tokens=_whole(entry.get("max_tokens", 1024), f"{at}.max_tokens", MOST_TOKENS),
    )


def _inputs(
    data: object, at: str, earlier: Mapping[str, Node], *, some: bool = False, field: str = "inputs"
) -> tuple[str, ...]:
    if not isinstance(data, list) or len(data) > MOST_NODES or (some and not data):
        raise _broken(
            f"{at}.{field}", f"must be a list of {int(some)} to {MOST_NODES} names", shown(data)
        )
    for name in data:
        if not isinstance(name, str) or (name != TASK and name not in earlier):
            known = ", ".join(list(earlier)[-5:]) or "no node stands before this one"
            raise _broken(
                f"{at}.{field}",
                f'must name earlier nodes or "{TASK}"',
                shown(name),
                f"Earlier: {known}.",
            )
    if len(set(data)) < len(data):
        raise _broken(
            f"{at}.{field}", "must name each node once", shown(data), "Use n for several samples."
        )
    return tuple(data)


def _names(data: object, at: str) -> tuple[str, ...]:
    if not isinstance(data, list) or not 1 <= len(data) <= MOST_NAMES:
        raise _broken(at, f"must be a list of 1 to {MOST_NAMES} names", shown(data))
    names = tuple(_name(name, at) for name in data)
    if len(set(names)) < len(names):
        raise _broken(at, "must hold each name once", shown(data))
    return names


def _name(value: object, at: str) -> str:
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise _broken(at, _NAME_RULE, shown(value))
    return value


def _text(value: object, at: str, *, empty: bool = False, most: int = MOST_CHARACTERS) -> str:
    if not isinstance(value, str) or len(value) > most or not (empty or value.strip()):
        came = (
            "blank text"
            if isinstance(value, str) and not value.strip()
            else f"{len(value)}"
            if isinstance(value, str)
            else shown(value)
        )
        raise _broken(at, f"must be text of {0 if empty else 1} to {most} characters", came)
    if _UNWRITTEN.search(value):
        raise _broken(
            at,
            "must hold no control characters",
            shown(value),
            "Use plain text; line ends are fine.",
        )
    return value


def _whole(value: object, at: str, most: int) -> int:
    if type(value) is not int or not 1 <= value <= most:
        raise _broken(at, f"must be a whole number from 1 to {most}", shown(value))
    return value


def _flag(value: object, at: str) -> bool:
    if not isinstance(value, bool):
        raise _broken(at, "must be true or false", shown(value))
    return value


def _choice(value: object, at: str, choices: tuple[str, ...]) -> str:
    if not isinstance(value, str) or value not in choices:
        raise _broken(at, f"must be one of {', '.join(choices)}", shown(value))
    return value


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise _broken(
                "workflow",
                "must hold each field once",
                f"{shown(name)} twice",
                "Keep one of the two.",
            )
        found[name] = value
    return found


def _no_constant(name: str) -> object:
    raise _broken(
        "workflow", "must hold finite numbers", name, "JSON knows neither NaN nor Infinity."
    )


def _too_deep() -> WorkflowError:
    return _broken(
        "workflow",
        f"must be at most {MOST_DEPTH} levels deep",
        "more",
        "A workflow is a flat list of nodes.",
    )


def _broken(at: str, rule: str, came: object, remedy: str = "") -> WorkflowError:
    return WorkflowError(f"{at} {rule}; got {came}. {remedy}".rstrip())
