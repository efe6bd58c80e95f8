"""Kinds of label that are asked for without knowing the class: questions about drawn classes, and
about the answer itself.

Whatever is asked, the likelihood of what is said is linear in the accuracy A. So ψ = A₀ +
s(A₀)/I(A₀), with the score s and the information I of one label at a guess A₀, has the mean A for
every guess, and E[ψ | right or wrong] is 1 or 0. A kind of label therefore observes the target with
the further variance 1/I - A(1 - A), and has the covariance of an ordinary label with every rater,
if what is asked depends on nothing but the answer.
"""

from __future__ import annotations

import dataclasses

from noracle.errors import ArgumentError
from noracle.ppi.measurements import Label, complementary, ordinary


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Question(Label):
    """``n_asked`` distinct classes, drawn uniformly among all: yes makes an ordinary label, no to
    all a complementary one.
    """

    n_asked: int = 1

    def noise(self, accuracy: float) -> float:
        """The variance that this kind of label adds to that of an ordinary one."""
        more = (
            self.n_classes - 1
        ) / self.n_asked - 1  # a complementary label has the variance (1 - A)(A + more)
        if more <= 0 or not 0 < accuracy < 1:
            return 0.0
        told = self.n_asked / self.n_classes
        return (
            accuracy
            * (1 - accuracy)
            * (1 - told)
            * more
            / (told * (accuracy + more) + (1 - told) * accuracy)
        )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Targeted(Label):
    """A question about the answer itself with probability 1 - ε + ε/K, else about another class,
    which is not counted on.
    """

    epsilon: float = 0.05

    def noise(self, accuracy: float) -> float:
        """The variance that this kind of label adds to that of an ordinary one."""
        return accuracy * (1 - accuracy) * (1 / aimed(self.n_classes, self.epsilon) - 1)


def aimed(n_classes: int, epsilon: float) -> float:
    """The probability that a targeted question is about the answer.

    Examples
    --------
    >>> round(aimed(10, 0.05), 6)
    0.955
    """
    return 1 - epsilon + epsilon / n_classes


def question(
    *, n_classes: int, n_asked: int = 1, price: float, name: str | None = None
) -> Question:
    """A question to somebody who can say yes or no: ``n_asked`` distinct classes, drawn uniformly.

    With J classes asked, the right one is among them with probability J/K, whatever the answer.
    Then the label is an ordinary one; else J classes are ruled out. The information is J/K of the
    one and 1 - J/K of the other: I = (J/K)/(A(1 - A)) + (1 - J/K)/((1 - A)(A + (K - 1)/J - 1)).

    A *complementary* label as in :func:`~noracle.ppi.measurements.complementary` rules out classes
    in any case. Where nobody knows the class beforehand that cannot be had, and a question is what
    is bought.

    Examples
    --------
    >>> from noracle.ppi import complementary
    >>> asked, ruled_out = question(n_classes=4, price=0.25), complementary(n_classes=4, price=0.25)
    >>> round(0.21 + asked.noise(0.7), 4), round(0.21 + ruled_out.noise(0.7), 4)
    (0.4725, 0.81)
    """
    if not n_classes >= 2 or not 1 <= n_asked < n_classes:
        raise ArgumentError(
            f"n_asked must be in [1, n_classes) with n_classes at least 2; got {n_asked} and {n_classes}."
        )
    called = name or ("question" if n_asked == 1 else f"question-{n_asked}")
    return Question(
        name=called,
        price=ordinary(price=price, name=called).price,
        n_classes=n_classes,
        n_asked=n_asked,
    )


def targeted(
    *, n_classes: int, epsilon: float = 0.05, price: float, name: str = "targeted"
) -> Targeted:
    """A question about the class that the system answered, with a uniform share ε; see
    :func:`~noracle.accuracy.route.route_items`.

    A verdict on the answer is an ordinary label. It comes with probability 1 - ε + ε/K; the other
    questions are not counted on, so that the variance is A(1 - A)/(1 - ε + ε/K).

    Examples
    --------
    >>> round(targeted(n_classes=10, epsilon=0.5, price=1.0).noise(0.5), 4)
    0.2045
    """
    if not n_classes >= 2 or not 0 < epsilon <= 1:
        raise ArgumentError(
            f"epsilon must be in (0, 1] and n_classes at least 2; got {epsilon} and {n_classes}."
        )
    return Targeted(
        name=name,
        price=ordinary(price=price, name=name).price,
        n_classes=n_classes,
        epsilon=epsilon,
    )


def make_label(name: str, *, n_classes: int | None, price: float, epsilon: float = 0.05) -> Label:
    """The kind of label of this name: ordinary, complementary, question or targeted;
    complementary-J and question-J for J classes.

    Examples
    --------
    >>> make_label("complementary-2", n_classes=5, price=0.5).n_ruled_out
    2
    """
    kind, mark, several = name.partition("-")
    if name == "ordinary":
        return ordinary(price=price)
    sound = kind in ("complementary", "question") and several.isdecimal() == bool(mark)
    if not sound and name != "targeted":
        raise ArgumentError(
            f"labels must be ordinary, complementary, complementary-J, question, question-J or targeted; got {name!r}."
        )
    if n_classes is None:
        raise ArgumentError(f"n_classes must be given with the label {name!r}; got none.")
    if kind == "complementary":
        return complementary(
            n_classes=n_classes, n_ruled_out=int(several or 1), price=price, name=name
        )
    if kind == "question":
        return question(n_classes=n_classes, n_asked=int(several or 1), price=price, name=name)
    return targeted(n_classes=n_classes, epsilon=epsilon, price=price)
