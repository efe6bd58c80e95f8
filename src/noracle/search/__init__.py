"""Answers from models, workflows as data, and workflows found with weak signals (extra ``search``).

Start with :func:`ask_items`, :func:`load_workflow` and :func:`search_workflows`. Names are loaded
when they are first used.

model, backends/          the records of a call; a server, Inspect's models, a script, a recording
caller, budget            no call is paid twice, none goes past a cap
task, presets/            items with options, out of files; shuffled options; what a reply answers
ask                       a model answers items, or grades the answers of others
workflow, workflows/      workflows as typed data, with a bound on calls; the baselines as files
interpreter, drawing      runs a workflow on an item; draws it
vault, referee            labels that nobody sees, and what they say of candidates
fitness, gate             scores of candidates; when a candidate is accepted
strategies/, candidates   what to try next: adas, aflow, mutate, halving
journal, archive, engine  runs that go on after a kill; the search and what it found
report                    the card, the tables and the page of a search
pool                      the same choice among systems that exist already, without any model
simulated, inspect        models with a known key; scorer, metric and solver for Inspect
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from noracle.search.archive import Found
    from noracle.search.ask import (
        Asked,
        answers_table,
        ask_items,
        judge_claims,
        ratings_table,
        read_claims,
        scores_table,
    )
    from noracle.search.backends import open_model
    from noracle.search.budget import Budget, Ledger, Prices, Projection
    from noracle.search.caller import Cache, Caller, record
    from noracle.search.candidates import Entry, Outcome, Proposal, Scored, Strategy, standardised
    from noracle.search.drawing import draw_workflow, workflow_svg
    from noracle.search.engine import search_workflows
    from noracle.search.fitness import (
        ItemLabels,
        ItemScores,
        PairedScores,
        estimate_fitness,
        paired,
        score_outcomes,
    )
    from noracle.search.gate import Decision, Gate
    from noracle.search.interpreter import run_workflow
    from noracle.search.model import (
        BudgetReached,
        Calls,
        Completion,
        Message,
        Model,
        ModelError,
        Request,
        Usage,
    )
    from noracle.search.pool import Picked, Pool, race_pool
    from noracle.search.simulated import SimulatedModel, simulated_world
    from noracle.search.strategies import make_strategy
    from noracle.search.task import Question, Task, TaskItem, parse_answer, pose, read_task
    from noracle.search.vault import Vault
    from noracle.search.workflow import (
        Workflow,
        WorkflowError,
        load_workflow,
        parse_workflow,
        parse_workflow_text,
    )

__all__ = [
    "Asked",
    "Budget",
    "BudgetReached",
    "Cache",
    "Caller",
    "Calls",
    "Completion",
    "Decision",
    "Entry",
    "Found",
    "Gate",
    "ItemLabels",
    "ItemScores",
    "Ledger",
    "Message",
    "Model",
    "ModelError",
    "Outcome",
    "PairedScores",
    "Picked",
    "Pool",
    "Prices",
    "Projection",
    "Proposal",
    "Question",
    "Request",
    "Scored",
    "SimulatedModel",
    "Strategy",
    "Task",
    "TaskItem",
    "Usage",
    "Vault",
    "Workflow",
    "WorkflowError",
    "answers_table",
    "ask_items",
    "draw_workflow",
    "estimate_fitness",
    "judge_claims",
    "load_workflow",
    "make_strategy",
    "open_model",
    "paired",
    "parse_answer",
    "parse_workflow",
    "parse_workflow_text",
    "pose",
    "race_pool",
    "ratings_table",
    "read_claims",
    "read_task",
    "record",
    "run_workflow",
    "score_outcomes",
    "scores_table",
    "search_workflows",
    "simulated_world",
    "standardised",
    "workflow_svg",
]

_MODULES = {
    "ask": (
        "Asked",
        "answers_table",
        "ask_items",
        "judge_claims",
        "ratings_table",
        "read_claims",
        "scores_table",
    ),
    "backends": ("open_model",),
    "budget": ("Budget", "Ledger", "Prices", "Projection"),
    "caller": ("Cache", "Caller", "record"),
    "candidates": ("Entry", "Outcome", "Proposal", "Scored", "Strategy", "standardised"),
    "drawing": ("draw_workflow", "workflow_svg"),
    "engine": ("search_workflows",),
    "fitness": (
        "ItemLabels",
        "ItemScores",
        "PairedScores",
        "estimate_fitness",
        "paired",
        "score_outcomes",
    ),
    "archive": ("Found",),
    "gate": ("Decision", "Gate"),
    "interpreter": ("run_workflow",),
    "model": (
        "BudgetReached",
        "Calls",
        "Completion",
        "Message",
        "Model",
        "ModelError",
        "Request",
        "Usage",
    ),
    "pool": ("Picked", "Pool", "race_pool"),
    "simulated": ("SimulatedModel", "simulated_world"),
    "strategies": ("make_strategy",),
    "task": ("Question", "Task", "TaskItem", "parse_answer", "pose", "read_task"),
    "vault": ("Vault",),
    "workflow": (
        "Workflow",
        "WorkflowError",
        "load_workflow",
        "parse_workflow",
        "parse_workflow_text",
    ),
}
_HOME = {name: f"noracle.search.{module}" for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'noracle.search' has no attribute {name!r}")
    globals()[name] = getattr(importlib.import_module(_HOME[name]), name)
    return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
