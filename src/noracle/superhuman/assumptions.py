"""Do the assumptions behind ceilings and certificates hold on items with known answers?"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any, Self

import narwhals as nw
import numpy as np
from numpy.typing import ArrayLike, NDArray

from noracle.bounds.betting import betting_interval, equal_together, log_wealth
from noracle.bounds.binomial import betainc, clopper_pearson
from noracle.errors import EvidenceError, require, require_evidence
from noracle.evidence.frames import Frame, fetch
from noracle.evidence.labels import read_known
from noracle.evidence.ratings import Ratings
from noracle.results import Check, check_confidence
from noracle.superhuman.aggregate import long_form
from noracle.superhuman.ceiling import AGREEMENT
from noracle.superhuman.statement import SIX

Whole = NDArray[np.int64]

# Up to so many known items are looked up by the engine; with more all rows are read.
MOST_LOOKED_UP = 5000
_SAMPLE = "the known items must be a random sample of the items"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KnownItems:
    """Codes of labels, one row per item; -1 is missing.

    ``items`` are their names, or row numbers. ``ratings`` has a column for each of ``raters`` and
    none where they are unknown; ``votes`` a column for each of ``labels``.
    """

    items: tuple[Any, ...]
    labels: tuple[int | str, ...]
    raters: tuple[str, ...]
    ratings: Whole
    votes: Whole
    truth: Whole
    answers: Mapping[str, Whole]

    @classmethod
    def from_arrays(
        cls, ratings: ArrayLike, known: ArrayLike, *, answers: Mapping[str, ArrayLike] | None = None
    ) -> Self:
        """From codes (items × raters; -1 missing) and the code of each true label (-1 unknown)."""
        given, truth = np.asarray(ratings, dtype=np.int64), np.asarray(known, dtype=np.int64)
        said = {name: np.asarray(a, dtype=np.int64) for name, a in (answers or {}).items()}
        rule, came = "must be a matrix of items and raters", f"{given.ndim} dimensions"
        require_evidence(given.ndim == 2, "ratings", rule, came)
        columns = {"known": truth, **{f"answers[{s!r}]": a for s, a in said.items()}}
        rule = f"must have one entry for each of {len(given)} items"
        for name, column in columns.items():
            fits = column.shape == (len(given),)
            require_evidence(fits, name, rule, f"shape {column.shape}")
        size = 1 + max([int(a.max(initial=-1)) for a in (given, truth, *said.values())], default=-1)
        keep = truth >= 0
        given, truth, said = given[keep], truth[keep], {s: a[keep] for s, a in said.items()}
        row, column = np.nonzero(given >= 0)
        votes = np.zeros((len(given), size), dtype=np.int64)
        np.add.at(votes, (row, given[row, column]), 1)
        return cls(
            items=tuple(np.flatnonzero(keep).tolist()),
            labels=tuple(range(size)),
            raters=tuple(str(i) for i in range(given.shape[1])),
            ratings=given,
            votes=votes,
            truth=truth,
            answers=said,
        )

    @classmethod
    def from_ratings(cls, ratings: Ratings, known: object) -> Self:
        """From ratings and known labels; known items without ratings are left out."""
        ratings.check()
        text = ratings.frame.collect_schema()["item"] == nw.String
        words = ratings.label_kind == "text"
        truth_of = {
            _as(item, text=text, what="item"): _as(label, text=words, what="label")
            for item, label in read_known(known).items()
        }
        rows = _rated(ratings, truth_of)
        items = sorted({row[0] for row in rows})
        rule, came = "must name items that were rated", f"{len(truth_of)} others"
        require_evidence(items, "known", rule, came, remedy="Compare the item ids.")
        place = {item: i for i, item in enumerate(items)}
        answered = _answered(ratings, place)
        seen: set[Any] = {truth_of[i] for i in items} | {row[2] for row in rows}
        seen |= {a for said in answered.values() for a in said.values()}
        first = ratings.labels or ()
        labels = (*first, *sorted(seen - set(first)))
        code: dict[Any, int] = {label: k for k, label in enumerate(labels)}
        raters = tuple(sorted({str(row[1]) for row in rows if row[1] is not None}))
        column = {name: j for j, name in enumerate(raters)}
        matrix = np.full((len(items), len(raters)), -1, dtype=np.int64)
        votes = np.zeros((len(items), len(labels)), dtype=np.int64)
        for item, rater, label, n in rows:
            votes[place[item], code[label]] += n
            if rater is not None:
                matrix[place[item], column[str(rater)]] = code[label]
        code[None] = -1

        def coded(said: Mapping[Any, Any]) -> Whole:
            return np.array([code[said.get(i)] for i in items], dtype=np.int64)

        return cls(
            items=tuple(items),
            labels=labels,
            raters=raters,
            ratings=matrix,
            votes=votes,
            truth=coded(truth_of),
            answers={system: coded(said) for system, said in answered.items()},
        )

    def plurality(self, seed: int) -> Whole:
        """The most frequent label of each item, ties drawn without the system; -1 without votes."""
        if not self.votes.size:
            return np.full(len(self.votes), -1, dtype=np.int64)
        best = self.votes == self.votes.max(axis=1, keepdims=True)
        drawn = np.where(best, np.random.default_rng(seed).random(best.shape), -1.0).argmax(axis=1)
        return np.where(self.votes.sum(axis=1) > 0, drawn, -1)


def _as(value: Any, *, text: bool, what: str) -> Any:
    if text:
        return str(value)
    try:
        return int(value)
    except (TypeError, ValueError):
        rule = "must be a whole number, as in the ratings"
        raise EvidenceError.of(f"known.{what}", rule, type(value).__name__) from None


def _only(frame: Frame, items: Sequence[Any]) -> Frame:
    return frame.filter(nw.col("item").is_in(items)) if len(items) <= MOST_LOOKED_UP else frame


def _rated(ratings: Ratings, truth: Mapping[Any, Any]) -> list[tuple[Any, str | None, Any, int]]:
    """Item, rater, label and how many, of the known items."""
    if ratings.form == "votes":
        votes = fetch(_only(ratings.used.select("item", "label", "n"), list(truth)))
        found = [(i, None, label, int(n)) for i, label, n in votes]
    else:
        found = [(*row, 1) for row in fetch(_only(long_form(ratings), list(truth)))]
    return [row for row in found if row[0] in truth and row[2] is not None and row[3]]


def _answered(ratings: Ratings, place: Mapping[Any, int]) -> dict[str, dict[Any, Any]]:
    found: dict[str, dict[Any, Any]] = {}
    if ratings.answers is not None:
        given = _only(ratings.answers.select("item", "system", "answer"), list(place))
        for item, system, answer in fetch(given):
            own = found.setdefault(str(system), {})
            if item in place and answer is not None:
                own[item] = answer
    return found


def check_assumptions(
    ratings: Ratings | ArrayLike,
    known: object,
    *,
    system: str | None = None,
    answers: Mapping[str, ArrayLike] | None = None,
    aggregate: Mapping[Any, int | str | None] | ArrayLike | None = None,
    confidence: float = 0.95,
    seed: int = 0,
) -> Check:
    """Check an assumption on items whose true label is known: (2) of the annotators, or with
    ``system`` (6) of that system.

    (2): p_i·p_j <= P_ij for any two annotators, behind the ceiling ``pairwise``. (6): where the
    aggregate G of the votes is wrong, the system is right at least as often as it gives G's own
    wrong label, P(M = y | G ≠ y) >= P(M = G | G ≠ y). This form of (6) holds exactly when P(M = G)
    <= P(M = y), on which certificates rest; the paper's form, with a fixed wrong label, does not
    imply it.

    Parameters
    ----------
    ratings
        Ratings, with answers for (6); or a matrix of codes, one row per item and one column per rater,
        -1 for missing.
    known
        A table with ``item`` and ``label``, or a mapping of items to labels, for some of the items;
        with a matrix, the code of the true label of each row, -1 where unknown. These must be a
        random sample of the items.
    system
        Whose answers (6) is about. Without it (2) is checked.
    answers
        With a matrix: the codes that each system answered.
    aggregate
        For (6): another aggregate than the most frequent label (whose ties are drawn with
        ``seed``), as a mapping of items to labels (``labels`` of
        :func:`noracle.superhuman.aggregate_labels`); with a matrix, as codes. It must not have seen
        the system's answers.
    seed
        For ties, and for the order in which items are paired.

    Returns
    -------
    Check
        It fails at p < 0.001. A pass proves nothing (``refutes_only``) unless the assumption is
        *supported*: its lower limit at ``confidence`` is at least 0. For (6) this is
        ``diagnostics["supported"]``, for (2) ``diagnostics["every_pair_supported"]``. Where neither
        holds the finding says "undecided".

    Notes
    -----
    (2): two items s, t give Z = (a_s + a_t)/2 - (r_is·r_jt + r_it·r_js)/2, with a for agreement and
    r for right, whose mean is exactly P_ij - p_i·p_j. Items are paired at random; limits and
    p-values come from betting on Z, joined over pairs of annotators by Bonferroni. (6): of the
    items with G wrong where the system said y or G, the number with y is binomial; the test is
    exact. All are finite-sample.

    Assumes that the items with a known label are a random sample of the items, and that the known
    labels are true.

    References
    ----------
    Xu, Walder and Xu, "Humanly certifying superhuman classifiers" (ICLR 2023), equations (2) and
    (6), Table 1.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> truth = rng.integers(0, 3, 2000)
    >>> hard = rng.random((2000, 1)) < 0.4
    >>> ratings = np.where(rng.random((2000, 3)) < np.where(hard, 0.5, 0.95), truth[:, None], rng.integers(0, 3, (2000, 3)))
    >>> check = check_assumptions(ratings, truth)
    >>> check.passed, check.diagnostics["every_pair_supported"]
    (True, True)
    """
    check_confidence(confidence)
    if isinstance(ratings, Ratings):
        rule = "come with a matrix of codes; got them with Ratings, which hold their own"
        require(answers is None, f"answers must {rule}.")
        rule = f"be a mapping of items to labels with Ratings; got {type(aggregate).__name__}"
        require(isinstance(aggregate, Mapping | None), f"aggregate must {rule}.")
        items = KnownItems.from_ratings(ratings, known)
    else:
        items = KnownItems.from_arrays(ratings, known, answers=answers)  # type: ignore[arg-type]
    if system is None:
        return _check_agreement(items, confidence, seed)
    systems = sorted(items.answers)
    require(system in systems, f"system must be one of {systems}; got {system!r}.")
    vote = items.plurality(seed) if aggregate is None else _codes(items, aggregate)
    return _check_errors(items, system, vote, confidence)


def _codes(items: KnownItems, aggregate: Mapping[Any, int | str | None] | ArrayLike) -> Whole:
    """The aggregate as codes of labels; -1 where it has none."""
    if not isinstance(aggregate, Mapping):
        given = np.asarray(aggregate, dtype=np.int64)
        fits = given.ndim == 1 and len(given) > max(items.items, default=-1)
        require(fits, f"aggregate must have one code per item; got shape {given.shape}.")
        return given[list(items.items)]
    code: dict[int | str | None, int] = {label: k for k, label in enumerate(items.labels)}
    code[None] = -1
    strange = len(items.labels)  # a label that nobody else gave is wrong, and no answer repeats it
    return np.array([code.get(aggregate.get(i), strange) for i in items.items], dtype=np.int64)


def _check_agreement(items: KnownItems, confidence: float, seed: int) -> Check:
    size = len(items.raters)
    rule = f"must name at least two raters to check (2); got {size}"
    require(size >= 2, f"ratings {rule}. Votes alone do not say who agreed.")
    order = np.random.default_rng(seed).permutation(len(items.truth))
    said, right = items.ratings[order], items.ratings[order] == items.truth[order, None]
    pairs = [(i, j) for i in range(size) for j in range(i + 1, size)]
    shared = [pair for pair in pairs if (said[:, pair] >= 0).all(axis=1).sum() >= 2]
    tail = (1 - confidence) / max(1, len(shared))
    parts = [_pair_part(items.raters, i, j, said, right, tail) for i, j in shared]
    p_value = min(1.0, min(p["p_value"] for p in parts) * len(parts)) if parts else math.nan
    worst = min(parts, key=lambda p: (p["p_value"], p["low"]), default=None)
    supported = bool(parts) and len(shared) == len(pairs) and all(p["low"] >= 0 for p in parts)
    n = int((items.ratings >= 0).any(axis=1).sum())
    if worst is None:
        finding = "undecided: no two raters share two items with known answers"
    elif p_value < 1e-3:
        finding = f"{worst['raters']} agree less often than independent raters would: {worst['agree']:.3f} < {worst['if_independent']:.3f}"
    elif supported:
        finding = f"supported: every two of {size} raters agree at least as often as independent ones would ({n} items)"
    else:
        finding = f"undecided on {n} items: no two raters clearly agree less, not all clearly agree at least as often, as independent ones"
    return Check(
        name="agreement of annotators",
        assumption=AGREEMENT,
        p_value=p_value,
        statistic=worst["difference"] if worst else math.nan,
        finding=finding,
        method="betting on pairs of items, Bonferroni over pairs of raters",
        refutes_only=not supported,
        parts=tuple(parts),
        counts={"items": n, "raters": size},
        diagnostics={
            "every_pair_supported": supported,
            "confidence": confidence,
            "pairs_without_items": len(pairs) - len(shared),
            "right_given_other_right": _mean([p["right_given_other_right"] for p in parts]),
            "right": _mean([p["right"] for p in parts]),
        },
        notes=("limits are one-sided and hold for all pairs together", _SAMPLE),
    )


def _pair_part(
    raters: tuple[str, ...], i: int, j: int, said: Whole, right: NDArray[np.bool_], tail: float
) -> dict[str, Any]:
    """One row of the paper's Table 1 (a), with limits on P_ij - p_i·p_j."""
    both = (said[:, i] >= 0) & (said[:, j] >= 0)
    agree = (said[both, i] == said[both, j]).astype(float)
    first, second = right[both, i].astype(float), right[both, j].astype(float)
    half = len(agree) // 2
    s, t = slice(0, 2 * half, 2), slice(1, 2 * half, 2)
    z = (agree[s] + agree[t]) / 2 - (first[s] * second[t] + first[t] * second[s]) / 2
    values, times = np.unique(z, return_counts=True)
    low, high = _limits(values, times, tail)
    against = log_wealth(equal_together(-values, -1.0, 1.0, times), 0.0)
    p, q = float(first.mean()), float(second.mean())
    met = float((first * second).mean())
    return {
        "raters": f"{raters[i]} and {raters[j]}",
        "n": len(agree),
        "agree": float(agree.mean()),
        "if_independent": p * q,
        "difference": float(agree.mean()) - p * q,
        "low": low,
        "high": high,
        "p_value": min(1.0, math.exp(-max(against, 0.0))),
        "right": (p + q) / 2,
        "right_given_other_right": _mean([met / x for x in (p, q) if x > 0]),
    }


