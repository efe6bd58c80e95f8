"""The vault splits labels once, tells single bits, and opens the final part once."""

from __future__ import annotations

import copy
import pickle

import pytest

from noracle.errors import ArgumentError, EvidenceError, EvidenceWarning
from noracle.evidence import Evidence
from noracle.search.candidates import Outcome
from noracle.search.task import TaskItem
from noracle.search.vault import PARTS, Vault

ITEMS = tuple(TaskItem(id=i, text="?", options=("red", "green", "blue")) for i in range(40))


def no(n: int = 40, k: int = 0) -> dict[str, list[object]]:
    return {"item": list(range(n)), "class": [k] * n, "verdict": ["no"] * n}


def test_the_parts_share_no_item_and_hold_all_labelled_ones() -> None:
    vault = Vault.open(no(), ITEMS, seed=1)
    parts = [set(vault.items(part)) for part in PARTS]
    assert [len(p) for p in parts] == [20, 8, 12]
    assert set.union(*parts) == set(range(40))


def test_the_split_depends_on_seed_and_ids_not_on_the_order_of_rows() -> None:
    table = no()
    back = {name: values[::-1] for name, values in table.items()}
    first, second = Vault.open(table, ITEMS, seed=1), Vault.open(back, ITEMS[::-1], seed=1)
    assert all(first.items(part) == second.items(part) for part in PARTS)
    assert Vault.open(table, ITEMS, seed=2).items("final") != first.items("final")


@pytest.mark.parametrize("n", [3, 4, 5, 7])
def test_every_part_has_an_item_even_of_three(n: int) -> None:
    vault = Vault.open(no(n), ITEMS, seed=0, shares=(0.98, 0.01, 0.01))
    assert all(vault.items(part) for part in PARTS)
    assert sum(len(vault.items(part)) for part in PARTS) == n


def test_feedback_tells_excluded_answers_of_validation_items_only() -> None:
    vault = Vault.open(no(), ITEMS, seed=1)
    valid, other = vault.items("validation")[:3], vault.items("final")[0]
    outcomes = [
        Outcome(item=valid[0], answer=0, state="answered"),
        Outcome(item=valid[1], answer=1, state="answered"),
        Outcome(item=valid[2], answer=None, state="invalid"),
        Outcome(item=other, answer=0, state="answered"),
        Outcome(item=vault.items("confirm")[0], answer=None, state="errored"),
    ]
    said = vault.feedback(outcomes)
    assert said.excluded == ((valid[0], 0),)
    assert said.unanswered == (valid[2],)


def test_a_confirmed_class_excludes_every_other_answer_without_naming_it() -> None:
    vault = Vault.open(
        {"item": list(range(9)), "class": [2] * 9, "verdict": ["yes"] * 9}, ITEMS, seed=1
    )
    item = vault.items("validation")[0]
    assert vault.feedback([Outcome(item=item, answer=1, state="answered")]).excluded == ((item, 1),)
    assert vault.feedback([Outcome(item=item, answer=2, state="answered")]).excluded == ()


@pytest.mark.parametrize(("classes", "place"), [(["green"], 1), (["B"], 1), (["b"], 1), (["2"], 2)])
def test_classes_may_be_texts_letters_or_places(classes: list[str], place: int) -> None:
    vault = Vault.open(
        {"item": list(range(6)), "class": classes * 6, "verdict": ["no"] * 6}, ITEMS, seed=1
    )
    assert {row[1] for row in vault.evidence("validation").rows("judgements", "item", "class")} == {
        place
    }


def test_final_labels_are_taken_once_and_by_no_other_way() -> None:
    vault = Vault.open(no(), ITEMS, seed=1)
    with pytest.raises(ArgumentError, match="take_final"):
        vault.evidence("final")  # type: ignore[arg-type]
    assert {row[0] for row in vault.take_final().rows("judgements", "item")} == set(
        vault.items("final")
    )
    with pytest.raises(ArgumentError, match="taken once"):
        vault.take_final()


def test_a_vault_is_neither_copied_nor_pickled_and_its_repr_has_no_label() -> None:
    vault = Vault.open(no(k=2), ITEMS, seed=1)
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="holds labels"):
            copied(vault)
    assert repr(vault) == "Vault(20 validation, 8 confirm, 12 final)"
    assert not hasattr(vault, "__dict__")


def test_labels_of_unknown_items_are_counted_and_left_out() -> None:
    table = {"item": [*range(6), 900, 901], "class": [0] * 8, "verdict": ["no"] * 8}
    with pytest.warns(EvidenceWarning, match="2 items"):
        vault = Vault.open(table, ITEMS, seed=1)
    assert sum(len(vault.items(part)) for part in PARTS) == 6


def test_ids_that_are_text_in_one_file_and_numbers_in_the_other_are_the_same() -> None:
    vault = Vault.open(
        {"item": [str(i) for i in range(6)], "class": [0] * 6, "verdict": ["no"] * 6}, ITEMS, seed=1
    )
    assert set(vault.items("validation")) <= set(range(6))


def test_unsure_rows_label_nothing() -> None:
    with pytest.raises(EvidenceError, match="at least 3 items"):
        Vault.open(
            {"item": [0, 1, 2], "class": [0, 0, 0], "verdict": ["no", "no", "unsure"]},
            ITEMS,
            seed=1,
        )


def test_wrong_classes_contradictions_and_shares_are_refused() -> None:
    with pytest.raises(EvidenceError, match="class must be the place"):
        Vault.open({"item": [0, 1, 2], "class": [0, 3, 0], "verdict": ["no"] * 3}, ITEMS, seed=1)
    with pytest.raises(EvidenceError, match="contradict"):
        Vault.open(
            {"item": [0, 0, 1, 2], "class": [1, 1, 0, 0], "verdict": ["yes", "no", "no", "no"]},
            ITEMS,
            seed=1,
        )
    for shares in ((0.5, 0.5), (0.5, 0.5, 0.0), (0.5, 0.4, 0.3)):
        with pytest.raises(ArgumentError, match="shares"):
            Vault.open(no(), ITEMS, seed=1, shares=shares)
    with pytest.raises(EvidenceError, match="must be given"):
        Vault.open(
            Evidence.from_tables(
                answers={"item": [1], "system": ["a"], "answer": [1]}, n_classes=3
            ),
            ITEMS,
            seed=1,
        )


def test_propensities_are_kept() -> None:
    table = {**no(6), "propensity": [0.25] * 6}
    vault = Vault.open(table, ITEMS, seed=1)
    assert {row[0] for row in vault.evidence("confirm").rows("judgements", "propensity")} == {0.25}


def test_the_checksum_notices_other_labels_and_is_too_short_to_tell_one() -> None:
    first = Vault.open(no(), ITEMS, seed=1)
    assert (
        first.checksum
        == Vault.open({name: values[::-1] for name, values in no().items()}, ITEMS, seed=2).checksum
    )
    assert first.checksum != Vault.open(no(k=1), ITEMS, seed=1).checksum
    assert len(first.checksum) == 4
