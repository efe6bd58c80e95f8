"""What breaks the protocol: simulated projects with a known answer key, put through the same
functions as real ones.

The default world has K = 10 classes of unequal size, a system that is right on 80.5 % of the items
and errs mostly towards one near class, and items of different hardness. ``simulate_protocol_table``
runs it under the protocol and under each violation, and reports the bias of every estimator.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, Literal, get_args

import numpy as np

from noracle.accuracy import estimate_accuracy
from noracle.collect.live import records, view_of
from noracle.collect.live.estimates import tallies_of
from noracle.collect.live.records import MAIN, NO, PANEL, UNSURE, YES, Project, Real, Rows, Whole
from noracle.collect.model import ClassSpec, ProjectSpec
from noracle.results.base import encode

Rng = np.random.Generator
_METHODS: Any = ("complementary", "ordinary", "ml")
Picking = Literal["uniform", "first", "easiest", "most plausible"]
PICKINGS: tuple[Picking, ...] = get_args(Picking)


@dataclasses.dataclass(frozen=True, slots=True)
class LabelWorld:
    """Where items come from: ``near`` is the share of errors in the next class, ``slope`` of hardness."""

    n_classes: int = 10
    accuracy: float = 0.805
    near: float = 0.6
    slope: float = 0.03

    def draw(self, rng: np.random.Generator, n: int) -> tuple[Whole, Whole, Real]:
        """Truth, answer and hardness of n items; larger classes and easier items are more accurate."""
        k = self.n_classes
        prior = 1 / np.sqrt(np.arange(1, k + 1))
        prior /= prior.sum()
        truth = rng.choice(k, size=n, p=prior)
        hardness = rng.random(n)
        by_class = self.slope * (float(prior @ np.arange(k)) - np.arange(k))
        right = rng.random(n) < self.accuracy + by_class[truth] + 0.15 * (0.5 - hardness)
        other = (truth + rng.integers(1, k, size=n)) % k
        wrong = np.where(rng.random(n) < self.near, (truth + 1) % k, other)
        return truth, np.where(right, truth, wrong), hardness


def spec_of(protocol: Any, n_classes: int, **options: Any) -> ProjectSpec:
    """A specification with unnamed classes."""
    classes = tuple(ClassSpec(name=f"class {i}") for i in range(n_classes))
    return ProjectSpec(protocol=protocol, classes=classes, **options)


@dataclasses.dataclass(frozen=True, slots=True)
class Simulated:
    """A project and what only a simulation knows: the true class by item, and the accuracy."""

    project: Project
    truth: Whole
    accuracy: float


def _simulated(spec: ProjectSpec, rows: Rows, answer: Whole, truth: Whole, n: int) -> Simulated:
    about: Any = {"slug": "simulated", "name": "simulated", "state": "open"}
    project = Project(**about, spec=spec, rows=rows, answers={"system": answer}, truth={})
    return Simulated(project, truth, float((answer[:n] == truth[:n]).mean()))


def _rows(item: Whole, pool: Whole, value: Whole, kind: int | Whole = MAIN, **shown: Any) -> Rows:
    n = len(item)
    seen: Any = {"unsure": value == UNSURE, "held": np.zeros(n, dtype=bool)}
    zeros = np.zeros(n, dtype=np.int64)
    about: Any = {"kind": zeros + kind, "place": np.arange(n), "expired": zeros}
    return Rows(item=item, pool=pool, value=value, **about, **seen, **shown)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """How a project departs from the protocol; nothing by default.

    ``unsure`` are the chances of "unsure" about the true class, its near class, and any other.
    ``speeds`` are the shares of the questions of each class that are answered, in order;
    ``easy_first`` answers the easy ones first instead. ``sees`` is the chance that an expert who
    sees the system's answer follows it.
    """

    false_yes: float = 0.0
    false_no: float = 0.0
    unsure: tuple[float, float, float] = (0.0, 0.0, 0.0)
    unsure_as: Literal["unsure", "no"] = "unsure"
    skip_to_other: bool = False
    stolen: int = 0
    speeds: Sequence[float] | None = None
    easy_first: bool = False
    sees: float = 0.0
    overlap: float = 0.0


def simulate_partitioned(
    rng: np.random.Generator,
    *,
    n_items: int = 5000,
    world: LabelWorld | None = None,
    faults: Faults | None = None,
    panel_items: int = 0,
) -> Simulated:
    """One partitioned project, one question per item."""
    world, faults = world or LabelWorld(), faults or Faults()
    k = world.n_classes
    truth, answer, hardness = world.draw(rng, n_items)
    asked = rng.integers(k, size=n_items)
    value = _verdicts(rng, truth, answer, asked, faults, k)
    # "unsure" goes to a random expert of another class until somebody says yes or no
    for _ in range(20 if faults.skip_to_other else 0):
        open_ = value == UNSURE
        asked = np.where(open_, rng.integers(k, size=n_items), asked)
        value = np.where(open_, _verdicts(rng, truth, answer, asked, faults, k), value)
    if faults.stolen:  # experts of the last classes are absent, others answer in their place
        gone = asked >= k - faults.stolen
        asked = np.where(gone, rng.integers(k - faults.stolen, size=n_items), asked)
        value = np.where(gone, _verdicts(rng, truth, answer, asked, faults, k), value)
    if faults.speeds is not None:
        done = _answered(asked, hardness if faults.easy_first else None, faults.speeds)
        value = np.where(done, value, records.UNANSWERED)
    item, kind = np.arange(n_items), np.full(n_items, MAIN)
    if panel_items:
        panel_truth, panel_answer, _ = world.draw(rng, panel_items)
        every, classes = np.repeat(np.arange(panel_items), k), np.tile(np.arange(k), panel_items)
        said = _verdicts(rng, panel_truth[every], panel_answer[every], classes, faults, k)
        panel = (every + n_items, classes, said, np.full(len(every), PANEL))
        parts = zip((item, asked, value, kind), panel, strict=True)
        item, asked, value, kind = map(np.concatenate, parts)
        answer, truth = np.concatenate([answer, panel_answer]), np.concatenate([truth, panel_truth])
    spec = spec_of("partitioned", k, panel_items=panel_items)
    return _simulated(spec, _rows(item, asked, value, kind), answer, truth, n_items)


def _verdicts(rng: Rng, truth: Whole, answer: Whole, asked: Whole, faults: Faults, k: int) -> Whole:
    n = len(truth)
    is_true, near = asked == truth, asked == (truth + 1) % k
    yes = is_true | (near & (rng.random(n) < faults.overlap))
    yes = np.where(yes, rng.random(n) >= faults.false_no, rng.random(n) < faults.false_yes)
    follows = (rng.random(n) < faults.sees) & (asked == answer)
    value = np.where(yes | follows, YES, NO)
    chance = np.where(is_true, faults.unsure[0], np.where(near, faults.unsure[1], faults.unsure[2]))
    return np.where(rng.random(n) < chance, UNSURE if faults.unsure_as == "unsure" else NO, value)


def _answered(asked: Whole, hardness: Real | None, speeds: Sequence[float]) -> records.Bools:
    done = np.zeros(len(asked), dtype=bool)
    for c, speed in enumerate(speeds):
        places = np.flatnonzero(asked == c)
        order = places if hardness is None else places[np.argsort(hardness[places])]
        done[order[: round(speed * len(places))]] = True
    return done


def simulate_shown(
    rng: np.random.Generator,
    *,
    protocol: Literal["judge-all", "pick-wrong"],
    picking: Picking = "uniform",
    n_items: int = 5000,
    draws: int = 1,
    shown: int = 4,
    world: LabelWorld | None = None,
) -> Simulated:
    """A project in which ``shown`` random classes are judged, or one of them is ruled out."""
    world = world or LabelWorld()
    k = world.n_classes
    truth, answer, _ = world.draw(rng, n_items)
    item = rng.permutation(np.repeat(np.arange(n_items), draws))
    classes = rng.random((len(item), k)).argsort(axis=1)[:, :shown]
    is_true = classes == truth[item][:, None]
    spec = spec_of(protocol, k, draws=draws, shown=shown)
    pool = np.zeros(len(item), dtype=np.int64)
    if protocol == "judge-all":  # people may begin with any class; all are judged in the end
        verdicts = np.where(is_true, YES, NO)
        rows = _rows(item, pool, np.full(len(item), YES), shown=classes, verdicts=verdicts)
        return _simulated(spec, rows, answer, truth, n_items)
    # The class next to the truth is plausible, all others are easy to reject.
    plausible = 1.0 * (classes == ((truth[item] + 1) % k)[:, None])
    noise = rng.random(classes.shape)
    score = {"uniform": noise, "first": -np.arange(shown) + 0.0 * noise}
    score |= {"easiest": -plausible + 0.01 * noise, "most plausible": plausible + 0.01 * noise}
    picked = np.where(is_true, -math.inf, score[picking]).argmax(axis=1)
    value = classes[np.arange(len(item)), picked]
    return _simulated(spec, _rows(item, pool, value, shown=classes), answer, truth, n_items)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ProtocolRow:
    """Mean bias in points (hundredths), against the accuracy on the simulated items; NaN where it does
    not apply. ``shown`` is the value on the dashboard, ``missed`` the share of its intervals without
    the truth, ``found`` the share of projects with an alarm.
    """

    what: str
    complementary: float
    ordinary: float
    ml: float
    shown: float
    se: float
    missed: float
    found: float
    yes_rate: float
    prevented: bool = False
    """Whether the service makes this impossible; then ``shown`` is what a dashboard would say if it
    did not.
    """

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return encode(self)  # type: ignore[no-any-return]


_HALVES = tuple(np.linspace(1.0, 0.1, 10).tolist())
VIOLATIONS: tuple[tuple[str, Faults, int, bool], ...] = (
    ("the protocol", Faults(), 50, False),
    ("false yes 2 %", Faults(false_yes=0.02), 50, False),
    ("false no 10 %", Faults(false_no=0.1), 50, False),
    ("false yes 1 %, false no 9 %", Faults(false_yes=0.01, false_no=0.09), 50, False),
    ("unsure, shown as bounds", Faults(unsure=(0.1, 0.4, 0.01)), 0, False),
    ("unsure stored as no", Faults(unsure=(0.1, 0.4, 0.01), unsure_as="no"), 0, True),
    ("unsure put to another class", Faults(unsure=(0.1, 0.4, 0.01), skip_to_other=True), 0, True),
    ("two experts absent, others answer in their place", Faults(stolen=2), 0, True),
    ("a look while classes are at 100 % … 10 %", Faults(speeds=_HALVES), 0, False),
    ("the same, easy items first", Faults(speeds=_HALVES, easy_first=True), 0, True),
    ("classes that overlap (15 %)", Faults(overlap=0.15), 0, False),
    ("the expert sees the answer", Faults(sees=0.3), 0, True),
)
"""What can go wrong: name, faults, panel items, and whether the service prevents it."""


def simulate_protocol_table(
    *,
    repetitions: int = 200,
    n_items: int = 5000,
    seed: int = 0,
    world: LabelWorld | None = None,
    tick: Callable[[], None] | None = None,
) -> tuple[ProtocolRow, ...]:
    """The bias of each estimator under the protocol and under what breaks it.

    ``tick`` is called after each project.

    >>> table = simulate_protocol_table(repetitions=2, n_items=400)
    >>> table[0].what, len(table)
    ('the protocol', 20)
    """
    size: Any = {"n_items": n_items, "world": world or LabelWorld()}
    rng = np.random.default_rng(seed)

    def row(what: str, make: Callable[..., Simulated], prevented: bool, **how: Any) -> ProtocolRow:
        runs = [_run(make(rng, **how, **size), tick) for _ in range(repetitions)]
        return _row(what, runs, prevented)

    table, make = [], simulate_partitioned
    for what, faults, panel, prevented in VIOLATIONS:
        table.append(row(what, make, prevented, faults=faults, panel_items=panel))
    for protocol, picking in itertools.product(("judge-all", "pick-wrong"), PICKINGS):
        what, how = f"{protocol}, people pick: {picking}", {"protocol": protocol}
        table.append(row(what, simulate_shown, False, picking=picking, **how))
    return tuple(table)


def _run(made: Simulated, tick: Callable[[], None] | None) -> list[float]:
    project, truth = made.project, made.accuracy
    view = view_of(project, now=0.0, points=0)
    estimate = view.systems[0].estimate
    plain, rate = [math.nan] * 3, math.nan
    if project.spec.protocol == "partitioned":
        rows, answers = project.rows.of(MAIN), project.answers["system"]
        counts = tallies_of("system", rows, answers, project.spec.n_classes, np.unique(rows.item))
        tallies = {t: n for t, n in counts.tallies.items() if t.verdict != "unsure"}
        decided = dataclasses.replace(counts, tallies=tallies)
        for i, method in enumerate(_METHODS):
            found = estimate_accuracy(decided, method=method, interval="anytime")
            plain[i] = found.value - truth
        yes, no = (counts.total(verdict=v) for v in ("yes", "no"))
        rate = yes / max(1, yes + no)
    if tick is not None:
        tick()
    missed, alarm = not estimate.low <= truth <= estimate.high, bool(view.alarms)
    return [*plain, estimate.value - truth, float(missed), float(alarm), rate]


_BIASES = ("complementary", "ordinary", "ml", "shown")


def _row(what: str, runs: Sequence[Sequence[float]], prevented: bool) -> ProtocolRow:
    table, names = np.array(runs), (*_BIASES, "missed", "found", "yes_rate")
    mean = dict(zip(names, table.mean(axis=0).tolist(), strict=True))
    se = float(table[:, 3].std(ddof=1) / math.sqrt(len(runs))) if len(runs) > 1 else math.nan
    for name in _BIASES:  # in points
        mean[name] = round(100 * mean[name], 2) if math.isfinite(mean[name]) else math.nan
    return ProtocolRow(what=what, se=round(100 * se, 3), prevented=prevented, **mean)
