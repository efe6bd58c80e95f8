"""Which test decides, and what it decides, on worlds whose key is known."""

from __future__ import annotations

import dataclasses
import json
import random
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from noracle import ArgumentError, Evidence, EvidenceError
from noracle.gate import GateClaim, GateLedger, GateRun, GateSettings, decide_gate, summary
from noracle.schemas import load_schema
from tests.unit.gate.worlds import GateWorld

NO_WORSE = GateClaim(system="new", base="base", margin=0.01)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "gate.jsonl"


def test_a_good_system_passes_a_bad_one_fails_a_near_one_is_undecided(path: Path) -> None:
    world = GateWorld(n=2000, accuracy=0.8)
    about = {x: GateClaim(system="base", at_least=x) for x in (0.7, 0.8, 0.9)}
    found = world.decide(path, world.order[:400], *about.values())
    assert [d.outcome for d in found] == ["pass", "undecided", "fail"]
    assert [d.t for d in found] == [1, 2, 3]
    assert {d.test for d in found} == {"fresh"}  # one run: all systems were made before
    assert set(found[1].needed) == {"pass", "fail"}
    assert found[0].needed == {}


def test_the_same_again_is_recorded_and_spends_nothing(path: Path) -> None:
    world = GateWorld()
    claim = GateClaim(system="base", at_least=0.7)
    first = world.decide(path, world.order[:200], claim)[0]
    before = path.read_bytes()
    again = world.decide(path, reversed(world.order[:200]), claim)[0]  # labels in another order
    assert (again.outcome, again.t, again.recorded) == (first.outcome, 1, True)
    assert path.read_bytes() == before
    other = world.decide(path, world.order[:200], GateClaim(system="base", at_least=0.75))[0]
    assert (other.t, other.recorded, other.test) == (2, False, "reused")
    assert other.level == pytest.approx(other.error / 2)  # one history of one usual outcome


def test_a_drop_is_seen_with_new_labels_of_changed_items_only(path: Path) -> None:
    world = GateWorld(n=10_000)
    world.change("new", lost=520, won=20)
    vault = world.order[:300]
    with GateLedger(path) as ledger:
        plan = GateRun(world.evidence(vault), ledger=ledger).design(NO_WORSE)
    assert plan.n_at_stake == 540
    assert 0 < plan.needed["fail"] <= 400
    assert {world.answers["new"][int(i)] != world.answers["base"][int(i)] for i in plan.ask} == {
        True
    }
    more = [int(i) for i in plan.ask[: plan.needed["fail"]]]
    found = world.decide(path, [*vault, *more], NO_WORSE)[0]
    assert (found.outcome, found.test) == ("fail", "fresh")


def test_no_changed_answer_needs_no_label_and_too_few_changes_cannot_matter(path: Path) -> None:
    world = GateWorld()
    world.change("new")
    found = world.decide(path, world.order[:1], NO_WORSE)[0]
    assert (found.outcome, found.test, found.n_labels, found.error) == ("pass", "unchanged", 0, 0.0)
    world.change("new", lost=10)
    assert world.decide(path, world.order[:1], NO_WORSE)[0].test == "unchanged"
    world.change("new", lost=11)
    assert world.decide(path, world.order[:1], NO_WORSE)[0].outcome == "undecided"


@pytest.mark.parametrize(
    ("lost", "won", "outcome"), [(11, 0, "fail"), (11, 1, "pass"), (0, 100, "pass")]
)
def test_all_items_labelled_is_exact(path: Path, lost: int, won: int, outcome: str) -> None:
    world = GateWorld()
    world.change("new", lost=lost, won=won)
    claim = GateClaim(system="new", base="base", margin=0.01)
    found = world.decide(path, range(1000), claim)[0]
    assert (found.outcome, found.error) == (outcome, 0.0)
    assert found.test in ("known", "fresh")


def test_all_items_changed_is_like_any_other(path: Path) -> None:
    world = GateWorld(n=400)
    world.answers["new"] = {i: world.key(i) for i in range(400)}
    world.answers["base"] = {i: world.key(i) + 5 for i in range(400)}
    found = world.decide(path, world.order[:60], NO_WORSE)[0]
    assert (found.n_at_stake, found.outcome) == (400, "pass")


