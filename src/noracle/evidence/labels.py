"""Judgements of the same item as one label.

- ``once``: one row per judgement, exact repeats counted once;
- ``first_questions``: the first question of each item, which is its label where propensities were
  recorded;
- ``class_labels``: one row per item and class, what was said of it;
- ``item_labels``: one row per item, how many classes were confirmed and ruled out, and whether that
  is possible;
- ``gather``: all of them for one evidence, worked out once and kept with it, because every count
  asks for them.

A grade says of one system's answer to an item that it is right or wrong:

- ``questions_of``: the judgements, and with them the grades that have a propensity: a question
  about the class that the system answered;
- ``grade_labels``: one row per item and system, what grades say of that system alone;
- ``contradictions``: the items of which judgements and grades say what cannot be true together.

Whether questions were uniform is a property of the whole table (``propensities_of``): a propensity
that happens to be 1/K in a table with others belongs to a design that may depend on the answers.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import narwhals as nw

from noracle.errors import EvidenceError, fault
from noracle.evidence.frames import (
    Frame,
    engine_of,
    fetch,
    keeps_order,
    number_rows,
    open_frames,
    settle,
)
from noracle.evidence.tables import (
    GRADES,
    MAX_CLASSES,
    NO,
    STATES,
    TABLES,
    UNKNOWN,
    UNSURE,
    YES,
    Column,
    Table,
    either,
    normalise,
    odd,
    shown,
)

if TYPE_CHECKING:
    from noracle.evidence.evidence import Evidence

KNOWN = Table(
    name="known",
    columns=(Column(name="item", kind="id"), Column(name="label", kind="class")),
    key=("item",),
)


def read_known(known: object, *, name: str = "known") -> dict[Any, Any]:
    """Labels by item, from a table ``item``, ``label`` (in any form that evidence takes) or from a
    mapping; without a label, not known.

    Examples
    --------
    >>> read_known({"item": [1, 2], "label": ["cat", None]})
    {1: 'cat'}
    """
    if isinstance(known, Mapping) and (
        not known or isinstance(known.get("item", 0), (int, str))
    ):  # not a dict of columns
        return dict(known)
    frames, connection = open_frames({name: known})
    frame, faults = normalise(frames[name], dataclasses.replace(KNOWN, name=name))
    if faults:
        raise EvidenceError(*faults)
    rows = fetch(frame.select("item", "label").filter(~nw.col("label").is_null()))
    del connection  # it had to live until the rows were read
    twice = [item for item, n in Counter(row[0] for row in rows).items() if n > 1]
    if twice:
        rule = "must name each item once, with one label for each item"
        raise EvidenceError.of(
            name,
            rule,
            "some more often",
            where=twice,
            total=len(twice),
            remedy="Keep one row an item.",
        )
    return {row[0]: row[1] for row in rows}


KEYS = (
    "label",
    "answer",
    "key",
    "truth",
    "target",
    "gold",
    "correct",
    "class",
    "true_label",
    "correct_answer",
)
"""What people call the column with the true class."""


def read_key(key: object, column: str | None = None) -> dict[Any, Any]:
    """The true class by item, from a mapping or a table with ``item`` and ``column`` (by default
    the one column named as in KEYS).

    Examples
    --------
    >>> read_key({"item": [1, 2], "gold": ["cat", None]})
    {1: 'cat'}
    """
    if isinstance(key, Mapping) and not any(
        isinstance(value, (list, tuple)) or hasattr(value, "__array__") for value in key.values()
    ):
        return dict(key)
    frames, connection = open_frames({"key": key})
    names = frames["key"].columns
    found = (
        [name for name in names if name in KEYS]
        if column is None
        else [name for name in names if name == column]
    )
    if len(found) != 1 or "item" not in names:
        rule = f"must have a column item and {'one of ' + ', '.join(KEYS) if column is None else f'the column {column}'}"
        came = f"{', '.join(found)} in {shown(names)}" if len(found) > 1 else f"{shown(names)}"
        raise EvidenceError.of(
            "key",
            rule,
            came,
            remedy="Name the column with the true class: --key-column, key_column=.",
        )
    table = frames["key"].select("item", label=nw.col(found[0]))
    rows = read_known(table.to_native(), name="key")
    del connection
    return rows


# ----------------------------------------------------------------------------


_UNIFORM_WITHIN = 1e-9
_NOTHING = -1


class Gathered(NamedTuple):
    """Judgements gathered.

    ``each`` has every judgement once, ``said`` and ``known`` all that they say by item and class
    and by item. ``kept`` has those that make the labels, ``classes`` and ``items`` what these say;
    contradictory items are there and marked. The two differ only where propensities were recorded
    and an item was asked about more than once.
    """

    each: Frame
    said: Frame
    known: Frame
    kept: Frame
    classes: Frame
    items: Frame


def gather(evidence: Evidence) -> Gathered:
    """The judgements of an evidence gathered into labels; the work is done once, except on a
    cluster or in a warehouse.
    """
    about = (
        evidence.judgements,
        evidence.items,
        evidence.n_classes,
        evidence.grades,
        None if evidence.grades is None else evidence.answers,
    )
    kept = evidence._kept.get("labels")
    if kept is None or any(a is not b for a, b in zip(kept[0], about, strict=True)):
        questions = questions_of(evidence)
        ours = evidence._connection is not None
        aimed = propensities_of(evidence) == "recorded"
        each = settle(once(number_rows(questions, "row") if aimed else questions), ours=ours)
        # Without an unsure only a yes against a no is mixed, which the classes show: no need to
        # look at each rater.
        plain = (ours or each.implementation.is_polars()) and not fetch(
            each.filter(nw.col("said") == UNSURE).head(1)
        )
        said = settle(class_labels(evidence, each, by_rater=not plain, scored=aimed), ours=ours)
        known = settle(item_labels(said), ours=ours)
        found = Gathered(each, said, known, each, said, known)
        if aimed and fetch(known.filter(nw.col("n_judged") > 1).head(1)):
            _require_order(each)
            label = settle(first_questions(each), ours=ours)
            classes = settle(
                class_labels(evidence, label, by_rater=not plain, scored=True), ours=ours
            )
            whole = known.select("item", "conflict", "n_judged")
            items = (
                item_labels(classes).drop("conflict", "n_judged").join(whole, on="item", how="left")
            )
            found = Gathered(each, said, known, label, classes, settle(items, ours=ours))
        kept = evidence._kept["labels"] = about, found
    gathered: Gathered = kept[1]
    return gathered


def _require_order(each: Frame) -> None:
    """The first question of an item is its label: where rows have no order, only ``at`` tells which
    one that is.
    """
    if keeps_order(each) or (
        "at" in each.columns and not fetch(each.filter(nw.col("at").is_null()).head(1))
    ):
        return
    rule = "must have a column at, filled, where propensities are recorded and items were asked about more than once"
    raise EvidenceError.of(
        "judgements", rule, "no times", remedy=f"Rows of {engine_of(each)} frames have no order."
    )


def propensities_of(evidence: Evidence) -> Literal["none", "uniform", "recorded"]:
    """Whether probabilities of the questions were recorded, and whether every one of them is 1/K."""
    judgements = evidence.judgements
    if recorded_grades(evidence):  # they are aimed at answers, whatever the number
        return "recorded"
    if judgements is None or "propensity" not in judgements.columns:
        return "none"
    about = (judgements, evidence.items, evidence.n_classes)
    kept = evidence._kept.get("propensities")
    if kept is None or any(a is not b for a, b in zip(kept[0], about, strict=True)):
        told = with_n_classes(judgements.filter(~nw.col("propensity").is_null()), evidence)
        off = (nw.col("propensity") * nw.col("k").cast(nw.Float64) - 1.0).abs() > _UNIFORM_WITHIN
        rows, wrong = fetch(
            told.select(off=off.fill_null(value=False).cast(nw.Int64)).select(
                n=nw.len(), off=nw.col("off").max()
            )
        )[0]
        kind: Literal["none", "uniform", "recorded"] = (
            "none" if not rows else "recorded" if wrong else "uniform"
        )
        evidence._kept["propensities"] = about, kind
        return kind
    found: Literal["none", "uniform", "recorded"] = kept[1]
    return found


def as_recorded(evidence: Evidence) -> Evidence:
    """The same evidence as part of a larger table whose propensities are not all 1/K."""
    about = (evidence.judgements, evidence.items, evidence.n_classes)
    return dataclasses.replace(evidence, _kept={"propensities": (about, "recorded")})


def first_questions(each: Frame) -> Frame:
    """The first question of every item that has a recorded propensity, all judgements of the
    others.

    First is by ``at``, then by the order of rows. Whether there is a second question may depend on
    the first verdict, so that a mean over an item's questions is biased; an ``unsure`` is missing
    and is not replaced by the next question.
    """
    aimed = (
        each.filter(~nw.col("propensity").is_null())
        .group_by("item")
        .agg(rows=nw.len())
        .select("item")
    )
    mine = each.join(aimed, on="item", how="inner")
    if "at" in each.columns:
        mine = mine.join(mine.group_by("item").agg(start=nw.col("at").min()), on="item", how="left")
        mine = mine.filter((nw.col("at") == nw.col("start")) | nw.col("start").is_null())
    frame = each.join(mine.group_by("item").agg(first=nw.col("row").min()), on="item", how="left")
    return frame.filter((nw.col("row") == nw.col("first")) | nw.col("first").is_null()).drop(
        "first"
    )


def knows_classes(evidence: Evidence) -> bool:
    """Whether the number of classes is known; grades of free text need none."""
    return evidence.n_classes is not None or evidence.has_own_n_classes


def with_n_classes(frame: Frame, evidence: Evidence) -> Frame:
    """The frame with the number of classes of its item in column ``k`` (null for an item that
    ``items`` does not know).
    """
    if evidence.has_own_n_classes and evidence.items is not None:
        return frame.join(
            evidence.items.select("item", k=nw.col("n_classes")), on="item", how="left"
        )
    return frame.with_columns(k=nw.lit(evidence.n_classes, dtype=nw.Int64))


def once(judgements: Frame) -> Frame:
    """Each judgement once, at its first time: same item, class, verdict, rater and propensity; no
    rater is one unnamed rater.
    """
    rater = nw.col("rater").fill_null("") if "rater" in judgements.columns else nw.lit("")
    frame = judgements.with_columns(rater=rater)
    keys = [
        "item",
        "class",
        "said",
        "rater",
        *(["propensity"] if "propensity" in judgements.columns else []),
    ]
    first = {name: nw.col(name).min() for name in ("at", "row") if name in judgements.columns}
    return frame.group_by(*keys).agg(repeats=nw.len(), **first)


def class_labels(
    evidence: Evidence, judgements: Frame, *, by_rater: bool = True, scored: bool = False
) -> Frame:
    """What was said of each class of each item, out of judgements that are there once.

    Columns ``yes``, ``no``, ``unsure`` and ``mixed`` (one rater said different things) are 0 or 1
    and ``n_judged`` counts judgements; where the propensities make the design (``scored``)
    ``recorded`` is 0 or 1 and ``inverse`` is 1/propensity. Without ``by_rater`` it is known that
    nobody was unsure; then mixed is what was confirmed and ruled out.
    """
    frame = with_n_classes(judgements, evidence)
    said = nw.col("said")
    flags = {
        name: (said == code).cast(nw.Int64)
        for name, code in (("yes", YES), ("no", NO), ("unsure", UNSURE))
    }
    frame = frame.with_columns(**flags, n_judged=nw.lit(1, dtype=nw.Int64))
    highest = [*flags, "k"]
    if scored:
        told = ~nw.col("propensity").is_null()
        frame = frame.with_columns(
            recorded=told.cast(nw.Int64), inverse=nw.when(told).then(1.0 / nw.col("propensity"))
        )
        highest += ["recorded", "inverse"]
    wanted = {
        **{name: nw.col(name).max() for name in highest},
        "n_judged": nw.col("n_judged").sum(),
    }
    if not by_rater:
        return (
            frame.group_by("item", "class")
            .agg(**wanted)
            .with_columns(mixed=nw.col("yes") * nw.col("no"))
        )
    frame = frame.group_by("item", "class", "rater").agg(**wanted, low=said.min(), high=said.max())
    frame = frame.with_columns(mixed=(nw.col("low") != nw.col("high")).cast(nw.Int64))
    return frame.group_by("item", "class").agg(**wanted, mixed=nw.col("mixed").max())


def item_labels(classes: Frame, *, by_class: bool = False) -> Frame:
    """The label of each item, with ``conflict`` where no true class could explain what was said.

    A conflict is: two confirmed classes, a class both confirmed and ruled out, every class ruled
    out, or one rater who said different things of one class. ``by_class`` adds ``asked``, the class
    that the label speaks of where it is one.
    """
    wanted = {
        "n_yes": nw.col("yes").sum(),
        "n_no": nw.col("no").sum(),
        "n_unsure": nw.col("unsure").sum(),
        "n_judged": nw.col("n_judged").sum(),
        "k": nw.col("k").max(),
        "clash": nw.col("clash").max(),
    }
    frame = classes.with_columns(
        clash=nw.max_horizontal(nw.col("yes") * nw.col("no"), nw.col("mixed"))
    )
    if "recorded" in classes.columns:
        wanted["recorded"] = nw.col("recorded").max()
    if by_class:
        for name in ("yes", "no", "unsure"):
            frame = frame.with_columns(
                nw.when(nw.col(name) == 1).then(nw.col("class")).alias(f"{name}_class")
            )
            wanted[f"{name}_class"] = nw.col(f"{name}_class").max()
    frame = frame.group_by("item").agg(**wanted)
    n_yes, n_no = nw.col("n_yes"), nw.col("n_no")
    none_left = ((n_yes == 0) & (n_no >= nw.col("k"))).fill_null(value=False)
    verdict = (
        nw.when(n_yes > 0)
        .then(nw.lit(YES))
        .when(n_no > 0)
        .then(nw.lit(NO))
        .otherwise(nw.lit(UNSURE))
    )
    frame = frame.with_columns(
        conflict=(n_yes > 1) | (nw.col("clash") > 0) | none_left, verdict=verdict
    )
    if by_class:
        asked = nw.when(n_yes == 1).then(nw.col("yes_class"))
        asked = asked.when((n_yes == 0) & (n_no == 1)).then(nw.col("no_class"))
        asked = asked.when((n_yes == 0) & (n_no == 0) & (nw.col("n_unsure") == 1)).then(
            nw.col("unsure_class")
        )
        frame = frame.with_columns(asked=asked)
    return frame


# ------------------------------------------------------------------------------------------------------------------
# grades


def recorded_grades(evidence: Evidence) -> bool:
    """Whether some grade has a propensity."""
    grades = evidence.grades
    if grades is None or "propensity" not in grades.columns:
        return False
    kept = evidence._kept.get("recorded grades")
    if kept is None or kept[0] is not grades:
        found = bool(fetch(grades.filter(~nw.col("propensity").is_null()).select("item").head(1)))
        kept = evidence._kept["recorded grades"] = grades, found
    return bool(kept[1])


def questions_of(evidence: Evidence) -> Frame:
    """What was said of classes: the judgements and, where the answers are there, the grades with a
    propensity.

    Such a grade is a question about the class that its system answered, asked with that
    probability, and so it speaks of every system. A grade without a propensity is none: which
    answers were graded may depend on whose they are.
    """
    if evidence.grades is None:
        if evidence.judgements is None:
            raise EvidenceError.of("evidence", "must have judgements", "none")
        return evidence.judgements
    recorded = recorded_grades(evidence)
    if evidence.judgements is not None and not recorded:
        return evidence.judgements
    rows = _as_judgements(evidence)
    told = (
        ~nw.col("propensity").is_null()
        if recorded and evidence.answers is not None
        else nw.col("said") == _NOTHING
    )
    return _joined(
        [*([] if evidence.judgements is None else [evidence.judgements]), rows.filter(told)]
    )


def _as_judgements(evidence: Evidence) -> Frame:
    """Every grade of an answer as a judgement of the class that was answered; without answers the
    system stands for the class.
    """
    if evidence.grades is None:
        raise EvidenceError.of("evidence", "must have grades", "none")
    names = [
        c
        for c in ("item", "system", "said", "rater", "propensity", "at")
        if c in evidence.grades.columns
    ]
    frame = evidence.grades.select(*names)
    if evidence.answers is None:
        return frame.rename({"system": "class"})
    given = evidence.answers.filter(~nw.col("answer").is_null()).select(
        "item", "system", nw.col("answer").alias("class")
    )
    return frame.join(given, on=["item", "system"], how="inner").drop("system")


def _joined(frames: Sequence[Frame]) -> Frame:
    """Rows of several tables with all their columns; a column that a table lacks is null there."""
    if len(frames) == 1:
        return frames[0]
    schemas = [frame.collect_schema() for frame in frames]
    columns: dict[str, Any] = {}
    for schema in schemas:
        for name in ("item", "class", "said", "rater", "propensity", "at"):
            if name in schema:
                kind = columns.setdefault(name, schema[name])
                if kind != schema[name]:
                    remedy = "Write both in the same way."
                    raise EvidenceError.of(
                        name,
                        "must have one type in judgements and grades",
                        f"{kind} and {schema[name]}",
                        remedy=remedy,
                    )
    parts = [
        frame.select(
            *[
                nw.col(c) if c in schema else nw.lit(None, dtype=kind).alias(c)
                for c, kind in columns.items()
            ]
        )
        for frame, schema in zip(frames, schemas, strict=True)
    ]
    return nw.concat(parts)


def graded_pairs(evidence: Evidence) -> Frame:
    """One row per graded item and system: ``times`` it was graded, and whether as ``right`` or
    ``wrong``; worked out once.
    """
    if evidence.grades is None:
        raise EvidenceError.of("evidence", "must have grades", "none")
    kept = evidence._kept.get("graded pairs")
    if kept is None or kept[0] is not evidence.grades:
        said = nw.col("said")
        flags = {"right": (said == YES).cast(nw.Int64), "wrong": (said == NO).cast(nw.Int64)}
        found = evidence.grades.select("item", "system", **flags).group_by("item", "system")
        pairs = found.agg(times=nw.len(), right=nw.col("right").max(), wrong=nw.col("wrong").max())
        kept = evidence._kept["graded pairs"] = (
            evidence.grades,
            settle(pairs, ours=evidence._connection is not None),
        )
    pairs_found: Frame = kept[1]
    return pairs_found


def grade_labels(evidence: Evidence) -> Frame:
    """One row per item and system with what grades say of that system alone: ``grade`` is a code of
    a verdict.

    ``inverse`` is 1/propensity of a grade with a propensity, where there are no answers that would
    tell whom else it speaks of; where they are there such grades are among :func:`questions_of`.
    """
    if evidence.grades is None:
        raise EvidenceError.of("evidence", "must have grades", "none")
    grade = (
        nw.when(nw.col("right") == 1)
        .then(nw.lit(YES))
        .when(nw.col("wrong") == 1)
        .then(nw.lit(NO))
        .otherwise(nw.lit(UNSURE))
    )
    frame, aimed = evidence.grades, recorded_grades(evidence)
    if not aimed:
        return graded_pairs(evidence).select("item", "system", grade=grade)
    # Of an item with a drawn question that question is the label: whether there is a grade beside
    # it may depend on the draw.
    told = ~nw.col("propensity").is_null()
    drawn = frame.filter(told).group_by("item").agg(_n=nw.len()).select("item")
    others = frame.filter(~told).join(drawn, on="item", how="anti")
    frame = others if evidence.answers is not None else nw.concat([others, frame.filter(told)])
    said = nw.col("said")
    flags = {"right": (said == YES).cast(nw.Int64), "wrong": (said == NO).cast(nw.Int64)}
    if evidence.answers is None:
        flags["inverse"] = 1.0 / nw.col("propensity")
    frame = (
        frame.with_columns(**flags)
        .group_by("item", "system")
        .agg(**{name: nw.col(name).max() for name in flags})
    )
    columns: dict[str, nw.Expr] = {
        "item": nw.col("item"),
        "system": nw.col("system"),
        "grade": grade,
    }
    if "inverse" in flags:
        columns["inverse"] = nw.col("inverse")
    return frame.select(**columns)


_CLASH = {"n_yes": 0, "clash": 1, "n_no": 0, "k": 0}


def _grade_clashes(evidence: Evidence, grades: Frame) -> Frame:
    """Items with an answer that is called right and wrong, or of which one rater says different
    things.
    """
    pairs = graded_pairs(evidence)
    flags = {"right": nw.col("right").max(), "wrong": nw.col("wrong").max()}
    told = pairs
    if evidence.answers is not None:  # systems that share an answer must have the same grade
        given = evidence.answers.filter(~nw.col("answer").is_null()).select(
            "item", "system", "answer"
        )
        told = (
            pairs.join(given, on=["item", "system"], how="inner")
            .group_by("item", "answer")
            .agg(**flags)
        )
    found = [told.filter((nw.col("right") == 1) & (nw.col("wrong") == 1)).select("item")]
    if fetch(pairs.filter(nw.col("times") > 1).head(1)):
        if evidence.answers is not None:
            found.append(
                pairs.filter((nw.col("right") == 1) & (nw.col("wrong") == 1)).select("item")
            )
        rater = nw.col("rater").fill_null("") if "rater" in grades.columns else nw.lit("")
        by_rater = grades.select("item", "system", "said", rater=rater).group_by(
            "item", "system", "rater"
        )
        mixed = by_rater.agg(low=nw.col("said").min(), high=nw.col("said").max()).filter(
            nw.col("low") != nw.col("high")
        )
        found.append(mixed.select("item"))
    return (found[0] if len(found) == 1 else nw.concat(found)).group_by("item").agg(_n=nw.len())


def contradictions(evidence: Evidence) -> Frame:
    """The items of which no truth could explain what was said: ``item``, ``n_yes``, ``clash``,
    ``n_no`` and ``k``.

    With grades an answer that is called right and wrong, by a grade or by a judgement of that
    class, is a contradiction; where classes are known, so are two different right answers of one
    item. Free text may have several right answers.
    """
    names = ("item", "n_yes", "clash", "n_no", "k")
    if evidence.grades is None:
        return gather(evidence).items.filter(nw.col("conflict")).select(*names)
    about = (
        evidence.grades,
        evidence.judgements,
        evidence.answers,
        evidence.items,
        evidence.n_classes,
    )
    kept = evidence._kept.get("contradictions")
    if kept is None or any(a is not b for a, b in zip(kept[0], about, strict=True)):
        found = _grade_clashes(evidence, evidence.grades).select(
            "item", **{name: nw.lit(n, dtype=nw.Int64) for name, n in _CLASH.items()}
        )
        more = []
        if evidence.answers is not None and (
            knows_classes(evidence) or evidence.judgements is not None
        ):
            tables = [
                *([] if evidence.judgements is None else [evidence.judgements]),
                _as_judgements(evidence),
            ]
            items = item_labels(class_labels(evidence, once(_joined(tables)), by_rater=False))
            more.append(
                items.filter(nw.col("conflict") if knows_classes(evidence) else nw.col("clash") > 0)
            )
        if evidence.judgements is not None:
            more.append(
                gather(dataclasses.replace(evidence, grades=None, _kept={})).items.filter(
                    nw.col("conflict")
                )
            )
        for other in more:
            rest = other.select(
                *[nw.col(name) if name == "item" else nw.col(name).cast(nw.Int64) for name in names]
            )
            found = nw.concat(
                [found.select(*names), rest.join(found.select("item"), on="item", how="anti")]
            )
        kept = evidence._kept["contradictions"] = (
            about,
            settle(found, ours=evidence._connection is not None),
        )
    bad: Frame = kept[1]
    return bad


# ----------------------------------------------------------------------------
# The rules that rows must keep, and the search for rows that do not.


_RUNS = "Keep one row of each, or number the runs in a column repeat."
_DROP = "Correct the labels or pass conflicts='drop'."


class RowFault(NamedTuple):
    """A rule about single rows: where ``broken`` is true, ``column`` breaks it."""

    column: str
    rule: str
    broken: nw.Expr
    shown: str | None = None
    remedy: str = ""


def row_faults(table: Table, columns: list[str]) -> list[RowFault]:
    """The rules about single rows of a table with these columns."""
    rules = []
    for column in table.columns:
        name, col = column.name, nw.col(column.name)
        if name not in columns:
            continue
        is_odd = nw.col(odd(name)) if odd(name) in columns else None
        if is_odd is not None:
            words = (
                "must be a whole number"
                if column.kind == "count"
                else "must be whole numbers or text"
            )
            rules.append(RowFault(name, words, is_odd, remedy="Correct it or leave the row out."))
        if not column.nullable:
            null = col.is_null() if is_odd is None else col.is_null() & ~is_odd
            rules.append(
                RowFault(name, "must not be null", null, remedy="Fill it in or leave the row out.")
            )
        if column.kind == "verdict":
            unknown = (nw.col("said") == UNKNOWN) & ~col.is_null()
            rules.append(RowFault(name, "must be yes, no or unsure", unknown, name))
        if column.kind == "grade":
            unknown = (nw.col("said") == UNKNOWN) & ~col.is_null()
            remedy = (
                f"Write one of {', '.join(word for words in GRADES.values() for word in words)}."
            )
            rules.append(RowFault(name, "must say right, wrong or unsure", unknown, name, remedy))
        if column.kind == "state":
            rules += _state_faults(name)
        if column.kind == "count":
            rule = f"must be a whole number from 2 to {MAX_CLASSES}"
            rules.append(
                RowFault(name, rule, ((col < 2) | (col > MAX_CLASSES)).fill_null(value=False), name)
            )
        if column.kind == "number":
            broken = [col.is_nan(), col.abs() == float("inf")]
            if column.low is not None:
                broken.append(col <= column.low if column.above else col < column.low)
            if column.high is not None:
                broken.append(col > column.high)
            rules.append(RowFault(name, column.rule, either(broken).fill_null(value=False), name))
    return rules


def _state_faults(name: str) -> list[RowFault]:
    """A state is one of the known words, and "answered" goes with an answer."""
    state, silent = nw.col(name), nw.col("answer").is_null()
    unknown = (~state.is_in(STATES)).fill_null(value=False)
    clash = (((state == "answered") & silent) | (state.is_in(STATES[1:]) & ~silent)).fill_null(
        value=False
    )
    return [
        RowFault(name, f"must be one of {', '.join(STATES)}", unknown, name),
        RowFault(
            name,
            "must be 'answered' with an answer and another word without",
            clash,
            name,
            "Correct the state or the answer.",
        ),
    ]


def outside(column: str, evidence: Evidence, k: nw.Expr) -> nw.Expr | None:
    """Where a class is not among the classes (null for a null class); None where nothing can be
    outside.
    """
    col = nw.col(column)
    if evidence.classes is not None:
        return ~col.is_in(evidence.classes) & ~col.is_null()
    if evidence.class_kind == "whole" and knows_classes(evidence):
        return (col < 0) | (col >= k)
    return None


def faults_of_table(frame: Frame, table: Table, more: list[RowFault] | None = None) -> list[str]:
    """All faults of one table on its own."""
    rules = row_faults(table, frame.columns) + (more or [])
    counters = {f"fault_{i}": rule.broken.cast(nw.Int64).sum() for i, rule in enumerate(rules)}
    numbers = fetch(frame.select(**counters))[0]
    lines = [
        _located(frame, table.name, rule, int(n))
        for rule, n in zip(rules, numbers, strict=True)
        if n
    ]
    if table.key:
        lines += _repeated(frame, table)
    return lines


def _located(frame: Frame, table: str, rule: RowFault, total: int) -> str:
    argument = f"{table}.{rule.column}"
    if rule.column == "item":
        return fault(argument, rule.rule, _rows(total), remedy=rule.remedy)
    shown = [nw.col(rule.shown).alias("shown")] if rule.shown else []
    found = fetch(frame.filter(rule.broken).select("item", *shown).sort("item").head(5))
    came = _short(found[0][1]) if rule.shown else _rows(total)
    return fault(
        argument, rule.rule, came, where=[row[0] for row in found], total=total, remedy=rule.remedy
    )


def _repeated(frame: Frame, table: Table) -> list[str]:
    repeated = repeats(frame, table.key)
    total = count(repeated)
    if not total:
        return []
    found = fetch(repeated.select("item").sort("item").head(5))
    rule = f"must have one row for each {' and '.join(table.key)}"
    where = [row[0] for row in found]
    remedy = (
        _RUNS if table.name == "answers" and "repeat" not in table.key else "Keep one row of each."
    )
    return [fault(table.name, rule, "repeated rows", where=where, total=total, remedy=remedy)]


def repeats(frame: Frame, key: tuple[str, ...]) -> Frame:
    """The keys that occur more than once."""
    groups = (
        frame.filter(*[~nw.col(name).is_null() for name in key]).group_by(*key).agg(times=nw.len())
    )
    return groups.filter(nw.col("times") > 1)


def count(frame: Frame) -> int:
    """Number of rows."""
    return int(fetch(frame.select(n=nw.len()))[0][0])


def faults_of_evidence(evidence: Evidence) -> list[str]:
    """All faults of all tables, each with its first five items."""
    lines = []
    for name, column in (("answers", "answer"), ("judgements", "class")):
        frame: Frame | None = getattr(evidence, name)
        table = TABLES[name]
        if name == "answers" and evidence.repeats is not None:
            frame, table = evidence.repeats, dataclasses.replace(table, key=(*table.key, "repeat"))
        alone = evidence._rows if name == "answers" else None
        if (
            alone is not None
        ):  # one row per item: whether an item is repeated is seen without looking at every system
            table = dataclasses.replace(table, key=())
        if frame is not None:
            lines += faults_of_table(
                with_n_classes(frame, evidence), table, _outside_fault(column, evidence)
            )
        if alone is not None:
            lines += _repeated(alone, dataclasses.replace(table, key=("item",)))
    if evidence.grades is not None:
        lines += faults_of_table(evidence.grades, TABLES["grades"])
    if evidence.items is not None:
        lines += faults_of_table(evidence.items, TABLES["items"])
        lines += _strangers(evidence)
    if evidence.grades is not None and not lines:
        lines += _grade_faults(evidence)
    if evidence.conflicts == "error" and not lines:
        lines += _contradictions(evidence)
    return lines


def _outside_fault(column: str, evidence: Evidence) -> list[RowFault]:
    broken = outside(column, evidence, nw.col("k"))
    if broken is None:
        return []
    if evidence.classes is not None:
        rule, remedy = (
            f"must be one of {_short(list(evidence.classes))}",
            "Correct it or add it to classes.",
        )
    elif evidence.has_own_n_classes:
        rule, remedy = (
            "must be in [0, n_classes) of its item",
            "Correct it or the item's n_classes.",
        )
    else:
        rule, remedy = (
            f"must be in [0, {evidence.n_classes})",
            "Pass a larger n_classes or drop those items.",
        )
    return [RowFault(column, rule, broken, column, remedy)]


def _strangers(evidence: Evidence) -> list[str]:
    """Answers, or grades where there are no answers, of items that the table of items does not
    hold.
    """
    name = "answers" if evidence.answers is not None else "grades"
    frame: Frame | None = getattr(evidence, name)
    if frame is None or evidence.items is None:
        return []
    strange = frame.filter(~nw.col("item").is_null()).join(
        evidence.items.select("item"), on="item", how="anti"
    )
    strange = strange.group_by("item").agg(times=nw.len())
    total = count(strange)
    if not total:
        return []
    found = fetch(strange.select("item").sort("item").head(5))
    remedy = f"Add them to items or drop these {name}."
    return [
        fault(
            f"{name}.item",
            "must be in items",
            "unknown items",
            where=[r[0] for r in found],
            total=total,
            remedy=remedy,
        )
    ]


def _grade_faults(evidence: Evidence) -> list[str]:
    """What grades cannot be used with: repeats of answers; propensities of several systems of an
    item whose answers are not known.
    """
    if evidence.grades is None:
        return []
    if evidence.repeats is not None:
        remedy = "Keep one answer of each item, or name each run as a system of its own."
        return [
            fault(
                "answers",
                "must have one row for each item and system beside grades",
                "repeats",
                remedy=remedy,
            )
        ]
    if evidence.answers is not None:
        return _graded_silence(evidence.grades, evidence.answers)
    if not recorded_grades(evidence):
        return []
    told = (
        evidence.grades.filter(~nw.col("propensity").is_null())
        .group_by("item", "system")
        .agg(times=nw.len())
    )
    several = told.group_by("item").agg(systems=nw.len()).filter(nw.col("systems") > 1)
    total = count(several)
    if not total:
        return []
    where = [row[0] for row in fetch(several.select("item").sort("item").head(5))]
    rule = "must be of one system for each item where there are no answers, which would tell who shares an answer"
    remedy = "Add the table of answers."
    return [
        fault(
            "grades with a propensity",
            rule,
            "several systems",
            where=where,
            total=total,
            remedy=remedy,
        )
    ]


def _graded_silence(grades: Frame, answers: Frame) -> list[str]:
    """Answers that are missing and yet called right: no answer counts as wrong."""
    right = grades.filter(nw.col("said") == YES).group_by("item", "system").agg(times=nw.len())
    silent = answers.filter(nw.col("answer").is_null()).select("item", "system")
    bad = right.join(silent, on=["item", "system"], how="inner")
    total = count(bad)
    if not total:
        return []
    where = [row[0] for row in fetch(bad.select("item").sort("item").head(5))]
    remedy = "Correct the grade, or write the answer."
    return [
        fault(
            "grades.verdict",
            "must not be right where the answer is missing",
            _rows(total),
            where=where,
            total=total,
            remedy=remedy,
        )
    ]


def _contradictions(evidence: Evidence) -> list[str]:
    if evidence.judgements is None and evidence.grades is None:
        return []
    bad = contradictions(evidence)
    found: list[tuple[Any, ...]] = fetch(
        bad.select("item", "n_yes", "clash", "n_no", "k").sort("item").head(5)
    )
    if not found:
        return []
    _, n_yes, clash, n_no, k = found[0]
    graded = evidence.grades is not None
    if clash:
        came = "different verdicts on one answer" if graded else "different verdicts on one class"
    elif n_yes > 1:
        came = "two different right answers" if graded else "two different yes classes"
    else:
        came = f"{n_no} of {k} classes ruled out"
    where = [row[0] for row in found]
    said = (
        "grades"
        if evidence.judgements is None
        else "judgements and grades"
        if graded
        else "judgements"
    )
    return [
        fault(
            said,
            "must not contradict each other",
            came,
            where=where,
            total=count(bad),
            remedy=_DROP,
        )
    ]


def _rows(total: int) -> str:
    return f"{total} such row{'' if total == 1 else 's'}"


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "…"
