"""How systems met the same labels together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import narwhals as nw

from noracle.counts.label import Cell, Pattern, pattern
from noracle.counts.met import (
    NOT_ALL_SYSTEMS,
    answers_of,
    labels_of,
    met_labels,
    met_once,
    place_columns,
    place_of,
    placed,
    unused_of,
)
from noracle.counts.repeats import count_states
from noracle.counts.tallies import PatternCounts
from noracle.errors import EvidenceError, fault
from noracle.evidence.evidence import Evidence
from noracle.evidence.frames import Frame, fetch, number_rows
from noracle.evidence.normal import VERDICTS

_NO_ANSWER, _MISS, _HIT = 0, 1, 2


def count_patterns(evidence: Evidence, *, systems: Sequence[str] | None = None, by_cluster: bool = False) -> PatternCounts:
    """How systems met the same labels together, over the labelled items that every system was asked about.

    ``by_cluster`` keeps the cluster of each item.

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
    rows = fetch(frame.group_by(*keys).agg(n=nw.len()).sort(*keys))
    patterns: Counter[Pattern] = Counter()
    for *values, n in rows:
        row = dict(zip(keys, values, strict=True))
        met = _pattern(evidence, row, len(names))
        if met is None:
            unused[NOT_ALL_SYSTEMS] = unused.get(NOT_ALL_SYSTEMS, 0) + int(n)
        else:
            patterns[met] += int(n)
    states = {} if evidence.answers is None else {key: n for key, n in count_states(evidence.answers).items() if key[0] in names}
    items = _population(evidence, systems, len(names), by_cluster=by_cluster)
    found = PatternCounts(systems=names, patterns=dict(patterns), unused=unused, inferred=evidence.inferred, states=states, items=items)
    return found.ordered()


def unlabelled_patterns(evidence: Evidence, *, by_cluster: bool = False) -> PatternCounts:
    """The population of answers that nobody has judged yet."""
    answers = answers_of(evidence, None)
    names = tuple(sorted(str(row[0]) for row in fetch(answers.group_by("system").agg(n=nw.len()).select("system"))))
    items = _population(evidence, None, len(names), by_cluster=by_cluster)
    found = PatternCounts(systems=names, patterns={}, inferred=evidence.inferred, states=count_states(answers), items=items)
    return found.ordered()


def _population(evidence: Evidence, systems: Sequence[str] | None, n_systems: int, *, by_cluster: bool = False) -> dict[Cell, int]:
    """How many items every system was asked about, by number of classes, stratum and weight."""
    places = place_columns(evidence, by_cluster=by_cluster)
    asked = answers_of(evidence, systems).group_by("item").agg(rows=nw.col("system").n_unique())
    frame = placed(asked.filter(nw.col("rows") == n_systems), evidence, by_cluster=by_cluster)
    if not places:
        (n,) = fetch(frame.select(n=nw.len()))[0]
        return {place_of(evidence, {}): int(n)} if n else {}
    items: Counter[Cell] = Counter()
    for *values, n in fetch(frame.group_by(*places).agg(n=nw.len()).sort(*places)):
        items[place_of(evidence, dict(zip(places, values, strict=True)))] += int(n)
    return dict(items)


def label_rows(
    evidence: Evidence, *, systems: Sequence[str] | None = None, by_cluster: bool = False
) -> tuple[tuple[str, ...], list[Pattern]]:
    """The systems, and the labelled items one by one in the order in which their labels were complete.

    The order is that of column ``at`` of the judgements where there is one (the last judgement of an item completes its label), else
    that of the rows, where the engine keeps it (files, dicts, pandas, Polars, Arrow; not PySpark, Ibis or SQLFrame).
    """
    names, frame, keys, _ = _patterns(evidence, systems, ordered=True, by_cluster=by_cluster)
    rows = fetch(frame.select(*keys, "at", "item").sort("at", "item"))
    patterns = (_pattern(evidence, dict(zip(keys, row[:-2], strict=True)), len(names)) for row in rows)
    return names, [met for met in patterns if met is not None]


def _patterns(
    evidence: Evidence, systems: Sequence[str] | None, *, ordered: bool = False, by_cluster: bool = False
) -> tuple[tuple[str, ...], Frame, list[str], dict[str, int]]:
    """One row per labelled item with a column ``met_i`` for system i (null: not asked), and the columns that make a pattern."""
    answers = answers_of(evidence, systems)
    if evidence.judgements is None:
        raise EvidenceError(fault("evidence", "must have judgements", "none"))
    evidence.check()
    judgements = number_rows(evidence.judgements, "row") if ordered and "at" not in evidence.judgements.columns else evidence.judgements
    found = {str(row[0]) for row in fetch(answers.group_by("system").agg(n=nw.len()).select("system"))}
    missing = [s for s in systems or () if str(s) not in found]
    if missing:
        raise EvidenceError(fault("systems", "must be in answers", f"{missing}, which have no answers"))
    names = tuple(sorted(found)) if systems is None else tuple(dict.fromkeys(str(s) for s in systems))
    labels = labels_of(evidence)
    scored = "recorded" in labels.items.columns
    met = met_labels(evidence, answers, labels, by_cluster=True, given=scored) if by_cluster else met_once(evidence, answers, labels)
    met = met.filter(~nw.col("verdict").is_null())
    code = nw.when(~nw.col("answered")).then(nw.lit(_NO_ANSWER)).when(nw.col("hit")).then(nw.lit(_HIT)).otherwise(nw.lit(_MISS))
    met = met.with_columns(code=code)
    shared = ["verdict", "n_no", *place_columns(evidence, by_cluster=by_cluster)]
    per_system: dict[str, nw.Expr] = {}
    for i, name in enumerate(names):
        chosen = nw.col("system") == name
        per_system[f"met_{i}"] = nw.when(chosen).then(nw.col("code"))
        if scored:
            per_system[f"inverse_{i}"] = nw.when(chosen).then(nw.col("inverse"))
            per_system[f"given_{i}"] = nw.when(chosen & ~nw.col("inverse").is_null()).then(nw.col("given"))
    frame = met.with_columns(**per_system).group_by("item", *shared).agg(*[nw.col(c).max() for c in per_system])
    if ordered:
        order = nw.col("at" if "at" in judgements.columns else "row").max()
        frame = frame.join(judgements.group_by("item").agg(at=order), on="item", how="left")
    unused = {name: n for name, n in unused_of(labels, answers).items() if n}
    return names, frame, [*shared, *per_system], unused


def _pattern(evidence: Evidence, row: dict[str, Any], n_systems: int) -> Pattern | None:
    codes = [row[f"met_{i}"] for i in range(n_systems)]
    if any(code is None for code in codes):
        return None
    verdict: Any = VERDICTS[int(row["verdict"])]
    hits = [None if code == _NO_ANSWER else code == _HIT for code in codes]
    inverse = [row.get(f"inverse_{i}") for i in range(n_systems)]
    if all(value is None for value in inverse):
        return pattern(place_of(evidence, row), verdict, hits, n_ruled_out=int(row["n_no"]))
    answers = [row[f"given_{i}"] for i in range(n_systems)]
    return pattern(place_of(evidence, row), verdict, hits, n_ruled_out=int(row["n_no"]), inverse=inverse, answers=answers)
