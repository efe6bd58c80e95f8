"""Equal rows of a table of answers as one group."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_SORT_UP_TO = 200_000

Codes = NDArray[np.int16]
Flags = NDArray[np.bool_]
Counts = NDArray[np.int64]


def group_rows(codes: Codes, allowed: Flags, n: Counts) -> tuple[NDArray[np.intp], Counts]:
    """The first row of each group of equal rows, and the sums of ``n``; sorted by pattern unless
    there are very many.
    """
    if not len(n):
        return np.zeros(0, dtype=np.intp), n
    order = np.random.default_rng(20_250_301)  # fixed multipliers of a hash that is checked below
    key = (codes.astype(np.uint64) * order.integers(1, 2**63, codes.shape[1], dtype=np.uint64)).sum(
        axis=1, dtype=np.uint64
    )
    key += (allowed * order.integers(1, 2**63, allowed.shape[1], dtype=np.uint64)).sum(
        axis=1, dtype=np.uint64
    )
    _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
    if len(first) < len(n):
        same = (codes[first[inverse]] == codes).all() and (allowed[first[inverse]] == allowed).all()
        if not same:  # two patterns with one key: compare whole rows instead
            rows = np.concatenate([codes, allowed], axis=1)
            _, first, inverse = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    total = np.zeros(len(first), dtype=np.int64)
    np.add.at(total, inverse.ravel(), n)
    if len(first) <= _SORT_UP_TO:
        keys = (*(~allowed[first]).T[::-1], *codes[first].T[::-1])
        by_pattern = np.lexsort(keys)
        first, total = first[by_pattern], total[by_pattern]
    return first, total
