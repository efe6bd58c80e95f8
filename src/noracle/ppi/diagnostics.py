"""How much a plan can lose because its covariance was estimated, or its collection restricted, and
where it tends.

The paper bounds the loss by 4σ²_classical/γ_min times a norm of the error (Theorems 4 and 5), which
applies only while the error is below γ_min/2. The bound used here is multiplicative, has no
smallest eigenvalue in it and does not change when variables are mixed: if (1 − e)Σ ≤ Σ̂ ≤ (1 + e)Σ
then the plan and weights made for Σ̂ have at most (1 + e)/(1 − e) times the least variance.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noracle.errors import ArgumentError
from noracle.ppi.measurements import Measurement, information_of
from noracle.ppi.program import Program
from noracle.ppi.solver import solve

Array = NDArray[np.float64]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Stability:
    """Bounds of the variance of a plan made for an estimated covariance, in units of the least
    variance.

    ``multiplicative`` is (1 + e)/(1 − e), infinite if e ≥ 1. ``theorem4`` and ``theorem5`` are the
    paper's (Frobenius and operator norm), NaN where they do not apply.
    """

    error: float
    multiplicative: float
    theorem4: float
    theorem5: float


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CovarianceLoss:
    """What the estimation of the covariance from ``n`` rows can cost, as factors of the variance.

    ``typical`` is (n − 2)/(n − p − 2), the expected factor for p = k − 1 tuned Gaussian raters.
    ``bound`` holds with probability ``confidence`` for Gaussian rows and the empirical covariance;
    infinite where n is too small for it to say anything.
    """

    n: int
    k: int
    typical: float
    bound: float
    confidence: float


def stability(
    true: ArrayLike, estimated: ArrayLike, *, least_variance: float, classical_variance: float
) -> Stability:
    """Bounds of R(n̂, λ̂)/R(n*, λ*) for a plan made with ``estimated`` where ``true`` holds.

    Parameters
    ----------
    true, estimated
        Σ and Σ̂.
    least_variance
        R(n*, λ*), the variance of the best plan under Σ.
    classical_variance
        σ²_classical, the least variance of a sample mean within the budgets.

    Notes
    -----
    For fixed (n, λ) the variance R(n, λ) is linear in Σ, so (1 − e)R ≤ R̂ ≤ (1 + e)R, and R(n̂, λ̂)
    ≤ R̂(n̂, λ̂)/(1 − e) ≤ R̂(n*, λ*)/(1 − e) ≤ (1 + e)/(1 − e)·R(n*, λ*). Theorems 4 and 5: R(n̂,
    λ̂) ≤ R(n*, λ*) + 4 σ²_classical δ/γ_min for δ ≤ γ_min/2. All three need an estimate that is
    independent of the samples that are averaged.

    Examples
    --------
    >>> found = stability([[1.0, 0.5], [0.5, 1.0]], [[1.1, 0.55], [0.55, 1.1]], least_variance=0.01, classical_variance=0.012)
    >>> round(found.error, 6), round(found.multiplicative, 4)
    (0.1, 1.2222)
    """
    S, E = np.asarray(true, dtype=np.float64), np.asarray(estimated, dtype=np.float64)
    if S.shape != E.shape or S.ndim != 2:
        raise ArgumentError(
            f"true and estimated must be covariances of one size; got {S.shape} and {E.shape}."
        )
    L = np.linalg.cholesky(S)
    relative = np.linalg.solve(L, np.linalg.solve(L, E).T)
    e = float(np.abs(np.linalg.eigvalsh((relative + relative.T) / 2) - 1).max())
    least = float(np.linalg.eigvalsh(S)[0])

    def printed(delta: float) -> float:
        return (
            1 + 4 * classical_variance * delta / least / least_variance
            if delta <= least / 2
            else math.nan
        )

    return Stability(
        error=e,
        multiplicative=(1 + e) / (1 - e) if e < 1 else math.inf,
        theorem4=printed(float(np.linalg.norm(E - S))),
        theorem5=printed(float(np.linalg.norm(E - S, 2))),
    )


def covariance_loss(*, n: int, k: int, confidence: float = 0.95) -> CovarianceLoss:
    """What a covariance of k variables, estimated from n rows, can cost.

    Notes
    -----
    For Gaussian rows the singular values of the whitened sample lie in √n ± (√k + t) with
    probability 1 − 2exp(−t²/2), which gives e and the bound (1 + e)/(1 − e).

    References
    ----------
    Davidson and Szarek, "Local operator theory, random matrices and Banach spaces" (2001), Theorem
    II.13.

    Examples
    --------
    >>> loss = covariance_loss(n=250, k=11)
    >>> round(loss.typical, 3), loss.bound > 1.5
    (1.042, True)
    """
    p = k - 1
    typical = (n - 2) / (n - p - 2) if n - p - 2 > 0 else math.inf
    t = math.sqrt(2 * math.log(2 / (1 - confidence)))
    r = (math.sqrt(k) + t) / math.sqrt(max(n - 1, 1))
    e = (1 + r) ** 2 - 1
    return CovarianceLoss(
        n=n,
        k=k,
        typical=typical,
        bound=(1 + e) / (1 - e) if e < 1 else math.inf,
        confidence=confidence,
    )


def theorem9_rate(covariance: ArrayLike, *, n: int, proxy: float) -> tuple[float, float]:
    """The two terms under the root of Theorem 9, without its unknown constants: K⁴γ²_max k²/N and
    K⁸γ⁴_max k³/(a²N).

    The paper prints γ_max in the second term; only γ⁴_max has the units of a squared covariance.
    The terms say how the loss with Ledoit–Wolf shrinkage falls with N; they are no bound without
    the constants.

    Examples
    --------
    >>> first, second = theorem9_rate([[1.0, 0.5], [0.5, 2.0]], n=100, proxy=1.0)
    >>> halved = theorem9_rate([[1.0, 0.5], [0.5, 2.0]], n=200, proxy=1.0)
    >>> round(first / halved[0], 6), round(second / halved[1], 6)
    (2.0, 2.0)
    """
    S = np.asarray(covariance, dtype=np.float64)
    k = len(S)
    largest = float(np.linalg.eigvalsh(S)[-1])
    spread = float(np.linalg.norm(S - np.eye(k) * np.trace(S) / k) ** 2) / k
    if spread <= 0:
        raise ArgumentError(
            "covariance must not be a multiple of the identity (Theorem 9 excludes it)."
        )
    return proxy**4 * largest**2 * k**2 / n, proxy**8 * largest**4 * k**3 / (spread * n)


def restricted_loss(program: Program, kept: Sequence[int]) -> float:
    """How many times the least variance a restricted collection needs: V over ``kept`` measurements
    divided by V over all.

    Examples
    --------
    >>> from noracle.ppi.program import make_program
    >>> program = make_program([[[4.0]], [[2.0]]], [1.0, 1.0], 10.0, None, [1.0])
    >>> round(restricted_loss(program, [1]), 6)
    2.0
    """
    index = list(kept)
    small = dataclasses.replace(
        program, information=program.information[index], costs=program.costs[index]
    )
    return solve(small).variance / solve(program).variance


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Where plans tend when budgets are small or large beside what is in hand.

    ``first`` is the set that the first unit of budget buys and ``rate`` what it lowers the variance
    by, per unit. ``floor`` is the variance when everything for sale is known exactly.
    """

    first: str
    rate: float
    floor: float