def test_no_labels_is_undecided_and_says_so(path: Path) -> None:
    world = GateWorld(n=100)
    world.change("new", lost=20)
    found = world.decide(path, [world.order[0]], GateClaim(system="base", at_least=0.8))[0]
    assert found.outcome == "undecided"
    empty = Evidence.from_tables(
        {"item": [1, 2], "system": ["a", "a"], "answer": [0, 1]}, n_classes=2
    )
    with pytest.raises(EvidenceError, match="must have judgements or grades"):
        decide_gate(empty, at_least=0.8)
    other = [i for i in world.order if world.answers["new"][i] == world.answers["base"][i]][:5]
    blind = world.decide(path, [world.order[0], *other], NO_WORSE)[0]
    assert (blind.outcome, blind.n_labels <= 1) == ("undecided", True)


def test_labels_that_decided_are_facts_whatever_was_learned_of_them(path: Path) -> None:
    """An adversary who knows all old labels answers these items right and no other."""
    world = GateWorld(n=2000, accuracy=0.5)
    vault, fresh = world.order[:1000], world.order[1000:1200]
    first = world.decide(path, vault, GateClaim(system="base", at_least=0.9))[0]
    assert first.outcome == "fail"
    with GateLedger(path) as ledger:
        GateRun(world.evidence(vault), ledger=ledger).reveal()
    cheat = {i: world.key(i) if i in set(vault) else world.key(i) + 5 for i in range(2000)}
    world.answers["cheat"] = cheat  # half of all items
    claim = GateClaim(system="cheat", at_least=0.6)
    found = world.decide(path, [*vault, *fresh], claim)[0]
    assert (found.test, found.outcome) == ("fresh", "fail")


def test_an_item_without_an_answer_is_wrong_without_a_label(path: Path) -> None:
    world = GateWorld(n=100, accuracy=1.0)
    for i in range(30):
        world.answers["base"][i] = None  # type: ignore[assignment]
    found = world.decide(path, range(30, 100), GateClaim(system="base", at_least=0.71))[0]
    assert (found.outcome, found.n_at_stake, found.error) == ("fail", 70, 0.0)
    assert (
        world.decide(path, range(30, 100), GateClaim(system="base", at_least=0.7))[0].outcome
        == "pass"
    )


def test_versions_of_other_items_are_refused(path: Path) -> None:
    world = GateWorld(n=100)
    world.answers["new"] = {i: world.key(i) for i in range(1, 101)}
    with pytest.raises(EvidenceError, match="must be about the same items"):
        world.decide(path, [1, 2], NO_WORSE)


def test_items_that_are_added_leave_old_labels_as_facts_only(path: Path) -> None:
    world = GateWorld(n=500, accuracy=1.0)
    claim = GateClaim(system="base", at_least=0.9)
    assert world.decide(path, world.order[:200], claim)[0].outcome == "pass"
    world.answers["base"] |= {i: world.key(i) + 5 for i in range(500, 1000)}  # all wrong
    found = world.decide(path, world.order[:200], claim)[0]
    assert (found.outcome, found.test) == ("undecided", "none")


def test_a_missing_system_and_impossible_claims_are_refused() -> None:
    world = GateWorld(n=50)
    evidence = world.evidence(range(10))
    with pytest.raises(ArgumentError, match="not both"):
        decide_gate(evidence, at_least=0.8, no_worse_than="base")
    with pytest.raises(ArgumentError, match="at_least or no_worse_than must be given"):
        decide_gate(evidence)
    with pytest.raises(ArgumentError, match="system must be one of"):
        decide_gate(evidence, system="other", at_least=0.8)
    with pytest.raises(ArgumentError, match="margin must be in"):
        GateClaim(system="a", base="b", margin=-0.1)
    for bad in (0.0, 1.2, float("nan")):
        with pytest.raises(ArgumentError, match="at_least must be in"):
            GateClaim(system="a", at_least=bad)
    with pytest.raises(ArgumentError, match="another one than the base"):
        GateClaim(system="a", base="a")


