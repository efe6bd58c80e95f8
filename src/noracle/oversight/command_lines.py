"""The evidence of a report as options of the command line, so that every figure can be made again."""

from __future__ import annotations

import csv
import io
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from noracle.evidence import Evidence
from noracle.oversight.model import Inventory, Settings, Source
from noracle.oversight.opening import find_pattern

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
