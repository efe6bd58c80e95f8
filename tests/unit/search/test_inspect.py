"""Inside Inspect, after ``inspect score`` and on our command line: one number."""

from __future__ import annotations

import gc
import json
import math
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("inspect_ai", reason="needs the extra inspect")

from inspect_ai import Task, score
from inspect_ai import eval as evaluate
from inspect_ai.dataset import Sample
from inspect_ai.log import EvalLog, read_eval_log, write_eval_log
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import choice
from inspect_ai.solver import Generate, Solver, TaskState, chain, multiple_choice, solver
from typer.testing import CliRunner

from noracle.cli import app
from noracle.search.inspect import weak_accuracy, weak_choice, workflow

pytestmark = [  # what Inspect and its libraries leave behind
    pytest.mark.filterwarnings("ignore:The 'initial' parameter is deprecated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Unclosed <MemoryObject:ResourceWarning"),
]

LOGS = Path(__file__).parents[2] / "reference" / "logs"
K, N = 4, 40


@pytest.fixture(autouse=True)
def _collected() -> Iterator[None]:
    """Streams that Inspect does not close are collected here, where the warning about them is not
    an error.
    """
    yield
    gc.collect()


def output(text: str) -> ModelOutput:
    made = ModelOutput.from_content("mockllm/model", text)
    made.usage = ModelUsage(
        input_tokens=9, output_tokens=3, total_tokens=12
    )  # without usage Inspect reaches for the network
    return made


def samples(*, target: bool = True, labels: bool = True) -> list[Sample]:
    rng = np.random.default_rng(7)
    found = []
    for i in range(N):
        truth, shift = int(rng.integers(K)), int(rng.integers(1, K))
        known: dict[str, Any] = (
            {"label": truth} if i % 8 == 0 else {"ruled_out": "ABCD"[(truth + shift) % K]}
        )
        if i % 10 == 9:
            known = {}
        options = [f"option {i}.{k}" for k in range(K)]
        found.append(
            Sample(
                id=f"q{i}",
                input=f"Question {i}?",
                choices=options,
                target="ABCD"[truth] if target else "",
                metadata=known if labels else {},
            )
        )
    return found


def replies(seed: int = 0) -> list[ModelOutput]:
    rng = np.random.default_rng(seed)
    truth = [s.target for s in samples()]
    said = [t if rng.random() < 0.6 else "ABCD"[rng.integers(K)] for t in truth]
    return [
        output("I do not know." if i in (3, 17) else f"Let me think.\n\nANSWER: {letter}")
        for i, letter in enumerate(said)
    ]


def run(
    folder: Path,
    texts: Sequence[ModelOutput],
    *,
    epochs: int = 1,
    scorers: Any = None,
    data: Any = None,
    plan: Any = None,
    **more: Any,
) -> EvalLog:
    task = Task(
        dataset=data or samples(),
        solver=plan or multiple_choice(),
        scorer=[choice(), weak_choice()] if scorers is None else scorers,
        epochs=epochs,
        name="plain",
    )
    model = get_model("mockllm/model", custom_outputs=list(texts), memoize=False)
    (log,) = evaluate(task, model=model, log_dir=str(folder), display="none", max_samples=1, **more)
    assert log.status == "success", log.error
    return log


def metrics(log: EvalLog, name: str = "weak_choice") -> dict[str, float]:
    assert log.results is not None
    (found,) = [s for s in log.results.scores if s.name == name]
    return {key: float(m.value) for key, m in found.metrics.items()}


def command_line(path: str | Path, *more: str) -> dict[str, float]:
    done = CliRunner().invoke(app, ["estimate", "--answers", str(path), "--json", *more])
    assert done.exit_code == 0, done.output
    (found,) = json.loads(done.stdout)["results"]
    counts = found["counts"]
    se = math.nan if found["se"] is None else found["se"]
    return {
        "accuracy": found["value"],
        "low": found["low"],
        "high": found["high"],
        "stderr": se,
        "labelled": counts["labelled"],
        "without_answer": counts["without_answer"],
    }


def assert_same(a: dict[str, float], b: dict[str, float]) -> None:
    assert a.keys() == b.keys()
    for key, value in a.items():
        assert value == pytest.approx(b[key], rel=0, abs=1e-12, nan_ok=True), key


