"""Projects from draft to closed.

    draft    specification and items may change; nothing is drawn
    sealed   everything random is drawn and committed to; systems may be added
    open     questions are put and answered
    closed   the seed is revealed; anybody can draw everything again

There is no way back. Every function takes the transaction, changes one thing, and logs it.
"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from noracle.collect.chain import answers_hash, canonical
from noracle.collect.errors import Conflict, NotFound, Refused
from noracle.collect.model import DONE, LEASED, OPEN, ProjectSpec
from noracle.collect.service.access import Member, read_spec
from noracle.collect.service.invitations import join
from noracle.collect.service.items import (
    add_image,
    check_item,
    clear_items,
    hold,
    image_of,
    import_items,
    items_of,
    refused,
)
from noracle.collect.store.base import Row, Work
from noracle.errors import ArgumentError, EvidenceError, fault

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

_AT_A_TIME = 5_000


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
    from noracle.collect.protocols import draw_routes
    from noracle.collect.sealing import new_seed

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
