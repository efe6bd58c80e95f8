"""What all results share: JSON, cards and plots."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self

from noracle.errors import EvidenceError
from noracle.results.guarantee import Assumption, Guarantee, Kind

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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


def number(value: Any) -> Any:
    """None as NaN."""
    return NaN if value is None else value


def _freeze(value: Any) -> Any:
    return tuple(_freeze(v) for v in value) if isinstance(value, list) else value


def _guarantee_from(data: Mapping[str, Any]) -> Guarantee:
    kind = Kind[str(data["kind"]).upper().replace("-", "_")]
    assumptions = tuple(Assumption(**a) for a in data.get("assumptions", ()))
    return Guarantee(
        kind=kind,
        error_rate=data["error_rate"],
        anytime=bool(data.get("anytime", False)),
        assumptions=assumptions,
    )


class Result:
    """What all results share: JSON, cards and plots."""

    __slots__ = ()
    schema: ClassVar[str]
    _numbers: ClassVar[tuple[str, ...]] = ()

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
            raise EvidenceError(
                f"schema must be {cls.schema!r}; got {data.get('schema')!r}. Read it with noracle.read_result."
            )
        names = {f.name for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
        values = {k: _freeze(v) for k, v in data.items() if k in names}
        for name in cls._numbers:
            if name in values:
                values[name] = number(values[name])
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


def results_dict(results: Iterable[Result]) -> dict[str, Any]:
    """Several results as one JSON object with schema ``results/1``."""
    return {"schema": "results/1", "results": [r.to_dict() for r in results]}
