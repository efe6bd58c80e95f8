"""One label meets one answer, and the tallies that come of it: all that an estimator may see of the
evidence.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Self, TypeVar

from noracle.errors import EvidenceError, known_names

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

    Parameters
    ----------
    place
        The system and the item's number of classes, stratum, weight and cluster.
    hit, answered
        Whether the label speaks of the answer, and whether there is one.
    n_ruled_out, ruled_hit
        How many classes are ruled out and whether the answer is among them; by default what one
        question says.
    inverse
        1{asked = answer}/propensity where the class was asked with a recorded propensity; None for
        a uniform design.
    shares
        Where an item's repeats differ: the share of them that hit and that have an answer, or
        numbers of different answers. A label speaks of classes one by one, so the score of several
        answers is the sum of their scores with these weights.
    chance
        The probability with which the answer itself would have been asked about.
    graded
        The label is a grade of the answer itself; ``hit`` says that it is right.

    Examples
    --------
    >>> met = tally(Cell("a", 4), "no", hit=True)
    >>> met.n_ruled_out, met.ruled_hit, met.design
    (1, True, 'uniform')
    >>> tally(Cell("a", 4), "yes", hit=True, inverse=1 / 0.8).yes_score
    1.25
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

        def chosen(values: Sequence[Any] | None) -> Any:
            return None if values is None else tuple(values[i] for i in places)

        return self._replace(
            hits=chosen(self.hits),
            yes_scores=chosen(self.yes_scores),
            no_scores=chosen(self.no_scores),
            groups=chosen(self.groups),
            hit_shares=chosen(self.hit_shares),
            answered_shares=chosen(self.answered_shares),
            known=None,
        )


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

    Parameters
    ----------
    place
        The item's number of classes, stratum, weight and cluster; the system is not used.
    hits
        For each system whether the label speaks of its answer; None without an answer.
    n_ruled_out
        How many classes are ruled out; by default what one question says.
    inverse, answers
        1{asked = answer}/propensity and the answer of each system where the class was asked with a
        recorded propensity; None for a uniform design. Repeats that differ are an answer of their
        own.
    shares
        For each system as in :func:`tally`; None where its repeats do not differ.
    known, graded
        The label is made of grades, and these are the systems of which it says something; by
        default all.

    Examples
    --------
    >>> pattern(Cell("", 4), "no", [True, False, None]).n_ruled_out
    1
    >>> pattern(Cell("", 4), "yes", [True, False], inverse=[1.25, 0.0], answers=["B", "A"]).yes_scores
    (1.25, 0.0)
    """
    met = tuple(hits)
    told = inverse is not None and verdict != "unsure"
    scores = tuple(rounded(value) or 0.0 for value in inverse or ())
    none = (0.0,) * len(met)
    order: dict[Any, int] = {}
    differ = shares is not None and any(share is not None for share in shares)
    mass = [
        share or (float(bool(hit)), float(hit is not None))
        for share, hit in zip(shares or (), met, strict=False)
    ]
    return Pattern(
        place.n_classes,
        verdict,
        met,
        n_ruled_out=int(verdict == "no") if n_ruled_out is None else n_ruled_out,
        design="graded" if graded else "uniform" if inverse is None else "recorded",
        yes_scores=(scores if verdict == "yes" else none) if told else None,
        no_scores=(scores if verdict == "no" else none) if told else None,
        groups=None
        if inverse is None
        else tuple(-1 if a is None else order.setdefault(a, len(order)) for a in answers or ()),
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
        found = yes or no or {c for c, _, _ in rows}
        return cls(
            n_classes,
            "yes" if yes else "no" if no else "unsure",
            frozenset(found),
            ruled_out=frozenset(no if yes else ()),
        )

    @property
    def place(self) -> Cell:
        """Where the item lies."""
        return Cell("", self.n_classes, self.stratum, self.weight, self.cluster)

    def meet(self, answer: Any, *, system: str = "system", chance: float | None = None) -> Tally:
        """How an answer (None: there is none) meets this label; ``chance`` as in :func:`tally`."""
        if self.graded:
            return self._meet_grade(self.place._replace(system=system), answered=answer is not None)
        hit = answer is not None and answer in self.classes
        ruled = self.classes if self.verdict == "no" else self.ruled_out
        return tally(
            self.place._replace(system=system),
            self.verdict,
            hit=hit,
            answered=answer is not None,
            n_ruled_out=len(ruled),
            ruled_hit=answer is not None and answer in ruled,
            inverse=None if self.propensity is None else hit / self.propensity,
            chance=chance,
        )

    def meet_runs(
        self, answers: Sequence[Any], *, system: str = "system", how: Repeats = "mean"
    ) -> Tally:
        """How the answers of several runs (None: a run without one) meet this label.

        ``mean`` gives every run the same weight. ``any`` gives every different answer the weight 1:
        the truth is one of them or none, so their scores add up to 1 or 0 on average. ``all`` is
        one answer, or none where the runs differ: they are not all right then.

        Examples
        --------
        >>> label = Label.of([("B", "no", None)], n_classes=4)
        >>> [label.meet_runs(["B", "C", "B"], how=how)[-4:-2] for how in ("mean", "any")]
        [(0.6666666666666666, 1.0), (1.0, 2.0)]
        >>> label.meet_runs(["B", "C", "B"], how="all").answered
        False
        """
        different = dict.fromkeys(answers)
        if len(different) == 1 or how == "all":
            return self.meet(answers[0] if len(different) == 1 else None, system=system)
        given = [a for a in (different if how == "any" else answers) if a is not None]
        if how == "any" and len(given) == 1:
            return self.meet(given[0], system=system)
        weight = 1.0 if how == "any" else 1 / len(answers)
        hits = sum(a in self.classes for a in given)
        ruled = self.classes if self.verdict == "no" else self.ruled_out
        return tally(
            self.place._replace(system=system),
            self.verdict,
            hit=hits == len(answers) if how == "mean" else hits > 0,
            answered=True,
            n_ruled_out=len(ruled),
            ruled_hit=ruled >= set(given if how == "any" else answers),
            inverse=None if self.propensity is None else weight * hits / self.propensity,
            shares=(weight * hits, weight * len(given)),
        )

    def _meet_grade(self, place: Cell, *, answered: bool) -> Tally:
        if self.propensity is not None:
            return tally(
                place,
                self.verdict,
                hit=answered,
                answered=answered,
                inverse=answered / self.propensity,
            )
        verdict: Verdict = "unsure" if self.verdict == "unsure" else "yes"
        return tally(
            place, verdict, hit=answered and self.verdict != "no", answered=answered, graded=True
        )

    def meet_all(self, answers: Sequence[Any]) -> Pattern:
        """How the answers of several systems meet this label together."""
        hits = [None if a is None else a in self.classes for a in answers]
        inverse = None if self.propensity is None else [bool(hit) / self.propensity for hit in hits]
        ruled = self.classes if self.verdict == "no" else self.ruled_out
        return pattern(
            self.place, self.verdict, hits, n_ruled_out=len(ruled), inverse=inverse, answers=answers
        )


Propensities = Literal["none", "uniform", "recorded"]
PROPENSITIES: tuple[Propensities, ...] = ("none", "uniform", "recorded")
_SORT_UP_TO = 200_000
_T = TypeVar("_T")


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
        if not 1 <= n_ruled_out < n_classes:
            raise EvidenceError.of("n_ruled_out", f"must be in [1, {n_classes})", n_ruled_out)
        cell = Cell(system, n_classes, stratum, weight)
        tallies: Counter[Tally] = Counter()
        kinds: tuple[tuple[str, tuple[int, int], Verdict, int], ...] = (
            ("ordinary", ordinary, "yes", 0),
            ("complementary", complementary, "no", n_ruled_out),
        )
        for name, (n, good), verdict, m in kinds:
            if not (_is_count(n) and _is_count(good) and good <= n):
                raise EvidenceError.of(
                    name, "must be (n, good) with whole numbers 0 <= good <= n", (n, good)
                )
            for hit, count in ((verdict == "yes", good), (verdict == "no", n - good)):
                tallies[tally(cell, verdict, hit=hit, n_ruled_out=m)] += int(count)
        labelled = int(ordinary[0] + complementary[0])
        total = labelled + n_without_answer if n_items is None else n_items
        if not (
            _is_count(n_without_answer)
            and _is_count(total)
            and total - n_without_answer >= labelled
        ):
            rule = f"must be at least {labelled + n_without_answer} (labelled and unanswered items)"
            raise EvidenceError.of("n_items", rule, n_items)
        answered = {cell: total - n_without_answer}
        return cls(
            tallies=dict(+tallies),
            items={cell: total},
            answered=answered,
            whole=n_items is not None,
        )

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
        items: Counter[str] = Counter()
        labelled: Counter[str] = Counter()
        for c, n in self.items.items():
            items[c.system] += n
        for t, n in self.tallies.items():
            labelled[t.system] += n
        n_items, n_labelled = max(items.values(), default=0), max(labelled.values(), default=0)
        return f"{_some(len(self.systems), 'system')}, {_some(n_items, 'item')}, {n_labelled:,} labelled"

    def of(self, system: str | None = None) -> Self:
        """The counts of one system; None is allowed where there is only one."""
        if system is None:
            if len(self.systems) != 1:
                raise EvidenceError.of(
                    "system", f"must be named, one of {list(self.systems)}", None
                )
            return self
        if system not in self.systems:
            remedy = known_names(system, self.systems)
            raise EvidenceError.of(
                "system", "must be one of those counted", repr(system), remedy=remedy
            )
        return dataclasses.replace(
            self,
            tallies={t: n for t, n in self.tallies.items() if t.system == system},
            items={c: n for c, n in self.items.items() if c.system == system},
            answered={c: n for c, n in self.answered.items() if c.system == system},
            states={key: n for key, n in self.states.items() if key[0] == system},
            runs={name: n for name, n in self.runs.items() if name == system},
            most_answers={name: n for name, n in self.most_answers.items() if name == system},
        )

    def sizes(self) -> Counter[str]:
        """How many items each system was asked about."""
        found: Counter[str] = Counter()
        for cell, n in self.items.items():
            found[cell.system] += n
        return found

    def cells(self) -> dict[Cell, dict[Tally, int]]:
        """Tallies grouped by stratum, number of classes and weight; cells without labels are there
        and empty.
        """
        groups: dict[Cell, dict[Tally, int]] = {cell: {} for cell in self.items}
        for t, n in self.tallies.items():
            groups.setdefault(Cell(t.system, t.n_classes, t.stratum, t.weight, t.cluster), {})[
                t
            ] = n
        return groups

    @property
    def clustered(self) -> bool:
        """Whether items were counted by cluster."""
        return any(c.cluster for c in self.items)

    def without_clusters(self) -> Self:
        """The same counts as if items had not been counted by cluster."""
        if not self.clustered:
            return self
        tallies: Counter[Tally] = Counter()
        items: Counter[Cell] = Counter()
        answered: Counter[Cell] = Counter()
        for t, n in self.tallies.items():
            tallies[t._replace(cluster="")] += n
        for found, known in ((items, self.items), (answered, self.answered)):
            for c, n in known.items():
                found[c._replace(cluster="")] += n
        return dataclasses.replace(
            self, tallies=dict(tallies), items=dict(items), answered=dict(answered)
        ).ordered()

    def ordered(self) -> Self:
        """The same counts in one order, that of :meth:`to_dict`, so that sums are the same to the
        last bit however they were counted.
        """
        return dataclasses.replace(
            self,
            tallies=_in_order(self.tallies),
            items=_in_order(self.items),
            answered=_in_order(self.answered),
            runs=_in_order(self.runs),
        )

    def without_chances(self) -> Self:
        """The same counts as if the design did not tell with which probability an answer would have
        been asked about.
        """
        if all(t.chance is None for t in self.tallies):
            return self
        tallies: Counter[Tally] = Counter()
        for t, n in self.tallies.items():
            tallies[t._replace(chance=None)] += n
        return dataclasses.replace(self, tallies=dict(tallies)).ordered()

    def total(self, **match: object) -> int:
        """Number of labelled items whose tally has these values, for example ``total(verdict="yes",
        hit=True)``.
        """
        return sum(
            n for t, n in self.tallies.items() if all(getattr(t, k) == v for k, v in match.items())
        )

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
        if any(
            t.hit_share is not None for t in self.tallies
        ):  # an answer that differs between repeats is neither right nor wrong
            for name in ("ordinary_right", "complementary_avoided")[self.repeats == "any" :]:
                del summary[name]
        if self.runs and self.repeats == "all":
            summary["not_the_same_every_time"] = summary.pop("without_answer")
        return summary

    def _spoken(self, verdict: str, **match: bool) -> int:
        """Labelled and answered items with this label of a class."""
        wanted = {"verdict": verdict, "answered": True, **match}
        return sum(
            n
            for t, n in self.tallies.items()
            if not _is_grade(t) and all(getattr(t, k) == v for k, v in wanted.items())
        )

    def _more(self) -> dict[str, Any]:
        """The figures that only some evidence has: grades, why answers are missing, and repeats."""
        more: dict[str, Any] = {}
        if any(map(_is_grade, self.tallies)):
            own = {
                t: n
                for t, n in self.tallies.items()
                if _is_grade(t) and t.answered and t.verdict != "unsure"
            }
            more["graded"] = sum(n for t, n in own.items() if t.hit or t.design == "graded")
            more["graded_right"] = sum(n for t, n in own.items() if t.hit and t.verdict == "yes")
            others = sum(n for t, n in own.items() if not t.hit and t.design == "recorded")
            more |= {"questions_about_other_answers": others} if others else {}
        if self.states:
            more["states"] = _by_state(self.states)
        if self.runs:
            more["answers"] = sum(self.runs.values())
            if self.repeats != "all":
                more["items_whose_repeats_differ"] = sum(
                    n for t, n in self.tallies.items() if t.hit_share is not None
                )
        return more

    def when_right(self) -> str:
        """When an item counts as right that was answered more than once, in a few words; empty
        without repeats.
        """
        if self.runs:
            return when_right(self.repeats, sum(self.runs.values()), sum(self.items.values()))
        return ""

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
        return AccuracyCounts(
            tallies=_added(self.tallies, other.tallies),
            items=_added(self.items, other.items),
            answered=_added(self.answered, other.answered),
            unused=_added(self.unused, other.unused),
            inferred=tuple(dict.fromkeys((*self.inferred, *other.inferred))),
            states=_added(self.states, other.states),
            whole=self.whole and other.whole,
            propensities=max(kinds, key=PROPENSITIES.index),
            **repeats_together([self, other]),
        )

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values with schema ``counts/1``: items are counted, never named."""
        return {
            "schema": "counts/1",
            "tallies": [
                {**_fields(t), "n": n} for t, n in sorted(self.tallies.items(), key=_text_key)
            ],
            "population": [
                {**_fields(c), "items": n, "answered": self.answered.get(c, 0)}
                for c, n in sorted(self.items.items(), key=_text_key)
            ],
            "unused": dict(self.unused),
            "inferred": list(self.inferred),
            **(
                {
                    "states": [
                        {"system": s, "state": w, "n": n}
                        for (s, w), n in sorted(self.states.items())
                    ]
                }
                if self.states
                else {}
            ),
            **({"runs": dict(sorted(self.runs.items()))} if self.runs else {}),
            **({} if self.repeats == "mean" else {"repeats": self.repeats}),
            **(
                {"most_answers": dict(sorted(self.most_answers.items()))}
                if self.most_answers
                else {}
            ),
            **({} if self.whole else {"whole": False}),
            **(
                {}
                if self.propensities == _implied(self.tallies)
                else {"propensities": self.propensities}
            ),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Read back what :meth:`to_dict` wrote."""
        if data.get("schema") != "counts/1":
            raise EvidenceError.of("schema", "must be 'counts/1'", repr(data.get("schema")))
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
            states={
                (str(row["system"]), str(row["state"])): int(row["n"])
                for row in data.get("states", ())
            },
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
        tables: tuple[tuple[Mapping[tuple[bool | None, ...], int], Verdict], ...] = (
            (yes or {}, "yes"),
            (no or {}, "no"),
        )
        for table, verdict in tables:
            for hits, n in table.items():
                if len(hits) != len(systems) or not _is_count(n):
                    rule = f"must map {len(systems)} entries to a whole number"
                    raise EvidenceError.of(verdict, rule, (hits, n))
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
            if own is not None:
                silent = tuple(hit is None for hit in own.hits)
                if not (self.silent and all(silent)):
                    found[
                        own._replace(stratum=_by_silence(own.stratum, silent))
                        if self.silent
                        else own
                    ] += n
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
        if (
            not self.whole
        ):  # these items are a sample, and those that were graded for the others are none of it
            sampled: Counter[Cell] = Counter()
            for p, n in found.items():
                sampled[Cell("", p.n_classes, p.stratum, p.weight, p.cluster)] += n
            items = dict(sampled)
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
        patterns: Counter[Pattern] = Counter()
        items: Counter[Cell] = Counter()
        for p, n in self.patterns.items():
            patterns[p._replace(cluster="")] += n
        for c, n in self.items.items():
            items[c._replace(cluster="")] += n
        silent: Counter[tuple[Cell, tuple[bool, ...]]] = Counter()
        for (c, flags), n in self.silent.items():
            silent[c._replace(cluster=""), flags] += n
        return dataclasses.replace(
            self, patterns=dict(patterns), items=dict(items), silent=dict(silent)
        ).ordered()

    def _by_silence(self, other: PatternCounts) -> Mapping[tuple[Cell, tuple[bool, ...]], int]:
        """The population by who gave no answer, where one side has missing answers."""
        if self.silent or not other.silent:
            return self.silent
        return {(cell, (False,) * len(self.systems)): n for cell, n in self.items.items()}

    def ordered(self) -> Self:
        """The same counts in one order; see :meth:`AccuracyCounts.ordered`."""
        return dataclasses.replace(
            self, patterns=_in_order(self.patterns), items=_in_order(self.items)
        )

    def __add__(self, other: PatternCounts) -> PatternCounts:
        """Patterns of the same systems on disjoint sets of items add."""
        if self.systems != other.systems:
            rule = f"must be {list(self.systems)} on both sides"
            raise EvidenceError.of("systems", rule, list(other.systems))
        return PatternCounts(
            systems=self.systems,
            patterns=_added(self.patterns, other.patterns),
            unused=_added(self.unused, other.unused),
            inferred=tuple(dict.fromkeys((*self.inferred, *other.inferred))),
            states=_added(self.states, other.states),
            items=_added(self.items, other.items),
            **repeats_together([self, other]),
            whole=self.whole and other.whole,
            silent=_added(self._by_silence(other), other._by_silence(self)),
        )

    def sizes(self) -> Counter[str]:
        """How many items each system was asked about."""
        return Counter(dict.fromkeys(self.systems, sum(self.items.values())))

    def when_right(self) -> str:
        """When an item counts as right that was answered more than once, in a few words; empty
        without repeats.
        """
        if self.runs:
            return when_right(self.repeats, sum(self.runs.values()), sum(self.sizes().values()))
        return ""


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
        return dataclasses.replace(self, questions=_in_order(self.questions))

    def without_raters(self) -> Self:
        """The same counts as if nobody had looked at who was asked."""
        questions: Counter[Question] = Counter()
        for q, n in self.questions.items():
            questions[q._replace(rater="")] += n
        return dataclasses.replace(self, questions=dict(questions)).ordered()

    def __add__(self, other: JudgementCounts) -> JudgementCounts:
        """Judgements of disjoint sets of items add."""
        return JudgementCounts(
            questions=_added(self.questions, other.questions),
            inferred=tuple(dict.fromkeys((*self.inferred, *other.inferred))),
        )

    def __repr__(self) -> str:
        return f"JudgementCounts({_some(sum(self.questions.values()), 'judgement')})"


def check_n_classes(n_classes: object) -> int:
    """Return the number of classes if it is a whole number of at least 2."""
    if not _is_count(n_classes) or int(n_classes) < 2:  # type: ignore[call-overload]
        raise EvidenceError.of("n_classes", "must be a whole number of at least 2", repr(n_classes))
    return int(n_classes)  # type: ignore[call-overload, no-any-return]


def _some(n: int, word: str) -> str:
    """A number of things, as in "1 item" and "2 items"."""
    return f"{n:,} {word}{'' if n == 1 else 's'}"


def _is_count(value: Any) -> bool:
    if isinstance(value, bool) or value is None:
        return False
    try:
        return math.isfinite(value) and value == int(value) and value >= 0
    except (TypeError, ValueError):
        return False


def _by_state(states: Mapping[tuple[str, str], int]) -> dict[str, int]:
    total: dict[str, int] = {}
    for (_, state), n in sorted(states.items()):
        total[state] = total.get(state, 0) + n
    return total


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
    """When an item counts as right that was answered several times, and how often it was.

    Examples
    --------
    >>> when_right("all", 400, 100), when_right("any", 350, 100)
    ('right every time (4 runs)', 'right at least once (3.5 runs on average)')
    """
    each = runs / n_items if n_items else 0.0
    if each == int(each):
        return f"{_RIGHT[repeats]} ({int(each)} runs)"
    return f"{_RIGHT[repeats]} ({each:.1f} runs on average)"


def repeats_together(parts: Sequence[AccuracyCounts] | Sequence[PatternCounts]) -> dict[str, Any]:
    """``runs``, ``repeats`` and ``most_answers`` of a sum of counts; a part without repeats has no
    rule of its own.
    """
    rules = {c.repeats for c in parts if c.runs}
    if len(rules) > 1:
        rule = "must take repeats in one way"
        raise EvidenceError.of(
            "counts", rule, " and ".join(sorted(rules)), remedy="Count the tables again."
        )
    runs: Counter[str] = Counter()
    most: dict[str, int] = {}
    for c in parts if rules else ():
        if not c.runs:  # one run of every item
            runs.update(c.sizes())
        runs.update(c.runs)
        most |= {name: max(n, most.get(name, 1)) for name, n in c.most_answers.items()}
    return {"runs": dict(runs), "repeats": rules.pop() if rules else "mean", "most_answers": most}


def read_tally(row: Mapping[str, Any]) -> Tally:
    """A tally from its JSON values, if its shares of repeats, or its numbers of different answers,
    are possible.
    """
    found = Tally(**{k: v for k, v in row.items() if k != "n"})
    hit, answered = found.hit_share, found.answered_share
    if hit is None and answered is None:
        return found
    if (
        hit is None
        or answered is None
        or not 0 <= hit <= answered
        or (answered > 1 and (answered % 1 or hit % 1))
    ):
        rule = "must be 0 <= hit_share <= answered_share <= 1, or whole numbers"
        raise EvidenceError.of("hit_share and answered_share", rule, (hit, answered))
    return found


def _fields(row: Tally | Cell) -> dict[str, Any]:
    """All values; the shares of repeats, the cluster and the chance only where there are some."""
    values = row._asdict()
    for name in ("hit_share", "answered_share", "cluster", "chance"):
        if values.get(name, 0) in (None, ""):
            del values[name]
    return values


def _added(a: Mapping[_T, int], b: Mapping[_T, int]) -> dict[_T, int]:
    total: defaultdict[_T, int] = defaultdict(int)
    for side in (a, b):
        for key, n in side.items():
            total[key] += n
    return dict(total)


def _in_order(counts: Mapping[_T, int]) -> dict[_T, int]:
    """Counts by the text of their keys; very many stay as they came."""
    if len(counts) > _SORT_UP_TO:
        return dict(counts)
    return dict(
        sorted(
            counts.items(),
            key=lambda pair: (
                tuple(map(str, pair[0])) if isinstance(pair[0], tuple) else (str(pair[0]),)
            ),
        )
    )


def _text_key(pair: tuple[Iterable[object], int]) -> tuple[str, ...]:
    return tuple(str(v) for v in pair[0])
