"""The vault: the only place that holds labels during a search.

Labelled items are split once, by item and by seed, into three parts that share no item:

    validation   scores candidates; a strategy is told which of its answers were excluded, nothing else
    confirm      decides whether a candidate that leads replaces the one before it; a strategy never hears the outcome
    final        estimates the winner; opened once, after the search

A vault cannot be printed, pickled or copied into a journal: what leaves it are scores and single
bits.
"""

from __future__ import annotations

import dataclasses
import hashlib
import re
import warnings
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NoReturn, Self

import numpy as np

from noracle.errors import EvidenceError, EvidenceWarning, require, require_evidence
from noracle.evidence import Evidence
from noracle.evidence.evidence import read_table
from noracle.evidence.frames import fetch
from noracle.search.candidates import Outcome
from noracle.search.gate import SHARES
from noracle.search.task import LETTERS, TaskItem, draws

ItemId = int | str
Part = Literal["validation", "confirm", "final"]
PARTS: tuple[Part, ...] = ("validation", "confirm", "final")


@dataclasses.dataclass(frozen=True, slots=True)
class Feedback:
    """What a strategy may hear about its answers to validation items."""

    excluded: tuple[tuple[ItemId, int], ...]
    unanswered: tuple[ItemId, ...]


class Vault:
    """Labels of the items of a task, in three parts. Make it with :meth:`open`."""

    __slots__ = ("_final_open", "_judged", "_n_classes", "_parts", "_quoted", "seed", "shares")

    def __init__(
        self,
        judged: Mapping[ItemId, Sequence[tuple[Any, ...]]],
        n_classes: Mapping[ItemId, int],
        *,
        seed: int,
        shares: Sequence[float],
    ) -> None:
        self.seed, self.shares = seed, _checked_shares(shares)
        self._judged = {item: tuple(rows) for item, rows in judged.items()}
        self._n_classes = {item: n_classes[item] for item in judged}
        self._parts = _split(list(judged), seed, self.shares)
        self._final_open = False
        self._quoted: Quotes | tuple[TaskItem, ...] = ()

    @classmethod
    def open(
        cls,
        judgements: object,
        items: Iterable[TaskItem],
        *,
        seed: int,
        shares: Sequence[float] = SHARES,
    ) -> Self:
        """Lock the labels of these items away.

        Parameters
        ----------
        judgements
            Evidence, or a table that :meth:`noracle.Evidence.from_tables` takes: item, class,
            verdict, and optionally propensity. A class is the place of the option from 0, its
            letter, or its text.
        items
            The items of the task. Labels of other items are left out, with a warning that counts
            them.
        seed, shares
            The split depends on the seed and the ids of the labelled items only, not on the order
            of a file.

        Raises
        ------
        EvidenceError
            If fewer than three items are labelled, or a class is none of an item's options.

        Examples
        --------
        >>> items = [TaskItem(id=i, text="?", options=("a", "b", "c")) for i in range(8)]
        >>> vault = Vault.open({"item": list(range(8)), "class": [0] * 8, "verdict": ["no"] * 8}, items, seed=1)
        >>> {part: len(vault.items(part)) for part in ("validation", "confirm", "final")}
        {'validation': 4, 'confirm': 2, 'final': 2}
        """
        known = {item.id: item for item in items}
        judged, stray = _judged(judgements, known)
        if stray:
            said = f"labels of {stray} items that are not in the task are left out."
            warnings.warn(said, EvidenceWarning, stacklevel=2)
        n, remedy = len(judged), "Check the item ids."
        rule = "must label at least 3 items of the task with yes or no"
        require_evidence(n >= len(PARTS), "judgements", rule, n, remedy=remedy)
        vault = cls(judged, {i: len(known[i].options) for i in judged}, seed=seed, shares=shares)
        vault._quoted = tuple(known.values())
        return vault

    def strike(self, text: str) -> str:
        """The text without what it quotes of items: their texts, options and ids."""
        if isinstance(self._quoted, tuple):  # only searches with a designer pay for it
            self._quoted = Quotes(self._quoted)
        return self._quoted.strike(text)

    def items(self, part: Part) -> tuple[ItemId, ...]:
        """The ids of a part, in the order in which they are used."""
        return self._parts[part]

    @property
    def checksum(self) -> str:
        """Sixteen bits of a hash over all labels: a search that goes on with other labels is
        noticed, and no label can be read from it.
        """
        rows = [(str(item), *map(str, row)) for item, of in self._judged.items() for row in of]
        return hashlib.sha256(repr(sorted(rows)).encode()).hexdigest()[:4]

    def feedback(self, outcomes: Iterable[Outcome]) -> Feedback:
        """Which answers to validation items were excluded, and which items have no answer; nothing
        about other items.

        An answer is excluded where it is a class that was ruled out, or another class than the one
        that was confirmed.
        """
        allowed = set(self._parts["validation"])
        excluded: dict[tuple[ItemId, int], None] = {}
        unanswered: dict[ItemId, None] = {}
        for item, answer in [(o.item, o.answer) for o in outcomes if o.item in allowed]:
            if answer is None:
                unanswered[item] = None
            elif any((k == answer) == (verdict == "no") for k, verdict, _ in self._judged[item]):
                excluded[item, answer] = None
        return Feedback(tuple(excluded), tuple(unanswered))

    def evidence(self, part: Literal["validation", "confirm"]) -> Evidence:
        """The judgements of a part, for the fitness and the gate; never for a strategy."""
        came = f"{part!r}. The final labels are taken with take_final()"
        known = part in ("validation", "confirm")
        require(known, f"part must be 'validation' or 'confirm'; got {came}.")
        return self._evidence(part)

    def take_final(self) -> Evidence:
        """The final labels, once: a second call is refused, so that nothing can be chosen with
        them.
        """
        rule, remedy = "they were taken before", "Start a new search with new labels."
        require(not self._final_open, f"the final labels must be taken once; {rule}. {remedy}")
        self._final_open = True
        return self._evidence("final")

    def _evidence(self, part: Part) -> Evidence:
        rows = [(item, *row) for item in self._parts[part] for row in self._judged[item]]
        columns = ["item", "class", "verdict", "propensity"]
        table = {name: [row[c] for row in rows] for c, name in enumerate(columns)}
        if all(p is None for p in table["propensity"]):
            del table["propensity"]
        ids = list(self._parts[part])
        items = {"item": ids, "n_classes": [self._n_classes[i] for i in ids]}
        return Evidence.from_tables(judgements=table, items=items)

    def __repr__(self) -> str:
        return f"Vault({', '.join(f'{len(ids)} {part}' for part, ids in self._parts.items())})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a vault is not copied or pickled: it holds labels.")


