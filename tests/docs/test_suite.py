"""The suite keeps its own rules: nothing heavy is loaded before it begins, and nothing is left to
chance.
"""

from __future__ import annotations

import random
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests import chance, tiers


def test_collecting_the_default_tests_loads_no_heavy_library(
    request: pytest.FixtureRequest,
) -> None:
    plugin = request.config.pluginmanager.get_plugin("tiers")
    if not plugin.default:
        pytest.skip("more than the default tests was collected")
    assert plugin.loaded == set()


@pytest.mark.parametrize(
    ("text", "heavy"),
    [
        ("import torch\n", True),
        ("import json\nfrom torch.nn import Module\n", True),
        ('torch = pytest.importorskip("torch", reason="-")\n', True),
        ('pytest.importorskip("playwright")\n', True),
        ("try:\n    import torch\nexcept ImportError:\n    raise\n", True),
        ("from noracle.learn.loop import train\n", True),
        ("from noracle.learn import (\n    loop,\n)\n", True),
        ("from noracle import Evidence\nimport noracle.learn\n", False),
        ("if TYPE_CHECKING:\n    import torch\n", False),
        ("def test_a():\n    import torch\n", False),
        ('CODE = """\nimport torch\n"""\n', False),
        ("import torchless\n", False),
    ],
)
def test_a_file_that_loads_a_heavy_library_is_known_unread(
    text: str, heavy: bool, tmp_path: Path
) -> None:
    file = tmp_path / "test_it.py"
    file.write_text(text, encoding="utf-8")
    assert tiers.is_full(file) is heavy


def test_a_marked_file_is_full(tmp_path: Path) -> None:
    for i, text in enumerate(("pytest.mark.full", "[pytest.mark.full, pytest.mark.browser]")):
        file = tmp_path / f"test_{i}.py"
        file.write_text(f"pytestmark = {text}\n", encoding="utf-8")
        assert tiers.is_full(file)


@pytest.mark.thin(2)
@pytest.mark.parametrize("case", range(5))
def test_one_case_in_two_of_this_test_is_a_default_test(
    case: int, request: pytest.FixtureRequest
) -> None:
    if len(request.config.args) == 1 and "[" in request.config.args[0]:
        pytest.skip("a case that is asked for by its name is always there")
    assert (request.node.get_closest_marker("full") is not None) is (case % 2 == 1)


@pytest.mark.parametrize(
    "draw",
    [
        np.random.default_rng,
        np.random.SeedSequence,
        lambda: np.random.default_rng(None),
        np.random.normal,
        lambda: np.random.seed(3),  # noqa: NPY002
        random.Random,
        random.random,
        lambda: random.shuffle([1, 2]),
        lambda: random.seed(3),
    ],
)
def test_a_draw_without_a_seed_is_noted(draw: Callable[[], Any]) -> None:
    assert not chance.drawn
    draw()
    found = list(chance.drawn)
    chance.drawn.clear()  # or this test fails, as it should
    assert len(found) == 1
    assert "without a seed in tests/docs/test_suite.py" in found[0]


def test_seeds_and_secrets_are_no_chance() -> None:
    np.random.default_rng(3).normal()
    np.random.RandomState(3).normal()
    np.random.SeedSequence(3).spawn(2)
    random.Random("name").shuffle([1, 2])
    random.SystemRandom().random()
    secrets.token_bytes(3)
    assert not chance.drawn


SECRET: list[str] = []


@pytest.fixture(scope="module")
def shared_secret() -> str:
    return secrets.token_hex(8)


@pytest.mark.parametrize("time", [1, 2])
def test_secrets_are_the_same_in_every_run(time: int, shared_secret: str, request: Any) -> None:
    """Before, the key of a gate was another in each run, and with it the items it asked about."""
    first = [secrets.token_hex(8), secrets.token_urlsafe(9), secrets.randbits(32), len(SECRET)]
    chance.hidden.seed(request.node.nodeid)
    again = [secrets.token_hex(8), secrets.token_urlsafe(9), secrets.randbits(32), len(SECRET)]
    assert first == again
    assert first[0] != secrets.token_hex(8)
    assert first[0] not in SECRET  # another test has others
    assert shared_secret not in first
    SECRET.append(str(first[0]))
