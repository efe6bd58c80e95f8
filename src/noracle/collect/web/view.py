"""A question as its person sees it: out of :class:`Asked`, the names of the classes and their
guidelines, and nothing else.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from markupsafe import Markup, escape

from noracle.collect import content
from noracle.collect.model import Asked, ProjectSpec
from noracle.collect.web.words import Words

_MOST_KEYS = 9


@dataclasses.dataclass(frozen=True, slots=True)
class Choice:
    """One answer that can be given."""

    value: str
    words: str
    key: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Group:
    """One of several verdicts on the same page."""

    place: int
    words: str
    choices: tuple[Choice, ...]
    chosen: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Question:
    """What the page shows."""

    id: int
    key: str
    shown_at: float
    asked: str
    body: Markup
    rich: bool
    image: str
    options: tuple[str, ...]
    choices: tuple[Choice, ...]
    groups: tuple[Group, ...]
    guidelines: tuple[tuple[str, Markup], ...]


def show(
    asked: Asked, spec: ProjectSpec, *, slug: str, words: Words, now: float, chosen: str = ""
) -> Question:
    """Lay a question out; ``chosen`` is the answer that is to be changed."""
    names = _names(asked, spec)
    text = asked.content
    rich = "markdown" in text
    body = (
        content.render_markdown(str(text["markdown"]))
        if rich
        else escape(str(text.get("text", "")))
    )
    image = text.get("image")
    places = _places(asked)
    return Question(
        id=asked.question,
        key=asked.key,
        shown_at=now,
        asked=_asked(spec, asked.shown, names, words),
        body=body,
        rich=rich,
        image=f"/p/{slug}/image/{image}" if isinstance(image, str) and image.isalnum() else "",
        options=tuple(str(text["options"][k]) for k in places) if places else (),
        choices=() if spec.protocol == "judge-all" else _choices(spec, asked.shown, names, words),
        groups=_groups(asked.shown, names, words, chosen) if spec.protocol == "judge-all" else (),
        guidelines=tuple(
            (spec.classes[k].name, content.render_markdown(spec.classes[k].guideline))
            for k in asked.shown[:50]
            if spec.classes[k].guideline
        ),
    )


def visible(content: Mapping[str, Any]) -> dict[str, Any]:
    """What an annotator may know of an item: not whether it is there to test their attention."""
    return {key: content[key] for key in ("text", "markdown", "image", "options") if key in content}


def _places(asked: Asked) -> tuple[int, ...]:
    """The class at each place of the page, for items that bring their own options."""
    options = asked.content.get("options")
    if not isinstance(options, list):
        return ()
    order = asked.options if asked.options is not None else tuple(range(len(options)))
    return tuple(k for k in order if 0 <= k < len(options))


def _names(asked: Asked, spec: ProjectSpec) -> dict[int, str]:
    """What each class is called on this page: its name, or the letter of its option."""
    places = _places(asked)
    if not places:
        return {k: c.name for k, c in enumerate(spec.classes)}
    letters = {k: f"{_letter(p)}: {asked.content['options'][k]}" for p, k in enumerate(places)}
    return {k: letters.get(k, c.name) for k, c in enumerate(spec.classes)}


def _letter(place: int) -> str:
    """A … Z, AA …, as an ordered list of HTML counts."""
    text = ""
    place += 1
    while place:
        place, rest = divmod(place - 1, 26)
        text = chr(65 + rest) + text
    return text


def _asked(
    spec: ProjectSpec, shown: tuple[int, ...], names: Mapping[int, str], words: Words
) -> str:
    _ = words.say
    if spec.question:
        return spec.question.replace("{class}", names[shown[0]]) if shown else spec.question
    if spec.protocol == "partitioned":
        return _("Is this “%(name)s”?", name=names[shown[0]])
    if spec.protocol == "judge-all":
        return _("Which of these is it? Judge each one.")
    return _("Which of these is it not?") if spec.protocol == "pick-wrong" else _("What is it?")


def _verdicts(words: Words) -> tuple[Choice, ...]:
    _ = words.say
    return (
        Choice("yes", _("Yes"), "1"),
        Choice("no", _("No"), "2"),
        Choice("unsure", _("Not sure"), "3"),
    )


def _choices(
    spec: ProjectSpec, shown: tuple[int, ...], names: Mapping[int, str], words: Words
) -> tuple[Choice, ...]:
    _ = words.say
    if spec.protocol == "partitioned":
        verdicts = _verdicts(words)
        if spec.question and "{class}" not in spec.question:
            return (
                Choice("yes", _("Yes, it is “%(name)s”", name=names[shown[0]]), "1"),
                *verdicts[1:],
            )
        return verdicts
    answers = [(str(k), names[k]) for k in shown]
    if spec.protocol == "pick-wrong" and spec.trap:
        answers.append(("none", _("None of these is wrong")))
    answers.append(("unsure", _("Not sure")))
    return tuple(
        Choice(value, text, str(i) if i <= _MOST_KEYS else "")
        for i, (value, text) in enumerate(answers, 1)
    )


def _groups(
    shown: tuple[int, ...], names: Mapping[int, str], words: Words, chosen: str
) -> tuple[Group, ...]:
    before = chosen.split("|") if chosen else [""] * len(shown)
    return tuple(
        Group(i, names[k], _verdicts(words), before[i] if i < len(before) else "")
        for i, k in enumerate(shown)
    )


def value_of(form: Mapping[str, Any], shown: int | None = None) -> str:
    """The answer in a sent form: its value, or the verdicts of its groups joined by "|"."""
    if isinstance(form.get("value"), str):
        return str(form["value"])[:2000]
    verdicts = [form.get(f"value-{i}") for i in range(shown or 100)]
    return "|".join(str(v) for v in verdicts if isinstance(v, str))[:2000]


def last_as_asked(row: Mapping[str, Any], *, project: int) -> Asked:
    """The person's last answered question, to be asked again (an amendment)."""
    options = row["options"]
    return Asked(
        question=int(row["question"]),
        project=project,
        item=0,
        content=visible(json.loads(row["content"])),
        options=None if options is None else tuple(json.loads(options)),
        shown=tuple(json.loads(row["shown"])),
        lease=0,
        lease_until=0.0,
        done=0,
        key="",
    )
