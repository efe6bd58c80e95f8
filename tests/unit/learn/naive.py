"""Every loss written out with plain loops over Python floats: slow, obvious, and only right for
moderate logits.

z is a list of logits, Y the set of ruled-out classes of one item, T a nested list with rows of true
classes.
"""

from __future__ import annotations

import math
from collections.abc import Callable

Vector = list[float]
Rows = list[list[float]]


def softmax(z: Vector) -> Vector:
    total = sum(math.exp(v) for v in z)
    return [math.exp(v) / total for v in z]


def sigmoid(v: float) -> float:
    return 1 / (1 + math.exp(-v))


def softplus(v: float) -> float:
    return math.log(1 + math.exp(v))


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


def pc_sigmoid(z: Vector, ybar: int, T: Rows) -> float:
    return sum(sigmoid(z[ybar] - z[k]) for k in range(len(z)) if k != ybar)


def scl_exp(z: Vector, ybar: int, T: Rows) -> float:
    return math.exp(softmax(z)[ybar])


def fwd(z: Vector, ybar: int, T: Rows) -> float:
    p = softmax(z)
    return -math.log(sum(p[j] * T[j][ybar] for j in range(len(z))))


def l_uw(z: Vector, ybar: int, T: Rows) -> float:
    return -math.log(softmax([1 - p for p in softmax(z)])[ybar])


def l_w(z: Vector, ybar: int, T: Rows) -> float:
    return (1 + (1 - softmax(z)[ybar]) / (len(z) - 1)) * l_uw(z, ybar, T)


def op(z: Vector, ybar: int, T: Rows) -> float:
    return -math.log(softmax([-v for v in z])[ybar])


def op_w(z: Vector, ybar: int, T: Rows) -> float:
    q = softmax([-v for v in z])
    w = softmax([1 / v - 1 / min(q) for v in q])
    return -softmax(z)[ybar] * w[ybar] * math.log(q[ybar])


def cpe_i(z: Vector, ybar: int, T: Rows) -> float:
    return -math.log(softmax(z)[ybar])


SINGLE: dict[str, Callable[[Vector, int, Rows], float]] = {
    "pc_sigmoid": pc_sigmoid,
    "scl_exp": scl_exp,
    "fwd": fwd,
    "l_uw": l_uw,
    "l_w": l_w,
    "op": op,
    "op_w": op_w,
    "cpe_i": cpe_i,
    "cpe_f": fwd,
    "cpe_t": fwd,
}


def left(z: Vector, Y: set[int]) -> float:
    p = softmax(z)
    return sum(p[j] for j in range(len(z)) if j not in Y)


def scl_nl(z: Vector, Y: set[int]) -> float:
    return -math.log(1 - sum(softmax(z)[k] for k in Y))


def mcl_mae(z: Vector, Y: set[int]) -> float:
    return (2 * len(z) - 2) / len(Y) * (1 - left(z, Y))


def mcl_exp(z: Vector, Y: set[int]) -> float:
    return (2 * len(z) - 2) / len(Y) * math.exp(-left(z, Y))


def mcl_log(z: Vector, Y: set[int]) -> float:
    return (2 * len(z) - 2) / len(Y) * -math.log(left(z, Y))


def multi_ure(z: Vector, Y: set[int]) -> float:
    k, s, p = len(z), len(Y), softmax(z)
    outside = sum(-math.log(p[j]) for j in range(k) if j not in Y)
    return outside - (k - 1 - s) / s * sum(-math.log(p[j]) for j in Y)


def partial_log(z: Vector, Y: set[int]) -> float:
    return -math.log(left(z, Y) / (len(z) - len(Y)))


SETS: dict[str, Callable[[Vector, set[int]], float]] = {
    "scl_nl": scl_nl,
    "mcl_mae": mcl_mae,
    "mcl_exp": mcl_exp,
    "mcl_log": mcl_log,
    "multi_ure": multi_ure,
    "partial_log": partial_log,
    "supervised": scl_nl,
}


