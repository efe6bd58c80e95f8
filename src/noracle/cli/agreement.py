"""``noracle agreement``: how much do the raters agree?"""

from __future__ import annotations

import dataclasses
from typing import Any

from noracle.cli import _options as opt
from noracle.cli._options import Output, panel, with_options
from noracle.cli._output import working
from noracle.cli._ratings import Rated
from noracle.errors import require
from noracle.results import choose
from noracle.superhuman.agreement import STATISTICS, Metric, Statistic, estimate_agreement

EXAMPLE = opt.paragraphs("""Example:
noracle agreement --ratings ratings.csv
noracle agreement --ratings wide.csv --wide --raters ann,bob,cy --item question --json
noracle agreement --ratings ratings.csv --statistic krippendorff --metric ordinal --labels bad,fair,good""")


_how = panel("How to estimate")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _AgreementOptions:
    statistic: list[str] | None = _how(
        "pairwise: share of pairs that agree. cohen: kappa of two raters, or its mean over pairs. fleiss: kappa against the "
        "overall shares. krippendorff: alpha. Several by commas; default pairwise.",
        "NAME",
    )
    metric: Metric = _how(
        "For krippendorff: labels are names, are ordered, or are numbers.", default="nominal"
    )
    pair: str | None = _how("For cohen: two raters; default all pairs.", "A,B")
    n_boot: int = _how("Resamples of the items.", "N", 2000)
    confidence: float = opt.confidence()
    seed: int = opt.seed()


@with_options()
def command(given: Rated, own: _AgreementOptions, output: Output) -> None:
    """Estimate how much the raters agree, with an interval.

    Agreement does not say how often the raters are right: raters who err together agree.
    """
    named = dict.fromkeys(opt.names(own.statistic) or ("pairwise",))
    chosen: list[Any] = [choose("--statistic", name, STATISTICS) for name in named]
    fits = own.metric == "nominal" or "krippendorff" in chosen
    got = f"got {own.metric!r} without it."
    require(fits, f"--metric must go with --statistic krippendorff; {got}")
    two = _two(own.pair, chosen)
    with working("counting"):
        loaded = given.load() if given.whole else None
        counted = given.count(loaded, systems=())
    with working("estimating"):
        results = [
            estimate_agreement(
                loaded if name == "cohen" and loaded is not None else counted,
                statistic=name,
                metric=own.metric if name == "krippendorff" else "nominal",
                raters=two if name == "cohen" else None,
                confidence=own.confidence,
                n_boot=own.n_boot,
                seed=own.seed,
            )
            for name in chosen
        ]
    output.emit("Agreement of raters", results, single=len(results) == 1, seed=own.seed)


def _two(pair: str | None, statistics: list[Statistic]) -> tuple[str, str] | None:
    named = opt.names(pair)
    if named is None:
        return None
    fits = len(named) == 2 and "cohen" in statistics
    require(fits, f"--pair must be two raters with --statistic cohen; got {pair!r}.")
    return named[0], named[1]
