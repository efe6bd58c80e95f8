"""``noracle search`` end to end: a script as the model, resume, caps, exit codes, the page, and the
pool without a model.
"""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
import referencing

from noracle import cli
from noracle.schemas import load_schema, schema_names
from noracle.search.workflow import load_workflow
from tests.unit.cli.conftest import Ended, Run

N, K = 60, 4
SECRET = "CANARY-text-of-an-item"


@pytest.fixture(autouse=True)
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Items, ruled-out labels, and a script: the second letter where the prompt says "step by
    step", else the first.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NORACLE_CACHE", str(tmp_path / "cache.sqlite"))
    rng = np.random.default_rng(5)
    truth = rng.integers(K, size=N)
    items = [
        {"item": i, "text": f"{SECRET} {i}", "options": [f"choice {i}.{k}" for k in range(K)]}
        for i in range(N)
    ]
    Path("items.jsonl").write_text(
        "".join(json.dumps(row) + "\n" for row in items), encoding="utf-8"
    )
    with Path("judgements.csv").open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["item", "class", "verdict"])
        rows.writerows([i, (int(truth[i]) + int(rng.integers(1, K))) % K, "no"] for i in range(N))
    # Letters are shuffled for each item, so a fixed letter is a random class.
    Path("model.json").write_text(
        json.dumps(
            {"rules": [{"match": "step by step", "reply": "ANSWER: B"}], "otherwise": "ANSWER: A"}
        ),
        encoding="utf-8",
    )
    np.save("truth.npy", truth)
    return tmp_path


def search(
    noracle: Run, *more: object, strategy: str = "mutate", model: str = "script:model.json"
) -> Ended:
    given = [
        "--items",
        "items.jsonl",
        "--judgements",
        "judgements.csv",
        "--model",
        model,
        "--strategy",
        strategy,
    ]
    return noracle(
        "search",
        *given,
        "--generations",
        3,
        "--budget",
        4000,
        "--baseline",
        "direct",
        "--baseline",
        "cot",
        *more,
    )


def assert_valid(value: dict[str, Any]) -> None:
    resources = [
        (load_schema(n)["$id"], referencing.Resource.from_contents(load_schema(n)))
        for n in schema_names()
    ]
    registry: referencing.Registry[Any] = referencing.Registry().with_resources(resources)
    jsonschema.Draft202012Validator(load_schema(value["schema"]), registry=registry).validate(value)


@pytest.mark.full
def test_a_search_prints_a_card_and_leaves_a_winner_that_can_be_loaded(noracle: Run) -> None:
    ended = search(noracle, "--html", "page.html")
    assert ended.code in (0, 3), ended.err
    assert ended.out.startswith("workflow '")
    for words in ("held-out accuracy", "shrinkage", "heuristic", "cost"):
        assert words in ended.out
    assert "30 validation, 12 confirm, 18 final" in ended.err
    assert "at most 4,000 calls" in ended.err
    load_workflow("noracle-search/winner.json")
    page = Path("page.html").read_text(encoding="utf-8")
    assert "Drawing of the winner" in page
    assert SECRET not in page
    assert "noracle search --items" in page


def test_json_is_one_valid_object_and_nothing_else_is_on_stdout(noracle: Run) -> None:
    ended = search(noracle, "--json")
    assert_valid(ended.json)
    assert ended.json["counts"] == {"validation": 30, "confirm": 12, "final": 18}


@pytest.mark.full
def test_the_same_command_again_makes_no_call(noracle: Run) -> None:
    first, again = search(noracle, "--json", "--no-cache"), search(noracle, "--json", "--no-cache")
    assert again.code == first.code
    assert again.json["held_out"] == first.json["held_out"]
    # What was paid before is counted from the store; nothing more was asked.
    assert again.json["ledger"]["calls"] == first.json["ledger"]["calls"]
    assert again.json["ledger"]["cached"] == 0


@pytest.mark.full
def test_another_search_in_the_same_folder_is_refused_with_what_differs(noracle: Run) -> None:
    search(noracle)
    ended = search(noracle, "--seed", 4)
    assert ended.code == 2
    assert re.search(r"another seed \('\d+' there, '4' here\), split in", ended.err)
    assert len(ended.err.splitlines()) == 2  # the projection and the error


@pytest.mark.thin(2)
@pytest.mark.parametrize("strategy", ["mutate", "halving"])
def test_strategies_without_a_designer_need_none_and_refuse_one(
    noracle: Run, strategy: str
) -> None:
    assert search(noracle, strategy=strategy).code in (0, 3)
    ended = search(noracle, "--designer", "script:model.json", strategy=strategy)
    assert ended.code == 2
    assert "--designer must go with" in ended.err


def test_a_designer_that_writes_nonsense_pauses_the_search_before_the_final_labels(
    noracle: Run,
) -> None:
    ended = search(noracle, "--json", strategy="adas")
    assert ended.code == 3, ended.err
    assert "3 proposals in a row" in ended.json["stopped"]
    assert ended.json["held_out"] is None
    assert "Name another designer" in ended.err
    assert ended.json["cost"]["design_calls"] > 0


