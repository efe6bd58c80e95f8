"""Is the system better than the people whose votes it is judged by?"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from noracle.bounds.betting import FRACTIONS, LOG_PRIOR
from noracle.counts.ratings import RatingCounts, count_ratings
from noracle.errors import ArgumentError, by_nearness, require, require_evidence
from noracle.results import Assumption, Certificate, Check, check_confidence, choose
from noracle.superhuman.bounds import FROM_AGREEMENT
from noracle.superhuman.difference import (
    CEILINGS,
    PAIRED,
    Apart,
    Ceiling,
    CeilingName,
    Row,
    Tested,
    Ties,
    VoteSample,
    ceiling_for,
    sample_by_cluster,
    sample_of,
    sample_of_matches,
)
from noracle.superhuman.statement import (
    DEPENDENT,
    NOT_A_BOUND,
    ONE_RATING,
    TWO_RATINGS,
    Trained,
    check_margin,
    conclude,
    read_check,
    trained_word,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from noracle.evidence.ratings import Ratings
    from noracle.superhuman.aggregate import AggregatedLabels

Test = Literal["betting", "bernstein", "binomial", "t", "paper-hms", "paper-oms"]
TESTS: tuple[Test, ...] = get_args(Test)
Aggregate = Literal["plurality", "majority", "weighted", "dawid-skene", "mace"]
_FITTED = Assumption(
    name="aggregate fixed without these items",
    status="failed",
    detail="its weights were fitted on them",
)

_WEIGHED = "an aggregate that weighs raters treats their errors as independent and fails silently where they are not"


def certify_superhuman(
    ratings: Ratings | RatingCounts | object,
    answers: object = None,
    *,
    items: object = None,
    system: str | None = None,
    margin: float = 0.0,
    aggregate: Aggregate | AggregatedLabels = "plurality",
    ties: Ties | None = None,
    test: Test = "betting",
    ceiling: CeilingName | None = None,
    trained_on_annotators: Trained | bool | None = "unknown",
    check: Check | None = None,
    clusters: Literal["auto", "ignore"] = "auto",
    confidence: float = 0.95,
    seed: int = 0,
) -> Certificate:
    """Certify that a system is more accurate than the average annotation by more than ``margin``,
    or say why not.

    Parameters
    ----------
    ratings, answers
        A table of ratings (``item``, ``rater``, ``label``) and one of answers (``item``,
        ``system``, ``answer``), each in any form that
        :meth:`noracle.evidence.Ratings.from_tables` takes. Or one argument:
        :class:`~noracle.evidence.Ratings` that hold the answers, or their counts.
    items
        A table with ``item`` and ``cluster`` beside the two tables; see ``clusters``.
    system
        The system to judge; may be left out where there is one. An item that it did not answer
        counts as not matching.
    margin
        How much better it must be, in [0, 1).
    aggregate
        The label of an item that the system is compared with. ``plurality`` (also ``majority``):
        the most frequent one. ``weighted``, ``dawid-skene`` and ``mace`` (or what
        ``aggregate_labels`` returned) are fitted on all items at once, so that items no longer are
        independent: HEURISTIC, and never certified.
    ties
        ``share``: an answer among t tied labels counts 1/t. ``random``: a seeded draw among them
        that does not see the system; then the certificate is valid at one look only, and the seed
        must be fixed beforehand. Default ``share``; ``random`` for the test ``binomial``, which
        needs whole counts.
    test
        ``betting`` (finite-sample, valid at every look), ``bernstein`` (finite-sample) and ``t``
        (asymptotic) test the mean of Z = match - share of the top label, item by item. ``binomial``
        (finite-sample) tests match rate and ceiling apart by exact tails. ``paper-hms`` and
        ``paper-oms`` are the published scores.
    ceiling
        For ``binomial``: ``plurality`` (default), ``free``, ``quadratic``, ``paper`` or
        ``paper-empirical``; for the published scores ``paper`` (default) or ``paper-empirical``
        (HEURISTIC: not a bound). All but ``plurality`` need the same number of votes on every item.
    trained_on_annotators
        Was the system trained on labels of these annotators? ``unknown`` is never certified;
        ``yes`` only with a ``check`` that supports
        (6) at this confidence.
    check
        The check of (6) on items with known answers, by ``check_assumptions``.
    clusters
        Items of one cluster may depend on each other. ``auto`` takes the cluster as the unit where
        ``items`` name clusters: ``betting`` bets on sums over clusters, ``t`` has the CR2 variance;
        other tests, drawn ties and fitted aggregates are refused. ``ignore`` takes items as
        independent.

    Returns
    -------
    Certificate
        ``value`` is match rate minus ceiling, ``low`` its lower limit, ``attained`` the largest
        confidence at which the test would certify. ``reasons`` says why it is not certified.
        ``verify()`` tests it again with other code.

    Notes
    -----
    On every item the annotations that are right are at most those of the most frequent label, so
    the average annotation is right with probability of at most E[top/votes], whatever the
    annotators do and whatever decided how many votes an item has. Under (6), P(M = y | G ≠ y) ≥ P(M
    = G | G ≠ y), the system is right with probability of at least P(M = G). So E[Z] > margin proves
    the claim.

    Assumes one true label per item, independent items, and (6), which no rating can show: it is
    stated by ``trained_on_annotators`` or supported by a ``check`` on items with known labels.

    References
    ----------
    Xu, Walder and Xu, "Humanly certifying superhuman classifiers" (ICLR 2023); Waudby-Smith and
    Ramdas (2024), JRSS-B 86, 1-27; Maurer and Pontil (2009), COLT.

    Examples
    --------
    >>> votes = [[0, 0, 0]] * 150 + [[0, 0, 1]] * 150
    >>> counts = RatingCounts.from_arrays(votes, labels=2, answers={"agent": [0] * 300})
    >>> certificate = certify_superhuman(counts, trained_on_annotators="no")
    >>> certificate.certified, round(certificate.value, 3), certificate.verify()
    (True, 0.167, True)
    >>> certify_superhuman(counts).reasons[0][:42]
    'trained_on_annotators is not stated: a sys'
    """
    choose("test", test, TESTS)
    if isinstance(aggregate, str):
        choose("aggregate", aggregate, get_args(Aggregate))
    margin, confidence = check_margin(margin), check_confidence(confidence)
    trained = trained_word(trained_on_annotators)
    ceiling = ceiling_for(test, ceiling, CEILINGS)
    ties = _ties_for(test, ties)
    choose("clusters", clusters, ("auto", "ignore"))
    together = _together(ratings, answers, items)
    counts, matches, system = _counted(together, system, aggregate, seed)
    kept = read_check(check, system)
    method = aggregate if isinstance(aggregate, str) else aggregate.method
    if matches is None:
        sample, untied = sample_of(counts, system, ties=ties, seed=seed)
    else:
        sample = sample_of_matches(matches, counts)
        untied = sample.rows
    if clusters == "auto" and not isinstance(together, RatingCounts) and together.items is not None:
        by_cluster = sample_by_cluster(rated_items(together, system))
        if any(sum(row[4] for row in rows) > 1 for rows, _ in by_cluster.clusters):
            _fit_clusters(test, ties, fitted=matches is not None)
            sample, untied = by_cluster, by_cluster.rows
    inputs: dict[str, Any] = {
        "kind": "ratings",
        "test": test,
        "margin": margin,
        "confidence": confidence,
        "aggregate": method,
        "ties": ties if matches is None else "aggregate",
        "rows": [list(row) for row in untied],
        "trained_on_annotators": trained,
        "check": kept,
        "without_answer": int(counts.answers[system][:, -1].sum()),
        "unused": dict(counts.unused),
    }
    if sample.clusters:
        inputs["clusters"] = [[[list(row) for row in rows], int(n)] for rows, n in sample.clusters]
    if ties == "random" and matches is None:
        inputs |= {"seed": int(seed), "drawn": [list(row) for row in sample.rows]}
    if sample.votes is not None and sample.votes > 1:
        pairs = (counts.votes * (counts.votes - 1)).sum(axis=1)
        inputs["agreeing_pairs"] = int((pairs * counts.n_items).sum())
    if test not in PAIRED:
        # How many labels there are, where that was said and not read off the ratings.
        inferred = any("inferred" in line for line in counts.inferred)
        inputs |= {"ceiling": ceiling, "n_labels": None if inferred else len(counts.labels)}
        if ceiling != "plurality":
            _same_votes(counts, ceiling)
    return _decide(sample, system, inputs, fitted=matches is not None and method != "majority")


def _decide(
    sample: VoteSample, system: str, inputs: Mapping[str, Any], *, fitted: bool = False
) -> Certificate:
    """Run the test that the inputs name and conclude."""
    test, margin, error, n = inputs["test"], inputs["margin"], 1 - inputs["confidence"], sample.n
    ceiling = _ceiling_of(sample, inputs) if "ceiling" in inputs else None

    def apart(of: VoteSample, people: Ceiling) -> Apart:
        against = dataclasses.replace(people, n=of.n)
        return Apart(test, round(of.matched), of.match_rate, of.n, against)

    def p_at(times: float) -> float:
        more = sample.times(times)
        if ceiling is None:
            return PAIRED[test].p_value(more, margin)
        return apart(more, ceiling).p_value(margin)

    kind = PAIRED[test].kind if ceiling is None else ceiling.kind
    outcome = Tested(value=math.nan, low=-1.0, p_value=1.0, kind=kind)
    if n and ceiling is None:
        outcome = PAIRED[test].run(sample, margin, error)
    elif n and ceiling is not None:
        outcome = apart(sample, ceiling).run(margin, error)
    if inputs["ties"] != "share":  # ties are drawn again at every look
        outcome = dataclasses.replace(outcome, anytime=False)
    heuristic = ceiling is not None and ceiling.name == "paper-empirical"
    rests_on = [NOT_A_BOUND] if heuristic else []
    if ceiling is not None and ceiling.n_votes is not None:
        rests_on.append(Assumption(name=f"{ceiling.n_votes} ratings on every item by design"))
    notes = []
    if inputs.get("clusters_ignored"):
        rests_on.append(DEPENDENT)
    if sample.clusters:
        n_clusters = int(sum(times for _, times in sample.clusters))
        unit = "the cluster is the unit, and its items may depend on each other"
        notes.append(f"items come in {n_clusters} clusters: {unit}")
    if fitted:
        rests_on.append(_FITTED)
        notes.append(_WEIGHED)
    ceilings = {"plurality": sample.ceiling} if n else {}
    if n and sample.votes and "agreeing_pairs" in inputs:
        v = _agreement(sample, inputs)
        ceilings |= {name: bound(v, sample.votes) for name, bound in FROM_AGREEMENT.items()}
    most = max((row[3] for row in sample.rows), default=1)
    vacuous = TWO_RATINGS if most == 2 and not heuristic else ""
    drawn = f"ties drawn with seed {inputs.get('seed')}"
    ties = {"share": "ties shared, ", "random": f"{drawn}, ", "aggregate": ""}[inputs["ties"]]
    plurality = sample.ceiling if ceiling is None else ceiling.value
    return conclude(
        outcome,
        inputs,
        subject=system,
        method=f"{inputs['aggregate']}, {ties}ceiling {inputs.get('ceiling', 'plurality')}",
        n_items=n,
        match_rate=sample.match_rate,
        ceiling=plurality if n else math.nan,
        vacuous=ONE_RATING if most == 1 else vacuous,
        rests_on=rests_on,
        counts={
            "items": n,
            "ratings": sum(row[3] * row[4] for row in sample.rows),
            "without_answer": inputs["without_answer"],
            "unused": dict(inputs["unused"]),
        },
        diagnostics={
            "tied_share": sum(row[4] for row in sample.rows if row[1] > 1) / max(n, 1),
            "single_share": sum(row[4] for row in sample.rows if row[3] == 1) / max(n, 1),
            "ceilings": ceilings,
        },
        notes=notes,
        p_at=p_at,
    )


def _ceiling_of(sample: VoteSample, inputs: Mapping[str, Any]) -> Ceiling:
    k, n, mean = sample.votes, sample.n, sample.ceiling
    if inputs["ceiling"] != "plurality" and n:
        mean = 1.0 if k == 1 or k is None else _agreement(sample, inputs)
    return Ceiling(name=inputs["ceiling"], mean=mean, n=n, n_votes=k, n_labels=inputs["n_labels"])


def _agreement(sample: VoteSample, inputs: Mapping[str, Any]) -> float:
    """Mean pairwise agreement v."""
    k = sample.votes or 1
    return float(inputs["agreeing_pairs"] / (sample.n * k * (k - 1)))


def _ties_for(test: Test, ties: Ties | None) -> Ties:
    if ties is None:
        return "random" if test == "binomial" else "share"
    choose("ties", ties, get_args(Ties))
    whole = test != "binomial" or ties == "random"
    require(whole, "ties must be 'random' for test 'binomial' (whole counts); got 'share'.")
    return ties


def _same_votes(counts: RatingCounts, ceiling: str) -> None:
    """Refuse a ceiling from pooled pairs where items have different numbers of votes."""
    sizes = np.unique(counts.n_ratings).tolist() or [0]
    remedy = (
        "Where more ratings were asked on hard items, pooled pairs understate agreement and the bound is invalid. "
        "Use ceiling='plurality', or a subset of ratings fixed beforehand."
    )
    rule = "needs the same number of ratings on every item"
    came = f"between {sizes[0]} and {sizes[-1]}"
    require_evidence(len(sizes) == 1, f"ceiling {ceiling!r}", rule, came, remedy=remedy)


def _fit_clusters(test: str, ties: str, *, fitted: bool) -> None:
    """Refuse what has no meaning by cluster."""
    if test not in ("betting", "t") or ties != "share" or fitted:
        raise ArgumentError(
            "test must be 'betting' or 't', with shared ties and the plurality, where items come in clusters; "
            f"got {test!r}{' and a fitted aggregate' if fitted else ''}. Pass clusters='ignore' to take items as independent."
        )


def rated_items(ratings: Ratings, system: str) -> list[tuple[str, Row]]:
    """Every rated item with its cluster, as a row of a sample."""
    from noracle.counts.ratings import given_answers, vote_rows
    from noracle.evidence.frames import fetch

    labels = ratings.seen_labels()
    place = {label: k for k, label in enumerate(labels)}
    given = fetch(given_answers(ratings, [system]))
    said = {item: place.get(answer, -1) for item, _, answer in given}
    clusters = {} if ratings.items is None else dict(fetch(ratings.items.select("item", "cluster")))
    found: list[tuple[str, Row]] = []
    for item, votes in zip(*vote_rows(ratings, labels), strict=True):
        top, answer = int(votes.max()), said.get(item, -1)
        hit = int(answer >= 0 and int(votes[answer]) == top)
        cluster = clusters.get(item)
        name = f"item {item}" if cluster is None else f"cluster {cluster}"
        found.append((name, (hit, int((votes == top).sum()), top, int(votes.sum()), 1)))
    return found


def _together(ratings: object, answers: object, items: object) -> Ratings | RatingCounts:
    """Ratings that hold the answers."""
    from noracle.evidence.ratings import Ratings

    whole = (Ratings, RatingCounts)
    if answers is None:
        rule = "items must come with tables of ratings and answers; got them without."
        require(items is None, f"{rule} Pass them to the Ratings.")
        if isinstance(ratings, whole):
            return ratings
        raise ArgumentError("answers must be given beside a table of ratings; got None.")
    mixed = isinstance(answers, whole) or isinstance(ratings, whole)
    rule = "must be two tables, or one Ratings that holds both; got a mixture"
    require(not mixed, f"ratings and answers {rule}.")
    return Ratings.from_tables(ratings, answers, items=items)


def _counted(
    ratings: Ratings | RatingCounts,
    system: str | None,
    aggregate: Aggregate | AggregatedLabels,
    seed: int,
) -> tuple[RatingCounts, NDArray[np.int64] | None, str]:
    """The counts, the matches with a fitted aggregate where one is asked for, and the system."""
    counts = ratings if isinstance(ratings, RatingCounts) else count_ratings(ratings)
    system = the_system(counts, system)
    if aggregate in ("plurality", "majority"):
        return counts, None, system
    if isinstance(ratings, RatingCounts):
        rule = "'plurality' for counts without matches, which do not know items; got another"
        require(system in counts.matches, f"aggregate must be {rule}.")
        return counts, counts.matches[system], system
    from noracle.superhuman.aggregate import aggregate_labels, matches_of

    if isinstance(aggregate, str):
        aggregate = aggregate_labels(ratings, method=aggregate, seed=seed)  # type: ignore[arg-type]
    return counts, matches_of(ratings, aggregate, system), system


def the_system(counts: RatingCounts, system: str | None) -> str:
    """The system that was named, or the only one."""
    known = sorted(counts.answers)
    if system is None and len(known) == 1:
        return known[0]
    rule, remedy = "must come with the answers of a system", "Pass answers beside the ratings."
    require_evidence(known, "ratings", rule, "none", remedy=remedy)
    if system is None or system not in known:
        nearest = ", ".join(map(repr, by_nearness(system or "", known)[:5]))
        raise ArgumentError(f"system must be one of {nearest}; got {system!r}.")
    return system


class CertificateStream:
    """Takes rated items one by one, or in batches, and always holds a valid certificate for one
    system.

    The test is betting: one may look after every item and stop when the certificate is given; the
    error rate stays 1 - confidence over all looks together. Items must come in random order, and an
    item is entered once, when its last rating is in. How many ratings an item gets may depend on
    its ratings, not on the answer of the system. Only counts are kept, never items.

    Parameters
    ----------
    margin, trained_on_annotators, check, confidence
        As in :func:`certify_superhuman`; fixed before the first item.
    clustered
        Items come in clusters, of which only some items may have come: then nothing is promised.

    Notes
    -----
    With Z = match - share of the top label, the wealth mean over θ of Π(1 + θ·(Z - margin)/(1 +
    margin)) has a mean of at most 1 where the claim is false; it is certified when it reaches 1/(1
    - confidence).

    Assumes what :func:`certify_superhuman` assumes: one true label per item, independent items, and
    that the system does not repeat the annotators' errors, (6), which must be stated or supported
    by a check.

    References
    ----------
    Waudby-Smith and Ramdas (2024), JRSS-B 86, 1-27; Xu, Walder and Xu, "Humanly certifying
    superhuman classifiers" (ICLR 2023).

    Examples
    --------
    >>> stream = CertificateStream(trained_on_annotators="no")
    >>> for _ in range(40):
    ...     stream.update(ratings=["cat", "cat", "dog"], answer="cat")
    >>> stream.n, stream.certificate().certified, round(stream.attained, 3)
    (40, True, 1.0)
    """

    def __init__(
        self,
        *,
        system: str = "system",
        margin: float = 0.0,
        trained_on_annotators: Trained | bool | None = "unknown",
        check: Check | None = None,
        confidence: float = 0.95,
        clustered: bool = False,
    ) -> None:
        self.system = system
        self.clustered = clustered
        self.margin = check_margin(margin)
        self.confidence = check_confidence(confidence)
        self._trained = trained_word(trained_on_annotators)
        self._check = read_check(check, system)
        self._rows: Counter[tuple[int, int, int, int]] = Counter()
        self._silent = 0
        self._logs = LOG_PRIOR.copy()
        self.n = 0

    def update(self, *, ratings: Sequence[Hashable], answer: Hashable | None) -> None:
        """Take one item with all its ratings (labels; None is missing) and the answer of the system
        (None: no answer).
        """
        votes = Counter(label for label in ratings if label is not None)
        rule, remedy = "must hold at least one label", "Leave out items without ratings."
        require_evidence(votes, "ratings", rule, "none", remedy=remedy)
        top = max(votes.values())
        tied = sum(n == top for n in votes.values())
        hit = answer is not None and votes.get(answer, 0) == top
        self._silent += answer is None
        self._add((int(hit), tied, top, votes.total(), 1))

    def extend(self, counts: RatingCounts) -> None:
        """Take a batch of items as counts; ``system`` must be among their systems."""
        system = the_system(counts, self.system if self.system in counts.answers else None)
        sample, _ = sample_of(counts, system, ties="share", seed=0)
        self._silent += int(counts.answers[system][:, -1].sum())
        for row in sample.rows:
            self._add(row)

    def _add(self, row: Row) -> None:
        hit, tied, top, votes, n = row
        self._rows[hit, tied, top, votes] += n
        self.n += n
        gain = (hit / tied - top / votes - self.margin) / (self.margin + 1)
        with np.errstate(divide="ignore"):
            self._logs = self._logs + n * np.log1p(FRACTIONS * gain)

    @property
    def attained(self) -> float:
        """The largest confidence at which the test certifies now."""
        return 1 - math.exp(-max(float(np.logaddexp.reduce(self._logs)), 0.0))

    def certificate(self) -> Certificate:
        """The certificate now."""
        rows: tuple[Row, ...] = tuple((*key, n) for key, n in sorted(self._rows.items()))
        inputs: dict[str, Any] = {
            "kind": "ratings",
            "test": "betting",
            "margin": self.margin,
            "confidence": self.confidence,
            "aggregate": "plurality",
            "ties": "share",
            "rows": [list(row) for row in rows],
            "trained_on_annotators": self._trained,
            "check": self._check,
            "without_answer": self._silent,
            "unused": {},
        }
        if self.clustered:
            inputs["clusters_ignored"] = True
        return _decide(VoteSample(rows=rows), self.system, inputs)
