"""The ledger: what was changed by hand is found, what a kill or a merge left is not lost."""

from __future__ import annotations

import hmac
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from noracle import ArgumentError, EvidenceError
from noracle.files import digest
from noracle.gate import GateClaim, GateLedger, GateRun, GateSettings, summary
from tests.unit.gate.worlds import GateWorld


def add(
    path: Path, n: int = 1, outcome: str = "pass", settings: GateSettings | None = None
) -> None:
    """Decisions that a test made up, as the gate writes them."""
    with GateLedger(path, settings) as ledger:
        for _ in range(n):
            t, error, level = ledger.next_error(reused=True)
            line = {"kind": "decision", "t": t, "test": "reused", "error": error, "level": level}
            ledger.append({**line, "outcome": outcome, "fingerprint": f"{path} {t}"})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "gate.jsonl"


def edit(path: Path, number: int, *, has_key: bool = True, **changes: Any) -> None:
    """Change a line by hand, and its hash with it; and its seal, by somebody who has the key."""
    rows = path.read_text().splitlines()
    line = {**json.loads(rows[number]), **changes}
    line["hash"] = digest({k: v for k, v in line.items() if k not in ("hash", "seal")})
    key = path.with_suffix(".key").read_text().strip().encode()
    if has_key:
        line["seal"] = hmac.new(key, f"line {line['hash']}".encode(), "sha256").hexdigest()[:32]
    rows[number] = json.dumps(line)
    path.write_text("\n".join([*rows, ""]))


def test_a_ledger_spends_as_the_formula_says(path: Path) -> None:
    add(path, 3)
    add(path, 2, "fail")
    ledger = GateLedger.read(path)
    assert ledger.faults == []
    assert [line["t"] for line in ledger.decisions] == [1, 2, 3, 4, 5]
    levels = [line["level"] / line["error"] for line in ledger.decisions]
    # after 3 passes and a fail: 2^-2 / (C(4, 1)·2)
    assert levels == pytest.approx([1 / 2, 1 / 2, 1 / 2, 1 / 2, 1 / 32])


def _swap(path: Path) -> None:
    rows = path.read_text().splitlines()
    rows[2] = rows[2].replace('"outcome":"pass"', '"outcome":"fail"')
    path.write_text("\n".join([*rows, ""]))


def _drop(path: Path) -> None:
    rows = path.read_text().splitlines()
    path.write_text("\n".join([*rows[:2], *rows[3:], ""]))


def _start(path: Path) -> None:
    path.write_text("\n".join([*path.read_text().splitlines()[1:], ""]))


def _two_starts(path: Path) -> None:
    other = path.with_name("other.jsonl")
    add(other)
    path.write_text(path.read_text() + other.read_text())


HAND: dict[str, tuple[Callable[[Path], None], str]] = {
    "outcome": (_swap, "line 3 was changed after it was written"),
    "a line taken out": (_drop, "line 3: a line before it is missing"),
    "the first line taken out": (_start, "there are 0 first lines"),
    "two ledgers in one": (_two_starts, "there are 2 first lines"),
    "a larger level, and a new hash": (lambda p: edit(p, 4, level=0.01), "line 5: level must be"),
    "a smaller number": (lambda p: edit(p, 4, t=1), "line 5: t must be 4"),
    "nothing spent": (lambda p: edit(p, 4, error=0.0), "line 5: error must be"),
    "no outcome": (lambda p: edit(p, 4, outcome="fine"), "line 5: outcome must be one of"),
    "another kind": (lambda p: edit(p, 4, kind="note"), "line 5: no line of a ledger is 'note'"),
    "text for a number": (lambda p: edit(p, 4, level="0.1"), "line 5: level must be"),
    "an enormous number": (lambda p: edit(p, 4, error=10**400), "line 5: error must be"),
    "no test": (lambda p: edit(p, 4, test=["known"]), "line 5: test must be one of"),
    "labels that are none": (lambda p: edit(p, 4, fresh=7), "line 5: fresh must be a list"),
    "half a branch": (
        lambda p: edit(p, 0, settings={"branches": 0.5}),
        "the first line has no settings",
    ),
    "other settings": (
        lambda p: edit(p, 0, settings={"confidence": 2}),
        "the first line has no settings",
    ),
    "text": (lambda p: p.write_text("hello\n" + p.read_text()), "line 1 is no line of a ledger"),
    "a conflict": (
        lambda p: p.write_text("<<<<<<< HEAD\n" + p.read_text()),
        "a mark of a merge conflict",
    ),
    "binary": (lambda p: p.write_bytes(b"\xff\xfe\x00\n" + p.read_bytes()), "line 1 is no line"),
    "cut off": (lambda p: p.write_bytes(p.read_bytes()[:-30]), "line 5 is cut off"),
}


