"""The column rules of every table, in one place.

    answers      item, system, answer, [guess, state, repeat]
    judgements   item, class, verdict, [rater, propensity, cost, at]
    grades       item, system, verdict, [rater, propensity, cost, at, cluster]
    items        item, [n_classes, stratum, cluster, weight, text, options, image]
    ratings      item, rater, label
    scores       item, rater, value

Columns in brackets are optional; other columns are allowed and kept out of the way.
"""

from __future__ import annotations

import dataclasses
from typing import Literal

Kind = Literal["id", "name", "class", "count", "number", "verdict", "grade", "state", "any"]

STATES = ("answered", "invalid", "refused", "errored")
"""What became of an item: an answer; text without one; the system declined; the call failed."""

GRADES: dict[str, tuple[str, ...]] = {
    "yes": ("yes", "true", "1", "right", "correct", "pass", "passed"),
    "no": ("no", "false", "0", "wrong", "incorrect", "fail", "failed"),
    "unsure": ("unsure",),
}
"""The words of a grade, in any case: the answer is right, it is wrong, or nobody can tell."""

GRADE_COLUMNS = ("correct", "is_correct", "grade", "right", "passed")
"""Other names of the column ``verdict`` of grades, where there is none of that name and one of
these.
"""

MAX_CLASSES = 2**31 - 1
"""The largest number of classes that is taken for one."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """What one column may hold.

    ``id`` and ``class`` are whole numbers or text, ``name`` is text, ``count`` a number of classes,
    ``number`` lies between ``low`` and ``high`` (without ``low`` itself where ``above``),
    ``verdict`` is yes, no or unsure, ``grade`` is a word of :data:`GRADES`, ``state`` is one of
    :data:`STATES`, ``any`` is taken as it is.
    """

    name: str
    kind: Kind
    required: bool = True
    nullable: bool = False
    low: float | None = None
    high: float | None = None
    above: bool = False

    @property
    def rule(self) -> str:
        """The range in words."""
        if self.low is not None and self.high is not None:
            return f"must be in {'(' if self.above else '['}{self.low:g}, {self.high:g}]"
        if self.low is not None:
            return f"must be a number {'above' if self.above else 'of at least'} {self.low:g}"
        return "must be a finite number"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """The columns of one table and the columns that name a row only once (``key``)."""

    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...] = ()

    def names(self, *, required: bool) -> list[str]:
        """The names of the required or of the optional columns."""
        return [c.name for c in self.columns if c.required is required]


_ITEM = Column(name="item", kind="id")
_RATER = Column(name="rater", kind="name")

TABLES: dict[str, Table] = {
    table.name: table
    for table in (
        Table(
            name="answers",
            columns=(
                _ITEM,
                Column(name="system", kind="name"),
                Column(name="answer", kind="class", nullable=True),
                Column(name="guess", kind="number", required=False, nullable=True, low=0, high=1),
                Column(name="state", kind="state", required=False, nullable=True),
                Column(name="repeat", kind="number", required=False, low=0),
            ),
            key=("item", "system"),
        ),
        Table(
            name="judgements",
            columns=(
                _ITEM,
                Column(name="class", kind="class"),
                Column(name="verdict", kind="verdict"),
                Column(name="rater", kind="name", required=False, nullable=True),
                Column(
                    name="propensity",
                    kind="number",
                    required=False,
                    nullable=True,
                    low=0,
                    high=1,
                    above=True,
                ),
                Column(name="cost", kind="number", required=False, nullable=True, low=0),
                Column(name="at", kind="any", required=False, nullable=True),
            ),
        ),
        Table(
            name="grades",
            columns=(
                _ITEM,
                Column(name="system", kind="name"),
                Column(name="verdict", kind="grade"),
                Column(name="rater", kind="name", required=False, nullable=True),
                Column(
                    name="propensity",
                    kind="number",
                    required=False,
                    nullable=True,
                    low=0,
                    high=1,
                    above=True,
                ),
                Column(name="cost", kind="number", required=False, nullable=True, low=0),
                Column(name="at", kind="any", required=False, nullable=True),
                Column(name="cluster", kind="name", required=False, nullable=True),
            ),
        ),
        Table(
            name="items",
            columns=(
                _ITEM,
                Column(name="n_classes", kind="count", required=False),
                Column(name="stratum", kind="name", required=False, nullable=True),
                Column(name="cluster", kind="name", required=False, nullable=True),
                Column(name="weight", kind="number", required=False, low=0, above=True),
                Column(name="text", kind="any", required=False, nullable=True),
                Column(name="options", kind="any", required=False, nullable=True),
                Column(name="image", kind="any", required=False, nullable=True),
            ),
            key=("item",),
        ),
        Table(
            name="ratings",
            columns=(_ITEM, _RATER, Column(name="label", kind="class", nullable=True)),
            key=("item", "rater"),
        ),
        Table(
            name="scores",
            columns=(_ITEM, _RATER, Column(name="value", kind="number", nullable=True)),
            key=("item", "rater"),
        ),
    )
}
"""The six tables by name."""
