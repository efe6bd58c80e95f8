"""What estimators return: frozen objects that carry their guarantee.

    Estimate     a number with an interval                     estimate_*
    Comparison   differences of systems and their ranking      compare_*, race_*
    Plan         what to buy next, with a verify()             plan_*
    Check        does the evidence look as it should?          check_*
    Ranges       what is possible, without probability         range_*
    Routing      the questions to ask, with propensities       route_*

``repr`` is one line, ``str`` a card, ``to_dict``/``from_dict`` JSON with a ``"schema"``. An undefined number is NaN in Python,
``null`` with a ``reason`` in JSON.
"""

from __future__ import annotations

import dataclasses
import enum
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from noracle._version import __version__
from noracle.errors import ArgumentError, AssumptionError, EvidenceError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Side = Literal["two-sided", "lower", "upper"]
Status = Literal["by-design", "checked", "assumed", "failed"]
NaN = float("nan")


class Kind(enum.IntEnum):
    """How strong a promise is; a larger number is stronger.

    ``LOGICAL`` follows from the counts for every possible answer key. ``FINITE_SAMPLE`` has coverage of at least ``confidence`` at
    every n. ``ASYMPTOTIC`` tends to ``confidence`` as n grows. ``HEURISTIC`` promises nothing.
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
    """One thing that a result rests on, and how we know it."""

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


FAILED_BELOW = 1e-3


def _encode(value: Any) -> Any:
    """Plain JSON values; NaN and infinities become None."""
    if isinstance(value, Kind):
        return value.label
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: _encode(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(k): _encode(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_encode(v) for v in value]
    if hasattr(value, "item") and callable(value.item) and getattr(value, "ndim", 0) == 0:
        value = value.item()  # a numpy scalar
    if hasattr(value, "tolist") and callable(value.tolist):
        return _encode(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _number(value: Any) -> Any:
    return NaN if value is None else value


def _freeze(value: Any) -> Any:
    return tuple(_freeze(v) for v in value) if isinstance(value, list) else value


def _guarantee_from(data: Mapping[str, Any]) -> Guarantee:
    kind = Kind[str(data["kind"]).upper().replace("-", "_")]
    assumptions = tuple(Assumption(**a) for a in data.get("assumptions", ()))
    return Guarantee(kind=kind, error_rate=data["error_rate"], anytime=bool(data.get("anytime", False)), assumptions=assumptions)


class _Result:
    """What all results share: JSON, cards and plots."""

    __slots__ = ()
    schema: ClassVar[str]
    _numbers: ClassVar[tuple[str, ...]] = ()

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values with ``"schema"`` first; undefined numbers are None and ``reason`` says why."""
        return {"schema": self.schema, **_encode(self)}

    def to_json(self, *, indent: int | None = None) -> str:
        """The same as :meth:`to_dict`, as text that every JSON reader accepts."""
        return json.dumps(self.to_dict(), allow_nan=False, ensure_ascii=False, indent=indent)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Read back what :meth:`to_dict` wrote; unknown fields of later minor versions are ignored."""
        if data.get("schema") != cls.schema:
            raise EvidenceError(f"schema must be {cls.schema!r}; got {data.get('schema')!r}. Read it with noracle.read_result.")
        names = {f.name for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
        values = {k: _freeze(v) for k, v in data.items() if k in names}
        for name in cls._numbers:
            if name in values:
                values[name] = _number(values[name])
        if "guarantee" in values:
            values["guarantee"] = _guarantee_from(data["guarantee"])
        return cls(**cls._revive(values))

    @classmethod
    def _revive(cls, values: dict[str, Any]) -> dict[str, Any]:
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


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Estimate(_Result):
    """A number with an interval and the promise behind it.

    ``value`` may lie outside [0, 1] where the estimator is not clipped; ``low`` and ``high`` never do for an accuracy.
    """

    schema: ClassVar[str] = "estimate/1"
    _numbers: ClassVar[tuple[str, ...]] = ("value", "low", "high", "se")

    quantity: str
    subject: str
    value: float
    low: float
    high: float
    confidence: float
    method: str
    interval: str
    guarantee: Guarantee
    side: Side = "two-sided"
    se: float = NaN
    counts: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    diagnostics: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    notes: tuple[str, ...] = ()
    reason: str = ""
    version: str = __version__

    @property
    def width(self) -> float:
        """``high - low``."""
        return self.high - self.low

    def __repr__(self) -> str:
        return (
            f"Estimate({self.quantity} of {self.subject!r}: {self.value:.4g} [{self.low:.4g}, {self.high:.4g}] "
            f"at {self.confidence:g}, {self.interval}, {self.guarantee.kind.label})"
        )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Accuracy of ``first`` minus accuracy of ``second`` on the same labels."""

    first: str
    second: str
    value: float
    low: float
    high: float
    n: int = 0

    @property
    def verdict(self) -> Literal["first", "second", "not separable"]:
        """Who is better, if the interval says so."""
        return "first" if self.low > 0 else "second" if self.high < 0 else "not separable"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Rank:
    """The places that a system can hold, given all differences at once."""

    system: str
    best: int
    worst: int
    value: float


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Comparison(_Result):
    """Differences of systems, simultaneous at ``confidence``, and the ranking that follows.

    ``leaders`` are the systems that nobody is certainly better than. ``dropped`` (races only) says after how many labels a
    system was certainly not the best.
    """

    schema: ClassVar[str] = "comparison/1"

    systems: tuple[str, ...]
    differences: tuple[Difference, ...]
    ranks: tuple[Rank, ...]
    leaders: tuple[str, ...]
    confidence: float
    method: str
    interval: str
    guarantee: Guarantee
    dropped: Mapping[str, int] = dataclasses.field(default_factory=dict)
    counts: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    diagnostics: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    notes: tuple[str, ...] = ()
    reason: str = ""
    version: str = __version__

    @classmethod
    def _revive(cls, values: dict[str, Any]) -> dict[str, Any]:
        def numbers(row: Mapping[str, Any]) -> dict[str, Any]:
            return {k: _number(v) for k, v in row.items()}

        values["differences"] = tuple(Difference(**numbers(d)) for d in values["differences"])
        values["ranks"] = tuple(Rank(**numbers(r)) for r in values["ranks"])
        return values

    def difference(self, first: str, second: str) -> Difference:
        """The difference ``first - second``, whichever way round it is stored."""
        for d in self.differences:
            if (d.first, d.second) == (first, second):
                return d
            if (d.first, d.second) == (second, first):
                return Difference(first=first, second=second, value=-d.value, low=-d.high, high=-d.low, n=d.n)
        raise ArgumentError(f"systems must be two of {list(self.systems)}; got {first!r} and {second!r}.")

    def __repr__(self) -> str:
        promise = f"at {self.confidence:g}, {self.interval}, {self.guarantee.kind.label}"
        return f"Comparison({len(self.systems)} systems, leaders {list(self.leaders)}, {promise})"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Plan(_Result):
    """What to buy next: counts by kind of label, what they cost, and what they will give.

    ``goal`` is the wanted number (for example a half-width of 0.02), ``predicted`` the number the plan gives. ``verify()`` recomputes
    the prediction in another way than the planner did.
    """

    schema: ClassVar[str] = "plan/1"
    _numbers: ClassVar[tuple[str, ...]] = ("predicted", "cost", "wanted")

    goal: str
    wanted: float
    predicted: float
    buy: Mapping[str, int]
    cost: float
    confidence: float
    method: str
    interval: str
    guarantee: Guarantee
    inputs: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    alternatives: tuple[Mapping[str, Any], ...] = ()
    diagnostics: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    notes: tuple[str, ...] = ()
    reason: str = ""
    version: str = __version__

    def verify(self) -> bool:
        """Recompute what the plan promises without the code that made it; True if the promise holds."""
        if self.inputs.get("planner") == "budget":
            from noracle.ppi.verify import verify_budget_plan

            return verify_budget_plan(self)
        from noracle.accuracy.plan import verify_plan

        return verify_plan(self)

    def __repr__(self) -> str:
        bought = ", ".join(f"{n} {kind}" for kind, n in self.buy.items())
        return f"Plan({self.goal} {self.wanted:g}: buy {bought}; predicted {self.predicted:.4g}, cost {self.cost:g})"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Check(_Result):
    """Does the evidence look as the assumption says it should?

    ``passed`` is ``p_value >= threshold``; a check without enough evidence has p NaN, passes, and says so in ``finding``.
    ``refutes_only`` says that a pass proves nothing, because faults can cancel.
    """

    schema: ClassVar[str] = "check/1"
    _numbers: ClassVar[tuple[str, ...]] = ("p_value", "statistic", "threshold")

    name: str
    assumption: str
    p_value: float
    statistic: float
    finding: str
    method: str
    threshold: float = FAILED_BELOW
    refutes_only: bool = False
    parts: tuple[Mapping[str, Any], ...] = ()
    counts: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    diagnostics: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    notes: tuple[str, ...] = ()
    reason: str = ""
    version: str = __version__

    @property
    def passed(self) -> bool:
        """False only if the evidence speaks against the assumption."""
        return math.isnan(self.p_value) or self.p_value >= self.threshold

    def __repr__(self) -> str:
        return f"Check({self.name}: {'passed' if self.passed else 'FAILED'}, p = {self.p_value:.3g})"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """The smallest and the largest possible value of one quantity."""

    name: str
    low: float
    high: float


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Ranges(_Result):
    """What remains possible for some quantities, whatever the unknown part is; ``subject`` says what they are about."""

    schema: ClassVar[str] = "ranges/1"

    ranges: tuple[Range, ...]
    method: str
    subject: str = ""
    guarantee: Guarantee
    counts: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    diagnostics: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    notes: tuple[str, ...] = ()
    reason: str = ""
    version: str = __version__

    @classmethod
    def _revive(cls, values: dict[str, Any]) -> dict[str, Any]:
        values["ranges"] = tuple(Range(**{k: _number(v) for k, v in r.items()}) for r in values["ranges"])
        return values

    def __getitem__(self, name: str) -> Range:
        for r in self.ranges:
            if r.name == name:
                return r
        raise ArgumentError(f"name must be one of {[r.name for r in self.ranges]}; got {name!r}.")

    def __repr__(self) -> str:
        inside = ", ".join(f"{r.name} [{r.low:.4g}, {r.high:.4g}]" for r in self.ranges[:4])
        return f"Ranges({inside}{', …' if len(self.ranges) > 4 else ''})"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Routing(_Result):
    """The questions to ask, in the order to ask them: is this item of this class?

    ``rows`` are (item, class, propensity); they are the ``judgements`` table without its verdicts.
    """

    schema: ClassVar[str] = "routing/1"

    rows: tuple[tuple[Any, Any, float], ...]
    design: str
    epsilon: float
    seed: int
    systems: tuple[str, ...] = ()
    counts: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    notes: tuple[str, ...] = ()
    reason: str = ""
    version: str = __version__

    def columns(self) -> dict[str, list[Any]]:
        """The rows as columns ``item``, ``class``, ``propensity``, for any data frame."""
        items, classes, propensities = (list(c) for c in zip(*self.rows, strict=True)) if self.rows else ([], [], [])
        return {"item": items, "class": classes, "propensity": propensities}

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        return f"Routing({len(self.rows)} questions, {self.design}, seed {self.seed})"


