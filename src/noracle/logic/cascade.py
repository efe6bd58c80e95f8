"""Can all classifiers be as good as claimed? The verdict, cheapest proof first."""

from __future__ import annotations

import dataclasses
import math
import numbers
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from noracle.counts.sketch import Sketch
from noracle.errors import ArgumentError
from noracle.logic.program import Array, Case, Leaf, Program, Row, Split, Whole, dual_steps, rows_of
from noracle.logic.solver import MOST_ENTRIES, entries, integral, is_tame, ready, relax
from noracle.logic.spec import Linear, Spec, Statement, as_spec
from noracle.results import Assumption, Guarantee, Kind, Proof, Verdict

if TYPE_CHECKING:
    from numpy.typing import NDArray


def check_prevalence(
    sketch: Sketch, prevalence: Mapping[str, tuple[int, int]] | None
) -> dict[str, tuple[int, int]]:
    """Prevalence ranges that are whole numbers in [0, Q] and agree with each other and with the
    known labels.

    Raises
    ------
    ArgumentError
        That says which range contradicts what. Otherwise the contradiction would look like an
        alarm.
    """
    Q = sketch.n_items
    found: dict[str, tuple[int, int]] = {}
    for label, given in (prevalence or {}).items():
        name = str(label)
        if name not in sketch.labels:
            raise ArgumentError(
                f"prevalence must be about labels among {list(sketch.labels)}; got {label!r}."
            )
        pair = (given, given) if isinstance(given, (int, np.integer)) else tuple(given)
        whole = len(pair) == 2 and all(
            isinstance(v, (int, np.integer)) and not isinstance(v, bool) for v in pair
        )
        if not whole or not 0 <= pair[0] <= pair[1] <= Q:
            raise ArgumentError(
                f"prevalence of {name!r} must be (low, high), whole numbers with 0 <= low <= high <= {Q}; got {given!r}."
            )
        found[name] = (int(pair[0]), int(pair[1]))
    if found:
        _agree(sketch, found)
    return found


def _agree(sketch: Sketch, bounds: Mapping[str, tuple[int, int]]) -> None:
    sets, inverse = np.unique(sketch.allowed, axis=0, return_inverse=True)
    n = np.zeros(len(sets), dtype=np.int64)
    np.add.at(n, inverse.ravel(), sketch.n)
    Q = sketch.n_items
    for name, (low, high) in bounds.items():
        r = sketch.labels.index(name)
        forced = int(n[sets[:, r] & (sets.sum(axis=1) == 1)].sum())
        possible = int(n[sets[:, r]].sum())
        if forced > high:
            raise ArgumentError(
                f"prevalence of {name!r} must be at least the {forced} items known to have it; got {low}..{high}."
            )
        if possible < low:
            raise ArgumentError(
                f"prevalence of {name!r} must be at most the {possible} items that can have it; got {low}..{high}."
            )
    lows = np.array([bounds.get(label, (0, Q))[0] for label in sketch.labels])
    highs = np.array([bounds.get(label, (0, Q))[1] for label in sketch.labels])
    if not lows.sum() <= Q <= highs.sum():
        said = ", ".join(f"{name} {low}..{high}" for name, (low, high) in bounds.items())
        raise ArgumentError(
            f"prevalence must leave room for all {Q} items, sum of low <= {Q} <= sum of high; got {said}."
        )
    if not sets.all() and not _fits(sets, n, lows, highs):
        said = ", ".join(f"{name} {low}..{high}" for name, (low, high) in bounds.items())
        raise ArgumentError(
            f"prevalence must agree with the known and ruled-out labels of the items; got {said}, which no true labels can have. "
            "Widen a range or correct the known labels."
        )


