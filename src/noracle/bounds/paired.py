"""Two systems judged on the same items: which is better, and by how much, from items on which only
one of them is right.

Of n items the first system alone is right on ``wins`` (B), the second alone on ``losses`` (C). With
probabilities p10 and p01 of the two, the difference of the accuracies is δ = p10 - p01 and the
discordance ψ = p10 + p01. Everything here is exact at every n.
"""

from __future__ import annotations

import math

import numpy as np

from noracle.bounds.binomial import (
    Limits,
    betainc,
    binomial_at_least,
    clopper_pearson,
    find_root,
    hypergeometric_limits,
    ordered,
    support,
)

# A limit that only the sign test puts above 0.
_TINY = 1e-12


def sign_test(wins: int, losses: int) -> float:
    """Exact two-sided p-value of "neither system is better".

    Given B + C = d, B is Binomial(d, 1/2) if δ = 0: p = min(1, 2·P(Bin(d, 1/2) >= max(B, C))).
    Assumes that items are independent.

    References
    ----------
    McNemar (1947), Psychometrika 12, 153-157; the exact form is the sign test.

    Examples
    --------
    >>> round(sign_test(15, 5), 4), sign_test(3, 3)
    (0.0414, 1.0)
    """
    return min(1.0, 2 * at_most_as_good(max(wins, losses), min(wins, losses)))


def at_most_as_good(wins: int, losses: int) -> float:
    """Exact p-value of "the first system is at most as good as the second" (δ <= 0).

    Given B + C = d, B is Binomial(d, p10/ψ) with p10/ψ <= 1/2 under every δ <= 0, so P(Bin(d, 1/2)
    >= B) is a p-value for all of them.

    Examples
    --------
    >>> round(at_most_as_good(15, 5), 4), at_most_as_good(0, 0)
    (0.0207, 1.0)
    """
    return binomial_at_least(wins, wins + losses, 0.5)


def difference_limits(
    wins: int, losses: int, n: int, below: float, above: float, *, gamma: float | None = None
) -> Limits:
    """Limits for δ = p10 - p01, the first accuracy minus the second; they cover at every n.

    The lower limit (the upper one is that of the systems exchanged). Each δ is tested by one test,
    fixed before the counts are seen:

    * -r <= δ <= 0 by the sign test at error ``below``, which rejects all of them or none, with r =
      min(5/n, 1/(2√n));
    * every other δ by the unconditional test: with ψ at most its Clopper–Pearson limit ψ' at error
      γ (``gamma``, by default 4 % of ``below``), reject if sup over |δ| <= ψ <= ψ' of P(B - C >= b
      - c) is at most ``below`` - γ.

    Under the true δ its one test errs with probability at most ``below``. All δ below the limit are
    rejected, so the interval misses the true δ only if that test does. Using whichever of both
    tests rejects would not be valid at this error. The sign test is there to give "better" (a limit
    above 0) its power: the unconditional limit is above -r practically whenever the sign test
    rejects, because what the uncertain ψ costs it is about 3/n whatever ψ is. Where only the sign
    test rejects 0, the limit is 1e-12.

    The supremum. P(B - C >= t) has the derivative (n/2)·(f(t - 1) - f(t)) in ψ, where f is the law
    of B - C for n - 1 items. If ψ <= (1 + δ²)/2, p10·x² + (1 - ψ)·x + p01 has real roots, so f is,
    up to a shift, the law of a sum of independent 0/1 variables: it falls from ⌈mean⌉ on (Darroch),
    and for t > ⌈(n - 1)δ⌉ the supremum is at the largest ψ. Smaller t never reject. Above (1 +
    δ²)/2 parity matters: there ψ is cut into cells, and on each p10 is taken at its upper and p01
    at its lower end, which can only raise the tail; the limit is the last δ for which all cells
    reject. If δ is rejected, so is every smaller one: the tail rises with p10 and falls with p01,
    and what ψ < δ allows is below the tail at p10 = δ, p01 = 0.

    Assumes independent items (or a simple random sample of a large population), n fixed beforehand,
    and one verdict per item and system.

    References
    ----------
    Berger and Boos (1994), JASA 89, 1012-1016; Darroch (1964), Ann. Math. Statist. 35, 1317-1321.

    Examples
    --------
    >>> limits = difference_limits(60, 35, 500, 0.025, 0.025)
    >>> round(limits.low, 3), round(limits.high, 3)
    (0.005, 0.094)
    """
    low = _lower(wins, losses, n, below, gamma) if below > 0 and n else -1.0
    high = -_lower(losses, wins, n, above, gamma) if above > 0 and n else 1.0
    return ordered(low, high, -1.0, 1.0)