RESULT_TYPES: dict[str, type[_Result]] = {c.schema: c for c in (Estimate, Comparison, Plan, Check, Ranges, Routing)}


def read_result(data: Mapping[str, Any]) -> _Result:
    """Read any result back from its JSON values, by its ``"schema"``.

    Examples
    --------
    >>> check = Check(name="demo", assumption="uniform routing", p_value=0.4, statistic=1.0, finding="fine", method="exact")
    >>> read_result(check.to_dict()) == check
    True
    """
    schema = data.get("schema")
    if schema not in RESULT_TYPES:
        raise EvidenceError(f"schema must be one of {sorted(RESULT_TYPES)}; got {schema!r}. It may come from a newer noracle.")
    return RESULT_TYPES[str(schema)].from_dict(data)


def results_dict(results: Iterable[_Result]) -> dict[str, Any]:
    """Several results as one JSON object with schema ``results/1``."""
    return {"schema": "results/1", "results": [r.to_dict() for r in results]}


def check_confidence(confidence: float) -> float:
    """Return ``confidence`` if it lies strictly between 0 and 1."""
    if not (isinstance(confidence, (int, float)) and 0 < confidence < 1):
        raise ArgumentError(f"confidence must be in (0, 1); got {confidence!r}. For 95 % pass 0.95.")
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
