"""What every analysis is given, and what it gives back."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence

from noracle.accuracy.policy import label_checks
from noracle.oversight.loading import Loaded
from noracle.oversight.model import Step
from noracle.results import Check, Estimate, Result


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Results and the command that re-makes them; or, without results, why there are none."""

    results: tuple[Result, ...] = ()
    command: str = ""
    reason: str = ""


class Asking:
    """The evidence, the confidence of one statement, the seed, and the steps that were taken
    already.

    Attributes
    ----------
    loaded
        The evidence and its counts.
    level
        The confidence of each statement: 1 - (1 - confidence of the report)/k for k statements.
    seed
        Makes everything random reproducible.
    done, heard
        The steps so far, by name, and what was warned about.
    """

    def __init__(self, loaded: Loaded, *, level: float, seed: int) -> None:
        self.loaded = loaded
        self.level = level
        self.seed = seed
        self.done: dict[str, Step] = {}
        self.heard: list[str] = []

    @property
    def level_words(self) -> list[str]:
        """The confidence as options of the command line, to the last digit."""
        return ["--confidence", repr(self.level)]

    @property
    def seed_words(self) -> list[str]:
        """The seed as options of the command line."""
        return ["--seed", str(self.seed)]

    @property
    def protocol_words(self) -> list[str]:
        """The protocol as options of the command line, where it was set."""
        protocol = self.loaded.settings.protocol
        return [] if protocol is None else ["--protocol", protocol]

    @property
    def repeat_words(self) -> list[str]:
        """How repeats count as options of the command line, where it was set."""
        repeats = self.loaded.settings.repeats
        return [] if repeats == "mean" else ["--repeats", repeats]

    @functools.cached_property
    def label_checks(self) -> tuple[Check, ...]:
        """The checks of the labels that apply, as the policy of :mod:`noracle.accuracy.policy`
        lists them.
        """
        loaded = self.loaded
        about = loaded.evidence if loaded.evidence is not None else loaded.accuracy
        if about is None:
            return ()
        return label_checks(
            about,
            counts=loaded.accuracy,
            judgements=loaded.asked,
            protocol=loaded.protocol,
            seed=self.seed,
        )

    def accuracies(self) -> Mapping[str, Estimate]:
        """The accuracy of each system, where that step was taken."""
        step = self.done.get("accuracy")
        return (
            {} if step is None else {r.subject: r for r in step.results if isinstance(r, Estimate)}
        )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Analysis:
    """One question that evidence may answer.

    ``needs`` says what is missing, in one sentence with the way out; an empty text means that it
    can be asked. ``statements`` is how many statements with a probability it will make, so that the
    error rate can be shared before anything is looked at.
    """

    name: str
    question: str
    needs: Callable[[Loaded], str]
    run: Callable[[Asking], Outcome]
    statements: Callable[[Loaded], int] = lambda _: 0


def named(names: Sequence[str], most: int = 5) -> str:
    """Names for a sentence, the rest counted."""
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest} more" if rest > 0 else "")
