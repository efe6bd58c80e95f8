"""The claim of the paper in a simulated world: the fast world is the slow one, the table is made,
and a search in it never sees the key.
"""

from __future__ import annotations

import numpy as np
import pytest
from _agents_paper import paper_benches, paper_search
from _claim_search import KINDS, N_ITEMS, N_TEST, Labels, field, search
from _simulated_fast import answers_of, vote
from _simulated_world import run_all, simulated_world
from claim import Gain, main

from noracle.search.workflow import BASELINES, load_workflow


@pytest.mark.full
@pytest.mark.parametrize("name", [*BASELINES, "direct", "review-ensemble"])
def test_fast_answers_follow_the_law_of_the_interpreter(name: str) -> None:
    world, workflow = simulated_world(8000, 5, skill=0.75, spread=1.8, seed=1), load_workflow(name)
    fast = answers_of(workflow, world, np.arange(8000))
    slow = run_all(workflow, world, items=range(1000))
    share = np.array([o.answer is None for o in slow]).mean()
    assert np.mean(fast == world.truth) == pytest.approx(world.accuracy(slow), abs=0.05)
    assert np.mean(fast < 0) == pytest.approx(share, abs=0.03)


def test_votes_go_to_the_most_frequent_class_and_ties_to_the_first() -> None:
    opinions = np.array([[2, 1, -1, 0], [1, 1, -1, -1], [1, 2, -1, 3], [2, -1, -1, -1]])
    assert vote(opinions, 4).tolist() == [2, 1, -1, 0]


def test_each_kind_of_label_is_unbiased_for_all_that_run() -> None:
    world = field(5, seeds=1, n_random=20, seed=900)
    answers = world.answers[:, N_TEST : N_TEST + N_ITEMS]
    key, run = world.world.truth[N_TEST : N_TEST + N_ITEMS], list(range(12))
    truth = (answers[run] == key).mean(axis=1)
    for kind in KINDS:
        means = []
        for seed in range(120):
            labels = Labels(kind, answers, key, 5, 120, seed)
            labels.ask(run, 120)
            means.append(labels.scores(run).mean(axis=1))
        error = np.std(means, axis=0) / np.sqrt(120) + 1e-9
        assert np.abs((np.mean(means, axis=0) - truth) / error).max() < 4.5, kind


def test_a_search_repeats_and_does_not_look_at_test_items() -> None:
    world = field(4, seeds=2, n_random=30, seed=901)
    first = [search(world, kind, seed=1) for kind in KINDS]
    world.world.truth[:N_TEST] = 0
    world.answers[:, :N_TEST] = 1
    assert [search(world, kind, seed=1) for kind in KINDS] == first


@pytest.mark.full
def test_targeted_questions_beat_the_best_baseline_and_ruled_out_classes() -> None:
    world = field(10, seeds=12, n_random=200, seed=902)
    accuracy = 100 * world.accuracy
    found = {
        kind: np.array([accuracy[search(world, kind, seed=s)] for s in range(12)])
        for kind in ("targeted", "ruled out")
    }
    gain = found["targeted"] - accuracy[: len(BASELINES)].max()
    assert gain.mean() > 2 * gain.std(ddof=1) / np.sqrt(12)
    assert found["targeted"].mean() > found["ruled out"].mean()


def test_the_error_of_a_gain_is_that_of_worlds() -> None:
    gain = Gain(np.array([[1.0, 1.0, 1.0], [3.0, 3.0, 3.0]]))
    assert (gain.mean, gain.se) == pytest.approx((2.0, 1.0))
    assert str(gain - gain) == "+0.0 ± 0.0"


@pytest.mark.full
def test_script_writes_the_table(tmp_path: object, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--quick", "--out", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "120 targeted questions" in said
    assert "**holds**" in said or "**is refuted here**" in said


@pytest.mark.full
@pytest.mark.parametrize("name", ["adas", "aflow"])
def test_raw_scores_can_differ_by_scale_in_the_way_of_the_paper(name: str) -> None:
    (bench,) = paper_benches(seeds=3, only=1)
    q, a = (
        [paper_search(bench, name, scale=scale, seed=s) for s in range(3)]  # type: ignore[arg-type]
        for scale in ("q", "A")
    )
    assert q == [paper_search(bench, name, scale="q", seed=s) for s in range(3)]  # type: ignore[arg-type]
    assert [f.winner for f in q] != [f.winner for f in a]
