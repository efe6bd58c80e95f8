"""Twenty language models: some answer, the others judge by their own answers; one judge is broken."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import duckdb
import numpy as np
import pytest

from noracle import Preferences, prove_disagreement, range_dissenters

DATA = Path(os.environ.get("NORACLE_DATA", "")) / "mmlu_pro_predictions.parquet"
SYSTEMS = ("jamba-1.5-large", "Phi-3-mini-4k-instruct", "gemma-7b", "Yi-6B")
pytestmark = pytest.mark.skipif(
    "NORACLE_DATA" not in os.environ or not DATA.exists(), reason="needs mmlu_pro in NORACLE_DATA"
)


def judged(broken: str | None, *, seed: int) -> Preferences:
    """A judge prefers the answer that it would have given; the broken one prefers the other."""
    rng = np.random.default_rng(seed)
    with duckdb.connect() as connection:
        read = "select * from read_parquet(?) where n_options >= 3 order by item"
        table = connection.execute(read, [str(DATA)]).fetchnumpy()
    about = {"item", "category", "n_options", "answer", *SYSTEMS}
    judges = [name for name in table if name not in about]
    some = rng.choice(len(table["item"]), 3000, replace=False)
    answers = np.array([table[name][some] for name in SYSTEMS])
    pairs = np.array(list(itertools.combinations(range(len(SYSTEMS)), 2)))
    first, second = pairs[rng.integers(0, len(pairs), len(some))].T
    at, outcomes = np.arange(len(some)), []
    for name in judges:
        own = table[name][some]
        likes = [(answers[who, at] == own) & (own >= 0) for who in (first, second)]
        if name == broken:
            likes.reverse()
        said = np.where(likes[0] & ~likes[1], 0, np.where(likes[1] & ~likes[0], 1, 2))
        outcomes.append(said)
    n = len(judges)
    return Preferences(
        systems=SYSTEMS,
        first=np.tile(first, n),
        second=np.tile(second, n),
        outcome=np.concatenate(outcomes),
        item=np.tile(at, n),
        rater=np.repeat(np.arange(n), len(some)),
        raters=tuple(judges),
    )


@pytest.mark.full
@pytest.mark.parametrize(
    "broken", ["Meta-Llama-3_1-70B-Instruct", "Qwen1.5-110B", "Mixtral-8x7B-Instruct-v0.1"]
)
def test_the_broken_judge_is_named(broken: str) -> None:
    preferences = judged(broken, seed=4)
    proof = prove_disagreement(preferences, "agreement > 3/4", time_limit=120)
    assert proof.status == "alarm"
    assert proof.verify()
    found = range_dissenters(preferences, "agreement > 3/4", time_limit=120)
    assert found.diagnostics["suspects"] == [broken]
    assert found.notes[0] == f"if only one judge breaks the claim, it is {broken}"


def test_honest_judges_raise_no_alarm() -> None:
    proof = prove_disagreement(judged(None, seed=4), "agreement > 3/4", time_limit=120)
    assert proof.status == "consistent"
    assert proof.verify()
