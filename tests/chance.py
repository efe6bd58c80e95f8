"""A test that draws without a seed fails.

The outcome of a test must be the same in every run, so numbers that the tests, the package, the
examples or the benchmarks draw come from a seeded generator of their own: neither from an unseeded
``default_rng()`` or ``Random()`` nor from the generators that the whole process shares. What the
libraries draw for themselves is their business, and so is ``os.urandom``. Secrets (``secrets``) are
the operating system's in the product; here each test and each shared fixture has its own, the same
in every run: the key of a gate decides which items it asks about, and so what it finds.
"""

from __future__ import annotations

import functools
import linecache
import random
import secrets
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
OURS = (*(f"{ROOT / folder}/" for folder in ("src", "tests", "examples", "benchmarks")), "<doctest")

# The functions of the generators that the whole process shares.
_PYTHON = [
    name
    for name, value in vars(random).items()
    if isinstance(getattr(value, "__self__", None), random.Random)
    and name not in ("getstate", "setstate")
]
_NUMPY = [
    name
    for name, value in vars(np.random).items()
    if isinstance(getattr(value, "__self__", None), np.random.RandomState)
    and name not in ("get_state", "set_state")
] + ["seed"]

drawn: list[str] = []
"""What the running test drew without a seed."""
hidden = random.Random("")
"""Where secrets come from."""


def note(name: str) -> None:
    """Write a draw down if our own code asked for it."""
    frame = sys._getframe(2)
    while frame.f_back and frame.f_code.co_filename in (random.__file__, __file__):
        frame = frame.f_back
    file, line = frame.f_code.co_filename, frame.f_lineno
    if "RandomState(" in linecache.getline(file, line):  # asks before it takes the seed given
        return
    if file.startswith(OURS):
        drawn.append(f"{name} in {file.removeprefix(f'{ROOT}/')}:{line}")


def _noted(call: Callable[..., Any], name: str) -> Callable[..., Any]:
    @functools.wraps(call)
    def watched(*args: Any, **options: Any) -> Any:
        note(name)
        return call(*args, **options)

    return watched


def _noted_seed(seed: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(seed)
    def watched(self: random.Random, a: Any = None, *args: Any, **options: Any) -> None:
        if a is None:
            note("random.Random without a seed")
        seed(self, a, *args, **options)

    return watched


def watch() -> None:
    """Wrap what draws without a seed; once, before the tests are imported."""
    if hasattr(random.Random.seed, "__wrapped__"):
        return
    # The texts of tokens are made of token_bytes.
    secrets.token_bytes = lambda nbytes=None: hidden.randbytes(nbytes or secrets.DEFAULT_ENTROPY)
    secrets.randbits, secrets.choice = hidden.getrandbits, hidden.choice  # type: ignore[assignment]
    secrets.randbelow = hidden.randrange  # type: ignore[assignment]
    random.Random.seed = _noted_seed(random.Random.seed)  # type: ignore[method-assign]
    # Every generator of numpy without a seed asks here: default_rng, RandomState, PCG64, …
    entropy: Any = sys.modules["numpy.random.bit_generator"]
    entropy.randbits = _noted(entropy.randbits, "a generator of numpy without a seed")
    for module, names in ((random, _PYTHON), (np.random, _NUMPY)):
        for name in names:
            if found := getattr(module, name, None):
                setattr(module, name, _noted(found, f"{module.__name__}.{name} without a seed"))


class Chance:
    """Fails every test, doctests of the package too, that drew without a seed, and gives each its
    own secrets.
    """

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Iterator[None]:
        drawn.clear()
        hidden.seed(item.nodeid)
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any, request: Any) -> Iterator[Any]:
        """A shared fixture is made for whichever test comes first, always with the same secrets."""
        if fixturedef.scope == "function":
            return (yield)
        before = hidden.getstate()
        hidden.seed(f"{fixturedef.baseid} {fixturedef.argname} {getattr(request, 'param', '')!r}")
        try:
            return (yield)
        finally:
            hidden.setstate(before)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self) -> Iterator[None]:
        result = yield
        if drawn:
            pytest.fail(f"depends on chance: {'; '.join(dict.fromkeys(drawn))}", pytrace=False)
        return result
