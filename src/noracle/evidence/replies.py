r"""What did a reply answer? The one reader of what a model said, for logs, for ``noracle ask`` and
for ``noracle search``.

A reply to a question with options is read in this order, and the first rule that says anything
decides:

    1. claims: ``ANSWER: X``, a field ``answer`` of JSON, ``\boxed{X}``, ``<answer>X</answer>``; the
       last one counts
    2. sentences: "the answer is X", "I choose X", "option X is correct"; the last one counts
    3. the reply declines ("I cannot answer …"): refused
    4. lines that are a letter or an option, such as ``B) Paris``; all must agree, but options that
       are listed first do not count where a line of its own names one of them
    5. a short reply, or a last line such as "Therefore B.", that names one letter or quotes one
       option and denies none

X is a letter or the text of an option; numbers are compared as numbers. Two different letters in
one claim, or a letter with the text of another option, are no answer. Thoughts
(``<think>…</think>``) are not read. "Not B" and "anything but B" do not say B. A reply that was cut
off is only read by rules 1, 2 and, where it is a letter and nothing else, 4: its last words are not
its answer.

A reply to a question without options is its own text, or the claim in it: see :func:`read_text`.
"""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from typing import Final, Literal, TypeVar

Finish = Literal["stop", "length", "refused", "empty"]
"""Why a model stopped."""
State = Literal["answered", "invalid", "refused", "errored"]
"""What became of one item: an answer; text without one; the model declined; the call failed."""

_T = TypeVar("_T")
_MOST = 200_000  # characters that are read, from the end
_UNCLEAR: Final = -1  # a claim that names two options

_THOUGHT = re.compile(
    r"(?:<(think|thinking|reasoning)>.*?(?:</\1>|\Z)|\[THINK\].*?(?:\[/THINK\]|\Z))",
    re.DOTALL | re.IGNORECASE,
)
_THOUGHT_END = re.compile(
    r"</(?:think|thinking|reasoning)>|\[/THINK\]|<\|channel\|>final<\|message\|>", re.IGNORECASE
)
_BOXED = r"\\boxed\s*\{(?:\\(?:text|textbf|mathrm|mathbf)\s*\{)?(?P<boxed>[^{}]{0,400})\}"
_TAG = r"<answer>(?P<tag>[^<]{0,400})(?:</answer>|\Z)"
_MARK = r"(?:\b(?:final|correct|best|my)[ _])?(?<![A-Za-z])(?:answer|choice)\b[\"'*_` ]{0,6}(?::|=(?!=))(?P<mark>[^\n]{0,400})"
_MARK_OTHER = r"(?:答え|回答|解答|正解|最終回答|Antwort|Réponse|Respuesta)[\"'*_` ]{0,6}:(?P<other>[^\n]{0,400})"
_CLAIM = re.compile(f"{_BOXED}|{_TAG}|{_MARK}|{_MARK_OTHER}", re.IGNORECASE)

