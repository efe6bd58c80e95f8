"""What results rest on: every assumption with its plain words and what to do where it fails.

A result carries the name of an assumption, which is its identifier too: in JSON, on cards and in
the policy of the checks. The plain words of pages stand here and nowhere else.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

_AGREE = "No two annotators agree less often than they would if their errors were independent."
_MISSING = "Which scores are missing has nothing to do with what they would have been."
PLAIN: Mapping[str, str] = {
    "iid items": "The items are a representative sample of the work you care about.",
    "independent items": "The result on one item says nothing about another.",
    "right verdicts": "All verdicts are correct.",
    "uniform routing": "Each class was equally likely to be asked about, whatever the item or answer.",
    "answers made without the verdicts": "Systems did not see verdicts; questions were drawn without seeing answers.",
    "same label rate in all strata": "The same share of items was labelled in every stratum.",
    "number of questions fixed beforehand": "The number of questions about an item does not depend on what raters said about it.",
    "graded whatever the answer": "Which answers were graded has nothing to do with whether they are right.",
    "judge blind to the people": "The judge did not see what people said.",
    "labels drawn where the panel agrees": "Where the panel agrees, the labelled items were drawn at random.",
    "labels drawn at random at their time": "Which answers get a label has nothing to do with whether they are right, on any day.",
    "one fall": "Accuracy fell below the level once, and stayed below it.",
    "verdicts missing at random": "Systems are as accurate where raters were unsure as elsewhere.",
    "recorded propensities": "Each question was drawn with the probability recorded for it.",
    "questions aimed at this system": "The questions were aimed at the answers of this system, in the version that is judged here.",
    "known transition matrix": "Which class is ruled out depends only on the true class, with the given probabilities.",
    "known error rates": "Raters err at the stated rates.",
    "items beyond these": "The statement is about more items of the same kind, not only about these.",
    "one true label per item": "Every item has exactly one right answer.",
    "each item has one true label among the labels": "Every item has exactly one right answer, and it is one of the known classes.",
    "the same pool of annotators": "The statement is about the people who annotated here, not about other people.",
    "same number of annotations per item": "Every item has the same number of ratings by design, not by chance.",
    "who annotates an item does not depend on the item": "Raters did not choose which items they rated.",
    "the vote does not see the system": "The system's answers had no part in the ratings that it is compared with.",
    "aggregate fixed without these items": "The joint label of the annotators was not tuned on the items of the test.",
    "known answers and ruled-out labels are true": "The labels taken as known are correct.",
    "the trusted claims are true": "The facts given about some raters are true.",
    "every item has one order of its answers": "For every item there is one order of the answers for all judges; it may have ties.",
    "one ranking of the systems holds for all items": "There is one ranking of the systems, the same for all items and judges.",
    "the prevalences are in their ranges": "Each class is as frequent as stated.",
    "the integer solver is right": "An integer solver found no solution; no short proof can be checked without it.",
    "errors independent given the true label": "Raters err independently of each other.",
    "tails light enough for t": "The mean is not dominated by a few large values.",
    "missing completely at random": _MISSING,
    "rows in hand are missing completely at random": _MISSING,
    "known covariance": "Raters' scores vary together as they did in the pilot.",
    "guessed accuracy": "The plan starts from a guess of the accuracy; the interval that you will get does not.",
    "rates as in the pilot": "The plan assumes that new items are like those seen so far.",
    "fresh labels": "The labels were not used to choose or to train the system.",
    "nothing but outcomes left the labels": "The people who build the systems saw only pass, fail or undecided, never these labels.",
    "branches do not react to each other": "What was decided on one branch was not used on another before they were merged.",
    "labels not used to select": "The labels were not used to choose the system.",
    "one rate of wrong verdicts": "Wrong verdicts are equally frequent for all classes.",
    "labels fit the design": "The labels are consistent with how they were said to be collected.",
    "nothing about unsure verdicts": "Nothing is assumed about items where a rater was unsure.",
    "# ratings on every item by design": "Every item has this many ratings by design, not by chance.",
    "at least # labelled rows": "A rule of thumb: with fewer labelled items, do not trust the interval.",
    "independent-or-positively-correlated annotators: p_i·p_j ≤ P_ij": _AGREE,
    "exchangeable annotators with p_i·p_j ≤ P_ij (U_e)": _AGREE,
    "where the vote is wrong, the system is right at least as often as it repeats the vote (6)": (
        "Where people are wrong, the system does not mostly repeat their error."
    ),
}
"""What each assumption asks of the world, in one sentence; ``#`` in a name is any number."""


