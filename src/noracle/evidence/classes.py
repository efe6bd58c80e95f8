"""Classes as people write them: no answer, letters, spellings, places from one, and answers that
cannot be.

Answers and labels must speak of classes in one way. This module finds the way that fits every
value, and says so in a note:

- white space around a class, and its case, do not matter; ``A)``, ``(a)`` and ``A.`` are the letter
  A;
- letters and texts of options are places of options, where the items have options or numbers of
  classes, or where the other table holds places;
- text of digits is whole numbers, where the others are;
- classes 1 to K are places 0 to K - 1 where K is known: K occurs and 0 does not, so they cannot
  count from 0. Classes 1 to K - 1 alone are read as they stand, since nothing shows that they count
  from 1.

What can be read in two ways with two meanings is an error that names both. An answer that is no
class of its item is never right: it becomes "no answer" with the state ``invalid``, so that it
counts as wrong; proofs from answers alone leave it out like any missing answer, which is valid,
because whoever is not good enough on the rest is not better with wrong answers added.
"""

from __future__ import annotations

import dataclasses
import importlib
import json
import re
import string
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import narwhals as nw

from noracle.errors import EvidenceError, EvidenceWarning, fault, raise_faults, require
from noracle.evidence import frames as engines
from noracle.evidence.frames import Frame, cases, distinct, fetch, has_rows, is_there, settle

Invalid = Literal["wrong", "refuse"]
Pair = tuple[str, str]

MOST_VALUES = 5_000
"""So many different texts are looked at one by one; more are taken as they are."""
_MOST_OPTIONS = 2_000_000
_NUMBER = re.compile(r"[+-]?\d{1,18}(?:\.0+)?")
_LETTER = re.compile(r"[(\[]?\s*([A-Za-z])\s*[)\].:]?")
_CHAIN = 40
_SHOWN = 3
_SAMPLE = 1_000


