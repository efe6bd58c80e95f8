"""Which question to ask next: is this item of this class, or is this answer right?"""

from __future__ import annotations

import re
import secrets
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from noracle.counts import answer_table
from noracle.counts.count import AnswerTable
from noracle.errors import refuse, require
from noracle.evidence import Evidence
from noracle.results import Plan, Routing, choose

_EPSILON = 0.05
_KIND = re.compile(r"(ordinary|targeted)|(complementary|question)(?:-([1-9][0-9]*))?")


def route_items(
    evidence: Evidence,
    *,
    plan: Plan | None = None,
    design: Literal["uniform", "targeted", "grades"] | None = None,
    systems: Sequence[str] | None = None,
    epsilon: float | None = None,
    n: int | None = None,
    seed: int | None = None,
) -> Routing:
    """Draw the questions to ask, in random order, with the probability of each question recorded.

    ``uniform`` asks one class per item, each of the K classes with probability 1/K: such labels
    serve every system, also future ones. ``targeted`` asks class k with probability (1 -
    ε)·votes(k)/votes + ε/K, where votes are the answers of ``systems``: a question about the answer
    itself is worth many about other classes, and since every class keeps at least ε/K the labels
    stay unbiased for every system through their propensities. ``grades`` asks whether an answer is
    right: one of the ``systems`` that answered the item is drawn, and those that gave the same
    answer share the question and its propensity, votes/answers; with one system there is nothing to
    draw and no propensity. It needs no classes. A ``plan`` says how many items get which kind of
    label.

    Parameters
    ----------
    evidence
        Answers (and items). Items that have a judgement or a grade already are not drawn again:
        together with the new ones they are a random sample. To grade answers that are not in a
        table, items and ``systems`` (else those graded so far).
    plan
        A plan of :func:`plan_labels`, or one of :func:`plan_budget` that buys kinds of label. Each
        kind gets items of its own, drawn at random: ``ordinary`` an open question, with neither
        class nor propensity (somebody says the class: fill it in, with the verdict yes);
        ``question-J`` and ``complementary-J`` J distinct classes, drawn uniformly among all, one
        row each; ``targeted`` one question of the targeted design. Raters of the plan that are not
        labels have no rows. A plan of grades has as many rows for each system as it says, without
        propensities.
    design
        ``uniform`` by default, ``grades`` where the evidence has grades; the plan says it where
        there is one.
    systems
        Whose answers are targeted; those that the plan names, else all. An item that none of them
        answered is asked uniformly. A plan of targeted questions counts on one number of systems,
        and must be given as many.
    epsilon
        Uniform share of targeted questions, in (0, 1]; by default as in the plan, else 0.05.
    n
        How many items, drawn without replacement; all without a judgement by default, and as many
        as the plan says where there is one.
    seed
        Makes the routing reproducible, whatever the order of the rows. Drawn and recorded when left
        out.

    Notes
    -----
    The propensity of a row is that of its class: J classes of one item have 1/K each. The right
    class is among them with probability J/K. A yes makes an ordinary label of the item, so
    complementary labels that are asked for in this way say *more* than their plan counts on;
    ``question`` is the kind that is planned as it is asked. Beside targeted questions a uniform one
    has no propensity in its row: an empty one says "uniform, by another draw than the targeted
    ones", so that it keeps what it says about classes that were not answered.

    E[1{class asked = answer, yes}/π] = P(answer is right), whatever π > 0 is: that is why every
    class keeps at least ε/K.

    Assumes nothing about the answers. What estimates from these labels assume is that the questions
    are asked as drawn: an item or a class that is exchanged for another breaks the design.

    References
    ----------
    Horvitz and Thompson (1952), JASA 47, 663-685; Yin, Ishida and Sugiyama, "Towards scalable
    oversight via partitioned human supervision" (uniform routing).

    Examples
    --------
    >>> from noracle import Evidence, plan_labels, route_items
    >>> evidence = Evidence.from_tables(answers={"item": [1, 2, 3], "system": ["a"] * 3, "answer": [0, 1, 1]}, n_classes=4)
    >>> routing = route_items(evidence, design="targeted", seed=7)
    >>> len(routing), routing.columns()["item"] == route_items(evidence, design="targeted", seed=7).columns()["item"]
    (3, True)
    >>> plan = plan_labels(n_classes=4, accuracy=0.8, budget=2, kind="ordinary")
    >>> route_items(evidence, plan=plan, seed=7).columns()["class"]
    [None, None]
    """
    require(
        plan is None or (design is None and n is None),
        "design and n must be left out where a plan says them; got both.",
    )
    choose("design", design or "uniform", ("uniform", "targeted", "grades"))
    if design is None and plan is None and evidence.grades is not None:
        design = "grades"
    inputs = {} if plan is None else plan.inputs
    share = float(inputs.get("epsilon", _EPSILON)) if epsilon is None else epsilon
    require(
        0 < share <= 1,
        f"epsilon must be in (0, 1]; got {share}. Without a uniform share some classes could never be asked.",
    )
    if seed is None:
        seed = secrets.randbits(32)
    if systems is None:
        systems = inputs.get("systems") or None
    if design == "grades" or (plan is not None and "grades" in plan.buy):
        return _to_grade(evidence, systems, plan, n, seed)
    table = answer_table(evidence, systems=systems)
    judged = _judged(evidence)
    labelled = {i for i, item in enumerate(table.items) if item in judged}
    if plan is not None:
        return _planned(evidence, table, labelled, plan, share, seed)
    left = len(table.items) - len(labelled)
    size = left if n is None else n
    where = " without a judgement" if labelled else ""
    require(0 < size <= left, f"n must be in [1, {left}], the number of items{where}; got {n}.")
    rng = np.random.default_rng(seed)
    chosen = [i for i in rng.permutation(len(table.items)) if int(i) not in labelled][:size]
    # One uniform number per question, drawn in the order of the sorted items, so that the order of
    # the rows changes nothing.
    draws = rng.random(len(table.items))
    aim = share if design == "targeted" else None
    rows = tuple(_question(table, int(i), aim, draws[i]) for i in chosen)
    return Routing(
        rows=rows,
        design=design or "uniform",
        epsilon=aim or 1.0,
        seed=seed,
        systems=tuple(table.systems),
        counts=_counts(table.items, rows, len(labelled)),
    )