def _lower(wins: int, losses: int, n: int, tail: float, gamma: float | None) -> float:
    gamma = 0.04 * tail if gamma is None else min(gamma, tail)
    free = _unconditional(wins, losses, n, tail - gamma, gamma)
    reach = min(5 / n, 0.5 / math.sqrt(n))
    if at_most_as_good(wins, losses) <= tail:
        return max(free, _TINY) if free >= -reach else free
    return min(free, -reach)


def _unconditional(wins: int, losses: int, n: int, tail: float, gamma: float) -> float:
    """The last certified δ such that every smaller one is rejected."""
    most = clopper_pearson(wins + losses, n, 0.0, gamma)[1]
    t = wins - losses
    floor = max(-most, -1.0)  # below, no ψ is left
    if tail <= 0 or t <= -n:
        return floor
    # The tail at the largest ψ first: its root is the limit, or close to it where parity matters.
    end = min(most, (t - 1) / (n - 1)) if n > 1 else most  # t > ⌈(n - 1)δ⌉ up to here
    if end <= floor or (n == 1 and t < 1):
        return floor

    def excess(delta: float) -> float:
        return _tail(t, n, delta, most) - tail

    if excess(floor) > 0:
        return floor
    root = end if excess(end) <= 0 else find_root(excess, floor, end, xtol=1e-9, rtol=1e-12)
    step = 2e-9 if most <= 0.5 else 0.06 * math.sqrt(most / n)  # cells need room
    while root - step > floor:
        if _rejected(t, n, root - step, most, tail):
            return root - step
        step = max(2 * step, 0.06 * math.sqrt(most / n))
    return floor


def _rejected(t: int, n: int, delta: float, most: float, tail: float) -> bool:
    """True only if the tail is at most ``tail`` for every ψ from abs(δ) to ``most``."""
    if t <= math.ceil((n - 1) * delta):
        return False
    smooth = (1 + delta**2) / 2
    if _tail(t, n, delta, min(most, smooth)) > tail:
        return False
    top = most
    width = 0.06 * math.sqrt(most / n)
    while top > smooth:
        bottom = max(smooth, top - width)
        half = (top - bottom) / 2
        if _tail(t, n, delta + half, bottom + half) <= tail:
            top, width = bottom, 1.15 * width
        else:
            width /= 1.5
            if width < 0.01 * math.sqrt(most / n):
                return False
    return True


def _tail(t: int, n: int, delta: float, psi: float) -> float:
    """P(B - C >= t), rounded up: B + C is Bin(n, ψ), and given it B is Bin(B + C, p10/ψ)."""
    if psi <= 0:
        return 1.0 if t <= 0 else 0.0
    counts, pmf = support(n, min(psi, 1.0))
    likely = pmf > 1e-14
    counts, pmf = counts[likely], pmf[likely]
    theta = min(max((psi + delta) / (2 * psi), 0.0), 1.0)
    need = np.ceil((t + counts) / 2)
    inside = np.clip(need, 1, np.maximum(counts, 1))
    at_least = betainc(inside, np.maximum(counts, 1) - inside + 1, theta)
    return (
        float(np.dot(pmf, np.where(need <= 0, 1.0, np.where(need > counts, 0.0, at_least)))) + 1e-11
    )


def finite_difference(
    wins: int, losses: int, n: int, size: int | None, below: float, above: float
) -> Limits:
    """Limits for (W - L)/size, where W and L of ``size`` items are won and lost, from ``n`` of them
    drawn without replacement; ``size`` None: from a population without end.

    Exact limits for W and for L (hypergeometric; Clopper–Pearson without end), each at half of the
    tail: W - L >= low(W) - high(L). The error is at most ``below`` and ``above`` at every n and
    size, and the width is 0 where all items were drawn. For few wins or few losses it is hardly
    wider than what knows their covariance.

    Assumes a simple random sample.

    References
    ----------
    Konijn (1973), Statistical Theory of Sample Survey Design and Analysis.

    Examples
    --------
    >>> limits = finite_difference(5, 40, 80, 1000, 0.01, 0.01)
    >>> round(limits.low, 3), round(limits.high, 3)
    (-0.624, -0.198)
    """
    pairs = (wins, below / 2, above / 2), (losses, above / 2, below / 2)
    won, lost = (
        clopper_pearson(k, n, low, high)
        if size is None
        else hypergeometric_limits(k, n, size, low, high)
        for k, low, high in pairs
    )
    return Limits(won[0] - lost[1], won[1] - lost[0])
