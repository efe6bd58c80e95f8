"""The sketch of joint decisions: from arrays, from published counts, from evidence."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from noracle.counts import sketch as module
from noracle.counts.sketch import Sketch, count_decisions
from noracle.errors import EvidenceError
from noracle.evidence import Evidence
from tests.unit.logic.seed_table import table_2


def rows(sketch: Sketch) -> Counter[tuple[Any, ...]]:
    """Patterns and possible labels by name, counted."""
    found: Counter[tuple[Any, ...]] = Counter()
    for pattern, can, n in zip(
        sketch.patterns.tolist(), sketch.allowed, sketch.n.tolist(), strict=True
    ):
        said = tuple(None if c < 0 else sketch.labels[c] for c in pattern)
        found[said, tuple(sketch.labels[r] for r in np.flatnonzero(can))] += n
    return found


def random_items(rng: np.random.Generator, Q: int, N: int, R: int) -> tuple[np.ndarray, np.ndarray]:
    codes = rng.integers(-1, R, (Q, N))
    allowed = rng.random((Q, R)) < 0.7
    allowed[np.arange(Q), rng.integers(0, R, Q)] = True
    return codes, allowed


def test_groups_are_the_counts_of_equal_rows() -> None:
    rng = np.random.default_rng(0)
    codes, allowed = random_items(rng, 500, 3, 3)
    sketch = Sketch.from_arrays(codes, labels=list("abc"), allowed=allowed)
    expected = Counter(
        (
            tuple(None if c < 0 else "abc"[c] for c in row),
            tuple("abc"[r] for r in np.flatnonzero(can)),
        )
        for row, can in zip(codes.tolist(), allowed, strict=True)
    )
    assert rows(sketch) == expected
    assert len(expected) == sketch.n_groups < 500


def test_order_of_items_changes_nothing() -> None:
    rng = np.random.default_rng(1)
    codes, allowed = random_items(rng, 300, 4, 3)
    order = rng.permutation(300)
    one = Sketch.from_arrays(codes, labels=list("abc"), allowed=allowed)
    assert one == Sketch.from_arrays(codes[order], labels=list("abc"), allowed=allowed[order])


def test_two_patterns_with_one_hash_stay_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    class Constant:
        def integers(self, low: int, high: int, size: int, dtype: type) -> np.ndarray:
            return np.ones(size, dtype=dtype)

    monkeypatch.setattr(module.np.random, "default_rng", lambda seed: Constant())
    sketch = Sketch.from_arrays([[0, 1], [1, 0], [0, 1]], labels=["a", "b"])
    assert rows(sketch) == {(("a", "b"), ("a", "b")): 2, (("b", "a"), ("a", "b")): 1}


def test_table_2_has_its_published_uses() -> None:
    sketch = table_2()
    assert sketch.n_items == 281
    assert sketch.uses.tolist() == [[146, 135], [27, 254], [234, 47]]
    assert sketch.n_groups == 7  # one of the eight patterns never occurred


def test_subset_keeps_items_that_it_did_not_answer() -> None:
    sketch = Sketch.from_counts(
        {("a", None): 3, (None, "b"): 2}, classifiers=["x", "y"], labels=["a", "b"]
    )
    assert rows(sketch.of(["x"])) == {(("a",), ("a", "b")): 3, ((None,), ("a", "b")): 2}


def test_subset_reorders_and_agrees_with_counting_again() -> None:
    rng = np.random.default_rng(2)
    codes, allowed = random_items(rng, 200, 4, 3)
    whole = Sketch.from_arrays(codes, labels=list("abc"), classifiers=list("wxyz"), allowed=allowed)
    part = Sketch.from_arrays(
        codes[:, [3, 1]], labels=list("abc"), classifiers=["z", "x"], allowed=allowed
    )
    assert whole.of(["z", "x"]) == part


def test_batches_add_whatever_the_order_of_names() -> None:
    rng = np.random.default_rng(3)
    codes, allowed = random_items(rng, 200, 3, 3)
    whole = Sketch.from_arrays(codes, labels=list("abc"), classifiers=list("xyz"), allowed=allowed)
    monday = Sketch.from_arrays(
        codes[:80], labels=list("abc"), classifiers=list("xyz"), allowed=allowed[:80]
    )
    back = np.array([2, 0, 1, -1])  # labels in the order b, c, a
    tuesday = Sketch.from_arrays(
        back[codes[80:]][:, [1, 2, 0]],
        labels=list("bca"),
        classifiers=list("yzx"),
        allowed=allowed[80:][:, [1, 2, 0]],
    )
    assert monday + tuesday == whole


@pytest.mark.parametrize("R", [3, 70])
def test_json_round_trip(R: int) -> None:
    rng = np.random.default_rng(4)
    codes, allowed = random_items(rng, 100, 3, R)
    sketch = Sketch.from_arrays(codes, labels=list(range(R)), allowed=allowed)
    assert Sketch.from_dict(json.loads(json.dumps(sketch.to_dict()))) == sketch


def test_a_million_items_are_grouped_exactly() -> None:
    rng = np.random.default_rng(5)
    codes = rng.integers(0, 2, (1_000_000, 12)).astype(np.int16)
    sketch = Sketch.from_arrays(codes, labels=["a", "b"])
    expected = np.bincount(codes @ (1 << np.arange(12)[::-1]), minlength=4096)
    assert sketch.n_groups == 4096
    assert sketch.n.tolist() == expected.tolist()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Sketch.from_arrays([[0, 1]], labels=["a"]), "labels must be at least two"),
        (
            lambda: Sketch.from_arrays([[0, 2]], labels=["a", "b"]),
            "answers must be in \\[0, 2\\) or -1",
        ),
        (lambda: Sketch.from_arrays([[0.5, 1]], labels=["a", "b"]), "table of whole numbers"),
        (
            lambda: Sketch.from_arrays(np.zeros((0, 2), dtype=int), labels=["a", "b"]),
            "must have items",
        ),
        (
            lambda: Sketch.from_arrays([[0, 1]], labels=["a", "b"], classifiers=["x"]),
            "must name the 2 columns",
        ),
        (
            lambda: Sketch.from_arrays([[0, 1]], labels=["a", "b"], classifiers=["x", "x"]),
            "classifiers must be .* all different",
        ),
        (
            lambda: Sketch.from_arrays(
                [[0, 1], [0, 0]], labels=["a", "b"], allowed=[[1, 1], [0, 0]]
            ),
            "every label ruled out at item 1",
        ),
        (
            lambda: Sketch.from_arrays([[0, 1]], labels=["a", "b"], known=[2]),
            "known must be 1 places in",
        ),
        (
            lambda: Sketch.from_counts({("a",): 1}, classifiers=["x", "y"], labels=["a", "b"]),
            "tuples of 2 answers",
        ),
        (
            lambda: Sketch.from_counts({("a", "c"): 1}, classifiers=["x", "y"], labels=["a", "b"]),
            "got 'c'",
        ),
        (
            lambda: Sketch.from_counts({("a", "a"): -1}, classifiers=["x", "y"], labels=["a", "b"]),
            "whole number, not negative",
        ),
        (
            lambda: Sketch.from_counts(
                {("a", "a"): 1},
                classifiers=["x", "y"],
                labels=["a", "b"],
                known={("a", "a"): {"a": 1, "b": 1}},
            ),
            "must be about at most its 1 items; got 2",
        ),
        (lambda: table_2().of(["Gemini"]), "must be among"),
        (
            lambda: table_2() + table_2().of(["Claude"]),
            "classifiers of both sketches must be the same",
        ),
        (lambda: Sketch.from_dict({"schema": "sketch/9"}), "must be 'sketch/1'"),
    ],
)
def test_bad_input_is_one_clear_error(make: Callable[[], object], message: str) -> None:
    with pytest.raises(EvidenceError, match=message):
        make()


# ------------------------------------------------------------------------------------------------------
# from evidence


def frames(kind: str, table: dict[str, list[Any]]) -> Any:
    if kind == "dict":
        return table
    library = pytest.importorskip(kind)
    return library.DataFrame(table)


@pytest.mark.thin(3)
@pytest.mark.parametrize("kind", ["dict", "polars", "pandas"])
@pytest.mark.parametrize("text", [True, False])
def test_evidence_gives_the_same_sketch_as_arrays(kind: str, text: bool) -> None:
    rng = np.random.default_rng(6)
    Q, N, R = 60, 25, 7  # 25 answers of base 8 do not fit one whole number
    codes, _ = random_items(rng, Q, N, R)
    names = [f"s{i:02d}" for i in range(N)]
    labels: list[Any] = list("abcdefg") if text else list(range(R))
    asked = [(q, i) for q in range(Q) for i in range(N) if codes[q, i] >= 0 or rng.random() < 0.5]
    answers = {
        "item": [q for q, _ in asked],
        "system": [names[i] for _, i in asked],
        "answer": [labels[codes[q, i]] if codes[q, i] >= 0 else None for q, i in asked],
    }
    allowed = np.ones((Q, R), dtype=bool)
    judged: dict[str, list[Any]] = {"item": [], "class": [], "verdict": []}
    for q in range(0, Q, 2):
        label = int(rng.integers(R))
        verdict = str(rng.choice(["yes", "no", "no", "unsure"]))
        for key, value in zip(judged, (q, labels[label], verdict), strict=True):
            judged[key].append(value)
        if verdict == "no":
            allowed[q, label] = False
        elif verdict == "yes":
            allowed[q] = np.arange(R) == label
    evidence = Evidence.from_tables(frames(kind, answers), frames(kind, judged), classes=labels)
    expected = Sketch.from_arrays(codes, labels=labels, classifiers=names, allowed=allowed)
    assert count_decisions(evidence) == expected
    alone = Sketch.from_arrays(codes, labels=labels, classifiers=names)
    assert count_decisions(evidence, judgements="ignore") == alone
    assert count_decisions(evidence, systems=["s07", "s03"]) == expected.of(["s07", "s03"])


def test_own_numbers_of_classes_forbid_the_others() -> None:
    evidence = Evidence.from_tables(
        answers={"item": [1, 1, 2], "system": ["x", "y", "x"], "answer": [0, 1, 2]},
        items={"item": [1, 2, 3], "n_classes": [2, 3, 2]},
    )
    assert rows(count_decisions(evidence)) == {
        (("0", "1"), ("0", "1")): 1,
        (("2", None), ("0", "1", "2")): 1,
        ((None, None), ("0", "1")): 1,
    }


def test_known_labels_join_the_judgements() -> None:
    evidence = Evidence.from_tables(
        answers={"item": [1, 1, 2, 2], "system": ["x", "y"] * 2, "answer": ["a", "b", "b", "b"]},
        judgements={"item": [2], "class": ["a"], "verdict": ["no"]},
        classes=["a", "b", "c"],
    )
    assert rows(count_decisions(evidence, known={1: "c"})) == {
        (("a", "b"), ("c",)): 1,
        (("b", "b"), ("b", "c")): 1,
    }
    with pytest.raises(
        EvidenceError, match=r"known must not contradict the judgements .* at item 2"
    ):
        count_decisions(evidence, known={1: "c", 2: "a"})
    with pytest.raises(
        EvidenceError,
        match="known must be about items of the evidence; got unknown items at item 9",
    ):
        count_decisions(evidence, known={9: "a"})
    with pytest.raises(EvidenceError, match=r"known must be labels among .*'z' at item 1"):
        count_decisions(evidence, known={1: "z"})


def test_contradictory_judgements_are_refused_or_dropped() -> None:
    tables: dict[str, Any] = {
        "answers": {"item": [1, 1], "system": ["x", "y"], "answer": [0, 1]},
        "judgements": {"item": [1, 1], "class": [0, 1], "verdict": ["no", "no"]},
    }
    with pytest.raises(EvidenceError, match=r"judgements must not contradict .* at item 1"):
        count_decisions(Evidence.from_tables(**tables, n_classes=2))
    sketch = count_decisions(Evidence.from_tables(**tables, n_classes=2, conflicts="drop"))
    assert rows(sketch) == {(("0", "1"), ("0", "1")): 1}


def test_text_classes_that_nobody_named_are_still_possible() -> None:
    evidence = Evidence.from_tables(
        answers={"item": [1, 1], "system": ["x", "y"], "answer": ["a", "b"]}, n_classes=3
    )
    assert count_decisions(evidence).labels == ("a", "b", "unseen 1")
