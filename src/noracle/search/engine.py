"""The search: each candidate is proposed, run on validation items, and called better only by labels
that it never met; every step is in the journal before the next begins.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from noracle.errors import EvidenceError, require
from noracle.results import check_confidence
from noracle.search.archive import (
    Found,
    SearchArchive,
    entry_event,
    entry_of,
    found_of,
    outcomes_of,
    proposal_event,
)
from noracle.search.budget import CountedCalls
from noracle.search.caller import Caller
from noracle.search.candidates import (
    Entry,
    Outcome,
    Proposal,
    Scored,
    Strategy,
    Told,
    cost_of,
    outcome_columns,
)
from noracle.search.interpreter import grouped, run_workflow
from noracle.search.journal import Event
from noracle.search.model import BudgetReached, Calls, ModelError, at_least
from noracle.search.referee import Referee
from noracle.search.task import PosedQuestion, Task, draws, pose
from noracle.search.transcript import ABOUT
from noracle.search.vault import PARTS, ItemId, Part, Vault
from noracle.search.workflow import (
    BASELINES,
    Workflow,
    WorkflowError,
    load_workflow,
    parse_workflow,
)

_Key = tuple[str, ItemId, int]
Progress = Callable[[str, int, int], None]
"""Called with what is being done, how many items of it are done, and how many there are."""


@dataclasses.dataclass(eq=False, kw_only=True)
class Runner:
    """Answers of candidates to items. An answer that is known is not asked for again, nor counted
    again.

    The budget counts every call of the search, also one that a cache answered: so a search that was
    stopped and goes on counts as one that was not. What a candidate may need is bounded before it
    starts by :attr:`Workflow.most_calls`.
    """

    questions: Mapping[ItemId, PosedQuestion]
    calls: Calls
    repeats: int
    seed: int
    budget: int | None
    progress: Progress | None
    spent: int = 0
    known: dict[_Key, Outcome] = dataclasses.field(default_factory=dict)

    @property
    def left(self) -> float:
        """Calls that are left."""
        return math.inf if self.budget is None else self.budget - self.spent

    async def answers(
        self, workflow: Workflow, items: Sequence[ItemId], what: str
    ) -> list[Outcome]:
        """The answers of a workflow to these items, all repeats, in this order."""
        keys = self._keys(workflow, items)
        done = len(keys) - len(missing := [key for key in keys if key not in self.known])
        found = dict.fromkeys(keys)

        async def one(key: _Key) -> None:
            nonlocal done
            question, repeat = self.questions[key[1]], key[2]
            run = run_workflow(workflow, question, self.calls, seed=self.seed, repeat=repeat)
            found[key] = await run
            done += 1
            say(what, done, len(keys))

        say = self.progress or (lambda *_: None)
        say(what, done, len(keys))
        await grouped(one(key) for key in missing)
        outcomes = [self.known.get(key) or found[key] for key in keys]
        return [outcome for outcome in outcomes if outcome is not None]

    def remember(self, workflow: Workflow, outcomes: Iterable[Outcome]) -> None:
        """Take outcomes that are in the journal as known, and count their calls."""
        for outcome in self.new(workflow, outcomes):
            self.known[workflow.digest, outcome.item, outcome.repeat] = outcome
            self.spent += outcome.calls

    def new(self, workflow: Workflow, outcomes: Iterable[Outcome]) -> list[Outcome]:
        """Those that were not known before."""
        return [o for o in outcomes if (workflow.digest, o.item, o.repeat) not in self.known]

    def needed(self, workflow: Workflow, items: Sequence[ItemId]) -> int:
        """The most calls that a workflow can take for what is not known yet of these items."""
        unknown = sum(key not in self.known for key in self._keys(workflow, items))
        return unknown * workflow.most_calls

    def _keys(self, workflow: Workflow, items: Iterable[ItemId]) -> list[_Key]:
        return [(workflow.digest, item, r) for item in items for r in range(self.repeats)]


def _questions(task: Task, vault: Vault, shuffle: int | None) -> dict[ItemId, PosedQuestion]:
    wanted = {item for part in PARTS for item in vault.items(part)}
    items = [item for item in task.items if item.id in wanted]
    found = {i.id: pose(i, instruction=task.instruction, shuffle=shuffle) for i in items}
    missing = sorted(str(item) for item in wanted - found.keys())
    if missing:
        rule, n = "must label items of the task", len(missing)
        raise EvidenceError.of("vault", rule, "others", where=missing, total=n)
    return found


_GIVE_UP = 3  # after so many failed proposals in a row the search ends, or pauses
_GOES_ON = "The same command goes on where it was."


async def search_workflows(
    task: Task,
    vault: Vault,
    *,
    strategy: Strategy,
    calls: Calls,
    designer: Calls | None = None,
    generations: int = 30,
    repeats: int = 1,
    seed: int = 0,
    folder: str | Path,
    shuffle: bool = True,
    confidence: float = 0.95,
    baselines: Sequence[Workflow] | None = None,
    budget: int | None = None,
    progress: Progress | None = None,
) -> Found:
    """Search a workflow with weak labels as the only signal.

    Parameters
    ----------
    task, vault
        The items, and the labels of some of them.
    strategy
        What to try next, see :func:`noracle.search.strategies.make_strategy`.
    calls, designer
        The model that answers items, and the one that writes workflows where the strategy needs
        one.
    generations
        At most so many proposals after the baselines.
    repeats
        How often every item is answered; repeats are averaged inside an item.
    seed
        Everything random follows from it: the order of options, the choices of the strategy.
    folder
        Journal, snapshot and calls. A search that is there with the same settings goes on.
    shuffle
        Whether options are shown in a random order.
    confidence
        Of the final estimate, of the comparison with the first baseline, and of the claim that the
        winner is better than it.
    baselines
        Candidates to begin with; the first is the incumbent. By default the seven of the reference.
    budget
        At most so many calls in the whole search, designer included, counted whether a cache
        answered or not, so that a search that was stopped ends as one that was not. A candidate is
        only run where its largest number of calls fits, with enough left for its challenge and the
        final estimate.
    progress
        Called as items are done.

    Returns
    -------
    Found
        The winner, its value on validation and on held-out labels, and the archive. A cap of the
        caller (tokens, cost, seconds) or a model that does not reply ends the search without a
        final estimate; started again, with a larger cap or a model that replies, it goes on where
        it was, and ends as if nothing had happened.

    Notes
    -----
    Assumes that labelled items are a random sample of the items, and that labels were drawn as
    recorded.

    The winner's value on validation labels is a maximum over candidates, so that E[max] ≥ max E: it
    looks too good, and promises nothing. Its value on the final labels is estimated once. "Better
    than the first baseline" is false with probability of at most 1 - confidence: half of it for all
    challenges (:class:`Gate`), half for the final comparison.

    References
    ----------
    Yin, Ishida and Sugiyama, "Towards scalable oversight via partitioned human supervision" (weak
    labels as the only signal); Hu, Lu and Clune (2025), "Automated design of agentic systems",
    ICLR; Zhang et al. (2025), "AFlow", ICLR; Waudby-Smith and Ramdas (2024), JRSS-B 86, 1-27.

    Examples
    --------
    >>> import asyncio, tempfile
    >>> from noracle.search import Caller, TaskItem, Vault, load_workflow, make_strategy
    >>> from noracle.search.backends.scripted import ScriptedModel
    >>> items = tuple(TaskItem(id=i, text=f"Case {i}?", options=("yes", "no", "open")) for i in range(30))
    >>> vault = Vault.open({"item": list(range(30)), "class": [1] * 30, "verdict": ["no"] * 30}, items, seed=2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     calls = Caller(ScriptedModel(lambda request: "ANSWER: A"))
    ...     search = search_workflows(Task(name="cases", items=items), vault, strategy=make_strategy("mutate"), calls=calls,
    ...         generations=2, folder=folder, baselines=[load_workflow("direct"), load_workflow("cot")])
    ...     found = asyncio.run(search)
    >>> len(found.entries), found.held_out.guarantee.kind.label, 0 <= found.held_out.low <= found.held_out.high <= 1
    (4, 'finite-sample', True)
    """
    check_confidence(confidence)
    at_least(0, generations=generations)
    at_least(1, repeats=repeats)
    started = [load_workflow(name) for name in BASELINES] if baselines is None else list(baselines)
    require(started, "baselines must hold at least one workflow; got none.")
    parts: dict[str, Any] = {part: list(vault.items(part)) for part in PARTS}
    whole = [task.instruction, *((i.id, i.text, i.options) for i in task.items)]
    text = json.dumps(whole, ensure_ascii=False)
    settings = {
        "task": task.name,
        "items": hashlib.sha256(text.encode()).hexdigest(),
        "model": model_name(calls),
        "designer": model_name(designer),
        "strategy": strategy.name,
        "generations": generations,
        "repeats": repeats,
        "seed": seed,
        "shuffle": shuffle,
        "confidence": confidence,
        "budget": budget,
        "baselines": [w.digest for w in started],
        "shares": list(vault.shares),
        "labels": vault.checksum,
        "split": {"seed": vault.seed, **parts},
        **({"reply_tokens": room} if (room := getattr(calls, "reply_tokens", None)) else {}),
    }
    runner = Runner(
        questions=_questions(task, vault, seed if shuffle else None),
        calls=calls,
        repeats=repeats,
        seed=seed,
        budget=budget,
        progress=progress,
    )
    with SearchArchive(folder, settings) as archive:
        archive.clean()
        search = _WorkflowSearch(vault, runner, archive, strategy, designer, started)
        end, capped = await search.run(generations)
        ledgers = [c.ledger for c in dict.fromkeys((calls, designer)) if isinstance(c, Caller)]
        paid = sum(ledgers[1:], ledgers[0]).to_dict() if ledgers else {}
        leader = search.leader
        return found_of(archive, search.entries, leader=leader, end=end, capped=capped, ledger=paid)


def _unwritten(what: str, last: str) -> ModelError:
    remedy = "Name another designer, or try it again."
    return ModelError(f"{what}. The last: {last.rstrip('.')}. {remedy}")


def model_name(calls: Calls | None) -> str:
    """The name of the model behind a caller, where it has one."""
    return str(getattr(getattr(calls, "model", None), "name", ""))


@dataclasses.dataclass(eq=False)
class _WorkflowSearch:
    """One search. State is what the journal says; every step looks there first."""

    vault: Vault
    runner: Runner
    archive: SearchArchive
    strategy: Strategy
    designer: Calls | None
    baselines: Sequence[Workflow]
    best: float = -math.inf
    leader: int = 0
    incumbent: int = 0

    def __post_init__(self) -> None:
        self.referee = Referee(self.vault, confidence=self.archive.settings["confidence"])
        self.entries: list[Entry] = []
        steps = ("proposal", "entry", "challenge")
        self.done = {kind: {e["number"]: e for e in self.archive.of(kind)} for kind in steps}

    async def run(self, generations: int) -> tuple[Event | None, str]:
        """Run to the end; the last event, or why there is none yet."""
        ends = self.archive.of("end")
        try:
            stopped = await self._loop(generations)
            if ends:
                return ends[-1], ""
            made = [e for e in self.done["proposal"].values() if e["generation"] > 0]
            if self.designer is not None and made and all(e["problem"] for e in made):
                raise _unwritten("no proposal was a workflow", made[-1]["problem"])
            return await self._finish(stopped), ""
        except BudgetReached as reached:
            return None, f"a cap was reached: {reached} The same command with a larger cap goes on."
        except ModelError as error:
            return None, f"paused: {error} {_GOES_ON}"
        finally:
            self.archive.snapshot()

    async def _loop(self, generations: int) -> str:
        for number, workflow in enumerate(self.baselines):
            if number not in self.done["proposal"]:
                start = Proposal(workflow=workflow)
                self._note(proposal_event(number, start, origin="baseline", generation=0, cost={}))
            await self._settle(number)
        stuck = unwritten = 0
        for generation in range(1, generations + 1):
            number = len(self.baselines) + generation - 1
            fresh = number not in self.done["proposal"]
            if fresh:
                room = self._room(generations - generation) or self._room(0)
                if room < 1:
                    return "the budget is used up"
                if isinstance(self.strategy, Told):
                    self.strategy.room = room
                asked = await self._ask(generation)
                if isinstance(asked, str):
                    return asked
                self._note(asked)
            made = self.done["proposal"][number]
            self.runner.spent += made["design"].get("calls", 0)
            entry = await self._settle(number)
            stuck = stuck + 1 if entry.problem and not made["problem"] else 0
            unwritten = unwritten + fresh if made["problem"] else 0
            if stuck == _GIVE_UP:
                return f"{_GIVE_UP} proposals in a row could not be run: {entry.problem}"
            if unwritten == _GIVE_UP:
                raise _unwritten(f"{_GIVE_UP} proposals in a row were no workflow", entry.problem)
        return "all generations were run"

    async def _ask(self, generation: int) -> Event | str:
        """What the strategy proposes, or why there is nothing more."""
        left = self.runner.left - self._reserve(None)
        designer = CountedCalls(self.designer, left) if self.designer is not None else None
        rng = draws("strategy", self.runner.seed, generation)
        ABOUT.set({"designer": len(self.baselines) + generation - 1})
        try:
            proposal = await self.strategy.ask(generation, rng, designer)
        except WorkflowError as error:
            proposal = Proposal(workflow=self.baselines[0], problem=" ".join(str(error).split()))
        except BudgetReached:
            if designer is not None and designer.refused:
                return "the budget is used up"
            raise
        if proposal is None:
            return "the strategy was done"
        proposal = self._without_quotes(proposal)
        number, origin = len(self.baselines) + generation - 1, self.strategy.name
        cost = {} if designer is None else designer.cost
        return proposal_event(number, proposal, origin=origin, generation=generation, cost=cost)

    def _without_quotes(self, proposal: Proposal) -> Proposal:
        """A designer sees a few items and may repeat them; what is kept and run does not."""
        if self.designer is None:
            return proposal

        def struck(value: Any) -> Any:
            if isinstance(value, str):
                return self.vault.strike(value)
            if isinstance(value, list):
                return [struck(inner) for inner in value]
            if isinstance(value, dict):
                return {name: struck(inner) for name, inner in value.items()}
            return value

        fields = ("change", "thought", "problem")
        said: dict[str, Any] = {k: self.vault.strike(getattr(proposal, k)) for k in fields}
        written = proposal.workflow.to_dict()
        kept = struck(written)
        if kept == written:
            return dataclasses.replace(proposal, **said)
        kept["name"] = written["name"] if kept["name"] == written["name"] else "design"
        try:
            return dataclasses.replace(proposal, workflow=parse_workflow(kept), **said)
        except WorkflowError:  # a quote stood where a name must
            said["problem"] = "the workflow quotes items where they cannot be struck out"
            return dataclasses.replace(proposal, workflow=self.baselines[0], **said)

    async def _settle(self, number: int) -> Entry:
        """Bring one candidate through evaluation and, where it leads, its challenge."""
        made = self.done["proposal"][number]
        workflow = parse_workflow(made["workflow"])
        if number not in self.done["entry"]:
            self._note(await self._evaluated(number, workflow, made))
        entry = entry_of(made, self.done["entry"][number], accepted=False)
        self.runner.remember(workflow, entry.outcomes)
        scored = self._scored(entry)
        self.strategy.tell(scored)
        self.entries.append(entry)
        if entry.fitness is not None and made["share"] >= 1 and scored.score > self.best:
            self.best, self.leader = scored.score, number
            if number > 0:
                await self._challenge(entry)
        return self.entries[-1]

    async def _evaluated(self, number: int, workflow: Workflow, made: Event) -> Event:
        problem, items = made["problem"], self.vault.items("validation")
        items = items[: max(1, math.ceil(made["share"] * len(items) - 1e-9))]
        if not problem:
            left = self.runner.left
            most = self.runner.needed(workflow, items) + self._reserve(workflow)
            rule = f"budget must allow the first baseline, up to {most} calls"
            require(number > 0 or most <= left, f"{rule}; got {self.runner.budget}.")
            if most > left:
                problem = f"the budget is too small: up to {most} calls with the final estimate, {left} left"
        if problem:
            return entry_event(number, outcomes=(), fitness=None, problem=problem, cost=cost_of(()))
        what = f"candidate {number}: {workflow.name}"
        outcomes = await self.runner.answers(workflow, items, what)
        if all(o.state == "errored" for o in outcomes):
            problem = "the server turned down every request"
            if number == 0:
                remedy = "Check the model, its address and its key."
                raise ModelError(f"{problem} of the first baseline. {remedy}")
        fitness = None if problem else self.referee.fitness(workflow.name, outcomes)
        cost = cost_of(self.runner.new(workflow, outcomes))
        return entry_event(number, outcomes=outcomes, fitness=fitness, problem=problem, cost=cost)

    async def _challenge(self, entry: Entry) -> None:
        """The candidate that leads against the incumbent, paired on the confirm items."""
        event = self.done["challenge"].get(entry.number)
        against = self.incumbent if event is None else event["against"]
        pair = [entry.workflow, self.entries[against].workflow]
        if event is None:
            numbers = (entry.number, against)
            answers = [await self._fresh(n, "confirm", "challenge") for n in numbers]
        else:
            answers = [list(outcomes_of(part)) for part in event["outcomes"]]
        # Also for a challenge that is in the journal, so that the error rate is spent as in a
        # search that was not stopped.
        decision = self.referee.challenge(*answers)
        if event is None:
            runs = zip(pair, answers, strict=True)
            new = [o for w, part in runs for o in self.runner.new(w, part)]
            said = {"event": "challenge", "number": entry.number, "against": against, **decision}
            columns = [outcome_columns(part) for part in answers]
            event = self._note({**said, "outcomes": columns, "cost": cost_of(new)})
        for workflow, part in zip(pair, answers, strict=True):
            self.runner.remember(workflow, part)
        if event["accepted"]:
            self.entries[-1] = dataclasses.replace(entry, accepted=True)
            self.incumbent = entry.number

    async def _finish(self, stopped: str) -> Event:
        """Answer the final items, then open the final labels, once."""
        pair = {number: self.entries[number].workflow for number in dict.fromkeys((self.leader, 0))}
        answers = [await self._fresh(number, "final", "final estimate") for number in pair]
        names = [w.name for w in pair.values()]
        if len(set(names)) < len(names):
            names = [f"{w.name} ({number})" for number, w in pair.items()]
        held_out, comparison = self.referee.final(names, answers)
        event: Event = {
            "event": "end",
            "stopped": stopped,
            "winner": self.leader,
            "held_out": held_out.to_dict(),
            "comparison": None if comparison is None else comparison.to_dict(),
            "outcomes": [outcome_columns(part) for part in answers],
            "cost": cost_of(o for part in answers for o in part),
        }
        return self.archive.append(event)

    async def _fresh(self, number: int, part: Part, what: str) -> list[Outcome]:
        """Answers to later items; a server that turns down what it took before is out of order."""
        entry, items = self.entries[number], self.vault.items(part)
        found = await self.runner.answers(entry.workflow, items, f"{what}: {entry.workflow.name}")
        lost, before = (sum(o.state == "errored" for o in os) for os in (found, entry.outcomes))
        share, n = (before + 1) / (len(entry.outcomes) + 2), len(found)
        if lost >= min(3, n) and lost > n * share + 3 * math.sqrt(n * share * (1 - share)):
            came = f"the server turned down {lost} of {n} requests of the {what}"
            raise ModelError(f"{came}, and {before} of {len(entry.outcomes)} before it.")
        return found

    def _reserve(self, candidate: Workflow | None) -> int:
        """Calls to keep back for a challenge by the candidate and for the final estimate."""
        first, needed = self.baselines[0], self.runner.needed
        confirm, final = self.vault.items("confirm"), self.vault.items("final")
        challenge, leaders = 0, [candidate] if candidate else []
        if self.entries:
            leaders.append(self.entries[self.leader].workflow)
            if candidate is not None:
                duel = {w.digest: w for w in (candidate, self.entries[self.incumbent].workflow)}
                challenge = sum(needed(w, confirm) for w in duel.values())
        most = max((needed(w, final) for w in leaders if w.digest != first.digest), default=0)
        return challenge + needed(first, final) + most

    def _room(self, later: int) -> float:
        """The most calls per item of a next workflow that leave one call per validation item to
        each of the ``later`` ones, and all that its challenge and the final estimate may take.
        """
        if math.isinf(left := self.runner.left):
            return left
        needed, repeats = self.runner.needed, self.runner.repeats
        parts: tuple[Part, ...] = ("validation", "confirm", "final")
        first, confirm, final = (len(self.vault.items(part)) * repeats for part in parts)
        incumbent, leader = (self.entries[n].workflow for n in (self.incumbent, self.leader))
        left -= later * first + needed(self.baselines[0], self.vault.items("final"))
        left -= needed(incumbent, self.vault.items("confirm"))
        tie = leader.digest == self.baselines[0].digest
        ahead = 0 if tie else needed(leader, self.vault.items("final"))
        most = min(left / (first + confirm + final), (left - ahead) / (first + confirm))
        return max(0, math.floor(most))

    def _scored(self, entry: Entry) -> Scored:
        """What the strategy is told: nothing about challenges, no label but excluded answers."""
        told = dataclasses.replace(entry, accepted=False)
        if entry.fitness is None:
            return Scored(told, -math.inf, math.nan)
        said = self.vault.feedback(entry.outcomes)
        score = self.referee.score(entry.fitness, entry.outcomes)
        return Scored(told, score, entry.fitness.se, said.excluded, said.unanswered)

    def _note(self, event: Event) -> Event:
        written = self.done[event["event"]][event["number"]] = self.archive.append(event)
        if event["event"] != "proposal":
            self.archive.snapshot()
        return written
