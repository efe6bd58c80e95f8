"""Options of the verbs that prove something from answers alone, and how their sketch is gathered."""

from __future__ import annotations

import dataclasses
import re
import time
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from noracle.cli import _options as opt
from noracle.cli._options import EVIDENCE, OUTPUT, Sources, option, panel, without
from noracle.cli._output import check_target, read_json, settings, write_json
from noracle.counts.sketch import Sketch, count_decisions
from noracle.errors import ArgumentError, EvidenceError, NoracleError, require
from noracle.evidence.labels import read_known
from noracle.evidence.preferences import Preferences
from noracle.logic.orders import Order

_RANGE = re.compile(r"^(?P<low>\d+)(?:\s*(?:\.\.|-|to)\s*(?P<high>\d+))?$")

_known = panel("What is known of the items")
Answers = Annotated[Sources, without("grades", "protocol", "clusters", "repeats")]


def spec() -> Any:
    """The option ``--spec``."""
    text = "The claim, such as 'accuracy > 1/2', 'grade > 0.8' or 'accuracy of x on A > 0.7'."
    return option(text, "TEXT", ...)


_preferred = panel("Preferences instead of answers")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Preferred:
    """Preferences, of which the same can be asked as of answers."""

    preferences: opt.File = _preferred(
        "item, first, second, winner, rater: whom each judge preferred; claims are 'agreement > 0.7'."
    )
    order: Order | None = _preferred(
        "item: every item has its own order of the answers. one: one ranking holds for all. Default item."
    )

    def load(self, given: Sources, sketched: Sketches, **unfit: object) -> Preferences | None:
        """The preferences; None if there are none. They go with no other evidence."""
        if self.preferences is None:
            rule = "--order must go with --preferences; got no --preferences."
            require(self.order is None, rule)
            return None
        names = ("sketch", "save_sketch", "known", "prevalence")
        others = {n: getattr(sketched, n) for n in names} | given.tables | unfit
        stray = opt.flags({**others, "systems": given.systems, "wide": given.wide})
        rule = "must not come with --preferences, which say nothing of right or wrong"
        require(not stray, f"{', '.join(stray)} {rule}.")
        columns = opt.column_names(given.columns)
        found = Preferences.from_table(self.preferences, columns=columns)
        settings.notes += found.inferred
        if given.raters is None:
            return found
        wanted = opt.names(given.raters) or []
        unknown = sorted({*wanted} - {*found.raters})
        rule = f"--raters must be among {list(found.raters)}"
        require(not unknown, f"{rule}; got {', '.join(unknown)}.")
        return found.of_raters(wanted)

    def limits(self, sketched: Sketches) -> dict[str, Any]:
        """What every proof from preferences is told."""
        return {"order": self.order or "item", "time_limit": sketched.time_limit}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Sketches:
    """Sketches of answers, what is known of the items, and how long a proof may take."""

    sketch: opt.Files = panel(EVIDENCE)("A sketch that was saved; several are added.")
    save_sketch: opt.File = panel(OUTPUT)("Write the sketch, to be added later.")
    known: opt.File = _known("item, label: true labels (CSV, JSONL, Parquet).")
    prevalence: list[str] | None = _known(
        "Least and most items of a label; again for others.", "A=LOW..HIGH"
    )
    use_judgements: bool = _known(
        "Take yes as the true label and no as a label ruled out.",
        None,
        True,
        "--use-judgements/--ignore-judgements",
    )
    time_limit: float = option("When to give up and say undecided.", "SECONDS", 30.0)

    @property
    def limits(self) -> dict[str, Any]:
        """What every proof is told."""
        return {"prevalence": prevalences(self.prevalence), "time_limit": self.time_limit}

    def gather(self, sources: Sources) -> Sketch:
        """The sketch of the evidence and of stored sketches together."""
        check_target("save-sketch", self.save_sketch)
        parts = [read_sketch(path) for path in self.sketch or ()]
        if sources.given or not parts:
            started = time.perf_counter()
            # A wide table needs its columns named; else --systems chooses among the systems.
            found = count_decisions(
                sources.load(),
                systems=sources.chosen,
                known=None if self.known is None else read_known(self.known),
                judgements="use" if self.use_judgements else "ignore",
            )
            parts.append(found)
            opt.log.info("patterns counted in %.2f s", time.perf_counter() - started)
        else:
            rule = "--known must go with --answers; a stored sketch has no items any more."
            require(self.known is None, rule)
        total = opt.add_up(parts)
        if self.save_sketch is not None:
            write_json(self.save_sketch, total.to_dict())
        return total


def read_sketch(path: str) -> Sketch:
    """A sketch that ``--save-sketch`` wrote."""
    data = read_json(path, "--sketch")
    try:
        return Sketch.from_dict(data)
    except NoracleError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        why = f"something else in {path!r} ({type(error).__name__})"
        rule, remedy = "must have the shape of schema sketch/1", "Write it with --save-sketch."
        raise EvidenceError.of("--sketch", rule, why, remedy=remedy) from None


def prevalences(values: Sequence[str] | None) -> Mapping[str, tuple[int, int]] | None:
    """``label=low..high`` or ``label=number``, given several times."""
    found: dict[str, tuple[int, int]] = {}
    for value in values or ():
        name, _, text = value.rpartition("=")
        match = _RANGE.match(text.strip())
        if match is None or not name.strip():
            rule = "--prevalence must be LABEL=LOW..HIGH in whole numbers"
            raise ArgumentError(f"{rule}; got {value!r}.")
        found[name.strip()] = (int(match["low"]), int(match["high"] or match["low"]))
    return found or None
