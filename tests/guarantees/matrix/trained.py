"""Models that were trained or watched: validation from ruled-out labels, and the live view of a
project that collects labels.
"""

from __future__ import annotations

import itertools
import time
import warnings
from collections.abc import Iterator

import numpy as np

from noracle.errors import GuaranteeWarning
from noracle.learn.compare import compare_models
from noracle.learn.labels import draw_ruled_out
from noracle.learn.transition import Transition
from noracle.learn.validation import from_counts
from tests.guarantees import test_learn_validation as learn
from tests.guarantees.matrix.record import Case, Seen, fewer, row_of, seeded
from tests.guarantees.measure import Row
from tests.guarantees.test_collect import CASES, Faults, misses_at_any_look
from tests.guarantees.test_collect import LabelWorld as Project

KINDS = ("uniform", "asymmetric", "noisy", "nearly singular")


def _validated(world: learn.World, setting: str, n: int, worlds: int) -> list[Row]:
    """The default interval, which is finite-sample, and the normal one beside it."""
    rows = []
    tables = world.draw(n, worlds, 9)
    for interval in (None, "betting", "wald"):
        started, seen, known = time.perf_counter(), Seen(), dict[bytes, tuple[float, float, str]]()
        name = "default"
        for table in tables:
            key = table.tobytes()
            if key not in known:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", GuaranteeWarning)
                    e = from_counts(
                        learn.counted(table, world.transition),
                        world.transition,
                        interval=interval,
                        confidence=0.95,
                    )
                known[key], name = (e.low, e.high, e.guarantee.kind.label), e.interval
            low, high, promise = known[key]
            seen.add(low - 1e-12 <= world.accuracy <= high + 1e-12, high - low, promise)
        rows.append(
            row_of(
                seen,
                part="learning",
                setting=setting,
                method="validation",
                interval=name,
                n=n,
                started=started,
            )
        )
    return rows


def _edge(k: int, accuracy: float, n: int, kind: str, worlds: int) -> list[Row]:
    world = learn.World(kind, learn.edge_transition(k, kind), learn.uneven_answers(k, accuracy, 2))
    return _validated(world, f"{kind} labels, K={k} A={accuracy:g} n={n}", n, worlds)


def _compared(k: int, a: float, b: float, n: int, kind: str, worlds: int) -> list[Row]:
    """Two models on the same ruled-out labels."""
    transition = learn.edge_transition(k, kind) if kind != "uniform" else Transition.uniform(k)
    setting, rows = f"two models, {kind} labels, K={k} A={a:g}/{b:g} n={n}", []
    for interval in ("betting", "wald"):
        started, seen, rng = time.perf_counter(), Seen(), seeded(setting)
        for _ in range(worlds):
            truth = rng.integers(k, size=n)
            said = draw_ruled_out(truth, transition=transition, rng=rng)
            models = [
                np.where(rng.random(n) < rate, truth, (truth + rng.integers(1, k, size=n)) % k)
                for rate in (a, b)
            ]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", GuaranteeWarning)
                found = compare_models(*models, said, transition=transition, interval=interval)  # type: ignore[arg-type]
            (d,) = found.differences
            seen.add(
                d.low - 1e-12 <= a - b <= d.high + 1e-12, d.high - d.low, found.guarantee.kind.label
            )
        rows.append(
            row_of(
                seen,
                part="learning",
                setting=setting,
                method="compare_models",
                interval=interval,
                n=n,
                started=started,
            )
        )
    return rows


def _learning() -> Iterator[Case]:
    for (k, n), accuracy, kind in itertools.product(
        ((2, 1), (3, 5), (10, 1), (10, 5), (10, 40), (50, 40)), (0.0, 0.02, 0.5, 0.98, 1.0), KINDS
    ):
        yield Case(
            part="learning",
            name=f"{kind} {k} {accuracy} {n}",
            quick=(k, n, accuracy, kind) == (3, 5, 0.98, "asymmetric"),
            measured=lambda worlds, v=(k, accuracy, n, kind), n=n: _edge(
                *v, fewer(worlds, 4 if n > 5 else 1, 200)
            ),
        )
    for name in ("uniform", "asymmetric", "noisy"):
        yield Case(
            part="learning",
            name=f"{name} 6000",
            measured=lambda worlds, m=name: _validated(
                next(w for w in learn.worlds() if w.name == m),
                f"{m} labels, K=10 A=0.8 n=6000",
                6000,
                fewer(worlds, 4, 100),
            ),
        )
    for (k, n), (a, b), kind in itertools.product(
        ((3, 5), (10, 200)), ((1.0, 0.0), (0.5, 0.5)), ("uniform", "asymmetric")
    ):
        yield Case(
            part="learning",
            name=f"models {kind} {k} {a} {n}",
            measured=lambda worlds, v=(k, a, b, n, kind): _compared(*v, fewer(worlds, 5, 100)),
        )


def _live(
    name: str, world: Project, uneven: bool, faults: Faults, n_items: int, worlds: int
) -> list[Row]:
    setting = (
        f"{name}, K={world.n_classes} A={world.accuracy:g}, {n_items} items, looked at 8 times"
    )
    started, seen, rng = time.perf_counter(), Seen(), seeded(setting)
    for _ in range(worlds):
        missed, width = misses_at_any_look(
            rng, world, np.geomspace(0.02, 1.0, 8), uneven=uneven, faults=faults, n_items=n_items
        )
        seen.add(not missed, width)
    return [
        row_of(
            seen,
            part="collection",
            setting=setting,
            method="live view",
            interval="anytime",
            n=n_items,
            started=started,
            promise="finite-sample",
        )
    ]


def _collection() -> Iterator[Case]:
    made = [(name, *case, n) for name, case in CASES.items() for n in (60, 1000)]
    # Hardness moves the chance of a right answer by 0.075 up and down: nearer to the ends the
    # accuracy would not be what is said.
    ends = [
        Project(n_classes=k, accuracy=a, slope=0.0)
        for k, a in ((2, 0.5), (4, 0.075), (4, 0.925), (20, 0.925))
    ]
    made += [("near the ends", world, True, Faults(), 400) for world in ends]
    for name, world, uneven, faults, n in made:
        yield Case(
            part="collection",
            name=f"{name} {world.n_classes} {world.accuracy} {n}",
            quick=(name, n) == ("unsure", 60),
            measured=lambda worlds, v=(name, world, uneven, faults, n): _live(
                *v, fewer(worlds, 4, 100)
            ),
        )


def cases() -> list[Case]:
    """Every case of this file."""
    return [*_learning(), *_collection()]