@pytest.mark.parametrize("name", HAND)
def test_edits_by_hand_are_found(path: Path, name: str) -> None:
    change, told = HAND[name]
    add(path, 4)
    assert GateLedger.read(path).faults == []
    change(path)
    faults = GateLedger.read(path).faults
    assert any(told in fault for fault in faults), faults
    assert "History of the gate" in summary.history(GateLedger.read(path))  # as far as it goes
    if name != "cut off":
        with pytest.raises(EvidenceError, match="ledger must be whole"):
            add(path)


def test_nobody_without_the_key_rewrites_a_line(path: Path) -> None:
    """The last line with another outcome and a new hash follows from those before it."""
    add(path, 3)
    rows = path.read_text()
    edit(path, 3, outcome="fail", has_key=False)
    ledger = GateLedger.read(path)
    assert ledger.faults == ["line 4 was not written by a gate with the key gate.key"]
    path.with_suffix(".key").rename(path.with_suffix(".elsewhere"))
    ledger = GateLedger.read(path)
    assert (ledger.faults, ledger.sealed) == ([], False)  # nobody can tell, and verify says so
    path.with_suffix(".elsewhere").rename(path.with_suffix(".key"))
    path.write_text(rows)
    assert (GateLedger.read(path).faults, GateLedger.read(path).sealed) == ([], True)


def test_an_empty_key_is_none(path: Path) -> None:
    path.with_suffix(".key").write_text("")
    add(path)
    assert len(path.with_suffix(".key").read_text().strip()) == 32
    assert GateLedger.read(path).sealed
    other = path.with_name("other.jsonl")
    other.with_suffix(".key").mkdir()  # cannot be read: nothing is sealed with nothing
    with pytest.raises(EvidenceError, match="key must be a file with one secret line"):
        add(other)


def test_a_ledger_that_cannot_be_written_is_named(path: Path) -> None:
    for wrong in (path.parent, path.parent / "nowhere" / "gate.jsonl"):
        with pytest.raises(EvidenceError, match="ledger must be a file that can be written"):
            add(wrong)


def test_what_is_no_edit_is_accepted(path: Path) -> None:
    add(path, 3)
    text = path.read_text()
    path.write_bytes(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())  # a checkout on Windows
    assert GateLedger.read(path).faults == []
    add(path)
    path.write_text(path.read_text().rstrip("\n"))  # an editor
    add(path)
    rows = path.read_text().splitlines()
    path.write_text("\n".join([*reversed(rows), rows[2], "", ""]))  # another order, a line twice
    ledger = GateLedger.read(path)
    assert (ledger.faults, len(ledger.decisions)) == ([], 5)
    add(path)
    assert GateLedger.read(path).decisions[-1]["t"] == 6


def test_an_empty_ledger_begins_anew_and_a_missing_one_is_named(path: Path) -> None:
    with pytest.raises(EvidenceError, match="ledger must be a readable file"):
        GateLedger.read(path)
    path.write_text("")
    assert GateLedger.read(path).faults == []
    add(path)
    assert len(GateLedger.read(path).decisions) == 1


def test_a_line_that_a_kill_cut_off_is_taken_away(path: Path) -> None:
    add(path, 2)
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"kind":"decision","t":3,"out')
    add(path)
    ledger = GateLedger.read(path)
    assert ledger.faults == []
    assert path.read_bytes().startswith(whole)
    assert [line["t"] for line in ledger.decisions] == [1, 2, 3]


