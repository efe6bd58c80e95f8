"""The benchmarks say what they measure, and the widths hold."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import bench_accuracy
import bench_judge
import make_results
import numpy as np
import pytest


def test_exact_is_at_most_three_tenths_of_theorem_2() -> None:
    figures = bench_accuracy.width_complementary(50)
    assert figures["theorem2"] == pytest.approx(1.214, abs=5e-4)
    assert figures["exact"] == pytest.approx(0.342, abs=1e-3)
    assert figures["met"]


def test_exact_is_at_most_a_tenth_wider_than_wald() -> None:
    figures = bench_accuracy.width_mixed(20)
    assert figures["met"]
    assert 0.05 < figures["exact"] < 0.09


@pytest.mark.full
def test_exact_for_ten_thousand_labels_is_quick() -> None:
    assert bench_accuracy.exact_time(1)["met"]


@pytest.mark.full
def test_stream_takes_at_most_a_millisecond_a_label() -> None:
    assert (
        bench_accuracy.stream_time(2, labels=1000)["ms_per_label"] < 2.0
    )  # twice the claim: test machines are shared


def test_page_shows_the_latest_line_of_every_command() -> None:
    lines = [
        {"bench": "a", "claim": "quick", "seconds": 2.5, "met": False, "command": "x"},
        {"bench": "b", "claim": "small", "parts": {"p": 1200}, "met": True, "command": "y"},
        {"bench": "a", "claim": "quick", "seconds": 1.5, "met": True, "command": "x"},
    ]
    text = make_results.page(lines)
    assert text.count("## a") == 1
    assert "| seconds | 1.5 |" in text
    assert "2.5" not in text
    assert "| parts | p: 1,200 |" in text
    assert "**no**" not in text


def test_results_page_is_what_the_recorded_lines_say() -> None:
    folder = Path(make_results.__file__).parent
    if not (folder / "results.jsonl").exists():
        pytest.skip("benchmarks/results.jsonl has not been recorded")
    lines = make_results.read_lines(folder / "results.jsonl")
    assert (folder / "RESULTS.md").read_text(encoding="utf-8") == make_results.page(lines)


def test_single_trials_and_lines_cut_short_are_no_results(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_text(
        '{"bench": "a", "claim": "c", "command": "x"}\n{"bench": "learn-trial", "trial": {}}\n\n{"bench": "b',
        encoding="utf-8",
    )
    assert [line["bench"] for line in make_results.read_lines(path)] == ["a"]


@pytest.mark.full
def test_labels_and_robust_risks_cost_next_to_nothing() -> None:
    pytest.importorskip("torch", reason="the learn extra is not installed")
    import bench_learn

    assert bench_learn.label_time(2)["cpu_s"] < 0.05
    assert (
        bench_learn.risk_time(2, calls=20)["cpu_ms"] < 4
    )  # twice the claim: test machines are shared


@pytest.mark.slow
def test_other_models_as_judges_miss_no_more_than_promised(mmlu_pro_file: Path) -> None:
    figures = bench_judge.real_judges(20, 50)
    assert figures["redraws"] == 1000
    assert figures["met"], figures


@pytest.mark.full
@pytest.mark.parametrize("models", [3, 5, 7])
def test_panels_of_real_models_are_bounded(mmlu_pro_file: Path, models: int) -> None:
    figures = bench_judge.panel(models, 1000)
    assert figures["held"] >= 0.95
    assert figures["mean_above"] <= 0.025
    if models == 7:
        assert figures["effective_votes"] == pytest.approx(2.0, abs=0.2)
        assert figures["error_correlation"] == pytest.approx(0.41, abs=0.01)


@pytest.mark.slow
def test_ranks_of_real_models_cover_the_truth(mmlu_pro_file: Path) -> None:
    """Preferences made of the answers of the 20 models of MMLU-Pro, judged by another of them."""
    import bench_preferences

    figures = bench_preferences.real(60)
    assert figures["met"], figures
    assert figures["width"]["judge"] < figures["width"]["alone"] < 0.8


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["one ahead", "a ladder", "three good ones"])
def test_planned_pairs_need_at_most_seven_tenths_of_even_ones(shape: str) -> None:
    import bench_preferences

    runs = {
        planned: [
            bench_preferences.needed(shape, [25, w], planned=planned, judge=None, batch=240)
            for w in range(3)
        ]
        for planned in (False, True)
    }
    assert all(right for _, right in runs[True])
    assert sum(n for n, _ in runs[True]) <= 0.7 * sum(n for n, _ in runs[False])


BLOCKED = ("scipy", "sklearn", "duckdb", "narwhals", "typer", "rich", "jinja2", "matplotlib")


@pytest.mark.full
def test_studies_on_a_card_run_in_small_where_only_torch_is_installed(tmp_path: Path) -> None:
    """The command of the GPU machine with 400 images; then its journal is taken and answers chosen."""
    pytest.importorskip("torch", reason="the learn extra is not installed")
    folder = Path(os.environ.get("NORACLE_DATA", tmp_path))
    if not ((folder / "cifar10_train.npz").is_file() and (folder / "aclcifar10.npz").is_file()):
        pytest.skip("cifar10_train.npz and aclcifar10.npz are not in NORACLE_DATA")
    script = Path(make_results.__file__).parent / "bench_learn_gpu.py"
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({BLOCKED})); sys.argv[0] = {str(script)!r}\n"
    )
    code += f"import runpy; runpy.run_path({str(script)!r}, run_name='__main__')"
    journal, answers = tmp_path / "gpu.journal", tmp_path / "answers.npy"
    tiny = ["--tiny", "--journal", str(journal)]

    def run(*arguments: str) -> str:
        command = [sys.executable, "-c", code, *tiny, *arguments]
        environment = {**os.environ, "PYTHONPATH": str(script.parents[1] / "src")}
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, env=environment, timeout=300
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    parts = ("real-matrix", "real-recipe", "real-mask", "recipe-long", "recipe-e", "certificate")
    parts = (*parts, "real-seeds")
    named = [word for part in parts for word in ("--part", part)]
    run(*named, "--minutes", "0")
    recorded = journal.read_text("utf-8").splitlines()
    results = (script.parent / "results.jsonl").read_text("utf-8").splitlines()
    assert recorded == [line for line in results if json.loads(line)["bench"] == "learn-trial"]
    run(*named)
    new = [json.loads(line) for line in journal.read_text("utf-8").splitlines()[len(recorded) :]]
    cells = [(x["trial"]["algorithm"], x["trial"]["labels"], x["trial"]["seed"]) for x in new]
    assert cells == [
        *(("consistency-E", labels, 0) for labels in ("clcifar10", "acl-9", "acl")),
        ("consistency", "clcifar10", 0),
        *((name, "uniform", 0) for name in ("consistency", "consistency-E")),
        *((name, "acl-9", 0) for name in ("consistency-E", "consistency")),  # of 200 images
        *(("consistency-E", "clcifar10", seed) for seed in (1, 2)),
    ]
    assert all(file.name.startswith("views-") for file in tmp_path.glob("*.running/*"))
    said = run("--answers", str(answers))
    scel = {line.split(":")[0]: float(line.split()[-1]) for line in said.splitlines()[:2]}
    chosen = min(scel, key=lambda name: scel[name])
    assert f"answers of {chosen}: " in said
    kept = next(x for x in new if len(x.get("answers", ())) and x["trial"]["algorithm"] == chosen)
    assert np.load(answers).tolist() == kept["answers"]
    assert len(kept["answers"]) == 200


def test_trials_of_another_journal_are_taken_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import bench_learn_gpu

    trial = '{{"bench": "learn-trial", "trial": {{"seed": {}}}}}\n'
    ours, theirs = tmp_path / "results.jsonl", tmp_path / "gpu.journal"
    ours.write_text('{"bench": "a"}\n' + trial.format(0), "utf-8")
    theirs.write_text(trial.format(0) + trial.format(1) + '{"bench": "learn-trial", "tr', "utf-8")
    monkeypatch.setattr(bench_learn_gpu, "RESULTS", ours)
    bench_learn_gpu.main(["--take", str(theirs)])
    bench_learn_gpu.main(["--take", str(theirs)])
    assert ours.read_text("utf-8") == '{"bench": "a"}\n' + trial.format(0) + trial.format(1)
