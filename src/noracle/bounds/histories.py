"""The error rate of decisions that go on for years, when people react to outcomes.

Decision t of a ledger spends ε_t = 6ε/(π²t²), so that all of them together err with probability of
at most ε. A decision on labels that decided before is one of many tests that could have been made:
which system is tested depends on the outcomes that people saw. Given one history of outcomes, the
system is fixed; so each possible history gets its part of ε_t.
"""

from __future__ import annotations

import math

from scipy.special import zeta


def step_error(t: int, error: float, *, branches: int = 1, left: float = math.inf) -> float:
    """What decision ``t`` spends: 6·error/(π²t²), divided by the number of branches that may decide
    at once.

    Σ 1/t² = π²/6, so that decisions 1, 2, 3, … spend ``error`` together. Where up to w branches
    decide without seeing each other, at most w decisions have one t. Where decisions had one t, less
    may be ``left`` than Σ_{s≥t} 6·error/(π²s²): then all that follow spend less in proportion, so
    that something is left forever.

    Examples
    --------
    >>> round(step_error(1, 0.05), 5), round(sum(step_error(t, 0.05) for t in range(1, 10_000)), 4)
    (0.0304, 0.05)
    """
    step = 6 * error / (math.pi**2 * t**2) / branches
    return step if left == math.inf else min(step, max(0.0, left) / (t**2 * float(zeta(2, t))))


def history_share(before: int, unusual: int, most: int | None = None) -> float:
    """The part of its error rate that a decision may use after this history.

    With three outcomes there are C(n, i)·2^i histories of n = ``before`` decisions in which i are
    not the usual one. If at most b = ``most`` may be unusual, each history gets
    1/Σ_{i≤b} C(n, i)·2^i; without such a bound the i that was observed gives
    2^{-(i+1)}/(C(n, i)·2^i). Over all histories the parts add up to at most 1. A history with more
    than b unusual outcomes gets nothing.

    References
    ----------
    Blum and Hardt (2015), ICML, for counting histories; Dwork et al. (2015), Science 349, 636-638.

    Examples
    --------
    >>> history_share(49, 0), history_share(2, 1), history_share(2, 2, most=1)
    (0.5, 0.0625, 0.0)
    """
    if most is None:
        # logarithms: a whole number of this size need not be a float
        logs = math.log(math.comb(before, unusual)) + (2 * unusual + 1) * math.log(2)
        return math.exp(-logs)
    if unusual > most:
        return 0.0
    histories = sum(math.comb(before, i) * 2**i for i in range(min(most, before) + 1))
    return math.exp(-math.log(histories))
