from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from examples.papers import marginals
from examples.papers.independent import (
    BinaryEvaluation,
    check_independence,
    evaluate_majority,
    solve_trio,
)
from examples.papers.marginals import check_marginals
from noracle.errors import ArgumentError, EvidenceError

PATTERNS = list(itertools.product("ab", repeat=3))
TABLE_2 = {"aaa": 12, "aab": 0, "aba": 121, "baa": 14, "bba": 87, "bab": 1, "abb": 13, "bbb": 33}
GRADERS = {tuple(p): n for p, n in TABLE_2.items()}


def frequency(e: BinaryEvaluation, pattern: tuple[str, ...]) -> Any:
    """Eq. 46–53."""
    first, second = e.prevalence_rate, 1 - e.prevalence_rate  # type: ignore[operator]
    for said, a, b in zip(pattern, e.accuracy_a, e.accuracy_b, strict=True):
        first *= a if said == "a" else 1 - a  # type: ignore[operator]
        second *= 1 - b if said == "a" else b  # type: ignore[operator]
    return first + second


def independent_counts(
    p_a: Fraction, a: list[Fraction], b: list[Fraction]
) -> tuple[dict[tuple[str, ...], int], BinaryEvaluation]:
    """Whole-number counts that are independent to the last item."""
    truth = BinaryEvaluation(prevalence_rate=p_a, accuracy_a=tuple(a), accuracy_b=tuple(b))
    q = math.lcm(*(frequency(truth, p).denominator for p in itertools.product("ab", repeat=len(a))))
    return {p: int(frequency(truth, p) * q) for p in itertools.product("ab", repeat=len(a))}, truth


def random_truth(
    rng: random.Random, p_a: Fraction | None = None
) -> tuple[dict[tuple[str, ...], int], BinaryEvaluation]:
    """Three informative classifiers, better or worse than a coin, perfect ones among them."""
    while True:
        d = rng.randint(2, 9)
        share = Fraction(rng.randint(1, d - 1), d) if p_a is None else p_a
        a, b = ([Fraction(rng.randint(0, 10), 10) for _ in range(3)] for _ in range(2))
        if all(x + y != 1 for x, y in zip(a, b, strict=True)):
            return independent_counts(share, a, b)


# ------------------------------------------------------------------------------------------------------------------------------------
# trio


def test_trio_is_exact_on_rational_cases_and_its_branches_are_mirror_images() -> None:
    rng = random.Random(0)
    for k in range(445):
        counts, truth = random_truth(rng, Fraction(1, 2) if k % 10 == 0 else None)
        found = solve_trio(counts)
        assert (found.status, found.exact, len(found.branches)) == ("solved", True, 2)
        assert truth in found.branches
        assert found.branches[1] == found.branches[0].mirror()
        informed = math.prod(
            a + b - 1
            for a, b in zip(found.branches[0].accuracy_a, found.branches[0].accuracy_b, strict=True)
        )  # type: ignore[misc,operator]
        assert informed > 0


def test_trio_works_where_both_labels_are_equally_frequent() -> None:
    counts, truth = independent_counts(
        Fraction(1, 2), [Fraction(9, 10), Fraction(4, 5), Fraction(7, 10)], [Fraction(3, 5)] * 3
    )
    found = solve_trio(counts)
    assert found.third_moment == 0
    assert found.branches[0] == truth


def test_solutions_of_any_table_make_its_frequencies() -> None:
    """Seven equations, seven unknowns: what is solved, inside [0, 1] or not, gives back every
    frequency.
    """
    rng = random.Random(1)
    seen: Counter[str] = Counter()
    for _ in range(800):
        counts = {p: rng.randint(0, 9) for p in PATTERNS}
        found = solve_trio(counts)
        seen[found.status] += 1
        for branch in found.branches:
            values = [branch.prevalence_rate, *branch.accuracy_a, *branch.accuracy_b]
            assert all(-1e-12 <= v <= 1 + 1e-12 for v in values) == (found.status == "solved")  # type: ignore[operator]
            for p, n in counts.items():
                assert float(frequency(branch, p)) == pytest.approx(
                    n / sum(counts.values()), abs=1e-9
                )
    assert set(seen) == {"solved", "degenerate", "complex", "outside"}


