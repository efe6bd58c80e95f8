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
    "first": ("first", "model_a", "system_a", "model_1", "a", "left", "1", "a>b", "a>>b", "[[a]]"),
    "second": (
        "second",
        "model_b",
        "system_b",
        "model_2",
        "b",
        "right",
        "2",
        "b>a",
        "b>>a",
        "[[b]]",
    ),
    "tie": ("tie", "draw", "equal", "both", "same", "both_good", "both good", "a=b", "[[c]]"),
    "neither": ("neither", "both_bad", "both bad", "bothbad", "tie (bothbad)"),
}
_ONE_HOT = ("winner_model_a", "winner_model_b", "winner_tie")
_BOTH_ORDERS = ("g1_winner", "g2_winner")
_TURNED = {"model_1": "second", "model_2": "first", "tie": "tie"}
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
    items
        The names of the items, sorted; ``item`` are places in it.
    raters
        The names of the raters, sorted; one without a name where the table has none.
    missing
        How many rows had no verdict and were left out.
    silent
        The systems that are in such rows alone.
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
    items: tuple[Any, ...] = ()
    silent: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """One line."""
        what = f"{len(self.systems)} systems, {self.item.max(initial=-1) + 1} items"
        return f"Preferences({len(self.item)} verdicts: {what}, {len(self.raters)} raters)"

    @classmethod
    def from_table(
        cls,
        preferences: object,
        *,
        columns: Mapping[str, str] | None = None,
        raters: Sequence[str] | None = None,
    ) -> Self:
        """Preferences from one table.

        Parameters
        ----------
        preferences
            ``item``, ``first`` and ``second`` (the systems, in the order in which their answers
            were shown), ``winner`` (first, second, tie, neither, or the name of one of the two;
            empty: no verdict) and optionally ``rater``. Records of arenas are read as they are:
            ``model_a``, ``model_b`` and ``winner`` with ``tie (bothbad)``, or with ``winner_model_a``,
            ``winner_model_b`` and ``winner_tie`` of 0 and 1; and ``model_1``, ``model_2`` with
            ``g1_winner`` and ``g2_winner``, the verdicts in one order and in the other.
        columns
            Your names of columns, as ``{"first": "left_model"}``.
        raters
            Columns of a wide table, one for each rater, that hold what they said.

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
        frame = _long(frames["preferences"], tuple(raters or ()), notes)
        given = {c.strip().lower(): c for c in frame.columns}
        judges = [given[name] for name in ALIASES["rater"] if name in given]
        if len(judges) == 1 and "rater" not in {*names, *given}:
            names["rater"] = judges[0]
            notes.append(f"preferences: column {judges[0]!r} is read as rater")
        who = names.get("rater", "rater")
        if isinstance(frame.collect_schema().get(who), nw.List):  # a model and its prompt
            frame = frame.with_columns(nw.col(who).cast(nw.String))
        shown = {f"{TABLE.name}.{name}": column for name, column in names.items()}
        frame, faults = normalise(rename(frame, TABLE, shown, notes), TABLE)
        raise_faults(faults)
        if "rater" not in frame.columns:
            frame = frame.with_columns(rater=nw.lit(""))
        frame = frame.with_columns(outcome=_outcome())
        said = is_there("winner") & (nw.col("winner").str.strip_chars() != "")
        raise_faults(faults_of_table(frame, TABLE, _rules(said)))
        return cls._of(frame.filter(said), frame.filter(~said), notes)

    @classmethod
    def _of(cls, frame: Frame, unsaid: Frame, notes: list[str]) -> Self:
        rows = fetch(frame.select("item", "first", "second", "outcome", "rater"))
        require_evidence(rows, "preferences", "must hold at least one verdict", "none")
        items, first, second, outcome, raters = zip(*rows, strict=True)
        told, item = np.unique(np.array(items), return_inverse=True)
        systems, place = np.unique(np.array([first, second]), return_inverse=True)
        who, rater = np.unique(np.array(raters), return_inverse=True)
        place = place.reshape(2, -1)
        missing = fetch(unsaid.select("first", "second"))
        return cls(
            systems=tuple(systems.tolist()),
            first=place[0],
            second=place[1],
            outcome=np.array([OUTCOMES.index(word) for word in outcome]),
            item=item,
            rater=rater,
            raters=tuple(who.tolist()),
            missing=len(missing),
            silent=tuple(sorted({name for row in missing for name in row} - {*systems.tolist()})),
            inferred=tuple(notes),
            items=tuple(told.tolist()),
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


def preferred_columns(given: Sequence[str]) -> tuple[str, ...]:
    """The columns that make a table one of preferences beyond doubt; empty where it is none.

    Examples
    --------
    >>> preferred_columns(["question_id", "model_a", "model_b", "winner"]), preferred_columns(["item", "a", "b"])
    (('model_a', 'model_b', 'winner'), ())
    """
    ends = ("first", "second"), ("model_a", "model_b")
    known: list[tuple[str, ...]] = [(*two, "winner") for two in ends]
    known += [(*ends[1], *_ONE_HOT), ("model_1", "model_2", *_BOTH_ORDERS)]
    there = {c.strip().lower(): c for c in given}
    return next((tuple(there[c] for c in names) for names in known if {*names} <= {*there}), ())


def _long(frame: Frame, raters: tuple[str, ...], notes: list[str]) -> Frame:
    """One row per verdict, out of one column per rater, per outcome or per order shown."""
    given = {c.strip().lower(): c for c in frame.columns}
    absent = [name for name in raters if name not in frame.columns]
    if absent or len(set(raters)) < len(raters):
        came = f"got {', '.join(map(repr, absent or raters))} beside {', '.join(frame.columns)}"
        raise ArgumentError(f"raters must name different columns of the table; {came}.")
    if raters:
        kept = [c for c in frame.columns if c not in raters and c not in ("rater", "winner")]
        text = [(name, nw.col(name).cast(nw.String)) for name in raters]
        parts = [frame.select(*kept, winner=said, rater=nw.lit(name)) for name, said in text]
        return nw.concat(parts, how="vertical")
    if "winner" in given:
        return frame
    if all(name in given for name in _ONE_HOT):
        notes.append(f"preferences: columns {', '.join(_ONE_HOT)} are read as winner")
        said = [nw.col(given[name]).cast(nw.Float64) > 0 for name in _ONE_HOT]
        words = zip(said, ("first", "second", "tie"), strict=True)
        return frame.with_columns(winner=cases(words))
    if all(name in given for name in (*_BOTH_ORDERS, "model_1", "model_2")):
        notes.append("preferences: g1_winner and g2_winner are read as both orders of a comparison")
        one, other = (nw.col(given[name]) for name in ("model_1", "model_2"))
        plain, turned = (nw.col(given[name]).cast(nw.String) for name in _BOTH_ORDERS)
        used = {given[name] for name in (*_BOTH_ORDERS, "model_1", "model_2")}
        kept = [c for c in frame.columns if c not in used]
        back = cases((turned == word, said) for word, said in _TURNED.items())
        straight = cases((plain == word, word) for word in _TURNED)  # else an error, no verdict
        parts = [
            frame.select(*kept, first=one, second=other, winner=straight),
            frame.select(*kept, first=other, second=one, winner=back),
        ]
        return nw.concat(parts, how="vertical")
    return frame


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
