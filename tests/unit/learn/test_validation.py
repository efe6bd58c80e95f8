"""Accuracy and loss of a model from ruled-out labels: values by enumeration, forms of labels,
promises, edges, errors.
"""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from noracle.errors import ArgumentError, EvidenceError, GuaranteeWarning, SingularTransition
from noracle.learn import estimate_model_accuracy, estimate_scel, fit_temperature
from noracle.learn.labels import draw_ruled_out
from noracle.learn.scores import RuledOut, item_scores, read_ruled_out
from noracle.learn.transition import Transition, count_transition, estimate_transition
from noracle.results import Estimate, Kind

K = 4
T = np.array(
    [[0.05, 0.6, 0.15, 0.2], [0.3, 0.0, 0.5, 0.2], [0.1, 0.2, 0.1, 0.6], [0.45, 0.25, 0.3, 0.0]]
)
BIASED = Transition(T)
MATRICES = {"uniform": Transition.uniform(K), "noisy": Transition.noisy(K, 0.1), "biased": BIASED}


def drawn(transition: Transition, n: int = 400, accuracy: float = 0.7, seed: int = 1):
    rng = np.random.default_rng(seed)
    k = transition.n_classes
    truth = rng.integers(k, size=n)
    predicted = np.where(rng.random(n) < accuracy, truth, (truth + rng.integers(1, k, size=n)) % k)
    return predicted, draw_ruled_out(truth, transition=transition, rng=rng), truth


# ----------------------------------------------------------------------------------------------------
# unbiased by enumeration


@pytest.mark.parametrize("name", MATRICES)
def test_score_is_unbiased_for_every_truth_and_answer(name: str) -> None:
    """Σ_k T[y, k]·score(k, a) = 1{a = y}: the defining equation, and what a transposed T breaks."""
    transition = MATRICES[name]
    for y in range(K):
        for a in range(K):
            labels = RuledOut(said=np.arange(K)[:, None], n_classes=K)
            scores = item_scores(np.full(K, a), labels, transition)
            assert transition.matrix[y] @ scores == pytest.approx(float(a == y), abs=1e-12)


def test_score_of_a_uniform_set_is_unbiased_for_every_size() -> None:
    from itertools import combinations

    for y in range(K):
        for m in range(1, K):
            sets = np.array(list(combinations([c for c in range(K) if c != y], m)))
            labels = RuledOut(said=sets, n_classes=K)
            for a in range(K):
                assert item_scores(
                    np.full(len(sets), a), labels, MATRICES["uniform"]
                ).mean() == pytest.approx(float(a == y), abs=1e-12)


@pytest.mark.parametrize("name", MATRICES)
@pytest.mark.parametrize("interval", [None, "fixed-n", "betting", "wald"])
def test_value_is_the_mean_score_whatever_the_interval(name: str, interval) -> None:
    transition = MATRICES[name]
    predicted, ruled_out, _ = drawn(transition)
    found = estimate_model_accuracy(predicted, ruled_out, transition=transition, interval=interval)
    mean = np.mean(
        [np.linalg.inv(transition.matrix)[k, a] for k, a in zip(ruled_out, predicted, strict=True)]
    )
    assert found.value == pytest.approx(mean, abs=1e-10)
    assert found.low < found.value < found.high
    assert found.quantity == "accuracy"
    assert isinstance(found, Estimate)
    again = Estimate.from_dict(json.loads(found.to_json()))
    assert again == found
    assert "accuracy of 'model'" in str(found)


def test_order_and_split_change_nothing_and_batch_means_do() -> None:
    """The mean of batch means is not the accuracy: 1,000 items in batches of 256 leave a short last
    batch.
    """
    transition = BIASED
    predicted, ruled_out, _ = drawn(transition, n=1000)
    order = np.random.default_rng(2).permutation(1000)
    found = estimate_model_accuracy(predicted, ruled_out, transition=transition)
    assert (
        estimate_model_accuracy(predicted[order], ruled_out[order], transition=transition) == found
    )
    hard = np.argsort(
        item_scores(predicted, RuledOut(said=ruled_out[:, None], n_classes=K), transition),
        kind="stable",
    )
    batches = [hard[i : i + 256] for i in range(0, 1000, 256)]
    parts = [
        estimate_model_accuracy(
            predicted[b], ruled_out[b], transition=transition, interval="betting"
        ).value
        for b in batches
    ]
    sizes = [len(b) for b in batches]
    assert np.average(parts, weights=sizes) == pytest.approx(found.value, abs=1e-12)
    assert abs(np.mean(parts) - found.value) > 0.001


