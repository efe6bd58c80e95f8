"""Pass, fail or undecided: what a claim asks of answers and labels, and when it is decided.

Labels are ordinary labels (the class of an item) and grades (this answer is right). Of items that
were labelled before a decision the truth is known, whatever was learned from earlier outcomes; so
the labels that are new are a random sample of the *other* items, drawn after the systems were
made, and test at the whole error rate. Without new labels the old ones test again, at the part of
the error rate that the history of outcomes leaves them.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from os import PathLike
from typing import Any, ClassVar, Literal

import narwhals as nw
import numpy as np

from noracle._version import __version__
from noracle.bounds.binomial import bdtrc, clopper_pearson, hypergeometric_limits, ndtri
from noracle.bounds.paired import finite_difference
from noracle.counts.count import answers_of, asked_of, chosen_systems, labels_of
from noracle.errors import EvidenceError, refuse, require
from noracle.evidence import Evidence
from noracle.evidence.frames import fetch
from noracle.evidence.labels import grade_labels
from noracle.evidence.tables import NO, YES
from noracle.files import canonical, digest
from noracle.gate.ledger import GateLedger, GateSettings, Outcome
from noracle.results import Assumption, Guarantee, Kind
from noracle.results.base import encode

GateTest = Literal["fresh", "reused", "known", "unchanged", "none"]
SHOWN = "The ledger holds a reveal: labels that were shown decide no more, except as facts."
_POWER = float(ndtri(0.8))
_SAMPLED = Assumption(
    name="iid items",
    detail="labels, and new ones among the others, fall on items at random, after the answers",
)
_VERDICTS = Assumption(name="right verdicts", detail="all verdicts are correct")
_KEPT = Assumption(
    name="nothing but outcomes left the labels",
    detail="whoever makes the systems saw only pass, fail and undecided",
)
_APART = Assumption(
    name="branches do not react to each other",
    detail="decisions of branches that were merged did not see each other's outcomes",
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class GateClaim:
    """What a system must prove: an accuracy of ``at_least``, or one that is less than that of
    ``base`` by ``margin`` at most.

    Examples
    --------
    >>> GateClaim(system="agent", at_least=0.8).text, GateClaim(system="agent", base="v1").text
    ('accuracy of agent at least 0.8', 'accuracy of agent at least that of v1 minus 0.01')
    """

    system: str
    at_least: float | None = None
    base: str | None = None
    margin: float = 0.01

    def __post_init__(self) -> None:
        x, m = self.at_least, self.margin
        refuse(
            {
                "at_least or no_worse_than must be given, and not both.": (x is None)
                == (self.base is None),
                f"at_least must be in (0, 1]; got {x}. For 80 % pass 0.8.": x is not None
                and not 0 < x <= 1,
                f"margin must be in [0, 1); got {m}. For one point pass 0.01.": not 0 <= m < 1,
                f"system must be another one than the base; got {self.system!r}.": self.system
                == self.base,
            }
        )

    @property
    def text(self) -> str:
        """The claim as the ledger keeps it."""
        if self.base is None:
            return f"accuracy of {self.system} at least {self.at_least!r}"
        return f"accuracy of {self.system} at least that of {self.base} minus {self.margin!r}"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class GateDesign:
    """What a decision would rest on; nothing of it depends on a verdict.

    ``n_at_stake`` items count (with a base: those whose answers differ) of ``n_items``;
    ``n_known`` have labels that earlier decisions saw, ``n_fresh`` labels are new, ``n_vault`` may
    be tested again. ``needed`` says how many more fresh labels, drawn at random from ``ask``,
    decide with probability 0.8: ``fail`` where the accuracy is ``detect`` below what is asked for,
    ``pass`` where it is ``detect`` above or equal to that of the base.

    Examples
    --------
    >>> from noracle import Evidence
    >>> right = {"item": list(range(50)), "system": ["agent"] * 50, "verdict": ["right"] * 40 + ["wrong"] * 10}
    >>> design = GateRun(Evidence.from_tables(grades=right)).design(GateClaim(system="agent", at_least=0.8))
    >>> design.n_fresh, sorted(design.needed)
    (50, ['fail', 'pass'])
    """

    test: GateTest
    t: int
    error: float
    level: float
    n_items: int
    n_at_stake: int
    n_known: int
    n_fresh: int
    n_vault: int
    needed: Mapping[str, int]
    ask: tuple[str, ...] = dataclasses.field(repr=False, default=())


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class GateDecision:
    """One outcome of a gate, and what it rests on; no value and no interval, which would leak.

    ``recorded`` says that the same answers, labels and claim were decided before, and that nothing
    was spent. ``needed`` is that of :class:`GateDesign` for the next decision, where this one is
    undecided.

    Examples
    --------
    >>> from noracle import Evidence
    >>> right = {"item": list(range(200)), "system": ["agent"] * 200, "verdict": ["right"] * 190 + ["wrong"] * 10}
    >>> decision = decide_gate(Evidence.from_tables(grades=right), at_least=0.8)
    >>> decision.outcome, decision.n_labels, decision.to_dict()["schema"]
    ('pass', 200, 'gate/1')
    """

    schema: ClassVar[str] = "gate/1"

    outcome: Outcome
    claim: str
    system: str
    base: str | None
    t: int
    error: float
    level: float
    test: GateTest
    n_labels: int
    n_at_stake: int
    n_items: int
    needed: Mapping[str, int]
    recorded: bool
    spent: float
    guarantee: Guarantee
    notes: tuple[str, ...] = ()
    reason: str = ""
    version: str = __version__

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values with ``"schema"`` first."""
        return {"schema": self.schema, **encode(self)}

    def __str__(self) -> str:
        from noracle.gate.summary import card

        return card(self)


