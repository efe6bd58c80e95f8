"""Shared by all tests: hypothesis profiles and the larger data sets."""

from __future__ import annotations

import gc
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from tests import chance, tiers

chance.watch()

hypothesis.settings.register_profile("default", max_examples=50, deadline=None, derandomize=True)
hypothesis.settings.register_profile("full", max_examples=200, deadline=None, derandomize=True)
hypothesis.settings.register_profile(
    "slow",
    max_examples=10_000,
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("default")

# Two workers share two cores: libraries that start a thread for every core would wait for each
# other.
for _threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_threads, "1")

# Plots are drawn without a screen, whatever the machine has.
os.environ["MPLBACKEND"] = "Agg"


def pytest_configure(config: pytest.Config) -> None:
    """What holds for the doctests of the package as well is a plugin."""
    config.pluginmanager.register(chance.Chance(), "chance")
    config.pluginmanager.register(tiers.Tiers(config), "tiers")


def pytest_collection_finish(session: pytest.Session) -> None:
    """Fifteen thousand tests stay to the end: garbage is not looked for among them again and again."""
    gc.collect()
    gc.freeze()


CHROMIUM = next(
    (
        path
        for name in ("chromium", "chromium-browser", "google-chrome")
        if (path := shutil.which(name))
    ),
    None,
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A real browser without a screen; tests that open pages skip without one."""
    if CHROMIUM is None:
        pytest.skip("no chromium on this machine")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield running
        running.close()


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder that NORACLE_DATA names; tests that need it skip without it."""
    folder = os.environ.get("NORACLE_DATA", "")
    if not folder or not Path(folder).is_dir():
        pytest.skip("NORACLE_DATA does not name a folder with the larger data sets")
    return Path(folder)
