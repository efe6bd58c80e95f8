"""The trials of studies that ended, one JSON line each."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import queue
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch

from noracle.errors import ArgumentError, EvidenceError
from noracle.learn.bench.trial import (
    ALGORITHMS,
    Algorithm,
    LabelSetting,
    Training,
    Trial,
    TrialData,
    run_trial,
)
from noracle.learn.loop import own_chance


class Journal:
    """Trials that ended, one JSON line each, among other lines; one that a crash cut short is
    ignored, and the trial is run anew.

    Parameters
    ----------
    same
        What a line must say for its trial to count: digests of the data, and how models are
        trained. What a line of an older version says nothing about is not compared.
    labels
        Ways to make labels; a trial counts where its labels were made in the same way under the
        same name.
    """

    def __init__(self, path: Path, same: Mapping[str, Any], labels: Iterable[LabelSetting]) -> None:
        self.path, self.same, self.lock = path, dict(same), threading.Lock()
        self.labels = {setting.name: dataclasses.asdict(setting) for setting in labels}
        self.done: dict[Trial, dict[str, Any]] = {}
        text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
        self.cut_short = bool(text) and not text.endswith("\n")
        for number, line in enumerate(text.split("\n"), start=1):
            try:
                found = json.loads(line)
            except json.JSONDecodeError:
                continue
            if not isinstance(found, dict):
                raise EvidenceError(
                    f"journal must hold JSON objects; got something else in line {number} of {path}."
                )
            if "trial" in found:
                self._take(found, number)

    def _take(self, found: dict[str, Any], number: int) -> None:
        made = found.get("made")
        if made not in self.labels.values() or any(
            found.get(name, value) != value for name, value in self.same.items()
        ):
            return
        try:
            trial = Trial(**found.pop("trial"))
        except TypeError:
            raise EvidenceError(
                f"journal must name the fields of a trial; got others in line {number} of {self.path}."
            ) from None
        self.done[trial] = found

    def add(self, trial: Trial, found: Mapping[str, Any]) -> None:
        """Keep a trial; it is on the disk when this returns."""
        whole = {
            "bench": "learn-trial",
            "trial": dataclasses.asdict(trial),
            "made": self.labels[trial.labels],
            **self.same,
            **found,
        }
        line = json.dumps(whole, allow_nan=False, ensure_ascii=False)
        with self.lock:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a", encoding="utf-8") as file:
                file.write(("\n" if self.cut_short else "") + line + "\n")
                file.flush()
                os.fsync(file.fileno())
            self.cut_short = False
            self.done[trial] = dict(found)


# ----------------------------------------------------------------------------
# Studies: algorithms × ways to make labels × learning rates × seeds, with one rule that selects.


Rule = Literal["accuracy", "zero_one", "scel", "last"]
RATES = (1e-3, 5e-4, 1e-4, 5e-5, 1e-5)
STREAMS = 32
"""Streams that PyTorch has of a card; the next is the first again, and graphs that were made on one
stream share scratch memory.
"""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StudyPlan:
    """What to try.

    Parameters
    ----------
    algorithms, labels
        Names of :data:`ALGORITHMS`, and ways to make labels.
    rates, select_epochs
        Learning rates, each tried for so many epochs with the first seed.
    rule
        How the learning rate and the epoch are selected.

    Examples
    --------
    >>> plan = StudyPlan(algorithms=("SCL-NL", "FWD-U"), labels=(LabelSetting(name="uniform"),), rates=(1e-3,), epochs=10,
    ...     select_epochs=5, rule="scel")
    >>> plan.needs_holdout
    True
    """

    algorithms: tuple[str, ...]
    labels: tuple[LabelSetting, ...]
    rates: tuple[float, ...] = RATES
    seeds: tuple[int, ...] = (0,)
    epochs: int = 300
    select_epochs: int = 30
    rule: Rule = "accuracy"
    training: Training = dataclasses.field(default_factory=Training)

    def __post_init__(self) -> None:
        for name, ok, rule in (
            (
                "algorithms",
                bool(self.algorithms) and all(a in ALGORITHMS for a in self.algorithms),
                f"some of {', '.join(ALGORITHMS)}",
            ),
            (
                "labels",
                bool(self.labels) and len({s.name for s in self.labels}) == len(self.labels),
                "one or more, each with its own name",
            ),
            (
                "rates",
                bool(self.rates) and all(0 < r < np.inf for r in self.rates),
                "positive numbers",
            ),
            (
                "seeds",
                bool(self.seeds) and all(s >= 0 for s in self.seeds),
                "one or more numbers from 0",
            ),
            (
                "select_epochs",
                1 <= self.select_epochs <= self.epochs,
                f"from 1 to epochs ({self.epochs})",
            ),
            ("rule", self.rule in get_args(Rule), " or ".join(get_args(Rule))),
            (
                "rule",
                self.training.holdout > 0 or not self.needs_holdout,
                "last with one learning rate where nothing is held out",
            ),
        ):
            if not ok:
                raise ArgumentError(f"{name} must be {rule}; got {getattr(self, name)!r}.")

    @property
    def needs_holdout(self) -> bool:
        """Whether anything is selected."""
        return self.rule != "last" or len(self.rates) > 1

    @property
    def sees_truth(self) -> bool:
        """Whether the rule looks at true labels: what it selects is then an oracle's."""
        return self.needs_holdout and self.rule in ("accuracy", "last")

    def first(self) -> list[Trial]:
        """The trials that select learning rates; one rate alone needs none."""
        if len(self.rates) == 1:
            return []
        return [
            Trial(algorithm=a, labels=s.name, lr=lr, seed=self.seeds[0], epochs=self.select_epochs)
            for s in self.labels
            for a in self.algorithms
            for lr in self.rates
        ]

    def second(self, done: Mapping[Trial, Mapping[str, Any]]) -> list[Trial]:
        """The trials to the end whose learning rate is selected by now."""
        trials = []
        for s in self.labels:
            for a in self.algorithms:
                lr = self.selected_rate(a, s.name, done)
                if lr is not None:
                    trials += [
                        Trial(algorithm=a, labels=s.name, lr=lr, seed=seed, epochs=self.epochs)
                        for seed in self.seeds
                    ]
        return trials

    def selected_rate(
        self, algorithm: str, labels: str, done: Mapping[Trial, Mapping[str, Any]]
    ) -> float | None:
        """The best learning rate; None as long as one was not tried. Equal ones: the larger rate."""
        if len(self.rates) == 1:
            return self.rates[0]
        rule = "accuracy" if self.rule == "last" else self.rule
        scores = []
        for lr in sorted(self.rates, reverse=True):
            found = done.get(
                Trial(
                    algorithm=algorithm,
                    labels=labels,
                    lr=lr,
                    seed=self.seeds[0],
                    epochs=self.select_epochs,
                )
            )
            if found is None:
                return None
            points = [] if "fault" in found else found["points"]
            scores.append((max((p[rule] for p in points if rule in p), default=-np.inf), lr))
        best = max(score for score, _ in scores)
        return next(lr for score, lr in scores if score == best)

    def chosen(self, points: Sequence[Mapping[str, float]]) -> Mapping[str, float]:
        """The epoch that the rule selects; equal ones: the first. Where the rule cannot say (a
        singular T), the last.
        """
        able = [] if self.rule == "last" else [p for p in points if self.rule in p]
        return max(able, key=lambda p: p[self.rule]) if able else points[-1]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StudyRow:
    """One cell of the table: an algorithm on labels made in one way; figures in percent of the test
    items.

    Examples
    --------
    >>> row = StudyRow(algorithm="FWD-R", labels="uniform", lr=1e-3, mean=61.2, sd=0.4, last=60.9, n_seeds=3, n_failed=0, noise=0.0,
    ...     oracle=True, paper=61.32, seconds_per_epoch=1.5)
    >>> row.oracle  # its matrix was counted from true labels
    True
    """

    algorithm: str
    labels: str
    lr: float | None
    mean: float | None
    sd: float | None
    last: float | None
    n_seeds: int
    n_failed: int
    noise: float | None
    oracle: bool
    paper: float | None
    seconds_per_epoch: float | None


