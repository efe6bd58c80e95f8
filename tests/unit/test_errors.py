from __future__ import annotations

import re

import numpy as np
import pytest

from noracle import errors
from noracle.errors import (
    ArgumentError,
    AssumptionError,
    EvidenceError,
    EvidenceWarning,
    GuaranteeWarning,
    MissingExtra,
    NoracleError,
    fault,
    require,
    require_evidence,
    require_rows,
)


@pytest.mark.parametrize("kind", [EvidenceError, ArgumentError, AssumptionError, MissingExtra])
def test_everything_raised_on_purpose_has_one_parent(kind: type[Exception]) -> None:
    assert issubclass(kind, NoracleError)


def test_errors_are_also_the_builtin_that_people_catch() -> None:
    assert issubclass(EvidenceError, ValueError)
    assert issubclass(ArgumentError, ValueError)
    assert issubclass(MissingExtra, ImportError)


@pytest.mark.parametrize("kind", [EvidenceWarning, GuaranteeWarning])
def test_warnings_are_user_warnings(kind: type[Warning]) -> None:
    assert issubclass(kind, errors.NoracleWarning)
    assert issubclass(kind, UserWarning)


def drawn() -> dict[str, str | None]:
    """Every class in the drawing of the module, with the class that it hangs on."""
    parents: dict[str, str | None] = {}
    path: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        found = re.match(r"    ((?:│   |    )*(?:├── |└── )?)([A-Z]\w+) {2,}", line)
        if found:
            depth = len(found[1]) // 4
            path = [*path[:depth], found[2]]
            parents[found[2]] = path[-2] if depth else None
    return parents


def test_the_docstring_draws_every_class() -> None:
    classes = [
        value
        for value in vars(errors).values()
        if isinstance(value, type) and issubclass(value, (NoracleError, UserWarning))
    ]
    tops = (NoracleError, errors.NoracleWarning)
    assert len(classes) == 9
    assert drawn() == {c.__name__: None if c in tops else c.__bases__[0].__name__ for c in classes}


def test_one_fault_is_the_message_and_several_are_joined() -> None:
    assert str(EvidenceError("one.")) == "one."
    several = EvidenceError("one.", "two.")
    assert several.faults == ("one.", "two.")
    assert str(several) == "one. | two."


def test_missing_extra_says_how_to_install() -> None:
    error = MissingExtra("ComplementaryClassifier", "torch", "learn")
    assert (
        str(error)
        == "ComplementaryClassifier needs torch. Install it with: pip install 'noracle[learn]'"
    )


def test_fault_has_the_house_shape() -> None:
    line = fault(
        "ruled_out",
        "must be in [0, 5)",
        7,
        where=[12],
        total=3,
        remedy="Pass n_classes=8 or drop those items.",
    )
    assert (
        line
        == "ruled_out must be in [0, 5); got 7 at item 12 and 2 more. Pass n_classes=8 or drop those items."
    )


def test_fault_names_the_first_five_places() -> None:
    line = fault("answer", "must be a class", "x", where=list("abcdefg"), total=9)
    assert line == "answer must be a class; got x at items a, b, c, d, e and 4 more."


def test_fault_without_a_place() -> None:
    assert fault("confidence", "must be in (0, 1)", 95) == "confidence must be in (0, 1); got 95."


def test_requirements_raise_only_where_they_are_not_met() -> None:
    require(1 < 2, "unseen")
    require_evidence([0], "items", "must be at least one", "none")
    with pytest.raises(ArgumentError, match=r"^share must be in \[0, 1\]; got 2\.$"):
        require(False, "share must be in [0, 1]; got 2.")
    with pytest.raises(EvidenceError) as caught:
        require_evidence([], "items", "must be at least one", "none", remedy="Add some.")
    assert caught.value.faults == ("items must be at least one; got none. Add some.",)


@pytest.mark.parametrize(
    ("good", "came", "said"),
    [
        ([True, False, False], [5, 6, 7], "got 6 at items 1, 2."),
        ([[True, True], [True, False]], [[1, 2], [3, 4]], "got 4 at item 1."),
        ([True, False], [[1, 2], [3, 4]], "got [3, 4] at item 1."),
        ([False] * 7, "nothing", "got nothing at items 0, 1, 2, 3, 4 and 2 more."),
    ],
)
def test_rows_that_break_a_rule_are_named(good: list[object], came: object, said: str) -> None:
    values = came if isinstance(came, str) else np.array(came)
    with pytest.raises(EvidenceError) as caught:
        require_rows(np.array(good), "x", "must be good", values)
    assert str(caught.value) == f"x must be good; {said}"
    with pytest.raises(EvidenceError, match=r"at items? [ab]"):
        require_rows(np.array(good), "x", "must be good", values, ids="abcdefg")
    require_rows(np.ones_like(np.array(good)), "x", "must be good", values)
