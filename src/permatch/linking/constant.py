"""Find the constant to add to the log-odds of a table, and say where it falls short."""

import math
import warnings
from dataclasses import replace

import numpy as np

from permatch._types import FloatArray
from permatch.decoding.capacities import best_links
from permatch.errors import InvalidOptionError
from permatch.linking.checks import Expected
from permatch.linking.counting import (
    Count,
    Counting,
    Found,
    Search,
    find_offset,
    keep_count,
)
from permatch.linking.solving import Solver

# Odds of this logarithm leave no doubt.
_FAR = 60.0


def find_constant(
    solver: Solver, chances: FloatArray, expected: Expected, base: float
) -> float:
    """Return the constant to add to all scores.

    Parameters
    ----------
    solver : Solver
        Counts the links.
    chances : ndarray of shape (n_edges,)
        The pair probabilities.
    expected : "pairs", float or None
        See `permatch.link`.
    base : float
        The constant at which a pair by itself has the probability that it came with.
    """
    if expected is None or not len(chances):
        return 0.0

    def count(offset: float) -> Count:
        return solver.count(base + offset)

    if expected == "pairs":
        wanted = float(chances.sum())
        search = _begin(solver, chances, wanted, base, is_bounded=True)
        found = keep_count(count, chances, search)
        if found.is_implausible:
            _warn(solver, wanted, found)
        return base + found.offset
    wanted = float(expected)
    _check_possible(solver, wanted)
    search = _begin(solver, chances, wanted, base, is_bounded=False)
    return base + find_offset(count, wanted, search).offset


def _begin(
    solver: Solver, chances: FloatArray, wanted: float, base: float, *, is_bounded: bool
) -> Search:
    """Return how to begin: of a large table, a part says where."""
    # Far enough for every pair to be certain, or hopeless.
    span = _FAR + float(np.abs(solver.problem.scores).max(initial=0.0))
    search = Search(-span, span, close=solver.precision)
    pilot = solver.pilot()
    if pilot is None:
        return search
    part, edges = pilot
    share = float(chances[edges].sum() / chances.sum())
    count: Counting = lambda offset: part.count(base + offset)  # noqa: E731
    near = find_offset(count, wanted * share, search.bounded() if is_bounded else search)
    return replace(search, start=near.offset, share=near.share)


def _warn(solver: Solver, wanted: float, found: Found) -> None:
    """Warn that far fewer links are expected than the pair probabilities say."""
    warnings.warn(
        f"the pair probabilities add up to {wanted:,.1f} links, but with {solver.kind} "
        f"only {found.number:,.1f} are expected (all odds were multiplied by "
        f"{math.exp(found.offset):.3g}; more would force unlikely pairs). The pair "
        "probabilities may be too high, or a table may contain duplicates. If you know the "
        "number of links, set expected_links=.",
        UserWarning,
        stacklevel=4,
    )


def _check_possible(solver: Solver, wanted: float) -> None:
    """Refuse a number of links that cannot be expected."""
    most = int(best_links(solver.problem, np.ones(solver.problem.structure.n_edges)).sum())
    if wanted >= most:
        raise InvalidOptionError(
            f"expected_links must be below {most:,}, the most links that these pairs "
            f"allow; got {wanted:g}. Ask for fewer, or list more pairs."
        )
