"""The linear and integer programs of a case, through HiGHS; large ones in another process."""

from __future__ import annotations

import importlib
import io
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from noracle.logic import worker
from noracle.logic.program import Array, Case, IntegerProgram, Places, Whole

if TYPE_CHECKING:
    from scipy import sparse

MOST_ENTRIES = 20_000_000
"""Programs with more entries are not written out."""
_IN_PROCESS = 400_000
_IN_PROCESS_INTEGER = 20_000
_START = 0.3
_TAME = 10**9
_PER_ENTRY = 1.5e-6
_SOLVERS = ("scipy.sparse", "scipy.optimize")
_loaded = threading.Event()


class Solved(NamedTuple):
    """Solved, infeasible or limit; counts (groups × labels) and multipliers of the rows."""

    status: str
    given: Array
    weights: Array
    value: float


def ready(deadline: float) -> bool:
    """Whether scipy's solvers are loaded in time; in a thread, so that a short limit is kept."""

    def load() -> None:
        for name in _SOLVERS:
            importlib.import_module(name)
        _loaded.set()

    if not _loaded.is_set():
        thread = threading.Thread(target=load, daemon=True)
        thread.start()
        thread.join(max(0.0, deadline - time.monotonic()))
    return _loaded.is_set()


def entries(program: IntegerProgram) -> int:
    """How many entries the matrix of a program has, about."""
    per_row = sum(1 if r.unless is not None else program.R for r in program.rows)
    return program.sketch.n_groups * (per_row + program.R)


def is_tame(program: IntegerProgram) -> bool:
    """Whether floats are far from misjudging a row, so that a solver's word may be taken."""
    return max(program.sizes) * program.sketch.n_items < _TAME


