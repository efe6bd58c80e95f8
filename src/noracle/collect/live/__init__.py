"""Estimates and checks of a running project, through the library's own estimators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from noracle.collect.live import checks, estimates, records
from noracle.collect.live.records import ClassProgress, LiveView, Point, Project, SystemView
from noracle.collect.store.base import Work
from noracle.results import Check, Estimate

__all__ = ["ClassProgress", "LiveView", "Point", "SystemView", "live_view", "view_of"]

_NOTES = {
    "pick-wrong": "picked classes are training data: the estimates promise nothing unless people pick uniformly among the wrong classes",
    "ordinary": "ratings say how well a system agrees with its annotators; certificates against them are made from the export",
}


def live_view(work: Work, project: int, *, now: float) -> LiveView:
    """What is known of a project now; each system's interval holds at every look together."""
    return view_of(records.read_project(work, project, now=now), now=now)


def view_of(project: Project, *, now: float, points: int = 16) -> LiveView:
    """The view of a project that was read or simulated, with ``points`` of the past for the chart."""
    main = project.rows.of(records.MAIN)
    found = checks.check_project(project)
    failed = [c for c in found if not c.passed]
    systems, agreement = _systems(project, failed, points)
    opened = records.open_places(main, len(project.spec.pools))
    in_order = int((main.done & (main.place < opened.min())).sum()) if len(opened) else 0
    spec = project.spec
    return LiveView(
        **{name: getattr(project, name) for name in ("name", "state")},
        **{name: getattr(spec, name) for name in ("protocol", "n_classes", "planned_n")},
        project=project.slug,
        at=now,
        asked=len(main.item),
        answered=int(main.done.sum()),
        in_order=in_order,
        pending=project.rows.pending,
        classes=_classes(project),
        systems=systems,
        checks=found,
        rates=checks.error_rates(project),
        agreement=agreement,
        notes=_notes(project),
    )


def _systems(
    project: Project, failed: list[Check], points: int
) -> tuple[tuple[SystemView, ...], Estimate | None]:
    spec, protocol = project.spec, project.spec.protocol
    view: Callable[..., SystemView] = getattr(estimates, f"{protocol.replace('-', '_')}_view")
    options: dict[str, Any] = {"checks": failed, "points": points} if spec.judged else {}
    agreement = None
    if protocol == "partitioned":
        options["rates"] = checks.rates_for_correction(project)
    elif protocol == "ordinary":
        votes, items, unsure = estimates.votes_of(project)
        options = {"votes": votes, "items": items, "unsure": unsure}
        agreement = estimates.agreement_of(votes, spec.confidence)
    found, main = [], project.rows.of(records.MAIN).items
    for name, answers in project.answers.items():
        if protocol == "grade" and not (answers[main] >= 0).any():
            continue  # it holds the answers of gold items
        if spec.judged:  # what speaks against one system takes no promise from another
            own = [c for c in failed if c.diagnostics.get("system", name) == name]
            options["checks"] = own
        found.append(estimates.timed(view(project, name, **options), late=name in project.late))
    return tuple(found), agreement


def _classes(project: Project) -> tuple[ClassProgress, ...]:
    main, spec, n = project.rows.of(records.MAIN), project.spec, len(project.spec.pools)
    done, partitioned = main.done, spec.protocol == "partitioned"
    names = [str(i + 1) for i in range(n)] if n > 1 else ["everybody"]
    names = [c.name for c in spec.classes] if partitioned else names

    in_order = done & (main.place < records.open_places(main, n)[main.pool])
    asked, yes = np.ones_like(done), (main.value == records.YES) & partitioned
    kinds: dict[str, Any] = {"asked": asked, "answered": done, "in_order": in_order}
    kinds |= {"yes": yes, "unsure": main.unsure, "expired": main.expired}
    table = {k: np.bincount(main.pool, weights=of, minlength=n) for k, of in kinds.items()}
    answered, seen = table["answered"], table["expired"] + table["answered"]
    rates = {
        f"{k}_rate": np.divide(table[k], all_, out=np.zeros(n), where=all_ > 0).tolist()
        for k, all_ in (("unsure", answered), ("expired", seen))
    }
    found = []
    for i, name in enumerate(names):
        about: Any = {k: int(column[i]) for k, column in table.items()}
        about |= {k: column[i] for k, column in rates.items()}
        found.append(ClassProgress(pool=i, name=name, people=project.members.get(i, 0), **about))
    return tuple(found)


def _notes(project: Project) -> tuple[str, ...]:
    main, spec = project.rows.of(records.MAIN), project.spec
    notes = [_NOTES[spec.protocol]] if spec.protocol in _NOTES else []
    if spec.protocol == "partitioned":
        asked = np.bincount(main.pool, minlength=spec.n_classes)
        done = np.bincount(main.pool[main.done], minlength=spec.n_classes)
        absent = [spec.classes[i].name for i in np.flatnonzero((asked > 0) & (done == 0))]
        if absent and done.any():
            which = f"{len(absent)} of {len(asked)} classes ({', '.join(absent[:5])})"
            notes.append(f"no answer yet for {which}: they contribute bounds only")
    if project.late:
        late = ", ".join(sorted(project.late))
        notes.append(f"{estimates.LATE}, and so without a promise: {late}")
    if project.unrevealed:
        named = ", ".join(project.unrevealed[:5])
        notes.append(f"{len(project.unrevealed)} systems committed to and not revealed: {named}")
    if (main.value == records.UNSURE).any():
        notes.append("unsure is not no: intervals cover every verdict that it may hide")
    return tuple(notes)
