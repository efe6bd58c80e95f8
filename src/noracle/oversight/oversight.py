"""The oversight report: what the evidence permits is run, checked for contradictions, and summed up."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from noracle._version import __version__
from noracle.errors import require_evidence
from noracle.oversight.findings import find_contradictions, joint_guarantee, left_out, next_steps
from noracle.oversight.load import Loaded
from noracle.oversight.model import Finding, FolderSettings, Inventory, NextStep, Step, SystemLine
from noracle.oversight.questions import Asking, count_statements, take_steps
from noracle.oversight.words import system_lines
from noracle.report.content import Content, content
from noracle.results import Guarantee, Kind, Result, check_confidence

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TITLE = "Oversight report"
_NOT_COVERED = {
    Kind.ASYMPTOTIC: "its promise is asymptotic: it holds for many items",
    Kind.HEURISTIC: "its promise is heuristic: a check failed or an assumption is known to be false",
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Oversight(Result):
    """Everything that the evidence of a folder allows to say.

    ``systems`` is the first screen, one line each. ``steps`` holds every question with its results,
    or why it was not asked. ``findings`` says where parts contradict each other, or what they say
    together. ``guarantee`` is the promise that all finite-sample and logical statements hold
    together; ``notes`` names the others. ``next_steps`` are ranked, the best first.

    Examples
    --------
    >>> report = Oversight(
    ...     title="Demo", inventory=Inventory(place=".", sources=()), systems=(), steps=(), findings=(),
    ...     guarantee=Guarantee(kind=Kind.LOGICAL, error_rate=0.0), next_steps=(), confidence=0.95, seed=0,
    ... )
    >>> Oversight.from_dict(report.to_dict()) == report
    True
    """

    schema: ClassVar[str] = "oversight/1"

    title: str
    inventory: Inventory
    systems: tuple[SystemLine, ...]
    steps: tuple[Step, ...]
    findings: tuple[Finding, ...]
    guarantee: Guarantee
    next_steps: tuple[NextStep, ...]
    confidence: float
    seed: int
    notes: tuple[str, ...] = ()
    version: str = __version__

    def step(self, name: str) -> Step | None:
        """The step of this name, or None where it was not asked."""
        return next((s for s in self.steps if s.name == name), None)

    @property
    def contradictions(self) -> tuple[Finding, ...]:
        """The findings that disagree."""
        return tuple(f for f in self.findings if not f.agrees)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values with ``"schema"`` first; results inside carry their own schema."""
        steps = tuple(dataclasses.replace(step, results=()) for step in self.steps)
        found = Result.to_dict(dataclasses.replace(self, steps=steps))
        for row, step in zip(found["steps"], self.steps, strict=True):
            row["results"] = [result.to_dict() for result in step.results]
        told = found["inventory"]["settings"]
        for name, default in _LATER.items():  # only where somebody said them: 0.1 did not have them
            if told.get(name) == default:
                del told[name]
        return found

    @classmethod
    def _revive(cls, values: dict[str, Any]) -> dict[str, Any]:
        rows = values["inventory"]["sources"]
        sources = [{**row, "options": _frozen(row.get("options", {}))} for row in rows]
        return {**values, "inventory": {**values["inventory"], "sources": sources}}

    def __repr__(self) -> str:
        done = sum(s.status == "done" for s in self.steps)
        return f"Oversight({len(self.systems)} systems, {done} of {len(self.steps)} questions answered, {len(self.contradictions)} disagree)"  # noqa: E501

    def plot(self, ax: Axes | None = None) -> Axes:
        """Every system with its interval, in the order of the report."""
        from noracle.report import plots

        ax = plots.new_axes(ax, len(self.systems))
        dot: dict[str, Any] = {"marker": "o", "markersize": 5, "linestyle": "none"}
        for y, line in enumerate(self.systems):
            ax.plot([line.low, line.high], [y, y], color=plots.LINE, linewidth=2, zorder=1)
            ax.plot([line.value], [y], color=plots.BLUE, zorder=2, **dot)
        ax.set_yticks(range(len(self.systems)), [line.system for line in self.systems])
        ax.invert_yaxis()
        ax.set_xlim(0, 1)
        ax.set_xlabel("accuracy")
        return ax


