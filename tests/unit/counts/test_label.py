"""One label meets one answer: by definition, and the same one by one as in the query engine."""

from __future__ import annotations

import itertools
import random
from collections import Counter, defaultdict
from typing import Any, Literal, get_args

import pytest

from noracle.accuracy.score import pattern_scores, score
from noracle.counts import Cell, count_accuracy, count_patterns
from noracle.counts.tally import Label, Pattern, Repeats, Verdict, pattern, rounded, tally
from noracle.evidence import Evidence
from tests.runs import meet_runs

Said = tuple[Any, Verdict, float | None]
Design = Literal["without", "uniform", "recorded", "mixed"]


# -------------------------------------------------------------------------------------------------------
# by definition


@pytest.mark.parametrize("propensity", [None, 0.4])
@pytest.mark.parametrize("answer", ["A", "B", None])
@pytest.mark.parametrize("verdict", get_args(Verdict))
def test_one_question_meets_one_answer(
    verdict: Verdict, answer: str | None, propensity: float | None
) -> None:
    label = Label.of([("A", verdict, propensity)], n_classes=4, recorded=propensity is not None)
    assert label is not None
    met = label.meet(answer, system="s")
    hit = answer == "A"
    assert (met.system, met.n_classes, met.verdict) == ("s", 4, verdict)
    assert (met.hit, met.answered) == (hit, answer is not None)
    assert met.n_ruled_out == (verdict == "no")
    assert met.ruled_hit == (verdict == "no" and hit)
    if propensity is None:
        assert (met.design, met.yes_score, met.no_score) == ("uniform", None, None)
    elif verdict == "unsure":
        assert (met.design, met.yes_score, met.no_score) == ("recorded", None, None)
    else:
        inverse = 2.5 if hit else 0.0
        assert met.design == "recorded"
        assert met.yes_score == (inverse if verdict == "yes" else 0.0)
        assert met.no_score == (inverse if verdict == "no" else 0.0)


@pytest.mark.parametrize(("hit", "answered"), [(True, True), (False, True), (False, False)])
@pytest.mark.parametrize("verdict", get_args(Verdict))
@pytest.mark.parametrize("inverse", [None, 2.5])
def test_tally_of_known_facts_is_that_of_the_label(
    verdict: Verdict, hit: bool, answered: bool, inverse: float | None
) -> None:
    facts = tally(
        Cell("s", 4),
        verdict,
        hit=hit,
        answered=answered,
        inverse=None if inverse is None else inverse * hit,
    )
    label = Label(4, verdict, frozenset("A"), None if inverse is None else 1 / inverse)
    assert label.meet(None if not answered else "A" if hit else "B", system="s") == facts


def test_place_goes_into_the_tally_and_the_pattern() -> None:
    label = Label(4, "no", frozenset("A"), stratum="law", weight=2.0, cluster="page 3")
    met, together = label.meet("A", system="s"), label.meet_all(["A", None])
    assert (met.stratum, met.weight, met.cluster) == ("law", 2.0, "page 3")
    assert (together.stratum, together.weight, together.cluster) == ("law", 2.0, "page 3")


@pytest.mark.parametrize(
    "said",
    [
        [("A", "yes", None), ("B", "yes", None)],
        [("A", "yes", None), ("A", "no", None)],
        [("A", "no", None), ("B", "no", None), ("C", "no", None)],
        [("A", "unsure", 0.2), ("A", "yes", 0.5), ("A", "no", 0.5)],
    ],
)
@pytest.mark.parametrize("recorded", [False, True])
def test_judgements_that_contradict_each_other_make_no_label(
    said: list[Said], recorded: bool
) -> None:
    for order in itertools.permutations(said):
        assert Label.of(order, n_classes=3, recorded=recorded) is None


def test_confirmed_class_beats_what_was_ruled_out_and_remembers_it() -> None:
    label = Label.of([("B", "no", None), ("A", "yes", None), ("C", "unsure", None)], n_classes=5)
    assert label == Label(5, "yes", frozenset("A"), ruled_out=frozenset("B"))
    right, ruled, other = (label.meet(a) for a in "ABD")
    assert [t.hit for t in (right, ruled, other)] == [True, False, False]
    assert [t.ruled_hit for t in (right, ruled, other)] == [False, True, False]
    assert {t.n_ruled_out for t in (right, ruled, other)} == {1}


def test_classes_ruled_out_are_one_label_whatever_else_is_unsure() -> None:
    label = Label.of(
        [("C", "unsure", None), ("B", "no", None), ("A", "no", None), ("A", "no", None)],
        n_classes=5,
    )
    assert label == Label(5, "no", frozenset("AB"))
    assert [label.meet(a).hit for a in "ABC"] == [True, True, False]


@pytest.mark.parametrize("first", get_args(Verdict))
def test_first_question_is_the_label_where_propensities_were_recorded(first: Verdict) -> None:
    label = Label.of(
        [("A", first, 0.5), ("B", "no", 0.25), ("C", "unsure", 0.25)], n_classes=5, recorded=True
    )
    assert label == Label(5, first, frozenset("A"), 0.5)
    assert label.meet("B").no_score in (None, 0.0)


