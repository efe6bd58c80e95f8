"""The export that proves itself: one ``.zip`` with everything that was drawn, asked and answered,
and no personal data.

    project.json       slug, name, state, spec, commitment, root, n_routes, seed (when closed), times, last_seq, head, texts
    items.jsonl        name, sha256, options, truth and chances (when closed), content (if asked for)      by name
    routes.jsonl       place, item, draw, kind, pool, shown, propensity                                    by place
    answers.jsonl      answer, question, place, draw, revision, rater (alias), value, shown_at, received_at   by answer
    events.jsonl       seq, at, actor, kind, payload (the text that was hashed), prev, hash                by seq
    systems.jsonl      system, sha256, uploaded_at                                                         by name
    predictions.jsonl  system, item, answer                                                                by system, item
    judgements.jsonl   what the first answers say, one row a class: made by :func:`judgements_of`

What the events must carry, so that nothing in the files can be changed unseen:

    created        at = created_at; payload name, slug
    sealed         at = sealed_at; payload of :attr:`noracle.collect.protocols.Sealed.payload`
    opened         at = opened_at
    closed         at = closed_at; payload seed (hexadecimal)
    joined         payload alias, role, pool
    system-added   at = uploaded_at; payload name, sha256 (:func:`noracle.collect.chain.answers_hash`)
    answer         actor = alias; at = received_at; payload answer, question, place, revision (0), value, shown_at, received_at
    amended        the same, revision 1, 2, …

A question that is asked again after "unsure" has the place of the first, and ``draw`` = its draw +
1000 for each time.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import io
import json
import os
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from noracle.collect.chain import answers_hash, canonical, content_hash
from noracle.collect.model import Item, ProjectSpec, Route
from noracle.errors import EvidenceError, fault

FORMAT = "noracle-collection/1"
AGAIN = 1000
"""What is added to ``draw`` each time a question is asked again."""

Record = dict[str, Any]
Table = Literal["items", "routes", "answers", "events", "systems", "predictions", "judgements"]
TABLES: tuple[Table, ...] = (
    "items",
    "routes",
    "answers",
    "events",
    "systems",
    "predictions",
    "judgements",
)
KEYS: dict[Table, tuple[str, ...]] = {
    "items": ("name",),
    "routes": ("place",),
    "answers": ("answer",),
    "events": ("seq",),
    "systems": ("system",),
    "predictions": ("system", "item"),
}
"""What orders a file, and names a record in it; judgements follow the answers."""
_BIGGEST = 4 * 2**30
_EPOCH = (1980, 1, 1, 0, 0, 0)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Archive:
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
            _write(self, file)
            return file.getvalue()


def make_archive(
    project: Mapping[str, Any],
    *,
    items: Iterable[Item],
    routes: Iterable[Route],
    answers: Iterable[Mapping[str, Any]],
    events: Iterable[Mapping[str, Any]],
    systems: Mapping[str, Mapping[str, int | None]] | None = None,
    uploaded_at: Mapping[str, float] | None = None,
    chances: Mapping[str, Sequence[float]] | None = None,
    texts: bool = False,
) -> Archive:
    """Put the records of a project into the shape of the archive.

    Parameters
    ----------
    project
        ``slug``, ``name``, ``state``, ``spec`` (a :class:`ProjectSpec` or its dict),
        ``commitment``, ``root``, ``n_routes``, ``seed`` (bytes or None), ``created_at``,
        ``sealed_at``, ``opened_at``, ``closed_at``, ``last_seq``, ``head``. The seed, the truths
        and the chances are left out unless the state is closed.
    items
        With ``options`` as drawn and, for gold items, ``truth``.
    routes
        The drawn questions, without those that are asked again.
    answers
        ``answer, question, place, draw, revision, rater, value, shown_at, received_at``.
    events
        ``seq, at, actor, kind, payload`` (text)``, prev, hash``.
    systems, uploaded_at
        Answers and time of each system, by its name.
    chances
        The recorded chances of a targeted design, by item.
    texts
        Whether the content of the items is included; their fingerprints always are.
    """
    closed = project["state"] == "closed"
    spec = (
        project["spec"]
        if isinstance(project["spec"], ProjectSpec)
        else ProjectSpec.from_dict(project["spec"])
    )
    seed = project.get("seed")
    times = {
        key: _float(project.get(key))
        for key in ("created_at", "sealed_at", "opened_at", "closed_at")
    }
    head = {
        "format": FORMAT,
        "texts": bool(texts),
        "spec": json.loads(canonical(spec.to_dict())),
        "seed": bytes(seed).hex() if closed and seed is not None else None,
        **{key: project.get(key) for key in ("slug", "name", "state", "commitment", "root")},
        **times,
        **{key: int(project.get(key) or 0) for key in ("n_routes", "last_seq")},
        "head": project.get("head") or "",
    }
    drawn = [_route_record(route) for route in sorted(routes, key=lambda route: route.place)]
    given = _ordered("answers", ({key: row[key] for key in _ANSWER} for row in answers))
    known = systems or {}
    return Archive(
        project=head,
        items=_ordered(
            "items",
            (_item_record(item, closed, (chances or {}).get(item.name), texts) for item in items),
        ),
        routes=drawn,
        answers=given,
        events=_ordered("events", ({key: row[key] for key in _EVENT} for row in events)),
        systems=[
            {
                "system": name,
                "sha256": answers_hash(known[name]),
                "uploaded_at": _float((uploaded_at or {}).get(name)),
            }
            for name in sorted(known)
        ],
        predictions=[
            {"system": name, "item": item, "answer": known[name][item]}
            for name in sorted(known)
            for item in sorted(known[name])
        ],
        judgements=judgements_of(spec, drawn, given),
    )


_ANSWER = (
    "answer",
    "question",
    "place",
    "draw",
    "revision",
    "rater",
    "value",
    "shown_at",
    "received_at",
)
_EVENT = ("seq", "at", "actor", "kind", "payload", "prev", "hash")


def _float(value: float | None) -> float | None:
    return None if value is None else float(value)


def _item_record(item: Item, closed: bool, chances: Sequence[float] | None, texts: bool) -> Record:
    return {
        "name": item.name,
        "sha256": content_hash(item.content),
        "options": None if item.options is None else list(item.options),
        "truth": item.truth if closed else None,
        "chances": [float(c) for c in chances] if closed and chances is not None else None,
        "content": json.loads(canonical(dict(item.content))) if texts else None,
    }


def _route_record(route: Route) -> Record:
    return {
        "place": route.place,
        "item": route.item,
        "draw": route.draw,
        "kind": route.kind,
        "pool": route.pool,
        "shown": list(route.shown),
        "propensity": route.propensity,
    }


def _ordered(table: Table, records: Iterable[Record]) -> list[Record]:
    keys = KEYS[table]
    return sorted(records, key=lambda record: tuple(record[key] for key in keys))


def judgements_of(
    spec: ProjectSpec, routes: Sequence[Mapping[str, Any]], answers: Iterable[Mapping[str, Any]]
) -> list[Record]:
    """What the first answers say: the rows of a judgements table, in the order of the answers.

    One row for each class that was judged: ``item, class, verdict, rater, propensity, at, kind,
    draw, question``. A class that was ruled out is a "no". Where all shown classes were refused or
    the answer is "unsure" as a whole (pick-wrong, ordinary), the class is None and the verdict
    "unsure", or "none" for the trap. An ordinary label is a "yes". The kind is "reask" for a
    question that was asked again.
    """
    by_place = {route["place"]: route for route in routes}
    rows: list[Record] = []
    for answer in answers:
        route = by_place.get(answer["place"])
        if answer["revision"] or route is None:
            continue
        kind = "reask" if answer["draw"] >= AGAIN else route["kind"]
        for asked, verdict in verdicts(spec, route["shown"], answer["value"]):
            rows.append(
                {
                    "item": route["item"],
                    "class": asked,
                    "verdict": verdict,
                    "rater": answer["rater"],
                    "propensity": route["propensity"],
                    "at": answer["received_at"],
                    "kind": kind,
                    "draw": answer["draw"],
                    "question": answer["question"],
                }
            )
    return rows


def verdicts(spec: ProjectSpec, shown: Sequence[int], value: str) -> list[tuple[int | None, str]]:
    """The value of an answer as verdicts on classes.

    Examples
    --------
    >>> from noracle.collect.model import ClassSpec
    >>> spec = ProjectSpec(protocol="judge-all", classes=tuple(ClassSpec(name=c) for c in "abcd"), shown=2)
    >>> verdicts(spec, (3, 1), "no|yes")
    [(3, 'no'), (1, 'yes')]
    """
    if spec.protocol == "partitioned":
        return [(shown[0], value)]
    if spec.protocol == "judge-all":
        parts = value.split("|")
        return (
            list(zip(shown, parts, strict=False))
            if len(parts) > 1
            else [(asked, value) for asked in shown]
        )
    if value in ("unsure", "none"):
        return [(None, value)]
    return [(int(value), "no" if spec.protocol == "pick-wrong" else "yes")]


def write_archive(archive: Archive, path: str | Path) -> None:
    """Write the file under a temporary name, then rename it; the same archive gives the same bytes."""
    target = Path(path)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".tmp")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            _write(archive, file)
        temporary.replace(target)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


def _write(archive: Archive, file: Any) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as whole:
        whole.writestr(_member("project.json"), canonical(archive.project) + "\n", compresslevel=6)
        for name in TABLES:
            lines = "".join([canonical(record) + "\n" for record in archive.table(name)])
            whole.writestr(_member(f"{name}.jsonl"), lines, compresslevel=6)


def _member(name: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, date_time=_EPOCH)
    info.compress_type, info.create_system, info.external_attr = (
        zipfile.ZIP_DEFLATED,
        3,
        0o600 << 16,
    )
    return info


def is_archive(path: str | Path) -> bool:
    """Whether the file looks like an archive of a project, by its content."""
    try:
        with zipfile.ZipFile(path) as whole:
            return "project.json" in whole.namelist() and "routes.jsonl" in whole.namelist()
    except (OSError, zipfile.BadZipFile):
        return False


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Without the search for cycles, which is slow among millions of small records that have none."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


@undisturbed()
def read_archive(path: str | Path | io.BytesIO) -> Archive:
    """Read the file; what is not such a file at all is an error, everything else is left to
    :func:`verify_archive`.
    """
    where = "the archive" if isinstance(path, io.BytesIO) else repr(str(path))
    try:
        with zipfile.ZipFile(path) as whole:
            wanted = ["project.json", *(f"{name}.jsonl" for name in TABLES)]
            if sorted(whole.namelist()) != sorted(wanted):
                came = ", ".join(sorted(whole.namelist())[:12]) or "nothing"
                raise EvidenceError(
                    fault(
                        "archive", f"must hold {', '.join(wanted)}, each once", f"{came} in {where}"
                    )
                )
            if sum(info.file_size for info in whole.infolist()) > _BIGGEST:
                raise EvidenceError(
                    fault("archive", f"must hold at most {_BIGGEST} bytes", f"more in {where}")
                )
            project = _parse(whole.read("project.json").decode(), "project.json")
            tables = {
                name: _lines(whole.read(f"{name}.jsonl").decode(), f"{name}.jsonl")
                for name in TABLES
            }
    except (
        OSError,
        zipfile.BadZipFile,
        UnicodeDecodeError,
        EOFError,
        zipfile.LargeZipFile,
        NotImplementedError,
        RuntimeError,
    ) as error:
        raise EvidenceError(
            fault(
                "archive",
                "must be a .zip file that can be read",
                f"{type(error).__name__} in {where}",
            )
        ) from None
    if not isinstance(project, dict) or project.get("format") != FORMAT:
        found = project.get("format") if isinstance(project, dict) else type(project).__name__
        raise EvidenceError(fault("project.json", f"must be of format {FORMAT!r}", repr(found)))
    return Archive(project=project, **tables)


def _parse(text: str, name: str) -> Any:
    def refuse(word: str) -> float:
        raise ValueError(f"{word} is no number")

    try:
        return json.loads(text, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise EvidenceError(fault(name, "must be JSON", f"something else ({error})")) from None


def _lines(text: str, name: str) -> list[Record]:
    """One object a line; parsed together, which is faster."""
    lines = text.removesuffix("\n").split("\n") if text else []
    records = _parse(f"[{','.join(lines)}]", name)
    if len(records) != len(lines) or not all(type(record) is dict for record in records):
        raise EvidenceError(fault(name, "must hold one object a line", "something else"))
    return list(records)
