"""Strategies: the same choices on every scale, the same after a restart, nothing twice, and honest
about what failed.
"""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import json
import math
from collections.abc import Callable

import jsonschema
import numpy as np
import pytest

from examples.papers._simulated_designer import SimulatedDesigner
from examples.papers._simulated_world import simulated_world
from noracle.errors import ArgumentError
from noracle.search.backends import ScriptedModel
from noracle.search.caller import Caller
from noracle.search.candidates import Entry, Proposal, Scored, Strategy, mixture, rank, stand
from noracle.search.model import BudgetReached, Calls, Completion, Message, ModelError, Request
from noracle.search.strategies import (
    STRATEGIES,
    Adas,
    Aflow,
    Halving,
    Mutate,
    StrategyName,
    Surrogate,
    make_strategy,
)
from noracle.search.strategies.designer import Rules, describe_experience, design, read_draft
from noracle.search.strategies.edits import PHRASES, cross, sentences
from noracle.search.strategies.evolution import Effects
from noracle.search.task import Task, TaskItem, draws
from noracle.search.workflow import (
    BASELINES,
    Workflow,
    WorkflowError,
    load_workflow,
    parse_workflow,
    workflow_names,
)

N = 88


def quality(workflow: Workflow) -> int:
    """How many of 88 ruled-out labels a workflow does not hit: fixed by its digest, coarse, so that
    there are ties.
    """
    return 60 + int(hashlib.sha256(workflow.digest.encode()).hexdigest(), 16) % 25


def scored(
    number: int, workflow: Workflow, *, scale: str = "q", k: int = 4, **fields: object
) -> Scored:
    """An entry as an engine tells it, with its score on one of three scales."""
    q = quality(workflow) / N
    se = math.sqrt(q * (1 - q) / N)
    factor, shift = {
        "q": (1.0, 0.0),
        "A": (k - 1.0, 2.0 - k),
        "100A": (100 * (k - 1.0), 100 * (2.0 - k)),
    }[scale]
    entry = Entry(number=number, workflow=workflow, origin="test", **fields)  # type: ignore[arg-type]
    hit = tuple((i, i % k) for i in range(N - quality(workflow)))
    return Scored(
        entry=entry, score=factor * q + shift, se=factor * se, excluded=hit, unanswered=(N + 1,)
    )


class Recorder:
    """A designer that keeps every request."""

    def __init__(self, inner: Calls) -> None:
        self.inner, self.requests = inner, list[Request]()

    async def call(self, request: Request) -> Completion:
        self.requests.append(request)
        return await self.inner.call(request)


class Says:
    """A designer with fixed replies; the last one for ever."""

    def __init__(self, *replies: str | Exception) -> None:
        self.replies, self.requests = list(replies), list[Request]()

    async def call(self, request: Request) -> Completion:
        self.requests.append(request)
        reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        if isinstance(reply, Exception):
            raise reply
        return Completion(text=reply)


def choice(proposal: Proposal) -> tuple[object, ...]:
    return (
        proposal.workflow.digest,
        proposal.parents,
        proposal.change,
        proposal.problem,
        proposal.share,
    )


def told(proposal: Proposal, number: int, generation: int, **options: object) -> Scored:
    fields = {
        "generation": generation,
        "parents": proposal.parents,
        "change": proposal.change,
        "problem": proposal.problem,
    }
    one = scored(number, proposal.workflow, **fields, **options)  # type: ignore[arg-type]
    return dataclasses.replace(one, score=math.nan, se=math.nan) if proposal.problem else one


def play(
    make: Strategy,
    designer: Calls | None,
    *,
    generations: int,
    scale: str = "q",
    k: int = 4,
    seed: int = 0,
    baselines: int = 3,
) -> list[Proposal]:
    """What an engine does with a strategy, without running anything."""
    for number, name in enumerate(BASELINES[:baselines]):
        make.tell(scored(number, load_workflow(name), scale=scale, k=k))
    found: list[Proposal] = []
    for generation in range(1, generations + 1):
        proposal = asyncio.run(make.ask(generation, draws("strategy", seed, generation), designer))
        if proposal is None:
            break
        found.append(proposal)
        make.tell(told(proposal, baselines + generation - 1, generation, scale=scale, k=k))
    return found


