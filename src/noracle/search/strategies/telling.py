"""What a designer is told: the format, the archive, failures and experience. Never a truth, never a
score on its own scale.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from noracle.search.candidates import Scored
from noracle.search.strategies.standing import Standing, stand
from noracle.search.task import LETTERS, Task, TaskItem
from noracle.search.workflow import MOST_NODES, MOST_SAMPLES, Workflow

if TYPE_CHECKING:
    import numpy as np

MOST_SHOWN = 600
"""Characters of an item's text that a designer sees."""

SYSTEM = "You design workflows that make a language model answer multiple-choice questions well. You reply with one JSON object."

STANDING = (
    "A standing is how many standard errors a workflow lies below the best one: 0 is the best, and differences below 2 may well be chance. "
    "It is measured with weak labels: for some items an expert has excluded one option, and nobody knows the right one."
)


def describe_format(most_calls: int) -> str:
    """The rules of a workflow, and what a reply looks like."""
    example = {
        "thought": "why this should help",
        "change": "one line: what is new",
        "workflow": {
            "schema": "workflow/1",
            "name": "short-name",
            "nodes": [
                {
                    "kind": "ask",
                    "id": "thought",
                    "prompt": {
                        "instruction": "Think step by step, then choose.",
                        "temperature": 0.8,
                    },
                    "n": 5,
                },
                {"kind": "vote", "id": "vote", "inputs": ["thought"]},
                {"kind": "answer", "input": "vote"},
            ],
        },
    }
    return f"""A workflow is a list of nodes; each names only nodes before it, the last is the answer. Every call sees the question.
- ask: id, prompt, inputs (earlier nodes whose texts are shown), fields (parts of the reply, by default ["reasoning", "answer"]; leave
  "answer" out for a node that only prepares), n (samples, 1 to {MOST_SAMPLES}).
- vote: id, inputs. The most frequent answer.
- decide: id, prompt, inputs. The model chooses among earlier results.
- critique_loop: id, draft (an earlier node), critic (prompt), reviser (prompt), max_rounds (1 to 5). Stops when the critic writes CORRECT.
- route: id, prompt, branches (name to prompt). The model picks the branch that answers.
- answer: input (the node whose answer counts), fallback (true: one more call asks for the letter alone where no answer can be read).
A prompt has instruction, role, temperature (0 to 2), max_tokens. At most {MOST_NODES} nodes and {most_calls} calls per item; every node
must lead to the answer; a node with n > 1 needs a vote or a decide after it.
Reply with one JSON object and nothing else, like this:
{json.dumps(example)}"""


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
    return "\n".join(
        json.dumps(_line(s, standing.get(s.entry.number)), ensure_ascii=False) for s in told
    )


def _line(scored: Scored, z: float | None) -> dict[str, object]:
    entry = scored.entry
    if z is None:
        why = entry.problem or "it has no score"
        return {
            "number": entry.number,
            "name": entry.workflow.name,
            "failed": why,
            "change": entry.change,
        }
    line: dict[str, object] = {
        "number": entry.number,
        "standing": shown_z(z),
        "calls_per_item": entry.workflow.most_calls,
    }
    if entry.change:
        line["change"] = entry.change
    return {**line, "workflow": _compact(entry.workflow)}


def _compact(workflow: Workflow) -> dict[str, object]:
    """A workflow as the archive shows it: without words about itself."""
    return {k: v for k, v in workflow.to_dict().items() if k != "description"}


def shown_z(z: float) -> float:
    """A standing at two decimals."""
    return round(z, 2) + 0.0


def describe_failures(
    scored: Scored, task: Task | None, rng: np.random.Generator, *, most: int = 3
) -> str:
    """A few validation items on which an expert excluded the answer, or on which there was none."""
    failures: list[tuple[int | str, int | None]] = [
        *scored.excluded,
        *((item, None) for item in scored.unanswered),
    ]
    if not failures:
        return "No failure of it is known."
    some = [failures[int(i)] for i in sorted(rng.permutation(len(failures))[:most])]
    items = {item.id: item for item in task.items} if task is not None else {}
    head = f"An expert excluded its answer on {len(scored.excluded)} items; it gave none on {len(scored.unanswered)}. Some of them:"
    return "\n".join([head, *(_failure(item, answer, items.get(item)) for item, answer in some)])


def _failure(name: int | str, answer: int | None, item: TaskItem | None) -> str:
    if answer is None:
        said = "it gave no answer that could be read"
    else:
        option = (
            f' "{item.options[answer][:200]}"'
            if item is not None and 0 <= answer < len(item.options)
            else ""
        )
        said = f"an expert excluded option {LETTERS[answer]}{option}, which it chose"
    text = "" if item is None else f" Text: {' '.join(item.text.split())[:MOST_SHOWN]}"
    return f"- item {name}: {said}.{text}"


def describe_experience(
    parent: Standing, standings: Sequence[Standing], failed: Sequence[Scored]
) -> str:
    """What became of earlier changes to one workflow: those that raised its standing, lowered it,
    left it, or could not be run.
    """
    kinds: dict[str, list[str]] = {"raised": [], "lowered": [], "left": []}
    for child in standings:
        if parent.number in child.scored.entry.parents:
            gain = shown_z(child.z - parent.z)
            line = (
                f"- {child.scored.entry.change or child.scored.entry.workflow.name} ({gain:+.2f})"
            )
            kinds["raised" if gain > 0 else "lowered" if gain < 0 else "left"].append(line)
    parts = []
    if kinds["raised"]:
        parts.append(
            "These changes to it raised the standing; build on what they share:\n"
            + "\n".join(kinds["raised"])
        )
    if kinds["lowered"]:
        parts.append(
            "These changes to it lowered the standing; do not repeat them:\n"
            + "\n".join(kinds["lowered"])
        )
    if kinds["left"]:
        parts.append("These changes to it made no difference:\n" + "\n".join(kinds["left"]))
    broken = [f"- {s.entry.problem}" for s in failed if parent.number in s.entry.parents]
    if broken:
        parts.append("These tries came to nothing:\n" + "\n".join(dict.fromkeys(broken)))
    return "\n".join(parts) or "No change to it was tried yet."