@pytest.mark.parametrize("epochs", [pytest.param(1, marks=pytest.mark.slow), 3])
def test_evaluation_scoring_and_command_line_agree(epochs: int, tmp_path: Path) -> None:
    texts = [text for e in range(epochs) for text in replies(e)]
    log = run(tmp_path / "in", texts, epochs=epochs)
    inside = metrics(log)
    assert 0 < inside["accuracy"] < 1
    assert inside["stderr"] > 0
    assert inside["labelled"] == 36
    assert_same(inside, command_line(log.location))
    # a log that has only Inspect's own scores, scored afterwards
    before = run(tmp_path / "before", texts, epochs=epochs, scorers=[choice()])
    assert_same(inside, command_line(before.location))
    after = score(read_eval_log(before.location), [weak_choice()], action="append", display="none")
    assert_same(inside, metrics(after))
    written = tmp_path / "after.json"
    write_eval_log(after, str(written))
    assert_same(inside, command_line(written))


def test_four_identical_epochs_change_nothing(tmp_path: Path) -> None:
    one = metrics(run(tmp_path / "one", replies()))
    log = run(tmp_path / "four", replies() * 4, epochs=4)
    four = metrics(log)
    assert abs(one["stderr"] - four["stderr"]) <= 1e-9
    assert_same(one, four)
    assert_same(four, command_line(log.location))


def test_scoring_again_loses_the_marks_of_inspects_choice_and_not_ours(tmp_path: Path) -> None:
    log = read_eval_log(str(LOGS / "inspect-new.eval"))
    assert metrics(log, "choice")["accuracy"] == 0.5
    again = score(log, [choice(), weak_choice()], action="overwrite", display="none")
    assert (
        metrics(again, "choice")["accuracy"] == 0.0
    )  # marks are not in a log: Inspect's own scorer finds nothing
    assert_same(metrics(again), command_line(LOGS / "inspect-new.eval"))
    assert metrics(again)["accuracy"] > 0.5


@pytest.mark.parametrize(
    "name",
    [
        "inspect-new-shuffled.eval",
        "inspect-new-epochs.eval",
        "inspect-min.eval",
        "inspect-new-no-target.eval",
    ],
)
@pytest.mark.parametrize("action", ["append", "overwrite"])
def test_logs_of_every_kind_score_as_the_command_line_reads_them(name: str, action: Any) -> None:
    again = score(read_eval_log(str(LOGS / name)), [weak_choice()], action=action, display="none")
    assert_same(metrics(again), command_line(LOGS / name))


def test_no_target_is_needed(tmp_path: Path) -> None:
    keyed = metrics(run(tmp_path / "keyed", replies()))
    bare = run(tmp_path / "bare", replies(), data=samples(target=False), scorers=[weak_choice()])
    assert_same(keyed, metrics(bare))
    assert_same(keyed, command_line(bare.location))


def test_judgements_may_come_from_a_file(tmp_path: Path) -> None:
    inside = metrics(run(tmp_path / "metadata", replies()))
    rows = ["item,class,verdict"]
    for sample in samples():
        known = sample.metadata or {}
        rows += [f"{sample.id},{'ABCD'[known['label']]},yes"] if "label" in known else []
        rows += [f"{sample.id},{known['ruled_out']},no"] if "ruled_out" in known else []
    table = tmp_path / "judgements.csv"
    table.write_text("\n".join(rows) + "\n")
    log = run(
        tmp_path / "file",
        replies(),
        data=samples(labels=False),
        scorers=[weak_choice(judgements=str(table))],
    )
    assert_same(inside, metrics(log))
    assert_same(inside, command_line(log.location, "--judgements", str(table)))


def test_label_that_names_no_option_stops_the_evaluation(tmp_path: Path) -> None:
    data = samples()
    data[0].metadata = {"ruled_out": "Z"}
    with pytest.raises(AssertionError, match="labels must name an option"):
        run(tmp_path, replies(), data=data, scorers=[weak_choice()])


def test_values_of_samples_are_their_scores(tmp_path: Path) -> None:
    log = run(tmp_path, replies())
    values = {s.id: (s.metadata, s.scores["weak_choice"]) for s in log.samples or [] if s.scores}
    for metadata, found in values.values():
        chosen = None if found.answer == "" else "ABCD".index(found.answer)
        if "label" in metadata:
            assert found.value == float(chosen == metadata["label"])
        elif "ruled_out" in metadata:
            expected = (
                0.0 if chosen is None else 1.0 - (K - 1) * ("ABCD"[chosen] == metadata["ruled_out"])
            )
            assert found.value == expected
        else:
            assert found.value == "unlabelled"


def test_samples_that_failed_reach_the_command_line_only(tmp_path: Path) -> None:
    @solver
    def faulty() -> Solver:
        async def solve(state: TaskState, generate: Generate) -> TaskState:
            if state.sample_id in ("q1", "q2"):
                raise RuntimeError("no such luck")
            return state

        return solve

    texts = [text for i, text in enumerate(replies()) if i not in (1, 2)]
    log = run(tmp_path, texts, plan=chain(faulty(), multiple_choice()), fail_on_error=False)
    inside, outside = metrics(log), command_line(log.location)
    assert inside["without_answer"] == 2
    assert outside["without_answer"] == 4
    assert outside["accuracy"] < inside["accuracy"]
    again = score(read_eval_log(log.location), [weak_choice()], action="overwrite", display="none")
    assert_same(metrics(again), outside)  # scoring again sees the failed samples


