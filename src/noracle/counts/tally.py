"""One label meets one answer, and the tallies that come of it: all that an estimator may see of the
evidence.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Self, TypeVar

from noracle.errors import EvidenceError, known_names, require_evidence

Verdict = Literal["yes", "no", "unsure"]
Design = Literal["uniform", "recorded", "graded"]
Repeats = Literal["mean", "all", "any"]


class Tally(NamedTuple):
    """How one system met one kind of label.

    ``verdict`` is the item's label: ``yes`` (the true class is known), ``no`` (``n_ruled_out``
    classes are ruled out), ``unsure``. ``hit`` says that the answer is the class that the label
    speaks of: right for ``yes``, wrong for ``no``, open for ``unsure``. ``ruled_hit`` says that the
    answer is among the ruled-out classes (for ``no`` the same as ``hit``). ``design`` is
    ``uniform`` where every class was asked with the same probability, ``recorded`` where
    propensities say otherwise; then ``yes_score`` is 1{asked = answer, yes}/propensity of the
    item's first question and ``no_score`` is 1{asked = answer, no}/propensity. It is ``graded``
    where somebody said of this very answer that it is right or wrong: an ordinary label (``yes``,
    with ``hit`` if it is right) that needs no classes; ``n_classes`` is then 0 where it is not
    known. ``asked`` and ``answer`` are classes, kept only when counted by class; ``guess`` is the
    guess of correctness that came with the answer, kept only when counted by guess and where
    propensities were recorded; ``cluster`` is kept only when counted by cluster. ``hit_share`` and
    ``answered_share`` are there only where repeats of an item differ: the share of them that hit
    and that have an answer; where any right one will do, the *number* of different answers that hit
    and of all different answers, two or more. ``chance`` is the probability with which the answer
    itself would have been asked about, where the design tells it for every item.
    """

    system: str
    n_classes: int
    verdict: Verdict
    hit: bool
    answered: bool = True
    n_ruled_out: int = 0
    ruled_hit: bool = False
    design: Design = "uniform"
    yes_score: float | None = None
    no_score: float | None = None
    stratum: str = ""
    weight: float = 1.0
    asked: int | str | None = None
    answer: int | str | None = None
    guess: float | None = None
    hit_share: float | None = None
    answered_share: float | None = None
    cluster: str = ""
    chance: float | None = None


class Cell(NamedTuple):
    """Where in the population an item lies."""

    system: str
    n_classes: int
    stratum: str = ""
    weight: float = 1.0
    cluster: str = ""


def rounded(value: Any) -> float | None:
    """Engines add in different orders: twelve digits are the same on all of them."""
    return None if value is None else float(f"{float(value):.12g}")


def tally(
    place: Cell,
    verdict: Verdict,
    *,
    hit: bool,
    answered: bool = True,
    n_ruled_out: int | None = None,
    ruled_hit: bool | None = None,
    inverse: float | None = None,
    asked: Any = None,
    answer: Any = None,
    guess: float | None = None,
    shares: tuple[float, float] | None = None,
    chance: float | None = None,
    graded: bool = False,
) -> Tally:
    """How an answer met a label, from facts that are known already.

    ``n_ruled_out`` and ``ruled_hit`` are by default what one question says. ``inverse`` is
    1{asked = answer}/propensity of a recorded design. ``shares`` are there where an item's repeats
    differ: of them that hit and that have an answer, or numbers of different answers. A label
    speaks of classes one by one, so the score of several answers is the sum of their scores with
    these weights. ``chance`` is the probability that the answer itself would have been asked about;
    a ``graded`` label is about the answer itself, and ``hit`` says that it is right.
    """
    told = inverse is not None and verdict != "unsure"
    return Tally(
        place.system,
        place.n_classes,
        verdict,
        hit,
        answered,
        int(verdict == "no") if n_ruled_out is None else n_ruled_out,
        hit and verdict == "no" if ruled_hit is None else ruled_hit,
        "graded" if graded else "uniform" if inverse is None else "recorded",
        rounded(inverse if verdict == "yes" else 0.0) if told else None,
        rounded(inverse if verdict == "no" else 0.0) if told else None,
        place.stratum,
        place.weight,
        asked,
        answer,
        rounded(guess),
        None if shares is None else shares[0],
        None if shares is None else shares[1],
        place.cluster,
        rounded(chance) if told else None,
    )


class Pattern(NamedTuple):
    """``n`` labelled items on which the systems met the label in the same way.

    ``hits`` has one entry per system of the :class:`PatternCounts`: True or False as in
    :class:`Tally`, None without an answer. Where propensities were recorded there are also
    ``yes_scores`` and ``no_scores``, one entry per system (0 without an answer), and ``groups``:
    systems with the same answer share a number, counted from 0 in the order of the systems; -1 is
    no answer. ``hit_shares`` and ``answered_shares`` are there where repeats of some system differ,
    one entry per system, as in :class:`Tally`. ``known`` is there where grades speak of some
    systems only, one entry per system: the others say nothing here.
    """

    n_classes: int
    verdict: Verdict
    hits: tuple[bool | None, ...]
    n_ruled_out: int = 0
    design: Design = "uniform"
    yes_scores: tuple[float, ...] | None = None
    no_scores: tuple[float, ...] | None = None
    groups: tuple[int, ...] | None = None
    stratum: str = ""
    weight: float = 1.0
    cluster: str = ""
    hit_shares: tuple[float, ...] | None = None
    answered_shares: tuple[float, ...] | None = None
    known: tuple[bool, ...] | None = None

    def of(self, places: Sequence[int]) -> Self | None:
        """The pattern of some of its systems, in this order; None where it says nothing of one of
        them.
        """
        if self.known is not None and not all(self.known[i] for i in places):
            return None
        told = {name: getattr(self, name) for name in PER_SYSTEM}
        chosen: dict[str, Any] = {
            k: tuple(v[i] for i in places) for k, v in told.items() if v is not None
        }
        return self._replace(**{**chosen, "known": None})


PER_SYSTEM = ("hits", "yes_scores", "no_scores", "groups", "hit_shares", "answered_shares", "known")
"""The fields of a :class:`Pattern` with one entry per system."""


def pattern(
    place: Cell,
    verdict: Verdict,
    hits: Iterable[bool | None],
    *,
    n_ruled_out: int | None = None,
    inverse: Sequence[float | None] | None = None,
    answers: Sequence[Any] | None = None,
    shares: Sequence[tuple[float, float] | None] | None = None,
    known: Sequence[bool] | None = None,
    graded: bool = False,
) -> Pattern:
    """How several answers met a label together, from facts that are known already.

    ``hits`` has None for a system without an answer. ``inverse`` and ``shares`` are as in
    :func:`tally`, one for each system; ``answers`` are there in a recorded design, where repeats
    that differ are an answer of their own. A ``graded`` label says something of ``known`` systems.
    """
    met = tuple(hits)
    told = inverse is not None and verdict != "unsure"
    scores = tuple(rounded(value) or 0.0 for value in inverse or ())
    none = (0.0,) * len(met)
    order: dict[Any, int] = {}
    groups = tuple(-1 if a is None else order.setdefault(a, len(order)) for a in answers or ())
    differ = shares is not None and any(share is not None for share in shares)
    pairs = zip(shares or (), met, strict=False)
    mass = [share or (float(bool(hit)), float(hit is not None)) for share, hit in pairs]
    return Pattern(
        place.n_classes,
        verdict,
        met,
        n_ruled_out=int(verdict == "no") if n_ruled_out is None else n_ruled_out,
        design="graded" if graded else "uniform" if inverse is None else "recorded",
        yes_scores=(scores if verdict == "yes" else none) if told else None,
        no_scores=(scores if verdict == "no" else none) if told else None,
        groups=None if inverse is None else groups,
        stratum=place.stratum,
        weight=place.weight,
        cluster=place.cluster,
        hit_shares=tuple(hit for hit, _ in mass) if differ else None,
        answered_shares=tuple(answered for _, answered in mass) if differ else None,
        known=None if known is None or all(known) else tuple(known),
    )


class Label(NamedTuple):
    """What was said of one item.

    ``classes`` are those that the label speaks of: the true one for ``yes``, those ruled out for
    ``no``, those asked about for ``unsure``. ``propensity`` is the probability with which the class
    was asked; None says that every class was as likely. ``ruled_out`` are the classes that were
    ruled out beside a confirmed one; no score needs them, a check does. A label that is ``graded``
    speaks of one system's answer itself, whatever it is: ``yes`` says that it is right, ``no`` that
    it is wrong.

    Examples
    --------
    >>> label = Label.of([("B", "no", None), ("C", "no", None)], n_classes=5)
    >>> label.meet("C").hit, label.meet("A").hit, label.meet(None).answered
    (True, False, False)
    >>> met = Label.grade("no").meet("some text", system="a")
    >>> met.verdict, met.hit, met.design
    ('yes', False, 'graded')
    """

    n_classes: int
    verdict: Verdict
    classes: frozenset[Any] = frozenset()
    propensity: float | None = None
    stratum: str = ""
    weight: float = 1.0
    cluster: str = ""
    ruled_out: frozenset[Any] = frozenset()
    graded: bool = False

    @classmethod
    def grade(
        cls, verdict: Verdict, *, propensity: float | None = None, n_classes: int = 0
    ) -> Self:
        """The label of one system's answer that was called right (``yes``), wrong (``no``) or
        neither (``unsure``).

        With the ``propensity`` of a question about that answer it has the score of such a question.
        """
        return cls(n_classes, verdict, propensity=propensity, graded=True)

    @classmethod
    def of(
        cls,
        said: Iterable[tuple[Any, Verdict, float | None]],
        *,
        n_classes: int,
        recorded: bool = False,
    ) -> Self | None:
        """The label out of an item's judgements (class, verdict, propensity) in the order of time;
        None where they contradict each other.

        ``recorded`` says that the table has propensities other than 1/K. Then the first question of
        an item with a propensity is its label: whether a second one is asked may depend on the
        first verdict, and an ``unsure`` is missing, not replaced by the next. Otherwise a confirmed
        class is the label, else all classes ruled out.

        Two confirmed classes, a class both confirmed and ruled out, and every class ruled out are
        contradictions, in whatever order they were said. Judgements carry no rater here: one rater
        who says ``unsure`` and something else of one class is for the tables to see.
        """
        rows = list(said)
        yes = {c for c, verdict, _ in rows if verdict == "yes"}
        no = {c for c, verdict, _ in rows if verdict == "no"}
        if len(yes) > 1 or yes & no or len(no) >= n_classes:
            return None
        if recorded and any(propensity is not None for _, _, propensity in rows):
            first, verdict, propensity = rows[0]
            return cls(n_classes, verdict, frozenset({first}), propensity)
        word: Verdict = "yes" if yes else "no" if no else "unsure"
        found = frozenset(yes or no or {c for c, _, _ in rows})
        return cls(n_classes, word, found, ruled_out=frozenset(no if yes else ()))

    @property
    def place(self) -> Cell:
        """Where the item lies."""
        return Cell("", self.n_classes, self.stratum, self.weight, self.cluster)

    @property
    def _ruled(self) -> frozenset[Any]:
        """The classes that were ruled out, beside a confirmed one or alone."""
        return self.classes if self.verdict == "no" else self.ruled_out

    def meet(self, answer: Any, *, system: str = "system", chance: float | None = None) -> Tally:
        """How an answer (None: there is none) meets this label; ``chance`` as in :func:`tally`."""
        if self.graded:
            return self._meet_grade(self.place._replace(system=system), answered=answer is not None)
        hit = answer is not None and answer in self.classes
        return tally(
            self.place._replace(system=system),
            self.verdict,
            hit=hit,
            answered=answer is not None,
            n_ruled_out=len(self._ruled),
            ruled_hit=answer is not None and answer in self._ruled,
            inverse=None if self.propensity is None else hit / self.propensity,
            chance=chance,
        )

    def _meet_grade(self, place: Cell, *, answered: bool) -> Tally:
        if self.propensity is not None:
            inverse = answered / self.propensity
            return tally(place, self.verdict, hit=answered, answered=answered, inverse=inverse)
        verdict: Verdict = "unsure" if self.verdict == "unsure" else "yes"
        hit = answered and self.verdict != "no"
        return tally(place, verdict, hit=hit, answered=answered, graded=True)

    def meet_all(self, answers: Sequence[Any]) -> Pattern:
        """How the answers of several systems meet this label together."""
        hits = [None if a is None else a in self.classes for a in answers]
        inverse = None if self.propensity is None else [bool(hit) / self.propensity for hit in hits]
        n = len(self._ruled)
        return pattern(
            self.place, self.verdict, hits, n_ruled_out=n, inverse=inverse, answers=answers
        )


Propensities = Literal["none", "uniform", "recorded"]
PROPENSITIES: tuple[Propensities, ...] = ("none", "uniform", "recorded")
_SORT_UP_TO = 200_000
_T = TypeVar("_T")
_Key = TypeVar("_Key")
_Counts = TypeVar("_Counts", bound="AccuracyCounts | PatternCounts | JudgementCounts")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AccuracyCounts:
    """What is known of the accuracy of each system.

    ``tallies`` counts labelled items; ``items`` and ``answered`` count the population, labelled or
    not: all items asked about and those with an answer. ``unused`` names what the evidence held and
    no estimator uses. ``states`` counts, by system and state, answers that are missing; ``runs``
    counts, by system, all answers where items were answered more than once. ``whole`` says that
    ``items`` are all items there are to ask about; False where only a sample of them was published.
    ``propensities`` says whether probabilities were recorded and whether all of them are 1/K, which
    is a property of the whole table and never of one row; a tally of a recorded question says that
    they were. ``repeats`` says when an item that was answered more than once is right (see
    :meth:`Evidence.with_repeats`), and ``most_answers``, by system, how many different answers an
    item has at most where any right one will do.
    """

    tallies: Mapping[Tally, int]
    items: Mapping[Cell, int]
    answered: Mapping[Cell, int]
    unused: Mapping[str, int] = dataclasses.field(default_factory=dict)
    inferred: tuple[str, ...] = ()
    states: Mapping[tuple[str, str], int] = dataclasses.field(default_factory=dict)
    runs: Mapping[str, int] = dataclasses.field(default_factory=dict)
    whole: bool = True
    propensities: Propensities = "none"
    repeats: Repeats = "mean"
    most_answers: Mapping[str, int] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.propensities == "none" and _implied(self.tallies) == "recorded":
            object.__setattr__(self, "propensities", "recorded")

    @classmethod
    def from_counts(
        cls,
        *,
        n_classes: int,
        system: str = "system",
        ordinary: tuple[int, int] = (0, 0),
        complementary: tuple[int, int] = (0, 0),
        n_ruled_out: int = 1,
        n_items: int | None = None,
        n_without_answer: int = 0,
        stratum: str = "",
        weight: float = 1.0,
    ) -> Self:
        """Counts from published numbers.

        Parameters
        ----------
        n_classes
            Number of classes K, at least 2.
        ordinary
            Labelled items with an answer, and how many of these answers are right.
        complementary
            Items with ``n_ruled_out`` ruled-out classes and an answer, and how many of these
            answers are *not* ruled out.
        n_items, n_without_answer
            The population asked about and how many of it have no answer. By default the labelled
            items, all answered, as a sample of more.

        Examples
        --------
        >>> counts = AccuracyCounts.from_counts(n_classes=10, ordinary=(300, 235), complementary=(2700, 2634))
        >>> counts.systems
        ('system',)
        """
        check_n_classes(n_classes)
        fits = 1 <= n_ruled_out < n_classes
        require_evidence(fits, "n_ruled_out", f"must be in [1, {n_classes})", n_ruled_out)
        cell = Cell(system, n_classes, stratum, weight)
        tallies: Counter[Tally] = Counter()
        kinds: tuple[tuple[str, tuple[int, int], Verdict, int], ...] = (
            ("ordinary", ordinary, "yes", 0),
            ("complementary", complementary, "no", n_ruled_out),
        )
        for name, (n, good), verdict, m in kinds:
            rule = "must be (n, good) with whole numbers 0 <= good <= n"
            require_evidence(_is_count(n, good) and good <= n, name, rule, (n, good))
            for hit, count in ((verdict == "yes", good), (verdict == "no", n - good)):
                tallies[tally(cell, verdict, hit=hit, n_ruled_out=m)] += int(count)
        labelled = int(ordinary[0] + complementary[0])
        total = labelled + n_without_answer if n_items is None else n_items
        enough = _is_count(n_without_answer, total) and total - n_without_answer >= labelled
        rule = f"must be at least {labelled + n_without_answer} (labelled and unanswered items)"
        require_evidence(enough, "n_items", rule, n_items)
        items, answered = {cell: total}, {cell: total - n_without_answer}
        whole = n_items is not None
        return cls(tallies=dict(+tallies), items=items, answered=answered, whole=whole)

    @property
    def systems(self) -> tuple[str, ...]:
        """The systems, sorted by name."""
        return tuple(sorted({c.system for c in self.items} | {t.system for t in self.tallies}))

    def __repr__(self) -> str:
        return f"AccuracyCounts({self.brief})"

    @property
    def brief(self) -> str:
        """How much was counted, in one line; of items and labels those of the system that has most.

        Examples
        --------
        >>> AccuracyCounts.from_counts(n_classes=4, ordinary=(50, 40), n_items=200)
        AccuracyCounts(1 system, 200 items, 50 labelled)
        """
        n_items = max(self.sizes().values(), default=0)
        n_labelled = max(self.labelled().values(), default=0)
        return f"{_some(len(self.systems), 'system')}, {_some(n_items, 'item')}, {n_labelled:,} labelled"

    def of(self, system: str | None = None) -> Self:
        """The counts of one system; None is allowed where there is only one."""
        if system is None:
            rule = f"must be named, one of {list(self.systems)}"
            require_evidence(len(self.systems) == 1, "system", rule, None)
            return self
        if system not in self.systems:
            rule, remedy = "must be one of those counted", known_names(system, self.systems)
            raise EvidenceError.of("system", rule, repr(system), remedy=remedy)
        mine: dict[str, Any] = {}
        for name in ("tallies", "items", "answered", "states"):
            mine[name] = {key: n for key, n in getattr(self, name).items() if key[0] == system}
        for name in ("runs", "most_answers"):
            mine[name] = {key: n for key, n in getattr(self, name).items() if key == system}
        return dataclasses.replace(self, **mine)

    def sizes(self) -> dict[str, int]:
        """How many items each system was asked about."""
        return regrouped(self.items, lambda cell: cell.system)

    def labelled(self) -> dict[str, int]:
        """How many labelled items each system has."""
        return regrouped(self.tallies, lambda t: t.system)

    def cells(self) -> dict[Cell, dict[Tally, int]]:
        """Tallies grouped by stratum, number of classes and weight; cells without labels are there
        and empty.
        """
        groups: dict[Cell, dict[Tally, int]] = {cell: {} for cell in self.items}
        for t, n in self.tallies.items():
            cell = Cell(t.system, t.n_classes, t.stratum, t.weight, t.cluster)
            groups.setdefault(cell, {})[t] = n
        return groups

    @property
    def clustered(self) -> bool:
        """Whether items were counted by cluster."""
        return any(c.cluster for c in self.items)

    def without_clusters(self) -> Self:
        """The same counts as if items had not been counted by cluster."""
        if not self.clustered:
            return self
        named = ("tallies", "items", "answered")
        found: dict[str, Any] = {name: _unclustered(getattr(self, name)) for name in named}
        return dataclasses.replace(self, **found).ordered()

    def ordered(self) -> Self:
        """The same counts in one order, that of :meth:`to_dict`, so that sums are the same to the
        last bit however they were counted.
        """
        return _ordered(self, "tallies", "items", "answered", "runs")

    def without_chances(self) -> Self:
        """The same counts as if the design did not tell with which probability an answer would have
        been asked about.
        """
        if all(t.chance is None for t in self.tallies):
            return self
        tallies = regrouped(self.tallies, lambda t: t._replace(chance=None))
        return dataclasses.replace(self, tallies=tallies).ordered()

    def total(self, **match: object) -> int:
        """Number of labelled items whose tally has these values, for example ``total(verdict="yes",
        hit=True)``.
        """
        return sum(n for t, n in self.tallies.items() if _fits(t, match))

    def summary(self) -> dict[str, Any]:
        """The figures that a card prints."""
        n_items, n_answered = sum(self.items.values()), sum(self.answered.values())
        judged = sum(self.tallies.values())
        summary = {
            "items": n_items,
            "without_answer": n_items - n_answered,
            "labelled": judged,
            "labelled_without_answer": self.total(answered=False),
            "ordinary": self._spoken("yes"),
            "ordinary_right": self._spoken("yes", hit=True),
            "complementary": self._spoken("no"),
            "complementary_avoided": self._spoken("no", hit=False),
            "unsure": self.total(verdict="unsure"),
            "unused": dict(self.unused),
            **self._more(),
        }
        # An answer that differs between repeats is neither right nor wrong.
        if any(t.hit_share is not None for t in self.tallies):
            for name in ("ordinary_right", "complementary_avoided")[self.repeats == "any" :]:
                del summary[name]
        if self.runs and self.repeats == "all":
            summary["not_the_same_every_time"] = summary.pop("without_answer")
        return summary

    def _spoken(self, verdict: str, **match: bool) -> int:
        """Labelled and answered items with this label of a class."""
        wanted = {"verdict": verdict, "answered": True, **match}
        return sum(n for t, n in self.tallies.items() if not _is_grade(t) and _fits(t, wanted))

    def _more(self) -> dict[str, Any]:
        """The figures that only some evidence has: grades, why answers are missing, and repeats."""
        more: dict[str, Any] = {}
        if any(map(_is_grade, self.tallies)):
            known = ((t, n) for t, n in self.tallies.items() if t.answered and _is_grade(t))
            own = [(t, n) for t, n in known if t.verdict != "unsure"]
            more["graded"] = sum(n for t, n in own if t.hit or t.design == "graded")
            more["graded_right"] = sum(n for t, n in own if t.hit and t.verdict == "yes")
            others = sum(n for t, n in own if not t.hit and t.design == "recorded")
            more |= {"questions_about_other_answers": others} if others else {}
        if self.states:
            more["states"] = regrouped(dict(sorted(self.states.items())), lambda key: key[1])
        if self.runs:
            more["answers"] = sum(self.runs.values())
            if self.repeats != "all":
                differ = (n for t, n in self.tallies.items() if t.hit_share is not None)
                more["items_whose_repeats_differ"] = sum(differ)
        return more

    def when_right(self) -> str:
        """When an item counts as right that was answered more than once, in a few words; empty
        without repeats.
        """
        return _when_right(self)

    def __add__(self, other: AccuracyCounts) -> AccuracyCounts:
        """Tallies of disjoint sets of items add.

        Where one side has other propensities than 1/K, a 1/K of the other side belongs to that
        design too and is no uniform question; it must have been counted so.
        """
        kinds = {self.propensities, other.propensities}
        if kinds == {"uniform", "recorded"}:
            rule = "must have one design: where some propensities are not 1/K, none of them is a uniform question"
            came = "uniform and other propensities"
            raise EvidenceError.of("counts", rule, came, remedy="Count the tables together.")
        added = ("tallies", "items", "answered", "unused", "states")
        return AccuracyCounts(
            **_added(self, other, *added),
            whole=self.whole and other.whole,
            propensities=max(kinds, key=PROPENSITIES.index),
            **repeats_together([self, other]),
        )

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values with schema ``counts/1``: items are counted, never named."""
        items = sorted(self.items.items(), key=text_key)
        asked = [{**_fields(c), "items": n, "answered": self.answered.get(c, 0)} for c, n in items]
        told = {  # each with its usual value, which is not written
            "states": (state_rows(self.states), []),
            "runs": (dict(sorted(self.runs.items())), {}),
            "repeats": (self.repeats, "mean"),
            "most_answers": (dict(sorted(self.most_answers.items())), {}),
            "whole": (self.whole, True),
            "propensities": (self.propensities, _implied(self.tallies)),
        }
        return {
            "schema": "counts/1",
            "tallies": [
                {**_fields(t), "n": n} for t, n in sorted(self.tallies.items(), key=text_key)
            ],
            "population": asked,
            "unused": dict(self.unused),
            "inferred": list(self.inferred),
            **{name: value for name, (value, usual) in told.items() if value != usual},
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Read back what :meth:`to_dict` wrote."""
        require_schema(data, "counts/1")
        tallies = {read_tally(row): int(row["n"]) for row in data["tallies"]}
        cells = [
            (Cell(**{k: row[k] for k in Cell._fields if k in row}), row)
            for row in data["population"]
        ]
        return cls(
            tallies=tallies,
            items={c: int(row["items"]) for c, row in cells},
            answered={c: int(row["answered"]) for c, row in cells},
            unused=dict(data.get("unused", {})),
            inferred=tuple(data.get("inferred", ())),
            states=read_states(data.get("states", ())),
            runs={str(name): int(n) for name, n in data.get("runs", {}).items()},
            whole=bool(data.get("whole", True)),
            propensities=data.get("propensities", _implied(tallies)),
            repeats=data.get("repeats", "mean"),
            most_answers={str(name): int(n) for name, n in data.get("most_answers", {}).items()},
        )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PatternCounts:
    """How systems met the same labels together; only items that every system was asked about.

    ``items`` counts the population: all such items, labelled or not, by number of classes, stratum
    and weight; empty where it is not known. ``states`` counts, by system and state, the answers
    that are missing. ``runs``, ``repeats`` and ``most_answers`` are as in
    :class:`AccuracyCounts`. ``whole`` says that the items are all that were asked about; False where graded items are a sample of more.
    ``silent`` counts, beside grades, the population by who gave no answer.
    """

    systems: tuple[str, ...]
    patterns: Mapping[Pattern, int]
    unused: Mapping[str, int] = dataclasses.field(default_factory=dict)
    inferred: tuple[str, ...] = ()
    states: Mapping[tuple[str, str], int] = dataclasses.field(default_factory=dict)
    items: Mapping[Cell, int] = dataclasses.field(default_factory=dict)
    runs: Mapping[str, int] = dataclasses.field(default_factory=dict)
    repeats: Repeats = "mean"
    most_answers: Mapping[str, int] = dataclasses.field(default_factory=dict)
    whole: bool = True
    silent: Mapping[tuple[Cell, tuple[bool, ...]], int] = dataclasses.field(default_factory=dict)
    still: float = 0.0
    """The share of all items that is left out here because none of these systems answered them: all
    of them score 0.
    """

    @classmethod
    def from_counts(
        cls,
        *,
        n_classes: int,
        systems: tuple[str, ...],
        yes: Mapping[tuple[bool | None, ...], int] | None = None,
        no: Mapping[tuple[bool | None, ...], int] | None = None,
    ) -> Self:
        """Counts from published patterns.

        ``yes`` maps who was right to a number of items with an ordinary label, ``no`` maps who gave
        the ruled-out class to a number of items with one complementary label.

        Examples
        --------
        >>> counts = PatternCounts.from_counts(n_classes=4, systems=("a", "b"), yes={(True, False): 12, (True, True): 60})
        >>> sum(counts.patterns.values())
        72
        """
        check_n_classes(n_classes)
        patterns: Counter[Pattern] = Counter()
        tables: dict[Verdict, Mapping[tuple[bool | None, ...], int]] = {"yes": yes or {}}
        tables["no"] = no or {}
        for verdict, table in tables.items():
            for hits, n in table.items():
                rule = f"must map {len(systems)} entries to a whole number"
                fits = len(hits) == len(systems) and _is_count(n)
                require_evidence(fits, verdict, rule, (hits, n))
                patterns[pattern(Cell("", n_classes), verdict, hits)] += int(n)
        return cls(systems=tuple(systems), patterns=dict(patterns))

    def __repr__(self) -> str:
        n = sum(self.patterns.values())
        return f"PatternCounts({_some(len(self.systems), 'system')}, {_some(n, 'labelled item')}, {_some(len(self.patterns), 'pattern')})"

    @property
    def partial(self) -> bool:
        """Whether some labels speak of some systems only, as grades do; or are not needed, where an
        answer is missing.
        """
        return bool(self.silent) or any(p.known is not None for p in self.patterns)

    def of(self, places: Sequence[int]) -> Self:
        """The counts of some systems, by their places: the labels that speak of all of them.

        Beside grades, items with a missing answer are a stratum of their own: an answer that is
        missing needs no grade. Items that none of the systems answered need no label at all, and
        are left out; ``still`` is their share.
        """
        found: Counter[Pattern] = Counter()
        for p, n in self.patterns.items():
            own = p.of(places)
            if own is not None and self.silent:
                silent = [hit is None for hit in own.hits]
                stratum = _by_silence(own.stratum, silent)
                own = None if all(silent) else own._replace(stratum=stratum)
            if own is not None:
                found[own] += n
        items, still = self.items, 0.0
        if self.silent:
            told: Counter[Cell] = Counter()
            for (cell, flags), n in self.silent.items():
                own_flags = tuple(flags[i] for i in places)
                if not all(own_flags):
                    told[cell._replace(stratum=_by_silence(cell.stratum, own_flags))] += n
            items = dict(told)
            total = sum(cell.weight * n for (cell, _), n in self.silent.items())
            still = 1 - sum(cell.weight * n for cell, n in items.items()) / total
        if not self.whole:
            # These items are a sample, and those that were graded for the others are none of it.
            items = regrouped(
                found, lambda p: Cell("", p.n_classes, p.stratum, p.weight, p.cluster)
            )
        named = tuple(self.systems[i] for i in places)
        return dataclasses.replace(
            self, systems=named, patterns=dict(found), items=items, silent={}, still=still
        )

    @property
    def clustered(self) -> bool:
        """Whether items were counted by cluster."""
        return any(c.cluster for c in self.items) or (
            not self.whole and any(p.cluster for p in self.patterns)
        )

    def without_clusters(self) -> Self:
        """The same counts as if items had not been counted by cluster."""
        if not self.clustered:
            return self
        patterns, items = _unclustered(self.patterns), _unclustered(self.items)
        silent = regrouped(self.silent, lambda key: (key[0]._replace(cluster=""), key[1]))
        return dataclasses.replace(self, patterns=patterns, items=items, silent=silent).ordered()

    def by_silence(self) -> Mapping[tuple[Cell, tuple[bool, ...]], int]:
        """The population by who gave no answer; where nobody looked, everybody gave one."""
        everyone = (False,) * len(self.systems)
        return self.silent or {(cell, everyone): n for cell, n in self.items.items()}

    def ordered(self) -> Self:
        """The same counts in one order; see :meth:`AccuracyCounts.ordered`."""
        return _ordered(self, "patterns", "items")

    def __add__(self, other: PatternCounts) -> PatternCounts:
        """Patterns of the same systems on disjoint sets of items add."""
        if self.systems != other.systems:
            rule = f"must be {list(self.systems)} on both sides"
            raise EvidenceError.of("systems", rule, list(other.systems))
        silent = self.silent or other.silent
        return PatternCounts(
            systems=self.systems,
            **_added(self, other, "patterns", "unused", "states", "items"),
            **repeats_together([self, other]),
            whole=self.whole and other.whole,
            silent=summed(self.by_silence(), other.by_silence()) if silent else {},
        )

    def sizes(self) -> dict[str, int]:
        """How many items each system was asked about."""
        return dict.fromkeys(self.systems, sum(self.items.values()))

    def when_right(self) -> str:
        """When an item counts as right that was answered more than once, in a few words; empty
        without repeats.
        """
        return _when_right(self)


def _by_silence(stratum: str, silent: Sequence[bool]) -> str:
    """A stratum apart by which answers are missing."""
    if any(silent):
        return f"{stratum} without answers of {[i for i, none in enumerate(silent) if none]}"
    return stratum


class Question(NamedTuple):
    """One kind of judgement: who was asked about which class, with which probability, and what was
    said.
    """

    n_classes: int
    asked: int | str
    verdict: Verdict
    rater: str = ""
    propensity: float | None = None
    period: str = ""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class JudgementCounts:
    """What was asked and what was said, over all judgements."""

    questions: Mapping[Question, int]
    inferred: tuple[str, ...] = ()

    def ordered(self) -> Self:
        """The same counts in one order; see :meth:`AccuracyCounts.ordered`."""
        return _ordered(self, "questions")

    def without_raters(self) -> Self:
        """The same counts as if nobody had looked at who was asked."""
        questions = regrouped(self.questions, lambda q: q._replace(rater=""))
        return dataclasses.replace(self, questions=questions).ordered()

    def __add__(self, other: JudgementCounts) -> JudgementCounts:
        """Judgements of disjoint sets of items add."""
        return JudgementCounts(**_added(self, other, "questions"))

    def __repr__(self) -> str:
        return f"JudgementCounts({_some(sum(self.questions.values()), 'judgement')})"


def check_n_classes(n_classes: object) -> int:
    """Return the number of classes if it is a whole number of at least 2."""
    if not _is_count(n_classes) or int(n_classes) < 2:  # type: ignore[call-overload]
        raise EvidenceError.of("n_classes", "must be a whole number of at least 2", repr(n_classes))
    return int(n_classes)  # type: ignore[call-overload, no-any-return]


def _some(n: int, word: str) -> str:
    return f"{n:,} {word}{'' if n == 1 else 's'}"


def _is_count(*values: Any) -> bool:
    if any(isinstance(value, bool) or value is None for value in values):
        return False
    try:
        return all(math.isfinite(v) and v == int(v) and v >= 0 for v in values)
    except (TypeError, ValueError):
        return False


def _fits(t: Tally, wanted: Mapping[str, object]) -> bool:
    return all(getattr(t, name) == value for name, value in wanted.items())


def _is_grade(t: Tally) -> bool:
    """Whether a label is a grade: of the answer, or drawn among answers without classes."""
    return t.design == "graded" or (t.design == "recorded" and not t.n_classes)


def _implied(tallies: Iterable[Tally]) -> Propensities:
    """What the tallies alone say of the propensities; the word is written only where it says more."""
    return "recorded" if any(t.design == "recorded" for t in tallies) else "none"


_RIGHT = {
    "mean": "share of the runs that are right",
    "all": "right every time",
    "any": "right at least once",
}


def when_right(repeats: Repeats, runs: int, n_items: int) -> str:
    """When an item counts as right that was answered several times, and how often it was."""
    each = runs / n_items if n_items else 0.0
    if each == int(each):
        return f"{_RIGHT[repeats]} ({int(each)} runs)"
    return f"{_RIGHT[repeats]} ({each:.1f} runs on average)"


def _when_right(counts: AccuracyCounts | PatternCounts) -> str:
    runs, n_items = sum(counts.runs.values()), sum(counts.sizes().values())
    return when_right(counts.repeats, runs, n_items) if counts.runs else ""


def repeats_together(parts: Sequence[AccuracyCounts] | Sequence[PatternCounts]) -> dict[str, Any]:
    """``runs``, ``repeats``, ``most_answers`` of a sum; parts without repeats have no rule."""
    rules = {c.repeats for c in parts if c.runs}
    rule, came = "must take repeats in one way", " and ".join(sorted(rules))
    require_evidence(len(rules) < 2, "counts", rule, came, remedy="Count the tables again.")
    runs: Counter[str] = Counter()
    most: dict[str, int] = {}
    for c in parts if rules else ():
        runs.update(c.runs or c.sizes())  # without runs, one of every item
        most |= {name: max(n, most.get(name, 1)) for name, n in c.most_answers.items()}
    return {"runs": dict(runs), "repeats": rules.pop() if rules else "mean", "most_answers": most}


def read_tally(row: Mapping[str, Any]) -> Tally:
    """A tally from its JSON values, if its shares or numbers of answers are possible."""
    found = Tally(**{k: v for k, v in row.items() if k != "n"})
    hit, answered = found.hit_share, found.answered_share
    fits = hit is None and answered is None
    if hit is not None and answered is not None:
        fits = 0 <= hit <= answered and (answered <= 1 or not (answered % 1 or hit % 1))
    rule = "must be 0 <= hit_share <= answered_share <= 1, or whole numbers"
    require_evidence(fits, "hit_share and answered_share", rule, (hit, answered))
    return found


def require_schema(data: Mapping[str, Any], schema: str) -> None:
    """Refuse JSON values that were written under another schema."""
    came = data.get("schema")
    require_evidence(came == schema, "schema", f"must be {schema!r}", repr(came))


def state_rows(states: Mapping[tuple[str, str], int]) -> list[dict[str, Any]]:
    """Missing answers by system and state as JSON values."""
    return [{"system": s, "state": w, "n": n} for (s, w), n in sorted(states.items())]


def read_states(rows: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], int]:
    """Read back what :func:`state_rows` wrote."""
    return {(str(row["system"]), str(row["state"])): int(row["n"]) for row in rows}


def _fields(row: Tally | Cell) -> dict[str, Any]:
    """All values; the shares of repeats, the cluster and the chance only where there are some."""
    values = row._asdict()
    for name in ("hit_share", "answered_share", "cluster", "chance"):
        if values.get(name, 0) in (None, ""):
            del values[name]
    return values


def summed(*parts: Mapping[_T, int]) -> dict[_T, int]:
    """The sum of counts, key by key."""
    total: Counter[_T] = Counter()
    for part in parts:
        total.update(part)
    return dict(total)


def regrouped(counts: Mapping[_T, int], key: Callable[[_T], _Key]) -> dict[_Key, int]:
    """The counts under other keys; those that share one are added."""
    total: dict[_Key, int] = {}
    for old, n in counts.items():
        new = key(old)
        total[new] = total.get(new, 0) + n
    return total


def _unclustered(counts: Mapping[Any, int]) -> dict[Any, int]:
    return regrouped(counts, lambda key: key._replace(cluster=""))


def _added(one: _Counts, other: _Counts, *fields: str) -> dict[str, Any]:
    """Some fields of two counts, summed, and what was inferred for either."""
    found: dict[str, Any] = {f: summed(getattr(one, f), getattr(other, f)) for f in fields}
    return {**found, "inferred": tuple(dict.fromkeys((*one.inferred, *other.inferred)))}


def _ordered(counts: _Counts, *fields: str) -> _Counts:
    """Counts with some fields by the text of their keys; very many stay as they came."""
    found: dict[str, Any] = {name: getattr(counts, name) for name in fields}
    for name, field in found.items():
        few = len(field) <= _SORT_UP_TO
        found[name] = dict(sorted(field.items(), key=text_key) if few else field)
    return dataclasses.replace(counts, **found)


def text_key(pair: tuple[Any, int]) -> tuple[str, ...]:
    """What counts are sorted by: the text of their keys."""
    return tuple(map(str, pair[0])) if isinstance(pair[0], tuple) else (str(pair[0]),)
