from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest, hypergeom

from noracle import (
    Certificate,
    Evidence,
    EvidenceError,
    certify_panel,
    check_judge,
    estimate_accuracy,
    estimate_with_judges,
    read_result,
    route_judged,
)
from noracle.accuracy.judge import REST, RIGHT, judged_answers, judges_in, worth_parts
from noracle.errors import ArgumentError

Rows = list[tuple[Any, ...]]


def grades(rows: Rows, *more: str) -> dict[str, list[Any]]:
    names = ("item", "system", "verdict", "rater", *more)
    return {name: [row[i] for row in rows] for i, name in enumerate(names)}


def world(
    n: int = 300, graded: int = 90, *, flip: float = 0.1, seed: int = 1, judges: int = 1
) -> Rows:
    """Judges that err now and then, and one person."""
    rng = np.random.default_rng(seed)
    right = rng.random(n) < 0.7
    rows: Rows = []
    for j in range(judges):
        said = right ^ (rng.random(n) < flip)
        rows += [(i, "a", "right" if said[i] else "wrong", f"model-{j}") for i in range(n)]
    people = rng.permutation(n)[:graded].tolist()
    return rows + [(i, "a", "right" if right[i] else "wrong", "ann") for i in people]


def evidence(rows: Rows, *more: str, **options: Any) -> Evidence:
    return Evidence.from_tables(grades=grades(rows, *more), **options)


# accuracy


def test_value_is_the_sum_over_the_parts() -> None:
    rows = world()
    said = {i: verdict for i, _, verdict, rater in rows if rater == "model-0"}
    people = {i: verdict == "right" for i, _, verdict, rater in rows if rater == "ann"}
    value = 0.0
    for word in ("right", "wrong"):
        part = [i for i, v in said.items() if v == word]
        value += len(part) / 300 * np.mean([people[i] for i in part if i in people])
    found = estimate_with_judges(evidence(rows))["a"]
    assert found.value == pytest.approx(value)
    assert found.low < value < found.high
    assert (found.interval, found.method) == ("two parts", "post-stratified")
    assert found.guarantee.kind.label == "finite-sample"


def test_a_good_judge_is_narrower_than_people_alone_and_says_how_many_labels_it_saves() -> None:
    rows = world(3000, 300)
    found = estimate_with_judges(evidence(rows), half_width=0.03)["a"]
    told = found.diagnostics["judge"]
    assert found.width < 0.85 * (told["alone"]["high"] - told["alone"]["low"])
    assert told["grades"] == 300 < told["grades_alone"]
    assert told["labels_ratio"] < 0.75
    assert told["wanted"]["with"] < told["wanted"]["alone"]
    alone = evidence([row for row in rows if row[3] == "ann"], items={"item": list(range(3000))})
    same = estimate_accuracy(alone)
    assert (told["alone"]["low"], told["alone"]["high"]) == pytest.approx((same.low, same.high))


def test_an_inverted_judge_is_as_good_as_a_right_one() -> None:
    rows = world()
    turned = [
        (i, s, {"right": "wrong", "wrong": "right"}[v] if r != "ann" else v, r)
        for i, s, v, r in rows
    ]
    one, two = (estimate_with_judges(evidence(r))["a"] for r in (rows, turned))
    assert (one.low, one.high) == pytest.approx((two.low, two.high))


def test_which_parts_are_made_does_not_depend_on_what_people_said() -> None:
    assert worth_parts([(50, 10), (50, 10)])
    assert not worth_parts([(99, 20), (1, 0)])
    assert worth_parts([(500, 100), (500, 10)])  # drawn at two rates: together they are no sample
    rare = [(i, "a", "right" if i else "wrong", "model") for i in range(100)]
    rare += [(i, "a", "right" if i % 3 else "wrong", "ann") for i in range(0, 100, 4)]
    found = estimate_with_judges(evidence(rare))["a"]
    told = found.diagnostics["judge"]["alone"]
    assert (found.low, found.high) == (told["low"], told["high"])
    assert any("not used" in note for note in found.notes)


