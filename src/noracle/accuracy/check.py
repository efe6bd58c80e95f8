"""Do the labels look as the assumptions say?"""

from __future__ import annotations

import dataclasses
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import narwhals as nw
import numpy as np

from noracle.accuracy.clusters import check_clusters
from noracle.accuracy.score import Stratum, binomial_cells, strata_of, unclipped
from noracle.bounds import binomial as linear
from noracle.bounds.betting import Score, log_wealth
from noracle.bounds.binomial import BinomialCell, bdtr, bdtrc, chdtrc, gammaln, ndtr
from noracle.counts import AccuracyCounts, JudgementCounts, count_accuracy, count_judgements
from noracle.counts.count import count_first_verdicts, labels_of, met_once
from noracle.counts.tally import Question, Tally
from noracle.errors import ArgumentError
from noracle.evidence import Evidence
from noracle.evidence.frames import fetch
from noracle.evidence.labels import propensities_of, recorded_grades
from noracle.evidence.tables import VERDICTS
from noracle.results import Check

Protocol = Literal["question", "sets"]
_SIMULATIONS = 19_999
_MOST_SIMULATED_CELLS = 50
_MOST_EXACT = 20_000
_UNIFORM_WITHIN = 1e-9


def _judgements(evidence: Evidence | JudgementCounts, *, by_time: bool = False) -> JudgementCounts:
    """What was asked. Beside recorded propensities, judgements without one that never say no are
    open questions, and left out.
    """
    counts = (
        evidence
        if isinstance(evidence, JudgementCounts)
        else count_judgements(evidence, by_time=by_time)
    )
    asked = {q: n for q, n in counts.questions.items() if q.propensity is not None}
    others_say_no = any(q.verdict == "no" for q in counts.questions if q.propensity is None)
    return dataclasses.replace(counts, questions=asked) if asked and not others_say_no else counts


def _recorded(questions: Iterable[Question]) -> frozenset[Question]:
    """The questions of a design that is not uniform: all that have a propensity, if one of them is
    not 1/K; else none.

    Whether a design is uniform is a property of the whole table: beside others, a propensity of 1/K
    may depend on the answers.
    """
    told = [q for q in questions if q.propensity is not None]
    return frozenset(
        told
        if any(abs(float(q.propensity or 0) * q.n_classes - 1) > _UNIFORM_WITHIN for q in told)
        else ()
    )


def is_question(counts: JudgementCounts, protocol: Protocol | None) -> bool:
    """Whether how often classes were asked can be held against the design.

    Recorded propensities always can. Without them a random question gives both verdicts sooner or
    later; labels of one kind only were collected in another way.
    """
    if any(q.propensity is not None for q in counts.questions):
        return True
    if protocol is not None:
        return protocol == "question"
    return {"yes", "no"} <= {q.verdict for q in counts.questions}


def _two_sided(at_most: float, at_least: float) -> float:
    return min(1.0, 2 * min(at_most, at_least))


def _bets_p(
    up: Mapping[float, int], down: Mapping[float, int], mean: float, low: float, high: float | None
) -> float:
    """p-value of "the mean is ``mean``" for values in [low, high]: bets on a larger mean of ``up``,
    on a smaller one of ``down``.

    The wealth of fixed bets has expectation of at most 1 at every n, however skewed the values are,
    so that 2/wealth is a p-value. Without ``high`` only a larger mean is looked for.
    """
    wealth = [log_wealth([Score(v, low, math.inf, n) for v, n in up.items()], mean)]
    if high is not None and high > mean:
        wealth.append(log_wealth([Score(-v, -high, -low, n) for v, n in down.items()], -mean))
    return min(1.0, len(wealth) * math.exp(-max(0.0, *wealth, 0.0)))


def highest_inverse(questions: Iterable[Question]) -> float | None:
    """One over the smallest probability with which a class may have been asked; None where no
    propensity was recorded.

    A class asked with probability π leaves 1 - π to K - 1 others, so that one of them has at most
    (1 - π)/(K - 1), asked or not.
    """
    least = [
        min(q.propensity, (1 - q.propensity) / (q.n_classes - 1) or 1.0)
        for q in questions
        if q.propensity
    ]
    return 1 / min(least) if least else None


# ------------------------------------------------------------------------------------------------------------------
# routing


