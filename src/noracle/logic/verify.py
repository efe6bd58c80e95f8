"""Proofs checked in whole numbers: no solver, no numpy, none of the code that found them.

From the rest of the package this reads only how a claim is written. ``examples/check_proof.py``
needs nothing of it at all.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from noracle.logic.spec import Spec
from noracle.results import Proof

_LETTERS = {
    c: i for i, c in enumerate("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
} | {".": -1}
_ANY = -2

Answers = Sequence[tuple[int, int]]


class _Count(NamedTuple):
    """coefficient × the items of this group (None: all) with these answers and this true label
    (None: any).
    """

    coefficient: int
    answers: Answers
    label: int | None
    group: int | None = None


class _Row(NamedTuple):
    """Σ counts ≥ at_least; with ``unless`` only where that classifier answered an item of that
    label.
    """

    counts: Sequence[_Count]
    at_least: int
    unless: tuple[int, int] | None = None


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
        if str(Spec.from_list(proof["spec"]["statements"])) != proof["claim"]:
            return False
        if proof["status"] == "alarm":
            return _alarm(proof)
        return proof["status"] == "consistent" and _consistent(proof)
    except (
        KeyError,
        IndexError,
        TypeError,
        ValueError,
        AttributeError,
        ArithmeticError,
    ):  # values that are not a proof prove nothing
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
    if any(
        n < 0 or (n and label not in can)
        for row, can in zip(given, data.allowed, strict=True)
        for label, n in row.items()
    ):
        return False
    seen = _seen(given, data)
    for row in _rows(proof, data):
        void = row.unless is not None and not sum(
            seen[row.unless[0]][a][row.unless[1]] for a in range(data.n_labels)
        )
        if (
            not void
            and sum(c.coefficient * _number(c, given, seen, data) for c in row.counts)
            < row.at_least
        ):
            return False
    return True


# ------------------------------------------------------------------------------------------------------
# what the proof is about


def _data(sketch: Mapping[str, Any]) -> _Data:
    R = len(sketch["labels"])
    patterns = [
        [_LETTERS[c] for c in p] if isinstance(p, str) else list(p) for p in sketch["patterns"]
    ]
    N = len(sketch["classifiers"])
    every = frozenset(range(R))
    listed = sketch.get("allowed") or [None] * len(patterns)
    allowed = [every if a is None else frozenset(a) for a in listed]
    n = list(sketch["n"])
    fine = len(patterns) == len(n) == len(allowed) and all(_is_whole(v) and v > 0 for v in n)
    if (
        not fine
        or any(len(p) != N or min(p) < -1 or max(p) >= R for p in patterns)
        or not all(a and a <= every for a in allowed)
    ):
        raise ValueError("not a sketch")
    return _Data(patterns, n, allowed, N, R)


def _rows(proof: Mapping[str, Any], data: _Data) -> list[_Row]:
    """Statements in order, classifiers outside and labels inside; then low and high of each
    prevalence.
    """
    classifiers, labels = list(proof["sketch"]["classifiers"]), list(proof["sketch"]["labels"])
    rows = []
    for s in proof["spec"]["statements"]:
        if s["kind"] == "linear":
            rows.append(
                _Row([_count(t, classifiers, labels) for t in s["terms"]], _whole(s["at_least"]))
            )
            continue
        theta, strict = Fraction(s["above"]), int(bool(s["strict"]))
        for i in range(data.n_classifiers) if s["of"] is None else [classifiers.index(s["of"])]:
            if s["kind"] == "grade":
                answered = sum(n for p, n in zip(data.patterns, data.n, strict=True) if p[i] >= 0)
                least = math.floor(theta * answered) + 1 if strict else math.ceil(theta * answered)
                rows.append(
                    _Row(
                        [_Count(1, [(i, r)], r) for r in range(data.n_labels)],
                        least if answered else 0,
                    )
                )
            elif s["kind"] == "accuracy":
                for r in range(data.n_labels) if s["on"] is None else [labels.index(s["on"])]:
                    right, all_ = (
                        _Count(theta.denominator, [(i, r)], r),
                        _Count(-theta.numerator, [(i, _ANY)], r),
                    )
                    rows.append(_Row([right, all_], strict, (i, r)))
            else:
                raise ValueError("no such claim")
    for label, (low, high) in proof["spec"]["prevalence"].items():
        place = labels.index(label)
        rows += [
            _Row([_Count(1, [], place)], _whole(low)),
            _Row([_Count(-1, [], place)], -_whole(high)),
        ]
    return rows


def _count(term: Sequence[Any], classifiers: Sequence[str], labels: Sequence[str]) -> _Count:
    coefficient, answers, label = term
    codes = {None: -1, "any answer": _ANY}
    said = [
        (classifiers.index(k), codes[a] if a in codes else labels.index(a))
        for k, a in answers.items()
    ]
    return _Count(_whole(coefficient), said, None if label is None else labels.index(label))


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _whole(value: Any) -> int:
    if not _is_whole(value):
        raise ValueError("not a whole number")
    return int(value)


def _matches(pattern: Sequence[int], answers: Answers) -> bool:
    return all(pattern[i] >= 0 if a == _ANY else pattern[i] == a for i, a in answers)


def _seen(given: Sequence[Mapping[int, int]], data: _Data) -> list[list[list[int]]]:
    """Items by classifier, answer (the last place: none) and true label."""
    seen = [
        [[0] * data.n_labels for _ in range(data.n_labels + 1)] for _ in range(data.n_classifiers)
    ]
    for pattern, row in zip(data.patterns, given, strict=True):
        for label, n in row.items():
            for i, a in enumerate(pattern):
                seen[i][a][label] += n
    return seen


def _number(
    c: _Count,
    given: Sequence[Mapping[int, int]],
    seen: Sequence[Sequence[Sequence[int]]],
    data: _Data,
) -> int:
    if len(c.answers) == 1:
        ((i, a),) = c.answers
        rows = seen[i][: data.n_labels] if a == _ANY else [seen[i][a]]
        return sum(sum(row) if c.label is None else row[c.label] for row in rows)
    inside = (
        row
        for pattern, row in zip(data.patterns, given, strict=True)
        if _matches(pattern, c.answers)
    )
    return sum(sum(row.values()) if c.label is None else row.get(c.label, 0) for row in inside)


# ------------------------------------------------------------------------------------------------------
# weights and cases


def _impossible(
    node: Mapping[str, Any],
    rows: Sequence[_Row],
    splits: Sequence[tuple[_Count, int, bool]],
    data: _Data,
) -> bool:
    """Whether a node proves that no true labels keep the rows and the splits above it."""
    if node["kind"] == "cases":
        counted, at = _form(node["form"], data), node["at"]
        if not _is_whole(at):
            return False
        halves = ((node["below"], True), (node["above"], False))
        return all(
            _impossible(half, rows, [*splits, (counted, at, below)], data) for half, below in halves
        )
    extra = [
        _Row([c._replace(coefficient=-1)], -at) if below else _Row([c], at + 1)
        for c, at, below in splits
    ]
    allowed = _allowed(splits, data)
    if not all(allowed):
        return True
    weighed = [([*rows, *extra][k], w) for k, w in node["weights"]]
    if any(not _is_whole(w) or w < 0 for _, w in weighed) or len(
        {_whole(k) for k, _ in node["weights"] if k >= 0}
    ) != len(weighed):
        return False
    sure = _surely_answered([*rows, *extra], splits, allowed, data)
    needed = sum(w * row.at_least for row, w in weighed if row.unless is None or row.unless in sure)
    if node["group"] is not None:
        g = _whole(node["group"])
        gains = [
            (row.unless, w * row.at_least)
            for row, w in weighed
            if row.unless is not None and row.unless not in sure
        ]
        needed += min(
            sum(b for (i, r), b in gains if r == label and data.patterns[g][i] >= 0)
            for label in allowed[g]
        )
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


def _allowed(splits: Sequence[tuple[_Count, int, bool]], data: _Data) -> list[frozenset[int]]:
    """The labels that each group can have; a count that is at most 0 forbids what it counts."""
    allowed = list(data.allowed)
    for c, at, below in splits:
        if below and at <= 0:
            for g, pattern in enumerate(data.patterns):
                if c.group in {None, g} and _matches(pattern, c.answers):
                    allowed[g] -= {c.label}
    return allowed


def _surely_answered(
    rows: Sequence[_Row],
    splits: Sequence[tuple[_Count, int, bool]],
    allowed: Sequence[frozenset[int]],
    data: _Data,
) -> set[tuple[int, int]]:
    """Pairs (classifier, label) such that the classifier answered an item of the label, whatever
    the true labels are.
    """
    low = [0] * data.n_labels
    for row in rows:
        if len(row.counts) == 1 and row.unless is None:
            (c,) = row.counts
            if c.coefficient == 1 and not c.answers and c.group is None and c.label is not None:
                low[c.label] = max(low[c.label], row.at_least)
    sure = {
        (c.answers[0][0], c.label)
        for c, at, below in splits
        if not below and at >= 0 and c.answers and c.answers[0][1] == _ANY
    }
    unanswered = [[0] * data.n_labels for _ in range(data.n_classifiers)]
    for pattern, n, can in zip(data.patterns, data.n, allowed, strict=True):
        for i, a in enumerate(pattern):
            if a < 0:
                for label in can:
                    unanswered[i][label] += n
            elif len(can) == 1:
                sure.add((i, next(iter(can))))
    sure |= {
        (i, r)
        for i in range(data.n_classifiers)
        for r in range(data.n_labels)
        if low[r] > unanswered[i][r]
    }
    return {(i, r) for i, r in sure if r is not None}


def _largest(
    weighed: Sequence[tuple[_Row, int]], allowed: Sequence[frozenset[int]], data: _Data
) -> int:
    """D = Σ_g n_g max over allowed labels of the weighted coefficients."""
    R = data.n_labels
    base = [0] * R
    table = [[[0] * R for _ in range(R + 1)] for _ in range(data.n_classifiers)]
    others: list[tuple[_Count, int]] = []
    for row, w in weighed:
        for c in row.counts:
            add = w * c.coefficient
            labels = range(R) if c.label is None else [c.label]
            if c.group is not None or len(c.answers) > 1:
                others.append((c, add))
                continue
            for target in _targets(c, table, base, R):
                for label in labels:
                    target[label] += add
    total = 0
    for g, (pattern, n, can) in enumerate(zip(data.patterns, data.n, allowed, strict=True)):
        score = [
            sum(column)
            for column in zip(
                base, *(t[a] for t, a in zip(table, pattern, strict=True)), strict=True
            )
        ]
        for c, add in others:
            if c.group in {None, g} and _matches(pattern, c.answers):
                for label in range(R) if c.label is None else [c.label]:
                    score[label] += add
        total += n * max(score[label] for label in can)
    return total


def _targets(
    c: _Count, table: list[list[list[int]]], base: list[int], R: int
) -> Iterator[list[int]]:
    if not c.answers:
        yield base
    else:
        ((i, a),) = c.answers
        yield from table[i][:R] if a == _ANY else [table[i][a]]


# ------------------------------------------------------------------------------------------------------
# uses of labels alone


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
    """The most items that can have each label: q·uses - p·Q_l ≥ 1 for every claim about it, or Q_l
    = 0.
    """
    uses = _uses(proof)
    total = sum(uses[0])
    most = []
    for r, label in enumerate(proof["sketch"]["labels"]):
        limits = [total]
        for s in proof["spec"]["statements"]:
            if s["kind"] != "accuracy" or not s["strict"]:
                raise ValueError("uses prove nothing about this claim")
            theta = Fraction(s["above"])
            for i, name in enumerate(proof["sketch"]["classifiers"]):
                if s["of"] in {None, name} and s["on"] in {None, label}:
                    limits.append(
                        0
                        if not uses[i][r]
                        else total
                        if not theta
                        else (theta.denominator * uses[i][r] - 1) // theta.numerator
                    )
        most.append(min(limits))
    return most