def _fits(sets: NDArray[np.bool_], n: Whole, lows: Whole, highs: Whole) -> bool:
    """Whether items can be given labels with all ranges kept: a flow, so that fractions help
    nobody.
    """
    from scipy import optimize, sparse

    group, label = np.nonzero(sets)
    cells = np.arange(len(group))
    ones = np.ones(len(cells))
    per_set = sparse.csr_array((ones, (group, cells)), shape=(len(sets), len(cells)))
    per_label = sparse.csr_array((ones, (label, cells)), shape=(sets.shape[1], len(cells)))
    linprog: Any = optimize.linprog  # takes sparse matrices too
    found = linprog(
        np.zeros(len(cells)),
        A_ub=sparse.vstack([per_label, -per_label]),
        b_ub=np.concatenate([highs, -lows]),
        A_eq=per_set,
        b_eq=n,
        method="highs",
    )
    return int(found.status) != 2


# ----------------------------------------------------------------------------
# The closed form of the alarm that sees only how often each classifier gave each answer.


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


# ---------------------------------------------------------------------------- Cases by cases: where
# no single set of weights proves an alarm, split on a whole number and prove each half.


_NEAR = 1e-6
_DEEPEST = 200

Form = tuple[Any, ...]
"""What is counted, as in :class:`noracle.logic.program.Split`."""

Node = Leaf | tuple[Form, int, Any, Any]
"""A leaf, or (form, k, the node where the count is at most k, the node where it is larger)."""


class Searched(NamedTuple):
    """Counts that keep all rows, or a tree that proves that there are none, or neither (``node``
    None): the limit was reached.
    """

    given: Whole | None
    node: Node | None
    nodes: int


class _Search:
    def __init__(self, base: Program, most: int, deadline: float) -> None:
        self.base, self.most, self.deadline = base, most, deadline
        self.nodes = 0
        self.given: Whole | None = None

    def prove(self, splits: tuple[Split, ...]) -> Node | None:
        """The proof that a case is impossible; None if counts were found (``given``) or a limit was
        reached.
        """
        self.nodes += 1
        if self.nodes > self.most or len(splits) > _DEEPEST or time.monotonic() > self.deadline:
            return None
        case = Case(self.base, splits)
        if not case.allowed.any(axis=1).all():
            return case.leaf(np.zeros(len(case.program.rows)))
        solved = relax(case, self.deadline)
        if solved.status != "solved":
            return None
        if solved.value > 0:
            leaf = case.leaf(solved.weights)
            if leaf is not None:
                return leaf
        given = round_counts(case.program, case.allowed, solved.given)
        if self.base.is_satisfied(given):
            self.given = given
            return None
        choice = choose_split(case, solved.given)
        if choice is None:
            return None
        form, at, above_first = choice
        halves: dict[bool, Node | None] = {}
        for below in (False, True) if above_first else (True, False):
            halves[below] = self.prove((*splits, Split(form, at, below)))
            if halves[below] is None:
                return None
        return (form, at, halves[True], halves[False])


def search(base: Program, *, most: int, deadline: float) -> Searched:
    """Branch on conditions, prevalences and cells until every case is proved impossible or counts
    are found.
    """
    found = _Search(base, most, deadline)
    node = found.prove(())
    return Searched(found.given, node, found.nodes)


def choose_split(case: Case, given: Array) -> tuple[Form, int, bool] | None:
    """What to split on: a condition that the relaxed counts evade, a broken prevalence, a broken
    sum, a broken cell.
    """
    program, sketch = case.program, case.base.sketch
    values, answered = program.values(given)
    k, i, r = program.unless
    evaded = (
        (answered[i, r] > _NEAR) & (values[k] < program.at_least[k] - _NEAR) & ~case.in_force[k]
    )
    if evaded.any():
        j = int(np.flatnonzero(evaded)[0])
        missing = (sketch.patterns[:, i[j]] < 0) & case.allowed[:, r[j]]
        form: Form = (
            ("answered", int(i[j]), int(r[j])) if missing.any() else ("prevalence", int(r[j]))
        )
        return form, 0, bool(answered[i[j], r[j]] > 0.5)
    sums = given.sum(axis=0)
    candidates: list[tuple[Form, float]] = [
        (("prevalence", label), v) for label, v in enumerate(sums.tolist())
    ]
    candidates += [
        (("answered", a, b), answered[a, b]) for a in range(len(answered)) for b in range(program.R)
    ]
    for a in range(len(answered)):
        for b in range(program.R):
            candidates.append(
                (("correct", a, b), float(given[sketch.patterns[:, a] == b, b].sum()))
            )
    broken = np.abs(given - np.rint(given)) > _NEAR
    candidates += [
        (("cell", int(g), int(label)), float(given[g, label]))
        for g, label in zip(*np.nonzero(broken), strict=True)
    ]
    for form, value in candidates:
        if abs(value - round(value)) > _NEAR:
            at = int(np.floor(value))
            return form, at, value - at > 0.5
    return None


