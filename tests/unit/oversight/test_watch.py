"""A watched folder: only what is new is read, every look holds, and nothing that was counted can be
changed unseen.
"""

from __future__ import annotations

import csv
import math
import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from noracle.accuracy import AccuracyStream
from noracle.counts.sketch import Sketch
from noracle.errors import ArgumentError, EvidenceError
from noracle.logic import prove_malfunction
from noracle.oversight.settings import NO_CLAIM
from noracle.oversight.watch import Look, Watch, as_oversight
from noracle.oversight.watch.memory import Memory, look_at
from noracle.results import read_result
from noracle.schemas import load_schema, schema_names
from noracle.simulate import simulate_raters, simulate_world
from noracle.superhuman import CertificateStream

CANARY = "CANARY-text-of-an-item"


class Folder:
    """A folder whose tables grow."""

    def __init__(
        self, path: Path, settings: str = "n_classes = 4\nprotocol = 'question'\n"
    ) -> None:
        self.path = path
        path.mkdir(exist_ok=True)
        (path / "noracle.toml").write_text(settings, encoding="utf-8")

    def add(self, name: str, *rows: tuple[object, ...], header: str = "") -> None:
        file = self.path / name
        heads = {
            "answers": "item,system,answer",
            "judgements": "item,class,verdict",
            "items": "item,n_classes",
            "ratings": "item,rater,label",
        }
        if not file.exists():
            file.write_text(
                (header or heads[Path(name).stem.split("-")[0]]) + "\n", encoding="utf-8"
            )
        with file.open("a", encoding="utf-8", newline="") as handle:
            csv.writer(handle, lineterminator="\n").writerows(rows)

    def look(self, **options: object) -> Look:
        with Watch(self.path, **options) as watch:  # type: ignore[arg-type]
            return watch.look()

    @property
    def memory(self) -> dict[str, Any]:
        with Memory(self.path / ".noracle" / "watch.sqlite") as memory:
            events = "SELECT run, event, detail FROM journal ORDER BY n"
            found: dict[str, Any] = {"journal": memory.query(events)}
            for table in ("answer", "label", "grade", "open_label", "item", "rating", "state"):
                found[table] = memory.query(f"SELECT * FROM {table} ORDER BY 1, 2")
            files = "SELECT path, used, digest, gone FROM file ORDER BY 1"  # no stamps of files
            found["file"] = memory.query(files)
        found["state"] = {name: value for name, value in found["state"] if name != "looks"}
        return found


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "evidence")


def world_rows(
    seed: int = 3, n: int = 200, **options: object
) -> tuple[list[tuple[object, ...]], list[tuple[object, ...]]]:
    world = simulate_world(
        n_items=n, n_classes=4, systems={"a": 0.9, "b": 0.6}, seed=seed, **options
    )  # type: ignore[arg-type]
    return list(zip(*world.answers.values(), strict=True)), list(
        zip(*world.judgements.values(), strict=True)
    )


# ----------------------------------------------------------------------------------------------------------------
# only what is new


@pytest.mark.full
def test_many_small_looks_end_where_one_look_ends(tmp_path: Path) -> None:
    answers, judgements = world_rows(no_answer=0.1, unsure=0.1)
    random.Random(0).shuffle(answers)
    slow, fast = Folder(tmp_path / "slow"), Folder(tmp_path / "fast")
    for start in range(0, 200, 25):
        slow.add("answers.csv", *answers[2 * start : 2 * start + 50])
        slow.add("judgements.csv", *judgements[start : start + 25])
        many = slow.look()
    fast.add("answers.csv", *answers)
    fast.add("judgements.csv", *judgements)
    one = fast.look()
    assert many.number == 8
    assert [(e.value, e.low, e.high, e.counts) for e in many.accuracy] == [
        (e.value, e.low, e.high, e.counts) for e in one.accuracy
    ]
    left, right = slow.memory, fast.memory
    for table in ("answer", "label", "rating", "file"):
        assert left[table] == right[table]
    assert left["state"]["counts"] == right["state"]["counts"]  # type: ignore[index]
    assert left["state"]["patterns"] == right["state"]["patterns"]  # type: ignore[index]


