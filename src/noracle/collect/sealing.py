"""Everything random in a project comes from one seed that is committed to before the first question
is asked.

The seed is 32 random bytes; its SHA-256 is published when the project is sealed, the seed itself
when it is closed. Each decision has a stream of its own: HMAC-SHA-256(seed, purpose | counter), cut
into words of 64 bits. A number below n is a word modulo n; words beyond the largest multiple of n
are thrown away, so that every value has exactly the same chance. Without the seed the draws cannot
be told from random ones; with it anybody can make them again.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import struct
from collections.abc import Sequence

from noracle.collect.chain import canonical
from noracle.errors import ArgumentError

SEED_BYTES = 32
_WORDS = struct.Struct(">4Q")
_RANGE = 2**64
_quoted = json.encoder.encode_basestring

Part = str | int
"""A purpose is made of names and numbers; it is written as a JSON list, so that no two purposes
look alike.
"""


def new_seed() -> bytes:
    """32 bytes from the operating system."""
    return secrets.token_bytes(SEED_BYTES)


def commitment(seed: bytes) -> str:
    """What is published at sealing: the SHA-256 of the seed, in hexadecimal.

    Examples
    --------
    >>> commitment(bytes(32))[:16]
    '66687aadf862bd77'
    """
    return hashlib.sha256(_check_seed(seed)).hexdigest()


class Stream:
    """The random numbers of one purpose."""

    __slots__ = ("_block", "_purpose", "_seed", "_words")

    def __init__(self, seed: bytes, *purpose: Part) -> None:
        self._seed = seed if type(seed) is bytes and len(seed) == SEED_BYTES else _check_seed(seed)
        self._purpose = f"[{','.join([_quoted(p) if isinstance(p, str) else f'{p:d}' for p in purpose])}]".encode()
        self._block = 0
        self._words: list[int] = []

    def below(self, n: int) -> int:
        """A number from 0 to n - 1, each with chance 1/n.

        Examples
        --------
        >>> stream = Stream(bytes(32), "example")
        >>> [stream.below(6) for _ in range(8)] == [Stream(bytes(32), "example").below(6)] * 8
        False
        """
        if not 0 < n <= _RANGE:
            raise ArgumentError(f"n must be from 1 to 2^64; got {n}.")
        limit = _RANGE - _RANGE % n
        while True:
            if not self._words:
                block = hmac.digest(
                    self._seed, self._purpose + self._block.to_bytes(8, "big"), "sha256"
                )
                self._block += 1
                self._words = [*_WORDS.unpack(block)]
                self._words.reverse()
            word = self._words.pop()
            if word < limit:
                return word % n

    def distinct(self, n: int, size: int) -> list[int]:
        """``size`` different numbers below n, in random order: the first steps of a Fisher-Yates
        shuffle.
        """
        if not 0 <= size <= n:
            raise ArgumentError(f"size must be from 0 to {n}; got {size}.")
        if size == 1:
            return [self.below(n)]
        values = list(range(n))
        for i in range(size):
            j = i + self.below(n - i)
            values[i], values[j] = values[j], values[i]
        return values[:size]

    def permutation(self, n: int) -> list[int]:
        """The numbers 0 … n - 1 in random order (Fisher-Yates)."""
        return self.distinct(n, n)

    def weighted(self, weights: Sequence[int]) -> int:
        """A place in the list, with a chance in proportion to its whole-numbered weight."""
        left = self.below(sum(weights))
        for i, weight in enumerate(weights):
            left -= weight
            if left < 0:
                return i
        raise ArgumentError(
            "weights must not be negative."
        )  # pragma: no cover - left is below their sum


def draw_below(seed: bytes, purpose: str | Sequence[Part], n: int) -> int:
    """The first number below n of the stream of this purpose.

    Parameters
    ----------
    purpose
        What is decided: a name, or names and numbers.

    Examples
    --------
    >>> draw_below(bytes(32), ("route", "item 7"), 10) == draw_below(bytes(32), ("route", "item 7"), 10)
    True
    """
    return Stream(seed, *((purpose,) if isinstance(purpose, str) else purpose)).below(n)


def permutation(seed: bytes, purpose: str | Sequence[Part], n: int) -> list[int]:
    """The numbers 0 … n - 1 in the random order of this purpose.

    Examples
    --------
    >>> sorted(permutation(bytes(32), "place", 5))
    [0, 1, 2, 3, 4]
    """
    return Stream(seed, *((purpose,) if isinstance(purpose, str) else purpose)).permutation(n)


def shuffle_options(seed: bytes, item: str, n_classes: int) -> tuple[int, ...]:
    """The class that stands at each place of an item's page."""
    return tuple(Stream(seed, "options", item).permutation(n_classes))


def keyed_digest(seed: bytes, purpose: str, value: object) -> str:
    """A commitment to values that must not be guessed from their hash before the seed is revealed,
    such as the truth of gold items.
    """
    return hmac.digest(
        _check_seed(seed),
        canonical(["commit", purpose]).encode() + canonical(value).encode(),
        "sha256",
    ).hex()


def _check_seed(seed: bytes) -> bytes:
    if not isinstance(seed, bytes | bytearray | memoryview) or len(seed) != SEED_BYTES:
        raise ArgumentError(
            f"seed must be {SEED_BYTES} bytes; got {type(seed).__name__} of length {len(seed)}."
        )
    return bytes(seed)