def run_study(
    data: TrialData,
    plan: StudyPlan,
    *,
    journal: str | Path,
    device: str = "auto",
    shared: int = 1,
    deadline: float | None = None,
    progress: Callable[[int, int, Trial, Mapping[str, Any]], None] | None = None,
) -> list[StudyRow]:
    """Run what the journal does not have yet; returns the table.

    Parameters
    ----------
    shared
        Trials that share a GPU at a time, at most 32; more than one helps where one small model
        does not fill it. They end as they would alone, except that views of images are drawn from
        one generator: with views, figures differ a little from run to run. On the processor trials
        always run one after the other.
    deadline
        ``time.monotonic()`` after which no new trial begins; the table then has gaps.
    progress
        Called with (number done, number known, trial, result) after every trial.

    Examples
    --------
    >>> import tempfile
    >>> from noracle.learn.bench.trial import LabelSetting, Training, TrialData
    >>> y = np.arange(300) % 3
    >>> data = TrialData(name="corners", items=np.eye(3)[y], truth=y, test_items=np.eye(3), test_truth=np.arange(3), n_classes=3)
    >>> plan = StudyPlan(algorithms=("SCL-NL",), labels=(LabelSetting(name="uniform"),), rates=(0.1,), epochs=10, select_epochs=5,
    ...     rule="scel", training=Training(model="linear", batch_size=32))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     [row] = run_study(data, plan, journal=Path(folder) / "study.jsonl", device="cpu")
    >>> row.mean, row.oracle
    (100.0, False)
    """
    where = torch.device(
        ("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device
    )
    if not 1 <= shared <= STREAMS:
        raise ArgumentError(f"shared must be from 1 to {STREAMS}; got {shared}.")
    book = Journal(Path(journal), same_study(data, plan), plan.labels)
    settings = {s.name: s for s in plan.labels}
    stop = threading.Event()

    def one(trial: Trial) -> None:
        def check(_epoch: int, _row: Mapping[str, float]) -> None:
            if stop.is_set():
                raise KeyboardInterrupt

        found = run_trial(
            data,
            trial,
            ALGORITHMS[trial.algorithm],
            settings[trial.labels],
            plan.training,
            device=where,
            progress=check,
        )
        book.add(trial, {**found, "device": _device_name(where)})
        if progress is not None:
            progress(*known_trials(plan, book.done), trial, found)

    with own_chance(where):
        for trials in (plan.first, lambda: plan.second(book.done)):
            _run_all(
                [t for t in trials() if t not in book.done], one, where, shared, deadline, stop
            )
    return study_rows(plan, book.done, data=data.name)


def known_trials(plan: StudyPlan, done: Mapping[Trial, Mapping[str, Any]]) -> tuple[int, int]:
    """How many trials of the plan ended, and how many there are; those whose learning rate is not
    selected yet count too.
    """
    second = plan.second(done)
    open_ones = len(plan.algorithms) * len(plan.labels) * len(plan.seeds) - len(second)
    trials = {*plan.first(), *second}
    return sum(t in done for t in trials), len(trials) + open_ones


def study_rows(
    plan: StudyPlan, done: Mapping[Trial, Mapping[str, Any]], *, data: str
) -> list[StudyRow]:
    """The table out of the trials that ended; cells without any have None."""
    rows = []
    for s in plan.labels:
        for name in plan.algorithms:
            algorithm = ALGORITHMS[name]
            lr = plan.selected_rate(name, s.name, done)
            trials = [
                Trial(algorithm=name, labels=s.name, lr=lr or 0.0, seed=seed, epochs=plan.epochs)
                for seed in plan.seeds
            ]
            ended = [done[t] for t in trials if t in done]
            like_theirs = (
                data == "cifar10"
                and plan.training.model == "resnet18"
                and s == LabelSetting(name=s.name)
            )
            rows.append(
                _row(plan, algorithm, s, lr, ended, algorithm.paper if like_theirs else None)
            )
    return rows


def _row(
    plan: StudyPlan,
    algorithm: Algorithm,
    labels: LabelSetting,
    lr: float | None,
    ended: Sequence[Mapping[str, Any]],
    paper: float | None,
) -> StudyRow:
    whole = [found for found in ended if "fault" not in found]
    tests = [plan.chosen(found["points"])["test"] for found in whole]
    seconds = [found["seconds_per_epoch"] for found in whole]
    oracle = plan.sees_truth or algorithm.transition == "counted" or algorithm.loss == "supervised"
    return StudyRow(
        algorithm=algorithm.name,
        labels=labels.name,
        lr=lr,
        mean=round(float(np.mean(tests)), 2) if tests else None,
        sd=round(float(np.std(tests, ddof=1)), 2) if len(tests) > 1 else None,
        last=round(float(np.mean([found["points"][-1]["test"] for found in whole])), 2)
        if whole
        else None,
        n_seeds=len(tests),
        n_failed=len(ended) - len(whole),
        noise=round(float(np.mean([found["noise"] for found in ended])), 5) if ended else None,
        oracle=oracle,
        paper=paper,
        seconds_per_epoch=round(float(np.median(seconds)), 4) if seconds else None,
    )


def same_study(data: TrialData, plan: StudyPlan) -> dict[str, Any]:
    """What must be equal for a line of a journal to count."""
    training = json.loads(json.dumps(dataclasses.asdict(plan.training)))
    return {**data.fingerprint(), "training": training}


def _device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


def _run_all(
    trials: Iterable[Trial],
    one: Callable[[Trial], None],
    device: torch.device,
    shared: int,
    deadline: float | None,
    stop: threading.Event,
) -> None:
    waiting: queue.SimpleQueue[Trial] = queue.SimpleQueue()
    for trial in trials:
        waiting.put(trial)
    faults: list[BaseException] = []

    def work() -> None:
        stream = (
            torch.cuda.stream(torch.cuda.Stream(device))  # type: ignore[no-untyped-call]
            if device.type == "cuda"
            else contextlib.nullcontext()
        )
        with stream:
            while (
                not faults
                and not stop.is_set()
                and (deadline is None or time.monotonic() < deadline)
            ):
                try:
                    trial = waiting.get_nowait()
                except queue.Empty:
                    return
                try:
                    one(trial)
                except BaseException as fault:  # noqa: BLE001 (raised again where all threads ended)
                    faults.append(fault)  # trials in other threads end, and new ones do not begin

    if shared == 1 or device.type == "cpu":
        work()
    else:
        threads = [threading.Thread(target=work) for _ in range(shared)]
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                thread.join()
        except BaseException:  # Ctrl-C: the trials end after their epoch, and are not kept
            stop.set()
            for thread in threads:
                thread.join()
            raise
    if faults:
        raise faults[0]
