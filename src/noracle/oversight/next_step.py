"""What to do next, by rule: repair first, then what makes a question possible, then the labels that
are worth their price.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Mapping, Sequence

from noracle.oversight.model import Finding, Inventory, NextStep, Step
from noracle.oversight.settings import NO_CLAIM
from noracle.results import Certificate, Comparison, Estimate, Plan, Proof, Routing

QUESTIONS_FILE = "questions.csv"
_MISSING = (
    ("accuracy", "Collect labels: judgements of items that the systems answered"),
    ("mean", "Say which rater is the gold one"),
    ("comparison", "Make the systems comparable"),
    ("ceiling", "Let several people rate the same items"),
    ("certificate", "Bring answers and ratings together"),
    ("budget", "Write down what a score of each rater costs"),
    ("alarm", "Add a second grader"),
)
_ABSENT = (
    "There are no scores",
    "There are no ratings",
    "There are no answers",
    "There is one system",
    "Answers are graded",
    NO_CLAIM,
)


def next_steps(
    inventory: Inventory, steps: Sequence[Step], findings: Sequence[Finding]
) -> tuple[NextStep, ...]:
    """What to do next, the best first.

    In this order: repair what contradicts itself or failed its check, since more labels of the same
    kind repeat the fault; look into an alarm, where a stated claim is refuted; repair a step that
    stopped with an error; provide what makes a question possible that the evidence nearly answers;
    buy the labels that separate the leading systems or reach the wanted precision, with their cost.

    Parameters
    ----------
    inventory
        What was found, with the settings.
    steps, findings
        What was done with it, and what does not fit together.

    Examples
    --------
    >>> step = Step(name="accuracy", question="How accurate?", status="not possible", reason="There are no judgements. Add a table.")
    >>> next_steps(Inventory(place=".", sources=()), [step], [])[0].statement
    'Collect labels: judgements of items that the systems answered'
    """
    of = {step.name: step for step in steps}
    found = [
        *_repairs(of, findings),
        *_alarms(of),
        *_errors(steps),
        *_training(of),
        *_missing(of),
        *_separate(inventory, of),
        *_narrow(inventory, of),
    ]
    unique = {f.statement: f for f in reversed(found)}
    return tuple(f for f in found if unique[f.statement] is f)


def _repairs(of: dict[str, Step], findings: Sequence[Finding]) -> Iterator[NextStep]:
    for finding in findings:
        if finding.agrees:
            continue
        if finding.name.startswith("failed check"):
            what = finding.name.partition(": ")[2]
            yield NextStep(
                statement=f"Repair how labels are collected: the check of {what} failed",
                reason="More labels of this kind would repeat the fault. Draw the questions at random and record their probabilities: "
                f"'noracle route' does both. {finding.statement}",
                command=_questions(of) or _command(of, "checks"),
            )
        else:
            whose = f" about {finding.subject}" if finding.subject else ""
            yield NextStep(
                statement=f"Settle a contradiction{whose}: {finding.name}",
                reason=f"One of the assumptions is false, and no statement that rests on it can be trusted. {finding.statement}",
                command=_command(of, "checks") or _command(of, *finding.between),
            )


def _alarms(of: dict[str, Step]) -> Iterator[NextStep]:
    step = of.get("alarm")
    proof = (
        next((r for r in step.results if isinstance(r, Proof)), None) if step is not None else None
    )
    if step is None or proof is None or proof.status != "alarm":
        return
    conflict = of.get("conflict")
    named = [
        n
        for r in (conflict.results if conflict is not None else ())
        for n in getattr(r, "diagnostics", {}).get("conflict", ())
    ]
    who = (
        f"Find the broken grader among {', '.join(map(str, named))}"
        if len(named) != 1
        else f"Look into {named[0]}, which is broken"
    )
    yield NextStep(
        statement=who if named else "Find the broken grader",
        reason=f"No answer key lets all of them keep '{proof.claim}'. True labels of items on which they differ settle it.",
        command=_command(of, "conflict") or step.command,
    )


def _errors(steps: Sequence[Step]) -> Iterator[NextStep]:
    for step in steps:
        if step.status == "failed":
            yield NextStep(
                statement=f"Repair what stopped '{step.question}'",
                reason=step.reason,
                command=step.command,
            )


def _training(of: dict[str, Step]) -> Iterator[NextStep]:
    step = of.get("certificate")
    if step is None:
        return
    certificates = [r for r in step.results if isinstance(r, Certificate)]
    open_ = [
        r
        for r in certificates
        if any(reason.startswith("trained_on_annotators is not stated") for reason in r.reasons)
    ]
    if open_:
        yield NextStep(
            statement="State whether the systems were trained on labels of these annotators",
            reason=f"Without that nothing is certified ({', '.join(r.subject for r in open_[:5])}): a system that copies its annotators' "
            "errors would look too good. Write trained_on_annotators = 'no' into noracle.toml if it is true.",
            command=step.command,
        )


def _missing(of: dict[str, Step]) -> Iterator[NextStep]:
    """Questions that the evidence nearly answers; those whose whole table is absent come last, and
    only for accuracy.

    A claim that nobody stated is not asked for: what graders are held to is not ours to propose.
    """
    for name, statement in _MISSING:
        step = of.get(name)
        if step is None or step.status != "not possible":
            continue
        if step.reason.startswith(_ABSENT) and name != "accuracy":
            continue
        command = (_questions(of) or _command(of, "labels")) if name == "accuracy" else ""
        yield NextStep(
            statement=statement,
            reason=f"It answers '{step.question}'. {step.reason}",
            command=command,
            cost=_cost(of, name),
        )


def _separate(inventory: Inventory, of: dict[str, Step]) -> Iterator[NextStep]:
    """Labels that separate the leaders: the half-width shrinks as 1/√n, so that
    n·(half-width/difference)² labels would be needed.
    """
    step = of.get("comparison")
    comparison = (
        next((r for r in step.results if isinstance(r, Comparison)), None)
        if step is not None
        else None
    )
    if comparison is None or len(comparison.leaders) < 2:
        return
    values = {r.system: r.value for r in comparison.ranks}
    first, second = sorted(comparison.leaders, key=lambda s: (-values.get(s, -math.inf), s))[:2]
    d = comparison.difference(first, second)
    gap = (
        max(abs(d.value), inventory.settings.half_width)
        if not math.isnan(d.value)
        else inventory.settings.half_width
    )
    k = _plan(of)
    best = _accuracy(of, first)
    if k is None or best is None:
        return
    accuracy = round(min(max(best.value, gap), 1.0), 3)
    words = [
        "plan",
        "--n-classes",
        str(max(2, _most_classes(k))),
        "--accuracy",
        repr(accuracy),
        "--difference",
        repr(round(gap, 4)),
    ]
    prices = {
        name: price
        for name, price in k.inputs.get("costs", {}).items()
        if name in ("ordinary", "complementary")
    }
    words += [w for name, price in prices.items() for w in ("--cost", f"{name}={price!r}")]
    yield NextStep(
        statement=f"Label more items to separate {first} and {second}",
        reason=f"They cannot be told apart yet: the difference is {d.value:.3f}, in [{d.low:.3f}, {d.high:.3f}]. The command says how many "
        f"labels find a difference of {gap:.3f} in all; {int(best.counts.get('labelled', 0)):,} items are labelled already.",
        command=shlex.join(["noracle", *words]),
    )


def _narrow(inventory: Inventory, of: dict[str, Step]) -> Iterator[NextStep]:
    plan, wanted = _plan(of), inventory.settings.half_width
    step = of.get("accuracy")
    estimates = [r for r in step.results if isinstance(r, Estimate)] if step is not None else []
    wide = [e for e in estimates if not math.isnan(e.low) and (e.high - e.low) / 2 > wanted]
    if plan is None or not wide:
        return
    widest = max(wide, key=lambda e: (e.high - e.low, e.subject))
    now = f"The widest, that of {widest.subject}, is ± {(widest.high - widest.low) / 2:.3f}."
    if not plan.buy:
        if plan.reason:
            yield NextStep(
                statement=f"Bring more items: no label is left that could narrow an interval to ± {wanted:g}",
                reason=f"{now} {plan.reason[:1].upper()}{plan.reason[1:]}.",
                command=_command(of, "labels"),
            )
        return
    buy = ", ".join(f"{n:,} {kind}" for kind, n in plan.buy.items() if n)
    there = sum(plan.inputs.get("have", {}).values())
    buy = buy if "grades" in plan.buy else f"{buy} labels"
    told = f"It takes {buy} more than the {there:,} that are there" if there else f"It takes {buy}"
    out = f"; {plan.reason}" if plan.reason else ""
    yield NextStep(
        statement=f"Label until every interval is ± {wanted:g}",
        reason=f"{now} {told}, of items that have none{out}.",
        command=_questions(of) or _command(of, "labels"),
        cost=plan.cost,
    )


# ------------------------------------------------------------------------------------------------------------------
# small things


def _command(of: dict[str, Step], *names: str) -> str:
    return next((of[name].command for name in names if name in of and of[name].command), "")


def _plan(of: dict[str, Step]) -> Plan | None:
    step = of.get("labels")
    return (
        next((r for r in step.results if isinstance(r, Plan)), None) if step is not None else None
    )


def _most_classes(plan: Plan) -> int:
    """The largest number of classes; ordinary labels, which separate systems best, do not depend on
    it.
    """
    told = plan.inputs.get("n_classes")
    if told is None:
        return max(
            (int(row["n_classes"]) for row in plan.inputs["evidence"]["population"]), default=2
        )
    return max(map(int, told)) if isinstance(told, Mapping) else int(told)


def _accuracy(of: dict[str, Step], system: str) -> Estimate | None:
    step = of.get("accuracy")
    return (
        next((r for r in step.results if isinstance(r, Estimate) and r.subject == system), None)
        if step is not None
        else None
    )


def _cost(of: dict[str, Step], name: str) -> float | None:
    plan = _plan(of)
    return (
        plan.cost if name == "accuracy" and plan is not None and not math.isnan(plan.cost) else None
    )


def _questions(of: dict[str, Step]) -> str:
    """The command that draws as many questions as the plan needs and the items allow, into a file;
    "" where the plan must draw them.
    """
    step = of.get("route")
    routing = (
        next((r for r in step.results if isinstance(r, Routing)), None)
        if step is not None
        else None
    )
    if step is None or routing is None:
        return ""
    plan = _plan(of)
    n = int(routing.counts.get("items", len(routing))) - int(
        routing.counts.get("labelled_before", 0)
    )
    words = shlex.split(step.command)
    if "--n" not in words:  # no pattern names the files
        return ""
    if plan is not None:
        if plan.inputs.get("planner") == "evidence" and (
            set(plan.buy) - {"question", "targeted"} or not plan.buy
        ):
            return ""  # open questions, ruled-out classes and strata are drawn by the plan itself
        n = max(1, min(n, sum(plan.buy.values())))
    words[words.index("--n") + 1] = str(n)
    return shlex.join([*words, "--out", QUESTIONS_FILE])
