"""Do the labels look as the assumptions say?"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import narwhals as nw
import numpy as np

from noracle.accuracy.clusters import check_clusters, has_clusters
from noracle.accuracy.score import (
    Floats,
    Stratum,
    added,
    binomial_cells,
    cell_variance,
    law_of,
    require_type,
    share_answered,
    share_hit,
    strata_of,
    unclipped,
)
from noracle.bounds import binomial as linear
from noracle.bounds.betting import Score, log_wealth
from noracle.bounds.binomial import BinomialCell, bdtr, bdtrc, chdtrc, log_choose, ndtr
from noracle.counts import AccuracyCounts, JudgementCounts, count_accuracy, count_judgements
from noracle.counts.count import count_first_verdicts, labels_of, met_once
from noracle.counts.tally import Question
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
    counts = evidence
    if isinstance(counts, Evidence):
        counts = count_judgements(counts, by_time=by_time)
    asked = {q: n for q, n in counts.questions.items() if q.propensity is not None}
    others_say_no = any(q.verdict == "no" for q in counts.questions if q.propensity is None)
    return dataclasses.replace(counts, questions=asked) if asked and not others_say_no else counts


def _inverse(q: Question) -> float:
    return 1 / float(q.propensity or 1)


def _recorded(questions: Iterable[Question]) -> frozenset[Question]:
    """The questions of a design that is not uniform: all that have a propensity, if one of them is
    not 1/K; else none.

    Whether a design is uniform is a property of the whole table: beside others, a propensity of 1/K
    may depend on the answers.
    """
    told = [q for q in questions if q.propensity is not None]
    uneven = any(abs(float(q.propensity or 0) * q.n_classes - 1) > _UNIFORM_WITHIN for q in told)
    return frozenset(told if uneven else ())


def is_question(counts: JudgementCounts, protocol: Protocol | None) -> bool:
    """Whether how often classes were asked can be compared with the design.

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
    asked = [(q.propensity, q.n_classes) for q in questions if q.propensity]
    least = (min(p, (1 - p) / (n_classes - 1) or 1.0) for p, n_classes in asked)
    return 1 / min(least) if asked else None


_Part = dict[str, Any]


def _part(n: int, statistic: float, p_value: float, what: str, **about: Any) -> _Part:
    return {**about, "n": n, "statistic": statistic, "p_value": p_value, "what": what}


def _joined(parts: Sequence[_Part]) -> tuple[float, _Part | None]:
    """The p-value of all parts by Bonferroni, and the worst; parts of the same counts are one."""
    told = [p for p in parts if not math.isnan(p["p_value"])]
    tests = len({p.get("same", i) for i, p in enumerate(told)})
    worst = min(told, key=lambda p: float(p["p_value"]), default=None)
    return min(1.0, worst["p_value"] * tests) if worst else math.nan, worst


def _checked(
    name: str,
    assumption: str,
    parts: Sequence[_Part],
    *,
    without: str,
    method: str,
    refutes_only: bool = False,
    counts: Mapping[str, int] | None = None,
    seed: int | None = None,
) -> Check:
    """A check out of its parts, by default one per system."""
    p_value, worst = _joined(parts)
    return Check(
        name=name,
        assumption=assumption,
        p_value=p_value,
        statistic=worst["statistic"] if worst else math.nan,
        finding=worst["what"] if worst else without,
        method=method,
        refutes_only=refutes_only,
        parts=tuple({k: v for k, v in p.items() if k != "same"} for p in parts),
        counts={"systems": len(parts)} if counts is None else counts,
        diagnostics={} if seed is None else {"seed": seed},
    )


def _of_system(
    name: str, n: int, tests: Sequence[tuple[float, float, str]], *, without: str = ""
) -> _Part:
    """The part of one system out of its tests (p-value, statistic, what), joined by Bonferroni."""
    if not tests:
        what = f"{name}: {without or 'nothing to compare'}"
        return _part(n, math.nan, math.nan, what, system=name)
    p, statistic, what = min(tests, key=lambda test: test[0])
    return _part(n, statistic, min(1.0, p * len(tests)), what, system=name)


