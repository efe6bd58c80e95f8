"""``noracle collect project``, ``seal``, ``open`` and ``close``: the life of a project."""

from __future__ import annotations

import datetime as dt
import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from noracle.cli import _collect_common as common
from noracle.cli import _options as opt
from noracle.cli._collect_live import show_live
from noracle.cli._output import say, say_json, working
from noracle.collect.errors import Conflict, NotFound, Refused
from noracle.collect.model import ProjectSpec
from noracle.errors import ArgumentError

if TYPE_CHECKING:
    from noracle.collect.service.projects import SealPreview
    from noracle.collect.store.base import Work

PROJECT_EXAMPLE = """Example:

noracle collect project abstracts --spec project.toml

noracle collect project abstracts --protocol partitioned --classes "heart,lung,brain" --planned-n 2000 --panel-items 50

noracle collect project (lists all) · noracle collect project abstracts (shows one) · noracle collect project abstracts --live (estimates)

project.toml: name = "Abstracts", protocol = "partitioned", planned_n = 2000, and for each class [[classes]] with name and guideline."""

SEAL_EXAMPLE = """Example:

noracle collect seal abstracts

Everything random is drawn now, from a seed whose SHA-256 is published. Nothing of the project can be changed afterwards."""

OPEN_EXAMPLE = """Example:

noracle collect open abstracts"""

CLOSE_EXAMPLE = """Example:

noracle collect close abstracts

The seed is revealed: anybody can draw the routes again, with noracle verify on the export."""

ProtocolName = Literal["partitioned", "judge-all", "pick-wrong", "ordinary"]
_SPEC = "Without --spec"


def project(
    slug: Annotated[
        str | None,
        typer.Argument(
            metavar="[PROJECT]", help="Its short name, as in its address; left out: list all."
        ),
    ] = None,
    db: common.Db = common.DB,
    spec: Annotated[
        str | None,
        typer.Option("--spec", metavar="FILE", help="What is asked and how (TOML or JSON)."),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option("--name", metavar="NAME", help="A name for people; default the short name."),
    ] = None,
    owner: Annotated[
        str | None,
        typer.Option(
            "--owner", metavar="ADDRESS", help="E-mail of the owner; default the first account."
        ),
    ] = None,
    change: Annotated[
        bool, typer.Option("--change", help="Change the project, which must be a draft.")
    ] = False,
    live: Annotated[
        bool,
        typer.Option(
            "--live",
            help="Show the estimates and checks now, as the dashboard does; the look is logged.",
        ),
    ] = False,
    protocol: Annotated[
        ProtocolName | None,
        typer.Option("--protocol", help="Who is asked what.", rich_help_panel=_SPEC),
    ] = None,
    classes: Annotated[
        str | None,
        typer.Option(
            "--classes", metavar="A,B,C", help="Names of the classes.", rich_help_panel=_SPEC
        ),
    ] = None,
    question: Annotated[
        str | None,
        typer.Option("--question", metavar="TEXT", help="What is asked.", rich_help_panel=_SPEC),
    ] = None,
    draws: Annotated[
        int | None,
        typer.Option("--draws", metavar="N", help="Questions an item.", rich_help_panel=_SPEC),
    ] = None,
    shown: Annotated[
        int | None,
        typer.Option(
            "--shown", metavar="M", help="Classes that are shown at a time.", rich_help_panel=_SPEC
        ),
    ] = None,
    annotators: Annotated[
        int | None,
        typer.Option(
            "--annotators",
            metavar="N",
            help="Places of the ordinary design.",
            rich_help_panel=_SPEC,
        ),
    ] = None,
    panel_items: Annotated[
        int | None,
        typer.Option(
            "--panel-items",
            metavar="N",
            help="Items that are put to all classes.",
            rich_help_panel=_SPEC,
        ),
    ] = None,
    gold_rate: Annotated[
        float | None,
        typer.Option(
            "--gold-rate",
            metavar="P",
            help="Share of questions with a known answer.",
            rich_help_panel=_SPEC,
        ),
    ] = None,
    reasks: Annotated[
        int | None,
        typer.Option(
            "--reasks",
            metavar="N",
            help='Others who are asked after "not sure".',
            rich_help_panel=_SPEC,
        ),
    ] = None,
    planned_n: Annotated[
        int | None,
        typer.Option(
            "--planned-n",
            metavar="N",
            help="Declared number of main answers.",
            rich_help_panel=_SPEC,
        ),
    ] = None,
    as_json: opt.AsJson = False,
) -> None:
    """Make a project, show one, or list all."""
    from noracle.collect.service import projects

    given = {
        "protocol": protocol,
        "classes": opt.names(classes),
        "question": question,
        "draws": draws,
        "shown": shown,
        "annotators": annotators,
        "panel_items": panel_items,
        "gold_rate": gold_rate,
        "reasks": reasks,
        "planned_n": planned_n,
    }
    values = {key: value for key, value in given.items() if value is not None}
    if slug is None:
        if spec is not None or values:
            raise ArgumentError("PROJECT must be named to make a project; got none.")
        if live:
            raise ArgumentError("PROJECT must be named with --live; got none.")
        return _list(db, as_json)
    if live:
        if spec is not None or values or change:
            raise ArgumentError("--live must come alone; got options that change the project.")
        return show_live(slug, db, as_json=as_json)
    if spec is not None or values:
        wanted, called = read_spec(spec, values)
        with common.opened(db) as store:

            def make(work: Work) -> None:
                if change:
                    project = int(common.project_row(work, slug)["id"])
                    projects.change_spec(work, project, wanted)
                else:
                    projects.create_project(
                        work,
                        slug=slug,
                        name=name or called or slug,
                        spec=wanted,
                        owner=_person(work, owner),
                        now=common.now(),
                    )

            store.write_now(make)
    elif change or name is not None or owner is not None:
        raise ArgumentError(
            "--spec, or --protocol and --classes, must say what the project is; got neither."
        )
    with common.opened(db) as store:
        shown_project = store.read_now(lambda work: describe(work, slug))
    if as_json:
        say_json(shown_project)
    else:
        _say(shown_project)
    return None