def test_unsure_first_question_is_not_replaced_by_the_next() -> None:
    label = Label.of([("A", "unsure", 0.5), ("B", "yes", 0.5)], n_classes=3, recorded=True)
    assert label is not None
    assert [label.meet(a).verdict for a in ("A", "B", None)] == ["unsure"] * 3
    assert label.meet("B").yes_score is None


def test_first_question_without_a_propensity_stays_uniform_in_a_recorded_table() -> None:
    label = Label.of([("A", "no", None), ("B", "yes", 0.5)], n_classes=3, recorded=True)
    assert label == Label(3, "no", frozenset("A"))
    assert label.meet("A").design == "uniform"


def test_item_without_any_propensity_uses_all_its_judgements_in_a_recorded_table() -> None:
    assert Label.of([("A", "no", None), ("B", "no", None)], n_classes=4, recorded=True) == Label(
        4, "no", frozenset("AB")
    )


@pytest.mark.parametrize("verdict", get_args(Verdict))
@pytest.mark.parametrize("propensity", [None, 0.3])
def test_pattern_is_the_tallies_of_its_systems(verdict: Verdict, propensity: float | None) -> None:
    answers = ["B", "A", None, "B", "C"]
    label = Label(4, verdict, frozenset("B"), propensity)
    together, each = label.meet_all(answers), [label.meet(a) for a in answers]
    assert together.hits == tuple(t.hit if t.answered else None for t in each)
    assert {together.n_ruled_out} == {t.n_ruled_out for t in each}
    assert {together.design} == {t.design for t in each}
    if propensity is None:
        assert (together.yes_scores, together.no_scores, together.groups) == (None, None, None)
        return
    assert together.groups == (0, 1, -1, 0, 2)
    if verdict == "unsure":
        assert (together.yes_scores, together.no_scores) == (None, None)
    else:
        assert together.yes_scores == tuple(t.yes_score for t in each)
        assert together.no_scores == tuple(t.no_score for t in each)


def test_scores_have_twelve_digits_on_every_way() -> None:
    third = rounded(1 / 0.3)
    assert third == 3.33333333333
    assert Label(4, "yes", frozenset("A"), 0.3).meet("A").yes_score == third
    assert pattern(Cell("", 4), "no", [True], inverse=[1 / 0.3], answers=["A"]).no_scores == (
        third,
    )


# ------------------------------------------------------------------------------------- one by one
# as in the query engine


