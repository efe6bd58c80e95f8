"""Results of public functions that no verb reaches, or not with these arguments.

A call may follow a function to its new name or arguments; what it returns must stay the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import noracle
from noracle.counts import Cell, Tally
from noracle.results import results_dict

PEOPLE = [[0, 0, 0]] * 70 + [[0, 0, 1]] * 30
USES = {"Mistral": {"A": 27, "B": 254}, "GPT4": {"A": 234, "B": 47}}
PATTERNS = {("A", "A"): 26, ("A", "B"): 1, ("B", "A"): 208, ("B", "B"): 46}


def _evidence() -> noracle.Evidence:
    """40 items of three classes in clusters of four, two systems, one question each."""
    items = list(range(40))
    truth = [i * 7 % 3 for i in items]
    said = {
        "a": [t if i % 5 else (t + 1) % 3 for i, t in enumerate(truth)],
        "b": [i % 3 for i in items],
    }
    asked = [i * i % 3 for i in items]
    return noracle.Evidence.from_tables(
        answers={
            "item": items * 2,
            "system": ["a"] * 40 + ["b"] * 40,
            "answer": said["a"] + said["b"],
        },
        judgements={
            "item": items,
            "class": asked,
            "verdict": [
                "unsure" if i % 9 == 8 else "yes" if c == t else "no"
                for i, (c, t) in enumerate(zip(asked, truth, strict=True))
            ],
            "rater": ["ann", "bob"] * 20,
        },
        items={"item": items, "cluster": [i // 4 for i in items]},
        n_classes=3,
    )


def _open() -> noracle.Evidence:
    answers = {"item": list(range(20)), "system": ["a"] * 20, "answer": [i % 4 for i in range(20)]}
    return noracle.Evidence.from_tables(answers=answers, n_classes=4)


def _counts() -> noracle.AccuracyCounts:
    return noracle.AccuracyCounts.from_counts(
        n_classes=4, ordinary=(300, 210), complementary=(600, 540), n_items=2000
    )


def _ratings() -> noracle.Ratings:
    wide = {
        "ann": ["cat", "dog", "cat", "emu", None, "cat"] * 5,
        "bob": ["cat", "dog", "dog", "emu", "dog", "cat"] * 5,
        "eve": ["dog", "dog", "emu", "emu", "dog", "cat"] * 5,
        "agent": ["cat", "dog", "cat", "emu", "dog", None] * 5,
    }
    return noracle.Ratings.from_wide(wide, raters=["ann", "bob", "eve"], systems=["agent"])


def _unsure() -> Any:
    tallies = {
        Tally("a", 4, "yes", True): 70,
        Tally("a", 4, "yes", False): 20,
        Tally("a", 4, "unsure", True): 10,
    }
    cells = {Cell("a", 4): 100}
    counts = noracle.AccuracyCounts(tallies=tallies, items=cells, answered=cells)
    return [noracle.range_unsure(counts).to_dict(), noracle.check_missing(counts).to_dict()]


def _stream() -> Any:
    stream = noracle.AccuracyStream(n_classes=4)
    for i in range(60):
        stream.update(answer=2, asked=i % 4, verdict="yes" if i % 4 == 2 and i % 8 else "no")
    return stream.estimate().to_dict()


def _certificate_stream() -> Any:
    stream = noracle.CertificateStream(trained_on_annotators="no")
    for i in range(80):
        stream.update(ratings=["cat", "cat", "dog" if i % 2 else "cat"], answer="cat")
    return stream.certificate().to_dict()


def _sketch() -> noracle.Sketch:
    return noracle.Sketch.from_counts(PATTERNS, classifiers=["Mistral", "GPT4"], labels=["A", "B"])


def _mean() -> Any:
    human = [float(i * 7 % 5 > 1) if i < 60 else None for i in range(200)]
    judge = [float(i * 7 % 5 > 1) if i % 6 else float(i * 7 % 5 <= 1) for i in range(200)]
    data = {"human": human, "judge": judge}
    return noracle.estimate_mean(data, target="human").to_dict()


def _rating_counts() -> noracle.RatingCounts:
    answers = {"a": [0] * 96 + [1] * 4}
    return noracle.RatingCounts.from_arrays(PEOPLE, labels=2, answers=answers)


def _known() -> Any:
    known = {"item": list(range(12)), "label": ["cat", "dog", "cat", "emu", "dog", "cat"] * 2}
    return noracle.check_assumptions(_ratings(), known).to_dict()


def _published() -> Any:
    found = noracle.certify_published(
        0.971, 0.939**2, 1821, 3, n_classes=2, trained_on_annotators="no"
    )
    return found.to_dict()


RESULTS: dict[str, Callable[[], Any]] = {
    "axiom_alarm": lambda: noracle.prove_by_axioms(USES, "accuracy > 1/2").to_dict(),
    "certify_published": _published,
    "plan_certificate": lambda: noracle.plan_certificate(_rating_counts()).to_dict(),
    "check_assumptions": _known,
    "aggregate_labels": lambda: {
        method: noracle.aggregate_labels(_ratings(), method=method).columns()
        for method in ("majority", "weighted")
    },
    "accuracy_stream": _stream,
    "certificate_stream": _certificate_stream,
    "count_accuracy": lambda: noracle.count_accuracy(_evidence(), by_cluster=True).to_dict(),
    "count_judgements": lambda: sorted(
        [*map(str, question), n]
        for question, n in noracle.count_judgements(_evidence()).questions.items()
    ),
    "count_ratings": lambda: noracle.count_ratings(_ratings(), pairs=True).to_dict(),
    "count_decisions": lambda: noracle.count_decisions(_evidence()).to_dict(),
    "count_patterns": lambda: sorted(
        [*map(str, pattern), n]
        for pattern, n in noracle.count_patterns(_evidence()).patterns.items()
    ),
    "range_unsure": _unsure,
    "check_clusters": lambda: noracle.check_clusters(_evidence(), population="beyond").to_dict(),
    "check_overlap": lambda: noracle.check_overlap(_counts()).to_dict(),
    "check_sensitivity": lambda: noracle.check_sensitivity(_counts(), at_least=0.6).to_dict(),
    "label_checks": lambda: results_dict(noracle.label_checks(_evidence())),
    "plan_accuracy": lambda: noracle.plan_accuracy(_counts(), half_width=0.03).to_dict(),
    "route_items": lambda: noracle.route_items(_open(), design="targeted", seed=7).columns(),
    "trace": lambda: noracle.range_prevalence(_sketch(), "accuracy > 0.2", label="A").to_dict(),
    "threshold": lambda: noracle.range_threshold(_sketch(), axioms=True).to_dict(),
    "estimate_mean": _mean,
}
