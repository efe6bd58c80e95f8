"""Ratings: every form, every engine, and one clear error for each fault."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from noracle.counts import RatingCounts, count_ratings
from noracle.errors import ArgumentError, EvidenceError, NoracleError
from noracle.evidence import Ratings
from tests.unit.evidence.fixtures import Bring

SECRET = "the text of an item that must never be shown"
LONG: dict[str, list[Any]] = {
    "item": [1, 1, 1, 2, 2, 2, 3, 3],
    "rater": ["ann", "bob", "eve", "ann", "bob", "eve", "ann", "bob"],
    "label": ["cat", "cat", "dog", "dog", "dog", "dog", "cat", "owl"],
}
ANSWERS: dict[str, list[Any]] = {
    "item": [1, 2, 3],
    "system": ["a", "a", "a"],
    "answer": ["cat", "dog", "bird"],
}
WIDE: dict[str, list[Any]] = {
    "q": [1, 2, 3],
    "ann": ["cat", "dog", "cat"],
    "bob": ["cat", "dog", "owl"],
    "eve": ["dog", "dog", None],
    "a": ["cat", "dog", "bird"],
}
VOTES: dict[str, list[Any]] = {
    "item": [1, 1, 2, 3, 3, 3],
    "label": ["cat", "dog", "dog", "cat", "owl", "dog"],
    "n": [2, 1, 3, 1, 1, 0],
}
EXPECTED = (
    [[0, 3, 0], [1, 0, 1], [2, 1, 0]],
    [1, 1, 1],
    [[0, 1, 0, 0], [0, 0, 0, 1], [1, 0, 0, 0]],
)

pytestmark = pytest.mark.filterwarnings(
    "ignore:only [0-9]+ of [0-9]+ rated items:noracle.errors.EvidenceWarning"
)


def seen(counts: RatingCounts) -> tuple[Any, Any, Any]:
    return counts.votes.tolist(), counts.n_items.tolist(), counts.answers["a"].tolist()


def test_long_ratings_on_every_engine(bring_anywhere: Bring) -> None:
    tables = bring_anywhere({"ratings": LONG, "answers": ANSWERS})
    ratings = Ratings.from_tables(tables["ratings"], tables["answers"])
    counts = count_ratings(ratings, pairs=True)
    assert seen(counts) == EXPECTED
    assert counts.labels == ("cat", "dog", "owl")
    assert counts.raters == ("ann", "bob", "eve")
    assert {pair: table.tolist() for pair, table in counts.pairs.items()} == {
        (0, 1): [[1, 0, 1], [0, 1, 0], [0, 0, 0]],
        (0, 2): [[0, 1, 0], [0, 1, 0], [0, 0, 0]],
        (1, 2): [[0, 1, 0], [0, 1, 0], [0, 0, 0]],
    }


def test_wide_ratings_on_every_engine(bring_slowly: Bring) -> None:
    table = bring_slowly({"wide": WIDE})["wide"]
    ratings = Ratings.from_wide(table, raters=["ann", "bob", "eve"], item="q", systems=["a"])
    counts = count_ratings(ratings, pairs=True)
    assert seen(counts) == EXPECTED
    assert counts.pairs[0, 1].tolist() == [[1, 0, 1], [0, 1, 0], [0, 0, 0]]


def test_votes_on_local_engines(bring: Bring) -> None:
    tables = bring({"ratings": VOTES, "answers": ANSWERS})
    assert seen(count_ratings(Ratings.from_votes(tables["ratings"], tables["answers"]))) == EXPECTED


def test_whole_numbers_with_missing_values_stay_whole(bring: Bring) -> None:
    wide = bring({"wide": {"ann": [3, 5, None], "bob": [3, None, 5], "a": [3, None, 5]}})["wide"]
    counts = count_ratings(Ratings.from_wide(wide, raters=["ann", "bob"], systems=["a"]))
    assert counts.labels == (3, 5)
    assert seen(counts) == ([[0, 1], [2, 0]], [2, 1], [[0, 1, 1], [1, 0, 0]])


def test_wide_takes_a_long_table_of_answers() -> None:
    counts = count_ratings(Ratings.from_wide(WIDE, ANSWERS, raters=["ann", "bob", "eve"], item="q"))
    assert seen(counts) == EXPECTED


def test_scores_fall_into_bands_closed_on_the_right(bring: Bring) -> None:
    scores = {
        "item": [1, 1, 2, 2, 3, 3],
        "rater": ["a", "b"] * 3,
        "value": [0.2, 0.21, 0.4, 0.41, 1.0, None],
    }
    table = bring({"scores": scores})["scores"]
    five = count_ratings(Ratings.from_scores(table, cuts=[0.2, 0.4, 0.6, 0.8]))
    assert five.labels == (0, 1, 2, 3, 4)
    assert five.votes.tolist() == [[0, 0, 0, 0, 1], [0, 1, 1, 0, 0], [1, 1, 0, 0, 0]]


def test_closed_on_the_left_moves_the_cut_points_up() -> None:
    scores = {"item": [1, 1], "rater": ["a", "b"], "value": [0.2, 0.19]}
    assert count_ratings(Ratings.from_scores(scores, cuts=[0.2], closed="left")).votes.tolist() == [
        [1, 1]
    ]
    assert count_ratings(
        Ratings.from_scores(scores, cuts=[0.2], closed="right")
    ).votes.tolist() == [[2, 0]]


def test_a_band_may_be_left_out_and_bands_may_share_a_label() -> None:
    scores = {
        "item": [1, 1, 1, 2, 2],
        "rater": ["a", "b", "c", "a", "b"],
        "value": [0.1, 0.5, 0.3, 0.55, 0.45],
    }
    ratings = Ratings.from_scores(
        scores, cuts=[0.2, 0.4, 0.6, 0.8], labels=["neg", "neg", None, "pos", "pos"]
    )
    counts = count_ratings(ratings)
    assert counts.labels == ("neg", "pos")
    assert counts.votes.tolist() == [[2, 0]]
    assert counts.unused == {"items without a rating": 1}


def test_first_takes_the_earliest_by_time_and_else_by_row() -> None:
    table = {
        "item": [1, 1, 1, 2, 2],
        "rater": ["a", "b", "c", "a", "b"],
        "label": [0, 1, 1, 0, 0],
        "at": [30, 20, 10, 1, 2],
    }
    assert count_ratings(Ratings.from_tables(table, first=2)).votes.tolist() == [[0, 2], [2, 0]]
    rows = {k: v for k, v in table.items() if k != "at"}
    counts = count_ratings(Ratings.from_tables(rows, first=2))
    assert counts.votes.tolist() == [[1, 1], [2, 0]]
    assert any(
        "first 2 ratings" in line and "0 items have fewer" in line for line in counts.inferred
    )


def test_first_skips_missing_ratings(bring: Bring) -> None:
    wide = bring({"wide": {"a": [None, 0], "b": [1, 1], "c": [1, 1]}})["wide"]
    counts = count_ratings(Ratings.from_wide(wide, raters=["a", "b", "c"], first=2))
    assert counts.votes.tolist() == [[0, 2], [1, 1]]
    long = {"item": [1, 1, 1], "rater": ["a", "b", "c"], "label": [None, 1, 0]}
    assert count_ratings(Ratings.from_tables(long, first=1)).votes.tolist() == [[0, 1]]


def test_a_score_that_is_left_out_still_takes_its_place_among_the_first() -> None:
    scores = {"item": [1, 1, 1], "rater": ["a", "b", "c"], "value": [0.5, 0.9, 0.1]}
    ratings = Ratings.from_scores(scores, cuts=[0.4, 0.6], labels=["neg", None, "pos"], first=2)
    assert count_ratings(ratings).votes.tolist() == [[0, 1]]


@pytest.mark.parametrize("first", [1, 2])
def test_first_on_every_engine_with_times(bring_slowly: Bring, first: int) -> None:
    table = {
        "item": [1, 1, 1],
        "rater": ["a", "b", "c"],
        "label": [0, 1, 1],
        "at": ["t3", "t1", "t2"],
    }
    ratings = Ratings.from_tables(bring_slowly({"ratings": table})["ratings"], first=first)
    assert count_ratings(ratings).votes.tolist() == [[0, first]]


def test_answers_of_other_items_are_named_and_rated_items_without_answers_count_as_silent() -> None:
    answers = {"item": [1, 9, 8], "system": ["a"] * 3, "answer": ["cat", "dog", "dog"]}
    counts = count_ratings(Ratings.from_tables(LONG, answers))
    assert counts.answers["a"].sum(axis=0).tolist() == [1, 0, 0, 2]
    assert counts.unused["answers to items without a rating"] == 2


def test_many_labels_are_counted_row_by_row() -> None:
    n = 90
    wide = {
        "a": [f"l{i:02d}" for i in range(n)],
        "b": [f"l{i // 2 * 2:02d}" for i in range(n)],
        "s": [f"l{i:02d}" for i in range(n)],
    }
    counts = count_ratings(Ratings.from_wide(wide, raters=["a", "b"], systems=["s"]))
    assert counts.votes.shape == (90, 90)
    assert (counts.n_ratings == 2).all()
    assert counts.hits("s").sum() == 90
    assert (counts.tied == 1).sum() == 45


def bad(build: Any, message: str, **files: str) -> Any:
    return pytest.param(build, message, files, id=message[:60])


def long(**columns: list[Any]) -> Ratings:
    return Ratings.from_tables({**LONG, **columns})


BAD = [
    bad(
        lambda p: long(rater=["ann"] * 8),
        r"^ratings must have one row for each item and rater; got repeated rows at items 1, 2, 3\.",
    ),
    bad(
        lambda p: Ratings.from_tables(LONG, labels=["cat", "dog"]),
        r"^ratings\.label must be one of \['cat', 'dog'\]; got 'owl' at item 3\. Correct it or add it to labels\.$",
    ),
    bad(
        lambda p: Ratings.from_wide(WIDE, raters=["ann", "bob"], item="q", labels=["cat", "dog"]),
        r"^ratings\.bob must be one of .*; got 'owl' at item 3\.",
    ),
    bad(
        lambda p: Ratings.from_tables(
            {"item": [1, 2], "rater": ["ann", "ann"], "label": ["x", "y"]}
        ),
        r"^ratings must come from at least 2 raters; got one\.",
    ),
    bad(
        lambda p: Ratings.from_wide(WIDE, raters=["ann"], item="q"),
        r"^raters must be at least 2; got 1\.",
    ),
    bad(
        lambda p: Ratings.from_wide({"a": [1, 2], "b": [None, None]}, raters=["a", "b"]),
        r"^ratings must come from at least 2 raters; got one\.",
    ),
    bad(
        lambda p: long(label=[None] * 8),
        r"^ratings must hold at least one label; got none: all are missing\.",
    ),
    bad(
        lambda p: Ratings.from_wide({"a": [None], "b": [None]}, raters=["a", "b"]),
        r"^ratings must hold at least one label; got none: all are missing\.",
    ),
    bad(
        lambda p: Ratings.from_votes({"item": [1], "label": ["x"], "n": [0]}),
        r"^ratings must hold at least one label; got none",
    ),
    bad(
        lambda p: Ratings.from_tables(LONG, {**ANSWERS, "item": ["x", "y", "z"]}),
        r"^item must have one type in all tables; got whole numbers in ratings\.item \(1, 2, 3\), text in answers\.item \(x, y, z\)\.",
    ),
    bad(
        lambda p: Ratings.from_tables(LONG, {**ANSWERS, "answer": [1, 2, 3]}),
        r"^label and answer must have one type in all tables; got text in ratings\.label, whole numbers in answers\.answer\.",
    ),
    bad(
        lambda p: Ratings.from_tables(LONG, labels=[1, 2]),
        r"^labels must have the type of label and answer; got 1 and text\.",
    ),
    bad(
        lambda p: Ratings.from_tables(LONG, {**ANSWERS, "item": [7, 8, 9]}),
        r"^item must be shared by answers and ratings; got none in common: 7, 8, 9, … in answers and 1, 2, 3, … in ratings\.",
    ),
    bad(
        lambda p: Ratings.from_tables(
            LONG, {"item": [1, 1], "system": ["a", "a"], "answer": ["cat", "dog"]}
        ),
        r"^answers must have one row for each item and system; got repeated rows at item 1\.",
    ),
    bad(
        lambda p: Ratings.from_tables({"item": [1], "label": ["x"]}),
        r"^ratings must have columns item, rater, label; got no rater in",
    ),
    bad(
        lambda p: Ratings.from_wide(WIDE, raters=["ann", "zoe"], item="q"),
        r"^table must have columns ann, zoe, q; got no zoe in",
    ),
    bad(
        lambda p: Ratings.from_wide({**WIDE, "q": [1, 1, 2]}, raters=["ann", "bob"], item="q"),
        r"^ratings must have one row for each item; got repeated rows at item 1\.",
    ),
    bad(
        lambda p: Ratings.from_tables({"item": [1, 1], "rater": ["a", "b"], "label": [1, 1.5]}),
        r"^ratings\.label must be whole numbers or text; got 1 such row at item 1\.",
    ),
    bad(
        lambda p: long(item=[1, 1, 1, 2, 2, 2, 3, None]),
        r"^ratings\.item must not be null; got 1 such row\.",
    ),
    bad(
        lambda p: long(rater=["ann", "bob", "eve", "ann", "bob", "eve", "ann", None]),
        r"^ratings\.rater must not be null; .* at item 3\.",
    ),
    bad(
        lambda p: Ratings.from_votes({"item": [1], "label": ["x"], "n": [1.5]}),
        r"^votes\.n must be a whole number .*; got 1\.5 at item 1\.",
    ),
    bad(
        lambda p: Ratings.from_votes({"item": [1], "label": ["x"], "n": [-1]}),
        r"^votes\.n must be a number of at least 0; got -1",
    ),
    bad(
        lambda p: Ratings.from_votes({"item": [1, 1], "label": ["x", "x"], "n": [1, 2]}),
        r"^votes must have one row for each item and label; got repeated rows at item 1\.",
    ),
    bad(
        lambda p: Ratings.from_scores(
            {"item": [1], "rater": ["a"], "value": [float("inf")]}, cuts=[0.5]
        ),
        r"^scores\.value must be a finite number; got inf at item 1\.",
    ),
    bad(
        lambda p: Ratings.from_scores({"item": [1], "rater": ["a"], "value": ["x"]}, cuts=[0.5]),
        r"^scores\.value must hold numbers; got text",
    ),
    bad(
        lambda p: Ratings.from_scores({}, cuts=[0.5, 0.5]),
        r"^cuts must be increasing finite numbers; got \[0\.5, 0\.5\]\.",
    ),
    bad(
        lambda p: Ratings.from_scores({}, cuts=[0.5], labels=["x"]), r"^labels must be 2 for 1 cuts"
    ),
    bad(
        lambda p: Ratings.from_tables(LONG, first=0),
        r"^first must be a whole number of at least 1; got 0\.",
    ),
    bad(
        lambda p: Ratings.from_tables(
            {"item": [1, 1], "rater": ["a", "b"], "label": [0, 1], "at": [1, None]}, first=1
        ),
        r"^ratings\.at must not be null where first is given; got 1 such row at item 1\.",
    ),
    bad(
        lambda p: Ratings.from_tables({"item": [], "rater": [], "label": []}),
        r"^ratings must have rows; got an empty table\.",
    ),
    bad(
        lambda p: Ratings.from_tables({**LONG, "label": ["x"]}),
        r"^ratings must have columns of one length; got item 8, rater 8, label 1\.",
    ),
    bad(
        lambda p: Ratings.from_wide(p / "ragged.csv", raters=["a", "b"], item="q"),
        r"must be a regular CSV file; got an invalid input error",
        ragged=f"q,a,b\n1,x,y\n2,x,y,{SECRET}\n3,x,x\n",
    ),
    bad(
        lambda p: Ratings.from_wide(p / "short.csv", raters=["a", "b"], item="q"),
        r"must be a regular CSV file; got an invalid input error",
        short="q,a,b\n1,x,y\n2,x\n3,x,x\n",
    ),
    bad(
        lambda p: Ratings.from_tables(
            {**LONG, "label": [f"{SECRET} {i}" for i in range(8)]}, labels=["a", "b"]
        ),
        r"^ratings\.label must be one of \['a', 'b'\]; got 'a long text' at items 1",
    ),
    bad(
        lambda p: Ratings.from_tables(
            {"item": list(range(1100)), "rater": ["a", "b"] * 550, "label": list(range(1100))}
        ),
        r"^label must have at most 1000 different values; got more\.",
    ),
]


@pytest.mark.thin(2)
@pytest.mark.parametrize(("build", "message", "files"), BAD)
def test_bad_ratings_give_one_clear_error(
    build: Any, message: str, files: dict[str, str], tmp_path: Path
) -> None:
    for name, text in files.items():
        (tmp_path / f"{name}.csv").write_text(text, encoding="utf-8")
    with pytest.raises(NoracleError, match=message) as caught:
        count_ratings(build(tmp_path))
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith(".")
    assert SECRET not in str(caught.value)


def test_all_faults_come_at_once() -> None:
    bad = {**LONG, "rater": ["ann", "ann", "eve", "ann", "bob", "eve", "ann", None]}
    with pytest.raises(EvidenceError) as caught:
        Ratings.from_tables(
            bad, {**ANSWERS, "system": ["a", None, "a"]}, labels=["cat", "dog"]
        ).check()
    assert len(caught.value.faults) == 4


@pytest.mark.full
def test_repeated_ratings_are_found_with_many_raters() -> None:
    raters = [f"r{i:03d}" for i in range(600)]  # beyond the masks
    for n in (59, 60, 61, 120, 121, 481, 600):
        table = {"item": [1] * n + [2], "rater": [*raters[:n], raters[0]], "label": [0] * n + [1]}
        assert count_ratings(Ratings.from_tables(table)).n_ratings.tolist() == [1, n]
        table["item"][-1] = 1
        with pytest.raises(EvidenceError, match="repeated rows at item 1"):
            Ratings.from_tables(table).check()


def test_arguments_that_do_not_fit_together() -> None:
    with pytest.raises(ArgumentError, match="systems must come without answers"):
        Ratings.from_wide(WIDE, ANSWERS, raters=["ann", "bob"], item="q", systems=["a"])
    with pytest.raises(ArgumentError, match="item must name the column with items"):
        Ratings.from_wide(WIDE, ANSWERS, raters=["ann", "bob"])
    with pytest.raises(EvidenceError, match="systems must be in answers"):
        count_ratings(Ratings.from_tables(LONG, ANSWERS), systems=["b"])
