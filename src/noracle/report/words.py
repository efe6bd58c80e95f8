"""Numbers and plain words, said in the same way everywhere."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from noracle.results import Assumption, Guarantee, Kind, Side

METHODS = {
    "ml": "maximum likelihood over all labels",
    "ivw": "inverse-variance weighting of ordinary and complementary labels",
    "weighted": "fixed weighting of ordinary and complementary labels",
    "complementary": "complementary labels",
    "ordinary": "ordinary labels",
    "scores": "mean of unbiased scores",
    "scel": "surrogate loss of ruled-out labels",
    "post-stratified": "people's grades, divided by the judge's verdict",
    "ppi": "mean of the judge's guesses, corrected by people's grades",
    "multippi": "best weights over all raters",
    "classical": "mean of the labels alone",
    "plurality": "share of the most frequent label (no assumption about annotators)",
    "free": "largest accuracy that the mean agreement allows (no assumption about annotators)",
    "quadratic": "from the mean agreement, by a quadratic (no assumption about annotators)",
    "paper": "Theorem 1 of the paper, from the mean agreement",
    "paper-empirical": "square root of the mean agreement, as the paper uses it (not a bound)",
    "pairwise": "from the agreement of every pair, if no pair agrees less than independent errors would",
}
MEASURES = {"scel": "surrogate loss"}

INTERVALS = {
    "exact": "exact",
    "hypergeometric": "exact for a finite number of items (hypergeometric)",
    "two parts": "exact for two parts",
    "parts": "one bound for the sum over parts (Chernoff)",
    "clusters": "betting on clusters, for this number of them",
    "anytime": "likelihood-mixture confidence sequence",
    "betting": "betting confidence sequence",
    "fixed-n": "betting with stakes fixed for this number of labels",
    "profile": "profile likelihood",
    "wald": "Wald (normal approximation)",
    "hoeffding": "Hoeffding",
    "bernstein": "empirical Bernstein",
    "theorem2": "Theorem 2 (corrected)",
    "proposition3": "Proposition 3 (corrected)",
    "theorem4": "Theorem 4 (inverted over the accuracy)",
    "crossfit-t": "cross-fitted, Student's t",
    "jackknife-t": "jackknife, Student's t",
    "paper": "as published (in-sample residuals, normal)",
    "classical": "Student's t",
}
KINDS = {
    Kind.LOGICAL: "It follows from the counts for every possible answer key. No probability is involved.",
    Kind.FINITE_SAMPLE: "If the assumptions are true, the interval contains the true value at least as often as the confidence "
    "says, however few the labels.",
    Kind.ASYMPTOTIC: "If the assumptions are true, the interval contains the true value about as often as the confidence "
    "says once there are many labels. With few labels, or close to 0 or 1, it can fail far more often.",
    Kind.HEURISTIC: "Nothing is promised. Read the number as a hint.",
}
STATUSES = {
    "by-design": "enforced by how the evidence was made or computed",
    "checked": "a check looked and found nothing against it",
    "assumed": "nothing in the evidence was used to check it",
    "failed": "a check found evidence against it",
}
_VACUOUS = "(vacuous: it excludes nothing)"
# What a counts summary calls things, in the order in which a card tells them.
_EXCLUDED = {
    "without_answer": "{n} without an answer (counted as wrong)",
    "not_the_same_every_time": "{n} not answered the same every time (counted as wrong)",
    "unsure": "{n} unsure",
}
_TOLD = {
    *("items", "labelled", "labelled_without_answer", "ordinary", "ordinary_right", "graded"),
    *("graded_right", "complementary", "complementary_avoided", "states", "unused", *_EXCLUDED),
}


def number(value: float, digits: int = 3) -> str:
    """Write a number with fixed digits; NaN is ``undefined``."""
    if math.isnan(value):
        return "undefined"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    text = f"{value:.{digits}f}"
    return text.lstrip("-") if float(text) == 0 else text


def digits_for(width: float) -> int:
    """How many decimals show an interval of this width with at least two figures."""
    if not math.isfinite(width) or width <= 0:
        return 3
    return min(8, max(3, 1 - math.floor(math.log10(width) + 1e-9)))


def count(n: float) -> str:
    """Write a count with thousands separated."""
    return f"{n:,}" if isinstance(n, int) else f"{n:,.6g}"


def bought(buy: Mapping[str, int]) -> str:
    """Write what a plan buys."""
    return " + ".join(f"{count(n)} {name}" for name, n in buy.items()) or "nothing"


def p_value(p: float) -> str:
    """Write a p-value."""
    return "p undefined" if math.isnan(p) else f"p = {p:.2g}"


def percent(share: float, form: str = "") -> str:
    """Write a share in percent, in this form or by default with the decimals that it has; a share
    that is no number is a dash.
    """
    if not math.isfinite(share):
        return "–"
    return f"{100 * share:{form}} %" if form else f"{round(100 * share, 10):g} %"


def level(confidence: float) -> str:
    """Write a confidence in percent, rounded down to two decimals so that nothing more is claimed
    than is true.
    """
    return percent(math.floor(1e4 * confidence + 1e-6) / 1e4)


def interval(low: float, high: float, digits: int = 3) -> str:
    """Write an interval; the whole unit interval is named as saying nothing."""
    if math.isnan(low) or math.isnan(high):
        return "undefined"
    if low <= 0 and high >= 1:
        return f"[0, 1] {_VACUOUS}"
    return f"[{number(low, digits)}, {number(high, digits)}]"


def bound(
    low: float,
    high: float,
    confidence: float,
    side: Side = "two-sided",
    digits: int = 3,
    *,
    unit: bool = True,
) -> str:
    """Write what is promised: an interval or a bound on one side; ``unit`` says that all values lie
    between 0 and 1.
    """
    limit, vacuous = (low, low <= 0) if side == "lower" else (high, high >= 1)
    if side != "two-sided":
        nothing = f" {_VACUOUS}" if unit and vacuous else ""
        said = f"{side} bound {number(limit, digits)}{nothing}"
    elif unit or math.isnan(low) or math.isnan(high):
        said = f"interval {interval(low, high, digits)}"
    else:
        said = f"interval [{number(low, digits)}, {number(high, digits)}]"
    return f"{level(confidence)} {said}"


def how(method: str, interval_name: str = "") -> str:
    """Write the method and the interval in words; names that are not known are shown as they are."""
    parts = [METHODS.get(method, method), INTERVALS.get(interval_name, interval_name)]
    if interval_name == "exact" and method in ("ordinary", "complementary"):
        parts[1] = "exact binomial"
    if interval_name == "anytime" and method == "multippi":
        parts[1] = "asymptotic confidence sequence"
    return ", ".join(p for p in parts if p)


def kind(guarantee: Guarantee) -> str:
    """Write the kind of a guarantee."""
    anytime = guarantee.anytime and guarantee.kind > Kind.HEURISTIC
    return guarantee.kind.label + (", valid at every look (anytime)" if anytime else "")


def rests_on(guarantee: Guarantee) -> str:
    """Write the assumptions in one line."""
    return " · ".join(str(a) for a in guarantee.assumptions) or "nothing beyond the counts"


def failed(guarantee: Guarantee) -> list[Assumption]:
    """Return the assumptions that a check found evidence against."""
    return [a for a in guarantee.assumptions if a.status == "failed"]


def excluded(counts: Mapping[str, Any]) -> list[str]:
    """Say what evidence is no ordinary part of the number: silent, unsure, unused."""
    lines = {
        key: words.format(n=count(counts[key]))
        for key, words in _EXCLUDED.items()
        if counts.get(key)
    }
    states, unused = counts.get("states"), counts.get("unused")
    if "without_answer" in lines and isinstance(states, Mapping) and "answers" not in counts:
        # Why answers are missing is known, and speaks of the same items.
        why = ", ".join(f"{count(n)} {state}" for state, n in states.items())
        told = lines["without_answer"].replace(" (counted as wrong)", f": {why}; counted as wrong")
        lines["without_answer"] = told
    left = unused.items() if isinstance(unused, Mapping) else ()
    return [
        *lines.values(),
        *(f"{count(n)} {key.replace('_', ' ')} (not used)" for key, n in left if n),
    ]


def evidence(counts: Mapping[str, Any]) -> str:
    """Write the evidence in one line, from counts or any mapping of names to numbers.

    Examples
    --------
    >>> evidence({"items": 500, "complementary": 497, "complementary_avoided": 488, "without_answer": 3})
    '500 items, 497 with a ruled-out class (9 answers ruled out), 3 without an answer (counted as wrong)'
    """
    parts = []
    if "items" in counts:
        parts.append(f"{count(counts['items'])} item{'' if counts['items'] == 1 else 's'}")
    for key, words in (("ordinary", "with an ordinary label"), ("graded", "graded")):
        if counts.get(key):
            right = counts.get(f"{key}_right")
            parts.append(f"{count(counts[key])} {words}" + _bracketed(right, "right"))
    if counts.get("complementary"):
        avoided, n = counts.get("complementary_avoided"), counts["complementary"]
        hits = None if avoided is None else n - avoided
        told = _bracketed(hits, f"answer{'' if hits == 1 else 's'} ruled out")
        parts.append(f"{count(n)} with a ruled-out class{told}")
    parts += [
        f"{key.replace('_', ' ')} {scalar(v)}"
        for key, v in counts.items()
        if key not in _TOLD and isinstance(v, (int, float, str)) and v != ""
    ]
    if "ordinary" in counts and not counts.get("labelled", 1):
        parts.append("no labels")
    return ", ".join([*parts, *excluded(counts)])


def _bracketed(n: float | None, words: str) -> str:
    return "" if n is None else f" ({count(n)} {words})"


def scalar(value: Any) -> str:
    """Write one value of a mapping: numbers short, mappings and lists in one line."""
    if value is None:
        return "undefined"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return count(value)
    if isinstance(value, float):
        if math.isnan(value):
            return "undefined"
        if 1000 <= abs(value) < 1e15:
            return f"{value:,.0f}" if value == round(value) else f"{value:,.2f}"
        return f"{value:.4g}"
    if isinstance(value, Mapping):
        return pairs(value)
    if isinstance(value, (list, tuple)):
        return ", ".join(scalar(v) for v in value)
    return str(value)


def pairs(values: Mapping[str, Any]) -> str:
    """Write a mapping in one line, ``name value`` each; what is not given is left out."""
    given = {str(k).replace("_", " "): v for k, v in values.items() if v is not None and v != {}}
    return ", ".join(
        f"{k} ({pairs(v)})" if isinstance(v, Mapping) else f"{k} {scalar(v)}"
        for k, v in given.items()
    )


def listed(names: Iterable[str], most: int = 6) -> str:
    """Write quoted names, the first few of many."""
    names = list(names)
    shown = ", ".join(repr(n) for n in names[:most])
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")
