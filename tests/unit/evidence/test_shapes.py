# ruff: noqa: E501 (tables of cases, one a line)
"""Tables as people have them: every shape, name, type and spelling gives the right number, or one
clear line with the remedy.

Two systems answered six items with three classes, and people said which class is right. However
that is written down, system a is right four times and system b three times. Each case runs in
Python and on the command line.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from noracle import Evidence
from noracle.cli import run
from noracle.counts import count_accuracy, count_decisions
from noracle.errors import EvidenceError, EvidenceWarning, NoracleError
from noracle.evidence import TABLES, Ratings
from noracle.evidence.tables import Column, Shape, TableRules, shaped
from tests.unit.evidence.backends import as_csv, as_jsonl, as_parquet

pytestmark = pytest.mark.filterwarnings("ignore::noracle.errors.EvidenceWarning")

LONG = """item,system,answer
1,a,0\n1,b,0\n2,a,1\n2,b,0\n3,a,2\n3,b,2\n4,a,0\n4,b,\n5,a,1\n5,b,1\n6,a,2\n6,b,1
"""
WIDE = "item,a,b\n1,0,0\n2,1,0\n3,2,2\n4,0,\n5,1,1\n6,2,1\n"
SAID = "item,class,verdict\n1,0,yes\n2,1,yes\n3,2,yes\n4,1,yes\n5,1,yes\n6,0,yes\n"
RIGHT = {"a": 4, "b": 3}
LETTERS = str.maketrans("012", "ABC")


def header(text: str, line: str) -> str:
    """The same rows under another header."""
    return line + text[text.index("\n") :]


def values(text: str, column: int, to: Mapping[str, str]) -> str:
    """The same table with other values in a column."""
    first, *rows = text.strip("\n").split("\n")
    cells = [row.split(",") for row in rows]
    for row in cells:
        row[column] = to.get(row[column], row[column])
    return "\n".join([first, *(",".join(row) for row in cells)]) + "\n"


AS_LETTERS = {"0": "A", "1": "B", "2": "C"}
AS_TEXT = {"0": "cat", "1": "dog", "2": "eel"}
FROM_ONE = {"0": "1", "1": "2", "2": "3"}


@dataclasses.dataclass(frozen=True)
class Good:
    """Tables and options that give the right number; ``note`` is said about them."""

    id: str
    answers: str = LONG
    judgements: str | None = SAID
    items: str | None = None
    note: str | None = None
    right: Mapping[str, int] = dataclasses.field(default_factory=lambda: RIGHT)
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)


K = {"n_classes": 3}
GOOD = [
    Good("long", options=K),
    # ---- wide
    Good(
        "wide",
        WIDE,
        note="answers: one row per item; the systems are the 2 columns a, b",
        options=K,
    ),
    Good("wide flag", WIDE, options={**K, "wide": True}),
    Good("wide with named systems", WIDE, options={**K, "systems": ["a", "b"]}),
    Good(
        "wide with a key that is nobody's answer",
        header(values(WIDE, 0, {}), "item,a,b")
        .replace("\n", ",1\n")
        .replace("item,a,b,1", "item,a,b,answer"),
        note="not systems: answer",
        options=K,
    ),
    Good(
        "wide with what is about the items",
        WIDE.replace("\n", ",x\n").replace("item,a,b,x", "item,a,b,category"),
        note="not systems: category",
        options=K,
    ),
    Good(
        "wide with numbers of classes",
        WIDE.replace("\n", ",3\n").replace("item,a,b,3", "item,a,b,n_classes"),
        note="'n_classes' is taken as of the items",
    ),
    Good(
        "wide with numbers of classes under another name",
        WIDE.replace("\n", ",3\n").replace("item,a,b,3", "item,a,b,n_options"),
        options={"columns": {"n_classes": "n_options"}},
    ),
    Good(
        "wide with labels",
        "item,a,b,key\n1,0,0,0\n2,1,0,1\n3,2,2,2\n4,0,,1\n5,1,1,1\n6,2,1,0\n",
        None,
        options={**K, "label": "key"},
    ),
    Good(
        "wide without an item column",
        "a,b,key\n0,0,0\n1,0,1\n2,2,2\n0,,1\n1,1,1\n2,1,0\n",
        None,
        note="numbered from 0",
        options={**K, "wide": True, "systems": ["a", "b"], "label": "key"},
    ),
    Good(
        "wide under another name of the item",
        header(WIDE, "question_id,a,b"),
        note="column 'question_id' is read as item",
        options=K,
    ),
    Good(
        "wide with a word for no answer in one column",
        WIDE.replace("4,0,\n", "4,0,N/A\n"),
        options={**K, "no_answer": ["N/A"]},
    ),
    Good(
        "wide with spaces and quotes in names",
        header(WIDE, 'item,"my model, v2","say ""b"""'),
        right={"my model, v2": 4, 'say "b"': 3},
        options=K,
    ),
    Good(
        "wide with names of other alphabets",
        header(WIDE, "item,模型,système"),
        right={"模型": 4, "système": 3},
        options=K,
    ),
    Good(
        "one column is wide where it is said",
        "item,a\n1,0\n2,1\n3,2\n4,0\n5,1\n6,2\n",
        right={"a": 4},
        options={**K, "wide": True},
    ),
    # ---- names of columns
    Good(
        "columns in every table",
        header(LONG, "qq,who,what"),
        header(SAID, "qq,class,verdict"),
        options={**K, "columns": {"item": "qq", "system": "who", "answer": "what"}},
    ),
    Good(
        "columns of one table",
        header(LONG, "qq,system,answer"),
        options={**K, "columns": {"answers.item": "qq"}},
    ),
    Good(
        "columns win over a column of that name",
        header(LONG, "qq,system,answer").replace("\n", ",9\n").replace("answer,9", "answer,item"),
        options={**K, "columns": {"answers.item": "qq"}},
    ),
    *(
        Good(
            f"item is called {name}",
            header(LONG, f"{name},system,answer"),
            note=f"'{name}' is read as item",
            options=K,
        )
        for name in ("question_id", "id", "qid", "doc_id", "example_id", "sample_id")
    ),
    *(
        Good(
            f"system is called {name}",
            header(LONG, f"item,{name},answer"),
            note=f"'{name}' is read as system",
            options=K,
        )
        for name in ("model", "model_name")
    ),
    *(
        Good(
            f"answer is called {name}",
            header(LONG, f"item,system,{name}"),
            note=f"'{name}' is read as answer",
            options=K,
        )
        for name in ("prediction", "pred", "response", "output")
    ),
    *(
        Good(
            f"verdict is called {name}",
            judgements=header(SAID, f"item,class,{name}"),
            note=f"'{name}' is read as verdict",
            options=K,
        )
        for name in ("is_correct", "correct", "grade")
    ),
    Good(
        "class is called label",
        judgements=header(SAID, "item,label,verdict"),
        note="'label' is read as class",
        options=K,
    ),
    Good(
        "case of a header",
        header(LONG, "Item,SYSTEM,Answer"),
        note="'Item' is read as item",
        options=K,
    ),
    Good("white space in a header", header(LONG, " item ,system, answer"), options=K),
    # ---- no answer
    Good("white space is no answer", LONG.replace("4,b,\n", "4,b,  \n"), options=K),
    Good(
        "minus one is no answer",
        LONG.replace("4,b,\n", "4,b,-1\n"),
        options={**K, "no_answer": ["-1"]},
    ),
    Good(
        "a word is no answer, in any case",
        LONG.replace("4,b,\n", "4,b,n/a\n"),
        options={**K, "no_answer": ["N/A"]},
    ),
    Good(
        "several are no answer",
        LONG.replace("4,b,\n", "4,b,-1\n").replace("6,b,1", "6,b,N/A"),
        options={**K, "no_answer": ["-1", "N/A"]},
    ),
    # ---- answers that cannot be
    Good(
        "too large an answer is wrong",
        LONG.replace("4,b,\n", "4,b,7\n"),
        note="no class of their item count as wrong: b 1",
        options=K,
    ),
    Good(
        "a negative answer is wrong",
        LONG.replace("4,b,\n", "4,b,-1\n"),
        note="count as wrong: b 1",
        options=K,
    ),
    Good(
        "an answer outside of its item is wrong",
        LONG.replace("4,b,\n", "4,b,2\n"),
        items="item,n_classes\n1,3\n2,3\n3,3\n4,2\n5,3\n6,3\n",
        note="count as wrong: b 1",
    ),
    Good(
        "an answer outside of the classes is wrong",
        values(LONG, 2, {**AS_TEXT, "": "fish"}),
        values(SAID, 1, AS_TEXT),
        note="count as wrong: b 1",
        options={"classes": ["cat", "dog", "eel"]},
    ),
    Good(
        "a letter beyond the classes is wrong",
        values(LONG, 2, {**AS_LETTERS, "": "E"}),
        values(SAID, 1, AS_LETTERS),
        note="count as wrong: b 1",
        options=K,
    ),
    Good(
        "a text that is no option is wrong",
        values(LONG, 2, {**AS_TEXT, "": "fish"}),
        values(SAID, 1, AS_TEXT),
        "item,options\n" + "".join(f"{i},cat|dog|eel\n" for i in range(1, 7)),
        note="count as wrong: b 1",
    ),
    # ---- labels
    Good(
        "white space around classes",
        values(LONG, 2, {"0": "cat ", "1": " dog", "2": "eel"}),
        values(SAID, 1, AS_TEXT),
        note="spellings are read as one class",
        options=K,
    ),
    Good(
        "case of classes",
        values(LONG, 2, {"0": "Cat", "1": "DOG", "2": "eel"}),
        values(SAID, 1, AS_TEXT),
        note="spellings",
        options=K,
    ),
    Good(
        "classes that are named",
        values(LONG, 2, {"0": "CAT", "1": " dog", "2": "eel"}),
        values(SAID, 1, AS_TEXT),
        note="spellings",
        options={"classes": ["cat", "dog", "eel"]},
    ),
    Good(
        "letters with marks",
        values(LONG, 2, {"0": "A)", "1": "(b)", "2": "C."}),
        values(SAID, 1, AS_LETTERS),
        note="'A)' as 'A'",
        options=K,
    ),
    Good(
        "letters with marks alone",
        values(LONG, 2, {"0": "A)", "1": "B)", "2": "C)"}),
        values(SAID, 1, {"0": "(A)", "1": "(B)", "2": "(C)"}),
        note="'A)' as 'A'",
        options=K,
    ),
    Good(
        "letters beside places",
        values(LONG, 2, AS_LETTERS),
        note="letters are read as places",
        options=K,
    ),
    Good(
        "places beside letters",
        judgements=values(SAID, 1, {"0": "a", "1": "b.", "2": "(C)"}),
        note="letters are read as places",
        options=K,
    ),
    Good(
        "letters with numbers of classes",
        values(LONG, 2, AS_LETTERS),
        values(SAID, 1, AS_LETTERS),
        "item,n_classes\n" + "".join(f"{i},3\n" for i in range(1, 7)),
        note="letters are read as places",
    ),
    Good(
        "letters with options",
        values(LONG, 2, AS_LETTERS),
        values(SAID, 1, AS_TEXT),
        "item,options\n" + "".join(f"{i},cat|dog|eel\n" for i in range(1, 7)),
        note="texts of options are read as their places",
    ),
    Good(
        "options as JSON",
        values(LONG, 2, AS_TEXT),
        SAID,
        "item,options\n" + "".join(f'{i},"[""cat"", ""dog"", ""eel""]"\n' for i in range(1, 7)),
        note="texts of options are read as their places",
    ),
    Good(
        "options whose texts are their places",
        LONG,
        SAID,
        "item,options\n" + "".join(f"{i},0|1|2\n" for i in range(1, 7)),
    ),
    Good(
        "options whose texts are other numbers",
        values(LONG, 2, {"0": "10", "1": "20", "2": "30"}),
        values(SAID, 1, {"0": "10", "1": "20", "2": "30"}),
        "item,options\n" + "".join(f"{i},10|20|30\n" for i in range(1, 7)),
        note="texts of options",
    ),
    Good(
        "classes that count from 1",
        values(LONG, 2, FROM_ONE),
        values(SAID, 1, FROM_ONE),
        note="read as counted from 1, since 3 occurs and 0 does not",
        options=K,
    ),
    Good(
        "classes from 1 with numbers of classes",
        values(LONG, 2, FROM_ONE),
        values(SAID, 1, FROM_ONE),
        "item,n_classes\n" + "".join(f"{i},3\n" for i in range(1, 7)),
        note="counted from 1",
    ),
    Good(
        "classes from 1 that are named",
        values(LONG, 2, FROM_ONE),
        values(SAID, 1, FROM_ONE),
        options={"classes": [1, 2, 3]},
    ),
    Good(
        "classes 1 to K - 1 are read as they stand",
        values(LONG, 2, {"0": "3"}),
        values(SAID, 1, {"0": "3"}),
        options={"n_classes": 4},
    ),
    # ---- types
    Good(
        "ids of digits beside numbers",
        judgements=values(SAID, 0, {str(i): f"0{i}" for i in range(1, 7)}),
        options=K,
    ),
    Good("answers with a point", values(LONG, 2, {"0": "0.0", "1": "1.0", "2": "2.0"}), options=K),
    Good(
        "answers with a point beside a word",
        values(LONG, 2, {"0": "0.0", "1": "1.0", "2": "2.0", "": "none"}),
        options={**K, "no_answer": ["none"]},
    ),
    Good(
        "classes true and false",
        values(LONG, 2, {"0": "true", "1": "false", "2": "true"}),
        values(SAID, 1, {"0": "true", "1": "false", "2": "true"}),
        right={"a": 5, "b": 3},
        options={"n_classes": 2},
    ),
]


