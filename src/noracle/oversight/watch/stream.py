"""Labels of a stream as scores, and the limits that hold at every look.

Each item is counted once, with the judgements that came first. Its score x is unbiased for whether
the answer is right: 1{answer = y} for a known class; 1 - (K-1)/m·1{answer among the m classes ruled
out}; with recorded propensities p 1{asked the answer, yes}/p from below and 1 - 1{asked the answer,
no}/p from above, of the first question. No answer scores 0. The limits are those of betting
(:mod:`noracle.bounds.betting`): they hold at all looks together, at the error rate, for items that
come in random order.

Where items have different numbers of classes, the share of yes depends on the number, so that a
kind of label is no random sample of the items. All scores are then bet on with the range of the
largest number of classes, which does not depend on the item.
"""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from noracle.accuracy.estimate import VACUOUS, estimate_accuracy
from noracle.accuracy.score import sided_rows
from noracle.bounds import binomial as linear
from noracle.bounds.betting import betting_interval
from noracle.counts.sketch import Sketch
from noracle.counts.tally import AccuracyCounts, Cell, Label, Tally
from noracle.errors import EvidenceError, fault
from noracle.evidence.tables import VERDICTS
from noracle.oversight.model import Settings
from noracle.oversight.watch.memory import Memory, plain
from noracle.results import Assumption, Estimate, Guarantee, Kind

RANDOM_ORDER = Assumption(
    name="random order",
    detail="which items are judged first, and which answers come late, has nothing to do with whether they are right",
)

DEPENDENT = Assumption(
    name="iid items",
    status="failed",
    detail="items come in clusters, whose items depend on each other, and are counted one by one",
)


def tally_of(
    system: str,
    answer: str | None,
    rows: Sequence[Sequence[Any]],
    *,
    n_classes: int,
    recorded: bool,
    drop: bool,
    item: str,
) -> Tally | None:
    """How an answer meets the first judgements of its item (class, verdict, propensity); None where
    they contradict each other.

    Examples
    --------
    >>> tally_of("a", "2", [["2", "no", None], ["0", "no", None]], n_classes=5, recorded=False, drop=False, item="7").n_ruled_out
    2
    """
    label = Label.of(
        [(str(c), verdict, p) for c, verdict, p in rows], n_classes=n_classes, recorded=recorded
    )
    if label is None and not drop:
        came, remedy = (
            "different verdicts",
            "Correct the labels, or set conflicts = 'drop' in noracle.toml.",
        )
        raise EvidenceError(
            fault(
                "judgements",
                "must not contradict each other",
                came,
                where=[item],
                total=1,
                remedy=remedy,
            )
        )
    return None if label is None else label.meet(answer, system=system)


def counts_of(tallies: Iterable[Tally]) -> AccuracyCounts:
    """Tallies of items as counts; the population are these items."""
    counted = Counter(tallies)
    items: Counter[Cell] = Counter()
    answered: Counter[Cell] = Counter()
    for t, n in counted.items():
        items[Cell(t.system, t.n_classes)] += n
        answered[Cell(t.system, t.n_classes)] += n * t.answered
    return AccuracyCounts(tallies=dict(counted), items=dict(items), answered=dict(answered))


def sequence_limits(
    tallies: Mapping[Tally, int], *, error: float, most_classes: int | None = None
) -> linear.Limits:
    """Limits for the accuracy that hold at every look; ``most_classes`` where items have different
    numbers of classes.

    Examples
    --------
    >>> right, wrong = Tally("a", 4, "yes", True), Tally("a", 4, "yes", False)
    >>> limits = sequence_limits({right: 80, wrong: 20}, error=0.05)
    >>> round(limits.low, 2), round(limits.high, 2)
    (0.65, 0.91)
    """
    lower, upper = sided_rows(tallies, n_classes=most_classes)
    low, _ = betting_interval(lower, error / 2, 0.0)
    _, high = betting_interval(upper, 0.0, error / 2)
    return linear.ordered(low, high)


_SHARED = 0.1
"""What the share of items with an answer has of the error rate, beside grades."""


