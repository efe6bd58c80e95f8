"""``noracle collect invite`` and ``forget``: the people of a project."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from noracle.cli import _collect_common as common
from noracle.cli import _options as opt
from noracle.cli._output import say, say_json
from noracle.collect.errors import NotFound
from noracle.errors import ArgumentError

if TYPE_CHECKING:
    from noracle.collect.model import ProjectSpec
    from noracle.collect.store.base import Work

INVITE_EXAMPLE = """Example:

noracle collect invite abstracts --class lung --url https://labels.example.org

noracle collect invite abstracts --each 2 (two links for every class)

noracle collect invite abstracts --role auditor

A link works once, and is shown once: only its SHA-256 is stored."""

FORGET_EXAMPLE = """Example:

noracle collect forget ann@example.org

The answers stay under the alias of the project, and noracle verify still passes."""

Role = Literal["owner", "manager", "annotator", "auditor"]


def invite(
    slug: common.Slug,
    db: common.Db = common.DB,
    role: Annotated[Role, typer.Option("--role", help="What the person may do.")] = "annotator",
    class_name: Annotated[
        str | None,
        typer.Option("--class", metavar="NAME", help="The class that an annotator is asked about."),
    ] = None,
    place: Annotated[
        int | None,
        typer.Option(
            "--place", metavar="N", min=0, help="The place of an annotator (ordinary protocol)."
        ),
    ] = None,
    each: Annotated[
        int,
        typer.Option(
            "--each",
            metavar="N",
            min=1,
            max=1000,
            help="Links of each kind; without --class, for every class.",
        ),
    ] = 1,
    days: Annotated[
        float, typer.Option("--days", metavar="D", help="How long the links work.")
    ] = 7.0,
    url: Annotated[
        str, typer.Option("--url", metavar="URL", help="Where the server is.")
    ] = "http://127.0.0.1:8000",
    as_json: opt.AsJson = False,
) -> None:
    """Make links that let people join, bound to a role and a class."""
    from noracle.collect.service import people

    def make(work: Work) -> list[dict[str, object]]:
        member = common.owner_of(work, slug)
        found: list[dict[str, object]] = []
        for pool in _pools(member.spec, role, class_name, place):
            for _ in range(each):
                token = people.invite(
                    work, member, role=role, pool=pool, days=days, now=common.now()
                )
                link = f"{url.rstrip('/')}/join/{token}"
                found.append(
                    {"role": role, "pool": pool, "for": _called(member.spec, pool), "link": link}
                )
        return found

    with common.opened(db) as store:
        links = store.write_now(make)
    if as_json:
        say_json({"invitations": links})
        return
    for one in links:
        say(f"{one['for'] or role}: {one['link']}")


def _pools(
    spec: ProjectSpec, role: Role, class_name: str | None, place: int | None
) -> list[int | None]:
    """The groups that links are wanted for; None for roles that are asked nothing, and where there
    is one group only.
    """
    if role != "annotator":
        if class_name is not None or place is not None:
            raise ArgumentError(
                f"--class and --place must be left out for the role {role}; only annotators are asked questions."
            )
        return [None]
    if class_name is not None:
        classes = [c.name for c in spec.classes]
        if spec.protocol != "partitioned" or class_name not in classes:
            raise ArgumentError(
                f"--class must be a class of a partitioned project ({', '.join(classes[:10])}); got {class_name!r}."
            )
        return [classes.index(class_name)]
    if place is not None:
        if spec.protocol != "ordinary":
            raise ArgumentError(
                f"--place must be left out in a project of the protocol {spec.protocol}."
            )
        return [place]
    return list(spec.pools)


def _called(spec: ProjectSpec, pool: int | None) -> str:
    if pool is None or spec.protocol in ("judge-all", "pick-wrong"):
        return ""
    return spec.classes[pool].name if spec.protocol == "partitioned" else f"place {pool}"


def forget(
    email: Annotated[str, typer.Argument(metavar="ADDRESS", help="The person's e-mail address.")],
    db: common.Db = common.DB,
    yes: common.Yes = False,
) -> None:
    """Erase a person: name, address, password and sessions. What they answered stays, without a
    name.
    """
    from noracle.collect.service import people

    with common.opened(db) as store:
        if store.read_now(lambda work: people.find_person(work, email)) is None:
            raise NotFound("ADDRESS must be the e-mail address of an account; got one without.")
        common.confirm(f"Erase {email}? This cannot be undone.", yes=yes)
        store.write_now(lambda work: people.forget(work, email, now=common.now()))
    say("forgotten; copies that were made before still hold the person")
