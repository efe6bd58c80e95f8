"""Writes the log files of this folder with the tools themselves.

    python write_fixtures.py inspect PREFIX     with the inspect_ai that is installed: PREFIX.eval, PREFIX.json, …
    python write_fixtures.py judged             with the inspect_ai that is installed: answers in free text that a model grades
    python write_fixtures.py lm-eval            with the lm-eval that is installed

No network: the models are ``mockllm`` (every output carries ``usage``, without it Inspect downloads
a tokenizer) and ``dummy``.
"""

from __future__ import annotations

import gzip
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent

# question, options, what the model says, target, metadata
ROWS: list[tuple[str, list[str], str, str, dict[str, Any]]] = [
    ("Which is even?", ["one", "two", "three", "five"], "ANSWER: B", "B", {"label": "two"}),
    ("Which is odd?", ["two", "four", "six", "nine"], "ANSWER: A", "D", {"ruled_out": "A"}),
    (
        "Which is a square?",
        ["2", "3", "4", "5", "6"],
        "I think.\n\nANSWER: C",
        "C",
        {"ruled_out": "B"},
    ),
    ("Which is prime?", ["4", "6", "7", "8"], "It may be several.", "C", {"ruled_out": "D"}),
    (
        "Which is a cube?",
        ["8", "9", "10", "11"],
        "ANSWER: B",
        "A",
        {"judgement": {"class": "A", "verdict": "no", "rater": "ann"}},
    ),
    ("Which is a colour?", ["red", "dog", "run", "of"], "ANSWER: A", "A", {}),
    ("Which is a verb?", ["sun", "go", "sea", "oak"], "ANSWER: D", "B", {"ruled_out": ["A", "C"]}),
    ("Which is a tree?", ["oak", "cat", "sky"], "ANSWER: A", "A", {"label": "A"}),
]


def samples(*, target: bool = True) -> list[Any]:
    from inspect_ai.dataset import Sample

    return [
        Sample(
            id=i + 1,
            input=q,
            choices=c,
            target=t if target else "",
            metadata={"topic": "plain", **m},
        )
        for i, (q, c, _, t, m) in enumerate(ROWS)
    ]


def output(text: str, stop: str = "stop") -> Any:
    from inspect_ai.model import ModelOutput, ModelUsage

    made = ModelOutput.from_content("mockllm/model", text, stop_reason=stop)  # type: ignore[arg-type]
    made.usage = ModelUsage(input_tokens=20, output_tokens=5, total_tokens=25)
    return made


def run(
    name: str,
    texts: list[Any],
    *,
    task: str = "plain",
    target: bool = True,
    form: str = "eval",
    epochs: int = 1,
    **more: Any,
) -> None:
    """One evaluation, one log file of this name."""
    from inspect_ai import Task
    from inspect_ai import eval as evaluate
    from inspect_ai.model import get_model
    from inspect_ai.scorer import choice
    from inspect_ai.solver import multiple_choice

    shuffle = more.pop("shuffle", None)
    solver = more.pop("solver", None) or (
        multiple_choice(shuffle=shuffle) if shuffle else multiple_choice()
    )
    with tempfile.TemporaryDirectory() as folder:
        model = get_model("mockllm/model", custom_outputs=texts)
        made = Task(
            dataset=samples(target=target),
            solver=solver,
            scorer=choice() if target else None,
            name=task,
            epochs=epochs,
        )
        evaluate(
            made,
            model=model,
            log_dir=folder,
            log_format=form,
            display="none",
            max_samples=1,
            log_buffer=2,
            **more,
        )
        (log,) = Path(folder).glob(f"*.{form}")
        if form == "json":  # large: kept compressed, the tests unpack it
            (HERE / f"{name}.json.gz").write_bytes(gzip.compress(log.read_bytes(), mtime=0))
        else:
            shutil.move(log, HERE / f"{name}.{form}")


def plain() -> list[Any]:
    return [output(row[2]) for row in ROWS]


