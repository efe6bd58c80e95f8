"""What is in one file: told by its name and content, of which only the head is read."""

from __future__ import annotations

import dataclasses
import json
import re
import tomllib
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import PurePath
from typing import Any

import duckdb
import narwhals as nw

from noracle.errors import EvidenceError, fault
from noracle.evidence.frames import connect, log_format, scan, unreadable
from noracle.evidence.grade_logs import TOOLS, grades_log_format
from noracle.evidence.preferences import preferred_columns
from noracle.evidence.ratings import VOTES
from noracle.evidence.tables import (
    ALIASES,
    GRADE_COLUMNS,
    TABLES,
    Shape,
    TableRules,
    kind_of,
    resolve,
    shown,
    verdict_column,
    wide_among,
)
from noracle.evidence.tables import WIDE as WIDE_TABLES
from noracle.oversight.model import FolderSettings, Form, SourceKind
from noracle.oversight.settings import named_columns

SUFFIXES = (".csv", ".tsv", ".jsonl", ".ndjson", ".json", ".parquet", ".pq")
"""How the names of tables end; ``.gz`` or ``.zst`` may follow."""
_COMPRESSED = (".gz", ".zst")
_SCHEMA = re.compile(rb'\s*\{\s*"schema"\s*:\s*"([\w./-]{1,60})"')
_MOST_JSON = 64_000_000  # bytes: a larger file that does not begin with its schema is a table


def table_suffix(path: str) -> str:
    """How the name of a table ends, without the compression; empty where it is no table."""
    name = path.split("?", 1)[0] if "://" in path else path
    suffixes = [s.lower() for s in PurePath(name).suffixes]
    if suffixes and suffixes[-1] in _COMPRESSED:
        suffixes.pop()
    return suffixes[-1] if suffixes and suffixes[-1] in SUFFIXES else ""


def stem_of(path: str) -> str:
    """The name of a file without its endings, in lower case."""
    return PurePath(path).name.split(".", 1)[0].lower()


def header_of(path: str) -> bytes:
    """The first line of a plain CSV file; empty for other files."""
    packed = path.lower().endswith(_COMPRESSED)
    if table_suffix(path) not in (".csv", ".tsv") or packed or "://" in path:
        return b""
    with open(path, "rb") as file:  # noqa: PTH123 (the path may be a text)
        return file.readline(100_000)


def schema_of(path: str) -> str | None:
    """The schema of a JSON file; None for an object without one, empty for a table."""
    if "://" in path:
        return ""
    with open(path, "rb") as file:  # noqa: PTH123 (the path may be a text)
        head = file.read(4096)
        found = _SCHEMA.match(head)
        if found:
            return found[1].decode()
        if not head.lstrip().startswith(b"{"):
            return ""
        text = head + file.read(_MOST_JSON)
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return ""
    schema = data.get("schema") if isinstance(data, dict) else None
    return schema if isinstance(schema, str) and 0 < len(schema) <= 60 else None


COUNTS = ("counts/1", "rating-counts/1")
_LONG: tuple[SourceKind, ...] = ("answers", "judgements", "grades", "ratings", "scores")
_KEYS = {"label", "class", "key", "truth", "target", "gold"}
_KEYS |= {"correct", "correct_answer", "answer_key"}
_SAID = {"system", "answer", "class", "verdict", "rater", "value", *GRADE_COLUMNS, *_KEYS}
_PRICE_TABLES = {"labels", "caps", "raters", "costs", "lengths", "budgets"}
_PRICED, _PRICE = ("kind", "rater"), ("price", "cost")
_DATABASE = "a database, which is not read; write its tables out as CSV or Parquet"
_OTHERS = {
    (".html", ".htm"): "a page, not a table",
    (".xlsx", ".xls", ".ods", ".numbers"): "a spreadsheet, which is not read; save it as CSV",
    (".zip", ".tar", ".tgz", ".7z"): "an archive, which is not read; unpack it",
    (".db", ".sqlite", ".duckdb"): _DATABASE,
}
_PEOPLE = (".md", ".txt", ".rst", ".pdf", ".doc", ".docx", ".ipynb")
_MOST_SNIFFED = 200
_SEPARATORS = (",", ";", "\t", "|")


@dataclasses.dataclass(frozen=True, slots=True)
class Seen:
    """What a file is. Without ``kind`` it is no evidence, and ``why`` is the reason.

    ``types`` has the kind of value of each column (whole, float, text, …), ``separator`` the mark
    between the fields of a CSV file, and ``sort`` what files of one table must share: the kind of
    log, the schema of counts, the columns of a wide table.
    """

    path: str
    kind: SourceKind | None
    why: str
    form: Form = "long"
    columns: tuple[str, ...] = ()
    types: Mapping[str, str] = dataclasses.field(default_factory=dict)
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    sort: str = ""
    separator: str = ""


