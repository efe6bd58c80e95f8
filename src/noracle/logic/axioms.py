"""The closed form of the alarm that sees only how often each classifier gave each answer."""

from __future__ import annotations

import numbers
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from noracle.errors import ArgumentError
from noracle.logic.program import Program
from noracle.logic.spec import Linear, Spec, Statement, as_spec
from noracle.results import Assumption, Guarantee, Kind, Proof

if TYPE_CHECKING:
    from numpy.typing import NDArray

Uses = Sequence[Sequence[int]]
ONE_TRUTH = Assumption(name="each item has one true label among the labels")


def largest_prevalences(
    uses: Uses, spec: Spec, classifiers: Sequence[str], labels: Sequence[str]
) -> list[int] | None:
    """The most items that can have each label if all claims hold, from uses alone; None where the
    spec is not of strict accuracies.

    A classifier that used label l in m items is right in at most m of them: q·m - p·Q_l ≥ 1 or Q_l
    = 0.
    """
    n_items = sum(uses[0])
    if any(isinstance(s, Linear) or s.kind != "accuracy" or not s.strict for s in spec.statements):
        return None
    statements = [s for s in spec.statements if isinstance(s, Statement)]
    found = []
    for r, label in enumerate(labels):
        most = n_items
        for s in statements:
            if s.on in {None, label}:
                p, q = s.above.numerator, s.above.denominator
                for i, name in enumerate(classifiers):
                    if s.of in {None, name}:
                        m = uses[i][r]
                        most = min(most, 0 if m == 0 else n_items if p == 0 else (q * m - 1) // p)
        found.append(most)
    return found


def tightest(program: Program, uses: NDArray[np.int64]) -> NDArray[np.float64]:
    """Weights 1/p on the tightest row of each label: where Σ_l q_l m_l / p_l < Q they prove what
    the closed form proves.
    """
    best: dict[int, tuple[float, int, int]] = {}
    for k, row in enumerate(program.rows):
        if row.unless is not None and row.pieces[1].coefficient < 0:
            i, r = row.unless
            q, p = row.pieces[0].coefficient, -row.pieces[1].coefficient
            best[r] = min(best.get(r, (np.inf, 0, 1)), (q * int(uses[i, r]) / p, k, p))
    weights = np.zeros(len(program.rows))
    for _, k, p in best.values():
        weights[k] = 1 / p
    return weights


def axiom_alarm(uses: Mapping[str, Mapping[str, int]], spec: Spec | str) -> Proof:
    """Can all be as good as claimed? Proof from how often each classifier used each label, and
    nothing else.

    With m_l the fewest uses of label l by any classifier and U_l = max{q ≥ 0 : q = 0 or q < m_l /
    θ_l}, the alarm fires if and only if Σ_l U_l < Q. Full patterns prove more: see
    :func:`prove_malfunction`.

    Parameters
    ----------
    uses
        For each classifier how often it gave each answer. All must have answered all items.
    spec
        Strict accuracies on labels, such as ``"accuracy > 1/2"``.

    Returns
    -------
    Proof
        ``alarm`` or ``consistent``: then the witness has prevalences of the labels that all
        classifiers could meet.

    Raises
    ------
    ArgumentError
        If the totals differ, or the spec has other statements than strict accuracies.

    Notes
    -----
    Assumptions: every item has exactly one true label among those that are used, and every
    classifier answered every item. Nothing about how items were drawn or how errors depend on each
    other.

    References
    ----------
    Corrada-Emmanuel, Parker and Bharadwaj, "A logical alarm for misaligned binary classifiers"
    (single-classifier axioms), whose alarm this closed form decides without enumeration, for any
    number of labels.

    Examples
    --------
    >>> uses = {"Mistral": {"A": 27, "B": 254}, "GPT4": {"A": 234, "B": 47}}
    >>> proof = axiom_alarm(uses, "accuracy > 1/2")
    >>> proof.status, proof.certificate["most"], proof.verify()
    ('alarm', [53, 93], True)
    """
    spec = as_spec(spec)
    if not isinstance(uses, Mapping) or not all(isinstance(row, Mapping) for row in uses.values()):
        remedy = "Use prove_malfunction for a sketch: it sees more than these counts."
        raise ArgumentError(
            f"uses must map classifiers to how often they gave each answer; got {type(uses).__name__}. {remedy}"
        )
    classifiers = list(uses)
    labels = list(dict.fromkeys(label for row in uses.values() for label in row))
    if not classifiers or len(labels) < 2:
        raise ArgumentError(
            f"uses must have classifiers and at least two labels; got {len(classifiers)} and {len(labels)}."
        )
    counts: list[Any] = [n for row in uses.values() for n in row.values()]
    strange = [n for n in counts if isinstance(n, bool) or not isinstance(n, numbers.Integral)]
    if strange:
        raise ArgumentError(f"uses must be whole numbers; got {strange[0]!r}.")
    table = [[int(uses[c].get(label, 0)) for label in labels] for c in classifiers]
    totals = {c: sum(row) for c, row in zip(classifiers, table, strict=True)}
    if min(map(min, table)) < 0 or len(set(totals.values())) != 1 or not sum(table[0]):
        raise ArgumentError(
            f"uses must be counts with one total, as all classifiers answer all items; got totals {totals}."
        )
    for s in spec.statements:
        if isinstance(s, Statement) and (
            (s.of is not None and s.of not in classifiers)
            or (s.on is not None and s.on not in labels)
        ):
            raise ArgumentError(
                f"spec must name classifiers among {classifiers} and labels among {labels}; got {s}."
            )
    most = largest_prevalences(table, spec, classifiers, labels)
    if most is None:
        raise ArgumentError(
            f"spec must have strict accuracies on labels only; got '{spec}'. Use prove_malfunction for other claims."
        )
    n_items = sum(table[0])
    fired = sum(most) < n_items
    witness: dict[str, Any] = {}
    if not fired:
        left, prevalence = n_items, []
        for m in most:
            prevalence.append(min(m, left))
            left -= prevalence[-1]
        witness = {"prevalence": prevalence}
    return Proof(
        claim=str(spec),
        status="alarm" if fired else "consistent",
        method="single-classifier axioms",
        guarantee=Guarantee(kind=Kind.LOGICAL, error_rate=0.0, assumptions=(ONE_TRUTH,)),
        spec={"statements": spec.to_list(), "prevalence": {}},
        sketch={"classifiers": classifiers, "labels": labels, "uses": table},
        certificate={"kind": "axioms", "most": most} if fired else {},
        witness=witness,
        counts={"items": n_items, "classifiers": len(classifiers), "labels": len(labels)},
        notes=() if fired else ("consistent does not mean that all classifiers are good",),
    )
