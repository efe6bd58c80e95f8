"""Labels of a stream as scores, and the limits that hold at every look.

Each item is counted once, with the judgements that came first. Where items have different numbers
of classes, the share of yes depends on the number, so that a kind of label is no random sample of
the items: all scores are then bet on with the range of the largest number of classes.
"""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from noracle.accuracy.drift import time_text
from noracle.accuracy.estimate import VACUOUS, estimate_accuracy
from noracle.accuracy.score import sided_rows
from noracle.bounds import binomial as linear
from noracle.bounds.betting import betting_interval
from noracle.counts.sketch import Sketch
from noracle.counts.tally import AccuracyCounts, Cell, Label, Tally
from noracle.errors import EvidenceError, require_evidence
from noracle.evidence.tables import VERDICTS, YES
from noracle.oversight.model import FolderSettings
from noracle.oversight.watch.memory import Memory, plain
from noracle.results import Assumption, Estimate, Guarantee, Kind

_ORDER = "which items are judged first, and which answers come late, has nothing to do with whether they are right"
RANDOM_ORDER = Assumption(name="random order", detail=_ORDER)
_ONE_BY_ONE = "items come in clusters, whose items depend on each other, and are counted one by one"
DEPENDENT = Assumption(name="iid items", status="failed", detail=_ONE_BY_ONE)
_GUESS = Guarantee(kind=Kind.HEURISTIC, error_rate=0.0, anytime=True, assumptions=(DEPENDENT,))


def _item_fault(name: str, rule: str, came: object, item: str, remedy: str) -> EvidenceError:
    return EvidenceError.of(name, rule, came, where=[item], total=1, remedy=remedy)


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
    """
    said = [(str(c), verdict, p) for c, verdict, p in rows]
    label = Label.of(said, n_classes=n_classes, recorded=recorded)
    if label is None and not drop:
        rule, came = "must not contradict each other", "different verdicts"
        remedy = "Correct the labels, or set conflicts = 'drop' in noracle.toml."
        raise _item_fault("judgements", rule, came, item, remedy)
    return None if label is None else label.meet(answer, system=system)


def counts_of(tallies: Iterable[Tally]) -> AccuracyCounts:
    """Tallies of items as counts; the population are these items."""
    counted, items, answered = Counter(tallies), Counter[Cell](), Counter[Cell]()
    for t, n in counted.items():
        items[Cell(t.system, t.n_classes)] += n
        answered[Cell(t.system, t.n_classes)] += n * t.answered
    return AccuracyCounts(tallies=dict(counted), items=dict(items), answered=dict(answered))


def sequence_limits(
    tallies: Mapping[Tally, int], *, error: float, most_classes: int | None = None
) -> linear.Limits:
    """Limits for the accuracy that hold at every look; ``most_classes`` where items have different
    numbers of classes.
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
        given = {t: n for t, n in counts.tallies.items() if t.answered}
        counts = dataclasses.replace(counts, tallies=given, items=counts.answered)
    own = error * (1 - _SHARED) if asked else error
    limits = sequence_limits(counts.tallies, error=own, most_classes=most_classes)
    estimate = estimate_accuracy(counts, method="scores", interval="betting", confidence=1 - error)
    notes, value = [note for note in estimate.notes if note != VACUOUS], estimate.value
    if asked is not None:
        n, answered = asked
        share = linear.anytime([linear.BinomialCell(n, answered)], error * _SHARED)
        limits = linear.Limits(limits.low * share.low, limits.high * share.high, limits.empty)
        value = value * answered / n
        if answered < n:
            notes.append(f"{n - answered:,} of {n:,} items have no answer, which counts as wrong")
    if limits.low <= 0 and limits.high >= 1:
        notes.append(VACUOUS)
    assumptions = (*estimate.guarantee.assumptions, RANDOM_ORDER)
    guarantee = dataclasses.replace(estimate.guarantee, assumptions=assumptions)
    if clustered:
        guarantee = (guarantee & _GUESS).given()
    known: dict[str, Any] = {"value": value, "low": limits.low, "high": limits.high}
    known |= {"notes": tuple(notes), "method": "scores, label by label"}
    return dataclasses.replace(estimate, guarantee=guarantee, **known)


