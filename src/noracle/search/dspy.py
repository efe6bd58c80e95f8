"""Weak labels for programs of DSPy: examples, a metric that no held-out label reaches, and the gate
(extra ``dspy``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from noracle.errors import MissingExtra, require
from noracle.search.candidates import Outcome
from noracle.search.fitness import ItemLabels, score_outcomes
from noracle.search.gate import SHARES
from noracle.search.referee import Referee
from noracle.search.task import Task, parse_answer, pose
from noracle.search.vault import Part, Vault

if TYPE_CHECKING:
    from collections.abc import Sequence

    from noracle.results import Comparison, Estimate

try:
    import dspy
except ImportError as error:
    raise MissingExtra("noracle.search.dspy", "dspy", "dspy") from error


class WeakLabels:
    """Items with weak labels, for programs that take a ``question`` and give an ``answer``.

    :meth:`metric` goes to ``dspy.Evaluate`` and to optimisers. It scores validation items alone:
    confirm and final items are refused, so that whatever an optimiser does, :meth:`challenge` and
    :meth:`final` judge its program by labels that it never met.

    Parameters
    ----------
    task, judgements
        Items, and labels of some of them; see :meth:`noracle.search.Vault.open`.
    seed, shares
        The split of the labelled items, and the order in which options are shown.
    confidence
        Of the challenges together, and of the final estimate and comparison.

    Examples
    --------
    >>> from noracle.search.task import TaskItem
    >>> task = Task(name="t", items=tuple(TaskItem(id=i, text="Which is even?", options=("one", "two")) for i in range(8)))
    >>> labels = WeakLabels(task, {"item": list(range(8)), "class": [0] * 8, "verdict": ["no"] * 8})
    >>> example = labels.examples()[0]
    >>> float(labels.metric(example, dspy.Prediction(answer="I do not know.")))
    0.0
    """

    def __init__(
        self,
        task: Task,
        judgements: object,
        *,
        seed: int = 0,
        shares: Sequence[float] = SHARES,
        confidence: float = 0.95,
    ) -> None:
        self._vault = Vault.open(judgements, task.items, seed=seed, shares=shares)
        self._referee = Referee(self._vault, confidence=confidence)
        self._known = ItemLabels.from_evidence(self._vault.evidence("validation"))
        posed = (pose(i, instruction=task.instruction, shuffle=seed) for i in task.items)
        self._questions = {question.item: question for question in posed}

    def examples(self, part: Part = "validation") -> list[dspy.Example]:
        """The items of a part: ``question`` with its options in letters, and ``item``; no label."""
        posed = [self._questions[item] for item in self._vault.items(part)]
        made = (dspy.Example(item=q.item, question=q.prompt()) for q in posed)
        return [example.with_inputs("question") for example in made]

    def metric(
        self,
        example: dspy.Example,
        prediction: dspy.Prediction,
        trace: object = None,
        pred_name: str | None = None,
        pred_trace: object = None,  # noqa: ARG002 (a protocol)
    ) -> Any:
        """The unbiased score of correctness; its mean over items is the accuracy.

        1 for a class that is right or not excluded, 0 or less for one that is excluded (1 - (K -
        1)/m where m of K classes were ruled out), 0 where there is no answer. While demonstrations
        are gathered (``trace``): whether the answer was excluded. GEPA (``pred_name``) also gets
        the reason as text, as a designer of ``noracle search`` does.
        """
        known = example.item in self._known.of
        rule = "example must be of the validation part"
        require(known, f"{rule}; got item {example.item!r}, whose label decides at the end.")
        outcome = self._outcome(example, prediction)
        score = score_outcomes([outcome], self._known).mean
        if pred_name is None:
            return score if trace is None else score > 0
        said = self._vault.feedback([outcome])
        why = "No expert excluded this answer."
        if said.unanswered:
            why = "No option could be read from the answer. Give one letter."
        elif said.excluded:
            why = "An expert excluded this answer."
        return dspy.Prediction(score=score, feedback=why)

    def challenge(self, new: dspy.Module, old: dspy.Module) -> dict[str, Any]:
        """Whether confirm labels say that a program is better than another; see
        :class:`noracle.search.Gate`. Challenge as often as you like: the error rate covers all.
        """
        return self._referee.challenge(self._answers(new, "confirm"), self._answers(old, "confirm"))

    def final(
        self, winner: dspy.Module, baseline: dspy.Module
    ) -> tuple[Estimate, Comparison | None]:
        """The accuracy of the winner and its difference to a baseline, on final labels, once."""
        answers = [self._answers(program, "final") for program in (winner, baseline)]
        return self._referee.final(("winner", "baseline"), answers)

    def _answers(self, program: dspy.Module, part: Part) -> list[Outcome]:
        """All answers, or the error of the first call that failed: it is no answer."""
        about: Any = {"display_progress": False, "max_errors": 1, "provide_traceback": False}
        run = dspy.Evaluate(devset=self.examples(part), metric=lambda *_: 0.0, **about)
        return [self._outcome(example, said) for example, said, _ in run(program).results]

    def _outcome(self, example: dspy.Example, prediction: Any) -> Outcome:
        text = str(prediction.get("answer") or "")
        answer, state = parse_answer(text, self._questions[example.item])
        return Outcome(item=example.item, answer=answer, state=state)
