"""The special functions and the root finder that our statistics use.

They are scipy's, but quick to import: ``scipy.special`` imports all of numpy, of which the Fortran
compiler's wrapper and the tools for tests take a quarter of the time of a small estimate and are
never used; here these are loaded when they are first touched. ``scipy.optimize``, as long again, is
not imported for a root.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable

import numpy as np


def _put_off(name: str) -> None:
    """Have a module of numpy loaded by its first use, and not because scipy asks numpy for all
    that it has.
    """
    whole = f"numpy.{name}"
    spec = None if whole in sys.modules else importlib.util.find_spec(whole)
    if spec is None or spec.loader is None:
        return
    spec.loader = importlib.util.LazyLoader(spec.loader)
    module = importlib.util.module_from_spec(spec)
    sys.modules[whole] = module
    spec.loader.exec_module(module)
    setattr(np, name, module)


for _name in ("f2py", "testing"):
    _put_off(_name)

from scipy.special import (  # noqa: E402
    bdtr,
    bdtrc,
    betainc,
    betaincinv,
    chdtrc,
    gammaincc,
    gammaln,
    ndtr,
    ndtri,
    owens_t,
    stdtr,
    stdtrit,
    xlog1py,
    xlogy,
)


def find_root(
    function: Callable[[float], float],
    first: float,
    last: float,
    *,
    xtol: float,
    rtol: float = 4 * sys.float_info.epsilon,
) -> float:
    """Where a function is 0 between two places at which its signs differ, by Brent's method: the
    same steps as ``scipy.optimize.brentq``.

    Examples
    --------
    >>> round(find_root(lambda x: x * x - 2, 0.0, 2.0, xtol=1e-12, rtol=1e-12), 9)
    1.414213562
    """
    before, now = first, last
    f_before, f_now = function(before), function(now)
    if f_before == 0:
        return before
    if f_now == 0:
        return now
    if (f_before < 0) == (f_now < 0):
        raise ValueError("the signs at first and last must differ")
    other = f_other = step = last_step = 0.0
    for _ in range(100):
        if f_before != 0 and f_now != 0 and (f_before < 0) != (f_now < 0):
            other, f_other = before, f_before
            step = last_step = now - before
        if abs(f_other) < abs(f_now):
            before, now, other = now, other, now
            f_before, f_now, f_other = f_now, f_other, f_now
        near = (xtol + rtol * abs(now)) / 2
        half = (other - now) / 2
        if f_now == 0 or abs(half) < near:
            return now
        if abs(last_step) > near and abs(f_now) < abs(f_before):
            if before == other:  # a line through two points
                trial = -f_now * (now - before) / (f_now - f_before)
            else:  # a curve through three
                slope = (f_before - f_now) / (before - now)
                other_slope = (f_other - f_now) / (other - now)
                trial = -f_now * (f_other * other_slope - f_before * slope)
                trial /= slope * other_slope * (f_other - f_before)
            if 2 * abs(trial) < min(abs(last_step), 3 * abs(half) - near):
                last_step, step = step, trial
            else:
                last_step = step = half
        else:
            last_step = step = half
        before, f_before = now, f_now
        now += step if abs(step) > near else near if half > 0 else -near
        f_now = function(now)
    raise RuntimeError("no root was found in 100 steps")


__all__ = [
    "bdtr",
    "bdtrc",
    "betainc",
    "betaincinv",
    "chdtrc",
    "find_root",
    "gammaincc",
    "gammaln",
    "ndtr",
    "ndtri",
    "owens_t",
    "stdtr",
    "stdtrit",
    "xlog1py",
    "xlogy",
]
