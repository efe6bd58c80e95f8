"""What evidence a folder, a list of files or a glob holds; what is ignored has a reason."""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import filecmp
import fnmatch
import glob
import hashlib
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any

from noracle.errors import EvidenceError, fault, refuse
from noracle.evidence.grade_logs import split_metric
from noracle.evidence.ratings import VOTES
from noracle.evidence.tables import TABLES
from noracle.oversight.model import (
    SOURCE_KINDS,
    FolderSettings,
    Inventory,
    Source,
    SourceKind,
    Unused,
)
from noracle.oversight.settings import SETTINGS_FILE, WIDE, named_columns, read_settings
from noracle.oversight.sniff import Recogniser, Seen, kind_fault, stem_of, table_suffix

Place = str | os.PathLike[str]


@dataclasses.dataclass(slots=True, kw_only=True)
class Listing:
    """Files to look at, and what was ignored; settings are relative to ``root``."""

    place: str
    root: Path
    is_folder: bool = False
    files: list[str] = dataclasses.field(default_factory=list)
    unused: list[Unused] = dataclasses.field(default_factory=list)
    notes: list[str] = dataclasses.field(default_factory=list)

    def leave(self, path: str | PurePath, reason: str) -> None:
        """Leave a file aside."""
        self.unused.append(Unused(path=str(path), reason=reason))

    def relative(self, path: str) -> str:
        """The path within the folder, with slashes; as it is where it lies elsewhere."""
        if "://" in path:
            return path
        inside = PurePath(path).is_relative_to(self.root)
        return (PurePath(path).relative_to(self.root) if inside else PurePath(path)).as_posix()

    def matching(self, pattern: str) -> list[str]:
        """The files that a path or glob of the settings names; they may lie outside of the folder."""
        if "://" in pattern:
            return [pattern]
        found = matches(str(self.root / pattern))
        return [os.path.normpath(f) if ".." in PurePath(f).parts else f for f in found]

    def nearest(self, pattern: str) -> str:
        """What to do about a path that names no file."""
        known = [self.relative(f) for f in self.files]
        for near in difflib.get_close_matches(pattern, known, n=1, cutoff=0.5):
            return f"Did you mean {near!r}?"
        return "Check the path; it is relative to the folder."


def list_files(place: Place | Sequence[Place]) -> Listing:
    """The files of a folder or of a list of files, folders and globs; all faults at once."""
    alone = isinstance(place, (str, os.PathLike))
    given = [os.fspath(place)] if alone else [os.fspath(p) for p in place]  # type: ignore[arg-type,union-attr]
    if not given:
        raise EvidenceError.of("place", "must be a folder or a list of files", "an empty list")
    first = given[0]
    is_folder = len(given) == 1 and bool(first) and "\0" not in first and Path(first).is_dir()
    root = Path(first) if is_folder else Path()
    listing = Listing(place=", ".join(given), root=root, is_folder=is_folder)
    faults = [line for name in given for line in _add(listing, name)]
    if faults:
        raise EvidenceError(*faults)
    listing.files = sorted(dict.fromkeys(listing.files), key=lambda f: PurePath(f).parts)
    listing.unused = list({u.path: u for u in listing.unused}.values())
    return listing


def _add(listing: Listing, name: str) -> list[str]:
    """Add what one name names; returns what is wrong with it."""
    found = [name] if "://" in name else []
    try:
        if not found and name and Path(name).is_dir():
            listing.files += list(_walk(Path(name), listing))
            return []
        found = found or matches(name)
    except OSError as error:
        came = f"{error.filename or name!r} ({error.strerror})"
        remedy = "Ask for the right to read it."
        return [fault("place", "must be a readable folder or file", came, remedy=remedy)]
    except ValueError:  # a zero byte in a name
        pass
    listing.files += found
    rule = "must be a folder, a file, or a glob that matches files"
    came = repr(name) if name else "an empty name"
    return [] if found else [fault("place", rule, came, remedy="Check the path.")]


