"""Projects from draft to closed.

    draft    specification and items may change; nothing is drawn. Systems whose answers are graded come now
    sealed   everything random is drawn and committed to; systems may be added or committed to
    open     questions are put and answered; a system that comes after the first answer is late
    closed   the seed is revealed; anybody can draw everything again

There is no way back. Every function takes the transaction, changes one thing, and logs it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import re
import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from noracle.collect.chain import answers_hash, content_hash, salted_hash
from noracle.collect.errors import CollectError, Conflict, NotFound, Refused, refused
from noracle.collect.model import DONE, LEASED, Item, ProjectSpec, State, read_spec, reply_number
from noracle.collect.service.access import Member, project_of
from noracle.collect.service.people import join
from noracle.collect.store.base import SQL, Payload, Row, Store, Value, Work
from noracle.errors import ArgumentError, EvidenceError
from noracle.files import canonical, digest

if TYPE_CHECKING:
    from noracle.collect.content import Picture

LONGEST_NAME, LONGEST_TEXT, LONGEST_OPTION = 200, 200_000, 10_000
_KEYS = {"text", "markdown", "image", "options", "attention"}
_AT_A_TIME = 500
_BUSY_SECONDS = 60.0
_SOME = ("questions", "predictions", "draws", "gold", "items", "imports")
_LEFTOVERS = [getattr(SQL, f"some_{name}") for name in _SOME]
Reply = int | str | None
Answers = Mapping[str, Reply]
Chances = Mapping[str, Sequence[float]] | None
Drawn = tuple[str, list[tuple[str, Iterable[Payload]]], Callable[[Work, str, float], None]]


def hold(work: Work, project: int, *states: State) -> Row:
    """The row of a project in one of these states (else Conflict), locked until the transaction ends."""
    work.run(SQL.lock_project, project=project)  # locks the row on PostgreSQL
    row = project_of(work, project)
    if row["state"] not in states:
        raise Conflict(f"The project must be {' or '.join(states)} for this; it is {row['state']}.")
    if row["busy"] is not None:
        late = abs(time.time() - float(row["busy"])) > _BUSY_SECONDS
        Conflict.unless(late, "The project is being filled or sealed now; try again in a minute.")
        for sql in _LEFTOVERS:
            while work.run(sql, project=project, n=_AT_A_TIME):
                pass
        work.run(SQL.idle, project=project)
    return row


class _Steps:
    """A long change of a draft in short transactions: others need not wait, and it counts at the end."""

    def __init__(self, store: Store, project: int) -> None:
        self._store, self._project, self._last = store, project, 0.0

    def __enter__(self) -> Self:
        self._store.write_now(lambda work: hold(work, self._project, "draft"))
        self.write(lambda _: None)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            return
        about = {"project": self._project, "n": _AT_A_TIME}
        with contextlib.suppress(CollectError):  # what stays is cleared by whoever comes next
            for sql in _LEFTOVERS:
                while self.write(lambda work, sql=sql: work.run(sql, **about)):  # type: ignore[misc]
                    pass
            self.finish(lambda _: None)

    def write(self, op: Callable[[Work], Value]) -> Value:
        """One step; refused if somebody else took the change for dead."""

        def step(work: Work) -> tuple[float, Value]:
            now = max(time.time(), self._last + 1e-3)
            ours = work.run(SQL.busy, project=self._project, now=now, before=self._last)
            Conflict.unless(ours == 1, "The project was changed by somebody else meanwhile.")
            return now, op(work)

        self._last, value = self._store.write_now(step)
        return value

    def finish(self, op: Callable[[Work], object]) -> None:
        """The last step, with which all others count."""

        def last(work: Work) -> None:
            op(work)
            work.run(SQL.idle, project=self._project)

        self.write(last)

    def insert(self, sql: str, rows: Iterable[Mapping[str, object]]) -> None:
        """Many rows, some at a time."""
        for some in _some(rows):
            self.write(lambda work, some=some: work.many(sql, some))  # type: ignore[misc]


def check_item(item: Item, spec: ProjectSpec) -> None:
    """Refuse an item that breaks a rule; the message names the item and never quotes its text."""
    name, content, k = item.name, item.content, spec.n_classes
    known = _KEYS | ({"answers"} if spec.protocol == "grade" else set())
    short = isinstance(name, str) and 1 <= len(name) <= LONGEST_NAME
    if not short or not name.isprintable() or name != name.strip():
        rule = f"must be named by 1 to {LONGEST_NAME} printable characters"
        raise refused("item", rule, repr(str(name)[:40]))
    if unknown := sorted(set(content) - known):
        came = ", ".join(map(str, unknown[:5]))
        raise refused("content", f"must hold {', '.join(sorted(known))} only", came, name)
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
        if not listed or (len(options) != k and not spec.texts):
            came = f"{len(options)}" if listed else type(options).__name__
            raise refused("options", f"must be a list of {k}, one for each class", came, name)
        for option in options:
            _check_text(option, "options", LONGEST_OPTION, name)
    if not _is_class(item.truth, k):
        raise refused("truth", f"must be a class in [0, {k})", repr(item.truth)[:40], name)
    replies = content.get("answers", {})
    if not isinstance(replies, dict) or not all(_title(system) == system for system in replies):
        raise refused("answers", "must be answers by the name of the system", "others", name)
    _check_answers(spec, {f"{name} ({system})": reply for system, reply in replies.items()})


def _check_text(text: object, key: str, longest: int, name: str) -> None:
    if not isinstance(text, str) or not text.strip() or len(text) > longest:
        came = f"{len(text)} characters" if isinstance(text, str) else type(text).__name__
        raise refused(key, f"must be text of 1 to {longest} characters", came, name)
    if re.search(r"[\x00\ud800-\udfff]", text):
        raise refused(key, "must be Unicode text", "zero bytes or lone surrogates", name)


def import_items(
    work: Work, project: int, items: Iterable[Item], *, actor: str = "system", now: float
) -> int:
    """Add items to a draft, all or none, after their images (:func:`add_image`); returns how many."""
    hold(work, project, "draft")
    rows, gold, payload = _checked(work, project, items, set())
    batch = _new_import(work, project, now)
    _insert(work, SQL.add_item, ({**row, "batch": batch} for row in rows))
    _insert(work, SQL.add_gold, gold)
    _counted(work, project, batch, payload, actor=actor, at=now)
    return len(rows)


def import_in_steps(
    store: Store, project: int, items: Iterable[Item], pictures: Iterable[Picture], *, actor: str
) -> int:
    """As :func:`import_items`, with the pictures that the items show, while others go on writing."""
    pictures = list(pictures)
    with _Steps(store, project) as steps:
        known = {picture.sha256 for picture in pictures}
        rows, gold, payload = store.read_now(lambda work: _checked(work, project, items, known))
        batch = steps.write(lambda work: _new_import(work, project, time.time()))
        for picture in pictures:
            steps.write(lambda work, picture=picture: _add_image(work, project, picture))  # type: ignore[misc]
        steps.insert(SQL.add_item, ({**row, "batch": batch} for row in rows))
        steps.insert(SQL.add_gold, gold)
        by: Any = {"actor": actor, "at": time.time()}
        steps.finish(lambda work: _counted(work, project, batch, payload, **by))
    return len(rows)


def _new_import(work: Work, project: int, now: float) -> int:
    return int((work.one(SQL.add_import, project=project, now=now) or {"id": 0})["id"])


def _counted(work: Work, project: int, batch: int, payload: Payload, **by: Any) -> None:
    work.run(SQL.count_import, batch=batch, items=payload["items"], gold=payload["gold"])
    work.log(project, "imported", {**payload, "import": batch}, **by)


Rows = list[dict[str, object]]


def _checked(
    work: Work, project: int, items: Iterable[Item], pictures: set[str]
) -> tuple[Rows, Rows, dict[str, object]]:
    """The rows of items and of gold, once every rule holds, and what the event says of them."""
    spec = read_spec(project_of(work, project)["spec"])
    names = set(_item_ids(work, project))
    images = {row["sha256"] for row in work.all(SQL.images, project=project)} | pictures
    rows: Rows = []
    gold: Rows = []
    for item in items:
        check_item(item, spec)
        name, content = item.name, dict(item.content)
        if "answers" in content:
            raise refused("content", "must hold no answers; they come by system", "some", name)
        if name in names:
            rule, remedy = "must be named only once in the project", "Rename or drop it."
            raise refused("item", rule, repr(name), remedy=remedy)
        if "image" in content and content["image"] not in images:
            raise refused("image", "must be uploaded before its item", "an unknown one", name)
        names.add(name)
        row = {"project": project, "name": name}
        if item.truth is not None:
            gold.append({**row, "truth": item.truth})
        rows.append({**row, "content": canonical(content), "sha256": content_hash(content)})
    Refused.unless(rows, "items must not be empty; got none.")
    hashes = [str(row["sha256"]) for row in rows]
    return rows, gold, {"items": len(rows), "gold": len(gold), "sha256": digest(hashes)}


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


def keep_upload(work: Work, member: Member, file: tuple[str, bytes] | None, *, now: float) -> None:
    """Keep a file in the place of the member's last one, or drop that; all are dropped in a day."""
    hold(work, member.project, "draft")
    who = {"project": member.project, "person": member.person}
    work.run(SQL.drop_uploads, old=now - 86400, **who)
    if file is not None:
        work.run(SQL.keep_upload, name=file[0], bytes=file[1], now=now, **who)


