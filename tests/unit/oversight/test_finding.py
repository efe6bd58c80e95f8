"""What is found in a folder: the right kind for every file, no file lost, and nothing guessed."""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from noracle.errors import ArgumentError, EvidenceError
from noracle.evidence import frames as readers
from noracle.oversight import find as listing_module
from noracle.oversight.find import find_evidence
from noracle.oversight.model import FolderSettings, Inventory
from noracle.oversight.sniff import SUFFIXES, Recogniser
from tests.unit.oversight.folders import FOLDERS, LOGS, SOUND, write, write_parquet

ANSWERS = {"item": [1, 2, 3], "system": ["a", "a", "b"], "answer": [0, 1, 1]}
JUDGEMENTS = {"item": [1, 2, 3], "class": [0, 1, 1], "verdict": ["yes", "no", "no"]}


def relative(folder: Path, path: str) -> str:
    return Path(path).relative_to(folder).as_posix()


def reasons(inventory: Inventory, folder: Path) -> dict[str, str]:
    return {relative(folder, u.path): u.reason for u in inventory.unused}


def fault_of(place: Any, **options: Any) -> str:
    with pytest.raises(EvidenceError) as caught:
        find_evidence(place, **options)
    return str(caught.value)


def assert_nothing_lost(inventory: Inventory, folder: Path) -> None:
    """Every file is in one source or ignored with a reason, itself or with the folder that it
    lies in, and never both.
    """
    used = [p for s in inventory.sources for p in s.paths]
    aside = [u.path for u in inventory.unused]
    assert len(set(aside)) == len(aside)
    assert all(u.reason for u in inventory.unused)
    assert not [p for p in used if {p, *map(str, Path(p).parents)} & set(aside)]
    for root, _, names in os.walk(folder):
        for name in names:
            path = Path(root, name)
            assert str(path) in used or any(str(p) in aside for p in (path, *path.parents)), path


# -------------------------------------------------------------------------------------------------------------------
# the folders


def test_there_are_at_least_sixteen_folders() -> None:
    assert len(FOLDERS) >= 16
    assert len(SOUND) >= 12


@pytest.mark.thin(2)
@pytest.mark.parametrize("name", FOLDERS)
def test_folder_is_recognised_or_refused_as_expected(name: str, tmp_path: Path) -> None:
    folder = tmp_path / name
    expect = FOLDERS[name](folder)
    assert (expect.stage == "") == (name in SOUND)
    if expect.stage == "find":
        assert expect.error in fault_of(folder)
        return
    inventory = find_evidence(folder)
    assert {s.kind: tuple(relative(folder, p) for p in s.paths) for s in inventory.sources} == dict(
        expect.found
    )
    assert len({s.kind for s in inventory.sources}) == len(inventory.sources)
    assert {s.kind: s.form for s in inventory.sources if s.form != "long"} == dict(expect.forms)
    found = reasons(inventory, folder)
    assert found.keys() == expect.unused.keys()
    for path, part in expect.unused.items():
        assert part in found[path]
    for part in expect.notes:
        assert any(part in note for note in inventory.notes)
    assert_nothing_lost(inventory, folder)


