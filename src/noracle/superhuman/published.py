"""Certificates from a paper's figures alone."""

from __future__ import annotations

import dataclasses
import math
from typing import Literal, get_args

from noracle.errors import require
from noracle.results import Assumption, Certificate, Check, check_confidence, choose
from noracle.superhuman.difference import (
    CEILINGS,
    Apart,
    Ceiling,
    ceiling_for,
    hms_score,
    oms_score,
)
from noracle.superhuman.statement import (
    NOT_A_BOUND,
    ONE_RATING,
    Trained,
    check_margin,
    conclude,
    read_check,
    trained_word,
)

PublishedTest = Literal["exact", "paper-hms", "paper-oms"]
PublishedCeiling = Literal["free", "quadratic", "paper", "paper-empirical"]


def certify_published(
    match_rate: float,
    agreement: float,
    n_items: int,
    n_raters: int,
    *,
    n_classes: int | None = None,
    margin: float = 0.0,
    test: PublishedTest = "exact",
    ceiling: PublishedCeiling | None = None,
    agreement_items: int | None = None,
    digits: int | None = None,
    trained_on_annotators: Trained | bool | None = "unknown",
    check: Check | None = None,
    system: str = "system",
    confidence: float = 0.95,
) -> Certificate:
    """Certify from published figures that a system is more accurate than the average annotation, or
    say why not.

    Parameters
    ----------
    match_rate
        L, the share of items on which the system gives the aggregated label ("accuracy" on the
        benchmark).
    agreement
        v, the mean share of pairs of annotations of an item that agree. Where a paper prints U_e, v
        = U_e².
    n_items
        Items behind ``match_rate``; the number of matches is the whole number nearest to
        match_rate·n_items.
    n_raters
        K, annotations on every item.
    n_classes
        Number of classes, where known: with K = 2, or K = 3 and two classes, agreement is exactly
        binomial.
    margin
        How much better the system must be, in [0, 1).
    test
        ``exact``: binomial tail for the match rate, binomial tail or Chernoff's bound for the
        agreement, and half of the error rate for each. ``paper-hms`` and ``paper-oms``: the
        published scores.
    ceiling
        ``free`` (default of ``exact``), ``quadratic``, ``paper`` (default of the published scores)
        or ``paper-empirical`` (HEURISTIC: what the paper's Table 3 uses is not a bound).
    agreement_items
        Items behind ``agreement``, if others than ``n_items``.
    digits
        Decimals to which both figures were rounded. Then the least favourable figures that round to
        them are used.
    trained_on_annotators, check, confidence
        As in :func:`certify_superhuman`.

    Returns
    -------
    Certificate
        See :func:`certify_superhuman`. The paired test on raw ratings is sharper.

    Notes
    -----
    p = 2·min over c of max(P(Binomial(N, c + margin) ≥ matches), tail of "the ceiling is at least
    c"). The factor 2 pays for choosing c after the fact.

    Assumes what :func:`certify_superhuman` assumes, the same K on every item, and an aggregate
    whose ties were broken without the system.

    References
    ----------
    Xu, Walder and Xu, "Humanly certifying superhuman classifiers" (ICLR 2023), Tables 2 and 3;
    Hoeffding (1963), JASA 58, 13-30.

    Examples
    --------
    >>> wang = certify_published(0.971, 0.939**2, 1821, 3, n_classes=2, trained_on_annotators="no")
    >>> wang.certified, round(wang.attained, 4)
    (True, 0.9999)
    """
    choose("test", test, get_args(PublishedTest))
    name = ceiling_for(test, ceiling, CEILINGS[1:])
    margin, confidence = check_margin(margin), check_confidence(confidence)
    trained, kept = trained_word(trained_on_annotators), read_check(check, system)
    for what, share in (("match_rate", match_rate), ("agreement", agreement)):
        fits = isinstance(share, (int, float)) and 0 <= share <= 1
        rule = f"must be in [0, 1]; got {share!r}. Pass a share, not a percentage."
        require(fits, f"{what} {rule}")
    optional = {"n_classes": (n_classes, 2), "agreement_items": (agreement_items, 1)}
    whole = {"n_items": (n_items, 1), "n_raters": (n_raters, 1), **optional, "digits": (digits, 1)}
    for what, (n, least) in whole.items():
        fits = n is None or (isinstance(n, int) and not isinstance(n, bool) and n >= least)
        require(fits, f"{what} must be a whole number of at least {least}; got {n!r}.")
    half = 0.0 if digits is None else 0.5 * 10.0**-digits
    rate = max(0.0, match_rate - half)
    hits = math.floor(rate * n_items) if half else round(rate * n_items)
    pairs = n_items if agreement_items is None else agreement_items
    mean = min(1.0, agreement + half)
    people = Ceiling(name=name, mean=mean, n=pairs, n_votes=n_raters, n_labels=n_classes)
    apart = Apart(test, hits, rate, n_items, people)

    def p_at(times: float) -> float:
        n, more = round(n_items * times), dataclasses.replace(people, n=round(pairs * times))
        return Apart(test, round(hits * times), rate, n, more).p_value(margin)

    rounded = "the figures are taken as exact; their rounding is not allowed for (pass digits)"
    if half:
        rounded = "the least favourable figures that round to the published ones are used"
    counted = f"{hits:,} matches of {n_items:,} items are taken from the match rate {match_rate:g}"
    by_design = Assumption(name=f"{n_raters} ratings on every item by design")
    return conclude(
        apart.run(margin, 1 - confidence),
        {
            "kind": "published",
            "test": test,
            "margin": margin,
            "confidence": confidence,
            "match_rate": float(match_rate),
            "agreement": float(agreement),
            "n_items": n_items,
            "n_raters": n_raters,
            "n_classes": n_classes,
            "agreement_items": pairs,
            "digits": digits,
            "ceiling": name,
            "trained_on_annotators": trained,
            "check": kept,
        },
        subject=system,
        method=f"published figures, ceiling {name}",
        n_items=n_items,
        match_rate=hits / n_items if test == "exact" else rate,
        ceiling=people.value,
        vacuous=ONE_RATING if n_raters == 1 else "",
        rests_on=(NOT_A_BOUND, by_design) if name == "paper-empirical" else (by_design,),
        counts={"items": n_items},
        diagnostics={"exact_binomial": test == "exact" and people.exact},
        notes=(counted, rounded) if test == "exact" else (rounded,),
        p_at=p_at,
    )


__all__ = ["certify_published", "hms_score", "oms_score"]
