"""Several systems on the same labels: all differences together, races, pools, and the gate and the
report of a search.

The width of a race is the share of the systems that are left at its end.
"""

from __future__ import annotations

import dataclasses
import itertools
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from noracle import PatternCounts, Race, compare_systems
from noracle.counts import Pattern
from noracle.search.fitness import PairedScores
from noracle.search.gate import Gate
from noracle.search.pool import Pool, race_pool
from tests.guarantees.matrix.record import Case, Seen, fewer, row_of, seeded
from tests.guarantees.measure import Row
from tests.guarantees.test_search import World as Candidates
from tests.guarantees.test_search import search_once, sizes_of

Labels = Literal["ordinary", "ruled out", "questions", "targeted"]
Answers = tuple[int, ...]
LEAST = 0.01  # the share of targeted questions that are uniform


@dataclasses.dataclass(frozen=True, kw_only=True)
class Contest:
    """Systems whose answers have a known joint distribution: the true class is 0 on every item, -1
    is no answer.
    """

    name: str
    k: int
    table: Mapping[Answers, float]
    labels: Labels

    @property
    def truth(self) -> np.ndarray[Any, Any]:
        """The accuracy of each system."""
        return np.sum([p * (np.array(a) == 0) for a, p in self.table.items()], axis=0)

    def outcomes(self) -> tuple[list[Pattern], np.ndarray[Any, Any]]:
        """What one label can say, with its chances."""
        found: Counter[Pattern] = Counter()
        for answers, share in self.table.items():
            for asked, chance, propensity in self._asked(answers):
                found[self._pattern(answers, asked, propensity)] += share * chance  # type: ignore[assignment]
        chances = np.array(list(found.values()))
        return list(found), chances / chances.sum()

    def _asked(self, answers: Answers) -> Iterator[tuple[int, float, float | None]]:
        """Classes that can be asked about: the class, how often, and its propensity where it is
        recorded. -2 is any class not given.
        """
        if self.labels == "ordinary":
            yield 0, 1.0, None
            return
        given = sorted({a for a in answers if a >= 0} | {0})
        others = self.k - len(given)
        if self.labels == "targeted":
            votes = Counter(a for a in answers if a >= 0)
            total = sum(votes.values())
            chance = {
                c: LEAST / self.k + (1 - LEAST) * (votes[c] / total if total else 1 / self.k)
                for c in given
            }
            for c in given:
                yield c, chance[c], chance[c]
            if others:
                each = (1 - sum(chance.values())) / others
                yield -2, others * each, each
            return
        classes = given if self.labels == "questions" else [c for c in given if c]
        each = 1 / (self.k if self.labels == "questions" else self.k - 1)
        for c in classes:
            yield c, each, None
        if others:
            yield -2, others * each, None

    def _pattern(self, answers: Answers, asked: int, propensity: float | None) -> Pattern:
        verdict: Literal["yes", "no"] = "yes" if asked == 0 else "no"
        hits = tuple(None if a < 0 else a == asked for a in answers)
        extra: dict[str, Any] = {}
        if propensity is not None:
            inverse, none = tuple(1 / propensity if h else 0.0 for h in hits), (0.0,) * len(hits)
            order: dict[int, int] = {}
            groups = tuple(-1 if a < 0 else order.setdefault(a, len(order)) for a in answers)
            extra = {
                "design": "recorded",
                "yes_scores": inverse if asked == 0 else none,
                "no_scores": none if asked == 0 else inverse,
            }
            extra["groups"] = groups
        return Pattern(self.k, verdict, hits, n_ruled_out=int(verdict == "no"), **extra)


def independent(
    accuracies: Sequence[float], *, silent: float = 0.0, alike: bool = True
) -> dict[Answers, float]:
    """Systems that err on their own; a wrong answer is class 1 for all, or a class of its own."""
    table: Counter[Answers] = Counter()
    for answers in itertools.product((0, 1, -1), repeat=len(accuracies)):
        share = 1.0
        for a, accuracy in zip(answers, accuracies, strict=True):
            share *= silent if a < 0 else (1 - silent) * (accuracy if a == 0 else 1 - accuracy)
        if share:
            table[tuple(a if a <= 0 or alike else 1 + i for i, a in enumerate(answers))] += share  # type: ignore[assignment]
    return dict(table)


def contests() -> Iterator[Contest]:
    """Equal and unequal systems, at the ends, that err together or apart, silent or not."""
    kinds: tuple[Labels, ...] = ("ordinary", "ruled out", "questions", "targeted")
    for labels in kinds:
        for k in (4, 100):
            yield Contest(
                name=f"3 systems, A=0.5 each, K={k}, {labels}",
                k=k,
                table=independent((0.5,) * 3, alike=k == 4),
                labels=labels,
            )
            yield Contest(
                name=f"3 systems, A=1/0.98/0, K={k}, {labels}",
                k=k,
                table=independent((1.0, 0.98, 0.0)),
                labels=labels,
            )
        yield Contest(
            name=f"2 systems, A=0.02/0, K=2, {labels}",
            k=2,
            table=independent((0.02, 0.0)),
            labels=labels,
        )
        yield Contest(
            name=f"2 systems that always agree, K=10, {labels}",
            k=10,
            table={(0, 0): 0.6, (1, 1): 0.4},
            labels=labels,
        )
        yield Contest(
            name=f"4 systems, A=0.7 of 60 % answered, K=10, {labels}",
            k=10,
            table=independent((0.7,) * 4, silent=0.4),
            labels=labels,
        )


