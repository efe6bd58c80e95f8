"""Logs of Inspect that its own versions wrote: every record, and the same records from every
format.
"""

from __future__ import annotations

import ast
import gzip
import json
import shutil
import struct
import subprocess
import sys
import time
import zipfile
import zlib
from pathlib import Path
from typing import Any

import pytest
import zstandard

from noracle import Evidence, compare_systems, estimate_accuracy
from noracle.errors import EvidenceError
from noracle.evidence.logs import LogTables, labels_of, log_format, read_logs

LOGS = Path(__file__).parents[2] / "reference" / "logs"
ANSWERS = [1, 0, 2, None, 1, 0, 3, 0]
STATES = ["answered"] * 3 + ["invalid"] + ["answered"] * 4
CLASSES = [4, 4, 5, 4, 4, 4, 4, 3]


def unpacked(name: str, folder: Path) -> Path:
    """A log of the fixtures as a plain file."""
    target = folder / name
    if name.endswith(".json"):
        target.write_bytes(gzip.decompress((LOGS / f"{name}.gz").read_bytes()))
    else:
        shutil.copy(LOGS / name, target)
    return target


@pytest.mark.parametrize(
    "name", ["inspect-new.eval", "inspect-min.eval", "inspect-new.json", "inspect-min.json"]
)
def test_every_version_and_format_gives_the_same_records(name: str, tmp_path: Path) -> None:
    tables = read_logs(unpacked(name, tmp_path))
    assert tables.answers == {
        "item": list(range(1, 9)),
        "system": ["mockllm/model"] * 8,
        "answer": ANSWERS,
        "state": STATES,
    }
    assert tables.items == {"item": list(range(1, 9)), "n_classes": CLASSES}
    assert tables.judgements is not None
    found = list(
        zip(*(tables.judgements[c] for c in ("item", "class", "verdict", "rater")), strict=True)
    )
    assert found == [
        (1, 1, "yes", None),
        (2, 0, "no", None),
        (3, 1, "no", None),
        (4, 3, "no", None),
        (5, 0, "no", "ann"),
        (7, 0, "no", None),
        (7, 2, "no", None),
        (8, 0, "yes", None),
    ]


def test_fixtures_are_what_they_claim_to_be() -> None:
    methods = {
        name: {i.compress_type for i in zipfile.ZipFile(LOGS / name).infolist()}
        for name in ("inspect-new.eval", "inspect-min.eval")
    }
    assert methods == {"inspect-new.eval": {93}, "inspect-min.eval": {zipfile.ZIP_DEFLATED}}
    names = zipfile.ZipFile(LOGS / "inspect-new-interrupted.eval").namelist()
    assert "header.json" not in names
    assert "summaries.json" not in names


def test_shuffled_options_are_given_back_in_the_order_of_the_dataset() -> None:
    tables = read_logs(LOGS / "inspect-new-shuffled.eval")
    # the model said B A C - B A D A to shuffled options; Inspect's own scorer gave these letters of
    # the dataset
    inspect_says = {
        s["id"]: s["scores"]["choice"]["answer"]
        for s in summaries(LOGS / "inspect-new-shuffled.eval")
    }
    letters = {
        i: "" if a is None else "ABCDE"[a]
        for i, a in zip(tables.answers["item"], tables.answers["answer"], strict=True)
    }
    assert letters == inspect_says
    assert tables.answers["answer"] != ANSWERS


def summaries(path: Path) -> list[dict[str, Any]]:
    from noracle.evidence.logs import open_inspect

    return list(open_inspect(path).samples)  # type: ignore[arg-type]


def test_epochs_are_repeats_of_one_item() -> None:
    tables = read_logs(LOGS / "inspect-new-epochs.eval")
    rows = list(zip(*(tables.answers[c] for c in ("item", "repeat", "answer")), strict=True))
    assert len(rows) == len(set(rows)) == 12
    assert {r[:2] for r in rows} == {(i, e) for i in range(1, 5) for e in (1, 2, 3)}
    evidence = Evidence.from_tables(LOGS / "inspect-new-epochs.eval")
    assert evidence.rows("answers", "item", "answer") == [(1, 1), (2, 0), (3, 2), (4, None)]
    assert evidence.repeats is not None


