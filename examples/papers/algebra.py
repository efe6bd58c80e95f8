"""The algebra of evaluations: relations that hold between what is seen and what only an answer key
tells.

R-space holds whole numbers (counts of items), P-space holds rates. The names follow the paper, with
its misprints put right:

    Q, Q_l            items, items whose true label is l (``prevalence``)
    R_{l_i}           items on which classifier i said l (``uses``)
    R_{l_i,l}         items of true label l on which i said l (``correct``)
    R_{l_i,m_j}       items on which i said l and j said m (``joint``)
    R_{l_i,l_j,l}     items of true label l on which both said l (``both_correct``)
    Γ^l_{i,j}         correlation of the errors of i and j on label l
    Δ_{i,j}           covariance of the answers of i and j

Reference: Corrada-Emmanuel, Parker, Bharadwaj, "A logical alarm for misaligned binary classifiers".
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Literal, Self

import numpy as np

from noracle.errors import ArgumentError
from noracle.logic.crowd import whole_number

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

Pair = tuple[int, int]
Rates = tuple[Fraction, Fraction]


# two binary classifiers


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PairStatistics:
    """What is seen of two binary classifiers (``joint``), and a claim about them (the rest), which
    the axioms may refute.

    ``joint[x][y]`` counts the items on which the first said label x and the second label y; 0 is
    label A, 1 is label B. ``correct`` has one row per classifier; the columns of ``correct``,
    ``prevalence`` and ``both_correct`` are the true labels.

    Examples
    --------
    >>> s = PairStatistics.from_table([[[3, 1], [2, 0]], [[0, 2], [1, 4]]])
    >>> s.prevalence, s.correct, s.both_correct, s.joint
    ((6, 7), ((5, 6), (3, 4)), (3, 4), ((4, 2), (2, 5)))
    """

    joint: tuple[Pair, Pair]
    prevalence: Pair
    correct: tuple[Pair, Pair]
    both_correct: Pair

    @classmethod
    def from_table(cls, table: ArrayLike) -> Self:
        """From an answered key: ``table[x][y][t]`` items of true label t on which the first said x
        and the second y.
        """
        cells = np.asarray(table, dtype=object)
        if cells.shape != (2, 2, 2):
            raise ArgumentError(f"table must have shape (2, 2, 2); got {cells.shape}.")
        n = [[[whole_number("table", x) for x in row] for row in block] for block in cells.tolist()]
        joint = tuple((sum(n[x][0]), sum(n[x][1])) for x in (0, 1))
        prevalence = tuple(sum(n[x][y][t] for x in (0, 1) for y in (0, 1)) for t in (0, 1))
        first = tuple(n[t][0][t] + n[t][1][t] for t in (0, 1))
        second = tuple(n[0][t][t] + n[1][t][t] for t in (0, 1))
        both = tuple(n[t][t][t] for t in (0, 1))
        return cls(joint=joint, prevalence=prevalence, correct=(first, second), both_correct=both)  # type: ignore[arg-type]

    @property
    def n_items(self) -> int:
        """Q, the number of items."""
        return sum(map(sum, self.joint))

    @property
    def uses(self) -> tuple[Pair, Pair]:
        """How often each classifier said each label."""
        (aa, ab), (ba, bb) = self.joint
        return (aa + ab, ba + bb), (aa + ba, ab + bb)

    @property
    def use_rates(self) -> tuple[Rates, Rates]:
        """f_{a_i}, f_{b_i} of each classifier."""
        first, second = (
            (Fraction(u[0], self._items()), Fraction(u[1], self._items())) for u in self.uses
        )
        return first, second

    @property
    def prevalence_rates(self) -> Rates:
        """P_a and P_b."""
        return Fraction(self.prevalence[0], self._items()), Fraction(
            self.prevalence[1], self._items()
        )

    @property
    def accuracies(self) -> tuple[Rates, Rates]:
        """P_{a_i,a}, P_{b_i,b} of each classifier; both labels must occur."""
        q_a, q_b = self._both_labels()
        first, second = ((Fraction(c[0], q_a), Fraction(c[1], q_b)) for c in self.correct)
        return first, second

    @property
    def correlations(self) -> Rates:
        """Γ^a = R_{a_i,a_j,a}/Q_a − P_{a_i,a} P_{a_j,a} and Γ^b likewise (Eq. 14, 15; the
        numerators count items of that true label).
        """
        q = self._both_labels()
        (first, second), both = self.accuracies, self.both_correct
        return Fraction(both[0], q[0]) - first[0] * second[0], Fraction(both[1], q[1]) - first[
            1
        ] * second[1]

    @property
    def covariance(self) -> Fraction:
        """Δ = f_{b_i,b_j} − f_{b_i} f_{b_j} (Eq. 23, 24)."""
        (_, first), (_, second) = self.use_rates
        return Fraction(self.joint[1][1], self.n_items) - first * second

    def _items(self) -> int:
        if not self.n_items:
            raise ArgumentError(
                "joint must count at least one item where rates are asked for; got none."
            )
        return self.n_items

    def _both_labels(self) -> Pair:
        if min(self.prevalence) < 1:
            raise ArgumentError(
                f"prevalence must be positive for both labels where rates are asked for; got {self.prevalence}."
            )
        return self.prevalence


def single_axiom(statistics: PairStatistics, *, classifier: Literal[0, 1] = 0) -> int:
    """(Q R_{a_i,a} − Q_a R_{a_i}) − (Q R_{b_i,b} − Q_b R_{b_i}), which is 0 for every true
    evaluation (Eq. 11).

    Examples
    --------
    >>> single_axiom(PairStatistics.from_table([[[3, 1], [2, 0]], [[0, 2], [1, 4]]]))
    0
    """
    q, (q_a, q_b) = statistics.n_items, statistics.prevalence
    (u_a, u_b), (c_a, c_b) = statistics.uses[classifier], statistics.correct[classifier]
    return (q * c_a - q_a * u_a) - (q * c_b - q_b * u_b)


def single_axiom_rates(statistics: PairStatistics, *, classifier: Literal[0, 1] = 0) -> Fraction:
    """P_a (P_{a_i,a} − f_{a_i}) − P_b (P_{b_i,b} − f_{b_i}), which is 0 for every true evaluation
    (Eq. 10, 16, 17).

    Examples
    --------
    >>> single_axiom_rates(PairStatistics.from_table([[[3, 1], [2, 0]], [[0, 2], [1, 4]]]))
    Fraction(0, 1)
    """
    (p_a, p_b), (f_a, f_b) = statistics.prevalence_rates, statistics.use_rates[classifier]
    right_a, right_b = statistics.accuracies[classifier]
    return p_a * (right_a - f_a) - p_b * (right_b - f_b)


def pair_axiom(statistics: PairStatistics, *, label: Literal["a", "b"] = "a") -> int:
    """R_{a_i,a_j,a} + R_{b_i,b_j,b} − Q_b + (R_{a_i} + R_{a_j}) − R_{a_i,a_j} − (R_{a_i,a} +
    R_{a_j,a}), 0 for every true evaluation.

    This is Eq. 6 with −Q_b where the paper prints −Q_a, and the same as Eq. 30 and 32;
    ``label="b"`` is the twin of Eq. 33.

    Examples
    --------
    >>> pair_axiom(PairStatistics.from_table([[[3, 1], [2, 0]], [[0, 2], [1, 4]]]))
    0
    """
    x = _side(label)
    first, second = statistics.uses
    right_first, right_second = statistics.correct
    used = first[x] + second[x] - statistics.joint[x][x]
    return (
        sum(statistics.both_correct)
        - statistics.prevalence[1 - x]
        + used
        - (right_first[x] + right_second[x])
    )


def pair_axiom_rates(statistics: PairStatistics, *, classifier: Literal[0, 1] = 0) -> Fraction:
    """The pair axiom in P-space, 0 for every true evaluation in which both labels occur (Eq. 18 for
    the first, 19 for the second).

    With k the chosen classifier: (P_{k,a} + P_{k,b} − 1)(P_{i,a} − f_{a_i})(P_{j,b} − f_{b_j}) +
    (Γ^b − Δ)(P_{k,a} − f_{a_k}) + (Γ^a − Δ)(P_{k,b} − f_{b_k}).

    Examples
    --------
    >>> pair_axiom_rates(PairStatistics.from_table([[[3, 1], [2, 0]], [[0, 2], [1, 4]]]), classifier=1)
    Fraction(0, 1)
    """
    (first, second), (used, used_second) = statistics.accuracies, statistics.use_rates
    (gamma_a, gamma_b), delta = statistics.correlations, statistics.covariance
    (k_a, k_b), (f_a, f_b) = statistics.accuracies[classifier], statistics.use_rates[classifier]
    blind = (k_a + k_b - 1) * (first[0] - used[0]) * (second[1] - used_second[1])
    return blind + (gamma_b - delta) * (k_a - f_a) + (gamma_a - delta) * (k_b - f_b)


def generate_uses(*, correct: Pair, prevalence: Pair) -> Pair:
    """The uses of both labels that an evaluation of one classifier makes (Eq. 3, 4).

    Examples
    --------
    >>> generate_uses(correct=(5, 6), prevalence=(6, 7))
    (6, 7)
    """
    (c_a, c_b), (q_a, q_b) = correct, prevalence
    return c_a + (q_b - c_b), (q_a - c_a) + c_b


def generate_pair(
    *, correct: tuple[Pair, Pair], both_correct: Pair, prevalence: Pair
) -> tuple[Pair, Pair]:
    """The joint counts that an evaluation of two classifiers makes (Eq. 25–28; 28 with − R_{a_i,a}
    − R_{a_j,a}, not their product).

    Examples
    --------
    >>> generate_pair(correct=((5, 6), (3, 4)), both_correct=(3, 4), prevalence=(6, 7))
    ((4, 2), (2, 5))
    """
    ((i_a, i_b), (j_a, j_b)), (both_a, both_b), (q_a, q_b) = correct, both_correct, prevalence
    aa = both_a + (q_b - i_b - j_b + both_b)
    ab = (i_a - both_a) + (j_b - both_b)
    ba = (j_a - both_a) + (i_b - both_b)
    bb = (q_a - i_a - j_a + both_a) + both_b
    return (aa, ab), (ba, bb)


def generate_pair_rates(
    *, accuracies: tuple[Rates, Rates], correlations: Rates, prevalence_rates: Rates
) -> tuple[Rates, Rates]:
    """The joint frequencies that accuracies and error correlations make (the generating set after
    Eq. 13).

    Examples
    --------
    >>> s = PairStatistics.from_table([[[3, 1], [2, 0]], [[0, 2], [1, 4]]])
    >>> f = generate_pair_rates(accuracies=s.accuracies, correlations=s.correlations, prevalence_rates=s.prevalence_rates)
    >>> [[int(x * 13) for x in row] for row in f]
    [[4, 2], [2, 5]]
    """
    ((i_a, i_b), (j_a, j_b)), (g_a, g_b), (p_a, p_b) = accuracies, correlations, prevalence_rates
    aa = p_a * (i_a * j_a + g_a) + p_b * ((1 - i_b) * (1 - j_b) + g_b)
    ab = p_a * (i_a * (1 - j_a) - g_a) + p_b * ((1 - i_b) * j_b - g_b)
    ba = p_a * ((1 - i_a) * j_a - g_a) + p_b * (i_b * (1 - j_b) - g_b)
    bb = p_a * ((1 - i_a) * (1 - j_a) + g_a) + p_b * (i_b * j_b + g_b)
    return (aa, ab), (ba, bb)


def _side(label: str) -> int:
    if label not in ("a", "b"):
        raise ArgumentError(f"label must be 'a' or 'b'; got {label!r}.")
    return 0 if label == "a" else 1


# any number of labels


def single_residuals(
    uses: Sequence[int], *, prevalence: Sequence[int], wrong: ArrayLike
) -> tuple[int, ...]:
    """The single-classifier axioms for any number of labels: one residual per label, all 0 for every
    true evaluation.

    R_l − (Q_l − Σ_{m≠l} W_{m,l}) − Σ_{t≠l} W_{l,t}, where ``wrong[m][t]`` is W_{m,t}, the items of
    true label t answered m; its diagonal is not read.

    Examples
    --------
    >>> single_residuals([4, 3, 3], prevalence=[5, 3, 2], wrong=[[0, 1, 0], [1, 0, 1], [1, 1, 0]])
    (0, 0, 0)
    """
    w = np.array(wrong, dtype=object)
    r = len(uses)
    if w.shape != (r, r) or len(prevalence) != r:
        raise ArgumentError(
            f"uses, prevalence and wrong must have one entry per label; got {r}, {len(prevalence)} and shape {w.shape}."
        )
    np.fill_diagonal(w, 0)
    return tuple(
        int(uses[k]) - (int(prevalence[k]) - int(w[:, k].sum())) - int(w[k].sum()) for k in range(r)
    )


def pair_correlations(table: ArrayLike) -> NDArray[np.float64]:
    """Γ[l, m, t] = R_{l_i,m_j,t}/Q_t − R_{l_i,t}/Q_t · R_{m_j,t}/Q_t for any number of labels; NaN
    where no item has true label t.

    ``table[l][m][t]`` counts items of true label t on which the first said l and the second m (Eq.
    62).

    Examples
    --------
    >>> pair_correlations([[[3, 1], [2, 0]], [[0, 2], [1, 4]]])[0, 0].round(3)
    array([0.083, 0.082])
    """
    n = np.asarray(table, dtype=float)
    if n.ndim != 3 or len(set(n.shape)) != 1:
        raise ArgumentError(f"table must have shape (R, R, R); got {n.shape}.")
    items = n.sum(axis=(0, 1))
    share = n / np.where(items > 0, items, np.nan)
    return np.asarray(share - share.sum(axis=1)[:, None, :] * share.sum(axis=0)[None, :, :])


def n_pair_correlations(n_classes: int) -> int:
    """R(R − 1)², the number of error correlations of a pair that can be chosen freely; the paper's
    R^R − R is right for R = 2 only.

    For each true label the R × R correlations have rows and columns that sum to 0.

    Examples
    --------
    >>> [n_pair_correlations(r) for r in (2, 3, 4)]
    [2, 12, 36]
    """
    if n_classes < 2:
        raise ArgumentError(f"n_classes must be at least 2; got {n_classes}.")
    return n_classes * (n_classes - 1) ** 2
