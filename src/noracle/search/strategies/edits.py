"""Typed edits of workflows: small, random, valid by construction; their texts come from banks."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from noracle.errors import ArgumentError, require
from noracle.search.workflow import (
    AnswerNode,
    Ask,
    CritiqueLoop,
    Decide,
    Node,
    Prompt,
    RouteNode,
    Vote,
    Workflow,
    WorkflowError,
    answers,
    inputs_of,
    parse_workflow,
    prune,
)

PHRASES = (
    "Reason step by step before you answer.",
    "Rule out the options that cannot be right, one by one.",
    "Compare the two most likely options before you choose.",
    "Name the fact in the text that decides the question.",
    "Check your answer against the text once more.",
    "Beware of the option that only sounds right.",
    "Work from first principles; do not guess from wording.",
    "Keep your reasoning under five sentences.",
    "Trust your first impression and answer at once.",
    "State how sure you are before you answer.",
)
ROLES = (
    "",
    "You are a careful examiner.",
    "You are an expert in the field of the question.",
    "You are a sceptical reviewer.",
    "You are a patient teacher.",
    "You are a student who checks every step.",
    "You are a generalist with broad knowledge.",
)
TEMPERATURES = (0.0, 0.2, 0.5, 0.8, 1.0)
SAMPLES = (3, 5, 7)
ROUNDS = (1, 2, 3)
TOKENS = (256, 512, 1024)
MOST_TEXT = 4_000

PRINCIPLES = "Which principles decide a question like this one? List them; do not answer yet."
GUIDED = "Answer the question with the help of these principles."
CRITIC = (
    "Look for faults in the answer above. Say CORRECT only if you are certain that it is right."
)
REVISER = "Write a better answer that meets the criticism."
DEBATER = "Read what the others say, keep what is sound, and give your own answer."
DECIDER = "Weigh the answers above and give the one that is best supported."


_SENTENCE = re.compile(r"(?<=[.;:!?])\s+")
Change = tuple[tuple[Node, ...], str]
Edit = Callable[[Workflow, np.random.Generator], Change | None]
Reworded = tuple[Prompt, str] | None
T = TypeVar("T")


def one(rng: np.random.Generator, options: Sequence[T]) -> T:
    """One of the options, each as likely."""
    return options[int(rng.integers(len(options)))]


def _end(workflow: Workflow) -> AnswerNode:
    last = workflow.nodes[-1]
    if isinstance(last, AnswerNode):
        return last
    came = f"{last.kind!r} at {last.id!r}"
    raise ArgumentError(f"workflow must end with an answer node; got {came}.")


def _final(workflow: Workflow) -> Node:
    """The node whose answer counts."""
    return next(n for n in workflow.nodes if n.id == _end(workflow).input)


def _new_id(nodes: Sequence[Node], stem: str) -> str:
    taken = {n.id for n in nodes}
    return next(name for k in range(1, len(nodes) + 2) if (name := f"{stem}{k}") not in taken)


def _swapped(workflow: Workflow, old: Node, new: Node) -> tuple[Node, ...]:
    return tuple(new if n is old else n for n in workflow.nodes)


def _extended(workflow: Workflow, more: Node) -> tuple[Node, ...]:
    """The answer comes from a new last node."""
    return (*workflow.nodes[:-1], more, replace(_end(workflow), input=more.id))


def valid(nodes: Sequence[Node]) -> Workflow | None:
    """The nodes as a workflow that passed every rule, or None; its name is its digest."""
    bare = Workflow(name="edit", nodes=tuple(nodes))
    try:
        return parse_workflow(replace(bare, name=f"edit-{bare.digest[:10]}").to_dict())
    except WorkflowError:
        return None


def add_vote(workflow: Workflow, rng: np.random.Generator) -> Change | None:
    """Draw the final answer several times and take the most frequent."""
    final = _final(workflow)
    if not isinstance(final, Ask) or not answers(final):
        return None
    n = one(rng, SAMPLES)
    warm = replace(final.prompt, temperature=max(final.prompt.temperature, 0.5))
    vote = Vote(id=_new_id(workflow.nodes, "vote"), inputs=(final.id,))
    longer = replace(workflow, nodes=_extended(workflow, vote))
    nodes = _swapped(longer, final, replace(final, n=n, prompt=warm))
    return nodes, f"vote over {n} samples of {final.id}"


def add_step_back(workflow: Workflow, rng: np.random.Generator) -> Change | None:
    """Ask for principles first and show them to a node that answers."""
    asks = [n for n in workflow.nodes if isinstance(n, Ask)]
    found = [n for n in asks if answers(n)]
    if not found or any(n.prompt.instruction == PRINCIPLES for n in asks):
        return None
    target, name = one(rng, found), _new_id(workflow.nodes, "principles")
    first = Ask(id=name, prompt=Prompt(instruction=PRINCIPLES), fields=("principles",))
    prompt, text = target.prompt, f"{target.prompt.instruction} {GUIDED}"
    if len(text) > MOST_TEXT:
        return None
    if GUIDED not in prompt.instruction:
        prompt = replace(prompt, instruction=text)
    guided = replace(target, prompt=prompt, inputs=(first.id, *target.inputs))
    return (first, *_swapped(workflow, target, guided)), f"{target.id} sees principles first"


def add_critique(workflow: Workflow, rng: np.random.Generator) -> Change | None:
    """A critic looks at the final answer."""
    final = _final(workflow)
    single = isinstance(final, Decide) or (isinstance(final, Ask) and final.n == 1)
    if not single or not answers(final):
        return None
    loop = CritiqueLoop(
        id=_new_id(workflow.nodes, "critique"),
        draft=final.id,
        critic=Prompt(instruction=CRITIC),
        reviser=Prompt(instruction=REVISER),
        max_rounds=one(rng, ROUNDS),
    )
    return _extended(workflow, loop), f"up to {loop.max_rounds} rounds of criticism of {final.id}"


def add_debate(workflow: Workflow, rng: np.random.Generator) -> Change | None:
    """One more round of debate: two roles see what there is and answer, a decider has the last
    word.
    """
    final = _final(workflow)
    decider = Prompt(instruction=DECIDER, temperature=0.1)
    seen: tuple[str, ...] = (final.id,)
    kept = list(workflow.nodes[:-1])
    if isinstance(final, Decide):
        decider, seen = final.prompt, final.inputs
        kept.remove(final)
    who = [ROLES[1:][int(i)] for i in rng.permutation(len(ROLES) - 1)[:2]]
    more: list[Node] = []
    for role in who:
        name = _new_id([*workflow.nodes, *more], "debater")
        prompt = Prompt(instruction=DEBATER, role=role, temperature=0.8)
        more.append(Ask(id=name, prompt=prompt, inputs=seen))
    name = _new_id([*workflow.nodes, *more], "decide")
    last = Decide(id=name, prompt=decider, inputs=tuple(n.id for n in more))
    nodes = (*kept, *more, last, replace(_end(workflow), input=last.id))
    return prune(nodes), f'a round of debate: "{who[0]}", "{who[1]}"'


def remove(workflow: Workflow, rng: np.random.Generator) -> Change | None:
    """Take a node away; whoever referred to it refers to what it rested on."""
    shorter = [(_without(workflow, gone), f"without {gone.id}") for gone in workflow.nodes[:-1]]
    found = [(nodes, said) for nodes, said in shorter if nodes and valid(nodes) is not None]
    return one(rng, found) if found else None


def _without(workflow: Workflow, gone: Node) -> tuple[Node, ...]:
    into = inputs_of(gone)
    ends = [n for n in workflow.nodes if isinstance(n, AnswerNode | CritiqueLoop)]
    if not into and any(gone.id in inputs_of(n) for n in ends):
        return ()
    nodes = prune([_rewired(n, gone.id, into) for n in workflow.nodes if n is not gone])
    # Several samples only where a vote or a decision is taken among them.
    counted = {ref for n in nodes if isinstance(n, Vote | Decide) for ref in n.inputs}
    return tuple(
        replace(n, n=1) if isinstance(n, Ask) and n.id not in counted else n for n in nodes
    )


def _rewired(node: Node, gone: str, into: tuple[str, ...]) -> Node:
    if gone not in inputs_of(node):
        return node
    if isinstance(node, AnswerNode):
        return replace(node, input=into[0])
    if isinstance(node, CritiqueLoop):
        return replace(node, draft=into[0])
    wired = [x for ref in node.inputs for x in (into if ref == gone else (ref,))]
    return replace(node, inputs=tuple(dict.fromkeys(wired)))


def swap(workflow: Workflow, rng: np.random.Generator) -> Change | None:
    """Count votes where a model decided, or let a model decide where votes were counted."""
    able = {n.id for n in workflow.nodes if answers(n)}
    choosers = [n for n in workflow.nodes if isinstance(n, Vote | Decide)]
    found = [n for n in choosers if isinstance(n, Vote) or able.issuperset(n.inputs)]
    if not found:
        return None
    old = one(rng, found)
    if isinstance(old, Vote):
        prompt = Prompt(instruction=DECIDER, temperature=0.1)
        name, said = _new_id(workflow.nodes, "decide"), f"a model decides instead of {old.id}"
        new: Node = Decide(id=name, prompt=prompt, inputs=old.inputs)
    else:
        new = Vote(id=_new_id(workflow.nodes, "vote"), inputs=inputs_of(old))
        said = f"votes are counted instead of {old.id}"
    nodes = [new if n is old else _rewired(n, old.id, (new.id,)) for n in workflow.nodes]
    return tuple(nodes), said


def fallback(workflow: Workflow, _: np.random.Generator) -> Change | None:
    """Ask once more for the letter alone where no answer can be read, or no longer."""
    end, call = _end(workflow), "second call for the letter alone"
    said = f"no {call}" if end.fallback else f"a {call} where none can be read"
    return _swapped(workflow, end, replace(end, fallback=not end.fallback)), said


def _prompts(node: Node) -> dict[str, Prompt]:
    if isinstance(node, RouteNode):
        return dict(node.branches)
    slots = ("prompt", "critic", "reviser")
    return {slot: getattr(node, slot) for slot in slots if hasattr(node, slot)}


def _reworded(change: Callable[[Prompt, np.random.Generator], Reworded]) -> Edit:
    """An edit that changes one prompt, each as likely."""

    def edit(workflow: Workflow, rng: np.random.Generator) -> Change | None:
        slots = [(n, s) for n in workflow.nodes for s in _prompts(n)]
        if not slots:
            return None
        node, slot = one(rng, slots)
        found = change(_prompts(node)[slot], rng)
        if found is None:
            return None
        new: dict[str, Any] = {slot: found[0]}
        if isinstance(node, RouteNode):
            new = {"branches": {**node.branches, **new}}
        where = node.id if slot == "prompt" else f"{node.id} ({slot})"
        return _swapped(workflow, node, replace(node, **new)), f"{where}: {found[1]}"

    return edit


def _instruction(prompt: Prompt, rng: np.random.Generator) -> Reworded:
    """Add a phrase of the bank to an instruction, replace the one that is there, or take it away."""
    old = next((p for p in PHRASES if p in prompt.instruction), "")
    new = one(rng, [p for p in (*PHRASES, "") if p != old])
    text = " ".join(prompt.instruction.replace(old, " ").split()) if old else prompt.instruction
    text = f"{text} {new}".strip()
    if not text or len(text) > MOST_TEXT:
        return None
    said = f'says "{new}"' if new else "says less"
    return replace(prompt, instruction=text), said + (f' instead of "{old}"' if old else "")


def _role(prompt: Prompt, rng: np.random.Generator) -> Reworded:
    new = one(rng, [r for r in ROLES if r != prompt.role])
    return replace(prompt, role=new), f'is told "{new}"' if new else "has no role"


def _temperature(prompt: Prompt, rng: np.random.Generator) -> Reworded:
    old = prompt.temperature
    new = one(rng, [t for t in TEMPERATURES if t != old])
    return replace(prompt, temperature=new), f"temperature {old:g} to {new:g}"


def _tokens(prompt: Prompt, rng: np.random.Generator) -> Reworded:
    old = prompt.max_tokens
    new = one(rng, [t for t in TOKENS if t != old])
    return replace(prompt, max_tokens=new), f"at most {new} tokens instead of {old}"


def samples(workflow: Workflow, rng: np.random.Generator) -> Change | None:
    """Another number of samples of a node whose answers are counted or weighed."""
    voted = {ref for n in workflow.nodes if isinstance(n, Vote) for ref in n.inputs}
    found = [n for n in workflow.nodes if isinstance(n, Ask) and (n.n > 1 or n.id in voted)]
    if not found:
        return None
    node = one(rng, found)
    new = one(rng, [k for k in SAMPLES if k != node.n])
    said = f"{node.id}: {new} samples instead of {node.n}"
    return _swapped(workflow, node, replace(node, n=new)), said


def rounds(workflow: Workflow, rng: np.random.Generator) -> Change | None:
    """Another number of rounds of criticism."""
    found = [n for n in workflow.nodes if isinstance(n, CritiqueLoop)]
    if not found:
        return None
    node = one(rng, found)
    new = one(rng, [k for k in ROUNDS if k != node.max_rounds])
    said = f"{node.id}: at most {new} rounds instead of {node.max_rounds}"
    return _swapped(workflow, node, replace(node, max_rounds=new)), said


def sentences(workflow: Workflow) -> dict[str, float]:
    """What the prompts say, sentence by sentence, with the share of the prompts that say it."""
    prompts = [p for node in workflow.nodes for p in _prompts(node).values()]
    said = Counter(s for p in prompts for s in dict.fromkeys(_SENTENCE.split(p.instruction)))
    return {sentence: n / len(prompts) for sentence, n in said.items()}


def cross(workflow: Workflow, other: Workflow, rng: np.random.Generator) -> Change | None:
    """Say in every prompt that leads to an answer what another workflow says too; each sentence of
    the bank joins with probability 1/2.
    """
    there = [s for s in sentences(other) if s in PHRASES]
    new = [s for s in there if rng.random() < 0.5]

    def more(prompt: Prompt) -> Prompt:
        text = " ".join([prompt.instruction, *(s for s in new if s not in prompt.instruction)])
        return replace(prompt, instruction=text) if len(text) <= MOST_TEXT else prompt

    nodes = []
    for node in workflow.nodes:
        said_now = {k: more(p) for k, p in _prompts(node).items() if k != "critic"}
        slots: dict[str, Any] = {"branches": said_now} if isinstance(node, RouteNode) else said_now
        nodes.append(replace(node, **slots) if slots else node)
    said = f"says what {other.name} says: {' '.join(new)}"
    return (tuple(nodes), said) if tuple(nodes) != workflow.nodes else None


EDITS: dict[str, Edit] = {
    "instruction": _reworded(_instruction),
    "role": _reworded(_role),
    "temperature": _reworded(_temperature),
    "tokens": _reworded(_tokens),
    "samples": samples,
    "rounds": rounds,
    "vote": add_vote,
    "step-back": add_step_back,
    "critique": add_critique,
    "debate": add_debate,
    "remove": remove,
    "swap": swap,
    "fallback": fallback,
}


@dataclass(frozen=True, slots=True)
class Edited:
    """A workflow that differs from its parent by ``change``."""

    workflow: Workflow
    change: str


def edit_workflow(
    workflow: Workflow,
    rng: np.random.Generator,
    *,
    most_calls: int = 20,
    kinds: Sequence[str] = tuple(EDITS),
) -> Edited | None:
    """One random typed edit, or None where the drawn kind does not apply or would take more than
    ``most_calls`` calls per item.

    Examples
    --------
    >>> import numpy as np
    >>> from noracle.search.workflow import AnswerNode, Ask, Prompt, Workflow
    >>> plain = Workflow(name="plain", nodes=(Ask(id="a", prompt=Prompt(instruction="Answer.")), AnswerNode(input="a")))
    >>> edit_workflow(plain, np.random.default_rng(1), kinds=["fallback"]).change
    'a second call for the letter alone where none can be read'
    """
    came = [k for k in kinds if k not in EDITS] or ("none" if not kinds else "")
    require(not came, f"kinds must be some of {list(EDITS)}; got {came}.")
    found = EDITS[one(rng, kinds)](workflow, rng)
    new = None if found is None else valid(found[0])
    if found is None or new is None:
        return None
    smaller = len(new.nodes) <= len(workflow.nodes) and new.most_calls <= workflow.most_calls
    return Edited(new, found[1]) if smaller or new.most_calls <= most_calls else None
