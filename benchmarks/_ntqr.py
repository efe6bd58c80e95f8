"""ntqr's alarm behind one function, and the cases on which it is compared."""

from __future__ import annotations

import time
import warnings
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np


class Case(NamedTuple):
    """How often each classifier gave each answer, and the claim: accuracy on every label above
    ``above``.
    """

    uses: tuple[tuple[int, ...], ...]
    above: Fraction

    @property
    def n_items(self) -> int:
        return sum(self.uses[0])


def cases(n_labels: int, most_items: int, n: int, seed: int = 0) -> list[Case]:
    """Random uses of labels by 2 or 3 classifiers; ntqr takes claims above 1/2, 1/3 or 1/4."""
    rng = np.random.default_rng([n_labels, seed])
    found = []
    for _ in range(n):
        n_items, n_classifiers = (
            int(rng.integers(n_labels, most_items + 1)),
            int(rng.integers(2, 4)),
        )
        uses = tuple(
            tuple(int(v) for v in rng.multinomial(n_items, rng.dirichlet(np.ones(n_labels))))
            for _ in range(n_classifiers)
        )
        found.append(Case(uses, Fraction(1, int(rng.choice([2, 2, 3, 4])))))
    return found


def theirs(case: Case) -> tuple[bool, float]:
    """Whether ntqr's alarm fires, and the processor seconds of that."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its own
        import ntqr.alarms
        import ntqr.r2.evaluations
        import ntqr.r2.raxioms
        import ntqr.r3.evaluations
        import ntqr.r3.raxioms
        from ntqr.labels import Labels

        n_labels = len(case.uses[0])
        module: Any = {
            2: (ntqr.r2.raxioms, ntqr.r2.evaluations),
            3: (ntqr.r3.raxioms, ntqr.r3.evaluations),
        }[n_labels]
        start = time.process_time()
        labels = Labels("abc"[:n_labels])
        axioms = [
            module[0].SingleClassifierAxioms(labels, name) for name in "ijk"[: len(case.uses)]
        ]
        alarm = ntqr.alarms.SingleClassifierAxiomsAlarm(
            case.n_items, axioms, module[1].SingleClassifierEvaluations
        )
        alarm.set_safety_specification([case.above.denominator] * n_labels)
        fired = bool(alarm.are_misaligned(case.uses))
    return fired, time.process_time() - start


def ours(case: Case) -> tuple[bool, float]:
    """Whether the closed form fires, with a proof that is checked, and the processor seconds of
    both.
    """
    from noracle.logic.cascade import prove_by_axioms
    from noracle.logic.spec import Spec

    start = time.process_time()
    uses = {
        name: dict(zip("abc", row, strict=False))
        for name, row in zip("ijk", case.uses, strict=False)
    }
    proof = prove_by_axioms(uses, Spec.accuracy(case.above))
    if not proof.verify():
        raise ArithmeticError(f"the proof of {case} does not verify")
    return proof.status == "alarm", time.process_time() - start