class GateFacts:
    """Answers and what is known of their truth, by system and item; ``finite`` says that the items
    are all there are.
    """

    def __init__(self, evidence: Evidence, systems: Sequence[str] | None) -> None:
        if evidence.judgements is None and evidence.grades is None:
            raise EvidenceError.of("evidence", "must have judgements or grades", "neither")
        evidence.check()
        self.alone = alone = evidence.answers is None
        answers = asked_of(evidence, systems) if alone else answers_of(evidence, systems)
        self.systems = chosen_systems(evidence, answers, systems)
        self.finite = not (alone and evidence.open_ended)
        self.graded = evidence.grades is not None
        self.answers: dict[str, dict[str, Any]] = {name: {} for name in self.systems}
        frame = answers.select("item", "system", "answer")
        native: Any = nw.to_native(frame)
        rows: Iterable[tuple[Any, ...]]
        if frame.implementation.is_duckdb():  # a quarter of the time of rows
            rows = zip(*(column.tolist() for column in native.fetchnumpy().values()), strict=True)
        else:
            rows = fetch(frame)
        for item, system, answer in rows:
            self.answers[system][str(item)] = answer
        listed = () if evidence.items is None or alone else evidence.rows("items", "item")
        self.items = {str(item) for (item,) in listed}.union(*self.answers.values())
        self.notes: list[str] = []
        self._read_labels(evidence)
        self.grades: dict[tuple[str, str], bool | None] = {}
        if self.graded:
            words, names = {YES: True, NO: False}, ("item", "system", "grade")
            for item, system, grade in fetch(grade_labels(evidence).select(*names)):
                self.grades[str(system), str(item)] = words.get(grade)
            self.notes += _judged(evidence)
        self._require_alike(evidence)
        self.items |= set() if alone else self.labelled  # a label tells of an item that is left out

    def _read_labels(self, evidence: Evidence) -> None:
        """The class of each item, or the classes that it has not, of how many.

        Where questions were asked about classes that are drawn at random, every answer is among
        those that are ruled out at one known rate at most, and the items with a yes are a random
        sample. Where they fall on answers more often, an item with a no is as much a part of the
        sample as one with a yes.
        """
        self.labels: dict[str, Any] = {}
        self.ruled_out: dict[str, tuple[set[Any], float]] = {}
        found = labels_of(evidence)
        if found.scored:
            self.notes.append("labels with recorded propensities are not used")
        if found.items is None or found.classes is None or found.scored:
            return
        kept = {
            str(i): k for i, k in fetch(found.items.filter(~nw.col("conflict")).select("item", "k"))
        }
        for name, label, yes, no in fetch(found.classes.select("item", "class", "yes", "no")):
            item = str(name)
            if item in kept and yes:
                self.labels[item] = label
            elif item in kept:
                out, _ = self.ruled_out.setdefault(item, (set(), float(kept[item] or math.inf)))
                out |= {label} if no else set()
        self.ruled_out = {i: x for i, x in self.ruled_out.items() if i not in self.labels}
        open_ = [(i, out, k) for i, (out, k) in self.ruled_out.items() if len(out) < k - 1]
        asked = [(i, out, len(out) / (k - 1)) for i, out, k in open_ if out]
        if asked and not self._aimed(asked):
            for item, *_ in open_:
                del self.ruled_out[item]
            self.notes.append("labels that only rule out, or are unsure, are not used")

    def _aimed(self, asked: Sequence[tuple[str, set[Any], float]]) -> bool:
        """Whether classes that were ruled out are answers of a system more often than at random."""
        rate, error = math.fsum(p for *_, p in asked) / len(asked), 0.01 / len(self.systems)
        return any(
            bdtrc(sum(own.get(i) in out for i, out, _ in asked) - 1, len(asked), rate) < error
            for own in self.answers.values()
        )

    def _require_alike(self, evidence: Evidence) -> None:
        """Items of one weight, and strata that were labelled at one rate."""
        for name in ("weight", "stratum"):
            if evidence.items is None or name not in evidence.items.columns:
                continue
            from noracle.accuracy.score import rates_p_value

            rows = {str(i): value for i, value in fetch(evidence.items.select("item", name))}
            parts: dict[Any, list[int]] = {}
            labelled = self.labelled
            for item, value in rows.items():
                size = parts.setdefault(value, [0, 0])
                size[0] += 1
                size[1] += item in labelled
            alike = len(parts) < 2 or name == "stratum"
            alike = alike and rates_p_value([(n, k) for n, k in parts.values()]) >= 1e-3
            rule = {"weight": "must be the same for all items of a gate"}.get(
                name, "must be labelled at one rate for a gate"
            )
            remedy = "Leave the column out, or gate each part on its own."
            if not alike:
                raise EvidenceError.of(f"items.{name}", rule, f"{len(parts)} parts", remedy=remedy)

    @property
    def labelled(self) -> set[str]:
        """All items that somebody was asked about."""
        return {*self.labels, *self.ruled_out, *(item for _, item in self.grades)}

    def asked(self, item: str, systems: Iterable[str]) -> bool:
        """Whether somebody was asked about these answers, whatever came of it."""
        there = item in self.labels or item in self.ruled_out
        return there or any(self.grades.get((s, item), 0) is None for s in systems)

    def right(self, system: str, item: str) -> bool | None:
        """Whether an answer is right; None where nobody knows. No answer is wrong."""
        if self.grades.get((system, item)) is not None:
            return self.grades[system, item]
        answer = self.answers[system][item]
        if answer is None:
            return False
        if item in self.labels:
            return bool(answer == self.labels[item])
        out, k = self.ruled_out.get(item, ((), math.inf))
        return False if answer in out else True if len(out) >= k - 1 else None