def test_graders_of_table_2_are_complex() -> None:
    found = solve_trio(GRADERS)
    assert found.status == "complex"
    assert found.branches == ()
    assert float(found.discriminant) == pytest.approx(-4.03e-6, abs=5e-9)


@pytest.mark.parametrize(
    ("table", "status", "reason", "branches"),
    [
        ([3, 3, 0, 2, 4, 3, 3, 2], "outside", "prevalence leaves", 2),
        ([4, 1, 4, 3, 3, 4, 2, 0], "outside", "accuracy leaves", 2),
        ([0, 2, 3, 4, 0, 2, 3, 2], "outside", "D is 0", 0),
        ([0, 4, 2, 4, 4, 1, 2, 0], "complex", "negative", 0),
        ([2, 4, 1, 2, 1, 1, 1, 0], "degenerate", "exactly one pair", 0),
        ([1, 1, 2, 2, 0, 0, 3, 3], "degenerate", "only guesses", 0),
        ([9, 0, 0, 0, 0, 0, 0, 0], "degenerate", "only one true label", 0),
    ],
)
def test_failures_have_a_status_and_a_reason(
    table: list[int], status: str, reason: str, branches: int
) -> None:
    found = solve_trio(dict(zip(PATTERNS, table, strict=True)))
    assert (found.status, len(found.branches)) == (status, branches)
    assert reason in found.reason


def test_renaming_labels_and_order_of_classifiers_change_nothing_else() -> None:
    counts, truth = independent_counts(
        Fraction(1, 3),
        [Fraction(9, 10), Fraction(4, 5), Fraction(7, 10)],
        [Fraction(3, 5), Fraction(2, 3), Fraction(1)],
    )
    swapped = solve_trio(
        {tuple("yn"[x == "b"] for x in p): n for p, n in counts.items()}, labels=("n", "y")
    )
    assert swapped.branches[0].prevalence_rate == 1 - Fraction(1, 3)
    assert swapped.branches[0].accuracy_a == truth.accuracy_b
    turned = solve_trio({p[::-1]: n for p, n in counts.items()})
    assert turned.branches[0].accuracy_a == truth.accuracy_a[::-1]


def test_trio_needs_three_complete_binary_classifiers() -> None:
    with pytest.raises(EvidenceError, match="at least 3 answers; got 2"):
        solve_trio({("a", "b"): 3})
    with pytest.raises(EvidenceError, match="three answers; got 4"):
        solve_trio({("a", "b", "a", "a"): 3})
    with pytest.raises(EvidenceError, match="must be two"):
        solve_trio({("a", "b", "c"): 3})
    with pytest.raises(EvidenceError, match="at least one item"):
        solve_trio({("a", "b", "a"): 0})
    with pytest.raises(ArgumentError, match="two different labels"):
        solve_trio({("a", "a", "a"): 3})


def test_majority_evaluation_is_that_of_table_3_and_not_the_solution() -> None:
    accuracies = [Fraction(9, 10), Fraction(4, 5), Fraction(7, 10)]
    counts, truth = independent_counts(Fraction(1, 5), accuracies, accuracies)
    n = sum(counts.values())
    vote = evaluate_majority(counts)
    assert vote.prevalence_rate == Fraction(
        sum(counts[tuple(p)] for p in ("aaa", "aab", "aba", "baa")), n
    )
    assert vote.prevalence_rate != truth.prevalence_rate
    assert solve_trio(counts).branches[0] == truth
    graders = evaluate_majority(GRADERS)
    assert graders.accuracy_b[2] == Fraction(1 + 13 + 33, 1 + 13 + 33 + 87)
    assert evaluate_majority({("a", "a", "a"): 3}, labels="ab").accuracy_b == (None, None, None)
    with pytest.raises(EvidenceError, match="odd number"):
        evaluate_majority({("a", "b"): 3})


