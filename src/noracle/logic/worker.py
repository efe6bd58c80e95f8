"""A linear or integer program in a process of its own: arrays (.npz) in, arrays out."""

from __future__ import annotations

import io
import sys
from collections.abc import Mapping
from typing import Any


def solve(data: Mapping[str, Any]) -> dict[str, Any]:
    """Minimise cost·x subject to low ≤ A x ≤ high, x_low ≤ x ≤ x_high; the first ``n_rows`` rows
    are lower bounds, the others equations.

    Returns ``status`` (0 solved, 1 limit, 2 infeasible, 4 trouble), ``x`` and, for linear programs,
    ``marginals`` of the lower bounds.
    """
    import numpy as np
    from scipy import optimize, sparse

    parts = (data["data"], data["indices"], data["indptr"])
    A = sparse.csr_array(parts, shape=tuple(data["shape"]))
    m, seconds = int(data["n_rows"]), float(data["seconds"])
    bounds = np.stack([data["x_low"], data["x_high"]], axis=1)
    if data["integer"].any():
        high = np.r_[np.full(m, np.inf), data["low"][m:]]
        limits = optimize.LinearConstraint(A, data["low"], high)
        found = optimize.milp(
            data["cost"],
            constraints=limits,
            bounds=optimize.Bounds(bounds[:, 0], bounds[:, 1]),
            integrality=data["integer"],
            options={"time_limit": seconds, "mip_rel_gap": 0.0},
        )
        marginals = np.zeros(m)
    else:
        linprog: Any = optimize.linprog  # takes sparse matrices too
        found = linprog(
            data["cost"],
            A_ub=-A[:m] if m else None,
            b_ub=-data["low"][:m] if m else None,
            A_eq=A[m:],
            b_eq=data["low"][m:],
            bounds=bounds,
            method="highs-ds",
            options={"time_limit": seconds},
        )
        marginals = -found.ineqlin.marginals if found.status == 0 and m else np.zeros(m)
    x = np.zeros(0) if found.x is None else found.x
    return {"status": np.array(found.status), "x": x, "marginals": marginals}


def main() -> None:
    """Solve what comes in, write what comes out."""
    import numpy as np

    with np.load(io.BytesIO(sys.stdin.buffer.read()), allow_pickle=False) as data:
        found = solve(data)
    out = io.BytesIO()
    np.savez(out, **found)
    sys.stdout.buffer.write(out.getvalue())


if __name__ == "__main__":
    main()
