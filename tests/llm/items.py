"""Sixty short questions with four options, made by rule, so that the key is known and nothing has
to be shipped.
"""

from __future__ import annotations

import numpy as np

from noracle.search.task import Task, TaskItem

DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
WORDS = (
    "banana",
    "mississippi",
    "committee",
    "parallel",
    "strawberry",
    "accommodation",
    "bookkeeper",
    "successfully",
    "tomorrow",
    "engineering",
)
UNITS = (
    ("hours", "minutes", 60),
    ("kilometres", "metres", 1000),
    ("weeks", "days", 7),
    ("minutes", "seconds", 60),
    ("dozens", "pieces", 12),
)


def make(n: int = 60, seed: int = 5) -> tuple[Task, dict[str, int]]:
    """The task and its key."""
    rng = np.random.default_rng(seed)
    items, key = [], {}
    for i in range(n):
        text, right, wrong = _KINDS[i % len(_KINDS)](rng)
        place = int(rng.integers(4))
        others = list(dict.fromkeys(w for w in wrong if w != right))[:3]
        options = [*others[:place], right, *others[place:]]
        items.append(TaskItem(id=f"q{i:02d}", text=text, options=tuple(options)))
        key[f"q{i:02d}"] = place
    return Task(name="short questions", items=tuple(items)), key


def _product(rng: np.random.Generator) -> tuple[str, str, list[str]]:
    a, b = int(rng.integers(12, 60)), int(rng.integers(6, 30))
    return f"What is {a} times {b}?", str(a * b), [str(a * b + d) for d in (b, -10, 10 + a)]


def _day(rng: np.random.Generator) -> tuple[str, str, list[str]]:
    today, ahead = int(rng.integers(7)), int(rng.integers(9, 40))
    at = (today + ahead) % 7
    return (
        f"Today is {DAYS[today]}. Which day is it in {ahead} days?",
        DAYS[at],
        [DAYS[(at + d) % 7] for d in (1, 6, 3)],
    )


def _letters(rng: np.random.Generator) -> tuple[str, str, list[str]]:
    word = WORDS[int(rng.integers(len(WORDS)))]
    letter = max(sorted(set(word)), key=word.count)
    n = word.count(letter)
    return (
        f"How often does the letter {letter} occur in the word {word}?",
        str(n),
        [str(n + d) for d in (1, -1, 2)],
    )


def _unit(rng: np.random.Generator) -> tuple[str, str, list[str]]:
    large, small, factor = UNITS[int(rng.integers(len(UNITS)))]
    n = int(rng.integers(3, 19))
    return (
        f"How many {small} are {n} {large}?",
        str(n * factor),
        [str(w) for w in (n * factor * 10, n * factor + 5, (n + 1) * factor)],
    )


def _remainder(rng: np.random.Generator) -> tuple[str, str, list[str]]:
    a, b = int(rng.integers(50, 400)), int(rng.integers(6, 14))
    return (
        f"What is the remainder when {a} is divided by {b}?",
        str(a % b),
        [str((a % b + d) % b) for d in (1, 2, 3)],
    )


_KINDS = (_product, _day, _letters, _unit, _remainder)
