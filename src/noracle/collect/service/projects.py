"""Projects from draft to closed.

    draft    specification and items may change; nothing is drawn
    sealed   everything random is drawn and committed to; systems may be added
    open     questions are put and answered
    closed   the seed is revealed; anybody can draw everything again

There is no way back. Every function takes the transaction, changes one thing, and logs it.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from noracle.collect.chain import answers_hash, canonical, content_hash, digest
from noracle.collect.errors import Conflict, NotFound, Refused, refused
from noracle.collect.model import DONE, LEASED, Item, ProjectSpec, State, read_spec
from noracle.collect.service.access import Member, project_of
from noracle.collect.service.people import join
from noracle.collect.store.base import SQL, Row, Work
from noracle.errors import ArgumentError, EvidenceError

if TYPE_CHECKING:
    from noracle.collect.content import Picture

LONGEST_NAME, LONGEST_TEXT, LONGEST_OPTION = 200, 200_000, 10_000
_KEYS = {"text", "markdown", "image", "options", "attention"}
_AT_A_TIME = 5_000
Answers = Mapping[str, int | None]


def hold(work: Work, project: int, *states: State) -> Row:
    """The row of a project in one of these states; it cannot change before the transaction ends.

    Raises
    ------
    NotFound, Conflict
        If there is no such project, or it is in another state.
    """
    work.run(SQL.lock_project, project=project)  # locks the row on PostgreSQL
    row = project_of(work, project)
    if row["state"] not in states:
        raise Conflict(f"The project must be {' or '.join(states)} for this; it is {row['state']}.")
    return row


def check_item(item: Item, spec: ProjectSpec) -> None:
    """Refuse an item that breaks a rule; the message names the item and never quotes its text."""
    name, content, k = item.name, item.content, spec.n_classes
    short = isinstance(name, str) and 1 <= len(name) <= LONGEST_NAME
    if not short or not name.isprintable() or name != name.strip():
        rule = f"must be named by 1 to {LONGEST_NAME} printable characters"
        raise refused("item", rule, repr(str(name)[:40]))
    if unknown := sorted(set(content) - _KEYS):
        came = ", ".join(map(str, unknown[:5]))
        raise refused("content", f"must hold {', '.join(sorted(_KEYS))} only", came, name)
    if not any(content.get(key) for key in ("text", "markdown", "image")):
        raise refused("content", "must hold a text, Markdown or an image", "none of them", name)
    for key in ("text", "markdown"):
        if key in content:
            _check_text(content[key], key, LONGEST_TEXT, name)
    image, options = content.get("image", "0" * 64), content.get("options")
    if not (isinstance(image, str) and re.fullmatch(r"[0-9a-f]{64}", image)):
        raise refused("image", "must be the SHA-256 of an uploaded image", repr(image)[:80], name)
    if not isinstance(content.get("attention", False), bool):
        raise refused("attention", "must be true or false", repr(content["attention"])[:40], name)
    if options is not None:
        listed = isinstance(options, list | tuple)
        if not listed or len(options) != k:
            came = f"{len(options)}" if listed else type(options).__name__
            raise refused("options", f"must be a list of {k}, one for each class", came, name)
        for option in options:
            _check_text(option, "options", LONGEST_OPTION, name)
    if not _is_class(item.truth, k):
        raise refused("truth", f"must be a class in [0, {k})", repr(item.truth)[:40], name)


def _check_text(text: object, key: str, longest: int, name: str) -> None:
    if not isinstance(text, str) or not text.strip() or len(text) > longest:
        came = f"{len(text)} characters" if isinstance(text, str) else type(text).__name__
        raise refused(key, f"must be text of 1 to {longest} characters", came, name)
    if re.search(r"[\x00\ud800-\udfff]", text):
        raise refused(key, "must be Unicode text", "zero bytes or lone surrogates", name)


def import_items(
    work: Work, project: int, items: Iterable[Item], *, actor: str = "system", now: float
) -> int:
    """Add items to a draft, all or none; returns how many.

    Images must have been added with :func:`add_image` before.
    """
    spec = read_spec(hold(work, project, "draft")["spec"])
    names = set(_item_ids(work, project))
    images = {row["sha256"] for row in work.all(SQL.images, project=project)}
    batch = int((work.one(SQL.add_import, project=project, now=now) or {"id": 0})["id"])
    gold: list[dict[str, object]] = []
    hashes: list[str] = []

    def rows() -> Iterator[dict[str, object]]:
        for item in items:
            check_item(item, spec)
            name, content = item.name, dict(item.content)
            if name in names:
                rule, remedy = "must be named only once in the project", "Rename or drop it."
                raise refused("item", rule, repr(name), remedy=remedy)
            if "image" in content and content["image"] not in images:
                raise refused("image", "must be uploaded before its item", "an unknown one", name)
            names.add(name)
            hashes.append(content_hash(content))
            row = {"project": project, "name": name}
            if item.truth is not None:
                gold.append({**row, "truth": item.truth})
            yield {**row, "content": canonical(content), "sha256": hashes[-1], "batch": batch}

    _insert(work, SQL.add_item, rows())
    if not hashes:
        raise Refused("items must not be empty; got none.")
    _insert(work, SQL.add_gold, gold)
    counts = {"items": len(hashes), "gold": len(gold)}
    work.run(SQL.count_import, batch=batch, **counts)
    payload = {**counts, "sha256": digest(hashes), "import": batch}
    work.log(project, "imported", payload, actor=actor, at=now)
    return len(hashes)


def undo_import(work: Work, project: int, batch: int, *, actor: str, now: float) -> None:
    """Take the items of one import out of a draft again, with pictures that no other item shows."""
    hold(work, project, "draft")
    known = {int(row["id"]): row for row in work.all(SQL.imports, project=project)}
    NotFound.unless(batch in known, "There is no such import in this project.")
    work.run(SQL.drop_gold_of, batch=batch)
    work.run("DELETE FROM item WHERE import_id = :batch", batch=batch)
    work.run(SQL.drop_import, batch=batch, project=project)
    contents = (json.loads(row["content"]) for row in work.all(SQL.contents, project=project))
    shown = {content.get("image") for content in contents}
    for row in work.all(SQL.images, project=project):
        if row["sha256"] not in shown:
            work.run(SQL.drop_image, project=project, sha256=row["sha256"])
    counts = {key: known[batch][key] for key in ("items", "gold")}
    work.log(project, "import-undone", {**counts, "import": batch}, actor=actor, at=now)


def imports_of(work: Work, project: int) -> list[Row]:
    """``id, items, gold, at`` of what was imported into a project."""
    return work.all(SQL.imports, project=project)


def upload_of(work: Work, member: Member) -> Row | None:
    """``name, bytes`` of the file of a member that waits until its columns are clear."""
    return work.one(SQL.upload, project=member.project, person=member.person)


def keep_upload(work: Work, member: Member, file: tuple[str, bytes] | None, *, now: float) -> None:
    """Keep a file in the place of the member's last one, or drop that; all are dropped in a day."""
    hold(work, member.project, "draft")
    who = {"project": member.project, "person": member.person}
    work.run(SQL.drop_uploads, old=now - 86400, **who)
    if file is not None:
        work.run(SQL.keep_upload, name=file[0], bytes=file[1], now=now, **who)


