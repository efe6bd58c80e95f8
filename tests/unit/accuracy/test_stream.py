from __future__ import annotations

import math
import time

import pytest

from noracle import AccuracyStream, ArgumentError, EvidenceError


def test_stream_starts_with_nothing() -> None:
    for interval in ("anytime", "betting"):
        stream = AccuracyStream(n_classes=4, interval=interval)  # type: ignore[arg-type]
        assert (stream.low, stream.high, stream.n) == (0.0, 1.0, 0)
        estimate = stream.estimate()
        assert math.isnan(estimate.value)
        assert estimate.reason


def test_stream_narrows_and_keeps_only_counts() -> None:
    stream = AccuracyStream(n_classes=4)
    widths = []
    for t in range(300):
        stream.update(answer=t % 4, asked=t % 4, verdict="yes" if t % 5 else "no")
        widths.append(stream.high - stream.low)
    assert widths[299] < widths[99] < widths[19]
    assert len(stream.counts.tallies) == 2
    assert stream.estimate().guarantee.anytime


def test_unanswered_items_count_as_wrong_in_a_stream_of_scores() -> None:
    answered, half = (
        AccuracyStream(n_classes=3, interval="betting"),
        AccuracyStream(n_classes=3, interval="betting"),
    )
    for t in range(200):
        answered.update(answer=1, asked=1, verdict="yes")
        half.update(answer=1 if t % 2 else None, asked=1, verdict="yes")
    assert answered.low > 0.9
    assert half.low < 0.5 < half.high < 0.7


def test_known_answered_share_scales_the_interval() -> None:
    full, part = AccuracyStream(n_classes=3), AccuracyStream(n_classes=3, answered_share=0.5)
    for _ in range(50):
        for stream in (full, part):
            stream.update(answer=1, asked=1, verdict="yes")
    assert (part.low, part.high) == pytest.approx((full.low / 2, full.high / 2))
    assert part.estimate().value == pytest.approx(full.estimate().value / 2)


def test_unanswered_items_need_a_known_share_or_scores() -> None:
    with pytest.raises(ArgumentError, match="answered_share must be given"):
        AccuracyStream(n_classes=3).update(answer=None, asked=1, verdict="no")


def test_recorded_propensities_need_scores_and_come_with_every_label() -> None:
    with pytest.raises(ArgumentError, match="interval must be 'betting'"):
        AccuracyStream(n_classes=3).update(answer=1, asked=1, verdict="no", propensity=0.9)
    stream = AccuracyStream(n_classes=3, interval="betting")
    stream.update(answer=1, asked=1, verdict="no", propensity=0.9)
    with pytest.raises(ArgumentError, match="for every label of a stream or for none"):
        stream.update(answer=1, asked=1, verdict="no")
    assert stream.n == 1


@pytest.mark.parametrize(
    ("label", "words"),
    [
        ({"verdict": "maybe"}, "verdict must be"),
        ({"propensity": 0.0}, "propensity"),
        ({"propensity": 1.5}, "propensity"),
    ],
)
def test_bad_labels_are_refused(label: dict[str, object], words: str) -> None:
    with pytest.raises(EvidenceError, match=words):
        AccuracyStream(n_classes=3, interval="betting").update(
            **{"answer": 1, "asked": 1, "verdict": "no", **label}
        )  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "options",
    [{"n_classes": 1}, {"confidence": 1.0}, {"interval": "exact"}, {"answered_share": 0.0}],
)
def test_bad_streams_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="must be"):
        AccuracyStream(**{"n_classes": 3, **options})  # type: ignore[arg-type]


@pytest.mark.full
@pytest.mark.timing
def test_update_and_look_take_about_a_millisecond() -> None:
    stream = AccuracyStream(n_classes=10)
    for t in range(2000):
        stream.update(answer=0, asked=t % 10, verdict="no" if t % 10 else "yes")
    start = time.process_time()
    for t in range(200):
        stream.update(answer=0, asked=t % 10, verdict="no" if t % 10 else "yes")
        assert stream.low <= stream.high
    assert (time.process_time() - start) / 200 < 5e-3  # a millisecond on an idle machine


def test_stream_that_contradicts_itself_is_not_reversed() -> None:
    stream = AccuracyStream(n_classes=9, interval="betting")
    stream.update(answer=1, asked=1, verdict="yes")
    for _ in range(4):
        stream.update(answer=1, asked=1, verdict="no")
    assert stream.low == stream.high == 0.0
