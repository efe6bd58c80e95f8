"""Do ruled-out labels look even?"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from noracle.bounds.special import chdtrc
from noracle.learn._label_rates import (
    Use,
    measure_use,
    p_at_least,
    p_of,
    simulate_use,
    sums_by_item,
)
from noracle.learn._label_table import LabelTable, truth_of
from noracle.learn._label_words import percent
from noracle.results import FAILED_BELOW, Check, NaN

SIMULATIONS = 4_999


def check_balance(table: LabelTable, seed: int) -> Check:
    """All classes ruled out equally often? Even labels do that only where true classes are
    balanced.
    """
    k = table.n_classes
    found = measure_use(table.item, table.label, k)
    shared: dict[str, Any] = {
        "name": "class balance",
        "assumption": "all classes are ruled out equally often",
        "refutes_only": True,
        "counts": {"labels": len(table.label)},
    }
    if found is None:
        return Check(
            p_value=NaN,
            statistic=NaN,
            finding="not tested: no labels",
            method="chi-square",
            reason="no labels",
            **shared,
        )
    simulated = (
        simulate_use(found, SIMULATIONS, np.random.default_rng([seed, 0])) if found.few else None
    )
    p_value = found.p_limit if simulated is None else p_of(found.statistic, simulated)
    counts = found.counts
    most, least = (table.classes[int(i)] for i in (counts.argmax(), counts.argmin()))
    if p_value < FAILED_BELOW:
        finding = f"most often ruled out {most} ({counts.max():,}), least often {least} ({counts.min():,}), {found.expected:,.1f} expected"
    else:
        finding = "no class is certainly ruled out more or less often than the others"
    return Check(
        p_value=p_value,
        statistic=found.statistic,
        finding=finding,
        method="chi-square" if simulated is None else "chi-square, simulated",
        parts=tuple(
            {"class": c, "observed": int(n), "expected": found.expected}
            for c, n in zip(table.classes, counts, strict=True)
        ),
        notes=(
            "Even labels on unbalanced classes fail this too: it is about labels, not about T.",
        ),
        **shared,
    )


def check_ceiling(table: LabelTable) -> Check:
    """Even labels rule out no class more often than 1/(K - 1), whatever the true classes: visible
    without a true label.
    """
    k = table.n_classes
    shared: dict[str, Any] = {
        "name": "even labels, without truth",
        "assumption": "uniform T",
        "method": f"share at most 1/{k - 1}, one-sided, Bonferroni",
        "refutes_only": True,
        "counts": {"labels": len(table.label)},
    }
    if not len(table.label) or k < 3:
        reason = "no labels" if k > 2 else "with two classes every share is possible"
        return Check(
            p_value=NaN, statistic=NaN, finding=f"not tested: {reason}", reason=reason, **shared
        )
    sums = [sums_by_item(table.item, table.label == j) for j in range(k)]
    p = np.array([p_at_least(s, 1 / (k - 1)) for s in sums])
    share = [float(np.mean(np.sort(s.hits / s.n))) for s in sums]
    top = int(p.argmin())
    p_value = min(1.0, float(p[top]) * k)
    if p_value < FAILED_BELOW:
        finding = f"{table.classes[top]} is ruled out in {percent(share[top])} of labels; even labels cannot exceed {percent(1 / (k - 1))}"
    else:
        finding = f"no class is certainly ruled out more often than {percent(1 / (k - 1))}"
    return Check(p_value=p_value, statistic=max(share), finding=finding, **shared)


def check_rows(table: LabelTable, known: LabelTable, seed: int) -> Check:
    """Are right labels of the items of each true class even over the wrong classes?

    The worst row (Bonferroni) and the sum of all rows' statistics are both looked at, and the
    smaller p is doubled.
    """
    k, truth = table.n_classes, truth_of(known)
    rows: list[tuple[str, int, Use]] = []
    for j, name in enumerate(table.classes):
        mine = (truth == j) & (known.label != j)
        label = known.label[mine]
        found = measure_use(known.item[mine], label - (label > j), k - 1)
        if found is not None:
            rows.append((name, j, found))
    shared: dict[str, Any] = {
        "name": "even rows of T",
        "assumption": "uniform T",
        "counts": {"labels": len(known.label)},
        "diagnostics": {"oracle": True},
        "refutes_only": True,
        "method": "chi-square by true class, simulated where counts are small; worst row and sum of rows",
    }
    if not rows:
        reason = (
            "with two classes there is one wrong class"
            if k == 2
            else "no trusted item has a right label"
        )
        return Check(
            p_value=NaN, statistic=NaN, finding=f"not tested: {reason}", reason=reason, **shared
        )
    p_values, p_sum = _p_of_rows([found for _, _, found in rows], seed)
    parts: list[dict[str, Any]] = []
    for (name, j, found), p in zip(rows, p_values, strict=True):
        counts = np.insert(found.counts, j, -1)
        what = f"{table.classes[int(counts.argmax())]} ruled out {counts.max():,} times, {found.expected:,.1f} expected"
        parts.append(
            {
                "class": name,
                "n": int(found.counts.sum()),
                "statistic": found.statistic,
                "p_value": p,
                "what": what,
            }
        )
    _add_holm(parts)
    worst = min(parts, key=lambda part: float(part["p_value"]))
    p_value = min(1.0, 2 * min(p_sum, float(worst["p_value"]) * len(parts)))
    if p_value < FAILED_BELOW:
        odd = sum(part["holm_p_value"] < FAILED_BELOW for part in parts)
        finding = f"{odd} of {len(parts)} rows are uneven on their own; most of all {worst['class']}: {worst['what']}"
    else:
        finding = "no row is certainly uneven"
    return Check(
        p_value=p_value,
        statistic=_total(found for _, _, found in rows),
        finding=finding,
        parts=tuple(parts),
        **shared,
    )


def _total(rows: Iterable[Use]) -> float:
    return float(np.sum(sorted(found.statistic for found in rows)))


def _p_of_rows(rows: list[Use], seed: int) -> tuple[list[float], float]:
    """P-values of the rows and of the sum of their statistics; rows with many labels have
    chi-square laws.
    """
    degrees, many = (
        len(rows[0].counts) - 1,
        [found for found in rows if not found.few and found.scale > 0],
    )
    if not any(found.few for found in rows):
        return [found.p_limit for found in rows], float(
            chdtrc(degrees * len(many), _total(rows))
        ) if many else 1.0
    p_values, total = [found.p_limit for found in rows], np.zeros(SIMULATIONS)
    # Streams go by what is simulated, so that the names of the classes do not matter; rows with
    # equal patterns may swap.
    few = sorted(
        (i for i, found in enumerate(rows) if found.few),
        key=lambda i: (rows[i].patterns.shape, rows[i].patterns.tobytes()),
    )
    for rank, i in enumerate(few):
        simulated = simulate_use(rows[i], SIMULATIONS, np.random.default_rng([seed, 1 + rank]))
        p_values[i] = p_of(rows[i].statistic, simulated)
        total += simulated
    if many:
        total += np.random.default_rng([seed, 0]).chisquare(degrees * len(many), SIMULATIONS)
    return p_values, p_of(_total(rows), total)


def _add_holm(parts: list[dict[str, Any]]) -> None:
    """Adjusted p-values of the rows: those below a level are uneven, with at most that chance of
    one false alarm.
    """
    largest = 0.0
    for rank, part in enumerate(sorted(parts, key=lambda part: float(part["p_value"]))):
        largest = max(largest, min(1.0, float(part["p_value"]) * (len(parts) - rank)))
        part["holm_p_value"] = largest