_LONGEST_QUOTE = 4  # words in a row that two texts about different things hardly share
_COMMON = 0.05
_CJK = r"\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # written without spaces
_WORD = re.compile(rf"[{_CJK}]|[^\W{_CJK}]+")


class Quotes:
    """What is said in items, to be found in other texts: four words in a row, a shorter text as a
    whole, a name such as ``case-17b``; but nothing that many items share, such as the name of a
    class, and no plain word.

    Examples
    --------
    >>> quotes = Quotes([TaskItem(id=17, text="A woman of 54 with chest pain", options=("rest", "chest X-ray, then rest"))])
    >>> quotes.strike("Like item 17, a woman of 54 with chest pain: rest?")
    'Like [item]: rest?'
    """

    def __init__(self, items: Iterable[TaskItem]) -> None:
        known = list(items)
        parts = (hash(part) for item in known for part in _parts_of(item))
        each, count = np.unique(np.fromiter(parts, np.int64), return_counts=True)
        ids = {tuple(_words(str(item.id))) for item in known} - {()}
        self._parts = set(each[count <= max(1, int(_COMMON * len(known)))].tolist())
        self._parts |= {hash(one) for one in ids if len(one) > 1}
        self._ids = {one[0] for one in ids if len(one) == 1}
        self._longest = min(20, max([_LONGEST_QUOTE, *map(len, ids)]))

    def strike(self, text: str) -> str:
        """The text with ``[item]`` for what it quotes."""
        words = [(m.start(), m.end(), m[0].casefold()) for m in _WORD.finditer(text)]
        plain = [word for _, _, word in words]
        cut = [False] * len(words)
        for i in range(len(words)):
            for n in range(1, self._longest + 1):
                if hash(tuple(plain[i : i + n])) in self._parts:
                    cut[i : i + n] = [True] * len(cut[i : i + n])
            if i and plain[i - 1] in ("item", "items") and plain[i] in self._ids:
                cut[i - 1 : i + 1] = [True, True]
        out, at = [], 0
        for k, (start, end, _) in enumerate(words):
            if cut[k]:
                if not (k and cut[k - 1]):
                    out += [text[at:start], "[item]"]
                at = end
        return "".join([*out, text[at:]])


