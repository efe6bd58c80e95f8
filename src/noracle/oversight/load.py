"""Small things that opening evidence needs: one pattern for several files, prices, stored counts."""

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
from typing import Any, Literal

import narwhals as nw

from noracle.counts import (
    AccuracyCounts,
    Counted,
    JudgementCounts,
    Partition,
    PatternCounts,
    RatingCounts,
    Sketch,
    count_accuracy,
    count_decisions,
    count_judgements,
    count_partitions,
    count_patterns,
    count_ratings,
    pair_partitions,
)
from noracle.counts.totals import remember
from noracle.errors import EvidenceError, EvidenceWarning, fault
from noracle.evidence import Evidence, Ratings
from noracle.evidence.classes import no_answers
from noracle.evidence.frames import fetch, open_frames
from noracle.evidence.prices import Prices, read_prices
from noracle.evidence.shapes import shape_of
from noracle.evidence.tables import TABLES, kind_of
from noracle.oversight.model import Inventory, Settings, Source
from noracle.results.base import encode

LABEL_KINDS = ("ordinary", "complementary", "question", "targeted", "grades")


def find_pattern(paths: Sequence[str]) -> str | None:
    """One path, or one pattern that matches exactly these files; None where none was found.

    Examples
    --------
    >>> find_pattern(["answers.csv"])
    'answers.csv'
    """
    if len(paths) == 1:
        return paths[0]
    wanted = sorted(os.path.normpath(p) for p in paths)
    for pattern in _patterns(sorted(paths)):
        found = sorted(
            os.path.normpath(f)
            for f in glob.glob(pattern, recursive=True)  # noqa: PTH207 (a pattern)
            if Path(f).is_file()
        )
        if found == wanted:
            return pattern
    return None


def _patterns(paths: Sequence[str]) -> Iterator[str]:
    """Patterns to try, the plainest first."""
    prefix = _shared(paths)
    suffix = _shared([p[len(prefix) :][::-1] for p in paths])[::-1]
    yield f"{glob.escape(prefix)}*{glob.escape(suffix)}"
    folder, ends = prefix[: prefix.rfind("/") + 1], "".join(Path(paths[0]).suffixes[-2:])
    start = glob.escape(folder)
    yield f"{start}**/*{glob.escape(ends)}"
    yield f"{start}*/*{glob.escape(ends)}"
    names = [p[len(folder) :] for p in paths]
    for word in sorted(set(re.findall(r"[^\W_]{3,}", names[0])), key=lambda w: (-len(w), w)):
        if all(word in name for name in names):
            yield f"{start}*{word}*{glob.escape(ends)}"
            yield f"{start}**/*{word}*{glob.escape(ends)}"
    first = "".join(sorted({name[0] for name in names if name[0].isalnum()}))
    if first:
        yield f"{start}[{first}]*{glob.escape(ends)}"


def _shared(texts: Sequence[str]) -> str:
    """The longest text that all begin with."""
    first, last = min(texts), max(texts)
    for i, letter in enumerate(first):
        if i >= len(last) or last[i] != letter:
            return first[:i]
    return first


def price_table(path: str, source: Source) -> dict[str, float]:
    """Prices out of a table with a column of names and one of prices."""
    from noracle.evidence.frames import fetch, open_frames

    name, price = (
        str(source.options.get("name", "rater")),
        str(source.options.get("price", "price")),
    )
    frames, _connection = open_frames({"prices": path})
    rows = fetch(frames["prices"].select(name, price))
    found: dict[str, float] = {}
    for key, value in rows:
        if (
            isinstance(value, bool)
            or not isinstance(value, (int, float))
            or not (math.isfinite(value) and value > 0)
            or key is None
        ):
            raise EvidenceError(
                fault(
                    f"prices.{price}",
                    "must be a positive number",
                    repr(value),
                    where=[key],
                    total=1,
                )
            )
        if str(key) in found:
            raise EvidenceError(
                fault(
                    f"prices.{name}", "must name everything once", repr(key), where=[key], total=1
                )
            )
        found[str(key)] = float(value)
    return found


