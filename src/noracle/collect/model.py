"""The records of a collection project; plain, frozen, JSON in and out.

A *question* is one thing that one person is asked about one item. All questions are drawn when the
project is sealed. A *pool* is the group of people who may be asked: the experts of class k
(partitioned), the annotator in place a of the balanced design (ordinary), or everybody (0).

    protocol      question.shown          value of an answer
    partitioned   [k]                     "yes" | "no" | "unsure"
    judge-all     m classes               one of these per shown class, joined by "|": "no|yes|no|unsure"
    pick-wrong    four classes            the number of the class that is ruled out, "none" (the trap), or "unsure"
    ordinary      all classes, in order   the number of the class, or "unsure"
    grade         [answer]                "yes" (the answer is right) | "no" | "unsure"

Classes are numbers 0 … K - 1 in the order of the specification. Where the options of an item are
shuffled, ``shown`` holds *original* classes, and ``Item.options[p]`` is the class that stands at
place p on the page. Answers that are graded have numbers, too: that of their class or, where they
are texts, the place among the different ones of the item, in the order of their letters.
"""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, Self, TypedDict

from noracle.errors import require

Protocol = Literal["partitioned", "judge-all", "pick-wrong", "ordinary", "grade"]
State = Literal["draft", "sealed", "open", "closed"]
Role = Literal["owner", "manager", "annotator", "auditor"]
Kind = Literal["main", "gold", "panel", "attention", "reask"]
VERDICTS = frozenset(("yes", "no", "unsure"))

RIGHT_OR_WRONG = ("wrong", "right")
"""The classes of a project that grades texts: those of a gold item's answers."""
OTHER = 1000
"""The number of an answer that nobody is asked about, because it came after sealing."""

EVERYBODY = 0
"""The pool of protocols whose questions anybody may answer."""

UNDO_SECONDS = 60.0
"""So long an answer can be taken back, if no other follows."""

