"""Preferences: verdicts, ranges and conflicts are those of trying every order; proofs are checked
by code that did not find them.
"""

from __future__ import annotations

import ast
import copy
import importlib.util
import json
import math
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from noracle import (
    ArgumentError,
    Preferences,
    prove_disagreement,
    prove_malfunction,
    range_agreement,
    range_dissenters,
    read_result,
)
from noracle.logic.orders import OrderProgram, OrderSketch
from noracle.logic.verify import verify_values
from noracle.results import Proof
from tests.unit.logic.brute_orders import draw, possible, reachable, table

SCRIPT = Path(__file__).parents[3] / "examples" / "check_preference_proof.py"


def script() -> Any:
    spec = importlib.util.spec_from_file_location("check_preference_proof", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def values(proof: Proof) -> dict[str, Any]:
    return dict(json.loads(proof.to_json()))


def test_the_script_is_short_and_needs_the_standard_library_only() -> None:
    text = SCRIPT.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 150
    names = {
        n.name for x in ast.walk(ast.parse(text)) if isinstance(x, ast.Import) for n in x.names
    }
    names |= {x.module or "" for x in ast.walk(ast.parse(text)) if isinstance(x, ast.ImportFrom)}
    assert names == {"json", "sys", "fractions", "math", "pathlib"}


def test_the_script_runs_alone(tmp_path: Path) -> None:
    proof = prove_disagreement(three_judges(), "agreement > 1/2")
    for status, code in (("alarm", 0), ("undecided", 1)):
        found = {**values(proof), "status": status}
        (tmp_path / "proof.json").write_text(json.dumps(found), encoding="utf-8")
        command = [sys.executable, "-I", str(SCRIPT), str(tmp_path / "proof.json")]
        assert subprocess.run(command, capture_output=True, check=False).returncode == code


def instance(seed: int) -> list[Any]:
    rng = np.random.default_rng([3, seed])
    sizes = (int(rng.integers(2, 7)), int(rng.integers(1, 5)), int(rng.integers(1, 31)))
    return draw(rng, *sizes)


def agrees_with_brute_force(seeds: range) -> tuple[int, int]:
    """At the best share that all judges can reach together, and just below it."""
    checker, tried, alarms = script(), 0, 0
    for seed in seeds:
        rows = instance(seed)
        preferences = table(rows)
        for order in ("item", "one"):
            _, n, vectors = reachable(rows, order)
            best = (vectors / n).min(axis=1).argmax()
            edge = min(Fraction(int(a), int(k)) for a, k in zip(vectors[best], n, strict=True))
            for above in (edge, edge - Fraction(1, 1000), Fraction(7, 10)):
                if not 0 <= above < 1:
                    continue
                claim = f"agreement > {above}"
                proof = prove_disagreement(preferences, claim, order=order, time_limit=60)
                expected = "consistent" if possible(n, vectors, above) else "alarm"
                assert proof.status == expected, (seed, order, claim)
                assert proof.verify(), (seed, order, claim)
                assert checker.check(values(proof)), (seed, order, claim)
                tried, alarms = tried + 1, alarms + (expected == "alarm")
    return tried, alarms


def test_verdicts_are_those_of_every_order() -> None:
    tried, alarms = agrees_with_brute_force(range(6))
    assert tried > 25
    assert 5 < alarms < tried - 5


PARTS = [*range(10), *(pytest.param(part, marks=pytest.mark.slow) for part in range(10, 25))]


@pytest.mark.full
@pytest.mark.parametrize("part", PARTS)  # 500 tables, each with both kinds of order and more claims
def test_more_verdicts_are_those_of_every_order(part: int) -> None:
    tried, alarms = agrees_with_brute_force(range(10 + 20 * part, 30 + 20 * part))
    assert tried >= 80
    assert alarms >= 20


@pytest.mark.thin(4)
@pytest.mark.parametrize("seed", range(20))
def test_ranges_are_those_of_every_order(seed: int) -> None:
    rows = instance(1000 + seed)
    preferences = table(rows)
    for order in ("item", "one"):
        raters, n, vectors = reachable(rows, order)
        above = Fraction(3, 5)
        need = math.floor(above * int(n[0])) + 1
        inside = vectors[vectors[:, 0] >= need]
        about: Any = {"order": order, "time_limit": 60}
        free = range_agreement(preferences, **about).diagnostics["ends"]
        given = f"agreement of '{raters[0]}' > {above}"
        told = range_agreement(preferences, given=given, **about).diagnostics
        for r, name in enumerate(raters):
            ends = free[f"agreement of {name}"]
            found = [Fraction(ends["low"]), Fraction(ends["high"])]
            assert found == [Fraction(int(f(vectors[:, r])), int(n[r])) for f in (min, max)]
            if len(inside):
                ends = told["ends"][f"agreement of {name}"]
                assert {ends["low is"], ends["high is"]} == {"exact"}
                found = [Fraction(ends["low"]), Fraction(ends["high"])]
                assert found == [Fraction(int(f(inside[:, r])), int(n[r])) for f in (min, max)]
        assert ("contradiction" in told) == (not len(inside))


@pytest.mark.thin(4)
@pytest.mark.parametrize("seed", range(12))
def test_conflicts_are_smallest_and_dissenters_are_fewest(seed: int) -> None:
    rows = instance(2000 + seed)
    for order in ("item", "one"):
        raters, n, vectors = reachable(rows, order)
        above = Fraction(4, 5)

        def fits(
            some: list[int],
            n: np.ndarray = n,
            vectors: np.ndarray = vectors,
            above: Fraction = above,
        ) -> bool:
            return possible(n[some], vectors[:, some], above)

        everyone = list(range(len(raters)))
        claim, about = f"agreement > {above}", {"order": order, "time_limit": 60}
        proof = prove_disagreement(table(rows), claim, smallest=True, **about)
        core = [raters.index(name) for name in proof.diagnostics["conflict"]]
        assert proof.verify()
        assert (proof.status == "alarm") == (not fits(everyone)) == bool(core)
        assert all(fits([i for i in core if i != r]) for r in core)
        assert not core or not fits(core)
        sets = [[i for i in everyone if k >> i & 1] for k in range(2 ** len(everyone))]
        least = min(len(s) for s in sets if fits([i for i in everyone if i not in s]))
        found = range_dissenters(table(rows), claim, **about)
        assert found.ranges[0].low == found.ranges[0].high == least
        alone = [r for i, r in enumerate(raters) if fits([k for k in everyone if k != i])]
        assert found.diagnostics["suspects"] == (alone if least == 1 else [])


def three_judges(n: int = 4) -> Preferences:
    return table(
        (i, "a", "b", "first" if judge != "bad" else "second", judge)
        for i in range(n)
        for judge in ("ann", "bad", "cy")
    )


def test_ties_neither_and_missing_verdicts_are_left_out() -> None:
    plain = [
        (i, "a", "b", "first" if j != "bad" else "second", j)
        for i in range(3)
        for j in ("ann", "bad")
    ]
    more = [(i, "a", "b", w, "bad") for i in range(3, 60) for w in ("tie", "neither", None)]
    for rows in (plain, plain + more):
        proof = prove_disagreement(table(rows), "agreement > 1/2")
        assert proof.status == "alarm"
        assert proof.counts["verdicts"] == 6
    silent = [*plain[::2], (0, "a", "b", "tie", "cy")]
    found = range_agreement(table(silent))
    assert math.isnan(found["agreement of cy"].low)
    assert prove_disagreement(table(silent), "agreement > 0.9").status == "consistent"


def test_the_order_shown_changes_nothing() -> None:
    rows = instance(5)
    turn = {"first": "second", "second": "first"}
    turned = [(i, b, a, turn.get(w, w), r) for i, a, b, w, r in rows]
    one, other = (prove_disagreement(table(x), "agreement > 0.7") for x in (rows, turned))
    assert values(one)["sketch"] == values(other)["sketch"]


def test_contradictions_of_one_judge_count_against_it() -> None:
    rows = [(1, "a", "b", "first", "x"), (1, "b", "a", "first", "x")]
    for order in ("item", "one"):
        assert prove_disagreement(table(rows), "agreement > 1/2", order=order).status == "alarm"
        assert range_agreement(table(rows), order=order)["agreement of x"].high == 0.5


def test_a_cycle_is_impossible_with_one_ranking_and_not_item_by_item() -> None:
    cycle = [(i, a, b, "first", "x") for i, (a, b) in enumerate(("ab", "bc", "ca"))]
    assert prove_disagreement(table(cycle), "agreement > 2/3", order="one").status == "alarm"
    assert prove_disagreement(table(cycle), "agreement > 2/3").status == "consistent"
    same = [(1, *row[1:]) for row in cycle]
    proof = prove_disagreement(table(same), "agreement > 2/3")
    assert proof.status == "alarm"
    assert proof.certificate["cycles"]


def test_unseen_pairs_close_a_cycle_of_four() -> None:
    ring = [(1, a, b, "first", "x") for a, b in ("ab", "bc", "cd", "da")]
    assert prove_disagreement(table(ring), "agreement > 3/4").status == "alarm"
    assert prove_disagreement(table(ring), "agreement >= 3/4").verify()


def test_what_is_no_cycle_is_rounded_to_an_order_with_all_of_it() -> None:
    """Counted by wins and losses d would be above c."""
    chain = [(1, "a", "b", "first", "x"), (1, "b", "c", "first", "x"), (1, "c", "d", "first", "x")]
    chain += [(1, "d", other, "first", "x") for other in "efg"]
    chain += [(1, "a", "g", "first", "x"), (1, "b", "e", "first", "x")]
    sketch = OrderSketch.of(table(chain), "item")
    program = OrderProgram(sketch, [])
    start = np.full(len(program.n), 0.5)  # pairs that nobody saw say nothing
    for g, _, better, worse, _ in sketch.verdicts.tolist():
        low, high = sorted((better, worse))
        start[program.place(g, low, high)] = float(better < worse)
    assert program.agreeing(program.rounded(start)).tolist() == [len(chain)]


def test_comparisons_on_no_cycle_are_units_of_two() -> None:
    tree = [(i, a, b, "first", "x") for i in (1, 2) for a, b in ("ab", "bc", "cd")]
    sketch = OrderSketch.of(table(tree), "item")
    assert sketch.n.tolist() == [6]
    assert sketch.size.tolist() == [2]
    tail = [(1, a, b, "first", "x") for a, b in ("ab", "bc", "ac", "cd")]
    sketch = OrderSketch.of(table(tail), "item")
    assert sorted(sketch.size.tolist()) == [2, 3]


def test_the_only_suspect_is_named() -> None:
    rows = [
        (i, "a", "b", "first" if j != "bad" or i % 3 == 0 else "second", j)
        for i in range(12)
        for j in ("ann", "bad", "cy", "dan")
    ]
    found = range_dissenters(table(rows), "agreement > 0.7")
    assert found.diagnostics["suspects"] == ["bad"]
    assert found.notes[0] == "if only one judge breaks the claim, it is bad"
    assert "suspects" in str(found)


def refused(proof: Proof, change: Any) -> None:
    """Neither checker takes the proof after a change that makes it no proof."""
    bad = copy.deepcopy(values(proof))
    change(bad)
    assert not verify_values(bad)
    try:
        assert not script().check(bad)
    except (ValueError, KeyError, IndexError, TypeError):
        return


def test_a_changed_alarm_is_refused() -> None:
    cycle = [(i, a, b, "first", "x") for i, (a, b) in enumerate(("ab", "bc", "ca"))]
    for proof in (
        prove_disagreement(three_judges(), "agreement > 1/2"),
        prove_disagreement(table(cycle), "agreement > 2/3", order="one"),
    ):
        assert script().check(values(proof))
        refused(proof, lambda d: d["spec"]["statements"][0].update(above="1/1000"))
        refused(proof, lambda d: d["sketch"]["verdicts"].__setitem__(0, []))
        refused(proof, lambda d: d["certificate"].update(weights=[[0, -1]], cycles=[]))
        refused(proof, lambda d: d["certificate"].update(weights=[[0, 1]], cycles=[]))
        refused(proof, lambda d: d["certificate"].update(cycles=[[0, 0, 1, 1, 1]]))
        refused(proof, lambda d: d["certificate"].update(cycles=[[0, 0, 1, 2, -5]]))
        refused(proof, lambda d: d["certificate"].update(weights=[[99, 1]]))
        refused(proof, lambda d: d.update(status="undecided"))
    bad = values(proof)
    bad["claim"] = "agreement > 99/100 with one ranking"
    assert not verify_values(bad)


def test_a_changed_witness_is_refused() -> None:
    rows = [(1, a, b, "first", "x") for a, b in ("ab", "bc", "ac")]
    proof = prove_disagreement(table(rows), "agreement > 9/10", order="one")
    assert proof.witness["ranking"] == ["a", "b", "c"]
    assert script().check(values(proof))
    refused(proof, lambda d: d["sketch"]["verdicts"][0][0].reverse())
    refused(proof, lambda d: d["witness"].update(orders=[]))
    refused(proof, lambda d: d["witness"]["orders"][0][0].__setitem__(1, 1000))
    refused(proof, lambda d: d["witness"]["orders"][0][0][0].reverse())
    refused(proof, lambda d: d["witness"]["orders"][0][0][0].pop())


def test_proofs_are_stored_and_read() -> None:
    for claim in ("agreement > 1/2", "agreement of ann > 1/2"):
        proof = prove_disagreement(three_judges(), claim)
        again = read_result(values(proof))
        assert again.verify()  # type: ignore[union-attr]
        assert "order" in str(proof)
        assert "<" in proof._repr_html_()


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda p: prove_disagreement(p, "accuracy > 1/2"), "must be about agreement"),
        (lambda p: prove_disagreement(p, "agreement of zed > 1/2"), "must name raters among"),
        (lambda p: prove_disagreement(p, "agreement on a > 1/2"), "must not name one"),
        (lambda p: prove_disagreement(p, "agreement at 4 > 1/2"), "must not come with a threshold"),
        (lambda p: prove_disagreement(p, "agreement > 1"), "below 1"),
        (lambda p: prove_disagreement(p, "agreement > 1/2", order="all"), "order"),
        (lambda p: prove_disagreement(p, "agreement > 1/2", time_limit=0), "positive number"),
        (lambda p: prove_disagreement({"item": [1]}, "agreement > 1/2"), "must be Preferences"),
        (lambda p: range_agreement(p, only="zed"), "only must be a rater"),
        (lambda p: range_agreement(p, given="agreement of zed > 1/2"), "zed"),
    ],
)
def test_what_cannot_be_meant_is_refused(call: Any, said: str) -> None:
    with pytest.raises(ArgumentError, match=said):
        call(three_judges())


def test_ties_alone_are_refused() -> None:
    with pytest.raises(ArgumentError, match="must hold a verdict for first or second"):
        prove_disagreement(table([(1, "a", "b", "tie", "x")]), "agreement > 1/2")


def test_answers_and_agreement_do_not_go_together() -> None:
    from noracle import Sketch

    sketch = Sketch.from_counts({("a", "a"): 1}, classifiers=["x", "y"], labels=["a", "b"])
    with pytest.raises(ArgumentError, match="spec must be about answers"):
        prove_malfunction(sketch, "agreement > 1/2")


def test_a_short_time_limit_is_undecided_with_a_reason() -> None:
    proof = prove_disagreement(table(instance(11)), "agreement > 0.6", time_limit=1e-6)
    assert proof.status == "undecided"
    assert proof.reason
    assert not proof.verify()
