"""The linear and integer programs of a case, through HiGHS; large ones in a process that is stopped
when the time is up.
"""

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
from noracle.logic.program import Array, Case, Program

if TYPE_CHECKING:
    from numpy.typing import NDArray
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
    """``status``: solved, infeasible or limit. ``given`` are counts (groups × labels), ``weights``
    the multipliers of the rows.
    """

    status: str
    given: Array
    weights: Array
    value: float


def ready(deadline: float) -> bool:
    """Whether the solvers of scipy are loaded before the deadline; they load in a thread, so that a
    short limit is kept.
    """
    if not _loaded.is_set():
        thread = threading.Thread(target=_load, daemon=True)
        thread.start()
        thread.join(max(0.0, deadline - time.monotonic()))
    return _loaded.is_set()


def _load() -> None:
    for name in _SOLVERS:
        importlib.import_module(name)
    _loaded.set()


def entries(program: Program) -> int:
    """How many entries the matrix of a program has, about."""
    cells = program.sketch.n_groups * program.R
    per_row = sum(1 if r.unless is not None else program.R for r in program.rows)
    return program.sketch.n_groups * per_row + cells


def is_tame(program: Program) -> bool:
    """Whether floats are far from misjudging a row, so that a solver's word may be taken where
    there is nothing to check.
    """
    most = max(sum(abs(p.coefficient) for p in r.pieces) for r in program.rows)
    return most * program.sketch.n_items < _TAME


def matrix(case: Case) -> tuple[sparse.csr_array, NDArray[np.intp]]:
    """The rows over the allowed cells, and the places of these cells in a flat groups × labels
    table.
    """
    from scipy import sparse

    cells = np.flatnonzero(case.allowed.ravel())
    A = case.base.matrix[:, cells]
    if case.splits:
        A = sparse.vstack(
            [A, Program(case.base.sketch, tuple(s.row for s in case.splits)).matrix[:, cells]]
        )
    return A.tocsr(), cells


def relax(case: Case, deadline: float) -> Solved:
    """The linear program of a case: the least s such that every claim holds up to s.

    min s subject to (row k) + d_k s ≥ b_k and Σ_l x_{g,l} = n_g. A positive optimum proves the case
    impossible, and the multipliers of the rows are the weights of the proof. Splits and prevalences
    are kept exactly (d = 0); if they alone are impossible, they are relaxed too.
    """
    program = case.program
    A, cells = matrix(case)
    claims = np.array([r.unless is not None or len(r.pieces) > 1 for r in program.rows])
    scale = np.array(
        [max(abs(p.coefficient) for p in r.pieces) or 1 for r in program.rows], dtype=np.float64
    )
    A = A.multiply(1 / scale[:, None]).tocsr()
    k, _, _ = program.unless
    low = program.at_least / scale
    low[k[~case.in_force[k]]] = np.minimum(0.0, low[k[~case.in_force[k]]])
    empty = np.diff(A.indptr) == 0  # rows that count nothing are void
    empty &= program.conditional
    low[empty] = 0.0
    for d, least in ((claims & ~empty, -float(case.base.sketch.n_items)), (~empty, 0.0)):
        found = _solve(case, A, cells, low, d.astype(np.float64), least, deadline)
        found = found._replace(weights=found.weights / scale)
        if found.status != "infeasible":
            break
    return found


