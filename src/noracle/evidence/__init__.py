"""Evidence: tables of what was said, checked once and never changed."""

from __future__ import annotations

from noracle.evidence.evidence import Evidence, read_table
from noracle.evidence.preferences import Preferences
from noracle.evidence.ratings import Ratings
from noracle.evidence.tables import TABLES

__all__ = ["TABLES", "Evidence", "Preferences", "Ratings", "read_table"]