def test_a_look_reads_only_what_was_added(folder: Folder) -> None:
    answers, judgements = world_rows()
    folder.add("answers.csv", *answers)
    folder.add("judgements.csv", *judgements[:150])
    assert folder.look().n_rows == 550
    assert folder.look().n_rows == 0
    folder.add("judgements.csv", *judgements[150:])
    assert folder.look().n_rows == 50
    folder.add("judgements-2.csv", (1, 0, "no"))
    assert folder.look().n_rows == 1


def test_limits_are_those_of_the_stream_and_of_the_certificate(folder: Folder) -> None:
    answers, judgements = world_rows(no_answer=0.1)
    folder.add("answers.csv", *answers)
    folder.add("judgements.csv", *judgements)
    world = simulate_world(
        n_items=200, n_classes=4, systems={"a": 0.9, "b": 0.6}, no_answer=0.1, seed=3
    )
    ratings = simulate_raters(world.key, raters={"x": 0.8, "y": 0.7, "z": 0.7}, n_classes=4, seed=1)
    rated = sorted(zip(*ratings.values(), strict=True), key=lambda row: int(row[0]))
    folder.add("ratings.csv", *rated)
    look = folder.look(confidence=0.9)
    given = {(item, system): answer for item, system, answer in answers}
    assert len(look.accuracy) == len(look.certificates) == 2
    for estimate, certificate in zip(look.accuracy, look.certificates, strict=True):
        name = estimate.subject
        assert math.isclose(1 - estimate.confidence, 0.1 * 0.9 / 4, rel_tol=1e-9)
        stream = AccuracyStream(
            n_classes=4, system=name, confidence=estimate.confidence, interval="betting"
        )
        for item, asked, verdict in judgements:
            stream.update(answer=given[item, name], asked=asked, verdict=str(verdict))
        assert (estimate.low, estimate.high) == (stream.low, stream.high)
        assert math.isclose(estimate.value, stream.estimate().value)
        other = CertificateStream(system=name, confidence=certificate.confidence)
        for start in range(0, len(rated), 3):
            item = rated[start][0]
            other.update(
                ratings=[row[2] for row in rated[start : start + 3]], answer=given[item, name]
            )
        assert certificate.inputs == other.certificate().inputs
        assert certificate.verify()


def test_a_judgement_waits_for_its_answer(folder: Folder) -> None:
    folder.add("answers.csv", (1, "a", 0), (9, "a", 1))
    folder.add("judgements.csv", (2, 1, "yes"), (1, 0, "yes"))
    first = folder.look()
    assert first.accuracy[0].counts["labelled"] == 1
    assert first.waiting["judged items without an answer of every system"] == 1
    folder.add("answers.csv", (2, "a", 3))
    assert folder.look().accuracy[0].counts["labelled"] == 2


def test_an_item_is_counted_once_with_its_first_judgement_and_the_others_are_named(
    folder: Folder,
) -> None:
    folder.add("answers.csv", (1, "a", 0), (2, "a", 1))
    folder.add("judgements.csv", (1, 0, "yes"))
    folder.look()
    folder.add("judgements.csv", (1, 0, "no"), (2, 1, "unsure"), (2, 1, "no"))
    look = folder.look()
    assert look.accuracy[0].counts["labelled"] == 2
    assert look.accuracy[0].counts["ordinary_right"] == 1
    assert any("1 further judgements" in note for note in look.notes)
    assert any("1 unsure" in note for note in look.notes)


def test_judgements_are_fed_by_time(folder: Folder) -> None:
    folder.add("answers.csv", (1, "a", 0))
    folder.add(
        "judgements.csv",
        (1, 0, "no", "2026-02-02"),
        (1, 0, "yes", "2026-01-01"),
        header="item,class,verdict,at",
    )
    assert folder.look().accuracy[0].counts["ordinary_right"] == 1


