"""The examples and benchmarks are scripts that import their neighbours; the tests import them the
same way.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
for folder in ("examples", "examples/papers", "benchmarks"):
    sys.path.insert(0, str(ROOT / folder))


@pytest.fixture
def no_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine without the larger data sets."""
    monkeypatch.delenv("NORACLE_DATA", raising=False)


@pytest.fixture
def mmlu_pro_file(data_folder: Path) -> Path:
    """The shared MMLU-Pro file, or a skip."""
    path = data_folder / "mmlu_pro_predictions.parquet"
    if not path.is_file():
        pytest.skip("NORACLE_DATA has no mmlu_pro_predictions.parquet")
    return path
