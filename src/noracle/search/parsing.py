r"""Which option did a reply choose?

The reply is read in this order, and the first rule that says anything decides:

    1. claims: ``ANSWER: X``, a field ``answer`` of JSON, ``\boxed{X}``, ``<answer>X</answer>``; the last one counts
    2. sentences: "the answer is X", "I choose X", "option X is correct"; the last one counts
    3. the reply declines ("I cannot answer …"): refused
    4. lines that are a letter or an option, such as ``B) Paris``; all must agree
    5. a short reply that names one letter or quotes one option

X is a letter or the text of an option. Two different letters in one claim, or a letter with the text of another option, are no answer.
A reply that was cut off is only read by rules 1, 2 and, where it is a letter and nothing else, 4: its last words are not its answer.
"""

from __future__ import annotations

import json
import re
import unicodedata
from typing import Final

from noracle.search.model import Finish, State
from noracle.search.task import Question

_MOST = 200_000  # characters that are read, from the end
_UNCLEAR: Final = -1  # a claim that names two options

_THOUGHT = re.compile(r"<(think|thinking|reasoning)>.*?(?:</\1>|\Z)", re.DOTALL | re.IGNORECASE)
_THOUGHT_END = re.compile(r"</(?:think|thinking|reasoning)>", re.IGNORECASE)
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
    r"|instead of|rather than|cannot|can't|isn't|no longer)\b|n't\b",
    re.IGNORECASE,
)
_HEAD = 400  # characters in which a line may begin with an option
_LONG = 4  # characters of an option that is recognised in passing
_SHORT = 12  # words beside the letter or the option in rule 5

# Possessive repeats (``*+``): no reply, however odd, makes these slow.
_OPEN, _CLOSE = r"[\s\"'`*_$(\[{<]*+", r"[\s\"'`*_$)\]}>.,;:!?。、-]*+"
_WHOLE = re.compile(rf"{_OPEN}(?:(?:option|choice|letter|answer)\s++)?{_OPEN}([A-Za-z]){_CLOSE}\Z", re.IGNORECASE)
_LEAD = re.compile(rf"{_OPEN}(?:(?:option|choice|letter)\s++)?{_OPEN}([A-Za-z])(?![A-Za-z0-9])", re.IGNORECASE)
_ENDS = r"[\"'`*_$)\]}>]*+"
_ALSO = re.compile(rf"{_ENDS}\s*+(?:,|/|&|\+|\b(?i:and|or|nor)\b)?{_OPEN}(?:(?i:option)\s++)?([A-Z])(?![A-Za-z0-9'])")
_DENIES = re.compile(
    rf"{_ENDS}\s++(?:(?:is|was|are|seems?|looks?)\s++(?:not|wrong|incorrect|false|out|unlikely)|isn't|cannot|can't|won't)\b", re.IGNORECASE
)
_GOES_ON = re.compile(rf"{_ENDS}(?:\Z|[^\s\w]|\s+(?:[^\w\s]|(?:because|since|as|is|for|due|which|with|given|so|here|by)\b))", re.IGNORECASE)
_STOPS = re.compile(rf"{_ENDS}(?:\Z|[.:,;])")
_LINE = re.compile(
    r"[\s>*_`\"'(\[#-]*+(?:(?:[Oo]ption|[Cc]hoice|[Aa]nswer)\s++)?[*_`\"'(\[]*+([A-Z])[*_`\"')\]]*+(?:(?<=\))|[.:、-]|\s*+\Z)"
)
_SEVERAL = re.compile(rf"{_OPEN}([A-Z]{{2,26}}){_CLOSE}\Z")
_ALONE = re.compile(r"(?<![\w'’\-])([A-Z])(?![\w'’])(?!-\w)")


