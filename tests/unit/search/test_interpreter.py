"""Workflows run on a model that says what the test wants: calls, requests, answers, errors."""

from __future__ import annotations

import asyncio
import collections
import dataclasses
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noracle.search.candidates import Outcome
from noracle.search.interpreter import FORCED, first_words, named_branch, run_workflow
from noracle.search.model import BudgetReached, Completion, ModelError, Request, Usage
from noracle.search.task import PosedQuestion, TaskItem, pose
from noracle.search.workflow import (
    Ask,
    CritiqueLoop,
    Workflow,
    load_workflow,
    parse_workflow,
    workflow_names,
)
from tests.unit.search.made import (
    CLAIM,
    ITEM,
    QUESTION,
    Say,
    Scripted,
    last_text,
    shuffled,
    workflows,
)


def ran(
    workflow: Workflow | str,
    calls: Scripted,
    question: PosedQuestion = QUESTION,
    *,
    seed: int = 0,
    repeat: int = 0,
) -> Outcome:
    whole = load_workflow(workflow) if isinstance(workflow, str) else workflow
    return asyncio.run(run_workflow(whole, question, calls, seed=seed, repeat=repeat))


def built(*nodes: dict[str, Any]) -> Workflow:
    return parse_workflow({"schema": "workflow/1", "name": "w", "nodes": list(nodes)})


def is_critic(request: Request) -> bool:
    return "search for faults" in last_text(request)


# --- numbers of calls


@pytest.mark.parametrize(
    ("name", "calls"),
    [
        ("direct", 1),
        ("cot", 1),
        ("cot-sc", 5),
        ("debate", 9),
        ("debate-three-roles", 7),
        ("step-back", 2),
        ("quality-diversity", 5),
        ("role", 2),
        ("principles", 2),
        ("review-ensemble", 5),
        ("judge", 1),
        ("judge-forced", 2),
    ],
)
def test_baseline_makes_exactly_its_calls(name: str, calls: int) -> None:
    model = Scripted("REASONING: because.\nANSWER: B")
    outcome = ran(name, model)
    assert len(model.asked) == outcome.calls == calls == load_workflow(name).most_calls
    assert (outcome.answer, outcome.state, outcome.usage) == (
        1,
        "answered",
        Usage(10 * calls, 2 * calls),
    )


@pytest.mark.parametrize("revisions", range(6))
def test_self_refine_makes_2_plus_2j_calls_and_11_at_most(revisions: int) -> None:
    seen = iter(range(100))

    def say(request: Request) -> str:
        if is_critic(request):
            return (
                "CORRECT"
                if next(seen) == revisions
                else "This is INCORRECT: the second step fails."
            )
        return "ANSWER: C"

    outcome = ran("self-refine", Scripted(say))
    assert outcome.calls == (2 + 2 * revisions if revisions < 5 else 11)


def test_judge_debate_stops_when_the_pooler_is_sure_and_flips_a_coin_when_it_never_is() -> None:
    question = pose(CLAIM)

    def pooler(request: Request) -> bool:
        return "all that the debaters wrote" in last_text(request)

    assert ran("judge-debate", Scripted("ANSWER: B"), question) == Outcome(
        item="c1", answer=1, state="answered", calls=4, usage=Usage(40, 8)
    )
    unsure = Scripted(
        lambda request: "No reason settles it. ANSWER: C" if pooler(request) else "ANSWER: A"
    )
    outcomes = [ran("judge-debate", unsure, question, seed=s) for s in range(200)]
    assert {o.calls for o in outcomes} == {8}
    counts = collections.Counter(o.answer for o in outcomes)
    assert set(counts) == {0, 1}
    assert 65 <= counts[0] <= 135  # 200 tosses of a fair coin: P < 1e-6 outside
    assert ran("judge-debate", unsure, question, seed=5) == ran(
        "judge-debate", unsure, question, seed=5
    )


def test_second_round_of_judge_debate_can_settle_it() -> None:
    poolings = iter(["ANSWER: C", "ANSWER: A"])
    model = Scripted(
        lambda request: (
            next(poolings)
            if "all that the debaters wrote" in last_text(request)
            else "It may be. ANSWER: B"
        )
    )
    outcome = ran("judge-debate", model, pose(CLAIM))
    assert (outcome.calls, outcome.answer) == (8, 0)
    assert (
        sum(
            "[draft 1, 3 of 3]" in last_text(r) and "[criticism 1]" in last_text(r)
            for r in model.asked
        )
        == 4
    )  # three revisers, one pooler


