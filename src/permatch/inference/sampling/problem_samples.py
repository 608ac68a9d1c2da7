"""Where the samples of one problem come from, component by component."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from permatch._types import BoolArray, IntArray
from permatch.errors import SizeLimitError
from permatch.inference._samples import Samples
from permatch.inference.base import AbstractEngine
from permatch.inference.frontier import Frontier
from permatch.inference.sampling.frontier_samples import FrontierSamples
from permatch.inference.sampling.matching_samples import MatchingSamples
from permatch.inference.subset_dp import SubsetDP
from permatch.kernels.frontier_plan import frontier_plan
from permatch.problems import Problem

# Nodes per side of squares whose samples come from one table.
_TABLE = SubsetDP().max_size
# Widths up to which squares are left to the frontier: larger ones, and all.
_NARROW, _FEW_OPEN = 20, 12


@dataclass(frozen=True, eq=False)
class ProblemSamples:
    """Sources of samples of parts of a problem, put together.

    Attributes
    ----------
    fixed : ndarray of shape (n_left,)
        The matching of nodes that have no choice.
    parts : sequence of (left nodes, right nodes, source)
        What is drawn, and the numbers in the problem of the nodes that it is about.

    Examples
    --------
    >>> import numpy as np
    >>> from permatch.inference import AutoEngine
    >>> from permatch.scores import check_problem
    >>> problem, _ = check_problem(np.eye(3), 0.0, 0.0)
    >>> find_samples(problem, AutoEngine()).sample(2, np.random.default_rng(0)).shape
    (2, 3)
    """

    fixed: IntArray
    parts: Sequence[tuple[IntArray, IntArray, Samples]]

    def sample(self, n: int, rng: np.random.Generator, n_jobs: int = 1) -> IntArray:
        """Draw `n` matchings; the same for every `n_jobs`.

        Parameters
        ----------
        n : int
            Number of matchings.
        rng : numpy.random.Generator
            Source of all randomness.
        n_jobs : int
            Threads.

        Returns
        -------
        ndarray of shape (n, n_left)
            One matching per row, -1 for unmatched nodes.
        """
        drawn = [source.sample(n, rng, n_jobs) for *_, source in self.parts]
        if len(drawn) == 1 and _is_whole(*self.parts[0][:2], len(self.fixed)):
            return drawn[0]
        matchings = np.tile(self.fixed, (n, 1))
        for (left, right, _), some in zip(self.parts, drawn, strict=True):
            matchings[:, left] = np.append(right, -1)[some]
        return matchings


def _is_whole(left: IntArray, right: IntArray, n_left: int) -> bool:
    """Return whether a part has all left nodes, and numbers nodes as the problem does."""
    return np.array_equal(left, np.arange(n_left)) and np.array_equal(
        right, np.arange(len(right))
    )


def find_samples(problem: Problem, engine: AbstractEngine) -> ProblemSamples:
    """Return the source of samples of a problem with one graph that has a matching.

    Parameters
    ----------
    problem : Problem
        One graph.
    engine : AbstractEngine
        Asked for samples of its own where no exact ones are at hand.

    Returns
    -------
    ProblemSamples
        Of matchings (n, n_left), -1 for unmatched.
    """
    structure = problem.structure
    found = structure.components
    fixed = np.full(structure.n_left, -1, dtype=np.intp)
    is_pair = found.n_edges == 1
    is_pair &= ~_has_free_nodes(problem)
    paired = np.isin(found.of_left, np.nonzero(is_pair)[0])
    fixed[paired] = structure.right[structure.starts[:-1][paired]]
    (is_open,) = np.nonzero(~is_pair)
    if structure.n_left == structure.n_right and problem.is_perfect:
        parts = _square_parts(problem, is_open, engine)
    else:
        parts = _component_parts(problem, is_open, engine)
    return ProblemSamples(fixed, parts)


_Part = tuple[IntArray, IntArray, Samples]


def _square_parts(
    problem: Problem, is_open: IntArray, engine: AbstractEngine
) -> list[_Part]:
    """Return the source for all open nodes of a square that must be matched, as one."""
    found = problem.structure.components
    (rows,) = np.nonzero(np.isin(found.of_left, is_open))
    (cols,) = np.nonzero(np.isin(found.of_right, is_open))
    has_own = type(engine).own_samples is not AbstractEngine.own_samples
    if len(rows) > _TABLE and not has_own:
        return _component_parts(problem, is_open, engine)
    core = np.ascontiguousarray(problem.dense()[np.ix_(rows, cols)])
    return [(rows, cols, engine.own_samples(core) or MatchingSamples.build(core))]


def _component_parts(
    problem: Problem, is_open: IntArray, engine: AbstractEngine
) -> list[_Part]:
    """Return the sources of open components: narrow ones together, others one by one."""
    plan = frontier_plan(problem.structure)
    width, has_free = plan.width[is_open], _has_free_nodes(problem)
    # Squares of wide components have tables of their own, or are drawn by rejection.
    is_large = problem.structure.components.sizes[0][is_open] > _TABLE
    most = np.where(is_large, _NARROW, _FEW_OPEN)
    is_narrow = width <= np.where(has_free[is_open], Frontier().max_width, most)
    parts: list[_Part] = []
    if is_narrow.any():
        part = problem.select(is_open[is_narrow])
        parts.append((part.left, part.right, FrontierSamples.build(part.problem)))
    for c in is_open[~is_narrow].tolist():
        part = problem.select(np.array([c]))
        own = engine.own_problem_samples(part.problem) if has_free[c] else None
        if own is not None:
            parts.append((part.left, part.right, own))
            continue
        if has_free[c]:
            n, k = part.problem.structure.n_left, part.problem.structure.n_right
            raise SizeLimitError(
                "exact samples of components whose nodes may stay unmatched need a width "
                f"of at most {Frontier().max_width}; that of left node {part.left[0]} "
                f"({n} x {k} nodes) has at least {plan.width[c]}. Leave out edges that "
                "hardly matter, fix known pairs (given={left: right}), or use "
                "engine='swap_chain', whose samples are approximate."
            )
        source = MatchingSamples.build(part.problem.dense())
        parts.append((part.left, part.right, source))
    return parts


def _has_free_nodes(problem: Problem) -> BoolArray:
    """Return which components have nodes that may stay unmatched."""
    found = problem.structure.components
    has_free = np.zeros(len(found), dtype=bool)
    for labels, unmatched in (
        (found.of_left, problem.unmatched_left),
        (found.of_right, problem.unmatched_right),
    ):
        has_free[labels[(unmatched > -np.inf) & (labels >= 0)]] = True
    return has_free