def test_strata_labelled_at_other_rates_and_weights_are_refused() -> None:
    world = GateWorld(n=400)
    base = world.evidence(range(200))
    items = {"item": list(range(400)), "stratum": ["a"] * 200 + ["b"] * 200}
    args = {"item": list(range(400)), "system": ["s"] * 400, "answer": [0] * 400}
    said = {"item": list(range(200)), "class": [0] * 200, "verdict": ["yes"] * 200}
    with pytest.raises(EvidenceError, match="labelled at one rate"):
        decide_gate(Evidence.from_tables(args, said, items, n_classes=3), at_least=0.5)
    items = {"item": list(range(400)), "weight": [1.0] * 200 + [2.0] * 200}
    with pytest.raises(EvidenceError, match="must be the same for all items"):
        decide_gate(Evidence.from_tables(args, said, items, n_classes=3), at_least=0.5)
    assert decide_gate(base, at_least=0.5).outcome == "pass"


def test_labels_that_were_changed_or_taken_away_are_counted(path: Path) -> None:
    world = GateWorld(n=500)
    claim = GateClaim(system="base", at_least=0.7)
    world.decide(path, world.order[:200], claim)
    gone = world.decide(path, world.order[:180], claim)[0]
    assert any("20 labels that decided before are gone" in note for note in gone.notes)
    assert gone.outcome == "undecided"  # those that are missing count against both

    class Corrected(GateWorld):
        @staticmethod
        def key(item: int) -> int:
            return item % 5 if item % 2 else (item + 1) % 5

    other = Corrected(n=500)
    other.answers = world.answers
    changed = other.decide(path, world.order[:200], claim)[0]
    n = sum(1 for i in world.order[:200] if i % 2 == 0)
    assert any(f"{n} labels that decided before were changed" in note for note in changed.notes)


def test_free_text_with_grades(path: Path) -> None:
    n = 300
    answers = {
        "item": list(range(n)) * 2,
        "system": ["base"] * n + ["new"] * n,
        "answer": [f"text {i}" for i in range(n)]
        + [f"text {i}" if i % 3 else "other" for i in range(n)],
    }

    def grades(right: bool) -> dict[str, list[object]]:
        rows = [(i, s) for i in range(0, n, 3) for s in ("base", "new")]
        said = ["right" if s == "base" or right else "wrong" for _, s in rows]
        return {"item": [i for i, _ in rows], "system": [s for _, s in rows], "verdict": said}

    for right, outcome in ((True, "pass"), (False, "fail")):
        evidence = Evidence.from_tables(answers, grades=grades(right))
        found = decide_gate(evidence, system="new", no_worse_than="base", ledger=path)
        assert (found.outcome, found.n_at_stake, found.test) == (outcome, 100, found.test)


def test_grades_alone_are_a_sample_of_more() -> None:
    n = 400
    table = {
        "item": [*range(n), *range(n)],
        "system": ["a"] * n + ["b"] * n,
        "verdict": ["right"] * n + ["wrong" if i % 4 == 0 else "right" for i in range(n)],
    }
    evidence = Evidence.from_tables(grades=table)
    assert decide_gate(evidence, system="b", no_worse_than="a").outcome == "fail"
    assert decide_gate(evidence, system="a", no_worse_than="b").outcome == "pass"
    assert decide_gate(evidence, system="b", at_least=0.99).test == "fresh"  # never "known"


def test_what_is_written_has_a_schema_and_tells_no_value(path: Path) -> None:
    world = GateWorld()
    world.change("new", lost=100)
    found = world.decide(path, world.order[:300], NO_WORSE, GateClaim(system="base", at_least=0.8))
    for decision in found:
        jsonschema.validate(json.loads(json.dumps(decision.to_dict())), load_schema("gate/1"))
        assert not {"value", "low", "high"} & set(decision.to_dict())
    for line in path.read_text().splitlines():
        jsonschema.validate(json.loads(line), load_schema("gate-ledger/1"))
    with pytest.raises(dataclasses.FrozenInstanceError):
        found[0].outcome = "pass"  # type: ignore[misc]


