"""What is said about a certificate, and how it is drawn."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from noracle.report import words
from noracle.report.content import Content, ContentTable, alerts, labelled, promise, signed
from noracle.results import Certificate, Kind

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TESTS = {
    "betting": "betting on match minus share of the top label, item by item",
    "bernstein": "empirical Bernstein bound on match minus share of the top label, item by item",
    "t": "Student's t on match minus share of the top label, item by item",
    "binomial": "exact tails of match rate and ceiling, apart",
    "exact": "exact tails of match rate and ceiling, apart",
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


def certificate_content(result: Certificate) -> Content:
    """Describe a certificate: the verdict, why not, the figures and what they rest on."""
    limit = f"{words.percent(result.confidence)} lower limit {signed(result.low)}"
    return Content(
        headline=(
            f"certificate: {result.claim}",
            "CERTIFIED" if result.certified else "NOT certified",
            f"difference {signed(result.value)}, {limit}",
        ),
        alerts=alerts(result.guarantee),
        lines=labelled(
            *(("because", reason) for reason in result.reasons),
            ("attained", _attained(result)),
            ("test", TESTS.get(result.test, result.test)),
            ("method", result.method),
            ("evidence", words.evidence(result.counts)),
            *promise(result.guarantee),
        ),
        tables=(_figures(result),),
        notes=result.notes,
    )


def _attained(result: Certificate) -> str:
    p = result.diagnostics.get("p_value")
    said = f"confidence {result.attained:.4g}" if not math.isnan(result.attained) else ""
    return f"{said} ({words.p_value(p)})" if said and isinstance(p, float) else said


def _ceilings(result: Certificate) -> dict[str, float]:
    """The ceiling of the test first, then the others that the votes give."""
    used = str(result.inputs.get("ceiling", "plurality"))
    found = {used: _or_nan(result.diagnostics.get("ceiling"))}
    return {
        **found,
        **{
            k: _or_nan(v)
            for k, v in (result.diagnostics.get("ceilings") or {}).items()
            if k != used
        },
    }


def _figures(result: Certificate) -> ContentTable:
    rows = [("system matches the vote", _or_nan(result.diagnostics.get("match_rate")), "")]
    for i, (name, value) in enumerate(_ceilings(result).items()):
        rows.append(
            (
                f"ceiling {name}",
                value,
                CEILINGS.get(name, "") + (", used by the test" if i == 0 else ""),
            )
        )
    rows += [
        ("difference", result.value, ""),
        ("its lower limit", result.low, words.percent(result.confidence)),
        ("margin", result.margin, ""),
    ]
    return ContentTable(
        caption="The system, the annotators' ceilings, and the difference",
        header=("figure", "value", ""),
        rows=tuple((name, words.number(value, 4), said) for name, value, said in rows),
        numeric=(False, True, False),
    )


def certificate_plot(result: Certificate, ax: Axes | None = None) -> Axes:
    """Draw the match rate with its room above the ceiling, the ceilings, and the line that the room
    must pass.

    The bar begins at ceiling plus lower limit of the difference: the claim is proved where all of
    it lies right of the dashed line.
    """
    from noracle.report.plots import BLUE, GREY, INK, ORANGE, name_rows, new_axes

    ceilings = _ceilings(result)
    used = next(iter(ceilings.values()))
    rate = _or_nan(result.diagnostics.get("match_rate"))
    ax = new_axes(ax, 1 + len(ceilings))
    good = result.certified and result.guarantee.kind > Kind.HEURISTIC
    if math.isfinite(rate) and math.isfinite(used):
        start = max(0.0, used + result.low)
        ax.plot(
            [start, rate],
            [0, 0],
            color=BLUE if good else ORANGE,
            linewidth=2.4,
            linestyle="-" if good else "--",
        )
        ax.plot([start], [0], "|", color=BLUE if good else ORANGE, markersize=9, markeredgewidth=2)
        ax.plot([rate], [0], "o", color=BLUE if good else ORANGE, markersize=7)
        ax.axvline(used + result.margin, color=INK, linestyle="--", linewidth=1)
    for y, value in enumerate(ceilings.values(), start=1):
        if math.isfinite(value):
            ax.plot(
                [value],
                [y],
                "D",
                color=INK if y == 1 else GREY,
                markersize=6,
                markerfacecolor=INK if y == 1 else "white",
            )
        else:
            ax.plot([0.5], [y], "x", color=ORANGE)
    name_rows(ax, ["system matches the vote", *(f"ceiling {name}" for name in ceilings)])
    ax.set_xlabel(
        f"rate, bar from the {words.percent(result.confidence)} limit; dashed: ceiling + margin"
    )
    ax.margins(x=0.06)
    return ax


def _or_nan(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) else math.nan
