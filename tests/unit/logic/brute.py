"""Every assignment of true labels, one by one: the referee of the small instances. Uses none of the
code under test.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from noracle.counts.sketch import Sketch
from noracle.logic.spec import Spec


class Instance(NamedTuple):
    sketch: Sketch
    spec: Spec
    prevalence: Mapping[str, tuple[int, int]] | None


def shares(n: int, labels: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """All ways to give n items these labels."""
    if len(labels) == 1:
        yield (n,)
        return
    for first in range(n + 1):
        for rest in shares(n - first, labels[1:]):
            yield (first, *rest)


def evaluations(sketch: Sketch) -> Iterator[list[dict[int, int]]]:
    """All counts n_{g,l}, as one dict a group."""
    options = []
    for n, can in zip(sketch.n.tolist(), sketch.allowed, strict=True):
        labels = np.flatnonzero(can).tolist()
        options.append([dict(zip(labels, share, strict=True)) for share in shares(n, labels)])
    return (list(choice) for choice in itertools.product(*options))


def tables(sketch: Sketch) -> set[tuple[int, ...]]:
    """All reachable (right by classifier and label, answered by classifier and label, prevalence),
    without repeats.
    """
    N, R = len(sketch.classifiers), len(sketch.labels)
    reached = {(0,) * (2 * N * R + R)}
    for pattern, n, can in zip(
        sketch.patterns.tolist(), sketch.n.tolist(), sketch.allowed, strict=True
    ):
        labels = np.flatnonzero(can).tolist()
        added = set()
        for share in shares(n, labels):
            vector = [0] * (2 * N * R + R)
            for label, m in zip(labels, share, strict=True):
                vector[2 * N * R + label] += m
                for i, answer in enumerate(pattern):
                    if answer >= 0:
                        vector[N * R + i * R + label] += m
                        vector[i * R + label] += m * (answer == label)
            added.add(tuple(vector))
        reached = {tuple(map(sum, zip(a, b, strict=True))) for a in reached for b in added}
    return reached


def possible(instance: Instance) -> bool:
    """Whether some true labels satisfy every accuracy statement of the spec."""
    sketch, spec, prevalence = instance
    N, R = len(sketch.classifiers), len(sketch.labels)
    ranges = {sketch.labels.index(label): b for label, b in (prevalence or {}).items()}
    for vector in tables(sketch):
        right, answered, counts = vector[: N * R], vector[N * R : 2 * N * R], vector[2 * N * R :]
        if any(not low <= counts[r] <= high for r, (low, high) in ranges.items()):
            continue
        if all(_holds(s, sketch, right, answered) for s in spec.statements):
            return True
    return False


def side_is_possible(instance: Instance) -> bool:
    """Whether the side information alone can be true."""
    return possible(instance._replace(spec=Spec(statements=())))


def _holds(s: Any, sketch: Sketch, right: Sequence[int], answered: Sequence[int]) -> bool:
    R = len(sketch.labels)
    for i, name in enumerate(sketch.classifiers):
        if s.of not in {None, name}:
            continue
        if s.kind == "grade":
            pairs = [(sum(right[i * R : i * R + R]), sum(answered[i * R : i * R + R]))]
        else:
            pairs = [
                (right[i * R + r], answered[i * R + r])
                for r, label in enumerate(sketch.labels)
                if s.on in {None, label}
            ]
        for good, total in pairs:
            if total and not (
                Fraction(good, total) > s.above
                or (not s.strict and Fraction(good, total) == s.above)
            ):
                return False
    return True


def random_instance(rng: np.random.Generator) -> Instance:
    """N ≤ 3, R ≤ 3, Q ≤ 8; both kinds of specification, missing answers, side information,
    prevalence ranges.
    """
    N, R, Q = int(rng.integers(1, 4)), int(rng.integers(2, 4)), int(rng.integers(1, 9))
    labels = ["a", "b", "c"][:R]
    names = ["x", "y", "z"][:N]
    skill = rng.uniform(0, 1)
    truth = rng.integers(0, R, Q)
    codes = np.where(rng.random((Q, N)) < skill, truth[:, None], rng.integers(0, R, (Q, N)))
    if rng.random() < 0.4:
        codes[rng.random((Q, N)) < 0.3] = -1
    allowed = np.ones((Q, R), dtype=bool)
    if rng.random() < 0.5:
        out = rng.integers(0, R, Q)
        allowed[np.arange(Q), out] = rng.random(Q) < 0.6
        known = rng.random(Q) < 0.15
        allowed[known] = np.eye(R, dtype=bool)[truth[known]]
    prevalence = None
    if rng.random() < 0.4:
        prevalence = {}
        for label in rng.permutation(labels)[: int(rng.integers(1, R + 1))].tolist():
            low = int(rng.integers(0, Q + 1))
            prevalence[label] = (low, int(rng.integers(low, Q + 1)))
    spec = Spec(statements=())
    for _ in range(int(rng.integers(1, 3))):
        above = str(rng.choice(["0", "1/3", "1/2", "1/2", "3/5", "2/3", "0.7", "9/10"]))
        of = None if rng.random() < 0.7 else str(rng.choice(names))
        strict = bool(rng.random() < 0.8)
        if rng.random() < 0.35:
            spec = spec & Spec.grade(above, of=of, strict=strict)
        else:
            on = None if rng.random() < 0.7 else str(rng.choice(labels))
            spec = spec & Spec.accuracy(above, of=of, on=on, strict=strict)
    return Instance(
        Sketch.from_arrays(codes, labels=labels, classifiers=names, allowed=allowed),
        spec,
        prevalence,
    )