def check_routing(evidence: Evidence | JudgementCounts, *, by: str = "all", seed: int = 0) -> Check:
    """Were classes asked about as often as the design says?

    Uniform questions: chi-square of the asked classes against n/K, by number of classes (simulated
    p where an expected count is below 5). Recorded propensities: the mean of 1/π of the asked class
    is K under any right design (by fixed bets, which hold for skewed values at every n). The parts
    are joined by Bonferroni. Where some judgements have a propensity, those without one that never
    say no were open questions (say the class) and are left out.

    Parameters
    ----------
    by
        ``all``, or ``rater`` to look at each rater on its own (meaningful where raters judge
        several classes, not where each is the expert of one), or ``time`` to look at ten periods of
        equal length.

    Notes
    -----
    X² = Σ_k (n_k - n/K)²/(n/K), with K - 1 degrees of freedom. With recorded propensities E[1/π] =
    Σ_k π_k·(1/π_k) = K.

    Assumes that questions were drawn independently of each other, and that every class could be
    asked. It looks at what was asked and not at what was answered: a pass says nothing about
    verdicts.

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
    aimed = _recorded(counts.questions)
    parts = [
        part
        for name, questions in sorted(groups.items())
        for part in _routing_parts(name, questions, aimed, rng)
    ]
    p_values = [p["p_value"] for p in parts if not math.isnan(p["p_value"])]
    p_value = min(1.0, min(p_values) * len(p_values)) if p_values else math.nan
    n = sum(counts.questions.values())
    worst = min(
        (p for p in parts if not math.isnan(p["p_value"])), key=lambda p: p["p_value"], default=None
    )
    if worst is None:
        finding = "too few questions to tell"
    elif p_value < 1e-3:
        finding = f"classes were not asked as recorded: {worst['what']} in {worst['group']}"
    else:
        finding = f"{n} questions agree with the recorded design"
    return Check(
        name="routing",
        assumption="recorded propensities" if aimed else "uniform routing",
        p_value=p_value,
        statistic=worst["statistic"] if worst else math.nan,
        finding=finding,
        method="chi-square; bets on the mean of inverse propensities",
        parts=tuple(parts),
        counts={"questions": n},
    )


def _routing_parts(
    name: str,
    questions: Mapping[Question, int],
    aimed: frozenset[Question],
    rng: np.random.Generator,
) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = []
    uniform: dict[int, dict[Any, int]] = defaultdict(lambda: defaultdict(int))
    inverse: dict[int, dict[float, int]] = defaultdict(lambda: defaultdict(int))
    for q, n in sorted(
        questions.items(), key=str
    ):  # engines give rows in any order; ties and sums must not depend on it
        if q in aimed:
            inverse[q.n_classes][1 / float(q.propensity or 1)] += n
        else:
            uniform[q.n_classes][q.asked] += n
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
        n = sum(values.values())
        average = sum(v * c for v, c in values.items()) / n
        p = _bets_p(
            values,
            values,
            float(k),
            1.0,
            highest_inverse(q for q in questions if q.n_classes == k and q in aimed),
        )
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


# -----------------------------------------------------------------------------------------------------------------
# yes-rate


def check_yes_rate(evidence: Evidence | JudgementCounts) -> Check:
    """Is yes said as often as one true class per item implies?

    One uniformly chosen class per item: P(yes) = 1/K (exact binomial; normal beyond 20,000
    questions of mixed K), ``unsure`` left out. Recorded propensities: the mean of 1{yes}/π is 1 (by
    fixed bets; ``unsure`` counts as whatever speaks less against it). A right yes-rate does not
    prove right verdicts: false yes and false no can cancel.

    Not for labels that were collected as two separate sets of fixed size.

    Notes
    -----
    Assumes one true class per item, independent items, and questions that were drawn without
    knowledge of the truth.

    References
    ----------
    Clopper and Pearson (1934), Biometrika 26, 404-413; Horvitz and Thompson (1952), JASA 47,
    663-685.

    Examples
    --------
    >>> from noracle.counts import JudgementCounts, Question
    >>> said = JudgementCounts(questions={Question(4, 0, "yes"): 90, Question(4, 0, "no"): 110})
    >>> check_yes_rate(said).passed
    False
    """
    counts = _judgements(evidence)
    said = {q: n for q, n in counts.questions.items() if q.verdict != "unsure"}
    recorded = _recorded(counts.questions)
    aimed = {q: n for q, n in counts.questions.items() if q in recorded}
    by_k: dict[int, list[int]] = defaultdict(lambda: [0, 0])
    least: dict[float, int] = defaultdict(int)
    most: dict[float, int] = defaultdict(int)
    for q, n in said.items():
        if q not in recorded:
            by_k[q.n_classes][0] += n
            by_k[q.n_classes][1] += n if q.verdict == "yes" else 0
    for q, n in sorted(aimed.items(), key=str):
        least[1 / float(q.propensity or 1) if q.verdict == "yes" else 0.0] += n
        most[1 / float(q.propensity or 1) if q.verdict != "no" else 0.0] += n
    parts: list[dict[str, Any]] = []
    if by_k and sum(y for _, y in by_k.values()):
        n, yes = (sum(v[i] for v in by_k.values()) for i in (0, 1))
        expected = sum(v[0] / k for k, v in by_k.items())
        p = sum_of_binomials_p([(v[0], 1 / k) for k, v in by_k.items()], yes)
        parts.append(
            {
                "what": f"{yes} yes of {n}, expected {expected:.1f}",
                "n": n,
                "statistic": yes / n,
                "p_value": p,
                "expected": expected / n,
            }
        )
    if any(q in recorded for q in said):
        n = sum(aimed.values())
        average = sum(v * c for v, c in least.items()) / n
        p = _bets_p(least, most, 1.0, 0.0, highest_inverse(aimed))
        parts.append(
            {
                "what": f"mean of yes over propensity {average:.3f}, expected 1",
                "n": n,
                "statistic": average,
                "p_value": p,
                "expected": 1.0,
            }
        )
    p_values = [x["p_value"] for x in parts if not math.isnan(x["p_value"])]
    p_value = min(1.0, min(p_values) * len(p_values)) if p_values else math.nan
    finding = (
        "; ".join(x["what"] for x in parts)
        if parts
        else "not applicable: there is no yes among the verdicts"
    )
    return Check(
        name="yes rate",
        assumption="right verdicts",
        refutes_only=True,
        p_value=p_value,
        statistic=parts[0]["statistic"] if parts else math.nan,
        finding=finding,
        method="exact binomial" if by_k else "bets on the mean of yes over propensity",
        parts=tuple(parts),
        counts={"questions": sum(said.values())},
    )


def sum_of_binomials_p(parts: Sequence[tuple[int, float]], observed: int) -> float:
    """Two-sided p-value of a sum of independent binomials: exact by convolution up to 20,000 trials
    or for one part, else normal.

    Examples
    --------
    >>> round(sum_of_binomials_p([(10, 0.5)], 9), 4)
    0.0215
    """
    parts = [(n, p) for n, p in parts if n]
    return _two_sided(*_tails_of_binomials(parts, observed)) if parts else math.nan


def _tails_of_binomials(parts: Sequence[tuple[int, float]], observed: int) -> tuple[float, float]:
    """P(at most) and P(at least) the observed sum."""
    if len(parts) > 1 and sum(n for n, _ in parts) > _MOST_EXACT:
        off = observed - sum(n * p for n, p in parts)
        spread = math.sqrt(sum(n * p * (1 - p) for n, p in parts))
        return float(ndtr((off + 0.5) / spread)), float(ndtr((0.5 - off) / spread))
    if len(parts) == 1:
        (n, p), k = parts[0], observed
        return float(bdtr(k, n, p)), float(bdtrc(k - 1, n, p)) if k else 1.0
    pmf = np.ones(1)
    for n, p in parts:
        s = np.arange(n + 1.0)
        one = (
            np.exp(
                gammaln(n + 1.0)
                - gammaln(s + 1)
                - gammaln(n - s + 1)
                + s * math.log(p)
                + (n - s) * math.log1p(-p)
            )
            if 0 < p < 1
            else (s == n * p).astype(float)
        )
        pmf = np.convolve(pmf, one) if len(pmf) > 1 else one
    return float(pmf[: observed + 1].sum()), float(pmf[observed:].sum())


# ------------------------------------------------------------------------------------------------------------------
# overlap


def check_overlap(evidence: Evidence | AccuracyCounts, *, system: str | None = None) -> Check:
    """Do ordinary and complementary labels tell the same story about a system?

    On items that have both: of the wrong answers exactly a share m/(K-1) should be among the m
    ruled-out classes (exact binomial), and no right answer may be. Without such items the two
    estimates are compared (normal, for fixed numbers of labels). Questions with recorded
    propensities are left out: their share depends on the probability of each class, see
    :func:`check_hits`.

    Notes
    -----
    P(ruled out | wrong answer) = m/(K - 1) and P(ruled out | right answer) = 0.

    Assumes independent items, and that the answers were given without seeing the labels. What it
    can refute is uniform routing and right verdicts together; it does not tell which of them fails.

    References
    ----------
    Yin, Ishida and Sugiyama, "Towards scalable oversight via partitioned human supervision" (labels
    drawn uniformly among the wrong classes); Clopper and Pearson (1934), Biometrika 26, 404-413
    (exact binomial).

    Examples
    --------
    >>> from noracle import AccuracyCounts, check_overlap
    >>> counts = AccuracyCounts.from_counts(n_classes=4, ordinary=(300, 210), complementary=(600, 540))
    >>> check_overlap(counts).passed
    True
    """
    counts = _accuracy(evidence, system)
    return _by_system(
        "overlap",
        "uniform routing",
        [_overlap_part(counts.of(name), name) for name in _names(counts, system)],
        without="not applicable: needs ordinary and complementary labels",
        method="exact binomial on common items, else normal",
    )


def _accuracy(evidence: Evidence | AccuracyCounts, system: str | None = None) -> AccuracyCounts:
    if not isinstance(evidence, (Evidence, AccuracyCounts)):
        raise ArgumentError(
            f"evidence must be Evidence or AccuracyCounts; got {type(evidence).__name__}. Use Evidence.from_tables(…)."
        )
    return (
        evidence
        if isinstance(evidence, AccuracyCounts)
        else count_accuracy(evidence, systems=None if system is None else [system])
    )


def _names(counts: AccuracyCounts, system: str | None) -> tuple[str, ...]:
    return counts.systems if system is None else (system,)


def _by_system(
    name: str,
    assumption: str,
    parts: Sequence[dict[str, Any]],
    *,
    without: str,
    method: str,
    refutes_only: bool = False,
    notes: tuple[str, ...] = (),
    seed: int | None = None,
) -> Check:
    """One check out of one part per system, joined by Bonferroni; parts that look at the very same
    counts are one test.
    """
    told = [p for p in parts if not math.isnan(p["p_value"])]
    tests = len({p.get("same", i) for i, p in enumerate(told)})
    worst = min(told, key=lambda p: p["p_value"], default=None)
    return Check(
        name=name,
        assumption=assumption,
        p_value=min(1.0, worst["p_value"] * tests) if worst else math.nan,
        statistic=worst["statistic"] if worst else math.nan,
        finding=worst["what"] if worst else without,
        method=method,
        refutes_only=refutes_only,
        parts=tuple({k: v for k, v in p.items() if k != "same"} for p in parts),
        counts={"systems": len(parts)},
        diagnostics={} if seed is None else {"seed": seed},
        notes=notes if worst else (),
    )


def _overlap_part(counts: AccuracyCounts, name: str) -> dict[str, Any]:
    asked_alike = {
        t: n for t, n in counts.tallies.items() if t.answered and t.design == "uniform"
    }  # a grade has no class to rule out
    both = {
        t: n
        for t, n in asked_alike.items()
        if t.verdict == "yes" and t.n_ruled_out and not t.hit and t.hit_share is None
    }
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
    apart = any(
        t.hit_share is not None for t in counts.tallies
    )  # an item whose repeats differ is neither right nor wrong
    for stratum in () if apart else strata_of(counts):
        ordinary, other = (
            linear.merge(_uniform_cells(stratum, verdict)) for verdict in ("yes", "no")
        )
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
        return {
            "system": name,
            "n": n,
            "statistic": math.nan,
            "p_value": math.nan,
            "what": f"{name}: too few labels of both kinds",
        }
    z = difference / math.sqrt(variance)
    return {
        "system": name,
        "n": n,
        "statistic": z,
        "p_value": float(2 * ndtr(-abs(z))),
        "what": f"{name}: ordinary and complementary estimates differ by {z:.1f} standard errors",
    }


def _uniform_cells(stratum: Stratum, verdict: str) -> list[BinomialCell]:
    tallies: dict[Tally, int] = {
        t: n for t, n in stratum.tallies.items() if t.verdict == verdict and t.design != "recorded"
    }
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


# ---------------------------------------------------------------------------------------------------------------------
# hits


def check_hits(
    evidence: Evidence | AccuracyCounts,
    *,
    system: str | None = None,
    protocol: Protocol | None = None,
    judgements: JudgementCounts | None = None,
    few: bool = True,
) -> Check:
    """Did questions hit the answers of a system as often as the design says?

    Questions that were drawn without a look at the answers hit an answer by chance only. It finds
    judgements that were made of the answers themselves, which make every estimate from uniform
    questions wrong.

    Parameters
    ----------
    evidence
        Tables, or counts of them.
    system
        Which system; all by default, each a part, joined by Bonferroni.
    protocol
        ``question`` or ``sets``: whether labels without a propensity were random questions. By
        default they were if both verdicts are there. Labels that were collected as sets have no
        question to look at.
    judgements
        What was asked, if it is counted already; with it (or with tables) the smallest propensity
        is known, else too few hits of recorded designs are not looked for.
    few
        Look for too few hits of recorded designs, too. Not where grades have propensities: nothing
        bounds those that are not recorded.

    Notes
    -----
    One uniform question, or m distinct ones, per item: P(answer among them) = m/K whatever the
    truth is, and #{hits} is held against Σ m_i/K_i (Poisson binomial, exact, two-sided); yes, no
    and unsure count alike. Where the number of questions differs between items of one K, it may
    depend on the verdicts. Then, and beside open questions, only P(ruled out | no, m classes) <=
    m/(K - 1) is sure, and too many hits are looked for. Recorded propensities: E[1{asked =
    answer}/π] = 1. The wealth of fixed bets on this mean being larger (scores are at least 0) or
    smaller (at most one over the smallest propensity, see ``highest_inverse``) has expectation 1,
    so that p = min(1, 2/wealth) holds at every n. The propensity of an unsure question is not kept:
    it counts with the bound that speaks less against the design.

    Assumes independent items and, for too few hits only, that no class is asked with less than the
    smallest probability that the record shows or implies. It cannot see a system that learnt the
    labels: answers that follow every yes and avoid every no hit as often.

    References
    ----------
    Hodges and Le Cam (1960), Ann. Math. Statist. 31, 737-740 (Poisson binomial); Waudby-Smith and
    Ramdas (2024), JRSS-B 86, 1-27.

    Examples
    --------
    >>> from noracle import AccuracyCounts, check_hits
    >>> fair = AccuracyCounts.from_counts(n_classes=5, ordinary=(200, 150), complementary=(800, 750))
    >>> check_hits(fair).passed
    True
    >>> of_the_answers = AccuracyCounts.from_counts(n_classes=5, ordinary=(150, 150), complementary=(50, 0))
    >>> check_hits(of_the_answers).finding
    'system: 200 of 200 questions were about the answer, expected 40.0'
    """
    counts = _accuracy(evidence, system)
    asked = judgements
    if isinstance(evidence, Evidence):
        protocol = protocol or evidence.protocol
        if asked is None and evidence.judgements is not None:
            asked = count_judgements(evidence, by_rater=False, counts=counts)
    uniform: _Uniform = "questions" if are_questions(counts, protocol, asked) else "none"
    if uniform == "none" and counts.propensities == "uniform" and asked is not None:
        uniform = "some"
    if isinstance(evidence, Evidence):
        few = few and not recorded_grades(evidence)
    highest = None if asked is None or not few else highest_inverse(asked.questions)
    parts = [
        _hits_part(counts.of(name), name, uniform=uniform, highest=highest)
        for name in _names(counts, system)
    ]
    return _by_system(
        "hits",
        "answers made without the labels",
        parts,
        without="not applicable: needs questions about items with an answer",
        method="exact Poisson binomial; bets on the mean of inverse propensities",
        refutes_only=True,
    )


def are_questions(
    counts: AccuracyCounts, protocol: Protocol | None, judgements: JudgementCounts | None = None
) -> bool:
    """Whether the labels that count as uniform all answer random questions, and none is an open one
    (say the class) or of a set.
    """
    if judgements is None:
        return protocol == "question" or (protocol is None and {"yes", "no"} <= _verdicts(counts))
    bare = {q.verdict for q in judgements.questions if q.propensity is None}
    if any(q.propensity is not None for q in judgements.questions):
        # Beside questions with a propensity, labels without one that never say no were open
        # questions.
        return "no" in bare or (not bare and counts.propensities == "uniform")
    return protocol == "question" or (protocol is None and {"yes", "no"} <= bare)


def _verdicts(counts: AccuracyCounts) -> set[str]:
    return {t.verdict for t in counts.tallies if t.design == "uniform"}


def _n_asked(t: Tally) -> int:
    """How many classes a uniform label speaks of; an item with unsure verdicts only is taken as one
    question.
    """
    return max(1, t.n_ruled_out + (t.verdict == "yes"))


def numbers_asked(counts: AccuracyCounts) -> dict[int, set[int]]:
    """For every number of classes, how many of them uniform labels speak of; an unsure beside
    several makes it uncertain (0).
    """
    found: dict[int, set[int]] = defaultdict(set)
    unsure: set[int] = set()
    for t in counts.tallies:
        if t.design == "uniform" and t.verdict == "unsure":
            unsure.add(t.n_classes)
        elif t.design == "uniform":
            found[t.n_classes].add(_n_asked(t))
    for k in unsure:
        found[k].add(1 if found[k] <= {1} else 0)
    return found


def _share(t: Tally) -> float:
    return float(t.answered) if t.answered_share is None else t.answered_share


_Uniform = Literal["questions", "some", "none"]


def _hits_part(
    counts: AccuracyCounts, name: str, *, uniform: _Uniform, highest: float | None
) -> dict[str, Any]:
    asked = numbers_asked(counts)
    differ = {
        t.n_classes for t in counts.tallies if t.hit_share is not None and t.design == "uniform"
    }
    fixed: dict[tuple[int, int], int] = defaultdict(int)
    bounded: dict[tuple[int, int], int] = defaultdict(int)
    hits = ruled = 0
    up: dict[float, int] = defaultdict(int)
    down: dict[float, int] = defaultdict(int)
    recorded = any(t.design == "recorded" for t in counts.tallies)
    bound = highest if recorded else 1.0
    for t, n in sorted(counts.tallies.items(), key=str):
        share, k = _share(t), t.n_classes
        if not share:
            continue
        if t.design == "recorded":
            value = ((t.yes_score or 0.0) + (t.no_score or 0.0)) / share
            unknown = t.verdict == "unsure" and (t.hit or bool(t.hit_share))
            up[1.0 if unknown and t.hit_share is None else value] += n
            down[(bound or 0.0) if unknown else value] += n
        elif uniform == "none" or t.design == "graded":
            continue
        elif (
            k in differ
        ):  # answers that differ between repeats hit in part: the share that does has mean 1/K
            if asked[k] == {1} and uniform == "questions":
                value = k * (float(t.hit) if t.hit_share is None else t.hit_share / share)
                up[value] += n
                down[value] += n
                bound = None if bound is None else max(bound, float(k))
        elif uniform == "questions" and len(asked[k]) == 1 and 0 not in asked[k]:
            fixed[min(asked[k]), k] += n
            hits += n * (t.hit or t.ruled_hit)
        elif t.n_ruled_out and (t.verdict == "no" or not t.hit):
            bounded[t.n_ruled_out, k - 1] += n
            ruled += n * t.ruled_hit
    found = [
        _fixed_hits(name, fixed, hits),
        _bounded_hits(name, bounded, ruled),
        _recorded_hits(name, up, down, bound),
    ]
    told = [f for f in found if f is not None]
    if not told:
        return {
            "system": name,
            "n": 0,
            "statistic": math.nan,
            "p_value": math.nan,
            "what": f"{name}: no question to look at",
        }
    worst = min(told, key=lambda f: f["p_value"])
    return {
        **worst,
        "n": sum(f["n"] for f in told),
        "p_value": min(1.0, worst["p_value"] * len(told)),
    }


def _expected(trials: Mapping[tuple[int, int], int]) -> tuple[int, float, list[tuple[int, float]]]:
    shares: dict[float, int] = defaultdict(int)
    for (m, k), n in trials.items():
        shares[min(1.0, m / k)] += n
    return (
        sum(shares.values()),
        sum(n * p for p, n in shares.items()),
        [(n, p) for p, n in sorted(shares.items())],
    )


def _fixed_hits(
    name: str, trials: Mapping[tuple[int, int], int], hits: int
) -> dict[str, Any] | None:
    n, expected, shares = _expected(trials)
    if not n:
        return None
    what = f"{name}: {hits} of {n} questions were about the answer, expected {expected:.1f}"
    return {
        "system": name,
        "n": n,
        "statistic": hits / expected,
        "p_value": sum_of_binomials_p(shares, hits),
        "what": what,
    }


def _bounded_hits(
    name: str, trials: Mapping[tuple[int, int], int], hits: int
) -> dict[str, Any] | None:
    n, expected, shares = _expected(trials)
    if not n:
        return None
    what = f"{name}: {hits} of {n} answers were ruled out, expected at most {expected:.1f}"
    return {
        "system": name,
        "n": n,
        "statistic": hits / expected,
        "p_value": min(1.0, _tails_of_binomials(shares, hits)[1]),
        "what": what,
    }


def _recorded_hits(
    name: str, up: Mapping[float, int], down: Mapping[float, int], high: float | None
) -> dict[str, Any] | None:
    n = sum(up.values())
    if not n:
        return None
    average = sum(v * c for v, c in up.items()) / n
    what = (
        f"{name}: mean inverse propensity of questions about the answer {average:.3f}, expected 1"
    )
    return {
        "system": name,
        "n": n,
        "statistic": average,
        "p_value": _bets_p(up, down, 1.0, 0.0, high),
        "what": what,
    }


# -------------------------------------------------------------------------------------------------
# rates that should be the same


def _same_rate(
    sample: Mapping[Any, int], population: Mapping[Any, int], rng: np.random.Generator
) -> tuple[float, float, Any]:
    """p-value and chi-square of a sample drawn at one rate from all cells of a population, and the
    cell that differs most; NaN if moot.

    X² = Σ (o - e)²/(e·(1 - n/N)) with e = n·N_c/N; where a cell expects fewer than 5 the
    multivariate hypergeometric law is simulated.
    """
    cells = sorted((c for c, size in population.items() if size), key=str)
    sizes = np.array([population[c] for c in cells], dtype=np.int64)
    drawn = np.array([sample.get(c, 0) for c in cells], dtype=np.int64)
    n, total = int(drawn.sum()), int(sizes.sum())
    if len(cells) < 2 or not 0 < n < total:
        return math.nan, math.nan, None
    rate = n / total
    off = (drawn - rate * sizes) ** 2 / (rate * (1 - rate) * sizes)
    worst = cells[int(off.argmax())]
    small = sizes * min(rate, 1 - rate) < 5
    if (
        small.any() and len(cells) > _MOST_SIMULATED_CELLS
    ):  # too many to simulate: small cells are one
        sizes, drawn = (np.append(v[~small], v[small].sum()) for v in (sizes, drawn))
        if len(sizes) < 2:
            return math.nan, math.nan, None
        small = sizes * min(rate, 1 - rate) < 5
    statistic = float(((drawn - rate * sizes) ** 2 / (rate * (1 - rate) * sizes)).sum())
    if not small.any():
        return float(chdtrc(len(sizes) - 1, statistic)), statistic, worst
    draws = rng.multivariate_hypergeometric(sizes, n, size=_SIMULATIONS, method="marginals")
    simulated = ((draws - rate * sizes) ** 2 / (rate * (1 - rate) * sizes)).sum(axis=1)
    return float((1 + np.sum(simulated >= statistic - 1e-9)) / (_SIMULATIONS + 1)), statistic, worst


def _place(stratum: str, n_classes: int, weight: float | None = None) -> str:
    words = [f"stratum {stratum!r}"] if stratum else []
    words += ([f"{n_classes} classes"] if n_classes else []) + (
        [] if weight is None or weight == 1 else [f"weight {weight:g}"]
    )
    return ", ".join(words) or "items without a stratum"


def check_label_rates(
    evidence: Evidence | AccuracyCounts, *, system: str | None = None, seed: int = 0
) -> Check:
    """Were items labelled at the same rate in all strata?

    Judged items with an answer are counted by stratum, number of classes and weight, and held
    against all items with an answer. An estimate of accuracy gives each stratum its share of the
    items, so that rates may differ; a comparison or a race that takes all labels together needs the
    same rate.

    Parameters
    ----------
    evidence
        Tables, or counts of them with the whole population.
    system
        Which system; all by default, each a part, joined by Bonferroni.
    seed
        For simulated p-values.

    Notes
    -----
    X² = Σ_c (o_c - n·N_c/N)²/(n·N_c/N·(1 - n/N)), chi-square with C - 1 degrees of freedom; where a
    cell expects fewer than 5 judged or unjudged items, the p-value is simulated from the
    multivariate hypergeometric law. Without strata, or with every item judged, there is nothing to
    test.

    Assumes that the items to be labelled were drawn without replacement, each alike.

    References
    ----------
    Pearson (1900), Phil. Mag. 50, 157-175.

    Examples
    --------
    >>> from noracle import AccuracyCounts, check_label_rates
    >>> easy = AccuracyCounts.from_counts(n_classes=4, ordinary=(800, 720), n_items=2000, stratum="easy")
    >>> hard = AccuracyCounts.from_counts(n_classes=4, ordinary=(200, 80), n_items=2000, stratum="hard")
    >>> check_label_rates(easy + hard).passed
    False
    """
    counts = _accuracy(evidence, system)
    parts = []
    for name in _names(counts, system):
        own = counts.of(name)
        judged: dict[tuple[str, int, float], int] = defaultdict(int)
        answered: dict[tuple[str, int, float], int] = defaultdict(int)
        for t, n in own.tallies.items():
            judged[t.stratum, t.n_classes, t.weight] += n if _share(t) else 0
        for c, n in own.answered.items():
            answered[c.stratum, c.n_classes, c.weight] += n
        p, statistic, worst = _same_rate(judged, answered, np.random.default_rng(seed))
        total, whole = sum(judged.values()), sum(answered.values())
        what = f"{name}: nothing to compare"
        if worst is not None:
            what = f"{name}: {judged[worst]} of {answered[worst]} items judged in {_place(*worst)}, {total} of {whole} in all"
        same = (tuple(sorted(judged.items(), key=str)), tuple(sorted(answered.items(), key=str)))
        parts.append(
            {
                "system": name,
                "n": total,
                "statistic": statistic,
                "p_value": p,
                "what": what,
                "same": same,
            }
        )
    return _by_system(
        "label rates",
        "same label rate in all strata",
        parts,
        without="not applicable: one stratum, or every item is judged",
        method="chi-square; simulated where counts are small",
        seed=seed,
    )


# ----------------------------------------------------------------------------------------------------------
# missing verdicts


def check_missing(
    evidence: Evidence | AccuracyCounts,
    *,
    system: str | None = None,
    protocol: Protocol | None = None,
    judgements: JudgementCounts | None = None,
    seed: int = 0,
) -> Check:
    """Are verdicts that are missing (unsure) missing whatever was asked, and where?

    Looks at whether being unsure goes with a question about the answer, and with the stratum or the
    number of classes of the item. An unsure verdict is left out of estimates; that is harmless only
    if it is missing at random.

    Parameters
    ----------
    evidence
        Tables, or counts of them.
    system
        Which system; all by default, each a part, joined by Bonferroni.
    protocol, judgements
        As for :func:`check_hits`: where labels are no random questions, only the strata are looked
        at.
    seed
        For simulated p-values.

    Notes
    -----
    Within each stratum and number of classes, of N questions M are about the answer and n unsure;
    then the number X of unsure questions about the answer has P(X = x) = C(M, x)·C(N - M, n -
    x)/C(N, n). The sum over strata is tested exactly, two-sided. Places: as in
    :func:`check_label_rates`, with unsure items as the sample. The two are joined by Bonferroni.

    Assumes independent items. A pass proves nothing: verdicts may be missing where the truth is
    hard in a way that neither shows. See
    :func:`range_unsure`.

    References
    ----------
    Fisher (1935), J. Roy. Statist. Soc. 98, 39-82; Mantel and Haenszel (1959), J. Natl. Cancer
    Inst. 22, 719-748; Rubin (1976), Biometrika 63, 581-592 (missing at random).

    Examples
    --------
    >>> from noracle import AccuracyCounts, check_missing
    >>> from noracle.counts import Cell, Tally
    >>> met = {Tally("a", 4, "yes", True): 20, Tally("a", 4, "no", False, n_ruled_out=1): 150, Tally("a", 4, "unsure", True): 30}
    >>> check_missing(AccuracyCounts(tallies=met, items={Cell("a", 4): 200}, answered={Cell("a", 4): 200})).passed
    False
    """
    counts = _accuracy(evidence, system)
    asked = judgements
    if isinstance(evidence, Evidence):
        protocol = protocol or evidence.protocol
        if asked is None and evidence.judgements is not None:
            asked = count_judgements(evidence, by_rater=False, counts=counts)
    questions = are_questions(counts, protocol, asked)
    parts = [
        _missing_part(counts.of(name), name, questions=questions, seed=seed)
        for name in _names(counts, system)
    ]
    return _by_system(
        "missing verdicts",
        "verdicts missing at random",
        parts,
        without="not applicable: no unsure verdict beside others",
        method="exact conditional test; chi-square",
        refutes_only=True,
        seed=seed,
    )


def _missing_part(
    counts: AccuracyCounts, name: str, *, questions: bool, seed: int
) -> dict[str, Any]:
    asked = numbers_asked(counts)
    tables: dict[Any, list[int]] = defaultdict(
        lambda: [0, 0, 0, 0]
    )  # items, hits, unsure, unsure hits
    unsure: dict[tuple[str, int], int] = defaultdict(int)
    judged: dict[tuple[str, int], int] = defaultdict(int)
    for t, n in counts.tallies.items():
        missing = t.verdict == "unsure"
        judged[t.stratum, t.n_classes] += n
        unsure[t.stratum, t.n_classes] += n * missing
        single = t.design == "recorded" or (
            t.design == "uniform" and questions and asked[t.n_classes] <= {1}
        )
        if single and t.answered and t.hit_share is None:
            table = tables[t.stratum, t.n_classes, t.weight, t.design]
            for i, counted in enumerate((True, t.hit, missing, missing and t.hit)):
                table[i] += n * counted
    total, n = sum(unsure.values()), sum(judged.values())
    p, statistic, worst = _same_rate(unsure, judged, np.random.default_rng(seed))
    found: list[tuple[float, float, str]] = []
    if worst is not None:
        found.append(
            (
                p,
                statistic,
                f"{name}: {unsure[worst]} of {judged[worst]} unsure with {_place(*worst)}, {total} of {n} in all",
            )
        )
    hit = sum(t[3] for t in tables.values())
    p = sum_of_hypergeometrics_p(
        [(size, hits, drawn) for size, hits, drawn, _ in tables.values()], hit
    )
    if not math.isnan(p):
        about, left = sum(t[1] for t in tables.values()), sum(t[2] for t in tables.values())
        others = sum(t[0] for t in tables.values()) - about
        what = f"{name}: {hit} of {about} questions about the answer are unsure, {left - hit} of {others} others"
        found.append((p, hit / about, what))
    if not found:
        return {
            "system": name,
            "n": n,
            "statistic": math.nan,
            "p_value": math.nan,
            "what": f"{name}: nothing to compare",
        }
    p, statistic, what = min(found)
    same = (
        tuple(sorted(unsure.items(), key=str)),
        tuple(sorted(judged.items(), key=str)),
        tuple(sorted(map(str, tables.items()))),
    )
    return {
        "system": name,
        "n": n,
        "statistic": statistic,
        "p_value": min(1.0, p * len(found)),
        "what": what,
        "same": same,
    }


def sum_of_hypergeometrics_p(tables: Sequence[tuple[int, int, int]], observed: int) -> float:
    """Two-sided p-value of a sum of independent hypergeometric numbers, each of (size, marked,
    drawn); NaN where none can vary.

    Exact by convolution up to a range of 20,000, else normal.

    Examples
    --------
    >>> round(sum_of_hypergeometrics_p([(20, 10, 10)], 8), 4)
    0.023
    """
    pmf, shift = np.ones(1), 0
    mean = variance = 0.0
    free = 0
    for size, marked, drawn in tables:
        low, high = max(0, drawn + marked - size), min(drawn, marked)
        shift += low
        if high <= low:
            mean += low
            continue
        free += high - low
        mean += drawn * marked / size
        variance += drawn * (marked / size) * (1 - marked / size) * (size - drawn) / (size - 1)
        if free <= _MOST_EXACT:
            x = np.arange(low, high + 1.0)
            pmf = np.convolve(
                pmf,
                np.exp(
                    _log_choose(marked, x)
                    + _log_choose(size - marked, drawn - x)
                    - _log_choose(size, drawn)
                ),
            )
    if not free:
        return math.nan
    if free > _MOST_EXACT:
        z = (abs(observed - mean) - 0.5) / math.sqrt(variance)
        return float(min(1.0, 2 * ndtr(-max(z, 0.0))))
    return _two_sided(
        float(pmf[: observed - shift + 1].sum()), float(pmf[observed - shift :].sum())
    )


def _log_choose(n: float, k: Any) -> Any:
    return gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(n - k + 1.0)


# ------------------------------------------------------------------------------------------------------------------
# grading


def check_grading(evidence: Evidence, *, system: str | None = None, seed: int = 0) -> Check:
    """Were answers graded whatever they are?

    A grade speaks for the answers that were not graded only if answers were chosen for grading
    without a look at them. Looks at whether being graded goes with how many other systems gave the
    same answer and, where there are judgements too, with what these say of it.

    Parameters
    ----------
    evidence
        Answers of at least two systems, or answers and judgements, and grades without propensities.
    system
        Which system; all by default, each a part, joined by Bonferroni.
    seed
        For simulated p-values.

    Notes
    -----
    As in :func:`check_label_rates`, X² = Σ_c (o_c - n·N_c/N)²/(n·N_c/N·(1 - n/N)) over the cells c
    of a stratum, which are the answers that 1, 2, … systems gave; then over what judgements say.
    The strata, and the two looks, are joined by Bonferroni.

    Assumes independent items. It can only refute: answers may have been chosen by something that
    goes with their being right and with nothing that is looked at here.

    References
    ----------
    Pearson (1900), Phil. Mag. 50, 157-175; Rubin (1976), Biometrika 63, 581-592 (missing at
    random).

    Examples
    --------
    >>> from noracle import Evidence
    >>> items = list(range(200))
    >>> answers = {"item": items * 2, "system": ["a"] * 200 + ["b"] * 200, "answer": ["x"] * 200 + ["x", "y"] * 100}
    >>> apart = {"item": items[1::2], "system": ["a"] * 100, "verdict": ["right", "wrong"] * 50}
    >>> check_grading(Evidence.from_tables(answers, grades=apart)).passed
    False
    """
    if not isinstance(evidence, Evidence):
        raise ArgumentError(
            f"evidence must be Evidence; got {type(evidence).__name__}. Use Evidence.from_tables(…)."
        )
    rng = np.random.default_rng(seed)
    tables = _graded_answers(evidence)
    names = sorted({key[0] for key in tables} if system is None else {system})
    return _by_system(
        "grading",
        "graded whatever the answer",
        [_grading_part(name, tables, rng) for name in names],
        without="not applicable: needs grades of some answers, and answers of other systems or judgements beside them",
        method="chi-square; simulated where counts are small",
        refutes_only=True,
        seed=seed,
    )


def _graded_answers(evidence: Evidence) -> dict[tuple[str, str, str], dict[Any, list[int]]]:
    """Answers, and those of them that were graded, by system, look and stratum, and by what is
    looked at.
    """
    found: dict[tuple[str, str, str], dict[Any, list[int]]] = defaultdict(
        lambda: defaultdict(lambda: [0, 0])
    )
    if evidence.grades is None or evidence.answers is None:
        return found
    evidence.check()
    labels = labels_of(evidence)
    met = met_once(evidence, evidence.answers, labels).filter(nw.col("answered"))
    stratum = [name for name in ("stratum",) if name in met.columns]
    given = evidence.answers.filter(~nw.col("answer").is_null())
    votes = given.group_by("item", "answer").agg(votes=nw.len())
    counted = (
        given.select("item", "system", "answer")
        .join(votes, on=["item", "answer"], how="inner")
        .select("item", "system", "votes")
    )
    frame = met.join(counted, on=["item", "system"], how="inner").with_columns(
        graded=(~nw.col("grade").is_null()).cast(nw.Int64)
    )
    keys = ["system", "votes", "verdict", "hit", *stratum]
    rows = fetch(
        frame.group_by(*keys)
        .agg(n=nw.len(), graded=nw.col("graded").sum())
        .select(*keys, "n", "graded")
    )
    for name, shared, verdict, hit, *place, n, graded in rows:
        where = str(place[0] or "") if place else ""
        looks: list[tuple[str, Any]] = [("agreement", int(shared))]
        if verdict is not None:
            looks.append(("judgement", (VERDICTS[int(verdict)], bool(hit))))
        for look, value in looks:
            cell = found[str(name), look, where][value]
            cell[0] += int(n)
            cell[1] += int(graded)
    return found


def _grading_part(
    name: str,
    tables: Mapping[tuple[str, str, str], Mapping[Any, Sequence[int]]],
    rng: np.random.Generator,
) -> dict[str, Any]:
    found = []
    for (_, look, _), cells in sorted(
        (key, cells) for key, cells in tables.items() if key[0] == name
    ):
        p, statistic, worst = _same_rate(
            {c: graded for c, (_, graded) in cells.items()},
            {c: n for c, (n, _) in cells.items()},
            rng,
        )
        if worst is None:
            continue
        n, graded = cells[worst]
        all_n, all_graded = (sum(cell[i] for cell in cells.values()) for i in (0, 1))
        about = (
            f"that {worst} system{'' if worst == 1 else 's'} gave"
            if look == "agreement"
            else f"beside {worst[0]} to the answer"
        )
        if look == "judgement" and not worst[1]:
            about = f"beside {worst[0]} to another class"
        found.append(
            (
                p,
                statistic,
                f"{name}: {graded} of {n} answers {about} were graded, {all_graded} of {all_n} in all",
            )
        )
    total = sum(
        cell[1]
        for key, cells in tables.items()
        if key[:2] == (name, "agreement")
        for cell in cells.values()
    )
    if not found:
        return {
            "system": name,
            "n": total,
            "statistic": math.nan,
            "p_value": math.nan,
            "what": f"{name}: nothing to compare",
        }
    p, statistic, what = min(found)
    return {
        "system": name,
        "n": total,
        "statistic": statistic,
        "p_value": min(1.0, p * len(found)),
        "what": what,
    }


# -------------------------------------------------------------------------------------------------------
# number of questions


def check_questions(evidence: Evidence, *, seed: int = 0) -> Check:
    """Is the number of questions of an item the same whatever its first verdict was?

    Where propensities were recorded and an item was asked about more than once, its first question
    is its label: first by ``at``, else by the order of rows. Without ``at`` the first row need not
    be the first question, and if people went on asking after a no, the rows that are there depend
    on what was said.

    Parameters
    ----------
    evidence
        Tables with recorded propensities.
    seed
        For simulated p-values.

    Notes
    -----
    For t = 1, 2, …: of the items with at least t questions, those with more are held against the
    first verdict as in
    :func:`check_label_rates` (the cells are yes, no and unsure); joined by Bonferroni.

    Assumes independent items. Dependence is harmless where ``at`` tells which question was first.

    References
    ----------
    Fisher (1935), J. Roy. Statist. Soc. 98, 39-82.

    Examples
    --------
    >>> asked = {"item": [i for i in range(60) for _ in range(1 + i % 2)]}  # every second item is asked about twice: after a no
    >>> asked["verdict"] = ["no" if i % 2 else "yes" for i in asked["item"]]
    >>> asked["class"] = [n % 5 for n, i in enumerate(asked["item"])]
    >>> asked["propensity"] = [0.3] * len(asked["item"])
    >>> check_questions(Evidence.from_tables(judgements=asked, n_classes=5)).passed
    False
    """
    if not isinstance(evidence, Evidence):
        raise ArgumentError(
            f"evidence must be Evidence; got {type(evidence).__name__}. Use Evidence.from_tables(…)."
        )
    table = count_first_verdicts(evidence)
    rng = np.random.default_rng(seed)
    parts: list[dict[str, Any]] = []
    for t in range(1, max((n for _, n in table), default=0)):
        reached: dict[str, int] = defaultdict(int)
        more: dict[str, int] = defaultdict(int)
        for (verdict, n), items in table.items():
            reached[verdict] += items if n >= t else 0
            more[verdict] += items if n > t else 0
        p, statistic, odd = _same_rate(more, reached, rng)
        if odd is None:
            continue
        said = ", ".join(
            f"{more[v]} of {reached[v]} after {v}" for v in VERDICTS.values() if reached[v]
        )
        what = f"asked again after question {t}, by the first verdict: {said}"
        parts.append(
            {
                "question": t,
                "n": sum(reached.values()),
                "statistic": statistic,
                "p_value": p,
                "what": what,
            }
        )
    worst = min(parts, key=lambda x: x["p_value"], default=None)
    return Check(
        name="number of questions",
        assumption="number of questions fixed beforehand",
        p_value=min(1.0, worst["p_value"] * len(parts)) if worst else math.nan,
        statistic=worst["statistic"] if worst else math.nan,
        finding=worst["what"]
        if worst
        else "not applicable: needs recorded propensities and items with several questions",
        method="chi-square; simulated where counts are small",
        parts=tuple(parts),
        counts={"items": sum(table.values())},
        diagnostics={"seed": seed},
    )


# ---------------------------------------------------------------------------- Which checks labels
# must pass, and what their outcome does: one list for Python, the command line and the report.


class Rule(NamedTuple):
    """What one check is for.

    ``assumptions`` are those it may speak of. ``estimate`` and ``comparison`` say whose promise a
    failure takes away; ``proves`` whether a pass makes the assumption *checked* (else it can only
    refute). It is ``moot`` for an estimate that does not rest on the assumption because rates of
    wrong verdicts or a transition matrix are known. ``remedy`` is the way out after a failure.
    """

    assumptions: tuple[str, ...]
    remedy: str
    estimate: bool = True
    comparison: bool = True
    proves: bool = False
    moot: tuple[Literal["error rates", "transition"], ...] = ()


_SETS = "If yes and no labels were collected as two separate sets, pass --protocol sets (in Python protocol='sets')."
_DRAW = "Draw the questions at random, without a look at the answers: 'noracle route' does."

POLICY: Mapping[str, Rule] = {
    "routing": Rule(
        ("uniform routing", "recorded propensities"), _SETS, proves=True, moot=("transition",)
    ),
    "yes rate": Rule(("right verdicts",), _SETS, moot=("error rates", "transition")),
    "overlap": Rule(("uniform routing",), _DRAW, moot=("error rates", "transition")),
    "hits": Rule(("answers made without the labels",), f"{_DRAW} {_SETS}", moot=("transition",)),
    # An estimate gives each stratum its share of the items, whatever the rate at which it was
    # labelled.
    "label rates": Rule(
        ("same label rate in all strata",),
        "Estimates weight strata by their share; compare systems within one stratum, or label all strata at the same rate.",
        estimate=False,
        proves=True,
    ),
    "number of questions": Rule(
        ("number of questions fixed beforehand",),
        "Add the column at, the time of each judgement, so that the first is known.",
        proves=True,
    ),
    "grading": Rule(
        ("graded whatever the answer",),
        "Draw the answers to grade without a look at them: 'noracle route --grades' does.",
    ),
    # Runs only where clusters are ignored: elsewhere the cluster is the unit.
    "clusters": Rule(
        ("iid items",), "Leave clusters='auto' (--clusters auto), so that the cluster is the unit."
    ),
    "missing verdicts": Rule(
        ("verdicts missing at random",),
        "Look at the worst case that unsure verdicts leave: range_unsure, or 'noracle check'.",
    ),
}
"""All checks of labels, in the order in which they are shown."""


def label_checks(
    evidence: Evidence | AccuracyCounts,
    *,
    counts: AccuracyCounts | None = None,
    judgements: JudgementCounts | None = None,
    systems: Sequence[str] | None = None,
    protocol: Protocol | None = None,
    clusters: Literal["auto", "ignore"] = "auto",
    population: Literal["answers", "beyond"] = "answers",
    seed: int = 0,
) -> tuple[Check, ...]:
    """The checks that apply to these labels, in the order of :data:`POLICY`.

    Parameters
    ----------
    evidence
        Tables; or counts alone, which allow fewer checks: they do not say how often each class was
        asked.
    counts, judgements
        Counts of the same evidence, if they are there already.
    systems
        The systems in question; by default all. Others are not looked at.
    protocol
        ``question``: one random class was asked about an item. ``sets``: yes and no labels were
        collected separately. By default what the evidence says; else questions where both verdicts
        or propensities are there. For counts alone there is no such default: without ``protocol``
        labels without propensities may be sets.
    clusters, population
        Where clusters of items are ignored (``ignore``), their dependence is tested, for these
        items or for items beyond them.
    seed
        For simulated p-values.

    Notes
    -----
    Each check has a false alarm with probability of at most 1e-3 (simulated and normal ones
    nearly). Several of one assumption are joined by Holm's procedure in the guarantee, so that this
    holds for every assumption.

    References
    ----------
    Holm (1979), "A simple sequentially rejective multiple test procedure", Scandinavian Journal of
    Statistics 6, 65-70.

    Examples
    --------
    >>> from noracle.simulate import simulate_world
    >>> world = simulate_world(n_items=400, n_classes=5, systems={"a": 0.8}, seed=1)
    >>> [check.name for check in label_checks(world.evidence())]
    ['routing', 'yes rate', 'overlap', 'hits']
    """
    if isinstance(evidence, AccuracyCounts):
        return _ordered(
            _count_checks(
                _chosen(evidence, systems),
                protocol=protocol,
                judgements=judgements,
                alone=True,
                seed=seed,
            )
        )
    if not isinstance(evidence, Evidence):
        raise ArgumentError(
            f"evidence must be Evidence or AccuracyCounts; got {type(evidence).__name__}. Use Evidence.from_tables(…)."
        )
    if evidence.judgements is None and evidence.grades is None:
        return (
            _ordered(
                _count_checks(_chosen(counts, systems), protocol=protocol, alone=True, seed=seed)
            )
            if counts is not None
            else ()
        )
    protocol = protocol or evidence.protocol
    if counts is None and (evidence.answers is not None or evidence.grades is not None):
        counts = count_accuracy(evidence, systems=systems)
    asked = judgements
    if asked is None and evidence.judgements is not None:
        asked = count_judgements(evidence, by_rater=False, counts=counts)
    found: list[Check] = []
    if asked is not None and is_question(asked, protocol):
        found.append(check_routing(asked, seed=seed))
        if protocol != "sets" and not (
            counts is not None and counts.propensities == "none" and _stops(counts)
        ):
            found.append(check_yes_rate(asked))
    if counts is not None:
        few = not recorded_grades(evidence)
        found += _count_checks(
            _chosen(counts, systems),
            protocol=protocol,
            judgements=asked,
            alone=asked is None,
            few=few,
            seed=seed,
        )
    if evidence.grades is not None and evidence.answers is not None:
        graded = check_grading(
            evidence, system=systems[0] if systems and len(systems) == 1 else None, seed=seed
        )
        wanted = tuple(
            part for part in graded.parts if systems is None or part["system"] in systems
        )
        if any(not math.isnan(part["p_value"]) for part in wanted):
            found.append(dataclasses.replace(graded, parts=wanted))
    if (
        clusters == "ignore"
        and counts is not None
        and evidence.items is not None
        and "cluster" in evidence.items.columns
    ):
        found.append(
            check_clusters(
                evidence,
                system=systems[0] if systems and len(systems) == 1 else None,
                population=population,
                seed=seed,
            )
        )
    tables = [table for table in (evidence.judgements, evidence.grades) if table is not None]
    if propensities_of(evidence) == "recorded" and not all(
        "at" in table.columns for table in tables
    ):
        found += [c for c in (check_questions(evidence, seed=seed),) if c.parts]
    return _ordered(found, seed=seed)


def _chosen(counts: AccuracyCounts, systems: Sequence[str] | None) -> AccuracyCounts:
    if systems is None or set(systems) == set(counts.systems):
        return counts
    wanted = set(systems)
    return dataclasses.replace(
        counts,
        tallies={t: n for t, n in counts.tallies.items() if t.system in wanted},
        items={c: n for c, n in counts.items.items() if c.system in wanted},
        answered={c: n for c, n in counts.answered.items() if c.system in wanted},
    )


def _stops(counts: AccuracyCounts) -> bool:
    """Whether the number of uniform questions differs between items: then a yes may have ended
    them, and is too frequent by design.
    """
    return any(len(m - {0}) > 1 for m in numbers_asked(counts).values())


def _count_checks(
    counts: AccuracyCounts,
    *,
    protocol: Protocol | None,
    alone: bool,
    seed: int,
    judgements: JudgementCounts | None = None,
    few: bool = True,
) -> list[Check]:
    """The checks that counts allow; ``alone`` says that they came without the tables, and may be of
    labels collected as sets.

    ``few`` says that no propensity is less than those that judgements show or imply.
    """
    tallies = [t for t in counts.tallies if t.answered or t.answered_share]
    if alone and protocol is None and judgements is None:
        protocol = "sets"
    found: list[Check] = []
    if any(t.design == "uniform" for t in counts.tallies):
        found.append(dataclasses.replace(check_overlap(counts), refutes_only=True))
    if (
        any(t.design == "recorded" for t in tallies)
        or counts.propensities == "uniform"
        or are_questions(counts, protocol, judgements)
    ):
        found.append(check_hits(counts, protocol=protocol, judgements=judgements, few=few))
    if len({(c.stratum, c.n_classes, c.weight) for c, n in counts.answered.items() if n}) > 1:
        found.append(check_label_rates(counts, seed=seed))
    if any(t.verdict == "unsure" for t in counts.tallies) and any(
        t.verdict != "unsure" for t in counts.tallies
    ):
        found.append(check_missing(counts, protocol=protocol, judgements=judgements, seed=seed))
    return [c for c in found if c.name == "overlap" or not math.isnan(c.p_value)]


def _ordered(checks: Sequence[Check], seed: int | None = None) -> tuple[Check, ...]:
    order = list(POLICY)
    told = (
        c
        if seed is None or c.name != "routing"
        else dataclasses.replace(c, diagnostics={**c.diagnostics, "seed": seed})
        for c in checks
    )
    return tuple(sorted(told, key=lambda c: order.index(c.name)))


def checks_for(
    checks: Sequence[Check], system: str, *, error_rates: bool = False, transition: bool = False
) -> tuple[Check, ...]:
    """The checks that bear on the accuracy of one system.

    A check with one part per system becomes that system's part, with its own p-value, so that a
    fault of one system takes no promise from another. Checks that do not bear on an estimate
    (``label rates``: an estimate weights strata) are left out, and so are checks that have nothing
    to say of this system. Checks that are not in :data:`POLICY` stay as they are.

    Parameters
    ----------
    checks
        Of :func:`label_checks`.
    system
        The system whose accuracy is estimated.
    error_rates, transition
        Whether the estimate knows rates of wrong verdicts, or the chances with which classes are
        ruled out: it does not rest on right verdicts, or on uniform routing, then.

    Examples
    --------
    >>> from noracle import AccuracyCounts, check_hits
    >>> fair = AccuracyCounts.from_counts(system="fair", n_classes=5, ordinary=(200, 150), complementary=(800, 750))
    >>> told = AccuracyCounts.from_counts(system="told", n_classes=5, ordinary=(150, 150), complementary=(50, 0))
    >>> check = check_hits(fair + told)
    >>> [checks_for([check], name)[0].passed for name in ("fair", "told")]
    [True, False]
    """
    found = []
    for check in checks:
        rule = POLICY.get(check.name)
        if rule is not None and (
            not rule.estimate
            or (error_rates and "error rates" in rule.moot)
            or (transition and "transition" in rule.moot)
        ):
            continue
        narrow = _narrowed(check, system) if rule is not None else check
        if narrow is not None:
            found.append(narrow)
    return tuple(found)


def _narrowed(check: Check, system: str) -> Check | None:
    """The check of one system; None where it has parts by system and none of this one."""
    if not check.parts or any("system" not in part for part in check.parts):
        return check
    own = next((part for part in check.parts if part["system"] == system), None)
    if own is None:
        return None
    return dataclasses.replace(
        check,
        p_value=own["p_value"],
        statistic=own["statistic"],
        finding=own.get("what", check.finding),
        parts=(own,),
        counts={**check.counts, "systems": 1},
    )


def bears_on_estimates(check: Check) -> bool:
    """Whether a failure of this check takes the promise of an estimate of accuracy away."""
    return check.name not in POLICY or POLICY[check.name].estimate


def for_comparison(checks: Sequence[Check]) -> tuple[Check, ...]:
    """The checks that bear on a comparison or a race of the systems that they look at."""
    return tuple(c for c in checks if c.name not in POLICY or POLICY[c.name].comparison)


def remedy(check: Check) -> str:
    """What to do after a failure of this check, in one sentence; empty for a check that is not in
    :data:`POLICY`.
    """
    return POLICY[check.name].remedy if check.name in POLICY else ""
