"""Can all classifiers be as good as claimed? The verdict, cheapest proof first."""

from __future__ import annotations

import dataclasses
import math
import numbers
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from noracle.counts.sketch import Sketch, count_decisions
from noracle.errors import ArgumentError, fault, require
from noracle.evidence.evidence import Evidence
from noracle.logic.program import (
    Array,
    Case,
    Flags,
    IntegerProgram,
    Leaf,
    Places,
    Row,
    Split,
    Whole,
    dual_steps,
    rows_of,
)
from noracle.logic.solver import MOST_ENTRIES, entries, integral, is_tame, ready, relax
from noracle.logic.spec import Linear, Spec, Statement, as_spec
from noracle.results import Assumption, Guarantee, Kind, Proof, Range, Ranges, Verdict

Bounds = Mapping[str, tuple[int, int]]
Form = tuple[Any, ...]
"""What is counted, as in :class:`noracle.logic.program.Split`."""
Node = Leaf | tuple[Form, int, Any, Any]
"""A leaf, or (form, k, the node where the count is at most k, the node where it is larger)."""
NOTHING = Spec(statements=())
"""No claim at all."""
ONE_TRUTH = Assumption(name="each item has one true label among the labels")
_CONSISTENT = "consistent does not mean that all classifiers are good"
_TIME_UP = "the time limit was reached"
_FIRST_NODES = 40
_MOST_NODES = 20_000
_SMALL = 20_000
_NEAR = 1e-6
_DEEPEST = 200


# What is claimed, what is known, and how long to look.


class Decided(NamedTuple):
    """A verdict with what proves it: a node (alarm), counts (consistent), or neither."""

    status: Verdict
    method: str = ""
    node: Node | None = None
    given: Whole | None = None
    most: list[int] | None = None
    steps: int = 0
    nodes: int = 0
    reason: str = ""

    @property
    def on_solver(self) -> bool:
        """Whether an alarm rests on the solver alone."""
        return self.status == "alarm" and self.node is None and self.most is None


@dataclasses.dataclass(frozen=True)
class Claims:
    """Claims about the classifiers of a sketch, ranges of prevalences, and when the time is up."""

    sketch: Sketch
    spec: Spec
    bounds: Bounds
    deadline: float

    @classmethod
    def read(cls, sketch: Sketch, spec: Spec, prevalence: Bounds | None, time_limit: float) -> Self:
        """Claims of a user, checked."""
        fits = isinstance(time_limit, (int, float)) and 0 < time_limit < math.inf
        rule = "must be a positive number of seconds"
        require(fits, fault("time_limit", rule, repr(time_limit)))
        deadline = time.monotonic() + time_limit
        return cls(sketch, spec, check_prevalence(sketch, prevalence), deadline)

    @property
    def rows(self) -> tuple[Row, ...]:
        """The claims and prevalences as rows; refuses names that are not in the sketch."""
        return rows_of(self.sketch, self.spec, self.bounds)

    @property
    def everyone(self) -> tuple[str, ...]:
        """The classifiers."""
        return self.sketch.classifiers

    @property
    def names(self) -> list[str]:
        """The classifiers that the claims are about, in the order of the sketch."""
        everyone = self.sketch.classifiers
        about = [_about(s) for s in self.spec.statements]
        return [c for c in everyone if any(a is None or c in a for a in about)]

    def among(self, names: Sequence[str]) -> Self:
        """The same of these classifiers only."""
        spec = restricted(self.spec, names)
        return dataclasses.replace(self, sketch=self.sketch.of(names), spec=spec)

    def until(self, part: float) -> Self:
        """The same with a part of the time that is left."""
        return dataclasses.replace(self, deadline=share(self.deadline, part))

    def ask(self, part: float = 1.0, *more: Row) -> Decided:
        """Can all claims, prevalences and further rows hold at once?"""
        claims, rows = self.until(part), (*self.rows, *more)
        if not rows:
            given = _assigned(self.sketch, self.sketch.allowed.argmax(axis=1))
            return Decided("consistent", given=given)
        if time.monotonic() >= claims.deadline:
            return Decided("undecided")
        return decide(claims, IntegerProgram(self.sketch, rows))

    def guarantee(self, *, trusted: str = "", solver: str = "") -> Guarantee:
        """What every logical result rests on."""
        found = (
            ("the trusted claims are true", trusted, trusted),
            ("known answers and ruled-out labels are true", "", self.sketch.has_side_information),
            ("the prevalences are in their ranges", "", self.bounds),
            ("the integer solver is right", solver, solver),
        )
        more = (Assumption(name=name, detail=detail) for name, detail, holds in found if holds)
        return Guarantee(kind=Kind.LOGICAL, error_rate=0.0, assumptions=(ONE_TRUTH, *more))

    @property
    def counts(self) -> dict[str, int]:
        """The counts that results show."""
        return {
            "items": self.sketch.n_items,
            "classifiers": len(self.sketch.classifiers),
            "labels": len(self.sketch.labels),
            "groups": self.sketch.n_groups,
        }

    def result(
        self, ranges: Sequence[Range], *, on_solver: bool = False, trusted: str = "", **said: Any
    ) -> Ranges:
        """Ranges that rest on these claims."""
        solver = "a verdict rests on HiGHS without a certificate" if on_solver else ""
        promise = self.guarantee(trusted=trusted, solver=solver)
        return Ranges(**{"guarantee": promise, **said}, ranges=tuple(ranges), counts=self.counts)


