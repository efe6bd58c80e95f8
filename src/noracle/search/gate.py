"""When does a candidate replace the one before it? Only when fresh labels prove it better.

Two promises are kept apart. *Which candidate a search returns* is a choice: the leader on the
validation labels, the best guess that these labels allow. *That it is better* is a claim: a wealth
process bets on the paired differences d_i of labels that neither designed nor chose the candidate,
and the claim is made when the wealth passes a threshold. With error rate 1 - confidence no
candidate is ever accepted over one that is at least as good, however many are tried.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from itertools import pairwise

from noracle.bounds.betting import log_wealth
from noracle.errors import require
from noracle.results import Assumption, Guarantee, Kind, check_confidence
from noracle.search.fitness import RIGHT, SAMPLED, PairedScores
from noracle.search.model import at_least

SHARES = (0.5, 0.2, 0.3)
"""Validation, confirm, final shares of the labelled items.

Half goes to validation, because choosing the best of many needs the most labels: with one question
per item and 600 labels, a candidate that is 15 points better than 36 others leads in about 85 % of
searches at a half, and in two thirds of them at a third. The final part is larger than the confirm
part, because it serves twice (the estimate, and one comparison with the first baseline at the whole
error rate), while the confirm part pays for many looks.
"""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What the gate said about one challenge. ``value`` is the mean difference, ``wealth`` what a
    bet of 1 became, ``n`` the items.

    Examples
    --------
    >>> import numpy as np
    >>> pairs = PairedScores(item=tuple(range(40)), value=np.tile([1.0, 1.0, 1.0, -1.0], 10), low=np.full(40, -1.0))
    >>> decision = Gate(n_candidates=1).challenge(pairs, fresh=True)
    >>> decision.accepted, decision.value, decision.wealth > decision.threshold
    (True, 0.5, True)
    """

    accepted: bool
    wealth: float
    threshold: float
    n: int
    value: float
    guarantee: Guarantee
    reason: str = ""


class Gate:
    """Accepts a challenger over the incumbent only when fresh labels prove it better.

    The wealth of a challenge is that of betting that mean d > 0: Π(1 + θ·d_i/m_i), mixed over a
    fixed grid of θ; m_i is the most that item i can lose. It is at most 1 on average where the
    challenger is not better, so that it reaches 1/ε with probability at most ε, whenever one looks.

    The error rate is spent over challenges. All of them may use the *same* confirm labels as long
    as nothing but the gate's yes or no leaves them: then a challenge, and both of its candidates,
    are known from which earlier challenges were accepted. The a + 1-th acceptance at one of N
    challenges has C(N, a + 1) such histories, and each gets the part 2^-(a+1)/C(N, a + 1) of the
    error rate. The first acceptance needs a wealth of 2·N/error, each later one more.

    Parameters
    ----------
    confidence
        With this probability no acceptance is false: none replaced a candidate that is at least as
        good.
    n_candidates
        The most challenges that there will be. None: any number; the parts then are 2^-(a+1)·Π
        1/(g·(g+1)) over the gaps g between acceptances, which costs less where few candidates
        challenge, as when only those do that lead on validation.
    challenged, accepted_at
        What happened before, for a search that goes on: how many challenges were made, and at which
        (from 1) one was accepted.

    Notes
    -----
    Assumes that the items of a challenge are a random sample, that labels were drawn as recorded,
    and that nothing but the gate's yes or no has left the confirm labels.

    References
    ----------
    Ville (1939); Waudby-Smith and Ramdas (2024), JRSS-B 86, 1-27; Blum and Hardt (2015), ICML, for
    counting histories of one bit.

    Examples
    --------
    >>> import numpy as np
    >>> gate = Gate(n_candidates=30)
    >>> pairs = PairedScores(item=tuple(range(40)), value=np.tile([1.0, 1.0, 1.0, -1.0], 10), low=np.full(40, -1.0))
    >>> gate.challenge(pairs, fresh=True).accepted
    False
    >>> Gate(n_candidates=1).challenge(pairs, fresh=True).accepted
    True
    """

    def __init__(
        self,
        confidence: float = 0.95,
        n_candidates: int | None = None,
        *,
        challenged: int = 0,
        accepted_at: Sequence[int] = (),
    ) -> None:
        self.confidence = check_confidence(confidence)
        at_least(1, n_candidates=n_candidates)
        marks = tuple(accepted_at)
        rise = all(a < b for a, b in pairwise((0, *marks, challenged + 1)))
        rule = f"must rise from 1 to at most challenged = {challenged}"
        require(rise or not marks, f"accepted_at {rule}; got {list(marks)}.")
        self.n_candidates, self.challenged, self.accepted_at = n_candidates, challenged, marks

    @property
    def next_error(self) -> float:
        """The part of the error rate that the next challenge spends."""
        return (1 - self.confidence) * self._share(self.challenged + 1)

    def challenge(self, pairs: PairedScores, *, fresh: bool) -> Decision:
        """Decide about one challenger and count the challenge.

        Parameters
        ----------
        pairs
            Differences challenger minus incumbent of :func:`noracle.search.fitness.paired`.
        fresh
            The labels were used neither to design nor to choose the candidates, except through
            earlier decisions of this gate. Otherwise the decision is a rule of thumb, and its
            guarantee says so.
        """
        room = self.n_candidates is None or self.challenged < self.n_candidates
        came = f"{self.n_candidates} and one more. Make a gate for more"
        require(room, f"n_candidates must bound the challenges; got {came}.")
        error = self.next_error
        self.challenged += 1
        wealth = log_wealth(pairs.rows, 0.0) if pairs.n else 0.0
        accepted = bool(pairs.n) and wealth >= -math.log(error)
        if accepted:
            self.accepted_at = (*self.accepted_at, self.challenged)
        return Decision(
            accepted=accepted,
            wealth=math.exp(min(wealth, 700.0)),
            threshold=1 / error,
            n=pairs.n,
            value=pairs.mean,
            guarantee=_guarantee(self.confidence, pairs, fresh=fresh),
            reason="" if pairs.n else "no labelled item that both answered",
        )

    def _share(self, j: int) -> float:
        """The part of the error rate for the j-th challenge, after those that were accepted."""
        size = len(self.accepted_at) + 1
        if self.n_candidates is None:
            share = 2.0**-size
            for a, b in pairwise((0, *self.accepted_at, j)):
                share /= (b - a) * (b - a + 1)
            return share
        # The last size has the rest of 1/2 + 1/4 + …, so that one single challenge has the whole
        # error rate.
        return 2.0 ** -min(size, self.n_candidates - 1) / math.comb(self.n_candidates, size)


_UNIFORM = "the class asked about does not depend on item, truth or answers"
_RECORDED = "each class was asked about with the probability that was recorded"
_ROUTING = {
    "complementary": Assumption(name="uniform routing", detail=_UNIFORM),
    "targeted": Assumption(name="recorded propensities", detail=_RECORDED),
}


def _guarantee(confidence: float, pairs: PairedScores, *, fresh: bool) -> Guarantee:
    detail = "used neither to design nor to choose a candidate, except through earlier decisions of this gate"
    new = Assumption(name="fresh labels", status="by-design" if fresh else "failed", detail=detail)
    rests = (SAMPLED, new, RIGHT, *(_ROUTING[kind] for kind in _ROUTING if kind in pairs.kinds))
    kind = Kind.FINITE_SAMPLE if fresh else Kind.HEURISTIC
    return Guarantee(kind=kind, error_rate=1 - confidence, anytime=fresh, assumptions=rests)