@dataclasses.dataclass(slots=True, kw_only=True)
class Classes:
    """How classes are read in the tables of one evidence; most fields change meanwhile."""

    frames: dict[str, Frame]
    pairs: Sequence[Pair]
    """Columns that hold classes, as (table, column)."""
    what: str = "answer and class"
    named: str = "classes"
    """What ``classes`` are called by the caller."""
    n_classes: int | None = None
    classes: tuple[int | str, ...] | None = None
    no_answer: tuple[str, ...] = ()
    notes: list[str] = dataclasses.field(default_factory=list)
    ours: bool = True
    """Whether tables may be kept on the engine."""
    first: dict[Pair, list[Any]] = dataclasses.field(default_factory=dict)
    """The first values of columns of whole numbers, as far as somebody looked at them."""
    from_one: bool = False
    """Whether classes were found to count from 1."""
    _extents: dict[Pair, tuple[int | None, int | None]] = dataclasses.field(default_factory=dict)

    @property
    def _here(self) -> list[Pair]:
        return [pair for pair in self.pairs if pair[0] in self.frames]

    def _is_whole(self, pair: Pair) -> bool:
        return bool(self.frames[pair[0]].collect_schema()[pair[1]] == nw.Int64)

    def _items_have(self, column: str) -> bool:
        return "items" in self.frames and column in self.frames["items"].columns

    def _extent(self, pair: Pair) -> tuple[int | None, int | None]:
        """The least and the largest class of a column."""
        if pair not in self._extents:
            col = nw.col(pair[1])
            (ends,) = fetch(self.frames[pair[0]].select(low=col.min(), high=col.max()))
            self._extents[pair] = ends[0], ends[1]
        return self._extents[pair]

    def _note(self, pair: Pair, line: str) -> None:
        self.notes.append(f"{pair[0]}.{pair[1]}: {line}")

    def _put(self, pair: Pair, expr: nw.Expr) -> None:
        table, column = pair
        self.first.pop(pair, None)
        frame = self.frames[table]
        answered = column == "answer" and "state" in frame.columns
        frame = frame.with_columns(expr.alias(column))
        if answered:  # what became no answer was not answered
            silent = (nw.col("state") == "answered") & nw.col(column).is_null()
            frame = frame.with_columns(state=nw.when(~silent).then(nw.col("state")))
        self.frames[table] = frame

    def read(self) -> tuple[str, list[str]]:
        """Bring all columns to one way of speaking; returns ``whole`` or ``text``, and the faults."""
        told: dict[Pair, list[str] | None] = {}
        for pair in self._here:
            self._silence(pair, told)
        try:
            self._agree(told)
        except EvidenceError as error:
            return "text", list(error.faults)
        kinds = {pair: self._is_whole(pair) for pair in self._here}
        if len(set(kinds.values())) > 1:
            words = {True: "whole numbers", False: "text"}
            found = ", ".join(f"{words[kind]} in {t}.{c}" for (t, c), kind in kinds.items())
            rule, remedy = "must have one type in all tables", _ONE_TYPE
            return "text", [fault(self.what, rule, found, remedy=remedy)]
        kind = "whole" if any(kinds.values()) else "text"
        known = self.classes
        if known is not None and kinds and (kind == "text") != isinstance(known[0], str):
            has = "text" if kind == "text" else "whole numbers"
            rule = f"must have the type of {self.what}"
            return kind, [fault(self.named, rule, f"{known[0]!r} and {has}")]
        return kind, []

    def silence(self) -> str:
        """Make null of what means no answer and leave the rest; returns ``whole`` or ``text``."""
        for pair in self._here:
            self._silence(pair, {})
        whole = self._here and all(self._is_whole(pair) for pair in self._here)
        return "whole" if whole else "text"

    def _silence(self, pair: Pair, told: dict[Pair, list[str] | None]) -> None:
        """Make null of what means no answer; note the other texts in ``told`` (None: too many)."""
        frame, column = self.frames[pair[0]], nw.col(pair[1])
        if self._is_whole(pair):
            numbers = [int(float(word)) for word in self.no_answer if _NUMBER.fullmatch(word)]
            if numbers:
                self._put(pair, nw.when(~column.is_in(numbers)).then(column))
            return
        seen = distinct(frame.filter(is_there(pair[1])), pair[1])
        values = sorted(str(row[0]) for row in fetch(seen.head(MOST_VALUES + 1)))
        if len(values) > MOST_VALUES:
            plain = column.str.strip_chars()
            silent = plain.str.to_lowercase().is_in(["", *self.no_answer])
            self._put(pair, nw.when(~silent).then(plain))
            told[pair] = None
            return
        words = {"", *self.no_answer}
        silent_values = [v for v in values if v.strip().lower() in words]
        if silent_values:
            self._put(pair, nw.when(~column.is_in(silent_values)).then(column))
        told[pair] = [v for v in values if v not in set(silent_values)]

    def _agree(self, told: dict[Pair, list[str] | None]) -> None:
        for pair, values in told.items():
            if values == [] and len(told) < len(self._here):  # it takes the type of the others
                self._put(pair, nw.lit(None, dtype=nw.Int64))
        texts = {pair: values for pair, values in told.items() if not self._is_whole(pair)}
        if self._items_have("options") and self.classes is None:
            self._count_options()
            texts = self._by_options(texts)
        if texts and self.classes is None:
            texts = self._to_whole(texts)
        elif texts and self.classes is not None and isinstance(self.classes[0], int):
            texts = self._to_whole(texts, needed=True)
        if texts and all(not self._is_whole(pair) for pair in self._here):
            self._spell({pair: values for pair, values in texts.items() if values is not None})

    def _to_whole(
        self, texts: dict[Pair, list[str] | None], *, needed: bool = False
    ) -> dict[Pair, list[str] | None]:
        """Digits and letters as whole numbers, where others hold them or K is known."""
        own = self._items_have("n_classes")
        whole = needed or own or any(self._is_whole(pair) for pair in self._here)
        way = dict.fromkeys(texts, "")
        for pair, values in texts.items():
            if values and _all_match(_NUMBER, values):
                way[pair] = "digits"
            elif values and whole and not needed and _all_match(_LETTER, values):
                way[pair] = "letters"
        if not all(way.values()) or not (whole or self.n_classes is not None):
            return texts
        for pair, how in way.items():
            column = nw.col(pair[1])
            if how == "digits":
                self._put(pair, _digits_as_whole(column))
                others = [p for p in self._here if p not in texts]
                if any(self._is_whole(p) for p in others) or len(self._here) == 1:
                    self._note(pair, "text of digits is read as whole numbers")
            else:
                self._put(pair, letter_places(column))
                self._note(pair, "letters are read as places, A as 0, B as 1, …")
        return {}

    def _spell(self, texts: Mapping[Pair, list[str]]) -> None:
        """One spelling for each class: that of the classes given, else the one in the labels."""
        every = sorted({v for values in texts.values() for v in values})
        if self.classes is not None:
            known = [str(c) for c in self.classes]
            spelled = {v: _nearest(v, known) for v in every}
        else:
            letters = bool(every) and _all_match(_LETTER, every)
            highest = max(ord(_letter(v)) for v in every) - ord("A") if letters else 0
            beyond = self.n_classes is not None and self.n_classes <= highest
            if beyond and self.n_classes is not None:
                self.classes = tuple(string.ascii_uppercase[: self.n_classes])
                meant = f"classes are the letters A to {self.classes[-1]}"
                self.notes.append(f"{meant}, since n_classes = {self.n_classes}")
            told = [values for (table, _), values in texts.items() if table != "answers"]
            labels = {v for values in told for v in values}
            groups: dict[str, list[str]] = {}
            for v in every:
                groups.setdefault(_letter(v) if letters else v.strip().casefold(), []).append(v)
            best = {
                name: min(group, key=lambda g: (g != g.strip(), g not in labels, g)).strip()
                for name, group in groups.items()
            }
            if letters and (beyond or any(len(b) > 1 for b in best.values())):
                best = {name: name for name in groups}
            spelled = {v: best[name] for name, group in groups.items() for v in group}
        for pair, values in texts.items():
            changed = {v: spelled[v] for v in values if spelled[v] != v}
            if changed:
                self.frames[pair[0]] = replaced(self.frames[pair[0]], pair[1], changed)
                first = list(changed.items())[:_SHOWN]
                some = ", ".join(f"{v[:30]!r} as {to[:30]!r}" for v, to in first)
                more = f" and {len(changed) - _SHOWN} more" if len(changed) > _SHOWN else ""
                self._note(pair, f"spellings are read as one class: {some}{more}")

    def _count_options(self) -> None:
        """The number of options is the number of classes of an item, where nobody says another."""
        if self._items_have("n_classes") or self.n_classes is not None:
            return
        listed = self._options()
        if listed and all(len(o) >= 2 for o in listed.values()):
            items = self.frames["items"]
            sizes = {"item": list(listed), "n_classes": [len(o) for o in listed.values()]}
            sized = items.join(beside(items, sizes), on="item", how="left")
            self.frames["items"] = settle(sized, ours=self.ours)

    def _options(self) -> dict[Any, list[str]]:
        """The options of each item; empty where some cannot be read, or there are too many."""
        rows = fetch(self.frames["items"].select("item", "options").head(_MOST_OPTIONS + 1))
        listed = {item: options_of(value) for item, value in rows}
        if len(rows) > _MOST_OPTIONS or any(o is None for o in listed.values()):
            return {}
        return {item: o for item, o in listed.items() if o is not None}

    def _by_options(self, texts: dict[Pair, list[str] | None]) -> dict[Pair, list[str] | None]:
        """Texts of options as places; what can be a place and another option's text is an error."""
        listed = self._options()
        if not listed:
            return texts
        left = dict(texts)
        faults: list[str] = []
        folded = {item: [o.strip().lower() for o in options] for item, options in listed.items()}
        every = {o for options in folded.values() for o in options}
        for pair in self._here:
            values = texts.get(pair)
            if pair in texts and values is None:
                continue
            by_place = values is None or _all_match(_NUMBER, values)
            by_letter = bool(values) and _all_match(_LETTER, values or ())
            if by_place and not any(_NUMBER.fullmatch(o) for o in every):
                continue
            if by_letter and not any(len(o) == 1 and o.isalpha() for o in every):
                self._put(pair, letter_places(nw.col(pair[1])))
                self._note(pair, "letters are read as places of options, A as 0, B as 1, …")
                left.pop(pair)
                continue
            faults += self._text_of_options(pair, folded, by_letter=by_letter, by_place=by_place)
            left.pop(pair, None)
        raise_faults(faults)
        return left

    def _text_of_options(
        self, pair: Pair, folded: Mapping[Any, list[str]], *, by_letter: bool, by_place: bool
    ) -> list[str]:
        """Read a column as texts of options, where no value is a place with another meaning."""
        (table, column), whole, items = pair, self._is_whole(pair), self.frames["items"]
        rows = [
            (item, option, at)
            for item, options in folded.items()
            for at, option in enumerate(options)
            if options.count(option) == 1
        ]
        names = ("item", "_option", "_place")
        named = {name: [row[i] for row in rows] for i, name in enumerate(names)}
        value, text = nw.col(column), is_there("_place")
        plain = value.cast(nw.String) if whole else value.str.strip_chars().str.to_lowercase()
        frame = self.frames[table].with_columns(_option=plain)
        frame = frame.join(beside(items, named), on=["item", "_option"], how="left")
        if by_letter or by_place:
            numbers = value if whole else _digits_as_whole(value)
            place = letter_places(value) if by_letter else numbers
            told = {"item": list(folded), "_size": [len(o) for o in folded.values()]}
            sizes = beside(items, told)
            frame = frame.join(sizes, on="item", how="left").with_columns(_other=place)
            fits = (nw.col("_other") >= 0) & (nw.col("_other") < nw.col("_size"))
            other = fits.fill_null(value=False)
            both = text & other & (nw.col("_other") != nw.col("_place"))
            only_text, only_place = frame.filter(text & ~other), frame.filter(other & ~text)
            clash = _first_of(frame.filter(both.fill_null(value=False)), column, "_place")
            if not clash and has_rows(only_text) and has_rows(only_place):
                clash = _first_of(only_text, column, "_place")
            if clash:
                _, first, at = clash[0]
                kind = "letter" if by_letter else "place, from 0,"
                came = f"{first!r}, which is a {kind} of an option and also the text of the option at place {at}"
                remedy = "Write the letter of the option (A, B, …), or leave the column options out of the items to read places."
                rule, where = "must be readable in one way", [row[0] for row in clash]
                return [fault(f"{table}.{column}", rule, came, where=where, remedy=remedy)]
            if not has_rows(only_text):
                if not whole:
                    self._put(pair, place)
                return []
        odd = (
            _first_of(frame.filter(~text & is_there(column)), most=6) if table != "answers" else []
        )
        if odd:
            remedy = "Correct it: it must be the text or the letter of an option."
            what, rule, where = f"{table}.{column}", "must be an option of its item", odd
            return [fault(what, rule, "other text", where=[r[0] for r in where], remedy=remedy)]
        # An answer that is no option stays out of every range, so that it is counted as invalid and
        # not as missing.
        none = nw.lit(-1, dtype=nw.Int64)
        read = cases([(text, nw.col("_place").cast(nw.Int64)), (is_there(column), none)])
        made = [c for c in ("_option", "_place", "_other", "_size") if c in frame.columns]
        self.first.pop(pair, None)
        frame = frame.with_columns(read.alias(column)).drop(*made)
        self.frames[table] = settle(frame, ours=self.ours)
        self._note(pair, "texts of options are read as their places")
        return []

    def count_from_zero(self, *, shift: bool = True, from_one: bool | None = None) -> list[str]:
        """Classes 1 to K as 0 to K - 1, where they can be nothing else; the faults.

        Without ``shift`` these are only a part of the evidence, and another part may not show how
        it counts; ``from_one`` says how the whole does.
        """
        own = self._items_have("n_classes")
        if self.classes is not None or not (own or self.n_classes):
            return []
        sides = {pair: self._side(pair, own=own) for pair in self._here if self._is_whole(pair)}
        sides = {pair: side for pair, side in sides.items() if side}
        if from_one is False or (not from_one and not {"one", "odd"} & set(sides.values())):
            return []
        named = dict.fromkeys(("zero", "one", "odd", "unclear"), "")
        for (t, c), side in sides.items():
            named[side] += f" and {t}.{c}" if named[side] else f"{t}.{c}"
        if from_one or (shift and all(side == "one" for side in sides.values())):
            for pair in sides:
                self._put(pair, nw.col(pair[1]) - 1)
                self._extents.pop(pair, None)
            self.from_one = True
            k = "the number of classes" if own else str(self.n_classes)
            why = f"since {k} occurs and 0 does not"
            self.notes.append(f"{named['one']}: classes are read as counted from 1, {why}")
            return []
        k, n = "their number" if own else str(self.n_classes), self.n_classes or 0
        if named["odd"]:
            came = f"classes from 1 to beyond {k} in {named['odd']}: from 1, or from 0 with answers that cannot be"
        elif named["zero"]:
            came = f"classes from 0 in {named['zero']} and from 1 (0 never, {k} occurs) in {named['one']}"
        else:
            came = f"classes from 1 in {named['one']} (0 never, {k} occurs); {named['unclear']} can be read from 0 or from 1"
        every = f"classes 1 to {n}" if n > 6 else f"classes={list(range(1, n + 1))!r}"
        remedy = f"Write all classes from 0{'' if own else f', or pass {every}'}."
        return [fault(self.what, "must count classes in one way", came, remedy=remedy)]

    def _side(self, pair: Pair, *, own: bool) -> str:
        """``zero`` or ``one``, where a column counts from, ``odd`` or ``unclear``; else empty."""
        table, column = pair
        col = nw.col(column)
        frame = self.frames[table]
        # seldom far from the first row
        if 0 in self.first.get(pair, ()) or fetch(frame.filter(col == 0).select(column).head(1)):
            return "zero"
        _, most = self._extent(pair)
        if most is None:
            return ""
        if not own:
            k = self.n_classes or 0
            at, above = most == k or (most > k and has_rows(frame.filter(col == k))), most > k
        else:
            items = self.frames["items"].select("item", _k=nw.col("n_classes"))
            joined = frame.select("item", column).join(items, on="item", how="inner")
            sides = {"at": col == nw.col("_k"), "above": col > nw.col("_k")}
            sums = {name: side.cast(nw.Int64).sum() for name, side in sides.items()}
            at, above = fetch(joined.select(**sums))[0]
        return "unclear" if not at else "odd" if above else "one"

    def set_aside(self) -> list[str]:
        """Answers that are no class of their item become ``invalid``; returns the faults."""
        if "answers" not in self.frames:
            return []
        answers, col = self.frames["answers"], nw.col("answer")
        whole = answers.collect_schema()["answer"] == nw.Int64
        own = whole and self._items_have("n_classes") and self.classes is None
        rule = "must be a class of its item"
        if self.classes is not None:
            broken = ~col.is_in(list(self.classes))
            rule = f"must be among the classes {list(self.classes)[:8]!r}"
        elif whole:
            low, high = self._extent(("answers", "answer"))
            k: Any = self.n_classes
            if own:
                items = self.frames["items"].select("item", _k=nw.col("n_classes"))
                k = fetch(items.select(nw.col("_k").min()))[0][0]
                answers = answers.join(items, on="item", how="left")
            if low is None or high is None or (low >= 0 and (k is None or high < k)):
                return []
            most = nw.col("_k") if own else k
            broken = col < 0 if k is None and not own else (col < 0) | (col >= most)
        else:
            return []
        broken = (broken & ~col.is_null()).fill_null(value=False)
        given = (~col.is_null()).cast(nw.Int64).sum()
        sums = answers.group_by("system").agg(bad=broken.cast(nw.Int64).sum(), given=given)
        rows = fetch(sums.select("system", "bad", "given").sort("system"))
        bad = {str(system): int(n) for system, n, _ in rows if n}
        if not bad:
            return []
        total = sum(bad.values())
        if total == sum(int(n or 0) for _, _, n in rows):
            found = _first_of(answers.filter(broken), "answer")
            came = f"none that is: {str(found[0][1])[:40]!r}"
            remedy, where = "Correct n_classes, classes or the answers.", [r[0] for r in found]
            return [fault("answers.answer", rule, came, where=where, total=total, remedy=remedy)]
        invalid = nw.lit("invalid")
        state: Any = nw.when(broken).then(invalid)
        state = state.otherwise(nw.col("state")) if "state" in answers.columns else state
        answers = answers.with_columns(answer=nw.when(~broken).then(col), state=state)
        self.frames["answers"] = settle(answers.drop("_k") if own else answers, ours=self.ours)
        worst, most_shown = sorted(bad.items(), key=lambda pair: -pair[1]), _SHOWN + 2
        some = ", ".join(f"{system} {n:,}" for system, n in worst[:most_shown])
        more = f" and {len(bad) - most_shown} more systems" if len(bad) > most_shown else ""
        self.notes.append(f"answers that are no class of their item count as wrong: {some}{more}")
        return []


