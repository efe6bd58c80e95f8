"""``noracle rank``: which system is preferred, and which pair to compare next?"""

from __future__ import annotations

import dataclasses
from typing import Any

from noracle.cli import _options as opt
from noracle.cli._options import Output, column_names, option, paragraphs, with_options
from noracle.cli._output import check_format, check_target, settings, working, write_table
from noracle.errors import require
from noracle.evidence.preferences import Preferences
from noracle.ranking import check_position, estimate_win_rates, plan_pairs, rank_systems
from noracle.ranking.pairs import PairGoal
from noracle.ranking.rank import Position
from noracle.results import Result

EXAMPLE = paragraphs("""Example:
noracle rank preferences.csv
noracle rank arena.jsonl --win-rates --html ranking.html
noracle rank preferences.csv --judge model --next 100 --cost judge=0.02 --out questions.csv
Columns: item, first, second, winner (first, second, tie, neither, or a name) and rater; model_a and model_b are known, too.""")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _RankOptions:
    preferences: str = opt.argument("Who was preferred (CSV, JSONL, Parquet; globs).", "FILE", ...)
    position: Position = option(
        "adjust estimates what being shown first is worth; ignore takes it as nothing.",
        default="adjust",
    )
    judge: list[str] | None = option(
        "Raters that are not believed, and only make the ranking of the others narrower.", "NAMES"
    )
    win_rates: bool = option("Also how often each system is preferred.", default=False)
    next_: float | None = option(
        "Also which pairs to compare next, and who: what may be spent, by default verdicts.",
        "BUDGET",
        None,
        "--next",
    )
    goal: PairGoal = option("Of --next: separate the best, or all.", default="best")
    cost: list[str] | None = option("Of --next: prices, as in people=1,judge=0.02.", "WHO=PRICE")
    out: opt.File = option("Of --next: the questions, without their winners (CSV, JSONL, Parquet).")
    columns: opt.Columns = option("Your names of columns: first=left_model.", "NAME=COL")
    raters: list[str] | None = option(
        "Columns of a wide table, one for each rater, that hold what they said.", "NAMES"
    )
    confidence: float = opt.confidence()
    seed: int = opt.seed()


@with_options()
def command(own: _RankOptions, output: Output) -> None:
    """Rank systems by preferences, with what being shown first is worth taken out.

    All differences hold together at --confidence; systems that cannot be separated share places.
    """
    asked = own.next_ is not None
    stray = [f"--{n}" for n, v in (("cost", own.cost), ("out", own.out)) if v and not asked]
    require(not stray, f"{' and '.join(stray)} must go with --next; got no --next.")
    check_target("out", own.out)
    check_format("out", own.out)
    judge, raters = opt.names(own.judge), opt.names(own.raters)
    with working("ranking"):
        columns = column_names(own.columns)
        given = Preferences.from_table(own.preferences, columns=columns, raters=raters)
        about: dict[str, Any] = {"position": own.position, "judge": judge}
        about |= {"confidence": own.confidence, "seed": own.seed}
        results: list[Result] = [rank_systems(given, **about)]
        if own.win_rates:
            results += estimate_win_rates(given, **about)
        if own.next_ is not None:
            costs = opt.pairs("cost", own.cost)
            plan = plan_pairs(given, budget=own.next_, costs=costs, goal=own.goal, **about)
            results.append(plan)
            if own.out is not None:
                write_table(own.out, plan.diagnostics["questions"])
    settings.notes += given.inferred
    single = len(results) == 1
    output.emit(
        "Which system is preferred?",
        results,
        single=single,
        seed=own.seed,
        more=[check_position(given)],
        after=[f"questions {own.out}"] if own.out else [],
    )
