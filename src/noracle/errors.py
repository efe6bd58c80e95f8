"""The exceptions and warnings of noracle.

    NoracleError                 everything raised on purpose
    ├── EvidenceError            a table, a file or a count breaks a rule (also a ValueError)
    ├── ArgumentError            an argument breaks a rule (also a ValueError)
    │   └── SingularTransition   a transition matrix that cannot be inverted
    ├── AssumptionError          an assumption was checked, failed, and strict=True was asked for
    └── MissingExtra             an optional library is not installed (also an ImportError)

    NoracleWarning               everything warned about (a UserWarning)
    ├── EvidenceWarning          a visible choice was made about the evidence
    └── GuaranteeWarning         a guarantee is weaker than its name suggests

Every message has one shape: argument, rule, what came, where, what to do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any


class NoracleError(Exception):
    """Everything that noracle raises on purpose."""


class EvidenceError(NoracleError, ValueError):
    """A table, a file or a count breaks a rule.

    ``faults`` holds one line for every rule that was broken; the message joins them.
    """

    def __init__(self, *faults: str) -> None:
        self.faults = faults
        super().__init__(faults[0] if len(faults) == 1 else " | ".join(faults))

    @classmethod
    def of(cls, argument: str, rule: str, came: object, **more: Any) -> EvidenceError:
        """The error with one :func:`fault`, which takes these arguments."""
        return cls(fault(argument, rule, came, **more))


class ArgumentError(NoracleError, ValueError):
    """An argument breaks a rule."""


class SingularTransition(ArgumentError):
    """A transition matrix cannot be inverted: its labels do not tell the classes apart."""


class AssumptionError(NoracleError):
    """An assumption was checked and failed, and ``strict=True`` was asked for."""


class MissingExtra(NoracleError, ImportError):
    """An optional library is not installed."""

    def __init__(self, what: str, library: str, extra: str) -> None:
        super().__init__(f"{what} needs {library}. Install it with: pip install 'noracle[{extra}]'")


class NoracleWarning(UserWarning):
    """Everything that noracle warns about."""


class EvidenceWarning(NoracleWarning):
    """A visible choice was made about the evidence."""


class GuaranteeWarning(NoracleWarning):
    """A guarantee is weaker than its name suggests."""


def by_nearness(wanted: object, known: Iterable[object]) -> list[str]:
    """The names that exist, those nearest to the wanted one first, then by name.

    Examples
    --------
    >>> by_nearness("agent1", ["baseline", "agent-2", "agent-1"])
    ['agent-1', 'agent-2', 'baseline']
    """
    import difflib

    names = sorted({str(name) for name in known})
    near = difflib.get_close_matches(
        str(wanted).lower(), [name.lower() for name in names], n=max(1, len(names)), cutoff=0.5
    )
    return sorted(
        names,
        key=lambda name: (near.index(name.lower()) if name.lower() in near else len(names), name),
    )


def known_names(wanted: object, known: Iterable[object], *, most: int = 8) -> str:
    """A sentence with the names that exist, nearest first; for the end of a message.

    Examples
    --------
    >>> known_names("agent1", ["baseline", "agent-2", "agent-1"])
    'Known are agent-1, agent-2, baseline.'
    """
    listed = by_nearness(wanted, known)
    more = f" and {len(listed) - most} more" if len(listed) > most else ""
    return (
        f"Known are {', '.join(name[:60] for name in listed[:most])}{more}."
        if listed
        else "There are none."
    )


def fault(
    argument: str,
    rule: str,
    came: object,
    *,
    where: Sequence[object] = (),
    total: int = 0,
    remedy: str = "",
) -> str:
    """Write one fault in the house shape; the only author of such lines.

    Examples
    --------
    >>> fault("ruled_out", "must be in [0, 5)", 7, where=[12], total=3, remedy="Pass n_classes=8 or drop those items.")
    'ruled_out must be in [0, 5); got 7 at item 12 and 2 more. Pass n_classes=8 or drop those items.'
    """
    line = f"{argument} {rule}; got {came}"
    if where:
        shown = ", ".join(str(w) for w in where[:5])
        line += f" at item {shown}" if len(where[:5]) == 1 else f" at items {shown}"
        if total > len(where[:5]):
            line += f" and {total - len(where[:5])} more"
    line += "."
    return f"{line} {remedy}".rstrip()


def require(ok: object, message: str) -> None:
    """Raise an :class:`ArgumentError` with this message unless ``ok``."""
    if not ok:
        raise ArgumentError(message)


def refuse(rules: Mapping[str, object]) -> None:
    """Raise an :class:`ArgumentError` with the first message whose condition holds.

    Examples
    --------
    >>> refuse({"folds must be at least 2; got 5.": 5 < 2})
    """
    for message, is_broken in rules.items():
        require(not is_broken, message)


def raise_faults(faults: Sequence[str]) -> None:
    """Raise an :class:`EvidenceError` with these faults, if there are any."""
    if faults:
        raise EvidenceError(*faults)


def require_evidence(
    ok: object, argument: str, rule: str, came: object, *, remedy: str = ""
) -> None:
    """Raise an :class:`EvidenceError` with one :func:`fault` unless ``ok``."""
    if not ok:
        raise EvidenceError.of(argument, rule, came, remedy=remedy)


def require_rows(
    good: Any,
    argument: str,
    rule: str,
    came: Any,
    *,
    ids: Sequence[object] | None = None,
    remedy: str = "",
) -> None:
    """Raise an :class:`EvidenceError` that names the first items whose row of ``good`` is not true.

    Parameters
    ----------
    good
        An array of bools with one row per item.
    came
        What came instead; of an array in the shape of ``good``, the first entry that is not good,
        and of one with more columns its row.
    ids
        Names of the items; by default their numbers.
    """
    if not good.all():
        flat = (~good).reshape(len(good), -1).any(axis=1).tolist()
        rows = [row for row, bad in enumerate(flat) if bad]
        shape = getattr(came, "shape", ())
        if shape == good.shape:
            came = came[~good][0]
        elif shape and len(came) == len(good):
            came = came[rows[0]].tolist()[:8]
        where = rows[:5] if ids is None else [ids[row] for row in rows[:5]]
        raise EvidenceError.of(argument, rule, came, where=where, total=len(rows), remedy=remedy)