def write(folder: Path, tables: Mapping[str, str | None]) -> dict[str, str]:
    found = {}
    for name, text in tables.items():
        if text is not None:
            (folder / f"{name}.csv").write_text(text, encoding="utf-8")
            found[name] = str(folder / f"{name}.csv")
    return found


def flags(files: Mapping[str, str], options: Mapping[str, Any]) -> list[str]:
    """Files and options of the library as those of the command line."""
    words = [word for name, path in files.items() for word in (f"--{name}", path)]
    for name, value in options.items():
        flag = f"--{name.replace('_', '-')}"
        if value is True:
            words.append(flag)
        elif isinstance(value, Mapping):
            words += [flag, ",".join(f"{k}={v}" for k, v in value.items())]
        else:
            words += [f"{flag}={','.join(map(str, value)) if isinstance(value, list) else value}"]
    return words


def rights(evidence: Evidence) -> dict[str, int]:
    counts = count_accuracy(evidence)
    return {system: counts.of(system).total(verdict="yes", hit=True) for system in counts.systems}


@pytest.mark.thin(13)
@pytest.mark.parametrize("case", GOOD, ids=[case.id for case in GOOD])
def test_every_shape_gives_the_right_number(case: Good, tmp_path: Path) -> None:
    files = write(
        tmp_path, {"answers": case.answers, "judgements": case.judgements, "items": case.items}
    )
    evidence = Evidence.from_tables(**files, **case.options)
    assert rights(evidence) == dict(case.right)
    counts = count_accuracy(evidence)
    assert {sum(counts.of(s).items.values()) for s in counts.systems} == {6}  # nothing is dropped
    assert case.note is None or case.note in "\n".join(evidence.inferred)