def matches(pattern: str) -> list[str]:
    """The file of this name, else the files that match it as a glob, sorted."""
    if Path(pattern).is_file():
        return [pattern]
    return sorted(f for f in glob.glob(pattern, recursive=True) if Path(f).is_file())  # noqa: PTH207 (the pattern may be absolute)


def mistaken_for(path: str) -> list[str]:
    """Other files that a reader may take instead of this one, where its name looks like a glob."""
    if not glob.has_magic(path) or "://" in path:
        return []
    return sorted(f for f in glob.glob(path) if f != path)  # noqa: PTH207 (may be absolute)


_DELTA = "a Delta table, whose files may hold rows that were deleted; write its rows out as Parquet"


def _walk(root: Path, listing: Listing) -> Iterator[str]:
    def fail(error: OSError) -> None:
        raise error

    leave, inside = listing.leave, root.resolve()
    for folder, folders, files in os.walk(root, onerror=fail):
        here = Path(folder)
        if "_delta_log" in folders:
            leave(here, _DELTA)
            folders.clear()
            continue
        for name in sorted(folders):
            if is_hidden(name):
                leave(here / name, "hidden: its name begins with . or _, as do all files in it")
            elif (here / name).is_symlink():
                why = "a link to a folder, which is not followed; name its files in noracle.toml"
                leave(here / name, why)
        folders[:] = sorted(n for n in folders if not is_hidden(n) and not (here / n).is_symlink())
        for name in sorted(files):
            path = here / name
            plain = str(path).encode("utf-8", "replace").decode("utf-8")
            if is_hidden(name):
                leave(path, "hidden: its name begins with . or _")
            elif plain != str(path):
                leave(plain, "a name that is not UTF-8; rename it")
            elif not path.exists():
                leave(path, "a link to nothing")
            elif not stat.S_ISREG(path.stat().st_mode):
                leave(path, "not a regular file")
            else:
                if path.is_symlink() and not path.resolve().is_relative_to(inside):
                    told = "is a link to a file outside of the folder; it was followed"
                    listing.notes.append(f"{listing.relative(str(path))} {told}")
                yield str(path)


def is_hidden(name: str) -> bool:
    """Whether a file or folder is one that tools leave for themselves."""
    return name.startswith((".", "_"))


def is_ignored(relative: str, patterns: Sequence[str]) -> bool:
    """Whether a glob matches the path, its name, or a folder that it lies in.

    Examples
    --------
    >>> is_ignored("drafts/old/a.csv", ["drafts"]), is_ignored("a.csv", ["*.csv"]), is_ignored("a.csv", ["b.csv"])
    (True, True, False)
    """
    path = PurePath(relative)
    names = [path.name, *(p.as_posix() for p in (path, *path.parents) if p.as_posix() != ".")]
    globs = [pattern.rstrip("/") for pattern in patterns]
    return any(fnmatch.fnmatchcase(name, pattern) for name in names for pattern in globs)


GATE_LEDGER, GATE_KEY = "gate.jsonl", "gate.key"
"""What ``noracle gate`` leaves in a folder."""
_PART = 65_536
_SHOWN = 3


def _of_gate(path: str) -> str:
    """What a file is that ``noracle gate`` left, with the outcomes of a ledger."""
    if PurePath(path).name == GATE_KEY:
        return "the key of a gate"
    text = ""
    with contextlib.suppress(OSError):
        text = Path(path).read_text(encoding="utf-8", errors="replace")
    counts = {o: text.count(f'"outcome":"{o}"') for o in ("pass", "fail", "undecided")}
    told = [f"{n} {outcome}" for outcome, n in counts.items()]
    return (
        f"the ledger of a gate, {', '.join(told)}: noracle gate history shows it; this report tells "
        "more of its labels than outcomes do, so let only new ones decide"
    )


def _needed(kind: SourceKind, seen: Seen) -> list[str]:
    """The columns of a table whose types must be the same in all its files."""
    if seen.form == "wide":
        return named_columns(seen.options)
    if seen.form == "votes":
        return VOTES.names(required=True)
    return TABLES[kind].names(required=True) if kind in TABLES and seen.form == "long" else []


def _form_of(seen: Seen) -> str:
    if seen.form == "wide":
        return f"a wide table ({', '.join(_needed('scores', seen)[:6])})"
    return "votes" if seen.form == "votes" else seen.why


