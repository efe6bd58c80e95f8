"""Scores: every piece of evidence becomes a number whose mean is the accuracy.

    ordinary label y                        1{answer = y}
    m classes ruled out, uniformly          1 - (K - 1)/m · 1{answer ruled out}
    ruled-out class drawn from T[y, ·]      T⁻¹[ruled out, answer]
    class k asked with probability π_k      f + 1{answer = k}·(verdict - f)/π_k, any guess f fixed beforehand
    the same with wrong verdicts            1{answer = k}·(verdict - φ)/((1 - μ - φ)·π_k)
    no answer                               0

Each is unbiased for 1{answer is right} if, given the truth, the label does not depend on the answer or the item (rows 2 and 3), if the
recorded
probabilities are right (rows 4 and 5), and if μ = P(no | true) and φ = P(yes | false) hold for answers that were asked about (row 5).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from noracle.bounds.betting import Score
from noracle.errors import ArgumentError


def ordinary_score(*, hit: bool, n: int = 1) -> Score:
    """Score of an ordinary label: 1 if the answer is the true class.

    Examples
    --------
    >>> ordinary_score(hit=True)
    Score(value=1.0, low=0.0, high=1.0, n=1)
    """
    return Score(float(hit), 0.0, 1.0, n)


def complementary_score(*, hit: bool, n_classes: int, n_ruled_out: int = 1, n: int = 1) -> Score:
    """Score of an item with ``n_ruled_out`` wrong classes, drawn uniformly without replacement: 1 - (K-1)/m·1{answer ruled out}.

    Examples
    --------
    >>> complementary_score(hit=True, n_classes=5).value
    -3.0
    """
    least = 1 - (n_classes - 1) / n_ruled_out
    return Score(least if hit else 1.0, least, 1.0, n)


def verification_score(*, asked_answer: bool, yes: bool, propensity: float, guess: float = 0.0) -> float:
    """Score of the question "is it class k?", asked with known probability: f + 1{answer = k}·(verdict - f)/π_k.

    Examples
    --------
    >>> round(verification_score(asked_answer=True, yes=True, propensity=0.25), 6)
    4.0
    >>> verification_score(asked_answer=False, yes=True, propensity=0.25, guess=0.7)
    0.7
    """
    return guess + (float(yes) - guess) / propensity if asked_answer else guess


def corrected_score(*, asked_answer: bool, yes: bool, propensity: float, false_no: float, false_yes: float) -> float:
    """Score of a question whose verdicts are wrong at known rates: 1{answer = k}·(verdict - φ)/((1 - μ - φ)·π_k)."""
    check_error_rates(false_no, false_yes)
    return (float(yes) - false_yes) / ((1 - false_no - false_yes) * propensity) if asked_answer else 0.0


def transition_scores(transition: Sequence[Sequence[float]] | np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Scores for ruled-out classes drawn from a known matrix: entry [ruled out, answer] of T⁻¹.

    ``transition[y][k]`` is P(class k is ruled out | the true class is y); rows sum to 1. Rows of T⁻¹ sum to 1, columns do not, so that a
    transposed matrix gives other scores unless it is symmetric.

    Examples
    --------
    >>> K = 4
    >>> uniform = (np.ones((K, K)) - np.eye(K)) / (K - 1)
    >>> np.allclose(transition_scores(uniform), np.ones((K, K)) - (K - 1) * np.eye(K))
    True
    """
    matrix = np.asarray(transition, dtype=float)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.shape[0] < 2:
        raise ArgumentError(f"transition must be a square matrix with one row per true class; got shape {matrix.shape}.")
    if not np.all(np.isfinite(matrix)) or matrix.min() < 0 or np.abs(matrix.sum(axis=1) - 1).max() > 1e-8:
        raise ArgumentError(
            f"transition must have non-negative rows that sum to 1; got row sums {np.round(matrix.sum(axis=1), 6).tolist()}. "
            "Rows are true classes, columns ruled-out classes."
        )
    condition = float(np.linalg.cond(matrix))
    if not condition < 1e10:
        raise ArgumentError(
            f"transition must be invertible; got condition number {condition:.3g}. Labels drawn this way cannot tell the classes apart."
        )
    inverse: np.ndarray[Any, Any] = np.linalg.inv(matrix)
    return inverse


def check_error_rates(false_no: float, false_yes: float) -> None:
    """Raise unless both rates are in [0, 1) and together below 1."""
    if not (0 <= false_no < 1 and 0 <= false_yes < 1 and false_no + false_yes < 1):
        raise ArgumentError(
            f"false_no + false_yes must be below 1 with both in [0, 1); got {false_no} and {false_yes}. At 1 a verdict says nothing."
        )
