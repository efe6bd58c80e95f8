"""One label meets one answer: the only place where a tally is made.

    Label     what was said of an item: the true class, classes that it is not, nothing sure; or, of one system's answer, right or wrong
    Tally     how one answer met that label; equal tallies are counted
    Pattern   how the answers of several systems met it together
    tally     a tally from facts that a query engine has worked out already
    pattern   a pattern from such facts

Every count, stream, live view, fitness and validation makes its tallies here;
:mod:`noracle.accuracy.score` is the only place that turns a tally into a score.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple, Self

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