def solver_with_errors() -> Any:
    from inspect_ai.solver import Generate, TaskState, chain, multiple_choice, solver

    @solver
    def faulty() -> Any:
        async def solve(state: TaskState, generate: Generate) -> TaskState:
            if state.sample_id in (3, 6):
                raise RuntimeError("no such luck")
            return state

        return solve

    return chain(faulty(), multiple_choice())


def write_inspect(prefix: str) -> None:
    run(prefix, plain())
    run(prefix, plain(), form="json")
    if prefix != "inspect-new":
        return
    from random import Random

    letters = "BADC"
    run(f"{prefix}-shuffled", plain(), shuffle=Random(3))
    rounds = [
        output(row[2] if e == 0 else f"ANSWER: {letters[(i + e) % 3]}")
        for e in range(3)
        for i, row in enumerate(ROWS[:4])
    ]
    run(f"{prefix}-epochs", rounds, epochs=3, limit=4)
    spoken = [output(row[2]) for i, row in enumerate(ROWS) if i not in (2, 5)]
    spoken[0], spoken[1] = output("", "stop"), output("I cannot help with that.", "content_filter")
    run(f"{prefix}-errored", spoken, solver=solver_with_errors(), fail_on_error=False)
    run(f"{prefix}-no-target", plain(), target=False)
    interrupted(prefix)


def interrupted(prefix: str) -> None:
    """A run that is killed while its sixth sample is asked."""
    folder = Path(tempfile.mkdtemp())
    subprocess.run([sys.executable, __file__, "killed", str(folder)], check=False)
    (log,) = folder.glob("*.eval")
    shutil.move(log, HERE / f"{prefix}-interrupted.eval")
    shutil.rmtree(folder)


def run_and_die(folder: str) -> None:
    from inspect_ai import Task
    from inspect_ai import eval as evaluate
    from inspect_ai.model import get_model
    from inspect_ai.scorer import choice
    from inspect_ai.solver import Generate, TaskState, chain, multiple_choice, solver

    @solver
    def deadly() -> Any:
        async def solve(state: TaskState, generate: Generate) -> TaskState:
            if state.sample_id == 6:
                import asyncio

                await asyncio.sleep(3)  # the buffer is flushed meanwhile
                os.kill(os.getpid(), signal.SIGKILL)
            return state

        return solve

    task = Task(
        dataset=samples(), solver=chain(deadly(), multiple_choice()), scorer=choice(), name="plain"
    )
    model = get_model("mockllm/model", custom_outputs=plain())
    evaluate(
        task,
        model=model,
        log_dir=folder,
        log_format="eval",
        display="none",
        max_samples=1,
        log_buffer=1,
    )


def write_judged() -> None:
    """Five answers in free text; a model grades them (one grade cannot be read), a second scorer
    looks for the target.
    """
    from inspect_ai import Task
    from inspect_ai import eval as evaluate
    from inspect_ai.dataset import Sample
    from inspect_ai.model import get_model
    from inspect_ai.scorer import includes, model_graded_qa
    from inspect_ai.solver import generate

    said = ["Paris", "Lyon", "It is Bern.", "Oslo, I think", "Rome"]
    grades = ["GRADE: C", "GRADE: I", "It is right.\n\nGRADE: C", "I cannot say.", "GRADE: I"]
    targets = ["Paris", "Marseille", "Bern", "Oslo", "Vienna"]
    data = [
        Sample(id=f"q{i}", input=f"Question {i}?", target=t) for i, t in enumerate(targets, start=1)
    ]
    judge = get_model("mockllm/judge", custom_outputs=[output(text) for text in grades])
    task = Task(
        dataset=data,
        solver=generate(),
        scorer=[model_graded_qa(model=judge), includes()],
        name="free",
    )
    with tempfile.TemporaryDirectory() as folder:
        model = get_model("mockllm/model", custom_outputs=[output(text) for text in said])
        evaluate(
            task, model=model, log_dir=folder, log_format="eval", display="none", max_samples=1
        )
        (log,) = Path(folder).glob("*.eval")
        shutil.move(log, HERE / "inspect-new-judged.eval")


# ----------------------------------------------------------------------------------------------------------------
# lm-eval