def test_the_verdict_of_the_majority_counts() -> None:
    rows = world(judges=3)
    told = judged_answers(evidence(rows))
    assert told.judges == ("model-0", "model-1", "model-2")
    assert told.people == ("ann",)
    by = {j: {i: v for i, _, v, r in rows if r == j} for j in told.judges}
    for a in told.answers["a"]:
        votes = sum(by[j][a.item] == "right" for j in told.judges)
        assert a.called == (RIGHT if votes >= 2 else REST)


def test_named_judge_leaves_the_others_out() -> None:
    told = judged_answers(evidence(world(judges=2)), judge="model-1")
    assert (told.judges, told.people) == (("model-1",), ("ann",))


def test_ppi_is_the_corrected_mean() -> None:
    rows = [(*row, 0.9 if row[2] == "right" else 0.2) for row in world(400, 100)]
    by = {i: g for i, *_, rater, g in rows if rater != "ann"}
    people = {i: v == "right" for i, _, v, rater, _ in rows if rater == "ann"}
    found = estimate_with_judges(evidence(rows, "guess"), method="ppi", weight=0.5)["a"]
    mean = np.mean(list(by.values()))
    wanted = 0.5 * mean + np.mean([y - 0.5 * by[i] for i, y in people.items()])
    assert found.value == pytest.approx(wanted)
    assert found.low < wanted < found.high
    assert found.width < 0.3


def test_ppi_refuses_grades_at_two_rates() -> None:
    rows = [(i, "a", "right" if i < 50 else "wrong", "model") for i in range(100)]
    rows += [(i, "a", "right", "ann") for i in (*range(40), 60, 61)]
    with pytest.raises(ArgumentError, match="at one rate"):
        estimate_with_judges(evidence(rows), method="ppi")
    found = estimate_with_judges(evidence(rows))["a"]
    assert found.interval == "two parts"
    assert "alone" not in found.diagnostics["judge"]


def test_people_at_two_rates_in_the_strata_of_a_part_are_kept_apart() -> None:
    items = {"item": list(range(400)), "stratum": ["easy", "hard"] * 200}
    rows = [(i, "a", "right" if i % 4 < 2 else "wrong", "model") for i in range(400)]
    easy = [i for i in range(400) if i % 2 == 0][:120]
    rows += [(i, "a", "right" if i in easy else "wrong", "ann") for i in (*easy, *range(1, 40, 2))]
    found = estimate_with_judges(evidence(rows, items=items))["a"]
    assert len(found.diagnostics["parts"]) == 4
    assert found.value == pytest.approx(0.5)


def test_answers_that_are_not_there_are_wrong() -> None:
    answers = {"item": list(range(100)), "system": ["a"] * 100, "answer": ["x"] * 80 + [None] * 20}
    rows = [(i, "a", "right", "model") for i in range(80)]
    rows += [(i, "a", "right", "ann") for i in range(80)]
    found = estimate_with_judges(Evidence.from_tables(answers, grades=grades(rows)), judge="model")[
        "a"
    ]
    assert (found.value, found.low, found.high) == (0.8, 0.8, 0.8)


def test_more_than_one_system_and_json() -> None:
    rows = world() + [(i, "b", *rest) for i, _, *rest in world(seed=2)]
    found = estimate_with_judges(evidence(rows))
    assert list(found) == ["a", "b"]
    assert read_result(found["b"].to_dict()) == found["b"]
    assert list(estimate_with_judges(evidence(rows), systems=["b"])) == ["b"]


def test_graded_answers_that_other_judges_see_otherwise_fail_the_check() -> None:
    rows = [(i, "a", "right", "m") for i in range(400)]
    rows += [(i, "a", "right" if i < 200 else "wrong", "k") for i in range(400)]
    rows += [(i, "a", "right", "l") for i in range(400)]
    rows += [(i, "a", "right", "ann") for i in range(60)]  # only those that k calls right, too
    found = estimate_with_judges(evidence(rows))["a"]
    assert found.guarantee.kind.label == "heuristic"
    assert "graded whatever the answer" in [
        a.name for a in found.guarantee.assumptions if a.status == "failed"
    ]


