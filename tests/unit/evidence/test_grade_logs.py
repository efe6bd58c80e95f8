"""Results of evaluation tools as grades: what each file says, which metric is the grade, and
everything that can be wrong with a file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import noracle
import noracle.oversight
from noracle.errors import EvidenceError, EvidenceWarning
from noracle.evidence.frames import fetch, open_frames
from noracle.evidence.grade_logs import grades_log_format, read_grades, read_scores, split_metric
from noracle.oversight.load import Loaded

LOGS = Path(__file__).parents[2] / "reference" / "logs"
HARNESS = LOGS / "lm-eval" / "dummy"
RUBRIC = {"type": "llm-rubric", "provider": "openai:gpt-4.1"}


def rows(columns: dict[str, list[Any]]) -> list[tuple[Any, ...]]:
    return list(zip(*columns.values(), strict=True))


def load(name: str) -> Any:
    return json.loads((LOGS / name).read_text())


def write(path: Path, value: Any) -> Path:
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return path


# ------------------------------------------------------------------------------------------------------------------
# what a file is


@pytest.mark.parametrize(
    ("path", "tool"),
    [
        (LOGS / "inspect-new-judged.eval", "inspect"),
        (next(HARNESS.glob("samples_mini_gen_*.jsonl")), "lm-eval"),
        (LOGS / "promptfoo.json", "promptfoo"),
        (LOGS / "deepeval-results.json", "deepeval"),
        (LOGS / "deepeval-test-run.json", "deepeval"),
        (LOGS / "otel-events.jsonl", "opentelemetry"),
        (f"{LOGS / 'promptfoo.json'}#Correctness", "promptfoo"),
        ([LOGS / "promptfoo.json", LOGS / "promptfoo.json"], "promptfoo"),
        (str(LOGS / "deepeval-*.json"), "deepeval"),
        (LOGS / "README.md", None),
        (LOGS / "none.json", None),
        ({"item": [1]}, None),
        ([], None),
        (None, None),
    ],
)
def test_tool_is_told_by_the_file(path: Any, tool: str | None) -> None:
    assert grades_log_format(path) == tool


def test_tool_is_told_whatever_the_order_of_keys(tmp_path: Path) -> None:
    for name, tool in (
        ("promptfoo.json", "promptfoo"),
        ("deepeval-results.json", "deepeval"),
        ("deepeval-test-run.json", "deepeval"),
    ):
        assert (
            grades_log_format(
                write(tmp_path / name, json.dumps(load(name), sort_keys=True, indent=2))
            )
            == tool
        )
    assert (
        grades_log_format(write(tmp_path / "s.json", load("promptfoo.json")["results"]))
        == "promptfoo"
    )  # the summary alone
    lines = "".join(json.dumps(row) + "\n" for row in load("promptfoo.json")["results"]["results"])
    assert grades_log_format(write(tmp_path / "s.jsonl", lines)) == "promptfoo"
    otlp = (LOGS / "otel-events.jsonl").read_text().splitlines()[0]
    assert grades_log_format(write(tmp_path / "one.json", otlp)) == "opentelemetry"


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{}",
        "[]",
        "null",
        '{"results": []}',
        '{"results": {"results": [1, 2]}}',
        '{"item": 1}',
        '{"testCases": []}',
        '{"results": "x"}',
        '{"test_runs": 1}',
        '[{"item": 1, "system": "a", "verdict": "yes"}]',
        '{"schema": "counts/1"}',
        "{" * 5000,
    ],
)
def test_other_json_is_no_result(content: str, tmp_path: Path) -> None:
    for name in ("a.json", "a.jsonl"):
        assert grades_log_format(write(tmp_path / name, content)) is None


def test_the_mark_before_a_metric_may_be_in_a_name(tmp_path: Path) -> None:
    path = write(tmp_path / "run#2.json", load("deepeval-test-run.json"))
    assert split_metric(str(path)) == (str(path), None)
    assert len(read_grades(str(path)).columns["item"]) == 3


# ------------------------------------------------------------------------------------------------------------------
# what files say


def test_grades_of_a_model_in_a_log_that_inspect_wrote() -> None:
    log = read_grades(f"{LOGS / 'inspect-new-judged.eval'}#model_graded_qa")
    judge = "model_graded_qa by mockllm/judge"
    assert rows(log.columns) == [
        ("q1", "mockllm/model", "yes", judge),
        ("q2", "mockllm/model", "no", judge),
        ("q3", "mockllm/model", "yes", judge),
        ("q5", "mockllm/model", "no", judge),
    ]
    assert (
        log.notes
        == (
            "1 result with an error or without a score left out: that is no wrong answer",  # a grade that cannot be read
            f"inspect-new-judged.eval: verdicts are those of a model ({judge}), and as right as it is",
        )
    )
    assert read_grades(LOGS / "inspect-new-judged.eval", metric="includes").columns["verdict"] == [
        "yes",
        "no",
        "yes",
        "yes",
        "no",
    ]


def test_two_scorers_are_not_guessed() -> None:
    with pytest.raises(
        EvidenceError,
        match=re.escape(
            "got 2 in inspect-new-judged.eval: model_graded_qa, includes. Choose one, as in"
        ),
    ):
        read_grades(LOGS / "inspect-new-judged.eval")
    both = read_grades(f"{LOGS / 'inspect-new-judged.eval'}#all").columns
    assert set(both["rater"]) == {"model_graded_qa by mockllm/judge", "includes"}
    assert len(both["item"]) == 9


def test_inspect_epochs_are_repeats_and_failed_samples_are_left_out() -> None:
    epochs = read_grades(LOGS / "inspect-new-epochs.eval", repeats="all").columns
    assert sorted(set(epochs["repeat"])) == [1, 2, 3]
    assert epochs["item"].count(1) == 3
    first = read_grades(LOGS / "inspect-new-epochs.eval")
    assert first.columns["item"] == [1, 2, 3, 4]
    assert "repeat" not in first.columns
    assert (
        first.notes[-1]
        == "inspect-new-epochs.eval: 8 grades of later runs of the same items are not used; the first run of an item counts"
    )
    errored = read_grades(LOGS / "inspect-new-errored.eval")
    assert sorted(errored.columns["item"]) == [1, 2, 4, 5, 7, 8]
    assert errored.notes == (
        "2 results with an error or without a score left out: that is no wrong answer",
    )


def inspect_log(path: Path, values: list[Any], **about: Any) -> Path:
    samples = [
        {"id": i, "epoch": 1, "scores": {"judge": {"value": value}}}
        for i, value in enumerate(values)
    ]
    eval_ = {"task": "t", "model": "m", "created": "2026-01-01", **about}
    return write(path, {"version": 2, "status": "success", "eval": eval_, "samples": samples})


@pytest.mark.parametrize(
    ("values", "verdicts"),
    [
        (["C", "I", "N", "C"], ["yes", "no", "no", "yes"]),
        ([1, 0, 1.0], ["yes", "no", "yes"]),
        ([True, False], ["yes", "no"]),
        (["correct", "Incorrect", "unsure"], ["yes", "no", "unsure"]),
        (["C", None, float("nan"), "", []], ["yes"]),
    ],
)
def test_values_of_inspect_scores(values: list[Any], verdicts: list[str], tmp_path: Path) -> None:
    log = read_grades(inspect_log(tmp_path / "log.json", values))
    assert log.columns["verdict"] == verdicts
    assert set(log.columns["rater"]) == {"judge"}


def test_partly_right_is_a_score_and_needs_a_limit(tmp_path: Path) -> None:
    path = inspect_log(tmp_path / "log.json", ["C", "P", "I"])
    with pytest.raises(
        EvidenceError,
        match=re.escape(
            "judge in log.json must be right or wrong to be a grade; got scores such as 0.5."
        ),
    ):
        read_grades(path)
    assert read_grades(f"{path}#judge>=0.5").columns["verdict"] == ["yes", "yes", "no"]
    assert read_grades(f"{path}#judge >= 1").columns["verdict"] == ["yes", "no", "no"]
    assert read_scores(path).columns == {
        "item": [0, 1, 2],
        "rater": ["judge"] * 3,
        "value": [1.0, 0.5, 0.0],
    }


def test_scores_of_several_values_are_several_metrics(tmp_path: Path) -> None:
    path = inspect_log(
        tmp_path / "log.json", [{"fact": 1, "style": 0.2}, {"fact": 0, "style": 0.9}]
    )
    with pytest.raises(EvidenceError, match="judge/fact, judge/style"):
        read_grades(path)
    assert read_grades(path, metric="judge/fact").columns["verdict"] == ["yes", "no"]


@pytest.mark.parametrize(
    ("scorer", "roles", "rater"),
    [
        (
            {"name": "model_graded_qa", "options": {"model": "openai/gpt-4o"}},
            None,
            "model_graded_qa by openai/gpt-4o",
        ),
        (
            {"name": "model_graded_qa", "options": {"model": ["a/x", "b/y"]}},
            None,
            "model_graded_qa by a/x+b/y",
        ),
        (
            {"name": "model_graded_qa", "options": {}},
            {"grader": {"model": "a/x"}},
            "model_graded_qa by a/x",
        ),
        ({"name": "model_graded_qa"}, None, "model_graded_qa"),
    ],
)
def test_judge_of_inspect_is_named_where_the_log_says_so(
    scorer: Any, roles: Any, rater: str, tmp_path: Path
) -> None:
    path = inspect_log(tmp_path / "log.json", ["C"], scorers=[scorer], model_roles=roles)
    path.write_text(path.read_text().replace('"judge"', '"model_graded_qa"'))
    assert read_grades(path).columns["rater"] == [rater]


def test_metrics_of_lm_eval() -> None:
    log = read_grades(str(HARNESS / "samples_mini_gen_*.jsonl"))
    said = [
        json.loads(line)
        for line in next(HARNESS.glob("samples_mini_gen_*.jsonl")).read_text().splitlines()
    ]
    assert log.columns["verdict"] == ["yes" if line["exact_match"] == 1 else "no" for line in said]
    assert rows(log.columns)[0] == (0, "dummy", "no", "exact_match")
    with pytest.raises(EvidenceError, match=r"got 2 in samples_mini_mc_.*: acc, acc_norm\."):
        read_grades(str(HARNESS / "samples_mini_mc_*.jsonl"))
    assert len(read_grades(f"{HARNESS}/samples_mini_mc_*.jsonl#acc").columns["item"]) == 8
    assert set(read_grades(str(HARNESS / "samples_mini_two_*.jsonl")).columns["system"]) == {
        "dummy [strict]",
        "dummy [flexible]",
    }


def test_results_of_promptfoo() -> None:
    log = read_grades(LOGS / "promptfoo.json")
    assert rows(log.columns) == [
        (0, "openai:gpt-4o-mini", "yes", "promptfoo"),
        (1, "openai:gpt-4o-mini", "no", "promptfoo"),
        (2, "openai:gpt-4o-mini", "yes", "promptfoo"),
        (3, "openai:gpt-4o-mini", "no", "promptfoo"),  # right, but not JSON
        (0, "anthropic:claude-haiku", "yes", "promptfoo"),
        (1, "anthropic:claude-haiku", "yes", "promptfoo"),
        (2, "anthropic:claude-haiku", "no", "promptfoo"),
    ]
    assert log.notes == (
        "promptfoo.json: the verdict is the tool's own: all of Correctness, is-json must pass; #METRIC chooses one",
        "1 result with an error or without a score left out: that is no wrong answer",
    )
    one = read_grades(f"{LOGS / 'promptfoo.json'}#correctness").columns
    assert one["verdict"] == ["yes", "no", "yes", "yes", "yes", "yes", "no"]
    assert set(one["rater"]) == {"Correctness by openai:gpt-4.1"}


def promptfoo(path: Path, results: list[dict[str, Any]]) -> Path:
    return write(
        path,
        {
            "evalId": "e",
            "results": {"version": 3, "results": results},
            "config": {},
            "shareableUrl": None,
        },
    )


def result(test: int, ok: Any, **more: Any) -> dict[str, Any]:
    grading = {
        "pass": ok,
        "score": float(bool(ok)),
        "componentResults": [{"pass": ok, "score": 1.0, "assertion": RUBRIC}],
    }
    return {
        "testIdx": test,
        "promptIdx": 0,
        "provider": {"id": "m"},
        "vars": {"q": f"v{test}"},
        "success": ok,
        "score": 1.0,
        "failureReason": 0 if ok else 1,
        "gradingResult": grading,
        **more,
    }


def test_one_assertion_gives_its_name_to_the_rater(tmp_path: Path) -> None:
    log = read_grades(promptfoo(tmp_path / "p.json", [result(0, True), result(1, False)]))
    assert rows(log.columns) == [
        (0, "m", "yes", "llm-rubric by openai:gpt-4.1"),
        (1, "m", "no", "llm-rubric by openai:gpt-4.1"),
    ]
    assert log.notes == (
        "p.json: verdicts are those of a model (llm-rubric by openai:gpt-4.1), and as right as it is",
    )


def test_repeated_tests_of_promptfoo_are_repeats(tmp_path: Path) -> None:
    again = [
        result(0, True),
        result(1, False),
        {**result(2, False), "vars": {"q": "v0"}},
        {**result(3, True), "vars": {"q": "v1"}},
    ]
    columns = read_grades(promptfoo(tmp_path / "p.json", again), repeats="all").columns
    assert columns["item"] == [0, 1, 0, 1]
    assert columns["repeat"] == [1, 1, 2, 2]


def test_ids_and_prompts_of_promptfoo(tmp_path: Path) -> None:
    named = [
        {
            **result(i, True),
            "vars": {"question_id": f"q{i}"},
            "promptIdx": p,
            "prompt": {"raw": "x" * 99, "label": label},
        }
        for i in range(2)
        for p, label in enumerate(("short", "x" * 99))
    ]
    columns = read_grades(promptfoo(tmp_path / "p.json", named)).columns
    assert set(columns["item"]) == {"q0", "q1"}
    assert set(columns["system"]) == {"m [short]", "m [prompt 1]"}


def test_an_id_that_several_tests_share_is_no_id_of_a_test(tmp_path: Path) -> None:
    shared = [
        {**result(i, bool(i % 2)), "vars": {"id": "customer 7", "q": f"v{i}"}} for i in range(3)
    ]
    columns = read_grades(promptfoo(tmp_path / "p.json", shared)).columns
    assert columns["item"] == [0, 1, 2]
    assert "repeat" not in columns


def test_older_summaries_and_texts_as_providers(tmp_path: Path) -> None:
    old = [
        {"provider": "openai:x", "vars": {"q": "a"}, "success": True, "score": 1},
        {"provider": "openai:x", "error": "boom", "success": False},
    ]
    log = read_grades(
        write(
            tmp_path / "old.json",
            {"version": 2, "results": {"version": 2, "results": old, "table": {}, "stats": {}}},
        )
    )
    assert rows(log.columns) == [(0, "openai:x", "yes", "promptfoo")]
    assert len(log.notes) == 1


def test_results_of_deepeval() -> None:
    judge = "Correctness [GEval] by gpt-4.1"
    run = read_grades(LOGS / "deepeval-test-run.json")
    assert rows(run.columns) == [
        ("test_case_0", "gpt-4o-mini", "yes", judge),
        ("test_case_1", "gpt-4o-mini", "no", judge),
        ("test_case_2", "gpt-4o-mini", "yes", judge),
    ]
    assert run.notes == (
        "1 result with an error or without a score left out: that is no wrong answer",
        f"deepeval-test-run.json: verdicts are those of a model ({judge}), and as right as it is",
    )
    with pytest.raises(
        EvidenceError,
        match=re.escape(
            "Correctness [GEval], Answer Relevancy. Choose one, as in 'deepeval-results.json#Corr"
        ),
    ):
        read_grades(LOGS / "deepeval-results.json")
    one = read_grades(f"{LOGS / 'deepeval-results.json'}#Correctness [GEval]")
    assert one.columns["verdict"] == run.columns["verdict"]
    assert one.columns["system"] == ["deepeval-results"] * 3
    assert (
        read_grades(f"{LOGS / 'deepeval-results.json'}#Answer Relevancy")
        .notes[0]
        .startswith("deepeval-results.json: verdicts")
    )  # the error was of another metric
    assert read_grades(f"{LOGS / 'deepeval-results.json'}#Correctness [GEval]>=0.8").columns[
        "verdict"
    ] == ["yes", "no", "no"]


def test_scores_of_deepeval_are_raters_with_values() -> None:
    columns = read_scores(LOGS / "deepeval-results.json").columns
    assert rows(columns)[:2] == [
        ("test_case_0", "Correctness [GEval] by gpt-4.1", 0.9),
        ("test_case_0", "Answer Relevancy by gpt-4.1", 0.8),
    ]
    assert len(columns["item"]) == 7


def test_two_runs_of_deepeval_are_repeats_of_one_system(tmp_path: Path) -> None:
    paths = [
        write(tmp_path / f"test_run_{i}.json", load("deepeval-test-run.json")) for i in range(2)
    ]
    columns = read_grades([str(p) for p in paths], repeats="all").columns
    assert columns["repeat"] == [1, 1, 1, 2, 2, 2]
    assert (
        read_scores(str(tmp_path / "*.json")).notes[-1]
        == "test_run_0.json and 1 more: 3 scores are means over repeats"
    )


def test_events_of_opentelemetry() -> None:
    log = read_grades(LOGS / "otel-events.jsonl")
    assert rows(log.columns) == [
        ("chatcmpl-0", "bot", "yes", "Correctness"),
        ("chatcmpl-1", "bot", "no", "Correctness"),
        ("chatcmpl-2", "bot", "yes", "Correctness"),
        ("5b8efff798038103d269b633813fc60c/eee19b7ec3c1b174", "gpt-4o-mini", "no", "Correctness"),
        ("chatcmpl-5", "bot", "yes", "Correctness"),
        ("chatcmpl-7", "gpt-4o-mini", "yes", "Correctness"),
    ]
    assert log.notes == (
        "1 result with an error or without a score left out: that is no wrong answer",
    )


def event(**attributes: Any) -> str:
    named = {
        f"gen_ai.evaluation.{k.replace('__', '.')}"
        if not k.startswith("id")
        else "gen_ai.response.id": v
        for k, v in attributes.items()
    }
    return json.dumps({"event.name": "gen_ai.evaluation.result", **named}) + "\n"


def test_labels_that_are_no_verdicts_are_named(tmp_path: Path) -> None:
    lines = event(name="Relevance", score__label="relevant", id="a") + event(
        name="Relevance", score__label="not_relevant", id="b"
    )
    path = write(tmp_path / "e.jsonl", lines)
    message = "labels of Relevance must be words such as pass and fail; got not_relevant, relevant. Say which label is right, as in"
    with pytest.raises(EvidenceError, match=re.escape(message)):
        read_grades(path)
    assert read_grades(f"{path}#Relevance=relevant").columns["verdict"] == ["yes", "no"]
    with pytest.raises(EvidenceError, match=r"got 'good'\. Known are not_relevant, relevant"):
        read_grades(f"{path}#Relevance=good")


def test_scores_of_events_need_a_limit_or_are_scores(tmp_path: Path) -> None:
    path = write(
        tmp_path / "e.jsonl",
        event(name="Quality", score__value=4.0, id="a")
        + event(name="Quality", score__value=2, id="b"),
    )
    with pytest.raises(
        EvidenceError,
        match=re.escape("'e.jsonl#Quality>=0.5', or read it as scores with 'noracle mean --data'"),
    ):
        read_grades(path)
    assert read_grades(f"{path}#Quality>=3").columns["verdict"] == ["yes", "no"]
    assert read_scores(path).columns == {
        "item": ["a", "b"],
        "rater": ["Quality"] * 2,
        "value": [4.0, 2.0],
    }
    whole = write(
        tmp_path / "w.jsonl",
        event(name="Right", score__value=1, id="a") + event(name="Right", score__value=0, id="b"),
    )
    assert read_grades(whole).columns["verdict"] == ["yes", "no"]


def test_events_without_what_was_evaluated_are_named(tmp_path: Path) -> None:
    path = write(
        tmp_path / "e.jsonl",
        event(name="Quality", score__label="pass", id="a")
        + event(name="Quality", score__label="pass"),
    )
    with pytest.raises(
        EvidenceError, match=r"got neither gen_ai.response.id nor a span at line 2 of 'e.jsonl'"
    ):
        read_grades(path)
    path = write(tmp_path / "e.jsonl", event(score__label="pass", id="a"))
    with pytest.raises(EvidenceError, match=r"got no gen_ai.evaluation.name at line 1"):
        read_grades(path)


# ------------------------------------------------------------------------------------------------------------------
# broken files


@pytest.mark.parametrize(
    "name",
    ["promptfoo.json", "deepeval-results.json", "deepeval-test-run.json", "otel-events.jsonl"],
)
@pytest.mark.parametrize("share", [0.5, 0.99])
def test_files_that_are_cut_off_are_refused_in_one_line(
    name: str, share: float, tmp_path: Path
) -> None:
    text = (LOGS / name).read_text()
    path = write(tmp_path / name, text[: int(len(text) * share)])
    with pytest.raises(EvidenceError) as error:
        read_grades(path)
    assert "\n" not in str(error.value)
    assert re.search("cut off|other text at line", str(error.value))


def _changes() -> list[tuple[str, Callable[[Any], Any]]]:
    def at(*keys: Any, value: Any) -> Callable[[Any], Any]:
        def change(data: Any) -> Any:
            place = data
            for key in keys[:-1]:
                place = place[key]
            place[keys[-1]] = value
            return data

        return change

    rows_of = ("results", "results", 0)
    strange = [None, 7, "text", [], {}, [None], [[]]]
    return (
        [("promptfoo.json", at(*rows_of, value=v)) for v in strange]
        + [
            ("promptfoo.json", at(*rows_of, key, value=v))
            for key in ("gradingResult", "vars", "provider", "testCase")
            for v in strange
        ]
        + [
            ("deepeval-results.json", at("test_results", 0, "metrics_data", value=v))
            for v in strange
        ]
        + [("deepeval-test-run.json", at("testCases", 0, value=v)) for v in strange]
        + [("deepeval-test-run.json", at("hyperparameters", value=v)) for v in strange]
    )


@pytest.mark.parametrize(("name", "change"), _changes())
def test_strange_fields_give_a_table_or_one_clear_error(
    name: str, change: Callable[[Any], Any], tmp_path: Path
) -> None:
    path = write(tmp_path / name, change(load(name)))
    said, columns = "", {"verdict": []}
    try:
        columns = read_grades(path, metric="all").columns
    except EvidenceError as error:
        said = str(error)
    assert bool(said) != bool(columns["verdict"])
    assert "\n" not in said
    assert {"yes", "no"} >= set(columns["verdict"])
    assert len({len(column) for column in columns.values()}) == 1


def test_nothing_but_errors_is_said(tmp_path: Path) -> None:
    failed = {**result(0, False), "failureReason": 2, "error": "timeout", "gradingResult": None}
    with pytest.raises(EvidenceError, match=r"must hold verdicts; got none in p\.json"):
        read_grades(promptfoo(tmp_path / "p.json", [failed]))
    with pytest.raises(EvidenceError, match="must hold results; got none"):
        read_grades(promptfoo(tmp_path / "p.json", []))


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("none.json", "must name results of an evaluation tool; got 'none.json'"),
        (
            f"{LOGS / 'promptfoo.json'}#Style",
            r"metric must be one of promptfoo.json; got 'Style'. Known are Correctness, is-json",
        ),
        (
            f"{LOGS / 'promptfoo.json'}#Correctness>=x",
            "must be NAME, NAME>=NUMBER or NAME=LABEL|must be one of",
        ),
    ],
)
def test_paths_and_metrics_that_are_not_there(path: str, message: str) -> None:
    with pytest.raises(EvidenceError, match=message):
        read_grades(path)


def test_scores_are_of_one_system() -> None:
    with pytest.raises(
        EvidenceError,
        match=r"scores must be of one system; got 2 in promptfoo.json \(anthropic:claude-haiku, openai",
    ):
        read_scores(f"{LOGS / 'promptfoo.json'}#Correctness")


def test_names_of_any_script_survive(tmp_path: Path) -> None:
    rows_ = [
        {
            **result(0, True),
            "provider": {"id": "モデル; DROP TABLE"},
            "vars": {"id": "質問 'α' \"β\" #1"},
        }
    ]
    columns = read_grades(promptfoo(tmp_path / "データ.json", rows_)).columns
    assert (columns["item"], columns["system"]) == (["質問 'α' \"β\" #1"], ["モデル; DROP TABLE"])


# ------------------------------------------------------------------------------------------------------------------
# where they are read


def test_a_path_given_as_grades_is_read_by_its_tool() -> None:
    frames, _connection = open_frames({"grades": f"{LOGS / 'promptfoo.json'}#Correctness"})
    assert len(fetch(frames["grades"])) == 7
    assert frames["grades"].columns == ["item", "system", "verdict", "rater"]


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("promptfoo.json", "results of promptfoo"),
        ("deepeval-results.json", "results of DeepEval"),
        ("deepeval-test-run.json", "results of DeepEval"),
        ("otel-events.jsonl", "results of OpenTelemetry"),
        (
            "inspect-new-judged.eval",
            None,
        ),  # a log is answers; its scores are grades where it is named as such
        ("README.md", None),
    ],
)
def test_results_in_a_folder_are_recognised_as_grades(name: str, why: str | None) -> None:
    from noracle.oversight.sniff import told_by_tool

    seen = told_by_tool(str(LOGS / name))
    assert (None if seen is None else (seen.kind, seen.why)) == (
        None if why is None else ("grades", why)
    )


@pytest.mark.thin(2)
@pytest.mark.parametrize(
    ("path", "system", "right", "graded", "note"),
    [
        (
            f"{LOGS / 'promptfoo.json'}#Correctness",
            "openai:gpt-4o-mini",
            3,
            4,
            "1 result with an error",
        ),
        (LOGS / "promptfoo.json", "openai:gpt-4o-mini", 2, 4, "the verdict is the tool's own"),
        (LOGS / "deepeval-test-run.json", "gpt-4o-mini", 2, 3, "verdicts are those of a model"),
        (LOGS / "otel-events.jsonl", "bot", 3, 4, "1 result with an error"),
        (
            f"{LOGS / 'inspect-new-judged.eval'}#model_graded_qa",
            "mockllm/model",
            2,
            4,
            "verdicts are those of a model",
        ),
        (
            LOGS / "inspect-new-epochs.eval",
            "mockllm/model",
            2,
            4,
            "the first run of an item counts",
        ),
        (str(HARNESS / "samples_mini_gen_*.jsonl"), "dummy", 0, 8, None),
    ],
)
def test_evidence_takes_results_as_grades_and_says_what_it_did(
    path: Any, system: str, right: int, graded: int, note: str | None
) -> None:
    evidence = noracle.Evidence.from_tables(grades=path)
    estimate = noracle.estimate_accuracy(evidence, system=system)
    assert (round(estimate.value * graded), estimate.counts["labelled"]) == (right, graded)
    assert note is None or any(note in said for said in evidence.inferred)


def test_a_folder_with_results_has_grades(tmp_path: Path) -> None:
    (tmp_path / "results.json").write_bytes((LOGS / "promptfoo.json").read_bytes())
    (tmp_path / "notes.json").write_text('{"results": "to come"}')
    found = noracle.oversight.find_evidence(tmp_path)
    assert [(source.kind, source.why) for source in found.sources] == [
        ("grades", "results of promptfoo")
    ]
    assert [Path(other.path).name for other in found.unused] == ["notes.json"]


@pytest.mark.parametrize(
    ("name", "metric", "verdicts"),
    [
        ("deepeval-results.json", "Answer Relevancy", 4),
        ("inspect-new-judged.eval", "includes", 5),
        ("inspect-new-judged.eval", "model_graded_qa", 4),
    ],
)
def test_settings_name_the_metric_of_a_file_also_of_a_log(
    name: str, metric: str, verdicts: int, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes((LOGS / name).read_bytes())
    (tmp_path / "noracle.toml").write_text(f'[files]\ngrades = "{name}#{metric}"\n')
    for found in (
        noracle.oversight.find_evidence(tmp_path),
        noracle.oversight.find_evidence(tmp_path, grades=f"{tmp_path / name}#{metric}"),
    ):
        (source,) = found.sources
        assert (source.kind, source.options) == ("grades", {"metric": metric})
        loaded = Loaded(found)
        assert loaded.evidence is not None
        assert len(loaded.evidence.rows("grades")) == verdicts
        assert loaded.evidence_words()[:2] == ["--grades", f"{source.paths[0]}#{metric}"]


def test_a_path_given_as_scores_is_read_by_its_tool() -> None:
    from noracle.ppi.table import read_scores as read_rows

    with pytest.warns(EvidenceWarning, match="1 result with an error"):
        scores = read_rows(str(LOGS / "deepeval-results.json"), what="data")
    assert scores.names == ("Correctness [GEval] by gpt-4.1", "Answer Relevancy by gpt-4.1")
    assert scores.rows.shape == (4, 2)
