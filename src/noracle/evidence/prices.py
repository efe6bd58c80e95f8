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

from noracle.errors import EvidenceError, fault

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
    r"""Read a TOML file of prices; all faults at once.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "prices.toml")
    ...     _ = file.write_text("[labels]\nordinary = 4\ncomplementary = 0.5\n", encoding="utf-8")
    ...     read_prices(file).labels["complementary"]
    0.5
    """
    try:
        data = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise EvidenceError.of(
            "prices", "must be a readable file", f"{path} ({error.strerror})"
        ) from None
    except UnicodeDecodeError:
        raise EvidenceError.of("prices", "must be UTF-8 text", str(path)) from None
    except tomllib.TOMLDecodeError as error:
        raise EvidenceError.of("prices", "must be TOML", f"{path}: {error}") from None
    faults = [
        fault("prices", f"must have the tables {', '.join(_TABLES)} only", repr(name))
        for name, t in data.items()
        if name not in _TABLES
    ]
    tables: dict[str, dict[str, Any]] = {}
    for name in _TABLES:
        table = data.get(name, {})
        if not isinstance(table, dict):
            faults.append(fault(f"prices.{name}", "must be a table", repr(table)))
            continue
        tables[name] = table
        if name == "costs":
            faults += _cost_faults(table)
        elif name == "budgets":
            faults += _budget_faults(table)
        else:
            faults += [_fault(name, k, v) for k, v in table.items() if not _is_sound(name, v)]
    if not data:
        faults.append(fault("prices", "must not be empty", str(path)))
    if not faults and ("lengths" in data) != (tables["costs"].get("model") == "cascade"):
        rule = "must have lengths with the model cascade, and only then"
        faults.append(fault("prices", rule, "one without the other"))
    if faults:
        raise EvidenceError(*faults)
    costs = tables["costs"]
    return Prices(
        labels={k: float(v) for k, v in tables["labels"].items()},
        caps={k: int(v) for k, v in tables["caps"].items()},
        raters={k: float(v) for k, v in tables["raters"].items()},
        model=costs.get("model", "additive"),
        overhead=float(costs.get("overhead", 0.0)),
        output=float(costs.get("output", 0.0)),
        input=float(costs.get("input", 0.0)),
        lengths={k: float(v) for k, v in tables["lengths"].items()},
        budgets={
            name: {k: float(v) for k, v in table.items()}
            for name, table in tables["budgets"].items()
        },
    )


def _cost_faults(table: Mapping[str, Any]) -> list[str]:
    """What is wrong with the table that says how prices add up."""
    faults = []
    for key, value in table.items():
        if key == "model":
            if value not in MODELS:
                faults.append(
                    fault("prices.costs.model", f"must be one of {', '.join(MODELS)}", repr(value))
                )
        elif key not in _NUMBERS:
            faults.append(
                fault("prices.costs", f"must have model, {', '.join(_NUMBERS)} only", repr(key))
            )
        elif (
            isinstance(value, bool)
            or not isinstance(value, (int, float))
            or not (math.isfinite(value) and value >= 0)
        ):
            faults.append(
                fault(f"prices.costs.{key}", "must be a number of at least 0", repr(value))
            )
    cascade = table.get("model") == "cascade"
    if cascade != ("output" in table) or ("input" in table and not cascade):
        rule = "must have output, and may have input, with the model cascade and only then"
        faults.append(fault("prices.costs", rule, repr(dict(table))))
    return faults


def _budget_faults(table: Mapping[str, Any]) -> list[str]:
    """What is wrong with the tables of further budgets; a price there may be 0."""
    faults = []
    for name, prices in table.items():
        if not isinstance(prices, dict) or not prices:
            faults.append(
                fault(f"prices.budgets.{name}", "must be a table of prices", repr(prices))
            )
            continue
        for key, value in prices.items():
            if (
                isinstance(value, bool)
                or not isinstance(value, (int, float))
                or not (math.isfinite(value) and value >= 0)
            ):
                rule = "must be a number of at least 0"
                faults.append(fault(f"prices.budgets.{name}.{key}", rule, repr(value)))
    return faults


def _is_sound(table: str, value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return False
    return value >= 0 and (value == int(value) if table == "caps" else value > 0)


def _fault(table: str, key: str, value: object) -> str:
    rule = (
        "must be a whole number of at least 0" if table == "caps" else "must be a positive number"
    )
    return fault(f"prices.{table}.{key}", rule, repr(value))