def _simulated_p(simulated: Floats, statistic: float) -> float:
    return float((1 + np.sum(simulated >= statistic - 1e-9)) / (_SIMULATIONS + 1))


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
    parts = [p for name in sorted(groups) for p in _routing_parts(name, groups[name], aimed, rng)]
    p_value, worst = _joined(parts)
    n = sum(counts.questions.values())
    finding = f"{n} questions agree with the recorded design"
    if worst is None:
        finding = "too few questions to tell"
    elif p_value < 1e-3:
        finding = f"classes were not asked as recorded: {worst['what']} in {worst['group']}"
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
) -> list[_Part]:
    parts = []
    # Engines give rows in any order; ties and sums must not depend on it.
    rows = sorted(questions.items(), key=str)
    for k in sorted({q.n_classes for q in questions if q not in aimed}):
        asked = added((q.asked, n) for q, n in rows if q not in aimed and q.n_classes == k)
        observed = np.array([*asked.values(), *([0] * (k - len(asked)))], dtype=float)
        n = int(observed.sum())
        expected = n / k
        statistic = float(((observed - expected) ** 2).sum() / expected)
        if expected >= 5:
            p = float(chdtrc(k - 1, statistic))
        else:
            draws = rng.multinomial(n, np.full(k, 1 / k), size=_SIMULATIONS)
            p = _simulated_p(((draws - expected) ** 2).sum(axis=1) / expected, statistic)
        most = max(asked, key=lambda c: asked[c])
        what = f"class {most} asked {asked[most]} times, expected {expected:.1f}"
        by_class = {str(c): v for c, v in sorted(asked.items(), key=str)}
        parts.append(_part(n, statistic, p, what, group=name, n_classes=k) | {"asked": by_class})
    for k in sorted({q.n_classes for q in questions if q in aimed}):
        own = [(q, n) for q, n in rows if q in aimed and q.n_classes == k]
        values = added((_inverse(q), n) for q, n in own)
        average = _mean(values)
        p = _bets_p(values, values, float(k), 1.0, highest_inverse(q for q, _ in own))
        what = f"mean inverse propensity {average:.3f}, expected {k}"
        parts.append(_part(values.total(), average, p, what, group=name, n_classes=k))
    return parts