def strategy(name: StrategyName) -> Strategy:
    world = simulated_world(N + 2, 4)
    return make_strategy(name, task=world.task, n_random=9, rounds=30)


@pytest.mark.parametrize("k", [3, 4, 10])
@pytest.mark.parametrize("name", STRATEGIES)
def test_q_and_a_and_per_cent_lead_to_the_same_choices_and_the_same_prompts(
    name: StrategyName, k: int
) -> None:
    runs = {}
    for scale in ("q", "A", "100A"):
        designer = Recorder(SimulatedDesigner())
        proposals = play(strategy(name), designer, generations=15, scale=scale, k=k, seed=k)
        runs[scale] = [choice(p) for p in proposals], [r.digest("m") for r in designer.requests]
        assert len(proposals) > 5
        assert bool(designer.requests) == (name in ("adas", "aflow"))
    assert runs["q"] == runs["A"] == runs["100A"]


def test_the_published_rule_is_not_invariant() -> None:
    """So the test above can fail: a fixed temperature on the scores themselves gives three
    different draws.
    """
    q = np.array([0.90, 0.88, 0.85])
    published = [
        mixture(100 * (a * q + b), sharpness=0.2) for a, b in ((1, 0), (3, -2), (300, -200))
    ]
    assert np.abs(published[0] - published[1]).max() > 0.05


@pytest.mark.parametrize("scale", ["q", "A", "100A"])
def test_equal_scores_stand_equal_in_the_order_told(scale: str) -> None:
    same = scored(0, load_workflow("cot"), scale=scale, k=10)
    nudged = dataclasses.replace(
        same,
        score=float(np.nextafter(same.score, -np.inf)),
        entry=dataclasses.replace(same.entry, number=1),
    )
    assert [s.z for s in stand([same, nudged])] == [0.0, 0.0]
    without = [dataclasses.replace(s, se=0.0) for s in (same, nudged)]
    assert [s.z for s in stand(without)] == [0.0, 0.0]


@pytest.mark.parametrize("nudge", [-np.inf, np.inf])
def test_the_last_bit_of_a_score_decides_nothing(nudge: float) -> None:
    first, low = (
        scored(0, load_workflow("cot"), scale="100A", k=10),
        scored(2, load_workflow("role")),
    )
    second = dataclasses.replace(
        first,
        score=float(np.nextafter(first.score, nudge)),
        entry=dataclasses.replace(first.entry, number=1),
    )
    low = dataclasses.replace(low, score=first.score - 3 * first.se)
    assert [s.number for s in rank(stand([first, second, low]))] == [0, 1, 2]


def test_standings_are_equal_bit_by_bit_on_every_scale() -> None:
    rng = np.random.default_rng(0)
    base = scored(0, load_workflow("cot"))
    for _ in range(200):
        k, n = int(rng.integers(3, 12)), int(rng.integers(5, 500))
        q = rng.integers(0, n + 1, size=int(rng.integers(2, 12))) / n
        se = np.sqrt(q * (1 - q) / n) if rng.random() < 0.7 else np.full(q.size, 0.04)
        found = []
        for a, b in ((1, 0), (k - 1, 2 - k), (100 * (k - 1), 100 * (2 - k))):
            entries = [
                dataclasses.replace(base, score=float(a * x + b), se=float(a * e))
                for x, e in zip(q, se, strict=True)
            ]
            found.append([s.z for s in stand(entries)])
        assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_restart_at_any_point_goes_on_the_same_way(name: StrategyName) -> None:
    generations = 8
    whole = [choice(p) for p in play(strategy(name), SimulatedDesigner(), generations=generations)]
    proposals = play(strategy(name), SimulatedDesigner(), generations=generations)
    for stop in range(len(proposals)):
        fresh = strategy(name)
        for _ in range(2):  # telling twice changes nothing
            for number, baseline in enumerate(BASELINES[:3]):
                fresh.tell(scored(number, load_workflow(baseline)))
            for i, proposal in enumerate(proposals[:stop]):
                fresh.tell(told(proposal, 3 + i, i + 1))
        again = asyncio.run(
            fresh.ask(stop + 1, draws("strategy", 0, stop + 1), SimulatedDesigner())
        )
        assert again is not None
        assert choice(again) == whole[stop]