# ---------------------------------------------------------------------------------------------------------------------------------
# tetrads


def draw(
    rng: np.random.Generator,
    n: int,
    p_a: float,
    a: list[float],
    b: list[float],
    shared: float = 0.0,
    copies: int = 2,
) -> dict[tuple[int, ...], int]:
    """Answers of classifiers that err independently, but for a share of items on which the first
    ``copies`` answer alike.
    """
    is_a = rng.random(n) < p_a
    right = rng.random((n, len(a))) < np.where(is_a[:, None], a, b)
    alike = rng.random(n) < shared
    right[alike, 1:copies] = right[alike, :1]
    return dict(Counter(map(tuple, np.where(is_a[:, None], ~right, right).astype(int).tolist())))


NULL = [
    (300, 0.5, [0.8] * 4, [0.8] * 4),
    (300, 0.8, [0.9, 0.7, 0.6, 0.55], [0.6, 0.9, 0.8, 0.7]),
    (100, 0.3, [0.99] * 4, [0.97] * 4),
    (1000, 0.5, [0.5] * 4, [0.5] * 4),
    (2000, 0.02, [0.9] * 4, [0.98] * 4),
    (500, 0.5, [0.95] * 6, [0.9] * 6),
    (30, 0.5, [0.7] * 4, [0.7] * 4),
]


@pytest.mark.thin(3)
@pytest.mark.parametrize(("n", "p_a", "a", "b"), NULL)
def test_tetrads_keep_their_error_rate_for_independent_classifiers(
    n: int, p_a: float, a: list[float], b: list[float]
) -> None:
    rng = np.random.default_rng(n)
    runs = 600
    p = np.array(
        [check_independence(draw(rng, n, p_a, a, b), labels=(0, 1)).p_value for _ in range(runs)]
    )
    for level in (0.05, 0.01):
        assert np.mean(p < level) <= level + 3 * math.sqrt(level * (1 - level) / runs)


@pytest.mark.parametrize(
    "order", [(0, 1, 2, 3), (0, 2, 1, 3), (0, 2, 3, 1), (2, 0, 1, 3), (2, 0, 3, 1), (2, 3, 0, 1)]
)
def test_tetrads_see_errors_that_two_of_four_share(order: tuple[int, ...]) -> None:
    """Whichever two they are."""
    rng = np.random.default_rng(2)
    for _ in range(10):
        drawn = draw(rng, 2000, 0.5, [0.8] * 4, [0.75] * 4, shared=0.45)
        check = check_independence({tuple(p[i] for i in order): n for p, n in drawn.items()})
        assert check.refutes_only
        assert not check.passed


def test_tetrads_are_all_three_of_every_four_with_their_standard_errors() -> None:
    """Against differences and a bootstrap computed by hand."""
    rng = np.random.default_rng(9)
    counts = draw(rng, 400, 0.5, [0.9, 0.8, 0.7, 0.8], [0.8, 0.7, 0.9, 0.6], shared=0.3)
    x = np.repeat(np.array(list(counts)), list(counts.values()), axis=0)

    def differences(sample: np.ndarray) -> dict[frozenset[frozenset[frozenset[int]]], float]:
        delta = np.cov(sample.T, bias=True)
        splits = (((0, 1), (2, 3)), ((0, 2), (1, 3)), ((0, 3), (1, 2)))
        product = {frozenset(map(frozenset, s)): delta[s[0]] * delta[s[1]] for s in splits}
        return {
            frozenset((u, v)): abs(product[u] - product[v])
            for u, v in itertools.combinations(product, 2)
        }

    signed = np.array([list(_signed(x[rng.integers(0, 400, 400)])) for _ in range(3000)])
    spread = dict(zip(differences(x), signed.std(axis=0), strict=True))
    parts = check_independence(counts).parts
    assert len(parts) == 3
    seen = set()
    for part in parts:
        i, j, k, m = (int(s) - 1 for s in part["systems"])
        key = frozenset(frozenset(map(frozenset, s)) for s in (((i, j), (k, m)), ((i, k), (j, m))))
        seen.add(key)
        assert abs(part["difference"]) == pytest.approx(differences(x)[key])
        assert abs(part["difference"] / part["statistic"]) == pytest.approx(spread[key], rel=0.2)
    assert seen == set(differences(x))


