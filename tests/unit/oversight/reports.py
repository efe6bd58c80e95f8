"""Hand-made oversight reports: everything at once, a contradiction with hostile names, many
systems, and no system at all.
"""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

from noracle.oversight.model import Finding, Inventory, NextStep, Source, Step, SystemLine, Unused
from noracle.oversight.oversight import Oversight
from noracle.results import (
    Certificate,
    Comparison,
    Difference,
    Estimate,
    Guarantee,
    Kind,
    Range,
    Ranges,
    Rank,
    Result,
)
from tests.unit.report.samples import (
    CHECK,
    COMPARISON,
    ESTIMATE,
    FAILED_CHECK,
    FINITE,
    IID,
    PLAN,
    RANGES,
    UNIFORM,
)

HOSTILE = "<script>alert('x')</script>\u202e\x07\"&"
LONG = "organisation/" + "a-very-long-name-without-spaces" * 4


def estimate(system: str, value: float, error: float = 0.01) -> Estimate:
    promise = Guarantee(kind=Kind.FINITE_SAMPLE, error_rate=error, assumptions=(IID, UNIFORM))
    return dataclasses.replace(
        ESTIMATE,
        subject=system,
        value=value,
        low=value - 0.04,
        high=value + 0.03,
        confidence=1 - error,
        guarantee=promise,
    )


def line(e: Estimate) -> SystemLine:
    return SystemLine(
        system=e.subject,
        value=e.value,
        low=e.low,
        high=e.high,
        guarantee=e.guarantee,
        rests_on="the items are a fair sample (assumed); the classes asked about were drawn at random (checked)",
        statement=f"Its accuracy lies between {e.low:.3f} and {e.high:.3f}.",
        next_step="Ask 1,200 more questions to halve the interval.",
    )


def certificate(system: str) -> Certificate:
    return Certificate(
        claim=f"{system} is better than its annotators",
        subject=system,
        certified=True,
        value=0.08,
        low=0.02,
        margin=0.0,
        confidence=0.99,
        attained=0.999,
        method="plurality",
        test="betting",
        guarantee=FINITE,
        counts={"items": 400},
    )


def inventory(*systems: str) -> Inventory:
    parts = tuple(f"answers/part-{i:04d}.parquet" for i in range(12))
    return Inventory(
        place="evidence",
        sources=(
            Source(kind="answers", paths=parts, why="columns item, system, answer", n_rows=12_000),
            Source(
                kind="judgements",
                paths=(f"l'avis <1>{'' if not systems else systems[0]}.csv",),
                why="columns item, class, verdict",
            ),
        ),
        unused=(
            Unused(path="key.csv", reason="a true key: it is not used"),
            Unused(path="README.md", reason="for people"),
        ),
        notes=("12 files of answers are parts of one table",),
    )


def report(
    systems: list[Estimate],
    steps: list[Step],
    findings: list[Finding],
    title: str = "What the evidence allows",
    **more: Any,
) -> Oversight:
    values: dict[str, Any] = {
        "title": title,
        "inventory": inventory(*(e.subject for e in systems[:1])),
        "systems": tuple(map(line, systems)),
        "steps": tuple(steps),
        "findings": tuple(findings),
        "guarantee": Guarantee(
            kind=Kind.FINITE_SAMPLE, error_rate=0.05, assumptions=(IID, UNIFORM)
        ),
        "next_steps": (
            NextStep(
                statement="Ask 1,200 questions.",
                reason="It halves every interval.",
                command="noracle plan --n-classes 10",
                cost=72.0,
            ),
            NextStep(
                statement="Let people rate 200 items.",
                reason="Then systems can be compared with people.",
            ),
        ),
        "confidence": 0.95,
        "seed": 7,
        "notes": (),
    }
    return Oversight(**{**values, **more})


def step(
    name: str, question: str, *results: Result, error: float = 0.01, command: str | None = None
) -> Step:
    again = (
        f"noracle {name} --answers 'answers/*.parquet' --confidence 0.99"
        if command is None
        else command
    )
    return Step(
        name=name,
        question=question,
        status="done",
        results=results,
        command=again,
        error_rate=error,
    )