def no_answers(words: Sequence[object] | str | None) -> tuple[str, ...]:
    """What stands for no answer, as plain lower-case text.

    Examples
    --------
    >>> no_answers(["N/A", -1])
    ('n/a', '-1')
    """
    given = () if isinstance(words, str) else words or ()
    plain = all(isinstance(w, (str, int, float)) and not isinstance(w, bool) for w in given)
    came = f"got {words!r}. Write [{words!r}]."
    listed = plain and not isinstance(words, str)
    require(listed, f"no_answer must be a list of texts or numbers; {came}")
    return tuple(dict.fromkeys(str(w).strip().lower() for w in words or ()))


def check_invalid(invalid: object) -> None:
    """Refuse a way to treat invalid answers that does not exist."""
    known = invalid in {"wrong", "refuse"}
    require(known, f"invalid must be 'wrong' or 'refuse'; got {invalid!r}.")


def options_of(value: object) -> list[str] | None:
    """The options of an item: a list, JSON, or texts with ``|`` between them; else None.

    Examples
    --------
    >>> options_of("red | green"), options_of('["a", "b"]'), options_of(3)
    (['red', 'green'], ['a', 'b'], None)
    """
    if isinstance(value, str):
        try:
            value = json.loads(value) if value.lstrip().startswith("[") else value.split("|")
        except ValueError:
            return None
    if not isinstance(value, (list, tuple)):
        return None
    return [str(option).strip() for option in value]


