"""The verbs by question, and the program made of them.

A verb is imported when it is used: the list of all verbs, and their completion in a shell, need
only this table.
"""

from __future__ import annotations

import functools
import importlib
import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import typer

EVERYTHING, ACCURATE, PEOPLE, GRADERS = (
    "Everything",
    "How accurate?",
    "Better than people?",
    "Broken graders?",
)
NEXT, COLLECT, TRAIN, SEARCH = "What next?", "Collect", "Train", "Search"


class Verb(NamedTuple):
    """One line of ``noracle --help``. ``help`` is the first line of the verb's own help; a test
    holds them together.
    """

    name: str
    panel: str
    help: str
    group: bool = False


VERBS = (
    Verb("report", EVERYTHING, "Say everything that the evidence in a folder allows, on one page."),
    Verb(
        "watch",
        EVERYTHING,
        "Follow a folder while evidence comes in; every look holds, and an alarm is raised once it is provable.",
    ),
    Verb(
        "init",
        EVERYTHING,
        "Write a small example project that the report, the watch and every verb run on.",
    ),
    Verb(
        "demo",
        EVERYTHING,
        "Simulate three systems, five people and two autoraters, and report on them as on any folder.",
    ),
    Verb(
        "doctor",
        EVERYTHING,
        "Say what works on this machine, what is missing, and the line that installs it.",
    ),
    Verb(
        "simulate",
        EVERYTHING,
        "Draw a world and write its tables: what you would have, and the key that you would not have.",
    ),
    Verb(
        "estimate",
        ACCURATE,
        "Estimate the accuracy of each system, with an interval and what it rests on.",
    ),
    Verb(
        "compare",
        ACCURATE,
        "Compare systems on the same labels; all differences hold together at --confidence.",
    ),
    Verb(
        "race",
        ACCURATE,
        "Drop systems that are certainly not the best, label by label, valid however often one looks.",
    ),
    Verb(
        "check",
        ACCURATE,
        "Check how the labels were collected, all that applies; with --at-least or --at-most also sensitivity.",
    ),
    Verb(
        "mean",
        ACCURATE,
        "Estimate the mean of the gold rater, or any combination of means, from rows that observe different raters.",
    ),
    Verb(
        "certify",
        PEOPLE,
        "Certify that a system is more accurate than the average annotation, or say why not.",
    ),
    Verb(
        "ceiling",
        PEOPLE,
        "Bound the accuracy of the average annotator from above, without an answer key.",
    ),
    Verb("agreement", PEOPLE, "Estimate how much the raters agree, with an interval."),
    Verb(
        "alarm",
        GRADERS,
        "Prove from the answers alone that not all systems can be as good as claimed.",
    ),
    Verb(
        "ranges",
        GRADERS,
        "Say what remains possible for each accuracy, for every answer key that the evidence and the trusted claims allow.",
    ),
    Verb(
        "conflict",
        GRADERS,
        "Find a smallest set of systems that cannot all be as good as claimed, with the proof for this set alone.",
    ),
    Verb(
        "verify",
        GRADERS,
        "Check saved proofs, plans and certificates again, without the code that found them; or everything in an export of a project.",
    ),
    Verb("plan", NEXT, "Plan labels for a wanted half-width, a budget, a match or a comparison."),
    Verb(
        "route",
        NEXT,
        "Draw the questions to ask, in random order, and record with which probability each was asked.",
    ),
    Verb(
        "collect",
        COLLECT,
        "Collect labels: pre-committed routes, honest intervals while answers come in, an export that proves itself.",
        True,
    ),
    Verb(
        "learn",
        TRAIN,
        "Train a classifier on what items are not, without an answer key (extra learn).",
        True,
    ),
    Verb(
        "ask",
        SEARCH,
        "Put items to a model and write the answers table, or have it grade the answers of others.",
    ),
    Verb(
        "search",
        SEARCH,
        "Search a workflow that answers better, with labels that may only say what is wrong.",
    ),
    Verb(
        "workflow", SEARCH, "Workflows as data: what they do, and the most calls they take.", True
    ),
)
NAMES = frozenset(v.name for v in VERBS)
_HOME = {name: f"noracle.cli.{name}" for name in NAMES}

_EXAMPLE = """Example:

noracle estimate --answers answers.csv --judgements judgements.csv --n-classes 10

noracle report FOLDER says everything that a folder of evidence allows; noracle demo shows it on simulated labels."""


@functools.cache
def program(verb: str | None = None) -> typer.Typer:
    """The command line with this verb imported and the others only listed; with every verb where
    none is named.
    """
    app = typer.Typer(
        name="noracle",
        help="How good is an AI system when there is no answer key?",
        epilog=_EXAMPLE,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    for v in VERBS:
        if verb is not None and v.name != verb:
            app.command(v.name, help=v.help, rich_help_panel=v.panel)(_listed)
            continue
        module = importlib.import_module(_HOME[v.name])
        if v.group:
            app.add_typer(module.app, name=v.name, rich_help_panel=v.panel)
        else:
            app.command(v.name, epilog=module.EXAMPLE, rich_help_panel=v.panel)(module.command)
    return app


def _listed() -> None:
    """A verb that is shown and not called in this run."""


def wanted(arguments: Sequence[str], environment: Mapping[str, str] = os.environ) -> str:
    """The verb of a command line, or of the line that a shell completes; empty where there is none
    yet.

    Flags before the verb take no value, so it is the first word that is no flag.

    Examples
    --------
    >>> wanted(["-v", "plan", "--budget", "3"], {}), wanted(["--help"], {})
    ('plan', '')
    >>> wanted([], {"_NORACLE_COMPLETE": "complete_bash", "COMP_WORDS": "noracle estimate --int"})
    'estimate'
    """
    words = list(arguments)
    if environment.get("_NORACLE_COMPLETE"):
        words = (
            environment.get("COMP_WORDS") or environment.get("_TYPER_COMPLETE_ARGS", "")
        ).split()[1:]
    first = next((word for word in words if not word.startswith("-")), "")
    return first if first in NAMES else ""
