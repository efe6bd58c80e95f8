"""``noracle collect import`` and ``export``: files in and out of a project."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from noracle.cli import _collect_common as common
from noracle.cli._files import replacing
from noracle.cli._output import check_target, say, working
from noracle.collect.errors import Conflict
from noracle.errors import ArgumentError

if TYPE_CHECKING:
    from noracle.collect.service.access import Member
    from noracle.collect.store.base import Store, Work

IMPORT_EXAMPLE = """Example:

noracle collect import abstracts --items items.csv --gold gold.csv

noracle collect import pictures --items items.jsonl --images pictures/

noracle collect import abstracts --system agent-7=answers.csv (after sealing)

items: item, and text, markdown or image; options and truth if there are any. gold: item, label. A system's answers: item, answer."""

EXPORT_EXAMPLE = """Example:

noracle collect export abstracts --out abstracts.zip; noracle verify abstracts.zip

noracle collect export abstracts --format csv --out tables; noracle estimate --answers tables/answers.csv --judgements tables/judgements.csv
--items tables/items.csv"""

Format = Literal["archive", "jsonl", "csv", "parquet", "label-studio"]


def import_(
    slug: common.Slug,
    db: common.Db = common.DB,
    items: Annotated[
        str | None,
        typer.Option(
            "--items",
            metavar="FILE",
            help="Items: .csv, .jsonl, .json, .parquet, a folder or a zip.",
        ),
    ] = None,
    images: Annotated[
        str | None,
        typer.Option(
            "--images", metavar="DIR", help="The folder in which images of the items lie."
        ),
    ] = None,
    gold: Annotated[
        str | None,
        typer.Option("--gold", metavar="FILE", help="item, label: the known class of some items."),
    ] = None,
    system: Annotated[
        list[str] | None,
        typer.Option(
            "--system",
            metavar="[NAME=]FILE",
            help="item, answer (and system): answers of a system; repeat.",
        ),
    ] = None,
) -> None:
    """Bring items into a draft, or the answers of systems into a sealed project.

    All or nothing: if one row breaks a rule, nothing is kept. Images are decoded and encoded anew.
    Nothing is fetched from the network.
    """
    if (items is None) == (not system):
        raise ArgumentError(
            "--items or --system must be given, one of them; items come before sealing, systems after."
        )
    if items is None and (images is not None or gold is not None):
        raise ArgumentError("--images and --gold must come with --items; got none.")
    with common.opened(db) as store:
        member = store.read_now(lambda work: common.owner_of(work, slug))
        if items is not None:
            say(f"{_items(store, member, items, images, gold):,} items imported")
            return
        for name, n in _systems(store, member, system or ()):
            say(f"{name}: {n:,} answers imported")


def _items(store: Store, member: Member, items: str, images: str | None, gold: str | None) -> int:
    from noracle.collect import formats
    from noracle.collect.service import projects

    if member.state != "draft":
        raise Conflict(f"PROJECT must be a draft for new items; {member.slug} is {member.state}.")
    with working("reading"):
        known = None if gold is None else formats.read_gold(gold, spec=member.spec)
        upload = formats.read_items(items, spec=member.spec, images=images, gold=known)

    def keep(work: Work) -> int:
        for picture in upload.pictures.values():
            projects.add_image(work, member.project, picture)
        return projects.import_items(
            work, member.project, upload.items, actor=member.alias, now=common.now()
        )

    with working("importing"):
        return store.write_now(keep)


def _systems(store: Store, member: Member, given: Sequence[str]) -> list[tuple[str, int]]:
    from noracle.collect import formats
    from noracle.collect.service import projects

    if member.state == "draft":
        raise Conflict(
            "PROJECT must be sealed before systems come, so that they cannot steer what is asked; it is a draft."
        )
    found: dict[str, dict[str, int | None]] = {}
    for text in given:
        name, mark, path = text.partition("=")
        if not mark or Path(text).is_file():
            name, path = "", text
        if not Path(path).is_file():
            raise ArgumentError(f"--system must be NAME=FILE or FILE; got no file {path!r}.")
        for system, answers in formats.read_answers(
            path, spec=member.spec, system=name.strip()
        ).items():
            if system in found:
                raise ArgumentError(f"--system must name each system once; got {system!r} twice.")
            found[system] = answers

    def keep(work: Work) -> None:
        for name, answers in found.items():
            projects.add_system(
                work, member.project, name, answers, actor=member.alias, now=common.now()
            )

    with working("importing"):
        store.write_now(keep)
    return [(name, len(answers)) for name, answers in found.items()]


def export(
    slug: common.Slug,
    db: common.Db = common.DB,
    file_format: Annotated[
        Format,
        typer.Option("--format", help="archive proves itself; the others are tables to work with."),
    ] = "archive",
    out: Annotated[
        str | None,
        typer.Option(
            "--out",
            metavar="PATH",
            help="A file (archive, label-studio) or a folder (tables); default after the project.",
        ),
    ] = None,
    texts: Annotated[
        bool,
        typer.Option(
            "--texts", help="Also write the texts of the items; default their hashes only."
        ),
    ] = False,
) -> None:
    """Write a project to a file or folder, without names of people; the export is logged.

    noracle verify checks an archive. noracle estimate, check and the other verbs read the tables of
    csv, jsonl and parquet.
    """
    from noracle.collect.service import exports

    whole = file_format in ("archive", "label-studio")
    target = Path(
        out
        or (
            f"{slug}.{'zip' if file_format == 'archive' else 'json'}"
            if whole
            else f"{slug}-{file_format}"
        )
    )
    if whole:
        check_target("out", str(target))
    elif target.exists() and not target.is_dir():
        raise ArgumentError(f"--out must be a folder for the tables; got the file {str(target)!r}.")
    with common.opened(db) as store, working("exporting"):
        member = store.read_now(lambda work: common.owner_of(work, slug))
        if member.state == "draft":
            raise Conflict(f"PROJECT must be sealed before it can be exported; {slug} is a draft.")
        store.write_now(
            lambda work: exports.log_export(work, member, file_format, now=common.now())
        )
        files = store.read_chained_now(
            member.project,
            lambda work: exports.export_files(work, member.project, file_format, texts=texts),
        )
    if not whole:
        target.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        path = target if whole else target / name
        with replacing(path) as temporary:
            temporary.write_bytes(data)
        say(f"wrote {path} ({len(data):,} bytes)")
