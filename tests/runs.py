"""How the answers of several runs meet one label, by definition: a referee of the counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from noracle.counts.tally import Label, Repeats, Tally, tally


def meet_runs(
    label: Label, answers: Sequence[Any], *, system: str = "system", how: Repeats = "mean"
) -> Tally:
    """How the answers of several runs (None: a run without one) meet this label.

    ``mean`` gives every run the same weight. ``any`` gives every different answer the weight 1: the
    truth is one of them or none, so their scores add up to 1 or 0 on average. ``all`` is one
    answer, or none where the runs differ: they are not all right then.
    """
    different = dict.fromkeys(answers)
    if len(different) == 1 or how == "all":
        return label.meet(answers[0] if len(different) == 1 else None, system=system)
    given = [a for a in (different if how == "any" else answers) if a is not None]
    if how == "any" and len(given) == 1:
        return label.meet(given[0], system=system)
    weight = 1.0 if how == "any" else 1 / len(answers)
    hits = sum(a in label.classes for a in given)
    ruled = label.classes if label.verdict == "no" else label.ruled_out
    return tally(
        label.place._replace(system=system),
        label.verdict,
        hit=hits == len(answers) if how == "mean" else hits > 0,
        n_ruled_out=len(ruled),
        ruled_hit=ruled >= set(given if how == "any" else answers),
        inverse=None if label.propensity is None else weight * hits / label.propensity,
        shares=(weight * hits, weight * len(given)),
    )