@pytest.mark.full
@given(data=workflows(), seed=st.integers(0, 2**32), k=st.integers(2, 6))
@settings(max_examples=150, deadline=None)
def test_bound_is_never_passed_and_exact_without_loops_and_fallback(
    data: dict[str, Any], seed: int, k: int
) -> None:
    workflow = parse_workflow(data)
    rng = random.Random(seed)
    replies = [
        "ANSWER: A",
        "ANSWER: B",
        "CORRECT",
        "no idea at all of this",
        "",
        "doctor",
        "I cannot answer that.",
        "A",
        "\x00\ud83d",
    ]
    finishes = ["stop", "length", "refused", "empty"]

    def say(_request: Request) -> Completion:
        return Completion(text=rng.choice(replies), finish=rng.choice(finishes), usage=Usage(1, 1))  # type: ignore[arg-type]

    model = Scripted(say)
    question = pose(TaskItem(id=1, text="?", options=tuple(f"option {i}" for i in range(k))))
    outcome = ran(workflow, model, question)
    assert outcome.calls == len(model.asked) == outcome.usage.input_tokens
    assert workflow.least_calls <= outcome.calls <= workflow.most_calls
    if workflow.least_calls == workflow.most_calls:
        assert outcome.calls == workflow.most_calls
    assert (outcome.answer is not None) == (outcome.state == "answered")
    assert outcome.answer is None or 0 <= outcome.answer < k
    assert len({(r.seed, r.replicate, r.messages) for r in model.asked}) == len(
        model.asked
    )  # no two calls share an address


@pytest.mark.parametrize("name", workflow_names())
def test_bound_of_every_shipped_workflow_holds_whatever_is_said(name: str) -> None:
    workflow, rng = load_workflow(name), random.Random(name)
    for _ in range(30):
        outcome = ran(
            workflow,
            Scripted(
                lambda _: rng.choice(
                    ["ANSWER: C", "CORRECT", "hm", "ANSWER: A", "I cannot help with that."]
                )
            ),
            pose(CLAIM),
        )
        assert workflow.least_calls <= outcome.calls <= workflow.most_calls


# --- what is asked


def test_requests_depend_on_seed_item_and_repeat_and_not_on_which_call_comes_back_first() -> None:
    def asked(*, order: int, seed: int = 1, repeat: int = 0) -> tuple[Outcome, set[str]]:
        rng = random.Random(order)

        def say(request: Request) -> str:
            return f"REASONING: {request.seed}.\nANSWER: {'ABCD'[(request.seed or 0) % 4]}"

        model = Scripted(say, waits=lambda _: rng.random() / 500)
        outcome = ran("debate", model, seed=seed, repeat=repeat)
        return outcome, {r.digest("m") for r in model.asked}

    first = asked(order=1)
    assert all(asked(order=order) == first for order in range(2, 6))
    assert first[1].isdisjoint(asked(order=1, seed=2)[1])
    assert first[1].isdisjoint(asked(order=1, repeat=1)[1])


def test_samples_and_independent_nodes_run_at_once() -> None:
    model = Scripted("ANSWER: A", waits=lambda _: 0.001)
    ran("cot-sc", model)
    assert model.most_at_once == 5
    model = Scripted("ANSWER: A", waits=lambda _: 0.001)
    ran("debate", model)
    assert model.most_at_once == 4


def test_prompt_holds_role_task_inputs_instruction_and_form_in_this_order() -> None:
    model = Scripted(["Numbers divisible by two are even.", "ANSWER: B"])
    ran("principles", model)
    first, second = model.asked
    assert [m.role for m in second.messages] == ["system", "user"]
    assert "ANSWER" not in last_text(first)
    text = last_text(second)
    parts = [
        "Which number is even?",
        "B) two",
        "[principles]\nNumbers divisible by two are even.",
        "Treat the numbered points",
        "A, B, C, D",
    ]
    places = [text.index(part) for part in parts]
    assert places == sorted(places)
    assert (second.temperature, second.max_tokens) == (0.2, 1024)


@pytest.mark.parametrize(
    "text",
    [
        "{instruction}",
        "{0.__class__}",
        "%(role)s %s",
        "$name ${name}",
        "{{ task }}",
        "\\1 \\g<0>",
        "{",
    ],
)
def test_what_a_model_writes_is_never_read_as_a_template(text: str) -> None:
    model = Scripted([text, "ANSWER: B"])
    assert ran("step-back", model).answer == 1
    assert f"[principles]\n{text}\n\n" in last_text(model.asked[1])
    odd = dataclasses.replace(ITEM, text=text, options=(text, "x", "y"))
    model = Scripted("ANSWER: B")
    ran("cot", model, pose(odd))
    assert last_text(model.asked[0]).count(text) >= 2


