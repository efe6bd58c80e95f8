"""Prices: what a label costs, in a TOML file.

[labels]                # price of one label of a kind
ordinary = 4.0
complementary = 0.5

[caps]                  # most labels of a kind, where there is a limit
ordinary = 200

[raters]                # price of one score by a rater; for budgets across raters
expert = 4.0
autorater = 0.02

[budgets.minutes]       # what one score takes of a further budget, by its name; a rater that is not there takes nothing
expert = 3.0

[costs]                 # how prices of raters add up over the raters of one item; additive if left out
model = "cascade"       # or "additive", or "maximum" (in parallel: the largest price counts)
overhead = 0.1          # paid once for each item, whatever is asked about it
output = 0.01           # cascade only: price of a word that is written …
input = 0.001           # … and of a word that is read again

[lengths]               # cascade only: how many words each rater writes
short = 100
long = 400
"""

from __future__ import annotations

import dataclasses
import math
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from noracle.errors import EvidenceError, fault, raise_faults

_TABLES = ("labels", "caps", "raters", "costs", "lengths", "budgets")
MODELS = ("additive", "maximum", "cascade")
_NUMBERS = ("overhead", "output", "input")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """Prices of labels and raters, how they add up, and how many labels of a kind can be had."""

    labels: Mapping[str, float] = dataclasses.field(default_factory=dict)
    caps: Mapping[str, int] = dataclasses.field(default_factory=dict)
    raters: Mapping[str, float] = dataclasses.field(default_factory=dict)
    model: str = "additive"
    overhead: float = 0.0
    output: float = 0.0
    input: float = 0.0
    lengths: Mapping[str, float] = dataclasses.field(default_factory=dict)
    budgets: Mapping[str, Mapping[str, float]] = dataclasses.field(default_factory=dict)


def read_prices(path: str | Path) -> Prices:
    r"""Read a TOML file of prices; all faults at once."""
    try:
        data = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        came = f"{path} ({error.strerror})"
        raise EvidenceError.of("prices", "must be a readable file", came) from None
    except UnicodeDecodeError:
        raise EvidenceError.of("prices", "must be UTF-8 text", str(path)) from None
    except tomllib.TOMLDecodeError as error:
        raise EvidenceError.of("prices", "must be TOML", f"{path}: {error}") from None
    rule = f"must have the tables {', '.join(_TABLES)} only"
    faults = [fault("prices", rule, repr(name)) for name in data if name not in _TABLES]
    tables: dict[str, dict[str, Any]] = {}
    for name in _TABLES:
        table = data.get(name, {})
        if not isinstance(table, dict):
            faults.append(fault(f"prices.{name}", "must be a table", repr(table)))
            continue
        tables[name] = table
        faults += {"costs": _cost_faults, "budgets": _budget_faults}.get(name, _faults)(name, table)
    if not data:
        faults.append(fault("prices", "must not be empty", str(path)))
    if not faults and ("lengths" in data) != (tables["costs"].get("model") == "cascade"):
        rule = "must have lengths with the model cascade, and only then"
        faults.append(fault("prices", rule, "one without the other"))
    raise_faults(faults)
    found: dict[str, Any] = {
        name: _floats(tables[name]) for name in ("labels", "raters", "lengths")
    }
    found |= {k: v if k == "model" else float(v) for k, v in tables["costs"].items()}
    found["caps"] = {k: int(v) for k, v in tables["caps"].items()}
    found["budgets"] = {name: _floats(table) for name, table in tables["budgets"].items()}
    return Prices(**found)


def _floats(table: Mapping[str, Any]) -> dict[str, float]:
    return {k: float(v) for k, v in table.items()}


_POSITIVE, _FROM_0 = "must be a positive number", "must be a number of at least 0"
_WHOLE = "must be a whole number of at least 0"


def _faults(table: str, prices: Mapping[str, Any], rule: str = _POSITIVE) -> list[str]:
    """The numbers of a table that break its rule."""
    rule = _WHOLE if table == "caps" else rule
    wrong = {key: value for key, value in prices.items() if not _is_sound(value, rule)}
    return [fault(f"prices.{table}.{key}", rule, repr(value)) for key, value in wrong.items()]


def _is_sound(value: object, rule: str) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return False
    return value >= 0 and {_WHOLE: value == int(value), _POSITIVE: value > 0}.get(rule, True)


def _cost_faults(name: str, table: Mapping[str, Any]) -> list[str]:
    """What is wrong with the table that says how prices add up."""
    faults = []
    for key, value in table.items():
        if key == "model" and value not in MODELS:
            rule = f"must be one of {', '.join(MODELS)}"
            faults.append(fault("prices.costs.model", rule, repr(value)))
        elif key in _NUMBERS:
            faults += _faults(name, {key: value}, _FROM_0)
        elif key != "model":
            rule = f"must have model, {', '.join(_NUMBERS)} only"
            faults.append(fault("prices.costs", rule, repr(key)))
    cascade = table.get("model") == "cascade"
    if cascade != ("output" in table) or ("input" in table and not cascade):
        rule = "must have output, and may have input, with the model cascade and only then"
        faults.append(fault("prices.costs", rule, repr(dict(table))))
    return faults


def _budget_faults(name: str, table: Mapping[str, Any]) -> list[str]:
    """What is wrong with the tables of further budgets; a price there may be 0."""
    faults = []
    for budget, prices in table.items():
        if isinstance(prices, dict) and prices:
            faults += _faults(f"{name}.{budget}", prices, _FROM_0)
        else:
            what = f"prices.budgets.{budget}"
            faults.append(fault(what, "must be a table of prices", repr(prices)))
    return faults
