"""The sketch of joint decisions: how often each pattern of answers was given, and which labels an
item can still have.

That is all that a proof from answers alone may see. Items with the same answers and the same
possible labels are one group.
"""

from __future__ import annotations

import dataclasses
import string
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Self

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from noracle.counts.count import answers_of, chosen_systems
from noracle.counts.tally import require_schema
from noracle.errors import EvidenceError, require, require_evidence
from noracle.evidence.evidence import Evidence
from noracle.evidence.frames import Frame, cases, distinct, fetch, fetch_arrays, is_there
from noracle.evidence.labels import gather

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

_SORT_UP_TO = 200_000

Codes = NDArray[np.int16]
Flags = NDArray[np.bool_]
Counts = NDArray[np.int64]


def group_rows(codes: Codes, allowed: Flags, n: Counts) -> tuple[NDArray[np.intp], Counts]:
    """The first row of each group of equal rows, and the sums of ``n``; sorted if not very many."""
    if not len(n):
        return np.zeros(0, dtype=np.intp), n
    order = np.random.default_rng(20_250_301)  # fixed multipliers of a hash that is checked below
    key = np.zeros(len(n), dtype=np.uint64)
    for table in (codes.astype(np.uint64), allowed):
        factors = order.integers(1, 2**63, table.shape[1], dtype=np.uint64)
        key += (table * factors).sum(axis=1, dtype=np.uint64)
    _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
    if len(first) < len(n):
        same = (codes[first[inverse]] == codes).all() and (allowed[first[inverse]] == allowed).all()
        if not same:  # two patterns with one key: compare whole rows instead
            rows = np.concatenate([codes, allowed], axis=1)
            _, first, inverse = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    total = np.zeros(len(first), dtype=np.int64)
    np.add.at(total, inverse.ravel(), n)
    if len(first) <= _SORT_UP_TO:
        keys = (*(~allowed[first]).T[::-1], *codes[first].T[::-1])
        by_pattern = np.lexsort(keys)
        first, total = first[by_pattern], total[by_pattern]
    return first, total


