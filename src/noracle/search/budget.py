"""What calls cost: prices, caps that stop a run, a projection before the first call, and the ledger
after the last.
"""

from __future__ import annotations

import dataclasses
import json
import math
import time
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from noracle.errors import ArgumentError, require
from noracle.search.model import BudgetReached, Calls, Completion, Request, Usage

MILLION = 1_000_000


@dataclasses.dataclass(frozen=True, slots=True)
class CallPrices:
    """Money per million tokens: one price for every model, or a table by model name.

    Parameters
    ----------
    input_per_million, output_per_million
        The price of every model that ``models`` does not name. NaN (the default): such a model has
        no known price.
    models
        ``{name: (input_per_million, output_per_million)}``.
    currency
        A word for reports; nothing is converted.

    Examples
    --------
    >>> CallPrices(0.5, 1.5).cost("any", Usage(1_000_000, 2_000_000))
    3.5
    >>> CallPrices(models={"small": (0.1, 0.4)}).cost("large", Usage(10, 10))
    nan
    """

    input_per_million: float = math.nan
    output_per_million: float = math.nan
    models: Mapping[str, tuple[float, float]] = dataclasses.field(default_factory=dict)
    currency: str = "USD"

    def __post_init__(self) -> None:
        own = (self.input_per_million, self.output_per_million)
        for name, (ins, outs) in {"*": own, **self.models}.items():
            bad = any(math.isinf(price) or price < 0 for price in (ins, outs))
            came = f"{ins} and {outs} for {name!r}"
            require(not bad, f"prices must be finite and at least 0; got {came}.")

    @classmethod
    def read(cls, path: str | Path) -> CallPrices:
        """Read a JSON or TOML file: ``{"model": {"input_per_million": 0.1, "output_per_million":
        0.4}, "currency": "USD"}``.

        The model ``"*"`` is every other model.
        """
        try:
            text = Path(path).read_text(encoding="utf-8")
            data = tomllib.loads(text) if Path(path).suffix == ".toml" else json.loads(text)
            currency = str(data.pop("currency", "USD"))
            ins, outs = "input_per_million", "output_per_million"
            table = {str(m): (float(p[ins]), float(p[outs])) for m, p in data.items()}
        except OSError as error:
            came = f"{str(path)!r} ({error.strerror})"
            raise ArgumentError(f"prices must be a file that can be read; got {came}.") from error
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            shape = '{"model": {"input_per_million": 0.1, "output_per_million": 0.4}}'
            came = f"{str(path)!r} is not ({type(error).__name__}: {error})"
            raise ArgumentError(f"prices must be JSON or TOML like {shape}; {came}.") from error
        other = table.pop("*", (math.nan, math.nan))
        return cls(*other, models=table, currency=currency)

    def cost(self, model: str, usage: Usage) -> float:
        """The price of these tokens; NaN where the model has none."""
        ins, outs = self.models.get(model, (self.input_per_million, self.output_per_million))
        return (ins * usage.input_tokens + outs * usage.output_tokens) / MILLION

    def reason(self, model: str) -> str:
        """Why :meth:`cost` is NaN; empty where it is not."""
        return f"no price is known for {model!r}" if math.isnan(self.cost(model, Usage())) else ""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """What was done and paid; ledgers of several callers add.

    ``calls`` were answered and paid, ``cached`` were answered without paying, ``failed`` gave no
    answer after the last try, ``retried`` counts further tries. ``usage`` is the sum over
    ``calls``; in ``estimated`` of them the server did not say, and tokens were estimated from
    characters. ``cost`` is NaN where a price is missing, and ``reason`` says which. ``failure``
    says why the last failed call failed.

    Examples
    --------
    >>> (Ledger(calls=3, usage=Usage(30, 6), cost=0.2) + Ledger(calls=1, cached=4, usage=Usage(10, 2), cost=0.1)).usage
    Usage(input_tokens=40, output_tokens=8)
    """

    calls: int = 0
    cached: int = 0
    failed: int = 0
    retried: int = 0
    estimated: int = 0
    usage: Usage = dataclasses.field(default_factory=Usage)
    cost: float = 0.0
    reason: str = ""
    currency: str = "USD"
    failure: str = ""

    def __add__(self, other: Ledger) -> Ledger:
        came = f"{self.currency} and {other.currency}"
        one = self.currency == other.currency or not (self.cost and other.cost)
        require(one, f"ledgers must be in one currency to add; got {came}.")
        names = ("calls", "cached", "failed", "retried", "estimated", "usage", "cost")
        sums: dict[str, Any] = {n: getattr(self, n) + getattr(other, n) for n in names}
        return Ledger(
            **sums,
            reason="; ".join(dict.fromkeys(r for r in (self.reason, other.reason) if r)),
            currency=self.currency if self.cost else other.currency,
            failure=other.failure or self.failure,
        )

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready; an unknown cost is null with a reason."""
        unknown = math.isnan(self.cost)
        return {
            **{n: getattr(self, n) for n in ("calls", "cached", "failed", "retried")},
            **dataclasses.asdict(self.usage),
            "calls_with_estimated_tokens": self.estimated,
            "cost": None if unknown else self.cost,
            "currency": self.currency,
            **({"reason": self.reason} if unknown else {}),
            **({"failure": self.failure} if self.failure else {}),
        }

    def __str__(self) -> str:
        about = f", of {self.estimated} calls estimated from characters" if self.estimated else ""
        line = f"{self.calls:,} calls paid, {self.cached:,} cached, {self.failed:,} failed; {self.usage.total:,} tokens{about}; "
        return line + _money(self)


def _money(said: Ledger | Projection, about: str = "") -> str:
    if math.isnan(said.cost):
        return f"cost unknown ({said.reason})"
    return f"{about}{said.cost:,.4f} {said.currency}"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Projection:
    """What a run would take at most; ``stops_at`` names the caps that it would reach.

    Examples
    --------
    >>> print(Projection(calls=1200, usage=Usage(300_000, 60_000), cost=0.24, stops_at=("calls",)))
    at most 1,200 calls, about 360,000 tokens, about 0.2400 USD; stops at the cap on calls
    """

    calls: int
    usage: Usage
    cost: float
    currency: str = "USD"
    reason: str = ""
    stops_at: tuple[str, ...] = ()

    def __str__(self) -> str:
        caps = f"; stops at the cap on {' and '.join(self.stops_at)}" if self.stops_at else ""
        tokens, money = f"about {self.usage.total:,} tokens", _money(self, "about ")
        return f"at most {self.calls:,} calls, {tokens}, {money}{caps}"


class Budget:
    """Caps on calls, tokens, money and wall-clock seconds. One budget may be shared by several
    callers.

    A cap is looked at before each try: no call starts once it is reached, so it is never passed by
    more than the calls in flight; the cap on calls is never passed at all. A try that timed out
    here may have been charged by the server, so it counts as a call. Tries that the server turned
    down do not count. Seconds run from the first call.

    Examples
    --------
    >>> budget = Budget(calls=1)
    >>> budget.reserve()
    >>> budget.reserve()
    Traceback (most recent call last):
    noracle.search.model.BudgetReached: The cap on calls (1) is reached; no further call is made. Raise it to go on.
    """

    def __init__(
        self,
        *,
        calls: int | None = None,
        tokens: int | None = None,
        cost: float | None = None,
        seconds: float | None = None,
    ) -> None:
        self.calls, self.tokens, self.cost, self.seconds = calls, tokens, cost, seconds
        for name, cap in self._caps():
            rule = "must be above 0 and finite, or None for no cap"
            require(cap > 0 and math.isfinite(cap), f"{name} {rule}; got {cap}.")
        self._done = self._open = 0
        self._usage, self._spent = Usage(), 0.0
        self._start: float | None = None

    @property
    def used(self) -> dict[str, float]:
        """What is counted so far: calls (with those in flight), tokens, cost, seconds."""
        seconds = 0.0 if self._start is None else time.monotonic() - self._start
        calls, tokens = self._done + self._open, self._usage.total
        return {"calls": calls, "tokens": tokens, "cost": self._spent, "seconds": seconds}

    @property
    def seconds_left(self) -> float:
        """Seconds until the cap; infinite where there is none."""
        return math.inf if self.seconds is None else max(0.0, self.seconds - self.used["seconds"])

    def check(self) -> None:
        """Raise :class:`BudgetReached` where a cap is reached."""
        used = self.used
        for name, cap in self._caps():
            if not used[name] < cap:  # an unknown cost (NaN) counts as reached
                said = f"The cap on {name} ({cap:g}) is reached; no further call is made."
                raise BudgetReached(f"{said} Raise it to go on.")

    def reserve(self) -> None:
        """Count one try as in flight, or raise :class:`BudgetReached`."""
        if self._start is None:
            self._start = time.monotonic()
        self.check()
        self._open += 1

    def settle(self, usage: Usage, cost: float) -> None:
        """A try in flight was answered and paid."""
        self._open -= 1
        self.add_past(1, usage, cost)

    def release(self, *, lost: bool = False) -> None:
        """A try in flight gave nothing; ``lost`` says that it may have been charged."""
        self._open -= 1
        self._done += lost

    def add_past(self, calls: int, usage: Usage, cost: float) -> None:
        """Count what an earlier part of the same run paid."""
        self._done += calls
        self._usage += usage
        self._spent += cost

    def project(
        self,
        n_items: int,
        *,
        calls_per_item: float,
        tokens_per_call: Usage,
        prices: CallPrices | None = None,
        model: str = "",
    ) -> Projection:
        """What ``n_items`` items would take, for the line that is shown before the first call.

        Examples
        --------
        >>> budget = Budget(calls=50)
        >>> print(budget.project(20, calls_per_item=5, tokens_per_call=Usage(300, 100), prices=CallPrices(0.5, 1.5)))
        at most 100 calls, about 40,000 tokens, about 0.0300 USD; stops at the cap on calls
        """
        calls = math.ceil(n_items * calls_per_item)
        usage = Usage(calls * tokens_per_call.input_tokens, calls * tokens_per_call.output_tokens)
        prices = prices or CallPrices()
        cost = prices.cost(model, usage)
        would = {"calls": calls, "tokens": usage.total, "cost": cost, "seconds": 0.0}
        used = self.used
        stops = tuple(name for name, cap in self._caps() if used[name] + would[name] > cap)
        reason = prices.reason(model) if model else "no prices were given"
        return Projection(
            calls=calls,
            usage=usage,
            cost=cost,
            currency=prices.currency,
            reason=reason if math.isnan(cost) else "",
            stops_at=stops,
        )

    def _caps(self) -> list[tuple[str, float]]:
        caps = {name: getattr(self, name) for name in ("calls", "tokens", "cost", "seconds")}
        return [(name, cap) for name, cap in caps.items() if cap is not None]


class CountedCalls:
    """Calls of a designer, counted; refused where they would eat what the final estimate needs."""

    def __init__(self, calls: Calls, most: float) -> None:
        self._calls, self._most = calls, most
        self.n, self.usage, self.refused = 0, Usage(), False

    async def call(self, request: Request) -> Completion:
        """Pass a request on."""
        if self.n >= self._most:
            self.refused = True
            why = "the rest of the budget is kept for the final estimate"
            raise BudgetReached(f"the designer has no call left: {why}")
        self.n += 1
        completion = await self._calls.call(request)
        self.usage += completion.usage
        return completion

    @property
    def cost(self) -> dict[str, int]:
        """Calls and tokens."""
        return {"calls": self.n, **dataclasses.asdict(self.usage)}
