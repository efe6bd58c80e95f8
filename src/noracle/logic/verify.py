"""Proofs checked in whole numbers: no solver, no numpy, none of the code that found them.

From the rest of the package this reads only how a claim is written. ``examples/check_proof.py``
needs nothing of it at all.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from noracle.logic.spec import Spec
from noracle.results import Proof

_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_LETTERS = {".": -1, **{c: i for i, c in enumerate(_ALPHABET)}}
_NO_PROOF = (KeyError, IndexError, TypeError, ValueError, AttributeError, ArithmeticError)
"""What values that are not a proof can raise."""
_ANY = -2

Answers = Sequence[tuple[int, int]]
Table = list[list[list[int]]]
"""By classifier, answer (the last place: none) and label."""


class _Count(NamedTuple):
    """Coefficient × the items of a group (None: all) with these answers and this label (None: any)."""

    coefficient: int
    answers: Answers
    label: int | None
    group: int | None = None


class _Row(NamedTuple):
    """Σ counts ≥ at_least; ``unless`` that classifier answered no item of that label."""

    counts: Sequence[_Count]
    at_least: int
    unless: tuple[int, int] | None = None


Splits = Sequence[tuple[_Count, int, bool]]
"""Counts that are at most a number (True), or larger."""


class _Data(NamedTuple):
    patterns: Sequence[Sequence[int]]
    n: Sequence[int]
    allowed: Sequence[frozenset[int]]
    n_classifiers: int
    n_labels: int


def verify_proof(proof: Proof) -> bool:
    """Whether certificate or witness proves the verdict; False for ``undecided`` and for alarms
    without a certificate to check.

    Examples
    --------
    >>> from noracle.counts.sketch import Sketch
    >>> from noracle.logic.cascade import prove_malfunction
    >>> sketch = Sketch.from_counts({("a", "a"): 1, ("b", "a"): 1, ("b", "b"): 1}, classifiers=["x", "y"], labels=["a", "b"])
    >>> proof = prove_malfunction(sketch, "accuracy > 1/2")
    >>> proof.status, verify_proof(proof)
    ('alarm', True)
    """
    return verify_values(proof.to_dict())


def verify_values(proof: Mapping[str, Any]) -> bool:
    """The same for the JSON values of a proof."""
    try:
        claim = str(Spec.from_list(proof["spec"]["statements"]))
        if "order" in proof["spec"]:
            words = {"item": "with one order per item", "one": "with one ranking"}
            return proof["claim"] == f"{claim} {words[proof['spec']['order']]}" and _orders(proof)
        if claim != proof["claim"]:
            return False
        if proof["status"] == "alarm":
            return _alarm(proof)
        return proof["status"] == "consistent" and _consistent(proof)
    except _NO_PROOF:
        return False


def _alarm(proof: Mapping[str, Any]) -> bool:
    certificate = proof["certificate"]
    if certificate.get("kind") == "axioms":
        return sum(_most(proof)) < sum(_uses(proof)[0])
    if certificate.get("kind") not in {"weights", "cases"} or "uses" in proof["sketch"]:
        return False
    data = _data(proof["sketch"])
    return _impossible(certificate, _rows(proof, data), [], data)


def _consistent(proof: Mapping[str, Any]) -> bool:
    if "uses" in proof["sketch"]:
        prevalence = proof["witness"]["prevalence"]
        fits = all(0 <= q <= most for q, most in zip(prevalence, _most(proof), strict=True))
        return fits and sum(prevalence) == sum(_uses(proof)[0])
    data = _data(proof["sketch"])
    given = [{label: n} for label, n in zip(proof["witness"]["label"], data.n, strict=True)]
    for g, label, n in proof["witness"]["others"]:
        main = proof["witness"]["label"][g]
        if not _is_whole(n) or n < 0 or label == main or label in given[g]:
            return False
        given[g][label] = n
        given[g][main] -= n
    for row, can in zip(given, data.allowed, strict=True):
        if any(n < 0 or (n and label not in can) for label, n in row.items()):
            return False
    seen = _seen(given, data)

    def holds(row: _Row) -> bool:
        if row.unless is not None:
            i, label = row.unless
            if not any(seen[i][a][label] for a in range(data.n_labels)):
                return True
        counted = (c.coefficient * _number(c, given, seen, data) for c in row.counts)
        return sum(counted) >= row.at_least

    return all(holds(row) for row in _rows(proof, data))


# What the proof is about.


def _data(sketch: Mapping[str, Any]) -> _Data:
    N, R, n = len(sketch["classifiers"]), len(sketch["labels"]), list(sketch["n"])
    said = sketch["patterns"]
    patterns = [[_LETTERS[c] for c in p] if isinstance(p, str) else list(p) for p in said]
    every = frozenset(range(R))
    listed = sketch.get("allowed") or [None] * len(patterns)
    allowed = [every if a is None else frozenset(a) for a in listed]
    fine = len(patterns) == len(n) == len(allowed) and all(_is_whole(v) and v > 0 for v in n)
    fine = fine and all(len(p) == N and min(p) >= -1 and max(p) < R for p in patterns)
    if not fine or not all(a and a <= every for a in allowed):
        raise ValueError("not a sketch")
    return _Data(patterns, n, allowed, N, R)


def _rows(proof: Mapping[str, Any], data: _Data) -> list[_Row]:
    """Statements (classifiers outside, labels inside), then low and high of each prevalence."""
    classifiers, labels = list(proof["sketch"]["classifiers"]), list(proof["sketch"]["labels"])
    rows = []
    for s in proof["spec"]["statements"]:
        if s["kind"] == "linear":
            terms = [_count(t, classifiers, labels) for t in s["terms"]]
            rows.append(_Row(terms, _whole(s["at_least"])))
            continue
        theta, strict = Fraction(s["above"]), int(bool(s["strict"]))
        for i in range(data.n_classifiers) if s["of"] is None else [classifiers.index(s["of"])]:
            if s.get("at") is not None:
                at, R = s["at"], data.n_labels
                cuts = range(1, R) if at == "each" else [labels.index(at)]
                if s["kind"] != "grade" or 0 in cuts:
                    raise ValueError("no such threshold")
                n = sum(k for p, k in zip(data.patterns, data.n, strict=True) if p[i] >= 0)
                least = math.floor(theta * n) + 1 if strict else math.ceil(theta * n)
                for t in cuts:
                    same = [(a, r) for a in range(R) for r in range(R) if (a >= t) == (r >= t)]
                    rows.append(_Row([_Count(1, [(i, a)], r) for a, r in same], least if n else 0))
            elif s["kind"] == "grade":
                answered = sum(n for p, n in zip(data.patterns, data.n, strict=True) if p[i] >= 0)
                least = math.floor(theta * answered) + 1 if strict else math.ceil(theta * answered)
                right = [_Count(1, [(i, r)], r) for r in range(data.n_labels)]
                rows.append(_Row(right, least if answered else 0))
            elif s["kind"] == "accuracy":
                for r in range(data.n_labels) if s["on"] is None else [labels.index(s["on"])]:
                    p, q = theta.as_integer_ratio()
                    pair = [_Count(q, [(i, r)], r), _Count(-p, [(i, _ANY)], r)]
                    rows.append(_Row(pair, strict, (i, r)))
            else:
                raise ValueError("no such claim")
    for label, (low, high) in proof["spec"]["prevalence"].items():
        for sign, limit in ((1, low), (-1, high)):
            rows.append(_Row([_Count(sign, [], labels.index(label))], sign * _whole(limit)))
    return rows


def _count(term: Sequence[Any], classifiers: Sequence[str], labels: Sequence[str]) -> _Count:
    coefficient, answers, label = term
    codes: dict[str | None, int] = {name: r for r, name in enumerate(labels)}
    codes |= {None: -1, "any answer": _ANY}
    said = [(classifiers.index(k), codes[a]) for k, a in answers.items()]
    return _Count(_whole(coefficient), said, None if label is None else labels.index(label))


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _whole(value: Any) -> int:
    if not _is_whole(value):
        raise ValueError("not a whole number")
    return int(value)


def _matches(pattern: Sequence[int], answers: Answers) -> bool:
    return all(pattern[i] >= 0 if a == _ANY else pattern[i] == a for i, a in answers)


def _zeros(data: _Data) -> Table:
    answers, labels = range(data.n_labels + 1), [0] * data.n_labels
    return [[list(labels) for _ in answers] for _ in range(data.n_classifiers)]


def _seen(given: Sequence[Mapping[int, int]], data: _Data) -> Table:
    """Items by classifier, answer and true label."""
    seen = _zeros(data)
    for pattern, row in zip(data.patterns, given, strict=True):
        for label, n in row.items():
            for i, a in enumerate(pattern):
                seen[i][a][label] += n
    return seen


def _number(c: _Count, given: Sequence[Mapping[int, int]], seen: Table, data: _Data) -> int:
    if len(c.answers) == 1:
        ((i, a),) = c.answers
        rows = seen[i][: data.n_labels] if a == _ANY else [seen[i][a]]
        return sum(sum(row) if c.label is None else row[c.label] for row in rows)
    pairs = zip(data.patterns, given, strict=True)
    inside = (row for pattern, row in pairs if _matches(pattern, c.answers))
    return sum(sum(row.values()) if c.label is None else row.get(c.label, 0) for row in inside)


# Weights and cases.


def _impossible(node: Mapping[str, Any], rows: Sequence[_Row], splits: Splits, data: _Data) -> bool:
    """Whether a node proves that no true labels keep the rows and the splits above it."""
    if node["kind"] == "cases":
        counted, at = _form(node["form"], data), node["at"]
        if not _is_whole(at):
            return False
        low, high = ([*splits, (counted, at, side)] for side in (True, False))
        first = _impossible(node["below"], rows, low, data)
        return first and _impossible(node["above"], rows, high, data)
    rows = [*rows]
    for c, at, below in splits:
        rows.append(_Row([c._replace(coefficient=-1)], -at) if below else _Row([c], at + 1))
    allowed = _allowed(splits, data)
    if not all(allowed):
        return True
    weighed = [(rows[k], w) for k, w in node["weights"]]
    different = {_whole(k) for k, _ in node["weights"] if k >= 0}
    if any(not _is_whole(w) or w < 0 for _, w in weighed) or len(different) != len(weighed):
        return False
    sure = _surely_answered(rows, splits, allowed, data)
    needed = 0
    gains: list[tuple[tuple[int, int], int]] = []  # of rows that an item must bring into force
    for row, w in weighed:
        if row.unless is None or row.unless in sure:
            needed += w * row.at_least
        else:
            gains.append((row.unless, w * row.at_least))
    if node["group"] is not None:
        g = _whole(node["group"])
        said = [(r, b) for (i, r), b in gains if data.patterns[g][i] >= 0]
        needed += min(sum(b for r, b in said if r == label) for label in allowed[g])
    return bool(_largest(weighed, allowed, data) < needed)


def _form(form: Sequence[Any], data: _Data) -> _Count:
    kind, *places = form
    if kind == "cell":
        count = _Count(1, [], places[1], places[0])
    elif kind == "prevalence":
        count = _Count(1, [], places[0])
    else:
        count = _Count(1, [(places[0], {"answered": _ANY, "correct": places[1]}[kind])], places[1])
    most = {"cell": len(data.n), "prevalence": data.n_labels}.get(kind, data.n_classifiers)
    if not (0 <= places[-1] < data.n_labels and 0 <= places[0] < most):
        raise ValueError("no such count")
    return count


def _allowed(splits: Splits, data: _Data) -> list[frozenset[int]]:
    """The labels that each group can have; a count that is at most 0 forbids what it counts."""
    allowed = list(data.allowed)
    for c, at, below in splits:
        if below and at <= 0:
            for g, pattern in enumerate(data.patterns):
                if c.group in {None, g} and _matches(pattern, c.answers):
                    allowed[g] -= {c.label}
    return allowed


def _surely_answered(
    rows: Sequence[_Row], splits: Splits, allowed: Sequence[frozenset[int]], data: _Data
) -> set[tuple[int, int]]:
    """Pairs (classifier, label): it answered an item of the label, whatever the true labels are."""
    low = [0] * data.n_labels
    for row in rows:
        if len(row.counts) == 1 and row.unless is None:
            (c,) = row.counts
            if c.coefficient == 1 and not c.answers and c.group is None and c.label is not None:
                low[c.label] = max(low[c.label], row.at_least)
    sure = set()
    for c, at, below in splits:
        if not below and at >= 0 and c.answers and c.answers[0][1] == _ANY:
            sure.add((c.answers[0][0], c.label))
    unanswered = [[0] * data.n_labels for _ in range(data.n_classifiers)]
    for pattern, n, can in zip(data.patterns, data.n, allowed, strict=True):
        for i, a in enumerate(pattern):
            if a < 0:
                for label in can:
                    unanswered[i][label] += n
            elif len(can) == 1:
                sure.add((i, next(iter(can))))
    for i, row_ in enumerate(unanswered):
        sure |= {(i, r) for r in range(data.n_labels) if low[r] > row_[r]}
    return {(i, r) for i, r in sure if r is not None}


def _largest(
    weighed: Sequence[tuple[_Row, int]], allowed: Sequence[frozenset[int]], data: _Data
) -> int:
    """D = Σ_g n_g max over allowed labels of the weighted coefficients."""
    R = data.n_labels
    table = _zeros(data)
    others: list[tuple[_Count, int]] = []
    for row, w in weighed:
        for c in row.counts:
            if c.group is not None or len(c.answers) != 1:
                others.append((c, w * c.coefficient))
                continue
            ((i, a),) = c.answers
            for target in table[i][:R] if a == _ANY else [table[i][a]]:
                for label in range(R) if c.label is None else [c.label]:
                    target[label] += w * c.coefficient
    total = 0
    for g, (pattern, n, can) in enumerate(zip(data.patterns, data.n, allowed, strict=True)):
        parts = [t[a] for t, a in zip(table, pattern, strict=True)]
        score = [sum(column) for column in zip(*parts, strict=True)]
        for c, add in others:
            if c.group in {None, g} and _matches(pattern, c.answers):
                for label in range(R) if c.label is None else [c.label]:
                    score[label] += add
        total += n * max(score[label] for label in can)
    return total


# Uses of labels alone.


def _uses(proof: Mapping[str, Any]) -> list[list[int]]:
    if "uses" in proof["sketch"]:
        uses = [list(row) for row in proof["sketch"]["uses"]]
    else:
        data = _data(proof["sketch"])
        uses = [[0] * data.n_labels for _ in range(data.n_classifiers)]
        for pattern, n in zip(data.patterns, data.n, strict=True):
            for i, a in enumerate(pattern):
                if a < 0:
                    raise ValueError("uses prove nothing where answers are missing")
                uses[i][a] += n
    if len({sum(row) for row in uses}) != 1 or min(map(min, uses)) < 0:
        raise ValueError("uses must have one total")
    return uses


def _most(proof: Mapping[str, Any]) -> list[int]:
    """The most items of each label: q·uses - p·Q_l ≥ 1 for every claim about it, or Q_l = 0."""
    uses = _uses(proof)
    most = [sum(uses[0])] * len(proof["sketch"]["labels"])
    for s in proof["spec"]["statements"]:
        if s["kind"] != "accuracy" or not s["strict"]:
            raise ValueError("uses prove nothing about this claim")
        p, q = Fraction(s["above"]).as_integer_ratio()
        for name, row in zip(proof["sketch"]["classifiers"], uses, strict=True):
            for r, label in enumerate(proof["sketch"]["labels"]):
                if s["of"] in {None, name} and s["on"] in {None, label} and (p or not row[r]):
                    most[r] = min(most[r], (q * row[r] - 1) // p if row[r] else 0)
    return most


# Preferences: orders instead of labels.

Branches = Mapping[tuple[int, int, int], tuple[int, int]]
"""By group and two systems: the least and the most units in which the first is above."""


class _OrderData(NamedTuple):
    """Units, their systems, verdicts (rater, better, worse, number) by group, and what is needed."""

    n: Sequence[int]
    size: Sequence[int]
    verdicts: Sequence[Sequence[Sequence[int]]]
    needs: Sequence[tuple[int, int]]


def _orders(proof: Mapping[str, Any]) -> bool:
    sketch = proof["sketch"]
    n, size, verdicts = sketch["n"], sketch["size"], sketch["verdicts"]
    raters = list(sketch["raters"])
    totals = [0] * len(raters)
    if sketch["order"] != proof["spec"]["order"] or len(set(raters)) != len(raters):
        return False
    for units, m, group in zip(n, size, verdicts, strict=True):
        if not (_is_whole(units) and _is_whole(m) and units > 0 and m > 1):
            return False
        for rater, better, worse, number in group:
            inside = 0 <= rater < len(raters) and 0 <= better < m and 0 <= worse < m
            if not inside or better == worse or not _is_whole(number) or number < 1:
                return False
            totals[rater] += number * units
    needs = []
    for s in proof["spec"]["statements"]:
        theta = Fraction(s["above"])
        if s["kind"] != "agreement":
            return False
        for r in range(len(raters)) if s["of"] is None else [raters.index(s["of"])]:
            least = (
                math.floor(theta * totals[r]) + 1 if s["strict"] else math.ceil(theta * totals[r])
            )
            needs.append((r, least if totals[r] else 0))
    data = _OrderData(n, size, verdicts, needs)
    if proof["status"] == "alarm":
        return _no_orders(proof["certificate"], {}, data)
    return proof["status"] == "consistent" and _ordered(proof["witness"]["orders"], data)


def _no_orders(node: Mapping[str, Any], branches: Branches, data: _OrderData) -> bool:
    """Whether a node proves that no orders keep the needs and the branches above it."""
    if node["kind"] == "cases":
        (g, a, b), at = map(_whole, node["pair"]), _whole(node["at"])
        if not (0 <= g < len(data.n) and 0 <= a < b < data.size[g]):
            return False
        low, high = branches.get((g, a, b), (0, data.n[g]))
        below = {**branches, (g, a, b): (low, min(high, at))}
        above = {**branches, (g, a, b): (max(low, at + 1), high)}
        return _no_orders(node["below"], below, data) and _no_orders(node["above"], above, data)
    if any(low > high for low, high in branches.values()):
        return True
    weight = [0] * (1 + max((r for r, _ in data.needs), default=0))
    needed = 0
    for k, w in node["weights"]:
        if not (_is_whole(w) and w >= 0 and 0 <= _whole(k) < len(data.needs)):
            return False
        rater, least = data.needs[k]
        weight[rater] += w
        needed += w * least
    gain: dict[tuple[int, int, int], int] = {}  # of each unit with the first above the second
    for g, group in enumerate(data.verdicts):
        for rater, better, worse, number in group:
            if rater < len(weight) and weight[rater]:
                key = (g, better, worse)
                gain[key] = gain.get(key, 0) + weight[rater] * number
    largest = 0
    for g, *abc, w in node["cycles"]:
        fits = len(set(abc)) == 3 and all(0 <= _whole(i) < data.size[g] for i in abc)
        if not fits or not _is_whole(w) or w < 0 or g < 0:
            return False
        for i, j in zip(abc, [*abc[1:], abc[0]], strict=True):
            gain[g, i, j] = gain.get((g, i, j), 0) - w
        largest += 2 * w * data.n[g]
    for g, a, b in {(g, min(i, j), max(i, j)) for g, i, j in gain}:
        low, high = branches.get((g, a, b), (0, data.n[g]))
        first, second = gain.get((g, a, b), 0), gain.get((g, b, a), 0)
        largest += second * data.n[g] + max((first - second) * x for x in (low, high))
    return largest < needed


def _ordered(orders: Sequence[Sequence[Sequence[Any]]], data: _OrderData) -> bool:
    """Whether these orders, so many units with each, keep all needs."""
    agree: dict[int, int] = {}
    for found, units, m, group in zip(orders, data.n, data.size, data.verdicts, strict=True):
        if sum(_whole(k) for _, k in found) != units or min(k for _, k in found) < 1:
            return False
        for ranking, k in found:
            if sorted(ranking) != list(range(m)):
                return False
            place = {system: i for i, system in enumerate(ranking)}
            for rater, better, worse, number in group:
                agree[rater] = agree.get(rater, 0) + k * number * (place[better] < place[worse])
    return all(agree.get(rater, 0) >= least for rater, least in data.needs)