def round_counts(program: Program, allowed: Any, given: Array) -> Whole:
    """Whole counts near ``given``: largest remainders, then single items moved while that helps the
    rows.
    """
    n = program.sketch.n
    whole = np.floor(given + _NEAR).astype(np.int64)
    rest = n - whole.sum(axis=1)
    part = np.where(allowed, given - whole, -1.0)
    for g in np.flatnonzero(rest):
        order = np.argsort(-part[g], kind="stable")
        for step in range(int(abs(rest[g]))):
            whole[g, order[step % len(order)]] += 1 if rest[g] > 0 else -1
    whole = np.maximum(whole, 0)
    movable = np.flatnonzero((np.abs(given - np.rint(given)) > _NEAR).any(axis=1))
    return _repair(program, allowed, whole, movable[:40])


def _repair(program: Program, allowed: Any, whole: Whole, groups: NDArray[np.intp]) -> Whole:
    """Move single items of ``groups`` between labels while the total shortfall shrinks."""
    if not len(groups):
        return whole
    columns, present = program.columns(groups)
    values, answered = program.values(whole)
    k, i, r = program.unless
    at, a, b = (
        m.ravel()
        for m in np.meshgrid(
            np.arange(len(groups)), np.arange(program.R), np.arange(program.R), indexing="ij"
        )
    )
    fits = (a != b) & allowed[groups[at], b]
    at, a, b = at[fits], a[fits], b[fits]
    if not len(at):
        return whole
    change, comes = columns[at, b] - columns[at, a], present[at, b] - present[at, a]
    total = int(program.short(values, answered).sum())
    for _ in range(2 * len(groups)):
        if total == 0:
            break
        short = np.maximum(program.at_least - values - change, 0)
        short[:, k] *= answered[i, r] + comes > 0
        sums = np.where(whole[groups[at], a] > 0, short.sum(axis=1), total)
        best = int(sums.argmin())
        if sums[best] >= total:
            break
        g = groups[at[best]]
        whole[g, a[best]] -= 1
        whole[g, b[best]] += 1
        values, answered = program.values(whole)
        total = int(program.short(values, answered).sum())
    return whole


# ----------------------------------------------------------------------------


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
    :mod:`noracle.logic.program`); the linear program, whose multipliers are such weights; splits into cases; the integer program.

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


# ---------------------------------------------------------------------------- One question to the
# cascade, and what its witness says: shared by ranges, traces, thresholds and conflicts.


Bounds = Mapping[str, tuple[int, int]]
NOTHING = Spec(statements=())
"""No claim at all."""


class Asked(NamedTuple):
    """``alarm``, ``consistent`` or ``undecided``; with the counts of a witness, and whether an
    alarm rests on the solver alone.
    """

    status: str
    given: Whole | None = None
    on_solver: bool = False


def ask(
    sketch: Sketch, spec: Spec, bounds: Bounds, *, deadline: float, more: Sequence[Row] = ()
) -> Asked:
    """Can all claims, prevalences and further rows hold at once?"""
    rows = (*rows_of(sketch, spec, bounds), *more)
    if not rows:
        return Asked("consistent", assigned(sketch, sketch.allowed.argmax(axis=1)))
    if time.monotonic() >= deadline:
        return Asked("undecided")
    found = decide(sketch, spec, Program(sketch, rows), deadline=deadline)
    if found.status == "consistent":
        return Asked(
            "consistent", found.given if found.labels is None else assigned(sketch, found.labels)
        )
    return Asked(found.status, None, found.status == "alarm" and _is_bare(found))


