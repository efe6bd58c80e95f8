"""Items and images of a draft."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from noracle.collect.chain import canonical, content_hash, digest
from noracle.collect.errors import Conflict, NotFound, Refused
from noracle.collect.model import Item, ProjectSpec, State
from noracle.collect.service.access import Member, read_spec
from noracle.collect.store.base import Work
from noracle.errors import ArgumentError, EvidenceError, fault

if TYPE_CHECKING:
    from noracle.collect.content import Picture

LONGEST_NAME, LONGEST_TEXT, LONGEST_OPTION = 200, 200_000, 10_000
_KEYS = {"text", "markdown", "image", "options", "attention"}
_AT_A_TIME = 5_000


def hold(work: Work, project: int, *states: State) -> Mapping[str, Any]:
    """The row of a project that is in one of these states; it cannot change before the transaction
    ends.

    Raises
    ------
    NotFound, Conflict
        If there is no such project, or it is in another state.
    """
    work.run(
        "UPDATE project SET state = state WHERE id = :project", project=project
    )  # locks the row on PostgreSQL
    row = work.one("SELECT * FROM project WHERE id = :project", project=project)
    if row is None:
        raise NotFound("There is no such project.")
    if row["state"] not in states:
        raise Conflict(f"The project must be {' or '.join(states)} for this; it is {row['state']}.")
    return row


def check_item(item: Item, spec: ProjectSpec) -> None:
    """Refuse an item that breaks a rule; the message names the item and never quotes its text."""
    name, content = item.name, item.content
    if (
        not isinstance(name, str)
        or not 1 <= len(name) <= LONGEST_NAME
        or not name.isprintable()
        or name != name.strip()
    ):
        raise Refused(
            f"item must be named by 1 to {LONGEST_NAME} printable characters; got {str(name)[:40]!r}."
        )
    unknown = sorted(set(content) - _KEYS)
    if unknown:
        raise Refused(
            fault(
                "content",
                f"must hold {', '.join(sorted(_KEYS))} only",
                ", ".join(map(str, unknown[:5])),
                where=[name],
            )
        )
    if not any(content.get(key) for key in ("text", "markdown", "image")):
        raise Refused(
            fault("content", "must hold a text, Markdown or an image", "none of them", where=[name])
        )
    for key in ("text", "markdown"):
        if key in content:
            _check_text(content[key], key, LONGEST_TEXT, name)
    if "image" in content and not (
        isinstance(content["image"], str) and re.fullmatch(r"[0-9a-f]{64}", content["image"])
    ):
        raise Refused(
            fault(
                "image",
                "must be the SHA-256 of an uploaded image",
                repr(content["image"])[:80],
                where=[name],
            )
        )
    if "attention" in content and not isinstance(content["attention"], bool):
        raise Refused(
            fault(
                "attention", "must be true or false", repr(content["attention"])[:40], where=[name]
            )
        )
    options = content.get("options")
    if options is not None:
        if not isinstance(options, list | tuple) or len(options) != spec.n_classes:
            came = (
                f"{len(options)}" if isinstance(options, list | tuple) else type(options).__name__
            )
            raise Refused(
                fault(
                    "options",
                    f"must be a list of {spec.n_classes}, one for each class",
                    came,
                    where=[name],
                )
            )
        for option in options:
            _check_text(option, "options", LONGEST_OPTION, name)
    truth = item.truth
    if truth is not None and (
        isinstance(truth, bool) or not isinstance(truth, int) or not 0 <= truth < spec.n_classes
    ):
        raise Refused(
            fault(
                "truth", f"must be a class in [0, {spec.n_classes})", repr(truth)[:40], where=[name]
            )
        )


def _check_text(text: object, key: str, longest: int, name: str) -> None:
    if not isinstance(text, str) or not text.strip() or len(text) > longest:
        came = f"{len(text)} characters" if isinstance(text, str) else type(text).__name__
        raise Refused(fault(key, f"must be text of 1 to {longest} characters", came, where=[name]))
    if "\x00" in text or not _is_unicode(text):
        raise Refused(
            fault(key, "must be Unicode text", "zero bytes or lone surrogates", where=[name])
        )


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def import_items(
    work: Work, project: int, items: Iterable[Item], *, actor: str = "system", now: float
) -> int:
    """Add items to a draft; returns how many. All or nothing: the transaction is undone where one
    of them is refused.

    Images must have been added with :func:`add_image` before.
    """
    spec = read_spec(hold(work, project, "draft")["spec"])
    names = {
        row["name"]
        for row in work.all("SELECT name FROM item WHERE project_id = :project", project=project)
    }
    images = {
        row["sha256"]
        for row in work.all("SELECT sha256 FROM image WHERE project_id = :project", project=project)
    }
    rows: list[dict[str, object]] = []
    gold: list[dict[str, object]] = []
    hashes: list[str] = []
    for item in items:
        check_item(item, spec)
        if item.name in names:
            raise Refused(
                fault(
                    "item",
                    "must be named only once in the project",
                    repr(item.name),
                    remedy="Rename or drop it.",
                )
            )
        if "image" in item.content and item.content["image"] not in images:
            raise Refused(
                fault(
                    "image", "must be uploaded before its item", "an unknown one", where=[item.name]
                )
            )
        names.add(item.name)
        sha256 = content_hash(item.content)
        hashes.append(sha256)
        rows.append(
            {
                "project": project,
                "name": item.name,
                "content": canonical(dict(item.content)),
                "sha256": sha256,
            }
        )
        if item.truth is not None:
            gold.append({"project": project, "name": item.name, "truth": item.truth})
        if len(rows) >= _AT_A_TIME:
            _insert(work, rows)
            rows = []
    _insert(work, rows)
    if not hashes:
        raise Refused("items must not be empty; got none.")
    if gold:
        work.many(
            "INSERT INTO gold (item_id, truth) SELECT id, :truth FROM item WHERE project_id = :project AND name = :name",
            gold,
        )
    work.log(
        project,
        "imported",
        {"items": len(hashes), "gold": len(gold), "sha256": digest(hashes)},
        actor=actor,
        at=now,
    )
    return len(hashes)


def _insert(work: Work, rows: list[dict[str, object]]) -> None:
    if rows:
        work.many(
            "INSERT INTO item (project_id, name, content, sha256) VALUES (:project, :name, :content, :sha256)",
            rows,
        )


def items_of(work: Work, project: int) -> list[Item]:
    """All items in the order in which they came, with the truth of gold; never for annotators."""
    rows = work.all(
        "SELECT i.name, i.content, i.options, g.truth FROM item i LEFT JOIN gold g ON g.item_id = i.id "
        "WHERE i.project_id = :project ORDER BY i.id",
        project=project,
    )
    return [
        Item(
            name=row["name"],
            content=json.loads(row["content"]),
            truth=None if row["truth"] is None else int(row["truth"]),
            options=None if row["options"] is None else tuple(json.loads(row["options"])),
        )
        for row in rows
    ]


def clear_items(work: Work, project: int) -> int:
    """Take all items out of a draft again."""
    hold(work, project, "draft")
    work.run(
        "DELETE FROM gold WHERE item_id IN (SELECT id FROM item WHERE project_id = :project)",
        project=project,
    )
    return work.run("DELETE FROM item WHERE project_id = :project", project=project)


def add_image(work: Work, project: int, picture: Picture) -> str:
    """Keep a re-encoded image (:func:`noracle.collect.content.clean_image`) in a draft; returns the
    SHA-256 that names it.
    """
    hold(work, project, "draft")
    work.run(
        "INSERT INTO image (project_id, sha256, media, bytes) VALUES (:project, :sha256, :media, :bytes) ON CONFLICT DO NOTHING",
        project=project,
        sha256=picture.sha256,
        media=picture.media,
        bytes=picture.data,
    )
    return picture.sha256


def image_of(work: Work, member: Member, sha256: str) -> tuple[str, bytes]:
    """Media type and bytes of an image that the member may see: annotators only those of questions
    that were put to them.
    """
    if member.role == "annotator" and sha256 not in _images_seen(work, member):
        raise NotFound("There is no such image.")
    row = work.one(
        "SELECT media, bytes FROM image WHERE project_id = :project AND sha256 = :sha256",
        project=member.project,
        sha256=sha256,
    )
    if row is None:
        raise NotFound("There is no such image.")
    return str(row["media"]), bytes(row["bytes"])


def _images_seen(work: Work, member: Member) -> Iterator[str]:
    rows = work.all(
        "SELECT i.content FROM question q JOIN item i ON i.id = q.item_id WHERE q.project_id = :project AND q.person_id = :person "
        "ORDER BY q.leased_at DESC LIMIT 3",
        project=member.project,
        person=member.person,
    )
    return (
        content["image"]
        for content in (json.loads(row["content"]) for row in rows)
        if "image" in content
    )


def refused(error: ArgumentError | EvidenceError) -> Refused:
    """The same words as an error that the pages understand."""
    return Refused(str(error))
