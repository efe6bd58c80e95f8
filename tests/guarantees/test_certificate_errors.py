"""Type-I error of certificates at the exact boundary: the mean of Z equals the margin, and
certifying is wrong.

Each world is a list of kinds of items (ratings, answer) with probabilities chosen so that match
rate minus ceiling is exactly the margin.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from noracle.counts.ratings import RatingCounts
from noracle.superhuman.certify import CertificateStream, certify_superhuman
from tests.guarantees.measure import excess_p_value

F = Fraction
ZERO = F(0)
RUNS = 1000
LABELS = 5


@dataclasses.dataclass(frozen=True, kw_only=True)
class World:
    """Kinds of items with their probabilities; ratings are labels, answer None is no answer."""

    name: str
    kinds: tuple[tuple[tuple[int, ...], int | None, F], ...]
    margin: F = ZERO

    def mean(self) -> F:
        """The mean of Z, counted by hand."""
        total = F(0)
        for ratings, answer, p in self.kinds:
            votes = Counter(ratings)
            top = max(votes.values())
            tied = [label for label, n in votes.items() if n == top]
            total += p * ((F(1, len(tied)) if answer in tied else F(0)) - F(top, len(ratings)))
        return total

    @property
    def has_ties(self) -> bool:
        return any(
            sorted(Counter(ratings).values())[-2:].count(max(Counter(ratings).values())) > 1
            for ratings, _, _ in self.kinds
        )

    def counts(self, drawn: tuple[int, ...]) -> RatingCounts:
        """Counts of a sample with so many items of each kind."""
        votes = np.zeros((len(self.kinds), LABELS), dtype=np.int64)
        answers = np.array([-1 if answer is None else answer for _, answer, _ in self.kinds])
        for row, (ratings, _, _) in enumerate(self.kinds):
            for label in ratings:
                votes[row, label] += 1
        times = np.asarray(drawn)
        return RatingCounts.from_votes(
            np.repeat(votes, times, axis=0),
            labels=range(LABELS),
            answers={"agent": np.repeat(answers, times)},
        )


def boundary(
    name: str, kinds: list[tuple[tuple[int, ...], int | None, F]], margin: F = ZERO
) -> World:
    """The kinds with what is missing to 1 filled with unanimous items and their match (Z = 0), or
    with misses to reach the margin.
    """
    rest = 1 - sum((p for _, _, p in kinds), F(0))
    partial = World(name=name, kinds=tuple(kinds)).mean()
    misses = partial - margin  # a unanimous miss has Z = -1
    assert 0 <= misses <= rest, name
    world = World(
        name=name,
        margin=margin,
        kinds=(*kinds, ((0, 0, 0), 1, misses), ((0, 0, 0), 0, rest - misses)),
    )
    assert world.mean() == margin
    assert sum(p for _, _, p in world.kinds) == 1
    return world


def with_votes(name: str, k: int, split: int, share: F, margin: F = ZERO) -> World:
    """K ratings: a share of items is split k - split to split and matched; unanimous misses make up
    for it.
    """
    kinds = [((0,) * (k - split) + (1,) * split, 0, share)]
    gain = share * F(split, k)
    misses = gain - margin
    kinds += [((0,) * k, 2, misses), ((0,) * k, 0, 1 - share - misses)]
    world = World(name=name, kinds=tuple(kinds), margin=margin)
    assert world.mean() == margin
    return world


WORLDS = (
    World(name="K=2, ties only", kinds=(((0, 1), 0, F(1)),)),
    World(name="K=2, ties and agreement", kinds=(((0, 1), 0, F(1, 3)), ((0, 0), 0, F(2, 3)))),
    with_votes("K=3, many splits", 3, 1, F(1, 2)),
    with_votes("K=3, rare losses", 3, 1, F(3, 100)),
    with_votes("K=3, margin", 3, 1, F(3, 5), F(1, 10)),
    with_votes("K=5, very rare losses", 5, 1, F(1, 50)),
    with_votes("K=5, wide splits", 5, 2, F(1, 2)),
    with_votes("K=5, margin close to the most", 5, 2, F(9, 10), F(7, 20)),
    boundary(
        "ties among three, no answers",
        [((0, 1, 2), 0, F(1, 5)), ((0, 1, 2), None, F(1, 50)), ((0, 0, 1), 0, F(1, 4))],
    ),
    boundary(
        "numbers of ratings vary",
        [
            ((0,), 0, F(1, 5)),
            ((0, 1, 0, 1, 2), 0, F(1, 5)),
            ((0, 0, 1), 0, F(1, 10)),
            ((0, 1), 1, F(1, 10)),
        ],
    ),
    boundary(
        "adaptive: five where two disagree",
        [((0, 1, 0, 0, 1), 0, F(3, 10)), ((0, 1, 2, 3, 4), 4, F(1, 10))],
    ),
    World(name="no spread at all", kinds=(((0, 0, 0), 0, F(1)),)),
)
QUICK = (
    "K=3, rare losses",
    "numbers of ratings vary",
    "K=2, ties and agreement",
    "ties among three, no answers",
)
SIZES = (1, 2, 10, 1000)
TESTS = (
    ("betting", "share"),
    ("betting", "random"),
    ("bernstein", "share"),
    ("bernstein", "random"),
    ("binomial", "random"),
)


def attained(world: World, test: str, ties: str, n: int, runs: int = RUNS) -> list[float]:
    """The confidence at which the claim is certified in each of many samples; each different sample
    is looked at once.
    """
    rng = np.random.default_rng([n, len(world.name), len(test)])
    drawn = Counter(
        map(tuple, rng.multinomial(n, [float(p) for *_, p in world.kinds], size=runs).tolist())
    )
    found = []
    for sample, times in drawn.items():
        counts = world.counts(sample)
        for _ in range(times if ties == "random" else 1):
            result = certify_superhuman(
                counts,
                test=test,
                ties=ties,
                margin=float(world.margin),
                trained_on_annotators="no",
                seed=int(rng.integers(2**31)),  # type: ignore[arg-type]
            )
            assert result.certified == (result.attained >= 0.95 and not result.reasons)
            found += [result.attained] * (1 if ties == "random" else times)
    return found


def check(world: World, test: str, ties: str, n: int) -> None:
    """At several confidences at once: the p-values are not too small."""
    found = attained(world, test, ties, n)
    for confidence in (0.5, 0.8, 0.9, 0.95, 0.99):
        wrong, error = sum(a >= confidence for a in found), 1 - confidence
        assert wrong / RUNS <= error + 3 * math.sqrt(error * confidence / RUNS), (
            world.name,
            test,
            ties,
            n,
            confidence,
            wrong,
        )


@pytest.mark.full
@pytest.mark.parametrize("world", [w for w in WORLDS if w.name in QUICK], ids=lambda w: w.name)
@pytest.mark.parametrize(
    ("test", "ties"), [("betting", "share"), ("bernstein", "share"), ("binomial", "random")]
)
def test_false_claims_are_rarely_certified(world: World, test: str, ties: str) -> None:
    check(world, test, ties, 60)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("world", "test", "ties"),
    [
        (w, test, ties)
        for w in WORLDS
        for test, ties in TESTS
        if test == "binomial" or ties == "share" or w.has_ties
    ],
    ids=lambda v: v.name if isinstance(v, World) else v,
)
@pytest.mark.parametrize("n", SIZES)
def test_false_claims_are_rarely_certified_everywhere(
    world: World, test: str, ties: str, n: int
) -> None:
    check(world, test, ties, n)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ceiling", "test"),
    [
        ("free", "binomial"),
        ("quadratic", "binomial"),
        ("paper", "binomial"),
        ("paper", "paper-hms"),
        ("paper", "paper-oms"),
    ],
)
def test_looser_ceilings_are_rarely_wrong_at_their_own_boundary(ceiling: str, test: str) -> None:
    """Match rate equal to the ceiling itself; the published scores promise twice the error."""
    k, n, confidence = 5, 500, 0.8
    rng = np.random.default_rng(5)
    agree = F(1, 2)  # share of unanimous items; the others are 4 to 1
    v = float(agree + (1 - agree) * F(12, 20))
    from noracle.superhuman.difference import bound_at

    rate = bound_at(ceiling, v, k)  # type: ignore[arg-type]
    wrong, promised = 0, 0.0
    for _ in range(RUNS):
        unanimous = rng.random(n) < float(agree)
        ratings = np.zeros((n, k), dtype=int)
        ratings[~unanimous, 4] = 1
        answers = np.where(rng.random(n) < rate, 0, 2)
        counts = RatingCounts.from_arrays(ratings, labels=3, answers={"agent": answers})
        result = certify_superhuman(
            counts, test=test, ceiling=ceiling, confidence=confidence, trained_on_annotators="no"
        )  # type: ignore[arg-type]
        wrong += result.certified
        promised = result.guarantee.error_rate
    assert wrong / RUNS <= promised + 3 * math.sqrt(promised * (1 - promised) / RUNS)


def test_the_asymptotic_test_fails_where_it_must_and_this_measurement_sees_it() -> None:
    """Losses so rare that most samples have none: Student's t certifies far too often, betting does
    not.
    """
    world = next(w for w in WORLDS if w.name == "K=5, very rare losses")
    wrong = sum(a >= 0.95 for a in attained(world, "t", "share", 500))
    assert excess_p_value(wrong, RUNS, 0.05) < 1e-4
    check(world, "betting", "share", 500)


def test_tests_have_power_beyond_the_boundary() -> None:
    """A test that never certifies would pass everything above."""
    kinds = (((0, 0, 1), 0, F(1, 2)), ((0, 0, 0), 0, F(49, 100)), ((0, 0, 0), 1, F(1, 100)))
    world = World(name="clearly better", kinds=kinds)
    for test, ties in TESTS:
        assert sum(a >= 0.95 for a in attained(world, test, ties, 400, runs=50)) >= 48, test


# ------------------------------------------------------------------------------------------------------------------
# streams


def ever_certified(world: World, streams: int, looks: int, confidence: float, seed: int = 0) -> int:
    rng = np.random.default_rng(seed)
    shares = [float(p) for *_, p in world.kinds]
    found = 0
    for _ in range(streams):
        stream = CertificateStream(
            margin=float(world.margin), trained_on_annotators="no", confidence=confidence
        )
        for kind in rng.choice(len(shares), size=looks, p=shares):
            ratings, answer, _ = world.kinds[kind]
            stream.update(ratings=ratings, answer=answer)
            if stream.attained >= confidence:
                found += 1
                break
    return found


def test_a_stream_looked_at_after_every_item_rarely_certifies_a_false_claim() -> None:
    world = next(w for w in WORLDS if w.name == "K=3, many splits")
    wrong = ever_certified(world, 300, 100, 0.8)
    assert wrong / 300 <= 0.2 + 3 * math.sqrt(0.16 / 300)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "K=3, many splits",
        "K=3, margin",
        "K=5, very rare losses",
        "adaptive: five where two disagree",
    ],
)
def test_two_thousand_streams_looked_at_after_every_item(name: str) -> None:
    world = next(w for w in WORLDS if w.name == name)
    wrong = ever_certified(world, 2000, 300, 0.9, seed=1)
    assert wrong / 2000 <= 0.1 + 3 * math.sqrt(0.09 / 2000)