@pytest.mark.parametrize("name", ["adas", "aflow", "mutate"])
def test_no_workflow_is_proposed_twice(name: StrategyName) -> None:
    made = Aflow(patience=100, rounds=100) if name == "aflow" else strategy(name)
    proposals = [p for p in play(made, SimulatedDesigner(), generations=30) if not p.problem]
    digests = [p.workflow.digest for p in proposals] + [
        load_workflow(n).digest for n in BASELINES[:3]
    ]
    assert len(proposals) > 20
    assert len(set(digests)) == len(digests)
    for proposal in proposals:
        assert parse_workflow(proposal.workflow.to_dict()) == proposal.workflow
        assert proposal.workflow.most_calls <= 20
        assert proposal.change


def test_an_unknown_strategy_is_refused() -> None:
    with pytest.raises(ArgumentError, match="one of adas, aflow, mutate, surrogate, halving"):
        make_strategy("luck")  # type: ignore[arg-type]


# --- mutate
# ---------------------------------------------------------------------------------------------------------------------------


def test_mutate_works_on_the_better_entries_more_often() -> None:
    parents = []
    for seed in range(120):
        one = Mutate()
        for number, (name, score) in enumerate((("cot", 0.5), ("cot-sc", 0.7), ("step-back", 0.2))):
            one.tell(dataclasses.replace(scored(number, load_workflow(name)), score=score, se=0.1))
        proposal = asyncio.run(one.ask(1, np.random.default_rng(seed), None))
        assert proposal is not None
        parents.extend(proposal.parents)
    counts = np.bincount(parents, minlength=3)
    assert counts[1] > counts[0] > 0
    assert counts[1] > 60 > 40 > counts[2] > 0


def test_mutate_is_done_when_nothing_new_can_be_made() -> None:
    only = Mutate(kinds=["fallback"])
    plain = load_workflow("cot")
    found = []
    for generation in range(1, 4):
        for number, workflow in enumerate([plain, *found]):
            only.tell(scored(number, workflow, generation=min(number, 1)))
        proposal = asyncio.run(only.ask(generation, np.random.default_rng(generation), None))
        if proposal is None:
            break
        found.append(proposal.workflow)
    assert len(found) == 1


# --- designers
# ------------------------------------------------------------------------------------------------------------------------

GOOD = json.dumps(
    {
        "thought": "two views",
        "change": "a vote",
        "workflow": {
            "name": "two",
            "nodes": [
                {"kind": "ask", "id": "a", "prompt": {"instruction": "Choose."}, "n": 2},
                {"kind": "vote", "id": "v", "inputs": ["a"]},
                {"kind": "answer", "input": "v"},
            ],
        },
    }
)


def with_baselines(made: Strategy) -> Strategy:
    for number, name in enumerate(BASELINES[:3]):
        made.tell(scored(number, load_workflow(name)))
    return made


def ask(made: Strategy, designer: Calls | None, generation: int = 1) -> Proposal:
    proposal = asyncio.run(made.ask(generation, np.random.default_rng(0), designer))
    assert proposal is not None
    return proposal


def test_adas_reflects_twice_and_shows_the_whole_archive() -> None:
    designer = Says(GOOD)
    proposal = ask(with_baselines(Adas()), designer)
    assert (proposal.workflow.name, proposal.change, proposal.thought, proposal.problem) == (
        "two",
        "a vote",
        "two views",
        "",
    )
    assert len(designer.requests) == 3
    opening = designer.requests[0].messages[1].text
    lines = [json.loads(line) for line in opening.splitlines() if line.startswith('{"number"')]
    assert [parse_workflow(line["workflow"]).digest for line in lines] == [
        load_workflow(n).digest for n in BASELINES[:3]
    ]
    assert max(line["standing"] for line in lines) == 0
    assert [len(r.messages) for r in designer.requests] == [2, 4, 6]