def parse_answer(text: str, question: Question, *, finish: Finish = "stop") -> tuple[int | None, State]:
    r"""The class that a reply chose (not its place on the page), or None with the state that says why there is none.

    Parameters
    ----------
    text
        What the model said. Any text is read; none raises.
    question
        The question as it was shown; it knows which class stood where.
    finish
        Why the model stopped. ``"refused"`` is taken at its word; after ``"length"`` only a plain claim counts.

    Returns
    -------
    tuple
        The class and ``"answered"``, or None and ``"invalid"`` or ``"refused"``.

    Examples
    --------
    >>> from noracle.search.task import TaskItem, pose
    >>> question = pose(TaskItem(id=1, text="Capital of France?", options=("Rome", "Paris", "Bern")))
    >>> parse_answer("Rome is in Italy. ANSWER: B", question), parse_answer("Paris.", question)
    ((1, 'answered'), (1, 'answered'))
    >>> parse_answer("ANSWER: A or B", question), parse_answer("I'm sorry, but I can't help with that.", question)
    ((None, 'invalid'), (None, 'refused'))
    """
    if finish == "refused":
        return None, "refused"
    reader = _Reader(question)
    said = _plain(text)
    place = _first(reader, said, cut=finish == "length")
    if place is not None:
        return (None, "invalid") if place == _UNCLEAR else (question.order[place], "answered")
    if finish != "length" and _REFUSAL.search(said[:_REFUSAL_WITHIN]):
        return None, "refused"
    place = reader.line(said) if finish != "length" else reader.letter(said)
    if place is None and finish != "length":
        place = reader.short(said)
    return (None, "invalid") if place is None or place == _UNCLEAR else (question.order[place], "answered")


def _first(reader: _Reader, said: str, *, cut: bool) -> int | None:
    """Rules 1 and 2: the last claim or, where there is none that can be read, the last sentence."""
    fields = _json_answer(said)
    if fields is not None:
        place = reader.claim(fields)
        if place is not None:
            return place
    for pattern in (_CLAIM, _SENTENCE):
        for found, end in reversed(_spans(pattern, said)):
            # Where the end is missing, an option may be the beginning of another one; a letter is whole.
            place = reader.lead(found) if cut and end == len(said) else reader.claim(found)
            if place is not None:
                return place
    return None


def _spans(pattern: re.Pattern[str], said: str) -> list[tuple[str, int]]:
    """What each claim says, up to the next claim, and where that ends."""
    spans: list[tuple[str, int]] = []
    match = pattern.search(said)
    while match is not None:
        begin, end = match.span(match.lastgroup or 0)
        match = pattern.search(said, begin)
        end = end if match is None else min(end, max(begin, match.start()))
        spans.append((said[begin:end], end))
    return spans


def _plain(text: str) -> str:
    """The reply without thoughts in tags, in one Unicode form."""
    said = unicodedata.normalize("NFKC", text[-_MOST:]).replace("’", "'").replace("‘", "'")
    said = _THOUGHT.sub(" ", said)
    ends = list(_THOUGHT_END.finditer(said))
    return (said[ends[-1].end() :] if ends else said).strip()


def _json_answer(said: str) -> str | None:
    """The field ``answer`` where the whole reply is one JSON object, also inside a fence."""
    body = said.removeprefix("```json").removeprefix("```").removesuffix("```").strip()
    if not body.startswith("{"):
        return None
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict):
        return None
    named = {str(k).strip().casefold(): v for k, v in value.items()}
    found = next((named[k] for k in ("answer", "final_answer", "final answer", "choice") if k in named), None)
    return str(found) if isinstance(found, (str, int, float)) and not isinstance(found, bool) else None


def _bare(text: str) -> str:
    """Text to compare: case, spaces and marks around it do not count."""
    folded = " ".join(unicodedata.normalize("NFKC", text).replace("’", "'").casefold().split())
    return folded.strip(" \"'`*_.,;:!?。")