def _insert(work: Work, sql: str, rows: Iterable[Mapping[str, object]]) -> None:
    rows = iter(rows)
    while some := list(itertools.islice(rows, _AT_A_TIME)):
        work.many(sql, some)


def _item_ids(work: Work, project: int) -> dict[str, int]:
    return {row["name"]: int(row["id"]) for row in work.all(SQL.item_ids, project=project)}


def items_of(work: Work, project: int) -> list[Item]:
    """All items in the order in which they came, with the truth of gold; never for annotators."""
    return [item_of(row) for row in work.all(SQL.items, project=project)]


def item_of(row: Row) -> Item:
    """An item out of its row."""
    truth, options = row["truth"], row["options"]
    order = None if options is None else tuple(json.loads(options))
    content = json.loads(row["content"])
    return Item(name=row["name"], content=content, truth=truth, options=order)


def add_image(work: Work, project: int, picture: Picture) -> str:
    """Keep an image of :func:`noracle.collect.content.clean_image` in a draft; returns its hash."""
    hold(work, project, "draft")
    about = {"sha256": picture.sha256, "media": picture.media, "bytes": picture.data}
    work.run(SQL.add_image, project=project, **about)
    return picture.sha256


def image_of(work: Work, member: Member, sha256: str) -> tuple[str, bytes]:
    """Media type and bytes of an image; annotators see only those of their own last questions."""
    row = work.one(SQL.image, project=member.project, sha256=sha256)
    if row is not None and member.role == "annotator":
        seen = work.all(SQL.contents_seen, project=member.project, person=member.person)
        if all(json.loads(each["content"]).get("image") != sha256 for each in seen):
            row = None
    if row is None:
        raise NotFound("There is no such image.")
    return str(row["media"]), bytes(row["bytes"])


