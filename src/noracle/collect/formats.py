"""Files in: items, known labels and systems' answers from JSONL, JSON, CSV, TSV, Parquet, Label
Studio tasks, folders and zips; also folders of Hugging Face (``data/train-00000-of-00002.parquet``).

    items     item; text, markdown and/or image (a path inside the folder or zip); options (a list); truth (gold)
    gold      item, truth (or label)
    answers   item, answer (where texts are graded, the text); system where one file holds several

A class is written as its number or its name; where names look like numbers, a text is taken for a
name. Nothing is fetched from the network. Messages name files, lines and items; they never quote a
text.
"""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import io
import json
import re
import shutil
import tempfile
import time
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import IO, Any

from noracle.collect.content import MOST_BYTES, Picture, clean_image
from noracle.collect.errors import Refused, refused
from noracle.collect.model import Item, ProjectSpec
from noracle.errors import EvidenceError

SUFFIXES = (".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".parquet", ".pq")
_MOST_MEMBERS, _MOST_TABLE, _MOST_ROWS = 100_000, 268_435_456, 2_000_000
_UPLOAD_SECONDS = 60.0
_UNREADABLE = (OSError, EOFError, zlib.error, zipfile.BadZipFile, RuntimeError, NotImplementedError)
Record = dict[str, Any]
Source = str | Path | bytes
FORMULA = re.compile(r"'*[=+\-@\t\r\n＝＋－＠]")
"""How a text begins that a spreadsheet would run; our CSV files put an apostrophe before it."""


_COLUMNS = """item id name key|text question prompt sentence abstract|markdown
image img picture|options choices|truth"""
COLUMNS = {words[0]: tuple(words) for words in map(str.split, re.split(r"[|\n]", _COLUMNS))}
"""What an item is made of, and columns that are taken for it unless somebody says otherwise."""
_SHARD = re.compile(r"([^/]+)-\d{5}-of-\d{5}\.parquet\Z")
_LABELS = re.compile(r"- name: (\S+)\s+dtype:\s+class_label:\s+names:\s+((?:'?\d+'?: .+\s+)+)")

Images = Callable[[str], bytes | None]
"""The bytes of an image by its name; None if there is none."""


def _in_folder(root: Path) -> Images:
    root = root.resolve()

    def read(name: str) -> bytes | None:
        path = (root / name).resolve()
        if not path.is_relative_to(root) or not path.is_file():
            return None
        with path.open("rb") as file:
            return file.read(MOST_BYTES + 1)

    return read


def _in_zip(whole: zipfile.ZipFile, base: str) -> Images:
    names = set(whole.namelist())

    def read(name: str) -> bytes | None:
        for known in (str(PurePosixPath(base) / name), name):
            if known in names:
                with whole.open(known) as file:
                    return file.read(MOST_BYTES + 1)
        return None

    return read


class Shelf:
    """Pictures that were drawn again, each once."""

    def __init__(self, images: Images) -> None:
        self._images = images
        self._known: dict[str, str] = {}
        self.pictures: dict[str, Picture] = {}

    def take(self, name: str, item: str) -> str:
        """The SHA-256 of the picture that an item names."""
        if name in self._known:
            return self._known[name]
        if "://" in name or name.startswith(("//", "data:")):
            rule = "must be a file that is uploaded with the table; nothing is fetched"
            raise refused("image", rule, "an address", item)
        data = self._images(name.replace("\\", "/").removeprefix("./"))
        if data is None:
            rule = "must be a file inside the folder or zip"
            raise refused("image", rule, "one that is not there", item)
        return self._known.setdefault(name, self.keep(data, item))

    def keep(self, data: bytes, item: str) -> str:
        """The SHA-256 of the picture that these bytes are."""
        try:
            picture = clean_image(data)
        except Refused as error:
            raise Refused(f"{str(error).rstrip('.')} at item {item}.") from None
        self.pictures[picture.sha256] = picture
        return picture.sha256


class _Upload(io.BytesIO):
    """What was sent; it can be read for a minute, so that a hostile file ends by itself."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self._until = time.monotonic() + _UPLOAD_SECONDS

    def read(self, size: int | None = -1, /) -> bytes:
        rule = f"file must be readable in {_UPLOAD_SECONDS:.0f} seconds; this one is not"
        Refused.unless(time.monotonic() < self._until, f"{rule}. Send it in parts.")
        return super().read(size)

    read1 = read


Opened = tuple[Iterator[Record], str, Images]


@contextlib.contextmanager
def opened(source: Source, name: str, images: str | Path | None = None) -> Iterator[Opened]:
    """The rows of a source, its title for messages, and where its images are."""
    try:
        with contextlib.ExitStack() as stack:
            yield _find(stack, source, name, images)
    except _UNREADABLE as error:
        file = PurePosixPath(name).name or "the file"
        raise Refused(f"{file} must be readable; {type(error).__name__}.") from None


def _find(
    stack: contextlib.ExitStack, source: Source, name: str, images: str | Path | None
) -> Opened:
    pictures: Images = (lambda _: None) if images is None else _in_folder(Path(images))
    if isinstance(source, bytes):
        file: IO[bytes] = _Upload(source)
        title = PurePosixPath(name or "upload").name
    else:
        path = Path(source)
        if path.is_dir():
            pictures = _in_folder(path) if images is None else pictures
            near = [p for p in sorted(path.iterdir()) if p.is_file()]
            known = any(p.suffix.lower() in SUFFIXES[:4] for p in near)
            found = near if known else [*near, *sorted(path.rglob("*.parquet"))]
            parts = _choose(dict.fromkeys(str(p.relative_to(path)) for p in found), str(path))
            if _SHARD.search(parts[0]):
                about = path / "README.md"
                text = about.read_text(encoding="utf-8") if about.is_file() else ""
                files = (stack.enter_context((path / part).open("rb")) for part in parts)
                return _sharded(files, text), parts[0], pictures
            path = path / parts[0]
        rule = f"source must name a file or folder that is there; got {str(path)!r}."
        Refused.unless(path.is_file(), rule)
        file, title = path.open("rb"), path.name
    stack.enter_context(file)
    if not title.lower().endswith(".zip") and file.read(4) != b"PK\x03\x04":
        file.seek(0)
        return rows_of(file, title), title, pictures
    whole = stack.enter_context(zipfile.ZipFile(file))
    plain = (n for n in whole.namelist() if not n.endswith("/") and "__MACOSX" not in n)
    names = [n for n in plain if not PurePosixPath(n).name.startswith(".")]
    rule = f"{title} must hold at most {_MOST_MEMBERS} files; got {len(names)}."
    Refused.unless(len(names) <= _MOST_MEMBERS, rule)
    parts = _choose(names, title)
    inside, size = parts[0], sum(whole.getinfo(part).file_size for part in parts)
    Refused.unless(size <= _MOST_TABLE, f"{inside} must have at most {_MOST_TABLE} bytes.")
    folder = str(PurePosixPath(inside).parent)
    pictures = _in_zip(whole, folder) if images is None else pictures
    if _SHARD.search(inside):
        readme = next((n for n in names if PurePosixPath(n).name == "README.md"), None)
        text = "" if readme is None else whole.read(readme).decode("utf-8", "replace")
        shards = (stack.enter_context(whole.open(part)) for part in parts)
        return _sharded(shards, text), inside, pictures
    return rows_of(stack.enter_context(whole.open(inside)), inside), inside, pictures


def _choose(names: Iterable[str], title: str) -> list[str]:
    """The table, or all parts of the one split of a folder of Hugging Face."""
    tables = [n for n in names if PurePosixPath(n).suffix.lower() in SUFFIXES]
    shards = {n: shard[1] for n in tables if (shard := _SHARD.search(n)) is not None}
    splits = sorted(set(shards.values()))
    if shards and len(shards) >= len(tables) - 1:  # dataset_infos.json may stand beside them
        rule = f"{title} must hold one split"
        came = f"got {', '.join(splits[:5])}. Take the others out"
        Refused.unless(len(splits) == 1, f"{rule}; {came}.")
        return sorted(shards)
    named = [n for n in tables if PurePosixPath(n).stem.lower() == "items"]
    chosen, rule = named or tables, f"{title} must hold one table, items.jsonl or the like"
    Refused.unless(len(chosen) == 1, f"{rule}; got {len(chosen)}.")
    return chosen


def _sharded(shards: Iterable[IO[bytes]], readme: str) -> Iterator[Record]:
    """The rows of all parts; where the features name the classes of a column, by their names."""
    told = {name: re.findall(r"\d'?: (.+)", each) for name, each in _LABELS.findall(readme)}
    labels = {name: [text.strip("'\" ") for text in each] for name, each in told.items()}
    for shard in shards:
        for row in _parquet(shard, labels):
            for name in labels.keys() & row.keys():
                if isinstance(row[name], int) and 0 <= row[name] < len(labels[name]):
                    row[name] = labels[name][row[name]]
            yield row


def guess_columns(names: Iterable[str]) -> dict[str, str]:
    """Which column is taken for which part of an item; without one for its name, rows are numbered.

    >>> guess_columns(["Id", "question", "label"])
    {'item': 'Id', 'text': 'question'}
    """
    known = {name.lower(): name for name in names}
    found = {part: [known[n] for n in usual if n in known] for part, usual in COLUMNS.items()}
    return {part: columns[0] for part, columns in found.items() if columns}


def rows_of(file: IO[bytes], title: str) -> Iterator[Record]:
    """The rows of a table, one after the other; ``title`` tells its format by how it ends."""
    suffix = PurePosixPath(title).suffix.lower()
    Refused.unless(suffix in SUFFIXES, f"{title} must end in {', '.join(SUFFIXES)} or .zip.")
    if suffix in (".parquet", ".pq"):
        yield from _parquet(file)
        return
    text = io.TextIOWrapper(file, encoding="utf-8-sig", newline="")
    try:
        yield from _READERS.get(suffix, _table)(text, title)
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
                rule = f"{title} must hold one JSON object a line"
                raise Refused(f"{rule}; line {number} is none.") from None
            yield _object(row, title, number)


def _json_list(text: IO[str], title: str) -> Iterator[Record]:
    try:
        rows = json.load(text)
    except UnicodeDecodeError:
        raise
    except ValueError:
        rows = None
    Refused.unless(isinstance(rows, list), f"{title} must be a JSON list of objects.")
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
        for cells in filter(None, reader):
            if len(cells) != len(names):
                rule, line = f"must have {len(names)} cells in every row", reader.line_num + 1
                raise Refused(f"{title} {rule}; line {line} has {len(cells)}.")
            plain = (c[1:] if c[:1] == "'" and FORMULA.match(c) else c for c in cells)
            yield dict(zip(names, plain, strict=True))
    except csv.Error as error:
        line = reader.line_num + 1
        raise Refused(f"{title} must be a regular CSV file; line {line}: {error}.") from None


def _parquet(file: IO[bytes], labels: dict[str, list[str]] | None = None) -> Iterator[Record]:
    import duckdb

    from noracle.evidence import frames as files

    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "table.parquet"
        with copy.open("wb") as target:
            shutil.copyfileobj(file, target)
        try:
            with files.connect() as connection:
                relation = files.scan(copy, "items", connection.sql)
                _refuse_large(relation)
                names, rows = list(relation.columns), relation.fetchall()
                told = "SELECT decode(value) FROM parquet_kv_metadata(?) WHERE key = 'huggingface'"
                for (text,) in connection.execute(told, [str(copy)]).fetchall():
                    _take_labels(json.loads(text), {} if labels is None else labels)
        except (EvidenceError, duckdb.Error):
            raise Refused("the table must be a complete Parquet file. Write it again.") from None
    yield from (dict(zip(names, row, strict=True)) for row in rows)


def _refuse_large(table: Any) -> None:
    """Refuse a table that is small only while it is packed: one long text, repeated without end."""
    count = "count(*)"
    rows = int(table.aggregate(count).fetchall()[0][0])
    rule = "the table must have at most"
    Refused.unless(rows <= _MOST_ROWS, f"{rule} {_MOST_ROWS} rows; got {rows}.")
    names = ('"{}"'.format(name.replace('"', '""')) for name in table.columns)
    each = " + ".join(f"coalesce(strlen({name}::VARCHAR), 0)" for name in names)
    size = int(table.aggregate(f"coalesce(sum({each}), 0)").fetchall()[0][0])
    Refused.unless(size <= _MOST_TABLE, f"{rule} {_MOST_TABLE} bytes; got {size}.")


def _take_labels(about: Any, labels: dict[str, list[str]]) -> None:
    with contextlib.suppress(AttributeError, KeyError, TypeError):
        for name, feature in about["info"]["features"].items():
            if feature.get("_type") == "ClassLabel":
                labels[str(name)] = [str(each) for each in feature["names"]]


_READERS = {".jsonl": _json_lines, ".ndjson": _json_lines, ".json": _json_list}

# Tasks of Label Studio: in as items, out with what was said.


def item_row(task: Mapping[str, Any], spec: ProjectSpec) -> Record:
    """A task of Label Studio as a row of the items table.

    >>> spec = ProjectSpec.from_dict({"protocol": "partitioned", "classes": ["cat", "dog"]})
    >>> task = {"id": 7, "data": {"text": "Miaow"}, "annotations": [
    ...     {"ground_truth": True, "result": [{"type": "choices", "value": {"choices": ["cat"]}}]}]}
    >>> item_row(task, spec)
    {'item': 7, 'text': 'Miaow', 'truth': 'cat'}
    """
    data = task.get("data")
    if not isinstance(data, dict):
        raise Refused("tasks must each have data; one has none.")
    row: Record = {"item": data.get("item", task.get("id"))}
    row |= {key: data[key] for key in ("text", "markdown", "options") if data.get(key)}
    if data.get("image"):
        # Label Studio keeps uploads as /data/upload/3/0a1b2c3d-name.png; people have name.png.
        path = str(data["image"])
        kept = re.sub(r"^[0-9a-f]{8}-", "", PurePosixPath(path).name)
        row["image"] = kept if path.startswith("/data/") else path
    if len(row) == 1 + ("options" in row):
        others = {key: value for key, value in data.items() if key != "item"}
        texts = [value for value in others.values() if isinstance(value, str) and value.strip()]
        rule = "data must hold text, markdown or image, or one text under another name"
        Refused.unless(len(texts) == 1, f"{rule}; got {len(texts)} texts.")
        row["text"] = texts[0]
    truth = _truth(task, spec)
    return row if truth is None else {**row, "truth": truth}


def _truth(task: Mapping[str, Any], spec: ProjectSpec) -> str | None:
    names = {c.name for c in spec.classes}
    for annotation in task.get("annotations") or ():
        if not isinstance(annotation, dict) or not annotation.get("ground_truth"):
            continue
        for result in annotation.get("result") or ():
            value = result.get("value") if isinstance(result, dict) else None
            choices = value.get("choices") if isinstance(value, dict) else None
            if isinstance(choices, list) and len(choices) == 1 and choices[0] in names:
                return str(choices[0])
    return None


def tasks_of(
    spec: ProjectSpec, items: Sequence[Mapping[str, Any]], answers: Iterable[Mapping[str, Any]]
) -> list[Record]:
    """Items (``name, content``) and the answers that count as tasks with annotations."""
    said: dict[str, list[Record]] = {item["name"]: [] for item in items}
    for answer in answers:
        said[answer["item"]].append(_annotation(spec, answer))
    data = ({"item": item["name"], **item["content"]} for item in items)
    return [{"id": i, "data": d, "annotations": said[d["item"]]} for i, d in enumerate(data, 1)]


def _annotation(spec: ProjectSpec, answer: Mapping[str, Any]) -> Record:
    names = [c.name for c in spec.classes]
    shown, value = answer["shown"], answer["value"]
    if spec.texts:
        results = [_choice(f"answer-{shown[0]}", value)]
    elif spec.judged:
        verdicts = zip(shown, value.split("|"), strict=False)
        results = [_choice(f"class-{asked}", said, names[asked]) for asked, said in verdicts]
    elif value in ("unsure", "none"):
        results = [_choice("label", value)]
    else:
        field = "ruled-out" if spec.protocol == "pick-wrong" else "label"
        results = [_choice(field, names[int(value)])]
    by = {"id": answer["answer"], "completed_by": answer["rater"], "lead_time": answer["seconds"]}
    meta = {"kind": answer["kind"], "protocol": spec.protocol}
    flags = {"ground_truth": False, "was_cancelled": False}
    return {**by, **flags, "meta": meta, "result": results}


def _choice(field: str, said: str, about: str = "") -> Record:
    choice: Record = {"from_name": field, "to_name": "item", "type": "choices"}
    choice["value"] = {"choices": [said]}
    return {**choice, "meta": {"class": about}} if about else choice


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """Items and the pictures that they show; add the pictures first."""

    items: list[Item]
    pictures: dict[str, Picture] = dataclasses.field(repr=False)


def read_items(
    source: Source,
    *,
    spec: ProjectSpec,
    name: str = "",
    images: str | Path | None = None,
    gold: Mapping[str, int] | None = None,
    columns: Mapping[str, str] | None = None,
) -> Upload:
    """Items out of a file, a folder or a zip; pictures are decoded here, so never inside a write.

    ``source`` is a path, or the bytes of an upload whose file name is ``name``. A folder or a zip
    holds one table (``items.…``, or the only one) and the images that it names; ``images`` is their
    folder where a table stands alone. ``gold`` has known classes (:func:`read_gold`). ``columns``
    says which column is which part of an item (:data:`COLUMNS`); others are left out, and rows are
    numbered if none is the item. By default columns have these names (a folder of Hugging Face:
    :func:`guess_columns`).
    """
    with opened(source, name, images) as (rows, title, pictures):
        shelf, known, items = Shelf(pictures), dict(gold or {}), []
        tasks = False
        for number, row in enumerate(rows, 1):
            tasks = tasks or (number == 1 and isinstance(row.get("data"), dict))
            if columns is None and _SHARD.search(title) and "item" not in row:
                columns = guess_columns(row)
            plain = item_row(row, spec) if tasks else row
            if columns is not None and not tasks:
                plain = {part: row.get(column) for part, column in columns.items()}
                plain = plain if "item" in columns else {**plain, "item": number}
            items.append(_item(plain, _name(plain, number, title), spec, shelf, known))
        Refused.unless(items, f"{title} must hold items; it is empty.")
    if known:
        some, n = list(known)[:5], len(known)
        raise refused("gold", "must name items of the table", "others", *some, total=n)
    return Upload(items=items, pictures=shelf.pictures)


def _item(
    row: Mapping[str, Any], name: str, spec: ProjectSpec, shelf: Shelf, known: dict[str, int]
) -> Item:
    content: Record = {key: str(row[key]) for key in ("text", "markdown") if _filled(row.get(key))}
    image = row.get("image")
    if isinstance(image, Mapping):  # as Hugging Face writes it: the bytes, else the path
        data = image.get("bytes")
        content |= {"image": shelf.keep(bytes(data), name)} if data else {}
        image = None if data else image.get("path")
    if _filled(image):
        content["image"] = shelf.take(str(image), name)
    if _filled(row.get("options")):
        content["options"] = _options(row["options"], name)
    if row.get("attention") in (True, 1, "true", "True", "1", "yes"):
        content["attention"] = True
    truth = known.pop(name, None)
    if truth is None and _filled(row.get("truth")):
        truth = class_number(row["truth"], spec, name)
    return Item(name=name, content=content, truth=truth)


def _name(row: Mapping[str, Any], number: int, title: str) -> str:
    value, rule = row.get("item"), f"{title} must have a column item with a name in every row"
    named = _filled(value) and not isinstance(value, bool | dict | list)
    Refused.unless(named, f"{rule}; row {number} has none.")
    return _digits(value)


def _digits(value: object) -> str:
    return str(int(value) if isinstance(value, float) and value.is_integer() else value).strip()


def _filled(value: object) -> bool:
    return value is not None and value != "" and value == value  # NaN is a hole in tables of floats


def _options(value: object, name: str) -> list[str]:
    if isinstance(value, str):
        try:
            value = json.loads(value) if value.lstrip().startswith("[") else value.split("|")
        except ValueError:
            value = None
    if not isinstance(value, list | tuple):
        rule = "must be a list, JSON or texts with | between them"
        raise refused("options", rule, "something else", name)
    return [str(option).strip() if isinstance(option, str) else str(option) for option in value]


def class_number(value: object, spec: ProjectSpec, name: str) -> int:
    """A class out of its name or its number.

    >>> spec = ProjectSpec.from_dict({"protocol": "partitioned", "classes": ["cat", "dog"]})
    >>> class_number("dog", spec, "x"), class_number(0, spec, "x"), class_number("1", spec, "x")
    (1, 0, 1)
    """
    names = [c.name for c in spec.classes]
    if isinstance(value, str) and value.strip() in names:
        return names.index(value.strip())
    text = "" if isinstance(value, bool) else _digits(value)
    if re.fullmatch(r"[0-9]{1,9}", text) and int(text) < len(names):
        return int(text)
    rule = f"must be the name of a class or a number in [0, {len(names)})"
    raise refused("class", rule, repr(value)[:60], name)


def _named_rows(source: Source, name: str) -> Iterator[tuple[str, int, str, Record]]:
    """Each row of a table after its title, its number, and the name of its item."""
    with opened(source, name) as (rows, title, _):
        for number, row in enumerate(rows, 1):
            yield title, number, _name(row, number, title), row


def columns_of(source: Source, *, name: str = "") -> list[str]:
    """The columns of a table; none of Label Studio's tasks, which have their own shape."""
    with opened(source, name) as (rows, title, _):
        first = next(rows, {})
    Refused.unless(first, f"{title} must hold items; it is empty.")
    return [] if isinstance(first.get("data"), dict) else list(first)


def read_gold(source: Source, *, spec: ProjectSpec, name: str = "") -> dict[str, int]:
    """The true class of some items: columns ``item`` and ``truth`` (or ``label``)."""
    found: dict[str, int] = {}
    for _, _, item, row in _named_rows(source, name):
        value = row.get("truth") if _filled(row.get("truth")) else row.get("label")
        if item in found:
            raise refused("gold", "must name an item once", repr(item))
        found[item] = class_number(value, spec, item)
    return found


Replies = dict[str, dict[str, int | str | None]]


def read_answers(source: Source, *, spec: ProjectSpec, name: str = "", system: str = "") -> Replies:
    """What systems answered: columns ``item``, ``answer`` (empty: none) and ``system`` unless given."""
    found: Replies = {}
    for title, number, item, row in _named_rows(source, name):
        who = system or str(row.get("system") or "").strip()
        rule = f"{title} must have the columns item, answer and system"
        Refused.unless(who and "answer" in row, f"{rule}; row {number} lacks one.")
        answers, value = found.setdefault(who, {}), row["answer"]
        if item in answers:
            raise refused("answers", "must name an item once for each system", repr(item))
        said = _digits(value) if spec.texts else None
        filled = _filled(value)
        answers[item] = said or class_number(value, spec, item) if filled else None
    return found


Chances = dict[str, list[float]]


def read_propensities(source: Source, *, spec: ProjectSpec, name: str = "") -> Chances:
    """The chance of each class of each item: columns ``item``, ``class``, ``propensity``."""
    chances: Chances = {}
    for _, _, item, row in _named_rows(source, name):
        place = class_number(row.get("class"), spec, item)
        try:
            chances.setdefault(item, [0.0] * spec.n_classes)[place] = float(row["propensity"])
        except (KeyError, TypeError, ValueError):
            raise refused("propensity", "must be a number", "something else", item) from None
    return chances
