"""Tasks out of files: the foundation's table, every preset on a file of its shape, and the key that
is never read.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from noracle.errors import ArgumentError, EvidenceError, EvidenceWarning
from noracle.evidence.frames import connect
from noracle.search import task as reading
from noracle.search.task import TaskItem, items_table, load_preset, pose, preset_names, read_task
from noracle.search.vault import PARTS, Vault

CANARY = "CANARY-of-the-key"


def lines(path: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    path.write_text(
        "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8"
    )
    return path


def table(path: Path, rows: Sequence[Sequence[object]]) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(rows)
    return path


def parquet(path: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    source = lines(path.with_suffix(".jsonl"), rows)
    with connect() as connection:
        connection.execute(
            f"COPY (SELECT * FROM read_json('{source}', format = 'newline_delimited')) TO '{path}' (FORMAT parquet)"
        )
    return path


# ------------------------------------------------------------------------------------------------------------
# the items table


def test_the_items_table_needs_no_preset(tmp_path: Path) -> None:
    file = lines(
        tmp_path / "items.jsonl",
        [{"item": "a", "text": "One?", "options": ["x", "y"], "stratum": "s"}],
    )
    task = read_task(file)
    assert task.name == "items"
    assert task.items == (TaskItem(id="a", text="One?", options=("x", "y"), stratum="s"),)


@pytest.mark.parametrize("options", ['["x", "y"]', "x|y", "x | y "])
def test_options_in_csv_are_json_or_have_bars(tmp_path: Path, options: str) -> None:
    file = table(tmp_path / "items.csv", [["item", "text", "options"], [7, "One?", options]])
    assert read_task(file).items[0].options == ("x", "y")


def test_items_without_a_name_are_numbered_from_0(tmp_path: Path) -> None:
    file = table(tmp_path / "items.csv", [["text", "options"], ["One?", "x|y"], ["Two?", "x|y"]])
    assert [item.id for item in read_task(file).items] == [0, 1]


def test_other_columns_can_be_named(tmp_path: Path) -> None:
    file = table(
        tmp_path / "q.csv", [["nr", "stem", "first", "second", "part"], [3, "One?", "x", "y", "p"]]
    )
    task = read_task(
        file,
        columns={"item": "nr", "text": "stem", "options": ("first", "second"), "stratum": "part"},
        name="mine",
    )
    assert task.name == "mine"
    assert task.items == (TaskItem(id=3, text="One?", options=("x", "y"), stratum="p"),)


def test_limit_takes_the_first_items(tmp_path: Path) -> None:
    file = table(
        tmp_path / "items.csv",
        [["item", "text", "options"], *([i, f"{i}?", "x|y"] for i in range(9))],
    )
    assert [item.id for item in read_task(file, limit=3).items] == [0, 1, 2]
    with pytest.raises(ArgumentError, match="limit must be at least 1"):
        read_task(file, limit=0)


def test_items_without_two_options_are_left_out_and_said(tmp_path: Path) -> None:
    rows = [
        ["item", "text", "options"],
        [1, "One?", "x"],
        [2, "Two?", "x|y"],
        [3, "Three?", "|".join(map(str, range(27)))],
    ]
    with pytest.warns(
        EvidenceWarning, match=r"2 items without 2 to 26 readable options left out: 1, 3\."
    ):
        assert [item.id for item in read_task(table(tmp_path / "items.csv", rows)).items] == [2]


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([["item", "text"], [1, "One?"]], "options"),
        ([["item", "options"], [1, "x|y"]], "text"),
        (
            [["item", "text", "options"], [1, "One?", "x|y"], [1, "Two?", "x|y"]],
            "must name every row once",
        ),
        ([["item", "text", "options"], [1, "", "x|y"]], "text must not be empty"),
        (
            [["item", "text", "options"], ["", "One?", "x|y"], [2, "One?", "x|y"]],
            "item must not be empty",
        ),
        ([["item", "text", "options"], [1, "One?", "x"]], "must hold items with 2 to 26 options"),
    ],
)
def test_files_that_break_a_rule_are_refused_in_one_line(
    tmp_path: Path, rows: Sequence[Sequence[object]], said: str
) -> None:
    with pytest.raises(EvidenceError, match=said) as error:
        read_task(table(tmp_path / "items.csv", rows))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("image", "scan.png"),
        ("Image_1", "data:image/png;base64,AA"),
        ("system_prompt", "Be rude."),
        ("messages", [{"role": "user", "content": "earlier"}]),
        ("images", [{"bytes": "AA", "path": None}]),
        ("Pictures", "a.jpg"),
    ],
)
def test_what_a_model_would_not_see_is_refused_and_not_dropped(
    tmp_path: Path, column: str, value: object
) -> None:
    plain = {"item": 0, "text": "One?", "options": ["x", "y"]}
    rows = [plain, {**plain, "item": 1, column: value}]
    path = lines(tmp_path / "items.jsonl", rows)
    with pytest.raises(EvidenceError, match=f"must be text alone; got 1 items with .* '{column}'"):
        read_task(path)
    read_task(path, columns={"stratum": column})  # then it is read, and somebody wants it so


def test_columns_for_images_that_are_empty_do_no_harm(tmp_path: Path) -> None:
    rows = [["item", "text", "options", "image"], [1, "One?", "x|y", ""], [2, "Two?", "x|y", ""]]
    assert len(read_task(table(tmp_path / "items.csv", rows)).items) == 2
    plain = {"item": 0, "text": "One?", "options": ["x", "y"], "image": None}
    assert len(read_task(lines(tmp_path / "items.jsonl", [plain])).items) == 1


def test_a_column_of_the_key_is_refused_even_where_it_is_asked_for(tmp_path: Path) -> None:
    file = table(tmp_path / "q.csv", [["question", "choices", "answer"], ["One?", "x|y", 1]])
    with pytest.raises(ArgumentError, match="must not name the key"):
        read_task(file, preset="mmlu", columns={"stratum": "answer"})


def test_the_items_table_is_given_back(tmp_path: Path) -> None:
    file = lines(
        tmp_path / "items.jsonl",
        [{"item": "a", "text": "One?", "options": ["x|z", "y"], "stratum": "s"}],
    )
    task = read_task(file)
    back = items_table(task)
    assert back["n_classes"] == [2]
    again = lines(
        tmp_path / "again.jsonl",
        [dict(zip(back, row, strict=True)) for row in zip(*back.values(), strict=True)],
    )
    assert read_task(again).items == task.items


# --------------------------------------------------------------------------------------------------------------------
# presets Shapes: MedQA and EDINET-Bench as their own documentation and code describe them;
# MMLU-Pro, Medical Abstracts as in files at hand; GPQA as in the code that scores it. ARC, MMLU and
# MATH-MC from general knowledge: not checked against a downloaded file.


def test_mmlu_pro(tmp_path: Path) -> None:
    rows = [
        {
            "question_id": 70,
            "question": "One?",
            "options": ["w", "x", "y", "N/A", "N/A"],
            "answer": CANARY,
            "answer_index": 1,
            "category": "law",
        },
        {
            "question_id": 71,
            "question": "Two?",
            "options": ["N/A", "x"],
            "answer": CANARY,
            "answer_index": 0,
            "category": "law",
        },
    ]
    for file in (lines(tmp_path / "test.jsonl", rows), parquet(tmp_path / "test.parquet", rows)):
        task = read_task(file, preset="mmlu-pro")
        assert task.items[0] == TaskItem(id=70, text="One?", options=("w", "x", "y"), stratum="law")
        assert task.items[1].options == (
            "N/A",
            "x",
        )  # only at the end, so that classes keep their places
        assert CANARY not in repr(task)
    whole = tmp_path / "whole.json"
    whole.write_text(json.dumps(rows), encoding="utf-8")
    assert read_task(whole, preset="mmlu-pro").items == task.items


def test_medqa_usmle_by_letter(tmp_path: Path) -> None:
    rows = [
        {
            "question": "One?",
            "answer": CANARY,
            "options": {"A": "w", "B": "x", "C": "y", "D": "z"},
            "meta_info": "step1",
            "answer_idx": "B",
        },
        {
            "question": "Two?",
            "answer": CANARY,
            "options": {"B": "x", "A": "w", "C": "y", "D": "z", "E": "v"},
            "meta_info": "step1",
            "answer_idx": "B",
        },
    ]
    for file in (lines(tmp_path / "us.jsonl", rows), parquet(tmp_path / "us.parquet", rows)):
        task = read_task(file, preset="medqa-usmle")
        assert [item.options for item in task.items] == [
            ("w", "x", "y", "z"),
            ("w", "x", "y", "z", "v"),
        ]
        assert CANARY not in repr(task)


def test_medqa_usmle_by_key_and_value(tmp_path: Path) -> None:
    rows = [
        {
            "question": "One?",
            "options": [{"key": "A", "value": "w"}, {"key": "B", "value": "x"}],
            "answer": CANARY,
            "answer_idx": "A",
        }
    ]
    assert read_task(parquet(tmp_path / "med.parquet", rows), preset="medqa-usmle").items[
        0
    ].options == ("w", "x")


def gpqa(n: int) -> list[list[object]]:
    header = [
        "Record ID",
        "Question",
        "Correct Answer",
        "Incorrect Answer 1",
        "Incorrect Answer 2",
        "Incorrect Answer 3",
        "High-level domain",
    ]
    return [
        header,
        *(
            [
                f"rec{i}",
                f"Question {i}?",
                f"right {i}",
                f"wrong {i}",
                f"off {i}",
                f"bad {i}",
                "Physics",
            ]
            for i in range(n)
        ),
    ]


def test_gpqa_does_not_give_the_key_away_by_its_order(tmp_path: Path) -> None:
    task = read_task(table(tmp_path / "gpqa.csv", gpqa(400)), preset="gpqa")
    right = [item.options.index(f"right {i}") for i, item in enumerate(task.items)]
    counts = [right.count(place) for place in range(4)]
    assert min(counts) > 70  # each place about 100 times: under 0.1 % for a fair draw to be lower
    assert task.items[0].stratum == "Physics"
    shuffled = gpqa(400)
    table(tmp_path / "other.csv", [shuffled[0], *reversed(shuffled[1:])])
    other = {item.id: item for item in read_task(tmp_path / "other.csv", preset="gpqa").items}
    assert all(
        other[item.id] == item for item in task.items
    )  # classes do not depend on the order of the rows


def test_math_mc_with_and_without_a_header(tmp_path: Path) -> None:
    named = table(
        tmp_path / "a.csv",
        [["Question", "A", "B", "C", "D", "E", "Answer"], ["1+1?", "1", "2", "3", "4", "", CANARY]],
    )
    bare = table(
        tmp_path / "b.csv",
        [["1+1?", "1", "2", "3", "4", CANARY], ["1+2?", "1", "2", "3", "4", CANARY]],
    )
    assert read_task(named, preset="math-mc").items[0].options == ("1", "2", "3", "4")
    task = read_task(bare, preset="math-mc")
    assert [(item.text, item.options) for item in task.items] == [
        (f"1+{i}?", ("1", "2", "3", "4")) for i in (1, 2)
    ]
    assert CANARY not in repr(task)


def test_the_papers_own_csv_is_read_by_the_same_presets(tmp_path: Path) -> None:
    file = table(
        tmp_path / "p.csv",
        [
            ["Question", "A", "B", "C", "D", "Answer", "Comp Label"],
            ["1+1?", "1", "2", "3", "4", CANARY, CANARY],
        ],
    )
    for preset in ("math-mc", "gpqa", "medqa-usmle"):
        task = read_task(file, preset=preset)
        assert task.items[0].options == ("1", "2", "3", "4")
        assert CANARY not in repr(task)


def test_edinet_bench(tmp_path: Path) -> None:
    row = {
        "meta": CANARY,
        "summary": '{"売上高": 1}',
        "bs": '{"資産": 2}',
        "pl": "{}",
        "cf": '{"現金": 3}',
        "text": "…",
        "industry": CANARY,
    }
    row |= {"edinet_code": CANARY, "doc_id": "S100ABCD", "file_path": CANARY}
    task = read_task(lines(tmp_path / "train.jsonl", [row]), preset="edinet-bench")
    item = task.items[0]
    assert (item.id, len(item.options), item.options[13]) == ("S100ABCD", 16, "銀行")
    assert all(part in item.text for part in ("summary:", "売上高", "資産", "現金"))
    assert CANARY not in repr(task)


def test_medical_abstracts(tmp_path: Path) -> None:
    file = table(
        tmp_path / "medical_tc_test.csv",
        [["condition_label", "medical_abstract"], [5, "Pain."], [1, "Tumour."]],
    )
    task = read_task(file, preset="medical-abstracts")
    assert [item.id for item in task.items] == [0, 1]
    assert task.items[0].options[0] == "Neoplasms"  # label 1 is class 0
    assert len(task.items[0].options) == 5
    assert "abstract" in task.instruction


def test_arc_in_both_shapes(tmp_path: Path) -> None:
    nested = {
        "id": "M1",
        "question": {
            "stem": "One?",
            "choices": [{"text": "w", "label": "A"}, {"text": "x", "label": "B"}],
        },
        "answerKey": CANARY,
    }
    flat = {
        "id": "M1",
        "question": "One?",
        "choices": {"text": ["w", "x"], "label": ["1", "2"]},
        "answerKey": CANARY,
    }
    tasks = [
        read_task(lines(tmp_path / "nested.jsonl", [nested]), preset="arc"),
        read_task(lines(tmp_path / "flat.jsonl", [flat]), preset="arc"),
        read_task(parquet(tmp_path / "flat.parquet", [flat]), preset="arc"),
    ]
    assert all(
        task.items == (TaskItem(id="M1", text="One?", options=("w", "x")),) for task in tasks
    )


def test_mmlu_in_both_shapes(tmp_path: Path) -> None:
    rows = [{"question": "One?", "subject": "law", "choices": ["w", "x", "y", "z"], "answer": 1}]
    assert read_task(parquet(tmp_path / "test.parquet", rows), preset="mmlu").items[0] == TaskItem(
        id=0, text="One?", options=("w", "x", "y", "z"), stratum="law"
    )
    bare = table(
        tmp_path / "law_test.csv",
        [["One?", "w", "x", "y", "z", "B"], ["Two, then?", "w", "x", "y", "z", "A"]],
    )
    assert [item.text for item in read_task(bare, preset="mmlu").items] == ["One?", "Two, then?"]


def test_only_the_wanted_columns_leave_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[list[str]] = []

    def fetch(frame: Any) -> Any:
        seen.append(list(frame.columns))
        return original(frame)

    original = reading.fetch
    monkeypatch.setattr(reading, "fetch", fetch)
    rows = [{"question": "One?", "subject": "law", "choices": ["w", "x"], "answer": 1}]
    read_task(parquet(tmp_path / "test.parquet", rows), preset="mmlu")
    assert seen == [["question", "choices", "subject"]]


def test_every_preset_says_what_it_is_and_what_the_key_is() -> None:
    for name in preset_names():
        preset = load_preset(name)
        assert preset.name == name
        assert preset.about
        assert preset.key
        assert not set(preset.key) & {*preset.item, *preset.stratum}


def test_a_preset_can_be_a_file(tmp_path: Path) -> None:
    own = {
        "schema": "preset/1",
        "name": "own",
        "text": [["body"]],
        "options": [{"classes": ["spam", "ham"]}],
        "key": ["truth"],
    }
    (tmp_path / "own.json").write_text(json.dumps(own), encoding="utf-8")
    task = read_task(
        table(tmp_path / "mail.csv", [["body", "truth"], ["Buy!", CANARY]]),
        preset=tmp_path / "own.json",
    )
    assert task.items == (TaskItem(id=0, text="Buy!", options=("spam", "ham")),)


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"schema": "preset/2"}',
        '{"schema": "preset/1", "name": "x", "text": [["t"]], "options": [{"odd": 1}]}',
    ],
)
def test_a_preset_of_another_shape_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "own.json").write_text(text, encoding="utf-8")
    with pytest.raises(ArgumentError, match="must have the shape of schema preset/1"):
        load_preset(tmp_path / "own.json")
    with pytest.raises(ArgumentError, match="preset must be one of arc"):
        load_preset("unheard-of")


def test_the_real_medical_abstracts(data_folder: Path) -> None:
    task = read_task(data_folder / "medical_abstracts.parquet", preset="medical-abstracts")
    assert len(task.items) == 2888
    assert {len(item.options) for item in task.items} == {5}
    assert min(len(item.text) for item in task.items) > 20


def test_the_real_mmlu_pro_predictions_have_no_texts_and_say_so(data_folder: Path) -> None:
    with pytest.raises(EvidenceError, match="items must have question and options"):
        read_task(data_folder / "mmlu_pro_predictions.parquet", preset="mmlu-pro")


# --------------------------------------------------------------------------------------------------------------------
# shuffling


def test_every_order_of_options_is_equally_likely() -> None:
    orders = [
        pose(TaskItem(id=i, text="?", options=("x", "y", "z")), shuffle=1).order
        for i in range(3000)
    ]
    counts = [orders.count(order) for order in sorted(set(orders))]
    assert len(counts) == 6
    assert (
        sum((n - 500) ** 2 / 500 for n in counts) < 20.5
    )  # chi-square with 5 degrees of freedom, 0.1 %


def test_the_order_depends_on_seed_and_item_alone() -> None:
    one = TaskItem(id=1, text="?", options=tuple("abcdefgh"))
    assert pose(one, shuffle=1) == pose(one, shuffle=1)
    assert pose(one, shuffle=1).order != pose(one, shuffle=2).order
    assert pose(one).order == tuple(range(8))


def test_numbers_and_texts_in_one_column_of_json_lines_keep_their_names(tmp_path: Path) -> None:
    names = ["a/b\n../0", 'say "hi"', "{{7*7}} %s {0}", "\u2028é", 6]
    rows = [{"item": name, "text": f"Case {name}?", "options": ["x", "y"]} for name in names]
    (tmp_path / "items.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    task = read_task(tmp_path / "items.jsonl")
    assert [str(item.id) for item in task.items] == [str(name) for name in names]
    labels = {"item": [str(name) for name in names], "class": [0] * 5, "verdict": ["no"] * 5}
    vault = Vault.open(labels, task.items, seed=1)
    assert sum(len(vault.items(part)) for part in PARTS) == 5
    prompts = [pose(item).prompt() for item in task.items]
    assert all(f"Case {name}?" in prompt for name, prompt in zip(names, prompts, strict=True))
