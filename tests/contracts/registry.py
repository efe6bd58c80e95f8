"""Every public estimator, in every way it can be called; the contract tests run over this list.

A new estimator gets one line here. ``test_registry`` fails while a public ``estimate_``,
``compare_``, … function is missing.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import noracle
from noracle import Evidence, GuaranteeWarning, Preferences, Ratings
from noracle.accuracy.estimate import INTERVALS
from noracle.superhuman.certify import TESTS

VERBS = (
    "estimate_",
    "compare_",
    "certify_",
    "plan_",
    "prove_",
    "check_",
    "race_",
    "route_",
    "range_",
    "rank_",
)
STREAMS = ("AccuracyStream", "CertificateStream", "Race")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Entry:
    """One way to call one public function on evidence (a plan needs none)."""

    function: str
    how: str
    run: Callable[[Evidence, float], Any]
    confident: bool = True
    random: bool = False
    ordered: bool = False  # the order of the labels is part of the evidence
    rated: bool = False  # reads ratings instead of judgements

    def __str__(self) -> str:
        return f"{self.function} {self.how}".strip()

    def __call__(self, evidence: Evidence, confidence: float = 0.95) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", GuaranteeWarning)
            return self.run(evidence, confidence)


def _stream(interval: str) -> Callable[[Evidence, float], Any]:
    def run(evidence: Evidence, confidence: float) -> Any:
        answers = {
            item: answer
            for item, system, answer in evidence.rows("answers", "item", "system", "answer")
            if system == "a"
        }
        share = sum(a is not None for a in answers.values()) / len(answers)
        stream = noracle.AccuracyStream(
            n_classes=4,
            system="a",
            confidence=confidence,
            interval=interval,
            answered_share=share or 1.0,
        )  # type: ignore[arg-type]
        if evidence.judgements is not None:
            for item, asked, verdict in evidence.rows("judgements", "item", "class", "verdict"):
                if interval == "betting" or answers[item] is not None:
                    stream.update(answer=answers[item], asked=asked, verdict=verdict)
        return stream.estimate()

    return run


def _race(evidence: Evidence, confidence: float) -> Any:
    from noracle.counts import label_rows

    names, rows = label_rows(evidence)
    race = noracle.Race(names, n_classes=4, confidence=confidence)
    for row in rows:
        race.update(row)
    end = noracle.compare_systems(evidence, confidence=confidence)
    return dataclasses.replace(end, leaders=race.leaders, dropped=race.dropped)


def _ratings(evidence: Evidence) -> dict[str, list[float | None]]:
    """Whether ``a`` is right, where that is known (gold), and whether ``a`` and ``b`` agree (a
    rater that is cheap).
    """
    given: dict[str, dict[Any, Any]] = {"a": {}, "b": {}}
    for item, system, answer in evidence.rows("answers", "item", "system", "answer"):
        given[system][item] = answer
    truth: dict[Any, Any] = {}
    if evidence.judgements is not None:
        truth = {
            i: c
            for i, c, v in evidence.rows("judgements", "item", "class", "verdict")
            if v == "yes" and i in given["a"]
        }
    a, b = given["a"], given["b"]
    return {
        "gold": [float(a[i] == truth[i]) if i in truth else None for i in a],
        "agreement": [float(a[i] is not None and a[i] == b[i]) for i in a],
    }


def _judged(evidence: Evidence) -> Evidence:
    """Grades of the answers of ``a``: by ``b``, who calls its own answer right, and by people."""
    of: dict[str, dict[Any, Any]] = {"a": {}, "b": {}}
    for item, system, answer in evidence.rows("answers", "item", "system", "answer"):
        of[system][item] = answer
    told = {i: c for i, c in _known(evidence).items() if i in of["a"]}
    rows = [(i, of["b"][i] is not None and of["b"][i] == a, "b") for i, a in of["a"].items()]
    rows += [(i, of["a"][i] is not None and of["a"][i] == c, "ann") for i, c in told.items()]
    columns = zip(*rows, strict=True)
    grades = dict(zip(("item", "verdict", "rater"), map(list, columns), strict=True))
    return Evidence.from_tables(grades={**grades, "system": ["a"] * len(rows)})


def _preferred(evidence: Evidence) -> Preferences:
    """``a`` and ``b`` in both orders, by who is right where that is known."""
    known = _known(evidence)
    given: dict[Any, dict[str, Any]] = {}
    for item, system, answer in evidence.rows("answers", "item", "system", "answer"):
        given.setdefault(item, {})[system] = answer
    rows = []
    for item, said in given.items():
        right = [name for name in "ab" if item in known and said[name] == known[item]]
        winner = None if item not in known else right[0] if len(right) == 1 else "tie"
        rows += [(item, "a", "b", winner), (item, "b", "a", winner)]
    columns = ("item", "first", "second", "winner")
    return Preferences.from_table(
        dict(zip(columns, map(list, zip(*rows, strict=True)), strict=True))
    )


def _compared(evidence: Evidence) -> Preferences:
    """The same by people; a model prefers ``a`` in every other item."""
    p = _preferred(evidence)
    sign = p.item % 2
    twice = {n: np.concatenate([getattr(p, n)] * 2) for n in ("first", "second", "item")}
    outcome = np.concatenate([p.outcome, np.where(sign, p.first, 2)])
    rater = np.repeat([0, 1], len(p.item))
    return dataclasses.replace(p, **twice, outcome=outcome, rater=rater, raters=("ann", "model"))


def _unjudged(evidence: Evidence) -> Evidence:
    """Questions are drawn about items that nobody has judged."""
    return dataclasses.replace(evidence, judgements=None, _kept={}, _checked=[])


def _budget(confidence: float, **goal: float) -> Any:
    cov = [[0.25, 0.15], [0.15, 0.25]]
    return noracle.plan_budget(
        cov=cov,
        names=["gold", "rater"],
        target="gold",
        costs={"gold": 1.0, "rater": 0.1},
        confidence=confidence,
        **goal,
    )


def _known(evidence: Evidence) -> dict[Any, Any]:
    if evidence.judgements is None:
        return {}
    return {
        i: c for i, c, v in evidence.rows("judgements", "item", "class", "verdict") if v == "yes"
    }


_RATED: dict[int, tuple[Evidence, Ratings]] = {}


def _rated(evidence: Evidence) -> Ratings:
    """The systems as raters, and three more who say what the judgements know; ``a`` is also the
    system that is judged. Made once for each evidence, which the tests share.
    """
    if id(evidence) not in _RATED:
        _RATED[id(evidence)] = evidence, _ratings_of(evidence)
    return _RATED[id(evidence)][1]


def _ratings_of(evidence: Evidence) -> Ratings:
    given = evidence.rows("answers", "item", "system", "answer")
    known = {i: c for i, c in _known(evidence).items() if i in {row[0] for row in given}}
    rows = [*given, *((i, f"judge {j}", c) for i, c in known.items() for j in range(3))]
    own = [row for row in given if row[1] == "a"]
    ratings = dict(zip(("item", "rater", "label"), map(list, zip(*rows, strict=True)), strict=True))
    answers = dict(
        zip(("item", "system", "answer"), map(list, zip(*own, strict=True)), strict=True)
    )
    return Ratings.from_tables(ratings, answers, labels=evidence.classes or range(4))


def _certificates(evidence: Evidence, confidence: float) -> Any:
    stream = noracle.CertificateStream(
        system="a", trained_on_annotators="no", confidence=confidence
    )
    stream.extend(noracle.count_ratings(_rated(evidence)))
    return stream.certificate()


def _rating_entries() -> list[Entry]:
    rows = [
        Entry(
            function="estimate_ceiling",
            how=method,
            rated=True,
            run=lambda e, c, m=method: noracle.estimate_ceiling(_rated(e), method=m, confidence=c),
        )
        for method in ("plurality", "pairwise", "quadratic", "free", "paper", "paper-empirical")
    ]
    rows += [
        Entry(
            function="estimate_ceilings",
            how="lowest",
            rated=True,
            run=lambda e, c: noracle.estimate_ceilings(_rated(e), confidence=c)[0],
        ),
        Entry(
            function="certify_thresholds",
            how="lowest",
            rated=True,
            run=lambda e, c: noracle.certify_thresholds(
                _rated(e), trained_on_annotators="no", confidence=c
            )[0],
        ),
    ]
    rows += [
        Entry(
            function="estimate_agreement",
            how=statistic,
            rated=True,
            random=True,
            run=lambda e, c, s=statistic: noracle.estimate_agreement(
                _rated(e), statistic=s, confidence=c, n_boot=200
            ),
        )
        for statistic in ("pairwise", "cohen", "fleiss", "krippendorff")
    ]
    rows += [
        Entry(
            function="certify_superhuman",
            how=test,
            rated=True,
            random=test == "binomial",
            run=lambda e, c, t=test: noracle.certify_superhuman(
                _rated(e), test=t, trained_on_annotators="no", confidence=c
            ),
        )
        for test in TESTS
        if not test.startswith("paper")
    ]
    rows += [
        Entry(
            function="certify_published",
            how=test,
            rated=True,
            run=lambda e, c, t=test: noracle.certify_published(
                0.971, 0.8825, 1821, 3, test=t, trained_on_annotators="no", confidence=c
            ),
        )
        for test in ("exact", "paper-hms", "paper-oms")
    ]
    return [
        *rows,
        Entry(function="CertificateStream", how="", rated=True, run=_certificates),
        Entry(
            function="plan_certificate",
            how="items",
            confident=False,
            random=True,
            rated=True,
            run=lambda e, c: noracle.plan_certificate(_rated(e), test="t", confidence=c),
        ),
        Entry(
            function="check_assumptions",
            how="(2)",
            confident=False,
            random=True,
            rated=True,
            run=lambda e, c: noracle.check_assumptions(_rated(e), _known(e)),
        ),
        Entry(
            function="check_assumptions",
            how="(6)",
            confident=False,
            rated=True,
            run=lambda e, c: noracle.check_assumptions(_rated(e), _known(e), system="a"),
        ),
    ]


def _entries() -> list[Entry]:
    rows = [
        Entry(
            function="estimate_accuracy",
            how=f"{method} {interval} {side}",
            run=lambda e, c, m=method, i=interval, s=side: noracle.estimate_accuracy(
                e, system="a", method=m, interval=i, confidence=c, side=s
            ),
        )
        for interval, (_, _, methods) in INTERVALS.items()
        for method in methods
        for side in ("two-sided", "lower", "upper")
        if side == "two-sided" or method in ("ml", "scores")
    ]
    rows += [
        Entry(
            function="estimate_accuracy",
            how="defaults",
            run=lambda e, c: noracle.estimate_accuracy(e, system="a", confidence=c),
        ),
        Entry(
            function="estimate_accuracies",
            how="of one",
            run=lambda e, c: noracle.estimate_accuracies(e, confidence=c)["a"],
        ),
        Entry(
            function="estimate_accuracy",
            how="wrong verdicts",
            run=lambda e, c: noracle.estimate_accuracy(
                e, system="a", confidence=c, false_no=0.05, false_yes=0.1
            ),
        ),
        Entry(
            function="estimate_accuracy",
            how="beyond",
            run=lambda e, c: noracle.estimate_accuracy(
                e, system="a", confidence=c, population="beyond"
            ),
        ),
        Entry(
            function="estimate_accuracy",
            how="beyond anytime",
            run=lambda e, c: noracle.estimate_accuracy(
                e, system="a", confidence=c, interval="anytime", population="beyond"
            ),
        ),
        Entry(
            function="compare_systems",
            how="betting",
            run=lambda e, c: noracle.compare_systems(e, confidence=c),
        ),
        Entry(
            function="compare_systems",
            how="wald",
            run=lambda e, c: noracle.compare_systems(e, confidence=c, interval="wald"),
        ),
        Entry(
            function="race_systems",
            how="",
            run=lambda e, c: noracle.race_systems(e, confidence=c),
            ordered=True,
        ),
        Entry(function="Race", how="", run=_race, ordered=True),
        Entry(function="AccuracyStream", how="anytime", run=_stream("anytime")),
        Entry(function="AccuracyStream", how="betting", run=_stream("betting")),
        Entry(
            function="plan_labels",
            how="half width",
            confident=False,
            run=lambda e, c: noracle.plan_labels(
                n_classes=4, accuracy=0.8, half_width=0.05, confidence=c
            ),
        ),
        Entry(
            function="plan_labels",
            how="budget",
            confident=False,
            run=lambda e, c: noracle.plan_labels(
                n_classes=4,
                accuracy=0.8,
                budget=300,
                confidence=c,
                costs={"ordinary": 3, "complementary": 1},
            ),
        ),
        Entry(
            function="plan_labels",
            how="match",
            confident=False,
            run=lambda e, c: noracle.plan_labels(n_classes=4, accuracy=0.8, match=100),
        ),
        Entry(
            function="plan_labels",
            how="difference",
            confident=False,
            random=True,
            run=lambda e, c: noracle.plan_labels(
                n_classes=4, accuracy=0.8, difference=0.2, kind="ordinary", confidence=c, seed=3
            ),
        ),
        Entry(
            function="plan_accuracy",
            how="half width",
            confident=False,
            run=lambda e, c: noracle.plan_accuracy(e, half_width=0.1, confidence=c),
        ),
        Entry(
            function="plan_budget",
            how="budget",
            confident=False,
            run=lambda e, c: _budget(c, budgets=100.0),
        ),
        Entry(
            function="plan_budget",
            how="half width",
            confident=False,
            run=lambda e, c: _budget(c, half_width=0.05),
        ),
        *(
            Entry(
                function="estimate_mean",
                how=interval,
                run=lambda e, c, i=interval: noracle.estimate_mean(
                    _ratings(e), target="gold", confidence=c, interval=i
                ),
            )
            for interval in ("crossfit-t", "jackknife-t", "paper", "classical")
        ),
        Entry(
            function="route_items",
            how="uniform",
            confident=False,
            random=True,
            run=lambda e, c: noracle.route_items(_unjudged(e), seed=5),
        ),
        Entry(
            function="route_items",
            how="targeted",
            confident=False,
            random=True,
            run=lambda e, c: noracle.route_items(
                _unjudged(e), design="targeted", systems=["a"], seed=5, n=None
            ),
        ),
        *(
            Entry(
                function="estimate_with_judges",
                how=method,
                run=lambda e, c, m=method: noracle.estimate_with_judges(
                    _judged(e), judge="b", method=m, confidence=c
                )["a"],
            )
            for method in ("post-stratified", "ppi")
        ),
        Entry(
            function="check_judge",
            how="",
            confident=False,
            run=lambda e, c: noracle.check_judge(_judged(e), judge="b", confidence=c),
        ),
        Entry(
            function="rank_systems",
            how="",
            run=lambda e, c: noracle.rank_systems(_preferred(e), confidence=c),
        ),
        Entry(
            function="estimate_win_rates",
            how="of one",
            run=lambda e, c: noracle.estimate_win_rates(_preferred(e), confidence=c)[0],
        ),
        Entry(
            function="rank_systems",
            how="judge",
            run=lambda e, c: noracle.rank_systems(_compared(e), judge="model", confidence=c),
        ),
        Entry(
            function="plan_pairs",
            how="",
            confident=False,
            random=True,
            run=lambda e, c: noracle.plan_pairs(_preferred(e), budget=20, confidence=c),
        ),
        Entry(
            function="check_position",
            how="",
            confident=False,
            run=lambda e, c: noracle.check_position(_preferred(e)),
        ),
        Entry(
            function="certify_panel",
            how="",
            run=lambda e, c: noracle.certify_panel(e, confidence=c),
        ),
        Entry(
            function="route_judged",
            how="",
            confident=False,
            random=True,
            run=lambda e, c: noracle.route_judged(_judged(e), judge="b", n=5, seed=5),
        ),
        Entry(
            function="check_routing",
            how="all",
            confident=False,
            random=True,
            run=lambda e, c: noracle.check_routing(e, seed=2),
        ),
        Entry(
            function="check_routing",
            how="rater",
            confident=False,
            random=True,
            run=lambda e, c: noracle.check_routing(e, by="rater", seed=2),
        ),
        Entry(
            function="check_routing",
            how="time",
            confident=False,
            random=True,
            run=lambda e, c: noracle.check_routing(e, by="time", seed=2),
        ),
        Entry(
            function="check_yes_rate",
            how="",
            confident=False,
            run=lambda e, c: noracle.check_yes_rate(e),
        ),
        Entry(
            function="check_clusters",
            how="",
            confident=False,
            run=lambda e, c: noracle.check_clusters(e),
        ),
        Entry(
            function="check_overlap",
            how="",
            confident=False,
            run=lambda e, c: noracle.check_overlap(e),
        ),
        Entry(
            function="check_hits", how="", confident=False, run=lambda e, c: noracle.check_hits(e)
        ),
        Entry(
            function="check_grading",
            how="",
            confident=False,
            random=True,
            run=lambda e, c: noracle.check_grading(e, seed=2),
        ),
        Entry(
            function="check_label_rates",
            how="",
            confident=False,
            random=True,
            run=lambda e, c: noracle.check_label_rates(e, seed=2),
        ),
        Entry(
            function="check_missing",
            how="",
            confident=False,
            random=True,
            run=lambda e, c: noracle.check_missing(e, seed=2),
        ),
        Entry(
            function="check_questions",
            how="",
            confident=False,
            random=True,
            run=lambda e, c: noracle.check_questions(e, seed=2),
        ),
        Entry(
            function="check_sensitivity",
            how="at least",
            confident=False,
            run=lambda e, c: noracle.check_sensitivity(e, system="a", at_least=0.3, confidence=c),
        ),
        Entry(
            function="check_sensitivity",
            how="at most",
            confident=False,
            run=lambda e, c: noracle.check_sensitivity(e, system="a", at_most=0.99, confidence=c),
        ),
        Entry(
            function="range_unsure",
            how="",
            run=lambda e, c: noracle.range_unsure(e, system="a", confidence=c),
        ),
    ]
    return rows


def _most_used(sketch: noracle.Sketch) -> str:
    """A label that is the same one whatever the labels are called."""
    return sketch.labels[int(sketch.uses.sum(axis=0).argmax())]


def _proof_entries() -> list[Entry]:
    """What answers alone prove: no probability, hence no confidence."""
    sketch = noracle.count_decisions
    return [
        Entry(
            function="prove_malfunction",
            how="accuracy",
            confident=False,
            run=lambda e, c: noracle.prove_malfunction(sketch(e), "accuracy > 1/2", time_limit=5),
        ),
        Entry(
            function="prove_malfunction",
            how="grade",
            confident=False,
            run=lambda e, c: noracle.prove_malfunction(sketch(e), "grade > 0.95", time_limit=5),
        ),
        Entry(
            function="range_accuracies",
            how="",
            confident=False,
            run=lambda e, c: noracle.range_accuracies(sketch(e), only="grade of a", time_limit=5),
        ),
        Entry(
            function="range_checks",
            how="",
            confident=False,
            run=lambda e, c: noracle.range_checks(sketch(e), "grade > 0.8", time_limit=5),
        ),
        Entry(
            function="range_prevalence",
            how="",
            confident=False,
            run=lambda e, c: noracle.range_prevalence(
                sketch(e), "grade > 1/3", label=_most_used(sketch(e)), time_limit=5
            ),
        ),
        Entry(
            function="range_threshold",
            how="grade",
            confident=False,
            run=lambda e, c: noracle.range_threshold(sketch(e), kind="grade", time_limit=5),
        ),
        Entry(
            function="range_violators",
            how="",
            confident=False,
            run=lambda e, c: noracle.range_violators(sketch(e), "grade > 0.95", time_limit=5),
        ),
        Entry(
            function="prove_conflict",
            how="",
            confident=False,
            run=lambda e, c: noracle.prove_conflict(sketch(e), "grade > 0.95", time_limit=5),
        ),
        Entry(
            function="prove_disagreement",
            how="",
            confident=False,
            run=lambda e, c: noracle.prove_disagreement(
                _preferred(e), "agreement > 1/2", time_limit=5
            ),
        ),
        Entry(
            function="range_agreement",
            how="",
            confident=False,
            run=lambda e, c: noracle.range_agreement(_preferred(e), order="one", time_limit=5),
        ),
        Entry(
            function="range_dissenters",
            how="",
            confident=False,
            run=lambda e, c: noracle.range_dissenters(
                _preferred(e), "agreement > 1/2", time_limit=5
            ),
        ),
        Entry(
            function="prove_by_axioms",
            how="",
            confident=False,
            run=lambda e, c: noracle.prove_by_axioms(
                {"a": {"x": 146, "y": 135}, "b": {"x": 27, "y": 254}}, "accuracy > 1/2"
            ),
        ),
    ]


ENTRIES = (*_entries(), *_rating_entries(), *_proof_entries())


def spread(turn: int, entries: Sequence[Entry] = ENTRIES) -> list[Any]:
    """The entries as parameters of one test, or of one of its cases; those that are not of the
    default tests are marked ``full``.

    All ways to call a function by one kind of interval share the tests between them: a test takes
    every third of them, another test or case (``turn``) begins at another. So every function meets
    every test and every case by default, and every way to call it meets some of them.
    """
    groups: dict[tuple[str, ...], list[Entry]] = {}
    for entry in entries:
        kind = entry.how.split()[1:2] if entry.function == "estimate_accuracy" else []
        groups.setdefault((entry.function, *kind), []).append(entry)
    chosen = {
        str(entry)
        for group in groups.values()
        for i, entry in enumerate(group)
        if (i + turn) % min(len(group), 3) == 0
    }
    return [
        pytest.param(entry, marks=[] if str(entry) in chosen else [pytest.mark.full], id=str(entry))
        for entry in entries
    ]


def public_estimators() -> set[str]:
    """The public names that must be registered."""
    return {name for name in noracle.__all__ if name.startswith(VERBS) or name in STREAMS}
