"""What a reply answers: the rules, the traps, any text at all; logs, ``ask`` and ``search`` read it
alike; and Inspect's own reader.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noracle.evidence.logs import answer_of_output, read_lm_eval, read_logs
from noracle.evidence.replies import read_choice, read_text
from noracle.search.ask import answers_table, ask_items
from noracle.search.model import Completion
from noracle.search.task import LETTERS, PosedQuestion, Task, TaskItem, parse_answer, pose
from noracle.search.workflow import load_workflow

CITIES = ("Rome", "Paris", "Bern", "A patient with fever")


def question(*options: str, shuffle: int | None = None) -> PosedQuestion:
    return pose(TaskItem(id=1, text="Which?", options=options or CITIES), shuffle=shuffle)


def read(text: str, *options: str, finish: str = "stop") -> int | str:
    """The class, or the state of a reply without one."""
    answer, state = parse_answer(text, question(*options), finish=finish)  # type: ignore[arg-type]
    assert (answer is None) == (state != "answered")
    return state if answer is None else answer


CLAIMS = {
    "ANSWER: B": 1,
    "answer: b": 1,
    "**Answer:** B": 1,
    "**ANSWER: B**": 1,
    "ANSWER: **B**": 1,
    "ANSWER: (B)": 1,
    "ANSWER: $B$": 1,
    "ANSWER: B.": 1,
    "Final answer: B": 1,
    "Answer = B": 1,
    "Answer: B) Paris": 1,
    "Answer: option B": 1,
    "ANSWER: Paris": 1,
    "ANSWER: paris.": 1,
    "ANSWER: \\boxed{B}": 1,
    "so it is \\boxed{B}": 1,
    "so it is \\boxed{\\text{B}}": 1,
    "<answer>B</answer>": 1,
    "<answer>Paris</answer>": 1,
    "ANSWER:\nB": 1,
    "ANSWER: B, because A is in Italy": 1,
    "ANSWER: B (not A)": 1,
    "ANSWER: A. B is wrong.": 0,
    "ANSWER: A patient with fever": 3,
    "ANSWER: D) A patient with fever": 3,
    "Answer: B\nConfidence: 0.9": 1,
    "Is the answer A? No. ANSWER: B": 1,
    "ANSWER: A\nOn reflection:\nANSWER: B": 1,
    "ANSWER: A ANSWER: B": 1,
    '{"reasoning": "Rome is not", "answer": "B"}': 1,
    '```json\n{"answer": "Paris"}\n```': 1,
    'Here it is: {"reasoning": "x", "answer": "B"}': 1,
    '{"answer": "B", "reasoning": "some say answer: A"}': 1,
    "答え：Ｂ": 1,
    "正解はBです。": 1,
    "Antwort: B": 1,
    "<think>ANSWER: A</think>ANSWER: B": 1,
    "I weighed ANSWER: A</think>\nB": 1,
}


@pytest.mark.parametrize("text", CLAIMS)
def test_claims_are_read(text: str) -> None:
    assert read(text) == CLAIMS[text]


OTHER = {
    "B": 1,
    "b": 1,
    "(B)": 1,
    "**B**": 1,
    "B.": 1,
    "B) Paris": 1,
    "B: Paris": 1,
    "(B) Paris": 1,
    "Option B": 1,
    "Paris": 1,
    "paris!": 1,
    "Paris, because it is": 1,
    "The answer is B because A is in Italy.": 1,
    "The correct option is (B).": 1,
    "I would choose B.": 1,
    "Option B is correct.": 1,
    "Probably B": 1,
    "It must be Paris, I believe": 1,
    "B. Paris\n\nExplanation: the others are elsewhere.": 1,
    "Rome is in Italy and Bern in Switzerland, so two are out.\n\nB": 1,
}


@pytest.mark.parametrize("text", OTHER)
def test_plain_replies_are_read(text: str) -> None:
    assert read(text) == OTHER[text]


NONE = [
    "",
    "   \n",
    "ANSWER: A or B",
    "ANSWER: A, C",
    "ANSWER: A and C",
    "ANSWER: A/B",
    "ANSWER: AB",
    "ANSWER: B) Rome",  # the letter of one option and the text of another
    "ANSWER: X",
    "ANSWER: none of these",
    "ANSWER: not B",
    "ANSWER: A patient is ill",  # an article
    "ANSWER: A\nANSWER: A or B",  # the last claim counts, and it names two
    "The answer is B or C",
    "The answer is either A or B",
    "The answer is a hard one",
    "The answer is not B",
    "It is not B",
    "I would say A is wrong, so B",
    "A\nB",
    "A) Rome\nB) Paris\nC) Bern",
    "Rome, Paris and Bern are capitals",
    "This looks like hepatitis B, which many patients with such a history get at some time in their life anyway",
    "<think>ANSWER: B",
    "1",
]


@pytest.mark.parametrize("text", NONE)
def test_replies_without_one_answer_are_invalid(text: str) -> None:
    assert read(text) == "invalid"


@pytest.mark.parametrize(
    "text",
    [
        "I cannot answer this question.",
        "I can’t help with that.",
        "I'm sorry, but I can't assist with that request.",
        "As an AI, I'm unable to provide medical advice.",
        "I must decline.",
    ],
)
def test_replies_that_decline_are_refused(text: str) -> None:
    assert read(text) == "refused"


def test_a_claim_counts_although_the_reply_first_declines() -> None:
    assert read("I cannot provide medical advice. ANSWER: B") == 1


def test_what_the_server_says_of_the_end_counts() -> None:
    assert read("ANSWER: B", finish="refused") == "refused"
    assert read("", finish="empty") == "invalid"


def test_a_reply_that_was_cut_is_only_read_where_its_answer_is_whole() -> None:
    assert read("ANSWER: B", finish="length") == 1
    assert read("B", finish="length") == 1
    assert read("ANSWER: A, ANSWER: B) Par", finish="length") == 1
    # "heart" may be the beginning of "heart failure"; a mention is no conclusion; nobody declined.
    assert read("ANSWER: heart", "heart", "heart failure", finish="length") == "invalid"
    assert read("First, option B", finish="length") == "invalid"
    assert read("Rome is the capital of Italy.\nB) Paris", finish="length") == "invalid"
    assert read("I cannot answer before I have looked at", finish="length") == "invalid"


def test_letters_inside_options_are_not_letters() -> None:
    options = ("hepatitis B", "hepatitis C", "influenza", "measles")
    assert read("It is hepatitis C", *options) == 1
    assert read("ANSWER: hepatitis B", *options) == 0
    assert read("ANSWER: C", *options) == 2  # the form that was asked for wins


def test_an_option_inside_another_one_is_not_meant() -> None:
    assert read("It is heart failure", "heart", "heart failure", "liver") == 1


def test_options_that_are_numbers_or_equal() -> None:
    assert read("ANSWER: 2", "1", "2", "3") == 1
    assert read('{"answer": 2}', "1", "2", "3") == 1
    assert read("ANSWER: 2", "2", "2", "3") == "invalid"  # which of the two?
    assert read("ANSWER: A) 2", "2", "2", "3") == 0


def test_verdicts_of_a_judge_are_read() -> None:
    verdicts = ("yes", "no", "uncertain")
    said = (
        "ANSWER: yes",
        "No.",
        "No, it is incorrect.",
        "\\boxed{no}",
        "ANSWER: C",
        "ANSWER: Uncertain",
    )
    assert [read(text, *verdicts) for text in said] == [0, 1, 1, 1, 2, 2]
    assert read("ANSWER: yes or no", *verdicts) == "invalid"
    assert read("no idea at all, really; who knows", *verdicts) == "invalid"
    assert read("I have 2 doubts", "1", "2", "3") == "invalid"


@pytest.mark.parametrize("seed", range(6))
def test_the_class_is_given_back_and_not_the_place(seed: int) -> None:
    shown = question(shuffle=seed)
    for place, letter in enumerate(shown.letters):
        assert parse_answer(f"ANSWER: {letter}", shown) == (shown.order[place], "answered")
        assert parse_answer(f"ANSWER: {shown.options[place]}", shown) == (
            shown.order[place],
            "answered",
        )


_pieces = st.sampled_from(
    [
        "ANSWER:",
        "answer",
        "A",
        "B",
        "C",
        "D",
        "I",
        "a",
        "or",
        "not",
        "(",
        ")",
        "**",
        "\\boxed{",
        "}",
        '{"answer": "',
        '"',
        "<think>",
        "</think>",
        "Paris",
        "Rome",
        "\n",
        "```json",
        "The answer is",
        "I cannot answer",
        "$",
        ",",
        ".",
        "\ud800",
        "\x00",
        "Ｂ",
        "é",
        "option",
        "1",
        " ",
    ]
)
_texts = st.one_of(
    st.text(),
    st.lists(_pieces, max_size=30).map(" ".join),
    st.lists(_pieces, max_size=30).map("".join),
)


@given(
    text=_texts,
    k=st.integers(2, 26),
    seed=st.integers(0, 5),
    finish=st.sampled_from(["stop", "length", "refused", "empty"]),
)
def test_any_text_is_read_without_an_error(text: str, k: int, seed: int, finish: str) -> None:
    shown = question(*[f"option number {i}" for i in range(k)], shuffle=seed)
    answer, state = parse_answer(text, shown, finish=finish)  # type: ignore[arg-type]
    if state == "answered":
        assert answer in range(k)
    else:
        assert answer is None
        assert state in ("invalid", "refused")


@given(
    k=st.integers(2, 26),
    place=st.integers(0, 25),
    seed=st.integers(0, 5),
    frame=st.sampled_from(
        [
            "{}",
            "({})",
            "**{}**",
            "{}.",
            " {}\n",
            "Option {}",
            "ANSWER: {}",
            "the answer is {}",
            "Probably {}",
            "I go with {}!",
            "<think>A B</think>{}",
            "reasons first\n\n{}",
            "\\boxed{{{}}}",
            '{{"answer": "{}"}}',
            "ANSWER: {}, for sure",
        ]
    ),
)
def test_a_reply_with_exactly_one_letter_is_answered(
    k: int, place: int, seed: int, frame: str
) -> None:
    shown = question(*[f"thing {i}" for i in range(k)], shuffle=seed)
    place %= k
    assert parse_answer(frame.format(LETTERS[place]), shown) == (shown.order[place], "answered")


@given(
    k=st.integers(2, 26),
    places=st.tuples(st.integers(0, 25), st.integers(0, 25)),
    frame=st.sampled_from(
        [
            "{} {}",
            "{} or {}",
            "ANSWER: {} or {}",
            "ANSWER: {}, {}",
            "ANSWER: {}/{}",
            "ANSWER: {} and {}",
            "{}\n{}",
            "Maybe {}, maybe {}",
        ]
    ),
)
def test_two_different_letters_are_no_answer(k: int, places: tuple[int, int], frame: str) -> None:
    first, second = (LETTERS[p % k] for p in places)
    if first != second:
        assert parse_answer(
            frame.format(first, second), question(*[f"thing {i}" for i in range(k)])
        ) == (None, "invalid")


ODD = [
    " " * 200_000,
    "(" * 200_000,
    "\n" * 200_000,
    "ANSWER: " * 25_000,
    "<think>" * 30_000,
    "\\boxed{" * 30_000,
    "B " * 100_000,
    "option " * 30_000,
    "*" * 200_000 + "B",
    " \"'" * 70_000 + "x",
    "I am sorry but " * 12_000,
    "{" * 200_000,
    '{"a":' * 40_000,
    "the answer is " * 15_000,
    "Paris " * 30_000,
    "[THINK]" * 30_000,
    "so " * 60_000,
    "Therefore, " * 20_000,
    "1," * 100_000,
    "1" * 200_000,
    "anything but " * 15_000,
    "\nso, the answer is" * 15_000,
]


@pytest.mark.parametrize("text", ODD)
def test_long_odd_replies_are_no_answer(text: str) -> None:
    assert read(text) in ("invalid", "refused") or text in (
        ODD[6],
        ODD[8],
    )  # a letter, and nothing else but marks
    assert read_text(text)[1] in ("answered", "invalid", "refused")


@pytest.mark.full
@pytest.mark.timing
@pytest.mark.parametrize("text", ODD)
def test_long_odd_replies_take_no_time(text: str) -> None:
    begun = time.process_time()
    parse_answer(text, question())
    read_text(text)
    assert time.process_time() - begun < 2


# Inspect's reader wants ``ANSWER: X`` and nothing else. On replies of that form the two agree.
# Where they differ (all on purpose):
#   - it reads no other form (a letter alone, "the answer is B", \boxed, JSON in words, an option's text): ours reads them;
#   - ``ANSWER: Paris`` and letters that no option has are none to both, but ours knows the text of an option;
#   - after "ANSWER: B because …" it finds none, and ours finds B;
#   - two letters are none to both; ours says "invalid", where it returns an empty set;
#   - it does not tell a reply that declines from one that cannot be read.
INSPECT = {
    # reply: (class by Inspect or None, class by ours or state)
    "ANSWER: B": (1, 1),
    "answer: b": (1, 1),
    "ANSWER: B.": (1, 1),
    "ANSWER: **B**": (1, 1),
    "ANSWER: $B$": (1, 1),
    "ANSWER: (B)": (1, 1),
    "Reasons.\nANSWER: A\nANSWER: B": (1, 1),
    "ANSWER: A, C": (None, "invalid"),
    "ANSWER: AB": (None, "invalid"),
    "ANSWER: X": (None, "invalid"),
    "": (None, "invalid"),
    "no letter here": (None, "invalid"),
    "B": (None, 1),
    "The answer is B": (None, 1),
    "\\boxed{B}": (None, 1),
    "ANSWER: Paris": (None, 1),
    "ANSWER: B) Paris": (1, 1),
    "ANSWER: B because A is in Italy": (None, 1),
    '{"answer": "B"}': (None, 1),
    "**Answer:** B": (None, 1),
    "I cannot answer this question.": (None, "refused"),
}


@pytest.mark.full
def test_inspect_reads_the_same_where_it_reads_anything() -> None:
    pytest.importorskip("inspect_ai", reason="inspect_ai is not installed")
    import inspect_ai.solver._multiple_choice as theirs
    from inspect_ai.model import ModelName, ModelOutput
    from inspect_ai.solver import TaskState

    found = {}
    for text in INSPECT:
        state = TaskState(
            model=ModelName("mockllm/model"),
            sample_id=1,
            epoch=1,
            input="Which?",
            messages=[],
            choices=list(CITIES),
            output=ModelOutput.from_content("mockllm/model", text),
        )
        letters = theirs.parse_answers(state, multiple_correct=False)
        found[text] = (LETTERS.index(letters.pop()) if letters else None, read(text))
    assert found == INSPECT
    assert all(theirs_is is None or theirs_is == ours for theirs_is, ours in found.values())


# --------------------------------------------------------------------------------------------------
# one reader for logs, ask and search

FRUIT = ("an apple", "a pear", "a plum", "a quince")
NUMBERS = ("10", "20", "1,000", "0.5")
VERDICTS = ("yes", "no", "uncertain")

# Options, what the model said, and the place of its answer or the state of a reply without one.
# Where the reader of logs and the reader of ``search`` used to differ, the comment gives both
# readings and says why one of them is right.
REPLIES: list[tuple[tuple[str, ...], str, int | str]] = [
    (CITIES, "ANSWER: B", 1),
    (CITIES, "answer: b", 1),
    (CITIES, "**ANSWER: B**", 1),
    (CITIES, "**Answer:** B", 1),  # logs: none. A bold word is the word.
    (CITIES, "ANSWER: (B)", 1),
    (CITIES, "ANSWER: [B]", 1),
    (CITIES, "ANSWER: $B$", 1),
    (CITIES, "Final Answer = B", 1),  # logs: none
    (CITIES, "ANSWER: B) Paris", 1),
    (CITIES, "ANSWER: B) Rome", "invalid"),  # logs: B. Letter and text name two options.
    (CITIES, "ANSWER: Paris", 1),  # logs: none. The text of an option is an answer.
    (CITIES, "ANSWER: B because A is in Italy", 1),
    (CITIES, "ANSWER: A\nNo, wait.\nANSWER: B", 1),
    (CITIES, "ANSWER: A, C", "invalid"),
    (CITIES, "ANSWER: A or B", "invalid"),
    (CITIES, "ANSWER: A/B", "invalid"),  # logs: A
    (CITIES, "ANSWER: AB", "invalid"),
    (CITIES, "ANSWER: X", "invalid"),
    (CITIES, "ANSWER: E", "invalid"),
    (CITIES, "ANSWER: Apple", "invalid"),
    (CITIES, "ANSWER: not B", "invalid"),
    (CITIES, "ANSWER: anything but B", "invalid"),
    (CITIES, "ANSWER: none of these", "invalid"),
    (CITIES, "The answer is B.", 1),
    (CITIES, "The answer is (B).", 1),
    (CITIES, "So the answer is **B**", 1),
    (CITIES, "My answer is: [B]\nThank you", 1),
    (CITIES, "The answer is not B", "invalid"),
    (
        CITIES,
        "The answer is anything but B",
        "invalid",
    ),  # search: B, the one option that the reply denies
    (CITIES, "Anything but B", "invalid"),  # search: B
    (CITIES, "Everything but B is wrong", "invalid"),
    (CITIES, "All but B", "invalid"),  # search: B
    (CITIES, "Every option but B", "invalid"),  # search: B
    (CITIES, "Other than B, I see nothing", "invalid"),  # search: B
    (CITIES, "It is not B", "invalid"),
    (CITIES, "The answer is a matter of taste.", "invalid"),
    (CITIES, "The answer is A matter of taste.", "invalid"),
    (CITIES, "I would choose B.", 1),
    (CITIES, "I'd go with option B", 1),
    (CITIES, "Option B is correct.", 1),
    (CITIES, "B", 1),
    (CITIES, "b", 1),
    (CITIES, " (b) ", 1),
    (CITIES, "**B**", 1),
    (CITIES, "B.", 1),
    (CITIES, "B) Paris", 1),  # logs: none
    (CITIES, "Option B", 1),
    (CITIES, "Ｂ", 1),  # a letter of full width
    (CITIES, "Paris", 1),  # logs: none from a completion, Paris from a score
    (CITIES, "paris!", 1),
    (CITIES, "Rome and Bern are elsewhere.\n\nB", 1),
    (
        CITIES,
        "A) Rome\nB) Paris\nC) Bern\n\nB",
        1,
    ),  # search: none. Options that are said again are not answers.
    (CITIES, "A) Rome\nB) Paris\nC) Bern", "invalid"),
    (CITIES, "A\nB", "invalid"),
    (
        CITIES,
        "Rome lies in Italy, and Bern does not lie in France.\nTherefore, B.",
        1,
    ),  # both: none. The last line concludes.
    (CITIES, "Rome lies in Italy, and Bern does not lie in France.\nTherefore not B.", "invalid"),
    (
        CITIES,
        "Rome lies in Italy; others might say B here and there, as I have often seen them do in the past.",
        "invalid",
    ),
    (CITIES, "<think>ANSWER: A</think>ANSWER: B", 1),
    (CITIES, "<think>The answer is A. No: B.</think>\nB", 1),
    (CITIES, "I weighed ANSWER: A</think>\nB", 1),
    (CITIES, "<think>ANSWER: B", "invalid"),  # logs: B. The model was still thinking.
    (CITIES, "<thinking>A or B?</thinking> The answer is B", 1),
    (CITIES, "[THINK]ANSWER: A[/THINK]B", 1),
    (CITIES, "<|channel|>analysis<|message|>ANSWER: A<|end|><|channel|>final<|message|>B", 1),
    (CITIES, '{"answer": "B"}', 1),
    (CITIES, '{"reasoning": "some say answer: A", "answer": "B"}', 1),
    (CITIES, '```json\n{"answer": "Paris"}\n```', 1),
    (CITIES, 'Here it is: {"answer": "B"}', 1),
    (
        CITIES,
        '{"reasoning": "I thought: the answer is A", "answer": null}',
        "invalid",
    ),  # both: A. The field says that there is none.
    (CITIES, '{"answer": ["A", "B"]}', "invalid"),
    (CITIES, "so it is \\boxed{B}", 1),
    (CITIES, "so it is $\\boxed{\\text{B}}$.", 1),
    (CITIES, "<answer>B</answer>", 1),
    (CITIES, "", "invalid"),
    (CITIES, "  \n", "invalid"),
    (CITIES, "1", "invalid"),  # a place from 0 or from 1? Not guessed.
    (CITIES, "I cannot answer this question.", "refused"),  # logs: invalid
    (CITIES, "I’m sorry, but I can’t help with that.", "refused"),
    (CITIES, "I cannot give medical advice. ANSWER: B", 1),
    (FRUIT, "a pear", 1),
    (FRUIT, "It must be a plum, I think", 2),
    (FRUIT, "an apple or a pear", "invalid"),
    (NUMBERS, "The answer is 20.", 1),
    (NUMBERS, "ANSWER: 1000", 2),  # both: none. 1000 and 1,000 are one number.
    (NUMBERS, "\\boxed{0.50}", 3),
    (NUMBERS, "ANSWER: 30", "invalid"),
    (NUMBERS, "C", 2),
    (VERDICTS, "No, it is incorrect.", 1),
    (VERDICTS, "ANSWER: yes or no", "invalid"),
    (VERDICTS, "Uncertain.", 2),
]


def outcome(answer: int | None, state: str) -> int | str:
    return state if answer is None else answer


def test_at_least_sixty_replies_are_compared() -> None:
    assert len({(options, text) for options, text, _ in REPLIES}) == len(REPLIES) >= 60


@pytest.mark.parametrize(("options", "text", "expected"), REPLIES)
def test_logs_and_search_read_a_reply_alike(
    options: tuple[str, ...], text: str, expected: int | str
) -> None:
    from_output = answer_of_output({"completion": text}, options)
    assert outcome(*from_output) == expected  # type: ignore[arg-type]
    for shuffle in (None, 3):
        shown = question(*options, shuffle=shuffle)
        letters = shuffle is None or not any(letter in text for letter in "ABCDEXbＢ1")
        if letters:  # in another order a letter is another class
            assert outcome(*parse_answer(text, shown)) == expected


def test_whole_logs_and_whole_runs_give_the_table_of_replies(tmp_path: Path) -> None:
    """The replies in an Inspect log, in lm-eval samples, and said to ``ask``: three tables of
    answers with one content.
    """
    expected = [(None, e) if isinstance(e, str) else (e, "answered") for _, _, e in REPLIES]
    log = {
        "version": 2,
        "status": "success",
        "eval": {"task": "t", "model": "m", "created": "2026-01-01"},
        "samples": [
            {
                "id": i,
                "epoch": 1,
                "choices": list(options),
                "scores": {},
                "output": {"completion": text},
            }
            for i, (options, text, _) in enumerate(REPLIES)
        ],
    }
    (tmp_path / "log.json").write_text(json.dumps(log))
    harness = tmp_path / "m" / "samples_t_2026-01-01T00-00-00.jsonl"
    harness.parent.mkdir()
    harness.write_text(
        "".join(
            json.dumps(
                {
                    "doc_id": i,
                    "doc": {"choices": list(options)},
                    "arguments": {},
                    "filtered_resps": [text],
                    "filter": "none",
                }
            )
            + "\n"
            for i, (options, text, _) in enumerate(REPLIES)
        )
    )

    class Recorded:
        async def call(self, request: Any) -> Completion:
            (item,) = [
                i for i in range(len(REPLIES)) if f"Item number {i}?" in request.messages[-1].text
            ]
            return Completion(text=REPLIES[item][1])

    task = Task(
        name="t",
        items=tuple(
            TaskItem(id=i, text=f"Item number {i}?", options=r[0]) for i, r in enumerate(REPLIES)
        ),
    )
    asked = asyncio.run(ask_items(task, load_workflow("direct"), Recorded(), shuffle=False))  # type: ignore[arg-type]
    for table in (
        read_logs(tmp_path / "log.json").answers,
        read_lm_eval([harness]).answers,
        answers_table(asked, "m"),
    ):
        found = dict(
            zip(table["item"], zip(table["answer"], table["state"], strict=True), strict=True)
        )
        assert [found[i] for i in range(len(REPLIES))] == expected


@pytest.mark.parametrize(
    ("stop_reason", "finish", "text", "expected"),
    [
        ("max_tokens", "length", "ANSWER: B", 1),
        (
            "max_tokens",
            "length",
            "First, option B",
            "invalid",
        ),  # logs took the last words of a reply that was cut
        ("model_length", "length", "Rome is out.\nB) Paris", "invalid"),
        (
            "content_filter",
            "refused",
            "ANSWER: B",
            "refused",
        ),  # logs: B. What a filter left of a reply is not what the model chose.
        ("stop", "stop", "ANSWER: B", 1),
        ("unknown", "stop", "ANSWER: B", 1),
    ],
)
def test_the_end_of_a_reply_counts_in_logs_as_in_search(
    stop_reason: str, finish: Any, text: str, expected: int | str
) -> None:
    logged = answer_of_output(
        {"completion": text, "choices": [{"stop_reason": stop_reason}]}, CITIES
    )
    assert outcome(*logged) == outcome(*parse_answer(text, question(), finish=finish)) == expected  # type: ignore[arg-type]


def test_nothing_of_a_second_reader_is_left() -> None:
    source = Path(__file__).parents[3] / "src" / "noracle"
    words = r"place_in_text|place_of_answer|boxed|final_answer\b|</think|THOUGHT"
    places = {
        path.relative_to(source).as_posix()
        for path in source.rglob("*.py")
        if re.search(words, path.read_text())
    }
    assert places == {"evidence/replies.py"}


def test_options_beyond_the_letters_are_numbered_as_inspect_does() -> None:
    options = [f"thing {i:02d}" for i in range(30)]
    assert [
        read_choice(text, options)[0]
        for text in ("ANSWER: Z", "ANSWER: 1", "3", "(4)", "ANSWER: 5", "the answer is 2.")
    ] == [
        25,
        26,
        28,
        29,
        None,
        27,
    ]
    assert read_choice("ANSWER: 2.5", options) == (None, "invalid")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Blue whales sing.", "Blue whales sing."),
        ("<think>17 + 25</think>\n42", "42"),
        ("Step 1 … Step 2 …\nANSWER: 42", "42"),
        ("So we add.\n**Final answer:** 42.", "42"),
        ("It follows that the sum is big.\nThe answer is $42$.", "42"),
        ("It is $\\boxed{42}$, not \\boxed.", "42"),
        ("<answer>forty-two</answer> Goodbye", "forty-two"),
        ('{"reasoning": "long", "answer": 42}', "42"),
        ('```json\n{"answer": "x²"}\n```', "x²"),
        (
            "Question and answer: two words.\nThey differ.",
            "Question and answer: two words.\nThey differ.",
        ),
        ("½ of it", "½ of it"),
        ('{"answer": null}', "invalid"),
        ("", "invalid"),
        ("<think>still here", "invalid"),
        ("I cannot answer this question.", "refused"),
    ],
)
def test_replies_without_options_are_their_text_or_their_claim(text: str, expected: str) -> None:
    answer, state = read_text(text)
    assert (state if answer is None else answer) == expected
    logged, how = answer_of_output({"completion": text}, None)
    assert (logged, how) == (answer, state)
