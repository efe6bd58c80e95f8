"""Do the labels look as the assumptions say?"""

from __future__ import annotations

import dataclasses
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from scipy.special import bdtr, bdtrc, chdtrc, gammaln, ndtr

from noracle.accuracy.parts import unclipped
from noracle.accuracy.strata import Stratum, binomial_cells, strata_of
from noracle.bounds import linear
from noracle.bounds.linear import Cell
from noracle.counts import AccuracyCounts, JudgementCounts, count_accuracy, count_judgements
from noracle.counts.label import Tally
from noracle.counts.tallies import Question
from noracle.errors import ArgumentError
from noracle.evidence import Evidence
from noracle.results import Check

_SIMULATIONS = 19_999


def _judgements(evidence: Evidence | JudgementCounts, *, by_time: bool = False) -> JudgementCounts:
    """What was asked. Beside recorded propensities, judgements without one that never say no are open questions, and left out."""
    counts = evidence if isinstance(evidence, JudgementCounts) else count_judgements(evidence, by_time=by_time)
    asked = {q: n for q, n in counts.questions.items() if q.propensity is not None}
    others_say_no = any(q.verdict == "no" for q in counts.questions if q.propensity is None)
    return dataclasses.replace(counts, questions=asked) if asked and not others_say_no else counts


def _is_uniform(q: Question) -> bool:
    return q.propensity is None or abs(q.propensity * q.n_classes - 1) <= 1e-9


def is_question(counts: JudgementCounts, protocol: Literal["question", "sets"] | None) -> bool:
    """Whether how often classes were asked can be held against the design.

    Recorded propensities always can. Without them a random question gives both verdicts sooner or later; labels of one kind only were
    collected in another way.
    """
    if any(q.propensity is not None for q in counts.questions):
        return True
    if protocol is not None:
        return protocol == "question"
    return {"yes", "no"} <= {q.verdict for q in counts.questions}


def _two_sided(at_most: float, at_least: float) -> float:
    return min(1.0, 2 * min(at_most, at_least))


def _z_test(values: Mapping[float, int], mean: float) -> tuple[float, float, int]:
    """Two-sided normal p-value of a sample mean; NaN below 30 values or without spread."""
    n = sum(values.values())
    average = sum(v * k for v, k in values.items()) / n if n else math.nan
    variance = sum(k * (v - average) ** 2 for v, k in values.items()) / (n - 1) if n > 1 else 0.0
    if n < 30 or variance <= 0:
        return math.nan, average, n
    z = (average - mean) / math.sqrt(variance / n)
    return float(2 * ndtr(-abs(z))), average, n


# ------------------------------------------------------------------------------------------------------------------ routing


def check_routing(evidence: Evidence | JudgementCounts, *, by: str = "all", seed: int = 0) -> Check:
    """Were classes asked about as often as the design says?

    Uniform questions: chi-square of the asked classes against n/K, by number of classes (simulated p where an expected count is below 5).
    Recorded propensities: the mean of 1/π of the asked class is K under any right design (normal p). The parts are joined by Bonferroni.
    Where some judgements have a propensity, those without one that never say no were open questions (say the class) and are left out.

    Parameters
    ----------
    by
        ``all``, or ``rater`` to look at each rater on its own (meaningful where raters judge several classes, not where each is
        the expert of one), or ``time`` to look at ten periods of equal length.

    Notes
    -----
    X² = Σ_k (n_k - n/K)²/(n/K), with K - 1 degrees of freedom. With recorded propensities E[1/π] = Σ_k π_k·(1/π_k) = K.

    Assumes that questions were drawn independently of each other, and that every class could be asked. It looks at what was asked and not
    at what was answered: a pass says nothing about verdicts.

    References
    ----------
    Pearson (1900), Phil. Mag. 50, 157-175; Horvitz and Thompson (1952), JASA 47, 663-685.

    Examples
    --------
    >>> from noracle.counts import JudgementCounts, Question
    >>> asked = JudgementCounts(questions={Question(4, k, "no"): 25 + k for k in range(4)})
    >>> check_routing(asked).passed
    True
    """
    if by not in ("all", "rater", "time"):
        raise ArgumentError(f"by must be 'all', 'rater' or 'time'; got {by!r}.")
    counts = _judgements(evidence, by_time=by == "time")
    rng = np.random.default_rng(seed)
    groups: dict[str, dict[Question, int]] = defaultdict(dict)
    for q, n in counts.questions.items():
        groups[q.rater if by == "rater" else q.period if by == "time" else "all"][q] = n
    parts = [part for name, questions in sorted(groups.items()) for part in _routing_parts(name, questions, rng)]
    p_values = [p["p_value"] for p in parts if not math.isnan(p["p_value"])]
    p_value = min(1.0, min(p_values) * len(p_values)) if p_values else math.nan
    n = sum(counts.questions.values())
    worst = min((p for p in parts if not math.isnan(p["p_value"])), key=lambda p: p["p_value"], default=None)
    if worst is None:
        finding = "too few questions to tell"
    elif p_value < 1e-3:
        finding = f"classes were not asked as recorded: {worst['what']} in {worst['group']}"
    else:
        finding = f"{n} questions agree with the recorded design"
    return Check(
        name="routing",
        assumption="recorded propensities" if any(not _is_uniform(q) for q in counts.questions) else "uniform routing",
        p_value=p_value,
        statistic=worst["statistic"] if worst else math.nan,
        finding=finding,
        method="chi-square; mean of inverse propensities",
        parts=tuple(parts),
        counts={"questions": n},
    )


