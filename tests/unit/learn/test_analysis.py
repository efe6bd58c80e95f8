"""The analysis of labels says what hand counts say, whatever the order and the names, and is honest
where little is known.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from referencing import Registry, Resource

from noracle.bounds.betting import Score, betting_interval
from noracle.bounds.binomial import clopper_pearson
from noracle.errors import ArgumentError, EvidenceError
from noracle.learn.analysis import analyse_labels
from noracle.learn.labels import ask_annotators, biased_transition, draw_ruled_out
from noracle.learn.transition import Transition, count_transition
from noracle.report.page import render_page
from noracle.results import Kind, LabelAnalysis, read_result
from noracle.schemas import load_schema, schema_names
from noracle.superhuman.agreement import agreements

SCHEMAS: Registry[Any] = Registry().with_resources(
    (load_schema(n)["$id"], Resource.from_contents(load_schema(n))) for n in schema_names()
)


def valid(result: LabelAnalysis) -> LabelAnalysis:
    """The same, after its JSON was checked and read back."""
    data = json.loads(result.to_json())
    jsonschema.Draft202012Validator(load_schema("analysis/1"), registry=SCHEMAS).validate(data)
    back = read_result(data)
    assert isinstance(back, LabelAnalysis)
    assert back.to_dict() == result.to_dict()
    assert str(back) == str(result)
    assert repr(back) == repr(result)
    return back


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(11)


# --------------------------------------------------------------------------------------------------------------------
# hand counts


def test_numbers_are_those_of_hand_counts() -> None:
    truth = [0, 0, 1, 1, 2, 2, 2, 1, -1]
    found = analyse_labels(
        [1, 2, 0, 2, 0, 0, 1, 1, 2],
        classes=["ant", "bee", "cow"],
        truth=truth,
        annotator=["x", "y", "x", "y", "x", "y", "x", "y", "x"],
        seconds=[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, math.nan, 9.0],
    )
    assert found.oracle
    assert (found.noise.value, found.noise.counts["wrong"], found.noise.counts["labels"]) == (
        1 / 8,
        1,
        8,
    )
    assert (found.noise.low, found.noise.high) == pytest.approx(
        clopper_pearson(1, 8, 0.025, 0.025), rel=1e-9
    )
    assert found.noise.interval == "exact"
    assert found.noise.guarantee.kind == Kind.FINITE_SAMPLE
    assert [(r.name, r.hits, r.n) for r in found.noise_by_class] == [
        ("ant", 0, 2),
        ("bee", 1, 3),
        ("cow", 0, 3),
    ]
    assert [(r.hits, r.n) for r in found.shares] == [(3, 9), (3, 9), (3, 9)]
    assert [(r.hits, r.n) for r in found.preferences] == [(3, 5), (2, 5), (2, 4)]
    assert found.transitions[0].counts == ((0, 1, 1), (1, 1, 1), (2, 1, 0))
    assert [(a.name, a.n_labels, a.noise.hits, a.noise.n) for a in found.annotators] == [
        ("x", 5, 0, 4),
        ("y", 4, 1, 4),
    ]
    assert [a.favourite for a in found.annotators] == [("ant", "bee"), ("cow",)]
    assert [a.seconds for a in found.annotators] == [5.0, 4.0]
    assert found.counts == {
        "items": 9,
        "labelled_items": 9,
        "labels": 9,
        "n_classes": 3,
        "trusted_items": 8,
        "trusted_labels": 8,
        "annotators": 2,
        "labels_without_annotator": 0,
    }


def test_counted_matrix_is_that_of_count_transition_and_is_marked_oracle(
    rng: np.random.Generator,
) -> None:
    truth = rng.integers(0, 4, 400)
    said = draw_ruled_out(
        truth, transition=biased_transition(4, bias="strong", rng=rng).with_noise(0.1), rng=rng
    )
    table = analyse_labels(said, n_classes=4, truth=truth).transitions[0]
    expected = count_transition(truth, said, n_classes=4)
    assert np.allclose(table.matrix, expected.matrix, atol=1e-15)
    assert (table.condition, table.strength, table.oracle, table.usable) == (
        expected.condition,
        expected.strength,
        True,
        True,
    )


def test_rows_of_a_table_share_the_error_rate(rng: np.random.Generator) -> None:
    truth = rng.integers(0, 5, 300)
    said = draw_ruled_out(truth, n_classes=5, rng=rng)
    found = analyse_labels(said, n_classes=5, confidence=0.9)
    for k, rate in enumerate(found.shares):
        assert (rate.low, rate.high) == pytest.approx(
            clopper_pearson(int((said == k).sum()), 300, 0.1 / 10, 0.1 / 10), rel=1e-9
        )


def test_noise_of_classes_and_annotators_share_the_error_rate(rng: np.random.Generator) -> None:
    truth, who = rng.integers(0, 5, 300), rng.integers(0, 7, 300)
    said = draw_ruled_out(truth, transition=Transition.noisy(5, 0.1), rng=rng)
    found = analyse_labels(said, n_classes=5, truth=truth, annotator=who)
    for k, rate in enumerate(found.noise_by_class):
        mine = truth == k
        limits = clopper_pearson(
            int((said == truth)[mine].sum()), int(mine.sum()), 0.05 / 10, 0.05 / 10
        )
        assert (rate.low, rate.high) == pytest.approx(limits, rel=1e-9)
    for k, row in enumerate(found.annotators):
        mine = who == k
        limits = clopper_pearson(
            int((said == truth)[mine].sum()), int(mine.sum()), 0.05 / 14, 0.05 / 14
        )
        assert (row.noise.low, row.noise.high) == pytest.approx(limits, rel=1e-9)


def test_several_labels_of_an_item_count_as_one_observation() -> None:
    truth = np.zeros(60, dtype=np.int64)
    said = np.ones((60, 3), dtype=np.int64)
    said[:6] = 0  # six hard items fool everybody
    found = analyse_labels(said, n_classes=3, truth=truth)
    limits = betting_interval([Score(1, 0, 1, 6), Score(0, 0, 1, 54)], 0.025, 0.025)
    assert (found.noise.value, found.noise.interval) == (0.1, "betting")
    assert (found.noise.low, found.noise.high) == pytest.approx(limits, rel=1e-9)
    pooled = clopper_pearson(18, 180, 0.025, 0.025)
    assert found.noise.low < pooled[0] < pooled[1] < found.noise.high


def test_agreement_is_that_of_the_superhuman_part(rng: np.random.Generator) -> None:
    truth = rng.integers(0, 6, 200)
    asked = ask_annotators(truth, n_classes=6, error=np.full(8, 0.1), rng=rng)
    found = analyse_labels(asked.ruled_out, n_classes=6, annotator=asked.annotator)
    votes = np.stack([np.bincount(row, minlength=6) for row in asked.ruled_out])
    assert found.agreement.value == pytest.approx(agreements(votes)[0].mean(), abs=1e-12)
    assert found.agreement.low < found.agreement.value < found.agreement.high
    same = (asked.ruled_out[:, :, None] == asked.ruled_out[:, None, :]).sum(axis=2) - 1
    for row in found.annotators:
        mine = asked.annotator == int(row.name)
        assert row.agreement == pytest.approx(same[mine].sum() / (2 * mine.sum()))


def test_labels_of_one_annotator_do_not_agree_with_each_other() -> None:
    found = analyse_labels([[1, 1], [2, 2], [1, 2]], n_classes=3, annotator=["x", "x", "x"])
    assert math.isnan(found.agreement.value)
    assert found.agreement.reason == "no item has labels of two annotators"
    assert (
        found.annotators[0].n_labels,
        found.annotators[0].n_items,
        found.annotators[0].pairs,
    ) == (6, 3, 0)


# -------------------------------------------------------------------------------------------------------
# forms of the same labels


def test_sets_masks_and_names_say_the_same() -> None:
    mask = np.array([[False, True, True], [True, False, False], [False, True, False]])
    padded = [[1, 2], [0, -1], [1, -1]]
    names = np.array([["b", "c"], ["a", ""], ["b", None]], dtype=object)
    truth = ["a", "c", None]
    one = analyse_labels(mask, classes="abc", truth=[0, 2, -1])
    assert analyse_labels(padded, classes="abc", truth=[0, 2, -1]).to_dict() == one.to_dict()
    assert analyse_labels(names, classes="abc", truth=truth).to_dict() == one.to_dict()
    assert (
        analyse_labels(
            [[1.0, 2.0], [0.0, math.nan], [1.0, math.nan]], classes="abc", truth=[0, 2, math.nan]
        ).to_dict()
        == one.to_dict()
    )


def test_classes_are_inferred_and_said() -> None:
    found = analyse_labels([0, 3, 1])
    assert found.classes == ("0", "1", "2", "3")
    assert "4 classes inferred: those that were seen" in found.notes
    assert analyse_labels(["dog", "cat", ""]).classes == ("cat", "dog")


def test_truth_outside_the_trusted_part_is_not_looked_at(rng: np.random.Generator) -> None:
    truth = rng.integers(0, 4, 100)
    said = draw_ruled_out(truth, n_classes=4, rng=rng)
    trusted = np.arange(100) < 40
    lies = np.where(trusted, truth, 99)
    found = analyse_labels(said, n_classes=4, truth=lies, trusted=trusted)
    hidden = analyse_labels(said, n_classes=4, truth=np.where(trusted, truth, -1))
    assert found.to_dict() == hidden.to_dict()
    assert found.counts["trusted_items"] == 40
    assert {a.name: a.status for a in found.noise.guarantee.assumptions}[
        "trusted items are drawn like the others"
    ] == "assumed"


def _big(rng: np.random.Generator, n: int = 240) -> dict[str, Any]:
    truth = rng.integers(0, 4, n)
    asked = ask_annotators(truth, n_classes=4, error=np.linspace(0, 0.5, 6), n_shown=3, rng=rng)
    said = np.where(rng.random(asked.ruled_out.shape) < 0.1, -1, asked.ruled_out)
    features = rng.normal(size=(n, 3)).round(1)
    return {
        "ruled_out": said,
        "truth": np.where(rng.random(n) < 0.7, truth, -1),
        "annotator": asked.annotator,
        "seconds": rng.integers(1, 30, said.shape),
        "features": features,
    }


@pytest.mark.parametrize("several", [False, True])
def test_order_of_items_changes_nothing(rng: np.random.Generator, several: bool) -> None:
    given = _big(rng)
    if not several:
        given = {
            k: v[:, 0] if k in ("ruled_out", "annotator", "seconds") else v
            for k, v in given.items()
        }
    order = rng.permutation(len(given["truth"]))
    one = analyse_labels(**given, n_classes=4, n_permutations=500)
    assert (
        analyse_labels(
            **{k: v[order] for k, v in given.items()}, n_classes=4, n_permutations=500
        ).to_dict()
        == one.to_dict()
    )


def test_names_of_classes_change_nothing(rng: np.random.Generator) -> None:
    given = _big(rng)
    given = {
        k: v[:, 0] if k in ("ruled_out", "annotator", "seconds") else v for k, v in given.items()
    }
    new = np.array([2, 0, 3, 1])  # old class k is now called new[k]

    def renamed(values: np.ndarray) -> np.ndarray:
        return np.where(values < 0, -1, new[values])

    one = analyse_labels(**given, classes="abcd", n_permutations=500)
    names = ["abcd"[int(np.flatnonzero(new == k)[0])] for k in range(4)]
    two = analyse_labels(
        **{**given, "ruled_out": renamed(given["ruled_out"]), "truth": renamed(given["truth"])},
        classes=names,
        n_permutations=500,
    )
    assert two.noise.to_dict() == one.noise.to_dict()
    assert two.agreement.to_dict() == one.agreement.to_dict()
    for part in ("noise_by_class", "shares", "preferences"):
        assert {r.name: r for r in getattr(two, part)} == {r.name: r for r in getattr(one, part)}
    for a, b in zip(one.annotators, two.annotators, strict=True):
        assert (a.noise, a.agreement, set(a.favourite), a.seconds) == (
            b.noise,
            b.agreement,
            set(b.favourite),
            b.seconds,
        )
    assert np.allclose(
        np.array(two.transitions[0].matrix)[np.ix_(new, new)], one.transitions[0].matrix, atol=0
    )
    for p, q in zip(one.checks, two.checks, strict=True):
        assert (p.name, p.p_value) == (q.name, q.p_value)
        assert p.statistic == pytest.approx(q.statistic, rel=1e-12)


def test_same_rng_gives_the_same_answer(rng: np.random.Generator) -> None:
    given = _big(rng)
    one = analyse_labels(**given, n_classes=4, n_permutations=300, rng=np.random.default_rng(5))
    assert (
        analyse_labels(
            **given, n_classes=4, n_permutations=300, rng=np.random.default_rng(5)
        ).to_dict()
        == one.to_dict()
    )


def test_more_confidence_is_never_narrower(rng: np.random.Generator) -> None:
    given = _big(rng)
    narrow, wide = (
        analyse_labels(**given, n_classes=4, n_permutations=10, confidence=c) for c in (0.8, 0.99)
    )
    for part in ("noise_by_class", "shares", "preferences"):
        assert all(
            w.low <= n.low and n.high <= w.high
            for n, w in zip(getattr(narrow, part), getattr(wide, part), strict=True)
        )
    assert wide.noise.width >= narrow.noise.width


# -----------------------------------------------------------------------------------------------------------------------
# edges


def test_without_labels_everything_is_undefined_with_a_reason() -> None:
    for ruled_out, n in (([], 0), ([-1, -1], 2)):
        found = valid(
            analyse_labels(
                ruled_out,
                n_classes=3,
                truth=[0] * n,
                annotator=["x"] * n,
                features=np.zeros((n, 2)),
            )
        )
        assert math.isnan(found.noise.value)
        assert (found.noise.low, found.noise.high) == (0.0, 1.0)
        assert found.noise.reason
        assert found.findings == ("There are no labels.",)
        assert all(math.isnan(c.p_value) and c.reason for c in found.checks)
        assert not found.transitions[0].usable
        assert not found.oracle
        found.plot()


def test_without_truth_noise_is_undefined_and_says_why() -> None:
    found = valid(analyse_labels([0, 1, 2, 2], n_classes=3, features=np.ones((4, 1))))
    assert math.isnan(found.noise.value)
    assert found.noise.reason == "no trusted true labels: noise cannot be seen in the labels alone"
    assert found.noise.to_dict()["value"] is None
    assert (found.noise_by_class, found.preferences, found.oracle) == ((), (), False)
    dependence = found.check("feature dependence")
    assert dependence is not None
    assert "needs true classes" in dependence.reason
    assert found.check("even rows of T") is None


def test_one_label() -> None:
    found = valid(analyse_labels([1], n_classes=3, truth=[0], annotator=["x"], features=[[0.5]]))
    assert (found.noise.value, found.noise.low) == (0.0, 0.0)
    assert found.noise.high == pytest.approx(0.975)
    assert found.transitions[0].reason == "no trusted label of an item of class 1, 2"
    assert math.isnan(found.transitions[0].matrix[1][0])
    assert all(c.passed for c in found.checks)


def test_two_classes(rng: np.random.Generator) -> None:
    truth = rng.integers(0, 2, 500)
    found = valid(
        analyse_labels(
            draw_ruled_out(truth, transition=Transition.noisy(2, 0.1), rng=rng),
            n_classes=2,
            truth=truth,
        )
    )
    assert found.preferences == ()
    rows = found.check("even rows of T")
    assert rows is not None
    assert rows.reason == "with two classes there is one wrong class"
    assert found.noise.low < 0.1 < found.noise.high


@pytest.mark.full
def test_fifty_classes(rng: np.random.Generator) -> None:
    truth = rng.integers(0, 50, 4000)
    asked = ask_annotators(truth, n_classes=50, error=0.2, rng=rng)
    found = valid(
        analyse_labels(asked.ruled_out, n_classes=50, truth=truth, annotator=asked.annotator)
    )
    assert found.noise.low < 0.2 * 4 / 50 < found.noise.high
    assert len(found.transitions[0].matrix) == 50
    assert all(c.passed for c in found.checks)
    assert "… and 38 more" in str(found)
    assert render_page([found], title="x").count("<svg") == 2


def test_all_labels_wrong() -> None:
    truth = np.arange(40) % 4
    found = valid(analyse_labels(truth, n_classes=4, truth=truth))
    assert (found.noise.value, found.noise.high) == (1.0, 1.0)
    assert found.noise.low > 0.9
    assert found.transitions[0].matrix == tuple(
        tuple(float(i == j) for j in range(4)) for i in range(4)
    )
    assert any("more than a random annotator" in f for f in found.findings)
    assert all(r.n == 0 for r in found.preferences)


def test_all_classes_ruled_out_everywhere_is_no_bias() -> None:
    found = valid(analyse_labels(np.ones((30, 4), dtype=bool), truth=np.arange(30) % 4))
    balance = found.check("class balance")
    assert balance is not None
    assert balance.p_value == 1.0
    assert found.noise.value == pytest.approx(0.25)


def test_random_labels_are_singular_or_doubtful() -> None:
    truth = np.repeat(np.arange(4), 4)
    found = analyse_labels(np.tile(np.arange(4), 4), n_classes=4, truth=truth)
    assert not found.transitions[0].usable
    assert "condition number" in found.transitions[0].reason
    assert any("cannot be told from a random annotator" in f for f in found.findings)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"ruled_out": [0, 7], "n_classes": 3},
            "ruled_out must be a whole number in .* got 7 at item 1",
        ),
        ({"ruled_out": [0.5, 1], "n_classes": 3}, "ruled_out must be a whole number"),
        (
            {"ruled_out": ["a", "z"], "classes": "abc"},
            "ruled_out must be one of the 3 classes; got z at item 1",
        ),
        ({"ruled_out": [0, 1], "n_classes": 3, "truth": [0, 5]}, "truth must be a whole number"),
    ],
)
def test_bad_classes_are_named(given: dict[str, Any], message: str) -> None:
    with pytest.raises(EvidenceError, match=message):
        analyse_labels(**given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"n_classes": None, "ruled_out": []}, "n_classes must be at least 2"),
        ({"classes": ["a", "a", "b"]}, "classes must be different names"),
        ({"truth": [0]}, "truth must be one class for each of the 3 items"),
        ({"trusted": [True, True, False]}, "trusted must come with truth"),
        ({"truth": [0, 0, 0], "trusted": [1, 0, 1]}, "trusted must be one bool"),
        ({"annotator": [1, 2]}, "annotator must have the shape of ruled_out"),
        ({"features": [[1.0]], "truth": [0, 0, 1]}, "features must have one row"),
        ({"features": [["a"], ["b"], ["c"]], "truth": [0, 0, 1]}, "features must be numbers"),
        ({"features": [[1.0]] * 3, "predicted": [0, 1]}, "predicted must be one class"),
        ({"chances": [[0.5, 0.5]]}, "chances must have shape"),
        ({"confidence": 95}, "confidence must be in"),
        ({"n_permutations": 0}, "n_permutations must be"),
        ({"ruled_out": np.ones((3, 2), dtype=bool)}, "one column for each of the 3 classes"),
    ],
)
def test_bad_arguments_are_named(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        analyse_labels(
            **{"ruled_out": [0, 1, 2], "n_classes": 3 if "classes" not in given else None, **given}
        )


def test_nan_in_features_is_named() -> None:
    with pytest.raises(
        EvidenceError, match="features must be finite; got NaN or infinity at item 1"
    ):
        analyse_labels([0, 1, 2], n_classes=3, truth=[1, 2, 0], features=[[1.0], [math.nan], [2.0]])


# --------------------------------------------------------------------------------------------------------------
# words and pictures


def test_findings_speak_plainly(rng: np.random.Generator) -> None:
    truth = rng.integers(0, 10, 6000)
    biased = np.where(np.arange(10) == 3, 0.02, 0.98 / 8)
    T = np.array(
        [
            np.where(np.arange(10) == j, 0, np.where(np.arange(10) == 3, biased[3], 1.0))
            for j in range(10)
        ]
    )
    T[3] = np.arange(10) != 3
    T = 0.961 * T / T.sum(axis=1, keepdims=True) + 0.039 * np.eye(10)
    said = draw_ruled_out(truth, transition=Transition(T), rng=rng)
    text = " ".join(
        analyse_labels(said, classes=[f"c{k}" for k in range(10)], truth=truth).findings
    )
    assert "Labels rule out the truth in " in text
    assert "The annotators avoid ruling out c3." in text
    assert "Uniform T is refuted: use a counted or estimated T." in text
    assert "oracle: true labels were seen" in text


def test_a_noisy_annotator_is_named(rng: np.random.Generator) -> None:
    truth = rng.integers(0, 5, 1500)
    asked = ask_annotators(truth, n_classes=5, error=[0.02, 0.02, 0.02, 0.9], n_shown=4, rng=rng)
    found = analyse_labels(asked.ruled_out, n_classes=5, truth=truth, annotator=asked.annotator)
    assert any(f == "Wrong more often than all together: annotator 3." for f in found.findings)


def test_anchors_need_no_truth(rng: np.random.Generator) -> None:
    T = np.array([[0.0, 0.8, 0.2], [0.4, 0.0, 0.6], [0.5, 0.5, 0.0]])
    truth = np.repeat([0, 1, 2], 50)
    found = valid(
        analyse_labels(
            draw_ruled_out(truth, transition=Transition(T), rng=rng), n_classes=3, chances=T[truth]
        )
    )
    counted, anchors = found.transitions
    assert (counted.matrix, counted.oracle) == ((), False)
    assert (anchors.source, anchors.oracle, anchors.usable) == ("anchors", False, True)
    assert np.allclose(anchors.matrix, T)
    assert "T estimated by anchor points" in " ".join(found.findings)
    stuck = analyse_labels([1, 2], n_classes=3, chances=[[0.2, 0.4, 0.4]] * 2).transitions[1]
    assert (stuck.matrix, stuck.usable) == ((), False)
    assert "none for class 1" in stuck.reason


def test_page_has_heat_map_shares_and_the_same_numbers_as_tables(rng: np.random.Generator) -> None:
    truth = rng.integers(0, 4, 400)
    asked = ask_annotators(truth, n_classes=4, error=0.1, n_shown=3, rng=rng)
    found = analyse_labels(
        asked.ruled_out,
        classes=["<i>a</i>", "$b$", "c", "d"],
        truth=truth,
        annotator=asked.annotator,
    )
    page = render_page([found], title="Labels")
    assert page.count("<svg") == 2
    assert "<i>" not in page
    for row in found.transitions[0].matrix:
        assert all(f"{v:.3f}" in page for v in row)
    drawn = page[page.index("<svg") : page.rindex("</svg>")]
    assert "var(--blue)" in drawn
    assert not __import__("re").search(r"#[0-9a-f]{6}\b", drawn)
    ax = found.plot()
    cells = [p for p in ax.patches if p.get_alpha() is not None]
    assert len(cells) == 16
    dark = np.array([p.get_alpha() for p in cells]).reshape(4, 4)
    assert np.allclose(
        dark / dark.max(),
        np.array(found.transitions[0].matrix) / np.max(found.transitions[0].matrix),
    )


def test_card_leads_with_the_noise_rate_and_says_oracle() -> None:
    card = str(analyse_labels([1, 2, 0, 0], n_classes=3, truth=[0, 0, 1, 2]))
    assert card.startswith(
        "noise rate of ruled-out labels    0.000    95 % interval [0.000, 0.602]"
    )
    assert "oracle: true labels were seen" in card


# -----------------------------------------------------------------------------------------------------------------------
# real data


@pytest.mark.full
def test_real_annotators_of_cifar10(data_folder: Path) -> None:
    path = data_folder / "cifar10_train.npz"
    if not path.is_file():
        pytest.skip("cifar10_train.npz is not in NORACLE_DATA")
    with np.load(path) as data:
        truth, people = data["label"].astype(np.int64), data["annotators"].astype(np.int64)
    rng = np.random.default_rng(3)
    # Each person rules out a class other than the one that he or she sees, so that a label is wrong
    # with chance (1 - accuracy)/9.
    said = (people + 1 + rng.integers(0, 9, people.shape)) % 10
    trusted, who = rng.random(len(truth)) < 0.2, np.tile([0, 1, 2], (len(truth), 1))
    found = valid(analyse_labels(said, n_classes=10, truth=truth, trusted=trusted, annotator=who))
    expected = float((people != truth[:, None]).mean()) / 9
    assert found.noise.low < expected < found.noise.high
    assert (
        found.noise.width < 2 * 2 * 1.96 * found.noise.se
    )  # at most twice the normal interval over items
    assert found.transitions[0].usable
    assert 0.7 < found.transitions[0].strength < 0.9
    # What people mistake for each other is ruled out less often: cat and dog.
    matrix = np.array(found.transitions[0].matrix)
    assert matrix[3, 5] < 1 / 9
    every = analyse_labels(said, n_classes=10, truth=truth)
    assert every.noise.value == pytest.approx(float((said == truth[:, None]).mean()), abs=1e-12)
    rows = every.check("even rows of T")
    assert rows is not None
    assert not rows.passed