@pytest.mark.parametrize("made", [Adas(), Aflow()])
def test_the_fault_is_the_repair_prompt_and_three_repairs_are_the_most(made: Strategy) -> None:
    designer = Says('{"workflow": {"nodes": []}}')
    proposal = ask(with_baselines(made), designer)
    talks = len(designer.requests)
    assert talks == (6 if made.name == "adas" else 4)
    assert "nodes must be a list of 2 to 30 nodes" in designer.requests[-1].messages[-1].text
    assert (
        proposal.problem
        == "no valid workflow after 3 repairs; the last fault: nodes must be a list of 2 to 30 nodes, an answer last; got 0."
    )
    assert "\n" not in proposal.problem


@pytest.mark.parametrize(("n_bad", "problem"), [(1, False), (3, False), (4, True)])
def test_a_repair_that_works_is_used(n_bad: int, problem: bool) -> None:
    proposal = ask(with_baselines(Aflow()), Says(*["no json"] * n_bad, GOOD))
    assert bool(proposal.problem) == problem
    assert problem or proposal.workflow.name == "two"


def test_the_next_designer_hears_of_a_generation_that_came_to_nothing() -> None:
    made = with_baselines(Adas())
    bad = ask(made, Says(""))
    assert "got nothing" in bad.problem
    made.tell(told(bad, 3, 1))
    designer = Says(GOOD)
    assert not ask(made, designer, 2).problem
    failed = [
        json.loads(x) for x in designer.requests[0].messages[1].text.splitlines() if '"failed"' in x
    ]
    assert [f["number"] for f in failed] == [3]
    assert "workflow" not in failed[0]


def test_a_request_that_is_turned_down_uses_the_generation_up_and_other_failures_are_raised() -> (
    None
):
    refused = ask(with_baselines(Adas()), Says(ModelError("too long", refused=True)))
    assert refused.problem == "the server turned the request to the designer down: too long"
    with pytest.raises(ModelError, match="gone"):
        ask(with_baselines(Adas()), Says(ModelError("gone")))
    with pytest.raises(BudgetReached):
        ask(with_baselines(Adas()), Says(BudgetReached("cap")))
    with pytest.raises(ArgumentError, match="designer must be a model"):
        ask(with_baselines(Aflow()), None)


def test_a_workflow_or_a_change_that_was_tried_goes_back_to_the_designer() -> None:
    known = json.dumps({"change": "new words", "workflow": load_workflow("cot").to_dict()})
    designer = Says(known, GOOD)
    assert ask(with_baselines(Aflow()), designer).workflow.name == "two"
    assert "entry 0" in designer.requests[-1].messages[-1].text
    made = Aflow(top=1)
    made.tell(scored(0, load_workflow("cot")))
    child = load_workflow("cot-sc")
    made.tell(
        dataclasses.replace(
            scored(1, child, generation=1, parents=(0,), change="A  Vote."), score=-9.0
        )
    )
    designer = Says(GOOD, GOOD.replace("a vote", "two samples"))
    assert ask(made, designer, 2).change == "two samples"
    assert "not tried on this workflow" in designer.requests[-1].messages[-1].text


def test_too_many_calls_go_back_to_the_designer() -> None:
    designer = Says(GOOD)
    assert "at most 1 calls" in ask(with_baselines(Adas(most_calls=1)), designer).problem


