"""Typed edits: always valid, always a change, and texts out of the banks alone."""

from __future__ import annotations

import numpy as np
import pytest

from noracle.errors import ArgumentError
from noracle.search.strategies import edits as banks
from noracle.search.strategies.edits import EDITS, edit_workflow, prune
from noracle.search.workflow import (
    AnswerNode,
    Ask,
    Decide,
    Vote,
    Workflow,
    inputs_of,
    load_workflow,
    parse_workflow,
    workflow_names,
)

BANKS = " ".join(
    [
        *banks.PHRASES,
        *banks.ROLES,
        *(v for k, v in vars(banks).items() if isinstance(v, str) and k.isupper()),
    ]
)


@pytest.mark.parametrize("kind", EDITS)
def test_every_edit_applies_somewhere_changes_something_and_is_valid(kind: str) -> None:
    """Without the guard of edit_workflow: valid by construction."""
    applied = 0
    for name in workflow_names():
        workflow = load_workflow(name)
        for seed in range(5):
            found = EDITS[kind](workflow, np.random.default_rng(seed))
            if found is None:
                continue
            applied += 1
            nodes, said = found
            new = parse_workflow(Workflow(name="new", nodes=nodes).to_dict())
            assert new.digest != workflow.digest, said
            assert said
            assert "\n" not in said
    assert applied >= 5


@pytest.mark.parametrize(
    "start",
    [
        "direct",
        "self-refine",
        "debate",
        "quality-diversity",
        "review-ensemble",
        "role",
        "judge-debate",
    ],
)
def test_long_walks_of_edits_stay_valid_and_cheap(start: str) -> None:
    workflow, rng, kinds = load_workflow(start), np.random.default_rng(3), set[str]()
    texts = BANKS + " ".join(str(n) for n in workflow.nodes)
    most = max(20, workflow.most_calls)
    for _ in range(80):
        found = edit_workflow(workflow, rng)
        if found is None:
            continue
        new = found.workflow
        assert parse_workflow(new.to_dict()) == new
        assert new.most_calls <= most
        kinds.update(n.kind for n in new.nodes)
        for node in new.nodes:
            if isinstance(node, Ask | Decide):
                for word in node.prompt.instruction.split():
                    assert word in texts
        workflow = new
    assert {"ask", "answer"} < kinds


def test_edits_repeat_with_the_generator() -> None:
    start = load_workflow("debate")
    first, second = (
        [edit_workflow(start, np.random.default_rng(s)) for s in range(20)] for _ in range(2)
    )
    assert first == second
    assert len({f.workflow.digest for f in first if f}) > 8


def test_a_vote_counts_several_samples_of_the_answer() -> None:
    found = EDITS["vote"](load_workflow("cot"), np.random.default_rng(0))
    assert found is not None
    ask, vote, end = found[0]
    assert isinstance(ask, Ask)
    assert ask.n in banks.SAMPLES
    assert ask.prompt.temperature >= 0.5
    assert isinstance(vote, Vote)
    assert isinstance(end, AnswerNode)
    assert (vote.inputs, end.input) == ((ask.id,), vote.id)


def test_removing_a_vote_leaves_one_sample() -> None:
    found = EDITS["remove"](load_workflow("cot-sc"), np.random.default_rng(0))
    assert found is not None
    assert [(n.kind, getattr(n, "n", None)) for n in found[0]] == [("ask", 1), ("answer", None)]


def test_a_phrase_is_replaced_not_piled_up() -> None:
    workflow, rng = load_workflow("cot"), np.random.default_rng(5)
    for _ in range(40):
        found = edit_workflow(workflow, rng, kinds=["instruction"])
        workflow = found.workflow if found else workflow
        node = workflow.nodes[0]
        assert isinstance(node, Ask)
        assert sum(p in node.prompt.instruction for p in banks.PHRASES) <= 1


def test_a_workflow_above_the_bound_may_only_shrink() -> None:
    big = load_workflow("self-refine")
    assert big.most_calls == 11
    calls = [
        f.workflow.most_calls
        for s in range(200)
        if (f := edit_workflow(big, np.random.default_rng(s), most_calls=5))
    ]
    assert max(calls) <= 11
    assert min(calls) < 11


def test_pruning_drops_what_the_answer_does_not_rest_on() -> None:
    nodes = load_workflow("step-back").nodes
    stray = Ask(id="stray", prompt=nodes[0].prompt, inputs=("principles",))  # type: ignore[union-attr]
    assert prune((*nodes[:-1], stray, nodes[-1])) == nodes
    assert all(inputs_of(n) is not None for n in nodes)


def test_unknown_kinds_are_refused() -> None:
    with pytest.raises(ArgumentError, match="kinds must be some of"):
        edit_workflow(load_workflow("cot"), np.random.default_rng(0), kinds=["magic"])