def test_classes_ruled_out_together_are_one_label_whenever_somebody_looks(tmp_path: Path) -> None:
    rows = [(1, 1, "no"), (1, 2, "no"), (2, 3, "no"), (2, 0, "no"), (3, 1, "no"), (3, 2, "no")]
    seen = []
    for cut in (1, 2, 3, 6):
        folder = Folder(tmp_path / f"cut-{cut}", "n_classes = 4\nprotocol = 'sets'\n")
        folder.add("answers.csv", *[(i, "a", 2) for i in (1, 2, 3)])
        folder.add("judgements.csv", *rows[:cut])
        folder.look()
        folder.add("judgements.csv", *rows[cut:])
        look = folder.look()
        assert (
            look.waiting["judged items at the end of a file, which may get more in the next row"]
            == 1
        )
        seen.append(folder.memory["state"]["counts"])  # type: ignore[index]
    assert len(set(seen)) == 1
    assert '"n_ruled_out": 2' in seen[0]


@pytest.mark.parametrize(
    ("name", "whole", "half"),
    [
        ("judgements.csv", "item,class,verdict\n1,0,yes\n", '2,1,"ye'),
        ("judgements.jsonl", '{"item": 1, "class": 0, "verdict": "yes"}\n', '{"item": 2, "cl'),
    ],
)
def test_half_a_line_waits(folder: Folder, name: str, whole: str, half: str) -> None:
    rest = {"judgements.csv": 's"\n', "judgements.jsonl": 'ass": 1, "verdict": "yes"}'}[name]
    folder.add("answers.csv", (1, "a", 0), (2, "a", 1))
    (folder.path / name).write_text(whole, encoding="utf-8")
    folder.look()
    with (folder.path / name).open("a", encoding="utf-8") as file:
        file.write(half)
    look = folder.look()
    assert look.accuracy[0].counts["labelled"] == 1
    assert any("has no end: it waits" in note for note in look.notes)
    with (folder.path / name).open("a", encoding="utf-8") as file:
        file.write(rest)
    again = folder.look()
    assert (again.accuracy[0].counts["labelled"], again.run) == (2, 1)


def test_a_line_end_inside_quotes_does_not_end_a_row(tmp_path: Path) -> None:
    path = tmp_path / "answers.csv"
    path.write_bytes(b'item,system,answer,why\n1,a,0,"one\n')
    first = look_at(path, None)
    assert first.data is None
    path.write_bytes(b'item,system,answer,why\n1,a,0,"one\ntwo"\n')
    assert look_at(path, first.seen).data == path.read_bytes()


def test_a_new_parquet_partition_is_added_and_a_changed_one_noticed(folder: Folder) -> None:
    from noracle.cli._output import write_table

    answers, judgements = world_rows()
    folder.add("answers.csv", *answers)
    for i, start in enumerate((0, 100)):
        part = list(zip(*judgements[start : start + 100], strict=True))
        write_table(
            folder.path / f"judgements-{i}.parquet",
            dict(zip(("item", "class", "verdict"), map(list, part), strict=True)),
        )
        look = folder.look()
        assert (look.run, look.accuracy[0].counts["labelled"]) == (1, start + 100)
    write_table(
        folder.path / "judgements-0.parquet",
        {"item": [judgements[0][0]], "class": [0], "verdict": ["unsure"]},
    )
    look = folder.look()
    assert (look.run, look.accuracy[0].counts["labelled"]) == (2, 100)


def test_an_item_waits_for_its_own_number_of_classes(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "own", "")
    folder.add("items.csv", (1, 3), (2, 9), header="item,n_classes")
    folder.add("answers.csv", (1, "a", 0), (2, "a", 8))
    folder.add("judgements.csv", (1, 0, "yes"))
    assert folder.look().accuracy[0].counts["labelled"] == 1
    folder.add("items.csv", (3, 9))
    folder.add("answers.csv", (3, "a", 1))
    folder.add("judgements.csv", (3, 1, "no"))
    assert folder.look().accuracy[0].counts["labelled"] == 2
    folder.add("judgements.csv", (2, 9, "no"))
    with pytest.raises(EvidenceError, match="must be"):
        folder.look()


def test_what_is_written_about_a_folder_is_no_news_in_it(folder: Folder) -> None:
    folder.add("answers.csv", (1, "a", 0))
    with Watch(folder.path) as watch:
        watch.outputs = {(folder.path / "watch.html").resolve()}
        assert watch.changed()
        (folder.path / "watch.html").write_text("a page", encoding="utf-8")
        (folder.path / ".hidden.tmp").write_text("", encoding="utf-8")
        assert not watch.changed()
        folder.add("answers.csv", (2, "a", 0))
        assert watch.changed()