class _Reader:
    """Reads pieces of a reply to one question; a place, None (nothing here) or ``_UNCLEAR``."""

    def __init__(self, question: Question) -> None:
        self.letters = question.letters
        self.options = [_bare(option) for option in question.options]
        self.unique = {option: place for place, option in enumerate(self.options) if option and self.options.count(option) == 1}

    def place(self, letter: str) -> int | None:
        place = self.letters.find(letter.upper())
        return place if place >= 0 else None

    def letter(self, text: str) -> int | None:
        """The text is a letter and nothing else."""
        match = _WHOLE.match(text)
        return self.place(match[1]) if match else None

    def option(self, text: str) -> int | None:
        """The text is an option, with or without marks around it."""
        bare = _bare(text)
        if bare in self.unique:
            return self.unique[bare]
        shut = _bare(bare.strip("()[]{}<>$"))
        return self.unique.get(shut)

    def begins(self, text: str) -> int | None:
        """The text begins with an option and a mark, as in "No, because …", and quotes no other one."""
        head = re.split(r"[,.;:!\u2014\u2013](?:\s|\Z)|\s[-\u2014\u2013]\s", text[:_HEAD], maxsplit=1)
        place = self.option(head[0]) if len(head) == 2 else None
        return place if place is not None and self._without_options(text[:_HEAD])[1] == {place} else None

    def claim(self, text: str) -> int | None:
        """What stands after ``ANSWER:`` and the like."""
        text = text.strip().rstrip("}").strip() if text.count("}") > text.count("{") else text.strip()
        place = self.letter(text)
        if place is not None:
            return place
        place = self.option(text)
        if place is not None:
            return place
        place = self.begins(text)
        if place is not None:
            return place
        place = self.lead(text)
        return self._many(text) if place is None else place

    def lead(self, text: str) -> int | None:
        """The letter that the text begins with, unless it is a word of a sentence or a second letter follows."""
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
        if match and len(set(match[1])) == len(match[1]) and all(self.place(c) is not None for c in match[1]):
            return _UNCLEAR
        return None

    def line(self, said: str) -> int | None:
        """Rule 4: lines that are a letter, with or without the option, or an option."""
        found: set[int] = set()
        for number, line in enumerate(said.splitlines()):
            place = self.letter(line)
            if place is None:
                place = self.option(line)
            if place is None and number == 0:
                place = self.begins(line)
            if place is None and (match := _LINE.match(line)):
                place = self.place(match[1])
                other = self.option(line[match.end() :])
                if place is not None and other is not None and other != place:
                    return _UNCLEAR
            if place is not None:
                found.add(place)
        if not found:
            return None
        return found.pop() if len(found) == 1 else _UNCLEAR

    def short(self, said: str) -> int | None:
        """Rule 5: a few words around one letter or one option, and none that denies it."""
        if len(said) > 2_000 or _DENIED.search(said):
            return None
        rest, quoted = self._without_options(said)
        letters = {
            self.place(m[1])
            for m in _ALONE.finditer(rest)
            if not (m[1] in "AI" and re.match(r"\s+(?!(?:or|and|is|but|because)\b)[a-z]", rest[m.end() :]))
        }
        # "no idea" does not say no, and "2 doubts" does not say 2: only longer options count where they are quoted in passing.
        told = {place for place in quoted if len(self.options[place]) >= _LONG}
        found = told | {place for place in letters if place is not None}
        if len(rest.split()) > _SHORT or not found:
            return None
        return found.pop() if len(found) == 1 else _UNCLEAR

    def _without_options(self, said: str) -> tuple[str, set[int]]:
        """The reply without the options that it quotes, longest first, and which these are."""
        rest, quoted = said, set[int]()
        for option, place in sorted(self.unique.items(), key=lambda pair: -len(pair[0])):
            shape = r"\s+".join(re.escape(word) for word in option.split())
            rest, n = re.subn(rf"(?<!\w){shape}(?!\w)", " ", rest, flags=re.IGNORECASE)
            if n:
                quoted.add(place)
        return rest, quoted
