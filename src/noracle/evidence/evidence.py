"""Evidence: what systems answered and what was said about the truth."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self, TypeVar

import narwhals as nw

from noracle.errors import EvidenceError, EvidenceWarning, raise_faults, require, require_evidence
from noracle.evidence.classes import (
    Classes,
    Invalid,
    apart,
    check_invalid,
    first_rows,
    is_large,
    meet_ids,
    no_answers,
)
from noracle.evidence.frames import (
    Frame,
    distinct,
    fetch,
    has_rows,
    is_there,
    log_format,
    open_frames,
    settle,
)
from noracle.evidence.labels import faults_of_evidence, faults_of_table, repeats
from noracle.evidence.tables import MAX_CLASSES, TABLES, WIDE, Shape, normalise, shape_of, shaped

T = TypeVar("T")
Conflicts = Literal["error", "drop"]
Repeats = Literal["mean", "all", "any"]
_MOST_INFERRED = 100_000
_LABELS = (("judgements", "judged"), ("grades", "graded"))
"""Tables of labels, and what their items are called."""
FIRST_ONLY = "answers have repeats: only the first of each system and item is used here."
"""What is said where repeats cannot be used."""


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Evidence:
    """Tables of what was said, on one engine, lazily; never changed.

    Columns and types are checked when the evidence is made, rows when they are first counted, so
    that a large file is read once;
    :meth:`check` checks the rows at once. Build it with :meth:`from_tables`, :meth:`from_wide` or :meth:`from_paper_csv`.

    Attributes
    ----------
    answers, judgements, grades, items
        Lazy narwhals frames with canonical columns, or None.
    repeats
        All answers, where some item was answered more than once by a system; ``answers`` then has
        the first of each.
    repeats_as
        How often such an item is right: the share of its runs (``mean``), ``all`` of them or
        ``any``; see :meth:`with_repeats`.
    n_classes
        Number of classes of every item; None where ``items`` has a column ``n_classes``, and beside
        grades where nobody says it.
    classes
        The classes themselves, where they were given.
    class_kind
        ``"whole"`` (classes 0 to K - 1) or ``"text"``.
    conflicts
        What happens to items whose labels contradict each other.
    inferred
        The visible choices that were made, one line each.
    protocol
        ``"question"``: one random class was asked about an item. ``"sets"``: ordinary labels and
        ruled-out classes were collected separately, as in two columns of a wide table. None where
        the tables do not say.
    """

    answers: Frame | None
    judgements: Frame | None
    items: Frame | None = None
    grades: Frame | None = None
    repeats: Frame | None = None
    repeats_as: Repeats = "mean"
    n_classes: int | None = None
    classes: tuple[int | str, ...] | None = None
    class_kind: Literal["whole", "text"] = "whole"
    conflicts: Conflicts = "error"
    inferred: tuple[str, ...] = ()
    protocol: Literal["question", "sets"] | None = None
    _listed: bool = dataclasses.field(default=True, repr=False)
    """Whether the items were given; False where they are those that were graded."""
    _read: frozenset[str] = dataclasses.field(default=frozenset(), repr=False)
    """The lines of ``inferred`` that say how columns, forms and spellings were read."""
    _from_one: bool = dataclasses.field(default=False, repr=False)
    """Whether classes were written from 1; they are from 0 here."""
    _connection: object = dataclasses.field(default=None, repr=False)
    _checked: list[bool] = dataclasses.field(default_factory=list, repr=False)
    _kept: dict[str, Any] = dataclasses.field(default_factory=dict, repr=False)
    """What is asked for again: labels by item, how answers met them, and counts."""
    _rows: Frame | None = dataclasses.field(default=None, repr=False)
    """The items of answers that had one row per item: repeats are quick to see there."""
    _unmet: list[tuple[str, str]] = dataclasses.field(default_factory=list, repr=False)
    """Large tables of labels whose items are compared with the answers when they are counted."""

    @classmethod
    def from_tables(
        cls,
        answers: object = None,
        judgements: object = None,
        items: object = None,
        *,
        grades: object = None,
        n_classes: int | None = None,
        classes: Sequence[int | str] | None = None,
        conflicts: Conflicts = "error",
        columns: Mapping[str, Any] | None = None,
        wide: bool | None = None,
        systems: Sequence[str] | None = None,
        label: str | None = None,
        ruled_out: str | None = None,
        no_answer: Sequence[object] = (),
        invalid: Invalid = "wrong",
    ) -> Self:
        """Evidence from tables.

        Parameters
        ----------
        answers
            ``item``, ``system``, ``answer`` (null: no answer) and optionally ``guess``, ``state``
            (answered, invalid, refused, errored) and ``repeat``, the number of the run where a
            system answered an item more than once (or ``epoch``, ``run``, ``sample``, ``attempt``,
            ``trial``: a note says so). Or one row per item with a column for each system; its
            columns ``n_classes``, ``stratum``, ``cluster``, ``weight`` and ``options`` are the
            items, where none are given. Or a log of Inspect (``.eval``, ``.json``) or of
            lm-evaluation-harness (``samples_*.jsonl``): options then give the number of classes,
            and labels in the metadata of samples are judgements, unless ``items`` and
            ``judgements`` are given.
        judgements
            ``item``, ``class``, ``verdict`` (yes, no, unsure) and optionally ``rater``,
            ``propensity``, ``cost``, ``at``.
        items
            ``item`` and optionally ``n_classes``, ``stratum``, ``weight``, ``text``, ``options``,
            ``image``.
        grades
            ``item``, ``system``, ``verdict`` (is this system's answer to this item right? yes/no,
            true/false, 1/0, right/wrong, correct/incorrect, pass/fail, unsure) and optionally
            ``rater``, ``propensity``, ``cost``, ``at``, ``cluster``; of a judge ``guess`` (how sure it is
            that the answer is right), ``position`` and ``length``. They need neither answers nor
            classes, so that answers may be free text. A grade speaks of its own system; with a
            propensity (of a question about that answer, given the item) of all systems, as a
            question about that class.
        n_classes
            Number of classes K where ``items`` does not say. Without it K is inferred, with a
            warning: one more than the largest class seen, or the number of different classes seen
            where classes are text. Grades alone need none.
        classes
            The classes, where they are not 0 to K - 1.
        conflicts
            ``"error"`` refuses items whose labels contradict each other; ``"drop"`` leaves these
            labels unused and counts the items.
        columns
            Your names of the columns: ``{"item": "question_id"}`` for every table,
            ``{"answers.item": "id"}`` for one. Without it common names (``question_id``, ``model``,
            ``prediction``, …) are taken where the column itself is missing.
        wide
            Whether answers have one row per item; by default their columns tell.
        systems
            The columns of wide answers; by default all that are not the item, about the item, or a
            key.
        label, ruled_out
            Columns of wide answers with the true class, and with a class that is ruled out: these
            are the judgements then.
        no_answer
            What stands for no answer, such as ``[-1, "N/A"]``; null and empty text always do.
        invalid
            An answer that is no class of its item counts as ``"wrong"`` and is named in
            ``inferred``; ``"refuse"`` makes it an error.

        White space around classes, their case, letters (``A)``), texts of options and classes that
        count from 1 are read as
        :mod:`noracle.evidence.classes` says. Each choice is a line of ``inferred``.

        Each table is a path, a glob or a URL (CSV, JSONL, Parquet), a list of these, a dict of
        columns, or a pandas, Polars, Arrow, DuckDB, PySpark, Ibis or SQLFrame frame. Further
        columns are allowed and ignored. Frames of pandas mark a missing answer with NaN.

        Raises
        ------
        EvidenceError
            If a column is missing or of a wrong type; all faults at once.

        Examples
        --------
        >>> evidence = Evidence.from_tables(
        ...     answers={"item": [1, 2, 3], "system": ["a", "a", "a"], "answer": [0, 2, None]},
        ...     judgements={"item": [1, 2], "class": [0, 2], "verdict": ["yes", "no"]},
        ...     n_classes=3,
        ... )
        >>> evidence.n_classes
        3
        """
        tables = {"answers": answers, "judgements": judgements, "grades": grades, "items": items}
        said: dict[str, Any] = {"label": label, "ruled_out": ruled_out}
        said["no_answer"] = no_answers(no_answer)
        shape = shape_of(columns, wide=wide, systems=systems, **said)
        about: dict[str, Any] = {"n_classes": n_classes, "classes": classes}
        return cls._made(tables, shape, **about, conflicts=conflicts, invalid=invalid)

    @classmethod
    def _made(
        cls,
        given: dict[str, Any],
        shape: Shape,
        *,
        n_classes: int | None,
        classes: Sequence[int | str] | None,
        conflicts: Conflicts,
        invalid: Invalid,
        part: bool = False,
        from_one: bool | None = None,
    ) -> Self:
        """Evidence from tables; ``part`` if others hold the rest, ``from_one`` how these count."""
        told = conflicts in {"error", "drop"}
        require(told, f"conflicts must be 'error' or 'drop'; got {conflicts!r}.")
        given, notes = _from_logs(given)
        check_invalid(invalid)
        tables = {name: table for name, table in given.items() if table is not None}
        there = tables.keys() & {"answers", "judgements", "grades"}
        rule = "must have answers, judgements or grades"
        require_evidence(there, "evidence", rule, "none of them")
        known = _known_classes(n_classes, classes)
        frames, connection = open_frames(tables)
        made = shaped(frames, shape)
        frames = made.frames
        if "answers" in frames:
            frames["answers"], runs = numbered_runs(frames["answers"])
            notes += runs
        free = "grades" in frames and "judgements" not in frames
        free = free and n_classes is None and known is None
        if free:
            frames = _free_text(frames)
        faults: list[str] = []
        for name in frames:
            frames[name], problems = normalise(frames[name], TABLES[name])
            faults += problems
        raise_faults(faults)
        spoken = [("answers", "answer"), ("judgements", "class")]
        first = {name: _first(frames[name], dict(spoken).get(name)) for name in frames}
        raise_faults([f"{name} {EMPTY}" for name in frames if not first[name]])
        faults = meet_ids(frames, made.notes, [(name, "item") for name in frames])
        whole = [pair for pair in spoken if len(first.get(pair[0], [()])[0]) > 1]
        reader = Classes(
            frames=frames,
            pairs=spoken,
            n_classes=n_classes,
            classes=known,
            no_answer=shape.no_answer,
            notes=made.notes,
            ours=connection is not None,
            first={pair: [row[1] for row in first[pair[0]]] for pair in whole},
        )
        kind = "text"
        if not faults and free:
            kind = reader.silence()
        elif not faults:
            kind, faults = _read_classes(reader, invalid, part=part, from_one=from_one)
        unmet = [] if part else [pair for pair in _LABELS if is_large(first.get(pair[0], ()))]
        if not part and not faults:
            small = [pair for pair in _LABELS if pair not in unmet]
            faults = [line for pair in small for line in apart(frames, *pair)]
        raise_faults(faults)
        known = reader.classes
        if "items" in frames and "n_classes" in frames["items"].columns and n_classes is not None:
            frames["items"] = frames["items"].with_columns(nw.col("n_classes").fill_null(n_classes))
        answers, every = first_runs(frames.get("answers"))
        listed = "items" in frames
        if "grades" in frames:
            frames, clustered = _clusters_of_grades(frames)
            notes += clustered
        evidence = cls(
            answers=answers,
            repeats=every,
            inferred=(*notes, *made.notes),
            _read=frozenset(made.notes),
            judgements=frames.get("judgements"),
            grades=frames.get("grades"),
            items=frames.get("items"),
            n_classes=n_classes if known is None else len(known),
            classes=known,
            class_kind="text" if kind == "text" else "whole",
            conflicts=conflicts,
            _listed=listed,
            _from_one=reader.from_one,
            protocol="sets" if made.sets else None,
            _connection=connection,
            _rows=made.items.get("answers"),
            _unmet=unmet,
        )
        return evidence._with_n_classes()

    @classmethod
    def from_wide(
        cls,
        table: object,
        *,
        systems: Sequence[str],
        item: str | None = None,
        label: str | None = None,
        ruled_out: str | None = None,
        n_classes: int | None = None,
        classes: Sequence[int | str] | None = None,
    ) -> Self:
        """Evidence from a table with one row per item and one column per system, as
        :meth:`from_tables` takes it too.

        Parameters
        ----------
        table
            Any table that :meth:`from_tables` takes.
        systems
            The columns with answers, one per system.
        item
            The column that names items; by default one called so, else the row number, from 0.
        label, ruled_out
            The columns with the true class and with a class that is ruled out; null where nobody
            said.

        Examples
        --------
        >>> wide = {"q": [1, 2], "agent": [0, 1], "key": [0, None], "not": [None, 2]}
        >>> Evidence.from_wide(wide, systems=["agent"], item="q", label="key", ruled_out="not", n_classes=3).judgements.columns
        ['item', 'class', 'verdict', 'said']
        """
        named = None if item is None else {"answers.item": item}
        about: dict[str, Any] = {"n_classes": n_classes, "classes": classes, "columns": named}
        about |= {"systems": systems, "label": label, "ruled_out": ruled_out}
        evidence = cls.from_tables(table, wide=True, **about)
        return dataclasses.replace(evidence, protocol="sets")

    @classmethod
    def from_paper_csv(cls, path: str | Path, *, answers: object = None) -> Self:
        """Evidence from a CSV file with columns ``Question, A, B, …, Answer, Comp_label``.

        Option letters become classes 0, 1, …; an item is named by its row, from 0; its number of
        classes is the number of options that are filled. ``Answer`` is an ordinary label,
        ``Comp_label`` a ruled-out class. ``answers`` is a long table with these item numbers, whose
        answers are letters or classes. Texts are kept only in ``items``.
        """
        from noracle.evidence.tables import answers_as_classes, read_paper_csv

        judgements, items = read_paper_csv(path)
        given = None if answers is None else answers_as_classes(answers)
        evidence = cls.from_tables(given, judgements, items)
        return dataclasses.replace(evidence, protocol="sets")

    def check(self) -> Self:
        """Check every row now; returns the evidence itself.

        Raises
        ------
        EvidenceError
            With all faults at once, the first five items of each named.
        """
        self._meet()
        if not self._checked:
            raise_faults(faults_of_evidence(self))
            self._checked.append(True)
        return self

    def _meet(self, met: tuple[int, int] | None = None) -> None:
        """See whether answers and labels share items; ``met`` of how many, if a count told."""
        while self._unmet:
            second, about = self._unmet[0]
            frames = {"answers": self.answers, second: getattr(self, second)}
            found = {name: frame for name, frame in frames.items() if frame is not None}
            raise_faults(apart(found, second, about, met) if len(found) == len(frames) else [])
            self._unmet.pop(0)

    def with_repeats(self, how: Repeats) -> Self:
        """The same evidence, with another answer to "when is an item right that was answered
        several times?".

        Parameters
        ----------
        how
            ``mean``: as often as its runs are, so that the accuracy is that of one run. ``all``: if
            every run is right. ``any``: if at least one run is. A run without an answer is wrong.
            Estimates, comparisons and races count by it, checks look at the same answers;
            everything else uses the first run.

        Examples
        --------
        >>> answers = {"item": [1, 1], "system": ["a", "a"], "answer": [0, 1], "repeat": [1, 2]}
        >>> evidence = Evidence.from_tables(answers, {"item": [1], "class": [0], "verdict": ["yes"]}, n_classes=2)
        >>> from noracle import estimate_accuracy
        >>> [estimate_accuracy(evidence.with_repeats(how)).value for how in ("mean", "all", "any")]
        [0.5, 0.0, 1.0]
        """
        known = how in {"mean", "all", "any"}
        require(known, f"repeats must be 'mean', 'all' or 'any'; got {how!r}.")
        if how == self.repeats_as:
            return self
        kept = self._known("labels", "propensities")
        return dataclasses.replace(self, repeats_as=how, _kept=kept)

    def of_raters(self, raters: Sequence[str]) -> Self:
        """The same evidence with the judgements and grades of these raters alone; all items stay.

        Examples
        --------
        >>> grades = {"item": [1, 2, 1], "system": ["a"] * 3, "verdict": ["yes", "no", "no"], "rater": ["model", "model", "ann"]}
        >>> evidence = Evidence.from_tables(grades=grades).of_raters(["ann"])
        >>> evidence.rows("grades", "item", "verdict"), sorted(evidence.rows("items", "item"))
        ([(1, 'no')], [(1,), (2,)])
        """
        made: dict[str, Any] = {}
        for name in ("judgements", "grades"):
            frame = getattr(self, name)
            if frame is not None and "rater" in frame.columns:
                made[name] = frame.filter(nw.col("rater").is_in(list(raters)))
        rule = f"must have a column rater with one of {list(raters)}"
        there = any(has_rows(frame.select("item")) for frame in made.values())
        require_evidence(there, "judgements and grades", rule, "none")
        if self.open_ended:
            made |= {"items": distinct(self.grades, "item"), "_listed": True}  # type: ignore[arg-type]
        return dataclasses.replace(self, **made, _kept={}, _checked=[])

    @property
    def _about(self) -> tuple[Any, ...]:
        """What all that is kept depends on."""
        tables = (self.answers, self.judgements, self.items, self.grades, self.repeats)
        return (*tables, self.n_classes, self.conflicts)

    def _recall(self, name: str, make: Callable[[], T], *more: object) -> T:
        """What was made of these very tables (and ``more``) before, else made now and kept."""
        about, kept = (*self._about, *more), self._kept.get(name)
        if kept is None or any(a is not b for a, b in zip(kept[0], about, strict=True)):
            kept = self._kept[name] = about, make()
        found: T = kept[1]
        return found

    def _known(self, *names: str) -> dict[str, Any]:
        """Some of what is kept, for another evidence with the same tables."""
        return {name: self._kept[name] for name in names if name in self._kept}

    def _settled(self, frame: Frame) -> Frame:
        """A frame worked out once, where the engine is ours."""
        return settle(frame, ours=self._connection is not None)

    def rows(
        self, table: Literal["answers", "judgements", "grades", "items"], *columns: str
    ) -> list[tuple[Any, ...]]:
        """The rows of a table as tuples of plain values; by default with all columns that it has of
        :data:`TABLES`.
        """
        self._meet()
        frame: Frame | None = getattr(self, table)
        if frame is None:
            return []
        known = [column.name for column in TABLES[table].columns if column.name in frame.columns]
        return fetch(frame.select(*(columns or known)))

    def __repr__(self) -> str:
        """One line, without a query."""
        named = ("answers", "judgements", "grades", "items")
        tables = {name: frame for name in named if (frame := getattr(self, name, None)) is not None}
        engine = str(next(iter(tables.values())).implementation) if tables else "no table"
        parts = [", ".join(tables)]
        if self.n_classes is not None:
            parts.append(f"{self.n_classes} classes")
        parts += [found.brief for _, found in self._kept.values() if hasattr(found, "brief")][:1]
        return f"Evidence({engine}: {'; '.join(part for part in parts if part)})"

    def repeated_answers(self) -> Frame:
        """The items, or items and systems, that were answered more than once."""
        if self._rows is not None:
            return repeats(self._rows, ("item",))
        if self.answers is None:
            raise EvidenceError.of("evidence", "must have answers", "none")
        return repeats(self.answers, ("item", "system"))

    @property
    def assumed(self) -> tuple[str, ...]:
        """The choices that results rest on; how columns and spellings were read is told when the
        tables are opened.
        """
        return tuple(line for line in self.inferred if line not in self._read)

    @property
    def has_own_n_classes(self) -> bool:
        """Whether the number of classes may differ by item."""
        return self.items is not None and "n_classes" in self.items.columns

    @property
    def open_ended(self) -> bool:
        """Whether nothing lists the items asked about: there are grades alone, and graded items are
        a sample of more.
        """
        listed = self.items is not None and self._listed
        return self.grades is not None and self.answers is None and not listed

    def _with_n_classes(self) -> Self:
        """Infer the number of classes where nobody gave it, and say so."""
        if self.has_own_n_classes or self.classes is not None:
            return self
        if self.grades is not None and self.judgements is None and self.n_classes is None:
            return self  # a grade is right or wrong whatever the number of classes
        if self.class_kind == "whole":
            if self.n_classes is not None:
                return self
            return self._inferred(self._largest_class() + 1, "the largest class seen plus one")
        most = _MOST_INFERRED + 1 if self.n_classes is None else self.n_classes + 6
        seen = self._seen_classes(most)
        if self.n_classes is None:
            return self._inferred(len(seen), "the number of different classes seen")
        came = f"more: {', '.join(repr(s[:40]) for s in seen[:6])}, …"
        few, rule = len(seen) <= self.n_classes, f"must have at most {self.n_classes}"
        rule = f"{rule} different classes"
        require_evidence(few, "answer and class", rule, came, remedy="Pass classes.")
        return self

    def _inferred(self, k: int, how: str) -> Self:
        fits, remedy = 2 <= k <= _MOST_INFERRED, "Pass n_classes or classes."
        rule = f"must be given unless {how} is between 2 and {_MOST_INFERRED}"
        require_evidence(fits, "n_classes", rule, k, remedy=remedy)
        line = f"n_classes = {k} inferred: {how}"
        warnings.warn(f"{line}. Pass n_classes to be sure.", EvidenceWarning, stacklevel=4)
        return dataclasses.replace(self, n_classes=k, inferred=(*self.inferred, line))

    @property
    def _spoken(self) -> list[tuple[Frame, str]]:
        """The tables that hold classes, each with its column of them."""
        tables = ((self.answers, "answer"), (self.judgements, "class"))
        return [(frame, column) for frame, column in tables if frame is not None]

    def _largest_class(self) -> int:
        largest = [fetch(frame.select(nw.col(name).max()))[0][0] for frame, name in self._spoken]
        return max((int(v) for v in largest if v is not None), default=0)

    def _seen_classes(self, most: int | None = None) -> list[str]:
        seen: set[str] = set()
        for frame, column in self._spoken:
            different = distinct(frame.filter(is_there(column)), column)
            some = different if most is None else different.head(most)
            seen.update(str(row[0]) for row in fetch(some))
        return sorted(seen)


def _from_logs(given: dict[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The tables with logs and results of evaluation tools read, and what must be said of them."""
    notes: tuple[str, ...] = ()
    if log_format(given.get("answers")) is not None:
        from noracle.evidence.logs import read_logs

        log = read_logs(given["answers"], labels=given.get("judgements") is None)
        notes = log.notes
        told = {"judgements": log.judgements, "items": log.items}
        more = {name: table for name, table in told.items() if given.get(name) is None}
        given = {**given, "answers": log.answers, **more}
    if given.get("grades") is not None:
        from noracle.evidence.grade_logs import grades_log_format, read_grades

        if grades_log_format(given["grades"]) is not None:
            results = read_grades(given["grades"])
            given, notes = {**given, "grades": results.columns}, (*notes, *results.notes)
    return given, notes