def test_aflow_repeats_three_times(noracle: Run) -> None:
    ended = noracle(
        "search",
        "--items",
        "items.jsonl",
        "--judgements",
        "judgements.csv",
        "--model",
        "script:model.json",
        "--strategy",
        "aflow",
        "--budget",
        900,
        "--generations",
        0,
        "--json",
    )
    assert ended.json["cost"]["validation_calls"] == 3 * 30
    assert [e["workflow"]["name"] for e in ended.json["entries"]] == ["direct"]


def test_a_better_workflow_is_found_and_the_exit_code_is_0(noracle: Run, world: Path) -> None:
    """The script knows the truth where it is told to think step by step."""
    truth = np.load(world / "truth.npy")
    rules = [
        {
            "match": rf"(?s)(?=.*step by step)(?=.*{SECRET} {i}\n)(?=.*{letter}\) choice {i}\.{truth[i]}\n?)",
            "reply": f"ANSWER: {letter}",
        }
        for i in range(N)
        for letter in "ABCD"
    ]
    Path("model.json").write_text(
        json.dumps({"rules": rules, "otherwise": "ANSWER: A"}), encoding="utf-8"
    )
    judged = [{"item": i, "class": int(truth[i]), "verdict": "yes"} for i in range(N)]
    Path("yes.jsonl").write_text(
        "".join(json.dumps(row) + "\n" for row in judged), encoding="utf-8"
    )
    Path("step.json").write_text(
        json.dumps(
            {
                "schema": "workflow/1",
                "name": "step",
                "nodes": [
                    {"kind": "ask", "id": "a", "prompt": {"instruction": "Think step by step."}},
                    {"kind": "answer", "input": "a"},
                ],
            }
        ),
        encoding="utf-8",
    )
    ended = noracle(
        "search",
        "--items",
        "items.jsonl",
        "--judgements",
        "yes.jsonl",
        "--model",
        "script:model.json",
        "--budget",
        500,
        "--generations",
        0,
        "--baseline",
        "direct",
        "--workflow",
        "step.json",
        "--json",
    )
    assert ended.code == 0, ended.err
    assert ended.json["winner"]["name"] == "step"
    assert ended.json["held_out"]["value"] == 1
    assert ended.json["comparison"]["leaders"] == ["step"]


@pytest.mark.full
def test_labels_that_cannot_tell_give_exit_code_3(noracle: Run) -> None:
    codes = set()
    for seed in range(4):
        ended = search(noracle, "--json", "--seed", seed, "--out", f"run-{seed}")
        codes.add(ended.code)
        assert ended.code == (0 if ended.json["number"] == 0 else 3)
    assert 3 in codes


@pytest.mark.full
def test_a_cap_on_tokens_stops_with_exit_code_3_and_a_larger_one_goes_on(noracle: Run) -> None:
    stopped = search(noracle, "--max-tokens", 4000, "--json", "--no-cache")
    assert stopped.code == 3
    assert stopped.json["held_out"] is None
    assert "cap on tokens" in stopped.json["reason"]
    assert "goes on" in stopped.err
    ended = search(noracle, "--max-tokens", 10_000_000, "--json", "--no-cache")
    assert ended.json["held_out"] is not None
    whole = search(noracle, "--out", "whole", "--json", "--no-cache")
    assert ended.json["held_out"] == whole.json["held_out"]
    assert (
        Path("noracle-search/archive.json").read_bytes() == Path("whole/archive.json").read_bytes()
    )


def test_a_cap_below_the_first_baseline_says_so_with_exit_code_3(noracle: Run) -> None:
    ended = search(noracle, "--max-tokens", 50, "--no-cache")
    assert ended.code == 3
    assert "cap on tokens" in ended.err
    assert "goes on" in ended.err
    assert ended.out == ""


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--items", "items.jsonl"], "--judgements, --model, --budget must be given"),
        (
            [
                "--items",
                "items.jsonl",
                "--judgements",
                "judgements.csv",
                "--model",
                "script:model.json",
            ],
            "--budget must be given",
        ),
        (["--answers", "a.csv", "--model", "m"], "without --model"),
        (["--answers", "a.csv"], "--strategy halving"),
    ],
)
def test_what_is_missing_or_does_not_fit_is_said_in_one_line(
    noracle: Run, given: list[str], said: str
) -> None:
    ended = noracle("search", *given)
    assert ended.code == 2
    assert said in ended.err
    assert len(ended.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--shares", "0.5,0.5"], "shares must be three numbers"),
        (["--shares", "a,b,c"], "--shares must be three numbers"),
        (["--html", "nowhere/x.html"], "--html must lie in a folder"),
        (["--out", "items.jsonl"], "--out"),
        (["--workflow", "no-such"], "workflow must be"),
        (["--max-cost", "1"], "price"),
        (["--budget", "20"], "budget must allow the first baseline"),
    ],
)
def test_wrong_options_make_no_call(noracle: Run, more: list[str], said: str) -> None:
    ended = search(noracle, *more)
    assert ended.code == 2
    assert said in ended.err
    journal = Path("noracle-search/journal.jsonl")
    assert not journal.exists() or '"event":"entry"' not in journal.read_text(encoding="utf-8")