def test_critics_and_revisers_see_all_drafts_and_all_criticism() -> None:
    replies = iter(
        [
            "draft-one ANSWER: A",
            "fault-one",
            "draft-two ANSWER: B",
            "fault-two",
            "draft-three ANSWER: C",
            "CORRECT",
        ]
    )
    model = Scripted(lambda _: next(replies))
    outcome = ran("self-refine", model)
    assert outcome.answer == 2
    for place, words in [
        (2, ["draft-one", "fault-one"]),
        (3, ["draft-one", "fault-one", "draft-two"]),
        (5, ["draft-one", "fault-two", "draft-three"]),
    ]:
        assert all(word in last_text(model.asked[place]) for word in words)


def test_second_round_of_a_debate_shows_what_the_others_wrote() -> None:
    def say(request: Request) -> str:
        return f"view of {request.messages[0].text} ANSWER: A"

    model = Scripted(say)
    ran("debate-three-roles", model)
    second = model.asked[3:6]
    assert all(last_text(r).count("view of You are") == 3 for r in second)
    assert last_text(second[0]).index("[doctor]") < last_text(second[0]).index("[student]")
    assert last_text(second[1]).index("[student]") < last_text(second[1]).index("[doctor]")


# --- thoughts that are cut


def test_thought_is_cut_after_so_many_words_and_an_answer_demanded() -> None:
    thought = " ".join(f"w{i}" for i in range(400))
    model = Scripted(lambda r: " B." if r.messages[-1].role == "assistant" else thought)
    outcome = ran("judge-forced", model)
    first, forced = model.asked
    assert first.messages == forced.messages[:-1]
    assert forced.messages[-1].text == " ".join(f"w{i}" for i in range(250)) + f"\n\n{FORCED}"
    assert (first.max_tokens, forced.max_tokens, outcome.answer) == (3000, 20, 1)


@pytest.mark.parametrize("words", [125, 250, 375, 500])
def test_words_of_thought_are_set_in_the_file(words: int) -> None:
    data = load_workflow("judge-forced").to_dict()
    data["nodes"][0]["force_after"] = words
    model = Scripted(
        lambda r: r"\boxed{yes}" if r.messages[-1].role == "assistant" else "so " * 1000
    )
    outcome = ran(parse_workflow(data), model, pose(CLAIM))
    assert len(model.asked[1].messages[-1].text.split()) == words + len(FORCED.split())
    assert outcome.answer == 0


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        ("D", 3),
        ("(D)", 3),
        ("D) five, because", 3),
        ("five", 3),
        ("ANSWER: D", 3),
        ("hm", None),
        ("A or B", None),
    ],
)
def test_forced_reply_is_read(said: str, answer: int | None) -> None:
    model = Scripted(
        lambda r: (
            Completion(text=said, finish="stop")
            if r.messages[-1].role == "assistant"
            else "ANSWER: A is what I thought"
        )
    )
    assert ran("judge-forced", model).answer == answer


def test_first_words_keeps_spaces_and_short_texts() -> None:
    assert first_words("a\n b  c", 2) == "a\n b"
    assert first_words("a b", 9) == "a b"
    assert first_words("", 3) == first_words(" \n", 3) == ""
    assert first_words("x" * 100_000, 3) == "x" * 100_000


# --- votes, routes, ends


@pytest.mark.parametrize(
    ("letters", "answer"),
    [
        ("ABBCC", 1),
        ("CCBBA", 2),
        ("ABBBA", 1),
        ("?A?BB", 1),
        ("????C", 2),
        ("BACDA", 0),
        ("AB?BA", 0),
    ],
)
def test_vote_takes_the_most_frequent_and_the_first_of_those_that_are_level(
    letters: str, answer: int
) -> None:
    model = Scripted(lambda r: f"ANSWER: {letters[r.replicate]}")
    assert ran("cot-sc", model).answer == answer


def test_vote_without_any_answer_has_a_state() -> None:
    assert ran("cot-sc", Scripted("hm")).state == "invalid"
    assert (
        ran("cot-sc", Scripted(lambda _: Completion(text="", finish="refused"))).state == "refused"
    )


