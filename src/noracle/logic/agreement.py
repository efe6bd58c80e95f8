"""Error rates out of agreement rates alone: the equations of Platanios and others, in their right
form and as printed.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Literal

from noracle.errors import ArgumentError

Number = Fraction | float
AgreementStatus = Literal["solved", "degenerate", "complex", "outside"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AgreementSolution:
    """Error rates of three classifiers out of their agreements: both branches, which swap e and 1 −
    e; empty unless they are real.
    """

    status: AgreementStatus
    error_rates: tuple[tuple[Number, Number, Number], ...]
    product: Number


def solve_agreement(
    agreement: Sequence[Number], *, form: Literal["corrected", "printed"] = "corrected"
) -> AgreementSolution:
    """Error rates e_i out of the agreement rates a_12, a_13, a_23, as Platanios and others do for
    independent errors.

    If e_{i,j} = e_i e_j, then 2a_{i,j} − 1 = (1 − 2e_i)(1 − 2e_j), so e_i = (1 ∓ c/(2a_{j,k} −
    1))/2 with c² = Π(2a − 1). The printed form (Eq. 57, 58) has 1 − 2a in place of 2a − 1: then c²
    < 0 for any three classifiers better than a coin.

    Assumes that a pair is wrong together as often as e_i e_j *over all items*. Errors that are
    independent for each label do not obey this (Eq. 59, 60), unless each classifier errs equally
    often on both labels. :func:`noracle.logic.independent.solve_trio` needs no such rule.

    Examples
    --------
    >>> from fractions import Fraction
    >>> rates = [Fraction(1, 10), Fraction(1, 5), Fraction(3, 10)]
    >>> a = [1 - x - y + 2 * x * y for x, y in ((rates[0], rates[1]), (rates[0], rates[2]), (rates[1], rates[2]))]
    >>> solve_agreement(a).error_rates[0] == tuple(rates)
    True
    >>> solve_agreement(a, form="printed").status
    'complex'
    """
    if form not in ("corrected", "printed"):
        raise ArgumentError(f"form must be 'corrected' or 'printed'; got {form!r}.")
    if len(agreement) != 3 or not all(0 <= a <= 1 for a in agreement):
        raise ArgumentError(
            f"agreement must be the three rates a_12, a_13, a_23 in [0, 1]; got {list(agreement)}."
        )
    exact: list[Any] = [a if isinstance(a, (int, Fraction)) else float(a) for a in agreement]
    sign = 1 if form == "corrected" else -1
    m12, m13, m23 = (sign * (2 * a - 1) for a in exact)
    product = m12 * m13 * m23
    if product <= 0:
        return AgreementSolution(
            status="complex" if product < 0 else "degenerate", error_rates=(), product=product
        )
    c = root(product)
    branches = tuple(tuple((1 - s * c / m) / 2 for m in (m23, m13, m12)) for s in (1, -1))
    inside = all(0 <= e <= 1 for branch in branches for e in branch)
    return AgreementSolution(
        status="solved" if inside else "outside", error_rates=branches, product=product
    )


def root(square: Number) -> Number:
    """√square as a Fraction where that is exact, else as a float.

    Examples
    --------
    >>> root(Fraction(9, 4)), root(Fraction(1, 2))
    (Fraction(3, 2), 0.7071067811865476)
    """
    if isinstance(square, float):
        return math.sqrt(square)
    up, down = math.isqrt(square.numerator), math.isqrt(square.denominator)
    if up * up == square.numerator and down * down == square.denominator:
        return Fraction(up, down)
    shift = max(0, 128 - square.numerator.bit_length() + square.denominator.bit_length())
    shift += shift % 2
    scaled = math.isqrt((square.numerator << shift) // square.denominator)
    return float(Fraction(scaled, 1 << (shift // 2)))
