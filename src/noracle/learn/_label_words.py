"""The findings of a label analysis in plain words."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from noracle.learn._label_table import LabelTable
from noracle.learn.dependence import NAME
from noracle.results import Check, Estimate
from noracle.results.analysis import AnnotatorRow, Rate, TransitionTable

_MOST = 4


def findings(
    table: LabelTable,
    noise: Estimate,
    shares: Sequence[Rate],
    preferences: Sequence[Rate],
    transitions: Sequence[TransitionTable],
    agreement: Estimate,
    annotators: Sequence[AnnotatorRow],
    checks: Sequence[Check],
) -> tuple[str, ...]:
    """What was found, the most important first."""
    if not len(table.label):
        return ("There are no labels.",)
    return (
        *_noise(table, noise),
        *_bias(table, shares, preferences),
        *_uniform(noise, checks, transitions),
        *_inverse(table, noise, transitions),
        *_people(noise, annotators, agreement),
        *_items(checks),
    )


def percent(share: float) -> str:
    """A share as in ``3.9 %``."""
    digits = 1 if share >= 0.001 or share == 0 else 3
    return f"{100 * share:.{digits}f} %"


def named(names: Sequence[str]) -> str:
    """The first few of many names."""
    shown = ", ".join(names[:_MOST])
    return shown + (f" and {len(names) - _MOST} more" if len(names) > _MOST else "")


def _noise(table: LabelTable, noise: Estimate) -> Iterator[str]:
    if math.isnan(noise.value):
        yield f"How many labels are wrong is not known: {noise.reason}."
        return
    random, said = 1 / table.n_classes, percent(noise.value)
    limits = f"{100 * noise.confidence:g} % interval {percent(noise.low)} to {percent(noise.high)}"
    yield f"Labels rule out the truth in {said} of cases ({limits}, {noise.counts['wrong']:,} of {noise.counts['labels']:,} labels)."
    if noise.high < random:
        yield f"That is {percent(1 - noise.value / random)} less than a random annotator's {percent(random)}."
    elif noise.low > random:
        yield f"That is more than a random annotator's {percent(random)}: labels may have been read the wrong way round."
    else:
        yield f"The labels cannot be told from a random annotator's, who is wrong in {percent(random)}: get more trusted items."


def _bias(table: LabelTable, shares: Sequence[Rate], preferences: Sequence[Rate]) -> Iterator[str]:
    if preferences:
        more, less = ([r.name for r in preferences if r.verdict == v] for v in ("more", "less"))
        if more:
            yield f"The annotators prefer to rule out {named(more)}."
        if less:
            yield f"The annotators avoid ruling out {named(less)}."
        return
    more, less = ([r.name for r in shares if r.verdict == v] for v in ("more", "less"))
    if more or less:
        what = " and ".join(
            t for t in (f"{named(more)} more" * bool(more), f"{named(less)} less" * bool(less)) if t
        )
        odd = (
            ""
            if table.n_classes == 2
            else " Frequent true classes are ruled out less often even by fair annotators."
        )
        yield f"Compared with equal shares, labels rule out {what} often.{odd}"


def _uniform(
    noise: Estimate, checks: Sequence[Check], transitions: Sequence[TransitionTable]
) -> Iterator[str]:
    about = [c for c in checks if c.assumption == "uniform T"]
    failed = [c for c in about if not c.passed]
    remedy = (
        "use a counted or estimated T"
        if transitions and transitions[0].oracle
        else "estimate T, or count it on trusted items"
    )
    if failed:
        yield f"Uniform T is refuted: {remedy}. {failed[-1].finding[0].upper()}{failed[-1].finding[1:]}."
    elif noise.counts["wrong"]:
        yield f"Uniform T without noise is refuted, since {noise.counts['wrong']:,} labels rule out the truth: {remedy}."
    elif all(math.isnan(c.p_value) for c in about):
        yield "Whether T is uniform could not be tested."
    else:
        seen = (
            "with"
            if any("truth" not in c.name and not math.isnan(c.p_value) for c in about)
            else "without"
        )
        yield f"Nothing speaks against uniform T, as far as it can be seen {seen} true labels."


def _inverse(
    table: LabelTable, noise: Estimate, transitions: Sequence[TransitionTable]
) -> Iterator[str]:
    for t in transitions:
        who = (
            "The counted T (oracle: true labels were seen)"
            if t.oracle
            else "The T estimated by anchor points"
        )
        if not t.matrix and t.source == "oracle":
            continue
        if t.usable:
            line = f"{who} can be used for unbiased risks: condition number {t.condition:.3g}, 1 − ηK = {t.strength:.3g}."
            weak = t.oracle and noise.low <= 1 / table.n_classes <= noise.high
            yield line + (
                " But its noise may be that of a random annotator; do not trust the inverse."
                if weak
                else ""
            )
        else:
            yield f"{who} cannot be used for unbiased risks: {t.reason.rstrip('.')}."


def _people(
    noise: Estimate, annotators: Sequence[AnnotatorRow], agreement: Estimate
) -> Iterator[str]:
    worse = [a.name for a in annotators if a.noise.n and a.noise.low > noise.high]
    if worse:
        yield f"Wrong more often than all together: {'annotator' if len(worse) == 1 else 'annotators'} {named(worse)}."
    if not math.isnan(agreement.value):
        chance = agreement.diagnostics["independent_even_labels"]
        said = f"Two annotators give the same label in {percent(agreement.value)} of pairs"
        yield f"{said}; independent even labels would in {percent(chance)}."


def _items(checks: Sequence[Check]) -> Iterator[str]:
    check = next((c for c in checks if c.name == NAME), None)
    if check is None or math.isnan(check.p_value):
        return
    heuristic = (
        " This is a hint only, since classes were guessed."
        if check.diagnostics["heuristic"]
        else ""
    )
    if check.passed:
        yield f"Nothing shows that labels depend on the item beyond its class (p = {check.p_value:.2g}).{heuristic}"
    else:
        yield f"Labels depend on the item beyond its class (p = {check.p_value:.2g}): T is an average over items.{heuristic}"