# awkward tables


def test_a_judge_that_graded_all_but_three_is_found() -> None:
    rows = [row for row in world() if row[3] == "ann" or row[0] > 2]
    assert judges_in(evidence(rows)) == ("model-0",)
    told = judged_answers(evidence(rows, items={"item": list(range(300))}))
    assert [a.called for a in told.answers["a"] if a.item < 3] == [REST] * 3


def test_duplicates_change_nothing() -> None:
    rows = world()
    one, two = (estimate_with_judges(evidence(r))["a"] for r in (rows, rows * 2))
    assert one == two


def test_order_of_rows_changes_nothing() -> None:
    rows = world(judges=2)
    one, two = (estimate_with_judges(evidence(r))["a"] for r in (rows, rows[::-1]))
    assert one == two
    first, last = (check_judge(evidence(r), judge="model-0") for r in (rows, rows[::-1]))
    assert first == last


def test_people_who_disagree_are_an_error_or_left_out() -> None:
    rows = world()
    i = next(row[0] for row in rows if row[3] == "ann")
    bad = [*rows, (i, "a", "right", "bob"), (i, "a", "wrong", "bob")]
    with pytest.raises(EvidenceError, match=f"contradict each other; got 1 .* at item {i}"):
        estimate_with_judges(evidence(bad))
    found = estimate_with_judges(evidence(bad, conflicts="drop"))["a"]
    assert found.guarantee.kind.label == "heuristic"  # some verdicts are wrong, and others may be
    assert found.counts["unused"] == {"contradictory items": 1}


def test_a_judge_of_two_minds_is_an_error() -> None:
    with pytest.raises(EvidenceError, match="contradict"):
        estimate_with_judges(
            evidence([*world(), (0, "a", "right", "model-0"), (0, "a", "wrong", "model-0")])
        )


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (world(graded=0), "raters"),
        ([(i, "a", "maybe", "model") for i in range(9)], "must say right, wrong or unsure"),
        ([*world(), (None, "a", "right", "ann")], "must not be null"),
    ],
)
def test_faults_are_named(rows: Rows, message: str) -> None:
    with pytest.raises(EvidenceError, match=message):
        estimate_with_judges(evidence(rows))


def test_grades_without_raters_and_no_grades_are_refused() -> None:
    table = grades(world())
    del table["rater"]
    with pytest.raises(EvidenceError, match="column rater"):
        estimate_with_judges(Evidence.from_tables(grades=table))
    answers = Evidence.from_tables({"item": [1], "system": ["a"], "answer": [0]}, n_classes=2)
    with pytest.raises(EvidenceError, match="must have grades"):
        estimate_with_judges(answers)


def test_names_that_are_not_there_are_answered_with_those_that_are() -> None:
    with pytest.raises(EvidenceError, match="Known are model-0, ann"):
        estimate_with_judges(evidence(world()), judge="model")
    with pytest.raises(EvidenceError, match="Known are a"):
        estimate_with_judges(evidence(world()), systems=["x"])
    with pytest.raises(ArgumentError, match="must differ"):
        estimate_with_judges(evidence(world()), judge="ann", people="ann")


def test_people_with_propensities_are_refused() -> None:
    rows = [(*row, 0.5 if row[3] == "ann" else None) for row in world()]
    with pytest.raises(EvidenceError, match="must have no propensity"):
        estimate_with_judges(evidence(rows, "propensity"))


def test_all_grades_in_one_part_leave_the_other_open() -> None:
    rows = [(i, "a", "right" if i < 60 else "wrong", "model") for i in range(100)]
    rows += [(i, "a", "right", "ann") for i in range(40)]
    found = estimate_with_judges(evidence(rows))["a"]
    assert found.low < 0.6 <= found.high == 1.0
    assert any("no label" in note for note in found.notes)


