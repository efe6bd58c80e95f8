"""One question to the cascade, and what its witness says: shared by ranges, traces, thresholds and
conflicts.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from noracle.counts.sketch import Sketch
from noracle.errors import ArgumentError
from noracle.logic.cascade import Decided, decide
from noracle.logic.program import Program, Row, Whole, rows_of
from noracle.logic.spec import Linear, Spec, Statement, as_spec
from noracle.results import Assumption, Guarantee, Kind

Bounds = Mapping[str, tuple[int, int]]
NOTHING = Spec(statements=())
"""No claim at all."""


class Asked(NamedTuple):
    """``alarm``, ``consistent`` or ``undecided``; with the counts of a witness, and whether an
    alarm rests on the solver alone.
    """

    status: str
    given: Whole | None = None
    on_solver: bool = False


def ask(
    sketch: Sketch, spec: Spec, bounds: Bounds, *, deadline: float, more: Sequence[Row] = ()
) -> Asked:
    """Can all claims, prevalences and further rows hold at once?"""
    rows = (*rows_of(sketch, spec, bounds), *more)
    if not rows:
        return Asked("consistent", assigned(sketch, sketch.allowed.argmax(axis=1)))
    if time.monotonic() >= deadline:
        return Asked("undecided")
    found = decide(sketch, spec, Program(sketch, rows), deadline=deadline)
    if found.status == "consistent":
        return Asked(
            "consistent", found.given if found.labels is None else assigned(sketch, found.labels)
        )
    return Asked(found.status, None, found.status == "alarm" and _is_bare(found))


def _is_bare(found: Decided) -> bool:
    return found.node is None and found.most is None


def assigned(sketch: Sketch, labels: np.ndarray) -> Whole:
    """Counts where all items of a group have one label."""
    given = np.zeros((sketch.n_groups, len(sketch.labels)), dtype=np.int64)
    given[np.arange(sketch.n_groups), labels] = sketch.n
    return given


def check_limit(time_limit: float) -> float:
    """When the time is up."""
    if not (isinstance(time_limit, (int, float)) and 0 < time_limit < math.inf):
        raise ArgumentError(f"time_limit must be a positive number of seconds; got {time_limit!r}.")
    return time.monotonic() + time_limit


def share(deadline: float, part: float) -> float:
    """A part of the time that is left."""
    now = time.monotonic()
    return now + part * max(0.0, deadline - now)


def names_in(spec: Spec, classifiers: Sequence[str]) -> list[str]:
    """The classifiers that a specification is about, in the order of the sketch."""
    found: set[str] = set()
    for s in spec.statements:
        if isinstance(s, Linear):
            found |= {name for term in s.terms for name, _ in term.answers}
        else:
            found |= set(classifiers) if s.of is None else {s.of}
    return [c for c in classifiers if c in found]


def restricted(spec: Spec, classifiers: Sequence[str]) -> Spec:
    """The claims that are about these classifiers only; one about every classifier stays, and means
    these.
    """
    keep = []
    for s in spec.statements:
        about = (
            {name for term in s.terms for name, _ in term.answers}
            if isinstance(s, Linear)
            else {s.of} - {None}
        )
        if about <= set(classifiers):
            keep.append(s)
    return Spec(statements=tuple(keep))


def each_named(
    spec: Spec | str | Mapping[str, Spec | str] | None, classifiers: Sequence[str]
) -> Spec:
    """A specification in which every claim says whose it is; a mapping gives each trusted
    classifier its own.
    """
    if spec is None:
        return NOTHING
    parts: list[tuple[str | None, Spec]]
    parts = (
        [(name, as_spec(s)) for name, s in spec.items()]
        if isinstance(spec, Mapping)
        else [(None, as_spec(spec))]
    )
    statements: list[Statement | Linear] = []
    for name, part in parts:
        if name is not None and name not in classifiers:
            raise ArgumentError(
                f"given must name classifiers among {list(classifiers)}; got {name!r}."
            )
        for s in part.statements:
            if isinstance(s, Linear):
                statements.append(s)
            elif s.of is not None and name is not None and s.of != name:
                raise ArgumentError(f"given[{name!r}] must be about {name!r}; got '{s}'.")
            else:
                wanted = [s.of or name] if (s.of or name) else list(classifiers)
                statements += [dataclasses.replace(s, of=c) for c in wanted]
    return Spec(statements=tuple(statements))


def promise(
    sketch: Sketch, bounds: Bounds, *, trusted: str = "", on_solver: bool = False
) -> Guarantee:
    """What every logical result rests on."""
    from noracle.logic.axioms import ONE_TRUTH

    found = [ONE_TRUTH]
    if trusted:
        found.append(Assumption(name="the trusted claims are true", detail=trusted))
    if sketch.has_side_information:
        found.append(Assumption(name="known answers and ruled-out labels are true"))
    if bounds:
        found.append(Assumption(name="the prevalences are in their ranges"))
    if on_solver:
        found.append(
            Assumption(
                name="the integer solver is right",
                detail="a verdict rests on HiGHS without a certificate",
            )
        )
    return Guarantee(kind=Kind.LOGICAL, error_rate=0.0, assumptions=tuple(found))


def described(sketch: Sketch) -> dict[str, int]:
    """The counts that results show."""
    return {
        "items": sketch.n_items,
        "classifiers": len(sketch.classifiers),
        "labels": len(sketch.labels),
        "groups": sketch.n_groups,
    }
