"""Properties of counts, estimates, comparisons and races."""

from __future__ import annotations

import dataclasses
import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from noracle import (
    AccuracyCounts,
    AccuracyStream,
    PatternCounts,
    Race,
    compare_systems,
    estimate_accuracy,
    range_unsure,
    read_result,
)
from noracle.accuracy.compare import _Sample
from noracle.bounds.betting import log_wealth
from noracle.counts import Cell, Pattern, Tally

SLACK = 1e-9


@st.composite
def tallies(draw: st.DrawFn, most: int = 30) -> Tally:
    k = draw(st.sampled_from([2, 3, 10]))
    verdict = draw(st.sampled_from(["yes", "no", "unsure"]))
    hit = draw(st.booleans())
    answered = hit or draw(st.booleans())
    m = draw(st.integers(1, k - 1)) if verdict == "no" else 0
    stratum = draw(st.sampled_from(["", "a"]))
    return Tally("s", k, verdict, hit, answered, m, hit and verdict == "no", stratum=stratum)  # type: ignore[arg-type]


@st.composite
def counts(draw: st.DrawFn) -> AccuracyCounts:
    labelled = draw(st.dictionaries(tallies(), st.integers(1, 30), max_size=6))
    items: dict[Cell, int] = {}
    answered: dict[Cell, int] = {}
    for t, n in labelled.items():
        cell = Cell("s", t.n_classes, t.stratum)
        items[cell] = items.get(cell, 0) + n
        answered[cell] = answered.get(cell, 0) + (n if t.answered else 0)
    for cell in list(items) or [Cell("s", 4)]:
        more = draw(st.integers(0, 50))
        items[cell] = items.get(cell, 0) + more
        answered[cell] = answered.get(cell, 0) + draw(st.integers(0, more))
    return AccuracyCounts(tallies=labelled, items=items, answered=answered)


@given(
    counts(),
    st.sampled_from(["exact", "anytime", "betting"]),
    st.sampled_from(["answers", "beyond"]),
)
def test_every_estimate_is_honest(found: AccuracyCounts, interval: str, population: str) -> None:
    estimate = estimate_accuracy(found, interval=interval, population=population)  # type: ignore[arg-type]
    assert 0 <= estimate.low <= estimate.high <= 1
    share = (
        sum(found.answered.values()) / sum(found.items.values())
        if sum(found.items.values())
        else 1.0
    )
    if population == "answers":
        assert estimate.high <= share + SLACK
    assert math.isnan(estimate.value) == bool(estimate.reason)
    assert read_result(estimate.to_dict()).to_dict() == estimate.to_dict()


@given(counts(), counts())
def test_counts_add_and_come_back_from_json(a: AccuracyCounts, b: AccuracyCounts) -> None:
    total = a + b
    assert sum(total.tallies.values()) == sum(a.tallies.values()) + sum(b.tallies.values())
    assert total.to_dict() == (b + a).to_dict()
    assert AccuracyCounts.from_dict(total.to_dict()).to_dict() == total.to_dict()
    for name, number in total.summary().items():
        if isinstance(number, int):
            assert number == a.summary()[name] + b.summary()[name]


pairs = st.tuples(st.integers(0, 300), st.integers(0, 300))


@given(st.integers(2, 50), pairs, pairs, st.integers(0, 20))
def test_published_numbers_survive_json(
    k: int, o: tuple[int, int], c: tuple[int, int], without: int
) -> None:
    ordinary, complementary = (max(o), min(o)), (max(c), min(c))
    found = AccuracyCounts.from_counts(
        n_classes=k, ordinary=ordinary, complementary=complementary, n_without_answer=without
    )
    back = AccuracyCounts.from_dict(found.to_dict())
    assert back == found
    summary = back.summary()
    assert (summary["ordinary"], summary["ordinary_right"]) == ordinary
    assert (summary["complementary"], summary["complementary_avoided"]) == complementary
    assert summary["without_answer"] == without


@given(counts(), tallies(), st.sampled_from(["exact", "anytime", "betting"]))
def test_another_label_never_breaks_an_estimate(
    found: AccuracyCounts, tally: Tally, interval: str
) -> None:
    more = dict(found.tallies)
    more[tally] = more.get(tally, 0) + 1
    cell = Cell("s", tally.n_classes, tally.stratum)
    items = {**found.items, cell: found.items.get(cell, 0) + 1}
    answered = {**found.answered, cell: found.answered.get(cell, 0) + tally.answered}
    estimate = estimate_accuracy(
        AccuracyCounts(tallies=more, items=items, answered=answered), interval=interval
    )  # type: ignore[arg-type]
    assert 0 <= estimate.low <= estimate.high <= 1


@given(
    st.integers(2, 12),
    st.lists(
        st.tuples(st.sampled_from(["yes", "no", "unsure"]), st.booleans()), min_size=1, max_size=60
    ),
    st.sampled_from(["anytime", "betting"]),
)
def test_stream_equals_estimate_on_its_counts(
    k: int, labels: list[tuple[str, bool]], interval: str
) -> None:
    stream = AccuracyStream(n_classes=k, interval=interval)  # type: ignore[arg-type]
    for verdict, hit in labels:
        stream.update(answer=1, asked=1 if hit else 0, verdict=verdict)
    method = "ml" if interval == "anytime" else "scores"
    batch = estimate_accuracy(stream.counts, method=method, interval=interval)  # type: ignore[arg-type]
    assert (stream.low, stream.high) == pytest.approx((batch.low, batch.high), abs=1e-8)
    now = stream.estimate()
    assert (now.low, now.high) == pytest.approx((stream.low, stream.high), abs=1e-8)
    assert now.value == pytest.approx(batch.value, nan_ok=True)