def _counts(
    items: Collection[Any], rows: Collection[Any], before: int, **kinds: int
) -> dict[str, int]:
    found = {"items": len(items), "questions": len(rows), **kinds}
    return found | ({"labelled_before": before} if before else {})


def _judged(evidence: Evidence) -> set[Any]:
    """The items that have a judgement or a grade."""
    return {item for name in ("judgements", "grades") for (item,) in evidence.rows(name, "item")}


def _question(
    table: AnswerTable, i: int, epsilon: float | None, draw: float
) -> tuple[Any, Any, float]:
    """One question about the i-th item: targeted with the uniform share ``epsilon``, or uniform."""
    classes = table.classes_of(i)
    votes = {} if epsilon is None else table.votes(i)
    counted = np.array([float(votes.get(c, 0)) for c in classes])
    total, chances = counted.sum(), np.full(len(classes), 1 / len(classes))
    if epsilon is not None and total > 0:
        chances = (1 - epsilon) * counted / total + epsilon / len(classes)
    k = _drawn(chances, draw)
    return table.items[i], classes[k], float(chances[k])


def _drawn(chances: np.ndarray[Any, Any], draw: float) -> int:
    """The place that a uniform number falls on."""
    return min(int(np.searchsorted(np.cumsum(chances), draw, side="right")), len(chances) - 1)


# answers to grade


def _to_grade(
    evidence: Evidence, systems: Sequence[str] | None, plan: Plan | None, n: int | None, seed: int
) -> Routing:
    """Answers to be graded, in random order: rows of item, system and propensity."""
    evidence.check()
    names, groups = _answers_to_grade(evidence, systems)
    rng = np.random.default_rng(seed)
    if plan is not None:
        rows, before = _planned_grades(evidence, names, groups, plan, rng), 0
    else:
        judged = _judged(evidence)
        before = sum(item in judged for item in groups)
        order = [list(groups)[i] for i in rng.permutation(len(groups))]
        draws = dict(zip(order, rng.random(len(groups)).tolist(), strict=True))
        left = [item for item in order if item not in judged]
        size = len(left) if n is None else n
        where = " without a label" if before else ""
        refuse(
            {
                "evidence must have items with an answer and without a label; got none. Bring more items.": (
                    not left
                ),
                f"n must be in [1, {len(left)}], the number of items with an answer{where}; got {n}.": (
                    not 0 < size <= len(left)
                ),
            }
        )
        alone = len(names) == 1
        rows = [row for i in left[:size] for row in _one_answer(i, groups[i], draws[i], alone)]
    shared = len(rows) - len({(item, propensity) for item, _, propensity in rows})
    note = f"{shared} rows share their question with another system, which gave the same answer: give them the same grade"
    return Routing(
        rows=tuple(rows),
        design="grades",
        epsilon=0.0,
        seed=seed,
        systems=tuple(names),
        counts=_counts(groups, rows, before),
        notes=(note,) if shared else (),
    )