def test_the_clock_may_go_back(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add(path, 2)
    monkeypatch.setattr(time, "gmtime", lambda: (1999, 1, 1, 0, 0, 0, 0, 1, 0))
    add(path)
    assert GateLedger.read(path).faults == []


def test_merged_branches_are_all_counted(path: Path) -> None:
    add(path, 2)
    other = path.with_name("other.jsonl")
    other.write_bytes(path.read_bytes())
    other.with_suffix(".key").write_bytes(path.with_suffix(".key").read_bytes())
    add(path, 3)
    add(other, 2, "fail")
    rows = [*other.read_text().splitlines(), *path.read_text().splitlines()[3:]]
    path.write_text("\n".join([*rows, ""]))
    ledger = GateLedger.read(path)
    assert ledger.faults == []
    assert (len(ledger.decisions), ledger.parallel, len(ledger.heads)) == (7, 2, 2)
    add(path)
    merged = GateLedger.read(path)
    last = merged.decisions[-1]
    assert (last["t"], len(last["prev"]), merged.heads) == (8, 2, [last["hash"]])
    # two unusual ones of seven: 2^-3 / (C(7, 2)·4)
    assert last["level"] / last["error"] == pytest.approx(1 / 8 / (21 * 4))
    assert merged.spent < 0.05


def test_branches_that_spend_more_than_there_is_are_told_and_nothing_is_left(path: Path) -> None:
    add(path, 1)
    base = path.read_bytes()
    rows: list[str] = []
    for _ in range(5):  # five branches decide for the second time, none sees the others
        path.write_bytes(base)
        add(path)
        rows += path.read_text().splitlines()[2:]
        time.sleep(0)
        edit(path, 2, commit=str(len(rows)))
        rows[-1] = path.read_text().splitlines()[2]
    path.write_bytes(base + "\n".join([*rows, ""]).encode())
    ledger = GateLedger.read(path)
    assert ledger.faults == []
    assert (ledger.parallel, ledger.spent > 0.05) == (5, True)
    assert ledger.next_error() == (7, 0.0, 0.0)


@pytest.mark.parametrize("branches", [2, 5])
def test_as_many_branches_as_were_said_never_spend_more(path: Path, branches: int) -> None:
    add(path, 1, settings=GateSettings(branches=branches))
    for _ in range(3):
        base, rows = path.read_bytes(), []
        for k in range(branches):
            path.write_bytes(base)
            n = len(path.read_text().splitlines())
            add(path, 2)
            edit(path, n, commit=str(k))
            changed = json.loads(path.read_text().splitlines()[n])["hash"]
            edit(path, n + 1, prev=[changed])
            rows += path.read_text().splitlines()[n:]
        path.write_bytes(base + "\n".join([*rows, ""]).encode())
        assert GateLedger.read(path).faults == []
    assert GateLedger.read(path).spent < 0.05
    assert GateLedger.read(path).parallel == branches


def test_settings_are_fixed_by_the_first_line(path: Path) -> None:
    add(path, settings=GateSettings(confidence=0.9, branches=3))
    with GateLedger(path) as ledger:
        assert ledger.settings == GateSettings(confidence=0.9, branches=3)
    with pytest.raises(ArgumentError, match="settings must be those of the first line"):
        add(path, settings=GateSettings(confidence=0.99))
    for wrong in ({"branches": 0}, {"most_unusual": -1}, {"usual": "fine"}, {"confidence": 1.0}):
        with pytest.raises(ArgumentError):
            GateSettings(**wrong)  # type: ignore[arg-type]


def test_a_reveal_ends_the_vault_and_not_the_facts(path: Path) -> None:
    world = GateWorld(n=500)
    claims = [GateClaim(system="base", at_least=x) for x in (0.6, 0.65)]
    world.decide(path, world.order[:200], claims[0])
    with GateLedger(path) as ledger:
        found = GateRun(world.evidence(world.order[:200]), ledger=ledger).reveal()
    ((low, high),) = found.values()
    assert 0.6 < low < 0.8 < high + 0.05
    again = world.decide(path, world.order[:200], claims[1])[0]
    assert (again.outcome, again.test) == ("undecided", "none")
    more = world.decide(path, world.order[:300], claims[1])[0]
    assert more.test == "fresh"
    old = world.decide(path, world.order[:300], GateClaim(system="base", at_least=0.62))[0]
    assert (old.test, old.n_labels) == ("reused", 100)  # of those that were shown none


def _race(path: str, n: int) -> None:
    add(Path(path), n)


@pytest.mark.full
@pytest.mark.skipif(sys.platform == "win32", reason="one run at a time is up to the caller there")
def test_processes_that_decide_at_once_lose_no_line(path: Path) -> None:
    add(path)
    context = multiprocessing.get_context("spawn")
    runs = [context.Process(target=_race, args=(str(path), 5)) for _ in range(2)]
    for run in runs:
        run.start()
    for run in runs:
        run.join(60)
    ledger = GateLedger.read(path)
    assert ledger.faults == []
    assert [line["t"] for line in ledger.decisions] == list(range(1, 12))


@pytest.mark.full
@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL")
def test_kill_9_loses_no_outcome_that_was_told(path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from tests.unit.gate.test_ledger import add\n"
        "for i in range(10**6):\n    add(Path(sys.argv[1])); print(i + 1, flush=True)\n"
    )
    told = 0
    for _ in range(2):
        child = subprocess.Popen(
            [sys.executable, "-c", code, str(path)],
            stdout=subprocess.PIPE,
            cwd=Path(__file__).parents[3],
            env={**os.environ, "PYTHONPATH": "src:."},
        )
        assert child.stdout is not None
        for _line in range(3):
            child.stdout.readline()
        child.send_signal(signal.SIGKILL)
        told += 3 + len(child.stdout.read().splitlines())
        child.stdout.close()
        child.wait(60)
        add(path)  # mends
        told += 1
        ledger = GateLedger.read(path)
        assert ledger.faults == []
        numbers = [line["t"] for line in ledger.decisions]
        assert numbers == list(range(1, len(numbers) + 1))
        assert told <= len(numbers) <= told + 2  # a line may be on the disk that was not told yet
        told = len(numbers)


def git(folder: Path, *words: str) -> str:
    about = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "init.defaultBranch=main"]
    done = subprocess.run(
        ["git", *about, *words], cwd=folder, check=True, capture_output=True, text=True
    )
    return done.stdout