# ----------------------------------------------------------------------------------------------------------------
# what was changed


def replace(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


@pytest.mark.parametrize("also_grown", [False, True])
def test_a_verdict_that_was_changed_is_noticed_for_ever(folder: Folder, also_grown: bool) -> None:
    answers, judgements = world_rows()
    folder.add("answers.csv", *answers)
    folder.add("judgements.csv", *judgements)
    assert folder.look().guarantee.error_rate == pytest.approx(0.05)
    item, asked, verdict = judgements[100]
    replace(
        folder.path / "judgements.csv",
        f"\n{item},{asked},{verdict}\n",
        f"\n{item},{(asked + 1) % 4},{verdict}\n",
    )  # type: ignore[operator]
    if also_grown:
        folder.add("judgements.csv", (0, 0, "unsure"))
    look = folder.look()
    assert look.run == 2
    assert look.guarantee.error_rate == pytest.approx(0.1)
    assert any("judgements.csv was rewritten after it was counted" in note for note in look.notes)
    assert look.accuracy[0].counts["labelled"] == 200
    later = folder.look()
    assert later.run == 2
    assert any("changed 1 time: each run holds by itself" in note for note in later.notes)
    assert [event for _, event, _ in folder.memory["journal"]].count("start over") == 1


def test_a_file_that_shrank_makes_the_watch_start_over(folder: Folder) -> None:
    answers, judgements = world_rows()
    folder.add("answers.csv", *answers)
    folder.add("judgements.csv", *judgements)
    folder.look()
    lines = (folder.path / "judgements.csv").read_text(encoding="utf-8").splitlines(keepends=True)
    (folder.path / "judgements.csv").write_text("".join(lines[:100]), encoding="utf-8")
    look = folder.look()
    assert (look.run, look.accuracy[0].counts["labelled"]) == (2, 99)
    assert any("shrunk" in note for note in look.notes)


def test_a_file_saved_anew_with_the_same_rows_and_more_has_grown(folder: Folder) -> None:
    answers, judgements = world_rows()
    folder.add("answers.csv", *answers)
    folder.add("judgements.csv", *judgements[:100])
    folder.look()
    path = folder.path / "judgements.csv"
    text = path.read_text(encoding="utf-8")
    path.unlink()
    path.write_text(text, encoding="utf-8")
    os.utime(path, (1, 1))
    assert folder.look().run == 1
    folder.add("judgements.csv", *judgements[100:])
    look = folder.look()
    assert (look.run, look.n_rows, look.accuracy[0].counts["labelled"]) == (1, 100, 200)


def test_a_partition_that_went_away_stays_counted_and_is_named(folder: Folder) -> None:
    answers, judgements = world_rows()
    folder.add("answers.csv", *answers)
    folder.add("judgements-1.csv", *judgements[:100])
    folder.add("judgements-2.csv", *judgements[100:])
    folder.look()
    (folder.path / "judgements-1.csv").unlink()
    look = folder.look()
    assert look.accuracy[0].counts["labelled"] == 200
    assert "judgements-1.csv is gone; what it said stays counted" in look.notes
    assert "gone" in [event for _, event, _ in folder.memory["journal"]]


def test_evidence_that_breaks_a_rule_changes_nothing(folder: Folder) -> None:
    answers, judgements = world_rows()
    folder.add("answers.csv", *answers)
    folder.add("judgements.csv", *judgements[:100])
    folder.look()
    before = folder.memory
    folder.add("judgements.csv", (1, 0, "perhaps"))
    with pytest.raises(EvidenceError, match="must be yes, no or unsure"):
        folder.look()
    assert folder.memory == before
    replace(
        folder.path / "judgements.csv", "1,0,perhaps\n", ""
    )  # it was never counted, so it may be corrected
    assert folder.look().run == 1
    folder.add("answers.csv", (answers[0][0], answers[0][1], (answers[0][2] + 1) % 4))  # type: ignore[operator]
    with pytest.raises(EvidenceError, match="different answers"):
        folder.look()
    replace(
        folder.path / "answers.csv",
        (folder.path / "answers.csv").read_text(encoding="utf-8").splitlines()[-1] + "\n",
        "",
    )


def test_classes_beyond_those_of_the_first_look_are_refused(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "e", "title = 'no number of classes'\n")
    folder.add("answers.csv", (1, "a", 0), (2, "a", 2))
    folder.add("judgements.csv", (1, 1, "no"))
    assert "n_classes = 3 inferred" in folder.look().accuracy[0].guarantee.assumptions[-2].name
    folder.add("answers.csv", (3, "a", 3))
    with pytest.raises(EvidenceError, match="must be among the 3 classes"):
        folder.look()


def test_what_is_fixed_stays_fixed(folder: Folder) -> None:
    folder.add("answers.csv", (1, "a", 0))
    folder.look(confidence=0.9)
    with pytest.raises(ArgumentError, match=r"confidence must stay 0\.9"):
        folder.look(confidence=0.99)


def test_uniform_first_and_targeted_later_is_refused(folder: Folder) -> None:
    folder.add("answers.csv", *[(i, "a", 0) for i in range(4)])
    folder.add("judgements.csv", (1, 0, "no", 0.25), header="item,class,verdict,propensity")
    folder.look()
    folder.add("judgements.csv", (2, 0, "no", 0.9))
    with pytest.raises(EvidenceError, match="must be 1/K where the first judgements were uniform"):
        folder.look()


# ----------------------------------------------------------------------------------------------------------------
# killed and resumed

_CHILD = """
import os, signal, sys
from noracle.oversight.watch import memory
left = int(sys.argv[2])
def deadly(function):
    def call(*a, **k):
        global left
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*a, **k)
    return call
for name in ("put", "add_answers", "add_label", "mark", "remember", "note"):
    setattr(memory.Memory, name, deadly(getattr(memory.Memory, name)))
from noracle.oversight.watch import Watch
with Watch(sys.argv[1]) as watch:
    watch.look()
"""


@pytest.mark.full
@pytest.mark.skipif(sys.platform == "win32", reason="there is no kill -9 on Windows")
def test_killed_at_any_moment_it_ends_as_if_it_had_not_been(tmp_path: Path) -> None:
    answers, judgements = world_rows(n=60)
    calm, hunted = Folder(tmp_path / "calm"), Folder(tmp_path / "hunted")
    kills = 0
    for start, moments in ((0, (0, 2, 9, 40)), (30, (1, 12, 33))):
        for folder in (calm, hunted):
            folder.add(
                "answers.csv", *[row for row in answers if start <= int(row[0]) < start + 30]
            )  # type: ignore[call-overload]
            folder.add("judgements.csv", *judgements[start : start + 30])
        expected = calm.look()
        for moment in moments:
            ended = subprocess.run(
                [sys.executable, "-c", _CHILD, str(hunted.path), str(moment)],
                check=False,
                timeout=60,
            )
            kills += ended.returncode == -9
        found = hunted.look()
        assert [(e.low, e.high) for e in found.accuracy] == [
            (e.low, e.high) for e in expected.accuracy
        ]
    assert kills == 7
    assert hunted.memory == calm.memory


def test_two_watches_of_one_folder_do_not_mix(folder: Folder) -> None:
    folder.add("answers.csv", (1, "a", 0))
    folder.look()
    with Memory(folder.path / ".noracle" / "watch.sqlite") as first, Watch(folder.path) as second:
        second.memory._db.execute("PRAGMA busy_timeout = 50")
        with first.look(), pytest.raises(ArgumentError, match="one process at a time"):
            second.look()


def test_the_memory_is_private_and_holds_no_text(folder: Folder) -> None:
    folder.add("items.csv", (1, 4, CANARY), header="item,n_classes,text")
    folder.add("answers.csv", (1, "a", 0))
    folder.add("judgements.csv", (1, 0, "yes"))
    look = folder.look()
    path = folder.path / ".noracle" / "watch.sqlite"
    assert CANARY.encode() not in path.read_bytes()
    assert CANARY not in str(look.to_dict())
    if sys.platform != "win32":
        assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)