def _signed(sample: np.ndarray) -> tuple[float, float, float]:
    d = np.cov(sample.T, bias=True)
    u, v, w = d[0, 1] * d[2, 3], d[0, 2] * d[1, 3], d[0, 3] * d[1, 2]
    return u - v, u - w, v - w


def test_trio_does_not_see_what_tetrads_see() -> None:
    """With three classifiers there is nothing left to test: shared errors give a solution that is
    wrong.
    """
    rng = np.random.default_rng(3)
    counts = draw(rng, 20_000, 0.6, [0.8] * 4, [0.75] * 4, shared=0.4)
    three: Counter[tuple[int, ...]] = Counter()
    for p, n in counts.items():
        three[p[:3]] += n
    found = solve_trio(three)
    assert found.status == "solved"
    assert abs(float(found.branches[0].accuracy_a[0]) - 0.8) > 0.05  # type: ignore[arg-type]
    assert not check_independence(counts, labels=(0, 1)).passed


def test_identical_copies_pass_because_a_pass_proves_nothing() -> None:
    check = check_independence({("a",) * 4: 60, ("b",) * 4: 40})
    assert check.passed
    assert check.refutes_only
    assert check.p_value == 1.0


def test_a_difference_without_spread_counts_against_independence() -> None:
    """Two pairs of copies in balance: the pairs' moments do not vary at all, and still the tetrad
    is far from 0.
    """
    check = check_independence(
        dict.fromkeys((tuple("aaaa"), tuple("aabb"), tuple("bbaa"), tuple("bbbb")), 50)
    )
    assert not check.passed
    assert math.isfinite(check.statistic)


def test_few_items_are_not_enough_and_say_so() -> None:
    check = check_independence({("a", "a", "b", "b"): 15, ("b", "b", "a", "a"): 14})
    assert math.isnan(check.p_value)
    assert check.reason == "too few items to tell"
    constant = check_independence({("a",) * 4: 50}, labels="ab")
    assert math.isnan(constant.p_value)
    assert "nothing to test" in constant.reason


def test_order_and_names_change_nothing_in_the_test() -> None:
    rng = np.random.default_rng(4)
    counts = draw(rng, 500, 0.5, [0.9, 0.8, 0.7, 0.6, 0.75], [0.8] * 5, shared=0.3)
    first = check_independence(counts)
    other = check_independence(
        {tuple("yx"[v] for v in p[::-1]): n for p, n in reversed(counts.items())},
        systems=list("EDCBA"),
    )
    assert other.p_value == pytest.approx(first.p_value, rel=1e-6)
    assert other.counts["tetrads"] == 15
    assert type(first).from_dict(first.to_dict()).to_dict() == first.to_dict()


def test_tetrads_need_four_binary_classifiers() -> None:
    with pytest.raises(EvidenceError, match="at least 4 answers; got 3"):
        check_independence(GRADERS)
    with pytest.raises(EvidenceError, match="tetrads need not vanish"):
        check_independence({("a", "b", "c", "a"): 40})
    with pytest.raises(ArgumentError, match="one name for each of the 4"):
        check_independence({("a", "b", "a", "a"): 40}, systems=["x"])


# ---------------------------------------------------------------------------------------------------------------------------------
# margins


def margins_of(
    joint: dict[tuple[str, ...], int], subsets: list[tuple[int, ...]]
) -> dict[tuple[str, ...], dict[tuple[str, ...], int]]:
    found: dict[tuple[str, ...], Counter[tuple[str, ...]]] = {}
    for who in subsets:
        table = found.setdefault(tuple(f"s{i}" for i in who), Counter())
        for p, n in joint.items():
            table[tuple(p[i] for i in who)] += n
    return {who: dict(table) for who, table in found.items()}


