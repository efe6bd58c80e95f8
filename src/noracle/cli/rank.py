"""``noracle rank``: which system is preferred?"""

from __future__ import annotations

import dataclasses

from noracle.cli import _options as opt
from noracle.cli._options import Output, column_names, option, paragraphs, with_options
from noracle.cli._output import settings, working
from noracle.evidence.preferences import Preferences
from noracle.ranking import check_position, estimate_win_rates, rank_systems
from noracle.ranking.rank import Position
from noracle.results import Result

EXAMPLE = paragraphs("""Example:
noracle rank preferences.csv
noracle rank arena.jsonl --win-rates --html ranking.html
Columns: item, first, second, winner (first, second, tie, neither, or a name) and rater; model_a and model_b are known, too.""")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _RankOptions:
    preferences: str = opt.argument("Who was preferred (CSV, JSONL, Parquet; globs).", "FILE", ...)
    position: Position = option(
        "adjust estimates what being shown first is worth; ignore takes it as nothing.",
        default="adjust",
    )
    win_rates: bool = option("Also how often each system is preferred.", default=False)
    columns: opt.Columns = option("Your names of columns: first=left_model.", "NAME=COL")
    confidence: float = opt.confidence()
    seed: int = opt.seed()


@with_options()
def command(own: _RankOptions, output: Output) -> None:
    """Rank systems by preferences, with what being shown first is worth taken out.

    All differences hold together at --confidence; systems that cannot be separated share places.
    """
    with working("ranking"):
        given = Preferences.from_table(own.preferences, columns=column_names(own.columns))
        about = opt.values(own, "preferences", "columns", "win_rates")
        results: list[Result] = [rank_systems(given, **about)]
        if own.win_rates:
            results += estimate_win_rates(given, **about)
    settings.notes += given.inferred
    single = len(results) == 1
    more = [check_position(given)]
    output.emit("Which system is preferred?", results, single=single, seed=own.seed, more=more)