# ----------------------------------------------------------------------------------------------------------------
# the error rate


def test_all_statements_together_spend_at_most_the_error_rate(folder: Folder) -> None:
    folder.add("answers.csv", *[(i, s, 0) for i in range(5) for s in "ab"])
    folder.add("judgements.csv", (1, 0, "yes"))
    first = folder.look()
    assert sum(1 - e.confidence for e in first.accuracy) == pytest.approx(0.045)
    for late in "cdefgh":
        folder.add("answers.csv", *[(i, late, 0) for i in range(5)])
        look = folder.look()
    assert len(look.accuracy) == 8
    assert 0.045 < sum(1 - e.confidence for e in look.accuracy) <= 0.05
    assert [e.confidence for e in look.accuracy[:2]] == [e.confidence for e in first.accuracy]
    assert look.guarantee.error_rate == pytest.approx(0.05)
    assert (look.guarantee.kind.label, look.guarantee.anytime) == ("finite-sample", True)


# ----------------------------------------------------------------------------------------------------------------
# the alarm

CLAIMED = "classes = ['A', 'B']\nclaim = 'accuracy > 1/2'\n"
UNCLAIMED = "classes = ['A', 'B']\n"


def graders(n: int) -> list[tuple[str, str, str]]:
    """Answers of three graders: they agree at first, then two of them say the opposite of each
    other.
    """
    rng = random.Random(2)
    rows = []
    for i in range(n):
        first = rng.choice("AB")
        other = first if i < 12 else ("B" if first == "A" else "A")
        rows.append((first, other, rng.choice("AB")))
    return rows


