"""Studies: every cell, one rule, a journal that goes on, and label settings that are what they say."""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="the learn extra is not installed")
pytest.importorskip("sklearn", reason="the learn extra is not installed")

import torch
from sklearn import datasets

from noracle.errors import ArgumentError, EvidenceError, EvidenceWarning
from noracle.learn.bench import study
from noracle.learn.bench import trial as trials
from noracle.learn.bench.study import (
    Journal,
    StudyPlan,
    known_trials,
    run_study,
    same_study,
    study_rows,
)
from noracle.learn.bench.trial import (
    ALGORITHMS,
    LabelSetting,
    Training,
    Trial,
    TrialData,
    run_trial,
)
from noracle.learn.loop import train

UNIFORM = LabelSetting(name="uniform")
TRAINING = Training(model="mlp", hidden=(32,), batch_size=64, weight_decay=0.0, every=1)
CPU = torch.device("cpu")


def digits(**other: Any) -> TrialData:
    x, y = datasets.load_digits(return_X_y=True)
    x = x / 16
    rng = np.random.default_rng(0)
    named = np.where(rng.random((1300, 3)) < 0.2, rng.integers(10, size=(1300, 3)), y[:1300, None])
    given = {
        "name": "digits",
        "items": x[:1300],
        "truth": y[:1300],
        "test_items": x[1300:],
        "test_truth": y[1300:],
        "n_classes": 10,
    }
    return TrialData(**{**given, "annotators": named, **other})


@pytest.fixture(scope="module")
def data() -> TrialData:
    return digits()


def plan(**other: Any) -> StudyPlan:
    given: dict[str, Any] = {
        "algorithms": ("SCL-NL", "FWD-R", "supervised"),
        "labels": (UNIFORM, LabelSetting(name="noisy", way="noisy", noise=0.05)),
        "rates": (1e-2, 1e-3),
        "seeds": (0, 1),
        "epochs": 3,
        "select_epochs": 2,
        "rule": "scel",
        "training": TRAINING,
    }
    return StudyPlan(**{**given, **other})


@pytest.fixture(scope="module")
def whole(
    data: TrialData, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, list[Any], list[tuple[int, int]]]:
    journal = tmp_path_factory.mktemp("study") / "study.jsonl"
    seen: list[tuple[int, int]] = []
    rows = run_study(
        data,
        plan(),
        journal=journal,
        device="cpu",
        progress=lambda done, known, _t, _f: seen.append((done, known)),
    )
    return journal, rows, seen


def no_trial(*_: Any, **__: Any) -> Any:
    raise AssertionError("a trial was run that the journal has")


class TestTable:
    def test_every_cell_has_a_figure_of_all_seeds(self, whole: Any) -> None:
        _, rows, seen = whole
        assert [(r.algorithm, r.labels) for r in rows] == [
            (a, s) for s in ("uniform", "noisy") for a in ("SCL-NL", "FWD-R", "supervised")
        ]
        assert all(
            r.n_seeds == 2
            and r.n_failed == 0
            and r.sd is not None
            and 0 < r.mean <= 100
            and 0 < r.last <= 100
            for r in rows
        )
        assert [known for _, known in seen] == [24] * 24
        assert [done for done, _ in seen] == list(range(1, 25))

    def test_oracles_are_marked(self, whole: Any) -> None:
        oracle = {(r.algorithm, r.oracle) for r in whole[1]}
        assert oracle == {("SCL-NL", False), ("FWD-R", True), ("supervised", True)}

    def test_a_rule_that_sees_true_labels_marks_every_row(
        self, whole: Any, data: TrialData
    ) -> None:
        done = Journal(whole[0], same_study(data, plan()), plan().labels).done
        assert all(
            r.oracle
            for rule in ("accuracy", "last")
            for r in study_rows(plan(rule=rule), done, data="digits")
        )
        one = plan(rule="last", rates=(1e-2,))
        assert not one.sees_truth
        assert {r.algorithm for r in study_rows(one, done, data="digits") if r.oracle} == {
            "FWD-R",
            "supervised",
        }

    def test_supervised_control_is_the_best(self, whole: Any) -> None:
        for labels in ("uniform", "noisy"):
            figures = {r.algorithm: r.mean for r in whole[1] if r.labels == labels}
            assert max(figures, key=figures.__getitem__) == "supervised"

    def test_mean_and_sd_are_of_the_selected_epochs(self, whole: Any, data: TrialData) -> None:
        done = Journal(whole[0], same_study(data, plan()), plan().labels).done
        row = whole[1][0]
        runs = [
            done[Trial(algorithm="SCL-NL", labels="uniform", lr=row.lr, seed=s, epochs=3)]["points"]
            for s in (0, 1)
        ]
        tests = [max(points, key=lambda p: p["scel"])["test"] for points in runs]
        assert row.mean == pytest.approx(np.mean(tests), abs=0.006)
        assert row.sd == pytest.approx(np.std(tests, ddof=1), abs=0.006)

    def test_the_paper_is_quoted_only_where_it_says_the_same(self) -> None:
        p = plan(algorithms=("SCL-NL",), training=Training())
        assert [r.paper for r in study_rows(p, {}, data="cifar10")] == [63.76, None]
        assert [r.paper for r in study_rows(p, {}, data="digits")] == [None, None]
        assert [r.paper for r in study_rows(plan(algorithms=("SCL-NL",)), {}, data="cifar10")] == [
            None,
            None,
        ]

    def test_cells_without_a_trial_say_none(self) -> None:
        assert all(r.mean is None and r.n_seeds == 0 for r in study_rows(plan(), {}, data="digits"))