@pytest.mark.thin(3)
@pytest.mark.parametrize("name", SOUND)
def test_folder_is_the_same_when_it_is_written_and_found_again(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / name
    FOLDERS[name](folder)
    first = find_evidence(folder)
    contents = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    FOLDERS[name](folder)
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == contents
    walk = os.walk

    def shuffled(*args: Any, **options: Any) -> Any:
        for root, folders, names in walk(*args, **options):
            random.Random(3).shuffle(folders)
            random.Random(4).shuffle(names)
            yield root, folders, names

    monkeypatch.setattr(listing_module.os, "walk", shuffled)
    assert find_evidence(folder) == first


def test_paths_are_as_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    FOLDERS["complete"](tmp_path / "folder")
    monkeypatch.chdir(tmp_path)
    inventory = find_evidence("folder")
    assert inventory.place == "folder"
    assert all(not Path(p).is_absolute() for s in inventory.sources for p in s.paths)
    assert inventory.of("answers")[0].paths == (str(Path("folder", "answers.csv")),)
    monkeypatch.chdir("folder")
    assert find_evidence(".").of("answers")[0].paths == ("answers.csv",)
    assert find_evidence(".").settings.title == "A complete folder"


# -------------------------------------------------------------------------------------------------------------------
# kinds of file


@pytest.mark.thin(2)
@pytest.mark.parametrize(
    ("columns", "kind", "form"),
    [
        (ANSWERS, "answers", "long"),
        ({**ANSWERS, "guess": [0.1, 0.2, 0.3], "note": ["x", "y", "z"]}, "answers", "long"),
        (JUDGEMENTS, "judgements", "long"),
        ({**JUDGEMENTS, "rater": ["r"] * 3, "cost": [1, 1, 1]}, "judgements", "long"),
        ({"item": [1, 1], "rater": ["a", "b"], "label": ["x", "y"]}, "ratings", "long"),
        ({"item": [1, 1], "label": ["x", "y"], "n": [3, 4]}, "ratings", "votes"),
        ({"item": [1, 1], "rater": ["a", "b"], "value": [0.1, 0.2]}, "scores", "long"),
    ],
)
@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl", ".parquet"])
def test_kind_is_told_by_columns_and_not_by_the_name(
    columns: dict[str, list[Any]], kind: str, form: str, suffix: str, tmp_path: Path
) -> None:
    path = tmp_path / f"prices{suffix}"  # a misleading name
    if suffix == ".parquet":
        write(tmp_path.parent / "source.csv", columns)
        write_parquet(
            path, f"SELECT * FROM read_csv('{(tmp_path.parent / 'source.csv').as_posix()}')"
        )
    else:
        write(path, columns)
    (source,) = find_evidence(tmp_path).sources
    assert (source.kind, source.form, source.columns) == (kind, form, tuple(columns))
    assert source.n_rows == (len(columns["item"]) if suffix == ".parquet" else None)
    assert find_evidence(tmp_path).notes == (f"prices{suffix} holds {kind}, by its columns",)


@pytest.mark.parametrize(
    ("columns", "kind"),
    [
        ({"item": [1, 2], "n_classes": [3, 4]}, "items"),
        ({"item": [1, 2], "text": ["x", "y"]}, "items"),
        ({"item": [1, 2], "stratum": ["x", "y"], "weight": [1, 2]}, "items"),
        ({"kind": ["ordinary"], "price": [3]}, "prices"),
        ({"rater": ["ann"], "cost": [3]}, "prices"),
        ({"item": [1, 2], "text": ["x", "y"], "label": ["x", "y"]}, None),
        ({"item": [1, 2], "text": ["x", "y"], "rater": ["x", "y"]}, None),
        ({"item": [1, 2], "n_classes": [3, 4], "answer": [1, 2]}, None),
        ({"item": [1, 2], "class": [3, 4]}, None),
        ({"item": [1, 2]}, None),
        ({"item": [1, 2], "label": [0, 1], "n": [3, 4], "system": ["x", "y"]}, None),
        ({"item": [1, 2], "label": [0, 1], "n": [3, 4], "class": [1, 1]}, None),
        ({"kind": ["a"], "rater": ["b"], "price": [3]}, None),
        ({"item": [1], "rater": ["b"], "price": [3]}, None),
        ({"Item": [1], "System": ["b"], "Answer": [3]}, None),
    ],
)
def test_tables_that_are_no_evidence_alone(
    columns: dict[str, list[Any]], kind: str | None, tmp_path: Path
) -> None:
    write(tmp_path / "said.csv", ANSWERS)
    write(tmp_path / "other.csv", columns)
    inventory = find_evidence(tmp_path)
    assert [s.kind for s in inventory.sources] == (["answers", kind] if kind else ["answers"])
    assert_nothing_lost(inventory, tmp_path)


@pytest.mark.parametrize(
    "columns",
    [
        ("item", "label"),
        ("item", "class"),
        ("item", "truth"),
        ("item", "gold"),
        ("item", "correct_answer", "text"),
    ],
)
def test_key_is_never_used_and_cannot_be_named(columns: tuple[str, ...], tmp_path: Path) -> None:
    write(tmp_path / "said.csv", ANSWERS)
    write(tmp_path / "truth.csv", {name: [1, 2, 3] for name in columns})
    inventory = find_evidence(tmp_path)
    assert [s.kind for s in inventory.sources] == ["answers"]
    assert "answer key, which is not used" in reasons(inventory, tmp_path)["truth.csv"]
    (tmp_path / "noracle.toml").write_text('[files]\njudgements = "truth.csv"\n', encoding="utf-8")
    assert "must have columns item, class, verdict" in fault_of(tmp_path)


def test_header_of_other_case_or_with_common_names_is_recognised(tmp_path: Path) -> None:
    write(tmp_path / "more.csv", {"Item": [1], "System": ["b"], "Answer": [3]})
    (source,) = find_evidence(tmp_path).sources
    assert (source.kind, source.why) == (
        "answers",
        "columns Item, System, Answer, read as item, system, answer",
    )
    write(tmp_path / "said.csv", {"question_id": [1], "model": ["b"], "prediction": [3]})
    assert "answers must be one table" in fault_of(
        tmp_path
    )  # two names of one column are not put together


def test_wide_answers_are_recognised_by_their_name_and_others_by_the_settings(
    tmp_path: Path,
) -> None:
    wide = {
        "qid": [1, 2],
        "category": ["x", "y"],
        "gpt-4": [0, 1],
        "llama": [1, 1],
        "answer": [0, 0],
    }
    write(tmp_path / "answers_run1.csv", wide)
    (source,) = find_evidence(tmp_path).sources
    assert (source.form, source.options) == ("wide", {"item": "qid", "systems": ("gpt-4", "llama")})
    (tmp_path / "answers_run1.csv").rename(tmp_path / "run1.csv")
    assert "evidence" in fault_of(tmp_path)
    (tmp_path / "noracle.toml").write_text('[files]\nanswers = "run1.csv"\n', encoding="utf-8")
    (source,) = find_evidence(tmp_path).sources
    assert source.options["systems"] == ("gpt-4", "llama")


def test_wide_scores_need_a_name_or_a_setting(tmp_path: Path) -> None:
    wide = {"item": [1, 2], "gold": [1.0, 0.0], "judge": [0.3, 0.9], "who": ["x", "y"]}
    write(tmp_path / "run.csv", wide)
    assert "evidence" in fault_of(tmp_path)
    (tmp_path / "run.csv").rename(tmp_path / "Pilot_2.csv")
    (source,) = find_evidence(tmp_path).sources
    assert (source.kind, source.form) == ("scores", "wide")
    assert dict(source.options) == {"item": "item", "raters": ("gold", "judge")}
    (tmp_path / "Pilot_2.csv").rename(tmp_path / "run.csv")
    found = find_evidence(tmp_path, settings=FolderSettings(files={"scores": ("run.csv",)}))
    assert found.of("scores")[0].options["raters"] == ("gold", "judge")


def test_texts_in_a_file_without_a_header_are_not_quoted(tmp_path: Path) -> None:
    write(tmp_path / "said.csv", ANSWERS)
    (tmp_path / "secret.csv").write_text(
        "The patient says that she feels quite ill today,yes\nAnother patient,no\n",
        encoding="utf-8",
    )
    assert "patient" not in str(find_evidence(tmp_path))


def test_suffixes_are_those_that_the_readers_take() -> None:
    assert set(SUFFIXES) == set(readers._READERS)


@pytest.mark.parametrize("name", ["inspect-new.eval", "inspect-min.eval"])
def test_inspect_logs_are_answers(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes((LOGS / name).read_bytes())
    (source,) = find_evidence(tmp_path).sources
    assert (source.kind, source.form, source.why) == ("answers", "log", "a log of Inspect")


def test_log_and_table_of_answers_are_not_mixed(tmp_path: Path) -> None:
    (tmp_path / "a.eval").write_bytes((LOGS / "inspect-new.eval").read_bytes())
    write(tmp_path / "said.csv", ANSWERS)
    message = fault_of(tmp_path)
    assert "answers must be one table" in message
    assert "[files] answers" in message
    found = find_evidence(tmp_path, settings=FolderSettings(ignore=("*.eval",)))
    assert found.of("answers")[0].paths == (str(tmp_path / "said.csv"),)


# -------------------------------------------------------------------------------------------------------------------
# one table, many files


def test_files_of_one_kind_are_one_table_and_a_note_says_so(tmp_path: Path) -> None:
    write(tmp_path / "b.csv", {"item": [4], "system": ["a"], "answer": [0], "guess": [0.5]})
    write(tmp_path / "a.csv", ANSWERS)
    inventory = find_evidence(tmp_path)
    (source,) = inventory.sources
    assert [Path(p).name for p in source.paths] == ["a.csv", "b.csv"]
    assert source.columns == ("item", "system", "answer", "guess")
    assert inventory.notes == (
        "2 files are one table of answers: a.csv, b.csv; not all of them have the columns guess",
    )


def both(
    folder: Path,
    first: dict[str, list[Any]],
    second: dict[str, list[Any]],
    names: tuple[str, str] = ("a.csv", "b.csv"),
) -> None:
    for name, columns in zip(names, (first, second), strict=True):
        write(folder / name, columns)


def test_whole_numbers_and_numbers_agree_but_numbers_and_text_do_not(tmp_path: Path) -> None:
    both(tmp_path, ANSWERS, {"item": [4], "system": ["a"], "answer": [1.0]})
    assert len(find_evidence(tmp_path).sources) == 1
    write(tmp_path / "c.csv", {"item": [5], "system": ["a"], "answer": ["cat"]})
    assert "answer holds numbers in 'a.csv' and text in 'c.csv'" in fault_of(tmp_path)


def test_part_without_any_answer_is_a_part(tmp_path: Path) -> None:
    both(tmp_path, ANSWERS, {"item": [4, 5], "system": ["a", "a"], "answer": [None, None]})
    assert len(find_evidence(tmp_path).sources[0].paths) == 2


def test_formats_are_not_mixed(tmp_path: Path) -> None:
    both(tmp_path, ANSWERS, {"item": [4], "system": ["a"], "answer": [1]}, ("a.csv", "b.jsonl"))
    assert "'.csv'" not in fault_of(tmp_path)
    assert ".csv in 'a.csv' and .jsonl in 'b.jsonl'" in fault_of(tmp_path)


def test_other_separators_are_not_mixed(tmp_path: Path) -> None:
    write(tmp_path / "a.csv", ANSWERS)
    (tmp_path / "b.csv").write_text("item;system;answer\n4;a;1\n", encoding="utf-8")
    assert "separated by ','" in fault_of(tmp_path)


def test_partitioned_folders_are_not_mixed_with_plain_files(tmp_path: Path) -> None:
    write_parquet(tmp_path / "system=a" / "x.parquet", "SELECT 1 AS item, 0 AS answer")
    write_parquet(tmp_path / "y.parquet", "SELECT 2 AS item, 'b' AS system, 0 AS answer")
    assert "folders by system" in fault_of(tmp_path)


def test_same_bytes_in_two_partitions_are_both_used(tmp_path: Path) -> None:
    for system in ("a", "b"):
        write_parquet(
            tmp_path / f"system={system}" / "x.parquet",
            "SELECT i AS item, 0 AS answer FROM range(5) t(i)",
        )
    (source,) = find_evidence(tmp_path).sources
    assert source.n_rows == 10


@pytest.mark.parametrize("link", [None, os.symlink, os.link])
def test_copy_is_used_once(link: Callable[..., None] | None, tmp_path: Path) -> None:
    write(tmp_path / "said.csv", ANSWERS)
    if link is None:
        write(tmp_path / "said-copy.csv", ANSWERS)
    else:
        link(tmp_path / "said.csv", tmp_path / "said-copy.csv")
    inventory = find_evidence(tmp_path)
    assert len(inventory.sources[0].paths) == 1
    assert any("the same bytes as" in u.reason for u in inventory.unused)
    assert_nothing_lost(inventory, tmp_path)


def test_files_of_one_size_and_other_content_are_both_used(tmp_path: Path) -> None:
    both(tmp_path, ANSWERS, {**ANSWERS, "item": [4, 5, 6]})
    assert len(find_evidence(tmp_path).sources[0].paths) == 2


def test_equal_answers_of_two_models_are_no_copies(tmp_path: Path) -> None:
    FOLDERS["lm_eval_log"](tmp_path)
    small, large = (next((tmp_path / model).glob("samples*")) for model in ("small", "large"))
    large.write_bytes(small.read_bytes())
    assert len(find_evidence(tmp_path).of("answers")[0].paths) == 2


def test_stored_counts_beside_tables_are_used_where_they_are_named(tmp_path: Path) -> None:
    FOLDERS["counts_beside_tables"](tmp_path)
    inventory = find_evidence(tmp_path, settings=FolderSettings(files={"counts": ("counts.json",)}))
    assert [s.kind for s in inventory.sources] == ["answers", "judgements", "items", "counts"]
    assert inventory.unused == ()


def test_two_schemas_of_counts_are_two_sources(tmp_path: Path) -> None:
    FOLDERS["counts_only"](tmp_path)
    (tmp_path / "rated.json").write_text('{"x": 1, "schema": "rating-counts/1"}', encoding="utf-8")
    assert [s.options["schema"] for s in find_evidence(tmp_path).of("counts")] == [
        "counts/1",
        "rating-counts/1",
    ]


@pytest.mark.parametrize("schema", ["oversight/1", "results/1", "plan/1", "estimate/1", "sketch/1"])
def test_own_results_are_left_aside(schema: str, tmp_path: Path) -> None:
    write(tmp_path / "said.csv", ANSWERS)
    (tmp_path / "old.json").write_text(
        json.dumps({"title": "x" * 5000, "schema": schema}), encoding="utf-8"
    )
    assert schema in reasons(find_evidence(tmp_path), tmp_path)["old.json"]


# -------------------------------------------------------------------------------------------------------------------
# places


def test_list_of_files_finds_the_same_as_the_folder(tmp_path: Path) -> None:
    FOLDERS["complete"](tmp_path)
    files = sorted(str(p) for p in tmp_path.iterdir())
    listed, walked = find_evidence(files), find_evidence(tmp_path)
    assert listed.sources == walked.sources
    assert listed.settings == walked.settings
    assert listed.unused == walked.unused
    assert find_evidence(list(reversed(files))).sources == walked.sources


def test_file_and_glob_alone(tmp_path: Path) -> None:
    write(tmp_path / "a.csv", ANSWERS)
    assert find_evidence(tmp_path / "a.csv").sources == find_evidence([tmp_path / "a.csv"]).sources
    assert find_evidence(str(tmp_path / "*.csv")).of("answers")[0].paths == (
        str(tmp_path / "a.csv"),
    )


def test_file_that_is_given_twice_is_used_once(tmp_path: Path) -> None:
    write(tmp_path / "a.csv", ANSWERS)
    assert len(find_evidence([tmp_path / "a.csv", tmp_path / "a.csv"]).sources[0].paths) == 1


@pytest.mark.parametrize(
    "place", ["absent", "absent/*.csv", "", [], ["absent.csv", "gone.csv"], "a\0b"]
)
def test_place_that_is_not_there_is_named(
    place: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    message = fault_of(place)
    assert "place must be" in message
    if isinstance(place, list):
        assert all(name in message for name in place)


def test_settings_of_a_folder_below_are_not_read(tmp_path: Path) -> None:
    write(tmp_path / "said.csv", ANSWERS)
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "noracle.toml").write_text("nonsense", encoding="utf-8")
    inventory = find_evidence(tmp_path)
    assert inventory.settings == FolderSettings()
    assert "not read" in reasons(inventory, tmp_path)["old/noracle.toml"]


def test_given_settings_replace_those_of_the_folder(tmp_path: Path) -> None:
    FOLDERS["complete"](tmp_path)
    inventory = find_evidence(tmp_path, settings=FolderSettings(seed=4))
    assert (inventory.settings.seed, inventory.settings.title) == (4, "")
    assert "others were given" in reasons(inventory, tmp_path)["noracle.toml"]


# -------------------------------------------------------------------------------------------------------------------
# settings name files


def test_named_file_that_is_not_there_names_the_nearest(tmp_path: Path) -> None:
    write(tmp_path / "monday.csv", ANSWERS)
    message = fault_of(tmp_path, settings=FolderSettings(files={"answers": ("mondey.csv",)}))
    assert "Did you mean 'monday.csv'?" in message


def test_named_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "said.csv", ANSWERS)
    message = fault_of(tmp_path, settings=FolderSettings(files={"judgements": ("said.csv",)}))
    assert "must have columns item, class, verdict" in message
    assert "no class, verdict" in message


def test_named_file_settles_what_is_ambiguous(tmp_path: Path) -> None:
    FOLDERS["ambiguous"](tmp_path)
    settings = FolderSettings(files={"answers": ("*.csv",)}, ignore=("people.csv",))
    assert "people.csv" in fault_of(
        tmp_path, settings=settings
    )  # the glob names it, and what is named must fit
    found = find_evidence(tmp_path, settings=FolderSettings(files={"judgements": ("joined.csv",)}))
    assert [s.kind for s in found.sources] == ["answers", "judgements"]
    assert found.of("judgements")[0].why == "named in noracle.toml; columns item, class, verdict"


def test_named_hidden_file_is_used_and_not_left_aside(tmp_path: Path) -> None:
    write(tmp_path / "_said.csv", ANSWERS)
    inventory = find_evidence(tmp_path, settings=FolderSettings(files={"answers": ("_said.csv",)}))
    assert len(inventory.sources) == 1
    assert_nothing_lost(inventory, tmp_path)


def test_named_file_outside_of_the_folder_is_used_and_noted(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    write(folder / "judgements.csv", JUDGEMENTS)
    write(tmp_path / "elsewhere.csv", ANSWERS)
    inventory = find_evidence(
        folder, settings=FolderSettings(files={"answers": ("../elsewhere.csv",)})
    )
    assert inventory.of("answers")[0].paths == (str(tmp_path / "elsewhere.csv"),)
    assert any("outside of the folder" in note for note in inventory.notes)


def test_wide_columns_that_are_not_there_are_named(tmp_path: Path) -> None:
    write(tmp_path / "run.csv", {"q": [1, 2], "agent": [0, 1]})
    settings = FolderSettings(
        files={"answers": ("run.csv",)}, wide={"answers": {"item": "q", "systems": ("agnet",)}}
    )
    assert "no item, system, answer" in fault_of(tmp_path, settings=settings)


@pytest.mark.parametrize("pattern", ["drafts", "drafts/", "drafts/*", "*.csv", "draft?/a.csv"])
def test_ignored_files_are_listed_and_not_looked_at(pattern: str, tmp_path: Path) -> None:
    write(tmp_path / "said.jsonl", ANSWERS)
    (tmp_path / "drafts").mkdir()
    (tmp_path / "drafts" / "a.csv").write_bytes(b"\xff\xfe broken")
    inventory = find_evidence(tmp_path, settings=FolderSettings(ignore=(pattern,)))
    assert "ignore" in reasons(inventory, tmp_path)["drafts/a.csv"]


@pytest.mark.parametrize(
    "settings",
    [
        FolderSettings(files={"answer": ("a.csv",)}),
        FolderSettings(wide={"items": {"item": "q"}}),
        FolderSettings(files={"answers": "a.csv"}),  # type: ignore[dict-item]
        FolderSettings(ignore="*.csv"),  # type: ignore[arg-type]
    ],
)
def test_settings_made_in_python_are_checked(settings: FolderSettings, tmp_path: Path) -> None:
    write(tmp_path / "a.csv", ANSWERS)
    with pytest.raises(ArgumentError, match="settings"):
        find_evidence(tmp_path, settings=settings)


# -------------------------------------------------------------------------------------------------------------------
# odd files


@pytest.mark.parametrize(
    ("name", "content", "part"),
    [
        ("said.csv", b"item,system,answer\n1,M\xfcller,0\n", "UTF-8"),
        ("said.parquet", b"PAR1 cut off", "Parquet"),
        ("said.jsonl", b'{"item": 1, "system"', "JSON"),
        ("said.csv.gz", b"not gzip", "said.csv.gz"),
        ("answers.csv", b"", "must not be empty"),
    ],
)
def test_table_that_cannot_be_read_stops_the_report_and_names_the_way_out(
    name: str, content: bytes, part: str, tmp_path: Path
) -> None:
    write(tmp_path / "ratings.csv", {"item": [1, 1], "rater": ["a", "b"], "label": [0, 1]})
    (tmp_path / name).write_bytes(content)
    message = fault_of(tmp_path)
    assert part in message
    assert name in message
    assert find_evidence(tmp_path, settings=FolderSettings(ignore=(name,))).unused


def test_all_broken_files_are_named_at_once(tmp_path: Path) -> None:
    for name in ("a.parquet", "b.parquet"):
        (tmp_path / name).write_bytes(b"PAR1 cut off")
    write(tmp_path / "answers.csv", {"item": [1], "reply": [2]})
    with pytest.raises(EvidenceError) as caught:
        find_evidence(tmp_path)
    assert len(caught.value.faults) == 3


def test_empty_files_and_odd_names_are_left_aside_with_a_reason(tmp_path: Path) -> None:
    write(tmp_path / "said.csv", ANSWERS)
    (tmp_path / "leer.csv").write_bytes(b"")
    (tmp_path / "README").write_text("x", encoding="utf-8")
    (tmp_path / "model.bin").write_bytes(b"\0" * 100)
    (tmp_path / ".git" / "objects").mkdir(parents=True)
    (tmp_path / ".git" / "objects" / "x.csv").write_text(
        "item,system,answer\n1,a,0\n", encoding="utf-8"
    )
    inventory = find_evidence(tmp_path)
    found = reasons(inventory, tmp_path)
    assert {k: v[:6] for k, v in found.items()} == {
        "leer.csv": "empty:",
        "README": "a text",
        "model.bin": "not a ",
        ".git": "hidden",
    }
    assert_nothing_lost(inventory, tmp_path)


def test_folders_of_delta_tables_are_left_aside(tmp_path: Path) -> None:
    write(tmp_path / "said.csv", ANSWERS)
    write_parquet(tmp_path / "lake" / "x.parquet", "SELECT 1 AS item, 'a' AS system, 0 AS answer")
    (tmp_path / "lake" / "_delta_log").mkdir()
    inventory = find_evidence(tmp_path)
    assert "Delta" in reasons(inventory, tmp_path)["lake"]
    assert_nothing_lost(inventory, tmp_path)


def test_links_are_followed_to_files_only(tmp_path: Path) -> None:
    folder, other = tmp_path / "folder", tmp_path / "other"
    write(other / "said.csv", ANSWERS)
    folder.mkdir()
    (folder / "link.csv").symlink_to(other / "said.csv")
    (folder / "loop").symlink_to(folder, target_is_directory=True)
    (folder / "nothing.csv").symlink_to(other / "absent.csv")
    os.mkfifo(folder / "pipe.csv")
    inventory = find_evidence(folder)
    assert inventory.of("answers")[0].paths == (str(folder / "link.csv"),)
    assert any("outside of the folder" in note for note in inventory.notes)
    assert reasons(inventory, folder).keys() == {"loop", "nothing.csv", "pipe.csv"}
    assert_nothing_lost(inventory, folder)


@pytest.mark.skipif(os.name == "nt", reason="names are text there")
def test_name_that_is_not_text_is_left_aside_and_can_be_written(tmp_path: Path) -> None:
    write(tmp_path / "said.csv", ANSWERS)
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.csv")).write_text(
        "item,system,answer\n1,a,0\n", encoding="utf-8"
    )
    (left,) = find_evidence(tmp_path).unused
    assert "not UTF-8" in left.reason
    assert left.path.encode()


def test_file_that_vanishes_meanwhile_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "said.csv", ANSWERS)
    look = Recogniser.look

    def look_and_lose(self: Recogniser, path: str, **options: Any) -> Any:
        seen = look(self, path, **options)
        Path(path).unlink()
        return seen

    monkeypatch.setattr(Recogniser, "look", look_and_lose)
    message = fault_of(tmp_path)
    assert "said.csv" in message
    assert "Look again" in message


