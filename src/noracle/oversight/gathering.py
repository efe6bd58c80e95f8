"""Files of one kind as one table, or why they are not."""

from __future__ import annotations

import dataclasses
import filecmp
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any

from noracle.errors import EvidenceError, fault
from noracle.evidence.rating_rules import VOTES
from noracle.evidence.tables import TABLES
from noracle.oversight.heads import stem_of, table_suffix
from noracle.oversight.listing import Listing
from noracle.oversight.model import SOURCE_KINDS, Source, SourceKind, Unused
from noracle.oversight.recognise import Recogniser, Seen
from noracle.oversight.settings import SETTINGS_FILE

_PART = 65_536
_SHOWN = 3


@dataclasses.dataclass(slots=True, kw_only=True)
class Gathering:
    """Puts the files of one kind together; what is left aside and what is noted goes to the
    listing, what is wrong to ``faults``.
    """

    listing: Listing
    recogniser: Recogniser
    faults: list[str]

    def gather(self, seen: Sequence[Seen]) -> tuple[Source, ...]:
        """The sources, in the order of kinds."""
        try:
            return self._gather(seen)
        except EvidenceError as error:
            self.faults += error.faults
        except OSError as error:  # a file that was there a moment ago
            self.faults.append(
                fault(
                    f"file {error.filename!r}",
                    "must stay where it is",
                    error.strerror,
                    remedy="Look again.",
                )
            )
        return ()

    def _gather(self, seen: Sequence[Seen]) -> tuple[Source, ...]:
        sources = []
        for kind in SOURCE_KINDS:
            files = self._once(
                sorted((s for s in seen if s.kind == kind), key=lambda s: PurePath(s.path).parts)
            )
            groups: dict[str, list[Seen]] = {}
            for file in files:
                groups.setdefault(file.sort, []).append(file)
            if len(groups) > 1 and kind != "counts":
                first, second = list(groups.values())[:2]
                self._apart(kind, first[0], _form_of(first[0]), second[0], _form_of(second[0]))
                continue
            sources += [self._source(kind, group) for group in groups.values()]
        return tuple(sources)

    def _once(self, files: list[Seen]) -> list[Seen]:
        """The files without copies. A folder may say what the file does not (``system=a``, or a
        model of lm-eval): these are no copies.
        """
        kept = []
        alike: dict[object, list[str]] = {}
        for file in files:
            place = (
                PurePath(file.path).parent
                if file.form == "log"
                else tuple(_hive(file.path).items())
            )
            others = alike.setdefault((place, _ends(file.path)), [])
            copy = next(
                (other for other in others if filecmp.cmp(other, file.path, shallow=False)), None
            )
            if copy is None:
                others.append(file.path)
                kept.append(file)
            else:
                reason = f"the same bytes as {self.listing.relative(copy)}, which is used"
                self.listing.unused.append(Unused(path=file.path, reason=reason))
        return kept

    def _apart(self, kind: str, one: Seen, this: str, other: Seen, that: str) -> None:
        """Two files of one kind that are no parts of one table."""
        came = f"{this} in {self.listing.relative(one.path)!r} and {that} in {self.listing.relative(other.path)!r}"
        remedy = f"Name the files of one table under [files] {kind} in {SETTINGS_FILE}, and the others under ignore."
        self.faults.append(fault(kind, "must be one table", came, remedy=remedy))

    def _source(self, kind: SourceKind, files: list[Seen]) -> Source:
        first = files[0]
        if len(files) > 1:
            self._check_parts(kind, files)
        columns = tuple(dict.fromkeys(c for file in files for c in file.columns))
        if len(files) > 1:
            partly = [c for c in columns if any(c not in file.columns for file in files)]
            more = f"; not all of them have the columns {', '.join(partly)}" if partly else ""
            some = ", ".join(self.listing.relative(f.path) for f in files[:_SHOWN]) + (
                ", …" if len(files) > _SHOWN else ""
            )
            what = "added" if kind == "counts" else f"one table of {kind}"
            self.listing.notes.append(f"{len(files)} files are {what}: {some}{more}")
        stem = stem_of(first.path)
        if len(files) == 1 and stem != kind and stem in SOURCE_KINDS:
            self.listing.notes.append(
                f"{self.listing.relative(first.path)} holds {kind}, by its columns"
            )
        paths = tuple(f.path for f in files)
        rows = (
            None if self.faults or first.form in ("log", "json") else self.recogniser.n_rows(paths)
        )
        form: Any = first.form
        return Source(
            kind=kind,
            paths=paths,
            why=first.why,
            columns=columns,
            form=form,
            options=first.options,
            n_rows=rows,
        )

    def _check_parts(self, kind: SourceKind, files: list[Seen]) -> None:
        """Refuse files that cannot be read as one table: other formats, other folders of
        partitions, other types.
        """
        first = files[0]
        for file in files[1:]:
            formats = [_format(f.path) for f in (first, file)]
            folders = [list(_hive(f.path)) for f in (first, file)]
            if kind == "prices":
                self._apart(kind, first, "prices", file, "prices")
                return
            if formats[0] != formats[1] and first.form not in ("log", "json"):
                self._apart(kind, first, formats[0], file, formats[1])
                return
            if first.separator != file.separator:
                self._apart(
                    kind,
                    first,
                    f"fields separated by {first.separator!r}",
                    file,
                    f"by {file.separator!r}",
                )
                return
            if folders[0] != folders[1] and first.form not in ("log", "json"):
                self._apart(kind, first, _folders(folders[0]), file, _folders(folders[1]))
                return
        for column in _needed(kind, first):
            self._check_type(kind, column, files)

    def _check_type(self, kind: SourceKind, column: str, files: list[Seen]) -> None:
        """A column that is needed must hold numbers in all files or text in all files; one without
        values fits both.
        """
        words = {"whole": "whole numbers", "float": "numbers"}
        held: dict[str, Seen] = {}
        for file in files:
            word = words.get(file.types.get(column, "null"), file.types.get(column, "null"))
            held.setdefault("numbers" if word in words.values() else word, file)
        held.pop("null", None)
        if (
            len(held) > 1
            and "text" in held
            and not any(
                self.recogniser.has_values(f.path, column)
                for f in files
                if f.types.get(column) == "text"
            )
        ):
            del held["text"]
        if len(held) > 1:
            (this, one), (that, other) = list(held.items())[:2]
            self._apart(kind, one, f"{column} holds {this}", other, that)


def _needed(kind: SourceKind, seen: Seen) -> list[str]:
    """The columns of a table whose types must be the same in all its files."""
    if seen.form == "wide":
        return [
            name
            for value in seen.options.values()
            for name in ((value,) if isinstance(value, str) else value)
        ]
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


def _folders(keys: Sequence[str]) -> str:
    return f"folders by {', '.join(keys)}" if keys else "no such folders"


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