def _read_classes(
    reader: Classes, invalid: Invalid, *, part: bool, from_one: bool | None
) -> tuple[str, list[str]]:
    kind, faults = reader.read()
    if not faults and kind == "whole":
        faults = reader.count_from_zero(shift=not part, from_one=from_one)
    if not faults and invalid == "wrong":
        faults = reader.set_aside()
    return kind, faults


def _first(frame: Frame, spoken: str | None) -> list[tuple[Any, ...]]:
    """The first rows of a table: the items, and the classes where they are whole numbers."""
    whole = spoken is not None and frame.collect_schema()[spoken] == nw.Int64
    return first_rows(frame, *([str(spoken)] if whole else []))


_RUNS = ("epoch", "run", "sample", "attempt", "trial")
"""Columns that may number the runs of an item, where there is no column ``repeat``."""


def numbered_runs(answers: Frame) -> tuple[Frame, tuple[str, ...]]:
    """The answers with a column ``repeat``, where one of another name tells runs apart."""
    schema = answers.collect_schema()
    named = [name for name in _RUNS if name in schema and schema[name].is_numeric()]
    if not named or "repeat" in schema or not {"item", "system", "answer"} <= set(schema):
        return answers, ()
    if not has_rows(repeats(answers, ("item", "system"))):
        return answers, ()
    for name in named:
        if not has_rows(repeats(answers, ("item", "system", name))):
            line = f"column {name!r} of the answers numbers the runs of an item"
            return answers.rename({name: "repeat"}), (line,)
    return answers, ()


