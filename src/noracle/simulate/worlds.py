"""Worlds with a known answer key: for tests, documentation, benchmarks and planning by trial."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from noracle.counts.tally import check_n_classes
from noracle.errors import require
from noracle.evidence import Evidence

Columns = dict[str, list[Any]]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """Tables as a user would have them, and the key that a user would not.

    ``accuracy`` is the share of right answers of each system on these items (no answer counts as
    wrong).

    Examples
    --------
    >>> world = simulate_world(n_items=50, n_classes=4, systems={"a": 0.9}, seed=1)
    >>> sorted(world.answers), len(world.key), 0.8 < world.accuracy["a"] < 1
    (['answer', 'item', 'system'], 50, True)
    """

    answers: Columns
    judgements: Columns
    items: Columns
    key: Mapping[int, int]
    accuracy: Mapping[str, float]
    seed: int

    def evidence(self) -> Evidence:
        """The tables without the key."""
        return Evidence.from_tables(self.answers, self.judgements, self.items)


def simulate_world(
    *,
    n_items: int = 1000,
    n_classes: int | Sequence[int] = 10,
    systems: Mapping[str, float] | None = None,
    n_questions: int | None = None,
    n_ordinary: int = 0,
    n_complementary: int = 0,
    n_ruled_out: int = 1,
    no_answer: float = 0.0,
    false_no: float = 0.0,
    false_yes: float = 0.0,
    unsure: float = 0.0,
    bias: float = 0.0,
    transition: Sequence[Sequence[float]] | None = None,
    seed: int = 0,
) -> World:
    """Draw items, answers and labels.

    Parameters
    ----------
    n_items, n_classes
        Number of items and of classes; a sequence of numbers of classes is drawn from uniformly,
        item by item.
    systems
        Accuracy of each system *on the items that it answers*; default one system ``agent`` at 0.8.
        Wrong answers are uniform.
    n_questions
        Items that get one uniformly chosen question each (yes: ordinary, no: complementary).
        Default all items, unless ``n_ordinary`` or ``n_complementary`` is given: then these are two
        disjoint sets of items with labels of one kind.
    n_ruled_out
        Ruled-out classes per complementary item.
    no_answer
        Share of items that a system leaves unanswered.
    false_no, false_yes
        Rates of wrong verdicts: no to the true class, yes to a wrong one (questions only).
    unsure
        Share of questions answered with unsure.
    bias
        With this probability the class asked about is the one after the true class, whatever the
        design says.
    transition
        Matrix T: the ruled-out class of a complementary item is drawn from T[true class].

    Examples
    --------
    >>> world = simulate_world(n_items=200, n_classes=4, systems={"a": 0.9, "b": 0.5}, seed=1)
    >>> world.accuracy["a"] > world.accuracy["b"], len(world.judgements["item"])
    (True, 200)
    """
    rng = np.random.default_rng(seed)
    sizes = [check_n_classes(k) for k in ([n_classes] if isinstance(n_classes, int) else n_classes)]
    rates = dict(systems or {"agent": 0.8})
    shares = {"no_answer": no_answer, "false_no": false_no, "false_yes": false_yes}
    for name, value in {**shares, "unsure": unsure, "bias": bias, **rates}.items():
        require(0 <= value <= 1, f"{name} must be in [0, 1]; got {value}.")
    room = max(1, n_ordinary + n_complementary, n_questions or 0) <= n_items
    require(room, f"n_items must be at least 1 and hold all labels; got {n_items}.")
    k = np.array(sizes)[rng.integers(len(sizes), size=n_items)]
    few = int(k.min())
    require(1 <= n_ruled_out < few, f"n_ruled_out must be in [1, {few}); got {n_ruled_out}.")
    y = rng.integers(k)
    answers: Columns = {"item": [], "system": [], "answer": []}
    accuracy = {}
    for name, rate in rates.items():
        right = rng.random(n_items) < rate
        wrong = (y + 1 + rng.integers(k - 1)) % k
        given = np.where(right, y, wrong)
        answered = rng.random(n_items) >= no_answer
        answers["item"] += list(range(n_items))
        answers["system"] += [name] * n_items
        said = zip(given.tolist(), answered, strict=True)
        answers["answer"] += [answer if has else None for answer, has in said]
        accuracy[name] = float(np.mean(right & answered))
    order = rng.permutation(n_items)
    judgements: Columns = {"item": [], "class": [], "verdict": []}

    def say(item: int, asked: int, verdict: str) -> None:
        for column, value in zip(judgements.values(), (item, asked, verdict), strict=True):
            column.append(value)

    if n_ordinary or n_complementary:
        for i in order[:n_ordinary].tolist():
            say(i, int(y[i]), "yes")
        for i in order[n_ordinary : n_ordinary + n_complementary].tolist():
            for asked in _ruled_out(rng, int(y[i]), int(k[i]), n_ruled_out, bias, transition):
                say(i, asked, "no")
    else:
        for i in order[: n_items if n_questions is None else n_questions].tolist():
            asked = int((y[i] + 1) % k[i]) if rng.random() < bias else int(rng.integers(k[i]))
            truth = asked == y[i]
            flipped = rng.random() < (false_no if truth else false_yes)
            verdict = "yes" if truth != flipped else "no"
            say(i, asked, "unsure" if rng.random() < unsure else verdict)
    return World(
        answers=answers,
        judgements=judgements,
        items={"item": list(range(n_items)), "n_classes": k.tolist()},
        key=dict(enumerate(y.tolist())),
        accuracy=accuracy,
        seed=seed,
    )


def _ruled_out(
    rng: np.random.Generator,
    y: int,
    k: int,
    m: int,
    bias: float,
    transition: Sequence[Sequence[float]] | None,
) -> list[int]:
    if transition is not None:
        return [int(rng.choice(k, p=np.asarray(transition[y], dtype=float)))]
    if rng.random() < bias:
        return [(y + 1 + j) % k for j in range(m)]
    wrong = np.delete(np.arange(k), y)
    return [int(c) for c in rng.choice(wrong, size=m, replace=False)]