def _title(name: str) -> str:
    title = " ".join(str(name).split())
    fits = 1 <= len(title) <= 200 and title.isprintable()
    Refused.unless(fits, "name must have 1 to 200 printable characters.")
    return title


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
    rule = "slug must be 1 to 63 small letters, digits and inner hyphens"
    fits = re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", slug)
    Refused.unless(fits, f"{rule}; got {slug[:80]!r}.")
    title = _title(name)
    row = work.one(SQL.add_project, slug=slug, name=title, spec=_written(spec), now=now)
    if row is None:
        raise Conflict(f"slug must be new; {slug!r} is taken.")
    project = int(row["id"])
    alias = join(work, project, owner, role="owner", now=now)
    payload = {"alias": alias, "name": title, "slug": slug, "spec": spec.to_dict()}
    work.log(project, "created", payload, actor=alias, at=now)
    return project


def _written(spec: ProjectSpec) -> str:
    names, guidelines = ([getattr(c, k) for c in spec.classes] for k in ("name", "guideline"))
    texts = (spec.question, spec.stop_rule, *names, *guidelines)
    rule = "spec must hold texts of at most 20000 characters, without zero bytes."
    Refused.unless(all("\x00" not in text and len(text) <= 20_000 for text in texts), rule)
    named = all(name.strip() and len(name) <= 200 and name.isprintable() for name in names)
    Refused.unless(named, "classes must be named by 1 to 200 printable characters.")
    return canonical(spec.to_dict())


def change_spec(work: Work, project: int, spec: ProjectSpec) -> None:
    """Another specification of a draft, which its items must fit; sealing logs what counts."""
    hold(work, project, "draft")
    for item in items_of(work, project):
        check_item(item, spec)
    asked = set(_people_by_pool(work, project))
    asked |= {int(row["pool"]) for row in work.all(SQL.pools_invited, project=project)}
    lost = sorted(asked - set(spec.pools))
    rule = "spec must keep the groups in which people are or to which they are invited"
    Conflict.unless(not lost, f"{rule}; {lost[:5]} would be lost.")
    work.run(SQL.set_spec, spec=_written(spec), project=project)


def _people_by_pool(work: Work, project: int) -> dict[int, int]:
    return {int(r["pool"]): int(r["n"]) for r in work.all(SQL.pools_with_people, project=project)}