def letter_places(column: nw.Expr) -> nw.Expr:
    """Letters of options (``A``, ``b)``, ``(C)``) as places, from 0; other text becomes null."""
    plain = column.str.replace_all(r"[\s()\[\].:]", "").str.to_uppercase()
    places = enumerate(string.ascii_uppercase)
    return cases((plain == letter, nw.lit(i, dtype=nw.Int64)) for i, letter in places)


def _letter(text: str) -> str:
    match = _LETTER.fullmatch(text.strip())
    return match[1].upper() if match else text


def _all_match(rule: re.Pattern[str], texts: Sequence[str]) -> bool:
    return all(rule.fullmatch(text.strip()) for text in texts)


def _digits_as_whole(column: nw.Expr) -> nw.Expr:
    """Text of digits as whole numbers, where "1.0" is 1; cast as text, so that long ones are exact."""
    return column.str.strip_chars().str.replace_all(r"\.0+$", "").cast(nw.Int64)


def _nearest(value: str, known: Sequence[str]) -> str:
    """The class that a text means; the text itself where it is none of them, or could be two."""
    if value in known:
        return value
    plain = value.strip()
    same = [c for c in known if c.strip() == plain]
    same = same or [c for c in known if c.strip().casefold() == plain.casefold()]
    if not same and _LETTER.fullmatch(plain) and all(len(c) == 1 and c.isalpha() for c in known):
        same = [c for c in known if c.casefold() == _letter(plain).casefold()]
    return same[0] if len(same) == 1 else value


