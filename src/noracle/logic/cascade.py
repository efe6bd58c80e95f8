"""Can all classifiers be as good as claimed? The verdict, cheapest proof first."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from noracle.counts.sketch import Sketch
from noracle.errors import ArgumentError
from noracle.logic.axioms import ONE_TRUTH, largest_prevalences, tightest
from noracle.logic.branch import Node, search
from noracle.logic.dual import Case, Leaf, dual_steps
from noracle.logic.program import Program, Whole, rows_of
from noracle.logic.side import check_prevalence
from noracle.logic.solver import MOST_ENTRIES, entries, integral, is_tame, ready
from noracle.logic.spec import Spec, as_spec
from noracle.results import Assumption, Guarantee, Kind, Proof, Verdict

if TYPE_CHECKING:
    from numpy.typing import NDArray

_FIRST_NODES = 40
_MOST_NODES = 20_000
_SMALL = 20_000
_TIME_UP = "the time limit was reached"


class Decided(NamedTuple):
    """A verdict with what proves it: a node (alarm), counts (consistent), or neither."""

    status: Verdict
    method: str
    node: Node | None = None
    given: Whole | None = None
    labels: NDArray[np.intp] | None = None
    most: list[int] | None = None
    steps: int = 0
    nodes: int = 0
    reason: str = ""


def prove_malfunction(
    sketch: Sketch,
    spec: Spec | str,
    *,
    prevalence: Mapping[str, tuple[int, int]] | None = None,
    time_limit: float = 30.0,
) -> Proof:
    """Prove that not all classifiers can be as good as claimed, or show that they could be.

    Parameters
    ----------
    sketch
        How often each pattern of answers was given, with what is known of the items: see
        :class:`noracle.counts.sketch.Sketch`.
    spec
        What is claimed, for example ``"accuracy > 1/2"`` (each classifier, on each label) or
        ``"grade > 0.8"`` (over all labels); or a
        :class:`Spec`. Thresholds are exact fractions, and "more than" is strict. On a label of which a classifier answered no item,
        the claim holds: nobody is proved broken by not answering.
    prevalence
        For some labels the least and the most items that can have it.
    time_limit
        Seconds after which the verdict is ``undecided``.

    Returns
    -------
    Proof
        ``alarm``: whatever the true labels are, at least one classifier breaks the claim;
        ``certificate`` proves it. ``consistent``: the true labels could be as in ``witness``; that
        does not mean that all are good. ``undecided``: time was up. ``verify()`` checks certificate
        or witness in whole numbers, without a solver; it is False for an alarm that rests on the
        integer solver alone (method ``"integer program"``), because nothing was checked.

    Raises
    ------
    ArgumentError
        If the spec or the prevalence breaks a rule, if what is known of the items contradicts
        itself, or if nothing could ever be proved: one classifier, or no item that two classifiers
        answered, with nothing known of the items.

    Notes
    -----
    With counts n_{g,l} of items of group g with true label l, claims are rows Σ c n ≥ b of an
    integer program: q·(right) - p·(answered) ≥ 1 for accuracy > p/q. Tried in turn: the closed form
    from uses of labels; the plurality vote as truth; weights on rows (D(w) < B(w), see
    :mod:`noracle.logic.dual`); the linear program, whose multipliers are such weights; splits into cases; the integer program.

    Assumptions: every item has exactly one true label among ``labels``; known answers, ruled-out
    labels and prevalences are true. No assumption about how items were drawn or how errors depend
    on each other.

    References
    ----------
    Corrada-Emmanuel, Parker and Bharadwaj, "A logical alarm for misaligned binary classifiers",
    whose alarm sees one classifier at a time (:func:`axiom_alarm`). Full patterns are strictly
    stronger.

    Examples
    --------
    >>> counts = {("A", "A"): 26, ("A", "B"): 1, ("B", "A"): 208, ("B", "B"): 46}
    >>> sketch = Sketch.from_counts(counts, classifiers=["Mistral", "GPT4"], labels=["A", "B"])
    >>> proof = prove_malfunction(sketch, "accuracy > 1/2")
    >>> proof.status, proof.verify()
    ('alarm', True)
    """
    started = time.monotonic()
    spec = as_spec(spec)
    if not (isinstance(time_limit, (int, float)) and 0 < time_limit < math.inf):
        raise ArgumentError(f"time_limit must be a positive number of seconds; got {time_limit!r}.")
    bounds = check_prevalence(sketch, prevalence)
    rows = rows_of(sketch, spec, bounds)
    _refuse_hopeless(sketch, spec, bounds)
    decided = decide(sketch, spec, Program(sketch, rows), deadline=started + time_limit)
    return _as_proof(sketch, spec, bounds, decided, time_limit)


def decide(sketch: Sketch, spec: Spec, program: Program, *, deadline: float) -> Decided:
    """The cascade itself."""
    case = Case(program)
    if sketch.is_complete:
        most = largest_prevalences(sketch.uses.tolist(), spec, sketch.classifiers, sketch.labels)
        if most is not None and sum(most) < sketch.n_items:
            node = case.leaf(tightest(program, sketch.uses)) or _tree(program, deadline)
            return Decided("alarm", "single-classifier axioms", most=most, node=node)
    cells = sketch.n_groups * program.R
    stepped = dual_steps(
        case,
        steps=20 if cells <= 300 else 100 if cells <= _SMALL else 300,
        deadline=_share(deadline, 0.5),
    )
    if stepped.labels is not None:
        method = "plurality vote as truth" if stepped.steps == 1 else "dual steps"
        return Decided("consistent", method, labels=stepped.labels, steps=stepped.steps)
    if stepped.leaf is not None:
        return Decided("alarm", "weights on rows", node=stepped.leaf, steps=stepped.steps)
    if entries(program) > MOST_ENTRIES:
        return Decided(
            "undecided",
            "dual steps",
            steps=stepped.steps,
            reason="too many patterns for the linear program",
        )
    if not ready(deadline):
        return Decided("undecided", "dual steps", steps=stepped.steps, reason=_TIME_UP)
    found = search(program, most=_FIRST_NODES, deadline=_share(deadline, 0.5))
    if found.given is not None:
        return Decided(
            "consistent",
            _by(found.nodes),
            given=found.given,
            steps=stepped.steps,
            nodes=found.nodes,
        )
    if found.node is not None:
        return Decided(
            "alarm", _by(found.nodes), node=found.node, steps=stepped.steps, nodes=found.nodes
        )
    solved = integral(case, _share(deadline, 0.7))
    if solved.status == "solved":
        given = solved.given.astype(np.int64)
        if program.is_satisfied(given):
            return Decided(
                "consistent", "integer program", given=given, steps=stepped.steps, nodes=found.nodes
            )
    more = search(
        program, most=_MOST_NODES, deadline=deadline
    )  # a proof to check, or the last chance
    nodes = found.nodes + more.nodes
    if more.given is not None:
        return Decided(
            "consistent", _by(more.nodes), given=more.given, steps=stepped.steps, nodes=nodes
        )
    if more.node is not None:
        return Decided("alarm", _by(more.nodes), node=more.node, steps=stepped.steps, nodes=nodes)
    if solved.status == "infeasible" and is_tame(program):
        return Decided("alarm", "integer program", steps=stepped.steps, nodes=nodes)
    return Decided(
        "undecided", "integer program", steps=stepped.steps, nodes=nodes, reason=_TIME_UP
    )


def _tree(program: Program, deadline: float) -> Node | None:
    """Cases that prove what the closed form has proved by rounding, where they are few."""
    if entries(program) > _SMALL or not ready(_share(deadline, 0.5)):
        return None
    return search(program, most=_FIRST_NODES, deadline=_share(deadline, 0.5)).node


def _by(nodes: int) -> str:
    return "linear program" if nodes == 1 else "cases"


def _share(deadline: float, share: float) -> float:
    now = time.monotonic()
    return now + share * max(0.0, deadline - now)


def _refuse_hopeless(sketch: Sketch, spec: Spec, prevalence: Mapping[str, Any]) -> None:
    """One classifier, or none in common, can always be right."""
    if sketch.has_side_information or prevalence or spec.has_linear:
        return
    remedy = "Add known answers, ruled-out labels or a prevalence."
    if len(sketch.classifiers) < 2:
        raise ArgumentError(
            f"sketch must have two classifiers, as one alone may always be right; got {sketch.classifiers[0]!r}. {remedy}"
        )
    if not ((sketch.patterns >= 0).sum(axis=1) > 1).any():
        raise ArgumentError(
            f"sketch must have an item that two classifiers answered; got none among {sketch.n_items} items. {remedy}"
        )


# ---------------------------------------------------------------------------------------------------------------
# the result


def _as_proof(
    sketch: Sketch, spec: Spec, prevalence: Mapping[str, tuple[int, int]], d: Decided, limit: float
) -> Proof:
    assumptions = [ONE_TRUTH]
    if sketch.has_side_information:
        assumptions.append(Assumption(name="known answers and ruled-out labels are true"))
    if prevalence:
        assumptions.append(Assumption(name="the prevalences are in their ranges"))
    certificate: dict[str, Any] = {}
    if d.status == "alarm":
        if d.node is not None:
            certificate = _written(d.node)
        elif d.most is not None:
            certificate = {"kind": "axioms", "most": d.most}
        else:
            certificate = {"kind": "solver"}
            assumptions.append(
                Assumption(
                    name="the integer solver is right",
                    detail="this alarm rests on HiGHS; verify() cannot check it",
                )
            )
    notes: tuple[str, ...] = ()
    if d.status == "consistent":
        notes = ("consistent does not mean that all classifiers are good",)
    elif certificate.get("kind") == "solver":
        notes = ("the alarm rests on the integer solver; there is no certificate to check",)
    return Proof(
        claim=str(spec),
        status=d.status,
        method=d.method,
        guarantee=Guarantee(kind=Kind.LOGICAL, error_rate=0.0, assumptions=tuple(assumptions)),
        spec={
            "statements": spec.to_list(),
            "prevalence": {label: list(b) for label, b in prevalence.items()},
        },
        sketch=sketch.to_dict(),
        certificate=certificate,
        witness=_witness(d),
        counts={
            "items": sketch.n_items,
            "classifiers": len(sketch.classifiers),
            "labels": len(sketch.labels),
            "groups": sketch.n_groups,
        },
        diagnostics={"steps": d.steps, "cases": d.nodes, "time_limit": float(limit)},
        notes=notes,
        reason=d.reason,
    )


def _written(node: Node) -> dict[str, Any]:
    """A leaf or a tree as JSON values."""
    if isinstance(node, Leaf):
        places = np.flatnonzero(node.weights).tolist()
        weights = [[k, int(node.weights[k])] for k in places]
        return {
            "kind": "weights",
            "weights": weights,
            "group": node.group,
            "largest": node.largest,
            "needed": node.needed,
        }
    form, at, below, above = node
    return {
        "kind": "cases",
        "form": list(form),
        "at": at,
        "below": _written(below),
        "above": _written(above),
    }


def _witness(d: Decided) -> dict[str, Any]:
    """The main label of each group, and the items of it that have another: [group, label, number]."""
    if d.labels is not None:
        return {"label": d.labels.tolist(), "others": []}
    if d.given is None:
        return {}
    main = d.given.argmax(axis=1)
    rest = d.given.copy()
    rest[np.arange(len(rest)), main] = 0
    return {
        "label": main.tolist(),
        "others": [
            [int(g), int(r), int(rest[g, r])] for g, r in zip(*np.nonzero(rest), strict=True)
        ],
    }
