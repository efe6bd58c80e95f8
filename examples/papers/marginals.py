"""Published margins that no joint table can have.

Any table of pattern counts is possible: let every item have the same true label, and every axiom
holds. So a joint table never shows that it was made up. Several margins can: they may have no joint
table at all.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from noracle.errors import ArgumentError, EvidenceError, fault
from noracle.logic.crowd import Pattern, read_patterns
from noracle.results import Check

if TYPE_CHECKING:
    from numpy.typing import NDArray

_CELLS = 4096
_SECONDS = 10.0
_DENOMINATOR = 720
Margin = tuple[tuple[int, ...], dict[tuple[int, ...], int]]


def check_marginals(
    margins: Mapping[tuple[str, ...], Mapping[Pattern, int]],
    *,
    labels: Sequence[Hashable] | None = None,
    n_cells: int = _CELLS,
) -> Check:
    """Can these tables be margins of one table of joint answers?

    Totals and shared margins are compared in whole numbers. Then a joint table of whole numbers
    with these margins is sought: a table that is found, or integer weights that prove that there is
    none, is checked without the solver and stands in ``diagnostics``. There is no probability in
    it: p is 0 (impossible) or 1 (possible), and NaN if undecided.

    Weights y_c on the published cells prove it when every joint pattern has Σ y_c ≥ 0 over the
    cells it falls into, and Σ y_c n_c < 0.

    Parameters
    ----------
    margins
        For each published table: the systems it is about, and its pattern counts. A joint table is
        one entry.
    labels
        All labels; those that occur, if left out.
    n_cells
        The most joint patterns (labels to the power of systems) for which a joint table is sought.

    Examples
    --------
    >>> differ = {("a", "b"): 5, ("b", "a"): 5}
    >>> check_marginals({("x", "y"): differ, ("y", "z"): differ}).passed
    True
    >>> check_marginals({("x", "y"): differ, ("y", "z"): differ, ("x", "z"): differ}).finding
    'no joint table has these margins: weights prove it'
    """
    systems, known, tables = _read(margins, labels)
    parts = _disagreements(systems, tables)
    if parts:
        return _check(0.0, parts[0]["what"], {"proof": "margins"}, systems, tables, tuple(parts))
    if len(tables) == 1:
        return _check(
            1.0,
            "one table: every table of counts is possible",
            {"proof": "one table"},
            systems,
            tables,
        )
    if len(known) ** len(systems) > n_cells:
        return _check(
            math.nan,
            "totals and shared margins agree; too many joint patterns to go on",
            {},
            systems,
            tables,
        )
    cells = list(itertools.product(range(len(known)), repeat=len(systems)))
    keys = [
        (k, p)
        for k, (who, _) in enumerate(tables)
        for p in itertools.product(range(len(known)), repeat=len(who))
    ]
    place = {key: i for i, key in enumerate(keys)}
    falls = [
        [place[k, tuple(cell[i] for i in who)] for k, (who, _) in enumerate(tables)]
        for cell in cells
    ]
    wanted = [tables[k][1].get(p, 0) for k, p in keys]
    weights = _weights(falls, wanted)
    if weights is not None:
        named = [
            {
                "systems": [systems[i] for i in tables[k][0]],
                "pattern": [known[x] for x in p],
                "weight": y,
            }
            for (k, p), y in zip(keys, weights, strict=True)
            if y
        ]
        return _check(
            0.0,
            "no joint table has these margins: weights prove it",
            {"proof": "weights", "weights": named},
            systems,
            tables,
        )
    found, status = _joint(falls, wanted)
    if found is not None:
        joint = [
            {"pattern": [known[x] for x in cell], "n": n}
            for cell, n in zip(cells, found, strict=True)
            if n
        ]
        return _check(
            1.0,
            "a joint table with these margins exists",
            {"proof": "table", "joint": joint},
            systems,
            tables,
        )
    if status == "infeasible":
        finding = "no joint table of whole numbers has these margins; only the solver says so"
        return _check(0.0, finding, {"proof": "solver"}, systems, tables)
    return _check(
        math.nan,
        "totals and shared margins agree; the solver found no answer in time",
        {},
        systems,
        tables,
    )


def _check(
    p_value: float,
    finding: str,
    diagnostics: Mapping[str, Any],
    systems: tuple[str, ...],
    tables: Sequence[Margin],
    parts: tuple[Mapping[str, Any], ...] = (),
) -> Check:
    return Check(
        name="margins",
        assumption="one joint table behind all margins",
        refutes_only=True,
        p_value=p_value,
        statistic=math.nan,
        finding=finding,
        method="whole numbers; integer program",
        parts=parts,
        diagnostics=diagnostics,
        counts={"tables": len(tables), "systems": len(systems)},
        reason=finding if math.isnan(p_value) else "a logical check has no statistic",
        notes=(
            "a joint table that is given whole is always possible; only several margins can contradict each other",
        ),
    )


def _read(
    margins: Mapping[tuple[str, ...], Mapping[Pattern, int]], labels: Sequence[Hashable] | None
) -> tuple[tuple[str, ...], tuple[Hashable, ...], list[Margin]]:
    if not isinstance(margins, Mapping) or not margins:
        raise ArgumentError(
            "margins must map systems to pattern counts, such as {('x', 'y'): {('a', 'b'): 3}}; got none."
        )
    for who, table in margins.items():
        if not isinstance(who, tuple) or not who or len(set(who)) != len(who):
            raise ArgumentError(
                fault(
                    "a key of margins",
                    "must be a tuple of different systems",
                    repr(who),
                    remedy="For one: ('x',).",
                )
            )
        sizes = {len(p) for p in table if isinstance(p, tuple)}
        if sizes - {len(who)}:
            raise EvidenceError(
                fault(f"patterns of {who}", f"must have {len(who)} answers", sorted(sizes))
            )
    systems = tuple(dict.fromkeys(s for who in margins for s in who))
    seen = {x for table in margins.values() for p in table for x in p}
    known = tuple(labels) if labels is not None else tuple(sorted(seen, key=str))
    tables = [
        (tuple(systems.index(s) for s in who), read_patterns(table, labels=known)[1])
        for who, table in margins.items()
    ]
    return systems, known, tables


def _disagreements(systems: tuple[str, ...], tables: Sequence[Margin]) -> list[dict[str, Any]]:
    """Totals and shared margins that differ, table against table."""
    found = []
    for (first, a), (second, b) in itertools.combinations(tables, 2):
        names = [" and ".join(systems[i] for i in who) for who in (first, second)]
        shared = [i for i in first if i in second]
        one, other = (
            _margin(table, [who.index(i) for i in shared])
            for who, table in ((first, a), (second, b))
        )
        if one != other:
            about = (
                " and ".join(systems[i] for i in shared)
                if shared
                else f"the total, {one[()]} against {other[()]} items"
            )
            found.append(
                {
                    "tables": names,
                    "what": f"the tables of {names[0]} and of {names[1]} contradict each other on {about}",
                }
            )
    return found


def _margin(table: Mapping[tuple[int, ...], int], kept: Sequence[int]) -> Counter[tuple[int, ...]]:
    sums: Counter[tuple[int, ...]] = Counter()
    for pattern, n in table.items():
        sums[tuple(pattern[i] for i in kept)] += n
    return sums


def _matrix(falls: Sequence[Sequence[int]], rows: int) -> NDArray[np.float64]:
    matrix = np.zeros((rows, len(falls)))
    for column, at in enumerate(falls):
        matrix[at, column] = 1.0
    return matrix


def _weights(falls: Sequence[Sequence[int]], wanted: Sequence[int]) -> list[int] | None:
    """Integer weights that prove that no joint table exists, if the linear program has them in
    simple numbers.
    """
    from scipy.optimize import linprog

    matrix = _matrix(falls, len(wanted))
    scale = max(1, *wanted)
    solved = linprog(
        [n / scale for n in wanted],
        A_ub=-matrix.T,
        b_ub=np.zeros(len(falls)),
        bounds=(-1, 1),
        method="highs",
    )
    if solved.x is None or solved.fun is None or solved.fun >= 0:
        return None
    simple = [Fraction(float(y)).limit_denominator(_DENOMINATOR) for y in solved.x]
    common = math.lcm(*(y.denominator for y in simple))
    weights = [int(y * common) for y in simple]
    proves = (
        all(sum(weights[i] for i in at) >= 0 for at in falls)
        and sum(y * n for y, n in zip(weights, wanted, strict=True)) < 0
    )
    return weights if proves else None


def _joint(falls: Sequence[Sequence[int]], wanted: Sequence[int]) -> tuple[list[int] | None, str]:
    """A joint table with these margins, checked in whole numbers, or what the solver said."""
    from scipy.optimize import LinearConstraint, milp

    matrix = _matrix(falls, len(wanted))
    n = len(falls)
    constraint = LinearConstraint(matrix, wanted, wanted)
    solved = milp(
        np.zeros(n),
        constraints=constraint,
        integrality=np.ones(n, dtype=int),
        options={"time_limit": _SECONDS},
    )
    if solved.status == 2:
        return None, "infeasible"
    if solved.x is None:
        return None, "undecided"
    joint = [round(x) for x in solved.x]
    sums = [0] * len(wanted)
    for k, at in zip(joint, falls, strict=True):
        for i in at:
            sums[i] += k
    return (joint, "found") if min(joint) >= 0 and sums == list(wanted) else (None, "undecided")