def test_errored_samples_are_counted_not_lost() -> None:
    tables = read_logs(LOGS / "inspect-new-errored.eval")
    assert tables.answers["state"] == [
        "invalid",
        "refused",
        "errored",
        "invalid",
        "answered",
        "errored",
        "answered",
        "answered",
    ]
    estimate = estimate_accuracy(Evidence.from_tables(LOGS / "inspect-new-errored.eval"))
    assert estimate.counts["items"] == 8
    assert estimate.counts["states"] == {"errored": 2, "invalid": 2, "refused": 1}
    assert "5 without an answer: 2 errored, 2 invalid, 1 refused; counted as wrong" in " ".join(
        str(estimate).split()
    )


def test_interrupted_run_gives_the_samples_that_were_written_and_says_so() -> None:
    tables = read_logs(LOGS / "inspect-new-interrupted.eval")
    assert tables.answers["item"] == [1, 2, 3, 4, 5]
    assert tables.answers["answer"] == ANSWERS[:5]
    assert any("not finished (interrupted): 5 of 8 samples" in note for note in tables.notes)


def test_log_without_target_and_scorer_is_read_from_completions() -> None:
    tables = read_logs(LOGS / "inspect-new-no-target.eval")
    assert tables.answers["answer"] == ANSWERS
    assert tables.answers["state"] == STATES


def test_targets_are_never_read(tmp_path: Path) -> None:
    changed = json.loads(unpacked("inspect-new.json", tmp_path).read_text())
    for sample in changed["samples"]:
        sample["target"] = "A"
    other = tmp_path / "other.json"
    other.write_text(json.dumps(changed))
    assert read_logs(other) == read_logs(tmp_path / "inspect-new.json")


def test_own_judgements_replace_those_of_the_metadata_and_may_be_letters() -> None:
    judgements = {"item": [1, 2], "class": ["b", "D"], "verdict": ["yes", "no"]}
    evidence = Evidence.from_tables(LOGS / "inspect-new.eval", judgements)
    assert evidence.rows("judgements", "item", "class") == [(1, 1), (2, 3)]
    with pytest.raises(
        EvidenceError, match=r"whole numbers in answers.answer, text in judgements.class"
    ):
        Evidence.from_tables(LOGS / "inspect-new.eval", {**judgements, "class": ["b", "nine"]})


def test_several_logs_keep_runs_apart_and_leave_out_copies(tmp_path: Path) -> None:
    first, second = unpacked("inspect-new.eval", tmp_path), unpacked("inspect-min.eval", tmp_path)
    shutil.copy(first, tmp_path / "inspect-new-copy.eval")
    tables = read_logs(tmp_path / "*.eval")
    assert len(tables.answers["item"]) == 16
    assert len(set(tables.answers["system"])) == 2
    assert all(s.startswith("mockllm/model@20") for s in tables.answers["system"])
    assert any(
        "1 log of runs that were retried or copied left out" in note for note in tables.notes
    )
    assert second.exists()
    comparison = compare_systems(Evidence.from_tables(str(tmp_path / "*.eval")))
    assert comparison.differences[0].value == 0.0
    assert any("1 without an answer (1 invalid)" in note for note in comparison.notes)


