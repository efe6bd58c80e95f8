"""The sketch of joint decisions out of evidence: one group-by for any size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import narwhals as nw
import numpy as np

from noracle.counts.met import answers_of, unknown_systems
from noracle.counts.sketch import Sketch
from noracle.errors import ArgumentError, EvidenceError, fault
from noracle.evidence.evidence import Evidence
from noracle.evidence.frames import Frame, fetch
from noracle.evidence.labels import gather

if TYPE_CHECKING:
    from numpy.typing import NDArray

_BITS = 62


def count_decisions(
    evidence: Evidence,
    *,
    systems: Sequence[str] | None = None,
    known: Mapping[Any, Any] | None = None,
    judgements: Literal["use", "ignore"] = "use",
) -> Sketch:
    """How often systems gave each pattern of answers, over all items of the evidence.

    Parameters
    ----------
    evidence
        Answers, and judgements as side information. The items are those of ``items`` if that table
        is there, else those with answers.
    systems
        The systems, in the order of the patterns; by default all, sorted.
    known
        True labels by item, beside the judgements.
    judgements
        ``"use"``: a yes makes the label of an item known, a no takes a label away. ``"ignore"``:
        answers only.

    Returns
    -------
    Sketch
        A system that was not asked about an item, or gave no answer, is missing there.

    Raises
    ------
    EvidenceError
        If rows break a rule, or if ``known`` contradicts the judgements; the items are named.

    Examples
    --------
    >>> evidence = Evidence.from_tables(
    ...     answers={"item": [1, 1, 2, 2], "system": ["x", "y", "x", "y"], "answer": ["a", "b", "b", None]},
    ...     judgements={"item": [2], "class": ["a"], "verdict": ["no"]},
    ...     classes=["a", "b", "c"],
    ... )
    >>> sketch = count_decisions(evidence, known={1: "a"})
    >>> sketch.patterns.tolist(), sketch.allowed.tolist()
    ([[0, 1], [1, -1]], [[True, False, False], [False, True, True]])
    """
    if judgements not in {"use", "ignore"}:
        raise ArgumentError(f"judgements must be 'use' or 'ignore'; got {judgements!r}.")
    answers = answers_of(evidence, systems)
    evidence.check()
    names = _systems(answers, systems, evidence)
    labels = _labels(evidence)
    frame, packs = _packed(evidence, answers, names, labels)
    masks: list[str] = []
    if judgements == "use" and evidence.judgements is not None:
        frame, masks = _with_masks(evidence, frame, labels)
    keys = [*packs, *masks, *(["k"] if evidence.has_own_n_classes else [])]
    told = _places_of(known, labels)
    rest = frame.filter(~nw.col("item").is_in(list(told))) if told else frame
    columns = _columns(rest.group_by(*keys).agg(n=nw.len()).sort(*keys).select(*keys, "n"))
    codes, allowed, n = _unpacked(columns, packs, masks, len(names), len(labels))
    if told:
        mine = fetch(frame.filter(nw.col("item").is_in(list(told))).select(*keys, "item"))
        missing = [item for item in told if item not in {row[-1] for row in mine}]
        if missing:
            raise EvidenceError(
                fault(
                    "known",
                    "must be about items of the evidence",
                    "unknown items",
                    where=missing,
                    total=len(missing),
                )
            )
        more = {
            key: np.array([row[j] or 0 for row in mine], dtype=np.int64)
            for j, key in enumerate(keys)
        }
        more_codes, more_allowed, _ = _unpacked(
            {**more, "n": np.ones(len(mine))}, packs, masks, len(names), len(labels)
        )
        truth = np.array([told[row[-1]] for row in mine])
        wrong = ~more_allowed[np.arange(len(mine)), truth]
        if wrong.any():
            where = sorted(mine[i][-1] for i in np.flatnonzero(wrong))
            rule = "must not contradict the judgements or the number of classes"
            raise EvidenceError(
                fault(
                    "known",
                    rule,
                    "labels that are ruled out",
                    where=where,
                    total=len(where),
                    remedy="Correct one.",
                )
            )
        codes = np.concatenate([codes, more_codes])
        allowed = np.concatenate([allowed, np.eye(len(labels), dtype=bool)[truth]])
        n = np.concatenate([n, np.ones(len(mine), dtype=np.int64)])
    return Sketch.from_arrays(
        codes, labels=[str(v) for v in labels], classifiers=names, allowed=allowed, n=n
    )


def _systems(answers: Frame, systems: Sequence[str] | None, evidence: Evidence) -> list[str]:
    found = sorted(
        str(row[0]) for row in fetch(answers.group_by("system").agg(n=nw.len()).select("system"))
    )
    missing = [s for s in systems or () if str(s) not in found]
    if missing:
        raise unknown_systems(missing, evidence)
    return found if systems is None else list(dict.fromkeys(str(s) for s in systems))


def _labels(evidence: Evidence) -> list[Any]:
    """All labels that the truth can be. Classes of text that nobody named but ``n_classes``
    promises are called 'unseen 1', …
    """
    if evidence.classes is not None:
        return list(evidence.classes)
    if evidence.class_kind == "whole":
        if evidence.has_own_n_classes and evidence.items is not None:
            return list(range(int(fetch(evidence.items.select(nw.col("n_classes").max()))[0][0])))
        return list(range(int(evidence.n_classes or 0)))
    if evidence.has_own_n_classes:
        raise EvidenceError(
            fault(
                "classes", "must be given where items have their own number of text classes", "none"
            )
        )
    seen: set[str] = set()
    for frame, column in ((evidence.answers, "answer"), (evidence.judgements, "class")):
        if frame is not None:
            seen |= {
                str(r[0])
                for r in fetch(
                    frame.filter(~nw.col(column).is_null())
                    .group_by(column)
                    .agg(n=nw.len())
                    .select(column)
                )
            }
    unseen = int(evidence.n_classes or 0) - len(seen)
    return [*sorted(seen), *(f"unseen {i + 1}" for i in range(unseen))]


def _place(column: str, labels: Sequence[Any], evidence: Evidence) -> nw.Expr:
    """The place of a class among the labels."""
    if evidence.classes is None and evidence.class_kind == "whole":
        return nw.col(column)
    place: Any = nw.when(nw.col(column) == labels[0]).then(nw.lit(0))
    for i, label in enumerate(labels[1:], start=1):
        place = place.when(nw.col(column) == label).then(nw.lit(i))
    found: nw.Expr = place
    return found


def _digits(n_labels: int) -> int:
    """How many answers of base ``n_labels`` + 1 one whole number of 62 bits holds."""
    digits = 1
    while (n_labels + 1) ** (digits + 1) < 2**_BITS:
        digits += 1
    return digits


def _packed(
    evidence: Evidence, answers: Frame, names: Sequence[str], labels: Sequence[Any]
) -> tuple[Frame, list[str]]:
    """One row an item, all answers packed into few whole numbers: Σ (place + 1)·base^position."""
    base, digits = len(labels) + 1, _digits(len(labels))
    digit = (_place("answer", labels, evidence) + 1).cast(nw.Int64)
    packs: dict[str, nw.Expr] = {}
    for start in range(0, len(names), digits):
        first, *others = names[start : start + digits]
        weight: Any = nw.when(nw.col("system") == first).then(nw.lit(1, dtype=nw.Int64))
        for position, name in enumerate(others, start=1):
            weight = weight.when(nw.col("system") == name).then(
                nw.lit(base**position, dtype=nw.Int64)
            )
        packs[f"pack_{start}"] = weight.otherwise(nw.lit(0, dtype=nw.Int64)) * nw.col("digit")
    given = answers.filter(~nw.col("answer").is_null()).select("item", "system", digit=digit)
    packed = given.with_columns(**packs).group_by("item").agg(*[nw.col(p).sum() for p in packs])
    everyone = answers if evidence.items is None else evidence.items
    if evidence.items is None and evidence.answers is not None:
        everyone = evidence.answers  # also the items that the chosen systems left out
    items = everyone.select(
        "item", *([nw.col("n_classes").alias("k")] if evidence.has_own_n_classes else [])
    )
    if evidence.items is None:
        items = items.group_by("item").agg(rows=nw.len()).select("item")
    joined = items.join(packed, on="item", how="left")
    return joined.with_columns(*[nw.col(p).fill_null(0).cast(nw.Int64) for p in packs]), list(packs)


def _with_masks(evidence: Evidence, frame: Frame, labels: Sequence[Any]) -> tuple[Frame, list[str]]:
    """The frame with the labels that judgements forbid, one bit a label; items whose judgements
    contradict each other have none.
    """
    if evidence.judgements is None:
        return frame, []
    gathered = gather(evidence)
    fine = gathered.known.filter(~nw.col("conflict")).select("item", "n_yes")
    said = gathered.said.join(fine, on="item", how="inner").with_columns(
        place=_place("class", labels, evidence).cast(nw.Int64)
    )
    masks: dict[str, nw.Expr] = {}
    for start in range(0, len(labels), _BITS):
        bit: Any = nw.when(nw.col("place") == start).then(nw.lit(1, dtype=nw.Int64))
        for j in range(1, min(_BITS, len(labels) - start)):
            bit = bit.when(nw.col("place") == start + j).then(nw.lit(2**j, dtype=nw.Int64))
        bit = bit.otherwise(nw.lit(0, dtype=nw.Int64))
        masks[f"yes_{start}"] = bit * nw.col("yes")
        masks[f"no_{start}"] = bit * nw.when(nw.col("n_yes") == 0).then(nw.col("no")).otherwise(
            nw.lit(0, dtype=nw.Int64)
        )
    forbidden = said.with_columns(**masks).group_by("item").agg(*[nw.col(m).sum() for m in masks])
    joined = frame.join(forbidden, on="item", how="left")
    return joined.with_columns(*[nw.col(m).fill_null(0).cast(nw.Int64) for m in masks]), list(masks)


def _columns(frame: Frame) -> dict[str, NDArray[Any]]:
    """All columns as arrays, without a Python object for each value where the engine can."""
    native: Any = frame.to_native()
    if frame.implementation.is_duckdb():
        return {name: np.asarray(values) for name, values in native.fetchnumpy().items()}
    if frame.implementation.is_polars():
        return {name: values.to_numpy() for name, values in native.collect().to_dict().items()}
    rows = fetch(frame)
    return {
        name: np.array([row[j] for row in rows], dtype=np.int64)
        for j, name in enumerate(frame.columns)
    }


def _unpacked(
    columns: Mapping[str, NDArray[Any]],
    packs: Sequence[str],
    masks: Sequence[str],
    n_systems: int,
    n_labels: int,
) -> tuple[NDArray[np.int16], NDArray[np.bool_], NDArray[np.int64]]:
    """Codes, allowed labels and numbers of items of the groups."""
    n = np.asarray(columns["n"]).astype(np.int64)
    base, digits = n_labels + 1, _digits(n_labels)
    codes = np.empty((len(n), n_systems), dtype=np.int16)
    for pack in packs:
        value = np.asarray(columns[pack]).astype(np.int64)
        start = int(pack.split("_")[1])
        for position in range(start, min(start + digits, n_systems)):
            value, digit = np.divmod(value, base)
            codes[:, position] = digit - 1
    allowed = np.ones((len(n), n_labels), dtype=bool)
    if "k" in columns:
        allowed &= np.arange(n_labels) < np.asarray(columns["k"]).astype(np.int64)[:, None]
    bits = {mask: np.asarray(columns[mask]).astype(np.int64) for mask in masks}
    confirmed = np.zeros(len(n), dtype=bool)
    yes = np.zeros_like(allowed)
    for mask, value in bits.items():
        kind, first = mask.split("_")
        for j in range(int(first), min(int(first) + _BITS, n_labels)):
            on = (value >> (j - int(first))) & 1 == 1
            if kind == "yes":
                yes[:, j] = on
                confirmed |= on
            else:
                allowed[on, j] = False
    allowed[confirmed] &= yes[confirmed]
    return codes, allowed, n


def _places_of(known: Mapping[Any, Any] | None, labels: Sequence[Any]) -> dict[Any, int]:
    """Known labels as places."""
    place = {str(label): i for i, label in enumerate(labels)}
    wrong = [item for item, label in (known or {}).items() if str(label) not in place]
    if wrong:
        first = (known or {})[wrong[0]]
        raise EvidenceError(
            fault(
                "known",
                f"must be labels among {list(labels)[:10]}",
                repr(first),
                where=wrong,
                total=len(wrong),
            )
        )
    return {item: place[str(label)] for item, label in (known or {}).items()}
