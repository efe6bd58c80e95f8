"""What is said about a certificate, and how it is drawn."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from noracle.report import words
from noracle.report.content import Content, ContentTable, guaranteed, signed, table
from noracle.results import Certificate, Kind

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TESTS = {
    "betting": "betting on match minus share of the top label, item by item",
    "bernstein": "empirical Bernstein bound on match minus share of the top label, item by item",
    "t": "Student's t on match minus share of the top label, item by item",
    "binomial": "exact tails of match rate and ceiling, apart",
    "exact": "exact tails of match rate and ceiling, apart",
    "panel": "exact tail of draws without replacement, where the panel agrees",
    "paper-hms": "heuristic margin separation, as published",
    "paper-oms": "optimal margin separation, as published",
}
CEILINGS = {
    "plurality": "share of the most frequent label",
    "free": "envelope of the pairwise agreement v",
    "quadratic": "quadratic in v",
    "paper": "Theorem 1 of the paper",
    "paper-empirical": "sqrt(v): not a bound",
}


def describe(result: Certificate) -> Content:
    """Describe a certificate: the verdict, why not, the figures and what they rest on."""
    limit = f"{words.level(result.confidence)} lower limit {signed(result.low)}"
    verdict = "CERTIFIED" if result.certified else "NOT certified"
    difference = f"difference {signed(result.value)}, {limit}"
    if result.test == "panel":
        limit = f"{words.level(result.confidence)} upper limit {words.number(1 - result.low, 4)}"
        difference = f"unanimous and wrong {words.number(1 - result.value, 4)}, {limit}"
    p, attained = result.diagnostics.get("p_value"), ""
    if not math.isnan(result.attained):
        tail = f" ({words.p_value(p)})" if isinstance(p, float) else ""
        attained = f"confidence {result.attained:.4g}{tail}"
    return guaranteed(
        result,
        (f"certificate: {result.claim}", verdict, difference),
        *(("because", reason) for reason in result.reasons),
        ("attained", attained),
        ("test", TESTS.get(result.test, result.test)),
        ("method", result.method),
        ("evidence", words.evidence(result.counts)),
        tables=(_figures(result),),
    )


def _ceilings(result: Certificate) -> dict[str, float]:
    """The ceiling of the test first, then the others that the votes give."""
    used = str(result.inputs.get("ceiling", "plurality"))
    others = result.diagnostics.get("ceilings") or {}
    found = {used: None} | others | {used: result.diagnostics.get("ceiling")}
    return {name: _or_nan(value) for name, value in found.items()}


_PANEL = {
    "unanimous": "share of the items on which the panel agrees",
    "bound": "unanimous and wrong, at most",
    "error_correlation": "mean correlation of the errors of two members",
    "all_wrong_if_independent": "share on which all would be wrong if each erred for itself",
    "effective_votes": "independent votes that the mean vote of the panel is worth",
}


def _figures(result: Certificate) -> ContentTable:
    if result.test == "panel":
        told = [
            (name.replace("_", " "), result.diagnostics.get(name), _PANEL[name]) for name in _PANEL
        ]
        panel = ((name, words.number(float(v), 4), said) for name, v, said in told if v is not None)
        return table(f"Panel {result.subject}", ("figure", "value", ""), panel, text=(0, -1))
    rows = [("system matches the vote", _or_nan(result.diagnostics.get("match_rate")), "")]
    for name, value in _ceilings(result).items():
        used = ", used by the test" if len(rows) == 1 else ""
        rows.append((f"ceiling {name}", value, CEILINGS.get(name, "") + used))
    rows += [
        ("difference", result.value, ""),
        ("its lower limit", result.low, words.level(result.confidence)),
        ("margin", result.margin, ""),
    ]
    caption = "The system, the annotators' ceilings, and the difference"
    shown = ((name, words.number(value, 4), said) for name, value, said in rows)
    return table(caption, ("figure", "value", ""), shown, text=(0, -1))


def draw(result: Certificate, ax: Axes | None = None) -> Axes:
    """Draw match rate and ceilings, and the line that the room between them must pass.

    The bar begins at ceiling plus lower limit of the difference: the claim is proved where all of
    it lies right of the dashed line.
    """
    from noracle.report.plots import BLUE, GREY, INK, ORANGE, mark, name_rows, new_axes, span

    if result.test == "panel":
        ax = new_axes(ax, 1)
        span(ax, 0, 0.0, 1 - result.low, BLUE if result.certified else ORANGE)
        mark(ax, (1 - result.value, 0), "o", INK, markersize=7)
        ax.axvline(1 - result.margin, color=INK, linestyle="--", linewidth=1)
        name_rows(ax, ["unanimous and wrong"])
        ax.set_xlabel(f"share, bar to the {words.level(result.confidence)} limit; dashed: claim")
        return ax
    ceilings = _ceilings(result)
    used = next(iter(ceilings.values()))
    rate = _or_nan(result.diagnostics.get("match_rate"))
    ax = new_axes(ax, 1 + len(ceilings))
    good = result.certified and result.guarantee.kind > Kind.HEURISTIC
    colour = BLUE if good else ORANGE
    if math.isfinite(rate) and math.isfinite(used):
        start = max(0.0, used + result.low)
        span(ax, 0, start, rate, colour, linestyle="-" if good else "--")
        mark(ax, (start, 0), "|", colour, markersize=9, markeredgewidth=2)
        mark(ax, (rate, 0), "o", colour, markersize=7)
        ax.axvline(used + result.margin, color=INK, linestyle="--", linewidth=1)
    for y, value in enumerate(ceilings.values(), start=1):
        if math.isfinite(value):
            mark(ax, (value, y), "D", INK if y == 1 else GREY, hollow=y > 1)
        else:
            ax.plot([0.5], [y], "x", color=ORANGE)
    name_rows(ax, ["system matches the vote", *(f"ceiling {name}" for name in ceilings)])
    limit = f"{words.level(result.confidence)} limit"
    ax.set_xlabel(f"rate, bar from the {limit}; dashed: ceiling + margin")
    ax.margins(x=0.06)
    return ax


def _or_nan(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) else math.nan
