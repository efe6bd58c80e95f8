"""Batches: weights from the past alone."""

from __future__ import annotations

import numpy as np
import pytest

from noracle.errors import EvidenceError
from noracle.ppi.covariance import Moments
from noracle.ppi.estimate import make_task
from noracle.ppi.intervals import MeanProblem, ScoreSample
from noracle.ppi.sequential import MeanStream, RunningMean, advance
from noracle.results import read_result


def batch(rng: np.random.Generator, labelled: int = 25, more: int = 140) -> np.ndarray:
    truth = rng.random(labelled + more) < 0.35
    judge = np.where(rng.random(labelled + more) < 0.85, truth, ~truth)
    human = np.where(np.arange(labelled + more) < labelled, truth, np.nan)
    return np.column_stack([human, judge])


def test_stream_narrows_and_round_trips() -> None:
    rng = np.random.default_rng(0)
    stream = MeanStream(make_task(["human", "judge"], "human"))
    widths = []
    for _ in range(12):
        stream.update(batch(rng))
        widths.append(stream.estimate().width)
    assert widths[-1] < 0.4 * widths[0]
    found = stream.estimate()
    assert found.low < 0.35 < found.high
    assert found.interval == "anytime"
    assert found.guarantee.anytime
    assert found.diagnostics["measurements"] == {"human+judge": 300, "judge": 1680}
    assert found.diagnostics["effective_labels"] > 330
    assert read_result(found.to_dict()) == found


def test_first_batch_is_classical_and_later_ones_ignore_their_own_covariance() -> None:
    rng = np.random.default_rng(1)
    stream = MeanStream(make_task(["human", "judge"], "human"))
    first = batch(rng)
    stream.update(first)
    assert stream.estimate().value == pytest.approx(np.nanmean(first[:, 0]))
    # The weight of a batch does not change when its labels do: only the past counts.
    problem = MeanProblem(target=np.array([1.0, 0.0]), design=np.eye(2))
    past = RunningMean(
        moments=Moments.of(rng.standard_normal((50, 2)), np.ones(50), (0, 1), np.zeros(2)),
        weight=np.ones(()),
        total=np.zeros(()),
        spread=np.ones(()),
        tuned=np.ones(()),
    )
    grown = []
    for sign in (1.0, -1.0):
        rows = np.column_stack([np.arange(10.0), sign * np.arange(10.0)])
        samples = [
            ScoreSample(columns=(0, 1), values=rows, counts=np.ones(10)),
            ScoreSample(columns=(1,), values=rows[:, 1:], counts=np.ones(10)),
        ]
        grown.append(float(advance(past, samples, problem).weight))
    assert grown[0] == pytest.approx(grown[1])


def test_rows_wait_for_a_label() -> None:
    rng = np.random.default_rng(2)
    stream = MeanStream(make_task(["human", "judge"], "human"))
    later = batch(rng, labelled=0, more=50)
    stream.update(later)
    with pytest.raises(EvidenceError, match="labels that vary"):
        stream.estimate()
    stream.update(batch(rng))
    assert stream.rows == {"human+judge": 25, "judge": 190}
    stream.update(later)
    assert any("50 rows wait" in note for note in stream.estimate().notes)


def test_labels_that_are_all_alike_wait_for_others() -> None:
    stream = MeanStream(make_task(["human", "judge"], "human"))
    stream.update(np.array([[1.0, 1.0], [1.0, 0.0], [1.0, 1.0]]))
    with pytest.raises(EvidenceError, match="labels that vary"):
        stream.estimate()
    stream.update(np.array([[0.0, 0.0], [1.0, 1.0]]))
    assert stream.estimate().value == pytest.approx(0.8)
    assert stream.estimate().width > 0.5
