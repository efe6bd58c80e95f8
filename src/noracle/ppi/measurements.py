"""What can be measured, what it tells and what it costs.

A measurement observes some of the variables on one item: labels, raters, or combinations of them
with noise. Prices of sets of variables have one form,

    cost(I) = per_item + Σ_{i in I} sums_i + max_{i in I} largest_i,

which holds additive prices, a fee per item, raters that run in parallel and the cascade of nested
reasoning budgets; other prices are given as a table or as a function.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from noracle.errors import ArgumentError, require

Array = NDArray[np.float64]
PriceFunction = Callable[[tuple[str, ...]], float | None]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SetPrices:
    """Prices of sets of variables in one budget: a fee per item, a sum and a maximum over the set."""

    per_item: float
    sums: tuple[float, ...]
    largest: tuple[float, ...]

    def of(self, chosen: Sequence[int]) -> float:
        """The price of one item on which the variables ``chosen`` are observed."""
        most = max((self.largest[i] for i in chosen), default=0.0)
        return self.per_item + sum(self.sums[i] for i in chosen) + most

    def among(self, chosen: Sequence[int]) -> SetPrices:
        """The same prices for some of the variables."""
        sums, largest = (tuple(row[i] for i in chosen) for row in (self.sums, self.largest))
        return SetPrices(per_item=self.per_item, sums=sums, largest=largest)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Additive:
    """Every variable has its price; ``per_item`` is paid once for each item that is touched.

    Examples
    --------
    >>> Additive(prices={"human": 5.0, "judge": 0.1}, per_item=0.5).set_prices(("human", "judge")).of([0, 1])
    5.6
    """

    prices: Mapping[str, float]
    per_item: float = 0.0

    def set_prices(self, names: Sequence[str]) -> SetPrices:
        """The same prices in the order of ``names``."""
        sums = _priced(self.prices, names)
        return SetPrices(per_item=self.per_item, sums=sums, largest=(0.0,) * len(sums))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Maximum:
    """Variables are observed in parallel and the slowest decides: the price of a set is its largest
    price.

    Examples
    --------
    >>> Maximum(prices={"human": 60.0, "judge": 2.0}).set_prices(("human", "judge")).of([0, 1])
    60.0
    """

    prices: Mapping[str, float]
    per_item: float = 0.0

    def set_prices(self, names: Sequence[str]) -> SetPrices:
        """The same prices in the order of ``names``."""
        largest, none = _priced(self.prices, names), (0.0,) * len(names)
        return SetPrices(per_item=self.per_item, sums=none, largest=largest)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Cascade:
    """One reasoner, read at several lengths: output · max(S) + input · Σ S over the lengths S
    (equation 8 of MultiPPI).

    Parameters
    ----------
    lengths
        How many words each rater of the cascade thinks.
    output, input
        Price per word written and per word read again.
    prices
        Further variables (labels, other raters) with a price of their own, added.

    Examples
    --------
    >>> cascade = Cascade(lengths={"short": 100, "long": 400}, output=0.01, input=0.001, prices={"human": 5.0})
    >>> round(cascade.set_prices(("human", "short", "long")).of([1, 2]), 6)
    4.5
    """

    lengths: Mapping[str, float]
    output: float
    input: float
    prices: Mapping[str, float] = dataclasses.field(default_factory=dict)
    per_item: float = 0.0

    def set_prices(self, names: Sequence[str]) -> SetPrices:
        """The same prices in the order of ``names``."""
        both = ", ".join(sorted(set(self.lengths) & set(self.prices)))
        rule = f"costs must price a variable once; got {both} in lengths and in prices."
        require(not both, rule)
        sums = {**{v: self.input * n for v, n in self.lengths.items()}, **self.prices}
        largest = {v: self.output * n for v, n in self.lengths.items()}
        largest |= dict.fromkeys(self.prices, 0.0)
        added, most = _priced(sums, names), _priced(largest, names)
        return SetPrices(per_item=self.per_item, sums=added, largest=most)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A price for each set of variables that may be bought; other sets are not for sale.

    Keys are names joined with ``+``, or tuples of names.

    Examples
    --------
    >>> Table(prices={"human+judge": 5.0, "judge": 0.1})(("judge", "human"))
    5.0
    """

    prices: Mapping[str | tuple[str, ...], float]

    def __call__(self, names: tuple[str, ...]) -> float | None:
        """The price of a set, None if it is not for sale."""
        known = {
            frozenset(k.split("+") if isinstance(k, str) else k): float(v)
            for k, v in self.prices.items()
        }
        return known.get(frozenset(names))


