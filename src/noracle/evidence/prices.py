"""Prices: what a label costs, in a TOML file.

[labels]                # price of one label of a kind
ordinary = 4.0
complementary = 0.5

[caps]                  # most labels of a kind, where there is a limit
ordinary = 200

[raters]                # price of one score by a rater; for budgets across raters
expert = 4.0
autorater = 0.02
"""

from __future__ import annotations

import dataclasses
import math
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from noracle.errors import EvidenceError, fault

_TABLES = ("labels", "caps", "raters")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """Prices of labels and raters, and how many labels of a kind can be had."""

    labels: Mapping[str, float] = dataclasses.field(default_factory=dict)
    caps: Mapping[str, int] = dataclasses.field(default_factory=dict)
    raters: Mapping[str, float] = dataclasses.field(default_factory=dict)


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
        raise EvidenceError(fault("prices", "must be a readable file", f"{path} ({error.strerror})")) from None
    except UnicodeDecodeError:
        raise EvidenceError(fault("prices", "must be UTF-8 text", str(path))) from None
    except tomllib.TOMLDecodeError as error:
        raise EvidenceError(fault("prices", "must be TOML", f"{path}: {error}")) from None
    faults = [
        fault("prices", f"must have the tables {', '.join(_TABLES)} only", repr(name)) for name, t in data.items() if name not in _TABLES
    ]
    tables: dict[str, dict[str, Any]] = {}
    for name in _TABLES:
        table = data.get(name, {})
        if not isinstance(table, dict):
            faults.append(fault(f"prices.{name}", "must be a table", repr(table)))
            continue
        tables[name] = table
        faults += [_fault(name, key, value) for key, value in table.items() if not _is_sound(name, value)]
    if not data:
        faults.append(fault("prices", "must not be empty", str(path)))
    if faults:
        raise EvidenceError(*faults)
    return Prices(
        labels={k: float(v) for k, v in tables["labels"].items()},
        caps={k: int(v) for k, v in tables["caps"].items()},
        raters={k: float(v) for k, v in tables["raters"].items()},
    )


def _is_sound(table: str, value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return False
    return value >= 0 and (value == int(value) if table == "caps" else value > 0)


def _fault(table: str, key: str, value: object) -> str:
    rule = "must be a whole number of at least 0" if table == "caps" else "must be a positive number"
    return fault(f"prices.{table}.{key}", rule, repr(value))