class _Matrices(NamedTuple):
    """Over the allowed cells: the rows, the sums of the groups, and the places of the cells."""

    rows: sparse.csr_array
    sums: sparse.csr_array
    cells: Places
    shape: tuple[int, int]

    @classmethod
    def of(cls, case: Case) -> _Matrices:
        from scipy import sparse

        cells = np.flatnonzero(case.allowed.ravel())
        rows = case.base.matrix[:, cells]
        if case.splits:
            extra = IntegerProgram(case.base.sketch, tuple(s.row for s in case.splits))
            rows = sparse.vstack([rows, extra.matrix[:, cells]])
        shape = case.allowed.shape
        at = (cells // shape[1], np.arange(len(cells)))
        sums = sparse.csr_array((np.ones(len(cells)), at), shape=(shape[0], len(cells)))
        return cls(rows.tocsr(), sums, cells, (int(shape[0]), int(shape[1])))

    def spread(self, x: Array) -> Array:
        """Values of the cells as a table, groups × labels."""
        given = np.zeros(self.shape)
        given.ravel()[self.cells] = x[: len(self.cells)]
        return given


def relax(case: Case, deadline: float) -> Solved:
    """The linear program of a case: the least s such that every claim holds up to s.

    min s subject to (row k) + d_k s ≥ b_k and Σ_l x_{g,l} = n_g. A positive optimum proves the case
    impossible, and the multipliers of the rows are the weights of the proof. Splits and prevalences
    are kept exactly (d = 0); if they alone are impossible, they are relaxed too.
    """
    from scipy import sparse

    program, n = case.program, case.base.sketch.n.astype(np.float64)
    found = _Matrices.of(case)
    scale = program.scale
    A = found.rows.multiply(1 / scale[:, None]).tocsr()
    empty = (np.diff(A.indptr) == 0) & program.conditional  # rows that count nothing are void
    low = np.where(empty, 0.0, case.low / scale)
    m, n_cells = len(low), len(found.cells)
    for d, least in ((program.claims & ~empty, -float(n.sum())), (~empty, 0.0)):
        slack = sparse.csr_array(d.astype(np.float64)[:, None])
        solved = run(
            [[A, slack], [found.sums, sparse.csr_array((len(n), 1))]],
            m,
            cost=np.r_[np.zeros(n_cells), 1.0],
            low=np.r_[low, n],
            x_low=np.r_[np.zeros(n_cells), least],
            x_high=np.full(n_cells + 1, np.inf),
            deadline=deadline,
        )
        if solved is None or int(solved["status"]) not in {0, 2}:
            return _nothing("limit", m)
        if int(solved["status"]) == 0:
            weights = np.maximum(solved["marginals"], 0) / scale
            return Solved("solved", found.spread(solved["x"]), weights, float(solved["x"][-1]))
    return _nothing("infeasible", m)


def _nothing(status: str, m: int) -> Solved:
    value = np.inf if status == "infeasible" else np.nan
    return Solved(status, np.zeros((0, 0)), np.zeros(m), value)


def largest_share(
    case: Case, top: Whole, bottom: Whole, most: int, deadline: float
) -> tuple[float, Array, Array] | None:
    """The largest c·x / d·x over the relaxed program, by the substitution y = t·x: its value, the
    counts and the multipliers of one linear program.

    Rows that may be void are kept where they hold in either case: q·right - p·answered ≥ 0.
    """
    from scipy import sparse

    n, low = case.base.sketch.n.astype(np.float64), case.low
    found = _Matrices.of(case)
    c, d = (x.ravel()[found.cells].astype(np.float64) for x in (top, bottom))
    solved = run(
        [
            [found.rows, sparse.csr_array(-low[:, None])],
            [found.sums, sparse.csr_array(-n[:, None])],
            [sparse.csr_array(d[None, :]), sparse.csr_array((1, 1))],
        ],
        len(low),
        cost=np.append(-c, 0.0),
        low=np.r_[np.zeros(len(low) + len(n)), float(most)],
        x_low=np.append(np.zeros(len(c)), 1.0),
        x_high=np.append(np.full(len(c), np.inf), float(most)),
        deadline=deadline,
    )
    if solved is None or int(solved["status"]) != 0:
        return None
    x = solved["x"]
    value = float(c @ x[:-1]) / most
    return value, found.spread(x / x[-1]), np.maximum(solved["marginals"], 0)


def integral(case: Case, deadline: float) -> Solved:
    """The integer program of a case: counts that keep all rows, a switch for each condition."""
    from scipy import sparse

    program, sketch = case.program, case.base.sketch
    found = _Matrices.of(case)
    cells, m, n = found.cells, len(program.rows), sketch.n.astype(np.float64)
    k, _, _ = program.unless
    open_ = ~case.in_force[k] & (program.at_least[k] > 0)
    k, i, r = (a[open_] for a in program.unless)
    low = program.at_least.astype(np.float64)
    low[k] = 0.0
    # Classifiers that answered the same groups of a label share its switch.
    can = (sketch.patterns[:, i] >= 0) & case.allowed[:, r]
    named = [(int(label), column.tobytes()) for label, column in zip(r, can.T, strict=True)]
    order = {name: place for place, name in enumerate(dict.fromkeys(named))}
    first = np.array([named.index(name) for name in order], dtype=np.intp)
    switch = np.array([order[name] for name in named], dtype=np.intp)
    needs = -program.at_least[k].astype(np.float64)
    opened = sparse.csr_array((needs, (k, switch)), shape=(m, len(order)))
    place, group = np.nonzero(can[:, first].T)
    column = np.searchsorted(cells, group * program.R + r[first][place])
    uses = sparse.csr_array((-np.ones(len(place)), (place, column)), shape=(len(order), len(cells)))
    limits = sparse.diags_array(can[:, first].T.astype(np.float64) @ n)
    blank = sparse.csr_array((len(n), len(order)))
    size = len(cells) + len(order)
    solved = run(
        [[found.rows, opened], [uses, limits], [found.sums, blank]],
        m + len(order),
        cost=np.zeros(size),
        low=np.r_[low, np.zeros(len(order)), n],
        x_low=np.zeros(size),
        x_high=np.r_[n[cells // program.R], np.ones(len(order))],
        deadline=deadline,
        integer=True,
    )
    if solved is None or (int(solved["status"]) != 2 and not len(solved["x"])):
        return _nothing("limit", m)
    if int(solved["status"]) == 2:
        return _nothing("infeasible", m)
    return Solved("solved", np.rint(found.spread(solved["x"])), np.zeros(m), 0.0)


def run(
    blocks: list[list[Any]], n_rows: int, *, deadline: float, integer: bool = False, **data: Array
) -> dict[str, Any] | None:
    """Solve here if it is small, else in a process of its own; None if the time was up."""
    from scipy import sparse

    A = sparse.vstack([sparse.hstack(row) for row in blocks], format="csr")
    # Reading the problem in is not part of the solver's own limit.
    seconds = deadline - time.monotonic() - _PER_ENTRY * A.nnz
    if seconds <= 0:
        return None
    small = A.nnz <= (_IN_PROCESS_INTEGER if integer else _IN_PROCESS)
    whole: dict[str, Any] = {
        **data,
        "integer": np.full(A.shape[1], integer, dtype=np.uint8),
        "data": A.data,
        "indices": A.indices,
        "indptr": A.indptr,
        "shape": np.array(A.shape),
        "n_rows": np.array(n_rows),
        "seconds": np.array(seconds if small else max(0.01, seconds - _START)),
    }
    return worker.solve(whole) if small else _in_child(whole, deadline)


def _in_child(data: dict[str, Any], deadline: float) -> dict[str, Any] | None:
    packed = io.BytesIO()
    np.savez(packed, **data)
    command = [sys.executable, "-P", str(Path(worker.__file__))]
    try:
        done = subprocess.run(
            command,
            input=packed.getvalue(),
            capture_output=True,
            timeout=max(0.01, deadline - time.monotonic()),
            check=True,
        )
    except subprocess.SubprocessError:
        return None
    with np.load(io.BytesIO(done.stdout), allow_pickle=False) as found:
        return dict(found)
