"""The populations of the MultiPPI examples: a label, some raters, and what sets of raters cost.

A population is a list of different rows (label first) with their shares; samples are drawn from it
with replacement, as in the paper. The paper's ratings are not public. The first three populations
have the shape of its experiments; the fourth is real answers.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from _data import Answers, mmlu_pro, shared_file

from noracle.ppi.columns import solve_columns
from noracle.ppi.measurements import Additive, Cascade, SetPrices, subsets

Array = np.ndarray[Any, Any]
Set = tuple[int, ...]

BUDGETS = (50.0, 250.0, 500.0, 1000.0, 2000.0)
JUDGED = "Meta-Llama-3_1-8B-Instruct"

# Billions of parameters that answer a word (of mixtures of experts only those in use). The size of
# gemini-1.5-flash-002 is not public: 30 is a guess. These are prices by size, not anybody's price
# list.
SIZES = {
    "DeepSeek-Coder-V2": 21.0,
    "Llama-2-13b-hf": 13.0,
    "Llama-2-70b-hf": 69.0,
    "Llama-2-7b-hf": 6.7,
    "Meta-Llama-3-70B": 70.6,
    "Meta-Llama-3-8B": 8.0,
    "Meta-Llama-3_1-70B-Instruct": 70.6,
    "Meta-Llama-3_1-8B-Instruct": 8.0,
    "Meta-Llama-3_1-8B": 8.0,
    "Mistral-7B-Instruct-v0.1": 7.2,
    "Mistral-7B-v0.1": 7.2,
    "Mistral-7B-v0.2-hf": 7.2,
    "Mixtral-8x7B-Instruct-v0.1": 12.9,
    "Phi-3-mini-4k-instruct": 3.8,
    "Qwen1.5-110B": 111.0,
    "Qwen1.5-7B-Chat": 7.7,
    "Yi-6B": 6.1,
    "gemini-1.5-flash-002": 30.0,
    "gemma-7b": 8.5,
    "jamba-1.5-large": 94.0,
}
# Accuracy of the simulated stand-ins for them, by size.
_STAND_INS = {
    "judged-8b": (8.0, 0.43),
    "2b": (2.0, 0.26),
    "7b": (7.0, 0.36),
    "13b": (13.0, 0.42),
    "34b": (34.0, 0.52),
    "70b": (70.0, 0.62),
}


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class World:
    """A population of rows ``cells`` with ``shares``; column 0 is the label, the others are raters
    with these prices.

    ``sets`` are the sets of raters that MultiPPI chooses from, ``cascade`` the expensive and the cheap
    rater of the cascade (equation 4).
    """

    name: str
    names: tuple[str, ...]
    cells: Array
    shares: Array
    prices: SetPrices
    sets: tuple[Set, ...]
    cascade: tuple[int, int]
    source: str

    @property
    def k(self) -> int:
        """Number of columns."""
        return len(self.names)

    @property
    def raters(self) -> Set:
        """All columns but the label."""
        return tuple(range(1, self.k))

    @functools.cached_property
    def means(self) -> Array:
        """The means of the columns; the first is what is wanted."""
        return np.asarray(self.shares @ self.cells)

    @property
    def truth(self) -> float:
        """The mean of the label."""
        return float(self.means[0])

    @functools.cached_property
    def cov(self) -> Array:
        """The covariance of the columns."""
        away = self.cells - self.means
        return np.asarray((away * self.shares[:, None]).T @ away)

    @functools.cached_property
    def _marginals(self) -> dict[Set, tuple[Array, Array]]:
        return {}

    def price(self, chosen: Set) -> float:
        """What one item costs on which these raters are asked."""
        return self.prices.of([c - 1 for c in chosen])

    def marginal(self, chosen: Set) -> tuple[Array, Array]:
        """The different rows of some columns and their shares."""
        if chosen not in self._marginals:
            values, which = np.unique(self.cells[:, list(chosen)], axis=0, return_inverse=True)
            shares = np.bincount(which.ravel(), weights=self.shares, minlength=len(values))
            self._marginals[chosen] = values, shares / shares.sum()
        return self._marginals[chosen]

    def judged(self) -> dict[str, dict[str, float]]:
        """How often each rater is right: on all items, on those whose label is 1, and on others."""
        label = self.cells[:, 0] == 1

        def share(right: Array, those: Array) -> float:
            return float(self.shares[right & those].sum() / self.shares[those].sum())

        everywhere = np.ones_like(label)
        parts = {"accuracy": everywhere, "specificity": label, "sensitivity": ~label}
        return {
            name: {k: share((self.cells[:, i] == 1) == label, p) for k, p in parts.items()}
            for i, name in enumerate(self.names[1:], start=1)
        }

    def correlation(self) -> Array:
        """Correlation of each rater with the label."""
        sd = np.sqrt(np.diag(self.cov))
        return np.asarray(self.cov[0, 1:] / (sd[0] * sd[1:]))


def all_sets(k: int) -> tuple[Set, ...]:
    """All non-empty sets of the raters 1, 2, …, k - 1."""
    return tuple(tuple(i + 1 for i in s) for s in subsets(k - 1))


def restricted_sets(k: int) -> tuple[Set, ...]:
    """The sets of the paper's section D.4 that are bought: each rater alone and all of them."""
    return tuple(dict.fromkeys((tuple(range(1, k)), *((i,) for i in range(1, k)))))


