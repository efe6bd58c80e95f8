"""Malformed inputs as files on disk, with the message that each must give.

``BAD_INPUTS`` holds triples: a name, a function that writes files into a folder and returns
arguments (``answers``, ``judgements``, ``items`` are paths, ``n_classes`` a number), and a pattern
that the one-line message must match. Tests of the library and of the command line go through the
same list.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

Arguments = dict[str, Any]

ANSWERS = "item,system,answer\n1,a,0\n2,a,1\n3,a,2\n"
JUDGEMENTS = "item,class,verdict\n1,0,yes\n2,2,no\n3,1,unsure\n"
SECRET = "the text of an item that must never be shown"


class BadInput(NamedTuple):
    """One malformed input."""

    id: str
    write: Callable[[Path], Arguments]
    message: str


BAD_INPUTS: list[BadInput] = []


def bad(message: str) -> Callable[[Callable[[Path], Arguments]], Callable[[Path], Arguments]]:
    def add(write: Callable[[Path], Arguments]) -> Callable[[Path], Arguments]:
        BAD_INPUTS.append(BadInput(write.__name__, write, message))
        return write

    return add


def files(
    folder: Path,
    answers: str | bytes = ANSWERS,
    judgements: str | bytes = JUDGEMENTS,
    *,
    items: str = "",
    n_classes: Any = 3,
    **more: Any,
) -> Arguments:
    """Write the tables as CSV files."""
    arguments: Arguments = {**more} if n_classes is None else {"n_classes": n_classes, **more}
    for name, text in (("answers", answers), ("judgements", judgements), ("items", items)):
        if text or name != "items":
            arguments[name] = folder / f"{name}.csv"
            arguments[name].write_bytes(text if isinstance(text, bytes) else text.encode())
    return arguments


@bad(
    r"answers must name a file or a glob that matches files; got '.*nowhere\.csv'\. Check the path\."
)
def missing_file(folder: Path) -> Arguments:
    return {**files(folder), "answers": folder / "nowhere.csv"}


@bad(r"judgements must be a file ending in \.csv, .*; got '.*judgements\.xlsx'\.")
def unknown_ending(folder: Path) -> Arguments:
    (folder / "judgements.xlsx").write_bytes(b"PK")
    return {**files(folder), "judgements": folder / "judgements.xlsx"}


@bad(r"answers must not be empty; got the empty file '.*answers\.csv'")
def empty_file(folder: Path) -> Arguments:
    return files(folder, answers="")


@bad(r"^judgements must have rows; got an empty table\.")
def header_only(folder: Path) -> Arguments:
    return files(folder, judgements="item,class,verdict\n")


@bad(r"answers must have columns item, system, answer; got no system in \['item', 'answer'\]")
def missing_column(folder: Path) -> Arguments:
    return files(folder, answers="item,answer\n1,0\n")


@bad(r"answers must have columns .*got no item.* \| judgements must have columns .*got no verdict")
def two_missing_columns(folder: Path) -> Arguments:
    return files(folder, answers="question,system,answer\n1,a,0\n", judgements="item,class\n1,0\n")


@bad(r"answers file '.*answers\.csv' must be UTF-8 text")
def not_utf8(folder: Path) -> Arguments:
    return files(folder, answers="item,system,answer\n1,modèle,0\n".encode("latin-1"))


@bad(r"answers file '.*answers\.parquet' must be a complete Parquet file")
def truncated_parquet(folder: Path) -> Arguments:
    import duckdb

    path = folder / "answers.parquet"
    connection = duckdb.connect()
    connection.sql(
        "SELECT i AS item, 'a' AS system, 0 AS answer FROM range(1000) t(i)"
    ).write_parquet(str(path))
    path.write_bytes(path.read_bytes()[:-300])
    return {**files(folder), "answers": path}


@bad(r"answers file '.*answers\.parquet' must be a complete Parquet file")
def text_named_parquet(folder: Path) -> Arguments:
    (folder / "answers.parquet").write_text(ANSWERS, encoding="utf-8")
    return {**files(folder), "answers": folder / "answers.parquet"}


@bad(r"judgements file '.*judgements\.jsonl' must hold one JSON object a line; got .* at line \d")
def broken_jsonl(folder: Path) -> Arguments:
    path = folder / "judgements.jsonl"
    path.write_text(
        '{"item": 1, "class": 0, "verdict": "yes"}\n{"item": 2, "class": 1, "verd', encoding="utf-8"
    )
    return {**files(folder), "judgements": path}


@bad(r"judgements\.class must hold whole numbers or text; got (list|array)")
def list_for_a_class(folder: Path) -> Arguments:
    path = folder / "judgements.jsonl"
    path.write_text('{"item": 1, "class": [0, 1], "verdict": "no"}\n', encoding="utf-8")
    return {**files(folder), "judgements": path}


@bad(
    r"file '.*answers\.csv' must keep one type per column; got a conversion error at line 30002, column 'item'"
)
def type_changes_late_in_the_file(folder: Path) -> Arguments:
    rows = "".join(f"{i},a,0\n" for i in range(30_000))
    return files(folder, answers=f"item,system,answer\n{rows}{SECRET},a,0\n")


@bad(
    r"item must have one type in all tables; got whole numbers in answers\.item \(1, 2, 3\), text in judgements\.item \(q1\)"
)
def mixed_id_types(folder: Path) -> Arguments:
    return files(folder, judgements="item,class,verdict\nq1,0,yes\n")


@bad(
    r"answer and class must have one type in all tables; got text in answers\.answer, whole numbers in judgements\.class"
)
def mixed_class_types(folder: Path) -> Arguments:
    return files(folder, answers="item,system,answer\n1,a,cat\n2,a,dog\n")


@bad(r"answers\.item must not be null; got 1 such row\.")
def null_item(folder: Path) -> Arguments:
    return files(folder, answers="item,system,answer\n1,a,0\n,a,1\n")


@bad(r"answers\.system must not be null; got 1 such row at item 2\.")
def null_system(folder: Path) -> Arguments:
    return files(folder, answers="item,system,answer\n1,a,0\n2,,1\n")


@bad(r"judgements\.class must not be null; got 2 such rows at items 2, 3\.")
def null_class(folder: Path) -> Arguments:
    return files(folder, judgements="item,class,verdict\n1,0,yes\n2,,no\n3,,no\n")


@bad(r"judgements\.verdict must not be null; got 1 such row at item 2\.")
def null_verdict(folder: Path) -> Arguments:
    return files(folder, judgements="item,class,verdict\n1,0,yes\n2,1,\n")


@bad(
    r"judgements\.verdict must be yes, no or unsure; got 'maybe' at items 1, 2, 3, 4, 5 and 2 more\."
)
def unknown_verdict(folder: Path) -> Arguments:
    return files(
        folder, judgements="item,class,verdict\n" + "".join(f"{i},0,maybe\n" for i in range(1, 8))
    )


@bad(
    r"answers\.answer must be in \[0, 3\); got 7 at item 2\. Pass a larger n_classes or drop those items\."
)
def answer_outside(folder: Path) -> Arguments:
    return files(folder, answers="item,system,answer\n1,a,0\n2,a,7\n", invalid="refuse")


@bad(r"judgements\.class must be in \[0, 3\); got 3 at item 2\.")
def class_outside(folder: Path) -> Arguments:
    return files(folder, judgements="item,class,verdict\n1,0,yes\n2,3,no\n")


@bad(r"answers\.answer must be in \[0, 3\); got -1 at item 2\.")
def negative_answer(folder: Path) -> Arguments:
    return files(folder, answers="item,system,answer\n1,a,0\n2,a,-1\n", invalid="refuse")


@bad(r"answers\.answer must be whole numbers or text; got 1 such row at item 2\.")
def fractional_answer(folder: Path) -> Arguments:
    return files(folder, answers="item,system,answer\n1,a,0\n2,a,1.5\n")


@bad(
    r"answers\.answer must be in \[0, n_classes\) of its item; got 2 at item 2\. Correct it or the item's n_classes\."
)
def answer_outside_its_item(folder: Path) -> Arguments:
    return files(
        folder,
        "item,system,answer\n1,a,0\n2,a,2\n",
        "item,class,verdict\n1,0,yes\n",
        items="item,n_classes\n1,5\n2,2\n",
        n_classes=None,
        invalid="refuse",
    )


@bad(
    r"answer and class must have at most 2 different classes; got more: 'ant', 'bee', 'cow', ….*Pass classes\."
)
def too_many_text_classes(folder: Path) -> Arguments:
    return files(
        folder,
        "item,system,answer\n1,a,cow\n2,a,bee\n",
        "item,class,verdict\n1,ant,no\n",
        n_classes=2,
    )


@bad(r"judgements\.propensity must be in \(0, 1\]; got 0\.0 at items 1, 2\.")
def propensity_outside(folder: Path) -> Arguments:
    return files(folder, judgements="item,class,verdict,propensity\n1,0,yes,0\n2,1,no,1.2\n")


@bad(r"judgements\.propensity must be in \(0, 1\]; got nan at item 2\.")
def propensity_nan(folder: Path) -> Arguments:
    return files(folder, judgements="item,class,verdict,propensity\n1,0,yes,0.5\n2,1,no,nan\n")


@bad(r"judgements\.propensity must hold numbers; got text\.")
def propensity_text(folder: Path) -> Arguments:
    return files(folder, judgements="item,class,verdict,propensity\n1,0,yes,often\n")


@bad(r"items\.weight must be a number above 0; got -1\.0 at items 1, 2\.")
def weight_not_positive(folder: Path) -> Arguments:
    return files(folder, items="item,weight\n1,-1\n2,0\n3,2\n")


@bad(r"items\.weight must be a number above 0; got (nan|inf) at items 1, 2\.")
def weight_not_finite(folder: Path) -> Arguments:
    return files(folder, items="item,weight\n1,nan\n2,inf\n3,2\n")


@bad(r"items\.n_classes must be a whole number from 2 to 2147483647; got 1 at item 1\.")
def one_class(folder: Path) -> Arguments:
    return files(folder, items="item,n_classes\n1,1\n2,3\n3,3\n", n_classes=None)


@bad(r"items\.n_classes must be a whole number from 2 to 2147483647; got 9000000000 at item 2\.")
def huge_number_of_classes(folder: Path) -> Arguments:
    return files(folder, items="item,n_classes\n1,3\n2,9000000000\n3,3\n", n_classes=None)


@bad(r"items\.n_classes must be a whole number; got 1 such row at item 2\.")
def fractional_number_of_classes(folder: Path) -> Arguments:
    return files(folder, items="item,n_classes\n1,3\n2,3.5\n3,3\n", n_classes=None)


@bad(r"n_classes must be a whole number from 2 to 2147483647; got 1\.")
def n_classes_argument_too_small(folder: Path) -> Arguments:
    return files(folder, n_classes=1)


@bad(
    r"n_classes must be given unless .* is between 2 and 100000; got 7000001\. Pass n_classes or classes\."
)
def inferred_number_of_classes_is_absurd(folder: Path) -> Arguments:
    return files(folder, answers="item,system,answer\n1,a,7000000\n", n_classes=None)


@bad(r"n_classes must be given unless .* is between 2 and 100000; got 1\.")
def one_row_one_class(folder: Path) -> Arguments:
    return files(
        folder, "item,system,answer\n1,a,0\n", "item,class,verdict\n1,0,yes\n", n_classes=None
    )


@bad(
    r"answers must have one row for each .*; got repeated rows at item 2\. Keep one row of each, or number the runs in a column repeat\."
)
def repeated_answer(folder: Path) -> Arguments:
    return files(folder, answers="item,system,answer\n1,a,0\n2,a,1\n2,a,1\n")


@bad(r"items must have one row for each item; got repeated rows at item 1\.")
def repeated_item(folder: Path) -> Arguments:
    return files(folder, items="item,stratum\n1,x\n1,y\n2,x\n3,x\n")


@bad(
    r"answers\.item must be in items; got unknown items at items 2, 3\. Add them to items or drop these answers\."
)
def answers_of_unknown_items(folder: Path) -> Arguments:
    return files(folder, items="item,stratum\n1,x\n")


@bad(r"judgements must not contradict each other; got two different yes classes at item 1\.")
def two_true_classes(folder: Path) -> Arguments:
    return files(folder, judgements="item,class,verdict\n1,0,yes\n1,1,yes\n")


@bad(r"judgements must not contradict each other; got different verdicts on one class at item 2\.")
def yes_and_no_on_one_class(folder: Path) -> Arguments:
    return files(
        folder, judgements="item,class,verdict,rater\n1,0,yes,ann\n2,1,yes,ann\n2,1,no,bob\n"
    )


@bad(r"judgements must not contradict each other; got different verdicts on one class at item 2\.")
def one_rater_says_two_things(folder: Path) -> Arguments:
    return files(
        folder, judgements="item,class,verdict,rater\n1,0,yes,ann\n2,1,no,ann\n2,1,unsure,ann\n"
    )


@bad(r"judgements must not contradict each other; got 3 of 3 classes ruled out at item 1\.")
def every_class_ruled_out(folder: Path) -> Arguments:
    return files(folder, judgements="item,class,verdict\n1,0,no\n1,1,no\n1,2,no\n")


@bad(
    r"answers\.answer must be in \[0, 3\).* \| answers must have one row .* \| judgements\.verdict must be .* \| judgements\.propensity"
)
def many_faults_at_once(folder: Path) -> Arguments:
    answers = "item,system,answer\n1,a,9\n2,a,1\n2,a,1\n"
    return files(
        folder,
        answers,
        "item,class,verdict,propensity\n1,0,perhaps,0.5\n2,1,no,7\n",
        invalid="refuse",
    )


@bad(
    r"items must have columns item; got no item in \['…', '…'\]\. Rename the columns, or say which is meant: columns="
)
def no_header(folder: Path) -> Arguments:
    return files(folder, items=f"1,{SECRET}\n2,{SECRET}\n")


@bad(r"answers\.guess must be in \[0, 1\]; got 1\.5 at item 1\.")
def guess_outside(folder: Path) -> Arguments:
    return files(folder, answers="item,system,answer,guess\n1,a,0,1.5\n2,a,1,0.5\n")


@bad(r"answers file '.*answers\.csv' must be a regular CSV file")
def ragged_csv(folder: Path) -> Arguments:
    return files(folder, answers="item,system,answer\n1,a,0\n2,a\n3,a,1,9,9\n")


@bad(r"answers\.answer must be in \[0, 3\); got 8 at item 2\.")
def text_stays_out_of_the_message(folder: Path) -> Arguments:
    items = f"item,n_classes,text\n1,3,{SECRET}\n2,3,{SECRET}\n"
    return files(
        folder,
        "item,system,answer\n1,a,0\n2,a,8\n",
        "item,class,verdict\n1,0,yes\n",
        items=items.replace("n_classes,", "").replace(",3,", ","),
        invalid="refuse",
    )