def sequence_estimate(
    counts: AccuracyCounts,
    *,
    error: float,
    most_classes: int | None = None,
    clustered: bool = False,
    asked: tuple[int, int] | None = None,
) -> Estimate:
    """The accuracy of one system now, with limits that hold at every look; where items come in
    clusters nothing is promised.

    ``asked`` are the items so far and those of them with an answer, where answers are graded: an
    answer that is missing has no grade. The limits are then those among answered items, times
    limits of the share that has an answer.
    """
    if asked is not None:
        counts = dataclasses.replace(
            counts,
            tallies={t: n for t, n in counts.tallies.items() if t.answered},
            items=counts.answered,
            answered=counts.answered,
        )
    limits = sequence_limits(
        counts.tallies, error=error * (1 - _SHARED) if asked else error, most_classes=most_classes
    )
    estimate = estimate_accuracy(counts, method="scores", interval="betting", confidence=1 - error)
    if asked is not None:
        share = linear.anytime([linear.Cell(*asked)], error * _SHARED)
        limits = linear.Limits(limits.low * share.low, limits.high * share.high, limits.empty)
        estimate = dataclasses.replace(estimate, value=estimate.value * asked[1] / asked[0])
    notes = [note for note in estimate.notes if note != VACUOUS]
    if asked is not None and asked[1] < asked[0]:
        notes.append(
            f"{asked[0] - asked[1]:,} of {asked[0]:,} items have no answer, which counts as wrong"
        )
    if limits.low <= 0 and limits.high >= 1:
        notes.append(VACUOUS)
    guarantee = dataclasses.replace(
        estimate.guarantee, assumptions=(*estimate.guarantee.assumptions, RANDOM_ORDER)
    )
    if clustered:
        guarantee = (
            guarantee
            & Guarantee(kind=Kind.HEURISTIC, error_rate=0.0, anytime=True, assumptions=(DEPENDENT,))
        ).given()
    return dataclasses.replace(
        estimate,
        low=limits.low,
        high=limits.high,
        notes=tuple(notes),
        method="scores, label by label",
        guarantee=guarantee,
    )


# ---------------------------------------------------------------------------- New rows into the
# memory of a watch: what is fixed at the first judgement, and which judgements of an item count.


CLUSTERED = (
    "heuristic: items of one cluster depend on each other, and a watch counts items one by one, whether or not the rest of their cluster "
    "has come; 'noracle estimate' takes whole clusters"
)
_BEGIN_AGAIN = "Write it so from the first judgement on, or begin a new watch."
LabelRows = tuple[str, list[list[Any]], Any]