def test_address_of_a_file_goes_to_the_engine(tmp_path: Path) -> None:
    write_parquet(
        tmp_path / "x.parquet", "SELECT i AS item, 'a' AS system, 0 AS answer FROM range(5) t(i)"
    )
    address = (tmp_path / "x.parquet").as_uri()
    (source,) = find_evidence([address]).sources
    assert (source.kind, source.paths, source.n_rows) == ("answers", (address,), 5)


@pytest.mark.parametrize(
    ("name", "part"),
    [("answers.xlsx", "save it as CSV"), ("old.zip", "unpack it"), ("labels.sqlite", "database")],
)
def test_files_of_other_tools_are_left_aside_with_what_to_do(
    name: str, part: str, tmp_path: Path
) -> None:
    write(tmp_path / "said.csv", ANSWERS)
    (tmp_path / name).write_bytes(b"PK")
    assert part in reasons(find_evidence(tmp_path), tmp_path)[name]


def test_file_without_the_right_to_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "said.csv", ANSWERS)

    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("noracle.oversight.sniff.Recogniser._look", refuse)
    message = fault_of(tmp_path)
    assert "said.csv" in message
    assert "Permission denied" in message


def test_folder_without_the_right_to_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError(13, "Permission denied", "closed")

    monkeypatch.setattr(listing_module.os, "scandir", refuse)
    assert "Permission denied" in fault_of(tmp_path)