some, few = st.integers(0, 15), st.integers(0, 6)


@given(st.integers(2, 12), some, some, some, some, few, few, st.data())
def test_range_of_unsure_contains_every_way_to_resolve_it(
    k: int,
    yes_hit: int,
    yes_miss: int,
    no_hit: int,
    no_miss: int,
    about_answer: int,
    about_other: int,
    data: st.DataObject,
) -> None:
    known = {
        Tally("s", k, "yes", True): yes_hit,
        Tally("s", k, "yes", False): yes_miss,
        Tally("s", k, "no", True, n_ruled_out=1, ruled_hit=True): no_hit,
        Tally("s", k, "no", False, n_ruled_out=1): no_miss,
    }
    unsure = {
        Tally("s", k, "unsure", True): about_answer,
        Tally("s", k, "unsure", False): about_other,
    }
    n = sum(known.values()) + about_answer + about_other
    assume(n > 0)
    place = {Cell("s", k): n}
    ranges = range_unsure(
        AccuracyCounts(
            tallies={t: c for t, c in (known | unsure).items() if c}, items=place, answered=place
        )
    )
    to_yes = data.draw(st.integers(0, about_answer)), data.draw(st.integers(0, about_other))
    resolved = list(known.values())
    resolved = [
        resolved[0] + to_yes[0],
        resolved[1] + to_yes[1],
        resolved[2] + about_answer - to_yes[0],
        resolved[3] + about_other - to_yes[1],
    ]
    # Items are a sample of more: for all items that there are the estimate is by drawing without
    # replacement, the range by Clopper and Pearson, and of two valid intervals neither contains the
    # other.
    tallies = dict(zip(known, resolved, strict=True))
    truth = estimate_accuracy(
        AccuracyCounts(tallies=tallies, items=place, answered=place, whole=False), interval="exact"
    )
    assert ranges["value"].low - SLACK <= truth.value <= ranges["value"].high + SLACK
    assert ranges["interval"].low - SLACK <= truth.low
    assert truth.high <= ranges["interval"].high + SLACK


hits = st.sampled_from([True, False, None])


@st.composite
def patterns(draw: st.DrawFn) -> PatternCounts:
    k = draw(st.sampled_from([3, 10]))
    shown = st.dictionaries(st.tuples(hits, hits), st.integers(1, 60), max_size=5)
    yes = draw(shown)
    no = draw(shown)
    return PatternCounts.from_counts(n_classes=k, systems=("a", "b"), yes=yes, no=no)


@given(patterns(), st.sampled_from(["betting", "wald"]))
def test_comparison_is_antisymmetric(found: PatternCounts, interval: str) -> None:
    swapped = PatternCounts(
        systems=("b", "a"), patterns={swapped_hits(p): n for p, n in found.patterns.items()}
    )
    result = compare_systems(found, interval=interval)  # type: ignore[arg-type]
    there, mirrored = result.difference("a", "b"), result.difference("b", "a")
    back = compare_systems(swapped, interval=interval).difference("a", "b")  # type: ignore[arg-type]
    assert -1 <= there.low <= there.high <= 1
    assert (there.value, there.low, there.high) == pytest.approx(
        (back.value, back.low, back.high), abs=1e-7, nan_ok=True
    )
    assert (mirrored.low, mirrored.high) == (-there.high, -there.low)


def swapped_hits(p: Pattern) -> Pattern:
    return p._replace(hits=tuple(reversed(p.hits)))


@given(patterns(), st.booleans())
def test_race_holds_the_wealth_of_the_batch(found: PatternCounts, mixed: bool) -> None:
    """The race after all labels has the wealth of a bet that the difference is above 0 on all of
    them.
    """
    k = max((p.n_classes for p in found.patterns), default=3)
    race = Race(("a", "b"), n_classes=k, confidence=1 - 1e-12, mixed=mixed)
    for p, n in found.patterns.items():
        for _ in range(n):
            race.update(p)
    bulk = Race(("a", "b"), n_classes=k, confidence=1 - 1e-12, mixed=mixed)
    for p, n in found.patterns.items():
        bulk.update(p, times=n)
    for i, j in ((0, 1), (1, 0)):
        rows = (
            _Sample(found).rows(i, j) if any(p.verdict != "unsure" for p in found.patterns) else ()
        )
        if mixed:
            rows = tuple(dataclasses.replace(r, low=float(1 - k)) for r in rows)
        if rows:
            wanted = log_wealth(rows, 0.0)
            for r in (race, bulk):
                logs = r._wealth[i, j] + _prior()
                top = float(logs.max())
                got = (
                    top + math.log(sum(math.exp(x - top) for x in logs))
                    if math.isfinite(top)
                    else top
                )
                assert got == pytest.approx(wanted, abs=1e-7)


def _prior() -> object:
    from noracle.bounds.betting import LOG_PRIOR

    return LOG_PRIOR
