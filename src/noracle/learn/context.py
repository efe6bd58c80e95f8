"""What a loss knows besides logits and labels; it follows the model to its device."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from noracle.errors import ArgumentError
from noracle.learn.transition import Matrix, Transition

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


class Context(nn.Module):
    """T, its inverse and class shares, checked once.

    A column of zeros in T is a class that is never ruled out. A label there, which T calls
    impossible, costs a constant and teaches nothing.

    Parameters
    ----------
    transition
        P(ruled out | true class).
    pi_bar
        Shares of the ruled-out classes among all labels; None: each batch counts its own.
    n_items
        Number of all labelled items, of which a batch is a part; endless by default.
    prior
        Shares of the true classes; uniform by default.
    needs_inverse
        Whether T⁻¹ is wanted. A singular T is no fault for losses without it.
    trainable, floor
        Whether T is a parameter, and the share of J/K that it starts with: zeros could not move. A
        T with noise and a certain model explain labels no better than a T without and a model in
        doubt, so a trained T is found only where something else fixes the model.

    Attributes
    ----------
    T, log_transition
        P(ruled out | true class) and its logarithm (-inf where zero).
    T_inv, column_sums
        The inverse and w_j = Σ_k (T⁻¹)[k, j]; empty without ``needs_inverse``.

    Raises
    ------
    SingularTransition
        If T⁻¹ is wanted and T has none to speak of.
    """

    T: Tensor
    log_transition: Tensor
    T_inv: Tensor
    column_sums: Tensor
    prior: Tensor
    pi_bar: Tensor | None

    def __init__(
        self,
        transition: Transition,
        *,
        pi_bar: ArrayLike | None = None,
        n_items: float = math.inf,
        prior: ArrayLike | None = None,
        needs_inverse: bool = False,
        trainable: bool = False,
        floor: float = 1e-3,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        if not n_items > 0:
            raise ArgumentError(f"n_items must be positive; got {n_items}.")
        if not 0 < floor < 1:
            raise ArgumentError(f"floor must be in (0, 1); got {floor}.")
        k = transition.n_classes
        self.transition = transition
        self.n_classes = k
        self.n_items = n_items
        inverse = transition.inverse() if needs_inverse else np.zeros((0, 0))
        self.smallest_column_sum = float(inverse.sum(axis=0).min()) if needs_inverse else np.nan
        for name, values in (
            ("T", transition.matrix),
            ("log_transition", _log(transition.matrix)),
            ("T_inv", inverse),
            ("column_sums", inverse.sum(axis=0)),
            ("prior", _shares("prior", prior, k)),
            ("pi_bar", None if pi_bar is None else _shares("pi_bar", pi_bar, k)),
        ):
            self.register_buffer(
                name, None if values is None else torch.tensor(values, dtype=dtype)
            )
        start = np.log((1 - floor) * transition.matrix + floor / k)
        self.free_T = nn.Parameter(torch.tensor(start, dtype=dtype)) if trainable else None

    @property
    def source(self) -> str:
        """Where T came from; ``trained`` if it is a parameter."""
        return self.transition.source if self.free_T is None else "trained"

    def current_log_transition(self) -> Tensor:
        """Logarithm of T: the trained one where there is one."""
        return self.log_transition if self.free_T is None else self.free_T.log_softmax(dim=1)

    def inverse(self) -> Tensor:
        """T⁻¹, or an error where the context was made without it."""
        if self.T_inv.numel() == 0:
            raise ArgumentError(
                "context must be made with needs_inverse=True for this loss; got one without."
            )
        return self.T_inv

    def positive_column_sums(self) -> Tensor:
        """w_j = Σ_k (T⁻¹)[k, j], or an error where one is not positive."""
        self.inverse()
        if not self.smallest_column_sum > 1e-9:
            raise ArgumentError(
                f"transition must have an inverse with positive column sums for base wmae; got {self.smallest_column_sum:.3g}. "
                "Use base mae or gce."
            )
        return self.column_sums

    def trained(self) -> Transition:
        """The matrix as it is now."""
        if self.free_T is None:
            return self.transition
        matrix = self.free_T.detach().double().softmax(dim=1).cpu().numpy()
        start = f"started from {self.transition.source}"
        return Transition(matrix, "trained", start, self.transition.oracle)


def _log(matrix: Matrix) -> Matrix:
    """Logarithm, -inf at zero; a column of zeros becomes a constant, whose gradient is zero and not
    NaN.
    """
    tiny = float(np.finfo(np.float32).tiny)
    possible = np.where(matrix.max(axis=0) > 0, matrix, tiny)
    logarithm = np.full(matrix.shape, -np.inf)
    np.log(possible, out=logarithm, where=possible > 0)
    return logarithm


def _shares(name: str, values: ArrayLike | None, k: int) -> Matrix:
    if values is None:
        return np.full(k, 1 / k)
    shares = np.asarray(values, dtype=np.float64)
    if (
        shares.shape != (k,)
        or not np.isfinite(shares).all()
        or shares.min() < 0
        or shares.sum() <= 0
    ):
        raise ArgumentError(f"{name} must be {k} non-negative shares; got {shares.tolist()[:8]}.")
    return np.asarray(shares / shares.sum(), dtype=np.float64)