class Feed:
    """Takes the new rows of one look into the memory."""

    def __init__(self, memory: Memory, settings: Settings, ratings_per_item: int | None) -> None:
        self.memory, self.settings, self.ratings_per_item = memory, settings, ratings_per_item
        self._judged: list[tuple[str, list[dict[str, Any]], bool]] = []
        self._graded: list[dict[str, Any]] = []
        self._answered: set[str] = set()
        self._classes: set[str] = set()
        self._given: set[str] = set()
        self._ratings: Counter[str] = Counter()
        self._strata = False

    def take(self, kind: str, name: str, rows: list[dict[str, Any]], *, closed: bool) -> None:
        """Take the new rows of one file; ``closed`` where it cannot grow."""
        if kind == "items":
            self._strata |= any(
                row.get("stratum") is not None or row.get("weight") not in (None, 1.0)
                for row in rows
            )
            if any(row.get("cluster") is not None for row in rows):
                self.memory.put("clustered", True)
            self.memory.add_items((row["item"], row.get("n_classes")) for row in rows)
        elif kind == "answers":
            self._name_systems(rows)
            self._answered |= self.memory.add_answers(
                (row["item"], str(row["system"]), row["answer"]) for row in rows
            )
            self._given |= {row["answer"] for row in rows if row["answer"] is not None}
        elif kind == "judgements":
            self._judged.append((name, rows, closed))
            self._classes |= {row["class"] for row in rows}
        elif kind == "grades":
            self._name_systems(rows)
            self._graded += rows
            if any(row.get("cluster") is not None for row in rows):
                self.memory.put("clustered", True)
        else:
            labelled = [
                (row["item"], str(row["rater"]), row["label"])
                for row in rows
                if row["label"] is not None
            ]
            self.memory.add_ratings(labelled)
            self._ratings.update(item for item, _, _ in labelled)

    def _name_systems(self, rows: Sequence[dict[str, Any]]) -> None:
        systems = self.memory.get("systems", [])
        new = sorted({str(row["system"]) for row in rows} - set(systems))
        self.memory.put("systems", [*systems, *new])

    def finish(self) -> list[str]:
        """Take the judgements, now that all answers of this look are there; returns what must be
        said.
        """
        notes = []
        if self._strata:
            notes.append(
                "strata and weights of items are not used by a watch: every item counts the same"
            )
        if self.memory.get("clustered", False):
            notes.append(CLUSTERED)
        plan = self.memory.get("plan")
        if self._ratings and "ratings_per_item" not in plan:
            usual = Counter(self._ratings.values())
            often = max(usual.values())
            m = self.ratings_per_item or min(n for n, times in usual.items() if times == often)
            self.memory.put("plan", {**plan, "ratings_per_item": m})
            self.memory.note(
                "fixed", f"an item is held against its annotators when it has {m} ratings"
            )
        if self._judged and "protocol" not in self.memory.get("plan"):
            self._fix_design()
        notes += self._set_aside()
        self._check_classes()
        if self._judged:
            notes += self._take_judgements()
        if self._graded:
            notes += self._take_grades()
        return notes

    # ------------------------------------------------------------------------------------------------
    # what is fixed beforehand

    def _fix_design(self) -> None:
        """The number of classes, the design and the protocol, from the first judgements."""
        s, plan = self.settings, self.memory.get("plan")
        own = sorted(
            k for (k,) in self.memory.query("SELECT DISTINCT k FROM item WHERE k IS NOT NULL")
        )
        inferred: list[str] = []
        declared = len(s.classes) if s.classes is not None else s.n_classes
        n_classes = None if own else declared
        if not own and n_classes is None:
            n_classes = self._inferred_classes(inferred)
        plan |= {
            "own_classes": bool(own),
            "n_classes": n_classes,
            "most_classes": max([*own, declared or 0]) or None,
            "mixed": len(own) > 1 or bool(own and declared and declared != own[0]),
            "inferred": inferred,
        }
        said = [
            row
            for _, rows, _ in self._judged
            for row in rows
            if VERDICTS.get(row["said"]) != "unsure"
        ]
        plan["recorded"] = any(self._is_recorded(row, plan) for row in said)
        several = max(Counter(row["item"] for row in said).values(), default=1) > 1
        plan["protocol"] = s.protocol or (
            "sets" if several and not plan["recorded"] else "question"
        )
        self.memory.put("plan", plan)
        told = "recorded propensities" if plan["recorded"] else "uniform questions"
        self.memory.note(
            "fixed", f"protocol {plan['protocol']}, {told}, {n_classes or 'own numbers of'} classes"
        )

    def _inferred_classes(self, inferred: list[str]) -> int:
        seen = sorted(
            self._classes
            | self._given
            | set(self.memory.get("classes", []))
            | set(self.memory.get("given", []))
        )
        whole = all(_is_whole(c) for c in seen)
        k = max(map(int, seen)) + 1 if whole and seen else len(seen)
        how = "the largest class seen plus one" if whole else "the number of different classes seen"
        if k < 2:
            raise EvidenceError(
                fault(
                    "n_classes",
                    f"must be given unless {how} is at least 2",
                    k,
                    remedy="Write n_classes into noracle.toml.",
                )
            )
        inferred.append(f"n_classes = {k} inferred: {how} at the first look")
        return k

    def _is_recorded(self, row: dict[str, Any], plan: dict[str, Any]) -> bool:
        p = row.get("propensity")
        k = self._n_classes(row["item"], plan)
        return p is not None and (k is None or abs(float(p) * k - 1) > 1e-9)

    def _n_classes(self, item: str, plan: dict[str, Any]) -> int | None:
        if not plan["own_classes"]:
            return int(plan["n_classes"])
        found = self.memory.query("SELECT k FROM item WHERE item = ?", item)
        return found[0][0] if found else None

    def _set_aside(self) -> list[str]:
        """Answers that are no class of their item become no answer, which counts as wrong; returns
        whose they were.

        Letters beside numbers are refused: what is read row by row cannot be told to mean the same.
        """
        said, given = (
            self._classes | set(self.memory.get("said", [])),
            self._given | set(self.memory.get("given", [])),
        )
        self.memory.put("said", sorted(said))
        plan, s = self.memory.get("plan"), self.settings
        k = plan.get("n_classes") or plan.get("most_classes")
        whole = all(_is_whole(c) for c in said)
        if said and given and whole != all(_is_whole(c) for c in given) and not said & given:
            came = f"{min(given)!r} in answers and {min(said)!r} in judgements"
            raise EvidenceError(
                fault(
                    "answer and class",
                    "must be written in one way",
                    came,
                    remedy="Write both as places, from 0.",
                )
            )
        if (
            s.invalid == "wrong"
            and not plan.get("inferred")
            and (s.classes is not None or (k is not None and whole))
        ):
            allowed = None if s.classes is None else [plain(c) for c in s.classes]
            most = "coalesce((SELECT k FROM item WHERE item.item = answer.item), ?)"
            broken = f"(CAST(answer AS INTEGER) < 0 OR CAST(answer AS INTEGER) >= {most})"
            values: list[Any] = [k]
            if allowed is not None:
                broken, values = f"answer NOT IN ({', '.join('?' * len(allowed))})", allowed
            where = f"answer IS NOT NULL AND met = 0 AND {broken}"
            rows = self.memory.query(
                f"SELECT system, answer, count(*) FROM answer WHERE {where} GROUP BY system, answer",  # noqa: S608
                *values,
            )
            self.memory.query(f"UPDATE answer SET answer = NULL WHERE {where}", *values)  # noqa: S608 (no name of a user is in it)
            bad = Counter(self.memory.get("invalid", {}))
            for system, answer, n in rows:
                bad[system] += n
                if allowed is not None or int(answer) >= (k or 0) or int(answer) < 0:
                    given.discard(answer)
            self.memory.put("invalid", dict(bad))
        self._classes |= self._given & given
        self.memory.put("given", sorted(given))
        bad = self.memory.get("invalid", {})
        some = ", ".join(f"{system} {n:,}" for system, n in sorted(bad.items())[:5])
        return [f"answers that are no class of their item count as wrong: {some}"] if bad else []

    def _check_classes(self) -> None:
        """Classes must be among those that were declared or fixed."""
        known = set(self.memory.get("classes", []))
        seen = known | self._classes
        if seen != known:
            self.memory.put("classes", sorted(seen))
        plan, s = self.memory.get("plan"), self.settings
        k = plan.get("n_classes") or plan.get("most_classes")
        if s.classes is not None:
            allowed = {plain(c) for c in s.classes}
            wrong = sorted(c for c in self._classes if c not in allowed)
        elif k is None:
            wrong = []
        elif all(c.isdecimal() for c in seen):
            wrong = sorted((c for c in self._classes if int(c) >= k), key=int)
        else:
            wrong = sorted(seen) if len(seen) > k else []
        if wrong:
            rule = f"must be among the {k if s.classes is None else len(s.classes)} classes"
            raise EvidenceError(
                fault(
                    "answer and class",
                    rule,
                    repr(wrong[0]),
                    remedy="Write classes or n_classes into noracle.toml.",
                )
            )
        own = sorted(
            k
            for (k,) in self.memory.query(
                "SELECT DISTINCT i.k FROM touched t JOIN item i ON i.item = t.item"
            )
        )
        if (
            plan.get("own_classes")
            and not plan["mixed"]
            and any(k != plan["most_classes"] for k in own)
        ):
            came = f"{plan['most_classes']} at first, now {own}"
            raise EvidenceError(
                fault(
                    "items.n_classes",
                    "must differ from the first look on, or not at all",
                    came,
                    remedy=_BEGIN_AGAIN,
                )
            )
        if plan.get("mixed") and own and own[-1] > plan["most_classes"]:
            rule = f"must be at most {plan['most_classes']}, the largest at the first look"
            raise EvidenceError(fault("items.n_classes", rule, own[-1], remedy=_BEGIN_AGAIN))

    # ------------------------------------------------------------------------------------------------
    # grades

    def _take_grades(self) -> list[str]:
        """The first grade of each answer counts, at once; unsure ones are left out, and the answer
        waits for another.
        """
        aimed = [row["item"] for row in self._graded if row.get("propensity") is not None]
        if aimed:
            rule = "must be left out while a folder is watched"
            remedy = "Write these grades as judgements of the class that was answered, or use 'noracle estimate --grades'."
            came = self._graded[0].get("propensity") or "probabilities"
            raise EvidenceError(
                fault(
                    "grades.propensity",
                    rule,
                    came,
                    where=aimed[:5],
                    total=len(aimed),
                    remedy=remedy,
                )
            )
        self.memory.put("graded", True)
        unsure = later = against = 0
        for row in _by_time(self._graded):
            verdict = VERDICTS[row["said"]]
            if verdict == "unsure":
                unsure += 1
                continue
            known = self.memory.add_grade(row["item"], str(row["system"]), verdict)
            later += known is not None
            against += known not in (None, verdict)
        told = {"unsure_grades": unsure, "later_grades": later, "grades_against": against}
        total = {name: self.memory.get(name, 0) + n for name, n in told.items()}
        for name, n in total.items():
            self.memory.put(name, n)
        words = {
            "unsure_grades": "unsure grades are left out, as missing at random",
            "later_grades": "further grades of answers that were counted are not used",
            "grades_against": "of them contradict the first one: some grades are wrong",
        }
        return [f"{n} {words[name]}" for name, n in total.items() if n]

    # ------------------------------------------------------------------------------------------------
    # judgements

    def _take_judgements(self) -> list[str]:
        plan = self.memory.get("plan")
        labels: list[LabelRows] = []
        unsure = 0
        for name, rows, closed in self._judged:
            said = []
            for row in rows:
                if VERDICTS[row["said"]] == "unsure":
                    unsure += 1
                    continue
                if (
                    not plan["recorded"]
                    and self._is_recorded(row, plan)
                    and self._n_classes(row["item"], plan) is not None
                ):
                    rule = "must be 1/K where the first judgements were uniform"
                    raise EvidenceError(
                        fault(
                            "judgements.propensity",
                            rule,
                            row["propensity"],
                            where=[row["item"]],
                            total=1,
                            remedy=_BEGIN_AGAIN,
                        )
                    )
                said.append(row)
            said = _by_time(said)
            labels += (
                self._groups(name, said, closed=closed)
                if plan["protocol"] == "sets"
                else [_label([row]) for row in said]
            )
        later = sum(not self.memory.add_label(item, rows) for item, rows, _ in _by_time(labels))
        total = {
            "unsure": self.memory.get("unsure", 0) + unsure,
            "later": self.memory.get("later", 0) + later,
        }
        for name, n in total.items():
            self.memory.put(name, n)
        notes = []
        if total["unsure"]:
            notes.append(f"{total['unsure']} unsure verdicts are left out, as missing at random")
        if total["later"]:
            hint = (
                "; if several classes are ruled out at once, set protocol = 'sets'"
                if plan["protocol"] == "question"
                else ""
            )
            notes.append(
                f"{total['later']} further judgements of items that were counted are not used{hint}"
            )
        return notes

    def _groups(self, name: str, rows: list[dict[str, Any]], *, closed: bool) -> list[LabelRows]:
        """Rows of one item that follow each other; the last group of a file that can grow is held
        back.
        """
        groups: list[LabelRows] = []
        held = self.memory.open_label(name)
        if held is not None:
            groups.append((held[0], held[1], None))
        for row in rows:
            if groups and groups[-1][0] == row["item"]:
                groups[-1][1].extend(_label([row])[1])
            else:
                groups.append(_label([row]))
        last = None if closed or not groups else groups.pop()
        self.memory.hold_label(name, None if last is None else (last[0], last[1]))
        return groups

    # ------------------------------------------------------------------------------------------------
    # answers alone

    def new_patterns(self) -> bool:
        """Count the patterns of items that every system has answered now; True where there are new
        ones.
        """
        systems = self.memory.get("systems", [])
        before = self.memory.get("pattern_systems", [])
        patterns = (
            {tuple(p): n for p, n in self.memory.get("patterns", [])} if systems == before else {}
        )
        if systems == before:
            items = sorted(self._answered)
        else:
            items = [
                item
                for (item,) in self.memory.query("SELECT DISTINCT item FROM answer ORDER BY item")
            ]
        fresh = 0
        for item in items:
            given = dict(
                self.memory.query("SELECT system, answer FROM answer WHERE item = ?", item)
            )
            if len(given) == len(systems):
                key = tuple(given[s] for s in systems)
                patterns[key] = patterns.get(key, 0) + 1
                fresh += 1
        self.memory.put("pattern_systems", systems)
        self.memory.put(
            "patterns",
            [
                [list(p), n]
                for p, n in sorted(patterns.items(), key=lambda pair: json.dumps(pair[0]))
            ],
        )
        return fresh > 0

    def sketch(self) -> Sketch | None:
        """The patterns so far as a sketch; None where nothing can be proved from them."""
        systems, patterns = self.memory.get("systems", []), self.memory.get("patterns", [])
        labels = self._labels()
        if len(systems) < 2 or not patterns or len(labels) < 2:
            return None
        return Sketch.from_counts(
            {tuple(p): n for p, n in patterns}, classifiers=systems, labels=labels
        )

    def _labels(self) -> list[str]:
        """All labels that the truth can be."""
        s, plan = self.settings, self.memory.get("plan")
        if s.classes is not None:
            return [str(plain(c)) for c in s.classes]
        seen = self.memory.get("classes", [])
        own = [k for (k,) in self.memory.query("SELECT MAX(k) FROM item") if k is not None]
        k = max([s.n_classes or 0, plan.get("n_classes") or 0, *own])
        if all(c.isdecimal() for c in seen):
            return [str(i) for i in range(max([k, *(int(c) + 1 for c in seen)]))]
        return [*seen, *(f"unseen {i + 1}" for i in range(k - len(seen)))]