def joined_prices(file: Prices | None, told: Mapping[str, float]) -> Prices:
    """The prices of a file and those that were told beside it, which win."""
    labels = {k: float(v) for k, v in told.items() if is_label(k)}
    raters = {k: float(v) for k, v in told.items() if not is_label(k)}
    known = file or Prices()
    return dataclasses.replace(
        known, labels={**known.labels, **labels}, raters={**known.raters, **raters}
    )


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
        raise EvidenceError(
            fault("counts", "must be a readable JSON file", f"{path!r} ({type(error).__name__})")
        ) from None
    if not isinstance(data, dict):
        raise EvidenceError(
            fault("counts", "must hold a JSON object", f"something else in {path!r}")
        )
    return data


# ----------------------------------------------------------------------------
# The evidence of a report as options of the command line, so that every figure can be made again.


_UNNAMED = "\0"


class CommandLines:
    """Command lines about the evidence that a subclass has opened."""

    inventory: Inventory
    settings: Settings
    answers: Source | None
    judgements: Source | None
    grades: Source | None
    items: Source | None
    rated: Source | None
    evidence: Evidence | None
    stored_paths: tuple[str, ...]
    stored_rating_paths: tuple[str, ...]

    def path(self, source: Source) -> str:
        """One path, or one pattern that matches the files of the source and no other."""
        found = find_pattern(source.paths)
        return (
            _UNNAMED
            if found is None
            else f"{found}#{source.options['metric']}"
            if "metric" in source.options
            else found
        )

    @property
    def answers_join_ratings(self) -> bool:
        """Whether the answers can be read beside the ratings: for wide tables with a named item
        column.
        """
        if (
            self.answers is None
            or self.rated is None
            or (self.answers.form == "wide" and self.answers.options.get("item") is None)
        ):
            return False
        return self.rated.form != "wide" or (
            self.rated.options.get("item") is not None and not self.rated.options.get("systems")
        )

    @property
    def ratings_name_clusters(self) -> bool:
        """Whether the table of items names clusters that the rated items can be joined with."""
        if self.rated is None or self.items is None or "cluster" not in self.items.columns:
            return False
        return self.rated.form != "wide" or self.rated.options.get("item") is not None

    @property
    def grader_names(self) -> list[str]:
        """The columns of a wide table of ratings that hold labels: raters, then systems."""
        o: Mapping[str, Any] = {} if self.rated is None else self.rated.options
        return [*o.get("raters", ()), *o.get("systems", ())]

    def command(self, verb: str, *groups: Sequence[str]) -> str:
        """A command line that can be pasted into a shell; the whole report again, where no pattern
        names the files of one table.
        """
        words = ["noracle", verb, *(word for group in groups for word in group)]
        return shlex.join(
            ["noracle", "report", self.inventory.place] if _UNNAMED in words else words
        )

    def evidence_words(self, *, stored: bool = False) -> list[str]:
        """The options that open the same evidence; with ``stored`` also the stored counts."""
        words: list[str] = []
        if self.evidence is not None:
            words = self.table_words()
            words += self.class_words()
            words += (
                ["--conflicts", self.settings.conflicts]
                if self.settings.conflicts != "error"
                else []
            )
        return words + [w for path in self.stored_paths if stored for w in ("--counts", path)]

    def table_words(self, *, systems: bool = True) -> list[str]:
        """The tables of the evidence, and how they are read; without ``systems`` their columns must
        tell themselves.
        """
        sources = [
            s for s in (self.answers, self.judgements, self.grades, self.items) if s is not None
        ]
        words = [word for s in sources for word in (f"--{s.kind}", self.path(s))]
        o: Mapping[str, Any] = (
            self.answers.options if self.answers is not None and self.answers.form == "wide" else {}
        )
        columns = {}
        if o and systems:
            words += ["--wide", "--systems", csv_words(o.get("systems", ()))]
            for flag, key in (
                ("--item", "item"),
                ("--label", "label"),
                ("--ruled-out", "ruled_out"),
            ):
                words += [flag, str(o[key])] if o.get(key) is not None else []
        elif o.get("item") not in (None, "item"):
            columns = {"answers.item": str(o["item"])}
        return words + self.reading_words(columns)

    def reading_words(
        self, columns: Mapping[str, str] | None = None, *, invalid: bool = True
    ) -> list[str]:
        """The options that say how tables are read: names of columns, no answer, answers that
        cannot be.
        """
        s = self.settings
        named = {**s.columns, **(columns or {})}
        words = (
            ["--columns", csv_words([f"{name}={column}" for name, column in named.items()])]
            if named
            else []
        )
        words += ["--no-answer", csv_words(s.no_answer)] if s.no_answer else []
        return words + (["--invalid", s.invalid] if invalid and s.invalid != "wrong" else [])

    def place_words(self) -> list[str]:
        """The folder, or the files that were found."""
        place = self.inventory.place
        return (
            [place]
            if Path(place).exists()
            else [path for source in self.inventory.sources for path in source.paths]
        )

    def class_words(self) -> list[str]:
        """The number of classes or the classes, where they were set."""
        s = self.settings
        words = ["--n-classes", str(s.n_classes)] if s.n_classes is not None else []
        return words + (["--classes", csv_words(s.classes)] if s.classes is not None else [])

    def grader_words(self) -> list[str]:
        """The options that open what a proof looks at."""
        if self.evidence is not None and self.evidence.answers is not None:
            return self.evidence_words()
        if self.rated is None:
            return []
        item = self.rated.options.get("item")
        words = [
            "--answers",
            self.path(self.rated),
            "--wide",
            "--systems",
            csv_words(self.grader_names),
        ]
        return [*words, *(["--item", str(item)] if item is not None else []), *self.class_words()]

    def rating_words(self, *, answers: bool = False) -> list[str]:
        """The options that open the same ratings; with ``answers`` also those of the systems."""
        words: list[str] = []
        if self.rated is not None:
            words = ["--ratings", self.path(self.rated)]
            o = self.rated.options
            if self.rated.form == "wide":
                words += ["--wide", "--raters", csv_words(o.get("raters", ()))]
                words += ["--item", str(o["item"])] if o.get("item") is not None else []
                words += (
                    ["--systems", csv_words(o["systems"])] if answers and o.get("systems") else []
                )
            elif self.rated.form == "votes":
                words += ["--votes"]
            if self.settings.classes is not None:
                words += ["--labels", csv_words(self.settings.classes)]
            columns = {}
            if answers and self.answers is not None and self.answers_join_ratings:
                words += ["--answers", self.path(self.answers)]
                if self.answers.form == "wide":
                    words += ["--systems", csv_words(self.answers.options.get("systems", ()))]
                    columns = {"answers.item": str(self.answers.options["item"])}
            if answers and self.items is not None and self.ratings_name_clusters:
                words += ["--items", self.path(self.items)]
            words += self.reading_words(columns, invalid=False)
        return words + [w for path in self.stored_rating_paths for w in ("--counts", path)]


