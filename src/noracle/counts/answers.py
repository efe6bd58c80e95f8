"""The answers by item, for drawing questions; items are sorted so that the order of the rows does
not matter.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import narwhals as nw

from noracle.errors import EvidenceError, fault, known_names
from noracle.evidence import Evidence
from noracle.evidence.frames import fetch


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AnswerTable:
    """Items in sorted order with their number of classes and the answers given to each."""

    items: tuple[Any, ...]
    systems: tuple[str, ...]
    n_classes: Mapping[Any, int] | int
    names: tuple[int | str, ...] | None
    answers: Mapping[Any, Counter[Any]]

    def classes_of(self, i: int) -> Sequence[int | str]:
        """The classes of the i-th item."""
        k = self.n_classes if isinstance(self.n_classes, int) else self.n_classes[self.items[i]]
        return range(k) if self.names is None else self.names[:k]

    def votes(self, i: int) -> dict[Any, int]:
        """How many systems gave each answer to the i-th item."""
        return dict(self.answers.get(self.items[i], Counter()))


def answer_table(evidence: Evidence, *, systems: Sequence[str] | None = None) -> AnswerTable:
    """All items of the evidence (of ``items`` if there, else of ``answers``) with the answers of
    the chosen systems.
    """
    if evidence.answers is None and evidence.items is None:
        raise EvidenceError(fault("evidence", "must have answers or items", "neither"))
    evidence.check()
    names = evidence.classes
    if names is None and evidence.class_kind == "text":
        raise EvidenceError(
            fault(
                "classes",
                "must be given where classes are text",
                "none",
                remedy="Pass classes=[…], all of them.",
            )
        )
    rows = (
        []
        if evidence.answers is None
        else fetch(evidence.answers.select("item", "system", "answer"))
    )
    found = sorted({str(r[1]) for r in rows})
    missing = [s for s in systems or () if s not in found]
    if missing:
        came = f"{missing}, which have no answers"
        raise EvidenceError(
            fault("systems", "must be in answers", came, remedy=known_names(missing[0], found))
        )
    chosen = set(found if systems is None else systems)
    votes: dict[Any, Counter[Any]] = {}
    for item, system, answer in rows:
        if system in chosen and answer is not None:
            votes.setdefault(item, Counter())[answer] += 1
    items = {
        r[0] for r in (rows if evidence.items is None else fetch(evidence.items.select("item")))
    }
    n_classes: Mapping[Any, int] | int = int(evidence.n_classes or 0)
    if evidence.has_own_n_classes and evidence.items is not None:
        n_classes = {
            item: int(k) for item, k in fetch(evidence.items.select("item", nw.col("n_classes")))
        }
    return AnswerTable(
        items=tuple(sorted(items)),
        systems=tuple(sorted(chosen)),
        n_classes=n_classes,
        names=names,
        answers=votes,
    )
