"""Items one by one: a certificate that is valid at every look."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from noracle.bounds.betting import FRACTIONS, LOG_PRIOR
from noracle.counts.ratings import RatingCounts
from noracle.errors import EvidenceError, fault
from noracle.results import Certificate, Check, check_confidence
from noracle.superhuman.certify import decide, the_system
from noracle.superhuman.difference import Row, Sample, sample_of
from noracle.superhuman.statement import Trained, check_margin, read_check, trained_word


class CertificateStream:
    """Takes rated items one by one, or in batches, and always holds a valid certificate for one
    system.

    The test is betting: one may look after every item and stop when the certificate is given; the
    error rate stays 1 - confidence over all looks together. Items must come in random order, and an
    item is entered once, when its last rating is in. How many ratings an item gets may depend on
    its ratings, not on the answer of the system. Only counts are kept, never items.

    Parameters
    ----------
    margin, trained_on_annotators, check, confidence
        As in :func:`certify_superhuman`; fixed before the first item.
    clustered
        Items come in clusters, of which only some items may have come: then nothing is promised.

    Notes
    -----
    With Z = match - share of the top label, the wealth mean over θ of Π(1 + θ·(Z - margin)/(1 +
    margin)) has a mean of at most 1 where the claim is false; it is certified when it reaches 1/(1
    - confidence).

    Assumes what :func:`certify_superhuman` assumes: one true label per item, independent items, and
    that the system does not repeat the annotators' errors, (6), which must be stated or supported
    by a check.

    References
    ----------
    Waudby-Smith and Ramdas (2024), JRSS-B 86, 1-27; Xu, Walder and Xu, "Humanly certifying
    superhuman classifiers" (ICLR 2023).

    Examples
    --------
    >>> stream = CertificateStream(trained_on_annotators="no")
    >>> for _ in range(40):
    ...     stream.update(ratings=["cat", "cat", "dog"], answer="cat")
    >>> stream.n, stream.certificate().certified, round(stream.attained, 3)
    (40, True, 1.0)
    """

    def __init__(
        self,
        *,
        system: str = "system",
        margin: float = 0.0,
        trained_on_annotators: Trained | bool | None = "unknown",
        check: Check | None = None,
        confidence: float = 0.95,
        clustered: bool = False,
    ) -> None:
        self.system = system
        self.clustered = clustered
        self.margin = check_margin(margin)
        self.confidence = check_confidence(confidence)
        self._trained = trained_word(trained_on_annotators)
        self._check = read_check(check, system)
        self._rows: Counter[tuple[int, int, int, int]] = Counter()
        self._silent = 0
        self._logs = LOG_PRIOR.copy()
        self.n = 0

    def update(self, *, ratings: Sequence[Hashable], answer: Hashable | None) -> None:
        """Take one item with all its ratings (labels; None is missing) and the answer of the system
        (None: no answer).
        """
        votes = Counter(label for label in ratings if label is not None)
        if not votes:
            raise EvidenceError(
                fault(
                    "ratings",
                    "must hold at least one label",
                    "none",
                    remedy="Leave out items without ratings.",
                )
            )
        top = max(votes.values())
        tied = sum(n == top for n in votes.values())
        hit = answer is not None and votes.get(answer, 0) == top
        self._silent += answer is None
        self._add((int(hit), tied, top, votes.total(), 1))

    def extend(self, counts: RatingCounts) -> None:
        """Take a batch of items as counts; ``system`` must be among their systems."""
        system = the_system(counts, self.system if self.system in counts.answers else None)
        sample, _ = sample_of(counts, system, ties="share", seed=0)
        self._silent += int(counts.answers[system][:, -1].sum())
        for row in sample.rows:
            self._add(row)

    def _add(self, row: Row) -> None:
        hit, tied, top, votes, n = row
        self._rows[hit, tied, top, votes] += n
        self.n += n
        gain = (hit / tied - top / votes - self.margin) / (self.margin + 1)
        with np.errstate(divide="ignore"):
            self._logs = self._logs + n * np.log1p(FRACTIONS * gain)

    @property
    def attained(self) -> float:
        """The largest confidence at which the test certifies now."""
        top = float(self._logs.max())
        wealth = (
            top + math.log(float(np.exp(self._logs - top).sum())) if math.isfinite(top) else top
        )
        return max(0.0, 1 - math.exp(-max(wealth, 0.0)))

    def certificate(self) -> Certificate:
        """The certificate now."""
        rows: tuple[Row, ...] = tuple((*key, n) for key, n in sorted(self._rows.items()))
        inputs: dict[str, Any] = {
            "kind": "ratings",
            "test": "betting",
            "margin": self.margin,
            "confidence": self.confidence,
            "aggregate": "plurality",
            "ties": "share",
            "rows": [list(row) for row in rows],
            "without_answer": self._silent,
            "unused": {},
            "trained_on_annotators": self._trained,
            "check": self._check,
            **({"clusters_ignored": True} if self.clustered else {}),
        }
        return decide(Sample(rows=rows), None, self.system, inputs)
