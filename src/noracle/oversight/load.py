"""The evidence of an inventory, opened once and counted once; and the commands that open it again."""

from __future__ import annotations

import copy
import csv
import dataclasses
import functools
import glob
import io
import json
import math
import os
import re
import shlex
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

import narwhals as nw

from noracle import counts
from noracle.accuracy.judge import judges_in
from noracle.counts.totals import remember
from noracle.errors import EvidenceError, EvidenceWarning, require_evidence
from noracle.evidence import Evidence, Ratings
from noracle.evidence.classes import no_answers
from noracle.evidence.frames import distinct, fetch, open_frames
from noracle.evidence.preferences import Preferences
from noracle.evidence.prices import Prices, read_prices
from noracle.evidence.tables import TABLES, kind_of, shape_of
from noracle.oversight.model import Inventory, Source
from noracle.results.base import encode

C = TypeVar("C", counts.AccuracyCounts, counts.RatingCounts)
LABEL_KINDS = ("ordinary", "complementary", "question", "targeted", "grades")
COUNTS: dict[str, Any] = {"counts/1": counts.AccuracyCounts, "rating-counts/1": counts.RatingCounts}
"""Stored counts, by their schema."""
_PRICE_COLUMNS = (("name", "rater"), ("price", "price"))


def find_pattern(paths: Sequence[str]) -> str | None:
    """One path, or one pattern that matches exactly these files; None where none was found."""
    if len(paths) == 1:
        return paths[0]
    wanted = sorted(os.path.normpath(p) for p in paths)
    for pattern in _patterns(sorted(paths)):
        files = [f for f in glob.glob(pattern, recursive=True) if Path(f).is_file()]  # noqa: PTH207
        if sorted(map(os.path.normpath, files)) == wanted:
            return pattern
    return None


def _patterns(paths: Sequence[str]) -> Iterator[str]:
    """Patterns to try, the plainest first."""
    prefix = os.path.commonprefix(paths)  # noqa: RUF071 (letter by letter)
    ends = [p[len(prefix) :][::-1] for p in paths]
    suffix = os.path.commonprefix(ends)[::-1]  # noqa: RUF071
    yield f"{glob.escape(prefix)}*{glob.escape(suffix)}"
    folder = prefix[: prefix.rfind("/") + 1]
    start, end = glob.escape(folder), glob.escape("".join(Path(paths[0]).suffixes[-2:]))
    yield f"{start}**/*{end}"
    yield f"{start}*/*{end}"
    names = [p[len(folder) :] for p in paths]
    for word in sorted(set(re.findall(r"[^\W_]{3,}", names[0])), key=lambda w: (-len(w), w)):
        if all(word in name for name in names):
            yield f"{start}*{word}*{end}"
            yield f"{start}**/*{word}*{end}"
    first = "".join(sorted({name[0] for name in names if name[0].isalnum()}))
    if first:
        yield f"{start}[{first}]*{end}"


def price_table(path: str, source: Source) -> dict[str, float]:
    """Prices out of a table with a column of names and one of prices."""
    name, price = (str(source.options.get(*pair)) for pair in _PRICE_COLUMNS)
    frames, _connection = open_frames({"prices": path})
    found: dict[str, float] = {}
    for key, value in fetch(frames["prices"].select(name, price)):
        sound = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not sound or not math.isfinite(value) or value <= 0 or key is None:
            rule = "must be a positive number"
            raise EvidenceError.of(f"prices.{price}", rule, repr(value), where=[key], total=1)
        if str(key) in found:
            rule = "must name everything once"
            raise EvidenceError.of(f"prices.{name}", rule, repr(key), where=[key], total=1)
        found[str(key)] = float(value)
    return found


def is_label(name: str) -> bool:
    """Whether a price is that of a kind of label, and not of a rater."""
    kind, mark, number = name.partition("-")
    if not mark:
        return name in LABEL_KINDS
    return kind in ("complementary", "question") and number.isdecimal() and int(number) > 0


def read_counts_file(path: str) -> dict[str, Any]:
    """The JSON object in a file of stored counts."""
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        came = f"{path!r} ({type(error).__name__})"
        raise EvidenceError.of("counts", "must be a readable JSON file", came) from None
    came = f"something else in {path!r}"
    require_evidence(isinstance(data, dict), "counts", "must hold a JSON object", came)
    return data  # type: ignore[no-any-return]


