"""Who is in conflict: a smallest set that cannot keep the claims, and how many break them."""

from __future__ import annotations

import dataclasses
import itertools
import math
import time
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, Self

from noracle.counts.sketch import Sketch
from noracle.errors import require
from noracle.evidence.evidence import Evidence
from noracle.logic.cascade import Claims, Decided, prove_malfunction, restricted, sketch_of
from noracle.logic.spec import Spec, as_spec
from noracle.results import Proof, Range, Ranges

_MOST_SETS = 200_000


class Verdicts(Protocol):
    """Claims about some of which a verdict can be asked."""

    @property
    def everyone(self) -> Sequence[str]: ...  # noqa: D102
    def among(self, names: Sequence[str]) -> Self: ...  # noqa: D102
    def ask(self, part: float) -> Any: ...  # noqa: D102


class Court:
    """Verdicts on subsets of those whom claims are about, each asked once."""

    def __init__(self, claims: Verdicts) -> None:
        self.claims = claims
        # What is known of the items does not contradict itself.
        self.known: dict[tuple[str, ...], Any] = {(): Decided("consistent")}

    def verdict(self, names: Sequence[str]) -> str:
        """Whether these can all keep their claims."""
        key = tuple(c for c in self.claims.everyone if c in set(names))
        if key not in self.known:
            self.known[key] = self.claims.among(key).ask(0.3)
        return str(self.known[key].status)

    def core(self, names: Sequence[str]) -> tuple[list[str], list[str]]:
        """An alarmed set without those it does not need, and those whose removal was undecided."""
        keep, unsure = list(names), []
        for name in names:
            rest = [c for c in keep if c != name]
            said = self.verdict(rest)
            if said == "alarm":
                keep = rest
            elif said == "undecided":
                unsure.append(name)
        return keep, unsure


def prove_conflict(
    evidence: Evidence | Sketch,
    spec: Spec | str,
    *,
    prevalence: Mapping[str, tuple[int, int]] | None = None,
    time_limit: float = 30.0,
) -> Proof:
    """A smallest set of classifiers that cannot all be as good as claimed.

    Parameters
    ----------
    evidence, spec, prevalence, time_limit
        As in :func:`prove_malfunction`.

    Returns
    -------
    Proof
        If all together raise an alarm: the proof of the alarm for the set alone, on the sketch that
        only they see. ``diagnostics["conflict"]`` names them. Without any one of them there is no
        alarm (unless ``diagnostics["undecided"]`` names it); other sets can be in conflict too.
        Without an alarm: the proof of that verdict, with an empty conflict.

    Notes
    -----
    Classifiers without weight in the certificate go first, then the others one by one while the
    alarm stays (a deletion filter). A claim goes with any of the classifiers that it names.

    A set C is minimal if the claims of C have no common answer key and those of C minus i have one,
    for every i ∈ C.

    Assumptions as in :func:`prove_malfunction`: one true label per item, and what is known of the
    items is true. Nothing about how errors depend on each other.

    References
    ----------
    Chinneck and Dravnieks (1991), ORSA J. Comput. 3, 157-168 (deletion filter); Corrada-Emmanuel,
    Parker and Bharadwaj, "A logical alarm for misaligned binary classifiers".

    Examples
    --------
    >>> counts = {("A", "A", "A"): 12, ("A", "B", "A"): 121, ("B", "A", "A"): 14, ("B", "B", "A"): 87, ("A", "B", "B"): 14}
    >>> sketch = Sketch.from_counts(counts, classifiers=["x", "y", "z"], labels=["A", "B"])
    >>> prove_conflict(sketch, "accuracy > 1/2").diagnostics["conflict"]
    ['y', 'z']
    """
    sketch = sketch_of(evidence)
    claims = Claims.read(sketch, as_spec(spec), prevalence, time_limit)
    first = max(1e-3, 0.4 * time_limit)
    proof = prove_malfunction(sketch, claims.spec, prevalence=prevalence, time_limit=first)
    core: list[str] = []
    unsure: list[str] = []
    limit = {}
    if proof.status == "alarm":
        court, everyone = Court(claims), list(sketch.classifiers)
        weighty = _weighty(claims, proof)
        alarmed = weighty and court.verdict(weighty) == "alarm"
        core, unsure = court.core(weighty if alarmed else everyone)
        if core != everyone:
            smaller = prove_malfunction(
                sketch.of(core),
                restricted(claims.spec, core),
                prevalence=prevalence,
                time_limit=max(1e-3, claims.deadline - time.monotonic()),
            )
            if smaller.status == "alarm":
                proof = smaller
            else:
                core, unsure = everyone, everyone
        limit = {"time_limit": float(time_limit)}
    notes = proof.notes
    if unsure:
        without = f"the verdict without {', '.join(unsure)} was undecided"
        notes = (*notes, f"perhaps not the smallest set: {without}")
    said = {**proof.diagnostics, "conflict": core, "undecided": unsure, **limit}
    return dataclasses.replace(proof, diagnostics=said, notes=notes)


