"""Which question to ask next: is this item of this class?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from noracle.counts import answer_table
from noracle.errors import ArgumentError
from noracle.evidence import Evidence
from noracle.results import Routing, choose


def route_items(
    evidence: Evidence, *, design: Literal["uniform", "targeted"] = "uniform", systems: Sequence[str] | None = None, epsilon: float = 0.05,
    n: int | None = None, seed: int | None = None,
) -> Routing:  # fmt: skip
    """Draw one question per item, in random order, with the probability of each question recorded.

    ``uniform`` asks each of the K classes with probability 1/K: such labels serve every system, also future ones. ``targeted`` asks
    class k with
    probability (1 - ε)·votes(k)/votes + ε/K, where votes are the answers of ``systems``: a question about the answer itself is worth
    many about
    other classes, and since every class keeps at least ε/K the labels stay unbiased for every system through their propensities.

    Parameters
    ----------
    evidence
        Answers (and items). Judgements are not looked at.
    systems
        Whose answers are targeted; all by default. An item that none of them answered is asked uniformly.
    epsilon
        Uniform share of targeted routing, in (0, 1].
    n
        How many items, drawn without replacement; all by default.
    seed
        Makes the routing reproducible, whatever the order of the rows. Drawn and recorded when left out.

    Examples
    --------
    >>> from noracle import Evidence, route_items
    >>> evidence = Evidence.from_tables(answers={"item": [1, 2, 3], "system": ["a"] * 3, "answer": [0, 1, 1]}, n_classes=4)
    >>> routing = route_items(evidence, design="targeted", seed=7)
    >>> len(routing), routing.columns()["item"] == route_items(evidence, design="targeted", seed=7).columns()["item"]
    (3, True)
    """
    choose("design", design, ("uniform", "targeted"))
    if not 0 < epsilon <= 1:
        raise ArgumentError(f"epsilon must be in (0, 1]; got {epsilon}. Without a uniform share some classes could never be asked.")
    if seed is None:
        seed = int(np.random.SeedSequence().entropy) % 2**32  # type: ignore[arg-type]
    table = answer_table(evidence, systems=systems)
    size = len(table.items) if n is None else n
    if not 0 < size <= len(table.items):
        raise ArgumentError(f"n must be in [1, {len(table.items)}], the number of items; got {n}.")
    rng = np.random.default_rng(seed)
    chosen = rng.permutation(len(table.items))[:size]
    # One uniform number per question, drawn in the order of the sorted items, so that the order of the rows changes nothing.
    draws = rng.random(len(table.items))
    rows = []
    for i in chosen:
        classes = table.classes_of(int(i))
        chances = _chances(classes, table.votes(int(i)) if design == "targeted" else {}, epsilon)
        k = min(int(np.searchsorted(np.cumsum(chances), draws[i], side="right")), len(classes) - 1)
        rows.append((table.items[int(i)], classes[k], float(chances[k])))
    return Routing(
        rows=tuple(rows), design=design, epsilon=epsilon if design == "targeted" else 1.0, seed=seed, systems=tuple(table.systems),
        counts={"items": len(table.items), "questions": len(rows)},
    )  # fmt: skip


def _chances(classes: Sequence[Any], votes: dict[Any, int], epsilon: float) -> np.ndarray[Any, Any]:
    k = len(classes)
    counted = np.array([float(votes.get(c, 0)) for c in classes])
    total = counted.sum()
    return np.full(k, 1 / k) if total == 0 else (1 - epsilon) * counted / total + epsilon / k