def replaced(frame: Frame, column: str, values: Mapping[str, str]) -> Frame:
    """The frame with some texts of a column written in another way."""
    col = nw.col(column)
    if len(values) <= _CHAIN:
        spelled = cases(((col == value, to) for value, to in values.items()), col)
        return frame.with_columns(spelled.alias(column))
    known = beside(frame, {column: list(values), "_to": list(values.values())})
    joined = frame.join(known, on=column, how="left")
    spelled = cases([(is_there("_to"), nw.col("_to"))], col)
    return joined.with_columns(spelled.alias(column)).drop("_to")


def beside(frame: Frame, columns: Mapping[str, list[Any]]) -> Frame:
    """A small table on the engine of a frame."""
    made: Frame
    if frame.implementation.is_polars():
        made = nw.from_native(importlib.import_module("polars").LazyFrame(dict(columns)))
    elif frame.implementation.is_duckdb():
        native: Any = frame.to_native()

        def run(query: str, frame: Any = None) -> Any:  # noqa: ARG001 (DuckDB finds the frame by its name)
            return native.query("noracle_anchor", query)

        made = nw.from_native(engines._from_columns(columns, "options", run))
    elif frame.implementation.is_ibis():
        made = nw.from_native(importlib.import_module("ibis").memtable(dict(columns)))
    else:
        table: Any = frame.to_native()
        session = table.session if frame.implementation.is_sqlframe() else table.sparkSession
        rows = list(zip(*columns.values(), strict=True))
        made = nw.from_native(session.createDataFrame(rows, list(columns)))
    return made


