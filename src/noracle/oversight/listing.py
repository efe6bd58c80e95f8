"""Which files there are: those of a folder, of a list or of a glob, in a fixed order.

Hidden files and folders (``.name``, ``_name``), links to folders, links to nothing and what is no
file at all are left aside, each with its reason. A link to a file is followed.
"""

from __future__ import annotations

import dataclasses
import difflib
import fnmatch
import glob
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePath

from noracle.errors import EvidenceError, fault
from noracle.oversight.model import Unused

Place = str | os.PathLike[str]


@dataclasses.dataclass(slots=True, kw_only=True)
class Listing:
    """Files to look at, and what was left aside; ``root`` is the folder that settings are relative
    to.
    """

    place: str
    root: Path
    is_folder: bool = False
    files: list[str] = dataclasses.field(default_factory=list)
    unused: list[Unused] = dataclasses.field(default_factory=list)
    notes: list[str] = dataclasses.field(default_factory=list)

    def relative(self, path: str) -> str:
        """The path within the folder, with slashes; as it is where it lies elsewhere."""
        if "://" in path:
            return path
        try:
            return PurePath(path).relative_to(self.root).as_posix()
        except ValueError:
            return PurePath(path).as_posix()

    def matching(self, pattern: str) -> list[str]:
        """The files that a path or glob of the settings names; they may lie outside of the folder."""
        if "://" in pattern:
            return [pattern]
        found = matches(str(self.root / pattern))
        return [
            str(PurePath(os.path.normpath(f))) if ".." in PurePath(f).parts else f for f in found
        ]

    def nearest(self, pattern: str) -> str:
        """What to do about a path that names no file."""
        near = difflib.get_close_matches(
            pattern, [self.relative(f) for f in self.files], n=1, cutoff=0.5
        )
        return (
            f"Did you mean {near[0]!r}?"
            if near
            else "Check the path; it is relative to the folder."
        )


def list_files(place: Place | Sequence[Place]) -> Listing:
    """The files of a folder or of a list of files, folders and globs; sorted.

    Raises
    ------
    EvidenceError
        If a name names nothing, or a folder cannot be read; all at once.
    """
    alone = isinstance(place, (str, os.PathLike))
    given = [os.fspath(place)] if alone else [os.fspath(p) for p in place]  # type: ignore[arg-type,union-attr]
    if not given:
        raise EvidenceError(fault("place", "must be a folder or a list of files", "an empty list"))
    is_folder = (
        len(given) == 1 and bool(given[0]) and "\0" not in given[0] and Path(given[0]).is_dir()
    )
    listing = Listing(
        place=", ".join(given), root=Path(given[0]) if is_folder else Path(), is_folder=is_folder
    )
    faults: list[str] = []
    for name in given:
        faults += _add(listing, name)
    if faults:
        raise EvidenceError(*faults)
    listing.files = sorted(dict.fromkeys(listing.files), key=lambda f: PurePath(f).parts)
    listing.unused = list({u.path: u for u in listing.unused}.values())
    return listing


def _add(listing: Listing, name: str) -> list[str]:
    """Add what one name names; returns what is wrong with it."""
    if "://" in name:
        listing.files.append(name)
        return []
    try:
        if name and Path(name).is_dir():
            listing.files += list(_walk(Path(name), listing))
            return []
        found = matches(name)
    except OSError as error:
        came = f"{error.filename or name!r} ({error.strerror})"
        return [
            fault(
                "place",
                "must be a readable folder or file",
                came,
                remedy="Ask for the right to read it.",
            )
        ]
    except ValueError:  # a zero byte in a name
        found = []
    if not found:
        came = repr(name) if name else "an empty name"
        return [
            fault(
                "place",
                "must be a folder, a file, or a glob that matches files",
                came,
                remedy="Check the path.",
            )
        ]
    listing.files += found
    return []


def matches(pattern: str) -> list[str]:
    """The file of this name, else the files that match it as a glob, sorted."""
    if Path(pattern).is_file():
        return [pattern]
    return sorted(f for f in glob.glob(pattern, recursive=True) if Path(f).is_file())  # noqa: PTH207 (the pattern may be absolute)


def mistaken_for(path: str) -> list[str]:
    """Other files that a reader may take instead of this one, where its name looks like a glob."""
    if not glob.has_magic(path) or "://" in path:
        return []
    return sorted(f for f in glob.glob(path) if f != path)  # noqa: PTH207 (the pattern may be absolute)


def _walk(root: Path, listing: Listing) -> Iterator[str]:
    def fail(error: OSError) -> None:
        raise error

    def leave(path: PurePath, reason: str) -> None:
        listing.unused.append(Unused(path=str(path), reason=reason))

    inside = root.resolve()
    for folder, folders, files in os.walk(root, onerror=fail):
        here = Path(folder)
        if "_delta_log" in folders:
            leave(
                here,
                "a Delta table, whose files may hold rows that were deleted; write its rows out as Parquet",
            )
            folders.clear()
            continue
        for name in sorted(folders):
            if is_hidden(name):
                leave(here / name, "hidden: its name begins with . or _, as do all files in it")
            elif (here / name).is_symlink():
                leave(
                    here / name,
                    "a link to a folder, which is not followed; name its files in noracle.toml",
                )
        folders[:] = sorted(n for n in folders if not is_hidden(n) and not (here / n).is_symlink())
        for name in sorted(files):
            path = here / name
            if is_hidden(name):
                leave(path, "hidden: its name begins with . or _")
            elif not str(path).isprintable() and _garbled(str(path)):
                leave(PurePath(_garbled(str(path))), "a name that is not UTF-8; rename it")
            elif not path.exists():
                leave(path, "a link to nothing")
            elif not stat.S_ISREG(path.stat().st_mode):
                leave(path, "not a regular file")
            else:
                if path.is_symlink() and not path.resolve().is_relative_to(inside):
                    listing.notes.append(
                        f"{listing.relative(str(path))} is a link to a file outside of the folder; it was followed"
                    )
                yield str(path)


def _garbled(path: str) -> str:
    """The path with marks for the bytes that are no text; empty where it is all text."""
    plain = path.encode("utf-8", "replace").decode("utf-8")
    return "" if plain == path else plain


def is_hidden(name: str) -> bool:
    """Whether a file or folder is one that tools leave for themselves.

    Examples
    --------
    >>> is_hidden(".git"), is_hidden("_SUCCESS"), is_hidden("answers.csv")
    (True, True, False)
    """
    return name.startswith((".", "_"))


def is_ignored(relative: str, patterns: Sequence[str]) -> bool:
    """Whether one of the globs matches the path within the folder, its name, or a folder that it
    lies in.

    Examples
    --------
    >>> is_ignored("drafts/old/a.csv", ["drafts"]), is_ignored("a.csv", ["*.csv"]), is_ignored("a.csv", ["b.csv"])
    (True, True, False)
    """
    path = PurePath(relative)
    names = [
        path.as_posix(),
        path.name,
        *(p.as_posix() for p in path.parents if p.as_posix() != "."),
    ]
    return any(
        fnmatch.fnmatchcase(name, pattern.rstrip("/")) for name in names for pattern in patterns
    )