def test_unsure_people_and_unsure_judges() -> None:
    rows = world()
    rows += [(i, "a", "unsure", "bob") for i in range(300)]
    found = estimate_with_judges(evidence(rows), judge="model-0", people="ann")["a"]
    assert found == estimate_with_judges(evidence(world()))["a"]
    told = judged_answers(
        evidence([(0, "a", "unsure", "m"), (1, "a", "yes", "m"), (1, "a", "yes", "p")])
    )
    assert [a.called for a in told.answers["a"]] == [REST, RIGHT]


# the judge's card


def test_skill_is_what_the_parts_say() -> None:
    rows = [(i, "a", "right" if i < 60 else "wrong", "m") for i in range(100)]
    rows += [(i, "a", "right" if i < 50 or i > 89 else "wrong", "p") for i in range(100)]
    found = {p["what"]: p for p in check_judge(evidence(rows), judge="m").parts}
    for name, value in (("sensitivity", 50 / 60), ("specificity", 30 / 40), ("agreement", 0.8)):
        assert found[name]["value"] == pytest.approx(value)
        assert found[name]["low"] == pytest.approx(value, abs=2e-3)  # every answer is graded
        assert found[name]["high"] == pytest.approx(value, abs=2e-3)


def test_a_rate_that_nobody_knows_is_undefined_in_words() -> None:
    rows: Rows = [(i, "a", "right", "model") for i in range(40)]
    finding = check_judge(evidence([*rows, *((i, "a", "right", "ann") for i in range(9))])).finding
    assert finding.startswith("model against ann, a: sensitivity 1.00 [")
    assert "specificity undefined [0.00, 1.00]" in finding


def test_people_who_are_never_sure_say_nothing() -> None:
    rows: Rows = [(i, "a", "right", "model") for i in range(40)]
    told = evidence([*rows, *((i, "a", "unsure", "ann") for i in range(9))])
    estimate = estimate_with_judges(told, judge="model", half_width=0.1)["a"]
    assert (estimate.low, estimate.high, math.isnan(estimate.value)) == (0.0, 1.0, True)
    assert "people alone undefined [0.000, 1.000]" in estimate.notes


def test_who_may_be_the_judge_is_the_one_with_most_grades() -> None:
    rows: Rows = [(i, "a", "right", "zoe") for i in range(0, 40, 2)] + [(1, "a", "right", "ann")]
    listed = {"item": list(range(40))}
    with pytest.raises(EvidenceError, match="Name the judge, as in judge='zoe'"):
        check_judge(Evidence.from_tables(items=listed, grades=grades(rows)))
    with pytest.raises(EvidenceError, match=r"Write unsure, or leave the row out"):
        check_judge(evidence([(1, "a", None, "zoe"), *rows]))


def test_position_bias_is_a_paired_test() -> None:
    rows: Rows = [(i, "a", "right" if i < 60 else "wrong", "m", 1) for i in range(100)]
    rows += [(i, "a", "right" if i < 40 else "wrong", "m", 2) for i in range(100)]
    rows += [(i, "a", "right", "p", None) for i in range(10)]
    found = check_judge(evidence(rows, "position"), judge="m")
    assert not found.passed
    assert found.p_value == pytest.approx(binomtest(20, 20).pvalue)
    assert "first is favoured in 20 of 20" in found.finding


def test_length_and_family_are_tested_together_by_holm() -> None:
    rows: Rows = []
    for i in range(60):
        for system, length in (("m", 90), ("other", 10)):
            said = "right" if system == "m" or i % 2 else "wrong"
            rows += [(i, system, said, "m", length), (i, system, "wrong", "p", None)]
    found = check_judge(evidence(rows, "length"), judge="m")
    biases = {p["what"]: p for p in found.parts if "bias" in p["what"]}
    assert set(biases) == {"length bias", "own family bias"}  # the judge is also a system
    assert all(p["n"] == p["value"] * p["n"] == 30 for p in biases.values())
    assert found.p_value == pytest.approx(2 * binomtest(30, 30).pvalue)
    fair = check_judge(evidence([(*r[:2], "wrong", *r[3:]) for r in rows], "length"), judge="m")
    assert fair.passed
    assert math.isnan(fair.p_value)