def _format(path: str) -> str:
    suffixes = [s.lower() for s in PurePath(path).suffixes]
    kind = table_suffix(path)
    return kind + (suffixes[-1] if suffixes and suffixes[-1] != kind else "")


def _hive(path: str) -> Mapping[str, str]:
    """What the names of folders say, as in ``system=a/day=1/part.parquet``."""
    parts = [part.partition("=") for part in PurePath(path).parts[:-1] if "=" in part]
    return {key: value for key, _, value in parts if key}


def _ends(path: str) -> object:
    """What tells most files apart without reading them: size, first and last bytes."""
    if "://" in path:
        return path
    size = Path(path).stat().st_size
    with Path(path).open("rb") as file:
        first = file.read(_PART)
        file.seek(max(0, size - _PART))
        return size, hashlib.blake2b(first + file.read(_PART), digest_size=16).digest()


_SAYS = tuple(kind for kind in SOURCE_KINDS if kind not in ("items", "prices"))


def find_evidence(
    place: Place | Sequence[Place],
    *,
    settings: FolderSettings | None = None,
    chosen: Mapping[str, Any] | None = None,
    grades: str | None = None,
) -> Inventory:
    r"""Say what evidence there is, by what the files hold.

    Parameters
    ----------
    place
        A folder, which is searched with all folders in it; a file or glob; or a list of files.
    settings
        What is known beforehand; by default ``noracle.toml`` of the folder, if there is one. Files
        that it names are not guessed.
    chosen
        Settings that stand instead of those, by name; ``columns`` are added to them.
    grades
        A file of grades, in the place or elsewhere, which stands in place of those that the
        settings name.

    Returns
    -------
    Inventory
        One source for each kind of evidence, with all its files. Every other file is in ``unused``
        with the reason; a folder that is there stands for all files in it.

    Raises
    ------
    EvidenceError
        If the place does not exist or holds no evidence; if a table cannot be read, or is called
        after a kind of evidence and does not have its columns; if several tables of one kind are
        not parts of one table; if the settings break a rule. All faults at once.

    Notes
    -----
    Files of one kind are parts of one table where they have one format and the columns that are
    needed hold the same type of values; a note says so. Copies (the same bytes) are used once. Only
    the heads of files are read: a row that breaks a rule is found when the evidence is counted.
    Stored counts are ignored where tables are there of which they may be the counts, unless they
    are named. The result does not depend on the order in which the system lists files. How kinds
    are told apart stands in
    :mod:`noracle.oversight.sniff`.

    Assumption: columns mean what their names say. No method can tell a table of another study with
    the same columns and types.

    References
    ----------
    The columns are those of :data:`noracle.evidence.tables.TABLES`.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = pathlib.Path(folder, "said.csv").write_text("item,system,answer\n1,a,0\n", encoding="utf-8")
    ...     _ = pathlib.Path(folder, "key.csv").write_text("item,label\n1,0\n", encoding="utf-8")
    ...     found = find_evidence(folder)
    >>> [(s.kind, s.why) for s in found.sources], [u.reason[:37] for u in found.unused]
    ([('answers', 'columns item, system, answer')], ['item and label alone look like an ans'])
    """
    listing = list_files(place)
    settings = _settings(listing, settings)
    if grades is not None:
        files = {**settings.files, "grades": (_whole(grades),)}
        settings = dataclasses.replace(settings, files=files)
    if chosen:
        columns = {**settings.columns, **chosen.get("columns", {})}
        settings = dataclasses.replace(settings, **{**chosen, "columns": columns})
    with Recogniser(settings) as recogniser:
        search = _FolderSearch(listing=listing, settings=settings, recogniser=recogniser)
        sources = search.gather(search.look())
    if grades is not None:
        sources = tuple(
            dataclasses.replace(s, why=s.why.replace("named in noracle.toml", "named"))
            if s.kind == "grades"
            else s
            for s in sources
        )
    if not search.faults and not any(s.kind in _SAYS for s in sources):
        search.faults.append(_nothing(listing, sources))
    if search.faults:
        raise EvidenceError(*search.faults)
    return Inventory(
        place=listing.place,
        sources=sources,
        unused=tuple(sorted(listing.unused, key=lambda u: PurePath(u.path).parts)),
        settings=settings,
        notes=tuple(listing.notes),
    )


