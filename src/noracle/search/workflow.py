"""Workflows as typed data: nodes that refer only backwards, with a bound on calls that is known
before any call. Model text is never executed.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import importlib.resources
import json
import math
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

from noracle.errors import NoracleError
from noracle.schemas import load_schema

SCHEMA = "workflow/1"
BASELINES = ("cot", "cot-sc", "self-refine", "debate", "step-back", "quality-diversity", "role")
"""The seven workflows that people made by hand, by name."""

TASK = "task"
"""The name under which the item itself may stand among the inputs; every call sees it anyway."""

MOST_NODES, MOST_CALLS, MOST_SAMPLES = 30, 100, 10
MOST_BYTES, MOST_DEPTH = 65536, 8
_SHIPPED = importlib.resources.files("noracle.search") / "workflows"


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
    """A question, ``n`` times; ``inputs`` are shown after the task, ``fields`` part the reply."""

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
class RouteNode:
    """One call picks a branch (the last where none is named), a second answers with its prompt."""

    kind: Literal["route"] = "route"
    id: str
    prompt: Prompt
    branches: Mapping[str, Prompt]
    inputs: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AnswerNode:
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


Node = Ask | Vote | Decide | CritiqueLoop | RouteNode | AnswerNode


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
        plain, tight = self.to_dict()["nodes"], (",", ":")
        nodes = json.dumps(plain, sort_keys=True, ensure_ascii=False, separators=tight)
        return hashlib.sha256(nodes.encode()).hexdigest()

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready, with ``"schema": "workflow/1"`` first.

        What is empty, off or not set is left out (and read back as such); every number stands, also
        where it is the default.
        """
        about = {"description": self.description} if self.description else {}
        nodes = [dataclasses.asdict(node, dict_factory=_kept) for node in self.nodes]
        return {"schema": SCHEMA, "name": self.name, **about, "nodes": nodes}

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
    if isinstance(node, AnswerNode):
        return 0, int(node.fallback)
    return {"vote": (0, 0), "decide": (1, 1), "route": (2, 2)}[node.kind]


def prompts_of(node: Node) -> tuple[Prompt, ...]:
    """What a node says to the model, in the order in which it is said."""
    values = [getattr(node, field.name) for field in dataclasses.fields(node)]
    listed = [[*v.values()] if isinstance(v, Mapping) else [v] for v in values]
    return tuple(v for part in listed for v in part if isinstance(v, Prompt))


def inputs_of(node: Node) -> tuple[str, ...]:
    """The earlier nodes that a node reads; ``"task"``, which every call sees, is left out."""
    if isinstance(node, CritiqueLoop):
        return (node.draft,)
    if isinstance(node, AnswerNode):
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
    _measure(data)
    _fits(data, _rules(), "workflow")
    whole: Any = data
    listed = whole["nodes"]
    nodes: dict[str, Node] = {}
    for i, entry in enumerate(listed):
        node = _node(entry, f"nodes[{i}]", last=i == len(listed) - 1, earlier=nodes)
        nodes[node.id] = node
    about = whole.get("description", "")
    workflow = Workflow(name=whole["name"], nodes=tuple(nodes.values()), description=about)
    reached = {node.id for node in prune(workflow.nodes)}
    remedy = "Name it among the inputs of a later node, or remove it."
    for i, node_id in enumerate(nodes):
        _must(node_id in reached, f"nodes[{i}]", "must count towards the answer", node_id, remedy)
    calls, rule = workflow.most_calls, f"must take at most {MOST_CALLS} calls per item"
    _must(calls <= MOST_CALLS, "nodes", rule, calls, "Lower n or max_rounds.")
    _small(len(json.dumps(workflow.to_dict(), ensure_ascii=False).encode()), "more")
    return workflow


def parse_workflow_text(text: str) -> Workflow:
    """The same out of JSON text, with the rules that only text can break: size, depth, fields given
    twice, NaN.

    Examples
    --------
    >>> parse_workflow_text('{"schema": "workflow/1", "schema": "workflow/1"}')
    Traceback (most recent call last):
    noracle.search.workflow.WorkflowError: workflow must hold each field once; got 'schema' twice. Keep one of the two.
    """
    return parse_workflow(_read_json(text))


