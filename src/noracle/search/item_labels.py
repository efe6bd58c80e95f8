"""What weak labels say of each item, as the fitness and the gate need it."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Literal, Self

from noracle.counts.tallies import Verdict
from noracle.errors import EvidenceError, fault
from noracle.evidence import Evidence
from noracle.evidence.normal import NO, YES

ItemId = int | str
LabelKind = Literal["ordinary", "complementary", "targeted"]
_Said = tuple[int, bool, float | None, str]  # class, yes, propensity, rater


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ItemLabel:
    """What is known of one item: its class, or classes that it is not of; ``asked`` (class, yes, propensity) where questions were aimed."""

    n_classes: int
    truth: int | None = None
    ruled_out: frozenset[int] = frozenset()
    asked: tuple[tuple[int, bool, float], ...] = ()

    @property
    def kind(self) -> LabelKind:
        """Which kind of score it gives."""
        return "targeted" if self.asked else "ordinary" if self.truth is not None else "complementary"

    @property
    def code(self) -> int:
        """The kind as :func:`noracle.accuracy.compare.lowest` counts it: -1 targeted, 0 ordinary, m for m ruled-out classes."""
        return -1 if self.asked else 0 if self.truth is not None else len(self.ruled_out)

    def speaks_of(self, answer: int | None) -> bool:
        """Whether the answer is the class that is confirmed, or one that is ruled out."""
        return answer is not None and (answer == self.truth if self.truth is not None else answer in self.ruled_out)

    def inverse(self, answer: int | None, *, yes: bool) -> float:
        """Mean over the questions of 1{the answer was asked about, with this verdict}/propensity."""
        return sum(1 / p for k, said, p in self.asked if k == answer and said == yes) / max(1, len(self.asked))

    @property
    def verdict(self) -> Verdict:
        """``yes`` where the class is known."""
        return "yes" if self.truth is not None else "no"


@dataclasses.dataclass(frozen=True, slots=True)
class ItemLabels:
    """Labels by item. Held by the vault and what it calls; never shown to a strategy."""

    of: Mapping[ItemId, ItemLabel]

    def __len__(self) -> int:
        return len(self.of)

    def __repr__(self) -> str:
        return f"ItemLabels({len(self.of)} items)"

    @classmethod
    def from_evidence(cls, evidence: Evidence, *, items: Iterable[ItemId] | None = None) -> Self:
        """The labels of these items (all by default); ``unsure`` says nothing.

        Examples
        --------
        >>> evidence = Evidence.from_tables(judgements={"item": [1, 2], "class": [0, 2], "verdict": ["yes", "no"]}, n_classes=3)
        >>> [label.kind for label in ItemLabels.from_evidence(evidence).of.values()]
        ['ordinary', 'complementary']
        """
        if evidence.judgements is None:
            raise EvidenceError(fault("evidence", "must have judgements", "none"))
        evidence.check()
        place = _places(evidence)
        own = dict(evidence.rows("items", "item", "n_classes")) if evidence.has_own_n_classes else {}
        further = [name for name in ("propensity", "rater") if name in evidence.judgements.columns]
        said: dict[ItemId, set[_Said]] = defaultdict(set)
        wanted = None if items is None else set(items)
        for item, k, verdict, *rest in evidence.rows("judgements", "item", "class", "said", *further):
            if verdict in (YES, NO) and (wanted is None or item in wanted):
                more = dict(zip(further, rest, strict=True))
                at = place[k] if place is not None else int(k)
                said[item].add((at, verdict == YES, more.get("propensity"), more.get("rater") or ""))
        labels = {item: _label(rows, int(own.get(item) or evidence.n_classes or 0)) for item, rows in said.items()}
        return cls({item: label for item, label in labels.items() if label is not None})


def _places(evidence: Evidence) -> dict[Any, int] | None:
    if evidence.classes is not None:
        return {c: i for i, c in enumerate(evidence.classes)}
    if evidence.class_kind == "text":
        raise EvidenceError(fault("classes", "must be given where classes are text", "none", remedy="Pass classes=[…], all of them."))
    return None


def _label(rows: set[_Said], n_classes: int) -> ItemLabel | None:
    """One label out of the judgements of an item; None where they contradict each other (and the evidence drops such items)."""
    yes, no = {k for k, said, *_ in rows if said}, {k for k, said, *_ in rows if not said}
    if len(yes) > 1 or yes & no or len(no) >= n_classes:
        return None
    recorded = any(p is not None and abs(p * n_classes - 1) > 1e-9 for _, _, p, _ in rows)
    asked = tuple(sorted((k, said, 1 / n_classes if p is None else p) for k, said, p, _ in rows)) if recorded else ()
    return ItemLabel(n_classes=n_classes, truth=next(iter(yes), None), ruled_out=frozenset(no), asked=asked)
