"""What a result promises and what the promise rests on."""

from __future__ import annotations

import dataclasses
import enum
import math
from typing import TYPE_CHECKING, Literal

from noracle.errors import AssumptionError

if TYPE_CHECKING:
    from noracle.results.check import Check

Status = Literal["by-design", "checked", "assumed", "failed"]
FAILED_BELOW = 1e-3
"""A check with a smaller p-value has failed."""


class Kind(enum.IntEnum):
    """How strong a promise is; a larger number is stronger.

    ``LOGICAL`` follows from the counts for every possible answer key. ``FINITE_SAMPLE`` has coverage of at least ``confidence`` at
    every n. ``ASYMPTOTIC`` tends to ``confidence`` as n grows. ``HEURISTIC`` promises nothing.

    Examples
    --------
    >>> Kind.FINITE_SAMPLE > Kind.ASYMPTOTIC, Kind.FINITE_SAMPLE.label
    (True, 'finite-sample')
    """

    HEURISTIC = 0
    ASYMPTOTIC = 1
    FINITE_SAMPLE = 2
    LOGICAL = 3

    @property
    def label(self) -> str:
        """The name as cards print it."""
        return self.name.lower().replace("_", "-")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Assumption:
    """One thing that a result rests on, and how we know it.

    Examples
    --------
    >>> print(Assumption(name="uniform routing", status="checked", p_value=0.41))
    uniform routing (checked, p = 0.41)
    """

    name: str
    status: Status = "assumed"
    detail: str = ""
    p_value: float | None = None

    def __str__(self) -> str:
        inside = self.status if self.p_value is None else f"{self.status}, p = {self.p_value:.2g}"
        return f"{self.name} ({inside})"


# From weakest to strongest: joining two results keeps the weaker status of the same assumption.
_STATUS_ORDER: dict[str, int] = {"failed": 0, "assumed": 1, "checked": 2, "by-design": 3}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Guarantee:
    """What an interval promises and what the promise rests on.

    ``a & b`` is the promise that both hold together: the weaker kind, assumptions joined with the weaker status, error rates added.

    Examples
    --------
    >>> a = Guarantee(kind=Kind.FINITE_SAMPLE, error_rate=0.05, assumptions=(Assumption(name="iid items"),))
    >>> b = Guarantee(kind=Kind.ASYMPTOTIC, error_rate=0.01)
    >>> (a & b).kind.label, round((a & b).error_rate, 3)
    ('asymptotic', 0.06)
    """

    kind: Kind
    error_rate: float
    anytime: bool = False
    assumptions: tuple[Assumption, ...] = ()

    def __and__(self, other: Guarantee) -> Guarantee:
        joined: dict[str, Assumption] = {}
        for a in (*self.assumptions, *other.assumptions):
            known = joined.get(a.name)
            if known is None or _STATUS_ORDER[a.status] < _STATUS_ORDER[known.status]:
                joined[a.name] = a
        return Guarantee(
            kind=min(self.kind, other.kind),
            error_rate=min(1.0, self.error_rate + other.error_rate),
            anytime=self.anytime and other.anytime,
            assumptions=tuple(joined.values()),
        )

    def given(self, *checks: Check, strict: bool = False) -> Guarantee:
        """The same promise after checks: a check that fails at p < 1e-3 makes it HEURISTIC, or raises if ``strict``."""
        assumptions = {a.name: a for a in self.assumptions}
        kind = self.kind
        for check in checks:
            if math.isnan(check.p_value):
                continue
            failed = check.p_value < FAILED_BELOW
            if check.refutes_only and not failed:
                continue
            if failed and strict:
                raise AssumptionError(f"{check.name} failed (p = {check.p_value:.2g}): {check.finding}")
            status: Status = "failed" if failed else "checked"
            assumptions[check.assumption] = Assumption(name=check.assumption, status=status, detail=check.finding, p_value=check.p_value)
            if failed:
                kind = Kind.HEURISTIC
        return dataclasses.replace(self, kind=kind, assumptions=tuple(assumptions.values()))
