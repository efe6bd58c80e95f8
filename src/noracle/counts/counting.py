"""Tallies out of evidence: one group-by for any size.

Two ways give the same counts. *Flat*: one outer join of judgements and answers and one group-by; right where every item has one
judgement, which the totals of that same query prove. *Grouped*: judgements are first gathered into one label an item.
Only tallies leave the engine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import narwhals as nw

from noracle.counts.tallies import AccuracyCounts, Cell, JudgementCounts, Pattern, PatternCounts, Question, Tally
from noracle.errors import EvidenceError, fault
from noracle.evidence.evidence import Evidence
from noracle.evidence.frames import Frame, fetch, number_rows
from noracle.evidence.labels import class_labels, item_labels, once, recorded
from noracle.evidence.normal import NO, UNKNOWN, UNSURE, VERDICTS, YES, either
from noracle.evidence.tables import TABLES
from noracle.evidence.validate import count, outside, repeats, row_faults

WITHOUT_ANSWERS = "judgements of items without answers"
REPEATED = "repeated judgements"
CONTRADICTORY = "contradictory items"
NOT_ALL_SYSTEMS = "labelled items that some system was not asked about"

_PLACE = ("n_classes", "stratum", "weight")


def count_accuracy(
    evidence: Evidence, *, systems: Sequence[str] | None = None, by_class: bool = False, by_guess: bool = False
) -> AccuracyCounts:
    """How often the answers of each system met the labels.

    An item with a ``yes`` has an ordinary label; without one its distinct ``no`` classes make a complementary label; an item with
    only ``unsure`` is unsure. The population is every row of the answers table. Where a propensity other than 1/K was recorded, the
    mean over the item's judgements (``unsure`` left out) of 1{class = answer, yes}/propensity is kept beside the label, and the same
    for no; a judgement without a propensity there counts as asked with probability 1/K.

    Parameters
    ----------
    evidence
        Answers and judgements; without judgements only the population is counted.
    systems
        The systems to count; by default all.
    by_class
        Keep the class that was asked about and the answer, for transition matrices.
    by_guess
        Keep the guess of correctness that came with the answer, for questions with recorded propensities.

    Returns
    -------
    AccuracyCounts

    Raises
    ------
    EvidenceError
        If rows break a rule; all faults at once.

    Examples
    --------
    >>> evidence = Evidence.from_tables(
    ...     answers={"item": [1, 2, 3], "system": ["a", "a", "a"], "answer": [0, 2, None]},
    ...     judgements={"item": [1, 2], "class": [0, 2], "verdict": ["yes", "no"]},
    ...     n_classes=3,
    ... )
    >>> counts = count_accuracy(evidence)
    >>> counts.total(verdict="yes", hit=True), counts.total(verdict="no", hit=True), sum(counts.answered.values())
    (1, 1, 2)
    """
    answers = _answers(evidence, systems)
    if by_guess and "guess" not in answers.columns:
        raise EvidenceError(fault("answers", "must have a column guess to be counted by guess", "none"))
    if evidence.judgements is not None:
        flat = _flat(evidence, answers, by_class=by_class, by_guess=by_guess)
        if flat is not None:
            return _known_systems(flat, systems)
    return _known_systems(_grouped(evidence, answers, by_class=by_class, by_guess=by_guess), systems)


def count_patterns(evidence: Evidence, *, systems: Sequence[str] | None = None) -> PatternCounts:
    """How systems met the same labels together, over the labelled items that every system was asked about.

    Examples
    --------
    >>> evidence = Evidence.from_tables(
    ...     answers={"item": [1, 1, 2, 2], "system": ["a", "b", "a", "b"], "answer": [0, 1, 2, 2]},
    ...     judgements={"item": [1, 2], "class": [0, 2], "verdict": ["yes", "yes"]},
    ...     n_classes=3,
    ... )
    >>> sorted(p.hits for p in count_patterns(evidence).patterns)
    [(True, False), (True, True)]
    """
    names, frame, keys, unused = _patterns(evidence, systems)
    rows = fetch(frame.group_by(*keys).agg(n=nw.len()))
    patterns: Counter[Pattern] = Counter()
    for *values, n in rows:
        row = dict(zip(keys, values, strict=True))
        pattern = _pattern(evidence, row, len(names))
        if pattern is None:
            unused[NOT_ALL_SYSTEMS] = unused.get(NOT_ALL_SYSTEMS, 0) + int(n)
        else:
            patterns[pattern] += int(n)
    return PatternCounts(systems=names, patterns=dict(patterns), unused=unused, inferred=evidence.inferred)


def label_rows(evidence: Evidence, *, systems: Sequence[str] | None = None) -> tuple[tuple[str, ...], list[Pattern]]:
    """The systems, and the labelled items one by one in the order in which their labels were complete.

    The order is that of column ``at`` of the judgements where there is one (the last judgement of an item completes its label), else
    that of the rows, where the engine keeps it (files, dicts, pandas, Polars, Arrow; not PySpark).
    """
    names, frame, keys, _ = _patterns(evidence, systems, ordered=True)
    rows = fetch(frame.select(*keys, "at", "item").sort("at", "item"))
    patterns = (_pattern(evidence, dict(zip(keys, row[:-2], strict=True)), len(names)) for row in rows)
    return names, [pattern for pattern in patterns if pattern is not None]


def count_judgements(
    evidence: Evidence, *, by_rater: bool = True, by_time: bool = False, counts: AccuracyCounts | None = None
) -> JudgementCounts:
    """What was asked and what was said, over all judgements, whether their items have answers or not.

    Exact repeats count once; judgements of items that the table of items does not hold are left out where that table gives the
    number of classes.

    Parameters
    ----------
    by_time
        Adds the ``period`` of each question: ten periods with about the same number of judgements, in the order of ``at``.
    counts
        Counts of the same evidence, if they are there: where they prove one judgement an item, nothing can be repeated or
        contradictory, and one scan is enough.

    Examples
    --------
    >>> evidence = Evidence.from_tables(judgements={"item": [1, 2], "class": [0, 0], "verdict": ["yes", "no"]}, n_classes=3)
    >>> sorted(q.verdict for q in count_judgements(evidence).questions)
    ['no', 'yes']
    """
    if evidence.judgements is None:
        raise EvidenceError(fault("evidence", "must have judgements", "none"))
    if by_time and "at" not in evidence.judgements.columns:
        raise EvidenceError(fault("judgements", "must have a column at to be counted by time", "none"))
    frame = _questions(evidence, evidence.judgements, single=counts is not None and _one_judgement_an_item(evidence, counts))
    keys = ["class", "said", *(name for name, wanted in (("rater", by_rater), ("propensity", True), ("at", by_time)) if wanted)]
    keys = [name for name in keys if name in frame.columns]
    if evidence.has_own_n_classes and evidence.items is not None:
        frame = frame.join(evidence.items.select("item", "n_classes"), on="item", how="inner")
        keys.append("n_classes")
    rows = [(dict(zip(keys, values, strict=True)), int(n)) for *values, n in fetch(frame.group_by(*keys).agg(n=nw.len()))]
    if by_time:
        rows.sort(key=lambda pair: (pair[0]["at"] is not None, pair[0]["at"]))
    questions: Counter[Question] = Counter()
    total, seen = sum(n for _, n in rows), 0
    for row, n in rows:
        k = int(row.get("n_classes") or evidence.n_classes or 0)
        verdict: Any = VERDICTS[int(row["said"])]
        period = f"period {10 * seen // total + 1} of 10" if by_time else ""
        questions[Question(k, row["class"], verdict, row.get("rater") or "", _score(row.get("propensity")), period)] += n
        seen += n
    return JudgementCounts(questions=dict(questions), inferred=evidence.inferred)


def _questions(evidence: Evidence, judgements: Frame, *, single: bool) -> Frame:
    """The judgements, each once, without those of contradictory items if these are dropped."""
    if single:
        return judgements
    evidence.check()
    frame = once(judgements)
    if evidence.conflicts == "drop":
        labels = item_labels(class_labels(evidence, frame))
        frame = frame.join(labels.filter(nw.col("conflict")).select("item"), on="item", how="anti")
    return frame


def _one_judgement_an_item(evidence: Evidence, counts: AccuracyCounts) -> bool:
    """Every labelled item has a judgement; if there are no more judgements than labelled items, each has exactly one."""
    labelled: Counter[str] = Counter()
    for tally, n in counts.tallies.items():
        labelled[tally.system] += n
    judgements = 0 if evidence.judgements is None else count(evidence.judgements)
    return judgements == max(labelled.values(), default=0) + counts.unused.get(WITHOUT_ANSWERS, 0)


# ---------------------------------------------------------------- shared steps


def _answers(evidence: Evidence, systems: Sequence[str] | None) -> Frame:
    if evidence.answers is None:
        raise EvidenceError(fault("evidence", "must have answers", "none"))
    if systems is None:
        return evidence.answers
    if isinstance(systems, str) or not systems:
        raise EvidenceError(fault("systems", "must be a list of names", repr(systems)))
    return evidence.answers.filter(nw.col("system").is_in([str(s) for s in systems]))


def _known_systems(counts: AccuracyCounts, systems: Sequence[str] | None) -> AccuracyCounts:
    missing = [s for s in systems or () if str(s) not in counts.systems]
    if missing:
        raise EvidenceError(fault("systems", "must be in answers", f"{missing}, which have no answers"))
    return counts


def _place_columns(evidence: Evidence) -> list[str]:
    return [] if evidence.items is None else [c for c in _PLACE if c in evidence.items.columns]


def _placed(frame: Frame, evidence: Evidence) -> Frame:
    """The frame with number of classes, stratum and weight of its items, and ``known`` (whether ``items`` holds the item)."""
    if evidence.items is None:
        return frame
    items = evidence.items.select("item", *_place_columns(evidence), known=nw.lit(value=True))
    if "stratum" in items.columns:
        items = items.with_columns(nw.col("stratum").fill_null(""))
    return frame.join(items, on="item", how="left")


def _k(evidence: Evidence) -> nw.Expr:
    return nw.col("n_classes") if evidence.has_own_n_classes else nw.lit(evidence.n_classes)


class _Met(NamedTuple):
    """One row of the last group-by: how ``n`` answers met their labels. ``verdict`` is None without a label."""

    system: str
    answered: bool
    verdict: int | None
    hit: bool
    n_ruled_out: int
    ruled_hit: bool
    recorded: bool
    yes_score: float | None
    no_score: float | None
    place: tuple[Any, ...]
    asked: Any
    answer: Any
    guess: float | None
    n: int


def _tallied(evidence: Evidence, rows: Iterable[_Met], unused: dict[str, int]) -> AccuracyCounts:
    tallies: Counter[Tally] = Counter()
    items: Counter[Cell] = Counter()
    answered: Counter[Cell] = Counter()
    columns = _place_columns(evidence)
    for row in rows:
        k, stratum, weight = _place(evidence, dict(zip(columns, row.place, strict=True)))
        cell = Cell(row.system, k, stratum, weight)
        items[cell] += row.n
        answered[cell] += row.n if row.answered else 0
        if row.verdict is not None:
            verdict: Any = VERDICTS[row.verdict]
            design: Any = "recorded" if row.recorded else "uniform"
            scores = (_score(row.yes_score), _score(row.no_score)) if row.recorded and row.verdict != UNSURE else (None, None)
            tally = Tally(
                row.system, k, verdict, row.hit, row.answered, row.n_ruled_out, row.ruled_hit, design, *scores, stratum, weight,
                row.asked, row.answer, _score(row.guess),
            )  # fmt: skip
            tallies[tally] += row.n
    used = {name: n for name, n in unused.items() if n}
    return AccuracyCounts(tallies=dict(tallies), items=dict(items), answered=dict(answered), unused=used, inferred=evidence.inferred)


def _place(evidence: Evidence, row: dict[str, Any]) -> tuple[int, str, float]:
    k = row["n_classes"] if evidence.has_own_n_classes else evidence.n_classes
    return int(k or 0), row.get("stratum") or "", _score(row.get("weight")) or 1.0


def _score(value: Any) -> float | None:
    """Engines add in different orders: twelve digits are the same on all of them."""
    return None if value is None else float(f"{float(value):.12g}")


# ---------------------------------------------------------------- the flat way


def _flat(evidence: Evidence, answers: Frame, *, by_class: bool, by_guess: bool) -> AccuracyCounts | None:
    """Counts by one outer join and one group-by, or None where some item has several judgements."""
    judgements = evidence.judgements
    if judgements is None:
        return None
    scored = "propensity" in judgements.columns
    frame, keys = _flat_groups(evidence, answers, judgements, by_class=by_class, by_guess=by_guess)
    rows = [dict(zip([*keys, "n"], row, strict=True)) for row in fetch(frame)]
    for row in rows:  # a judgement that joined has said something, an answer that joined has a system
        row["has_label"], row["has_answer"] = row["said"] is not None, row["system"] is not None
    if any(row["broken"] for row in rows):
        evidence.check()
        raise EvidenceError(fault("evidence", "must keep its rules", "rows that changed while they were read", remedy="Read it again."))
    names = {row["system"] for row in rows if row["has_answer"]}
    both = sum(row["n"] for row in rows if row["has_answer"] and row["has_label"])
    alone = sum(row["n"] for row in rows if not row["has_answer"])
    unlabelled = sum(row["n"] for row in rows if not row["has_label"])
    n_answers, n_judgements = count(answers), count(judgements)
    one_answer = both + alone == n_judgements
    one_judgement = both + unlabelled == n_answers
    if len(names) > 1 or (one_answer and one_judgement and unlabelled):
        one_answer = not fetch(repeats(answers, ("item", "system")).head(1))
    if (len(names) > 1 and one_judgement) or (one_answer and one_judgement and alone):
        one_judgement = not fetch(repeats(judgements, ("item",)).head(1))
    if not (one_answer and one_judgement):
        return None
    return _tallied(evidence, [_flat_row(evidence, row, scored) for row in rows if row["has_answer"]], {WITHOUT_ANSWERS: alone})


def _flat_groups(evidence: Evidence, answers: Frame, judgements: Frame, *, by_class: bool, by_guess: bool) -> tuple[Frame, list[str]]:
    scored = "propensity" in judgements.columns
    broken = either([rule.broken for rule in row_faults(TABLES["judgements"], judgements.columns) if rule.column != "verdict"])
    said = nw.when(broken).then(nw.lit(UNKNOWN)).otherwise(nw.col("said"))
    left = judgements.select("item", "class", said.alias("said"), *(["propensity"] if scored else []))
    wrong = either([rule.broken for rule in row_faults(TABLES["answers"], answers.columns)])
    right = _placed(answers.with_columns(wrong=wrong), evidence)
    places = _place_columns(evidence)
    if evidence.items is not None:
        strange = [nw.col("known").is_null()]
        strange += [rule.broken for rule in row_faults(TABLES["items"], ["item", *places]) if rule.column != "item"]
        right = right.with_columns(wrong=nw.col("wrong") | either(strange))
    right = right.select(nw.col("item").alias("answered_item"), "system", "answer", "wrong", *(["guess"] if by_guess else []), *places)
    joined = left.join(right, left_on="item", right_on="answered_item", how="full")
    faults = [nw.col("said") == UNKNOWN, nw.col("wrong")]
    faults += [e for e in (outside(c, evidence, _k(evidence)) for c in ("answer", "class")) if e is not None]
    hit = nw.col("answer") == nw.col("class")
    columns: dict[str, nw.Expr] = {
        "system": nw.col("system"),
        "said": nw.col("said"),
        "hit": hit,
        "answered": ~nw.col("answer").is_null(),
        "broken": either(faults).fill_null(value=False),
        **{name: nw.col(name) for name in places},
    }
    if scored:
        columns["recorded"] = recorded(_k(evidence))
        columns["propensity"] = nw.when(columns["recorded"] & hit).then(nw.col("propensity"))
        if by_guess:
            columns["guess"] = nw.when(columns["recorded"]).then(nw.col("guess"))
    if by_class:
        columns["asked"], columns["given"] = nw.col("class"), nw.col("answer")
    return joined.select(**columns).group_by(*columns).agg(n=nw.len()), list(columns)


def _flat_row(evidence: Evidence, row: dict[str, Any], scored: bool) -> _Met:
    verdict = int(row["said"]) if row["has_label"] else None
    hit, p = bool(row["hit"]), row.get("propensity")
    score = 1.0 / p if p is not None else 0.0
    return _Met(
        system=str(row["system"]),
        answered=bool(row["answered"]),
        verdict=verdict,
        hit=hit,
        n_ruled_out=int(verdict == NO),
        ruled_hit=hit and verdict == NO,
        recorded=scored and bool(row["recorded"]),
        yes_score=score if verdict == YES else 0.0,
        no_score=score if verdict == NO else 0.0,
        place=tuple(row[name] for name in _place_columns(evidence)),
        asked=row.get("asked"),
        answer=row.get("given") if verdict is not None else None,
        guess=row.get("guess"),
        n=int(row["n"]),
    )


# ---------------------------------------------------------------- the grouped way


class _Labels(NamedTuple):
    """Judgements gathered: each once, by item and class, by item (without contradictory items), and what is not used."""

    judgements: Frame
    classes: Frame
    items: Frame
    unused: dict[str, int]


def _labels(evidence: Evidence, judgements: Frame, *, by_class: bool = False) -> _Labels:
    each = once(judgements)
    classes = class_labels(evidence, each)
    items = item_labels(classes, by_class=by_class)
    unused = {REPEATED: count(judgements) - count(each)}
    if evidence.conflicts == "drop":
        bad = items.filter(nw.col("conflict")).select("item")
        unused[CONTRADICTORY] = count(bad)
        if unused[CONTRADICTORY]:
            each = each.join(bad, on="item", how="anti")
            items = items.filter(~nw.col("conflict"))
    return _Labels(each, classes, items, unused)


def _met(
    evidence: Evidence, answers: Frame, labels: _Labels, *, by_class: bool = False, by_guess: bool = False, given: bool = False
) -> Frame:
    """One row an answer: how it met the label of its item (``verdict`` is null without a label).

    ``by_class`` keeps the class that was asked about and the answer, ``given`` only the answer.
    """
    scored = "recorded" in labels.items.columns
    about = ["item", "verdict", "n_no", "n_said", *(["recorded"] if scored else []), *(["asked"] if by_class else [])]
    sums = ["yes_sum", "no_sum"] if scored else []
    of_class = labels.classes.select("item", "class", "yes", "no", "unsure", *sums)
    frame = _placed(answers, evidence).join(labels.items.select(*about), on="item", how="left")
    frame = frame.join(of_class, left_on=["item", "answer"], right_on=["item", "class"], how="left")
    verdict, labelled = nw.col("verdict"), ~nw.col("verdict").is_null()
    spoken = nw.when(verdict == YES).then(nw.col("yes")).when(verdict == NO).then(nw.col("no")).otherwise(nw.col("unsure"))
    columns: dict[str, nw.Expr] = {
        "item": nw.col("item"),
        "system": nw.col("system"),
        "answered": ~nw.col("answer").is_null(),
        "verdict": verdict,
        "hit": (labelled & (spoken == 1)).fill_null(value=False),
        "n_no": nw.col("n_no").fill_null(0),
        "ruled_hit": (labelled & (nw.col("no") == 1)).fill_null(value=False),
        **{name: nw.col(name) for name in _place_columns(evidence)},
    }
    if scored:
        is_recorded = (nw.col("recorded") == 1).fill_null(value=False)
        columns["recorded"] = is_recorded
        for name in ("yes", "no"):
            mean = nw.col(f"{name}_sum").fill_null(0.0) / nw.col("n_said").cast(nw.Float64)
            columns[f"{name}_score"] = nw.when(is_recorded & (verdict != UNSURE)).then(mean)
        if by_guess:
            columns["guess"] = nw.when(is_recorded).then(nw.col("guess"))
    if by_class:
        columns["asked"] = nw.col("asked")
    if by_class or given:
        columns["given"] = nw.when(labelled).then(nw.col("answer"))
    return frame.select(**columns)


def _grouped(evidence: Evidence, answers: Frame, *, by_class: bool, by_guess: bool) -> AccuracyCounts:
    evidence.check()
    places = _place_columns(evidence)
    if evidence.judgements is None:
        frame = _placed(answers, evidence).with_columns(answered=~nw.col("answer").is_null())
        keys, unused = ["system", "answered", *places], dict[str, int]()
    else:
        labels = _labels(evidence, evidence.judgements, by_class=by_class)
        frame = _met(evidence, answers, labels, by_class=by_class, by_guess=by_guess)
        keys = [name for name in frame.columns if name != "item"]
        unused = {**labels.unused, WITHOUT_ANSWERS: count(labels.judgements.join(answers.select("item"), on="item", how="anti"))}
    rows = [dict(zip([*keys, "n"], row, strict=True)) for row in fetch(frame.group_by(*keys).agg(n=nw.len()))]
    met = [
        _Met(
            system=str(row["system"]),
            answered=bool(row["answered"]),
            verdict=None if row.get("verdict") is None else int(row["verdict"]),
            hit=bool(row.get("hit")),
            n_ruled_out=int(row.get("n_no") or 0),
            ruled_hit=bool(row.get("ruled_hit")),
            recorded=bool(row.get("recorded")),
            yes_score=row.get("yes_score"),
            no_score=row.get("no_score"),
            place=tuple(row[name] for name in places),
            asked=row.get("asked"),
            answer=row.get("given"),
            guess=row.get("guess"),
            n=int(row["n"]),
        )
        for row in rows
    ]
    return _tallied(evidence, met, unused)


# ---------------------------------------------------------------- patterns over several systems

_NO_ANSWER, _MISS, _HIT = 0, 1, 2


def _patterns(
    evidence: Evidence, systems: Sequence[str] | None, *, ordered: bool = False
) -> tuple[tuple[str, ...], Frame, list[str], dict[str, int]]:
    """One row a labelled item with a column ``met_i`` for system i (null: not asked), and the columns that make a pattern."""
    answers = _answers(evidence, systems)
    if evidence.judgements is None:
        raise EvidenceError(fault("evidence", "must have judgements", "none"))
    evidence.check()
    judgements = number_rows(evidence.judgements, "row") if ordered and "at" not in evidence.judgements.columns else evidence.judgements
    found = {str(row[0]) for row in fetch(answers.group_by("system").agg(n=nw.len()).select("system"))}
    missing = [s for s in systems or () if str(s) not in found]
    if missing:
        raise EvidenceError(fault("systems", "must be in answers", f"{missing}, which have no answers"))
    names = tuple(sorted(found)) if systems is None else tuple(dict.fromkeys(str(s) for s in systems))
    labels = _labels(evidence, judgements)
    scored = "recorded" in labels.items.columns
    met = _met(evidence, answers, labels, given=scored).filter(~nw.col("verdict").is_null())
    code = nw.when(~nw.col("answered")).then(nw.lit(_NO_ANSWER)).when(nw.col("hit")).then(nw.lit(_HIT)).otherwise(nw.lit(_MISS))
    met = met.with_columns(code=code)
    shared = ["verdict", "n_no", *_place_columns(evidence), *(["recorded"] if scored else [])]
    per_system: dict[str, nw.Expr] = {}
    for i, name in enumerate(names):
        chosen = nw.col("system") == name
        per_system[f"met_{i}"] = nw.when(chosen).then(nw.col("code"))
        if scored:
            per_system[f"yes_{i}"] = nw.when(chosen).then(nw.col("yes_score"))
            per_system[f"no_{i}"] = nw.when(chosen).then(nw.col("no_score"))
            per_system[f"given_{i}"] = nw.when(chosen & nw.col("recorded")).then(nw.col("given"))
    frame = met.with_columns(**per_system).group_by("item", *shared).agg(*[nw.col(c).max() for c in per_system])
    if ordered:
        order = nw.col("at" if "at" in judgements.columns else "row").max()
        frame = frame.join(judgements.group_by("item").agg(at=order), on="item", how="left")
    without = count(labels.judgements.join(answers.select("item"), on="item", how="anti"))
    unused = {name: n for name, n in {**labels.unused, WITHOUT_ANSWERS: without}.items() if n}
    return names, frame, [*shared, *per_system], unused


def _pattern(evidence: Evidence, row: dict[str, Any], n_systems: int) -> Pattern | None:
    codes = [row[f"met_{i}"] for i in range(n_systems)]
    if any(code is None for code in codes):
        return None
    k, stratum, weight = _place(evidence, row)
    verdict: Any = VERDICTS[int(row["verdict"])]
    is_recorded = bool(row.get("recorded"))
    scores: list[tuple[float, ...] | None] = [None, None]
    if is_recorded and verdict != "unsure":
        scores = [tuple(_score(row[f"{side}_{i}"]) or 0.0 for i in range(n_systems)) for side in ("yes", "no")]
    return Pattern(
        k,
        verdict,
        tuple(None if code == _NO_ANSWER else code == _HIT for code in codes),
        n_ruled_out=int(row["n_no"]),
        design="recorded" if is_recorded else "uniform",
        yes_scores=scores[0],
        no_scores=scores[1],
        groups=_same_answers([row[f"given_{i}"] for i in range(n_systems)]) if is_recorded else None,
        stratum=stratum,
        weight=weight,
    )


def _same_answers(given: Sequence[Any]) -> tuple[int, ...]:
    """Numbers that equal answers share, from 0 in the order of first use; -1 is no answer."""
    order: dict[Any, int] = {}
    return tuple(-1 if answer is None else order.setdefault(answer, len(order)) for answer in given)