_SENTENCE = re.compile(
    r"\b(?:answer|choice|option|solution)(?: here)? (?:is|would be|should be|must be|has to be)(?: likely| probably| therefore| clearly)?"
    r"(?: the)?(?: option| choice| letter| answer)?[ :]{0,2}(?P<is>[^\n]{0,400})"
    r"|\bI(?:'d| would| will|'ll)? (?:choose|chose|pick|select|answer|say|go (?:with|for))"
    r"(?: option| choice| answer| letter)?[ :]{0,2}(?P<say>[^\n]{0,400})"
    r"|\b(?:option|choice|answer) [\"'*(\[]{0,3}(?P<right>[A-Z])[\"'*)\]]{0,3}"
    r" is (?:the )?(?:most |best )?(?:correct|right|best|likely|answer)"
    r"|正解は(?P<jp>[^\n]{0,40})",
    re.IGNORECASE,
)
# Words without which the pattern beside them finds nothing: most of a long reply is not looked at
# twice.
_HINTS = (
    (_CLAIM, re.compile("boxed|answer|choice|答え|回答|解答|正解|antwort|réponse|respuesta")),
    (
        _SENTENCE,
        re.compile(
            "answer|choice|option|solution|choose|chose|pick|select|say|go with|go for|正解は"
        ),
    ),
)
_BEFORE = 24  # characters of a pattern before its word: "I would ", "final "
_REFUSAL = re.compile(
    r"\b(?:I|we)(?: am|'m| are|'re)?(?: really| very)?(?: sorry,? but I)?(?: do)? ?"
    r"(?:can ?not|can't|won't|will not|must decline|decline|refuse|am unable|'m unable|unable|not able|am not able|'m not able)(?: to)? "
    r"(?:answer|help|assist|provide|comply|engage|respond|fulfil|fulfill|offer|give (?:medical|legal|financial))"
    r"|\b(?:I|we) (?:must|have to|will) (?:decline|refuse)\b"
    r"|\bI(?:'m| am) (?:sorry|afraid),? (?:but )?I (?:can ?not|can't|won't|am unable|'m unable)"
    r"|\bagainst my (?:guidelines|policy|policies|programming)\b",
    re.IGNORECASE,
)
_REFUSAL_WITHIN = 400  # a reply declines at its beginning
_DENIED = re.compile(
    r"\b(?:not|n't|never|neither|nor|except|exclude[sd]?|excluding|rules? out|ruled out|eliminate[sd]?|wrong|incorrect|false|unlikely"
    r"|instead of|rather than|cannot|can't|isn't|no longer|(?:any|every|all)\w{0,8}(?: \w{1,12})? but|other than|apart from|aside from"
    r"|besides|without)\b|n't\b",
    re.IGNORECASE,
)
_HEAD = 400  # characters in which a line may begin with an option
_LONG = 4  # characters of an option that is recognised in passing
_SHORT = 12  # words beside the letter or the option in rule 5

# Possessive repeats (``*+``): no reply, however odd, makes these slow.
_NAME = r"([A-Za-z]|\d{1,3}(?!\.?\d))"  # a letter; beyond Z the options of a log are 1, 2, …
_OPEN, _CLOSE = r"[\s\"'`*_$(\[{<]*+", r"[\s\"'`*_$)\]}>.,;:!?。、-]*+"
_WHOLE = re.compile(
    rf"{_OPEN}(?:(?:option|choice|letter|answer)\s++)?{_OPEN}{_NAME}{_CLOSE}\Z", re.IGNORECASE
)
_LEAD = re.compile(
    rf"{_OPEN}(?:(?:option|choice|letter)\s++)?{_OPEN}{_NAME}(?![A-Za-z0-9])", re.IGNORECASE
)
_ENDS = r"[\"'`*_$)\]}>]*+"
_ALSO = re.compile(
    rf"{_ENDS}\s*+(?:,|/|&|\+|\b(?i:and|or|nor)\b)?{_OPEN}(?:(?i:option)\s++)?([A-Z])(?![A-Za-z0-9'])"
)
_DENIES = re.compile(
    rf"{_ENDS}\s++(?:(?:is|was|are|seems?|looks?)\s++(?:not|wrong|incorrect|false|out|unlikely)|isn't|cannot|can't|won't)\b",
    re.IGNORECASE,
)
_GOES_ON = re.compile(
    rf"{_ENDS}(?:\Z|[^\s\w]|\s+(?:[^\w\s]|(?:because|since|as|is|for|due|which|with|given|so|here|by)\b))",
    re.IGNORECASE,
)
_STOPS = re.compile(rf"{_ENDS}(?:\Z|[.:,;])")
_LINE = re.compile(
    r"[\s>*_`\"'(\[#-]*+(?:(?:[Oo]ption|[Cc]hoice|[Aa]nswer)\s++)?[*_`\"'(\[]*+([A-Z])[*_`\"')\]]*+(?:(?<=\))|[.:、-]|\s*+\Z)"
)
_SEVERAL = re.compile(rf"{_OPEN}([A-Z]{{2,26}}){_CLOSE}\Z")
_ALONE = re.compile(r"(?<![\w'’\-])([A-Z])(?![\w'’])(?!-\w)")
_A_WORD = re.compile(r"\s+(?!(?:or|and|is|but|because)\b)[a-z]")  # what follows "A" and "I"
_SO = re.compile(
    r"\W{0,4}(?:so|therefore|thus|hence|consequently|overall|in conclusion|in summary|conclusion|final(?:ly)?)\b",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"[-+]?(?:\d{1,3}(?:,\d{3})+|\d{1,30})?(?:\.\d{1,30})?(?:[eE][-+]?\d{1,3})?")