def test_answers_are_classes_whatever_the_order_on_the_page() -> None:
    for shuffle in range(20):
        question = shuffled(seed=shuffle)
        letter = question.letters[question.options.index("two")]
        outcomes = [
            ran(name, Scripted(f"ANSWER: {letter}"), question)
            for name in ("cot", "cot-sc", "role", "quality-diversity")
        ]
        assert {o.answer for o in outcomes} == {1}


@pytest.mark.parametrize(
    ("said", "branch"),
    [
        ("scientist", "scientist"),
        ("The Scientist.", "scientist"),
        ("not the doctor but the mathematician", "mathematician"),
        ("nobody", "assistant"),
        ("", "assistant"),
        ("doctorate", "assistant"),
        ("DOCTOR!", "doctor"),
    ],
)
def test_route_takes_the_branch_that_is_named(said: str, branch: str) -> None:
    model = Scripted([said, "ANSWER: A"])
    ran("role", model)
    route = load_workflow("role").nodes[0]
    assert model.asked[1].messages[0].text == route.branches[branch].role  # type: ignore[union-attr]
    assert "mathematician, scientist, doctor, assistant" in last_text(model.asked[0])


def test_longest_branch_name_wins_where_one_holds_another() -> None:
    assert named_branch("The expert two.", ["expert", "expert-two", "x"]) == "expert-two"
    assert named_branch("The expert.", ["expert", "expert-two", "x"]) == "expert"


FALLBACK = built(
    {"kind": "ask", "id": "thought", "prompt": {"instruction": "Think."}},
    {"kind": "answer", "input": "thought", "fallback": True},
)


def test_fallback_asks_for_the_letter_alone_and_only_where_no_answer_was_read() -> None:
    model = Scripted(["It is hard to say, and the time is", "B"])
    assert ran(FALLBACK, model) == Outcome(
        item="q7", answer=1, state="answered", calls=2, usage=Usage(20, 4)
    )
    assert "It is hard to say" in last_text(model.asked[1])
    assert model.asked[1].max_tokens <= 16
    assert ran(FALLBACK, Scripted("ANSWER: C")).calls == 1
    outcome = ran(FALLBACK, Scripted("hm"))
    assert (outcome.answer, outcome.state, outcome.calls) == (None, "invalid", 2)


def test_fallback_after_a_vote_shows_what_the_voters_wrote() -> None:
    vote = built(
        {"kind": "ask", "id": "thought", "prompt": {"instruction": "Think."}, "n": 2},
        {"kind": "vote", "id": "v", "inputs": ["thought"]},
        {"kind": "answer", "input": "v", "fallback": True},
    )
    model = Scripted(["first view", "other view", "D"])
    assert ran(vote, model).answer == 3
    assert "first view" in last_text(model.asked[2])
    assert "other view" in last_text(model.asked[2])


COIN = built(
    {"kind": "ask", "id": "thought", "prompt": {"instruction": "Think."}},
    {"kind": "answer", "input": "thought", "coin": True},
)


def test_coin_leaves_every_class_but_uncertain_alone() -> None:
    for letter, answer in zip("ABCD", range(4), strict=True):
        assert ran(COIN, Scripted(f"ANSWER: {letter}")).answer == answer
    two = pose(TaskItem(id=2, text="?", options=("yes", "no")))
    assert {ran(COIN, Scripted("ANSWER: B"), two, seed=s).answer for s in range(20)} == {1}
    assert {ran(COIN, Scripted("hm"), two, seed=s).answer for s in range(20)} == {0, 1}
    for shuffle in range(6):
        question = shuffled(CLAIM, seed=shuffle)
        unsure = question.letters[question.options.index("uncertain")]
        assert {
            ran(COIN, Scripted(f"ANSWER: {unsure}"), question, seed=s).answer for s in range(20)
        } == {0, 1}


def test_repeats_toss_the_coin_anew() -> None:
    assert {ran(COIN, Scripted("ANSWER: C"), pose(CLAIM), repeat=r).answer for r in range(20)} == {
        0,
        1,
    }


@pytest.mark.parametrize(
    ("said", "stops"),
    [
        ("CORRECT", True),
        ("It is CORRECT.", True),
        ("INCORRECT", False),
        ("correct", False),
        ("CORRECTED", False),
        ("**CORRECT**", True),
        ("", False),
    ],
)
def test_stop_word_is_a_whole_word_in_its_own_capitals(said: str, stops: bool) -> None:
    outcome = ran("self-refine", Scripted(lambda r: said if is_critic(r) else "ANSWER: A"))
    assert outcome.calls == (2 if stops else 11)