def _settings(listing: Listing, given: FolderSettings | None) -> FolderSettings:
    """The settings that were given or that lie in the folder; their file is no evidence."""
    paths = [f for f in listing.files if PurePath(f).name == SETTINGS_FILE]
    listing.files = [f for f in listing.files if f not in paths]
    home = [p for p in paths if PurePath(p).parent == listing.root] if listing.is_folder else paths
    read = home[0] if home and given is None else None
    for path in paths:
        other = "settings of another folder, or others were given; not read"
        listing.leave(path, "the settings, which were read" if path == read else other)
    if read is None:
        return _checked(given or FolderSettings())
    listing.root = Path(read).parent
    return read_settings(read)


def _checked(settings: FolderSettings) -> FolderSettings:
    """Settings that were made in Python, if they name kinds that exist, and lists of paths."""
    rules: dict[str, object] = {}
    tables: tuple[Any, ...] = ("files", settings.files, SOURCE_KINDS), ("wide", settings.wide, WIDE)
    for name, table, kinds in tables:
        rule = f"settings.{name} must have keys among {', '.join(kinds)}"
        rules |= {f"{rule}; got {kind!r}.": kind not in kinds for kind in table}
    lists = {f"files[{kind!r}]": paths for kind, paths in settings.files.items()}
    for name, paths in {**lists, "ignore": settings.ignore}.items():
        rule = f"settings.{name} must be a tuple of paths; got {paths!r}. Write ({paths!r},)."
        rules[rule] = isinstance(paths, str)
    refuse(rules)
    return settings


def _nothing(listing: Listing, sources: Sequence[Source]) -> str:
    came, unused = "no file", listing.unused
    if sources:
        came = f"only {' and '.join(s.kind for s in sources)}"
    elif unused:
        some = "; ".join(f"{listing.relative(u.path)}: {u.reason}" for u in unused[:_SHOWN])
        came = f"{len(unused)} files of other kinds ({some}{' …' if len(unused) > _SHOWN else ''})"
    rule = f"must have {', '.join(_SAYS[:-1])} or stored counts"
    remedy = "Add a table such as item, system, answer, or say in noracle.toml which file is what."
    return fault(f"evidence in {listing.place!r}", rule, came, remedy=remedy)


