"""Typed edits of workflows: small, random, and valid by construction.

Each edit takes a workflow and a generator and gives back the changed nodes with one line that says
what changed, or None where it does not apply. Texts come from banks, so that nothing a model wrote
gets into a workflow.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from noracle.errors import ArgumentError
from noracle.search.workflow import (
    Answer,
    Ask,
    CritiqueLoop,
    Decide,
    Node,
    Prompt,
    Route,
    Vote,
    Workflow,
    WorkflowError,
    inputs_of,
    parse_workflow,
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


# ----------------------------------------------------------------------------
# Edits of the shape of a workflow: nodes come, go, or change their kind.


Change = tuple[tuple[Node, ...], str]
Edit = Callable[[Workflow, np.random.Generator], Change | None]
T = TypeVar("T")


def one(rng: np.random.Generator, options: Sequence[T]) -> T:
    """One of the options, each as likely."""
    return options[int(rng.integers(len(options)))]


def _end(workflow: Workflow) -> Answer:
    last = workflow.nodes[-1]
    if not isinstance(last, Answer):
        raise ArgumentError(
            f"workflow must end with an answer node; got {last.kind!r} at {last.id!r}."
        )
    return last


def _final(workflow: Workflow) -> Node:
    """The node whose answer counts."""
    end = _end(workflow)
    return next(n for n in workflow.nodes if n.id == end.input)


def _new_id(nodes: Sequence[Node], stem: str) -> str:
    taken = {n.id for n in nodes}
    return next(name for k in range(1, len(nodes) + 2) if (name := f"{stem}{k}") not in taken)


def swap_node(nodes: Sequence[Node], old: Node, new: Node) -> tuple[Node, ...]:
    """The nodes with one of them replaced."""
    return tuple(new if n is old else n for n in nodes)


def _extend(workflow: Workflow, more: Sequence[Node], result: str) -> tuple[Node, ...]:
    """Put nodes before the end and let the answer come from ``result``."""
    return (*workflow.nodes[:-1], *more, dataclasses.replace(_end(workflow), input=result))


def valid(nodes: Sequence[Node]) -> Workflow | None:
    """The nodes as a workflow that passed every rule, or None; its name is its digest."""
    bare = Workflow(name="edit", nodes=tuple(nodes))
    try:
        return parse_workflow(dataclasses.replace(bare, name=f"edit-{bare.digest[:10]}").to_dict())
    except WorkflowError:
        return None


def prune(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """Drop nodes that the answer does not rest on."""
    wanted = {nodes[-1].id}
    kept: list[Node] = []
    for node in reversed(nodes):
        if node.id in wanted:
            wanted.update(inputs_of(node))
            kept.append(node)
    return tuple(reversed(kept))


def add_vote(workflow: Workflow, rng: np.random.Generator) -> Change | None:
    """Draw the final answer several times and take the most frequent."""
    final = _final(workflow)
    if not isinstance(final, Ask) or "answer" not in final.fields:
        return None
    n = one(rng, SAMPLES)
    warm = dataclasses.replace(final.prompt, temperature=max(final.prompt.temperature, 0.5))
    vote = Vote(id=_new_id(workflow.nodes, "vote"), inputs=(final.id,))
    nodes = swap_node(
        _extend(workflow, [vote], vote.id), final, dataclasses.replace(final, n=n, prompt=warm)
    )
    return nodes, f"vote over {n} samples of {final.id}"


def add_step_back(workflow: Workflow, rng: np.random.Generator) -> Change | None:
    """Ask for principles first and show them to a node that answers."""
    found = [n for n in workflow.nodes if isinstance(n, Ask) and "answer" in n.fields]
    if not found or any(
        isinstance(n, Ask) and n.prompt.instruction == PRINCIPLES for n in workflow.nodes
    ):
        return None
    target = one(rng, found)
    first = Ask(
        id=_new_id(workflow.nodes, "principles"),
        prompt=Prompt(instruction=PRINCIPLES),
        fields=("principles",),
    )
    text = f"{target.prompt.instruction} {GUIDED}"
    if len(text) > MOST_TEXT:
        return None
    prompt = (
        target.prompt
        if GUIDED in target.prompt.instruction
        else dataclasses.replace(target.prompt, instruction=text)
    )
    guided = dataclasses.replace(target, prompt=prompt, inputs=(first.id, *target.inputs))
    return (first, *swap_node(workflow.nodes, target, guided)), f"{target.id} sees principles first"


def add_critique(workflow: Workflow, rng: np.random.Generator) -> Change | None:
    """A critic looks at the final answer."""
    final = _final(workflow)
    if not isinstance(final, Ask | Decide) or (
        isinstance(final, Ask) and (final.n > 1 or "answer" not in final.fields)
    ):
        return None
    loop = CritiqueLoop(
        id=_new_id(workflow.nodes, "critique"),
        draft=final.id,
        critic=Prompt(instruction=CRITIC),
        reviser=Prompt(instruction=REVISER),
        max_rounds=one(rng, ROUNDS),
    )
    return _extend(
        workflow, [loop], loop.id
    ), f"up to {loop.max_rounds} rounds of criticism of {final.id}"


def add_debate(workflow: Workflow, rng: np.random.Generator) -> Change | None:
    """One more round of debate: two roles see what there is and answer, and a decider has the last
    word.
    """
    final = _final(workflow)
    seen = final.inputs if isinstance(final, Decide) else (final.id,)
    who = [ROLES[1:][int(i)] for i in rng.permutation(len(ROLES) - 1)[:2]]
    kept = [n for n in workflow.nodes if n is not final or not isinstance(final, Decide)]
    more: list[Node] = []
    for name in who:
        prompt = Prompt(instruction=DEBATER, role=name, temperature=0.8)
        more.append(
            Ask(id=_new_id([*workflow.nodes, *more], "debater"), prompt=prompt, inputs=seen)
        )
    decider = (
        final.prompt if isinstance(final, Decide) else Prompt(instruction=DECIDER, temperature=0.1)
    )
    last = Decide(
        id=_new_id([*workflow.nodes, *more], "decide"),
        prompt=decider,
        inputs=tuple(n.id for n in more),
    )
    nodes = (*kept[:-1], *more, last, dataclasses.replace(_end(workflow), input=last.id))
    return prune(nodes), f'a round of debate: "{who[0]}", "{who[1]}"'


def remove(workflow: Workflow, rng: np.random.Generator) -> Change | None:
    """Take a node away; whoever referred to it refers to what it rested on."""
    shorter = [(gone.id, _without(workflow, gone)) for gone in workflow.nodes[:-1]]
    found = [
        (name, nodes) for name, nodes in shorter if nodes is not None and valid(nodes) is not None
    ]
    if not found:
        return None
    name, nodes = one(rng, found)
    return nodes or (), f"without {name}"


def _without(workflow: Workflow, gone: Node) -> tuple[Node, ...] | None:
    into = inputs_of(gone)
    if not into and any(
        isinstance(n, Answer | CritiqueLoop) and gone.id in inputs_of(n) for n in workflow.nodes
    ):
        return None
    return _single(prune([_rewired(n, gone.id, into) for n in workflow.nodes if n is not gone]))


def _all_answer(workflow: Workflow, names: Sequence[str]) -> bool:
    by = {n.id: n for n in workflow.nodes}
    return all(
        name in by and (not isinstance(node := by[name], Ask) or "answer" in node.fields)
        for name in names
    )


def _rewired(node: Node, gone: str, into: tuple[str, ...]) -> Node:
    if gone not in inputs_of(node):
        return node
    if isinstance(node, Answer):
        return dataclasses.replace(node, input=into[0])
    if isinstance(node, CritiqueLoop):
        return dataclasses.replace(node, draft=into[0])
    wired = [x for ref in node.inputs for x in (into if ref == gone else (ref,))]
    return dataclasses.replace(node, inputs=tuple(dict.fromkeys(wired)))


def _single(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """Several samples only where a vote or a decision is taken among them."""
    counted = {ref for n in nodes if isinstance(n, Vote | Decide) for ref in n.inputs}
    return tuple(
        dataclasses.replace(n, n=1) if isinstance(n, Ask) and n.n > 1 and n.id not in counted else n
        for n in nodes
    )


def swap(workflow: Workflow, rng: np.random.Generator) -> Change | None:
    """Count votes where a model decided, or let a model decide where votes were counted."""
    found = [
        n
        for n in workflow.nodes
        if (isinstance(n, Vote) or (isinstance(n, Decide) and _all_answer(workflow, n.inputs)))
    ]
    if not found:
        return None
    old = one(rng, found)
    if isinstance(old, Vote):
        new: Node = Decide(
            id=_new_id(workflow.nodes, "decide"),
            prompt=Prompt(instruction=DECIDER, temperature=0.1),
            inputs=old.inputs,
        )
        said = f"a model decides instead of {old.id}"
    else:
        new = Vote(id=_new_id(workflow.nodes, "vote"), inputs=inputs_of(old))
        said = f"votes are counted instead of {old.id}"
    nodes = [new if n is old else _rewired(n, old.id, (new.id,)) for n in workflow.nodes]
    return tuple(nodes), said


def fallback(workflow: Workflow, rng: np.random.Generator) -> Change | None:  # noqa: ARG001  (the shape of an edit)
    """Ask once more for the letter alone where no answer can be read, or no longer."""
    end = _end(workflow)
    said = (
        "no second call for the letter alone"
        if end.fallback
        else "a second call for the letter alone where none can be read"
    )
    return swap_node(workflow.nodes, end, dataclasses.replace(end, fallback=not end.fallback)), said


# ----------------------------------------------------------------------------


def _prompts(node: Node) -> dict[str, Prompt]:
    if isinstance(node, Ask | Decide):
        return {"prompt": node.prompt}
    if isinstance(node, CritiqueLoop):
        return {"critic": node.critic, "reviser": node.reviser}
    return dict(node.branches) if isinstance(node, Route) else {}


def _with_prompt(node: Node, slot: str, prompt: Prompt) -> Node:
    if isinstance(node, Route):
        return dataclasses.replace(node, branches={**node.branches, slot: prompt})
    if isinstance(node, CritiqueLoop):
        return (
            dataclasses.replace(node, critic=prompt)
            if slot == "critic"
            else dataclasses.replace(node, reviser=prompt)
        )
    return dataclasses.replace(node, prompt=prompt) if isinstance(node, Ask | Decide) else node


def _reword(
    workflow: Workflow,
    rng: np.random.Generator,
    change: Callable[[Prompt], tuple[Prompt, str] | None],
) -> Change | None:
    """Change one prompt, each as likely."""
    slots = [(n, s) for n in workflow.nodes for s in _prompts(n)]
    if not slots:
        return None
    node, slot = one(rng, slots)
    found = change(_prompts(node)[slot])
    if found is None:
        return None
    prompt, said = found
    where = node.id if slot == "prompt" else f"{node.id} ({slot})"
    return swap_node(workflow.nodes, node, _with_prompt(node, slot, prompt)), f"{where}: {said}"


def instruction(workflow: Workflow, rng: np.random.Generator) -> Change | None:
    """Add a phrase of the bank to an instruction, replace the one that is there, or take it away."""

    def change(prompt: Prompt) -> tuple[Prompt, str] | None:
        old = next((p for p in PHRASES if p in prompt.instruction), "")
        new = one(rng, [p for p in (*PHRASES, "") if p != old])
        text = " ".join(prompt.instruction.replace(old, " ").split()) if old else prompt.instruction
        text = f"{text} {new}".strip()
        if not text or len(text) > MOST_TEXT:
            return None
        said = f'says "{new}"' if new else "says less"
        return dataclasses.replace(prompt, instruction=text), said + (
            f' instead of "{old}"' if old else ""
        )

    return _reword(workflow, rng, change)


def role(workflow: Workflow, rng: np.random.Generator) -> Change | None:
    """Give a prompt another role of the bank."""

    def change(prompt: Prompt) -> tuple[Prompt, str]:
        new = one(rng, [r for r in ROLES if r != prompt.role])
        return dataclasses.replace(prompt, role=new), f'is told "{new}"' if new else "has no role"

    return _reword(workflow, rng, change)


def temperature(workflow: Workflow, rng: np.random.Generator) -> Change | None:
    """Another temperature."""

    def change(prompt: Prompt) -> tuple[Prompt, str]:
        new = one(rng, [t for t in TEMPERATURES if t != prompt.temperature])
        return dataclasses.replace(
            prompt, temperature=new
        ), f"temperature {prompt.temperature:g} to {new:g}"

    return _reword(workflow, rng, change)


def tokens(workflow: Workflow, rng: np.random.Generator) -> Change | None:
    """Another limit of tokens."""

    def change(prompt: Prompt) -> tuple[Prompt, str]:
        new = one(rng, [t for t in TOKENS if t != prompt.max_tokens])
        return dataclasses.replace(
            prompt, max_tokens=new
        ), f"at most {new} tokens instead of {prompt.max_tokens}"

    return _reword(workflow, rng, change)


def samples(workflow: Workflow, rng: np.random.Generator) -> Change | None:
    """Another number of samples of a node whose answers are counted or weighed."""
    voted = {ref for n in workflow.nodes if isinstance(n, Vote) for ref in n.inputs}
    found = [n for n in workflow.nodes if isinstance(n, Ask) and (n.n > 1 or n.id in voted)]
    if not found:
        return None
    node = one(rng, found)
    new = one(rng, [k for k in SAMPLES if k != node.n])
    return swap_node(
        workflow.nodes, node, dataclasses.replace(node, n=new)
    ), f"{node.id}: {new} samples instead of {node.n}"


def rounds(workflow: Workflow, rng: np.random.Generator) -> Change | None:
    """Another number of rounds of criticism."""
    found = [n for n in workflow.nodes if isinstance(n, CritiqueLoop)]
    if not found:
        return None
    node = one(rng, found)
    new = one(rng, [k for k in ROUNDS if k != node.max_rounds])
    changed = dataclasses.replace(node, max_rounds=new)
    return swap_node(
        workflow.nodes, node, changed
    ), f"{node.id}: at most {new} rounds instead of {node.max_rounds}"


EDITS: dict[str, Edit] = {
    "instruction": instruction,
    "role": role,
    "temperature": temperature,
    "tokens": tokens,
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


@dataclasses.dataclass(frozen=True, slots=True)
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
    >>> from noracle.search.workflow import Answer, Ask, Prompt, Workflow
    >>> plain = Workflow(name="plain", nodes=(Ask(id="a", prompt=Prompt(instruction="Answer.")), Answer(input="a")))
    >>> edit_workflow(plain, np.random.default_rng(1), kinds=["fallback"]).change
    'a second call for the letter alone where none can be read'
    """
    unknown = [k for k in kinds if k not in EDITS]
    if unknown or not kinds:
        raise ArgumentError(f"kinds must be some of {list(EDITS)}; got {unknown or 'none'}.")
    found = EDITS[one(rng, kinds)](workflow, rng)
    new = None if found is None else valid(found[0])
    if found is None or new is None:
        return None
    smaller = len(new.nodes) <= len(workflow.nodes) and new.most_calls <= workflow.most_calls
    return Edited(new, found[1]) if smaller or new.most_calls <= most_calls else None
