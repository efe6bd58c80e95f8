"""What classifiers are claimed to do: specifications in exact fractions, from text or from objects.

::

    accuracy > 1/2                        every classifier, on every label
    accuracy on A > 0.7                   every classifier, on one label
    accuracy of gpt on "not sure" > 3/5   one classifier, on one label
    grade > 80 %                          share of right answers over all labels, of every classifier
    accuracy > 1/2; grade of gpt >= 0.8   several statements, which must all hold
    grade at 4 > 0.8; grade at each > 0.7 scores on the right side of 4; of every threshold
    agreement of gpt > 0.7                preferences that agree with one order of the systems
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, Literal, NamedTuple, Self

from noracle.errors import ArgumentError, require

ANY_ANSWER = "any answer"
"""In a linear statement: the classifier answered, whatever it said."""

EACH = "each"
"""As a threshold: every one."""

Number = int | float | str | Fraction

_NAME = r"""'[^']*'|"[^"]*"|.+?"""
_STATEMENT = re.compile(
    rf"^(?P<kind>accuracy|grade|agreement)(?:\s+at\s+(?P<at>{_NAME}))?(?:\s+of\s+(?P<of>{_NAME}))?(?:\s+on\s+(?P<on>{_NAME}))?\s*(?P<sign>>=|≥|>)\s*(?P<number>[^<>=]+)$",
    re.IGNORECASE,
)
_SPLIT = re.compile(r"""\s*(?:;|\band\b)\s*(?=(?:[^'"]|'[^']*'|"[^"]*")*$)""", re.IGNORECASE)
_SHAPE = "must look like 'accuracy > 1/2', 'accuracy of NAME on LABEL > 0.7' or 'grade > 0.8'"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """One claim: an accuracy above a fraction.

    ``accuracy`` is the share of right answers among the items of a label that the classifier
    answered; ``grade`` that among all items it answered. A grade ``at`` a label, where labels are
    scores in ascending order, counts an item as right if answer and truth are on the same side:
    both at least the label, or both below; ``at="each"`` is a claim for every label but the lowest.
    ``agreement`` is the share of a rater's preferences that an order of the systems agrees with.
    ``of`` None means every classifier, ``on`` None every label. Where a classifier answered no such
    item the claim holds.

    Examples
    --------
    >>> print(Statement(kind="accuracy", above=Fraction(3, 5), of="gpt", on="A"))
    accuracy of gpt on A > 3/5
    """

    kind: Literal["accuracy", "grade", "agreement"]
    above: Fraction
    of: str | None = None
    on: str | None = None
    strict: bool = True
    at: str | None = None

    def __post_init__(self) -> None:
        rule = f"must be at least 0 and below 1; got {self.above}"
        always = "Nobody is more often right than always."
        require(0 <= self.above < 1, f"threshold of {self.kind} {rule}. {always}")
        rule = f"is over all labels and must not name one; got {self.on!r}"
        own = self.kind == "accuracy" or self.on is None
        require(own, f"{self.kind} {rule}. Write 'accuracy on {self.on}'.")
        cut = self.kind == "grade" or self.at is None
        require(cut, f"{self.kind} must not come with a threshold; got 'at {self.at}'.")

    def __str__(self) -> str:
        of = "" if self.of is None else f" of {_quoted(self.of)}"
        on = "" if self.on is None else f" on {_quoted(self.on)}"
        at = "" if self.at is None else f" at {_quoted(self.at)}"
        return f"{self.kind}{at}{of}{on} {'>' if self.strict else '>='} {self.above}"