_FREE_LINE = re.compile(
    r"[\s*_#>`\"']*+(?:(?:so|therefore|thus|hence)\b,?\s*+)?(?:the\s++)?(?:(?:final|correct|my)\s++)?answer[\"'*_` ]{0,6}"
    r"(?::|=(?!=)|is\b:?)(?P<said>.{0,400})\Z",
    re.IGNORECASE,
)
_FREE_TAG = re.compile(f"{_BOXED}|{_TAG}", re.IGNORECASE)


def read_choice(
    text: str, options: Sequence[str], *, finish: Finish = "stop"
) -> tuple[int | None, State]:
    r"""The place of the option that a reply chose, or None with the state that says why.

    Examples
    --------
    >>> cities = ["Rome", "Paris", "Bern"]
    >>> read_choice("Rome is in Italy. ANSWER: B", cities), read_choice("Paris.", cities)
    ((1, 'answered'), (1, 'answered'))
    >>> read_choice("ANSWER: A or B", cities), read_choice("I'm sorry, but I can't help with that.", cities)
    ((None, 'invalid'), (None, 'refused'))
    """
    if finish == "refused":
        return None, "refused"
    reader = _Reader(options)
    said = _plain(text)
    place = _first(reader, said, cut=finish == "length")
    if place is None and finish == "length":
        place = reader.letter(said)
    elif place is None:
        if _declines(said):
            return None, "refused"
        place = reader.line(said)
        place = reader.short(said) if place is None else place
        place = reader.conclusion(said) if place is None else place
    return (None, "invalid") if place is None or place == _UNCLEAR else (place, "answered")


def read_text(text: str, *, finish: Finish = "stop") -> tuple[str | None, State]:
    r"""What a reply without options says, or None with the state that says why.

    Where the reply makes a claim, that is it: a field ``answer`` of JSON, the last
    ``<answer>X</answer>`` or ``\boxed{X}``, or ``ANSWER: X`` and "the answer is X" in the last
    line. Else it is the whole reply, without thoughts.

    Examples
    --------
    >>> read_text("<think>6 · 7</think>It is \\boxed{42}."), read_text("Blue whales sing.")
    (('42', 'answered'), ('Blue whales sing.', 'answered'))
    >>> read_text(" "), read_text("I cannot answer this question.")
    ((None, 'invalid'), (None, 'refused'))
    """
    if finish == "refused":
        return None, "refused"
    said = _spoken(text)
    found, value = _json_answer(said)
    if found:
        value = (value or "").strip()
        return (value, "answered") if value else (None, "invalid")
    tags = list(_FREE_TAG.finditer(said[-_MOST:]))
    if tags:
        claim = tags[-1][tags[-1].lastgroup or 0]
    else:
        last = _FREE_LINE.match(said[said.rfind("\n") + 1 :])
        claim = "" if last is None else last["said"]
    claim = claim.strip(" \t\"'`*_$").removesuffix(".").strip(" \t\"'`*_$")
    if claim:
        return claim, "answered"
    if finish != "length" and len(said) <= 2 * _REFUSAL_WITHIN and _declines(said):
        return None, "refused"
    return (said, "answered") if said else (None, "invalid")


def place_of_letter(letter: str, n_classes: int) -> int | None:
    """The place of an option from its letter; after Z come 1, 2, …"""
    if len(letter) == 1 and letter.isascii() and letter.isalpha():
        place = ord(letter.upper()) - ord("A")
    elif letter.isascii() and letter.isdecimal() and int(letter) > 0:
        place = 25 + int(letter)
    else:
        return None
    return place if place < n_classes else None


def _declines(said: str) -> bool:
    return _REFUSAL.search(said[:_REFUSAL_WITHIN]) is not None