def test_options_in_another_order_are_the_same_classes(tmp_path: Path) -> None:
    data = json.loads(unpacked("inspect-new.json", tmp_path).read_text())
    data["eval"] |= {"model": "other", "task_id": "other"}
    first = data["samples"][0]  # one two three five; the answer B is two, the label too
    first["choices"] = ["two", "five", "one", "three"]
    first["scores"]["choice"]["answer"] = "A"
    (tmp_path / "other.json").write_text(json.dumps(data))
    tables = read_logs(tmp_path / "*.json")
    chosen = {
        s: a
        for i, s, a in zip(*(tables.answers[c] for c in ("item", "system", "answer")), strict=True)
        if i == 1
    }
    assert chosen == {"mockllm/model": 1, "other": 1}
    assert tables.judgements is not None
    assert [
        k
        for i, k in zip(tables.judgements["item"], tables.judgements["class"], strict=True)
        if i == 1
    ] == [1]
    assert any("options in different orders (1 of the items)" in note for note in tables.notes)
    labelled = first["metadata"]  # by its text; a letter is not moved with the options
    (key,) = [k for k in ("label", "ruled_out") if k in labelled]
    first["metadata"] = {**labelled, key: "B"}
    (tmp_path / "other.json").write_text(json.dumps(data))
    with pytest.raises(EvidenceError, match="must name options by their text where choices are"):
        read_logs(tmp_path / "*.json")
    first["metadata"] = labelled
    first["choices"] = ["two", "five", "one", "six"]
    (tmp_path / "other.json").write_text(json.dumps(data))
    with pytest.raises(EvidenceError, match="options must be the same in all logs"):
        read_logs(tmp_path / "*.json")


def test_items_of_two_tasks_do_not_mix(tmp_path: Path) -> None:
    for name in ("one", "two"):
        data = json.loads(unpacked("inspect-new.json", tmp_path).read_text())
        data["eval"] |= {"task": name, "task_id": name, "eval_id": name}
        (tmp_path / f"{name}.json").write_text(json.dumps(data))
    (tmp_path / "inspect-new.json").unlink()
    tables = read_logs(tmp_path / "*.json")
    assert len(set(tables.answers["item"])) == 16
    assert {i.split("/")[0] for i in tables.answers["item"]} == {"one", "two"}
    assert set(tables.answers["system"]) == {"mockllm/model"}


def test_metadata_that_was_cut_from_the_summary_is_read_from_the_sample(tmp_path: Path) -> None:
    many = [{"class": "A", "verdict": "no", "rater": f"rater number {i:04}"} for i in range(60)]
    sample = {
        "id": "q",
        "epoch": 1,
        "choices": ["x", "y", "z"],
        "target": "",
        "scores": {"choice": {"value": "C", "answer": "B"}},
    }
    summary = {**sample, "metadata": {"judgement": "Key removed from summary (> 1k)"}}
    whole = {**sample, "metadata": {"judgement": many}, "output": {"completion": "ANSWER: B"}}
    tables = read_logs(archive(tmp_path / "cut.eval", [summary], [whole]))
    assert tables.judgements is not None
    assert len(tables.judgements["item"]) == 60


