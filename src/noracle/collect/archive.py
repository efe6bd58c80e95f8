"""The export that proves itself: one ``.zip`` with everything that was drawn, asked and answered,
and no personal data.

``FIELDS`` lists the files and their fields. What the events must carry, so that nothing in the files
can be changed unseen:

    created        at = created_at; payload name, slug
    sealed         at = sealed_at; payload of :attr:`noracle.collect.protocols.Sealed.payload`
    opened         at = opened_at
    closed         at = closed_at; payload seed (hexadecimal)
    joined         payload alias, role, pool
    system-committed   payload name, commitment (:func:`noracle.collect.chain.salted_hash`)
    system-added   at = uploaded_at; payload name, sha256 (:func:`noracle.collect.chain.answers_hash`), commitment and salt if there was one
    clock-stepped  payload by, from, to (seconds): the clock went back; logged once, times stand still until it has caught up
    answer         actor = alias; at = received_at, or that of the event before if that is later;
                   payload answer, question, place, revision, value, shown_at, received_at
    amended        the same; the next revision
    undone         actor = alias; payload answer, question, place, returned (the place of the question that was held, or null)
    left           actor = alias; payload answer, question, place
"""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import io
import json
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import IO, Any, Literal, get_args

from noracle.collect.chain import answers_hash, content_hash
from noracle.collect.model import Item, ProjectSpec, SealedRoute
from noracle.errors import EvidenceError, require_evidence
from noracle.files import canonical, replacing

FORMATS = ("noracle-collection/1", "noracle-collection/2")
FORMAT = FORMATS[-1]
AGAIN = 1000
"""What is added to ``draw`` each time a question is asked again."""

Record = dict[str, Any]
Table = Literal["items", "routes", "answers", "events", "systems", "predictions", "judgements"]
TABLES: tuple[Table, ...] = get_args(Table)
_KEYS: tuple[tuple[str, ...], ...] = (("name",), ("place",), ("answer",), ("seq",), ("system",))
KEYS = dict(zip(TABLES, (*_KEYS, ("system", "item")), strict=False))
"""What orders a file, and names a record in it; judgements follow the answers."""
_MEMBERS = ("project.json", *(f"{name}.jsonl" for name in TABLES))
_SHAPES = """
project format:text texts:flag spec:object seed:text? slug:text name:text state:text commitment:text? root:text?
 created_at:decimal sealed_at:decimal? opened_at:decimal? closed_at:decimal? n_routes:number last_seq:number head:text
 closed_head:text?+
items name:text sha256:text options:list? truth:number? chances:list? content:object?
routes place:number item:text draw:number kind:text pool:number shown:list propensity:decimal
answers answer:number question:number place:number draw:number revision:number rater:text value:text
 shown_at:decimal received_at:decimal
events seq:number at:decimal actor:text kind:text payload:text prev:text hash:text
systems system:text sha256:text uploaded_at:decimal late:flag+ commitment:text?+ salt:text?+
predictions system:text item:text answer:number?
judgements item:text class:number? verdict:text rater:text propensity:decimal at:decimal kind:text draw:number
 question:number
"""
FIELDS: dict[str, dict[str, str]] = {
    name: {field: kind for field, _, kind in (pair.partition(":") for pair in pairs)}
    for name, *pairs in map(str.split, _SHAPES.replace("\n ", " ").strip().splitlines())
}
"""The fields of each file and their kinds; a question mark allows null, a plus is for fields that
archives of the first format do not have.
"""
_UNREADABLE = (OSError, EOFError, NotImplementedError, RuntimeError, zlib.error)
_UNREADABLE_TOO = (zipfile.BadZipFile, zipfile.LargeZipFile, UnicodeDecodeError)
_BIGGEST = 4 * 2**30


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ProjectArchive:
    """All records of a project, as the files hold them."""

    project: Record
    items: list[Record]
    routes: list[Record]
    answers: list[Record]
    events: list[Record]
    systems: list[Record]
    predictions: list[Record]
    judgements: list[Record]

    @property
    def spec(self) -> ProjectSpec:
        """The specification."""
        return ProjectSpec.from_dict(self.project["spec"])

    def table(self, name: Table) -> list[Record]:
        """The records of one file."""
        records: list[Record] = getattr(self, name)
        return records

    def to_bytes(self) -> bytes:
        """The whole file; the same records give the same bytes."""
        with io.BytesIO() as file:
            write_zip(file, self.members())
            return file.getvalue()

    def members(self) -> Iterator[tuple[str, str]]:
        """The name and the text of each file."""
        yield "project.json", canonical(self.project) + "\n"
        for name in TABLES:
            lines = [canonical(record) + "\n" for record in self.table(name)]
            yield f"{name}.jsonl", "".join(lines)


