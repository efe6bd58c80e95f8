"""Grades: intervals, comparisons and races hold as often as they promise, without a number of
classes.
"""

from __future__ import annotations

import pytest

from tests.guarantees.matrix.grades import cases
from tests.guarantees.measure import Row, excess_p_value

CASES = {case.name: case for case in cases()}
CERTAIN = [
    name
    for name, case in CASES.items()
    if "grades, A=*" in name or ("grades of" in name and "items" in name)
]
DRAWN = [name for name in CASES if name not in CERTAIN]


def _promise_holds(row: Row) -> None:
    assert row.guarantee == "finite-sample", row.setting
    if row.enumerated:
        assert row.coverage >= row.nominal - 1e-9, row
    else:
        assert (
            excess_p_value(round((1 - row.coverage) * row.worlds), row.worlds, 1 - row.nominal)
            > 1e-4
        ), row


def test_there_are_forty_settings() -> None:
    enumerated = [
        row.setting
        for name in CERTAIN
        for row in (CASES[name].measured(0) if name != "100 grades, A=*" else [])
    ]
    assert len({*enumerated, *DRAWN}) >= 40


@pytest.mark.parametrize("name", CERTAIN)
def test_every_number_of_right_answers_is_covered(name: str) -> None:
    rows = CASES[name].measured(0)
    for row in rows:
        _promise_holds(row)
    if rows[0].n >= 60:  # [0, 1] would hold everywhere
        assert max(row.width for row in rows) < 0.3


@pytest.mark.thin(8)
@pytest.mark.parametrize("name", DRAWN)
def test_a_few_drawn_worlds_are_covered(name: str) -> None:
    for row in CASES[name].measured(12):
        _promise_holds(row)
        assert row.width < 1.9 or row.method == "race" or row.n < 10


@pytest.mark.slow
@pytest.mark.parametrize("name", DRAWN)
def test_drawn_worlds_are_covered_as_often_as_promised(name: str) -> None:
    for row in CASES[name].measured(1000):
        _promise_holds(row)
        assert row.z >= -2, row