def _weighty(claims: Claims, proof: Proof) -> list[str]:
    """The classifiers whose rows have weight in the certificate."""
    rows = claims.rows
    used = {k for k in _rows_used(proof.certificate) if k < len(rows)}
    found = {i for k in used for piece in rows[k].pieces for i, _ in piece.answers}
    return [claims.sketch.classifiers[i] for i in sorted(found)]


def _rows_used(node: Mapping[str, Any]) -> set[int]:
    if node.get("kind") == "cases":
        return _rows_used(node["below"]) | _rows_used(node["above"])
    return {int(k) for k, _ in node.get("weights", ())}


def range_violators(
    evidence: Evidence | Sketch,
    spec: Spec | str,
    *,
    prevalence: Mapping[str, tuple[int, int]] | None = None,
    time_limit: float = 30.0,
) -> Ranges:
    """The least number of classifiers that break the claim, whatever the answer key is.

    Parameters
    ----------
    evidence, spec, prevalence, time_limit
        As in :func:`prove_malfunction`.

    Returns
    -------
    Ranges
        One range. At least ``low`` classifiers break the claim: proved by
        ``diagnostics["conflicts"]``, sets of which each has one that does. ``high`` is enough:
        ``diagnostics["violators"]`` is a set without which the others can all keep it. Equal unless
        the time was up. More may break it in truth, and others than these.

    Notes
    -----
    Conflicts are collected until a smallest set that meets all of them leaves a consistent rest.

    The least number is the size of a smallest set V with V ∩ C ≠ ∅ for every conflict C (a hitting
    set).

    Assumptions as in :func:`prove_malfunction`: one true label per item, and what is known of the
    items is true. Nothing about how errors depend on each other.

    References
    ----------
    Reiter (1987), Artif. Intell. 32, 57-95 (conflicts and hitting sets); Corrada-Emmanuel, Parker
    and Bharadwaj, "A logical alarm for misaligned binary classifiers".

    Examples
    --------
    >>> counts = {("A", "A", "A"): 12, ("A", "B", "A"): 121, ("B", "A", "A"): 14, ("B", "B", "A"): 87, ("A", "B", "B"): 14}
    >>> sketch = Sketch.from_counts(counts, classifiers=["x", "y", "z"], labels=["A", "B"])
    >>> found = range_violators(sketch, "accuracy > 1/2")
    >>> found.ranges[0].low, found.ranges[0].high, found.diagnostics["violators"]
    (1.0, 1.0, ['y'])
    """
    sketch, spec = sketch_of(evidence), as_spec(spec)
    claims = Claims.read(sketch, spec, prevalence, time_limit)
    require(claims.names, f"spec must be about classifiers; got '{spec}'.")
    _ = claims.rows  # refuses names that are not in the sketch
    court = Court(claims)
    least, chosen, conflicts, decided = least_violators(court)
    name = "classifiers that break the claim, at least"
    said_of = {"claim": str(spec), "violators": chosen, "conflicts": conflicts}
    return claims.result(
        [Range(name=name, low=float(least), high=float(len(chosen)))],
        on_solver=any(asked.on_solver for asked in court.known.values()),
        method="conflicts and a smallest set that meets them all",
        subject=f"least number of {len(sketch.classifiers)} classifiers that break '{spec}'",
        diagnostics={**said_of, "decided": decided and least == len(chosen)},
        notes=("other classifiers, and more of them, may break the claim in truth",),
        reason="" if decided else "the time limit was reached",
    )


def least_violators(court: Court) -> tuple[int, list[str], list[list[str]], bool]:
    """A number that no set of violators is below, a set without which the others are consistent,
    the conflicts that prove the number, and whether the others were decided.
    """
    everyone = list(court.claims.everyone)
    conflicts: list[list[str]] = []
    chosen: list[str] = []
    least = 0
    while (said := court.verdict(rest := [c for c in everyone if c not in chosen])) == "alarm":
        conflicts.append(court.core(rest)[0])
        chosen, least = _meets_all(conflicts, everyone)
    if said != "consistent":  # without these the others were consistent; at worst all
        best = max((k for k, d in court.known.items() if d.status == "consistent"), key=len)
        chosen = [c for c in everyone if c not in best]
    return least, chosen, conflicts, said == "consistent"


def _meets_all(conflicts: Sequence[Sequence[str]], names: Sequence[str]) -> tuple[list[str], int]:
    """A smallest set with a member of every conflict, and a number that no such set is below."""
    useful = [c for c in names if any(c in conflict for conflict in conflicts)]
    size = 0
    while math.comb(len(useful), size) <= _MOST_SETS:
        for chosen in itertools.combinations(useful, size):
            if all(set(chosen) & set(conflict) for conflict in conflicts):
                return list(chosen), size
        size += 1
    # Too many sets to try: again and again who is in most of those that are left.
    left, greedy = [set(c) for c in conflicts], []
    while left:
        members = sorted({name for c in left for name in c})
        greedy.append(max(members, key=lambda name: sum(name in c for c in left)))
        left = [c for c in left if greedy[-1] not in c]
    return greedy, size
