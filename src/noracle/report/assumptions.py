"""What results rest on: every assumption with its plain words and what to do where it fails.

A result carries the name of an assumption, which is its identifier too: in JSON, on cards and in
the policy of the checks. The plain words of pages stand here and nowhere else.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

_AGREE = "No two annotators agree less often than they would if each erred for themselves."
_MISSING = "Which scores are missing has nothing to do with what they would have been."
PLAIN: Mapping[str, str] = {
    "iid items": "The items are a fair sample of the work that you care about.",
    "independent items": "What happens on one item says nothing about another.",
    "right verdicts": "Nobody gave a wrong verdict.",
    "uniform routing": "Each class was asked about with the same chance, whatever the item and its answers.",
    "answers made without the verdicts": "Answers were made without the verdicts, and questions without the answers.",
    "same label rate in all strata": "In every part of the items the same share of them was labelled.",
    "number of questions fixed beforehand": "How often an item was asked about does not depend on what was said of it.",
    "graded whatever the answer": "Which answers were graded has nothing to do with whether they are right.",
    "judge blind to the people": "The judge did not see what people said.",
    "labels drawn where the panel agrees": "Where the panel agrees, the labelled items were drawn at random.",
    "labels drawn at random at their time": "Which answers get a label has nothing to do with whether they are right, on any day.",
    "one fall": "Accuracy fell below the level once, and stayed below it.",
    "verdicts missing at random": "Where nobody was sure, the answers are as good as elsewhere.",
    "recorded propensities": "Each question was asked with the chance that was written down for it.",
    "questions aimed at this system": "The questions were aimed at the answers of this system, in the version that is judged here.",
    "known transition matrix": "Which class is ruled out depends on the true class alone, with the chances that were given.",
    "known error rates": "Whoever said yes or no errs as often as was stated.",
    "items beyond these": "The statement is about more items of the same kind, not only about these.",
    "one true label per item": "Every item has exactly one right answer.",
    "each item has one true label among the labels": "Every item has exactly one right answer, and it is one of the known classes.",
    "the same pool of annotators": "The statement is about the people who annotated here, not about other people.",
    "same number of annotations per item": "Every item got equally many ratings by plan, not by chance.",
    "who annotates an item does not depend on the item": "Nobody picked the items that they rated.",
    "the vote does not see the system": "The system's answers had no part in the ratings that it is held against.",
    "aggregate fixed without these items": "The joint label of the annotators was not tuned on the items of the test.",
    "known answers and ruled-out labels are true": "The labels that were taken as known are right.",
    "the trusted claims are true": "What was given as certain about some raters is true.",
    "every item has one order of its answers": "For every item there is one order of the answers for all judges; it may have ties.",
    "one ranking of the systems holds for all items": "There is one ranking of the systems, the same for all items and judges.",
    "the prevalences are in their ranges": "Each class is as frequent as was stated.",
    "the integer solver is right": "A computer program found no way; there is no short proof that can be checked without it.",
    "errors independent given the true label": "Raters err each for themselves; nothing makes them err together.",
    "tails light enough for t": "No few large values carry the whole mean.",
    "missing completely at random": _MISSING,
    "rows in hand are missing completely at random": _MISSING,
    "known covariance": "The raters go on to vary together as they did in the pilot.",
    "guessed accuracy": "The plan starts from a guess of the accuracy; the interval that you will get does not.",
    "rates as in the pilot": "The plan supposes that new items are like those seen so far.",
    "fresh labels": "The labels were not used to choose or to train the system.",
    "nothing but outcomes left the labels": "Whoever makes the systems saw of these labels only pass, fail and undecided.",
    "branches do not react to each other": "What was decided on one branch was not used on another before they were merged.",
    "labels not used to select": "The labels were not used to choose the system.",
    "one rate of wrong verdicts": "Wrong verdicts are equally frequent for all classes.",
    "labels fit the design": "The labels can have come about in the way that was stated.",
    "nothing about unsure verdicts": "Nothing is supposed about the items where somebody was not sure.",
    "# ratings on every item by design": "Every item got so many ratings by plan, not by chance.",
    "at least # labelled rows": "A rule of thumb: with fewer labelled items the interval is not to be trusted.",
    "independent-or-positively-correlated annotators: p_i·p_j ≤ P_ij": _AGREE,
    "exchangeable annotators with p_i·p_j ≤ P_ij (U_e)": _AGREE,
    "where the vote is wrong, the system is right at least as often as it repeats the vote (6)": (
        "Where people are wrong, the system does not mostly repeat their error."
    ),
}
"""What each assumption asks of the world, in one sentence; ``#`` in a name is any number."""


class RegisteredAssumption(NamedTuple):
    """An assumption, in plain words where its name needs them, and what to do if it fails."""

    identifier: str
    name: str
    plain: str
    remedies: tuple[str, ...]


def registered(name: str) -> RegisteredAssumption:
    """What is known of an assumption that a result names; its remedies are those of the checks
    that test it.
    """
    from noracle.accuracy.check import POLICY

    remedies = dict.fromkeys(rule.remedy for rule in POLICY.values() if name in rule.assumptions)
    identifier = _identifier(name)
    return RegisteredAssumption(identifier, name, PLAIN.get(identifier, ""), tuple(remedies))


def _identifier(name: str) -> str:
    return name if name in PLAIN else re.sub(r"\b\d+\b", "#", name)


def meaning(name: str) -> str:
    """What an assumption asks of the world, in one sentence; empty for one that explains itself."""
    return PLAIN.get(_identifier(name), "")


def clause(name: str) -> str:
    """The meaning as a part of a sentence; the assumption itself where it explains itself."""
    sentence = meaning(name).removesuffix(".")
    return sentence[:1].lower() + sentence[1:] or name