def read_spec(path: str | None, values: Mapping[str, Any]) -> tuple[ProjectSpec, str | None]:
    """The specification in a TOML or JSON file, with options on top; and the name, if the file has
    one.
    """
    read: dict[str, Any] = {}
    if path is not None:
        try:
            text = Path(path).read_text(encoding="utf-8")
            read = json.loads(text) if Path(path).suffix.lower() == ".json" else tomllib.loads(text)
        except OSError as error:
            raise ArgumentError(
                f"--spec must be a readable file; got {path!r} ({error.strerror})."
            ) from None
        except ValueError as error:
            raise ArgumentError(
                f"--spec must be TOML or JSON; got something else in {path!r} ({error})."
            ) from None
        if not isinstance(read, dict):
            raise ArgumentError(
                f"--spec must hold names and values; got something else in {path!r}."
            )
    name = read.pop("name", None)
    try:
        return ProjectSpec.from_dict({**read, **values}), None if name is None else str(name)
    except TypeError as error:
        raise ArgumentError(f"--spec must hold values of the right kind; got {error}.") from None


def _person(work: Work, email: str | None) -> int:
    from noracle.collect.service.people import find_person

    first = "SELECT id FROM person WHERE active = 1 ORDER BY id LIMIT 1"
    row = work.one(first) if email is None else find_person(work, email)
    if row is None:
        raise NotFound(
            "--owner must have an account; got none. Make the first with: noracle collect init"
        )
    return int(row["id"])


def describe(work: Work, slug: str) -> dict[str, Any]:
    """What there is to know about a project, without a name of anybody."""
    row = common.project_row(work, slug)
    project = int(row["id"])

    def count(table: str) -> int:
        found = work.one(
            f"SELECT COUNT(*) AS n FROM {table} WHERE project_id = :project",  # noqa: S608 (our own names)
            project=project,
        )
        return 0 if found is None else int(found["n"])

    systems = work.all(
        "SELECT name FROM system WHERE project_id = :project ORDER BY id", project=project
    )
    people = work.all(
        "SELECT role, COUNT(*) AS n FROM membership WHERE project_id = :project GROUP BY role ORDER BY role",
        project=project,
    )
    dates = {key: _date(row[key]) for key in ("created_at", "sealed_at", "opened_at", "closed_at")}
    return {
        "project": row["slug"],
        "name": row["name"],
        "state": row["state"],
        "spec": ProjectSpec.from_dict(json.loads(row["spec"])).to_dict(),
        "items": count("item"),
        "questions": count("question"),
        "answers": count("answer"),
        "systems": [str(s["name"]) for s in systems],
        "people": {str(p["role"]): int(p["n"]) for p in people},
        "commitment": row["commitment"],
        "root": row["root"],
        **dates,
    }


def _date(seconds: float | None) -> str | None:
    return (
        None
        if seconds is None
        else dt.datetime.fromtimestamp(seconds, dt.UTC).isoformat(timespec="seconds")
    )