class Term(NamedTuple):
    """Coefficient, answers of classifiers (None: no answer), and the true label (None: any)."""

    coefficient: int
    answers: tuple[tuple[str, str | None], ...]
    label: str | None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Linear:
    """One claim: Σ coefficient · (number of items with these answers and this true label) ≥
    ``at_least``, in whole numbers.

    Examples
    --------
    >>> print(Spec.linear([(2, {"x": "A"}, "A"), (-1, {"x": ANY_ANSWER}, "A")], at_least=1).statements[0])
    2·[x=A; A] - 1·[x=any answer; A] >= 1
    """

    terms: tuple[Term, ...]
    at_least: int

    def __str__(self) -> str:
        return f"{' '.join(_term_text(t, first=i == 0) for i, t in enumerate(self.terms))} >= {self.at_least}"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """Claims that must all hold; ``a & b`` joins two.

    Examples
    --------
    >>> print(Spec.parse("accuracy > 0.7"))
    accuracy > 7/10
    >>> print(Spec.parse("accuracy of gpt on A > 3/5") & Spec.grade("80 %", strict=False))
    accuracy of gpt on A > 3/5; grade >= 4/5
    """

    statements: tuple[Statement | Linear, ...]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read statements that are joined by ``;`` or ``and``. Decimals are exact: 0.7 is 7/10.

        Raises
        ------
        ArgumentError
            If a statement has another shape, or a threshold is below 0 or not below 1.
        """
        parts = [p for p in _SPLIT.split(text.strip()) if p]
        require(parts, f"spec {_SHAPE}; got {text!r}.")
        return cls(statements=tuple(_statement(p) for p in parts))

    @classmethod
    def accuracy(
        cls, above: Number, *, of: str | None = None, on: str | None = None, strict: bool = True
    ) -> Self:
        """Accuracy on each label (or on one) of each classifier (or of one) above a fraction.

        Examples
        --------
        >>> print(Spec.accuracy(0.7, on="A"))
        accuracy on A > 7/10
        """
        s = Statement(kind="accuracy", above=fraction(above), of=of, on=on, strict=strict)
        return cls(statements=(s,))

    @classmethod
    def grade(cls, above: Number, *, of: str | None = None, strict: bool = True) -> Self:
        """Accuracy over all labels of each classifier (or of one) above a fraction."""
        s = Statement(kind="grade", above=fraction(above), of=of, strict=strict)
        return cls(statements=(s,))

    @classmethod
    def linear(
        cls,
        terms: Sequence[tuple[Number, Mapping[str, str | None], str | None]],
        *,
        at_least: Number,
    ) -> Self:
        """Any linear statement about counts of items.

        Parameters
        ----------
        terms
            (coefficient, answers, label): ``answers`` maps classifiers to what they said (None: no
            answer, :data:`ANY_ANSWER`: any answer), ``label`` is the true label (None: any).
        at_least
            The least that the sum may be. Fractions are cleared exactly.

        Examples
        --------
        At most a tenth of what x calls spam is not spam:

        >>> print(Spec.linear([("1/10", {"x": "spam"}, None), (-1, {"x": "spam"}, "ham")], at_least=0))
        1·[x=spam] - 10·[x=spam; ham] >= 0
        """
        require(terms, "terms must have at least one (coefficient, answers, label); got none.")
        values = [fraction(c) for c, _, _ in terms]
        scale = math.lcm(*(v.denominator for v in values))
        made = []
        for v, (_, answers, label) in zip(values, terms, strict=True):
            said = sorted((str(k), None if a is None else str(a)) for k, a in answers.items())
            made.append(Term(int(v * scale), tuple(said), label))
        least = math.ceil(fraction(at_least) * scale)
        return cls(statements=(Linear(terms=tuple(made), at_least=least),))

    def __and__(self, other: Self) -> Self:
        return type(self)(statements=self.statements + other.statements)

    def __str__(self) -> str:
        return "; ".join(str(s) for s in self.statements)

    @property
    def has_linear(self) -> bool:
        """Whether some claim is not an accuracy."""
        return any(isinstance(s, Linear) for s in self.statements)

    def to_list(self) -> list[dict[str, Any]]:
        """JSON-ready values, one object a statement."""
        found: list[dict[str, Any]] = []
        for s in self.statements:
            if isinstance(s, Linear):
                terms = [[c, dict(answers), label] for c, answers, label in s.terms]
                found.append({"kind": "linear", "terms": terms, "at_least": s.at_least})
            else:
                found.append({**dataclasses.asdict(s), "above": str(s.above)})
                if s.at is None:
                    del found[-1]["at"]
        return found

    @classmethod
    def from_list(cls, data: Sequence[Mapping[str, Any]]) -> Self:
        """Read back what :meth:`to_list` wrote.

        Examples
        --------
        >>> spec = Spec.parse("accuracy > 1/2; grade of x >= 0.9")
        >>> Spec.from_list(spec.to_list()) == spec
        True
        """
        found: list[Statement | Linear] = []
        for s in data:
            if s["kind"] == "linear":
                found += cls.linear([(*t,) for t in s["terms"]], at_least=s["at_least"]).statements
            else:
                rest = {key: s[key] for key in ("kind", "of", "on", "strict")}
                found.append(Statement(above=Fraction(s["above"]), at=s.get("at"), **rest))
        return cls(statements=tuple(found))


def as_spec(spec: Spec | str) -> Spec:
    """A specification, read from text if it is text."""
    if isinstance(spec, str):
        return Spec.parse(spec)
    rule = f"must be text such as 'accuracy > 1/2' or a Spec with statements; got {spec!r}"
    require(isinstance(spec, Spec) and spec.statements, f"spec {rule}.")
    return spec


def fraction(value: Number) -> Fraction:
    """An exact fraction: ``"1/2"``, ``"0.7"``, ``"70 %"``, whole numbers, and floats as they are
    printed.
    """
    text = str(value).strip()
    percent = text.endswith("%")
    try:
        found = Fraction(text.rstrip("% ").replace(" ", ""))
    except (ValueError, ZeroDivisionError):
        raise ArgumentError(
            f"threshold must be a fraction, a decimal or a percentage; got {value!r}. Write 1/2, 0.7 or 70 %."
        ) from None
    return found / 100 if percent else found


def _statement(text: str) -> Statement:
    match = _STATEMENT.match(text.strip())
    if match is None:
        raise ArgumentError(f"spec {_SHAPE}; got {text!r}.")
    kind: Any = match["kind"].lower()
    return Statement(
        kind=kind,
        above=fraction(match["number"]),
        of=_name(match["of"]),
        on=_name(match["on"]),
        at=_name(match["at"]),
        strict=match["sign"] == ">",
    )


def _name(text: str | None) -> str | None:
    if text is None:
        return None
    text = text.strip()
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"" else text


def _quoted(name: str) -> str:
    if not re.search(r"""[\s;<>='"]""", name):
        return name
    return f"'{name}'" if '"' in name else f'"{name}"'


def _term_text(term: Term, *, first: bool) -> str:
    c, answers, label = term
    said = ", ".join(f"{k}={'no answer' if a is None else a}" for k, a in answers)
    inside = "; ".join(p for p in (said, label or "") if p)
    sign = ("-" if c < 0 else "") if first else ("- " if c < 0 else "+ ")
    return f"{sign}{abs(c)}·[{inside}]"