def _first(reader: _Reader, said: str, *, cut: bool) -> int | None:
    """Rules 1 and 2: the last claim or, where there is none that can be read, the last sentence."""
    given, value = _json_answer(said)
    if given:
        place = None if value is None else reader.claim(value)
        return _UNCLEAR if place is None else place
    small = said.lower()
    for pattern, words in _HINTS:
        hint = words.search(small)
        begin = max(0, hint.start() - _BEFORE) if hint and len(small) == len(said) else 0
        for found, end in reversed(_spans(pattern, said, begin) if hint else []):
            # Where the end is missing, an option may be the beginning of another one; a letter is
            # whole.
            place = reader.lead(found) if cut and end == len(said) else reader.claim(found)
            if place is not None:
                return place
    return None


def _spans(pattern: re.Pattern[str], said: str, begin: int) -> list[tuple[str, int]]:
    """What each claim says, up to the next claim, and where that ends."""
    spans: list[tuple[str, int]] = []
    match = pattern.search(said, begin)
    while match is not None:
        begin, end = match.span(match.lastgroup or 0)
        match = pattern.search(said, begin)
        end = end if match is None else min(end, max(begin, match.start()))
        spans.append((said[begin:end], end))
    return spans


def _plain(text: str) -> str:
    """The reply without thoughts in tags, in one Unicode form."""
    return _spoken(unicodedata.normalize("NFKC", text[-_MOST:]).replace("’", "'").replace("‘", "'"))


def _spoken(text: str) -> str:
    """The reply without thoughts in tags."""
    said = _THOUGHT.sub(" ", text)
    ends = list(_THOUGHT_END.finditer(said))
    return (said[ends[-1].end() :] if ends else said).strip()


def _json_answer(said: str) -> tuple[bool, str | None]:
    """Whether the reply is one JSON object with a field ``answer``, and what that holds."""
    body = said.removeprefix("```json").removeprefix("```").removesuffix("```").strip()
    try:
        value = json.loads(body) if body.startswith("{") else {}
    except (ValueError, RecursionError):
        return False, None
    named = {str(k).strip().casefold(): v for k, v in value.items()}
    for name in ("answer", "final_answer", "final answer", "choice"):
        if name in named:
            found = named[name]
            plain = isinstance(found, (str, int, float)) and not isinstance(found, bool)
            return True, str(found) if plain else None
    return False, None


def _number(text: str) -> float | None:
    """The number that a text is, such as 1,000 or 0.50; None where it is none."""
    if not text or not _NUMBER.fullmatch(text) or not any(c.isdecimal() for c in text):
        return None
    try:
        value = float(text.replace(",", ""))
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _bare(text: str) -> str:
    """Text to compare: case, spaces and marks around it do not count."""
    folded = " ".join(unicodedata.normalize("NFKC", text).replace("’", "'").casefold().split())
    return folded.strip(" \"'`*_.,;:!?。")


def _only(found: set[int]) -> int | None:
    """The place, if there is one; several are unclear."""
    return None if not found else found.pop() if len(found) == 1 else _UNCLEAR


def _places_of_unique(values: Sequence[_T | None]) -> dict[_T, int]:
    """The places of the values that are there once."""
    times = Counter(values)
    return {v: place for place, v in enumerate(values) if v is not None and times[v] == 1}