def _answers_to_grade(
    evidence: Evidence, systems: Sequence[str] | None
) -> tuple[list[str], dict[Any, list[list[str]]]]:
    """The systems, and for every item in sorted order its answers: who gave each. Without answers
    every system has one of its own.
    """
    if evidence.answers is not None:
        rows = evidence.rows("answers", "item", "system", "answer")
        found = sorted({str(row[1]) for row in rows})
    else:
        require(
            evidence.items is not None and not evidence.open_ended,
            "evidence must have answers or items to draw from; got grades alone. Add a table of the items or of the answers.",
        )
        found = sorted({str(s) for (s,) in evidence.rows("grades", "system")} | {*(systems or ())})
        rows = [(item, s, s) for (item,) in evidence.rows("items", "item") for s in found]
    missing = [s for s in systems or () if str(s) not in found]
    require(found and not missing, f"systems must be among {found}; got {missing}.")
    names = found if systems is None else list(dict.fromkeys(str(s) for s in systems))
    groups: dict[Any, dict[Any, list[str]]] = {}
    for item, s, answer in sorted(rows, key=lambda row: (row[0], str(row[1]))):
        if str(s) in names and answer is not None:
            groups.setdefault(item, {}).setdefault(answer, []).append(str(s))
    return names, {item: list(by_answer.values()) for item, by_answer in groups.items()}


def _one_answer(
    item: Any, groups: Sequence[Sequence[str]], draw: float, alone: bool
) -> list[tuple[Any, str, float | None]]:
    """The rows of one drawn answer: one for every system that gave it."""
    shares = np.array([len(g) for g in groups], dtype=float)
    shares /= shares.sum()
    k = _drawn(shares, draw)
    return [(item, system, None if alone else float(shares[k])) for system in groups[k]]


def _planned_grades(
    evidence: Evidence,
    names: Sequence[str],
    groups: Mapping[Any, Sequence[Sequence[str]]],
    plan: Plan,
    rng: np.random.Generator,
) -> list[tuple[Any, str, float | None]]:
    """As many answers of each system as the plan says, on the same items first."""
    done = {(item, str(s)) for item, s in evidence.rows("grades", "item", "system")}
    left = {name: int(row["n"]) for name, row in plan.inputs["by_system"].items()}
    require(
        set(left) <= set(names),
        f"systems must be those of the plan, {list(left)}; got {list(names)}.",
    )
    rows: list[tuple[Any, str, float | None]] = []
    items = list(groups)
    for i in rng.permutation(len(items)):
        item = items[int(i)]
        for name in (s for group in groups[item] for s in group):
            if left.get(name, 0) and (item, name) not in done:
                rows.append((item, name, None))
                left[name] -= 1
    for name, n in left.items():
        require(
            not n,
            f"plan must not need more grades than there are answers without one; {n} are missing for {name}. Bring more items.",
        )
    return rows


# by a plan


class _Kind(NamedTuple):
    """A kind of label: ordinary, targeted, or a number of classes to ask about."""

    name: str
    n_asked: int = 0


def _planned(
    evidence: Evidence,
    table: AnswerTable,
    labelled: set[int],
    plan: Plan,
    epsilon: float,
    seed: int,
) -> Routing:
    wanted = _wanted(plan)
    kinds = Counter[_Kind]()
    for by_stratum in wanted.values():
        kinds.update(by_stratum)
    targeted = any(kind.name == "targeted" for kind in kinds)
    supposed, n = plan.inputs.get("n_systems"), len(table.systems)
    require(
        not targeted or supposed in (None, n),
        f"systems must be the {supposed} that the plan's targeted questions are for; got {n}. Name them, or plan with systems={n}.",
    )
    rng = np.random.default_rng(seed)
    order = [int(i) for i in rng.permutation(len(table.items))]
    pools = _pools(evidence, table, [i for i in order if i not in labelled], tuple(wanted))
    given = _assigned(wanted, pools, rng, those=" without a judgement" if labelled else "")
    rows = tuple(
        row
        for i in order
        if i in given
        for row in _asked(table, i, given[i], epsilon, rng, alone=not targeted)
    )
    by_kind = {k.name: n for k, n in kinds.items()}
    return Routing(
        rows=rows,
        design="planned",
        epsilon=epsilon if targeted else 1.0,
        seed=seed,
        systems=tuple(table.systems),
        counts=_counts(table.items, rows, len(labelled), **by_kind),
        notes=tuple(_notes(table, plan, kinds)),
    )


