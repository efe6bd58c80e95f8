"""Typed edits of workflows: small, random, and valid by construction.

Each edit takes a workflow and a generator and gives back the changed nodes with one line that says
what changed, or None where it does not apply. Texts come from banks, so that nothing a model wrote
gets into a workflow.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from noracle.errors import ArgumentError
from noracle.search.strategies import reshaping
from noracle.search.strategies.banks import (
    MOST_TEXT,
    PHRASES,
    ROLES,
    ROUNDS,
    SAMPLES,
    TEMPERATURES,
    TOKENS,
)
from noracle.search.strategies.reshaping import Change, Edit, one, swap_node, valid
from noracle.search.workflow import Ask, CritiqueLoop, Decide, Node, Prompt, Route, Vote, Workflow

if TYPE_CHECKING:
    import numpy as np


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
    "vote": reshaping.add_vote,
    "step-back": reshaping.add_step_back,
    "critique": reshaping.add_critique,
    "debate": reshaping.add_debate,
    "remove": reshaping.remove,
    "swap": reshaping.swap,
    "fallback": reshaping.fallback,
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