def flags(**given: Any) -> list[str]:
    """Options of the command line: lists as CSV, one option for each entry of a mapping; what is
    None or has no entry is left out.
    """
    words: list[str] = []
    for name, value in given.items():
        flag = f"--{name.replace('_', '-')}"
        if value is True:
            words.append(flag)
        elif isinstance(value, Mapping):
            words += [w for key, entry in value.items() for w in (flag, f"{key}={entry}")]
        elif isinstance(value, (list, tuple)):
            text = io.StringIO()  # a name that holds a comma or a quote is quoted
            csv.writer(text, lineterminator="").writerow(map(str, value))
            words += [flag, text.getvalue()] if value else []
        elif value is not None:
            words += [flag, str(value)]
    return words


_UNNAMED = "\0"


STORE = "store: "
"""Notes about the store begin so."""
_MOST_COMPARED_ITEMS = 2_000_000
_MOST_LABELS = 200
_READING = ["n_classes", "classes", "conflicts", "repeats", "wide"]
_READING += ["columns", "no_answer", "invalid"]
"""Settings that say how tables are read."""


class Loaded:
    r"""What an inventory holds, opened; counts are made once, when they are first asked for.

    Attributes
    ----------
    inventory, settings
        What was found, and what was set.
    evidence
        Answers, judgements and grades, or None where there are none of them.
    judged, people
        The evidence with the grades of judges, who graded everything; and the raters that are none.
    ratings
        Ratings, with the answers beside them where both are long tables; or None.
    scores
        The path of the scores, or None.
    preferred
        The table of preferences, or None.
    prices
        Prices of labels and raters: those of the file and those of the settings together.
    notes
        Choices that were made while opening, and tables that could not be used together.
    """

    def __init__(
        self,
        inventory: Inventory,
        *,
        store: str | os.PathLike[str] | None = None,
        progress: Callable[[str], None] | None = None,
    ) -> None:
        self.inventory, self.settings = inventory, inventory.settings
        self.notes: list[str] = []
        self.answers, self.judgements = self._one("answers"), self._one("judgements")
        self.grades, self.items = self._one("grades"), self._one("items")
        self.rated, scored, priced = self._one("ratings"), self._one("scores"), self._one("prices")
        self.preferred = self._one("preferences")
        self.scores = None if scored is None else _single(scored)
        self.score_raters = () if scored is None else tuple(scored.options.get("raters", ()))
        told = dict(self.settings.prices)
        self.price_file: str | None = None
        if priced is not None and Path(priced.paths[0]).suffix.lower() == ".toml":
            self.price_file = _single(priced)
        elif priced is not None:
            told = {**price_table(_single(priced), priced), **told}
        self.told_prices: Mapping[str, float] = told
        file = Prices() if self.price_file is None else read_prices(self.price_file)
        labels, raters = dict(file.labels), dict(file.raters)
        for name, price in told.items():
            (labels if is_label(name) else raters)[name] = float(price)
        self.prices = dataclasses.replace(file, labels=labels, raters=raters)
        self.stored: counts.AccuracyCounts | None
        self.stored_ratings: counts.RatingCounts | None
        self.stored, self.stored_paths = self._stored(counts.AccuracyCounts)
        self.stored_ratings, self.stored_rating_paths = self._stored(counts.RatingCounts)
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always", EvidenceWarning)
            self.evidence = self._open_evidence()
            if self.evidence is not None:
                self.evidence._meet()
            self._leave_out_judges()
            self.ratings = self._open_ratings()
        said = [str(w.message) for w in heard if issubclass(w.category, EvidenceWarning)]
        opened = [part for part in (self.evidence, self.ratings) if part is not None]
        read = dict.fromkeys(line for part in opened for line in part.inferred)
        self.notes += [line for line in read if not any(text.startswith(line) for text in said)]
        self.notes += said
        self.partitions = None if store is None else self._count_partitions(store, progress)

    def _leave_out_judges(self) -> None:
        """Keep the judges' grades for the one question that does not take them for the truth."""
        self.judged: Evidence | None = None
        self.people: tuple[str, ...] = ()
        whole = self.evidence
        judges = () if whole is None or self.grades is None else judges_in(whole)
        if whole is None or not judges:
            return
        raters = {rater for (rater,) in fetch(distinct(whole.grades, "rater"))}  # type: ignore[arg-type]
        self.judged, self.people = whole, tuple(sorted(raters - {None, *judges}))
        if self.people:
            self.evidence = whole.of_raters(self.people)
            self.notes.append(f"grades by {', '.join(judges)} are a judge's: no label elsewhere")

    # The evidence as options of the command line, so that every figure can be made again.

    def path(self, source: Source) -> str:
        """One path, or one pattern that matches the files of the source and no other."""
        found, metric = find_pattern(source.paths), source.options.get("metric")
        if found is None:
            return _UNNAMED
        return found if metric is None else f"{found}#{metric}"

    @property
    def answers_join_ratings(self) -> bool:
        """Whether answers can be read beside ratings: wide tables need a named item column."""
        if self.answers is None or self.rated is None:
            return False
        own = self.rated.form == "wide" and self.rated.options.get("systems")
        return _names_items(self.answers) and _names_items(self.rated) and not own

    @property
    def ratings_name_clusters(self) -> bool:
        """Whether the table of items names clusters that the rated items can be joined with."""
        if self.rated is None or self.items is None or "cluster" not in self.items.columns:
            return False
        return _names_items(self.rated)

    @property
    def grader_names(self) -> list[str]:
        """The columns of a wide table of ratings that hold labels: raters, then systems."""
        o: Mapping[str, Any] = {} if self.rated is None else self.rated.options
        return [*o.get("raters", ()), *o.get("systems", ())]

    def command(self, verb: str, *groups: Sequence[str]) -> str:
        """A command line for a shell; the whole report again where no pattern names a table."""
        words = ["noracle", verb, *(word for group in groups for word in group)]
        whole = ["noracle", "report", self.inventory.place]
        return shlex.join(whole if _UNNAMED in words else words)

    def evidence_words(self, *, stored: bool = False) -> list[str]:
        """The options that open the same evidence; with ``stored`` also the stored counts."""
        words: list[str] = []
        if self.evidence is not None:
            conflicts = self.settings.conflicts
            words = [*self.table_words(), *self.class_words()]
            words += flags(conflicts=None if conflicts == "error" else conflicts)
        return words + [w for path in self.stored_paths if stored for w in ("--counts", path)]

    def table_words(self, *, systems: bool = True, people: bool = True) -> list[str]:
        """The tables, and how they are read; without ``systems`` columns tell themselves, and
        without ``people`` judges are among the raters.
        """
        words = [word for s in self._tables for word in (f"--{s.kind}", self.path(s))]
        words += flags(raters=self.people if people and self.people else None)
        o, columns = self._wide_answers, {}
        if o and systems:
            words += flags(wide=True, systems=o.get("systems"), item=o.get("item"))
            words += flags(label=o.get("label"), ruled_out=o.get("ruled_out"))
        elif o.get("item") not in (None, "item"):
            columns = {"answers.item": str(o["item"])}
        return words + self._reading_words(columns)

    def _reading_words(self, columns: Mapping[str, str], *, invalid: bool = True) -> list[str]:
        """How tables are read: names of columns, no answer, answers that cannot be."""
        s = self.settings
        named = [f"{name}={column}" for name, column in {**s.columns, **columns}.items()]
        strict = s.invalid if invalid and s.invalid != "wrong" else None
        return flags(columns=named, no_answer=s.no_answer, invalid=strict)

    def place_words(self) -> list[str]:
        """The folder, or the files that were found."""
        place = self.inventory.place
        files = [path for source in self.inventory.sources for path in source.paths]
        return [place] if Path(place).exists() else files

    def class_words(self) -> list[str]:
        """The number of classes or the classes, where they were set."""
        return flags(n_classes=self.settings.n_classes, classes=self.settings.classes)

    def grader_words(self) -> list[str]:
        """The options that open what a proof looks at."""
        if self.evidence is not None and self.evidence.answers is not None:
            return self.evidence_words()
        if self.rated is None:
            return []
        item, path = self.rated.options.get("item"), self.path(self.rated)
        words = flags(answers=path, wide=True, systems=self.grader_names, item=item)
        return [*words, *self.class_words()]

    def rating_words(self, *, answers: bool = False) -> list[str]:
        """The options that open the same ratings; with ``answers`` also those of the systems."""
        words: list[str] = []
        if self.rated is not None:
            words, o = ["--ratings", self.path(self.rated)], self.rated.options
            if self.rated.form == "wide":
                words += flags(wide=True, raters=o.get("raters"), item=o.get("item"))
                words += flags(systems=o.get("systems") if answers else None)
            words += flags(votes=self.rated.form == "votes" or None, labels=self.settings.classes)
            columns = {}
            if answers and self.answers is not None and self.answers_join_ratings:
                words += ["--answers", self.path(self.answers)]
                if self.answers.form == "wide":
                    words += flags(systems=self.answers.options.get("systems"))
                    columns = {"answers.item": str(self.answers.options["item"])}
            if answers and self.items is not None and self.ratings_name_clusters:
                words += ["--items", self.path(self.items)]
            words += self._reading_words(columns, invalid=False)
        return words + [w for path in self.stored_rating_paths for w in ("--counts", path)]

    # Opening.

    @functools.cached_property
    def preferences(self) -> Preferences | None:
        """Who was preferred; None where no table says so."""
        table = self.preferred
        return None if table is None else Preferences.from_table(_single(table))

    @property
    def _tables(self) -> list[Source]:
        tables = (self.answers, self.judgements, self.grades, self.items)
        return [source for source in tables if source is not None]

    @property
    def _wide_answers(self) -> Mapping[str, Any]:
        """How a wide table of answers is read; empty where there is none."""
        return {} if self.answers is None or self.answers.form != "wide" else self.answers.options

    def _one(self, kind: Any) -> Source | None:
        """The table of a kind, with all files of the same form; others are named in the notes."""
        found = self.inventory.of(kind)
        if not found:
            return None
        first, same = found[0], []
        for source in found:
            if (source.form, dict(source.options)) == (first.form, dict(first.options)):
                same.append(source)
            else:
                why = f"since {kind} of another form were taken from {first.paths[0]}"
                self.notes.append(f"not used: {', '.join(source.paths)}, {why}")
        paths = tuple(dict.fromkeys(p for s in same for p in s.paths))
        return dataclasses.replace(first, paths=paths, n_rows=None)

    def table(self, source: Source) -> str | list[str]:
        """What a reader of tables is given, with the metric where one is named."""
        if "metric" in source.options:
            return [f"{path}#{source.options['metric']}" for path in source.paths]
        return find_pattern(source.paths) or list(source.paths)

    def _open_evidence(self, *, from_one: bool | None = None) -> Evidence | None:
        if self.answers is None and self.judgements is None and self.grades is None:
            return None
        return self.evidence_with(self.settings.n_classes, self.settings.classes, from_one)

    def evidence_with(
        self,
        n_classes: int | None,
        classes: Sequence[int | str] | None,
        from_one: bool | None = None,
    ) -> Evidence:
        """The evidence as it was found, with these classes; ``from_one`` as the whole counts them."""
        given: dict[str, Any] = {source.kind: self.table(source) for source in self._tables}
        s, wide = self.settings, self._wide_answers
        shape = shape_of(
            {**s.columns, **_item_column("answers", wide)},
            wide=True if wide else None,
            no_answer=no_answers(s.no_answer),
            **{name: wide.get(name) for name in ("systems", "label", "ruled_out")},
        )
        about: dict[str, Any] = {"n_classes": n_classes, "classes": classes, "from_one": from_one}
        about |= {"conflicts": s.conflicts, "invalid": s.invalid}
        return Evidence._made(given, shape, **about).with_repeats(s.repeats)

    def _open_ratings(self) -> Ratings | None:
        if self.rated is None:
            return None
        path, s, o = self.table(self.rated), self.settings, self.rated.options
        beside = self.answers if self.answers_join_ratings else None
        about = self.items if self.ratings_name_clusters else None
        answers, items = (None if x is None else self.table(x) for x in (beside, about))
        if self.rated.form == "votes":
            return Ratings.from_votes(path, answers, items=items, labels=s.classes)
        columns, systems = {**s.columns, **_item_column("ratings", o)}, o.get("systems", ())
        if beside is not None and beside.form == "wide":
            systems = beside.options.get("systems", ())
            columns |= _item_column("answers", beside.options)
        return Ratings.from_tables(
            path,
            answers,
            items=items,
            labels=s.classes,
            columns=columns,
            raters=o.get("raters"),
            systems=tuple(systems) or None,
            no_answer=s.no_answer,
        )

    def _stored(self, kind: Any) -> tuple[Any, list[str]]:
        """Stored counts of this kind, added, and their paths; None where there are none."""
        total, paths = None, []
        for path in [p for s in self.inventory.of("counts") for p in s.paths]:
            data = read_counts_file(path)
            schema = str(data.get("schema"))
            rule = "must have schema counts/1 or rating-counts/1"
            require_evidence(schema in COUNTS, "counts", rule, f"{schema!r} in {path!r}")
            if COUNTS[schema] is not kind:
                continue
            try:
                read = kind.from_dict(data)
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                came = f"{type(error).__name__} in {path!r}"
                raise EvidenceError.of("counts", f"must have the shape of {schema}", came) from None
            total = read if total is None else total + read
            paths.append(path)
        return total, paths

    # partitions

    def _count_partitions(
        self, store: str | os.PathLike[str], progress: Callable[[str], None] | None
    ) -> counts.Counted | None:
        """The counts of all partitions; None, with a note, where the tables are counted as one."""
        evidence, sources = self.evidence, (self.answers, self.judgements, self.items)
        why = self._why_whole()
        if evidence is None or why:
            self.notes.append(f"{STORE}not used, since {why}")
            return None
        files = [() if source is None else source.paths for source in sources]
        parts = counts.pair_partitions(*files)
        # Patterns of answers add where the labels are the same in every partition; with very many
        # no proof looks at them.
        known = evidence.class_kind == "whole" or evidence.classes is not None
        few = known and (evidence.n_classes or 0) <= _MOST_LABELS
        try:
            counted = counts.count_partitions(
                parts,
                sketch="decisions" if few else False,
                by_cluster=self._names_clusters,
                store=store,
                read=self._open_partition,
                read_as=self._read_as(),
                progress=progress,
            )
        except EvidenceError as error:
            if any(line.startswith("store ") for line in error.faults):
                raise
            why = f"the tables cannot be counted by partition: {error.faults[0]}"
            self.notes.append(f"{STORE}not used, since {why}")
            return None
        remember(evidence, counted)
        beside = {"patterns of answers": not few, "ratings": self.rated, "scores": self.scores}
        others = ["the questions to ask next", *(name for name, there in beside.items() if there)]
        whole = f"Read from the tables themselves: {', '.join(others)}."
        self.notes.append(f"{STORE}{counted.reading.line()} {whole}")
        if len(parts) == 1 and any(len(paths) > 1 for paths in files):
            told = "give those that belong together one folder (day=1) or one name each"
            self.notes.append(f"{STORE}the files are one partition: {told}")
        return counted

    def _why_whole(self) -> str:
        """Why answers and judgements cannot be counted by partition, where that is known before."""
        if self.evidence is None:
            return "there are no answers or judgements to count"
        if self.answers is not None and self.answers.form in ("log", "json"):
            return "answers are a log"
        if self.answers is not None and "repeat" in self.answers.columns:
            return "systems answered items more than once, which is counted over all rows"
        return "grades are counted over all rows" if self.inventory.of("grades") else ""

    def _read_as(self) -> dict[str, Any]:
        """All that reading a partition depends on beside its files."""
        about = {name: getattr(self.settings, name) for name in _READING}
        tables = [(s.kind, s.form, s.options, self._kinds) for s in self._parted]
        from_one = self.evidence is not None and self.evidence._from_one
        told = encode({"settings": about, "tables": tables, "classes from 1": from_one})
        found: dict[str, Any] = json.loads(json.dumps(told, sort_keys=True, default=str))
        return found

    @property
    def _parted(self) -> list[Source]:
        return [source for source in self._tables if source.kind != "grades"]

    def _open_partition(self, part: counts.Partition) -> Evidence:
        """The evidence of a partition, opened as the whole is."""
        mine = copy.copy(self)
        mine.notes = []
        for name in ("answers", "judgements", "items"):
            source, paths = getattr(self, name), getattr(part, name)
            there = source is not None and paths
            setattr(mine, name, dataclasses.replace(source, paths=paths) if there else None)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", EvidenceWarning)  # the whole has said it already
            whole = self.evidence
            evidence = mine._open_evidence(from_one=whole._from_one if whole else None)
        if evidence is None or whole is None:
            raise EvidenceError.of("partition", "must have answers or judgements", "neither")
        evidence._unmet.clear()  # the items of the whole were compared when it was opened
        for source in mine._parted:
            self._require_same_kinds(source)
        same, rule = evidence.class_kind == whole.class_kind, "must have one type in all partitions"
        require_evidence(same, "classes", rule, f"{evidence.class_kind} here")
        return evidence

    @functools.cached_property
    def _kinds(self) -> dict[str, dict[str, str]]:
        """What the columns of each table hold, where the reader has to find out (CSV, JSON)."""
        held = {s.kind: self._held(s) for s in self._parted if _is_guessed(s)}
        return {table: {n: kind for n, (kind, _) in of.items()} for table, of in held.items()}

    def _held(self, source: Source) -> dict[str, tuple[str, Any]]:
        """The kind of every known column of a table, with the frame and the connection it lives on."""
        frames, connection = open_frames({source.kind: list(source.paths)})
        frame = frames[source.kind]
        named = {c.name for c in TABLES[source.kind].columns}
        named |= {*_texts(source.options), *_texts(self.settings.columns)}
        schema = frame.collect_schema().items()
        return {n: (kind_of(t), (frame, connection)) for n, t in schema if n in named}

    def _require_same_kinds(self, source: Source) -> None:
        """Refuse a file whose columns have other types: 01 is a number here and a text there."""
        for name, (kind, (frame, _)) in self._held(source).items() if _is_guessed(source) else ():
            whole = self._kinds[source.kind].get(name, kind)
            if kind != whole and fetch(frame.filter(~nw.col(name).is_null()).select(name).head(1)):
                rule = f"must hold {whole} in every partition, as in the whole"
                raise EvidenceError.of(f"{source.kind}.{name}", rule, kind)

    # counting

    @functools.cached_property
    def accuracy(self) -> counts.AccuracyCounts | None:
        """How answers met labels, stored counts included; None without answers or grades."""
        return _added(self.stored, self._counted if self.has_systems else None)

    @property
    def has_systems(self) -> bool:
        """Whether the tables hold answers, or grades of them."""
        e = self.evidence
        return e is not None and (e.answers is not None or e.grades is not None)

    @functools.cached_property
    def _counted(self) -> counts.AccuracyCounts:
        if self.evidence is None:
            raise EvidenceError.of("evidence", "must have answers", "none")
        known = None if self.partitions is None else self.partitions.accuracy
        return counts.count_accuracy(self.evidence) if known is None else known.without_clusters()

    @functools.cached_property
    def accuracy_by_cluster(self) -> counts.AccuracyCounts | None:
        """The same by cluster, where the items name clusters."""
        if self.evidence is None or not self.has_systems or not self._names_clusters:
            return self.accuracy
        known = None if self.partitions is None else self.partitions.accuracy
        counted = counts.count_accuracy(self.evidence, by_cluster=True) if known is None else known
        return _added(self.stored, counted)

    @property
    def _names_clusters(self) -> bool:
        items = None if self.evidence is None else self.evidence.items
        return items is not None and "cluster" in items.columns

    @functools.cached_property
    def asked(self) -> counts.JudgementCounts | None:
        """What was asked and what was said; None without judgements."""
        if self.evidence is None or self.evidence.judgements is None:
            return None
        if self.partitions is not None and self.partitions.judgements is not None:
            return self.partitions.judgements.without_raters()
        counted = self._counted if self.has_systems else None
        return counts.count_judgements(self.evidence, by_rater=False, counts=counted)

    @functools.cached_property
    def patterns(self) -> counts.PatternCounts:
        """How systems met the same labels together."""
        if self.evidence is None:
            raise EvidenceError.of("evidence", "must have answers and judgements", "neither")
        if self.partitions is not None and self.partitions.patterns is not None:
            return self.partitions.patterns
        return counts.count_patterns(self.evidence, by_cluster=self._names_clusters)

    @functools.cached_property
    def sketch(self) -> counts.Sketch:
        """How often each pattern of answers was given, with what judgements rule out."""
        if self.graders is None:
            raise EvidenceError.of("evidence", "must have answers", "none")
        if self.partitions is not None and self.partitions.decisions is not None:
            return self.partitions.decisions
        return counts.count_decisions(self.graders, judgements="use")

    @functools.cached_property
    def graders(self) -> Evidence | None:
        """Whose answers a proof looks at: the systems, else the raters of a wide table."""
        if self.evidence is not None and self.evidence.answers is not None:
            return self.evidence
        if self.rated is None or self.rated.form != "wide":
            return None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", EvidenceWarning)  # the classes are told elsewhere
            return Evidence.from_wide(
                self.table(self.rated),
                systems=self.grader_names,
                item=self.rated.options.get("item"),
                n_classes=self.settings.n_classes,
                classes=self.settings.classes,
            )

    @functools.cached_property
    def votes(self) -> counts.RatingCounts | None:
        """Votes and answers beside them, stored counts included; None without ratings."""
        counted = None if self.ratings is None else counts.count_ratings(self.ratings)
        return _added(self.stored_ratings, counted)

    @property
    def votes_alone(self) -> counts.RatingCounts | None:
        """The votes without the answers beside them, where no system is in question."""
        if self.votes is None or self.ratings is None or self.ratings.answers is None:
            return self.votes
        unused = {k: n for k, n in self.votes.unused.items() if not k.startswith("answers ")}
        return dataclasses.replace(self.votes, answers={}, matches={}, unused=unused)

    # what is there

    @functools.cached_property
    def systems(self) -> tuple[str, ...]:
        """The systems, sorted."""
        return () if self.accuracy is None else tuple(self.accuracy.systems)

    @property
    def judged_systems(self) -> tuple[str, ...]:
        """The systems whose answers stand beside ratings."""
        return () if self.votes is None else tuple(sorted(self.votes.answers))

    @property
    def has_labels(self) -> bool:
        """Whether some answer met a label."""
        counts = self.accuracy
        return counts is not None and any(t.verdict != "unsure" for t in counts.tallies)

    @property
    def n_classes(self) -> int | None:
        """The number of classes, the largest where items differ; None where nothing tells."""
        if self.accuracy is not None:
            return max((c.n_classes for c in self.accuracy.items), default=0) or None
        return None if self.evidence is None else self.evidence.n_classes

    @property
    def free_text(self) -> bool:
        """Whether answers may be any text: they are graded, and nothing names their classes."""
        e = self.evidence
        if e is None or e.grades is None:
            return False
        return e.n_classes is None and not e.has_own_n_classes

    @property
    def weighted(self) -> bool:
        """Whether items count differently, so that a plain share of items is not the accuracy."""
        return self.accuracy is not None and len({c.weight for c in self.accuracy.items}) > 1

    @property
    def protocol(self) -> Literal["question", "sets"] | None:
        """The protocol of the settings; labels in columns of a wide table were filled separately."""
        return self.settings.protocol or (None if self.evidence is None else self.evidence.protocol)

    @functools.cached_property
    def same_items(self) -> bool:
        """Whether the rated items are known to be exactly the items with answers."""
        from noracle.evidence.labels import count

        e = self.evidence
        if e is None or e.answers is None or self.ratings is None or self.stored is not None:
            return False
        frames = [frame.select("item").unique() for frame in (e.answers, self.ratings.used)]
        if max(map(count, frames)) > _MOST_COMPARED_ITEMS:
            return False
        ours, theirs = ({str(row[0]) for row in fetch(frame)} for frame in frames)
        return ours == theirs


def _names_items(source: Source) -> bool:
    return source.form != "wide" or source.options.get("item") is not None


def _is_guessed(source: Source) -> bool:
    """Whether the types of a table's columns are guessed from its rows."""
    return not str(source.paths[0]).lower().endswith((".parquet", ".pq"))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, (Mapping, list, tuple)):
        for part in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(part)


def _single(source: Source) -> str:
    """One path or pattern, for readers that take no lists."""
    found = find_pattern(source.paths)
    if found is None:
        rule = "must be one file, or files that one pattern such as part-*.csv names"
        remedy = "Rename them, or put them into a folder of their own."
        raise EvidenceError.of(source.kind, rule, ", ".join(source.paths[:5]), remedy=remedy)
    return found


def _item_column(table: str, options: Mapping[str, Any]) -> dict[str, str]:
    item = options.get("item")
    return {} if item is None else {f"{table}.item": item}


def _added(stored: C | None, counted: C | None) -> C | None:
    """Stored counts and those of the tables, where there are both."""
    return counted if stored is None else stored if counted is None else stored + counted
