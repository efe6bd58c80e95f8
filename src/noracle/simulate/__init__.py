"""What a user would have and the key that a user would not: for tests, documentation, benchmarks,
demos and planning by trial.
"""

from noracle._lazy import missing
from noracle.simulate.annotators import (
    RaterModel,
    fit_raters,
    simulate_detector,
    simulate_raters,
    simulate_systems,
)
from noracle.simulate.rehearsal import Rehearsal, rehearse
from noracle.simulate.tasks import PictureItem, PictureTask, simulate_task
from noracle.simulate.worlds import World, simulate_world

__all__ = [
    "RaterModel",
    "Rehearsal",
    "PictureTask",
    "PictureItem",
    "World",
    "fit_raters",
    "rehearse",
    "simulate_detector",
    "simulate_raters",
    "simulate_systems",
    "simulate_task",
    "simulate_world",
]


def __getattr__(name: str) -> object:
    raise missing(__name__, {"Task": "PictureTask", "TaskItem": "PictureItem"}, name)