def _judged(evidence: Evidence) -> list[str]:
    """Which graders look like judges: a gate takes every grade for the truth."""
    if evidence.grades is None or "rater" not in evidence.grades.columns:
        return []
    from noracle.accuracy.judge import judges_in

    told = "graded everything as a judge does: these grades are taken as right"
    return [f"{name} {told}" for name in judges_in(evidence)]


@dataclasses.dataclass(slots=True)
class _Verdicts:
    """Verdicts +1, 0, -1 of sampled items, and how many of them are missing, out of ``size``."""

    values: list[int]
    missing: int
    size: int | None
    paired: bool

    def limits(self, level: float) -> tuple[float, float]:
        """Limits of the mean, each at half of the level; a missing verdict counts against both."""
        n, tail = len(self.values) + self.missing, level / 2
        if not n or tail <= 0:
            return (-1.0, 1.0) if self.paired else (0.0, 1.0)
        wins, losses, more = self.values.count(1), self.values.count(-1), self.missing
        if self.paired:
            low = finite_difference(wins, losses + more, n, self.size, tail, 0.0).low
            return low, finite_difference(wins + more, losses, n, self.size, 0.0, tail).high
        if self.size is None:
            low = clopper_pearson(wins, n, tail, 0.0)[0]
            return low, clopper_pearson(wins + more, n, 0.0, tail)[1]
        low = hypergeometric_limits(wins, n, self.size, tail, 0.0)[0]
        return low, hypergeometric_limits(wins + more, n, self.size, 0.0, tail)[1]