MC = """task: mini_mc
dataset_path: json
dataset_kwargs: {data_files: {test: DATA}}
test_split: test
output_type: multiple_choice
doc_to_text: "Question: {{question}}\\nAnswer:"
doc_to_choice: "{{choices}}"
doc_to_target: "{{gold}}"
metric_list: [{metric: acc}, {metric: acc_norm}]
"""
GEN = """task: TASK
dataset_path: json
dataset_kwargs: {data_files: {test: DATA}}
test_split: test
output_type: generate_until
doc_to_text: "Question: {{question}}\\nAnswer:"
doc_to_target: "{{letter}}"
generation_kwargs: {until: ["\\n"]}
metric_list: [{metric: exact_match}]
FILTERS"""
FILTERS = """filter_list:
  - name: strict
    filter: [{function: regex, regex_pattern: "the answer is ([A-E])"}, {function: take_first}]
  - name: flexible
    filter: [{function: regex, regex_pattern: "([A-E])", group_select: -1}, {function: take_first}]
"""


def write_lm_eval() -> None:
    folder = Path(tempfile.mkdtemp())
    docs = [
        {"question": q, "choices": c, "gold": "ABCDE".index(t), "letter": t}
        for q, c, _, t, _ in ROWS
    ]
    (folder / "docs.jsonl").write_text(
        "".join(json.dumps(d) + "\n" for d in docs), encoding="utf-8"
    )
    data = str(folder / "docs.jsonl")
    (folder / "mini_mc.yaml").write_text(MC.replace("DATA", data), encoding="utf-8")
    for task, filters in (("mini_gen", ""), ("mini_two", FILTERS)):
        (folder / f"{task}.yaml").write_text(
            GEN.replace("DATA", data).replace("TASK", task).replace("FILTERS", filters),
            encoding="utf-8",
        )
    env = {
        **os.environ,
        "HF_HUB_OFFLINE": "1",
        "HF_DATASETS_OFFLINE": "1",
        "HF_HOME": str(folder / "hf"),
    }
    # the model "dummy" speaks at random; here it says what the rows say, through the same files and
    # the same harness
    script = folder / "talk.py"
    script.write_text(TALK, encoding="utf-8")
    (folder / "said.json").write_text(
        json.dumps({q: s for q, _, s, _, _ in ROWS}), encoding="utf-8"
    )
    command = [sys.executable, str(script), str(folder)]
    subprocess.run(command, check=True, env=env, cwd=folder)
    for log in sorted(folder.glob("out/*/samples_*.jsonl")):
        shutil.copy(log, HERE / "lm-eval" / "dummy" / log.name)
    shutil.rmtree(folder)


TALK = """
import json, sys
from lm_eval import simple_evaluate
from lm_eval.loggers import EvaluationTracker
from lm_eval.models.dummy import DummyLM
from lm_eval.tasks import TaskManager

folder = sys.argv[1]
said = json.load(open(f"{folder}/said.json"))


class Talker(DummyLM):
    def generate_until(self, requests, disable_tqdm=False):
        found = []
        for request in requests:
            text = next(s for q, s in said.items() if q in request.args[0]).replace("\\n", " ").replace("ANSWER:", "the answer is")
            found.append(text)
        return found


tracker = EvaluationTracker(output_path=f"{folder}/out")
results = simple_evaluate(
    model=Talker(), tasks=["mini_mc", "mini_gen", "mini_two"], task_manager=TaskManager(include_path=folder), log_samples=True,
    evaluation_tracker=tracker, bootstrap_iters=0,
)
samples = results.pop("samples")
tracker.save_results_aggregated(results=results, samples=samples)
for task in results["configs"]:
    tracker.save_results_samples(task_name=task, samples=samples[task])
"""

if __name__ == "__main__":
    if sys.argv[1] == "inspect":
        write_inspect(sys.argv[2])
    elif sys.argv[1] == "judged":
        write_judged()
    elif sys.argv[1] == "killed":
        run_and_die(sys.argv[2])
    else:
        (HERE / "lm-eval" / "dummy").mkdir(parents=True, exist_ok=True)
        write_lm_eval()