def test_stop_word_with_signs_is_no_pattern() -> None:
    data = load_workflow("self-refine").to_dict()
    data["nodes"][1]["stop"] = [".*", "(["]
    assert ran(parse_workflow(data), Scripted("ANSWER: A")).calls == 11


def test_pooler_is_stopped_by_its_choice_and_not_by_a_word_in_passing() -> None:
    model = Scripted("There is no doubt that nobody can tell; yes, truly. ANSWER: C")
    assert ran("judge-debate", model, pose(CLAIM)).calls == 8


@pytest.mark.parametrize(
    ("said", "calls"),
    [
        ("All is CORRECT.", 2),
        ("It was not clear at first. Now it is CORRECT.", 2),
        ("This is not CORRECT.", 11),
        ("It isn't yet CORRECT", 11),
        ("That can never be CORRECT", 11),
        ("INCORRECT", 11),
    ],
)
def test_a_stop_word_that_is_negated_does_not_stop_the_loop(said: str, calls: int) -> None:
    stop = load_workflow("self-refine").nodes[1]
    assert isinstance(stop, CritiqueLoop)
    word = stop.stop[0]
    critic: Say = lambda r: said.replace("CORRECT", word) + " ANSWER: A"  # noqa: E731
    assert ran("self-refine", Scripted(critic)).calls == calls


# --- errors


@pytest.mark.parametrize("name", workflow_names())
def test_a_request_that_is_turned_down_is_a_state_and_a_lost_call_is_raised(name: str) -> None:
    outcome = ran(name, Scripted(lambda _: ModelError("it is too long", refused=True)))
    assert (outcome.answer, outcome.state) == (None, "errored")
    assert 1 <= outcome.calls <= load_workflow(name).most_calls
    with pytest.raises(ModelError, match="the server is down"):
        ran(name, Scripted(lambda _: ModelError("the server is down")))


def test_one_sample_of_five_that_is_turned_down_counts_after_the_others_came_back() -> None:
    down = ModelError("too long", refused=True)
    say: Say = lambda r: down if r.replicate == 0 else "ANSWER: A"  # noqa: E731
    outcome = ran("cot-sc", Scripted(say, waits=lambda r: r.replicate / 500))
    assert outcome == Outcome(item="q7", answer=None, state="errored", calls=5, usage=Usage(40, 8))


def test_a_lost_call_is_raised_also_where_another_was_turned_down() -> None:
    errors = {0: ModelError("too long", refused=True), 3: ModelError("lost")}
    with pytest.raises(ModelError, match="lost"):
        ran("cot-sc", Scripted(lambda r: errors.get(r.replicate, "ANSWER: A")))


def test_budget_is_raised_on_also_where_a_call_failed_too_and_after_the_calls_in_flight() -> None:
    finished: list[int] = []

    def say(request: Request) -> str | Exception:
        finished.append(request.replicate)
        return {0: ModelError("lost"), 2: BudgetReached("the cap of 2 calls is reached")}.get(
            request.replicate, "ANSWER: A"
        )

    with pytest.raises(BudgetReached):
        ran("cot-sc", Scripted(say, waits=lambda r: r.replicate / 500))
    assert sorted(finished) == [0, 1, 2, 3, 4]


def test_other_errors_are_not_hidden() -> None:
    with pytest.raises(ZeroDivisionError):
        ran(
            "cot-sc",
            Scripted(lambda r: ZeroDivisionError() if r.replicate == 3 else ModelError("lost")),
        )


def test_cancelled_run_leaves_no_call_behind() -> None:
    async def main() -> int:
        model = Scripted("ANSWER: A", waits=lambda _: 60)
        task = asyncio.create_task(run_workflow(load_workflow("debate"), QUESTION, model))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return len(asyncio.all_tasks())

    assert asyncio.run(main()) == 1


def test_refusal_is_a_state_of_its_own() -> None:
    outcome = ran("cot", Scripted(lambda _: Completion(text="", finish="refused")))
    assert (outcome.answer, outcome.state) == (None, "refused")


def test_records_of_the_shipped_loops_are_what_the_papers_say() -> None:
    loop = load_workflow("judge-debate").nodes[1]
    assert isinstance(loop, CritiqueLoop)
    assert (loop.result, loop.close, loop.n, loop.max_rounds, loop.stop) == (
        "critic",
        True,
        3,
        1,
        ("yes", "no"),
    )
    forced = load_workflow("judge-forced").nodes[0]
    assert isinstance(forced, Ask)
    assert forced.force_after == 250
