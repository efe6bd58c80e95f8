"""``noracle collect project --live``: what the dashboard says, without a browser."""

from __future__ import annotations

from typing import TYPE_CHECKING

from noracle.cli import _collect_common as common
from noracle.cli._output import say_card, say_json, working
from noracle.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from noracle.collect.archive import Archive
    from noracle.collect.live.records import LiveView
    from noracle.collect.store.base import Work


def address_of(address: str) -> tuple[str, str]:
    """Database and short name of a project in ``DB#SLUG``."""
    db, mark, slug = address.rpartition("#")
    if not (mark and db and slug):
        raise ArgumentError(
            f"--project must be a database and the short name of a project, as noracle.db#survey; got {address!r}."
        )
    return db, slug


def look_at(slug: str, db: str) -> LiveView:
    """The estimates and checks of a project now. The look is logged first, as every look is."""
    from noracle.collect.live import live_view
    from noracle.collect.service import projects

    def look(work: Work) -> int:
        member = common.owner_of(work, slug)
        projects.log_look(work, member, now=common.now())
        return member.project

    with common.opened(db) as store, working("estimating"):
        project = store.write_now(look)
        return store.read_now(lambda work: live_view(work, project, now=common.now()))


def look_alone(address: str, others: Mapping[str, object]) -> LiveView:
    """The live view behind ``--project``, which goes with no other evidence: how to estimate was
    decided when the project was sealed.
    """
    given = [f"--{name}" for name, value in others.items() if value is not None]
    if given:
        raise ArgumentError(
            f"--project must be the only evidence; got {', '.join(given)} too. Export the project to use it with others."
        )
    db, slug = address_of(address)
    return look_at(slug, db)


def archive_at(address: str) -> Archive:
    """The archive of a running project, as an export would write it."""
    from noracle.collect.service import exports

    db, slug = address_of(address)
    with common.opened(db) as store:
        project = store.read_now(lambda work: common.owner_of(work, slug).project)
        return store.read_chained_now(project, lambda work: exports.archive_of(work, project))


def show_live(slug: str, db: str, *, as_json: bool) -> None:
    """Print what the dashboard says."""
    view = look_at(slug, db)
    if as_json:
        say_json(view.to_dict())
        return
    for card in cards(view):
        say_card(card)


def cards(view: LiveView) -> list[str]:
    """A card for each system, and what else the dashboard shows."""
    found = []
    for system in view.systems:
        lines = [
            str(system.estimate),
            f"  bounds      [{system.worst:.3f}, {system.best:.3f}] whatever the unsure and the absent would have said",
        ]
        if system.fixed is not None:
            lines.append(
                f"  declared n  {system.fixed.value:.3f} [{system.fixed.low:.3f}, {system.fixed.high:.3f}]"
            )
        if system.corrected is not None:
            lines.append(
                f"  corrected   {system.corrected.value:.3f} for the errors on gold and panel questions"
            )
        found.append("\n".join(lines))
    done = "\n".join(
        f"  {c.name:<20} {c.answered:>8,} of {c.asked:,}    people {c.people}"
        for c in view.classes[:50]
    )
    found.append(
        f"{view.answered:,} of {view.asked:,} main questions are answered; the project is {view.state}\n{done}"
    )
    failed = [str(check) for check in view.checks if not check.passed]
    found.append(
        f"{len(view.checks)} checks, {len(failed)} failed" + "".join(f"\n{card}" for card in failed)
    )
    return [*found, *view.notes]
