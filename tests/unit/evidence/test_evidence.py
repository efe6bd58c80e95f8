from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

import noracle
from noracle.counts import count_accuracy, count_judgements
from noracle.errors import ArgumentError, EvidenceError, EvidenceWarning
from noracle.evidence import TABLES, Evidence, read_table
from tests.unit.evidence.backends import SINGLE, Columns, as_csv, as_parquet
from tests.unit.evidence.fixtures import Bring

ANSWERS: Columns = {"item": [1, 2, 3], "system": ["a", "a", "a"], "answer": [0, 2, None]}
JUDGEMENTS: Columns = {"item": [1, 2], "class": [0, 1], "verdict": ["yes", "no"]}
TABLES_OF_ONE = {"answers": ANSWERS, "judgements": JUDGEMENTS}


def test_number_of_classes_is_inferred_visibly(bring: Bring) -> None:
    with pytest.warns(
        EvidenceWarning, match="n_classes = 3 inferred: the largest class seen plus one"
    ):
        evidence = Evidence.from_tables(**bring(TABLES_OF_ONE))
    assert evidence.n_classes == 3
    assert count_accuracy(evidence).inferred == (
        "n_classes = 3 inferred: the largest class seen plus one",
    )


def test_number_of_text_classes_is_inferred_visibly(bring: Bring) -> None:
    tables = bring(
        {
            "answers": {**ANSWERS, "answer": ["x", "y", None]},
            "judgements": {**JUDGEMENTS, "class": ["x", "z"]},
        }
    )
    with pytest.warns(
        EvidenceWarning, match="n_classes = 3 inferred: the number of different classes seen"
    ):
        assert Evidence.from_tables(**tables).n_classes == 3


def test_number_of_classes_of_an_item_comes_first() -> None:
    items: Columns = {"item": [1, 2, 3], "n_classes": [4, None, 6]}
    counts = count_accuracy(Evidence.from_tables(ANSWERS, JUDGEMENTS, items, n_classes=5))
    assert sorted(cell.n_classes for cell in counts.items) == [4, 5, 6]


def test_further_columns_are_kept_out_of_the_way(bring: Bring) -> None:
    tables = bring(
        {
            "answers": {**ANSWERS, "prompt": ["p", "q", "r"]},
            "judgements": {**JUDGEMENTS, "k": ["p", "q"]},
        }
    )
    evidence = Evidence.from_tables(**tables, n_classes=3)
    assert len(evidence.rows("answers")[0]) == 3
    assert evidence.judgements is not None
    assert "k" not in evidence.judgements.columns
    assert sum(count_accuracy(evidence).tallies.values()) == 2


@pytest.mark.parametrize(
    "verdicts", [["yes", "no"], ["YES", " No "], [True, False], ["true", "FALSE"]]
)
def test_verdicts_are_read_in_any_case_and_as_truth_values(verdicts: list[Any]) -> None:
    counts = count_accuracy(
        Evidence.from_tables(ANSWERS, {**JUDGEMENTS, "verdict": verdicts}, n_classes=3)
    )
    assert (counts.total(verdict="yes"), counts.total(verdict="no")) == (1, 1)


def test_truth_values_in_a_csv_file_are_verdicts(tmp_path: Path) -> None:
    path = as_csv({**JUDGEMENTS, "verdict": ["true", "false"]}, "judgements", tmp_path)
    assert count_accuracy(Evidence.from_tables(ANSWERS, path, n_classes=3)).total(verdict="no") == 1


def test_nan_in_pandas_is_no_answer() -> None:
    pd = pytest.importorskip("pandas")
    counts = count_accuracy(
        Evidence.from_tables(pd.DataFrame(ANSWERS), pd.DataFrame(JUDGEMENTS), n_classes=3)
    )
    assert counts.summary()["without_answer"] == 1