ALPHABET = string.digits + string.ascii_letters
"""One letter per label in the text form of a pattern; a full stop is no answer."""
MISSING = -1


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sketch:
    """How often each pattern of answers occurred.

    Attributes
    ----------
    classifiers, labels
        Who answered, and what an answer or the truth can be.
    patterns
        One row per group: the place of each classifier's answer in ``labels``, or -1 for no answer.
    allowed
        One row per group: the labels that its items can have. A known answer leaves one, "not this
        label" takes one away.
    n
        Number of items of each group, at least 1.

    Sketches of different items add: ``monday + tuesday``.

    Examples
    --------
    >>> sketch = Sketch.from_counts({("a", "a"): 3, ("a", "b"): 1, (None, "b"): 2}, classifiers=["x", "y"], labels=["a", "b"])
    >>> sketch.n_items, sketch.uses.tolist(), (sketch + sketch).n_items
    (6, [[4, 0], [3, 3]], 12)
    """

    classifiers: tuple[str, ...]
    labels: tuple[str, ...]
    patterns: Codes
    allowed: Flags
    n: Counts

    def __post_init__(self) -> None:
        _check_names("classifiers", self.classifiers, 1)
        _check_names("labels", self.labels, 2)
        require_evidence(len(self.n), "sketch", "must have items", "none")
        if not self.allowed.any(axis=1).all():
            pattern = tuple(self.patterns[int(np.argmin(self.allowed.any(axis=1)))].tolist())
            answers = ", ".join("no answer" if c < 0 else self.labels[c] for c in pattern)
            came = f"items answered ({answers}) with every label ruled out"
            raise EvidenceError.of("side information", "must leave each item a label", came)

    @classmethod
    def from_arrays(
        cls,
        answers: ArrayLike,
        *,
        labels: Sequence[object],
        classifiers: Sequence[object] | None = None,
        known: ArrayLike | None = None,
        allowed: ArrayLike | None = None,
        n: ArrayLike | None = None,
    ) -> Self:
        """Group items by their answers.

        Parameters
        ----------
        answers
            One row per item and one column per classifier: places in ``labels``, from 0; -1 is no
            answer.
        labels
            All labels that the truth can be, in order.
        classifiers
            Names of the columns; by default 0, 1, …
        known
            The place of the true label of each item, -1 where nobody knows.
        allowed
            One row per item, one column per label: whether the item can have it.
        n
            How many items each row stands for; by default 1.

        Examples
        --------
        >>> Sketch.from_arrays([[0, 1], [0, 1], [1, -1]], labels=["no", "yes"], known=[-1, 0, -1]).n_groups
        3
        """
        codes = np.asarray(answers)
        whole = codes.ndim == 2 and codes.dtype.kind in "iub"
        rule = "must be a table of whole numbers, items by classifiers"
        require_evidence(whole, "answers", rule, f"{codes.dtype} {codes.shape}")
        R = len(labels)
        names = tuple(map(str, range(codes.shape[1]) if classifiers is None else classifiers))
        named, rule = len(names) == codes.shape[1], f"must name the {codes.shape[1]} columns"
        require_evidence(named, "classifiers", f"{rule} of answers", f"{len(names)} names")
        _check_names("labels", tuple(map(str, labels)), 2)
        low, high = (codes.min(), codes.max()) if codes.size else (MISSING, MISSING)
        inside, worst = low >= MISSING and high < R, int(high if high >= R else low)
        require_evidence(inside, "answers", f"must be in [0, {R}) or -1 for no answer", worst)
        codes = codes.astype(np.int16, copy=False)
        shape = (len(codes), R)
        can = np.ones(shape, dtype=bool) if allowed is None else np.array(allowed, dtype=bool)
        require_evidence(can.shape == shape, "allowed", f"must have shape {shape}", can.shape)
        if known is not None:
            can = can & _only(np.asarray(known), len(codes), R)
        if not can.any(axis=1).all():
            where = np.flatnonzero(~can.any(axis=1)).tolist()
            rule, came = "must leave each item a label", "every label ruled out"
            raise EvidenceError.of("side information", rule, came, where=where, total=len(where))
        weights = np.ones(len(codes), dtype=np.int64) if n is None else np.asarray(n)
        fits = weights.shape == (len(codes),) and weights.dtype.kind in "iub"
        if not fits or (weights < 0).any():
            rule = f"must be {len(codes)} whole numbers, none negative"
            raise EvidenceError.of("n", rule, np.asarray(n).tolist()[:5])
        return cls._of_rows(names, tuple(map(str, labels)), codes, can, weights.astype(np.int64))

    @classmethod
    def from_counts(
        cls,
        counts: Mapping[tuple[object, ...], int],
        *,
        classifiers: Sequence[object],
        labels: Sequence[object],
        known: Mapping[tuple[object, ...], Mapping[object, int]] | None = None,
        ruled_out: Mapping[tuple[object, ...], Mapping[object, int]] | None = None,
    ) -> Self:
        """A sketch from published pattern counts.

        Parameters
        ----------
        counts
            The answers of all classifiers, in order (None: no answer), and how many items were
            answered so.
        classifiers, labels
            In the order of the patterns; all labels that the truth can be.
        known, ruled_out
            Of the items of a pattern, how many are known to have a label, and how many are known
            not to have it. These are different items; an item with several ruled-out labels needs
            :meth:`from_arrays`.

        Examples
        --------
        >>> counts = {("a", "a"): 1, ("b", "a"): 1, ("b", "b"): 1}
        >>> Sketch.from_counts(counts, classifiers=["x", "y"], labels=["a", "b"], known={("a", "a"): {"a": 1}}).allowed.tolist()
        [[True, False], [True, True], [True, True]]
        """
        place = {str(label): i for i, label in enumerate(labels)}
        require_evidence(len(place) == len(labels), "labels", "must differ", list(labels))
        rows: list[tuple[list[int], list[bool], int]] = []
        side = [(given or {}, keep) for given, keep in ((known, True), (ruled_out, False))]
        for pattern in [pattern for given, _ in side for pattern in given]:
            rule = "must be about patterns in counts"
            require_evidence(pattern in counts, "side information", rule, pattern)
        tuples = f"must be keyed by tuples of {len(classifiers)} answers"
        among = f"among {list(labels)}"
        for pattern, total in counts.items():
            fits = isinstance(pattern, tuple) and len(pattern) == len(classifiers)
            require_evidence(fits, "counts", tuples, repr(pattern))
            for a in pattern:
                if a is not None and str(a) not in place:
                    raise EvidenceError.of("counts", f"must be keyed by answers {among}", repr(a))
            _check_count(f"counts[{pattern!r}]", total)
            codes = [MISSING if a is None else place[str(a)] for a in pattern]
            left = int(total)
            for given, keep in side:
                for label, m in given.get(pattern, {}).items():
                    rule = f"must be about labels {among}"
                    require_evidence(str(label) in place, "side information", rule, repr(label))
                    _check_count(f"side information about {pattern!r}", m)
                    can = [(i == place[str(label)]) == keep for i in range(len(labels))]
                    rows.append((codes, can, int(m)))
                    left -= int(m)
            what = f"side information about {pattern!r}"
            rule = f"must be about at most its {total} items"
            require_evidence(left >= 0, what, rule, int(total) - left)
            rows.append((codes, [True] * len(labels), left))
        require_evidence(rows, "counts", "must have patterns", "none")
        return cls.from_arrays(
            np.array([r[0] for r in rows], dtype=np.int16).reshape(len(rows), len(classifiers)),
            labels=labels,
            classifiers=classifiers,
            allowed=np.array([r[1] for r in rows], dtype=bool),
            n=np.array([r[2] for r in rows], dtype=np.int64),
        )

    @classmethod
    def _of_rows(
        cls,
        classifiers: tuple[str, ...],
        labels: tuple[str, ...],
        codes: Codes,
        allowed: Flags,
        n: Counts,
    ) -> Self:
        keep = n > 0
        if not keep.all():
            codes, allowed, n = codes[keep], allowed[keep], n[keep]
        first, total = group_rows(codes, allowed, n)
        about = {"classifiers": classifiers, "labels": labels}
        return cls(**about, patterns=codes[first], allowed=allowed[first], n=total)

    @property
    def n_items(self) -> int:
        """Number of items Q."""
        return int(self.n.sum())

    @property
    def n_groups(self) -> int:
        """Number of different patterns and sets of possible labels."""
        return len(self.n)

    @property
    def is_complete(self) -> bool:
        """Whether every classifier answered every item."""
        return bool((self.patterns >= 0).all())

    @property
    def has_side_information(self) -> bool:
        """Whether some item cannot have some label."""
        return not bool(self.allowed.all())

    @property
    def uses(self) -> Counts:
        """How often each classifier gave each answer (N × R)."""
        size = len(self.labels) + 1  # sums of whole numbers below 2^53 are exact in floats
        columns = (self.patterns + 1).T
        found = [np.bincount(column, weights=self.n, minlength=size)[1:] for column in columns]
        return np.rint(found).astype(np.int64)

    def of(self, classifiers: Sequence[str]) -> Self:
        """The same items seen by some of the classifiers only.

        Examples
        --------
        >>> sketch = Sketch.from_counts({("a", "a"): 3, ("a", "b"): 1}, classifiers=["x", "y"], labels=["a", "b"])
        >>> sketch.of(["x"]).n.tolist()
        [4]
        """
        strange = [c for c in classifiers if str(c) not in self.classifiers]
        if isinstance(classifiers, str) or strange or not classifiers:
            rule = f"must be among {list(self.classifiers)}"
            raise EvidenceError.of("classifiers", rule, repr(strange or classifiers))
        places = [self.classifiers.index(str(c)) for c in classifiers]
        names, patterns = tuple(map(str, classifiers)), self.patterns[:, places]
        return self._of_rows(names, self.labels, patterns, self.allowed, self.n)

    def __add__(self, other: Self) -> Self:
        if not isinstance(other, Sketch):
            return NotImplemented
        for name in ("classifiers", "labels"):
            mine, theirs = getattr(self, name), getattr(other, name)
            if set(mine) != set(theirs):
                came = f"{list(mine)} and {list(theirs)}"
                raise EvidenceError.of(f"{name} of both sketches", "must be the same", came)
        columns = [other.classifiers.index(c) for c in self.classifiers]
        order = [other.labels.index(label) for label in self.labels]
        back = np.array([*np.argsort(order), MISSING], dtype=np.int16)  # their code → ours, or -1
        patterns = np.concatenate([self.patterns, back[other.patterns[:, columns]]])
        allowed = np.concatenate([self.allowed, other.allowed[:, order]])
        n = np.concatenate([self.n, other.n])
        return self._of_rows(self.classifiers, self.labels, patterns, allowed, n)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sketch) and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Sketch({self.n_items} items, {len(self.classifiers)} classifiers, {len(self.labels)} labels, {self.n_groups} groups)"

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values: a pattern is text, one letter per classifier (``0`` the first label,
        ``.`` no answer).

        With more than 62 labels a pattern is a list of places instead, -1 for no answer.
        ``allowed`` lists the places of the possible labels of each group; None where all are
        possible.
        """
        patterns: list[Any]
        if len(self.labels) <= len(ALPHABET):
            letters = np.frombuffer((ALPHABET + ".").encode("ascii"), dtype=np.uint8)
            text = np.ascontiguousarray(letters[self.patterns])
            patterns = text.view(f"S{len(self.classifiers)}")[:, 0].astype(str).tolist()
        else:
            patterns = self.patterns.tolist()
        allowed = None
        if self.has_side_information:
            full: Flags = np.asarray(self.allowed.all(axis=1))
            rows = zip(full.tolist(), self.allowed, strict=True)
            allowed = [None if whole else np.flatnonzero(row).tolist() for whole, row in rows]
        return {
            "schema": "sketch/1",
            "classifiers": list(self.classifiers),
            "labels": list(self.labels),
            "patterns": patterns,
            "n": self.n.tolist(),
            "allowed": allowed,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Read back what :meth:`to_dict` wrote.

        Examples
        --------
        >>> sketch = Sketch.from_counts({("a", "a"): 3, (None, "b"): 1}, classifiers=["x", "y"], labels=["a", "b"])
        >>> sketch.to_dict()["patterns"], Sketch.from_dict(sketch.to_dict()) == sketch
        (['.1', '00'], True)
        """
        require_schema(data, "sketch/1")
        R, patterns = len(data["labels"]), data["patterns"]
        if patterns and isinstance(patterns[0], str):
            patterns = [[ALPHABET.find(c) for c in p] for p in patterns]
        allowed = None
        if data.get("allowed") is not None:
            allowed = np.array([[a is None or r in a for r in range(R)] for a in data["allowed"]])
        return cls.from_arrays(
            np.array(patterns, dtype=np.int16),
            labels=data["labels"],
            classifiers=data["classifiers"],
            allowed=allowed,
            n=data["n"],
        )


