from __future__ import annotations

from tests.unit.evidence.fixtures import bring, bring_anywhere, bring_slowly, spark_session

__all__ = ["bring", "bring_anywhere", "bring_slowly", "spark_session"]