class _Reader:
    """Reads pieces of a reply to one question; a place, None (nothing here) or ``_UNCLEAR``."""

    def __init__(self, options: Sequence[str]) -> None:
        self.options = [_bare(option) for option in options]
        # Longer texts are no option, whatever stands around it.
        self.longest = 2 * max(map(len, options), default=0) + 200
        self.unique = _places_of_unique([option or None for option in self.options])
        self.numbers = _places_of_unique([_number(option) for option in self.options])

    def place(self, letter: str) -> int | None:
        return place_of_letter(letter, len(self.options))

    def letter(self, text: str) -> int | None:
        """The text is a letter and nothing else."""
        match = _WHOLE.match(text)
        return self.place(match[1]) if match else None

    def option(self, text: str) -> int | None:
        """The text is an option, with or without marks around it."""
        if len(text) > self.longest:
            return None
        bare = _bare(text)
        if bare in self.unique:
            return self.unique[bare]
        shut = _bare(bare.strip("()[]{}<>$"))
        if shut in self.unique:
            return self.unique[shut]
        number = _number(shut) if self.numbers else None
        return None if number is None else self.numbers.get(number)

    def begins(self, text: str) -> int | None:
        """The text begins with an option and a mark, as in "No, because …", and quotes no other."""
        head = re.split(
            r"[,.;:!\u2014\u2013](?:\s|\Z)|\s[-\u2014\u2013]\s", text[:_HEAD], maxsplit=1
        )
        place = self.option(head[0]) if len(head) == 2 else None
        if place is not None and self._without_options(text[:_HEAD])[1] == {place}:
            return place
        return None

    def claim(self, text: str) -> int | None:
        """What stands after ``ANSWER:`` and similar words."""
        text = text.strip()
        text = text.rstrip("}").strip() if text.count("}") > text.count("{") else text
        ways = (self.letter, self.option, self.begins, self.lead, self._many)
        return next((place for way in ways if (place := way(text)) is not None), None)

    def lead(self, text: str) -> int | None:
        """The letter that begins the text, unless it is a word or a second letter follows."""
        match = _LEAD.match(text)
        place = None if match is None else self.place(match[1])
        if match is None or place is None:
            return None
        rest = text[match.end() :]
        named = self.option(rest.lstrip("\"'`*_$)]}>.:,- "))
        if named is not None:
            return place if named == place else _UNCLEAR
        also = _ALSO.match(rest)
        if also is not None and self.place(also[1]) not in (None, place):
            return _UNCLEAR
        if _DENIES.match(rest) or (match[1].islower() and not _STOPS.match(rest)):
            return None  # "A is wrong …", "a difficult one"
        if match[1] in "AI" and not _GOES_ON.match(rest):
            return None  # "A patient …", "I think …"
        return place

    def _many(self, text: str) -> int | None:
        """Letters without anything between them, as in ``AB``, are several answers."""
        match = _SEVERAL.match(text)
        letters = match[1] if match else ""
        places = {self.place(c) for c in letters}
        return _UNCLEAR if letters and len(places - {None}) == len(letters) else None

    def line(self, said: str) -> int | None:
        """Rule 4: lines that are a letter, with or without the option, or an option."""
        alone: set[int] = set()
        listed: set[int] = set()
        for number, line in enumerate(said.splitlines()):
            place = self.letter(line)
            place = self.option(line) if place is None else place
            if place is not None:
                alone.add(place)
                continue
            place = self.begins(line) if number == 0 else None
            if place is None and (match := _LINE.match(line)):
                place = self.place(match[1])
                other = self.option(line[match.end() :])
                if place is not None and other is not None and other != place:
                    return _UNCLEAR
            if place is not None:
                listed.add(place)
        # Two options or more with their letters are the question once more, not the answer.
        return _only(alone if alone and len(listed) > 1 else alone | listed)

    def conclusion(self, said: str) -> int | None:
        """Rule 5 for the last line of a longer reply, where it begins as a conclusion does."""
        last = said[said.rfind("\n") + 1 :]
        return self.short(last) if len(last) < len(said) and _SO.match(last) else None

    def short(self, said: str) -> int | None:
        """Rule 5: a few words around one letter or one option, and none that denies it."""
        if len(said) > 2_000:
            return None
        rest, quoted = self._without_options(said)
        if len(rest.split()) > _SHORT or _DENIED.search(said):
            return None
        letters = {
            self.place(m[1])
            for m in _ALONE.finditer(rest)
            if m[1] not in "AI" or not _A_WORD.match(rest, m.end())
        }
        # "no idea" does not say no, and "2 doubts" does not say 2: only longer options count where
        # they are quoted in passing.
        told = {place for place in quoted if len(self.options[place]) >= _LONG}
        return _only(told | {place for place in letters if place is not None})

    def _without_options(self, said: str) -> tuple[str, set[int]]:
        """The reply without the options that it quotes, longest first, and which these are."""
        rest, quoted = said, set[int]()
        folded = " ".join(said.casefold().split())
        there = [pair for pair in self.unique.items() if pair[0] in folded]
        for option, place in sorted(there, key=lambda pair: -len(pair[0])):
            shape = r"\s+".join(re.escape(word) for word in option.split())
            rest, n = re.subn(rf"(?<!\w){shape}(?!\w)", " ", rest, flags=re.IGNORECASE)
            if n:
                quoted.add(place)
        return rest, quoted
