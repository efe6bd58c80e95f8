"""The evidence of an inventory, opened once and counted once.

Every analysis sees these counts only, so that a large table is read as few times as possible.
"""

from __future__ import annotations

import dataclasses
import functools
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from noracle.counts import (
    AccuracyCounts,
    JudgementCounts,
    PatternCounts,
    RatingCounts,
    Sketch,
    count_accuracy,
    count_decisions,
    count_judgements,
    count_patterns,
    count_ratings,
)
from noracle.errors import EvidenceError, EvidenceWarning, fault
from noracle.evidence import Evidence, Ratings
from noracle.evidence.prices import read_prices
from noracle.oversight.command_lines import CommandLines
from noracle.oversight.model import Inventory, Settings, Source
from noracle.oversight.opening import find_pattern, joined_prices, price_table, read_counts_file

_MOST_COMPARED_ITEMS = 2_000_000


class Loaded(CommandLines):
    r"""What an inventory holds, opened; counts are made once, when they are first asked for.

    Attributes
    ----------
    inventory, settings
        What was found, and what was set.
    evidence
        Answers and judgements, or None where there are neither.
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

    def __init__(self, inventory: Inventory) -> None:
        self.inventory = inventory
        self.settings: Settings = inventory.settings
        self.notes: list[str] = []
        self.answers = self._one("answers")
        self.judgements = self._one("judgements")
        self.items = self._one("items")
        self.rated = self._one("ratings")
        scored, priced = self._one("scores"), self._one("prices")
        self.scores: str | None = None if scored is None else _single(scored)
        self.score_raters: tuple[str, ...] = () if scored is None else tuple(scored.options.get("raters", ()))
        told = dict(self.settings.prices)
        self.price_file: str | None = None
        if priced is not None and Path(priced.paths[0]).suffix.lower() == ".toml":
            self.price_file = _single(priced)
        elif priced is not None:
            told = {**price_table(_single(priced), priced), **told}
        self.told_prices: Mapping[str, float] = told
        self.prices = joined_prices(None if self.price_file is None else read_prices(self.price_file), told)
        self.stored, self.stored_paths, self.stored_ratings, self.stored_rating_paths = self._stored()
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always", EvidenceWarning)
            self.evidence = self._open_evidence()
            self.ratings = self._open_ratings()
        said = [str(w.message) for w in heard if issubclass(w.category, EvidenceWarning)]
        read = [*(self.evidence.inferred if self.evidence else ()), *(self.ratings.inferred if self.ratings else ())]
        self.notes += [line for line in dict.fromkeys(read) if not any(text.startswith(line) for text in said)] + said

    # ------------------------------------------------------------------------------------------------------------- opening

    def _one(self, kind: Any) -> Source | None:
        """The table of a kind; further ones of the same kind and form are parts of it, others are named in the notes."""
        found = self.inventory.of(kind)
        if not found:
            return None
        first = found[0]
        same = [s for s in found if (s.form, dict(s.options)) == (first.form, dict(first.options))]
        for other in found:
            if other not in same:
                self.notes.append(f"not used: {', '.join(other.paths)}, since {kind} of another form were taken from {first.paths[0]}")
        paths = tuple(dict.fromkeys(p for s in same for p in s.paths))
        return Source(kind=first.kind, paths=paths, why=first.why, columns=first.columns, form=first.form, options=first.options)

    def table(self, source: Source) -> str | list[str]:
        """What a reader of tables is given: one path or pattern, or all paths."""
        return find_pattern(source.paths) or list(source.paths)

    def _open_evidence(self) -> Evidence | None:
        if self.answers is None and self.judgements is None:
            return None
        return self.evidence_with(n_classes=self.settings.n_classes, classes=self.settings.classes)

    def evidence_with(self, *, n_classes: int | None, classes: Sequence[int | str] | None) -> Evidence:
        """The evidence as it was found, with these classes."""
        given = {s.kind: self.table(s) for s in (self.answers, self.judgements, self.items) if s is not None}
        s = self.settings
        wide = self.answers.options if self.answers is not None and self.answers.form == "wide" else {}
        columns = {**s.columns, **({"answers.item": wide["item"]} if wide.get("item") is not None else {})}
        return Evidence.from_tables(
            given.get("answers"), given.get("judgements"), given.get("items"), n_classes=n_classes, classes=classes, conflicts=s.conflicts,
            columns=columns, wide=True if wide else None, systems=wide.get("systems"), label=wide.get("label"),
            ruled_out=wide.get("ruled_out"), no_answer=s.no_answer, invalid=s.invalid,
        )  # fmt: skip

    def _open_ratings(self) -> Ratings | None:
        if self.rated is None:
            return None
        path, s = self.table(self.rated), self.settings
        answers = self.table(self.answers) if self.answers is not None and self.answers_join_ratings else None
        if self.rated.form == "votes":
            return Ratings.from_votes(path, answers, labels=s.classes)
        columns, systems = dict(s.columns), tuple(self.rated.options.get("systems", ()))
        columns |= {"ratings.item": self.rated.options["item"]} if self.rated.options.get("item") is not None else {}
        if answers is not None and self.answers is not None and self.answers.form == "wide":
            systems = tuple(self.answers.options.get("systems", ()))
            columns |= {"answers.item": self.answers.options["item"]} if self.answers.options.get("item") is not None else {}
        return Ratings.from_tables(
            path, answers, labels=s.classes, columns=columns, raters=self.rated.options.get("raters"), systems=systems or None,
            no_answer=s.no_answer,
        )  # fmt: skip

    def _stored(self) -> tuple[AccuracyCounts | None, tuple[str, ...], RatingCounts | None, tuple[str, ...]]:
        """Stored counts, added; counts of answers and counts of ratings are told apart by their schema."""
        totals: dict[str, Any] = {}
        paths: dict[str, list[str]] = {"counts/1": [], "rating-counts/1": []}
        readers: dict[str, Any] = {"counts/1": AccuracyCounts, "rating-counts/1": RatingCounts}
        for path in [p for s in self.inventory.of("counts") for p in s.paths]:
            data = read_counts_file(path)
            schema = str(data.get("schema"))
            if schema not in readers:
                raise EvidenceError(fault("counts", "must have schema counts/1 or rating-counts/1", f"{schema!r} in {path!r}"))
            try:
                read = readers[schema].from_dict(data)
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                raise EvidenceError(fault("counts", f"must have the shape of {schema}", f"{type(error).__name__} in {path!r}")) from None
            totals[schema] = totals[schema] + read if schema in totals else read
            paths[schema].append(path)
        return totals.get("counts/1"), tuple(paths["counts/1"]), totals.get("rating-counts/1"), tuple(paths["rating-counts/1"])

    # ------------------------------------------------------------------------------------------------------------- counting

    @functools.cached_property
    def accuracy(self) -> AccuracyCounts | None:
        """How answers met labels, stored counts included; None without answers."""
        parts = [] if self.stored is None else [self.stored]
        if self.evidence is not None and self.evidence.answers is not None:
            parts.append(self._counted)
        return None if not parts else parts[0] if len(parts) == 1 else parts[0] + parts[1]

    @functools.cached_property
    def _counted(self) -> AccuracyCounts:
        if self.evidence is None:
            raise EvidenceError(fault("evidence", "must have answers", "none"))
        return count_accuracy(self.evidence)

    @functools.cached_property
    def accuracy_by_cluster(self) -> AccuracyCounts | None:
        """The same by cluster, where the items name clusters."""
        if self.evidence is None or self.evidence.answers is None or not self._names_clusters:
            return self.accuracy
        counted = count_accuracy(self.evidence, by_cluster=True)
        return counted if self.stored is None else self.stored + counted

    @property
    def _names_clusters(self) -> bool:
        return self.evidence is not None and self.evidence.items is not None and "cluster" in self.evidence.items.columns

    @functools.cached_property
    def asked(self) -> JudgementCounts | None:
        """What was asked and what was said; None without judgements."""
        if self.evidence is None or self.evidence.judgements is None:
            return None
        counted = self._counted if self.evidence.answers is not None else None
        return count_judgements(self.evidence, by_rater=False, counts=counted)

    @functools.cached_property
    def patterns(self) -> PatternCounts:
        """How systems met the same labels together."""
        if self.evidence is None:
            raise EvidenceError(fault("evidence", "must have answers and judgements", "neither"))
        return count_patterns(self.evidence, by_cluster=self._names_clusters)

    @functools.cached_property
    def sketch(self) -> Sketch:
        """How often each pattern of answers was given, with what judgements rule out."""
        evidence = self.graders
        if evidence is None:
            raise EvidenceError(fault("evidence", "must have answers", "none"))
        return count_decisions(evidence, judgements="use")

    @functools.cached_property
    def graders(self) -> Evidence | None:
        """Whose answers a proof looks at: the systems; or the raters of a wide table, where no system answered."""
        if self.evidence is not None and self.evidence.answers is not None:
            return self.evidence
        if self.rated is None or self.rated.form != "wide":
            return None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", EvidenceWarning)  # the number of classes was told already, or is said by the sketch
            return Evidence.from_wide(
                self.table(self.rated), systems=self.grader_names, item=self.rated.options.get("item"), n_classes=self.settings.n_classes,
                classes=self.settings.classes,
            )  # fmt: skip

    @functools.cached_property
    def votes(self) -> RatingCounts | None:
        """How raters voted and systems answered beside them, stored counts included; None without ratings."""
        parts = [] if self.stored_ratings is None else [self.stored_ratings]
        if self.ratings is not None:
            parts.append(count_ratings(self.ratings))
        return None if not parts else parts[0] if len(parts) == 1 else parts[0] + parts[1]

    @property
    def votes_alone(self) -> RatingCounts | None:
        """The votes without the answers beside them, as they are counted where no system is in question."""
        if self.votes is None or self.ratings is None or self.ratings.answers is None:
            return self.votes
        unused = {name: n for name, n in self.votes.unused.items() if not name.startswith("answers ")}
        return dataclasses.replace(self.votes, answers={}, matches={}, unused=unused)

    # ------------------------------------------------------------------------------------------------------------- what is there

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
        return self.accuracy is not None and any(t.verdict != "unsure" for t in self.accuracy.tallies)

    @property
    def n_classes(self) -> int | None:
        """The number of classes; the largest where items differ, None where nothing tells."""
        if self.accuracy is not None:
            return max((c.n_classes for c in self.accuracy.items), default=None)
        return None if self.evidence is None else self.evidence.n_classes

    @property
    def weighted(self) -> bool:
        """Whether items count differently, so that a plain share of items is not the accuracy."""
        return self.accuracy is not None and len({c.weight for c in self.accuracy.items}) > 1

    @property
    def protocol(self) -> Literal["question", "sets"] | None:
        """The protocol of the settings; labels that are columns of a wide table were filled separately."""
        return self.settings.protocol or (None if self.evidence is None else self.evidence.protocol)

    @functools.cached_property
    def same_items(self) -> bool:
        """Whether the rated items are exactly the items with answers; False where that is not known."""
        if self.evidence is None or self.evidence.answers is None or self.ratings is None or self.stored is not None:
            return False
        from noracle.evidence.frames import fetch
        from noracle.evidence.validate import count

        frames = [self.evidence.answers.select("item").unique(), self.ratings.used.select("item").unique()]
        if any(count(frame) > _MOST_COMPARED_ITEMS for frame in frames):
            return False
        ours, theirs = ({str(row[0]) for row in fetch(frame)} for frame in frames)
        return ours == theirs


def _single(source: Source) -> str:
    """One path or pattern, for readers that take no lists."""
    found = find_pattern(source.paths)
    if found is None:
        rule = "must be one file, or files that one pattern such as part-*.csv names"
        raise EvidenceError(
            fault(source.kind, rule, ", ".join(source.paths[:5]), remedy="Rename them, or put them into a folder of their own.")
        )
    return found