def _routing_parts(name: str, questions: Mapping[Question, int], rng: np.random.Generator) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = []
    uniform: dict[int, dict[Any, int]] = defaultdict(lambda: defaultdict(int))
    inverse: dict[int, dict[float, int]] = defaultdict(lambda: defaultdict(int))
    for q, n in sorted(questions.items(), key=str):  # engines give rows in any order; ties and sums must not depend on it
        if _is_uniform(q):
            uniform[q.n_classes][q.asked] += n
        else:
            inverse[q.n_classes][1 / float(q.propensity or 1)] += n
    for k, asked in sorted(uniform.items()):
        observed = np.array([*asked.values(), *([0] * (k - len(asked)))], dtype=float)
        expected = observed.sum() / k
        statistic = float(((observed - expected) ** 2).sum() / expected)
        if expected >= 5:
            p = float(chdtrc(k - 1, statistic))
        else:
            draws = rng.multinomial(int(observed.sum()), np.full(k, 1 / k), size=_SIMULATIONS)
            simulated = ((draws - expected) ** 2).sum(axis=1) / expected
            p = float((1 + np.sum(simulated >= statistic - 1e-9)) / (_SIMULATIONS + 1))
        most = max(asked, key=lambda c: asked[c])
        parts.append(
            {
                "group": name,
                "n_classes": k,
                "n": int(observed.sum()),
                "statistic": statistic,
                "p_value": p,
                "what": f"class {most} asked {asked[most]} times, expected {expected:.1f}",
                "asked": {str(c): v for c, v in sorted(asked.items(), key=str)},
            }
        )
    for k, values in sorted(inverse.items()):
        p, average, n = _z_test(values, float(k))
        parts.append(
            {
                "group": name,
                "n_classes": k,
                "n": n,
                "statistic": average,
                "p_value": p,
                "what": f"mean inverse propensity {average:.3f}, expected {k}",
            }
        )
    return parts


# ----------------------------------------------------------------------------------------------------------------- yes-rate


