"""What weak labels say of each item, as the fitness and the gate need it."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, Self

import narwhals as nw

from noracle.counts.label import Label, Verdict
from noracle.errors import EvidenceError, fault
from noracle.evidence import Evidence
from noracle.evidence.frames import fetch
from noracle.evidence.labels import gather, propensities_of
from noracle.evidence.normal import NO, YES

ItemId = int | str
LabelKind = Literal["ordinary", "complementary", "targeted"]
_Said = tuple[int, bool, float | None]  # class, yes, propensity


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ItemLabel:
    """What is known of one item: its class, or classes that it is not of.

    ``asked`` is the item's first question (class, yes, propensity) where questions were aimed;
    nothing else of the item is used then.
    """

    n_classes: int
    truth: int | None = None
    ruled_out: frozenset[int] = frozenset()
    asked: tuple[tuple[int, bool, float], ...] = ()

    @property
    def kind(self) -> LabelKind:
        """Which kind of score it gives."""
        return (
            "targeted" if self.asked else "ordinary" if self.truth is not None else "complementary"
        )

    @property
    def code(self) -> int:
        """The kind as a number: -1 targeted, 0 ordinary, m for m ruled-out classes."""
        return -1 if self.asked else 0 if self.truth is not None else len(self.ruled_out)

    @property
    def label(self) -> Label:
        """What the counts take: the question where one was aimed, else the class or the classes
        ruled out.
        """
        if self.asked:
            (k, yes, propensity), *_ = self.asked
            return Label(self.n_classes, "yes" if yes else "no", frozenset({k}), propensity)
        if self.truth is None:
            return Label(self.n_classes, "no", self.ruled_out)
        return Label(self.n_classes, "yes", frozenset({self.truth}), ruled_out=self.ruled_out)

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
        own = (
            dict(evidence.rows("items", "item", "n_classes")) if evidence.has_own_n_classes else {}
        )
        aimed = propensities_of(evidence) == "recorded"
        found = gather(evidence)
        clash = {item for (item,) in fetch(found.known.filter(nw.col("conflict")).select("item"))}
        said: dict[ItemId, list[_Said]] = defaultdict(list)
        wanted = None if items is None else set(items)
        rows = fetch(
            found.kept.select("item", "class", "said", *(["propensity"] if aimed else [])).sort(
                "item", "class", "said"
            )
        )
        for item, k, verdict, *rest in rows:
            if verdict in (YES, NO) and item not in clash and (wanted is None or item in wanted):
                at = place[k] if place is not None else int(k)
                said[item].append((at, verdict == YES, rest[0] if rest else None))
        return cls(
            {
                item: _label(rows, int(own.get(item) or evidence.n_classes or 0))
                for item, rows in said.items()
            }
        )


def _places(evidence: Evidence) -> dict[Any, int] | None:
    if evidence.classes is not None:
        return {c: i for i, c in enumerate(evidence.classes)}
    if evidence.class_kind == "text":
        raise EvidenceError(
            fault(
                "classes",
                "must be given where classes are text",
                "none",
                remedy="Pass classes=[…], all of them.",
            )
        )
    return None


def _label(rows: Sequence[_Said], n_classes: int) -> ItemLabel:
    """One label out of what was said of an item."""
    yes, no = {k for k, said, _ in rows if said}, frozenset(k for k, said, _ in rows if not said)
    asked = tuple((k, said, p) for k, said, p in rows if p is not None)
    return ItemLabel(n_classes=n_classes, truth=next(iter(yes), None), ruled_out=no, asked=asked)