def test_designers_see_a_few_failures_but_never_a_score_or_a_truth() -> None:
    items = tuple(
        TaskItem(id=i, text=f"secret text {i}", options=("w", "x", "y", "z")) for i in range(N + 2)
    )
    for made, texts in (
        (Adas(task=Task(name="t", items=items)), 3),
        (Aflow(task=Task(name="t", items=items)), 3),
        (Adas(), 0),
    ):
        designer = Says(GOOD)
        ask(with_baselines(made), designer)
        opening = designer.requests[0].messages[1].text
        assert opening.count("secret text") == texts
        assert opening.count("which it chose") + opening.count("no answer that could be read") == 3
        for number, name in enumerate(BASELINES[:3]):
            one = scored(number, load_workflow(name))
            for value in (one.score, 3 * one.score - 2, one.se):
                assert f"{value:.3f}"[1:] not in opening
                assert f"{100 * value:.1f}" not in opening


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[1]",
        "{}",
        '{"workflow": 3}',
        '{"workflow": "x"}',
        '{"nodes": {}}',
        "{" * 5000,
        '{"a":' * 5000,
        "x" * 300_000,
        '{"workflow": {"nodes": [1e999, NaN]}}',
        '{"workflow": {"name": 7, "nodes": []}}',
        '{"n": ' + "9" * 6000 + "}",
        GOOD.replace('"nodes":', '"nodes": [], "nodes":', 1),
    ],
)
def test_hostile_replies_are_one_line_faults(text: str) -> None:
    with pytest.raises(WorkflowError) as caught:
        read_draft(text)
    assert "\n" not in str(caught.value)


def test_words_of_a_designer_are_one_printable_line_and_can_be_sent_on() -> None:
    odd = json.loads(GOOD) | {"change": "red \x1b[31m\ud800\n text", "thought": "\x00"}
    designer = Recorder(Says("half a pair \ud800", json.dumps(odd)))
    proposal = ask(with_baselines(Aflow()), designer)
    assert proposal.change == "red [31m text"
    assert proposal.thought == ""
    assert [r.digest("m") for r in designer.requests]


def test_replies_in_fences_and_bare_workflows_are_read() -> None:
    bare = json.dumps(json.loads(GOOD)["workflow"])
    for text in (f"Here it is:\n```json\n{GOOD}\n```\nGood luck!", bare, f"{{not json}} {GOOD}"):
        draft = read_draft(text)
        assert draft.workflow is not None
        assert draft.workflow.name == "two"


# --- aflow
# ----------------------------------------------------------------------------------------------------------------------------


def entry(
    number: int,
    score: float,
    *,
    generation: int = 0,
    parents: tuple[int, ...] = (),
    change: str = "",
) -> Scored:
    workflow = load_workflow("cot")
    ask_node, end = workflow.nodes
    renamed = parse_workflow(
        {
            **workflow.to_dict(),
            "nodes": [
                {**workflow.to_dict()["nodes"][0], "id": f"n{number}"},
                {"kind": "answer", "input": f"n{number}"},
            ],
        }
    )
    assert ask_node.kind == "ask"
    assert end.kind == "answer"
    made = Entry(
        number=number,
        workflow=renamed,
        origin="t",
        generation=generation,
        parents=parents,
        change=change,
    )
    return Scored(entry=made, score=score, se=0.05)


def test_parents_are_the_top_four_with_the_first_round_among_them() -> None:
    made = Aflow()
    for number, score in enumerate([0.1, 0.5, 0.6, 0.7, 0.8, 0.9]):
        made.tell(entry(number, score))
    assert [s.number for s in made.parents()] == [5, 4, 3, 0]


def test_selection_follows_the_mixture() -> None:
    """lambda/n + (1 - lambda)·softmax(alpha·z), by hand."""
    z = np.array([0.0, -0.5, -2.0, -4.0])
    expected = 0.3 / 4 + 0.7 * np.exp(z) / np.exp(z).sum()
    np.testing.assert_allclose(mixture(z), expected)
    assert mixture(z).sum() == pytest.approx(1)


def test_experience_tells_successes_and_failures_apart() -> None:
    standings = stand(
        [
            entry(0, 0.5),
            entry(1, 0.6, generation=1, parents=(0,), change="more samples"),
            entry(2, 0.4, generation=2, parents=(0,), change="shorter words"),
            entry(3, 0.5, generation=3, parents=(0,), change="same again"),
            entry(4, 0.9, generation=4, parents=(1,), change="of another parent"),
        ]
    )
    text = describe_experience(standings[0], standings, [])
    raised, rest = text.split("lowered the standing")
    assert "raised the standing; build on" in raised
    assert "more samples (+2.00)" in raised
    assert "shorter words (-2.00)" in rest
    assert "made no difference:\n- same again" in rest
    assert "of another parent" not in text
    assert "prohibit" not in text


