"""Fits at one alpha after the other, as a search for alpha makes them.

They only have to be told apart, so they end sooner than a fit that is kept.
"""

from collections.abc import Callable
from typing import Any, Protocol

from permatch.optimizers import BaseOptimum

# Coefficients on a path may be off by this share of their length, or by this many times
# the tolerance of a fit if that is less.
_SHARE, _TIMES = 1e-3, 1e3
# Gradients may be so many times as large as at the end of a fit.
_STEEPER = 100.0
# The duality gap of a fit on a path, as a fraction of its objective, if so many rounds do
# not reach that of other fits.
_GAP, _ROUNDS = 0.05, 100


class Path(Protocol):
    """The optima of a problem at falling alphas."""

    def advance(self, alpha: float) -> BaseOptimum:
        """Return the optimum at the next alpha."""
        ...

    def follow(self, leader: Any) -> None:
        """Learn what there is to learn from the path of a similar problem."""
        ...


class WarmPath:
    """Fits each of which starts where the last one ended.

    `options` are those of `LinearProblem.solve`.
    """

    def __init__(self, problem: Any, options: dict[str, Any]) -> None:
        self._problem, self._options = problem, options
        self._last: Any = None

    def advance(self, alpha: float) -> BaseOptimum:
        """Return the optimum at the next alpha."""
        start = None if self._last is None else self._problem.start_after(self._last)
        self._last = self._problem.settle(alpha, start, **self._options)
        return self._last

    def follow(self, leader: Any) -> None:
        """Learn nothing."""


def distance_on_path(tol: float) -> float:
    """Return how far from its optimum a fit on a path may end, as a share of its length."""
    return min(_SHARE, _TIMES * tol)


def gap_on_path(tol: float) -> Callable[[int], float]:
    """Return the duality gap at which a fit on a path ends after some rounds."""
    return lambda n_rounds: tol if n_rounds < _ROUNDS else max(tol, _GAP)


def steeper(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options of a solver for a fit on a path."""
    return options | {"tol": _STEEPER * options["tol"]}
