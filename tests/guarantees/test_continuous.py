"""Continuous looking: over a whole stream, looked at after every label, the interval misses at any
look in at most 5 % of streams.
"""

from __future__ import annotations

import numpy as np
import pytest

from noracle import AccuracyStream, Race
from noracle.counts import Pattern
from tests.guarantees.measure import excess_p_value, measure_stream
from tests.guarantees.streams import Stream, agrees, all_streams, missed
from tests.guarantees.worlds import Duel, duels

STREAMS = all_streams()
QUICK = {
    "K=4 A=0.78, 500 questions",
    "mixed K=3/50 A=0.95/0.2, 1,000 questions",
    "aimed at another system, K=10 A=0.54, 500",
}
WIDEST = {"anytime": 0.25, "betting": 0.9}


def check(stream: Stream) -> None:
    for interval in stream.intervals:
        row = measure_stream(stream, interval)
        assert not row.significant, row
        assert row.width < WIDEST[interval], row


@pytest.mark.full
@pytest.mark.parametrize("stream", [s for s in STREAMS if s.name in QUICK], ids=lambda s: s.name)
def test_every_look_is_covered(stream: Stream) -> None:
    check(stream)


@pytest.mark.slow
@pytest.mark.parametrize(
    "stream", [s for s in STREAMS if s.name not in QUICK], ids=lambda s: s.name
)
def test_every_look_is_covered_everywhere(stream: Stream) -> None:
    check(stream)


@pytest.mark.parametrize("stream", STREAMS, ids=lambda s: s.name)
def test_wealth_at_the_truth_tells_what_the_public_interval_does(stream: Stream) -> None:
    """The public interval misses only where the wealth says so; the converse too, unless the truth
    is an end of [0, 1].
    """
    codes = stream.draw(np.random.default_rng(3), 60)
    looks = (1, 2, 5, 20, 100, codes.shape[1])
    for interval in stream.intervals:
        by_wealth = missed(stream, interval, codes, error=0.05)
        for row in range(8):
            for look, (public, low, high) in zip(
                looks, agrees(stream, interval, codes[row], looks), strict=True
            ):
                assert low <= high
                assert public == by_wealth[row, look - 1] or (stream.truth in (0, 1) and not public)


def test_fixed_sample_interval_fails_under_continuous_looking() -> None:
    """What the sequence is for: the exact interval, looked at after every label, misses far too
    often.
    """
    from noracle.bounds.binomial import clopper_pearson

    rng = np.random.default_rng(1)
    n, streams = 300, 400
    sums = np.cumsum(rng.random((streams, n)) < 0.5, axis=1)
    table = {}
    misses = 0
    for row in sums:
        for t in range(5, n, 5):
            key = int(row[t]), t + 1
            if key not in table:
                low, high = clopper_pearson(*key, 0.025, 0.025)
                table[key] = low <= 0.5 <= high
            if not table[key]:
                misses += 1
                break
    assert excess_p_value(misses, streams, 0.05) < 1e-4


@pytest.mark.full
@pytest.mark.parametrize("interval", ["anytime", "betting"])
def test_stream_object_holds_through_missing_answers(interval: str) -> None:
    """Questions, 30 % without an answer; the stream object itself, looked at on a grid."""
    rng = np.random.default_rng(11)
    k, share, rate, streams, n = 5, 0.7, 0.8, 200, 200
    misses = 0
    for _ in range(streams):
        stream = AccuracyStream(
            n_classes=k, interval=interval, answered_share=share if interval == "anytime" else 1.0
        )  # type: ignore[arg-type]
        for t in range(n):
            truth, asked = int(rng.integers(k)), int(rng.integers(k))
            given = truth if rng.random() < rate else (truth + 1 + int(rng.integers(k - 1))) % k
            stream.update(
                answer=given if rng.random() < share else None,
                asked=asked,
                verdict="yes" if asked == truth else "no",
            )
            if (
                t in (1, 3, 10, 30, 60, 100, 150, 199)
                and not stream.low <= rate * share <= stream.high
            ):
                misses += 1
                break
    assert excess_p_value(misses, streams, 0.05) > 1e-4
    assert stream.high - stream.low < 0.45


@pytest.mark.full
def test_stream_object_holds_where_unanswered_items_are_asked_uniformly() -> None:
    """A targeted design asks items without an answer uniformly, so that the design goes with the
    item.
    """
    rng = np.random.default_rng(12)
    k, share, rate, streams, n, epsilon = 10, 0.6, 0.6, 150, 250, 0.1
    misses = 0
    for _ in range(streams):
        stream = AccuracyStream(n_classes=k, interval="betting")
        for t in range(n):
            if rng.random() < share:
                right, aimed = rng.random() < rate, 1 - epsilon + epsilon / k
                if rng.random() < aimed:
                    stream.update(
                        answer=0, asked=0, verdict="yes" if right else "no", propensity=aimed
                    )
                else:
                    stream.update(answer=0, asked=1, verdict="no", propensity=epsilon / k)
            else:
                stream.update(
                    answer=None,
                    asked=3,
                    verdict="yes" if rng.random() < 1 / k else "no",
                    propensity=1 / k,
                )
            if t in (5, 20, 60, 120, 249) and not stream.low <= rate * share <= stream.high:
                misses += 1
                break
    assert excess_p_value(misses, streams, 0.05) > 1e-4
    assert stream.high - stream.low < 0.35


def race_losses(parts: tuple[Duel, ...], races: int, n: int, *, mixed: bool) -> int:
    """In how many races the first system, which is as good, was ever dropped."""
    rng = np.random.default_rng(4)
    world = duels(parts, 1)
    codes = world.draw(rng, races * n).argmax(axis=1).reshape(races, n)
    one_hot = np.eye(world.draw(rng, 1).shape[1], dtype=int)
    patterns: dict[int, Pattern] = {
        c: next(iter(world.build(tuple(one_hot[c].tolist())).patterns))
        for c in set(codes.ravel().tolist())
    }
    lost = 0
    for row in codes:
        race = Race(("a", "b"), n_classes=max(d.k for d in parts), mixed=mixed)
        for c in row.tolist():
            race.update(patterns[c])
            if race.dropped:
                break
        lost += "a" in race.dropped
    return lost


@pytest.mark.full
def test_race_rarely_drops_a_system_that_is_as_good() -> None:
    lost = race_losses((Duel(4, 1.0, 0.5, 0.15, 0.15, 0.1),), 300, 200, mixed=False)
    assert excess_p_value(lost, 300, 0.05) > 1e-4


@pytest.mark.full
def test_race_with_different_numbers_of_classes_rarely_drops_a_system_that_is_as_good() -> None:
    """Each is better on one kind of item, and yes is mostly said on one of them; the same bet on
    all labels is needed.
    """
    parts = (Duel(3, 0.5, 0.2, 0.1, 0.6), Duel(20, 0.5, 0.2, 0.6, 0.1))
    lost = race_losses(parts, 200, 250, mixed=True)
    assert excess_p_value(lost, 200, 0.05) > 1e-4
