"""What each accuracy can still be, for every answer key that the evidence allows."""

from __future__ import annotations

import time
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from noracle.counts.sketch import Sketch
from noracle.errors import ArgumentError
from noracle.logic.asking import (
    Bounds,
    ask,
    check_limit,
    described,
    each_named,
    names_in,
    promise,
    share,
)
from noracle.logic.ends import End, Share, largest
from noracle.logic.program import rows_of
from noracle.logic.side import check_prevalence
from noracle.logic.spec import Spec
from noracle.results import NaN, Range, Ranges

_ABSENT = "an accuracy on a label is a share of the items of it that were answered; answer keys without such an item are left out"


def range_accuracies(
    sketch: Sketch,
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
    sketch
        How often each pattern of answers was given, with what is known of the items.
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
    deadline = check_limit(time_limit)
    trusted = each_named(given, sketch.classifiers)
    rows_of(sketch, trusted)  # refuses names that are not in the sketch
    bounds = check_prevalence(sketch, prevalence)
    names = quantities(sketch)
    wanted = _wanted(names, only)
    first = ask(
        sketch.of(names_in(trusted, sketch.classifiers) or sketch.classifiers[:1]),
        trusted,
        bounds,
        deadline=share(deadline, 0.3),
    )
    if first.status == "alarm":
        reason = "no answer key satisfies the trusted claims: at least one of the trusted classifiers breaks its claim"
        ranges = tuple(Range(name=names[pair], low=NaN, high=NaN) for pair in wanted)
        return _result(
            sketch,
            bounds,
            trusted,
            ranges,
            {"contradiction": True},
            on_solver=first.on_solver,
            reason=reason,
        )
    found: list[Range] = []
    ends: dict[str, dict[str, str]] = {}
    on_solver = False
    collapsed: dict[str, Sketch] = {}
    for place, (i, r) in enumerate(wanted):
        name = sketch.classifiers[i]
        if name not in collapsed:
            collapsed = {
                name: sketch.of(
                    [
                        c
                        for c in sketch.classifiers
                        if c == name or c in names_in(trusted, sketch.classifiers)
                    ]
                )
            }
        until = share(deadline, 1 / (len(wanted) - place))
        low, high = _both(collapsed[name], trusted, bounds, name, r, until, exact=exact)
        on_solver |= low.on_solver or high.on_solver
        what = names[i, r]
        if "undefined" in {low.how, high.how}:
            found.append(Range(name=what, low=NaN, high=NaN))
            ends[what] = {
                "how": "undefined: no possible answer key has an item of this kind that was answered"
            }
        else:
            found.append(Range(name=what, low=float(1 - low.value), high=float(high.value)))
            ends[what] = {
                "low": str(1 - low.value),
                "low is": low.how,
                "high": str(high.value),
                "high is": high.how,
            }
            if low.how == "outer" and low.attained is not None:
                ends[what]["low attained"] = str(1 - low.attained)
            if high.how == "outer" and high.attained is not None:
                ends[what]["high attained"] = str(high.attained)
    return _result(
        sketch,
        bounds,
        trusted,
        tuple(found),
        {"ends": ends, "time_limit": float(time_limit)},
        on_solver=on_solver,
    )


def _both(
    sketch: Sketch,
    trusted: Spec,
    bounds: Bounds,
    name: str,
    r: int | None,
    until: float,
    *,
    exact: bool,
) -> tuple[End, End]:
    """The largest share of wrong and of right answers."""
    i = sketch.classifiers.index(name)
    can = (sketch.patterns[:, i] >= 0) & (
        sketch.allowed.any(axis=1) if r is None else sketch.allowed[:, r]
    )
    answered = int(sketch.n[can].sum())
    now = time.monotonic()
    low = largest(
        sketch,
        trusted,
        bounds,
        Share(i, r, False, answered, len(sketch.labels)),
        deadline=now + (until - now) / 2,
        exact=exact,
    )
    if low.how == "undefined":
        return low, low
    high = largest(
        sketch,
        trusted,
        bounds,
        Share(i, r, True, answered, len(sketch.labels)),
        deadline=until,
        exact=exact,
    )
    return low, high


def quantities(sketch: Sketch) -> dict[tuple[int, int | None], str]:
    """What each quantity is called: by places of classifier and label (None: all labels), in the
    order of results.

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
            found |= {
                (i, r): f"accuracy of {say(c)} on {say(label)}"
                for r, label in enumerate(sketch.labels)
            }
            found[i, None] = f"grade of {say(c)}"
        if len(set(found.values())) == len(found):
            break
    return found


def _wanted(
    names: Mapping[tuple[int, int | None], str], only: str | None
) -> list[tuple[int, int | None]]:
    """Classifiers and labels (None: all labels) in the order of the result."""
    chosen = [pair for pair, name in names.items() if only in {None, name}]
    if not chosen:
        raise ArgumentError(
            f"only must be a quantity such as {', '.join(map(repr, list(names.values())[:3]))}; got {only!r}."
        )
    return chosen


def _result(
    sketch: Sketch,
    bounds: Bounds,
    trusted: Spec,
    ranges: tuple[Range, ...],
    said: dict[str, Any],
    *,
    on_solver: bool,
    reason: str = "",
) -> Ranges:
    outer = [
        name
        for name, e in said.get("ends", {}).items()
        if "outer" in {e.get("low is"), e.get("high is")}
    ]
    undefined = [name for name, e in said.get("ends", {}).items() if "how" in e]
    notes = [_ABSENT]
    if outer:
        notes.append(
            f"outer bounds, perhaps too wide: {', '.join(outer[:6])}{' and others' if len(outer) > 6 else ''}"
        )
    if undefined:
        reason = f"undefined, as no answer key that is possible has such an item: {', '.join(undefined[:6])}"
    return Ranges(
        ranges=ranges,
        method="every answer key that is possible, whole numbers"
        if not outer
        else "every answer key that is possible, outer bounds",
        subject=f"possible accuracies of {len(sketch.classifiers)} classifiers",
        guarantee=promise(sketch, bounds, trusted=str(trusted), on_solver=on_solver),
        counts=described(sketch),
        diagnostics={
            **said,
            "given": trusted.to_list(),
            "prevalence": {k: list(v) for k, v in bounds.items()},
        },
        notes=tuple(notes),
        reason=reason,
    )


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
