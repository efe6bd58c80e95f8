"""Which option a reply chose: the rules, the traps, any text at all, and Inspect's own reader beside ours."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noracle.search.parsing import parse_answer
from noracle.search.task import LETTERS, Question, TaskItem, pose

CITIES = ("Rome", "Paris", "Bern", "A patient with fever")


def question(*options: str, shuffle: int | None = None) -> Question:
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
    said = ("ANSWER: yes", "No.", "No, it is incorrect.", "\\boxed{no}", "ANSWER: C", "ANSWER: Uncertain")
    assert [read(text, *verdicts) for text in said] == [0, 1, 1, 1, 2, 2]
    assert read("ANSWER: yes or no", *verdicts) == "invalid"
    assert read("no idea at all, really; who knows", *verdicts) == "invalid"
    assert read("I have 2 doubts", "1", "2", "3") == "invalid"


@pytest.mark.parametrize("seed", range(6))
def test_the_class_is_given_back_and_not_the_place(seed: int) -> None:
    shown = question(shuffle=seed)
    for place, letter in enumerate(shown.letters):
        assert parse_answer(f"ANSWER: {letter}", shown) == (shown.order[place], "answered")
        assert parse_answer(f"ANSWER: {shown.options[place]}", shown) == (shown.order[place], "answered")


_pieces = st.sampled_from(
    ["ANSWER:", "answer", "A", "B", "C", "D", "I", "a", "or", "not", "(", ")", "**", "\\boxed{", "}", '{"answer": "', '"',
     "<think>", "</think>", "Paris", "Rome", "\n", "```json", "The answer is", "I cannot answer",
     "$", ",", ".", "\ud800", "\x00", "Ｂ", "é", "option", "1", " "]
)  # fmt: skip
_texts = st.one_of(st.text(), st.lists(_pieces, max_size=30).map(" ".join), st.lists(_pieces, max_size=30).map("".join))


@given(text=_texts, k=st.integers(2, 26), seed=st.integers(0, 5), finish=st.sampled_from(["stop", "length", "refused", "empty"]))
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
        ["{}", "({})", "**{}**", "{}.", " {}\n", "Option {}", "ANSWER: {}", "the answer is {}", "Probably {}", "I go with {}!",
         "<think>A B</think>{}", "reasons first\n\n{}", "\\boxed{{{}}}", '{{"answer": "{}"}}', "ANSWER: {}, for sure"]
    ),
)  # fmt: skip
def test_a_reply_with_exactly_one_letter_is_answered(k: int, place: int, seed: int, frame: str) -> None:
    shown = question(*[f"thing {i}" for i in range(k)], shuffle=seed)
    place %= k
    assert parse_answer(frame.format(LETTERS[place]), shown) == (shown.order[place], "answered")


@given(k=st.integers(2, 26), places=st.tuples(st.integers(0, 25), st.integers(0, 25)), frame=st.sampled_from(
    ["{} {}", "{} or {}", "ANSWER: {} or {}", "ANSWER: {}, {}", "ANSWER: {}/{}", "ANSWER: {} and {}", "{}\n{}", "Maybe {}, maybe {}"]
))  # fmt: skip
def test_two_different_letters_are_no_answer(k: int, places: tuple[int, int], frame: str) -> None:
    first, second = (LETTERS[p % k] for p in places)
    if first != second:
        assert parse_answer(frame.format(first, second), question(*[f"thing {i}" for i in range(k)])) == (None, "invalid")


@pytest.mark.parametrize(
    "text",
    [" " * 200_000, "(" * 200_000, "\n" * 200_000, "ANSWER: " * 25_000, "<think>" * 30_000, "\\boxed{" * 30_000, "B " * 100_000,
     "option " * 30_000, "*" * 200_000 + "B", " \"'" * 70_000 + "x", "I am sorry but " * 12_000, "{" * 200_000, '{"a":' * 40_000,
     "the answer is " * 15_000, "Paris " * 30_000]
)  # fmt: skip
def test_long_odd_replies_take_no_time(text: str) -> None:
    begun = time.process_time()
    parse_answer(text, question())
    assert time.process_time() - begun < 2


# Inspect's reader wants ``ANSWER: X`` and nothing else. On replies of that form the two agree. Where they differ (all on purpose):
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


def test_inspect_reads_the_same_where_it_reads_anything() -> None:
    pytest.importorskip("inspect_ai", reason="inspect_ai is not installed")
    import inspect_ai.solver._multiple_choice as theirs
    from inspect_ai.model import ModelName, ModelOutput
    from inspect_ai.solver import TaskState

    found = {}
    for text in INSPECT:
        state = TaskState(
            model=ModelName("mockllm/model"), sample_id=1, epoch=1, input="Which?", messages=[], choices=list(CITIES),
            output=ModelOutput.from_content("mockllm/model", text),
        )  # fmt: skip
        letters = theirs.parse_answers(state, multiple_correct=False)
        found[text] = (LETTERS.index(letters.pop()) if letters else None, read(text))
    assert found == INSPECT
    assert all(theirs_is is None or theirs_is == ours for theirs_is, ours in found.values())