def test_several_judges_are_checked_one_by_one() -> None:
    with pytest.raises(ArgumentError, match="must be named"):
        check_judge(evidence(world(judges=2)))


def test_check_is_written_and_read() -> None:
    found = check_judge(evidence(world()))
    assert read_result(found.to_dict()).to_dict() == found.to_dict()
    assert "sensitivity" in str(found)


# what to grade next


def test_next_answers_are_ungraded_and_reproducible() -> None:
    rows = world()
    graded = {i for i, *_, rater in rows if rater == "ann"}
    one, two = (route_judged(evidence(r), n=40, seed=5) for r in (rows, rows[::-1]))
    assert one.rows == two.rows
    assert len({i for i, *_ in one.rows}) == 40
    assert not graded & {i for i, *_ in one.rows}
    assert one.counts[RIGHT] + one.counts[REST] == 40
    with pytest.raises(ArgumentError, match=r"n must be in \[1, 210\]"):
        route_judged(evidence(rows), n=211)


def test_as_many_answers_are_drawn_as_were_asked_for() -> None:
    """Also where people have graded almost everything of one system."""
    rows: Rows = [(i, s, "right" if i % 3 else "wrong", "model") for s in "ab" for i in range(100)]
    rows += [(i, "a", "right", "ann") for i in range(98)]
    routing = route_judged(evidence(rows), n=60, seed=1)
    assert [sum(row[1] == s for row in routing.rows) for s in "ab"] == [2, 58]


def test_more_is_asked_where_the_judge_is_in_doubt() -> None:
    rows: Rows = [(i, "a", "right", "m", 0.99) for i in range(500)]
    rows += [(i, "a", "wrong", "m", 0.45) for i in range(500, 1000)]
    rows += [(0, "a", "right", "p", None)]
    found = route_judged(evidence(rows, "guess"), n=100, seed=1).counts
    assert found[REST] > 4 * found[RIGHT] > 0
    found = route_judged(evidence(rows, "guess"), n=999, seed=1).counts
    assert (found[RIGHT], found[REST]) == (499, 500)


# panels


def panel_of(n: int, agreed: int, wrong: int, graded: int) -> Evidence:
    """Two systems that agree on the first items; labels on the first of these."""
    answers = {
        "item": [*range(n)] * 2,
        "system": ["a"] * n + ["b"] * n,
        "answer": [0] * n + [0] * agreed + [1] * (n - agreed),
    }
    said = ["no" if i < wrong else "yes" for i in range(graded)]
    labels = {"item": [*range(graded)], "class": [0] * graded, "verdict": said}
    return Evidence.from_tables(answers, labels if graded else None, n_classes=3)


def test_bound_is_known_share_times_exact_limit() -> None:
    found = certify_panel(panel_of(500, 300, 4, 100))
    most = round(found.diagnostics["bound"] * 500)
    assert hypergeom.cdf(4, 300, most, 100) > 0.05 >= hypergeom.cdf(4, 300, most + 1, 100)
    assert found.value == pytest.approx(1 - 0.04 * 0.6)
    assert found.diagnostics["unanimous"] == 0.6


@pytest.mark.parametrize("wrong", [0, 1, 5, 40])
@pytest.mark.parametrize("at_most", [0.01, 0.05, 0.3])
def test_certificate_is_verified_and_tampering_is_found(wrong: int, at_most: float) -> None:
    found = certify_panel(panel_of(500, 300, wrong, 100), at_most=at_most)
    assert found.verify()
    assert found.certified == (found.attained >= 0.95)
    assert Certificate.from_dict(found.to_dict()).verify()
    fewer = {**found.inputs, "labelled": 300}
    for change in (
        {"low": found.low + 1e-3},
        {"certified": not found.certified},
        {"inputs": fewer},
    ):
        assert not dataclasses.replace(found, **change).verify()


def test_no_label_certifies_nothing() -> None:
    found = certify_panel(panel_of(50, 30, 0, 0))
    assert not found.certified
    assert found.diagnostics["bound"] == pytest.approx(0.6)
    assert math.isnan(found.value)
    assert found.verify()