def limits(
    covariance: ArrayLike,
    measurements: Sequence[Measurement],
    prior: ArrayLike,
    target: ArrayLike,
    *,
    budget: int = 0,
) -> Limits:
    """The low- and high-budget limits of a plan with information in hand (Theorem 10, the right way
    round).

    Notes
    -----
    dV/dn_I = −yᵀ G_I y with y = M0⁻¹a, so that the first unit of budget goes to the set with the
    *largest* yᵀG_I y/c_I. With N full rows in hand y = Σa/N and yᵀG_I y = ρ_I/N², ρ_I = Cov_Iᵀ
    Σ_I⁻¹ Cov_I: the set with the largest ρ_I/c_I (printed: smallest). With a large budget the
    observed means are known, and only what they leave open remains.

    Examples
    --------
    >>> cov = np.array([[1.0, 0.8, 0.3], [0.8, 1.0, 0.2], [0.3, 0.2, 1.0]])
    >>> raters = [Measurement(name="good", observes=(1,), cost=(1.0,)), Measurement(name="poor", observes=(2,), cost=(1.0,))]
    >>> found = limits(cov, raters, 100 * np.linalg.inv(cov), [1.0, 0.0, 0.0])
    >>> found.first, round(found.floor * 100, 4) < 0.36
    ('good', True)
    """
    S, M0, a = (np.asarray(v, dtype=np.float64) for v in (covariance, prior, target))
    G = information_of(measurements, S)
    prices = np.array([m.cost[budget] for m in measurements])
    if not (prices > 0).all():
        raise ArgumentError(
            "measurements must have positive prices in this budget; a free one has no limit."
        )
    y = np.linalg.solve(M0, a)
    rates = np.einsum("jkl,k,l->j", G, y, y) / prices
    best = int(np.argmax(rates))
    known = sorted({i for m in measurements for i in m.observes})
    rest = [i for i in range(len(S)) if i not in known]
    floor = (
        float(a[rest] @ np.linalg.solve(M0[np.ix_(rest, rest)], a[rest]))
        if rest and a[rest].any()
        else 0.0
    )
    return Limits(first=measurements[best].name, rate=float(rates[best]), floor=floor)
