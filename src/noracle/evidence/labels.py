"""Judgements of the same item as one label.

- ``once``: one row a judgement, exact repeats counted once;
- ``class_labels``: one row an item and class, what was said of it;
- ``item_labels``: one row an item, how many classes were confirmed and ruled out, and whether that is possible;
- ``gather``: all three of one evidence, worked out once and kept with it, because every count asks for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import narwhals as nw

from noracle.errors import EvidenceError, fault
from noracle.evidence.frames import Frame, fetch, settle
from noracle.evidence.normal import NO, UNSURE, YES

if TYPE_CHECKING:
    from noracle.evidence.evidence import Evidence

_UNIFORM_WITHIN = 1e-9


class Gathered(NamedTuple):
    """Judgements each once, by item and class, and by item (contradictory items too)."""

    each: Frame
    classes: Frame
    items: Frame


def gather(evidence: Evidence) -> Gathered:
    """The judgements of an evidence gathered into labels; the work is done once, except on PySpark."""
    if evidence.judgements is None:
        raise EvidenceError(fault("evidence", "must have judgements", "none"))
    about = (evidence.judgements, evidence.items, evidence.n_classes)
    kept = evidence._kept.get("labels")
    if kept is None or any(a is not b for a, b in zip(kept[0], about, strict=True)):
        ours = evidence._connection is not None
        each = settle(once(evidence.judgements), ours=ours)
        # Without an unsure only a yes against a no is mixed, which the classes show: no need to look at each rater.
        plain = (ours or each.implementation.is_polars()) and not fetch(each.filter(nw.col("said") == UNSURE).head(1))
        classes = settle(class_labels(evidence, each, by_rater=not plain), ours=ours)
        kept = evidence._kept["labels"] = about, Gathered(each, classes, settle(item_labels(classes), ours=ours))
    found: Gathered = kept[1]
    return found


def with_n_classes(frame: Frame, evidence: Evidence) -> Frame:
    """The frame with the number of classes of its item in column ``k`` (null for an item that ``items`` does not know)."""
    if evidence.has_own_n_classes and evidence.items is not None:
        return frame.join(evidence.items.select("item", k=nw.col("n_classes")), on="item", how="left")
    return frame.with_columns(k=nw.lit(evidence.n_classes, dtype=nw.Int64))


def recorded(k: nw.Expr) -> nw.Expr:
    """Whether a propensity was recorded that is not 1/K."""
    return ((nw.col("propensity") * k - 1.0).abs() > _UNIFORM_WITHIN).fill_null(value=False)


def once(judgements: Frame) -> Frame:
    """Each judgement once, at its latest time: same item, class, verdict, rater and propensity; no rater is one unnamed rater."""
    rater = nw.col("rater").fill_null("") if "rater" in judgements.columns else nw.lit("")
    frame = judgements.with_columns(rater=rater)
    keys = ["item", "class", "said", "rater", *(["propensity"] if "propensity" in judgements.columns else [])]
    latest = {"at": nw.col("at").max()} if "at" in judgements.columns else {}
    return frame.group_by(*keys).agg(repeats=nw.len(), **latest)


def class_labels(evidence: Evidence, judgements: Frame, *, by_rater: bool = True) -> Frame:
    """What was said of each class of each item, out of judgements that are there once.

    Columns ``yes``, ``no``, ``unsure`` and ``mixed`` (one rater said different things) are 0 or 1, ``n_judged`` counts judgements and
    ``n_said`` those that are not unsure; with propensities ``recorded`` is 0 or 1 and ``yes_sum``, ``no_sum`` add 1/propensity.
    Without ``by_rater`` it is known that nobody was unsure; then mixed is what was confirmed and ruled out.
    """
    frame = with_n_classes(judgements, evidence)
    scored = "propensity" in frame.columns
    said = nw.col("said")
    flags = {name: (said == code).cast(nw.Int64) for name, code in (("yes", YES), ("no", NO), ("unsure", UNSURE))}
    frame = frame.with_columns(**flags, n_judged=nw.lit(1, dtype=nw.Int64))
    frame = frame.with_columns(n_said=nw.col("yes") + nw.col("no"))
    highest, sums = [*flags, "k"], ["n_judged", "n_said"]
    if scored:
        k = nw.col("k").cast(nw.Float64)
        inverse = nw.when(nw.col("propensity").is_null()).then(k).otherwise(1.0 / nw.col("propensity"))
        frame = frame.with_columns(recorded=recorded(k).cast(nw.Int64), yes_sum=nw.col("yes") * inverse, no_sum=nw.col("no") * inverse)
        highest.append("recorded")
        sums += ["yes_sum", "no_sum"]
    wanted = {**{name: nw.col(name).max() for name in highest}, **{name: nw.col(name).sum() for name in sums}}
    if not by_rater:
        return frame.group_by("item", "class").agg(**wanted).with_columns(mixed=nw.col("yes") * nw.col("no"))
    frame = frame.group_by("item", "class", "rater").agg(**wanted, low=said.min(), high=said.max())
    frame = frame.with_columns(mixed=(nw.col("low") != nw.col("high")).cast(nw.Int64))
    return frame.group_by("item", "class").agg(**wanted, mixed=nw.col("mixed").max())


def item_labels(classes: Frame, *, by_class: bool = False) -> Frame:
    """The label of each item, with ``conflict`` where no true class could explain what was said.

    A conflict is: two confirmed classes, a class both confirmed and ruled out, every class ruled out, or one rater who said
    different things of one class. ``by_class`` adds ``asked``, the class that the label speaks of where it is one.
    """
    wanted = {
        "n_yes": nw.col("yes").sum(),
        "n_no": nw.col("no").sum(),
        "n_unsure": nw.col("unsure").sum(),
        "n_said": nw.col("n_said").sum(),
        "n_judged": nw.col("n_judged").sum(),
        "k": nw.col("k").max(),
        "clash": nw.col("clash").max(),
    }
    frame = classes.with_columns(clash=nw.max_horizontal(nw.col("yes") * nw.col("no"), nw.col("mixed")))
    if "recorded" in classes.columns:
        wanted["recorded"] = nw.col("recorded").max()
    if by_class:
        for name in ("yes", "no", "unsure"):
            frame = frame.with_columns(nw.when(nw.col(name) == 1).then(nw.col("class")).alias(f"{name}_class"))
            wanted[f"{name}_class"] = nw.col(f"{name}_class").max()
    frame = frame.group_by("item").agg(**wanted)
    n_yes, n_no = nw.col("n_yes"), nw.col("n_no")
    none_left = ((n_yes == 0) & (n_no >= nw.col("k"))).fill_null(value=False)
    verdict = nw.when(n_yes > 0).then(nw.lit(YES)).when(n_no > 0).then(nw.lit(NO)).otherwise(nw.lit(UNSURE))
    frame = frame.with_columns(conflict=(n_yes > 1) | (nw.col("clash") > 0) | none_left, verdict=verdict)
    if by_class:
        asked = nw.when(n_yes == 1).then(nw.col("yes_class"))
        asked = asked.when((n_yes == 0) & (n_no == 1)).then(nw.col("no_class"))
        asked = asked.when((n_yes == 0) & (n_no == 0) & (nw.col("n_unsure") == 1)).then(nw.col("unsure_class"))
        frame = frame.with_columns(asked=asked)
    return frame
