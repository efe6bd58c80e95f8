"""What each accuracy can still be, for every answer key that the evidence allows."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Literal, NamedTuple

import numpy as np

from noracle.counts.sketch import Sketch
from noracle.errors import require
from noracle.evidence.evidence import Evidence
from noracle.logic.cascade import Claims, each_named, round_counts, share, sketch_of
from noracle.logic.program import ANY, Case, IntegerProgram, Piece, Row, Whole
from noracle.logic.solver import MOST_ENTRIES, entries, largest_share
from noracle.logic.spec import Spec
from noracle.results import NaN, Range, Ranges

_DENOMINATORS = (1_000_000, 10_000, 1_000, 100)
_CLOSE = Fraction(1, 2000)
_ABSENT = "an accuracy on a label is a share of the items of it that were answered; answer keys without such an item are left out"


class Share(NamedTuple):
    """Right (or wrong) answers among the answered items of a label; of all labels if None.

    ``answered`` is the most items that it can be a share of; over all labels exactly so many.
    """

    classifier: int
    label: int | None
    right: bool
    answered: int
    n_labels: int

    def above(self, t: Fraction) -> Row:
        """The share is above t, as a row in whole numbers."""
        p, q = t.as_integer_ratio()
        i, r = self.classifier, self.label
        if r is None:
            least = p * self.answered // q + 1
            sign, least = (1, least) if self.right else (-1, least - self.answered)
            return Row(tuple(Piece(sign, ((i, x),), x) for x in range(self.n_labels)), least)
        good, all_ = (q, -p) if self.right else (-q, q - p)
        pieces = (Piece(good, ((i, r),), r), Piece(all_, ((i, ANY),), r))
        return Row(pieces if self.right else pieces[::-1], 1)

    def some(self) -> tuple[Row, ...]:
        """There is an item that it is a share of."""
        if self.label is None:
            return ()
        return (Row((Piece(1, ((self.classifier, ANY),), self.label),), 1),)

    def costs(self, sketch: Sketch) -> tuple[Whole, Whole]:
        """Over the cells: what an item adds to the share's numerator, and to its denominator."""
        column, labels = sketch.patterns[:, self.classifier, None], np.arange(self.n_labels)
        inside = (column >= 0) & ((labels == self.label) | (self.label is None))
        top = inside & ((column == labels) == self.right)
        return top.astype(np.int64), inside.astype(np.int64)

    def of(self, sketch: Sketch, given: Whole) -> Fraction | None:
        """The share for counts n_{g,l}; None where it is a share of nothing."""
        top, bottom = (int((c * given).sum()) for c in self.costs(sketch))
        return Fraction(top, bottom) if bottom else None


class End(NamedTuple):
    """The largest value of a share: ``exact`` (attained), ``outer`` bound, or ``undefined``.

    ``attained`` is the largest value that some answer key was seen to have.
    """

    value: Fraction
    how: Literal["exact", "outer", "undefined"]
    on_solver: bool = False
    attained: Fraction | None = None


class _Finder:
    """The largest possible value of a share lies between ``low``, which was seen, and ``high``."""

    def __init__(self, claims: Claims, wanted: Share) -> None:
        self.claims, self.wanted = claims, wanted
        self.low: Fraction | None = None
        self.high = Fraction(1)
        self.on_solver = False

    def ask(self, part: float, *rows: Row) -> tuple[str, bool]:
        """The verdict on further rows; counts that are possible raise ``low``."""
        found = self.claims.ask(part, *rows)
        if found.given is not None:
            self.attained(found.given)
        return found.status, found.on_solver

    def try_above(self, t: Fraction) -> str:
        """Whether more than t is possible; moves the bracket."""
        status, on_solver = self.ask(0.4, self.wanted.above(t))
        if status == "alarm":
            self.high, self.on_solver = t, on_solver
        return status

    def attained(self, given: Whole) -> None:
        """Counts that are possible show that the end is at least their share."""
        value = self.wanted.of(self.claims.sketch, given)
        if value is not None and (self.low is None or value > self.low):
            self.low = value

    def guess(self) -> None:
        """The linear program: multipliers that prove a bound, and counts near its optimum."""
        claims, wanted = self.claims, self.wanted
        program = IntegerProgram(claims.sketch, claims.rows)
        if entries(program) > MOST_ENTRIES or time.monotonic() >= claims.deadline:
            return
        until = share(claims.deadline, 0.5)
        top, bottom = wanted.costs(claims.sketch)
        found = largest_share(Case(program), top, bottom, wanted.answered, until)
        if found is None:
            return
        value, given, weights = found
        whole = round_counts(program, claims.sketch.allowed, given)
        if program.is_satisfied(whole):
            self.attained(whole)
        for m in _DENOMINATORS:
            t = Fraction(math.ceil((value + 1e-9) * m), m)
            if t >= self.high:
                break
            last = 1.0 if wanted.label is None else 1.0 / t.denominator
            case = Case(program.with_rows(wanted.above(t)))
            if case.leaf(np.append(weights, last)) is not None:
                self.high = t
                break

    @property
    def is_exact(self) -> bool:
        """Whether no fraction with so small a denominator lies between the two."""
        if self.low is None or self.low >= self.high:
            return self.low is not None
        return successor(self.low, self.wanted.answered) > self.high

    def close(self) -> None:
        """Halve the bracket until the end is exact, or the time is up."""
        floor = Fraction(0)
        while not self.is_exact and time.monotonic() < self.claims.deadline:
            base = max(floor, self.low or Fraction(0))
            if self.high - base < _CLOSE and base > (self.low or Fraction(0)):
                return
            middle = _simple(base, self.high, self.wanted.answered)
            status = self.try_above(middle)
            if status == "consistent" and self.low is not None and not self.is_exact:
                self.try_above(self.low)
            elif status == "undecided":
                floor = middle