@pytest.mark.thin(5)
@pytest.mark.parametrize("case", GOOD[1::3], ids=[case.id for case in GOOD[1::3]])
def test_the_command_line_reads_the_same(
    case: Good, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    files = write(
        tmp_path, {"answers": case.answers, "judgements": case.judgements, "items": case.items}
    )
    code = run(["estimate", *flags(files, case.options), "--no-check", "--json"])
    out, err = capfd.readouterr()
    assert code == 0, err
    found = {r["subject"]: r for r in json.loads(out)["results"]}
    assert {system: round(6 * r["value"]) for system, r in found.items()} == dict(case.right)
    notes = [line for line in err.splitlines() if line.startswith("note: ")]
    assert case.note is None or any(case.note in line for line in notes)


@dataclasses.dataclass(frozen=True)
class Bad:
    """A mistake; ``says`` is in the line of the library, ``flag`` in that of the command line."""

    id: str
    says: str
    flag: str = ""
    answers: str | None = LONG
    judgements: str | None = SAID
    items: str | None = None
    options: Mapping[str, Any] = dataclasses.field(default_factory=lambda: K)


OPTIONS = "item,options\n" + "".join(f"{i},3|2|1|0\n" for i in range(1, 7))
BAD = [
    # ---- roles and ids
    Bad(
        "swapped files",
        "must not be swapped; got the columns of judgements in answers and of answers in judgements",
        "--answers and --judgements must not",
        SAID,
        LONG,
    ),
    Bad(
        "judgements given as answers",
        "those of judgements (item, class, verdict). Pass this table as judgements",
        "Pass this file as --judgements",
        SAID,
        None,
    ),
    Bad(
        "answers given as judgements",
        "those of answers (item, system, answer). Pass this table as answers",
        "Pass this file as --answers",
        LONG,
        LONG,
    ),
    Bad(
        "grades given as judgements",
        "those of grades (item, system, verdict). Pass this table as grades",
        "Pass this file as --grades",
        LONG,
        header(SAID, "item,system,correct"),
    ),
    Bad(
        "no id in common",
        "none in common: 1, 2, 3, … in answers and 11, 12, 13, … in judgements",
        "--item must be shared",
        judgements=SAID.replace("\n", "\n1").removesuffix("1"),
    ),
    Bad(
        "ids of another type",
        "whole numbers in answers.item (1, 2, 3), text in judgements.item (q1, q2, q3)",
        judgements=SAID.replace("\n", "\nq").removesuffix("q"),
    ),
    Bad(
        "items without the answered ones",
        "answers.item must be in items; got unknown items at items 1, 2, 3, 4, 5 and 1 more",
        "--answers.item",
        items="item,stratum\n9,x\n",
    ),
    # ---- names of columns
    Bad(
        "two candidates for the item",
        "answers.item must be one column; got 'question_id' and 'doc_id'. Say which: columns={'answers.item': 'question_id'}",
        "Say which: --columns answers.item=question_id",
        header(LONG, "question_id,system,answer")
        .replace("\n", ",1\n")
        .replace("answer,1", "answer,doc_id"),
    ),
    Bad(
        "two candidates for the system",
        "answers.system must be one column; got 'model' and 'model_name'",
        "--columns answers.system=model",
        header(LONG, "item,model,answer")
        .replace("\n", ",1\n")
        .replace("answer,1", "answer,model_name"),
    ),
    Bad(
        "no system",
        "answers must have columns item, system, answer; got no system in",
        "--columns answers.system=whose",
        header(LONG, "item,whose,prediction"),
    ),
    Bad(
        "no verdict",
        "judgements must have columns item, class, verdict; got no verdict in",
        "--columns judgements.verdict=said",
        judgements=header(SAID, "item,class,said"),
    ),
    Bad(
        "a column that nobody has",
        "columns must name a column of the tables as item; got no 'qq'",
        "--columns must name",
        options={**K, "columns": {"item": "qq"}},
    ),
    Bad(
        "a column that one table lacks",
        "answers.item must be a column of the table; got no 'qq'",
        "--answers.item",
        options={**K, "columns": {"answers.item": "qq"}},
    ),
    Bad(
        "a name that is no column",
        "columns must map columns such as item",
        "--columns must map",
        options={**K, "columns": {"itm": "item"}},
    ),
    Bad(
        "a table that does not exist",
        "got replies.item=item. Known are answers, ",
        options={**K, "columns": {"replies.item": "item"}},
    ),
    # ---- wide
    Bad(
        "one column alone can be anything",
        "got no system, answer in ['item', 'reply']",
        "where there is one column per system: --wide",
        "item,reply\n1,0\n2,1\n3,2\n4,0\n5,1\n6,2\n",
    ),
    Bad(
        "wide with columns of two types",
        "must have columns of one type, one for each of the systems; got numbers in a, b; text in remark. Say which columns are systems: systems=['a', 'b']",
        "Say which columns are systems: --systems a,b",
        WIDE.replace("\n", ",fine\n").replace("item,a,b,fine", "item,a,b,remark"),
    ),
    Bad(
        "wide with a system that is no column",
        "systems must be columns of answers; got no c. Known are a, b, item",
        "--systems must be columns",
        WIDE,
        options={**K, "systems": ["a", "c"]},
    ),
    Bad(
        "wide that is long",
        "wide must go with answers that have one row per item; got columns item, system, answer",
        "--wide must go with",
        options={**K, "wide": True},
    ),
    Bad(
        "wide without ids beside judgements",
        "answers.item must be a column, to meet the other tables",
        "--columns answers.item=whence",
        header(WIDE, "nr,a,b").replace("nr", "whence"),
        options={**K, "wide": True, "systems": ["a", "b"]},
    ),
    Bad(
        "wide with labels and judgements",
        "label and ruled_out must come without judgements",
        answers=WIDE.replace("\n", ",1\n").replace("item,a,b,1", "item,a,b,key"),
        options={**K, "label": "key"},
    ),
    Bad(
        "labels of a long table",
        "label must go with answers of one row per item",
        options={**K, "label": "class"},
    ),
    Bad(
        "wide with an item twice",
        "answers must have one row for each item; got repeated rows at item 1",
        "--answers must have one row",
        WIDE + "1,0,0\n",
    ),
    # ---- answers and classes
    Bad(
        "refuse too large an answer",
        "answers.answer must be in [0, 3); got 7 at item 4",
        "--answers.answer",
        LONG.replace("4,b,\n", "4,b,7\n"),
        options={**K, "invalid": "refuse"},
    ),
    Bad(
        "refuse an answer outside of its item",
        "must be in [0, n_classes) of its item; got 2 at item 4",
        answers=LONG.replace("4,b,\n", "4,b,2\n"),
        items="item,n_classes\n1,3\n2,3\n3,3\n4,2\n5,3\n6,3\n",
        options={"invalid": "refuse"},
    ),
    Bad(
        "no answer is a class",
        "answers.answer must be among the classes ['x', 'y', 'z']; got none that is: 'cat'",
        "--answers.answer",
        values(LONG, 2, AS_TEXT),
        values(SAID, 1, {"0": "x", "1": "y", "2": "z"}),
        options={"classes": ["x", "y", "z"]},
    ),
    Bad(
        "a label outside",
        "judgements.class must be in [0, 3); got 7 at item 6",
        "--judgements.class",
        judgements=values(SAID, 1, {"0": "7"}).replace("1,7", "1,0"),
    ),
    Bad(
        "a label that is no option",
        "judgements.class must be an option of its item; got other text at item 6",
        answers=values(LONG, 2, AS_TEXT),
        judgements=values(SAID, 1, AS_TEXT).replace("6,cat", "6,fish"),
        items="item,options\n" + "".join(f"{i},cat|dog|eel\n" for i in range(1, 7)),
        options={},
    ),
    Bad(
        "a place that is another option's text",
        "must be readable in one way; got 0, which is a place, from 0, of an option and also the text of the option at place 3",
        items=OPTIONS,
        options={},
    ),
    Bad(
        "the same where places are text",
        "must be readable in one way; got ' 0', which is a place",
        answers=values(LONG, 2, {"0": '" 0"', "": "none"}),
        items=OPTIONS,
        options={"no_answer": ["none"]},
    ),
    Bad(
        "letters that are texts of other options",
        "must be readable in one way; got 'A', which is a letter of an option and also the text",
        answers=values(LONG, 2, AS_LETTERS),
        judgements=values(SAID, 1, AS_LETTERS),
        items="item,options\n" + "".join(f"{i},C|B|A\n" for i in range(1, 7)),
        options={},
    ),
    Bad(
        "answers from 1 and labels from 0",
        "must count classes in one way; got classes from 0 in judgements.class and from 1 (0 never, 3 occurs) in answers.answer",
        "or pass --classes 1,2,3",
        values(LONG, 2, FROM_ONE),
    ),
    Bad(
        "answers from 1 and labels that do not tell",
        "judgements.class can be read from 0 or from 1",
        "or pass --classes 1,2,3",
        values(LONG, 2, FROM_ONE),
        "item,class,verdict\n1,1,yes\n2,2,yes\n",
    ),
    Bad(
        "answers from 1 to beyond",
        "from 1, or from 0 with answers that cannot be",
        answers=values(LONG, 2, {**FROM_ONE, "": "9"}),
        judgements=values(SAID, 1, FROM_ONE),
    ),
    Bad(
        "numbers and words",
        "must have one type in all tables; got text in answers.answer, whole numbers in judgements.class",
        answers=values(LONG, 2, AS_TEXT),
    ),
    Bad(
        "a class that is a list of nothing",
        "judgements.class must not be null",
        judgements=SAID.replace("6,0,yes", "6,,yes"),
    ),
    Bad(
        "no rows",
        "answers must have rows; got an empty table",
        "--answers must have rows",
        "item,system,answer\n",
    ),
    Bad(
        "no header",
        "got no item, system, answer in",
        "--answers must have columns",
        "1,a,0\n2,a,1\n",
    ),
    Bad(
        "invalid is no choice",
        "invalid must be 'wrong' or 'refuse'; got 'drop'",
        "",
        options={**K, "invalid": "drop"},
    ),
]


@pytest.mark.thin(6)
@pytest.mark.parametrize("case", BAD, ids=[case.id for case in BAD])
def test_every_mistake_is_one_line_with_the_remedy(
    case: Bad, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    files = write(
        tmp_path, {"answers": case.answers, "judgements": case.judgements, "items": case.items}
    )
    with pytest.raises(NoracleError, match=re.escape(case.says)):
        count_accuracy(Evidence.from_tables(**files, **case.options))
    if not case.flag:
        return
    code = run(["estimate", *flags(files, case.options), "--no-check", "--json"])
    out, err = capfd.readouterr()
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 1
    assert case.flag in err


# --------------------------------------------------------------------------------------------------------------------
# the command line


LINES = [
    (
        "a forgotten table of labels",
        "estimate --answers {long}",
        "--judgements (item, class, verdict) or --grades (item, system, verdict) must be given, or --label",
    ),
    (
        "a forgotten table of labels in a comparison",
        "compare --answers {wide}",
        "--grades (item, system, verdict) must be given",
    ),
    (
        "a forgotten table of labels in a race",
        "race --answers {wide}",
        "--grades (item, system, verdict) must be given",
    ),
    ("nothing at all", "compare", "evidence must be given: --answers and --judgements"),
    (
        "the wide file of version 0.1",
        "estimate --wide {wide} --systems a,b",
        "Write --answers {wide} --wide.",
    ),
    (
        "the same with an equals sign",
        "alarm --spec grade>0 --wide={wide}",
        "Write --answers {wide} --wide.",
    ),
    (
        "a system that does not exist",
        "estimate --answers {long} --judgements {said} --system aa",
        "--system must be in answers; got ['aa']",
    ),
    (
        "systems that do not exist",
        "compare --answers {long} --judgements {said} --systems a,bb",
        "Known are b, a.",
    ),
    (
        "a system that no pattern has",
        "alarm --answers {long} --spec grade>0 --systems a,bb",
        "Known are b, a.",
    ),
    (
        "columns without a name",
        "estimate --answers {long} --judgements {said} --columns item",
        "--columns must be name=column",
    ),
    ("labels without answers", "estimate --label key", "--label must go with --answers"),
    (
        "ratings that share no item",
        "certify --ratings {rated} --answers {other}",
        "none in common: 9, … in answers and 1, 2, … in ratings",
    ),
    (
        "raters that are no columns",
        "agreement --ratings {rated} --raters ann,bea",
        "--raters must be columns of ratings; got no bea. Known are",
    ),
    ("votes without the flag", "agreement --ratings {votes}", "Pass --votes"),
]


@pytest.mark.parametrize(
    ("line", "says"), [case[1:] for case in LINES], ids=[case[0] for case in LINES]
)
def test_mistakes_on_the_command_line(
    line: str, says: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    rated = "item,gold,ann,bob\n1,x,x,x\n2,x,x,y\n"
    tables = {
        "long": LONG,
        "wide": WIDE,
        "said": SAID,
        "rated": rated,
        "other": "item,system,answer\n9,a,x\n",
        "votes": "item,label,n\n1,x,2\n",
    }
    files = write(tmp_path, tables)
    assert run(line.format(**files).split()) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert says.format(**files) in err
    assert len(err.splitlines()) == 1


WIDE_VERBS = [
    "compare --answers {wide} --judgements {said}",
    "race --answers {wide} --judgements {said}",
    "check --answers {wide} --judgements {said} --protocol question",
    "alarm --answers {wide} --spec grade>0",
    "ranges --answers {wide} --only grade§of§a",
    "conflict --answers {wide} --spec grade>0",
    "route --answers {wide} --n 2 --seed 1",
    "certify --ratings {rated} --answers {systems} --trained-on-annotators no",
    "certify --ratings {both} --systems agent --trained-on-annotators no",
    "agreement --ratings {rated}",
    "ceiling --ratings {rated}",
    "mean --data {scores} --target human",
]


@pytest.mark.thin(6)
@pytest.mark.parametrize(
    "line", WIDE_VERBS, ids=[line.split()[0] + str(i) for i, line in enumerate(WIDE_VERBS)]
)
def test_wide_works_in_every_verb(
    line: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The wide form says the same as the long one."""
    people = [("x", "x", "y"), ("y", "y", "y"), ("x", "y", "x"), ("y", "x", "y")] * 3
    rated = "id,gold,ann,bob,cy\n" + "".join(f"{i},x,{','.join(p)}\n" for i, p in enumerate(people))
    both = "id,ann,bob,cy,agent\n" + "".join(f"{i},{','.join(p)},x\n" for i, p in enumerate(people))
    long_rated = "item,rater,label\n" + "".join(
        f"{i},{r},{x}\n"
        for i, p in enumerate(people)
        for r, x in zip(("ann", "bob", "cy"), p, strict=True)
    )
    answered = "item,system,answer\n" + "".join(
        f"{i},{s},x\n" for i in range(12) for s in ("agent", "other")
    )
    one = "item,system,answer\n" + "".join(f"{i},agent,x\n" for i in range(12))
    systems = "qid,agent,other\n" + "".join(f"{i},x,x\n" for i in range(12))
    scores = "question_id,human,judge\n" + "".join(
        f"{i},{i % 2},{(i % 5) / 5}\n" for i in range(60)
    )
    long_scores = "id,annotator,score\n" + "".join(
        f"{i},human,{i % 2}\n{i},judge,{(i % 5) / 5}\n" for i in range(60)
    )
    wide = {
        "wide": WIDE,
        "said": SAID,
        "rated": rated,
        "systems": systems,
        "both": both,
        "scores": scores,
    }
    long = {
        "wide": LONG,
        "said": SAID,
        "rated": long_rated,
        "systems": answered,
        "both": long_rated,
        "scores": long_scores,
    }
    found = []
    for form in (wide, long):
        folder = tmp_path / ("wide" if form is wide else "long")
        folder.mkdir()
        words = [word.format(**write(folder, form)).replace("§", " ") for word in line.split()]
        if form is long and "--systems" in words:
            (folder / "one.csv").write_text(one, encoding="utf-8")
            at = words.index("--systems")
            words[at : at + 2] = ["--answers", str(folder / "one.csv")]
        code = run(
            [
                *words,
                *(
                    ["--n-classes", "3"]
                    if "--answers" in words and "--ratings" not in words
                    else []
                ),
                "--json",
            ]
        )
        out, err = capfd.readouterr()
        assert code in (0, 1, 3), err
        found.append((code, _numbers(out)))
    assert found[0] == found[1]


def _numbers(out: str) -> Any:
    """A result without what says how it was read."""

    def bare(value: Any) -> Any:
        if isinstance(value, dict):
            return {
                k: bare(v)
                for k, v in value.items()
                if k not in ("guarantee", "inferred", "version")
            }
        return [bare(v) for v in value] if isinstance(value, list) else value

    return bare(json.loads(out))


# --------------------------------------------------------------------------------------------------------------------
# engines, and the rest


@pytest.mark.thin(5)
@pytest.mark.parametrize(
    "engine",
    ["dict", "csv", "jsonl", "parquet", "pandas", "polars", "polars-lazy", "duckdb", "arrow"],
)
def test_untidy_tables_are_read_the_same_on_every_engine(engine: str, tmp_path: Path) -> None:
    wide = {
        "QID": [1, 2, 3, 4, 5, 6],
        "m-1": ["A", "b)", "(C)", "A", "B", "C"],
        "m 2": ["A", "A", "C", " ", "B", "E"],
        "key": ["A"] * 6,
    }
    said = {
        "id": ["1", "2", "3", "4", "5", "6"],
        "label": [0, 1, 2, 1, 1, 0],
        "correct": ["yes"] * 6,
    }
    items = {"item": [1, 2, 3, 4, 5, 6], "options": ["cat|dog|eel"] * 6}
    tables = [
        _as(engine, t, name, tmp_path)
        for t, name in ((wide, "answers"), (said, "judgements"), (items, "items"))
    ]
    evidence = Evidence.from_tables(*tables)
    assert rights(evidence) == {"m-1": 4, "m 2": 3}
    assert evidence.inferred[-1].endswith("count as wrong: m 2 1")
    counts = count_accuracy(evidence).of("m 2")
    assert dict(counts.states) == {("m 2", "invalid"): 1}
    sketch = count_decisions(evidence, judgements="ignore")
    assert sketch.labels == ("0", "1", "2")
    assert sketch.n_items == 6
    # An answer that cannot be is never right, and proofs leave it out like no answer.
    assert int(sketch.n[(sketch.patterns == -1).any(axis=1)].sum()) == 2


def _as(engine: str, table: dict[str, list[Any]], name: str, folder: Path) -> Any:
    if engine == "dict":
        return table
    if engine in ("csv", "jsonl", "parquet"):
        return {"csv": as_csv, "jsonl": as_jsonl, "parquet": as_parquet}[engine](
            table, name, folder
        )
    import polars as pl

    frame = pl.DataFrame(table)
    if engine == "duckdb":
        import duckdb

        _as.connection = getattr(_as, "connection", None) or duckdb.connect()  # type: ignore[attr-defined]
        return _as.connection.from_arrow(frame.to_arrow())  # type: ignore[attr-defined]
    return {
        "polars": frame,
        "polars-lazy": frame.lazy(),
        "pandas": frame.to_pandas(),
        "arrow": frame.to_arrow(),
    }[engine]


def test_less_than_half_in_common_is_warned_about() -> None:
    answers = {"item": [1, 2], "system": ["a", "a"], "answer": [0, 1]}
    judged = {"item": [2, 3, 4], "class": [0, 1, 1], "verdict": ["yes"] * 3}
    with pytest.warns(
        EvidenceWarning,
        match=r"only 1 of 3 judged items have answers \(1, 2, … in answers and 2, 3, 4, … in judgements\)",
    ):
        evidence = Evidence.from_tables(answers, judged, n_classes=2)
    assert count_accuracy(evidence).unused == {
        "judgements of items without answers": 2
    }  # and they are counted


def test_dates_and_flags_are_classes_like_other_text() -> None:
    days = [dt.date(2026, 1, 1), dt.date(2026, 1, 2)]
    evidence = Evidence.from_tables(
        {"item": [1, 2], "a": days, "b": days[::-1]},
        {"item": [1, 2], "class": days, "verdict": [True, True]},
        n_classes=2,
    )
    assert rights(evidence) == {"a": 2, "b": 0}


def test_one_row_and_no_judged_class_are_honest() -> None:
    evidence = Evidence.from_tables(
        {"item": ["ü"], "a": [0], "b": [1]},
        {"item": ["ü"], "class": [0], "verdict": ["yes"]},
        n_classes=2,
    )
    assert rights(evidence) == {"a": 1, "b": 0}


def test_wide_grades_become_long_once_the_table_exists(monkeypatch: pytest.MonkeyPatch) -> None:
    from noracle.evidence.frames import fetch, open_frames

    columns = (
        TABLES["answers"].columns[0],
        TABLES["answers"].columns[1],
        Column(name="verdict", kind="verdict"),
    )
    monkeypatch.setitem(
        TABLES, "grades", TableRules(name="grades", columns=columns, key=("item", "system"))
    )
    frames, connection = open_frames(
        {"grades": {"qid": [1, 2], "gpt": [True, False], "llama": [False, None]}}
    )
    made = shaped(frames, Shape())
    assert sorted(fetch(made.frames["grades"]), key=str) == [
        (1, "gpt", True),
        (1, "llama", False),
        (2, "gpt", False),
        (2, "llama", None),
    ]
    assert made.notes[-1] == "grades: one row per item; the systems are the 2 columns gpt, llama"
    with pytest.raises(EvidenceError, match="Pass this table as judgements"):
        shaped(open_frames({"grades": {"item": [1], "class": [0], "verdict": ["yes"]}})[0], Shape())
    del connection


def test_ratings_take_names_spellings_and_wide_answers() -> None:
    rated = {"sample_id": [1, 2, 3], "ann": ["Cat", "dog", "N/A"], "bob": ["cat ", "DOG", "dog"]}
    ratings = Ratings.from_tables(
        rated,
        {"id": [1, 2, 3], "m": ["CAT", "dog", "dog"], "n": ["dog", "dog", "cat"]},
        no_answer=["n/a"],
    )
    assert ratings.raters == ("ann", "bob")
    assert ratings.seen_labels() == ("Cat", "DOG")
    from noracle.counts import count_ratings

    assert sorted(count_ratings(ratings).answers) == ["m", "n"]


def test_wide_answers_go_with_long_grades_of_other_names() -> None:
    answers = {"item": [1, 2], "a": ["x", "y"], "b": ["x", "z"]}
    grades = {"item": [1, 2, 1], "model": ["a", "a", "b"], "grade": ["right", "wrong", "right"]}
    for told in ({}, {"wide": True, "systems": ["a", "b"]}):
        evidence = Evidence.from_tables(answers, grades=grades, **told)  # type: ignore[arg-type]
        counts = count_accuracy(evidence)
        assert (
            counts.of("a").total(hit=True),
            counts.of("a").total(hit=False),
            counts.of("b").total(hit=True),
        ) == (1, 1, 1)


LARGE_VERBS = [
    "estimate --answers {long} --judgements {said} --n-classes 3",
    "estimate --answers {long} --judgements {said} --n-classes 3 --system a",
    "compare --answers {long} --judgements {said} --n-classes 3",
    "race --answers {long} --judgements {said} --n-classes 3",
    "check --answers {long} --judgements {said} --n-classes 3 --protocol question",
    "route --answers {long} --judgements {said} --n-classes 3 --n 2 --seed 1",
    "estimate --answers {long} --grades {graded}",
    "report {folder} --n-classes 3",
]


def large(first: int, end: int) -> dict[str, str]:
    """Tables of more rows than are looked at when they are opened."""
    items = range(first, end)
    return {
        "said": "item,class,verdict\n" + "".join(f"{i},{i % 3},yes\n" for i in items),
        "graded": "item,system,verdict\n" + "".join(f"{i},a,yes\n" for i in items),
        "long": "item,system,answer\n" + "".join(f"{i},{s},0\n" for i in range(1200) for s in "ab"),
    }


@pytest.mark.parametrize("line", LARGE_VERBS)
def test_large_tables_without_a_common_item(
    line: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    files = write(tmp_path, large(5000, 6200))
    folder = tmp_path / "folder"
    folder.mkdir()
    for name, table in (("answers", "long"), ("judgements", "said")):
        (folder / f"{name}.csv").write_text(large(5000, 6200)[table])
    assert run(line.format(**files, folder=folder).split()) == 2
    found = "none in common: 0, 1, 2, … in answers and 5000, 5001, 5002, … in "
    assert found in capfd.readouterr().err


@pytest.mark.parametrize("systems", [None, ["a"]])
@pytest.mark.parametrize("twice", [False, True])
def test_large_tables_with_few_common_items(
    systems: list[str] | None, twice: bool, tmp_path: Path
) -> None:
    tables = large(1000, 2200)
    tables["said"] += tables["said"].split("\n", 1)[1] if twice else ""
    files = write(tmp_path, tables)
    evidence = Evidence.from_tables(files["long"], files["said"], n_classes=3)
    with pytest.warns(EvidenceWarning, match=r"only 200 of 1,200 judged items have answers"):
        count_accuracy(evidence, systems=systems)
    assert not evidence._unmet