def test_pandas_columns_of_two_types_are_refused() -> None:
    pd = pytest.importorskip("pandas")
    mixed = pd.DataFrame({**ANSWERS, "answer": pd.Series([0, "b", None], dtype=object)})
    with pytest.raises(EvidenceError, match=r"answers\.answer must hold one type; got int and str"):
        Evidence.from_tables(mixed, n_classes=3)


def test_dict_columns_of_two_types_or_lengths_are_refused() -> None:
    with pytest.raises(EvidenceError, match=r"answers\.answer must hold one type; got int and str"):
        Evidence.from_tables({**ANSWERS, "answer": [0, "b", None]}, n_classes=3)
    with pytest.raises(
        EvidenceError,
        match="answers must have columns of one length; got item 3, system 3, answer 1",
    ):
        Evidence.from_tables({**ANSWERS, "answer": [0]}, n_classes=3)


@pytest.mark.full
def test_engines_mix_through_duckdb(tmp_path: Path) -> None:
    import duckdb

    wanted = count_accuracy(Evidence.from_tables(ANSWERS, JUDGEMENTS, n_classes=3))
    relation = duckdb.connect().read_parquet(str(as_parquet(ANSWERS, "answers", tmp_path)))
    for engine, make in SINGLE.items():
        found = count_accuracy(
            Evidence.from_tables(relation, make(JUDGEMENTS, "judgements", tmp_path), n_classes=3)
        )
        assert found == wanted, engine
        found = count_accuracy(
            Evidence.from_tables(ANSWERS, make(JUDGEMENTS, "judgements", tmp_path), n_classes=3)
        )
        assert found == wanted, engine


def test_relations_of_two_connections_are_refused() -> None:
    import duckdb

    answers = duckdb.connect().sql("SELECT 1 AS item, 'a' AS system, 0 AS answer")
    judgements = duckdb.connect().sql("SELECT 1 AS item, 0 AS class, 'yes' AS verdict")
    with pytest.raises(
        EvidenceError,
        match="tables must be relations of one DuckDB connection; got two connections",
    ):
        Evidence.from_tables(answers, judgements, n_classes=2)


@pytest.mark.spark
def test_spark_and_local_frames_do_not_mix(spark_session: Any) -> None:
    answers = spark_session.createDataFrame(
        [(1, "a", 0)], schema="item BIGINT, system STRING, answer BIGINT"
    )
    with pytest.raises(
        EvidenceError,
        match="tables must all be PySpark frames or none; got answers pyspark, judgements dict",
    ):
        Evidence.from_tables(answers, JUDGEMENTS, n_classes=3)


def test_things_that_are_no_tables_are_refused() -> None:
    with pytest.raises(
        EvidenceError, match=r"answers must be a path, a dict of columns, or a pandas, .*; got int"
    ):
        Evidence.from_tables(7, n_classes=3)
    with pytest.raises(
        EvidenceError, match="evidence must have answers, judgements or grades; got none of them"
    ):
        Evidence.from_tables(n_classes=3)
    with pytest.raises(ArgumentError, match="conflicts must be 'error' or 'drop'"):
        Evidence.from_tables(ANSWERS, n_classes=3, conflicts="keep")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("classes", "message"),
    [
        (["a", "a"], "classes must be at least two different texts or whole numbers"),
        (["a"], "classes must be at least two different texts or whole numbers"),
        (["a", 1], "classes must be at least two different texts or whole numbers"),
        (["a", "b"], "classes must have the type of answer and class; got 'a' and whole numbers"),
    ],
)
def test_classes_must_fit(classes: list[Any], message: str) -> None:
    with pytest.raises(EvidenceError, match=message):
        Evidence.from_tables(ANSWERS, JUDGEMENTS, classes=classes)


def test_answers_outside_the_named_classes_are_refused() -> None:
    with pytest.raises(
        EvidenceError, match=r"answers\.answer must be one of \[0, 1\]; got 2 at item 2"
    ):
        count_accuracy(Evidence.from_tables(ANSWERS, JUDGEMENTS, classes=[0, 1], invalid="refuse"))