CostModel = Additive | Maximum | Cascade | Table | PriceFunction | Mapping[str, float]
"""What may be the price of one budget; a mapping of names to prices is :class:`Additive`."""


def check_names(what: str, names: Iterable[str], known: Sequence[str]) -> None:
    """Refuse names that are no variables."""
    strange = ", ".join(repr(name) for name in names if name not in known)
    there = f"Variables are {', '.join(known)}."
    require(not strange, f"{what} must name variables; got {strange}. {there}")


def _priced(prices: Mapping[str, float], names: Sequence[str]) -> tuple[float, ...]:
    """The prices in order; a variable without a price is infinite, which means: not for sale."""
    check_names("costs", prices, names)
    for name, price in prices.items():
        _check_price("costs", name, price)
    return tuple(float(prices.get(name, math.inf)) for name in names)


def price_model(model: CostModel) -> Additive | Maximum | Cascade | PriceFunction:
    """A mapping as additive prices; anything else as it is."""
    if isinstance(model, Mapping):
        return Additive(prices={str(k): float(v) for k, v in model.items()})
    if isinstance(model, (Additive, Maximum, Cascade)) or callable(model):
        return model
    raise ArgumentError(
        f"costs must be a mapping of names to prices, a cost model or a function; got {type(model).__name__}."
    )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """Something that can be done to one item.

    Attributes
    ----------
    name
        How the plan calls it, for example ``"human+judge"``.
    observes
        The variables it observes, by index; or, with ``matrix``, the variables that the matrix
        touches.
    cost
        What one such measurement takes from each budget.
    matrix
        H (r by k), where what is seen is H X + noise; None for the variables themselves.
    noise
        Covariance (r by r) of the noise that is added to what is seen; None for none.
    """

    name: str
    observes: tuple[int, ...]
    cost: tuple[float, ...]
    matrix: tuple[tuple[float, ...], ...] | None = None
    noise: tuple[tuple[float, ...], ...] | None = None

    def rows(self, k: int) -> Array:
        """H as an array (r, k)."""
        plain = self.matrix is None
        return np.eye(k)[list(self.observes)] if plain else np.array(self.matrix, dtype=np.float64)

    def seen(self, covariance: Array) -> Array:
        """The covariance of what is seen, H Σ Hᵀ + noise."""
        H = self.rows(len(covariance))
        inside = H @ covariance @ H.T
        return inside if self.noise is None else inside + np.asarray(self.noise, dtype=np.float64)

    def information(self, covariance: Array) -> Array:
        """What one measurement adds to the information matrix, G = Hᵀ (H Σ Hᵀ + noise)⁻¹ H.

        Examples
        --------
        >>> Measurement(name="x", observes=(0,), cost=(1.0,)).information(np.diag([0.25, 1.0])).tolist()
        [[4.0, 0.0], [0.0, 0.0]]
        """
        H = self.rows(len(covariance))
        G = H.T @ np.linalg.solve(self.seen(covariance), H)
        return np.asarray((G + G.T) / 2, dtype=np.float64)

    def weights(
        self, n: float, covariance: Array, names: Sequence[str], y: Array
    ) -> dict[str, float]:
        """λ = n (H Σ Hᵀ + noise)⁻¹ H y of what is seen in n measurements, y being M⁻¹a."""
        values = n * np.linalg.solve(self.seen(covariance), self.rows(len(covariance)) @ y)
        said = [names[i] for i in self.observes]
        if self.matrix is not None:
            said = [f"row {r}" for r in range(len(values))]
        return dict(zip(said, values.tolist(), strict=True))


