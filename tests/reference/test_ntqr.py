"""The alarm from uses of labels gives the verdicts of ntqr, the package of its authors. Source:
ntqr 0.9 on PyPI.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from _ntqr import Case, cases, ours, theirs

pytest.importorskip("ntqr", reason="ntqr is not installed (extra 'test')")


@pytest.mark.thin(2)
@pytest.mark.parametrize(("n_labels", "most_items", "n"), [(2, 8, 24), (3, 4, 5)])
def test_verdicts_are_those_of_ntqr(n_labels: int, most_items: int, n: int) -> None:
    found = cases(n_labels, most_items, n, seed=1)
    verdicts = [ours(case)[0] for case in found]
    assert {True, False} <= set(verdicts)
    assert [theirs(case)[0] for case in found] == verdicts


def test_three_quarters_needs_a_fraction_that_ntqr_takes_too() -> None:
    """Its factors are documented as whole numbers; any number works, and the verdicts agree."""
    from fractions import Fraction

    case = Case(((4, 2), (1, 5)), Fraction(3, 4))
    import ntqr.alarms
    import ntqr.r2.evaluations
    import ntqr.r2.raxioms
    from ntqr.labels import Labels

    axioms = [ntqr.r2.raxioms.SingleClassifierAxioms(Labels("ab"), name) for name in "ij"]
    alarm = ntqr.alarms.SingleClassifierAxiomsAlarm(
        6, axioms, ntqr.r2.evaluations.SingleClassifierEvaluations
    )
    alarm.set_safety_specification([Fraction(4, 3)] * 2)
    assert ours(case)[0] == alarm.are_misaligned(case.uses)
