"""The live view reads the same numbers from both databases."""

from __future__ import annotations

import numpy as np
import pytest

from noracle.collect.live import live_view, view_of
from noracle.collect.live.simulation import (
    Faults,
    LabelWorld,
    Simulated,
    simulate_partitioned,
    simulate_shown,
)
from noracle.collect.store.base import Store
from tests.unit.collect.live_tables import keep_simulated

pytestmark = pytest.mark.full


def partitioned() -> Simulated:
    faults = Faults(unsure=(0.1, 0.3, 0.02), speeds=(1.0, 0.6, 0.3, 0.1))
    return simulate_partitioned(
        np.random.default_rng(5),
        n_items=400,
        world=LabelWorld(n_classes=4, accuracy=0.7),
        faults=faults,
        panel_items=8,
    )


MADE = {
    "partitioned": partitioned,
    "judge-all": lambda: simulate_shown(
        np.random.default_rng(6), protocol="judge-all", n_items=100, draws=2
    ),
    "pick-wrong": lambda: simulate_shown(
        np.random.default_rng(7), protocol="pick-wrong", n_items=100, draws=2
    ),
}


@pytest.mark.parametrize("protocol", list(MADE))
def test_the_view_of_the_tables_is_that_of_the_arrays(store: Store, protocol: str) -> None:
    made = MADE[protocol]()
    keep_simulated(store, made.project)  # another project beside it changes nothing
    project = keep_simulated(store, made.project)
    kept, direct = (
        store.read_now(lambda work: live_view(work, project, now=1e9)),
        view_of(made.project, now=1e9),
    )
    assert kept.systems == direct.systems
    assert [c.to_dict() for c in kept.checks] == [c.to_dict() for c in direct.checks]
    assert kept.answered == direct.answered