def _first_of(frame: Frame, *columns: str, most: int = 5) -> list[tuple[Any, ...]]:
    """The items, and some other columns, of the first rows in the order of items."""
    return fetch(frame.select("item", *columns).sort("item").head(most))


_ONE_TYPE = "Write all as text or all as whole numbers."


def meet_ids(frames: dict[str, Frame], notes: list[str], pairs: Sequence[Pair]) -> list[str]:
    """Items as whole numbers in all tables, where text is digits beside numbers; the faults."""
    texts = [(t, c) for t, c in pairs if t in frames and frames[t].collect_schema()[c] != nw.Int64]
    if not texts or len(texts) == sum(t in frames for t, _ in pairs):
        return []
    faults = []
    for table, column in texts:
        col = nw.col(column)
        plain = col.str.strip_chars()
        rest = plain.str.replace_all(r"^[+-]?[0-9]{1,18}$", "")
        if not has_rows(frames[table].filter(is_there(column)).select(column)):
            frames[table] = frames[table].with_columns(nw.lit(None, dtype=nw.Int64).alias(column))
        elif not has_rows(frames[table].filter((rest != "").fill_null(value=False))):
            frames[table] = frames[table].with_columns(plain.cast(nw.Int64).alias(column))
            line = "text of digits is read as whole numbers, as in the other tables"
            notes.append(f"{table}.{column}: {line}")
        else:
            faults.append(table)
    if not faults:
        return []
    words, kinds = {True: "whole numbers", False: "text"}, []
    for t, c in pairs:
        if t in frames:
            kind = words[frames[t].collect_schema()[c] == nw.Int64]
            kinds.append(f"{kind} in {t}.{c} ({ids_of(frames[t])})")
    rule = "must have one type in all tables"
    return [fault("item", rule, ", ".join(kinds), remedy=_ONE_TYPE)]


