"""Draws come from the seed alone, every value has the same chance, and anybody can make them again."""

from __future__ import annotations

import hashlib
import hmac
import itertools
import json
import time
from collections import Counter

import numpy as np
import pytest
from scipy import stats

from noracle.collect.chain import canonical
from noracle.collect.protocols import (
    Stream,
    commitment,
    keyed_digest,
    new_seed,
    permutation,
    shuffle_options,
)
from noracle.errors import ArgumentError
from tests.unit.collect.archives import SEED


def test_a_draw_is_hmac_sha256_in_counter_mode_as_written() -> None:
    message = b'["route","item \xc3\xa9",3]'
    words = [
        hmac.new(SEED, message + n.to_bytes(8, "big"), hashlib.sha256).digest() for n in range(2)
    ]
    numbers = [int.from_bytes(block[i : i + 8], "big") for block in words for i in range(0, 32, 8)]
    stream = Stream(SEED, "route", "item é", 3)
    assert [stream.below(2**64) for _ in range(8)] == numbers
    first = Stream(SEED, "route", "item é", 3).below(10)
    assert first == numbers[0] % 10  # far below the limit of rejection
    assert commitment(SEED) == hashlib.sha256(SEED).hexdigest()


@pytest.mark.parametrize(
    "purpose",
    [("a", "b"), ('a","b',), ("a|b",), ("a", 1), ("a", "1"), ("",), (), ('"\\\n\u2028é',)],
)
def test_a_purpose_is_a_json_list_so_that_no_two_are_alike(purpose: tuple[str | int, ...]) -> None:
    message = canonical(list(purpose)).encode()
    assert json.loads(message) == list(purpose)
    expected = int.from_bytes(
        hmac.new(SEED, message + bytes(8), hashlib.sha256).digest()[:8], "big"
    )
    assert Stream(SEED, *purpose).below(2**64) == expected


def test_words_beyond_the_largest_multiple_are_thrown_away() -> None:
    """Below 3·2^62 a quarter of all words is rejected; taken modulo n, the lowest third of the
    values would come half of the time.
    """
    n = 3 * 2**62
    stream = Stream(SEED, "rejection")
    values = [stream.below(n) for _ in range(4000)]
    assert stats.binomtest(sum(v < n // 3 for v in values), 4000, 1 / 3).pvalue > 1e-4
    raw = Stream(SEED, "rejection")
    kept = [w for w in (raw.below(2**64) for _ in range(9000)) if w < n]
    assert values[:1000] == kept[:1000]


@pytest.mark.parametrize("n", [1, 2, 3, 7, 10, 100])
def test_every_number_has_the_same_chance(n: int) -> None:
    stream = Stream(SEED, "uniform", n)
    counts = np.bincount([stream.below(n) for _ in range(20_000)], minlength=n)
    assert len(counts) == n
    assert n == 1 or stats.chisquare(counts).pvalue > 1e-4


def test_every_order_of_four_has_the_same_chance() -> None:
    counts = Counter(tuple(permutation(SEED, ("order", i), 4)) for i in range(12_000))
    assert {*counts} == {*itertools.permutations(range(4))}
    assert stats.chisquare(list(counts.values())).pvalue > 1e-4


def test_every_pair_without_replacement_has_the_same_chance() -> None:
    counts = Counter(tuple(Stream(SEED, "pair", i).distinct(5, 2)) for i in range(12_000))
    assert {*counts} == {*itertools.permutations(range(5), 2)}
    assert stats.chisquare(list(counts.values())).pvalue > 1e-4


def test_weights_are_chances() -> None:
    counts = Counter(Stream(SEED, "weights", i).weighted([1, 0, 5, 2]) for i in range(16_000))
    assert counts[1] == 0
    assert stats.chisquare([counts[0], counts[2], counts[3]], [2000, 10_000, 4000]).pvalue > 1e-4


@pytest.mark.full
@pytest.mark.timing
def test_a_hundred_thousand_items_are_put_in_order_within_a_second() -> None:
    start = time.process_time()
    order = permutation(SEED, "place", 100_000)
    assert time.process_time() - start < 1
    assert sorted(order) == list(range(100_000))


def test_options_are_shuffled_by_item() -> None:
    orders = {shuffle_options(SEED, f"item {i}", 5) for i in range(600)}
    assert len(orders) > 100
    assert all(sorted(order) == [0, 1, 2, 3, 4] for order in orders)


def test_another_seed_or_purpose_gives_other_draws() -> None:
    other = bytes(31) + b"\x01"
    assert permutation(SEED, "place", 50) != permutation(other, "place", 50)
    assert permutation(SEED, "place", 50) != permutation(SEED, "panel", 50)
    assert new_seed() != new_seed()
    assert keyed_digest(SEED, "hidden", [1]) != keyed_digest(other, "hidden", [1])
    assert keyed_digest(SEED, "hidden", [1]) != keyed_digest(SEED, "hidden", [2])


@pytest.mark.parametrize("seed", [b"", bytes(31), bytes(33)])
def test_a_short_seed_is_refused(seed: bytes) -> None:
    with pytest.raises(ArgumentError, match="seed must be 32 bytes"):
        Stream(seed, "place")
    with pytest.raises(ArgumentError, match="seed must be 32 bytes"):
        commitment(seed)


def test_impossible_draws_are_refused() -> None:
    with pytest.raises(ArgumentError, match="n must be"):
        Stream(SEED, "x").below(0)
    with pytest.raises(ArgumentError, match="size must be"):
        Stream(SEED, "x").distinct(3, 4)