NOT_POSSIBLE = Step(
    name="ceiling",
    question="How accurate can people be?",
    status="not possible",
    reason="There are no ratings. Add a table item, rater, label.",
)
FAILED = Step(
    name="budget",
    question="How should a budget be spread?",
    status="failed",
    reason="the pilot has one row",
)


def whole() -> Oversight:
    """Three systems, and one answer to every question."""
    systems = [estimate("agent-7", 0.91), estimate("agent-8", 0.83), estimate("baseline", 0.61)]
    steps = [
        step("accuracy", "How accurate is each system?", *systems, error=0.03),
        step("comparison", "Which system is better?", COMPARISON),
        step("checks", "Were the labels collected fairly?", CHECK, error=0),
        step("ranges", "Which accuracies are possible at all?", RANGES, error=0),
        step(
            "certificate",
            "Is a system better than people?",
            *(certificate(e.subject) for e in systems),
            error=0.01,
        ),
        step("labels", "How many labels next?", PLAN, error=0),
        NOT_POSSIBLE,
        FAILED,
    ]
    agrees = Finding(
        name="accuracy in ranges",
        agrees=True,
        statement="0.87 to 0.94 lies inside 0.61 to 1.",
        between=("accuracy", "ranges"),
        subject="agent-7",
    )
    return report(systems, steps, [agrees])


def contradictory() -> Oversight:
    """Hostile names everywhere, a failed check and a contradiction."""
    systems = [estimate(HOSTILE, 0.91), estimate(LONG, 0.5)]
    steps = [
        step(
            "accuracy",
            "How accurate is each system?",
            *systems,
            command=f"noracle estimate --system '{HOSTILE}'",
        ),
        step("checks", "Were the labels collected fairly?", CHECK, FAILED_CHECK),
        dataclasses.replace(NOT_POSSIBLE, reason=HOSTILE),
    ]
    clash = Finding(
        name="accuracy in ranges",
        agrees=False,
        statement=f"No key fits {HOSTILE}.",
        between=("accuracy", "ranges"),
        subject=HOSTILE,
    )
    return report(systems, steps, [clash], title=HOSTILE, notes=(HOSTILE,))


def crowded(n: int = 200) -> Oversight:
    """So many systems that neither plots nor tables can show everything."""
    systems = [estimate(f"system-{i:03d}", 0.9 - 0.002 * i) for i in range(n)]
    pairs = tuple(
        Difference(
            first=a.subject, second=b.subject, value=a.value - b.value, low=-0.1, high=0.3, n=500
        )
        for a, b in itertools.combinations(systems, 2)
    )
    comparison = Comparison(
        systems=tuple(e.subject for e in systems),
        differences=pairs,
        ranks=tuple(Rank(system=e.subject, best=1, worst=n, value=e.value) for e in systems),
        leaders=tuple(e.subject for e in systems),
        confidence=0.99,
        method="scores",
        interval="betting",
        guarantee=FINITE,
    )
    ranges = Ranges(
        ranges=tuple(Range(name=e.subject, low=0.1, high=0.95) for e in systems),
        method="worst case",
        guarantee=Guarantee(kind=Kind.LOGICAL, error_rate=0),
    )
    steps = [
        step("accuracy", "How accurate is each system?", *systems),
        step("comparison", "Which system is better?", comparison),
        step("ranges", "Which accuracies are possible at all?", ranges, error=0),
        step(
            "certificate",
            "Is a system better than people?",
            *(certificate(e.subject) for e in systems[:20]),
        ),
    ]
    return report(systems, steps, [])


def without_systems() -> Oversight:
    """Nothing to judge: a ceiling and no more."""
    ceiling = dataclasses.replace(ESTIMATE, quantity="ceiling", subject="annotators")
    return report(
        [], [step("ceiling", "How accurate can people be?", ceiling), FAILED], [], next_steps=()
    )


REPORTS = {make.__name__: make for make in (whole, contradictory, crowded, without_systems)}
