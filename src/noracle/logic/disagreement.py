"""Can all judges agree with one order? What preferences prove without any truth."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple, Self, get_args

import numpy as np

from noracle.errors import fault, require
from noracle.evidence.preferences import FIRST, NEITHER, SECOND, TIE, Preferences
from noracle.logic.cascade import NOTHING, each_named, restricted, share
from noracle.logic.conflict import Court, least_violators
from noracle.logic.orders import (
    Branch,
    Cut,
    Need,
    Order,
    OrderProgram,
    OrderSketch,
    needs_of,
)
from noracle.logic.program import Whole
from noracle.logic.solver import ready
from noracle.logic.spec import Spec, as_spec
from noracle.results import Assumption, Guarantee, Kind, NaN, Proof, Range, Ranges, Verdict, choose

_FIRST_NODES = 40
_MOST_NODES = 20_000
_DEEPEST = 400
_MEANS = {
    "item": "every item has one order of its answers",
    "one": "one ranking of the systems holds for all items",
}
_WORDS = {"item": "with one order per item", "one": "with one ranking"}
_LEFT_OUT = "ties and 'neither' are no verdicts on an order and are left out of every share"
_NOT_GOOD = "consistent does not mean that the judges are good"
_TIME_UP = "the time limit was reached"
_NO_PROOF = "the integer solver found no orders, but no proof that can be checked was found in time"
Node = dict[str, Any]


class OrderVerdict(NamedTuple):
    """A verdict with what proves it: a node (alarm), orders (consistent), or neither."""

    status: Verdict
    node: Node | None = None
    x: Whole | None = None
    nodes: int = 0
    method: str = ""
    reason: str = ""
    on_solver: bool = False


class OrderClaims(NamedTuple):
    """Claims about the raters of a table, and when the time is up."""

    preferences: Preferences
    spec: Spec
    order: Order
    deadline: float

    @classmethod
    def read(cls, preferences: Any, spec: Spec, order: Order, time_limit: float) -> Self:
        """Claims of a user, checked."""
        came = type(preferences).__name__
        remedy = "Make them with Preferences.from_table."
        fits = isinstance(preferences, Preferences)
        require(fits, fault("preferences", "must be Preferences", came, remedy=remedy))
        choose("order", order, get_args(Order))
        fits = isinstance(time_limit, (int, float)) and 0 < time_limit < math.inf
        rule = "must be a positive number of seconds"
        require(fits, fault("time_limit", rule, repr(time_limit)))
        return cls(preferences, spec, order, time.monotonic() + time_limit)

    @property
    def everyone(self) -> tuple[str, ...]:
        """The raters."""
        return self.preferences.raters

    @property
    def names(self) -> list[str]:
        """The raters that the claims are about."""
        about = {getattr(s, "of", None) for s in self.spec.statements}
        return [r for r in self.everyone if None in about or r in about]

    @property
    def sketch(self) -> OrderSketch:
        """What a proof sees."""
        return OrderSketch.of(self.preferences, self.order)

    def among(self, names: Sequence[str]) -> Self:
        """The same of these raters only."""
        fewer = self.preferences.of_raters(names)
        return self._replace(preferences=fewer, spec=restricted(self.spec, fewer.raters))

    def ask(self, part: float = 1.0) -> OrderVerdict:
        """Can all claims hold at once?"""
        if not self.spec.statements:
            return OrderVerdict("consistent")
        sketch = self.sketch
        return decide(OrderProgram(sketch, needs_of(sketch, self.spec)), share(self.deadline, part))

    def guarantee(self, trusted: str = "") -> Guarantee:
        """What a proof from orders rests on."""
        more = (Assumption(name="the trusted claims are true", detail=trusted),) if trusted else ()
        meant = (Assumption(name=_MEANS[self.order]), *more)
        return Guarantee(kind=Kind.LOGICAL, error_rate=0.0, assumptions=meant)

    def counts(self) -> dict[str, Any]:
        """The counts that results show."""
        p = self.preferences
        outcomes = np.bincount(p.outcome, minlength=4).tolist()
        return {
            "verdicts": int(outcomes[FIRST] + outcomes[SECOND]),
            "tie": int(outcomes[TIE]),
            "neither": int(outcomes[NEITHER]),
            "missing": p.missing,
            "items": len(np.unique(p.item)),
            "raters": len(p.raters),
            "systems": len(p.systems),
        }


def decide(program: OrderProgram, deadline: float) -> OrderVerdict:
    """Whether orders keep all needs: cases, then the integer solver, then more cases."""
    if not ready(deadline):
        return OrderVerdict("undecided", reason=_TIME_UP)
    first, cuts = _search(program, Cut.none(), most=_FIRST_NODES, deadline=share(deadline, 0.6))
    if first.status != "undecided":
        return first
    said, x, cuts = program.integral(cuts, share(deadline, 0.5))
    if said == "solved":
        return first._replace(status="consistent", x=x, method="integer program", reason="")
    more, _ = _search(program, cuts, most=_MOST_NODES, deadline=deadline)
    if more.status == "undecided" and said == "infeasible":
        more = more._replace(reason=_NO_PROOF)
    return more._replace(nodes=first.nodes + more.nodes)


def _search(
    program: OrderProgram, cuts: Cut, *, most: int, deadline: float
) -> tuple[OrderVerdict, Cut]:
    """Split on how many units have a above b, until each case is impossible or orders are found."""
    nodes = 0
    found: Whole | None = None

    def prove(branches: tuple[Branch, ...]) -> Node | None:
        nonlocal nodes, cuts, found
        nodes += 1
        if nodes > most or len(branches) > _DEEPEST or time.monotonic() > deadline:
            return None
        solved, cuts = program.relax(branches, cuts, deadline)
        if solved.leaf is not None:
            weights, cycles = (list(map(list, part)) for part in solved.leaf)
            return {"kind": "weights", "weights": weights, "cycles": cycles}
        found = solved.orders
        if not solved.solved or found is not None:
            return None
        apart = np.abs(solved.x - np.rint(solved.x))
        if apart.max(initial=0.0) <= 1e-6:
            return None
        place = int(apart.argmax())
        value = float(solved.x[place])
        at = math.floor(value)
        halves: dict[bool, Node] = {}
        for below in sorted((True, False), reverse=value - at <= 0.5):
            half = prove((*branches, Branch(place, at, below)))
            if half is None:
                return None
            halves[below] = half
        g, a, b = program.pair(place)
        cases = {"below": halves[True], "above": halves[False]}
        return {"kind": "cases", "pair": [g, a, b], "at": at, **cases}

    node = prove(())
    method = "linear program" if nodes == 1 else "cases"
    if found is not None:
        return OrderVerdict("consistent", x=found, nodes=nodes, method=method), cuts
    if node is not None:
        return OrderVerdict("alarm", node=node, nodes=nodes, method=method), cuts
    return OrderVerdict("undecided", nodes=nodes, method=method, reason=_TIME_UP), cuts


def prove_disagreement(
    preferences: Preferences,
    spec: Spec | str,
    *,
    order: Order = "item",
    smallest: bool = False,
    time_limit: float = 30.0,
) -> Proof:
    """Prove that not all judges can agree with one order as often as claimed, or show that they
    could.

    Parameters
    ----------
    preferences
        From :meth:`Preferences.from_table`; ``rater`` names the judges.
    spec
        What is claimed, such as ``"agreement > 0.7"`` (every judge) or ``"agreement of gpt > 0.8"``.
        The agreement of a judge is the share of its decided verdicts (first or second) whose winner
        is above the other system in the order.
    order
        ``item``: every item has its own order of the answers. ``one``: one ranking of the systems
        holds for all items.
    smallest
        Prove it for a smallest set of judges: ``diagnostics["conflict"]`` names them, and without
        any one of them there is no alarm (unless ``diagnostics["undecided"]`` names it).
    time_limit
        Seconds after which the verdict is ``undecided``.

    Returns
    -------
    Proof
        ``alarm``: whatever the orders are, at least one judge agrees less often than claimed;
        ``certificate`` is a tree of cases with weights at each leaf. ``consistent``: ``witness`` has
        orders with which all agree as often as claimed, which does not mean that the judges are
        good. ``undecided``: neither was found in time. ``verify()`` checks certificate or witness
        in whole numbers without a solver, and every alarm has a certificate.

    Notes
    -----
    With x_{g,ab} units of group g in which a is above b, judge j agrees in A_j(x) = Σ v_{j,ab} x_ab
    + v_{j,ba} (n_g - x_ab) verdicts, and the claim is A_j ≥ ⌊θ n_j⌋ + 1. Orders satisfy x_ab + x_bc +
    x_ca ≤ 2 n_g. Weights w ≥ 0 of judges and y ≥ 0 of cycles prove a case impossible if

        Σ_{pairs} max over x_ab of its reduced weight + 2 Σ n_g y < Σ_j w_j (⌊θ n_j⌋ + 1),

    a dual solution of the linear program. Where none exists, cases split on one x_ab.

    Ties, ``neither`` and absent verdicts are left out: a judge is not proved bad by not deciding,
    and one without a decided verdict keeps every claim. Orders have no ties, which loses nothing:
    an order with ties agrees with no more decided verdicts than one that breaks them. Two verdicts
    on the same answers that contradict each other cannot both agree.

    Assumptions: none on judges or items; the verdict is about this table.

    References
    ----------
    Grötschel, Jünger and Reinelt (1985), Math. Program. 33, 43-60 (linear orderings);
    Corrada-Emmanuel, Parker and Bharadwaj, "A logical alarm for misaligned binary classifiers".

    Examples
    --------
    >>> votes = {"ann": "aab", "bob": "bca", "cy": "cbc"}
    >>> pairs = [("a", "b"), ("a", "c"), ("b", "c")]
    >>> rows = [(i, x, y, w, r) for r, won in votes.items() for i, ((x, y), w) in enumerate(zip(pairs, won))]
    >>> names = ("item", "first", "second", "winner", "rater")
    >>> table = Preferences.from_table(dict(zip(names, map(list, zip(*[(1, x, y, w if w in (x, y) else x, r) for _, x, y, w, r in rows])))))
    >>> proof = prove_disagreement(table, "agreement > 2/3", order="one")
    >>> proof.status, proof.verify()
    ('alarm', True)
    """
    claims = OrderClaims.read(preferences, as_spec(spec), order, time_limit)
    proof = _proof(claims, share(claims.deadline, 0.4) if smallest else claims.deadline)
    if not smallest:
        return proof
    core: list[str] = []
    unsure: list[str] = []
    if proof.status == "alarm":
        court, everyone = Court(claims), list(claims.everyone)
        needs = needs_of(claims.sketch, claims.spec)
        used = {needs[k].rater for k in _needs_used(proof.certificate)}
        weighty = [everyone[r] for r in sorted(used)]
        core, unsure = court.core(weighty if court.verdict(weighty) == "alarm" else everyone)
        smaller = _proof(claims.among(core), claims.deadline)
        proof, core, unsure = (
            (smaller, core, unsure) if smaller.status == "alarm" else (proof, everyone, everyone)
        )
    notes = proof.notes
    if unsure:
        without = f"the verdict without {', '.join(unsure)} was undecided"
        notes = (*notes, f"perhaps not the smallest set: {without}")
    said = {"conflict": core, "undecided": unsure, "time_limit": float(time_limit)}
    return dataclasses.replace(proof, diagnostics={**proof.diagnostics, **said}, notes=notes)


def _needs_used(node: Mapping[str, Any]) -> set[int]:
    if node["kind"] == "cases":
        return _needs_used(node["below"]) | _needs_used(node["above"])
    return {k for k, _ in node["weights"]}


def _proof(claims: OrderClaims, deadline: float) -> Proof:
    sketch = claims.sketch
    require(
        sketch.totals.any(),
        fault("preferences", "must hold a verdict for first or second", "ties and neither alone"),
    )
    program = OrderProgram(sketch, needs_of(sketch, claims.spec))
    found = decide(program, deadline)
    witness: dict[str, Any] = {}
    notes = [_LEFT_OUT] if {claims.counts()["tie"], claims.counts()["neither"]} != {0} else []
    if found.x is not None:
        notes.insert(0, _NOT_GOOD)
        rankings = program.rankings(found.x)
        witness = {"orders": [[[list(r), n] for r, n in group] for group in rankings]}
        if claims.order == "one":
            best = rankings[0][0][0]
            witness["ranking"] = [sketch.systems[i] for i in best]
    return Proof(
        claim=f"{claims.spec} {_WORDS[claims.order]}",
        status=found.status,
        method=found.method or "linear program",
        guarantee=claims.guarantee(),
        spec={"statements": claims.spec.to_list(), "prevalence": {}, "order": claims.order},
        sketch=sketch.to_dict(),
        certificate=found.node or {},
        witness=witness,
        counts=claims.counts(),
        diagnostics={"cases": found.nodes},
        notes=tuple(notes),
        reason=found.reason,
    )


def range_agreement(
    preferences: Preferences,
    *,
    given: Spec | str | None = None,
    order: Order = "item",
    only: str | None = None,
    time_limit: float = 30.0,
) -> Ranges:
    """What remains possible for the agreement of each judge with one order.

    Parameters
    ----------
    preferences, order
        As in :func:`prove_disagreement`, which says what agreement is.
    given
        Claims that are trusted, such as ``"agreement of ann > 0.8"``.
    only
        One judge; by default all.
    time_limit
        Seconds for all ends together. An end that was not found in time is an outer bound.

    Returns
    -------
    Ranges
        ``agreement of NAME`` for each judge, over all orders that the trusted claims allow.
        ``diagnostics["ends"]`` has the ends as exact fractions and says which are ``exact``
        (attained by some orders, and proved) and which ``outer``. NaN for a judge without decided
        verdicts. Without trusted claims and with ``order="one"``, the upper end is how far a judge
        agrees with itself.

    Notes
    -----
    An end A_j = max {k : "agreement of j is at least k verdicts" is consistent}, found by bisection
    with proofs on either side; linear programs guess first.

    Assumes the trusted claims, and nothing else.

    References
    ----------
    Grötschel, Jünger and Reinelt (1985), Math. Program. 33, 43-60.

    Examples
    --------
    >>> table = {"item": [1, 2, 3], "first": ["a", "b", "c"], "second": ["b", "c", "a"], "winner": ["first"] * 3}
    >>> found = range_agreement(Preferences.from_table(table), order="one")
    >>> found.diagnostics["ends"]["agreement of ''"]["high"]
    '2/3'
    """
    trusted = NOTHING if given is None else each_named(as_spec(given), preferences.raters)
    claims = OrderClaims.read(preferences, trusted, order, time_limit)
    needs_of(claims.sketch, trusted)  # refuses names that are not in the table
    names = [r for r in claims.everyone if only in {None, r, f"agreement of {r}"}]
    require(names, f"only must be a rater among {list(claims.everyone)}; got {only!r}.")
    label = {r: f"agreement of {r or repr(r)}" for r in names}
    first = (
        claims.among(claims.names).ask(0.3) if trusted.statements else OrderVerdict("consistent")
    )
    ends: dict[str, dict[str, str]] = {}
    said: dict[str, Any] = {"contradiction": True}
    ranges = [Range(name=label[r], low=NaN, high=NaN) for r in names]
    reason = (
        "no order satisfies the trusted claims: at least one of the trusted judges breaks its claim"
    )
    if first.status != "alarm":
        said, reason = {"ends": ends, "time_limit": float(time_limit)}, ""
        for place, name in enumerate(names):
            part = claims.among([r for r in claims.everyone if r == name or r in claims.names])
            until = share(claims.deadline, 1 / (len(names) - place))
            found = _ends(part, name, until)
            if found is None:
                ends[label[name]] = {"how": "undefined: no decided verdict"}
                continue
            (low, low_is), (high, high_is) = found
            ends[label[name]] = {
                "low": str(low),
                "low is": low_is,
                "high": str(high),
                "high is": high_is,
            }
            ranges[place] = Range(name=label[name], low=float(low), high=float(high))
    undefined = [name for name, e in ends.items() if "how" in e]
    outer = [name for name, e in ends.items() if "outer" in {e.get("low is"), e.get("high is")}]
    notes = [f"outer bounds, perhaps too wide: {', '.join(outer[:6])}"] if outer else []
    if undefined:
        reason = f"undefined, as there is no decided verdict: {', '.join(undefined[:6])}"
    return Ranges(
        ranges=tuple(ranges),
        method=f"every order that is possible, {'outer bounds' if outer else 'whole numbers'}",
        subject=f"possible agreement of {len(names)} judges {_WORDS[order]}",
        guarantee=claims.guarantee(str(trusted)),
        counts=claims.counts(),
        diagnostics={**said, "given": trusted.to_list(), "order": order},
        notes=tuple(notes),
        reason=reason,
    )


def _ends(
    claims: OrderClaims, name: str, deadline: float
) -> tuple[tuple[Fraction, str], tuple[Fraction, str]] | None:
    """Least and largest agreement of one rater, and whether each is exact."""
    sketch = claims.sketch
    rater = sketch.raters.index(name)
    total = int(sketch.totals[rater])
    if not total:
        return None
    base = needs_of(sketch, claims.spec)
    found = []
    for sign, part in ((-1, 0.5), (1, 1.0)):
        until = share(deadline, part)
        value, how = _largest(sketch, base, Need(rater, sign, 0), until)
        found.append((Fraction(sign * value, total), how))
    return found[0], found[1]


def _largest(
    sketch: OrderSketch, base: Sequence[Need], wanted: Need, deadline: float
) -> tuple[int, str]:
    """The most that sign·A can be: seen to be ``low``, proved to be at most ``high``."""
    total = int(sketch.totals[wanted.rater])
    least, high = (0, total) if wanted.sign > 0 else (-total, 0)
    low: int | None = None
    guess = OrderProgram(sketch, base).largest(wanted, deadline) if ready(deadline) else None
    ask, step = high if guess is None else max(least, min(high, guess)), 1
    while high >= least and (low is None or low < high):
        program = OrderProgram(sketch, [*base, wanted._replace(at_least=ask)])
        said = decide(program, share(deadline, 0.5))
        if said.x is not None:
            low = wanted.sign * int(program.agreeing(said.x)[wanted.rater])
            ask = min(high, low + step)
        elif said.status == "alarm":
            high = ask - 1
            ask = max(least, ask - step) if low is None else (low + high + 1) // 2
        else:
            break
        step *= 2
    return high, "exact" if low == high else "outer"


def range_dissenters(
    preferences: Preferences,
    spec: Spec | str,
    *,
    order: Order = "item",
    time_limit: float = 30.0,
) -> Ranges:
    """The least number of judges that agree less often than claimed, whatever the order is.

    Parameters
    ----------
    preferences, spec, order, time_limit
        As in :func:`prove_disagreement`.

    Returns
    -------
    Ranges
        One range: at least ``low`` judges break the claim, proved by ``diagnostics["conflicts"]``;
        ``high`` is enough: without ``diagnostics["violators"]`` the others can all keep it.
        ``diagnostics["suspects"]`` are, where one is enough, all judges that could be this one: a
        single suspect is named by logic alone, if only one judge breaks the claim.

    Notes
    -----
    With C the conflicts, ``low = min {|H| : H meets every c ∈ C}``: the size of a smallest hitting set,
    as in :func:`range_violators`.

    Assumes nothing: it follows from the verdicts for every order.

    References
    ----------
    Reiter (1987), Artif. Intell. 32, 57-95 (conflicts and hitting sets).

    Examples
    --------
    >>> rows = [(i, "a", "b", "first" if r != "bob" else "second", r) for i in range(4) for r in ("ann", "bob", "cy")]
    >>> names = ("item", "first", "second", "winner", "rater")
    >>> table = Preferences.from_table(dict(zip(names, map(list, zip(*rows)))))
    >>> found = range_dissenters(table, "agreement > 1/2")
    >>> found.ranges[0].low, found.diagnostics["conflicts"]
    (1.0, [['bob', 'cy']])
    """
    claims = OrderClaims.read(preferences, as_spec(spec), order, time_limit)
    needs_of(claims.sketch, claims.spec)  # refuses names that are not in the table
    court = Court(claims)
    least, chosen, conflicts, decided = least_violators(court)
    suspects: list[str] = []
    if len(chosen) == 1:
        shared = [r for r in claims.everyone if all(r in c for c in conflicts)]
        rest = {r: [c for c in claims.everyone if c != r] for r in shared}
        suspects = [r for r in shared if court.verdict(rest[r]) != "alarm"]
    notes = ["other judges, and more of them, may break the claim in truth"]
    if len(suspects) == 1:
        notes.insert(0, f"if only one judge breaks the claim, it is {suspects[0]}")
    decided = decided and least == len(chosen)
    return Ranges(
        ranges=(
            Range(
                name="judges that break the claim, at least",
                low=float(least),
                high=float(len(chosen)),
            ),
        ),
        method="conflicts and a smallest set that meets them all",
        subject=f"least number of {len(claims.everyone)} judges that break '{claims.spec}' {_WORDS[order]}",
        guarantee=claims.guarantee(),
        counts=claims.counts(),
        diagnostics={
            "claim": str(claims.spec),
            "order": order,
            "violators": chosen,
            "conflicts": conflicts,
            "suspects": suspects,
            "decided": decided,
        },
        notes=tuple(notes),
        reason="" if decided else _TIME_UP,
    )
