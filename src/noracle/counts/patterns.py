"""How systems met the same labels together."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from typing import Any

import narwhals as nw

from noracle.counts.count import (
    NOT_ALL_SYSTEMS,
    answers_of,
    asked_of,
    chosen_systems,
    count_states,
    counted_rows,
    labels_of,
    met_labels,
    met_once,
    met_runs,
    place_columns,
    place_of,
    placed,
    repeats_of,
    shares_of,
    systems_in,
    unused_of,
)
from noracle.counts.tally import Cell, Pattern, PatternCounts, pattern
from noracle.errors import EvidenceError
from noracle.evidence.evidence import Evidence
from noracle.evidence.frames import Frame, cases, fetch, has_rows, is_there, number_rows
from noracle.evidence.labels import count
from noracle.evidence.tables import NO, UNSURE, VERDICTS, YES

_NO_ANSWER, _MISS, _HIT = 0, 1, 2
_RUNS = ("runs", "answered", "hit")
ONE_SYSTEM = "items graded for one system only"


def count_patterns(
    evidence: Evidence, *, systems: Sequence[str] | None = None, by_cluster: bool = False
) -> PatternCounts:
    """How systems met the same labels together, over the labelled items that every system was asked
    about.

    ``by_cluster`` keeps the cluster of each item. Items with grades count for those systems whose
    answers were graded: a label of two systems is one for their difference. Where judgements name
    the right class of an item they speak of all systems, and go before its grades; where they do
    not, grades of at least two answers go before them.

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
    names, frame, keys, unused = _patterns(evidence, systems, by_cluster=by_cluster)
    patterns: Counter[Pattern] = Counter()
    for row in counted_rows(frame, keys):
        met = _pattern(evidence, row, len(names))
        if met is None:
            why = NOT_ALL_SYSTEMS if row["verdict"] is not None else ONE_SYSTEM
            unused[why] = unused.get(why, 0) + row["n"]
        else:
            patterns[met] += row["n"]
    given = {} if evidence.answers is None else count_states(answers_of(evidence, None, every=True))
    states = {key: n for key, n in given.items() if key[0] in names}
    items = _population(evidence, systems, len(names), by_cluster=by_cluster)
    return PatternCounts(
        systems=names,
        patterns=dict(patterns),
        unused=unused,
        inferred=evidence.assumed,
        states=states,
        items=items,
        whole=not evidence.open_ended,
        silent=_silent(evidence, names, by_cluster=by_cluster),
        **repeats_of(evidence, names),
    ).ordered()


def unlabelled_patterns(evidence: Evidence, *, by_cluster: bool = False) -> PatternCounts:
    """The population of answers that nobody has judged yet."""
    answers = answers_of(evidence, None, every=True)
    names = tuple(systems_in(evidence, answers))
    items = _population(evidence, None, len(names), by_cluster=by_cluster)
    found = PatternCounts(systems=names, patterns={}, items=items, inferred=evidence.assumed)
    return dataclasses.replace(found, states=count_states(answers)).ordered()


def _population(
    evidence: Evidence, systems: Sequence[str] | None, n_systems: int, *, by_cluster: bool = False
) -> dict[Cell, int]:
    """How many items every system was asked about; nothing where graded items are a sample."""
    if evidence.open_ended:
        return {}
    places = place_columns(evidence, by_cluster=by_cluster)
    asked = asked_of(evidence, systems).group_by("item").agg(rows=nw.col("system").n_unique())
    frame = placed(asked.filter(nw.col("rows") == n_systems), evidence, by_cluster=by_cluster)
    if not places:
        n = count(frame)
        return {place_of(evidence, {}): n} if n else {}
    items: Counter[Cell] = Counter()
    for row in counted_rows(frame, places):
        items[place_of(evidence, row)] += row["n"]
    return dict(items)


