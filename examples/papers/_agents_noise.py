"""What selection alone does: many agents that are all the same, and the best-looking one of them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]


class Size(NamedTuple):
    """A benchmark of the paper: options, validation and test items, a plausible accuracy, and the
    noise found by an earlier simulation.
    """

    name: str
    n_classes: int
    n: int
    n_test: int
    accuracy: float
    earlier_complementary: float
    earlier_ordinary: float


SIZES = (
    Size("GPQA", 4, 88, 458, 0.45, 21, 9),
    Size("Medical Abstracts", 5, 120, 800, 0.62, 18, 7),
    Size("Math-MC", 5, 120, 800, 0.86, 11, 5),
)
N_AGENTS = 37


class Noise(NamedTuple):
    """Mean over replications, in points: by how much the winner of a selection looks better than it
    is.
    """

    complementary: float
    ordinary: float
    held_out: float
    picks_complementary: float
    picks_ordinary: float


def answers(
    rng: np.random.Generator,
    shape: tuple[int, int, int],
    accuracy: float,
    n_classes: int,
    *,
    lead: float = 0.0,
) -> tuple[Array, Array]:
    """Answers of identical agents, and one complementary label an item.

    Class 0 is right. Item i is answered rightly with chance p_i ~ Beta(2A, 2(1 - A)), else with a
    wrong class drawn from the item's own Dirichlet(0.5) weights: agents share what is hard and
    which wrong answers tempt. ``lead`` makes the first agent better by that much.
    """
    replications, n_agents, n = shape
    p = rng.beta(2 * accuracy, 2 * (1 - accuracy), size=(replications, 1, n))
    tempting = rng.gamma(0.5, size=(replications, 1, n, n_classes - 1)).cumsum(axis=-1)
    tempting /= tempting[..., -1:]
    wrong = 1 + (rng.random((replications, n_agents, n, 1)) > tempting).sum(axis=-1)
    # The first agent turns a share of the errors into right answers, so that its accuracy is higher
    # by the lead.
    extra = np.zeros((1, n_agents, 1))
    extra[0, 0, 0] = lead / (1 - accuracy)
    chosen = np.where(rng.random((replications, n_agents, n)) < p + (1 - p) * extra, 0, wrong)
    return chosen, rng.integers(1, n_classes, size=(replications, n))


def scores(chosen: Array, ruled_out: Array, n_classes: int) -> tuple[Array, Array]:
    """Mean of 1 - (K - 1)·hit, and the share of right answers, of each agent."""
    return 1 - (n_classes - 1) * (chosen == ruled_out[:, None]).mean(axis=-1), (chosen == 0).mean(
        axis=-1
    )


def selection_noise(size: Size, *, replications: int, seed: int) -> Noise:
    """37 identical agents: the winner on validation labels against its true accuracy, and
    re-estimated on as many fresh labels.
    """
    rng = np.random.default_rng(seed)
    chosen, ruled_out = answers(
        rng, (replications, N_AGENTS, size.n), size.accuracy, size.n_classes
    )
    weak, right = scores(chosen, ruled_out, size.n_classes)
    fresh, _ = scores(
        *answers(rng, (replications, 1, size.n), size.accuracy, size.n_classes), size.n_classes
    )
    picks = []
    for lead_scores in scores(
        *answers(rng, (replications * 5, 2, size.n), size.accuracy, size.n_classes, lead=0.05),
        size.n_classes,
    ):
        ahead = lead_scores[:, 0] - lead_scores[:, 1]
        picks.append(float(np.mean(np.where(np.abs(ahead) < 1e-12, 0.5, ahead > 0))))
    gap = 100 * (
        np.array([weak.max(axis=1).mean(), right.max(axis=1).mean(), fresh.mean()]) - size.accuracy
    )
    return Noise(*map(float, gap), *picks)