CLUSTERED = (
    "heuristic: items of one cluster depend on each other, and a watch counts items one by one, whether or not the rest of their cluster "
    "has come; 'noracle estimate' takes whole clusters"
)
_BEGIN_AGAIN = "Write it so from the first judgement on, or begin a new watch."
_AS_JUDGEMENTS = "Write these grades as judgements of the class that was answered, or use 'noracle estimate --grades'."
_MOST_RATERS = 20
LabelRows = tuple[str, list[list[Any]], Any]


class Feed:
    """Takes the new rows of one look into the memory."""

    def __init__(
        self,
        memory: Memory,
        settings: FolderSettings,
        ratings_per_item: int | None,
        judge: str | None = None,
    ) -> None:
        self.memory, self.settings, self.ratings_per_item = memory, settings, ratings_per_item
        self.judge = judge
        self._judged: list[tuple[str, list[dict[str, Any]], bool]] = []
        self._graded: list[dict[str, Any]] = []
        self._answered, self._classes, self._given = set[str](), set[str](), set[str]()
        self._ratings, self._strata = Counter[str](), False

    def take(self, kind: str, name: str, rows: list[dict[str, Any]], *, closed: bool) -> None:
        """Take the new rows of one file; ``closed`` where it cannot grow."""
        memory = self.memory
        first = memory.add(f"rows of {name}", len(rows)) - len(rows)
        for i, row in enumerate(rows, start=first):
            row["when"] = _time_of(row), name, i
        if kind in ("items", "grades") and any(row.get("cluster") is not None for row in rows):
            memory.put("clustered", True)
        if kind in ("answers", "grades"):
            systems = memory.get("systems", [])
            new = sorted({str(row["system"]) for row in rows} - set(systems))
            memory.put("systems", [*systems, *new])
        if kind == "items":
            weighted = (row.get("weight") not in (None, 1.0) for row in rows)
            self._strata |= any(weighted) or any(row.get("stratum") is not None for row in rows)
            memory.add_items((row["item"], row.get("n_classes")) for row in rows)
            for row in rows:
                memory.add_place(row["item"], row.get("stratum"), row.get("cluster"))
        elif kind == "answers":
            given = [(row["item"], str(row["system"]), row["answer"]) for row in rows]
            self._answered |= memory.add_answers(given)
            self._given |= {answer for _, _, answer in given if answer is not None}
        elif kind == "judgements":
            self._judged.append((name, rows, closed))
            self._classes |= {row["class"] for row in rows}
        elif kind == "grades":
            self._graded += self._without_judge(rows)
        else:
            told = [row for row in rows if row["label"] is not None]
            memory.add_ratings((row["item"], str(row["rater"]), row["label"]) for row in told)
            self._ratings.update(row["item"] for row in told)

    def _without_judge(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Grades that are labels; what the judge says is kept beside them."""
        raters = {str(row.get("rater") or "") for row in rows}
        known = sorted(raters.union(self.memory.get("raters", [])))
        self.memory.put("raters", known[:_MOST_RATERS])
        labels = []
        for row in _by_time(rows):
            if self.judge is None or str(row.get("rater") or "") != self.judge:
                labels.append(row)
            else:
                system, right = str(row["system"]), int(row["said"] == YES)
                self.memory.add_verdict(row["item"], system, right, row["when"])
        return labels

    def finish(self) -> list[str]:
        """Take the judgements, now that all answers of this look are there; returns notes."""
        notes, plan = [], self.memory.get("plan")
        if self._strata:
            same = "every item counts the same"
            notes.append(f"strata and weights of items are not used by a watch: {same}")
        if self.memory.get("clustered", False):
            notes.append(CLUSTERED)
        if self._ratings and "ratings_per_item" not in plan:
            usual = Counter(self._ratings.values())
            m = self.ratings_per_item or min(usual, key=lambda n: (-usual[n], n))
            plan["ratings_per_item"] = m
            self.memory.put("plan", plan)
            said = f"an item is compared with its annotators when it has {m} ratings"
            self.memory.note("fixed", said)
        if self._judged and "protocol" not in plan:
            self._fix_design(plan)
        notes += self._set_aside()
        self._check_classes()
        if self._judged:
            notes += self._take_judgements()
        if self._graded:
            notes += self._take_grades()
        return notes

    def _fix_design(self, plan: dict[str, Any]) -> None:
        """The number of classes, the design and the protocol, from the first judgements."""
        s, distinct = self.settings, "SELECT DISTINCT k FROM item WHERE k IS NOT NULL"
        own = sorted(k for (k,) in self.memory.query(distinct))
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
        rows = [row for _, judged, _ in self._judged for row in judged]
        said = [row for row in rows if VERDICTS.get(row["said"]) != "unsure"]
        recorded = plan["recorded"] = any(self._is_recorded(row, plan) for row in said)
        several = max(Counter(row["item"] for row in said).values(), default=1) > 1
        plan["protocol"] = s.protocol or ("sets" if several and not recorded else "question")
        self.memory.put("plan", plan)
        told = "recorded propensities" if recorded else "uniform questions"
        many = n_classes or "own numbers of"
        self.memory.note("fixed", f"protocol {plan['protocol']}, {told}, {many} classes")

    def _inferred_classes(self, inferred: list[str]) -> int:
        known = [*self.memory.get("classes", []), *self.memory.get("given", [])]
        seen = self._classes | self._given | set(known)
        whole = all(_is_whole(c) for c in seen)
        k = max(map(int, seen)) + 1 if whole and seen else len(seen)
        how = "the largest class seen plus one" if whole else "the number of different classes seen"
        rule = f"must be given unless {how} is at least 2"
        remedy = "Write n_classes into noracle.toml."
        require_evidence(k >= 2, "n_classes", rule, k, remedy=remedy)
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
        """Answers that are no class of their item count as wrong; returns whose they were.

        Letters beside numbers are refused: what is read row by row cannot be told to mean the same.
        """
        memory, plan, s = self.memory, self.memory.get("plan"), self.settings
        said = self._classes | set(memory.get("said", []))
        given = self._given | set(memory.get("given", []))
        memory.put("said", sorted(said))
        k = plan.get("n_classes") or plan.get("most_classes")
        whole = all(_is_whole(c) for c in said)
        if said and given and whole != all(_is_whole(c) for c in given):
            came = f"{min(given)!r} in answers and {min(said)!r} in judgements"
            rule, remedy = "must be written in one way", "Write both as places, from 0."
            require_evidence(said & given, "answer and class", rule, came, remedy=remedy)
        known = s.classes is not None or (k is not None and whole)
        if known and s.invalid == "wrong" and not plan.get("inferred"):
            allowed = None if s.classes is None else [plain(c) for c in s.classes]
            most = "coalesce((SELECT k FROM item WHERE item.item = answer.item), ?)"
            wrong = f"(CAST(answer AS INTEGER) < 0 OR CAST(answer AS INTEGER) >= {most})"
            values: list[Any] = [k]
            if allowed is not None:
                wrong, values = f"answer NOT IN ({', '.join('?' * len(allowed))})", allowed
            # No name of a user is in these queries.
            where = f"answer IS NOT NULL AND met = 0 AND {wrong}"
            count = f"SELECT system, answer, count(*) FROM answer WHERE {where} GROUP BY 1, 2"  # noqa: S608
            rows = memory.query(count, *values)
            memory.query(f"UPDATE answer SET answer = NULL WHERE {where}", *values)  # noqa: S608
            bad = Counter(memory.get("invalid", {}))
            for system, answer, n in rows:
                bad[system] += n
                if allowed is not None or not 0 <= int(answer) < (k or 0):
                    given.discard(answer)
            memory.put("invalid", dict(bad))
        self._classes |= self._given & given
        memory.put("given", sorted(given))
        bad = memory.get("invalid", {})
        some = ", ".join(f"{system} {n:,}" for system, n in sorted(bad.items())[:5])
        return [f"answers that are no class of their item count as wrong: {some}"] if bad else []

    def _check_classes(self) -> None:
        """Classes must be among those that were declared or fixed."""
        known = set(self.memory.get("classes", []))
        seen = known | self._classes
        if seen != known:
            self.memory.put("classes", sorted(seen))
        plan, s, wrong = self.memory.get("plan"), self.settings, []
        k = plan.get("n_classes") or plan.get("most_classes")
        if s.classes is not None:
            k = len(s.classes)
            wrong = sorted(self._classes - {plain(c) for c in s.classes})
        elif k is not None and all(c.isdecimal() for c in seen):
            wrong = sorted((c for c in self._classes if int(c) >= k), key=int)
        elif k is not None and len(seen) > k:
            wrong = sorted(seen)
        rule, came = f"must be among the {k} classes", repr(wrong[0]) if wrong else ""
        remedy = "Write classes or n_classes into noracle.toml."
        require_evidence(not wrong, "answer and class", rule, came, remedy=remedy)
        new = "SELECT DISTINCT i.k FROM touched t JOIN item i ON i.item = t.item"
        own, most = sorted(k for (k,) in self.memory.query(new)), plan.get("most_classes")
        name = "items.n_classes"
        changed = plan.get("own_classes") and not plan["mixed"] and any(k != most for k in own)
        rule, now = "must differ from the first look on, or not at all", f"now {own}"
        require_evidence(not changed, name, rule, f"{most} at first, {now}", remedy=_BEGIN_AGAIN)
        if plan.get("mixed") and own:
            rule = f"must be at most {most}, the largest at the first look"
            require_evidence(own[-1] <= most, name, rule, own[-1], remedy=_BEGIN_AGAIN)

    def _take_grades(self) -> list[str]:
        """The first grade of each answer counts; an unsure one is left out."""
        aimed = [row["item"] for row in self._graded if row.get("propensity") is not None]
        if aimed:
            came = self._graded[0].get("propensity") or "probabilities"
            about = "grades.propensity", "must be left out while a folder is watched", came
            more: dict[str, Any] = {"where": aimed[:5], "total": len(aimed)}
            raise EvidenceError.of(*about, **more, remedy=_AS_JUDGEMENTS)
        self.memory.put("graded", True)
        told = Counter[str]()
        for row in _by_time(self._graded):
            verdict = VERDICTS[row["said"]]
            if verdict == "unsure":
                told["unsure_grades"] += 1
                continue
            system = str(row["system"])
            known = self.memory.add_grade(row["item"], system, verdict)
            if known is None:
                self.memory.add_moment(row["item"], system, row["when"])
                self.memory.add_place(row["item"], None, row.get("cluster"))
            told["later_grades"] += known is not None
            told["grades_against"] += known not in (None, verdict)
        words = {
            "unsure_grades": "unsure grades are left out, as missing at random",
            "later_grades": "further grades of answers that were counted are not used",
            "grades_against": "of them contradict the first one: some grades are wrong",
        }
        total = {name: self.memory.add(name, told[name]) for name in words}
        return [f"{total[name]} {text}" for name, text in words.items() if total[name]]

    def _take_judgements(self) -> list[str]:
        plan = self.memory.get("plan")
        labels: list[LabelRows] = []
        unsure = 0
        for name, rows, closed in self._judged:
            said = [row for row in rows if VERDICTS[row["said"]] != "unsure"]
            unsure += len(rows) - len(said)
            for row in said if not plan["recorded"] else ():
                k, item = self._n_classes(row["item"], plan), row["item"]
                rule = "must be 1/K where the first judgements were uniform"
                if k is not None and self._is_recorded(row, plan):
                    name = "judgements.propensity"
                    raise _item_fault(name, rule, row["propensity"], item, _BEGIN_AGAIN)
            said = _by_time(said)
            for row in said:
                self.memory.add_moment(row["item"], "", row["when"])
            if plan["protocol"] == "sets":
                labels += self._groups(name, said, closed=closed)
            else:
                labels += [_label(row) for row in said]
        added = [self.memory.add_label(item, rows) for item, rows, _ in _by_time(labels)]
        unsure = self.memory.add("unsure", unsure)
        later = self.memory.add("later", added.count(False))
        hint = "; if several classes are ruled out at once, set protocol = 'sets'"
        hint = hint if plan["protocol"] == "question" else ""
        told = {
            f"{unsure} unsure verdicts are left out, as missing at random": unsure,
            f"{later} further judgements of items that were counted are not used{hint}": later,
        }
        return [note for note, n in told.items() if n]

    def _groups(self, name: str, rows: list[dict[str, Any]], *, closed: bool) -> list[LabelRows]:
        """Rows of one item that follow each other; the last of a growing file is held back."""
        held = self.memory.open_label(name)
        groups: list[LabelRows] = [] if held is None else [(*held, None)]
        for row in rows:
            if groups and groups[-1][0] == row["item"]:
                groups[-1][1].extend(_label(row)[1])
            else:
                groups.append(_label(row))
        last = None if closed or not groups else groups.pop()
        self.memory.hold_label(name, None if last is None else last[:2])
        return groups

    def new_patterns(self) -> bool:
        """Count patterns of items that every system has answered; True where there are new ones."""
        memory, systems = self.memory, self.memory.get("systems", [])
        items, patterns = sorted(self._answered), dict[tuple[Any, ...], int]()
        if systems == memory.get("pattern_systems", []):
            patterns = {tuple(p): n for p, n in memory.get("patterns", [])}
        else:
            items = [i for (i,) in memory.query("SELECT DISTINCT item FROM answer ORDER BY item")]
        before = sum(patterns.values())
        for item in items:
            given = dict(memory.query("SELECT system, answer FROM answer WHERE item = ?", item))
            if len(given) == len(systems):
                key = tuple(given[s] for s in systems)
                patterns[key] = patterns.get(key, 0) + 1
        memory.put("pattern_systems", systems)
        ordered = sorted(patterns.items(), key=lambda pair: json.dumps(pair[0]))
        memory.put("patterns", [[list(p), n] for p, n in ordered])
        return sum(patterns.values()) > before

    def sketch(self) -> Sketch | None:
        """The patterns so far as a sketch; None where nothing can be proved from them."""
        systems, labels = self.memory.get("systems", []), self._labels()
        patterns = {tuple(p): n for p, n in self.memory.get("patterns", [])}
        if len(systems) < 2 or not patterns or len(labels) < 2:
            return None
        return Sketch.from_counts(patterns, classifiers=systems, labels=labels)

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


def _label(row: dict[str, Any]) -> LabelRows:
    said = [row["class"], VERDICTS[row["said"]], row.get("propensity")]
    return row["item"], [said], row.get("at")


def _time_of(row: dict[str, Any]) -> str:
    """The time of a row as text; empty where it has none that can be read."""
    try:
        return time_text(row.get("at"))
    except EvidenceError:
        return ""


def _by_time(rows: list[Any]) -> list[Any]:
    """In the order of ``at`` where all have it and it can be compared; else as they came."""
    times: list[Any] = [row.get("at") if isinstance(row, dict) else row[2] for row in rows]
    if None in times:
        return rows
    try:
        return [rows[i] for i in sorted(range(len(rows)), key=lambda i: times[i])]
    except TypeError:
        return rows


def _is_whole(text: str) -> bool:
    """Whether a class is a whole number; below 0 it is one that cannot be."""
    return text.removeprefix("-").isdecimal()


_FIRST_SHARE = 0.9


def meet(memory: Memory, settings: FolderSettings) -> None:
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
        named = [c for c in (answer, *(row[0] for row in said)) if c is not None and c.isdecimal()]
        outside = [c for c in named if int(c) >= int(k)]
        if outside and settings.classes is None:
            rule, remedy = f"must be in [0, {k})", "Correct it or the item's n_classes."
            raise _item_fault("answer and class", rule, outside[0], item, remedy)
        met.append((item, system))
        options = {"recorded": plan["recorded"], "drop": settings.conflicts == "drop"}
        tally = tally_of(system, answer, said, n_classes=int(k), item=item, **options)
        if tally is not None:
            tallies.append(tally)
    if met:
        memory.add("dropped", len(met) - len(tallies))
        _count(memory, tallies, met)


def _count(memory: Memory, tallies: Iterable[Tally], met: Sequence[tuple[str, str]]) -> None:
    memory.mark("met", met)
    memory.put("counts", (known_counts(memory) + counts_of(tallies)).to_dict())


def known_counts(memory: Memory) -> AccuracyCounts:
    """What was counted so far."""
    known = memory.get("counts")
    return counts_of(()) if known is None else AccuracyCounts.from_dict(known)


def _grade(memory: Memory) -> None:
    """Count grades, of answers that met no judgement before."""
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
            rule = "must not be right where the answer is missing"
            remedy = "Correct the grade, or write the answer."
            raise _item_fault("grades.verdict", rule, "right", item, remedy)
        k = (own if plan.get("own_classes") else plan.get("n_classes")) or 0
        label = Label.grade(verdict, n_classes=int(k))
        tallies.append(label.meet(None if silent else "", system=system))
    if rows:
        _count(memory, tallies, [row[:2] for row in rows])


def rate(memory: Memory) -> None:
    """Enter items whose last rating is in, each once for each system."""
    m = memory.get("plan").get("ratings_per_item")
    if m is None:
        return
    rows = {tuple(key): n for *key, n in memory.get("rated", [])}
    ready = memory.query(
        "SELECT a.item, a.system, a.answer FROM touched t JOIN answer a ON a.item = t.item WHERE a.rated = 0 "
        "AND (SELECT COUNT(*) FROM rating r WHERE r.item = a.item) >= ? ORDER BY a.item, a.system",
        m,
    )
    for item, system, answer in ready:
        first = "SELECT label FROM rating WHERE item = ? ORDER BY place LIMIT ?"
        votes = Counter(label for (label,) in memory.query(first, item, m))
        top = max(votes.values())
        hit, tied = int(votes.get(answer, 0) == top), sum(n == top for n in votes.values())
        key = (system, hit, tied, top, m, int(answer is None))
        rows[key] = rows.get(key, 0) + 1
    memory.mark("rated", [row[:2] for row in ready])
    memory.put("rated", [[*key, n] for key, n in sorted(rows.items())])


def shares_of(memory: Memory) -> dict[str, float]:
    """What each statement has of the error rate."""
    shares: dict[str, float] = memory.get("shares", {})
    plan = memory.get("plan")
    labelled = "protocol" in plan or memory.get("graded", False)
    kinds = {"accuracy": labelled, "certificate": "ratings_per_item" in plan}
    systems = memory.get("systems", [])
    wanted = [f"{kind} {system}" for kind, on in kinds.items() if on for system in systems]
    new = [name for name in wanted if name not in shares]
    if new and not shares:
        shares = {name: _FIRST_SHARE / len(new) for name in new}
        memory.put("late", 0)
    for name in [name for name in new if name not in shares]:
        j = memory.add("late", 1)
        shares[name] = (1 - _FIRST_SHARE) / (j * (j + 1))
    memory.put("shares", shares)
    return shares