def _insert(work: Work, sql: str, rows: Iterable[Mapping[str, object]]) -> None:
    for some in _some(rows):
        work.many(sql, some)


def _some(rows: Iterable[Mapping[str, object]]) -> Iterator[list[Mapping[str, object]]]:
    rows = iter(rows)
    yield from iter(lambda: list(itertools.islice(rows, _AT_A_TIME)), [])


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
    return _add_image(work, project, picture)


def _add_image(work: Work, project: int, picture: Picture) -> str:
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
    row = NotFound.given(row, "There is no such image.")
    return str(row["media"]), bytes(row["bytes"])


def _title(name: str) -> str:
    title = " ".join(str(name).split())
    fits = 1 <= len(title) <= 200 and title.isprintable()
    Refused.unless(fits, "name must have 1 to 200 printable characters.")
    return title


@dataclasses.dataclass(frozen=True, slots=True)
class SealPreview:
    """What sealing would draw; ``problem`` says why it cannot be sealed."""

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
    project = int(Conflict.given(row, f"slug must be new; {slug!r} is taken.")["id"])
    alias = join(work, project, owner, role="owner", now=now)
    payload = {"alias": alias, "name": title, "slug": slug, "spec": spec.to_dict()}
    work.log(project, "created", payload, actor=alias, at=now)
    return project


