"""A search that is killed goes on: the same archive, byte by byte, and no call that was kept is
paid again.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from noracle.errors import ArgumentError
from noracle.search.archive import SNAPSHOT
from noracle.search.journal import JOURNAL
from noracle.search.strategies import make_strategy
from tests.unit.search.searching import World, search

ROOT = Path(__file__).parents[3]


def kill(folder: Path, strategy: str, n: int) -> None:
    command = [sys.executable, "-m", "tests.unit.search.killing", str(folder), strategy, str(n)]
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    ended = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-2000:]
    found = [json.loads(line) for line in ended.stdout.splitlines()]
    assert len(found) == n
    assert sum(f["kills"] for f in found) >= 2 * n, "the kills must hit searches that run"
    for f in found:
        assert f["archive"], f
        assert f["journal"], f
        assert f["calls"], f
        assert f["repeated"] == 0, f


@pytest.mark.full
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and SIGKILL")
@pytest.mark.parametrize("strategy", [pytest.param("mutate", marks=pytest.mark.slow), "adas"])
def test_killed_at_random_points_it_ends_as_one_that_was_not(tmp_path: Path, strategy: str) -> None:
    """Four folders, each killed up to three times: ten kills or so with each strategy."""
    kill(tmp_path, strategy, 4)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and SIGKILL")
@pytest.mark.parametrize("strategy", ["mutate", "adas", "aflow", "halving"])
def test_killed_at_many_random_points_it_ends_as_one_that_was_not(
    tmp_path: Path, strategy: str
) -> None:
    kill(tmp_path, strategy, 10)


@pytest.mark.full
def test_every_prefix_of_the_journal_leads_to_the_same_end(tmp_path: Path) -> None:
    """As if killed after each event: what is cut off is worked out again, from stored calls alone."""
    world = World(40)
    search(world, tmp_path, strategy=make_strategy("mutate"), generations=2)
    journal, archive = (tmp_path / JOURNAL).read_bytes(), (tmp_path / SNAPSHOT).read_bytes()
    events = journal.splitlines(keepends=True)
    asked = len(world.requests)
    for k in range(1, len(events) + 1):
        (tmp_path / JOURNAL).write_bytes(b"".join(events[:k]))
        (tmp_path / SNAPSHOT).unlink()
        search(world, tmp_path, strategy=make_strategy("mutate"), generations=2)
        assert (tmp_path / JOURNAL).read_bytes() == journal
        assert (tmp_path / SNAPSHOT).read_bytes() == archive
    assert len(world.requests) == asked


def test_a_finished_search_is_read_again_without_a_call(tmp_path: Path) -> None:
    world = World(40)
    first = search(world, tmp_path, strategy=make_strategy("mutate"), generations=2)
    asked = len(world.requests)
    again = search(world, tmp_path, strategy=make_strategy("mutate"), generations=2)
    assert len(world.requests) == asked
    assert {**again.to_dict(), "ledger": {}} == {**first.to_dict(), "ledger": {}}


def test_other_labels_are_another_search(tmp_path: Path) -> None:
    world = World(40)
    search(world, tmp_path, strategy=make_strategy("mutate"), generations=1)
    world.ruled_out = (world.ruled_out + 1) % 4
    with pytest.raises(ArgumentError, match="another labels"):
        search(world, tmp_path, strategy=make_strategy("mutate"), generations=1)