def test_the_ledger_holds_no_item_and_no_label_that_can_be_guessed(path: Path) -> None:
    world = GateWorld(n=100)
    world.decide(path, world.order[:50], GateClaim(system="base", at_least=0.5))
    other = path.parent / "other" / "gate.jsonl"
    other.parent.mkdir()
    world.decide(other, world.order[:50], GateClaim(system="base", at_least=0.5))
    marks = [set(json.loads(p.read_text().splitlines()[1])["fresh"]) for p in (path, other)]
    assert not marks[0] & marks[1]  # another key, other hashes
    path.with_suffix(".key").write_text("something else")
    with pytest.raises(EvidenceError, match="must be the key"):
        world.decide(path, world.order[:60], GateClaim(system="base", at_least=0.5))


def test_what_is_needed_does_not_depend_on_verdicts(path: Path) -> None:
    needed = []
    for k, accuracy in enumerate((0.5, 0.9)):
        world = GateWorld(n=2000, accuracy=accuracy)
        world.order = list(range(2000))
        world.answers["new"] = {i: a if i % 10 else 19 for i, a in world.answers["base"].items()}
        own = path.with_name(f"{k}.jsonl")
        with GateLedger(own) as ledger:
            run = GateRun(world.evidence(range(100)), ledger=ledger)
            needed.append(
                [run.design(c).needed for c in (NO_WORSE, GateClaim(system="new", at_least=0.7))]
            )
    assert needed[0] == needed[1]


def test_nothing_that_is_shown_depends_on_verdicts(path: Path) -> None:
    """People said whether the answers of one system are right. What that leaves open for another
    one has another size for each verdict, and shows in no number beside the outcome.
    """
    shown = []
    for k, right in enumerate((60, 90)):
        own = [(i, "a", i % 5 if i % 100 < right else i % 5 + 5) for i in range(1000)]
        new = [(i, "b", i % 5 if i % 2 else i % 5 + 6) for i in range(1000)]
        asked = [(i, a, "yes" if a == i % 5 else "no") for i, _, a in own[:300]]
        answers = said([*own, *new], "item", "system", "answer")
        questions = said(asked, "item", "class", "verdict")
        evidence = Evidence.from_tables(answers, questions, n_classes=20)
        with GateLedger(path.with_name(f"{k}.jsonl")) as ledger:
            run = GateRun(evidence, ledger=ledger)
            claims = [GateClaim(system="b", at_least=x) for x in (0.45, 0.46)]
            plans = [run.design(claim) for claim in claims]
            first = run.decide(claims[0])[0]
            plans += [run.design(claim) for claim in claims]
        plain = [dataclasses.replace(plan, ask=()) for plan in plans]
        shown.append([first.outcome, first.n_labels, first.notes, first.needed, *plain])
    assert shown[0] == shown[1]


def test_with_a_bound_on_unusual_outcomes(path: Path) -> None:
    world = GateWorld(n=1000)
    with GateLedger(path, GateSettings(most_unusual=0)) as ledger:
        run = GateRun(world.evidence(world.order[:300]), ledger=ledger)
        assert run.decide(GateClaim(system="base", at_least=0.6))[0].outcome == "pass"
        assert run.decide(GateClaim(system="base", at_least=0.95))[0].test == "reused"
        assert run.ledger is not None
        assert run.ledger.decisions[-1]["outcome"] == "fail"
    late = world.decide(path, world.order[:300], GateClaim(system="base", at_least=0.5))[0]
    assert (late.outcome, late.test) == ("undecided", "none")  # the bound was passed
    new = world.decide(path, world.order[:350], GateClaim(system="base", at_least=0.5))[0]
    assert new.test == "fresh"  # new labels still decide


# what a stranger tried


def said(rows: list[tuple[Any, ...]], *names: str) -> dict[str, list[Any]]:
    return {name: [row[k] for row in rows] for k, name in enumerate(names)}


def answered(world: GateWorld, *systems: str) -> dict[str, list[Any]]:
    rows = [(i, s, a) for s in systems for i, a in world.answers[s].items()]
    return said(rows, "item", "system", "answer")


