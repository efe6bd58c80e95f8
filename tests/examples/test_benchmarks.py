"""The benchmarks say what they measure, and the widths hold."""

from __future__ import annotations

from pathlib import Path

import bench_accuracy
import bench_judge
import make_results
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