def _mean(values: Counter[float]) -> float:
    return sum(v * n for v, n in values.items()) / values.total()


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
    questions = _judgements(evidence).questions
    said = {q: n for q, n in questions.items() if q.verdict != "unsure"}
    recorded = _recorded(questions)
    uniform = {q: n for q, n in said.items() if q not in recorded}
    sizes = added((q.n_classes, n) for q, n in uniform.items())
    yes = sum(n for q, n in uniform.items() if q.verdict == "yes")
    parts = []
    if yes:
        n, expected = sizes.total(), sum(size / k for k, size in sizes.items())
        p = sum_of_binomials_p([(size, 1 / k) for k, size in sizes.items()], yes)
        what = f"{yes} yes of {n}, expected {expected:.1f}"
        parts.append(_part(n, yes / n, p, what, expected=expected / n))
    if any(q in recorded for q in said):
        aimed = [(q, n) for q, n in sorted(questions.items(), key=str) if q in recorded]
        least = added((_inverse(q) if q.verdict == "yes" else 0.0, n) for q, n in aimed)
        most = added((_inverse(q) if q.verdict != "no" else 0.0, n) for q, n in aimed)
        average = _mean(least)
        p = _bets_p(least, most, 1.0, 0.0, highest_inverse(q for q, _ in aimed))
        what = f"mean of yes over propensity {average:.3f}, expected 1"
        parts.append(_part(least.total(), average, p, what, expected=1.0))
    without = "not applicable: there is no yes among the verdicts"
    return Check(
        name="yes rate",
        assumption="right verdicts",
        refutes_only=True,
        p_value=_joined(parts)[0],
        statistic=parts[0]["statistic"] if parts else math.nan,
        finding="; ".join(x["what"] for x in parts) or without,
        method="exact binomial" if uniform else "bets on the mean of yes over propensity",
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
    if len(parts) == 1:
        (n, p), k = parts[0], observed
        return float(bdtr(k, n, p)), float(bdtrc(k - 1, n, p)) if k else 1.0
    if sum(n for n, _ in parts) > _MOST_EXACT:
        off = observed - sum(n * p for n, p in parts)
        spread = math.sqrt(sum(n * p * (1 - p) for n, p in parts))
        return float(ndtr((off + 0.5) / spread)), float(ndtr((0.5 - off) / spread))
    pmf = np.ones(1)
    for n, p in parts:
        s = np.arange(n + 1.0)
        one = np.asarray(s == n * p, dtype=float)
        if 0 < p < 1:
            one = np.exp(log_choose(n, s) + s * math.log(p) + (n - s) * math.log1p(-p))
        pmf = np.convolve(pmf, one) if len(pmf) > 1 else one
    return float(pmf[: observed + 1].sum()), float(pmf[observed:].sum())


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
    return _checked(
        "overlap",
        "uniform routing",
        [_overlap_part(counts.of(name), name) for name in _names(counts, system)],
        without="not applicable: needs ordinary and complementary labels",
        method="exact binomial on common items, else normal",
    )


def _accuracy(evidence: Evidence | AccuracyCounts, system: str | None = None) -> AccuracyCounts:
    require_type(evidence, Evidence, AccuracyCounts)
    if isinstance(evidence, AccuracyCounts):
        return evidence
    return count_accuracy(evidence, systems=None if system is None else [system])


def _names(counts: AccuracyCounts, system: str | None) -> tuple[str, ...]:
    return counts.systems if system is None else (system,)


def _overlap_part(counts: AccuracyCounts, name: str) -> _Part:
    # A grade has no class to rule out.
    uniform = {t: n for t, n in counts.tallies.items() if t.answered and t.design == "uniform"}
    both = {
        t: n
        for t, n in uniform.items()
        if t.verdict == "yes" and t.n_ruled_out and not t.hit and t.hit_share is None
    }
    if both:
        trials = added((t.n_ruled_out / (t.n_classes - 1), n) for t, n in both.items())
        hits, total = sum(n for t, n in both.items() if t.ruled_hit), trials.total()
        p = sum_of_binomials_p([(n, min(share, 1.0)) for share, n in trials.items()], hits)
        expected = sum(n * share for share, n in trials.items())
        what = f"{name}: {hits} of {total} wrong answers ruled out, expected {expected:.1f}"
        return _part(total, hits / total, p, what, system=name)
    difference, variance, n = 0.0, 0.0, 0
    # An item whose repeats differ is neither right nor wrong.
    apart = any(t.hit_share is not None for t in counts.tallies)
    for stratum in () if apart else strata_of(counts):
        ordinary, other = (linear.merge(_uniform_cells(stratum, v)) for v in ("yes", "no"))
        if not ordinary or len(other) != 1:
            continue
        o, c = ordinary[0], other[0]
        rate = linear.maximum_likelihood((o, c))
        weight = o.n * c.n / (o.n + c.n)
        difference += weight * (unclipped(o) - unclipped(c))
        variance += weight**2 * (cell_variance(o, rate) + cell_variance(c, rate))
        n += o.n + c.n
    if n < 30 or variance <= 0:
        return _of_system(name, n, (), without="too few labels of both kinds")
    z = difference / math.sqrt(variance)
    what = f"{name}: ordinary and complementary estimates differ by {z:.1f} standard errors"
    return _part(n, z, float(2 * ndtr(-abs(z))), what, system=name)


def _uniform_cells(stratum: Stratum, verdict: str) -> tuple[BinomialCell, ...]:
    rows = stratum.tallies.items()
    own = {t: n for t, n in rows if t.verdict == verdict and t.design != "recorded"}
    return binomial_cells(dataclasses.replace(stratum, tallies=own))


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
    truth is, and #{hits} is compared with Σ m_i/K_i (Poisson binomial, exact, two-sided); yes, no
    and unsure count the same. Where the number of questions differs between items of one K, it may
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
    counts, protocol, asked = _design(evidence, system, protocol, judgements)
    uniform: _Uniform = "questions" if are_questions(counts, protocol, asked) else "none"
    if uniform == "none" and counts.propensities == "uniform" and asked is not None:
        uniform = "some"
    if isinstance(evidence, Evidence):
        few = few and not recorded_grades(evidence)
    highest = None if asked is None or not few else highest_inverse(asked.questions)
    return _checked(
        "hits",
        "answers made without the verdicts",
        [_hits_part(counts.of(s), s, uniform, highest) for s in _names(counts, system)],
        without="not applicable: needs questions about items with an answer",
        method="exact Poisson binomial; bets on the mean of inverse propensities",
        refutes_only=True,
    )


def _design(
    evidence: Evidence | AccuracyCounts,
    system: str | None,
    protocol: Protocol | None,
    asked: JudgementCounts | None,
) -> tuple[AccuracyCounts, Protocol | None, JudgementCounts | None]:
    """The counts, the protocol and the questions: what was given, else what the tables say."""
    counts = _accuracy(evidence, system)
    if isinstance(evidence, Evidence):
        protocol = protocol or evidence.protocol
        if asked is None and evidence.judgements is not None:
            asked = count_judgements(evidence, by_rater=False, counts=counts)
    return counts, protocol, asked


def are_questions(
    counts: AccuracyCounts, protocol: Protocol | None, judgements: JudgementCounts | None = None
) -> bool:
    """Whether the labels that count as uniform all answer random questions, and none is an open one
    (say the class) or of a set.
    """
    questions = () if judgements is None else judgements.questions
    bare = {q.verdict for q in questions if q.propensity is None}
    if any(q.propensity is not None for q in questions):
        # Beside questions with a propensity, labels without one that never say no were open
        # questions.
        return "no" in bare or (not bare and counts.propensities == "uniform")
    if judgements is None:
        bare = {t.verdict for t in counts.tallies if t.design == "uniform"}
    return protocol == "question" or (protocol is None and {"yes", "no"} <= bare)


def numbers_asked(counts: AccuracyCounts) -> dict[int, set[int]]:
    """For every number of classes, how many of them uniform labels speak of; an unsure beside
    several makes it uncertain (0).
    """
    found: dict[int, set[int]] = defaultdict(set)
    uniform = [t for t in counts.tallies if t.design == "uniform"]
    for t in uniform:
        if t.verdict != "unsure":
            found[t.n_classes].add(max(1, t.n_ruled_out + (t.verdict == "yes")))
    for k in {t.n_classes for t in uniform if t.verdict == "unsure"}:
        found[k].add(1 if found[k] <= {1} else 0)
    return found


_Uniform = Literal["questions", "some", "none"]


def _hits_part(
    counts: AccuracyCounts, name: str, uniform: _Uniform, highest: float | None
) -> _Part:
    asked = numbers_asked(counts)
    tallies = counts.tallies
    differ = {t.n_classes for t in tallies if t.hit_share is not None and t.design == "uniform"}
    # Questions by the chance of a hit, known and at most; scores with mean 1.
    fixed: Counter[float] = Counter()
    bounded: Counter[float] = Counter()
    up: Counter[float] = Counter()
    down: Counter[float] = Counter()
    hits = ruled = 0
    bound = highest if any(t.design == "recorded" for t in tallies) else 1.0
    for t, n in sorted(tallies.items(), key=str):
        share, k = share_answered(t), t.n_classes
        if not share:
            continue
        if t.design == "recorded":
            value = ((t.yes_score or 0.0) + (t.no_score or 0.0)) / share
            unknown = t.verdict == "unsure" and (t.hit or bool(t.hit_share))
            up[1.0 if unknown and t.hit_share is None else value] += n
            down[(bound or 0.0) if unknown else value] += n
        elif uniform == "none" or t.design == "graded":
            continue
        elif k in differ:
            # Answers that differ between repeats hit in part: the share that does has mean 1/K.
            if asked[k] == {1} and uniform == "questions":
                value = k * (share_hit(t) / share if t.hit_share is not None else float(t.hit))
                up[value] += n
                down[value] += n
                bound = None if bound is None else max(bound, float(k))
        elif uniform == "questions" and len(asked[k]) == 1 and 0 not in asked[k]:
            fixed[min(1.0, min(asked[k]) / k)] += n
            hits += n * (t.hit or t.ruled_hit)
        elif t.n_ruled_out and (t.verdict == "no" or not t.hit):
            bounded[law_of("no", k, t.n_ruled_out).b] += n
            ruled += n * t.ruled_hit
    found = []
    for trials, seen, words, p_value in (
        (fixed, hits, "questions were about the answer, expected", sum_of_binomials_p),
        (bounded, ruled, "answers were ruled out, expected at most", _at_least_p),
    ):
        if n := trials.total():
            expected = sum(n * p for p, n in trials.items())
            p = p_value([(n, p) for p, n in sorted(trials.items())], seen)
            what = f"{name}: {seen} of {n} {words} {expected:.1f}"
            found.append((p, seen / expected, what))
    if up.total():
        what = f"mean inverse propensity of questions about the answer {_mean(up):.3f}, expected 1"
        p = _bets_p(up, down, 1.0, 0.0, bound)
        found.append((p, _mean(up), f"{name}: {what}"))
    n = fixed.total() + bounded.total() + up.total()
    return _of_system(name, n, found, without="no question to look at")


def _at_least_p(parts: Sequence[tuple[int, float]], observed: int) -> float:
    return min(1.0, _tails_of_binomials(parts, observed)[1])


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

    def off(draws: Any) -> Any:
        return (draws - rate * sizes) ** 2 / (rate * (1 - rate) * sizes)

    worst = cells[int(off(drawn).argmax())]
    small = sizes * min(rate, 1 - rate) < 5
    if small.any() and len(cells) > _MOST_SIMULATED_CELLS:  # too many: small cells are one
        sizes, drawn = (np.append(v[~small], v[small].sum()) for v in (sizes, drawn))
        if len(sizes) < 2:
            return math.nan, math.nan, None
        small = sizes * min(rate, 1 - rate) < 5
    statistic = float(off(drawn).sum())
    if not small.any():
        return float(chdtrc(len(sizes) - 1, statistic)), statistic, worst
    draws = rng.multivariate_hypergeometric(sizes, n, size=_SIMULATIONS, method="marginals")
    return _simulated_p(off(draws).sum(axis=1), statistic), statistic, worst


def _place(stratum: str, n_classes: int, weight: float = 1.0) -> str:
    words = (
        f"stratum {stratum!r}" if stratum else "",
        f"{n_classes} classes" if n_classes else "",
        f"weight {weight:g}" if weight != 1 else "",
    )
    return ", ".join(filter(None, words)) or "items without a stratum"


def check_label_rates(
    evidence: Evidence | AccuracyCounts, *, system: str | None = None, seed: int = 0
) -> Check:
    """Were items labelled at the same rate in all strata?

    Judged items with an answer are counted by stratum, number of classes and weight, and compared
    with all items with an answer. An estimate of accuracy gives each stratum its share of the
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

    Assumes that the items to be labelled were drawn without replacement, each with the same chance.

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
        judged = added(
            ((t.stratum, t.n_classes, t.weight), n if share_answered(t) else 0)
            for t, n in own.tallies.items()
        )
        answered = added(((c.stratum, c.n_classes, c.weight), n) for c, n in own.answered.items())
        p, statistic, worst = _same_rate(judged, answered, np.random.default_rng(seed))
        what = f"{name}: nothing to compare"
        if worst is not None:
            here = f"{judged[worst]} of {answered[worst]} items judged in {_place(*worst)}"
            what = f"{name}: {here}, {judged.total()} of {answered.total()} in all"
        same = _key(judged, answered)
        parts.append(_part(judged.total(), statistic, p, what, system=name, same=same))
    return _checked(
        "label rates",
        "same label rate in all strata",
        parts,
        without="not applicable: one stratum, or every item is judged",
        method="chi-square; simulated where counts are small",
        seed=seed,
    )


def _key(*tables: Mapping[Any, Any]) -> tuple[Any, ...]:
    """What tells the counts of a test from others."""
    return tuple(tuple(sorted(map(str, table.items()))) for table in tables)


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
    counts, protocol, asked = _design(evidence, system, protocol, judgements)
    random = are_questions(counts, protocol, asked)
    return _checked(
        "missing verdicts",
        "verdicts missing at random",
        [_missing_part(counts.of(s), s, random, seed) for s in _names(counts, system)],
        without="not applicable: no unsure verdict beside others",
        method="exact conditional test; chi-square",
        refutes_only=True,
        seed=seed,
    )


def _missing_part(counts: AccuracyCounts, name: str, questions: bool, seed: int) -> _Part:
    asked = numbers_asked(counts)
    # Items, hits, unsure and unsure hits.
    tables: dict[Any, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    rows = counts.tallies.items()
    judged = added(((t.stratum, t.n_classes), n) for t, n in rows)
    unsure = added(((t.stratum, t.n_classes), n * (t.verdict == "unsure")) for t, n in rows)
    for t, n in rows:
        missing = t.verdict == "unsure"
        single = t.design == "recorded" or (
            t.design == "uniform" and questions and asked[t.n_classes] <= {1}
        )
        if single and t.answered and t.hit_share is None:
            table = tables[t.stratum, t.n_classes, t.weight, t.design]
            for i, counted in enumerate((True, t.hit, missing, missing and t.hit)):
                table[i] += n * counted
    p, statistic, worst = _same_rate(unsure, judged, np.random.default_rng(seed))
    found: list[tuple[float, float, str]] = []
    if worst is not None:
        here = f"{unsure[worst]} of {judged[worst]} unsure with {_place(*worst)}"
        what = f"{name}: {here}, {unsure.total()} of {judged.total()} in all"
        found.append((p, statistic, what))
    size, about, left, hit = np.sum([*tables.values(), [0] * 4], axis=0).tolist()
    p = sum_of_hypergeometrics_p([(n, m, k) for n, m, k, _ in tables.values()], hit)
    if not math.isnan(p):
        here = f"{hit} of {about} questions about the answer are unsure"
        found.append((p, hit / about, f"{name}: {here}, {left - hit} of {size - about} others"))
    same = {"same": _key(unsure, judged, tables)} if found else {}
    return _of_system(name, judged.total(), sorted(found)) | same


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
            logs = log_choose(marked, x) + log_choose(size - marked, drawn - x)
            pmf = np.convolve(pmf, np.exp(logs - log_choose(size, drawn)))
    if not free:
        return math.nan
    if free > _MOST_EXACT:
        z = (abs(observed - mean) - 0.5) / math.sqrt(variance)
        return float(min(1.0, 2 * ndtr(-max(z, 0.0))))
    seen = observed - shift
    return _two_sided(float(pmf[: seen + 1].sum()), float(pmf[seen:].sum()))


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
    require_type(evidence, Evidence)
    rng = np.random.default_rng(seed)
    tables = _graded_answers(evidence)
    names = sorted({key[0] for key in tables} if system is None else {system})
    return _checked(
        "grading",
        "graded whatever the answer",
        [_grading_part(name, tables, rng) for name in names],
        without="not applicable: needs grades of some answers, and answers of other systems or judgements beside them",
        method="chi-square; simulated where counts are small",
        refutes_only=True,
        seed=seed,
    )


def _graded_answers(evidence: Evidence) -> dict[tuple[str, str, str], dict[Any, list[int]]]:
    """Answers and graded ones, by system, look and stratum, and by what is looked at."""
    found: dict[tuple[str, str, str], dict[Any, list[int]]] = defaultdict(
        lambda: defaultdict(lambda: [0, 0])
    )
    if evidence.grades is None or evidence.answers is None:
        return found
    evidence.check()
    met = met_once(evidence, evidence.answers, labels_of(evidence)).filter(nw.col("answered"))
    given = evidence.answers.filter(~nw.col("answer").is_null())
    votes = given.group_by("item", "answer").agg(votes=nw.len())
    given = given.select("item", "system", "answer").join(votes, on=["item", "answer"], how="inner")
    given = given.select("item", "system", "votes")
    frame = met.join(given, on=["item", "system"], how="inner")
    frame = frame.with_columns(graded=(~nw.col("grade").is_null()).cast(nw.Int64))
    stratum = [name for name in ("stratum",) if name in met.columns]
    keys = ["system", "votes", "verdict", "hit", *stratum]
    sizes = frame.group_by(*keys).agg(n=nw.len(), graded=nw.col("graded").sum())
    for name, shared, verdict, hit, *place, n, graded in fetch(sizes.select(*keys, "n", "graded")):
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
) -> _Part:
    found, total = [], 0
    for (_, look, _), cells in sorted((k, cells) for k, cells in tables.items() if k[0] == name):
        sizes, graded = ({c: row[i] for c, row in cells.items()} for i in (0, 1))
        total += sum(graded.values()) if look == "agreement" else 0
        p, statistic, worst = _same_rate(graded, sizes, rng)
        if worst is None:
            continue
        if look == "agreement":
            about = f"that {worst} system{'' if worst == 1 else 's'} gave"
        else:
            about = f"beside {worst[0]} to {'the answer' if worst[1] else 'another class'}"
        here = f"{graded[worst]} of {sizes[worst]} answers {about} were graded"
        what = f"{name}: {here}, {sum(graded.values())} of {sum(sizes.values())} in all"
        found.append((p, statistic, what))
    return _of_system(name, total, sorted(found))


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
    For t = 1, 2, …: of the items with at least t questions, those with more are compared with the
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
    require_type(evidence, Evidence)
    table = count_first_verdicts(evidence)
    rng = np.random.default_rng(seed)
    parts = []
    for t in range(1, max((n for _, n in table), default=0)):
        reached = added((verdict, items * (n >= t)) for (verdict, n), items in table.items())
        more = added((verdict, items * (n > t)) for (verdict, n), items in table.items())
        p, statistic, odd = _same_rate(more, reached, rng)
        if odd is None:
            continue
        rates = [f"{more[v]} of {reached[v]} after {v}" for v in VERDICTS.values() if reached[v]]
        what = f"asked again after question {t}, by the first verdict: {', '.join(rates)}"
        parts.append(_part(reached.total(), statistic, p, what, question=t))
    return _checked(
        "number of questions",
        "number of questions fixed beforehand",
        parts,
        without="not applicable: needs recorded propensities and items with several questions",
        method="chi-square; simulated where counts are small",
        counts={"items": sum(table.values())},
        seed=seed,
    )


# Which checks labels must pass, and what their outcome does: one list for Python, the command line and the report.


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
    "hits": Rule(("answers made without the verdicts",), f"{_DRAW} {_SETS}", moot=("transition",)),
    # An estimate gives each stratum its share of the items, whatever the rate at which it was
    # labelled.
    "time of upload": Rule(
        ("answers made without the verdicts",),
        "Add systems, or commit to their answers, before the first answer is received.",
    ),
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
    require_type(evidence, Evidence, AccuracyCounts)
    if isinstance(evidence, AccuracyCounts) or (
        evidence.judgements is None and evidence.grades is None
    ):
        known = evidence if isinstance(evidence, AccuracyCounts) else counts
        found = [] if known is None else _count_checks(known, systems, protocol, judgements, seed)
        return _ordered(found)
    protocol = protocol or evidence.protocol
    if counts is None and (evidence.answers is not None or evidence.grades is not None):
        counts = count_accuracy(evidence, systems=systems)
    asked = judgements
    if asked is None and evidence.judgements is not None:
        asked = count_judgements(evidence, by_rater=False, counts=counts)
    found = late_of(evidence, systems)
    if asked is not None and is_question(asked, protocol):
        routing = check_routing(asked, seed=seed)
        found.append(dataclasses.replace(routing, diagnostics={"seed": seed}))
        stops = counts is not None and counts.propensities == "none" and _stops(counts)
        if protocol != "sets" and not stops:
            found.append(check_yes_rate(asked))
    if counts is not None:
        few = not recorded_grades(evidence)
        found += _count_checks(counts, systems, protocol, asked, seed, few=few)
    one = systems[0] if systems and len(systems) == 1 else None
    if evidence.grades is not None and evidence.answers is not None:
        graded = check_grading(evidence, system=one, seed=seed)
        wanted = tuple(p for p in graded.parts if systems is None or p["system"] in systems)
        if any(not math.isnan(part["p_value"]) for part in wanted):
            found.append(dataclasses.replace(graded, parts=wanted))
    if clusters == "ignore" and counts is not None and has_clusters(evidence):
        found.append(check_clusters(evidence, system=one, population=population, seed=seed))
    tables = [table for table in (evidence.judgements, evidence.grades) if table is not None]
    timed = all("at" in table.columns for table in tables)
    if propensities_of(evidence) == "recorded" and not timed:
        found += [c for c in (check_questions(evidence, seed=seed),) if c.parts]
    return _ordered(found)


def late_checks(systems: Iterable[str]) -> list[Check]:
    """That these systems were uploaded after answers: they may have been made from the verdicts."""
    what = "uploaded after answers"
    parts = [_part(1, 1.0, 0.0, f"{name}: {what}", system=name) for name in sorted(systems)]
    if not parts:
        return []
    rests, method = "answers made without the verdicts", "the order of the events"
    about: Any = {"without": "", "method": method, "refutes_only": True}
    return [_checked("time of upload", rests, parts, **about)]


def late_of(evidence: Evidence, systems: Sequence[str] | None) -> list[Check]:
    """The same of evidence whose answers mark such systems, as exports of a project do. It is no
    test: it holds whether labels are checked or not.
    """
    answers = evidence.answers
    if answers is None or "after_answers" not in answers.columns:
        return []
    late = fetch(answers.filter(nw.col("after_answers") > 0).select("system").unique())
    return late_checks(n for (n,) in late if systems is None or n in systems)


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
    """Whether numbers of uniform questions differ: a yes may have ended them, by design."""
    return any(len(m - {0}) > 1 for m in numbers_asked(counts).values())


def _count_checks(
    counts: AccuracyCounts,
    systems: Sequence[str] | None,
    protocol: Protocol | None,
    judgements: JudgementCounts | None,
    seed: int,
    *,
    few: bool = True,
) -> list[Check]:
    """The checks that counts allow; without a protocol and without questions they may be of labels
    collected as sets.

    ``few`` says that no propensity is less than those that judgements show or imply.
    """
    counts = _chosen(counts, systems)
    tallies = counts.tallies
    if judgements is None and protocol is None:
        protocol = "sets"
    found: list[Check] = []
    if any(t.design == "uniform" for t in tallies):
        found.append(dataclasses.replace(check_overlap(counts), refutes_only=True))
    if (
        any(t.design == "recorded" for t in tallies if t.answered or t.answered_share)
        or counts.propensities == "uniform"
        or are_questions(counts, protocol, judgements)
    ):
        found.append(check_hits(counts, protocol=protocol, judgements=judgements, few=few))
    if len({(c.stratum, c.n_classes, c.weight) for c, n in counts.answered.items() if n}) > 1:
        found.append(check_label_rates(counts, seed=seed))
    unsure = {t.verdict == "unsure" for t in tallies}
    if len(unsure) > 1:
        found.append(check_missing(counts, protocol=protocol, judgements=judgements, seed=seed))
    return [c for c in found if c.name == "overlap" or not math.isnan(c.p_value)]


def _ordered(checks: Sequence[Check]) -> tuple[Check, ...]:
    order = list(POLICY)
    return tuple(sorted(checks, key=lambda c: order.index(c.name)))


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
    known = {name for name, on in (("error rates", error_rates), ("transition", transition)) if on}
    found = []
    for check in checks:
        rule = POLICY.get(check.name)
        if rule is None:
            found.append(check)
        elif rule.estimate and not known & {*rule.moot}:
            found += _narrowed(check, system)
    return tuple(found)


def _narrowed(check: Check, system: str) -> list[Check]:
    """The check of one system; none where it has parts by system and none of this one."""
    if not check.parts or any("system" not in part for part in check.parts):
        return [check]
    own = [part for part in check.parts if part["system"] == system][:1]
    return [
        dataclasses.replace(
            check,
            p_value=part["p_value"],
            statistic=part["statistic"],
            finding=part.get("what", check.finding),
            parts=(part,),
            counts={**check.counts, "systems": 1},
        )
        for part in own
    ]


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
