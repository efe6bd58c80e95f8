"""Samples that lm-evaluation-harness wrote: multiple choice, generation, two filters."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from noracle import Evidence, estimate_accuracy
from noracle.errors import ArgumentError, EvidenceError
from noracle.evidence.logs import log_format, read_lm_eval, read_logs

LOGS = Path(__file__).parents[2] / "reference" / "logs" / "lm-eval" / "dummy"
CLASSES = [4, 4, 5, 4, 4, 4, 4, 3]
SAID = [1, 0, 2, None, 1, 0, 3, 0]


def file(task: str) -> Path:
    (path,) = LOGS.glob(f"samples_{task}_*.jsonl")
    return path


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("prediction", ["acc", "acc_norm"])
def test_chosen_option_is_right_exactly_where_the_harness_says_so(prediction: Any) -> None:
    tables = read_lm_eval([file("mini_mc")], prediction=prediction)
    logged = lines(file("mini_mc"))
    assert tables.items == {"item": list(range(8)), "n_classes": CLASSES}
    assert [
        float(a == int(line["target"]))
        for a, line in zip(tables.answers["answer"], logged, strict=True)
    ] == [x[prediction] for x in logged]


def test_acc_and_acc_norm_differ_by_length() -> None:
    line = lines(file("mini_mc"))[0]
    line["filtered_resps"] = [
        ["-4.0", "False"],
        ["-4.5", "False"],
        ["-5.0", "False"],
        ["-6.0", "False"],
    ]  # one two three five
    assert _answer(line, "acc") == 0
    assert _answer(line, "acc_norm") == 2


def _answer(line: dict[str, Any], prediction: Any) -> int | None:
    from noracle.evidence.logs import _most_likely

    return _most_likely(line, prediction)


def test_generation_gives_classes_where_documents_have_options() -> None:
    tables = read_logs(file("mini_gen"))
    assert tables.answers == {
        "item": list(range(8)),
        "system": ["dummy"] * 8,
        "answer": SAID,
        "state": ["invalid" if a is None else "answered" for a in SAID],
    }


def test_two_filters_are_two_systems_with_every_line() -> None:
    tables = read_logs(file("mini_two"))
    assert len(tables.answers["item"]) == len(lines(file("mini_two"))) == 16
    assert set(tables.answers["system"]) == {"dummy [strict]", "dummy [flexible]"}
    assert tables.answers["answer"] == SAID * 2
    assert tables.answers["state"].count("invalid") == 2


def test_several_tasks_keep_their_items_apart() -> None:
    tables = read_logs(LOGS / "samples_*.jsonl")
    assert len(set(tables.answers["item"])) == 24
    assert "mini_mc/0" in tables.answers["item"]


def test_command_of_evidence_takes_the_file() -> None:
    evidence = Evidence.from_tables(
        file("mini_gen"), {"item": [0, 1], "class": ["B", "A"], "verdict": ["yes", "no"]}
    )
    estimate = estimate_accuracy(evidence)
    assert estimate.counts["items"] == 8
    assert estimate.counts["states"] == {"invalid": 1}


def test_documents_without_options_give_texts(tmp_path: Path) -> None:
    changed = lines(file("mini_two"))[:8]
    for line in changed:
        line["doc"] = {"question": "?"}
    path = tmp_path / "samples_x_2026-01-01T00-00-00.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in changed))
    tables = read_logs(path)
    assert tables.answers["answer"] == ["B", "A", "C", None, "B", "A", "D", "A"]
    assert tables.items is None


def test_repeated_replies_are_repeats(tmp_path: Path) -> None:
    line = lines(file("mini_gen"))[0]
    line["filtered_resps"] = [["the answer is B", "the answer is C"]]
    path = tmp_path / "samples_x.jsonl"
    path.write_text(json.dumps(line) + "\n")
    tables = read_logs(path)
    assert tables.answers["answer"] == [1, 2]
    assert tables.answers["repeat"] == [1, 2]


def test_mutual_information_asks_twice_for_each_option() -> None:
    line = lines(file("mini_mc"))[0]
    line["metrics"] = ["acc", "acc_mutual_info"]
    line["filtered_resps"] = [
        ["-3.0", "False"],
        ["-1.0", "False"],
        ["-9.0", "False"],
        ["-0.1", "False"],
    ]
    assert _answer(line, "acc") == 1


def test_faults_are_named_with_file_and_line(tmp_path: Path) -> None:
    path = tmp_path / "samples_x.jsonl"
    line = file("mini_mc").read_text().splitlines()[0]
    path.write_text(line + "\n{not json\n")
    with pytest.raises(EvidenceError, match=r"other text at line 2 of 'samples_x.jsonl'"):
        read_logs(path)
    path.write_text(
        line.replace('"filter"', '"filtre"') + "\n" + line.replace('"doc_id"', '"id"') + "\n"
    )
    with pytest.raises(EvidenceError, match="KeyError at line 2"):
        read_logs(path)
    single = json.loads(line)
    single["filtered_resps"] = single["filtered_resps"][:1]
    path.write_text(json.dumps(single) + "\n")
    with pytest.raises(EvidenceError, match="must be multiple choice or generation"):
        read_logs(path)
    with pytest.raises(ArgumentError, match="prediction must be"):
        read_lm_eval([path], prediction="best")  # type: ignore[arg-type]


def test_two_runs_of_one_model_are_refused(tmp_path: Path) -> None:
    for time_of_day in ("00", "01"):
        (tmp_path / f"samples_x_2026-01-01T{time_of_day}-00-00.jsonl").write_text(
            file("mini_gen").read_text()
        )
    with pytest.raises(EvidenceError, match="one file of each model and task"):
        read_logs(tmp_path / "samples_*.jsonl")


def test_ordinary_lines_are_still_a_table(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    path.write_text('{"item": 1, "system": "a", "answer": 0}\n')
    assert log_format(path) is None


@pytest.mark.full
@pytest.mark.timing
def test_ten_thousand_lines_are_read_quickly(tmp_path: Path) -> None:
    path = tmp_path / "samples_x.jsonl"
    line = lines(file("mini_mc"))[0]
    path.write_text("".join(json.dumps({**line, "doc_id": i}) + "\n" for i in range(10_000)))
    started = time.process_time()
    tables = read_logs(path)
    assert time.process_time() - started <= 1.5  # benchmarks/bench_logs.py: 100,000 lines in 5 s
    assert len(tables.answers["item"]) == 10_000