class GateRun:
    """One run of a gate: facts, and the ledger that is open; without one a single decision at the
    whole error rate.

    Labels are new for all claims that are decided together, since none of them was made after an
    outcome on these labels.

    Examples
    --------
    >>> from noracle import Evidence
    >>> right = {"item": list(range(200)), "system": ["agent"] * 200, "verdict": ["right"] * 190 + ["wrong"] * 10}
    >>> run = GateRun(Evidence.from_tables(grades=right))
    >>> [d.outcome for d in run.decide(GateClaim(system="agent", at_least=0.8), GateClaim(system="agent", at_least=0.99))]
    ['pass', 'fail']
    """

    def __init__(
        self,
        evidence: Evidence,
        *,
        systems: Sequence[str] | None = None,
        ledger: GateLedger | None = None,
        confidence: float = 0.95,
        detect: float = 0.05,
        commit: str = "",
    ) -> None:
        require(0 < detect < 1, f"detect must be in (0, 1); got {detect}. For 5 points pass 0.05.")
        self.facts = GateFacts(evidence, systems)
        self.ledger, self.detect, self.commit = ledger, detect, commit
        settings = GateSettings(confidence=confidence) if ledger is None else ledger.settings
        self.confidence = settings.confidence
        self._labelled = sorted(self.facts.labelled)
        self._marks: dict[str, str] = {}
        self._seen: dict[str, str] | None = None
        self._first: str | None = None
        self._orders: dict[str, tuple[list[str], str]] = {}
        self._columns: dict[str, list[Any]] = {}
        self._codes: dict[Any, int] = defaultdict(itertools.count().__next__)
        self._coded: dict[str, np.ndarray[Any, Any]] = {}
        self._places: tuple[list[str], dict[str, int]] | None = None
        self._labels = ""

    def mark(self, item: str) -> str:
        """The hash of an item in the ledger; the item where there is none."""
        if item not in self._marks:
            self._marks[item] = item if self.ledger is None else self.ledger.mark(item)
        return self._marks[item]

    def seen(self) -> dict[str, str]:
        """The items (hashes) with labels that decisions before this run saw."""
        if self._seen is None:
            self._seen = {} if self.ledger is None else self.ledger.seen()
        return self._seen

    def ordered(self, system: str) -> tuple[list[str], str]:
        """The items of a system in order, and their hash."""
        if system not in self._orders:
            own = self.facts.answers[system]
            known = next(((x, h) for x, h in self._orders.values() if len(x) == len(own)), None)
            if known is None or not all(item in own for item in known[0]):
                items = sorted(own)
                known = items, digest(items)
            self._orders[system] = known
        return self._orders[system]

    def answers_hash(self, system: str) -> str:
        """The fingerprint of a system's answers."""
        return digest([self.ordered(system)[1], self.column(system)])

    def column(self, system: str) -> list[Any]:
        """The answers of a system in the order of its items."""
        if system not in self._columns:
            self._columns[system] = [self.facts.answers[system][i] for i in self.ordered(system)[0]]
        return self._columns[system]

    def places(self, items: list[str]) -> dict[str, int]:
        """Where each item stands in this list."""
        if self._places is None or self._places[0] is not items:
            self._places = items, dict(zip(items, itertools.count()))
        return self._places[1]

    def codes(self, system: str) -> np.ndarray[Any, Any]:
        """The answers of a system as numbers."""
        if system not in self._coded:
            numbers = map(self._codes.__getitem__, self.column(system))
            self._coded[system] = np.fromiter(numbers, dtype=np.int32)
        return self._coded[system]

    def error(self, *, reused: bool = False) -> tuple[int, float, float]:
        """Number, error rate and level of the next decision."""
        if self.ledger is None:
            return 1, 1 - self.confidence, 1 - self.confidence
        return self.ledger.next_error(reused=reused)

    def in_order(self, items: Iterable[str], t: int = 0) -> list[str]:
        """Items in an order that nobody without the key can foresee; by name without a ledger."""
        if self.ledger is None:
            return sorted(items)
        t, sign = t or self.error()[0], self.ledger.sign
        return sorted(items, key=lambda item: sign(f"ask {t} {item}"))

    def reveal(self) -> dict[str, tuple[float, float]]:
        """Limits of what was tested, for the decisions (by hash) whose answers are still there; a
        line of the ledger says that they were shown.
        """
        found: dict[str, tuple[float, float]] = {}
        if self.ledger is None:
            return found
        for line in self.ledger.decisions:
            claim = line.get("system"), line.get("base")
            there = all(name in self.facts.answers for name in claim if name is not None)
            names = [name for name in claim if name is not None]
            if there and line.get("answers") == [self.answers_hash(name) for name in names]:
                stand = _Stand(self, _claim_of(line))
                found[line["hash"]] = stand.limits(line["level"] or 1 - self.confidence)
        self.ledger.append({"kind": "reveal", "shown": sorted(found)})
        return found

    def design(self, claim: GateClaim) -> GateDesign:
        """What the next decision would rest on, and the items to ask about, in random order."""
        return _Stand(self, claim).design()

    def decide(self, *claims: GateClaim) -> list[GateDecision]:
        """Decide claims that were made before any of their outcomes, and write them into the ledger;
        or return what was decided on the same before. A later call finds no label new.
        """
        found = [self._decide(claim) for claim in claims]
        self._seen = self._first = None
        return found

    def _decide(self, claim: GateClaim) -> GateDecision:
        stand = _Stand(self, claim)
        about = stand.fingerprints()
        line = None if self.ledger is None else self.ledger.recorded(about["fingerprint"])
        recorded = line is not None
        if line is None:
            t, error, level = stand.spends()
            line = {"t": t, "error": error, "level": level, "test": stand.test, **about}
            line |= {"outcome": stand.outcome(level), "of": stand.n_items, "n": stand.n_labels}
            line |= {"kind": "decision", "commit": self.commit, "at_stake": len(stand.stake)}
            if self.ledger is not None:
                line |= self._novelty(stand)
                line = self.ledger.append(line)
                self._first = self._first or (line["hash"] if "fresh" in line else None)
        return self._told(stand, line, recorded=recorded)

    def _novelty(self, stand: _Stand) -> dict[str, Any]:
        """The labels that no decision before this run saw, once; and what became of the others."""
        ledger, labels, facts = self.ledger, self.facts.labels, self.facts
        if ledger is None:
            return {}
        burnt = stand.test in ("fresh", "known")  # else the outcome does not depend on new labels
        found: dict[str, Any] = {"corrected": 0}
        if burnt and self._first is not None:
            found["with"] = self._first
        else:
            value = {i: repr(labels[i]) if i in labels else "" for i in self._labelled}
            here, seen = dict(ledger.split(i, value[i]) for i in self._labelled), self.seen()
            fresh = [k + v for k, v in here.items() if burnt and k not in seen]
            found |= {"fresh": fresh, "scope": stand.scope if fresh else ""}
            found["corrected"] = sum(
                bool(v and here.get(k)) and here[k] != v for k, v in seen.items()
            )
            found["gone"] = sum(k not in here for k in seen)
        if facts.grades:  # a grade stays with the answer, whatever becomes of the system
            of = {s: s if facts.alone else "" for s in stand.names}
            pairs = [(s, i) for s in stand.names for i in self._labelled if (s, i) in facts.grades]
            told = dict(
                ledger.split(
                    canonical([of[s], i, facts.answers[s].get(i)]), repr(facts.grades[s, i])
                )
                for s, i in pairs
            )
            before = ledger.marks("grades")
            found["grades"] = [k + v for k, v in told.items() if burnt and k not in before]
            found["corrected"] += sum(before.get(k, v) != v for k, v in told.items())
        return {name: value for name, value in found.items() if value}

    def _told(self, stand: _Stand, line: Mapping[str, Any], *, recorded: bool) -> GateDecision:
        ledger, claim = self.ledger, stand.claim
        rests = [_SAMPLED, _VERDICTS] if line["test"] not in ("known", "unchanged") else [_VERDICTS]
        rests += [_KEPT] if line["test"] == "reused" else []
        rests += [_APART] if ledger is not None and ledger.parallel > 1 else []
        spent = line["error"] if ledger is None else ledger.spent
        allowed = 1 - self.confidence
        notes = [*self.facts.notes]
        if stand.unsure and line["test"] == "fresh":
            notes.append("some new labels leave these answers open: they count against both")
        for old in reversed(ledger.decisions if ledger is not None else ()):
            if old["t"] < line["t"] and (self.facts.finite or old.get("system") == claim.system):
                other = old.get("items") != line.get("items")
                notes += [f"the items are others than at decision {old['t']}"] * other
                break
        if spent > allowed * (1 + 1e-9):
            over = (
                f"decisions of branches that were merged spent {spent:.3g}, more than {allowed:.3g}"
            )
            notes.append(f"{over}: the promise is that much weaker")
        for name, words in (("corrected", "were changed"), ("gone", "are gone")):
            if line.get(name):
                notes.append(f"{line[name]} labels that decided before {words}")
        notes += ["decided before on the same answers, labels and claim"] * recorded
        open_, reason = line["outcome"] == "undecided", "no label can decide this yet"
        if stand.odd:
            told = f"new labels fall on items that {stand.odd} answers in another way more than on others"
            reason = f"{told}; for this claim label items drawn from all"
        return GateDecision(
            outcome=line["outcome"],
            claim=claim.text,
            system=claim.system,
            base=claim.base,
            t=line["t"],
            error=line["error"],
            level=line["level"],
            test=line["test"],
            n_labels=line["n"],
            n_at_stake=line["at_stake"],
            n_items=line["of"],
            needed=stand.needed() if open_ else {},
            recorded=recorded,
            spent=spent,
            guarantee=Guarantee(
                kind=Kind.FINITE_SAMPLE,
                error_rate=max(allowed, spent),
                anytime=ledger is not None,
                assumptions=tuple(rests),
            ),
            notes=tuple(notes),
            reason=reason if open_ and line["test"] == "none" else "",
        )