def _limits(values: NDArray[np.float64], times: Whole, tail: float) -> tuple[float, float]:
    """Betting limits of the mean of differences in [-1, 1]."""
    scores = equal_together(values, -1.0, 1.0, times)
    return betting_interval(scores, tail, tail, floor=-1.0, ceiling=1.0)


def _mean(values: list[float]) -> float:
    return float(np.mean(values)) if values else math.nan


def _check_errors(items: KnownItems, system: str, vote: Whole, confidence: float) -> Check:
    """Exact binomial test of y against G where G is wrong and the system said one of them."""
    answer = items.answers[system]
    wrong = (vote >= 0) & (vote != items.truth)
    right, same = (int((wrong & (answer == said)).sum()) for said in (items.truth, vote))
    n, deciding, n_wrong = int((vote >= 0).sum()), right + same, int(wrong.sum())
    nothing = int((wrong & (answer < 0)).sum())
    other = n_wrong - deciding - nothing
    tail = 1 - confidence
    low_share, high_share = clopper_pearson(right, deciding, tail, tail) if deciding else (0.0, 1.0)
    p_value = 1.0 if deciding else math.nan
    if same:
        p_value = float(betainc(deciding - right, right + 1, 0.5))
    values, times = np.array([1.0, -1.0, 0.0]), np.array([right, same, n_wrong - deciding])
    low, high = _limits(values, times, tail)
    supported = deciding > 0 and low_share >= 0.5
    said = f"where the vote is wrong ({n_wrong} of {n} items) {system!r} is right {right} times and repeats it {same} times"
    verdict = "fails" if p_value < 1e-3 else "supported" if supported else "undecided"
    shares = {"right": right, "same_as_vote": same, "other_wrong": other, "no_answer": nothing}
    shares["difference"] = right - same
    part: dict[str, Any] = {
        "what": "the vote is wrong",
        "n": n_wrong,
        **{name: k / n_wrong if n_wrong else math.nan for name, k in shares.items()},
        "low": low,
        "high": high,
        "p_value": p_value,
    }
    nobody = "no item where the vote is wrong and the system gave the true label or the vote"
    return Check(
        name="errors of the vote",
        assumption=SIX,
        p_value=p_value,
        statistic=part["difference"],
        finding=f"{verdict}: {said}",
        method="exact binomial",
        refutes_only=not supported,
        parts=(part,),
        counts={"items": n, "vote_wrong": n_wrong, "right": right, "same_as_vote": same},
        diagnostics={
            "supported": supported,
            "system": system,
            "confidence": confidence,
            "right_share": right / deciding if deciding else math.nan,
            "right_share_low": low_share,
            "right_share_high": high_share,
            "accuracy_minus_match_rate": (right - same) / n if n else math.nan,
        },
        notes=("limits are one-sided", _SAMPLE),
        reason="" if deciding else nobody,
    )
