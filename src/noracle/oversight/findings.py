"""Do the parts of a report fit together, what is promised for all of it, and what to do next."""

from __future__ import annotations

import dataclasses
import functools
import math
import operator
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, TypeVar

from noracle.accuracy.check import bears_on_estimates
from noracle.bounds.binomial import ndtri
from noracle.oversight.model import Finding, Inventory, NextStep, Step
from noracle.oversight.settings import NO_CLAIM
from noracle.results import (
    Certificate,
    Check,
    Comparison,
    Drift,
    Estimate,
    Guarantee,
    Kind,
    Plan,
    Proof,
    Range,
    Ranges,
    Result,
    Routing,
)
from noracle.results.base import failed_checks

R = TypeVar("R", bound=Result)
_SLACK = 1e-9
_NOT_ALL_SYSTEMS = "labelled items that some system was not asked about"
_OTHERS = ("ranges", "comparison", "alarm", "certificate", "ceiling")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What the steps say, by kind."""

    accuracies: Mapping[str, Estimate]
    grades: Mapping[str, Range]
    comparison: Comparison | None
    proof: Proof | None
    certificates: Mapping[str, Certificate]
    ceiling: Estimate | None
    checks: tuple[Check, ...]
    logic: Guarantee | None


def results_of(of: Mapping[str, Step], name: str, kind: type[R]) -> list[R]:
    """The results of this kind of the step of this name."""
    return [r for r in (of[name].results if name in of else ()) if isinstance(r, kind)]


def first_of(of: Mapping[str, Step], name: str, kind: type[R]) -> R | None:
    """The first result of this kind of the step of this name."""
    return next(iter(results_of(of, name, kind)), None)


def by_subject(of: Mapping[str, Step], name: str, kind: type[R]) -> dict[str, R]:
    """The results of this kind of the step of this name, by what they are about."""
    results: Any = results_of(of, name, kind)
    return {r.subject: r for r in results}


def parts_of(steps: Sequence[Step]) -> Parts:
    """What the steps say, by kind of statement."""
    of = {step.name: step for step in steps}
    accuracies = by_subject(of, "accuracy", Estimate)
    ranges = results_of(of, "ranges", Ranges)
    named = {range_.name: range_ for r in ranges for range_ in r.ranges}
    grades = {n: named.get(f"grade of {n}", named.get(f"grade of {n!r}")) for n in accuracies}
    return Parts(
        accuracies=accuracies,
        grades={name: range_ for name, range_ in grades.items() if range_ is not None},
        comparison=first_of(of, "comparison", Comparison),
        proof=first_of(of, "alarm", Proof),
        certificates=by_subject(of, "certificate", Certificate),
        ceiling=first_of(of, "ceiling", Estimate),
        checks=tuple(results_of(of, "checks", Check)),
        logic=ranges[0].guarantee if ranges else None,
    )


def answered_share(estimate: Estimate) -> float | None:
    """a/r, answered items among those asked about; None where items were answered more than once."""
    items = estimate.counts.get("items", 0)
    if not items or "answers" in estimate.counts:
        return None
    return 1 - float(estimate.counts.get("without_answer", 0)) / float(items)


def claims_of(proof: Proof) -> list[tuple[str, str, float, bool]] | None:
    """(kind, classifier, p, strict) of all statements; None where one is no accuracy or grade."""
    names = list(proof.sketch.get("classifiers", ()))
    found: list[tuple[str, str, float, bool]] = []
    for s in proof.spec.get("statements", ()):
        if s["kind"] not in ("accuracy", "grade") or s.get("on") is not None:
            return None
        of = [s["of"]] if s["of"] is not None else names
        above, strict = float(Fraction(str(s["above"]))), bool(s["strict"])
        found += [(str(s["kind"]), str(name), above, strict) for name in of]
    return found or None


def floor_of(parts: Parts, name: str, *, same_items: bool) -> tuple[float, str] | None:
    """The largest lower limit of a grade, and where it comes from."""
    estimate = parts.accuracies.get(name)
    share = None if estimate is None else answered_share(estimate)
    if estimate is None or not share or math.isnan(estimate.low):
        return None
    floors = [(estimate.low / share, "by labels")]
    certificate = parts.certificates.get(name)
    if same_items and certificate is not None and certificate.certified:
        floors.append((certificate.margin, "certified"))
    return max(floors)


def span(low: float, high: float) -> str:
    """An interval for a sentence."""
    return f"[{low:.3f}, {high:.3f}]"


def _finding(name: str, agrees: bool, statement: str, subject: str = "") -> Finding:
    between = ("accuracy", *(step for step in _OTHERS if step.removesuffix("s") in name))
    return Finding(name=name, agrees=agrees, statement=statement, between=between, subject=subject)


def _contradiction(said: str, assumed: str) -> str:
    return f"CONTRADICTION: {said}. These cannot all be true: {assumed}."


def named_in(guarantee: Guarantee) -> str:
    """The assumptions for a sentence."""
    return "; ".join(a.name for a in guarantee.assumptions) or "nothing is assumed"


def find_contradictions(
    steps: Sequence[Step], *, weighted: bool = False, same_items: bool = False
) -> tuple[Finding, ...]:
    """Hold the parts of a report against each other; disagreements come first.

    Where items are ``weighted`` an accuracy is no share of items, and is not compared with what
    whole items prove. Without ``same_items`` nothing follows from ratings for answers.

    Notes
    -----
    Two intervals that hold with error rates a and b, and whose intersection is empty, cannot both
    be right. So in a world in which all assumptions are true this happens with probability of at
    most a + b. A logical range has error rate 0.
    """
    parts = parts_of(steps)
    found = [
        *_failed_checks(parts),
        *_impossible_labels(parts),
        *([] if weighted else _ranges_against_accuracy(parts)),
        *_comparison_against_accuracy(parts),
        *([] if weighted else _alarm_against_rest(parts, same_items=same_items)),
        *(_annotators_against_accuracy(parts) if same_items else ()),
    ]
    return tuple(sorted(found, key=lambda f: f.agrees))  # stable: the order above within both kinds


def _failed_checks(parts: Parts) -> Iterator[Finding]:
    """A test of an assumption that rejects at p < 0.001 speaks against what rests on it."""
    for check in failed_checks(c for c in parts.checks if c.name != "sensitivity"):
        bears = bears_on_estimates(check)
        on = {"accuracy": bears and parts.accuracies, "comparison": parts.comparison}
        resting = [name for name, part in on.items() if part]
        if resting or bears:
            said = f"The check of {check.name} failed (p = {check.p_value:.2g}): {check.finding}. What rests on "
            said += f"'{check.assumption}' is therefore a guess and no promise, until the labels are collected as assumed."
            name, between = f"failed check: {check.name}", ("checks", *resting)
            yield Finding(name=name, agrees=False, statement=said, between=between)


def _impossible_labels(parts: Parts) -> Iterator[Finding]:
    """Labels that no accuracy in [0, 1] fits: where the assumptions are true, one does."""
    for name, estimate in parts.accuracies.items():
        if estimate.diagnostics.get("routing_alarm"):
            said = f"No accuracy of {name} in [0, 1] fits its labels, if {named_in(estimate.guarantee)}. At least one of these "
            said += "is false: the labels were not collected as assumed."
            yield _finding("impossible labels", False, said, name)


def _ranges_against_accuracy(parts: Parts) -> Iterator[Finding]:
    """The interval of an accuracy against what every answer key allows.

    R right of a answered among r items asked about: accuracy R/r = grade·a/r, so that grades in [l,
    h] put it into [l·a/r, h·a/r] without any probability, and both share a point if both are right.
    """
    for name, estimate in parts.accuracies.items():
        share, grade = answered_share(estimate), parts.grades.get(name)
        if grade is None or share is None or math.isnan(grade.low) or math.isnan(estimate.low):
            continue
        low, high = grade.low * share, grade.high * share
        both = max(low, estimate.low), min(high, estimate.high)
        interval, possible = span(estimate.low, estimate.high), span(low, high)
        agrees = both[0] <= both[1] + _SLACK
        if not agrees:
            logic = "" if parts.logic is None else f"; and, for the range, {named_in(parts.logic)}"
            said = f"the labels put the accuracy of {name} into {interval}, but no answer key that fits the answers "
            said += f"and judgements gives it a value outside {possible}"
            said = _contradiction(said, f"{named_in(estimate.guarantee)}{logic}")
        elif low > estimate.low + _SLACK or high < estimate.high - _SLACK:
            said = f"The labels put the accuracy of {name} into {interval}, and every possible answer key into {possible}. Both "
            said += f"together: {span(*both)}, with the confidence of the interval."
        else:
            said = f"The interval of {name}, {interval}, lies inside what every answer key allows, {possible}."
        yield _finding("accuracy against possible range", agrees, said, name)


def _comparison_against_accuracy(parts: Parts) -> Iterator[Finding]:
    """A - B in the comparison must meet [l1 - h2, h1 - l2] of the accuracies, on the same items."""
    comparison = parts.comparison
    items = {e.counts.get("items") for e in parts.accuracies.values()}
    if comparison is None or len(parts.accuracies) < 2 or len(items) > 1:
        return
    if dict(comparison.counts.get("unused", {})).get(_NOT_ALL_SYSTEMS):
        return
    name, broken = "comparison against accuracy", False
    for d in comparison.differences:
        a, b = parts.accuracies.get(d.first), parts.accuracies.get(d.second)
        if a is None or b is None or math.isnan(d.low) or math.isnan(a.low) or math.isnan(b.low):
            continue
        low, high = a.low - b.high, a.high - b.low
        if max(low, d.low) > min(high, d.high) + _SLACK:
            broken = True
            said = f"compared on the same labels {d.first} minus {d.second} is in {span(d.low, d.high)}, but their "
            said += f"accuracies, {span(a.low, a.high)} and {span(b.low, b.high)}, allow {span(low, high)} only"
            said = _contradiction(said, named_in(a.guarantee & b.guarantee & comparison.guarantee))
            yield _finding(name, False, said, f"{d.first} and {d.second}")
    if not broken:
        n = len(comparison.systems)
        said = f"The differences of the {n} systems agree with their accuracies one by one."
        yield _finding(name, True, said)


def _alarm_against_rest(parts: Parts, *, same_items: bool) -> Iterator[Finding]:
    """A claim about all graders, refuted or not, against what is known of each.

    Fired, for grades: no key lets every grade be above p, so intervals and certificates that put
    all of them above it contradict the proof. A claim about each label says nothing of accuracies
    over all. Silent: that proves nothing, but an interval at or below p breaks the claim with its
    confidence.
    """
    proof = parts.proof
    claims = None if proof is None else claims_of(proof)
    if proof is None or claims is None or not parts.accuracies:
        return
    name = "alarm against accuracy"
    if proof.status == "alarm":
        if any(kind != "grade" for kind, _, _, _ in claims):
            return
        floors = {who: floor_of(parts, who, same_items=same_items) for _, who, _, _ in claims}
        lowest = {who: -1.0 if floor is None else floor[0] for who, floor in floors.items()}
        if all(lowest[c] > p + _SLACK or (not s and lowest[c] >= p) for _, c, p, s in claims):
            known = sorted((who, floor) for who, floor in floors.items() if floor is not None)
            lows = ", ".join(f"{who} at least {low:.3f} ({how})" for who, (low, how) in known)
            promised = (parts.accuracies[who].guarantee for who in floors)
            said = f"no answer key lets all graders keep '{proof.claim}', but the other parts put every one of them above it: {lows}"
            together = functools.reduce(operator.and_, promised) & proof.guarantee
            yield _finding(name, False, _contradiction(said, named_in(together)))
        return
    highest = {who: max(p for _, of, p, _ in claims if of == who) for _, who, _, _ in claims}
    for who, p in highest.items():
        estimate = parts.accuracies.get(who)
        share = None if estimate is None else answered_share(estimate)
        if estimate is not None and share and estimate.high / share <= p:
            said = f"The answers alone raise no alarm, which proves nothing. The labels do say that {who}, in "
            said += f"{span(estimate.low, estimate.high)}, breaks '{proof.claim}'."
            yield _finding(name, True, said, who)


def _annotators_against_accuracy(parts: Parts) -> Iterator[Finding]:
    """Certificates and the ceiling on annotators against accuracies, on the same items.

    With A of a system and H of the average annotation, a certificate says A > H + margin ≥ margin,
    and the ceiling H ≤ U: A ≤ margin contradicts the one, and A > U + margin is a certificate by
    labels and ceiling alone, both error rates added. Not certified is no statement, and no part
    bounds H below.
    """
    for name, certificate in parts.certificates.items():
        estimate = parts.accuracies.get(name)
        if estimate is None or math.isnan(estimate.low):
            continue
        if certificate.certified and estimate.high <= certificate.margin:
            said = f"{name} is certified to beat its annotators by more than {certificate.margin:g}, so that its "
            said += f"accuracy exceeds that, but the labels put it into {span(estimate.low, estimate.high)}"
            said = _contradiction(said, named_in(certificate.guarantee & estimate.guarantee))
            yield _finding("certificate against accuracy", False, said, name)
    if parts.ceiling is None or math.isnan(parts.ceiling.high):
        return
    for name, estimate in parts.accuracies.items():
        margin = parts.certificates[name].margin if name in parts.certificates else 0.0
        sure = estimate.guarantee.kind >= Kind.FINITE_SAMPLE
        if sure and estimate.low > parts.ceiling.high + margin:
            rate = estimate.guarantee.error_rate + parts.ceiling.guarantee.error_rate
            said = f"{name} is more accurate than the average annotator: its accuracy is at least {estimate.low:.3f} by the labels, "
            said += f"and annotators reach {parts.ceiling.high:.3f} at most. Both hold together at error rate {rate:.3g}."
            yield _finding("accuracy against ceiling", True, said, name)


NOTHING = Guarantee(kind=Kind.HEURISTIC, error_rate=0.0)
"""The promise of a report that says nothing."""


def promises(results: Iterable[Result]) -> tuple[Guarantee, ...]:
    """The promises of the results that state something of systems or annotators."""
    kinds = (Estimate, Comparison, Certificate, Ranges, Proof)
    return tuple(r.guarantee for r in results if isinstance(r, kinds))


def joint_guarantee(steps: Sequence[Step], *, every: bool = False) -> Guarantee:
    """The promise that all statements of a report hold together.

    By Boole's inequality the probability that some of k statements is wrong is at most the sum of
    their error rates, P(∪ wrong_i) ≤ Σ P(wrong_i), however they depend on each other. So error
    rates are added, the kind is the weakest one, and an assumption has the weakest status that any
    statement gives it (``Guarantee.__and__``).

    Notes
    -----
    Assumes nothing beyond what the statements assume. A statement that rests on a refuted
    assumption is heuristic and left out, as asymptotic ones are, unless ``every`` is True:
    :func:`left_out` names it.

    References
    ----------
    Boole (1854), An investigation of the laws of thought, ch. XIX; Bonferroni (1936).
    """
    stated = [g for step in steps for g in promises(step.results)]
    found = [g for g in stated if every or g.kind >= Kind.FINITE_SAMPLE]
    return functools.reduce(operator.and_, found) if found else NOTHING


def left_out(steps: Sequence[Step]) -> dict[str, Kind]:
    """The steps with a statement outside the finite-sample promise, and its weakest kind."""
    kinds = {step.name: [g.kind for g in promises(step.results)] for step in steps}
    weakest = {name: min(found) for name, found in kinds.items() if found}
    return {name: kind for name, kind in weakest.items() if kind < Kind.FINITE_SAMPLE}


QUESTIONS_FILE = "questions.csv"
_MISSING = {
    "accuracy": "Collect labels: judgements of items that the systems answered",
    "mean": "Say which rater is the gold one",
    "comparison": "Make the systems comparable",
    "ceiling": "Let several people rate the same items",
    "certificate": "Bring answers and ratings together",
    "budget": "Write down what a score of each rater costs",
    "alarm": "Add a second grader",
}
_ABSENT = tuple(f"There are no {kind}" for kind in ("scores", "ratings", "answers"))
_ABSENT += ("There is one system", "Answers are graded", NO_CLAIM)


def next_steps(
    inventory: Inventory, steps: Sequence[Step], findings: Sequence[Finding]
) -> tuple[NextStep, ...]:
    """What to do next, the best first.

    In this order: repair what contradicts itself or failed its check, since more labels of the same
    kind repeat the fault; look into an alarm, where a stated claim is refuted or a system fell;
    repair a step that stopped with an error; provide what makes a question possible that the evidence nearly answers;
    buy the labels that separate the leading systems or reach the wanted precision, with their cost.
    """
    of = {step.name: step for step in steps}
    found = [*_repairs(of, findings), *_alarms(of), *_falls(of), *_errors(of)]
    found += [*_training(of), *_missing(of)]
    found += [*_separate(inventory, of), *_compare(of), *_narrow(inventory, of)]
    unique = {f.statement: f for f in reversed(found)}
    return tuple(f for f in found if unique[f.statement] is f)


def _repairs(of: Mapping[str, Step], findings: Sequence[Finding]) -> Iterator[NextStep]:
    for finding in findings:
        if finding.agrees:
            continue
        if finding.name.startswith("failed check"):
            what = finding.name.partition(": ")[2]
            said = f"Repair how labels are collected: the check of {what} failed"
            why = "More labels of this kind would repeat the fault. Draw the questions at random and record their probabilities: "
            why += f"'noracle route' does both. {finding.statement}"
            command = _questions(of) or _command(of, "checks")
        else:
            whose = f" about {finding.subject}" if finding.subject else ""
            said = f"Settle a contradiction{whose}: {finding.name}"
            why = f"One of the assumptions is false, and no statement that rests on it can be trusted. {finding.statement}"
            command = _command(of, "checks") or _command(of, *finding.between)
        yield NextStep(statement=said, reason=why, command=command)


def _alarms(of: Mapping[str, Step]) -> Iterator[NextStep]:
    proof = first_of(of, "alarm", Proof)
    if proof is None or proof.status != "alarm":
        return
    conflict = first_of(of, "conflict", Proof)
    named = [] if conflict is None else list(conflict.diagnostics.get("conflict", ()))
    who = f" among {', '.join(map(str, named))}" if named else ""
    one = f"Look into {named[0]}, which is broken" if len(named) == 1 else ""
    yield NextStep(
        statement=one or f"Find the broken grader{who}",
        reason=f"No answer key lets all of them keep '{proof.claim}'. True labels of items on which they differ settle it.",
        command=_command(of, "conflict") or of["alarm"].command,
    )


def _falls(of: Mapping[str, Step]) -> Iterator[NextStep]:
    for drift in [d for d in results_of(of, "drift", Drift) if d.alarm]:
        part = " ".join(drift.moved[0][key] for key in ("what", "name")) if drift.moved else ""
        most = f" The largest part of the fall: {part}." if part else ""
        first, last = drift.since or (0, 0)
        yield NextStep(
            statement=f"Find out what changed in {drift.subject}, or in what it is asked",
            reason=f"Its accuracy fell below {drift.level:.3g} between labels {first:,} and {last:,}.{most}",
            command=of["drift"].command,
        )


def _errors(of: Mapping[str, Step]) -> Iterator[NextStep]:
    for step in [step for step in of.values() if step.status == "failed"]:
        said = f"Repair what stopped '{step.question}'"
        yield NextStep(statement=said, reason=step.reason, command=step.command)


def _training(of: Mapping[str, Step]) -> Iterator[NextStep]:
    unstated = "trained_on_annotators is not stated"
    certificates = by_subject(of, "certificate", Certificate).items()
    open_ = [s for s, r in certificates if any(why.startswith(unstated) for why in r.reasons)]
    if open_:
        yield NextStep(
            statement="State whether the systems were trained on labels of these annotators",
            reason=f"Without that nothing is certified ({', '.join(open_[:5])}): a system that copies its annotators' "
            "errors would look too good. Write trained_on_annotators = 'no' into noracle.toml if it is true.",
            command=of["certificate"].command,
        )


def _missing(of: Mapping[str, Step]) -> Iterator[NextStep]:
    """Questions that the evidence nearly answers. A claim is not ours to propose."""
    for name, statement in _MISSING.items():
        step, first = of.get(name), name == "accuracy"
        if step is None or step.status != "not possible":
            continue
        first = first and not _prefers(of)
        if step.reason.startswith(_ABSENT) and not first:
            continue
        command = (_questions(of) or _command(of, "labels")) if first else ""
        plan = first_of(of, "labels", Plan)
        cost = plan.cost if first and plan is not None and not math.isnan(plan.cost) else None
        why = f"It answers '{step.question}'. {step.reason}"
        yield NextStep(statement=statement, reason=why, command=command, cost=cost)


def _prefers(of: Mapping[str, Step]) -> bool:
    """Whether somebody said what is better, where no system answered anything."""
    alone = of["accuracy"].reason.startswith("There are no answers")
    return alone and first_of(of, "preference", Comparison) is not None


def _compare(of: Mapping[str, Step]) -> Iterator[NextStep]:
    found = first_of(of, "preference", Comparison)
    if found is None or len(found.leaders) < 2:
        return
    names = ", ".join(found.leaders[:3]) + (" and others" if len(found.leaders) > 3 else "")
    yield NextStep(
        statement=f"Compare more answers of {names}",
        reason="Each of them may still be the one that is preferred to all others.",
        command=f"{of['preference'].command} --next 100 --out preferences-to-ask.csv",
    )


def _separate(inventory: Inventory, of: Mapping[str, Step]) -> Iterator[NextStep]:
    comparison = first_of(of, "comparison", Comparison)
    if comparison is None or len(comparison.leaders) < 2:
        return
    values = {r.system: r.value for r in comparison.ranks}
    first, second = sorted(comparison.leaders, key=lambda s: (-values.get(s, -math.inf), s))[:2]
    d, gap = comparison.difference(first, second), inventory.settings.half_width
    gap = gap if math.isnan(d.value) else max(abs(d.value), gap)
    plan, best = first_of(of, "labels", Plan), by_subject(of, "accuracy", Estimate).get(first)
    if plan is None or best is None:
        return
    accuracy = round(min(max(best.value, gap), 1.0), 3)
    words = ["plan", "--n-classes", str(max(2, _most_classes(plan))), "--accuracy", repr(accuracy)]
    words += ["--difference", repr(round(gap, 4))]
    for name, price in plan.inputs.get("costs", {}).items():
        words += ["--cost", f"{name}={price!r}"] if name in ("ordinary", "complementary") else []
    # As many as find the difference in four of five cases: half a width that is less by ndtri(.8).
    z = float(ndtri(1 - (1 - comparison.confidence) / 2 / len(comparison.differences)))
    half = (d.high - d.low) / 2 * (1 + float(ndtri(0.8)) / z)
    n = int(best.counts.get("labelled", 0))
    span = f"{_points(d.low)[:-7]} to {_points(d.high)[:-7]}"
    told = f"Item by item, the first leads by {_points(d.value)} ({span})."
    told = told if math.isfinite(half) else "No labels that both share tell them apart."
    yield NextStep(
        statement=f"Label more items to separate {first} and {second}",
        reason=told + _many_more(n, half, gap),
        command=shlex.join(["noracle", *words]),
        cost=_about(plan, n, half, gap),
    )


def _points(share: float) -> str:
    """A difference of shares in percentage points."""
    return f"{100 * share:.1f} points".replace("-", "−")


def _more(n: int, half: float, wanted: float) -> float:
    """About how many more labels: a half-width falls with the square root of their number."""
    return float(f"{n * max((half / wanted) ** 2 - 1, 0):.2g}") if wanted > 0 else math.nan


def _many_more(n: int, half: float, wanted: float) -> str:
    more = _more(n, half, wanted)
    return f" It takes about {more:,.0f} more labels." if more >= 1 else ""


def _about(plan: Plan, n: int, half: float, wanted: float) -> float | None:
    """What so many labels of the kind in use cost, about."""
    kinds = {**plan.inputs.get("have", {}), **plan.buy}
    prices = [plan.inputs.get("costs", {}).get(kind) for kind in kinds if kind != "unsure"]
    prices = [p for p in prices if p is not None]
    more = _more(n, half, wanted)
    return float(f"{more * min(prices):.2g}") if prices and math.isfinite(more) else None


def _narrow(inventory: Inventory, of: Mapping[str, Step]) -> Iterator[NextStep]:
    plan, wanted = first_of(of, "labels", Plan), inventory.settings.half_width
    estimates = by_subject(of, "accuracy", Estimate).values()
    wide = [e for e in estimates if not math.isnan(e.low) and (e.high - e.low) / 2 > wanted]
    if plan is None or not wide:
        return
    widest = max(wide, key=lambda e: (e.high - e.low, e.subject))
    half, aim = (widest.high - widest.low) / 2, _points(wanted).replace(".0 ", " ")
    now = f"The widest interval, that of {widest.subject}, is ± {_points(half)}"
    if not plan.buy:
        n = int(widest.counts.get("labelled", 0))
        if plan.reason:
            yield NextStep(
                statement=f"Collect more items to know every accuracy to ± {aim}",
                reason=f"{now}, and every item already has a label.{_many_more(n, half, wanted)}",
                command=_command(of, "labels"),
                cost=_about(plan, n, half, wanted),
            )
        return
    buy = ", ".join(f"{n:,} {kind}" for kind, n in plan.buy.items() if n)
    there = sum(plan.inputs.get("have", {}).values())
    buy = buy if "grades" in plan.buy else f"{buy} labels"
    told = f"It takes {buy} more than the {there:,} that are there" if there else f"It takes {buy}"
    out = f"; {plan.reason}" if plan.reason else ""
    yield NextStep(
        statement=f"Label until every accuracy is known to ± {aim}",
        reason=f"{now}. {told}, of items that have none{out}.",
        command=_questions(of) or _command(of, "labels"),
        cost=plan.cost,
    )


def _command(of: Mapping[str, Step], *names: str) -> str:
    return next((of[name].command for name in names if name in of and of[name].command), "")


def _most_classes(plan: Plan) -> int:
    """The largest number of classes; ordinary labels, which separate best, do not depend on it."""
    told = plan.inputs.get("n_classes")
    if told is None:
        told = [row["n_classes"] for row in plan.inputs["evidence"]["population"]] or 2
    return int(told) if isinstance(told, int) else max(map(int, told))


def _questions(of: Mapping[str, Step]) -> str:
    """The command that draws as many questions as are needed, or "" where the plan draws them."""
    routing, plan = first_of(of, "route", Routing), first_of(of, "labels", Plan)
    if routing is None:
        return ""
    before, words = routing.counts.get("labelled_before", 0), shlex.split(of["route"].command)
    n = int(routing.counts.get("items", len(routing))) - int(before)
    if "--n" not in words:  # no pattern names the files
        return ""
    if plan is not None:
        own = set(plan.buy) - {"question", "targeted"} or not plan.buy
        if plan.inputs.get("planner") == "evidence" and own:
            return ""  # open questions, ruled-out classes and strata are drawn by the plan itself
        n = max(1, min(n, sum(plan.buy.values())))
    words[words.index("--n") + 1] = str(n)
    return shlex.join([*words, "--out", QUESTIONS_FILE])