def test_names_of_classes_do_not_matter() -> None:
    predicted, ruled_out, _ = drawn(BIASED)
    order = np.array([2, 0, 3, 1])  # class c becomes order[c]
    turned = np.empty_like(T)
    turned[np.ix_(order, order)] = T
    a = estimate_model_accuracy(predicted, ruled_out, transition=BIASED)
    b = estimate_model_accuracy(order[predicted], order[ruled_out], transition=turned)
    assert (a.value, a.low, a.high) == pytest.approx((b.value, b.low, b.high), abs=1e-9)


def test_more_confidence_is_never_narrower() -> None:
    for transition in MATRICES.values():
        predicted, ruled_out, _ = drawn(transition)
        widths = [
            estimate_model_accuracy(predicted, ruled_out, transition=transition, confidence=c).width
            for c in (0.5, 0.9, 0.95, 0.999)
        ]
        assert widths == sorted(widths)


def test_one_sided_bounds_leave_the_other_end_open() -> None:
    predicted, ruled_out, _ = drawn(BIASED, n=4000)
    two = estimate_model_accuracy(predicted, ruled_out, transition=BIASED)
    lower = estimate_model_accuracy(predicted, ruled_out, transition=BIASED, side="lower")
    upper = estimate_model_accuracy(predicted, ruled_out, transition=BIASED, side="upper")
    assert lower.high == 1
    assert upper.low == 0
    assert two.low < lower.low < two.value < upper.high < two.high


# ------------------------------------------------------------------------------------------------------------
# forms of labels


def test_ints_padded_and_mask_say_the_same() -> None:
    predicted, ruled_out, _ = drawn(BIASED)
    mask = np.zeros((len(predicted), K), dtype=bool)
    mask[np.arange(len(predicted)), ruled_out] = True
    padded = np.stack([np.full_like(ruled_out, -1), ruled_out], axis=1)
    found = [
        estimate_model_accuracy(predicted, x, transition=BIASED)
        for x in (ruled_out, ruled_out[:, None], mask)
    ]
    assert found[0] == found[1] == found[2]
    assert item_scores(predicted, read_ruled_out(padded, K), BIASED).tolist() == pytest.approx(
        item_scores(predicted, read_ruled_out(ruled_out, K), BIASED).tolist()
    )
    assert estimate_model_accuracy(predicted, mask, transition="uniform").counts[
        "complementary"
    ] == len(predicted)


def test_tensors_are_read_as_arrays() -> None:
    torch = pytest.importorskip("torch", reason="the learn extra is not installed")
    predicted, ruled_out, _ = drawn(BIASED)
    found = estimate_model_accuracy(
        torch.tensor(predicted), torch.tensor(ruled_out), transition=BIASED
    )
    assert found == estimate_model_accuracy(predicted, ruled_out, transition=BIASED)


def test_uniform_sets_are_counted_by_size() -> None:
    rng = np.random.default_rng(3)
    truth = rng.integers(K, size=900)
    predicted = np.where(rng.random(900) < 0.6, truth, (truth + 1) % K)
    sets = draw_ruled_out(truth, n_classes=K, n_labels="random", rng=rng)
    found = estimate_model_accuracy(predicted, sets, transition="uniform", n_classes=K)
    assert found.guarantee.kind is Kind.FINITE_SAMPLE
    assert found.low <= 0.6 <= found.high
    assert found.value == pytest.approx(
        np.nanmean(item_scores(predicted, read_ruled_out(sets, K), Transition.uniform(K))), abs=0.02
    )
    two = draw_ruled_out(truth, n_classes=K, n_labels=2, rng=rng)
    pairs = estimate_model_accuracy(predicted, two, transition="uniform", n_classes=K)
    assert pairs.value == pytest.approx(
        item_scores(predicted, read_ruled_out(two, K), Transition.uniform(K)).mean(), abs=1e-12
    )


@pytest.mark.parametrize("interval", [None, "betting", "wald"])
def test_several_independent_labels_are_one_score_an_item(interval) -> None:
    rng = np.random.default_rng(4)
    truth = rng.integers(K, size=3000)
    predicted = np.where(rng.random(3000) < 0.7, truth, (truth + 1) % K)
    three = draw_ruled_out(truth, transition=BIASED, n_labels=3, replace=True, rng=rng)
    found = estimate_model_accuracy(predicted, three, transition=BIASED, interval=interval)
    one = estimate_model_accuracy(predicted, three[:, 0], transition=BIASED, interval=interval)
    assert found.low <= 0.7 <= found.high
    assert found.width < one.width
    assert (
        found.se > np.sqrt(1 / 3) * one.se
    )  # items are clusters: three labels are not three items
    assert found.guarantee.kind is (Kind.ASYMPTOTIC if interval == "wald" else Kind.FINITE_SAMPLE)
    assert any(
        "on their own" in a.name and a.status == "assumed" for a in found.guarantee.assumptions
    )
    assert Estimate.from_dict(json.loads(found.to_json())) == found