def compared(
    contest: Contest,
    n: int,
    worlds: int,
    *,
    intervals: Sequence[str] = ("betting", "wald"),
    part: str = "comparisons",
) -> list[Row]:
    """All differences together, by each interval."""
    patterns, chances = contest.outcomes()
    drawn = Counter(
        map(tuple, seeded(contest.name, n).multinomial(n, chances, size=worlds).tolist())
    )
    systems = tuple(f"s{i}" for i in range(len(contest.truth)))
    rows = []
    for interval in intervals:
        started, seen = time.perf_counter(), Seen()
        for key, times in drawn.items():
            counts = PatternCounts(
                systems=systems, patterns={p: c for p, c in zip(patterns, key, strict=True) if c}
            )
            result = compare_systems(counts, interval=interval)  # type: ignore[arg-type]
            gap = dict(zip(systems, contest.truth.tolist(), strict=True))
            held = all(
                d.low - 1e-12 <= gap[d.first] - gap[d.second] <= d.high + 1e-12
                for d in result.differences
            )
            width = float(np.mean([d.high - d.low for d in result.differences]))
            seen.add(held, width, result.guarantee.kind.label, times)
        rows.append(
            row_of(
                seen,
                part=part,
                setting=f"{contest.name}, n={n}",
                method="all pairs",
                interval=interval,
                n=n,
                started=started,
            )
        )
    return rows


def _comparisons() -> Iterator[Case]:
    for contest in contests():
        for n in (1, 20, 300):
            yield Case(
                part="comparisons",
                name=f"{contest.name}, n={n}",
                quick=n == 20 and contest.labels == "questions" and contest.k == 10,
                measured=lambda worlds, c=contest, n=n: compared(c, n, fewer(worlds, 2, 300)),
            )


def _raced(contest: Contest, n: int, worlds: int) -> list[Row]:
    """The first system is one of the best; a race that ever drops it is wrong."""
    patterns, chances = contest.outcomes()
    started, rng, seen = time.perf_counter(), seeded("race", contest.name), Seen()
    systems = tuple(f"s{i}" for i in range(len(contest.truth)))
    for codes in rng.choice(len(chances), size=(worlds, n), p=chances):
        race = Race(systems, n_classes=contest.k)
        for c in codes.tolist():
            race.update(patterns[c])
            if "s0" in race.dropped or len(race.leaders) == 1:
                break
        seen.add("s0" not in race.dropped, len(race.leaders) / len(systems))
    setting = f"race of {contest.name}, {n} labels"
    return [
        row_of(
            seen,
            part="races",
            setting=setting,
            method="race",
            interval="betting",
            n=n,
            started=started,
            promise="finite-sample",
        )
    ]


def _races() -> Iterator[Case]:
    found = [
        c
        for c in contests()
        if "A=0.02/0" in c.name or "A=0.5" in c.name or "A=0.7" in c.name or "A=1/" in c.name
    ]
    for contest in found:
        yield Case(
            part="races",
            name=contest.name,
            measured=lambda worlds, c=contest: _raced(c, 150, fewer(worlds, 3, 200)),
            quick=contest.name.startswith("2 systems") and contest.labels == "questions",
        )


def _pooled(
    k: int, accuracies: tuple[float, ...], silent: float, design: str, worlds: int
) -> list[Row]:
    """Fresh items in every world, so that the best of the population is the first system."""
    name = f"pool of {len(accuracies)}, A={'/'.join(f'{a:g}' for a in accuracies)}, {silent:.0%} silent, K={k}, {design}"
    started, rng, seen, n = time.perf_counter(), seeded(name), Seen(), 150
    for _ in range(worlds):
        key = rng.integers(k, size=n)
        right = rng.random((len(accuracies), n)) < np.array(accuracies)[:, None]
        answers = np.where(right, key, (key + 1 + rng.integers(k - 1, size=right.shape)) % k)
        answers[rng.random(right.shape) < silent] = -1
        systems = tuple(f"s{i}" for i in range(len(accuracies)))
        pool = Pool(
            systems=systems,
            items=tuple(range(n)),
            n_classes=np.full(n, k),
            answers=answers,
            names=None,
        )
        picked = race_pool(
            pool,
            lambda item, c, key=key: bool(key[item] == c),
            design=design,
            seed=int(rng.integers(2**31)),
        )  # type: ignore[arg-type]
        left = picked.comparison.leaders
        seen.add("s0" in left, len(left) / len(systems), picked.comparison.guarantee.kind.label)
    return [
        row_of(
            seen,
            part="races",
            setting=name,
            method="race_pool",
            interval="betting",
            n=n,
            started=started,
        )
    ]


