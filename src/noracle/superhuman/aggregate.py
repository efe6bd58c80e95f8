"""One label per item out of the labels of several raters."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, get_args

import narwhals as nw
import numpy as np

from noracle.counts.ratings import (
    MOST_COLUMNS,
    Whole,
    count_ratings,
    vote_columns,
    vote_frame,
    vote_rows,
)
from noracle.errors import GuaranteeWarning, MissingExtra, require, require_evidence
from noracle.evidence.frames import Frame, fetch
from noracle.evidence.ratings import Label, Ratings
from noracle.results import choose

if TYPE_CHECKING:
    from numpy.typing import NDArray

Method = Literal["majority", "weighted", "dawid-skene", "mace"]
Ties = Literal["random", "none"]
CORRELATED = (
    "labels are weighed as if raters erred independently of each other; where raters err together (a shared misunderstanding, raters who "
    "copy, models of one family) such labels are wrong without a sign of it"
)
FITTED = "the weights were fitted on these very items, so that the labels of the items depend on each other"
_TIED = 1e-9  # posteriors closer than this are one


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AggregatedLabels:
    """A label for each rated item.

    Attributes
    ----------
    labels
        Item to label; None where the label is tied and ``ties="none"``.
    n_tied
        How many items had several best labels.
    skills
        What the method thinks of each rater, where it does: share of agreement (weighted), accuracy
        averaged over the labels (dawid-skene), probability of not guessing (mace). Not an estimate
        to rely on: see ``notes``.

    Examples
    --------
    >>> tied = Ratings.from_wide({"ann": ["cat", "dog"], "bob": ["cat", "cat"]}, raters=["ann", "bob"])
    >>> found = aggregate_labels(tied, ties="none")
    >>> found.columns(), found.n_tied
    ({'item': [0, 1], 'label': ['cat', None]}, 1)
    """

    labels: Mapping[Any, Label | None]
    method: Method
    ties: Ties
    seed: int
    n_tied: int
    skills: Mapping[str, float] = dataclasses.field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def columns(self) -> dict[str, list[Any]]:
        """Columns ``item`` and ``label``, for any data frame."""
        return {"item": list(self.labels), "label": list(self.labels.values())}

    def __repr__(self) -> str:
        return f"AggregatedLabels({len(self.labels)} items, {self.method}, {self.n_tied} tied)"


def aggregate_labels(
    ratings: Ratings, *, method: Method = "majority", ties: Ties = "random", seed: int = 0
) -> AggregatedLabels:
    """Aggregate the labels of several raters into one label per item.

    Parameters
    ----------
    ratings
        Ratings; answers of systems are never looked at.
    method
        ``"majority"``: the label with most votes. ``"weighted"``: votes weighted by how often a
        rater agrees with the majority. ``"dawid-skene"``: a confusion matrix for each rater, by
        expectation–maximisation. ``"mace"``: each rater guesses or knows. All but ``"majority"``
        need the extra ``crowd`` and must know who rated what.
    ties
        ``"random"``: one of the best labels, drawn with ``seed``. ``"none"``: no label, so that no
        answer matches it.

    Warns
    -----
    GuaranteeWarning
        For all but ``"majority"``: they take the errors of raters as independent and fail without a
        sign where they are not.

    Raises
    ------
    MissingExtra
        If crowd-kit is not installed.

    Notes
    -----
    An aggregate is not the truth. As a reference for a certificate it carries the assumption that
    the system does not share its errors.

    References
    ----------
    Dawid and Skene (1979), Applied Statistics 28, 20-28; Hovy et al. (2013), NAACL, 1120-1130
    (MACE); the implementations are those of crowd-kit (Ustalov, Pavlichenko and Tseitlin 2024, JOSS
    9, 6227).

    Examples
    --------
    >>> wide = {"ann": ["cat", "dog"], "bob": ["cat", "dog"], "eve": ["dog", None]}
    >>> aggregate_labels(Ratings.from_wide(wide, raters=["ann", "bob", "eve"])).columns()
    {'item': [0, 1], 'label': ['cat', 'dog']}
    """
    choose("method", method, get_args(Method))
    choose("ties", ties, get_args(Ties))
    labels = ratings.check().seen_labels()
    if method == "majority":
        items, votes = _votes(ratings, labels)
        return _chosen(items, votes.astype(np.float64), labels, method=method, ties=ties, seed=seed)
    rule = "must know who rated what; got votes of unknown raters. Pass method='majority'."
    require(ratings.form != "votes", f"method {method!r} {rule}")
    warnings.warn(f"aggregate {method!r}: {CORRELATED}.", GuaranteeWarning, stacklevel=2)
    items, weights, skills = _crowd(ratings, labels, method, seed)
    found = _chosen(items, weights, labels, method=method, ties=ties, seed=seed)
    return dataclasses.replace(found, skills=skills, notes=(CORRELATED, FITTED))


def matches_of(ratings: Ratings, aggregated: AggregatedLabels, system: str) -> Whole:
    """How often a system gave the aggregated label.

    Row p holds, for the p-th kind of votes of ``count_ratings(ratings)``, the items whose answer is
    the aggregated label and those whose answer is not (or is missing).

    Examples
    --------
    >>> wide = {"ann": ["cat", "dog"], "bob": ["cat", "dog"], "agent": ["cat", "cat"]}
    >>> ratings = Ratings.from_wide(wide, raters=["ann", "bob"], systems=["agent"])
    >>> matches_of(ratings, aggregate_labels(ratings), "agent").tolist()
    [[0, 1], [1, 0]]
    """
    return count_ratings(ratings, systems=[system], reference=aggregated.labels).matches[system]


def _votes(ratings: Ratings, labels: Sequence[Label]) -> tuple[list[Any], Whole]:
    if len(labels) > MOST_COLUMNS:
        return vote_rows(ratings, labels)
    rows = fetch(vote_frame(ratings, labels).select("item", *vote_columns(labels)))
    return [row[0] for row in rows], np.array([row[1:] for row in rows], dtype=np.int64)


def _chosen(
    items: Sequence[Any],
    weights: NDArray[np.float64],
    labels: Sequence[Label],
    *,
    method: Method,
    ties: Ties,
    seed: int,
) -> AggregatedLabels:
    """The best label of each item; items are sorted, so that row order does not decide ties."""
    order = sorted(range(len(items)), key=lambda i: items[i])
    ordered = weights[order]
    best = ordered >= ordered.max(axis=1, keepdims=True) * (1 - _TIED)
    tied = best.sum(axis=1) > 1
    drawn = np.random.default_rng(seed).random(ordered.shape)
    places = np.where(best, drawn, -1.0).argmax(axis=1)
    chosen: dict[Any, Label | None] = {
        items[i]: None if tied[row] and ties == "none" else labels[int(places[row])]
        for row, i in enumerate(order)
    }
    n_tied = int(tied.sum())
    return AggregatedLabels(labels=chosen, method=method, ties=ties, seed=seed, n_tied=n_tied)


def _crowd(
    ratings: Ratings, labels: Sequence[Label], method: str, seed: int
) -> tuple[list[Any], NDArray[np.float64], dict[str, float]]:
    """Weights of the labels of each item, and of the raters, by crowd-kit.

    Items, raters and labels go in as text that starts with a letter: whole numbers as names of
    columns break some of its methods.
    """
    try:
        import pandas as pd
        from crowdkit.aggregation import MACE, DawidSkene, MajorityVote
    except ImportError:
        raise MissingExtra(f"aggregate {method!r}", "crowd-kit", "crowd") from None
    place = {label: f"label{i:04d}" for i, label in enumerate(labels)}
    rows = sorted(fetch(long_form(ratings)), key=lambda row: (row[0], str(row[1])))
    items = list(dict.fromkeys(row[0] for row in rows))
    number = {item: f"item{i}" for i, item in enumerate(items)}
    named_rows = [(number[item], f"rater{rater}", place[label]) for item, rater, label in rows]
    table = pd.DataFrame(named_rows, columns=["task", "worker", "label"])
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # what pandas thinks of code that is not ours
        if method == "weighted":
            skills: Any = MajorityVote().fit(table).skills_
            model: Any = MajorityVote().fit(table, skills=skills)
        elif method == "dawid-skene":
            model = DawidSkene().fit(table)
            right = ((r, model.errors_.loc[r]) for r in model.errors_.index.unique(0))
            # How often a rater gives the true label, each label counting equally.
            skills = pd.Series({r: np.mean([e.loc[x, x] for x in e.index]) for r, e in right})
        else:
            model = MACE(random_state=seed).fit(table)
            skills = pd.Series(np.asarray(model.spamming_)[:, 1], index=table["worker"].unique())
    index = [number[i] for i in items]
    posterior = model.probas_.reindex(index=index, columns=list(place.values()))
    weights = posterior.fillna(0.0).to_numpy(dtype=np.float64)
    fitted = np.isfinite(weights).all() and (weights.max(axis=1) > 0).all()
    rule, came = f"must be enough to fit {method!r}", "items without a weight"
    require_evidence(fitted, "ratings", rule, came, remedy="Use 'majority'.")
    named = {str(r).removeprefix("rater"): float(skills[r]) for r in sorted(skills.index)}
    return items, weights, named


def long_form(ratings: Ratings) -> Frame:
    """``item``, ``rater``, ``label``, missing ratings left out."""
    used = ratings.used
    if ratings.form != "wide":
        return used.select("item", "rater", "label")
    named = ((nw.lit(c).alias("rater"), nw.col(c).alias("label")) for c in ratings.raters or ())
    parts = [used.select("item", *pair) for pair in named]
    return nw.concat(parts, how="vertical").filter(~nw.col("label").is_null())
