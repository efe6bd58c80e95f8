"""What to try next in a search for workflows: with a designer model, or with typed random edits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from noracle.errors import ArgumentError
from noracle.search.candidates import Strategy
from noracle.search.strategies.designer import Adas, Aflow
from noracle.search.strategies.evolution import Halving, Mutate, Surrogate
from noracle.search.task import Task
from noracle.search.workflow import Workflow

StrategyName = Literal["adas", "aflow", "mutate", "surrogate", "halving"]
STRATEGIES: tuple[StrategyName, ...] = ("adas", "aflow", "mutate", "surrogate", "halving")

__all__ = [
    "Adas",
    "Aflow",
    "Halving",
    "Mutate",
    "STRATEGIES",
    "StrategyName",
    "Surrogate",
    "make_strategy",
]


def make_strategy(
    name: StrategyName,
    *,
    task: Task | None = None,
    workflows: Sequence[Workflow] = (),
    rounds: int | None = None,
    most_calls: int = 20,
    n_random: int = 0,
    seed: int = 0,
) -> Strategy:
    """A strategy by its name.

    Parameters
    ----------
    name
        ``adas`` and ``aflow`` need a designer model; ``mutate``, ``surrogate`` and ``halving`` do
        not.
    task
        For ``adas`` and ``aflow``: texts of a few failed validation items are shown to the
        designer. None: ids only.
    workflows, n_random, seed
        For ``halving`` and ``surrogate``: the pool (the seven baselines where none are given), and
        how many random edits of it join (for ``surrogate`` 300 where it is 0).
    rounds
        For ``adas`` (30) and ``aflow`` (20): when to stop.
    most_calls
        The most calls per item of a workflow that is made by the strategy; the pool of ``halving``
        is taken as it is.

    Examples
    --------
    >>> make_strategy("mutate").name
    'mutate'
    """
    if name == "adas":
        return Adas(task=task, generations=rounds or 30, most_calls=most_calls)
    if name == "aflow":
        return Aflow(task=task, rounds=rounds or 20, most_calls=most_calls)
    if name == "mutate":
        return Mutate(most_calls=most_calls)
    if name == "surrogate":
        more: dict[str, int] = {"n_random": n_random} if n_random else {}
        return Surrogate(workflows, most_calls=most_calls, seed=seed, **more)
    if name == "halving":
        return Halving(workflows, n_random=n_random, seed=seed)
    raise ArgumentError(f"name must be one of {', '.join(STRATEGIES)}; got {name!r}.")