def _largest(claims: Claims, wanted: Share, *, exact: bool) -> End:
    """The largest possible value of a share."""
    undefined = End(Fraction(0), "undefined")
    if not wanted.answered:
        return undefined
    finder = _Finder(claims, wanted)
    finder.guess()
    if finder.low is None and finder.ask(0.5, *wanted.some())[0] == "alarm":
        return undefined
    if exact and not finder.is_exact and finder.low is not None:
        finder.try_above(finder.low)
    if exact and not finder.is_exact:
        finder.close()
    if finder.is_exact and finder.low is not None:
        return End(finder.low, "exact", finder.on_solver, finder.low)
    return End(finder.high, "outer", finder.on_solver, finder.low)


def successor(value: Fraction, most: int) -> Fraction:
    """The next larger fraction with a denominator of at most ``most``."""
    a, b = value.as_integer_ratio()
    start = 0 if b == 1 else -pow(a, -1, b) % b
    d = start + (most - start) // b * b
    return Fraction(1 + a * d, b * d) if d > 0 else value + 1


def _simple(low: Fraction, high: Fraction, most: int) -> Fraction:
    """A fraction near the middle, with a small denominator."""
    middle = (low + high) / 2
    found = middle.limit_denominator(max(2, min(2 * most, math.ceil(4 / (high - low)))))
    return found if low < found < high else middle


def range_accuracies(
    evidence: Evidence | Sketch,
    *,
    given: Spec | str | Mapping[str, Spec | str] | None = None,
    prevalence: Mapping[str, tuple[int, int]] | None = None,
    only: str | None = None,
    time_limit: float = 30.0,
    exact: bool = True,
) -> Ranges:
    """What remains possible for the accuracy of each classifier, on each label and over all labels.

    Parameters
    ----------
    evidence
        As in :func:`prove_malfunction`.
    given
        Claims that are trusted: ``{"gpt": "accuracy > 1/2"}`` trusts one classifier, ``"accuracy >
        1/2"`` all of them. Nothing is trusted by default.
    prevalence
        For some labels the least and the most items that can have it.
    only
        One quantity by its name, such as ``"accuracy of gpt on A"`` or ``"grade of gpt"``; by
        default all.
    time_limit
        Seconds for all ends together. An end that was not found in time is an outer bound: still
        true, perhaps too wide.
    exact
        False asks for outer bounds from linear programs only, which is faster.

    Returns
    -------
    Ranges
        ``accuracy of NAME on LABEL`` for each pair, and ``grade of NAME`` (over all labels).
        ``diagnostics["ends"]`` has the ends as exact fractions and says which are ``exact``
        (attained by some answer key) and which ``outer``, with the furthest value that an answer
        key was seen to have (``attained``). An accuracy that no possible answer key defines is NaN.

    Raises
    ------
    ArgumentError
        If a name, a claim or a prevalence breaks a rule.

    Notes
    -----
    The accuracy of i on l is a = R_{i,l} / A_{i,l} (right among answered items of label l). Its
    largest value over all counts n_{g,l} that the claims allow is a fractional integer program. A
    linear program (Charnes and Cooper's substitution) gives a first guess; then the cascade of
    :func:`prove_malfunction` is asked whether more than the best value so far is possible, until
    the answer is a proved no. Only the trusted classifiers and the one in question matter, so that
    the others are left out first.

    Assumptions: every item has one true label among the labels; trusted claims, known answers and
    prevalences are true.

    References
    ----------
    Charnes and Cooper (1962), Naval Res. Logist. Q. 9, 181-186; Corrada-Emmanuel, Parker and
    Bharadwaj, "A logical alarm for misaligned binary classifiers".

    Examples
    --------
    >>> counts = {("A", "A"): 26, ("A", "B"): 1, ("B", "A"): 208, ("B", "B"): 46}
    >>> sketch = Sketch.from_counts(counts, classifiers=["Mistral", "GPT4"], labels=["A", "B"])
    >>> ranges = range_accuracies(sketch, given={"GPT4": "accuracy > 1/2"})
    >>> ranges.diagnostics["ends"]["accuracy of Mistral on A"]["high"]
    '27/190'
    """
    sketch = sketch_of(evidence)
    trusted = each_named(given, sketch.classifiers)
    claims = Claims.read(sketch, trusted, prevalence, time_limit)
    _ = claims.rows  # refuses names that are not in the sketch
    names = quantities(sketch)
    wanted = [pair for pair, name in names.items() if only in {None, name}]
    some = ", ".join(map(repr, list(names.values())[:3]))
    require(wanted, f"only must be a quantity such as {some}; got {only!r}.")
    everyone, trustees = sketch.classifiers, claims.names
    first = claims.among(trustees or everyone[:1]).ask(0.3)
    said: dict[str, Any] = {"contradiction": True}
    on_solver = first.on_solver
    reason = "no answer key satisfies the trusted claims: at least one of the trusted classifiers breaks its claim"
    ranges = [Range(name=names[pair], low=NaN, high=NaN) for pair in wanted]
    ends: dict[str, dict[str, str]] = {}
    if first.status != "alarm":
        said, on_solver, reason = {"ends": ends, "time_limit": float(time_limit)}, False, ""
        for place, (i, r) in enumerate(wanted):
            if not place or wanted[place - 1][0] != i:
                part = claims.among([c for c in everyone if c == everyone[i] or c in trustees])
            low, high = _both(part.until(1 / (len(wanted) - place)), everyone[i], r, exact=exact)
            on_solver |= low.on_solver or high.on_solver
            ends[names[i, r]] = found = _described(low, high)
            if "how" not in found:
                value = {"low": float(1 - low.value), "high": float(high.value)}
                ranges[place] = Range(name=names[i, r], **value)
    outer = [name for name, e in ends.items() if "outer" in {e.get("low is"), e.get("high is")}]
    undefined = [name for name, e in ends.items() if "how" in e]
    notes = [_ABSENT]
    if outer:
        more = " and others" if len(outer) > 6 else ""
        notes.append(f"outer bounds, perhaps too wide: {', '.join(outer[:6])}{more}")
    if undefined:
        reason = f"undefined, as no answer key that is possible has such an item: {', '.join(undefined[:6])}"
    bounds = {k: list(v) for k, v in claims.bounds.items()}
    return claims.result(
        ranges,
        method=f"every answer key that is possible, {'outer bounds' if outer else 'whole numbers'}",
        subject=f"possible accuracies of {len(everyone)} classifiers",
        trusted=str(trusted),
        on_solver=on_solver,
        diagnostics={**said, "given": trusted.to_list(), "prevalence": bounds},
        notes=tuple(notes),
        reason=reason,
    )


