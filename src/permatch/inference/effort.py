"""Engines that draw, told to draw more or less, or other numbers."""

import math
from dataclasses import fields, replace
from typing import Any, TypeVar

from permatch.inference._options import MOST_DRAWS
from permatch.inference.base import AbstractEngine
from permatch.inference.swap_chain import MOST_SWEEPS

Engine = TypeVar("Engine", bound=AbstractEngine)

# Options that count draws, with the fewest that still tell something.
_COUNTS = {"n_samples": 32, "n_sweeps": 128}
# Options that limit the draws: raised with them, never lowered.
_LIMITS = ("max_samples", "max_sweeps", "max_trials")
# Most that engines take.
_MOST = {"n_sweeps": MOST_SWEEPS, "max_sweeps": MOST_SWEEPS}
# Options that fall with the root of the number of draws, and what they stay below.
_ERRORS = {"tol": 0.25, "epsilon": 0.5}
# Seeds that users choose are closer together than this.
_STRIDE = 1_000_003


def draws(engine: AbstractEngine) -> bool:
    """Return whether an engine draws: its answer then depends on a seed."""
    return any(option.name == "random_state" for option in fields(engine))


def with_effort(engine: Engine, factor: float) -> Engine:
    """Return an engine that draws `factor` times as much.

    Parameters
    ----------
    engine : engine object
        Any; one that does not draw is returned as it is.
    factor : float
        Above 0.

    Returns
    -------
    engine object
        Numbers of draws are multiplied by the factor, tolerances divided by its root.

    Examples
    --------
    >>> from permatch.inference.huber_law import HuberLaw
    >>> with_effort(HuberLaw(n_samples=1000), 4).n_samples
    4000
    """
    if factor == 1.0 or not draws(engine):
        return engine
    changes: dict[str, Any] = {}
    for option in fields(engine):
        name, value = option.name, getattr(engine, option.name)
        if value is None:
            continue
        if name in _COUNTS:
            wanted = max(min(value, _COUNTS[name]), round(value * factor))
            changes[name] = min(wanted, _MOST.get(name, MOST_DRAWS))
        elif name in _LIMITS:
            wanted = round(value * max(factor, 1.0))
            changes[name] = min(wanted, _MOST.get(name, MOST_DRAWS))
        elif name in _ERRORS:
            changes[name] = min(max(value, _ERRORS[name]), value / math.sqrt(factor))
    return replace(engine, **changes)


def with_own_seed(engine: Engine, number: int) -> Engine:
    """Return an engine whose draws are independent of those of other `number`s.

    Parameters
    ----------
    engine : engine object
        Any; one that does not draw is returned as it is.
    number : int
        From 0, which keeps the engine's own seed.

    Returns
    -------
    engine object
        With another seed.
    """
    if number == 0 or not draws(engine):
        return engine
    seed: Any = getattr(engine, "random_state")  # noqa: B009  (unknown to the base class)
    return replace(engine, **{"random_state": seed + _STRIDE * number})