OPEN, LEASED, DONE, VOID = 0, 1, 2, 3
"""Status of a question."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ClassSpec:
    """A class, and the guideline that its experts see (limited Markdown)."""

    name: str
    guideline: str = ""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ProjectSpec:
    """What is decided before a project is sealed, and never changed afterwards.

    ``draws`` are questions per item: classes without replacement (partitioned), annotators per item
    (judge-all, pick-wrong, ordinary), different answers (grade). ``classes`` may be none where texts
    are graded, which is the same as wrong and right. ``shown`` are the classes at a time (judge-all,
    pick-wrong); 0 is four, or all where there are fewer. ``trap``: pick-wrong offers "none of these
    is wrong". ``annotators`` are the places of the balanced design (ordinary). ``gold_rate`` is the
    share of extra questions whose answer is known, ``panel_items`` how many items are put to all K
    classes, ``reasks`` how often a question that was answered "unsure" is put to another person of
    the same pool. After ``lease_seconds`` an unanswered question goes back to its place. A fixed-n
    interval is shown only when ``planned_n`` main answers are complete; ``stop_rule`` is in words,
    written down before opening. ``shuffle_options`` is for items where the class is the position.
    """

    protocol: Protocol
    classes: tuple[ClassSpec, ...]
    draws: int = 1
    shown: int = 0
    trap: bool = False
    annotators: int = 3
    gold_rate: float = 0.0
    panel_items: int = 0
    reasks: int = 0
    lease_seconds: float = 900.0
    planned_n: int | None = None
    stop_rule: str = ""
    shuffle_options: bool = False
    confidence: float = 0.95
    question: str = ""
    language: str = "en"

    def __post_init__(self) -> None:
        grade = self.protocol == "grade"
        if grade:
            object.__setattr__(self, "shown", 1)
            named = self.classes or tuple(ClassSpec(name=name) for name in RIGHT_OR_WRONG)
            object.__setattr__(self, "classes", named)
        k, several = len(self.classes), self.drawn and not grade
        if self.shown == 0:
            object.__setattr__(self, "shown", min(4, k) if several else 4)
        mixed = grade and self.shuffle_options
        places = {"partitioned": k, "ordinary": self.annotators}
        most = 100 if self.drawn else places.get(self.protocol, 0)
        differ = len({c.name for c in self.classes}) == k
        panel = self.panel_items == 0 or (self.panel_items > 0 and self.protocol == "partitioned")
        for name, ok, rule in (
            ("protocol", most > 0, "partitioned, judge-all, pick-wrong, ordinary or grade"),
            ("classes", 2 <= k <= 1000 and differ, "2 to 1000, each with its own name"),
            ("draws", 1 <= self.draws <= max(1, most), f"from 1 to {max(1, most)}"),
            ("shown", not several or 2 <= self.shown <= k, f"from 2 to {k}"),
            ("annotators", self.annotators >= 1, "at least 1"),
            ("gold_rate", 0 <= self.gold_rate < 1, "in [0, 1)"),
            ("panel_items", panel, "0, unless partitioned"),
            ("reasks", 0 <= self.reasks <= 10, "from 0 to 10"),
            ("lease_seconds", 10 <= self.lease_seconds <= 7 * 86400, "from 10 seconds to a week"),
            ("planned_n", self.planned_n is None or self.planned_n >= 1, "at least 1"),
            ("shuffle_options", not mixed, "false in a project of grades"),
            ("confidence", 0.5 <= self.confidence < 1, "in [0.5, 1)"),
        ):
            came = k if name == "classes" else getattr(self, name)
            require(ok, f"{name} must be {rule}; got {came!r}.")

    @property
    def n_classes(self) -> int:
        """K."""
        return len(self.classes)

    @property
    def drawn(self) -> bool:
        """Whether everybody may be asked, about classes or answers that are drawn for the question."""
        return self.protocol in ("judge-all", "pick-wrong", "grade")

    @property
    def judged(self) -> bool:
        """Whether an answer is a verdict on each class or answer that is shown."""
        return self.protocol in ("partitioned", "judge-all", "grade")

    @property
    def texts(self) -> bool:
        """Whether the answers that are graded are texts."""
        return self.protocol == "grade" and tuple(c.name for c in self.classes) == RIGHT_OR_WRONG

    def expected(self, asked: int, truth: int) -> str:
        """The right verdict on a class or an answer of a gold item."""
        return "yes" if truth == (1 if self.texts else asked) else "no"

    @property
    def pools(self) -> tuple[int, ...]:
        """The pools that people can belong to."""
        if self.protocol == "partitioned":
            return tuple(range(self.n_classes))
        return tuple(range(self.annotators)) if self.protocol == "ordinary" else (EVERYBODY,)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return dataclasses.asdict(self) | {"classes": [dataclasses.asdict(c) for c in self.classes]}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """From JSON; unknown names are an error."""
        known = {f.name for f in dataclasses.fields(cls)}
        unknown, rule = sorted(set(values) - known), "spec must have no other names than"
        require(not unknown, f"{rule} {', '.join(sorted(known))}; got {', '.join(unknown[:5])}.")
        values = {"classes": (), **values} if values.get("protocol") == "grade" else values
        missing = sorted({"protocol", "classes"} - set(values))
        require(not missing, f"spec must name {' and '.join(missing)}; got none.")
        named = [{"name": c} if isinstance(c, str) else c for c in values["classes"]]
        classes = tuple(c if isinstance(c, ClassSpec) else ClassSpec(**c) for c in named)
        return cls(**{**values, "classes": classes})


@functools.lru_cache(maxsize=256)
def read_spec(text: str) -> ProjectSpec:
    """The specification out of its column; remembered, because every request needs it."""
    return ProjectSpec.from_dict(json.loads(text))


def fits(spec: ProjectSpec, shown: Sequence[int], value: str) -> bool:
    """Whether ``value`` is an answer to a question that shows these classes.

    >>> spec = ProjectSpec.from_dict({"protocol": "judge-all", "classes": ["a", "b", "c"], "shown": 2})
    >>> fits(spec, (2, 0), "no|unsure"), fits(spec, (2, 0), "no")
    (True, False)
    """
    if spec.judged:
        parts = value.split("|")
        n = len(shown) if spec.protocol == "judge-all" else 1
        return len(parts) == n and VERDICTS.issuperset(parts)
    trapped = spec.protocol == "pick-wrong" and spec.trap and value == "none"
    return value == "unsure" or trapped or value in map(str, shown)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """What is judged.

    ``name`` is the user's own id, unique in the project. ``content`` has a text, Markdown and/or an
    image (its SHA-256), options where the class is the position, and the answers of systems by name
    where they are graded. ``truth`` is the true class of a gold item; it never leaves the table of
    gold. ``options`` are, after sealing, the class at each place of the page, where they are shuffled.
    """

    name: str
    content: Mapping[str, Any]
    truth: int | None = None
    options: tuple[int, ...] | None = None

    @property
    def replies(self) -> list[Any]:
        """The different answers of systems, in order."""
        return replies_in(self.content)


def replies_in(content: Mapping[str, Any]) -> list[Any]:
    """The different answers of systems to an item, in order; systems with the same one share it."""
    return sorted({reply for reply in content.get("answers", {}).values() if reply is not None})


def visible(content: Mapping[str, Any]) -> dict[str, Any]:
    """What an annotator may know of an item: not whether it is a test, nor whose answer it shows."""
    keys = ("text", "markdown", "image", "options", "reply")
    return {key: content[key] for key in keys if key in content}


def reply_number(replies: Sequence[Any], reply: int | str | None) -> int | None:
    """The number of an answer: its class, or the place of a text among those of the item.

    >>> reply_number(["no", "yes"], "yes"), reply_number([4, 7], 7), reply_number([4, 7], 5)
    (1, 7, 1000)
    """
    if reply is None or reply not in replies:
        return None if reply is None else OTHER
    return reply if isinstance(reply, int) else replies.index(reply)


class SealedRoute(NamedTuple):
    """One drawn question: the unit of the Merkle tree.

    ``place`` counts from 0 over the project: the random order in which questions are put inside
    their pool. ``propensity`` is the chance with which just these classes were drawn for this item
    (for ``shown`` of m classes: that a given class is among them, m/K).
    """

    place: int
    item: str
    draw: int
    kind: Kind
    pool: int
    shown: tuple[int, ...]
    propensity: float


@dataclasses.dataclass(frozen=True, slots=True)
class HeldQuestion:
    """A question as its person may see it; ``key`` makes a repeated answer harmless."""

    question: int
    project: int
    item: int
    content: Mapping[str, Any]
    options: tuple[int, ...] | None
    shown: tuple[int, ...]
    lease: int
    lease_until: float
    done: int
    key: str


class SentAnswer(TypedDict):
    """An answer as it was sent."""

    question: int
    key: str
    value: str
    shown_at: float
    client_ms: int | None
    want_next: bool


class Amended(TypedDict):
    """Another value for an answer."""

    answer: int
    key: str
    value: str
    now: float


class Given(SentAnswer):
    """An answer, and when it came; ``shown_at`` is kept between the lease and ``now``."""

    now: float


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """An acknowledged answer: it is on the disk. ``again`` if this key had been answered before."""

    answer: int
    question: int
    revision: int
    again: bool
    next: HeldQuestion | None = None