def _both(claims: Claims, name: str, r: int | None, *, exact: bool) -> tuple[End, End]:
    """The largest share of wrong and of right answers."""
    sketch = claims.sketch
    i = sketch.classifiers.index(name)
    can = sketch.allowed.any(axis=1) if r is None else sketch.allowed[:, r]
    answered = int(sketch.n[can & (sketch.patterns[:, i] >= 0)].sum())
    wrong, right = (Share(i, r, x, answered, len(sketch.labels)) for x in (False, True))
    low = _largest(claims.until(0.5), wrong, exact=exact)
    if low.how == "undefined":
        return low, low
    return low, _largest(claims, right, exact=exact)


def _described(low: End, high: End) -> dict[str, str]:
    if "undefined" in {low.how, high.how}:
        nobody = "no possible answer key has an item of this kind that was answered"
        return {"how": f"undefined: {nobody}"}
    found = {"low": str(1 - low.value), "low is": low.how, "high": str(high.value)}
    found["high is"] = high.how
    if low.how == "outer" and low.attained is not None:
        found["low attained"] = str(1 - low.attained)
    if high.how == "outer" and high.attained is not None:
        found["high attained"] = str(high.attained)
    return found


def quantities(sketch: Sketch) -> dict[tuple[int, int | None], str]:
    """What each quantity is called, by places of classifier and label, in order of results.

    Where names such as "a on b" would make two quantities look the same, classifiers and labels are
    quoted.

    Examples
    --------
    >>> sketch = Sketch.from_counts({("A",): 1}, classifiers=["gpt"], labels=["A", "B"])
    >>> list(quantities(sketch).values())
    ['accuracy of gpt on A', 'accuracy of gpt on B', 'grade of gpt']
    """
    for say in (str, repr):
        found: dict[tuple[int, int | None], str] = {}
        for i, c in enumerate(sketch.classifiers):
            for r, label in enumerate(sketch.labels):
                found[i, r] = f"accuracy of {say(c)} on {say(label)}"
            found[i, None] = f"grade of {say(c)}"
        if len(set(found.values())) == len(found):
            break
    return found


def exact_ends(ranges: Ranges, name: str) -> tuple[Fraction, Fraction]:
    """Both ends of a range as exact fractions.

    Examples
    --------
    >>> sketch = Sketch.from_counts({("a",): 2, ("b",): 1}, classifiers=["x"], labels=["a", "b"])
    >>> exact_ends(range_accuracies(sketch, prevalence={"a": (3, 3)}), "accuracy of x on a")
    (Fraction(2, 3), Fraction(2, 3))
    """
    ends = ranges.diagnostics["ends"][name]
    return Fraction(ends["low"]), Fraction(ends["high"])