def test_files_may_be_globs_and_compressed(tmp_path: Path) -> None:
    import gzip

    for part in (0, 1):
        (tmp_path / f"answers-{part}.csv").write_text(
            f"item,system,answer\n{part},a,{part}\n", encoding="utf-8"
        )
    (tmp_path / "judgements.csv.gz").write_bytes(
        gzip.compress(b"item,class,verdict\n0,0,yes\n1,0,no\n")
    )
    counts = count_accuracy(
        Evidence.from_tables(
            str(tmp_path / "answers-*.csv"), tmp_path / "judgements.csv.gz", n_classes=3
        )
    )
    assert (counts.total(verdict="yes", hit=True), counts.total(verdict="no", hit=False)) == (1, 1)


def test_path_with_a_quote_is_read(tmp_path: Path) -> None:
    folder = tmp_path / "it's here"
    folder.mkdir()
    evidence = Evidence.from_tables(
        as_csv(ANSWERS, "answers", folder),
        as_parquet(JUDGEMENTS, "judgements", folder),
        n_classes=3,
    )
    assert len(evidence.rows("answers", "item")) == 3


def test_check_finds_what_counting_finds_and_returns_the_evidence() -> None:
    good = Evidence.from_tables(ANSWERS, JUDGEMENTS, n_classes=3)
    assert good.check() is good
    with pytest.raises(EvidenceError) as caught:
        Evidence.from_tables(
            ANSWERS, {**JUDGEMENTS, "verdict": ["so", "no"]}, n_classes=2, invalid="refuse"
        ).check()
    assert len(caught.value.faults) == 2


def test_wide_tables_become_long(bring: Bring) -> None:
    wide: Columns = {
        "q": [5, 6, 7],
        "m1": [0, 1, None],
        "m2": [0, 0, 2],
        "key": [0, None, None],
        "not": [None, 1, 2],
    }
    evidence = Evidence.from_wide(
        bring({"t": wide})["t"],
        systems=["m1", "m2"],
        item="q",
        label="key",
        ruled_out="not",
        n_classes=3,
    )
    counts = count_accuracy(evidence)
    assert {(t.system, t.verdict, t.hit, t.answered): n for t, n in counts.tallies.items()} == {
        ("m1", "yes", True, True): 1,
        ("m1", "no", True, True): 1,
        ("m1", "no", False, False): 1,
        ("m2", "yes", True, True): 1,
        ("m2", "no", False, True): 1,
        ("m2", "no", True, True): 1,
    }


def test_wide_rows_are_numbered_without_an_item_column(bring: Bring) -> None:
    wide: Columns = {"m1": ["x", "y"], "key": ["x", "z"]}
    evidence = Evidence.from_wide(
        bring({"t": wide})["t"], systems=["m1"], label="key", classes=["x", "y", "z"]
    )
    assert sorted(evidence.rows("answers", "item", "answer")) == [(0, "x"), (1, "y")]


def test_wide_tables_must_have_the_columns() -> None:
    with pytest.raises(
        EvidenceError, match="answers must have the columns that are named; got no key"
    ):
        Evidence.from_wide({"m1": [1]}, systems=["m1"], label="key", n_classes=2)
    with pytest.raises(EvidenceError, match="systems must be columns of answers; got no m2"):
        Evidence.from_wide({"m1": [1]}, systems=["m1", "m2"], n_classes=2)


PAPER = 'Question,A,B,C,Answer,Comp_label\n"Why, ""so""?",x,y,z,B,\n"How\nthen?",x,y,,,A\nWho?,x,y,z,C,A\n'


