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
import os
from collections.abc import Mapping
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
    from noracle.search.rules import build_workflow

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
    from noracle.search.rules import read_json

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