def test_aflow_starts_with_a_plain_call_and_stops_after_its_rounds() -> None:
    assert ask(Aflow(), None).workflow == load_workflow("direct")
    made = with_baselines(Aflow(rounds=2))
    assert asyncio.run(made.ask(3, np.random.default_rng(0), Says(GOOD))) is None


def test_aflow_stops_when_the_best_three_are_flat() -> None:
    flat, rising = Aflow(), Aflow()
    for made in (flat, rising):
        for number in range(3):
            made.tell(entry(number, 0.5))
    for step in range(5):
        assert not flat.is_flat()
        flat.tell(entry(3 + step, 0.3, generation=step + 1))
        rising.tell(entry(3 + step, 0.5 + 0.02 * step, generation=step + 1))
        assert not rising.is_flat()
    assert flat.is_flat()
    assert asyncio.run(flat.ask(6, np.random.default_rng(0), Says(GOOD))) is None


# --- halving
# --------------------------------------------------------------------------------------------------------------------------


def test_halving_keeps_the_better_half_on_twice_the_items() -> None:
    made = Halving(n_random=1)
    proposals = play(made, None, generations=50, baselines=0)
    by_share = {
        share: [p.workflow for p in proposals if p.share == share] for share in (0.25, 0.5, 1.0)
    }
    assert [len(v) for v in by_share.values()] == [8, 4, 2]
    assert len(proposals) == 14
    best = sorted((quality(w) for w in by_share[0.25]), reverse=True)
    assert sorted((quality(w) for w in by_share[0.5]), reverse=True) == best[:4]
    assert sorted((quality(w) for w in by_share[1.0]), reverse=True) == best[:2]


def test_halving_leaves_out_what_was_evaluated_in_full() -> None:
    proposals = play(Halving(), None, generations=50, baselines=3)
    assert {p.workflow.name for p in proposals} == set(BASELINES[3:])
    assert play(Halving(), None, generations=50, baselines=7) == []


def test_halving_drops_what_cannot_be_run() -> None:
    made = Halving([load_workflow(n) for n in BASELINES[:2]])
    first = ask(made, None)
    broken = scored(0, first.workflow, generation=1, problem="every call failed")
    made.tell(dataclasses.replace(broken, score=math.nan, se=math.nan))
    second = ask(made, None, 2)
    made.tell(scored(1, second.workflow, generation=2))
    assert asyncio.run(made.ask(3, np.random.default_rng(0), None)) is None


@pytest.mark.parametrize(("n_random", "sizes"), [(0, [7, 4, 2]), (3, [10, 4, 2]), (23, [30, 4, 2])])
def test_no_rung_is_below_the_least_share(n_random: int, sizes: list[int]) -> None:
    made = Halving(n_random=n_random)
    proposals = play(made, None, generations=100, baselines=0)
    assert [sum(p.share == share for p in proposals) for share in (0.25, 0.5, 1.0)] == sizes
    assert len(proposals) == sum(sizes)


def test_one_workflow_is_asked_for_in_full() -> None:
    proposals = play(Halving([load_workflow("cot")]), None, generations=5, baselines=0)
    assert [p.share for p in proposals] == [1.0]


# ----------------------------------------------------------------------------------------------------------------------
# a model of what helps


def told_by(strategy: Surrogate, value: Callable[[Workflow], float], n: int, seed: int = 0) -> None:
    """The baselines and n proposals, each told with its value and a standard error of 1."""
    for number in range(n):
        proposal = asyncio.run(strategy.ask(number + 1, draws("told", seed, number), None))
        assert proposal is not None
        entry = Entry(
            number=number, workflow=proposal.workflow, origin="surrogate", generation=number + 1
        )
        strategy.tell(Scored(entry, value(proposal.workflow), 1.0))