def _written(spec: ProjectSpec) -> str:
    names = [c.name for c in spec.classes]
    texts = (spec.question, spec.stop_rule, *names, *(c.guideline for c in spec.classes))
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


def preview_seal(work: Work, project: int, *, propensities: Chances = None) -> SealPreview:
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
    by_kind, by_pool = dict(sorted(kinds.items())), dict(sorted(pools.items()))
    empty, gold = tuple(pool for pool in by_pool if pool not in peopled), [i.truth for i in items]
    n_gold = len(gold) - gold.count(None)
    return SealPreview(len(items), n_gold, kinds.total(), by_kind, by_pool, empty, problem)


def seal_project(
    work: Work, project: int, *, propensities: Chances = None, seed: bytes | None = None, **by: Any
) -> str:
    """Draw everything random from a new seed (``seed`` in tests) and commit to it; returns the root."""
    hold(work, project, "draft")
    root, drawn, finish = _drawn(work, project, propensities, seed)
    for sql, rows in drawn:
        _insert(work, sql, rows)
    finish(work, by["actor"], by["now"])
    return root


def seal_in_steps(store: Store, project: int, *, actor: str, propensities: Chances = None) -> str:
    """As :func:`seal_project`, in steps: the project is a draft until the last, short one."""
    with _Steps(store, project) as steps:
        root, drawn, finish = store.read_now(lambda w: _drawn(w, project, propensities, None))
        for sql, rows in drawn:
            steps.insert(sql, rows)
        steps.finish(lambda work: finish(work, actor, time.time()))
    return root


def _drawn(work: Work, project: int, propensities: Chances, seed: bytes | None) -> Drawn:
    """The root of everything random, the rows in which it is kept, by statement, and the last step."""
    from noracle.collect.protocols import seal

    spec, ids = read_spec(project_of(work, project)["spec"]), _item_ids(work, project)
    items = items_of(work, project)
    try:
        sealed = seal(spec, items, seed=seed, propensities=propensities)
    except (ArgumentError, EvidenceError) as error:
        raise Refused(str(error)) from error
    places = ((r._asdict(), ids[r.item], canonical(list(r.shown))) for r in sealed.routes)
    questions = ({**r, "project": project, "item": i, "shown": shown} for r, i, shown in places)
    ordered = sealed.options.items()
    orders = ({"id": ids[name], "options": canonical(list(order))} for name, order in ordered)
    given = [(ids[name], c) for name, c in (propensities or {}).items() if name in ids]
    chances = ({"id": i, "chances": canonical([float(c) for c in row])} for i, row in given)
    said = [(item, item.content.get("answers", {})) for item in items]
    systems: dict[tuple[int, str], Answers] = {
        (int(row["id"]), name := str(row["name"])): {
            item.name: reply_number(item.replies, by[name]) for item, by in said if name in by
        }
        for row in systems_of(work, project)
    }
    predictions = itertools.chain.from_iterable(
        _predictions(system, ids, answers) for (system, _), answers in systems.items()
    )
    statements = (SQL.add_question, SQL.set_options, SQL.set_chances, SQL.add_prediction)
    rows: tuple[Iterable[Payload], ...] = (questions, orders, chances, predictions)

    def finish(work: Work, actor: str, now: float) -> None:
        about = {key: getattr(sealed, key) for key in ("seed", "commitment", "root")}
        at = work.log(project, "sealed", sealed.payload, actor=actor, at=now)
        work.run(SQL.seal, n=len(sealed.routes), now=at, project=project, **about)
        for system, said in systems.items():
            _place_system(work, project, *system, said, actor=actor, now=now)

    return sealed.root, list(zip(statements, rows, strict=True)), finish