def test_margins_of_a_real_table_are_always_possible() -> None:
    rng = random.Random(7)
    for labels, size in (("ab", 3), ("ab", 4), ("abc", 3)):
        pairs = list(itertools.combinations(range(size), 2))
        for _ in range(25):
            joint = {p: rng.randint(0, 3) for p in itertools.product(labels, repeat=size)}
            check = check_marginals(margins_of(joint, [*pairs, (0,)]), labels=labels)
            assert check.p_value == 1.0
            shown = {tuple(x["pattern"]): x["n"] for x in check.diagnostics["joint"]}
            assert margins_of(shown, pairs).keys() == margins_of(joint, pairs).keys()
            for who, table in margins_of(shown, pairs).items():
                wanted = margins_of(joint, pairs)[who]
                assert all(table.get(p, 0) == n for p, n in wanted.items())


def test_a_whole_table_is_always_possible() -> None:
    rng = random.Random(8)
    for _ in range(50):
        assert check_marginals(
            {("x", "y"): {p: rng.randint(0, 9) for p in itertools.product("ab", repeat=2)}}
        ).passed


def test_totals_and_shared_margins_that_differ_are_found() -> None:
    totals = check_marginals({("x",): {("a",): 3, ("b",): 4}, ("y",): {("a",): 3, ("b",): 5}})
    assert (totals.passed, totals.finding) == (
        False,
        "the tables of x and of y contradict each other on the total, 7 against 8 items",
    )
    shared = check_marginals(
        {("x", "y"): {("a", "a"): 3, ("b", "b"): 4}, ("y", "z"): {("a", "b"): 4, ("b", "a"): 3}}
    )
    assert (shared.passed, shared.finding) == (
        False,
        "the tables of x and y and of y and z contradict each other on y",
    )


def test_impossible_margins_carry_weights_that_prove_it() -> None:
    """Three people cannot differ in every pair when there are two labels, nor on more than two
    thirds of all pairs.
    """
    for same, differ in ((0, 5), (1, 4), (3, 7)):
        table = {("a", "a"): same, ("b", "b"): same, ("a", "b"): differ, ("b", "a"): differ}
        margins = {("x", "y"): table, ("y", "z"): table, ("x", "z"): table}
        check = check_marginals(margins)
        assert check.p_value == 0.0
        assert check.diagnostics["proof"] == "weights"
        weights = {
            (tuple(w["systems"]), tuple(w["pattern"])): w["weight"]
            for w in check.diagnostics["weights"]
        }
        assert all(isinstance(w, int) for w in weights.values())
        assert sum(w * margins[who][p] for (who, p), w in weights.items()) < 0
        for joint in itertools.product("ab", repeat=3):
            said = dict(zip("xyz", joint, strict=True))
            assert (
                sum(w for (who, p), w in weights.items() if tuple(said[s] for s in who) == p) >= 0
            )
    table = {("a", "a"): 2, ("b", "b"): 2, ("a", "b"): 4, ("b", "a"): 4}
    assert check_marginals({("x", "y"): table, ("y", "z"): table, ("x", "z"): table}).passed


def test_the_solver_alone_is_named_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marginals, "_weights", lambda *_: None)
    differ = {("a", "b"): 5, ("b", "a"): 5}
    check = check_marginals({("x", "y"): differ, ("y", "z"): differ, ("x", "z"): differ})
    assert not check.passed
    assert "only the solver" in check.finding


def test_too_many_joint_patterns_leave_it_open() -> None:
    table = {("a", "a"): 3, ("b", "b"): 4}
    check = check_marginals({(f"s{i}", f"s{i + 1}"): table for i in range(14)})
    assert math.isnan(check.p_value)
    assert check.passed
    assert "too many joint patterns" in check.reason


def test_bad_margins_are_named() -> None:
    with pytest.raises(ArgumentError, match="must map systems to pattern counts"):
        check_marginals({})
    with pytest.raises(ArgumentError, match="tuple of different systems"):
        check_marginals({("x", "x"): {("a", "b"): 3}})
    with pytest.raises(EvidenceError, match="must have 2 answers"):
        check_marginals({("x", "y"): {("a",): 3, ("b",): 2}})