def sketch_of(evidence: object) -> Sketch:
    """The sketch itself, or that of all systems of the evidence."""
    if isinstance(evidence, Evidence):
        return count_decisions(evidence)
    if isinstance(evidence, Sketch):
        return evidence
    came, remedy = type(evidence).__name__, "The claim comes second."
    raise ArgumentError(fault("evidence", "must be Evidence or a Sketch", came, remedy=remedy))


def share(deadline: float, part: float) -> float:
    """When a part of the time that is left is over."""
    now = time.monotonic()
    return now + part * max(0.0, deadline - now)


def _is_whole(value: object) -> bool:
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def check_whole(argument: str, value: Any, least: int) -> int:
    """``value`` as an int if it is a whole number of at least ``least``."""
    rule = f"must be a whole number of at least {least}"
    require(_is_whole(value) and value >= least, fault(argument, rule, repr(value)))
    return int(value)


def _about(statement: Statement | Linear) -> set[str] | None:
    """The classifiers that a statement names; None for every classifier."""
    if isinstance(statement, Linear):
        return {name for term in statement.terms for name, _ in term.answers}
    return None if statement.of is None else {statement.of}


def restricted(spec: Spec, classifiers: Sequence[str]) -> Spec:
    """The claims about these classifiers only; one about every classifier means these."""
    keep = [s for s in spec.statements if (_about(s) or set()) <= set(classifiers)]
    return Spec(statements=tuple(keep))


def each_named(
    spec: Spec | str | Mapping[str, Spec | str] | None, classifiers: Sequence[str]
) -> Spec:
    """Claims that each name a classifier; a mapping gives trusted classifiers their own."""
    if spec is None:
        return NOTHING
    parts = spec.items() if isinstance(spec, Mapping) else [(None, spec)]
    statements: list[Statement | Linear] = []
    for name, part in parts:
        rule = f"must name classifiers among {list(classifiers)}"
        require(name is None or name in classifiers, fault("given", rule, repr(name)))
        for s in as_spec(part).statements:
            if isinstance(s, Linear):
                statements.append(s)
            elif s.of is not None and name is not None and s.of != name:
                raise ArgumentError(f"given[{name!r}] must be about {name!r}; got '{s}'.")
            else:
                whose = s.of or name
                named = [whose] if whose else classifiers
                statements += [dataclasses.replace(s, of=c) for c in named]
    return Spec(statements=tuple(statements))


def check_prevalence(sketch: Sketch, prevalence: Bounds | None) -> dict[str, tuple[int, int]]:
    """Ranges in [0, Q] that agree with each other and with the known labels, or an error."""
    Q = sketch.n_items
    found: dict[str, tuple[int, int]] = {}
    for label, given in (prevalence or {}).items():
        name, rule = str(label), f"must be about labels among {list(sketch.labels)}"
        require(name in sketch.labels, fault("prevalence", rule, repr(label)))
        pair: Any = (given, given) if isinstance(given, numbers.Integral) else tuple(given)
        whole = len(pair) == 2 and all(map(_is_whole, pair))
        rule = f"must be (low, high), whole numbers with 0 <= low <= high <= {Q}"
        fits = whole and 0 <= pair[0] <= pair[1] <= Q
        require(fits, fault(f"prevalence of {name!r}", rule, repr(given)))
        found[name] = (int(pair[0]), int(pair[1]))
    if found:
        _agree(sketch, found)
    return found


