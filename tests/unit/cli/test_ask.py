"""``noracle ask`` end to end: against a real server, after kill -9, with caps, and with verdicts
that other verbs read.
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
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("httpx", reason="httpx is not installed")
pytest.importorskip("uvicorn", reason="uvicorn is not installed")

from noracle import cli
from noracle.cli._models import ModelOptions
from tests.service.openai_server import Act, OpenAIServer, slow, status
from tests.unit.cli.conftest import Run

CANARY = "sk-canary-0123456789abcdef"
SECRET = "CANARY-text-of-an-item"
N = 30


@pytest.fixture(autouse=True)
def private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NORACLE_CACHE", str(tmp_path / "cache"))
    for name in ("NORACLE_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def items(tmp_path: Path) -> str:
    rows = [
        {"item": i, "text": f"{SECRET} {i}.", "options": [f"choice {i}.{c}" for c in range(4)]}
        for i in range(N)
    ]
    (tmp_path / "items.jsonl").write_text(
        "".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8"
    )
    return "items.jsonl"


def reply(body: dict[str, Any]) -> str:
    """Class 0 for even items, class 1 for odd ones; a judge that says yes to class 0."""
    text = body["messages"][-1]["content"]
    item = int(re.search(rf"{SECRET} (\d+)\.", text)[1])  # type: ignore[index]
    if "under review" in text:
        return "ANSWER: yes" if re.search(r"under review: choice \d+\.0", text) else "ANSWER: no"
    return f"ANSWER: choice {item}.{item % 2}"


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer(reply) as running:
        yield running


def rows_of(path: str) -> list[dict[str, str]]:
    with Path(path).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def script(path: Path, **rules: str) -> str:
    """A scripted model: patterns and replies."""
    otherwise = rules.pop("otherwise", "ANSWER: A")
    data = {
        "name": path.stem,
        "rules": [{"match": k, "reply": v} for k, v in rules.items()],
        "otherwise": otherwise,
    }
    path.write_text(json.dumps(data), encoding="utf-8")
    return f"script:{path.name}"


def test_answers_of_a_real_server(
    noracle: Run, items: str, server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NORACLE_API_KEY", CANARY)
    server.plan.append(status(429, {"Retry-After": "0"}, message=f"slow down, {CANARY}"))
    ended = noracle(
        "ask",
        "--items",
        items,
        "--model",
        "m",
        "--base-url",
        server.url,
        "--out",
        "answers.csv",
        "--json",
    )
    assert ended.code == 0, ended.err
    assert "30 items to direct: at most 30 calls" in ended.err
    rows = rows_of("answers.csv")
    assert list(rows[0]) == [
        "item",
        "system",
        "answer",
        "state",
        "order",
        "calls",
        "input_tokens",
        "output_tokens",
    ]
    assert [(int(r["item"]), r["answer"], r["system"], r["state"]) for r in rows] == [
        (i, str(i % 2), "m", "answered") for i in range(N)
    ]
    assert all(sorted(r["order"].split()) == ["0", "1", "2", "3"] for r in rows)
    assert len({r["order"] for r in rows}) > 5
    report = ended.json
    assert report["states"] == {"answered": N, "invalid": 0, "refused": 0, "errored": 0}
    assert (report["ledger"]["calls"], report["ledger"]["retried"]) == (N, 1)
    assert report["ledger"]["input_tokens"] == sum(int(r["input_tokens"]) for r in rows) == 11 * N
    assert report["ledger"]["cost"] is None
    assert server.seen[0].headers["authorization"] == f"Bearer {CANARY}"
    left = [
        file
        for folder in ("answers.run", "cache")
        for file in Path(folder).rglob("*")
        if file.is_file()
    ]
    for file in [*left, Path("answers.csv")]:
        assert CANARY.encode() not in file.read_bytes()
        assert SECRET.encode() not in file.read_bytes()
    assert CANARY not in ended.out + ended.err


def test_a_second_start_pays_nothing_and_a_new_run_takes_the_cache(
    noracle: Run, items: str, server: OpenAIServer
) -> None:
    command = ["ask", "--items", items, "--model", "m", "--base-url", server.url]
    assert noracle(*command, "--out", "a.csv").code == 0
    first = Path("a.csv").read_bytes()
    ended = noracle(*command, "--out", "a.csv")
    assert "30 done before" in ended.err
    assert noracle(*command, "--out", "b.csv", "--json").json["ledger"]["cached"] == N
    assert Path("a.csv").read_bytes() == first == Path("b.csv").read_bytes()
    assert len(server.seen) == N
    assert noracle(*command, "--out", "c.csv", "--no-cache", "--limit", 3).code == 0
    assert len(server.seen) == N + 3
    assert "30 replies of m forgotten" in noracle("ask", "--purge-cache", "--model", "m").err
    assert noracle(*command, "--out", "d.csv", "--limit", 2).code == 0
    assert len(server.seen) == N + 5


def test_a_cap_stops_with_code_3_and_a_higher_one_goes_on(
    noracle: Run, items: str, server: OpenAIServer
) -> None:
    command = [
        "ask",
        "--items",
        items,
        "--model",
        "m",
        "--base-url",
        server.url,
        "--out",
        "a.csv",
        "--no-cache",
        "--concurrency",
        4,
    ]
    ended = noracle(*command, "--max-calls", 10)
    assert ended.code == 3
    assert "stops at the cap on calls" in ended.err
    assert "stopped: The cap on calls (10) is reached" in ended.err
    assert len(rows_of("a.csv")) == 10 == len(server.seen)
    assert noracle(*command, "--max-calls", 10).code == 3
    assert len(server.seen) == 10  # the cap is that of the run, also when it goes on
    assert noracle(*command, "--max-calls", 30).code == 0
    assert len(rows_of("a.csv")) == N == len(server.seen)


def test_money_is_counted_and_capped_where_prices_are_known(
    noracle: Run, items: str, server: OpenAIServer
) -> None:
    Path("prices.json").write_text(
        json.dumps({"m": {"input_per_million": 1_000_000, "output_per_million": 0}}),
        encoding="utf-8",
    )
    command = [
        "ask",
        "--items",
        items,
        "--model",
        "m",
        "--base-url",
        server.url,
        "--no-cache",
        "--concurrency",
        1,
        "--json",
    ]
    ended = noracle(*command, "--out", "a.csv", "--prices", "prices.json", "--max-cost", 100)
    assert ended.code == 3
    assert ended.json["ledger"]["cost"] == 110.0  # 11 a call: the tenth began below 100
    assert "about" in ended.err
    unknown = noracle(*command, "--out", "b.csv", "--max-cost", 1)
    assert unknown.code == 2
    assert "no price is known for 'm'" in unknown.err


def test_calls_without_a_reply_are_no_answers_and_are_asked_again(
    noracle: Run, items: str, server: OpenAIServer
) -> None:
    server.plan += [status(401)]
    command = [
        "ask",
        "--items",
        items,
        "--model",
        "m",
        "--base-url",
        server.url,
        "--out",
        "a.csv",
        "--concurrency",
        1,
        "--json",
    ]
    ended = noracle(*command)
    assert ended.code == 3
    assert "1 of 30 questions got no reply" in ended.json["stopped"]
    assert rows_of("a.csv") == []
    assert noracle(*command).json["states"] == {
        "answered": N,
        "invalid": 0,
        "refused": 0,
        "errored": 0,
    }


_CHILD = """
import sys
from noracle import cli
sys.exit(cli.run(sys.argv[1:]))
"""


def child(*arguments: object) -> subprocess.Popen[str]:
    root = Path(cli.__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    return subprocess.Popen(
        [sys.executable, "-c", _CHILD, *map(str, arguments)],
        env=environment,
        text=True,
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
    )


@pytest.mark.full
@pytest.mark.thin(2)
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_run_that_is_stopped_goes_on_and_pays_nothing_twice(
    noracle: Run, items: str, server: OpenAIServer, number: signal.Signals
) -> None:
    server.latency = 0.03
    command = [
        "ask",
        "--items",
        items,
        "--model",
        "m",
        "--base-url",
        server.url,
        "--no-cache",
        "--concurrency",
        2,
        "--workflow",
        "cot-sc",
    ]
    command += ["--limit", 12]
    for after in (12, 35):
        process = child(*command, "--out", "a.csv")
        deadline = time.monotonic() + 60
        while len(server.seen) < after and time.monotonic() < deadline:
            time.sleep(0.005)
        process.send_signal(number)
        said = process.communicate(timeout=60)[1]
        assert process.returncode == (-9 if number == signal.SIGKILL else 130), said
        assert not Path("a.csv").exists()
    ended = noracle(*command, "--out", "a.csv", "--json")
    assert ended.code == 0
    assert "done before" in ended.err
    digests = [json.dumps(seen.body, sort_keys=True) for seen in server.seen]
    twice = len(digests) - len(set(digests))
    assert twice <= (
        4 if number == signal.SIGKILL else 0
    )  # only calls in flight at a kill -9, two each time, may be lost
    assert ended.json["ledger"]["calls"] == 5 * 12
    server.latency = 0.0
    assert noracle(*command, "--out", "b.csv").code == 0
    assert Path("a.csv").read_bytes() == Path("b.csv").read_bytes()


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_the_table_is_evidence_in_every_format(
    noracle: Run, items: str, tmp_path: Path, suffix: str
) -> None:
    model = script(
        tmp_path / "toy.json", **{rf"{SECRET} 7\.": "I cannot answer this."}, otherwise="ANSWER: A"
    )
    out = f"answers.{suffix}"
    assert (
        noracle(
            "ask",
            "--items",
            items,
            "--model",
            model,
            "--out",
            out,
            "--no-shuffle",
            "--save-items",
            "table.jsonl",
        ).code
        == 0
    )
    with Path("judgements.csv").open("w", encoding="utf-8") as file:
        file.write(
            "item,class,verdict\n"
            + "".join(f"{i},{i % 3},{'yes' if i % 3 == 0 else 'no'}\n" for i in range(N))
        )
    ended = noracle(
        "estimate",
        "--answers",
        out,
        "--judgements",
        "judgements.csv",
        "--items",
        "table.jsonl",
        "--json",
        "--no-check",
        "--system",
        "toy",
    )
    assert ended.code == 0, ended.err
    assert ended.json["value"] is not None


@pytest.mark.full
def test_judges_are_read_by_alarm_plan_and_mean(
    noracle: Run, items: str, tmp_path: Path, server: OpenAIServer
) -> None:
    assert (
        noracle(
            "ask",
            "--items",
            items,
            "--model",
            "m",
            "--base-url",
            server.url,
            "--out",
            "answers.csv",
        ).code
        == 0
    )
    graders = {
        "kind": script(tmp_path / "kind.json", otherwise="ANSWER: yes"),
        "harsh": script(tmp_path / "harsh.json", otherwise="ANSWER: no"),
    }
    common = ["ask", "--judge", "--answers", "answers.csv", "--items", items]
    for name, model in graders.items():
        assert (
            noracle(
                *common,
                "--model",
                model,
                "--out",
                f"ratings-{name}.csv",
                "--scores",
                f"scores-{name}.csv",
            ).code
            == 0
        )
    fair = noracle(
        *common,
        "--model",
        "fair",
        "--base-url",
        server.url,
        "--out",
        "ratings-fair.csv",
        "--scores",
        "scores-fair.csv",
        "--json",
    )
    assert fair.json["labels"] == {
        "yes": N // 2,
        "no": N // 2,
        "uncertain": 0,
        "without an answer": 0,
    }
    assert list(rows_of("scores-fair.csv")[0]) == ["item", "rater", "value"]

    # Two judges that always disagree cannot both be right more than half the time on each label.
    alarm = noracle(
        "alarm",
        "--answers",
        "ratings-[hk]*.csv",
        "--n-classes",
        2,
        "--spec",
        "accuracy > 1/2",
        "--json",
    )
    assert alarm.code == 1, alarm.err
    twin = [
        "--model",
        "fair",
        "--base-url",
        server.url,
        "--system",
        "twin",
        "--seed",
        1,
        "--out",
        "ratings-fair-twin.csv",
    ]
    assert noracle(*common, *twin).code == 0
    calm = noracle(
        "alarm", "--answers", "ratings-fair*.csv", "--n-classes", 2, "--spec", "accuracy > 1/2"
    )
    assert calm.code == 0, calm.err

    # A human looked at some of the same answers; every third verdict of the judge is other than the
    # human's.
    with Path("scores-human.csv").open("w", encoding="utf-8") as file:
        file.write(
            "item,rater,value\n"
            + "".join(
                f"{i},human,{float(i % 2 == 0) if i % 3 else float(i % 2)}\n" for i in range(20)
            )
        )
    plan = noracle(
        "plan",
        "--pilot",
        "scores-[fh][au][im]*.csv",
        "--target",
        "human",
        "--cost",
        "human=1",
        "--cost",
        "fair=0.1",
        "--budget",
        50,
        "--json",
    )
    assert plan.code == 0, plan.err
    mean = noracle("mean", "--data", "scores-[fh][au][im]*.csv", "--target", "human", "--json")
    assert mean.code == 0, mean.err
    assert 0 <= mean.json["low"] <= mean.json["value"] <= mean.json["high"] <= 1
    same = noracle(
        "mean",
        "--data",
        "ratings-fair.csv",
        "--target",
        "fair",
        "--interval",
        "classical",
        "--json",
    )
    assert same.json["value"] == pytest.approx(0.5)  # the ratings hold the scores too


def test_judges_debate_and_think_for_as_long_as_they_are_let(
    noracle: Run, items: str, tmp_path: Path
) -> None:
    model = script(
        tmp_path / "toy.json", **{"under review": "ANSWER: uncertain"}, otherwise="ANSWER: B"
    )
    assert (
        noracle(
            "ask", "--items", items, "--model", model, "--out", "answers.csv", "--limit", 6
        ).code
        == 0
    )
    common = [
        "ask",
        "--judge",
        "--answers",
        "answers.csv",
        "--items",
        items,
        "--model",
        model,
        "--json",
    ]
    debate = noracle(*common, "--workflow", "judge-debate", "--out", "debate.csv").json
    assert debate["labels"]["uncertain"] == 0
    assert debate["system"] == "toy:judge-debate"
    assert (
        debate["ledger"]["calls"] == 6 * 8
    )  # three debaters, a pooler; once more, for it was uncertain
    forced = noracle(*common, "--workflow", "judge-forced", "--out", "forced.csv").json
    assert forced["labels"]["uncertain"] == 6
    assert forced["ledger"]["calls"] == 6 * 2


def test_presets_are_named(noracle: Run, tmp_path: Path) -> None:
    Path("medical_tc_test.csv").write_text(
        "condition_label,medical_abstract\n5,Pain of the back.\n1,A tumour.\n", encoding="utf-8"
    )
    model = script(
        tmp_path / "toy.json",
        tumour="ANSWER: Neoplasms",
        otherwise="ANSWER: General pathological conditions",
    )
    assert (
        noracle(
            "ask",
            "--items",
            "medical_tc_test.csv",
            "--preset",
            "medical-abstracts",
            "--model",
            model,
        ).code
        == 0
    )
    assert [(r["item"], r["answer"]) for r in rows_of("answers.csv")] == [("0", "4"), ("1", "0")]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "--items and --model must be given"),
        (["--items", "ITEMS"], "--model must be given"),
        (["--items", "none.csv", "--model", "script:toy.json"], "must name a file"),
        (["--items", "ITEMS", "--model", "script:none.json"], "script must be a file"),
        (["--items", "ITEMS", "--model", "script:toy.json", "--workflow", "none"], "workflow"),
        (
            ["--items", "ITEMS", "--model", "script:toy.json", "--preset", "none"],
            "preset must be one of",
        ),
        (["--items", "ITEMS", "--model", "script:toy.json", "--out", "a.xls"], "--out must end in"),
        (
            ["--items", "ITEMS", "--model", "script:toy.json", "--out", "none/a.csv"],
            "must lie in a folder that exists",
        ),
        (
            ["--items", "ITEMS", "--model", "script:toy.json", "--judge"],
            "--judge must come with --answers",
        ),
        (
            ["--items", "ITEMS", "--model", "script:toy.json", "--answers", "x.csv"],
            "--answers must go with --judge",
        ),
        (
            ["--items", "ITEMS", "--model", "script:toy.json", "--max-calls", "0"],
            "calls must be above 0",
        ),
        (
            ["--items", "ITEMS", "--model", "script:toy.json", "--prices", "none.json"],
            "prices must be a file",
        ),
        (["--items", "ITEMS", "--model", "m", "--base-url", "ftp://x"], "base_url"),
    ],
)
def test_wrong_use_is_one_line_and_code_2(
    noracle: Run, items: str, tmp_path: Path, arguments: list[str], said: str
) -> None:
    script(tmp_path / "toy.json")
    ended = noracle("ask", *(items if a == "ITEMS" else a for a in arguments))
    assert ended.code == 2
    assert said in ended.err
    assert len(ended.err.strip().splitlines()) == 1
    assert not ended.out


def test_what_was_there_is_not_overwritten_unasked(
    noracle: Run, items: str, tmp_path: Path
) -> None:
    Path("answers.csv").write_text("precious\n", encoding="utf-8")
    ended = noracle("ask", "--items", items, "--model", script(tmp_path / "toy.json"))
    assert ended.code == 2
    assert "--out must be given where answers.csv exists" in ended.err
    assert Path("answers.csv").read_text(encoding="utf-8") == "precious\n"


def test_help_needs_no_model_library(noracle: Run) -> None:
    ended = noracle("ask", "--help")
    assert ended.code == 0
    assert "NORACLE_API_KEY" in ended.out


def test_when_calls_have_no_reply_the_reason_is_said_and_the_exit_code_is_3(
    noracle: Run, items: str
) -> None:
    line = {
        "digest": "0" * 64,
        "model": "recorded",
        "text": "A",
        "finish": "stop",
        "input_tokens": 1,
        "output_tokens": 1,
    }
    Path("other.jsonl").write_text(json.dumps(line) + "\n", encoding="utf-8")
    ended = noracle("ask", "--items", items, "--model", "replay:other.jsonl", "--out", "a.csv")
    assert ended.code == 3
    assert "got no reply, the last because: This call to recorded is not in the" in ended.err
    assert "0 of 30 asked" in ended.out


@pytest.mark.parametrize(
    "act",
    [
        status(401),
        status(429, message="insufficient_quota"),
        status(429, {"Retry-After": "3600"}),
        status(400, message="Your credit balance is too low"),
    ],
    ids=["key", "quota", "wait", "credit"],
)
def test_a_key_or_a_quota_that_fails_is_tried_at_most_three_times(
    noracle: Run, items: str, server: OpenAIServer, act: Act
) -> None:
    server.plan += [act] * 100
    given = ["ask", "--items", items, "--model", "m", "--base-url", server.url, "--out", "a.csv"]
    begun = time.monotonic()
    ended = noracle(*given)
    assert ended.code == 3
    assert "got no reply" in ended.err
    assert time.monotonic() - begun < 5
    assert len(server.seen) <= 3
    server.plan.clear()
    assert noracle(*given, "--json").json["states"]["answered"] == N


@pytest.mark.parametrize("more", [(), ("--timeout", 60)])
def test_the_longest_time_holds_also_while_calls_are_out(
    noracle: Run, items: str, server: OpenAIServer, more: tuple[object, ...]
) -> None:
    server.plan += [slow(30)] * 20
    given = ["ask", "--items", items, "--model", "m", "--base-url", server.url, "--out", "a.csv"]
    begun = time.monotonic()
    ended = noracle(*given, "--max-seconds", 1, *more)
    assert time.monotonic() - begun < 6
    assert ended.code == 3
    assert "The cap on seconds (1) is reached" in ended.err


@pytest.mark.full
def test_a_try_takes_no_longer_than_its_time_and_tries_are_counted(
    noracle: Run, items: str, server: OpenAIServer
) -> None:
    server.plan += [slow(30)] * 20
    given = ["ask", "--items", items, "--model", "m", "--base-url", server.url, "--out", "a.csv"]
    begun = time.monotonic()
    how = ["--timeout", 0.5, "--retries", 1, "--concurrency", 1]
    ended = noracle(*given, *how, "--json")
    assert "no reply within 0.5 s" in ended.err
    assert (ended.json["ledger"]["failed"], ended.json["ledger"]["retried"]) == (3, 3)
    assert time.monotonic() - begun < 15


def test_without_a_terminal_there_are_lines_of_progress(
    noracle: Run, items: str, server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also while the server says nothing at all."""
    monkeypatch.setattr("noracle.cli._models.EVERY", 0.05)
    server.plan += [slow(0.5)] * 3  # no more are sent before the first reply
    server.plan += [slow(0.1)] * 15  # a line falls between the first reply and the last
    given = ["ask", "--items", items, "--model", "m", "--base-url", server.url]
    given += ["--no-cache", "--concurrency", 3]
    said = noracle(*given, "--out", "a.csv").err
    assert said.count("no reply yet") >= 2
    assert f"of {N}" in said
    server.plan += [slow(0.2)] * 3
    quiet = noracle("--quiet", *given, "--out", "b.csv").err
    assert "direct:" not in quiet
    assert "no reply" not in quiet


