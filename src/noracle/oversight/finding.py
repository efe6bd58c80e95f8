"""What evidence a folder holds: every file is either part of a table or left aside with a reason."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any

from noracle.errors import ArgumentError, EvidenceError, fault
from noracle.evidence.grade_logs import split_metric
from noracle.oversight.gathering import Gathering
from noracle.oversight.heads import stem_of, table_suffix
from noracle.oversight.listing import Listing, Place, is_ignored, list_files, mistaken_for
from noracle.oversight.model import SOURCE_KINDS, Inventory, Settings, Source, SourceKind, Unused
from noracle.oversight.recognise import Recogniser, Seen, kind_fault
from noracle.oversight.settings import SETTINGS_FILE, WIDE, read_settings

_SAYS: tuple[SourceKind, ...] = ("answers", "judgements", "grades", "ratings", "scores", "counts")
_SHOWN = 3


def find_evidence(
    place: Place | Sequence[Place],
    *,
    settings: Settings | None = None,
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
    Stored counts are left aside where tables are there of which they may be the counts, unless they
    are named. The result does not depend on the order in which the system lists files. How kinds
    are told apart stands in
    :mod:`noracle.oversight.recognise`.

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
        settings = dataclasses.replace(
            settings,
            files={**settings.files, "grades": (os.path.abspath(grades),)},  # noqa: PTH100
        )
    if chosen:
        columns = {**settings.columns, **chosen.get("columns", {})}
        settings = dataclasses.replace(settings, **{**chosen, "columns": columns})
    with Recogniser(settings) as recogniser:
        search = _Search(listing=listing, settings=settings, recogniser=recogniser)
        seen = search.look()
        sources = Gathering(listing=listing, recogniser=recogniser, faults=search.faults).gather(
            seen
        )
    if grades is not None:
        told = (
            dataclasses.replace(s, why=s.why.replace("named in noracle.toml", "named"))
            if s.kind == "grades"
            else s
            for s in sources
        )
        sources = tuple(told)
    if not search.faults and not any(s.kind in _SAYS for s in sources):
        search.faults.append(_nothing(listing, sources))
    if search.faults:
        raise EvidenceError(*search.faults)
    unused = tuple(sorted(listing.unused, key=lambda u: PurePath(u.path).parts))
    return Inventory(
        place=listing.place,
        sources=sources,
        unused=unused,
        settings=settings,
        notes=tuple(listing.notes),
    )


def _settings(listing: Listing, given: Settings | None) -> Settings:
    """The settings that were given or that lie in the folder; their file is no evidence."""
    paths = [f for f in listing.files if PurePath(f).name == SETTINGS_FILE]
    listing.files = [f for f in listing.files if f not in paths]
    home = [p for p in paths if PurePath(p).parent == listing.root] if listing.is_folder else paths
    read = home[0] if home and given is None else None
    for path in paths:
        reason = (
            "the settings, which were read"
            if path == read
            else "settings of another folder, or others were given; not read"
        )
        listing.unused.append(Unused(path=path, reason=reason))
    if read is None:
        return _checked(given or Settings())
    listing.root = Path(read).parent
    return read_settings(read)


def _checked(settings: Settings) -> Settings:
    """Settings that were made in Python, if they name kinds that exist, and lists of paths."""
    for name, table, kinds in (
        ("files", settings.files, SOURCE_KINDS),
        ("wide", settings.wide, tuple(WIDE)),
    ):
        other = [kind for kind in table if kind not in kinds]
        if other:
            raise ArgumentError(
                f"settings.{name} must have keys among {', '.join(kinds)}; got {other[0]!r}."
            )
    lists: dict[str, object] = {
        **{f"files[{kind!r}]": paths for kind, paths in settings.files.items()},
        "ignore": settings.ignore,
    }
    for name, paths in lists.items():
        if isinstance(paths, str):
            raise ArgumentError(
                f"settings.{name} must be a tuple of paths; got {paths!r}. Write ({paths!r},)."
            )
    return settings


def _nothing(listing: Listing, sources: Sequence[Source]) -> str:
    kinds = ", ".join(_SAYS[:-1])
    if sources:
        came = f"only {' and '.join(s.kind for s in sources)}"
    elif listing.unused:
        some = "; ".join(f"{listing.relative(u.path)}: {u.reason}" for u in listing.unused[:_SHOWN])
        came = f"{len(listing.unused)} files of other kinds ({some}{' …' if len(listing.unused) > _SHOWN else ''})"
    else:
        came = "no file"
    remedy = "Add a table such as item, system, answer, or say in noracle.toml which file is what."
    return fault(
        f"evidence in {listing.place!r}", f"must have {kinds} or stored counts", came, remedy=remedy
    )


@dataclasses.dataclass(slots=True, kw_only=True)
class _Search:
    """One search: looks at every file and says what it is."""

    listing: Listing
    settings: Settings
    recogniser: Recogniser
    faults: list[str] = dataclasses.field(default_factory=list)
    metrics: dict[str, str] = dataclasses.field(default_factory=dict)

    def leave(self, path: str, reason: str) -> None:
        """Leave a file aside."""
        self.listing.unused.append(Unused(path=path, reason=reason))

    def look(self) -> list[Seen]:
        """What every file is; those that are no evidence are left aside."""
        named = self._named()
        found = [seen for kind, path in named if (seen := self._look(path, kind)) is not None]
        taken = {_whole(path) for _, path in named}
        self.listing.unused = [u for u in self.listing.unused if _whole(u.path) not in taken]
        for path in self.listing.files:
            if _whole(path) in taken:
                continue
            if is_ignored(self.listing.relative(path), self.settings.ignore):
                self.leave(path, "ignore of noracle.toml names it")
                continue
            seen = self._look(path, None)
            if seen is not None and seen.kind is None:
                self._leave_unknown(seen)
            elif seen is not None:
                found.append(seen)
        return self._without_counts_of_tables(found, taken)

    def _named(self) -> list[tuple[SourceKind, str]]:
        """The files that the settings name, each with its kind."""
        found: dict[tuple[SourceKind, str], None] = {}
        inside = self.listing.root.resolve()
        for kind in SOURCE_KINDS:
            for pattern in self.settings.files.get(kind, ()):
                place, metric = split_metric(pattern) if kind == "grades" else (pattern, None)
                paths = self.listing.matching(str(place))
                if not paths:
                    remedy = self.listing.nearest(pattern)
                    self.faults.append(
                        fault(
                            f"{SETTINGS_FILE}: files.{kind}",
                            "must name a file",
                            repr(pattern),
                            remedy=remedy,
                        )
                    )
                for path in paths:
                    found[kind, path] = None
                    if metric is not None:
                        self.metrics[path] = metric
                    if "://" not in path and not Path(path).resolve().is_relative_to(inside):
                        self.listing.notes.append(
                            f"{path} lies outside of the folder; {SETTINGS_FILE} names it"
                        )
        return list(found)

    def _look(self, path: str, kind: SourceKind | None) -> Seen | None:
        """What the file is; None where it is left aside or broken."""
        try:
            if "://" not in path and not Path(path).stat().st_size:
                if kind is None and stem_of(path) not in SOURCE_KINDS:
                    self.leave(path, "empty: it has no bytes")
                else:
                    self.faults.append(
                        fault(
                            f"file {path!r}",
                            "must not be empty",
                            "no bytes",
                            remedy="Write a header and rows into it.",
                        )
                    )
                return None
            others = mistaken_for(path)
            if others:
                came = f"one that also names {self.listing.relative(others[0])!r}"
                self.faults.append(
                    fault(
                        f"file {path!r}",
                        "must have a name without * ? [ ]",
                        came,
                        remedy="Rename it.",
                    )
                )
                return None
            seen = self.recogniser.look(path, named=kind)
            return (
                seen
                if path not in self.metrics
                else dataclasses.replace(seen, options={"metric": self.metrics[path]})
            )
        except EvidenceError as error:
            self.faults += [
                f if kind else f"{f} If it is no evidence, add it to ignore in {SETTINGS_FILE}."
                for f in error.faults
            ]
        except OSError as error:
            remedy = f"Ask for the right to read it, or add it to ignore in {SETTINGS_FILE}."
            self.faults.append(
                fault(f"file {path!r}", "must be readable", error.strerror, remedy=remedy)
            )
        return None

    def _leave_unknown(self, seen: Seen) -> None:
        """A table that is called after a kind of evidence, and does not have its columns, is a
        fault; other files are left aside.
        """
        stem = stem_of(seen.path)
        kind = next((k for k in SOURCE_KINDS if k == stem and k != "counts"), None)
        if kind is not None and table_suffix(seen.path):
            self.faults.append(kind_fault(seen, kind))
        else:
            self.leave(seen.path, seen.why)

    def _without_counts_of_tables(self, found: list[Seen], named: set[str]) -> list[Seen]:
        """Leave stored counts aside where tables lie beside them whose counts they may be."""
        kinds = {seen.kind for seen in found}
        rivals = {
            "counts/1": {"answers", "judgements", "grades"} & kinds,
            "rating-counts/1": {"ratings"} & kinds,
        }
        kept = []
        for seen in found:
            if seen.kind == "counts" and rivals[seen.sort] and _whole(seen.path) not in named:
                tables = " and ".join(sorted(str(k) for k in rivals[seen.sort]))
                reason = f"may be counts of the {tables} beside it, which would count twice; if not, name it in [files] counts"
                self.leave(seen.path, reason)
            else:
                kept.append(seen)
        return kept


def _whole(path: str) -> str:
    return os.path.abspath(path)  # noqa: PTH100 (a link is another file than its target)