def _label(rows: Sequence[dict[str, Any]]) -> LabelRows:
    return (
        rows[0]["item"],
        [[row["class"], VERDICTS[row["said"]], row.get("propensity")] for row in rows],
        rows[0].get("at"),
    )


def _by_time(rows: list[Any]) -> list[Any]:
    """In the order of ``at`` where all have it and it can be compared; else as they came."""

    def at(row: Any) -> Any:
        return row["at"] if isinstance(row, dict) else row[2]

    if any((row.get("at") if isinstance(row, dict) else row[2]) is None for row in rows):
        return rows
    try:
        return sorted(rows, key=at)
    except TypeError:
        return rows


def _is_whole(text: str) -> bool:
    """Whether a class is a whole number; below 0 it is one that cannot be."""
    return text.removeprefix("-").isdecimal()


# ---------------------------------------------------------------------------- Where answers meet
# what is said of their items: labels, and ratings; each item once for each system.


_FIRST_SHARE = 0.9


def meet(memory: Memory, settings: Settings) -> None:
    """Count answers that were graded, and answers whose item has a label now."""
    _grade(memory)
    plan = memory.get("plan")
    rows = memory.query(
        "SELECT a.item, a.system, a.answer, l.rows, i.k FROM touched t JOIN answer a ON a.item = t.item "
        "JOIN label l ON l.item = t.item LEFT JOIN item i ON i.item = t.item WHERE a.met = 0 ORDER BY a.item, a.system"
    )
    tallies, met = [], []
    for item, system, answer, judged, own in rows:
        k = own if plan["own_classes"] else plan["n_classes"]
        if k is None:
            continue  # the item waits for its number of classes
        said = json.loads(judged)
        outside = [
            c
            for c in (answer, *(row[0] for row in said))
            if c is not None and c.isdecimal() and int(c) >= int(k)
        ]
        if outside and settings.classes is None:
            remedy = "Correct it or the item's n_classes."
            raise EvidenceError(
                fault(
                    "answer and class",
                    f"must be in [0, {k})",
                    outside[0],
                    where=[item],
                    total=1,
                    remedy=remedy,
                )
            )
        met.append((item, system))
        tally = tally_of(
            system,
            answer,
            json.loads(judged),
            n_classes=int(k),
            recorded=plan["recorded"],
            drop=settings.conflicts == "drop",
            item=item,
        )
        if tally is not None:
            tallies.append(tally)
    if met:
        memory.mark("met", met)
        known = AccuracyCounts.from_dict(memory.get("counts", counts_of(()).to_dict()))
        memory.put("counts", (known + counts_of(tallies)).to_dict())
        memory.put("dropped", memory.get("dropped", 0) + len(met) - len(tallies))