def _say(found: Mapping[str, Any]) -> None:
    spec = found["spec"]
    classes = [str(c["name"]) for c in spec["classes"]]
    named = ", ".join(classes[:8]) + (f" and {len(classes) - 8} more" if len(classes) > 8 else "")
    people = ", ".join(f"{n} {role}" for role, n in found["people"].items())
    say(f"{found['project']}: {found['name']}    {found['state']}", style="bold")
    say(f"  protocol    {spec['protocol']}, {len(classes)} classes: {named}")
    say(
        f"  evidence    {found['items']:,} items, {found['questions']:,} questions, {found['answers']:,} answers"
    )
    say(f"  systems     {', '.join(found['systems']) or 'none yet'}")
    say(f"  people      {people or 'none'}")
    if found["commitment"]:
        say(f"  commitment  {found['commitment']}")
        say(f"  root        {found['root']}")


def _list(db: str, as_json: bool) -> None:
    with common.opened(db) as store:
        rows = store.read_now(
            lambda work: work.all("SELECT slug, name, state FROM project ORDER BY slug")
        )
    if as_json:
        say_json({"projects": [dict(row) for row in rows]})
        return
    for row in rows:
        say(f"{row['slug']:<24} {row['state']:<8} {row['name']}")
    if not rows:
        say("no project yet; make one with: noracle collect project NAME --spec project.toml")


def seal(
    slug: common.Slug,
    db: common.Db = common.DB,
    chances: Annotated[
        str | None,
        typer.Option(
            "--chances",
            metavar="FILE",
            help="Targeted routing: item, class, propensity, a row for each class; default uniform.",
        ),
    ] = None,
    yes: common.Yes = False,
    as_json: opt.AsJson = False,
) -> None:
    """Draw everything random and commit to it; shows first what will be sealed."""
    from noracle.collect import formats
    from noracle.collect.service import projects

    with common.opened(db) as store:
        member = store.read_now(lambda work: common.owner_of(work, slug))
        if member.state != "draft":
            raise Conflict(f"PROJECT must be a draft to be sealed; {slug} is {member.state}.")
        drawn = None if chances is None else formats.read_propensities(chances, spec=member.spec)
        with working("counting"):
            preview = store.read_now(
                lambda work: projects.preview_seal(work, member.project, propensities=drawn)
            )
        if preview.problem:
            raise Refused(preview.problem)
        if not as_json:
            for line in preview_lines(preview, member.spec):
                say(line)
        common.confirm(f"Seal {slug}? Nothing of it can be changed afterwards.", yes=yes)
        with working("drawing the routes"):
            store.write_now(
                lambda work: projects.seal_project(
                    work, member.project, actor=member.alias, now=common.now(), propensities=drawn
                )
            )
        found = store.read_now(lambda work: describe(work, slug))
    if as_json:
        say_json(found)
        return
    say(f"sealed {found['questions']:,} questions about {found['items']:,} items")
    say(f"  commitment  {found['commitment']} (SHA-256 of the seed)")
    say(f"  root        {found['root']} (Merkle root of the routes)")


def preview_lines(preview: SealPreview, spec: ProjectSpec) -> list[str]:
    """What sealing will fix, a line a fact."""
    names = (
        [c.name for c in spec.classes]
        if spec.protocol == "partitioned"
        else [f"place {pool}" for pool in spec.pools]
    )
    kinds = ", ".join(f"{n:,} {kind}" for kind, n in preview.by_kind.items())
    lines = [
        f"  items       {preview.items:,}, of which {preview.gold:,} with a known answer",
        f"  questions   {preview.questions:,}: {kinds}",
    ]
    if len(names) > 1:
        lines += [
            f"              {n:,} for {names[pool]}"
            for pool, n in list(preview.by_pool.items())[:20]
        ]
        lines += (
            [f"              and {len(preview.by_pool) - 20} more"]
            if len(preview.by_pool) > 20
            else []
        )
    if preview.pools_without_people:
        lines.append(
            f"  nobody yet  for {', '.join(names[pool] for pool in preview.pools_without_people[:20])} (people may join after sealing)"
        )
    return lines


def open_(slug: common.Slug, db: common.Db = common.DB) -> None:
    """Let annotators answer."""
    _turn(slug, db, "open")


def close(slug: common.Slug, db: common.Db = common.DB, yes: common.Yes = False) -> None:
    """Take no more answers, and reveal the seed."""
    common.confirm(
        f"Close {slug}? No answer is taken afterwards, and it cannot be opened again.", yes=yes
    )
    _turn(slug, db, "close")


def _turn(slug: str, db: str, way: Literal["open", "close"]) -> None:
    from noracle.collect.service import projects

    change = projects.open_project if way == "open" else projects.close_project
    with common.opened(db) as store:
        store.write_now(
            lambda work: change(
                work,
                int(common.project_row(work, slug)["id"]),
                actor=common.owner_of(work, slug).alias,
                now=common.now(),
            )
        )
        found = store.read_now(lambda work: describe(work, slug))
    say(
        f"{slug} is {found['state']}; {found['answers']:,} answers to {found['questions']:,} questions"
    )