def test_lines_that_git_remembers_cannot_be_taken_away(path: Path) -> None:
    folder = path.parent
    git(folder, "init", "-q")
    add(path, 3)
    git(folder, "add", "gate.jsonl")
    git(folder, "commit", "-qm", "three")
    assert GateLedger.read(path).missing() == []
    rows = path.read_text().splitlines()
    path.write_text("\n".join([*rows[:-1], ""]))  # a chain does not see that its end is gone
    assert GateLedger.read(path).faults == []
    assert len(GateLedger.read(path).missing()) == 1
    git(folder, "commit", "-qam", "two")
    assert len(GateLedger.read(path).missing()) == 1
    path.unlink()
    git(folder, "commit", "-qam", "none")
    add(path)  # again: the old first line and its decisions are gone
    assert len(GateLedger.read(path).missing()) == 4


def test_lines_that_were_taken_away_are_found_after_a_move(path: Path) -> None:
    """Another folder, another commit between; and ledgers of other folders have no part in it."""
    root = path.parent
    git(root, "init", "-q")
    for name in ("old", "other"):
        (root / name).mkdir()
        add(root / name / "gate.jsonl", 3)
    git(root, "add", "*.jsonl")
    git(root, "commit", "-qm", "three")
    rows = (root / "old" / "gate.jsonl").read_text().splitlines()
    git(root, "rm", "-q", "old/gate.jsonl")
    git(root, "commit", "-qm", "none")
    (root / "new").mkdir()
    moved = root / "new" / "gate.jsonl"
    moved.write_text("\n".join([*rows[:-2], ""]))
    git(root, "add", "new/gate.jsonl")
    git(root, "commit", "-qm", "moved")
    assert len(GateLedger.read(moved).missing()) == 2
    moved.write_text("\n".join([*rows, ""]))
    assert GateLedger.read(moved).missing() == []
    assert GateLedger.read(root / "other" / "gate.jsonl").missing() == []


def test_a_history_that_cannot_be_seen_is_told(path: Path, tmp_path_factory: Any) -> None:
    folder = path.parent
    add(path)

    def doubts() -> list[str]:
        return [told.split(":")[0] for told in GateLedger.read(path).doubts()]

    assert doubts() == ["no history of a repository can be read here"]
    git(folder, "init", "-q")
    assert doubts() == ["gate.jsonl is not committed"]
    for _ in range(2):
        add(path)
        git(folder, "add", "gate.jsonl")
        git(folder, "commit", "-qm", "one more")
    assert doubts() == []
    git(folder, "add", "gate.key")
    assert doubts() == ["gate.key is committed"]
    git(folder, "rm", "-q", "--cached", "gate.key")
    clone = tmp_path_factory.mktemp("clone")
    git(clone, "clone", "-q", "--depth", "1", folder.as_uri(), "shallow")
    shallow = GateLedger.read(clone / "shallow" / "gate.jsonl")
    assert [told.split(" (")[0] for told in shallow.doubts()] == [
        "gate.key is not here, or another ledger's: who wrote the lines is not checked",
        "the history is cut off",
    ]


def test_git_merges_ledgers_with_the_union_driver(path: Path) -> None:
    folder = path.parent
    git(folder, "init", "-q")
    (folder / ".gitattributes").write_text("gate.jsonl merge=union\n")
    add(path, 1)
    git(folder, "add", "gate.jsonl", ".gitattributes")
    git(folder, "commit", "-qm", "one")
    git(folder, "checkout", "-qb", "side")
    add(path, 2)
    git(folder, "commit", "-qam", "side")
    git(folder, "checkout", "-q", "main")
    add(path, 1, "fail")
    git(folder, "commit", "-qam", "main")
    git(folder, "merge", "-q", "-m", "both", "side")
    ledger = GateLedger.read(path)
    assert (ledger.faults, ledger.missing()) == ([], [])
    assert sorted(line["t"] for line in ledger.decisions) == [1, 2, 2, 3]
    add(path)
    assert GateLedger.read(path).decisions[-1]["t"] == 5