def _is_bare(found: Decided) -> bool:
    return found.node is None and found.most is None


def assigned(sketch: Sketch, labels: np.ndarray) -> Whole:
    """Counts where all items of a group have one label."""
    given = np.zeros((sketch.n_groups, len(sketch.labels)), dtype=np.int64)
    given[np.arange(sketch.n_groups), labels] = sketch.n
    return given


def check_limit(time_limit: float) -> float:
    """When the time is up."""
    if not (isinstance(time_limit, (int, float)) and 0 < time_limit < math.inf):
        raise ArgumentError(f"time_limit must be a positive number of seconds; got {time_limit!r}.")
    return time.monotonic() + time_limit


def share(deadline: float, part: float) -> float:
    """A part of the time that is left."""
    now = time.monotonic()
    return now + part * max(0.0, deadline - now)


def names_in(spec: Spec, classifiers: Sequence[str]) -> list[str]:
    """The classifiers that a specification is about, in the order of the sketch."""
    found: set[str] = set()
    for s in spec.statements:
        if isinstance(s, Linear):
            found |= {name for term in s.terms for name, _ in term.answers}
        else:
            found |= set(classifiers) if s.of is None else {s.of}
    return [c for c in classifiers if c in found]


def restricted(spec: Spec, classifiers: Sequence[str]) -> Spec:
    """The claims that are about these classifiers only; one about every classifier stays, and means
    these.
    """
    keep = []
    for s in spec.statements:
        about = (
            {name for term in s.terms for name, _ in term.answers}
            if isinstance(s, Linear)
            else {s.of} - {None}
        )
        if about <= set(classifiers):
            keep.append(s)
    return Spec(statements=tuple(keep))


def each_named(
    spec: Spec | str | Mapping[str, Spec | str] | None, classifiers: Sequence[str]
) -> Spec:
    """A specification in which every claim says whose it is; a mapping gives each trusted
    classifier its own.
    """
    if spec is None:
        return NOTHING
    parts: list[tuple[str | None, Spec]]
    parts = (
        [(name, as_spec(s)) for name, s in spec.items()]
        if isinstance(spec, Mapping)
        else [(None, as_spec(spec))]
    )
    statements: list[Statement | Linear] = []
    for name, part in parts:
        if name is not None and name not in classifiers:
            raise ArgumentError(
                f"given must name classifiers among {list(classifiers)}; got {name!r}."
            )
        for s in part.statements:
            if isinstance(s, Linear):
                statements.append(s)
            elif s.of is not None and name is not None and s.of != name:
                raise ArgumentError(f"given[{name!r}] must be about {name!r}; got '{s}'.")
            else:
                wanted = [s.of or name] if (s.of or name) else list(classifiers)
                statements += [dataclasses.replace(s, of=c) for c in wanted]
    return Spec(statements=tuple(statements))


def promise(
    sketch: Sketch, bounds: Bounds, *, trusted: str = "", on_solver: bool = False
) -> Guarantee:
    """What every logical result rests on."""
    found = [ONE_TRUTH]
    if trusted:
        found.append(Assumption(name="the trusted claims are true", detail=trusted))
    if sketch.has_side_information:
        found.append(Assumption(name="known answers and ruled-out labels are true"))
    if bounds:
        found.append(Assumption(name="the prevalences are in their ranges"))
    if on_solver:
        found.append(
            Assumption(
                name="the integer solver is right",
                detail="a verdict rests on HiGHS without a certificate",
            )
        )
    return Guarantee(kind=Kind.LOGICAL, error_rate=0.0, assumptions=tuple(found))


def described(sketch: Sketch) -> dict[str, int]:
    """The counts that results show."""
    return {
        "items": sketch.n_items,
        "classifiers": len(sketch.classifiers),
        "labels": len(sketch.labels),
        "groups": sketch.n_groups,
    }