def test_questions_about_the_answer_itself_are_a_sample_with_their_no() -> None:
    """Is this answer right? The items with a yes alone would be right without exception."""
    world = GateWorld(n=1000, accuracy=0.6)
    own = world.answers["base"]
    rows = [(i, own[i], "yes" if own[i] == world.key(i) else "no") for i in world.order[:300]]
    questions = said(rows, "item", "class", "verdict")
    evidence = Evidence.from_tables(answered(world, "base"), questions, n_classes=20)
    found = decide_gate(evidence, at_least=0.8)
    assert (found.outcome, found.n_labels) == ("fail", 300)
    # another system with other answers: a no says nothing of it and counts against both outcomes
    world.answers["new"] = {i: a + 1 if a != world.key(i) else a for i, a in own.items()}
    both = Evidence.from_tables(answered(world, "base", "new"), questions, n_classes=20)
    found = decide_gate(both, system="new", at_least=0.8)
    assert (found.outcome, found.n_labels) == ("undecided", 300)
    assert any("leave these answers open" in note for note in found.notes)


@pytest.mark.parametrize("n_classes", [2, 5])
def test_classes_that_are_ruled_out_at_random_leave_the_items_with_a_yes(n_classes: int) -> None:
    rng = random.Random(5)
    key = [rng.randrange(n_classes) for _ in range(1000)]
    answers = [
        (i, "a", k if rng.random() < 0.7 else (k + 1) % n_classes) for i, k in enumerate(key)
    ]
    asked = [(i, rng.randrange(n_classes)) for i in rng.sample(range(1000), 600)]
    rows = [(i, c, "yes" if key[i] == c else "no") for i, c in asked]
    evidence = Evidence.from_tables(
        said(answers, "item", "system", "answer"),
        said(rows, "item", "class", "verdict"),
        n_classes=n_classes,
    )
    found = decide_gate(evidence, at_least=0.5)
    n_yes = sum(verdict == "yes" for *_, verdict in rows)
    assert (found.outcome, found.n_labels) == ("pass", 600 if n_classes == 2 else n_yes)
    assert decide_gate(evidence, at_least=0.9).outcome == "fail"


def test_people_who_are_unsure_where_it_is_wrong_pass_nothing() -> None:
    world = GateWorld(n=1000, accuracy=0.6)
    own = world.answers["base"]
    rows = [(i, "base", "right" if own[i] == i % 5 else "unsure") for i in world.order[:300]]
    grades = said(rows, "item", "system", "verdict")
    evidence = Evidence.from_tables(answered(world, "base"), grades=grades)
    assert decide_gate(evidence, at_least=0.8).outcome == "undecided"
    rows = [(i, own[i], "yes" if own[i] == i % 5 else "unsure") for i in world.order[:300]]
    labels = said(rows, "item", "class", "verdict")
    evidence = Evidence.from_tables(answered(world, "base"), labels, n_classes=20)
    assert decide_gate(evidence, at_least=0.8).outcome == "undecided"


def test_a_system_cannot_leave_out_what_is_hard() -> None:
    world = GateWorld(n=200, accuracy=0.6)
    easy = {i: a for i, a in world.answers["base"].items() if a == world.key(i) or i % 9 == 0}
    world.answers["new"] = easy
    with pytest.raises(
        EvidenceError, match=r"answers of new must be about the same items .* none to"
    ):
        decide_gate(world.evidence(range(200)), system="new", at_least=0.8)
    rows, items = answered(world, "new"), {"item": list(range(200))}
    labels = said([(i, i % 5, "yes") for i in range(200)], "item", "class", "verdict")
    with pytest.raises(EvidenceError, match="answers of new must be about the same items"):
        decide_gate(Evidence.from_tables(rows, labels, items, n_classes=20), at_least=0.8)