def workflow_names() -> tuple[str, ...]:
    """The names of the workflows that come with the package.

    Examples
    --------
    >>> "cot" in workflow_names()
    True
    """
    return tuple(sorted(Path(f.name).stem for f in _SHIPPED.iterdir() if f.name.endswith(".json")))


def load_workflow(name_or_path: str | os.PathLike[str]) -> Workflow:
    """A workflow that comes with the package, by its name, or one out of a JSON file. A text file
    (``.txt``, ``.md``) is the prompt of one call.

    Examples
    --------
    >>> load_workflow("cot-sc").most_calls
    5
    """
    name = os.fspath(name_or_path)
    if name in workflow_names():
        return parse_workflow_text((_SHIPPED / f"{name}.json").read_text(encoding="utf-8"))
    path = Path(name)
    rule = f"must be a JSON file, a prompt (.txt, .md) or one of {', '.join(workflow_names())}"
    _must(path.is_file(), "workflow", rule, name, "Check the name or the path.")
    size = path.stat().st_size
    _small(size, f"{size} in {shown(name)}")
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError:
        came = f"other bytes in {shown(name)}. Save the file as UTF-8"
        raise WorkflowError(f"workflow must be UTF-8 text; got {came}.") from None
    if path.suffix.lower() not in (".txt", ".md"):
        return parse_workflow_text(text)
    stem = re.sub("[^a-z0-9_-]+", "-", path.stem.casefold()).lstrip("-_0123456789")[:40]
    prompt = {"instruction": "\n".join(text.strip().splitlines()), "temperature": 0}
    nodes = [{"kind": "ask", "id": "reply", "prompt": prompt}, {"kind": "answer", "input": "reply"}]
    return parse_workflow({"schema": SCHEMA, "name": stem or "prompt", "nodes": nodes})


def shown(value: object) -> str:
    """What came, in one short line, whatever it is."""
    try:
        text = ascii(value[:80]) if isinstance(value, str) else ascii(value)
    except (ValueError, RecursionError):  # an integer of thousands of digits, or a list in itself
        text = f"a huge {type(value).__name__}"
    return text if len(text) <= 60 else text[:57] + "..."


def _kept(fields: list[tuple[str, Any]]) -> dict[str, Any]:
    """The fields of a node or a prompt as JSON holds them: nothing that is empty or off."""
    off = {name for name, v in fields if v is None or v is False or v in ((), "")}
    plain = {name: list(v) if isinstance(v, tuple) else v for name, v in fields}
    return {name: v for name, v in plain.items() if name not in off - {"stop", "fields"}}


MOST_VALUES = 5000
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_UNWRITTEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
_NODES: dict[Any, type[Node]] = {dataclasses.fields(n)[0].default: n for n in get_args(Node)}


def _must(
    holds: object, at: str, rule: str, came: object, remedy: str = "", *, said: object = None
) -> None:
    """Raise the one line of a broken rule; ``said`` stands in for what came."""
    if not holds:
        got = shown(came) if said is None else said
        raise WorkflowError(f"{at} {rule}; got {got}. {remedy}".rstrip())


def _small(size: int, said: object) -> None:
    rule = f"must be at most {MOST_BYTES} bytes"
    _must(size <= MOST_BYTES, "workflow", rule, size, "Shorten its texts.", said=said)


@functools.cache
def _rules() -> dict[str, Any]:
    return load_schema(SCHEMA)


_KINDS: dict[str, tuple[Any, str]] = {
    "string": (str, "text of LOW to HIGH characters"),
    "enum": (str, "ONE"),
    "integer": (int, "a whole number from LOW to HIGH"),
    "number": (int | float, "a number from LOW to HIGH"),
    "boolean": (bool, "true or false"),
    "array": (list, "a list of LOW to HIGH entries"),
    "object": (Mapping, "an object"),
}