def test_labels_drawn_without_replacement_are_found_out() -> None:
    rng = np.random.default_rng(5)
    truth = rng.integers(K, size=500)
    two = draw_ruled_out(truth, transition=BIASED, n_labels=2, rng=rng)
    found = estimate_model_accuracy(truth, two, transition=BIASED)
    assert found.guarantee.kind is Kind.HEURISTIC
    assert any(a.status == "failed" for a in found.guarantee.assumptions)


def test_mask_of_sets_is_refused_where_repeats_matter() -> None:
    mask = np.array([[True, True, False, False]] * 3)
    with pytest.raises(ArgumentError, match="repeats kept"):
        estimate_model_accuracy([2, 2, 2], mask, transition=BIASED)


# -----------------------------------------------------------------------------------------------------------
# what is promised


def test_kinds_of_promise() -> None:
    predicted, ruled_out, truth = drawn(BIASED, n=4000)
    assert (
        estimate_model_accuracy(predicted, ruled_out, transition=BIASED).guarantee.kind
        is Kind.FINITE_SAMPLE
    )
    betting = estimate_model_accuracy(
        predicted, ruled_out, transition=BIASED, interval="betting"
    ).guarantee
    assert betting.anytime
    assert not estimate_model_accuracy(predicted, ruled_out, transition=BIASED).guarantee.anytime
    assert (
        estimate_model_accuracy(
            predicted, ruled_out, transition=BIASED, interval="wald"
        ).guarantee.kind
        is Kind.ASYMPTOTIC
    )
    names = {a.name for a in betting.assumptions}
    assert "known transition matrix" in names
    assert "right verdicts" not in names  # T says how often verdicts are wrong
    counted = estimate_model_accuracy(
        predicted, ruled_out, transition=count_transition(truth, ruled_out, n_classes=K)
    )
    assert counted.guarantee.kind is Kind.HEURISTIC
    assert counted.diagnostics["transition"]["oracle"]
    assert any(note.startswith("oracle") for note in counted.notes)
    anchors = estimate_transition(np.repeat(Transition.uniform(K).matrix, 20, axis=0))
    assert (
        estimate_model_accuracy(
            predicted, ruled_out, transition=anchors.with_floor(0.01)
        ).guarantee.kind
        is Kind.HEURISTIC
    )


def test_intervals_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ArgumentError, match="interval must be one of fixed-n, betting, wald"):
        estimate_model_accuracy([0], [1], transition=BIASED, interval="exact")
    with pytest.raises(ArgumentError, match="interval must be one of exact"):
        estimate_model_accuracy([0], [1], transition="uniform", n_classes=3, interval="profile")


def test_exact_with_noise_is_clopper_pearson_on_the_hits() -> None:
    from scipy.stats import binomtest

    for noise in (
        0.1,
        0.6,
    ):  # labels that are wrong more often than by chance tell as much, the other way round
        transition = Transition.noisy(K, noise)
        predicted, ruled_out, _ = drawn(transition, n=1000)
        ci = binomtest(int((predicted == ruled_out).sum()), 1000).proportion_ci(
            0.95, method="exact"
        )
        ends = sorted(((1 - noise) - (K - 1) * q) / (1 - noise * K) for q in (ci.low, ci.high))
        found = estimate_model_accuracy(predicted, ruled_out, transition=transition)
        assert found.interval == "exact"
        assert (found.low, found.high) == pytest.approx(
            (max(ends[0], 0), min(ends[1], 1)), abs=1e-9
        )


def test_singular_matrix_has_its_own_error() -> None:
    singular = Transition.noisy(K, 1 / K)
    for interval in (None, "exact", "fixed-n", "betting", "wald"):
        with pytest.raises(SingularTransition):
            estimate_model_accuracy([0, 1], [1, 2], transition=singular, interval=interval)
    with pytest.raises(SingularTransition):
        estimate_model_accuracy([0, 1], [[1, 1], [2, 2]], transition=singular)
    assert estimate_scel(np.zeros((2, K)), [1, 2], transition=singular).value == pytest.approx(
        math.log(K)
    )  # needs no inverse