def _pools() -> Iterator[Case]:
    worlds_of = (
        ((0.5, 0.5), 0.0, 2),
        ((0.6,) * 6, 0.1, 10),
        ((1.0, 1.0, 0.98, 0.0), 0.0, 4),
        ((0.3, 0.3, 0.1), 0.5, 100),
    )
    for accuracies, silent, k in worlds_of:
        for design in ("targeted", "equal", "uniform"):
            yield Case(
                part="races",
                name=f"pool {accuracies} {silent} {k} {design}",
                quick=k == 2 and design == "targeted",
                measured=lambda worlds, a=accuracies, s=silent, k=k, d=design: _pooled(
                    k, a, s, d, fewer(worlds, 4, 100)
                ),
            )


# ------------------------------------------------------------------------------------------------------------------
# search


def _gated(
    k: int, agents: int, n_candidates: int | None, n: int, confidence: float, worlds: int
) -> list[Row]:
    """Equal candidates that all challenge on the same labels: every acceptance is false. The width
    is the mean number of acceptances.
    """
    known = "any number of" if n_candidates is None else f"at most {n_candidates}"
    name = f"{agents} equal candidates all challenge, {known} challenges, K={k} n={n} at {confidence:.0%}"
    started, rng, seen = time.perf_counter(), seeded(name), Seen()
    for _ in range(worlds):
        ruled_out = rng.integers(1, k, size=n)
        scores = 1 - (k - 1) * (rng.integers(k, size=(agents + 1, n)) == ruled_out)
        gate, incumbent, promise = Gate(confidence, n_candidates), 0, ""
        for agent in range(1, agents + 1):
            pairs = PairedScores(
                item=tuple(range(n)),
                value=scores[agent] - scores[incumbent] + 0.0,
                low=np.full(n, 1.0 - k),
            )
            decision = gate.challenge(pairs, fresh=True)
            promise = decision.guarantee.kind.label
            incumbent = agent if decision.accepted else incumbent
        seen.add(not gate.accepted_at, len(gate.accepted_at), promise)
    return [
        row_of(
            seen,
            part="search",
            setting=name,
            method="gate",
            interval="betting",
            n=n,
            started=started,
            nominal=confidence,
        )
    ]


def _searched(world: Candidates, validation: int, worlds: int) -> list[Row]:
    """The report of a whole search on its final labels; the usual interval beside it; and no false
    acceptance on the way.
    """
    sizes = sizes_of(validation)
    name = (
        f"{world.agents} candidates, A={world.accuracy:g}, the last {world.better:g} better, K={world.n_classes}, "
        f"{world.shared:.0%} alike, {world.silent:.0%} silent, {world.labels}, {sizes[2]} final labels"
    )
    started, rng = time.perf_counter(), seeded(name)
    seen = {"held-out": Seen(), "wald": Seen(), "gate": Seen()}
    for _ in range(worlds):
        s = search_once(world, sizes, rng)
        seen["held-out"].add(
            s.held_out.low <= s.truth <= s.held_out.high,
            s.held_out.width,
            s.held_out.guarantee.kind.label,
        )
        seen["wald"].add(s.wald.low <= s.truth <= s.wald.high, s.wald.width, "asymptotic")
        seen["gate"].add(s.false == 0, s.accepted, "finite-sample")
    shown = {"held-out": "default", "wald": "wald", "gate": "betting"}
    return [
        row_of(
            v, part="search", setting=name, method=m, interval=shown[m], n=sizes[2], started=started
        )
        for m, v in seen.items()
    ]


def _searches() -> Iterator[Case]:
    for k, agents, most, n, confidence in (
        (4, 12, None, 150, 0.8),
        (4, 12, 12, 150, 0.8),
        (2, 12, 12, 20, 0.95),
        (10, 5, None, 60, 0.9),
        (100, 5, 5, 200, 0.8),
        (4, 1, 1, 1, 0.8),
    ):
        yield Case(
            part="search",
            name=f"gate {k} {agents} {most} {n}",
            quick=n == 20,
            measured=lambda worlds, v=(k, agents, most, n, confidence): _gated(
                *v, fewer(worlds, 2, 200)
            ),
        )
    made = (
        (Candidates(), 88),
        (Candidates(shared=0.55), 88),
        (Candidates(agents=5, accuracy=0.02, n_classes=10), 40),
        (Candidates(agents=5, accuracy=0.9, silent=0.1), 20),
        (Candidates(agents=10, better=0.15, labels="question"), 60),
        (Candidates(agents=10, better=0.15, labels="ordinary"), 60),
        (Candidates(agents=3, accuracy=1.0, labels="ordinary"), 10),
        (Candidates(agents=3, accuracy=0.0), 10),
    )
    for world, validation in made:
        yield Case(
            part="search",
            name=f"search {world}",
            measured=lambda worlds, w=world, v=validation: _searched(w, v, fewer(worlds, 4, 100)),
            quick=world.agents == 3,
        )


def cases() -> list[Case]:
    """Every case of this file."""
    return [case for make in (_comparisons, _races, _pools, _searches) for case in make()]