class _Stand:
    """How one claim stands in a run: its items, and which of them are known, new or in the vault."""

    def __init__(self, run: GateRun, claim: GateClaim) -> None:
        facts = run.facts
        for name in (claim.system, *([claim.base] if claim.base else [])):
            require(
                name in facts.answers, f"system must be one of {list(facts.systems)}; got {name!r}."
            )
        self.run, self.claim, self.paired = run, claim, claim.base is not None
        own = facts.answers[claim.system]
        self.n_items = len(own)
        self.names = [name for name in (claim.system, claim.base) if name is not None]
        if facts.finite:
            self._require_all(self.names)
        if claim.base is None:
            self.stake = {i for i, answer in own.items() if answer is not None}
            self.bar = Fraction(str(claim.at_least)) * self.n_items
        else:
            other = facts.answers[claim.base]
            if not facts.finite:  # grades alone: the items that have both
                own = {i: answer for i, answer in own.items() if i in other}
                self.n_items = len(own)
            self.stake = {i for i in own if own[i] != other[i] or own[i] == "graded"}
            self.bar = -Fraction(str(claim.margin)) * self.n_items
        self._sort()
        self.odd = self._uneven()
        self.test = self._test()

    def _require_all(self, names: Sequence[str]) -> None:
        """Nobody leaves out what is hard: systems of a gate are about the same items."""
        facts = self.run.facts
        for name in names:
            own = facts.answers[name]
            left = facts.items - own.keys() if len(own) < len(facts.items) else ()
            if left:
                rule = (
                    f"of {name} must be about the same items as those of others, items and labels"
                )
                came = f"none to {len(left)} of {len(facts.items)}"
                remedy = "Add rows with an empty answer: it counts as wrong."
                where = sorted(left)[:5]
                raise EvidenceError.of(
                    "answers", rule, came, where=where, total=len(left), remedy=remedy
                )

    def _uneven(self) -> str:
        """The system whose other answers drew the new labels to them, as ``plan`` does for a claim
        against it; then they are no random sample of all items.
        """
        run, facts = self.run, self.run.facts
        if self.paired or not facts.finite or not self.n_fresh:
            return ""
        name, items = self.claim.system, run.ordered(self.claim.system)[0]
        others = [s for s in facts.systems if s != name and run.ordered(s)[0] is items]
        mine, place = run.codes(name), run.places(items)
        open_ = mine != run._codes[None]
        open_[[place[i] for i in self.old]] = False
        new, n_open = np.array([place[i] for i in self.new]), int(np.count_nonzero(open_))
        for one in others:
            other = (mine != run.codes(one)) & open_
            n, inside = int(np.count_nonzero(other)), int(np.count_nonzero(other[new]))
            if inside and bdtrc(inside - 1, len(new), n / n_open) * len(others) < 1e-3:
                return one
        return ""

    def _value(self, item: str) -> int | None:
        """What an item adds to the sum that the claim is about; None where nobody knows."""
        facts, claim = self.run.facts, self.claim
        right = facts.right(claim.system, item)
        if claim.base is None or right is None:
            return None if right is None else int(right)
        before = facts.right(claim.base, item)
        return None if before is None else int(right) - int(before)

    def _sort(self) -> None:
        """Known, new and vault items of those at stake."""
        run, stake = self.run, self.stake
        seen, finite = run.seen(), run.facts.finite
        _, items = run.ordered(self.claim.system)
        kept = set() if run.ledger is None else run.ledger.vault(items)
        known, fresh, vault = [], [], []
        new: list[str] = []
        old: list[str] = []
        blind = missing = unsure = 0
        told: set[str] = set()
        for item in run._labelled:
            if item not in stake:
                told.add(run.mark(item)) if seen else None
                continue
            value = self._value(item)
            mark = run.mark(item) if seen else ""
            told.add(mark)
            if mark not in seen:
                fresh += [] if value is None else [value]
                unsure += value is None and run.facts.asked(item, self.names)
                new += [item] if value is not None or run.facts.asked(item, self.names) else []
                continue
            old.append(item)
            known += [] if value is None else [value]
            blind += value is None
            if mark in kept:
                vault += [] if value is None else [value]
                missing += value is None
        if seen.keys() - told:  # labels that are gone: of which items?
            for item in stake.difference(run._labelled):
                mark = run.mark(item)
                blind += mark in seen
                missing += mark in kept
        if finite and len(known) + len(fresh) == len(stake):  # nothing is left to chance
            known, fresh, old, new = known + fresh, [], old + new, []
        self.known, self.blind, self.new, self.old = sum(known), blind, new, old
        self.n_known, self.n_vault = len(old), len(vault) + missing
        self.n_fresh, self.unsure = len(fresh) + unsure, unsure
        self.n_open = len(stake) - len(known) - blind
        if not finite:  # what is known of these items says nothing of others
            self.known = self.blind = self.n_known = 0
            self.n_open = self.n_items
        size = self.n_open if finite else None
        self.fresh = _Verdicts(fresh, unsure, size, self.paired)
        self.vault = _Verdicts(vault, missing, len(stake) if finite else None, self.paired)

    def _test(self) -> GateTest:
        """Which test decides; numbers of items and labels only."""
        finite, stake = self.run.facts.finite, len(self.stake)
        if self.paired and finite and -stake >= self.bar:
            return "unchanged"
        if finite and not self.n_open and not self.blind:
            return "known"
        spread: dict[GateTest, float] = {}
        if self.n_fresh and not self.odd:
            part = self.n_open / stake if finite else 1.0
            spread["fresh"] = part**2 * self._spread(self.n_fresh, self.fresh.size, reused=False)
        if self.n_vault:
            spread["reused"] = self._spread(self.n_vault, self.vault.size, reused=True)
        if not spread or min(spread.values()) == math.inf:
            return "none"
        return min(spread, key=lambda name: spread[name])

    def _spread(self, n: int, size: int | None, *, reused: bool) -> float:
        """The variance of a mean that tests at its level, but for a factor."""
        level = self.run.error(reused=reused)[2]
        drawn = 0.0 if size is None else n / size
        return math.inf if level <= 0 else (1 - drawn) / n * math.log(4 / level)

    @property
    def n_labels(self) -> int:
        """The labels that the test uses."""
        sizes = {"fresh": self.n_known + self.n_fresh, "reused": self.n_vault}
        return sizes.get(self.test, self.n_known if self.test == "known" else 0)

    @property
    def scope(self) -> str:
        """Whether new labels are a random sample of all items, so that they may test again."""
        run, seen = self.run, self.run.seen()
        if run.ledger is None or any(x.get("scope") == "changed" for x in run.ledger.decisions):
            return "changed"
        if not self.paired:
            return "all"
        from noracle.accuracy.score import rates_p_value

        new = [item for item in run._labelled if run.mark(item) not in seen]
        inside = sum(item in self.stake for item in new)
        sizes = [(self.n_open, inside), (self.n_items - len(self.stake), len(new) - inside)]
        alike = len(new) > inside and rates_p_value(sizes) >= 1e-3
        return "all" if alike or len(self.stake) == self.n_items else "changed"

    def spends(self) -> tuple[int, float, float]:
        """Number, error rate and level of this decision."""
        t, error, level = self.run.error(reused=self.test == "reused")
        return (t, error, level) if self.test in ("fresh", "reused") else (t, 0.0, 0.0)

    def limits(self, level: float) -> tuple[float, float]:
        """Limits of the accuracy, or of the difference."""
        bottom, top = self._sums(level)
        return float(bottom / self.n_items), float(top / self.n_items)

    def outcome(self, level: float) -> Outcome:
        """Pass, fail or undecided."""
        bottom, top = self._sums(level)
        return "pass" if bottom >= self.bar else "fail" if top < self.bar else "undecided"

    def _sums(self, level: float) -> tuple[Fraction, Fraction]:
        """Limits of the sum that the claim is about."""
        least = -1 if self.paired else 0
        if self.test == "reused":
            scale, added, worst, best = self._scale(self.vault), 0, 0, 0
            low, high = self.vault.limits(level)
        else:
            scale, added = self._scale(self.fresh), self.known
            worst, best = least * self.blind, self.blind
            low, high = self.fresh.limits(level)
        whole = isinstance(scale, int) and self.run.facts.finite
        ends = [Fraction(round(x * scale) if whole else x * scale) for x in (low, high)]
        return ends[0] + added + worst, ends[1] + added + best

    def _scale(self, sample: _Verdicts) -> int:
        """The items that a mean speaks of."""
        return self.n_items if sample.size is None else sample.size

    def needed(self, *, beside: bool = False) -> dict[str, int]:
        """How many more new labels decide with probability 0.8, at the next decision: when those
        that are new now have decided, or ``beside`` them.
        """
        claim, detect = self.claim, self.run.detect
        tail, finite = self.run.error()[2] / 2, self.run.facts.finite
        room = self.n_open - self.n_fresh if finite else math.inf
        if tail <= 0 or room <= 0:
            return {}
        share = self.n_items / self.n_open  # an error of all items in terms of those not known
        if claim.at_least is not None:
            x = claim.at_least
            truths = {"pass": min(x + detect, 1.0), "fail": max(x - detect, 0.0)}
            cases = {name: (p, abs(p - x) * share) for name, p in truths.items()}
        else:  # at worst every answer that differs is right in one version and wrong in the other
            lost = detect * self.n_items / max(1, len(self.stake))
            drop = (detect - claim.margin) * share
            cases = {"pass": (0.5, claim.margin * share), "fail": ((1 - lost) / 2, drop)}
        found = {}
        for name, (p, gap) in cases.items():
            if p < 0:  # so few answers cannot lose so much
                continue
            n: float = self._least(p, gap, tail, passes=name == "pass")
            n = min(n / (1 + n / self.n_open), room) if finite else n
            found[name] = max(1, math.ceil(n) - self.n_fresh * beside)
        return found

    def _least(self, p: float, gap: float, tail: float, *, passes: bool) -> int:
        """The fewest draws whose limits are ``gap`` from the truth ``p`` (of being right, or of
        being won) in four of five samples.
        """

        def decides(n: int) -> bool:
            worse = -1 if passes else 1
            k = n * p + worse * _POWER * math.sqrt(n * p * (1 - p))
            k = min(max(math.floor(k) if passes else math.ceil(k), 0), n)
            tails = [tail / 2 if self.paired else tail] * 2
            low, high = clopper_pearson(k, n, *tails)
            if not self.paired:
                return p - low <= gap if passes else high - p <= gap
            lost, most = clopper_pearson(n - k, n, *tails)
            truth = 2 * p - 1
            return truth - (low - most) <= gap if passes else (high - lost) - truth <= gap

        n, most = 1, 10 * self.n_items
        while n < most and not decides(n):
            n *= 2
        few = n // 2
        while n - few > 1 and n < most:
            middle = (few + n) // 2
            few, n = (few, middle) if decides(middle) else (middle, n)
        return min(n, most)

    def design(self) -> GateDesign:
        """All that the decision rests on but verdicts."""
        run = self.run
        t, error, level = self.spends()
        labelled = run.facts.labelled
        ask = [item for item in self.stake if item not in labelled] if run.facts.finite else []
        return GateDesign(
            test=self.test,
            t=t,
            error=error,
            level=level,
            n_items=self.n_items,
            n_at_stake=len(self.stake),
            n_known=self.n_known,
            n_fresh=self.n_fresh,
            n_vault=self.n_vault,
            needed={} if self.test in ("known", "unchanged") else self.needed(beside=True),
            ask=tuple(run.in_order(ask, t)),
        )

    def fingerprints(self) -> dict[str, Any]:
        """The claim with the hashes of items, answers and labels."""
        run, claim, facts = self.run, self.claim, self.run.facts
        found: dict[str, Any] = {"claim": claim.text, "system": claim.system, "base": claim.base}
        if run.ledger is None:
            return {**found, "fingerprint": ""}
        names = self.names
        found["items"] = run.ordered(claim.system)[1]
        found["answers"] = [run.answers_hash(name) for name in names]
        if not run._labels:
            out = {i: sorted(map(repr, x)) for i, (x, _) in facts.ruled_out.items()}
            run._labels = run.ledger.sign(canonical([facts.labels, out] if out else facts.labels))
        found["labels"] = run._labels
        if facts.graded:
            graded = {i: [facts.grades.get((s, i)) for s in names] for i in run._labelled}
            found["labels"] = run.ledger.sign(canonical([run._labels, graded]))
        return {**found, "fingerprint": run.ledger.sign(canonical(found))}