@pytest.mark.parametrize(
    "name", ["a[1].csv", "what?.csv", "st*r.csv", "{x}.csv", "100 %.csv", "new\nline.csv"]
)
def test_file_with_marks_of_globs_in_its_name_is_found(name: str, tmp_path: Path) -> None:
    write(tmp_path / name, ANSWERS)
    assert find_evidence(tmp_path).of("answers")[0].paths == (str(tmp_path / name),)


@pytest.mark.parametrize(
    ("name", "other"),
    [("a[1].csv", "a1.csv"), ("st*r.csv", "star.csv"), ("what?.csv", "whatx.csv")],
)
def test_name_that_an_engine_would_take_for_other_files_is_refused(
    name: str, other: str, tmp_path: Path
) -> None:
    write(tmp_path / name, ANSWERS)
    write(tmp_path / other, {**ANSWERS, "item": [7, 8, 9]})
    assert other in fault_of(tmp_path)


@pytest.mark.full
@pytest.mark.parametrize("n", [500, pytest.param(5000, marks=pytest.mark.slow)])
def test_very_many_files_are_found_quickly(n: int, tmp_path: Path) -> None:
    for i in range(n):
        (tmp_path / f"part-{i:05d}.csv").write_text(
            f"item,system,answer\n{i},a,{i % 3}\n", encoding="utf-8"
        )
        (tmp_path / f"note-{i:05d}.txt").write_text("x", encoding="utf-8")
    started = time.perf_counter()
    inventory = find_evidence(tmp_path)
    assert time.perf_counter() - started < 30
    assert len(inventory.sources[0].paths) == n
    assert len(inventory.unused) == n


@pytest.mark.timing
def test_only_the_head_of_a_large_file_is_read(tmp_path: Path) -> None:
    FOLDERS["huge"](tmp_path)
    started = time.perf_counter()
    inventory = find_evidence(tmp_path)
    assert time.perf_counter() - started < 2
    assert inventory.of("answers")[0].n_rows == 1_000_000