def _grade(memory: Memory) -> None:
    """Count grades. They need no answer and no number of classes; an answer that met a judgement
    before is not counted again.
    """
    plan = memory.get("plan")
    rows = memory.query(
        "SELECT g.item, g.system, g.verdict, a.item IS NOT NULL AND a.answer IS NULL, COALESCE(a.met, 0), i.k FROM touched t "
        "JOIN grade g ON g.item = t.item LEFT JOIN answer a ON a.item = g.item AND a.system = g.system "
        "LEFT JOIN item i ON i.item = g.item WHERE g.met = 0 ORDER BY g.item, g.system"
    )
    tallies: list[Tally] = []
    for item, system, verdict, silent, met, own in rows:
        if met:
            continue
        if silent and verdict == "yes":
            remedy = "Correct the grade, or write the answer."
            raise EvidenceError(
                fault(
                    "grades.verdict",
                    "must not be right where the answer is missing",
                    "right",
                    where=[item],
                    total=1,
                    remedy=remedy,
                )
            )
        k = (own if plan.get("own_classes") else plan.get("n_classes")) or 0
        tallies.append(
            Label.grade(verdict, n_classes=int(k)).meet(None if silent else "", system=system)
        )
    if rows:
        memory.mark("met", [(row[0], row[1]) for row in rows])
    if tallies:
        known = AccuracyCounts.from_dict(memory.get("counts", counts_of(()).to_dict()))
        memory.put("counts", (known + counts_of(tallies)).to_dict())


