"""Preferences: which of two answers a rater preferred, and in which order they were shown."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Self

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from noracle.errors import ArgumentError, raise_faults, require_evidence
from noracle.evidence.frames import Frame, cases, fetch, is_there, open_frames
from noracle.evidence.labels import RowFault, faults_of_table
from noracle.evidence.tables import ALIASES, Column, TableRules, normalise, rename

Codes = NDArray[np.int64]

FIRST, SECOND, TIE, NEITHER = 0, 1, 2, 3
OUTCOMES = ("first", "second", "tie", "neither")
"""The words of an outcome; its code is the place here."""
_WORDS: dict[str, tuple[str, ...]] = {
    "first": ("first", "model_a", "system_a", "a", "left", "1"),
    "second": ("second", "model_b", "system_b", "b", "right", "2"),
    "tie": ("tie", "draw", "equal", "both", "same", "both_good", "both good"),
    "neither": ("neither", "both_bad", "both bad", "bothbad", "tie (bothbad)"),
}
TABLE = TableRules(
    name="preferences",
    columns=(
        Column(name="item", kind="id"),
        Column(name="first", kind="name"),
        Column(name="second", kind="name"),
        Column(name="winner", kind="name", nullable=True),
        Column(name="rater", kind="name", required=False),
    ),
)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Preferences:
    """Comparisons of two systems' answers to the same item, as arrays with one entry per verdict.

    Build it with :meth:`from_table`.

    Attributes
    ----------
    systems
        The names of the systems, sorted; ``first`` and ``second`` are places in it.
    first, second
        The system that was shown first (on the left), and the other one.
    outcome
        A place in ``("first", "second", "tie", "neither")``.
    item, rater
        Numbers of the items and raters, from 0.
    raters
        The names of the raters, sorted; one without a name where the table has none.
    missing
        How many rows had no verdict and were left out.
    """

    systems: tuple[str, ...]
    first: Codes
    second: Codes
    outcome: Codes
    item: Codes
    rater: Codes
    raters: tuple[str, ...]
    missing: int = 0
    inferred: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """One line."""
        what = f"{len(self.systems)} systems, {self.item.max(initial=-1) + 1} items"
        return f"Preferences({len(self.item)} verdicts: {what}, {len(self.raters)} raters)"

    @classmethod
    def from_table(cls, preferences: object, *, columns: Mapping[str, str] | None = None) -> Self:
        """Preferences from one table.

        Parameters
        ----------
        preferences
            ``item``, ``first`` and ``second`` (the systems, in the order in which their answers
            were shown), ``winner`` (first, second, tie, neither, or the name of one of the two;
            empty: no verdict) and optionally ``rater``. Records of arenas are read as they are:
            ``model_a``, ``model_b`` and ``winner`` with ``tie (bothbad)``.
        columns
            Your names of columns, as ``{"first": "left_model"}``.

        Raises
        ------
        EvidenceError
            If columns are missing or a value cannot be meant; all faults at once.

        Examples
        --------
        >>> Preferences.from_table({"item": [1, 1, 2], "model_a": ["x", "y", "x"], "model_b": ["y", "x", "z"],
        ...                         "winner": ["model_a", "tie", "z"]})
        Preferences(3 verdicts: 3 systems, 2 items, 1 raters)
        """
        frames, _connection = open_frames({"preferences": preferences})
        notes: list[str] = []
        names = dict(columns or {})
        known = {column.name for column in TABLE.columns}
        if not names.keys() <= known:
            came = f"got {', '.join(sorted(names.keys() - known))}"
            raise ArgumentError(f"columns must name some of {', '.join(sorted(known))}; {came}.")
        given = {c.strip().lower(): c for c in frames["preferences"].columns}
        judges = [given[name] for name in ALIASES["rater"] if name in given]
        if len(judges) == 1 and "rater" not in {*names, *given}:
            names["rater"] = judges[0]
            notes.append(f"preferences: column {judges[0]!r} is read as rater")
        shown = {f"{TABLE.name}.{name}": column for name, column in names.items()}
        frame = rename(frames["preferences"], TABLE, shown, notes)
        frame, faults = normalise(frame, TABLE)
        raise_faults(faults)
        if "rater" not in frame.columns:
            frame = frame.with_columns(rater=nw.lit(""))
        frame = frame.with_columns(outcome=_outcome())
        said = is_there("winner") & (nw.col("winner").str.strip_chars() != "")
        raise_faults(faults_of_table(frame, TABLE, _rules(said)))
        return cls._of(frame.filter(said), len(fetch(frame.filter(~said).select("item"))), notes)

    @classmethod
    def _of(cls, frame: Frame, missing: int, notes: list[str]) -> Self:
        rows = fetch(frame.select("item", "first", "second", "outcome", "rater"))
        require_evidence(rows, "preferences", "must hold at least one verdict", "none")
        items, first, second, outcome, raters = zip(*rows, strict=True)
        _, item = np.unique(np.array(items), return_inverse=True)
        systems, place = np.unique(np.array([first, second]), return_inverse=True)
        who, rater = np.unique(np.array(raters), return_inverse=True)
        place = place.reshape(2, -1)
        return cls(
            systems=tuple(systems.tolist()),
            first=place[0],
            second=place[1],
            outcome=np.array([OUTCOMES.index(word) for word in outcome]),
            item=item,
            rater=rater,
            raters=tuple(who.tolist()),
            missing=missing,
            inferred=tuple(notes),
        )

    def of(self, rows: NDArray[np.bool_] | Codes) -> Self:
        """The same with some of the verdicts; systems keep their places."""
        arrays: dict[str, Any] = {
            name: getattr(self, name)[rows]
            for name in ("first", "second", "outcome", "item", "rater")
        }
        return dataclasses.replace(self, **arrays)

    def of_raters(self, raters: Sequence[str]) -> Self:
        """The verdicts of these raters alone.

        Examples
        --------
        >>> table = {"item": [1, 1], "first": ["a", "a"], "second": ["b", "b"], "winner": ["a", "b"], "rater": ["x", "y"]}
        >>> Preferences.from_table(table).of_raters(["y"])
        Preferences(1 verdicts: 2 systems, 1 items, 1 raters)
        """
        keep = [i for i, name in enumerate(self.raters) if name in set(raters)]
        some = self.of(np.isin(self.rater, keep))
        names = tuple(self.raters[i] for i in keep)
        return dataclasses.replace(some, rater=np.searchsorted(keep, some.rater), raters=names)


def _plain() -> nw.Expr:
    return nw.col("winner").str.strip_chars().str.to_lowercase()


def _outcome() -> nw.Expr:
    """The outcome in our words; null where the winner can be none of them."""
    named = nw.col("winner").str.strip_chars()
    own = [(named == nw.col("first"), "first"), (named == nw.col("second"), "second")]
    return cases([*own, *((_plain().is_in(words), word) for word, words in _WORDS.items())])


def _rules(said: nw.Expr) -> list[RowFault]:
    remedy = "Correct it or leave the row out."
    same = nw.col("first") == nw.col("second")
    strange = said & nw.col("outcome").is_null()
    rule = "must be first, second, tie, neither or one of the two systems"
    return [
        RowFault("winner", rule, strange, "winner", remedy),
        RowFault("second", "must be another system than first", same, "second", remedy),
    ]