def information_of(measurements: Sequence[Measurement], covariance: Array) -> Array:
    """All information matrices, shape (J, k, k); sets of one size are inverted together."""
    k = len(covariance)
    G = np.zeros((len(measurements), k, k))
    by_size: dict[int, list[int]] = {}
    for j, one in enumerate(measurements):
        if one.matrix is None:
            by_size.setdefault(len(one.observes), []).append(j)
        else:
            G[j] = one.information(covariance)
    for members in by_size.values():
        index = np.array([measurements[j].observes for j in members])
        blocks = covariance[index[:, :, None], index[:, None, :]]
        for place, j in enumerate(members):
            if measurements[j].noise is not None:
                blocks[place] += np.asarray(measurements[j].noise)
        inverse = np.linalg.inv(blocks)
        inverse = (inverse + np.swapaxes(inverse, 1, 2)) / 2
        G[np.array(members)[:, None, None], index[:, :, None], index[:, None, :]] = inverse
    return G


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LabelType:
    """A kind of label of the target variable, with its price.

    An ordinary label observes the target. A complementary label with J excluded classes observes it
    with the further variance (1 − A)((K − 1)/J − 1), and has the same covariance with every rater,
    if the excluded classes are drawn independently of raters and answers given the truth.

    Examples
    --------
    >>> LabelType(name="ruled out", price=0.2, n_classes=10, n_ruled_out=1).noise(0.75)
    2.0
    """

    name: str
    price: float
    n_classes: int = 0
    n_ruled_out: int = 0

    def noise(self, accuracy: float) -> float:
        """The variance that this kind of label adds to that of an ordinary one."""
        if not self.n_ruled_out:
            return 0.0
        return (1 - accuracy) * ((self.n_classes - 1) / self.n_ruled_out - 1)


def ordinary(*, price: float, name: str = "ordinary") -> LabelType:
    """An ordinary label of the target: the right class of the item.

    Examples
    --------
    >>> ordinary(price=1.0).noise(0.7)
    0.0
    """
    return LabelType(name=name, price=_check_price("price", name, price))


def complementary(
    *, n_classes: int, n_ruled_out: int = 1, price: float, name: str | None = None
) -> LabelType:
    """A complementary label: ``n_ruled_out`` distinct classes, drawn uniformly among the wrong
    ones, that the item does not have.

    The score ((K − 1)·W − (K − 1 − J))/J, W = 1 if the answer was not ruled out, has the mean of an
    ordinary label and the variance A(1 − A) + (1 − A)((K − 1)/J − 1).

    Examples
    --------
    >>> round(complementary(n_classes=4, price=0.25).noise(0.7), 9)
    0.6
    """
    rule = f"n_ruled_out must be in [1, n_classes); got {n_ruled_out} of {n_classes}."
    require(n_classes >= 2 and 1 <= n_ruled_out < n_classes, rule)
    called = name or ("complementary" if n_ruled_out == 1 else f"complementary-{n_ruled_out}")
    price = _check_price("price", called, price)
    return LabelType(name=called, price=price, n_classes=n_classes, n_ruled_out=n_ruled_out)


def _check_price(what: str, name: str, price: float) -> float:
    sound = price >= 0 and math.isfinite(price)
    require(sound, f"{what} must be finite and not negative; got {price} for {name!r}.")
    return float(price)


def subsets(k: int) -> Iterator[tuple[int, ...]]:
    """All non-empty sets of k variables, small ones first."""
    for size in range(1, k + 1):
        yield from itertools.combinations(range(k), size)
