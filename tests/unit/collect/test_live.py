"""The live view of real projects: made, sealed and answered through the service on a real database."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from noracle.accuracy import estimate_accuracy
from noracle.bounds.binomial import maximum_likelihood
from noracle.collect.errors import NotFound
from noracle.collect.live import LiveView, live_view, view_of
from noracle.collect.live.checks import rates_for_correction
from noracle.collect.live.estimates import label_cells, partitioned_view
from noracle.collect.live.records import MAIN, UNSURE, YES, Rows, read_project
from noracle.collect.live.simulation import Faults, LabelWorld, simulate_partitioned, simulate_shown
from noracle.collect.model import Item
from noracle.collect.service import projects
from noracle.evidence import Evidence
from noracle.results import Estimate, Kind
from tests.unit.collect.live_tables import keep_simulated
from tests.unit.collect.service_world import Ready, Service, open_service, spec_of, texts


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    made = open_service(tmp_path, fast=True)
    yield made
    made.store.close()


def look(service: Service, project: int) -> LiveView:
    return service.read(lambda w: live_view(w, project, now=service.now))


def truths(n: int, k: int, seed: int = 0) -> dict[str, int]:
    rng = np.random.default_rng(seed)
    return {f"i{j:04}": int(rng.integers(k)) for j in range(n)}


def key_of(text: str) -> str:
    return f"i{int(text.rsplit(' ', 1)[1]):04}"


def add(service: Service, ready: Ready, name: str, answers: dict[str, int | None]) -> None:
    service.write(
        lambda w: projects.add_system(
            w, ready.project, name, answers, actor="system", now=service.now
        )
    )


def said(truth: dict[str, int], text: str, shown: tuple[int, ...]) -> str:
    return "yes" if truth[key_of(text)] == shown[0] else "no"


def test_a_project_without_questions_shows_nothing_and_breaks_nothing(service: Service) -> None:
    project = service.project(service.person("ann"))
    view = look(service, project)
    assert (view.asked, view.answered, view.systems, view.checks) == (0, 0, (), ())
    json.dumps(view.to_dict(), allow_nan=False)


def test_an_unknown_project_is_not_found(service: Service) -> None:
    with pytest.raises(NotFound):
        look(service, 77)


def test_before_any_answer_the_interval_is_vacuous_and_the_value_unknown(service: Service) -> None:
    ready = service.ready(spec_of(k=3), texts(30))
    add(service, ready, "agent", dict(truths(30, 3)))
    (system,) = look(service, ready.project).systems
    assert (system.estimate.low, system.estimate.high) == (0.0, 1.0)
    assert math.isnan(system.estimate.value)
    assert system.estimate.reason


def test_the_value_of_a_complete_project_is_that_of_the_export(service: Service) -> None:
    truth = truths(300, 3)
    rng = np.random.default_rng(1)
    answers: dict[str, int | None] = {
        i: t if rng.random() < 0.7 else (t + 1) % 3 for i, t in truth.items()
    }
    answers["i0007"] = None
    ready = service.ready(spec_of(k=3, planned_n=300), texts(300))
    add(service, ready, "agent", answers)
    service.work(ready, lambda text, shown: said(truth, text, shown))
    view = look(service, ready.project)
    (system,) = view.systems
    rows = service.read(
        lambda w: w.all(
            "SELECT i.name, q.pool, a.value FROM answer a JOIN question q ON q.id = a.question_id JOIN item i ON i.id = q.item_id"
        )
    )
    evidence = Evidence.from_tables(
        answers={
            "item": list(answers),
            "system": ["agent"] * 300,
            "answer": list(answers.values()),
        },
        judgements={
            "item": [r["name"] for r in rows],
            "class": [r["pool"] for r in rows],
            "verdict": [r["value"] for r in rows],
        },
        n_classes=3,
    )
    same = estimate_accuracy(evidence)
    assert system.estimate.value == pytest.approx(same.value, abs=1e-6)
    assert system.fixed is not None
    assert (system.fixed.low, system.fixed.high) == pytest.approx((same.low, same.high))
    assert system.estimate.low <= same.low <= same.high <= system.estimate.high
    assert system.estimate.guarantee.kind is Kind.FINITE_SAMPLE
    assert system.estimate.guarantee.anytime
    assert not view.alarms
    assert [p.n for p in system.path] == sorted(p.n for p in system.path)


def test_the_fixed_interval_waits_for_the_declared_number_in_order(service: Service) -> None:
    truth = truths(60, 3)
    ready = service.ready(spec_of(k=3, planned_n=20), texts(60))
    add(service, ready, "agent", dict(truth))
    service.work(ready, lambda text, shown: said(truth, text, shown), most=19)
    assert look(service, ready.project).systems[0].fixed is None
    service.work(ready, lambda text, shown: said(truth, text, shown))
    fixed = look(service, ready.project).systems[0].fixed
    assert fixed is not None
    assert fixed.counts["labelled"] == 20


def test_unsure_widens_and_is_never_a_no(service: Service) -> None:
    truth = truths(200, 3)
    ready = service.ready(spec_of(k=3), texts(200))
    add(service, ready, "agent", dict(truth))
    flip = iter(range(10**6))
    service.work(
        ready, lambda text, shown: "unsure" if next(flip) % 4 == 0 else said(truth, text, shown)
    )
    view = look(service, ready.project)
    (system,) = view.systems
    assert system.estimate.value == pytest.approx(1.0)
    assert system.worst < 0.9
    assert system.best == pytest.approx(1.0)
    assert system.estimate.high == pytest.approx(1.0)
    assert system.estimate.low < system.worst
    assert sum(c.unsure for c in view.classes) == 50
    assert not view.alarms


def test_a_second_opinion_takes_the_place_of_unsure(service: Service) -> None:
    truth = truths(60, 3)
    ready = service.ready(spec_of(k=3, reasks=1), texts(60), people_a_pool=2)
    add(service, ready, "agent", dict(truth))
    asked: set[str] = set()

    def say(text: str, shown: tuple[int, ...]) -> str:
        first = text not in asked
        asked.add(text)
        return (
            "unsure" if first and int(text.rsplit(" ", 1)[1]) % 5 == 0 else said(truth, text, shown)
        )

    service.work(ready, say)
    rows = service.read(lambda w: read_project(w, ready.project)).rows
    assert len(rows.item) == 60
    assert rows.unsure.sum() == 12
    assert (rows.value == UNSURE).sum() == 0
    assert rows.pending == 0
    assert look(service, ready.project).systems[0].worst == pytest.approx(1.0)


def test_a_class_without_experts_gives_bounds_only(service: Service) -> None:
    truth = truths(240, 3)
    ready = service.ready(spec_of(k=3), texts(240))
    add(service, ready, "agent", dict(truth))
    absent = list(ready.raters)[2]
    working = Ready(
        ready.project, ready.owner, {p: t for p, t in ready.raters.items() if p != absent}
    )
    service.work(working, lambda text, shown: said(truth, text, shown))
    view = look(service, ready.project)
    (system,) = view.systems
    share = sum(t == 2 for t in truth.values()) / 240
    assert math.isnan(system.estimate.value)
    assert system.worst == pytest.approx(1 - share)
    assert system.best == pytest.approx(1.0)
    assert system.absent_share == pytest.approx(share)
    assert 0.3 < system.estimate.low < 1 - share
    assert system.estimate.high == 1.0
    assert "no answer yet for 1 of 3 classes" in " ".join(view.notes)
    assert [c.completion for c in view.classes][2] == 0


def test_a_held_question_ends_the_prefix_and_an_expired_one_is_counted(service: Service) -> None:
    truth = truths(60, 3)
    ready = service.ready(spec_of(k=3, lease_seconds=10), texts(60), people_a_pool=2)
    slow = next(iter(ready.raters.values()))
    asyncio.run(service.store.next_question(slow, ready.project, now=service.now))
    others = Ready(ready.project, ready.owner, {p: t for p, t in ready.raters.items() if t != slow})
    service.work(others, lambda text, shown: said(truth, text, shown), most=9)
    assert look(service, ready.project).in_order <= 9
    service.now += 100
    service.work(others, lambda text, shown: said(truth, text, shown))
    view = look(service, ready.project)
    assert view.in_order == 60
    assert sum(c.expired for c in view.classes) >= 1


def test_several_classes_an_item_and_targeted_routing_have_intervals(service: Service) -> None:
    truth = truths(150, 4)
    two = service.ready(spec_of(k=4, draws=2), texts(150), slug="two")
    add(service, two, "agent", dict(truth))
    service.work(two, lambda text, shown: said(truth, text, shown))
    (system,) = look(service, two.project).systems
    assert system.estimate.low > 0.7
    assert system.estimate.value == pytest.approx(1.0)
    chances = {i: [0.7 if k == t else 0.1 for k in range(4)] for i, t in truth.items()}
    aimed = service.ready(spec_of(k=4), texts(150), slug="aimed", propensities=chances)
    add(service, aimed, "agent", dict(truth))
    service.work(aimed, lambda text, shown: said(truth, text, shown))
    (system,) = look(service, aimed.project).systems
    assert system.estimate.low > 0.6
    assert system.estimate.value == pytest.approx(1.0, abs=0.05)
    assert any(a.name == "recorded propensities" for a in system.estimate.guarantee.assumptions)


def test_judging_all_shown_classes(service: Service) -> None:
    truth = truths(200, 5)
    ready = service.ready(spec_of("judge-all", 5, draws=2, shown=3), texts(200), people_a_pool=3)
    add(
        service, ready, "agent", {i: t if int(i[1:]) % 5 else (t + 1) % 5 for i, t in truth.items()}
    )
    service.work(
        ready,
        lambda text, shown: "|".join("yes" if k == truth[key_of(text)] else "no" for k in shown),
    )
    (system,) = look(service, ready.project).systems
    assert system.estimate.value == pytest.approx(0.8, abs=0.06)
    assert system.estimate.low < 0.8 < system.estimate.high
    assert system.estimate.width < 0.3


def test_picked_classes_promise_nothing(service: Service) -> None:
    truth = truths(200, 5)
    ready = service.ready(
        spec_of("pick-wrong", 5, draws=3, shown=4, trap=True), texts(200), people_a_pool=3
    )
    add(service, ready, "agent", dict(truth))
    service.work(
        ready,
        lambda text, shown: (
            "none"
            if text.endswith("3")
            else str(next(k for k in shown if k != truth[key_of(text)]))
        ),
    )
    view = look(service, ready.project)
    (system,) = view.systems
    assert system.estimate.guarantee.kind is Kind.HEURISTIC
    assert any("uniform among the wrong" in a.name for a in system.estimate.guarantee.assumptions)
    assert system.estimate.value == pytest.approx(1.0)
    assert system.worst < 1


def test_ordinary_ratings_give_agreement(service: Service) -> None:
    truth = truths(90, 3)
    ready = service.ready(spec_of("ordinary", 3, draws=2, annotators=3), texts(90))
    add(
        service, ready, "agent", {i: t if int(i[1:]) % 3 else (t + 1) % 3 for i, t in truth.items()}
    )
    service.work(ready, lambda text, shown: str(truth[key_of(text)]))
    view = look(service, ready.project)
    assert view.agreement is not None
    assert view.agreement.value == pytest.approx(1.0)
    (system,) = view.systems
    assert system.estimate.value == pytest.approx(2 / 3)
    assert system.estimate.low < 2 / 3 < system.estimate.high
    assert [c.asked for c in view.classes] == [60, 60, 60]


def test_gold_and_panel_are_kept_out_of_the_estimate_and_correct_it(service: Service) -> None:
    truth = truths(400, 3)
    gold = [
        Item(name=f"i{j:04}", content={"text": f"text of {j}"}, truth=truth[f"i{j:04}"])
        for j in range(300, 400)
    ]
    ready = service.ready(spec_of(k=3, gold_rate=0.2, panel_items=20), [*texts(300), *gold])
    add(service, ready, "agent", dict(truth))
    rng = np.random.default_rng(2)

    def say(text: str, shown: tuple[int, ...]) -> str:
        right = said(truth, text, shown)
        return "no" if right == "yes" and rng.random() < 0.3 else right

    service.work(ready, say)
    view = look(service, ready.project)
    (system,) = view.systems
    assert view.asked == 280
    assert view.rates["gold false no"].value > 0.05
    assert view.rates["gold false yes"].value == 0
    assert {"panel"} <= set(view.alarms)
    assert system.corrected is not None
    assert system.estimate.value < 0.95
    assert abs(system.corrected.value - 1) < 0.1 < 1 - system.estimate.value
    assert (system.corrected.interval, system.corrected.guarantee.kind) == ("none", Kind.HEURISTIC)
    assert system.estimate.guarantee.kind is Kind.HEURISTIC


@pytest.mark.parametrize(
    "faults",
    [Faults(), Faults(unsure=(0.1, 0.3, 0.02), speeds=(1.0, 0.6, 0.3, 0.1))],
    ids=["complete", "uneven"],
)
def test_a_simulated_project_and_its_tables_show_the_same(service: Service, faults: Faults) -> None:
    made = simulate_partitioned(
        np.random.default_rng(5),
        n_items=800,
        world=LabelWorld(n_classes=4, accuracy=0.7),
        faults=faults,
        panel_items=12,
    )
    project = keep_simulated(service.store, made.project)
    direct, kept = (
        view_of(made.project, now=1e9).to_dict(),
        service.read(lambda w: live_view(w, project, now=1e9)).to_dict(),
    )
    for one, other in zip(direct["classes"], kept["classes"], strict=True):
        one.pop("people"), other.pop("people")
    assert {k: v for k, v in direct.items() if k not in ("project", "name")} == {
        k: v for k, v in kept.items() if k not in ("project", "name")
    }


@pytest.mark.parametrize("protocol", ["judge-all", "pick-wrong"])
def test_a_simulated_project_with_shown_classes_and_its_tables_show_the_same(
    service: Service, protocol: str
) -> None:
    made = simulate_shown(np.random.default_rng(5), protocol=protocol, n_items=300, draws=2)  # type: ignore[arg-type]
    project = keep_simulated(service.store, made.project)
    kept = service.read(lambda w: live_view(w, project, now=1e9))
    assert kept.systems == view_of(made.project, now=1e9).systems


def test_a_view_is_json_and_names_no_person(service: Service) -> None:
    truth = truths(60, 3)
    ready = service.ready(spec_of(k=3), texts(60))
    add(service, ready, "agent", dict(truth))
    service.work(ready, lambda text, shown: said(truth, text, shown), most=40)
    text = json.dumps(look(service, ready.project).to_dict(), allow_nan=False)
    assert json.loads(text)["schema"] == "live/1"
    assert "example.org" not in text
    assert "Rater" not in text
    assert "text of" not in text


def test_rows_of_a_kind_keep_their_order() -> None:
    made = simulate_partitioned(np.random.default_rng(0), n_items=50, panel_items=3).project.rows
    assert isinstance(made, Rows)
    assert made.of(MAIN).place.tolist() == list(range(50))
    assert (made.of(MAIN).value == YES).sum() <= 50


@pytest.mark.parametrize("n_classes", [2, 3, 10])
def test_with_no_wrong_verdict_seen_the_corrected_value_is_the_value(n_classes: int) -> None:
    """Although some classes are slower, so that the completed prefix would say something else."""
    for seed in range(5):
        faults = Faults(speeds=np.linspace(1, 0.3, n_classes).tolist(), unsure=(0.05, 0.1, 0.02))
        made = simulate_partitioned(
            np.random.default_rng(seed),
            n_items=400,
            world=LabelWorld(n_classes=n_classes, accuracy=0.7),
            faults=faults,
            panel_items=0,
        )
        rates = simulate_partitioned(
            np.random.default_rng(seed),
            n_items=10,
            world=LabelWorld(n_classes=n_classes),
            panel_items=20,
        ).project
        none = rates_for_correction(rates)
        assert none is not None
        assert [r.value for r in none] == [0, 0]
        shown = partitioned_view(made.project, "system", rates=none)
        assert shown.corrected is not None
        assert shown.corrected.value == shown.estimate.value
        assert (shown.corrected.low, shown.corrected.high, shown.corrected.interval) == (
            0,
            1,
            "none",
        )


@pytest.mark.parametrize(
    ("false_no", "false_yes"), [(0.2, 0.0), (0.0, 0.1), (0.15, 0.05), (1e-9, 1e-9)]
)
@pytest.mark.parametrize("n_classes", [2, 4, 10])
@pytest.mark.parametrize("accuracy", [0.02, 0.5, 0.8, 1.0])
def test_wrong_verdicts_of_known_rates_are_undone(
    accuracy: float, n_classes: int, false_no: float, false_yes: float
) -> None:
    n, b = 10**9, (1 - accuracy) / (n_classes - 1)
    hit, other = n // n_classes, n - n // n_classes
    yes_hit = round(hit * (accuracy * (1 - false_no) + (1 - accuracy) * false_yes))
    yes_other = round(other * (b * (1 - false_no) + (1 - b) * false_yes))
    cells = label_cells(
        yes_hit,
        yes_other,
        hit - yes_hit,
        other - yes_other,
        n_classes,
        false_no=false_no,
        false_yes=false_yes,
    )
    assert maximum_likelihood(cells) == pytest.approx(accuracy, abs=1e-6)


def test_the_corrected_value_undoes_wrong_verdicts_of_slow_classes_too() -> None:
    faults = Faults(false_no=0.15, false_yes=0.05, speeds=(1.0, 0.8, 0.5, 0.3))
    made = simulate_partitioned(
        np.random.default_rng(3),
        n_items=60_000,
        world=LabelWorld(n_classes=4, accuracy=0.7),
        faults=faults,
    )
    known = tuple(
        dataclasses.replace(r, value=v) for r, v in zip(some_rates(), (0.15, 0.05), strict=True)
    )
    shown = partitioned_view(made.project, "system", rates=known)  # type: ignore[arg-type]
    assert shown.corrected is not None
    assert shown.corrected.value == pytest.approx(made.accuracy, abs=0.015)
    assert abs(shown.estimate.value - made.accuracy) > 0.05


@pytest.mark.parametrize("values", [(0.5, 0.5), (1.0, 0.0), (0.9, 0.3), (math.nan, 0.0)])
def test_rates_that_leave_nothing_to_learn_give_no_corrected_value(
    values: tuple[float, float],
) -> None:
    made = simulate_partitioned(np.random.default_rng(0), n_items=100)
    rates = tuple(
        dataclasses.replace(r, value=v) for r, v in zip(some_rates(), values, strict=True)
    )
    assert partitioned_view(made.project, "system", rates=rates).corrected is None  # type: ignore[arg-type]


def some_rates() -> tuple[Estimate, Estimate]:
    rates = rates_for_correction(
        simulate_partitioned(np.random.default_rng(0), n_items=10, panel_items=20).project
    )
    assert rates is not None
    return rates