def compress(rows: Array) -> tuple[Array, Array]:
    """The different rows and their shares."""
    cells, counts = np.unique(rows.astype(np.float64), axis=0, return_counts=True)
    return cells, counts / counts.sum()


def arena() -> World:
    """Experiment 1: a human preference and two raters, 1.25 and 0.30 dollars; the expensive one agrees
    with the human no better.
    """
    names = ("human", "Pro", "Flash")
    shares = np.array([0.2315, 0.0295, 0.0421, 0.0469, 0.1018, 0.0572, 0.0746, 0.4164])
    cells = np.array(list(itertools.product((1.0, 0.0), repeat=3)))
    prices = Additive(prices={"Pro": 1.0, "Flash": 0.30 / 1.25}).set_prices(names[1:])
    return World(
        name="arena",
        names=names,
        cells=cells,
        shares=shares,
        prices=prices,
        sets=all_sets(3),
        cascade=(1, 2),
        source="eight cells: correlations .48 (Pro) and .49 (Flash) with the human, .59 with each other",
    )


def thinking() -> World:
    """Experiment 2: one reasoner stopped after 125, 250, 375 and 500 words; equation (8), 10 and
    1.25 dollars per million words.

    A chain given the truth: answers get better with every stop (right on 73, 76, 81, 84 %), and
    find faults more readily, so that the bias grows from +.00 to -.08. A right answer is hardly
    ever given up; if it were, in one step of a hundred, the longest stop alone would be so nearly
    best that estimating more weights costs as much as they bring.
    """
    names = ("correct", "tiny", "small", "medium", "large")
    lengths = dict(zip(names[1:], (125.0, 250.0, 375.0, 500.0), strict=True))
    right = {
        1: (0.70, 0.715, 0.73, 0.74),
        0: (0.75, 0.80, 0.87, 0.93),
    }  # share of right answers at each stop, by truth
    slips = 0.001  # a right answer is given up at the next stop
    cells, shares = [], []
    for row in itertools.product((1, 0), repeat=5):
        truth, answers = row[0], row[1:]
        chance = 0.45 if truth else 0.55
        for stop, answer in enumerate(answers):
            now = right[truth][stop]
            if stop:
                before = right[truth][stop - 1]
                mends = (now - before * (1 - slips)) / (1 - before)
                now = 1 - slips if answers[stop - 1] == truth else mends
            chance *= now if answer == truth else 1 - now
        cells.append(row)
        shares.append(chance)
    unit = (10 + 1.25) * 500  # one query of the longest
    prices = Cascade(lengths=lengths, output=10 / unit, input=1.25 / unit).set_prices(names[1:])
    return World(
        name="thinking",
        names=names,
        cells=np.array(cells, dtype=np.float64),
        shares=np.array(shares),
        prices=prices,
        sets=all_sets(5),
        cascade=(4, 1),
        source="a Markov chain of answers given the truth, 32 cells",
    )


