"""What to do next, by rule."""

from __future__ import annotations

import shlex

from noracle import (
    AccuracyCounts,
    PatternCounts,
    compare_systems,
    estimate_accuracy,
    plan_accuracy,
    plan_labels,
)
from noracle.oversight.findings import next_steps
from noracle.oversight.model import Finding, FolderSettings, Inventory, Step
from noracle.oversight.settings import NO_CLAIM
from noracle.results import Result, Routing

INVENTORY = Inventory(place="folder", sources=(), settings=FolderSettings(half_width=0.02))


def done(name: str, *results: Result, command: str = "") -> Step:
    return Step(
        name=name,
        question=f"{name}?",
        status="done",
        results=results,
        command=command or f"noracle {name}",
    )


def missing(name: str, reason: str, status: str = "not possible") -> Step:
    return Step(name=name, question=f"{name}?", status=status, reason=reason)  # type: ignore[arg-type]


ROUTE = done(
    "route",
    Routing(
        rows=((1, 0, 0.5),),
        design="targeted",
        epsilon=0.05,
        seed=0,
        counts={"items": 500, "questions": 1},
    ),
    command="noracle route --answers 'my answers.csv' --n-classes 4 --design targeted --n 1 --seed 0",
)
LABELS = done(
    "labels",
    plan_labels(
        n_classes=4, accuracy=0.8, half_width=0.02, costs={"ordinary": 2.0}, kind="ordinary"
    ),
)
WIDE = estimate_accuracy(AccuracyCounts.from_counts(n_classes=4, system="a", ordinary=(100, 80)))


def test_repair_comes_before_everything_else() -> None:
    failed = Finding(
        name="failed check: routing",
        agrees=False,
        statement="The check of routing failed.",
        between=("checks",),
    )
    broken = Finding(
        name="accuracy against possible range",
        agrees=False,
        statement="CONTRADICTION.",
        between=("accuracy",),
        subject="a",
    )
    steps = [
        done("accuracy", WIDE),
        done("checks"),
        LABELS,
        ROUTE,
        missing("comparison", "Stored counts do not say it."),
    ]
    found = next_steps(INVENTORY, steps, [failed, broken])
    assert [s.statement.split(":")[0] for s in found[:2]] == [
        "Repair how labels are collected",
        "Settle a contradiction about a",
    ]
    assert found[0].command.endswith("--out questions.csv")
    assert found[1].command == "noracle checks"
    assert found[2].statement == "Make the systems comparable"
    assert found[-1].statement.startswith("Label until every accuracy")


def test_agreements_ask_for_nothing() -> None:
    fine = Finding(
        name="comparison against accuracy",
        agrees=True,
        statement="They agree.",
        between=("accuracy",),
    )
    assert next_steps(INVENTORY, [], [fine]) == ()


def test_missing_labels_come_with_questions_and_their_cost() -> None:
    (first, *_) = next_steps(
        INVENTORY, [missing("accuracy", "There are no judgements. Add a table."), LABELS, ROUTE], []
    )
    words = shlex.split(first.command)
    assert words[:4] == ["noracle", "route", "--answers", "my answers.csv"]
    assert words[words.index("--n") + 1] == "500"  # all items: the plan wants more than there are
    assert first.cost is not None
    assert first.cost > 1000


def test_evidence_that_is_wholly_absent_is_not_asked_for() -> None:
    steps = [
        missing("ceiling", "There are no ratings. Add a table."),
        missing("mean", "There are no scores of raters. Add one."),
    ]
    assert next_steps(INVENTORY, steps, []) == ()
    gold = missing(
        "mean", "Nobody said which rater is the gold one. Write target into noracle.toml."
    )
    assert [s.statement for s in next_steps(INVENTORY, [gold], [])] == [
        "Say which rater is the gold one"
    ]


def test_a_claim_that_nobody_stated_is_not_asked_for() -> None:
    steps = [missing(name, f"{NO_CLAIM} Or pass it.") for name in ("alarm", "conflict")]
    assert next_steps(INVENTORY, steps, []) == ()


def test_an_error_asks_for_repair_with_its_text() -> None:
    (only,) = next_steps(
        INVENTORY, [missing("alarm", "It stopped with an error: planted", "failed")], []
    )
    assert "planted" in only.reason


def test_leaders_that_cannot_be_told_apart_are_separated_before_intervals_are_narrowed() -> None:
    counts = PatternCounts.from_counts(
        n_classes=4, systems=("a", "b"), yes={(True, True): 60, (True, False): 10, (False, True): 8}
    )
    steps = [done("accuracy", WIDE), done("comparison", compare_systems(counts)), LABELS]
    found = next_steps(INVENTORY, steps, [])
    assert found[0].statement == "Label more items to separate a and b"
    assert "--difference" in found[0].command
    assert found[1].statement == "Label until every accuracy is known to ± 2 points"
    assert found[1].cost is not None


def test_narrow_intervals_need_no_labels() -> None:
    narrow = estimate_accuracy(
        AccuracyCounts.from_counts(n_classes=4, system="a", ordinary=(100_000, 80_000))
    )
    assert next_steps(INVENTORY, [done("accuracy", narrow), LABELS], []) == ()


def test_nothing_is_said_twice() -> None:
    failed = Finding(
        name="failed check: routing", agrees=False, statement="It failed.", between=("checks",)
    )
    assert len(next_steps(INVENTORY, [done("checks")], [failed, failed])) == 1


def test_what_is_missing_is_planned_and_not_what_is_there() -> None:
    counts = AccuracyCounts.from_counts(n_classes=4, system="a", ordinary=(100, 80), n_items=5000)
    plan = plan_accuracy(counts, half_width=0.02, costs={"ordinary": 2.0})
    (only,) = next_steps(
        INVENTORY,
        [
            done("accuracy", estimate_accuracy(counts)),
            done("labels", plan, command="noracle plan folder"),
        ],
        [],
    )
    assert (
        f"It takes {plan.buy['ordinary']:,} ordinary labels more than the 100 that are there"
        in only.reason
    )
    assert only.cost == 2.0 * plan.buy["ordinary"]
    assert (
        only.command == "noracle plan folder"
    )  # open questions are drawn by the plan, not by a routing of classes


def test_questions_are_drawn_only_from_items_without_a_label() -> None:
    counts = AccuracyCounts.from_counts(
        n_classes=4, system="a", ordinary=(50, 40), complementary=(150, 140), n_items=500
    )
    plan = plan_accuracy(counts, half_width=0.02)
    routing = Routing(
        rows=((1, 0, 0.25),),
        design="uniform",
        epsilon=1.0,
        seed=0,
        counts={"items": 500, "labelled_before": 200},
    )
    route = done("route", routing, command="noracle route --answers a.csv --n 1 --seed 0")
    (only,) = next_steps(
        INVENTORY, [done("accuracy", estimate_accuracy(counts)), done("labels", plan), route], []
    )
    words = shlex.split(only.command)
    assert words[words.index("--n") + 1] == "300"
    assert "out of reach" in only.reason
