"""``noracle collect project --live``: what the dashboard says, without a browser."""

from __future__ import annotations

from typing import TYPE_CHECKING

from noracle.cli import _collect_common as common
from noracle.cli._output import say_card, say_json, working

if TYPE_CHECKING:
    from noracle.collect.live_view import LiveView
    from noracle.collect.store.base import Work


def show_live(slug: str, db: str, *, as_json: bool) -> None:
    """Print the estimates and checks of a project now. The look is logged first, as every look is."""
    from noracle.collect.live import live_view
    from noracle.collect.service import projects

    def look(work: Work) -> int:
        member = common.owner_of(work, slug)
        projects.log_look(work, member, now=common.now())
        return member.project

    with common.opened(db) as store, working("estimating"):
        project = store.write_now(look)
        view = store.read_now(lambda work: live_view(work, project, now=common.now()))
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
            lines.append(f"  declared n  {system.fixed.value:.3f} [{system.fixed.low:.3f}, {system.fixed.high:.3f}]")
        if system.corrected is not None:
            lines.append(f"  corrected   {system.corrected.value:.3f} for the errors on gold and panel questions")
        found.append("\n".join(lines))
    done = "\n".join(f"  {c.name:<20} {c.answered:>8,} of {c.asked:,}    people {c.people}" for c in view.classes[:50])
    found.append(f"{view.answered:,} of {view.asked:,} main questions are answered; the project is {view.state}\n{done}")
    failed = [str(check) for check in view.checks if not check.passed]
    found.append(f"{len(view.checks)} checks, {len(failed)} failed" + "".join(f"\n{card}" for card in failed))
    return [*found, *view.notes]
