"""Simulated models: the same reply to the same request, effects as documented, and something for a
search to find.
"""

from __future__ import annotations

import asyncio
import dataclasses
import time

import numpy as np
import pytest

from examples.papers._simulated_world import answer_all, run_all, simulated_world
from noracle.errors import ArgumentError
from noracle.search.candidates import Entry, Scored
from noracle.search.model import Message, ModelError, Request
from noracle.search.strategies import make_strategy
from noracle.search.task import draws, pose
from noracle.search.workflow import Workflow, load_workflow, parse_workflow

WORLD = simulated_world(1200, 4, skill=0.8, spread=1.5, seed=11)


def plain(instruction: str = "Choose.", **fields: object) -> Workflow:
    prompt = {"instruction": instruction, "temperature": 0.5, **fields}
    return parse_workflow(
        {
            "schema": "workflow/1",
            "name": "plain",
            "nodes": [
                {"kind": "ask", "id": "a", "prompt": prompt},
                {"kind": "answer", "input": "a"},
            ],
        }
    )


def voted(n: int, temperature: float) -> Workflow:
    return parse_workflow(
        {
            "schema": "workflow/1",
            "name": "voted",
            "nodes": [
                {
                    "kind": "ask",
                    "id": "a",
                    "prompt": {"instruction": "Choose.", "temperature": temperature},
                    "n": n,
                },
                {"kind": "vote", "id": "v", "inputs": ["a"]},
                {"kind": "answer", "input": "v"},
            ],
        }
    )


def accuracy(workflow: Workflow) -> float:
    return WORLD.accuracy(run_all(workflow, WORLD))


def test_the_reply_depends_on_the_request_alone() -> None:
    first, second = (
        run_all(load_workflow("debate"), WORLD, items=range(40)),
        run_all(load_workflow("debate"), WORLD, items=range(40)),
    )
    assert first == second
    assert run_all(load_workflow("debate"), WORLD, items=range(40), seed=1) != first


def test_replicates_differ_and_temperature_zero_does_not() -> None:
    question = pose(WORLD.task.items[3])
    model = WORLD.model()

    def texts(temperature: float) -> set[str]:
        message = Message(
            "user",
            question.prompt()
            + "\n\nReply with one line: ANSWER: and one letter out of A, B, C, D.",
        )
        requests = [
            Request(messages=(message,), temperature=temperature, replicate=r, seed=r)
            for r in range(20)
        ]
        return {asyncio.run(model.complete(r)).text for r in requests}

    assert len(texts(0.8)) > 5
    assert len(texts(0.0)) == 1


@pytest.mark.full
def test_votes_average_independent_errors() -> None:
    single, five = accuracy(plain()), accuracy(voted(5, 0.5))
    assert five > single + 0.03
    assert abs(accuracy(voted(5, 0.0)) - accuracy(voted(1, 0.0))) < 1e-12


def test_wordings_have_small_effects_of_the_documented_sign() -> None:
    base = accuracy(plain())
    assert (
        base
        < accuracy(plain("Think step by step. Beware of the option that only sounds right."))
        < base + 0.2
    )
    assert base > accuracy(plain("Trust your first impression and answer at once."))


def test_short_limits_cost_answers_and_a_fallback_brings_them_back() -> None:
    short = run_all(plain(max_tokens=200), WORLD)
    silent = sum(o.answer is None for o in short) / len(short)
    assert 0.14 < silent < 0.24
    assert all(o.state == "invalid" for o in short if o.answer is None)
    nodes = plain(max_tokens=200).to_dict()["nodes"]
    mended = parse_workflow(
        {"schema": "workflow/1", "name": "m", "nodes": [nodes[0], {**nodes[1], "fallback": True}]}
    )
    outcomes = run_all(mended, WORLD)
    assert sum(o.answer is None for o in outcomes) == 0
    assert WORLD.accuracy(outcomes) > WORLD.accuracy(short) + 0.05


def test_labels_are_uniform_wrong_classes() -> None:
    labels = WORLD.ruled_out(seed=3)
    assert not np.any(labels == WORLD.truth)
    steps = np.bincount((labels - WORLD.truth) % 4, minlength=4)
    assert np.abs(steps[1:] / len(labels) - 1 / 3).max() < 4 * np.sqrt(2 / 9 / len(labels))
    table = WORLD.judgements(items=[5, 7], seed=3)
    assert table == {
        "item": [5, 7],
        "class": [int(labels[5]), int(labels[7])],
        "verdict": ["no", "no"],
    }


@pytest.mark.full
@pytest.mark.timing
def test_a_thousand_calls_a_second() -> None:
    start = time.process_time()
    outcomes = run_all(load_workflow("cot-sc"), WORLD, items=range(300))
    assert sum(o.calls for o in outcomes) / (time.process_time() - start) > 1000


def test_a_prompt_of_another_world_is_an_error() -> None:
    with pytest.raises(ModelError, match="its own world"):
        asyncio.run(WORLD.model().complete(Request(messages=(Message("user", "Hello"),))))
    with pytest.raises(ArgumentError, match="n_classes"):
        simulated_world(10, 1)


@pytest.mark.full
def test_a_search_with_weak_labels_finds_a_truly_better_workflow() -> None:
    """Typed random edits from one plain call, scored with complementary labels; the truth of the
    best is measured on other items.
    """
    labels, model = WORLD.ruled_out(seed=1), WORLD.model()
    shown, hidden = range(250), range(250, 850)

    async def search() -> list[Scored]:
        strategy, told = make_strategy("mutate", most_calls=6), list[Scored]()
        for generation in range(12):
            proposal = await strategy.ask(generation, draws("test", generation), None)
            assert proposal is not None
            outcomes = await answer_all(proposal.workflow, WORLD, model, items=shown)
            a = np.array(
                [
                    0.0 if o.answer is None else 1 - 3 * (o.answer == labels[int(o.item)])
                    for o in outcomes
                ]
            )
            entry = Entry(
                number=generation,
                workflow=proposal.workflow,
                origin="test",
                generation=generation,
                parents=proposal.parents,
            )
            told.append(
                Scored(entry=entry, score=float(a.mean()), se=float(a.std() / np.sqrt(a.size)))
            )
            strategy.tell(told[-1])
        return told

    told = asyncio.run(search())
    best = max(told, key=lambda s: s.score).entry.workflow
    first, last = (
        WORLD.accuracy(run_all(w, WORLD, items=hidden)) for w in (told[0].entry.workflow, best)
    )
    assert last > first + 0.08


def test_the_name_of_a_model_names_its_world() -> None:
    other = dataclasses.replace(WORLD, seed=12)
    assert WORLD.model().name != other.model().name
