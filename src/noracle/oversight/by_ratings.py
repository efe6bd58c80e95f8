"""Questions that ratings decide: ceiling, agreement, certificate."""

from __future__ import annotations

from noracle.oversight.asking import Asking, Outcome
from noracle.oversight.loading import Loaded
from noracle.superhuman.agreement import Statistic, estimate_agreement
from noracle.superhuman.ceiling import estimate_ceiling
from noracle.superhuman.certify import certify_superhuman

STATISTICS: tuple[Statistic, ...] = ("pairwise", "krippendorff")


def needs_ratings(loaded: Loaded) -> str:
    """Ratings, or stored counts of them."""
    if loaded.votes is not None:
        return ""
    return "There are no ratings. Add a table with columns item, rater, label: several people on the same items."


def needs_two(loaded: Loaded) -> str:
    """Items with at least two ratings."""
    missing = needs_ratings(loaded)
    if missing or loaded.votes is None:
        return missing
    if int(loaded.votes.n_ratings.max(initial=0)) < 2:
        return "Every item has one rating, and nobody checked it. Let a second person rate some of the items."
    return ""


def ceiling(asking: Asking) -> Outcome:
    """How accurate the average annotator can be at most."""
    loaded = asking.loaded
    votes = loaded.votes_alone
    if votes is None:
        return Outcome(reason=needs_ratings(loaded))
    result = estimate_ceiling(votes, confidence=asking.level)
    return Outcome(
        results=(result,),
        command=loaded.command("ceiling", loaded.rating_words(), asking.level_words),
    )


def agreement(asking: Asking) -> Outcome:
    """How much the raters agree; asymptotic."""
    loaded = asking.loaded
    votes = loaded.votes_alone
    if votes is None:
        return Outcome(reason=needs_ratings(loaded))
    results = tuple(
        estimate_agreement(votes, statistic=s, confidence=asking.level, seed=asking.seed)
        for s in STATISTICS
    )
    words = [*loaded.rating_words(), "--statistic", ",".join(STATISTICS)]
    return Outcome(
        results=results,
        command=loaded.command("agreement", words, asking.level_words, asking.seed_words),
    )


def needs_judged(loaded: Loaded) -> str:
    """Ratings and the answers of systems to the same items."""
    missing = needs_two(loaded)
    if missing:
        return missing
    if not loaded.judged_systems:
        if loaded.answers is not None:
            return "The answers cannot be read beside these ratings. Write both as long tables: item, system, answer and item, rater, label."  # noqa: E501
        return "There are ratings but no answers of systems to the rated items. Add a table with columns item, system, answer."
    votes = loaded.votes
    if votes is not None and not any(
        int(votes.answers[s][:, :-1].sum()) for s in loaded.judged_systems
    ):
        return "No system answered an item that was rated. Let the systems answer the rated items."
    return ""


def certificate(asking: Asking) -> Outcome:
    """Is a system better than the average annotation? A system whose training is not stated is
    never certified.
    """
    loaded = asking.loaded
    if loaded.votes is None:
        return Outcome(reason=needs_ratings(loaded))
    s = loaded.settings
    together = (
        loaded.ratings
        if loaded.ratings_name_clusters and loaded.stored_ratings is None
        else loaded.votes
    )
    results = tuple(
        certify_superhuman(
            together,
            system=name,
            margin=s.margin,
            trained_on_annotators=s.trained_on_annotators,
            confidence=asking.level,
            seed=asking.seed,
        )
        for name in loaded.judged_systems
    )
    words = [
        *loaded.rating_words(answers=True),
        "--margin",
        repr(float(s.margin)),
        "--trained-on-annotators",
        s.trained_on_annotators,
    ]
    return Outcome(
        results=results,
        command=loaded.command("certify", words, asking.level_words, asking.seed_words),
    )
