"""Studies: algorithms × ways to make labels × learning rates × seeds, with one rule that selects;
and the journal of their trials.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import math
import os
import queue
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch

from noracle.errors import EvidenceError, EvidenceWarning, require
from noracle.learn.bench.trial import (
    ALGORITHMS,
    LabelSetting,
    Training,
    Trial,
    TrialData,
    run_trial,
)
from noracle.learn.loop import own_chance
from noracle.learn.settings import require_fields


class Journal:
    """Trials that ended, one JSON line each, among other lines; one that was cut short is run again.

    A line counts where it says what ``same`` does (digests of the data, how models are trained; what
    an older version says nothing about is not compared), and its labels were made in the same way.
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
                came = f"something else in line {number} of {path}"
                raise EvidenceError(f"journal must hold JSON objects; got {came}.")
            alike = all(found.get(name, value) == value for name, value in self.same.items())
            if "trial" not in found or found.get("made") not in self.labels.values() or not alike:
                continue
            try:
                self.done[Trial(**found.pop("trial"))] = found
            except TypeError:
                came = f"others in line {number} of {path}"
                rule = "journal must name the fields of a trial"
                raise EvidenceError(f"{rule}; got {came}.") from None

    def add(self, trial: Trial, found: Mapping[str, Any]) -> None:
        """Keep a trial; it is on the disk when this returns."""
        head = {"bench": "learn-trial", "trial": dataclasses.asdict(trial)}
        whole = {**head, "made": self.labels[trial.labels], **self.same, **found}
        line = json.dumps(whole, allow_nan=False, ensure_ascii=False)
        with self.lock:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a", encoding="utf-8") as file:
                file.write(("\n" if self.cut_short else "") + line + "\n")
                file.flush()
                os.fsync(file.fileno())
            self.cut_short = False
            self.done[trial] = dict(found)

    def state_of(self, trial: Trial) -> Path:
        """Where the state of a trial lies until it ends."""
        about = [dataclasses.asdict(trial), self.labels[trial.labels], self.same]
        name = hashlib.sha256(json.dumps(about).encode()).hexdigest()[:16]
        return self.path.with_name(f"{self.path.name}.running") / f"{name}.pt"

    def forget_state(self, trial: Trial) -> None:
        """Remove it, and the folder with the last one. What images alone have taught (views-*.pt)
        stays for other trials.
        """
        state = self.state_of(trial)
        for file in (state, *state.parent.glob(f"{state.name}.*")):
            file.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            state.parent.rmdir()


class _OutOfTime(Exception):
    """A trial stops, and goes on next time."""


UNINFORMATIVE = 0.2
"""1 - ηK below which labels say next to nothing: 25 of them count as one."""
Results = Mapping[Trial, Mapping[str, Any]]
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
        known = all(a in ALGORITHMS for a in self.algorithms)
        own_names = len({s.name for s in self.labels}) == len(self.labels)
        positive = all(0 < r < np.inf for r in self.rates)
        holdout = self.training.holdout > 0 or not self.needs_holdout
        rules, nothing = get_args(Rule), "last with one learning rate where nothing is held out"
        tried = 1 <= self.select_epochs <= self.epochs
        require_fields(
            self,
            ("algorithms", self.algorithms and known, f"some of {', '.join(ALGORITHMS)}"),
            ("labels", self.labels and own_names, "one or more, each with its own name"),
            ("rates", self.rates and positive, "positive numbers"),
            ("seeds", self.seeds and min(self.seeds) >= 0, "one or more numbers from 0"),
            ("select_epochs", tried, f"from 1 to epochs ({self.epochs})"),
            ("rule", self.rule in rules, " or ".join(rules)),
            ("rule", holdout, nothing),
        )

    @property
    def needs_holdout(self) -> bool:
        """Whether anything is selected."""
        return self.rule != "last" or len(self.rates) > 1

    @property
    def sees_truth(self) -> bool:
        """Whether the rule looks at true labels: what it selects is then an oracle's."""
        return self.needs_holdout and self.rule in ("accuracy", "last")

    def _trial(self, algorithm: str, labels: str, lr: float, seed: int | None = None) -> Trial:
        """A trial to the end with a seed; without one, of those that select the learning rate."""
        epochs = self.select_epochs if seed is None else self.epochs
        seed = self.seeds[0] if seed is None else seed
        return Trial(algorithm=algorithm, labels=labels, lr=lr, seed=seed, epochs=epochs)

    @property
    def _cells(self) -> list[tuple[str, str]]:
        """Every algorithm with labels made in every way."""
        return [(a, s.name) for s in self.labels for a in self.algorithms]

    def first(self) -> list[Trial]:
        """The trials that select learning rates; one rate alone needs none."""
        rates = self.rates if len(self.rates) > 1 else ()
        return [self._trial(*cell, lr) for cell in self._cells for lr in rates]

    def second(self, done: Results) -> list[Trial]:
        """The trials to the end whose learning rate is selected by now."""
        rates = {cell: self.selected_rate(*cell, done) for cell in self._cells}
        known = [(*cell, lr) for cell, lr in rates.items() if lr is not None]
        return [self._trial(*cell, seed) for cell in known for seed in self.seeds]

    def selected_rate(self, algorithm: str, labels: str, done: Results) -> float | None:
        """The best learning rate; None as long as one was not tried. Equal ones: the larger rate."""
        if len(self.rates) == 1:
            return self.rates[0]
        rule = "accuracy" if self.rule == "last" else self.rule
        scores = []
        for lr in self.rates:
            found = done.get(self._trial(algorithm, labels, lr))
            if found is None:
                return None
            points = [] if "fault" in found else found["points"]
            scores.append((max((p[rule] for p in points if rule in p), default=-np.inf), lr))
        return max(scores)[1]

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

    A trial that was stopped goes on where it was: until it ends, its state lies in a folder beside
    the journal, at most some seconds old.

    Parameters
    ----------
    shared
        Trials that share a GPU at a time, at most 32; more than one helps where one small model
        does not fill it. They end as they would alone, except that views of images are drawn from
        one generator: with views, figures differ a little from run to run. On the processor trials
        always run one after the other.
    deadline
        ``time.monotonic()`` after which no trial begins, and those that run stop after their epoch,
        to go on next time; the table then has gaps.
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
    best = "cuda" if torch.cuda.is_available() else "cpu"
    where = torch.device(best if device == "auto" else device)
    require(1 <= shared <= STREAMS, f"shared must be from 1 to {STREAMS}; got {shared}.")
    for setting in plan.labels:
        strength = 1 - setting.noise * data.n_classes
        if setting.noise and abs(strength) < UNINFORMATIVE:
            rule = f"labels {setting.name} must say something of {data.n_classes} classes"
            came = f"1 - ηK = {strength:.2g}, where 0 is a label at random"
            text = f"{rule}; got {came}. Take a share well below {1 / data.n_classes:.3g}."
            warnings.warn(text, EvidenceWarning, stacklevel=2)
    book = Journal(Path(journal), same_study(data, plan), plan.labels)
    settings = {s.name: s for s in plan.labels}
    card = torch.cuda.get_device_name(where) if where.type == "cuda" else where.type
    stop, end = threading.Event(), math.inf if deadline is None else deadline

    def one(trial: Trial) -> None:
        def check(epoch: int, _row: Mapping[str, float]) -> None:
            if stop.is_set():
                raise KeyboardInterrupt
            if epoch < trial.epochs and time.monotonic() >= end:
                raise _OutOfTime

        made = ALGORITHMS[trial.algorithm], settings[trial.labels], plan.training
        state = book.state_of(trial)
        found = run_trial(data, trial, *made, device=where, checkpoint=state, progress=check)
        book.add(trial, {**found, "device": card, "shared": shared})
        book.forget_state(trial)
        if progress is not None:
            progress(*known_trials(plan, book.done), trial, found)

    with own_chance(where):
        for trials in (plan.first, lambda: plan.second(book.done)):
            left = [t for t in trials() if t not in book.done]
            _run_all(left, one, where, shared, end, stop)
    return study_rows(plan, book.done, data=data.name)


