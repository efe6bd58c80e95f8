"""A claim that the evidence certifies, or does not; and what answers alone prove."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from noracle._version import __version__
from noracle.results.base import Guarantee, NaN, Result

Verdict = Literal["alarm", "consistent", "undecided"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Certificate(Result):
    """Is the system better than its annotators by more than ``margin``?

    ``value`` is the difference at the sample and ``low`` its lower limit at ``confidence``;
    ``attained`` is the largest confidence at which the claim would be certified (0 where there is
    none). ``reasons`` says why it is not certified. ``inputs`` holds all that ``verify()`` needs to
    test the claim again.

    Examples
    --------
    >>> from noracle import RatingCounts, certify_superhuman
    >>> votes = RatingCounts.from_arrays([[0, 0, 0]] * 150 + [[0, 0, 1]] * 150, labels=2, answers={"agent": [0] * 300})
    >>> certificate = certify_superhuman(votes, trained_on_annotators="no")
    >>> certificate.certified, certificate.verify()
    (True, True)
    >>> certify_superhuman(votes).certified  # nobody said what the system was trained on
    False
    """

    schema: ClassVar[str] = "certificate/1"

    claim: str
    subject: str
    certified: bool
    value: float
    low: float
    margin: float
    confidence: float
    attained: float = NaN
    method: str
    test: str
    guarantee: Guarantee
    reasons: tuple[str, ...] = ()
    inputs: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    counts: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    diagnostics: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    notes: tuple[str, ...] = ()
    reason: str = ""
    version: str = __version__

    def verify(self) -> bool:
        """Test the claim again from ``inputs`` without the code that certified it; True if the same
        verdict follows.
        """
        from noracle.superhuman.verify import verify_certificate

        return verify_certificate(self)

    def __repr__(self) -> str:
        verdict = "certified" if self.certified else "not certified"
        return f"Certificate({self.claim}: {verdict} at {self.confidence:g}, {self.test}, {self.guarantee.kind.label})"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Proof(Result):
    """Can all classifiers be as good as ``claim`` says?

    ``alarm``: no, whatever the answer key is; ``certificate`` proves it. ``consistent``: some
    answer key allows it, ``witness`` is one; that never means that they are healthy. ``undecided``:
    the time was up. ``sketch`` holds the pattern counts, so that ``verify()`` can check certificate
    and witness in whole numbers without a solver.

    A certificate has a ``kind``: ``weights`` on the rows of the claim (one number for each is
    enough to prove it), ``cases`` (a split into two certificates), ``axioms`` (the most items that
    each label can have, from uses alone) or ``solver`` (an integer solver said so and there is
    nothing to check: ``verify()`` is False). A witness names the true label of each group, and the
    items that have another.

    Examples
    --------
    >>> from noracle import Sketch, prove_malfunction
    >>> sketch = Sketch.from_counts({("a", "a"): 1, ("b", "a"): 1, ("b", "b"): 1}, classifiers=["x", "y"], labels=["a", "b"])
    >>> proof = prove_malfunction(sketch, "accuracy > 1/2")
    >>> proof.status, proof.guarantee.kind.label, proof.verify()
    ('alarm', 'logical', True)
    """

    schema: ClassVar[str] = "proof/1"

    claim: str
    status: Verdict
    method: str
    guarantee: Guarantee
    spec: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    sketch: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    certificate: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    witness: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    counts: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    diagnostics: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    notes: tuple[str, ...] = ()
    reason: str = ""
    version: str = __version__

    def verify(self) -> bool:
        """Check certificate or witness in whole numbers, without a solver; True only if it was
        checked and proves the verdict.
        """
        from noracle.logic.verify import verify_proof

        return verify_proof(self)

    def __repr__(self) -> str:
        return f"Proof({self.claim}: {self.status}, by {self.method})"
