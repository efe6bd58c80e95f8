"""Answers from models, workflows as data, and workflows found with weak signals (extra ``search``).

Start with :func:`ask_items`, :func:`load_workflow` and :func:`search_workflows`. Names are loaded
when they are first used.

model, backends/          the records of a call; servers, Inspect's models, a script, a recording
caller, budget            no call is paid twice, none goes past a cap
task, presets/            items with options, out of files; shuffled options; what a reply answers
ask                       a model answers items, or grades the answers of others
workflow, workflows/      workflows as typed data, with a bound on calls; the baselines as files
interpreter, drawing      runs a workflow on an item; draws it
vault, referee            labels that nobody sees, and what they say of candidates
fitness, gate             scores of candidates; when a candidate is accepted
strategies/, candidates   what to try next: adas, aflow, mutate, surrogate, halving
journal, archive, engine  runs that go on after a kill; the search and what it found
report                    the card, the tables and the page of a search
pool                      questions about answers that are there: labels that many candidates
                          share, and the best of systems that exist already
inspect, dspy             scorer, metric and solver for Inspect; metric and gate for DSPy
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from noracle._lazy import lazy

if TYPE_CHECKING:
    from noracle.search.archive import Found as Found
    from noracle.search.ask import Asked as Asked
    from noracle.search.ask import answers_table as answers_table
    from noracle.search.ask import ask_items as ask_items
    from noracle.search.ask import judge_claims as judge_claims
    from noracle.search.ask import ratings_table as ratings_table
    from noracle.search.ask import read_claims as read_claims
    from noracle.search.ask import scores_table as scores_table
    from noracle.search.backends import open_model as open_model
    from noracle.search.budget import Budget as Budget
    from noracle.search.budget import CallPrices as CallPrices
    from noracle.search.budget import Ledger as Ledger
    from noracle.search.budget import Projection as Projection
    from noracle.search.caller import Cache as Cache
    from noracle.search.caller import Caller as Caller
    from noracle.search.caller import record as record
    from noracle.search.candidates import Entry as Entry
    from noracle.search.candidates import Outcome as Outcome
    from noracle.search.candidates import Proposal as Proposal
    from noracle.search.candidates import Scored as Scored
    from noracle.search.candidates import Strategy as Strategy
    from noracle.search.candidates import standardised as standardised
    from noracle.search.drawing import draw_workflow as draw_workflow
    from noracle.search.drawing import workflow_svg as workflow_svg
    from noracle.search.engine import search_workflows as search_workflows
    from noracle.search.fitness import ItemLabels as ItemLabels
    from noracle.search.fitness import ItemScores as ItemScores
    from noracle.search.fitness import PairedScores as PairedScores
    from noracle.search.fitness import estimate_fitness as estimate_fitness
    from noracle.search.fitness import paired as paired
    from noracle.search.fitness import score_outcomes as score_outcomes
    from noracle.search.gate import Decision as Decision
    from noracle.search.gate import Gate as Gate
    from noracle.search.interpreter import run_workflow as run_workflow
    from noracle.search.model import BudgetReached as BudgetReached
    from noracle.search.model import Calls as Calls
    from noracle.search.model import Completion as Completion
    from noracle.search.model import Message as Message
    from noracle.search.model import Model as Model
    from noracle.search.model import ModelError as ModelError
    from noracle.search.model import Request as Request
    from noracle.search.model import Usage as Usage
    from noracle.search.pool import AimedLabels as AimedLabels
    from noracle.search.pool import Picked as Picked
    from noracle.search.pool import Pool as Pool
    from noracle.search.pool import race_pool as race_pool
    from noracle.search.strategies import make_strategy as make_strategy
    from noracle.search.task import PosedQuestion as PosedQuestion
    from noracle.search.task import Task as Task
    from noracle.search.task import TaskItem as TaskItem
    from noracle.search.task import parse_answer as parse_answer
    from noracle.search.task import pose as pose
    from noracle.search.task import read_task as read_task
    from noracle.search.vault import Vault as Vault
    from noracle.search.workflow import Workflow as Workflow
    from noracle.search.workflow import WorkflowError as WorkflowError
    from noracle.search.workflow import load_workflow as load_workflow
    from noracle.search.workflow import parse_workflow as parse_workflow
    from noracle.search.workflow import parse_workflow_text as parse_workflow_text

__getattr__, __dir__, __all__ = lazy(
    __name__,
    {
        ".archive": "Found",
        ".ask": "Asked answers_table ask_items judge_claims ratings_table read_claims scores_table",
        ".backends": "open_model",
        ".budget": "Budget CallPrices Ledger Projection",
        ".caller": "Cache Caller record",
        ".candidates": "Entry Outcome Proposal Scored Strategy standardised",
        ".drawing": "draw_workflow workflow_svg",
        ".engine": "search_workflows",
        ".fitness": "ItemLabels ItemScores PairedScores estimate_fitness paired score_outcomes",
        ".gate": "Decision Gate",
        ".interpreter": "run_workflow",
        ".model": "BudgetReached Calls Completion Message Model ModelError Request Usage",
        ".pool": "AimedLabels Picked Pool race_pool",
        ".strategies": "make_strategy",
        ".task": "PosedQuestion Task TaskItem parse_answer pose read_task",
        ".vault": "Vault",
        ".workflow": "Workflow WorkflowError load_workflow parse_workflow parse_workflow_text",
    },
    renamed={"Prices": "CallPrices", "Question": "PosedQuestion"},
)