def first_runs(answers: Frame | None) -> tuple[Frame | None, Frame | None]:
    """The first answer of each system to each item, and all of them where there are more."""
    if answers is None or "repeat" not in answers.columns:
        return answers, None
    if not has_rows(repeats(answers, ("item", "system"))):
        return answers.drop("repeat"), None
    first = answers.group_by("item", "system").agg(repeat=nw.col("repeat").min())
    return answers.join(first, on=["item", "system", "repeat"], how="inner").drop("repeat"), answers


def _free_text(frames: dict[str, Frame]) -> dict[str, Frame]:
    """Answers beside grades, without classes, may be any text: fractions are text too."""
    schema = frames["answers"].collect_schema() if "answers" in frames else {}
    if "answer" in schema and schema["answer"].is_numeric() and not schema["answer"].is_integer():
        number = nw.col("answer").cast(nw.Float64)
        text = nw.when(~number.is_null() & ~number.is_nan()).then(number.cast(nw.String))
        frames = {**frames, "answers": frames["answers"].with_columns(text.alias("answer"))}
    return frames


def _clusters_of_grades(frames: dict[str, Frame]) -> tuple[dict[str, Frame], tuple[str, ...]]:
    """Clusters of grades as those of the items, if each item asked about has one; with notes."""
    grades, items = frames["grades"], frames.get("items")
    if "cluster" not in grades.columns or (items is not None and "cluster" in items.columns):
        return frames, ()
    named = grades.filter(is_there("cluster"), is_there("item"))
    own = named.group_by("item").agg(cluster=nw.col("cluster").max(), least=nw.col("cluster").min())
    several = own.filter(nw.col("cluster") != nw.col("least")).select("item")
    where = [row[0] for row in fetch(several.sort("item").head(5))]
    if where:
        what, rule = "grades.cluster", "must be the same in all rows of an item"
        raise EvidenceError.of(what, rule, "different ones", where=where, total=len(where))
    asked = items if items is not None else frames.get("answers", grades)
    if asked is not grades and has_rows(asked.join(own, on="item", how="anti").select("item")):
        line = "clusters of grades are not used: items without a grade have none"
        return frames, (f"{line}. Name them in the items",)
    rows = distinct(asked, "item") if items is None else items
    return {**frames, "items": rows.join(own.select("item", "cluster"), on="item", how="left")}, ()


