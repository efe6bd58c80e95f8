"""A judge that graded everything, people who graded some: accuracy with its help, how good it is,
and what to grade next.

The judge's verdict divides the answers into two parts with known shares q₁ and q₀, "called right"
and the rest. People grade a random sample of each part, A_s is the share of right answers in it:

    accuracy      q₁·A₁ + q₀·A₀
    agreement     q₁·A₁ + q₀·(1 - A₀)
    sensitivity   q₁·A₁/(q₁·A₁ + q₀·A₀)
    specificity   q₀·(1 - A₀)/(q₀·(1 - A₀) + q₁·(1 - A₁))

The first two are sums of two rates with known shares (:mod:`noracle.bounds.parts`). A sensitivity s
is possible just where (1 - s)·q₁·A₁ + s·q₀·(1 - A₀) = s·q₀, which is such a sum too. Nothing is
supposed about the judge: its errors may be of any kind, and go with those of the system.
"""

from __future__ import annotations

import dataclasses
import math
import secrets
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import narwhals as nw
import numpy as np

from noracle.accuracy.check import label_checks, sum_of_hypergeometrics_p
from noracle.accuracy.estimate import GRADED, estimate_accuracy
from noracle.accuracy.score import DIFFERENT_BELOW, assisted_scores, rates_p_value, require_type
from noracle.bounds.betting import fixed_interval
from noracle.bounds.binomial import (
    BinomialCell,
    clopper_pearson,
    find_root,
    last_kept,
)
from noracle.bounds.paired import sign_test
from noracle.bounds.parts import Part, sum_limits
from noracle.counts import AccuracyCounts
from noracle.counts.count import CONTRADICTORY, UNASKED
from noracle.counts.tally import Label
from noracle.errors import EvidenceError, known_names, raise_faults, require, require_evidence
from noracle.evidence import Evidence
from noracle.evidence.frames import distinct, fetch
from noracle.evidence.labels import count, faults_of_table
from noracle.evidence.tables import NO, TABLES, UNSURE, VERDICTS, YES
from noracle.results import (
    Assumption,
    Check,
    Estimate,
    Routing,
    Side,
    choose,
    tails,
)
from noracle.results.base import FAILED_BELOW, check_confidence, holm

Names = str | Sequence[str] | None
ALMOST_ALL = 0.95
"""Who graded at least this share of the answers may be a judge that is not named."""
FEWEST = 10
"""Labels expected in the smaller part; with fewer the parts may cost more than a useless judge
should.
"""
RIGHT, REST = "called right", "not called right"
_DOUBT = {RIGHT: 0.3, REST: 0.4}
"""Standard deviations of a grade where nothing else is known: rates of .9 and .2."""
BLIND = Assumption(
    name="judge blind to the people",
    detail="the judge's verdicts were made without those of the people",
)
SAME_RATE = "methods without parts need people's grades at one rate in all parts"
_ALONE = "Add a column rater that tells the judge and the people apart."


class Answer(NamedTuple):
    """One answer, what the judges said of it (None: nothing) and what the people said."""

    item: Any
    given: bool
    judged: tuple[int | None, ...]
    people: int | None
    guess: float
    stratum: str
    weight: float
    length: float | None
    swapped: tuple[int, int] | None
    padded: tuple[int, int] | None

    @property
    def called(self) -> str:
        """The part of the items that it belongs to: most judges call it right, or not."""
        return RIGHT if 2 * self.judged.count(YES) > len(self.judged) else REST

    @property
    def place(self) -> str:
        """The items inside that part that people may have graded at a rate of their own."""
        silent = "not judged" if all(verdict is None for verdict in self.judged) else ""
        return ", ".join(filter(None, (self.stratum, silent)))

    @property
    def right(self) -> bool | None:
        """Whether people call it right; None where nobody says."""
        return {YES: True, NO: False}.get(-1 if self.people is None else self.people)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class JudgedAnswers:
    """The answers of each system with what judges and people said of them."""

    judges: tuple[str, ...]
    people: tuple[str, ...]
    answers: Mapping[str, tuple[Answer, ...]]
    unused: Mapping[str, int]

    def chosen(self, systems: Names) -> tuple[str, ...]:
        """The systems that were asked for; by default all."""
        names = (systems,) if isinstance(systems, str) else systems or tuple(self.answers)
        for name in names:
            known = known_names(name, self.answers)
            rule = "must be graded by people or judge"
            require_evidence(name in self.answers, "systems", rule, repr(name), remedy=known)
        return tuple(dict.fromkeys(names))


def judges_in(evidence: Evidence) -> tuple[str, ...]:
    """The raters that graded (almost) every answer beside others that did not; none without both.

    Examples
    --------
    >>> grades = {"item": [1, 2, 1], "system": ["a"] * 3, "verdict": ["yes", "no", "yes"], "rater": ["model", "model", "ann"]}
    >>> judges_in(Evidence.from_tables(grades=grades))
    ('model',)
    """
    if evidence.grades is None or "rater" not in evidence.grades.columns:
        return ()
    rows = distinct(evidence.grades, "item", "system", "rater")
    pairs = distinct(rows, "item", "system")
    n = count(pairs if evidence.answers is None else evidence.answers)
    if evidence.answers is None and evidence.items is not None and not evidence.open_ended:
        n = count(evidence.items) * count(distinct(pairs, "system"))
    graded = dict(fetch(rows.group_by("rater").agg(n=nw.len()).select("rater", "n")))
    most = [name for name, k in graded.items() if name is not None and k >= ALMOST_ALL * n]
    return tuple(sorted(most)) if len(graded) > len(most) else ()