def test_all_labelled_is_known() -> None:
    found = certify_panel(panel_of(50, 30, 2, 30), at_most=0.04)
    assert (found.certified, found.low, found.value) == (True, 0.96, 0.96)


def test_a_panel_that_never_agrees_is_certified_without_labels() -> None:
    found = certify_panel(panel_of(50, 0, 0, 0), at_most=0.01)
    assert (found.certified, found.low) == (True, 1.0)
    assert found.verify()


def test_effective_votes_of_judges() -> None:
    """Copies are one vote; judges that err on other answers more than their number."""
    rows = [(i, "a", "right" if i % 10 else "wrong", f"m{j}") for i in range(100) for j in range(3)]
    rows += [(i, "a", "right", "p") for i in range(90)]
    copies = certify_panel(evidence(rows)).diagnostics
    assert copies["error_correlation"] == pytest.approx(1)
    assert copies["effective_votes"] == pytest.approx(1)
    rows = [
        (i, "a", "right" if i % 10 != j else "wrong", f"m{j}") for i in range(100) for j in range(3)
    ]
    rows += [(i, "a", "right", "p") for i in range(90)]
    apart = certify_panel(evidence(rows)).diagnostics
    assert apart["error_correlation"] == pytest.approx(-1 / 9)
    assert apart["effective_votes"] == pytest.approx(3 / (1 - 2 / 9))


def test_labels_where_the_panel_disagrees_do_not_move_the_bound() -> None:
    base = panel_of(500, 300, 4, 100)
    labels = {"item": [*range(100), *range(400, 450)], "class": [0] * 150}
    labels["verdict"] = ["no" if i < 4 or i >= 400 else "yes" for i in labels["item"]]  # type: ignore[assignment]
    answers = {
        c: [row[i] for row in base.rows("answers", "item", "system", "answer")]
        for i, c in enumerate(("item", "system", "answer"))
    }
    more = Evidence.from_tables(answers, labels, n_classes=3)
    assert certify_panel(more).low == certify_panel(base).low


@pytest.mark.parametrize("of", ["judges", "systems", "systems by grades"])
def test_a_panel_of_which_people_are_unsure_counts_as_wrong(of: str) -> None:
    """Leaving out what people could not say where the panel is wrong would certify anything."""
    n, asked = 600, range(0, 600, 3)
    wrong = {i for i in asked if i % 10 == 0}

    def certified(verdict: str) -> Certificate:
        if of == "judges":
            rows: Rows = [(i, "a", "right", j) for j in ("x", "y") for i in range(n)]
            rows += [(i, "a", verdict if i in wrong else "right", "ann") for i in asked]
            return certify_panel(evidence(rows))
        answers = {"item": [*range(n)] * 2, "system": ["x"] * n + ["y"] * n, "answer": [1] * 2 * n}
        told = [verdict if i in wrong else "right" for i in asked]
        if of == "systems":
            said = {"item": [*asked], "class": [1] * len(told), "verdict": told}
            said["verdict"] = [{"right": "yes", "wrong": "no"}.get(v, v) for v in told]
            return certify_panel(Evidence.from_tables(answers, said, n_classes=4))
        said = {"item": [*asked], "system": ["x"] * len(told), "verdict": told}
        return certify_panel(Evidence.from_tables(answers, grades=said, n_classes=4))

    sure, unsure = certified("wrong"), certified("unsure")
    assert sure.diagnostics["bound"] > 0.1
    assert unsure.diagnostics["bound"] == sure.diagnostics["bound"]
    assert unsure.verify()


def test_panels_name_their_faults() -> None:
    with pytest.raises(EvidenceError, match="at least two"):
        certify_panel(panel_of(50, 30, 0, 30), panel=["a"])
    with pytest.raises(EvidenceError, match="systems must be in answers"):
        certify_panel(panel_of(50, 30, 0, 30), panel=["a", "x"])
    with pytest.raises(ArgumentError, match="at_most"):
        certify_panel(panel_of(50, 30, 0, 30), at_most=0)
    with pytest.raises(EvidenceError, match="answers of systems, or grades by two judges"):
        certify_panel(evidence(world()))
    both = [(i, s, v, r) for i, _, v, r in world(judges=2) for s in ("a", "b")]
    with pytest.raises(EvidenceError, match="system must be named"):
        certify_panel(evidence(both))
    assert certify_panel(evidence(both), system="b").verify()