def per_item(name: str, z: Vector, Y: set[int], T: Rows) -> float:
    """Any loss per item; one that is written for single labels is the mean over the set."""
    return SETS[name](z, Y) if name in SETS else mean([SINGLE[name](z, k, T) for k in sorted(Y)])


def ordinary(base: str, z: Vector, j: int, T_inv: Rows, q: float = 0.7) -> float:
    p, k = softmax(z), len(z)
    if base == "ce":
        return -math.log(p[j])
    if base == "mae":
        return sum(abs(p[c] - (c == j)) for c in range(k))
    if base == "mse":
        return sum((p[c] - (c == j)) ** 2 for c in range(k))
    if base == "gce":
        return (1 - p[j] ** q) / q
    if base == "sl":
        reverse = -sum(p[c] * (0 if c == j else -4) for c in range(k))
        return 0.1 * -math.log(p[j]) + reverse
    return sum(abs(p[c] - (c == j)) for c in range(k)) / sum(T_inv[c][j] for c in range(k))


def shares_present(pi_bar: Vector, n: int, labels: float) -> Vector:
    """π̄_k over the chance that class k is among n items with so many labels each."""
    return [p / (1 - (1 - min(1.0, labels * p)) ** n) if p > 0 else 0.0 for p in pi_bar]


def partial_risks(
    base: str,
    zs: Rows,
    Ys: list[set[int]],
    T_inv: Rows,
    *,
    pi_bar: Vector | None = None,
    weight: Vector | None = None,
    q: float = 0.7,
) -> Vector:
    """r_j = Σ_k π̄_k (T⁻¹)[k, j] mean_{ȳ=k} ℓ_j; an absent class adds nothing."""
    n, k = len(zs), len(zs[0])
    weight = weight or [1.0] * n
    size = [sum(weight[i] / len(Ys[i]) for i in range(n) if c in Ys[i]) for c in range(k)]
    own = [v / sum(size) for v in size]
    share = own if pi_bar is None else shares_present(pi_bar, n, mean([float(len(Y)) for Y in Ys]))
    risks = []
    for j in range(k):
        r = 0.0
        for c in range(k):
            if size[c] > 0:
                total = sum(
                    weight[i] / len(Ys[i]) * ordinary(base, zs[i], j, T_inv, q)
                    for i in range(n)
                    if c in Ys[i]
                )
                r += share[c] * T_inv[c][j] * total / size[c]
        risks.append(r)
    return risks


def corrected(risks: Vector, correction: str, beta: float = 0.0) -> float:
    if correction == "free":
        return sum(risks)
    if correction == "nn":
        return sum(max(r, -beta) for r in risks)
    if correction == "abs":
        return sum(abs(r) for r in risks)
    return -sum(min(r, 0) for r in risks) if min(risks) < 0 else sum(risks)


def scarce(zs: Rows, Ys: list[set[int]], prior: Vector, weight: Vector | None = None) -> float:
    n, k = len(zs), len(zs[0])
    weight = weight or [1.0] * n
    total = 0.0
    for c in range(k):
        own = [i for i in range(n) if c in Ys[i]]
        if not own:
            continue
        size = sum(weight[i] / len(Ys[i]) for i in own)
        negative = sum(weight[i] / len(Ys[i]) * softplus(zs[i][c]) for i in own) / size
        positive = sum(weight[i] / len(Ys[i]) * softplus(-zs[i][c]) for i in own) / size
        everywhere = sum(weight[i] * softplus(-zs[i][c]) for i in range(n)) / sum(weight)
        total += (1 - prior[c]) * negative + abs(everywhere - (1 - prior[c]) * positive)
    return total


def nearest_row(q: Vector, T: Rows) -> int:
    gaps = [sum(abs(a - b) for a, b in zip(q, row, strict=True)) for row in T]
    return gaps.index(min(gaps))
