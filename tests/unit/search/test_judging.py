"""A model grades answers: what it sees, what its verdicts are worth, and what is no work for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from noracle.errors import EvidenceError
from noracle.search.ask import (
    Claim,
    judge_claims,
    ratings_table,
    read_claims,
    scores_table,
    verdicts,
)
from noracle.search.backends import ScriptedModel
from noracle.search.budget import Budget
from noracle.search.caller import Caller
from noracle.search.model import ModelError, Request
from noracle.search.task import Task, TaskItem
from noracle.search.workflow import load_workflow

TASK = Task(
    name="t",
    items=tuple(
        TaskItem(id=i, text=f"What is {i} + 1?", options=(f"is {i}", f"is {i + 1}", f"is {i + 2}"))
        for i in range(10)
    ),
)


def claims_of(*rows: tuple[object, str, object], seed: int | None = None) -> list[Claim]:
    columns = {
        name: [row[i] for row in rows] for i, name in enumerate(("item", "system", "answer"))
    }
    return read_claims(columns, TASK, seed=seed)


def grade(
    claims: list[Claim],
    script: Callable[[Request], Any],
    *,
    workflow: str = "judge",
    **options: Any,
) -> Any:
    caller = Caller(ScriptedModel(script), retries=0, budget=options.pop("budget", None))
    return asyncio.run(judge_claims(claims, load_workflow(workflow), caller, **options))


def honest(request: Request) -> str:
    """Knows the truth of these items."""
    text = request.messages[-1].text if len(request.messages) < 3 else request.messages[1].text
    item = int(text.split("What is ")[1].split(" ")[0])
    return "ANSWER: yes" if f"under review: is {item + 1}\n" in text else "ANSWER: no"


def test_the_judge_sees_problem_options_and_answer_in_an_order_that_tells_nothing() -> None:
    orders = set()
    for item in range(10):
        (claim,) = claims_of((item, "m", 2), seed=1)
        assert claim.question is not None
        text = claim.question.prompt()
        assert f"What is {item} + 1?" in text
        assert f"The answer under review: is {item + 2}" in text
        shown = [line.removeprefix("- is ") for line in text.splitlines() if line.startswith("- ")]
        assert sorted(shown) == sorted(str(item + d) for d in range(3))
        orders.add(tuple(int(s) - item for s in shown))
        assert claim.question.options == ("yes", "no", "uncertain")
        assert claim.question.order == (0, 1, 2)
    assert len(orders) > 2


def test_labels_and_values() -> None:
    claims = claims_of(
        (0, "m", 1), (1, "m", 0), (2, "m", 1), (3, "m", 1), (4, "m", 1), (5, "m", None)
    )
    replies = {
        2: "ANSWER: uncertain",
        3: "no idea at all, really; who knows",
        4: ModelError("too long", refused=True),
    }

    def script(request: Request) -> Any:
        item = int(request.messages[-1].text.split("What is ")[1].split(" ")[0])
        return replies.get(item) or honest(request)

    asked = grade(claims, script)
    ratings = ratings_table(claims, asked, "judge")
    assert ratings["label"] == ["yes", "no", "uncertain", None, None, "no"]
    assert ratings["value"] == [1.0, 0.0, 0.5, None, None, 0.0]
    assert ratings["answer"] == [1, 0, None, None, None, 0]
    assert ratings["outcome"] == [
        "answered",
        "answered",
        "answered",
        "invalid",
        "errored",
        "unanswered",
    ]
    assert ratings["calls"][-1] == 0  # an item without an answer is wrong, and nobody is asked
    assert scores_table(claims, asked, "judge") == {
        name: ratings[name] for name in ("item", "rater", "value")
    }


def test_answers_of_several_systems_have_names_of_their_own() -> None:
    claims = claims_of((0, "m", 1), (0, "n", 0))
    assert [claim.id for claim in claims] == ["0/m", "0/n"]
    ratings = ratings_table(claims, grade(claims, honest), "judge")
    assert (ratings["label"], ratings["judged"], ratings["judged_item"]) == (
        ["yes", "no"],
        ["m", "n"],
        [0, 0],
    )


@pytest.mark.parametrize("answer", [1, "1", "B", "b", "is 1"])
def test_answers_may_be_classes_letters_or_texts(answer: object) -> None:
    assert claims_of((0, "m", answer))[0].answer == 1


@pytest.mark.parametrize("answer", [3, -1, "D", "is 9", "²"])
def test_answers_that_are_no_option_are_refused(answer: object) -> None:
    with pytest.raises(EvidenceError, match="must be a class, the text of an option or its letter"):
        claims_of((0, "m", answer))


def test_answers_to_other_items_are_refused() -> None:
    with pytest.raises(EvidenceError, match="must be about items of the task"):
        claims_of((99, "m", 1))


def test_repeats_give_soft_scores_and_the_label_of_most() -> None:
    claims = claims_of((0, "m", 1), (1, "m", 1))

    def script(request: Request) -> str:
        repeat = request.replicate // 1000
        item = int(request.messages[-1].text.split("What is ")[1].split(" ")[0])
        return "ANSWER: yes" if repeat % 2 == 0 or item == 1 else "ANSWER: no"

    asked = grade(claims, script, repeats=3)
    assert ratings_table(claims, asked, "j")["value"] == [pytest.approx(2 / 3), 1.0]
    assert ratings_table(claims, asked, "j")["label"] == ["yes", "yes"]
    asked = grade(claims, script, repeats=2)
    assert ratings_table(claims, asked, "j")["label"] == ["uncertain", "yes"]  # a tie


def test_a_forced_judge_is_cut_and_then_answers() -> None:
    claims = claims_of((0, "m", 1))
    seen: list[Request] = []

    def script(request: Request) -> str:
        seen.append(request)
        return "yes" if request.messages[-1].role == "assistant" else "word " * 900

    asked = grade(claims, script, workflow="judge-forced")
    assert ratings_table(claims, asked, "j")["label"] == ["yes"]
    assert len(seen) == 2
    assert seen[1].messages[-1].text.count("word") == 250


def test_a_debate_that_stays_uncertain_is_decided_by_a_coin_that_is_fair_and_repeatable() -> None:
    task = Task(
        name="t",
        items=tuple(
            TaskItem(id=i, text=f"What is {i} + 1?", options=("x", "y")) for i in range(200)
        ),
    )
    claims = read_claims(
        {"item": list(range(200)), "system": ["m"] * 200, "answer": [0] * 200}, task
    )
    labels = []
    for _ in range(2):
        asked = grade(
            claims,
            lambda request: "ANSWER: uncertain",
            workflow="judge-debate",
            seed=5,
            concurrency=32,
        )
        labels.append(ratings_table(claims, asked, "j")["label"])
    assert labels[0] == labels[1]
    assert 70 < labels[0].count("yes") < 130
    assert labels[0].count("uncertain") == 0


def test_claims_that_a_cap_left_out_have_no_verdict() -> None:
    claims = claims_of(*((i, "m", 1) for i in range(10)))
    asked = grade(claims, honest, budget=Budget(calls=4), concurrency=1)
    assert [claim.id for claim, _ in verdicts(claims, asked)] == [0, 1, 2, 3]
    assert asked.stopped