def _solve(
    case: Case, A: Any, cells: NDArray[np.intp], low: Array, d: Array, least: float, deadline: float
) -> Solved:
    from scipy import sparse

    m, n_groups, R = A.shape[0], case.base.sketch.n_groups, case.program.R
    sums = sparse.csr_array(
        (np.ones(len(cells)), (cells // R, np.arange(len(cells)))), shape=(n_groups, len(cells) + 1)
    )
    whole = sparse.vstack([sparse.hstack([A, sparse.csr_array(d[:, None])]), sums], format="csr")
    data = {
        "cost": np.r_[np.zeros(len(cells)), 1.0],
        "low": np.r_[low, case.base.sketch.n.astype(np.float64)],
        "x_low": np.r_[np.zeros(len(cells)), least],
        "x_high": np.full(len(cells) + 1, np.inf),
        "integer": np.zeros(len(cells) + 1, dtype=np.uint8),
    }
    found = run(whole, m, data, deadline)
    if found is None or int(found["status"]) not in {0, 2}:
        return Solved("limit", np.zeros((0, 0)), np.zeros(m), np.nan)
    if int(found["status"]) == 2:
        return Solved("infeasible", np.zeros((0, 0)), np.zeros(m), np.inf)
    given = np.zeros(n_groups * R)
    given[cells] = found["x"][:-1]
    return Solved(
        "solved",
        given.reshape(n_groups, R),
        np.maximum(found["marginals"], 0),
        float(found["x"][-1]),
    )


def integral(case: Case, deadline: float) -> Solved:
    """The integer program of a case: any counts that keep all rows, with a switch z for each
    condition.
    """
    from scipy import sparse

    program, sketch = case.program, case.base.sketch
    A, cells = matrix(case)
    m, n_groups, R = len(program.rows), sketch.n_groups, program.R
    k, i, r = program.unless
    open_ = ~case.in_force[k] & (program.at_least[k] > 0)
    k, i, r = k[open_], i[open_], r[open_]
    low = program.at_least.astype(np.float64)
    low[k] = 0.0
    # Classifiers that answered the same groups of a label share its switch.
    can = (sketch.patterns[:, i] >= 0) & case.allowed[:, r]
    named = [(int(label), column.tobytes()) for label, column in zip(r, can.T, strict=True)]
    order = {name: place for place, name in enumerate(dict.fromkeys(named))}
    switch = np.array([order[name] for name in named], dtype=np.intp)
    switches = sparse.csr_array(
        (-program.at_least[k].astype(np.float64), (k, switch)), shape=(m, len(order))
    )
    where = np.full(n_groups * R, -1)
    where[cells] = np.arange(len(cells))
    rows, columns, limits = [], [], np.zeros(len(order))
    for name, place in order.items():
        j = named.index(name)
        groups = np.flatnonzero(can[:, j])
        rows.append(np.full(len(groups), place))
        columns.append(where[groups * R + r[j]])
        limits[place] = float(sketch.n[groups].sum())
    at = (
        np.concatenate([np.zeros(0, dtype=np.intp), *rows]),
        np.concatenate([np.zeros(0, dtype=np.intp), *columns]),
    )
    uses = sparse.csr_array((-np.ones(len(at[0])), at), shape=(len(order), len(cells)))
    sums = sparse.csr_array(
        (np.ones(len(cells)), (cells // R, np.arange(len(cells)))), shape=(n_groups, len(cells))
    )
    whole = sparse.vstack(
        [
            sparse.hstack([A, switches]),
            sparse.hstack([uses, sparse.diags_array(limits)]),
            sparse.hstack([sums, sparse.csr_array((n_groups, len(order)))]),
        ],
        format="csr",
    )
    data = {
        "cost": np.zeros(whole.shape[1]),
        "low": np.r_[low, np.zeros(len(order)), sketch.n.astype(np.float64)],
        "x_low": np.zeros(whole.shape[1]),
        "x_high": np.r_[sketch.n[cells // R].astype(np.float64), np.ones(len(order))],
        "integer": np.ones(whole.shape[1], dtype=np.uint8),
    }
    found = run(whole, m + len(order), data, deadline)
    if found is None or (int(found["status"]) != 2 and not len(found["x"])):
        return Solved("limit", np.zeros((0, 0)), np.zeros(m), np.nan)
    if int(found["status"]) == 2:
        return Solved("infeasible", np.zeros((0, 0)), np.zeros(m), np.inf)
    given = np.zeros(n_groups * R)
    given[cells] = found["x"][: len(cells)]
    return Solved("solved", np.rint(given).reshape(n_groups, R), np.zeros(m), 0.0)


def run(A: Any, n_rows: int, data: dict[str, Any], deadline: float) -> dict[str, Any] | None:
    """Solve here if it is small, else in a process of its own; None if the time was up."""
    seconds = (
        deadline - time.monotonic() - _PER_ENTRY * A.nnz
    )  # reading the problem in is not part of the solver's own limit
    if seconds <= 0:
        return None
    data = {
        **data,
        "data": A.data,
        "indices": A.indices,
        "indptr": A.indptr,
        "shape": np.array(A.shape),
        "n_rows": np.array(n_rows),
        "seconds": np.array(seconds),
    }
    small = _IN_PROCESS_INTEGER if data["integer"].any() else _IN_PROCESS
    if A.nnz <= small:
        return worker.solve(data)
    return _in_child({**data, "seconds": np.array(max(0.01, seconds - _START))}, deadline)


def _in_child(data: dict[str, Any], deadline: float) -> dict[str, Any] | None:
    packed = io.BytesIO()
    np.savez(packed, **data)
    with subprocess.Popen(
        [sys.executable, "-P", str(Path(worker.__file__))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as child:
        try:
            out, _ = child.communicate(
                packed.getvalue(), timeout=max(0.01, deadline - time.monotonic())
            )
        except subprocess.TimeoutExpired:
            child.kill()
            child.communicate()
            return None
    if child.returncode != 0:
        return None
    with np.load(io.BytesIO(out), allow_pickle=False) as found:
        return dict(found)