def test_the_question_before_the_first_call_goes_by_price_and_place() -> None:
    from noracle.search.backends import open_model
    from noracle.search.backends.scripted import ScriptedModel
    from noracle.search.budget import CallPrices

    here = open_model("m", base_url="http://127.0.0.1:1/v1")
    away = open_model("openai/gpt:free", base_url="https://example.com/v1")
    free, paid = CallPrices(0.0, 0.0), CallPrices(1.0, 1.0)
    asks = ModelOptions().asks_first
    assert asks(None, away)
    assert asks(None, here, away)
    assert asks(paid, here)
    assert not asks(None, here)
    assert not asks(None, ScriptedModel([]))
    assert not asks(free, away)
    assert not ModelOptions(yes=True).asks_first(paid, away)


def test_what_was_asked_and_said_can_be_seen_and_left_out(
    noracle: Run, items: str, server: OpenAIServer
) -> None:
    given = ["ask", "--items", items, "--model", "m", "--base-url", server.url, "--no-cache"]
    noracle(*given, "--out", "a.csv")
    item = rows_of("a.csv")[4]["item"]
    ended = noracle("ask", "--show", item, "--out", "a.csv")
    assert ended.code == 0
    assert ended.out.count("[reply]") == 1
    assert SECRET in ended.out
    assert noracle("ask", "--show", "nobody", "--out", "a.csv").code == 2
    assert noracle("view", "a.run").code == 0
    assert SECRET in Path("a.run/view.html").read_text(encoding="utf-8")
    noracle(*given, "--out", "b.csv", "--no-transcripts")
    assert not Path("b.run/transcript.jsonl.zst").exists()
    assert noracle("ask", "--show", item, "--out", "b.csv").code == 2