class World:
    """Random tables: answers of three systems, judgements with repeats, contradictions and times,
    and items.
    """

    def __init__(
        self, seed: int, design: Design, *, repeats: int = 1, one_each: bool = False, n: int = 70
    ) -> None:
        draw = random.Random(f"{seed} {design}")
        timed = draw.random() < 0.7
        self.items: dict[str, list[Any]] = {
            "item": list(range(n)),
            "n_classes": [draw.choice([2, 3, 5]) for _ in range(n)],
            "stratum": [draw.choice(["law", "physics"]) for _ in range(n)],
            "weight": [draw.choice([1.0, 2.5]) for _ in range(n)],
        }
        sizes = self.items["n_classes"]
        self.answers: dict[str, list[Any]] = {"item": [], "system": [], "answer": [], "repeat": []}
        for i, system, repeat in itertools.product(range(n - 3), "abc", range(repeats)):
            if system == "a" or i % 11:  # some items were not put to every system
                answer = draw.randrange(sizes[i]) if draw.random() < 0.85 else None
                _append(self.answers, i, system, answer, repeat)
        if repeats == 1:
            del self.answers["repeat"]
        rows = []
        for i in draw.sample(range(n), n * 4 // 5):
            truth = draw.randrange(sizes[i])
            for j in range(1 if one_each else draw.choice([1, 1, 2, 3])):
                c = draw.randrange(sizes[i])
                wrong = draw.random() < 0.05
                verdict = (
                    "unsure" if draw.random() < 0.2 else "yes" if (c == truth) != wrong else "no"
                )
                row = (
                    i,
                    c,
                    verdict,
                    f"rater {j}",
                    self._propensity(draw, design, sizes[i]),
                    draw.choice([None, *range(9)]),
                )
                rows += [row] * (1 if one_each or draw.random() < 0.9 else 2)
        draw.shuffle(rows)
        self.judgements: dict[str, list[Any]] = {
            "item": [],
            "class": [],
            "verdict": [],
            "rater": [],
            "propensity": [],
            "at": [],
        }
        for row in rows:
            _append(self.judgements, *row)
        for column, there in (("propensity", design != "without"), ("at", timed)):
            if not there:
                del self.judgements[column]
        self.recorded = any(
            p is not None and abs(p * sizes[i] - 1) > 1e-9
            for i, p in zip(
                self.judgements["item"],
                self.judgements.get("propensity", [None] * len(rows)),
                strict=True,
            )
        )

    @staticmethod
    def _propensity(draw: random.Random, design: Design, k: int) -> float | None:
        choices = {
            "without": [None],
            "uniform": [1 / k, None],
            "recorded": [1 / k, 0.3, 0.7],
            "mixed": [None, 1 / k, 0.45],
        }
        return draw.choice(choices[design])

    def evidence(self) -> Evidence:
        return Evidence.from_tables(self.answers, self.judgements, self.items, conflicts="drop")

    def labels(self) -> dict[int, Label]:
        """The label of every item that is not contradictory, made one by one."""
        kept: dict[tuple[Any, ...], list[tuple[Any, int]]] = defaultdict(list)
        names = [
            name for name in ("class", "verdict", "rater", "propensity") if name in self.judgements
        ]
        times = self.judgements.get("at", [None] * len(self.judgements["item"]))
        for row, item in enumerate(self.judgements["item"]):
            kept[item, *(self.judgements[name][row] for name in names)].append((times[row], row))
        said: dict[int, list[tuple[tuple[Any, ...], Said]]] = defaultdict(list)
        for (item, *values), seen in kept.items():  # an exact repeat counts once, at its first time
            at = min((t for t, _ in seen if t is not None), default=None)
            told = dict(zip(names, values, strict=True))
            said[item].append(
                (
                    (at is None, at or 0, min(r for _, r in seen)),
                    (told["class"], told["verdict"], told.get("propensity")),
                )
            )
        found = {}
        for item, questions in said.items():
            rows = [what for _, what in sorted(questions, key=lambda pair: pair[0])]
            label = Label.of(rows, n_classes=self.items["n_classes"][item], recorded=self.recorded)
            if label is not None:
                found[item] = label._replace(
                    stratum=self.items["stratum"][item], weight=self.items["weight"][item]
                )
        return found

    def given(self) -> dict[tuple[int, str], list[Any]]:
        found: dict[tuple[int, str], list[Any]] = defaultdict(list)
        for item, system, answer in zip(
            *(self.answers[name] for name in ("item", "system", "answer")), strict=True
        ):
            found[item, system].append(answer)
        return found


def _append(table: dict[str, list[Any]], *values: Any) -> None:
    for column, value in zip(table.values(), values, strict=True):
        column.append(value)


WORLDS = [(seed, design) for design in get_args(Design) for seed in range(6)]


@pytest.mark.thin(7)
@pytest.mark.parametrize(
    ("seed", "design"),
    [
        pytest.param(*world, marks=[] if world[0] in (0, 4) else [pytest.mark.full])
        for world in WORLDS
    ],
)
def test_labels_met_one_by_one_are_the_counts_of_the_engine(seed: int, design: Design) -> None:
    world = World(
        seed, design, one_each=seed >= 4
    )  # the engine has a shorter way for one judgement per item
    labels, given, evidence = world.labels(), world.given(), world.evidence()
    wanted = Counter(
        labels[item].meet(answer, system=system)
        for (item, system), (answer,) in given.items()
        if item in labels
    )
    found = count_accuracy(evidence)
    assert dict(found.tallies) == dict(wanted)
    assert found.propensities == {"without": "none", "uniform": "uniform"}.get(design, "recorded")
    assert len({t.verdict for t in wanted}) == 3
    assert {t.design for t in wanted} >= ({"recorded"} if world.recorded else {"uniform"})
    patterns: Counter[Pattern] = Counter()
    for item, label in labels.items():
        if all((item, system) in given for system in "abc"):
            patterns[label.meet_all([given[item, system][0] for system in "abc"])] += 1
    assert dict(count_patterns(evidence).patterns) == dict(patterns)


@pytest.mark.thin(11)
@pytest.mark.parametrize("how", ["mean", "all", "any"])
@pytest.mark.parametrize(("seed", "design"), WORLDS[::6])
def test_repeats_met_one_by_one_are_the_counts_of_the_engine(
    seed: int, design: Design, how: Repeats
) -> None:
    world = World(seed, design, repeats=3)
    labels, given, evidence = world.labels(), world.given(), world.evidence().with_repeats(how)
    met = {
        pair: meet_runs(labels[pair[0]], answers, system=pair[1], how=how)
        for pair, answers in given.items()
        if pair[0] in labels
    }
    assert dict(count_accuracy(evidence).tallies) == dict(Counter(met.values()))
    assert any(t.hit_share is not None for t in met.values()) == (how != "all")
    together: Counter[tuple[float, ...]] = Counter()
    for item, label in labels.items():
        mine = [met.get((item, system)) for system in "abc"]
        if label.verdict != "unsure" and None not in mine:
            together[tuple(round(score(t), 9) for t in mine if t is not None)] += 1
    found: Counter[tuple[float, ...]] = Counter()
    for p, n in count_patterns(evidence).patterns.items():
        if p.verdict != "unsure":
            found[tuple(round(float(x), 9) for x in pattern_scores(p))] += n
    assert found == together