def _fits(value: Any, rule: Mapping[str, Any], at: str) -> None:
    """Hold a value to its rule in the schema: what JSON Schema says, in one line of English."""
    if "$ref" in rule:
        rule = _rules()["$defs"][rule["$ref"].rpartition("/")[2]]
    kind = rule.get("type", "enum")
    if isinstance(kind, list):
        if value is None:
            return
        kind = kind[0]
    made, words = _KINDS[kind]
    known = rule.get("enum", [rule.get("const")])
    ends = (("min", 0), ("max", math.inf))
    low, high = (next((rule[k] for k in rule if k.startswith(e)), none) for e, none in ends)
    words = rule.get("$comment", words).replace("LOW", str(low)).replace("HIGH", str(high))
    words = words.replace("ONE", " or ".join(map(str, known)))
    typed = isinstance(value, made) and isinstance(value, bool) == (made is bool)
    sized = typed and isinstance(value, str | list | Mapping)
    size = len(value) if sized else value
    fine = typed and low <= size <= high and (kind != "enum" or value in known)
    said = size if sized and not low <= size <= high else None
    if fine and "pattern" in rule:
        fine = bool(re.search(rule["pattern"].replace("$", r"\Z"), value))
        said = None if value.strip() else "blank text"
    _must(fine, at, f"must be {words}", value, said=said)
    if kind == "string":
        remedy = "Use plain text; line ends are fine."
        _must(not _UNWRITTEN.search(value), at, "must hold no control characters", value, remedy)
    elif kind == "array" and "oneOf" not in rule["items"]:
        for each in value:
            _fits(each, rule["items"], at)
        once = not rule.get("uniqueItems") or len({*value}) == len(value)
        _must(once, at, "must name each once", value, "Use n for several samples.")
    elif kind == "object":
        fields, more = rule.get("properties", {}), rule["additionalProperties"]
        listed = ", ".join(fields)
        for name in value if not more else ():
            _must(name in fields, at, f"must have no field but {listed}", name, "Remove it.")
        for name, inner in value.items():
            _fits(name, rule.get("propertyNames", {"type": "string"}), at)
            _fits(inner, more or fields[name], name if at == "workflow" else f"{at}.{name}")
        for name in rule.get("required", ()):
            remedy = f"Its fields are {listed}."
            _must(name in value, at, f"must have the field {name}", None, remedy, said="none")