def _wanted(plan: Plan) -> dict[str, Counter[_Kind]]:
    """How many items of each stratum ("" without strata) get which kind of label."""
    target = plan.inputs.get("target") if isinstance(plan.inputs.get("target"), str) else None
    raters = {*plan.inputs.get("raters", ())} - {target}
    wanted: dict[str, Counter[_Kind]] = {
        str(s): Counter() for s in plan.inputs.get("strata") or ("",)
    }
    known = False
    for name, count in plan.buy.items():
        longest = sorted(wanted, key=len, reverse=True)
        stratum = next((s for s in longest if s and name.startswith(f"{s}/")), "")
        for word in name.removeprefix(f"{stratum}/" if stratum else "").split("+"):
            if word in raters:
                continue
            matched = _KIND.fullmatch(word)
            require(
                matched is not None or word == target,
                "plan must name its kinds of label ordinary, complementary, question or targeted (question-2 for two classes); "
                f"got {word!r}.",
            )
            kind = _Kind("ordinary")
            if matched is not None:
                known, kind = True, _Kind(word, 0 if matched[1] else int(matched[3] or 1))
            wanted[stratum][kind] += count
    require(
        known,
        "plan must buy a kind of label (ordinary, complementary, question or targeted); "
        f"got {', '.join(plan.buy) or 'nothing'}. Who scores which item is drawn by 'noracle plan --assign'.",
    )
    return wanted


def _pools(
    evidence: Evidence, table: AnswerTable, order: list[int], strata: tuple[str, ...]
) -> dict[str, list[int]]:
    """The items of each stratum in random order."""
    if strata == ("",):
        return {"": order}
    require(
        evidence.items is not None and "stratum" in evidence.items.columns,
        f"evidence must have items with a column stratum, as the plan has strata {', '.join(strata)}; got none.",
    )
    of = dict(evidence.rows("items", "item", "stratum"))
    pools: dict[str, list[int]] = {s: [] for s in strata}
    for i in order:
        stratum = of.get(table.items[i])
        pools.setdefault("" if stratum is None else str(stratum), []).append(i)
    return pools


def _assigned(
    wanted: Mapping[str, Counter[_Kind]],
    pools: Mapping[str, list[int]],
    rng: np.random.Generator,
    *,
    those: str,
) -> dict[int, _Kind]:
    """A kind of label for every item that gets one, in random order within each stratum."""
    given: dict[int, _Kind] = {}
    for stratum, by_kind in wanted.items():
        kinds = [kind for kind, count in sorted(by_kind.items()) for _ in range(count)]
        pool = pools[stratum]
        where = those + (f" of stratum {stratum!r}" if stratum else "")
        require(
            len(kinds) <= len(pool),
            f"plan must not need more items than there are{where}, {len(pool)}; got {len(kinds)}. "
            "Bring more items, or plan with a smaller budget.",
        )
        given.update(zip(pool, (kinds[j] for j in rng.permutation(len(kinds))), strict=False))
    return given


def _asked(
    table: AnswerTable,
    i: int,
    kind: _Kind,
    epsilon: float,
    rng: np.random.Generator,
    *,
    alone: bool,
) -> Iterator[tuple[Any, Any, float | None]]:
    """The rows of one item; ``alone`` says that no question of the plan is targeted."""
    item, classes = table.items[i], table.classes_of(i)
    if kind.name == "ordinary":
        yield item, None, None
    elif kind.name == "targeted":
        yield _question(table, i, epsilon, rng.random())
    else:
        n = len(classes)
        require(
            kind.n_asked < n,
            f"plan must ask about fewer classes than an item has, {n} at {item!r}; got {kind.name!r}. "
            "Leave such items out, or plan with fewer classes per label.",
        )
        for k in rng.choice(n, size=kind.n_asked, replace=False):
            yield item, classes[int(k)], 1 / n if alone else None


def _notes(table: AnswerTable, plan: Plan, kinds: Mapping[_Kind, int]) -> Iterator[str]:
    if any(kind.name == "ordinary" for kind in kinds):
        yield "a question without a class is open: write the class beside it, with the verdict yes"
    if any(kind.name.startswith("complementary") for kind in kinds):
        yield "where a class that was asked about is the right one, the item has an ordinary label: the estimate is better than planned"
    if any("+" in name or name in (plan.inputs.get("raters") or ()) for name in plan.buy):
        yield "only the labels of the plan are here; its other raters are not"
    told = plan.inputs.get("n_classes")
    supposed = {int(k) for k in (told if isinstance(told, Mapping) else (told or 0,))}
    sizes = {table.n_classes} if isinstance(table.n_classes, int) else {*table.n_classes.values()}
    if told is not None and sizes != supposed:
        words = " or ".join(map(str, sorted(supposed)))
        yield f"the plan supposed {words} classes; the items have {min(sizes)} to {max(sizes)}"