def test_impossible_labels_raise_the_alarm() -> None:
    """Every prediction ruled out: no accuracy in [0, 1] explains it."""
    zeros = np.zeros(500, dtype=int)
    for transition in MATRICES.values():
        found = estimate_model_accuracy(zeros, zeros, transition=transition)
        assert found.diagnostics["routing_alarm"]
        assert found.low == found.high == 0
        assert any("routing alarm" in note for note in found.notes)


# ----------------------------------------------------------------------------------------------------------------------
# edges


@pytest.mark.parametrize("name", MATRICES)
def test_no_items_no_labels_and_no_answers_are_honest(name: str) -> None:
    transition = MATRICES[name]
    none = np.zeros(0, dtype=int)
    empty = estimate_model_accuracy(none, none, transition=transition)
    assert math.isnan(empty.value)
    assert empty.reason == "no items"
    unlabelled = estimate_model_accuracy([0, 1], [-1, -1], transition=transition)
    assert math.isnan(unlabelled.value)
    assert (unlabelled.low, unlabelled.high) == (0, 1)
    assert "no usable label" in unlabelled.reason
    silent = estimate_model_accuracy([-1, -1, -1], [0, 1, 2], transition=transition)
    assert (silent.value, silent.low, silent.high) == (0, 0, 0)
    one = estimate_model_accuracy([0], [1], transition=transition)
    assert one.low == 0 or name == "biased"
    assert 0 <= one.low <= one.high <= 1
    for found in (empty, unlabelled, silent, one):
        assert Estimate.from_dict(json.loads(found.to_json())).to_dict() == found.to_dict()


def test_wald_on_one_label_is_vacuous_and_warns() -> None:
    with pytest.warns(GuaranteeWarning):
        found = estimate_model_accuracy([0], [1], transition=BIASED, interval="wald")
    assert (found.low, found.high) == (0, 1)
    with pytest.warns(GuaranteeWarning):
        estimate_model_accuracy([0], [[1, 2]], transition=BIASED, interval="wald")


def test_no_answer_scores_nothing() -> None:
    predicted, ruled_out, _ = drawn(BIASED, n=2000)
    predicted[::4] = -1
    found = estimate_model_accuracy(predicted, ruled_out, transition=BIASED)
    rest = estimate_model_accuracy(
        predicted[predicted >= 0], ruled_out[predicted >= 0], transition=BIASED
    )
    assert found.value == pytest.approx(0.75 * rest.value)
    assert found.high <= 0.75
    several = np.stack([ruled_out, ruled_out], axis=1)
    assert estimate_model_accuracy(predicted, several, transition=BIASED).value == pytest.approx(
        found.value
    )


def test_faults_are_named() -> None:
    with pytest.raises(ArgumentError, match="n_classes must be given"):
        estimate_model_accuracy([0], [1], transition="uniform")
    with pytest.raises(ArgumentError, match="4 rows"):
        estimate_model_accuracy([0], [1], transition=BIASED, n_classes=5)
    with pytest.raises(EvidenceError, match=r"ruled_out must be in \[-1, 4\); got 7 at item 1"):
        estimate_model_accuracy([0, 0], [1, 7], transition=BIASED)
    with pytest.raises(EvidenceError, match=r"predicted must be in"):
        estimate_model_accuracy([0, 4], [1, 1], transition=BIASED)
    with pytest.raises(EvidenceError, match="one class for each of the 2 items"):
        estimate_model_accuracy([0], [1, 1], transition=BIASED)
    with pytest.raises(EvidenceError, match="whole class numbers"):
        estimate_model_accuracy([0.0, 1.0], [1, 1], transition=BIASED)
    with pytest.raises(EvidenceError, match="must leave a class"):
        estimate_model_accuracy([0], [[0, 1, 2, 3]], transition="uniform", n_classes=4)
    with pytest.raises(ArgumentError, match="'uniform', a matrix"):
        estimate_model_accuracy([0], [1], transition="even", n_classes=4)


# -----------------------------------------------------------------------------------------------------------------------
# scel


def chances(n: int = 300, seed: int = 1, scale: float = 2.0):
    rng = np.random.default_rng(seed)
    z = rng.normal(scale=scale, size=(n, K))
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    truth = np.array([rng.choice(K, p=row) for row in p])
    return z, p, truth, draw_ruled_out(truth, transition=BIASED, rng=rng)