def _agree(sketch: Sketch, bounds: Bounds) -> None:
    sets, inverse = np.unique(sketch.allowed, axis=0, return_inverse=True)
    n = np.zeros(len(sets), dtype=np.int64)
    np.add.at(n, inverse.ravel(), sketch.n)
    Q = sketch.n_items
    for name, (low, high) in bounds.items():
        r = sketch.labels.index(name)
        forced = int(n[sets[:, r] & (sets.sum(axis=1) == 1)].sum())
        possible = int(n[sets[:, r]].sum())
        if forced > high or possible < low:
            least = f"at least the {forced} items known to have it"
            rule = least if forced > high else f"at most the {possible} items that can have it"
            raise ArgumentError(f"prevalence of {name!r} must be {rule}; got {low}..{high}.")
    lows, highs = np.array([bounds.get(label, (0, Q)) for label in sketch.labels]).T
    said = ", ".join(f"{name} {low}..{high}" for name, (low, high) in bounds.items())
    rule = f"must leave room for all {Q} items, sum of low <= {Q} <= sum of high"
    require(lows.sum() <= Q <= highs.sum(), fault("prevalence", rule, said))
    if not sets.all() and not _fits(sets, n, lows, highs):
        rule = "must agree with the known and ruled-out labels of the items"
        remedy = "No true labels can have it: widen a range or correct the known labels."
        raise ArgumentError(fault("prevalence", rule, said, remedy=remedy))


def _fits(sets: Flags, n: Whole, lows: Whole, highs: Whole) -> bool:
    """Whether items can be given labels with all ranges kept: a flow, so fractions help nobody."""
    from scipy import optimize, sparse

    group, label = np.nonzero(sets)
    cells, ones = np.arange(len(group)), np.ones(len(group))
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


# The closed form of the alarm that sees only how often each classifier gave each answer.


def largest_prevalences(
    uses: Sequence[Sequence[int]], spec: Spec, classifiers: Sequence[str], labels: Sequence[str]
) -> list[int] | None:
    """The most items that can have each label, from uses alone; None unless accuracies are strict.

    A classifier that used label l in m items has q·m - p·Q_l ≥ 1, or Q_l = 0.
    """
    n_items = sum(uses[0])
    most = [n_items] * len(labels)
    for s in spec.statements:
        if isinstance(s, Linear) or s.kind != "accuracy" or not s.strict:
            return None
        p, q = s.above.as_integer_ratio()
        for name, row in zip(classifiers, uses, strict=True):
            for r, label in enumerate(labels):
                if s.of in {None, name} and s.on in {None, label}:
                    limit = 0 if not row[r] else n_items if not p else (q * row[r] - 1) // p
                    most[r] = min(most[r], limit)
    return most


def _tightest(program: IntegerProgram, uses: Whole) -> Array:
    """Weights 1/p on the tightest row of each label, which often prove the closed form."""
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