def debate(n_items: int = 524) -> World:
    """Experiment 3: A = 1 … 5 agents and at most R = 1, 2 rounds, cost A·R (section I.1.3; section
    5 has A ≤ 3 and other costs).

    The procedure of I.1.3 is simulated on balanced items of different difficulty: agents vote, a
    pooler says yes, no or uncertain, uncertain ones go to the second round, and at the end a coin
    decides. Everything is generated twice, as in the paper.
    """
    rng = np.random.default_rng(7)
    kinds = [(agents, rounds) for rounds in (1, 2) for agents in (1, 2, 3, 4, 5)]
    truth = np.tile(np.arange(n_items) % 2, 2)
    ease = np.tile(
        np.clip(
            rng.beta(1.7, 0.7, size=n_items) + np.where(truth[:n_items] == 1, 0.06, -0.06),
            0.02,
            0.98,
        ),
        2,
    )
    columns: list[Array] = [truth]
    for agents, rounds in kinds:
        columns.append(_argued(truth, ease, agents, rounds, rng)[1])
    names = ("consistent", *(f"A{a}R{r}" for a, r in kinds))
    cells, shares = compress(np.array(columns).T)
    prices = Additive(prices={f"A{a}R{r}": a * r / 10 for a, r in kinds}).set_prices(names[1:])
    return World(
        name="debate",
        names=names,
        cells=cells,
        shares=shares,
        prices=prices,
        sets=all_sets(11),
        cascade=(10, 5),
        source=f"the debate of I.1.3, simulated on {n_items} items twice",
    )


def debated(n_items: int, agents: int, rounds: int, *, seed: int) -> dict[str, float]:
    """What debates of one size come to: the share that is uncertain at the end, and accuracy where
    an uncertain answer counts nothing (hard) or half (soft).
    """
    rng = np.random.default_rng([seed, 13])
    truth = np.arange(n_items) % 2
    ease = np.clip(rng.beta(1.7, 0.7, size=n_items) + np.where(truth == 1, 0.06, -0.06), 0.02, 0.98)
    decided, answer = _argued(truth, ease, agents, rounds, rng)
    hard, uncertain = float(np.mean(decided & (answer == truth))), float(np.mean(~decided))
    return {"hard": hard, "soft": hard + uncertain / 2, "uncertain": uncertain}