def check_yes_rate(evidence: Evidence | JudgementCounts) -> Check:
    """Is yes said as often as one true class per item implies?

    One uniformly chosen class per item: P(yes) = 1/K (exact binomial; normal beyond 20,000 questions of mixed K). Recorded propensities:
    the
    mean of 1{yes}/π is 1 (normal). ``unsure`` is left out. A right yes-rate does not prove right verdicts: false yes and false no can
    cancel.

    Not for labels that were collected as two separate sets of fixed size.

    Notes
    -----
    Assumes one true class an item, independent items, and questions that were drawn without knowledge of the truth.

    References
    ----------
    Clopper and Pearson (1934), Biometrika 26, 404-413; Horvitz and Thompson (1952), JASA 47, 663-685.

    Examples
    --------
    >>> from noracle.counts import JudgementCounts, Question
    >>> said = JudgementCounts(questions={Question(4, 0, "yes"): 90, Question(4, 0, "no"): 110})
    >>> check_yes_rate(said).passed
    False
    """
    counts = _judgements(evidence)
    said = {q: n for q, n in counts.questions.items() if q.verdict != "unsure"}
    by_k: dict[int, list[int]] = defaultdict(lambda: [0, 0])
    weighted: dict[float, int] = defaultdict(int)
    for q, n in said.items():
        if _is_uniform(q):
            by_k[q.n_classes][0] += n
            by_k[q.n_classes][1] += n if q.verdict == "yes" else 0
        else:
            weighted[1 / float(q.propensity or 1) if q.verdict == "yes" else 0.0] += n
    parts: list[dict[str, Any]] = []
    if by_k and sum(y for _, y in by_k.values()):
        n, yes = (sum(v[i] for v in by_k.values()) for i in (0, 1))
        expected = sum(v[0] / k for k, v in by_k.items())
        p = sum_of_binomials_p([(v[0], 1 / k) for k, v in by_k.items()], yes)
        parts.append(
            {"what": f"{yes} yes of {n}, expected {expected:.1f}", "n": n, "statistic": yes / n, "p_value": p, "expected": expected / n}
        )
    if weighted:
        p, average, n = _z_test(weighted, 1.0)
        parts.append(
            {"what": f"mean of yes over propensity {average:.3f}, expected 1", "n": n, "statistic": average, "p_value": p, "expected": 1.0}
        )
    p_values = [x["p_value"] for x in parts if not math.isnan(x["p_value"])]
    p_value = min(1.0, min(p_values) * len(p_values)) if p_values else math.nan
    finding = "; ".join(x["what"] for x in parts) if parts else "not applicable: there is no yes among the verdicts"
    return Check(
        name="yes rate",
        assumption="right verdicts",
        refutes_only=True,
        p_value=p_value,
        statistic=parts[0]["statistic"] if parts else math.nan,
        finding=finding,
        method="exact binomial" if by_k else "normal",
        parts=tuple(parts),
        counts={"questions": sum(said.values())},
    )


def sum_of_binomials_p(parts: Sequence[tuple[int, float]], observed: int) -> float:
    """Two-sided p-value of a sum of independent binomials: exact by convolution up to 20,000 trials or for one part, else normal.

    Examples
    --------
    >>> round(sum_of_binomials_p([(10, 0.5)], 9), 4)
    0.0215
    """
    parts = [(n, p) for n, p in parts if n]
    total = sum(n for n, _ in parts)
    if not total:
        return math.nan
    if len(parts) > 1 and total > 20_000:
        variance = sum(n * p * (1 - p) for n, p in parts)
        z = (abs(observed - sum(n * p for n, p in parts)) - 0.5) / math.sqrt(variance)
        return float(min(1.0, 2 * ndtr(-max(z, 0.0))))
    if len(parts) == 1:
        (n, p), k = parts[0], observed
        return _two_sided(float(bdtr(k, n, p)), float(bdtrc(k - 1, n, p)) if k else 1.0)
    pmf = np.ones(1)
    for n, p in parts:
        s = np.arange(n + 1.0)
        one = (
            np.exp(gammaln(n + 1.0) - gammaln(s + 1) - gammaln(n - s + 1) + s * math.log(p) + (n - s) * math.log1p(-p))
            if 0 < p < 1
            else (s == n * p).astype(float)
        )
        pmf = np.convolve(pmf, one) if len(pmf) > 1 else one
    return _two_sided(float(pmf[: observed + 1].sum()), float(pmf[observed:].sum()))


# ------------------------------------------------------------------------------------------------------------------ overlap


