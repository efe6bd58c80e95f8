"""Certificates while items come in."""

from __future__ import annotations

import numpy as np
import pytest

from noracle.counts.ratings import RatingCounts
from noracle.errors import ArgumentError, EvidenceError
from noracle.superhuman.certify import CertificateStream, certify_superhuman


def items(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    truth = rng.integers(3, size=n)
    ratings = np.where(rng.random((n, 4)) < 0.7, truth[:, None], rng.integers(3, size=(n, 4)))
    ratings[rng.random((n, 4)) < 0.2] = -1
    ratings[:, 0] = np.where(ratings[:, 0] < 0, truth, ratings[:, 0])
    return ratings, np.where(rng.random(n) < 0.95, truth, -1)


@pytest.mark.parametrize("margin", [0.0, 0.03])
def test_a_stream_is_the_certificate_of_the_items_so_far(margin: float) -> None:
    ratings, answers = items(200)
    stream = CertificateStream(system="agent", margin=margin, trained_on_annotators="no")
    for i, (row, answer) in enumerate(
        zip(ratings.tolist(), answers.tolist(), strict=True), start=1
    ):
        stream.update(
            ratings=[None if r < 0 else r for r in row], answer=None if answer < 0 else answer
        )
        if i in (1, 2, 7, 60, 200):
            counts = RatingCounts.from_arrays(ratings[:i], labels=3, answers={"agent": answers[:i]})
            whole, now = (
                certify_superhuman(counts, margin=margin, trained_on_annotators="no"),
                stream.certificate(),
            )
            assert (now.certified, now.counts, now.reasons) == (
                whole.certified,
                whole.counts,
                whole.reasons,
            )
            assert (now.value, now.low) == pytest.approx((whole.value, whole.low), abs=1e-12)
            assert stream.attained == pytest.approx(now.attained, abs=1e-12)
            assert now.guarantee.anytime
            assert now.verify()
    assert stream.n == 200


def test_batches_and_single_items_are_the_same() -> None:
    ratings, answers = items(150)
    one, many = CertificateStream(system="agent"), CertificateStream(system="agent")
    for row, answer in zip(ratings.tolist(), answers.tolist(), strict=True):
        one.update(
            ratings=[None if r < 0 else r for r in row], answer=None if answer < 0 else answer
        )
    for part in np.array_split(np.arange(150), 4):
        many.extend(
            RatingCounts.from_arrays(ratings[part], labels=3, answers={"agent": answers[part]})
        )
    assert one.certificate() == many.certificate()
    assert one.attained == pytest.approx(many.attained, abs=1e-12)


def test_the_order_of_items_does_not_matter_for_the_last_look() -> None:
    ratings, answers = items(100)
    found = []
    for order in (np.arange(100), np.random.default_rng(1).permutation(100)):
        stream = CertificateStream(system="agent")
        stream.extend(
            RatingCounts.from_arrays(ratings[order], labels=3, answers={"agent": answers[order]})
        )
        found.append(stream.certificate())
    assert found[0] == found[1]


def test_an_empty_stream_certifies_nothing() -> None:
    stream = CertificateStream(trained_on_annotators="no")
    assert stream.attained == pytest.approx(0.0, abs=1e-12)
    assert not stream.certificate().certified
    assert stream.certificate().reason == "no items"


def test_a_loss_of_everything_is_survived() -> None:
    """A unanimous item that the system misses costs the boldest bet all its money, not the mixture."""
    stream = CertificateStream(trained_on_annotators="no")
    stream.update(ratings=["a"] * 3, answer="b")
    for _ in range(400):
        stream.update(ratings=["a", "a", "b"], answer="a")
    assert stream.certificate().certified
    assert stream.certificate().verify()


def test_the_statement_counts_at_every_look() -> None:
    stream = CertificateStream()
    for _ in range(100):
        stream.update(ratings=["a", "a", "b"], answer="a")
    assert stream.attained > 0.99
    assert not stream.certificate().certified


def test_bad_items_and_arguments_are_named() -> None:
    with pytest.raises(EvidenceError, match="ratings must hold at least one label"):
        CertificateStream().update(ratings=[None], answer="a")
    with pytest.raises(ArgumentError, match="margin must be in"):
        CertificateStream(margin=2.0)
    with pytest.raises(ArgumentError, match="confidence must be in"):
        CertificateStream(confidence=1.0)
