"""Random valid workflows, questions, and models that say what a test wants."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from noracle.search.model import Completion, Request, Usage
from noracle.search.task import PosedQuestion, TaskItem, pose

ITEM = TaskItem(id="q7", text="Which number is even?", options=("one", "two", "three", "five"))
QUESTION = pose(ITEM)
CLAIM = TaskItem(
    id="c1", text="Claim under review: two is even.", options=("yes", "no", "uncertain")
)

Say = Callable[[Request], "str | Completion | Exception"]


class Scripted:
    """Calls that are answered by a function, at random or in order; every request is kept."""

    def __init__(
        self, say: Say | str | list[str], *, waits: Callable[[Request], float] | None = None
    ) -> None:
        self.say, self.waits = say, waits
        self.asked: list[Request] = []
        self.running = self.most_at_once = 0

    async def call(self, request: Request) -> Completion:
        self.asked.append(request)
        self.running += 1
        self.most_at_once = max(self.most_at_once, self.running)
        number = len(self.asked) - 1
        await asyncio.sleep(self.waits(request) if self.waits else 0)
        self.running -= 1
        said = (
            self.say[min(number, len(self.say) - 1)]
            if isinstance(self.say, list)
            else self.say
            if isinstance(self.say, str)
            else self.say(request)
        )
        if isinstance(said, Exception):
            raise said
        return said if isinstance(said, Completion) else Completion(text=said, usage=Usage(10, 2))


def last_text(request: Request) -> str:
    """What the user said last."""
    return next(m.text for m in reversed(request.messages) if m.role == "user")


def shuffled(item: TaskItem = ITEM, seed: int = 3) -> PosedQuestion:
    return pose(item, shuffle=seed)


# A blank instruction is no instruction, and control characters are refused: neither is made here.
TEXTS = st.text(
    st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), min_size=1, max_size=40
).filter(str.strip)
NAMES = st.from_regex(r"[a-z][a-z0-9_-]{0,11}", fullmatch=True).filter(lambda name: name != "task")


@st.composite
def prompts(draw: st.DrawFn) -> dict[str, Any]:
    made: dict[str, Any] = {"instruction": draw(TEXTS)}
    if draw(st.booleans()):
        made["role"] = draw(TEXTS)
    if draw(st.booleans()):
        made["temperature"] = draw(st.one_of(st.integers(0, 2), st.floats(0, 2)))
    if draw(st.booleans()):
        made["max_tokens"] = draw(st.integers(1, 8192))
    return made


@st.composite
def workflows(draw: st.DrawFn) -> dict[str, Any]:
    """Valid workflow data of up to seven nodes: a chain in which each node may read any of those
    before.
    """
    names = draw(st.lists(NAMES, min_size=2, max_size=7, unique=True))
    nodes: list[dict[str, Any]] = []
    answering: set[str] = set()
    several: set[str] = set()
    for i, name in enumerate(names[:-1]):
        made, last = _node(draw, name, nodes, answering, several), i == len(names) - 2
        nodes.append(made)
        if made["kind"] != "ask" or "answer" in made.get("fields", ["answer"]):
            answering.add(name)
        many_drafts = (
            made["kind"] == "critique_loop"
            and made.get("result") != "critic"
            and made["draft"] in several
        )
        if (made.get("n", 1) > 1 and made.get("result") != "critic") or many_drafts:
            several.add(name)
        if last and (name not in answering or name in several):
            rest = [n["id"] for n in nodes]
            nodes.append(
                {"kind": "decide", "id": names[-1], "prompt": draw(prompts()), "inputs": rest}
            )
    end: dict[str, Any] = {"kind": "answer", "id": "the-end", "input": nodes[-1]["id"]}
    for flag in ("fallback", "coin"):
        if draw(st.booleans()):
            end[flag] = True
    return {
        "schema": "workflow/1",
        "name": draw(NAMES),
        "description": draw(st.one_of(st.just(""), TEXTS)),
        "nodes": [*nodes, end],
    }


def _node(
    draw: st.DrawFn, name: str, nodes: list[dict[str, Any]], answering: set[str], several: set[str]
) -> dict[str, Any]:
    del several
    before = [n["id"] for n in nodes]
    kinds = (
        ["ask", "route"]
        + (["decide"] if before else [])
        + (["vote", "critique_loop"] if before and before[-1] in answering else [])
    )
    kind = draw(st.sampled_from(kinds))
    # The node before is always read, so that every node counts towards the answer.
    others = draw(st.lists(st.sampled_from(before), unique=True)) if before else []
    inputs = [*before[-1:], *(b for b in others if b != before[-1])]
    made: dict[str, Any] = {"kind": kind, "id": name}
    if kind == "vote":
        return {**made, "inputs": [b for b in inputs if b in answering]}
    if kind == "critique_loop":
        made |= {
            "draft": before[-1],
            "critic": draw(prompts()),
            "reviser": draw(prompts()),
            "stop": draw(st.sampled_from([["CORRECT"], [], ["A", "B"]])),
        }
        return made | {
            "max_rounds": draw(st.integers(1, 2)),
            "n": draw(st.integers(1, 2)),
            "result": draw(st.sampled_from(["draft", "critic"])),
            "close": draw(st.booleans()),
        }
    made |= {"prompt": draw(prompts()), "inputs": inputs}
    if kind == "route":
        made["branches"] = {
            b: draw(prompts())
            for b in draw(
                st.lists(
                    st.sampled_from(["a", "b", "doctor", "z9"]), min_size=2, max_size=3, unique=True
                )
            )
        }
    if kind == "ask":
        made["n"] = draw(st.integers(1, 3))
        if draw(st.booleans()):
            made["fields"] = draw(
                st.sampled_from([["answer"], ["notes"], ["notes", "plan"], ["notes", "answer"]])
            )
        if "answer" in made.get("fields", ["answer"]) and draw(st.booleans()):
            made["force_after"] = draw(st.integers(1, 5))
    return made
