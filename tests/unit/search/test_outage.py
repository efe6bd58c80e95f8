"""A server that goes down at any point of a search, for the model that answers or for the one that
designs: nothing is scored, and the same search goes on to the result that it would have had.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from noracle.search.archive import Found
from noracle.search.backends.scripted import ScriptedModel
from noracle.search.caller import Caller
from noracle.search.journal import JOURNAL
from noracle.search.model import BudgetReached, ModelError, Request
from noracle.search.strategies import Adas
from noracle.search.task import draws
from tests.unit.search.searching import World, one_call, search

BASELINES = [one_call("plain"), one_call("kind", "Answer, please.")]
GENERATIONS = 3


class Flaky:
    """A model that has no reply from its ``down``-th request on, until it is mended."""

    def __init__(self, reply: Any, down: int | None) -> None:
        self.reply, self.down, self.n = reply, down, 0

    def __call__(self, request: Request) -> Any:
        self.n += 1
        if self.down is not None and self.n > self.down:
            return ModelError("m: status 503: not now.")
        return self.reply(request)


def design(request: Request) -> str:
    """A new workflow each time, which follows from the request alone."""
    n = int(draws("design", request.digest("d")).integers(10**6))
    words = "Think step by step" if n % 2 else "Answer"
    workflow = one_call(f"try-{n}", f"{words}, case {n}.").to_dict()
    return json.dumps({"change": f"try {n}", "workflow": workflow})


def run(folder: Path, seed: int, worker: Flaky, designer: Flaky) -> Found | None:
    """One start of the search; None where it stopped before its first baseline was done."""
    world = World(40, seed=seed)
    try:
        return search(
            world,
            folder,
            strategy=Adas(task=world.task, generations=GENERATIONS),
            reply=worker,
            designer=Caller(ScriptedModel(designer)),
            generations=GENERATIONS,
            baselines=BASELINES,
            seed=seed,
        )
    except BudgetReached:
        return None


def without_outage(folder: Path, seed: int) -> tuple[Found, int, int]:
    """The search when nothing happens, and how many requests each model got."""
    worker, designer = Flaky(World(40, seed=seed).reply, None), Flaky(design, None)
    found = run(folder, seed, worker, designer)
    assert found is not None
    assert found.held_out is not None
    return found, worker.n, designer.n


def check(tmp_path: Path, seed: int, points: int) -> None:
    whole, n, m = without_outage(tmp_path / "whole", seed)
    journal = (tmp_path / "whole" / JOURNAL).read_bytes()
    for place, at in enumerate(np.linspace(0, n + m - 1, points).astype(int)):
        # The designer's requests are few, so they come first in this count.
        downs = (None, int(at)) if at < m else (int(at) - m, None)
        folder = tmp_path / str(place)
        worker = Flaky(World(40, seed=seed).reply, downs[0])
        designer = Flaky(design, downs[1])
        found = run(folder, seed, worker, designer)
        assert found is None or found.held_out is None, at
        assert found is None or not found.decided
        written = (folder / JOURNAL).read_bytes()
        assert journal.startswith(written)
        assert b'"event":"end"' not in written
        worker.down = designer.down = None
        again = run(folder, seed, worker, designer)
        assert again is not None
        assert again.held_out == whole.held_out, at
        assert again.comparison == whole.comparison
        assert (folder / JOURNAL).read_bytes() == journal


@pytest.mark.full
@pytest.mark.parametrize("seed", [0])
def test_an_outage_at_any_point_is_never_scored(tmp_path: Path, seed: int) -> None:
    check(tmp_path, seed, 8)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_an_outage_at_forty_points_is_never_scored(tmp_path: Path, seed: int) -> None:
    check(tmp_path, seed, 40)