def test_paper_csv_becomes_labels_and_items(tmp_path: Path) -> None:
    path = tmp_path / "paper.csv"
    path.write_text(PAPER, encoding="utf-8")
    evidence = Evidence.from_paper_csv(
        path, answers={"item": [0, 1, 2], "system": ["m", "m", "m"], "answer": ["b", "A", None]}
    )
    assert sorted(evidence.rows("judgements", "item", "class", "verdict")) == [
        (0, 1, "yes"),
        (1, 0, "no"),
        (2, 0, "no"),
        (2, 2, "yes"),
    ]
    assert evidence.rows("items", "n_classes", "text") == [
        (3, 'Why, "so"?'),
        (2, "How\nthen?"),
        (3, "Who?"),
    ]
    counts = count_accuracy(evidence)
    assert {(t.n_classes, t.verdict, t.hit, t.answered) for t in counts.tallies} == {
        (3, "yes", True, True),
        (2, "no", True, True),
        (3, "yes", False, False),
    }
    assert sum(count_judgements(Evidence.from_paper_csv(path)).questions.values()) == 4


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "Question,A,B,Answer\nq,x,y,A\n",
            "must have columns Question, A, B, …, Answer, Comp_label; got no Comp_label",
        ),
        ("Question,A,B,Answer,Comp_label\n", "must have rows; got a header only"),
        (
            "Question,A,B,Answer,Comp_label\nq,x,y,C,\n",
            "Answer must be the letter of a filled option; got other text at item 0",
        ),
        (
            "Question,A,B,Answer,Comp_label\nq,x,,,B\n",
            "Comp_label must be the letter of a filled option; got other text at item 0",
        ),
    ],
)
def test_bad_paper_csv_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "paper.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(EvidenceError, match=message):
        Evidence.from_paper_csv(path)


def test_bad_paper_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(EvidenceError, match="path must be a readable file"):
        Evidence.from_paper_csv(tmp_path / "nowhere.csv")
    (tmp_path / "latin.csv").write_bytes(
        "Question,A,B,Answer,Comp_label\né,x,y,A,\n".encode("latin-1")
    )
    with pytest.raises(EvidenceError, match="must be UTF-8 text"):
        Evidence.from_paper_csv(tmp_path / "latin.csv")
    (tmp_path / "good.csv").write_text(PAPER, encoding="utf-8")
    with pytest.raises(
        EvidenceError,
        match=r"answers\.answer must be option letters or classes; got other text at item 0",
    ):
        Evidence.from_paper_csv(
            tmp_path / "good.csv", answers={"item": [0], "system": ["m"], "answer": ["beta"]}
        )


def test_every_table_can_be_read_alone(bring: Bring) -> None:
    ratings = read_table(
        bring({"ratings": {"item": [1, 2], "rater": ["ann", "bob"], "label": ["x", None]}})[
            "ratings"
        ],
        "ratings",
    )
    assert ratings.columns == ["item", "rater", "label"]
    scores = bring({"scores": {"item": [1, 1], "rater": ["ann", "ann"], "value": [0.5, None]}})[
        "scores"
    ]
    with pytest.raises(
        EvidenceError,
        match=r"scores must have one row for each item and rater; got repeated rows at item 1\.",
    ):
        read_table(scores, "scores")


def test_unknown_tables_are_refused() -> None:
    assert set(TABLES) == {"answers", "judgements", "grades", "items", "ratings", "scores"}
    with pytest.raises(ArgumentError, match="table must be one of"):
        read_table({}, "prices")
    with pytest.raises(EvidenceError, match="ratings must have rows"):
        read_table({"item": [], "rater": [], "label": []}, "ratings")