def _place_system(
    work: Work, project: int, system: int, name: str, answers: Answers, **about: Any
) -> None:
    """Log what a system answered; it is late if it comes after an answer."""
    actor, now, sha256 = about.pop("actor"), about.pop("now"), answers_hash(answers)
    payload = {"name": name, "sha256": sha256, "n": len(answers), **about}
    at = work.log(project, "system-added", payload, actor=actor, at=now)
    placed = {"project": project, "system": system, "sha256": sha256, "at": at}
    work.run(SQL.place_system, **placed)  # answers are held back now


def open_project(work: Work, project: int, *, actor: str, now: float) -> None:
    """Begin to put questions."""
    hold(work, project, "sealed")
    at = work.log(project, "opened", {}, actor=actor, at=now)
    work.run(SQL.open, now=at, project=project)


def close_project(work: Work, project: int, *, actor: str, now: float) -> str:
    """Stop asking and reveal the seed, in hexadecimal; :func:`published` has the head then."""
    seed = bytes(hold(work, project, "open")["seed"]).hex()
    at = work.log(project, "closed", {"seed": seed}, actor=actor, at=now)
    work.run(SQL.close, now=at, project=project)
    return seed


def published(work: Work, slug: str) -> dict[str, Any]:
    """What is to be published: state, commitment, root, head at closing; by ``read_chained``."""
    row = project_row(work, slug)
    found = work.one(SQL.closed_head, project=row["id"]) or {"hash": None}
    keys = ("slug", "state", "commitment", "root")
    return {**{key: row[key] for key in keys}, "head": found["hash"]}


def new_salt() -> str:
    """128 random bits for a commitment to answers."""
    return secrets.token_hex(16)


def commit_system(
    work: Work, project: int, name: str, commitment: str, *, actor: str, now: float
) -> None:
    """Commit to answers (``chain.salted_hash``) before any; :func:`add_system` reveals them later."""
    spec = read_spec(hold(work, project, "sealed", "open")["spec"])
    late = spec.protocol == "grade"
    Conflict.unless(not late, "Answers that are graded must be there when the project is sealed.")
    title, rule = _title(name), "commitment must be a SHA-256 in hexadecimal, 64 small letters"
    Refused.unless(re.fullmatch(r"[0-9a-f]{64}", commitment), f"{rule} and digits.")
    payload = {"name": title, "commitment": commitment}
    at = work.log(project, "system-committed", payload, actor=actor, at=now)
    first = work.one(SQL.any_answer, project=project)  # after the log, which holds answers back
    rule = "A commitment must come before the first answer; there is one. Add the answers instead"
    Conflict.unless(first is None, f"{rule}: the system will be shown as uploaded after answers.")
    names = {row["name"] for row in systems_of(work, project)}
    kept = work.one(SQL.commit_system, project=project, at=at, **payload)
    if kept is None or title in names:
        raise Conflict(f"name must be new; the project has a system {title!r}.")