def _silent(
    evidence: Evidence, names: Sequence[str], *, by_cluster: bool
) -> dict[tuple[Cell, tuple[bool, ...]], int]:
    """Items by who gave no answer, beside grades: they may be labelled at another rate."""
    silent = nw.col("answer").is_null()
    graded = evidence.grades is not None
    if not graded or evidence.answers is None or not has_rows(evidence.answers.filter(silent)):
        return {}
    own = [nw.when(nw.col("system") == name).then(silent.cast(nw.Int64)) for name in names]
    flags = {f"silent_{i}": flag for i, flag in enumerate(own)}
    by_item = evidence.answers.with_columns(**flags).group_by("item")
    told = by_item.agg(*[nw.col(flag).max() for flag in flags]).filter(*map(is_there, flags))
    frame = placed(told, evidence, by_cluster=by_cluster)
    keys = [*place_columns(evidence, by_cluster=by_cluster), *flags]
    found: Counter[tuple[Cell, tuple[bool, ...]]] = Counter()
    for row in counted_rows(frame, keys):
        found[place_of(evidence, row), tuple(bool(row[flag]) for flag in flags)] += row["n"]
    return dict(found)


def label_rows(
    evidence: Evidence, *, systems: Sequence[str] | None = None, by_cluster: bool = False
) -> tuple[tuple[str, ...], list[Pattern]]:
    """The systems, and the labelled items one by one in the order in which their labels were
    complete.

    The order is that of column ``at`` of the judgements where there is one (the last judgement of
    an item completes its label), else that of the rows, where the engine keeps it (files, dicts,
    pandas, Polars, Arrow; not PySpark, Ibis or SQLFrame).
    """
    names, frame, keys, _ = _patterns(evidence, systems, ordered=True, by_cluster=by_cluster)
    rows = fetch(frame.select(*keys, "at", "item").sort("at", "item"))
    told = (dict(zip(keys, row[:-2], strict=True)) for row in rows)
    patterns = (_pattern(evidence, row, len(names)) for row in told)
    return names, [met for met in patterns if met is not None]


def _patterns(
    evidence: Evidence,
    systems: Sequence[str] | None,
    *,
    ordered: bool = False,
    by_cluster: bool = False,
) -> tuple[tuple[str, ...], Frame, list[str], dict[str, int]]:
    """One row per labelled item with ``met_i`` for system i, and the columns of a pattern."""
    answers = asked_of(evidence, systems)
    if evidence.judgements is None and evidence.grades is None:
        raise EvidenceError.of("evidence", "must have judgements or grades", "neither")
    evidence.check()
    names = chosen_systems(evidence, answers, systems)
    labels = labels_of(evidence)
    scored = labels.scored
    repeated = evidence.repeats is not None and evidence.repeats_as != "all"
    answered, hit = nw.col("answered"), nw.col("hit")
    if repeated:
        met, _ = met_runs(evidence, answers, labels, by_cluster=by_cluster)
        answered = answered > 0
        hit = hit > 0 if evidence.repeats_as == "any" else hit == nw.col("runs")
    elif by_cluster:
        met = met_labels(evidence, answers, labels, by_cluster=True, given=scored)
    else:
        met = met_once(evidence, answers, labels)
    graded = evidence.grades is not None
    judged = is_there("verdict")
    met = met.filter(judged | is_there("grade") | ~nw.col("answered") if graded else judged)
    met = met.with_columns(code=cases([(~answered, _NO_ANSWER), (hit, _HIT)], _MISS))
    told, places = ["verdict", "n_no"], place_columns(evidence, by_cluster=by_cluster)
    shared = places if graded else [*told, *places]
    per_system: dict[str, nw.Expr] = {name: nw.col(name) for name in told} if graded else {}
    for i, name in enumerate(names):
        chosen = nw.col("system") == name
        per_system[f"met_{i}"] = nw.when(chosen).then(nw.col("code"))
        if graded:
            per_system[f"grade_{i}"] = nw.when(chosen).then(nw.col("grade"))
        if scored:
            per_system[f"inverse_{i}"] = nw.when(chosen).then(nw.col("inverse"))
            own = chosen & is_there("inverse")
            per_system[f"given_{i}"] = nw.when(own).then(nw.col("given"))
        if repeated:
            differ = chosen & nw.col("differ")
            per_system |= {f"{c}_{i}": nw.when(differ).then(nw.col(c)) for c in _RUNS}
    by_item = met.with_columns(**per_system).group_by("item", *shared)
    frame = by_item.agg(*[nw.col(c).max() for c in per_system])
    if graded:  # an item of which nothing is said but that some system gave no answer has no label
        spoken = map(is_there, ("verdict", *(f"grade_{i}" for i in range(len(names)))))
        frame = frame.filter(nw.any_horizontal(*spoken, ignore_nulls=True))
    if ordered:
        frame = frame.join(_times(evidence), on="item", how="left")
    return names, frame, [*shared, *per_system], unused_of(labels, answers, evidence)