def oversee(
    place: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | Inventory,
    *,
    settings: FolderSettings | None = None,
    confidence: float | None = None,
    seed: int | None = None,
    store: str | os.PathLike[str] | None = None,
    progress: Callable[[str], None] | None = None,
) -> Oversight:
    r"""Say everything that the evidence of a folder allows, and nothing more.

    The error rate of the report is shared: k statements with a probability get (1 - confidence)/k
    each, so that by Boole's inequality all of them hold together with probability of at least
    ``confidence``. Which statements are made is decided by what the tables hold, before any value
    is looked at.

    Parameters
    ----------
    place
        A folder, a list of files, or the inventory that :func:`~noracle.oversight.find_evidence`
        made of them.
    settings
        What ``noracle.toml`` would say; by default that file, if the folder has one.
    confidence, seed
        Instead of those of the settings.
    store
        A folder, here or at a URL that fsspec opens, for what was counted of answers and
        judgements. Files that belong together (one folder ``day=1``, or one name) are a partition,
        and a partition that is there from before and did not change is not counted again. What is
        said is the same as without a store; a note tells how many partitions were read, or why the
        tables were counted as one.
    progress
        Called with each question before it is put.

    Returns
    -------
    Oversight
        An error in one question never stops the others: its step says ``failed``, with the text of
        the error.

    Raises
    ------
    EvidenceError
        If the evidence itself breaks a rule, or there is none.

    Notes
    -----
    Assumptions are those of the statements, and stand in their guarantees. Logical statements and
    checks spend no error rate, and drift has a promise of its own, a run length. Agreement, the
    mean across raters and preferences have asymptotic promises: they are run at the same level and
    named in ``notes``.

    References
    ----------
    Bonferroni (1936), Teoria statistica delle classi e calcolo delle probabilità; each statement
    names its own method.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from noracle.oversight import Source
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     answers, judgements = pathlib.Path(folder, "answers.csv"), pathlib.Path(folder, "judgements.csv")
    ...     _ = answers.write_text("item,system,answer\n" + "".join(f"{i},a,{i % 3}\n" for i in range(60)), encoding="utf-8")
    ...     _ = judgements.write_text("item,class,verdict\n" + "".join(f"{i},{i % 3},yes\n" for i in range(40)), encoding="utf-8")
    ...     sources = (
    ...         Source(kind="answers", paths=(str(answers),), why="columns item, system, answer"),
    ...         Source(kind="judgements", paths=(str(judgements),), why="columns item, class, verdict"),
    ...     )
    ...     report = oversee(Inventory(place=folder, sources=sources, settings=FolderSettings(n_classes=3)))
    >>> report.systems[0].system, report.systems[0].value, report.guarantee.kind.label
    ('a', 1.0, 'finite-sample')
    """
    from noracle.oversight.find import find_evidence

    if not isinstance(place, Inventory):
        inventory = find_evidence(place, settings=settings)
    else:
        inventory = place if settings is None else dataclasses.replace(place, settings=settings)
    given = {"confidence": confidence, "seed": seed}
    changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    told = dataclasses.replace(inventory.settings, **changes)
    inventory = dataclasses.replace(inventory, settings=told)
    check_confidence(told.confidence)
    rule, came = "must hold evidence", f"none in {inventory.place!r}"
    remedy = "Add tables of answers, judgements, ratings, scores or preferences"
    remedy += "; 'noracle init' writes an example."
    require_evidence(inventory.sources, "place", rule, came, remedy=remedy)
    if progress is not None:
        progress("Reading the evidence")
    loaded = Loaded(inventory, store=store, progress=progress)
    # Evidence that breaks a rule stops here, with all its faults.
    _ = (loaded.accuracy, loaded.asked, loaded.votes, loaded.preferences)
    planned = count_statements(loaded)
    k = sum(planned.values())
    level = 1 - (1 - told.confidence) / k if k else told.confidence
    asking = Asking(loaded=loaded, level=level, seed=told.seed)
    steps = take_steps(asking, progress)
    findings = _findings(loaded, steps)
    following = next_steps(inventory, steps, findings)
    names = tuple(dict.fromkeys((*loaded.systems, *loaded.judged_systems)))
    return Oversight(
        title=told.title or TITLE,
        inventory=inventory,
        systems=system_lines(names, steps, findings, following, told),
        steps=steps,
        findings=findings,
        guarantee=joint_guarantee(steps),
        next_steps=following,
        confidence=told.confidence,
        seed=told.seed,
        notes=_notes(asking, planned),
    )


def _findings(loaded: Loaded, steps: Sequence[Step]) -> tuple[Finding, ...]:
    """What the steps say of each other; stored counts are in accuracies alone, not in the rest."""
    mixed = loaded.stored is not None and loaded.evidence is not None
    others = {"comparison", "ranges", "alarm"} if mixed else set()
    done = {step.name for step in steps if step.status == "done"}
    both = "accuracy" in done and bool(done & {"certificate", "ceiling"})
    kept, same = [s for s in steps if s.name not in others], both and loaded.same_items
    return find_contradictions(kept, weighted=loaded.weighted, same_items=same)


def _notes(asking: Asking, planned: Mapping[str, int]) -> tuple[str, ...]:
    loaded, steps = asking.loaded, tuple(asking.done.values())
    notes = [*loaded.inventory.notes, *loaded.notes, *asking.heard]
    k, weak = sum(planned.values()), left_out(steps)
    if k:
        said = ", ".join(f"{n} of {name}" for name, n in planned.items())
        each = f"each is made at confidence {asking.level:.6g}, so that all hold together"
        notes.append(f"{k} statements ({said}) share the error rate: {each}.")
    for name, kind in weak.items():
        notes.append(f"{name}: {_NOT_COVERED[kind]}, and the joint promise does not cover it.")
    if "drift" in asking.done and asking.done["drift"].results:
        own = "its promise is an average run length, and a set for the change at its own confidence"
        notes.append(f"drift: {own}; the joint promise does not cover it.")
    if weak:
        rate = joint_guarantee(steps, every=True).error_rate
        every = f"a joint error rate of {rate:.4g}, where their own promises hold"
        notes.append(f"All statements, also those not covered, have {every}.")
    if not joint_guarantee(steps).assumptions and not k:
        notes.append("Nothing in this report carries a promise with a probability.")
    return tuple(dict.fromkeys(notes))


_LATER: dict[str, Any] = {"columns": {}, "no_answer": [], "invalid": "wrong", "repeats": "mean"}
_LATER["drift"] = {}


def _frozen(row: Mapping[str, Any]) -> dict[str, Any]:
    return {k: tuple(v) if isinstance(v, (list, tuple)) else v for k, v in row.items()}


@content.register
def _(result: Oversight) -> Content:
    from noracle.oversight.page import describe

    return describe(result)