@pytest.mark.full
def test_the_alarm_is_raised_at_the_first_item_that_proves_it_and_stays(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "graders", CLAIMED)
    rows = graders(40)
    names = ("x", "y", "z")
    provable = []
    for n in range(1, len(rows) + 1):
        sketch = Sketch.from_counts(dict(Counter(rows[:n])), classifiers=names, labels=["A", "B"])
        provable.append(prove_malfunction(sketch, "accuracy > 1/2").status == "alarm")
    first = provable.index(True)
    assert 0 < first < len(rows) - 2
    raised = []
    proofs = []
    for n, answers in enumerate(rows):
        folder.add("answers.csv", *[(n, name, a) for name, a in zip(names, answers, strict=True)])
        look = folder.look()
        raised.append(look.new_alarm)
        proofs.append(look.proof)
    assert raised.index(True) == first
    assert raised.count(True) == 1
    assert proofs[:first] == [None] * first
    assert all(
        proof is not None and proof.to_dict() == proofs[first].to_dict() for proof in proofs[first:]
    )  # type: ignore[union-attr]
    assert proofs[-1] is not None
    assert proofs[-1].verify()
    assert proofs[-1].counts["items"] == first + 1
    assert [event for _, event, _ in folder.memory["journal"]].count("alarm") == 1


def test_an_answer_that_is_late_raises_no_alarm(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "late", CLAIMED)
    for n in range(20):
        folder.add("answers.csv", (n, "x", "A"), (n, "y", "A" if n < 5 else "B"))
    folder.add("answers.csv", (0, "z", "A"))
    look = folder.look()
    assert (look.proof, look.n_items) == (None, 1)
    assert look.waiting["items that some system has not answered"] == 19


def test_a_claim_about_few_items_can_be_left_untested(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "few", CLAIMED)
    folder.add("answers.csv", (0, "x", "A"), (0, "y", "B"))
    assert folder.look(alarm_from=10).proof is None
    for n in range(1, 20):
        folder.add("answers.csv", (n, "x", "AB"[n % 2]), (n, "y", "AB"[n % 2]))
    look = folder.look(alarm_from=10)
    assert (look.proof, look.verdict_now) == (None, "consistent")


def test_an_alarm_that_later_items_would_not_raise_is_kept_and_said(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "few", CLAIMED)
    folder.add("answers.csv", (0, "x", "A"), (0, "y", "B"))
    assert folder.look().new_alarm
    for n in range(1, 20):
        folder.add("answers.csv", (n, "x", "AB"[n % 2]), (n, "y", "AB"[n % 2]))
    look = folder.look()
    assert look.proof is not None
    assert (look.proof.counts["items"], look.new_alarm, look.verdict_now) == (
        1,
        False,
        "consistent",
    )


def disagreeing(tmp_path: Path, settings: str) -> Folder:
    """Two graders who say the opposite of each other: every accuracy above 1/2 on both labels is
    impossible.
    """
    folder = Folder(tmp_path / "graders", settings)
    folder.add(
        "answers.csv",
        *[(n, name, "AB"[(n + shift) % 2]) for n in range(40) for shift, name in enumerate("xy")],
    )
    return folder


