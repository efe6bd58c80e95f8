"""Buckets in memory: how often one session may ask in a minute, without a write to the database."""

from __future__ import annotations

from noracle.collect.errors import Throttled

_MOST = 10_000


class Buckets:
    """A bucket per key that fills at ``per_minute / 60`` a second and holds ``per_minute``.

    Examples
    --------
    >>> buckets = Buckets(per_minute=2)
    >>> buckets.take("a", now=0.0), buckets.take("a", now=0.0)
    (None, None)
    >>> buckets.take("a", now=1.0)
    Traceback (most recent call last):
    ...
    noracle.collect.errors.Throttled: Too many requests; wait a little.
    >>> buckets.take("a", now=31.0)
    """

    def __init__(self, *, per_minute: int) -> None:
        self._most, self._rate = float(per_minute), per_minute / 60.0
        self._levels: dict[str, tuple[float, float]] = {}

    def take(self, key: str, *, now: float) -> None:
        """Take one, or refuse."""
        level, then = self._levels.get(key, (self._most, now))
        level = min(self._most, level + max(0.0, now - then) * self._rate)
        if level < 1.0:
            raise Throttled("Too many requests; wait a little.", wait=(1.0 - level) / self._rate)
        if len(self._levels) >= _MOST:
            self._forget(now)
        self._levels[key] = (level - 1.0, now)

    def _forget(self, now: float) -> None:
        """Drop full buckets; if there are none, all: a flood of keys must not fill the memory."""
        self._levels = {
            k: (v, t)
            for k, (v, t) in self._levels.items()
            if v + (now - t) * self._rate < self._most
        }
        if len(self._levels) >= _MOST:
            self._levels.clear()
