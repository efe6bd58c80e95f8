"""Specifications: exact fractions from text or objects."""

from __future__ import annotations

from fractions import Fraction

import pytest

from noracle.errors import ArgumentError
from noracle.logic.cascade import prove_malfunction
from noracle.logic.spec import ANY_ANSWER, Spec, Statement, fraction
from tests.unit.logic.seed_table import table_2


@pytest.mark.parametrize(
    ("text", "statement"),
    [
        ("accuracy > 1/2", Statement(kind="accuracy", above=Fraction(1, 2))),
        ("accuracy>0.7", Statement(kind="accuracy", above=Fraction(7, 10))),
        ("Accuracy ≥ 70 %", Statement(kind="accuracy", above=Fraction(7, 10), strict=False)),
        ("grade >= 4/5", Statement(kind="grade", above=Fraction(4, 5), strict=False)),
        (
            "accuracy of gpt on A > 3/5",
            Statement(kind="accuracy", above=Fraction(3, 5), of="gpt", on="A"),
        ),
        ("accuracy on A > 0", Statement(kind="accuracy", above=Fraction(0), on="A")),
        (
            "grade of 'my on-line model' > 1/3",
            Statement(kind="grade", above=Fraction(1, 3), of="my on-line model"),
        ),
        (
            'accuracy of "x on y" on "a > b; c and d" > 1/3',
            Statement(kind="accuracy", above=Fraction(1, 3), of="x on y", on="a > b; c and d"),
        ),
    ],
)
def test_text_is_read_exactly_and_written_back(text: str, statement: Statement) -> None:
    spec = Spec.parse(text)
    assert spec.statements == (statement,)
    assert Spec.parse(str(spec)) == spec
    assert Spec.from_list(spec.to_list()) == spec


def test_statements_join() -> None:
    spec = Spec.parse("accuracy > 1/2; grade of x >= 0.9 and accuracy on A > 0.6")
    assert [s.kind for s in spec.statements] == ["accuracy", "grade", "accuracy"]
    assert spec == Spec.accuracy("1/2") & Spec.grade(0.9, of="x", strict=False) & Spec.accuracy(
        0.6, on="A"
    )


def test_decimals_are_not_binary() -> None:
    assert fraction(0.1) == fraction("0.1") == fraction("10%") == Fraction(1, 10)


@pytest.mark.parametrize(
    "text", ["accuracy > 1", "accuracy > 1.5", "grade >= 1", "accuracy > -0.1", "grade > 3/2"]
)
def test_thresholds_outside_are_refused(text: str) -> None:
    with pytest.raises(ArgumentError, match="must be at least 0 and below 1"):
        Spec.parse(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "  ",
        "accuracy",
        "accuracy < 1/2",
        "recall > 1/2",
        "accuracy > 1/2 > 1/3",
        "accuracy == 1/2",
    ],
)
def test_other_shapes_are_refused(text: str) -> None:
    with pytest.raises(ArgumentError, match="spec must look like"):
        Spec.parse(text)


@pytest.mark.parametrize("text", ["accuracy > half", "accuracy > 1/0", "accuracy > 0,7"])
def test_other_numbers_are_refused(text: str) -> None:
    with pytest.raises(ArgumentError, match="must be a fraction, a decimal or a percentage"):
        Spec.parse(text)


def test_grade_of_one_label_is_refused() -> None:
    with pytest.raises(ArgumentError, match="grade is over all labels"):
        Spec.parse("grade on A > 1/2")


@pytest.mark.parametrize("text", ["accuracy of Gemini > 1/2", "accuracy on C > 1/2"])
def test_unknown_names_are_refused(text: str) -> None:
    with pytest.raises(ArgumentError, match="spec must name"):
        prove_malfunction(table_2(), text)


def test_linear_statements_clear_fractions_exactly() -> None:
    spec = Spec.linear(
        [("1/2", {"x": "a"}, None), ("1/3", {"x": ANY_ANSWER, "y": None}, "b")], at_least="5/4"
    )
    (linear,) = spec.statements
    assert [t[0] for t in linear.terms] == [3, 2]
    assert linear.at_least == 8  # 7.5 of a whole number
    assert Spec.from_list(spec.to_list()) == spec


def test_empty_specs_are_refused() -> None:
    with pytest.raises(ArgumentError, match="spec must be text"):
        prove_malfunction(table_2(), Spec(statements=()))
    with pytest.raises(ArgumentError, match="terms must have at least one"):
        Spec.linear([], at_least=1)