def preview_seal(
    work: Work, project: int, *, propensities: Mapping[str, Sequence[float]] | None = None
) -> SealPreview:
    """What sealing would draw, from a seed that is thrown away; changes nothing."""
    from noracle.collect.protocols import draw_routes, new_seed

    spec, items = read_spec(project_of(work, project)["spec"]), items_of(work, project)
    problem, kinds, pools = "", Counter[str](), Counter[int]()
    try:
        routes, _ = draw_routes(spec, items, new_seed(), propensities=propensities)
        kinds.update(route.kind for route in routes)
        pools.update(route.pool for route in routes)
    except (ArgumentError, EvidenceError) as error:
        problem = str(error)
    peopled = _people_by_pool(work, project)
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
    """Draw everything random from a new seed and commit to it; returns the root of the routes.

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
    ids = _item_ids(work, project)
    try:
        sealed = seal(spec, items_of(work, project), seed=seed, propensities=propensities)
    except (ArgumentError, EvidenceError) as error:
        raise Refused(str(error)) from error
    places = ((r._asdict(), ids[r.item], canonical(list(r.shown))) for r in sealed.routes)
    drawn = ({**r, "project": project, "item": i, "shown": shown} for r, i, shown in places)
    _insert(work, SQL.add_question, drawn)
    orders = ((ids[name], canonical(list(order))) for name, order in sealed.options.items())
    _insert(work, SQL.set_options, ({"id": i, "options": text} for i, text in orders))
    given = {name: chances for name, chances in (propensities or {}).items() if name in ids}
    chances = ((ids[name], canonical([float(c) for c in row])) for name, row in given.items())
    _insert(work, SQL.set_chances, ({"id": i, "chances": text} for i, text in chances))
    about = {key: getattr(sealed, key) for key in ("seed", "commitment", "root")}
    work.run(SQL.seal, n=len(sealed.routes), now=now, project=project, **about)
    work.log(project, "sealed", sealed.payload, actor=actor, at=now)
    return sealed.root


def open_project(work: Work, project: int, *, actor: str, now: float) -> None:
    """Begin to put questions."""
    hold(work, project, "sealed")
    work.run(SQL.open, now=now, project=project)
    work.log(project, "opened", {}, actor=actor, at=now)


def close_project(work: Work, project: int, *, actor: str, now: float) -> str:
    """Stop asking and reveal the seed, in hexadecimal."""
    seed = bytes(hold(work, project, "open")["seed"]).hex()
    work.run(SQL.close, now=now, project=project)
    work.log(project, "closed", {"seed": seed}, actor=actor, at=now)
    return seed


def add_system(
    work: Work, project: int, name: str, answers: Answers, *, actor: str, now: float
) -> int:
    """Keep a system's answers by item name, None where it gave none.

    Only after sealing, so that they cannot steer the draw.
    """
    spec = read_spec(hold(work, project, "sealed", "open", "closed")["spec"])
    title, ids = _title(name), _item_ids(work, project)
    unknown = [item for item in answers if item not in ids]
    if unknown or not answers:
        came = "no answers" if not answers else repr(unknown[0])[:60]
        rule = "must be about items of the project"
        raise refused("answers", rule, came, *unknown[:5], total=len(unknown))
    wrong = [item for item, answer in answers.items() if not _is_class(answer, spec.n_classes)]
    if wrong:
        rule, came = f"must be a class in [0, {spec.n_classes}) or nothing", repr(answers[wrong[0]])
        raise refused("answer", rule, came[:40], *wrong[:5], total=len(wrong))
    sha256 = answers_hash(answers)
    row = work.one(SQL.add_system, project=project, name=title, sha256=sha256, now=now)
    if row is None:
        raise Conflict(f"name must be new; the project has a system {title!r}.")
    system = int(row["id"])
    given = ({"system": system, "item": ids[item], "answer": a} for item, a in answers.items())
    work.many(SQL.add_prediction, given)
    payload = {"name": title, "sha256": sha256, "n": len(answers)}
    work.log(project, "system-added", payload, actor=actor, at=now)
    return system


def _is_class(value: object, n_classes: int) -> bool:
    whole = isinstance(value, int) and not isinstance(value, bool)
    return value is None or (whole and 0 <= value < n_classes)  # type: ignore[operator]


def log_look(work: Work, member: Member, *, now: float) -> None:
    """Log that somebody looked at the estimates."""
    work.log(member.project, "look", {}, actor=member.alias, at=now)


def project_row(work: Work, slug: str) -> Row:
    """The row of a project by its slug; the seed only where the project is closed."""
    row = work.one(SQL.project_by_slug, slug=slug)
    if row is None:
        raise NotFound("There is no such project.")
    return row if row["state"] == "closed" else {**row, "seed": None}


def projects_of(work: Work, person: int) -> list[Row]:
    """``slug, name, state, role`` of the projects in which a person is a member, newest first."""
    return work.all(SQL.projects_of, person=person)


def systems_of(work: Work, project: int) -> list[Row]:
    """``id, name, sha256, uploaded_at`` of the systems of a project."""
    return work.all(SQL.systems, project=project)


def progress(work: Work, project: int) -> dict[str, Any]:
    """How far a project is, for its readers: questions by status and people, by pool."""
    spec = read_spec(project_of(work, project)["spec"])
    experts = [c.name for c in spec.classes] if spec.protocol == "partitioned" else ()
    people = _people_by_pool(work, project)
    pools: dict[int, dict[str, Any]] = {
        pool: {"pool": pool, "name": name, "questions": 0, "done": 0, "leased": 0}
        for pool, name in zip(spec.pools, experts or map(str, spec.pools), strict=True)
    }
    for r in work.all(SQL.question_counts, project=project):
        pool, n, status = pools[int(r["pool"])], int(r["n"]), int(r["status"])
        pool["questions"] += n
        pool["done"] += n * (status == DONE)
        pool["leased"] += n * (status == LEASED)
    for number, pool in pools.items():
        pool["people"] = people.get(number, 0)
    total = {key: sum(p[key] for p in pools.values()) for key in ("questions", "done", "leased")}
    items = _count(work, SQL.count_items, project=project)
    return {"items": items, **total, "pools": list(pools.values())}


def _count(work: Work, sql: str, **values: object) -> int:
    return int((work.one(sql, **values) or {"n": 0})["n"])


def my_progress(work: Work, project: int, person: int) -> dict[str, int]:
    """All that an annotator may know: own answers, and the questions left in their pools."""
    who = {"project": project, "person": person}
    done, left = _count(work, SQL.answers_given, **who), _count(work, SQL.questions_left, **who)
    return {"done": done, "left": left}