def csv_words(names: Sequence[object] | None) -> str:
    """Names separated by commas; one that holds a comma or a quote is quoted, as the command line
    reads them.

    Examples
    --------
    >>> csv_words(["a", "b, c"])
    'a,"b, c"'
    """
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow([str(n) for n in names or ()])
    return text.getvalue()


# ----------------------------------------------------------------------------
# The evidence of an inventory, opened once and counted once.


STORE = "store: "
"""Notes about the store begin so."""
_MOST_COMPARED_ITEMS = 2_000_000
_MOST_LABELS = 200
_NOT_READING = frozenset(
    {
        "title",
        "confidence",
        "seed",
        "protocol",
        "files",
        "ignore",
        "claim",
        "trained_on_annotators",
        "margin",
        "target",
        "prices",
        "half_width",
        "budget",
        "time_limit",
    }
)
"""Settings that say nothing about how tables are read."""


class Loaded(CommandLines):
    r"""What an inventory holds, opened; counts are made once, when they are first asked for.

    Attributes
    ----------
    inventory, settings
        What was found, and what was set.
    evidence
        Answers, judgements and grades, or None where there are none of them.
    ratings
        Ratings, with the answers beside them where both are long tables; or None.
    scores
        The path of the scores, or None.
    prices
        Prices of labels and raters: those of the file and those of the settings together.
    notes
        Choices that were made while opening, and tables that could not be used together.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from noracle.oversight.model import Inventory, Source
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     answers = pathlib.Path(folder, "answers.csv")
    ...     _ = answers.write_text("item,system,answer\n1,a,0\n2,a,1\n", encoding="utf-8")
    ...     source = Source(kind="answers", paths=(str(answers),), why="columns item, system, answer")
    ...     loaded = Loaded(Inventory(place=folder, sources=(source,)))
    ...     loaded.systems
    ('a',)
    """

    def __init__(
        self,
        inventory: Inventory,
        *,
        store: str | os.PathLike[str] | None = None,
        progress: Callable[[str], None] | None = None,
    ) -> None:
        self.inventory = inventory
        self.settings: Settings = inventory.settings
        self.notes: list[str] = []
        self.answers = self._one("answers")
        self.judgements = self._one("judgements")
        self.grades = self._one("grades")
        self.items = self._one("items")
        self.rated = self._one("ratings")
        scored, priced = self._one("scores"), self._one("prices")
        self.scores: str | None = None if scored is None else _single(scored)
        self.score_raters: tuple[str, ...] = (
            () if scored is None else tuple(scored.options.get("raters", ()))
        )
        told = dict(self.settings.prices)
        self.price_file: str | None = None
        if priced is not None and Path(priced.paths[0]).suffix.lower() == ".toml":
            self.price_file = _single(priced)
        elif priced is not None:
            told = {**price_table(_single(priced), priced), **told}
        self.told_prices: Mapping[str, float] = told
        self.prices = joined_prices(
            None if self.price_file is None else read_prices(self.price_file), told
        )
        self.stored, self.stored_paths, self.stored_ratings, self.stored_rating_paths = (
            self._stored()
        )
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always", EvidenceWarning)
            self.evidence = self._open_evidence()
            if self.evidence is not None:
                self.evidence._meet()
            self.ratings = self._open_ratings()
        said = [str(w.message) for w in heard if issubclass(w.category, EvidenceWarning)]
        read = [
            *(self.evidence.inferred if self.evidence else ()),
            *(self.ratings.inferred if self.ratings else ()),
        ]
        self.notes += [
            line for line in dict.fromkeys(read) if not any(text.startswith(line) for text in said)
        ] + said
        self.partitions: Counted | None = (
            None if store is None else self._count_partitions(store, progress)
        )

    # -------------------------------------------------------------------------------------------------------------
    # opening

    def _one(self, kind: Any) -> Source | None:
        """The table of a kind; further ones of the same kind and form are parts of it, others are
        named in the notes.
        """
        found = self.inventory.of(kind)
        if not found:
            return None
        first = found[0]
        same = [s for s in found if (s.form, dict(s.options)) == (first.form, dict(first.options))]
        for other in found:
            if other not in same:
                self.notes.append(
                    f"not used: {', '.join(other.paths)}, since {kind} of another form were taken from {first.paths[0]}"
                )
        paths = tuple(dict.fromkeys(p for s in same for p in s.paths))
        return Source(
            kind=first.kind,
            paths=paths,
            why=first.why,
            columns=first.columns,
            form=first.form,
            options=first.options,
        )

    def table(self, source: Source) -> str | list[str]:
        """What a reader of tables is given: one path or pattern, or all paths; with the metric of
        results of a tool, where one is named.
        """
        if "metric" in source.options:
            return [f"{path}#{source.options['metric']}" for path in source.paths]
        return find_pattern(source.paths) or list(source.paths)

    def _open_evidence(self, *, from_one: bool | None = None) -> Evidence | None:
        if self.answers is None and self.judgements is None and self.grades is None:
            return None
        s = self.settings
        return self.evidence_with(n_classes=s.n_classes, classes=s.classes, from_one=from_one)

    def evidence_with(
        self,
        *,
        n_classes: int | None,
        classes: Sequence[int | str] | None,
        from_one: bool | None = None,
    ) -> Evidence:
        """The evidence as it was found, with these classes; ``from_one`` as the whole counts them."""
        given: dict[str, Any] = {
            s.kind: self.table(s)
            for s in (self.answers, self.judgements, self.grades, self.items)
            if s is not None
        }
        s = self.settings
        wide = (
            self.answers.options if self.answers is not None and self.answers.form == "wide" else {}
        )
        columns = {
            **s.columns,
            **({"answers.item": wide["item"]} if wide.get("item") is not None else {}),
        }
        named = {name: wide.get(name) for name in ("systems", "label", "ruled_out")}
        silent = no_answers(s.no_answer)
        shape = shape_of(columns, wide=True if wide else None, no_answer=silent, **named)
        evidence = Evidence._made(
            given,
            shape,
            n_classes=n_classes,
            classes=classes,
            conflicts=s.conflicts,
            invalid=s.invalid,
            from_one=from_one,
        )
        return evidence.with_repeats(s.repeats)

    def _open_ratings(self) -> Ratings | None:
        if self.rated is None:
            return None
        path, s = self.table(self.rated), self.settings
        answers = (
            self.table(self.answers)
            if self.answers is not None and self.answers_join_ratings
            else None
        )
        if self.rated.form == "votes":
            return Ratings.from_votes(path, answers, items=self._rated_items(), labels=s.classes)
        columns, systems = dict(s.columns), tuple(self.rated.options.get("systems", ()))
        columns |= (
            {"ratings.item": self.rated.options["item"]}
            if self.rated.options.get("item") is not None
            else {}
        )
        if answers is not None and self.answers is not None and self.answers.form == "wide":
            systems = tuple(self.answers.options.get("systems", ()))
            columns |= (
                {"answers.item": self.answers.options["item"]}
                if self.answers.options.get("item") is not None
                else {}
            )
        return Ratings.from_tables(
            path,
            answers,
            items=self._rated_items(),
            labels=s.classes,
            columns=columns,
            raters=self.rated.options.get("raters"),
            systems=systems or None,
            no_answer=s.no_answer,
        )

    def _rated_items(self) -> str | list[str] | None:
        """The table of items, where it names clusters of the rated items."""
        return (
            None if self.items is None or not self.ratings_name_clusters else self.table(self.items)
        )

    def _stored(
        self,
    ) -> tuple[AccuracyCounts | None, tuple[str, ...], RatingCounts | None, tuple[str, ...]]:
        """Stored counts, added; counts of answers and counts of ratings are told apart by their
        schema.
        """
        totals: dict[str, Any] = {}
        paths: dict[str, list[str]] = {"counts/1": [], "rating-counts/1": []}
        readers: dict[str, Any] = {"counts/1": AccuracyCounts, "rating-counts/1": RatingCounts}
        for path in [p for s in self.inventory.of("counts") for p in s.paths]:
            data = read_counts_file(path)
            schema = str(data.get("schema"))
            if schema not in readers:
                raise EvidenceError(
                    fault(
                        "counts",
                        "must have schema counts/1 or rating-counts/1",
                        f"{schema!r} in {path!r}",
                    )
                )
            try:
                read = readers[schema].from_dict(data)
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                raise EvidenceError(
                    fault(
                        "counts",
                        f"must have the shape of {schema}",
                        f"{type(error).__name__} in {path!r}",
                    )
                ) from None
            totals[schema] = totals[schema] + read if schema in totals else read
            paths[schema].append(path)
        return (
            totals.get("counts/1"),
            tuple(paths["counts/1"]),
            totals.get("rating-counts/1"),
            tuple(paths["rating-counts/1"]),
        )

    # -------------------------------------------------------------------------------------------------------------
    # partitions

    def _count_partitions(
        self, store: str | os.PathLike[str], progress: Callable[[str], None] | None
    ) -> Counted | None:
        """The counts of all partitions; None, with a note that says why, where the tables must be
        counted as one.
        """
        evidence, sources = self.evidence, (self.answers, self.judgements, self.items)
        why = self._why_whole()
        if evidence is None or why:
            self.notes.append(f"{STORE}not used, since {why}")
            return None
        parts = pair_partitions(*[() if source is None else source.paths for source in sources])
        # Patterns of answers add where the labels are the same in every partition; with very many
        # no proof looks at them.
        known = evidence.class_kind == "whole" or evidence.classes is not None
        sketch: Literal["decisions", False] = (
            "decisions" if known and (evidence.n_classes or 0) <= _MOST_LABELS else False
        )
        try:
            counted = count_partitions(
                parts,
                sketch=sketch,
                by_cluster=self._names_clusters,
                store=store,
                read=self._open_partition,
                read_as=self._read_as(),
                progress=progress,
            )
        except EvidenceError as error:
            if any(line.startswith("store ") for line in error.faults):
                raise
            self.notes.append(
                f"{STORE}not used, since the tables cannot be counted by partition: {error.faults[0]}"
            )
            return None
        remember(evidence, counted)
        beside = {
            "patterns of answers": not sketch,
            "ratings": self.rated is not None,
            "scores": self.scores is not None,
        }
        others = ["the questions to ask next", *(name for name, there in beside.items() if there)]
        self.notes.append(
            f"{STORE}{counted.reading.line()} Read from the tables themselves: {', '.join(others)}."
        )
        if len(parts) == 1 and any(
            len(source.paths) > 1 for source in sources if source is not None
        ):
            self.notes.append(
                f"{STORE}the files are one partition: give those that belong together one folder (day=1) or one name each"
            )
        return counted

    def _why_whole(self) -> str:
        """Why answers and judgements cannot be counted by partition, as far as that is known
        beforehand.
        """
        if self.evidence is None:
            return "there are no answers or judgements to count"
        if self.answers is not None and self.answers.form in ("log", "json"):
            return "answers are a log"
        if self.answers is not None and "repeat" in self.answers.columns:
            return "systems answered items more than once, which is counted over all rows"
        other = [s.kind for s in self.inventory.sources if str(s.kind) == "grades"]
        return f"{other[0]} are counted over all rows" if other else ""

    def _read_as(self) -> dict[str, Any]:
        """All that reading a partition depends on beside its files: what is kept was counted with
        the same settings and types.
        """
        about: Any = {
            f.name: getattr(self.settings, f.name)
            for f in dataclasses.fields(self.settings)
            if f.name not in _NOT_READING
        }
        tables = [
            (s.kind, s.form, s.options, self._kinds)
            for s in (self.answers, self.judgements, self.items)
            if s is not None
        ]
        from_one = self.evidence is not None and self.evidence._from_one
        known = {"settings": about, "tables": tables, "classes from 1": from_one}
        told: dict[str, Any] = json.loads(json.dumps(encode(known), sort_keys=True, default=str))
        return told

    def _open_partition(self, part: Partition) -> Evidence:
        """The evidence of a partition, opened as the whole is."""
        mine = copy.copy(self)
        mine.notes = []
        for name in ("answers", "judgements", "items"):
            source, paths = getattr(self, name), getattr(part, name)
            setattr(
                mine,
                name,
                dataclasses.replace(source, paths=paths) if source is not None and paths else None,
            )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", EvidenceWarning)  # the whole has said it already
            evidence = mine._open_evidence(
                from_one=self.evidence._from_one if self.evidence else None
            )
        if evidence is None or self.evidence is None:
            raise EvidenceError(fault("partition", "must have answers or judgements", "neither"))
        evidence._unmet.clear()  # the items of the whole were compared when it was opened
        for source in (mine.answers, mine.judgements, mine.items):
            self._require_same_kinds(source)
        if evidence.class_kind != self.evidence.class_kind:
            raise EvidenceError(
                fault(
                    "classes", "must have one type in all partitions", f"{evidence.class_kind} here"
                )
            )
        return evidence

    @functools.cached_property
    def _kinds(self) -> dict[str, dict[str, str]]:
        """What the columns of each table hold, where the reader has to find out (CSV, JSON)."""
        sources = [
            s
            for s in (self.answers, self.judgements, self.items)
            if s is not None and _is_guessed(s)
        ]
        return {
            source.kind: {name: kind for name, (kind, _) in self._held(source).items()}
            for source in sources
        }

    def _held(self, source: Source) -> dict[str, tuple[str, Any]]:
        """The kind of every known column of a table, with the frame and the connection it lives on."""
        frames, connection = open_frames({source.kind: list(source.paths)})
        frame = frames[source.kind]
        named = (
            {c.name for c in TABLES[source.kind].columns}
            | set(_texts(source.options))
            | set(_texts(getattr(self.settings, "columns", ())))
        )
        return {
            n: (kind_of(t), (frame, connection))
            for n, t in frame.collect_schema().items()
            if n in named
        }

    def _require_same_kinds(self, source: Source | None) -> None:
        """Refuse a file whose columns were taken for other types than those of the whole table: 01
        is a number here and a text there.
        """
        if source is None or not _is_guessed(source):
            return
        for name, (kind, (frame, _)) in self._held(source).items():
            whole = self._kinds[source.kind].get(name, kind)
            if kind != whole and fetch(frame.filter(~nw.col(name).is_null()).select(name).head(1)):
                raise EvidenceError(
                    fault(
                        f"{source.kind}.{name}",
                        f"must hold {whole} in every partition, as in the whole",
                        kind,
                    )
                )

    # -------------------------------------------------------------------------------------------------------------
    # counting

    @functools.cached_property
    def accuracy(self) -> AccuracyCounts | None:
        """How answers met labels, stored counts included; None without answers or grades."""
        parts = [] if self.stored is None else [self.stored]
        if self._has_systems:
            parts.append(self._counted)
        return None if not parts else parts[0] if len(parts) == 1 else parts[0] + parts[1]

    @property
    def _has_systems(self) -> bool:
        """Whether the tables hold answers, or grades of them."""
        return self.evidence is not None and (
            self.evidence.answers is not None or self.evidence.grades is not None
        )

    @functools.cached_property
    def _counted(self) -> AccuracyCounts:
        if self.evidence is None:
            raise EvidenceError(fault("evidence", "must have answers", "none"))
        known = None if self.partitions is None else self.partitions.accuracy
        return count_accuracy(self.evidence) if known is None else known.without_clusters()

    @functools.cached_property
    def accuracy_by_cluster(self) -> AccuracyCounts | None:
        """The same by cluster, where the items name clusters."""
        if self.evidence is None or not self._has_systems or not self._names_clusters:
            return self.accuracy
        known = None if self.partitions is None else self.partitions.accuracy
        counted = count_accuracy(self.evidence, by_cluster=True) if known is None else known
        return counted if self.stored is None else self.stored + counted

    @property
    def _names_clusters(self) -> bool:
        return (
            self.evidence is not None
            and self.evidence.items is not None
            and "cluster" in self.evidence.items.columns
        )

    @functools.cached_property
    def asked(self) -> JudgementCounts | None:
        """What was asked and what was said; None without judgements."""
        if self.evidence is None or self.evidence.judgements is None:
            return None
        if self.partitions is not None and self.partitions.judgements is not None:
            return self.partitions.judgements.without_raters()
        counted = self._counted if self._has_systems else None
        return count_judgements(self.evidence, by_rater=False, counts=counted)

    @functools.cached_property
    def patterns(self) -> PatternCounts:
        """How systems met the same labels together."""
        if self.evidence is None:
            raise EvidenceError(fault("evidence", "must have answers and judgements", "neither"))
        if self.partitions is not None and self.partitions.patterns is not None:
            return self.partitions.patterns
        return count_patterns(self.evidence, by_cluster=self._names_clusters)

    @functools.cached_property
    def sketch(self) -> Sketch:
        """How often each pattern of answers was given, with what judgements rule out."""
        evidence = self.graders
        if evidence is None:
            raise EvidenceError(fault("evidence", "must have answers", "none"))
        if self.partitions is not None and self.partitions.decisions is not None:
            return self.partitions.decisions
        return count_decisions(evidence, judgements="use")

    @functools.cached_property
    def graders(self) -> Evidence | None:
        """Whose answers a proof looks at: the systems; or the raters of a wide table, where no
        system answered.
        """
        if self.evidence is not None and self.evidence.answers is not None:
            return self.evidence
        if self.rated is None or self.rated.form != "wide":
            return None
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", EvidenceWarning
            )  # the number of classes was told already, or is said by the sketch
            return Evidence.from_wide(
                self.table(self.rated),
                systems=self.grader_names,
                item=self.rated.options.get("item"),
                n_classes=self.settings.n_classes,
                classes=self.settings.classes,
            )

    @functools.cached_property
    def votes(self) -> RatingCounts | None:
        """How raters voted and systems answered beside them, stored counts included; None without
        ratings.
        """
        parts = [] if self.stored_ratings is None else [self.stored_ratings]
        if self.ratings is not None:
            parts.append(count_ratings(self.ratings))
        return None if not parts else parts[0] if len(parts) == 1 else parts[0] + parts[1]

    @property
    def votes_alone(self) -> RatingCounts | None:
        """The votes without the answers beside them, as they are counted where no system is in
        question.
        """
        if self.votes is None or self.ratings is None or self.ratings.answers is None:
            return self.votes
        unused = {
            name: n for name, n in self.votes.unused.items() if not name.startswith("answers ")
        }
        return dataclasses.replace(self.votes, answers={}, matches={}, unused=unused)

    # -------------------------------------------------------------------------------------------------------------
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
        return self.accuracy is not None and any(
            t.verdict != "unsure" for t in self.accuracy.tallies
        )

    @property
    def n_classes(self) -> int | None:
        """The number of classes; the largest where items differ, None where nothing tells, as of
        free text that was graded.
        """
        if self.accuracy is not None:
            return max((c.n_classes for c in self.accuracy.items), default=0) or None
        return None if self.evidence is None else self.evidence.n_classes

    @property
    def free_text(self) -> bool:
        """Whether answers may be any text: they are graded, and nothing names their classes."""
        evidence = self.evidence
        return (
            evidence is not None
            and evidence.grades is not None
            and evidence.n_classes is None
            and not evidence.has_own_n_classes
        )

    @property
    def weighted(self) -> bool:
        """Whether items count differently, so that a plain share of items is not the accuracy."""
        return self.accuracy is not None and len({c.weight for c in self.accuracy.items}) > 1

    @property
    def protocol(self) -> Literal["question", "sets"] | None:
        """The protocol of the settings; labels that are columns of a wide table were filled
        separately.
        """
        return self.settings.protocol or (None if self.evidence is None else self.evidence.protocol)

    @functools.cached_property
    def same_items(self) -> bool:
        """Whether the rated items are exactly the items with answers; False where that is not
        known.
        """
        if (
            self.evidence is None
            or self.evidence.answers is None
            or self.ratings is None
            or self.stored is not None
        ):
            return False
        from noracle.evidence.labels import count

        frames = [
            self.evidence.answers.select("item").unique(),
            self.ratings.used.select("item").unique(),
        ]
        if any(count(frame) > _MOST_COMPARED_ITEMS for frame in frames):
            return False
        ours, theirs = ({str(row[0]) for row in fetch(frame)} for frame in frames)
        return ours == theirs


def _is_guessed(source: Source) -> bool:
    """Whether the types of a table's columns are guessed from its rows."""
    return not str(source.paths[0]).lower().endswith((".parquet", ".pq"))


def _texts(value: Any) -> Iterator[str]:
    """All texts in nested settings."""
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
        raise EvidenceError(
            fault(
                source.kind,
                rule,
                ", ".join(source.paths[:5]),
                remedy="Rename them, or put them into a folder of their own.",
            )
        )
    return found
