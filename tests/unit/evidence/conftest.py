from __future__ import annotations

from tests.unit.evidence.fixtures import bring, spark_session

__all__ = ["bring", "spark_session"]
