"""Preferences decided by trying every order of every item: slow, plain and by the definition."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from noracle import Preferences

Row = tuple[int, str, str, str, str]
"""item, first, second, winner, rater."""


def table(rows: Iterable[Sequence[Any]]) -> Preferences:
    """Preferences of rows."""
    names = ("item", "first", "second", "winner", "rater")
    return Preferences.from_table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))


def draw(rng: np.random.Generator, n_systems: int, n_raters: int, n_items: int) -> list[Row]:
    """Judges of several accuracies, with ties, gaps, items of several pairs, and both orders shown."""
    rows: list[Row] = []
    usual, accuracy = rng.permutation(n_systems), rng.uniform(0.3, 1, n_raters)
    most = min(4, n_systems * (n_systems - 1) // 2)
    for item in range(n_items):
        rank = np.argsort(rng.permutation(n_systems) if rng.random() < 0.5 else usual)
        n_pairs = 1 if rng.random() < 0.5 else int(rng.integers(1, most + 1))
        for _ in range(n_pairs):
            a, b = rng.permutation(n_systems)[:2].tolist()
            for rater in range(n_raters):
                said = float(rng.random())
                if said < 0.1:
                    continue
                right = (rank[a] < rank[b]) == (rng.random() < accuracy[rater])
                winner = "tie" if said < 0.18 else "neither" if said < 0.2 else ""
                winner = winner or ("first" if right else "second")
                rows.append((item, f"s{a}", f"s{b}", winner, f"judge {rater}"))
    if not any(row[3] in {"first", "second"} for row in rows):
        rows.append((0, "s0", "s1", "first", "judge 0"))
    return rows


def reachable(rows: Iterable[Row], order: str) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Raters, their numbers of decided verdicts, and every vector of agreements that orders give."""
    decided = [row for row in rows if row[3] in {"first", "second"}]
    raters = sorted({row[4] for row in decided})
    units: dict[int, list[tuple[str, str, int]]] = defaultdict(list)
    for item, first, second, winner, rater in decided:
        pair = (first, second) if winner == "first" else (second, first)
        units[item if order == "item" else 0].append((*pair, raters.index(rater)))
    total = np.zeros((1, len(raters)), dtype=np.int16)
    for verdicts in units.values():
        systems = sorted({name for a, b, _ in verdicts for name in (a, b)})
        own = set()
        for ranking in itertools.permutations(systems):
            place = {name: i for i, name in enumerate(ranking)}
            agree = [0] * len(raters)
            for better, worse, rater in verdicts:
                agree[rater] += place[better] < place[worse]
            own.add(tuple(agree))
        sums = total[:, None, :] + np.array(sorted(own), dtype=np.int16)[None]
        total = np.unique(sums.reshape(-1, len(raters)), axis=0)
        total = total[np.argsort(-total.sum(axis=1, dtype=int), kind="stable")]
    n = np.array([sum(row[4] == rater for row in decided) for rater in raters])
    return raters, n, total


def possible(n: np.ndarray, agreements: np.ndarray, above: Fraction) -> bool:
    """Whether some vector has more than this share for every rater."""
    least = np.array([math.floor(above * int(k)) + 1 for k in n])
    return bool((agreements >= least).all(axis=1).any())