class Recogniser(AbstractContextManager["Recogniser"]):
    """Looks at files, one after the other, on one engine; ``close`` it, or use it as a context."""

    def __init__(self, settings: FolderSettings) -> None:
        self._settings = settings
        self._connection = connect()
        self._headers: dict[bytes, tuple[int, dict[str, str]]] = {}

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def look(self, path: str, *, named: SourceKind | None = None) -> Seen:
        """What the file is; ``named`` is the kind that the settings say, which must fit."""
        seen = self._look(path, named)
        if named is not None and seen.kind != named:
            raise EvidenceError(kind_fault(seen, named))
        if named is None or "noracle.toml" in seen.why:
            return seen
        return dataclasses.replace(seen, why=f"named in noracle.toml; {seen.why}")

    def _look(self, path: str, named: SourceKind | None) -> Seen:
        name = PurePath(path)
        log = log_format(path)
        if log is not None and named != "grades":
            return Seen(path, "answers", f"a log of {TOOLS[log]}", form="log", sort=log)
        results = told_by_tool(path, logs=named == "grades")
        if results is not None:
            return results
        if name.suffix.lower() == ".json":
            schema = schema_of(path)
            if schema is None:
                return Seen(path, None, "one JSON object without a known schema, not a table")
            if schema in COUNTS:
                why, o = f"stored counts, {schema}", {"schema": schema}
                return Seen(path, "counts", why, form="json", options=o, sort=schema)
            if schema:
                return Seen(path, None, f"a result that noracle wrote ({schema}), not evidence")
        if name.suffix.lower() == ".toml":
            return _toml(path)
        if not table_suffix(path):
            return Seen(path, None, _no_table(name))
        header = header_of(path)
        types = self._types(path, header)
        seen = _preferred(path, types) if named in (None, "preferences") else None
        seen = seen or told_by_columns(path, types, settings=self._settings, named=named)
        mark = max(_SEPARATORS, key=lambda mark: header.count(mark.encode())) if header else ""
        return dataclasses.replace(seen, separator=mark)

    def _types(self, path: str, header: bytes) -> dict[str, str]:
        """The columns and their kinds; of very many files with one header the first are sampled."""
        n, known = self._headers.get(header, (0, {}))
        if header and n >= _MOST_SNIFFED:
            return known
        schema = nw.from_native(scan(path, "table", self._connection.sql)).collect_schema()
        types = {column: kind_of(dtype) for column, dtype in schema.items()}
        self._headers[header] = (n + 1 if types == known or not n else 0, types)
        return types

    def has_values(self, path: str, column: str) -> bool:
        """Whether a column holds anything."""
        quoted = column.replace('"', '""')
        try:
            rows = scan(path, "table", self._connection.sql).filter(f'"{quoted}" IS NOT NULL')
            return bool(rows.limit(1).fetchall())
        except duckdb.Error as error:
            raise unreadable(error, f"file {path!r}") from None

    def n_rows(self, paths: Sequence[str]) -> int | None:
        """Rows of Parquet files, from their footers; None for other files."""
        if not all(table_suffix(p) in (".parquet", ".pq") for p in paths):
            return None
        query = "SELECT sum(num_rows) FROM parquet_file_metadata(?)"
        try:
            return int(self._connection.execute(query, [list(paths)]).fetchall()[0][0])
        except duckdb.Error as error:
            raise unreadable(error, f"file {paths[0]!r}") from None


def told_by_tool(path: str, *, logs: bool = False) -> Seen | None:
    """Results of promptfoo, DeepEval or OpenTelemetry, which are grades; None for other files.

    Logs of Inspect and lm-eval are answers; with ``logs`` they are the grades in them, as where the
    settings name them so.
    """
    tool = grades_log_format(path)
    if tool is None or (tool in ("inspect", "lm-eval") and not logs):
        return None
    return Seen(path, "grades", f"results of {TOOLS[tool]}", form="log", sort=tool)


def _preferred(path: str, types: Mapping[str, str]) -> Seen | None:
    """A table of preferences; None for any other."""
    said = preferred_columns(list(types))
    about: dict[str, Any] = {"columns": tuple(types), "types": types, "sort": f"{said}"}
    return Seen(path, "preferences", f"columns {', '.join(said)}", **about) if said else None