def add_system(
    work: Work,
    project: int,
    name: str,
    answers: Answers,
    *,
    actor: str,
    now: float,
    salt: str | None = None,
) -> int:
    """Keep a system's answers by item name, None where it gave none; only after sealing.

    A system that comes after the first answer is *late*: it may have been made from the verdicts. Not
    so one that was committed to before, whose answers are revealed with their ``salt``. Answers that
    are to be graded come before sealing, which draws them; of later ones those count that others gave.
    """
    row = project_of(work, project)
    spec = read_spec(row["spec"])
    states: tuple[State, ...] = ("sealed", "open", "closed")
    row = hold(work, project, *states, *(("draft",) if spec.protocol == "grade" else ()))
    title, ids = _title(name), _item_ids(work, project)
    told = {row["name"]: row["commitment"] for row in work.all(SQL.committed, project=project)}
    commitment = told.get(title)
    if commitment is None:
        Refused.unless(salt is None, f"salt must come with a commitment; {title!r} has none.")
    else:
        fits = salt is not None and re.fullmatch(r"[0-9a-f]{32,128}", salt)
        rule = f"{title!r} was committed to: answers and salt must be those of the commitment"
        Refused.unless(fits and salted_hash(str(salt), answers) == commitment, f"{rule}.")
    unknown = [item for item in answers if item not in ids]
    if unknown or not answers:
        came = "no answers" if not answers else repr(unknown[0])[:60]
        rule = "must be about items of the project"
        raise refused("answers", rule, came, *unknown[:5], total=len(unknown))
    _check_answers(spec, answers)
    promise = {} if commitment is None else {"commitment": commitment, "salt": salt}
    kept = {"commitment": None, "salt": None, **promise, "sha256": answers_hash(answers)}
    made = work.one(SQL.add_system, project=project, name=title, now=now, **kept)
    if row["state"] == "draft":
        _insert(work, SQL.set_content, _with_answers(work, project, title, answers))
        told = {"name": title, "n": len(answers)}
        work.log(project, "answers-imported", told, actor=actor, at=now)
        return next(int(row["id"]) for row in systems_of(work, project) if row["name"] == title)
    made = Conflict.given(made, f"name must be new; the project has a system {title!r}.")
    system = int(made["id"])
    if spec.protocol == "grade":
        replies = {item.name: item.replies for item in items_of(work, project)}
        answers = {item: reply_number(replies[item], a) for item, a in answers.items()}
    work.many(SQL.add_prediction, _predictions(system, ids, answers))
    _place_system(work, project, system, title, answers, actor=actor, now=now, **promise)
    return system


def _predictions(system: int, ids: Mapping[str, int], said: Answers) -> Iterator[Payload]:
    return ({"system": system, "item": ids[item], "answer": a} for item, a in said.items())


def _with_answers(work: Work, project: int, system: str, answers: Answers) -> Iterator[Any]:
    """The items of a draft with what a system answered, in the place of what it answered before."""
    for row in work.all(SQL.items, project=project):
        content, name = json.loads(row["content"]), row["name"]
        said = {key: a for key, a in content.pop("answers", {}).items() if key != system}
        said |= {system: answers[name]} if name in answers else {}
        content |= {"answers": said} if said else {}
        sha256 = content_hash(content)
        yield {"id": row["id"], "content": canonical(content), "sha256": sha256}


def _check_answers(spec: ProjectSpec, answers: Answers) -> None:
    """Refuse what a system cannot have answered, by item."""
    if spec.texts:
        for item, answer in answers.items():
            _check_text("…" if answer is None else answer, "answer", LONGEST_OPTION, item)
        return
    wrong = [item for item, answer in answers.items() if not _is_class(answer, spec.n_classes)]
    if wrong:
        rule, came = f"must be a class in [0, {spec.n_classes}) or nothing", repr(answers[wrong[0]])
        raise refused("answer", rule, came[:40], *wrong[:5], total=len(wrong))


def _is_class(value: object, n_classes: int) -> bool:
    whole = isinstance(value, int) and not isinstance(value, bool)
    return value is None or (whole and 0 <= value < n_classes)  # type: ignore[operator]


def note(work: Work, /, member: Member, kind: str, *, now: float, **payload: object) -> None:
    """Log what a member did that changes nothing: a look at the estimates, an export."""
    work.log(member.project, kind, payload, actor=member.alias, at=now)


def project_row(work: Work, slug: str) -> Row:
    """The row of a project by its slug; the seed only where the project is closed."""
    row = NotFound.given(work.one(SQL.project_by_slug, slug=slug), "There is no such project.")
    return row if row["state"] == "closed" else {**row, "seed": None}


def projects_of(work: Work, person: int) -> list[Row]:
    """``slug, name, state, role`` of the projects in which a person is a member, newest first."""
    return work.all(SQL.projects_of, person=person)


def systems_of(work: Work, project: int) -> list[Row]:
    """``id, name, sha256, uploaded_at, late, commitment, salt`` of the systems of a project."""
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


def my_progress(work: Work, project: int, person: int, *, day: float) -> dict[str, int]:
    """All that an annotator may know: own answers, those since ``day``, questions left in their pools."""
    who = {"project": project, "person": person}
    given = work.one(SQL.answers_given, day=day, **who) or {"n": 0, "today": 0}
    left = _count(work, SQL.questions_left, **who)
    return {"done": int(given["n"]), "today": int(given["today"]), "left": left}