def make_archive(
    project: Mapping[str, Any],
    *,
    items: Iterable[Item],
    routes: Iterable[SealedRoute],
    answers: Iterable[Mapping[str, Any]],
    events: Iterable[Mapping[str, Any]],
    systems: Mapping[str, Mapping[str, int | None]] | None = None,
    uploaded: Mapping[str, Mapping[str, Any]] | None = None,
    chances: Mapping[str, Sequence[float]] | None = None,
    texts: bool = False,
) -> ProjectArchive:
    """Put the records of a project into the shape of the archive: ``project`` is its row, with
    ``spec`` read or as a dict and ``closed_head``; ``items`` have the options as drawn; ``routes``
    are without those that are asked again; ``answers`` say whether each ``counts``; ``systems`` and
    ``uploaded`` are answers and rows by name; ``chances`` are those of a targeted design.

    The seed, truths and chances are left out unless the project is closed, the contents of items
    unless ``texts``; their fingerprints are always there.
    """
    closed, spec, seed = project["state"] == "closed", project["spec"], project.get("seed")
    spec = spec if isinstance(spec, ProjectSpec) else ProjectSpec.from_dict(spec)
    times = ("created_at", "sealed_at", "opened_at", "closed_at")
    head = {
        "format": FORMAT,
        "texts": bool(texts),
        "spec": json.loads(canonical(spec.to_dict())),
        "seed": bytes(seed).hex() if closed and seed is not None else None,
        **{key: project.get(key) for key in ("slug", "name", "state", "commitment", "root")},
        **{key: _float(project.get(key)) for key in times},
        **{key: int(project.get(key) or 0) for key in ("n_routes", "last_seq")},
        "head": project.get("head") or "",
        "closed_head": project.get("closed_head"),
    }
    known, given, when = systems or {}, chances or {}, uploaded or {}
    answers = [*answers]
    tables: dict[Table, Iterable[Record]] = {
        "items": (_item_record(item, closed, given.get(item.name), texts) for item in items),
        "routes": ({**route._asdict(), "shown": list(route.shown)} for route in routes),
        "answers": ({key: row[key] for key in FIELDS["answers"]} for row in answers),
        "events": ({key: row[key] for key in FIELDS["events"]} for row in events),
        "systems": (_system_record(name, said, when[name]) for name, said in known.items()),
        "predictions": (
            {"system": name, "item": item, "answer": answer}
            for name, said in known.items()
            for item, answer in said.items()
        ),
    }
    ordered = {name: sorted(rows, key=itemgetter(*KEYS[name])) for name, rows in tables.items()}
    counts = {row["answer"] for row in answers if row["counts"]}
    final = [row for row in ordered["answers"] if row["answer"] in counts]
    said = judgements_of(spec, ordered["routes"], final)
    return ProjectArchive(project=head, **ordered, judgements=said)


ABOUT_QUESTIONS = frozenset(("answer", "item", "place", "question"))
"""Names in the payload of an event that tells of a question."""


def without_questions(archive: ProjectArchive) -> ProjectArchive:
    """What may leave of a project that is not closed: nothing of any question, asked or to come, as
    even an event would tell panel and gold. Such events keep their hash and lose their payload ("").
    """

    def told(event: Record) -> Record:
        about = ABOUT_QUESTIONS & json.loads(event["payload"]).keys()
        return {**event, "payload": ""} if about else event

    shown = [told(event) for event in archive.events]
    return dataclasses.replace(archive, events=shown, routes=[], answers=[], judgements=[])


def _float(value: float | None) -> float | None:
    return None if value is None else float(value)


def _system_record(name: str, said: Mapping[str, int | None], row: Mapping[str, Any]) -> Record:
    told = {"system": name, "sha256": answers_hash(said), "late": bool(row["late"])}
    told |= {"uploaded_at": _float(row["uploaded_at"])}
    return {**told, **{key: row.get(key) for key in ("commitment", "salt")}}


def _item_record(item: Item, closed: bool, chances: Sequence[float] | None, texts: bool) -> Record:
    return {
        "name": item.name,
        "sha256": content_hash(item.content),
        "options": None if item.options is None else list(item.options),
        "truth": item.truth if closed else None,
        "chances": [float(c) for c in chances] if closed and chances is not None else None,
        "content": json.loads(canonical(dict(item.content))) if texts else None,
    }