def _argued(
    truth: Array, ease: Array, agents: int, rounds: int, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Which items are decided after so many rounds, and how; a coin for the others."""
    n = len(truth)
    votes = rng.random((n, agents)) < np.where(truth == 1, ease, 1 - ease)[:, None]
    decided, answer = np.zeros(n, dtype=bool), rng.random(n) < 0.5
    for turn in range(rounds):
        share = votes.mean(axis=1)
        doubt = 0.15 + 0.25 / agents + 0.4 * (1 - np.abs(2 * share - 1))
        sure = rng.random(n) >= doubt * 0.4**turn
        newly = sure & ~decided & (share != 0.5)
        answer[newly] = share[newly] > 0.5
        decided |= newly
        follow = rng.random(votes.shape) < 0.5
        votes = np.where(follow & (share != 0.5)[:, None], (share > 0.5)[:, None], votes)
    return decided, answer


def agreement(labelled: int, budgets: Sequence[float], seed: int, pilots: int) -> World:
    """Real answers: is the judged system right, with the agreement (1: same answer) of the other
    systems as raters, priced by size.
    """
    if shared_file("mmlu_pro_predictions.parquet") is None:
        answers, sizes, judged = (
            _stand_in(),
            {name: size for name, (size, _) in _STAND_INS.items()},
            "judged-8b",
        )
    else:
        answers, sizes, judged = mmlu_pro(), SIZES, JUDGED
    own = answers.of(judged)
    others = [s for s in answers.systems if s != judged]
    others.sort(key=lambda s: (sizes[s], s))
    rows = np.array([own == answers.key, *((answers.of(s) == own) & (own >= 0) for s in others)]).T
    cells, shares = compress(rows)
    names = (f"{judged} is right", *others)
    dearest = max(sizes[s] for s in others)
    prices = Additive(prices={s: sizes[s] / dearest for s in others}).set_prices(names[1:])
    cheap = 1 + int(np.argmin([sizes[s] for s in others]))
    world = World(
        name="agreement",
        names=names,
        cells=cells,
        shares=shares,
        prices=prices,
        sets=(),
        cascade=(len(others), cheap),
        source=f"{answers.source}; {len(answers.key):,} questions, {len(others)} systems agree or not with {judged}",
    )
    best = 1 + int(np.argmax(world.correlation()))
    sets = (
        all_sets(world.k) if world.k <= 11 else likely_sets(world, labelled, budgets, seed, pilots)
    )
    return dataclasses.replace(world, sets=sets, cascade=(best, cheap))


def likely_sets(
    world: World, labelled: int, budgets: Sequence[float], seed: int, pilots: int
) -> tuple[Set, ...]:
    """Where there are too many sets for thousands of worlds: singles, pairs, all, and what exact
    plans for some pilots buy.

    Plans for the true covariance and for a few pilots are made by column generation over all sets.
    """
    rng = np.random.default_rng([seed, 77])
    found = dict.fromkeys(
        [*((r,) for r in world.raters), *itertools.combinations(world.raters, 2), world.raters]
    )
    for number in range(pilots + 1):
        cov = world.cov if number == 0 else pilot_cov(world, labelled, rng)
        for budget in budgets if number == 0 else (budgets[number % len(budgets)],):
            exact = exact_plan(world, cov, labelled, budget)
            found.update(
                dict.fromkeys(
                    s for s, n in zip(exact.sets, exact.allocation.n, strict=True) if n > 0.5
                )
            )
    return tuple(found)


def pilot_cov(world: World, labelled: int, rng: np.random.Generator) -> Array:
    """The shrunk covariance of ``labelled`` random rows."""
    from noracle.ppi.covariance import Moments

    rows = world.cells[rng.choice(len(world.cells), size=labelled, p=world.shares)]
    return np.asarray(
        Moments.of(rows, np.ones(labelled), range(world.k), world.means).covariance().cov
    )


def exact_plan(world: World, cov: Array, labelled: int, budget: float) -> Any:
    """The best allocation over all sets of raters, proved, by column generation."""
    prior = labelled * np.linalg.inv(cov)
    return solve_columns(
        cov,
        [world.prices],
        np.array([budget]),
        prior,
        np.eye(world.k)[0],
        variables=world.raters,
        tolerance=1e-5,
    )


def _stand_in(n_items: int = 12_000) -> Answers:
    """Systems of several sizes whose answers share the difficulty of the items and the most
    tempting wrong option.
    """
    rng = np.random.default_rng(2025)
    from scipy.special import ndtri

    key = rng.integers(10, size=n_items)
    tempting = (key + 1 + rng.integers(9, size=n_items)) % 10
    ease = rng.standard_normal(n_items)
    given = []
    for _, accuracy in _STAND_INS.values():
        skill = 0.75 * ease + np.sqrt(1 - 0.75**2) * rng.standard_normal(n_items)
        wrong = np.where(
            rng.random(n_items) < 0.4, tempting, (key + 1 + rng.integers(9, size=n_items)) % 10
        )
        given.append(np.where(skill < ndtri(accuracy), key, wrong))
    return Answers(
        systems=tuple(_STAND_INS),
        n_classes=np.full(n_items, 10),
        key=key,
        given=np.array(given),
        source="simulated stand-in (NORACLE_DATA has no MMLU-Pro file)",
    )
