"""How well a model's chances explain the ruled-out labels, and the temperature that explains them
best.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from noracle.errors import EvidenceError, MissingExtra, fault
from noracle.learn.scored import (
    Floats,
    RuledOut,
    TransitionLike,
    read_logits,
    read_ruled_out,
    read_transition,
)
from noracle.learn.transition import Transition

_CELLS = 4_000_000  # numbers in memory at a time
_REACH, _STEPS = 6.0, 13
"""The search spans e^-6 … e^6 times the spread of the logits, first in this many steps: the mean
loss need not be convex.
"""


def item_losses(
    logits: Floats, labels: RuledOut, transition: Transition, *, temperature: float = 1.0
) -> Floats:
    """-log (Tᵀp)_ȳ of each item, the mean over its labels; NaN without a label."""
    try:
        import torch
    except ImportError:
        raise MissingExtra("the loss of a model's chances", "torch", "learn") from None
    from noracle.learn.losses import get_loss, label_mask, scel

    n, k = logits.shape
    context = get_loss("fwd").make_context(transition, dtype=torch.float64)
    total = np.zeros(n)
    block = max(1, _CELLS // k**2)
    with torch.no_grad():
        for start in range(0, n, block):
            z = torch.tensor(logits[start : start + block], dtype=torch.float64)
            for column in labels.said[start : start + block].T:
                if (column >= 0).any():  # label by label, so that repeats count
                    total[start : start + block] += scel(
                        z, label_mask(torch.tensor(column), k), context, temperature=temperature
                    ).numpy()
    return np.where(labels.sizes > 0, total / np.maximum(labels.sizes, 1), np.nan)


def fit_temperature(logits: Any, ruled_out: Any, transition: TransitionLike = "uniform") -> float:
    """The temperature τ with the smallest mean of -log (Tᵀ softmax(z/τ))_ȳ on these labels.

    Scales the logits of a model that is right more or less often than it says; its answers stay as
    they are. Only ruled-out labels are needed. Multiplying the logits by a number multiplies τ by
    it. Where no temperature is best (useless logits ask for an ever larger τ, perfect ones for an
    ever smaller) the result is the end of the search, e^±6 times the spread of the logits.

    Parameters
    ----------
    logits
        One row an item, one column a class.
    ruled_out
        Class numbers, one an item or several padded with -1, or a mask.
    transition
        T[y, k] = P(class k is ruled out | true class y): a matrix, a ``Transition`` or
        ``"uniform"``.

    References
    ----------
    Guo et al. (2017), ICML, for ordinary labels.

    Examples
    --------
    >>> z = np.array([[9.0, 0.0, 0.0], [0.0, 9.0, 0.0], [0.0, 0.0, 9.0], [9.0, 0.0, 0.0], [0.0, 9.0, 0.0]])
    >>> round(fit_temperature(z, [1, 2, 0, 0, 2]), 2)
    8.19
    """
    z = read_logits("logits", logits)
    T = read_transition(transition, z.shape[1])
    labels = read_ruled_out(ruled_out, z.shape[1])
    z = read_logits("logits", z, labels)
    keep = labels.sizes > 0
    if not keep.any():
        raise EvidenceError(fault("ruled_out", "must have a label to fit a temperature to", "none"))
    return _best(z[keep], RuledOut(said=labels.said[keep], n_classes=labels.n_classes), T)


def _best(z: Floats, labels: RuledOut, transition: Transition) -> float:
    from scipy.optimize import minimize_scalar

    spread = float(np.sqrt(z.var(axis=1).mean()))
    if spread <= 0:
        return 1.0  # equal logits: every temperature says the same

    def loss(log_temperature: float) -> float:
        return float(
            item_losses(
                z / spread, labels, transition, temperature=math.exp(log_temperature)
            ).mean()
        )

    grid = np.linspace(-_REACH, _REACH, _STEPS)
    found = [loss(x) for x in grid.tolist()]
    place = int(np.argmin(found))
    low, high = grid[max(0, place - 1)], grid[min(_STEPS - 1, place + 1)]
    refined = minimize_scalar(
        loss, bounds=(float(low), float(high)), method="bounded", options={"xatol": 1e-4}
    )
    best = float(refined.x) if refined.fun < found[place] else float(grid[place])
    return spread * math.exp(best)