def known_trials(plan: StudyPlan, done: Results) -> tuple[int, int]:
    """How many trials of the plan ended, and how many there are, with those not yet selected."""
    second = plan.second(done)
    open_ones = len(plan.algorithms) * len(plan.labels) * len(plan.seeds) - len(second)
    trials = {*plan.first(), *second}
    return sum(t in done for t in trials), len(trials) + open_ones


def study_rows(plan: StudyPlan, done: Results, *, data: str) -> list[StudyRow]:
    """The table out of the trials that ended; cells without any have None."""
    theirs = data == "cifar10" and plan.training.model == "resnet18"
    plain = {s.name for s in plan.labels if s == LabelSetting(name=s.name)}

    def rounded(values: list[float], digits: int, of: Callable[..., Any] = np.mean) -> float | None:
        return round(float(of(values)), digits) if values else None

    rows = []
    for name, labels in plan._cells:
        algorithm, lr = ALGORITHMS[name], plan.selected_rate(name, labels, done)
        trials = [plan._trial(name, labels, lr or 0.0, seed) for seed in plan.seeds]
        ended = [done[t] for t in trials if t in done]
        whole = [found for found in ended if "fault" not in found]
        tests = [plan.chosen(found["points"])["test"] for found in whole]
        counted = algorithm.transition == "counted" or algorithm.loss == "supervised"
        row = StudyRow(
            algorithm=name,
            labels=labels,
            lr=lr,
            mean=rounded(tests, 2),
            sd=round(float(np.std(tests, ddof=1)), 2) if len(tests) > 1 else None,
            last=rounded([found["points"][-1]["test"] for found in whole], 2),
            n_seeds=len(tests),
            n_failed=len(ended) - len(whole),
            noise=rounded([found["noise"] for found in ended], 5),
            oracle=plan.sees_truth or counted,
            paper=algorithm.paper if theirs and labels in plain else None,
            seconds_per_epoch=rounded([f["seconds_per_epoch"] for f in whole], 4, np.median),
        )
        rows.append(row)
    return rows


def same_study(data: TrialData, plan: StudyPlan) -> dict[str, Any]:
    """What must be equal for a line of a journal to count."""
    return {**data.fingerprint(), "training": plan.training.journal()}


def _run_all(
    trials: Iterable[Trial],
    one: Callable[[Trial], None],
    device: torch.device,
    shared: int,
    end: float,
    stop: threading.Event,
) -> None:
    waiting: queue.SimpleQueue[Trial] = queue.SimpleQueue()
    for trial in trials:
        waiting.put(trial)
    faults: list[BaseException] = []

    def work() -> None:
        stream: Any = contextlib.nullcontext()
        if device.type == "cuda":
            stream = torch.cuda.stream(torch.cuda.Stream(device))  # type: ignore[no-untyped-call]
        with stream:
            while not (faults or stop.is_set() or time.monotonic() >= end):
                try:
                    trial = waiting.get_nowait()
                except queue.Empty:
                    return
                try:
                    one(trial)
                except _OutOfTime:
                    return
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