def _words(text: str) -> list[str]:
    return [word.casefold() for word in _WORD.findall(text)]


def _parts_of(item: TaskItem) -> set[tuple[str, ...]]:
    parts: set[tuple[str, ...]] = set()
    for text in (item.text, *item.options):
        said = tuple(_words(text))
        ends = range(_LONGEST_QUOTE, len(said) + 1)
        parts |= {said[end - _LONGEST_QUOTE : end] for end in ends}
        if 1 < len(said) < _LONGEST_QUOTE:
            parts.add(said)
        parts |= {(w,) for w in said if len(w) > 5 and not w.isalpha() and not w.isdecimal()}
    return parts


def _checked_shares(shares: Sequence[float]) -> tuple[float, float, float]:
    found = tuple(float(s) for s in shares)
    rule = "must be three numbers above 0 that sum to 1 (validation, confirm, final)"
    whole = len(found) == len(PARTS) and abs(sum(found) - 1) <= 1e-9
    require(whole and all(0 < s < 1 for s in found), f"shares {rule}; got {list(shares)}.")
    return found[0], found[1], found[2]


def _split(
    ids: list[ItemId], seed: int, shares: tuple[float, float, float]
) -> dict[Part, tuple[ItemId, ...]]:
    """Parts of at least one item, cut in the order of random numbers from the seed and the ids."""
    ranked = sorted(ids, key=lambda item: (draws("vault", seed, item).random(), str(item)))
    n = len(ranked)
    confirm, final = (max(1, round(share * n)) for share in shares[1:])
    validation = max(1, n - confirm - final)
    confirm = min(confirm, n - validation - 1)
    cuts = (0, validation, validation + confirm, n)
    return {part: tuple(ranked[cuts[i] : cuts[i + 1]]) for i, part in enumerate(PARTS)}


def _judged(
    judgements: object, known: Mapping[ItemId, TaskItem]
) -> tuple[dict[ItemId, list[tuple[Any, ...]]], int]:
    if isinstance(judgements, Evidence):
        frame, classes = judgements.judgements, judgements.classes
    else:
        frame, classes = read_table(judgements, "judgements"), None
    if frame is None:
        raise EvidenceError.of("judgements", "must be given", "evidence without judgements")
    names = [name for name in ("item", "class", "verdict", "propensity") if name in frame.columns]
    by_text = {str(item): item for item in known}
    found: dict[ItemId, list[tuple[Any, ...]]] = defaultdict(list)
    stray: set[ItemId] = set()
    wrong: list[ItemId] = []
    for row in fetch(frame.select(*names)):
        item = row[0] if row[0] in known else by_text.get(str(row[0]))
        if item is None:
            stray.add(row[0])
            continue
        if row[2] not in ("yes", "no"):
            continue  # an expert who is unsure says nothing about the class
        place = _place(row[1], known[item], classes)
        if place is None:
            wrong.append(item)
            continue
        found[item].append((place, row[2], row[3] if len(row) > 3 else None))
    if wrong:
        rule = "must be the place (from 0), the letter or the text of an option"
        raise EvidenceError.of("class", rule, "another value", where=wrong, total=len(wrong))
    torn = [item for item, rows in found.items() if _contradicts(rows, len(known[item].options))]
    if torn:
        what, rule = "labels of an item", "must not contradict each other"
        came: dict[str, Any] = {"where": torn, "total": len(torn)}
        remedy = "Correct or drop those items."
        raise EvidenceError.of(what, rule, "a contradiction", remedy=remedy, **came)
    # The order of the rows in a file must not matter.
    return {item: sorted(set(rows), key=str) for item, rows in found.items()}, len(stray)


def _contradicts(rows: Sequence[tuple[Any, ...]], n_classes: int) -> bool:
    yes = {k for k, verdict, _ in rows if verdict == "yes"}
    no = {k for k, verdict, _ in rows if verdict == "no"}
    return len(yes) > 1 or bool(yes & no) or len(no) == n_classes


def _place(value: int | str, item: TaskItem, classes: Sequence[int | str] | None) -> int | None:
    k = len(item.options)
    if isinstance(value, int):
        return value if 0 <= value < k else None
    if classes is not None and value in classes:
        place = classes.index(value)
        return place if place < k else None
    if value in item.options:
        return item.options.index(value)
    if len(value) == 1 and value.upper() in LETTERS[:k]:
        return LETTERS.index(value.upper())
    return int(value) if value.isdecimal() and int(value) < k else None