def test_metric_refuses_scores_of_another_scorer() -> None:
    from inspect_ai.scorer import SampleScore, Score

    with pytest.raises(Exception, match="must be the metric of the scorer noracle/weak_choice"):
        weak_accuracy()([SampleScore(score=Score(value="C"), sample_id=1)])  # type: ignore[call-arg, arg-type]


def test_metric_of_nothing_is_undefined() -> None:
    found = weak_accuracy()([])  # type: ignore[call-arg, arg-type]
    assert all(math.isnan(v) for v in found.values())  # type: ignore[union-attr]


@pytest.mark.parametrize(("name", "calls"), [("direct", 1), ("cot-sc", 5)])
def test_workflow_answers_any_task_with_choices(name: str, calls: int, tmp_path: Path) -> None:
    texts = [
        output(f"REASONING: so.\nANSWER: {'ABCD'[i % 4]}") for i in range(N) for _ in range(calls)
    ]
    log = run(tmp_path, texts, plan=workflow(name))
    given = {
        s.id: (s.scores["weak_choice"].answer, s.scores["choice"].answer)
        for s in log.samples or []
        if s.scores
    }
    assert given == {f"q{i}": ("ABCD"[i % 4],) * 2 for i in range(N)}
    assert log.stats.model_usage["mockllm/model"].output_tokens == 3 * calls * N
    assert_same(metrics(log), command_line(log.location))


def test_workflow_with_shuffled_options_gives_answers_in_the_order_of_the_dataset(
    tmp_path: Path,
) -> None:
    def look(messages: Any, tools: Any, tool_choice: Any, config: Any) -> ModelOutput:
        line = next(line for line in messages[-1].text.splitlines() if line.endswith(".2"))
        return output(f"ANSWER: {line[0]}")

    model = get_model("mockllm/model", custom_outputs=look, memoize=False)
    task = Task(
        dataset=samples(),
        solver=workflow("direct", seed=3, shuffle=True),
        scorer=weak_choice(),
        name="plain",
    )
    (log,) = evaluate(task, model=model, log_dir=str(tmp_path), display="none", max_samples=1)
    assert {s.scores["weak_choice"].answer for s in log.samples or [] if s.scores} == {"C"}


def test_a_workflow_refuses_what_it_cannot_pass_on(tmp_path: Path) -> None:
    from inspect_ai.solver import system_message

    plan = [system_message("You are a nurse."), workflow("direct")]
    task = Task(dataset=samples(), solver=plan, scorer=weak_choice(), name="plain")
    (log,) = evaluate(task, model="mockllm/model", log_dir=str(tmp_path), display="none")
    assert log.status == "error"
    assert "must be one message of text for a workflow" in str(log.error)


def test_workflow_may_be_a_file(tmp_path: Path) -> None:
    from noracle.search.workflow import load_workflow

    path = tmp_path / "mine.json"
    path.write_text(json.dumps(load_workflow("direct").to_dict()))
    log = run(tmp_path / "logs", [output("ANSWER: B")] * N, plan=workflow(str(path)))
    assert log.plan.steps[0].solver == "noracle/workflow"


def test_inspect_finds_the_scorer_by_its_name(tmp_path: Path) -> None:
    """Through the entry point, as ``pip install`` would write it."""
    info = tmp_path / "noracle_entry-0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: noracle-entry\nVersion: 0\n")
    project = (Path(__file__).parents[3] / "pyproject.toml").read_text()
    assert '[project.entry-points.inspect_ai]\nnoracle = "noracle.search.inspect"' in project
    (info / "entry_points.txt").write_text("[inspect_ai]\nnoracle = noracle.search.inspect\n")
    log = tmp_path / "log.eval"
    shutil.copy(LOGS / "inspect-new.eval", log)
    command = [
        str(Path(sys.executable).with_name("inspect")),
        "score",
        str(log),
        "--scorer",
        "noracle/weak_choice",
        "--action",
        "append",
        "--overwrite",
    ]
    source = str(Path(__file__).parents[3] / "src")
    env = {**os.environ, "PYTHONPATH": f"{source}{os.pathsep}{tmp_path}", "INSPECT_DISPLAY": "none"}
    done = subprocess.run(
        command, capture_output=True, text=True, env=env, cwd=tmp_path, check=False, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert_same(metrics(read_eval_log(str(log))), command_line(LOGS / "inspect-new.eval"))
    assert_same(metrics(read_eval_log(str(log))), command_line(log))
