"""Estimates and checks of a running project, through the library's own estimators.

``live_view`` reads the project once (``live_rows``), and then works on arrays in the sealed order:

    live_estimates.py, live_protocols.py   the accuracy of each system, by protocol
    live_sequences.py                      intervals that hold at every look, at any speed of the classes, whatever "unsure" hides
    live_checks.py, live_quality.py        checks F1–F4, gold and panel; false alarms in at most 5 % of projects
    live_view.py                           the records
    live_simulation.py                     what breaks the protocol, simulated

Simulated projects go through :func:`view_of`, the same function.
"""

from __future__ import annotations

import numpy as np

from noracle.collect.live.checks import check_project, error_rates, rates_for_correction
from noracle.collect.live.estimates import (
    agreement_of,
    judge_all_view,
    ordinary_view,
    partitioned_view,
    pick_wrong_view,
    votes_of,
)
from noracle.collect.live.records import (
    MAIN,
    UNSURE,
    YES,
    ClassProgress,
    LiveView,
    Point,
    Project,
    SystemView,
    open_places,
    read_project,
)
from noracle.collect.store.base import Work
from noracle.results import Check, Estimate

__all__ = ["ClassProgress", "LiveView", "Point", "SystemView", "live_view", "view_of"]


def live_view(work: Work, project: int, *, now: float) -> LiveView:
    """What is known of a project now.

    The interval of each system holds at every look together, so that nobody is punished for
    looking. Every look should be logged all the same.
    """
    return view_of(read_project(work, project), now=now)


def view_of(project: Project, *, now: float, points: int = 16) -> LiveView:
    """The view of a project that has been read, or simulated; ``points`` of the past are computed
    for the chart.
    """
    main = project.rows.of(MAIN)
    checks = check_project(project)
    failed = [c for c in checks if not c.passed]
    systems, agreement = _systems(project, failed, points)
    opened = open_places(main, len(project.spec.pools))
    in_order = int((main.done & (main.place < opened.min())).sum()) if len(opened) else 0
    return LiveView(
        project=project.slug,
        name=project.name,
        state=project.state,
        protocol=project.spec.protocol,
        n_classes=project.spec.n_classes,
        at=now,
        asked=len(main.item),
        answered=int(main.done.sum()),
        in_order=in_order,
        planned_n=project.spec.planned_n,
        pending=project.rows.pending,
        classes=_classes(project),
        systems=systems,
        checks=checks,
        rates=error_rates(project),
        agreement=agreement,
        notes=_notes(project),
    )


def _systems(
    project: Project, failed: list[Check], points: int
) -> tuple[tuple[SystemView, ...], Estimate | None]:
    match project.spec.protocol:
        case "partitioned":
            rates = rates_for_correction(project)
            return tuple(
                partitioned_view(project, name, checks=failed, rates=rates, points=points)
                for name in project.answers
            ), None
        case "judge-all":
            return tuple(
                judge_all_view(project, name, checks=failed, points=points)
                for name in project.answers
            ), None
        case "pick-wrong":
            return tuple(pick_wrong_view(project, name) for name in project.answers), None
        case "ordinary":
            votes, items, unsure = votes_of(project)
            found = tuple(
                ordinary_view(project, name, votes, items, unsure) for name in project.answers
            )
            return found, agreement_of(votes, project.spec.confidence)


def _classes(project: Project) -> tuple[ClassProgress, ...]:
    main, spec = project.rows.of(MAIN), project.spec
    n = len(spec.pools)
    opened = open_places(main, n)
    done = main.done
    names = (
        [c.name for c in spec.classes]
        if spec.protocol == "partitioned"
        else [f"{i + 1}" for i in range(n)]
        if n > 1
        else ["everybody"]
    )

    def count(chosen: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> list[int]:
        return [int(v) for v in np.bincount(main.pool[chosen], minlength=n)]

    every = np.ones(len(main.item), dtype=bool)
    asked, answered, in_order = (
        count(every),
        count(done),
        count(done & (main.place < opened[main.pool])),
    )
    yes, unsure = (
        count(main.value == YES) if spec.protocol == "partitioned" else [0] * n,
        count(main.unsure),
    )
    expired = [int(v) for v in np.bincount(main.pool, weights=main.expired, minlength=n)]
    seen = [int(v) for v in np.bincount(main.pool, weights=main.expired + done, minlength=n)]
    return tuple(
        ClassProgress(
            pool=i,
            name=names[i],
            people=project.members.get(i, 0),
            asked=asked[i],
            answered=answered[i],
            in_order=in_order[i],
            yes=yes[i],
            unsure=unsure[i],
            expired=expired[i],
            unsure_rate=unsure[i] / answered[i] if answered[i] else 0.0,
            expired_rate=expired[i] / seen[i] if seen[i] else 0.0,
        )
        for i in range(n)
    )


def _notes(project: Project) -> tuple[str, ...]:
    notes = []
    main = project.rows.of(MAIN)
    if project.spec.protocol == "pick-wrong":
        notes.append(
            "picked classes are training data: the estimates promise nothing unless people pick uniformly among the wrong classes"
        )
    if project.spec.protocol == "ordinary":
        notes.append(
            "ratings say how well a system agrees with its annotators; certificates against them are made from the export"
        )
    if project.spec.protocol == "partitioned":
        asked, done = (
            np.bincount(main.pool[m], minlength=project.spec.n_classes)
            for m in (np.ones(len(main.item), bool), main.done)
        )
        absent = [project.spec.classes[i].name for i in np.flatnonzero((asked > 0) & (done == 0))]
        if absent and done.any():
            notes.append(
                f"no answer yet for {len(absent)} of {len(asked)} classes ({', '.join(absent[:5])}): they contribute bounds only"
            )
    if (main.value == UNSURE).any():
        notes.append("unsure is not no: intervals cover every verdict that it may hide")
    return tuple(notes)