def prove_by_axioms(uses: Mapping[str, Mapping[str, int]], spec: Spec | str) -> Proof:
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
    >>> proof = prove_by_axioms(uses, "accuracy > 1/2")
    >>> proof.status, proof.certificate["most"], proof.verify()
    ('alarm', [53, 93], True)
    """
    spec = as_spec(spec)
    if not isinstance(uses, Mapping) or not all(isinstance(row, Mapping) for row in uses.values()):
        remedy = "Use prove_malfunction for a sketch: it sees more than these counts."
        rule = "must map classifiers to how often they gave each answer"
        raise ArgumentError(fault("uses", rule, type(uses).__name__, remedy=remedy))
    classifiers = list(uses)
    labels = list(dict.fromkeys(label for row in uses.values() for label in row))
    came = f"{len(classifiers)} and {len(labels)}"
    rule = "must have classifiers and at least two labels"
    require(classifiers and len(labels) > 1, fault("uses", rule, came))
    for n in (n for row in uses.values() for n in row.values()):
        require(_is_whole(n), f"uses must be whole numbers; got {n!r}.")
    table = [[int(uses[c].get(label, 0)) for label in labels] for c in classifiers]
    totals = {c: sum(row) for c, row in zip(classifiers, table, strict=True)}
    n_items = sum(table[0])
    fits = n_items > 0 and min(map(min, table)) >= 0 and set(totals.values()) == {n_items}
    rule = "must be counts with one total, as all classifiers answer all items"
    require(fits, fault("uses", rule, f"totals {totals}"))
    rule = f"must name classifiers among {classifiers} and labels among {labels}"
    for s in spec.statements:
        if not isinstance(s, Linear):
            known = s.of in {None, *classifiers} and s.on in {None, *labels}
            require(known, fault("spec", rule, s))
    most = largest_prevalences(table, spec, classifiers, labels)
    if most is None:
        rule = "must have strict accuracies on labels only"
        remedy = "Use prove_malfunction instead."
        raise ArgumentError(fault("spec", rule, f"'{spec}'", remedy=remedy))
    fired = sum(most) < n_items
    before = np.cumsum([0, *most[:-1]]).tolist()
    filled = [min(m, max(0, n_items - b)) for m, b in zip(most, before, strict=True)]
    return Proof(
        claim=str(spec),
        status="alarm" if fired else "consistent",
        method="single-classifier axioms",
        guarantee=Guarantee(kind=Kind.LOGICAL, error_rate=0.0, assumptions=(ONE_TRUTH,)),
        spec={"statements": spec.to_list(), "prevalence": {}},
        sketch={"classifiers": classifiers, "labels": labels, "uses": table},
        certificate={"kind": "axioms", "most": most} if fired else {},
        witness={} if fired else {"prevalence": filled},
        counts={"items": n_items, "classifiers": len(classifiers), "labels": len(labels)},
        notes=() if fired else (_CONSISTENT,),
    )


# The cascade.


def prove_malfunction(
    evidence: Evidence | Sketch,
    spec: Spec | str,
    *,
    prevalence: Mapping[str, tuple[int, int]] | None = None,
    time_limit: float = 30.0,
) -> Proof:
    """Prove that not all classifiers can be as good as claimed, or show that they could be.

    Parameters
    ----------
    evidence
        Answers, with judgements as side information; or how often each pattern of answers was
        given, with what is known of the items: see :class:`noracle.counts.sketch.Sketch`.
    spec
        What is claimed, for example ``"accuracy > 1/2"`` (each classifier, on each label) or
        ``"grade > 0.8"`` (over all labels); or a :class:`Spec`. Thresholds are exact fractions, and
        "more than" is strict. On a label of which a classifier answered no item, the claim holds:
        nobody is proved broken by not answering.
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
    whose alarm sees one classifier at a time (:func:`prove_by_axioms`). Full patterns are strictly
    stronger.

    Examples
    --------
    >>> counts = {("A", "A"): 26, ("A", "B"): 1, ("B", "A"): 208, ("B", "B"): 46}
    >>> sketch = Sketch.from_counts(counts, classifiers=["Mistral", "GPT4"], labels=["A", "B"])
    >>> proof = prove_malfunction(sketch, "accuracy > 1/2")
    >>> proof.status, proof.verify()
    ('alarm', True)
    """
    sketch = sketch_of(evidence)
    claims = Claims.read(sketch, as_spec(spec), prevalence, time_limit)
    rows = claims.rows
    _refuse_hopeless(claims)
    d = decide(claims, IntegerProgram(sketch, rows))
    solver = "this alarm rests on HiGHS; verify() cannot check it" if d.on_solver else ""
    certificate: dict[str, Any] = {}
    notes: tuple[str, ...] = (_CONSISTENT,) if d.status == "consistent" else ()
    if d.on_solver:
        certificate = {"kind": "solver"}
        notes = ("the alarm rests on the integer solver; there is no certificate to check",)
    elif d.status == "alarm":
        axioms = {"kind": "axioms", "most": d.most}
        certificate = axioms if d.node is None else _written(d.node)
    bounds = {label: list(b) for label, b in claims.bounds.items()}
    return Proof(
        claim=str(claims.spec),
        status=d.status,
        method=d.method,
        guarantee=claims.guarantee(solver=solver),
        spec={"statements": claims.spec.to_list(), "prevalence": bounds},
        sketch=sketch.to_dict(),
        certificate=certificate,
        witness={} if d.given is None else _witness(d.given),
        counts=claims.counts,
        diagnostics={"steps": d.steps, "cases": d.nodes, "time_limit": float(time_limit)},
        notes=notes,
        reason=d.reason,
    )


def _refuse_hopeless(claims: Claims) -> None:
    """One classifier, or none in common, can always be right."""
    sketch = claims.sketch
    if sketch.has_side_information or claims.bounds or claims.spec.has_linear:
        return
    remedy = "Add known answers, ruled-out labels or a prevalence."
    if len(sketch.classifiers) < 2:
        rule = "must have two classifiers, as one alone may always be right"
        raise ArgumentError(fault("sketch", rule, repr(sketch.classifiers[0]), remedy=remedy))
    if not ((sketch.patterns >= 0).sum(axis=1) > 1).any():
        rule, none = "must have an item that two classifiers answered", f"{sketch.n_items} items"
        raise ArgumentError(fault("sketch", rule, f"none among {none}", remedy=remedy))


def _written(node: Node) -> dict[str, Any]:
    """A leaf or a tree as JSON values."""
    if isinstance(node, Leaf):
        places = np.flatnonzero(node.weights).tolist()
        said = {"group": node.group, "largest": node.largest, "needed": node.needed}
        return {"kind": "weights", "weights": [[k, int(node.weights[k])] for k in places], **said}
    form, at, below, above = node
    halves = {"below": _written(below), "above": _written(above)}
    return {"kind": "cases", "form": list(form), "at": at, **halves}


def _witness(given: Whole) -> dict[str, Any]:
    """The main label of each group, and the items of it that have another: [group, label, number]."""
    main = given.argmax(axis=1)
    rest = given.copy()
    rest[np.arange(len(rest)), main] = 0
    others = [[*at, int(rest[*at])] for at in np.argwhere(rest).tolist()]
    return {"label": main.tolist(), "others": others}


def _assigned(sketch: Sketch, labels: Places) -> Whole:
    """Counts where all items of a group have one label."""
    given = np.zeros((sketch.n_groups, len(sketch.labels)), dtype=np.int64)
    given[np.arange(sketch.n_groups), labels] = sketch.n
    return given


def decide(claims: Claims, program: IntegerProgram) -> Decided:
    """The cascade itself."""
    sketch, deadline, case = claims.sketch, claims.deadline, Case(program)
    if sketch.is_complete:
        uses = sketch.uses
        most = largest_prevalences(uses.tolist(), claims.spec, sketch.classifiers, sketch.labels)
        if most is not None and sum(most) < sketch.n_items:
            node: Node | None = case.leaf(_tightest(program, uses))
            half = share(deadline, 0.5)
            if node is None and entries(program) <= _SMALL and ready(half):
                # Cases that prove what the closed form has proved by rounding, where they are few.
                node = search(program, most=_FIRST_NODES, deadline=half).node
            return Decided("alarm", "single-classifier axioms", most=most, node=node)
    cells = sketch.n_groups * program.R
    steps = 20 if cells <= 300 else 100 if cells <= _SMALL else 300
    labels, leaf, steps = dual_steps(case, steps=steps, deadline=share(deadline, 0.5))
    if labels is not None:
        method = "plurality vote as truth" if steps == 1 else "dual steps"
        return Decided("consistent", method, given=_assigned(sketch, labels), steps=steps)
    if leaf is not None:
        return Decided("alarm", "weights on rows", node=leaf, steps=steps)
    if entries(program) > MOST_ENTRIES:
        reason = "too many patterns for the linear program"
        return Decided("undecided", "dual steps", steps=steps, reason=reason)
    if not ready(deadline):
        return Decided("undecided", "dual steps", steps=steps, reason=_TIME_UP)
    first = search(program, most=_FIRST_NODES, deadline=share(deadline, 0.5))
    if first.status != "undecided":
        return first._replace(steps=steps)
    solved = integral(case, share(deadline, 0.7))
    if solved.status == "solved":
        given = solved.given.astype(np.int64)
        if program.is_satisfied(given):
            found = Decided("consistent", "integer program", given=given)
            return found._replace(steps=steps, nodes=first.nodes)
    # A proof to check, or the last chance.
    more = search(program, most=_MOST_NODES, deadline=deadline)
    found = more._replace(steps=steps, nodes=first.nodes + more.nodes)
    if found.status != "undecided":
        return found
    if solved.status == "infeasible" and is_tame(program):
        return found._replace(status="alarm", method="integer program")
    return found._replace(method="integer program", reason=_TIME_UP)


# Cases by cases: where no single set of weights proves an alarm, split on a whole number and prove
# each half.


def search(base: IntegerProgram, *, most: int, deadline: float) -> Decided:
    """Split into cases until each is proved impossible, or counts are found."""
    nodes = 0
    found: Whole | None = None

    def prove(splits: tuple[Split, ...]) -> Node | None:
        """The proof that a case is impossible; None if counts were found, or a limit was reached."""
        nonlocal nodes, found
        nodes += 1
        if nodes > most or len(splits) > _DEEPEST or time.monotonic() > deadline:
            return None
        case = Case(base, splits)
        if not case.allowed.any(axis=1).all():
            return case.leaf(np.zeros(len(case.program.rows)))
        solved = relax(case, deadline)
        if solved.status != "solved":
            return None
        leaf = case.leaf(solved.weights) if solved.value > 0 else None
        if leaf is not None:
            return leaf
        given = round_counts(case.program, case.allowed, solved.given)
        if base.is_satisfied(given):
            found = given
            return None
        choice = _choose_split(case, solved.given)
        if choice is None:
            return None
        form, at, above_first = choice
        halves: dict[bool, Node | None] = {}
        for below in (not above_first, above_first):
            halves[below] = prove((*splits, Split(form, at, below)))
            if halves[below] is None:
                return None
        return (form, at, halves[True], halves[False])

    node = prove(())
    method = "linear program" if nodes == 1 else "cases"
    status: Verdict = "undecided" if node is None else "alarm"
    if found is not None:
        status = "consistent"
    return Decided(status, method, node=node, given=found, nodes=nodes)


def _choose_split(case: Case, given: Array) -> tuple[Form, int, bool] | None:
    """What to split on (a condition, a sum, a cell), and whether to look above first."""
    program, patterns = case.program, case.base.sketch.patterns
    values, answered = program.values(given)
    k, i, r = program.unless
    short = values[k] < program.at_least[k] - _NEAR
    evaded = np.flatnonzero((answered[i, r] > _NEAR) & short & ~case.in_force[k])
    if len(evaded):
        a, b = int(i[evaded[0]]), int(r[evaded[0]])
        missing = (patterns[:, a] < 0) & case.allowed[:, b]
        form: Form = ("answered", a, b) if missing.any() else ("prevalence", b)
        return form, 0, bool(answered[a, b] > 0.5)

    def sums() -> Iterator[tuple[Form, Any]]:
        pairs = list(np.ndindex(answered.shape))
        yield from ((("prevalence", b), given[:, b].sum()) for b in range(program.R))
        yield from ((("answered", a, b), answered[a, b]) for a, b in pairs)
        yield from ((("correct", a, b), given[patterns[:, a] == b, b].sum()) for a, b in pairs)
        broken = np.argwhere(np.abs(given - np.rint(given)) > _NEAR).tolist()
        yield from ((("cell", g, b), given[g, b]) for g, b in broken)

    for form, value in ((form, float(found)) for form, found in sums()):
        if abs(value - round(value)) > _NEAR:
            at = math.floor(value)
            return form, at, value - at > 0.5
    return None


def round_counts(program: IntegerProgram, allowed: Flags, given: Array) -> Whole:
    """Whole counts near ``given``: largest remainders, then single items moved."""
    whole = np.floor(given + _NEAR).astype(np.int64)
    rest = program.sketch.n - whole.sum(axis=1)
    part = np.where(allowed, given - whole, -1.0)
    for g in np.flatnonzero(rest):
        order = np.argsort(-part[g], kind="stable")
        for step in range(int(abs(rest[g]))):
            whole[g, order[step % len(order)]] += 1 if rest[g] > 0 else -1
    whole = np.maximum(whole, 0)
    movable = np.flatnonzero((np.abs(given - np.rint(given)) > _NEAR).any(axis=1))
    return _repair(program, allowed, whole, movable[:40]) if len(movable) else whole


def _repair(program: IntegerProgram, allowed: Flags, whole: Whole, groups: Places) -> Whole:
    """Move single items of ``groups`` between labels while the total shortfall shrinks."""
    columns, present = program.columns(groups)
    values, answered = program.values(whole)
    k, i, r = program.unless
    at, a, b = np.indices((len(groups), program.R, program.R)).reshape(3, -1)
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
