"""Find the constant to add to the log-odds of a table, and say where it falls short."""

import math
import warnings
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from permatch._types import FloatArray, IntArray
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
from permatch.linking.totals import Total

# Odds of this logarithm leave no doubt.
_FAR = 60.0
#: From so many pairs a table is large: a part of it is searched first.
LARGE = 200_000
# So many pairs of it.
_PILOT = 20_000
# Share of the links that counting may be off by, the more the longer it takes.
_CLOSE = 1e-6, 1e-5, 1e-4


@dataclass(frozen=True)
class Size:
    """What a search has to know of a table beforehand; parts of one are added up.

    Attributes
    ----------
    n_edges : int
        Pairs that may be linked.
    chances : Total
        Their probabilities by themselves, added up.
    largest : float
        The largest log-odds, of either sign.
    has_wide : bool
        Whether a component is too wide to be counted exactly.
    """

    n_edges: int = 0
    chances: Total = Total()
    largest: float = 0.0
    has_wide: bool = False

    @classmethod
    def of(cls, solver: Solver, chances: FloatArray) -> "Size":
        """Return that of a table whose pairs have these probabilities."""
        largest = float(np.abs(solver.problem.scores).max(initial=0.0))
        return cls(len(chances), Total.of(chances), largest, solver.has_wide)

    def __add__(self, other: "Size") -> "Size":
        return Size(
            self.n_edges + other.n_edges,
            self.chances + other.chances,
            max(self.largest, other.largest),
            self.has_wide or other.has_wide,
        )

    @property
    def precision(self) -> float:
        """Share of the links to which counting is worth its time."""
        # Beliefs are less precise than exact counts.
        return _CLOSE[(self.n_edges >= LARGE) + self.has_wide]


class Counted(Protocol):
    """A table whose links can be counted: in memory, or in parts."""

    @property
    def size(self) -> Size:
        """What is known of it beforehand."""
        ...

    @property
    def kind(self) -> str:
        """What is linked, in words."""
        ...

    def total(self, offset: float) -> Total:
        """Return the expected number of links at a constant."""
        ...

    def pilot(self) -> tuple[Solver, Total] | None:
        """Return what solves a part of a large table, and the pair probabilities in it."""
        ...

    def most_links(self) -> int:
        """Return the most links that the pairs allow."""
        ...


@dataclass(frozen=True, eq=False)
class OneTable:
    """A table in memory, with the probabilities of its pairs by themselves."""

    solver: Solver
    chances: FloatArray
    size: Size

    @classmethod
    def of(cls, solver: Solver, chances: FloatArray) -> "OneTable":
        """Return a table, and what is known of it."""
        return cls(solver, chances, Size.of(solver, chances))

    @property
    def kind(self) -> str:
        """What is linked, in words."""
        return self.solver.kind

    def total(self, offset: float) -> Total:
        """Return the expected number of links at a constant."""
        return self.solver.total(offset)

    def pilot(self) -> tuple[Solver, Total] | None:
        """Return what solves a part of a large table, and the pair probabilities in it."""
        quick = self.solver.quick
        n_edges = self.solver.problem.structure.components.n_edges
        chosen = choose_pilot(n_edges[quick], self.size.n_edges)
        if chosen is None:
            return None
        problem, edges = self.solver.part(quick[chosen])
        return self.solver.like(problem), Total.of(self.chances[edges])

    def most_links(self) -> int:
        """Return the most links that the pairs allow."""
        return most_links(self.solver)


def most_links(solver: Solver) -> int:
    """Return the most links that the pairs of a table allow."""
    problem = solver.problem
    return int(best_links(problem, np.ones(problem.structure.n_edges)).sum())


def choose_pilot(n_edges: IntArray, n_whole: int) -> IntArray | None:
    """Return which components, of so many edges each, to search first; None if all.

    Parameters
    ----------
    n_edges : ndarray
        Edges of the components that are quick to count, in order of their first left node.
    n_whole : int
        Edges of the whole table.
    """
    if n_whole < LARGE or 2 * n_edges.sum() < n_whole:
        return None
    order = np.random.default_rng(0).permutation(len(n_edges))
    n_taken = int(np.searchsorted(np.cumsum(n_edges[order]), _PILOT)) + 1
    return None if n_taken >= len(order) else np.sort(order[:n_taken])


def find_constant(table: Counted, expected: Expected, base: float) -> float:
    """Return the constant to add to all scores.

    Parameters
    ----------
    table : Counted
        Counts the links.
    expected : "pairs", float or None
        See `permatch.link`.
    base : float
        The constant at which a pair by itself has the probability that it came with.
    """
    if expected is None or not table.size.n_edges:
        return 0.0
    chances, count = table.size.chances, _counting(table, base)
    if expected == "pairs":
        search = _begin(table, chances.number, base, is_bounded=True)
        found = keep_count(count, chances, search)
        if found.is_implausible:
            _warn(table, chances.number, found)
        return base + found.offset
    wanted = float(expected)
    _check_possible(table, wanted)
    search = _begin(table, wanted, base, is_bounded=False)
    return base + find_offset(count, wanted, search).offset


def _counting(table: Counted | Solver, base: float) -> Counting:
    def count(offset: float) -> Count:
        total = table.total(base + offset)
        return Count(total.number, total.variance)

    return count


def _begin(table: Counted, wanted: float, base: float, *, is_bounded: bool) -> Search:
    """Return how to begin: of a large table, a part says where."""
    # Far enough for every pair to be certain, or hopeless.
    span = _FAR + table.size.largest
    search = Search(-span, span, close=table.size.precision)
    pilot = table.pilot()
    if pilot is None:
        return search
    part, chances = pilot
    share = chances.number / table.size.chances.number
    limits = search.bounded() if is_bounded else search
    near = find_offset(_counting(part, base), wanted * share, limits)
    return replace(search, start=near.offset, share=near.share)


def _warn(table: Counted, wanted: float, found: Found) -> None:
    """Warn that far fewer links are expected than the pair probabilities say."""
    warnings.warn(
        f"the pair probabilities add up to {wanted:,.1f} links, but with {table.kind} "
        f"only {found.number:,.1f} are expected (all odds were multiplied by "
        f"{math.exp(found.offset):.3g}; more would force unlikely pairs). The pair "
        "probabilities may be too high, or a table may contain duplicates. If you know the "
        "number of links, set expected_links=.",
        UserWarning,
        stacklevel=4,
    )


def _check_possible(table: Counted, wanted: float) -> None:
    """Refuse a number of links that cannot be expected."""
    most = table.most_links()
    if wanted >= most:
        raise InvalidOptionError(
            f"expected_links must be below {most:,}, the most links that these pairs "
            f"allow; got {wanted:g}. Ask for fewer, or list more pairs."
        )