@pytest.mark.parametrize("graded", [False, True])
def test_items_that_all_systems_leave_out_are_found_by_their_labels(graded: bool) -> None:
    """The answers that are known to be wrong are gone, and their labels are still there."""
    world = GateWorld(n=500, accuracy=0.7)
    own, asked = world.answers["base"], world.order[:150]
    wrong = [i for i in asked if own[i] != world.key(i)]
    if graded:
        labels = said(
            [(i, "base", own[i] == world.key(i)) for i in asked], "item", "system", "verdict"
        )
        of: dict[str, Any] = {"grades": labels}
    else:
        labels = said([(i, world.key(i), "yes") for i in asked], "item", "class", "verdict")
        of = {"judgements": labels, "n_classes": 20}
    assert (
        decide_gate(Evidence.from_tables(answered(world, "base"), **of), at_least=0.85).outcome
        == "fail"
    )
    world.answers["base"] = {i: a for i, a in own.items() if i not in wrong}
    told = rf"items and labels; got none to {len(wrong)} of 500"
    with pytest.raises(EvidenceError, match=told):
        decide_gate(Evidence.from_tables(answered(world, "base"), **of), at_least=0.85)


def test_labels_asked_for_one_claim_are_no_sample_for_another(path: Path) -> None:
    """``plan`` asks about changed items; a claim about all items does not take them for a sample of
    all, and does not use them up.
    """
    world = GateWorld(n=2000, accuracy=0.9)
    world.change("new", lost=150, won=20)
    with GateLedger(path) as ledger:
        ask = GateRun(world.evidence([0]), ledger=ledger).design(NO_WORSE).ask[:100]
    labels = [int(i) for i in ask]
    first = world.decide(path, labels, GateClaim(system="new", at_least=0.7))[0]
    assert (first.outcome, first.test) == ("undecided", "none")
    assert "base answers in another way" in first.reason
    assert "fresh" not in path.read_text().splitlines()[-1].replace('"test":"fresh"', "")
    second = world.decide(path, labels, NO_WORSE)[0]
    assert (second.outcome, second.test, second.n_labels) == ("fail", "fresh", 100)


def test_an_outcome_that_no_label_decided_uses_none_up(path: Path) -> None:
    world = GateWorld(n=1000)
    world.change("new", lost=5)
    labels = world.order[:200]
    assert world.decide(path, labels, NO_WORSE)[0].test == "unchanged"
    assert world.decide(path, labels, GateClaim(system="new", at_least=0.7))[0].test == "fresh"


def test_items_that_were_exchanged_are_told(path: Path) -> None:
    world = GateWorld(n=500)
    claim = GateClaim(system="base", at_least=0.7)
    world.decide(path, world.order[:200], claim)
    world.answers["base"] = {i: a for i, a in world.answers["base"].items() if i % 10}
    found = world.decide(path, [i for i in world.order[:200] if i % 10], claim)[0]
    n_gone = sum(i % 10 == 0 for i in world.order[:200])
    told = [
        "the items are others than at decision 1",
        f"{n_gone} labels that decided before are gone",
    ]
    assert list(found.notes) == told
    text = summary.markdown([found])  # whoever reviews the change sees it
    assert all(f"- base: {note}" in text for note in told)
    assert all(note in summary.junit([found]) for note in told)


def test_grades_that_were_edited_between_commits_are_told(path: Path) -> None:
    world = GateWorld(n=400, accuracy=0.6)
    own = world.answers["base"]
    truth = [(i, "base", "right" if own[i] == i % 5 else "wrong") for i in world.order[:100]]
    claim = {"at_least": 0.8, "ledger": path}

    def decided(rows: list[tuple[Any, ...]]) -> list[str]:
        grades = said(rows, "item", "system", "verdict")
        found = decide_gate(Evidence.from_tables(answered(world, "base"), grades=grades), **claim)
        return [note for note in found.notes if "changed" in note]

    assert decided(truth) == []
    n = sum(verdict == "wrong" for *_, verdict in truth)
    edited = decided([(i, s, "right") for i, s, _ in truth])
    assert edited == [f"{n} labels that decided before were changed"]
    own |= dict.fromkeys(world.order[:50], 19)  # other answers may have other grades
    assert decided([(i, s, "wrong" if own[i] == 19 else v) for i, s, v in truth]) == []


def test_a_judge_among_the_graders_is_named() -> None:
    rows = [(i, "a", "right", "model") for i in range(100)]
    rows += [(i, "a", "right", "ann") for i in range(20)]
    evidence = Evidence.from_tables(grades=said(rows, "item", "system", "verdict", "rater"))
    found = decide_gate(evidence, at_least=0.8)
    assert any("model graded everything as a judge does" in note for note in found.notes)
