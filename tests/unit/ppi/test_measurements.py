"""Prices of sets, information of measurements and kinds of label."""

from __future__ import annotations

import numpy as np
import pytest

from noracle.errors import ArgumentError
from noracle.ppi.measurements import (
    Additive,
    Cascade,
    Maximum,
    Measurement,
    Table,
    complementary,
    information_of,
    ordinary,
    price_model,
    subsets,
)

NAMES = ("human", "short", "long")


def test_additive_prices_add_and_pay_the_fee_once() -> None:
    prices = Additive(prices={"human": 5.0, "short": 1.0, "long": 2.0}, per_item=0.5).set_prices(
        NAMES
    )
    assert prices.of([0, 1, 2]) == pytest.approx(8.5)
    assert prices.of([1]) == pytest.approx(1.5)


def test_parallel_raters_cost_as_much_as_the_slowest() -> None:
    prices = Maximum(prices={"human": 60.0, "short": 2.0, "long": 8.0}).set_prices(NAMES)
    assert prices.of([1, 2]) == 8.0
    assert prices.of([0, 1, 2]) == 60.0


def test_cascade_is_equation_8() -> None:
    prices = Cascade(
        lengths={"short": 100, "long": 400}, output=0.01, input=0.001, prices={"human": 5.0}
    ).set_prices(NAMES)
    assert prices.of([1]) == pytest.approx(0.01 * 100 + 0.001 * 100)
    assert prices.of([1, 2]) == pytest.approx(0.01 * 400 + 0.001 * 500)
    assert prices.of([0, 1, 2]) == pytest.approx(5 + 0.01 * 400 + 0.001 * 500)


def test_a_table_sells_what_it_lists_in_any_order() -> None:
    table = Table(prices={"human+short": 5.0, ("long",): 1.0})
    assert table(("short", "human")) == 5.0
    assert table(("long",)) == 1.0
    assert table(("short",)) is None


def test_a_variable_without_a_price_is_not_for_sale() -> None:
    assert np.isinf(Additive(prices={"short": 1.0}).set_prices(NAMES).of([0]))


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Additive(prices={"other": 1.0}).set_prices(NAMES), "must name variables"),
        (lambda: Additive(prices={"human": -1.0}).set_prices(NAMES), "not negative"),
        (lambda: Additive(prices={"human": float("nan")}).set_prices(NAMES), "finite"),
        (
            lambda: Cascade(
                lengths={"short": 1}, output=1, input=1, prices={"short": 1.0}
            ).set_prices(NAMES),
            "once",
        ),
        (lambda: price_model(3.0), "cost model or a function"),  # type: ignore[arg-type]
        (lambda: complementary(n_classes=4, n_ruled_out=4, price=1.0), "n_ruled_out"),
        (lambda: ordinary(price=float("inf")), "finite"),
    ],
)
def test_bad_prices_are_refused(make: object, says: str) -> None:
    with pytest.raises(ArgumentError, match=says):
        make()  # type: ignore[operator]


def test_information_is_that_of_the_formula() -> None:
    rng = np.random.default_rng(0)
    A = rng.normal(size=(4, 9))
    S = A @ A.T
    plain = [Measurement(name="", observes=s, cost=(1.0,)) for s in subsets(4)]
    noisy = Measurement(name="", observes=(0, 2), cost=(1.0,), noise=((0.6, 0.0), (0.0, 0.0)))
    mixed = Measurement(
        name="", observes=(0, 1), cost=(1.0,), matrix=((1.0, -1.0, 0.0, 0.0),), noise=((0.1,),)
    )
    G = information_of([*plain, noisy, mixed], S)
    for one, found in zip(plain, G, strict=False):
        P = np.eye(4)[list(one.observes)]
        assert np.allclose(found, P.T @ np.linalg.inv(P @ S @ P.T) @ P)
        assert np.allclose(found, one.information(S))
    P = np.eye(4)[[0, 2]]
    assert np.allclose(G[-2], P.T @ np.linalg.inv(P @ S @ P.T + np.diag([0.6, 0.0])) @ P)
    H = np.array([[1.0, -1.0, 0.0, 0.0]])
    assert np.allclose(G[-1], H.T @ H / (H @ S @ H.T + 0.1))


@pytest.mark.parametrize(
    ("k", "j", "accuracy"), [(4, 1, 0.7), (10, 1, 0.78), (10, 3, 0.5), (5, 4, 0.9)]
)
def test_noise_of_a_complementary_label_is_that_of_its_score(
    k: int, j: int, accuracy: float
) -> None:
    """The score by its distribution: the answer is avoided surely if right, with probability 1 −
    J/(K − 1) if wrong.
    """
    avoided = accuracy + (1 - accuracy) * (1 - j / (k - 1))
    scores = np.array([((k - 1) - (k - 1 - j)) / j, -(k - 1 - j) / j])
    mean = avoided * scores[0] + (1 - avoided) * scores[1]
    variance = avoided * scores[0] ** 2 + (1 - avoided) * scores[1] ** 2 - mean**2
    assert mean == pytest.approx(accuracy)
    assert variance == pytest.approx(
        accuracy * (1 - accuracy)
        + complementary(n_classes=k, n_ruled_out=j, price=1.0).noise(accuracy)
    )


def test_ruling_out_all_other_classes_is_an_ordinary_label() -> None:
    assert complementary(n_classes=5, n_ruled_out=4, price=1.0).noise(0.6) == 0
    assert ordinary(price=1.0).noise(0.6) == 0


def test_collections_have_the_printed_sizes() -> None:
    assert len(list(subsets(6))) == 63
