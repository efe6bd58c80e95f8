"""The journal is append-only, survives half a line, and refuses what is not its own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from noracle.errors import ArgumentError
from noracle.results import Estimate, Guarantee, Kind
from noracle.search.archive import (
    SNAPSHOT,
    SearchArchive,
    entry_event,
    entry_of,
    outcomes_of,
    proposal_event,
)
from noracle.search.candidates import Entry, Outcome, Proposal, outcome_columns
from noracle.search.journal import JOURNAL
from noracle.search.model import Usage
from tests.unit.search.searching import one_call

SETTINGS = {"seed": 1, "strategy": "listed", "budget": 10}
OUTCOMES = (
    Outcome(item="a", answer=1, state="answered", calls=2, usage=Usage(10, 3)),
    Outcome(item=7, answer=None, state="refused", calls=1, usage=Usage(4, 0), repeat=2),
)
FITNESS = Estimate(
    quantity="accuracy",
    subject="plain",
    value=0.5,
    low=0.1,
    high=0.9,
    confidence=0.95,
    method="ml",
    interval="exact",
    guarantee=Guarantee(kind=Kind.FINITE_SAMPLE, error_rate=0.05),
)


def fill(archive: SearchArchive) -> None:
    proposal = Proposal(
        workflow=one_call("plain"),
        parents=(0, 2),
        change="two\nlines " + "x" * 400,
        thought="item text: SECRET",
        share=0.5,
    )
    archive.append(proposal_event(3, proposal, origin="adas", generation=2, cost={"calls": 4}))
    archive.append(
        entry_event(3, outcomes=OUTCOMES, fitness=FITNESS, problem="", cost={"calls": 3})
    )


def only_entry(archive: SearchArchive) -> Entry:
    (made,), (done,) = archive.of("proposal"), archive.of("entry")
    return entry_of(made, done, accepted=False)


def test_events_come_back_as_they_were_written(tmp_path: Path) -> None:
    with SearchArchive(tmp_path, SETTINGS) as archive:
        fill(archive)
        before = only_entry(archive)
        archive.snapshot()
    with SearchArchive(tmp_path, SETTINGS) as archive:
        entry = only_entry(archive)
    assert entry == before
    assert entry.outcomes == OUTCOMES
    assert entry.fitness == FITNESS
    assert (entry.number, entry.parents, entry.generation, entry.origin) == (3, (0, 2), 2, "adas")
    assert entry.cost == {"calls": 3, "design_calls": 4}


def test_thoughts_are_not_kept_and_changes_are_one_short_line(tmp_path: Path) -> None:
    with SearchArchive(tmp_path, SETTINGS) as archive:
        fill(archive)
        archive.snapshot()
    for name in (JOURNAL, SNAPSHOT):
        assert "SECRET" not in (tmp_path / name).read_text(encoding="utf-8")
    change = json.loads((tmp_path / SNAPSHOT).read_text(encoding="utf-8"))["entries"][0]["change"]
    assert "\n" not in change
    assert len(change) == 200


@pytest.mark.parametrize("cut", [1, 5, 40])
def test_half_a_line_at_the_end_is_cut_off_and_written_again(tmp_path: Path, cut: int) -> None:
    with SearchArchive(tmp_path, SETTINGS) as archive:
        fill(archive)
    whole = (tmp_path / JOURNAL).read_bytes()
    (tmp_path / JOURNAL).write_bytes(whole[:-cut])
    with SearchArchive(tmp_path, SETTINGS) as archive:
        kinds = ("begin", "proposal", "entry")
        assert [len(archive.of(kind)) for kind in kinds] == [1, 1, 0]
        archive.append(
            entry_event(3, outcomes=OUTCOMES, fitness=FITNESS, problem="", cost={"calls": 3})
        )
    assert (tmp_path / JOURNAL).read_bytes() == whole


def test_half_of_the_first_line_begins_anew(tmp_path: Path) -> None:
    (tmp_path / JOURNAL).write_bytes(b'{"event":"beg')
    with SearchArchive(tmp_path, SETTINGS) as archive:
        assert archive.settings == SETTINGS


def test_other_settings_are_refused_by_name_but_a_larger_budget_is_not(tmp_path: Path) -> None:
    SearchArchive(tmp_path, SETTINGS).close()
    SearchArchive(tmp_path, {**SETTINGS, "budget": 20}).close()
    with pytest.raises(
        ArgumentError,
        match=r"another seed \('1' there, '2' here\), strategy \('listed' there, 'mutate' here\) in",
    ):
        SearchArchive(tmp_path, {**SETTINGS, "seed": 2, "strategy": "mutate"})


@pytest.mark.parametrize(
    "text",
    [
        "hello\n",
        "[1]\n",
        '{"event":"entry"}\n',
        '{"event":"begin","schema":"other/1","settings":{}}\n',
    ],
)
def test_a_file_that_is_no_journal_is_refused_and_left_alone(tmp_path: Path, text: str) -> None:
    (tmp_path / JOURNAL).write_text(text, encoding="utf-8")
    with pytest.raises(ArgumentError, match="folder must hold"):
        SearchArchive(tmp_path, SETTINGS)
    assert (tmp_path / JOURNAL).read_text(encoding="utf-8") == text


def test_two_searches_in_one_folder_are_refused(tmp_path: Path) -> None:
    pytest.importorskip("fcntl", reason="file locks are not known on this system")
    with (
        SearchArchive(tmp_path, SETTINGS),
        pytest.raises(ArgumentError, match="another search is running"),
    ):
        SearchArchive(tmp_path, SETTINGS)


def test_outcomes_make_the_round_trip() -> None:
    assert outcomes_of(json.loads(json.dumps(outcome_columns(OUTCOMES)))) == OUTCOMES
    assert outcomes_of(outcome_columns(())) == ()


def test_stray_temporary_files_are_removed(tmp_path: Path) -> None:
    (tmp_path / f".{SNAPSHOT}.x.tmp").write_text("half", encoding="utf-8")
    with SearchArchive(tmp_path, SETTINGS) as archive:
        archive.clean()
        archive.snapshot()
    assert sorted(p.name for p in tmp_path.iterdir()) == [SNAPSHOT, JOURNAL]