def told_by_columns(
    path: str,
    types: Mapping[str, str],
    *,
    settings: FolderSettings,
    named: SourceKind | None = None,
) -> Seen:
    """What a table with these columns is."""
    columns = tuple(types)

    def known(kind: Any, why: str, form: Form = "long", **o: Any) -> Seen:
        about: dict[str, Any] = {"columns": columns, "types": types, "options": o}
        return Seen(path, kind, why, form=form, sort=f"{form} {sorted(o.items())}", **about)

    candidates = _long_kinds(columns)
    if named in candidates:
        candidates = [named]
    if len(candidates) == 1 and named in (None, candidates[0]):
        names, form = _long_columns(candidates[0], columns)
        return known(candidates[0], f"columns {', '.join(names)}", form)
    there = [k for k, o in settings.wide.items() if set(named_columns(o)) <= set(columns)]
    wide = [kind for kind in there if named in (None, kind)]
    if not candidates and not wide:
        other = _by_other_names(columns, settings, named)
        if len(other) == 1:
            meant, found = next(iter(other.items()))
            seen = known(meant, f"columns {', '.join(found.values())}, read as {', '.join(found)}")
            plain = {name: column.strip().lower() for name, column in found.items()}
            same = all(name == column for name, column in plain.items())
            return seen if same else dataclasses.replace(seen, sort=f"{plain}")
        candidates = list(other)
    if len(wide) == 1 and not candidates:
        why = f"columns named in [wide.{wide[0]}] of noracle.toml"
        return known(wide[0], why, "wide", **settings.wide[wide[0]])
    fits = [*candidates, *wide]
    if len(fits) > 1:
        as_in = f'as in [files] {fits[0]} = "{PurePath(path).name}"'
        why = f"fits {' and '.join(fits)}; not guessed. Say which it is in noracle.toml, {as_in}"
        return Seen(path, None, why, columns=columns)
    stem = stem_of(path)
    by_name = (kind for kind in WIDE_TABLES if kind in TABLES and stem.startswith(kind[:-1]))
    told: Any = named or next(by_name, None)
    if not candidates and told in ("answers", "ratings", "grades"):
        broad = _wide(types, told, settings, known)
        if broad is not None:
            return broad
    if named is not None:
        return _as_named(path, types, named, known)
    priced, price = [[c for c in group if c in columns] for group in (_PRICED, _PRICE)]
    if len(priced) == len(price) == 1 and "item" not in columns:
        why = f"columns {priced[0]}, {price[0]}"
        return known("prices", why, name=priced[0], price=price[0])
    if _is_items(path, columns, settings):
        about = [c for c in TABLES["items"].names(required=False) if c in columns]
        return known("items", f"columns {', '.join(['item', *about])}")
    if stem.startswith(("pilot", "scores")) and _score_options(types):
        why = "named as scores, with a column of numbers for each rater"
        return known("scores", why, "wide", **_score_options(types))
    return Seen(path, None, _unknown(types), columns=columns)


def _long_kinds(columns: Collection[str]) -> list[SourceKind]:
    """The kinds whose required columns are all there."""
    there = set(columns)
    found = [kind for kind in _LONG if set(TABLES[kind].names(required=True)) <= there]
    graded = {"item", "system"} <= there and "answer" not in there and verdict_column(columns)
    if graded and "grades" not in found:
        found.append("grades")
    votes = set(VOTES.names(required=True)) <= there and not there & {"rater", "system", "class"}
    return ["ratings"] if votes and not found else found


def _long_columns(kind: SourceKind, columns: Collection[str]) -> tuple[list[str], Form]:
    """The columns that make a table one of this kind, as they are called in it, and its form."""
    if kind == "ratings" and "rater" not in columns:
        return VOTES.names(required=True), "votes"
    names = TABLES[kind].names(required=True)
    if kind == "grades":
        names = [verdict_column(columns) or name if name == "verdict" else name for name in names]
    return names, "long"


def _by_other_names(
    columns: Sequence[str], settings: FolderSettings, named: SourceKind | None
) -> dict[SourceKind, dict[str, str]]:
    """The kinds whose required columns are there under other names, with those columns."""
    found: dict[SourceKind, dict[str, str]] = {}
    for kind in [k for k in _LONG if named in (None, k)]:
        names, _, faults = resolve(columns, TABLES[kind], settings.columns)
        needed = TABLES[kind].names(required=True)
        if not faults and all(name in names for name in needed):
            found[kind] = {name: names[name] for name in needed}
    return found


def _wide(
    types: Mapping[str, str], kind: SourceKind, settings: FolderSettings, known: Callable[..., Seen]
) -> Seen | None:
    """A wide table of a kind that its name or the settings tell; None where it is none."""
    item = TableRules(name=kind, columns=TABLES[kind].columns[:1])
    names, _, faults = resolve(list(types), item, settings.columns)
    if faults or "item" not in names:
        return None
    shape = Shape(columns=settings.columns)
    try:
        columns, _ = wide_among(types, kind, shape, names["item"], lambda _: True)
    except EvidenceError:
        return None
    who = f"{WIDE_TABLES[kind][0]}s"
    if len(columns) < 2:
        return None
    why = f"one row per item, with a column for each of {len(columns)} {who}"
    return known(kind, why, "wide", **{"item": names["item"], who: tuple(columns)})