def first_rows(frame: Frame, *columns: str) -> list[tuple[Any, ...]]:
    """The items, and some other columns, of the first rows of a table."""
    return fetch(frame.select("item", *columns).head(_SAMPLE))


def is_large(first: Sequence[tuple[Any, ...]]) -> bool:
    """Whether a table with these first rows has more of them, to be compared when counted."""
    return len(first) >= _SAMPLE


def apart(
    frames: Mapping[str, Frame], second: str, about: str, met: tuple[int, int] | None = None
) -> list[str]:
    """A fault where answers and a second table share no item; a warning below half of them.

    ``met`` is of how many items of the second table the answers have how many, where that is known.
    """
    met = shared_ids(frames, "answers", second) if met is None else met
    if met is None or 2 * met[0] >= met[1]:
        return []
    shown = f"{ids_of(frames['answers'])}, … in answers and {ids_of(frames[second])}, … in {second}"
    if not met[0]:
        rule = f"must be shared by answers and {second}"
        return [fault("item", rule, f"none in common: {shown}", remedy="Use the same ids in both.")]
    line = f"only {met[0]:,} of {met[1]:,} {about} items have answers ({shown})"
    warnings.warn(
        f"{line}. Check that both use the same names for items.", EvidenceWarning, stacklevel=4
    )
    return []


def ids_of(frame: Frame) -> str:
    """Three ids of a table."""
    some = frame.filter(is_there("item")).select("item").head(_SAMPLE)
    found = [row[0] for row in fetch(some)]
    return ", ".join(str(v)[:40] for v in list(dict.fromkeys(found))[:_SHOWN]) or "none"


def shared_ids(frames: Mapping[str, Frame], first: str, second: str) -> tuple[int, int] | None:
    """Of how many items of the second table the first has how many; None without both.

    A sample tells in most cases; where it holds less than half, all items are counted.
    """
    if first not in frames or second not in frames:
        return None
    some = fetch(frames[second].filter(~nw.col("item").is_null()).select("item").head(_SAMPLE))
    sample = list(dict.fromkeys(row[0] for row in some))
    if not sample:
        return None
    ours = frames[first].select("item")
    met = len(fetch(distinct(ours.filter(nw.col("item").is_in(sample)), "item")))
    if len(some) < _SAMPLE or (2 * met >= len(sample) and len(sample) >= 20):
        return met, len(sample)
    theirs = distinct(frames[second].filter(is_there("item")), "item")
    both = theirs.join(distinct(ours, "item"), on="item", how="inner")
    return int(fetch(both.select(n=nw.len()))[0][0]), int(fetch(theirs.select(n=nw.len()))[0][0])