def _asked(evidence: Evidence, judges: Sequence[str]) -> dict[tuple[Any, str], bool]:
    """The answers that there are to grade: item and system, and whether there is an answer."""
    if evidence.answers is not None:
        once = evidence.repeats is None
        rule = "must hold one answer for each item and system"
        require_evidence(once, "answers", rule, "repeats", remedy="Choose one run.")
        rows = evidence.rows("answers", "item", "system", "answer")
        return {(item, system): answer is not None for item, system, answer in rows}
    graded = evidence.rows("grades", "item", "system", "rater")
    if evidence.open_ended or evidence.items is None:  # what people alone graded is no sample
        return {(item, system): True for item, system, rater in graded if rater in judges}
    systems = {system for _, system, _ in graded}
    return {(item, s): True for (item,) in evidence.rows("items", "item") for s in systems}


def judged_answers(
    evidence: Evidence, *, judge: Names = None, people: Names = None
) -> JudgedAnswers:
    """The grades sorted into what judges and what people said.

    Parameters
    ----------
    evidence
        Grades with a column ``rater``, of all answers by the judge and of some by people.
    judge, people
        Raters; by default judges are those that graded (almost) everything, people all others.
    """
    require_type(evidence, Evidence)
    if evidence.grades is None:
        raise EvidenceError.of("evidence", "must have grades", "none", remedy=_ALONE)
    columns = evidence.grades.columns
    require_evidence(
        "rater" in columns, "grades", "must have a column rater", "none", remedy=_ALONE
    )
    raise_faults(faults_of_table(evidence.grades, TABLES["grades"]))
    more = ("guess", "length", "position", "propensity")
    names = ("item", "system", "said", "rater", *(c for c in more if c in columns))
    rows = [dict(zip(names, row, strict=True)) for row in evidence.rows("grades", *names)]
    raters = sorted({row["rater"] or "" for row in rows})
    alike = judges_in(evidence)
    judges = _named("judge", judge, raters) or alike
    most = Counter(row["rater"] or "" for row in rows).most_common(1)[0][0]
    remedy = f"Name the judge, as in judge={most!r}. What it refused is unsure."
    rule = "must have one rater that graded every answer, and others that graded some"
    require_evidence(judges, "grades", rule, f"raters {raters[:8]}", remedy=remedy)
    others = tuple(r for r in raters if r not in judges)
    told = _named("people", people, raters) or tuple(r for r in others if r not in alike) or others
    both = sorted({*judges} & {*told})
    require(not both, f"judge and people must differ; got {both} as both.")
    said: dict[tuple[Any, str], dict[str, list[Any]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        said[row["item"], row["system"]][row["rater"] or ""].append(row)
    n_said = sum(bool({*by} & {*told}) for by in said.values())
    remedy = "Let people grade a random part of the answers."
    require_evidence(n_said, "grades", "must have grades by people", "none", remedy=remedy)
    place, odd = _places(evidence), []
    answers: dict[str, list[Answer]] = defaultdict(list)
    for (item, system), given in _asked(evidence, judges).items():
        by, here = said.pop((item, system), {}), place.get(item, {})
        mine = [row for name in told for row in by.get(name, ())]
        drawn = any(row.get("propensity") is not None for row in mine)
        rule = "must have no propensity, since people grade a random part of each verdict's answers"
        require_evidence(not drawn, "grades", rule, "some with one")
        verdicts, own = {row["said"] for row in mine}, [_said(by.get(j, ())) for j in judges]
        clash = {YES, NO} <= verdicts
        if clash or any(one.wavers for one in own):
            odd.append(item)
        grade = min(verdicts - {UNSURE}, default=UNSURE if verdicts else None)
        answer = Answer(
            item,
            given,
            tuple(one.verdict for one in own),
            None if clash else grade,
            math.fsum(one.guess for one in own) / len(own),
            str(here.get("stratum") or ""),
            float(here.get("weight") or 1.0),
            next((one.length for one in own if one.length is not None), None),
            own[0].swapped,
            own[0].padded,
        )
        answers[system].append(answer)
    if odd and evidence.conflicts != "drop":
        rule, came = "must not contradict each other", f"{len(odd)} answers called right and wrong"
        remedy = "Keep one row for each answer and person (or position), name every judge, or pass conflicts='drop'."
        raise EvidenceError.of("grades", rule, came, where=odd, total=len(odd), remedy=remedy)
    unseen = "grades of answers that no judge graded" if evidence.answers is None else UNASKED
    left = {CONTRADICTORY: len(odd), unseen: len(said)}
    return JudgedAnswers(
        judges=judges,
        people=told,
        answers={name: tuple(answers[name]) for name in sorted(answers)},
        unused={name: n for name, n in left.items() if n},
    )


def _named(argument: str, names: Names, raters: Sequence[str]) -> tuple[str, ...]:
    found = (names,) if isinstance(names, str) else tuple(names or ())
    for name in found:
        remedy = known_names(name, raters)
        require_evidence(
            name in raters, argument, "must be a rater of the grades", repr(name), remedy=remedy
        )
    return tuple(dict.fromkeys(found))


def _places(evidence: Evidence) -> dict[Any, dict[str, Any]]:
    """Stratum and weight of each item."""
    there = () if evidence.items is None else evidence.items.columns
    names = [c for c in ("stratum", "weight") if c in there]
    rows = evidence.rows("items", "item", *names) if names else ()
    return {item: dict(zip(names, more, strict=True)) for item, *more in rows}


class _Said(NamedTuple):
    """What one judge said of one answer: the verdict at its first position and shortest length;
    where there are two, those at both positions, and of the longest and the shortest version;
    whether it said different things of one; how sure it is; the answer's length.
    """

    verdict: int | None
    swapped: tuple[int, int] | None
    padded: tuple[int, int] | None
    wavers: bool
    guess: float
    length: float | None


def _said(rows: Sequence[Mapping[str, Any]]) -> _Said:
    at: dict[tuple[int, str, float], set[int]] = defaultdict(set)
    for row in rows:
        place = str(row.get("position") or "")
        length: Any = row.get("length")
        known = isinstance(length, (int, float)) and not math.isnan(length)
        at[len(place), place, float(length) if known else math.inf].add(row["said"])
    told = {key: min(said) for key, said in sorted(at.items()) if len(said) == 1}
    verdicts = [*told.values()]
    verdict, first = next(iter(verdicts), None), next(iter(told), (0, "", math.inf))
    places = [v for (*_, length), v in told.items() if length == first[2]]
    versions = [
        v for (*place, length), v in told.items() if (*place,) == first[:2] and length < math.inf
    ]
    sure = [g for row in rows if (g := row.get("guess")) is not None and not math.isnan(g)]
    sure = sure or [{YES: 1.0, NO: 0.0}.get(-1 if verdict is None else verdict, 0.5)]
    return _Said(
        verdict,
        (places[0], places[-1]) if len(places) > 1 else None,
        (versions[-1], versions[0]) if len(versions) > 1 else None,
        len(told) < len(at),
        math.fsum(sure) / len(sure),
        None if first[2] == math.inf else first[2],
    )


# counts


def judged_counts(
    answers: Sequence[Answer], system: str, *, unused: Mapping[str, int] | None = None
) -> AccuracyCounts:
    """People's grades of one system, with the judge's verdict as the stratum.

    Strata of the items, and answers without a verdict, are kept apart inside a part only where people
    graded them at different rates.
    """
    sizes: dict[str, Counter[str]] = {RIGHT: Counter(), REST: Counter()}
    labels: dict[str, Counter[str]] = {RIGHT: Counter(), REST: Counter()}
    for a in answers:
        if a.given:
            sizes[a.called][a.place] += 1
            labels[a.called][a.place] += a.right is not None
    p_values = [
        rates_p_value([(n, labels[c][s]) for s, n in of.items()]) for c, of in sizes.items()
    ]
    several = min(p_values) < DIFFERENT_BELOW
    items, answered, tallies = Counter[Any](), Counter[Any](), Counter[Any]()
    for a in answers:
        name = f"{a.called}, {a.place}" if several and a.place else a.called
        label = Label.grade(VERDICTS.get(UNSURE if a.people is None else a.people, "unsure"))  # type: ignore[arg-type]
        label = label._replace(stratum=name, weight=a.weight)
        cell = label.place._replace(system=system)
        items[cell] += 1
        answered[cell] += a.given
        if a.people is not None:
            tallies[label.meet(a.item if a.given else None, system=system)] += 1
    return AccuracyCounts(tallies=tallies, items=items, answered=answered, unused=unused or {})


def _together(counts: AccuracyCounts) -> AccuracyCounts:
    """The same counts without the judge."""

    def plain(table: Mapping[Any, int]) -> Counter[Any]:
        found: Counter[Any] = Counter()
        for key, n in table.items():
            found[key._replace(stratum="")] += n
        return found

    named = ("tallies", "items", "answered")
    same: dict[str, Any] = {name: plain(getattr(counts, name)) for name in named}
    return dataclasses.replace(counts, **same)


def _rates(counts: AccuracyCounts) -> list[tuple[int, int]]:
    """Answers and people's grades of them in each part."""
    n = Counter({c.stratum: k for c, k in counts.answered.items()})
    of: Counter[str] = Counter()
    for t, k in counts.tallies.items():
        of[t.stratum] += k * (t.answered and t.verdict != "unsure")
    return [(k, of[name]) for name, k in n.items()]


def worth_parts(rates: Sequence[tuple[int, int]]) -> bool:
    """Whether to divide by the judge's verdict, from (answers, grades) of each part: by the design,
    which is the number of grades and the judge's verdicts, never by what people said.

    Where a random sample of all is expected to have fewer than 10 labels in the smaller part, the
    parts cost more than they can gain. Samples drawn at other rates must be divided.

    Examples
    --------
    >>> worth_parts([(700, 70), (300, 30)]), worth_parts([(980, 98), (20, 2)]), worth_parts([(980, 60), (20, 20)])
    (True, False, True)
    """
    total, n = (sum(column) for column in zip(*rates, strict=True))
    least = min((size for size, _ in rates), default=0)
    return rates_p_value(rates) < DIFFERENT_BELOW or n * least >= FEWEST * total


def estimate_with_judges(
    evidence: Evidence,
    *,
    judge: Names = None,
    people: Names = None,
    systems: Sequence[str] | None = None,
    method: Literal["post-stratified", "ppi"] = "post-stratified",
    weight: float = 1.0,
    half_width: float | None = None,
    population: Literal["answers", "beyond"] = "answers",
    confidence: float = 0.95,
    side: Side = "two-sided",
    strict: bool = False,
    seed: int = 0,
) -> dict[str, Estimate]:
    """Estimate accuracies from people's grades of some answers, with the help of a judge that
    graded all.

    A = q₁·A₁ + q₀·A₀: the judge's verdicts divide the answers into two parts whose shares q are
    known, people's grades tell the rates A. The judge is never believed; one that is wrong half of
    the time costs nothing, one that is mostly right, or mostly wrong, saves labels.

    Parameters
    ----------
    evidence
        Grades with a column ``rater``; answers and items where they are there.
    judge, people
        Raters of the grades. By default the judges are those that graded (almost) every answer, and
        people those that did not. Of several judges the majority counts.
    systems
        Which systems; by default all.
    method
        ``post-stratified`` divides by the verdict. ``ppi`` takes the mean of the judge's ``guess``
        (a column of the grades, in [0, 1]; 1 or 0 for a verdict without one) over all answers and
        corrects it by people's grades: A = mean(λ·guess) + mean of (grade - λ·guess) over graded
        answers.
    weight
        λ of ``ppi``, fixed before the grades are seen.
    half_width
        A wanted half-width: ``diagnostics["judge"]`` says how many grades it takes with and without
        the judge.
    population, confidence, side, strict, seed
        As in :func:`estimate_accuracy`.

    Returns
    -------
    dict
        The name of each system with its :class:`Estimate`; ``diagnostics["judge"]`` holds what
        people alone would give and how many labels the judge saves.

    Notes
    -----
    Which answers are divided is fixed by numbers of grades and the judge's verdicts: a sample of
    all answers with fewer than 10 grades expected in the smaller part is taken undivided. The
    limits for two parts are exact (:func:`noracle.bounds.parts.sum_limits`).

    Assumes that people graded a random sample of the answers in each part, whatever the rates, that
    the judge did not see their grades, and that people are right.

    References
    ----------
    Berger and Boos (1994), JASA 89, 1012-1016; Holt and Smith (1979), J. Roy. Statist. Soc. A 142,
    33-46 (post-stratification); Angelopoulos et al. (2023), Science 382, 669-674 (PPI).

    Examples
    --------
    >>> from noracle import Evidence, estimate_with_judges
    >>> items = list(range(1000))  # 700 right answers; the judge errs on every tenth; people grade every third
    >>> right = [i % 10 < 7 for i in items]
    >>> judged = [r != (i // 10 % 10 == 0) for i, r in zip(items, right)]
    >>> grades = {"item": items + items[::3], "system": ["a"] * 1334, "verdict": judged + right[::3]}
    >>> grades["rater"] = ["model"] * 1000 + ["ann"] * 334
    >>> estimate = estimate_with_judges(Evidence.from_tables(grades=grades))["a"]
    >>> alone = estimate.diagnostics["judge"]["alone"]
    >>> round(estimate.low, 3), round(estimate.high, 3), round(alone["low"], 3), round(alone["high"], 3)
    (0.673, 0.732, 0.658, 0.74)
    """
    choose("method", method, ("post-stratified", "ppi"))
    require(0 <= weight <= 1, f"weight must be in [0, 1]; got {weight}.")
    rule = (
        "method 'ppi' must come with population='answers', whose mean guess is known; got 'beyond'."
    )
    require(method != "ppi" or population == "answers", rule)
    wanted = half_width is None or 0 < half_width < 0.5
    require(wanted, f"half_width must be in (0, 0.5); got {half_width}.")
    told = judged_answers(evidence, judge=judge, people=people)
    about: dict[str, Any] = {"confidence": confidence, "side": side, "population": population}
    about |= {"strict": strict, "seed": seed}
    found = {}
    for system in told.chosen(systems):
        rows = told.answers[system]
        counts, checked = judged_counts(rows, system, unused=told.unused), _grading(told, system)
        rates = _rates(counts)
        checks = (*label_checks(counts, systems=[system], seed=seed), *checked)
        pooled = rates_p_value(rates) >= DIFFERENT_BELOW
        parts = method == "post-stratified" and worth_parts(rates)
        require(
            rates_p_value(rates) >= FAILED_BELOW or method != "ppi",
            f"{SAME_RATE}; got {rates}. Use method='post-stratified'.",
        )
        used, strata = (counts, "apart") if parts else (_together(counts), "auto")
        estimate = estimate_accuracy(used, strata=strata, checks=checks, **about)  # type: ignore[arg-type]
        alone = estimate_accuracy(_together(counts), checks="none", **about) if pooled else None
        if method == "ppi":
            estimate = _ppi(estimate, rows, weight, seed)
        elif parts and estimate.interval == "parts" and len(rates) == 2:
            estimate = dataclasses.replace(estimate, interval="two parts")
        found[system] = _with_judge(
            estimate,
            alone,
            told,
            rates,
            method,
            half_width,
            parts=parts,
            beyond=population == "beyond",
        )
    return found


def _ppi(estimate: Estimate, rows: Sequence[Answer], weight: float, seed: int) -> Estimate:
    """Bets on grade - λ·(guess - mean guess of all answers)."""
    given = [a for a in rows if a.given]
    graded = Counter((bool(a.right), a.guess) for a in given if a.right is not None)
    if not graded:
        return estimate
    require(len({a.weight for a in given}) == 1, "method 'ppi' must have items of one weight.")
    mean = math.fsum(a.guess for a in given) / len(given)
    scores = assisted_scores(graded, mean=mean, weight=weight)
    value = math.fsum(s.value * s.n for s in scores) / graded.total()
    share = len(given) / len(rows)
    limits = fixed_interval(scores, *tails(estimate.confidence, estimate.side), seed=seed)
    about: dict[str, Any] = {"low": share * limits[0], "high": share * limits[1], "method": "ppi"}
    return dataclasses.replace(
        estimate, value=share * value, se=math.nan, interval="fixed-n", **about
    )


def _with_judge(
    estimate: Estimate,
    alone: Estimate | None,
    told: JudgedAnswers,
    rates: Sequence[tuple[int, int]],
    method: str,
    half_width: float | None,
    *,
    parts: bool,
    beyond: bool,
) -> Estimate:
    """The estimate with what the judge did for it."""
    n, size = sum(k for _, k in rates), sum(k for k, _ in rates)
    about: dict[str, Any] = {"judges": list(told.judges), "people": list(told.people), "grades": n}
    notes = ["people graded the verdicts at two rates: alone they are no random sample"]
    if alone is not None:
        about["alone"] = {k: getattr(alone, k) for k in ("value", "low", "high")}
        notes = [f"people alone {_known(alone.value, 3)} [{alone.low:.3f}, {alone.high:.3f}]"]
    if alone is not None and n and _reach(alone) > 0 < _reach(estimate):
        ratio = (_reach(estimate) / _reach(alone)) ** 2
        left = 0.0 if beyond else 1 / size  # variances go with 1/n - 1/N
        same = round(1 / (ratio * (1 / n - left) + left))
        about |= {"labels_ratio": ratio, "grades_alone": same}
        notes[0] += f"; {n} grades say with the judge what about {same} would say alone"
        if half_width is not None:
            need = _needed(alone.value, half_width, 1 - estimate.confidence)
            by_people, both = (math.ceil(1 / (1 / k + left)) for k in (need, ratio * need))
            about["wanted"] = {"half_width": half_width, "alone": by_people, "with": both}
            takes = (
                f"± {half_width:g} takes about {both} grades with the judge, {by_people} without"
            )
            notes.append(takes)
    if not parts and method == "post-stratified":
        notes.append("too few grades of one verdict: the judge's verdicts are not used")
    if len(told.judges) > 1:
        notes.append(f"{len(told.judges)} judges: the verdict of the majority counts")
    kept = tuple(note for note in estimate.notes if "have labels of different kinds" not in note)
    detail = "among answers with the same verdict of the judge " if parts else ""
    graded = dataclasses.replace(GRADED, detail=f"{detail}{GRADED.detail}")
    rests = tuple(
        dataclasses.replace(a, detail=graded.detail) if a == GRADED else a
        for a in estimate.guarantee.assumptions
    )
    return dataclasses.replace(
        estimate,
        method=method,
        guarantee=dataclasses.replace(estimate.guarantee, assumptions=(*rests, BLIND)),
        diagnostics={**estimate.diagnostics, "judge": about},
        notes=(*kept, *notes),
    )


def _reach(estimate: Estimate) -> float:
    """How far the interval goes, on the side that was asked for."""
    low = 2 * estimate.value - estimate.high if estimate.side == "upper" else estimate.low
    high = 2 * estimate.value - estimate.low if estimate.side == "lower" else estimate.high
    return high - low


def _needed(value: float, half_width: float, error: float) -> int:
    """Ordinary labels for this half-width at this value, by Clopper–Pearson."""

    def half(n: float) -> float:
        low, high = clopper_pearson(value * n, n, error / 2, error / 2)
        return (high - low) / 2

    most = 1.0
    while half(most) > half_width:
        most *= 2
    return math.ceil(last_kept(lambda n: half(n) <= half_width, most, most / 2, steps=40) + 1e-6)


def _grading(told: JudgedAnswers, system: str) -> list[Check]:
    """Do graded answers look like the others of their part, in the eyes of each judge?"""
    found: list[tuple[float, int, str]] = []
    parts = [[a for a in told.answers[system] if a.given and a.called == p] for p in (RIGHT, REST)]
    graded = [[a for a in rows if a.people is not None] for rows in parts]
    n = sum(map(len, graded))
    for j, name in enumerate(told.judges if len(told.judges) > 1 else ()):
        marked, seen = (
            [sum(a.judged[j] == YES for a in rows) for rows in of] for of in (parts, graded)
        )
        tables = [(len(parts[i]), marked[i], len(graded[i])) for i in (0, 1) if parts[i]]
        p = sum_of_hypergeometrics_p(tables, sum(seen))
        what = (
            f"{system}: {name} calls {sum(seen)} of {n} graded answers right, {sum(marked)} of all"
        )
        found += [] if math.isnan(p) else [(p, sum(seen), what)]
    if not found:
        return []
    p, statistic, what = min(found)
    about: dict[str, Any] = {"p_value": min(1.0, p * len(found)), "statistic": float(statistic)}
    return [
        Check(
            name="grading",
            assumption=GRADED.name,
            finding=what,
            method="exact conditional test",
            refutes_only=True,
            parts=({"system": system, "n": n, "what": what, **about},),
            **about,
        )
    ]


# how good is the judge?


def check_judge(
    evidence: Evidence,
    *,
    judge: str | None = None,
    people: Names = None,
    systems: Sequence[str] | None = None,
    own: Sequence[str] = (),
    confidence: float = 0.95,
    seed: int = 0,
) -> Check:
    """Check a judge against people: how often it is right, and whether it is swayed by what should
    not matter.

    Sensitivity is P(judge says right | answer is right), specificity P(judge does not say right |
    answer is wrong), agreement the share of answers on which it is right; each for each system, with
    exact limits. The tests of bias are exact and paired, adjusted together by Holm's method.

    Parameters
    ----------
    evidence
        Grades with a column ``rater``, as in :func:`estimate_with_judges`. Columns that allow tests
        of bias are ``position`` (the order in which an answer was shown; the judge graded it in
        two) and ``length`` of the answer; the judge may have graded it in two versions, as it is and
        padded.
    judge, people
        The judge that is checked, and the raters that it is compared with.
    systems
        Which systems; by default all.
    own
        Systems of the judge's own family; one of the judge's name is always among them.
    confidence
        Of each interval; bias is found at 1 - ``confidence``.
    seed
        Which two systems of an item are compared with each other.

    Notes
    -----
    With q the share of answers that the judge calls right, A₁ and A₀ the rates of right answers
    among these and the others, sensitivity = q·A₁/(q·A₁ + (1 - q)·A₀).

    Position: of each item one answer that was graded at two positions; verbosity: one that was
    graded at two lengths, of which the shortest is the answer. Length and own family: of each item
    two systems, drawn before the verdicts are looked at, that people grade in the
    same way. Those on
    which the judge's verdicts differ count. If it is not swayed, each of the two is favoured with
    probability 1/2 (sign test).

    Assumes that people graded a random sample of the answers in each part, independent items, and
    that people are right. A judge that fails is as useful as before to
    :func:`estimate_with_judges`, which never believes it; it is no fair referee between systems.

    References
    ----------
    Clopper and Pearson (1934), Biometrika 26, 404-413; McNemar (1947), Psychometrika 12, 153-157;
    Holm (1979), Scandinavian Journal of Statistics 6, 65-70.

    Examples
    --------
    >>> from noracle import Evidence, check_judge
    >>> items = list(range(100))
    >>> grades = {"item": items * 2, "system": ["a"] * 200, "rater": ["model"] * 100 + ["ann"] * 100}
    >>> grades["verdict"] = ["right"] * 80 + ["wrong"] * 20 + ["right"] * 70 + ["wrong"] * 30
    >>> check = check_judge(Evidence.from_tables(grades=grades), judge="model")
    >>> [(part["what"], round(part["value"], 2), round(part["low"], 2)) for part in check.parts]
    [('sensitivity', 1.0, 1.0), ('specificity', 0.67, 0.67), ('agreement', 0.9, 0.9)]
    """
    told = judged_answers(evidence, judge=judge, people=people)
    one = len(told.judges) == 1
    require(one, f"judge must be named, one of {list(told.judges)}; got None.")
    error, names = 1 - check_confidence(confidence), told.chosen(systems)
    parts: list[dict[str, Any]] = [
        {"system": system, **row} for system in names for row in _skill(told.answers[system], error)
    ]
    family = {*own} & {*told.answers} | ({told.judges[0]} & {*told.answers})
    tests = [t for t in _biases(told, names, family, np.random.default_rng(seed)) if t["n"]]
    adjusted = holm([float(t["p_value"]) for t in tests])
    for test, p in zip(tests, adjusted, strict=True):
        n, favoured = test["n"], round(test["value"] * test["n"])
        limits = clopper_pearson(favoured, n, error / 2, error / 2)
        test |= {"p_value": p, "low": limits[0], "high": limits[1]}
    worst = min(tests, key=lambda t: float(t["p_value"]), default=None)
    first = [
        f"{row['what']} {_known(row['value'], 2)} [{row['low']:.2f}, {row['high']:.2f}]"
        for row in parts[:3]
    ]
    who = f"{told.judges[0]} against {', '.join(map(str, told.people[:3]))}"
    who += f" and {len(told.people) - 3} more" * (len(told.people) > 3)
    skill = f"{who}, {parts[0]['system']}: {', '.join(first)}" if parts else "no grades"
    bias = "no test of bias applies" if worst is None else str(worst["finding"])
    return Check(
        name="judge",
        assumption="the judge is not swayed",
        p_value=math.nan if worst is None else float(worst["p_value"]),
        statistic=math.nan if worst is None else float(worst["value"]),
        finding=f"{skill}; {bias}",
        method="exact limits for two parts; sign tests, by Holm's method",
        threshold=error,
        parts=(*parts, *tests),
        counts={"systems": len(names), "grades": sum(int(row["n"]) for row in parts[::3])},
        diagnostics={"judge": told.judges[0], "people": list(told.people), "seed": seed},
        notes=() if tests else ("tests of bias need columns position or length, or own systems",),
        reason="" if worst is not None else "no test of bias applies",
    )


def _skill(answers: Sequence[Answer], error: float) -> list[dict[str, Any]]:
    """Sensitivity, specificity and agreement of the judge on the answers of one system."""
    given = [a for a in answers if a.given and a.judged[0] is not None]
    halves = [[a for a in given if a.called == part] for part in (RIGHT, REST)]
    seen = [[bool(a.right) for a in half if a.right is not None] for half in halves]
    called, rest = (
        Part(
            len(half) / max(len(given), 1), (BinomialCell(len(s), sum(s)),) if s else (), len(half)
        )
        for half, s in zip(halves, seen, strict=True)
    )
    agreed = [called, _mirrored(rest)]
    whole = sum_limits(agreed, error / 2, error / 2)
    rows = (
        ("sensitivity", *_odds(called, rest, error)),
        ("specificity", *_odds(_mirrored(rest), _mirrored(called), error)),
        ("agreement", sum(map(_mass, agreed)), whole.low, whole.high),
    )
    n = sum(map(len, seen))
    names = ("what", "value", "low", "high")
    return [{**dict(zip(names, row, strict=True)), "n": n, "finding": ""} for row in rows]


def _known(value: float, digits: int) -> str:
    return "undefined" if math.isnan(value) else f"{value:.{digits}f}"


def _mirrored(part: Part) -> Part:
    """The same part with wrong answers for right ones."""
    cells = tuple(BinomialCell(c.n, c.n - c.successes) for c in part.cells)
    return dataclasses.replace(part, cells=cells)


def _mass(part: Part) -> float:
    """q·A; NaN where nobody graded a part that is not empty."""
    (cell,) = part.cells or (BinomialCell(0, 0),)
    return part.share * cell.successes / cell.n if cell.n else math.nan if part.share else 0.0


def _odds(one: Part, two: Part, error: float) -> tuple[float, float, float]:
    """Value and limits of q·A/(q·A + r·B), A and B the rates of two parts with shares q and r."""

    def room(s: float, below: float, above: float) -> float:
        """Positive where it is proved that it is above s, or below it."""
        first = dataclasses.replace(one, share=(1 - s) * one.share)
        second = dataclasses.replace(_mirrored(two), share=s * two.share)
        found = sum_limits([p for p in (first, second) if p.share > 0], below, above)
        return found.low - s * two.share if below else s * two.share - found.high

    mine, theirs = _mass(one), _mass(two)
    low = _last_proved(lambda s: room(s, error / 2, 0.0), 0.0, 1.0)
    high = _last_proved(lambda s: room(s, 0.0, error / 2), 1.0, 0.0)
    return mine / (mine + theirs) if mine + theirs else math.nan, min(low, high), max(low, high)


def _last_proved(room: Callable[[float], float], first: float, last: float) -> float:
    """The last place on the way to ``last`` that has room; ``first`` if hardly any has."""
    near, step = first + (last - first) * 1e-6, math.copysign(1e-4, first - last)
    if room(near) <= 0:
        return first
    if room(last) > 0:
        return last
    root = find_root(room, near, last, xtol=1e-4)
    found = (root + k * step for k in (0, 1, 3, 10, 30, 100, 300))
    return next((s for s in found if 0 < s < 1 and room(s) > 0), first)


def _biases(
    told: JudgedAnswers, names: Sequence[str], family: set[str], rng: np.random.Generator
) -> list[dict[str, Any]]:
    """Sign tests: of each item two verdicts that should be alike; how often each is the better one."""
    items: dict[Any, list[tuple[str, Answer]]] = defaultdict(list)
    for name in names:
        for a in told.answers[name]:
            items[a.item].append((name, a))
    told_of: dict[str, Counter[int]] = {kind: Counter() for kind in _FAVOURED}
    for item in sorted(items, key=str):
        shown = [a.swapped for _, a in items[item] if a.swapped is not None]
        if shown:
            told_of["position"][_sign(*shown[int(rng.integers(len(shown)))])] += 1
        versions = [a.padded for _, a in items[item] if a.padded is not None]
        if versions:
            told_of["verbosity"][_sign(*versions[int(rng.integers(len(versions)))])] += 1
        rows = [(s, a) for s, a in items[item] if a.given and a.right is not None]
        pairs = [(x, y) for x in rows for y in rows if x[1].right == y[1].right]
        longer = [(x, y) for x, y in pairs if (x[1].length or 0) > (y[1].length or math.inf)]
        own = [(x, y) for x, y in pairs if x[0] in family and y[0] not in family]
        for kind, apart in (("length", longer), ("own family", own)):
            if apart:
                (_, one), (_, two) = apart[int(rng.integers(len(apart)))]
                told_of[kind][_sign(one.judged[0], two.judged[0])] += 1
    found = []
    for kind, counter in told_of.items():
        wins, n = counter[1], counter[1] + counter[-1]
        finding = f"{_FAVOURED[kind]} is favoured in {wins} of {n} verdicts that differ"
        row = {"system": "all", "what": f"{kind} bias", "value": wins / max(n, 1), "n": n}
        found.append({**row, "p_value": sign_test(wins, n - wins), "finding": finding})
    return found


_FAVOURED = {
    "position": "the position shown first",
    "verbosity": "the longer version of one answer",
    "length": "the longer answer",
    "own family": "its own family",
}


def _sign(one: int | None, two: int | None) -> int:
    """1 where only the first is called right, -1 where only the second is."""
    return (one == YES) - (two == YES)


# what to grade next


def route_judged(
    evidence: Evidence,
    *,
    n: int,
    judge: Names = None,
    people: Names = None,
    systems: Sequence[str] | None = None,
    seed: int | None = None,
) -> Routing:
    """Draw the answers that people should grade next: more where the judge's verdict says less.

    In each part the answers are drawn at random among those without a grade, so that
    :func:`estimate_with_judges` holds; ``counts["propensities"]`` keeps the probability.
    The numbers go with q·σ (Neyman): σ is √(mean guess·(1 - guess)) where the judge says how sure it
    is, else that of rates .9 and .2. What people said so far has no part in it.

    Parameters
    ----------
    evidence, judge, people, systems
        As in :func:`estimate_with_judges`.
    n
        How many answers, shared equally by the systems that have so many without a grade.
    seed
        Makes the routing reproducible. Drawn and recorded when left out.

    Notes
    -----
    n_s proportional to q_s·σ_s minimises Σ q_s²·σ_s²/n_s, the variance of the estimate.

    Assumes that the grades so far are a random sample of each part.

    References
    ----------
    Neyman (1934), J. Roy. Statist. Soc. 97, 558-625.

    Examples
    --------
    >>> from noracle import Evidence
    >>> items = list(range(100))
    >>> grades = {"item": [*items, 0], "system": ["a"] * 101, "rater": ["model"] * 100 + ["ann"]}
    >>> grades["verdict"] = ["right"] * 60 + ["wrong"] * 40 + ["right"]
    >>> route_judged(Evidence.from_tables(grades=grades), n=20, seed=1).counts["called right"]
    10
    """
    told = judged_answers(evidence, judge=judge, people=people)
    names, seed = told.chosen(systems), secrets.randbits(32) if seed is None else seed
    rng, rows, drawn = np.random.default_rng(seed), [], Counter[str]()
    chances: dict[str, dict[str, float]] = {}
    left = {s: sum(a.given and a.people is None for a in told.answers[s]) for s in names}
    most = sum(left.values())
    require(0 < n <= most, f"n must be in [1, {most}], the answers without a grade; got {n}.")
    for system, share in _shared(n, left).items():
        of = {
            part: [a for a in told.answers[system] if a.given and a.called == part]
            for part in _DOUBT
        }
        open_ = {
            part: sorted((a.item for a in of[part] if a.people is None), key=str) for part in of
        }
        for part, k in _allocated(of, open_, share).items():
            rows += [(open_[part][j], system, None) for j in rng.permutation(len(open_[part]))[:k]]
            drawn[part] += k
            if open_[part]:
                chances.setdefault(system, {})[part] = k / len(open_[part])
    about = {"items": len({row[0] for row in rows}), "questions": len(rows)}
    return Routing(
        rows=tuple(rows[i] for i in rng.permutation(len(rows))),
        design="grades",
        epsilon=1.0,
        seed=seed,
        systems=names,
        counts={**about, **drawn, "propensities": chances},
    )


def _shared(n: int, left: Mapping[str, int]) -> dict[str, int]:
    """``n`` in equal shares; what one has no room for goes to the others.

    Examples
    --------
    >>> _shared(10, {"a": 2, "b": 20, "c": 20}), _shared(10, {"a": 9, "b": 9, "c": 9})
    ({'a': 2, 'b': 4, 'c': 4}, {'a': 4, 'b': 3, 'c': 3})
    """
    shares = dict.fromkeys(left, 0)
    while rest := n - sum(shares.values()):
        room = [name for name in left if shares[name] < left[name]]
        for i, name in enumerate(room):
            share = rest // len(room) + (i < rest % len(room))
            shares[name] += min(share, left[name] - shares[name])
    return shares


def _allocated(
    of: Mapping[str, Sequence[Answer]], open_: Mapping[str, Sequence[Any]], n: int
) -> dict[str, int]:
    """How many of ``n`` new grades each part gets, so that all grades together go with q·σ."""
    sure = {p: math.fsum(a.guess * (1 - a.guess) for a in rows) for p, rows in of.items()}
    told = all(sure[part] > 0 for part, rows in of.items() if rows)
    doubt = {
        p: math.sqrt(sure[p] / len(rows)) if told and rows else _DOUBT[p] for p, rows in of.items()
    }
    need = {part: len(rows) * doubt[part] for part, rows in of.items()}
    before = {part: len(of[part]) - len(open_[part]) for part in of}
    total = n + sum(before.values())
    scale = total / (math.fsum(need.values()) or 1.0)
    first = min(
        max(round(scale * need[RIGHT]) - before[RIGHT], n - len(open_[REST]), 0),
        n,
        len(open_[RIGHT]),
    )
    return {RIGHT: first, REST: min(n - first, len(open_[REST]))}