def test_surrogate_finds_what_helps_under_noise_that_hides_single_workflows() -> None:
    """Two phrases are worth two standard errors each; scores have noise of one."""
    good = ("Rule out the options", "only sounds right")
    rng = np.random.default_rng(5)

    def worth(workflow: Workflow) -> float:
        return 2.0 * sum(any(g in s for s in sentences(workflow)) for g in good)

    strategy = Surrogate(n_random=200, seed=3)
    told_by(strategy, lambda w: worth(w) + rng.normal(), 40)
    pool = np.mean([worth(w) for w in strategy.pool])
    late = np.mean([worth(s.entry.workflow) for s in strategy.told()[20:]])
    assert late > pool + 1
    best = strategy.best()
    assert best is not None
    assert worth(best) == 4


def test_surrogate_is_done_when_all_of_its_pool_were_run() -> None:
    strategy = Surrogate([load_workflow("direct")], n_random=3, wide=2)
    n = len(strategy.pool)
    told_by(strategy, lambda _: 0.5, n)
    assert asyncio.run(strategy.ask(n + 1, draws("end"), None)) is None
    assert strategy.best() is not None


def test_surrogate_keeps_to_its_cap_on_calls_and_its_pool_to_its_seed() -> None:
    given = [load_workflow("direct")]
    one, two = (Surrogate(given, n_random=80, most_calls=3, seed=4) for _ in range(2))
    assert [w.digest for w in one.pool] == [w.digest for w in two.pool]
    assert all(w.most_calls <= 3 for w in one.pool)
    assert len({w.digest for w in one.pool}) == len(one.pool) == 81


def test_effects_are_those_of_least_squares_where_scores_are_exact() -> None:
    rng = np.random.default_rng(2)
    table, beta = rng.normal(size=(60, 4)), np.array([1.0, -2.0, 0.0, 0.5])
    effects = Effects.fitted(table, table @ beta + 3, None)
    np.testing.assert_allclose(effects.of(table), table @ beta + 3, atol=0.05)
    drawn = [
        Effects.fitted(table, table @ beta + rng.normal(size=60), rng).beta for _ in range(300)
    ]
    np.testing.assert_allclose(np.mean(drawn, axis=0), beta, atol=0.15)
    assert np.std(drawn, axis=0).min() > 0.05


def test_effects_without_anything_to_tell_apart_say_nothing() -> None:
    for z in (np.zeros(5), np.arange(5.0)):
        effects = Effects.fitted(np.ones((5, 3)), z, np.random.default_rng(0))
        np.testing.assert_allclose(effects.of(np.ones((2, 3))), np.mean(z))


def test_crossing_keeps_the_nodes_and_takes_phrases_of_the_bank_only() -> None:
    cot = load_workflow("cot")
    said = dataclasses.replace(
        cot.nodes[0],
        prompt=dataclasses.replace(cot.nodes[0].prompt, instruction=f"Be odd. {PHRASES[1]}"),  # type: ignore[union-attr]
    )
    other = dataclasses.replace(cot, nodes=(said, *cot.nodes[1:]))
    made = [cross(load_workflow("role"), other, np.random.default_rng(s)) for s in range(20)]
    assert any(m is None for m in made)
    for change in filter(None, made):
        text = str(change[0])
        assert PHRASES[1] in text
        assert "Be odd." not in text
        assert [n.kind for n in change[0]] == [n.kind for n in load_workflow("role").nodes]


def test_a_designer_is_asked_for_json_by_its_schema() -> None:
    """Every workflow that comes with the package fits, and nothing that is no workflow."""
    asked: list[Request] = []

    def script(request: Request) -> str:
        asked.append(request)
        return "no JSON at all"

    designer = Caller(ScriptedModel(script))
    opening = [Message("user", "Design.")]
    parent = Proposal(workflow=load_workflow("direct"))
    rules = Rules(known={}, most_calls=20)
    assert asyncio.run(design(designer, opening, rules, parent)).problem
    schema = dict(asked[0].schema or {})
    assert all(request.schema == asked[0].schema for request in asked)
    check = jsonschema.Draft202012Validator(schema)
    for name in workflow_names():
        check.validate({"thought": "t", "change": "c", "workflow": load_workflow(name).to_dict()})
    for wrong in (
        {},
        {"thought": "t", "change": "c", "workflow": {"nodes": []}},
        {"workflow": "cot"},
    ):
        assert not check.is_valid(wrong)
