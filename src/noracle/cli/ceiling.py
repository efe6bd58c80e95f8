"""``noracle ceiling``: how accurate can the average annotator be at most?"""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

from noracle.cli import _options as opt
from noracle.cli._options import Output, option, with_options
from noracle.cli._output import working
from noracle.cli._ratings import Rated
from noracle.errors import require
from noracle.superhuman.ceiling import estimate_ceiling
from noracle.superhuman.thresholds import estimate_ceilings

Choice = Literal["plurality", "pairwise", "quadratic", "free", "paper", "paper-empirical", "all"]

EXAMPLE = opt.paragraphs("""Example:
noracle ceiling --ratings ratings.csv
noracle ceiling --ratings wide.csv --wide --raters ann,bob,cy --method all --html report.html
noracle ceiling --ratings scores.csv --thresholds""")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _CeilingOptions:
    method: Choice = option(
        "Which bound; plurality assumes nothing of annotators. all shows every one that applies.",
        default="plurality",
    )
    pairs: Literal["item", "pooled"] = option(
        "How agreement is averaged; pooled is refused where numbers differ.", default="item"
    )
    by_annotators: bool = option(
        "Also the bounds with fewer annotators, in the JSON output.", default=False
    )
    thresholds: bool = option(
        "Labels are scores: a bound at every threshold, all at --confidence together.",
        default=False,
    )
    confidence: float = opt.confidence()


@with_options()
def command(given: Rated, own: _CeilingOptions, output: Output) -> None:
    """Bound the accuracy of the average annotator from above, without an answer key.

    Ratings say how often annotators agree; nobody can be right more often than that allows.
    """
    every = own.method == "all"
    if own.thresholds:
        rule = "--thresholds must come with one --method and without --pairs and --by-annotators"
        fits = not every and own.pairs == "item" and not own.by_annotators
        require(fits, f"{rule}; got others.")
    with working("counting"):
        counted = given.count(pairs=own.method == "pairwise" or (every and not given.votes))
    about: Any = {"pairs": own.pairs, "confidence": own.confidence}
    with working("bounding"):
        if own.thresholds:
            results = list(
                estimate_ceilings(counted, method=own.method, confidence=own.confidence)  # type: ignore[arg-type]
            )
        elif own.method == "all":
            # U_e is left out: it is not a bound. U* stands here where it is known who rated what.
            plain: Any = ("plurality", "free", "quadratic", "paper")
            results = [estimate_ceiling(counted, method=m, **about) for m in plain]
            if counted.pairs:
                about["pairs"] = "item"
                results.append(estimate_ceiling(counted, method="pairwise", **about))
        else:
            about["by_annotators"] = own.by_annotators
            results = [estimate_ceiling(counted, method=own.method, **about)]
    output.emit("How accurate can annotators be?", results, single=not every and not own.thresholds)
