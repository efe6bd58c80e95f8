"""Kinds of label that are asked for: what they tell, by enumeration."""

from __future__ import annotations

import itertools

import pytest

from noracle import ArgumentError, plan_budget
from noracle.ppi import complementary, ordinary, question, targeted
from noracle.ppi.expected import make_label


def outcomes(k: int, j: int) -> list[tuple[float, float]]:
    """P(what is said | right) and P(what is said | wrong) for j of k classes asked, by writing down
    all sets of classes.

    The answer is class 0; the true class is 0 or, for a wrong answer, 1. If the true class is among
    those asked about, the verdict tells right from wrong; else it tells whether the answer was
    ruled out.
    """
    sets = list(itertools.combinations(range(k), j))
    found: dict[str, list[float]] = {
        said: [0.0, 0.0] for said in ("right", "wrong", "ruled out", "left")
    }
    for chosen, truth in itertools.product(sets, (0, 1)):
        said = (
            ("right", "wrong")[truth] if truth in chosen else "ruled out" if 0 in chosen else "left"
        )
        found[said][truth] += 1 / len(sets)
    return [(right, wrong) for right, wrong in found.values() if right + wrong > 0]


@pytest.mark.parametrize(("k", "j"), [(2, 1), (3, 1), (4, 1), (4, 2), (4, 3), (5, 2), (6, 4)])
@pytest.mark.parametrize("accuracy", [0.05, 0.3, 0.7, 0.98])
def test_question_has_the_variance_of_the_best_unbiased_score(
    k: int, j: int, accuracy: float
) -> None:
    """1/I by enumeration; and the score A₀ + s/I at any guess A₀ has the accuracy as its mean."""
    said = outcomes(k, j)

    def information(a: float) -> float:
        return sum((p1 - p0) ** 2 / (a * p1 + (1 - a) * p0) for p1, p0 in said)

    noise = question(n_classes=k, n_asked=j, price=1.0).noise(accuracy)
    assert accuracy * (1 - accuracy) + noise == pytest.approx(1 / information(accuracy), rel=1e-9)
    for guess in (0.2, 0.9):
        scores = [
            guess + (p1 - p0) / (guess * p1 + (1 - guess) * p0) / information(guess)
            for p1, p0 in said
        ]
        for chances, mean in ((0, 1.0), (1, 0.0)):
            assert sum(s * p[chances] for s, p in zip(scores, said, strict=True)) == pytest.approx(
                mean, abs=1e-9
            )


def test_question_lies_between_an_ordinary_and_a_complementary_label() -> None:
    for k, j, a in itertools.product((3, 5, 20), (1, 2), (0.01, 0.5, 0.99)):
        noise = question(n_classes=k, n_asked=j, price=1.0).noise(a)
        assert (
            0 <= noise < complementary(n_classes=k, n_ruled_out=j, price=1.0).noise(a) or j == k - 1
        )
    assert (
        question(n_classes=4, n_asked=3, price=1.0).noise(0.5) == 0.0
    )  # all but one: the class is known


def test_planner_buys_the_kind_with_the_most_information_for_its_price() -> None:
    def bought(**prices: float) -> set[str]:
        labels = [
            make_label(name.replace("_", "-"), n_classes=10, price=price, epsilon=0.5)
            for name, price in prices.items()
        ]
        return set(
            plan_budget(
                cov=[[0.16]],
                names=["right"],
                target="right",
                costs={},
                budgets=99,
                labels=labels,
                accuracy=0.8,
            ).buy
        )

    assert bought(ordinary=1.0, targeted=0.5) == {"targeted"}
    assert bought(ordinary=1.0, targeted=0.6) == {"ordinary"}  # aimed with probability 0.55
    assert bought(complementary=1.0, question=1.0) == {"question"}
    assert bought(question=1.0, question_2=1.5) == {"question-2"}


@pytest.mark.parametrize(
    "name", ["ordinary", "complementary", "complementary-3", "question", "question-3", "targeted"]
)
def test_labels_are_made_by_their_names(name: str) -> None:
    assert make_label(name, n_classes=5, price=2.0).name == name
    assert make_label(name, n_classes=5, price=2.0).price == 2.0


@pytest.mark.parametrize(
    "name",
    ["gold", "ordinary-2", "targeted-2", "questions", "question-", "question-0", "question-5", "x"],
)
def test_unknown_labels_are_refused(name: str) -> None:
    with pytest.raises(ArgumentError):
        make_label(name, n_classes=5, price=1.0)


@pytest.mark.parametrize(
    "options",
    [{"n_classes": 1}, {"n_classes": 4, "epsilon": 0.0}, {"n_classes": 4, "epsilon": 1.1}],
)
def test_targeted_labels_need_a_uniform_share(options: dict[str, float]) -> None:
    with pytest.raises(ArgumentError, match="epsilon must be in"):
        targeted(price=1.0, **options)  # type: ignore[arg-type]


def test_kinds_need_an_accuracy_where_there_is_no_pilot() -> None:
    common = {"cov": [[0.16]], "names": ["right"], "target": "right", "costs": {}, "budgets": 10}
    with pytest.raises(ArgumentError, match="accuracy must be given"):
        plan_budget(labels=[question(n_classes=4, price=1.0)], **common)  # type: ignore[arg-type]
    assert plan_budget(labels=[ordinary(price=1.0)], **common).buy == {"ordinary": 10}  # type: ignore[arg-type]