def check_overlap(evidence: Evidence | AccuracyCounts, *, system: str | None = None) -> Check:
    """Do ordinary and complementary labels tell the same story about a system?

    On items that have both: of the wrong answers exactly a share m/(K-1) should be among the m ruled-out classes (exact binomial), and
    no right answer may be. Without such items the two estimates are compared (normal, for fixed numbers of labels).

    Notes
    -----
    P(ruled out | wrong answer) = m/(K - 1) and P(ruled out | right answer) = 0.

    Assumes independent items, and that the answers were given without seeing the labels. What it can refute is uniform routing and right
    verdicts together; it does not tell which of them fails.

    References
    ----------
    Yin, Ishida and Sugiyama, "Towards scalable oversight via partitioned human supervision" (labels drawn uniformly among the wrong
    classes); Clopper and Pearson (1934), Biometrika 26, 404-413 (exact binomial).

    Examples
    --------
    >>> from noracle import AccuracyCounts, check_overlap
    >>> counts = AccuracyCounts.from_counts(n_classes=4, ordinary=(300, 210), complementary=(600, 540))
    >>> check_overlap(counts).passed
    True
    """
    if not isinstance(evidence, (Evidence, AccuracyCounts)):
        raise ArgumentError(f"evidence must be Evidence or AccuracyCounts; got {type(evidence).__name__}. Use Evidence.from_tables(…).")
    counts = evidence if isinstance(evidence, AccuracyCounts) else count_accuracy(evidence, systems=None if system is None else [system])
    names = counts.systems if system is None else (system,)
    parts = [_overlap_part(counts.of(name), name) for name in names]
    p_values = [p["p_value"] for p in parts if not math.isnan(p["p_value"])]
    p_value = min(1.0, min(p_values) * len(p_values)) if p_values else math.nan
    worst = min((p for p in parts if not math.isnan(p["p_value"])), key=lambda p: p["p_value"], default=None)
    return Check(
        name="overlap",
        assumption="uniform routing",
        p_value=p_value,
        statistic=worst["statistic"] if worst else math.nan,
        finding=worst["what"] if worst else "not applicable: needs ordinary and complementary labels",
        method="exact binomial on common items, else normal",
        parts=tuple(parts),
        counts={"systems": len(names)},
    )


def _overlap_part(counts: AccuracyCounts, name: str) -> dict[str, Any]:
    both = {t: n for t, n in counts.tallies.items() if t.answered and t.verdict == "yes" and t.n_ruled_out and not t.hit}
    if both:
        trials: dict[float, int] = defaultdict(int)
        for t, n in both.items():
            trials[t.n_ruled_out / (t.n_classes - 1)] += n
        hits = sum(n for t, n in both.items() if t.ruled_hit)
        total = sum(trials.values())
        p = sum_of_binomials_p([(n, min(share, 1.0)) for share, n in trials.items()], hits)
        expected = sum(n * share for share, n in trials.items())
        return {
            "system": name,
            "n": total,
            "statistic": hits / total,
            "p_value": p,
            "what": f"{name}: {hits} of {total} wrong answers ruled out, expected {expected:.1f}",
        }
    difference, variance, n = 0.0, 0.0, 0
    for stratum in strata_of(counts):
        ordinary, other = (linear.merge(_uniform_cells(stratum, verdict)) for verdict in ("yes", "no"))
        if not ordinary or len(other) != 1:
            continue
        o, c = ordinary[0], other[0]
        rate = linear.maximum_likelihood((o, c))
        weight = o.n * c.n / (o.n + c.n)
        p_o, p_c = o.p(rate), c.p(rate)
        difference += weight * (unclipped(o) - unclipped(c))
        variance += weight**2 * (p_o * (1 - p_o) / o.n + p_c * (1 - p_c) / (c.b**2 * c.n))
        n += o.n + c.n
    if n < 30 or variance <= 0:
        return {"system": name, "n": n, "statistic": math.nan, "p_value": math.nan, "what": f"{name}: too few labels of both kinds"}
    z = difference / math.sqrt(variance)
    return {
        "system": name,
        "n": n,
        "statistic": z,
        "p_value": float(2 * ndtr(-abs(z))),
        "what": f"{name}: ordinary and complementary estimates differ by {z:.1f} standard errors",
    }


def _uniform_cells(stratum: Stratum, verdict: str) -> list[Cell]:
    tallies: dict[Tally, int] = {t: n for t, n in stratum.tallies.items() if t.verdict == verdict and t.design == "uniform"}
    return list(
        binomial_cells(
            Stratum(
                name=stratum.name,
                n_classes=stratum.n_classes,
                weight=stratum.weight,
                items=stratum.items,
                answered=stratum.answered,
                tallies=tallies,
            )
        )
    )
