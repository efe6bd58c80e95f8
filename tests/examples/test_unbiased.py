"""No bias on real answers; what targeted routing saves."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
import warnings
from pathlib import Path

import _data
import _routing
import numpy as np
import pytest
import unbiased

from noracle import Evidence, GuaranteeWarning, count_accuracy, estimate_accuracy, route_items

pytestmark = pytest.mark.full

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _wald_is_used_for_its_value() -> object:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GuaranteeWarning)
        yield


def test_script_runs_on_the_stand_in_and_says_so(no_data: None, tmp_path: Path) -> None:
    script = str(ROOT / "examples/papers/unbiased.py")
    command = [
        sys.executable,
        "-W",
        "error",
        script,
        "--repetitions",
        "40",
        "--routing-repetitions",
        "200",
        "--out",
        str(tmp_path),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr + done.stdout
    text = (tmp_path / "unbiased.md").read_text(encoding="utf-8")
    assert text.count("simulated stand-in") == 2
    assert "| often silent" in text


def test_fast_counts_of_targeted_questions_are_those_of_the_evidence() -> None:
    rng = np.random.default_rng(1)
    n, k = 800, 10
    key = rng.integers(k, size=n)
    given = np.where(rng.random(n) < 0.6, key, (key + 1 + rng.integers(k - 1, size=n)) % k)
    given[rng.random(n) < 0.2] = -1
    answers = {
        "item": list(range(n)),
        "system": ["s"] * n,
        "answer": [int(a) if a >= 0 else None for a in given],
    }
    routing = route_items(
        Evidence.from_tables(answers, n_classes=k),
        design="targeted",
        epsilon=_routing.EPSILON,
        seed=5,
    )
    judgements = routing.columns()
    judgements["verdict"] = [
        "yes" if key[i] == c else "no"
        for i, c in zip(judgements["item"], judgements["class"], strict=True)
    ]
    slow = estimate_accuracy(
        count_accuracy(Evidence.from_tables(answers, judgements, n_classes=k)),
        method="scores",
        interval="wald",
    )

    asked = dict(zip(judgements["item"], judgements["class"], strict=True))
    answered = [i for i in range(n) if given[i] >= 0]
    about = [i for i in answered if asked[i] == given[i]]
    right = sum(int(given[i] == key[i]) for i in about)
    chance = 1 - _routing.EPSILON + _routing.EPSILON / k
    tally = (right, len(about) - right, len(answered) - len(about))
    fast = estimate_accuracy(
        _routing.targeted_counts(k, n, n - len(answered), chance, tally),
        method="scores",
        interval="wald",
    )
    assert fast.value == pytest.approx(slow.value, abs=1e-12)
    assert fast.se == pytest.approx(slow.se, abs=1e-12)


def test_measured_gain_follows_the_formula_on_the_stand_in(no_data: None) -> None:
    answers = _data.ten_options(_data.mmlu_pro())
    gains = _routing.measure_gains(answers, labels=1000, repetitions=600, seed=0)
    for g, among in zip(gains, answers.among_answered.tolist(), strict=True):
        first, second = _routing.expected_gains(10, among)
        # A ratio of two variances over 600 runs has a relative error of about 8 %.
        assert g.over_complementary == pytest.approx(first, rel=0.35)
        assert g.over_one_query == pytest.approx(second, rel=0.35)


def test_gain_formula_at_one_half_by_hand() -> None:
    first, second = _routing.expected_gains(10, 0.5, epsilon=0.0)
    assert first == pytest.approx(8.5 * 0.5 / 0.25)
    assert second == pytest.approx(1 / (0.1 + 0.9 * 0.5 / 8.5))


def test_a_biased_estimate_is_noticed(no_data: None) -> None:
    answers = _data.ten_options(_data.mmlu_pro())
    fair = unbiased.measure_bias(answers, repetitions=30, seed=0)
    assert max(abs(b.z) for b in fair) <= 4
    # Items without an answer taken as not ruled out, as the paper prints it: the check must see it.
    answered_all = dataclasses.replace(
        answers, given=np.where(answers.given < 0, 99, answers.given)
    )
    wrong = unbiased.measure_bias(answered_all, repetitions=30, seed=0)
    assert wrong[-1].z > 10


def test_real_answers_are_estimated_without_bias_in_few_repetitions(mmlu_pro_file: Path) -> None:
    everything = _data.mmlu_pro()
    for answers in (_data.ten_options(everything), everything):
        rows = unbiased.measure_bias(answers, repetitions=30, seed=0)
        assert len(rows) == 20
        assert max(abs(b.z) for b in rows) <= 4


@pytest.mark.slow
def test_every_system_is_estimated_without_bias_from_2700_complementary_labels(
    mmlu_pro_file: Path,
) -> None:
    everything = _data.mmlu_pro()
    for answers in (_data.ten_options(everything), everything):
        rows = unbiased.measure_bias(answers, repetitions=400, seed=0, labels=2700)
        assert len(rows) == 20
        assert {b.system: round(b.z, 2) for b in rows if abs(b.z) > 4} == {}


@pytest.mark.slow
def test_targeted_routing_needs_8_times_fewer_labels_than_complementary_and_4_times_fewer_than_one_query(
    mmlu_pro_file: Path,
) -> None:
    answers = _data.ten_options(_data.mmlu_pro())
    gains = _routing.measure_gains(answers, labels=2700, repetitions=4000, seed=0)
    assert len(gains) == 20
    assert {
        g.system: round(g.over_complementary, 1) for g in gains if g.over_complementary < 8
    } == {}
    assert {g.system: round(g.over_one_query, 1) for g in gains if g.over_one_query < 4} == {}