def test_without_a_stated_claim_there_is_no_alarm_and_the_first_look_says_why(
    tmp_path: Path,
) -> None:
    folder = disagreeing(tmp_path, UNCLAIMED)
    first, second = folder.look(), folder.look()
    for look in (first, second):
        assert (look.proof, look.new_alarm, look.verdict_now) == (None, False, "")
        (step,) = [s for s in as_oversight(look).steps if s.name == "alarm"]
        assert (step.status, step.reason) == ("not possible", NO_CLAIM)
    assert NO_CLAIM in first.notes
    assert NO_CLAIM not in second.notes
    assert "alarm" not in [event for _, event, _ in folder.memory["journal"]]


def test_a_claim_that_is_stated_later_is_tested_at_once_and_taken_back_with_its_alarm(
    tmp_path: Path,
) -> None:
    folder = disagreeing(tmp_path, UNCLAIMED)
    assert folder.look().proof is None
    settings = folder.path / "noracle.toml"
    settings.write_text(CLAIMED, encoding="utf-8")
    raised, again = folder.look(), folder.look()
    assert (raised.n_rows, raised.new_alarm, raised.verdict_now) == (0, True, "alarm")
    assert (again.new_alarm, again.proof) == (False, raised.proof)
    settings.write_text(UNCLAIMED, encoding="utf-8")
    silent = folder.look()
    assert (silent.proof, silent.verdict_now) == (None, "")
    assert NO_CLAIM in silent.notes
    settings.write_text(
        CLAIMED.replace("1/2", "0.50"), encoding="utf-8"
    )  # the same claim in other words
    assert (folder.look().new_alarm, folder.look().proof) == (False, raised.proof)


def test_an_alarm_of_one_claim_is_not_shown_for_another(tmp_path: Path) -> None:
    folder = disagreeing(tmp_path, CLAIMED)
    assert folder.look().new_alarm
    (folder.path / "noracle.toml").write_text(
        "classes = ['A', 'B']\nclaim = 'grade of x > 1/4'\n", encoding="utf-8"
    )
    look = folder.look()
    assert (look.proof, look.new_alarm, look.verdict_now) == (None, False, "consistent")


def test_no_claim_is_no_news_where_no_alarm_is_possible(folder: Folder) -> None:
    folder.add("answers.csv", *[(n, "only", n % 4) for n in range(5)])
    assert NO_CLAIM not in folder.look().notes


def test_a_look_is_results_in_json(folder: Folder) -> None:
    jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed")
    from referencing import Registry, Resource

    answers, judgements = world_rows()
    folder.add("answers.csv", *answers)
    folder.add("judgements.csv", *judgements)
    value = folder.look().to_dict()
    registry = Registry().with_resources(
        [(load_schema(n)["$id"], Resource.from_contents(load_schema(n))) for n in schema_names()]
    )
    jsonschema.Draft202012Validator(load_schema("results/1"), registry=registry).validate(value)
    assert [read_result(r).to_dict() for r in value["results"]] == value["results"]


def test_watch_of_clustered_items_is_a_heuristic_and_says_so(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.add("items.csv", *((i, f"passage {i // 5}") for i in range(40)), header="item,cluster")
    folder.add("answers.csv", *((i, "a", 0) for i in range(40)))
    folder.add("judgements.csv", *((i, 0, "yes") for i in range(40)))
    look = folder.look()
    assert look.accuracy[0].guarantee.kind.label == "heuristic"
    assert look.guarantee.kind.label == "heuristic"
    assert any(
        a.status == "failed" and "cluster" in a.detail
        for a in look.accuracy[0].guarantee.assumptions
    )
    assert any("items of one cluster depend on each other" in note for note in look.notes)


def test_watch_of_items_without_clusters_keeps_its_promise(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.add("items.csv", *((i, "") for i in range(40)), header="item,cluster")
    folder.add("answers.csv", *((i, "a", 0) for i in range(40)))
    folder.add("judgements.csv", *((i, 0, "yes") for i in range(40)))
    assert folder.look().accuracy[0].guarantee.kind.label == "finite-sample"
