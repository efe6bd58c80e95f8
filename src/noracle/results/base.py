"""What all results share: JSON, cards and plots."""

from __future__ import annotations

import dataclasses
import enum
import functools
import itertools
import json
import math
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, get_args, get_origin

from noracle.errors import ArgumentError, AssumptionError, EvidenceError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from noracle.results.check import Check

Status = Literal["by-design", "checked", "assumed", "failed"]
FAILED_BELOW = 1e-3
"""A check with a smaller p-value has failed."""


class Kind(enum.IntEnum):
    """How strong a promise is; a larger number is stronger.

    ``LOGICAL`` follows from the counts for every possible answer key. ``FINITE_SAMPLE`` has
    coverage of at least ``confidence`` at every n. ``ASYMPTOTIC`` tends to ``confidence`` as n
    grows. ``HEURISTIC`` promises nothing.

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

    ``a & b`` is the promise that both hold together: the weaker kind, assumptions joined with the
    weaker status, error rates added.

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
        """The same promise after checks: a failed assumption makes it HEURISTIC; a failed check
        raises if ``strict``.

        All checks of one assumption are joined: with m p-values the assumption fails if m times the
        smallest is below 1e-3 (Holm's first step), and that product, at most 1, is the p-value
        shown. The worst status stays: failed before checked before assumed, also against what the
        promise already says; by-design gives way only to a failure. The order of the checks does
        not matter.

        Parameters
        ----------
        checks
            Those without a p-value say nothing. One that can only refute is counted among the m,
            but its pass checks nothing.
        strict
            Raise AssumptionError that names every check that Holm's procedure rejects.

        Notes
        -----
        If an assumption holds, it is called failed with probability of at most 1e-3, however many
        checks look at it and however they depend on each other. Checks that are handed over one
        call at a time are not joined in this way: hand them over together.

        References
        ----------
        Holm (1979), "A simple sequentially rejective multiple test procedure", Scandinavian Journal
        of Statistics 6, 65-70.

        Examples
        --------
        >>> from noracle.results import Check
        >>> def check(p_value: float) -> Check:
        ...     return Check(name="routing", assumption="uniform routing", p_value=p_value, statistic=0.0, finding="…", method="…")
        >>> promise = Guarantee(kind=Kind.FINITE_SAMPLE, error_rate=0.05)
        >>> print(*promise.given(check(0.2), check(0.01)).assumptions)
        uniform routing (checked, p = 0.02)
        >>> after = promise.given(check(1e-6), check(0.9))
        >>> after.kind.label, after == promise.given(check(0.9), check(1e-6))
        ('heuristic', True)
        """
        failed = failed_checks(checks)
        if failed and strict:
            told = [f"{c.name} failed (p = {c.p_value:.2g}): {c.finding}" for c in failed]
            raise AssumptionError("; ".join(told))
        joined: dict[str, Assumption] = {}
        for a in self.assumptions:
            joined[a.name] = _worse(joined[a.name], a) if a.name in joined else a
        groups = _by_assumption(checks)
        for name in sorted(groups):
            found = _joint(name, groups[name])
            if found is None:
                continue
            known = joined.get(name)
            if known is None or (found.status == "checked" and known.status == "assumed"):
                joined[name] = found
            elif found.status == "failed" or known.status == "checked":
                joined[name] = _worse(known, found)
        kind = Kind.HEURISTIC if any(a.status == "failed" for a in joined.values()) else self.kind
        return dataclasses.replace(self, kind=kind, assumptions=tuple(joined.values()))


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusted p-values: the i-th smallest of m times m - i + 1, rising, at most 1.

    Examples
    --------
    >>> holm([0.25, 0.01])
    [0.25, 0.02]
    """
    adjusted, largest = [0.0] * len(p_values), 0.0
    for rank, i in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[i]))
        adjusted[i] = largest
    return adjusted


def failed_checks(checks: Iterable[Check]) -> tuple[Check, ...]:
    """The checks that Holm's procedure rejects at 1e-3, by assumption, smallest p-value first."""
    failed: list[Check] = []
    for group in _by_assumption(checks).values():
        adjusted = holm([c.p_value for c in group])
        failed += [c for c, p in zip(group, adjusted, strict=True) if p < FAILED_BELOW]
    return tuple(failed)


def _by_assumption(checks: Iterable[Check]) -> dict[str, list[Check]]:
    """The checks with a p-value, by assumption, smallest first, in an order that is theirs alone."""
    groups: dict[str, list[Check]] = {}
    told = [check for check in checks if not math.isnan(check.p_value)]  # NaN would spoil the order
    for check in sorted(told, key=lambda c: (c.assumption, c.p_value, c.name, c.finding)):
        groups.setdefault(check.assumption, []).append(check)
    return groups


def _joint(name: str, group: Sequence[Check]) -> Assumption | None:
    """What the sorted checks of one assumption say; None if they can only refute and do not."""
    p_value = holm([c.p_value for c in group])[0]
    if p_value < FAILED_BELOW:
        return Assumption(name=name, status="failed", detail=group[0].finding, p_value=p_value)
    telling = next((c for c in group if not c.refutes_only), None)
    if telling is None:
        return None
    return Assumption(name=name, status="checked", detail=telling.finding, p_value=p_value)