@pytest.mark.full
def test_core_install_counts_without_any_data_frame_library(tmp_path: Path) -> None:
    as_csv(ANSWERS, "answers", tmp_path)
    as_parquet(JUDGEMENTS, "judgements", tmp_path)
    program = f"""
        import sys

        class Blocked:
            def find_spec(self, name, path=None, target=None):
                if name.split(".")[0] in {{"pandas", "polars", "pyarrow", "pyspark"}}:
                    raise ImportError(name)

        sys.meta_path.insert(0, Blocked())
        from pathlib import Path
        from noracle.counts import count_accuracy, count_judgements, count_patterns, label_rows
        from noracle.evidence import Evidence

        folder = Path({str(tmp_path)!r})
        files = Evidence.from_tables(folder / "answers.csv", folder / "judgements.parquet", n_classes=3)
        dicts = Evidence.from_tables({ANSWERS!r}, {JUDGEMENTS!r}, n_classes=3)
        for count in (count_accuracy, count_patterns, count_judgements, label_rows):
            assert count(files) == count(dicts), count
        print(sum(count_accuracy(files).tallies.values()))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "2\n"


def test_classes_and_systems_named_yes_and_no_stay_text(tmp_path: Path) -> None:
    answers = as_csv(
        {"item": [1, 2], "system": ["no", "no"], "answer": ["yes", "no"]}, "answers", tmp_path
    )
    judgements = as_csv(
        {"item": [1, 2], "class": ["yes", "no"], "verdict": ["yes", "no"]}, "judgements", tmp_path
    )
    evidence = Evidence.from_tables(answers, judgements, classes=["yes", "no"])
    assert sorted(evidence.rows("answers", "system", "answer")) == [("no", "no"), ("no", "yes")]
    assert {row[0] for row in evidence.rows("judgements", "class")} == {"yes", "no"}


# ------------------------------------------------------------------------------------------------------------------
# repr


def test_repr_is_one_line_and_asks_the_engine_nothing(tmp_path: Path) -> None:
    answers, judgements = tmp_path / "answers.csv", tmp_path / "judgements.csv"
    answers.write_text("item,system,answer\n1,a,0\n2,a,1\n1,b,0\n2,b,2\n", encoding="utf-8")
    judgements.write_text("item,class,verdict\n1,0,yes\n", encoding="utf-8")
    evidence = Evidence.from_tables(answers, judgements, n_classes=3)
    counted = Evidence.from_tables(answers, judgements, n_classes=3)
    counts = noracle.count_accuracy(counted)
    for file in (answers, judgements):
        file.unlink()  # a query would now fail
    assert repr(evidence) == str(evidence) == "Evidence(duckdb: answers, judgements; 3 classes)"
    assert (
        repr(counted)
        == "Evidence(duckdb: answers, judgements; 3 classes; 2 systems, 2 items, 1 labelled)"
    )
    assert repr(counts) == "AccuracyCounts(2 systems, 2 items, 1 labelled)"


def test_repr_of_counts_and_ratings_is_short() -> None:
    evidence = Evidence.from_tables(
        {
            "item": list(range(1500)) * 2,
            "system": ["a"] * 1500 + ["b"] * 1500,
            "answer": [0, 1, 2] * 1000,
        },
        {"item": list(range(1200)), "class": [0] * 1200, "verdict": ["yes", "no"] * 600},
        n_classes=3,
    )
    ratings = noracle.Ratings.from_tables(
        {"item": [1, 1, 2], "rater": ["x", "y", "x"], "label": ["a", "b", "a"]}
    )
    shown = {
        repr(
            noracle.count_accuracy(evidence)
        ): "AccuracyCounts(2 systems, 1,500 items, 1,200 labelled)",
        repr(
            noracle.count_patterns(evidence)
        ): "PatternCounts(2 systems, 1,200 labelled items, 4 patterns)",
        repr(noracle.count_judgements(evidence)): "JudgementCounts(1,200 judgements)",
        repr(ratings): "Ratings(duckdb: long ratings)",
        repr(
            noracle.count_ratings(ratings)
        ): "RatingCounts(2 items, 3 ratings, 2 raters, 2 labels)",
        repr(
            noracle.Evidence.from_tables({"item": [1], "system": ["a"], "answer": [0]}, n_classes=2)
        ): "Evidence(duckdb: answers; 2 classes)",
    }
    assert list(shown) == list(shown.values())
