"""Projects from draft to closed.

    draft    specification and items may change; nothing is drawn
    sealed   everything random is drawn and committed to; systems may be added
    open     questions are put and answered
    closed   the seed is revealed; anybody can draw everything again

There is no way back. Every function takes the transaction, changes one thing, and logs it.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from noracle.collect.chain import answers_hash, canonical, content_hash, digest
from noracle.collect.errors import Conflict, NotFound, Refused
from noracle.collect.model import DONE, LEASED, OPEN, Item, ProjectSpec, State
from noracle.collect.service.access import Member, read_spec
from noracle.collect.service.people import join
from noracle.collect.store.base import Row, Work
from noracle.errors import ArgumentError, EvidenceError, fault

if TYPE_CHECKING:
    from noracle.collect.content import Picture

__all__ = [
    "SealPreview",
    "add_image",
    "add_system",
    "change_spec",
    "clear_items",
    "close_project",
    "create_project",
    "image_of",
    "import_items",
    "items_of",
    "log_look",
    "my_progress",
    "open_project",
    "preview_seal",
    "progress",
    "project_row",
    "projects_of",
    "seal_project",
    "systems_of",
]

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


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SealPreview:
    """What sealing would draw: how many questions, of which kind, for which pool; ``problem`` says
    why it cannot be sealed.
    """

    items: int
    gold: int
    questions: int
    by_kind: Mapping[str, int]
    by_pool: Mapping[int, int]
    pools_without_people: tuple[int, ...]
    problem: str = ""


def create_project(
    work: Work, *, slug: str, name: str, spec: ProjectSpec, owner: int, now: float
) -> int:
    """A draft, owned by ``owner`` (a person)."""
    if not re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", slug):
        raise Refused(
            f"slug must be 1 to 63 small letters, digits and inner hyphens; got {slug[:80]!r}."
        )
    title = " ".join(name.split())
    if not 1 <= len(title) <= 200 or not title.isprintable():
        raise Refused("name must have 1 to 200 printable characters.")
    row = work.one(
        "INSERT INTO project (slug, name, spec, created_at) VALUES (:slug, :name, :spec, :now) ON CONFLICT (slug) DO NOTHING RETURNING id",
        slug=slug,
        name=title,
        spec=_written(spec),
        now=now,
    )
    if row is None:
        raise Conflict(f"slug must be new; {slug!r} is taken.")
    project = int(row["id"])
    alias = join(work, project, owner, role="owner", now=now)
    work.log(
        project,
        "created",
        {"alias": alias, "name": title, "slug": slug, "spec": spec.to_dict()},
        actor=alias,
        at=now,
    )
    return project


def _written(spec: ProjectSpec) -> str:
    for text in (
        spec.question,
        spec.stop_rule,
        *(c.name for c in spec.classes),
        *(c.guideline for c in spec.classes),
    ):
        if "\x00" in text or len(text) > 20_000:
            raise Refused("spec must hold texts of at most 20000 characters, without zero bytes.")
    if any(
        not c.name.strip() or len(c.name) > 200 or not c.name.isprintable() for c in spec.classes
    ):
        raise Refused("classes must be named by 1 to 200 printable characters.")
    return canonical(spec.to_dict())


def change_spec(
    work: Work,
    project: int,
    spec: ProjectSpec,
    *,
    actor: str = "system",  # noqa: ARG001 (as its sisters)
    now: float,  # noqa: ARG001 (as its sisters)
) -> None:
    """Another specification of a draft; items that do not fit it are an error. What counts is
    logged when the project is sealed.
    """
    hold(work, project, "draft")
    for item in items_of(work, project):
        check_item(item, spec)
    asked = {
        int(row["pool"])
        for row in work.all(
            "SELECT DISTINCT pool FROM pool_member WHERE project_id = :project", project=project
        )
    }
    invited = work.all(
        "SELECT DISTINCT pool FROM invitation WHERE project_id = :project AND pool IS NOT NULL AND used_at IS NULL AND revoked_at IS NULL",
        project=project,
    )
    lost = sorted((asked | {int(row["pool"]) for row in invited}) - set(spec.pools))
    if lost:
        raise Conflict(
            f"spec must keep the groups in which people are or to which they are invited; {lost[:5]} would be lost."
        )
    work.run(
        "UPDATE project SET spec = :spec WHERE id = :project", spec=_written(spec), project=project
    )


def preview_seal(
    work: Work, project: int, *, propensities: Mapping[str, Sequence[float]] | None = None
) -> SealPreview:
    """What sealing would draw, from a seed that is thrown away; changes nothing."""
    from noracle.collect.protocols import draw_routes, new_seed

    row = work.one("SELECT spec FROM project WHERE id = :project", project=project)
    if row is None:
        raise NotFound("There is no such project.")
    spec, items = read_spec(row["spec"]), items_of(work, project)
    problem, kinds, pools = "", Counter[str](), Counter[int]()
    try:
        routes, _ = draw_routes(spec, items, new_seed(), propensities=propensities)
        kinds.update(route.kind for route in routes)
        pools.update(route.pool for route in routes)
    except (ArgumentError, EvidenceError) as error:
        problem = str(error)
    peopled = {
        int(r["pool"])
        for r in work.all(
            "SELECT DISTINCT pool FROM pool_member WHERE project_id = :project", project=project
        )
    }
    return SealPreview(
        items=len(items),
        gold=sum(item.truth is not None for item in items),
        questions=kinds.total(),
        by_kind=dict(sorted(kinds.items())),
        by_pool=dict(sorted(pools.items())),
        pools_without_people=tuple(pool for pool in sorted(pools) if pool not in peopled),
        problem=problem,
    )


def seal_project(
    work: Work,
    project: int,
    *,
    actor: str,
    now: float,
    propensities: Mapping[str, Sequence[float]] | None = None,
    seed: bytes | None = None,
) -> str:
    """Draw everything random from a new seed and commit to it; returns the Merkle root of the
    routes.

    Parameters
    ----------
    propensities
        For targeted routing: the chance of each class, by item
        (:func:`noracle.accuracy.route_items`). Default uniform.
    seed
        32 bytes, for tests alone.
    """
    from noracle.collect.protocols import seal

    spec = read_spec(hold(work, project, "draft")["spec"])
    ids = {
        row["name"]: int(row["id"])
        for row in work.all(
            "SELECT id, name FROM item WHERE project_id = :project", project=project
        )
    }
    try:
        sealed = seal(spec, items_of(work, project), seed=seed, propensities=propensities)
    except (ArgumentError, EvidenceError) as error:
        raise refused(error) from error
    insert = (
        "INSERT INTO question (project_id, item_id, place, draw, kind, pool, shown, propensity) "
        "VALUES (:project, :item, :place, :draw, :kind, :pool, :shown, :propensity)"
    )
    for start in range(0, len(sealed.routes), _AT_A_TIME):
        drawn = [
            {
                "project": project,
                "item": ids[r.item],
                "place": r.place,
                "draw": r.draw,
                "kind": r.kind,
                "pool": r.pool,
                "shown": canonical(list(r.shown)),
                "propensity": r.propensity,
            }
            for r in sealed.routes[start : start + _AT_A_TIME]
        ]
        work.many(insert, drawn)
    orders = [
        {"id": ids[name], "options": canonical(list(order))}
        for name, order in sealed.options.items()
    ]
    chances = [
        {"id": ids[name], "chances": canonical([float(c) for c in given])}
        for name, given in (propensities or {}).items()
        if name in ids
    ]
    if orders:
        work.many("UPDATE item SET options = :options WHERE id = :id", orders)
    if chances:
        work.many("UPDATE item SET chances = :chances WHERE id = :id", chances)
    work.run(
        "UPDATE project SET state = 'sealed', seed = :seed, commitment = :commitment, root = :root, n_routes = :n, sealed_at = :now "
        "WHERE id = :project",
        seed=sealed.seed,
        commitment=sealed.commitment,
        root=sealed.root,
        n=len(sealed.routes),
        now=now,
        project=project,
    )
    work.log(project, "sealed", sealed.payload, actor=actor, at=now)
    return sealed.root


def open_project(work: Work, project: int, *, actor: str, now: float) -> None:
    """Begin to put questions."""
    hold(work, project, "sealed")
    work.run(
        "UPDATE project SET state = 'open', opened_at = :now WHERE id = :project",
        now=now,
        project=project,
    )
    work.log(project, "opened", {}, actor=actor, at=now)


def close_project(work: Work, project: int, *, actor: str, now: float) -> str:
    """Stop asking and reveal the seed, in hexadecimal."""
    row = hold(work, project, "open")
    seed = bytes(row["seed"]).hex()
    work.run(
        "UPDATE project SET state = 'closed', closed_at = :now WHERE id = :project",
        now=now,
        project=project,
    )
    work.log(project, "closed", {"seed": seed}, actor=actor, at=now)
    return seed


def add_system(
    work: Work,
    project: int,
    name: str,
    answers: Mapping[str, int | None],
    *,
    actor: str,
    now: float,
) -> int:
    """Keep the answers of a system by item name; None where it gave none. Only after sealing, so
    that they cannot steer the draw.
    """
    spec = read_spec(hold(work, project, "sealed", "open", "closed")["spec"])
    title = " ".join(str(name).split())
    if not 1 <= len(title) <= 200 or not title.isprintable():
        raise Refused("name must have 1 to 200 printable characters.")
    ids = {
        row["name"]: int(row["id"])
        for row in work.all(
            "SELECT id, name FROM item WHERE project_id = :project", project=project
        )
    }
    unknown = [item for item in answers if item not in ids]
    if unknown or not answers:
        came = "no answers" if not answers else repr(unknown[0])[:60]
        raise Refused(
            fault(
                "answers",
                "must be about items of the project",
                came,
                where=unknown[:5],
                total=len(unknown),
            )
        )
    wrong = [item for item, answer in answers.items() if not _is_class(answer, spec.n_classes)]
    if wrong:
        rule = f"must be a class in [0, {spec.n_classes}) or nothing"
        raise Refused(
            fault("answer", rule, repr(answers[wrong[0]])[:40], where=wrong[:5], total=len(wrong))
        )
    sha256 = answers_hash(answers)
    row = work.one(
        "INSERT INTO system (project_id, name, sha256, uploaded_at) VALUES (:project, :name, :sha256, :now) "
        "ON CONFLICT DO NOTHING RETURNING id",
        project=project,
        name=title,
        sha256=sha256,
        now=now,
    )
    if row is None:
        raise Conflict(f"name must be new; the project has a system {title!r}.")
    system = int(row["id"])
    work.many(
        "INSERT INTO prediction (system_id, item_id, answer) VALUES (:system, :item, :answer)",
        (
            {"system": system, "item": ids[item], "answer": answer}
            for item, answer in answers.items()
        ),
    )
    work.log(
        project,
        "system-added",
        {"name": title, "sha256": sha256, "n": len(answers)},
        actor=actor,
        at=now,
    )
    return system


def _is_class(answer: object, n_classes: int) -> bool:
    return answer is None or (
        isinstance(answer, int) and not isinstance(answer, bool) and 0 <= answer < n_classes
    )


def log_look(work: Work, member: Member, *, now: float) -> None:
    """Log that somebody looked at the estimates."""
    work.log(member.project, "look", {}, actor=member.alias, at=now)


def project_row(work: Work, slug: str) -> Row:
    """``id, slug, name, state, spec, commitment, root, n_routes, … last_seq, head``; the seed only
    where the project is closed.
    """
    row = work.one("SELECT * FROM project WHERE slug = :slug", slug=slug)
    if row is None:
        raise NotFound("There is no such project.")
    found = {key: row[key] for key in row.keys()}  # noqa: SIM118 (rows of sqlite3 iterate over values)
    if found["state"] != "closed":
        found["seed"] = None
    return found


def projects_of(work: Work, person: int) -> list[Row]:
    """``slug, name, state, role`` of the projects in which a person is a member, newest first."""
    return work.all(
        "SELECT j.slug, j.name, j.state, m.role FROM membership m JOIN project j ON j.id = m.project_id WHERE m.person_id = :person "
        "ORDER BY j.created_at DESC, j.id DESC",
        person=person,
    )


def systems_of(work: Work, project: int) -> list[Row]:
    """``id, name, sha256, uploaded_at`` of the systems of a project."""
    return work.all(
        "SELECT id, name, sha256, uploaded_at FROM system WHERE project_id = :project ORDER BY id",
        project=project,
    )


def progress(work: Work, project: int) -> dict[str, Any]:
    """How far a project is: questions by status, over all and by pool, and people by pool; for
    owners, managers and auditors.
    """
    row = work.one("SELECT spec FROM project WHERE id = :project", project=project)
    if row is None:
        raise NotFound("There is no such project.")
    spec = read_spec(row["spec"])
    names = (
        [c.name for c in spec.classes]
        if spec.protocol == "partitioned"
        else [str(pool) for pool in spec.pools]
    )
    pools: dict[int, dict[str, Any]] = {
        pool: {"pool": pool, "name": names[i], "questions": 0, "done": 0, "leased": 0, "people": 0}
        for i, pool in enumerate(spec.pools)
    }
    for r in work.all(
        "SELECT pool, status, COUNT(*) AS n FROM question WHERE project_id = :project GROUP BY pool, status",
        project=project,
    ):
        pool = pools[int(r["pool"])]
        pool["questions"] += int(r["n"])
        pool["done"] += int(r["n"]) * (int(r["status"]) == DONE)
        pool["leased"] += int(r["n"]) * (int(r["status"]) == LEASED)
    for r in work.all(
        "SELECT pool, COUNT(*) AS n FROM pool_member WHERE project_id = :project GROUP BY pool",
        project=project,
    ):
        pools[int(r["pool"])]["people"] = int(r["n"])
    items = work.one("SELECT COUNT(*) AS n FROM item WHERE project_id = :project", project=project)
    total = {key: sum(p[key] for p in pools.values()) for key in ("questions", "done", "leased")}
    return {
        "items": 0 if items is None else int(items["n"]),
        **total,
        "pools": list(pools.values()),
    }


def my_progress(work: Work, project: int, person: int) -> dict[str, int]:
    """``done``: answers of this person; ``left``: questions of their pools that nobody holds. All
    that an annotator may know.
    """
    done = work.one(
        "SELECT COUNT(*) AS n FROM answer WHERE project_id = :project AND person_id = :person AND revision = 0",
        project=project,
        person=person,
    )
    left = work.one(
        "SELECT COUNT(*) AS n FROM question WHERE project_id = :project AND status = :open AND pool IN "
        "(SELECT pool FROM pool_member WHERE project_id = :project AND person_id = :person)",
        project=project,
        person=person,
        open=OPEN,
    )
    return {
        "done": 0 if done is None else int(done["n"]),
        "left": 0 if left is None else int(left["n"]),
    }