def _claim_of(line: Mapping[str, Any]) -> GateClaim:
    """The claim of a line of the ledger, out of its text."""
    number = float(line["claim"].rsplit(" ", 1)[1])
    bar = {"at_least": number} if line.get("base") is None else {"margin": number}
    return GateClaim(system=line["system"], base=line.get("base"), **bar)


def decide_gate(
    evidence: Evidence,
    *,
    system: str | None = None,
    at_least: float | None = None,
    no_worse_than: str | None = None,
    margin: float = 0.01,
    ledger: str | PathLike[str] | GateLedger | None = None,
    confidence: float = 0.95,
    detect: float = 0.05,
    commit: str = "",
) -> GateDecision:
    """Decide whether a system is good enough: pass, fail or undecided, with one error rate for all time.

    H: A < x (``at_least``), or A < A_base - margin (``no_worse_than``). Decision t of a ledger
    spends ε_t = 6ε/(π²t²), ε = 1 - ``confidence``: half for a pass (H is rejected), half for a fail
    (its opposite is).

    Parameters
    ----------
    evidence
        Answers, and ordinary labels or grades of them. Other labels are not used.
    system
        Which system; may be left out where there is one beside the base.
    at_least, no_worse_than, margin
        The claim: an accuracy, or a system that may be better by ``margin`` at most. With a base only
        items whose answers differ need labels.
    ledger
        A file, or a ledger that is open. None: one decision alone, at the whole error rate.
    confidence
        All decisions of the ledger together are right with this probability.
    detect
        The distance from what is asked for that labels are planned for; it decides nothing.
    commit
        What the ledger writes beside the outcome.

    Returns
    -------
    GateDecision
        Outcome, what was spent, and how many more labels would decide. No value and no interval:
        they would tell more of the labels than the ledger counts.

    Notes
    -----
    Labels that no decision of the ledger saw are a random sample of the items that had none, drawn
    after the systems were made: exact (hypergeometric) limits of these items at ε_t, added to what
    is known of the others. Old labels alone test again at ε_t divided by the number of possible
    histories of outcomes (:func:`noracle.bounds.histories.history_share`), if they are a random
    sample of all items. Which test it is depends on numbers of labels only. An item without an
    answer counts as wrong. Assumes right verdicts, and new labels on items drawn at random; for old
    labels, that nothing but outcomes left them.

    References
    ----------
    Blum and Hardt (2015), ICML; Dwork et al. (2015), Science 349, 636-638; Buonaccorsi (1987), Am.
    Statistician 41, 215-218 (exact limits of finite populations).

    Examples
    --------
    >>> from noracle import Evidence
    >>> right = {"item": list(range(60)), "system": ["agent"] * 60, "verdict": ["right"] * 45 + ["wrong"] * 15}
    >>> decision = decide_gate(Evidence.from_tables(grades=right), at_least=0.8)
    >>> decision.outcome, sorted(decision.needed)
    ('undecided', ['fail', 'pass'])
    """
    if ledger is not None and not isinstance(ledger, GateLedger):
        given = {**locals()}
        asked = None if confidence == 0.95 else GateSettings(confidence=confidence)
        with GateLedger(ledger, asked) as opened:
            return decide_gate(**{**given, "ledger": opened})
    GateClaim(system=system or "", at_least=at_least, base=no_worse_than, margin=margin)
    run = GateRun(evidence, ledger=ledger, confidence=confidence, detect=detect, commit=commit)
    names = [name for name in run.facts.systems if name != no_worse_than]
    require(
        system is not None or len(names) == 1, f"system must be one of {names}; got none of them."
    )
    claim = GateClaim(
        system=system or names[0], at_least=at_least, base=no_worse_than, margin=margin
    )
    return run.decide(claim)[0]