def judgements_of(
    spec: ProjectSpec, routes: Sequence[Mapping[str, Any]], answers: Iterable[Mapping[str, Any]]
) -> list[Record]:
    """What the answers that count say: one row for each class that was judged, in their order.

    A class that was ruled out is a "no", an ordinary label a "yes"; where no class was named the
    verdict is "unsure", or "none" for the trap. The kind is "reask" where it was asked again.
    """
    by_place, rows = {route["place"]: route for route in routes}, []
    for answer in answers:
        if (route := by_place.get(answer["place"])) is None:
            continue
        kind, draw = "reask" if answer["draw"] >= AGAIN else route["kind"], answer["draw"]
        about = {"rater": answer["rater"], "propensity": route["propensity"]}
        about |= {"at": answer["received_at"], "kind": kind, "draw": draw}
        for asked, verdict in verdicts(spec, route["shown"], answer["value"]):
            row = {"item": route["item"], "class": asked, "verdict": verdict, **about}
            rows.append({**row, "question": answer["question"]})
    return rows


def verdicts(spec: ProjectSpec, shown: Sequence[int], value: str) -> list[tuple[int | None, str]]:
    """The value of an answer as verdicts on classes.

    >>> from noracle.collect.model import ClassSpec
    >>> spec = ProjectSpec(protocol="judge-all", classes=tuple(ClassSpec(name=c) for c in "abcd"), shown=2)
    >>> verdicts(spec, (3, 1), "no|yes")
    [(3, 'no'), (1, 'yes')]
    """
    if spec.judged:
        parts = value.split("|")
        parts = parts if len(parts) > 1 else parts * len(shown)
        return list(zip(shown, parts, strict=False))
    if value in ("unsure", "none"):
        return [(None, value)]
    return [(int(value), "no" if spec.protocol == "pick-wrong" else "yes")]


def write_archive(archive: ProjectArchive, path: str | Path) -> None:
    """Write the file under a temporary name, then rename it; equal archives give equal bytes."""
    with replacing(path) as part, part.open("wb") as file:
        write_zip(file, archive.members())


def write_zip(file: IO[bytes], members: Iterable[tuple[str, str | bytes]]) -> None:
    """Write the members as a zip; the same members give the same bytes."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as whole:
        for name, data in members:
            info = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
            info.compress_type, info.create_system = zipfile.ZIP_DEFLATED, 3
            info.external_attr = 0o600 << 16
            whole.writestr(info, data, compresslevel=6)


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Without the search for cycles, which is slow among millions of records that have none."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


@undisturbed()
def read_archive(path: str | Path | io.BytesIO) -> ProjectArchive:
    """Read the file; only what is no such file at all is an error, ``verify_archive`` does the rest."""
    where = "the archive" if isinstance(path, io.BytesIO) else repr(str(path))
    try:
        with zipfile.ZipFile(path) as whole:
            found = sorted(whole.namelist())
            if found != sorted(_MEMBERS):
                came = ", ".join(found[:12]) or "nothing"
                rule = f"must hold {', '.join(_MEMBERS)}, each once"
                raise EvidenceError.of("archive", rule, f"{came} in {where}")
            fine = sum(info.file_size for info in whole.infolist()) <= _BIGGEST
            rule = f"must hold at most {_BIGGEST} bytes"
            require_evidence(fine, "archive", rule, f"more in {where}")
            project, *tables = (_parse(whole.read(name).decode(), name) for name in _MEMBERS)
    except (*_UNREADABLE, *_UNREADABLE_TOO) as error:
        rule, came = "must be a .zip file that can be read", f"{type(error).__name__} in {where}"
        raise EvidenceError.of("archive", rule, came) from None
    form = project.get("format") if isinstance(project, dict) else type(project).__name__
    rule = f"must be of format {' or '.join(FORMATS)}"
    require_evidence(form in FORMATS, "project.json", rule, repr(form))
    return ProjectArchive(project=project, **dict(zip(TABLES, tables, strict=True)))


def _no_number(word: str) -> float:
    raise ValueError(f"{word} is no number")


def _parse(text: str, name: str) -> Any:
    """JSON, or one object per line; these are parsed together, which is faster."""
    lines = (text.removesuffix("\n").split("\n") if text else []) if name[-1] == "l" else None
    try:
        whole = text if lines is None else f"[{','.join(lines)}]"
        found = json.loads(whole, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise EvidenceError.of(name, "must be JSON", f"something else ({error})") from None
    one = lines is None or (len(found) == len(lines) and all(type(r) is dict for r in found))
    require_evidence(one, name, "must hold one object per line", "something else")
    return found
