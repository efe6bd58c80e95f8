"""Systems ranked by preferences: which answer was preferred, without right or wrong."""

from __future__ import annotations

from noracle.ranking.pairs import plan_pairs
from noracle.ranking.rank import check_position, estimate_win_rates, rank_systems

__all__ = ["check_position", "estimate_win_rates", "plan_pairs", "rank_systems"]
