"""The fixture ``noracle`` of pytest: a test that passes, fails or is undecided, as the gate is.

The plugin is there where noracle is installed, and imports nothing but pytest until it is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal

import pytest

if TYPE_CHECKING:
    from noracle.gate.decision import GateDecision

Undecided = Literal["fail", "xfail", "pass"]
_ROWS = {
    "grades": ("verdict", {True: "right", False: "wrong", None: "unsure"}),
    "answers": ("answer", {}),
}


class GateFixture:
    """What tests ask of the fixture ``noracle``."""

    def assert_accuracy(
        self,
        answers: object,
        grades: object,
        *,
        at_least: float,
        system: str | None = None,
        ledger: str | PathLike[str] | None = None,
        confidence: float = 0.95,
        undecided: Undecided = "fail",
    ) -> GateDecision:
        """Fail the test if the accuracy is proved to be below ``at_least``, or is undecided.

        Parameters
        ----------
        answers
            Answers by item, a table of answers (item, system, answer), or None where there are grades
            alone.
        grades
            Whether the answer is right by item (True, False, None for not sure), or a table of
            grades (item, system, verdict).
        at_least
            The accuracy that must be proved.
        system
            Which system; may be left out where there is one.
        ledger
            A ledger, so that all runs together are right with this confidence; None: this run alone.
        confidence
            Of this run, or of all decisions of the ledger.
        undecided
            What becomes of a test that these labels cannot decide: it fails, is marked as an
            expected failure, or passes.

        Examples
        --------
        >>> decision = GateFixture().assert_accuracy({1: "a", 2: "b"}, {1: True, 2: True}, at_least=0.9)
        >>> decision.outcome, decision.test
        ('pass', 'known')
        """
        __tracebackhide__ = True
        from noracle.evidence import Evidence
        from noracle.gate.decision import decide_gate
        from noracle.results import choose

        choose("undecided", undecided, ("fail", "xfail", "pass"))
        tables = {"answers": answers, "grades": grades}
        given = {name: _table(name, value) for name, value in tables.items() if value is not None}
        decision = decide_gate(
            Evidence.from_tables(**given),
            system=system,
            at_least=at_least,
            ledger=ledger,
            confidence=confidence,
        )
        if decision.outcome == "fail" or (decision.outcome == "undecided" and undecided == "fail"):
            pytest.fail(str(decision), pytrace=False)
        if decision.outcome == "undecided" and undecided == "xfail":
            pytest.xfail(str(decision).splitlines()[0])
        return decision


def _table(name: str, value: object) -> Any:
    """A mapping from items as a table; anything else as it is."""
    columns = (
        isinstance(value, Mapping)
        and "item" in value
        and not isinstance(value["item"], (str, bool))
    )
    if not isinstance(value, Mapping) or columns:
        return value
    column, words = _ROWS[name]
    said = [_plain(v) for v in value.values()]
    rows = [words.get(v, v) if isinstance(v, (bool, type(None))) else v for v in said]
    return {"item": [*map(_plain, value)], "system": ["system"] * len(value), column: rows}


def _plain(value: Any) -> Any:
    """A number of numpy as one of Python."""
    return value.item() if hasattr(value, "dtype") else value


@pytest.fixture
def noracle() -> GateFixture:
    """Claims about accuracy in a test: ``noracle.assert_accuracy(answers, grades, at_least=0.8)``."""
    return GateFixture()
