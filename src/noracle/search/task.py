"""Tasks: items with options, and how an item is put to a model.

A class is the place of an option in the file, from 0. What a model sees may be shuffled (each order
equally likely, drawn from the seed and the item alone); ``order`` says which class stands where,
and answers are always given back as classes.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from noracle.errors import ArgumentError
from noracle.evidence.replies import Finish, State, read_choice

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TaskItem:
    """One item. No truth: a task never holds an answer key.

    Examples
    --------
    >>> TaskItem(id=1, text="Which is even?", options=("one", "two")).options[1]
    'two'
    """

    id: int | str
    text: str
    options: tuple[str, ...]
    stratum: str | None = None

    def __post_init__(self) -> None:
        if not 2 <= len(self.options) <= len(LETTERS):
            raise ArgumentError(
                f"options must be 2 to {len(LETTERS)}; got {len(self.options)} at item {self.id!r}."
            )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """Items of one kind. ``name`` goes into reports; ``instruction`` is one line that says what is
    asked.

    Examples
    --------
    >>> task = Task(name="parity", items=(TaskItem(id=1, text="Which is even?", options=("one", "two")),))
    >>> task.instruction
    'Choose the one right option.'
    """

    name: str
    items: tuple[TaskItem, ...]
    instruction: str = "Choose the one right option."


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """An item as it is shown: ``options`` in shown order, ``order[place]`` is the class shown at
    that place.

    Examples
    --------
    >>> print(Question(item=1, text="Which is even?", options=("two", "one"), order=(1, 0)).prompt())
    Choose the one right option.
    <BLANKLINE>
    Which is even?
    <BLANKLINE>
    A) two
    B) one
    """

    item: int | str
    text: str
    options: tuple[str, ...]
    order: tuple[int, ...]
    instruction: str = "Choose the one right option."

    @property
    def letters(self) -> str:
        """The letters in use."""
        return LETTERS[: len(self.options)]

    def prompt(self) -> str:
        """The item as text."""
        lines = "\n".join(
            f"{letter}) {option}" for letter, option in zip(self.letters, self.options, strict=True)
        )
        return f"{self.instruction}\n\n{self.text}\n\n{lines}"


def draws(*parts: object) -> np.random.Generator:
    """A generator that depends on these parts and nothing else: not on the order in which work
    finishes.
    """
    words = "\x1f".join(f"{type(p).__name__}:{p}" for p in parts).encode()
    return np.random.default_rng(np.frombuffer(hashlib.sha256(words).digest(), dtype=np.uint32))


def pose(
    item: TaskItem, *, instruction: str = "Choose the one right option.", shuffle: int | None = None
) -> Question:
    """Put an item; with a seed ``shuffle`` the options stand in a random order, else as in the
    file.

    Examples
    --------
    >>> question = pose(TaskItem(id=1, text="Which is even?", options=("one", "two", "three")), shuffle=7)
    >>> sorted(question.order), [question.options[i] == ("one", "two", "three")[c] for i, c in enumerate(question.order)]
    ([0, 1, 2], [True, True, True])
    """
    k = len(item.options)
    order = (
        tuple(range(k))
        if shuffle is None
        else tuple(int(c) for c in draws("options", shuffle, item.id).permutation(k))
    )
    return Question(
        item=item.id,
        text=item.text,
        options=tuple(item.options[c] for c in order),
        order=order,
        instruction=instruction,
    )


def parse_answer(
    text: str, question: Question, *, finish: Finish = "stop"
) -> tuple[int | None, State]:
    """The class that a reply chose (not its place on the page), or None with the state that says
    why there is none.

    Parameters
    ----------
    text
        What the model said; read by :func:`noracle.evidence.replies.read_choice`.
    question
        The question as it was shown; it knows which class stood where.
    finish
        Why the model stopped.

    Examples
    --------
    >>> question = pose(TaskItem(id=1, text="Capital of France?", options=("Rome", "Paris", "Bern")), shuffle=7)
    >>> question.options, parse_answer("ANSWER: Paris", question)
    (('Rome', 'Bern', 'Paris'), (1, 'answered'))
    """
    place, state = read_choice(text, question.options, finish=finish)
    return (None if place is None else question.order[place]), state


def read_task(
    path: str | Path,
    *,
    preset: str | Path | None = None,
    columns: Mapping[str, str | Sequence[str]] | None = None,
    limit: int | None = None,
    name: str | None = None,
) -> Task:
    r"""Items with options out of a file.

    Parameters
    ----------
    path
        CSV, JSONL, JSON or Parquet. Without a preset it has the columns ``item``, ``text`` and
        ``options`` (a list, JSON, or texts with ``|`` between them) and perhaps ``stratum``;
        without ``item`` the row number, from 0, names an item.
    preset
        The name of a shipped preset (:func:`noracle.search.reading.preset_names`) or a JSON file of
        that shape: which columns of a public benchmark are what. A column that holds the key is
        never read.
    columns
        Other columns for ``item``, ``text``, ``options`` (one column with a list, or one column an
        option) and ``stratum``.
    limit
        Take only the first items.
    name
        How the task is called; by default as the preset or the file.

    Raises
    ------
    EvidenceError
        If a column is missing, a text is empty or an item comes twice. Items with fewer than two
        options are left out with a warning.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "items.csv"
    >>> _ = file.write_text("item,text,options\n7,Which is even?,one|two|three\n")
    >>> read_task(file).items
    (TaskItem(id=7, text='Which is even?', options=('one', 'two', 'three'), stratum=None),)
    """
    from noracle.search.reading import read_items

    return read_items(path, preset=preset, columns=columns, limit=limit, name=name)