def rate(memory: Memory) -> None:
    """Enter items whose last rating is in, each once for each system."""
    m = memory.get("plan").get("ratings_per_item")
    if m is None:
        return
    rows = {tuple(key): n for *key, n in memory.get("rated", [])}
    entered = []
    for item, system, answer in memory.query(
        "SELECT a.item, a.system, a.answer FROM touched t JOIN answer a ON a.item = t.item WHERE a.rated = 0 "
        "AND (SELECT COUNT(*) FROM rating r WHERE r.item = a.item) >= ? ORDER BY a.item, a.system",
        m,
    ):
        first = memory.query(
            "SELECT label FROM rating WHERE item = ? ORDER BY place LIMIT ?", item, m
        )
        votes = Counter(label for (label,) in first)
        top = max(votes.values())
        key = (
            system,
            int(votes.get(answer, 0) == top),
            sum(n == top for n in votes.values()),
            top,
            m,
            int(answer is None),
        )
        rows[key] = rows.get(key, 0) + 1
        entered.append((item, system))
    memory.mark("rated", entered)
    memory.put("rated", [[*key, n] for key, n in sorted(rows.items())])


def shares_of(memory: Memory) -> dict[str, float]:
    """What each statement has of the error rate."""
    shares: dict[str, float] = memory.get("shares", {})
    plan = memory.get("plan")
    labelled = "protocol" in plan or memory.get("graded", False)
    kinds = [
        kind
        for kind, on in (("accuracy", labelled), ("certificate", "ratings_per_item" in plan))
        if on
    ]
    wanted = [f"{kind} {system}" for kind in kinds for system in memory.get("systems", [])]
    new = [name for name in wanted if name not in shares]
    if new and not shares:
        shares = {name: _FIRST_SHARE / len(new) for name in new}
        memory.put("late", 0)
    else:
        for name in new:
            j = int(memory.get("late", 0)) + 1
            memory.put("late", j)
            shares[name] = (1 - _FIRST_SHARE) / (j * (j + 1))
    memory.put("shares", shares)
    return shares