EMPTY = "must have rows; got an empty table. Write rows into it or leave it out."
"""What is said of a table without rows."""


def read_table(source: object, table: str, *, shape: Shape | None = None) -> Frame:
    """Read and check one table of :data:`TABLES`; returns a lazy narwhals frame with its known
    columns.

    ``shape`` says how its columns are called, and whether it has one row per item; by default the
    columns tell.

    Examples
    --------
    >>> read_table({"item": [1], "rater": ["ann"], "label": ["cat"]}, "ratings").columns
    ['item', 'rater', 'label']
    """
    require(table in TABLES, f"table must be one of {sorted(TABLES)}; got {table!r}.")
    frames, _ = open_frames({table: source})
    frame, faults = normalise(shaped(frames, shape or Shape()).frames[table], TABLES[table])
    raise_faults(faults)
    raise_faults([] if has_rows(frame.select("item")) else [f"{table} {EMPTY}"])
    spoken = WIDE.get(table, ("", ""))[1]
    if spoken in ("answer", "label"):
        silent = shape.no_answer if shape else ()
        pairs = [(table, spoken)]
        reader = Classes(frames={table: frame}, pairs=pairs, no_answer=silent, ours=False)
        reader.silence()
        frame = reader.frames[table]
    raise_faults(faults_of_table(frame, TABLES[table]))
    return frame


def _known_classes(
    n_classes: object, classes: Sequence[int | str] | None
) -> tuple[int | str, ...] | None:
    whole = n_classes if isinstance(n_classes, int) and not isinstance(n_classes, bool) else 0
    fits = n_classes is None or 2 <= whole <= MAX_CLASSES
    rule = f"must be a whole number from 2 to {MAX_CLASSES}"
    require_evidence(fits, "n_classes", rule, repr(n_classes))
    if classes is None:
        return None
    known = tuple(classes)
    one_type = len({type(c) for c in known}) == 1 and isinstance(known[0], (int, str))
    differ = len(set(known)) == len(known) >= 2
    rule = "must be at least two different texts or whole numbers"
    require_evidence(differ and one_type, "classes", rule, repr(known)[:80])
    same, rule = n_classes in {None, len(known)}, f"must be the number of classes, {len(known)}"
    require_evidence(same, "n_classes", rule, n_classes, remedy="Leave it out.")
    return known