def _read_json(text: str) -> object:
    """JSON text as values; refuses what is too large or too deep, a field given twice, NaN."""
    size = len(text.encode("utf-8", "surrogatepass"))
    _small(size, size)
    depth = 0
    for bracket in re.finditer(r"[][{}]", _STRING.sub("", text)):
        depth += 1 if bracket[0] in "[{" else -1
        _shallow(depth)
    try:
        return json.loads(text, object_pairs_hook=fields_once, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        where = f"{error.msg} (line {error.lineno}, column {error.colno})"
        remedy = "Write one JSON object and nothing else."
        raise WorkflowError(f"workflow must be JSON; got {where}. {remedy}") from None
    except (ValueError, RecursionError):
        rule, remedy = "must be JSON with numbers of ordinary size", "Use the limits of each field."
        raise WorkflowError(f"workflow {rule}; got a longer one. {remedy}") from None


def prune(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """Drop nodes that the answer does not rest on."""
    wanted = {nodes[-1].id}
    kept: list[Node] = []
    for node in reversed(nodes):
        if node.id in wanted:
            wanted.update(inputs_of(node))
            kept.append(node)
    return tuple(reversed(kept))


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
    """Read the fields of a node by ``_READ``, then check the rules between fields by ``_check``."""
    kind: Any = data.get("kind", "none") if isinstance(data, Mapping) else data
    rule = f"must be one of {', '.join(_NODES)}"
    _must(isinstance(kind, str) and kind in _NODES, f"{at}.kind", rule, kind)
    _fits(data, _rules()["$defs"][kind], at)
    entry: dict[str, Any] = {k: v for k, v in dict(data).items() if k != "kind"}  # type: ignore[call-overload]
    remedy = "Keep one answer node, as the last." if kind == "answer" else "Add an answer node."
    rule = "must be an answer node if and only if it is the last"
    _must((kind == "answer") == last, at, rule, kind, remedy)
    name = entry.setdefault("id", "answer")
    new = name != TASK and name not in earlier
    _must(new, f"{at}.id", f'must be new and not "{TASK}"', name, "Rename the node.")
    known = ", ".join(list(earlier)[-5:]) or "no node stands before this one"
    rule, remedy = f'must name earlier nodes or "{TASK}"', f"Earlier: {known}."
    for field in {"inputs", "input", "draft"} & entry.keys():
        for read in entry[field] if field == "inputs" else [entry[field]]:
            _must(read == TASK or read in earlier, f"{at}.{field}", rule, read, remedy)
    node = _NODES[kind](**{field: _built(field, value) for field, value in entry.items()})
    _check(node, at, earlier)
    return node


def _check(node: Node, at: str, earlier: Mapping[str, Node]) -> None:
    """The rules between fields, and between a node and those that it reads."""

    def answered(name: str) -> bool:
        return name != TASK and answers(earlier[name])

    if isinstance(node, Ask):
        listed, remedy = list(node.fields), "Reasoning after the answer cannot help it."
        late = "answer" in node.fields[:-1]
        _must(not late, f"{at}.fields", 'must have "answer" last', listed, remedy)
        rule, remedy = 'must stand with "answer" among the fields', "Add it or drop force_after."
        fine = node.force_after is None or "answer" in node.fields
        _must(fine, f"{at}.force_after", rule, listed, remedy)
    elif isinstance(node, Vote):
        remedy = 'Add "answer" to its fields or leave it out.'
        for name in node.inputs:
            _must(answered(name), f"{at}.inputs", "must be nodes that answer", name, remedy)
    elif isinstance(node, Decide):
        remedy = "Use an ask node where there is nothing to choose from."
        _must(node.inputs != (TASK,), f"{at}.inputs", "must name an earlier node", TASK, remedy)
    elif isinstance(node, CritiqueLoop):
        drafted, remedy = node.result == "draft", "Name an ask node before the loop."
        rule = "must be an earlier node" + (" that answers" if drafted else "")
        fine = answered(node.draft) if drafted else node.draft != TASK
        _must(fine, f"{at}.draft", rule, node.draft, remedy)
    elif isinstance(node, RouteNode):
        plain = {re.sub("[-_]+", " ", name).strip() for name in node.branches}
        rule = "must have names that differ in more than - and _"
        listed = list(node.branches)
        _must(len(plain) == len(listed), f"{at}.branches", rule, listed, "Rename one.")
    elif isinstance(node, AnswerNode):
        at, name = f"{at}.input", node.input
        remedy = 'Add "answer" to its fields or name another node.'
        _must(answered(name), at, "must be a node that answers", name, remedy)
        many, remedy = several(earlier[name], earlier), "Put a vote or decide node between."
        _must(not many, at, "must be a node with one answer", name, remedy)


def _shallow(depth: int) -> None:
    rule = f"must be at most {MOST_DEPTH} levels deep"
    remedy = "A workflow is a flat list of nodes."
    _must(depth <= MOST_DEPTH, "workflow", rule, depth, remedy, said="more")


def _measure(data: object) -> None:
    """Refuse what is too deep or too large before anything is built, also a list that holds itself."""
    level, depth, total = [data], 0, 0
    while level:
        depth, total = depth + 1, total + len(level)
        inner: list[object] = []
        for value in level:
            if isinstance(value, (list, Mapping)):
                _shallow(depth)
                inner.extend(value.values() if isinstance(value, Mapping) else value)
            if len(inner) > MOST_VALUES:
                break
        rule, fits = f"must hold at most {MOST_VALUES} values", total + len(inner) <= MOST_VALUES
        _must(fits, "workflow", rule, total, "Remove nodes.", said="more")
        level = inner


def _built(field: str, value: Any) -> Any:
    """A value that fits, as the nodes have it."""
    if field in ("prompt", "critic", "reviser"):
        heat = {"temperature": abs(float(value["temperature"]))} if "temperature" in value else {}
        return Prompt(**{**value, **heat})
    if field == "branches":
        return {name: _built("prompt", prompt) for name, prompt in value.items()}
    return tuple(value) if isinstance(value, list) else value


def fields_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON; a field that comes twice is refused."""
    found: dict[str, Any] = {}
    for name, value in pairs:
        rule, said = "must hold each field once", f"{shown(name)} twice"
        _must(name not in found, "workflow", rule, name, "Keep one of the two.", said=said)
        found[name] = value
    return found


def _no_constant(name: str) -> None:
    remedy = "JSON knows neither NaN nor Infinity."
    _must(False, "workflow", "must hold finite numbers", name, remedy, said=name)