_DRAW = (
    "Look up how they were chosen: a recorded random draw settles it ('noracle route' makes one)."
)
_ASK_TWICE = (
    "Have a second person judge some of the same items, and count how often the two differ."
)
_BEFORE = "Compare dates: the answers must have been fixed before the first label was seen."
CHECKS: Mapping[str, str] = {
    "iid items": "Compare these items with the work that comes in: sources, topics, dates, difficulty.",
    "independent items": "Look for items that share a document, a user or a template; name them in a column cluster.",
    "right verdicts": _ASK_TWICE
    + " 'noracle check' says how many wrong verdicts the statement survives.",
    "uniform routing": _DRAW,
    "recorded propensities": _DRAW,
    "answers made without the verdicts": _BEFORE,
    "fresh labels": _BEFORE,
    "labels not used to select": _BEFORE,
    "same label rate in all strata": "Count labels and items of each stratum.",
    "number of questions fixed beforehand": "Ask who decided when to stop asking about an item, and when.",
    "graded whatever the answer": "Ask how the answers to grade were picked; the list should be older than the first look.",
    "judge blind to the people": "Look at what the judge was given: no label, comment or grade of a person.",
    "labels drawn where the panel agrees": _DRAW,
    "verdicts missing at random": "Get a verdict on some of the unsure items, and compare the accuracy there with the rest.",
    "questions aimed at this system": "Compare the answers that were asked about with those that are judged.",
    "known transition matrix": "Estimate it on items whose true class is known.",
    "known error rates": "Give the same people items whose answer is known.",
    "items beyond these": "Decide whether the next items come from the same place as these.",
    "one true label per item": "Read twenty items on which people disagree: is each side right?",
    "each item has one true label among the labels": "Read twenty items: does exactly one of the classes fit?",
    "the same pool of annotators": "Decide whether the people who matter are those who annotated here.",
    "same number of annotations per item": "Count the ratings of every item.",
    "who annotates an item does not depend on the item": "Ask whether people could skip or choose items.",
    "the vote does not see the system": "Ask whether the raters saw answers of the system.",
    "aggregate fixed without these items": "Ask on which items the joint label was tuned.",
    "known answers and ruled-out labels are true": _ASK_TWICE,
    "the trusted claims are true": "Give these raters items whose answer is known.",
    "the prevalences are in their ranges": "Label a random sample, and count the classes.",
    "errors independent given the true label": "Look at items whose answer is known: do raters err on the same ones?",
    "tails light enough for t": "Draw the scores; a few far from all others are a warning.",
    "missing completely at random": "Ask why scores are missing; compare rows with and without them.",
    "rows in hand are missing completely at random": "Ask why scores are missing; compare rows with and without them.",
    "known covariance": "Repeat the pilot on some of the new rows.",
    "rates as in the pilot": "Repeat the pilot on some of the new items.",
    "guessed accuracy": "Nothing to check: the interval that you get does not rest on it.",
    "nothing but outcomes left the labels": "Ask who can read the file of labels, and whether the ledger holds every decision.",
    "where the vote is wrong, the system is right at least as often as it repeats the vote (6)": (
        "Take items on which people are known to be wrong: does the system repeat their error? Was it trained on their labels?"
    ),
}
"""How a reader finds out whether an assumption is true, by identifier."""


class RegisteredAssumption(NamedTuple):
    """An assumption, in plain words where its name needs them, how to check it, and what to do if
    it fails.
    """

    identifier: str
    name: str
    plain: str
    remedies: tuple[str, ...]
    check: str = ""


def registered(name: str) -> RegisteredAssumption:
    """What is known of an assumption that a result names; its remedies are those of the checks
    that test it.
    """
    from noracle.accuracy.check import POLICY

    remedies = dict.fromkeys(rule.remedy for rule in POLICY.values() if name in rule.assumptions)
    identifier = _identifier(name)
    return RegisteredAssumption(
        identifier, name, PLAIN.get(identifier, ""), tuple(remedies), CHECKS.get(identifier, "")
    )


def _identifier(name: str) -> str:
    return name if name in PLAIN else re.sub(r"\b\d+\b", "#", name)


def meaning(name: str) -> str:
    """What an assumption asks of the world, in one sentence; empty for one that explains itself."""
    return PLAIN.get(_identifier(name), "")


def clause(name: str) -> str:
    """The meaning as a part of a sentence; the assumption itself where it explains itself."""
    sentence = meaning(name).removesuffix(".")
    return sentence[:1].lower() + sentence[1:] or name