def test_scel_is_the_naive_mean_of_minus_log() -> None:
    pytest.importorskip("torch", reason="the learn extra is not installed")
    z, p, _, ruled_out = chances()
    losses = [-math.log(sum(p[i, j] * T[j, k] for j in range(K))) for i, k in enumerate(ruled_out)]
    found = estimate_scel(z, ruled_out, transition=BIASED)
    assert found.value == pytest.approx(np.mean(losses), abs=1e-12)
    assert found.se == pytest.approx(np.std(losses, ddof=1) / math.sqrt(300), abs=1e-12)
    assert (found.low + found.high) / 2 == pytest.approx(found.value)
    assert found.guarantee.kind is Kind.ASYMPTOTIC
    assert Estimate.from_dict(json.loads(found.to_json())) == found
    assert str(found).startswith("scel of 'model'")
    order = np.random.default_rng(1).permutation(300)
    assert estimate_scel(z[order], ruled_out[order], transition=BIASED).value == pytest.approx(
        found.value, abs=1e-12
    )
    transposed = estimate_scel(z, ruled_out, transition=T.T / T.T.sum(axis=1, keepdims=True)).value
    assert abs(transposed - found.value) > 0.01


def test_scel_of_several_labels_counts_repeats_and_skips_none() -> None:
    pytest.importorskip("torch", reason="the learn extra is not installed")
    z, p, _, _ = chances(3)
    said = np.array([[1, 1, 2], [0, -1, -1], [-1, -1, -1]])
    through = p @ T
    want = np.mean(
        [-(2 * math.log(through[0, 1]) + math.log(through[0, 2])) / 3, -math.log(through[1, 0])]
    )
    found = estimate_scel(z, said, transition=BIASED)
    assert found.value == pytest.approx(want)
    assert found.counts["labelled"] == 2


def test_temperature_is_the_best_of_a_fine_grid_and_scales_with_the_logits() -> None:
    pytest.importorskip("torch", reason="the learn extra is not installed")
    z, _, _, ruled_out = chances(4000)
    tau = fit_temperature(3.0 * z, ruled_out, BIASED)
    assert tau == pytest.approx(3, rel=0.25)
    grid = np.exp(np.linspace(-2, 3, 101))
    losses = [
        estimate_scel(3.0 * z, ruled_out, transition=BIASED, temperature=t).value for t in grid
    ]
    found = estimate_scel(3.0 * z, ruled_out, transition=BIASED, temperature="fit")
    assert found.value <= min(losses) + 1e-7
    assert found.diagnostics["temperature"] == tau
    assert any("fitted to the same labels" in note for note in found.notes)
    assert fit_temperature(300.0 * z, ruled_out, BIASED) == pytest.approx(100 * tau, rel=1e-3)


def test_temperature_ends_are_finite() -> None:
    pytest.importorskip("torch", reason="the learn extra is not installed")
    assert fit_temperature(np.zeros((3, K)), [0, 1, 2], BIASED) == 1.0
    useless = np.eye(K)[[0, 1, 2, 3] * 20] * 5
    assert math.isfinite(fit_temperature(useless, [0, 1, 2, 3] * 20, "uniform"))  # always ruled out
    perfect = fit_temperature(useless, [1, 2, 3, 0] * 20, "uniform")
    assert 0 < perfect < 1
    with pytest.raises(EvidenceError, match="must have a label"):
        fit_temperature(np.zeros((2, K)), [-1, -1], BIASED)


def test_scel_edges_are_honest() -> None:
    pytest.importorskip("torch", reason="the learn extra is not installed")
    none = estimate_scel(np.zeros((0, K)), np.zeros(0, dtype=int), transition=BIASED)
    assert math.isnan(none.value)
    assert none.reason == "no labels"
    one = estimate_scel(np.zeros((1, K)), [1], transition=BIASED, temperature="fit")
    assert math.isnan(one.high)
    assert one.guarantee.kind is Kind.HEURISTIC
    assert "no standard error" in one.reason
    assert str(one)
    extreme = estimate_scel(np.array([[1e4, -1e4, 0, 0]] * 40), [0] * 40, transition="uniform")
    assert math.isfinite(extreme.value)
    with pytest.raises(EvidenceError, match="logits must be finite"):
        estimate_scel([[np.nan, 0.0]], [1], transition="uniform")
    with pytest.raises(ArgumentError, match="temperature must be positive"):
        estimate_scel(np.zeros((1, K)), [1], transition=BIASED, temperature=0.0)


def test_an_unsound_wald_interval_names_one_that_these_labels_may_have() -> None:
    """Before, it named 'exact', which a general T refuses."""
    T = [[0.1, 0.8, 0.1], [0.5, 0.1, 0.4], [0.2, 0.7, 0.1]]
    with pytest.warns(GuaranteeWarning, match="use interval='fixed-n'"):
        estimate_model_accuracy([0, 1, 2], [1, 0, 1], transition=T, interval="wald")
    estimate_model_accuracy([0, 1, 2], [1, 0, 1], transition=T, interval="fixed-n")