def _check_names(argument: str, names: tuple[str, ...], least: int) -> None:
    rule = f"must be at least {('one', 'two')[least - 1]}, all different"
    require_evidence(len(set(names)) == len(names) >= least, argument, rule, list(names))


def _check_count(argument: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 0:
        raise EvidenceError.of(argument, "must be a whole number, not negative", repr(value))


def _only(known: NDArray[Any], n_items: int, n_labels: int) -> Flags:
    """Which labels a known answer leaves; all where it is -1."""
    whole = known.shape == (n_items,) and known.dtype.kind in "iu"
    if not whole or (known < -1).any() or (known >= n_labels).any():
        rule = f"must be {n_items} places in [0, {n_labels}), or -1 where unknown"
        raise EvidenceError.of("known", rule, known.tolist()[:5])
    return np.asarray((known[:, None] == np.arange(n_labels)) | (known[:, None] < 0))


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
    chosen = judgements in {"use", "ignore"}
    require(chosen, f"judgements must be 'use' or 'ignore'; got {judgements!r}.")
    answers = answers_of(evidence, systems)
    evidence.check()
    names = chosen_systems(evidence, answers, systems)
    labels = _labels(evidence)
    frame, packs = _packed(evidence, answers, names, labels)
    masks: list[str] = []
    if judgements == "use" and evidence.judgements is not None:
        frame, masks = _with_masks(evidence, frame, labels)
    keys = [*packs, *masks, *(["k"] if evidence.has_own_n_classes else [])]
    told = _places_of(known, labels)
    rest = frame.filter(~nw.col("item").is_in(list(told))) if told else frame
    columns = fetch_arrays(rest.group_by(*keys).agg(n=nw.len()).sort(*keys).select(*keys, "n"))
    codes, allowed, n = _unpacked(columns, packs, masks, len(names), len(labels))
    if told:
        mine = fetch(frame.filter(nw.col("item").is_in(list(told))).select(*keys, "item"))
        there, rule = {row[-1] for row in mine}, "must be about items of the evidence"
        _refuse_known([item for item in told if item not in there], rule, "unknown items")
        cells = np.array([[value or 0 for value in row[:-1]] for row in mine], dtype=np.int64)
        more = {**dict(zip(keys, cells.T, strict=True)), "n": np.ones(len(mine))}
        more_codes, more_allowed, ones = _unpacked(more, packs, masks, len(names), len(labels))
        truth = np.array([told[row[-1]] for row in mine])
        wrong = np.flatnonzero(~more_allowed[np.arange(len(mine)), truth])
        rule = "must not contradict the judgements or the number of classes"
        where = sorted(mine[i][-1] for i in wrong)
        _refuse_known(where, rule, "labels that are ruled out", remedy="Correct one.")
        codes = np.concatenate([codes, more_codes])
        allowed = np.concatenate([allowed, np.eye(len(labels), dtype=bool)[truth]])
        n = np.concatenate([n, ones])
    texts = list(map(str, labels))
    return Sketch.from_arrays(codes, labels=texts, classifiers=names, allowed=allowed, n=n)


def _refuse_known(items: Sequence[Any], rule: str, came: str, *, remedy: str = "") -> None:
    """Refuse the known labels of these items, if there are any."""
    if items:
        raise EvidenceError.of("known", rule, came, where=items, total=len(items), remedy=remedy)


def _labels(evidence: Evidence) -> list[Any]:
    """All labels that the truth can be; text that nobody named is 'unseen 1', …"""
    if evidence.classes is not None:
        return list(evidence.classes)
    if evidence.class_kind == "whole":
        if evidence.has_own_n_classes and evidence.items is not None:
            return list(range(int(fetch(evidence.items.select(nw.col("n_classes").max()))[0][0])))
        return list(range(int(evidence.n_classes or 0)))
    if evidence.has_own_n_classes:
        rule = "must be given where items have their own number of text classes"
        raise EvidenceError.of("classes", rule, "none")
    seen = evidence._seen_classes()
    unseen = int(evidence.n_classes or 0) - len(seen)
    return [*seen, *(f"unseen {i + 1}" for i in range(unseen))]


def _place(column: str, labels: Sequence[Any], evidence: Evidence) -> nw.Expr:
    """The place of a class among the labels."""
    if evidence.classes is None and evidence.class_kind == "whole":
        return nw.col(column)
    return cases((nw.col(column) == label, i) for i, label in enumerate(labels))


def _int(value: int) -> nw.Expr:
    return nw.lit(value, dtype=nw.Int64)


def _digits(n_labels: int) -> int:
    """How many answers of base ``n_labels`` + 1 one whole number of 62 bits holds."""
    digits = 1
    while (n_labels + 1) ** (digits + 1) < 2**_BITS:
        digits += 1
    return digits


def _packed(
    evidence: Evidence, answers: Frame, names: Sequence[str], labels: Sequence[Any]
) -> tuple[Frame, list[str]]:
    """One row per item, all answers packed into few whole numbers: Σ (place + 1)·base^position."""
    base, digits = len(labels) + 1, _digits(len(labels))
    digit = (_place("answer", labels, evidence) + 1).cast(nw.Int64)
    packs: dict[str, nw.Expr] = {}
    for start in range(0, len(names), digits):
        some = enumerate(names[start : start + digits])
        weight = cases(((nw.col("system") == name, _int(base**i)) for i, name in some), _int(0))
        packs[f"pack_{start}"] = weight * nw.col("digit")
    given = answers.filter(is_there("answer")).select("item", "system", digit=digit)
    packed = given.with_columns(**packs).group_by("item").agg(*[nw.col(p).sum() for p in packs])
    everyone = answers if evidence.items is None else evidence.items
    if evidence.items is None and evidence.answers is not None:
        everyone = evidence.answers  # also the items that the chosen systems left out
    k = [nw.col("n_classes").alias("k")] if evidence.has_own_n_classes else []
    items = distinct(everyone, "item") if evidence.items is None else everyone.select("item", *k)
    joined = items.join(packed, on="item", how="left")
    return joined.with_columns(*[nw.col(p).fill_null(0).cast(nw.Int64) for p in packs]), list(packs)


def _with_masks(evidence: Evidence, frame: Frame, labels: Sequence[Any]) -> tuple[Frame, list[str]]:
    """The labels that judgements forbid, one bit per label; none where they contradict."""
    if evidence.judgements is None:
        return frame, []
    gathered = gather(evidence)
    fine = gathered.known.filter(~nw.col("conflict")).select("item", "n_yes")
    said = gathered.said.join(fine, on="item", how="inner").with_columns(
        place=_place("class", labels, evidence).cast(nw.Int64)
    )
    masks: dict[str, nw.Expr] = {}
    for start in range(0, len(labels), _BITS):
        some = range(min(_BITS, len(labels) - start))
        bit = cases(((nw.col("place") == start + j, _int(2**j)) for j in some), _int(0))
        masks[f"yes_{start}"] = bit * nw.col("yes")
        masks[f"no_{start}"] = bit * cases([(nw.col("n_yes") == 0, nw.col("no"))], _int(0))
    forbidden = said.with_columns(**masks).group_by("item").agg(*[nw.col(m).sum() for m in masks])
    joined = frame.join(forbidden, on="item", how="left")
    return joined.with_columns(*[nw.col(m).fill_null(0).cast(nw.Int64) for m in masks]), list(masks)


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
    told = {kind: np.zeros_like(allowed) for kind in ("yes", "no")}
    for mask in masks:
        kind, first = mask.split("_")
        bits = np.arange(min(_BITS, n_labels - int(first)))
        value = np.asarray(columns[mask]).astype(np.int64)[:, None]
        told[kind][:, int(first) + bits] = (value >> bits) & 1 == 1
    allowed &= ~told["no"]
    confirmed = told["yes"].any(axis=1)
    allowed[confirmed] &= told["yes"][confirmed]
    return codes, allowed, n


def _places_of(known: Mapping[Any, Any] | None, labels: Sequence[Any]) -> dict[Any, int]:
    """Known labels as places."""
    place = {str(label): i for i, label in enumerate(labels)}
    told = known or {}
    wrong = [item for item, label in told.items() if str(label) not in place]
    came = repr(told[wrong[0]]) if wrong else ""
    _refuse_known(wrong, f"must be labels among {list(labels)[:10]}", came)
    return {item: place[str(label)] for item, label in (known or {}).items()}
