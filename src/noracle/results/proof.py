"""What answers alone prove."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from noracle._version import __version__
from noracle.results.base import Guarantee, Result

Verdict = Literal["alarm", "consistent", "undecided"]


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
