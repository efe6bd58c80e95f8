from __future__ import annotations

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


def test_the_docstring_draws_every_class() -> None:
    classes = [name for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, (NoracleError, UserWarning))]
    assert len(classes) == 8
    assert all(name in (errors.__doc__ or "") for name in classes)


def test_one_fault_is_the_message_and_several_are_joined() -> None:
    assert str(EvidenceError("one.")) == "one."
    several = EvidenceError("one.", "two.")
    assert several.faults == ("one.", "two.")
    assert str(several) == "one. | two."


def test_missing_extra_says_how_to_install() -> None:
    error = MissingExtra("ComplementaryClassifier", "torch", "learn")
    assert str(error) == "ComplementaryClassifier needs torch. Install it with: pip install 'noracle[learn]'"


def test_fault_has_the_house_shape() -> None:
    line = fault("ruled_out", "must be in [0, 5)", 7, where=[12], total=3, remedy="Pass n_classes=8 or drop those items.")
    assert line == "ruled_out must be in [0, 5); got 7 at item 12 and 2 more. Pass n_classes=8 or drop those items."


def test_fault_names_the_first_five_places() -> None:
    line = fault("answer", "must be a class", "x", where=list("abcdefg"), total=9)
    assert line == "answer must be a class; got x at items a, b, c, d, e and 4 more."


def test_fault_without_a_place() -> None:
    assert fault("confidence", "must be in (0, 1)", 95) == "confidence must be in (0, 1); got 95."