def archive(
    path: Path, summary: list[dict[str, Any]], samples: list[dict[str, Any]], *, frames: int = 1
) -> Path:
    """A log as Inspect lays it out, members zstd in several frames."""
    about = {
        "version": 2,
        "status": "success",
        "eval": {"task": "t", "task_id": "t", "model": "m", "created": "2026"},
    }
    members = {"header.json": about, "summaries.json": summary}
    members |= {f"samples/{s['id']}_epoch_{s['epoch']}.json": s for s in samples}  # type: ignore[dict-item]
    raw = bytearray()
    directory = bytearray()
    for name, value in members.items():
        text = json.dumps(value).encode()
        step = max(1, len(text) // frames + 1)
        packed = b"".join(zstandard.compress(text[i : i + step]) for i in range(0, len(text), step))
        crc, encoded = zlib.crc32(text), name.encode()
        offset = len(raw)
        raw += (
            struct.pack(
                "<4s5H3I2H",
                b"PK\3\4",
                63,
                0,
                93,
                0,
                33,
                crc,
                len(packed),
                len(text),
                len(encoded),
                0,
            )
            + encoded
            + packed
        )
        directory += (
            struct.pack(
                "<4s6H3I5H2I",
                b"PK\1\2",
                63,
                63,
                0,
                93,
                0,
                33,
                crc,
                len(packed),
                len(text),
                len(encoded),
                0,
                0,
                0,
                0,
                0,
                offset,
            )
            + encoded
        )
    end = struct.pack(
        "<4s4H2IH", b"PK\5\6", 0, 0, len(members), len(members), len(directory), len(raw), 0
    )
    path.write_bytes(bytes(raw + directory) + end)
    return path


def many_samples(n: int) -> list[dict[str, Any]]:
    return [
        {
            "id": i,
            "epoch": 1,
            "input": "A question of some length? " * 8,
            "choices": ["a", "b", "c", "d"],
            "completed": True,
            "metadata": {"ruled_out": "ABCD"[i % 4], "topic": "x"},
            "error": None,
            "scores": {
                "choice": {
                    "value": "C",
                    "answer": "ABCD"[(i * 7) % 4],
                    "explanation": "word " * 100,
                    "history": [],
                }
            },
        }
        for i in range(n)
    ]


@pytest.mark.full
@pytest.mark.timing
def test_a_thousand_samples_in_many_frames_take_at_most_a_fifth_of_a_second(tmp_path: Path) -> None:
    path = archive(tmp_path / "large.eval", many_samples(1000), [], frames=7)
    read_logs(path)
    started = time.process_time()
    tables = read_logs(path)
    assert time.process_time() - started <= 0.2
    assert len(tables.answers["item"]) == 1000


def test_reading_does_not_import_inspect() -> None:
    log = str(LOGS / "inspect-new.eval")
    code = f"import sys; from noracle import Evidence; Evidence.from_tables({log!r}); print('inspect_ai' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize("module", ["logs", "grade_logs", "replies"])
def test_readers_name_neither_tool_in_an_import(module: str) -> None:
    source = Path(__file__).parents[3] / "src" / "noracle" / "evidence" / f"{module}.py"
    imports = [
        n
        for n in ast.walk(ast.parse(source.read_text()))
        if isinstance(n, (ast.Import, ast.ImportFrom))
    ]
    names = [alias.name for n in imports for alias in n.names] + [
        str(n.module) for n in imports if isinstance(n, ast.ImportFrom)
    ]
    assert not any(name.split(".")[0] in {"inspect_ai", "lm_eval"} for name in names)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"PK\x03\x04 cut off", "must be a whole .eval file"),
        (b"", "must be a whole .eval file"),
    ],
)
def test_broken_archive_is_named_in_one_line(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "broken.eval"
    path.write_bytes(content)
    with pytest.raises(EvidenceError, match=message):
        Evidence.from_tables(path)


def test_missing_log_is_named(tmp_path: Path) -> None:
    with pytest.raises(EvidenceError, match="must name a log"):
        Evidence.from_tables(tmp_path / "none.eval")


def test_label_that_names_no_option_is_named_with_its_samples(tmp_path: Path) -> None:
    data = json.loads(unpacked("inspect-new.json", tmp_path).read_text())
    data["samples"][1]["metadata"]["ruled_out"] = "Z"
    path = tmp_path / "bad.json"
    path.write_text(json.dumps(data))
    with pytest.raises(
        EvidenceError,
        match="metadata must name an option of its sample; got something else in 'ruled_out' at item 2",
    ):
        Evidence.from_tables(path)
    assert read_logs(path, labels=False).judgements is None


def test_ordinary_json_is_still_a_table(tmp_path: Path) -> None:
    path = tmp_path / "answers.json"
    path.write_text('[{"item": 1, "system": "a", "answer": 0}]')
    assert log_format(path) is None
    assert log_format({"item": [1]}) is None
    assert Evidence.from_tables(path, n_classes=2).rows("answers") == [(1, "a", 0)]


def test_text_of_an_option_goes_before_its_letter_in_labels() -> None:
    labels, bad = labels_of({"ruled_out": "A"}, ["B", "A"])
    assert [label.kind for label in labels] == [1]
    assert not bad


def test_tables_are_plain_values() -> None:
    assert isinstance(read_logs(LOGS / "inspect-new.eval"), LogTables)