@pytest.mark.full
def test_ctrl_c_leaves_a_whole_folder_and_the_same_command_goes_on(
    noracle: Run, tmp_path: Path
) -> None:
    script = (
        "import asyncio, sys\n"
        "from noracle import cli\n"
        "from noracle.search.backends.scripted import ScriptedModel\n"
        "before = ScriptedModel.complete\n"
        "async def slow(self, request):\n"
        "    await asyncio.sleep(0.01)\n"
        "    return await before(self, request)\n"
        "ScriptedModel.complete = slow\n"
        "sys.exit(cli.run(sys.argv[1:]))\n"
    )
    given = [
        "search",
        "--items",
        "items.jsonl",
        "--judgements",
        "judgements.csv",
        "--model",
        "script:model.json",
        "--generations",
        "3",
        "--budget",
        "4000",
        "--baseline",
        "direct",
        "--baseline",
        "cot",
        "--no-cache",
        "--out",
        "stopped",
    ]
    source = str(Path(cli.__file__).parents[2])
    process = subprocess.Popen(
        [sys.executable, "-c", script, *given],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PYTHONPATH": source},
    )
    journal = tmp_path / "stopped" / "journal.jsonl"
    start = time.monotonic()
    while (
        not (journal.exists() and '"event":"entry"' in journal.read_text(encoding="utf-8"))
        and time.monotonic() - start < 60
    ):
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "the same command goes on" in err
    assert "Traceback" not in err
    search(noracle, "--no-cache", "--out", "stopped")
    search(noracle, "--no-cache", "--out", "whole")
    assert journal.read_bytes() == (tmp_path / "whole" / "journal.jsonl").read_bytes()


def test_the_help_names_every_part(noracle: Run) -> None:
    text = re.sub(r"\s+", " ", noracle("search", "--help-all").out)
    for words in ("--strategy", "--budget", "--designer", "--shares", "--answers", "Exit code 3"):
        assert words in text


# ----------------------------------------------------------------------------------------------------------------
# without a model


@pytest.fixture
def answers(world: Path) -> str:
    truth = np.load(world / "truth.npy")
    rng = np.random.default_rng(2)
    with Path("answers.csv").open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["item", "system", "answer"])
        for system, rate in (("good", 0.95), ("poor", 0.2), ("poorer", 0.1)):
            rows.writerows(
                [i, system, int(truth[i]) if rng.random() < rate else (int(truth[i]) + 1) % K]
                for i in range(N)
            )
    with Path("truth.csv").open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["item", "class", "verdict"])
        rows.writerows([i, int(truth[i]), "yes"] for i in range(N))
    return "answers.csv"


def test_the_best_of_systems_that_exist_is_found_with_fewer_labels(
    noracle: Run, answers: str
) -> None:
    ended = noracle(
        "search",
        "--answers",
        answers,
        "--judgements",
        "truth.csv",
        "--strategy",
        "halving",
        "--n-classes",
        K,
        "--html",
        "p.html",
    )
    assert ended.code == 0, ended.err
    assert "good" in ended.out.splitlines()[0]
    looked = int(re.search(r"([\d,]+) labels looked at of 60", ended.out)[1])  # type: ignore[index]
    assert looked < 60
    assert Path("p.html").exists()


def test_ruled_out_labels_that_cannot_tell_give_a_set_and_exit_code_3(
    noracle: Run, answers: str
) -> None:
    few = Path("judgements.csv").read_text(encoding="utf-8").splitlines()[:7]
    Path("few.csv").write_text("\n".join(few) + "\n", encoding="utf-8")
    ended = noracle(
        "search",
        "--answers",
        answers,
        "--judgements",
        "few.csv",
        "--strategy",
        "halving",
        "--n-classes",
        K,
        "--json",
    )
    assert ended.code == 3
    assert_valid(ended.json)
    assert len(ended.json["leaders"]) > 1
    assert "good" in ended.json["leaders"]


def test_an_exchange_of_a_candidate_can_be_seen(noracle: Run) -> None:
    search(noracle, "--no-cache")
    ended = noracle("search", "--show", 1, 3)
    assert ended.code == 0, ended.err
    # Item 3 may be in the confirm or final part, which this candidate need not have answered.
    assert SECRET + " 3" in ended.out
    assert noracle("search", "--show", 99, 3).code == 2
    assert noracle("search", "--show", 1, 3, "--out", "nowhere").code == 2
    assert noracle("view", "noracle-search", "--out", "page.html").code == 0
