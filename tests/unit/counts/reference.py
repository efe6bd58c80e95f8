"""Counting by hand, item by item in plain Python: slow, and easy to believe."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from noracle.counts import AccuracyCounts, Cell, Pattern, PatternCounts, Tally
from tests.unit.evidence.backends import Columns, rows_of


class Item:
    """The label of one item; ``aimed`` says that the table has propensities other than 1/K."""

    def __init__(self, judgements: Sequence[dict[str, Any]], k: int, *, aimed: bool) -> None:
        self.k = k
        self.all = judgements
        self.yes = {j["class"] for j in judgements if j["verdict"] == "yes"}
        self.no = {j["class"] for j in judgements if j["verdict"] == "no"}
        self.unsure = {j["class"] for j in judgements if j["verdict"] == "unsure"}
        said = defaultdict(set)
        for j in judgements:
            said[j["class"], j.get("rater") or ""].add(j["verdict"])
        self.conflict = (
            len(self.yes) > 1
            or bool(self.yes & self.no)
            or (not self.yes and len(self.no) >= k)
            or any(len(verdicts) > 1 for verdicts in said.values())
        )
        self.judgements = judgements
        if aimed and any(
            j.get("propensity") is not None for j in judgements
        ):  # the first question is the label
            self.judgements = judgements[:1]
            self.yes, self.no, self.unsure = (
                {j["class"] for j in self.judgements if j["verdict"] == verdict}
                for verdict in ("yes", "no", "unsure")
            )
        self.recorded = aimed and self.judgements[0].get("propensity") is not None
        self.verdict: Any = "yes" if self.yes else "no" if self.no else "unsure"
        self.about = {"yes": self.yes, "no": self.no, "unsure": self.unsure}[self.verdict]

    def score(self, answer: Any, verdict: str) -> float:
        (question,) = self.judgements
        asked = (
            answer is not None and question["class"] == answer and question["verdict"] == verdict
        )
        return float(f"{1 / question['propensity']:.12g}") if asked else 0.0


def labels(judgements: Columns, n_classes: Mapping[Any, int]) -> tuple[dict[Any, Item], int]:
    """The labels by item (contradictory ones too), and how many judgements were exact repeats."""
    rows = rows_of(judgements)
    kept = list(
        {
            tuple(
                sorted((k, repr(v)) for k, v in {**row, "rater": row.get("rater") or ""}.items())
            ): row
            for row in rows
        }.values()
    )
    by_item = defaultdict(list)
    for row in kept:
        by_item[row["item"]].append(row)
    aimed = any(
        row.get("propensity") is not None
        and abs(row["propensity"] * n_classes[row["item"]] - 1) > 1e-9
        for row in rows
    )
    return {item: Item(js, n_classes[item], aimed=aimed) for item, js in by_item.items()}, len(
        rows
    ) - len(kept)


def accuracy(
    answers: Columns, judgements: Columns, items: Columns, *, by_class: bool = False
) -> AccuracyCounts:
    about = {row["item"]: row for row in rows_of(items)}
    known, repeats = labels(judgements, {item: row["n_classes"] for item, row in about.items()})
    tallies: Counter[Tally] = Counter()
    population: Counter[Cell] = Counter()
    answered: Counter[Cell] = Counter()
    for row in rows_of(answers):
        place = about[row["item"]]
        k, stratum, weight = (
            place["n_classes"],
            place.get("stratum") or "",
            float(place.get("weight", 1.0)),
        )
        cell = Cell(row["system"], k, stratum, weight)
        population[cell] += 1
        answered[cell] += row["answer"] is not None
        label = known.get(row["item"])
        if label is None or label.conflict:
            continue
        scores = (None, None)
        if label.recorded and label.verdict != "unsure":
            scores = (label.score(row["answer"], "yes"), label.score(row["answer"], "no"))  # type: ignore[assignment]
        tally = Tally(
            system=row["system"],
            n_classes=k,
            verdict=label.verdict,
            hit=row["answer"] in label.about,
            answered=row["answer"] is not None,
            n_ruled_out=len(label.no),
            ruled_hit=row["answer"] in label.no,
            design="recorded" if label.recorded else "uniform",
            yes_score=scores[0],
            no_score=scores[1],
            stratum=stratum,
            weight=weight,
            asked=next(iter(label.about)) if by_class and len(label.about) == 1 else None,
            answer=row["answer"] if by_class else None,
        )
        tallies[tally] += 1
    asked = set(answers["item"])
    unused = {
        "judgements of items without answers": sum(
            len(v.all) for i, v in known.items() if i not in asked and not v.conflict
        ),
        "later questions about items that were asked about before": sum(
            len(v.all) - len(v.judgements) for v in known.values()
        ),
        "contradictory items": sum(v.conflict for v in known.values()),
        "repeated judgements": repeats,
    }
    told = [
        (row["propensity"], about[row["item"]]["n_classes"])
        for row in rows_of(judgements)
        if row.get("propensity") is not None
    ]
    propensities: Any = (
        "none"
        if not told
        else "recorded"
        if any(abs(p * k - 1) > 1e-9 for p, k in told)
        else "uniform"
    )
    used = {k: v for k, v in unused.items() if v}
    return AccuracyCounts(
        tallies=tallies, items=population, answered=answered, unused=used, propensities=propensities
    )


def patterns(answers: Columns, judgements: Columns, items: Columns) -> PatternCounts:
    about = {row["item"]: row for row in rows_of(items)}
    known, _ = labels(judgements, {item: row["n_classes"] for item, row in about.items()})
    systems = tuple(sorted(set(answers["system"])))
    given: dict[Any, dict[str, Any]] = defaultdict(dict)
    for row in rows_of(answers):
        given[row["item"]][row["system"]] = row["answer"]
    found: Counter[Pattern] = Counter()
    for item, label in known.items():
        if label.conflict or set(given.get(item, {})) != set(systems):
            continue
        place = about[item]
        said = [given[item][s] for s in systems]
        scored = label.recorded and label.verdict != "unsure"
        order: dict[Any, int] = {}
        pattern = Pattern(
            n_classes=place["n_classes"],
            verdict=label.verdict,
            hits=tuple(None if a is None else a in label.about for a in said),
            n_ruled_out=len(label.no),
            design="recorded" if label.recorded else "uniform",
            yes_scores=tuple(label.score(a, "yes") for a in said) if scored else None,
            no_scores=tuple(label.score(a, "no") for a in said) if scored else None,
            groups=tuple(-1 if a is None else order.setdefault(a, len(order)) for a in said)
            if label.recorded
            else None,
            stratum=place.get("stratum") or "",
            weight=float(place.get("weight", 1.0)),
        )
        found[pattern] += 1
    population = Counter(
        Cell(
            "",
            about[item]["n_classes"],
            about[item].get("stratum") or "",
            float(about[item].get("weight", 1.0)),
        )
        for item, answered in given.items()
        if set(answered) == set(systems)
    )
    return PatternCounts(systems=systems, patterns=found, items=population)
