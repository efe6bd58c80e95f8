"""Clopper–Pearson limits."""

from __future__ import annotations

from scipy.special import betaincinv


def clopper_pearson(successes: float, n: float, below: float, above: float) -> tuple[float, float]:
    """Exact limits for a binomial probability.

    The lower limit solves P(S >= successes) = ``below``, the upper one P(S <= successes) = ``above``; a tail of 0 gives 0 or 1.
    Real-valued counts are allowed (the beta function extends the limits), which planning uses.

    Assumes independent trials with one probability. Coverage is at least 1 - below - above at every n.

    References
    ----------
    Clopper and Pearson (1934), Biometrika 26, 404-413.

    Examples
    --------
    >>> low, high = clopper_pearson(0, 10, 0.025, 0.025)
    >>> low, round(high, 4)
    (0.0, 0.3085)
    """
    low = 0.0 if successes <= 0 or below <= 0 else float(betaincinv(successes, n - successes + 1, below))
    high = 1.0 if successes >= n or above <= 0 else float(betaincinv(successes + 1, n - successes, 1 - above))
    return low, high