@dataclasses.dataclass(slots=True, kw_only=True)
class _FolderSearch:
    """Looks at every file, says what it is, and puts the files of one kind together."""

    listing: Listing
    settings: FolderSettings
    recogniser: Recogniser
    faults: list[str] = dataclasses.field(default_factory=list)
    metrics: dict[str, str] = dataclasses.field(default_factory=dict)

    def look(self) -> list[Seen]:
        """What every file is; those that are no evidence are ignored."""
        named, listing = self._named(), self.listing
        found = [seen for kind, path in named if (seen := self._look(path, kind)) is not None]
        taken = {_whole(path) for _, path in named}
        listing.unused = [u for u in listing.unused if _whole(u.path) not in taken]
        for path in [f for f in listing.files if _whole(f) not in taken]:
            if is_ignored(listing.relative(path), self.settings.ignore):
                listing.leave(path, "ignore of noracle.toml names it")
                continue
            if PurePath(path).name in (GATE_LEDGER, GATE_KEY):
                listing.leave(path, _of_gate(path))
                continue
            seen = self._look(path, None)
            told = next((k for k in SOURCE_KINDS if k == stem_of(path) and k != "counts"), None)
            if seen is not None and seen.kind is not None:
                found.append(seen)
            elif seen is not None and told is not None and table_suffix(path):
                # Called after a kind, without its columns.
                self.faults.append(kind_fault(seen, told))
            elif seen is not None:
                listing.leave(path, seen.why)
        return self._without_counts_of_tables(found, taken)

    def _named(self) -> list[tuple[SourceKind, str]]:
        """The files that the settings name, each with its kind."""
        found: dict[tuple[SourceKind, str], None] = {}
        inside = self.listing.root.resolve()
        wanted = [(kind, p) for kind in SOURCE_KINDS for p in self.settings.files.get(kind, ())]
        for kind, pattern in wanted:
            place, metric = split_metric(pattern) if kind == "grades" else (pattern, None)
            paths = self.listing.matching(str(place))
            if not paths:
                where, remedy = f"{SETTINGS_FILE}: files.{kind}", self.listing.nearest(pattern)
                self.faults.append(fault(where, "must name a file", repr(pattern), remedy=remedy))
            for path in paths:
                found[kind, path] = None
                if metric is not None:
                    self.metrics[path] = metric
                if "://" not in path and not Path(path).resolve().is_relative_to(inside):
                    note = f"{path} lies outside of the folder; {SETTINGS_FILE} names it"
                    self.listing.notes.append(note)
        return list(found)

    def _look(self, path: str, kind: SourceKind | None) -> Seen | None:
        """What the file is; None where it is ignored or broken."""
        name = f"file {path!r}"
        try:
            if "://" not in path and not Path(path).stat().st_size:
                if kind is None and stem_of(path) not in SOURCE_KINDS:
                    self.listing.leave(path, "empty: it has no bytes")
                    return None
                remedy = "Write a header and rows into it."
                self.faults.append(fault(name, "must not be empty", "no bytes", remedy=remedy))
                return None
            for other in mistaken_for(path):
                came = f"one that also names {self.listing.relative(other)!r}"
                rule = "must have a name without * ? [ ]"
                self.faults.append(fault(name, rule, came, remedy="Rename it."))
                return None
            seen = self.recogniser.look(path, named=kind)
            if path in self.metrics:
                seen = dataclasses.replace(seen, options={"metric": self.metrics[path]})
            return seen
        except EvidenceError as error:
            more = "" if kind else f" If it is no evidence, add it to ignore in {SETTINGS_FILE}."
            self.faults += [f"{line}{more}" for line in error.faults]
        except OSError as error:
            remedy = f"Ask for the right to read it, or add it to ignore in {SETTINGS_FILE}."
            self.faults.append(fault(name, "must be readable", error.strerror, remedy=remedy))
        return None

    def _without_counts_of_tables(self, found: list[Seen], named: set[str]) -> list[Seen]:
        """Leave stored counts aside where tables lie beside them whose counts they may be."""
        kinds = {str(seen.kind) for seen in found}
        rivals = {"counts/1": {"answers", "judgements", "grades"} & kinds}
        rivals["rating-counts/1"] = {"ratings"} & kinds
        for seen in [s for s in found if s.kind == "counts" and _whole(s.path) not in named]:
            tables = " and ".join(sorted(rivals[seen.sort]))
            reason = f"may be counts of the {tables} beside it, which would count twice; if not, name it in [files] counts"
            if tables:
                self.listing.leave(seen.path, reason)
                found.remove(seen)
        return found

    def gather(self, seen: Sequence[Seen]) -> tuple[Source, ...]:
        """The sources, in the order of kinds."""
        try:
            return self._gather(seen)
        except EvidenceError as error:
            self.faults += error.faults
        except OSError as error:  # a file that was there a moment ago
            name, rule = f"file {error.filename!r}", "must stay where it is"
            self.faults.append(fault(name, rule, error.strerror, remedy="Look again."))
        return ()

    def _gather(self, seen: Sequence[Seen]) -> tuple[Source, ...]:
        sources = []
        ordered = sorted(seen, key=lambda s: PurePath(s.path).parts)
        for kind in SOURCE_KINDS:
            groups: dict[str, list[Seen]] = {}
            for file in self._once([s for s in ordered if s.kind == kind]):
                groups.setdefault(file.sort, []).append(file)
            if len(groups) > 1 and kind != "counts":
                (first, *_), (second, *_) = list(groups.values())[:2]
                self._apart(kind, first, _form_of(first), second, _form_of(second))
                continue
            sources += [self._source(kind, group) for group in groups.values()]
        return tuple(sources)

    def _once(self, files: list[Seen]) -> list[Seen]:
        """The files without copies, which the same folders or the same log lie beside."""
        kept = []
        alike: dict[object, list[str]] = {}
        for file in files:
            log = file.form == "log"
            place = PurePath(file.path).parent if log else tuple(_hive(file.path).items())
            others = alike.setdefault((place, _ends(file.path)), [])
            same = [other for other in others if filecmp.cmp(other, file.path, shallow=False)]
            if same:
                copy = self.listing.relative(same[0])
                self.listing.leave(file.path, f"the same bytes as {copy}, which is used")
            else:
                others.append(file.path)
                kept.append(file)
        return kept

    def _apart(self, kind: str, one: Seen, this: str, other: Seen, that: str) -> None:
        """Two files of one kind that are no parts of one table."""
        came = f"{this} in {self.listing.relative(one.path)!r} and {that} in {self.listing.relative(other.path)!r}"
        remedy = f"Name the files of one table under [files] {kind} in {SETTINGS_FILE}, and the others under ignore."
        self.faults.append(fault(kind, "must be one table", came, remedy=remedy))

    def _source(self, kind: SourceKind, files: list[Seen]) -> Source:
        first, listing = files[0], self.listing
        names = [listing.relative(f.path) for f in files]
        columns = tuple(dict.fromkeys(c for file in files for c in file.columns))
        stem = stem_of(first.path)
        if len(files) > 1:
            self._check_parts(kind, files)
            partly = [c for c in columns if any(c not in file.columns for file in files)]
            more = f"; not all of them have the columns {', '.join(partly)}" if partly else ""
            some = ", ".join(names[:_SHOWN]) + (", …" if len(files) > _SHOWN else "")
            what = "added" if kind == "counts" else f"one table of {kind}"
            listing.notes.append(f"{len(files)} files are {what}: {some}{more}")
        elif stem != kind and stem in SOURCE_KINDS:
            listing.notes.append(f"{names[0]} holds {kind}, by its columns")
        paths = tuple(f.path for f in files)
        unread = self.faults or first.form in ("log", "json")
        return Source(
            kind=kind,
            paths=paths,
            why=first.why,
            columns=columns,
            form=first.form,
            options=first.options,
            n_rows=None if unread else self.recogniser.n_rows(paths),
        )

    def _check_parts(self, kind: SourceKind, files: list[Seen]) -> None:
        """Refuse files that cannot be read as one table."""
        first, ours = files[0], self._traits(kind, files[0])
        for file in files[1:]:
            for this, that in zip(ours, self._traits(kind, file), strict=False):
                if this != that or kind == "prices":
                    self._apart(kind, first, this, file, that.removeprefix("fields separated "))
                    return
        for column in _needed(kind, first):
            self._check_type(kind, column, files)

    @staticmethod
    def _traits(kind: SourceKind, file: Seen) -> list[str]:
        """What all files of one table must share, in words."""
        if kind == "prices":
            return ["prices"]
        keys = list(_hive(file.path))
        folders = f"folders by {', '.join(keys)}" if keys else "no such folders"
        ends = [] if file.form in ("log", "json") else [_format(file.path), folders]
        return [*ends[:1], f"fields separated by {file.separator!r}", *ends[1:]]

    def _check_type(self, kind: SourceKind, column: str, files: list[Seen]) -> None:
        """A needed column must hold numbers or text in all files, where it has values."""
        held: dict[str, list[Seen]] = {}
        for file in files:
            word = file.types.get(column, "null")
            held.setdefault("numbers" if word in ("whole", "float") else word, []).append(file)
        held.pop("null", None)
        if len(held) > 1 and "text" in held:
            filled = (self.recogniser.has_values(f.path, column) for f in held["text"])
            held = held if any(filled) else {k: v for k, v in held.items() if k != "text"}
        if len(held) > 1:
            (this, (one, *_)), (that, (other, *_)) = list(held.items())[:2]
            self._apart(kind, one, f"{column} holds {this}", other, that)


def _whole(path: str) -> str:
    return os.path.abspath(path)  # noqa: PTH100 (a link is another file than its target)