# what a stranger tried


def half_judged(seed: int, *, listed: bool) -> tuple[Evidence, float]:
    """A judge that graded every other answer; people graded some of these, or some of all."""
    rng = np.random.default_rng(seed)
    right = rng.random(400) < 0.7
    said = right ^ (rng.random(400) < 0.1)
    people = rng.permutation(200)[:60] * 2 if listed else rng.permutation(400)[:120]
    rows: Rows = [(i, "a", bool(said[i]), "m") for i in range(0, 400, 2)]
    rows += [(int(i), "a", bool(right[i]), "ann") for i in people]
    if listed:
        return evidence(rows, items={"item": list(range(400))}), float(right.mean())
    return evidence(rows), float(right[::2].mean())


@pytest.mark.parametrize("listed", [True, False])
def test_a_judge_that_graded_half_of_the_answers(listed: bool) -> None:
    """Answers without a verdict are no part of those that it does not call right, where people
    graded the two at different rates; what people alone graded is no random sample.
    """
    missed = 0
    for seed in range(8):
        given, truth = half_judged(seed, listed=listed)
        found = estimate_with_judges(given, judge="m", people="ann")["a"]
        missed += not found.low <= truth <= found.high
        assert found.width < (0.7 if listed else 0.3)
    assert missed <= 1


def test_a_judge_of_its_own_answers_saves_nothing_and_breaks_nothing() -> None:
    rows = [(i, "m", "right", "m") for i in range(300)]
    rows += [(i, "m", v, r) for i, _, v, r in world() if r == "ann"]
    found = estimate_with_judges(evidence(rows))["m"]
    told = found.diagnostics["judge"]
    assert (found.low, found.high) == (told["alone"]["low"], told["alone"]["high"])
    parts = {p["what"]: p["value"] for p in check_judge(evidence(rows)).parts}
    assert (parts["sensitivity"], parts["specificity"]) == (1.0, 0.0)


def test_a_padded_version_of_an_answer_is_a_test_of_verbosity() -> None:
    rows: Rows = [(i, "a", "right" if i < 40 else "wrong", "m", 100) for i in range(100)]
    rows += [(i, "a", "right" if i < 60 else "wrong", "m", 300) for i in range(100)]
    rows += [(i, "a", "right" if i < 50 else "wrong", "ann", None) for i in range(0, 100, 2)]
    found = check_judge(evidence(rows, "length"))
    assert not found.passed
    assert "longer version of one answer is favoured in 20 of 20" in found.finding
    assert found.p_value == pytest.approx(binomtest(20, 20).pvalue)
    told = judged_answers(evidence(rows, "length")).answers["a"]
    assert sum(a.called == RIGHT for a in told) == 40  # the shortest is the answer
    swapped = [(*row, 1) for row in rows] + [(*row, 2) for row in rows if row[4] == 100]
    both = check_judge(evidence(swapped, "length", "position")).parts
    assert [p["n"] for p in both if "bias" in p["what"]] == [20]  # the order changed nothing


def test_a_guess_that_is_missing_is_what_the_verdict_says() -> None:
    rows = [(*row, math.nan if row[0] % 2 else 0.8) for row in world()]
    found = estimate_with_judges(evidence(rows, "guess"), method="ppi")["a"]
    assert found.low < 0.7 < found.high


def test_the_probability_of_each_question_is_kept() -> None:
    found = route_judged(evidence(world()), n=40, seed=5)
    chances = found.counts["propensities"]["a"]
    told = judged_answers(evidence(world())).answers["a"]
    for part in (RIGHT, REST):
        open_ = sum(a.called == part and a.people is None for a in told)
        assert chances[part] == pytest.approx(found.counts[part] / open_)