class TestJournal:
    def test_nothing_is_run_twice(
        self, whole: Any, data: TrialData, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("noracle.learn.bench.study.run_trial", no_trial)
        assert run_study(data, plan(), journal=whole[0], device="cpu") == whole[1]

    @pytest.mark.parametrize("cut", ["lines", "half a line", "half a letter"])
    def test_a_cut_journal_goes_on_to_the_same_table(
        self, whole: Any, data: TrialData, tmp_path: Path, cut: str
    ) -> None:
        lines = whole[0].read_bytes().splitlines(keepends=True)
        tail = {
            "lines": b"",
            "half a line": lines[15][:200],
            "half a letter": '{"bench": "ö'.encode()[:-1],
        }[cut]
        journal = tmp_path / "j.jsonl"
        other = (
            json.dumps(
                {"bench": "another", "claim": "ß", "figures": [1]}, ensure_ascii=False
            ).encode()
            + b"\n"
        )
        journal.write_bytes(other + b"".join(lines[:15]) + tail)
        rows = run_study(data, plan(), journal=journal, device="cpu")
        assert [dataclasses.replace(r, seconds_per_epoch=0.0) for r in rows] == [
            dataclasses.replace(r, seconds_per_epoch=0.0) for r in whole[1]
        ]
        kept = journal.read_bytes()
        assert kept.startswith(other + b"".join(lines[:15]))
        assert len(Journal(journal, same_study(data, plan()), plan().labels).done) == 24

    def test_reading_changes_nothing(self, whole: Any, data: TrialData, tmp_path: Path) -> None:
        journal = tmp_path / "j.jsonl"
        journal.write_bytes(whole[0].read_bytes() + b'{"half')
        before = journal.read_bytes()
        Journal(journal, same_study(data, plan()), plan().labels)
        assert journal.read_bytes() == before

    @pytest.mark.parametrize(
        "other",
        [
            {"truth": (digits().truth + 1) % 10},
            {"items": digits().items * 0.5},
            {"test_items": digits().test_items[::-1]},
            {"name": "others"},
            {"annotators": None},
        ],
        ids=["labels", "items", "test items", "name", "annotators"],
    )
    def test_other_data_are_not_taken(self, whole: Any, other: dict[str, Any]) -> None:
        assert Journal(whole[0], same_study(digits(**other), plan()), plan().labels).done == {}

    def test_a_line_that_says_nothing_about_the_items_counts(
        self, whole: Any, data: TrialData, tmp_path: Path
    ) -> None:
        """As older lines do; those that do say something must say the same."""
        lines = [json.loads(line) for line in whole[0].read_text(encoding="utf-8").splitlines()]
        journal = tmp_path / "j.jsonl"
        for kept, n in (
            (lambda line: {k: v for k, v in line.items() if k != "items"}, 24),
            (lambda line: {**line, "items": "x"}, 0),
        ):
            journal.write_text(
                "".join(json.dumps(kept(line)) + "\n" for line in lines), encoding="utf-8"
            )
            assert len(Journal(journal, same_study(data, plan()), plan().labels).done) == n
        named = digits(version="x")
        assert len(Journal(journal, same_study(named, plan()), plan().labels).done) == 24

    def test_other_settings_are_not_taken(self, whole: Any, data: TrialData) -> None:
        other = plan(training=dataclasses.replace(TRAINING, hidden=(16,)))
        assert Journal(whole[0], same_study(data, other), other.labels).done == {}

    def test_other_labels_of_the_same_name_are_not_taken(self, whole: Any, data: TrialData) -> None:
        other = plan(labels=(UNIFORM, LabelSetting(name="noisy", way="noisy", noise=0.2)))
        done = Journal(whole[0], same_study(data, other), other.labels).done
        assert {t.labels for t in done} == {"uniform"}

    def test_lines_that_are_no_objects_or_no_trials_are_refused(
        self, whole: Any, data: TrialData, tmp_path: Path
    ) -> None:
        journal = tmp_path / "j.jsonl"
        journal.write_text("[1]\n", encoding="utf-8")
        with pytest.raises(EvidenceError, match="line 1"):
            Journal(journal, {}, ())
        line = json.loads(whole[0].read_text(encoding="utf-8").splitlines()[0])
        journal.write_text(
            "\n" + json.dumps({**line, "trial": {"unknown": 1}}) + "\n", encoding="utf-8"
        )
        with pytest.raises(EvidenceError, match="line 2"):
            Journal(journal, same_study(data, plan()), plan().labels)


class TestRules:
    """Hand-made points: each rule has its own best epoch and learning rate."""

    @staticmethod
    def points(*rows: tuple[float, float, float, float]) -> dict[str, Any]:
        names = ("accuracy", "zero_one", "scel", "test")
        return {
            "points": [
                {"epoch": i + 1, **dict(zip(names, row, strict=True))} for i, row in enumerate(rows)
            ],
            "noise": 0.0,
        }

    def done(self) -> dict[Trial, dict[str, Any]]:
        def at(lr: float, epochs: int) -> Trial:
            return Trial(algorithm="SCL-NL", labels="uniform", lr=lr, seed=0, epochs=epochs)

        last = {"seconds_per_epoch": 0.1}
        return {
            at(0.1, 2): self.points((50, 10, -3, 0), (20, 90, -3, 0)),
            at(0.01, 2): self.points((60, 20, -2, 0), (30, 30, -2, 0)),
            at(0.001, 2): self.points((10, 80, -1, 0), (10, 40, -4, 0)),
            at(0.1, 4): {**self.points((1, 9, 1, 11), (2, 8, 1, 12), (3, 7, 1, 13)), **last},
            at(0.01, 4): {**self.points((9, 1, 1, 21), (9, 2, 2, 22), (3, 3, 1, 23)), **last},
            at(0.001, 4): {**self.points((1, 1, 5, 31), (2, 2, 6, 32), (3, 3, 1, 33)), **last},
        }

    @pytest.mark.parametrize(
        ("rule", "rate", "test"),
        [
            ("accuracy", 0.01, 21.0),
            ("zero_one", 0.1, 11.0),
            ("scel", 0.001, 32.0),
            ("last", 0.01, 23.0),
        ],
    )
    def test_rule(self, rule: Any, rate: float, test: float) -> None:
        p = plan(
            algorithms=("SCL-NL",),
            labels=(UNIFORM,),
            rates=(0.01, 0.001, 0.1),
            seeds=(0,),
            epochs=4,
            rule=rule,
        )
        [row] = study_rows(p, self.done(), data="digits")
        assert (row.lr, row.mean) == (rate, test)

    def test_no_rate_is_selected_before_all_were_tried(self) -> None:
        p = plan(algorithms=("SCL-NL",), labels=(UNIFORM,), rates=(0.01, 0.001, 0.5), epochs=4)
        assert p.selected_rate("SCL-NL", "uniform", self.done()) is None
        assert p.second(self.done()) == []
        assert known_trials(p, self.done()) == (2, 5)

    def test_equal_rates_give_the_larger(self) -> None:
        done = {t: self.points((1, 1, 1, 1)) for t in plan(seeds=(0,)).first()}
        assert plan().selected_rate("SCL-NL", "uniform", done) == 1e-2

    def test_a_trial_that_failed_is_neither_selected_nor_averaged(self) -> None:
        p = plan(
            algorithms=("SCL-NL",),
            labels=(UNIFORM,),
            rates=(0.1, 0.01),
            seeds=(0,),
            epochs=4,
            rule="zero_one",
        )
        done = self.done()
        first = Trial(algorithm="SCL-NL", labels="uniform", lr=0.1, seed=0, epochs=2)
        done[first] = {**done[first], "fault": "loss must stay finite"}
        assert p.selected_rate("SCL-NL", "uniform", done) == 0.01
        last = Trial(algorithm="SCL-NL", labels="uniform", lr=0.01, seed=0, epochs=4)
        done[last] = {
            "points": [],
            "noise": 0.0,
            "fault": "loss must stay finite",
            "seconds_per_epoch": None,
        }
        [row] = study_rows(p, done, data="digits")
        assert (row.mean, row.n_seeds, row.n_failed, row.seconds_per_epoch) == (None, 0, 1, None)


class TestLabels:
    """What each way and each ablation does to labels."""

    @staticmethod
    def draw(data: TrialData, **setting: Any) -> np.ndarray[Any, Any]:
        return LabelSetting(name="s", **setting).draw(data, np.random.default_rng(1))

    def test_people_rule_out_what_they_did_not_name(self, data: TrialData) -> None:
        said = self.draw(data, way="people", n_labels=3)
        assert said.shape == (1300, 3)
        assert (said != data.annotators).all()
        wrong = said == data.truth[:, None]
        assert 0 < wrong.mean() < (data.annotators != data.truth[:, None]).mean()
        # Of four shown, a class that was not named is ruled out: the truth is shown with chance
        # 4/10, and then one of 3 or 4.
        mistaken = data.annotators != data.truth[:, None]
        assert wrong[mistaken].mean() == pytest.approx(
            1 / 9, abs=4 * math.sqrt(1 / 9 * 8 / 9 / mistaken.sum())
        )
        assert (self.draw(data, way="people") == said[:, :1]).all()

    def test_who_named_none_rules_out_none(self) -> None:
        named = np.where(np.arange(1300)[:, None] % 2, digits().annotators, -1)
        said = self.draw(digits(annotators=named), way="people")
        assert ((said >= 0) == (np.arange(1300)[:, None] % 2 == 1)).all()

    def test_iid_keeps_the_counted_matrix_and_nothing_else(self, data: TrialData) -> None:
        given = (data.truth + 1 + (data.items[:, 20] > 0.5)) % 10
        mine = digits(ruled_out=given[:, None])
        said = self.draw(mine, way="given", ablation="iid")[:, 0]
        shift = (said - data.truth) % 10
        assert set(shift.tolist()) == {1, 2}
        bright = data.items[:, 20] > 0.5
        assert np.corrcoef(bright, (given - data.truth) % 10)[0, 1] == pytest.approx(1)
        inside = [
            np.corrcoef(bright[data.truth == k], shift[data.truth == k])[0, 1]
            for k in range(10)
            if bright[data.truth == k].std() > 0
        ]
        assert np.abs(np.nanmean(inside)) < 0.1

    def test_evened_takes_the_bias_and_leaves_the_noise(self, data: TrialData) -> None:
        strong = {"way": "strong", "noise": 0.2}
        biased, evened = (self.draw(data, **strong, ablation=a) for a in ("none", "evened"))
        for said in (biased, evened):
            assert (said[:, 0] == data.truth).mean() == pytest.approx(0.2, abs=0.05)

        def spread(said: np.ndarray[Any, Any]) -> float:
            counts = np.zeros((10, 10))
            np.add.at(counts, (data.truth, said[:, 0]), 1)
            np.fill_diagonal(counts, np.nan)
            return float(np.nanstd(counts))

        assert spread(evened) < 0.4 * spread(biased)

    @pytest.mark.parametrize("share", [0.5, 1.0])
    def test_removed_takes_exactly_that_share_of_wrong_labels(
        self, data: TrialData, share: float
    ) -> None:
        noisy = {"way": "noisy", "noise": 0.2}
        before, after = self.draw(data, **noisy), self.draw(data, **noisy, removed=share)
        n_wrong = int((before[:, 0] == data.truth).sum())
        assert int((after < 0).sum()) == round(share * n_wrong)
        assert ((before == after) | (after < 0)).all()
        assert (before[after < 0] == data.truth[(after < 0)[:, 0]]).all()

    def test_items_without_a_label_are_not_trained_on(self, data: TrialData) -> None:
        setting = LabelSetting(name="s", way="noisy", noise=0.3, removed=1.0)
        trial = Trial(algorithm="SCL-NL", labels="s", lr=1e-2, seed=0, epochs=1)
        found = run_trial(data, trial, ALGORITHMS["SCL-NL"], setting, TRAINING, device=CPU)
        assert found["n_items"] < 0.8 * 1170
        assert found["noise"] == 0

    @pytest.mark.parametrize(
        ("setting", "words"),
        [
            ({"way": "people"}, "annotators"),
            ({"way": "given"}, "ruled-out labels"),
            ({"way": "given", "noise": 0.1}, "people made them"),
            ({"way": "other"}, "way"),
            ({"noise": 1.0}, "noise"),
            ({"removed": 2}, "removed"),
            ({"n_labels": 0}, "n_labels"),
            ({"ablation": "some"}, "ablation"),
        ],
    )
    def test_what_cannot_be_is_refused(self, setting: dict[str, Any], words: str) -> None:
        with pytest.raises(ArgumentError, match=words):
            self.draw(digits(annotators=None), **setting)

    def test_the_standard_set_is_the_first_of_the_given_labels(self, data: TrialData) -> None:
        given = np.stack([(data.truth + i) % 10 for i in (1, 2, 3)], axis=1)
        assert (self.draw(digits(ruled_out=given), way="given") == given[:, :1]).all()
        with pytest.raises(ArgumentError, match="4 ruled-out labels an item; got 3"):
            self.draw(digits(ruled_out=given), way="given", n_labels=4)


def _each_epoch(monkeypatch: pytest.MonkeyPatch, told: Any) -> None:
    """Call ``told(progress, epoch, row)`` in place of progress, of plain losses and the recipe."""

    def hooked(real: Any) -> Any:
        def run(*args: Any, progress: Any = None, **options: Any) -> Any:
            return real(*args, progress=functools.partial(told, progress), **options)

        return run

    monkeypatch.setattr(trials, "train", hooked(train))
    monkeypatch.setattr(trials.Recipe, "run", hooked(trials.Recipe.run))


class TestTrials:
    @pytest.fixture
    def small(self) -> TrialData:
        rng = np.random.default_rng(1)
        y, test = rng.integers(4, size=240), rng.integers(4, size=80)
        images = [
            np.clip(
                60 * t[:, None, None, None] + rng.integers(50, size=(len(t), 8, 8, 1)), 0, 255
            ).astype(np.uint8)
            for t in (y, test)
        ]
        return TrialData(
            name="grey",
            items=images[0],
            truth=y,
            test_items=images[1],
            test_truth=test,
            n_classes=4,
        )

    def test_two_at_a_time_give_the_same_figures_on_the_processor(
        self, small: TrialData, tmp_path: Path
    ) -> None:
        p = StudyPlan(
            algorithms=("SCL-NL", "supervised", "consistency"),
            labels=(UNIFORM,),
            rates=(1e-2,),
            seeds=(0, 1),
            epochs=2,
            select_epochs=1,
            training=Training(model="linear", batch_size=32, every=1, flip=False),
        )
        before = torch.random.get_rng_state()
        tables = [
            run_study(small, p, journal=tmp_path / f"{shared}.jsonl", device="cpu", shared=shared)
            for shared in (1, 2)
        ]
        assert torch.equal(before, torch.random.get_rng_state())
        one, two = (
            [dataclasses.replace(r, seconds_per_epoch=0.0) for r in table] for table in tables
        )
        assert one == two

    @pytest.mark.parametrize("name", ["SCL-NL", "consistency-E"])
    def test_a_trial_that_was_stopped_goes_on_to_the_same_end(
        self, small: TrialData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
    ) -> None:
        p = StudyPlan(
            algorithms=(name,),
            labels=(UNIFORM,),
            rates=(1e-2,),
            epochs=5,
            select_epochs=1,
            rule="scel",
            training=Training(
                model="linear", batch_size=32, every=2, flip=False, average=0.9, contrast=0
            ),
        )
        ran: list[int] = []

        def told(progress: Any, epoch: int, row: Any) -> None:
            ran.append(epoch)
            progress(epoch, row)
            if len(ran) == 3:
                raise KeyboardInterrupt

        run_study(small, p, journal=tmp_path / "whole", device="cpu")
        assert [f.name for f in tmp_path.iterdir()] == ["whole"]
        _each_epoch(monkeypatch, told)
        monkeypatch.setattr(trials, "CHECKPOINT_SECONDS", 0.0)
        with pytest.raises(KeyboardInterrupt):
            run_study(small, p, journal=tmp_path / "parts", device="cpu")
        [state] = (tmp_path / "parts.running").iterdir()
        assert state.stat().st_size > 1000
        run_study(small, p, journal=tmp_path / "parts", device="cpu")
        assert ran == [1, 2, 3, 4, 5]
        assert sorted(f.name for f in tmp_path.iterdir()) == ["parts", "whole"]
        first, second = (json.loads((tmp_path / f).read_text()) for f in ("whole", "parts"))
        for found in (first, second):
            del found["seconds"], found["seconds_per_epoch"]
        assert first == second

    def test_trials_share_what_images_alone_have_taught(
        self, small: TrialData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Two kinds of labels, one training without labels; each line has its seconds."""
        epochs: list[int] = []
        real = trials.Recipe.learn_views

        def learnt(recipe: Any, file: Path, told: Any) -> Any:
            return real(recipe, file, lambda e, row: (epochs.append(e), told(e, row)))

        monkeypatch.setattr(trials.Recipe, "learn_views", learnt)
        p = StudyPlan(
            algorithms=("consistency-E", "consistency"),
            labels=(UNIFORM, LabelSetting(name="noisy", way="noisy", noise=0.05)),
            rates=(1e-2,),
            epochs=3,
            select_epochs=1,
            rule="scel",
            training=Training(
                model="linear", batch_size=32, every=1, flip=False, average=0.9, contrast=2
            ),
        )
        rows = run_study(small, p, journal=tmp_path / "j", device="cpu")
        assert [row.n_seeds for row in rows] == [1] * 4
        assert epochs == [1, 2]
        lines = [json.loads(line) for line in (tmp_path / "j").read_text().splitlines()]
        assert len({line["seconds_first"] for line in lines}) == 1
        assert all(line["seconds"] >= line["seconds_first"] > 0 for line in lines)
        assert [len(line["points"]) for line in lines] == [3] * 4
        assert [f.name[:6] for f in (tmp_path / "j.running").iterdir()] == ["views-"]

    def test_trials_stop_at_the_deadline_and_go_on_next_time(
        self, small: TrialData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """One epoch an hour, five epochs a trial and three hours a call: the lines are those of a
        run in one piece, with the answers of the epoch that SCEL selects.
        """
        data = dataclasses.replace(small, keep_answers=True)
        p = StudyPlan(
            algorithms=("consistency-E", "consistency"),
            labels=(UNIFORM,),
            rates=(1e-2,),
            epochs=5,
            select_epochs=1,
            rule="scel",
            training=Training(
                model="linear", batch_size=32, every=1, flip=False, average=0.9, contrast=0
            ),
        )
        run_study(data, p, journal=tmp_path / "whole", device="cpu")
        hours = [0.0]

        def told(progress: Any, epoch: int, row: Any) -> None:
            hours[0] += 1
            progress(epoch, row)

        _each_epoch(monkeypatch, told)
        monkeypatch.setattr(trials, "CHECKPOINT_SECONDS", 1e9)
        monkeypatch.setattr(study, "time", SimpleNamespace(monotonic=lambda: hours[0]))
        ended = []
        while len(ended) < 2:
            run_study(data, p, journal=tmp_path / "parts", device="cpu", deadline=hours[0] + 3)
            lines = (tmp_path / "parts").read_text() if (tmp_path / "parts").exists() else ""
            ended = [json.loads(line) for line in lines.splitlines()]
        assert hours == [10.0]  # no epoch was run twice
        assert sorted(f.name for f in tmp_path.iterdir()) == ["parts", "whole"]
        whole = [json.loads(line) for line in (tmp_path / "whole").read_text().splitlines()]
        for found in (*whole, *ended):
            del found["seconds"], found["seconds_per_epoch"]
        assert whole == ended
        for found in ended:
            test = max(found["points"], key=lambda point: point["scel"])["test"]
            right = np.mean(np.array(found["answers"]) == small.test_truth)
            assert 100 * right == pytest.approx(test)

    def test_consistency_wants_images(self, data: TrialData, tmp_path: Path) -> None:
        with pytest.raises(ArgumentError, match="consistency must have images"):
            run_study(data, plan(algorithms=("consistency",)), journal=tmp_path / "j", device="cpu")

    def test_after_the_deadline_no_trial_begins(self, data: TrialData, tmp_path: Path) -> None:
        rows = run_study(
            data, plan(), journal=tmp_path / "j", device="cpu", deadline=time.monotonic() - 1
        )
        assert all(r.mean is None for r in rows)
        assert not (tmp_path / "j").exists()

    def test_a_study_that_is_interrupted_keeps_what_ended(
        self, data: TrialData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def interrupted(done: int, *_: Any) -> None:
            if done == 3:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            run_study(data, plan(), journal=tmp_path / "j", device="cpu", progress=interrupted)
        assert len((tmp_path / "j").read_text(encoding="utf-8").splitlines()) == 3

    def test_a_loss_that_explodes_fails_the_trial_and_not_the_study(
        self, data: TrialData, tmp_path: Path
    ) -> None:
        p = plan(
            algorithms=("URE-GA-U",),
            labels=(UNIFORM,),
            rates=(1e30, 1e-3),
            seeds=(0,),
            training=dataclasses.replace(TRAINING, optimiser="sgd"),
        )
        [row] = run_study(data, p, journal=tmp_path / "j", device="cpu")
        assert (row.lr, row.n_failed) == (1e-3, 0)
        [big] = run_study(
            data, dataclasses.replace(p, rates=(1e30,)), journal=tmp_path / "j", device="cpu"
        )
        assert (big.mean, big.n_failed) == (None, 1)

    def test_zero_one_is_the_mean_of_unbiased_scores_and_scel_needs_no_true_label(
        self, data: TrialData
    ) -> None:
        trial = Trial(algorithm="SCL-NL", labels="s", lr=1e-2, seed=0, epochs=1)
        found = [
            run_trial(
                d,
                trial,
                ALGORITHMS["SCL-NL"],
                LabelSetting(name="s", way="given"),
                TRAINING,
                device=CPU,
            )["points"][0]
            for said in [UNIFORM.draw(data, np.random.default_rng(5))]
            for d in (digits(ruled_out=said), digits(ruled_out=said, truth=(data.truth + 3) % 10))
        ]
        assert found[0]["scel"] == found[1]["scel"]
        assert found[0]["zero_one"] == found[1]["zero_one"]
        assert found[0]["accuracy"] != found[1]["accuracy"]

    def test_without_a_holdout_only_the_last_epoch_of_one_rate_can_be_had(
        self, data: TrialData, tmp_path: Path
    ) -> None:
        everything = dataclasses.replace(TRAINING, holdout=0.0)
        with pytest.raises(ArgumentError, match="nothing is held out"):
            plan(training=everything)
        p = plan(
            training=everything,
            rule="last",
            rates=(1e-2,),
            algorithms=("SCL-NL",),
            labels=(UNIFORM,),
            seeds=(0,),
        )
        [row] = run_study(data, p, journal=tmp_path / "j", device="cpu")
        assert row.mean == row.last
        assert not row.oracle

    def test_sparse_items_give_the_same_as_dense_ones(self, data: TrialData) -> None:
        sparse = pytest.importorskip("scipy.sparse")
        other = digits(
            items=sparse.csr_array(data.items), test_items=sparse.csr_array(data.test_items)
        )
        trial = Trial(algorithm="SCL-NL", labels="uniform", lr=1e-2, seed=0, epochs=2)
        points = [
            run_trial(d, trial, ALGORITHMS["SCL-NL"], UNIFORM, TRAINING, device=CPU)["points"]
            for d in (data, other)
        ]
        assert points[0] == points[1]


def test_true_labels_do_not_reach_training_where_the_trial_is_no_oracle(
    data: TrialData, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same ruled-out labels with other true labels: the same model, so the same test figure."""
    said = UNIFORM.draw(data, np.random.default_rng(5))
    trial = Trial(algorithm="x", labels="s", lr=1e-2, seed=0, epochs=2)
    for name in ("FWD-U", "FWD-R"):
        found = [
            run_trial(
                d,
                trial,
                ALGORITHMS[name],
                LabelSetting(name="s", way="given"),
                TRAINING,
                device=CPU,
            )["points"]
            for d in (digits(ruled_out=said), digits(ruled_out=said, truth=np.roll(data.truth, 1)))
        ]
        same = [p["test"] for p in found[0]] == [p["test"] for p in found[1]]
        assert same is (name == "FWD-U")
    assert trials.ALGORITHMS["FWD-R"].transition == "counted"


@pytest.mark.parametrize(
    "wrong",
    [
        {"algorithms": ("unknown",)},
        {"algorithms": ()},
        {"labels": (UNIFORM, UNIFORM)},
        {"rates": (0.0,)},
        {"seeds": ()},
        {"select_epochs": 9},
        {"rule": "best"},
    ],
)
def test_a_plan_that_cannot_be_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError, match=next(iter(wrong))):
        plan(**wrong)


@pytest.mark.parametrize("shared", [0, 33])
def test_shared_must_leave_a_stream_for_each(data: TrialData, tmp_path: Path, shared: int) -> None:
    with pytest.raises(ArgumentError, match=f"shared must be from 1 to 32; got {shared}"):
        run_study(data, plan(), journal=tmp_path / "j", device="cpu", shared=shared)


class TestThreads:
    """What a GPU does, without one: several trials at a time."""

    @staticmethod
    def trials(n: int) -> list[Trial]:
        return [
            Trial(algorithm="SCL-NL", labels="uniform", lr=0.1, seed=i, epochs=1) for i in range(n)
        ]

    def run(self, one: Any, n: int = 9, *, deadline: float = math.inf) -> None:
        study._run_all(self.trials(n), one, torch.device("meta"), 3, deadline, threading.Event())

    def test_every_trial_runs_once_and_three_at_a_time(self) -> None:
        ran: list[int] = []
        together = threading.Barrier(3, timeout=20)

        def one(trial: Trial) -> None:
            together.wait()
            ran.append(trial.seed)

        self.run(one)
        assert sorted(ran) == list(range(9))

    def test_a_fault_lets_the_others_end_and_is_raised(self) -> None:
        ended: list[int] = []
        begun = threading.Barrier(3, timeout=20)

        def one(trial: Trial) -> None:
            begun.wait()
            if trial.seed == 1:
                raise ArgumentError("a fault")
            time.sleep(0.1)
            ended.append(trial.seed)

        with pytest.raises(ArgumentError, match="a fault"):
            self.run(one)
        assert sorted(ended) == [0, 2]

    def test_none_begins_after_the_deadline(self) -> None:
        self.run(lambda _trial: pytest.fail("a trial began"), deadline=time.monotonic() - 1)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_trials_that_share_the_card_are_the_trials_alone(tmp_path: Path) -> None:
    """Graphs that were made on one stream share scratch memory, and wrote into each other's
    gradients.
    """
    rng = np.random.default_rng(0)
    truth = rng.integers(10, size=4096)
    images = (
        rng.integers(0, 128, size=(4096, 32, 32, 3)) + 12 * truth[:, None, None, None]
    ).astype(np.uint8)
    made = TrialData(
        name="made",
        items=images,
        truth=truth,
        test_items=images[:512],
        test_truth=truth[:512],
        n_classes=10,
    )
    same = plan(
        algorithms=("URE-GA-U", "FWD-U", "SCL-NL", "ROB-MAE"),
        labels=(UNIFORM,),
        rates=(5e-4,),
        seeds=(0,),
        epochs=4,
        select_epochs=4,
        training=Training(batch_size=512, precision="bf16", augment=False, every=1),
    )
    found = {}
    for shared in (1, 4):
        journal = tmp_path / f"{shared}.jsonl"
        run_study(made, same, journal=journal, device="cuda", shared=shared)
        found[shared] = {
            t.algorithm: f["points"]
            for t, f in Journal(journal, same_study(made, same), same.labels).done.items()
        }
    assert found[1] == found[4]


def test_labels_that_say_nothing_are_named(data, tmp_path) -> None:
    """A tenth of wrong labels among ten classes is a label at random: before, nobody said so."""
    noisy = LabelSetting(name="noisy:0.1", way="noisy", noise=0.1)
    short = plan(
        algorithms=("SCL-NL",),
        labels=(noisy,),
        rates=(1e-2,),
        seeds=(0,),
        epochs=1,
        select_epochs=1,
    )
    said = (
        "noisy:0.1 must say something of 10 classes; got 1 - ηK = 0, where 0 is a label at random"
    )
    with pytest.warns(EvidenceWarning, match=said):
        run_study(data, short, journal=tmp_path / "a.jsonl", device="cpu")


def test_every_row_of_the_literature_can_be_named(data) -> None:
    """Table 1 of the CLImage paper, the robust losses, plain URE, CPE and MCL; one epoch each."""
    table = ("FWD-U", "FWD-R", "URE-GA-U", "URE-GA-R", "SCL-NL", "SCL-EXP", "L-W", "L-UW")
    robust = ("ROB-MAE", "ROB-CCE", "ROB-WMAE", "ROB-GCE", "ROB-SL")
    others = ("URE-U", "URE-R", "URE-NN-U", "URE-NN-R", "CPE-I", "CPE-F", "CPE-T", "OP-W", "SCARCE")
    sets = ("MCL-MAE", "MCL-EXP", "MCL-LOG")
    for name in (*table, "PC-sigmoid", *robust, *others, *sets):
        one = Trial(algorithm=name, labels="uniform", lr=1e-3, seed=0, epochs=1)
        found = run_trial(data, one, ALGORITHMS[name], UNIFORM, TRAINING, device=CPU)
        if name == "ROB-WMAE":  # the counted T has a negative sum: said, and a cell of the table
            assert "Use base mae or gce" in found["fault"]
            assert found["points"] == []
        else:
            assert "fault" not in found, name
            assert found["points"][-1]["test"] > 0


def test_labels_of_the_data_and_labels_from_its_matrices(data) -> None:
    """Columns acl and clcifar10: the first of the data's labels, and draws from a printed matrix."""
    T = np.full((10, 10), 0.1001)
    said = np.stack([(data.truth + 1 + i) % 10 for i in range(9)], axis=1)
    real = dataclasses.replace(data, ruled_out=said, matrices={"people10": T})
    rng = np.random.default_rng(0)
    for n in (1, 3, 9):
        assert (
            LabelSetting(name="acl", way="acl", n_labels=n).draw(real, rng) == said[:, :n]
        ).all()
    drawn = LabelSetting(name="people10", way="people10", n_labels=3).draw(real, rng)
    assert abs((drawn == data.truth[:, None]).mean() - 0.1) < 0.02  # as T has it
    assert (drawn[:, 0] == drawn[:, 1]).any()  # each label on its own
    assert real.fingerprint() != data.fingerprint()
    with pytest.raises(
        ArgumentError, match=r"way of labels x must be uniform or .* or people10; got 'x'"
    ):
        LabelSetting(name="x", way="x").draw(real, rng)


def test_the_estimating_recipe_is_a_row(tmp_path) -> None:
    """Small images; the held-out labels say what T is, and how far that is from the counted one."""
    rng = np.random.default_rng(0)
    y = np.arange(300) % 3
    items = (80 * y[:, None, None, None] + rng.integers(0, 60, (300, 8, 8, 1))).astype(np.uint8)
    T = np.array([[0.05, 0.75, 0.2], [0.3, 0.1, 0.6], [0.8, 0.15, 0.05]])
    tiny = TrialData(
        name="grey",
        items=items,
        truth=y,
        test_items=items,
        test_truth=y,
        n_classes=3,
        matrices={"T": T},
    )
    training = Training(model="linear", batch_size=32, every=1, holdout=0.3, flip=False)
    for name in ("consistency-E", "consistency-R", "consistency"):
        one = Trial(algorithm=name, labels="T", lr=1e-2, seed=0, epochs=2)
        setting = LabelSetting(name="T", way="T")
        found = run_trial(tiny, one, ALGORITHMS[name], setting, training, device=CPU)
        estimated = name == "consistency-E"
        assert found["oracle"] == (name == "consistency-R")
        assert ("transition_off" in found) == estimated
        assert (found["transition"]["source"] == "estimated") == estimated
        assert found["n_items"] + found["n_held_out"] == 300
    with pytest.raises(ArgumentError, match="consistency-E must have held-out items"):
        run_trial(
            tiny,
            Trial(algorithm="consistency-E", labels="T", lr=1e-2, seed=0, epochs=1),
            ALGORITHMS["consistency-E"],
            LabelSetting(name="T", way="T"),
            dataclasses.replace(training, holdout=0.0),
            device=CPU,
        )


def test_a_journal_says_how_many_strong_views_only_where_they_are_not_two() -> None:
    """Lines that were written before there was a choice still count."""
    assert "strong" not in Training().journal()
    assert Training(strong=1).journal() == {**Training().journal(), "strong": 1}
