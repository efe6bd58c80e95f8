"""Rehearse a design with a key: the weak labels that a protocol would have given for real answers,
before anybody pays for them.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import narwhals as nw
import numpy as np

from noracle.accuracy.estimate import estimate_accuracy
from noracle.bounds.binomial import clopper_pearson
from noracle.counts import AccuracyCounts
from noracle.counts.count import ENOUGH
from noracle.counts.tally import Cell, Tally, Verdict, tally
from noracle.errors import ArgumentError, EvidenceError, refuse, require_evidence
from noracle.evidence import Evidence
from noracle.evidence.frames import fetch
from noracle.evidence.labels import read_key
from noracle.results import Estimate, choose

Protocol = Literal["question", "complementary", "grades"]
Columns = dict[str, list[Any]]
Whole = np.ndarray[Any, np.dtype[np.int64]]
_NONE, _NOT_ASKED = -1, -2
_YES, _NO, _UNSURE = 1, 0, 2
_WORDS: Mapping[int, Verdict] = {_YES: "yes", _NO: "no", _UNSURE: "unsure"}
_GRADES = {_YES: "right", _NO: "wrong", _UNSURE: "unsure"}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsal:
    """The labels that a protocol gave, and what they say beside what the key says.

    Attributes
    ----------
    labels
        Judgements (``item``, ``class``, ``verdict`` and, for questions, ``propensity``) or grades
        (``item``, ``system``, ``verdict``).
    accuracy
        The accuracy of each system on the items with a key; no answer counts as wrong.
    estimates
        What these labels give, one for each system; ``diagnostics["key"]`` says what the key says
        and how often the interval covered it.
    counts
        Items of the rehearsal, items without a key (left out), and keys of items without answers.
    """

    protocol: Protocol
    labels: Columns
    accuracy: Mapping[str, float]
    estimates: tuple[Estimate, ...]
    counts: Mapping[str, int]
    worlds: int
    seed: int
    notes: tuple[str, ...] = ()

    def coverage(self, system: str) -> float:
        """How often the interval of a system covered what the key says, over all rehearsals."""
        found = next((e for e in self.estimates if e.subject == system), None)
        if found is None:
            known = [e.subject for e in self.estimates]
            raise ArgumentError(f"system must be one of {known}; got {system!r}.")
        return float(found.diagnostics["key"]["coverage"])


def rehearse(
    answers: object,
    key: object,
    *,
    items: object = None,
    protocol: Protocol = "question",
    design: Literal["uniform", "targeted"] = "uniform",
    epsilon: float = 0.05,
    n: int | None = None,
    n_ordinary: int = 0,
    n_ruled_out: int = 1,
    key_column: str | None = None,
    systems: Sequence[str] | None = None,
    n_classes: int | None = None,
    classes: Sequence[int | str] | None = None,
    false_no: float = 0.0,
    false_yes: float = 0.0,
    unsure: float = 0.0,
    worlds: int = 1,
    confidence: float = 0.95,
    seed: int = 0,
) -> Rehearsal:
    """Draw the labels that a protocol would have given for these answers, and hold what they say
    against the key.

    Parameters
    ----------
    answers
        Evidence with answers, or a table that :meth:`Evidence.from_tables` takes. Of several runs
        of an item the first is used.
    key
        ``item`` and the true class, in a column ``label``, ``answer``, ``key``, ``truth``,
        ``target``, ``gold``, ``correct`` or ``class`` (or ``key_column``), written as the answers
        are; letters stand for places, too. Items without a key are left out and counted.
    items
        ``item`` and optionally ``n_classes``, ``stratum``, ``weight``, as for estimates; not with
        evidence, which has them.
    protocol
        ``question``: "is it class k?" about one class of each item, drawn from all K, with its
        propensity. ``complementary``: a class that the item is not, drawn from the K - 1 wrong
        ones. ``grades``: "is this system's answer right?" for every system.
    design, epsilon
        For ``question``: ``uniform``, or ``targeted`` at the answers of the systems with the
        uniform share ``epsilon``, as
        :func:`noracle.route_items` draws them.
    n
        How many items get a label, drawn at random without replacement; by default all with a key.
    n_ordinary, n_ruled_out
        For ``complementary``: further items with their true class, and ruled-out classes of each of
        the others.
    false_no, false_yes, unsure
        Rates of wrong verdicts (no to the true class, or to a right answer; yes to a wrong one) and
        of ``unsure``. The estimates take verdicts as right, as they would with paid labels.
    worlds
        How often to rehearse. The labels are those of the first; coverage and width are over all of
        them.

    Notes
    -----
    ``complementary`` is Algorithm 1 of Yin, Ishida and Sugiyama, "Towards scalable oversight via
    partitioned human supervision", on one's own data. Coverage is an average over draws of the
    labels, with answers and key as they are.

    Examples
    --------
    >>> from noracle.simulate import rehearse, simulate_world
    >>> world = simulate_world(n_items=400, n_classes=4, systems={"agent": 0.8}, seed=1)
    >>> rehearsal = rehearse(world.answers, {"item": list(world.key), "label": list(world.key.values())}, n=200, n_classes=4, worlds=20)
    >>> len(rehearsal.labels["item"]), rehearsal.accuracy["agent"] == world.accuracy["agent"], rehearsal.coverage("agent") >= 0.85
    (200, True, True)
    """
    choose("protocol", protocol, ("question", "complementary", "grades"))
    choose("design", design, ("uniform", "targeted"))
    noise = _Noise(false_no, false_yes, unsure)
    alone = protocol != "complementary" and (n_ordinary or n_ruled_out != 1)
    astray = design == "targeted" and (protocol != "question" or not 0 < epsilon <= 1)
    tables: dict[str, Any] = {"items": items, "n_classes": n_classes, "classes": classes}
    twice = isinstance(answers, Evidence) and any(v is not None for v in tables.values())
    refuse(
        {
            **{f"{n} must be in [0, 1]; got {v}.": not 0 <= v <= 1 for n, v in vars(noise).items()},
            f"worlds must be at least 1; got {worlds}.": worlds < 1,
            f"n_ordinary and n_ruled_out must go with protocol='complementary'; got {protocol!r}.": alone,
            f"design='targeted' must go with protocol='question' and epsilon in (0, 1]; got {protocol!r} and {epsilon}.": astray,
            "items, n_classes and classes must be left out where answers are evidence; got both.": twice,
        }
    )
    if not isinstance(answers, Evidence):
        answers = Evidence.from_tables(answers, **tables)
    stage = _Stage(answers, read_key(key, key_column), systems)
    left, fewest = len(stage.items) - n_ordinary, int(stage.n_classes.min())
    size = left if n is None else n
    room, few = 0 < size <= left and n_ordinary >= 0, 1 <= n_ruled_out < fewest
    refuse(
        {
            f"n and n_ordinary must be at most {len(stage.items)} together, the items with answers and a key; got {n}.": not room,
            f"n_ruled_out must be in [1, {fewest}); got {n_ruled_out}.": not few,
        }
    )
    share = epsilon if design == "targeted" else 1.0
    found: list[list[Estimate]] = []
    labels: Columns = {}
    for world in range(worlds):
        rng = np.random.default_rng([seed, world])
        draw = stage.questions(rng, size, share, noise) if protocol == "question" else None
        draw = draw or stage.labels(rng, protocol, size, n_ordinary, n_ruled_out, noise)
        labels = labels or stage.table(draw)
        found.append([stage.estimate(draw, s, confidence, seed, world) for s in stage.systems])
    told = tuple(_told(of, stage.accuracy[of[0].subject]) for of in zip(*found, strict=True))
    wrong = "some verdicts are wrong, as asked for, and the estimates take them as right"
    return Rehearsal(
        protocol=protocol,
        labels=labels,
        accuracy=stage.accuracy,
        estimates=told,
        counts=stage.counts,
        worlds=worlds,
        seed=seed,
        notes=(*stage.notes, *([wrong] if false_no or false_yes else ())),
    )


def _covers(estimate: Estimate, accuracy: float) -> bool:
    return estimate.low - 1e-9 <= accuracy <= estimate.high + 1e-9


def _told(estimates: Sequence[Estimate], accuracy: float) -> Estimate:
    """The estimate of the first rehearsal with what the key says of all of them."""
    first, worlds = estimates[0], len(estimates)
    hits = sum(_covers(e, accuracy) for e in estimates)
    width, covers = sum(e.width / worlds for e in estimates), _covers(first, accuracy)
    about = {"accuracy": accuracy, "covers": covers, "rehearsals": worlds}
    about |= {"coverage": hits / worlds, "mean_width": width}
    notes = [f"the key says {accuracy:.3f}: the interval {'covers' if covers else 'misses'} it"]
    if worlds > 1:
        low, high = clopper_pearson(hits, worlds, 0.025, 0.025)
        about |= {"coverage_low": low, "coverage_high": high}
        share = f"{100 * hits / worlds:.1f} %, 95 % limits {100 * low:.1f} % and {100 * high:.1f} %"
        often = f"the interval covered what the key says {hits} times ({share})"
        notes.append(f"in {worlds} rehearsals {often}; mean width {width:.3f}")
    diagnostics = {**first.diagnostics, "key": about}
    return dataclasses.replace(first, diagnostics=diagnostics, notes=(*first.notes, *notes))


@dataclasses.dataclass(frozen=True)
class _Noise:
    false_no: float
    false_yes: float
    unsure: float

    def verdicts(self, rng: np.random.Generator, truth: np.ndarray[Any, Any]) -> Whole:
        """What is said where the answer to the question is ``truth``."""
        u, v = rng.random(truth.shape), rng.random(truth.shape)
        said = np.where(u < np.where(truth, self.false_no, self.false_yes), ~truth, truth)
        return np.where(v < self.unsure, _UNSURE, said.astype(np.int64))


class _Draw(NamedTuple):
    """What a protocol said about some items."""

    protocol: Protocol
    places: Whole
    asked: Whole  # one column for each class
    said: Whole  # for grades one row for each system
    chances: np.ndarray[Any, np.dtype[np.float64]] | None = None  # of all classes
    aimed: bool = False  # whether the chances depend on answers


class _Stage:
    """Answers, key and items as arrays; classes are their places."""

    def __init__(
        self, evidence: Evidence, key: Mapping[Any, Any], systems: Sequence[str] | None
    ) -> None:
        require_evidence(evidence.answers is not None, "evidence", "must have answers", "none")
        evidence.check()
        rows = evidence.rows("answers", "item", "system", "answer")
        known = sorted({str(row[1]) for row in rows})
        strange = [s for s in systems or () if s not in known]
        require_evidence(not strange, "systems", f"must be among {known}", strange)
        self.systems = tuple(known if systems is None else dict.fromkeys(systems))
        self._some_systems = len(self.systems) < len(known)
        given = {row[0] for row in rows}
        key = _same_items(key, given)
        self.items = sorted(given & key.keys())
        came = f"none: answers have {_some(given)}, the key has {_some(key)}"
        require_evidence(self.items, "key", "must have items of the answers", came)
        without, more = len(given - key.keys()), len(key.keys() - given)
        n_items = len(self.items)
        self.counts = {"items": n_items, "without_key": without, "key_without_answers": more}
        answers = [row[2] for row in rows if row[2] is not None]
        text = evidence.class_kind == "text" if answers else isinstance(key[self.items[0]], str)
        truths, note = _same_classes([key[i] for i in self.items], answers, text=text)
        again = evidence.repeats is not None
        notes = {
            "answers have repeats: the first run of each item is used": again,
            f"{without} items of the answers have no key and are left out": without,
            note: note,
        }
        self.notes = [said for said, holds in notes.items() if holds]
        self._names = _class_names(evidence, {*answers, *truths}, text=text)
        place = {name: k for k, name in enumerate(self._names)}
        cells = _cells(evidence, self.items, len(self._names))
        self.n_classes = np.array([c.n_classes for c in cells], dtype=np.int64)
        self.truth = np.array([place[t] for t in truths], dtype=np.int64)
        outside = [self.items[i] for i in np.flatnonzero(self.truth >= self.n_classes)]
        if outside:
            rule, remedy = "must be a class of its item", "Correct it or the item's n_classes."
            few, total = outside[:5], len(outside)
            raise EvidenceError.of("key", rule, "others", where=few, total=total, remedy=remedy)
        self.answers = np.full((len(self.systems), n_items), _NOT_ASKED, dtype=np.int64)
        where = {item: i for i, item in enumerate(self.items)}
        column = {s: i for i, s in enumerate(self.systems)}
        for item, system, answer in rows:
            if str(system) in column and item in where:
                code = _NONE if answer is None else place[answer]
                self.answers[column[str(system)], where[item]] = code
        self._kinds = sorted(set(cells))
        index = {cell: i for i, cell in enumerate(self._kinds)}
        self._kind = np.array([index[c] for c in cells], dtype=np.int64)
        weight = np.array([c.weight for c in cells])
        self.accuracy = {}
        for name, own in zip(self.systems, self.answers, strict=True):
            asked = own != _NOT_ASKED
            right = float(weight[asked & (own == self.truth)].sum())
            self.accuracy[name] = right / float(weight[asked].sum()) if asked.any() else 0.0

    def questions(self, rng: np.random.Generator, n: int, share: float, noise: _Noise) -> _Draw:
        """One question about each of n random items: a share uniform, others by the answers."""
        places = rng.permutation(len(self.items))[:n]
        k = self.n_classes[places][:, None]
        classes = np.arange(int(self.n_classes.max()))
        votes = np.zeros((n, len(classes)))
        for own in self.answers[:, places] if share < 1 else ():
            votes[np.flatnonzero(own >= 0), own[own >= 0]] += 1
        total = votes.sum(axis=1, keepdims=True)
        mixed = (1 - share) * votes / np.maximum(total, 1) + share / k
        chances = np.where(total > 0, mixed, 1 / k) * (classes < k)
        below = (np.cumsum(chances, axis=1) <= rng.random((n, 1))).sum(axis=1)
        asked = np.minimum(below, k[:, 0] - 1)
        aimed = bool((np.abs(chances * k - 1) > 1e-9)[np.arange(n), asked].any())
        said = noise.verdicts(rng, asked == self.truth[places])
        return _Draw("question", places, asked[:, None], said, chances, aimed)

    def labels(
        self,
        rng: np.random.Generator,
        protocol: Protocol,
        n: int,
        n_ordinary: int,
        n_ruled_out: int,
        noise: _Noise,
    ) -> _Draw:
        """Ruled-out classes, or grades, of random items."""
        places = rng.permutation(len(self.items))[: n + n_ordinary]
        truth, k = self.truth[places], self.n_classes[places]
        if protocol == "grades":
            own = self.answers[:, places]
            graded = noise.verdicts(rng, own == truth)
            said = np.where(own < 0, _NO, graded)  # none is seen to be so
            return _Draw(protocol, places, np.zeros((len(places), 0), dtype=np.int64), said)
        # Wrong classes in a random order: each has a random number, the true one comes last, or
        # first where it is ruled out by mistake.
        order = rng.random((len(places), int(self.n_classes.max())))
        order[np.arange(order.shape[1]) >= k[:, None]] = np.inf
        slips = rng.random(len(places)) < noise.false_no
        order[np.arange(len(places)), truth] = np.where(slips, -1.0, np.finfo(float).max)
        asked = np.argsort(order, axis=1, kind="stable")[:, :n_ruled_out]
        said = np.where(rng.random(len(places)) < noise.unsure, _UNSURE, _NO)
        asked[n:], said[n:] = truth[n:, None], np.where(said[n:] == _UNSURE, _UNSURE, _YES)
        return _Draw(protocol, places, asked, said)

    def table(self, draw: _Draw) -> Columns:
        """The labels as a user would have them."""
        items = [self.items[i] for i in draw.places.tolist()]
        if draw.protocol == "grades":
            there = self.answers[:, draw.places].T != _NOT_ASKED
            pairs = np.argwhere(there).tolist()
            return {
                "item": [items[i] for i, _ in pairs],
                "system": [self.systems[s] for _, s in pairs],
                "verdict": [_GRADES[int(draw.said[s, i])] for i, s in pairs],
            }
        table: Columns = {"item": [], "class": [], "verdict": [], "propensity": []}
        facts = zip(items, draw.asked.tolist(), draw.said.tolist(), strict=True)
        for i, (item, asked, said) in enumerate(facts):
            for c in dict.fromkeys(asked):
                chance = 0.0 if draw.chances is None else float(draw.chances[i, c])
                row = item, self._names[c], _WORDS[said], chance
                for column, value in zip(table.values(), row, strict=True):
                    column.append(value)
        if draw.chances is None:
            del table["propensity"]
        return table

    def estimate(
        self, draw: _Draw, system: str, confidence: float, seed: int, world: int
    ) -> Estimate:
        """What the labels of a draw say of a system; checked in the first world."""
        return estimate_accuracy(
            self._counts(draw, self.systems.index(system)),
            confidence=confidence,
            checks="none" if world else "auto",
            protocol="question" if draw.protocol == "question" else "sets",
            seed=seed,
        )

    def _counts(self, draw: _Draw, s: int) -> AccuracyCounts:
        """How the answers of a system met the labels; a grade is an ordinary label."""
        name, every = self.systems[s], self.answers[s]
        own, kind = every[draw.places], self._kind[draw.places]
        said, hit = draw.said, (draw.asked == own[:, None]).any(axis=1)
        if draw.protocol == "grades":
            said, hit = np.where(said[s] == _UNSURE, _UNSURE, _YES), said[s] == _YES
        there = own != _NOT_ASKED
        inverse: list[float | None] = [None] * len(own)
        chance = inverse
        if draw.aimed and draw.chances is not None:
            rows = np.arange(len(own))
            inverse = (hit / draw.chances[rows, draw.asked[:, 0]]).tolist()
            # Else estimates cannot tell how questions were aimed.
            if len(own) >= ENOUGH and not self._some_systems:
                known = zip(draw.chances[rows, own].tolist(), own.tolist(), strict=True)
                chance = [p if a >= 0 else None for p, a in known]
        tallies: Counter[Tally] = Counter()
        columns = [x.tolist() for x in (there, kind, said, hit, own >= 0)]
        facts = Counter(zip(*columns, inverse, chance, strict=True))
        for (was_asked, k, verdict, is_hit, answered, weight, own_chance), n in facts.items():
            if was_asked:
                met = tally(
                    self._kinds[k]._replace(system=name),
                    _WORDS[verdict],
                    hit=is_hit,
                    answered=answered,
                    inverse=weight,
                    n_ruled_out=draw.asked.shape[1] if verdict == _NO else 0,
                    ruled_hit=is_hit and verdict == _NO,
                    chance=own_chance,
                    graded=draw.protocol == "grades" and answered,
                )
                tallies[met] += n
        items, answered_items = Counter[Cell](), Counter[Cell]()
        for k, answer in zip(self._kind.tolist(), every.tolist(), strict=True):
            if answer != _NOT_ASKED:
                place = self._kinds[k]._replace(system=name)
                items[place] += 1
                answered_items[place] += answer >= 0
        questions: Literal["recorded", "uniform"] = "recorded" if draw.aimed else "uniform"
        return AccuracyCounts(
            tallies=dict(tallies),
            items=dict(items),
            answered=dict(answered_items),
            propensities=questions if draw.protocol == "question" else "none",
        )


def _some(ids: Iterable[Any]) -> str:
    return ", ".join(repr(i)[:20] for i in sorted(ids, key=str)[:3]) or "nothing"


def _cells(evidence: Evidence, items: Sequence[Any], n_classes: int) -> list[Cell]:
    """Where each item lies in the population."""
    if evidence.items is None:
        return [Cell("", n_classes)] * len(items)
    there = [c for c in ("n_classes", "stratum", "weight") if c in evidence.items.columns]
    found = {}
    for item, *rest in evidence.rows("items", "item", *there):
        of = dict(zip(there, rest, strict=True)).get
        size, weight = int(of("n_classes") or n_classes), float(of("weight") or 1.0)
        found[item] = Cell("", size, of("stratum") or "", weight)
    return [found[item] for item in items]


def _class_names(evidence: Evidence, seen: set[Any], *, text: bool) -> Sequence[Any]:
    """All classes, in their order."""
    guessed = any("n_classes" in line for line in evidence.inferred)
    told = int(evidence.n_classes or 0)
    names: Sequence[Any]
    if evidence.classes is not None:
        names = evidence.classes
    elif not text:
        told = 0 if guessed else told
        if evidence.has_own_n_classes and evidence.items is not None:
            told = int(fetch(evidence.items.select(nw.col("n_classes").max()))[0][0])
        names = range(told or max(int(c) for c in seen) + 1)
    else:
        names = sorted(seen)
        rule, all_seen = f"must be given where {told} classes are not all seen", told == len(names)
        require_evidence(guessed or all_seen, "classes", rule, list(names)[:6])
    strange = sorted(seen - set(names), key=str)
    rule = f"must be one of the {len(names)} classes"
    remedy = "Correct it or pass n_classes or classes."
    require_evidence(not strange, "key", rule, strange[:5], remedy=remedy)
    return names


def _same_items(key: Mapping[Any, Any], given: set[Any]) -> Mapping[Any, Any]:
    """The key with ids of the type that the answers have."""
    if not key or not given:
        return key
    text = isinstance(next(iter(given)), str)
    if text and not isinstance(next(iter(key)), str):
        return {str(item): label for item, label in key.items()}
    if not text and all(isinstance(i, str) and i.strip().isdecimal() for i in key):
        return {int(item): label for item, label in key.items()}
    return key


def _same_classes(truths: list[Any], answers: list[Any], *, text: bool) -> tuple[list[Any], str]:
    """The key as classes of the answers: letters stand for places."""
    words = [t.strip().upper() for t in truths if isinstance(t, str)]
    if not text and len(words) == len(truths):
        if all(len(w) == 1 and w.isascii() and w.isalpha() for w in words):
            note = "letters of the key are taken as places: A is class 0"
            return [ord(w) - ord("A") for w in words], note
        if all(w.isdecimal() for w in words):
            return [int(t) for t in truths], ""
    letters = all(len(a) == 1 and a.isascii() and a.isupper() for a in answers) if text else False
    if letters and all(isinstance(t, int) for t in truths):
        named = [chr(ord("A") + t) for t in truths]
        return named, "places of the key are taken as letters: class 0 is A"
    same = all(isinstance(t, str) == text for t in truths)
    kind = "text" if text else "whole numbers"
    came = f"{kind} in the answers and {truths[0]!r} in the key"
    remedy = "Write both as text or as whole numbers."
    require_evidence(same, "key", "must be written as the answers are", came, remedy=remedy)
    return truths, ""
