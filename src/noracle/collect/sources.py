"""Where uploaded tables and their images are: a file, a folder or a zip, on the disk or in memory.

Nothing is unpacked to the disk and nothing outside the folder or the zip is read.
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import IO, Any, Protocol

from noracle.collect.content import MOST_BYTES, Picture, clean_image
from noracle.collect.errors import Refused
from noracle.errors import EvidenceError, fault

SUFFIXES = (".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".parquet", ".pq")
_MOST_MEMBERS, _MOST_TABLE = 500_000, 2_000_000_000
_UNREADABLE = (OSError, EOFError, zlib.error, zipfile.BadZipFile, RuntimeError, NotImplementedError)
Record = dict[str, Any]


# ------------------------------------------------------------------------------------------------------------------
# images


class Images(Protocol):
    """Where the images of a table are."""

    def read(self, name: str) -> bytes | None:
        """The bytes of an image; None if there is none of this name."""


class _None:
    def read(self, name: str) -> bytes | None:
        del name
        return None


class _Folder:
    def __init__(self, root: Path) -> None:
        self.root = root.resolve()

    def read(self, name: str) -> bytes | None:
        path = (self.root / name).resolve()
        if not path.is_relative_to(self.root) or not path.is_file():
            return None
        with path.open("rb") as file:
            return file.read(MOST_BYTES + 1)


class _Zip:
    def __init__(self, whole: zipfile.ZipFile, base: str) -> None:
        self.whole, self.base, self.names = whole, base, set(whole.namelist())

    def read(self, name: str) -> bytes | None:
        for known in (str(PurePosixPath(self.base) / name), name):
            if known in self.names:
                with self.whole.open(known) as file:
                    return file.read(MOST_BYTES + 1)
        return None


class Shelf:
    """Pictures that were drawn anew, each once."""

    def __init__(self, images: Images) -> None:
        self._images = images
        self._known: dict[str, str] = {}
        self.pictures: dict[str, Picture] = {}

    def take(self, name: str, item: str) -> str:
        """The SHA-256 of the picture that an item names."""
        if name not in self._known:
            if "://" in name or name.startswith(("//", "data:")):
                raise Refused(
                    fault(
                        "image",
                        "must be a file that is uploaded with the table; nothing is fetched",
                        "an address",
                        where=[item],
                    )
                )
            data = self._images.read(name.replace("\\", "/").removeprefix("./"))
            if data is None:
                raise Refused(
                    fault(
                        "image",
                        "must be a file inside the folder or zip",
                        "one that is not there",
                        where=[item],
                    )
                )
            try:
                picture = clean_image(data)
            except Refused as error:
                raise Refused(f"{str(error).rstrip('.')} at item {item}.") from None
            self._known[name] = picture.sha256
            self.pictures[picture.sha256] = picture
        return self._known[name]


# ------------------------------------------------------------------------------------------------------------------
# tables


class opened:  # noqa: N801 (used as a function)
    """The table of a source, its title for messages, and where its images are."""

    def __init__(self, source: str | Path | bytes, name: str, images: str | Path | None) -> None:
        self._source, self._name, self._images = source, name, images
        self._open: list[Any] = []

    def __enter__(self) -> tuple[IO[bytes], str, Images]:
        try:
            return self._find()
        except BaseException as error:
            self.__exit__(type(error), error)
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, *_: object
    ) -> None:
        while self._open:
            self._open.pop().close()
        if isinstance(error, _UNREADABLE):
            raise Refused(
                f"{PurePosixPath(self._name).name or 'the file'} must be readable; {type(error).__name__}."
            ) from None

    def _find(self) -> tuple[IO[bytes], str, Images]:
        images: Images = _None() if self._images is None else _Folder(Path(self._images))
        if isinstance(self._source, bytes):
            file: IO[bytes] = io.BytesIO(self._source)
            title = PurePosixPath(self._name or "upload").name
        else:
            path = Path(self._source)
            if path.is_dir():
                inside = _choose([p.name for p in sorted(path.iterdir()) if p.is_file()], str(path))
                images = _Folder(path) if self._images is None else images
                path = path / inside
            if not path.is_file():
                raise Refused(
                    f"source must name a file or folder that is there; got {str(path)!r}."
                )
            file, title = path.open("rb"), path.name
        self._open.append(file)
        if title.lower().endswith(".zip") or file.read(4) == b"PK\x03\x04":
            return self._find_in_zip(file, title, images)
        file.seek(0)
        return file, title, images

    def _find_in_zip(
        self, file: IO[bytes], title: str, images: Images
    ) -> tuple[IO[bytes], str, Images]:
        whole = zipfile.ZipFile(file)
        self._open.append(whole)
        names = [
            n
            for n in whole.namelist()
            if not n.endswith("/")
            and not PurePosixPath(n).name.startswith(".")
            and "__MACOSX" not in n
        ]
        if len(names) > _MOST_MEMBERS:
            raise Refused(f"{title} must hold at most {_MOST_MEMBERS} files; got {len(names)}.")
        inside = _choose(names, title)
        if whole.getinfo(inside).file_size > _MOST_TABLE:
            raise Refused(f"{inside} must have at most {_MOST_TABLE} bytes.")
        table = whole.open(inside)
        self._open.append(table)
        return (
            table,
            inside,
            _Zip(whole, str(PurePosixPath(inside).parent)) if self._images is None else images,
        )


def _choose(names: Sequence[str], title: str) -> str:
    tables = [n for n in names if PurePosixPath(n).suffix.lower() in SUFFIXES]
    named = [n for n in tables if PurePosixPath(n).stem.lower() == "items"]
    chosen = named or tables
    if len(chosen) != 1:
        raise Refused(f"{title} must hold one table, items.jsonl or the like; got {len(chosen)}.")
    return chosen[0]


def rows_of(file: IO[bytes], title: str) -> Iterator[Record]:
    """The rows of a table, one after the other; ``title`` tells its format by how it ends."""
    suffix = PurePosixPath(title).suffix.lower()
    if suffix not in SUFFIXES:
        raise Refused(f"{title} must end in {', '.join(SUFFIXES)} or .zip.")
    if suffix in (".parquet", ".pq"):
        yield from _parquet(file)
        return
    text = io.TextIOWrapper(file, encoding="utf-8-sig", newline="")
    try:
        reader = (
            _json_lines
            if suffix in (".jsonl", ".ndjson")
            else _json_list
            if suffix == ".json"
            else _table
        )
        yield from reader(text, title)
    except UnicodeDecodeError:
        raise Refused(f"{title} must be UTF-8 text. Save it as UTF-8.") from None
    except RecursionError:
        raise Refused(f"{title} must not be nested so deeply.") from None
    finally:
        with contextlib.suppress(ValueError):  # who reads only some rows may have closed the file
            text.detach()


def _json_lines(text: IO[str], title: str) -> Iterator[Record]:
    for number, line in enumerate(text, 1):
        if line.strip():
            try:
                row = json.loads(line)
            except ValueError:
                raise Refused(
                    f"{title} must hold one JSON object a line; line {number} is none."
                ) from None
            yield _object(row, title, number)


def _json_list(text: IO[str], title: str) -> Iterator[Record]:
    try:
        rows = json.load(text)
    except UnicodeDecodeError:
        raise
    except ValueError:
        raise Refused(f"{title} must be a JSON list of objects.") from None
    if not isinstance(rows, list):
        raise Refused(f"{title} must be a JSON list of objects.")
    yield from (_object(row, title, number) for number, row in enumerate(rows, 1))


def _object(row: object, title: str, number: int) -> Record:
    if not isinstance(row, dict):
        raise Refused(f"{title} must hold JSON objects; number {number} is a {type(row).__name__}.")
    return row


def _table(text: IO[str], title: str) -> Iterator[Record]:
    header = text.readline()
    mark = max(",;\t|", key=header.count)
    names = [name.strip() for name in next(csv.reader([header], delimiter=mark), [])]
    reader = csv.reader(text, delimiter=mark, strict=True)
    try:
        for cells in reader:
            if cells:
                if len(cells) != len(names):
                    raise Refused(
                        f"{title} must have {len(names)} cells in every row; line {reader.line_num + 1} has {len(cells)}."
                    )
                yield dict(zip(names, cells, strict=True))
    except csv.Error as error:
        raise Refused(
            f"{title} must be a regular CSV file; line {reader.line_num + 1}: {error}."
        ) from None


def _parquet(file: IO[bytes]) -> Iterator[Record]:
    import duckdb

    from noracle.evidence import files

    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "table.parquet"
        with copy.open("wb") as target:
            shutil.copyfileobj(file, target)
        with files.connect() as connection:
            try:
                relation = files.scan(copy, "items", connection.sql)
                names, rows = list(relation.columns), relation.fetchall()
            except (EvidenceError, duckdb.Error):
                raise Refused(
                    "the table must be a complete Parquet file. Write it again."
                ) from None
    yield from (dict(zip(names, row, strict=True)) for row in rows)