def _worse(a: Assumption, b: Assumption) -> Assumption:
    """The weaker status; of two equal ones the smaller p-value, and one without a p-value before both."""

    def rank(x: Assumption) -> tuple[int, float]:
        return _STATUS_ORDER[x.status], -1.0 if x.p_value is None else x.p_value

    return b if rank(b) < rank(a) else a


# ----------------------------------------------------------------------------
# Arguments that every estimator takes.


Side = Literal["two-sided", "lower", "upper"]


def check_confidence(confidence: float) -> float:
    """Return ``confidence`` if it lies strictly between 0 and 1."""
    if not (isinstance(confidence, (int, float)) and 0 < confidence < 1):
        rule = f"must be in (0, 1); got {confidence!r}. For 95 % pass 0.95."
        raise ArgumentError(f"confidence {rule}")
    return float(confidence)


def tails(confidence: float, side: Side) -> tuple[float, float]:
    """The error rate spent below and above: half each, or all on one side."""
    error = 1 - check_confidence(confidence)
    if side not in ("two-sided", "lower", "upper"):
        raise ArgumentError(f"side must be 'two-sided', 'lower' or 'upper'; got {side!r}.")
    return {"two-sided": (error / 2, error / 2), "lower": (error, 0.0), "upper": (0.0, error)}[side]


def choose(argument: str, value: str, allowed: Sequence[str]) -> str:
    """Return ``value`` if it is one of ``allowed``."""
    if value not in allowed:
        raise ArgumentError(f"{argument} must be one of {', '.join(allowed)}; got {value!r}.")
    return value


# ----------------------------------------------------------------------------


NaN = float("nan")


def encode(value: Any) -> Any:
    """Plain JSON values; NaN and infinities become None."""
    if isinstance(value, Kind):
        return value.label
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: encode(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(k): encode(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [encode(v) for v in value]
    if hasattr(value, "item") and callable(value.item) and getattr(value, "ndim", 0) == 0:
        value = value.item()  # a numpy scalar
    if hasattr(value, "tolist") and callable(value.tolist):
        return encode(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


@functools.cache
def _hints(kind: Any) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def decode(kind: Any, value: Any) -> Any:
    """What :func:`encode` made of a value of this type; fields of later versions are ignored."""
    home, inside = get_origin(kind), get_args(kind)
    if isinstance(kind, types.UnionType):
        several = isinstance(value, list)
        fits = (one for one in inside if (get_origin(one) is tuple) is several)
        return None if value is None else decode(next(fits, object), value)
    if home is tuple:
        each = itertools.repeat(inside[0]) if inside[-1] is ... else inside
        return tuple(map(decode, each, _held(value, list)))
    if home is Mapping:
        return {name: decode(inside[1], entry) for name, entry in _held(value, Mapping).items()}
    if kind is Kind:
        return Kind[value.upper().replace("-", "_")]
    if kind is Result:
        from noracle.results import read_result

        return read_result(value)
    if isinstance(kind, type) and dataclasses.is_dataclass(kind) and not isinstance(value, kind):
        hints, known = _hints(kind), {f.name for f in dataclasses.fields(kind)}
        told = _held(value, Mapping).items()
        return kind(**{name: decode(hints[name], entry) for name, entry in told if name in known})
    return NaN if value is None and kind is float else value


def _held(value: Any, kind: Any) -> Any:
    """The value, if it is a list (or a tuple) or a mapping as it must be."""
    if not isinstance(value, (kind, tuple) if kind is list else kind):
        raise TypeError(f"must be a {kind.__name__.lower()}; got {type(value).__name__}")
    return value


class Result:
    """What all results share: JSON, cards and plots."""

    __slots__ = ()
    schema: ClassVar[str]

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values with ``"schema"`` first; undefined numbers are None and ``reason`` says
        why.
        """
        return {"schema": self.schema, **encode(self)}

    def to_json(self, *, indent: int | None = None) -> str:
        """The same as :meth:`to_dict`, as text that every JSON reader accepts."""
        return json.dumps(self.to_dict(), allow_nan=False, ensure_ascii=False, indent=indent)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Read back what :meth:`to_dict` wrote; unknown fields of later minor versions are ignored."""
        if data.get("schema") != cls.schema:
            came = f"got {data.get('schema')!r}. Read it with noracle.read_result."
            raise EvidenceError(f"schema must be {cls.schema!r}; {came}")
        found: Self = decode(cls, cls._revive(dict(data)))
        return found

    @classmethod
    def _revive(cls, values: dict[str, Any]) -> dict[str, Any]:
        """The values with those made that their type alone does not tell."""
        return values

    def __str__(self) -> str:
        from noracle.report.card import card

        return card(self)

    def _repr_html_(self) -> str:
        from noracle.report.card import html_card

        return html_card(self)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the result on ``ax`` (or a new one) and return the Axes."""
        from noracle.report.plots import plot

        return plot(self, ax)


def results_dict(results: Iterable[Result]) -> dict[str, Any]:
    """Several results as one JSON object with schema ``results/1``."""
    return {"schema": "results/1", "results": [r.to_dict() for r in results]}