def _as_named(
    path: str, types: Mapping[str, str], named: SourceKind, known: Callable[..., Seen]
) -> Seen:
    """A table that the settings name, and whose columns alone do not tell."""
    why = "named in noracle.toml"
    if named == "items" and "item" in types:
        return known("items", why)
    if named == "scores" and _score_options(types):
        return known("scores", why, "wide", **_score_options(types))
    if named == "prices":
        seen = told_by_columns(path, types, settings=FolderSettings())
        if seen.kind == "prices":
            return seen
    return Seen(path, None, f"columns {', '.join(shown(list(types)))}", columns=tuple(types))


def _is_items(path: str, given: Sequence[str], settings: FolderSettings) -> bool:
    names, _, faults = resolve(given, TABLES["items"], settings.columns)
    columns = {*given} if faults else {*given, *names}
    about = set(TABLES["items"].names(required=False)) & columns
    said = columns & (_SAID | {*ALIASES["answers.answer"], *ALIASES["grades.verdict"]})
    alone = stem_of(path) == "items" and len(given) == 1
    return "item" in columns and not said and bool(about or alone)


def _score_options(types: Mapping[str, str]) -> dict[str, Any]:
    """The columns of a table of scores; empty where none holds numbers."""
    raters = tuple(c for c, kind in types.items() if kind in ("whole", "float") and c != "item")
    item = {"item": "item"} if "item" in types else {}
    return {**item, "raters": raters} if raters else {}


def _unknown(types: Mapping[str, str]) -> str:
    columns = list(types)
    listed = ", ".join(shown(columns)) + (", …" if len(columns) > 12 else "")
    kinds = _long_kinds({c.strip().lower() for c in columns})
    if kinds and not _long_kinds(columns):
        needed = ", ".join(TABLES[kinds[0]].names(required=True))
        return f"columns {listed} would be {kinds[0]} if they were called {needed}; rename them"
    keys = [c for c in columns if c in _KEYS]
    if "item" in columns and len(keys) == 1 and not {"rater", "system", "verdict"} & set(columns):
        return f"item and {keys[0]} alone look like an answer key, which is not used; what people said is item, class, verdict (yes)"
    if "item" in columns:
        needs = {kind: TABLES[kind].names(required=True) for kind in _LONG}
        near = {kind: [c for c in names if c not in columns] for kind, names in needs.items()}
        kind, missing = min(near.items(), key=lambda pair: len(pair[1]))
        if len(missing) == 1:
            return f"columns {listed} are not {kind}: no {missing[0]}. Rename or add the column"
        if len(columns) > 1:
            return f"columns {listed} are of no known kind; for one row per item name the columns in [wide.ratings] or [wide.answers]"
    return f"columns {listed} are of no known kind"


def kind_fault(seen: Seen, kind: SourceKind) -> str:
    """One line about a file that is called or named as a kind of evidence and is not of it."""
    needed = TABLES[kind].names(required=True) if kind in TABLES else []
    missing = [c for c in needed if c not in seen.columns] if seen.columns else []
    if seen.columns and needed and not missing:
        return fault(f"file {seen.path!r}", "must be of one kind", seen.why)
    came = f"no {', '.join(missing)} in {shown(seen.columns)}" if missing else seen.why
    rule = f"must have columns {', '.join(needed)}"
    if kind == "counts":
        rule = f"must be JSON with schema {' or '.join(COUNTS)}"
    elif kind == "prices":
        rule = "must have columns kind or rater, and price or cost, or be TOML with tables labels or raters"
    elif kind == "ratings":
        rule += ", or item, label, n"
    remedy = "Rename the columns."
    wide = {"answers": "systems", "ratings": "raters"}.get(kind)
    if wide is not None:
        remedy = f"Rename the columns; for one row per item write [wide.{kind}] with {wide} into noracle.toml."
    return fault(f"{kind} file {seen.path!r}", rule, came, remedy=remedy)


def _no_table(name: PurePath) -> str:
    suffix = name.suffix.lower()
    known = [reason for suffixes, reason in _OTHERS.items() if suffix in suffixes]
    if known:
        return known[0]
    if suffix in _PEOPLE or name.stem.lower() in ("readme", "license", "licence", "changelog"):
        return "a text for people, not a table"
    return f"not a table ({', '.join(SUFFIXES)}), a log or stored counts"


def _toml(path: str) -> Seen:
    try:
        with open(path, "rb") as file:  # noqa: PTH123 (the path may be a text)
            tables = set(tomllib.load(file))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError):
        return Seen(path, None, "TOML that cannot be read")
    if not tables & {"labels", "raters"} or tables - _PRICE_TABLES:
        return Seen(path, None, "TOML that holds no prices")
    why = f"TOML with tables {', '.join(sorted(tables))}"
    return Seen(path, "prices", why, options={"format": "toml"}, sort="toml")