def _times(evidence: Evidence) -> Frame:
    """When the label of each item was complete: by ``at``, else by the order of rows."""
    tables = [table for table in (evidence.judgements, evidence.grades) if table is not None]
    timed = all("at" in table.columns for table in tables)
    numbered = tables if timed else [number_rows(table, "row") for table in tables]
    frames = [table.select("item", at=nw.col("at" if timed else "row")) for table in numbered]
    every = frames[0] if len(frames) == 1 else nw.concat(frames)
    return every.group_by("item").agg(at=nw.col("at").max())


def _pattern(evidence: Evidence, row: dict[str, Any], n_systems: int) -> Pattern | None:
    codes = [row[f"met_{i}"] for i in range(n_systems)]
    if evidence.grades is not None and row["verdict"] != YES:
        graded = _graded_pattern(evidence, row, codes)
        if graded is not None:
            return graded
    if row["verdict"] is None or any(code is None for code in codes):
        return None
    verdict: Any = VERDICTS[int(row["verdict"])]
    hits = [None if code == _NO_ANSWER else code == _HIT for code in codes]
    shares: list[tuple[float, float] | None] = [None] * n_systems
    if evidence.repeats is not None:
        runs = [{name: row.get(f"{name}_{i}") for name in _RUNS} for i in range(n_systems)]
        how = evidence.repeats_as
        shares = [shares_of(how, {"differ": own["runs"] is not None, **own}) for own in runs]
    inverse = [row.get(f"inverse_{i}") for i in range(n_systems)]
    told: dict[str, Any] = {"n_ruled_out": int(row["n_no"]), "shares": shares}
    if any(value is not None for value in inverse):
        answers: list[Any] = list(range(n_systems))  # nobody knows who shares one: each has its own
        if evidence.answers is not None:
            answers = [row[f"given_{i}"] if shares[i] is None else ("runs", i) for i in answers]
        told |= {"inverse": inverse, "answers": answers}
    return pattern(place_of(evidence, row), verdict, hits, **told)


def _graded_pattern(
    evidence: Evidence, row: dict[str, Any], codes: Sequence[int | None]
) -> Pattern | None:
    """The pattern of graded answers, if it says something of two systems."""
    grades = [row[f"grade_{i}"] for i in range(len(codes))]
    silent = [code == _NO_ANSWER for code in codes]
    known = [grade in (YES, NO) or none for grade, none in zip(grades, silent, strict=True)]
    sure = any(grade in (YES, NO) for grade in grades)
    if not sure and row["verdict"] is None and UNSURE in grades:
        unsure = [None if none else False for none in silent]
        return pattern(place_of(evidence, row), "unsure", unsure, graded=True)
    if not sure or sum(known) < min(2, len(codes)):
        return None
    hits = [None if none else grade == YES for grade, none in zip(grades, silent, strict=True)]
    return pattern(place_of(evidence, row), "yes", hits, known=known, graded=True)
